/* sFlow v5: a header, then samples. Each sample is a list of records. Everything is XDR: big-endian
   words of 4 bytes.

     datagram: 5, address type (1 IPv4, 2 IPv6), agent address (4 or 16), sub-agent id, sequence,
               uptime, samples
     sample:   format (enterprise << 12 | number), length, body
     record:   format, length, body

   The records of a flow sample are indexed first and then read in the order of source.h. Their
   order on the wire does not matter, so the schema alone decides which source has priority. */
#ifndef FB_DECODE_SFLOW_TMPL_H
#define FB_DECODE_SFLOW_TMPL_H

#include "core/exporter/options.h"
#include "core/packet/sflow_layout.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/sampled_packet.tmpl.h"
#include "core/decode/sflow_counters.tmpl.h"
#include "core/decode/sflow_fields.tmpl.h"
#include "core/decode/sflow_records.tmpl.h"
#include "core/decode/value.tmpl.h"

/* Samples that match a pattern --------------------------------------------------------------- */

FB_NOINLINE static fb_cursor append_numbers(fb_emitter *emitter, fb_cursor at,
                                            const fb_pattern_value *value,
                                            const fb_pattern_value *end,
                                            const fb_sample_parts *parts) {
    for (; value < end; value++)
        FB_EMIT(append_uint)(emitter, &at, value->column, fb_pattern_number(value, parts), 8);
    return at;
}

/* Put the AS path of a complete gateway record. */
static fb_cursor put_path(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_source source,
                          fb_bytes path) {
    const uint8_t *end = path.data + path.size;
    for (const uint8_t *p = path.data + 4; p < end;) {
        fb_bytes members = {p + 8, 4 * (size_t)fb_load32(p + 4)};
        at = put_words(c, emitter, at, source, members);
        p = members.data + members.size;
    }
    close_list(c, emitter, &at, source);
    return at;
}

FB_NOINLINE static fb_cursor run_steps(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                       const fb_pattern *pattern, const fb_sample_parts *parts) {
    const fb_pattern_value *end = pattern->values + pattern->value_count;
    bool exact = !pattern->header_needed;
    for (const fb_pattern_value *value = pattern->values + pattern->address_end; value < end;
         value++) {
        const uint8_t *p = parts->part[value->part] + value->place;
        fb_bytes bytes = {p, value->size};
        switch (value->code) {
            case FB_PATTERN_NUMBER:
                set_uint(c, emitter, &at, value->source, fb_pattern_number(value, parts));
                break;
            case FB_PATTERN_ADDRESS: set_ip(c, emitter, &at, value->source, p, value->size); break;
            case FB_PATTERN_AS_PATH:
                at = put_path(c, emitter, at, value->source, exact ? bytes : parts->found.path);
                break;
            case FB_PATTERN_COMMUNITIES:
                at = put_words(c, emitter, at, value->source,
                               exact ? bytes : parts->found.communities);
                close_list(c, emitter, &at, value->source);
                break;
            case FB_PATTERN_LAYERS:
                at = put_layers(c, emitter, at, exact ? bytes : parts->header, FB_PACKET_FRAME);
                break;
            default: fb_context_count(c, FB_UNKNOWN_SAMPLE_RECORD, p); break;
        }
    }
    return at;
}

/* Emit a flow from a sample that matches a pattern. Returns false if there is no room. */
FB_INLINE bool put_pattern(fb_context *c, fb_emitter *emitter, const fb_pattern *pattern,
                           const fb_sample_parts *parts, size_t max_size, bool exact) {
    const fb_pattern_value *values = pattern->values;
    fb_cursor at;
    if (!FB_EMIT(begin)(emitter, max_size, &at)) return false;
    for (const fb_pattern_group *group = pattern->groups, *end = group + pattern->group_count;
         group < end; group++) {
        const uint8_t *first = fb_sample_part(parts, group->part[0], exact) + group->place[0];
        const uint8_t *second = fb_sample_part(parts, group->part[1], exact) + group->place[1];
        if (FB_UNLIKELY(!FB_EMIT(append_lanes)(emitter, &at, &group->lanes, first, second)))
            at = append_numbers(emitter, at, values + group->first, values + group->end, parts);
    }
    if (pattern->number_end > pattern->lane_end)
        at = append_numbers(emitter, at, values + pattern->lane_end, values + pattern->number_end,
                            parts);
    for (const fb_pattern_value *value = values + pattern->number_end,
                                *end = values + pattern->address_end;
         value < end; value++) {
        const uint8_t *p = fb_sample_part(parts, value->part, exact) + value->place;
        if (value->size == 4) FB_EMIT(append_ip)(emitter, &at, value->column, p, 4);
        else FB_EMIT(append_ip)(emitter, &at, value->column, p, 16);
    }
    if (pattern->value_count > pattern->address_end) at = run_steps(c, emitter, at, pattern, parts);
    FB_EMIT(finish)(emitter, at);
    return true;
}

