/* Arrays that do not match their schemas, and malformed schemas. */
#include "tests/builders/arrow_bench.h"
#include "tests/support/native.h"

static const char *const batch_lines =
    "1 a uint\n2 b string\n3 c bytes\n4 d uint repeated\n5 e enum";

static arrow_node *make_valid_batch(void) {
    return arrow_batch(
        2, 5,
        (arrow_node *[]){arrow_values("I", "1 2"), arrow_values("u", "ab cd"),
                         arrow_values("vz", "x01 x000102030405060708090a0b0c0d0e"),
                         arrow_list("+l", "1 1", arrow_values("I", "5 6")),
                         arrow_dictionary("c", "0 1", arrow_values("u", "in egress"))});
}

static void check_changed_batch(void (*change)(arrow_node *batch), fb_status expected,
                                fb_arrow_reason reason, size_t child) {
    arrow_node *batch = make_valid_batch();
    bench b;
    size_t position = 0;
    bench_open(&b, batch_lines, batch);
    change(batch);
    CHECK_STATUS(encode(&b, batch, &position), expected);
    CHECK_EQUAL(b.encoder.source.fault.reason, reason);
    CHECK_EQUAL(b.encoder.source.fault.child, child);
    bench_close(&b);
    arrow_free(batch);
}

static void change_nothing(arrow_node *batch) {
    (void)batch;
}
static void reduce_child_count(arrow_node *batch) {
    batch->array.n_children--;
}
static void remove_row_validity(arrow_node *batch) {
    batch->array.n_buffers = 0;
}
static void set_negative_length(arrow_node *batch) {
    batch->array.length = -1;
}
static void set_negative_offset(arrow_node *batch) {
    batch->array.offset = -1;
}
static void increase_length(arrow_node *batch) {
    batch->array.length++;
}
static void increase_offset(arrow_node *batch) {
    batch->array.offset++;
}
static void set_greatest_child_length(arrow_node *batch) {
    batch->nodes[0]->array.length = INT64_MAX;
}
static void add_buffer(arrow_node *batch) {
    batch->nodes[0]->array.n_buffers = 3;
}
static void remove_buffer_list(arrow_node *batch) {
    batch->nodes[0]->array.buffers = NULL;
}
static void remove_values(arrow_node *batch) {
    batch->nodes[0]->array.buffers = batch->nodes[0]->buffers + 3;
}
static void count_nulls_without_validity(arrow_node *batch) {
    batch->nodes[1]->array.null_count = 1;
}
static void remove_view_sizes(arrow_node *batch) {
    batch->nodes[2]->array.n_buffers = 2;
}
static void add_list_child(arrow_node *batch) {
    batch->nodes[3]->array.n_children = 2;
}
static void remove_dictionary(arrow_node *batch) {
    batch->nodes[4]->array.dictionary = NULL;
}
static void set_negative_child_count(arrow_node *batch) {
    batch->array.n_children = -1;
}
static void remove_child_list(arrow_node *batch) {
    batch->array.children = NULL;
}
static void remove_child(arrow_node *batch) {
    batch->array.children[2] = NULL;
}
static void remove_list_child(arrow_node *batch) {
    batch->nodes[3]->array.children[0] = NULL;
}
static void remove_list_children(arrow_node *batch) {
    batch->nodes[3]->array.children = NULL;
}
static void set_negative_buffer_count(arrow_node *batch) {
    batch->nodes[2]->array.n_buffers = -1;
}
static void set_negative_null_count(arrow_node *batch) {
    batch->nodes[0]->array.null_count = -2;
}
static void set_excessive_null_count(arrow_node *batch) {
    batch->nodes[0]->array.null_count = 3;
}
static void set_negative_dictionary_length(arrow_node *batch) {
    batch->nodes[4]->dictionary->array.length = -1;
}

