/* Nested columns: hand-built messages to arrays and back, damaged input up to guard pages, and
   memory that fails. Types and values are tested through the binding
   (tests/codec/test_nested_columns.py). */
#include "tests/support/check.h"

#include "core/nested/nested_read.h"
#include "core/nested/nested_write.h"

/* The tree of:

     message Line { string article = 1; double price = 2; repeated uint32 codes = 3; }
     message Order {
       uint64 id = 1; optional string name = 2; repeated Line lines = 3;
       map<string, int32> stock = 4; oneof choice { bool flag = 5; Line other = 6; }
       Timestamp time = 7; State state = 8; Int32Value size = 9; repeated sint32 deltas = 10;
     } */
enum {
    ROOT,
    ID,
    NAME,
    LINES,
    LINES_ARTICLE,
    LINES_PRICE,
    LINES_CODES,
    STOCK,
    STOCK_KEY,
    STOCK_VALUE,
    FLAG,
    OTHER,
    OTHER_ARTICLE,
    OTHER_PRICE,
    OTHER_CODES,
    TIME,
    STATE,
    SIZE,
    DELTAS,
    NODES
};

static const fb_member members[] = {{{(const uint8_t *)"NEW", 3}, 0},
                                    {{(const uint8_t *)"PAID", 4}, 1}};
static fb_nested_names *names;
static fb_codec_field order_fields[10], line_fields[2][3], entry_fields[2], size_field[1];
static fb_json_type order, lines[2], entry, size;
static uint16_t places[5][16];
static int32_t order_nodes[10] = {ID, NAME, LINES, STOCK, FLAG, OTHER, TIME, STATE, SIZE, DELTAS};
static int32_t line_nodes[2][3] = {{LINES_ARTICLE, LINES_PRICE, LINES_CODES},
                                   {OTHER_ARTICLE, OTHER_PRICE, OTHER_CODES}};
static int32_t entry_nodes[2] = {STOCK_KEY, STOCK_VALUE};
static fb_nested_type types[NODES];
static const fb_tree_type tree[] = {
    {"", "+s", false, false, 10},       {"id", "L", false, false, 0},
    {"name", "u", true, false, 0},      {"lines", "+l", false, false, 1},
    {"item", "+s", false, false, 3},    {"article", "u", false, false, 0},
    {"price", "g", false, false, 0},    {"codes", "+l", false, false, 1},
    {"item", "I", false, false, 0},     {"stock", "+m", false, false, 1},
    {"entries", "+s", false, false, 2}, {"key", "u", false, false, 0},
    {"value", "i", false, false, 0},    {"flag", "b", true, false, 0},
    {"other", "+s", true, false, 3},    {"article", "u", false, false, 0},
    {"price", "g", false, false, 0},    {"codes", "+l", false, false, 1},
    {"item", "I", false, false, 0},     {"time", "tsn:UTC", true, false, 0},
    {"state", "i", false, true, 0},     {"size", "i", true, false, 0},
    {"deltas", "+l", false, false, 1},  {"item", "i", false, false, 0},
};

static void add(fb_codec_field *field, uint32_t number, fb_proto_type type, bool repeated) {
    const bool is_message = type == FB_PROTO_MESSAGE;
    *field =
        (fb_codec_field){.number = number,
                         .type = (uint8_t)type,
                         .repeated = repeated,
                         .packed = repeated,
                         .presence = is_message && !repeated,
                         .slot = (uint16_t)(number - 1),
                         .least = type == FB_PROTO_INT32 || type == FB_PROTO_SINT32 ? INT32_MIN : 0,
                         .most = UINT64_MAX};
    if (type == FB_PROTO_INT32 || type == FB_PROTO_SINT32 || type == FB_PROTO_ENUM)
        field->most = INT32_MAX;
    if (type == FB_PROTO_UINT32) field->most = UINT32_MAX;
    if (type == FB_PROTO_STRING || type == FB_PROTO_BYTES) field->most = 0;
    CHECK_STATUS(fb_codec_field_finish(field), FB_OK);
}

