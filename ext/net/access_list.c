/* Datagrams of one source usually come in runs, so its latest decision is reused. */
#include "net/access_list.h"

fb_status fb_access_list_new(fb_access_list *list, const fb_prefix *allowed, size_t allowed_count,
                             const fb_prefix *denied, size_t denied_count, fb_memory *memory) {
    *list = (fb_access_list){.restricted = allowed_count > 0};
    fb_status status = fb_prefix_table_new(&list->allowed, allowed, allowed_count, NULL, memory);
    if (status == FB_OK)
        status = fb_prefix_table_new(&list->denied, denied, denied_count, NULL, memory);
    if (status != FB_OK) fb_access_list_free(list);
    return status;
}

void fb_access_list_free(fb_access_list *list) {
    fb_prefix_table_free(&list->allowed);
    fb_prefix_table_free(&list->denied);
}

bool fb_access_list_admits(const fb_access_list *list, const uint8_t source[16]) {
    if (fb_prefix_table_find(&list->denied, source) != FB_PREFIX_NONE) return false;
    return !list->restricted || fb_prefix_table_find(&list->allowed, source) != FB_PREFIX_NONE;
}

size_t fb_access_list_filter(const fb_access_list *list, fb_datagram *datagrams, size_t count) {
    size_t kept = 0;
    uint8_t latest[16] = {0};
    bool admitted = fb_access_list_admits(list, latest);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(datagrams[i].source, latest, 16) != 0) {
            memcpy(latest, datagrams[i].source, 16);
            admitted = fb_access_list_admits(list, latest);
        }
        if (!admitted) continue;
        if (kept < i) datagrams[kept] = datagrams[i];
        kept++;
    }
    return kept;
}
