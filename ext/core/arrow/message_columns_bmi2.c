/* The reader of message_columns.c, compiled for processors with BMI2. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe")
#include "core/arrow/message_columns.h"

#define FB_ENTRY fb_message_columns_read_bmi2
fb_status FB_ENTRY(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                   fb_message_fault *fault);
#include "core/arrow/message_rows.tmpl.h"
#else
typedef int fb_nothing; /* ISO C forbids an empty file */
#endif
