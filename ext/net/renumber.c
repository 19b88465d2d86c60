/* Every number of a datagram is an edit: its offset, and the sequence that it belongs to. */
#include "net/renumber.h"

#include "core/decode/decode.h"
#include "core/packet/sflow_layout.h"
#include "net/export_header.h"
#include "net/record_finder.h"

enum { MILLISECONDS = 1000, LONGEST_BACKSTEP = FB_SEQUENCE_TOLERANCE };

/* Kinds of sequences of one exporter. Those of samples are the kinds of fb_sample_origin. */
enum { NUMBERS = 0, CLOCK = 4 };
enum { NETFLOW = 8 }; /* set in the kind: keys of NetFlow and IPFIX differ from those of agents */

typedef struct {
    bool is_clock;
    uint32_t first;   /* value in the recording */
    uint32_t next;    /* number of the next unit; of a clock, the latest value */
    uint32_t shift;   /* of a clock: added to its values, so that none goes back */
    uint32_t advance; /* added in each repetition */
    /* of the previous message, if its records could not all be counted: its number in the capture,
       its counted records, and the most that it can have */
    bool incomplete;
    uint32_t original, counted, most;
} sequence;

typedef struct {
    uint16_t offset;
    bool in_seconds; /* the field counts seconds, the sequence milliseconds */
    uint32_t sequence;
} edit;

typedef struct {
    uint64_t words[4];
} sequence_key;

struct fb_renumber {
    fb_memory *memory;
    bool now;
    fb_record_finder *finder;
    fb_key_table keys;
    sequence *sequences; /* by the indexes of `keys` */
    uint32_t sequence_capacity;
    edit *edits;
    size_t edit_count, edit_capacity;
    size_t *ends; /* per datagram: the number of edits up to its last one */
    size_t count, capacity;
};

/* A datagram that is being edited. */
typedef struct {
    fb_renumber *renumber;
    const fb_datagram *datagram;
    uint8_t *payload;
    sequence_key exporter; /* the key of its sequences, without their kind */
    uint32_t clock;        /* the sequence of its uptime */
    fb_status status;
} editing;

fb_status fb_renumber_new(fb_renumber **out, fb_memory *memory, uint64_t seed, bool now) {
    fb_renumber *renumber = fb_memory_allocate(memory, sizeof *renumber);
    *out = NULL;
    if (!renumber) return FB_NO_MEMORY;
    renumber->memory = memory;
    renumber->now = now;
    renumber->keys = (fb_key_table){.memory = memory, .seed = seed, .size = sizeof(sequence_key)};
    fb_status status = fb_record_finder_new(&renumber->finder, memory, seed);
    if (status == FB_OK) *out = renumber;
    else fb_renumber_free(renumber);
    return status;
}

void fb_renumber_free(fb_renumber *renumber) {
    if (!renumber) return;
    fb_memory *memory = renumber->memory;
    fb_record_finder_free(renumber->finder);
    fb_key_table_free(&renumber->keys);
    fb_memory_release(memory, renumber->sequences,
                      renumber->sequence_capacity * sizeof *renumber->sequences);
    fb_memory_release(memory, renumber->edits, renumber->edit_capacity * sizeof *renumber->edits);
    fb_memory_release(memory, renumber->ends, renumber->capacity * sizeof *renumber->ends);
    fb_memory_release(memory, renumber, sizeof *renumber);
}

void fb_renumber_learn(fb_renumber *renumber, const fb_datagram *datagram) {
    fb_record_finder_read(renumber->finder, datagram);
}

/* Edits --------------------------------------------------------------------------------------- */

/* Double the room of an array of `size` bytes per item. Return false if memory is short. */
static bool double_room(fb_memory *memory, void **items, size_t *capacity, size_t size) {
    size_t doubled = *capacity ? 2 * *capacity : 64;
    void *moved = fb_memory_resize(memory, *items, *capacity * size, doubled * size);
    if (!moved) return false;
    *items = moved;
    *capacity = doubled;
    return true;
}

static void add_edit(editing *e, size_t offset, uint32_t sequence, bool in_seconds) {
    fb_renumber *r = e->renumber;
    void *edits = r->edits;
    if (r->edit_count == r->edit_capacity &&
        !double_room(r->memory, &edits, &r->edit_capacity, sizeof *r->edits)) {
        e->status = FB_NO_MEMORY;
        return;
    }
    r->edits = edits;
    r->edits[r->edit_count++] = (edit){(uint16_t)offset, in_seconds, sequence};
}

/* Find the sequence of a kind, and of the type and index of the source of a sample. Return NULL if
   memory is short. *is_new: it begins with this datagram. */
