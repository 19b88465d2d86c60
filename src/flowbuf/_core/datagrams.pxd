from libc.stdint cimport uint8_t, uint16_t, uint64_t

from flowbuf._core.capture cimport fb_capture
from flowbuf._core.core cimport fb_bytes, fb_datagram, fb_memory, fb_status

cdef enum:
    SESSION_MESSAGES = 64  # messages of a session that are handled at once

cdef class Capture:
    cdef fb_memory memory
    cdef fb_capture *capture
    cdef bint busy
    cdef uint64_t scans
    cdef size_t users  # calls that are reading the datagrams of the last scan
    cdef int check_unused(self) except -1

cdef class Datagrams:
    cdef fb_datagram *items
    cdef size_t capacity
    cdef readonly size_t count
    cdef list owners
    cdef Capture capture  # the payloads point into its window until its next scan; None: no capture
    cdef uint64_t scan
    cdef int check_current(self) except -1
    cdef int hold(self) except -1
    cdef void let_go(self) noexcept

cdef int fill_source(fb_datagram *datagram, object source) except -1
cdef int begin_messages(fb_datagram *messages, size_t count, tuple source, uint16_t port) except -1
cdef fb_status take_messages(fb_bytes *stream, fb_datagram *messages, size_t *count) noexcept
cdef int check_marks(const uint8_t[::1] marks, const uint8_t[::1] stream) except -1
cdef uint64_t to_nanoseconds(object received) except? 0xffffffffffffffff
cdef str exporter_of(const fb_datagram *datagram)
