/* The loop over a batch of datagrams, for one emitter. */
#ifndef FB_DECODE_DECODE_TMPL_H
#define FB_DECODE_DECODE_TMPL_H

#include "core/decode/decode.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/ipfix.tmpl.h"
#include "core/decode/netflow5.tmpl.h"
#include "core/decode/sflow.tmpl.h"

/* Count a payload of an unsupported or unknown protocol. A payload of no flow protocol creates no
   exporter state. */
FB_NOINLINE static void count_other(fb_context *c, fb_decoder *decoder, uint32_t version,
                                    const fb_position *position) {
    if (version == FB_UNSUPPORTED) {
        begin_datagram(c, decoder, c->datagram->source, decoder->agent, position);
        fb_context_count(c, FB_UNSUPPORTED_VERSION, NULL);
        return;
    }
    c->counters = &decoder->other;
    c->counters->datagrams++;
    c->counters->bytes += c->datagram->payload.size;
    fb_context_count(c, FB_OTHER_PACKET, NULL);
    if (!decoder->expect_flows) return;
    fb_fault_set_first(c->fault, FB_OTHER_PACKET, c->index, 0, c->datagram->source);
}

static fb_status decode_datagram(fb_context *c, fb_decoder *decoder, fb_emitter *emitter,
                                 fb_position *position) {
    uint32_t version = fb_payload_sniff(c->datagram->payload);
    if (version == FB_SFLOW5) return decode_sflow(c, emitter, decoder, position);
    if (FB_UNLIKELY(version != 5 && version != 9 && version != 10 && version != 1 &&
                    version != 7)) {
        count_other(c, decoder, version, position);
        return FB_OK;
    }
    begin_datagram(c, decoder, c->datagram->source, decoder->agent, position);
    bool options = c->kinds[FB_ROWS_OPTIONS].plan && (version == 9 || version == 10);
    if (FB_UNLIKELY(c->plan->rows != FB_ROWS_FLOWS) && !options) {
        fb_context_count(c, FB_FLOWS_LEFT_OUT, NULL);
        return FB_OK;
    }
    switch (version) {
        case 1: return decode_netflow1(c, emitter, decoder, position);
        case 5: return decode_netflow5(c, emitter, decoder, position);
        case 7: return decode_netflow7(c, emitter, decoder, position);
        default: return decode_ipfix(c, emitter, version, position);
    }
}

fb_status FB_ENTRY(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                   fb_position *position, fb_emitter *emitter);

fb_status FB_ENTRY(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                   fb_position *position, fb_emitter *emitter) {
    fb_context c = {
        .plan = decoder->plan,
        .exporters = &decoder->exporters,
        .fault = &decoder->fault,
        .left_out = decoder->kinds[decoder->plan->rows].left_out,
        .undecoded = decoder->undecoded,
        .kinds = decoder->kinds,
        .full = decoder->plan->rows,
        .default_sampling_rate = decoder->options.default_sampling_rate,
        .decapsulate = decoder->options.decapsulate,
        .unusual = decoder->options.decapsulate | (decoder->plan->names & FB_NAMES_OF_INTERFACES),
        .slow = decoder->options.decapsulate != 0,
    };
    FB_EMIT(change_rate)(emitter, decoder->changes_rates ? &decoder->rate_change : NULL);
    if (!position->set) decoder->limited.exporter = NULL; /* a datagram that was not resumed */
    fb_look_ahead ahead;
    fb_look_ahead_begin(&ahead, &decoder->exporters, position->datagram);
    while (position->datagram < count) {
        fb_look_ahead_from(&ahead, &decoder->exporters, datagrams, count, position->datagram);
        fb_context_begin(&c, &datagrams[position->datagram], position->datagram);
        fb_status status = decode_datagram(&c, decoder, emitter, position);
        count_refused(&c, emitter);
        if (FB_UNLIKELY(status != FB_OK)) {
            FB_EMIT(suspend)(emitter);
            decoder->full = c.full;
            return FB_NO_SPACE;
        }
        if (FB_UNLIKELY(decoder->limited.exporter != NULL)) fb_rates_end(decoder);
        *position = (fb_position){position->datagram + 1, 0, 0};
    }
    return FB_OK;
}

#endif
