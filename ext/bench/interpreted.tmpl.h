/* The interpreting decoder (interpreted.h), for one emitter. It converts values and derives the
   ethertype with code of the core. Not all functions of the included files are used. */
#include "core/emit/emitter.h"
#include "core/exporter/sampling.h"

#include <math.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "core/decode/value.tmpl.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/derived.tmpl.h"
#pragma GCC diagnostic pop

enum { MAX_WAITING = 64, HEADER = 20 };

/* A value of a lower rank: a field, or a number if `field` is empty. */
typedef struct {
    fb_target target;
    uint64_t number;
    fb_bytes field;
} lower_value;

typedef struct {
    lower_value values[MAX_WAITING];
    size_t count;
} lower_values;

static fb_cursor put_lower_value(fb_context *c, fb_emitter *row, fb_cursor at,
                                 const lower_value *value) {
    if (value->field.data)
        return put_field(c, row, at, value->target, value->field.data, value->field.size);
    return put_uint(c, row, at, value->target, value->number);
}

/* Put a value of the best rank immediately, or let a lower one wait. If the list is full, it is put
   at once. */
static fb_cursor put_or_wait(fb_context *c, fb_emitter *row, fb_cursor at, lower_values *waiting,
                             lower_value value) {
    if (!(c->plan->columns[value.target.column].flags & FB_COLUMN_ENABLED)) return at;
    if (!value.target.rank || waiting->count == MAX_WAITING)
        return put_lower_value(c, row, at, &value);
    waiting->values[waiting->count++] = value;
    return at;
}

static fb_cursor put_waiting(fb_context *c, fb_emitter *row, fb_cursor at,
                             const lower_values *waiting) {
    size_t left = waiting->count;
    for (unsigned rank = 1; left; rank++)
        for (size_t i = 0; i < waiting->count; i++)
            if (waiting->values[i].target.rank == rank) {
                at = put_lower_value(c, row, at, &waiting->values[i]);
                left--;
            }
    return at;
}

static fb_cursor interpret_element(fb_context *c, fb_emitter *row, fb_cursor at,
                                   lower_values *waiting, uint64_t pen, uint32_t id,
                                   fb_bytes field) {
    size_t count;
    const fb_plan_element *elements = fb_plan_find_elements(c->plan, pen, id, &count);
    for (size_t i = 0; i < count; i++) {
        fb_target target = elements[i].target;
        if (elements[i].occurrence > 1) continue;
        target.kind = (uint8_t)fb_column_kind(&c->plan->columns[target.column], target.kind);
        at = put_or_wait(c, row, at, waiting, (lower_value){target, 0, field});
    }
    return at;
}

static fb_cursor interpret_derived(fb_context *c, fb_emitter *row, fb_cursor at,
                                   lower_values *waiting, fb_source source, uint64_t value) {
    FB_FOR_TARGETS(c, source, target)
    at = put_or_wait(c, row, at, waiting, (lower_value){*target, value, {NULL, 0}});
    return at;
}

static fb_cursor interpret_record(fb_context *c, fb_emitter *row, fb_cursor at,
                                  const fb_compiled_template *compiled, const uint8_t *record) {
    lower_values waiting;
    const uint8_t *p = record;
    waiting.count = 0;
    for (size_t i = 0; i < compiled->field_count; p += compiled->fields[i++].size) {
        fb_bytes field = {p, compiled->fields[i].size};
        at = interpret_element(c, row, at, &waiting, 0, compiled->fields[i].id, field);
        at =
            interpret_element(c, row, at, &waiting, FB_PEN_NETFLOW9, compiled->fields[i].id, field);
    }
    at = interpret_derived(c, row, at, &waiting, FB_SOURCE_DERIVED_SAMPLING_RATE,
                           fb_sampling_find(c, compiled, record, NULL));
    at = interpret_derived(c, row, at, &waiting, FB_SOURCE_DERIVED_ETYPE,
                           derive_etype(compiled, record, NULL));
    return put_waiting(c, row, at, &waiting);
}

static fb_status interpret_records(fb_context *c, fb_emitter *row,
                                   const fb_compiled_template *compiled, const uint8_t *set,
                                   const uint8_t *end, fb_position *position) {
    size_t size = compiled->record_size,
           max_size = c->plan->max_fixed_size + size * c->plan->max_size_per_byte;
    fb_cursor at;
    for (const uint8_t *p = set + (position->record ? position->record : 4);
         (size_t)(end - p) >= size; p += size) {
        position->record = (size_t)(p - set);
        if (!FB_EMIT(begin)(row, max_size, &at)) return FB_NO_SPACE;
        FB_EMIT(finish)(row, interpret_record(c, row, at, compiled, p));
        c->counters->rows[FB_ROWS_FLOWS]++;
    }
    position->record = 0;
    return FB_OK;
}

