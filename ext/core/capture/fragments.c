/* A pending datagram is a buffer that grows to its furthest byte, and a bit for each unit of 8
   bytes received. Fragments begin and end at such units, except for the end of the last one. So the
   bits alone show overlaps. The key is the addresses and the identification. IPv4 also has the
   protocol, which is always UDP here. */
#include "core/capture/fragments.h"

#define LIFETIME UINT64_C(30000000000)
#define REUSE    UINT64_C(1000000000)

enum { MAX_PAYLOAD = 65535, UNITS = (MAX_PAYLOAD + 7) / 8 };

struct fb_partial {
    fb_partial *newer, *older;
    uint64_t time; /* of its first fragment */
    uint8_t source[16], destination[16];
    uint32_t id;
    uint8_t protocol; /* from the fragment at offset 0 (RFC 8200) */
    bool lost; /* already counted; kept so that later fragments do not start a new datagram */
    uint8_t *data;
    size_t capacity;
    size_t end;      /* of the furthest fragment */
    size_t total;    /* known from the last fragment; 0 before */
    size_t received; /* bytes without overlaps: the datagram is complete if received == total */
    uint8_t units[(UNITS + 7) / 8];
};

void fb_fragments_init(fb_fragments *fragments, fb_memory *memory, size_t memory_limit,
                       size_t pending_limit, uint64_t *lost) {
    *fragments = (fb_fragments){
        .memory = fb_memory_within(memory, memory_limit),
        .pending_limit = pending_limit,
        .lost = lost,
    };
}

static void unlink_partial(fb_fragments *fragments, fb_partial *partial) {
    *(partial->newer ? &partial->newer->older : &fragments->newest) = partial->older;
    *(partial->older ? &partial->older->newer : &fragments->oldest) = partial->newer;
    fragments->pending--;
}

static void link_newest(fb_fragments *fragments, fb_partial *partial) {
    partial->newer = NULL;
    partial->older = fragments->newest;
    *(fragments->newest ? &fragments->newest->newer : &fragments->oldest) = partial;
    fragments->newest = partial;
    fragments->pending++;
}

static void free_data(fb_fragments *fragments, fb_partial *partial) {
    fb_memory_release(&fragments->memory, partial->data, partial->capacity);
    partial->data = NULL;
    partial->capacity = 0;
}

static void free_partial(fb_fragments *fragments, fb_partial *partial) {
    free_data(fragments, partial);
    fb_memory_release(&fragments->memory, partial, sizeof *partial);
}

static void mark_lost(fb_fragments *fragments, fb_partial *partial) {
    if (!partial->lost) ++*fragments->lost;
    partial->lost = true;
    free_data(fragments, partial);
}

static void drop_partial(fb_fragments *fragments, fb_partial *partial) {
    mark_lost(fragments, partial);
    unlink_partial(fragments, partial);
    free_partial(fragments, partial);
}

static void drop_oldest(fb_fragments *fragments) {
    drop_partial(fragments, fragments->oldest);
}

/* Like fb_memory_resize, but evicts older datagrams if needed, except `keep`. */
static void *resize_or_evict(fb_fragments *fragments, const fb_partial *keep, void *p,
                             size_t old_size, size_t new_size) {
    for (;;) {
        void *moved = fb_memory_resize(&fragments->memory, p, old_size, new_size);
        if (moved || !fragments->oldest || fragments->oldest == keep) return moved;
        drop_oldest(fragments);
    }
}

/* If the clock runs backwards, nothing expires. The other limits still apply. */
static void drop_expired(fb_fragments *fragments, uint64_t time) {
    while (fragments->oldest && time > fragments->oldest->time &&
           time - fragments->oldest->time > LIFETIME)
        drop_oldest(fragments);
}

/* Fragments of one datagram are close together, so the search starts with the newest. */
static fb_partial *find_partial(const fb_fragments *fragments, const fb_ip_packet *packet) {
    for (fb_partial *partial = fragments->newest; partial; partial = partial->older)
        if (partial->id == packet->fragment_id &&
            memcmp(partial->source, packet->source, 16) == 0 &&
            memcmp(partial->destination, packet->destination, 16) == 0)
            return partial;
    return NULL;
}

static fb_partial *add_partial(fb_fragments *fragments, uint64_t time, const fb_ip_packet *packet) {
    if (fragments->pending && fragments->pending >= fragments->pending_limit)
        drop_oldest(fragments);
    fb_partial *partial = resize_or_evict(fragments, NULL, NULL, 0, sizeof *partial);
    if (!partial) return NULL;
    memcpy(partial->source, packet->source, 16);
    memcpy(partial->destination, packet->destination, 16);
    partial->time = time;
    partial->id = packet->fragment_id;
    link_newest(fragments, partial);
    return partial;
}

/* Check sizes. Only the last fragment may have an incomplete unit. No fragment may exceed the end
   of the last one, and the last one may not end before another. */
