#include "tests/support/flow_text.h"

#include <stdlib.h>

#include "tests/support/native.h"

/* Values ------------------------------------------------------------------------------------- */

static double real_of(uint64_t bits) {
    double real;
    memcpy(&real, &bits, 8);
    return real;
}

void put_number_text(text *t, const fb_column *column, uint64_t number) {
    switch (column->type) {
        case FB_TYPE_FLOAT: text_put(t, "%.9g", (double)(float)real_of(number)); return;
        case FB_TYPE_DOUBLE: text_put(t, "%.17g", real_of(number)); return;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_DURATION: text_put(t, "%lld", (long long)number); return;
        default: text_put(t, "%llu", (unsigned long long)number); return;
    }
}

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

static void put_address(text *t, const uint8_t *p, size_t size) {
    if (size == 4) text_put(t, "native:");
    if (size == 4 || memcmp(p, mapped_prefix, 12) == 0) {
        p += size - 4;
        text_put(t, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
        return;
    }
    for (int i = 0; i < 8; i++)
        text_put(t, "%s%x", i ? ":" : "", (unsigned)p[2 * i] << 8 | p[2 * i + 1]);
}

void put_bytes_text(text *t, const fb_column *column, const uint8_t *data, size_t size) {
    if (column->type == FB_TYPE_IP && (size == 4 || size == 16)) {
        put_address(t, data, size);
    } else if (column->type == FB_TYPE_STRING) {
        text_put(t, "\"%.*s\"", (int)size, (const char *)data);
    } else {
        text_put(t, "x");
        for (size_t i = 0; i < size; i++) text_put(t, "%02x", data[i]);
    }
}

/* Messages ----------------------------------------------------------------------------------- */

typedef struct {
    uint16_t column;
    unsigned order;
    uint64_t number;
    const uint8_t *data;
    size_t size;
} value;

typedef struct {
    const uint8_t *p, *end;
    bool bad;
} reader;

static uint64_t take_varint(reader *r) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end) break;
        uint8_t byte = *r->p++;
        result += (uint64_t)(byte % 128) << shift;
        if (byte < 128) return result;
    }
    r->bad = true;
    return 0;
}

static uint64_t take_little(reader *r, unsigned size) {
    uint64_t result = 0;
    if ((size_t)(r->end - r->p) < size) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = size; i--;) result = result * 256 + r->p[i];
    r->p += size;
    return result;
}

static reader take_bytes(reader *r) {
    uint64_t size = take_varint(r);
    if (size > (uint64_t)(r->end - r->p)) r->bad = true;
    if (r->bad) return (reader){0};
    r->p += size;
    return (reader){r->p - size, r->p, false};
}

/* Read a number by its wire type, and convert it to the form that emitters take. */
static uint64_t take_number(reader *r, const fb_column *column) {
    switch (column->wire) {
        case FB_WIRE_FIXED64: return take_little(r, 8);
        case FB_WIRE_FIXED32: break;
        default: {
            uint64_t number = take_varint(r);
            return column->type == FB_TYPE_SINT ? (number >> 1) ^ (0 - (number & 1)) : number;
        }
    }
    uint64_t number = take_little(r, 4);
    if (column->type != FB_TYPE_FLOAT) return number;
    uint32_t bits = (uint32_t)number;
    float narrow;
    memcpy(&narrow, &bits, 4);
    double wide = (double)narrow;
    memcpy(&number, &wide, 8);
    return number;
}

static int compare_values(const void *a, const void *b) {
    const value *x = a, *y = b;
    return x->column != y->column ? x->column - y->column : (int)x->order - (int)y->order;
}

/* Read the values of a message into `values`, by column. Returns false if it is not a message of
   this plan. */
