/* Conversion of Arrow values to the cells of columns. Integers and addresses are converted a block
   at a time; other types value by value. */
#include "core/arrow/arrow_convert.h"

#include "core/base/address_parse.h"

typedef enum {
    PATH_NOTHING,
    PATH_INTEGER,      /* integers, bools, times */
    PATH_ADDRESS,      /* of 16 bytes each */
    PATH_WIDE_INTEGER, /* of 128 bits */
    PATH_REAL_INTEGER, /* floats that are integers */
    PATH_INTEGER_REAL,
    PATH_REAL,
    PATH_SHORT_ADDRESS, /* of 4 or 16 bytes */
    PATH_ADDRESS_TEXT,
    PATH_MAC,
    PATH_MAC_TEXT,
    PATH_MEMBER,
    PATH_TEXT,
    PATH_BYTES
} path_kind;

/* Supported types ----------------------------------------------------------------------------- */

static bool is_real(const fb_arrow_type *type) {
    return type->layout == FB_LAYOUT_FLOAT || type->layout == FB_LAYOUT_DOUBLE;
}

static bool is_wide(const fb_arrow_type *type) {
    return type->layout == FB_LAYOUT_WIDE;
}

/* True for integers of at most 64 bits. */
static bool is_integer(const fb_arrow_type *type) {
    return type->meaning == FB_MEANS_NUMBER && !is_real(type) && !is_wide(type);
}

static path_kind choose_number(const fb_arrow_type *type) {
    if (is_real(type)) return PATH_REAL_INTEGER;
    if (is_wide(type)) return PATH_WIDE_INTEGER;
    return is_integer(type) ? PATH_INTEGER : PATH_NOTHING;
}

static path_kind choose_address(const fb_arrow_type *type) {
    if (type->meaning == FB_MEANS_TEXT) return PATH_ADDRESS_TEXT;
    if (type->meaning != FB_MEANS_BYTES) return PATH_NOTHING;
    if (type->layout != FB_LAYOUT_FIXED) return PATH_SHORT_ADDRESS;
    if (type->size == 16) return PATH_ADDRESS;
    return type->size == 4 ? PATH_SHORT_ADDRESS : PATH_NOTHING;
}

static path_kind choose_integer(const fb_column *column, const fb_arrow_type *type) {
    bool mac = fb_column_is_mac(column);
    if (mac && type->meaning == FB_MEANS_TEXT) return PATH_MAC_TEXT;
    if (mac && type->layout == FB_LAYOUT_FIXED && type->size == 6) return PATH_MAC;
    return type->meaning == FB_MEANS_BOOL ? PATH_INTEGER : choose_number(type);
}

/* Choose the conversion. PATH_NOTHING: the type cannot fill the column. */
static path_kind choose_path(const fb_column *column, const fb_arrow_type *type) {
    path_kind whole = is_real(type) ? PATH_NOTHING : choose_number(type);
    switch (column->type) {
        case FB_TYPE_IP: return choose_address(type);
        case FB_TYPE_STRING: return type->meaning == FB_MEANS_TEXT ? PATH_TEXT : PATH_NOTHING;
        case FB_TYPE_BYTES:
            return type->meaning == FB_MEANS_TEXT || type->meaning == FB_MEANS_BYTES ? PATH_BYTES
                                                                                     : PATH_NOTHING;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE:
            if (is_real(type)) return PATH_REAL;
            return is_integer(type) ? PATH_INTEGER_REAL : PATH_NOTHING;
        case FB_TYPE_BOOL: return type->meaning == FB_MEANS_BOOL ? PATH_INTEGER : whole;
        case FB_TYPE_TIMESTAMP: return type->meaning == FB_MEANS_TIME ? PATH_INTEGER : whole;
        case FB_TYPE_DURATION: return type->meaning == FB_MEANS_SPAN ? PATH_INTEGER : whole;
        case FB_TYPE_ENUM:
            return type->meaning == FB_MEANS_TEXT ? PATH_MEMBER : choose_number(type);
        default: return choose_integer(column, type);
    }
}

