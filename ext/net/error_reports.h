/* Reads the reports of hosts and routers about datagrams that a socket has sent: ICMP errors.

   A report also fails the next call that sends on the socket, which then did not send. If that is
   not the first datagram of a call for several, the system drops the error. So reports are read
   from the socket's queue of errors (man 7 ip: IP_RECVERR). Other systems than Linux have none. */
#ifndef FB_NET_ERROR_REPORTS_H
#define FB_NET_ERROR_REPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* False: the system fails a call instead, once for each report. */
#ifdef __linux__
enum { FB_HAS_ERROR_REPORTS = true };
#else
enum { FB_HAS_ERROR_REPORTS = false };
#endif

typedef struct {
    bool any;         /* there was a report */
    uint64_t refused; /* closed ports: each is one datagram */
    int error;        /* of the last report of another kind, such as EHOSTUNREACH; 0: none */
} fb_error_reports;

/* Queue the reports of a socket. The system then also reports datagrams that the queue of the
   network interface drops (ENOBUFS). Does nothing on other systems. */
void fb_error_reports_enable(int socket);

/* Read and remove the reports of a socket. The part of a route that takes no long datagrams is not
   an error: the system splits later ones. */
fb_error_reports fb_error_reports_read(int socket);

#endif
