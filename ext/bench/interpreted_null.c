/* The interpreting decoder, compiled for no messages at all. */
#include "bench/null_row.h"

#define FB_EMITTER null_row
#include "bench/interpreted.tmpl.h"
