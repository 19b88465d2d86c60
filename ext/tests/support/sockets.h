/* Sockets of tests. Include check.h first. */
#ifndef FB_TESTS_SUPPORT_SOCKETS_H
#define FB_TESTS_SUPPORT_SOCKETS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Open a UDP socket over IPv4. Without one, the test program ends. */
static inline int open_socket(void) {
    int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    if (descriptor < 0) {
        perror("socket");
        exit(EXIT_FAILURE);
    }
    return descriptor;
}

#endif
