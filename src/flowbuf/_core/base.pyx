"""Status codes, exceptions, addresses, and the output buffer of decoders."""
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from flowbuf._core.core cimport *

from flowbuf.errors import DecodeError, FlowbufError

import os

cdef extern from *:
    """
    #if defined(__clang__)
    #define FB_COMPILER __VERSION__
    #elif defined(__GNUC__)
    #define FB_COMPILER "GCC " __VERSION__
    #else
    #define FB_COMPILER "unknown"
    #endif
    """
    const char *FB_COMPILER

COMPILER = FB_COMPILER.decode()
"""Compiler of the core, for example "GCC 12.2.0"."""

PROCESSORS = ("any", "bmi2", "avx512")[: <int> fb_processor_find()]
"""Kinds of processors whose instructions this one has, the newest last; ext/core/base/base.h defines them."""

_CLASSES = ("control", "fault", "loss", "note")

STATUSES = {
    fb_status_name(<fb_status> i).decode(): (
        _CLASSES[fb_status_get_class(<fb_status> i)],
        fb_status_text(<fb_status> i).decode(),
    )
    for i in range(FB_STATUS_COUNT)
}
"""Every status of the core: name -> (class, text).

The classes are control, fault, loss and note; ext/core/base/base.h defines them.
"""


cdef void *take_memory(size_t count, size_t size, list blocks) except NULL:
    """Return zeroed memory that lives as long as the list `blocks`."""
    cdef bytearray block = bytearray(count * size + 1)
    blocks.append(block)
    return PyByteArray_AS_STRING(block)


cdef int describe_field(fb_codec_field *core, size_t slot, dict field, list blocks) except -1:
    """Fill a field of the core from its description. Memory is added to `blocks`."""
    cdef int32_t *members
    core.number = field["number"]
    core.type = field["kind"]
    core.repeated = field["repeated"]
    core.packed = field["packed"]
    core.presence = field["presence"]
    core.required = field["required"]
    core.slot = <uint16_t> slot
    core.oneof = field["oneof"]
    core.least = field["least"]
    core.most = field["most"]
    if field["members"] is not None:
        core.member_count = len(field["members"])
        members = <int32_t *> take_memory(core.member_count, sizeof(int32_t), blocks)
        for i, member in enumerate(field["members"]):
            members[<size_t> i] = member
        core.members = members
    check(fb_codec_field_finish(core))


cdef int check(fb_status status) except -1:
    """Return 0 for FB_OK. Raise MemoryError or FlowbufError for any other status.

    Faults of the input raise DecodeError or EncodeError elsewhere, with their place in the input.
    """
    if status == FB_OK:
        return 0
    if status == FB_NO_MEMORY:
        raise MemoryError(fb_status_text(status).decode())
    raise FlowbufError(fb_status_text(status).decode())


cdef object fault_of_stream(size_t offset, fb_status status):
    """Return the exception for the status of fb_stream_next at a bad message, which begins at `offset`."""
    what = "cut short" if status == FB_MORE_INPUT else "malformed"
    return DecodeError(f"byte {offset}: the message is {what}", status="bad_message", offset=offset)


cdef dict read_statuses(const uint64_t *counts):
    cdef int i
    return {fb_status_name(<fb_status> i).decode(): counts[i] for i in range(FB_STATUS_COUNT) if counts[i]}


cdef str format_address(const uint8_t *address):
    """Return 16 bytes as text, with IPv4-mapped addresses as IPv4."""
    cdef char text[FB_FORMAT_ADDRESS_MAX]
    return text[:fb_format_address(text, address) - text].decode("ascii")


def format_ip(const uint8_t[::1] content not None):
    """Return an address of 4 or 16 bytes as text.

    IPv6 is formatted as in RFC 5952; IPv4 and IPv4-mapped addresses are dotted.
    """
    cdef uint8_t address[16]
    if content.shape[0] != 4 and content.shape[0] != 16:
        raise ValueError(f"an address has 4 or 16 bytes, not {content.shape[0]}")
    fb_store_address(address, &content[0], content.shape[0])
    return format_address(address)


cdef uint64_t draw_seed() except? 0:
    """Return a seed for a hash, which nobody can guess."""
    return int.from_bytes(os.urandom(8), "little")


