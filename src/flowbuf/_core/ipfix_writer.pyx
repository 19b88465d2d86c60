"""Messages of a schema to IPFIX files."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from flowbuf._core.base cimport check, fault_of_stream, view_bytes
from flowbuf._core.capture cimport *
from flowbuf._core.core cimport *

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
}
"""Forms of values in a record: name -> code of the core."""


cdef class IpfixWriter:
    """Turns length-delimited messages into IPFIX messages.

    `columns` are tuples, by number: (field number, kind, size of the element, the elements of IPv4 and IPv6
    flows, enterprise number, nanoseconds per unit of a time, enum members -> numbers of the element).
    `time_column` is (field number, nanoseconds per unit) of the export time. None: `time`, in seconds since
    1970, is that of all messages.
    """

    cdef fb_memory memory
    cdef fb_ipfix_writer *writer
    cdef fb_ipfix_member *members
    cdef fb_buffer out

    def __cinit__(self, columns, time_column, time):
        cdef fb_ipfix_column table[FB_IPFIX_COLUMNS]
        cdef fb_ipfix_options options
        cdef size_t used = 0
        if len(columns) > FB_IPFIX_COLUMNS:
            raise ValueError(f"{len(columns)} columns are too many; the limit is {FB_IPFIX_COLUMNS}")
        total = sum(len(column[6]) for column in columns)
        self.members = <fb_ipfix_member *> PyMem_Malloc(max(total, 1) * sizeof(fb_ipfix_member))
        if not self.members:
            raise MemoryError
        memset(table, 0, sizeof(table))
        for i, (number, kind, size, elements, enterprise, unit, mapping) in enumerate(columns):
            table[i].number = number
            table[i].kind = <fb_ipfix_kind> <int> kind
            table[i].size = size
            table[i].elements[0], table[i].elements[1] = elements
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

    cdef bytes take(self):
        content = PyBytes_FromStringAndSize(<const char *> self.out.begin, fb_buffer_size(&self.out))
        self.out.p = self.out.begin
        return content

    def write(self, const uint8_t[::1] messages not None):
        """Add length-delimited messages. Return the IPFIX messages that are complete.

        Raises DecodeError if the stream is malformed or truncated.
        """
        cdef fb_bytes stream = view_bytes(messages)
        cdef fb_status status
        with nogil:
            status = fb_ipfix_writer_add(self.writer, stream, &self.out)
        if status == FB_BAD_MESSAGE or status == FB_MORE_INPUT:
            raise fault_of_stream(0, status)
        check(status)
        return self.take()

    def finish(self):
        """Return the last message, or b"" if there is none."""
        check(fb_ipfix_writer_finish(self.writer, &self.out))
        return self.take()

    @property
    def values_left_out(self):
        """Number of values that their element cannot hold."""
        return fb_ipfix_writer_get_left_out(self.writer).values

    @property
    def rows_left_out(self):
        """Number of rows without any element."""
        return fb_ipfix_writer_get_left_out(self.writer).rows