/* Return the greatest number of a column that does not hold floats. */
static uint64_t find_greatest(const fb_column *column) {
    uint64_t most = UINT64_MAX;
    switch (column->type) {
        case FB_TYPE_BOOL: return 1;
        case FB_TYPE_ENUM: most = INT32_MAX; break;
        case FB_TYPE_FIXED32: most = UINT32_MAX; break;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_DURATION: most = INT64_MAX; break;
        default: break;
    }
    return column->limit < most ? column->limit : most;
}

static bool is_signed(const fb_column *column) {
    return column->type == FB_TYPE_INT || column->type == FB_TYPE_SINT ||
           column->type == FB_TYPE_DURATION;
}

/* Convert the bounds to the unit of the input. A number within them stays within the column's
   range, and within 64 bits, when it is multiplied or divided. */
static void scale_bounds(fb_arrow_conversion *c, uint64_t *greatest, int64_t *least) {
    int64_t factor = (int64_t)(c->multiply > 1 ? c->multiply : c->divide);
    if (c->multiply > 1) {
        *greatest /= c->multiply;
        *least /= factor;
    } else if (factor > 1) {
        *greatest = *greatest >= (uint64_t)(INT64_MAX / factor)
                        ? INT64_MAX
                        : *greatest * c->divide + c->divide - 1;
        *least = *least <= INT64_MIN / factor ? INT64_MIN : *least * factor;
    }
}

static bool is_unsigned_layout(uint8_t layout) {
    return layout == FB_LAYOUT_BITS || (layout >= FB_LAYOUT_UINT8 && layout <= FB_LAYOUT_UINT64);
}

static void set_bounds(fb_arrow_conversion *c) {
    uint64_t greatest = find_greatest(c->column);
    int64_t least = is_signed(c->column) ? -(int64_t)greatest - 1 : 0;
    unsigned bits = c->type.layout == FB_LAYOUT_BITS ? 1 : 8 * (unsigned)c->type.size;
    scale_bounds(c, &greatest, &least);
    if (is_unsigned_layout(c->type.layout)) {
        c->fits = greatest >= UINT64_MAX >> (64 - bits);
        least = 0;
    } else if (c->path == PATH_INTEGER) {
        if (greatest > INT64_MAX) greatest = INT64_MAX;
        c->fits = greatest >= UINT64_MAX >> (65 - bits) && least <= INT64_MIN >> (64 - bits);
    }
    c->least = (uint64_t)least;
    c->span = greatest - (uint64_t)least;
}

/* Choose the factor that converts the type's unit to the column's unit. Returns false if neither
   unit is a multiple of the other. */
static bool set_unit(fb_arrow_conversion *c) {
    uint64_t from = c->type.unit, to = c->column->unit;
    c->multiply = c->divide = 1;
    if (!from || from == to) return true;
    if (from % to == 0) c->multiply = from / to;
    if (to % from == 0) c->divide = to / from;
    return c->multiply > 1 || (c->divide > 1 && c->divide <= INT64_MAX);
}

fb_arrow_reason fb_arrow_conversion_choose(fb_arrow_conversion *c, const fb_column *column,
                                           const fb_arrow_type *type) {
    *c = (fb_arrow_conversion){
        .column = column, .type = *type, .path = (uint8_t)choose_path(column, type)};
    if (c->path == PATH_NOTHING)
        return type->meaning == FB_MEANS_NOTHING ? FB_ARROW_NONE : FB_ARROW_MISFIT;
    if (!set_unit(c)) return FB_ARROW_MISFIT;
    if (c->path == PATH_INTEGER || c->path == PATH_WIDE_INTEGER || c->path == PATH_REAL_INTEGER)
        set_bounds(c);
    return FB_ARROW_NONE;
}

/* Blocks ------------------------------------------------------------------------------------- */

static size_t count_within(const fb_arrow_conversion *c, const uint64_t *numbers, size_t count) {
    uint64_t outside = 0;
    size_t good = 0;
    for (size_t i = 0; i < count; i++) outside |= numbers[i] - c->least > c->span;
    if (FB_LIKELY(!outside)) return count;
    while (numbers[good] - c->least <= c->span) good++;
    return good;
}

