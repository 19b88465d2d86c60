/* Sequence numbers: detect datagrams that were lost or late, and exporters that restarted.

   Every header has a number that counts what its exporter has sent, in a unit of its protocol. A
   datagram covers a span of this sequence. The units between the end of the newest span and the
   start of the next one are lost:

        ── newest ──┐          ┌── next ──
     ───┬───────────┬──────────┬──────────┬──▶ units, modulo 2^32
        └ number    └ end      └ begin
                       a gap

   The units are: flows (NetFlow v5), export packets (NetFlow v9, RFC 3954 section 5.1), data
   records including those of options (IPFIX, RFC 7011 section 3.1), and datagrams (sFlow). Each
   flow, counter and drop sample of sFlow also counts the samples of its kind and source.

   The part of a span that lies in a stored gap was late and is no longer lost. The rest of a span
   behind the newest one came twice. A number that fits neither case means that the exporter
   restarted, and nothing was lost.

   An exporter that leaves all numbers 0 is not checked. IPFIX exporters disagree about what they
   count: some include the records of the message itself, or omit those of options (softflowd does
   both). The convention of an exporter is detected as soon as two messages differ in their records.

   One address may send several sequences for one domain: RFC 7011 counts per transport session, and
   two processes with the same source id are common. Sequences are separated by UDP port, unless one
   continues where another ends. */
#ifndef FB_EXPORTER_SEQUENCE_H
#define FB_EXPORTER_SEQUENCE_H

#include "core/base/base.h"

#define FB_MAX_GAPS           8 /* stored per sequence; older ones stay lost */
#define FB_MAX_STREAMS        4 /* sequences per domain; the least recently used one is replaced */
#define FB_MAX_SAMPLE_SOURCES 4096 /* kinds and sources of the samples of an sFlow agent */
/* ms that the clocks of datagrams may differ without a restart */
#define FB_SEQUENCE_TOLERANCE 10000

typedef enum {
    FB_SEQUENCE_NONE, /* nothing was numbered yet */
    FB_SEQUENCE_FLOWS,
    FB_SEQUENCE_PACKETS,
    FB_SEQUENCE_RECORDS,
    FB_SEQUENCE_DATAGRAMS,
    FB_SEQUENCE_SAMPLES,
    FB_SEQUENCE_UNITS
} fb_sequence_unit;

/* In units, except `late` (datagrams or samples that came late or twice) and `restarts`. */
typedef struct {
    uint64_t expected; /* units that the numbers cover: received and lost */
    uint64_t lost;
    uint64_t late;
    uint64_t restarts;
} fb_sequence_totals;

/* Lost units, by kind of unit. */
typedef struct {
    uint64_t units[FB_SEQUENCE_UNITS];
    bool counted[FB_SEQUENCE_UNITS]; /* some exporter counts in this unit */
} fb_lost;

/* The units in a datagram. */
typedef struct {
    uint32_t units;
    uint32_t options; /* options records among `units`; only IPFIX */
    /* it holds an unknown number of further units: a template is missing, or it is cut short */
    bool incomplete;
} fb_sequence_content;

/* The sequence data of a datagram. */
typedef struct {
    uint32_t number;
    /* by a clock of the exporter, ms modulo 2^32: uptime, or the export time in IPFIX */
    uint32_t sent;
    uint16_t port;
    fb_sequence_content content;
} fb_sequence_mark;

typedef struct {
    uint32_t begin;
    uint32_t size;
} fb_sequence_gap;

/* of IPFIX exporters; bit 0: options do not count; bit 1: the message itself counts */
#define FB_SEQUENCE_CONVENTIONS 4

/* One sequence. */
typedef struct {
    fb_sequence_mark newest;
    uint32_t used; /* last use, in datagrams of its domain */
    bool known;
    /* number of times that each convention explained a number */
    uint8_t hits[FB_SEQUENCE_CONVENTIONS];
    uint8_t gap_count;
    fb_sequence_gap gaps[FB_MAX_GAPS]; /* the oldest first */
} fb_sequence;

/* Check the number of a datagram. OK. SEQUENCE_GAP: units before it are lost. OUT_OF_SEQUENCE: it
   came late or twice. EXPORTER_RESTART: the numbers start again. */
fb_status fb_sequence_check(fb_sequence *sequence, fb_sequence_unit unit,
                            const fb_sequence_mark *mark, fb_sequence_totals *totals);

/* The sequences of one domain. All zeros: none. */
typedef struct {
    fb_sequence *streams;
    uint32_t count;
    uint32_t clock;
    fb_sequence_unit unit;
    fb_sequence_content pending; /* of the current message; kept when decoding resumes */
    fb_sequence_totals totals;
} fb_sequences;

/* Like fb_sequence_check, for the sequence of the datagram's port. Also OK if memory for another
   sequence is short. */
fb_status fb_sequences_check(fb_sequences *sequences, fb_memory *memory, fb_sequence_unit unit,
                             const fb_sequence_mark *mark);
void fb_sequences_free(fb_sequences *sequences, fb_memory *memory);