static void set_message(fb_nested_type *type, fb_json_type *message, fb_codec_field *fields,
                        size_t count, uint16_t *table, const int32_t *nodes) {
    *message = (fb_json_type){.core = {.fields = fields, .count = count}};
    CHECK_STATUS(fb_codec_message_finish(&message->core, table, 16), FB_OK);
    type->kind = FB_NESTED_STRUCT;
    type->message = &message->core;
    type->nodes = type->children = nodes;
    type->child_count = count;
    for (size_t i = 0; i < count; i++) {
        types[nodes[i]].field = types[nodes[i]].value = &fields[i];
        types[nodes[i]].repeated = fields[i].repeated;
        types[nodes[i]].nullable = fields[i].presence;
    }
}

static void set_scalar(size_t node, fb_nested_kind kind, uint8_t width) {
    types[node].kind = (uint8_t)kind;
    types[node].width = width;
}

static void make_types(void) {
    memset(types, 0, sizeof types);
    static const fb_proto_type kinds[] = {
        FB_PROTO_UINT64,  FB_PROTO_STRING,  FB_PROTO_MESSAGE, FB_PROTO_MESSAGE, FB_PROTO_BOOL,
        FB_PROTO_MESSAGE, FB_PROTO_MESSAGE, FB_PROTO_ENUM,    FB_PROTO_MESSAGE, FB_PROTO_SINT32};
    for (uint32_t i = 0; i < 10; i++)
        add(&order_fields[i], i + 1, kinds[i], i == 2 || i == 3 || i == 9);
    order_fields[1].presence = order_fields[4].presence = true;
    order_fields[4].oneof = order_fields[5].oneof = 1;
    for (int i = 0; i < 2; i++) {
        add(&line_fields[i][0], 1, FB_PROTO_STRING, false);
        add(&line_fields[i][1], 2, FB_PROTO_DOUBLE, false);
        add(&line_fields[i][2], 3, FB_PROTO_UINT32, true);
    }
    add(&entry_fields[0], 1, FB_PROTO_STRING, false);
    add(&entry_fields[1], 2, FB_PROTO_INT32, false);
    entry_fields[0].presence = entry_fields[1].presence = true; /* they are written if zero, too */
    add(&size_field[0], 1, FB_PROTO_INT32, false);
    set_message(&types[ROOT], &order, order_fields, 10, places[0], order_nodes);
    set_message(&types[LINES], &lines[0], line_fields[0], 3, places[1], line_nodes[0]);
    set_message(&types[OTHER], &lines[1], line_fields[1], 3, places[2], line_nodes[1]);
    set_message(&types[STOCK], &entry, entry_fields, 2, places[3], entry_nodes);
    types[ROOT].oneof_count = 1;
    types[STOCK].map = true;
    types[STOCK_KEY].nullable = types[STOCK_VALUE].nullable = false;
    for (int i = 0; i < 3; i++) types[line_nodes[1][i]].tracked = true;
    static const size_t texts[] = {NAME, LINES_ARTICLE, OTHER_ARTICLE, STOCK_KEY};
    for (size_t i = 0; i < 4; i++) set_scalar(texts[i], FB_NESTED_TEXT, 0);
    static const size_t numbers[] = {LINES_CODES, OTHER_CODES, STOCK_VALUE, SIZE, DELTAS};
    for (size_t i = 0; i < 5; i++) set_scalar(numbers[i], FB_NESTED_NUMBER, 4);
    set_scalar(ID, FB_NESTED_NUMBER, 8);
    set_scalar(LINES_PRICE, FB_NESTED_NUMBER, 8);
    set_scalar(OTHER_PRICE, FB_NESTED_NUMBER, 8);
    set_scalar(FLAG, FB_NESTED_BOOL, 0);
    set_scalar(TIME, FB_NESTED_TIMESTAMP, 8);
    types[TIME].unit = 1;
    set_scalar(STATE, FB_NESTED_NAME, 4);
    fb_nested_names_release(names);
    CHECK_STATUS(fb_nested_names_new(&names, members, 2, fb_memory_system(0)), FB_OK);
    types[STATE].names = names;
    types[STATE].by_name = members;
    types[STATE].member_count = 2;
    size = (fb_json_type){.core = {.fields = size_field, .count = 1}};
    CHECK_STATUS(fb_codec_message_finish(&size.core, places[4], 16), FB_OK);
    types[SIZE].message = &size.core;
    types[SIZE].value = size_field;
}