/* Datagrams ---------------------------------------------------------------------------------- */

/* Return the patterns that samples may match, or NULL. Patterns are used if they save time, rows
   are flows, no late value waits for the end of a row, no sample needs the slow path, and
   interfaces have no names. */
static fb_patterns *patterns_in_use(const fb_context *c, const fb_emitter *emitter,
                                    fb_decoder *decoder) {
    bool useful = decoder->patterns.wide || decoder->options.always_learn;
    return useful && FB_EMIT(has_fast_path)(emitter) && !c->slow &&
                   c->plan->rows == FB_ROWS_FLOWS && !c->unusual
               ? &decoder->patterns
               : NULL;
}

/* Set the configured rate of a sample. Count a sample that is skipped, and return false. */
FB_NOINLINE static bool prepare_slow_sample(fb_context *c, fb_bytes sample, bool expanded) {
    if (c->rates) fb_rates_set_interface(c, input_of_sample(sample.data, expanded));
    c->counters->status[FB_RATE_LIMITED] += c->skips;
    return !c->skips;
}

/* Decode a flow sample record by record, without a pattern. */
FB_NOINLINE static fb_status read_flow_sample(fb_context *c, fb_emitter *emitter,
                                              fb_patterns *patterns, fb_bytes sample,
                                              bool expanded) {
    const uint64_t common = 1u << FB_PLACE_HEADER | 1u << FB_PLACE_SWITCH | 1u << FB_PLACE_ROUTER |
                            1u << FB_PLACE_GATEWAY;
    size_t size = FB_FLOW_SAMPLE_SIZE(expanded);
    fb_sample_records records;
    uint64_t status;
    fb_cursor at;
    if (FB_UNLIKELY(c->slow) && !prepare_slow_sample(c, sample, expanded)) return FB_OK;
    if (!FB_EMIT(begin)(emitter, max_row_size(c, sample.size), &at)) return FB_NO_SPACE;
    fb_xdr xdr = {sample.data + size, sample.data + sample.size};
    index_records(c, xdr, fb_load32(xdr.p - 4), &records);
    put_flow_sample(c, emitter, &at, sample.data, expanded, &status);
    if (FB_LIKELY(((records.there & ~common) | c->unusual | status) == 0))
        at = put_records_of(c, emitter, at, &records, 0, true, NULL, expanded);
    else at = put_any_records(c, emitter, at, &records, status, sample.data, expanded);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_FLOWS]++;
    if (patterns) fb_patterns_learn(patterns, sample, expanded);
    return FB_OK;
}

/* Decode a flow sample with a matching pattern, or record by record. */
FB_INLINE fb_status decode_by_pattern(fb_context *c, fb_emitter *emitter, fb_patterns *patterns,
                                      fb_bytes sample, bool expanded, bool exact) {
    fb_sample_parts parts;
    const fb_pattern *pattern = fb_patterns_find(patterns, sample, expanded, &parts, exact);
    if (FB_UNLIKELY(!pattern)) return read_flow_sample(c, emitter, patterns, sample, expanded);
    if (FB_UNLIKELY(!put_pattern(c, emitter, pattern, &parts, max_row_size(c, sample.size), exact)))
        return FB_NO_SPACE;
    c->counters->rows[FB_ROWS_FLOWS]++;
    return FB_OK;
}

FB_NOINLINE static fb_status decode_by_general_pattern(fb_context *c, fb_emitter *emitter,
                                                       fb_patterns *patterns, fb_bytes sample,
                                                       bool expanded) {
    return decode_by_pattern(c, emitter, patterns, sample, expanded, false);
}

/* NO_SPACE. BAD_SAMPLE: the fixed part is cut short; the caller counts it. */
FB_INLINE fb_status decode_flow_sample(fb_context *c, fb_emitter *emitter, fb_patterns *patterns,
                                       fb_bytes sample, bool expanded) {
    if (FB_UNLIKELY(sample.size < FB_FLOW_SAMPLE_SIZE(expanded))) return FB_BAD_SAMPLE;
    if (FB_UNLIKELY(!patterns || !patterns->table))
        return read_flow_sample(c, emitter, patterns, sample, expanded);
    if (patterns->general) return decode_by_general_pattern(c, emitter, patterns, sample, expanded);
    return decode_by_pattern(c, emitter, patterns, sample, expanded, true);
}

