/* Memory for what comes and goes in large blocks, as batches of rows do. A block that is released waits for the next of just its size:
   pages that the kernel makes, and takes back, cost a batch about as much as what is written into them.

     static fb_spares spares;                     … zeros: none waits
     fb_memory memory = fb_memory_recycled(&spares, 0);
     fb_spares_free(&spares);                     … those that wait; others may still be in use

   Any thread may use them, whichever made a block. No lock: a place is taken, and filled, in one step. */
#ifndef FB_SPARES_H
#define FB_SPARES_H

#include <stdatomic.h>

#include "core/base/base.h"

/* What waits: 32 MiB, in all. */
enum { FB_SPARES = 8, FB_SPARE_MIN = 64 << 10, FB_SPARE_MAX = 4 << 20 };

typedef struct {
    size_t size;
} fb_spare;

typedef struct {
    _Atomic(fb_spare *) places[FB_SPARES];
    atomic_uint released; /* for which there was no place */
} fb_spares;

/* As fb_memory_system(limit). REQUIRES: the spares outlive all blocks. */
fb_memory fb_memory_recycled(fb_spares *spares, size_t limit);
void fb_spares_free(fb_spares *spares);

#endif
