/* Compare each number with the end of the previous span. Store the last gaps, so that late
   datagrams do not count as lost. */
#include "core/exporter/sequence.h"

/* `window`: distance behind the newest number at which a datagram may still be late. `rate_bits`:
   more missing units per second than this mean another sequence, because no exporter sends as many.
   Thirty to sixty flows or records fill a packet. */
static const struct {
    uint32_t window;
    unsigned rate_bits;
} limits[] = {
    [FB_SEQUENCE_FLOWS] = {8192, 20},   [FB_SEQUENCE_PACKETS] = {128, 16},
    [FB_SEQUENCE_RECORDS] = {8192, 20}, [FB_SEQUENCE_DATAGRAMS] = {128, 16},
    [FB_SEQUENCE_SAMPLES] = {1024, 20},
};

enum { WITHOUT_OPTIONS = 1, ITSELF_INCLUDED = 2 };

/* --- conventions ---------------------------------------------------------------------------- */

static uint32_t count_units(const fb_sequence_content *content, unsigned convention) {
    return convention & WITHOUT_OPTIONS ? content->units - content->options : content->units;
}

static uint32_t expected_step(const fb_sequence *sequence, const fb_sequence_mark *mark,
                              unsigned convention) {
    return count_units(convention & ITSELF_INCLUDED ? &mark->content : &sequence->newest.content,
                       convention);
}

/* Return the convention that explained most numbers. On a tie, prefer 0, that of RFC 7011. */
static unsigned choose_convention(fb_sequence *sequence, fb_sequence_unit unit,
                                  const fb_sequence_mark *mark) {
    if (unit != FB_SEQUENCE_RECORDS) return 0;
    uint8_t *hits = sequence->hits;
    uint32_t step = mark->number - sequence->newest.number;
    bool counted = !sequence->newest.content.incomplete && !mark->content.incomplete;
    unsigned best = 0, most = 0;
    for (unsigned i = 0; i < FB_SEQUENCE_CONVENTIONS; i++) {
        hits[i] = (uint8_t)(hits[i] + (counted && step == expected_step(sequence, mark, i)));
        if (hits[i] > hits[best]) best = i;
        if (hits[i] > most) most = hits[i];
    }
    for (unsigned i = 0; most == UINT8_MAX && i < FB_SEQUENCE_CONVENTIONS; i++)
        hits[i] = hits[i] / 2;
    return best;
}

static uint32_t end_of(const fb_sequence_mark *newest, unsigned convention) {
    return newest->number +
           (convention & ITSELF_INCLUDED ? 0 : count_units(&newest->content, convention));
}

static uint32_t begin_of(const fb_sequence_mark *mark, unsigned convention) {
    return mark->number -
           (convention & ITSELF_INCLUDED ? count_units(&mark->content, convention) : 0);
}

/* --- gaps ----------------------------------------------------------------------------------- */

static void add_gap(fb_sequence *sequence, uint32_t begin, uint32_t size) {
    if (sequence->gap_count == FB_MAX_GAPS) {
        sequence->gap_count--;
        memmove(sequence->gaps, sequence->gaps + 1, sequence->gap_count * sizeof *sequence->gaps);
    }
    sequence->gaps[sequence->gap_count++] = (fb_sequence_gap){begin, size};
}

static bool is_in_gap(const fb_sequence *sequence, uint32_t begin) {
    for (size_t i = 0; i < sequence->gap_count; i++)
        if (begin - sequence->gaps[i].begin < sequence->gaps[i].size) return true;
    return false;
}

/* Return start and end of a span, relative to the start of a gap. */
FB_INLINE void place_span(const fb_sequence_gap *gap, uint32_t begin, uint32_t units, int64_t *from,
                          int64_t *to) {
    *from = (int32_t)(begin - gap->begin);
    *to = *from + units;
}

static bool touches_gap(const fb_sequence *sequence, uint32_t begin, uint32_t units) {
    for (size_t i = 0; i < sequence->gap_count; i++) {
        int64_t from, to;
        place_span(&sequence->gaps[i], begin, units, &from, &to);
        if (from < sequence->gaps[i].size && to > 0) return true;
    }
    return false;
}

FB_INLINE int64_t limit_to(int64_t number, int64_t least, int64_t most) {
    if (number < least) return least;
    return number > most ? most : number;
}

/* Remove a span from the gaps. Return the number of units that they held. */
static uint32_t fill_gaps(fb_sequence *sequence, uint32_t begin, uint32_t units) {
    fb_sequence_gap old[FB_MAX_GAPS];
    size_t count = sequence->gap_count;
    uint32_t found = 0;
    if (!touches_gap(sequence, begin, units)) return 0; /* usually a datagram that came twice */
    memcpy(old, sequence->gaps, sizeof old);
    sequence->gap_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t offset, end, size = old[i].size;
        place_span(&old[i], begin, units, &offset, &end);
        int64_t from = limit_to(offset, 0, size), to = limit_to(end, from, size);
        if (from) add_gap(sequence, old[i].begin, (uint32_t)(from == to ? size : from));
        if (to < size && (!from || from < to))
            add_gap(sequence, old[i].begin + (uint32_t)to, (uint32_t)(size - to));
        found += (uint32_t)(to - from);
    }
    return found;
}

