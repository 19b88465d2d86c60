/* From a schema to a plan: valid sources of columns, columns whose values must wait, and the
   maximum size of a row. */
#include "tests/support/check.h"

#include "tests/support/plan_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static fb_memory memory_for_test(void) {
    return fb_memory_system(0);
}

/* Sources of columns ------------------------------------------------------------------------- */

static const char *const type_names[FB_TYPE_COUNT] = {
    "uint",    "enum",    "int",    "sint",  "bool", "float",     "double",
    "fixed32", "fixed64", "string", "bytes", "ip",   "timestamp", "duration"};

/* The types that each kind may fill. */
static const struct {
    fb_kind kind;
    const char *types;
} matrix[] = {
    {FB_KIND_UINT, " uint enum int sint bool float double fixed32 fixed64 timestamp duration "},
    {FB_KIND_TCP_BITS, " uint enum int sint bool float double fixed32 fixed64 timestamp duration "},
    {FB_KIND_MAC, " uint enum int sint bool float double fixed32 fixed64 "},
    {FB_KIND_IP, " ip bytes "},
    {FB_KIND_BYTES, " uint int sint fixed32 fixed64 string bytes "},
    {FB_KIND_TIME, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_STRING, " string bytes "},
    {FB_KIND_SINT, " int sint float double "},
    {FB_KIND_BOOL, " bool uint enum "},
    {FB_KIND_FLOAT, " float double "},
    {FB_KIND_TIME_S, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_TIME_MS, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_TIME_NTP_US, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_TIME_NTP_NS, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_TIME_UPTIME, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_TIME_DELTA, " uint int sint fixed32 fixed64 timestamp "},
    {FB_KIND_SPAN_S, " uint int sint fixed32 fixed64 duration "},
    {FB_KIND_SPAN_MS, " uint int sint fixed32 fixed64 duration "},
    {FB_KIND_SPAN_US, " uint int sint fixed32 fixed64 duration "},
    {FB_KIND_SPAN_NS, " uint int sint fixed32 fixed64 duration "},
    {FB_KIND_LIST,
     " uint enum int sint bool float double fixed32 fixed64 string bytes ip timestamp duration "},
    {FB_KIND_OPAQUE, " bytes "},
};

static void refuses_sources_that_cannot_fill_a_column(void) {
    fb_memory memory = memory_for_test();
    fb_plan *plan;
    CHECK_STATUS(fb_plan_new(&plan, &memory), FB_OK);
    for (unsigned type = 0; type < FB_TYPE_COUNT; type++) {
        fb_column_spec spec = {.number = type + 1,
                               .type = (fb_type)type,
                               .flags = FB_COLUMN_ENABLED,
                               .limit = 255,
                               .unit = 1};
        CHECK_STATUS(fb_plan_add_column(plan, &spec), FB_OK);
        for (size_t i = 0; i < COUNT(matrix); i++) {
            char name[16];
            snprintf(name, sizeof name, " %s ", type_names[type]);
            fb_status expected = strstr(matrix[i].types, name) ? FB_OK : FB_BAD_SOURCE;
            fb_status status =
                fb_plan_add_element(plan, (uint16_t)type, 0, 0, (uint32_t)i + 1, 0, matrix[i].kind);
            if (status != expected)
                fprintf(stderr, "%s into %s\n", fb_kind_name(matrix[i].kind), type_names[type]);
            CHECK_STATUS(status, expected);
        }
    }
    CHECK_EQUAL(COUNT(matrix), FB_KIND_COUNT);
    fb_plan_free(plan);
    CHECK_EQUAL(memory.used, 0);
}

