/* Flow samples of sFlow: random ones, and some that are always the same. What decoding branches on is a *look*; all else is drawn anew for each sample.

   Usage:
     sample_look look;
     look_choose(&look);
     sflow_begin(&d, 2, (sflow_header){.agent = 1});
     put_random_sample(&d, &look);
     look_change(&look);
     put_random_sample(&d, &look); */
#ifndef FB_TEST_RANDOM_SAMPLE_H
#define FB_TEST_RANDOM_SAMPLE_H

#include "tests/builders/datagrams.h"

enum { LOOK_RECORDS = 7, LOOK_SEGMENTS = 3 };

typedef struct {
    unsigned expanded;
    unsigned input, output;              /* format; 3 in a compact one, and 4 for the exporter itself */
    unsigned records[LOOK_RECORDS], count; /* formats, in their order */
    unsigned extra;                      /* bytes of each record behind what it says */
    unsigned next_hop[2];                /* types of address, of the router and the gateway */
    unsigned vlans;                      /* a bit for each that is known */
    unsigned source_as;                  /* 0: the gateway's own */
    unsigned segments, hops[LOOK_SEGMENTS], communities;
    unsigned protocol;                   /* of the header */
    unsigned tags, tag_type, etype;
    unsigned first_octet, flags, offset; /* of an IP header */
    unsigned traffic_class, proto;
    unsigned length;                     /* of IP: true, 0, too short, up to a few bytes of the transport header */
    unsigned captured;                   /* bytes of the header */
    unsigned wide;                       /* numbers are so many bits wide at most */
} sample_look;

/* One that can be learned, nearly always. */
void look_choose(sample_look *look);
/* One thing about it becomes another. */
void look_change(sample_look *look);
/* Where the sample begins: behind its format and length. */
size_t put_random_sample(octets *d, const sample_look *look);
/* A datagram of so many. Where the first begins. */
size_t put_random_datagram(octets *d, const sample_look *look, unsigned samples);

/* Datagrams of one sample each that can be learned: TCP and all that a router sends, UDP with two tags, TCP over IPv6, and ICMP that
   is cut short. */
enum { FIRST_SAMPLE = 28 + 8, PLAIN_SAMPLES = 4 };
void build_plain_sample(octets *d, unsigned which);

#endif
