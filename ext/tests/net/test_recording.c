/* Recordings keep datagrams unchanged, put them in order of time, and number their sources. */
#include "tests/support/check.h"

#include "net/recording.h"

#define SECOND UINT64_C(1000000000)

static fb_datagram datagram_at(uint64_t time, const char *payload) {
    return (fb_datagram){.time = time, .payload = {(const uint8_t *)payload, strlen(payload)}};
}

static void add(fb_recording *recording, uint64_t time) {
    fb_datagram datagram = datagram_at(time, "x");
    CHECK_STATUS(fb_recording_add(recording, &datagram), FB_OK);
}

static void check_times(const fb_recording *recording, const uint64_t *times, size_t count) {
    CHECK_EQUAL(recording->count, count);
    for (size_t i = 0; i < count; i++) CHECK_EQUAL(recording->datagrams[i].time, times[i]);
}

static void keeps_payloads_and_addresses(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    uint8_t bytes[3000];
    fb_recording_init(&recording, &memory, 1);
    for (unsigned i = 0; i < 3000; i++) {
        memset(bytes, (int)i, i);
        fb_datagram datagram = {.time = i,
                                .source = {[15] = (uint8_t)i},
                                .source_port = 7,
                                .destination_port = 2055,
                                .payload = {i ? bytes : NULL, i}};
        CHECK_STATUS(fb_recording_add(&recording, &datagram), FB_OK);
    }
    CHECK_EQUAL(recording.count, 3000);
    for (unsigned i = 0; i < 3000; i++) {
        const fb_datagram *kept = &recording.datagrams[i];
        memset(bytes, (int)i, i);
        CHECK_BYTES(kept->payload.data, kept->payload.size, bytes, i);
        CHECK_EQUAL(kept->source[15], (uint8_t)i);
        CHECK_EQUAL(kept->destination_port, 2055);
        CHECK_EQUAL(recording.sources[i], i % 256);
    }
    fb_recording_free(&recording);
    CHECK_EQUAL(memory.used, 0);
}

static void sources_differ_by_address_and_port(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    fb_recording_init(&recording, &memory, 1);
    const unsigned sources[][2] = {{1, 1}, {2, 1}, {1, 2}, {1, 1}, {2, 1}, {2, 2}};
    const unsigned numbers[] = {0, 1, 2, 0, 1, 3};
    for (size_t i = 0; i < 6; i++) {
        fb_datagram datagram = datagram_at(1, "x");
        datagram.source[0] = (uint8_t)sources[i][0];
        datagram.source_port = (uint16_t)sources[i][1];
        CHECK_STATUS(fb_recording_add(&recording, &datagram), FB_OK);
        CHECK_EQUAL(recording.sources[i], numbers[i]);
    }
    CHECK_EQUAL(recording.source_table.count, 4);
    fb_recording_free(&recording);
}

static void times_never_decrease(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    fb_recording_init(&recording, &memory, 1);
    add(&recording, 100 * SECOND);
    add(&recording, 103 * SECOND);
    add(&recording, 101 * SECOND);
    add(&recording, 50 * SECOND);
    add(&recording, 104 * SECOND);
    check_times(&recording, (uint64_t[]){0, 3 * SECOND, 3 * SECOND, 3 * SECOND, 4 * SECOND}, 5);
    fb_recording_free(&recording);
}

static void unknown_times_are_those_of_the_datagram_before(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    fb_recording_init(&recording, &memory, 1);
    add(&recording, 0);
    add(&recording, 100 * SECOND);
    add(&recording, 102 * SECOND);
    add(&recording, 0);
    check_times(&recording, (uint64_t[]){0, 0, 2 * SECOND, 2 * SECOND}, 4);
    fb_recording_free(&recording);
}

static void captures_follow_each_other_without_a_pause(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    fb_recording_init(&recording, &memory, 1);
    fb_recording_begin_capture(&recording);
    add(&recording, 100 * SECOND);
    add(&recording, 101 * SECOND);
    fb_recording_begin_capture(&recording);
    add(&recording, 7 * SECOND);
    add(&recording, 9 * SECOND);
    fb_recording_begin_capture(&recording);
    add(&recording, 1000000 * SECOND);
    check_times(&recording, (uint64_t[]){0, SECOND, SECOND, 3 * SECOND, 3 * SECOND}, 5);
    fb_recording_free(&recording);
}

static void payloads_longer_than_a_block_are_kept(void) {
    fb_memory memory = fb_memory_system(0);
    fb_recording recording;
    size_t size = (size_t)3 << 20;
    uint8_t *bytes = calloc(size, 1);
    fb_recording_init(&recording, &memory, 1);
    fb_datagram datagram = {.payload = {bytes, size}};
    CHECK_STATUS(fb_recording_add(&recording, &datagram), FB_OK);
    CHECK_EQUAL(recording.datagrams[0].payload.size, size);
    fb_recording_free(&recording);
    CHECK_EQUAL(memory.used, 0);
    free(bytes);
}

static void survives_every_failed_allocation(void) {
    for (size_t fail_at = 1;; fail_at++) {
        fb_check_allocator allocator = {.fail_at = fail_at};
        fb_memory memory = fb_check_memory(&allocator);
        fb_recording recording;
        size_t added = 0;
        fb_recording_init(&recording, &memory, 1);
        for (unsigned i = 0; i < 500; i++) {
            fb_datagram datagram = datagram_at(1 + i, "payload");
            datagram.source_port = (uint16_t)i;
            fb_status status = fb_recording_add(&recording, &datagram);
            CHECK(status == FB_OK || status == FB_NO_MEMORY);
            added += status == FB_OK;
            CHECK_EQUAL(recording.count, added);
        }
        CHECK(added >= 499);
        fb_recording_free(&recording);
        CHECK_EQUAL(allocator.held, 0);
        if (allocator.calls < fail_at) break;
    }
}

RUN_TESTS(TEST(keeps_payloads_and_addresses), TEST(sources_differ_by_address_and_port),
          TEST(times_never_decrease), TEST(unknown_times_are_those_of_the_datagram_before),
          TEST(captures_follow_each_other_without_a_pause),
          TEST(payloads_longer_than_a_block_are_kept), TEST(survives_every_failed_allocation))
