/* Exported batches, read back with code based only on the Arrow specification: values, nulls,
   dictionaries and lists; lifetimes; and failed allocations. */
#include "tests/support/session.h"

#include <stdlib.h>

#include "core/base/address_format.h"
#include "tests/support/native.h"
#include "core/arrow/arrow_table.h"

/* Reading an array --------------------------------------------------------------------------- */

static bool is_null(const struct ArrowArray *array, int64_t i) {
    const uint8_t *bits = array->buffers[0];
    return bits && !(bits[i / 8] >> i % 8 & 1);
}

static void put_bytes_of(text *t, const struct ArrowArray *array, int64_t i, bool as_text) {
    const uint32_t *offsets = array->buffers[1];
    const char *bytes = array->buffers[2];
    int size = (int)(offsets[i + 1] - offsets[i]);
    if (as_text) text_put(t, "'%.*s'", size, bytes + offsets[i]);
    for (int at = 0; !as_text && at < size; at++)
        text_put(t, "%s%02x", at ? "" : "x", (uint8_t)bytes[offsets[i] + (uint32_t)at]);
}

#define PUT_NUMBER(type, format, wide) \
    text_put(t, format, (wide)((const type *)array->buffers[1])[i])

static void put_value_of(text *t, const struct ArrowSchema *schema, const struct ArrowArray *array,
                         int64_t i) {
    if (is_null(array, i)) {
        text_put(t, "null");
        return;
    }
    if (array->dictionary) {
        put_value_of(t, schema->dictionary, array->dictionary,
                     ((const int32_t *)array->buffers[1])[i]);
        return;
    }
    switch (schema->format[0]) {
        case 'C': PUT_NUMBER(uint8_t, "%u", unsigned); return;
        case 'S': PUT_NUMBER(uint16_t, "%u", unsigned); return;
        case 'I': PUT_NUMBER(uint32_t, "%u", unsigned); return;
        case 'L': PUT_NUMBER(uint64_t, "%llu", unsigned long long); return;
        case 'i': PUT_NUMBER(int32_t, "%d", int); return;
        case 'l':
        case 't': PUT_NUMBER(int64_t, "%lld", long long); return;
        case 'f': PUT_NUMBER(float, "%g", double); return;
        case 'g': PUT_NUMBER(double, "%g", double); return;
        case 'b':
            text_put(t, "%d", ((const uint8_t *)array->buffers[1])[i / 8] >> i % 8 & 1);
            return;
        case 'u': put_bytes_of(t, array, i, true); return;
        case 'z': put_bytes_of(t, array, i, false); return;
        case 'w':
            for (unsigned at = 0; at < 16; at++)
                text_put(t, "%02x", ((const uint8_t *)array->buffers[1])[16 * i + at]);
            return;
        default: {
            const int32_t *offsets = array->buffers[1];
            text_put(t, "[");
            for (int64_t at = offsets[i]; at < offsets[i + 1]; at++) {
                if (at > offsets[i]) text_put(t, ",");
                put_value_of(t, schema->children[0], array->children[0], at);
            }
            text_put(t, "]");
        }
    }
}

static void check_null_count(const struct ArrowArray *array) {
    int64_t nulls = 0;
    for (int64_t i = 0; array->n_buffers && i < array->length; i++) nulls += is_null(array, i);
    CHECK_EQUAL(nulls, array->null_count);
}

/* Return a line per column: its name, format and values. */
static const char *describe(text *t, const struct ArrowSchema *schema,
                            const struct ArrowArray *array) {
    text_clear(t);
    CHECK_EQUAL(schema->n_children, array->n_children);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *type = schema->children[i];
        const struct ArrowArray *values = array->children[i];
        CHECK_EQUAL(values->length, array->length);
        check_null_count(values);
        text_put(t, "%s %s%s:", type->name, type->format,
                 type->flags & ARROW_FLAG_NULLABLE ? "?" : "");
        for (int64_t row = 0; row < values->length; row++) {
            text_put(t, " ");
            put_value_of(t, type, values, row);
        }
        text_put(t, "\n");
    }
    return text_of(t);
}

/* Batch of two rows, one empty, with a row between them that is undone ----------------------- */

