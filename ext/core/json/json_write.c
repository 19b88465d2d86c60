#include "core/json/json_write.h"

#include "core/base/address_format.h"
#include "core/base/real_format.h"
#include "core/base/text_format.h"
#include "core/json/json_map.h"
#include "core/json/json_merge.h"
#include "core/json/json_values.h"

typedef struct {
    const fb_json_types *types;
    fb_json_options options;
    fb_buffer *output;
    fb_json_fault *fault;
    fb_status status; /* of the failure */
    fb_bytes input;
    /* for errors in a copy: the message that was copied, in the input */
    const uint8_t *original;
    size_t depth; /* messages that are open */
    uint64_t unknown;
    /* Messages are ordered before they are written. Most are in order already, so this is tried
       only after a message that is not. */
    bool ordering;
    bool unordered; /* the failure is such a message */
} writer;

static bool put_message(writer *w, const fb_json_type *type, fb_bytes message,
                        const fb_json_where *place);
static bool put_members(writer *w, const fb_json_type *type, fb_bytes message,
                        fb_json_where *place);

static const char TOO_DEEP[] = "more than 100 messages inside each other";

/* Failures and room --------------------------------------------------------------------------- */

static bool is_inside(fb_bytes bytes, const uint8_t *p) {
    return p && (uintptr_t)p >= (uintptr_t)bytes.data &&
           (uintptr_t)p <= (uintptr_t)fb_end_of(bytes);
}

static bool fail_at(writer *w, const fb_json_where *place, const uint8_t *where, fb_bytes token,
                    const char *problem) {
    const uint8_t *at = is_inside(w->input, where) ? where : w->original;
    w->status = FB_BAD_MESSAGE;
    *w->fault = (fb_json_fault){.problem = problem, .type = -1};
    fb_json_set_token(w->fault, token);
    w->fault->offset = (size_t)(at - w->input.data);
    fb_json_path(place, w->fault->path);
    return false;
}

static bool fail(writer *w, const fb_json_where *place, const uint8_t *where, const char *problem) {
    return fail_at(w, place, where, (fb_bytes){NULL, 0}, problem);
}

FB_INLINE bool reserve(writer *w, size_t size) {
    if (fb_buffer_reserve(w->output, size) == FB_OK) return true;
    w->status = FB_NO_MEMORY;
    return false;
}

FB_INLINE void put(writer *w, const void *text, size_t size) {
    memcpy(w->output->p, text, size);
    w->output->p += size;
}

FB_INLINE bool put_char(writer *w, char c) {
    if (!reserve(w, 1)) return false;
    *w->output->p++ = (uint8_t)c;
    return true;
}

static bool put_word(writer *w, const char *word) {
    const size_t size = strlen(word);
    if (!reserve(w, size)) return false;
    put(w, word, size);
    return true;
}

/* Replace the last comma by `end`, or append it. */
static bool close_with(writer *w, char end) {
    if (w->output->p[-1] == ',') w->output->p--;
    return put_char(w, end);
}

/* Scalars ------------------------------------------------------------------------------------- */

static bool put_string(writer *w, fb_bytes text, const fb_json_where *place) {
    if (FB_LIKELY(fb_is_plain_text(text))) {
        if (!reserve(w, text.size + 2)) return false;
        *w->output->p++ = '"';
        if (text.size) put(w, text.data, text.size);
        *w->output->p++ = '"';
        return true;
    }
    if (!fb_utf8_valid(text)) return fail(w, place, text.data, "a string that is not UTF-8");
    if (!reserve(w, text.size + FB_FORMAT_ESCAPE_MAX + 2)) return false;
    *w->output->p++ = '"';
    while (text.size) {
        if (!reserve(w, text.size + FB_FORMAT_ESCAPE_MAX)) return false;
        w->output->p = fb_format_json_text(w->output->p, w->output->end, &text);
    }
    return put_char(w, '"');
}

static bool put_bytes(writer *w, fb_bytes bytes) {
    if (bytes.size > SIZE_MAX / 2 || !reserve(w, fb_base64_size(bytes.size) + 2)) {
        w->status = FB_NO_MEMORY;
        return false;
    }
    *w->output->p++ = '"';
    w->output->p = fb_base64_put(w->output->p, bytes);
    *w->output->p++ = '"';
    return true;
}