static fb_status interpret_sets(fb_context *c, fb_emitter *row, fb_position *position) {
    const uint8_t *payload = c->datagram->payload.data, *end = payload + c->datagram->payload.size;
    for (const uint8_t *set = payload + position->set, *next; end - set >= 4; set = next) {
        size_t length = fb_load16(set + 2);
        if (length < 4 || length > (size_t)(end - set)) return FB_OK;
        next = set + length;
        position->set = (size_t)(set - payload);
        fb_template *template =
            c->domain ? fb_domain_find_template(c->domain, fb_load16(set)) : NULL;
        if (!template || !template->compiled || template->compiled->options) continue;
        if (interpret_records(c, row, template->compiled, set, next, position) != FB_OK)
            return FB_NO_SPACE;
    }
    return FB_OK;
}

/* Put the columns of the default schema that all flows of a datagram share. */
static void interpret_header(fb_context *c, fb_emitter *row, const uint8_t *header) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *address = c->datagram->source;
    bool ipv4 = memcmp(address, mapped, 12) == 0;
    fb_cursor at;
    FB_EMIT(begin_constants)(row, &at);
    set_time(c, row, &at, FB_SOURCE_META_TIME_RECEIVED, c->datagram->time);
    set_time(c, row, &at, FB_SOURCE_META_TIME_EXPORTED, c->export_time);
    set_ip(c, row, &at, FB_SOURCE_META_EXPORTER_ADDRESS, ipv4 ? address + 12 : address,
           ipv4 ? 4 : 16);
    set_ip(c, row, &at, FB_SOURCE_META_SOURCE_ADDRESS, ipv4 ? address + 12 : address,
           ipv4 ? 4 : 16);
    set_uint(c, row, &at, FB_SOURCE_META_SOURCE_PORT, c->datagram->source_port);
    set_uint(c, row, &at, FB_SOURCE_META_FLOW_TYPE, 3);
    set_uint(c, row, &at, FB_SOURCE_META_SEQUENCE_NUMBER, fb_load32(header + 12));
    set_uint(c, row, &at, FB_SOURCE_META_OBSERVATION_DOMAIN_ID, fb_load32(header + 16));
    FB_EMIT(end_constants)(row, at);
}

static void open_datagram(fb_context *c, fb_decoder *decoder) {
    const uint8_t *header = c->datagram->payload.data;
    c->exporter =
        fb_exporters_get(&decoder->exporters, c->datagram->source, 0, c->datagram->source);
    c->counters = &c->exporter->counters;
    c->exporter_address = c->datagram->source;
    c->export_time = fb_load32(header + 8) * FB_SECOND;
    c->uptime = fb_load32(header + 4);
    c->has_uptime = true;
    fb_context_need_domain(c, 9, fb_load32(header + 16));
}

static fb_status interpret_datagram(fb_context *c, fb_decoder *decoder, fb_emitter *row,
                                    fb_position *position) {
    const uint8_t *header = c->datagram->payload.data;
    if (fb_payload_sniff(c->datagram->payload) != 9 || c->datagram->payload.size < HEADER)
        return FB_OK;
    open_datagram(c, decoder);
    if (!position->set) {
        c->counters->datagrams++;
        c->counters->bytes += c->datagram->payload.size;
        interpret_header(c, row, header);
        position->set = HEADER;
    }
    if (interpret_sets(c, row, position) != FB_OK) return FB_NO_SPACE;
    fb_context_check_sequence(c, FB_SEQUENCE_PACKETS, fb_load32(header + 12), c->uptime,
                              (fb_sequence_content){.units = 1});
    return FB_OK;
}

fb_status FB_EMIT(interpret)(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                             fb_position *position, fb_emitter *row) {
    while (position->datagram < count) {
        fb_context c = {
            .plan = decoder->plan,
            .exporters = &decoder->exporters,
            .datagram = &datagrams[position->datagram],
            .fault = &decoder->fault,
            .index = position->datagram,
        };
        if (interpret_datagram(&c, decoder, row, position) != FB_OK) return FB_NO_SPACE;
        *position = (fb_position){position->datagram + 1, 0, 0};
    }
    return FB_OK;
}