static bool read_message(const named_plan *plan, reader r, value *values, size_t room,
                         size_t *count) {
    for (*count = 0; r.p < r.end && *count < room; ++*count) {
        uint64_t tag = take_varint(&r);
        uint16_t column = plan_column_of_number(plan, (uint32_t)(tag >> 3));
        if (r.bad || column == FB_MAX_COLUMNS || (tag & 7) != plan->plan->columns[column].wire)
            return false;
        value *v = &values[*count];
        *v = (value){.column = column, .order = (unsigned)*count};
        if (plan->plan->columns[column].wire == FB_WIRE_BYTES) {
            reader bytes = take_bytes(&r);
            v->data = bytes.p;
            v->size = (size_t)(bytes.end - bytes.p);
        } else {
            v->number = take_number(&r, &plan->plan->columns[column]);
        }
    }
    qsort(values, *count, sizeof *values, compare_values);
    return !r.bad && r.p == r.end;
}

static void put_value(text *t, const fb_column *column, const value *v) {
    if (column->wire == FB_WIRE_BYTES) put_bytes_text(t, column, v->data, v->size);
    else put_number_text(t, column, v->number);
}

static void put_message(text *t, const named_plan *plan, const value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const fb_column *column = &plan->plan->columns[values[i].column];
        bool repeated = column->flags & FB_COLUMN_REPEATED;
        bool first = !repeated || i == 0 || values[i - 1].column != values[i].column;
        bool last = i + 1 == count || values[i + 1].column != values[i].column;
        if (first)
            text_put(t, "%s%s=%s", i ? " " : "", plan->names[values[i].column],
                     repeated ? "[" : "");
        put_value(t, column, &values[i]);
        if (repeated) text_put(t, last ? "]" : ",");
    }
    text_put(t, "\n");
}

void describe_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size) {
    static value values[65536];
    if (!size) return; /* `data` may be NULL */
    reader stream = {data, data + size, false};
    while (stream.p < stream.end) {
        reader message = take_bytes(&stream);
        size_t count;
        if (stream.bad ||
            !read_message(plan, message, values, sizeof values / sizeof *values, &count)) {
            text_put(t, NOT_A_MESSAGE "\n");
            return;
        }
        put_message(t, plan, values, count);
    }
}

/* Any messages ------------------------------------------------------------------------------- */

static bool fits(const fb_column *column, uint64_t number) {
    uint64_t limit = column->limit;
    if (limit > INT64_MAX && column->type != FB_TYPE_UINT && column->type != FB_TYPE_FIXED64)
        limit = INT64_MAX;
    int64_t highest = (int64_t)limit, lowest = -highest - 1; /* of signed numbers */
    switch (column->type) {
        case FB_TYPE_ENUM: return number <= INT32_MAX;
        case FB_TYPE_UINT:
        case FB_TYPE_FIXED32:
        case FB_TYPE_FIXED64:
        case FB_TYPE_TIMESTAMP: return number <= limit;
        case FB_TYPE_INT:
        case FB_TYPE_SINT: return (int64_t)number >= lowest && (int64_t)number <= highest;
        default: return true;
    }
}

static void skip_value(reader *r, uint64_t wire) {
    switch (wire) {
        case FB_WIRE_VARINT: take_varint(r); return;
        case FB_WIRE_FIXED64: take_little(r, 8); return;
        case FB_WIRE_FIXED32: take_little(r, 4); return;
        case FB_WIRE_BYTES: take_bytes(r); return;
        default: r->bad = true; return;
    }
}

enum { MOST_VALUES = 1 << 18 };

typedef struct {
    value items[MOST_VALUES];
    size_t count;
} all_values;

static void take_value(reader *r, const fb_column *column, uint16_t index, all_values *values) {
    value v = {.column = index, .order = (unsigned)values->count};
    if (column->wire == FB_WIRE_BYTES) {
        reader bytes = take_bytes(r);
        v.data = bytes.p;
        v.size = (size_t)(bytes.end - bytes.p);
        if (column->type == FB_TYPE_IP && v.size != 0 && v.size != 4 && v.size != 16) r->bad = true;
    } else {
        v.number = take_number(r, column);
        if (column->type == FB_TYPE_BOOL) v.number = v.number != 0;
        if (!fits(column, v.number)) r->bad = true;
    }
    if (values->count == MOST_VALUES) abort();
    if (!r->bad) values->items[values->count++] = v;
}

