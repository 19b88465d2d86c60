"""Datagrams or messages in, tables out."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from flowbuf._core.arrow cimport (
    fb_message_columns,
    fb_message_columns_free,
    fb_message_columns_new,
    fb_message_columns_read,
    fb_message_fault,
    fb_message_fault_text,
)
from flowbuf._core.base cimport check, view_bytes
from flowbuf._core.core cimport *
from flowbuf._core.datagrams cimport (
    SESSION_MESSAGES,
    Datagrams,
    begin_messages,
    check_marks,
    take_messages,
)
from flowbuf._core.decoder cimport Decoder, MessageOutput
from flowbuf._core.net cimport *
from flowbuf._core.plan cimport is_late, override_deferred
from flowbuf._core.sockets cimport Receiver
from flowbuf._core.tables cimport FIRST_ROWS, TableBuilder, TableType

import os

from flowbuf.errors import DecodeError

STREAM_FAULTS = {FB_UNSUPPORTED_VERSION: "not_ipfix", FB_BAD_HEADER: "bad_length"}
"""Reasons why the stream of a session cannot continue."""


@cython.no_gc_clear  # __dealloc__ needs the plan of the type to free the objects made by it
cdef class RowBuilder(TableBuilder):
    """Collects the decoded rows of one kind into tables."""

    cdef fb_memory memory
    cdef fb_columns columns

    def __cinit__(self, *arguments):
        self.memory = fb_memory_system(0)
        check(fb_columns_new(&self.columns, self.type.plan.plan, &self.memory))

    def __dealloc__(self):
        fb_columns_free(&self.columns)


@cython.no_gc_clear  # __dealloc__ needs the decoder to free the objects made by its plan
cdef class ColumnBuilder(RowBuilder):
    """Decodes datagrams into tables. Its decoder keeps the state of exporters and the counters.

    Args:
        decoder: Decoder of the datagrams.
        others: Types of the further kinds of rows, in the order of the decoder's plans.
        type: Type of the tables, for the decoder's plan.
        rows: Most rows per table.
    """

    cdef Decoder decoder
    cdef tuple others  # RowBuilder of each further kind of rows; the garbage collector clears no tuples

    def __cinit__(self, Decoder decoder not None, *arguments):
        cdef RowBuilder other
        cdef MessageOutput output
        *others, type, rows = arguments
        plans = [output.plan for output in decoder.outputs]
        if [(<TableType?> each).plan for each in (type, *others)] != plans:
            raise ValueError("the type belongs to another plan; use a TableType of each plan of the decoder")
        self.decoder = decoder
        self.others = tuple([RowBuilder(each, rows) for each in others])
        for other in self.others:
            self.columns.others[<int> other.type.plan.plan.rows] = &other.columns

    def decode(self, Datagrams datagrams not None, list tables=None, *, dict override=None):
        """Decode all datagrams of a batch. Return the tables that they filled, appended to `tables` if given.

        Raises DecodeError if the decoder is strict and a datagram is malformed. `tables` then has the tables
        filled before the fault, and the other rows wait for `finish`.
        """
        if tables is None:
            tables = []
        datagrams.hold()
        try:
            self.claim()
            try:
                self.decode_held(datagrams, override, tables)
            finally:
                self.busy = False
        finally:
            datagrams.let_go()
        return tables

    def decode_session(self, const uint8_t[::1] stream not None, tuple source not None, uint32_t session,
                       list tables not None, uint8_t[::1] marks=None):
        """Decode the complete messages at the start of a stream of IPFIX over TCP.

        Templates, sampling rates and sequence numbers belong to the session. `Decoder.end_session` forgets
        them. Full tables are appended to `tables`. Other rows wait for the next call, or for `finish`. The
        decoder counts malformed messages, also if it is strict.

        Args:
            stream: Bytes that the peer sent. No other thread may change them during the call.
            source: Address and port of the peer.
            session: Number of the session among those of the address, from 1.
            tables: List for full tables.
            marks: Receives 1 for each message that was not decoded completely, and 0 for others: see
                `copy_messages`. It has a byte per 16 bytes of the stream. None: not wanted.

        Returns:
            tuple: Bytes and number of the messages decoded, and the reason why the stream cannot continue:
            "not_ipfix" (the version is not 10), "bad_length" (the length is below 16), or None.

        Raises:
            MemoryError: there is no memory for one row.
            ValueError: source is not an IP address, session is 0, or marks are too few.
        """
        cdef fb_datagram datagrams[SESSION_MESSAGES]
        cdef fb_bytes rest = view_bytes(stream)
        cdef size_t count = 0, messages = 0
        cdef uint8_t *mark
        cdef fb_status status = FB_OK
        if not session:
            raise ValueError("session is 0; numbers of sessions start at 1")
        if marks is not None:
            check_marks(marks, stream)
        begin_messages(datagrams, SESSION_MESSAGES, source, 0)
        self.claim()
        try:
            while status == FB_OK:
                status = take_messages(&rest, datagrams, &count)
                mark = NULL if marks is None or not count else &marks[messages]
                self.decode_messages(datagrams, count, FB_AGENT_SESSION | session, mark, tables)
                messages += count
        finally:
            self.busy = False
        return stream.shape[0] - rest.size, messages, STREAM_FAULTS.get(status)

    cdef int decode_messages(self, const fb_datagram *datagrams, size_t count, uint64_t agent,
                             uint8_t *marks, list tables) except -1:
        """Decode messages of a session. REQUIRES: the builder is claimed."""
        if not count:
            return 0
        self.decoder.claim()
        try:
            self.decoder.decoder.expect_flows = False
            self.decoder.decoder.agent = agent
            self.decoder.decoder.undecoded = marks
            if marks:
                memset(marks, 0, count)
            self.run(datagrams, count, tables)
        finally:
            self.decoder.decoder.agent = 0
            self.decoder.decoder.undecoded = NULL
            self.decoder.busy = False
        return 0

    def receive(self, Receiver receiver not None, uint64_t deadline, list tables not None):
        """Receive datagrams and decode them, until a table is full, `deadline` passes, or the receiver wakes.

        Full tables are appended to `tables`. Other rows wait for the next call, or for `finish`. The decoder
        counts malformed datagrams, also if it is strict.

        Args:
            receiver: Receiver of the sockets. A builder must always be used with the same one.
            deadline: Time of `time.monotonic_ns` at which the call ends.
            tables: List for full tables.

        Raises:
            OSError: the sockets cannot be read.
            MemoryError: there is no memory for one row.
        """
        self.claim()
        try:
            receiver.claim()
            try:
                self.decoder.claim()
                try:
                    self.receive_claimed(receiver, deadline, tables)
                finally:
                    self.decoder.busy = False
            finally:
                receiver.busy = False
        finally:
            self.busy = False

    cdef int receive_claimed(self, Receiver receiver, uint64_t deadline, list tables) except -1:
        """REQUIRES: builder, receiver and decoder are claimed."""
        cdef fb_collect_result result
        self.decoder.decoder.expect_flows = False
        try:
            while not tables:
                self.set_batches()
                with nogil:
                    result = fb_collect_columns(&receiver.collect, self.decoder.decoder, &self.columns,
                                                deadline)
                if result == FB_COLLECT_FULL:
                    self.find_full().make_room(tables, 1)
                    continue
                if result == FB_COLLECT_FAILED:
                    error = receiver.collect.receiver.error
                    raise OSError(error, os.strerror(error))
                break
        finally:
            self.count_rows()
        return 0

    cdef int set_batches(self) except -1:
        """Give each kind of rows a batch."""
        cdef RowBuilder other
        self.need_batch(min(self.rows, FIRST_ROWS))
        fb_columns_set_batch(&self.columns, self.batch)
        for other in self.others:
            other.need_batch(min(other.rows, FIRST_ROWS))
            fb_columns_set_batch(&other.columns, other.batch)
        return 0

    cdef RowBuilder find_full(self):
        """Return the builder whose batch was full when decoding stopped."""
        cdef RowBuilder other
        for other in self.others:
            if other.type.plan.plan.rows == self.decoder.decoder.full:
                return other
        return self

    cdef int count_rows(self) except -1:
        """Add the rows of this call to those of the decoder."""
        cdef RowBuilder builder
        for builder in (self, *self.others):
            self.decoder.column_rows[<int> builder.type.plan.plan.rows] += builder.columns.count
            builder.columns.count = 0
        return 0

    def finish_each(self):
        cdef RowBuilder builder
        return [builder.finish() for builder in (self, *self.others)]

    cdef int decode_held(self, Datagrams datagrams, dict override, list tables) except -1:
        """REQUIRES: the datagrams are held, the builder is claimed."""
        cdef RowBuilder builder
        self.decoder.claim()
        try:
            self.decoder.decoder.fault.status = FB_OK
            self.decoder.decoder.expect_flows = datagrams.capture is None
            for name, value in (override or {}).items():
                for builder in self.choose_overridden(name):
                    override_deferred(&builder.columns.deferred, builder.type.plan, name, value)
            self.run(datagrams.items, datagrams.count, tables)
            self.decoder.check_fault(datagrams.count)
        finally:
            for builder in (self, *self.others):
                fb_deferred_values_clear_overrides(&builder.columns.deferred)
            self.decoder.busy = False
        return 0

    cdef list choose_overridden(self, str name):
        """Return the builders whose column is overridden. If none can be, the first reports the reason."""
        cdef RowBuilder builder
        found = [builder for builder in (self, *self.others) if is_late(builder.type.plan, name)]
        return found or [self]

    cdef int run(self, const fb_datagram *datagrams, size_t count, list tables) except -1:
        cdef fb_position position
        cdef fb_status status
        memset(&position, 0, sizeof(position))
        while True:
            self.set_batches()
            if count == 1:
                status = fb_columns_decode(self.decoder.decoder, datagrams, count, &position, &self.columns)
            else:
                with nogil:
                    status = fb_columns_decode(self.decoder.decoder, datagrams, count, &position,
                                               &self.columns)
            if status == FB_OK:
                break
            self.find_full().make_room(tables, position.datagram / <double> count)
        self.count_rows()
        return 0


@cython.no_gc_clear  # __dealloc__ needs the type and its plan to free the objects made by it
cdef class MessageTables(TableBuilder):
    """Reads messages into tables."""

    cdef fb_memory memory
    cdef fb_message_columns reader

    def __cinit__(self, TableType type not None, size_t rows):
        self.memory = fb_memory_system(0)
        check(fb_message_columns_new(&self.reader, type.plan.plan, <fb_processor> 0, &self.memory))

    def __dealloc__(self):
        fb_message_columns_free(&self.reader)

    @property
    def unknown_fields(self):
        """Number of fields read so far that are not columns of the plan."""
        return self.reader.unknown_fields

    @property
    def invalid_texts(self):
        """Number of strings read so far that were not valid UTF-8."""
        return self.reader.invalid_texts

    def read(self, data, list tables not None, bint final=True):
        """Read the complete messages at the start of length-delimited data.

        Returns the number of bytes consumed. Tables that the messages fill are appended to `tables`. Raises
        DecodeError with the offset of a malformed message, and of a truncated one if `final`. The rows before
        it wait for `finish`.

        The GIL is held if the data is writable, so that no other thread changes it during the call.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if not view.len:
                return 0
            self.claim()
            try:
                return self.read_view(&view, tables, final)
            finally:
                self.busy = False
        finally:
            PyBuffer_Release(&view)

    cdef object read_view(self, const Py_buffer *view, list tables, bint final):
        """REQUIRES: the builder is claimed."""
        cdef fb_bytes rest
        cdef fb_message_fault fault
        cdef fb_status status
        cdef size_t size = view.len
        rest.data = <const uint8_t *> view.buf
        rest.size = size
        self.need_batch(min(self.rows, FIRST_ROWS))
        while True:
            if view.readonly:
                with nogil:
                    status = fb_message_columns_read(&self.reader, &rest, self.batch, &fault)
            else:
                status = fb_message_columns_read(&self.reader, &rest, self.batch, &fault)
            if status == FB_NO_SPACE or status == FB_NO_MEMORY:
                self.make_room(tables, (size - rest.size) / <double> size)
            elif status == FB_BAD_MESSAGE:
                raise self.as_error(&fault, size - rest.size)
            elif status == FB_MORE_INPUT and final:
                offset = size - rest.size
                raise DecodeError(f"byte {offset}: the message is cut short", status="bad_message",
                                  offset=offset)
            else:
                return size - rest.size

    cdef object as_error(self, const fb_message_fault *fault, size_t begin):
        cdef size_t offset = begin + fault.offset
        what = fb_message_fault_text(fault.kind).decode()
        column = ""
        if fault.column != FB_NO_COLUMN:
            column = f"column {self.type.plan.column_names[fault.column]!r}: "
        return DecodeError(f"byte {offset}: {column}{what}", status="bad_message", offset=offset)
