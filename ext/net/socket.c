#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* options of sockets */
#endif
#include "net/socket.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#ifdef __linux__
#include <linux/filter.h>
#include <linux/sock_diag.h>

enum { GOLDEN_RATIO = 0x9E3779B1 }; /* of 2^32: multiplicative hashing */

int fb_socket_spread(int socket, uint32_t count) {
    /* The program sees the datagram from its payload on. SKF_NET_OFF addresses the IP header: the
       source is at byte 12 of IPv4, and at bytes 8 to 23 of IPv6. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4), /* A: the IP version */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 2, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 12),
        BPF_STMT(BPF_JMP | BPF_JA, 10),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 8),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 12),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 16),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 20),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, GOLDEN_RATIO), /* the jump from IPv4 leads here */
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, count),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program;
    memset(&program, 0, sizeof(program)); /* with its padding, which the kernel copies too */
    program.len = sizeof(code) / sizeof(*code);
    program.filter = code;
    if (!count) return EINVAL;
    int failed =
        setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
    return failed ? errno : 0;
}

int fb_socket_get_drops(int socket, uint32_t *drops) {
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof(memory);
    if (getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory, &size)) return errno;
    if (size <= SK_MEMINFO_DROPS * sizeof(*memory)) return ENOSYS; /* before Linux 4.12 */
    *drops = memory[SK_MEMINFO_DROPS];
    return 0;
}

int fb_socket_send(int socket, const fb_datagram *datagrams, unsigned count) {
    struct mmsghdr messages[FB_SOCKET_BATCH];
    struct iovec parts[FB_SOCKET_BATCH];
    for (unsigned i = 0; i < count; i++) {
        parts[i] =
            (struct iovec){(void *)(uintptr_t)datagrams[i].payload.data, datagrams[i].payload.size};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
    }
    return sendmmsg(socket, messages, count, MSG_DONTWAIT);
}

#else

int fb_socket_spread(int socket, uint32_t count) {
    (void)socket, (void)count;
    return ENOSYS;
}

int fb_socket_get_drops(int socket, uint32_t *drops) {
    (void)socket, (void)drops;
    return ENOSYS;
}

int fb_socket_send(int socket, const fb_datagram *datagrams, unsigned count) {
    (void)count;
    fb_bytes payload = datagrams->payload;
    return send(socket, payload.data, payload.size, MSG_DONTWAIT) < 0 ? -1 : 1;
}

#endif
