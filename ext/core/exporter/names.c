/* A hash table of names with a list by age. */
#include "core/exporter/names.h"

#include "core/wire/wire.h"

#define FIRST_BUCKETS 16
#define FIRST_SHIFT   60

const uint16_t *fb_name_elements(fb_source source) {
    static const uint16_t elements[][FB_MOST_ID_FIELDS] = {
        {10, 252}, {14, 253}, {10, 252}, {14, 253}, {10, 252}, {14, 253},
        {234},     {235},     {95},      {95},      {48, 302}, {8, 27, 56, 366, 365},
        {138},
    };
    _Static_assert(sizeof elements / sizeof *elements ==
                       FB_SOURCE_LAST_NAME - FB_SOURCE_FIRST_NAME + 1,
                   "one for each source");
    return elements[source - FB_SOURCE_FIRST_NAME];
}

static size_t bytes_of_size(size_t size) {
    return sizeof(fb_name) + (size + FB_NAME_BLOCK - 1) / FB_NAME_BLOCK * FB_NAME_BLOCK;
}

static size_t bytes_of(const fb_name *name) {
    return bytes_of_size(name->size);
}

static fb_name **find_link(const fb_names *names, fb_name_kind kind, fb_name_id id) {
    fb_name **link = &names->buckets[fb_names_bucket(names, kind, id)];
    while (*link &&
           ((*link)->kind != kind || (*link)->id.low != id.low || (*link)->id.high != id.high))
        link = &(*link)->next;
    return link;
}

static void leave_ages(fb_names *names, const fb_name *name) {
    *(name->older ? &name->older->newer : &names->oldest) = name->newer;
    *(name->newer ? &name->newer->older : &names->newest) = name->older;
}

static void enter_ages(fb_names *names, fb_name *name) {
    name->older = names->newest;
    name->newer = NULL;
    *(names->newest ? &names->newest->newer : &names->oldest) = name;
    names->newest = name;
}

static void remove_name(fb_names *names, fb_memory *memory, fb_name **link) {
    fb_name *name = *link;
    *link = name->next;
    leave_ages(names, name);
    names->count--;
    fb_memory_release(memory, name, bytes_of(name));
}

static void evict_oldest(fb_names *names, fb_memory *memory, uint64_t *evicted) {
    const fb_name *oldest = names->oldest;
    ++*evicted;
    remove_name(names, memory, find_link(names, (fb_name_kind)oldest->kind, oldest->id));
}

/* Make room for another name. If there is no memory for more buckets, chains get longer. Return
   false if there are no buckets. */
static bool grow(fb_names *names, fb_memory *memory, uint64_t seed) {
    if (names->count < names->bucket_count) return true;
    size_t count = names->bucket_count ? names->bucket_count * 2 : FIRST_BUCKETS;
    fb_name **buckets = fb_memory_allocate(memory, count * sizeof *buckets);
    if (!buckets) return names->bucket_count > 0;
    if (!names->buckets) {
        names->keys[0] = fb_hash(seed, 1) | 1;
        names->keys[1] = fb_hash(seed, 2) | 1;
    }
    names->shift = names->buckets ? names->shift - 1 : FIRST_SHIFT;
    for (fb_name *name = names->oldest; name; name = name->newer) {
        size_t bucket = fb_names_bucket(names, (fb_name_kind)name->kind, name->id);
        name->next = buckets[bucket];
        buckets[bucket] = name;
    }
    fb_memory_release(memory, names->buckets, names->bucket_count * sizeof *buckets);
    names->buckets = buckets;
    names->bucket_count = count;
    return true;
}

/* Return the bytes of the characters that fit into the longest name. REQUIRES: valid UTF-8. */
static size_t cut(const uint8_t *text, size_t size) {
    if (size <= FB_NAME_SIZE) return size;
    size = FB_NAME_SIZE;
    while (size && (text[size] & 0xc0) == 0x80) size--;
    return size;
}

/* Write a text as it is kept, without trailing NULs. Return its size. */
static size_t clean(uint8_t out[3 * (FB_NAME_SIZE + 3)], fb_bytes text) {
    bool replaced;
    /* a cut character at the end of these bytes is cut off again below */
    if (text.size > FB_NAME_SIZE + 3) text.size = FB_NAME_SIZE + 3;
    size_t size = cut(out, (size_t)(fb_utf8_put_replaced(out, text, &replaced) - out));
    while (size && !out[size - 1]) size--;
    return size;
}

/* Allocate a name. If the exporter's memory is full, evict others. NULL: there is no room. */
static fb_name *allocate(fb_names *names, fb_memory *memory, size_t size, uint64_t *evicted) {
    fb_name *name = fb_memory_allocate(memory, bytes_of_size(size));
    while (!name && names->count) {
        evict_oldest(names, memory, evicted);
        name = fb_memory_allocate(memory, bytes_of_size(size));
    }
    return name;
}

bool fb_names_define(fb_names *names, fb_memory *memory, uint64_t seed, fb_name_kind kind,
                     fb_name_id id, fb_bytes text, uint64_t speed, uint64_t *evicted) {
    uint8_t kept[3 * (FB_NAME_SIZE + 3)];
    size_t size = clean(kept, text);
    fb_name **link = names->count ? find_link(names, kind, id) : NULL;
    fb_name *name = link ? *link : NULL;
    if (name && name->size == size && memcmp(name->text, kept, size) == 0 && (size || speed)) {
        name->speed = speed;
        leave_ages(names, name);
        enter_ages(names, name);
        return true;
    }
    if (name) remove_name(names, memory, link);
    if (!size && !speed) return true;
    if (names->count == FB_MAX_NAMES) evict_oldest(names, memory, evicted);
    if (!grow(names, memory, seed)) return false;
    name = allocate(names, memory, size, evicted);
    if (!name) return false;
    name->id = id;
    name->kind = (uint8_t)kind;
    name->speed = speed;
    name->size = (uint8_t)size;
    memcpy(name->text, kept, size);
    link = find_link(names, kind, id);
    name->next = *link;
    *link = name;
    enter_ages(names, name);
    names->count++;
    return true;
}

void fb_names_free(fb_names *names, fb_memory *memory) {
    for (fb_name *name = names->oldest, *newer; name; name = newer) {
        newer = name->newer;
        fb_memory_release(memory, name, bytes_of(name));
    }
    fb_memory_release(memory, names->buckets, names->bucket_count * sizeof *names->buckets);
    *names = (fb_names){0};
}
