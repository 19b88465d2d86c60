/* The decoder: datagrams in, rows out. The binding uses this header.

   Usage:
     fb_decoder_new(&decoder, plan, options, &memory);
     fb_row_new(&row, plan, &memory);
     fb_row_set_output(&row, buffer, capacity, 0);
     fb_position position = {0};
     while (fb_row_decode(decoder, datagrams, count, &position, &row) == FB_NO_SPACE)
         …move to a buffer with room for row.needed more bytes, fb_row_set_output again… */
#ifndef FB_DECODE_DECODE_H
#define FB_DECODE_DECODE_H

#include "core/emit/columns.h"
#include "core/exporter/pending_sets.h"
#include "core/packet/packet.h"
#include "core/emit/message_row.h"

typedef struct {
    size_t exporter_limit; /* most exporters in memory; 0: 1,048,576 */
    /* Most bytes of state per exporter; all sFlow agents of one UDP source share one such budget.
       0: 16 MiB. Never more than a quarter of memory->limit. */
    size_t exporter_memory;
    uint64_t default_sampling_rate; /* value of `meta:default_sampling_rate`; 0: unknown */
    uint64_t hash_seed;             /* any random number */
    /* Most bytes of one exporter's data sets that wait for their templates. Each set is charged
       FB_PENDING_SET_BYTES in addition. 0: 4 MiB. */
    size_t early_data_limit;
    /* the same for all exporters; 0: 128 MiB. Never more than a quarter of memory->limit */
    size_t early_data_total;
    /* nanoseconds; a template that was not refreshed for longer is not used. 0: never */
    uint64_t template_expiry;
    /* Apply template withdrawals over UDP. RFC 7011 section 8.4 forbids them; by default they are
       only counted. */
    bool obey_withdrawals;
    /* newest kind whose instructions may be used; 0: the kind of this processor */
    fb_processor processor;
    /* most flows per second of one exporter, at most FB_RATE_LIMIT_MAX; 0: no limit */
    uint64_t rate_limit;
    unsigned decapsulate; /* set of bits (1 << fb_tunnel), one for each kind of tunnel to open */
} fb_decoder_options;

/* The datagram whose flows are limited. */
typedef struct {
    fb_exporter *exporter;   /* NULL: none is being decoded */
    uint64_t flows, skipped; /* counters of the exporter before the datagram */
    bool skips;
} fb_limited_datagram;

/* The decoder and the state of all exporters. It must be used by one thread at a time. */
typedef struct {
    const fb_plan *plan; /* that of fb_decoder_new */
    fb_memory *memory;
    fb_decoder_options options;
    fb_compiled_templates compiled_templates;
    fb_exporters exporters;
    fb_pending_sets pending;
    fb_compiled_template *netflow5;    /* the operations of a NetFlow v5 record */
    fb_compiled_template *netflow1[2]; /* the same for NetFlow v1 records of 48 and of 52 bytes */
    fb_compiled_template *netflow7;
    fb_processor processor; /* the kind whose instructions are used */
    fb_counters other;      /* counters of payloads of no flow protocol; they have no exporter */
    /* set by the caller: receives a mark per datagram (context.h); NULL: not wanted */
    uint8_t *undecoded;
    /* The plans by kind of rows. Values that a column could not hold are counted as
       bad_field_size, bad_list or out_of_range. */
    fb_row_kind kinds[FB_ROWS_COUNT];
    fb_rows full;      /* kind of rows whose output is full, after NO_SPACE */
    fb_fault fault;    /* the first fault since the caller cleared it */
    bool expect_flows; /* set by the caller: payloads of no flow protocol also become faults */
    /* set by the caller: FB_AGENT_SESSION | number of the Transport Session of the next datagrams,
       which are messages of TCP; 0: UDP */
    uint64_t agent;
    fb_sampling_rules sampling_rules;
    bool changes_rates; /* rates are configured, or flows are limited */
    fb_rate_change rate_change;
    fb_limited_datagram limited;
} fb_decoder;

