from flowbuf._core.core cimport fb_memory
from flowbuf._core.net cimport fb_collect

cdef class Receiver:
    cdef fb_memory memory
    cdef fb_collect collect
    cdef object forwarder, undecoded  # users of the datagrams beside the decoder, or None
    cdef bint busy
    cdef int claim(self) except -1
