#include "core/json/json_read.h"

#include "core/json/json_reader.h"
#include "core/json/json_values.h"

static const char twice_problem[] = "a key that occurs twice";

static bool read_content(fb_json_reader *r, const fb_json_type *type, const fb_json_where *place);

/* Messages, lists and maps -------------------------------------------------------------------- */

/* Return true if null is a value of the field. In other fields it stands for an absent value. */
static bool takes_null(const fb_codec_field *field, const fb_json_field *of) {
    if (field->type == FB_PROTO_ENUM) return of->members->null;
    return fb_codec_is_message(field) && fb_json_type_of(field)->form == FB_JSON_VALUE;
}

static bool read_message(fb_json_reader *r, const fb_codec_field *field,
                         const fb_json_where *place) {
    size_t begin;
    return fb_json_begin_length(r, field, &begin) &&
           read_content(r, fb_json_type_of(field), place) &&
           fb_json_end_length(r, field, begin, place);
}

/* Read a value and write it with its tag. A zero or an empty value is written if `always`. */
static fb_json_result read_value(fb_json_reader *r, const fb_codec_field *field,
                                 const fb_json_field *of, bool always, const fb_json_where *place) {
    uint64_t value;
    if (fb_codec_is_message(field))
        return read_message(r, field, place) ? FB_JSON_READ : FB_JSON_FAILED;
    if (field->type == FB_PROTO_STRING)
        return fb_json_read_string(r, field, always, place) ? FB_JSON_READ : FB_JSON_FAILED;
    if (field->type == FB_PROTO_BYTES)
        return fb_json_read_bytes(r, field, always, place) ? FB_JSON_READ : FB_JSON_FAILED;
    fb_json_result how = fb_json_read_scalar(r, field, of, place, &value);
    if (how != FB_JSON_READ || (!value && !always)) return how;
    if (!fb_json_reserve(r, FB_CODEC_ROOM)) return FB_JSON_FAILED;
    r->output->p = fb_codec_put_value(fb_codec_put_tag(r->output->p, field), field, value);
    return FB_JSON_READ;
}

/* Read the elements of an array whose bracket was taken. */
static bool read_elements(fb_json_reader *r, const fb_codec_field *field, const fb_json_field *of,
                          fb_json_where *place) {
    bool more = true;
    uint64_t value;
    for (place->index = 0; more; place->index++) {
        if (fb_json_peek(&r->text) == 'n' && !takes_null(field, of))
            return fb_json_fail_here(r, place, "null is no element of a repeated field");
        if (field->packed) {
            fb_json_result how = fb_json_read_scalar(r, field, of, place, &value);
            if (how == FB_JSON_FAILED || !fb_json_reserve(r, FB_CODEC_ROOM)) return false;
            if (how == FB_JSON_READ) r->output->p = fb_codec_put_value(r->output->p, field, value);
        } else if (read_value(r, field, of, true, place) == FB_JSON_FAILED) {
            return false;
        }
        if (!fb_json_take_next(&r->text, ']', &more)) return fb_json_fail_text(r, place);
    }
    place->index = -1;
    return true;
}

static bool read_list(fb_json_reader *r, const fb_codec_field *field, const fb_json_field *of,
                      fb_json_where *place) {
    size_t begin = 0;
    const size_t before = fb_buffer_size(r->output);
    if (!fb_json_take(&r->text, '[')) return fb_json_fail_text(r, place);
    if (fb_json_peek(&r->text) == ']') return fb_json_take(&r->text, ']');
    if (!field->packed) return read_elements(r, field, of, place);
    if (!fb_json_begin_length(r, field, &begin) || !read_elements(r, field, of, place))
        return false;
    if (fb_buffer_size(r->output) > begin) return fb_json_end_length(r, field, begin, place);
    r->output->p = r->output->begin + before; /* only unknown members of an enum */
    return true;
}

