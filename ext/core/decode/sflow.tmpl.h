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

/* Datagrams ---------------------------------------------------------------------------------- */

/* Set the configured rate of a sample. Count a sample that is skipped, and return false. */
FB_NOINLINE static bool prepare_slow_sample(fb_context *c, fb_bytes sample, bool expanded) {
    if (c->rates) fb_rates_set_interface(c, input_of_sample(sample.data, expanded));
    c->counters->status[FB_RATE_LIMITED] += c->skips;
    return !c->skips;
}

/* Decode a flow sample. NO_SPACE. BAD_SAMPLE: the fixed part is cut short; the caller counts it. */
FB_INLINE fb_status put_flow_row(fb_context *c, fb_emitter *emitter, fb_bytes sample,
                                 bool expanded) {
    const uint64_t common = 1u << FB_PLACE_HEADER | 1u << FB_PLACE_SWITCH | 1u << FB_PLACE_ROUTER |
                            1u << FB_PLACE_GATEWAY;
    size_t size = FB_FLOW_SAMPLE_SIZE(expanded);
    fb_sample_records records;
    uint64_t status;
    fb_cursor at;
    if (FB_UNLIKELY(sample.size < size)) return FB_BAD_SAMPLE;
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
    return FB_OK;
}

/* The two formats are compiled apart, so that the positions of their fields are constants. */
FB_NOINLINE static fb_status decode_flow_sample(fb_context *c, fb_emitter *emitter,
                                                fb_bytes sample) {
    return put_flow_row(c, emitter, sample, false);
}

FB_NOINLINE static fb_status decode_expanded_flow_sample(fb_context *c, fb_emitter *emitter,
                                                         fb_bytes sample) {
    return put_flow_row(c, emitter, sample, true);
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

FB_INLINE fb_status decode_sample(fb_context *c, fb_emitter *emitter, uint32_t format,
                                  fb_bytes sample) {
    if (FB_UNLIKELY(c->plan->rows != FB_ROWS_FLOWS))
        return decode_other_sample(c, emitter, format, sample);
    if (FB_LIKELY(format == FB_SAMPLE_FLOW)) return decode_flow_sample(c, emitter, sample);
    if (format == FB_SAMPLE_FLOW_EXPANDED) return decode_expanded_flow_sample(c, emitter, sample);
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

FB_NOINLINE static fb_status decode_samples(fb_context *c, fb_emitter *emitter, fb_xdr xdr,
                                            uint32_t count, fb_position *position) {
    const uint8_t *begin = c->datagram->payload.data;
    if (position->record) xdr.p = begin + position->set;
    for (size_t i = position->record; i < count; i++) {
        const uint8_t *at = xdr.p;
        prefetch_samples(at);
        uint32_t format;
        fb_bytes sample;
        if (FB_UNLIKELY(!fb_xdr_read_item(&xdr, &format, &sample))) {
            fb_context_count(c, FB_BAD_SAMPLE, at);
            return FB_OK;
        }
        fb_status status = decode_sample(c, emitter, format, sample);
        if (FB_UNLIKELY(status == FB_NO_SPACE)) {
            *position = (fb_position){position->datagram, (size_t)(at - begin), i};
            return status;
        }
        /* its length is known, so the samples after it are read */
        if (FB_UNLIKELY(status != FB_OK)) fb_context_count(c, status, at);
        check_sample(c, format, sample);
    }
    if (FB_UNLIKELY(xdr.p < xdr.end)) fb_context_count_excess(c, xdr.p);
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
    return decode_samples(c, emitter, xdr, header.samples, position);
}

#endif
