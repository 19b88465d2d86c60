/* The decoders of null_row.c, compiled for processors with BMI2. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe")
#include "bench/null_row.h"

#define FB_EMITTER null_row
#define FB_ENTRY   null_row_decode_bmi2
#include "core/decode/decode.tmpl.h"
#else
typedef int fb_nothing; /* ISO C forbids an empty file */
#endif
