/* Arrays that do not match their schemas, and malformed schemas. */
#include "tests/builders/arrow_bench.h"
#include "tests/support/native.h"

static const char *const odd_lines = "1 a uint\n2 b string\n3 c bytes\n4 d uint repeated\n5 e enum";

static arrow_node *make_odd(void) {
    return arrow_batch(
        2, 5,
        (arrow_node *[]){arrow_values("I", "1 2"), arrow_values("u", "ab cd"),
                         arrow_values("vz", "x01 x000102030405060708090a0b0c0d0e"),
                         arrow_list("+l", "1 1", arrow_values("I", "5 6")),
                         arrow_dictionary("c", "0 1", arrow_values("u", "in egress"))});
}

static void check_odd(void (*change)(arrow_node *batch), fb_status expected, fb_arrow_reason reason,
                      size_t child) {
    arrow_node *batch = make_odd();
    bench b;
    size_t position = 0;
    bench_open(&b, odd_lines, batch);
    change(batch);
    CHECK_STATUS(encode(&b, batch, &position), expected);
    CHECK_EQUAL(b.encoder.fault.reason, reason);
    CHECK_EQUAL(b.encoder.fault.child, child);
    bench_close(&b);
    arrow_free(batch);
}

static void change_nothing(arrow_node *batch) {
    (void)batch;
}
static void have_fewer_children(arrow_node *batch) {
    batch->array.n_children--;
}
static void have_no_buffers(arrow_node *batch) {
    batch->array.n_buffers = 0;
}
static void have_less_than_no_rows(arrow_node *batch) {
    batch->array.length = -1;
}
static void begin_before_the_beginning(arrow_node *batch) {
    batch->array.offset = -1;
}
static void have_more_rows(arrow_node *batch) {
    batch->array.length++;
}
static void begin_later(arrow_node *batch) {
    batch->array.offset++;
}
static void have_no_end(arrow_node *batch) {
    batch->nodes[0]->array.length = INT64_MAX;
}
static void have_another_buffer(arrow_node *batch) {
    batch->nodes[0]->array.n_buffers = 3;
}
static void have_no_list_of_buffers(arrow_node *batch) {
    batch->nodes[0]->array.buffers = NULL;
}
static void have_no_values(arrow_node *batch) {
    batch->nodes[0]->array.buffers = batch->nodes[0]->buffers + 3;
}
static void have_nulls_nobody_knows(arrow_node *batch) {
    batch->nodes[1]->array.null_count = 1;
}
static void have_no_sizes(arrow_node *batch) {
    batch->nodes[2]->array.n_buffers = 2;
}
static void have_two_kinds_of_members(arrow_node *batch) {
    batch->nodes[3]->array.n_children = 2;
}
static void have_no_dictionary(arrow_node *batch) {
    batch->nodes[4]->array.dictionary = NULL;
}
static void have_less_than_no_children(arrow_node *batch) {
    batch->array.n_children = -1;
}
static void have_no_list_of_children(arrow_node *batch) {
    batch->array.children = NULL;
}
static void have_a_child_that_is_none(arrow_node *batch) {
    batch->array.children[2] = NULL;
}
static void have_no_members(arrow_node *batch) {
    batch->nodes[3]->array.children[0] = NULL;
}
static void have_no_list_of_members(arrow_node *batch) {
    batch->nodes[3]->array.children = NULL;
}
static void have_less_than_no_buffers(arrow_node *batch) {
    batch->nodes[2]->array.n_buffers = -1;
}
static void have_less_than_no_nulls(arrow_node *batch) {
    batch->nodes[0]->array.null_count = -2;
}
static void have_too_many_nulls(arrow_node *batch) {
    batch->nodes[0]->array.null_count = 3;
}
static void have_a_dictionary_of_less_than_nothing(arrow_node *batch) {
    batch->nodes[4]->dictionary->array.length = -1;
}

