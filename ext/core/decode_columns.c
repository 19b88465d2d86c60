/* The decoders, compiled for columns. */
#include "columns.h"

#define FB_EMITTER fb_columns
#include "decode.inc"
