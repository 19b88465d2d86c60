/* Templates are compiled to operations for the fields that the plan uses, in the order of ranks.
   Identical templates are compiled once. */
#include "tests/support/check.h"

#include "tests/support/plan_text.h"
#include "core/exporter/template.h"

#include <stdlib.h>
#include <time.h>

typedef struct {
    fb_check_allocator allocator;
    fb_memory memory;
    named_plan plan;
    fb_compiled_templates compiled_templates;
    text text;
} compiler;

static void compiler_open(compiler *f, const char *lines) {
    memset(f, 0, sizeof *f);
    f->memory = fb_check_memory(&f->allocator);
    CHECK_STATUS(plan_read(&f->plan, lines, &f->memory), FB_OK);
    CHECK_STATUS(
        fb_compiled_templates_new(&f->compiled_templates, f->plan.plan, &f->memory, 7, false),
        FB_OK);
}

static void compiler_close(compiler *f) {
    fb_compiled_templates_free(&f->compiled_templates);
    plan_free(&f->plan);
    text_free(&f->text);
    CHECK_EQUAL(f->memory.used, 0);
    CHECK_EQUAL(f->allocator.held, 0);
}

#define TEMPLATE(...) \
    (const fb_field[]){__VA_ARGS__}, sizeof((const fb_field[]){__VA_ARGS__}) / sizeof(fb_field)

static fb_compiled_template *acquire(compiler *f, unsigned version, const fb_field *fields,
                                     size_t count) {
    fb_compiled_template *compiled = NULL;
    CHECK_STATUS(fb_compiled_templates_acquire(&f->compiled_templates, (uint16_t)version, fields,
                                               (uint16_t)count, 0, false, &compiled),
                 FB_OK);
    return compiled;
}

/* Compare by column and rank, across groups. */
static int compare_ops(const void *a, const void *b) {
    const fb_op *x = a, *y = b;
    if (x->target.column != y->target.column) return x->target.column - y->target.column;
    return x->target.rank != y->target.rank ? x->target.rank - y->target.rank : x->field - y->field;
}

/* Return the operations as text: "column.rank<field@offset:code ". */
static const char *ops_of(compiler *f, const fb_compiled_template *compiled) {
    static const char *const codes[] = {"8",     "16",      "32",     "64",      "tcp",  "ipv4",
                                        "ipv6",  "enum",    "etype4", "etype6",  "uint", "value",
                                        "again", "collect", "packet", "sampler", "rate", "etype",
                                        "type",  "code",    "status", "labels",  "flags"};
    fb_op ops[64];
    size_t before_packet = 0;
    assert(compiled->op_count <= 64);
    memcpy(ops, compiled->ops, compiled->op_count * sizeof *ops);
    while (before_packet < compiled->op_count && ops[before_packet].code != FB_OP_PACKET)
        before_packet++;
    qsort(ops, before_packet, sizeof *ops, compare_ops);
    text_clear(&f->text);
    for (size_t i = 0; i < compiled->op_count; i++) {
        const fb_op *op = &ops[i];
        if (op->code != FB_OP_PACKET)
            text_put(&f->text, "%s.%u", f->plan.names[op->target.column], op->target.rank);
        if (op->field != FB_NO_FIELD) text_put(&f->text, "<%u@%u", op->field, op->offset);
        text_put(&f->text, ":%s ", codes[op->code]);
    }
    return text_of(&f->text);
}

#define CHECK_OPS(f, compiled, expected) \
    do { \
        const char *ops = ops_of(f, compiled); \
        if (strcmp(ops, expected)) \
            fprintf(stderr, "%s:%d: %s, not %s\n", __FILE__, __LINE__, ops, expected); \
        CHECK(strcmp(ops, expected) == 0); \
    } while (0)

