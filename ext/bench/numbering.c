/* A hash table stores the next number of each sequence. The key is the exporter or agent and the
   kind of sequence. */
#include "bench/numbering.h"

#include <stdlib.h>

#include "core/packet/sflow_layout.h"
#include "bench/workload.h"

enum { SFLOW = 0, NETFLOW5 = 5, NETFLOW9 = 9, IPFIX = 10 };
enum { JUMP = 1 << 27 }; /* more than any exporter sends in a minute */

/* The owner and kind of a sequence. The sequence of a header has kind 0. A sample sequence has the
   kind and source of the sample. */
typedef struct {
    uint8_t address[16];
    uint32_t protocol, port, domain, kind, type, index;
} numbering_key;

struct numbering_place {
    numbering_key key;
    uint32_t next;
    uint32_t jumps; /* remaining jumps */
    bool taken;
};

/* Table -------------------------------------------------------------------------------------- */

static uint64_t hash(const numbering_key *key) {
    const uint8_t *p = (const uint8_t *)key;
    uint64_t value = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < sizeof *key; i++) value = (value ^ p[i]) * UINT64_C(1099511628211);
    return value ^ value >> 32;
}

static numbering_place *find(numbering_place *places, size_t capacity, const numbering_key *key) {
    size_t i = hash(key) & (capacity - 1);
    while (places[i].taken && memcmp(&places[i].key, key, sizeof *key) != 0)
        i = (i + 1) & (capacity - 1);
    return &places[i];
}

static void grow(numberings *all) {
    size_t capacity = all->capacity ? 2 * all->capacity : 64;
    numbering_place *places = must(calloc(capacity, sizeof *places));
    for (size_t i = 0; i < all->capacity; i++)
        if (all->places[i].taken) *find(places, capacity, &all->places[i].key) = all->places[i];
    free(all->places);
    all->places = places;
    all->capacity = capacity;
}

void numberings_free(numberings *all) {
    free(all->places);
    *all = (numberings){0};
}

/* Numbers ------------------------------------------------------------------------------------ */

/* Overwrite the number at p, which is the first one of a new sequence. The datagram or sample
   counts for `units`. */
static void write_next(numberings *all, const numbering_key *key, const uint8_t *p, uint32_t units,
                       uint32_t jumps) {
    if (2 * all->count >= all->capacity) grow(all);
    numbering_place *place = find(all->places, all->capacity, key);
    if (!place->taken) {
        *place =
            (numbering_place){.key = *key, .next = fb_load32(p), .jumps = jumps, .taken = true};
        all->count++;
    }
    if (place->jumps) {
        place->next += JUMP;
        place->jumps--;
    }
    uint8_t *to = (uint8_t *)(uintptr_t)p;
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(place->next >> (24 - 8 * i));
    place->next += units;
}

static void write_header(numberings *all, const numbering_key *key, const uint8_t *p,
                         uint32_t units) {
    write_next(all, key, p, units, 2);
}

/* Number a sample; its number is its first word. If the agent's sequence jumps, the sequence of
   samples restarts without a jump. */
static void write_sample(numberings *all, numbering_key key, uint32_t format, fb_bytes sample) {
    fb_sample_origin origin;
    if (!fb_sample_find_origin(format, sample, &origin)) return;
    key.kind = origin.kind;
    key.type = origin.type;
    key.index = origin.index;
    write_next(all, &key, sample.data, 1, 0);
}

/* Number an sFlow datagram. The agent address in the payload replaces the address in the key.
   REQUIRES: the key has the address of the sender. */
static void number_sflow(numberings *all, numbering_key key, fb_bytes payload) {
    fb_xdr xdr = {payload.data + 4, payload.data + payload.size};
    uint32_t format;
    fb_bytes agent, sample;
    if (!fb_xdr_read_address(&xdr, &agent) || !fb_xdr_read_word(&xdr, &key.domain)) return;
    if (agent.size && !fb_is_no_address(agent.data, agent.size)) {
        key = (numbering_key){
            .address = {[10] = 0xff, [11] = 0xff}, .protocol = SFLOW, .domain = key.domain};
        memcpy(key.address + 16 - agent.size, agent.data, agent.size);
    }
    if (xdr.end - xdr.p < 12) return;
    uint32_t samples = fb_load32(xdr.p + 8); /* after sequence number and uptime */
    write_header(all, &key, xdr.p, 1);
    for (xdr.p += 12; samples && fb_xdr_read_item(&xdr, &format, &sample); samples--)
        write_sample(all, key, format, sample);
}

void number_datagram(numberings *all, const fb_datagram *datagram, uint32_t records) {
    const uint8_t *p = datagram->payload.data;
    size_t size = datagram->payload.size;
    numbering_key key = {.protocol = size < 16 ? SFLOW : fb_load16(p)};
    memcpy(key.address, datagram->source, 16);
    if (key.protocol == NETFLOW9 || key.protocol == IPFIX) key.port = datagram->source_port;
    if (key.protocol == NETFLOW5 && size >= 24) {
        key.domain = fb_load16(p + 20);
        write_header(all, &key, p + 16, fb_load16(p + 2));
    } else if (key.protocol == NETFLOW9 && size >= 20) {
        key.domain = fb_load32(p + 16);
        write_header(all, &key, p + 12, 1);
    } else if (key.protocol == IPFIX) {
        key.domain = fb_load32(p + 12);
        write_header(all, &key, p + 8, records);
    } else if (size >= 16 && fb_load32(p) == 5) {
        number_sflow(all, key, datagram->payload);
    }
}
