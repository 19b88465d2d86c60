"""Copies of datagrams and messages: forwarded to other collectors, or kept because they were not decoded."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint16_t
from libc.string cimport memcpy, memset

from flowbuf._core.base cimport check, view_bytes
from flowbuf._core.core cimport *
from flowbuf._core.datagrams cimport SESSION_MESSAGES, begin_messages, check_marks, take_messages
from flowbuf._core.net cimport *
from flowbuf._core.sockets cimport Receiver

UNFORWARDED = tuple(fb_unforwarded_name(<fb_unforwarded> i).decode() for i in range(FB_UNFORWARDED_REASONS))
"""Reasons not to forward a datagram; ext/net/forward.h defines them."""

UNSAVED = tuple(fb_unsaved_name(<fb_unsaved> i).decode() for i in range(FB_UNSAVED_REASONS))
"""Reasons not to keep an undecoded datagram; ext/net/undecoded.h defines them."""


cdef bytes make_header():
    cdef uint8_t header[FB_UNDECODED_HEADER_SIZE]
    fb_undecoded_put_header(header)
    return PyBytes_FromStringAndSize(<char *> header, FB_UNDECODED_HEADER_SIZE)


UNDECODED_HEADER = make_header()
"""Header of a pcap file of undecoded datagrams."""


cdef class Forwarder:
    """Sends datagrams and messages to other collectors, without waiting and without the GIL.

    Use it in one thread. It keeps the sockets alive, and does not close them.

    Args:
        targets: Tuples of connected UDP socket, address of 16 bytes (IPv4 as ::ffff:a.b.c.d), port, and
            `original`. If `original`, the socket is raw (IPPROTO_RAW), and datagrams keep the address and
            port of their source.
    """

    cdef fb_memory memory
    cdef fb_forward *forward
    cdef readonly tuple sockets
    """Sockets of the targets, in their order."""

    def __cinit__(self, targets):
        cdef list items = list(targets)
        cdef fb_forward_target *made
        cdef fb_status status
        if not items:
            raise ValueError("a forwarder needs targets")
        made = <fb_forward_target *> PyMem_Malloc(len(items) * sizeof(fb_forward_target))
        if not made:
            raise MemoryError
        try:
            memset(made, 0, len(items) * sizeof(fb_forward_target))
            for i, (socket, address, port, original) in enumerate(items):
                if len(<bytes?> address) != 16:
                    raise ValueError("the address of a target has 16 bytes")
                made[i].socket = socket.fileno()
                made[i].original = original
                memcpy(made[i].address, <const uint8_t *> <const char *> <bytes> address, 16)
                made[i].port = port
            self.memory = fb_memory_system(0)
            status = fb_forward_new(&self.forward, made, len(items), &self.memory)
        finally:
            PyMem_Free(made)
        check(status)
        self.sockets = tuple(item[0] for item in items)

    def __dealloc__(self):
        fb_forward_free(self.forward)

    def read_counters(self):
        """Return one dict per target: `forwarded`, `refused`, and the number per reason of UNFORWARDED.

        Each datagram is in `forwarded`, or in one of the reasons. `refused` is a part of `forwarded`: it
        arrived at a closed port, as far as this was reported.
        """
        cdef const fb_forward_target *target = fb_forward_read_targets(self.forward)
        cdef list counters = []
        for i in range(len(self.sockets)):
            counted = {"forwarded": target[i].sent, "refused": target[i].refused}
            counted.update((name, target[i].unsent[j]) for j, name in enumerate(UNFORWARDED))
            counters.append(counted)
        return counters


cdef class UndecodedBuffer:
    """Keeps datagrams and messages that were not decoded completely, as packet records of pcap.

    A datagram was not decoded completely if it counted a status of class fault or loss, if it is of no flow
    protocol, or if a data set waits for its template. Use it in the thread of its receiver. Call `take` after
    each call that receives, and if `due`.
    """

    cdef fb_undecoded undecoded

    def __dealloc__(self):
        fb_buffer_free(&self.undecoded.records)

    def take(self):
        """Return the records as bytes, and their number. Remove them."""
        cdef fb_buffer *records = &self.undecoded.records
        taken = PyBytes_FromStringAndSize(<char *> records.begin, fb_buffer_size(records))
        count = self.undecoded.count
        fb_undecoded_clear(&self.undecoded)
        return taken, count

    def keep(self, const uint8_t[::1] payload not None, tuple source not None, uint16_t port):
        """Keep bytes that are no message, as one datagram from `source` to `port`."""
        cdef fb_datagram datagram
        begin_messages(&datagram, 1, source, port)
        datagram.payload = view_bytes(payload)
        fb_undecoded_keep_messages(&self.undecoded, &datagram, b"\1", 1)

    @property
    def due(self):
        """True if so much is kept that it should be taken now."""
        return fb_undecoded_is_due(&self.undecoded)

    @property
    def full(self):
        """True to keep no more datagrams. They are counted as `file_full`."""
        return bool(self.undecoded.full)

    @full.setter
    def full(self, bint full):
        self.undecoded.full = full

    def read_counters(self):
        """Return a dict: `undecoded`, and the number per reason of UNSAVED.

        All other undecoded datagrams were taken, or wait.
        """
        counters = {"undecoded": self.undecoded.undecoded}
        counters.update((name, self.undecoded.unsaved[i]) for i, name in enumerate(UNSAVED))
        return counters


def copy_datagrams(Receiver receiver not None, Forwarder forwarder, UndecodedBuffer undecoded):
    """Use the datagrams that a receiver gets from now on. None replaces an earlier object.

    The receiver must have no datagrams that wait to be decoded.
    """
    receiver.claim()
    try:
        if receiver.waiting:
            raise RuntimeError("datagrams of this receiver wait to be decoded; decode them first")
        receiver.forwarder, receiver.undecoded = forwarder, undecoded
        receiver.collect.forward = NULL if forwarder is None else forwarder.forward
        receiver.collect.undecoded = NULL if undecoded is None else &undecoded.undecoded
        if undecoded is not None:  # of an earlier receiver that failed in a batch
            memset(undecoded.undecoded.marks, 0, FB_RECEIVER_MAX_SLOTS)
    finally:
        receiver.busy = False


def copy_messages(const uint8_t[::1] stream not None, const uint8_t[::1] marks not None,
                  tuple source not None, uint16_t port, Forwarder forwarder, UndecodedBuffer undecoded):
    """Copy the complete messages at the start of a stream of IPFIX over TCP, each as one datagram.

    Args:
        stream: Bytes that the peer sent. No other thread may change them during the call.
        marks: 1 for each message to keep, a byte per message: see `ColumnBuilder.decode_session`.
        source: Address and port of the peer.
        port: Port to which it sent them.
        forwarder: Sends all messages. None: they are not sent.
        undecoded: Keeps the marked messages. None: they are not kept.
    """
    cdef fb_datagram messages[SESSION_MESSAGES]
    cdef fb_bytes rest = view_bytes(stream)
    cdef size_t count = 0, copied = 0
    cdef fb_status status = FB_OK
    check_marks(marks, stream)
    begin_messages(messages, SESSION_MESSAGES, source, port)
    while status == FB_OK:
        status = take_messages(&rest, messages, &count)
        if forwarder is not None:
            with nogil:
                fb_forward_send_messages(forwarder.forward, messages, count)
        if undecoded is not None and count:
            fb_undecoded_keep_messages(&undecoded.undecoded, messages, &marks[copied], count)
        copied += count
