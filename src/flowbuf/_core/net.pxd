# What the binding uses of ext/net. The contracts stand in the headers.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from flowbuf._core.core cimport (
    fb_buffer, fb_columns, fb_datagram, fb_decoder, fb_key_table, fb_memory, fb_position, fb_prefix,
    fb_status,
)

cdef extern from "net/socket.h" nogil:
    int fb_socket_spread(int socket, uint32_t count)
    int fb_socket_get_drops(int socket, uint32_t *drops)

cdef extern from "net/receiver.h" nogil:
    enum:
        FB_RECEIVER_MAX_SLOTS
    ctypedef struct fb_listener:
        int socket
        uint16_t port
        uint64_t datagrams
        uint64_t bytes
        uint64_t truncated
        uint64_t errors
    ctypedef struct fb_receiver_options:
        size_t slots
        size_t slot_size
        uint32_t pause
    ctypedef struct fb_receiver:
        fb_listener *listeners
        size_t listener_count
        size_t count
        uint64_t calls
        int error
    fb_status fb_receiver_new(fb_receiver **receiver, const fb_listener *listeners, size_t count,
                              fb_receiver_options options, fb_memory *memory)
    void fb_receiver_free(fb_receiver *receiver)
    void fb_receiver_wake(fb_receiver *receiver)

cdef extern from "net/forward.h" nogil:
    ctypedef enum fb_unforwarded:
        FB_UNFORWARDED_REASONS
    const char *fb_unforwarded_name(fb_unforwarded reason)
    ctypedef struct fb_forward_target:
        int socket
        bint original
        uint8_t *address
        uint16_t port
        uint64_t sent
        uint64_t refused
        uint64_t *unsent
    ctypedef struct fb_forward:
        pass
    fb_status fb_forward_new(fb_forward **forward, const fb_forward_target *targets, size_t count,
                             fb_memory *memory)
    void fb_forward_free(fb_forward *forward)
    void fb_forward_send_messages(fb_forward *forward, const fb_datagram *messages, size_t count)
    const fb_forward_target *fb_forward_read_targets(fb_forward *forward)

cdef extern from "net/undecoded.h" nogil:
    ctypedef enum fb_unsaved:
        FB_UNSAVED_REASONS
    const char *fb_unsaved_name(fb_unsaved reason)
    ctypedef struct fb_undecoded:
        uint8_t *marks
        fb_buffer records
        size_t count
        bint full
        uint64_t undecoded
        uint64_t *unsaved
    void fb_undecoded_keep_messages(fb_undecoded *undecoded, const fb_datagram *messages,
                                    const uint8_t *marks, size_t count)
    bint fb_undecoded_is_due(const fb_undecoded *undecoded)
    void fb_undecoded_clear(fb_undecoded *undecoded)
    enum:
        FB_UNDECODED_HEADER_SIZE
    void fb_undecoded_put_header(uint8_t *out)

cdef extern from "net/access_list.h" nogil:
    ctypedef struct fb_access_list:
        pass
    fb_status fb_access_list_new(fb_access_list *list, const fb_prefix *allowed, size_t allowed_count,
                                 const fb_prefix *denied, size_t denied_count, fb_memory *memory)
    void fb_access_list_free(fb_access_list *list)
    bint fb_access_list_admits(const fb_access_list *list, const uint8_t *source)

cdef extern from "net/collect.h" nogil:
    ctypedef enum fb_collect_result:
        FB_COLLECT_FULL
        FB_COLLECT_FAILED
    ctypedef struct fb_collect:
        fb_receiver *receiver
        const fb_access_list *access
        uint64_t denied
        fb_position position
        fb_forward *forward
        fb_undecoded *undecoded
    fb_collect_result fb_collect_columns(fb_collect *collect, fb_decoder *decoder, fb_columns *columns,
                                         uint64_t deadline)

cdef extern from "net/recording.h" nogil:
    ctypedef struct fb_recording:
        fb_datagram *datagrams
        uint32_t *sources
        size_t count
        fb_key_table source_table
        uint64_t latest
    void fb_recording_init(fb_recording *recording, fb_memory *memory, uint64_t seed)
    void fb_recording_free(fb_recording *recording)
    void fb_recording_begin_capture(fb_recording *recording)
    fb_status fb_recording_add(fb_recording *recording, const fb_datagram *datagram)

cdef extern from "net/renumber.h" nogil:
    ctypedef struct fb_renumber:
        pass
    fb_status fb_renumber_new(fb_renumber **out, fb_memory *memory, uint64_t seed, bint now)
    void fb_renumber_free(fb_renumber *renumber)
    void fb_renumber_learn(fb_renumber *renumber, const fb_datagram *datagram)
    fb_status fb_renumber_add(fb_renumber *renumber, const fb_datagram *datagram, uint32_t source)
    void fb_renumber_finish(fb_renumber *renumber, uint32_t duration)

cdef extern from "net/error_reports.h" nogil:
    void fb_error_reports_enable(int socket)

cdef extern from "net/sender.h" nogil:
    ctypedef enum fb_unsent:
        FB_UNSENT_REASONS
    ctypedef enum fb_pace_kind:
        FB_PACE_TOP_SPEED
        FB_PACE_RATE
        FB_PACE_TIMES
    ctypedef struct fb_pace:
        fb_pace_kind kind
        uint64_t rate
        double speed
        uint64_t delay
    ctypedef struct fb_udp_sender:
        const fb_recording *recording
        const int *sockets
        size_t socket_count
        fb_pace pace
        const fb_renumber *renumber
        bint now
        uint64_t limit
        uint64_t handled
        uint64_t sent
        uint64_t bytes
        uint64_t refused
        uint64_t *unsent
    const char *fb_unsent_name(fb_unsent reason)
    int fb_udp_sender_run(fb_udp_sender *sender, uint64_t duration)
    bint fb_udp_sender_is_done(const fb_udp_sender *sender)
