from libc.stdint cimport uint64_t

from flowbuf._core.buffer cimport Buffer
from flowbuf._core.core cimport fb_datagram, fb_decoder, fb_memory, fb_row
from flowbuf._core.datagrams cimport Datagrams
from flowbuf._core.plan cimport Plan

cdef class Decoder:
    cdef readonly Plan plan
    cdef fb_memory memory
    cdef fb_decoder *decoder
    cdef fb_row row
    cdef Buffer output
    cdef Buffer spare  # the previous output buffer, which had views; None at first
    cdef uint64_t column_flows  # flows that became rows of columns
    cdef bint busy
    cdef public bint strict
    cdef int claim(self) except -1
    cdef int begin(self, dict override) except -1
    cdef int prepare(self, dict override) except -1
    cdef int leave_views(self) except -1
    cdef void end(self, dict override) noexcept
    cdef int run(self, const fb_datagram *datagrams, size_t count) except -1
    cdef int check_fault(self, size_t count) except -1
    cdef object as_error(self, str place)
    cdef object decode_one(self, object payload, object source, object received, dict override, bint split)
    cdef object decode_datagram(self, const fb_datagram *datagram, dict override, bint split,
                                bint expect_flows)
    cdef list split(self)
    cdef object encode_held(self, Datagrams datagrams, dict override, bint view)
