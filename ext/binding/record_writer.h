/* What the files that write records share: how far a call has come. */
#ifndef FB_RECORD_WRITER_H
#define FB_RECORD_WRITER_H

#include "binding/record.h"

/* A record that is being written. */
typedef struct fb_record_frame {
    fb_record_where place; /* first: a place is a frame's */
    struct fb_record_frame *parent;
    fb_record_type *type;
    PyObject *record;
    PyObject **values; /* by slot; NULL: not given */
    PyObject *unknown; /* what stands for the bytes of unknown fields; NULL: none */
    bool owned;
} fb_record_frame;

typedef struct {
    fb_record_output *output;
    const fb_record_options *options;
    fb_record_frame *top;
    size_t depth;
    Py_ssize_t index;
} fb_record_writer;

/* Values are borrowed while nothing but this code runs: to count them up and down would take as long as to write them. Before any code
   of a user is called - and only exact types of Python have none - this takes references to all that is in use. */
void fb_record_own(fb_record_writer *w);
void fb_record_disown(fb_record_frame *f);

/* Both return -1 with an EncodeError set that names the path, or with the exception that there is already. */
int fb_record_fail(fb_record_writer *w, const char *format, ...);
int fb_record_fail_type(fb_record_writer *w, PyObject *value, const char *expected);
/* The same with "VALUE is …", or with its type where it cannot be shown. REQUIRES: value lives on whatever a user's code does. */
int fb_record_fail_value(fb_record_writer *w, PyObject *value, const char *format, ...);
/* The same because of the exception that there is. */
int fb_record_fail_because(fb_record_writer *w, const char *format, ...);
/* Whether one more message may be inside the record that is being written. */
int fb_record_check_depth(fb_record_writer *w);
/* Whether there is a TypeError, which is taken away: it is told as ours. */
bool fb_record_is_type_error(void);

/* The text itself, or of a class derived from str one that is none: a new reference, or NULL. Nothing of a user's is called. */
FB_INLINE PyObject *fb_record_exact_text(PyObject *text) {
    return PyUnicode_CheckExact(text) ? Py_NewRef(text) : PyUnicode_FromObject(text);
}

/* A new dict of what has keys; NULL of what has none. 0, or -1 with an exception set. REQUIRES: all is owned. */
int fb_record_to_dict(PyObject *value, PyObject **dict);
/* Puts the values of the frame's record by their slots. */
int fb_record_gather(fb_record_writer *w, fb_record_frame *f);

/* The number of a scalar that is neither text nor bytes. */
int fb_record_number(fb_record_writer *w, const fb_codec_field *field, const fb_record_field *of, PyObject *value, uint64_t *number);
/* One value with its tag. `always`: zero too. */
int fb_record_put_one(fb_record_writer *w, const fb_codec_field *field, const fb_record_field *of, bool always, PyObject *value);
int fb_record_put_map(fb_record_writer *w, const fb_codec_field *field, const fb_record_field *of, PyObject *map);
/* A tag and the place of a length; returns where what is so long begins, as an offset: output moves when it grows. REQUIRES: room. */
size_t fb_record_begin_length(fb_record_output *output, const fb_codec_field *field);
int fb_record_end_length(fb_record_writer *w, size_t begin);

#endif
