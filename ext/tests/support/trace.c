#include "tests/support/trace.h"

#include <stdlib.h>

void trace_new(trace *t, const named_plan *plan) {
    *t = (trace){.plan = plan,
                 .cells = calloc(plan->count + 1, sizeof *t->cells),
                 .constants = calloc(plan->count + 1, sizeof *t->constants),
                 .datagram = calloc(plan->count + 1, sizeof *t->datagram)};
    if (!t->cells || !t->constants || !t->datagram) abort();
}

void trace_free(trace *t) {
    for (size_t i = 0; i < t->plan->count; i++) {
        free(t->cells[i].values);
        free(t->constants[i].values);
        free(t->datagram[i].values);
    }
    free(t->cells);
    free(t->constants);
    free(t->datagram);
    text_free(&t->text);
}

/* Cells -------------------------------------------------------------------------------------- */

static void add_value(trace_cell *cell, trace_value value) {
    if (cell->count == cell->capacity) {
        cell->capacity = cell->capacity ? 2 * cell->capacity : 1;
        cell->values = realloc(cell->values, cell->capacity * sizeof *cell->values);
        if (!cell->values) abort();
    }
    cell->values[cell->count++] = value;
}

static void copy_cells(const named_plan *plan, trace_cell *to, const trace_cell *from) {
    for (size_t i = 0; i < plan->count; i++) {
        to[i].count = 0;
        to[i].rank = from[i].rank;
        to[i].zero_rank = from[i].zero_rank;
        to[i].listed = from[i].listed;
        for (size_t k = 0; k < from[i].count; k++) add_value(&to[i], from[i].values[k]);
    }
}

static void clear_cells(const named_plan *plan, trace_cell *cells) {
    for (size_t i = 0; i < plan->count; i++) {
        cells[i].count = 0;
        cells[i].zero_rank = 0;
        cells[i].listed = false;
    }
}

static bool is_zero(const trace_value *value) {
    return value->data ? !value->size : !value->number;
}

/* True if the column has no value that counts, or one of a worse rank. */
static bool is_open(const trace *t, fb_target target) {
    const trace_cell *cell = &t->cells[target.column];
    unsigned flags = t->plan->plan->columns[target.column].flags;
    if (!(flags & FB_COLUMN_ENABLED)) return false;
    if (flags & FB_COLUMN_REPEATED) return !cell->listed;
    if (cell->zero_rank && target.rank >= cell->zero_rank) return false;
    return !cell->count || is_zero(cell->values) || target.rank < cell->rank;
}

/* Put a single value. For a repeated column it is a list of one member. */
static void put_single(trace *t, fb_target target, trace_value value) {
    trace_cell *cell = &t->cells[target.column];
    unsigned flags = t->plan->plan->columns[target.column].flags;
    bool repeated = flags & FB_COLUMN_REPEATED, explicit = flags & FB_COLUMN_EXPLICIT;
    if (cell->open) {
        add_value(cell, value);
        return;
    }
    if (!is_open(t, target)) return;
    if (is_zero(&value) && target.zero) {
        cell->zero_rank = target.rank + (target.rank != FB_NO_RANK);
        if (cell->count && !is_zero(cell->values) && cell->rank > target.rank) cell->count = 0;
    }
    if ((is_zero(&value) && (repeated || !explicit || cell->count))) return;
    if (repeated && cell->count) return;
    cell->count = 0;
    cell->rank = target.rank;
    cell->listed = true;
    add_value(cell, value);
}

/* Emitter functions -------------------------------------------------------------------------- */

static void trace_begin_constants(trace *t, trace_cursor *at) {
    clear_cells(t->plan, t->cells);
    *at = (trace_cursor){0};
}

static void trace_end_constants(trace *t, trace_cursor at) {
    (void)at;
    copy_cells(t->plan, t->constants, t->cells);
    for (size_t i = 0; i < t->plan->count; i++)
        for (size_t k = 0; k < t->constants[i].count; k++) {
            trace_value *value = &t->constants[i].values[k];
            if (value->data) memmove(value->kept, value->data, value->size);
        }
}

/* Start with the constants. Their bytes are copies, because the originals may have been freed. */
static void begin_cells(trace *t) {
    copy_cells(t->plan, t->cells, t->constants);
    for (size_t i = 0; i < t->plan->count; i++)
        for (size_t k = 0; k < t->cells[i].count; k++)
            if (t->cells[i].values[k].data)
                t->cells[i].values[k].data = t->constants[i].values[k].kept;
}

