/* The state of a call that writes an object, shared by write.c, gather.c, map.c and plain.c. */
#ifndef FB_OBJECTS_WRITER_H
#define FB_OBJECTS_WRITER_H

#include "objects/objects.h"

/* An object that is being written. */
typedef struct fb_object_frame {
    fb_object_where place; /* must be first: a place is cast to its frame */
    struct fb_object_frame *parent;
    fb_object_type *type;
    PyObject *object;
    PyObject **values; /* by slot; NULL: absent */
    PyObject *unknown; /* value with the bytes of unknown fields; NULL: none */
    size_t written;    /* fields at the start that are written already */
    bool owned;
} fb_object_frame;

typedef struct {
    fb_buffer *buffer;
    const fb_codec_options *options;
    fb_object_type *types; /* all types of the codec */
    fb_object_frame *top;
    size_t depth;
    Py_ssize_t index;
} fb_object_writer;

/* Take references to all values in use. Until then values are borrowed, because counting references
   would take as long as writing. REQUIRED before any user code may run. Only methods of exact
   built-in types run no user code. */
void fb_object_own(fb_object_writer *w);
void fb_object_disown(fb_object_frame *f);

/* Raise an EncodeError with the path, or keep the exception that is set. Returns -1. */
int fb_object_fail(fb_object_writer *w, const char *format, ...);
int fb_object_fail_type(fb_object_writer *w, PyObject *value, const char *expected);
/* The same, with the text "VALUE is …"; fb_object_show makes VALUE. REQUIRES: a reference to
   value is owned, because user code may run. */
int fb_object_fail_value(fb_object_writer *w, PyObject *value, const char *format, ...);
/* The same, caused by the exception that is set. */
int fb_object_fail_because(fb_object_writer *w, const char *format, ...);
/* Check that one more message may be nested in the current object. Returns 0, or -1 with an
   exception set. */
FB_INLINE int fb_object_check_depth(fb_object_writer *w) {
    return FB_LIKELY(w->depth <= FB_CODEC_DEPTH)
               ? 0
               : fb_object_fail(w, "more than %d objects inside each other", FB_CODEC_DEPTH);
}
/* Return true if the exception set is a TypeError, and clear it. The caller raises its own
   error. */
bool fb_object_is_type_error(void);

/* Return an exact str: the text itself, or a copy if it is of a subclass. A new reference, or NULL.
   Runs no user code. */
FB_INLINE PyObject *fb_object_exact_text(PyObject *text) {
    return PyUnicode_CheckExact(text) ? Py_NewRef(text) : PyUnicode_FromObject(text);
}

/* Make a dict of an object with keys. *dict is a new reference, or NULL if it has no keys. Returns
   0, or -1 with an exception set. REQUIRES: references to all values are owned (fb_object_own). */
int fb_object_to_dict(PyObject *value, PyObject **dict);
/* Collect the values of the frame's object by their slots. Returns 0, or -1 with an exception
   set. */
int fb_object_gather(fb_object_writer *w, fb_object_frame *f);
/* Write the values of the frame. Returns 0, or -1 with an exception set. */
int fb_object_put_fields(fb_object_writer *w, fb_object_frame *f);
/* Write the frame's object, whose type is plain. Returns 0, or -1 with an exception set. */
int fb_object_put_plain(fb_object_writer *w, fb_object_frame *f);

/* Convert a value to the number of a scalar that is not a string or bytes. Returns 0, or -1 with an
   exception set. */
int fb_object_number(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                     PyObject *value, uint64_t *number);
/* Write one value with its tag. A zero or an empty value is skipped, unless `always`. Returns
   0, or -1 with an exception set. */
int fb_object_put_one(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                      bool always, PyObject *value);
int fb_object_put_map(fb_object_writer *w, const fb_codec_field *field, const fb_object_field *of,
                      PyObject *map);
/* Write a tag and leave space for a length. Returns the offset of the content. It is an offset
   because the output moves when it grows. REQUIRES: room for the tag and a length. */
size_t fb_object_begin_length(fb_buffer *buffer, const fb_codec_field *field);
int fb_object_end_length(fb_object_writer *w, size_t begin);

#endif
