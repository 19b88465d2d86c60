/* The interpreting decoder, compiled for the emitter that writes nothing. */
#include "bench/null_row.h"

#define FB_EMITTER null_row
#include "bench/interpreted.tmpl.h"
