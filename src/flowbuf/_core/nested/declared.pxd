"""The functions of ext/core/nested."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from flowbuf._core.arrow cimport fb_arrow_reason
from flowbuf._core.core cimport (
    ArrowArray,
    ArrowSchema,
    fb_bytes,
    fb_codec_field,
    fb_codec_message,
    fb_member,
    fb_memory,
    fb_status,
)
from flowbuf._core.json cimport fb_json_fault, fb_json_type, fb_json_types

cdef extern from "core/arrow/arrow.h" nogil:
    ctypedef struct fb_tree_type:
        const char *name
        const char *format
        bint nullable
        bint dictionary
        size_t child_count
    fb_status fb_schema_export_tree(const fb_tree_type *types, fb_memory memory, ArrowSchema *schema)

cdef extern from "core/nested/nested_names.h" nogil:
    ctypedef struct fb_nested_names:
        pass
    fb_status fb_nested_names_new(fb_nested_names **names, const fb_member *members, size_t count,
                                  fb_memory memory)
    void fb_nested_names_release(fb_nested_names *names)

cdef extern from "core/nested/nested_types.h" nogil:
    int FB_NESTED_KIND_COUNT
    const char *fb_nested_kind_name(int kind)
    ctypedef struct fb_nested_type:
        const fb_codec_field *field
        const fb_codec_field *value
        const fb_codec_message *message
        const int32_t *nodes
        const int32_t *children
        size_t child_count
        size_t oneof_count
        fb_nested_names *names
        const fb_member *by_name
        size_t member_count
        const fb_json_type *json
        const fb_json_types *json_types
        uint64_t unit
        uint8_t kind
        uint8_t width
        bint nullable
        bint repeated
        bint map
        bint tracked

cdef extern from "core/nested/nested_batch.h" nogil:
    ctypedef struct fb_nested_batch:
        size_t rows
        size_t bytes
    ctypedef struct fb_nested_cache:
        pass
    fb_memory fb_nested_memory(fb_nested_cache *cache)
    void fb_nested_batch_release(fb_nested_batch *batch)
    fb_status fb_nested_batch_export(fb_nested_batch *batch, size_t first, size_t count, ArrowArray *array)

cdef extern from "core/nested/nested_read.h" nogil:
    ctypedef struct fb_nested_reader:
        size_t rows
        uint64_t unknown_fields
        uint64_t invalid_texts
    ctypedef struct fb_nested_fault:
        const char *problem
        int32_t node
        const uint8_t *where
    fb_status fb_nested_reader_new(fb_nested_reader *reader, const fb_nested_type *types, size_t count,
                                   fb_memory *memory)
    void fb_nested_reader_free(fb_nested_reader *reader)
    fb_status fb_nested_read(fb_nested_reader *reader, fb_bytes *rest, size_t rows, fb_nested_fault *fault)
    fb_status fb_nested_finish(fb_nested_reader *reader, fb_nested_batch **batch)

cdef extern from "core/nested/nested_write.h" nogil:
    ctypedef struct fb_nested_level:
        const fb_nested_type *type
        int64_t index
    ctypedef struct fb_nested_writer:
        fb_arrow_reason reason
        fb_nested_level *levels
        size_t level_count
        fb_json_fault fault
    fb_status fb_nested_writer_new(fb_nested_writer *writer, const fb_nested_type *types, size_t count,
                                   fb_memory *memory)
    void fb_nested_writer_free(fb_nested_writer *writer)
    fb_status fb_nested_writer_bind(fb_nested_writer *writer, size_t node, size_t child,
                                    const ArrowSchema *schema, const ArrowSchema **values,
                                    fb_arrow_reason *reason)
    fb_status fb_nested_writer_set(fb_nested_writer *writer, const ArrowArray *array)
    fb_status fb_nested_write(fb_nested_writer *writer, size_t *row, size_t rows, uint8_t **output,
                              uint8_t *end)
