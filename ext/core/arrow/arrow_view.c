/* Parses format strings, assigns the buffers of an array to their roles, and copies values out of
   them. Buffers may be unaligned. */
#include "core/arrow/arrow_view.h"

static const char *const reasons[FB_ARROW_REASON_COUNT] = {
#define FB_X(constant, text) text,
    FB_ARROW_REASON_LIST(FB_X)
#undef FB_X
};

const char *fb_arrow_reason_text(fb_arrow_reason reason) {
    return (unsigned)reason < FB_ARROW_REASON_COUNT ? reasons[reason] : NULL;
}

/* Types -------------------------------------------------------------------------------------- */

#define SECOND UINT64_C(1000000000)
#define DAY    (86400 * SECOND)

static const struct {
    char format[4];
    fb_arrow_type type;
} types[] = {
    {"n", {FB_LAYOUT_NOTHING, FB_MEANS_NOTHING, 0, 0}},
    {"b", {FB_LAYOUT_BITS, FB_MEANS_BOOL, 0, 0}},
    {"c", {FB_LAYOUT_INT8, FB_MEANS_NUMBER, 1, 0}},
    {"C", {FB_LAYOUT_UINT8, FB_MEANS_NUMBER, 1, 0}},
    {"s", {FB_LAYOUT_INT16, FB_MEANS_NUMBER, 2, 0}},
    {"S", {FB_LAYOUT_UINT16, FB_MEANS_NUMBER, 2, 0}},
    {"i", {FB_LAYOUT_INT32, FB_MEANS_NUMBER, 4, 0}},
    {"I", {FB_LAYOUT_UINT32, FB_MEANS_NUMBER, 4, 0}},
    {"l", {FB_LAYOUT_INT64, FB_MEANS_NUMBER, 8, 0}},
    {"L", {FB_LAYOUT_UINT64, FB_MEANS_NUMBER, 8, 0}},
    {"f", {FB_LAYOUT_FLOAT, FB_MEANS_NUMBER, 4, 0}},
    {"g", {FB_LAYOUT_DOUBLE, FB_MEANS_NUMBER, 8, 0}},
    {"z", {FB_LAYOUT_SMALL, FB_MEANS_BYTES, 0, 0}},
    {"Z", {FB_LAYOUT_LARGE, FB_MEANS_BYTES, 0, 0}},
    {"vz", {FB_LAYOUT_VIEW, FB_MEANS_BYTES, 0, 0}},
    {"u", {FB_LAYOUT_SMALL, FB_MEANS_TEXT, 0, 0}},
    {"U", {FB_LAYOUT_LARGE, FB_MEANS_TEXT, 0, 0}},
    {"vu", {FB_LAYOUT_VIEW, FB_MEANS_TEXT, 0, 0}},
    {"tdD", {FB_LAYOUT_INT32, FB_MEANS_TIME, 4, DAY}},
    {"tdm", {FB_LAYOUT_INT64, FB_MEANS_TIME, 8, SECOND / 1000}},
    {"tDs", {FB_LAYOUT_INT64, FB_MEANS_SPAN, 8, SECOND}},
    {"tDm", {FB_LAYOUT_INT64, FB_MEANS_SPAN, 8, SECOND / 1000}},
    {"tDu", {FB_LAYOUT_INT64, FB_MEANS_SPAN, 8, 1000}},
    {"tDn", {FB_LAYOUT_INT64, FB_MEANS_SPAN, 8, 1}},
    {"+l", {FB_LAYOUT_LIST, FB_MEANS_LIST, 0, 0}},
    {"+L", {FB_LAYOUT_LARGE_LIST, FB_MEANS_LIST, 0, 0}},
};

/* Formats with a suffix behind these letters: a zone for times, a number for others. */
static const struct {
    char start[5];
    fb_arrow_type type;
} long_types[] = {
    {"tss:", {FB_LAYOUT_INT64, FB_MEANS_TIME, 8, SECOND}},
    {"tsm:", {FB_LAYOUT_INT64, FB_MEANS_TIME, 8, SECOND / 1000}},
    {"tsu:", {FB_LAYOUT_INT64, FB_MEANS_TIME, 8, 1000}},
    {"tsn:", {FB_LAYOUT_INT64, FB_MEANS_TIME, 8, 1}},
    {"w:", {FB_LAYOUT_FIXED, FB_MEANS_BYTES, 0, 0}},
    {"+w:", {FB_LAYOUT_FIXED_LIST, FB_MEANS_LIST, 0, 0}},
};

