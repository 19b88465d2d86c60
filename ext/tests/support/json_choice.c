#include "tests/support/json_choice.h"

#include <stdio.h>

static fb_bytes bytes_of(const char *text) {
    return (fb_bytes){(const uint8_t *)text, strlen(text)};
}

static void set_limits(fb_codec_field *field) {
    field->least = 0;
    field->most = 0;
    switch (field->type) {
        case FB_PROTO_INT32:
        case FB_PROTO_SINT32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_ENUM:
            field->least = INT32_MIN;
            field->most = INT32_MAX;
            break;
        case FB_PROTO_INT64:
        case FB_PROTO_SINT64:
        case FB_PROTO_SFIXED64:
            field->least = INT64_MIN;
            field->most = INT64_MAX;
            break;
        case FB_PROTO_UINT32:
        case FB_PROTO_FIXED32: field->most = UINT32_MAX; break;
        case FB_PROTO_UINT64:
        case FB_PROTO_FIXED64: field->most = UINT64_MAX; break;
        default: break;
    }
}

static bool is_entry(const fb_codec_message *message) {
    const fb_codec_field *fields = message->fields;
    return message->count == 2 && fields[0].number == 1 && fields[1].number == 2 &&
           !fields[0].repeated && !fields[1].repeated && fields[0].type <= FB_PROTO_STRING &&
           fields[0].type != FB_PROTO_ENUM && fields[0].type != FB_PROTO_FLOAT &&
           fields[0].type != FB_PROTO_DOUBLE;
}

static void name_field(json_choice *c, size_t which, size_t i) {
    fb_json_type *type = c->types + which;
    fb_codec_field *field = type->core.fields + i;
    fb_json_field *of = c->fields[which] + i;
    char (*texts)[JSON_NAME_MAX] = c->texts[which][i];
    snprintf(texts[0], JSON_NAME_MAX, "f_%u", (unsigned)field->number);
    snprintf(texts[1], JSON_NAME_MAX, "f%u", (unsigned)field->number);
    snprintf(texts[2], JSON_NAME_MAX, "\"f_%u\":", (unsigned)field->number);
    snprintf(texts[3], JSON_NAME_MAX, "\"f%u\":", (unsigned)field->number);
    field->slot = (uint16_t)i;
    set_limits(field);
    *of = (fb_json_field){.name = bytes_of(texts[0]),
                          .json_name = bytes_of(texts[1]),
                          .key = bytes_of(texts[2]),
                          .json_key = bytes_of(texts[3])};
    if (field->type == FB_PROTO_ENUM) of->members = &c->members;
    if (field->message) {
        const size_t inner = (size_t)(field->message - c->codec.types);
        field->message = &c->types[inner].core;
        of->map =
            field->repeated && field->type == FB_PROTO_MESSAGE && is_entry(&c->codec.types[inner]);
    }
    c->names[which][2 * i] = (fb_json_name){bytes_of(texts[1]), (uint32_t)i};
    c->names[which][2 * i + 1] = (fb_json_name){bytes_of(texts[0]), (uint32_t)i};
}

size_t json_choice_make(json_choice *c, const uint8_t *data, size_t size) {
    static const fb_json_member members[JSON_MEMBERS] = {{-1, {(const uint8_t *)"MINUS", 5}},
                                                         {0, {(const uint8_t *)"ZERO", 4}},
                                                         {1, {(const uint8_t *)"ONE", 3}},
                                                         {300, {(const uint8_t *)"MANY", 4}}};
    static fb_json_name member_names[JSON_MEMBERS];
    static const fb_json_name type_names[] = {{{(const uint8_t *)"A", 1}, 0},
                                              {{(const uint8_t *)"B", 1}, 1}};
    const size_t taken = codec_choice_make(&c->codec, data, size);
    for (size_t i = 0; i < JSON_MEMBERS; i++)
        member_names[i] = (fb_json_name){members[i].name, (uint32_t)members[i].number};
    c->members = (fb_json_enum){
        members, JSON_MEMBERS, {member_names, JSON_MEMBERS, c->member_slots, 8}, false};
    fb_json_names_finish(&c->members.names);
    for (size_t i = 0; i < CODEC_TYPES; i++) {
        c->types[i] = (fb_json_type){.core = c->codec.types[i], .name = type_names[i].text};
        c->types[i].fields = c->fields[i];
    }
    for (size_t i = 0; i < CODEC_TYPES; i++) {
        const size_t count = c->types[i].core.count;
        for (size_t k = 0; k < count; k++) name_field(c, i, k);
        c->types[i].names = (fb_json_names){c->names[i], 2 * count, c->slots[i], 64};
        fb_json_names_finish(&c->types[i].names);
    }
    c->all = (fb_json_types){c->types, {type_names, 2, c->type_slots, 4}};
    fb_json_names_finish(&c->all.names);
    return taken;
}