/* Read the key of an entry and write it. */
static bool read_key(fb_json_reader *r, const fb_codec_field *field, fb_json_chunk *chunk,
                     const fb_json_where *place) {
    fb_bytes text;
    fb_json_peek(&r->text);
    const uint8_t *begin = r->text.p;
    if (!fb_json_take_string(&r->text, &text)) return fb_json_fail_text(r, place);
    if (field->type == FB_PROTO_STRING) {
        if (!fb_json_put_bytes(r, field, text, true)) return false;
        chunk->text_size = text.size;
        chunk->text = fb_buffer_size(r->output) - text.size;
        return true;
    }
    if (field->type == FB_PROTO_BOOL) {
        chunk->number = fb_json_is(text, "true");
        if (!chunk->number && !fb_json_is(text, "false"))
            return fb_json_fail_at(r, place, begin, "a key that is neither true nor false");
    } else if (!fb_json_number_of(r, field, text, begin, place, &chunk->number)) {
        return false;
    }
    if (!fb_json_reserve(r, FB_CODEC_ROOM)) return false;
    r->output->p = fb_codec_put_value(fb_codec_put_tag(r->output->p, field), field, chunk->number);
    return true;
}

/* Read a member of an object as an entry of a map. */
static bool read_entry(fb_json_reader *r, const fb_codec_field *field, const fb_json_type *type,
                       fb_json_where *place) {
    const fb_codec_field *key = type->core.fields, *value = key + 1;
    const fb_json_field *of = fb_json_field_of(type, value);
    fb_json_chunk chunk = {.field = field, .begin = fb_buffer_size(r->output)};
    size_t begin;
    fb_json_peek(&r->text);
    const uint8_t *from = r->text.p;
    chunk.place = (size_t)(from - r->text.begin);
    if (!fb_json_begin_length(r, field, &begin) || !read_key(r, key, &chunk, place)) return false;
    place->key = (fb_bytes){from, (size_t)(r->text.p - from)};
    if (!fb_json_take(&r->text, ':')) return fb_json_fail_text(r, place);
    if (fb_json_peek(&r->text) == 'n' && !takes_null(value, of))
        return fb_json_fail_here(r, place, "null is no value of a map");
    fb_json_result how = read_value(r, value, of, true, place);
    if (how == FB_JSON_FAILED) return false;
    if (how == FB_JSON_SKIPPED) {
        r->output->p = r->output->begin + chunk.begin;
        return true;
    }
    const size_t size = fb_buffer_size(r->output);
    if (!fb_json_end_length(r, field, begin, place)) return false;
    chunk.text += fb_buffer_size(r->output) - size; /* a long length moves the key */
    chunk.end = fb_buffer_size(r->output);
    return fb_json_chunks_push(&r->chunks, chunk) == FB_OK || fb_json_no_memory(r);
}

/* Bring the chunks of a message or a map into order. */
static bool order_chunks(fb_json_reader *r, size_t base, const fb_json_where *place) {
    const fb_json_chunk *twice;
    fb_bytes key;
    if (fb_json_chunks_order(&r->chunks, base, r->output, &twice) != FB_OK)
        return fb_json_no_memory(r);
    if (twice) {
        const uint8_t *begin = r->text.p = r->text.begin + twice->place;
        fb_json_take_string(&r->text, &key); /* to find its end */
        return fb_json_fail_at(r, place, begin, twice_problem);
    }
    return true;
}

static bool read_map(fb_json_reader *r, const fb_codec_field *field, fb_json_where *place) {
    const fb_json_type *type = fb_json_type_of(field);
    const size_t base = r->chunks.count;
    bool more = true;
    if (!fb_json_take(&r->text, '{')) return fb_json_fail_text(r, place);
    if (fb_json_peek(&r->text) == '}') return fb_json_take(&r->text, '}');
    if (r->depth++ > FB_CODEC_DEPTH) return fb_json_fail_here(r, place, fb_json_too_deep);
    while (more) {
        if (!read_entry(r, field, type, place)) return false;
        if (!fb_json_take_next(&r->text, '}', &more)) return fb_json_fail_text(r, place);
        place->key = (fb_bytes){NULL, 0};
    }
    r->depth--;
    if (!order_chunks(r, base, place)) return false;
    r->chunks.count = base;
    return true;
}

/* Objects ------------------------------------------------------------------------------------- */

/* Find the field of a key: most often, it is the one behind the last. */
static const fb_codec_field *find_field(const fb_json_type *type, const fb_codec_field *next,
                                        fb_bytes key) {
    const fb_codec_field *end = type->core.fields + type->core.count;
    if (next < end && fb_json_equal(fb_json_field_of(type, next)->json_name, key)) return next;
    const fb_json_name *name = fb_json_names_find(&type->names, key);
    return name ? type->core.fields + name->value : NULL;
}

