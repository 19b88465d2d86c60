/* The decoders of decode_messages.c, compiled for processors with BMI2. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe")
#include "core/emit/message_row.h"

#define FB_EMITTER fb_row
#define FB_ENTRY   fb_row_decode_bmi2
#include "core/decode/decode.tmpl.h"
#else
typedef int fb_nothing; /* ISO C forbids an empty file */
#endif
