/* Conversion between messages of any type and Python objects. The structures add names and Python
   values to the fields of the core's codec (core/codec/codec.h), which alone parses and writes the
   wire format.

   Ownership: the ObjectTypes, ObjectOutput or ObjectCodec (codec.pyx) that contains a structure
   owns all references in it, unless a comment says otherwise. */
#ifndef FB_OBJECTS_OBJECTS_H
#define FB_OBJECTS_OBJECTS_H

#include <Python.h>

#include "core/base/buffer.h"
#include "core/codec/codec_write.h"

typedef enum {
    FB_VALUE_SCALAR,
    FB_VALUE_OBJECT,
    FB_VALUE_MAP,
    FB_VALUE_TIMESTAMP,
    FB_VALUE_DURATION
} fb_value_role;

/* Message types of google.protobuf that are plain Python values. The fields of these messages have
   no place in the path of an error. */
typedef enum {
    FB_PLAIN_NONE,  /* any other type: its fields are keys or attributes of an object */
    FB_PLAIN_FIELD, /* the value of the only field: wrappers, Struct, ListValue */
    FB_PLAIN_VALUE, /* Value: its fields are FB_OF_NULL and so on */
    FB_PLAIN_ANY,   /* Any: a dict with the type under the key "@type" */
    FB_PLAIN_TIMESTAMP,
    FB_PLAIN_DURATION
} fb_plain;

/* The slots of google.protobuf.Value and Any. */
enum { FB_OF_NULL, FB_OF_NUMBER, FB_OF_STRING, FB_OF_BOOL, FB_OF_STRUCT, FB_OF_LIST };
enum { FB_OF_URL, FB_OF_MESSAGE };

typedef struct fb_object_type fb_object_type;

typedef struct {
    PyObject *name;    /* interned */
    PyObject *alias;   /* owned: the last key that was equal to the name; NULL: none */
    PyObject *numbers; /* for an enum: dict from names to numbers of its members; otherwise NULL */
    fb_object_type *type; /* of an object; for a map, the type of its entries */
    uint8_t role;         /* fb_value_role */
    bool hidden;          /* of a plain type */
} fb_object_field;

/* The last class whose instances were written, and the offsets of their attributes. */
typedef struct {
    PyTypeObject *type; /* borrowed; may be freed, so compare the version too */
    /* version of the class when it was examined. A changed class, and another class at the same
       address, have another version. */
    unsigned version;
    /* by slot: offset of a reference in the instance; 0: get the attribute by name */
    Py_ssize_t *offsets;
    bool stored; /* all attributes have an offset */
} fb_object_class;

struct fb_object_type {
    fb_codec_message core;
    fb_object_field *fields; /* by slot */
    uint8_t *quick;          /* in the order of core.fields: fb_quick_kind */
    size_t quick_count;      /* fields at the start that the fast path writes together */
    size_t declared;         /* fields of the message itself; those after them are extensions */
    PyObject *slots;         /* dict from names to slots */
    fb_object_class seen;
    PyObject *blank; /* dict from names to None */
    /* by slot: number of a message field that is not repeated, from 1; 0: any other field */
    uint16_t *pending;
    uint8_t plain;        /* fb_plain */
    size_t pending_count; /* such fields; they are read after the end of the message (read.c) */
};

/* The kind of Python object that a message is read into. */
typedef enum {
    FB_OUTPUT_DICT,
    FB_OUTPUT_TUPLE,
    FB_OUTPUT_CLASS,
    FB_OUTPUT_PLAIN
} fb_codec_output_kind;

typedef struct fb_codec_output {
    const fb_object_type *type;
    fb_codec_output_kind kind;
    /* For a class: called with the values, as keyword arguments if `keywords` is not NULL.
       For a Value: what null becomes. For an Any: dict from the names of types to indexes. */
    PyObject *make;
    PyObject *keywords;
    const struct fb_codec_output *all; /* the array that the indexes of an Any refer to */
    struct fb_codec_output **fields; /* by slot: outputs of nested objects and of values of maps */
    /* by slot: value for an absent field; NULL: a new list, or a new dict for a map. In an entry of
       a map, an absent message has an object of its own, which no class returns. */
    PyObject **absent;
    /* by slot: for an enum that is not read as numbers, dict from numbers to members */
    PyObject **members;
    const uint8_t *wanted; /* by slot: false for fields that the class does not take; NULL: all */
} fb_codec_output;

