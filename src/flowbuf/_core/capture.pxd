"""The functions of ext/core/capture."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from flowbuf._core.core cimport fb_buffer, fb_bytes, fb_datagram, fb_memory, fb_status

cdef extern from "core/capture/capture.h" nogil:
    size_t FB_CAPTURE_MAX_WINDOW
    size_t FB_CAPTURE_START_SIZE
    bint fb_capture_starts_with_flows(fb_bytes start)
    ctypedef struct fb_capture:
        pass
    ctypedef struct fb_capture_options:
        bint any_port
        uint16_t port
    ctypedef struct fb_capture_stats:
        uint64_t packets
        uint64_t datagrams
        uint16_t *link_types
        size_t link_type_count
    fb_status fb_capture_new(fb_capture **out, fb_memory *memory, fb_capture_options options)
    void fb_capture_free(fb_capture *capture)
    fb_status fb_capture_scan(fb_capture *capture, fb_bytes input, bint final, fb_datagram *datagrams,
                              size_t capacity,
                              size_t *count, size_t *consumed)
    const uint64_t *fb_capture_counters(const fb_capture *capture)
    fb_capture_stats fb_capture_get_stats(const fb_capture *capture)

cdef extern from "core/capture/ipfix_write.h" nogil:
    enum:
        FB_IPFIX_COLUMNS
    ctypedef enum fb_ipfix_kind:
        FB_IPFIX_UNSIGNED
        FB_IPFIX_SIGNED
        FB_IPFIX_ZIGZAG
        FB_IPFIX_BOOLEAN
        FB_IPFIX_FLOAT
        FB_IPFIX_ADDRESS
        FB_IPFIX_SECONDS
        FB_IPFIX_MILLISECONDS
        FB_IPFIX_NTP
        FB_IPFIX_OCTETS
        FB_IPFIX_LIST
    ctypedef struct fb_ipfix_member:
        uint64_t member
        uint64_t value
    ctypedef struct fb_ipfix_column:
        uint32_t number
        fb_ipfix_kind kind
        uint8_t size
        uint16_t elements[2]
        uint16_t member
        uint32_t enterprise
        uint64_t unit
        const fb_ipfix_member *members
        size_t member_count
    ctypedef struct fb_ipfix_options:
        const fb_ipfix_column *columns
        size_t count
        uint32_t time_number
        uint64_t time_unit
        uint32_t time
    ctypedef struct fb_ipfix_left_out:
        uint64_t values
        uint64_t rows
    ctypedef struct fb_ipfix_writer:
        pass
    fb_status fb_ipfix_writer_new(fb_ipfix_writer **out, fb_memory *memory, const fb_ipfix_options *options)
    void fb_ipfix_writer_free(fb_ipfix_writer *writer)
    fb_status fb_ipfix_writer_add(fb_ipfix_writer *writer, fb_bytes stream, fb_buffer *out)
    fb_status fb_ipfix_writer_finish(fb_ipfix_writer *writer, fb_buffer *out)
    fb_ipfix_left_out fb_ipfix_writer_get_left_out(const fb_ipfix_writer *writer)
