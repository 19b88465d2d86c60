/* Datagrams in memory, in the order in which they are sent. Their payloads are writable copies. */
#ifndef FB_NET_RECORDING_H
#define FB_NET_RECORDING_H

#include "core/base/datagram.h"
#include "core/base/key_table.h"

/* A part of the memory for payloads. */
typedef struct fb_recording_block fb_recording_block;

typedef struct {
    fb_memory *memory;
    /* `time` is in nanoseconds since the first datagram and never decreases */
    fb_datagram *datagrams;
    uint32_t *sources; /* per datagram: the number of its source (address and port), from 0 */
    size_t count, capacity;
    fb_key_table source_table; /* its `count` is the number of sources */
    fb_recording_block *blocks;
    uint64_t origin; /* time of the first datagram of the current capture; 0: not yet known */
    uint64_t begin, latest; /* time in the recording: of `origin`, and of the latest datagram */
} fb_recording;

/* Initialize. `memory` must outlive the recording; free it with fb_recording_free. `seed`: any
   random number. */
void fb_recording_init(fb_recording *recording, fb_memory *memory, uint64_t seed);
void fb_recording_free(fb_recording *recording);

/* Begin the next capture. Its first datagram follows the latest datagram immediately. */
void fb_recording_begin_capture(fb_recording *recording);

/* Append a copy of a datagram. A datagram of unknown or earlier time has the time of the latest
   one. OK. NO_MEMORY: the recording is unchanged, except for its sources. */
fb_status fb_recording_add(fb_recording *recording, const fb_datagram *datagram);

/* Return the nanoseconds from the start of a repetition to the start of the next one: the duration
   and the mean interval of datagrams. A recording without a duration is repeated each second. */
uint64_t fb_recording_get_period(const fb_recording *recording);

/* Return the payload of a datagram of a recording for writing. */
FB_INLINE uint8_t *fb_recording_get_payload(const fb_datagram *datagram) {
    return (uint8_t *)(uintptr_t)datagram->payload.data;
}

#endif