/* Streams ------------------------------------------------------------------------------------ */

#define LINE \
    "\x0a\x03" \
    "abc" \
    "\x11\0\0\0\0\0\0\xf8\x3f" \
    "\x1a\x03\x01\xac\x02"
#define FULL \
    "\x08\x96\x01" \
    "\x12\x02hi" \
    "\x1a\x13" LINE "\x1a\x00" \
    "\x22\x05\x0a\x01" \
    "b\x10\x07" \
    "\x22\x05\x0a\x01" \
    "c\x10\x08" \
    "\x32\x13" LINE "\x3a\x04\x08\x05\x10\x06" \
    "\x40\x01" \
    "\x4a\x02\x08\x2a" \
    "\x52\x04\x01\x02\x80\x01"
#define SECOND \
    "\x12\x00" \
    "\x28\x00" \
    "\x40\x07"

/* Three messages in the form that the writer has too. */
static size_t make_stream(uint8_t *stream) {
    static const struct {
        const char *bytes;
        size_t size;
    } messages[] = {{FULL, sizeof FULL - 1}, {"", 0}, {SECOND, sizeof SECOND - 1}};
    uint8_t *p = stream;
    for (size_t i = 0; i < 3; i++) {
        CHECK(messages[i].size < 128);
        *p++ = (uint8_t)messages[i].size;
        memcpy(p, messages[i].bytes, messages[i].size);
        p += messages[i].size;
    }
    return (size_t)(p - stream);
}

/* Read a stream to its end or to its damage. *batch becomes NULL if memory fails. */
static fb_status read_all(const uint8_t *data, size_t length, fb_memory memory,
                          fb_nested_batch **batch) {
    fb_nested_reader reader;
    fb_nested_fault fault;
    uint8_t *copy = fb_guarded_copy(data, length);
    fb_bytes rest = {copy, length};
    *batch = NULL;
    fb_status status = fb_nested_reader_new(&reader, types, NODES, &memory);
    if (status == FB_OK) status = fb_nested_read(&reader, &rest, 1000, &fault);
    if (status == FB_BAD_MESSAGE) {
        CHECK(fault.problem && fault.where >= copy && fault.where <= copy + length);
        CHECK(fault.node < NODES);
    }
    if (status != FB_NO_MEMORY && status != FB_NO_SPACE &&
        fb_nested_finish(&reader, batch) != FB_OK)
        status = FB_NO_MEMORY;
    fb_nested_reader_free(&reader);
    fb_guarded_free(copy, length);
    return status;
}

static bool bind(fb_nested_writer *writer, const struct ArrowSchema *schema, size_t node) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *values;
        const size_t child = (size_t)types[node].children[i];
        fb_arrow_reason reason;
        if (fb_nested_writer_bind(writer, child, (size_t)i, schema->children[i], &values,
                                  &reason) != FB_OK)
            return false;
        if (values && !bind(writer, values, child)) return false;
    }
    return true;
}

/* Write a batch as messages, and release it. The output ends at a guard page. */
static fb_status write_all(fb_nested_batch *batch, fb_memory memory, size_t room, uint8_t *to,
                           size_t *length) {
    struct ArrowSchema schema = {.release = NULL};
    struct ArrowArray array = {.release = NULL};
    fb_nested_writer writer = {.memory = NULL};
    size_t row = 0;
    uint8_t *output = fb_guarded_room_of(room), *p = output;
    fb_status status = fb_schema_export_tree(tree, memory, &schema);
    if (status == FB_OK) status = fb_nested_batch_export(batch, 0, batch->rows, &array);
    const size_t rows = batch->rows;
    fb_nested_batch_release(batch); /* the array keeps it */
    if (status == FB_OK) status = fb_nested_writer_new(&writer, types, NODES, &memory);
    if (status == FB_OK && !bind(&writer, &schema, ROOT)) status = FB_NO_MEMORY;
    if (status == FB_OK) status = fb_nested_writer_set(&writer, &array);
    if (status == FB_OK) status = fb_nested_write(&writer, &row, rows, &p, output + room);
    *length = (size_t)(p - output);
    if (to) memcpy(to, output, *length);
    fb_nested_writer_free(&writer);
    if (array.release) array.release(&array);
    if (schema.release) schema.release(&schema);
    fb_guarded_free(output, room);
    return status;
}