/* The place at which decoding resumes. All zeros at the beginning of a batch. */
typedef struct {
    size_t datagram;
    size_t set;    /* offset of a set or sample in the payload; 0: the datagram was not begun */
    size_t record; /* offset of a record in its set, or index of a sample or fixed-size record */
} fb_position;

/* Create a decoder. `plan` and `memory` must outlive it; free it with fb_decoder_free.
   NO_MEMORY. */
fb_status fb_decoder_new(fb_decoder **decoder, const fb_plan *plan, fb_decoder_options options,
                         fb_memory *memory);
void fb_decoder_free(fb_decoder *decoder);

/* Also write rows of another kind, from the same pass over the datagrams. `plan` must outlive the
   decoder. The first plan must have the first kind of all, in the order of fb_rows. The caller sets
   the emitter for these rows in `others` of the emitter that it passes. OK, NO_MEMORY.
   BAD_ARGUMENT: the decoder has a plan of this kind, or its first plan has a later kind. */
fb_status fb_decoder_add_rows(fb_decoder *decoder, const fb_plan *plan);

/* Configure sampling rates (sampling_rules.h), which are copied. `default_sampling_rate` is then
   for flows without a rule and without a reported rate. OK, NO_MEMORY. BAD_ARGUMENT: a network or a
   rule is invalid. REQUIRES: no exporter is known, and no rates were configured. */
fb_status fb_decoder_set_sampling(fb_decoder *decoder, const fb_prefix *networks,
                                  size_t network_count, const fb_sampling_rule *rules,
                                  size_t rule_count);

/* Decode datagrams from *position on; each flow becomes one message.

     OK        all datagrams are decoded
     NO_SPACE  an output is full: that of the row, or with several kinds of rows, that of the kind
               decoder->full. All outputs hold complete messages, and *position is the place to
               resume.

   Returns no other status. Problems of a datagram are counted. */
fb_status fb_row_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                        fb_position *position, fb_row *row);

/* Decode datagrams into a batch, one row per flow. NO_SPACE: the batch of the kind decoder->full is
   full, or it is empty and there is no memory for its rows. */
fb_status fb_columns_decode(fb_decoder *decoder, const fb_datagram *datagrams, size_t count,
                            fb_position *position, fb_columns *columns);

/* End the input. Data sets that still wait for their templates are dropped and counted as
   TEMPLATE_MISSING. The first of them becomes decoder->fault if that is not set. The decoder can be
   used again. */
void fb_decoder_finish(fb_decoder *decoder);
/* Free the data sets that wait for their templates, after another decoder has inherited them
   (pending_state.h). They are counted as EARLY_DATA_HANDED_OVER. */
void fb_decoder_hand_over(fb_decoder *decoder);

/* Detect the protocol of a payload from its first bytes. Returns 5, 9 or 10 for NetFlow and IPFIX,
   FB_SFLOW5, or 0 for none. FB_UNSUPPORTED is a related protocol that flowbuf does not decode.
   NetFlow v1 and v7 (1 and 7) are also recognized by their length: the payload holds at least one
   record, and all records are complete. */
enum { FB_SFLOW5 = 0x10005, FB_UNSUPPORTED = 0x20000 };
uint32_t fb_payload_sniff_slowly(fb_bytes payload); /* the slow path */
FB_INLINE uint32_t fb_payload_sniff(fb_bytes payload) {
    uint32_t word = FB_LIKELY(payload.size >= 4) ? fb_load32(payload.data) : 0,
             version = word >> 16;
    if (word == 5) return FB_SFLOW5;
    if (version == 5 || version == 9 || version == 10) return version;
    return fb_payload_sniff_slowly(payload);
}

/* Write the address that identifies the exporter of a datagram. It is the UDP source, or for sFlow
   the agent address. */
void fb_datagram_get_exporter(const fb_datagram *datagram, uint8_t address[16]);

#endif