/* Numbers, quoted if they have 64 bits or are not finite. REQUIRES: room for NUMBER_ROOM bytes. */
enum { NUMBER_ROOM = 40 };

static char *put_unsigned(char *p, uint64_t value) {
    char digits[FB_FORMAT_NUMBER_MAX];
    const size_t size = (size_t)(fb_format_number(digits, value) - digits);
    memcpy(p, digits, size);
    return p + size;
}

static char *put_signed(char *p, int64_t value) {
    if (value < 0) *p++ = '-';
    return put_unsigned(p, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static char *put_real(char *p, uint64_t bits, bool narrow) {
    uint32_t half = (uint32_t)bits;
    double real;
    float real32;
    memcpy(&real, &bits, 8);
    memcpy(&real32, &half, 4);
    const bool finite = narrow ? (half >> 23 & 0xff) != 0xff : (bits >> 52 & 0x7ff) != 0x7ff;
    if (!finite) *p++ = '"';
    p = narrow ? fb_format_real32(p, real32) : fb_format_real(p, real);
    if (!finite) *p++ = '"';
    return p;
}

static char *put_number(char *p, const fb_codec_field *field, uint64_t value) {
    switch (field->type) {
        case FB_PROTO_DOUBLE: return put_real(p, value, false);
        case FB_PROTO_FLOAT: return put_real(p, value, true);
        case FB_PROTO_UINT32:
        case FB_PROTO_FIXED32: return put_unsigned(p, (uint32_t)value);
        case FB_PROTO_INT32:
        case FB_PROTO_SINT32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_ENUM: return put_signed(p, (int64_t)value);
        default: break;
    }
    const bool unsign = field->type == FB_PROTO_UINT64 || field->type == FB_PROTO_FIXED64;
    *p++ = '"';
    p = unsign ? put_unsigned(p, value) : put_signed(p, (int64_t)value);
    *p++ = '"';
    return p;
}

static bool put_scalar(writer *w, const fb_codec_field *field, const fb_json_field *of,
                       uint64_t value) {
    if (field->type == FB_PROTO_BOOL) return put_word(w, value ? "true" : "false");
    if (field->type == FB_PROTO_ENUM) {
        if (of->members->null) return put_word(w, "null");
        const fb_bytes name = fb_json_member_name(of->members, (int32_t)value);
        if (name.data && !w->options.enum_numbers) {
            if (!reserve(w, name.size + 2)) return false;
            *w->output->p++ = '"';
            put(w, name.data, name.size);
            *w->output->p++ = '"';
            return true;
        }
    }
    if (!reserve(w, NUMBER_ROOM)) return false;
    w->output->p = (uint8_t *)put_number((char *)w->output->p, field, value);
    return true;
}

static bool is_message(const fb_codec_field *field) {
    return field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP;
}

static bool put_value(writer *w, const fb_codec_field *field, const fb_json_field *of,
                      const fb_codec_item *item, const fb_json_where *place) {
    if (is_message(field)) return put_message(w, fb_json_type_of(field), item->bytes, place);
    if (field->type == FB_PROTO_STRING) return put_string(w, item->bytes, place);
    if (field->type == FB_PROTO_BYTES) return put_bytes(w, item->bytes);
    return put_scalar(w, field, of, item->value);
}

/* Fields -------------------------------------------------------------------------------------- */

static bool put_key(writer *w, const fb_json_field *of) {
    const fb_bytes key = w->options.original_names ? of->key : of->json_key;
    if (!reserve(w, key.size)) return false;
    put(w, key.data, key.size);
    return true;
}

/* Read the next known field. */
static fb_status next_field(writer *w, fb_codec_reader *fields, fb_codec_item *item) {
    fb_status status;
    while ((status = fb_codec_next(fields, item)) == FB_OK && !item->field) w->unknown++;
    return status;
}

static bool put_packed(writer *w, const fb_codec_item *item, const fb_json_field *of,
                       fb_json_where *place) {
    fb_bytes elements = item->bytes;
    fb_status status;
    uint64_t value;
    while ((status = fb_codec_next_element(item->field, &elements, &value)) == FB_OK) {
        if (!fb_codec_has_member(item->field, value)) continue;
        if (!put_scalar(w, item->field, of, value) || !put_char(w, ',')) return false;
        place->index++;
    }
    return status == FB_END || fail(w, place, elements.data, "a packed element that is cut short");
}

/* Write the elements from *item on. Moves *item to the field behind them. */
static bool put_list(writer *w, fb_codec_reader *fields, fb_codec_item *item, fb_status *status,
                     const fb_json_type *type, fb_json_where *place) {
    const fb_codec_field *field = item->field;
    const fb_json_field *of = fb_json_field_of(type, field);
    const size_t before = fb_buffer_size(w->output);
    if (!put_key(w, of) || !put_char(w, '[')) return false;
    place->index = 0;
    do {
        if (item->packed) {
            if (!put_packed(w, item, of, place)) return false;
        } else {
            if (!put_value(w, field, of, item, place) || !put_char(w, ',')) return false;
            place->index++;
        }
    } while ((*status = next_field(w, fields, item)) == FB_OK && item->field == field);
    if (!place->index && !w->options.defaults) { /* only empty packed fields */
        w->output->p = w->output->begin + before;
        place->index = -1;
        return true;
    }
    place->index = -1;
    return close_with(w, ']') && put_char(w, ',');
}

static bool put_map_key(writer *w, const fb_codec_field *field, const fb_json_entry *entry,
                        fb_json_where *place) {
    char number[NUMBER_ROOM], *end = number;
    if (field->type == FB_PROTO_STRING) return put_string(w, entry->text, place);
    if (field->type == FB_PROTO_BOOL) return put_word(w, entry->number ? "\"true\"" : "\"false\"");
    end = put_number(number, field, entry->number);
    const bool quoted = number[0] == '"';
    if (!reserve(w, NUMBER_ROOM + 2)) return false;
    if (!quoted) *w->output->p++ = '"';
    put(w, number, (size_t)(end - number));
    if (!quoted) *w->output->p++ = '"';
    return true;
}

/* Write the value of an entry, or its default. */
static bool put_entry_value(writer *w, const fb_json_type *type, fb_bytes bytes,
                            const fb_json_where *place) {
    const fb_codec_field *value = type->core.fields + 1;
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, bytes);
    fields.depth = w->depth - 1;
    while (next_field(w, &fields, &item) == FB_OK)
        if (item.field == value)
            return put_value(w, value, fb_json_field_of(type, value), &item, place);
    item = (fb_codec_item){.field = value, .bytes = {fb_end_of(bytes), 0}};
    return put_value(w, value, fb_json_field_of(type, value), &item, place);
}

/* A message that is being written. */
typedef struct {
    fb_json_ordered ordered;
    const uint8_t *original; /* of the writer, around this message */
} frame;

/* Begin with a message: order its fields, unless they are checked while they are written.
   end_message is called in any case. */
static bool begin_message(writer *w, frame *f, const fb_json_type *type, fb_bytes message,
                          bool checked, const fb_json_where *place) {
    const uint8_t *where;
    const char *problem;
    *f = (frame){.original = w->original, .ordered.bytes = message};
    const size_t depth = w->depth++;
    if (depth > FB_CODEC_DEPTH) return fail(w, place, message.data, TOO_DEEP);
    if (checked && !w->ordering) return true;
    fb_status status = fb_json_order(type, message, depth, &f->ordered, &where, &problem);
    if (status == FB_BAD_MESSAGE) return fail(w, place, where, problem);
    if (status != FB_OK) w->status = status;
    w->unknown += f->ordered.unknown;
    if (f->ordered.copy.begin && is_inside(w->input, message.data)) w->original = message.data;
    return status == FB_OK;
}

static void end_message(writer *w, frame *f) {
    w->depth--;
    w->original = f->original;
    fb_json_ordered_free(&f->ordered);
}

static bool put_entry(writer *w, const fb_json_type *type, const fb_json_entry *entry,
                      fb_json_where *place) {
    const fb_codec_field *key = type->core.fields;
    char number[NUMBER_ROOM];
    frame f;
    place->key = entry->text;
    if (key->type != FB_PROTO_STRING)
        place->key = (fb_bytes){(uint8_t *)number,
                                (size_t)(put_number(number, key, entry->number) - number)};
    bool written = begin_message(w, &f, type, entry->bytes, false, place) &&
                   put_map_key(w, key, entry, place) && put_char(w, ':') &&
                   put_entry_value(w, type, f.ordered.bytes, place) && put_char(w, ',');
    end_message(w, &f);
    place->key = (fb_bytes){NULL, 0};
    return written;
}

/* Write the entries from *item on as members of an object. Moves *item to the field behind them. */
static bool put_entries(writer *w, fb_codec_reader *fields, fb_codec_item *item, fb_status *status,
                        fb_json_where *place) {
    const fb_codec_field *field = item->field;
    const fb_json_type *type = fb_json_type_of(field);
    fb_json_entries entries = {0};
    const uint8_t *where;
    const char *problem;
    do w->status = fb_json_entries_add(&entries, type, item->bytes, w->depth, &where, &problem);
    while (w->status == FB_OK && (*status = next_field(w, fields, item)) == FB_OK &&
           item->field == field);
    bool written = w->status == FB_OK;
    if (w->status == FB_BAD_MESSAGE) fail(w, place, where, problem);
    if (written) fb_json_entries_sort(&entries, type->core.fields);
    written = written && put_char(w, '{');
    for (size_t i = 0; written && i < entries.count; i++)
        written = put_entry(w, type, entries.all + i, place);
    fb_json_entries_free(&entries);
    return written && close_with(w, '}');
}

static bool put_map(writer *w, fb_codec_reader *fields, fb_codec_item *item, fb_status *status,
                    const fb_json_type *type, fb_json_where *place) {
    return put_key(w, fb_json_field_of(type, item->field)) &&
           put_entries(w, fields, item, status, place) && put_char(w, ',');
}

static bool is_empty(const fb_codec_item *item) {
    const fb_codec_field *field = item->field;
    if (field->presence || is_message(field)) return false;
    if (field->type == FB_PROTO_STRING || field->type == FB_PROTO_BYTES) return !item->bytes.size;
    return !item->value;
}

/* Write the default of a field that the message does not have, if it has no presence. */
static bool put_default(writer *w, const fb_json_type *type, const fb_codec_field *field) {
    const fb_json_field *of = fb_json_field_of(type, field);
    const fb_codec_item item = {.field = field};
    if (!field->repeated && (field->presence || is_message(field) || field->oneof)) return true;
    if (!put_key(w, of)) return false;
    if (field->repeated) return put_word(w, of->map ? "{}," : "[],");
    return put_value(w, field, of, &item, NULL) && put_char(w, ',');
}

/* Fail because of the field that the reader could not read. */
static bool fail_field(writer *w, const fb_codec_reader *fields, const fb_json_type *type,
                       fb_json_where *place) {
    const fb_codec_field *field;
    const char *problem = fb_codec_problem(fields, &field);
    if (field) place->field = fb_json_field_of(type, field);
    return fail(w, place, fields->p, problem);
}

/* Check that the field of a message comes behind the fields before it. `oneofs` has a bit for each
   oneof of these. */
static bool is_in_order(writer *w, const fb_codec_field *field, const fb_codec_field *next,
                        uint64_t *oneofs) {
    const uint64_t bit = field->oneof ? UINT64_C(1) << (field->oneof & 63) : 0;
    const bool fine = field >= next && (!(*oneofs & bit) || w->ordering);
    *oneofs |= bit;
    w->unordered |= !fine;
    return fine;
}

static bool put_single(writer *w, const fb_codec_item *item, const fb_json_field *of,
                       const fb_json_where *place) {
    if (is_empty(item) && !w->options.defaults) return true;
    return put_key(w, of) && put_value(w, item->field, of, item, place) && put_char(w, ',');
}

/* Write the fields of a message, each with a comma behind it. */
static bool put_members(writer *w, const fb_json_type *type, fb_bytes message,
                        fb_json_where *place) {
    const fb_codec_field *next = type->core.fields, *end = next + type->core.count, *field;
    fb_codec_reader fields;
    fb_codec_item item;
    uint64_t oneofs = 0;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    fb_status status = next_field(w, &fields, &item);
    while (status == FB_OK) {
        field = item.field;
        const fb_json_field *of = place->field = fb_json_field_of(type, field);
        if (!is_in_order(w, field, next, &oneofs)) return false;
        for (; w->options.defaults && next < field; next++)
            if (!put_default(w, type, next)) return false;
        next = field + 1;
        if (!field->repeated) {
            if (!put_single(w, &item, of, place)) return false;
            status = next_field(w, &fields, &item);
            continue;
        }
        if (!(of->map ? put_map : put_list)(w, &fields, &item, &status, type, place)) return false;
    }
    place->field = NULL;
    if (status != FB_END) return fail_field(w, &fields, type, place);
    for (; w->options.defaults && next < end; next++)
        if (!put_default(w, type, next)) return false;
    return true;
}

/* Types with a form of their own -------------------------------------------------------------- */

/* Read the only, or the last, field of an ordered message. Returns false if it has none. */
static bool last_field(writer *w, const fb_json_type *type, fb_bytes message, fb_codec_item *item) {
    fb_codec_reader fields;
    fb_codec_item next;
    bool found = false;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    for (; next_field(w, &fields, &next) == FB_OK; found = true) *item = next;
    return found;
}

static bool put_wrapper(writer *w, const fb_json_type *type, fb_bytes message,
                        fb_json_where *place) {
    fb_codec_item item;
    if (!last_field(w, type, message, &item))
        item = (fb_codec_item){.field = type->core.fields, .bytes = {fb_end_of(message), 0}};
    return put_value(w, item.field, type->fields, &item, place);
}

static bool put_time(writer *w, const fb_json_type *type, fb_bytes message,
                     const fb_json_where *place) {
    const bool duration = type->form == FB_JSON_DURATION;
    const uint8_t *where;
    fb_json_time time = {0, 0};
    fb_codec_read_time(message, w->depth - 1, &time.seconds, &time.nanoseconds, &where);
    if (!fb_json_time_in_range(duration, time))
        return fail(w, place, message.data,
                    duration
                        ? "a duration of more than 10,000 years, or with parts of unequal signs"
                        : "a time outside of the years 1 to 9999");
    if (!reserve(w, FB_JSON_TIME_MAX + 2)) return false;
    *w->output->p++ = '"';
    w->output->p = fb_json_put_time(w->output->p, duration, time);
    *w->output->p++ = '"';
    return true;
}

static bool put_field_mask(writer *w, const fb_json_type *type, fb_bytes message,
                           const fb_json_where *place) {
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    if (!put_char(w, '"')) return false;
    while (next_field(w, &fields, &item) == FB_OK) {
        const fb_bytes path = item.bytes;
        if (!fb_utf8_valid(path)) return fail(w, place, path.data, "a string that is not UTF-8");
        if (!reserve(w, path.size)) return false;
        uint8_t *end = fb_json_put_path(w->output->p, path);
        if (!end)
            return fail_at(w, place, path.data, path, "a path that lowerCamelCase cannot express");
        w->output->p = end;
        if (!put_char(w, ',')) return false;
    }
    return close_with(w, '"');
}

static bool put_struct(writer *w, const fb_json_type *type, fb_bytes message,
                       fb_json_where *place) {
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    fb_status status = next_field(w, &fields, &item);
    if (status != FB_OK) return put_word(w, "{}");
    place->field = fb_json_field_of(type, item.field);
    return put_entries(w, &fields, &item, &status, place);
}

static bool put_list_value(writer *w, const fb_json_type *type, fb_bytes message,
                           fb_json_where *place) {
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    if (!put_char(w, '[')) return false;
    place->field = type->fields;
    for (place->index = 0; next_field(w, &fields, &item) == FB_OK; place->index++)
        if (!put_value(w, item.field, type->fields, &item, place) || !put_char(w, ','))
            return false;
    return close_with(w, ']');
}

static bool put_json_value(writer *w, const fb_json_type *type, fb_bytes message,
                           fb_json_where *place) {
    fb_codec_item item;
    if (!last_field(w, type, message, &item)) return put_word(w, "null");
    place->field = fb_json_field_of(type, item.field);
    if (item.field->type == FB_PROTO_DOUBLE && (item.value >> 52 & 0x7ff) == 0x7ff)
        return fail(w, place, message.data, "NaN or infinity in a google.protobuf.Value");
    return put_value(w, item.field, place->field, &item, place);
}

static bool put_any(writer *w, const fb_json_type *type, fb_bytes message, fb_json_where *place) {
    fb_bytes url = {NULL, 0}, content = {NULL, 0};
    fb_codec_reader fields;
    fb_codec_item item;
    fb_codec_reader_begin(&fields, &type->core, message);
    fields.depth = w->depth - 1;
    while (next_field(w, &fields, &item) == FB_OK)
        *(item.field->number == 1 ? &url : &content) = item.bytes;
    if (!url.size && !content.size) return put_word(w, "{}");
    const fb_json_type *inner = fb_json_type_by_url(w->types, url);
    if (!inner)
        return fail_at(w, place, message.data, url,
                       "an Any of a type that the codec does not know");
    if (!put_word(w, "{\"@type\":") || !put_string(w, url, place) || !put_char(w, ','))
        return false;
    if (!content.data) content.data = fb_end_of(message);
    if (inner->form != FB_JSON_OBJECT)
        return put_word(w, "\"value\":") && put_message(w, inner, content, place) &&
               put_char(w, '}');
    /* the fields of the message are members of the same object */
    frame f;
    bool written = begin_message(w, &f, inner, content, true, place) &&
                   put_members(w, inner, f.ordered.bytes, place) && close_with(w, '}');
    end_message(w, &f);
    return written;
}

static bool put_object(writer *w, const fb_json_type *type, fb_bytes message,
                       fb_json_where *place) {
    return put_char(w, '{') && put_members(w, type, message, place) && close_with(w, '}');
}

static bool put_form(writer *w, const fb_json_type *type, fb_bytes message, fb_json_where *place) {
    switch (type->form) {
        case FB_JSON_WRAPPER: return put_wrapper(w, type, message, place);
        case FB_JSON_TIMESTAMP:
        case FB_JSON_DURATION: return put_time(w, type, message, place);
        case FB_JSON_FIELD_MASK: return put_field_mask(w, type, message, place);
        case FB_JSON_STRUCT: return put_struct(w, type, message, place);
        case FB_JSON_VALUE: return put_json_value(w, type, message, place);
        case FB_JSON_LIST_VALUE: return put_list_value(w, type, message, place);
        case FB_JSON_ANY: return put_any(w, type, message, place);
        default: return put_object(w, type, message, place);
    }
}

static bool put_message(writer *w, const fb_json_type *type, fb_bytes message,
                        const fb_json_where *place) {
    fb_json_where here = {.parent = place, .index = -1};
    frame f;
    bool written = begin_message(w, &f, type, message, type->form == FB_JSON_OBJECT, place) &&
                   put_form(w, type, f.ordered.bytes, &here);
    end_message(w, &f);
    return written;
}

fb_status fb_json_write(const fb_json_types *types, const fb_json_type *type, fb_bytes message,
                        fb_json_options options, fb_buffer *output, uint64_t *unknown,
                        fb_json_fault *fault) {
    writer w = {.types = types, .options = options, .output = output, .fault = fault};
    const size_t before = fb_buffer_size(output);
    w.input = message;
    w.original = message.data;
    bool written = put_message(&w, type, message, NULL);
    if (w.unordered) { /* begin again */
        output->p = output->begin + before;
        w.ordering = true;
        w.unordered = false;
        w.unknown = 0;
        written = put_message(&w, type, message, NULL);
    }
    *unknown += w.unknown;
    return written ? FB_OK : w.status;
}
