/* The Arrow C Data Interface: how columns pass between libraries in one process without being copied. Structures and numbers
   are those of its specification (https://arrow.apache.org/docs/format/CDataInterface.html); any library's are the same. */
#ifndef FB_ARROW_H
#define FB_ARROW_H

#include "core/base/base.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* A member of an enum. Text of Arrow has no end but its length, and so has a name. */
typedef struct {
    fb_bytes name;
    uint32_t number;
} fb_member;

/* What fb_schema_export says of a field. */
typedef struct {
    const char *name;
    const char *format;    /* of one value; of a dictionary's its index */
    const char *extension; /* name of an extension type, or NULL */
    bool nullable, listed, dictionary;
} fb_field_type;

/* A struct type with a child for each field. NO_MEMORY: *schema is not touched. */
fb_status fb_schema_export(const fb_field_type *fields, size_t count, fb_memory memory, struct ArrowSchema *schema);

#endif
