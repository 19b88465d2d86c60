/* Rows of a stream, and the memory of a reader. */
#include "core/nested/nested_read.h"

#include "core/nested/nested_fields.h"

#include <stdlib.h>

#define MARGIN 1.1 /* of expected sizes */
enum { MOST_EXPECTED = 1 << 22 };
enum { FIRST_ROWS = 128 }; /* from which the size of the first batch is estimated */

/* Streams ------------------------------------------------------------------------------------ */

/* Remove a row that was begun. */
static void undo_row(fb_nested_reader *reader) {
    fb_nested_drop(reader->nodes, reader->nodes, reader->rows, true);
    reader->pending_count = 0;
}

static size_t scale(size_t number, double share) {
    const double scaled = (double)number * share;
    return scaled < MOST_EXPECTED ? (size_t)scaled : MOST_EXPECTED;
}

/* Expect values in proportion to those of the last batch, or to the first rows of this one, so that
   memory is allocated once. `left`: bytes of input. */
static void expect_values(fb_nested_reader *reader, size_t left, size_t rows) {
    const bool begun = reader->rows != 0;
    const size_t seen = begun ? reader->rows : reader->last_rows;
    const size_t size = begun ? reader->size : reader->last_size;
    if (!seen || !size) return;
    double share = (double)left / (double)size + begun;
    const double most = (double)rows / (double)seen;
    if (share > most) share = most;
    for (size_t i = 0; i < reader->count; i++) {
        fb_nested_node *node = &reader->nodes[i];
        const double more = node->type->repeated ? share * MARGIN : share;
        node->hint = scale(begun ? node->count : node->last_count, more);
        node->bytes_hint = scale(begun ? node->used : node->last_used, share * MARGIN);
        node->lists_hint = scale(begun ? node->lists : node->last_lists, share);
    }
}

fb_status fb_nested_read(fb_nested_reader *reader, fb_bytes *rest, size_t rows,
                         fb_nested_fault *fault) {
    fb_bytes next = *rest, message;
    fb_status status;
    *fault = (fb_nested_fault){NULL, FB_NESTED_NO_NODE, NULL};
    reader->safe = rest->size > FB_NESTED_AHEAD ? fb_end_of(*rest) - FB_NESTED_AHEAD : rest->data;
    if (!reader->rows) expect_values(reader, rest->size, rows);
    while ((status = fb_stream_next(&next, &message)) == FB_OK) {
        const uint64_t unknown = reader->unknown_fields, invalid = reader->invalid_texts;
        if (reader->rows == rows) return FB_NO_SPACE;
        if (reader->rows == FIRST_ROWS && !reader->last_rows)
            expect_values(reader, rest->size, rows);
        fb_nested_reach(reader->nodes, reader->rows, reader->memory);
        status = fb_nested_read_whole(reader, reader->nodes, reader->rows, message, 0, fault);
        if (FB_UNLIKELY(status != FB_OK)) {
            undo_row(reader);
            reader->unknown_fields = unknown;
            reader->invalid_texts = invalid;
            if (!fault->where) fault->where = rest->data;
            if (status == FB_BAD_MESSAGE) return status;
            return reader->rows ? FB_NO_SPACE : FB_NO_MEMORY;
        }
        reader->rows++;
        reader->size += rest->size - next.size;
        *rest = next;
    }
    if (status == FB_BAD_MESSAGE)
        *fault = (fb_nested_fault){"malformed length", FB_NESTED_NO_NODE, rest->data};
    return status;
}

fb_status fb_nested_finish(fb_nested_reader *reader, fb_nested_batch **batch) {
    const size_t rows = reader->rows;
    reader->last_rows = rows;
    reader->last_size = reader->size;
    reader->rows = reader->size = 0;
    return fb_nested_nodes_finish(reader->nodes, reader->count, rows, reader->memory, batch);
}

/* Creation ----------------------------------------------------------------------------------- */

/* Return the fast path for the values of a node, without FB_FAST_MORE. */
static fb_nested_fast choose_fast(const fb_nested_type *type) {
    const fb_codec_field *field = type->field;
    if (!field || field->oneof || field->members || type->tracked || type->map) return FB_FAST_NONE;
    if (type->kind == FB_NESTED_STRUCT)
        return field->type == FB_PROTO_MESSAGE ? FB_FAST_MESSAGE : FB_FAST_NONE;
    if (fb_nested_is_time(type))
        return field->type == FB_PROTO_MESSAGE ? FB_FAST_TIME : FB_FAST_NONE;
    if (type->message) return FB_FAST_NONE;
    if (type->width == 1 || type->width == 2 || type->kind == FB_NESTED_NAME)
        return field->wire == FB_WIRE_VARINT ? FB_FAST_CHECKED : FB_FAST_NONE;
    switch (field->type) {
        case FB_PROTO_UINT64:
        case FB_PROTO_INT64: return FB_FAST_UINT64;
        case FB_PROTO_UINT32:
        case FB_PROTO_INT32:
        case FB_PROTO_ENUM: return FB_FAST_UINT32;
        case FB_PROTO_SINT64: return FB_FAST_SINT64;
        case FB_PROTO_SINT32: return FB_FAST_SINT32;
        case FB_PROTO_BOOL: return FB_FAST_BOOL;
        case FB_PROTO_FIXED64:
        case FB_PROTO_SFIXED64:
        case FB_PROTO_DOUBLE: return FB_FAST_FIXED64;
        case FB_PROTO_FIXED32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_FLOAT: return FB_FAST_FIXED32;
        case FB_PROTO_STRING: return FB_FAST_TEXT;
        case FB_PROTO_BYTES: return FB_FAST_BYTES;
        default: return FB_FAST_NONE;
    }
}

