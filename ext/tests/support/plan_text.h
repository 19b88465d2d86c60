/* Plans from text, one column a line: its number, name, type and flags, and its sources behind a colon, best rank first,
   equals joined by commas. `#` begins a comment.

     4 bytes uint limit=4294967295 : ipfix:1,ipfix:85 netflow5:dOctets packet:ip.length
     6 src_addr ip late : ipfix:8,ipfix:27 netflow5:srcaddr
    23 time_flow_start timestamp unit=1000000 : ipfix:22@time_uptime
    21 flow_direction enum map=0:1,1:2 : ipfix:61

   A line `rows counters` makes it a plan of counter samples. Flags: disabled, repeated, explicit, late, native_ip, scaled,
   rate, one_way, zero, mirror=COLUMN. A + before an element says that it replaces a zero of another of its rank. limit is the greatest value (none: 2^64 - 1), unit the nanoseconds of a time's unit. An
   element's kind stands behind an @, one of its occurrences before that, as in ipfix:8#2@ip or ipfix:8#last; without one it is what the column's type wants. For members of lists, one line may say
   the kinds of registered elements:

     registry 16@uint 8@ip 150@time_s */
#ifndef FB_TEST_PLAN_TEXT_H
#define FB_TEST_PLAN_TEXT_H

#include "core/plan/plan.h"
#include "tests/support/text.h"

typedef struct {
    fb_plan *plan;
    size_t count;
    char names[FB_MAX_COLUMNS][40];
    uint16_t by_number[4096]; /* hash table: column + 1 */
} named_plan;

/* A line that makes no sense, or a source that cannot fill its column, ends the program. NO_MEMORY. */
fb_status plan_read(named_plan *plan, const char *lines, fb_memory *memory);
void plan_free(named_plan *plan);

/* The column of a name, or of a field number; FB_MAX_COLUMNS where there is none. */
uint16_t plan_column(const named_plan *plan, const char *name);
uint16_t plan_column_of_number(const named_plan *plan, uint32_t number);

/* Lines of a plan that wants everything: every fixed source, single, repeated and explicit; every kind of element into every
   type that takes it; numbers whose tags are as long as tags can be. */
void plan_put_rich(text *lines);

/* The same of counter and drop samples. */
void plan_put_counters(text *lines);

/* What most tests of decoders look at. */
extern const char *const usual_columns;
/* Totals of several widths, some too small, that are scaled by rates of every protocol: from headers, samples, options. */
extern const char *const scaled_columns;
/* And those of counter and drop samples. */
extern const char *const counter_columns;

#endif