static const char *const lines = "1 byte uint limit=255\n2 wide uint\n"
                                 "3 mac uint limit=281474976710655\n4 kind enum map=1:2\n"
                                 "5 flag bool\n6 at timestamp unit=1000000\n7 addr ip\n"
                                 "8 small int limit=2147483647\n9 real double\n10 name string\n"
                                 "11 raw bytes\n12 sure uint explicit\n"
                                 "13 labels uint repeated limit=4294967295\n14 hops ip repeated\n"
                                 "15 words string repeated\n16 other ip\n"
                                 "17 station uint limit=281474976710655";

#define NAME(text) {(const uint8_t *)(text), sizeof(text) - 1}
static const fb_member kinds[] = {{NAME("none"), 0}, {NAME("in"), 1}, {NAME("out"), 2}};
static const fb_table_field fields[] = {
    {0},
    {1},
    {2, true},
    {.column = 3, .nullable = true, .members = kinds, .member_count = 3},
    {4},
    {5, true},
    {6, true},
    {7},
    {8},
    {9, true},
    {10, true},
    {11, true},
    {12},
    {.column = 13, .text = true},
    {14},
    {15, true, true},
    {16, true, true}};
static const fb_field_type types[] = {{"byte", "C"},
                                      {"wide", "L"},
                                      {"mac", "L", "flowbuf.mac", true},
                                      {"kind", "i", NULL, true, false, true},
                                      {"flag", "b"},
                                      {"at", "tsm:UTC", NULL, true},
                                      {"addr", "w:16", "flowbuf.ip", true},
                                      {"small", "i"},
                                      {"real", "g"},
                                      {"name", "u", NULL, true},
                                      {"raw", "z", NULL, true},
                                      {"sure", "L", NULL, true},
                                      {"labels", "I", NULL, false, true},
                                      {"hops", "u", NULL, false, true},
                                      {"words", "u", NULL, false, true},
                                      {"other", "u", NULL, true},
                                      {"station", "u", NULL, true}};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static const uint8_t ipv4[4] = {192, 0, 2, 7}, ipv6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};

static fb_target target_of(unsigned column) {
    return (fb_target){.column = (uint16_t)column};
}

static void put_row(fb_columns *columns, fb_columns_cursor *at, uint64_t kind) {
    fb_columns_put_uint(columns, at, target_of(0), 255);
    fb_columns_put_uint(columns, at, target_of(1), UINT64_MAX);
    fb_columns_put_uint(columns, at, target_of(2), 0x0123456789ab);
    fb_columns_put_uint(columns, at, target_of(3), kind);
    fb_columns_put_uint(columns, at, target_of(4), 1);
    fb_columns_put_uint(columns, at, target_of(5), 1700000000000);
    fb_columns_put_ip(columns, at, target_of(6), ipv6, 16);
    fb_columns_put_int(columns, at, target_of(7), -5);
    fb_columns_put_real(columns, at, target_of(8), 0.5);
    fb_columns_put_bytes(columns, at, target_of(9), (const uint8_t *)"abc", 3);
    fb_columns_put_bytes(columns, at, target_of(10), (const uint8_t *)"\0\xff", 2);
    fb_columns_put_uint(columns, at, target_of(11), 0);
    for (unsigned i = 0; i < 3; i++) fb_columns_repeat_uint(columns, at, target_of(12), i);
    fb_columns_repeat_bytes(columns, at, target_of(13), ipv4, 4);
    fb_columns_repeat_bytes(columns, at, target_of(13), ipv6, 16);
    fb_columns_repeat_bytes(columns, at, target_of(14), (const uint8_t *)"", 0);
    fb_columns_repeat_bytes(columns, at, target_of(14), (const uint8_t *)"xy", 2);
    fb_columns_put_ip(columns, at, target_of(15), ipv4, 4);
    fb_columns_put_uint(columns, at, target_of(16), 0xa);
}

