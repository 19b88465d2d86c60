/* Waiting data goes to another decoder, which decodes it as the first one would have. Damaged forms
   are rejected, or each of their sets is counted. */
#include "core/exporter/pending_state.h"
#include "tests/support/session.h"

static const char *const columns = "1 bytes uint : ipfix:1\n"
                                   "2 received timestamp unit=1000000 : meta:time_received\n"
                                   "3 exported timestamp unit=1000000 : meta:time_exported\n"
                                   "4 port uint : meta:source_port\n"
                                   "5 sequence uint : meta:sequence_number\n"
                                   "6 start timestamp unit=1000000 : ipfix:22@time_uptime\n"
                                   "7 domain uint : meta:observation_domain_id\n"
                                   "8 exporter ip : meta:exporter_address\n";

enum { COST = FB_PENDING_SET_BYTES + 12, FORM_HEADER = 32 };

/* Input -------------------------------------------------------------------------------------- */

/* Feed a datagram from a port at a time in ms. `last` is the last number of an IPv6 address; 0: the
   IPv4 address of the session. */
static void feed_from(session *s, const byte_buffer *d, unsigned last, unsigned port, uint64_t ms) {
    uint8_t *copy = fb_guarded_copy(d->data, d->size);
    fb_datagram datagram = datagram_of(copy, d->size, SOURCE_ADDRESS);
    byte_buffer address = {.size = 0};
    if (last) put_ipv6(&address, last), memcpy(datagram.source, address.data, 16);
    datagram.source_port = (uint16_t)port;
    datagram.time = ms * 1000000;
    session_feed_batch(s, &datagram, 1);
    fb_guarded_free(copy, d->size);
}

static void put_timed(byte_buffer *d, unsigned id, uint32_t first) {
    size_t set = set_begin(d, id);
    put32(d, first), put32(d, 60100);
    set_end(d, set);
}

/* Feed data from exporters with an IPv4 and an IPv6 address, before its templates. */
static void feed_data(session *s) {
    byte_buffer d;
    for (unsigned i = 0; i < 3; i++) {
        netflow9_begin(
            &d, (netflow9_header){
                    .uptime = 60000 + i, .seconds = 1000 + i, .sequence = 7 + i, .source_id = 5});
        put_timed(&d, 256 + i % 2, 10 + i);
        feed_from(s, &d, 0, 4000 + i, 5000 + i);
        ipfix_begin(&d, (ipfix_header){.seconds = 2000 + i, .sequence = 70 + i, .domain = 6 + i});
        put_timed(&d, 256, 20 + i);
        ipfix_end(&d);
        feed_from(s, &d, 9, 4100 + i, 5100 + i);
    }
}

static void feed_templates(session *s) {
    byte_buffer d;
    netflow9_begin(&d, (netflow9_header){.seconds = 3000, .source_id = 5});
    size_t set = set_begin(&d, 0);
    put_template(&d, 257, FIELDS({1, 4}, {22, 4})), put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
    set_end(&d, set);
    feed_from(s, &d, 0, 4000, 6000);
    for (unsigned i = 0; i < 3; i++) {
        ipfix_begin(&d, (ipfix_header){.seconds = 3000, .sequence = 90, .domain = 6 + i});
        set = set_begin(&d, 2);
        put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
        set_end(&d, set), ipfix_end(&d);
        feed_from(s, &d, 9, 4000, 6000);
    }
}

/* Handing over ------------------------------------------------------------------------------- */

/* Return the form of an exporter, which ends at a guard page. */
static fb_bytes form_of(const fb_exporter *exporter) {
    size_t size = fb_pending_form_size(exporter);
    uint8_t *form = fb_guarded_room_of(size);
    fb_pending_write(exporter, form);
    return (fb_bytes){form, size};
}

