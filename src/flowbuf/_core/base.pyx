"""Status codes, exceptions and addresses."""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Malloc
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from flowbuf._core.core cimport *

from flowbuf.errors import DecodeError, FlowbufError

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