/* Tests -------------------------------------------------------------------------------------- */

static void messages_become_arrays(void) {
    uint8_t stream[512];
    fb_check_allocator allocator = {.dirty = true};
    fb_nested_batch *batch;
    struct ArrowArray array, line;
    make_types();
    const size_t length = make_stream(stream);
    CHECK_STATUS(read_all(stream, length, fb_check_memory(&allocator), &batch), FB_END);
    CHECK_EQUAL(batch->rows, 3);
    CHECK_STATUS(fb_nested_batch_export(batch, 0, 3, &array), FB_OK);
    fb_nested_batch_release(batch);
    CHECK(array.length == 3 && array.n_children == 10);
    CHECK_EQUAL(((const uint64_t *)array.children[0]->buffers[1])[0], 150);
    CHECK_EQUAL(((const uint64_t *)array.children[0]->buffers[1])[2], 0);
    CHECK_EQUAL(*(const uint8_t *)array.children[1]->buffers[0] & 7, 5); /* name: not in row 1 */
    CHECK_EQUAL(array.children[1]->null_count, 1);
    CHECK_EQUAL(((const int32_t *)array.children[2]->buffers[1])[3], 2);
    line = *array.children[2]->children[0]; /* moved, and released after the rest */
    array.children[2]->children[0]->release = NULL;
    CHECK_EQUAL(((const int64_t *)array.children[6]->buffers[1])[0], 5000000006);
    const int32_t *states = array.children[7]->buffers[1];
    CHECK(states[0] == 1 && states[1] == 0 && states[2] == 2);
    CHECK(!memcmp(array.children[7]->dictionary->buffers[2], "NEWPAID7", 8));
    array.release(&array);
    CHECK_EQUAL(line.length, 2);
    CHECK_EQUAL(((const double *)line.children[1]->buffers[1])[0], 1.5);
    line.release(&line);
    CHECK_EQUAL(allocator.held, 0);
}

static void slices_have_the_rows_asked_for(void) {
    uint8_t stream[512];
    fb_check_allocator allocator = {.dirty = true};
    fb_nested_batch *batch;
    struct ArrowArray array;
    make_types();
    const size_t length = make_stream(stream);
    CHECK_STATUS(read_all(stream, length, fb_check_memory(&allocator), &batch), FB_END);
    CHECK_STATUS(fb_nested_batch_export(batch, 1, 2, &array), FB_OK);
    fb_nested_batch_release(batch);
    CHECK(array.length == 2 && array.children[0]->length == 2 && array.children[0]->offset == 1);
    array.release(&array);
    CHECK_EQUAL(allocator.held, 0);
}

static void arrays_become_the_same_messages(void) {
    uint8_t stream[512], again[512];
    fb_check_allocator allocator = {.dirty = true};
    fb_nested_batch *batch;
    size_t again_length;
    make_types();
    const size_t length = make_stream(stream);
    CHECK_STATUS(read_all(stream, length, fb_check_memory(&allocator), &batch), FB_END);
    CHECK_STATUS(write_all(batch, fb_check_memory(&allocator), 512, again, &again_length), FB_OK);
    CHECK_BYTES(again, again_length, stream, length);
    CHECK_EQUAL(allocator.held, 0);
}

static void every_room_for_the_output_is_respected(void) {
    uint8_t stream[512];
    fb_nested_batch *batch;
    size_t written;
    make_types();
    const size_t length = make_stream(stream);
    for (size_t room = 0; room < 512; room++) {
        CHECK_STATUS(read_all(stream, length, fb_memory_system(0), &batch), FB_END);
        fb_status status = write_all(batch, fb_memory_system(0), room, NULL, &written);
        CHECK(written <= room && (status == FB_OK || status == FB_NO_SPACE));
        CHECK((status == FB_OK) == (written == length));
    }
}

