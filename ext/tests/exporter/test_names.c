/* The table of names: definition, replacement, eviction, and text from the network. */
#include "core/exporter/names.h"
#include "tests/support/check.h"

enum { SEED = 99 };

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    fb_names names;
    uint64_t evicted;
} table;

static void table_open(table *t) {
    memset(t, 0, sizeof *t);
    t->memory = fb_check_memory(&t->allocator);
}

static void table_close(table *t) {
    fb_names_free(&t->names, &t->memory);
    CHECK_EQUAL(t->memory.used + t->allocator.held, 0);
}

static bool define(table *t, fb_name_kind kind, uint64_t id, const char *text, size_t size) {
    return fb_names_define(&t->names, &t->memory, SEED, kind, (fb_name_id){0, id},
                           (fb_bytes){(const uint8_t *)text, size}, 0, &t->evicted);
}

/* Return the name of an id as text, or "-". */
static const char *name_of(const table *t, fb_name_kind kind, uint64_t id) {
    static char text[FB_NAME_SIZE + 1];
    const fb_name *name = fb_names_find(&t->names, kind, (fb_name_id){0, id});
    if (!name) return "-";
    memcpy(text, name->text, name->size);
    text[name->size] = '\0';
    return text;
}

#define CHECK_NAME(t, kind, id, expected) CHECK(strcmp(name_of((t), (kind), (id)), (expected)) == 0)

static void keeps_the_latest_definition(void) {
    table t;
    table_open(&t);
    CHECK(define(&t, FB_NAME_INTERFACE, 3, "eth0", 4));
    CHECK(define(&t, FB_NAME_VRF, 3, "blue", 4));
    CHECK(define(&t, FB_NAME_INTERFACE, 3, "xe-0/0/1", 8));
    CHECK_NAME(&t, FB_NAME_INTERFACE, 3, "xe-0/0/1");
    CHECK_NAME(&t, FB_NAME_VRF, 3, "blue");
    CHECK_NAME(&t, FB_NAME_SAMPLER, 3, "-");
    CHECK_NAME(&t, FB_NAME_INTERFACE, 4, "-");
    CHECK_EQUAL(t.names.count, 2);
    CHECK(define(&t, FB_NAME_VRF, 3, "\0\0", 2)); /* an empty text removes the name */
    CHECK_NAME(&t, FB_NAME_VRF, 3, "-");
    CHECK_EQUAL(t.names.count, 1);
    table_close(&t);
}

static void keeps_speeds(void) {
    table t;
    table_open(&t);
    const fb_name_id id = {0, 7};
    CHECK(fb_names_define(&t.names, &t.memory, SEED, FB_NAME_INTERFACE_SPEED, id, (fb_bytes){0},
                          10000000000, &t.evicted));
    CHECK(fb_names_define(&t.names, &t.memory, SEED, FB_NAME_INTERFACE_SPEED, id, (fb_bytes){0},
                          40000000000, &t.evicted));
    const fb_name *speed = fb_names_find(&t.names, FB_NAME_INTERFACE_SPEED, id);
    CHECK(speed && speed->speed == 40000000000 && speed->size == 0);
    CHECK_EQUAL(t.names.count, 1);
    table_close(&t);
}

static void repairs_and_cuts_text(void) {
    table t;
    char text[600];
    table_open(&t);
    CHECK(define(&t, FB_NAME_INTERFACE, 1, "a\xff\xe2\x82z\0\0", 7));
    CHECK_NAME(&t, FB_NAME_INTERFACE, 1, "a\xef\xbf\xbd\xef\xbf\xbdz");
    /* 254 bytes and a character of 2 bytes: the character does not fit */
    memset(text, 'x', sizeof text);
    memcpy(text + 254, "\xc3\xa9", 2);
    CHECK(define(&t, FB_NAME_INTERFACE, 2, text, sizeof text));
    CHECK_EQUAL(strlen(name_of(&t, FB_NAME_INTERFACE, 2)), 254);
    /* only malformed bytes: each becomes 3 bytes */
    memset(text, 0xff, sizeof text);
    CHECK(define(&t, FB_NAME_INTERFACE, 3, text, sizeof text));
    CHECK_EQUAL(strlen(name_of(&t, FB_NAME_INTERFACE, 3)), 255);
    for (size_t size = 0; size < sizeof text; size++) {
        memset(text, 'y', sizeof text);
        CHECK(define(&t, FB_NAME_INTERFACE, 4, text, size));
        CHECK_EQUAL(strlen(name_of(&t, FB_NAME_INTERFACE, 4)) == 1 ? 0 : 1, size > 1);
    }
    CHECK_EQUAL(strlen(name_of(&t, FB_NAME_INTERFACE, 4)), FB_NAME_SIZE);
    /* NULs that are at the end because the rest was cut off */
    memset(text, 0, sizeof text);
    text[299] = 'z';
    CHECK(define(&t, FB_NAME_INTERFACE, 5, text, 300));
    CHECK_NAME(&t, FB_NAME_INTERFACE, 5, "-");
    text[0] = 'a';
    CHECK(define(&t, FB_NAME_INTERFACE, 5, text, 300));
    CHECK_EQUAL(fb_names_find(&t.names, FB_NAME_INTERFACE, (fb_name_id){0, 5})->size, 1);
    table_close(&t);
}

