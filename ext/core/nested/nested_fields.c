/* Each field of the wire is stored at the row of its message at once. A later value overwrites it,
   so that merging needs no work. Absent values are filled when a later one is stored, or when the
   batch ends.

   A oneof drops its other members. To drop a message, its values in the row are removed again.
   Nodes below such a message are tracked: their parent has a list of those that got a value since
   the last removal. So a removal costs no more than the fields before it. */
#include "core/nested/nested_fields.h"

#include "core/nested/nested_values.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <stdlib.h>

enum { SHORT_TEXT = 32 }; /* bytes that the fast path copies */

/* Values ------------------------------------------------------------------------------------- */

/* Put a number at a row. Returns false if it does not fit. REQUIRES: the row was reached. */
FB_INLINE bool put_number(fb_nested_node *node, size_t row, uint64_t number) {
    const fb_nested_type *type = node->type;
    uint8_t *values = node->values.data;
    switch (type->width) {
        case 8: memcpy(values + 8 * row, &number, 8); return true;
        case 4: {
            uint32_t narrow = (uint32_t)number;
            memcpy(values + 4 * row, &narrow, 4);
            return type->kind != FB_NESTED_NAME || (int32_t)narrow >= 0;
        }
        case 2: {
            uint16_t narrow = (uint16_t)number;
            memcpy(values + 2 * row, &narrow, 2);
            break;
        }
        case 1: values[row] = (uint8_t)number; break;
        default: fb_nested_set_bit(values, row, number != 0); return true;
    }
    const fb_codec_field *field = type->value;
    return field->least < 0
               ? (int64_t)number >= field->least && (int64_t)number <= (int64_t)field->most
               : number <= field->most;
}

/* Call read_pending for a node when its row is complete. */
static fb_status add_pending(fb_nested_reader *reader, const fb_nested_node *node, size_t row,
                             size_t depth) {
    void *pending = reader->pending;
    if (fb_array_grow(&pending, &reader->pending_room, reader->pending_count,
                      sizeof *reader->pending, 8) != FB_OK)
        return FB_NO_MEMORY;
    reader->pending = pending;
    reader->pending[reader->pending_count++] =
        (fb_nested_pending){(int32_t)(node - reader->nodes), row, depth};
    return FB_OK;
}

static fb_status append(fb_buffer *buffer, fb_bytes bytes) {
    if (fb_buffer_reserve(buffer, bytes.size) != FB_OK) return FB_NO_MEMORY;
    buffer->p = fb_wire_put_bytes(buffer->p, bytes.data, bytes.size);
    return FB_OK;
}

/* Store the text of an element, or keep a part of a message until all parts are known. Those of one
   message are merged by joining them. */
static fb_status put_json(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                          fb_bytes bytes, size_t depth, fb_nested_fault *fault) {
    if (node->repeated) {
        node->part = bytes;
        return fb_nested_put_json(reader, node, row, bytes, fault);
    }
    if (!node->waiting) {
        node->part = bytes;
        node->parts.p = node->parts.begin;
        node->waiting = true;
        return add_pending(reader, node, row, depth);
    }
    if (node->parts.p == node->parts.begin && append(&node->parts, node->part) != FB_OK)
        return FB_NO_MEMORY;
    return append(&node->parts, bytes);
}

static fb_status put_scalar(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                            const fb_codec_item *item, fb_nested_fault *fault) {
    if (fb_nested_is_text(node->type)) return fb_nested_put_text(reader, node, row, item->bytes);
    return FB_LIKELY(put_number(node, row, item->value))
               ? FB_OK
               : fb_nested_refuse(fault, reader, node, fb_nested_too_long);
}

/* Fields ------------------------------------------------------------------------------------- */

static fb_status read_fields(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes bytes, size_t depth, size_t kept, fb_nested_fault *fault);
static fb_status read_pending(fb_nested_reader *reader, size_t kept, fb_nested_fault *fault);

fb_status fb_nested_read_whole(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                               fb_bytes bytes, size_t depth, fb_nested_fault *fault) {
    return read_fields(reader, node, row, bytes, depth, reader->pending_count, fault);
}