/* Read the value of a field. *present becomes false if there is none. */
static bool read_field(fb_json_reader *r, const fb_codec_field *field, fb_json_where *place,
                       bool *present) {
    const fb_json_field *of = place->field;
    *present = false;
    if ((field->repeated || !takes_null(field, of)) && fb_json_take_word(&r->text, "null"))
        return true;
    *present = true;
    if (of->map) return read_map(r, field, place);
    if (field->repeated) return read_list(r, field, of, place);
    fb_json_result how = read_value(r, field, of, field->presence, place);
    *present = how == FB_JSON_READ;
    return how != FB_JSON_FAILED;
}

/* Fail if two members of one oneof are there, or a required field is not. */
static bool check_fields(fb_json_reader *r, const fb_json_type *type, size_t base,
                         const fb_json_where *place) {
    const size_t count = r->chunks.count - base;
    const fb_json_chunk *all = count ? r->chunks.all + base : NULL;
    size_t required = 0;
    for (size_t i = 0; i < count; i++) {
        const fb_codec_field *field = all[i].field;
        if (!all[i].present) continue;
        required += field->required;
        for (size_t k = 0; field->oneof && k < i; k++)
            if (all[k].field->oneof == field->oneof && all[k].present)
                return fb_json_fail_here(r, place, "two members of one oneof");
    }
    return required == type->required || fb_json_fail_here(r, place, "a required field is missing");
}

static bool fail_unknown(fb_json_reader *r, const fb_json_type *type, const uint8_t *begin,
                         const fb_json_where *place) {
    fb_json_fail_at(r, place, begin, "an unknown field");
    if (r->status == FB_BAD_MESSAGE) r->fault->of = type;
    return false;
}

/* The members of an object so far. */
typedef struct {
    const fb_codec_field *next; /* the field behind the last one */
    bool in_any;                /* the object is an Any, and may have @type */
    bool has_type;
} members;

static bool read_member(fb_json_reader *r, const fb_json_type *type, members *m,
                        fb_json_where *place) {
    fb_bytes key;
    fb_json_peek(&r->text);
    const uint8_t *begin = r->text.p;
    if (!fb_json_take_string(&r->text, &key)) return fb_json_fail_text(r, place);
    const bool skipped = m->in_any && fb_json_is(key, "@type");
    const fb_codec_field *field = skipped ? NULL : find_field(type, m->next, key);
    if (skipped && m->has_type) return fb_json_fail_at(r, place, begin, twice_problem);
    m->has_type |= skipped;
    if (!field) {
        if (!skipped && !r->ignore_unknown) return fail_unknown(r, type, begin, place);
        return (fb_json_take(&r->text, ':') && fb_json_skip(&r->text)) ||
               fb_json_fail_text(r, place);
    }
    fb_json_chunk chunk = {.field = field, .begin = fb_buffer_size(r->output)};
    chunk.place = (size_t)(begin - r->text.begin);
    place->field = fb_json_field_of(type, field);
    if (!fb_json_take(&r->text, ':')) return fb_json_fail_text(r, place);
    if (!read_field(r, field, place, &chunk.present)) return false;
    place->field = NULL;
    m->next = field + 1;
    chunk.end = fb_buffer_size(r->output);
    return fb_json_chunks_push(&r->chunks, chunk) == FB_OK || fb_json_no_memory(r);
}

/* Read the members of an object whose bracket was taken. */
static bool read_members(fb_json_reader *r, const fb_json_type *type, bool in_any,
                         fb_json_where *place) {
    const size_t base = r->chunks.count;
    members m = {.next = type->core.fields, .in_any = in_any};
    bool more = fb_json_peek(&r->text) != '}';
    if (!more) fb_json_take(&r->text, '}');
    while (more) {
        if (!read_member(r, type, &m, place)) return false;
        if (!fb_json_take_next(&r->text, '}', &more)) return fb_json_fail_text(r, place);
    }
    if (!order_chunks(r, base, place) || !check_fields(r, type, base, place)) return false;
    r->chunks.count = base;
    return true;
}

/* Types with a form of their own -------------------------------------------------------------- */