/* Divide and round down, also below 0. */
static uint64_t divide_down(int64_t number, int64_t by) {
    return (uint64_t)(number / by - (number % by < 0));
}

static void scale_numbers(const fb_arrow_conversion *c, uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count && c->multiply > 1; i++) numbers[i] *= c->multiply;
    for (size_t i = 0; i < count && c->divide > 1; i++)
        numbers[i] = divide_down((int64_t)numbers[i], (int64_t)c->divide);
}

static size_t read_integers(const fb_arrow_conversion *c, const fb_arrow_view *view, int64_t first,
                            size_t count, uint64_t present, uint64_t *numbers) {
    fb_arrow_view_numbers(view, first, count, numbers);
    if (present != fb_mask_of(count))
        for (size_t i = 0; i < count; i++) numbers[i] &= 0 - (present >> i & 1);
    size_t good = c->fits ? count : count_within(c, numbers, count);
    if (c->type.unit) scale_numbers(c, numbers, good);
    return good;
}

static void read_addresses(const fb_arrow_view *view, int64_t first, size_t count, uint64_t present,
                           uint8_t (*addresses)[16]) {
    memcpy(addresses, view->values + 16 * (view->offset + first), 16 * count);
    if (present == fb_mask_of(count)) return;
    for (size_t i = 0; i < count; i++)
        if (!(present >> i & 1)) memset(addresses[i], 0, 16);
}

/* Single values ------------------------------------------------------------------------------ */

static double real_of(uint64_t bits) {
    double real;
    memcpy(&real, &bits, 8);
    return real;
}

static bool is_nan(double real) {
    return real != real;
}

static fb_arrow_reason read_real_integer(const fb_arrow_conversion *c, double real,
                                         uint64_t *number) {
    if (real >= 0x1p64 || real < -0x1p63) return FB_ARROW_OUT_OF_RANGE;
    *number = real < 0 ? (uint64_t)(int64_t)real : (uint64_t)real;
    if ((real < 0 ? (double)(int64_t)*number : (double)*number) != real)
        return FB_ARROW_NOT_INTEGRAL;
    uint64_t greatest = c->least + c->span;
    bool within = real < 0 ? (int64_t)*number >= (int64_t)c->least : *number <= greatest;
    return within ? FB_ARROW_NONE : FB_ARROW_OUT_OF_RANGE;
}

static fb_arrow_reason read_wide_integer(const fb_arrow_conversion *c, const fb_arrow_view *view,
                                         int64_t at, uint64_t *number) {
    uint64_t high;
    fb_arrow_view_wide(view, at, &high, number);
    if (!high && *number <= c->least + c->span) return FB_ARROW_NONE;
    bool negative = high == UINT64_MAX && *number > INT64_MAX;
    return negative && (int64_t)*number >= (int64_t)c->least ? FB_ARROW_NONE
                                                             : FB_ARROW_OUT_OF_RANGE;
}

/* Infinities are valid in floats of any width. A finite number more than half an ulp above the
   greatest float would become infinite, so it is out of range. A number too small for a float
   becomes zero. */
static fb_arrow_reason read_real(const fb_arrow_conversion *c, uint64_t *number) {
    const double bound = 0x1.ffffffp127, infinity = (double)__builtin_inff();
    double real = real_of(*number);
    if (c->column->type == FB_TYPE_DOUBLE) return FB_ARROW_NONE;
    if ((real >= bound || real <= -bound) && real != infinity && real != -infinity)
        return FB_ARROW_OUT_OF_RANGE;
    real = (double)(float)real;
    memcpy(number, &real, 8);
    return FB_ARROW_NONE;
}

static fb_arrow_reason read_integer_real(const fb_arrow_conversion *c, uint64_t *number) {
    bool negative = !is_unsigned_layout(c->type.layout) && (int64_t)*number < 0;
    uint64_t magnitude = negative ? 0 - *number : *number;
    if (!magnitude) return FB_ARROW_NONE;
    int digits = 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude);
    if (digits > (c->column->type == FB_TYPE_FLOAT ? 24 : 53)) return FB_ARROW_INEXACT;
    double real = negative ? -(double)magnitude : (double)magnitude;
    memcpy(number, &real, 8);
    return FB_ARROW_NONE;
}

