/* The Arrow C Data Interface, which passes columns between libraries of one process without
   copying. Structures and numbers are those of its specification
   (https://arrow.apache.org/docs/format/CDataInterface.html), so they are binary-compatible with
   every other library. */
#ifndef FB_ARROW_ARROW_H
#define FB_ARROW_ARROW_H

#include "core/base/base.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

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

/* A member of an enum. Arrow texts are not zero-terminated, so the name has a length. */
typedef struct {
    fb_bytes name;
    uint32_t number;
} fb_member;

/* A field of a schema, for fb_schema_export. */
typedef struct {
    const char *name;
    const char *format;    /* of one value; for a dictionary, of its index */
    const char *extension; /* name of an extension type, or NULL */
    bool nullable, listed, dictionary;
} fb_field_type;

/* Export a struct type with one child per field. The caller owns *schema and calls its release.
   NO_MEMORY: *schema is unchanged. */
fb_status fb_schema_export(const fb_field_type *fields, size_t count, fb_memory memory,
                           struct ArrowSchema *schema);

/* A type of a tree. Its children follow it, each behind the tree of the one before. */
typedef struct {
    const char *name;
    const char *format;
    bool nullable, dictionary;
    size_t child_count;
} fb_tree_type;

/* The same for a tree of types, whose root is the first. */
fb_status fb_schema_export_tree(const fb_tree_type *types, fb_memory memory,
                                struct ArrowSchema *schema);

#endif