static bool take_string(fb_json_reader *r, const fb_json_where *place, fb_bytes *text,
                        const uint8_t **begin) {
    fb_json_peek(&r->text);
    *begin = r->text.p;
    return fb_json_take_string(&r->text, text) || fb_json_fail_text(r, place);
}

static bool read_time(fb_json_reader *r, const fb_json_type *type, const fb_json_where *place) {
    const bool duration = type->form == FB_JSON_DURATION;
    const uint8_t *begin;
    fb_bytes text;
    fb_json_time time;
    if (!take_string(r, place, &text, &begin)) return false;
    if (!fb_json_read_time(text, duration, &time))
        return fb_json_fail_at(r, place, begin,
                               duration
                                   ? "a string that is not a duration, such as 1.5s"
                                   : "a string that is not a time, such as 2026-01-31T12:00:00Z");
    if (!fb_json_reserve(r, 2 * FB_CODEC_ROOM)) return false;
    const fb_codec_field *fields = type->core.fields;
    uint8_t *p = fb_codec_put_scalar(r->output->p, fields, (uint64_t)time.seconds);
    r->output->p = fb_codec_put_scalar(p, fields + 1, (uint64_t)(int64_t)time.nanoseconds);
    return true;
}

static bool read_field_mask(fb_json_reader *r, const fb_json_type *type,
                            const fb_json_where *place) {
    const uint8_t *begin;
    fb_bytes text;
    if (!take_string(r, place, &text, &begin)) return false;
    bool more = text.size > 0;
    while (more) {
        size_t size = 0, content;
        while (size < text.size && text.data[size] != ',') size++;
        if (!fb_json_begin_length(r, type->core.fields, &content) || !fb_json_reserve(r, 2 * size))
            return false;
        uint8_t *end = fb_json_read_path(r->output->p, (fb_bytes){text.data, size});
        if (!end) return fb_json_fail_at(r, place, begin, "a path that is not in lowerCamelCase");
        r->output->p = end;
        if (!fb_json_end_length(r, type->core.fields, content, place)) return false;
        more = size < text.size;
        size += more; /* the comma */
        text = (fb_bytes){text.data + size, text.size - size};
    }
    return true;
}

/* Indexes of the fields of google.protobuf.Value. */
enum { VALUE_NULL, VALUE_NUMBER, VALUE_STRING, VALUE_BOOL, VALUE_STRUCT, VALUE_LIST };

static bool read_json_value(fb_json_reader *r, const fb_json_type *type, fb_json_where *place) {
    size_t i;
    switch (fb_json_peek(&r->text)) {
        case 'n': i = VALUE_NULL; break;
        case '"': i = VALUE_STRING; break;
        case 't':
        case 'f': i = VALUE_BOOL; break;
        case '{': i = VALUE_STRUCT; break;
        case '[': i = VALUE_LIST; break;
        default: i = VALUE_NUMBER;
    }
    const fb_codec_field *field = type->core.fields + i;
    place->field = fb_json_field_of(type, field);
    return read_value(r, field, place->field, true, place) == FB_JSON_READ;
}

/* Find the type of an Any: its member @type, which may be anywhere in the object. Writes the URL.
   The text does not move. */
static bool find_type(fb_json_reader *r, const fb_json_type *type, const fb_json_where *place,
                      const fb_json_type **inner) {
    const uint8_t *members = r->text.p, *begin;
    bool more = true;
    fb_bytes text;
    while (more) {
        if (!take_string(r, place, &text, &begin)) return false;
        if (!fb_json_take(&r->text, ':')) return fb_json_fail_text(r, place);
        if (fb_json_is(text, "@type")) break;
        if (!fb_json_skip(&r->text) || !fb_json_take_next(&r->text, '}', &more))
            return fb_json_fail_text(r, place);
    }
    if (!more) return fb_json_fail_here(r, place, "an Any without @type");
    if (!take_string(r, place, &text, &begin)) return false;
    *inner = fb_json_type_by_url(r->types, text);
    if (!*inner)
        return fb_json_fail_at(r, place, begin, "an Any of a type that the codec does not know");
    r->text.p = members;
    return fb_json_put_bytes(r, type->core.fields, text, true);
}