static const struct {
    char start[4];
    uint8_t reason;
} refused[] = {
    {"e", FB_ARROW_HALF_FLOAT}, {"d:", FB_ARROW_DECIMAL},    {"tt", FB_ARROW_TIME_OF_DAY},
    {"ti", FB_ARROW_INTERVAL},  {"+s", FB_ARROW_STRUCT},     {"+m", FB_ARROW_MAP},
    {"+u", FB_ARROW_UNION},     {"+vl", FB_ARROW_LIST_VIEW}, {"+vL", FB_ARROW_LIST_VIEW},
    {"+r", FB_ARROW_RUN_END},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Return the text behind `start`, or NULL if the format does not begin with it. */
static const char *skip_start(const char *format, const char *start) {
    while (*start)
        if (*format++ != *start++) return NULL;
    return format;
}

/* Read a size: digits, at most 32 bits. */
static bool read_size(const char *digits, int64_t *size) {
    const char *p = digits;
    for (*size = 0; *p >= '0' && *p <= '9' && *size <= INT32_MAX; p++)
        *size = *size * 10 + (*p - '0');
    return p > digits && !*p && *size <= INT32_MAX;
}

/* True if a decimal format has scale 0, so its values are integers. The precision is ignored,
   because the column's range is checked anyway. */
static bool is_wide(const char *format) {
    const char *p = skip_start(format, "d:");
    if (!p || *p < '0' || *p > '9') return false;
    while (*p >= '0' && *p <= '9') p++;
    return strcmp(p, ",0") == 0 || strcmp(p, ",0,128") == 0;
}

fb_arrow_reason fb_arrow_type_read(const char *format, fb_arrow_type *type) {
    const char *rest;
    for (size_t i = 0; i < COUNT(types); i++)
        if (strcmp(types[i].format, format) == 0) {
            *type = types[i].type;
            return FB_ARROW_NONE;
        }
    for (size_t i = 0; i < COUNT(long_types); i++) {
        if (!(rest = skip_start(format, long_types[i].start))) continue;
        *type = long_types[i].type;
        return type->meaning == FB_MEANS_TIME || read_size(rest, &type->size)
                   ? FB_ARROW_NONE
                   : FB_ARROW_UNKNOWN_TYPE;
    }
    if (is_wide(format)) {
        *type = (fb_arrow_type){FB_LAYOUT_WIDE, FB_MEANS_NUMBER, 16, 0};
        return FB_ARROW_NONE;
    }
    for (size_t i = 0; i < COUNT(refused); i++)
        if (skip_start(format, refused[i].start)) return (fb_arrow_reason)refused[i].reason;
    return FB_ARROW_UNKNOWN_TYPE;
}

/* A column, its dictionary of lists, their members, and the dictionary of the members. Deeper
   levels are not read. */
enum { SCHEMA_DEPTH = 4 };

static bool is_sound(const struct ArrowSchema *schema, unsigned depth) {
    if (!schema || !schema->format || schema->n_children < 0) return false;
    if (schema->n_children && !schema->children) return false;
    if (!depth) return true;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (!is_sound(schema->children[i], depth - 1)) return false;
    return !schema->dictionary || is_sound(schema->dictionary, depth - 1);
}

bool fb_arrow_schema_is_sound(const struct ArrowSchema *schema) {
    return is_sound(schema, SCHEMA_DEPTH);
}

/* Views -------------------------------------------------------------------------------------- */

/* Return the number of buffers of a layout. VIEW may have more. */
static int64_t count_buffers(fb_arrow_layout layout) {
    switch (layout) {
        case FB_LAYOUT_NOTHING: return 0;
        case FB_LAYOUT_ROWS:
        case FB_LAYOUT_FIXED_LIST: return 1;
        case FB_LAYOUT_SMALL:
        case FB_LAYOUT_LARGE:
        case FB_LAYOUT_VIEW: return 3;
        default: return 2;
    }
}

/* The bit offset of every value must fit in 64 bits. A null_count of -1 means unknown. */
static bool has_counts(const fb_arrow_type *type, const struct ArrowArray *array) {
    const int64_t most = INT64_MAX / 64 / (type->size ? type->size : 1);
    if (array->length < 0 || array->length > most) return false;
    if (array->offset < 0 || array->offset > most) return false;
    return array->null_count >= -1 && array->null_count <= array->length;
}

static bool has_children(const struct ArrowArray *array) {
    if (array->n_children < 0 || (array->n_children && !array->children)) return false;
    for (int64_t i = 0; i < array->n_children; i++)
        if (!array->children[i]) return false;
    return true;
}

static bool has_buffers(const fb_arrow_type *type, const struct ArrowArray *array) {
    int64_t wanted = count_buffers((fb_arrow_layout)type->layout);
    bool enough =
        type->layout == FB_LAYOUT_VIEW ? array->n_buffers >= wanted : array->n_buffers == wanted;
    return enough && (array->buffers || !wanted);
}

/* Only an array without bytes may have no buffer of values. */
static bool needs_values(const fb_arrow_view *view) {
    return view->length && !(view->type.layout == FB_LAYOUT_FIXED && !view->type.size);
}

bool fb_arrow_view_set(fb_arrow_view *view, const fb_arrow_type *type,
                       const struct ArrowArray *array) {
    if (!has_counts(type, array) || !has_children(array) || !has_buffers(type, array)) return false;
    *view = (fb_arrow_view){.type = *type, .offset = array->offset, .length = array->length};
    int64_t count = count_buffers((fb_arrow_layout)type->layout);
    if (!count) return true;
    if (array->null_count) view->validity = array->buffers[0];
    if (array->null_count > 0 && array->length && !view->validity) return false;
    if (count == 1) return true;
    view->values = array->buffers[1];
    if (needs_values(view) && !view->values) return false;
    if (type->layout == FB_LAYOUT_VIEW) {
        view->buffer_count = array->n_buffers - 3;
        view->buffers = array->buffers + 2;
        view->sizes = array->buffers[array->n_buffers - 1];
        /* without long values, all may be NULL */
        return view->sizes || !view->buffer_count || !view->length;
    }
    if (count == 3) view->bytes = array->buffers[2];
    return true;
}

/* Load `count` bits from `first` on, the first one in the lowest bit. */
static uint64_t load_bits(const uint8_t *bits, int64_t first, size_t count) {
    const uint8_t *p = bits + first / 8;
    unsigned skip = (unsigned)(first % 8);
    uint64_t word = 0;
    for (size_t i = 0; 8 * i < skip + count && i < 8; i++) word |= (uint64_t)p[i] << 8 * i;
    word >>= skip;
    if (skip + count > 64) word |= (uint64_t)p[8] << (64 - skip);
    return word & fb_mask_of(count);
}

uint64_t fb_arrow_view_present(const fb_arrow_view *view, int64_t first, size_t count) {
    if (view->type.layout == FB_LAYOUT_NOTHING) return 0;
    return view->validity ? load_bits(view->validity, view->offset + first, count)
                          : fb_mask_of(count);
}

static void load_bools(const uint8_t *bits, int64_t first, size_t count, uint64_t *numbers) {
    uint64_t word = load_bits(bits, first, count);
    for (size_t i = 0; i < count; i++) numbers[i] = word >> i & 1;
}

/* A whole block has its own loop, because compilers vectorize a loop of constant length better. */
#define COPY(type, convert, count) \
    for (size_t i = 0; i < count; i++) { \
        type value; \
        memcpy(&value, values + i * sizeof value, sizeof value); \
        numbers[i] = convert(value); \
    }
#define LOAD(type, convert) \
    if (count == 64) COPY(type, convert, 64) \
    else COPY(type, convert, count) \
    return

static uint64_t bits_of(double real) {
    uint64_t bits;
    memcpy(&bits, &real, 8);
    return bits;
}

void fb_arrow_view_numbers(const fb_arrow_view *view, int64_t first, size_t count,
                           uint64_t *restrict numbers) {
    first += view->offset;
    const uint8_t *restrict values = view->values + first * view->type.size;
    switch (view->type.layout) {
        case FB_LAYOUT_BITS: load_bools(view->values, first, count, numbers); return;
        case FB_LAYOUT_INT8: LOAD(int8_t, (uint64_t));
        case FB_LAYOUT_INT16: LOAD(int16_t, (uint64_t));
        case FB_LAYOUT_INT32: LOAD(int32_t, (uint64_t));
        case FB_LAYOUT_UINT8: LOAD(uint8_t, (uint64_t));
        case FB_LAYOUT_UINT16: LOAD(uint16_t, (uint64_t));
        case FB_LAYOUT_UINT32: LOAD(uint32_t, (uint64_t));
        case FB_LAYOUT_FLOAT: LOAD(float, bits_of);
        default: memcpy(numbers, values, 8 * count); return;
    }
}

void fb_arrow_view_wide(const fb_arrow_view *view, int64_t at, uint64_t *high, uint64_t *low) {
    uint64_t halves[2];
    memcpy(halves, view->values + 16 * (view->offset + at), 16);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    *high = halves[0], *low = halves[1];
#else
    *high = halves[1], *low = halves[0];
#endif
}

/* Return the begin and end of a value with offsets. */
static bool read_offsets(const fb_arrow_view *view, int64_t at, bool large, int64_t *begin,
                         int64_t *end) {
    if (large) {
        int64_t offsets[2];
        memcpy(offsets, view->values + 8 * at, 16);
        *begin = offsets[0], *end = offsets[1];
    } else {
        int32_t offsets[2];
        memcpy(offsets, view->values + 4 * at, 8);
        *begin = offsets[0], *end = offsets[1];
    }
    return *begin >= 0 && *begin <= *end;
}

/* Read a view. Up to 12 bytes follow the size; longer values are in a buffer.

     0      4                      8        12       16
     ├──────┼──────────────────────┴────────┴────────┤
     │ size │ bytes                                  │
     ├──────┼──────────────────────┬────────┬────────┤
     │ size │ the first four       │ buffer │ offset │
     └──────┴──────────────────────┴────────┴────────┘ */
static bool read_view(const fb_arrow_view *view, int64_t at, fb_bytes *bytes) {
    const uint8_t *p = view->values + 16 * at;
    int32_t size, place[2];
    int64_t held;
    memcpy(&size, p, 4);
    if (size < 0) return false;
    if (size <= 12) {
        *bytes = (fb_bytes){p + 4, (size_t)size};
        return true;
    }
    memcpy(place, p + 8, 8);
    if (place[0] < 0 || place[0] >= view->buffer_count || place[1] < 0) return false;
    memcpy(&held, view->sizes + 8 * (size_t)place[0], 8);
    if (held < size || place[1] > held - size || !view->buffers[place[0]]) return false;
    *bytes = (fb_bytes){(const uint8_t *)view->buffers[place[0]] + place[1], (size_t)size};
    return true;
}

bool fb_arrow_view_bytes(const fb_arrow_view *view, int64_t at, fb_bytes *bytes) {
    int64_t begin, end;
    at += view->offset;
    if (view->type.layout == FB_LAYOUT_VIEW) return read_view(view, at, bytes);
    if (view->type.layout == FB_LAYOUT_FIXED) {
        *bytes = (fb_bytes){view->type.size ? view->values + at * view->type.size : NULL,
                            (size_t)view->type.size};
        return true;
    }
    if (!read_offsets(view, at, view->type.layout == FB_LAYOUT_LARGE, &begin, &end) ||
        (begin < end && !view->bytes))
        return false;
    *bytes = (fb_bytes){view->bytes ? view->bytes + begin : NULL, (size_t)(end - begin)};
    return true;
}

bool fb_arrow_view_members_any(const fb_arrow_view *view, int64_t at, int64_t *begin,
                               int64_t *end) {
    at += view->offset;
    if (view->type.layout != FB_LAYOUT_FIXED_LIST)
        return read_offsets(view, at, view->type.layout == FB_LAYOUT_LARGE_LIST, begin, end);
    if (view->type.size && at >= INT64_MAX / view->type.size) return false;
    *begin = at * view->type.size;
    *end = *begin + view->type.size;
    return true;
}