typedef struct {
    bool ignore_unknown; /* when writing: ignore keys that are not fields */
    /* when reading into a dict: keep fields that are not in the schema; they are written again */
    bool keep_unknown;
    bool omit_absent;      /* when reading into a dict: leave out fields whose value is None */
    bool times_as_numbers; /* true: nanoseconds; false: datetime and timedelta */
    /* converts another type of time when writing; returns (seconds, nanoseconds) */
    PyObject *to_time;
    /* called with (is_duration, seconds, nanoseconds); NULL: times_as_numbers decides */
    PyObject *from_time;
    PyObject *unknown_key; /* key of the bytes of unknown fields in a dict */
    /* called with an unknown key and the known ones; returns text to append to the error */
    PyObject *suggest;
    /* called with (problem, path[, offset]); returns the exception */
    PyObject *encode_error, *decode_error;
    PyObject *null;        /* the null of a Value, also where None means an absent field */
    PyObject *known_types; /* types that an Any may have: dict from names to indexes */
} fb_codec_options;

/* Append an object as a message to the buffer. `type` is the first of all types of the codec.
   `index`: its position among several objects, for errors; -1: a single object. Returns 0, or -1
   with an exception set. */
int fb_object_write(fb_buffer *buffer, fb_object_type *type, const fb_codec_options *options,
                    PyObject *object, Py_ssize_t index);
/* Read an object from `message`. `before`: position of the message in its stream, in bytes, for
   errors. Returns a new reference, or NULL with an exception set. */
PyObject *fb_object_read(const fb_codec_output *output, const fb_codec_options *options,
                         fb_bytes message, size_t before, Py_ssize_t index);

/* True for types whose messages are no objects with fields. */
FB_INLINE bool fb_object_is_plain(const fb_object_type *type) {
    return FB_UNLIKELY(type->plain != FB_PLAIN_NONE) && type->plain < FB_PLAIN_TIMESTAMP;
}

/* Free the offsets of a class. */
void fb_object_class_forget(fb_object_class *seen);

/* Return true if a class is the last one, unchanged. */
FB_INLINE bool fb_object_class_is(const fb_object_class *seen, PyTypeObject *class) {
#if PY_VERSION_HEX < 0x030c0000 /* a changed class keeps its old version until the next lookup */
    if (!PyType_HasFeature(class, Py_TPFLAGS_VALID_VERSION_TAG)) return false;
#endif
    return seen->type == class && seen->version && seen->version == class->tp_version_tag;
}

/* Like fb_buffer_reserve. Returns 0, or -1 with MemoryError set. */
FB_INLINE int fb_object_reserve(fb_buffer *buffer, size_t size) {
    return FB_LIKELY(fb_buffer_reserve(buffer, size) == FB_OK) ? 0 : (PyErr_NoMemory(), -1);
}

/* A place in an object, for errors. Each level points to the level around it. */
typedef struct fb_object_where {
    const struct fb_object_where *parent;
    const fb_object_field *field; /* the current field; NULL: before the first one */
    Py_ssize_t index;             /* of its element; -1: not repeated */
    PyObject *key;                /* of an entry of a map; otherwise NULL */
} fb_object_where;

/* Return the text of a value for errors: its repr, or its type in angle brackets if the repr fails,
   as for very long integers. A new reference, or NULL. */
PyObject *fb_object_show(PyObject *value);
/* Return a place as text, for example events[3].time; "" for the outermost object. `index` as in
   fb_object_write. A new reference, or NULL. */
PyObject *fb_object_path(const fb_object_where *place, Py_ssize_t index);

/* Plain values (plain.c) -------------------------------------------------------------- */

int fb_object_plain_import(void);
extern PyObject *fb_object_type_key;  /* "@type" */
extern PyObject *fb_object_value_key; /* "value" */
/* Find the type of an Any in a dict from names of types to indexes. Returns 1, or 0 if it is not
   there, or -1 with an exception set. */
int fb_object_find_type(PyObject *types, PyObject *url, size_t *index);
/* Return the number of a member of an enum.Enum: a new reference. A member whose value is no int is
   found in `numbers` by its value or its name. NULL without an exception: no such member. */
PyObject *fb_object_of_member(PyObject *numbers, PyObject *value);
/* Return true for a bool of numpy. */
bool fb_object_is_truth(PyObject *value);

/* Times (time.c) ---------------------------------------------------------------------- */

int fb_codec_time_import(void);
/* Convert a datetime, timedelta or nanoseconds to the fields of a Timestamp or Duration. Returns 0;
   1 if the value has another type, and nothing is set; -1 if it is out of range, with a text in
   *problem. */
int fb_codec_time_of(PyObject *value, bool duration, int64_t *seconds, int32_t *nanoseconds,
                     const char **problem);
bool fb_codec_time_in_range(bool duration, int64_t seconds, int64_t nanoseconds);
/* Make a datetime in UTC, a timedelta, or nanoseconds. Returns a new reference. NULL without an
   exception: the value is out of range. */
PyObject *fb_codec_time_new(bool duration, bool number, int64_t seconds, int32_t nanoseconds);

#endif
