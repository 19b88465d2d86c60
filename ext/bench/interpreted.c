/* The interpreting decoder, compiled for Protocol Buffers messages. */
#include "interpreted.h"

#define FB_EMITTER fb_row
#include "interpreted.inc"
