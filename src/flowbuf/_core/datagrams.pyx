"""Captures in, datagrams out; batches of datagrams from Python; messages of a schema to IPFIX files."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyIndex_Check
from libc.math cimport llrint
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from flowbuf._core.base cimport (
    check,
    fault_of_stream,
    format_address,
    parse_address,
    read_statuses,
    view_bytes,
)
from flowbuf._core.capture cimport *
from flowbuf._core.core cimport *

import operator

MAX_WINDOW = FB_CAPTURE_MAX_WINDOW
"""Size of a window that always suffices for `Capture.scan` to consume a packet, in bytes."""
START_SIZE = FB_CAPTURE_START_SIZE
"""Number of bytes at the start of a file that show its format."""


def starts_with_flows(start):
    """Return True if the first bytes are those of an IPFIX file or an nfcapd file.

    `start` has START_SIZE bytes. A shorter file is neither.
    """
    cdef const uint8_t[::1] content = start
    return fb_capture_starts_with_flows(view_bytes(content))


cdef class Datagrams:
    """Datagrams in the format of the core. The object keeps the memory of their payloads alive."""

    def __cinit__(self, size_t capacity):
        if capacity > (1 << 24):
            raise ValueError(f"a batch of {capacity} datagrams is too large; the limit is {1 << 24:,}")
        self.capacity = capacity
        self.owners = []
        self.items = <fb_datagram *> PyMem_Malloc(max(capacity, 1) * sizeof(fb_datagram))
        if not self.items:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.items)

    def __len__(self):
        return self.count

    cdef int check_current(self) except -1:
        if self.capture is not None and self.capture.scans != self.scan:
            raise RuntimeError(
                "this batch of datagrams is no longer valid; use it before the capture's next batch"
            )
        return 0

    cdef int hold(self) except -1:
        """Keep the datagrams valid until `let_go`: the capture refuses to advance."""
        self.check_current()
        if self.capture is not None:
            self.capture.users += 1
        return 0

    cdef void let_go(self) noexcept:
        if self.capture is not None:
            self.capture.users -= 1

    def __getitem__(self, size_t i):
        """Return (payload, (source address, source port), destination port, time in ns) of a datagram."""
        self.check_current()
        if i >= self.count:
            raise IndexError(i)
        cdef fb_datagram *d = &self.items[i]
        payload = d.payload.data[:d.payload.size]
        return payload, (format_address(d.source), d.source_port), d.destination_port, d.time


cdef class Capture:
    """Reads a capture window by window. `port` selects datagrams to one UDP port."""

    def __cinit__(self, port=None):
        cdef fb_capture_options options
        memset(&options, 0, sizeof(options))
        options.any_port = port is None
        options.port = 0 if port is None else port
        self.memory = fb_memory_system(0)
        check(fb_capture_new(&self.capture, &self.memory, options))

    def __dealloc__(self):
        fb_capture_free(self.capture)

    cdef int check_unused(self) except -1:
        if self.busy:
            raise RuntimeError("this capture is being read in another thread")
        if self.users:
            raise RuntimeError(
                "the batch of this capture is still being decoded; request the next one after that"
            )
        return 0

    def advance(self):
        """End the batch of the last scan, so that its window may change.

        Raises RuntimeError while the batch is decoded.
        """
        self.check_unused()
        self.scans += 1

    def scan(self, window, bint final, size_t capacity=4096):
        """Return (bytes consumed, status name, Datagrams) of a window.

        The datagrams are views of the window: call `advance` before the window changes. The next scan
        invalidates them. Raises RuntimeError while they are decoded.
        """
        cdef Datagrams batch = Datagrams(capacity)
        cdef const uint8_t[::1] content = window
        cdef fb_bytes input = view_bytes(content)
        cdef size_t consumed = 0
        cdef fb_status status
        self.check_unused()
        batch.owners.append((self, content))
        self.busy = True
        self.scans += 1
        batch.capture = self
        batch.scan = self.scans
        with nogil:
            status = fb_capture_scan(self.capture, input, final, batch.items, batch.capacity, &batch.count,
                                     &consumed)
        self.busy = False
        if status == FB_NO_MEMORY or status == FB_BAD_ARGUMENT:
            check(status)
        return consumed, fb_status_name(status).decode(), batch

    @property
    def counters(self):
        """Counters of packets and records that gave no datagram: status name -> count."""
        return read_statuses(fb_capture_counters(self.capture))

    @property
    def packets(self):
        """Number of packet records read."""
        return fb_capture_get_stats(self.capture).packets

    @property
    def link_types(self):
        """Link types of the packets read, as numbers, in order of first use.

        https://www.tcpdump.org/linktypes.html lists the numbers.
        """
        cdef fb_capture_stats stats = fb_capture_get_stats(self.capture)
        return [stats.link_types[i] for i in range(stats.link_type_count)]

    @property
    def datagrams(self):
        """Number of datagrams returned."""
        return fb_capture_get_stats(self.capture).datagrams


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef inline int to_port(tuple source) except -1:
    """Return the port of (address, port, …)."""
    cdef long port = -1
    if isinstance(source[1], int) or PyIndex_Check(source[1]):
        port = source[1]
    if not 0 <= port <= 65535:
        raise ValueError(f"source {source!r} has port {source[1]!r}; it may be 0 to 65,535")
    return <int> port


cdef int fill_source(fb_datagram *datagram, object source) except -1:
    """Fill in the source from an address as text, or from (address, port, …) as sockets return it."""
    cdef bytes content
    cdef tuple pair
    if isinstance(source, tuple):
        pair = source
        if len(pair) < 2:
            raise ValueError(f"source {source!r} is not (address, port)")
        datagram.source_port = to_port(pair)
        source = pair[0]
    else:
        datagram.source_port = 0
    if not isinstance(source, str):
        raise TypeError(f"source is {type(source).__name__}, not an address as str or (address, port)")
    content = parse_address(source)
    memcpy(datagram.source, PyBytes_AS_STRING(content), 16)
    return 0


cdef int begin_messages(fb_datagram *messages, size_t count, tuple source, uint16_t port) except -1:
    """Write all but the payloads of messages that were received now, from `source` on `port`."""
    memset(messages, 0, count * sizeof(fb_datagram))
    fill_source(&messages[0], source)
    messages[0].time = to_nanoseconds(None)
    messages[0].destination_port = port
    for i in range(1, count):
        messages[i] = messages[0]
    return 0


cdef fb_status take_messages(fb_bytes *stream, fb_datagram *messages, size_t *count) noexcept:
    """Take up to SESSION_MESSAGES messages of IPFIX over TCP from a stream. OK: there may be more."""
    cdef fb_status status = FB_OK
    count[0] = 0
    while status == FB_OK and count[0] < SESSION_MESSAGES:
        status = fb_ipfix_stream_next(stream, &messages[count[0]].payload)
        count[0] += status == FB_OK
    return status


cdef int check_marks(const uint8_t[::1] marks, const uint8_t[::1] stream) except -1:
    """Raise ValueError if a stream may have more messages than marks."""
    if marks.shape[0] < stream.shape[0] // FB_IPFIX_HEADER_SIZE:
        raise ValueError("marks are too few; a stream needs one per 16 bytes")
    return 0


cdef extern from "<time.h>":
    cdef struct timespec:
        int64_t tv_sec
        long tv_nsec
    int timespec_get(timespec *spec, int base)
    enum:
        TIME_UTC


cdef uint64_t get_time():
    """Return the current time in nanoseconds since 1970. It is twice as fast as time.time_ns."""
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return <uint64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef uint64_t to_nanoseconds(object received) except? 0xffffffffffffffff:
    """Return a time of reception in nanoseconds since 1970.

    A whole number is in nanoseconds, another number in seconds. None means the current time.
    """
    cdef int overflow = 0
    cdef long long time
    cdef double micros
    if received is None:
        return get_time()
    if isinstance(received, int):  # first, because the test for float needs a call
        time = PyLong_AsLongLongAndOverflow(received, &overflow)  # -1 if it does not fit
    elif isinstance(received, float):  # one of this century is precise to about a microsecond
        micros = <double> received * 1e6
        time = llrint(micros) * 1000 if 0 <= micros < FB_TIME_MAX // 1000 else -1
    else:
        return to_nanoseconds(to_number(received))
    if time < 0:
        problem = f"received is {received!r}, before 1970 or after the year 2262"
        raise OverflowError(f"{problem}; give seconds as float, or nanoseconds below 2**63 as int")
    return time


cdef object to_number(object received):
    """Return a number of another type as int if it is whole by its type, otherwise as float."""
    try:
        return operator.index(received)
    except TypeError:
        pass
    try:
        return <double> received
    except TypeError:
        fix = "give seconds since 1970 as float, such as datetime.timestamp(), or nanoseconds as int"
        raise TypeError(f"received is {received!r}; {fix}") from None


# The latest exporter. Datagrams of one exporter arrive in runs.
cdef bytes _exporter_address = bytes(16)
cdef str _exporter_text = "::"


cdef str exporter_of(const fb_datagram *datagram):
    """Return the address of the exporter of a datagram as text; for sFlow the address of the agent."""
    global _exporter_address, _exporter_text
    cdef uint8_t address[16]
    fb_datagram_get_exporter(datagram, address)
    if memcmp(address, PyBytes_AS_STRING(_exporter_address), 16):
        _exporter_address, _exporter_text = address[:16], format_address(address)
    return _exporter_text


def pack_datagrams(payloads, sources, received=None):
    """Pack payloads into a batch of datagrams.

    `sources` and `received` are sequences as long as `payloads`, or one value for all.
    """
    cdef list items = list(payloads)
    cdef Datagrams batch = Datagrams(len(items))
    cdef fb_datagram *datagram
    cdef bytes payload
    one_source = isinstance(sources, str) or not hasattr(sources, "__len__") or (
        isinstance(sources, tuple) and len(sources) >= 2 and not isinstance(sources[1], (str, tuple))
    )
    one_time = not hasattr(received, "__len__")
    if not one_source and len(sources) != len(items):
        raise ValueError(f"{len(items)} payloads have {len(sources)} sources; give one, or one per payload")
    if not one_time and len(received) != len(items):
        raise ValueError(f"{len(items)} payloads have {len(received)} times; give one, or one per payload")
    # by position, which is not the index of a pandas Series
    cdef list each_source = [] if one_source else list(sources)
    cdef list each_time = [] if one_time else list(received)
    now = to_nanoseconds(received) if one_time else 0
    for i, item in enumerate(items):
        payload = item if type(item) is bytes else bytes(memoryview(item))
        batch.owners.append(payload)
        datagram = &batch.items[i]
        fill_source(datagram, sources if one_source else each_source[i])
        datagram.destination_port = 0
        datagram.time = now if one_time else to_nanoseconds(each_time[i])
        datagram.payload.data = <const uint8_t *> PyBytes_AS_STRING(payload)
        datagram.payload.size = PyBytes_GET_SIZE(payload)
        batch.count += 1
    return batch


MAX_IPFIX_COLUMNS = FB_IPFIX_COLUMNS
"""Number of columns that a writer can have."""
IPFIX_KINDS = {
    "unsigned": FB_IPFIX_UNSIGNED,
    "signed": FB_IPFIX_SIGNED,
    "zigzag": FB_IPFIX_ZIGZAG,
    "boolean": FB_IPFIX_BOOLEAN,
    "float": FB_IPFIX_FLOAT,
    "address": FB_IPFIX_ADDRESS,
    "seconds": FB_IPFIX_SECONDS,
    "milliseconds": FB_IPFIX_MILLISECONDS,
    "ntp": FB_IPFIX_NTP,
    "octets": FB_IPFIX_OCTETS,
    "list": FB_IPFIX_LIST,
}
"""Forms of values in a record: name -> code of the core."""


cdef class IpfixWriter:
    """Turns length-delimited messages into IPFIX messages.

    `columns` are tuples, by number: (field number, kind, size of the element or member, the elements of IPv4
    and IPv6 flows, element of the members of a list, enterprise number, nanoseconds per unit of a time, enum
    members -> numbers of the element).
    `time_column` is (field number, nanoseconds per unit) of the export time. None: `time`, in seconds since
    1970, is that of all messages.
    """

    cdef fb_memory memory
    cdef fb_ipfix_writer *writer
    cdef fb_ipfix_member *members
    cdef fb_buffer out
    cdef bint busy

    def __cinit__(self, columns, time_column, time):
        cdef fb_ipfix_column table[FB_IPFIX_COLUMNS]
        cdef fb_ipfix_options options
        cdef size_t used = 0
        if len(columns) > FB_IPFIX_COLUMNS:
            raise ValueError(f"{len(columns)} columns are too many; the limit is {FB_IPFIX_COLUMNS}")
        total = sum(len(column[7]) for column in columns)
        self.members = <fb_ipfix_member *> PyMem_Malloc(max(total, 1) * sizeof(fb_ipfix_member))
        if not self.members:
            raise MemoryError
        memset(table, 0, sizeof(table))
        for i, (number, kind, size, elements, list_member, enterprise, unit, mapping) in enumerate(columns):
            table[i].number = number
            table[i].kind = <fb_ipfix_kind> <int> kind
            table[i].size = size
            table[i].elements[0], table[i].elements[1] = elements
            table[i].member = list_member
            table[i].enterprise = enterprise
            table[i].unit = unit
            table[i].members = &self.members[used]
            table[i].member_count = len(mapping)
            for member, value in mapping.items():
                self.members[used].member = member
                self.members[used].value = value
                used += 1
        memset(&options, 0, sizeof(options))
        options.columns = table
        options.count = len(columns)
        options.time_number, options.time_unit = time_column or (0, 1)
        options.time = time
        self.memory = fb_memory_system(0)
        check(fb_ipfix_writer_new(&self.writer, &self.memory, &options))

    def __dealloc__(self):
        fb_ipfix_writer_free(self.writer)
        fb_buffer_free(&self.out)
        PyMem_Free(self.members)

    cdef int claim(self) except -1:
        """Claim the writer for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this writer is used in another thread")
        self.busy = True
        return 0

    cdef bytes take(self):
        content = PyBytes_FromStringAndSize(<const char *> self.out.begin, fb_buffer_size(&self.out))
        self.out.p = self.out.begin
        return content

    def write(self, messages not None):
        """Add length-delimited messages. Return the IPFIX messages that are complete.

        Raises DecodeError if the stream is malformed or truncated, and RuntimeError during a call in another
        thread. The GIL is held if the messages are writable, so that no other thread changes them.
        """
        cdef Py_buffer view
        cdef fb_bytes stream
        cdef fb_status status
        PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
        try:
            stream.data = <const uint8_t *> view.buf
            stream.size = view.len
            self.claim()
            if view.readonly:
                with nogil:
                    status = fb_ipfix_writer_add(self.writer, stream, &self.out)
            else:
                status = fb_ipfix_writer_add(self.writer, stream, &self.out)
            self.busy = False
        finally:
            PyBuffer_Release(&view)
        if status == FB_BAD_MESSAGE or status == FB_MORE_INPUT:
            raise fault_of_stream(0, status)
        check(status)
        return self.take()

    def finish(self):
        """Return the last message, or b"" if there is none.

        Raises RuntimeError during a call in another thread.
        """
        cdef fb_status status
        self.claim()
        status = fb_ipfix_writer_finish(self.writer, &self.out)
        self.busy = False
        check(status)
        return self.take()

    @property
    def values_left_out(self):
        """Number of values that their element cannot hold."""
        return fb_ipfix_writer_get_left_out(self.writer).values

    @property
    def rows_left_out(self):
        """Number of rows without any element."""
        return fb_ipfix_writer_get_left_out(self.writer).rows