static void a_full_batch_ends_before_its_message(void) {
    uint8_t stream[512];
    fb_nested_reader reader;
    fb_nested_fault fault;
    fb_memory memory = fb_memory_system(0);
    make_types();
    fb_bytes rest = {stream, make_stream(stream)};
    CHECK_STATUS(fb_nested_reader_new(&reader, types, NODES, &memory), FB_OK);
    for (size_t i = 0; i < 3; i++) {
        fb_nested_batch *batch = NULL;
        CHECK_STATUS(fb_nested_read(&reader, &rest, 1, &fault), i < 2 ? FB_NO_SPACE : FB_END);
        CHECK_STATUS(fb_nested_finish(&reader, &batch), FB_OK);
        CHECK_EQUAL(batch->rows, 1);
        fb_nested_batch_release(batch);
    }
    fb_nested_reader_free(&reader);
    CHECK_EQUAL(memory.used, 0);
}

static void every_prefix_and_every_damaged_byte_has_an_answer(void) {
    uint8_t stream[512];
    fb_check_allocator allocator = {.dirty = true};
    size_t written, damaged = 0;
    make_types();
    const size_t length = make_stream(stream);
    for (size_t k = 0; k < length * 256; k++) {
        fb_nested_batch *batch;
        uint8_t *byte = &stream[k / 256];
        const uint8_t before = *byte;
        *byte ^= (uint8_t)k;
        const size_t taken = k % 256 ? length : k / 256; /* unchanged: a prefix */
        fb_status status = read_all(stream, taken, fb_check_memory(&allocator), &batch);
        damaged += status == FB_BAD_MESSAGE;
        CHECK(status == FB_END || status == FB_MORE_INPUT || status == FB_BAD_MESSAGE);
        if (batch) {
            status = write_all(batch, fb_check_memory(&allocator), 2048, NULL, &written);
            CHECK_STATUS(status, FB_OK);
        }
        *byte = before;
    }
    CHECK(damaged > 5000);
    CHECK_EQUAL(allocator.held, 0);
}

/* Append a message with one line of `count` codes, the last of which has two bytes. */
static uint8_t *put_codes(uint8_t *p, size_t count) {
    const uint8_t head[] = {(uint8_t)(count + 5), 0x1a, (uint8_t)(count + 3), 0x1a,
                            (uint8_t)(count + 1)};
    memcpy(p, head, sizeof head);
    p += sizeof head;
    memset(p, 7, count - 1);
    memcpy(p + count - 1, "\xac\x02", 2);
    return p + count + 1;
}

static void packed_elements_at_the_end_of_the_input(void) {
    make_types();
    for (size_t last = 1; last < 120; last++) {
        uint8_t stream[1024], *p = stream;
        fb_nested_batch *batch;
        struct ArrowArray array;
        for (int i = 0; i < 3; i++) p = put_codes(p, 110); /* make room for the last ones */
        p = put_codes(p, last);
        const size_t length = (size_t)(p - stream);
        CHECK_STATUS(read_all(stream, length, fb_memory_system(0), &batch), FB_END);
        CHECK_STATUS(fb_nested_batch_export(batch, 0, 4, &array), FB_OK);
        fb_nested_batch_release(batch);
        const struct ArrowArray *codes = array.children[2]->children[0]->children[2]->children[0];
        CHECK_EQUAL(codes->length, 330 + last);
        CHECK_EQUAL(((const uint32_t *)codes->buffers[1])[329 + last], 300);
        array.release(&array);
    }
}

static void every_failed_allocation_leaves_nothing_behind(void) {
    uint8_t stream[512];
    make_types();
    const size_t length = make_stream(stream);
    for (size_t fail = 1;; fail++) {
        fb_check_allocator allocator = {.fail_at = fail, .dirty = true};
        fb_nested_batch *batch;
        size_t written;
        fb_status status = read_all(stream, length, fb_check_memory(&allocator), &batch);
        if (batch) status = write_all(batch, fb_check_memory(&allocator), 512, NULL, &written);
        CHECK_EQUAL(allocator.held, 0);
        if (allocator.calls < fail) {
            CHECK_STATUS(status, FB_OK);
            CHECK(fail > 50);
            return;
        }
    }
}

/* A message of a oneof that is dropped again and again. Work must not grow with the dropped fields
   of earlier messages. */
