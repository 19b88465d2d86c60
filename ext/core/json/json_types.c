#include "core/json/json_types.h"

#include "core/base/address_format.h"

/* Names --------------------------------------------------------------------------------------- */

static size_t first_slot(const fb_json_names *names, fb_bytes text) {
    uint64_t hash = text.size;
    size_t i = 0;
    for (; i + 8 <= text.size; i += 8) hash = fb_hash(hash, fb_load_little64(text.data + i));
    for (; i < text.size; i++) hash = fb_hash(hash, text.data[i]);
    return (size_t)hash & (names->slot_count - 1);
}

void fb_json_names_finish(fb_json_names *names) {
    assert(names->slot_count > names->count);
    for (size_t i = 0; i < names->slot_count; i++) names->slots[i] = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (fb_json_names_find(names, names->names[i].text)) continue;
        size_t slot = first_slot(names, names->names[i].text);
        while (names->slots[slot]) slot = (slot + 1) & (names->slot_count - 1);
        names->slots[slot] = (uint32_t)(i + 1);
    }
}

const fb_json_name *fb_json_names_find(const fb_json_names *names, fb_bytes text) {
    size_t slot = first_slot(names, text);
    while (names->slots[slot]) {
        const fb_json_name *name = names->names + names->slots[slot] - 1;
        if (fb_json_equal(name->text, text)) return name;
        slot = (slot + 1) & (names->slot_count - 1);
    }
    return NULL;
}

fb_bytes fb_json_member_name(const fb_json_enum *of, int32_t number) {
    size_t low = 0, high = of->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (of->members[middle].number < number) low = middle + 1;
        else high = middle;
    }
    if (low < of->count && of->members[low].number == number) return of->members[low].name;
    return (fb_bytes){NULL, 0};
}

static const char *const form_names[] = {
#define FB_X(constant, name) name,
    FB_JSON_FORM_LIST(FB_X)
#undef FB_X
};

const char *fb_json_form_name(int form) {
    return form_names[form];
}

const char fb_json_too_deep[] = "more than 100 messages inside each other";

/* Types --------------------------------------------------------------------------------------- */

const fb_json_type *fb_json_type_by_url(const fb_json_types *types, fb_bytes url) {
    size_t begin = url.size;
    while (begin && url.data[begin - 1] != '/') begin--;
    if (!begin) return NULL;
    const fb_json_name *name =
        fb_json_names_find(&types->names, (fb_bytes){url.data + begin, url.size - begin});
    return name ? types->types + name->value : NULL;
}

/* The field with number i + 1 is of this type. */
static bool has_field(const fb_json_type *type, size_t i, fb_proto_type of, bool repeated) {
    if (i >= type->core.count) return false;
    const fb_codec_field *field = type->core.fields + i;
    return field->number == i + 1 && field->type == of && field->repeated == repeated;
}

static bool has_entries(const fb_json_type *type) {
    if (!has_field(type, 0, FB_PROTO_MESSAGE, true)) return false;
    const fb_json_type *entry = fb_json_type_of(type->core.fields);
    return fb_json_field_of(type, type->core.fields)->map &&
           has_field(entry, 0, FB_PROTO_STRING, false) &&
           has_field(entry, 1, FB_PROTO_MESSAGE, false) &&
           fb_json_type_of(entry->core.fields + 1)->form == FB_JSON_VALUE;
}

static bool is_sound_value(const fb_json_type *type) {
    return has_field(type, 0, FB_PROTO_ENUM, false) && has_field(type, 1, FB_PROTO_DOUBLE, false) &&
           has_field(type, 2, FB_PROTO_STRING, false) && has_field(type, 3, FB_PROTO_BOOL, false) &&
           has_field(type, 4, FB_PROTO_MESSAGE, false) &&
           has_field(type, 5, FB_PROTO_MESSAGE, false) &&
           fb_json_type_of(type->core.fields + 4)->form == FB_JSON_STRUCT &&
           fb_json_type_of(type->core.fields + 5)->form == FB_JSON_LIST_VALUE;
}

bool fb_json_type_is_sound(const fb_json_type *type) {
    for (size_t i = 0; i < type->core.count; i++) {
        const fb_codec_field *field = type->core.fields + i;
        const fb_json_field *of = fb_json_field_of(type, field);
        if (fb_codec_is_message(field) != !!field->message ||
            (field->type == FB_PROTO_ENUM) != !!of->members)
            return false;
        if (of->map && (!field->repeated || field->message->count != 2)) return false;
    }
    switch (type->form) {
        case FB_JSON_WRAPPER:
            return type->core.count == 1 && type->core.fields->number == 1 &&
                   !type->core.fields->repeated && type->core.fields->type <= FB_PROTO_BYTES &&
                   type->core.fields->type != FB_PROTO_ENUM;
        case FB_JSON_TIMESTAMP:
        case FB_JSON_DURATION:
            return type->core.count == 2 && has_field(type, 0, FB_PROTO_INT64, false) &&
                   has_field(type, 1, FB_PROTO_INT32, false);
        case FB_JSON_FIELD_MASK:
            return type->core.count == 1 && has_field(type, 0, FB_PROTO_STRING, true);
        case FB_JSON_STRUCT: return type->core.count == 1 && has_entries(type);
        case FB_JSON_VALUE: return type->core.count == 6 && is_sound_value(type);
        case FB_JSON_LIST_VALUE:
            return type->core.count == 1 && has_field(type, 0, FB_PROTO_MESSAGE, true) &&
                   fb_json_type_of(type->core.fields)->form == FB_JSON_VALUE;
        case FB_JSON_ANY:
            return type->core.count == 2 && has_field(type, 0, FB_PROTO_STRING, false) &&
                   has_field(type, 1, FB_PROTO_BYTES, false);
        default: return true;
    }
}

/* Errors -------------------------------------------------------------------------------------- */

typedef struct {
    char *p, *end;
} path_text;

static void put(path_text *text, const void *data, size_t size) {
    const size_t room = (size_t)(text->end - text->p);
    if (size > room) size = room;
    if (size) memcpy(text->p, data, size);
    text->p += size;
}

static void put_place(path_text *text, const fb_json_where *place, const char *begin) {
    char number[FB_FORMAT_NUMBER_MAX];
    if (!place) return;
    put_place(text, place->parent, begin);
    if (!place->field) return;
    if (text->p > begin) put(text, ".", 1);
    put(text, place->field->name.data, place->field->name.size);
    if (place->key.data) {
        put(text, "[", 1);
        put(text, "\"", place->quoted);
        put(text, place->key.data, place->key.size);
        put(text, "\"", place->quoted);
        put(text, "]", 1);
    } else if (place->index >= 0) {
        put(text, "[", 1);
        put(text, number, (size_t)(fb_format_number(number, (uint64_t)place->index) - number));
        put(text, "]", 1);
    }
}

void fb_json_set_token(fb_json_fault *fault, fb_bytes text) {
    fault->token_size = text.size < FB_JSON_TOKEN_MAX ? text.size : FB_JSON_TOKEN_MAX;
    if (fault->token_size) memcpy(fault->token, text.data, fault->token_size);
}

void fb_json_path(const fb_json_where *place, char *path) {
    path_text text = {path, path + FB_JSON_PATH_MAX};
    put_place(&text, place, path);
    *text.p = 0;
}