/* --- one sequence --------------------------------------------------------------------------- */

/* Return true if the clock shows that the exporter restarted. `distance` is that of the numbers,
   and not 0. */
static bool is_new_run(const fb_sequence *sequence, fb_sequence_unit unit,
                       const fb_sequence_mark *mark, uint32_t begin, int32_t distance) {
    int32_t later = (int32_t)(mark->sent - sequence->newest.sent);
    if (unit == FB_SEQUENCE_RECORDS) {
        if (begin == 0 && later >= 0) return true;
    } else if (later < -FB_SEQUENCE_TOLERANCE) {
        return true; /* its uptime went back */
    }
    return distance < 0 && later > FB_SEQUENCE_TOLERANCE; /* a late datagram was sent earlier */
}

static bool is_plausible(fb_sequence_unit unit, uint32_t missing, int32_t later) {
    uint64_t seconds = later > 0 ? (uint64_t)later / 1000 + 1 : 1;
    return missing <= seconds << limits[unit].rate_bits;
}

/* Classify a span by its start and the end of the newest one. */
static fb_status classify(const fb_sequence *sequence, fb_sequence_unit unit,
                          const fb_sequence_mark *mark, uint32_t begin, uint32_t end) {
    int32_t distance = (int32_t)(begin - end);
    if (distance == 0) return FB_OK;
    if (is_new_run(sequence, unit, mark, begin, distance)) return FB_EXPORTER_RESTART;
    if (distance > 0) {
        bool plausible =
            is_plausible(unit, begin - end, (int32_t)(mark->sent - sequence->newest.sent));
        return plausible ? FB_SEQUENCE_GAP : FB_EXPORTER_RESTART;
    }
    bool late = end - begin <= limits[unit].window || is_in_gap(sequence, begin);
    return late ? FB_OUT_OF_SEQUENCE : FB_EXPORTER_RESTART;
}

fb_status fb_sequence_check(fb_sequence *sequence, fb_sequence_unit unit,
                            const fb_sequence_mark *mark, fb_sequence_totals *totals) {
    const fb_sequence_mark *newest = &sequence->newest;
    bool numbered = sequence->known && (mark->number || newest->number);
    unsigned convention = numbered ? choose_convention(sequence, unit, mark) : 0;
    uint32_t begin = begin_of(mark, convention), end = end_of(newest, convention);
    uint32_t units = count_units(&mark->content, convention);
    fb_status status = numbered ? classify(sequence, unit, mark, begin, end) : FB_OK;
    if (status == FB_OUT_OF_SEQUENCE) {
        totals->late++;
        totals->lost -= fill_gaps(sequence, begin, units);
        return status;
    }
    if (status == FB_EXPORTER_RESTART) {
        sequence->gap_count = 0;
        totals->restarts++;
    } else if (status == FB_SEQUENCE_GAP) {
        totals->expected += begin - end;
        if ((convention & ITSELF_INCLUDED ? mark : newest)->content.incomplete) {
            status = FB_OK; /* the missing units may have been in that message */
        } else {
            totals->lost += begin - end;
            add_gap(sequence, end, begin - end);
        }
    }
    totals->expected += units;
    sequence->newest = *mark;
    sequence->known = true;
    return status;
}

/* --- the sequences of a domain -------------------------------------------------------------- */

/* Return the sequence of the port. If there is none, return the most recently used sequence that
   the number continues. */
static fb_sequence *find_stream(const fb_sequences *sequences, const fb_sequence_mark *mark) {
    fb_sequence *found = NULL;
    for (size_t i = 0; i < sequences->count; i++)
        if (sequences->streams[i].newest.port == mark->port) return &sequences->streams[i];
    for (size_t i = 0; i < sequences->count; i++) {
        fb_sequence *stream = &sequences->streams[i];
        bool fits = mark->number && mark->number == end_of(&stream->newest, 0) &&
                    !stream->newest.content.incomplete;
        if (fits && (!found || sequences->clock - stream->used < sequences->clock - found->used))
            found = stream;
    }
    return found;
}

static fb_sequence *add_stream(fb_sequences *sequences, fb_memory *memory) {
    fb_sequence *streams = sequences->streams, *unused = streams;
    if (sequences->count == FB_MAX_STREAMS) {
        for (size_t i = 1; i < FB_MAX_STREAMS; i++)
            if (sequences->clock - streams[i].used > sequences->clock - unused->used)
                unused = &streams[i];
        *unused = (fb_sequence){0};
        return unused;
    }
    size_t size = sequences->count * sizeof *streams;
    streams = fb_memory_resize(memory, streams, size, size + sizeof *streams);
    if (!streams) return NULL;
    sequences->streams = streams;
    return &streams[sequences->count++];
}

