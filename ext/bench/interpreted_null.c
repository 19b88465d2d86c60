/* The interpreting decoder, compiled for no messages at all. */
#include "null_row.h"

#define FB_EMITTER null_row
#include "interpreted.inc"
