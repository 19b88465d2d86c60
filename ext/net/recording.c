/* Payloads are copied into blocks, which never move. */
#include "net/recording.h"

enum { BLOCK_SIZE = 1 << 20, FIRST_CAPACITY = 64 };

struct fb_recording_block {
    fb_recording_block *next; /* older */
    size_t size, used;        /* of `bytes` */
    uint8_t bytes[];
};

typedef struct {
    uint8_t address[16];
    uint64_t port;
} source_key;

void fb_recording_init(fb_recording *recording, fb_memory *memory, uint64_t seed) {
    *recording = (fb_recording){
        .memory = memory,
        .source_table = (fb_key_table){.memory = memory, .seed = seed, .size = sizeof(source_key)}};
}

void fb_recording_free(fb_recording *recording) {
    fb_memory *memory = recording->memory;
    for (fb_recording_block *block = recording->blocks, *next; block; block = next) {
        next = block->next;
        fb_memory_release(memory, block, sizeof *block + block->size);
    }
    size_t capacity = recording->capacity;
    fb_memory_release(memory, recording->datagrams, capacity * sizeof *recording->datagrams);
    fb_memory_release(memory, recording->sources, capacity * sizeof *recording->sources);
    fb_key_table_free(&recording->source_table);
}

void fb_recording_begin_capture(fb_recording *recording) {
    recording->origin = 0;
    recording->begin = recording->latest;
}

static bool grow(fb_recording *recording) {
    fb_memory *memory = recording->memory;
    size_t old = recording->capacity, doubled = old ? 2 * old : FIRST_CAPACITY;
    fb_datagram *datagrams = fb_memory_allocate(memory, doubled * sizeof *datagrams);
    if (!datagrams) return false;
    uint32_t *sources = fb_memory_resize(memory, recording->sources, old * sizeof *sources,
                                         doubled * sizeof *sources);
    if (!sources) {
        fb_memory_release(memory, datagrams, doubled * sizeof *datagrams);
        return false;
    }
    if (old) memcpy(datagrams, recording->datagrams, old * sizeof *datagrams);
    fb_memory_release(memory, recording->datagrams, old * sizeof *datagrams);
    recording->datagrams = datagrams;
    recording->sources = sources;
    recording->capacity = doubled;
    return true;
}

static bool make_room(fb_recording *recording, size_t size) {
    fb_recording_block *block = recording->blocks;
    if (block && block->size - block->used >= size) return true;
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    block = fb_memory_allocate(recording->memory, sizeof *block + room);
    if (!block) return false;
    block->next = recording->blocks;
    block->size = room;
    recording->blocks = block;
    return true;
}

static fb_status find_source(fb_recording *recording, const fb_datagram *datagram,
                             uint32_t *source) {
    source_key key = {.port = datagram->source_port};
    memcpy(key.address, datagram->source, 16);
    return fb_key_table_get(&recording->source_table, &key, source);
}

/* Return the time in the recording of a capture's time. */
static uint64_t place_in_time(fb_recording *recording, uint64_t time) {
    if (!recording->origin) recording->origin = time;
    if (time > recording->origin) {
        uint64_t placed = recording->begin + (time - recording->origin);
        if (placed > recording->latest) recording->latest = placed;
    }
    return recording->latest;
}

fb_status fb_recording_add(fb_recording *recording, const fb_datagram *datagram) {
    size_t size = datagram->payload.size;
    uint32_t source;
    if (recording->count == recording->capacity && !grow(recording)) return FB_NO_MEMORY;
    if (!make_room(recording, size)) return FB_NO_MEMORY;
    if (find_source(recording, datagram, &source) != FB_OK) return FB_NO_MEMORY;
    fb_recording_block *block = recording->blocks;
    uint8_t *payload = block->bytes + block->used;
    if (size) memcpy(payload, datagram->payload.data, size);
    block->used += size;
    fb_datagram *copy = &recording->datagrams[recording->count];
    *copy = *datagram;
    copy->time = place_in_time(recording, datagram->time);
    copy->payload.data = payload;
    recording->sources[recording->count++] = source;
    return FB_OK;
}

uint64_t fb_recording_get_period(const fb_recording *recording) {
    uint64_t duration = recording->latest;
    if (!duration || recording->count < 2) return UINT64_C(1000000000);
    return duration + duration / (recording->count - 1);
}
