/* The entries of a map in a message, by their keys. */
#ifndef FB_JSON_JSON_MAP_H
#define FB_JSON_JSON_MAP_H

#include "core/json/json_types.h"

typedef struct {
    fb_bytes bytes;  /* of the entry */
    fb_bytes text;   /* the key, if it is a string */
    uint64_t number; /* otherwise */
} fb_json_entry;

/* Zeros are an empty list. */
typedef struct {
    fb_json_entry *all;
    size_t count, capacity;
    uint64_t unknown; /* entries that were skipped */
} fb_json_entries;

/* Append an entry, with the statuses of fb_codec_next. An entry whose value is not in its closed
   enum is skipped. BAD_MESSAGE: *where is the place in the entry, and *problem describes it. */
fb_status fb_json_entries_add(fb_json_entries *entries, const fb_json_type *type, fb_bytes bytes,
                              size_t depth, const uint8_t **where, const char **problem);
/* Sort entries by their keys. Of entries with one key, only the last one remains. NO_MEMORY:
   nothing changes. */
fb_status fb_json_entries_sort(fb_json_entries *entries, const fb_codec_field *key);
void fb_json_entries_free(fb_json_entries *entries);

#endif