static void refuses_invalid_arguments(void) {
    fb_memory memory = memory_for_test();
    fb_plan *plan;
    fb_plan_new(&plan, &memory);
    static const fb_column_spec bad[] = {
        {.number = 0, .type = FB_TYPE_UINT},
        {.number = FB_NUMBER_MAX + 1, .type = FB_TYPE_UINT},
        {.number = 1, .type = FB_TYPE_COUNT},
        {.number = 1, .type = FB_TYPE_TIMESTAMP, .unit = 0},
        {.number = 1, .type = FB_TYPE_DURATION, .unit = 0},
        {.number = 1, .type = FB_TYPE_ENUM, .mappings_size = UINT16_MAX + 1},
        {.number = 1, .type = FB_TYPE_INT, .flags = FB_COLUMN_SCALED},
        {.number = 1, .type = FB_TYPE_DOUBLE, .flags = FB_COLUMN_RATE},
        {.number = 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_SCALED | FB_COLUMN_REPEATED},
        {.number = 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_RATE | FB_COLUMN_REPEATED},
        {.number = 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_SCALED | FB_COLUMN_RATE},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_STATUS(fb_plan_add_column(plan, &bad[i]), FB_BAD_ARGUMENT);
    /* column does not exist */
    CHECK_STATUS(fb_plan_add_source(plan, 0, 0, FB_SOURCE_META_SOURCE_PORT), FB_BAD_ARGUMENT);

    fb_column_spec good = {
        .number = FB_NUMBER_MAX, .type = FB_TYPE_UINT, .flags = FB_COLUMN_ENABLED};
    CHECK_STATUS(fb_plan_add_column(plan, &good), FB_OK);
    CHECK_STATUS(fb_plan_add_source(plan, 0, 0, FB_SOURCE_COUNT), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_source(plan, 0, FB_MAX_RANK + 1, FB_SOURCE_META_SOURCE_PORT),
                 FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_element(plan, 0, 0, 0, 1, 0, FB_KIND_COUNT), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_source(plan, 0, 0, FB_SOURCE_META_SOURCE_PORT), FB_OK);
    /* already a source of the column */
    CHECK_STATUS(fb_plan_add_source(plan, 0, 1, FB_SOURCE_META_SOURCE_PORT), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_element(plan, 0, 1, 0, 1, 0, FB_KIND_UINT), FB_OK);
    CHECK_STATUS(fb_plan_add_element(plan, 0, 1, 0, 1, 0, FB_KIND_UINT), FB_BAD_ARGUMENT);
    /* of another enterprise */
    CHECK_STATUS(fb_plan_add_element(plan, 0, 1, 9, 1, 0, FB_KIND_UINT), FB_OK);
    /* another occurrence */
    CHECK_STATUS(fb_plan_add_element(plan, 0, 1, 0, 1, 2, FB_KIND_UINT), FB_OK);
    CHECK_STATUS(fb_plan_add_element(plan, 0, 1, 0, 1, 2, FB_KIND_UINT), FB_BAD_ARGUMENT);

    CHECK_STATUS(fb_plan_seal(plan), FB_OK);
    CHECK_STATUS(fb_plan_seal(plan), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_column(plan, &good), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_element(plan, 0, 2, 0, 2, 0, FB_KIND_UINT), FB_BAD_ARGUMENT);
    fb_plan_free(plan);
}

static void limits_the_number_of_columns(void) {
    fb_memory memory = memory_for_test();
    fb_plan *plan;
    fb_plan_new(&plan, &memory);
    for (uint32_t i = 0; i < FB_MAX_COLUMNS; i++) {
        fb_column_spec spec = {
            .number = i + 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_ENABLED | FB_COLUMN_EXPLICIT};
        CHECK_STATUS(fb_plan_add_column(plan, &spec), FB_OK);
    }
    fb_column_spec spec = {.number = 5000, .type = FB_TYPE_UINT};
    CHECK_STATUS(fb_plan_add_column(plan, &spec), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_seal(plan), FB_OK);
    CHECK_EQUAL(plan->deferred_count, FB_MAX_COLUMNS);
    fb_plan_free(plan);
    CHECK_EQUAL(memory.used, 0);
}

static void pairs_columns_of_one_type(void) {
    fb_memory memory = memory_for_test();
    fb_plan *plan;
    static const uint8_t kinds[] = {FB_KIND_COUNT, FB_KIND_SINT};
    CHECK_STATUS(fb_plan_new(&plan, &memory), FB_OK);
    for (unsigned i = 0; i < 3; i++) {
        fb_column_spec spec = {.number = i + 1,
                               .type = i < 2 ? FB_TYPE_UINT : FB_TYPE_INT,
                               .flags = FB_COLUMN_ENABLED};
        CHECK_STATUS(fb_plan_add_column(plan, &spec), FB_OK);
    }
    CHECK_EQUAL(plan->columns[0].mirror, FB_NO_MIRROR);
    CHECK_STATUS(fb_plan_set_mirror(plan, 0, 1), FB_OK);
    CHECK_STATUS(fb_plan_set_mirror(plan, 0, 0), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_set_mirror(plan, 0, 2), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_set_mirror(plan, 0, 3), FB_BAD_ARGUMENT);
    CHECK_EQUAL(plan->columns[1].mirror, 0);
    CHECK_STATUS(fb_plan_set_registry(plan, kinds, 2), FB_OK);
    CHECK_STATUS(fb_plan_set_registry(plan, kinds, 2), FB_BAD_ARGUMENT);
    CHECK_EQUAL(fb_plan_member_kind(plan, &plan->columns[0], 0, 0), FB_KIND_UINT);
    CHECK_EQUAL(fb_plan_member_kind(plan, &plan->columns[0], 0, 1), FB_KIND_COUNT);
    CHECK_EQUAL(fb_plan_member_kind(plan, &plan->columns[0], 9, 1), FB_KIND_UINT);
    CHECK_EQUAL(fb_plan_member_kind(plan, &plan->columns[2], 0, 2), FB_KIND_SINT);
    CHECK_STATUS(fb_plan_seal(plan), FB_OK);
    CHECK_STATUS(fb_plan_set_mirror(plan, 0, 1), FB_BAD_ARGUMENT);
    fb_plan_free(plan);
    CHECK_EQUAL(memory.used, 0);
}

static void names_every_source_and_kind(void) {
    for (unsigned i = 0; i < FB_SOURCE_COUNT; i++) {
        CHECK(strchr(fb_source_name((fb_source)i), ':'));
        CHECK(fb_source_kind((fb_source)i) <= FB_KIND_FLOAT); /* fixed sources have simple kinds */
    }
    CHECK(!fb_source_name(FB_SOURCE_COUNT));
    CHECK(!fb_kind_name(FB_KIND_COUNT));
    CHECK_EQUAL(fb_netflow5_field_count(), 21);
    CHECK(!fb_netflow5_field_name(21));
    CHECK(strcmp(fb_netflow5_field_name(5), "dPkts") == 0);
}

/* Columns whose values wait ------------------------------------------------------------------ */

static void defers_columns_whose_ranks_arrive_out_of_order(void) {
    static const struct {
        const char *sources;
        bool waits;
    } cases[] = {
        {"ipfix:1", false},
        {"ipfix:1 ipfix:2", false}, /* operations are sorted by rank */
        {"ipfix:1 netflow5:dOctets packet:ip.length", false},
        {"meta:source_port ipfix:1", false},
        {"ipfix:1 meta:source_port", true},  /* constants come first */
        {"packet:ip.length ipfix:1", false}, /* the operation can wait for the packet */
        {"packet:ip.length ipfix:1 sflow:sampled_header.frame_length", false},
        {"sflow:flow_sample.input sflow:extended_switch.src_vlan", false},
        {"sflow:extended_switch.src_vlan sflow:flow_sample.input", true},
        {"packet:tcp.flags packet:ip.ttl", true},
        {"packet:ip.ttl,packet:tcp.flags", false}, /* among equal ranks the first in record order */
        {"packet:ip.ttl sflow:flow_sample.input", true},
        {"meta:source_port,ipfix:1", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_memory memory = memory_for_test();
        named_plan plan;
        text line = {0};
        text_put(&line, "1 u uint : %s\n2 x uint explicit : %s\n3 r uint repeated : %s",
                 cases[i].sources, cases[i].sources, cases[i].sources);
        CHECK_STATUS(plan_read(&plan, text_of(&line), &memory), FB_OK);
        if (!(plan.plan->columns[0].flags & FB_COLUMN_DEFERRED) == cases[i].waits)
            fprintf(stderr, "%s\n", cases[i].sources);
        CHECK(!!(plan.plan->columns[0].flags & FB_COLUMN_DEFERRED) == cases[i].waits);
        CHECK(plan.plan->columns[1].flags & FB_COLUMN_DEFERRED); /* its zero comes last */
        CHECK(!(plan.plan->columns[2].flags & FB_COLUMN_DEFERRED));
        CHECK_EQUAL(plan.plan->deferred_count, 1 + cases[i].waits);
        plan_free(&plan);
        text_free(&line);
        CHECK_EQUAL(memory.used, 0);
    }
}

static void defers_totals_and_their_rate(void) {
    fb_memory memory = memory_for_test();
    named_plan plan;
    CHECK_STATUS(
        plan_read(&plan,
                  "1 off uint rate disabled\n2 rate fixed64 rate\n3 total uint scaled : ipfix:1\n"
                  "4 plain uint : ipfix:1\n5 none uint scaled disabled",
                  &memory),
        FB_OK);
    CHECK_EQUAL(plan.plan->rate_column, plan_column(&plan, "rate"));
    CHECK(plan.plan->columns[plan_column(&plan, "rate")].flags & FB_COLUMN_DEFERRED);
    CHECK(plan.plan->columns[plan_column(&plan, "total")].flags & FB_COLUMN_DEFERRED);
    CHECK_EQUAL(plan.plan->deferred_count, 2);
    plan_free(&plan);
    CHECK_STATUS(plan_read(&plan, "1 rate uint : ipfix:34", &memory), FB_OK);
    CHECK_EQUAL(plan.plan->rate_column, FB_NO_COLUMN);
    CHECK_EQUAL(plan.plan->deferred_count, 0);
    plan_free(&plan);
    CHECK_EQUAL(memory.used, 0);
}

static void allows_one_enabled_rate(void) {
    fb_memory memory = memory_for_test();
    fb_plan *plan;
    fb_plan_new(&plan, &memory);
    fb_column_spec first = {
        .number = 1, .type = FB_TYPE_UINT, .flags = FB_COLUMN_ENABLED | FB_COLUMN_RATE};
    fb_column_spec second = {
        .number = 2, .type = FB_TYPE_UINT, .flags = FB_COLUMN_ENABLED | FB_COLUMN_RATE};
    fb_column_spec disabled = {.number = 3, .type = FB_TYPE_UINT, .flags = FB_COLUMN_RATE};
    CHECK_STATUS(fb_plan_add_column(plan, &first), FB_OK);
    CHECK_STATUS(fb_plan_add_column(plan, &second), FB_BAD_ARGUMENT);
    CHECK_STATUS(fb_plan_add_column(plan, &disabled), FB_OK);
    CHECK_EQUAL(plan->rate_column, 0);
    fb_plan_free(plan);
}

static void ignores_disabled_columns(void) {
    fb_memory memory = memory_for_test();
    named_plan plan;
    CHECK_STATUS(plan_read(&plan,
                           "1 off uint disabled late explicit : meta:source_port packet:ip.ttl "
                           "sflow:flow_sample.input\n"
                           "2 text string disabled\n",
                           &memory),
                 FB_OK);
    CHECK_EQUAL(plan.plan->deferred_count, 0);
    CHECK_EQUAL(plan.plan->open, 0);
    CHECK_EQUAL(plan.plan->max_size_per_byte, 0);
    CHECK(!plan.plan->has_packet);
    for (unsigned i = 0; i < FB_SOURCE_COUNT; i++) CHECK_EQUAL(plan.plan->sources[i].count, 0);
    plan_free(&plan);
}

/* Elements and sizes ------------------------------------------------------------------------- */

static void finds_the_columns_of_an_element(void) {
    fb_memory memory = memory_for_test();
    named_plan plan;
    size_t count;
    CHECK_STATUS(plan_read(&plan,
                           "1 a uint : ipfix:8@uint ipfix:9\n2 b uint : ipfix:9 ipfix:2636/9\n"
                           "3 c uint : netflow9:9\n",
                           &memory),
                 FB_OK);
    const fb_plan_element *found = fb_plan_find_elements(plan.plan, 0, 9, &count);
    CHECK_EQUAL(count, 2);
    CHECK_EQUAL(found[0].target.column, 0), CHECK_EQUAL(found[0].target.rank, 1);
    CHECK_EQUAL(found[1].target.column, 1), CHECK_EQUAL(found[1].target.rank, 0);
    found = fb_plan_find_elements(plan.plan, 2636, 9, &count);
    CHECK_EQUAL(count, 1), CHECK_EQUAL(found->target.column, 1);
    found = fb_plan_find_elements(plan.plan, FB_PEN_NETFLOW9, 9, &count);
    CHECK_EQUAL(count, 1), CHECK_EQUAL(found->target.column, 2);
    fb_plan_find_elements(plan.plan, 0, 10, &count);
    CHECK_EQUAL(count, 0);
    fb_plan_find_elements(plan.plan, UINT64_MAX, 0, &count);
    CHECK_EQUAL(count, 0);
    plan_free(&plan);
}

/* Return the maximum size that a column adds to an empty plan's row. */
static void computes_the_maximum_size_of_a_row(void) {
    static const struct {
        const char *line;
        size_t fixed, byte;
    } cases[] = {
        {"1 a uint", 1 + 10, 0},
        {"16 a uint", 2 + 10, 0},
        {"536870911 a bool", 5 + 10, 0},
        {"1 a fixed32", 1 + 4, 0},
        {"1 a float", 1 + 4, 0},
        {"1 a fixed64", 1 + 8, 0},
        {"1 a double", 1 + 8, 0},
        {"1 a ip", 1 + 1 + 16, 0},
        {"1 a bytes", 1 + 1, 1},
        {"1 a string", 1 + 1, 3},
        {"1 a uint repeated", 1 + 10, 1 + 10},
        {"1 a uint disabled", 0, 0},
    };
    fb_memory memory = memory_for_test();
    named_plan plan;
    CHECK_STATUS(plan_read(&plan, "", &memory), FB_OK);
    size_t empty = plan.plan->max_fixed_size;
    plan_free(&plan);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_STATUS(plan_read(&plan, cases[i].line, &memory), FB_OK);
        CHECK(plan.plan->max_fixed_size - empty >= cases[i].fixed);
        CHECK(plan.plan->max_fixed_size - empty <= cases[i].fixed + 20);
        CHECK(plan.plan->max_size_per_byte >= cases[i].byte);
        CHECK((plan.plan->max_size_per_byte == 0) == (cases[i].byte == 0));
        plan_free(&plan);
    }
}

RUN_TESTS(TEST(refuses_sources_that_cannot_fill_a_column), TEST(refuses_invalid_arguments),
          TEST(limits_the_number_of_columns), TEST(pairs_columns_of_one_type),
          TEST(names_every_source_and_kind), TEST(defers_columns_whose_ranks_arrive_out_of_order),
          TEST(defers_totals_and_their_rate), TEST(allows_one_enabled_rate),
          TEST(ignores_disabled_columns), TEST(finds_the_columns_of_an_element),
          TEST(computes_the_maximum_size_of_a_row))
