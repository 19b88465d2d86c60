/* Configured sampling rates: the longest network counts, and then the interface. */
#include "tests/support/check.h"

#include "core/exporter/sampling_rules.h"

static fb_prefix network(uint8_t c, uint8_t d, unsigned bits) {
    return (fb_prefix){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, c, d},
                       (uint8_t)(96 + bits)};
}

static uint64_t find(const fb_sampling_rules *rules, uint8_t c, uint8_t d, uint32_t interface) {
    fb_prefix address = network(c, d, 32);
    const fb_exporter_rates *rates = fb_sampling_rules_find(rules, address.address);
    const fb_sampling_rule *rule = fb_exporter_rates_find(rates, interface);
    return rule ? rule->rate : 0;
}

/* 192.0.0.0/16: all interfaces; 192.0.2.0/24: 3 and 17; 192.0.2.1: all interfaces and 5 */
static const fb_sampling_rule RULES[] = {
    {0, 3, 10, false}, {0, 17, 11, false}, {1, 0, 20, false}, {1, 5, 21, true}, {2, 0, 30, true},
};

static void fill_networks(fb_prefix networks[3]) {
    networks[0] = network(2, 0, 24);
    networks[1] = network(2, 1, 32);
    networks[2] = network(0, 0, 16);
}

static void the_most_specific_rule_is_found(void) {
    fb_memory memory = fb_memory_system(0);
    fb_sampling_rules rules;
    fb_prefix networks[3];
    fill_networks(networks);
    CHECK_STATUS(fb_sampling_rules_new(&rules, networks, 3, RULES, 5, &memory), FB_OK);
    CHECK_EQUAL(find(&rules, 2, 1, 5), 21);
    CHECK_EQUAL(find(&rules, 2, 1, 3), 20);
    CHECK_EQUAL(find(&rules, 2, 1, 0), 20);
    CHECK_EQUAL(find(&rules, 2, 2, 3), 10);
    CHECK_EQUAL(find(&rules, 2, 2, 17), 11);
    CHECK_EQUAL(find(&rules, 2, 2, 4), 30);
    CHECK_EQUAL(find(&rules, 2, 2, UINT32_MAX), 30);
    CHECK_EQUAL(find(&rules, 3, 0, 3), 30);
    CHECK(rules.rates[0].by_interface);
    CHECK(rules.rates[1].by_interface);
    CHECK(!rules.rates[2].by_interface);
    fb_sampling_rules_free(&rules);
    CHECK_EQUAL(memory.used, 0);
}

static void other_exporters_have_no_rule(void) {
    fb_memory memory = fb_memory_system(0);
    fb_sampling_rules rules = {0};
    CHECK_EQUAL(find(&rules, 2, 1, 5), 0);
    fb_prefix networks[3];
    fill_networks(networks);
    CHECK_STATUS(fb_sampling_rules_new(&rules, networks, 2, RULES, 4, &memory), FB_OK);
    CHECK_EQUAL(find(&rules, 3, 0, 3), 0);
    CHECK_EQUAL(find(&rules, 2, 2, 4), 0);
    fb_sampling_rules_free(&rules);
}

static void check_refused(const fb_prefix *networks, size_t network_count,
                          const fb_sampling_rule *given, size_t count) {
    fb_memory memory = fb_memory_system(0);
    fb_sampling_rules rules;
    CHECK_STATUS(fb_sampling_rules_new(&rules, networks, network_count, given, count, &memory),
                 FB_BAD_ARGUMENT);
    fb_sampling_rules_free(&rules);
    CHECK_EQUAL(memory.used, 0);
}

static void invalid_rules_are_refused(void) {
    fb_prefix networks[3];
    fill_networks(networks);
    check_refused(networks, 2, RULES, 5);
    check_refused(networks, 3, &(fb_sampling_rule){0, 0, 0, false}, 1);
    check_refused(networks, 3, (fb_sampling_rule[]){{0, 3, 1, false}, {0, 3, 1, false}}, 2);
    check_refused(networks, 3, (fb_sampling_rule[]){{0, 3, 1, false}, {0, 2, 1, false}}, 2);
    check_refused(networks, 3, (fb_sampling_rule[]){{1, 3, 1, false}, {0, 3, 1, false}}, 2);
    networks[2] = networks[0];
    check_refused(networks, 3, RULES, 5);
    networks[2].bits = 129;
    check_refused(networks, 3, RULES, 5);
}

static void failed_allocations_leave_nothing(void) {
    fb_prefix networks[3];
    fill_networks(networks);
    for (size_t fail_at = 1; fail_at <= 6; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at};
        fb_memory memory = fb_check_memory(&allocator);
        fb_sampling_rules rules;
        fb_status status = fb_sampling_rules_new(&rules, networks, 3, RULES, 5, &memory);
        CHECK_STATUS(status, fail_at < 6 ? FB_NO_MEMORY : FB_OK);
        fb_sampling_rules_free(&rules);
        CHECK_EQUAL(allocator.held, 0);
    }
}

RUN_TESTS(TEST(the_most_specific_rule_is_found), TEST(other_exporters_have_no_rule),
          TEST(invalid_rules_are_refused), TEST(failed_allocations_leave_nothing))
