/* Synthetic flow traffic as a pcap file, which `flowbuf generate` writes.

   The options determine every byte: the same options give the same file on every machine. A capture
   holds UDP datagrams of each exporter in turn. They conform to their protocol (RFC 3954, RFC 7011,
   sFlow version 5). Sequence numbers have the protocol's unit, clocks agree, and padding and
   checksums are correct. Templates and sampling options come at the start and again at regular
   intervals.

       fb_generator *generator;
       fb_status status = fb_generator_new(&memory, &options, &generator);
       while (status == FB_OK) {
           status = fb_generator_next(generator, buffer, capacity, &size);
           write(buffer, size);
       }
       fb_generator_free(generator);   // status is FB_END

   Exporters have the addresses 192.0.2.1 to 192.0.2.254, then 198.18.0.255 and on. Every third
   exporter (the third, the sixth …) uses IPv6: 2001:db8:c000:: plus its number. The collector is
   203.0.113.1 or 2001:db8:cb00::1. */
#ifndef FB_GENERATE_GENERATE_H
#define FB_GENERATE_GENERATE_H

#include "core/base/base.h"

/* Constant, name. MIXED: exporters take turns with the four protocols before it. */
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
#define FB_GENERATOR_MIN_MTU       1280 /* minimum of IPv6; all templates and a record fit */

typedef struct {
    fb_generator_protocol protocol;
    /* flow records, or for sFlow flow samples, in total; options data and counter samples are
       additional */
    uint64_t flows;
    uint64_t seed;
    uint32_t exporters;     /* 1 to FB_GENERATOR_MAX_EXPORTERS; MIXED needs at least 4 */
    uint32_t sampling_rate; /* one packet in this many, at least 1; NetFlow v5 has 14 bits for it */
    uint64_t start;         /* time of the first datagram in ns since 1970; not before 2000 */
    uint64_t flows_per_second; /* of all exporters together, at most 10^9; 0: 10000 */
    uint32_t mtu;              /* largest IP packet, FB_GENERATOR_MIN_MTU to 65535; 0: 1500 */
    /* an exporter repeats its templates after this many datagrams; 0: 1000 */
    uint32_t template_refresh;
} fb_generator_options;

typedef struct fb_generator fb_generator;

/* Return the protocol of a name, or FB_GENERATOR_PROTOCOL_COUNT. */
fb_generator_protocol fb_generator_find_protocol(const char *name);

/* Describe the first invalid option in one sentence for the user. Returns NULL if the options are
   valid. The text is static. */
const char *fb_generator_options_fault(const fb_generator_options *options);

/* Create a generator; free it with fb_generator_free. `memory` must outlive it. OK; NO_MEMORY;
   BAD_ARGUMENT (see fb_generator_options_fault). The generator allocates nothing after this
   call. */
fb_status fb_generator_new(fb_memory *memory, const fb_generator_options *options,
                           fb_generator **generator);
void fb_generator_free(fb_generator *generator);

/* Write the next part of the file: its header first, then complete packet records. The concatenated
   parts are the same for every capacity. mtu + 30 bytes are always enough.

     FB_OK        `size` bytes were written, and the file continues
     FB_END       `size` bytes were written (0 if none remained), and the file is complete
     FB_NO_SPACE  nothing was written: a packet may be larger than the capacity */
fb_status fb_generator_next(fb_generator *generator, uint8_t *buffer, size_t capacity,
                            size_t *size);

/* Return the number of flows written so far, for a progress bar. */
uint64_t fb_generator_flows_written(const fb_generator *generator);

#endif