/* Hand all waiting sets over from one decoder to another. */
static void hand_over(session *from, session *to) {
    const fb_exporters *exporters = &from->decoder->exporters;
    for (size_t i = 0; i < exporters->capacity; i++) {
        const fb_exporter *exporter = fb_exporters_at(exporters, i);
        if (!exporter) continue;
        fb_bytes form = form_of(exporter);
        CHECK_STATUS(fb_pending_check(form), FB_OK);
        fb_pending_restore(&to->decoder->exporters, exporter->address, exporter->agent, form);
        fb_guarded_free((uint8_t *)form.data, form.size);
    }
    fb_decoder_hand_over(from->decoder);
}

/* Each set that a decoder got is decoded, waits, was dropped, or was handed over. */
static void check_sums(session *s, uint64_t decoded) {
    CHECK_EQUAL(session_count(s, FB_EARLY_DATA) + session_count(s, FB_EARLY_DATA_INHERITED),
                decoded + s->decoder->pending.all.sets + session_count(s, FB_TEMPLATE_MISSING) +
                    session_count(s, FB_EARLY_DATA_HANDED_OVER));
}

static void decodes_the_same_flows_in_another_decoder(void) {
    session alone, first, second;
    session_open(&alone, columns, 4096);
    session_open(&first, columns, 4096);
    session_open(&second, columns, 4096);
    feed_data(&alone), feed_templates(&alone);
    feed_data(&first);
    hand_over(&first, &second);
    CHECK_COUNTERS(&first, "early_data=6 early_data_handed_over=6");
    CHECK_EQUAL(first.decoder->pending.all.sets, 0);
    CHECK_EQUAL(second.decoder->pending.all.sets, 6);
    feed_templates(&second);
    CHECK_TEXT(session_text(&second), session_text(&alone));
    CHECK(strstr(session_text(&second),
                 "bytes=12 received=5002 exported=1002000 port=4002 sequence=9 start=1002098 "
                 "domain=5 exporter=192.0.2.1\n"));
    CHECK(strstr(session_text(&second), "bytes=21 received=5101 exported=2001000 port=4101 "
                                        "sequence=71 domain=7 exporter=2001:db8:0:0:0:0:0:9\n"));
    CHECK_COUNTERS(&second, "no_system_start=3 early_data_inherited=6");
    check_sums(&first, 0), check_sums(&second, 6);
    fb_decoder_finish(first.decoder); /* nothing is left to be dropped */
    CHECK_EQUAL(session_count(&first, FB_TEMPLATE_MISSING), 0);
    session_close(&alone), session_close(&first), session_close(&second);
}

/* A set that its datagram cut short states a larger size than it has. */
static void keeps_a_truncated_set(void) {
    session alone, first, second;
    byte_buffer d, t;
    ipfix_begin(&d, (ipfix_header){0});
    put_timed(&d, 256, 5);
    ipfix_end(&d);
    patch16(&d, 18, 500);
    ipfix_begin(&t, (ipfix_header){0});
    size_t set = set_begin(&t, 2);
    put_template(&t, 256, FIELDS({1, 4}, {22, 4}));
    set_end(&t, set), ipfix_end(&t);
    session_open(&alone, columns, 4096);
    session_open(&first, columns, 4096);
    session_open(&second, columns, 4096);
    session_feed(&alone, &d), session_feed(&first, &d);
    hand_over(&first, &second);
    session_feed(&alone, &t), session_feed(&second, &t);
    CHECK(strstr(session_text(&alone), "bytes=5 "));
    CHECK_TEXT(session_text(&second), session_text(&alone));
    session_close(&alone), session_close(&first), session_close(&second);
}