static void compiles_an_operation_for_each_used_field(void) {
    compiler f;
    compiler_open(&f, "1 bytes uint : ipfix:1\n2 src ip : ipfix:8,ipfix:27\n"
                      "3 port uint limit=65535 : ipfix:7\n4 proto uint limit=255 : ipfix:4\n");
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 4, .size = 1}, {.id = 99, .size = 7}, {.id = 8, .size = 4},
                         {.id = 7, .size = 2}, {.id = 27, .size = 16}, {.id = 1, .size = 8}));
    CHECK_OPS(&f, compiled,
              "bytes.0<5@30:64 src.0<2@8:ipv4 src.0<4@14:ipv6 port.0<3@12:16 proto.0<0@0:8 ");
    CHECK_EQUAL(compiled->record_size, 38);
    CHECK(!compiled->variable_count);
    fb_compiled_templates_release(&f.compiled_templates, compiled);
    CHECK_EQUAL(f.compiled_templates.count, 0);
    compiler_close(&f);
}

static void sorts_operations_by_rank(void) {
    compiler f;
    compiler_open(&f, "1 bytes uint : ipfix:85 ipfix:1 ipfix:231,ipfix:23\n");
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 23, .size = 4}, {.id = 1, .size = 4}, {.id = 231, .size = 4},
                         {.id = 85, .size = 4}));
    CHECK_OPS(&f, compiled, "bytes.0<3@12:32 bytes.1<1@4:32 bytes.2<0@0:32 bytes.2<2@8:32 ");
    compiler_close(&f);
}

static void reads_the_first_of_two_equal_elements(void) {
    compiler f;
    compiler_open(&f, "1 src ip : ipfix:8\n2 also ip : ipfix:12 ipfix:8\n");
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 8, .size = 4}, {.id = 8, .size = 4}, {.id = 12, .size = 4},
                         {.id = 12, .size = 4}));
    CHECK_OPS(&f, compiled, "src.0<0@0:ipv4 also.0<2@8:ipv4 also.1<0@0:ipv4 ");
    compiler_close(&f);
}

/* A plain load is used only if every value of the field fits the column. */
static void checks_values_of_sizes_that_may_not_fit(void) {
    compiler f;
    compiler_open(&f,
                  "1 wide uint : ipfix:1\n2 byte uint limit=255 : ipfix:1\n3 addr ip : ipfix:8\n"
                  "4 kind enum : ipfix:1\n");
    static const struct {
        uint16_t size;
        const char *ops;
    } cases[] = {
        {1, "wide.0<0@0:8 byte.0<0@0:8 addr.0<1@1:ipv4 kind.0<0@0:enum "},
        {2, "wide.0<0@0:16 byte.0<0@0:uint addr.0<1@2:ipv4 kind.0<0@0:value "},
        {3, "wide.0<0@0:uint byte.0<0@0:uint addr.0<1@3:ipv4 kind.0<0@0:value "},
        {4, "wide.0<0@0:32 byte.0<0@0:uint addr.0<1@4:ipv4 kind.0<0@0:value "},
        {8, "wide.0<0@0:64 byte.0<0@0:uint addr.0<1@8:ipv4 kind.0<0@0:value "},
        {9, "wide.0<0@0:value byte.0<0@0:value addr.0<1@9:ipv4 kind.0<0@0:value "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_field fields[] = {{.id = 1, .size = cases[i].size}, {.id = 8, .size = 4}};
        CHECK_OPS(&f, acquire(&f, 10, fields, 2), cases[i].ops);
    }
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 8, .size = 5})), "addr.0<0@0:value ");
    compiler_close(&f);
}

static void parses_packets_at_their_rank(void) {
    compiler f;
    compiler_open(
        &f, "1 bytes uint : ipfix:1 packet:ip.length ipfix:312\n2 ttl uint : packet:ip.ttl\n");
    CHECK_OPS(
        &f,
        acquire(&f, 10,
                TEMPLATE({.id = 312, .size = 2}, {.id = 315, .size = 64}, {.id = 1, .size = 4})),
        "bytes.0<2@66:32 :packet bytes.2<0@0:16 ");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 312, .size = 2}, {.id = 1, .size = 4})),
              "bytes.0<1@2:32 bytes.2<0@0:16 ");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 313, .size = 20})), ":packet ");
    compiler_close(&f);
}

/* A selected occurrence is a move like any other field. The chain of a repeated column has all
   occurrences, except fields of zero bytes. */
