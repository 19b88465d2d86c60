/* The decoders of decode_row.c once more, for processors with BMI2. */
#include "base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe")
#include "row.h"

#define FB_EMITTER fb_row
#define FB_ENTRY fb_row_decode_bmi2
#include "decode.inc"
#else
typedef int fb_nothing; /* a file must hold something */
#endif