static bool has_valid_size(const fb_partial *partial, const fb_ip_packet *packet, size_t end) {
    if (packet->payload.size == 0 || end > MAX_PAYLOAD) return false;
    if (packet->more_fragments)
        return packet->payload.size % 8 == 0 && (!partial->total || end < partial->total);
    return partial->total ? end == partial->total : end >= partial->end;
}

static bool has_unit(const fb_partial *partial, size_t unit) {
    return partial->units[unit / 8] >> unit % 8 & 1;
}

typedef enum { NEW, REPEATED, CONFLICTING } fragment_kind;

static fragment_kind compare_with_known(const fb_partial *partial, size_t begin, fb_bytes payload) {
    size_t known = 0, first = begin / 8, last = (begin + payload.size - 1) / 8;
    for (size_t unit = first; unit <= last; unit++) known += has_unit(partial, unit);
    if (known == 0) return NEW;
    bool same =
        known == last - first + 1 && memcmp(partial->data + begin, payload.data, payload.size) == 0;
    return same ? REPEATED : CONFLICTING;
}

static bool reserve(fb_fragments *fragments, fb_partial *partial, size_t size) {
    if (size <= partial->capacity) return true;
    size_t capacity = partial->capacity ? partial->capacity : 2048;
    while (capacity < size) capacity *= 2;
    uint8_t *moved =
        resize_or_evict(fragments, partial, partial->data, partial->capacity, capacity);
    if (!moved) return false;
    partial->data = moved;
    partial->capacity = capacity;
    return true;
}

static void store_fragment(fb_partial *partial, const fb_ip_packet *packet, size_t end) {
    size_t begin = packet->fragment_offset;
    memcpy(partial->data + begin, packet->payload.data, packet->payload.size);
    for (size_t unit = begin / 8; unit * 8 < end; unit++)
        partial->units[unit / 8] |= (uint8_t)(1 << unit % 8);
    partial->received += packet->payload.size;
    if (begin == 0) partial->protocol = packet->protocol;
    if (end > partial->end) partial->end = end;
    if (!packet->more_fragments) partial->total = end;
}

static fb_status complete_datagram(fb_fragments *fragments, fb_partial *partial,
                                   fb_ip_packet *packet) {
    unlink_partial(fragments, partial);
    partial->older = fragments->completed;
    fragments->completed = partial;
    fragments->completed_size += partial->capacity + sizeof *partial;
    packet->payload = (fb_bytes){partial->data, partial->total};
    packet->protocol = partial->protocol;
    packet->fragment = packet->more_fragments = false;
    packet->fragment_offset = 0;
    return fb_link_skip_extensions(packet);
}

/* Identifications are reused. A first fragment that conflicts with the stored ones, and comes at
   least 1 second later, belongs to another datagram. */
static bool is_of_another_datagram(const fb_partial *partial, uint64_t time,
                                   const fb_ip_packet *packet, fragment_kind kind) {
    bool later = time > partial->time && time - partial->time >= REUSE;
    return packet->fragment_offset == 0 && later && (partial->lost || kind == CONFLICTING);
}

static fragment_kind compare(const fb_partial *partial, const fb_ip_packet *packet) {
    size_t begin = packet->fragment_offset;
    if (partial->lost || !has_valid_size(partial, packet, begin + packet->payload.size))
        return CONFLICTING;
    return compare_with_known(partial, begin, packet->payload);
}

fb_status fb_fragments_add(fb_fragments *fragments, uint64_t time, fb_ip_packet *packet) {
    drop_expired(fragments, time);
    if (packet->cut) return FB_TRUNCATED_PACKET;
    fb_partial *partial = find_partial(fragments, packet);
    if (partial && is_of_another_datagram(partial, time, packet, compare(partial, packet))) {
        drop_partial(fragments, partial);
        partial = NULL;
    }
    if (!partial) partial = add_partial(fragments, time, packet);
    if (!partial) {
        ++*fragments->lost;
        return FB_MORE_INPUT;
    }
    if (partial->lost) return FB_MORE_INPUT;
    size_t end = packet->fragment_offset + packet->payload.size;
    fragment_kind kind = compare(partial, packet);
    if (kind == REPEATED) return FB_MORE_INPUT;
    if (kind == CONFLICTING || !reserve(fragments, partial, end)) {
        mark_lost(fragments, partial);
        return FB_MORE_INPUT;
    }
    store_fragment(partial, packet, end);
    return partial->received == partial->total ? complete_datagram(fragments, partial, packet)
                                               : FB_MORE_INPUT;
}

void fb_fragments_release(fb_fragments *fragments) {
    while (fragments->completed) {
        fb_partial *partial = fragments->completed;
        fragments->completed = partial->older;
        free_partial(fragments, partial);
    }
    fragments->completed_size = 0;
}

void fb_fragments_drop(fb_fragments *fragments) {
    while (fragments->oldest) drop_oldest(fragments);
}