static void selects_and_collects_occurrences(void) {
    static const uint16_t chain[] = {2, FB_NO_FIELD, 4, FB_NO_FIELD, FB_NO_FIELD};
    compiler f;
    compiler_open(&f,
                  "1 a uint : ipfix:5#2 ipfix:5\n2 b uint : ipfix:5#last\n3 c uint : ipfix:5#9\n"
                  "4 d uint repeated : ipfix:5\n5 e uint repeated : ipfix:5#2\n"
                  "6 f uint repeated : ipfix:6\n");
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 5, .size = 1}, {.id = 6, .size = 2}, {.id = 5, .size = 4},
                         {.id = 5, .size = 0}, {.id = 5, .size = 2}));
    CHECK_OPS(&f, compiled,
              "a.0<2@3:32 a.1<0@0:8 b.0<4@7:16 d.0<0@0:collect e.0<2@3:value f.0<1@1:value ");
    CHECK_EQUAL(compiled->chain_count, 5);
    CHECK(memcmp(compiled->chain, chain, sizeof chain) == 0);
    compiler_close(&f);
    compiler_open(&f, "1 a uint : ipfix:5#last\n");
    CHECK_EQUAL(acquire(&f, 10, TEMPLATE({.id = 5, .size = 1}, {.id = 5, .size = 4}))->chain_count,
                0);
    compiler_close(&f);
}

static void separates_the_element_spaces(void) {
    compiler f;
    compiler_open(&f, "1 a uint : ipfix:5@uint\n2 b uint : netflow9:5\n3 c uint : ipfix:9/5@uint\n"
                      "4 d uint : netflow5:dPkts\n");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 5, .size = 1})), "a.0<0@0:8 ");
    CHECK_OPS(&f, acquire(&f, 9, TEMPLATE({.id = 5, .size = 1})), "a.0<0@0:8 b.0<0@0:8 ");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.pen = 9, .id = 5, .size = 1})), "c.0<0@0:8 ");
    compiler_close(&f);
}

static void derives_only_values_whose_fields_exist(void) {
    compiler f;
    compiler_open(&f, "1 rate uint : derived:sampling_rate\n2 type uint : derived:icmp_type\n"
                      "3 status uint : derived:forwarding_status\n"
                      "4 labels uint repeated : derived:mpls_labels\n");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 1, .size = 4})), "rate.0:rate ");
    CHECK_OPS(&f, acquire(&f, 10, TEMPLATE({.id = 4, .size = 1}, {.id = 11, .size = 2})),
              "rate.0:rate type.0:type ");
    CHECK_OPS(
        &f,
        acquire(&f, 10,
                TEMPLATE({.pen = FB_PEN_JUNIPER, .id = 137, .size = 2}, {.id = 73, .size = 3})),
        "rate.0:rate status.0:status labels.0:labels ");
    compiler_close(&f);
}

/* Biflows ------------------------------------------------------------------------------------ */

static const char *const biflow_columns =
    "1 bytes uint one_way : ipfix:1 ipfix:231\n2 src ip mirror=dst : ipfix:8\n"
    "3 dst ip : ipfix:12\n4 flags uint one_way : ipfix:6\n5 in uint mirror=out : ipfix:10\n"
    "6 out uint : ipfix:14\n7 tos uint : ipfix:5\n8 type uint one_way : derived:icmp_type\n"
    "9 rate uint : derived:sampling_rate\n";

static void compiles_the_reverse_flow_of_a_biflow(void) {
    compiler f;
    compiler_open(&f, biflow_columns);
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 8, .size = 4}, {.id = 12, .size = 4}, {.id = 1, .size = 4},
                         {.id = 6, .size = 1}, {.id = 10, .size = 4}, {.id = 5, .size = 1},
                         {FB_PEN_REVERSE, 1, 4}, {FB_PEN_REVERSE, 5, 1}));
    CHECK_OPS(&f, compiled,
              "bytes.0<2@8:32 src.0<0@0:ipv4 dst.0<1@4:ipv4 flags.0<3@12:8 in.0<4@13:32 "
              "tos.0<5@17:8 rate.0:rate ");
    CHECK(compiled->reverse);
    /* source and destination are exchanged; it has its own counter and type of service, no flags */
    CHECK_OPS(
        &f, compiled->reverse,
        "bytes.0<6@18:32 src.0<1@4:ipv4 dst.0<0@0:ipv4 out.0<4@13:32 tos.0<7@22:8 rate.0:rate ");
    CHECK_EQUAL(compiled->reverse->counter_count, 1);
    CHECK_EQUAL(compiled->reverse->counters[0], 6);
    CHECK(compiled->bytes > compiled->reverse->bytes);
    compiler_close(&f);
}

