/* Credit is counted in billionths of a flow, so that nanoseconds times the limit need no
   division. */
#include "core/exporter/rate_limit.h"

#define SECOND       INT64_C(1000000000) /* ns, and the credit of one flow */
#define ONE          (UINT64_C(1) << 32) /* one flow, in `owed` and in weights */
#define MOST_OWED    (INT64_C(1) << 62)
#define DEBT_SECONDS 60        /* longest time in which flows are skipped after a large datagram */
#define MOST_FLOWS   (1 << 24) /* of one datagram that count for the average */
/* datagrams of several sockets come in slightly different order */
#define DISORDER SECOND

/* Add the credit of the time since the latest datagram, up to that of one second. */
static void add_credit(fb_rate_limit *state, int64_t limit, uint64_t elapsed) {
    int64_t most = limit * SECOND, missing = most - state->credit;
    if (elapsed > (uint64_t)(missing / limit)) state->credit = most;
    else state->credit += (int64_t)elapsed * limit;
}

/* Reduce a debt that would last too long. */
static void forgive_debt(fb_rate_limit *state, int64_t limit) {
    int64_t most = -limit * SECOND * DEBT_SECONDS;
    if (state->credit < most) state->credit = most;
}

bool fb_rate_limit_admit(fb_rate_limit *state, uint64_t limit, uint64_t time) {
    forgive_debt(state, (int64_t)limit);
    if (!time) return true;
    if (!state->time) state->credit = (int64_t)limit * SECOND;
    else if (time > state->time) add_credit(state, (int64_t)limit, time - state->time);
    bool disorder = time < state->time && state->time - time < DISORDER;
    if (!disorder) state->time = time;
    return state->credit > 0;
}

uint64_t fb_rate_limit_weight(const fb_rate_limit *state) {
    if (state->owed <= 0 || !state->average) return ONE;
    uint64_t average = state->average > 16 ? state->average : 16;
    return ONE + (uint64_t)state->owed / average * 16;
}

static int64_t limit_to(int64_t value, int64_t most) {
    if (value > most) return most;
    return value < -most ? -most : value;
}

static void update_average(fb_rate_limit *state, uint64_t flows) {
    int64_t latest = 16 * (int64_t)(flows < MOST_FLOWS ? flows : MOST_FLOWS);
    if (!state->average) state->average = (uint32_t)latest;
    else state->average = (uint32_t)(state->average + (latest - (int64_t)state->average) / 8);
}

void fb_rate_limit_decoded(fb_rate_limit *state, uint64_t weight, uint64_t flows) {
    if (!flows) return;
    uint64_t extra = weight - ONE;
    bool fits = flows <= INT32_MAX && (!extra || flows <= (uint64_t)MOST_OWED / extra);
    state->owed = fits ? limit_to(state->owed - (int64_t)(extra * flows), MOST_OWED) : -MOST_OWED;
    state->credit -= (int64_t)(flows < INT32_MAX ? flows : INT32_MAX) * SECOND;
    update_average(state, flows);
}

void fb_rate_limit_skipped(fb_rate_limit *state, uint64_t flows) {
    int64_t more = (int64_t)(flows < INT32_MAX / 2 ? flows : INT32_MAX / 2) << 32;
    state->owed = limit_to(state->owed + more, MOST_OWED);
}
