/* Arrays that change between the two reads of a list. This needs no thread: part of the array is in
   the memory that the first row is written to. */
#include "tests/builders/arrow_bench.h"
#include "tests/support/native.h"

enum { PLACE = 64, PAYLOAD = 160, ROOM = 1800, MANY = 2000 };

/* A list in the second row, and the integers of one of its buffers at the first read and at the
   write. */
typedef struct {
    const char *column;
    arrow_node *(*make)(void);
    enum { OF_LIST, OF_MEMBERS, OF_DICTIONARY } node;
    size_t buffer, width, count;
    int64_t first[4], second[4];
    const char *why; /* problem that the second read finds */
} change;

static arrow_node *make_members(const char *format, const char *word, size_t count) {
    text words = {0};
    for (size_t i = 0; i < count; i++) text_put(&words, "%s ", word);
    arrow_node *node = arrow_values(format, text_of(&words));
    text_free(&words);
    return node;
}

static arrow_node *make_long_text(const char *format, size_t size) {
    text word = {0};
    for (size_t i = 0; i < size; i++) text_put(&word, "a");
    arrow_node *node = arrow_values(format, text_of(&word));
    text_free(&word);
    return node;
}

static arrow_node *small_numbers(void) {
    return arrow_list("+l", "null 2000", make_members("I", "7", MANY));
}
static arrow_node *large_numbers(void) {
    return arrow_list("+L", "null 2000", make_members("I", "7", MANY));
}
static arrow_node *small_texts(void) {
    return arrow_list("+l", "null 1", make_long_text("u", MANY));
}
static arrow_node *large_bytes(void) {
    return arrow_list("+l", "null 1", make_long_text("U", MANY));
}
static arrow_node *views(void) {
    return arrow_list("+l", "null 1", make_long_text("vu", MANY));
}
static arrow_node *three_numbers(void) {
    return arrow_list("+l", "null 3", arrow_values("i", "1 2 3"));
}
static arrow_node *nullable_numbers(void) {
    return arrow_list("+l", "null 3", arrow_values("I", "null 2 3"));
}
static arrow_node *dictionary_of_lists(void) {
    return arrow_dictionary("i", "null 1",
                            arrow_list("+l", "1 2000", make_members("I", "7", MANY + 1)));
}

#define NUMBERS "uint repeated"
#define BYTES   "uint repeated limit=255"

static const change changes[] = {
    {NUMBERS, small_numbers, OF_LIST, 1, 4, 3, {0, 0, 1}, {0, 0, MANY}, "more members"},
    {NUMBERS,
     small_numbers,
     OF_LIST,
     1,
     4,
     3,
     {0, 0, 70},
     {0, 0, 128},
     "more members in the last block"},
    {NUMBERS, small_numbers, OF_LIST, 1, 4, 3, {0, 0, 2}, {0, 0, 1}, "fewer members"},
    {NUMBERS,
     small_numbers,
     OF_LIST,
     1,
     4,
     3,
     {0, 0, 1},
     {0, 0, MANY + 1},
     "members that are not there"},
    {NUMBERS, small_numbers, OF_LIST, 1, 4, 3, {0, 0, 1}, {0, 5, 1}, "an end before the beginning"},
    {NUMBERS, small_numbers, OF_LIST, 1, 4, 3, {0, 0, 1}, {0, -1, 1}, "a beginning below 0"},
    {NUMBERS, large_numbers, OF_LIST, 1, 8, 3, {0, 0, 1}, {0, 0, MANY}, "more members"},
    {NUMBERS, dictionary_of_lists, OF_LIST, 1, 4, 2, {0, 0}, {0, 1}, "another list"},
    {NUMBERS, dictionary_of_lists, OF_LIST, 1, 4, 2, {0, 0}, {0, 2}, "an index that is not there"},
    {NUMBERS, dictionary_of_lists, OF_DICTIONARY, 1, 4, 3, {0, 0, 1}, {0, 0, MANY}, "more members"},
    {"string repeated", small_texts, OF_MEMBERS, 1, 4, 2, {0, 1}, {0, MANY}, "a longer text"},
    {"string repeated", small_texts, OF_MEMBERS, 1, 4, 2, {0, 2}, {1, 2}, "a shorter text"},
    {"string repeated",
     small_texts,
     OF_MEMBERS,
     1,
     4,
     2,
     {0, 1},
     {3, 2},
     "an end before the beginning"},
    {"bytes repeated", large_bytes, OF_MEMBERS, 1, 8, 2, {0, 1}, {0, MANY}, "more bytes"},
    {"string repeated",
     views,
     OF_MEMBERS,
     1,
     4,
     4,
     {13, 0, 0, 0},
     {MANY, 0, 0, 0},
     "a longer view"},
    {"string repeated",
     views,
     OF_MEMBERS,
     1,
     4,
     4,
     {13, 0, 0, 0},
     {13, 0, 7, 0},
     "a buffer that is not there"},
    {BYTES, three_numbers, OF_MEMBERS, 1, 4, 3, {1, 2, 255}, {1, 2, 256}, "a number out of range"},
    {NUMBERS, nullable_numbers, OF_MEMBERS, 0, 1, 1, {7}, {3}, "a null"},
};

