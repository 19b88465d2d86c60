/* NetFlow v1, v5 and v7: a header, and records of one fixed layout.

     0        2        4          8          12          16        20     21    22         24
     ├────────┼────────┼──────────┼──────────┼───────────┼─────────┼──────┼─────┼──────────┤
     │ version│ count  │ sysUptime│ unix_secs│ unix_nsecs│ sequence│ type │ id  │mode:2,   │ v5
     │        │        │ (ms)     │          │           │         │ engine     │interval:14
     │        │        │          │          │           │ sequence│ reserved              │ v7
     │        │        │          │          │           ┴ the header of v1 ends here

   Records have 48 bytes in v5, 52 in v7, and 48 or 52 in v1. */
#ifndef FB_DECODE_NETFLOW5_TMPL_H
#define FB_DECODE_NETFLOW5_TMPL_H

#include "core/decode/datagram.tmpl.h"
#include "core/decode/record.tmpl.h"

typedef struct {
    unsigned version;
    size_t header; /* bytes */
    size_t record;
} fb_fixed_layout;

FB_INLINE void put_constants_netflow5(fb_context *c, fb_emitter *emitter, const uint8_t *p,
                                      unsigned version) {
    fb_cursor at;
    unsigned wanted = c->plan->constants;
    unsigned flow_type = 6;
    if (version == 5) flow_type = 2;
    else if (version == 1) flow_type = 5;
    FB_EMIT(begin_constants)(emitter, &at);
    at = put_constants(c, emitter, at, flow_type, version == 1 ? 0 : fb_load32(p + 16), 0);
    if (version == 5) {
        if (WANTS(NETFLOW5_SAMPLING_INTERVAL))
            set_uint(c, emitter, &at, FB_SOURCE_NETFLOW5_SAMPLING_INTERVAL,
                     fb_load16(p + 22) & 0x3fff);
        if (WANTS(NETFLOW5_SAMPLING_MODE))
            set_uint(c, emitter, &at, FB_SOURCE_NETFLOW5_SAMPLING_MODE, fb_load16(p + 22) >> 14);
        if (WANTS(NETFLOW5_ENGINE_TYPE))
            set_uint(c, emitter, &at, FB_SOURCE_NETFLOW5_ENGINE_TYPE, p[20]);
        if (WANTS(NETFLOW5_ENGINE_ID))
            set_uint(c, emitter, &at, FB_SOURCE_NETFLOW5_ENGINE_ID, p[21]);
    }
    FB_EMIT(end_constants)(emitter, at);
}

/* Put the constants of the datagram and check its sequence number. v1 has no sequence number and
   uses no domain. */
FB_INLINE void begin_netflow5(fb_context *c, fb_emitter *emitter, const uint8_t *p,
                              unsigned version, size_t count) {
    put_constants_netflow5(c, emitter, p, version);
    if (version == 1) return;
    fb_context_need_domain(c, (uint16_t)version, version == 5 ? fb_load16(p + 20) : 0);
    fb_context_check_sequence(c, FB_SEQUENCE_FLOWS, fb_load32(p + 16), c->uptime,
                              (fb_sequence_content){.units = (uint32_t)count});
}

FB_INLINE fb_status decode_fixed(fb_context *c, fb_emitter *emitter,
                                 const fb_compiled_template *compiled, fb_fixed_layout layout,
                                 fb_position *position) {
    const uint8_t *p = c->datagram->payload.data, *records = p + layout.header;
    size_t size = c->datagram->payload.size;
    if (size < layout.header) {
        fb_context_count(c, FB_TRUNCATED_HEADER, NULL);
        return FB_OK;
    }
    size_t count = fb_load16(p + 2), present = (size - layout.header) / layout.record;
    c->export_time = fb_load32(p + 8) * FB_SECOND + fb_load32(p + 12);
    fb_context_set_uptime(c, fb_load32(p + 4), c->export_time);
    if (!position->set) begin_netflow5(c, emitter, p, layout.version, count);
    position->set = layout.header;
    const uint8_t *record = records + layout.record * position->record;
    size_t whole = count < present ? count : present;
    fb_status status =
        put_fixed_records(c, emitter, compiled, &record, records + layout.record * whole);
    position->record = (size_t)(record - records) / layout.record;
    if (status != FB_OK) return status;
    if (count > present)
        fb_context_count(c, FB_TRUNCATED_DATAGRAM, records + layout.record * present);
    else if (FB_UNLIKELY(record < p + size)) fb_context_count_excess(c, record);
    return FB_OK;
}

static fb_status decode_netflow5(fb_context *c, fb_emitter *emitter, const fb_decoder *decoder,
                                 fb_position *position) {
    return decode_fixed(c, emitter, decoder->netflow5, (fb_fixed_layout){5, 24, 48}, position);
}

FB_NOINLINE static fb_status decode_netflow7(fb_context *c, fb_emitter *emitter,
                                             const fb_decoder *decoder, fb_position *position) {
    return decode_fixed(c, emitter, decoder->netflow7, (fb_fixed_layout){7, 24, 52}, position);
}

/* Records have 52 bytes (Cisco, Extreme) or 48 (softflowd); only their padding differs.
   fb_payload_sniff has checked that all records are complete and have one of these sizes. */
FB_NOINLINE static fb_status decode_netflow1(fb_context *c, fb_emitter *emitter,
                                             const fb_decoder *decoder, fb_position *position) {
    size_t record = (c->datagram->payload.size - 16) / fb_load16(c->datagram->payload.data + 2);
    return decode_fixed(c, emitter, decoder->netflow1[record == 52],
                        (fb_fixed_layout){1, 16, record}, position);
}

#endif