/* The ports of a split domain have their own templates. */
static void returns_sets_to_the_domains_of_their_ports(void) {
    session first, second;
    byte_buffer d;
    session_open(&first, columns, 4096);
    session_open(&second, columns, 4096);
    for (unsigned i = 0; i < 2; i++) {
        ipfix_begin(&d, (ipfix_header){.domain = 6});
        put_timed(&d, 256, 1 + i);
        ipfix_end(&d);
        feed_from(&first, &d, 9, 4000 + i, 5000);
    }
    fb_exporter *exporter =
        fb_exporters_restore(&second.decoder->exporters, first.decoder->exporters.last->address, 0);
    fb_domain *domain;
    fb_exporter_get_domain(&second.decoder->exporters, exporter, 10, 6, &domain);
    domain->split = true;
    hand_over(&first, &second);
    ipfix_begin(&d, (ipfix_header){.domain = 6});
    size_t set = set_begin(&d, 2);
    put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
    set_end(&d, set), ipfix_end(&d);
    feed_from(&second, &d, 9, 4001, 6000);
    CHECK(strstr(session_text(&second), "bytes=2 "));
    CHECK(!strstr(session_text(&second), "bytes=1 "));
    CHECK_EQUAL(second.decoder->pending.all.sets, 1);
    check_sums(&second, 1);
    session_close(&first), session_close(&second);
}

/* Decoding of due sets was abandoned: they wait again, and are handed over like the others. */
static void hands_over_sets_that_were_due(void) {
    session first, second;
    byte_buffer d;
    session_open(&first, columns, 4096);
    session_open(&second, columns, 4096);
    feed_data(&first);
    netflow9_begin(&d, (netflow9_header){.seconds = 3000, .source_id = 5});
    size_t set = set_begin(&d, 0);
    put_template(&d, 256, FIELDS({1, 4}, {22, 4}));
    set_end(&d, set);
    fb_datagram datagram = datagram_of(d.data, d.size, SOURCE_ADDRESS);
    fb_row_set_output(&first.row, first.output, 0, 0);
    CHECK_STATUS(fb_row_decode(first.decoder, &datagram, 1, &(fb_position){0}, &first.row),
                 FB_NO_SPACE);
    CHECK(first.decoder->pending.due);
    hand_over(&first, &second);
    check_sums(&first, 0);
    feed_templates(&second);
    CHECK_EQUAL(second.row.count, 6);
    check_sums(&second, 6);
    session_close(&first), session_close(&second);
}

/* The output was full inside a set: only its other records are handed over. */
static void hands_over_the_rest_of_a_set(void) {
    for (unsigned id = 256; id <= 257; id++) { /* records of fixed and of variable size */
        const bool varies = id == 257;
        session first, second;
        byte_buffer d, templates;
        ipfix_begin(&templates, (ipfix_header){.seconds = 3000, .domain = 5});
        size_t set = set_begin(&templates, 2);
        if (varies) put_template(&templates, id, FIELDS({1, 4}, {82, 65535}));
        else put_template(&templates, id, FIELDS({1, 4}));
        set_end(&templates, set), ipfix_end(&templates);
        ipfix_begin(&d, (ipfix_header){.seconds = 3000, .domain = 5});
        set = set_begin(&d, id);
        for (unsigned i = 1; i <= 20; i++) {
            put32(&d, i);
            if (varies) put8(&d, 1), put8(&d, 'a');
        }
        set_end(&d, set), ipfix_end(&d);
        const fb_datagram datagram = datagram_of(templates.data, templates.size, SOURCE_ADDRESS);
        for (size_t room = 0;; room++) {
            session_open(&first, columns, 4096);
            session_open(&second, columns, 4096);
            session_feed(&first, &d);
            fb_row_set_output(&first.row, first.output, room, 0);
            if (fb_row_decode(first.decoder, &datagram, 1, &(fb_position){0}, &first.row) == FB_OK)
                break;
            hand_over(&first, &second);
            session_feed(&second, &templates);
            CHECK_EQUAL(first.row.count + second.row.count, 20);
            check_sums(&first, 0);
            check_sums(&second, 1);
            session_close(&first), session_close(&second);
        }
        CHECK_EQUAL(first.row.count, 20);
        session_close(&first), session_close(&second);
    }
}

/* Limits ------------------------------------------------------------------------------------- */

