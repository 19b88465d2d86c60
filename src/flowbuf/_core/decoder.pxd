from libc.stdint cimport uint64_t

from flowbuf._core.base cimport Buffer
from flowbuf._core.core cimport fb_datagram, fb_decoder, fb_memory, fb_row
from flowbuf._core.datagrams cimport Datagrams
from flowbuf._core.plan cimport Plan

cdef class MessageOutput:
    """The emitter of one kind of rows as messages, and its buffer."""

    cdef readonly Plan plan
    cdef fb_memory memory
    cdef fb_row row
    cdef Buffer buffer
    cdef Buffer spare  # the previous buffer, which had views; None at first
    cdef int leave_views(self) except -1
    cdef bytes copy(self)
    cdef object view(self)
    cdef list split(self)

cdef class Decoder:
    cdef readonly Plan plan
    cdef fb_memory memory
    cdef fb_decoder *decoder
    cdef MessageOutput output  # of the first kind of rows
    # Tuples, which the garbage collector does not clear before __dealloc__.
    cdef tuple others  # MessageOutput of each further kind
    cdef tuple outputs  # all of them
    cdef uint64_t column_rows[8]  # rows of columns so far, by fb_rows
    cdef bint busy
    cdef bint overridden  # this call overrides columns; its dict may change meanwhile
    cdef public bint strict
    cdef int set_sampling(self, list networks, list rules) except -1
    cdef int claim(self) except -1
    cdef int begin(self, dict override, int form) except -1
    cdef int prepare(self, dict override) except -1
    cdef void end(self) noexcept
    cdef list choose_overridden(self, str name)
    cdef MessageOutput find_full(self)
    cdef list decode_each(self, Datagrams datagrams, dict override, int form)
    cdef int run(self, const fb_datagram *datagrams, size_t count) except -1
    cdef int check_fault(self, size_t count) except -1
    cdef object as_error(self, str place)
    cdef object decode_one(self, object payload, object source, object received, dict override, int form)
    cdef object decode_datagram(self, const fb_datagram *datagram, dict override, int form,
                                bint expect_flows)
    cdef object decode_held(self, Datagrams datagrams, dict override, int form)
    cdef object result(self, int form)
