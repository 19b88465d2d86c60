/* Datagrams in, rows out: what the binding sees.

   Usage:
     fb_decoder_new(&decoder, plan, options, &memory);
     fb_row_new(&row, plan, &memory);
     fb_row_set_output(&row, buffer, capacity, 0);
     fb_position position = {0};
     while (fb_row_decode(decoder, datagrams, count, &position, &row) == FB_NO_SPACE)
         …move to a buffer with room for row.needed more octets, fb_row_set_output again… */
#ifndef FB_DECODE_H
#define FB_DECODE_H

#include "core/emit/columns.h"
#include "core/exporter/pending_sets.h"
#include "core/packet/packet.h"
#include "core/sflow_pattern/pattern.h"
#include "core/emit/message_row.h"

typedef struct {
    size_t exporter_limit;          /* exporters known at once; 0: 1,048,576 */
    size_t exporter_memory;         /* octets of state of one exporter, or of all sFlow agents of one UDP source; 0: 16 MiB.
                                       Never more than a quarter of memory->limit */
    uint64_t default_sampling_rate; /* `meta:default_sampling_rate`; 0: none */
    uint64_t hash_seed;             /* any random number */
    size_t early_data_limit;        /* octets of one exporter's data sets that wait for their templates, each counted
                                       with FB_EARLY_SET_OCTETS; 0: 4 MiB */
    size_t early_data_total;        /* of all exporters'; 0: 128 MiB. Never more than a quarter of memory->limit */
    uint64_t template_expiry;       /* nanoseconds after which a template that was not refreshed is not used; 0: never */
    bool obey_withdrawals;          /* over UDP they are forbidden (RFC 7011 section 8.4), and counted only */
    fb_processor processor;         /* no instructions of newer kinds; 0: whatever this one has */
    unsigned decapsulate;           /* a bit (1 << fb_tunnel) for each kind of tunnel that is opened */
    bool always_learn;              /* patterns (pattern.h) where they do not pay, too: without lanes. For tests */
} fb_decoder_options;

/* State of all exporters. One thread at a time. */
typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    fb_decoder_options options;
    fb_shapes shapes;
    fb_exporters exporters;
    fb_early early;
    fb_shape *netflow5;   /* the operations of a NetFlow v5 record */
    fb_shape *netflow1[2]; /* of one of v1, of 48 and of 52 octets */
    fb_shape *netflow7;
    fb_patterns patterns; /* of sFlow's flow samples */
    fb_processor processor; /* the kind whose instructions are used */
    fb_counters other;    /* datagrams that are nobody's: of no flow protocol */
    uint64_t *left_out;   /* of each column: values that it could not hold (bad_field_size, bad_list, out_of_range) */
    fb_fault fault;       /* the first one since the caller cleared it */
    bool expect_flows;    /* set by the caller: payloads of no flow protocol are faults, too */
} fb_decoder;

/* Where decoding goes on: all zeros at the beginning of a batch. */
typedef struct {
    size_t datagram;
    size_t set;    /* offset of a set or sample in the payload; 0: the datagram has not been begun */
    size_t record; /* offset of a record in its set, or number of a sample or record */
} fb_position;

/* `plan` and `memory` must outlive the decoder. NO_MEMORY. */
fb_status fb_decoder_new(fb_decoder **decoder, const fb_plan *plan, fb_decoder_options options, fb_memory *memory);
void fb_decoder_free(fb_decoder *decoder);

/* Decodes datagrams from *position on, one message a flow. OK: all of them. NO_SPACE: the row's output is full; what is
   finished stays, *position says where to go on. Never anything else: what is wrong with a datagram is counted. */
fb_status fb_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count, fb_position *position,
                        fb_row *row);

/* The same, one row of the batch a flow. NO_SPACE: the batch is full; or, if it is empty, there is no memory for its rows. */
fb_status fb_columns_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count, fb_position *position,
                            fb_columns *columns);

/* Says that no more datagrams come: data sets that still wait for their templates are given up, and counted as
   TEMPLATE_MISSING; the first of them is decoder->fault, if there was none. The decoder may be used again. */
void fb_decoder_finish(fb_decoder *decoder);

/* Which protocol a payload speaks, by its first octets: 5, 9, 10 for NetFlow and IPFIX, FB_SFLOW5; 0 for none, and
   FB_UNSUPPORTED for one of their relatives that flowbuf does not decode. 1 and 7, for NetFlow, by its length too: it has
   records, and all of them are there. */
enum { FB_SFLOW5 = 0x10005, FB_UNSUPPORTED = 0x20000 };
uint32_t fb_payload_look_closer(fb_bytes payload); /* the way less taken */
FB_INLINE uint32_t fb_payload_sniff(fb_bytes payload) {
    uint32_t word = FB_LIKELY(payload.size >= 4) ? fb_load32(payload.data) : 0, version = word >> 16;
    if (word == 5) return FB_SFLOW5;
    if (version == 5 || version == 9 || version == 10) return version;
    return fb_payload_look_closer(payload);
}

/* The address by which the exporter of a datagram is known: its source, of sFlow that of the agent. */
void fb_datagram_get_exporter(const fb_datagram *datagram, uint8_t address[16]);

#endif