static void dropped_messages_leave_no_values(void) {
    static const uint8_t members_in_turn[] = "\x32\x13" LINE "\x28\x01"
                                             "\x32\x03\x0a\x01x";
    enum { TURNS = 5 };
    uint8_t stream[2 + TURNS * sizeof members_in_turn];
    fb_nested_batch *batch;
    struct ArrowArray array;
    make_types();
    const size_t once = sizeof members_in_turn - 1, length = TURNS * once;
    stream[0] = (uint8_t)(length | 0x80);
    stream[1] = (uint8_t)(length >> 7);
    for (size_t i = 0; i < TURNS; i++) memcpy(stream + 2 + i * once, members_in_turn, once);
    CHECK_STATUS(read_all(stream, 2 + length, fb_memory_system(0), &batch), FB_END);
    CHECK_STATUS(fb_nested_batch_export(batch, 0, 1, &array), FB_OK);
    fb_nested_batch_release(batch);
    const struct ArrowArray *other = array.children[5];
    CHECK(array.children[4]->null_count == 1 && other->null_count == 0);
    /* the last part, merged with nothing */
    CHECK_EQUAL(((const int32_t *)other->children[0]->buffers[1])[1], 1);
    CHECK_EQUAL(((const double *)other->children[1]->buffers[1])[0], 0);
    CHECK_EQUAL(other->children[2]->children[0]->length, 0);
    array.release(&array);
}

/* Read the next row as a batch of its own. */
static fb_nested_batch *read_row(fb_nested_reader *reader, fb_bytes *rest) {
    fb_nested_fault fault;
    fb_nested_batch *batch = NULL;
    fb_nested_read(reader, rest, 1, &fault);
    CHECK_STATUS(fb_nested_finish(reader, &batch), FB_OK);
    CHECK_EQUAL(batch->rows, 1);
    return batch;
}

/* Values are expected in proportion to the last batch. */
static void a_small_batch_after_a_large_one_is_small(void) {
    enum { LARGE = 8000, HEAD = 5 };
    static const uint8_t head[HEAD] = {0xc3, 0x3e, 0x12, 0xc0, 0x3e}, small[] = {3, 0x12, 1, 'b'};
    uint8_t stream[2 * (HEAD + LARGE + sizeof small)], *p = stream;
    fb_check_allocator allocator = {.dirty = true};
    fb_memory memory = fb_check_memory(&allocator);
    fb_nested_reader reader;
    make_types();
    for (int i = 0; i < 2; i++) {
        memcpy(p, head, HEAD);
        memset(p + HEAD, 'a', LARGE);
        memcpy(p + HEAD + LARGE, small, sizeof small);
        p += HEAD + LARGE + sizeof small;
    }
    fb_bytes rest = {stream, sizeof stream};
    CHECK_STATUS(fb_nested_reader_new(&reader, types, NODES, &memory), FB_OK);
    for (int i = 0; i < 4; i++) {
        struct ArrowArray array;
        fb_nested_batch *batch = read_row(&reader, &rest);
        CHECK(i % 2 ? batch->bytes < 500 : batch->bytes > LARGE);
        CHECK_STATUS(fb_nested_batch_export(batch, 0, 1, &array), FB_OK);
        fb_nested_batch_release(batch);
        CHECK_EQUAL(((const int32_t *)array.children[1]->buffers[1])[1], i % 2 ? 1 : LARGE);
        CHECK_EQUAL(*(const char *)array.children[1]->buffers[2], i % 2 ? 'b' : 'a');
        array.release(&array);
    }
    fb_nested_reader_free(&reader);
    CHECK_EQUAL(allocator.held, 0);
}

static void blocks_are_trimmed_if_memory_allows_it(void) {
    fb_check_allocator allocator = {.fail_at = 2, .dirty = true};
    fb_memory memory = fb_check_memory(&allocator);
    fb_nested_block block = {NULL, 0};
    CHECK_STATUS(fb_nested_block_grow(&block, 1000, &memory), FB_OK);
    memset(block.data, 'a', 256);
    fb_nested_block_trim(&block, 257, &memory); /* half as large, which is not worth it */
    CHECK_EQUAL(block.size, 1024);
    fb_nested_block_trim(&block, 256, &memory); /* fails */
    CHECK(block.size == 1024 && block.data[255] == 'a');
    fb_nested_block_trim(&block, 256, &memory);
    CHECK(block.size == 256 && block.data[0] == 'a' && block.data[255] == 'a');
    fb_memory_release(&memory, block.data, block.size);
    CHECK_EQUAL(allocator.held, 0);
}