static fb_status describe(fb_nested_reader *reader, const fb_nested_node *node,
                          const fb_codec_reader *fields, fb_nested_fault *fault) {
    const fb_codec_field *field;
    fb_nested_refuse(fault, reader, NULL, fb_codec_problem(fields, &field));
    fault->where = fields->p;
    if (field && node->type->nodes)
        fault->node = node->type->nodes[field - fields->message->fields];
    if (fault->node == FB_NESTED_NO_NODE && node->type->field)
        fault->node = (int32_t)(node - reader->nodes);
    return FB_BAD_MESSAGE;
}

static fb_status read_wrapper(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                              fb_bytes bytes, size_t depth, fb_nested_fault *fault) {
    fb_codec_reader fields;
    fb_codec_item item;
    fb_status status;
    fb_codec_reader_begin(&fields, node->type->message, bytes);
    fields.depth = depth;
    while ((status = fb_codec_next(&fields, &item)) == FB_OK) {
        if (!item.field) reader->unknown_fields++;
        else if ((status = put_scalar(reader, node, row, &item, fault)) != FB_OK) return status;
    }
    return status == FB_END ? FB_OK : describe(reader, node, &fields, fault);
}

/* Store the value of a field at a row of its node. `depth` is that of a message in it. */
FB_INLINE fb_status put_value(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                              const fb_codec_item *item, size_t depth, fb_nested_fault *fault) {
    const fb_nested_type *type = node->type;
    const bool merge = row < node->count;
    if (FB_UNLIKELY(!fb_nested_reach(node, row, reader->memory))) return FB_NO_MEMORY;
    if (type->nullable) node->present.data[row / 8] |= (uint8_t)(1u << row % 8);
    if (!fb_codec_is_message(item->field)) return put_scalar(reader, node, row, item, fault);
    if (type->kind == FB_NESTED_STRUCT)
        return read_fields(reader, node, row, item->bytes, depth,
                           type->repeated ? reader->pending_count : SIZE_MAX, fault);
    if (fb_nested_is_time(type))
        return fb_nested_put_time(reader, node, row, merge, item->bytes, depth, fault);
    if (type->kind == FB_NESTED_JSON) return put_json(reader, node, row, item->bytes, depth, fault);
    return read_wrapper(reader, node, row, item->bytes, depth, fault);
}

static fb_status put_packed(fb_nested_reader *reader, fb_nested_node *node,
                            const fb_codec_field *field, fb_bytes elements,
                            fb_nested_fault *fault) {
    const size_t width = field->wire == FB_WIRE_FIXED64 ? 8 : 4;
    const size_t most = field->wire == FB_WIRE_VARINT ? elements.size : elements.size / width;
    fb_status status;
    uint64_t value;
    if (node->count + most > node->room &&
        fb_nested_node_grow(node, node->count + most, reader->memory) != FB_OK)
        return FB_NO_MEMORY;
    while ((status = fb_codec_next_element(field, &elements, &value)) == FB_OK) {
        if (field->members && !fb_codec_has_member(field, value)) reader->unknown_fields++;
        else if (FB_UNLIKELY(!put_number(node, node->count++, value)))
            return fb_nested_refuse(fault, reader, node, fb_nested_too_long);
    }
    return status == FB_END ? FB_OK : fb_nested_refuse(fault, reader, node, "a malformed element");
}

/* Keep an entry until all entries of the map are known. */
static fb_status add_entry(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                           fb_bytes bytes, size_t depth, fb_nested_fault *fault) {
    const fb_json_type *type = (const fb_json_type *)(const void *)node->type->message;
    const uint8_t *where;
    const char *problem;
    if (!node->entries.count && add_pending(reader, node, row, depth) != FB_OK) return FB_NO_MEMORY;
    fb_status status = fb_json_entries_add(&node->entries, type, bytes, depth, &where, &problem);
    return status == FB_BAD_MESSAGE ? fb_nested_refuse(fault, reader, node, problem) : status;
}

