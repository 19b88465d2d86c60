/* The interpreting decoder, compiled for Protocol Buffers messages. */
#include "bench/interpreted.h"

#define FB_EMITTER fb_row
#include "bench/interpreted.tmpl.h"
