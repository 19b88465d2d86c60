/* The decoders of decode_messages.c, compiled for processors with AVX-512 VBMI2. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe,popcnt,avx2", \
                   "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")
#include "core/emit/message_row.h"

#define FB_EMITTER fb_row
#define FB_ENTRY   fb_row_decode_avx512
#define FB_WITH_LANES
#define FB_BY_BLOCK
#include "core/decode/decode.tmpl.h"
#else
typedef int fb_nothing; /* ISO C forbids an empty file */
#endif