static sequence *find_sequence(editing *e, uint32_t kind, uint32_t type, uint32_t index_of_source,
                               uint32_t *index, bool *is_new) {
    fb_renumber *r = e->renumber;
    sequence_key key = e->exporter;
    void *sequences = r->sequences;
    size_t capacity = r->sequence_capacity;
    key.words[2] |= kind;
    key.words[3] |= (uint64_t)type << 32 | index_of_source;
    if (r->keys.count == r->sequence_capacity &&
        !double_room(r->memory, &sequences, &capacity, sizeof *r->sequences)) {
        e->status = FB_NO_MEMORY;
        return NULL;
    }
    r->sequences = sequences;
    r->sequence_capacity = (uint32_t)capacity;
    uint32_t before = r->keys.count;
    e->status = fb_key_table_get(&r->keys, &key, index);
    if (e->status != FB_OK) return NULL;
    *is_new = r->keys.count > before;
    return &r->sequences[*index];
}

/* Numbers ------------------------------------------------------------------------------------- */

/* Continue a sequence after a message whose records could not all be counted. The numbers of the
   capture tell how many it had, unless that is more than fit into it. */
static void count_by_next_number(sequence *s, uint32_t number) {
    uint32_t step = number - s->original;
    if (step > s->counted && step <= s->most) s->next += step - s->counted;
}

/* Write the number at `offset`, for `content` units of a sequence. */
static void put_number(editing *e, size_t offset, uint32_t kind, uint32_t type,
                       uint32_t index_of_source, fb_sequence_content content) {
    uint32_t index, number = fb_load32(e->payload + offset);
    bool is_new;
    sequence *s = find_sequence(e, kind, type, index_of_source, &index, &is_new);
    if (!s) return;
    if (is_new) *s = (sequence){.first = number, .next = number};
    else if (s->incomplete) count_by_next_number(s, number);
    fb_store32(e->payload + offset, s->next);
    add_edit(e, offset, index, false);
    s->next += content.units;
    s->incomplete = content.incomplete;
    s->original = number;
    s->counted = content.units;
    s->most = (uint32_t)e->datagram->payload.size;
}

/* Uptimes ------------------------------------------------------------------------------------- */

static uint32_t round_up_to_seconds(uint32_t milliseconds) {
    uint32_t rest = milliseconds % MILLISECONDS;
    return rest ? milliseconds + MILLISECONDS - rest : milliseconds;
}

/* Add the shift of the clock to a number. */
static void put_shifted(editing *e, size_t offset, bool in_seconds) {
    uint32_t shift = e->renumber->sequences[e->clock].shift;
    if (in_seconds) shift /= MILLISECONDS;
    fb_store32(e->payload + offset, fb_load32(e->payload + offset) + shift);
    add_edit(e, offset, e->clock, in_seconds);
}

/* Write the uptime at `offset`. Clocks that go back, such as those of an exporter that restarted,
   continue with their latest value. Return false if memory is short. */
static bool put_uptime(editing *e, size_t offset) {
    uint32_t uptime = fb_load32(e->payload + offset);
    bool is_new;
    sequence *s = find_sequence(e, CLOCK, 0, 0, &e->clock, &is_new);
    if (!s) return false;
    if (is_new) *s = (sequence){.is_clock = true, .first = uptime, .next = uptime};
    int32_t back = (int32_t)(s->next - (uptime + s->shift));
    if (back > LONGEST_BACKSTEP) s->shift += round_up_to_seconds((uint32_t)back);
    uptime += s->shift;
    if ((int32_t)(uptime - s->next) > 0) s->next = uptime;
    put_shifted(e, offset, false);
    return e->status == FB_OK;
}

static fb_status put_record_uptime(void *context, size_t offset) {
    editing *e = context;
    put_shifted(e, offset, false);
    return e->status;
}

/* Edit the uptimes `first` and `last` of each record of NetFlow v1, v5 or v7. */
static void put_fixed_uptimes(editing *e, uint32_t version, size_t header) {
    enum { FIRST = 24, LAST = 28 };
    size_t count = fb_load16(e->payload + 2), bytes = e->datagram->payload.size - header;
    size_t size = version == 7 ? 52 : 48;
    if (version == 1 && count) size = bytes / count;
    for (size_t i = 0; i < count && (i + 1) * size <= bytes; i++) {
        size_t record = header + i * size;
        put_shifted(e, record + FIRST, false);
        put_shifted(e, record + LAST, false);
    }
}

/* Edit the uptime of the header and the times that depend on it. */
static void put_times(editing *e, const fb_export_header *header, uint32_t version) {
    fb_renumber *r = e->renumber;
    if (!put_uptime(e, header->uptime)) return;
    if (!r->now) put_shifted(e, header->seconds, true);
    else if (version != 9) put_fixed_uptimes(e, version, header->size);
    else fb_record_finder_visit_uptimes(r->finder, e->datagram, put_record_uptime, e);
}

