/* sFlow counter samples (formats 2 and 4) and notifications of discarded packets (format 5).
   They are the rows of a plan whose rows are counters. Each sample is one row.

     counters:            sequence, source id (8 bits type, 24 bits index), records
     counters, expanded:  sequence, source type, source index, records
     discarded packet:    sequence, source type, source index, drops, input, output, reason, records

   A record is a format, a length and a body, as in flow samples. Records are indexed first and
   read in the order of source.h. A second record of the same format is counted and not read. A
   counter with all bits set is unknown to the exporter (sFlow version 5, "Counter Data"), so it
   is absent. */
#ifndef FB_DECODE_SFLOW_COUNTERS_TMPL_H
#define FB_DECODE_SFLOW_COUNTERS_TMPL_H

#include "core/packet/sflow_layout.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/sampled_packet.tmpl.h"
#include "core/decode/sflow_fields.tmpl.h"
#include "core/decode/sflow_records.tmpl.h"
#include "core/decode/value.tmpl.h"

enum {
    KIND_COUNTERS = 1, /* values of `sflow:sample.kind` */
    KIND_DROP = 2,
    LANE_SIZE = 40,
};

/* Indices in fb_counter_records. */
enum {
#define FB_X(record, format, size) COUNTERS_##record,
    FB_COUNTER_RECORD_LIST(FB_X)
#undef FB_X
        COUNTERS_COUNT
};

typedef struct {
    fb_bytes body[COUNTERS_COUNT];
} fb_counter_records;

/* The first fields of every counter or drop sample. */
typedef struct {
    uint32_t kind, sequence, source_type, source_index;
} fb_sample_head;

static bool read_sample_head(fb_xdr *xdr, bool expanded, fb_sample_head *head) {
    uint32_t source;
    if (!fb_xdr_read_word(xdr, &head->sequence) || !fb_xdr_read_word(xdr, &source)) return false;
    head->source_type = expanded ? source : source >> 24;
    head->source_index = source & 0xffffff;
    return !expanded || fb_xdr_read_word(xdr, &head->source_index);
}

static fb_cursor put_sample_head(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                 const fb_sample_head *head) {
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_SAMPLE_KIND, head->kind);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_COUNTERS_SEQUENCE, head->sequence);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_SOURCE_TYPE, head->source_type);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_SOURCE_INDEX, head->source_index);
    return at;
}

/* Read the next record of a sample. Returns false if it is cut short, and counts that. */
static bool read_record(fb_context *c, fb_xdr *xdr, uint32_t *format, fb_bytes *body) {
    const uint8_t *at = xdr->p;
    if (fb_xdr_read_item(xdr, format, body)) return true;
    fb_context_count(c, FB_BAD_SAMPLE_RECORD, at);
    return false;
}

/* Return the place of a record of this format in a struct of records, or NULL if it is not read. */
typedef fb_bytes *fb_record_finder(void *records, uint32_t format);

static void index_records_of_counters(fb_context *c, fb_xdr xdr, uint32_t count,
                                      fb_record_finder *find, void *records) {
    uint32_t format;
    fb_bytes body;
    for (; count; count--) {
        const uint8_t *at = xdr.p;
        if (!read_record(c, &xdr, &format, &body)) return;
        fb_bytes *record = find(records, format);
        if (record && !record->data) *record = body;
        else fb_context_count(c, FB_UNKNOWN_SAMPLE_RECORD, at);
    }
}

/* Counters ----------------------------------------------------------------------------------- */

