/* Rules are sorted, so those of a network are a part of one array. */
#include "core/exporter/sampling_rules.h"

/* Return true if the rules are sorted and complete. */
static bool are_valid(const fb_sampling_rule *rules, size_t count, size_t networks) {
    for (size_t i = 0; i < count; i++) {
        if (rules[i].network >= networks || !rules[i].rate) return false;
        if (i == 0 || rules[i - 1].network < rules[i].network) continue;
        if (rules[i - 1].network > rules[i].network || rules[i - 1].interface >= rules[i].interface)
            return false;
    }
    return true;
}

static bool has_rule_of_all(const fb_exporter_rates *rates) {
    return rates->count && !rates->rules[0].interface;
}

/* Return true if the rate depends on the interface in a network or in those around it. */
static bool depends_on_interface(const fb_exporter_rates *rates) {
    for (; rates; rates = rates->around) {
        if (rates->count > has_rule_of_all(rates)) return true;
        if (has_rule_of_all(rates)) return false;
    }
    return false;
}

/* Give each network its rules, and connect it with the network around it. */
static void connect(fb_sampling_rules *rules, const uint32_t *outer) {
    size_t next = 0;
    for (size_t i = 0; i < rules->network_count; i++) {
        fb_exporter_rates *rates = &rules->rates[i];
        rates->rules = &rules->rules[next];
        while (next < rules->rule_count && rules->rules[next].network == i) next++;
        rates->count = (size_t)(&rules->rules[next] - rates->rules);
        rates->around = outer[i] == FB_PREFIX_NONE ? NULL : &rules->rates[outer[i]];
    }
    for (size_t i = 0; i < rules->network_count; i++)
        rules->rates[i].by_interface = depends_on_interface(&rules->rates[i]);
}

/* Mark an item of `outer` that was not set, because a later network equals its own. */
#define UNSET (FB_PREFIX_NONE - 1)

static fb_status fill(fb_sampling_rules *rules, const fb_prefix *networks, uint32_t *outer) {
    for (size_t i = 0; i < rules->network_count; i++) outer[i] = UNSET;
    fb_status status =
        fb_prefix_table_new(&rules->networks, networks, rules->network_count, outer, rules->memory);
    for (size_t i = 0; status == FB_OK && i < rules->network_count; i++)
        if (outer[i] == UNSET) status = FB_BAD_ARGUMENT;
    if (status == FB_OK) connect(rules, outer);
    return status;
}

fb_status fb_sampling_rules_new(fb_sampling_rules *rules, const fb_prefix *networks,
                                size_t network_count, const fb_sampling_rule *given,
                                size_t rule_count, fb_memory *memory) {
    *rules = (fb_sampling_rules){0};
    if (!are_valid(given, rule_count, network_count)) return FB_BAD_ARGUMENT;
    if (!rule_count) return FB_OK;
    *rules = (fb_sampling_rules){
        .memory = memory, .network_count = network_count, .rule_count = rule_count};
    rules->rates = fb_memory_allocate(memory, network_count * sizeof *rules->rates);
    rules->rules = fb_memory_allocate(memory, rule_count * sizeof *rules->rules);
    uint32_t *outer = fb_memory_allocate(memory, network_count * sizeof *outer);
    fb_status status = rules->rates && rules->rules && outer ? FB_OK : FB_NO_MEMORY;
    if (status == FB_OK) memcpy(rules->rules, given, rule_count * sizeof *given);
    if (status == FB_OK) status = fill(rules, networks, outer);
    fb_memory_release(memory, outer, network_count * sizeof *outer);
    if (status != FB_OK) fb_sampling_rules_free(rules);
    return status;
}

void fb_sampling_rules_free(fb_sampling_rules *rules) {
    if (!rules->memory) return;
    fb_prefix_table_free(&rules->networks);
    fb_memory_release(rules->memory, rules->rates, rules->network_count * sizeof *rules->rates);
    fb_memory_release(rules->memory, rules->rules, rules->rule_count * sizeof *rules->rules);
    *rules = (fb_sampling_rules){0};
}

const fb_exporter_rates *fb_sampling_rules_find(const fb_sampling_rules *rules,
                                                const uint8_t address[16]) {
    uint32_t network = fb_prefix_table_find(&rules->networks, address);
    return network == FB_PREFIX_NONE ? NULL : &rules->rates[network];
}

/* Return the rule of one network for an interface other than 0, or NULL. */
static const fb_sampling_rule *find_interface(const fb_exporter_rates *rates, uint32_t interface) {
    size_t low = 0, high = rates->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rates->rules[middle].interface < interface) low = middle + 1;
        else high = middle;
    }
    bool found = low < rates->count && rates->rules[low].interface == interface;
    return found ? &rates->rules[low] : NULL;
}

const fb_sampling_rule *fb_exporter_rates_find(const fb_exporter_rates *rates, uint32_t interface) {
    for (; rates; rates = rates->around) {
        const fb_sampling_rule *rule = interface ? find_interface(rates, interface) : NULL;
        if (rule) return rule;
        if (has_rule_of_all(rates)) return &rates->rules[0];
    }
    return NULL;
}
