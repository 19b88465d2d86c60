/* The layout of lanes, computed once, so that appending only executes vector instructions. */
#include "core/emit/varint_simd.h"

static uint64_t mask_of_bytes(size_t bytes) {
    return bytes >= FB_SIMD_REACH ? UINT64_MAX : ((uint64_t)1 << bytes) - 1;
}

void fb_varint_simd_set(fb_varint_simd *lanes, unsigned lane, const fb_column *column,
                        size_t offset, size_t size, uint64_t mask, uint64_t add) {
    unsigned tag = column->tag_size, room = 7 * (8 - tag); /* bits of a varint beside the tag */
    uint64_t whole = UINT64_MAX >> (64 - 8 * size);
    mask &= whole;
    for (unsigned byte = 0; byte < 8; byte++) {
        unsigned place = 8 * lane + byte;
        lanes->index[place] = (uint8_t)(byte < size ? offset + size - 1 - byte : 0);
        unsigned group = byte < tag ? 0 : 7 * (byte - tag); /* its lowest bit */
        lanes->needed[place] = (uint8_t)(63 - group);
        lanes->more[place] = (uint8_t)(byte < tag ? 0 : 57 - group);
    }
    lanes->filled |= mask_of_bytes(size) << 8 * lane;
    lanes->changes |= mask != whole || add;
    lanes->mask[lane] = mask;
    lanes->add[lane] = add;
    lanes->beyond[lane] = ~(((uint64_t)1 << room) - 1);
    lanes->may_be_beyond |= (mask & lanes->beyond[lane]) != 0;
    lanes->tag[lane] = column->tag;
    lanes->tag_bits[lane] = column->tag_bits;
}

void fb_varint_simd_bound(fb_varint_simd *lanes, unsigned lane, uint64_t bound) {
    lanes->beyond[lane] |= ~(bound - 1);
    lanes->may_be_beyond = true;
}

void fb_varint_simd_set_window(fb_varint_simd *lanes, size_t size) {
    lanes->window[0] = mask_of_bytes(size);
    lanes->window[1] = mask_of_bytes(size > FB_SIMD_REACH ? size - FB_SIMD_REACH : 0);
}
