/* Rows are read in blocks, column by column, and written row by row from the cells. Before a row,
   and after each value, there is room for all names and signs of the row. Each value reserves its
   own room. */
#include "core/arrow/arrow_text.h"

#include <stdlib.h>

#include "core/base/address_format.h"
#include "core/base/real_format.h"
#include "core/base/text_format.h"

typedef enum {
    VALUE_UNSIGNED,
    VALUE_SIGNED,
    VALUE_REAL,
    VALUE_BOOL,
    VALUE_MEMBER,
    VALUE_ADDRESS,
    VALUE_MAC,
    VALUE_TIME,
    VALUE_TEXT,
    VALUE_BYTES
} value_kind;

/* The longest value of a limited size, with quotes; and more than the quotes, brackets and commas
   around a value or a row. */
enum { VALUE_MAX = FB_FORMAT_ADDRESS_MAX + 2, SIGNS_MAX = 8 };

struct fb_text_field {
    fb_arrow_field *field;
    value_kind kind;
    bool listed;
    bool always;        /* a value that is not null is present, even if it is 0 or empty */
    bool quoted;        /* JSON: a string that needs no escapes */
    bool checked;       /* CSV: the cell may need quotes or an apostrophe */
    unsigned digits;    /* of a time, after the second */
    fb_bytes name;      /* JSON: `,"name":` */
    fb_member *members; /* of an enum, by number */
    size_t member_count;
};

/* Fields ------------------------------------------------------------------------------------- */

static value_kind choose_kind(const fb_column *column) {
    switch (column->type) {
        case FB_TYPE_IP: return VALUE_ADDRESS;
        case FB_TYPE_STRING: return VALUE_TEXT;
        case FB_TYPE_BYTES: return VALUE_BYTES;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return VALUE_REAL;
        case FB_TYPE_BOOL: return VALUE_BOOL;
        case FB_TYPE_ENUM: return VALUE_MEMBER;
        case FB_TYPE_TIMESTAMP: return VALUE_TIME;
        case FB_TYPE_INT:
        case FB_TYPE_SINT:
        case FB_TYPE_DURATION: return VALUE_SIGNED;
        case FB_TYPE_UINT: return fb_column_is_mac(column) ? VALUE_MAC : VALUE_UNSIGNED;
        default: return VALUE_UNSIGNED;
    }
}

static bool holds_text(value_kind kind) {
    return kind == VALUE_TEXT || kind == VALUE_MEMBER;
}

/* Of CSV cells, only texts can need quotes. Only texts, and lists whose first number is negative,
   can look like formulas. */
static bool needs_check(const fb_text_field *to, const fb_text_options *options) {
    if (options->form != FB_TEXT_CSV) return false;
    bool negative = to->kind == VALUE_SIGNED || to->kind == VALUE_REAL;
    return holds_text(to->kind) || (options->neutral && to->listed && negative);
}

static unsigned count_digits(uint64_t nanoseconds) {
    unsigned digits = 9;
    for (; nanoseconds >= 10; nanoseconds /= 10) digits--;
    return digits;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t one = ((const fb_member *)a)->number, other = ((const fb_member *)b)->number;
    return (one > other) - (one < other);
}

/* Sort the members of the source's field by number. */
static fb_status set_members(fb_text_field *to, const fb_arrow_binding *binding,
                             fb_memory *memory) {
    if (!to->field->names) return FB_OK; /* no enum, or one whose values are all null */
    size_t size = binding->member_count * sizeof *to->members;
    if (!(to->members = fb_memory_allocate(memory, size))) return FB_NO_MEMORY;
    memcpy(to->members, to->field->names, size);
    to->member_count = binding->member_count;
    qsort(to->members, to->member_count, sizeof *to->members, compare_numbers);
    return FB_OK;
}

