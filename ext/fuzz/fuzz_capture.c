/* Fuzzes the capture reader with files of any content. A window that moves byte by byte must give
   the same result as the whole file. */
#include "fuzz/fuzz.h"

#include "core/capture/capture.h"

enum { CAPACITY = 8, MAX_INPUT = 65536 };

typedef struct {
    uint64_t datagrams, bytes, hash;
    fb_capture_stats stats;
    uint64_t counters[FB_STATUS_COUNT];
    fb_status status;
} reading;

static void add_datagrams(reading *r, const fb_datagram *datagrams, size_t count) {
    r->datagrams += count;
    for (size_t i = 0; i < count; i++) {
        r->bytes += datagrams[i].payload.size;
        r->hash = r->hash * 31 + datagrams[i].time + datagrams[i].source_port;
        for (size_t k = 0; k < datagrams[i].payload.size; k++)
            r->hash = r->hash * 31 + datagrams[i].payload.data[k];
    }
}

/* `step`: size of the first window, and bytes added whenever more input is requested. */
static reading read_capture(const uint8_t *data, size_t size, size_t step) {
    reading r = {0};
    fb_memory memory = fb_memory_system(0);
    fb_capture *capture;
    size_t begin = 0, end = step < size ? step : size, count, consumed;
    MUST(fb_capture_new(&capture, &memory,
                        (fb_capture_options){.any_port = true, .fragment_memory = 65536}) == FB_OK);
    for (;;) {
        fb_datagram datagrams[CAPACITY];
        uint8_t *window = malloc(end - begin + 1);
        MUST(window);
        for (size_t i = begin; i < end; i++) window[i - begin] = data[i];
        r.status = fb_capture_scan(capture, (fb_bytes){window, end - begin}, end == size, datagrams,
                                   CAPACITY, &count, &consumed);
        MUST(count <= CAPACITY && consumed <= end - begin);
        add_datagrams(&r, datagrams, count);
        free(window);
        begin += consumed;
        if (r.status != FB_OK && r.status != FB_MORE_INPUT) break;
        MUST(r.status == FB_MORE_INPUT || count || consumed);
        MUST(r.status == FB_OK || end < size);
        if (r.status == FB_MORE_INPUT) end = end + step < size ? end + step : size;
    }
    r.stats = fb_capture_get_stats(capture);
    for (size_t i = 0; i < FB_STATUS_COUNT; i++) r.counters[i] = fb_capture_counters(capture)[i];
    fb_capture_free(capture);
    MUST(memory.used == 0);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > MAX_INPUT) return 0;
    reading whole = read_capture(data, size, size + 1),
            pieces = read_capture(data, size, 1 + size % 61);
    MUST(whole.status == FB_END || whole.status == FB_NOT_A_CAPTURE);
    MUST(whole.status == pieces.status);
    MUST(whole.datagrams == pieces.datagrams && whole.bytes == pieces.bytes &&
         whole.hash == pieces.hash);
    MUST(whole.stats.packets == pieces.stats.packets && whole.stats.datagrams == whole.datagrams);
    for (size_t i = 0; i < FB_STATUS_COUNT; i++) MUST(whole.counters[i] == pieces.counters[i]);
    return 0;
}
