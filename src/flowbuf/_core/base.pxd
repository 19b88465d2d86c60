from libc.stdint cimport uint8_t, uint64_t

from flowbuf._core.core cimport fb_status

cdef int check(fb_status status) except -1
cdef dict read_statuses(const uint64_t *counts)
cdef str format_address(const uint8_t *address)
cdef bytes parse_address(str text)