static fb_status fill(const session *s, fb_memory memory, uint64_t kind, fb_batch **batch) {
    fb_memory state = fb_memory_system(0);
    fb_columns columns;
    fb_columns_cursor at;
    CHECK_STATUS(fb_columns_new(&columns, s->plan.plan, &state), FB_OK);
    fb_status status = fb_batch_new(batch, s->plan.plan, 2, memory);
    for (unsigned row = 0; status == FB_OK && row < 3; row++) {
        if (row == 1 && fb_batch_grow(batch, s->plan.plan, 10) != FB_OK) {
            fb_batch_free(*batch);
            status = FB_NO_MEMORY;
            break;
        }
        fb_columns_set_batch(&columns, *batch);
        if (row == 0) {
            fb_columns_begin_constants(&columns, &at);
            fb_columns_end_constants(&columns, at);
        }
        if (!fb_columns_begin(&columns, 3000, &at)) {
            fb_batch_free(*batch);
            status = FB_NO_MEMORY;
            break;
        }
        if (row) put_row(&columns, &at, kind);
        if (row == 1) fb_batch_undo(columns.batch, at.row);
        else fb_columns_finish(&columns, at);
    }
    fb_columns_free(&columns);
    return status;
}

static fb_table *make_table(const session *s, fb_memory memory, uint64_t kind) {
    fb_batch *batch;
    fb_table *table = NULL;
    if (fill(s, memory, kind, &batch) == FB_OK &&
        fb_table_new(&table, s->plan.plan, batch, fields, FIELD_COUNT) != FB_OK)
        return NULL;
    return table;
}

/* Check two pairs of texts, each after its size, in the byte order of this machine. */
static void check_metadata(const char *metadata) {
    static const char *const pairs[] = {"ARROW:extension:name", "flowbuf.ip",
                                        "ARROW:extension:metadata", ""};
    uint8_t expected[74], *p = expected + 4;
    native_put(expected, 2, 4);
    for (size_t i = 0; i < 4; i++) {
        size_t size = strlen(pairs[i]);
        native_put(p, size, 4);
        memcpy(p + 4, pairs[i], size);
        p += 4 + size;
    }
    CHECK_BYTES(metadata, sizeof expected, expected, (size_t)(p - expected));
}

static void exports_every_type(void) {
    session s;
    text t = {0};
    struct ArrowSchema schema;
    struct ArrowArray array;
    session_open(&s, lines, 0);
    fb_table *table = make_table(&s, s.memory, 2);
    CHECK_EQUAL(fb_table_rows(table), 2);
    CHECK(fb_table_size(table) > 1000);
    CHECK_STATUS(fb_schema_export(types, FIELD_COUNT, s.memory, &schema), FB_OK);
    CHECK_STATUS(fb_table_export(table, &array), FB_OK);
    fb_table_release(table);
    CHECK_TEXT(describe(&t, &schema, &array),
               "byte C: 0 255\nwide L: 0 18446744073709551615\nmac L?: null 1250999896491\n"
               "kind i?: null 'out'\nflag b: 0 1\nat tsm:UTC?: null 1700000000000\n"
               "addr w:16?: null 20010db8000000000000000000000001\nsmall i: 0 -5\nreal g: 0 0.5\n"
               "name u?: null 'abc'\nraw z?: null x00ff\nsure L?: null 0\nlabels +l: [] [0,1,2]\n"
               "hops +l: [] ['192.0.2.7','2001:db8::1']\nwords +l: [] ['','xy']\n"
               "other u?: null '192.0.2.7'\nstation u?: null '00:00:00:00:00:0a'\n");
    CHECK_EQUAL(schema.children[3]->dictionary->format[0], 'u');
    check_metadata(schema.children[6]->metadata);
    CHECK(!schema.children[0]->metadata);
    array.release(&array);
    schema.release(&schema);
    CHECK(!array.release && !schema.release);
    text_free(&t);
    session_close(&s);
}