static void refuses_arrays_of_another_layout(void) {
    check_changed_batch(change_nothing, FB_OK, FB_ARROW_NONE, FB_NO_CHILD);
    check_changed_batch(reduce_child_count, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(remove_row_validity, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(set_negative_length, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(set_negative_offset, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(increase_length, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(increase_offset, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(set_greatest_child_length, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(add_buffer, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(remove_buffer_list, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(remove_values, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(count_nulls_without_validity, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 1);
    check_changed_batch(remove_view_sizes, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 2);
    check_changed_batch(add_list_child, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_changed_batch(remove_dictionary, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 4);
    check_changed_batch(set_negative_child_count, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(remove_child_list, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(remove_child, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, FB_NO_CHILD);
    check_changed_batch(remove_list_child, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_changed_batch(remove_list_children, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 3);
    check_changed_batch(set_negative_buffer_count, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 2);
    check_changed_batch(set_negative_null_count, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(set_excessive_null_count, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 0);
    check_changed_batch(set_negative_dictionary_length, FB_BAD_ARGUMENT, FB_ARROW_BAD_ARRAY, 4);
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

static void set_negative_schema_child_count(struct ArrowSchema *schema) {
    schema->n_children = -1;
}
static void set_least_schema_child_count(struct ArrowSchema *schema) {
    schema->n_children = INT64_MIN;
}
static void remove_schema_child_list(struct ArrowSchema *schema) {
    schema->n_children = 1;
    schema->children = NULL;
}
static void remove_schema_child(struct ArrowSchema *schema) {
    static struct ArrowSchema *none[1];
    schema->n_children = 1;
    schema->children = none;
}
static void remove_format(struct ArrowSchema *schema) {
    schema->format = NULL;
}

static void check_schema(void (*change)(struct ArrowSchema *schema), size_t level) {
    arrow_node *batch = make_nested();
    bench b;
    if (change) change(schema_at(batch, level));
    bench_open(&b, "1 names string repeated", batch);
    CHECK_STATUS(b.status, change ? FB_BAD_ARGUMENT : FB_OK);
    CHECK_EQUAL(b.encoder.source.fault.reason, change ? FB_ARROW_BAD_SCHEMA : FB_ARROW_NONE);
    bench_close(&b);
    arrow_free(batch);
}

static void refuses_malformed_schemas(void) {
    check_schema(NULL, 0);
    /* batch, column, lists, indices of members, texts */
    for (size_t level = 0; level < 5; level++) {
        check_schema(set_negative_schema_child_count, level);
        check_schema(set_least_schema_child_count, level);
        check_schema(remove_schema_child_list, level);
        check_schema(remove_format, level);
        if (level < 4) check_schema(remove_schema_child, level);
    }
}

static void set_int32(const void *buffer, size_t index, int32_t value) {
    memcpy((uint8_t *)(uintptr_t)buffer + 4 * index, &value, 4);
}

static void set_negative_text_end(arrow_node *batch) {
    set_int32(batch->nodes[1]->buffers[1], 1, -1);
}
static void remove_text_bytes(arrow_node *batch) {
    static const void *buffers[3];
    buffers[1] = batch->nodes[1]->buffers[1];
    batch->nodes[1]->array.buffers = buffers;
}
static void set_negative_view_size(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 0, -1);
}
static void lengthen_view_beyond_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 4, 16);
}
static void move_view_beyond_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 7, 1);
}
static void set_negative_view_offset(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 7, -1);
}
static void set_view_buffer_out_of_range(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 6, 2);
}
static void set_negative_view_buffer(arrow_node *batch) {
    set_int32(batch->nodes[2]->buffers[1], 6, -1);
}
static void remove_view_buffer(arrow_node *batch) {
    static const void *buffers[5];
    memcpy(buffers, batch->nodes[2]->buffers, sizeof buffers);
    buffers[3] = NULL;
    batch->nodes[2]->array.buffers = buffers;
}
static void set_negative_buffer_size(arrow_node *batch) {
    native_put((uint8_t *)(uintptr_t)batch->nodes[2]->buffers[4] + 8, (uint64_t)INT64_MIN, 8);
}
static void lengthen_list_beyond_members(arrow_node *batch) {
    set_int32(batch->nodes[3]->buffers[1], 2, 3);
}
static void set_decreasing_list_offsets(arrow_node *batch) {
    set_int32(batch->nodes[3]->buffers[1], 2, 0);
}

static void refuses_values_outside_their_buffers(void) {
    static const struct {
        void (*change)(arrow_node *);
        size_t child;
    } cases[] = {{set_negative_text_end, 1},        {remove_text_bytes, 1},
                 {set_negative_view_size, 2},       {lengthen_view_beyond_buffer, 2},
                 {move_view_beyond_buffer, 2},      {set_negative_view_offset, 2},
                 {set_view_buffer_out_of_range, 2}, {set_negative_view_buffer, 2},
                 {remove_view_buffer, 2},           {set_negative_buffer_size, 2},
                 {lengthen_list_beyond_members, 3}, {set_decreasing_list_offsets, 3}};
    for (size_t i = 0; i < COUNT(cases); i++)
        check_changed_batch(cases[i].change, FB_OUT_OF_RANGE, FB_ARROW_BAD_OFFSET, cases[i].child);
}

/* The bytes do not exist; only their number is read. */
static void refuses_rows_longer_than_a_message(void) {
    static const int64_t ends[] = {INT64_C(1) << 31, INT64_C(1) << 30};
    for (size_t i = 0; i < COUNT(ends); i++) {
        arrow_node *node = arrow_values("Z", "x01"), *batch = arrow_batch(1, 1, &node);
        bench b;
        size_t position = 0;
        memcpy((uint8_t *)(uintptr_t)node->buffers[1] + 8, &ends[i], 8);
        bench_open(&b, "1 c bytes", batch);
        CHECK_STATUS(encode(&b, batch, &position), FB_OUT_OF_RANGE);
        CHECK_EQUAL(b.encoder.source.fault.reason, FB_ARROW_TOO_LONG);
        bench_close(&b);
        arrow_free(batch);
    }
}

RUN_TESTS(TEST(refuses_malformed_schemas), TEST(refuses_arrays_of_another_layout),
          TEST(refuses_values_outside_their_buffers), TEST(refuses_rows_longer_than_a_message))
