/* One table has the fields of all headers. */
#include "net/export_header.h"

#include "core/decode/decode.h"
#include "net/recording.h"

#define SECOND UINT64_C(1000000000)

static const fb_export_header headers[] = {
    [1] = {.size = 16, .uptime = 4, .seconds = 8, .nanoseconds = 12},
    [5] = {.size = 24, .uptime = 4, .seconds = 8, .nanoseconds = 12, .number = 16},
    [7] = {.size = 24, .uptime = 4, .seconds = 8, .nanoseconds = 12, .number = 16},
    [9] = {.size = 20, .uptime = 4, .seconds = 8, .number = 12},
    [10] = {.size = 16, .seconds = 4, .number = 8},
};

const fb_export_header *fb_export_header_find(const fb_datagram *datagram, uint32_t *version) {
    *version = fb_payload_sniff(datagram->payload);
    if (*version >= sizeof headers / sizeof *headers || !headers[*version].size) return NULL;
    const fb_export_header *header = &headers[*version];
    return datagram->payload.size < header->size ? NULL : header;
}

void fb_export_header_set_time(const fb_datagram *datagram, uint64_t time) {
    uint32_t version;
    const fb_export_header *header = fb_export_header_find(datagram, &version);
    if (!header) return;
    uint8_t *payload = fb_recording_get_payload(datagram);
    fb_store32(payload + header->seconds, (uint32_t)(time / SECOND));
    if (header->nanoseconds) fb_store32(payload + header->nanoseconds, (uint32_t)(time % SECOND));
}