static void refuses_arrays_that_are_laid_out_otherwise(void) {
    check_odd(change_nothing, FB_OK, FB_ARROW_NONE, FB_NO_CHILD);
    check_odd(have_fewer_children, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_no_buffers, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_less_than_no_rows, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(begin_before_the_beginning, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_more_rows, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(begin_later, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_no_end, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_another_buffer, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_no_list_of_buffers, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_no_values, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_nulls_nobody_knows, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 1);
    check_odd(have_no_sizes, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 2);
    check_odd(have_two_kinds_of_members, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_odd(have_no_dictionary, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 4);
    check_odd(have_less_than_no_children, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_no_list_of_children, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_a_child_that_is_none, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_odd(have_no_members, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_odd(have_no_list_of_members, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_odd(have_less_than_no_buffers, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 2);
    check_odd(have_less_than_no_nulls, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_too_many_nulls, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_odd(have_a_dictionary_of_less_than_nothing, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 4);
}

/* Make a schema of a list of dictionary texts. The test makes each part malformed. */
static arrow_node *make_nested(void) {
    arrow_node *texts = arrow_dictionary("c", "0 0", arrow_values("u", "ab"));
    arrow_node *lists = arrow_dictionary("c", "0", arrow_list("+l", "2", texts));
    return arrow_batch(1, 1, &lists);
}

static struct ArrowSchema *schema_at(arrow_node *batch, size_t level) {
    struct ArrowSchema *schema = &batch->schema;
    for (size_t i = 0; i < level; i++)
        schema = schema->dictionary ? schema->dictionary : schema->children[0];
    return schema;
}

static void count_less_than_no_children(struct ArrowSchema *schema) {
    schema->n_children = -1;
}
static void count_the_fewest_children(struct ArrowSchema *schema) {
    schema->n_children = INT64_MIN;
}
static void count_children_that_are_not_there(struct ArrowSchema *schema) {
    schema->n_children = 1;
    schema->children = NULL;
}
static void count_a_child_that_is_none(struct ArrowSchema *schema) {
    static struct ArrowSchema *none[1];
    schema->n_children = 1;
    schema->children = none;
}
static void have_no_format(struct ArrowSchema *schema) {
    schema->format = NULL;
}

static void check_schema(void (*change)(struct ArrowSchema *schema), size_t level) {
    arrow_node *batch = make_nested();
    bench b;
    if (change) change(schema_at(batch, level));
    bench_open(&b, "1 names string repeated", batch);
    CHECK_STATUS(b.status, change ? FB_BAD_ARGUMENT : FB_OK);
    CHECK_EQUAL(b.encoder.fault.reason, change ? FB_ARROW_BAD_SCHEMA : FB_ARROW_NONE);
    bench_close(&b);
    arrow_free(batch);
}

static void refuses_malformed_schemas(void) {
    check_schema(NULL, 0);
    /* batch, column, lists, indices of members, texts */
    for (size_t level = 0; level < 5; level++) {
        check_schema(count_less_than_no_children, level);
        check_schema(count_the_fewest_children, level);
        check_schema(count_children_that_are_not_there, level);
        check_schema(have_no_format, level);
        if (level < 4) check_schema(count_a_child_that_is_none, level);
    }
}

static void set_int32(const void *buffer, size_t index, int32_t value) {
    memcpy((uint8_t *)(uintptr_t)buffer + 4 * index, &value, 4);
}

static void end_before_the_beginning(arrow_node *batch) {
    set_int32(batch->nodes[1]->buffers[1], 1, -1);
}
static void lack_bytes(arrow_node *batch) {
    static const void *buffers[3];
    buffers[1] = batch->nodes[1]->buffers[1];
    batch->nodes[1]->array.buffers = buffers;
}
static void have_a_negative_size(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 0, -1);
}
static void be_longer_than_its_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 4, 16);
}
static void begin_behind_its_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 7, 1);
}
static void begin_before_its_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 7, -1);
}
static void be_in_no_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 6, 2);
}
static void be_in_a_buffer_before_all(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 6, -1);
}
static void be_in_a_buffer_of_less_than_nothing(arrow_node *batch) {
    native_put((uint8_t *)(uintptr_t)batch->nodes[2]->buffers[4] + 8, (uint64_t)INT64_MIN, 8);
}
static void have_members_behind_the_last(arrow_node *batch) {
    set_int32(batch->nodes[3]->buffers[1], 2, 3);
}
static void have_fewer_members_than_none(arrow_node *batch) {
    set_int32(batch->nodes[3]->buffers[1], 2, 0);
}

static void refuses_values_outside_of_their_buffers(void) {
    static const struct {
        void (*change)(arrow_node *);
        size_t child;
    } cases[] = {{end_before_the_beginning, 1},
                 {lack_bytes, 1},
                 {have_a_negative_size, 2},
                 {be_longer_than_its_buffer, 2},
                 {begin_behind_its_buffer, 2},
                 {begin_before_its_buffer, 2},
                 {be_in_no_buffer, 2},
                 {be_in_a_buffer_before_all, 2},
                 {be_in_a_buffer_of_less_than_nothing, 2},
                 {have_members_behind_the_last, 3},
                 {have_fewer_members_than_none, 3}};
    for (size_t i = 0; i < COUNT(cases); i++)
        check_odd(cases[i].change, FB_OUT_OF_RANGE, FB_ARROW_BAD_OFFSET, cases[i].child);
}

/* The bytes do not exist; only their number is read. */
static void refuses_rows_that_no_message_can_hold(void) {
    static const int64_t ends[] = {INT64_C(1) << 31, INT64_C(1) << 30};
    for (size_t i = 0; i < COUNT(ends); i++) {
        arrow_node *node = arrow_values("Z", "x01"), *batch = arrow_batch(1, 1, &node);
        bench b;
        size_t position = 0;
        memcpy((uint8_t *)(uintptr_t)node->buffers[1] + 8, &ends[i], 8);
        bench_open(&b, "1 c bytes", batch);
        CHECK_STATUS(encode(&b, batch, &position), FB_OUT_OF_RANGE);
        CHECK_EQUAL(b.encoder.fault.reason, FB_ARROW_TOO_LONG);
        bench_close(&b);
        arrow_free(batch);
    }
}

RUN_TESTS(TEST(refuses_malformed_schemas), TEST(refuses_arrays_that_are_laid_out_otherwise),
          TEST(refuses_values_outside_of_their_buffers),
          TEST(refuses_rows_that_no_message_can_hold))