int fb_bytes_compare(fb_bytes a, fb_bytes b) {
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* Read decimal text in the form in which numbers are exported: no sign and no leading zeros. */
static bool read_decimal(fb_bytes text, uint64_t *number) {
    if (!text.size || text.size > 10 || (text.data[0] == '0' && text.size > 1)) return false;
    *number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *number = *number * 10 + (text.data[i] - '0');
    }
    return true;
}

static fb_arrow_reason read_member(const fb_arrow_conversion *c, fb_bytes text, uint64_t *number) {
    size_t low = 0, high = c->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = fb_bytes_compare(c->members[middle].name, text);
        if (!order) {
            *number = c->members[middle].number;
            return FB_ARROW_NONE;
        }
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    if (!read_decimal(text, number)) return FB_ARROW_NOT_A_MEMBER;
    return *number <= find_greatest(c->column) ? FB_ARROW_NONE : FB_ARROW_OUT_OF_RANGE;
}

static fb_arrow_reason read_bytes(const fb_arrow_conversion *c, fb_bytes bytes,
                                  fb_arrow_cells *cells, size_t i) {
    switch (c->path) {
        case PATH_SHORT_ADDRESS:
            if (bytes.size != 4 && bytes.size != 16) return FB_ARROW_ADDRESS_SIZE;
            fb_store_address(cells->addresses[i], bytes.data, bytes.size);
            return FB_ARROW_NONE;
        case PATH_ADDRESS_TEXT:
            return fb_address_read(bytes, cells->addresses[i]) ? FB_ARROW_NONE
                                                               : FB_ARROW_NOT_AN_ADDRESS;
        case PATH_MAC: cells->numbers[i] = fb_load48(bytes.data); return FB_ARROW_NONE;
        case PATH_MAC_TEXT:
            return fb_mac_read(bytes, &cells->numbers[i]) ? FB_ARROW_NONE : FB_ARROW_NOT_A_MAC;
        case PATH_MEMBER: return read_member(c, bytes, &cells->numbers[i]);
        default: break;
    }
    if (bytes.size > INT32_MAX) return FB_ARROW_TOO_LONG;
    if (c->path == PATH_TEXT && !fb_utf8_valid(bytes)) return FB_ARROW_NOT_UTF8;
    cells->bytes[i] = bytes;
    return FB_ARROW_NONE;
}

static fb_arrow_reason read_float(const fb_arrow_conversion *c, const fb_arrow_view *view,
                                  int64_t at, bool *present, uint64_t *number) {
    fb_arrow_view_numbers(view, at, 1, number);
    if (c->path == PATH_INTEGER_REAL) return read_integer_real(c, number);
    if (c->path == PATH_REAL) return read_real(c, number);
    *present = !is_nan(real_of(*number));
    return *present ? read_real_integer(c, real_of(*number), number) : FB_ARROW_NONE;
}

/* The member of fb_arrow_cells that a conversion fills. */
typedef enum { CELL_NUMBER, CELL_ADDRESS, CELL_BYTES } cell;

static cell choose_cell(const fb_column *column) {
    if (column->type == FB_TYPE_IP) return CELL_ADDRESS;
    return column->type == FB_TYPE_STRING || column->type == FB_TYPE_BYTES ? CELL_BYTES
                                                                           : CELL_NUMBER;
}

FB_INLINE void copy_cell(cell kind, fb_arrow_cells *to, size_t i, const fb_arrow_cells *from,
                         size_t k) {
    switch (kind) {
        case CELL_NUMBER: to->numbers[i] = from->numbers[k]; return;
        case CELL_ADDRESS: memcpy(to->addresses[i], from->addresses[k], 16); return;
        case CELL_BYTES: to->bytes[i] = from->bytes[k]; return;
    }
}

FB_INLINE void clear_cell(cell kind, fb_arrow_cells *cells, size_t i) {
    switch (kind) {
        case CELL_NUMBER: cells->numbers[i] = 0; return;
        case CELL_ADDRESS: memset(cells->addresses[i], 0, 16); return;
        case CELL_BYTES: cells->bytes[i] = (fb_bytes){NULL, 0}; return;
    }
}

