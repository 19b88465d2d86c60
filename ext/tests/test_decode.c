/* Datagrams in, messages out: what each protocol's fields become, and that nothing a datagram says can do harm. */
#include "session.h"

#include "samples.h"

/* What a datagram is made of ----------------------------------------------------------------------------------------- */

static void decodes_a_datagram_of_each_kind(void) {
    for (size_t i = 0; i < sample_count; i++) {
        session s;
        octets d;
        session_open(&s, usual_columns, 65536);
        samples[i].build(&d);
        session_feed(&s, &d);
        CHECK_FLOWS(&s, samples[i].flows);
        session_close(&s);
    }
}

RUN_TESTS(TEST(decodes_a_datagram_of_each_kind))
