/* Values are read by their role in the template, from data records and options records alike.
   Selectors and ranges of hash values may occur several times, so they are found by element. */
#include "core/exporter/sampling.h"

#define ID_SELECTOR       302
#define HASH_SELECTED_MIN 331
#define HASH_SELECTED_MAX 332
/* Values of selectorAlgorithm. */
#define SYSTEMATIC_TIME_BASED_SAMPLING 2
#define PROPERTY_MATCH_FILTERING       5

static bool is_uint(fb_bytes field) {
    return field.size >= 1 && field.size <= 8;
}

static uint64_t read_uint(fb_bytes field) {
    return is_uint(field) ? fb_load_uint(field.data, field.size) : 0;
}

static bool is_element(const fb_compiled_template *compiled, uint16_t field, uint16_t id) {
    return !compiled->fields[field].pen && compiled->fields[field].id == id;
}

uint64_t fb_role_uint(const fb_compiled_template *compiled, fb_role role, const uint8_t *record,
                      const fb_location *locations) {
    return read_uint(fb_compiled_template_role(compiled, role, record, locations));
}

static uint64_t read_probability(const fb_compiled_template *compiled, const uint8_t *record,
                                 const fb_location *locations) {
    fb_bytes field =
        fb_compiled_template_role(compiled, FB_ROLE_SAMPLING_PROBABILITY, record, locations);
    double p;
    if (!fb_load_real(field.data, field.size, &p) || !(p > 0 && p <= 1) || 1 / p >= 9e18) return 0;
    return (uint64_t)(1 / p + 0.5);
}

/* Add a range of hash values to a sum of sizes. *last is the sum minus 1. Return false if the range
   is not a part of the output, or the sum exceeds 2^64. */
static bool add_range(uint64_t low, uint64_t high, const uint64_t output[2], bool first,
                      uint64_t *last) {
    if (low < output[0] || high < low || output[1] < high) return false;
    if (first) *last = high - low;
    else if (high - low >= UINT64_MAX - *last) return false;
    else *last += high - low + 1;
    return true;
}

/* Return the size of the output range divided by that of all selected ranges; 0: the record does
   not describe them, or the rate exceeds 64 bits. */
static uint64_t read_hash_ranges(const fb_compiled_template *compiled, const uint8_t *record,
                                 const fb_location *locations) {
    if (!fb_compiled_template_has_role(compiled, FB_ROLE_HASH_OUTPUT_MAX)) return 0;
    const uint64_t output[2] = {fb_role_uint(compiled, FB_ROLE_HASH_OUTPUT_MIN, record, locations),
                                fb_role_uint(compiled, FB_ROLE_HASH_OUTPUT_MAX, record, locations)};
    uint64_t low = 0, last = 0;
    bool first = true;
    for (uint16_t i = fb_compiled_template_first_element(compiled); i < compiled->field_count;
         i++) {
        uint64_t number = read_uint(fb_compiled_template_field(compiled, i, record, locations));
        if (is_element(compiled, i, HASH_SELECTED_MIN)) low = number;
        if (!is_element(compiled, i, HASH_SELECTED_MAX)) continue;
        if (!add_range(low, number, output, first, &last)) return 0;
        first = false;
    }
    if (first) return 0;
    uint64_t all = output[1] - output[0];
    return last < UINT64_MAX ? all / (last + 1) + (all % (last + 1) == last) : 1;
}

/* Return the sampling rate that a record itself contains; 0: none. The first usable one of these
   counts (RFC 5476 section 6.5.2, RFC 3954):

     samplingPopulation / samplingSize
     (samplingPacketInterval + samplingPacketSpace) / samplingPacketInterval
     1 / samplingProbability
     samplingInterval
     samplerRandomInterval
     hash values of the output range / values of the selected ranges */
static uint64_t read_rate(const fb_compiled_template *compiled, const uint8_t *record,
                          const fb_location *locations) {
    if (!compiled->rated) return 0;
    uint64_t size = fb_role_uint(compiled, FB_ROLE_SAMPLING_SIZE, record, locations), rate;
    if (size) {
        rate = fb_role_uint(compiled, FB_ROLE_SAMPLING_POPULATION, record, locations) / size;
        if (rate) return rate;
    }
    uint64_t interval = fb_role_uint(compiled, FB_ROLE_PACKET_INTERVAL, record, locations);
    if (interval) {
        uint64_t space = fb_role_uint(compiled, FB_ROLE_PACKET_SPACE, record, locations);
        if (space <= UINT64_MAX - interval) return (interval + space) / interval;
    }
    rate = read_probability(compiled, record, locations);
    if (!rate) rate = fb_role_uint(compiled, FB_ROLE_SAMPLING_INTERVAL, record, locations);
    if (!rate) rate = fb_role_uint(compiled, FB_ROLE_RANDOM_INTERVAL, record, locations);
    if (!rate) rate = read_hash_ranges(compiled, record, locations);
    return rate;
}

/* Return true if the record names its sampler. The id is the first of samplerId and selectorId that
   is not 0. */
