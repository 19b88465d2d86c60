from flowbuf._core.core cimport fb_collect, fb_memory, fb_receiver

cdef class Receiver:
    cdef fb_memory memory
    cdef fb_collect collect
    cdef bint busy
    cdef int claim(self) except -1
