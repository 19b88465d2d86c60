#include "core/json/json_write.h"

#include "core/base/address_format.h"
#include "core/base/real_format.h"
#include "core/base/text_format.h"
#include "core/json/json_fields.h"
#include "core/json/json_map.h"
#include "core/json/json_values.h"

typedef struct {
    const fb_json_types *types;
    fb_json_options options;
    fb_buffer *output;
    fb_json_fault *fault;
    fb_status status; /* of the failure */
    const uint8_t *input;
    size_t depth; /* messages that are open */
    uint64_t unknown;
    /* Messages are ordered before they are written. Most are in order already, so this is tried
       only after a failure. */
    bool ordering;
} writer;

static bool put_message(writer *w, const fb_json_type *type, fb_json_message message,
                        const fb_json_where *place);
static bool put_members(writer *w, const fb_json_type *type, fb_json_fields *fields,
                        fb_json_where *place);

/* Failures and room --------------------------------------------------------------------------- */

static bool fail_at(writer *w, const fb_json_where *place, const uint8_t *where, fb_bytes token,
                    const char *problem) {
    w->status = FB_BAD_MESSAGE;
    *w->fault = (fb_json_fault){.problem = problem, .type = -1};
    fb_json_set_token(w->fault, token);
    w->fault->offset = where ? (size_t)(where - w->input) : 0;
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
    w->output->p = fb_wire_put_few_bytes(w->output->p, text, size);
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

/* Write a text that needs no escapes. */
static bool put_quoted(writer *w, fb_bytes text) {
    if (!reserve(w, text.size + 2)) return false;
    *w->output->p++ = '"';
    if (text.size) put(w, text.data, text.size);
    *w->output->p++ = '"';
    return true;
}

static bool put_unicode(writer *w, fb_bytes text) {
    if (!reserve(w, text.size + FB_FORMAT_ESCAPE_MAX + 2)) return false;
    *w->output->p++ = '"';
    while (text.size) {
        if (!reserve(w, text.size + FB_FORMAT_ESCAPE_MAX)) return false;
        w->output->p = fb_format_json_text(w->output->p, w->output->end, &text);
    }
    return put_char(w, '"');
}

static bool put_repaired(writer *w, fb_bytes text) {
    fb_buffer room = {NULL, NULL, NULL};
    bool replaced;
    ++*w->options.repaired;
    if (fb_buffer_reserve(&room, 3 * text.size) != FB_OK) {
        w->status = FB_NO_MEMORY;
        return false;
    }
    room.p = fb_utf8_put_replaced(room.p, text, &replaced);
    const bool written = put_unicode(w, (fb_bytes){room.begin, fb_buffer_size(&room)});
    fb_buffer_free(&room);
    return written;
}

static bool put_string(writer *w, fb_bytes text, const fb_json_where *place) {
    if (FB_LIKELY(fb_is_plain_text(text))) return put_quoted(w, text);
    if (fb_utf8_valid(text)) return put_unicode(w, text);
    return w->options.repaired ? put_repaired(w, text)
                               : fail(w, place, text.data, "a string that is not UTF-8");
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
        if (name.data && !w->options.enum_numbers) return put_quoted(w, name);
    }
    if (!reserve(w, NUMBER_ROOM)) return false;
    w->output->p = (uint8_t *)put_number((char *)w->output->p, field, value);
    return true;
}

