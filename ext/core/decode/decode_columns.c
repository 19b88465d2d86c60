/* The decoders compiled for columns and any processor. A number takes as many bytes as its column,
   so instructions for varints gain nothing. */
#if defined(__GNUC__) && !defined(__clang__)
/* gcc would move both members of a cursor as one vector. After a store of one member, such a load
   waits until the store has reached the cache: sFlow takes a fifth longer. */
#pragma GCC optimize("no-tree-slp-vectorize")
#endif
#include "core/emit/columns.h"

#define FB_EMITTER fb_columns
#define FB_BY_COLUMN
#include "core/decode/decode.tmpl.h"