static void check_limited(fb_decoder_options options, size_t waiting, const char *counters) {
    session first, second;
    session_open(&first, columns, 4096);
    memset(&second, 0, sizeof second);
    CHECK_STATUS(session_try(&second, columns, 4096, options), FB_OK);
    feed_data(&first);
    hand_over(&first, &second);
    CHECK_COUNTERS(&second, counters);
    CHECK_EQUAL(second.decoder->pending.all.sets, waiting);
    CHECK(!options.early_data_total ||
          second.decoder->pending.all.bytes <= options.early_data_total);
    check_sums(&second, 0);
    session_close(&first), session_close(&second);
}

static void applies_the_limits_of_the_decoder_that_inherits(void) {
    check_limited((fb_decoder_options){.early_data_limit = 2 * COST}, 4,
                  "template_missing=2 early_data_inherited=6");
    check_limited((fb_decoder_options){.early_data_total = 5 * COST}, 5,
                  "template_missing=1 early_data_inherited=6");
    check_limited((fb_decoder_options){.early_data_limit = COST - 1}, 0,
                  "template_missing=6 early_data_inherited=6");
    check_limited((fb_decoder_options){.exporter_limit = 1}, 3,
                  "template_missing=3 early_data_inherited=6");
    check_limited((fb_decoder_options){.exporter_memory = 1}, 0,
                  "template_missing=6 early_data_inherited=6");
}

static void drops_the_oldest_inherited_sets_first(void) {
    session first, second;
    session_open(&first, columns, 4096);
    memset(&second, 0, sizeof second);
    fb_decoder_options options = {.early_data_limit = 2 * COST};
    CHECK_STATUS(session_try(&second, columns, 4096, options), FB_OK);
    feed_data(&first);
    hand_over(&first, &second);
    feed_templates(&second);
    CHECK(!strstr(session_text(&second), "bytes=10 "));
    CHECK(!strstr(session_text(&second), "bytes=20 "));
    CHECK_EQUAL(second.row.count, 4);
    session_close(&first), session_close(&second);
}

static void counts_each_set_at_every_failed_allocation(void) {
    session first;
    size_t unhurt = 0;
    session_open(&first, columns, 4096);
    feed_data(&first);
    fb_exporter *exporter = first.decoder->exporters.last;
    fb_bytes form = form_of(exporter);
    for (size_t fail_at = 1; !unhurt; fail_at++)
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            session s;
            session_open(&s, columns, 4096);
            size_t before = s.allocator.calls;
            s.allocator.fail_at = before + fail_at;
            s.allocator.fail_forever = for_ever;
            fb_pending_restore(&s.decoder->exporters, exporter->address, 0, form);
            unhurt += s.allocator.calls < before + fail_at;
            s.allocator.fail_at = 0;
            CHECK_EQUAL(session_count(&s, FB_EARLY_DATA_INHERITED), 3);
            check_sums(&s, 0);
            feed_templates(&s);
            fb_decoder_finish(s.decoder);
            check_sums(&s, s.row.count);
            session_close(&s);
        }
    CHECK_EQUAL(unhurt, 2);
    fb_guarded_free((uint8_t *)form.data, form.size);
    session_close(&first);
}

/* Damaged forms ------------------------------------------------------------------------------ */

/* Restore a form from a copy that ends at a guard page, and decode its sets. A rejected form
   changes nothing. Return the number of sets. */
static uint64_t try_form(const uint8_t *data, size_t size, const uint8_t address[16]) {
    session s;
    uint8_t *copy = fb_guarded_copy(data, size);
    fb_bytes form = {copy, size};
    session_open(&s, columns, 4096);
    fb_status status = fb_pending_check(form);
    if (status == FB_OK) fb_pending_restore(&s.decoder->exporters, address, 0, form);
    else CHECK_STATUS(status, FB_BAD_ARGUMENT);
    uint64_t sets = session_count(&s, FB_EARLY_DATA_INHERITED);
    CHECK_EQUAL(s.decoder->pending.all.sets, sets);
    CHECK(status == FB_OK || s.decoder->exporters.count == 0);
    feed_templates(&s);
    uint64_t decoded = sets - s.decoder->pending.all.sets;
    fb_decoder_finish(s.decoder);
    check_sums(&s, decoded);
    session_close(&s);
    fb_guarded_free(copy, size);
    return sets;
}