/* Read the members @type and value of an Any whose type has a form of its own. */
static bool read_any_value(fb_json_reader *r, const fb_json_type *inner,
                           const fb_json_where *place) {
    bool more = true, found = false, typed = false;
    const uint8_t *begin;
    fb_bytes key;
    while (more) {
        if (!take_string(r, place, &key, &begin)) return false;
        const bool is_value = fb_json_is(key, "value"), is_type = fb_json_is(key, "@type");
        if ((is_value && found) || (is_type && typed))
            return fb_json_fail_at(r, place, begin, twice_problem);
        if (!is_value && !is_type && !r->ignore_unknown)
            return fb_json_fail_at(r, place, begin, "an unknown field");
        if (!fb_json_take(&r->text, ':')) return fb_json_fail_text(r, place);
        found |= is_value;
        typed |= is_type;
        if (is_value ? !read_content(r, inner, place) : !fb_json_skip(&r->text))
            return fb_json_fail_text(r, place);
        if (!fb_json_take_next(&r->text, '}', &more)) return fb_json_fail_text(r, place);
    }
    return found || fb_json_fail_here(r, place, "an Any of this type needs the member value");
}

static bool read_any(fb_json_reader *r, const fb_json_type *type, fb_json_where *place) {
    const fb_codec_field *value = type->core.fields + 1;
    const fb_json_type *inner = NULL;
    size_t begin;
    if (!fb_json_take(&r->text, '{')) return fb_json_fail_text(r, place);
    if (fb_json_peek(&r->text) == '}') return fb_json_take(&r->text, '}');
    if (!find_type(r, type, place, &inner)) return false;
    const size_t before = fb_buffer_size(r->output);
    if (!fb_json_begin_length(r, value, &begin)) return false;
    if (inner->form != FB_JSON_OBJECT) {
        if (!read_any_value(r, inner, place)) return false;
    } else {
        if (r->depth++ > FB_CODEC_DEPTH) return fb_json_fail_here(r, place, fb_json_too_deep);
        if (!read_members(r, inner, true, place)) return false;
        r->depth--;
    }
    if (fb_buffer_size(r->output) > begin) return fb_json_end_length(r, value, begin, place);
    r->output->p = r->output->begin + before;
    return true;
}

static bool read_form(fb_json_reader *r, const fb_json_type *type, fb_json_where *place) {
    const fb_codec_field *first = type->core.fields;
    switch (type->form) {
        case FB_JSON_WRAPPER:
            return read_value(r, first, type->fields, first->presence, place) == FB_JSON_READ;
        case FB_JSON_TIMESTAMP:
        case FB_JSON_DURATION: return read_time(r, type, place);
        case FB_JSON_FIELD_MASK: return read_field_mask(r, type, place);
        case FB_JSON_STRUCT: place->field = type->fields; return read_map(r, first, place);
        case FB_JSON_VALUE: return read_json_value(r, type, place);
        case FB_JSON_LIST_VALUE:
            place->field = type->fields;
            return read_list(r, first, type->fields, place);
        case FB_JSON_ANY: return read_any(r, type, place);
        default:
            if (!fb_json_take(&r->text, '{')) return fb_json_fail_text(r, place);
            return read_members(r, type, false, place);
    }
}

/* Read a value as the content of a message, without tag and length. */
static bool read_content(fb_json_reader *r, const fb_json_type *type, const fb_json_where *place) {
    fb_json_where here = {.parent = place, .index = -1};
    if (r->depth > FB_CODEC_DEPTH) return fb_json_fail_here(r, place, fb_json_too_deep);
    r->depth++;
    if (!read_form(r, type, &here)) return false;
    r->depth--;
    return true;
}

fb_status fb_json_read(const fb_json_types *types, const fb_json_type *type, fb_bytes text,
                       bool ignore_unknown, fb_buffer *output, fb_json_fault *fault) {
    fb_json_reader r = {.types = types, .output = output, .fault = fault, .status = FB_OK};
    r.ignore_unknown = ignore_unknown;
    r.text.begin = r.text.p = text.data;
    r.text.end = fb_end_of(text);
    bool read = read_content(&r, type, NULL);
    fb_json_peek(&r.text);
    if (read && r.text.p != r.text.end) fb_json_fail_here(&r, NULL, "more text behind the value");
    if (!read)
        fb_json_fail_here(&r, NULL, "a value that cannot be read"); /* if nothing else is known */
    fb_json_chunks_free(&r.chunks);
    fb_json_text_free(&r.text);
    return r.status;
}
