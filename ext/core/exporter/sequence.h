/* Sequence numbers: what was lost on the way, came late, or began anew.

   Every header has a number that counts what its exporter has sent, in a unit of its protocol. A datagram stands for a span
   of that numbering; what lies between the end of the newest and the beginning of the next one is lost:

        ── newest ──┐          ┌── next ──
       ───┬─────────┬──────────┬──────────┬──▶ units, modulo 2^32
          └ number  └ end      └ begin
                        a gap

   NetFlow v5 counts flows, NetFlow v9 export packets (RFC 3954 section 5.1), IPFIX data records, those of options included
   (RFC 7011 section 3.1), sFlow datagrams, and in each flow, counter and drop sample the samples of its kind and source.

   Of a span behind the newest one, the part that lies in a gap that is remembered was late and is not lost any more; the
   rest came twice. What cannot be either is the numbering of an exporter that was started anew: nothing was lost.

   Numbers are only as good as the exporter. One that leaves them 0 is told nothing of. IPFIX exporters disagree on what
   they count: some count the records of the message itself, too, or leave those of options out (softflowd does both).
   Which one it is shows as soon as two messages differ in their records, and is followed.

   One address may send several numberings for one domain: RFC 7011 counts by transport session, and two processes with
   the same source id are common. They are told apart by their UDP port, unless one goes on where the other ends. */
#ifndef FB_SEQUENCE_H
#define FB_SEQUENCE_H

#include "core/base/base.h"

#define FB_MAX_GAPS 8                   /* remembered of a numbering; older ones stay lost */
#define FB_MAX_STREAMS 4                /* numberings of a domain; the one longest unused gives way */
#define FB_MAX_SAMPLE_SOURCES 4096      /* kinds and sources of the samples of an sFlow agent */
#define FB_SEQUENCE_TOLERANCE 10000     /* ms that the clocks of datagrams may disagree without telling of a restart */

typedef enum {
    FB_SEQUENCE_NONE, /* nothing was numbered yet */
    FB_SEQUENCE_FLOWS,
    FB_SEQUENCE_PACKETS,
    FB_SEQUENCE_RECORDS,
    FB_SEQUENCE_DATAGRAMS,
    FB_SEQUENCE_SAMPLES,
    FB_SEQUENCE_UNITS
} fb_sequence_unit;

/* In units, but for `late` (datagrams or samples that came late or twice) and `restarts`. */
typedef struct {
    uint64_t expected; /* what the numbers stand for: received, and lost */
    uint64_t lost;
    uint64_t late;
    uint64_t restarts;
} fb_sequence_totals;

/* What is missing, by unit. */
typedef struct {
    uint64_t units[FB_SEQUENCE_UNITS];
    bool counted[FB_SEQUENCE_UNITS]; /* somebody counts in the unit */
} fb_lost;

/* What a datagram holds of its unit. */
typedef struct {
    uint32_t units;
    uint32_t options;    /* records of options among them; IPFIX alone */
    bool incomplete; /* there is more in it, nobody knows how much: no template, or it is cut short */
} fb_sequence_content;

/* What a datagram says of itself. */
typedef struct {
    uint32_t number;
    uint32_t sent; /* when, by a clock of the exporter: ms modulo 2^32. Uptime, but in IPFIX the export time */
    uint16_t port;
    fb_sequence_content content;
} fb_sequence_mark;

typedef struct {
    uint32_t begin;
    uint32_t size;
} fb_sequence_gap;

#define FB_SEQUENCE_CONVENTIONS 4 /* of IPFIX exporters: bit 0: options do not count; bit 1: the message itself counts */

/* One numbering. */
typedef struct {
    fb_sequence_mark newest;
    uint32_t used; /* when, in datagrams of its domain */
    bool known;
    uint8_t hits[FB_SEQUENCE_CONVENTIONS]; /* how often each of them explained a number */
    uint8_t gap_count;
    fb_sequence_gap gaps[FB_MAX_GAPS]; /* the oldest first */
} fb_sequence;

/* OK; SEQUENCE_GAP: units before it are lost; OUT_OF_SEQUENCE: it came late or twice; EXPORTER_RESTART. */
fb_status fb_sequence_check(fb_sequence *sequence, fb_sequence_unit unit, const fb_sequence_mark *mark,
                            fb_sequence_totals *totals);

/* The numberings of one domain. All zeros: none. */
typedef struct {
    fb_sequence *streams;
    uint32_t count;
    uint32_t clock;
    fb_sequence_unit unit;
    fb_sequence_content pending; /* of the message that is being decoded, however often decoding is resumed */
    fb_sequence_totals totals;
} fb_sequences;

/* As fb_sequence_check; OK, too, where there is no memory for one numbering more. */
fb_status fb_sequences_check(fb_sequences *sequences, fb_memory *memory, fb_sequence_unit unit,
                             const fb_sequence_mark *mark);
