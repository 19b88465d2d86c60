/* The row writer of arrow_rows.c, compiled for processors with BMI2. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#pragma GCC target("bmi,bmi2,lzcnt,movbe")
#include "core/arrow/arrow_rows.h"

#define FB_ENTRY fb_arrow_block_put_bmi2
size_t FB_ENTRY(fb_arrow_block *block, fb_arrow_source *source, fb_row *row, size_t count);
#include "core/arrow/arrow_rows.tmpl.h"
#else
typedef int fb_nothing; /* ISO C forbids an empty file */
#endif