static fb_status end_list(fb_nested_node *node, size_t row) {
    if (node->count > INT32_MAX) return FB_NO_SPACE;
    fb_nested_offsets(&node->ends)[row + 1] = (int32_t)node->count;
    return FB_OK;
}

static fb_status put_elements(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                              const fb_codec_item *item, size_t depth, fb_nested_fault *fault) {
    if (!fb_nested_reach_list(node, row, reader->memory)) return FB_NO_MEMORY;
    if (node->type->map) return add_entry(reader, node, row, item->bytes, depth, fault);
    fb_status status = item->packed ? put_packed(reader, node, item->field, item->bytes, fault)
                                    : put_value(reader, node, node->count, item, depth, fault);
    return status == FB_OK ? end_list(node, row) : status;
}

/* Store the JSON text of the parts of a row, unless they were dropped. */
static fb_status read_parts(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                            fb_nested_fault *fault) {
    const fb_buffer *parts = &node->parts;
    const fb_bytes joined = {parts->begin, fb_buffer_size(parts)};
    if (!node->waiting) return FB_OK;
    node->waiting = false;
    return fb_nested_put_json(reader, node, row, joined.size ? joined : node->part, fault);
}

/* Store the text of an empty message in an entry whose value is absent. */
static fb_status fill_json(fb_nested_reader *reader, const fb_nested_node *map, size_t row,
                           fb_bytes entry, fb_nested_fault *fault) {
    for (size_t i = 0; i < map->type->child_count; i++) {
        fb_nested_node *child = &reader->nodes[map->type->children[i]];
        if (child->type->kind != FB_NESTED_JSON || child->count > row) continue;
        if (!fb_nested_reach(child, row, reader->memory)) return FB_NO_MEMORY;
        child->part = (fb_bytes){entry.data, 0};
        return fb_nested_put_json(reader, child, row, child->part, fault);
    }
    return FB_OK;
}

/* Read the maps and parts behind the first `kept` ones. */
static fb_status read_pending(fb_nested_reader *reader, size_t kept, fb_nested_fault *fault) {
    while (reader->pending_count > kept) {
        const fb_nested_pending pending = reader->pending[--reader->pending_count];
        fb_nested_node *node = &reader->nodes[pending.node];
        fb_json_entries *entries = &node->entries;
        if (!node->type->map) {
            const fb_status status = read_parts(reader, node, pending.row, fault);
            if (status != FB_OK) return status;
            continue;
        }
        reader->unknown_fields += entries->unknown;
        entries->unknown = 0;
        if (fb_json_entries_sort(entries, node->type->message->fields) != FB_OK)
            return FB_NO_MEMORY;
        for (size_t i = 0; i < entries->count; i++) {
            const size_t row = node->count;
            if (!fb_nested_reach(node, row, reader->memory)) return FB_NO_MEMORY;
            const fb_bytes entry = entries->all[i].bytes;
            fb_status status = fb_nested_read_whole(reader, node, row, entry, pending.depth, fault);
            if (status == FB_OK) status = fill_json(reader, node, row, entry, fault);
            if (status != FB_OK) return status;
        }
        if (entries->count && end_list(node, pending.row) != FB_OK) return FB_NO_SPACE;
        entries->count = 0;
    }
    return FB_OK;
}

/* Make a member of a oneof the only one that is set in a row. */
static void choose_member(fb_nested_reader *reader, const fb_nested_node *parent, size_t row,
                          const fb_codec_field *field, int32_t member) {
    fb_nested_choice *choice = &reader->choices[parent->oneofs + field->oneof - 1];
    if (choice->row == row + 1 && choice->node != member && choice->node != FB_NESTED_NO_NODE)
        fb_nested_drop(reader->nodes, &reader->nodes[choice->node], row, false);
    *choice = (fb_nested_choice){row + 1, member};
}

