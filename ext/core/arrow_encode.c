/* Rows are made in blocks of up to 64. First each column of a block is read, whatever its type, into cells of one form, and refused
   if it has to be; so the room that each row needs is known before it is begun. Then rows are put together from cells, with nothing
   left to check. Lists have no cells: their members are read twice, to know them good and to write them. */
#include "arrow_encode.h"

#include <stdlib.h>

/* How a cell becomes a field. */
typedef enum {
    PUT_OCTET, /* a number of the fast path (row.h), of 8 bits, 16 bits, or any */
    PUT_PAIR,
    PUT_NUMBER,
    PUT_ADDRESS,
    PUT_OTHER_NUMBER,
    PUT_NATIVE_ADDRESS,
    PUT_OCTETS,
    PUT_EXPLICIT, /* any cell that is present */
    PUT_LIST
} put;

struct fb_arrow_field {
    const fb_column *column;
    uint8_t put;
    size_t child;
    uint64_t present; /* which rows of the block have it */
    fb_arrow_cells cells;
    fb_arrow_values values;   /* of a list, where its members are */
    fb_arrow_values *members; /* of a list */
    fb_arrow_member *names;   /* of an enum */
    size_t names_size;
};

/* Making ------------------------------------------------------------------------------------------------------------- */

static fb_status refuse(fb_arrow_encoder *e, fb_arrow_reason reason, size_t child, size_t row, fb_status status) {
    e->fault = (fb_arrow_fault){reason, child, row};
    return status;
}

static put choose_put(const fb_column *column) {
    if (column->flags & FB_COLUMN_REPEATED) return PUT_LIST;
    if (column->flags & FB_COLUMN_EXPLICIT) return PUT_EXPLICIT;
    if (column->type == FB_TYPE_IP) return fb_column_is_direct(column) ? PUT_ADDRESS : PUT_NATIVE_ADDRESS;
    if (column->wire == FB_WIRE_BYTES) return PUT_OCTETS;
    if (!fb_column_is_direct(column)) return PUT_OTHER_NUMBER;
    if (column->type == FB_TYPE_BOOL || column->limit <= UINT8_MAX) return PUT_OCTET;
    return column->limit <= UINT16_MAX ? PUT_PAIR : PUT_NUMBER;
}

static int compare_members(const void *a, const void *b) {
    return fb_bytes_compare(((const fb_arrow_member *)a)->name, ((const fb_arrow_member *)b)->name);
}

/* One allocation: members, and behind them their names. */
static fb_status copy_members(fb_arrow_encoder *e, fb_arrow_field *field, const fb_arrow_binding *binding) {
    size_t count = binding->member_count, size = count * sizeof *field->names;
    for (size_t i = 0; i < count; i++) {
        if (binding->members[i].number > INT32_MAX) return FB_BAD_ARGUMENT;
        size += binding->members[i].name.size;
    }
    if (!count) return FB_OK;
    if (!(field->names = fb_memory_allocate(e->memory, size))) return FB_NO_MEMORY;
    field->names_size = size;
    uint8_t *next = (uint8_t *)(field->names + count);
    for (size_t i = 0; i < count; i++) {
        fb_bytes name = binding->members[i].name;
        field->names[i] = (fb_arrow_member){{next, name.size}, binding->members[i].number};
        next = fb_wire_put_octets(next, name.data, name.size);
    }
    qsort(field->names, count, sizeof *field->names, compare_members);
    return FB_OK;
}

/* The type of values, and of the indices that stand for them. */
static fb_arrow_reason read_types(const struct ArrowSchema *schema, fb_arrow_type *type, fb_arrow_type *index) {
    if (!schema->dictionary) return fb_arrow_type_read(schema->format, type);
    if (schema->dictionary->dictionary) return FB_ARROW_NESTED_DICTIONARY;
    fb_arrow_reason reason = fb_arrow_type_read(schema->format, index);
    if (reason != FB_ARROW_NONE) return reason;
    if (index->layout < FB_LAYOUT_INT8 || index->layout > FB_LAYOUT_UINT64 || index->meaning != FB_MEANS_NUMBER) return FB_ARROW_MISFIT;
    return fb_arrow_type_read(schema->dictionary->format, type);
}