cdef fb_prefix *new_prefixes(list prefixes) except NULL:
    """Convert networks of `flowbuf.networks.to_prefix`. The caller frees the result with PyMem_Free."""
    cdef fb_prefix *items = <fb_prefix *> PyMem_Malloc(max(len(prefixes), 1) * sizeof(fb_prefix))
    cdef bytes address
    if not items:
        raise MemoryError
    for i, (address, bits) in enumerate(prefixes):
        memcpy(items[i].address, PyBytes_AS_STRING(address), 16)
        items[i].bits = bits
    return items


cdef dict _addresses = {}  # text -> 16 bytes, of recent exporters
# The latest address. Datagrams of one exporter arrive in runs, and comparing text is faster than hashing it.
cdef str _latest_text = "::"
cdef bytes _latest_address = bytes(16)


cdef bytes parse_address(str text):
    global _latest_text, _latest_address
    if text != _latest_text:
        _latest_address = find_address(text)
        _latest_text = text
    return _latest_address


cdef bytes find_address(str text):
    cdef bytes content = _addresses.get(text)
    if content is not None:
        return content
    import socket
    plain = text.partition("%")[0]
    try:
        if ":" in plain:
            content = socket.inet_pton(socket.AF_INET6, plain)
        else:
            content = b"\0\0\0\0\0\0\0\0\0\0\xff\xff" + socket.inet_pton(socket.AF_INET, plain)
    except OSError:
        raise ValueError(f"{text!r} is not an IP address") from None
    if len(_addresses) >= 65536:
        _addresses.clear()
    _addresses[text] = content
    return content


# Columns of addresses ---------------------------------------------------------------------------------------

cdef enum:
    ADDRESS_SIZE = 16


cdef Py_ssize_t count_addresses(const uint8_t[::1] addresses) except -1:
    if len(addresses) % ADDRESS_SIZE:
        raise ValueError(f"{len(addresses)} bytes are not addresses of {ADDRESS_SIZE} bytes each")
    return len(addresses) // ADDRESS_SIZE


cdef bytearray new_numbers(Py_ssize_t count):
    return PyByteArray_FromStringAndSize(NULL, count * <Py_ssize_t> sizeof(int32_t))


cdef class NetworkTable:
    """Finds the longest network that contains an address.

    Args:
        networks: Networks of `flowbuf.networks.to_prefix`, each once.

    Attributes:
        outer: For each network, the index of the longest network around it, or -1.
    """

    cdef fb_memory memory
    cdef fb_prefix_table table
    cdef readonly list outer

    def __cinit__(self, networks):
        cdef list items = list(networks)
        cdef fb_prefix *prefixes = new_prefixes(items)
        cdef uint32_t *outer = <uint32_t *> PyMem_Malloc(max(len(items), 1) * sizeof(uint32_t))
        cdef fb_status status = FB_NO_MEMORY
        self.memory = fb_memory_system(0)
        try:
            if outer:
                memset(outer, 0xff, max(len(items), 1) * sizeof(uint32_t))  # FB_PREFIX_NONE
                status = fb_prefix_table_new(&self.table, prefixes, len(items), outer, &self.memory)
            check(status)
            self.outer = [<int32_t> outer[i] for i in range(len(items))]
        finally:
            PyMem_Free(prefixes)
            PyMem_Free(outer)

    def __dealloc__(self):
        fb_prefix_table_free(&self.table)

    def find(self, const uint8_t[::1] addresses not None):
        """Return the index of the longest network for each address of 16 bytes, or -1.

        The indexes are 32-bit integers in the byte order of the machine.
        """
        cdef Py_ssize_t i, count = count_addresses(addresses)
        cdef bytearray found = new_numbers(count)
        cdef int32_t *numbers = <int32_t *> PyByteArray_AS_STRING(found)
        with nogil:
            for i in range(count):
                numbers[i] = <int32_t> fb_prefix_table_find(&self.table, &addresses[ADDRESS_SIZE * i])
        return found