static void rejects_every_prefix_that_ends_inside_a_set(void) {
    session first;
    session_open(&first, columns, 4096);
    feed_data(&first);
    fb_exporter *exporter = first.decoder->exporters.last;
    fb_bytes form = form_of(exporter);
    CHECK_EQUAL(form.size, 2 + 3 * (FORM_HEADER + 12));
    for (size_t size = 0; size <= form.size; size++) {
        bool whole = size >= 2 && (size - 2) % (FORM_HEADER + 12) == 0;
        CHECK_EQUAL(try_form(form.data, size, exporter->address),
                    whole ? (size - 2) / (FORM_HEADER + 12) : 0);
    }
    fb_guarded_free((uint8_t *)form.data, form.size);
    session_close(&first);
}

static void counts_or_rejects_every_corrupted_byte(void) {
    static const uint8_t masks[] = {0x01, 0x04, 0x10, 0x80, 0xff};
    uint64_t rejected = 0, accepted = 0;
    session first;
    session_open(&first, columns, 4096);
    feed_data(&first);
    fb_exporter *exporter = first.decoder->exporters.last;
    fb_bytes form = form_of(exporter);
    uint8_t *damaged = malloc(form.size);
    for (size_t i = 0; i < form.size; i++)
        for (size_t mask = 0; mask < sizeof masks; mask++) {
            memcpy(damaged, form.data, form.size);
            damaged[i] ^= masks[mask];
            uint64_t sets = try_form(damaged, form.size, exporter->address);
            *(sets ? &accepted : &rejected) += 1;
        }
    CHECK(rejected > 50); /* sizes, versions and ids of sets */
    CHECK(accepted > rejected);
    free(damaged);
    fb_guarded_free((uint8_t *)form.data, form.size);
    session_close(&first);
}

static void rejects_impossible_numbers(void) {
    static const struct {
        size_t at;
        unsigned value;
    } faults[] = {
        {0, 0},       {0, 2},                          /* version of the form */
        {6, 5},       {6, 11},                         /* version of the protocol */
        {10, 0x8000},                                  /* time after FB_TIME_MAX */
        {30, 1},      {30, 0xffff}, {32, 3}, {32, 13}, /* size: huge, too small, too large */
        {34, 255},    {34, 2},                         /* id of the set */
    };
    session first;
    byte_buffer d;
    session_open(&first, columns, 4096);
    ipfix_begin(&d, (ipfix_header){0});
    put_timed(&d, 256, 1);
    ipfix_end(&d);
    session_feed(&first, &d);
    fb_exporter *exporter = first.decoder->exporters.last;
    fb_bytes form = form_of(exporter);
    CHECK_EQUAL(try_form(form.data, form.size, exporter->address), 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        d.size = 0;
        put_bytes(&d, form.data, form.size);
        patch16(&d, faults[i].at, faults[i].value);
        CHECK_EQUAL(try_form(d.data, d.size, exporter->address), 0);
    }
    fb_guarded_free((uint8_t *)form.data, form.size);
    session_close(&first);
}

RUN_TESTS(TEST(decodes_the_same_flows_in_another_decoder), TEST(keeps_a_truncated_set),
          TEST(returns_sets_to_the_domains_of_their_ports), TEST(hands_over_sets_that_were_due),
          TEST(hands_over_the_rest_of_a_set), TEST(applies_the_limits_of_the_decoder_that_inherits),
          TEST(drops_the_oldest_inherited_sets_first),
          TEST(counts_each_set_at_every_failed_allocation),
          TEST(rejects_every_prefix_that_ends_inside_a_set),
          TEST(counts_or_rejects_every_corrupted_byte), TEST(rejects_impossible_numbers))