static void evicts_the_name_defined_longest_ago(void) {
    table t;
    table_open(&t);
    for (uint64_t id = 0; id < FB_MAX_NAMES; id++) CHECK(define(&t, FB_NAME_VRF, id, "n", 1));
    CHECK_EQUAL(t.evicted, 0);
    CHECK(define(&t, FB_NAME_VRF, 0, "n", 1)); /* the same again: it is the newest now */
    CHECK(define(&t, FB_NAME_VRF, FB_MAX_NAMES, "new", 3));
    CHECK_EQUAL(t.evicted, 1);
    CHECK_NAME(&t, FB_NAME_VRF, 0, "n");
    CHECK_NAME(&t, FB_NAME_VRF, 1, "-");
    CHECK_NAME(&t, FB_NAME_VRF, FB_MAX_NAMES, "new");
    for (uint64_t id = 0; id < FB_MAX_NAMES; id++) define(&t, FB_NAME_USER, id, "u", 1);
    CHECK_EQUAL(t.evicted, 1 + FB_MAX_NAMES);
    CHECK_EQUAL(t.names.count, FB_MAX_NAMES);
    CHECK_NAME(&t, FB_NAME_VRF, 0, "-");
    table_close(&t);
}

/* With a small budget, new names replace old ones, and the table stays consistent. */
static void stays_within_its_budget(void) {
    table t;
    table_open(&t);
    t.memory.limit = 4096;
    for (uint64_t id = 0; id < 1000; id++)
        CHECK(define(&t, FB_NAME_APPLICATION, id, "abcdefgh", 8));
    CHECK_NAME(&t, FB_NAME_APPLICATION, 999, "abcdefgh");
    CHECK_EQUAL(t.evicted + t.names.count, 1000);
    CHECK(t.names.count > 10);
    t.memory.limit = t.memory.used; /* a longer name needs the room of several */
    char text[FB_NAME_SIZE];
    memset(text, 'z', sizeof text);
    CHECK(define(&t, FB_NAME_APPLICATION, 5000, text, sizeof text));
    CHECK_EQUAL(t.evicted + t.names.count, 1001);
    t.memory.limit = 1; /* nothing fits */
    CHECK(!define(&t, FB_NAME_APPLICATION, 5001, text, sizeof text));
    CHECK_EQUAL(t.names.count, 0);
    table_close(&t);
}

static void survives_every_failed_allocation(void) {
    for (size_t fail_at = 1;; fail_at++) {
        table t;
        table_open(&t);
        t.allocator.fail_at = fail_at;
        for (uint64_t id = 0; id < 100; id++)
            if (define(&t, FB_NAME_INTERFACE, id, "abc", 3))
                CHECK_NAME(&t, FB_NAME_INTERFACE, id, "abc");
        bool done = t.allocator.calls < fail_at;
        table_close(&t);
        if (done) return;
    }
}

static void reads_ids_of_any_width(void) {
    static const uint8_t bytes[17] = {0, 0, 0, 3};
    static const uint8_t address[16] = {0x20, 1, 0x0d, 0xb8, [15] = 9};
    static const uint8_t skype[4] = {13, 0, 0, 49}, wide[6] = {13, 0, 0, 0, 0, 49};
    fb_name_id id, other;
    CHECK(fb_name_id_read(FB_NAME_INTERFACE, bytes, 4, &id));
    CHECK(id.high == 0 && id.low == 3);
    CHECK(fb_name_id_read(FB_NAME_INTERFACE, bytes + 2, 2, &other));
    CHECK(other.high == id.high && other.low == id.low);
    CHECK(fb_name_id_read(FB_NAME_USER, address, 16, &id));
    CHECK(id.high == 0x20010db800000000 && id.low == 9);
    /* the selector of an application has leading zeros, its engine does not (RFC 6759) */
    CHECK(fb_name_id_read(FB_NAME_APPLICATION, skype, 4, &id));
    CHECK(fb_name_id_read(FB_NAME_APPLICATION, wide, 6, &other));
    CHECK(id.high == other.high && id.low == other.low && id.low == 49 && id.high >> 56 == 13);
    CHECK(fb_name_id_read(FB_NAME_APPLICATION, skype, 1, &id));
    CHECK(id.high >> 56 == 13 && id.low == 0);
    /* IPv4 and MAC addresses of users do not collide */
    CHECK(fb_name_id_read(FB_NAME_USER, bytes, 4, &id) &&
          fb_name_id_read(FB_NAME_USER, bytes, 6, &other));
    CHECK(id.high != other.high);
    CHECK(!fb_name_id_read(FB_NAME_INTERFACE, bytes, 0, &id));
    CHECK(!fb_name_id_read(FB_NAME_INTERFACE, bytes, 17, &id));
}

/* Ids whose lowest or highest bits are equal. */
static void keeps_chains_short_for_any_ids(void) {
    for (unsigned shift = 0; shift <= 48; shift += 16)
        for (int high = 0; high < 2; high++) {
            table t;
            size_t longest = 0;
            table_open(&t);
            for (uint64_t i = 0; i < 4096; i++) {
                fb_name_id id = high ? (fb_name_id){i << shift, 0} : (fb_name_id){0, i << shift};
                CHECK(fb_names_define(&t.names, &t.memory, SEED, FB_NAME_USER, id,
                                      (fb_bytes){(const uint8_t *)"a", 1}, 0, &t.evicted));
            }
            for (size_t i = 0; i < t.names.bucket_count; i++) {
                size_t length = 0;
                for (const fb_name *name = t.names.buckets[i]; name; name = name->next) length++;
                if (length > longest) longest = length;
            }
            CHECK(longest <= 8);
            table_close(&t);
        }
}

RUN_TESTS(TEST(keeps_the_latest_definition), TEST(keeps_speeds), TEST(repairs_and_cuts_text),
          TEST(evicts_the_name_defined_longest_ago), TEST(stays_within_its_budget),
          TEST(survives_every_failed_allocation), TEST(reads_ids_of_any_width),
          TEST(keeps_chains_short_for_any_ids))
