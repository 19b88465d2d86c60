/* Operations on UDP sockets that the standard library of Python does not offer. */
#ifndef FB_NET_SOCKET_H
#define FB_NET_SOCKET_H

#include <stdint.h>

#include "core/base/datagram.h"

/* Most datagrams per system call that sends. */
#define FB_SOCKET_BATCH 64

/* Give each sender one socket of a SO_REUSEPORT group: a classic BPF program hashes the source
   address and returns the index of a socket. Indices follow the order in which the sockets were
   bound. Call it for one socket of the group, after all `count` sockets are bound.

   Closing a socket of the group renumbers the others, so keep them open.

   Returns 0 or an errno; ENOSYS if the system has no such option. */
int fb_socket_spread(int socket, uint32_t count);

/* Write the number of datagrams that the kernel has dropped at this socket, modulo 2^32
   (SO_MEMINFO). The number includes the drops after the last datagram that was received.

   Returns 0 or an errno; ENOSYS if the system has no such option. */
int fb_socket_get_drops(int socket, uint32_t *drops);

/* Pass the payloads of `count` datagrams, 1 to FB_SOCKET_BATCH, to a connected socket. Do not wait
   for a full send buffer. Linux takes them with one system call (sendmmsg); other systems take only
   the first one, so that no error is lost.

   Returns the number that the system accepted, or -1 with errno if it did not accept the first. */
int fb_socket_send(int socket, const fb_datagram *datagrams, unsigned count);

#endif
