"""The functions of ext/core/json that convert messages to JSON and back."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from flowbuf._core.core cimport fb_buffer, fb_bytes, fb_codec_message, fb_status

cdef extern from "core/json/json_types.h" nogil:
    ctypedef struct fb_json_name:
        fb_bytes text
        uint32_t value
    ctypedef struct fb_json_names:
        const fb_json_name *names
        size_t count
        uint32_t *slots
        size_t slot_count
    void fb_json_names_finish(fb_json_names *names)
    ctypedef struct fb_json_member:
        int32_t number
        fb_bytes name
    ctypedef struct fb_json_enum:
        const fb_json_member *members
        size_t count
        fb_json_names names
        bint null
    int FB_JSON_FORM_COUNT
    const char *fb_json_form_name(int form)
    ctypedef struct fb_json_field:
        fb_bytes name
        fb_bytes json_name
        fb_bytes key
        fb_bytes json_key
        const fb_json_enum *members
        bint map
        bint extension
    ctypedef struct fb_json_type:
        fb_codec_message core
        fb_bytes name
        fb_json_field *fields
        fb_json_names names
        size_t required
        size_t oneofs
        uint8_t form
    ctypedef struct fb_json_types:
        const fb_json_type *types
        fb_json_names names
    bint fb_json_type_is_sound(const fb_json_type *type)
    ctypedef struct fb_json_fault:
        const char *problem
        int type
        const fb_json_type *of
        size_t offset
        uint8_t *token
        size_t token_size
        char *path

cdef extern from "core/json/json_write.h" nogil:
    ctypedef struct fb_json_options:
        bint original_names
        bint defaults
        bint enum_numbers
        uint64_t *repaired
    fb_status fb_json_write(const fb_json_types *types, const fb_json_type *type, fb_bytes message,
                            fb_json_options options, fb_buffer *output, uint64_t *unknown,
                            fb_json_fault *fault)

cdef extern from "core/json/json_read.h" nogil:
    fb_status fb_json_read(const fb_json_types *types, const fb_json_type *type, fb_bytes text,
                           bint ignore_unknown, fb_buffer *output, fb_json_fault *fault)

cdef class JsonConverter:
    cdef fb_json_type *types
    cdef fb_json_enum *enums
    cdef fb_json_types all
    cdef list blocks, names
    cdef object fail, inside
    cdef fb_buffer spare
    cpdef str write(self, data, str names, defaults, str enums)
    cpdef bytes read(self, text, str unknown)
    cdef str _describe(self, const fb_json_fault *fault)
    cdef object _fault(self, fb_status status, const fb_json_fault *fault, size_t before)
    cdef const fb_json_type *_find(self, str name) except NULL
    cdef int _fill_type(self, fb_json_type *type, str name, int form, list fields) except -1
    cdef fb_buffer _take_room(self)
    cdef void _return_room(self, fb_buffer *room)
    cdef str _to_text(self, fb_bytes message, fb_json_options options)
    cdef int _write(self, fb_bytes message, size_t before, fb_json_options options, fb_buffer *output,
                    uint64_t *unknown) except -1
    cdef bytes _to_message(self, fb_bytes input, bint ignore)
    cdef int _read(self, fb_bytes input, size_t before, bint ignore, bint delimited,
                   fb_buffer *output) except -1

cdef class JsonCodec:
    cdef JsonConverter converter
    cdef JsonConverter _json(self)