static fb_status set_field(fb_arrow_text *t, fb_text_field *to, fb_arrow_field *field,
                           const fb_arrow_binding *binding) {
    const fb_column *column = field->column;
    to->field = field;
    to->kind = choose_kind(column);
    to->listed = column->flags & FB_COLUMN_REPEATED;
    to->always = column->flags & FB_COLUMN_EXPLICIT || to->kind == VALUE_ADDRESS;
    to->quoted =
        t->options.form == FB_TEXT_JSON && (to->kind == VALUE_ADDRESS || to->kind == VALUE_MAC ||
                                            to->kind == VALUE_TIME || to->kind == VALUE_BYTES);
    to->checked = needs_check(to, &t->options);
    to->digits = to->kind == VALUE_TIME ? count_digits(column->unit) : 0;
    return set_members(to, binding, t->source.memory);
}

/* Append a text. */
static uint8_t *put_text(uint8_t *p, fb_bytes text) {
    return fb_wire_put_bytes(p, text.data, text.size);
}

static fb_bytes bytes_of(const char *text) {
    return (fb_bytes){(const uint8_t *)text, strlen(text)};
}

static const char *name_of(const struct ArrowSchema *schema, const fb_arrow_field *field) {
    const char *name = schema->children[field->child]->name;
    return name ? name : "";
}

/* Copy the start and the names, since the schema and the options may be released. */
static fb_status keep_names(fb_arrow_text *t, const struct ArrowSchema *schema) {
    const fb_arrow_source *s = &t->source;
    fb_bytes start = t->options.start;
    t->names_size = start.size + 1;
    for (size_t i = 0; i < s->field_count; i++)
        t->names_size += strlen(name_of(schema, &s->fields[i])) + 4;
    if (!(t->names = fb_memory_allocate(s->memory, t->names_size))) return FB_NO_MEMORY;
    uint8_t *next = put_text(t->names, start);
    t->options.start = (fb_bytes){t->names, start.size};
    for (size_t i = 0; i < s->field_count; i++) {
        const uint8_t *begin = next;
        next = put_text(next, bytes_of(",\""));
        next = put_text(next, bytes_of(name_of(schema, &s->fields[i])));
        next = put_text(next, bytes_of("\":"));
        t->fields[i].name = (fb_bytes){begin, (size_t)(next - begin)};
        t->room += t->fields[i].name.size + SIGNS_MAX;
    }
    t->room += t->options.start.size + SIGNS_MAX;
    return FB_OK;
}

static fb_status build(fb_arrow_text *t, const fb_plan *plan, const struct ArrowSchema *schema,
                       const fb_arrow_binding *bindings, fb_memory *memory) {
    fb_arrow_source *s = &t->source;
    fb_status status = fb_arrow_source_new(s, plan, schema, bindings, FB_ARROW_ORDER_CHILD, memory);
    if (status != FB_OK) return status;
    t->fields = fb_memory_allocate(memory, (s->field_count + 1) * sizeof *t->fields);
    if (!t->fields) return FB_NO_MEMORY;
    for (size_t i = 0; i < s->field_count && status == FB_OK; i++)
        status = set_field(t, &t->fields[i], &s->fields[i], &bindings[s->fields[i].child]);
    return status == FB_OK ? keep_names(t, schema) : status;
}

fb_status fb_arrow_text_new(fb_arrow_text *t, const fb_plan *plan, const struct ArrowSchema *schema,
                            const fb_arrow_binding *bindings, fb_text_options options,
                            fb_memory *memory) {
    *t = (fb_arrow_text){.options = options};
    fb_status status = build(t, plan, schema, bindings, memory);
    if (status != FB_OK) fb_arrow_text_free(t);
    return status;
}

void fb_arrow_text_free(fb_arrow_text *t) {
    fb_memory *memory = t->source.memory;
    for (size_t i = 0; t->fields && i < t->source.field_count; i++)
        fb_memory_release(memory, t->fields[i].members,
                          t->fields[i].member_count * sizeof *t->fields[i].members);
    fb_memory_release(memory, t->fields, (t->source.field_count + 1) * sizeof *t->fields);
    fb_memory_release(memory, t->names, t->names_size);
    fb_buffer_free(&t->cell);
    fb_arrow_source_free(&t->source);
    *t = (fb_arrow_text){.source.fault = t->source.fault};
}

