/* Computes when the datagrams of a replay are due. It reads no clock: the caller passes the time,
   in nanoseconds of a clock that never goes back.

   A sender that falls behind catches up, but only by FB_PACE_SLACK: a pause of a second does not
   become a burst of a second. The schedule is delayed by the rest. */
#ifndef FB_NET_PACE_H
#define FB_NET_PACE_H

#include "net/recording.h"

#define FB_PACE_SLACK UINT64_C(10000000) /* ns */

typedef enum {
    FB_PACE_TOP_SPEED, /* every datagram is due at once */
    FB_PACE_RATE,      /* at equal intervals */
    FB_PACE_TIMES,     /* at the times of the recording */
} fb_pace_kind;

/* Initialize with kind, and rate or speed; the rest is zero. */
typedef struct {
    fb_pace_kind kind;
    uint64_t rate;  /* of RATE: datagrams per second, 1 to 10^9 */
    double speed;   /* of TIMES: seconds of the recording per second, more than 0 */
    uint64_t start; /* time at which the first datagram was due, later by all delays */
    bool begun;
    uint64_t delay; /* nanoseconds by which the schedule was delayed, in total */
} fb_pace;

/* Return the time at which a datagram is due. Datagrams are counted from 0 through all
   repetitions. REQUIRES: the recording is not empty. */
uint64_t fb_pace_get_due(const fb_pace *pace, const fb_recording *recording, uint64_t index);

/* Return the number of datagrams from `index` on that are due, at most `most`. The first call
   starts the schedule. */
size_t fb_pace_count_due(fb_pace *pace, const fb_recording *recording, uint64_t index, size_t most,
                         uint64_t now);

#endif
