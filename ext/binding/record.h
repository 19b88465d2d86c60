/* Any record as Python objects: how the fields of the core's codec (core/codec/codec.h) are called, and what their values are.

   Wire format is the core's alone. References: whatever these structures point to is owned by the RecordCodec or RecordShape that
   they belong to (record.pxi), but for what is said to be owned here. */
#ifndef FB_RECORD_H
#define FB_RECORD_H

#include <Python.h>

#include "core/codec/codec.h"

typedef enum { FB_VALUE_SCALAR, FB_VALUE_RECORD, FB_VALUE_MAP, FB_VALUE_TIMESTAMP, FB_VALUE_DURATION } fb_value_role;

typedef struct fb_record_type fb_record_type;

typedef struct {
    PyObject *name;       /* interned */
    PyObject *alias;      /* owned: another object equal to the name, met last as a key */
    PyObject *absent;     /* what reading gives where the field is not there; NULL: a new list, or a new dict of a map */
    PyObject *numbers;    /* of an enum: a dict of the numbers of its members; else NULL */
    PyObject *names;      /* the other way round, where enums are read as names; else NULL */
    fb_record_type *type; /* of a record; of a map, that of its entries */
    uint8_t role;         /* fb_value_role */
} fb_record_field;

/* What is known of the last class whose instances were written: where they keep their attributes. */
typedef struct {
    PyTypeObject *type;   /* not owned: it may be gone, and its version with it */
    unsigned version;     /* of the class: no other class has had it, nor this one since it was changed */
    Py_ssize_t *offsets;  /* by slot, of references in the instance; 0: ask for the attribute */
} fb_record_class;

struct fb_record_type {
    fb_codec_message core;
    fb_record_field *fields;  /* by slot */
    PyObject *slots;          /* dict from names to slots */
    fb_record_class seen;
    PyObject *blank;          /* dict from names to None */
    uint16_t *pending;        /* by slot: the place, from 1, of a single message among those of the type */
    size_t pending_count;
};

/* What reading makes of records of a type. */
typedef enum { FB_SHAPE_DICT, FB_SHAPE_TUPLE, FB_SHAPE_CLASS } fb_shape_kind;

typedef struct fb_record_shape {
    const fb_record_type *type;
    fb_shape_kind kind;
    PyObject *make;                      /* of a class: what is called with the values, as keywords if there are `keywords` */
    PyObject *keywords;
    struct fb_record_shape **fields;     /* by slot: of records, and of the values of maps */
} fb_record_shape;

/* Where output goes: memory of PyMem, grown as needed. */
typedef struct {
    uint8_t *begin, *p, *end;
} fb_record_output;

typedef struct {
    bool ignore_unknown;   /* keys that are no fields, when writing */
    bool keep_unknown;     /* fields that are not in the schema, when reading into a dict; and they are written again */
    bool times_as_numbers; /* nanoseconds; else datetime and timedelta */
    PyObject *to_time;     /* called with what else is given for a time: (seconds, nanoseconds) */
    PyObject *from_time;   /* called with (is_duration, seconds, nanoseconds); NULL: as times_as_numbers says */
    PyObject *unknown_key; /* of the bytes of unknown fields, in a dict */
    PyObject *suggest;     /* called with a key that is unknown and those that are known: what else to say, as text */
    PyObject *encode_error, *decode_error; /* called with (problem, path[, offset]), give the exception */
} fb_record_options;

/* 0, or -1 with an exception set. `index`: of the record among many, -1: it is alone. */
int fb_record_write(fb_record_output *output, fb_record_type *type, const fb_record_options *options, PyObject *record, Py_ssize_t index);
/* A new reference, or NULL with an exception set. `begin` is where offsets in errors are counted from. */
PyObject *fb_record_read(const fb_record_shape *shape, const fb_record_options *options, fb_bytes message, const uint8_t *begin,
                         Py_ssize_t index);

int fb_record_output_grow(fb_record_output *output, size_t more);
void fb_record_class_forget(fb_record_class *seen);

FB_INLINE int fb_record_output_reserve(fb_record_output *output, size_t size) {
    return FB_LIKELY((size_t)(output->end - output->p) >= size) ? 0 : fb_record_output_grow(output, size);
}

/* Where in a record one is, for errors: each level points to the one it is in. */
typedef struct fb_record_where {
    const struct fb_record_where *parent;
    const fb_record_field *field; /* that is being looked at; NULL: none yet */
    Py_ssize_t index;             /* of its element; -1: it is single */
    PyObject *key;                /* of an entry of a map; else NULL */
} fb_record_where;

/* A value as errors show it: its repr, or its type in angle brackets where it has none, as an int of some thousand digits. A new
   reference, or NULL. */
PyObject *fb_record_show(PyObject *value);
/* The path of a place as text, such as events[3].time; "" of a whole record. A new reference, or NULL. */
PyObject *fb_record_path(const fb_record_where *place, Py_ssize_t index);

/* Times (record_time.c) ------------------------------------------------------------------------------------------------ */

int fb_record_time_import(void);
/* What a Timestamp or Duration of protobuf holds. 1: value is something else, and nothing is set; -1: it is out of range, with a
   text in *problem. */
int fb_record_time_of(PyObject *value, bool duration, int64_t *seconds, int32_t *nanoseconds, const char **problem);
bool fb_record_time_in_range(bool duration, int64_t seconds, int64_t nanoseconds);
/* A datetime in UTC, a timedelta, or nanoseconds. A new reference; NULL without an exception: it cannot be one. */
PyObject *fb_record_time_new(bool duration, bool number, int64_t seconds, int32_t nanoseconds);

#endif