/* Read one field of any kind. *at is its place, and then that of the next one. */
static FB_NOINLINE fb_status read_field(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                                        const uint8_t **at, const uint8_t *end, size_t depth,
                                        fb_nested_fault *fault) {
    const fb_codec_message *message = node->type->message;
    fb_codec_reader fields = {message, *at, end, NULL, depth};
    fb_codec_item item;
    if (fb_codec_next(&fields, &item) != FB_OK) return describe(reader, node, &fields, fault);
    const uint8_t *begin = *at;
    *at = fields.p;
    if (!item.field) {
        reader->unknown_fields++;
        return FB_OK;
    }
    const int32_t place = node->type->nodes[item.field - message->fields];
    if (item.field->oneof) choose_member(reader, node, row, item.field, place);
    if (place == FB_NESTED_NO_NODE) return FB_OK;
    fb_nested_node *child = &reader->nodes[place];
    fb_status status = child->repeated ? put_elements(reader, child, row, &item, depth + 1, fault)
                                       : put_value(reader, child, row, &item, depth + 1, fault);
    if (status != FB_OK && !fault->where) fault->where = begin;
    if (child->type->tracked) fb_nested_touch(reader->nodes, node, place);
    return status;
}

/* Begin a value of a field: that of the row, or an element of its list. Rows before it that have no
   value are absent. `more`: the node is repeated or nullable. Returns false if memory is short. */
FB_INLINE bool begin_value(fb_nested_node *node, size_t row, size_t *at, bool more, bool text,
                           fb_memory *memory) {
    if (more && node->repeated) {
        if (FB_UNLIKELY(!fb_nested_reach_list(node, row, memory))) return false;
        fb_nested_offsets(&node->ends)[row + 1] = (int32_t)(node->count + 1);
        row = node->count;
    }
    if ((text || row >= node->count) && FB_UNLIKELY(!fb_nested_reach_last(node, row, text, memory)))
        return false;
    if (more && node->nullable) node->present.data[row / 8] |= (uint8_t)(1u << row % 8);
    *at = row;
    return true;
}

FB_INLINE bool put_fast_number(fb_nested_node *node, size_t row, uint64_t number, unsigned width,
                               bool more, fb_memory *memory) {
    if (FB_UNLIKELY(!begin_value(node, row, &row, more, false, memory))) return false;
    if (width == 8) {
        memcpy(node->values.data + 8 * row, &number, 8);
    } else if (width == 4) {
        const uint32_t narrow = (uint32_t)number;
        memcpy(node->values.data + 4 * row, &narrow, 4);
    } else {
        fb_nested_set_bit(node->values.data, row, number != 0);
    }
    return true;
}

/* Return true if a text of at most SHORT_TEXT bytes is ASCII. The bytes behind it are read too. */
FB_INLINE bool is_short_ascii(const uint8_t *p, size_t size) {
#ifdef __SSE2__
    const unsigned first = (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const void *)p)),
                   second = (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const void *)(p + 16)));
    return !((first | (uint64_t)second << 16) & (((uint64_t)1 << size) - 1));
#else
    return fb_is_ascii(p, size);
#endif
}

/* Put a short text behind all others, which is copied with bytes behind it. */
FB_INLINE bool put_fast_text(fb_nested_node *node, size_t row, const uint8_t *text, size_t size,
                             bool more, fb_memory *memory) {
    const size_t begin = node->used;
    if (FB_UNLIKELY(!begin_value(node, row, &row, more, true, memory) ||
                    !fb_nested_reserve(node, begin + SHORT_TEXT, memory)))
        return false;
    memcpy(node->bytes.data + begin, text, SHORT_TEXT);
    node->used = begin + size;
    fb_nested_offsets(&node->offsets)[row + 1] = (int32_t)node->used;
    return true;
}