/* Protocols ----------------------------------------------------------------------------------- */

/* Return the observation domain, or the engine of NetFlow v5. */
static uint32_t read_domain(uint32_t version, const uint8_t *payload) {
    switch (version) {
        case 5: return fb_load16(payload + 20);
        case 9: return fb_load32(payload + 16);
        case 10: return fb_load32(payload + 12);
        default: return 0;
    }
}

static fb_sequence_content count_units(editing *e, uint32_t version) {
    switch (version) {
        case 9: return (fb_sequence_content){.units = 1};
        case 10: return fb_record_finder_count(e->renumber->finder, e->datagram);
        default: return (fb_sequence_content){.units = fb_load16(e->payload + 2)};
    }
}

static void edit_export(editing *e, const fb_export_header *header, uint32_t version,
                        uint32_t source) {
    e->exporter.words[0] = (uint64_t)version << 32 | source;
    e->exporter.words[1] = read_domain(version, e->payload);
    e->exporter.words[2] = NETFLOW;
    fb_record_finder_read(e->renumber->finder, e->datagram);
    if (header->number) put_number(e, header->number, NUMBERS, 0, 0, count_units(e, version));
    if (header->uptime && e->status == FB_OK) put_times(e, header, version);
}

static void edit_sample(editing *e, uint32_t format, fb_bytes sample) {
    fb_sample_origin origin;
    if (!fb_sample_find_origin(format, sample, &origin)) return;
    size_t offset = (size_t)(sample.data - e->payload);
    put_number(e, offset, origin.kind, origin.type, origin.index,
               (fb_sequence_content){.units = 1});
}

/* Edit an sFlow datagram. The agent is identified by the address in the payload, because receivers
   do so. */
static void edit_sflow(editing *e) {
    fb_bytes agent, sample;
    fb_xdr xdr = {e->payload + 4, e->payload + e->datagram->payload.size};
    uint32_t sub_agent, format;
    if (!fb_xdr_read_address(&xdr, &agent) || !fb_xdr_read_word(&xdr, &sub_agent)) return;
    if (xdr.end - xdr.p < 12) return;
    uint8_t address[16] = {0};
    fb_sflow_agent_address(address, agent);
    memcpy(e->exporter.words, address, 16);
    e->exporter.words[2] = (uint64_t)sub_agent << 32;
    size_t number = (size_t)(xdr.p - e->payload);
    uint32_t samples = fb_load32(xdr.p + 8);
    put_number(e, number, NUMBERS, 0, 0, (fb_sequence_content){.units = 1});
    if (e->status == FB_OK) put_uptime(e, number + 4);
    xdr.p += 12;
    for (; samples && e->status == FB_OK && fb_xdr_read_item(&xdr, &format, &sample); samples--)
        edit_sample(e, format, sample);
}

static void edit_datagram(editing *e, uint32_t source) {
    uint32_t version;
    const fb_export_header *header = fb_export_header_find(e->datagram, &version);
    if (e->datagram->payload.size > UINT16_MAX) return; /* longer than UDP allows */
    if (header) edit_export(e, header, version, source);
    else if (version == FB_SFLOW5) edit_sflow(e);
}

fb_status fb_renumber_add(fb_renumber *r, const fb_datagram *datagram, uint32_t source) {
    void *ends = r->ends;
    if (r->count == r->capacity && !double_room(r->memory, &ends, &r->capacity, sizeof *r->ends))
        return FB_NO_MEMORY;
    r->ends = ends;
    editing e = {.renumber = r,
                 .datagram = datagram,
                 .payload = fb_recording_get_payload(datagram),
                 .status = FB_OK};
    edit_datagram(&e, source);
    r->ends[r->count++] = r->edit_count;
    return e.status;
}

/* Repetitions --------------------------------------------------------------------------------- */

void fb_renumber_finish(fb_renumber *r, uint32_t duration) {
    for (uint32_t i = 0; i < r->keys.count; i++) {
        sequence *s = &r->sequences[i];
        uint32_t span = s->next - s->first;
        if (s->is_clock) span = round_up_to_seconds(span > duration ? span : duration);
        s->advance = span;
    }
}

void fb_renumber_advance(const fb_renumber *r, const fb_datagram *datagram, size_t i) {
    uint8_t *payload = fb_recording_get_payload(datagram);
    for (size_t at = i ? r->ends[i - 1] : 0; at < r->ends[i]; at++) {
        const edit *edit = &r->edits[at];
        uint32_t advance = r->sequences[edit->sequence].advance;
        if (edit->in_seconds) advance /= MILLISECONDS;
        uint8_t *p = payload + edit->offset;
        fb_store32(p, fb_load32(p) + advance);
    }
}
