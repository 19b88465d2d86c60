/* The fields and map entries of a message that is being written, to bring them into order. */
#ifndef FB_JSON_JSON_ORDER_H
#define FB_JSON_JSON_ORDER_H

#include "core/base/buffer.h"
#include "core/json/json_types.h"

/* A field or an entry in the output. Positions are offsets, because the output moves. */
typedef struct {
    const fb_codec_field *field;
    size_t begin, end;
    size_t text, text_size; /* the key of an entry, if it is a string */
    uint64_t number;        /* otherwise */
    size_t place;           /* of the key in the input, for errors */
    bool present;           /* of a field: it has a value */
} fb_json_chunk;

/* The chunks of all messages that are open, as a stack. Zeros are an empty one. */
typedef struct {
    fb_json_chunk *all;
    size_t count, capacity;
} fb_json_chunks;

fb_status fb_json_chunks_push(fb_json_chunks *chunks, fb_json_chunk chunk);
void fb_json_chunks_free(fb_json_chunks *chunks);

/* Sort the chunks from `base` on: fields by their numbers, or entries by their keys. Their bytes in
   the output are moved too. *twice becomes a chunk whose field or key occurs before, or NULL; bytes
   are moved only if it is NULL. */
fb_status fb_json_chunks_order(fb_json_chunks *chunks, size_t base, fb_buffer *output,
                               const fb_json_chunk **twice);

#endif
