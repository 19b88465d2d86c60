/* Datagrams that are resumed after the output was full, with other datagrams in between. */
#include "tests/support/session.h"

static const char *const few = "1 bytes uint limit=4294967295 : ipfix:1\n"
                               "2 port uint limit=65535 : ipfix:7\n";

/* Another datagram may be decoded between two calls. A position in one set is not valid in the
   next. */
static void resumes_a_message_whose_template_was_withdrawn(void) {
    session s;
    byte_buffer d;
    fb_position position = {0};
    memset(&s, 0, sizeof s);
    fb_decoder_options options = {.obey_withdrawals = true};
    CHECK_STATUS(session_try(&s, few, 65536, options), FB_OK);
    ipfix_begin(&d, (ipfix_header){0});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4}));
    put_template(&d, 257, FIELDS({7, 2}, {371, VARIABLE}));
    set_end(&d, set), ipfix_end(&d);
    session_feed(&s, &d);

    ipfix_begin(&d, (ipfix_header){0});
    set = set_begin(&d, 256);
    put_repeated(&d, 1, 400);
    set_end(&d, set), set = set_begin(&d, 257);
    put16(&d, 53), put8(&d, 0);
    set_end(&d, set), ipfix_end(&d);
    uint8_t *copy = fb_guarded_copy(d.data, d.size);
    fb_datagram datagram = datagram_of(copy, d.size, SOURCE_ADDRESS);
    fb_row_set_output(&s.row, s.output, s.plan.plan->max_fixed_size, 0);
    CHECK_STATUS(fb_row_decode(s.decoder, &datagram, 1, &position, &s.row), FB_NO_SPACE);

    ipfix_begin(&d, (ipfix_header){0});
    set = set_begin(&d, 2);
    put_template(&d, 256, NULL, 0);
    set_end(&d, set), ipfix_end(&d);
    session_forget(&s);
    session_feed(&s, &d);
    CHECK_STATUS(fb_row_decode(s.decoder, &datagram, 1, &position, &s.row), FB_OK);
    CHECK_FLOWS(&s, "port=53\n");
    CHECK_COUNTERS(&s, "withdrawal=1 early_data=1");
    fb_guarded_free(copy, datagram.payload.size);
    session_close(&s);
}

RUN_TESTS(TEST(resumes_a_message_whose_template_was_withdrawn))