cdef class AddressRows:
    """The row of each address in a table of results. Use it in one thread at a time.

    Args:
        choose: Called with the new addresses of a batch, 16 bytes each. It returns their rows, as 32-bit
            integers in the byte order of the machine.
    """

    cdef fb_memory memory
    cdef fb_key_table table
    cdef object choose
    cdef int32_t *rows  # of the addresses of the table
    cdef uint32_t known  # number of addresses whose row is known
    cdef bint busy

    def __cinit__(self, choose):
        self.choose = choose
        self.memory = fb_memory_system(0)
        self.table.memory = &self.memory
        self.table.seed = draw_seed()
        self.table.size = ADDRESS_SIZE

    def __dealloc__(self):
        fb_key_table_free(&self.table)
        PyMem_Free(self.rows)

    def __len__(self):
        return self.known

    cdef int claim(self) except -1:
        if self.busy:
            raise RuntimeError("these rows are in use; use them in one thread at a time")
        self.busy = True
        return 0

    def clear(self):
        """Forget all addresses."""
        self.claim()
        self.forget()
        self.busy = False

    cdef void forget(self) noexcept:
        fb_key_table_free(&self.table)
        PyMem_Free(self.rows)
        self.rows = NULL
        self.known = 0

    def find(self, const uint8_t[::1] addresses not None):
        """Return the row of each address of 16 bytes, in the form in which `choose` returns rows."""
        cdef Py_ssize_t i, count = count_addresses(addresses)
        cdef bytearray found = new_numbers(count)
        cdef uint32_t *indexes = <uint32_t *> PyByteArray_AS_STRING(found)
        cdef fb_status status
        if not count:
            return found
        self.claim()
        try:
            with nogil:
                status = fb_key_table_get_many(&self.table, &addresses[0], count, indexes)
            check(status)
            if self.table.count > self.known:
                self.learn()
            with nogil:
                for i in range(count):
                    indexes[i] = <uint32_t> self.rows[indexes[i]]
            return found
        except BaseException:
            self.forget()  # new addresses have no row
            raise
        finally:
            self.busy = False

    cdef int learn(self) except -1:
        """Choose the rows of new addresses."""
        cdef uint32_t more = self.table.count - self.known
        cdef const uint8_t[::1] chosen = memoryview(self.choose(PyBytes_FromStringAndSize(
            <const char *> fb_key_table_key(&self.table, self.known), ADDRESS_SIZE * <Py_ssize_t> more
        ))).cast("B")
        cdef int32_t *rows
        if len(chosen) != more * <Py_ssize_t> sizeof(int32_t):
            raise ValueError(f"{len(chosen)} bytes are not the rows of {more} addresses")
        rows = <int32_t *> PyMem_Realloc(self.rows, self.table.count * sizeof(int32_t))
        if not rows:
            raise MemoryError
        self.rows = rows
        memcpy(rows + self.known, &chosen[0], len(chosen))
        self.known = self.table.count
        return 0


cdef class Buffer:
    """A buffer of the core that Python can view.

    A memoryview shows the bytes before `content.p`. A decoder resets `content.p` before it writes. It never
    writes to a buffer that has views, but continues in another one. Until it has written, there can be no new
    views, because the memory may move.
    """

    def __cinit__(self, size_t capacity):
        check(fb_buffer_reserve(&self.content, max(capacity, 1)))

    def __dealloc__(self):
        fb_buffer_free(&self.content)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.writing:
            raise BufferError("the buffer is being written, by a call in another thread")
        PyBuffer_FillInfo(view, self, self.content.begin, fb_buffer_size(&self.content), 1, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    cdef void give(self, fb_row *row, size_t used) noexcept:
        """Make this buffer the output of `row`. Rows are written after the first `used` bytes.

        Set `writing` to False to allow views again.
        """
        self.writing = True
        fb_row_set_output(row, self.content.begin, self.content.end - self.content.begin, used)

    cdef int grow(self, fb_row *row, size_t more) except -1:
        """Make room for `more` bytes after the rows written so far."""
        cdef size_t used = fb_row_size(row)
        self.content.p = self.content.begin + used
        check(fb_buffer_grow(&self.content, more))
        self.give(row, used)
        return 0

    cdef bytes copy(self, const fb_row *row):
        """Return the rows written so far."""
        return PyBytes_FromStringAndSize(<char *> self.content.begin, fb_row_size(row))
