/* Made-up but valid flow traffic, as a pcap file: what `flowbuf generate` writes.

   Everything follows from the options: the same options give the same bytes on every machine. A capture holds, for each
   exporter in turn, UDP datagrams that follow their protocol to the letter (RFC 3954, RFC 7011, sFlow version 5): sequence
   numbers in the protocol's own unit, templates and sampling options at the start and again every so often, padding,
   checksums, clocks that agree with each other.

       fb_generator *generator;
       fb_status status = fb_generator_new(&memory, &options, &generator);
       while (status == FB_OK) {
           status = fb_generator_next(generator, buffer, capacity, &size);
           write(buffer, size);
       }
       fb_generator_free(generator);   // status is FB_END

   Exporters have the addresses 192.0.2.1 to 192.0.2.254, then 198.18.0.255 and on; each third one (the third, the sixth …)
   sends over IPv6 from 2001:db8:c000:: plus its number. They report to 203.0.113.1 or 2001:db8:cb00::1. */
#ifndef FB_GENERATE_H
#define FB_GENERATE_H

#include "core/base/base.h"

/* Constant, name. MIXED: exporters speak the four protocols before it by turns. */
#define FB_GENERATOR_PROTOCOL_LIST(X) \
    X(NETFLOW5, "netflow5") \
    X(NETFLOW9, "netflow9") \
    X(IPFIX, "ipfix") \
    X(SFLOW, "sflow") \
    X(MIXED, "mixed") \
    X(NETFLOW1, "netflow1") \
    X(NETFLOW7, "netflow7")

typedef enum {
#define FB_X(constant, name) FB_GENERATOR_##constant,
    FB_GENERATOR_PROTOCOL_LIST(FB_X)
#undef FB_X
    FB_GENERATOR_PROTOCOL_COUNT
} fb_generator_protocol;

#define FB_GENERATOR_MAX_EXPORTERS 65536
#define FB_GENERATOR_MIN_MTU 1280 /* of IPv6: room for all templates beside a record */

typedef struct {
    fb_generator_protocol protocol;
    uint64_t flows;            /* flow records (sFlow: flow samples) in all; options data and counter samples come on top */
    uint64_t seed;
    uint32_t exporters;        /* 1 to FB_GENERATOR_MAX_EXPORTERS; MIXED takes at least 4 */
    uint32_t sampling_rate;    /* one packet in so many, at least 1; NetFlow v5 has 14 bits for it */
    uint64_t start;            /* when the first datagram is sent, in ns since 1970; not before 2000 */
    uint64_t flows_per_second; /* of all exporters together, at most 10^9; 0 is 10000 */
    uint32_t mtu;              /* largest IP packet, FB_GENERATOR_MIN_MTU to 65535; 0 is 1500 */
    uint32_t template_refresh; /* templates are sent again after so many datagrams of an exporter; 0 is 1000 */
} fb_generator_options;

typedef struct fb_generator fb_generator;

/* The protocol of a name, or FB_GENERATOR_PROTOCOL_COUNT. */
fb_generator_protocol fb_generator_find_protocol(const char *name);

/* What is wrong with the options, in one sentence for the person who gave them; NULL where nothing is. */
const char *fb_generator_options_fault(const fb_generator_options *options);

/* FB_OK; FB_BAD_ARGUMENT (see fb_generator_options_fault); FB_NO_MEMORY. `memory` must outlive the generator, which
   allocates nothing after this call. */
fb_status fb_generator_new(fb_memory *memory, const fb_generator_options *options, fb_generator **generator);
void fb_generator_free(fb_generator *generator);

/* Writes the next piece of the file: its header first, then whole packet records. Pieces put together are the same file at
   every capacity. mtu + 30 bytes are always enough.
   FB_OK        `size` bytes were written, and more is to come
   FB_END       `size` bytes were written (0 where the file was complete already), and the file is complete
   FB_NO_SPACE  nothing was written: the capacity is below what one packet may take */
fb_status fb_generator_next(fb_generator *generator, uint8_t *buffer, size_t capacity, size_t *size);

/* Flows written so far, for a progress bar. */
uint64_t fb_generator_flows_written(const fb_generator *generator);

#endif
