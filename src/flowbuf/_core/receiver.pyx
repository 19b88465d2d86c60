"""UDP sockets in, datagrams for a decoder out."""
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t

from flowbuf._core.base cimport check
from flowbuf._core.core cimport *
from flowbuf._core.net cimport *

import os


cdef class Receiver:
    """Receives datagrams from several sockets. `ColumnBuilder.receive` decodes them.

    Use it in one thread at a time, except `wake`. The caller keeps the sockets open.

    Args:
        sockets: Pairs (descriptor, local port) of bound UDP sockets.
        slots: Most datagrams per system call, 1 to 1,024.
        slot_size: Most bytes of a payload, 1 to 65,528. A longer datagram is cut and counted (`truncated`).
    """

    def __cinit__(self, sockets, size_t slots=64, size_t slot_size=65528):
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
            self.memory = fb_memory_system(0)
            status = fb_receiver_new(&self.collect.receiver, listeners, len(items), options, &self.memory)
        finally:
            PyMem_Free(listeners)
        check(status)

    def __dealloc__(self):
        fb_receiver_free(self.collect.receiver)

    cdef int claim(self) except -1:
        """Claim the receiver for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this receiver is in use by another thread; give each thread its own receiver")
        self.busy = True
        return 0

    def wake(self):
        """End the current or next call that receives. Any thread may call it."""
        fb_receiver_wake(self.collect.receiver)

    @property
    def calls(self):
        """Number of system calls that returned datagrams."""
        return self.collect.receiver.calls

    @property
    def waiting(self):
        """Number of received datagrams that are not decoded completely, because a table was full."""
        return self.collect.receiver.count - self.collect.position.datagram

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