/* The header of a datagram after its version. */
typedef struct {
    fb_bytes agent;
    uint32_t sub_agent, sequence, uptime, samples;
} fb_sflow_header;

FB_INLINE bool read_header(fb_xdr *xdr, fb_sflow_header *header) {
    return fb_xdr_read_address(xdr, &header->agent) && fb_xdr_read_word(xdr, &header->sub_agent) &&
           fb_xdr_read_word(xdr, &header->sequence) && fb_xdr_read_word(xdr, &header->uptime) &&
           fb_xdr_read_word(xdr, &header->samples);
}

FB_NOINLINE static void put_constants_sflow(fb_context *c, fb_emitter *emitter, uint32_t sub_agent,
                                            uint32_t sequence, uint32_t uptime) {
    fb_cursor at;
    unsigned wanted = c->plan->constants;
    FB_EMIT(begin_constants)(emitter, &at);
    at = put_constants(c, emitter, at, 1, sequence, 0);
    if (WANTS(SFLOW_SUB_AGENT_ID))
        set_uint(c, emitter, &at, FB_SOURCE_SFLOW_SUB_AGENT_ID, sub_agent);
    if (WANTS(SFLOW_UPTIME)) set_uint(c, emitter, &at, FB_SOURCE_SFLOW_UPTIME, uptime);
    FB_EMIT(end_constants)(emitter, at);
}

/* Prepare an emitter of a further kind of rows for this datagram. Most datagrams have no such rows,
   so its constants are put when the first row comes. */
static void begin_other_rows(fb_context *c, fb_emitter *emitter) {
    unsigned bit = 1u << c->plan->rows;
    fb_bytes payload = c->datagram->payload;
    fb_xdr xdr = {payload.data + 4, payload.data + payload.size};
    fb_sflow_header header;
    if (c->begun & bit || !read_header(&xdr, &header)) return;
    put_constants_sflow(c, emitter, header.sub_agent, header.sequence, header.uptime);
    c->begun |= bit;
}

/* Write a counter or drop sample as a row of a further kind, with its own plan. */
static fb_status decode_counter_sample_apart(fb_context *c, fb_emitter *emitter, uint32_t format,
                                             fb_bytes sample) {
    const fb_row_kind *kind = &c->kinds[FB_ROWS_COUNTERS];
    const fb_plan *plan = c->plan;
    uint64_t *left_out = c->left_out;
    c->plan = kind->plan;
    c->left_out = kind->left_out;
    begin_other_rows(c, emitter);
    fb_status status = decode_counter_sample(c, emitter, format, sample);
    if (status == FB_NO_SPACE) c->full = FB_ROWS_COUNTERS;
    count_refused(c, emitter);
    c->plan = plan;
    c->left_out = left_out;
    return status;
}

/* Count or write a sample that gives no flow. */
FB_NOINLINE static fb_status decode_other_sample(fb_context *c, fb_emitter *emitter,
                                                 uint32_t format, fb_bytes sample) {
    fb_emitter *rows = emitter_of(c, emitter, FB_ROWS_COUNTERS);
    fb_status without_rows;
    switch (format) {
        case FB_SAMPLE_COUNTERS:
        case FB_SAMPLE_COUNTERS_EXPANDED: without_rows = FB_COUNTER_SAMPLE; break;
        case FB_SAMPLE_DROP: without_rows = FB_DROP_SAMPLE; break;
        case FB_SAMPLE_FLOW:
        case FB_SAMPLE_FLOW_EXPANDED:
            fb_context_count(c, FB_FLOWS_LEFT_OUT, sample.data);
            return FB_OK;
        default: fb_context_count(c, FB_UNKNOWN_SAMPLE, sample.data); return FB_OK;
    }
    if (c->exporters->names & FB_NAMES_OF_INTERFACES && without_rows == FB_COUNTER_SAMPLE)
        fb_options_read_counters(c, sample, format == FB_SAMPLE_COUNTERS_EXPANDED);
    if (rows && rows != emitter) return decode_counter_sample_apart(c, rows, format, sample);
    if (rows) return decode_counter_sample(c, rows, format, sample);
    fb_context_count(c, without_rows, sample.data);
    return FB_OK;
}