static void take_field(reader *r, const named_plan *plan, all_values *values, uint64_t *unknown) {
    uint64_t tag = take_varint(r), wire = tag % 8;
    if (r->bad || tag / 8 == 0 || tag / 8 >= 1 << 29) {
        r->bad = true;
        return;
    }
    uint16_t index = plan_column_of_number(plan, (uint32_t)(tag / 8));
    bool known = index != FB_MAX_COLUMNS;
    const fb_column *column = known ? &plan->plan->columns[index] : NULL;
    bool same = known && wire == column->wire;
    bool packed = known && !same && wire == FB_WIRE_BYTES && column->flags & FB_COLUMN_REPEATED;
    *unknown += !known;
    if (known && !same && !packed) {
        r->bad = true;
    } else if (!known || !(column->flags & FB_COLUMN_ENABLED)) {
        skip_value(r, wire);
    } else if (same) {
        take_value(r, column, index, values);
    } else {
        reader list = take_bytes(r);
        while (!r->bad && !list.bad && list.p < list.end) take_value(&list, column, index, values);
        r->bad |= list.bad;
    }
}

/* Append the value as columns have it. Returns false if columns store nothing for it. */
static bool put_plain_value(text *t, const fb_column *column, const value *v) {
    static const uint8_t zeros[16];
    bool there = column->flags & (FB_COLUMN_REPEATED | FB_COLUMN_EXPLICIT);
    bool replaced, native = column->flags & FB_COLUMN_NATIVE_IP;
    uint8_t address[16], *bytes = malloc(3 * v->size + 1);
    size_t size = v->size;
    if (column->wire != FB_WIRE_BYTES) {
        if ((there |= v->number != 0)) put_number_text(t, column, v->number);
    } else if (column->type == FB_TYPE_IP) {
        memcpy(address, size == 4 ? mapped_prefix : zeros, 12);
        memcpy(address + 12, size ? v->data + size - 4 : zeros, 4);
        if (size == 16) memcpy(address, v->data, 12);
        there = (there && size) || column->flags & FB_COLUMN_REPEATED ||
                memcmp(address, zeros, 16) != 0;
        native &= memcmp(address, mapped_prefix, 12) == 0;
        if (there) put_bytes_text(t, column, native ? address + 12 : address, native ? 4 : 16);
    } else {
        if (column->type == FB_TYPE_STRING)
            size = (size_t)(fb_utf8_put_replaced(bytes, (fb_bytes){v->data, v->size}, &replaced) -
                            bytes);
        if ((there |= size != 0))
            put_bytes_text(t, column, column->type == FB_TYPE_STRING ? bytes : v->data, size);
    }
    free(bytes);
    return there;
}

static void put_any_message(text *t, const named_plan *plan, const all_values *values) {
    const char *space = "";
    for (size_t i = 0; i < values->count; i++) {
        const value *v = &values->items[i];
        const fb_column *column = &plan->plan->columns[v->column];
        bool repeated = column->flags & FB_COLUMN_REPEATED,
             last = i + 1 == values->count || v[1].column != v->column;
        bool first = i == 0 || v[-1].column != v->column;
        text described = {0};
        if (!repeated && !last) continue;
        if (put_plain_value(&described, column, v)) {
            if (!repeated || first)
                text_put(t, "%s%s=%s", space, plan->names[v->column], repeated ? "[" : "");
            text_put(t, "%s%s", text_of(&described), !repeated ? "" : last ? "]" : ",");
            space = " ";
        }
        text_free(&described);
    }
    text_put(t, "\n");
}

