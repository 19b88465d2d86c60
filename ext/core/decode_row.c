/* The decoders, compiled for Protocol Buffers messages. */
#include "row.h"

#define FB_EMITTER fb_row
#include "decode.inc"
