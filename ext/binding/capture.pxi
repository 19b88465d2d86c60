# Captures in, datagrams out.

MAX_WINDOW = FB_CAPTURE_MAX_WINDOW
"""Largest window of a capture file that `Capture.scan` needs to make progress, in bytes."""


cdef class Capture:
    """Reads a pcap or pcapng file window by window. `port` selects datagrams to one UDP port."""

    cdef fb_memory memory
    cdef fb_capture *capture
    cdef bint busy
    cdef uint64_t scans
    cdef size_t users  # calls that are reading the datagrams of the last scan

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
        cdef fb_bytes input
        cdef size_t consumed = 0
        cdef fb_status status
        self.check_unused()
        input.data = &content[0] if content.shape[0] else NULL
        input.size = content.shape[0]
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
