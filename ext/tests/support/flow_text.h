/* Flows as text. Each flow is a line with `name=value` for each of its columns, in the order of the
   plan. Addresses are dotted if they are IPv4-mapped or have 4 bytes ("native:" marks the latter).
   Bytes are hexadecimal, strings quoted, and repeated values in brackets. */
#ifndef FB_TESTS_SUPPORT_FLOW_TEXT_H
#define FB_TESTS_SUPPORT_FLOW_TEXT_H

#include "core/emit/batch.h"
#include "tests/support/plan_text.h"

/* Append one value of a column in the form of the emitters. `real` is a binary64; a float is
   written as such. */
void put_number_text(text *t, const fb_column *column, uint64_t number);
void put_bytes_text(text *t, const fb_column *column, const uint8_t *data, size_t size);

/* Describe length-delimited messages with a separate reader, one line each. Anything that no writer
   may write ends the text with NOT_A_MESSAGE: an unknown field, a wrong wire type, or a wrong
   length. */
#define NOT_A_MESSAGE "! not a message of this plan"
void describe_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size);

/* Describe any messages by the rules of proto3 readers. Fields outside the plan are skipped and
   counted in *unknown. Lists may be packed. The last value of a single column counts, and is
   omitted if it is a default. Returns the status behind the last line: END, MORE_INPUT or
   BAD_MESSAGE. */
fb_status describe_any_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size,
                                uint64_t *unknown);

/* Describe the rows of a batch, one line each. A mapped native address is shown with 4 bytes,
   because columns do not keep its width. */
void describe_batch(text *t, const named_plan *plan, const fb_batch *batch);

#endif