/* For records: return true if the message continues the sequence by the convention of RFC 7011, and
   no other convention explained more numbers so far. Count the number for each convention that
   explains it. False: nothing was done. REQUIRES: the message begins where the newest one ends. */
FB_INLINE bool fb_sequence_count_hit(fb_sequence *sequence, const fb_sequence_mark *mark) {
    const fb_sequence_content *before = &sequence->newest.content, *content = &mark->content;
    uint8_t *hits = sequence->hits;
    uint32_t step = before->units;
    bool numbered = mark->number || sequence->newest.number;
    bool best =
        hits[0] >= hits[1] && hits[0] >= hits[2] && hits[0] >= hits[3] && hits[0] < UINT8_MAX - 1;
    if (before->incomplete || content->incomplete || !numbered || !best) return false;
    hits[0]++;
    hits[1] = (uint8_t)(hits[1] + (before->options == 0));
    hits[2] = (uint8_t)(hits[2] + (content->units == step));
    hits[3] = (uint8_t)(hits[3] + (content->units - content->options == step));
    return true;
}

/* Fast path of fb_sequences_check, with the same result: the sequence of the port is the first one,
   and the number is the next one. Clock and gaps do not matter then. False: it is another case, and
   nothing was done. */
FB_INLINE bool fb_sequences_continue(fb_sequences *sequences, fb_sequence_unit unit,
                                     const fb_sequence_mark *mark) {
    fb_sequence *stream = sequences->streams;
    if (FB_UNLIKELY(!stream || stream->newest.port != mark->port)) return false;
    if (FB_UNLIKELY(mark->number != stream->newest.number + stream->newest.content.units))
        return false;
    if (unit == FB_SEQUENCE_RECORDS && FB_UNLIKELY(!fb_sequence_count_hit(stream, mark)))
        return false;
    sequences->unit = unit;
    sequences->totals.expected += mark->content.units;
    stream->used = ++sequences->clock;
    stream->newest.number = mark->number;
    stream->newest.sent = mark->sent;
    stream->newest.content.units = mark->content.units;
    stream->newest.content.options = mark->content.options;
    stream->newest.content.incomplete = mark->content.incomplete;
    return true;
}

/* The samples of one kind and source. It is small, because most samples are in order and need no
   more. */
typedef struct {
    uint64_t key; /* 0: empty */
    /* created when a number is not the next one; its newest number is `number` */
    fb_sequence *sequence;
    uint32_t number;
    uint32_t run;
} fb_sample_source;

/* The samples of one sFlow agent: a sequence for each kind and source. All zeros: none. */
typedef struct {
    fb_sample_source *table; /* open addressing; capacity is a power of two */
    uint32_t count;
    uint32_t capacity;
    fb_sequence_totals totals;
} fb_samples;

/* Return the key of a kind (1 flows, 2 counters, 3 drops), and of the type and index of the
   source. */
FB_INLINE uint64_t fb_samples_key(uint32_t kind, uint32_t type, uint32_t index) {
    return (uint64_t)(type << 2 | kind) << 32 | index;
}

/* Return the entry of a key, or the entry where it belongs. Interfaces are numbered consecutively,
   so neighbours are adjacent and do not collide. Blocks of 64 are placed by the high bits of two
   multiplications with a secret number, so an attacker who invents sources cannot predict their
   place. After a single multiplication, blocks that differ only in their highest bits would
   collide. REQUIRES: an entry is empty; `secret` is odd. */
FB_INLINE fb_sample_source *fb_samples_find(fb_sample_source *table, uint32_t capacity,
                                            uint64_t secret, uint64_t key) {
    uint64_t block = (key >> 6) * secret;
    block = (block ^ block >> 32) * secret;
    size_t i = (size_t)((block >> 40) + key) & (capacity - 1);
    while (table[i].key != key && table[i].key) i = (i + 1) & (capacity - 1);
    return &table[i];
}

/* Slow paths: a number that is not the next one; a source that is new or restarts. */
fb_status fb_samples_classify(fb_samples *samples, fb_memory *memory, fb_sample_source *source,
                              uint32_t number);
fb_status fb_samples_begin(fb_samples *samples, fb_memory *memory, uint64_t secret, uint64_t key,
                           uint32_t number, uint32_t run);

/* Like fb_sequence_check, for one sample. `run` changes with each restart of the agent, and then
   all its sources restart. `secret` keys the hash. Also OK for a source without room. REQUIRES: key
   is not 0. */
FB_INLINE fb_status fb_samples_check(fb_samples *samples, fb_memory *memory, uint64_t secret,
                                     uint64_t key, uint32_t number, uint32_t run) {
    fb_sample_source *source =
        samples->capacity ? fb_samples_find(samples->table, samples->capacity, secret, key) : NULL;
    if (FB_UNLIKELY(!source || source->key != key || source->run != run))
        return fb_samples_begin(samples, memory, secret, key, number, run);
    if (FB_UNLIKELY(source->number + 1 != number))
        return fb_samples_classify(samples, memory, source, number);
    source->number = number;
    samples->totals.expected++;
    return FB_OK;
}

/* Free all sources; the memory is the one of the calls above. */
void fb_samples_free(fb_samples *samples, fb_memory *memory);

#endif
