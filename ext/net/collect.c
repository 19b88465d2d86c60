#include "net/collect.h"

/* Decode the datagrams of the receiver. Return false if the batch is full. */
static bool decode(fb_collect *collect, fb_decoder *decoder, fb_columns *columns) {
    fb_receiver *receiver = collect->receiver;
    fb_undecoded *undecoded = collect->undecoded;
    if (!receiver->count) return true;
    decoder->undecoded = undecoded ? undecoded->marks : NULL;
    fb_status status = fb_columns_decode(decoder, receiver->datagrams, receiver->count,
                                         &collect->position, columns);
    decoder->undecoded = NULL; /* other calls decode other datagrams */
    if (status != FB_OK) return false;
    if (undecoded) fb_undecoded_keep(undecoded, receiver);
    memset(&collect->position, 0, sizeof(collect->position));
    receiver->count = 0;
    return true;
}

/* Remove the datagrams of sources that are not admitted. */
static void deny(fb_collect *collect) {
    fb_receiver *receiver = collect->receiver;
    if (!collect->access) return;
    size_t admitted = fb_access_list_filter(collect->access, receiver->datagrams, receiver->count);
    collect->denied += receiver->count - admitted;
    receiver->count = admitted;
}

fb_collect_result fb_collect_columns(fb_collect *collect, fb_decoder *decoder, fb_columns *columns,
                                     uint64_t deadline) {
    for (;;) {
        if (!decode(collect, decoder, columns)) return FB_COLLECT_FULL;
        if (fb_clock_now() >= deadline) return FB_COLLECT_DUE;
        if (collect->undecoded && fb_undecoded_is_due(collect->undecoded)) return FB_COLLECT_DUE;
        switch (fb_receiver_receive(collect->receiver, deadline)) {
            case FB_RECEIVED: deny(collect); break;
            case FB_RECEIVE_IDLE: return FB_COLLECT_DUE;
            case FB_RECEIVE_WOKEN: return FB_COLLECT_WOKEN;
            case FB_RECEIVE_FAILED: return FB_COLLECT_FAILED;
        }
        if (collect->forward) fb_forward_send(collect->forward, collect->receiver);
    }
}