static void growing_blocks_move_to_cached_ones(void) {
    enum { SMALL = 2 * FB_CACHED_BLOCK_MIN, LARGE = 2 * SMALL };
    fb_nested_cache cache = {0};
    fb_memory memory = fb_nested_memory(&cache);
    uint8_t *large = fb_memory_resize(&memory, NULL, 0, LARGE);
    fb_memory_release(&memory, large, LARGE);
    fb_nested_block block = {NULL, 0};
    CHECK_STATUS(fb_nested_block_grow(&block, SMALL, &memory), FB_OK);
    const uint8_t *small = block.data;
    memset(block.data, 'a', SMALL);
    CHECK_STATUS(fb_nested_block_grow(&block, LARGE, &memory), FB_OK);
    CHECK(block.data == large && block.size == LARGE);
    CHECK(block.data[0] == 'a' && block.data[SMALL - 1] == 'a');
    CHECK_EQUAL(memory.used, LARGE);
    /* without a cached one of its size, a block grows in other memory */
    CHECK_STATUS(fb_nested_block_grow(&block, 2 * LARGE, &memory), FB_OK);
    CHECK(block.data[SMALL - 1] == 'a');
    fb_nested_block again = {NULL, 0};
    CHECK_STATUS(fb_nested_block_grow(&again, SMALL, &memory), FB_OK);
    CHECK(again.data == small); /* the block that was left is in the cache */
    fb_memory_release(&memory, again.data, again.size);
    fb_memory_release(&memory, block.data, block.size);
    CHECK_EQUAL(memory.used, 0);
    for (size_t i = 0; i < FB_NESTED_CACHES; i++) fb_block_cache_free(&cache.of_size[i]);
}

static void shared_names_outlive_their_type(void) {
    static const uint8_t paid[] = {2, 0x40, 1, 2, 0x40, 1};
    fb_check_allocator allocator = {.dirty = true}, failing = {.fail_at = 1};
    fb_memory memory = fb_check_memory(&allocator);
    struct ArrowArray arrays[2];
    fb_nested_reader reader;
    fb_nested_names *own;
    fb_bytes rest = {paid, sizeof paid};
    make_types();
    CHECK_STATUS(fb_nested_names_new(&own, members, 2, fb_check_memory(&failing)), FB_NO_MEMORY);
    CHECK_STATUS(fb_nested_names_new(&own, members, 2, memory), FB_OK);
    types[STATE].names = own;
    CHECK_STATUS(fb_nested_reader_new(&reader, types, NODES, &memory), FB_OK);
    for (int i = 0; i < 2; i++) {
        fb_nested_batch *batch = read_row(&reader, &rest);
        CHECK_STATUS(fb_nested_batch_export(batch, 0, 1, &arrays[i]), FB_OK);
        fb_nested_batch_release(batch);
    }
    fb_nested_reader_free(&reader);
    types[STATE].names = names;
    fb_nested_names_release(own);
    const struct ArrowArray *shared = arrays[1].children[7]->dictionary;
    CHECK(shared->buffers[1] == arrays[0].children[7]->dictionary->buffers[1]);
    arrays[0].release(&arrays[0]);
    CHECK(shared->length == 2 && !memcmp(shared->buffers[2], "NEWPAID", 7));
    arrays[1].release(&arrays[1]);
    CHECK_EQUAL(allocator.held, 0);
}

RUN_TESTS(TEST(messages_become_arrays), TEST(slices_have_the_rows_asked_for),
          TEST(arrays_become_the_same_messages), TEST(every_room_for_the_output_is_respected),
          TEST(a_full_batch_ends_before_its_message),
          TEST(every_prefix_and_every_damaged_byte_has_an_answer),
          TEST(packed_elements_at_the_end_of_the_input),
          TEST(every_failed_allocation_leaves_nothing_behind),
          TEST(dropped_messages_leave_no_values), TEST(a_small_batch_after_a_large_one_is_small),
          TEST(blocks_are_trimmed_if_memory_allows_it), TEST(growing_blocks_move_to_cached_ones),
          TEST(shared_names_outlive_their_type))
