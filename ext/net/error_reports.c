/* Each report is one message of the error queue, with a structure as ancillary data. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for the types of linux/errqueue.h, which -std=c11 hides */
#endif

#include "net/error_reports.h"

#ifdef __linux__

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h>

/* Both, because an IPv6 socket may send to an IPv4 address. */
void fb_error_reports_enable(int socket) {
    int on = 1;
    setsockopt(socket, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
    setsockopt(socket, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
}

static bool is_report(const struct cmsghdr *control) {
    return (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_RECVERR) ||
           (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_RECVERR);
}

/* Errors of the system itself have another origin. The call that sent has returned them. */
static void add_report(fb_error_reports *reports, const struct cmsghdr *control) {
    struct sock_extended_err report;
    memcpy(&report, CMSG_DATA(control), sizeof report);
    bool remote = report.ee_origin == SO_EE_ORIGIN_ICMP || report.ee_origin == SO_EE_ORIGIN_ICMP6;
    if (!remote) return;
    reports->any = true;
    if (report.ee_errno == ECONNREFUSED) reports->refused++;
    else if (report.ee_errno != EMSGSIZE) reports->error = (int)report.ee_errno;
}

fb_error_reports fb_error_reports_read(int socket) {
    fb_error_reports reports = {.any = false};
    uint8_t payload; /* of the datagram that is reported; the rest is dropped */
    struct iovec part = {&payload, sizeof payload};
    /* aligned like a header */
    union {
        struct cmsghdr header;
        char bytes[512];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    message.msg_controllen = sizeof control;
    while (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0 && message.msg_controllen) {
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
            if (is_report(c)) add_report(&reports, c);
        message.msg_controllen = sizeof control;
    }
    return reports;
}

#else

void fb_error_reports_enable(int socket) {
    (void)socket;
}

fb_error_reports fb_error_reports_read(int socket) {
    (void)socket;
    return (fb_error_reports){.any = false};
}

#endif