/* Begin the constants of a set. Those of the datagram are saved. */
static void trace_begin_set(trace *t, trace_cursor *at) {
    copy_cells(t->plan, t->datagram, t->constants);
    begin_cells(t);
    *at = (trace_cursor){0};
}

static void trace_end_set_constants(trace *t, trace_cursor at) {
    trace_end_constants(t, at);
}

static void trace_end_set(trace *t) {
    copy_cells(t->plan, t->constants, t->datagram);
}

static bool trace_has_fast_path(const trace *t) {
    (void)t;
    return true;
}

static bool trace_reserve(trace *t, size_t rows, size_t max_size) {
    (void)max_size;
    t->begun++;
    if (t->refuse_each && t->begun % t->refuse_each == 0) return false;
    t->promised = rows;
    return true;
}

static bool trace_begin(trace *t, size_t max_size, trace_cursor *at) {
    if (!t->promised && !trace_reserve(t, 1, max_size)) return false;
    t->promised--;
    begin_cells(t);
    *at = (trace_cursor){0};
    return true;
}

static void trace_put_uint(trace *t, trace_cursor *at, fb_target target, uint64_t value) {
    (void)at;
    put_single(t, target, (trace_value){.number = value});
}

static void trace_put_fast(trace *t, trace_cursor *at, const fb_target_range *source,
                           uint64_t value) {
    bool is_number = source->path == FB_PATH_FAST && source->column->type != FB_TYPE_IP;
    if (source->path != FB_PATH_ENUM && (!is_number || value >= source->bound)) abort();
    trace_put_uint(t, at, source->target, value);
}

/* An appended value is the only one of its column, so any rank works. */
static fb_target find_target(const trace *t, const fb_column *column) {
    fb_target target = {.column = (uint16_t)(column - t->plan->plan->columns)};
    assert(fb_column_has_fast_path(column) && !t->cells[target.column].count);
    return target;
}

static void trace_append_uint(trace *t, trace_cursor *at, const fb_column *column, uint64_t value,
                              size_t width) {
    if (width < 8 && value >> 8 * width) abort();
    fb_target target = find_target(t, column);
    if (value) trace_put_uint(t, at, target, value);
}

static void trace_put_int(trace *t, trace_cursor *at, fb_target target, int64_t value) {
    (void)at;
    put_single(t, target, (trace_value){.number = (uint64_t)value});
}

static void trace_put_real(trace *t, trace_cursor *at, fb_target target, double value) {
    (void)at;
    uint64_t bits;
    memcpy(&bits, &value, 8);
    put_single(t, target, (trace_value){.number = bits});
}

/* Empty bytes are a value only in an explicit column. */
static void trace_put_bytes(trace *t, trace_cursor *at, fb_target target, const uint8_t *data,
                            size_t size) {
    (void)at;
    const fb_column *column = &t->plan->plan->columns[target.column];
    bool explicit = column->flags & FB_COLUMN_EXPLICIT && !(column->flags & FB_COLUMN_REPEATED);
    if (size || explicit || t->cells[target.column].open)
        put_single(t, target, (trace_value){.data = data, .size = size});
}

static void trace_put_name(trace *t, trace_cursor *at, fb_target target, const uint8_t *data,
                           size_t size) {
    assert(size >= 1 && size <= FB_NAME_SIZE);
    trace_put_bytes(t, at, target, data, size);
}

static void trace_put_ip(trace *t, trace_cursor *at, fb_target target, const uint8_t *data,
                         size_t size) {
    (void)at;
    put_single(t, target, (trace_value){.data = data, .size = size});
}

static void trace_append_ip(trace *t, trace_cursor *at, const fb_column *column,
                            const uint8_t *data, size_t size) {
    fb_target target = find_target(t, column);
    if (!fb_is_no_address(data, size)) trace_put_ip(t, at, target, data, size);
}

static bool trace_accepts(trace *t, trace_cursor at, fb_target target) {
    (void)at;
    return is_open(t, target);
}

static void trace_repeat_uint(trace *t, trace_cursor *at, fb_target target, uint64_t value) {
    (void)at;
    assert(t->plan->plan->columns[target.column].flags & FB_COLUMN_REPEATED);
    if (is_open(t, target)) add_value(&t->cells[target.column], (trace_value){.number = value});
}

static void trace_repeat_bytes(trace *t, trace_cursor *at, fb_target target, const uint8_t *data,
                               size_t size) {
    (void)at;
    assert(t->plan->plan->columns[target.column].flags & FB_COLUMN_REPEATED);
    if (is_open(t, target))
        add_value(&t->cells[target.column], (trace_value){.data = data, .size = size});
}