static void names_unknown_enum_members_by_their_number(void) {
    static const uint64_t numbers[] = {2, 3, 4000000000};
    static const char *const names[] = {"'out'", "'3'", "'4000000000'"};
    static const fb_member sparse[] = {{NAME("none"), 0}, {NAME("out"), 2}};
    for (unsigned known = 2; known < 4; known++) {
        for (size_t i = 0; i < 3; i++) {
            session s;
            text t = {0};
            fb_batch *batch;
            fb_table *table;
            struct ArrowArray array;
            fb_table_field field = {.column = 3,
                                    .nullable = true,
                                    .members = known == 2 ? sparse : kinds,
                                    .member_count = known};
            session_open(&s, lines, 0);
            CHECK_STATUS(fill(&s, s.memory, numbers[i], &batch), FB_OK);
            CHECK_STATUS(fb_table_new(&table, s.plan.plan, batch, &field, 1), FB_OK);
            CHECK_STATUS(fb_table_export(table, &array), FB_OK);
            struct ArrowSchema text_type = {.format = "u"},
                               type = {.format = "i", .dictionary = &text_type};
            put_value_of(&t, &type, array.children[0], 1);
            CHECK_TEXT(text_of(&t), names[i]);
            CHECK_EQUAL(array.children[0]->dictionary->length, known + (i > 0));
            array.release(&array);
            fb_table_release(table);
            text_free(&t);
            session_close(&s);
        }
    }
}

/* Lifetimes ---------------------------------------------------------------------------------- */

/* A child that was moved out of its struct, as the specification allows, outlives the struct and
   the table. */
static void keeps_its_memory_until_the_last_part_is_released(void) {
    session s;
    text t = {0};
    struct ArrowArray array, again, child, list;
    session_open(&s, lines, 0);
    fb_table *table = make_table(&s, s.memory, 2);
    CHECK_STATUS(fb_table_export(table, &array), FB_OK);
    CHECK_STATUS(fb_table_export(table, &again), FB_OK);
    child = *array.children[3];
    array.children[3]->release = NULL;
    list = *again.children[13];
    again.children[13]->release = NULL;
    fb_table_release(table);
    again.release(&again);
    array.release(&array);
    struct ArrowSchema text_type = {.format = "u"},
                       type = {.format = "i", .dictionary = &text_type};
    put_value_of(&t, &type, &child, 1);
    struct ArrowSchema *items[] = {&text_type}, list_type = {.format = "+l", .children = items};
    put_value_of(&t, &list_type, &list, 1);
    CHECK_TEXT(text_of(&t), "'out'['192.0.2.7','2001:db8::1']");
    list.release(&list);
    child.release(&child);
    text_free(&t);
    session_close(&s);
}

static void survives_every_failed_allocation(void) {
    bool done = false;
    for (size_t fail_at = 1; !done && fail_at < 1000; fail_at++) {
        session s;
        struct ArrowSchema schema;
        struct ArrowArray array;
        session_open(&s, lines, 0);
        s.allocator = (fb_check_allocator){.fail_at = s.allocator.calls + fail_at,
                                           .calls = s.allocator.calls,
                                           .held = s.allocator.held};
        fb_table *table = make_table(&s, s.memory, 3);
        bool typed = table && fb_schema_export(types, FIELD_COUNT, s.memory, &schema) == FB_OK;
        done = typed && fb_table_export(table, &array) == FB_OK;
        if (done) array.release(&array);
        if (typed) schema.release(&schema);
        fb_table_release(table);
        session_close(&s); /* reports leaked bytes */
    }
    CHECK(done);
}

/* Export one batch twice: unchanged, and with addresses as text. */
static void exports_one_batch_with_two_sets_of_fields(void) {
    static const fb_table_field plain = {.column = 6, .nullable = true},
                                as_text = {.column = 6, .nullable = true, .text = true};
    session s;
    text t = {0};
    fb_batch *batch;
    fb_table *table, *view;
    struct ArrowArray array;
    session_open(&s, lines, 0);
    CHECK_STATUS(fill(&s, s.memory, 2, &batch), FB_OK);
    CHECK_STATUS(fb_table_new(&table, s.plan.plan, batch, &plain, 1), FB_OK);
    CHECK_STATUS(fb_table_view(&view, s.plan.plan, table, &as_text, 1), FB_OK);
    CHECK(fb_table_size(view) > fb_table_size(table));
    fb_table_release(table);
    CHECK_STATUS(fb_table_export(view, &array), FB_OK);
    fb_table_release(view);
    put_value_of(&t, &(struct ArrowSchema){.format = "u"}, array.children[0], 1);
    CHECK_TEXT(text_of(&t), "'2001:db8::1'");
    array.release(&array);
    text_free(&t);
    session_close(&s);
}

/* Nulls of many rows ------------------------------------------------------------------------- */