/* Write the value of an item. `count`: the parts of a message. */
static bool put_value(writer *w, const fb_json_field *of, const fb_codec_item *item, size_t count,
                      const fb_json_where *place) {
    const fb_codec_field *field = item->field;
    if (fb_codec_is_message(field))
        return put_message(w, fb_json_type_of(field), (fb_json_message){item, count}, place);
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

/* The start of a message: its fields, or a failure. */
static bool begin_message(writer *w, fb_json_fields *fields, const fb_json_type *type,
                          fb_json_message message, bool checked, const fb_json_where *place) {
    const uint8_t *where = NULL;
    const char *problem = NULL;
    const size_t depth = w->depth++;
    fields->sorted = NULL;
    if (depth > FB_CODEC_DEPTH) return fail(w, place, message.parts->bytes.data, fb_json_too_deep);
    fb_status status = fb_json_fields_begin(fields, type, message, depth, checked && !w->ordering,
                                            &where, &problem);
    if (status == FB_BAD_MESSAGE) return fail(w, place, where, problem);
    if (status != FB_OK) w->status = status;
    return status == FB_OK;
}

/* The end of a message, after begin_message with any result. */
static void end_message(writer *w, fb_json_fields *fields, bool begun) {
    w->depth--;
    if (!begun) return;
    w->unknown += fields->unknown;
    fb_json_fields_end(fields);
}

static bool put_packed(writer *w, const fb_codec_item *item, const fb_json_field *of,
                       fb_json_where *place) {
    fb_bytes elements = item->bytes;
    fb_status status;
    uint64_t value;
    while ((status = fb_codec_next_element(item->field, &elements, &value)) == FB_OK) {
        if (!fb_codec_has_member(item->field, value)) {
            w->unknown++;
            continue;
        }
        if (!put_scalar(w, item->field, of, value) || !put_char(w, ',')) return false;
        place->index++;
    }
    return status == FB_END || fail(w, place, elements.data, "a packed element that is cut short");
}

/* Write the elements from the current field on. *status becomes that of the field behind them. */
static bool put_list(writer *w, fb_json_fields *fields, fb_status *status, const fb_json_type *type,
                     fb_json_where *place) {
    const fb_codec_field *field = fields->item->field;
    const fb_json_field *of = fb_json_field_of(type, field);
    const size_t before = fb_buffer_size(w->output);
    if (!put_key(w, of) || !put_char(w, '[')) return false;
    place->index = 0;
    do {
        if (fields->item->packed) {
            if (!put_packed(w, fields->item, of, place)) return false;
        } else {
            if (!put_value(w, of, fields->item, 1, place) || !put_char(w, ',')) return false;
            place->index++;
        }
    } while ((*status = fb_json_fields_next(fields)) == FB_OK && fields->item->field == field);
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
    char number[NUMBER_ROOM];
    if (field->type == FB_PROTO_STRING) return put_string(w, entry->text, place);
    if (field->type == FB_PROTO_BOOL) return put_word(w, entry->number ? "\"true\"" : "\"false\"");
    const char *end = put_number(number, field, entry->number);
    const bool quoted = number[0] == '"';
    if (!reserve(w, NUMBER_ROOM + 2)) return false;
    if (!quoted) *w->output->p++ = '"';
    put(w, number, (size_t)(end - number));
    if (!quoted) *w->output->p++ = '"';
    return true;
}

/* Write the value of an entry, or its default. `end` is the end of the entry. */
static bool put_entry_value(writer *w, const fb_json_type *type, fb_json_fields *fields,
                            const uint8_t *end, const fb_json_where *place) {
    const fb_codec_field *value = type->core.fields + 1;
    const fb_json_field *of = fb_json_field_of(type, value);
    const fb_codec_item absent = {.field = value, .bytes = {end, 0}};
    bool found = false;
    while (fb_json_fields_next(fields) == FB_OK) {
        if (fields->item->field != value) continue;
        found = true;
        if (!put_value(w, of, fields->item, fields->count, place)) return false;
    }
    return found || put_value(w, of, &absent, 1, place);
}

static bool put_entry(writer *w, const fb_json_type *type, const fb_json_entry *entry,
                      fb_json_where *place) {
    const fb_codec_field *key = type->core.fields;
    const fb_codec_item part = {.bytes = entry->bytes};
    fb_json_fields fields;
    char number[NUMBER_ROOM];
    place->key = entry->text;
    place->quoted = key->type == FB_PROTO_STRING;
    if (!place->quoted)
        place->key = (fb_bytes){(uint8_t *)number,
                                (size_t)(put_number(number, key, entry->number) - number)};
    const bool begun = begin_message(w, &fields, type, (fb_json_message){&part, 1}, false, place);
    bool written = begun && put_map_key(w, key, entry, place) && put_char(w, ':') &&
                   put_entry_value(w, type, &fields, fb_end_of(entry->bytes), place) &&
                   put_char(w, ',');
    end_message(w, &fields, begun);
    place->key = (fb_bytes){NULL, 0};
    return written;
}

/* Write the entries from the current field on as members of an object. *status becomes that of the
   field behind them. */
static bool put_entries(writer *w, fb_json_fields *fields, fb_status *status,
                        fb_json_where *place) {
    const fb_codec_field *field = fields->item->field;
    const fb_json_type *type = fb_json_type_of(field);
    fb_json_entries entries = {0};
    const uint8_t *where;
    const char *problem;
    fb_status added;
    do added = fb_json_entries_add(&entries, type, fields->item->bytes, w->depth, &where, &problem);
    while (added == FB_OK && (*status = fb_json_fields_next(fields)) == FB_OK &&
           fields->item->field == field);
    if (added == FB_OK) added = fb_json_entries_sort(&entries, type->core.fields);
    w->unknown += entries.unknown;
    if (added == FB_BAD_MESSAGE) fail(w, place, where, problem);
    else if (added != FB_OK) w->status = added;
    bool written = added == FB_OK && put_char(w, '{');
    for (size_t i = 0; written && i < entries.count; i++)
        written = put_entry(w, type, entries.all + i, place);
    fb_json_entries_free(&entries);
    return written && close_with(w, '}');
}

static bool put_map(writer *w, fb_json_fields *fields, fb_status *status, const fb_json_type *type,
                    fb_json_where *place) {
    const size_t before = fb_buffer_size(w->output);
    if (!put_key(w, fb_json_field_of(type, fields->item->field))) return false;
    const size_t begin = fb_buffer_size(w->output);
    if (!put_entries(w, fields, status, place)) return false;
    if (fb_buffer_size(w->output) - begin == 2 && !w->options.defaults) { /* no known entries: {} */
        w->output->p = w->output->begin + before;
        return true;
    }
    return put_char(w, ',');
}

static bool is_empty(const fb_codec_item *item) {
    const fb_codec_field *field = item->field;
    if (field->presence || fb_codec_is_message(field)) return false;
    if (field->type == FB_PROTO_STRING || field->type == FB_PROTO_BYTES) return !item->bytes.size;
    return !item->value;
}

/* Write the default of a field that the message does not have, if it has no presence and is no
   extension. */
static bool put_default(writer *w, const fb_json_type *type, const fb_codec_field *field) {
    const fb_json_field *of = fb_json_field_of(type, field);
    const fb_codec_item item = {.field = field};
    if (!field->repeated && (field->presence || fb_codec_is_message(field) || field->oneof))
        return true;
    if (of->extension) return true;
    if (!put_key(w, of)) return false;
    if (field->repeated) return put_word(w, of->map ? "{}," : "[],");
    return put_value(w, of, &item, 1, NULL) && put_char(w, ',');
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
static bool is_in_order(const writer *w, const fb_codec_field *field, const fb_codec_field *next,
                        uint64_t *oneofs) {
    const uint64_t bit = field->oneof ? UINT64_C(1) << (field->oneof & 63) : 0;
    const bool fine = field >= next && (!(*oneofs & bit) || w->ordering);
    *oneofs |= bit;
    return fine;
}

static bool put_single(writer *w, const fb_json_fields *fields, const fb_json_field *of,
                       const fb_json_where *place) {
    if (is_empty(fields->item) && !w->options.defaults) return true;
    return put_key(w, of) && put_value(w, of, fields->item, fields->count, place) &&
           put_char(w, ',');
}

/* Write the fields of a message, each with a comma behind it. */
static bool put_members(writer *w, const fb_json_type *type, fb_json_fields *fields,
                        fb_json_where *place) {
    const fb_codec_field *next = type->core.fields, *end = next + type->core.count, *field;
    uint64_t oneofs = 0;
    fb_status status = fb_json_fields_next(fields);
    while (status == FB_OK) {
        field = fields->item->field;
        const fb_json_field *of = place->field = fb_json_field_of(type, field);
        if (!is_in_order(w, field, next, &oneofs)) return false;
        for (; w->options.defaults && next < field; next++)
            if (!put_default(w, type, next)) return false;
        next = field + 1;
        if (!field->repeated) {
            if (!put_single(w, fields, of, place)) return false;
            status = fb_json_fields_next(fields);
            continue;
        }
        if (!(of->map ? put_map : put_list)(w, fields, &status, type, place)) return false;
    }
    place->field = NULL;
    if (status != FB_END) return fail_field(w, &fields->reader, type, place);
    for (; w->options.defaults && next < end; next++)
        if (!put_default(w, type, next)) return false;
    return true;
}

/* Types with a form of their own -------------------------------------------------------------- */

/* The functions below write the message of `fields`. Its `begin` is the place of errors, and its
   `end` that of empty values. */

static bool put_wrapper(writer *w, const fb_json_type *type, fb_json_fields *fields,
                        const uint8_t *end, const fb_json_where *place) {
    fb_codec_item item = {.field = type->core.fields, .bytes = {end, 0}};
    while (fb_json_fields_next(fields) == FB_OK) item = *fields->item;
    return put_value(w, type->fields, &item, 1, place);
}

static bool put_time(writer *w, const fb_json_type *type, fb_json_fields *fields,
                     const uint8_t *begin, const fb_json_where *place) {
    const bool duration = type->form == FB_JSON_DURATION;
    fb_json_time time = {0, 0};
    while (fb_json_fields_next(fields) == FB_OK) {
        if (fields->item->field->number == 1) time.seconds = (int64_t)fields->item->value;
        else time.nanoseconds = (int32_t)(int64_t)fields->item->value;
    }
    if (!fb_json_time_in_range(duration, time))
        return fail(w, place, begin,
                    duration
                        ? "a duration of more than 10,000 years, or with parts of unequal signs"
                        : "a time outside of the years 1 to 9999");
    if (!reserve(w, FB_JSON_TIME_MAX + 2)) return false;
    *w->output->p++ = '"';
    w->output->p = fb_json_put_time(w->output->p, duration, time);
    *w->output->p++ = '"';
    return true;
}

static bool put_field_mask(writer *w, fb_json_fields *fields, const fb_json_where *place) {
    if (!put_char(w, '"')) return false;
    while (fb_json_fields_next(fields) == FB_OK) {
        const fb_bytes path = fields->item->bytes;
        if (!reserve(w, path.size + 1)) return false;
        uint8_t *end = fb_json_put_path(w->output->p, path);
        if (!end)
            return fail_at(w, place, path.data, path, "a path that lowerCamelCase cannot express");
        w->output->p = end;
        *w->output->p++ = ',';
    }
    return close_with(w, '"');
}

static bool put_struct(writer *w, const fb_json_type *type, fb_json_fields *fields,
                       fb_json_where *place) {
    fb_status status = fb_json_fields_next(fields);
    if (status != FB_OK) return put_word(w, "{}");
    place->field = type->fields;
    return put_entries(w, fields, &status, place);
}

static bool put_list_value(writer *w, const fb_json_type *type, fb_json_fields *fields,
                           fb_json_where *place) {
    if (!put_char(w, '[')) return false;
    place->field = type->fields;
    for (place->index = 0; fb_json_fields_next(fields) == FB_OK; place->index++)
        if (!put_value(w, type->fields, fields->item, 1, place) || !put_char(w, ',')) return false;
    return close_with(w, ']');
}

static bool put_json_value(writer *w, const fb_json_type *type, fb_json_fields *fields,
                           const uint8_t *begin, fb_json_where *place) {
    /* an ordered message has one field at most, because all are members of one oneof */
    if (fb_json_fields_next(fields) != FB_OK) return put_word(w, "null");
    const fb_codec_item *item = fields->item;
    place->field = fb_json_field_of(type, item->field);
    if (item->field->type == FB_PROTO_DOUBLE && (item->value >> 52 & 0x7ff) == 0x7ff)
        return fail(w, place, begin, "NaN or infinity in a google.protobuf.Value");
    bool written = put_value(w, place->field, item, fields->count, place);
    while (fb_json_fields_next(fields) == FB_OK) continue; /* to count unknown fields */
    return written;
}

static bool put_any(writer *w, fb_json_fields *fields, const uint8_t *begin, const uint8_t *end,
                    fb_json_where *place) {
    fb_bytes url = {NULL, 0};
    fb_codec_item content = {.bytes = {end, 0}};
    while (fb_json_fields_next(fields) == FB_OK) {
        if (fields->item->field->number == 1) url = fields->item->bytes;
        else content = *fields->item;
    }
    if (!url.size && !content.bytes.size) return put_word(w, "{}");
    const fb_json_type *inner = fb_json_type_by_url(w->types, url);
    if (!inner)
        return fail_at(w, place, begin, url, "an Any of a type that the codec does not know");
    if (!put_word(w, "{\"@type\":") || !put_string(w, url, place) || !put_char(w, ','))
        return false;
    const fb_json_message message = {&content, 1};
    if (inner->form != FB_JSON_OBJECT)
        return put_word(w, "\"value\":") && put_message(w, inner, message, place) &&
               put_char(w, '}');
    /* the fields of the message are members of the same object */
    fb_json_fields members;
    const bool begun = begin_message(w, &members, inner, message, true, place);
    bool written = begun && put_members(w, inner, &members, place) && close_with(w, '}');
    end_message(w, &members, begun);
    return written;
}

static bool put_form(writer *w, const fb_json_type *type, fb_json_fields *fields,
                     fb_json_message message, fb_json_where *place) {
    const fb_bytes first = message.parts->bytes;
    switch (type->form) {
        case FB_JSON_WRAPPER: return put_wrapper(w, type, fields, fb_end_of(first), place);
        case FB_JSON_TIMESTAMP:
        case FB_JSON_DURATION: return put_time(w, type, fields, first.data, place);
        case FB_JSON_FIELD_MASK: return put_field_mask(w, fields, place);
        case FB_JSON_STRUCT: return put_struct(w, type, fields, place);
        case FB_JSON_VALUE: return put_json_value(w, type, fields, first.data, place);
        case FB_JSON_LIST_VALUE: return put_list_value(w, type, fields, place);
        case FB_JSON_ANY: return put_any(w, fields, first.data, fb_end_of(first), place);
        default:
            return put_char(w, '{') && put_members(w, type, fields, place) && close_with(w, '}');
    }
}

static bool put_message(writer *w, const fb_json_type *type, fb_json_message message,
                        const fb_json_where *place) {
    fb_json_where here = {.parent = place, .index = -1};
    fb_json_fields fields;
    const bool begun =
        begin_message(w, &fields, type, message, type->form == FB_JSON_OBJECT, place);
    bool written = begun && put_form(w, type, &fields, message, &here);
    end_message(w, &fields, begun);
    return written;
}

fb_status fb_json_write(const fb_json_types *types, const fb_json_type *type, fb_bytes message,
                        fb_json_options options, fb_buffer *output, uint64_t *unknown,
                        fb_json_fault *fault) {
    const fb_codec_item part = {.bytes = message};
    const fb_json_message whole = {&part, 1};
    const size_t before = fb_buffer_size(output);
    writer w = {.types = types, .options = options, .output = output, .fault = fault};
    w.input = message.data;
    bool written = put_message(&w, type, whole, NULL);
    if (!written && w.status != FB_NO_MEMORY) {
        /* Begin again in order, also after a fault: a later value may replace the one at fault. The
           first fault has the more precise place. */
        const bool faulty = w.status != FB_OK;
        fb_json_fault first;
        if (faulty) first = *fault;
        output->p = output->begin + before;
        w = (writer){.types = types, .options = options, .output = output, .fault = fault};
        w.input = message.data;
        w.ordering = true;
        written = put_message(&w, type, whole, NULL);
        if (faulty && w.status == FB_BAD_MESSAGE && fault->offset == first.offset) *fault = first;
    }
    *unknown += w.unknown;
    if (!written && w.status == FB_OK)
        fail(&w, NULL, message.data, "the message was changed during the call");
    return w.status;
}
