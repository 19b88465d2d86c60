/* The decoders compiled for columns and any processor. A number takes as many bytes as its column,
   so instructions for varints gain nothing. */
#include "core/emit/columns.h"

#define FB_EMITTER fb_columns
#define FB_BY_COLUMN
#include "core/decode/decode.tmpl.h"