static void trace_open(trace *t, trace_cursor *at, uint16_t column) {
    (void)at;
    assert(t->plan->plan->columns[column].flags & FB_COLUMN_REPEATED);
    t->cells[column].open = !t->cells[column].listed;
}

static void trace_close(trace *t, trace_cursor *at, uint16_t column) {
    (void)at;
    assert(t->plan->plan->columns[column].flags & FB_COLUMN_REPEATED);
    if (t->cells[column].count) t->cells[column].listed = true;
    t->cells[column].open = false;
}

/* Append text as it must be written: malformed parts become U+FFFD. */
static void put_string(text *text, const fb_column *column, const trace_value *value) {
    uint8_t *replaced = malloc(3 * value->size + 1);
    bool any;
    if (!replaced) abort();
    size_t size =
        (size_t)(fb_utf8_put_replaced(replaced, (fb_bytes){value->data, value->size}, &any) -
                 replaced);
    put_bytes_text(text, column, replaced, size);
    free(replaced);
}

static void put_address(text *text, const fb_column *column, const trace_value *value) {
    uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};
    bool widen = value->size == 4 && !(column->flags & FB_COLUMN_NATIVE_IP);
    if (widen) memcpy(mapped + 12, value->data, 4);
    put_bytes_text(text, column, widen ? mapped : value->data, widen ? 16 : value->size);
}

static void put_traced(text *text, const fb_column *column, const trace_value *value) {
    if (!value->data) put_number_text(text, column, value->number);
    else if (column->type == FB_TYPE_STRING) put_string(text, column, value);
    else if (column->type == FB_TYPE_IP) put_address(text, column, value);
    else put_bytes_text(text, column, value->data, value->size);
}

/* Configure the rate of the row, and multiply it by the weight. REQUIRES: the product has at most
   64 bits. */
static void change_rate_of_row(trace *t) {
    fb_rate_change *change = t->rate_change;
    const fb_plan *plan = t->plan->plan;
    if (!change || plan->rate_column == FB_NO_COLUMN) return;
    trace_cell *cell = &t->cells[plan->rate_column];
    uint64_t before = cell->count ? cell->values[0].number : 0, rate = before;
    if (change->configured && (change->replaces || !rate)) rate = change->configured;
    if (change->weight != FB_WEIGHT_ONE) {
        uint64_t product = (rate ? rate : 1) * change->weight + change->remainder;
        rate = product >> 32;
        change->remainder = (uint32_t)product;
    }
    if (rate == before) return;
    cell->count = 0;
    if (rate > plan->columns[plan->rate_column].limit) t->refused++;
    else add_value(cell, (trace_value){.number = rate});
}

/* Multiply totals by the rate of the row, if the product fits. */
static void scale_cells(trace *t) {
    const fb_plan *plan = t->plan->plan;
    if (plan->rate_column == FB_NO_COLUMN || !t->cells[plan->rate_column].count) return;
    uint64_t rate = t->cells[plan->rate_column].values[0].number;
    for (size_t i = 0; rate && i < t->plan->count; i++) {
        trace_cell *cell = &t->cells[i];
        if (!(plan->columns[i].flags & FB_COLUMN_SCALED) || !cell->count) continue;
        bool fits = cell->values[0].number <= plan->columns[i].limit / rate;
        if (fits) cell->values[0].number *= rate;
        if (!fits) cell->count = 0, t->refused++;
    }
}

static uint64_t trace_take_refused(trace *t) {
    uint64_t refused = t->refused;
    t->refused = 0;
    return refused;
}

static void trace_suspend(trace *t) {
    (void)t;
}

static void trace_change_rate(trace *t, fb_rate_change *change) {
    t->rate_change = change;
}

static void trace_finish(trace *t, trace_cursor at) {
    const char *space = "";
    (void)at;
    change_rate_of_row(t);
    scale_cells(t);
    for (size_t i = 0; i < t->plan->count; i++) {
        const trace_cell *cell = &t->cells[i];
        const fb_column *column = &t->plan->plan->columns[i];
        bool repeated = column->flags & FB_COLUMN_REPEATED;
        if (!cell->count) continue;
        text_put(&t->text, "%s%s=%s", space, t->plan->names[i], repeated ? "[" : "");
        for (size_t k = 0; k < cell->count; k++) {
            if (k) text_put(&t->text, ",");
            put_traced(&t->text, column, &cell->values[k]);
        }
        text_put(&t->text, "%s", repeated ? "]" : "");
        space = " ";
    }
    text_put(&t->text, "\n");
}

#define FB_EMITTER trace
#include "core/decode/decode.tmpl.h"
