from libc.stdint cimport uint8_t, uint64_t

from flowbuf._core.core cimport fb_buffer, fb_bytes, fb_codec_field, fb_prefix, fb_row, fb_status

cdef int check(fb_status status) except -1
cdef void *take_memory(size_t count, size_t size, list blocks) except NULL
cdef int describe_field(fb_codec_field *core, size_t slot, dict field, list blocks) except -1
cdef dict read_statuses(const uint64_t *counts)
cdef str format_address(const uint8_t *address)
cdef bytes parse_address(str text)
cdef uint64_t draw_seed() except? 0
cdef fb_prefix *new_prefixes(list prefixes) except NULL
cdef object fault_of_stream(size_t offset, fb_status status)

cdef inline fb_bytes view_bytes(const uint8_t[::1] data):
    cdef fb_bytes view
    view.data = &data[0] if data.shape[0] else NULL
    view.size = data.shape[0]
    return view

cdef class Buffer:
    cdef fb_buffer content
    cdef Py_ssize_t views
    cdef bint writing  # no view can be made
    cdef void give(self, fb_row *row, size_t used) noexcept
    cdef int grow(self, fb_row *row, size_t more) except -1
    cdef bytes copy(self, const fb_row *row)