static void exchanges_fields_without_a_reverse_element(void) {
    compiler f;
    compiler_open(&f, biflow_columns);
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 10, .size = 4}, {.id = 14, .size = 4}, {FB_PEN_REVERSE, 2, 4},
                         {FB_PEN_REVERSE, 10, 4}));
    /* input has its own element; output is the input of the forward direction */
    CHECK_OPS(&f, compiled->reverse, "in.0<3@12:32 out.0<0@0:32 rate.0:rate ");
    compiler_close(&f);
}

static void reads_responder_elements_as_reverse_elements(void) {
    compiler f;
    compiler_open(&f, biflow_columns);
    for (unsigned version = 9; version <= 10; version++) {
        fb_compiled_template *compiled =
            acquire(&f, version,
                    TEMPLATE({.id = 231, .size = 4}, {.id = 232, .size = 4}, {.id = 4, .size = 1},
                             {.id = 11, .size = 2}));
        CHECK_OPS(&f, compiled, "bytes.1<0@0:32 type.0:type rate.0:rate ");
        /* the ports of the forward direction give no ICMP type */
        CHECK_OPS(&f, compiled->reverse, "bytes.1<1@4:32 rate.0:rate ");
    }
    compiler_close(&f);
}

static void compiles_no_reverse_flow_without_a_counter(void) {
    compiler f;
    compiler_open(&f, biflow_columns);
    CHECK(!acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}))->reverse);
    CHECK(!acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}, {FB_PEN_REVERSE, 6, 1}))->reverse);
    CHECK(!acquire(&f, 9, TEMPLATE({.id = 40000, .size = 4}))->reverse);
    fb_field fields[] = {{.id = 232, .size = 4}, {.id = 34, .size = 4}};
    fb_compiled_template *options;
    CHECK_STATUS(
        fb_compiled_templates_acquire(&f.compiled_templates, 10, fields, 2, 1, true, &options),
        FB_OK);
    CHECK(!options->reverse);
    compiler_close(&f);
}

static void compiles_no_operations_for_options(void) {
    compiler f;
    fb_compiled_template *compiled;
    fb_field fields[] = {{.id = 302, .size = 4}, {.id = 34, .size = 4}};
    compiler_open(&f, usual_columns);
    CHECK_STATUS(
        fb_compiled_templates_acquire(&f.compiled_templates, 10, fields, 2, 1, true, &compiled),
        FB_OK);
    CHECK_EQUAL(compiled->op_count, 0);
    CHECK_EQUAL(compiled->role[FB_ROLE_SELECTOR_ID], 0);
    /* Scope fields of NetFlow v9 are not information elements. */
    CHECK_STATUS(
        fb_compiled_templates_acquire(&f.compiled_templates, 9, fields, 2, 1, true, &compiled),
        FB_OK);
    CHECK_EQUAL(compiled->role[FB_ROLE_SELECTOR_ID], FB_NO_FIELD);
    CHECK_EQUAL(compiled->role[FB_ROLE_SAMPLING_INTERVAL], 1);
    compiler_close(&f);
}

/* Records of variable size ------------------------------------------------------------------- */