FB_INLINE fb_status decode_sample(fb_context *c, fb_emitter *emitter, fb_patterns *patterns,
                                  uint32_t format, fb_bytes sample) {
    if (FB_UNLIKELY(c->plan->rows != FB_ROWS_FLOWS))
        return decode_other_sample(c, emitter, format, sample);
    if (FB_LIKELY(format == FB_SAMPLE_FLOW || format == FB_SAMPLE_FLOW_EXPANDED))
        return decode_flow_sample(c, emitter, patterns, sample, format == FB_SAMPLE_FLOW_EXPANDED);
    return decode_other_sample(c, emitter, format, sample);
}

/* Check the sequence number of a sample among the samples of its kind and source. */
FB_INLINE void check_sample(fb_context *c, uint32_t format, fb_bytes sample) {
    fb_domain *domain = c->domain;
    fb_sample_origin origin;
    if (FB_UNLIKELY(!domain) || !fb_sample_find_origin(format, sample, &origin)) return;
    uint64_t key = fb_samples_key(origin.kind, origin.type, origin.index);
    uint32_t run = (uint32_t)domain->sequences.totals.restarts;
    fb_status status =
        fb_samples_check(&domain->samples, &c->exporter->memory, c->exporters->sample_secret, key,
                         fb_load32(sample.data), run);
    if (FB_UNLIKELY(status == FB_SEQUENCE_GAP)) fb_context_count(c, FB_SAMPLE_GAP, sample.data);
}

/* Prefetch about two samples ahead, in this datagram or the next. The first reads of a sample are
   scattered over it, so the hardware prefetcher does not predict them. */
FB_INLINE void prefetch_samples(const uint8_t *sample) {
    for (uintptr_t line = 512; line < 768; line += FB_CACHE_LINE)
        FB_PREFETCH((const void *)((uintptr_t)sample + line));
}

FB_NOINLINE static fb_status decode_samples(fb_context *c, fb_emitter *emitter,
                                            fb_patterns *patterns, fb_xdr xdr, uint32_t count,
                                            fb_position *position) {
    const uint8_t *begin = c->datagram->payload.data;
    if (position->record) xdr.p = begin + position->set;
    for (size_t i = position->record; i < count; i++) {
        const uint8_t *at = xdr.p;
        prefetch_samples(at);
        uint32_t format;
        fb_status status = FB_BAD_SAMPLE;
        fb_bytes sample;
        if (FB_LIKELY(fb_xdr_read_item(&xdr, &format, &sample)))
            status = decode_sample(c, emitter, patterns, format, sample);
        if (FB_UNLIKELY(status != FB_OK)) {
            if (status != FB_NO_SPACE) {
                fb_context_count(c, status, at);
                return FB_OK;
            }
            *position = (fb_position){position->datagram, (size_t)(at - begin), i};
            return status;
        }
        check_sample(c, format, sample);
    }
    return FB_OK;
}

/* Count a datagram with a bad header. Only the UDP source is known, so it is the exporter. */
FB_NOINLINE static fb_status refuse_sflow(fb_context *c, fb_decoder *decoder,
                                          const fb_position *position, fb_status status,
                                          const uint8_t *at) {
    begin_datagram(c, decoder, c->datagram->source, FB_AGENT_SFLOW, position);
    fb_context_count(c, status, at);
    return FB_OK;
}

static fb_status decode_sflow(fb_context *c, fb_emitter *emitter, fb_decoder *decoder,
                              fb_position *position) {
    fb_bytes payload = c->datagram->payload;
    fb_xdr xdr = {payload.data + 4, payload.data + payload.size};
    fb_sflow_header header;
    if (FB_UNLIKELY(payload.size >= 8 && fb_load32(payload.data + 4) > 2))
        return refuse_sflow(c, decoder, position, FB_BAD_HEADER, payload.data + 4);
    if (!read_header(&xdr, &header))
        return refuse_sflow(c, decoder, position, FB_TRUNCATED_HEADER, NULL);
    uint8_t address[16];
    bool known = fb_sflow_agent_address(address, header.agent);
    begin_datagram(c, decoder, known ? address : c->datagram->source,
                   FB_AGENT_SFLOW | header.sub_agent, position);
    fb_context_need_domain(c, FB_DOMAIN_SFLOW, header.sub_agent);
    if (!position->set) {
        put_constants_sflow(c, emitter, header.sub_agent, header.sequence, header.uptime);
        fb_context_check_sequence(c, FB_SEQUENCE_DATAGRAMS, header.sequence, header.uptime,
                                  (fb_sequence_content){.units = 1});
    }
    return decode_samples(c, emitter, patterns_in_use(c, emitter, decoder), xdr, header.samples,
                          position);
}

#endif
