/* The ranges are made in one pass over the sorted networks. A stack holds the networks that contain
   the current address. */
#include "core/base/prefix_table.h"

#include <stdlib.h>

#define MAX_DEPTH    131        /* no network, networks of 0 to 128 bits, and the block of IPv4 */
#define MAX_PREFIXES (1u << 28) /* so that sizes in bytes do not overflow */

/* A network with its first and last address. */
typedef struct {
    fb_address_number first, last;
    uint32_t order; /* index + 1; 0: no network of the caller */
    uint8_t bits;
} span;

static fb_address_number load_address(const uint8_t address[16]) {
    return (fb_address_number){fb_load64(address), fb_load64(address + 8)};
}

static int compare_addresses(fb_address_number a, fb_address_number b) {
    if (a.high != b.high) return a.high < b.high ? -1 : 1;
    if (a.low != b.low) return a.low < b.low ? -1 : 1;
    return 0;
}

/* Outer networks come before those that they contain, and equal ones in their order. */
static int compare_spans(const void *left, const void *right) {
    const span *a = left, *b = right;
    int order = compare_addresses(a->first, b->first);
    if (order) return order;
    if (a->bits != b->bits) return a->bits < b->bits ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Return the bits of one half of an address that vary within a network. `bits` counts from the
   start of that half. */
static uint64_t host_bits(int bits) {
    if (bits <= 0) return UINT64_MAX;
    return bits >= 64 ? 0 : UINT64_MAX >> bits;
}

static span make_span(const fb_prefix *prefix, uint32_t order) {
    fb_address_number address = load_address(prefix->address);
    uint64_t high = host_bits(prefix->bits), low = host_bits(prefix->bits - 64);
    return (span){
        .first = {address.high & ~high, address.low & ~low},
        .last = {address.high | high, address.low | low},
        .order = order,
        .bits = prefix->bits,
    };
}

/* Begin a range of a network. It replaces one that begins at the same address. */
static void begin_range(fb_prefix_table *table, fb_address_number first, const span *network) {
    fb_prefix_range *latest = table->count ? &table->ranges[table->count - 1] : NULL;
    bool replaces = latest && !compare_addresses(latest->first, first);
    if (!replaces) latest = &table->ranges[table->count++];
    *latest = (fb_prefix_range){first, network->order - 1}; /* 0 becomes FB_PREFIX_NONE */
}

/* End the innermost network. The range of the network around it continues after it. */
static void end_network(fb_prefix_table *table, const span *innermost) {
    fb_address_number next = {innermost->last.high, innermost->last.low + 1};
    if (!next.low) next.high++;
    if (next.high || next.low) begin_range(table, next, innermost - 1);
}

/* Divide all addresses into ranges, and set the items of `outer`. REQUIRES: the spans are sorted,
   and no two are equal. */
static void make_ranges(fb_prefix_table *table, const span *spans, size_t count, uint32_t *outer) {
    span open[MAX_DEPTH] = {{.last = {UINT64_MAX, UINT64_MAX}}}, *innermost = open;
    begin_range(table, (fb_address_number){0, 0}, innermost);
    for (size_t i = 0; i < count; i++) {
        for (; compare_addresses(innermost->last, spans[i].first) < 0; innermost--)
            end_network(table, innermost);
        if (outer && spans[i].order) outer[spans[i].order - 1] = innermost->order - 1;
        *++innermost = spans[i];
        begin_range(table, spans[i].first, innermost);
    }
    for (; innermost > open; innermost--) end_network(table, innermost);
}

/* Remove spans that equal the one after them. Return the number of spans that remain. */
static size_t remove_equal(span *spans, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count || spans[i].bits != spans[i + 1].bits ||
                    compare_addresses(spans[i].first, spans[i + 1].first);
        if (last) spans[kept++] = spans[i];
    }
    return kept;
}

/* Write one span more than there are networks. */
static void fill_spans(span *spans, const fb_prefix *prefixes, size_t count) {
    /* shorter networks of IPv6 end at this block; an equal network of the caller is inside it */
    static const fb_prefix ipv4 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
    spans[0] = make_span(&ipv4, 0);
    spans[0].bits = 95;
    for (size_t i = 0; i < count; i++) spans[i + 1] = make_span(&prefixes[i], (uint32_t)i + 1);
    qsort(spans, count + 1, sizeof *spans, compare_spans);
}

static bool are_valid(const fb_prefix *prefixes, size_t count) {
    bool valid = count <= MAX_PREFIXES;
    for (size_t i = 0; valid && i < count; i++) valid = prefixes[i].bits <= 128;
    return valid;
}

fb_status fb_prefix_table_new(fb_prefix_table *table, const fb_prefix *prefixes, size_t count,
                              uint32_t *outer, fb_memory *memory) {
    *table = (fb_prefix_table){.memory = memory, .capacity = 2 * (count + 1) + 1};
    if (!are_valid(prefixes, count)) return FB_BAD_ARGUMENT;
    span *spans = fb_memory_allocate(memory, (count + 1) * sizeof *spans);
    table->ranges = fb_memory_allocate(memory, table->capacity * sizeof *table->ranges);
    bool complete = spans && table->ranges;
    if (complete) {
        fill_spans(spans, prefixes, count);
        make_ranges(table, spans, remove_equal(spans, count + 1), outer);
    }
    fb_memory_release(memory, spans, (count + 1) * sizeof *spans);
    if (!complete) fb_prefix_table_free(table);
    return complete ? FB_OK : FB_NO_MEMORY;
}

void fb_prefix_table_free(fb_prefix_table *table) {
    if (table->memory)
        fb_memory_release(table->memory, table->ranges, table->capacity * sizeof *table->ranges);
    *table = (fb_prefix_table){0};
}

uint32_t fb_prefix_table_find(const fb_prefix_table *table, const uint8_t address[16]) {
    fb_address_number wanted = load_address(address);
    size_t low = 0, high = table->count; /* ranges before `low` begin at or before the address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_addresses(table->ranges[middle].first, wanted) <= 0) low = middle + 1;
        else high = middle;
    }
    return low ? table->ranges[low - 1].value : FB_PREFIX_NONE;
}
