/* Reader from Protocol Buffers messages of any type to nested columns.

   The rules are those of google.protobuf: the last value of a field and of a oneof counts, parts
   of a message are merged, and elements are packed or not. Unknown fields are skipped, and so are
   numbers that a closed enum does not have. Of map entries with one key, the last one counts;
   entries are in the order of their keys. Malformed UTF-8 becomes U+FFFD. A Value without a JSON
   form is malformed.

   Usage:
     fb_nested_reader_new(&reader, types, count, &memory);
     while ((status = fb_nested_read(&reader, &rest, 16384, &fault)) == FB_NO_SPACE)
         fb_nested_finish(&reader, &batch);  … export and release the batch …
     fb_nested_finish(&reader, &batch); */
#ifndef FB_NESTED_NESTED_READ_H
#define FB_NESTED_NESTED_READ_H

#include "core/nested/nested_node.h"
#include "core/wire/message_reader.h"

/* The last member of a oneof that was read. */
typedef struct {
    size_t row; /* plus 1 */
    int32_t node;
} fb_nested_choice;

/* A map or a JSON text that is made when its row is complete. */
typedef struct {
    int32_t node;
    size_t row, depth;
} fb_nested_pending;

typedef struct {
    const fb_nested_type *types;
    fb_memory *memory;
    fb_nested_node *nodes;
    size_t count;
    fb_nested_quick *quick; /* the tables of all structs */
    size_t quick_count;
    fb_nested_choice *choices;
    size_t choice_count;
    fb_nested_pending *pending;
    size_t pending_count, pending_room;
    fb_buffer text;      /* the last JSON */
    const uint8_t *safe; /* 64 bytes of the input can be read at any place before it */
    size_t rows, size;   /* of the batch; bytes of its messages */
    size_t last_rows, last_size;
    uint64_t unknown_fields, invalid_texts; /* in rows */
} fb_nested_reader;

typedef struct {
    const char *problem;  /* static text */
    int32_t node;         /* of the field concerned, or FB_NESTED_NO_NODE */
    const uint8_t *where; /* place in the input */
} fb_nested_fault;

/* Create a reader of a tree. `types` and `memory` must outlive it. NO_MEMORY. REQUIRES: count <=
   UINT16_MAX. */
fb_status fb_nested_reader_new(fb_nested_reader *reader, const fb_nested_type *types, size_t count,
                               fb_memory *memory);
void fb_nested_reader_free(fb_nested_reader *reader);

/* Take messages from a length-delimited stream, one row each, up to `rows` rows. *rest then begins
   at the first message that did not become a row.

     END          the stream is empty
     MORE_INPUT   the stream ends inside this message
     NO_SPACE     the batch is full
     NO_MEMORY    the same for a batch without rows: the message is too large
     BAD_MESSAGE  *fault has the reason

   After every status, the rows are complete. */
fb_status fb_nested_read(fb_nested_reader *reader, fb_bytes *rest, size_t rows,
                         fb_nested_fault *fault);
/* Return the rows as a batch, which the caller releases. The reader is empty then, after every
   status. NO_MEMORY. */
fb_status fb_nested_finish(fb_nested_reader *reader, fb_nested_batch **batch);

#endif
