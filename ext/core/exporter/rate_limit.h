/* A limit on the flows per second of one exporter. It applies to the flows of whole datagrams. The
   templates, options and sequence numbers of a skipped datagram are still read.

   A credit of flows grows with time, up to the flows of one second. A datagram is decoded while
   there is credit, and then its flows are subtracted. The credit may become negative, so the limit
   holds on average also if datagrams have more flows than the credit.

   Flows that are decoded stand for those that were skipped before them: their sampling rate is
   multiplied by a weight. `owed` is the number of skipped flows that no decoded flow stands for
   yet. The number of flows in a datagram is known only after it was decoded, so the weight assumes
   an average one. The difference stays in `owed` and corrects later weights. The weights of all
   decoded flows therefore sum to the number of all flows, except for those still owed:

     sum of weights + owed = flows decoded + flows skipped

   The clock is the time of reception. A clock that jumps forward gives at most the credit of one
   second. One that jumps back gives none, and stops the growth for a second at most. */
#ifndef FB_EXPORTER_RATE_LIMIT_H
#define FB_EXPORTER_RATE_LIMIT_H

#include "core/base/base.h"

#define FB_RATE_LIMIT_MAX 100000000 /* flows per second */

/* All zeros at the beginning. */
typedef struct {
    uint64_t time;      /* of the latest datagram, ns since 1970; 0: none was limited yet */
    int64_t credit;     /* flows, times 10^9 */
    int64_t owed;       /* flows, times 2^32 */
    uint32_t average;   /* flows of a decoded datagram, times 16; 0: unknown */
    uint32_t remainder; /* of fb_rate_change */
} fb_rate_limit;

/* Return true if a datagram is decoded, false if its flows are skipped. `limit` is in flows per
   second, at most FB_RATE_LIMIT_MAX. `time` is that of reception; 0: unknown, and it is decoded. */
bool fb_rate_limit_admit(fb_rate_limit *state, uint64_t limit, uint64_t time);

/* Return the weight of the flows of the next decoded datagram, times 2^32. */
uint64_t fb_rate_limit_weight(const fb_rate_limit *state);

/* Account for a datagram: flows that were decoded with this weight, or flows that were skipped. */
void fb_rate_limit_decoded(fb_rate_limit *state, uint64_t weight, uint64_t flows);
void fb_rate_limit_skipped(fb_rate_limit *state, uint64_t flows);

#endif
