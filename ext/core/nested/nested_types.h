/* Columns of messages of any type: a tree of nodes, which the reader and the writer share.

   A node is a field of a message and its Arrow array:

     message            struct of the nodes of its fields
     repeated field     list of the node's values
     map                the same; a value is a struct of the key and the value of an entry
     Timestamp …        a number of units
     Int32Value …       the value, which may be null
     Struct, Value …    its JSON text

   Nodes are in one array, and refer to each other by their index in it. The first is the root,
   which has no field: a struct of the fields of the messages, one row per message. A field that
   no node has is known, but skipped.

   A type of messages that contains itself has no tree: a field has to be left out. At most
   FB_CODEC_DEPTH messages are inside each other. */
#ifndef FB_NESTED_NESTED_TYPES_H
#define FB_NESTED_NESTED_TYPES_H

#include "core/arrow/arrow_convert.h"
#include "core/codec/codec.h"
#include "core/json/json_types.h"
#include "core/nested/nested_names.h"

/* Kinds of values: constant, name. */
#define FB_NESTED_KIND_LIST(X) \
    X(STRUCT, "struct") \
    X(BOOL, "bool") \
    X(NUMBER, "number")       /* an integer or a float, of `width` bytes */ \
    X(NAME, "name")           /* an enum, exported as a dictionary of the names of its members */ \
    X(TIMESTAMP, "timestamp") /* google.protobuf.Timestamp, in units of `unit` nanoseconds */ \
    X(DURATION, "duration") \
    X(TEXT, "text") \
    X(BYTES, "bytes") \
    X(JSON, "json") /* google.protobuf.Struct, Value or ListValue */

typedef enum {
#define FB_X(constant, name) FB_NESTED_##constant,
    FB_NESTED_KIND_LIST(FB_X)
#undef FB_X
        FB_NESTED_KIND_COUNT
} fb_nested_kind;

enum { FB_NESTED_NO_NODE = -1 };

typedef struct {
    const fb_codec_field *field; /* NULL: the root */
    /* the scalar that the values are: the field itself, or the only field of a wrapper */
    const fb_codec_field *value;
    /* of a struct or a wrapper: all known fields. REQUIRES: that of a map is the first member of an
       fb_json_type. */
    const fb_codec_message *message;
    const int32_t *nodes;    /* the node of each of message->fields, or FB_NESTED_NO_NODE */
    const int32_t *children; /* the nodes of a struct in the order of the Arrow type */
    size_t child_count;
    size_t oneof_count;       /* of the message */
    fb_nested_names *names;   /* of the members of NAME; of equal numbers, the first */
    const fb_member *by_name; /* the same members, sorted by fb_bytes_compare */
    size_t member_count;
    const fb_json_type *json; /* of JSON: the type, and all types that it may contain */
    const fb_json_types *json_types;
    uint64_t unit; /* nanoseconds per unit of a time: 1 or 1,000 */
    uint8_t kind;  /* fb_nested_kind */
    uint8_t width; /* of NUMBER, NAME and times: 1, 2, 4 or 8 */
    bool nullable;
    bool repeated;
    bool map;
    /* a message in a oneof is around this node, whose values may be dropped */
    bool tracked;
} fb_nested_type;

/* Return the name of a kind. REQUIRES: kind < FB_NESTED_KIND_COUNT. */
const char *fb_nested_kind_name(int kind);

FB_INLINE bool fb_nested_is_time(const fb_nested_type *type) {
    return type->kind == FB_NESTED_TIMESTAMP || type->kind == FB_NESTED_DURATION;
}

/* True if the values have bytes of their own size. */
FB_INLINE bool fb_nested_is_text(const fb_nested_type *type) {
    return type->kind == FB_NESTED_TEXT || type->kind == FB_NESTED_BYTES ||
           type->kind == FB_NESTED_JSON;
}

#endif
