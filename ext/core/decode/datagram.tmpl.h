/* The begin of a datagram: its exporter, and the values that all its flows share. */
#ifndef FB_DECODE_DATAGRAM_TMPL_H
#define FB_DECODE_DATAGRAM_TMPL_H

#include "core/decode/decode.h"
#include "core/decode/value.tmpl.h"

/* Whose datagram it is. Counted the first time, not again when decoding is resumed. */
FB_INLINE void begin_datagram(fb_context *c, fb_decoder *decoder, const uint8_t address[16], uint64_t agent,
                              const fb_position *position) {
    c->exporter = FB_UNLIKELY(position->set) ? fb_exporters_find(&decoder->exporters, address, agent)
                                             : fb_exporters_get(&decoder->exporters, address, agent, c->datagram->source);
    c->exporter->used = decoder->exporters.clock;
    c->counters = &c->exporter->counters;
    c->exporter_address = address;
    if (position->set) return;
    if (FB_UNLIKELY(decoder->exporters.temporary)) fb_exporters_drop_temporary(&decoder->exporters);
    c->counters->datagrams++;
    c->counters->octets += c->datagram->payload.size;
}

/* An address of 16 octets; IPv4 as itself where its column may hold that. */
FB_INLINE void set_address(fb_context *c, fb_emitter *row, fb_cursor *at, fb_source source, const uint8_t address[16]) {
    bool direct = c->plan->sources[source].way == FB_WAY_DIRECT;
    bool ipv4 = FB_UNLIKELY(!direct) && fb_load64(address) == 0 && fb_load32(address + 8) == 0xffff;
    set_ip(c, row, at, source, ipv4 ? address + 12 : address, ipv4 ? 4 : 16);
}

/* Whether a constant feeds a column. Most schemas want a few of them: one bit each is asked for, in a register. */
#define WANTS(source) (wanted & 1u << FB_SOURCE_##source)

/* What is the same for all flows of a datagram, whatever its protocol. */
FB_INLINE fb_cursor put_constants(fb_context *c, fb_emitter *row, fb_cursor at, unsigned flow_type, uint32_t sequence,
                                  uint32_t domain) {
    unsigned wanted = c->plan->constants;
    if (WANTS(META_TIME_RECEIVED)) set_time(c, row, &at, FB_SOURCE_META_TIME_RECEIVED, c->datagram->time);
    if (WANTS(META_TIME_EXPORTED)) set_time(c, row, &at, FB_SOURCE_META_TIME_EXPORTED, c->export_time);
    if (WANTS(META_EXPORTER_ADDRESS)) set_address(c, row, &at, FB_SOURCE_META_EXPORTER_ADDRESS, c->exporter_address);
    if (WANTS(META_SOURCE_ADDRESS)) set_address(c, row, &at, FB_SOURCE_META_SOURCE_ADDRESS, c->datagram->source);
    if (WANTS(META_SOURCE_PORT)) set_uint(c, row, &at, FB_SOURCE_META_SOURCE_PORT, c->datagram->source_port);
    if (WANTS(META_FLOW_TYPE)) set_enum(c, row, &at, FB_SOURCE_META_FLOW_TYPE, flow_type);
    if (WANTS(META_SEQUENCE_NUMBER)) set_uint(c, row, &at, FB_SOURCE_META_SEQUENCE_NUMBER, sequence);
    if (WANTS(META_OBSERVATION_DOMAIN_ID)) set_uint(c, row, &at, FB_SOURCE_META_OBSERVATION_DOMAIN_ID, domain);
    if (WANTS(META_DEFAULT_SAMPLING_RATE))
        set_uint(c, row, &at, FB_SOURCE_META_DEFAULT_SAMPLING_RATE, c->default_sampling_rate);
    return at;
}

/* Octets that a row may need which is made of so many octets, of a record or of a sample. */
FB_INLINE size_t worst_of(const fb_context *c, size_t size) {
    return c->plan->fixed_worst + size * c->plan->octet_worst;
}

#endif
