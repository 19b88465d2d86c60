from flowbuf._core.core cimport fb_memory
from flowbuf._core.net cimport fb_access_list, fb_collect

cdef class AccessList:
    cdef fb_memory memory
    cdef fb_access_list list

cdef class Receiver:
    cdef fb_memory memory
    cdef fb_collect collect
    cdef AccessList access
    cdef object forwarder, undecoded  # users of the datagrams beside the decoder, or None
    cdef bint busy
    cdef int claim(self) except -1
