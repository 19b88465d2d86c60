"""The functions of ext/core/arrow that convert between messages, columns and text."""
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint64_t

from flowbuf._core.core cimport (
    ArrowArray,
    ArrowArrayStream,
    ArrowSchema,
    fb_batch,
    fb_buffer,
    fb_bytes,
    fb_member,
    fb_memory,
    fb_plan,
    fb_processor,
    fb_row,
    fb_status,
)

cdef extern from "core/arrow/arrow_view.h" nogil:
    ctypedef enum fb_arrow_reason:
        FB_ARROW_NOT_A_BATCH
        FB_ARROW_BAD_SCHEMA
        FB_ARROW_NOT_JSON
    bint fb_arrow_schema_is_sound(const ArrowSchema *schema)
    const char *fb_arrow_reason_text(fb_arrow_reason reason)

cdef extern from "core/arrow/arrow_encode.h" nogil:
    size_t FB_NO_CHILD
    ctypedef struct fb_arrow_binding:
        uint16_t column
        const fb_member *members
        size_t member_count
        bint required
    ctypedef struct fb_arrow_fault:
        fb_arrow_reason reason
        size_t child
        size_t row
    ctypedef struct fb_arrow_source:
        fb_arrow_fault fault
    ctypedef struct fb_arrow_encoder:
        fb_arrow_source source
        fb_row row
    fb_status fb_arrow_encoder_new(fb_arrow_encoder *encoder, const fb_plan *plan, const ArrowSchema *schema,
                                   const fb_arrow_binding *bindings, fb_processor processor,
                                   fb_memory *memory)
    void fb_arrow_encoder_free(fb_arrow_encoder *encoder)
    fb_status fb_arrow_encode(fb_arrow_encoder *encoder, const ArrowArray *array, size_t *position)

cdef extern from "core/arrow/arrow_text.h" nogil:
    ctypedef enum fb_text_form:
        FB_TEXT_JSON
        FB_TEXT_CSV
        FB_TEXT_KEY
    ctypedef struct fb_text_options:
        fb_text_form form
        bint neutral
        fb_bytes start
    ctypedef struct fb_arrow_text:
        fb_arrow_source source
    fb_status fb_arrow_text_new(fb_arrow_text *text, const fb_plan *plan, const ArrowSchema *schema,
                                const fb_arrow_binding *bindings, fb_text_options options, fb_memory *memory)
    void fb_arrow_text_free(fb_arrow_text *text)
    fb_status fb_arrow_text_write(fb_arrow_text *text, const ArrowArray *array, size_t *position,
                                  fb_buffer *output, size_t *ends)

cdef extern from "core/arrow/message_columns.h" nogil:
    ctypedef enum fb_message_fault_kind:
        pass
    ctypedef struct fb_message_fault:
        fb_message_fault_kind kind
        uint16_t column
        size_t offset
    const char *fb_message_fault_text(fb_message_fault_kind kind)
    ctypedef struct fb_message_columns:
        uint64_t unknown_fields
        uint64_t invalid_texts
    fb_status fb_message_columns_new(fb_message_columns *reader, const fb_plan *plan, fb_processor processor,
                                     fb_memory *memory)
    void fb_message_columns_free(fb_message_columns *reader)
    fb_status fb_message_columns_read(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                                      fb_message_fault *fault)

cdef enum:
    OUTPUT_MIN = 64 << 10  # initial size of the output, in bytes

cdef class ColumnEncoder:
    cdef fb_buffer kept  # the output, while it is not larger than OUTPUT_KEPT; the next encoder uses it again
    cdef PyObject *given  # the larger output: the bytes object that `take_output` returns without a copy
    cdef uint8_t *output  # of either
    cdef size_t capacity  # bytes of `output`
    cdef int grow_output(self, size_t used, size_t more) except -1
    cdef bytes take_output(self, size_t used)
    cdef int begin(self, const ArrowSchema *schema) except -1
    cdef int encode(self, const ArrowArray *array) except -1
    cdef bytes take(self)
    cdef bytes encode_array(self, schema, array)
    cdef bytes encode_stream(self, stream)
    cdef bytes encode_batches(self, ArrowArrayStream *source)