void fb_sequences_free(fb_sequences *sequences, fb_memory *memory);

/* Of records: whether a message that begins where the newest one ends goes by RFC 7011, as all before it did. Counts, for each
   convention, that it explains the number. False: nothing was done. */
FB_INLINE bool fb_sequence_hit(fb_sequence *sequence, const fb_sequence_mark *mark) {
    const fb_sequence_content *before = &sequence->newest.content, *content = &mark->content;
    uint8_t *hits = sequence->hits;
    uint32_t step = before->units;
    bool numbered = mark->number || sequence->newest.number;
    bool best = hits[0] >= hits[1] && hits[0] >= hits[2] && hits[0] >= hits[3] && hits[0] < UINT8_MAX - 1;
    if (before->incomplete || content->incomplete || !numbered || !best) return false;
    hits[0]++;
    hits[1] = (uint8_t)(hits[1] + (before->options == 0));
    hits[2] = (uint8_t)(hits[2] + (content->units == step));
    hits[3] = (uint8_t)(hits[3] + (content->units - content->options == step));
    return true;
}

/* The common case of fb_sequences_check, to the same end: the port's numbering, which is the first one, goes on where it ended.
   Neither its clock nor its gaps matter then. False: it is another case, and nothing was done. */
FB_INLINE bool fb_sequences_go_on(fb_sequences *sequences, fb_sequence_unit unit, const fb_sequence_mark *mark) {
    fb_sequence *stream = sequences->streams;
    if (FB_UNLIKELY(!stream || stream->newest.port != mark->port)) return false;
    if (FB_UNLIKELY(mark->number != stream->newest.number + stream->newest.content.units)) return false;
    if (unit == FB_SEQUENCE_RECORDS && FB_UNLIKELY(!fb_sequence_hit(stream, mark))) return false;
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

/* Samples of one kind and source. Small, because most of them are in order and need no more. */
typedef struct {
    uint64_t key;          /* 0: an empty place */
    fb_sequence *sequence; /* made when a number is not the next one; its newest number stands here */
    uint32_t number;
    uint32_t run;
} fb_sample_source;

/* The samples of one sFlow agent: a numbering for each kind and source. All zeros: none. */
typedef struct {
    fb_sample_source *table; /* open addressing; capacity is a power of two */
    uint32_t count;
    uint32_t capacity;
    fb_sequence_totals totals;
} fb_samples;

/* A key of kind (1 flows, 2 counters, 3 drops), type and index of the source. */
FB_INLINE uint64_t fb_samples_key(uint32_t kind, uint32_t type, uint32_t index) {
    return (uint64_t)(type << 2 | kind) << 32 | index;
}

/* Where a key is, or would be. Interfaces are numbered one after the other: neighbours lie side by side, and do not collide.
   Their block is placed by two multiplications with a secret number, of which the high bits count: whoever makes up sources
   cannot foresee them. One alone would leave blocks that differ in their highest bits in one place. REQUIRES: some place is
   empty. */
FB_INLINE fb_sample_source *fb_samples_find(fb_sample_source *table, uint32_t capacity, uint64_t seed, uint64_t key) {
    uint64_t secret = (seed ^ UINT64_C(0x9e3779b97f4a7c15)) | 1, block = (key >> 6) * secret;
    block = (block ^ block >> 32) * secret;
    size_t i = (size_t)((block >> 40) + key) & (capacity - 1);
    while (table[i].key != key && table[i].key) i = (i + 1) & (capacity - 1);
    return &table[i];
}

/* The ways less taken: a number that is not the next one; a source that is not known, or begins anew. */
fb_status fb_samples_judge(fb_samples *samples, fb_memory *memory, fb_sample_source *source, uint32_t number);
fb_status fb_samples_begin(fb_samples *samples, fb_memory *memory, uint64_t seed, uint64_t key, uint32_t number, uint32_t run);

/* As fb_sequence_check, of one sample. `run` changes with each restart of the agent: all its sources begin anew then.
   `seed` is that of a keyed hash. OK, too, for a source that there is no room for. REQUIRES: a key that is not 0. */
FB_INLINE fb_status fb_samples_check(fb_samples *samples, fb_memory *memory, uint64_t seed, uint64_t key, uint32_t number,
                                     uint32_t run) {
    fb_sample_source *source = samples->capacity ? fb_samples_find(samples->table, samples->capacity, seed, key) : NULL;
    if (FB_UNLIKELY(!source || source->key != key || source->run != run))
        return fb_samples_begin(samples, memory, seed, key, number, run);
    if (FB_UNLIKELY(source->number + 1 != number)) return fb_samples_judge(samples, memory, source, number);
    source->number = number;
    samples->totals.expected++;
    return FB_OK;
}

void fb_samples_free(fb_samples *samples, fb_memory *memory);

#endif
