"""UDP sockets: datagrams in for a decoder, and recordings of datagrams out."""
from cpython.exc cimport PyErr_CheckSignals
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from flowbuf._core.base cimport check, draw_seed, new_prefixes, parse_address
from flowbuf._core.core cimport *
from flowbuf._core.datagrams cimport Datagrams
from flowbuf._core.net cimport *

import os

UNSENT = tuple(fb_unsent_name(<fb_unsent> i).decode() for i in range(FB_UNSENT_REASONS))
"""Reasons not to send a datagram; ext/net/sender.h defines them."""


cdef class AccessList:
    """Sources whose datagrams are decoded. It cannot be changed, and any number of threads may use it.

    Args:
        allowed: Networks of `flowbuf.networks.to_prefix`. Without any, all sources are allowed.
        denied: Denied networks. They have priority over allowed ones.
    """

    def __cinit__(self, allowed, denied):
        cdef list admitted = list(allowed), refused = list(denied)
        cdef fb_prefix *first = new_prefixes(admitted)
        cdef fb_prefix *second = NULL
        cdef fb_status status
        self.memory = fb_memory_system(0)
        try:
            second = new_prefixes(refused)
            status = fb_access_list_new(&self.list, first, len(admitted), second, len(refused), &self.memory)
        finally:
            PyMem_Free(first)
            PyMem_Free(second)
        check(status)

    def __dealloc__(self):
        fb_access_list_free(&self.list)

    def admits(self, str address not None):
        """Return True if datagrams of an address are decoded.

        Raises ValueError if the text is no IP address.
        """
        cdef bytes source = parse_address(address)
        return fb_access_list_admits(&self.list, <const uint8_t *> PyBytes_AS_STRING(source))


