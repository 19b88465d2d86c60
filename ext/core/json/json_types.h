/* Message types for the conversion between Protocol Buffers messages and JSON: the names of fields
   and enum members, and the types that have a JSON form of their own.

   The types of fields are those of the codec (core/codec/codec.h), which also reads messages. */
#ifndef FB_JSON_JSON_TYPES_H
#define FB_JSON_JSON_TYPES_H

#include "core/codec/codec.h"

/* Names, and what each of them stands for. */
typedef struct {
    fb_bytes text;
    uint32_t value;
} fb_json_name;

typedef struct {
    const fb_json_name *names;
    size_t count;
    uint32_t *slots;   /* a hash table of indexes in `names` plus 1; 0: empty */
    size_t slot_count; /* a power of two above `count` */
} fb_json_names;

/* Fill the hash table. Of equal names, the first counts. REQUIRES: slot_count > count. */
void fb_json_names_finish(fb_json_names *names);
/* Return the name with this text, or NULL. */
const fb_json_name *fb_json_names_find(const fb_json_names *names, fb_bytes text);

/* A member of an enum. Of several members with one number, this is the first. */
typedef struct {
    int32_t number;
    fb_bytes name;
} fb_json_member;

typedef struct {
    const fb_json_member *members; /* sorted by number */
    size_t count;
    fb_json_names names; /* of all members; a value is a number, cast to unsigned */
    bool null;           /* google.protobuf.NullValue, which is null in JSON */
} fb_json_enum;

/* Return the name of a number; without data: no member has it. */
fb_bytes fb_json_member_name(const fb_json_enum *of, int32_t number);

/* JSON forms of message types: constant, name. All but the first are those of google.protobuf with
   these names; WRAPPER is that of DoubleValue, BoolValue and so on. */
#define FB_JSON_FORM_LIST(X) \
    X(OBJECT, "object") \
    X(WRAPPER, "wrapper") \
    X(TIMESTAMP, "Timestamp") \
    X(DURATION, "Duration") \
    X(FIELD_MASK, "FieldMask") \
    X(STRUCT, "Struct") \
    X(VALUE, "Value") \
    X(LIST_VALUE, "ListValue") \
    X(ANY, "Any")

typedef enum {
#define FB_X(constant, name) FB_JSON_##constant,
    FB_JSON_FORM_LIST(FB_X)
#undef FB_X
        FB_JSON_FORM_COUNT
} fb_json_form;

/* REQUIRES: form < FB_JSON_FORM_COUNT. */
const char *fb_json_form_name(int form);

typedef struct {
    fb_bytes name;      /* in the definition; [its full name] of an extension */
    fb_bytes json_name; /* in lowerCamelCase, or as the definition says */
    /* names as keys of a JSON object: in quotes, escaped, with the colon */
    fb_bytes key;                /* the name */
    fb_bytes json_key;           /* the JSON name */
    const fb_json_enum *members; /* of an enum */
    bool map, extension;
} fb_json_field;

typedef struct {
    fb_codec_message core; /* must be first: the message of a field is cast to its type */
    fb_bytes name;         /* the full name, such as google.protobuf.Timestamp */
    fb_json_field *fields; /* by slot */
    fb_json_names names;   /* both names of each field; a value is an index in core.fields */
    size_t required;       /* fields that are required */
    size_t oneofs;
    uint8_t form; /* fb_json_form */
} fb_json_type;

/* All types that messages may contain. Those in an Any are found by their full names. */
typedef struct {
    const fb_json_type *types;
    fb_json_names names; /* a value is an index in `types` */
} fb_json_types;

/* Return the type that an Any contains, or NULL: the one named behind the last slash of its URL. */
const fb_json_type *fb_json_type_by_url(const fb_json_types *types, fb_bytes url);

/* Check that a type has the fields of its form, as in google.protobuf. */
bool fb_json_type_is_sound(const fb_json_type *type);

FB_INLINE const fb_json_type *fb_json_type_of(const fb_codec_field *field) {
    return (const fb_json_type *)field->message;
}

FB_INLINE const fb_json_field *fb_json_field_of(const fb_json_type *type,
                                                const fb_codec_field *field) {
    return type->fields + field->slot;
}

FB_INLINE bool fb_json_equal(fb_bytes one, fb_bytes other) {
    return one.size == other.size && (!one.size || !memcmp(one.data, other.data, one.size));
}

/* Errors -------------------------------------------------------------------------------------- */

/* A place in a message. Each level points to the level around it. */
typedef struct fb_json_where {
    const struct fb_json_where *parent;
    const fb_json_field *field; /* NULL: before the first field */
    ptrdiff_t index;            /* of an element; -1: not repeated */
    fb_bytes key;               /* of an entry of a map; without data: none */
    bool quoted;                /* the key is shown in quotes */
} fb_json_where;

/* The problem of a message that is nested in FB_CODEC_DEPTH others. */
extern const char fb_json_too_deep[];

enum { FB_JSON_PATH_MAX = 240, FB_JSON_TOKEN_MAX = 60 };

typedef struct {
    const char *problem;    /* static text */
    int type;               /* fb_proto_type of the field that a number does not fit; -1: none */
    const fb_json_type *of; /* the type that does not have the field; NULL: another problem */
    size_t offset;          /* position in the input */
    uint8_t token[FB_JSON_TOKEN_MAX]; /* the start of the text concerned */
    size_t token_size;
    char path[FB_JSON_PATH_MAX + 1]; /* for example events[3].time; cut if it is longer */
} fb_json_fault;

/* Copy a text into a fault, cut if it is longer. */
void fb_json_set_token(fb_json_fault *fault, fb_bytes text);
/* Write a place as text into `path`. */
void fb_json_path(const fb_json_where *place, char *path);

#endif