static bool make_memo(fb_arrow_encoder *e, fb_arrow_values *values) {
    return !fb_arrow_values_are_indexed(values) || (values->memo = fb_memory_allocate(e->memory, sizeof *values->memo));
}

/* Single values: of a column, or of a list. */
static fb_status bind_values(fb_arrow_encoder *e, fb_arrow_field *field, fb_arrow_values *values, const fb_arrow_type *type,
                             const fb_arrow_binding *binding) {
    fb_arrow_reason reason = fb_arrow_conversion_choose(&values->conversion, field->column, type);
    if (reason != FB_ARROW_NONE) return refuse(e, reason, field->child, 0, FB_BAD_SOURCE);
    fb_status status = copy_members(e, field, binding);
    values->conversion.members = field->names;
    values->conversion.member_count = binding->member_count;
    return status == FB_OK && !make_memo(e, values) ? FB_NO_MEMORY : status;
}

static fb_status bind_list(fb_arrow_encoder *e, fb_arrow_field *field, const struct ArrowSchema *schema, const fb_arrow_type *type,
                           const fb_arrow_binding *binding) {
    const struct ArrowSchema *list = schema->dictionary ? schema->dictionary : schema;
    fb_arrow_type member;
    field->values.conversion.type = *type;
    if (type->meaning == FB_MEANS_NOTHING) return make_memo(e, &field->values) ? FB_OK : FB_NO_MEMORY;
    if (type->meaning != FB_MEANS_LIST) return refuse(e, FB_ARROW_NOT_A_LIST, field->child, 0, FB_BAD_SOURCE);
    if (list->n_children != 1) return refuse(e, FB_ARROW_UNKNOWN_TYPE, field->child, 0, FB_BAD_SOURCE);
    field->members = fb_memory_allocate(e->memory, sizeof *field->members);
    if (!field->members || !make_memo(e, &field->values)) return FB_NO_MEMORY;
    fb_arrow_reason reason = read_types(list->children[0], &member, &field->members->index);
    if (reason == FB_ARROW_NONE && member.meaning == FB_MEANS_LIST) reason = FB_ARROW_NESTED_LIST;
    if (reason != FB_ARROW_NONE) return refuse(e, reason, field->child, 0, FB_BAD_SOURCE);
    return bind_values(e, field, field->members, &member, binding);
}

static fb_status bind(fb_arrow_encoder *e, const struct ArrowSchema *schema, size_t child, const fb_arrow_binding *binding) {
    fb_arrow_field *field = &e->fields[e->field_count++];
    fb_arrow_type type;
    field->column = &e->plan->columns[binding->column];
    field->child = child;
    field->put = (uint8_t)choose_put(field->column);
    fb_arrow_reason reason = read_types(schema, &type, &field->values.index);
    if (reason == FB_ARROW_NONE && type.meaning == FB_MEANS_LIST && field->put != PUT_LIST) reason = FB_ARROW_LIST;
    if (reason != FB_ARROW_NONE) return refuse(e, reason, child, 0, FB_BAD_SOURCE);
    return field->put == PUT_LIST ? bind_list(e, field, schema, &type, binding) : bind_values(e, field, &field->values, &type, binding);
}