static fb_arrow_reason read_one(const fb_arrow_conversion *c, const fb_arrow_view *view, int64_t at,
                                bool *present, fb_arrow_cells *cells, size_t i) {
    fb_bytes bytes;
    if (c->path == PATH_WIDE_INTEGER) return read_wide_integer(c, view, at, &cells->numbers[i]);
    if (c->path <= PATH_REAL) return read_float(c, view, at, present, &cells->numbers[i]);
    return fb_arrow_view_bytes(view, at, &bytes) ? read_bytes(c, bytes, cells, i)
                                                 : FB_ARROW_BAD_OFFSET;
}

static size_t read_each(const fb_arrow_conversion *c, const fb_arrow_view *view, int64_t first,
                        size_t count, uint64_t *present, fb_arrow_cells *cells,
                        fb_arrow_reason *reason) {
    cell kind = choose_cell(c->column);
    for (size_t i = 0; i < count; i++) {
        bool there = *present >> i & 1;
        if (there &&
            (*reason = read_one(c, view, first + (int64_t)i, &there, cells, i)) != FB_ARROW_NONE)
            return i;
        if (there) continue;
        *present &= ~((uint64_t)1 << i);
        clear_cell(kind, cells, i);
    }
    return count;
}

/* A float converted to a double keeps its exact value. */
static void read_reals(const fb_arrow_view *view, int64_t first, size_t count, uint64_t present,
                       uint64_t *numbers) {
    fb_arrow_view_numbers(view, first, count, numbers);
    if (present == fb_mask_of(count)) return;
    for (size_t i = 0; i < count; i++) numbers[i] &= 0 - (present >> i & 1);
}

/* Find all texts of a block and check them together. Returns false if they have more than `most`
   bytes, or if a value may be invalid and must be checked alone. */
static bool find_texts(const fb_arrow_view *view, int64_t first, size_t count, size_t most,
                       fb_arrow_texts *texts) {
    int32_t *offsets = texts->offsets;
    if (view->type.layout != FB_LAYOUT_SMALL || !view->bytes) return false;
    memcpy(offsets, view->values + 4 * (first + view->offset), 4 * (count + 1));
    /* the number of offsets that a compiler vectorizes */
    for (size_t i = count; i < FB_ARROW_BLOCK; i++) offsets[i + 1] = offsets[i];
    uint32_t signs = (uint32_t)offsets[0];
    for (size_t i = 0; i < FB_ARROW_BLOCK; i++)
        signs |= (uint32_t)offsets[i + 1] | ((uint32_t)offsets[i + 1] - (uint32_t)offsets[i]);
    if (signs >> 31) return false; /* an offset is below 0 or below its predecessor */
    size_t size = (size_t)(offsets[count] - offsets[0]);
    if (size > most || !fb_is_ascii(view->bytes + offsets[0], size)) return false;
    texts->bytes = view->bytes;
    return true;
}

static bool read_plain_texts(const fb_arrow_view *view, int64_t first, size_t count,
                             uint64_t present, fb_bytes *cells) {
    fb_arrow_texts texts;
    if (!find_texts(view, first, count, SIZE_MAX, &texts)) return false;
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(texts.offsets[i + 1] - texts.offsets[i]);
        cells[i] = (fb_bytes){texts.bytes + texts.offsets[i], present >> i & 1 ? size : 0};
    }
    return true;
}

static size_t read_block(const fb_arrow_conversion *c, const fb_arrow_view *view, int64_t first,
                         size_t count, uint64_t *present, fb_arrow_cells *cells,
                         fb_arrow_reason *reason) {
    if (c->path == PATH_NOTHING) *present = 0; /* all cells stay cleared */
    if (c->path == PATH_INTEGER) {
        *reason = FB_ARROW_OUT_OF_RANGE; /* used if count_within finds one */
        return read_integers(c, view, first, count, *present, cells->numbers);
    }
    if (c->path == PATH_ADDRESS) read_addresses(view, first, count, *present, cells->addresses);
    else if (c->path == PATH_REAL && c->column->type == FB_TYPE_DOUBLE)
        read_reals(view, first, count, *present, cells->numbers);
    else if (c->path != PATH_TEXT || !read_plain_texts(view, first, count, *present, cells->bytes))
        return read_each(c, view, first, count, present, cells, reason);
    return count;
}