static void locates_the_fields_of_every_prefix_of_a_record(void) {
    static const uint8_t record[] = "\1\2"
                                    "\3abc"
                                    "\xff\0\2de"
                                    "\0"
                                    "\7";
    enum { SIZE = sizeof record - 1 };
    compiler f;
    fb_location at[5];
    compiler_open(&f, usual_columns);
    fb_compiled_template *compiled =
        acquire(&f, 10,
                TEMPLATE({.id = 7, .size = 2}, {.id = 82, .size = FB_VARIABLE_SIZE},
                         {.id = 83, .size = FB_VARIABLE_SIZE}, {.id = 84, .size = FB_VARIABLE_SIZE},
                         {.id = 4, .size = 1}));
    CHECK_EQUAL(compiled->variable_count, 3);
    CHECK_EQUAL(compiled->record_size, 6);
    for (size_t size = 0; size <= SIZE; size++) {
        uint8_t *copy = fb_guarded_copy(record, size);
        const uint8_t *end = fb_compiled_template_locate(compiled, copy, copy + size, at);
        CHECK(end == (size == SIZE ? copy + SIZE : NULL));
        fb_guarded_free(copy, size);
    }
    static const struct {
        size_t offset, size;
    } expected[] = {{0, 2}, {3, 3}, {9, 2}, {12, 0}, {12, 1}};
    CHECK(fb_compiled_template_locate(compiled, record, record + SIZE, at) == record + SIZE);
    for (uint16_t i = 0; i < 5; i++) {
        fb_bytes field = fb_compiled_template_field(compiled, i, record, at);
        CHECK_EQUAL(field.data - record, expected[i].offset);
        CHECK_EQUAL(field.size, expected[i].size);
    }
    /* NetFlow v9 too */
    CHECK_EQUAL(acquire(&f, 9, TEMPLATE({.id = 82, .size = FB_VARIABLE_SIZE}))->variable_count, 1);
    compiler_close(&f);
}

/* Sharing ------------------------------------------------------------------------------------ */

static void compiles_identical_templates_once(void) {
    compiler f;
    compiler_open(&f, usual_columns);
    fb_compiled_template *first =
        acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}, {.id = 2, .size = 4}));
    size_t calls = f.allocator.calls;
    for (unsigned i = 0; i < 100000; i++)
        CHECK(acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}, {.id = 2, .size = 4})) == first);
    CHECK_EQUAL(f.allocator.calls, calls);
    CHECK_EQUAL(first->references, 100001);
    CHECK(acquire(&f, 9, TEMPLATE({.id = 1, .size = 4}, {.id = 2, .size = 4})) != first);
    CHECK(acquire(&f, 10, TEMPLATE({.id = 2, .size = 4}, {.id = 1, .size = 4})) != first);
    CHECK(acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}, {.id = 2, .size = 8})) != first);
    CHECK(acquire(&f, 10, TEMPLATE({.id = 1, .size = 4})) != first);
    CHECK(acquire(&f, 10, TEMPLATE({.id = 1, .size = 4}, {.pen = 1, .id = 2, .size = 4})) != first);
    CHECK_EQUAL(f.compiled_templates.count, 6);
    while (f.compiled_templates.count == 6)
        fb_compiled_templates_release(&f.compiled_templates, first);
    compiler_close(&f);
}

static void finds_each_of_many_compiled_templates(void) {
    enum { TEMPLATE_COUNT = 20000 };
    static fb_compiled_template *compiled_templates[TEMPLATE_COUNT];
    compiler f;
    compiler_open(&f, "1 bytes uint : ipfix:1\n");
    for (unsigned i = 0; i < TEMPLATE_COUNT; i++) {
        fb_field fields[] = {{.id = 1, .size = 4},
                             {.id = (uint16_t)(100 + i % 200), .size = (uint16_t)(i / 200 + 1)}};
        compiled_templates[i] = acquire(&f, 10, fields, 2);
    }
    CHECK_EQUAL(f.compiled_templates.count, TEMPLATE_COUNT);
    CHECK(f.compiled_templates.bucket_count >= TEMPLATE_COUNT);
    for (unsigned i = 0; i < TEMPLATE_COUNT; i++) {
        CHECK_EQUAL(compiled_templates[i]->fields[1].size, i / 200 + 1);
        fb_compiled_templates_release(&f.compiled_templates, compiled_templates[i]);
    }
    CHECK_EQUAL(f.compiled_templates.count, 0);
    compiler_close(&f);
}