static fb_bytes *find_counter_record(void *of_counters, uint32_t format) {
    fb_counter_records *records = of_counters;
    switch (format) {
#define FB_X(record, number, size) \
    case number: return &records->body[COUNTERS_##record];
        FB_COUNTER_RECORD_LIST(FB_X)
#undef FB_X
        default: return NULL;
    }
}

/* Remove records that are shorter than their structure. */
static void drop_short_records(fb_context *c, fb_counter_records *records) {
    static const uint8_t sizes[COUNTERS_COUNT] = {
#define FB_X(record, format, size) size,
        FB_COUNTER_RECORD_LIST(FB_X)
#undef FB_X
    };
    for (size_t i = 0; i < COUNTERS_COUNT; i++)
        if (!has_record(c, records->body[i], sizes[i])) records->body[i] = (fb_bytes){0};
}

/* Put all fixed-size fields in one loop over the table of sflow_counter_fields.h. */
static fb_cursor put_counters(fb_context *c, fb_emitter *emitter, fb_cursor at,
                              const fb_counter_records *records) {
    static const struct {
        uint8_t record, offset, size, kind;
    } fields[] = {
#define FB_F(X, record, field, kind, offset, size) \
    {COUNTERS_##record, offset, size, FB_KIND_##kind},
        FB_COUNTER_LIST(FB_F, )
#undef FB_F
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        fb_bytes record = records->body[fields[i].record];
        if (!record.data) continue;
        size_t end = (size_t)fields[i].offset + fields[i].size;
        if (record.size < end) continue; /* the record is missing or of an older edition */
        const uint8_t *p = record.data + fields[i].offset;
        if (is_unknown(fields[i].kind, p, fields[i].size)) continue;
        set_bytes(c, emitter, &at, (fb_source)(FB_SOURCE_FIRST_COUNTER + i),
                  (fb_bytes){p, fields[i].size});
    }
    return at;
}

/* Put the lanes of an optical module. Their number follows 4 words; each lane has 10 words. */
static fb_cursor put_lanes(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_bytes sfp) {
    if (!sfp.data) return at;
    size_t count = fb_load32(sfp.data + 16), whole = (sfp.size - 20) / LANE_SIZE;
    if (count > whole) {
        count_bad_record(c, sfp);
        count = whole;
    }
    for (unsigned field = 0; field < LANE_SIZE / 4; field++) {
        fb_source source = (fb_source)(FB_SOURCE_SFLOW_LANE_INDEX + field);
        for (size_t i = 0; i < count; i++)
            set_member(c, emitter, &at, source,
                       fb_load32(sfp.data + 20 + i * LANE_SIZE + 4 * field));
        close_list(c, emitter, &at, source);
    }
    return at;
}

static fb_cursor put_port_name(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_bytes record) {
    if (!record.data) return at;
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes name;
    if (!read_string(&xdr, &name)) count_bad_record(c, record);
    else set_string(c, emitter, &at, FB_SOURCE_SFLOW_PORT_NAME, name);
    return at;
}

/* Put host name, UUID (16 bytes; zeros mean unknown), machine type, operating system and its
   release. */
static fb_cursor put_host(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_bytes record) {
    static const uint8_t zeros[16];
    if (!record.data) return at;
    fb_xdr xdr = {record.data, record.data + record.size};
    fb_bytes name, uuid, release;
    uint32_t machine, os;
    if (!read_string(&xdr, &name) || !read_opaque(&xdr, 16, &uuid) ||
        !fb_xdr_read_word(&xdr, &machine) || !fb_xdr_read_word(&xdr, &os) ||
        !read_string(&xdr, &release)) {
        count_bad_record(c, record);
        return at;
    }
    set_string(c, emitter, &at, FB_SOURCE_SFLOW_HOST_NAME, name);
    if (memcmp(uuid.data, zeros, 16) != 0)
        set_bytes(c, emitter, &at, FB_SOURCE_SFLOW_HOST_UUID, uuid);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_HOST_MACHINE_TYPE, machine);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_HOST_OS_NAME, os);
    set_string(c, emitter, &at, FB_SOURCE_SFLOW_HOST_OS_RELEASE, release);
    return at;
}

static void set_adapter(fb_context *c, fb_emitter *emitter, fb_cursor *at, uint32_t index,
                        uint64_t mac) {
    set_member(c, emitter, at, FB_SOURCE_SFLOW_ADAPTER_IF_INDEX, index);
    set_member(c, emitter, at, FB_SOURCE_SFLOW_ADAPTER_MAC, mac);
}

/* Read adapters: each has an ifIndex and MAC addresses, padded to 8 bytes. The lists get one entry
   per MAC address. An adapter without addresses gets one entry with address 0. Returns false if the
   record is cut short; the entries before the cut are kept. */
static bool read_adapters(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_xdr xdr) {
    uint32_t adapters, index, macs;
    if (!fb_xdr_read_word(&xdr, &adapters)) return false;
    for (; adapters; adapters--) {
        if (!fb_xdr_read_word(&xdr, &index) || !fb_xdr_read_word(&xdr, &macs)) return false;
        if (!macs) set_adapter(c, emitter, at, index, 0);
        for (; macs; macs--) {
            fb_bytes mac;
            if (!read_opaque(&xdr, 6, &mac)) return false;
            set_adapter(c, emitter, at, index, fb_load48(mac.data));
        }
    }
    return true;
}

static fb_cursor put_adapters(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_bytes record) {
    if (!record.data) return at;
    if (!read_adapters(c, emitter, &at, (fb_xdr){record.data, record.data + record.size}))
        count_bad_record(c, record);
    close_list(c, emitter, &at, FB_SOURCE_SFLOW_ADAPTER_IF_INDEX);
    close_list(c, emitter, &at, FB_SOURCE_SFLOW_ADAPTER_MAC);
    return at;
}