/* A column whose bit in `left_out` is set has no value in any row. */
static bool has_value(size_t row, size_t column, unsigned left_out) {
    return row * 7 % (column + 2) < 2 && !(left_out >> column & 1);
}

static const char *const widths = "1 byte uint limit=255\n2 short uint limit=65535\n"
                                  "3 word uint limit=4294967295\n4 wide uint\n5 addr ip\n"
                                  "6 name string\n7 sure uint limit=255 explicit\n8 flag bool";
static const fb_table_field width_fields[] = {{0, true}, {1, true}, {2, true}, {3, true},
                                              {4, true}, {5, true}, {6},       {7}};
enum { WIDTHS = sizeof width_fields / sizeof *width_fields, WIDTHS_ROOM = 3000 };

static void put_width_row(fb_columns *columns, size_t row, unsigned left_out) {
    fb_columns_cursor at;
    CHECK(fb_columns_begin(columns, 300, &at));
    for (size_t i = 0; i < WIDTHS; i++) {
        if (!has_value(row, i, left_out)) continue;
        if (i == 4) fb_columns_put_ip(columns, &at, target_of(4), ipv4, 4);
        else if (i == 5) fb_columns_put_bytes(columns, &at, target_of(5), ipv4, 1);
        else fb_columns_put_uint(columns, &at, target_of((unsigned)i), 1);
    }
    fb_columns_finish(columns, at);
}

static void check_widths(const struct ArrowArray *array, size_t rows, unsigned left_out) {
    for (size_t i = 0; i < WIDTHS; i++) {
        const struct ArrowArray *values = array->children[i];
        const uint8_t *bits = values->buffers[i == 7]; /* the values of a bool are bits, too */
        size_t wrong = 0;
        check_null_count(values);
        for (size_t row = 0; row < rows; row++) {
            bool found = !bits || bits[row / 8] >> row % 8 & 1;
            wrong += found != has_value(row, i, left_out);
        }
        CHECK_EQUAL(wrong, 0);
    }
}

static void check_nulls(size_t rows, unsigned left_out) {
    session s;
    fb_columns columns;
    fb_columns_cursor at;
    fb_batch *batch;
    fb_table *table;
    struct ArrowArray array;
    session_open(&s, widths, 0);
    CHECK_STATUS(fb_columns_new(&columns, s.plan.plan, &s.memory), FB_OK);
    CHECK_STATUS(fb_batch_new(&batch, s.plan.plan, rows, s.memory), FB_OK);
    fb_columns_set_batch(&columns, batch);
    fb_columns_begin_constants(&columns, &at);
    fb_columns_end_constants(&columns, at);
    for (size_t row = 0; row < rows; row++) put_width_row(&columns, row, left_out);
    for (size_t i = 0; i < WIDTHS; i++) {
        const fb_vector *vector = &batch->vectors[i];
        CHECK_EQUAL(fb_batch_is_blank(batch, vector), vector->bit && left_out >> i & 1);
    }
    CHECK_STATUS(fb_table_new(&table, s.plan.plan, batch, width_fields, WIDTHS), FB_OK);
    CHECK_STATUS(fb_table_export(table, &array), FB_OK);
    check_widths(&array, rows, left_out);
    array.release(&array);
    fb_table_release(table);
    fb_columns_free(&columns);
    session_close(&s);
}

static void finds_the_nulls_of_many_rows(void) {
    for (size_t rows = 1; rows < WIDTHS_ROOM; rows += rows < 40 ? 1 : 491) check_nulls(rows, 0);
}

/* Columns without any value, alone and together. */
static void finds_columns_without_values(void) {
    static const unsigned left_out[] = {1, 2, 4, 8, 16, 32, 64, 128, 0x55, 0xaa, 0xff};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        for (size_t rows = 1; rows < 3000; rows = 3 * rows + 1) check_nulls(rows, left_out[i]);
}