static bool read_sampler(const fb_compiled_template *compiled, const uint8_t *record,
                         const fb_location *locations, uint64_t *sampler) {
    *sampler = 0;
    if (!compiled->named) return false;
    bool sampler_first = compiled->role[FB_ROLE_SAMPLER_ID] < compiled->role[FB_ROLE_SELECTOR_ID];
    fb_role first = sampler_first ? FB_ROLE_SAMPLER_ID : FB_ROLE_SELECTOR_ID;
    fb_role second = sampler_first ? FB_ROLE_SELECTOR_ID : FB_ROLE_SAMPLER_ID;
    *sampler = fb_role_uint(compiled, first, record, locations);
    if (!*sampler) *sampler = fb_role_uint(compiled, second, record, locations);
    return is_uint(fb_compiled_template_role(compiled, first, record, locations)) ||
           is_uint(fb_compiled_template_role(compiled, second, record, locations));
}

/* Return true if the record names a selection sequence. */
static bool read_sequence(const fb_compiled_template *compiled, const uint8_t *record,
                          const fb_location *locations, uint64_t *sequence) {
    fb_bytes field =
        fb_compiled_template_role(compiled, FB_ROLE_SELECTION_SEQUENCE, record, locations);
    *sequence = read_uint(field);
    return is_uint(field);
}

uint64_t fb_sampling_find(const fb_context *context, const fb_compiled_template *compiled,
                          const uint8_t *record, const fb_location *locations) {
    uint64_t sequence, sampler, rate = read_rate(compiled, record, locations);
    if (rate || !context->domain) return rate;
    if (read_sequence(compiled, record, locations, &sequence) &&
        fb_domain_find_selection_rate(context->domain, sequence, &rate))
        return rate;
    bool named = read_sampler(compiled, record, locations, &sampler);
    return fb_domain_find_rate(context->domain, named, sampler);
}

uint32_t fb_ingress_interface_read(const fb_compiled_template *compiled, const uint8_t *record,
                                   const fb_location *locations) {
    uint64_t index = fb_role_uint(compiled, FB_ROLE_INGRESS_INTERFACE, record, locations);
    if (!index)
        index = fb_role_uint(compiled, FB_ROLE_INGRESS_PHYSICAL_INTERFACE, record, locations);
    return index <= UINT32_MAX ? (uint32_t)index : 0;
}

uint64_t fb_system_init_read(const fb_compiled_template *compiled, const uint8_t *record,
                             const fb_location *locations) {
    uint64_t milliseconds = fb_role_uint(compiled, FB_ROLE_SYSTEM_INIT_TIME, record, locations);
    return milliseconds <= FB_SYSTEM_INIT_MAX / FB_MILLISECOND ? milliseconds * FB_MILLISECOND : 0;
}

/* Read the selectors of a selection sequence. Return false if there are more than it can hold. */
static bool read_selectors(const fb_compiled_template *compiled, const uint8_t *record,
                           const fb_location *locations, fb_selection *selection) {
    *selection = (fb_selection){.count = 0};
    for (uint16_t i = fb_compiled_template_first_element(compiled); i < compiled->field_count;
         i++) {
        fb_bytes field = fb_compiled_template_field(compiled, i, record, locations);
        if (!is_element(compiled, i, ID_SELECTOR) || !is_uint(field)) continue;
        if (selection->count == FB_MAX_SELECTORS) return false;
        selection->ids[selection->count++] = fb_load_uint(field.data, field.size);
    }
    return true;
}

/* Store the selection sequence of an options record. Return false if it has none. */
static bool store_selection(fb_context *context, const fb_compiled_template *compiled,
                            const uint8_t *record, const fb_location *locations) {
    fb_selection selection;
    uint64_t sequence;
    if (!read_sequence(compiled, record, locations, &sequence)) return false;
    bool fits = read_selectors(compiled, record, locations, &selection);
    if (!selection.count) return false;
    if (!fits) selection.count = 0; /* its rate is unknown */
    if (fb_domain_set_selection(context->exporter, context->domain, sequence, &selection) !=
            FB_OK ||
        !fits)
        fb_context_count(context, FB_TEMPLATE_LIMIT, record);
    return true;
}

bool fb_sampling_store(fb_context *context, const fb_compiled_template *compiled,
                       const uint8_t *record, const fb_location *locations) {
    uint64_t sampler, rate = read_rate(compiled, record, locations);
    uint64_t system_init = fb_system_init_read(compiled, record, locations);
    bool named = read_sampler(compiled, record, locations, &sampler);
    uint64_t algorithm = fb_role_uint(compiled, FB_ROLE_SELECTOR_ALGORITHM, record, locations);
    if (!rate && named && algorithm == PROPERTY_MATCH_FILTERING) rate = 1;
    /* A sampler that is described again without a rate has lost its rate. */
    bool described =
        rate || (sampler && (compiled->rated || algorithm == SYSTEMATIC_TIME_BASED_SAMPLING));
    bool kept = store_selection(context, compiled, record, locations);
    if (described &&
        fb_domain_set_sampler(context->exporter, context->domain, sampler, rate) != FB_OK)
        fb_context_count(context, FB_TEMPLATE_LIMIT, record);
    if (system_init) {
        context->domain->system_init = system_init;
        if (compiled->version == 10) fb_context_set_system_init(context, system_init);
    }
    return kept || described || system_init;
}
