/* Plans from text, one column per line: number, name, type and flags, then after a colon the
   sources, best rank first. Sources of equal rank are joined by commas. `#` begins a comment.

     4 bytes uint limit=4294967295 : ipfix:1,ipfix:85 netflow5:dOctets packet:ip.length
     6 src_addr ip late : ipfix:8,ipfix:27 netflow5:srcaddr
     23 time_flow_start timestamp unit=1000000 : ipfix:22@time_uptime
     21 flow_direction enum map=0:1,1:2 : ipfix:61

   Flags: disabled, repeated, explicit, late, native_ip, scaled, rate, one_way, zero, mirror=COLUMN,
   limit=NUMBER, unit=NUMBER. limit is the greatest value (default: 2^64 - 1). unit is the unit of a
   time in nanoseconds.

   A + before an element means that it replaces a zero of another element of its rank. The kind of
   an element follows an @, for example ipfix:8#2@ip. The default is the kind that the column's type
   needs. #2 is the second occurrence, #last the last one.

   The line `rows counters` makes a plan of counter samples, and `rows options` one of options. One
   line may state the kinds of registered elements, for members of lists:

     registry 16@uint 8@ip 150@time_s */
#ifndef FB_TESTS_SUPPORT_PLAN_TEXT_H
#define FB_TESTS_SUPPORT_PLAN_TEXT_H

#include "core/plan/plan.h"
#include "tests/support/text.h"

typedef struct {
    fb_plan *plan;
    size_t count;
    char names[FB_MAX_COLUMNS][40];
    uint16_t by_number[4096]; /* hash table: column + 1 */
} named_plan;

/* Read a plan. An invalid line, or a source that cannot fill its column, ends the program.
   NO_MEMORY. */
fb_status plan_read(named_plan *plan, const char *lines, fb_memory *memory);
void plan_free(named_plan *plan);

/* Return the index of the column with this name or field number, or FB_MAX_COLUMNS. */
uint16_t plan_column(const named_plan *plan, const char *name);
uint16_t plan_column_of_number(const named_plan *plan, uint32_t number);

/* Append a plan that uses everything. It has every fixed source as single, repeated and explicit
   column, every kind of element in every type that takes it, and numbers with the longest tags. */
void plan_put_rich(text *lines);
/* Return such a plan, which is built once. */
const char *rich_columns(void);

/* Append the same for counter and drop samples. */
void plan_put_counters(text *lines);

/* The columns that most decoder tests use. */
extern const char *const usual_columns;
/* Totals of several widths, some too narrow, that are scaled by rates of every protocol: from
   headers, samples and options. */
extern const char *const scaled_columns;
/* Columns of counter and drop samples. */
extern const char *const counter_columns;
/* Columns of options records, with the elements that no column takes. */
extern const char *const options_columns;
/* Columns of flows with all names from options data. */
extern const char *const name_columns;

/* A column of every type. */
#define COLUMNS_OF_EVERY_TYPE \
    "1 byte uint limit=255\n2 pair uint limit=65535\n3 word uint limit=4294967295\n" \
    "4 wide uint\n5 mac uint limit=281474976710655\n6 kind enum map=1:2\n7 flag bool\n" \
    "8 at timestamp unit=1000000\n9 addr ip\n10 small int limit=2147483647\n11 big int\n" \
    "12 zigzag sint limit=2147483647\n13 real float\n14 double double\n" \
    "15 four fixed32 limit=4294967295\n16 eight fixed64\n17 span duration unit=1000000\n" \
    "18 name string\n19 raw bytes\n20 off uint disabled\n21 sure uint explicit limit=255\n" \
    "22 native ip native_ip"

#endif