/* Values ------------------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *p, uint64_t number) {
    return (uint8_t *)fb_format_number((char *)p, number);
}

static uint8_t *put_signed(uint8_t *p, int64_t number) {
    if (number >= 0) return put_number(p, (uint64_t)number);
    *p++ = '-';
    return put_number(p, 0 - (uint64_t)number);
}

static uint8_t *put_bool(uint8_t *p, uint64_t value) {
    return put_text(p, bytes_of(value ? "true" : "false"));
}

/* In JSON, NaN and infinities are strings. */
static uint8_t *put_real(uint8_t *p, uint64_t bits, fb_text_form form) {
    static const uint64_t infinite = UINT64_C(0x7ff) << 52;
    double real;
    memcpy(&real, &bits, 8);
    bool named = form == FB_TEXT_JSON && (bits & infinite) == infinite;
    if (named) *p++ = '"';
    p = (uint8_t *)fb_format_real((char *)p, real);
    if (named) *p++ = '"';
    return p;
}

/* Return the name of a member; no bytes if the number has none. */
static fb_bytes find_name(const fb_text_field *of, uint64_t number) {
    size_t low = 0, high = of->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (of->members[middle].number < number) low = middle + 1;
        else high = middle;
    }
    bool found = low < of->member_count && of->members[low].number == number;
    return found ? of->members[low].name : (fb_bytes){0};
}

/* A value of a limited size. REQUIRES: room for VALUE_MAX bytes. */
static uint8_t *put_value(uint8_t *p, const fb_text_field *from, size_t k, fb_text_form form) {
    const fb_arrow_cells *cells = &from->field->cells;
    if (from->quoted) *p++ = '"';
    switch (from->kind) {
        case VALUE_UNSIGNED:
        case VALUE_MEMBER: p = put_number(p, cells->numbers[k]); break;
        case VALUE_SIGNED: p = put_signed(p, (int64_t)cells->numbers[k]); break;
        case VALUE_REAL: p = put_real(p, cells->numbers[k], form); break;
        case VALUE_BOOL: p = put_bool(p, cells->numbers[k]); break;
        case VALUE_ADDRESS: p = (uint8_t *)fb_format_address((char *)p, cells->addresses[k]); break;
        case VALUE_MAC: p = (uint8_t *)fb_format_mac((char *)p, cells->numbers[k]); break;
        case VALUE_TIME: p = fb_format_time(p, cells->numbers[k], from->digits); break;
        default: break;
    }
    if (from->quoted) *p++ = '"';
    return p;
}

/* Return the text, bytes or member name of a cell; no bytes if it has another type. */
static fb_bytes find_bytes(const fb_text_field *from, size_t k) {
    const fb_arrow_field *field = from->field;
    if (from->kind == VALUE_MEMBER) return find_name(from, field->cells.numbers[k]);
    if (from->kind != VALUE_TEXT && from->kind != VALUE_BYTES) return (fb_bytes){0};
    if (from->listed || !field->texts.bytes) return field->cells.bytes[k];
    const int32_t *offsets = field->texts.offsets;
    return (fb_bytes){field->texts.bytes + offsets[k], (size_t)(offsets[k + 1] - offsets[k])};
}

static bool is_present(const fb_text_field *from, size_t k) {
    const fb_arrow_field *field = from->field;
    if (!(field->present >> k & 1)) return false;
    if (from->always) return true;
    if (from->kind == VALUE_TEXT || from->kind == VALUE_BYTES) return find_bytes(from, k).size;
    return field->cells.numbers[k];
}

static bool reserve(fb_buffer *output, size_t size, size_t more) {
    return size <= SIZE_MAX - more && fb_buffer_reserve(output, size + more) == FB_OK;
}

/* A long text is written in parts, so that only its escapes take more room. */
static bool put_json_string(fb_buffer *output, fb_bytes text, size_t more) {
    enum { PART = 4096 };
    *output->p++ = '"';
    do {
        size_t size = text.size < PART ? text.size : PART;
        if (!reserve(output, FB_FORMAT_ESCAPE_MAX * (size + 1) + 1, more)) return false;
        output->p = fb_format_json_text(output->p, output->end - more - 1, &text);
    } while (text.size);
    *output->p++ = '"';
    return true;
}