/* Put the records of FB_COUNTER_TEXT_LIST. */
static fb_cursor put_text_counters(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                   const fb_counter_records *records) {
    static const fb_record_field fields[] = {
#define FB_F(X, record, field, kind, size) {FB_KIND_##kind, size},
        FB_COUNTER_TEXT_LIST(FB_F, )
#undef FB_F
    };
    static const struct {
        uint8_t record;
        fb_source_range sources;
    } rows[] = {
#define FB_X(record, first, last) \
    {COUNTERS_##record, \
     {FB_SOURCE_COUNTER_##record##_##first, FB_SOURCE_COUNTER_##record##_##last}},
        FB_COUNTER_TEXT_RECORD_LIST(FB_X)
#undef FB_X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fb_bytes record = records->body[rows[i].record];
        fb_source_range sources = rows[i].sources;
        const fb_record_field *first = fields + (sources.first - FB_SOURCE_FIRST_COUNTER_TEXT);
        if (record.data) at = put_record_fields(c, emitter, at, record, sources, first, true);
    }
    return at;
}

/* NO_SPACE. BAD_SAMPLE: the fixed part is cut short; the caller counts it. decode_drop returns the
   same. */
static fb_status decode_counters(fb_context *c, fb_emitter *emitter, fb_bytes sample,
                                 bool expanded) {
    fb_xdr xdr = {sample.data, sample.data + sample.size};
    fb_counter_records records = {0};
    fb_sample_head head = {.kind = KIND_COUNTERS};
    uint32_t count;
    fb_cursor at;
    if (!read_sample_head(&xdr, expanded, &head) || !fb_xdr_read_word(&xdr, &count))
        return FB_BAD_SAMPLE;
    if (!FB_EMIT(begin)(emitter, max_row_size(c, sample.size), &at)) return FB_NO_SPACE;
    index_records_of_counters(c, xdr, count, find_counter_record, &records);
    drop_short_records(c, &records);
    at = put_sample_head(c, emitter, at, &head);
    at = put_counters(c, emitter, at, &records);
    at = put_lanes(c, emitter, at, records.body[COUNTERS_sfp]);
    at = put_port_name(c, emitter, at, records.body[COUNTERS_port_name]);
    at = put_host(c, emitter, at, records.body[COUNTERS_host_descr]);
    at = put_adapters(c, emitter, at, records.body[COUNTERS_host_adapters]);
    at = put_text_counters(c, emitter, at, &records);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_COUNTERS]++;
    return FB_OK;
}

/* Discarded packets -------------------------------------------------------------------------- */

static fb_bytes *find_drop_record(void *of_drop, uint32_t format) {
    fb_sample_records *records = of_drop;
    uint32_t place = fb_record_place(format);
    if (place == FB_PLACES) place += fb_flow_record_find(format);
    return place < ALL_PLACES ? &records->of[place] : NULL;
}

static fb_status decode_drop(fb_context *c, fb_emitter *emitter, fb_bytes sample) {
    fb_xdr xdr = {sample.data, sample.data + sample.size};
    fb_sample_records records = {0};
    fb_sample_head head = {.kind = KIND_DROP};
    uint32_t drops, input, output, reason, count;
    fb_cursor at;
    if (!read_sample_head(&xdr, true, &head) || !fb_xdr_read_word(&xdr, &drops) ||
        !fb_xdr_read_word(&xdr, &input) || !fb_xdr_read_word(&xdr, &output) ||
        !fb_xdr_read_word(&xdr, &reason) || !fb_xdr_read_word(&xdr, &count))
        return FB_BAD_SAMPLE;
    if (!FB_EMIT(begin)(emitter, max_row_size(c, sample.size), &at)) return FB_NO_SPACE;
    index_records_of_counters(c, xdr, count, find_drop_record, &records);
    for (unsigned place = 0; place < ALL_PLACES; place++)
        records.there |= (uint64_t)(records.of[place].data != NULL) << place;
    at = put_sample_head(c, emitter, at, &head);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_DROP_DROPS, drops);
    set_interface(c, emitter, &at, FB_SOURCE_SFLOW_DROP_INPUT, 0, input);
    set_interface(c, emitter, &at, FB_SOURCE_SFLOW_DROP_OUTPUT, 0, output);
    set_uint(c, emitter, &at, FB_SOURCE_SFLOW_DROP_REASON, reason);
    /* The packet is put like that of a flow sample whose output field states the discard reason. */
    at = put_any_records(c, emitter, at, &records, discard_status(reason), NULL, true);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_COUNTERS]++;
    return FB_OK;
}

static fb_status decode_counter_sample(fb_context *c, fb_emitter *emitter, uint32_t format,
                                       fb_bytes sample) {
    if (format == FB_SAMPLE_DROP) return decode_drop(c, emitter, sample);
    return decode_counters(c, emitter, sample, format == FB_SAMPLE_COUNTERS_EXPANDED);
}

#endif
