/* Flows as text. A flow is a line: `name=value` for each of its columns, in their order in the plan. Addresses are dotted where
   they are mapped or 4 bytes ("native:" before the latter), bytes are hexadecimal, strings quoted, repeated values in
   brackets. */
#ifndef FB_TEST_FLOW_TEXT_H
#define FB_TEST_FLOW_TEXT_H

#include "core/emit/batch.h"
#include "tests/support/plan_text.h"

/* One value of a column, as both emitters give it. `real` is a binary64; a float is written as such. */
void put_number_text(text *t, const fb_column *column, uint64_t number);
void put_octets_text(text *t, const fb_column *column, const uint8_t *data, size_t size);

/* Lines for length-delimited messages, by a reader of their own. For what no writer may write, an unknown field, a wrong
   wire type, a length that does not fit, the last line is NOT_A_MESSAGE. */
#define NOT_A_MESSAGE "! not a message of this plan"
void describe_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size);

/* The same of any messages, as readers of proto3 take them: what the plan does not have is left out, and counted in *unknown; lists
   may be packed; the last value of a single column counts, and is left out where it says nothing. END, MORE_INPUT, BAD_MESSAGE: what
   is behind the lines. */
fb_status describe_any_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size, uint64_t *unknown);

/* Lines for the rows of a batch. A native address that is mapped counts as one of 4 bytes: columns do not tell them apart. */
void describe_batch(text *t, const named_plan *plan, const fb_batch *batch);

#endif