static bool put_bytes(fb_buffer *output, const fb_text_field *from, fb_bytes bytes, size_t more) {
    if (bytes.size > SIZE_MAX / 4 || !reserve(output, 2 * bytes.size + 2, more)) return false;
    if (from->quoted) *output->p++ = '"';
    output->p = fb_format_bytes(output->p, bytes);
    if (from->quoted) *output->p++ = '"';
    return true;
}

/* Write one cell, or one member of a list, without the quotes of CSV. `more` is the room that is
   needed behind it, and is there before. Returns false without memory. */
static bool put_cell(fb_buffer *output, const fb_text_field *from, size_t k, fb_text_form form,
                     size_t more) {
    fb_bytes bytes = find_bytes(from, k);
    if (from->kind == VALUE_BYTES) return put_bytes(output, from, bytes, more);
    if (from->kind == VALUE_TEXT || bytes.size) {
        if (form == FB_TEXT_JSON) return put_json_string(output, bytes, more);
        if (!reserve(output, bytes.size, more)) return false;
        output->p = put_text(output->p, bytes);
        return true;
    }
    if (!reserve(output, VALUE_MAX, more)) return false;
    output->p = put_value(output->p, from, k, form);
    return true;
}

/* Rows --------------------------------------------------------------------------------------- */

typedef enum { ROW_DONE, ROW_CHANGED, ROW_NO_MEMORY } row_result;

/* Find the members of a row's list, which begins its second read. Returns false if it has
   changed. */
static bool find_members(const fb_text_field *from, int64_t at, size_t k,
                         fb_arrow_members *members) {
    *members = (fb_arrow_members){0, 0};
    if (!(from->field->present >> k & 1)) return true;
    return fb_arrow_field_find_members(from->field, at, members) == FB_ARROW_NONE;
}

static row_result put_list(fb_buffer *output, const fb_text_field *from, fb_arrow_members members,
                           size_t k, fb_text_form form, size_t more) {
    fb_arrow_field *field = from->field;
    fb_arrow_reason reason = FB_ARROW_NONE;
    size_t left = field->list_room[k];
    bool first = true;
    if (form == FB_TEXT_JSON) *output->p++ = '[';
    while (reason == FB_ARROW_NONE && members.at < members.end) {
        size_t count = fb_arrow_field_read_members(field, &members, &left, &reason);
        for (size_t i = 0; reason == FB_ARROW_NONE && i < count; i++, first = false) {
            if (!first) *output->p++ = form == FB_TEXT_JSON ? ',' : ' ';
            if (!put_cell(output, from, i, form, more)) return ROW_NO_MEMORY;
        }
    }
    if (form == FB_TEXT_JSON) *output->p++ = ']';
    return reason == FB_ARROW_NONE && !left ? ROW_DONE : ROW_CHANGED;
}

/* Write a cell of CSV that may need quotes. `members` are those of a list. */
static row_result put_checked(fb_arrow_text *t, const fb_text_field *from, size_t k,
                              fb_arrow_members members, fb_buffer *output) {
    fb_bytes cell = from->listed ? (fb_bytes){0} : find_bytes(from, k);
    if (from->listed) {
        t->cell.p = t->cell.begin;
        if (fb_buffer_reserve(&t->cell, t->room) != FB_OK) return ROW_NO_MEMORY;
        row_result result = put_list(&t->cell, from, members, k, FB_TEXT_CSV, t->room);
        if (result != ROW_DONE) return result;
        cell = (fb_bytes){t->cell.begin, fb_buffer_size(&t->cell)};
    } else if (from->kind == VALUE_MEMBER && !cell.size) {
        return put_cell(output, from, k, FB_TEXT_CSV, t->room) ? ROW_DONE : ROW_NO_MEMORY;
    }
    if (cell.size > SIZE_MAX / 4 || !reserve(output, 3 * cell.size + 3, t->room))
        return ROW_NO_MEMORY;
    output->p = fb_format_csv_cell(output->p, cell, t->options.neutral);
    return ROW_DONE;
}

