/* Keeps received datagrams that were not decoded completely, as packets of a pcap file. The owner
   writes them to the file:

     decoder->undecoded = undecoded->marks;
     …decode all datagrams of the receiver…
     fb_undecoded_keep(undecoded, receiver);
     …messages of TCP: fb_undecoded_keep_messages(undecoded, messages, marks, count);
     if (fb_undecoded_is_due(undecoded)) …write the records, fb_undecoded_clear(undecoded)…

   The packets have the address and port of the source, and the port of the receiver. Its address is
   not known, so it is zero. Each marked datagram is counted, either in `records` or as unsaved for
   one reason. */
#ifndef FB_NET_UNDECODED_H
#define FB_NET_UNDECODED_H

#include "core/base/buffer.h"
#include "net/receiver.h"

/* X(constant, name): reasons not to keep a datagram. */
#define FB_UNSAVED_LIST(X) \
    X(FILE_FULL, "file_full") /* the owner wants no more */ \
    X(TRUNCATED, "truncated") /* received incompletely */ \
    X(TOO_LONG, "too_long")   /* a message of TCP that is longer than UDP allows */ \
    X(NO_MEMORY, "no_memory")

typedef enum {
#define FB_X(constant, name) FB_UNSAVED_##constant,
    FB_UNSAVED_LIST(FB_X)
#undef FB_X
        FB_UNSAVED_REASONS
} fb_unsaved;

/* Return the name of a reason: a static string. */
const char *fb_unsaved_name(fb_unsaved reason);

/* All zeros at the beginning. */
typedef struct {
    uint8_t marks[FB_RECEIVER_MAX_SLOTS]; /* per datagram of the receiver: 1 if undecoded */
    fb_buffer records;                    /* packet records of pcap, from begin to p */
    size_t count;                         /* of records */
    bool full;                            /* set by the owner: keep nothing more */
    uint64_t undecoded;                   /* datagrams that were marked, in total */
    uint64_t unsaved[FB_UNSAVED_REASONS];
} fb_undecoded;

/* Keep the marked datagrams of the receiver, and clear all marks. */
void fb_undecoded_keep(fb_undecoded *undecoded, const fb_receiver *receiver);

/* Keep the messages that came over TCP and whose mark is 1, each as one datagram. */
void fb_undecoded_keep_messages(fb_undecoded *undecoded, const fb_datagram *messages,
                                const uint8_t *marks, size_t count);

/* Return true if the records should be written now. */
bool fb_undecoded_is_due(const fb_undecoded *undecoded);

/* Remove the records. */
void fb_undecoded_clear(fb_undecoded *undecoded);

/* Write the header of the file: FB_UNDECODED_HEADER_SIZE bytes. */
enum { FB_UNDECODED_HEADER_SIZE = 24 };
void fb_undecoded_put_header(uint8_t *out);

#endif
