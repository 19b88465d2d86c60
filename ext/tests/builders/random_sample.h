/* sFlow flow samples: random ones, and some fixed ones. A *look* holds all properties that decoding
   branches on. Other values are drawn for each sample.

   Usage:
     sample_look look;
     look_choose(&look);
     sflow_begin(&d, 2, (sflow_header){.agent = 1});
     put_random_sample(&d, &look);
     look_change(&look);
     put_random_sample(&d, &look); */
#ifndef FB_TESTS_BUILDERS_RANDOM_SAMPLE_H
#define FB_TESTS_BUILDERS_RANDOM_SAMPLE_H

#include "tests/builders/datagrams.h"

enum { LOOK_RECORDS = 7, LOOK_SEGMENTS = 3 };

typedef struct {
    unsigned expanded;
    unsigned input, output; /* format; 3 only in a compact sample, 4 for the exporter itself */
    unsigned records[LOOK_RECORDS], count; /* formats in order */
    unsigned extra;                        /* bytes of each record behind its content */
    unsigned next_hop[2];                  /* types of address, of the router and the gateway */
    unsigned vlans;                        /* a bit for each that is known */
    unsigned source_as;                    /* 0: the gateway's own */
    unsigned segments, hops[LOOK_SEGMENTS], communities;
    unsigned protocol; /* of the header */
    unsigned tags, tag_type, etype;
    unsigned first_byte, flags, offset; /* of an IP header */
    unsigned traffic_class, proto;
    /* IP length: correct, 0, too short, or at most a few bytes of the transport header */
    unsigned length;
    unsigned captured; /* bytes of the header */
    unsigned wide;     /* maximum width of numbers in bits */
} sample_look;

/* Draw a look. */
void look_choose(sample_look *look);
/* Change one property. */
void look_change(sample_look *look);
/* Append a sample. Returns the position after its format and length. */
size_t put_random_sample(byte_buffer *d, const sample_look *look);
/* Build a datagram with this many samples. Returns the position of the first. */
size_t put_random_datagram(byte_buffer *d, const sample_look *look, unsigned samples);

/* Datagrams of one sample that can be learned: TCP with all records of a router, UDP with two tags,
   TCP over IPv6, and truncated ICMP. */
enum { FIRST_SAMPLE = 28 + 8, PLAIN_SAMPLES = 4 };
void build_plain_sample(byte_buffer *d, unsigned which);

#endif
