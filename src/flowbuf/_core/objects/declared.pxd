"""The functions of objects.h."""
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t, uint16_t

from flowbuf._core.core cimport fb_buffer, fb_bytes, fb_codec_message

cdef extern from "objects/quick.h":
    cdef enum:
        FB_VALUE_SCALAR
        FB_VALUE_OBJECT
        FB_VALUE_MAP
        FB_VALUE_TIMESTAMP
        FB_VALUE_DURATION
        FB_PLAIN_NONE
        FB_PLAIN_FIELD
        FB_PLAIN_VALUE
        FB_PLAIN_ANY
        FB_PLAIN_TIMESTAMP
        FB_PLAIN_DURATION
        FB_OUTPUT_DICT
        FB_OUTPUT_TUPLE
        FB_OUTPUT_CLASS
        FB_OUTPUT_PLAIN
    ctypedef int fb_codec_output_kind
    ctypedef struct fb_object_class:
        pass
    ctypedef struct fb_object_field:
        PyObject *name
        PyObject *alias
        PyObject *numbers
        fb_object_type *type
        uint8_t role
        bint hidden
    ctypedef struct fb_object_type:
        fb_codec_message core
        fb_object_field *fields
        uint8_t *quick
        size_t declared
        PyObject *slots
        PyObject *blank
        fb_object_class seen
        uint16_t *pending
        uint8_t plain
        size_t pending_count
    ctypedef struct fb_codec_output:
        const fb_object_type *type
        fb_codec_output_kind kind
        PyObject *make
        PyObject *keywords
        const fb_codec_output *all
        fb_codec_output **fields
        PyObject **absent
        PyObject **members
        const uint8_t *wanted
    ctypedef struct fb_codec_options:
        bint ignore_unknown
        bint keep_unknown
        bint omit_absent
        bint times_as_numbers
        PyObject *to_time
        PyObject *from_time
        PyObject *unknown_key
        PyObject *suggest
        PyObject *encode_error
        PyObject *decode_error
        PyObject *null
        PyObject *known_types
    bint fb_object_is_plain(const fb_object_type *)
    int fb_object_plain_import() except -1
    int fb_object_write(fb_buffer *, fb_object_type *, const fb_codec_options *, PyObject *,
                        Py_ssize_t) except -1
    object fb_object_read(const fb_codec_output *, const fb_codec_options *, fb_bytes, size_t, Py_ssize_t)
    int fb_object_reserve(fb_buffer *, size_t) except -1
    void fb_object_class_forget(fb_object_class *)
    void fb_quick_finish(fb_object_type *)
    int fb_codec_time_import() except -1
