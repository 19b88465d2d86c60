/* Records whose fields are in a table: less common records of flow samples (FB_FLOW_FIELD_LIST) and
   counter records that begin with strings (FB_COUNTER_TEXT_LIST). A record that is cut short gives
   no values. A record of a flow sample is not read if none of its fields feeds a column. */
#ifndef FB_DECODE_SFLOW_FIELDS_TMPL_H
#define FB_DECODE_SFLOW_FIELDS_TMPL_H

#include "core/packet/sflow_layout.h"
#include "core/decode/field.tmpl.h"
#include "core/decode/sflow_records.tmpl.h"
#include "core/decode/value.tmpl.h"

enum { MOST_FIELDS = 16 }; /* of one record */

typedef struct {
    uint8_t kind; /* fb_kind */
    uint8_t size; /* 0: variable */
} fb_record_field;

/* Put the bytes of a record, converted by the kind of the source. */
static void set_bytes(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                      fb_bytes bytes) {
    FB_FOR_TARGETS(c, source, target)
    *at = put_field(c, emitter, *at, *target, bytes.data, bytes.size);
}

/* Read a string (RFC 4506 section 4.11). An empty string means unknown. */
static bool read_string(fb_xdr *xdr, fb_bytes *text) {
    uint32_t length;
    return fb_xdr_read_word(xdr, &length) && read_opaque(xdr, length, text);
}

static void set_string(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                       fb_bytes text) {
    if (text.size) set_bytes(c, emitter, at, source, text);
}

/* Read a counted array of words. */
static bool read_words(fb_xdr *xdr, fb_bytes *words) {
    uint32_t count;
    if (!fb_xdr_read_word(xdr, &count) || count > (size_t)(xdr->end - xdr->p) / 4) return false;
    return read_opaque(xdr, 4 * count, words);
}

FB_INLINE fb_cursor put_words(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_source source,
                              fb_bytes words) {
    for (const uint8_t *p = words.data, *end = p + words.size; p < end; p += 4)
        set_member(c, emitter, &at, source, fb_load32(p));
    return at;
}

static void count_bad_record(fb_context *c, fb_bytes record) {
    fb_context_count(c, FB_BAD_SAMPLE_RECORD, record.data);
}

/* Return true for an unknown value. In a counter or gauge of 32 or 64 bits, all bits are set. A
   float is unknown if it is not a valid load (sFlow Host Structures: -1). */
static bool is_unknown(fb_kind kind, const uint8_t *p, size_t size) {
    double real;
    if (kind == FB_KIND_FLOAT) return !fb_load_real(p, size, &real) || !(real >= 0);
    if (kind != FB_KIND_UINT) return false;
    return (size == 4 && fb_load32(p) == UINT32_MAX) || (size == 8 && fb_load64(p) == UINT64_MAX);
}

static bool read_record_field(fb_xdr *xdr, fb_record_field field, fb_bytes *value) {
    if (field.size) return read_opaque(xdr, field.size, value);
    if (field.kind == FB_KIND_STRING) return read_string(xdr, value);
    if (field.kind == FB_KIND_IP) return fb_xdr_read_address(xdr, value);
    return read_words(xdr, value);
}

static fb_cursor put_record_field(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                  fb_record_field field, fb_source source, fb_bytes value) {
    switch (field.kind) {
        case FB_KIND_STRING: set_string(c, emitter, &at, source, value); break;
        case FB_KIND_IP:
            if (value.size) set_ip(c, emitter, &at, source, value.data, value.size);
            break;
        case FB_KIND_UINT:
            if (field.size) {
                set_uint(c, emitter, &at, source, fb_load_uint(value.data, value.size));
                break;
            }
            at = put_words(c, emitter, at, source, value);
            close_list(c, emitter, &at, source);
            break;
        default: set_bytes(c, emitter, &at, source, value); break;
    }
    return at;
}

/* Put a record whose fields are these sources. `fields` begins with the field of the first one.
   `counters`: it is of a counter sample, and unknown values are left out. */
static fb_cursor put_record_fields(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                   fb_bytes record, fb_source_range sources,
                                   const fb_record_field *fields, bool counters) {
    size_t count = (size_t)(sources.last - sources.first) + 1;
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes values[MOST_FIELDS];
    assert(count <= MOST_FIELDS);
    if (!counters && !fb_plan_has_sources(c->plan, sources.first, sources.last)) return at;
    for (size_t i = 0; i < count; i++)
        if (!read_record_field(&xdr, fields[i], &values[i])) {
            count_bad_record(c, record);
            return at;
        }
    for (size_t i = 0; i < count; i++)
        if (!counters || !is_unknown(fields[i].kind, values[i].data, values[i].size))
            at = put_record_field(c, emitter, at, fields[i], (fb_source)(sources.first + i),
                                  values[i]);
    return at;
}

/* Put the records of FB_FLOW_RECORD_LIST, in its order. */
FB_NOINLINE static fb_cursor put_other_records(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                               const fb_sample_records *records) {
    static const fb_record_field fields[] = {
#define FB_F(X, record, field, kind, size) {FB_KIND_##kind, size},
        FB_FLOW_FIELD_LIST(FB_F, )
#undef FB_F
    };
    for (unsigned i = 0; i < FB_FLOW_RECORDS; i++) {
        if (!(records->there >> (FB_PLACES + i) & 1)) continue;
        fb_source_range sources = fb_flow_record_sources(i);
        at = put_record_fields(c, emitter, at, records->of[FB_PLACES + i], sources,
                               fields + (sources.first - FB_SOURCE_FIRST_RECORD), false);
    }
    return at;
}

/* Put all records of a flow sample or a drop sample. `status` and `sample` are as in
   put_records_of. */
FB_NOINLINE static fb_cursor put_any_records(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                             const fb_sample_records *records, uint64_t status,
                                             const uint8_t *sample, bool expanded) {
    at = put_records_of(c, emitter, at, records, status, false, sample, expanded);
    if (records->there >> FB_PLACES) at = put_other_records(c, emitter, at, records);
    return at;
}

#endif