/* Dictionaries ------------------------------------------------------------------------------- */

bool fb_arrow_values_set(fb_arrow_values *values, const struct ArrowArray *array) {
    if (!fb_arrow_values_are_indexed(values))
        return fb_arrow_view_set(&values->view, &values->conversion.type, array);
    memset(values->memo->held, 0, sizeof values->memo->held);
    return array->dictionary && fb_arrow_view_set(&values->indices, &values->index, array) &&
           fb_arrow_view_set(&values->view, &values->conversion.type, array->dictionary);
}

uint64_t fb_arrow_values_present(const fb_arrow_values *values, int64_t first, size_t count) {
    return fb_arrow_view_present(
        fb_arrow_values_are_indexed(values) ? &values->indices : &values->view, first, count);
}

fb_arrow_reason fb_arrow_values_locate(const fb_arrow_values *values, int64_t at, int64_t *place,
                                       bool *present) {
    uint64_t index;
    fb_arrow_view_numbers(&values->indices, at, 1, &index);
    /* also true for negative indices */
    if (index >= (uint64_t)values->view.length) return FB_ARROW_BAD_INDEX;
    *place = (int64_t)index;
    *present = fb_arrow_view_present(&values->view, *place, 1);
    return FB_ARROW_NONE;
}

/* Store the value of an index in the memo. */
static fb_arrow_reason store_in_memo(const fb_arrow_values *values, int64_t index, size_t slot) {
    fb_arrow_memo *memo = values->memo;
    fb_arrow_cells cells;
    fb_arrow_reason reason = FB_ARROW_NONE;
    uint64_t present = fb_arrow_view_present(&values->view, index, 1);
    if (!read_block(&values->conversion, &values->view, index, 1, &present, &cells, &reason))
        return reason;
    copy_cell(choose_cell(values->conversion.column), &memo->cells, slot, &cells, 0);
    memo->present = (memo->present & ~((uint64_t)1 << slot)) | present << slot;
    memo->held[slot] = index + 1;
    return FB_ARROW_NONE;
}

static size_t read_indexed(const fb_arrow_values *values, int64_t first, size_t count,
                           uint64_t *present, fb_arrow_cells *cells, fb_arrow_reason *reason) {
    const fb_arrow_memo *memo = values->memo;
    cell kind = choose_cell(values->conversion.column);
    uint64_t indices[FB_ARROW_BLOCK];
    fb_arrow_view_numbers(&values->indices, first, count, indices);
    for (size_t i = 0; i < count; i++) {
        size_t slot = indices[i] % FB_ARROW_BLOCK;
        if (!(*present >> i & 1)) {
            clear_cell(kind, cells, i);
            continue;
        }
        if (indices[i] >= (uint64_t)values->view.length) {
            *reason = FB_ARROW_BAD_INDEX;
            return i;
        }
        if (memo->held[slot] != (int64_t)indices[i] + 1 &&
            (*reason = store_in_memo(values, (int64_t)indices[i], slot)) != FB_ARROW_NONE)
            return i;
        copy_cell(kind, cells, i, &memo->cells, slot);
        *present &= ~((~memo->present >> slot & 1) << i);
    }
    return count;
}

size_t fb_arrow_values_read(const fb_arrow_values *values, int64_t first, size_t count,
                            uint64_t *present, fb_arrow_cells *cells, fb_arrow_reason *reason) {
    if (fb_arrow_values_are_indexed(values))
        return read_indexed(values, first, count, present, cells, reason);
    return read_block(&values->conversion, &values->view, first, count, present, cells, reason);
}

bool fb_arrow_values_find_texts(const fb_arrow_values *values, int64_t first, size_t count,
                                uint64_t present, size_t most, fb_arrow_texts *texts) {
    bool may = values->conversion.path == PATH_TEXT && !fb_arrow_values_are_indexed(values) &&
               present == fb_mask_of(count);
    return may && find_texts(&values->view, first, count, most, texts);
}
