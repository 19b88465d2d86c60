from flowbuf._core.core cimport fb_buffer

cdef class Buffer:
    cdef fb_buffer content
    cdef Py_ssize_t views
    cdef int grow(self, size_t used, size_t more) except -1