fb_status describe_any_messages(text *t, const named_plan *plan, const uint8_t *data, size_t size,
                                uint64_t *unknown) {
    static all_values values;
    reader stream = {data, data ? data + size : NULL, false};
    while (stream.p < stream.end) {
        const uint8_t *begin = stream.p;
        uint64_t length = take_varint(&stream), left = (uint64_t)(stream.end - stream.p), more = 0;
        if (stream.bad) return stream.end - begin < 10 ? FB_MORE_INPUT : FB_BAD_MESSAGE;
        if (length > left) return length > INT32_MAX ? FB_BAD_MESSAGE : FB_MORE_INPUT;
        reader message = {stream.p, stream.p + length, false};
        values.count = 0;
        while (!message.bad && message.p < message.end) take_field(&message, plan, &values, &more);
        if (message.bad) return FB_BAD_MESSAGE;
        qsort(values.items, values.count, sizeof *values.items, compare_values);
        put_any_message(t, plan, &values);
        *unknown += more;
        stream.p += length;
    }
    return FB_END;
}

/* Columns ------------------------------------------------------------------------------------ */

/* Return a number in the form that emitters take: 64 bits, sign-extended for signed columns. */
static uint64_t widen(const fb_column *column, const fb_vector *vector, size_t i) {
    const uint8_t *p = vector->values + i * vector->width;
    uint64_t number;
    int32_t narrow;
    float real;
    double wide;
    switch (column->type) {
        case FB_TYPE_FLOAT:
            memcpy(&real, p, 4);
            wide = (double)real;
            memcpy(&number, &wide, 8);
            return number;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
            if (vector->width == 8) break;
            memcpy(&narrow, p, 4);
            return (uint64_t)(int64_t)narrow;
        default: break;
    }
    return native_get(p, vector->width);
}

static bool is_zero(const uint8_t *p, size_t size) {
    while (size--)
        if (p[size]) return false;
    return true;
}

/* Return the bytes of a variable-width value: of a row, or of a list member. */
static fb_bytes bytes_at(const fb_vector *vector, size_t i) {
    const uint32_t *ends = vector->listed ? vector->members : vector->offsets;
    return (fb_bytes){vector->values + ends[i], ends[i + 1] - ends[i]};
}

static void put_cell(text *t, const fb_column *column, const fb_vector *vector, size_t i) {
    fb_bytes bytes = {vector->values + 16 * i, 16};
    if (!vector->width) {
        bytes = bytes_at(vector, i);
    } else if (column->type != FB_TYPE_IP) {
        put_number_text(t, column, widen(column, vector, i));
        return;
    } else if (column->flags & FB_COLUMN_NATIVE_IP && memcmp(bytes.data, mapped_prefix, 12) == 0) {
        bytes = (fb_bytes){bytes.data + 12, 4};
    }
    put_bytes_text(t, column, bytes.data, bytes.size);
}

static bool is_absent(const fb_vector *vector, size_t row) {
    if (vector->present) return !vector->present[row];
    if (vector->offsets) return vector->offsets[row] == vector->offsets[row + 1];
    return is_zero(vector->values + row * vector->width, vector->width);
}

void describe_batch(text *t, const named_plan *plan, const fb_batch *batch) {
    for (size_t row = 0; row < batch->rows; row++) {
        const char *space = "";
        for (size_t i = 0; i < batch->vector_count; i++) {
            const fb_vector *vector = &batch->vectors[i];
            const fb_column *column = &plan->plan->columns[i];
            if (!vector->values || is_absent(vector, row)) continue;
            text_put(t, "%s%s=%s", space, plan->names[i], vector->listed ? "[" : "");
            space = " ";
            if (vector->listed)
                for (size_t k = vector->offsets[row]; k < vector->offsets[row + 1]; k++) {
                    put_cell(t, column, vector, k);
                    if (k + 1 < vector->offsets[row + 1]) text_put(t, ",");
                }
            else put_cell(t, column, vector, row);
            if (vector->listed) text_put(t, "]");
        }
        text_put(t, "\n");
    }
}