/* Put the elements of a packed field. Varints are read without looking at the end of the input. */
FB_INLINE fb_status put_fast_packed(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                                    fb_bytes elements, fb_nested_fault *fault) {
    const uint8_t *p = elements.data, *end = fb_end_of(elements);
    const bool wide = node->fast == FB_FAST_UINT64 + FB_FAST_MORE;
    size_t count = node->count;
    if (FB_UNLIKELY(!fb_nested_reach_list(node, row, reader->memory))) return FB_NO_MEMORY;
    const bool fast = wide || node->fast == FB_FAST_UINT32 + FB_FAST_MORE;
    if (!fast || end > reader->safe || count + elements.size > node->room) {
        fb_status status = put_packed(reader, node, node->type->field, elements, fault);
        return status == FB_OK ? end_list(node, row) : status;
    }
    for (uint64_t number; p < end; count++) {
        if (!(p = fb_wire_load_varint(p, &number)) || p > end) return FB_BAD_MESSAGE;
        memcpy(node->values.data + (wide ? 8 : 4) * count, &number, wide ? 8 : 4);
    }
    node->count = count;
    return end_list(node, row);
}

/* Find the node of a field whose tag has two bytes. */
static FB_NOINLINE fb_nested_quick find_fast(const fb_nested_reader *reader,
                                             const fb_nested_node *node, const uint8_t *p) {
    const fb_nested_quick none = {reader->nodes, FB_FAST_NONE};
    const unsigned first = p[0], second = p[1];
    const fb_codec_message *message = node->type->message;
    const unsigned number = (first & 0x7f) >> 3 | second << 4;
    if (second >= 0x80 || number >= message->place_count) return none;
    const size_t place = message->places[number];
    if (!place || message->fields[place - 1].wire != (first & 7)) return none;
    const int32_t found = node->type->nodes[place - 1];
    return found == FB_NESTED_NO_NODE
               ? none
               : (fb_nested_quick){&reader->nodes[found], reader->nodes[found].fast};
}

/* A message that the fast path reads, or has begun. */
typedef struct {
    fb_nested_node *node;
    size_t row;
    const uint8_t *end;
    size_t kept; /* maps that waited before it; SIZE_MAX: it may have further parts */
} level;

enum { FAST_LEVELS = 8 }; /* messages inside each other, until read_field begins a new walk */

/* Read the fields of a message. The fast path reads tags, lengths and numbers without looking at
   the end of the message, as long as the input goes on. So p may be behind the end, and differences
   are signed. Anything unusual is left to read_field. */