/* Fill the table of tags of one byte of a struct. */
static void fill_quick(const fb_nested_reader *reader, const fb_nested_type *type,
                       fb_nested_quick *quick) {
    for (size_t i = 0; i < type->message->count; i++) {
        const fb_codec_field *field = &type->message->fields[i];
        const uint64_t tag = fb_wire_tag(field->number, (fb_wire_type)field->wire);
        const int32_t node = type->nodes[i];
        if (tag < FB_NESTED_QUICK && node != FB_NESTED_NO_NODE)
            quick[tag] = (fb_nested_quick){&reader->nodes[node], reader->nodes[node].fast};
        const uint64_t packed = fb_wire_tag(field->number, FB_WIRE_BYTES);
        const bool is_number = field->type < FB_PROTO_STRING;
        if (packed < FB_NESTED_QUICK && node != FB_NESTED_NO_NODE && field->repeated && is_number &&
            !reader->types[node].tracked)
            quick[packed] = (fb_nested_quick){&reader->nodes[node], FB_FAST_PACKED};
    }
}

fb_status fb_nested_reader_new(fb_nested_reader *reader, const fb_nested_type *types, size_t count,
                               fb_memory *memory) {
    *reader = (fb_nested_reader){.types = types, .memory = memory};
    for (size_t i = 0; i < count; i++) {
        reader->choice_count += types[i].oneof_count;
        reader->quick_count += types[i].nodes ? FB_NESTED_QUICK : 0;
    }
    reader->quick = fb_memory_allocate(memory, reader->quick_count * sizeof *reader->quick);
    reader->nodes = fb_memory_allocate(memory, count * sizeof *reader->nodes);
    reader->choices =
        fb_memory_allocate(memory, (reader->choice_count + 1) * sizeof *reader->choices);
    if (reader->nodes) reader->count = count;
    if (!reader->nodes || !reader->choices || !reader->quick) return FB_NO_MEMORY;
    for (size_t i = 0, oneofs = 0, quick = 0; i < count; i++) {
        reader->nodes[i].type = &types[i];
        const fb_nested_fast fast = choose_fast(&types[i]);
        const bool more = fast != FB_FAST_NONE && (types[i].repeated || types[i].nullable);
        reader->nodes[i].fast = (uint8_t)(fast + (more ? FB_FAST_MORE : 0));
        reader->nodes[i].repeated = types[i].repeated;
        reader->nodes[i].nullable = types[i].nullable;
        reader->nodes[i].text = fb_nested_is_text(&types[i]);
        reader->nodes[i].first_touched = FB_NESTED_NO_NODE;
        reader->nodes[i].oneofs = oneofs;
        oneofs += types[i].oneof_count;
        if (!types[i].nodes) continue;
        reader->nodes[i].quick = reader->quick + quick;
        quick += FB_NESTED_QUICK;
    }
    for (size_t i = 0, quick = 0; i < count; i++) {
        if (!types[i].nodes) continue;
        fill_quick(reader, &types[i], reader->quick + quick);
        quick += FB_NESTED_QUICK;
    }
    return FB_OK;
}

void fb_nested_reader_free(fb_nested_reader *reader) {
    fb_memory *memory = reader->memory;
    for (size_t i = 0; i < reader->count; i++) {
        fb_nested_node *node = &reader->nodes[i];
        fb_nested_block *blocks[] = {&node->ends, &node->present, &node->values, &node->offsets,
                                     &node->bytes};
        for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
            fb_memory_release(memory, blocks[k]->data, blocks[k]->size);
        fb_json_entries_free(&node->entries);
        fb_buffer_free(&node->parts);
    }
    if (!memory) return;
    fb_memory_release(memory, reader->nodes, reader->count * sizeof *reader->nodes);
    fb_memory_release(memory, reader->quick, reader->quick_count * sizeof *reader->quick);
    fb_memory_release(memory, reader->choices,
                      (reader->choice_count + 1) * sizeof *reader->choices);
    free(reader->pending);
    fb_buffer_free(&reader->text);
}
