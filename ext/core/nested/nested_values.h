/* Values of a node that take more than a store. This header is for this folder.

   Each function stores the value of a row that was reached. NO_MEMORY; NO_SPACE: the batch is full;
   BAD_MESSAGE: the fault has the reason, and the caller adds the offset. */
#ifndef FB_NESTED_NESTED_VALUES_H
#define FB_NESTED_NESTED_VALUES_H

#include "core/nested/nested_read.h"

extern const char fb_nested_too_long[];

/* Set the fault. The caller knows the offset. */
FB_INLINE fb_status fb_nested_refuse(fb_nested_fault *fault, const fb_nested_reader *reader,
                                     const fb_nested_node *node, const char *problem) {
    fault->problem = problem;
    fault->node = node ? (int32_t)(node - reader->nodes) : FB_NESTED_NO_NODE;
    return FB_BAD_MESSAGE;
}

/* Make room for `size` bytes of texts, or as many as are expected. */
FB_INLINE bool fb_nested_reserve(fb_nested_node *node, size_t size, fb_memory *memory) {
    if (FB_LIKELY(size <= node->bytes.size)) return true;
    if (size > INT32_MAX) return false;
    if (size < node->bytes_hint) size = node->bytes_hint;
    return fb_nested_block_grow(&node->bytes, size, memory) == FB_OK;
}

/* Store a string or bytes. */
fb_status fb_nested_put_text(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes text);
/* Store a Timestamp or Duration, or with `merge` a further part of the last one. */
fb_status fb_nested_put_time(fb_nested_reader *reader, fb_nested_node *node, size_t row, bool merge,
                             fb_bytes bytes, size_t depth, fb_nested_fault *fault);
/* Store the JSON text of a message. The fault has its offset, too. */
fb_status fb_nested_put_json(fb_nested_reader *reader, fb_nested_node *node, size_t row,
                             fb_bytes message, fb_nested_fault *fault);

#endif