cdef class Receiver:
    """Receives datagrams from several sockets. `ColumnBuilder.receive` decodes them.

    Use it in one thread at a time, except `wake`. The caller keeps the sockets open.

    Args:
        sockets: Pairs (descriptor, local port) of bound UDP sockets.
        slots: Most datagrams per system call, 1 to 1,024.
        slot_size: Most bytes of a payload, 1 to 65,528. A longer datagram is cut and counted (`truncated`).
        pause: Time to sleep after a system call that returned few datagrams, in nanoseconds below one second.
            One call then returns what would take dozens. The receive buffers must hold the datagrams of that
            time.
        access: Sources whose datagrams are decoded. Others are counted (`denied`). None: all sources.
    """

    def __cinit__(self, sockets, size_t slots=64, size_t slot_size=65528, uint32_t pause=0,
                  AccessList access=None):
        cdef list items = list(sockets)
        cdef fb_receiver_options options
        cdef fb_status status
        cdef fb_listener *listeners = <fb_listener *> PyMem_Malloc(max(len(items), 1) * sizeof(fb_listener))
        if not listeners:
            raise MemoryError
        try:
            for i, (descriptor, port) in enumerate(items):
                listeners[i].socket = descriptor
                listeners[i].port = port
            options.slots = slots
            options.slot_size = slot_size
            options.pause = pause
            self.memory = fb_memory_system(0)
            status = fb_receiver_new(&self.collect.receiver, listeners, len(items), options, &self.memory)
        finally:
            PyMem_Free(listeners)
        check(status)
        self.access = access  # which outlives the receiver
        if access is not None:
            self.collect.access = &access.list

    def __dealloc__(self):
        fb_receiver_free(self.collect.receiver)

    cdef int claim(self) except -1:
        """Claim the receiver for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this receiver is in use by another thread; give each thread its own receiver")
        self.busy = True
        return 0

    def restart(self, AccessList access):
        """Drop the datagrams that wait to be decoded, and continue with another decoder.

        Args:
            access: Sources whose datagrams are decoded from now on. None: all sources.
        """
        self.claim()
        self.collect.receiver.count = 0
        memset(&self.collect.position, 0, sizeof(self.collect.position))
        self.collect.access = NULL if access is None else &access.list
        self.access = access
        self.busy = False

    def wake(self):
        """End the current or next call that receives. Any thread may call it."""
        fb_receiver_wake(self.collect.receiver)

    @property
    def waiting(self):
        """Number of received datagrams that are not decoded completely, because a table was full."""
        return self.collect.receiver.count - self.collect.position.datagram

    @property
    def denied(self):
        """Number of datagrams of sources that the access list does not admit."""
        return self.collect.denied

    @property
    def interrupted(self):
        """True if the first of the waiting datagrams is decoded in part, and is counted as decoded."""
        return self.collect.position.set > 0

    def read_counters(self):
        """Return one dict per socket: `datagrams`, `bytes`, `truncated` and `errors`."""
        cdef fb_listener *listener
        cdef list counters = []
        if self.busy:
            raise RuntimeError("this receiver is in use by another thread; read its counters in that thread")
        for i in range(self.collect.receiver.listener_count):
            listener = &self.collect.receiver.listeners[i]
            counters.append({"datagrams": listener.datagrams, "bytes": listener.bytes,
                             "truncated": listener.truncated, "errors": listener.errors})
        return counters


def spread_sockets(int descriptor, uint32_t count):
    """Give each sender one socket of a SO_REUSEPORT group, by a hash of the source address.

    Call it for one socket of the group, after all `count` sockets are bound.

    Raises OSError if the system cannot do this.
    """
    error = fb_socket_spread(descriptor, count)
    if error:
        raise OSError(error, os.strerror(error))


def read_drops(int descriptor):
    """Return the number of datagrams that the kernel dropped at a socket, modulo 2**32.

    Raises OSError if the system does not count them.
    """
    cdef uint32_t drops
    error = fb_socket_get_drops(descriptor, &drops)
    if error:
        raise OSError(error, os.strerror(error))
    return drops


# Sending ----------------------------------------------------------------------------------------------------


cdef class Recording:
    """Datagrams in memory, in the order in which they are sent. Use it in one thread at a time."""

    cdef fb_memory memory
    cdef fb_recording recording
    cdef fb_renumber *numbers
    cdef bint complete  # it takes no more datagrams
    cdef bint sent

    def __cinit__(self):
        self.memory = fb_memory_system(0)
        fb_recording_init(&self.recording, &self.memory, draw_seed())

    def __dealloc__(self):
        fb_renumber_free(self.numbers)
        fb_recording_free(&self.recording)

    cdef int check_open(self) except -1:
        if self.complete:
            raise RuntimeError("this recording was already renumbered or sent; fill another one")
        return 0

    def __len__(self):
        return self.recording.count

    @property
    def sources(self):
        """Number of sources: pairs of address and port."""
        return self.recording.source_table.count

    @property
    def duration(self):
        """Nanoseconds from the first datagram to the last one."""
        return self.recording.latest

    def begin_capture(self):
        """Begin the next capture. Its first datagram follows the latest one immediately."""
        fb_recording_begin_capture(&self.recording)

    def add(self, Datagrams batch not None, size_t limit):
        """Append copies of the first `limit` datagrams of a batch."""
        cdef size_t i
        self.check_open()
        batch.hold()
        try:
            for i in range(min(limit, batch.count)):
                check(fb_recording_add(&self.recording, &batch.items[i]))
        finally:
            batch.let_go()

    def renumber(self, bint now, size_t sockets):
        """Write sequence numbers and uptimes without gaps, now and in all repetitions.

        ext/net/renumber.h describes them. `now`: the sender writes the time of sending. `sockets`: number of
        sockets of the sender; sources that share one also share a sequence.
        """
        cdef fb_renumber *numbers = NULL
        self.check_open()
        self.complete = True
        check(fb_renumber_new(&numbers, &self.memory, draw_seed(), now))
        try:
            self.write_numbers(numbers, sockets)
            self.numbers, numbers = numbers, NULL
        finally:
            fb_renumber_free(numbers)

    cdef int write_numbers(self, fb_renumber *numbers, size_t sockets) except -1:
        cdef size_t i
        cdef const fb_datagram *datagrams = self.recording.datagrams
        cdef uint64_t milliseconds = self.recording.latest // 1000000
        for i in range(self.recording.count):
            fb_renumber_learn(numbers, &datagrams[i])
            if i % 4096 == 0:
                PyErr_CheckSignals()
        for i in range(self.recording.count):
            check(fb_renumber_add(numbers, &datagrams[i], self.recording.sources[i] % sockets))
            if i % 4096 == 0:
                PyErr_CheckSignals()
        # Half of the range of uptimes and more would look like a step back.
        fb_renumber_finish(numbers, milliseconds if milliseconds < 2**31 else 0)
        return 0


cdef class Sender:
    """Sends a recording to connected sockets, which must stay open."""

    cdef Recording recording
    cdef object sockets
    cdef int *descriptors
    cdef fb_udp_sender sender
    cdef bint busy

    def __cinit__(self, Recording recording not None, sockets, *, rate=None, speed=None, bint now=False,
                  limit=None):
        """`rate`: datagrams per second. `speed`: seconds of the recording per second. Neither: top speed.

        `limit` counts the datagrams of all repetitions. None: no limit. A recording can be sent once.
        """
        sockets = tuple(sockets)  # the caller may change its list
        if not len(recording) or not sockets:
            raise ValueError("a sender needs datagrams and sockets")
        if recording.sent:
            raise RuntimeError("this recording was already sent; fill another one")
        self.descriptors = <int *> PyMem_Malloc(len(sockets) * sizeof(int))
        if not self.descriptors:
            raise MemoryError
        for i, socket in enumerate(sockets):
            self.descriptors[i] = socket.fileno()
            fb_error_reports_enable(self.descriptors[i])
        memset(&self.sender, 0, sizeof(self.sender))
        self.recording, self.sockets = recording, sockets
        self.sender.recording = &recording.recording
        self.sender.sockets = self.descriptors
        self.sender.socket_count = len(sockets)
        self.sender.renumber = recording.numbers
        self.sender.now = now
        self.sender.limit = UINT64_MAX if limit is None else limit
        self.choose_pace(rate, speed)
        recording.complete = recording.sent = True

    def __dealloc__(self):
        PyMem_Free(self.descriptors)

    cdef int choose_pace(self, object rate, object speed) except -1:
        if rate is not None and not 1 <= rate <= 10**9:
            raise ValueError(f"rate is {rate}; it may be 1 to 1,000,000,000 datagrams per second")
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"speed is {speed}; it must be a number above 0")
        if rate is not None:
            self.sender.pace.kind = FB_PACE_RATE
            self.sender.pace.rate = rate
        elif speed is not None:
            self.sender.pace.kind = FB_PACE_TIMES
            self.sender.pace.speed = speed
        else:
            self.sender.pace.kind = FB_PACE_TOP_SPEED
        return 0

    def run(self, double seconds):
        """Send for at most `seconds`, or until a signal arrives.

        Raises OSError for an error of the system that is not one of UNSENT.
        """
        cdef uint64_t duration = <uint64_t> (min(seconds, 1e9) * 1e9) if seconds > 0 else 0
        cdef int error
        if self.busy:
            raise RuntimeError("this sender is in use by another thread")
        self.busy = True
        with nogil:
            error = fb_udp_sender_run(&self.sender, duration)
        self.busy = False
        if error:
            raise OSError(error, os.strerror(error))

    @property
    def done(self):
        """True if all datagrams up to the limit were handled."""
        return fb_udp_sender_is_done(&self.sender)

    @property
    def handled(self):
        """Number of datagrams that were sent, or counted as not sent."""
        return self.sender.handled

    @property
    def sent(self):
        """Number of datagrams that the system accepted."""
        return self.sender.sent

    @property
    def bytes(self):
        """Sum of their payloads in bytes."""
        return self.sender.bytes

    @property
    def refused(self):
        """Number of datagrams that the receiver's host reported as sent to a closed port."""
        return self.sender.refused

    @property
    def unsent(self):
        """Datagrams that the system did not accept: reason -> count. Zeros are left out."""
        return {name: self.sender.unsent[i] for i, name in enumerate(UNSENT) if self.sender.unsent[i]}

    @property
    def delay(self):
        """Nanoseconds by which the schedule was delayed, because sending took too long."""
        return self.sender.pace.delay
