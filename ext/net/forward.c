/* One system call sends many datagrams of a batch to a target. After an error, the next call begins
   at the datagram after it. */
#include "net/forward.h"

#include <errno.h>

#include "core/base/buffer.h"
#include "core/packet/packet_write.h"
#include "net/error_reports.h"
#include "net/socket.h"

struct fb_forward {
    fb_forward_target *targets;
    size_t count;
    fb_memory *memory;
    fb_buffer packets;                        /* with headers, for targets that keep the source */
    fb_datagram whole[FB_RECEIVER_MAX_SLOTS]; /* views of the datagrams that are not truncated */
};

const char *fb_unforwarded_name(fb_unforwarded reason) {
    static const char *const names[] = {
#define FB_X(constant, name) name,
        FB_UNFORWARDED_LIST(FB_X)
#undef FB_X
    };
    return names[reason];
}

fb_status fb_forward_new(fb_forward **forward, const fb_forward_target *targets, size_t count,
                         fb_memory *memory) {
    *forward = NULL;
    fb_forward *made = fb_memory_allocate(memory, sizeof(fb_forward));
    if (!made) return FB_NO_MEMORY;
    made->memory = memory;
    made->count = count;
    made->targets = fb_memory_allocate(memory, count * sizeof(fb_forward_target));
    if (!made->targets) {
        fb_forward_free(made);
        return FB_NO_MEMORY;
    }
    memcpy(made->targets, targets, count * sizeof(fb_forward_target));
    for (size_t i = 0; i < count; i++) fb_error_reports_enable(targets[i].socket);
    *forward = made;
    return FB_OK;
}

void fb_forward_free(fb_forward *forward) {
    if (!forward) return;
    fb_buffer_free(&forward->packets);
    fb_memory_release(forward->memory, forward->targets,
                      forward->count * sizeof(fb_forward_target));
    fb_memory_release(forward->memory, forward, sizeof(fb_forward));
}

/* Errors -------------------------------------------------------------------------------------- */

static fb_unforwarded find_reason(int error) {
    switch (error) {
        case EAGAIN: return FB_UNFORWARDED_BLOCKED;
        case ENOBUFS:
        case ENOMEM: return FB_UNFORWARDED_NO_BUFFERS;
        case EMSGSIZE: return FB_UNFORWARDED_TOO_LONG;
        case EADDRNOTAVAIL:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ENETDOWN:
        case ENETUNREACH: return FB_UNFORWARDED_UNREACHABLE;
        case EACCES:
        case EPERM: return FB_UNFORWARDED_FORBIDDEN;
        default: return FB_UNFORWARDED_OTHER;
    }
}

/* Count the reports of a target. Return true if there was one. */
static bool read_reports(fb_forward_target *target) {
    fb_error_reports reports = fb_error_reports_read(target->socket);
    target->refused += reports.refused;
    return reports.any;
}

/* Handle the error of the first of `left` datagrams. Return the number of datagrams that are given
   up; 0: an earlier datagram caused the error. */
static size_t handle_error(fb_forward_target *target, int error, size_t left) {
    if (read_reports(target)) return 0;
    if (error == ECONNREFUSED) {
        target->refused += !FB_HAS_ERROR_REPORTS;
        return 0;
    }
    fb_unforwarded reason = find_reason(error);
    size_t lost =
        reason == FB_UNFORWARDED_BLOCKED ? left : 1; /* a full buffer takes none of them */
    target->unsent[reason] += lost;
    return lost;
}

/* Sending ------------------------------------------------------------------------------------- */

/* Send datagrams, or count them. The number of attempts is limited, because a hostile target could
   report errors without end. */
static void send_all(fb_forward_target *target, const fb_datagram *datagrams, size_t count) {
    for (size_t attempts = 2 * count; count && attempts; attempts--) {
        unsigned together = (unsigned)(count < FB_SOCKET_BATCH ? count : FB_SOCKET_BATCH);
        int sent = fb_socket_send(target->socket, datagrams, together);
        size_t handled = sent < 0 ? handle_error(target, errno, count) : (size_t)sent;
        if (sent > 0) target->sent += (size_t)sent;
        /* a call that ends early may have met a report, and the queue is short */
        if (sent > 0 && (unsigned)sent < together) read_reports(target);
        datagrams += handled;
        count -= handled;
    }
    target->unsent[FB_UNFORWARDED_OTHER] += count;
}

/* Write a datagram with the headers of its source behind the earlier packets. Return the reason if
   IP cannot express it, or FB_UNFORWARDED_REASONS. REQUIRES: room. */
static fb_unforwarded put_packet(fb_buffer *packets, const fb_forward_target *target,
                                 const fb_datagram *datagram, fb_bytes *packet) {
    fb_datagram addressed = *datagram;
    if (fb_is_mapped(datagram->source) != fb_is_mapped(target->address))
        return FB_UNFORWARDED_OTHER_FAMILY;
    memcpy(addressed.destination, target->address, sizeof(addressed.destination));
    addressed.destination_port = target->port;
    uint8_t *end = fb_put_datagram(packets->p, &addressed);
    if (!end) return FB_UNFORWARDED_TOO_LONG;
    *packet = (fb_bytes){packets->p, (size_t)(end - packets->p)};
    packets->p = end;
    return FB_UNFORWARDED_REASONS;
}

/* Send up to FB_SOCKET_BATCH datagrams with the addresses of their sources. */
static void send_packets(fb_buffer *packets, fb_forward_target *target,
                         const fb_datagram *datagrams, size_t count) {
    fb_datagram made[FB_SOCKET_BATCH];
    size_t room = 0, possible = 0;
    packets->p = packets->begin;
    for (size_t i = 0; i < count; i++) room += datagrams[i].payload.size + FB_DATAGRAM_HEADERS;
    if (fb_buffer_reserve(packets, room) != FB_OK) {
        target->unsent[FB_UNFORWARDED_NO_BUFFERS] += count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        fb_unforwarded reason = put_packet(packets, target, &datagrams[i], &made[possible].payload);
        if (reason == FB_UNFORWARDED_REASONS) possible++;
        else target->unsent[reason]++;
    }
    send_all(target, made, possible);
}

/* Choose the datagrams that were received completely. Return their number. */
static size_t choose_whole(fb_forward *forward, const fb_receiver *receiver) {
    size_t count = 0;
    for (size_t i = 0; i < receiver->count; i++) {
        const fb_datagram *datagram = &receiver->datagrams[i];
        if (!fb_receiver_is_truncated(receiver, datagram)) forward->whole[count++] = *datagram;
    }
    return count;
}

void fb_forward_send_messages(fb_forward *forward, const fb_datagram *messages, size_t count) {
    for (fb_forward_target *target = forward->targets; target < forward->targets + forward->count;
         target++) {
        size_t step = target->original ? FB_SOCKET_BATCH : count;
        for (size_t i = 0; i < count; i += step) {
            size_t some = count - i < step ? count - i : step;
            if (target->original) send_packets(&forward->packets, target, &messages[i], some);
            else send_all(target, &messages[i], some);
        }
    }
}

void fb_forward_send(fb_forward *forward, const fb_receiver *receiver) {
    size_t count = choose_whole(forward, receiver);
    for (size_t i = 0; i < forward->count; i++)
        forward->targets[i].unsent[FB_UNFORWARDED_TRUNCATED] += receiver->count - count;
    fb_forward_send_messages(forward, forward->whole, count);
}

const fb_forward_target *fb_forward_read_targets(fb_forward *forward) {
    for (size_t i = 0; i < forward->count; i++) read_reports(&forward->targets[i]);
    return forward->targets;
}
