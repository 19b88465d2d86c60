/* Texts, times and JSON. Numbers are stored in place. */
#include "core/nested/nested_values.h"

#include "core/json/json_write.h"

const char fb_nested_too_long[] = "a value that its column cannot hold";
static const char too_far[] = "a time that nanoseconds cannot hold; use microseconds";

fb_status fb_nested_put_text(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes text) {
    const bool plain = node->type->kind == FB_NESTED_BYTES || fb_is_ascii(text.data, text.size);
    const size_t room = plain || fb_utf8_valid(text) ? text.size : 3 * text.size;
    int32_t *offsets = fb_nested_offsets(&node->offsets);
    const size_t begin = (size_t)offsets[row];
    if (room > INT32_MAX - begin) return FB_NO_SPACE;
    if (!fb_nested_reserve(node, begin + room, reader->memory)) return FB_NO_MEMORY;
    if (room == text.size) {
        if (text.size) fb_wire_put_few_bytes(node->bytes.data + begin, text.data, text.size);
        node->used = begin + text.size;
    } else {
        bool replaced;
        uint8_t *p = node->bytes.data + begin;
        node->used = (size_t)(fb_utf8_put_replaced(p, text, &replaced) - node->bytes.data);
        reader->invalid_texts++;
    }
    offsets[row + 1] = (int32_t)node->used;
    return FB_OK;
}

/* Convert seconds and nanoseconds to the unit, rounded down. Returns false if it does not fit. */
static bool scale_time(uint64_t unit, int64_t seconds, int32_t nanoseconds, int64_t *time) {
    const int32_t by = (int32_t)unit;
    const int64_t scale = 1000000000 / by;
    int64_t part = nanoseconds / by - (nanoseconds % by < 0);
    if (seconds < 0 && part > 0) { /* the seconds alone may not fit */
        seconds++;
        part -= scale;
    }
    return !__builtin_mul_overflow(seconds, scale, time) &&
           !__builtin_add_overflow(*time, part, time);
}

/* Read a time as all writers write it: each part at most once, in their order. */
static bool read_plain_time(fb_bytes bytes, int64_t *seconds, int32_t *nanoseconds) {
    const uint8_t *p = bytes.data, *end = p + bytes.size;
    uint64_t value;
    if (p < end && *p == 0x08) {
        if (!(p = fb_wire_read_varint(p + 1, end, &value))) return false;
        *seconds = (int64_t)value;
    }
    if (p < end && *p == 0x10) {
        if (!(p = fb_wire_read_varint(p + 1, end, &value))) return false;
        *nanoseconds = (int32_t)(uint32_t)value;
    }
    return p == end;
}

fb_status fb_nested_put_time(fb_nested_reader *reader, fb_nested_node *node, size_t row, bool merge,
                             fb_bytes bytes, size_t depth, fb_nested_fault *fault) {
    const uint8_t *where;
    int64_t time;
    if (!merge) node->seconds = node->nanoseconds = 0;
    const char *problem = NULL;
    if (!read_plain_time(bytes, &node->seconds, &node->nanoseconds))
        problem = fb_codec_read_time(bytes, depth, &node->seconds, &node->nanoseconds, &where);
    if (!problem && !scale_time(node->type->unit, node->seconds, node->nanoseconds, &time))
        problem = scale_time(1000, node->seconds, node->nanoseconds, &time) ? too_far
                                                                            : fb_nested_too_long;
    if (problem) return fb_nested_refuse(fault, reader, node, problem);
    memcpy(node->values.data + 8 * row, &time, 8);
    return FB_OK;
}

fb_status fb_nested_put_json(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes message, fb_nested_fault *fault) {
    const fb_nested_type *type = node->type;
    const fb_json_options options = {false, false, false, &reader->invalid_texts};
    fb_json_fault problem;
    fb_buffer *text = &reader->text;
    text->p = text->begin;
    fb_status status = fb_json_write(type->json_types, type->json, message, options, text,
                                     &reader->unknown_fields, &problem);
    if (status == FB_BAD_MESSAGE) {
        const bool is_part = message.data == node->part.data;
        fault->where = node->part.data + (is_part ? problem.offset : 0);
        return fb_nested_refuse(fault, reader, node, problem.problem);
    }
    const size_t begin = (size_t)fb_nested_offsets(&node->offsets)[row];
    const size_t size = fb_buffer_size(text);
    if (status != FB_OK) return status;
    if (size > INT32_MAX - begin) return FB_NO_SPACE;
    if (!fb_nested_reserve(node, begin + size, reader->memory)) return FB_NO_MEMORY;
    memcpy(node->bytes.data + begin, text->begin, size);
    node->used = begin + size;
    fb_nested_offsets(&node->offsets)[row + 1] = (int32_t)node->used;
    return FB_OK;
}
