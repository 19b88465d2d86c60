"""Synthetic traffic."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from flowbuf._core.base cimport Buffer, check
from flowbuf._core.core cimport *


def generate(*, str protocol not None, uint64_t flows, uint64_t seed=1, uint32_t exporters=1,
             uint32_t sampling_rate=1000,
             uint64_t start=1735689600000000000, uint64_t flows_per_second=0, uint32_t mtu=0,
             uint32_t template_refresh=0, size_t chunk=1048576):
    """Generate a pcap file of valid traffic, as an iterator over pieces of bytes.

    ext/generate/generate.h describes the options. Raises ValueError if an option is out of range.
    """
    cdef fb_generator_options options
    cdef const char *fault
    memset(&options, 0, sizeof(options))
    options.protocol = fb_generator_find_protocol(protocol.encode())
    if options.protocol == FB_GENERATOR_PROTOCOL_COUNT:
        raise ValueError(f"protocol {protocol!r} cannot be generated")
    options.flows = flows
    options.seed = seed
    options.exporters = exporters
    options.sampling_rate = sampling_rate
    options.start = start
    options.flows_per_second = flows_per_second
    options.mtu = mtu
    options.template_refresh = template_refresh
    fault = fb_generator_options_fault(&options)
    if fault:
        raise ValueError(fault.decode())
    generator = <_Generator> _Generator.__new__(_Generator)
    generator.start(&options, chunk)
    return generator


cdef class _Generator:
    cdef fb_memory memory
    cdef fb_generator *generator
    cdef Buffer buffer
    cdef bint ended
    cdef bint busy

    cdef int start(self, const fb_generator_options *options, size_t chunk) except -1:
        self.memory = fb_memory_system(0)
        self.buffer = Buffer(chunk)
        check(fb_generator_new(&self.memory, options, &self.generator))
        return 0

    def __dealloc__(self):
        fb_generator_free(self.generator)

    def __iter__(self):
        return self

    def __next__(self):
        cdef size_t size = 0
        cdef fb_status status
        cdef fb_buffer *content
        if self.ended or not self.generator:
            raise StopIteration
        if self.busy:
            raise RuntimeError("this generator is in use by another thread")
        self.busy = True
        content = &self.buffer.content
        with nogil:
            status = fb_generator_next(self.generator, content.begin, content.end - content.begin, &size)
        self.busy = False
        self.ended = status == FB_END
        if status != FB_END:
            check(status)
        return PyBytes_FromStringAndSize(<char *> content.begin, size)

    @property
    def flows_written(self):
        """Number of flows written so far."""
        if not self.generator:
            return 0
        return fb_generator_flows_written(self.generator)
