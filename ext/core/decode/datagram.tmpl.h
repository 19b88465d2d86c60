/* The start of a datagram: find its exporter and emit the values that all its flows share. */
#ifndef FB_DECODE_DATAGRAM_TMPL_H
#define FB_DECODE_DATAGRAM_TMPL_H

#include "core/decode/decode.h"
#include "core/decode/rates.h"
#include "core/decode/value.tmpl.h"

/* Find the exporter of a datagram, or create its state, and count the datagram. A resumed datagram
   is not counted again. */
FB_INLINE void begin_datagram(fb_context *c, fb_decoder *decoder, const uint8_t address[16],
                              uint64_t agent, const fb_position *position) {
    c->exporter = FB_UNLIKELY(position->set)
                      ? fb_exporters_find(&decoder->exporters, address, agent)
                      : fb_exporters_get(&decoder->exporters, address, agent, c->datagram->source);
    c->exporter->used = decoder->exporters.clock;
    c->counters = &c->exporter->counters;
    c->exporter_address = address;
    if (FB_UNLIKELY(decoder->changes_rates)) fb_rates_begin(c, decoder, position->set != 0);
    if (position->set) return;
    if (FB_UNLIKELY(decoder->exporters.temporary)) fb_exporters_drop_temporary(&decoder->exporters);
    c->counters->datagrams++;
    c->counters->bytes += c->datagram->payload.size;
}

/* Count values that were left out when rows ended. The end of a row does not have the exporter's
   counters. */
static void count_refused(fb_context *c, fb_emitter *emitter) {
    for (uint64_t refused = FB_EMIT(take_refused)(emitter); FB_UNLIKELY(refused); refused--)
        fb_context_count(c, FB_OUT_OF_RANGE, NULL);
}

/* Return the emitter for rows of a kind, or NULL if they are not wanted. */
FB_INLINE fb_emitter *emitter_of(const fb_context *c, fb_emitter *emitter, fb_rows rows) {
    return c->plan->rows == rows ? emitter : emitter->others[rows];
}

/* Put a 16-byte address. An IPv4-mapped address becomes 4 bytes, unless the source is written
   directly to one column. */
FB_INLINE void set_address(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                           const uint8_t address[16]) {
    bool direct = c->plan->sources[source].path == FB_PATH_FAST;
    bool ipv4 = FB_UNLIKELY(!direct) && fb_load64(address) == 0 && fb_load32(address + 8) == 0xffff;
    set_ip(c, emitter, at, source, ipv4 ? address + 12 : address, ipv4 ? 4 : 16);
}

/* True if a constant feeds a column. Most schemas use few constants; one bit per source keeps this
   test in a register. */
#define WANTS(source) (wanted & 1u << FB_SOURCE_##source)

/* Put the values that are the same for all flows of a datagram, for every protocol. */
FB_INLINE fb_cursor put_constants(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                  unsigned flow_type, uint32_t sequence, uint32_t domain) {
    unsigned wanted = c->plan->constants;
    if (WANTS(META_TIME_RECEIVED))
        set_time(c, emitter, &at, FB_SOURCE_META_TIME_RECEIVED, c->datagram->time);
    if (WANTS(META_TIME_EXPORTED))
        set_time(c, emitter, &at, FB_SOURCE_META_TIME_EXPORTED, c->export_time);
    if (WANTS(META_EXPORTER_ADDRESS))
        set_address(c, emitter, &at, FB_SOURCE_META_EXPORTER_ADDRESS, c->exporter_address);
    if (WANTS(META_SOURCE_ADDRESS))
        set_address(c, emitter, &at, FB_SOURCE_META_SOURCE_ADDRESS, c->datagram->source);
    if (WANTS(META_SOURCE_PORT))
        set_uint(c, emitter, &at, FB_SOURCE_META_SOURCE_PORT, c->datagram->source_port);
    if (WANTS(META_FLOW_TYPE)) set_enum(c, emitter, &at, FB_SOURCE_META_FLOW_TYPE, flow_type);
    if (WANTS(META_SEQUENCE_NUMBER))
        set_uint(c, emitter, &at, FB_SOURCE_META_SEQUENCE_NUMBER, sequence);
    if (WANTS(META_OBSERVATION_DOMAIN_ID))
        set_uint(c, emitter, &at, FB_SOURCE_META_OBSERVATION_DOMAIN_ID, domain);
    if (WANTS(META_DEFAULT_SAMPLING_RATE))
        set_uint(c, emitter, &at, FB_SOURCE_META_DEFAULT_SAMPLING_RATE, c->default_sampling_rate);
    return at;
}

/* Return the largest number of output bytes of one row. `size` is the size of its record or sample
   in bytes. */
FB_INLINE size_t max_row_size(const fb_context *c, size_t size) {
    return c->plan->max_fixed_size + size * c->plan->max_size_per_byte;
}

#endif
