from flowbuf._core.core cimport fb_buffer, fb_row

cdef class Buffer:
    cdef fb_buffer content
    cdef Py_ssize_t views
    cdef void give(self, fb_row *row, size_t used) noexcept
    cdef int grow(self, fb_row *row, size_t more) except -1
    cdef bytes copy(self, const fb_row *row)