fb_status fb_sequences_check(fb_sequences *sequences, fb_memory *memory, fb_sequence_unit unit,
                             const fb_sequence_mark *mark) {
    fb_sequence *stream = find_stream(sequences, mark);
    if (!stream && !(stream = add_stream(sequences, memory))) return FB_OK;
    sequences->unit = unit;
    stream->used = ++sequences->clock;
    stream->newest.port = mark->port;
    return fb_sequence_check(stream, unit, mark, &sequences->totals);
}

void fb_sequences_free(fb_sequences *sequences, fb_memory *memory) {
    fb_memory_release(memory, sequences->streams, sequences->count * sizeof *sequences->streams);
    *sequences = (fb_sequences){0};
}

/* --- samples -------------------------------------------------------------------------------- */

#define FIRST_CAPACITY 16

/* Make room for another source; at most half of the table is used. */
FB_NOINLINE static bool make_room(fb_samples *samples, fb_memory *memory, uint64_t secret) {
    if (samples->count >= FB_MAX_SAMPLE_SOURCES) return false;
    if (samples->count * 2 < samples->capacity) return true;
    uint32_t capacity = samples->capacity ? samples->capacity * 2 : FIRST_CAPACITY;
    fb_sample_source *table = fb_memory_allocate(memory, capacity * sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < samples->capacity; i++)
        if (samples->table[i].key)
            *fb_samples_find(table, capacity, secret, samples->table[i].key) = samples->table[i];
    fb_memory_release(memory, samples->table, samples->capacity * sizeof *table);
    samples->table = table;
    samples->capacity = capacity;
    return true;
}

/* Start or restart a source. A source restarts with each run of its agent. */
static fb_status begin_source(fb_samples *samples, fb_sample_source *source, uint32_t number,
                              uint32_t run) {
    if (source->sequence) source->sequence->gap_count = 0;
    source->number = number;
    source->run = run;
    samples->totals.expected++;
    return FB_OK;
}

static fb_status add_source(fb_samples *samples, fb_memory *memory, uint64_t secret, uint64_t key,
                            uint32_t number, uint32_t run) {
    if (!make_room(samples, memory, secret)) return FB_OK;
    fb_sample_source *source = fb_samples_find(samples->table, samples->capacity, secret, key);
    source->key = key;
    samples->count++;
    return begin_source(samples, source, number, run);
}

/* Return true if a number behind the newest one came late or twice, and there is no gap that it
   could fill. */
static bool is_late_without_gaps(const fb_sample_source *source, uint32_t number) {
    bool fills = source->sequence && source->sequence->gap_count;
    return source->number + 1 - number <= limits[FB_SEQUENCE_SAMPLES].window && !fills &&
           (number || source->number);
}

/* Check the number with the gaps of the source. The source has a full sequence from now on. */
FB_NOINLINE static fb_status classify_sample(fb_samples *samples, fb_memory *memory,
                                             fb_sample_source *source, uint32_t number) {
    fb_sequence *sequence = source->sequence;
    if (!sequence && !(sequence = source->sequence = fb_memory_allocate(memory, sizeof *sequence)))
        return begin_source(samples, source, number, source->run);
    sequence->known = true;
    sequence->newest = (fb_sequence_mark){.number = source->number, .content = {.units = 1}};
    fb_sequence_mark mark = {.number = number, .content = {.units = 1}};
    fb_status status = fb_sequence_check(sequence, FB_SEQUENCE_SAMPLES, &mark, &samples->totals);
    source->number = sequence->newest.number;
    return status;
}

fb_status fb_samples_classify(fb_samples *samples, fb_memory *memory, fb_sample_source *source,
                              uint32_t number) {
    if (!is_late_without_gaps(source, number))
        return classify_sample(samples, memory, source, number);
    samples->totals.late++;
    return FB_OUT_OF_SEQUENCE;
}

FB_NOINLINE fb_status fb_samples_begin(fb_samples *samples, fb_memory *memory, uint64_t secret,
                                       uint64_t key, uint32_t number, uint32_t run) {
    fb_sample_source *source =
        samples->capacity ? fb_samples_find(samples->table, samples->capacity, secret, key) : NULL;
    return source && source->key ? begin_source(samples, source, number, run)
                                 : add_source(samples, memory, secret, key, number, run);
}

void fb_samples_free(fb_samples *samples, fb_memory *memory) {
    for (uint32_t i = 0; i < samples->capacity; i++)
        fb_memory_release(memory, samples->table[i].sequence, sizeof *samples->table[i].sequence);
    fb_memory_release(memory, samples->table, samples->capacity * sizeof *samples->table);
    *samples = (fb_samples){0};
}