static row_result put_field(fb_arrow_text *t, const fb_text_field *from, size_t k,
                            fb_arrow_members members, fb_buffer *output) {
    const fb_text_form form = t->options.form;
    if (from->checked) return put_checked(t, from, k, members, output);
    if (from->listed) return put_list(output, from, members, k, form, t->room);
    return put_cell(output, from, k, form, t->room) ? ROW_DONE : ROW_NO_MEMORY;
}

static row_result put_fields(fb_arrow_text *t, size_t k, fb_buffer *output) {
    const bool json = t->options.form == FB_TEXT_JSON;
    const int64_t at = t->source.first + (int64_t)k;
    bool first = json && !t->options.start.size; /* the first member of an object has no comma */
    for (size_t i = 0; i < t->source.field_count; i++) {
        const fb_text_field *from = &t->fields[i];
        fb_arrow_members members = {0, 0};
        row_result result = ROW_DONE;
        if (!json && i) *output->p++ = ',';
        if (from->listed && !find_members(from, at, k, &members)) result = ROW_CHANGED;
        else if (from->listed ? members.at < members.end : is_present(from, k)) {
            if (json)
                output->p = put_text(output->p,
                                     (fb_bytes){from->name.data + first, from->name.size - first});
            first = false;
            result = put_field(t, from, k, members, output);
        }
        if (result == ROW_DONE) continue;
        t->source.fault.child = from->field->child;
        return result;
    }
    return ROW_DONE;
}

static row_result put_row(fb_arrow_text *t, size_t k, fb_buffer *output) {
    const size_t begin = fb_buffer_size(output);
    if (fb_buffer_reserve(output, t->room) != FB_OK) return ROW_NO_MEMORY;
    row_result result;
    if (t->options.form == FB_TEXT_JSON) {
        *output->p++ = '{';
        output->p = put_text(output->p, t->options.start);
        result = put_fields(t, k, output);
        *output->p++ = '}';
    } else {
        result = put_fields(t, k, output);
        /* readers skip empty lines */
        if (t->options.form == FB_TEXT_CSV && t->source.field_count == 1 &&
            fb_buffer_size(output) == begin)
            output->p = put_text(output->p, bytes_of("\"\""));
    }
    if (result != ROW_DONE) output->p = output->begin + begin;
    return result;
}

/* Write the rows of a block. Returns their number. */
static size_t put_rows(fb_arrow_text *t, size_t count, fb_buffer *output, size_t *ends,
                       row_result *result) {
    *result = ROW_DONE;
    for (size_t k = 0; k < count; k++) {
        if ((*result = put_row(t, k, output)) != ROW_DONE) return k;
        if (ends) ends[k] = fb_buffer_size(output);
        *output->p++ = '\n';
    }
    return count;
}

fb_status fb_arrow_text_write(fb_arrow_text *t, const struct ArrowArray *array, size_t *position,
                              fb_buffer *output, size_t *ends) {
    fb_arrow_source *s = &t->source;
    fb_status status = fb_arrow_source_set(s, array);
    if (status != FB_OK) return status;
    while (*position < fb_arrow_source_rows(s)) {
        size_t left = fb_arrow_source_rows(s) - *position;
        row_result result;
        size_t count =
            fb_arrow_source_read(s, *position, left < FB_ARROW_BLOCK ? left : FB_ARROW_BLOCK);
        *position += put_rows(t, count, output, ends ? ends + *position : NULL, &result);
        if (result == ROW_NO_MEMORY) return FB_NO_MEMORY;
        if (result == ROW_CHANGED) {
            s->fault.reason = FB_ARROW_CHANGED;
            s->fault.row = *position;
            return FB_OUT_OF_RANGE;
        }
        if (s->fault.reason != FB_ARROW_NONE) return FB_OUT_OF_RANGE;
    }
    return FB_OK;
}
