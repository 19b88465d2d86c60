/* Names that an exporter reports about itself: of interfaces, VRFs, applications, samplers, users
   and observation points. They come from options records (RFC 7011 section 3.4.2) and from sFlow
   counter samples. Columns of flows look them up by the number in their record.

     domain ─ names ─ buckets: hash of (kind, id) ─▶ name ─▶ next in the bucket
                └─ oldest ◀─▶ … ◀─▶ newest            └─ text, or the speed of an interface

   The latest definition of an id applies. At FB_MAX_NAMES, or when the exporter's memory is full,
   the name that was not defined for the longest time is evicted. */
#ifndef FB_EXPORTER_NAMES_H
#define FB_EXPORTER_NAMES_H

#include "core/exporter/template.h"

#define FB_MAX_NAMES 16384 /* per domain */

/* The id of a named thing, of any width, as an integer of 16 bytes. */
typedef struct {
    uint64_t high, low;
} fb_name_id;

typedef struct fb_name fb_name;
struct fb_name {
    fb_name *next;          /* in its bucket */
    fb_name *older, *newer; /* by the time of the last definition */
    fb_name_id id;
    uint64_t speed; /* of FB_NAME_INTERFACE_SPEED: bits per second */
    uint8_t kind;   /* fb_name_kind */
    uint8_t size;   /* bytes of `text` */
    uint8_t text[]; /* valid UTF-8, with room for a multiple of FB_NAME_BLOCK bytes */
};

typedef struct {
    fb_name **buckets; /* NULL before the first name */
    size_t bucket_count, count;
    unsigned shift;   /* 64 - the binary logarithm of bucket_count */
    uint64_t keys[2]; /* of the hash; odd and secret */
    fb_name *oldest, *newest;
} fb_names;

/* Return the elements that hold the id of a name in a flow, FB_MOST_ID_FIELDS at most; 0 ends
   them. A user is identified by an address. */
const uint16_t *fb_name_elements(fb_source source);

/* Define a name. A text is copied; bytes after FB_NAME_SIZE are cut off at a character, and
   malformed UTF-8 becomes U+FFFD. An empty text and a speed of 0 remove the name. The first `seed`
   keys the hash. Return false if there is no room. The number of other names that were evicted is
   added to *evicted. */
bool fb_names_define(fb_names *names, fb_memory *memory, uint64_t seed, fb_name_kind kind,
                     fb_name_id id, fb_bytes text, uint64_t speed, uint64_t *evicted);
void fb_names_free(fb_names *names, fb_memory *memory);

/* Return the bucket of an id: the high bits of products with secret odd numbers, on which all bits
   of the id have an effect. */
FB_INLINE size_t fb_names_bucket(const fb_names *names, fb_name_kind kind, fb_name_id id) {
    uint64_t hash = (id.low + ((uint64_t)kind << 32)) * names->keys[0] + id.high * names->keys[1];
    return (size_t)(hash >> names->shift);
}

/* Return the name of an id; NULL: unknown. It is valid until a name is defined. */
FB_INLINE const fb_name *fb_names_find(const fb_names *names, fb_name_kind kind, fb_name_id id) {
    if (FB_UNLIKELY(!names->buckets)) return NULL;
    const fb_name *name = names->buckets[fb_names_bucket(names, kind, id)];
    while (name && (name->id.low != id.low || name->id.high != id.high || name->kind != kind))
        name = name->next;
    return name;
}

/* Read an id of a kind from a field. Leading zeros do not count, but those of an address of a user
   do. The engine of an application id is its first byte (RFC 6759 section 4.1), so only zeros after
   it are left out. Returns false if the field is empty or longer than 16 bytes. */
FB_INLINE bool fb_name_id_read(fb_name_kind kind, const uint8_t *p, size_t size, fb_name_id *id) {
    if (FB_UNLIKELY(size - 1 > 15)) return false;
    *id = (fb_name_id){0, 0};
    if (kind == FB_NAME_APPLICATION || kind == FB_NAME_APPLICATION_CATEGORY) {
        id->high = (uint64_t)*p++ << 56;
        size--;
    } else if (kind == FB_NAME_USER && size < 16) {
        id->high = (uint64_t)size << 56; /* a MAC or IPv4 address, which differ in size */
    }
    for (; size > 8; p++, size--) id->high |= (uint64_t)*p << 8 * (size - 9);
    id->low = fb_load_uint(p, size);
    return true;
}

#endif
