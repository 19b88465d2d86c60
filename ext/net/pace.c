/* Every due time is computed from the start, so that rounding does not add up. */
#include "net/pace.h"

#define SECOND UINT64_C(1000000000)

static uint64_t get_offset_by_rate(uint64_t rate, uint64_t index) {
    return index / rate * SECOND + index % rate * SECOND / rate;
}

static uint64_t get_offset_by_times(double speed, const fb_recording *recording, uint64_t index) {
    uint64_t repetition = index / recording->count, i = index % recording->count;
    double period = (double)fb_recording_get_period(recording);
    double time = (double)repetition * period + (double)recording->datagrams[i].time;
    double offset = time / speed;
    return offset < (double)FB_TIME_MAX ? (uint64_t)offset : FB_TIME_MAX;
}

uint64_t fb_pace_get_due(const fb_pace *pace, const fb_recording *recording, uint64_t index) {
    switch (pace->kind) {
        case FB_PACE_RATE: return pace->start + get_offset_by_rate(pace->rate, index);
        case FB_PACE_TIMES: return pace->start + get_offset_by_times(pace->speed, recording, index);
        default: return pace->start;
    }
}

/* Start the schedule, or delay it if the next datagram is overdue by more than the slack. */
static void adjust(fb_pace *pace, const fb_recording *recording, uint64_t index, uint64_t now) {
    if (!pace->begun) {
        pace->begun = true;
        pace->start = now;
    }
    uint64_t due = fb_pace_get_due(pace, recording, index);
    if (now <= due || now - due <= FB_PACE_SLACK) return;
    pace->delay += now - due - FB_PACE_SLACK;
    pace->start += now - due - FB_PACE_SLACK;
}

size_t fb_pace_count_due(fb_pace *pace, const fb_recording *recording, uint64_t index, size_t most,
                         uint64_t now) {
    if (pace->kind == FB_PACE_TOP_SPEED) return most;
    adjust(pace, recording, index, now);
    size_t count = 0;
    while (count < most && fb_pace_get_due(pace, recording, index + count) <= now) count++;
    return count;
}