/* Store integers in the byte order of this machine. */
static void put_integers(uint8_t *p, const int64_t *numbers, size_t width, size_t count) {
    for (size_t i = 0; i < count; i++, p += width) native_put(p, (uint64_t)numbers[i], width);
}

static arrow_node *node_of(const change *c, arrow_node *list) {
    if (c->node == OF_LIST) return list;
    return c->node == OF_MEMBERS ? list->nodes[0] : list->dictionary;
}

/* Make two rows: bytes with the second integers, and a list. */
static arrow_node *make_batch(const change *c) {
    uint8_t payload[PAYLOAD];
    text words = {0};
    memset(payload, 0xa5, sizeof payload);
    put_integers(payload + PLACE, c->second, c->width, c->count);
    text_put(&words, "x");
    for (size_t i = 0; i < PAYLOAD; i++) text_put(&words, "%02x", payload[i]);
    text_put(&words, " null");
    arrow_node *raw = arrow_values("z", text_of(&words));
    text_free(&words);
    return arrow_batch(2, 2, (arrow_node *[]){raw, c->make()});
}

static size_t find_payload(const bench *b) {
    static const uint8_t begin[PLACE / 2] = {[0 ... PLACE / 2 - 1] = 0xa5};
    for (size_t i = 0; i + sizeof begin <= b->capacity; i++)
        if (memcmp(b->output + i, begin, sizeof begin) == 0) return i;
    abort();
}

/* Encode both rows, or only the first. */
static fb_status encode_rows(bench *b, arrow_node *batch, size_t rows, size_t *position) {
    *position = 0;
    batch->array.length = (int64_t)rows;
    fb_row_set_output(&b->encoder.row, b->output, b->capacity, 0);
    return fb_arrow_encode(&b->encoder, &batch->array, position);
}

static void check_change(const change *c) {
    arrow_node *batch = make_batch(c), *node = node_of(c, batch->nodes[1]);
    int before = fb_check_failures;
    text lines = {0};
    bench b;
    size_t position;
    text_put(&lines, "1 raw bytes\n2 list %s", c->column);
    bench_open(&b, text_of(&lines), batch);
    resize_output(&b, ROOM);
    CHECK_STATUS(encode_rows(&b, batch, 1, &position), FB_OK);
    uint8_t *place = b.output + find_payload(&b) + PLACE;
    const size_t size = fb_row_size(&b.encoder.row);
    const void *own = node->buffers[c->buffer];
    node->buffers[c->buffer] = place;
    put_integers(place, c->first, c->width, c->count);
    fb_status status = encode_rows(&b, batch, 2, &position);
    CHECK_STATUS(status, FB_OUT_OF_RANGE);
    CHECK_EQUAL(b.encoder.source.fault.reason, FB_ARROW_CHANGED);
    CHECK_EQUAL(b.encoder.source.fault.child, 1);
    CHECK_EQUAL(b.encoder.source.fault.row, 1);
    CHECK_EQUAL(position, 1);
    CHECK_EQUAL(fb_row_size(&b.encoder.row), size);
    if (fb_check_failures != before) fprintf(stderr, "%s: %s\n", c->column, c->why);
    node->buffers[c->buffer] = own;
    text_free(&lines);
    bench_close(&b);
    arrow_free(batch);
}

static void refuses_lists_that_change_between_reads(void) {
    FOR_EACH_PROCESSOR() for (size_t i = 0; i < COUNT(changes); i++) check_change(&changes[i]);
    run_processor = FB_PROCESSOR_ANY;
}

/* The same arrays without a change are accepted. */
static void writes_lists_that_do_not_change(void) {
    for (size_t i = 0; i < COUNT(changes); i++) {
        change c = changes[i];
        memcpy(c.second, c.first, sizeof c.second);
        arrow_node *batch = make_batch(&c), *node = node_of(&c, batch->nodes[1]);
        uint8_t *own = (uint8_t *)(uintptr_t)node->buffers[c.buffer];
        text lines = {0};
        bench b;
        size_t position = 0;
        put_integers(own, c.first, c.width, c.count);
        text_put(&lines, "1 raw bytes\n2 list %s", c.column);
        bench_open(&b, text_of(&lines), batch);
        CHECK_STATUS(encode(&b, batch, &position), FB_OK);
        CHECK_EQUAL(position, 2);
        text_free(&lines);
        bench_close(&b);
        arrow_free(batch);
    }
}

RUN_TESTS(TEST(refuses_lists_that_change_between_reads), TEST(writes_lists_that_do_not_change))