/* Hostile templates -------------------------------------------------------------------------- */

static void refuses_templates_of_empty_records(void) {
    compiler f;
    fb_compiled_template *compiled;
    fb_field empty[] = {{.id = 1, .size = 0}, {.id = 2, .size = 0}};
    compiler_open(&f, usual_columns);
    CHECK_STATUS(
        fb_compiled_templates_acquire(&f.compiled_templates, 10, empty, 2, 0, false, &compiled),
        FB_EMPTY_TEMPLATE);
    CHECK_STATUS(
        fb_compiled_templates_acquire(&f.compiled_templates, 10, empty, 0, 0, false, &compiled),
        FB_EMPTY_TEMPLATE);
    CHECK_EQUAL(f.compiled_templates.count, 0);
    compiler_close(&f);
}

/* More fields than a datagram can contain, all of the same element or all different. The plan
   bounds the number of operations. */
static void bounds_the_cost_of_huge_templates(void) {
    enum { FIELDS = 65535 };
    static fb_field fields[FIELDS];
    text lines = {0};
    compiler f;
    plan_put_rich(&lines);
    compiler_open(&f, text_of(&lines));
    clock_t start = clock();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < FIELDS; i++)
            fields[i] = (fb_field){.id = (uint16_t)(round ? i % 500 : 1),
                                   .size = (uint16_t)(round == 2 ? FB_VARIABLE_SIZE : 9)};
        size_t before = f.memory.used;
        fb_compiled_template *compiled = acquire(&f, 10, fields, FIELDS);
        CHECK(compiled->op_count <= f.plan.plan->element_count + f.plan.plan->target_count + 1);
        /* for nested records */
        size_t scratch = round == 2 ? FB_LIST_DEPTH * FIELDS * sizeof(fb_location) : 0;
        CHECK(f.memory.used - before < FIELDS * 64 + 65536 + scratch);
        CHECK_EQUAL(compiled->record_size, FIELDS * (round == 2 ? 1 : 9));
    }
    CHECK(clock() - start < 5 * CLOCKS_PER_SEC);
    text_free(&lines);
    compiler_close(&f);
}

static void survives_every_failed_allocation(void) {
    for (size_t fail_at = 1; fail_at < 6; fail_at++) {
        compiler f;
        fb_compiled_template *compiled = NULL;
        fb_field field = {.id = 1, .size = 4};
        compiler_open(&f, usual_columns);
        f.allocator.calls = 0;
        f.allocator.fail_at = fail_at;
        fb_status status = fb_compiled_templates_acquire(&f.compiled_templates, 10, &field, 1, 0,
                                                         false, &compiled);
        CHECK(status == FB_NO_MEMORY || (status == FB_OK && f.allocator.calls < fail_at));
        f.allocator.fail_at = 0;
        CHECK_STATUS(fb_compiled_templates_acquire(&f.compiled_templates, 10, &field, 1, 0, false,
                                                   &compiled),
                     FB_OK);
        CHECK_EQUAL(f.compiled_templates.count, 1);
        compiler_close(&f);
    }
}

RUN_TESTS(TEST(compiles_an_operation_for_each_used_field), TEST(sorts_operations_by_rank),
          TEST(reads_the_first_of_two_equal_elements),
          TEST(checks_values_of_sizes_that_may_not_fit), TEST(parses_packets_at_their_rank),
          TEST(selects_and_collects_occurrences), TEST(parses_packets_at_their_rank),
          TEST(separates_the_element_spaces), TEST(derives_only_values_whose_fields_exist),
          TEST(compiles_the_reverse_flow_of_a_biflow),
          TEST(exchanges_fields_without_a_reverse_element),
          TEST(reads_responder_elements_as_reverse_elements),
          TEST(compiles_no_reverse_flow_without_a_counter),
          TEST(compiles_no_operations_for_options),
          TEST(locates_the_fields_of_every_prefix_of_a_record),
          TEST(compiles_identical_templates_once), TEST(finds_each_of_many_compiled_templates),
          TEST(refuses_templates_of_empty_records), TEST(bounds_the_cost_of_huge_templates),
          TEST(survives_every_failed_allocation))
