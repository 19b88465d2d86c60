/* Normal datagrams cost one look at their marks per batch. */
#include "net/undecoded.h"

#include "core/capture/link.h"
#include "core/capture/pcap_write.h"
#include "core/packet/packet_write.h"

enum { DUE = 1 << 20 }; /* bytes of records */

_Static_assert(FB_UNDECODED_HEADER_SIZE == FB_PCAP_HEADER_SIZE, "the header is that of pcap");

const char *fb_unsaved_name(fb_unsaved reason) {
    static const char *const names[] = {
#define FB_X(constant, name) name,
        FB_UNSAVED_LIST(FB_X)
#undef FB_X
    };
    return names[reason];
}

/* Append a record. Return false if the datagram is longer than UDP allows. REQUIRES: room. */
static bool put_record(fb_buffer *records, const fb_datagram *datagram) {
    fb_datagram addressed = *datagram;
    memset(addressed.destination, 0, sizeof(addressed.destination));
    if (fb_is_mapped(datagram->source))
        fb_store_address(addressed.destination, (const uint8_t[4]){0}, 4);
    uint8_t *packet = records->p + FB_PCAP_RECORD_HEADER_SIZE;
    uint8_t *end = fb_put_datagram(packet, &addressed);
    if (!end) return false;
    fb_put_pcap_record_header(records->p, FB_PCAP_NANOSECONDS, datagram->time,
                              (size_t)(end - packet));
    records->p = end;
    return true;
}

/* Save a datagram. Return the reason if it is not saved, or FB_UNSAVED_REASONS. */
static fb_unsaved save(fb_undecoded *undecoded, const fb_datagram *datagram, bool truncated) {
    fb_buffer *records = &undecoded->records;
    size_t room = FB_PCAP_RECORD_HEADER_SIZE + FB_DATAGRAM_HEADERS + datagram->payload.size;
    if (undecoded->full) return FB_UNSAVED_FILE_FULL;
    if (truncated) return FB_UNSAVED_TRUNCATED;
    if (fb_buffer_reserve(records, room) != FB_OK) return FB_UNSAVED_NO_MEMORY;
    return put_record(records, datagram) ? FB_UNSAVED_REASONS : FB_UNSAVED_TOO_LONG;
}

static void keep(fb_undecoded *undecoded, const fb_datagram *datagram, bool truncated) {
    fb_unsaved reason = save(undecoded, datagram, truncated);
    undecoded->undecoded++;
    if (reason == FB_UNSAVED_REASONS) undecoded->count++;
    else undecoded->unsaved[reason]++;
}

void fb_undecoded_keep(fb_undecoded *undecoded, const fb_receiver *receiver) {
    if (!memchr(undecoded->marks, 1, receiver->count)) return;
    for (size_t i = 0; i < receiver->count; i++) {
        const fb_datagram *datagram = &receiver->datagrams[i];
        if (undecoded->marks[i])
            keep(undecoded, datagram, fb_receiver_is_truncated(receiver, datagram));
        undecoded->marks[i] = 0;
    }
}

void fb_undecoded_keep_messages(fb_undecoded *undecoded, const fb_datagram *messages,
                                const uint8_t *marks, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (marks[i]) keep(undecoded, &messages[i], false);
}

bool fb_undecoded_is_due(const fb_undecoded *undecoded) {
    return fb_buffer_size(&undecoded->records) >= DUE;
}

void fb_undecoded_clear(fb_undecoded *undecoded) {
    undecoded->records.p = undecoded->records.begin;
    undecoded->count = 0;
}

void fb_undecoded_put_header(uint8_t *out) {
    fb_put_pcap_header(out, FB_PCAP_NANOSECONDS, FB_LINK_RAW);
}