static fb_status read_fields(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes bytes, size_t depth, size_t kept, fb_nested_fault *fault) {
    level levels[FAST_LEVELS], *top = levels;
    const uint8_t *p = bytes.data, *const safe = reader->safe;
    const fb_nested_quick *quick = node->quick;
    fb_memory *memory = reader->memory;
    const uint8_t *end = fb_end_of(bytes), *limit = end < safe ? end : safe;
    for (;;) {
        const uint8_t *begin = p;
        uint64_t number;
        size_t size, at;
        bool room = true;
        fb_status status;
        if (FB_UNLIKELY(p >= limit)) {
            if (p < end) goto any;
            if (FB_UNLIKELY(reader->pending_count > kept) &&
                (status = read_pending(reader, kept, fault)) != FB_OK)
                return status;
            if (top == levels) return FB_OK;
            node = (--top)->node;
            row = top->row;
            end = top->end;
            kept = top->kept;
            limit = end < safe ? end : safe;
            quick = node->quick;
            continue;
        }
        fb_nested_quick found;
        if (FB_LIKELY(*p < FB_NESTED_QUICK)) {
            found = quick[*p++];
        } else {
            found = find_fast(reader, node, p);
            p += 2;
        }
        fb_nested_node *child = found.node;
#define FAST_NUMBER_AS(kind, read, convert, width, more) \
    case (kind) + ((more) ? FB_FAST_MORE : 0): \
        p = read; \
        if (FB_UNLIKELY(!p || p > end)) goto any; \
        room = put_fast_number(child, row, convert, width, more, memory); \
        break
#define FAST_NUMBER(kind, read, convert, width) \
    FAST_NUMBER_AS(kind, read, convert, width, false); \
    FAST_NUMBER_AS(kind, read, convert, width, true)
#define FAST_TEXT(kind, ascii, more) \
    case (kind) + ((more) ? FB_FAST_MORE : 0): \
        size = *p++; \
        if (size > SHORT_TEXT || (ptrdiff_t)size > end - p) goto any; \
        if (row < child->count && !((more) && child->repeated)) \
            goto any; /* it replaces another */ \
        if ((ascii) && !is_short_ascii(p, size)) goto any; \
        room = put_fast_text(child, row, p, size, more, memory); \
        p += size; \
        break
        switch (found.fast) {
            FAST_NUMBER(FB_FAST_UINT64, fb_wire_load_varint(p, &number), number, 8);
            FAST_NUMBER(FB_FAST_UINT32, fb_wire_load_varint(p, &number), number, 4);
            FAST_NUMBER(FB_FAST_SINT64, fb_wire_load_varint(p, &number),
                        (uint64_t)fb_wire_unzigzag(number), 8);
            FAST_NUMBER(FB_FAST_SINT32, fb_wire_load_varint(p, &number),
                        (uint64_t)fb_wire_unzigzag((uint32_t)number), 4);
            FAST_NUMBER(FB_FAST_BOOL, fb_wire_load_varint(p, &number), number, 0);
            FAST_NUMBER(FB_FAST_FIXED64, (number = fb_load_little64(p), p + 8), number, 8);
            FAST_NUMBER(FB_FAST_FIXED32, (number = fb_load_little64(p), p + 4), number, 4);
            FAST_TEXT(FB_FAST_TEXT, true, false);
            FAST_TEXT(FB_FAST_TEXT, true, true);
            FAST_TEXT(FB_FAST_BYTES, false, false);
            FAST_TEXT(FB_FAST_BYTES, false, true);
            case FB_FAST_CHECKED:
            case FB_FAST_CHECKED + FB_FAST_MORE:
                if (!(p = fb_wire_load_varint(p, &number)) || p > end) goto any;
                number = fb_codec_number(child->type->field, number);
                if (!(room = begin_value(child, row, &at, true, false, memory))) break;
                if (FB_UNLIKELY(!put_number(child, at, number))) goto any; /* for the reason */
                break;
            case FB_FAST_TIME:
            case FB_FAST_TIME + FB_FAST_MORE:
                size = *p++;
                if (size > SHORT_TEXT || (ptrdiff_t)size > end - p) goto any;
                if (row < child->count && !child->repeated) goto any; /* parts of one value */
                if (!(room = begin_value(child, row, &at, true, false, memory))) break;
                if (fb_nested_put_time(reader, child, at, false, (fb_bytes){p, size},
                                       depth + (size_t)(top - levels), fault) != FB_OK)
                    goto any;
                p += size;
                break;
            case FB_FAST_PACKED:
                size = *p++;
                if (size >= 0x80 || (ptrdiff_t)size > end - p) goto any;
                if (put_fast_packed(reader, child, row, (fb_bytes){p, size}, fault) != FB_OK)
                    goto any; /* for the reason */
                p += size;
                break;
            case FB_FAST_MESSAGE:
            case FB_FAST_MESSAGE + FB_FAST_MORE:
                size = *p++;
                if (size >= 0x80) size = (size & 0x7f) | (size_t)*p++ << 7;
                if (size >= 0x4000 || (ptrdiff_t)size > end - p || top == levels + FAST_LEVELS)
                    goto any;
                if (!(room = begin_value(child, row, &at, true, false, memory))) break;
                *top++ = (level){node, row, end, kept};
                node = child;
                row = at;
                end = p + size;
                kept = child->repeated ? reader->pending_count : SIZE_MAX;
                limit = end < safe ? end : safe;
                quick = child->quick;
                break;
            case FB_FAST_NONE: goto any;
            default: __builtin_unreachable();
        }
#undef FAST_TEXT
#undef FAST_NUMBER
#undef FAST_NUMBER_AS
        if (FB_UNLIKELY(!room)) return FB_NO_MEMORY;
        continue;
    any:;
        const uint8_t *next = begin;
        status = read_field(reader, node, row, &next, end, depth + (size_t)(top - levels), fault);
        if (FB_UNLIKELY(status != FB_OK)) return status;
        p = next;
    }
}