static void exports_an_empty_batch(void) {
    session s;
    fb_batch *batch;
    fb_table *table;
    struct ArrowArray array;
    session_open(&s, lines, 0);
    CHECK_STATUS(fb_batch_new(&batch, s.plan.plan, 10, s.memory), FB_OK);
    CHECK_STATUS(fb_table_new(&table, s.plan.plan, batch, fields, FIELD_COUNT), FB_OK);
    CHECK_STATUS(fb_table_export(table, &array), FB_OK);
    CHECK_EQUAL(array.length, 0);
    for (int64_t i = 0; i < array.n_children; i++) {
        const struct ArrowArray *values = array.children[i];
        CHECK_EQUAL(values->length, 0);
        for (int64_t b = 1; b < values->n_buffers; b++) CHECK(values->buffers[b]);
        for (int64_t b = 1; values->n_children && b < values->children[0]->n_buffers; b++)
            CHECK(values->children[0]->buffers[b]);
    }
    array.release(&array);
    fb_table_release(table);
    session_close(&s);
}

/* Text --------------------------------------------------------------------------------------- */

static void writes_addresses(void) {
    static const struct {
        uint16_t groups[8];
        const char *text;
    } cases[] = {
        {{0}, "::"},
        {{[7] = 1}, "::1"},
        {{1}, "1::"},
        {{0x2001, 0xdb8, [7] = 0x10}, "2001:db8::10"},
        {{[5] = 0xffff, [6] = 0xc000, [7] = 0x0207}, "192.0.2.7"},
        {{[5] = 0xffff, [6] = 0xffff, [7] = 0xff00}, "255.255.255.0"},
        {{[4] = 0xffff, [6] = 0xc000, [7] = 0x0207}, "::ffff:0:c000:207"},
        {{1, 0, 2, 0, 3, 0, 4, 0}, "1:0:2:0:3:0:4:0"}, /* one zero group is not shortened */
        {{1, 0, 0, 2, 0, 0, 0, 3}, "1:0:0:2::3"},      /* the longest run */
        {{1, 0, 0, 2, 0, 0, 3, 4}, "1::2:0:0:3:4"},    /* the first of two equal runs */
        {{0xffff, 0xfff, 0xff, 0xf, 0xabcd, 0xabc, 0xab, 0xa}, "ffff:fff:ff:f:abcd:abc:ab:a"},
        {{0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff},
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t address[16];
        char p[FB_FORMAT_ADDRESS_MAX];
        for (unsigned g = 0; g < 8; g++)
            address[2 * g] = (uint8_t)(cases[i].groups[g] >> 8),
                        address[2 * g + 1] = (uint8_t)cases[i].groups[g];
        CHECK_BYTES(p, (size_t)(fb_format_address(p, address) - p), cases[i].text,
                    strlen(cases[i].text));
    }
}

static void writes_every_byte_of_an_address(void) {
    char text[FB_FORMAT_ADDRESS_MAX], expected[16];
    for (unsigned i = 0; i < 4 * 256; i++) {
        uint8_t address[16] = {[10] = 0xff, [11] = 0xff, 9, 99, 199, 0};
        address[12 + i / 256] = (uint8_t)i;
        int size = snprintf(expected, sizeof expected, "%u.%u.%u.%u", address[12], address[13],
                            address[14], address[15]);
        CHECK_BYTES(text, (size_t)(fb_format_address(text, address) - text), expected,
                    (size_t)size);
    }
}

static void writes_numbers(void) {
    char p[FB_FORMAT_NUMBER_MAX];
    CHECK_BYTES(p, (size_t)(fb_format_number(p, 0) - p), "0", 1);
    CHECK_BYTES(p, (size_t)(fb_format_number(p, 1000) - p), "1000", 4);
    CHECK_BYTES(p, (size_t)(fb_format_number(p, UINT64_MAX) - p), "18446744073709551615", 20);
    CHECK_BYTES(p, (size_t)(fb_format_mac(p, 0xfedcba987654) - p), "fe:dc:ba:98:76:54", 17);
}

RUN_TESTS(TEST(finds_the_nulls_of_many_rows), TEST(finds_columns_without_values),
          TEST(exports_every_type), TEST(names_unknown_enum_members_by_their_number),
          TEST(keeps_its_memory_until_the_last_part_is_released),
          TEST(survives_every_failed_allocation), TEST(exports_one_batch_with_two_sets_of_fields),
          TEST(exports_an_empty_batch), TEST(writes_addresses),
          TEST(writes_every_byte_of_an_address), TEST(writes_numbers))