static fb_status check_bindings(fb_arrow_encoder *e, const fb_arrow_binding *bindings) {
    for (size_t i = 0; i < e->child_count; i++) {
        uint16_t column = bindings[i].column;
        if (column == FB_NO_COLUMN) continue;
        bool good = column < e->plan->column_count && e->plan->columns[column].flags & FB_COLUMN_ENABLED;
        for (size_t k = 0; good && k < i; k++) good = bindings[k].column != column;
        if (!good) return refuse(e, FB_ARROW_BAD_COLUMN, i, 0, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

/* In the order of columns. */
static fb_status bind_all(fb_arrow_encoder *e, const struct ArrowSchema *schema, const fb_arrow_binding *bindings) {
    fb_status status = fb_row_new(&e->row, e->plan, e->memory);
    if (status != FB_OK) return status;
    e->row.plain = true; /* no value waits for the end of its row, and none comes twice */
    if (!(e->fields = fb_memory_allocate(e->memory, e->child_count * sizeof *e->fields)) && e->child_count) return FB_NO_MEMORY;
    for (size_t column = 0; column < e->plan->column_count; column++)
        for (size_t i = 0; i < e->child_count && status == FB_OK; i++)
            if (bindings[i].column == column) status = bind(e, schema->children[i], i, &bindings[i]);
    return status;
}

fb_status fb_arrow_encoder_new(fb_arrow_encoder *e, const fb_plan *plan, const struct ArrowSchema *schema,
                               const fb_arrow_binding *bindings, fb_memory *memory) {
    *e = (fb_arrow_encoder){.plan = plan, .memory = memory};
    if (strcmp(schema->format, "+s") != 0 || schema->dictionary)
        return refuse(e, FB_ARROW_NOT_A_BATCH, FB_NO_CHILD, 0, FB_BAD_ARGUMENT);
    e->child_count = (size_t)schema->n_children;
    fb_status status = check_bindings(e, bindings);
    if (status == FB_OK) status = bind_all(e, schema, bindings);
    if (status == FB_OK) return status;
    fb_arrow_fault fault = e->fault;
    fb_arrow_encoder_free(e);
    e->fault = fault;
    return status;
}

static void release(fb_arrow_encoder *e, void *p, size_t size) {
    if (p) fb_memory_release(e->memory, p, size);
}

void fb_arrow_encoder_free(fb_arrow_encoder *e) {
    for (size_t i = 0; i < e->field_count; i++) {
        fb_arrow_field *field = &e->fields[i];
        if (field->members) release(e, field->members->memo, sizeof(fb_arrow_memo));
        release(e, field->members, sizeof *field->members);
        release(e, field->values.memo, sizeof(fb_arrow_memo));
        release(e, field->names, field->names_size);
    }
    release(e, e->fields, e->child_count * sizeof *e->fields);
    fb_row_free(&e->row);
    *e = (fb_arrow_encoder){0};
}

/* Arrays ------------------------------------------------------------------------------------------------------------- */

static bool set_field(fb_arrow_field *field, const struct ArrowArray *array, int64_t rows) {
    if (!fb_arrow_values_set(&field->values, array) || fb_arrow_values_length(&field->values) < rows) return false;
    const struct ArrowArray *list = fb_arrow_values_are_indexed(&field->values) ? array->dictionary : array;
    return !field->members || (list->n_children == 1 && fb_arrow_values_set(field->members, list->children[0]));
}

static fb_status set_array(fb_arrow_encoder *e, const struct ArrowArray *array) {
    static const fb_arrow_type rows = {.layout = FB_LAYOUT_ROWS};
    if (!fb_arrow_view_set(&e->rows, &rows, array) || array->n_children != (int64_t)e->child_count)
        return refuse(e, FB_ARROW_BAD_ARRAY, FB_NO_CHILD, 0, FB_BAD_ARGUMENT);
    for (size_t i = 0; i < e->field_count; i++) {
        fb_arrow_field *field = &e->fields[i];
        if (!set_field(field, array->children[field->child], array->offset + array->length))
            return refuse(e, FB_ARROW_BAD_ARRAY, field->child, 0, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

/* Reading ------------------------------------------------------------------------------------------------------------ */

/* Protocol Buffers messages are shorter than 2 GiB. */
static bool add_octets(fb_arrow_encoder *e, size_t k, size_t octets) {
    e->more[k] += octets;
    return e->more[k] <= INT32_MAX - e->plan->fixed_worst;
}

static size_t add_cells(fb_arrow_encoder *e, const fb_arrow_field *field, size_t count, fb_arrow_reason *reason) {
    for (size_t k = 0; k < count; k++) {
        if (add_octets(e, k, field->cells.octets[k].size)) continue;
        *reason = FB_ARROW_TOO_LONG;
        return k;
    }
    return count;
}

static bool holds_octets(const fb_column *column) { return column->type == FB_TYPE_STRING || column->type == FB_TYPE_BYTES; }

typedef struct {
    int64_t at, end;
} members;

/* The members of a row's list; none, where there is no list. */
static fb_arrow_reason find_members(const fb_arrow_field *field, int64_t at, members *m) {
    const fb_arrow_values *lists = &field->values;
    bool present = true;
    *m = (members){0, 0};
    if (fb_arrow_values_are_indexed(lists)) {
        fb_arrow_reason reason = fb_arrow_values_locate(lists, at, &at, &present);
        if (reason != FB_ARROW_NONE) return reason;
    }
    if (!present || !field->members) return FB_ARROW_NONE;
    if (!fb_arrow_view_members(&lists->view, at, &m->at, &m->end)) return FB_ARROW_BAD_OFFSET;
    return m->end <= fb_arrow_values_length(field->members) ? FB_ARROW_NONE : FB_ARROW_BAD_OFFSET;
}

/* Takes the next members into the field's cells, which a list does not use otherwise. Returns how many. */
static size_t read_members(fb_arrow_field *field, members *m, fb_arrow_reason *reason) {
    size_t count = m->end - m->at < FB_ARROW_BLOCK ? (size_t)(m->end - m->at) : FB_ARROW_BLOCK;
    uint64_t present = fb_arrow_values_present(field->members, m->at, count), all = fb_mask_of(count);
    fb_arrow_reason found = FB_ARROW_NULL_MEMBER;
    size_t good = fb_arrow_values_read(field->members, m->at, count, &present, &field->cells, &found);
    *reason = good < count ? found : present != all ? FB_ARROW_NULL_MEMBER : FB_ARROW_NONE;
    m->at += (int64_t)count;
    return count;
}

static fb_arrow_reason read_list(fb_arrow_encoder *e, fb_arrow_field *field, int64_t at, size_t k) {
    const fb_column *column = field->column;
    size_t worst = FB_TAG_MAX + (column->wire == FB_WIRE_BYTES ? FB_TAG_MAX + 16u : FB_VARINT_MAX);
    members m;
    fb_arrow_reason reason = find_members(field, at, &m);
    while (reason == FB_ARROW_NONE && m.at < m.end) {
        size_t count = read_members(field, &m, &reason), octets = count * worst;
        if (reason != FB_ARROW_NONE) break;
        for (size_t i = 0; holds_octets(column) && i < count; i++) octets += field->cells.octets[i].size;
        if (!add_octets(e, k, octets)) return FB_ARROW_TOO_LONG;
    }
    return reason;
}

static size_t read_lists(fb_arrow_encoder *e, fb_arrow_field *field, int64_t first, size_t count, fb_arrow_reason *reason) {
    for (size_t k = 0; k < count; k++)
        if (field->present >> k & 1 && (*reason = read_list(e, field, first + (int64_t)k, k)) != FB_ARROW_NONE) return k;
    return count;
}

/* Returns how many rows there are before the first that is refused. */
static size_t read_field(fb_arrow_encoder *e, fb_arrow_field *field, int64_t first, size_t count, fb_arrow_reason *reason) {
    if (field->put == PUT_LIST) return read_lists(e, field, first, count, reason);
    size_t good = fb_arrow_values_read(&field->values, first, count, &field->present, &field->cells, reason);
    if (!holds_octets(field->column)) return good;
    fb_arrow_reason too_long;
    size_t fitting = add_cells(e, field, good, &too_long);
    if (fitting < good) *reason = too_long;
    return fitting;
}

/* The first row that is refused, and of its children the first, is the fault; rows before it are the block. */
static size_t read_block(fb_arrow_encoder *e, size_t position, size_t count) {
    uint64_t rows = fb_arrow_view_present(&e->rows, (int64_t)position, count);
    int64_t first = e->rows.offset + (int64_t)position;
    memset(e->more, 0, count * sizeof *e->more);
    e->fault.reason = FB_ARROW_NONE;
    for (size_t i = 0; i < e->field_count && count; i++) {
        fb_arrow_field *field = &e->fields[i];
        fb_arrow_reason reason = FB_ARROW_NONE;
        field->present = rows & fb_arrow_values_present(&field->values, first, count);
        size_t good = read_field(e, field, first, count, &reason);
        if (good < count) e->fault = (fb_arrow_fault){reason, field->child, position + good};
        count = good;
    }
    return count;
}

/* Writing ------------------------------------------------------------------------------------------------------------ */

static bool is_mapped(const uint8_t *address) {
    return fb_load64(address) == 0 && fb_load32(address + 8) == 0xffff;
}

static uint8_t *put_octets(uint8_t *p, const fb_column *column, const uint8_t *data, size_t size) {
    return fb_wire_put_octets(fb_wire_put_varint(fb_row_put_tag(p, column), size), data, size);
}

static uint8_t *put_address(uint8_t *p, const fb_column *column, const uint8_t *address) {
    bool narrow = column->flags & FB_COLUMN_NATIVE_IP && is_mapped(address);
    return narrow ? put_octets(p, column, address + 12, 4) : put_octets(p, column, address, 16);
}

/* A field, whatever it holds. */
static uint8_t *put_cell(uint8_t *p, const fb_arrow_field *field, size_t i) {
    const fb_column *column = field->column;
    if (column->type == FB_TYPE_IP) return put_address(p, column, field->cells.addresses[i]);
    if (holds_octets(column)) return put_octets(p, column, field->cells.octets[i].data, field->cells.octets[i].size);
    return fb_row_put_number(p, column, field->cells.numbers[i]);
}

static uint8_t *put_explicit(uint8_t *p, const fb_arrow_field *field, size_t k) {
    if (!(field->present >> k & 1)) return p;
    if (field->column->type == FB_TYPE_IP && fb_is_no_address(field->cells.addresses[k], 16)) return p;
    return put_cell(p, field, k);
}

/* What was read before is read again: it is good. */
static uint8_t *put_list(uint8_t *p, fb_arrow_field *field, int64_t at, size_t k) {
    fb_arrow_reason reason;
    members m;
    if (!(field->present >> k & 1)) return p;
    find_members(field, at, &m);
    while (m.at < m.end)
        for (size_t i = 0, count = read_members(field, &m, &reason); i < count; i++) p = put_cell(p, field, i);
    return p;
}

static uint8_t *put_other(uint8_t *p, fb_arrow_field *field, int64_t at, size_t k) {
    const fb_arrow_cells *cells = &field->cells;
    switch (field->put) {
        case PUT_OTHER_NUMBER: return cells->numbers[k] ? fb_row_put_number(p, field->column, cells->numbers[k]) : p;
        case PUT_NATIVE_ADDRESS: return fb_is_no_address(cells->addresses[k], 16) ? p : put_address(p, field->column, cells->addresses[k]);
        case PUT_OCTETS: return cells->octets[k].size ? put_cell(p, field, k) : p;
        case PUT_EXPLICIT: return put_explicit(p, field, k);
        default: return put_list(p, field, at, k);
    }
}

static fb_row_cursor put_row(fb_arrow_encoder *e, fb_row_cursor at, size_t position, size_t k) {
    fb_row *row = &e->row;
    for (fb_arrow_field *field = e->fields, *end = field + e->field_count; field < end; field++) {
        const fb_column *column = field->column;
        switch (field->put) {
            case PUT_OCTET: fb_row_append_uint(row, &at, column, field->cells.numbers[k], 1); break;
            case PUT_PAIR: fb_row_append_uint(row, &at, column, field->cells.numbers[k], 2); break;
            case PUT_NUMBER: fb_row_append_uint(row, &at, column, field->cells.numbers[k], 8); break;
            case PUT_ADDRESS: fb_row_append_ip(row, &at, column, field->cells.addresses[k], 16); break;
            default: at.next = put_other(at.next, field, e->rows.offset + (int64_t)position, k);
        }
    }
    return at;
}

/* No more rows than may find room are read: whoever gives little room does not read a block for each of its rows. */
static size_t choose_count(const fb_arrow_encoder *e, size_t position) {
    size_t left = (size_t)e->rows.length - position, room = (size_t)(e->row.end - e->row.next) / e->plan->fixed_worst;
    size_t count = left < FB_ARROW_BLOCK ? left : FB_ARROW_BLOCK;
    return room < count ? room + !room : count;
}

fb_status fb_arrow_encode(fb_arrow_encoder *e, const struct ArrowArray *array, size_t *position) {
    fb_row_cursor at;
    fb_status status = set_array(e, array);
    if (status != FB_OK) return status;
    while (*position < (size_t)e->rows.length) {
        size_t count = read_block(e, *position, choose_count(e, *position));
        for (size_t k = 0; k < count; k++, ++*position) {
            if (!fb_row_begin(&e->row, e->plan->fixed_worst + e->more[k], &at)) return FB_NO_SPACE;
            fb_row_finish(&e->row, put_row(e, at, *position, k));
        }
        if (e->fault.reason != FB_ARROW_NONE) return FB_OUT_OF_RANGE;
    }
    return FB_OK;
}
