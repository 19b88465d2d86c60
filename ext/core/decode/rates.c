/* The decoder keeps the decision about a datagram, because decoding may be interrupted. */
#include "core/decode/rates.h"

static void configure(fb_rate_change *change, const fb_exporter_rates *rates, uint32_t interface) {
    const fb_sampling_rule *rule = fb_exporter_rates_find(rates, interface);
    change->configured = rule ? rule->rate : change->fallback;
    change->replaces = rule && rule->replaces;
}

/* Decide whether the flows of a datagram are skipped. If not, they have a weight. */
static void begin_limit(fb_context *c, fb_decoder *decoder) {
    fb_exporter *exporter = c->exporter;
    decoder->limited = (fb_limited_datagram){
        .exporter = exporter,
        .flows = exporter->counters.rows[FB_ROWS_FLOWS],
        .skipped = exporter->counters.status[FB_RATE_LIMITED],
        .skips =
            !fb_rate_limit_admit(&exporter->limit, decoder->options.rate_limit, c->datagram->time),
    };
    decoder->rate_change.weight = fb_rate_limit_weight(&exporter->limit);
    decoder->rate_change.remainder = exporter->limit.remainder;
}

void fb_rates_begin(fb_context *c, fb_decoder *decoder, bool resumed) {
    const fb_exporter_rates *rates = c->exporter->rates;
    if (c->exporter->stateless) /* it stands for exporters with any address */
        rates = fb_sampling_rules_find(&decoder->sampling_rules, c->exporter_address);
    c->rate_change = &decoder->rate_change;
    c->rates = rates && rates->by_interface ? rates : NULL;
    configure(c->rate_change, rates, 0);
    if (decoder->options.rate_limit && !resumed) begin_limit(c, decoder);
    if (decoder->limited.exporter != c->exporter) { /* others were decoded before it was resumed */
        decoder->limited = (fb_limited_datagram){0};
        decoder->rate_change.weight = FB_WEIGHT_ONE;
    }
    c->skips = decoder->limited.skips;
    c->slow = c->decapsulate || c->rates || c->skips;
}

void fb_rates_set_interface(fb_context *c, uint32_t interface) {
    configure(c->rate_change, c->rates, interface);
}

void fb_rates_end(fb_decoder *decoder) {
    fb_limited_datagram *limited = &decoder->limited;
    fb_rate_limit *limit = &limited->exporter->limit;
    const fb_counters *counters = &limited->exporter->counters;
    fb_rate_limit_decoded(limit, decoder->rate_change.weight,
                          counters->rows[FB_ROWS_FLOWS] - limited->flows);
    fb_rate_limit_skipped(limit, counters->status[FB_RATE_LIMITED] - limited->skipped);
    limit->remainder = decoder->rate_change.remainder;
    *limited = (fb_limited_datagram){0};
}
