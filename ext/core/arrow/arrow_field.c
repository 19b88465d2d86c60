/* Binding of a child to a column, and reading of its rows. Types are checked at binding only.
   Members of a list are read twice, once to check them and once to write them, because they have no
   cells of their own. Another thread may change them between the reads, so the second read gets no
   more room than the first needed. */
#include "core/arrow/arrow_field.h"

#include <stdlib.h>

/* Binding ------------------------------------------------------------------------------------ */

fb_arrow_put fb_arrow_put_choose(const fb_column *column, bool required) {
    if (column->flags & FB_COLUMN_REPEATED) return FB_PUT_LIST;
    if (column->flags & FB_COLUMN_EXPLICIT || (column->type == FB_TYPE_IP && required))
        return FB_PUT_EXPLICIT;
    if (column->type == FB_TYPE_IP)
        return fb_column_has_fast_path(column) ? FB_PUT_ADDRESS : FB_PUT_NATIVE_ADDRESS;
    if (column->wire == FB_WIRE_BYTES) return FB_PUT_BYTES;
    if (column->type == FB_TYPE_DOUBLE) return FB_PUT_DOUBLE;
    if (!fb_column_has_fast_path(column)) return FB_PUT_OTHER_NUMBER;
    if (column->type == FB_TYPE_BOOL || column->limit <= UINT8_MAX) return FB_PUT_BYTE;
    return column->limit <= UINT16_MAX ? FB_PUT_PAIR : FB_PUT_NUMBER;
}

static int compare_members(const void *a, const void *b) {
    return fb_bytes_compare(((const fb_member *)a)->name, ((const fb_member *)b)->name);
}

/* Copy the members and their names into one allocation. */
static fb_status copy_members(fb_arrow_field *field, const fb_arrow_binding *binding,
                              fb_memory *memory) {
    size_t count = binding->member_count, size = count * sizeof *field->names;
    for (size_t i = 0; i < count; i++) {
        if (binding->members[i].number > INT32_MAX) return FB_BAD_ARGUMENT;
        size += binding->members[i].name.size;
    }
    if (!count) return FB_OK;
    if (!(field->names = fb_memory_allocate(memory, size))) return FB_NO_MEMORY;
    field->names_size = size;
    uint8_t *next = (uint8_t *)(field->names + count);
    for (size_t i = 0; i < count; i++) {
        fb_bytes name = binding->members[i].name;
        field->names[i] = (fb_member){{next, name.size}, binding->members[i].number};
        next = fb_wire_put_bytes(next, name.data, name.size);
    }
    qsort(field->names, count, sizeof *field->names, compare_members);
    return FB_OK;
}

static bool is_index(const fb_arrow_type *type) {
    return type->meaning == FB_MEANS_NUMBER && type->layout >= FB_LAYOUT_INT8 &&
           type->layout <= FB_LAYOUT_UINT64;
}

/* Read the type of the values and, for dictionaries, of their indices. */
static fb_arrow_reason read_types(const struct ArrowSchema *schema, fb_arrow_type *type,
                                  fb_arrow_type *index) {
    if (!schema->dictionary) return fb_arrow_type_read(schema->format, type);
    if (schema->dictionary->dictionary) return FB_ARROW_NESTED_DICTIONARY;
    fb_arrow_reason reason = fb_arrow_type_read(schema->format, index);
    if (reason == FB_ARROW_NONE && !is_index(index)) reason = FB_ARROW_MISFIT;
    return reason == FB_ARROW_NONE ? fb_arrow_type_read(schema->dictionary->format, type) : reason;
}

static bool make_memo(fb_arrow_values *values, fb_memory *memory) {
    return !fb_arrow_values_are_indexed(values) ||
           (values->memo = fb_memory_allocate(memory, sizeof *values->memo));
}

/* Bind single values: of a column, or of the members of a list. */
static fb_status bind_values(fb_arrow_field *field, fb_arrow_values *values,
                             const fb_arrow_type *type, const fb_arrow_binding *binding,
                             fb_memory *memory, fb_arrow_reason *reason) {
    *reason = fb_arrow_conversion_choose(&values->conversion, field->column, type);
    if (*reason != FB_ARROW_NONE) return FB_BAD_SOURCE;
    if (!make_memo(values, memory)) return FB_NO_MEMORY;
    if (field->column->type != FB_TYPE_ENUM) return FB_OK;
    fb_status status = copy_members(field, binding, memory);
    values->conversion.members = field->names;
    values->conversion.member_count = binding->member_count;
    return status;
}

static fb_arrow_reason check_list(const struct ArrowSchema *list, const fb_arrow_type *type) {
    if (type->meaning != FB_MEANS_LIST) return FB_ARROW_NOT_A_LIST;
    return list->n_children == 1 ? FB_ARROW_NONE : FB_ARROW_UNKNOWN_TYPE;
}

static fb_status bind_list(fb_arrow_field *field, const struct ArrowSchema *list,
                           const fb_arrow_type *type, const fb_arrow_binding *binding,
                           fb_memory *memory, fb_arrow_reason *reason) {
    fb_arrow_type member;
    field->values.conversion.type = *type;
    if (!make_memo(&field->values, memory)) return FB_NO_MEMORY;
    if (type->meaning == FB_MEANS_NOTHING) return FB_OK;
    if ((*reason = check_list(list, type)) != FB_ARROW_NONE) return FB_BAD_SOURCE;
    if (!(field->members = fb_memory_allocate(memory, sizeof *field->members))) return FB_NO_MEMORY;
    *reason = read_types(list->children[0], &member, &field->members->index);
    if (*reason == FB_ARROW_NONE && member.meaning == FB_MEANS_LIST) *reason = FB_ARROW_NESTED_LIST;
    return *reason == FB_ARROW_NONE
               ? bind_values(field, field->members, &member, binding, memory, reason)
               : FB_BAD_SOURCE;
}

fb_status fb_arrow_field_bind(fb_arrow_field *field, const fb_column *column,
                              const struct ArrowSchema *schema, const fb_arrow_binding *binding,
                              fb_memory *memory, fb_arrow_reason *reason) {
    fb_arrow_type type;
    field->column = column;
    field->put = (uint8_t)fb_arrow_put_choose(column, binding->required);
    field->required = binding->required;
    *reason = read_types(schema, &type, &field->values.index);
    if (*reason == FB_ARROW_NONE && type.meaning == FB_MEANS_LIST && field->put != FB_PUT_LIST)
        *reason = FB_ARROW_LIST;
    if (*reason != FB_ARROW_NONE) return FB_BAD_SOURCE;
    if (field->put != FB_PUT_LIST)
        return bind_values(field, &field->values, &type, binding, memory, reason);
    return bind_list(field, schema->dictionary ? schema->dictionary : schema, &type, binding,
                     memory, reason);
}

void fb_arrow_field_free(fb_arrow_field *field, fb_memory *memory) {
    if (field->members)
        fb_memory_release(memory, field->members->memo, sizeof *field->members->memo);
    fb_memory_release(memory, field->members, sizeof *field->members);
    fb_memory_release(memory, field->values.memo, sizeof *field->values.memo);
    fb_memory_release(memory, field->names, field->names_size);
}

bool fb_arrow_field_set(fb_arrow_field *field, const struct ArrowArray *array, int64_t rows) {
    if (!fb_arrow_values_set(&field->values, array) ||
        fb_arrow_values_length(&field->values) < rows)
        return false;
    const struct ArrowArray *list =
        fb_arrow_values_are_indexed(&field->values) ? array->dictionary : array;
    return !field->members ||
           (list->n_children == 1 && fb_arrow_values_set(field->members, list->children[0]));
}

/* Lists -------------------------------------------------------------------------------------- */

fb_arrow_reason fb_arrow_field_find_members(const fb_arrow_field *field, int64_t at,
                                            fb_arrow_members *members) {
    const fb_arrow_values *lists = &field->values;
    bool present = true;
    *members = (fb_arrow_members){0, 0};
    if (fb_arrow_values_are_indexed(lists)) {
        fb_arrow_reason reason = fb_arrow_values_locate(lists, at, &at, &present);
        if (reason != FB_ARROW_NONE) return reason;
    }
    if (!present || !field->members) return FB_ARROW_NONE;
    if (!fb_arrow_view_members(&lists->view, at, &members->at, &members->end))
        return FB_ARROW_BAD_OFFSET;
    return members->end <= fb_arrow_values_length(field->members) ? FB_ARROW_NONE
                                                                  : FB_ARROW_BAD_OFFSET;
}

/* Subtract the bytes that members need from *room. Returns false if the room is too small. */
static bool take_room(const fb_arrow_field *field, size_t count, size_t *room) {
    size_t max_size =
        FB_TAG_MAX + (field->column->wire == FB_WIRE_BYTES ? FB_TAG_MAX + 16u : FB_VARINT_MAX);
    if (*room < count * max_size) return false;
    *room -= count * max_size;
    for (size_t i = 0; fb_column_holds_bytes(field->column) && i < count; i++) {
        if (*room < field->cells.bytes[i].size) return false;
        *room -= field->cells.bytes[i].size;
    }
    return true;
}

size_t fb_arrow_field_read_members(fb_arrow_field *field, fb_arrow_members *members, size_t *room,
                                   fb_arrow_reason *reason) {
    int64_t left = members->end - members->at;
    size_t count = left < FB_ARROW_BLOCK ? (size_t)left : FB_ARROW_BLOCK;
    uint64_t present = fb_arrow_values_present(field->members, members->at, count),
             all = fb_mask_of(count);
    fb_arrow_reason found;
    size_t good =
        fb_arrow_values_read(field->members, members->at, count, &present, &field->cells, &found);
    if (good < count) *reason = found;
    else *reason = present != all ? FB_ARROW_NULL_MEMBER : FB_ARROW_NONE;
    if (*reason == FB_ARROW_NONE && !take_room(field, count, room)) *reason = FB_ARROW_TOO_LONG;
    members->at += (int64_t)count;
    return count;
}

/* Protocol Buffers messages are shorter than 2 GiB. Half of that is left for all fixed-size
   values. */
enum { MOST_BYTES = INT32_MAX / 2 };

static bool add_bytes(size_t *more, size_t bytes) {
    *more += bytes;
    return *more <= MOST_BYTES;
}

static fb_arrow_reason read_list(fb_arrow_field *field, int64_t at, size_t k, size_t *more) {
    const size_t room = MOST_BYTES - *more;
    size_t left = room;
    fb_arrow_members members;
    fb_arrow_reason reason = fb_arrow_field_find_members(field, at, &members);
    while (reason == FB_ARROW_NONE && members.at < members.end)
        fb_arrow_field_read_members(field, &members, &left, &reason);
    field->list_room[k] = (uint32_t)(room - left);
    *more += room - left;
    return reason;
}

static size_t read_lists(fb_arrow_field *field, int64_t first, size_t count, size_t *more,
                         fb_arrow_reason *reason) {
    for (size_t k = 0; k < count; k++) {
        if (!(field->present >> k & 1)) continue;
        if ((*reason = read_list(field, first + (int64_t)k, k, &more[k])) != FB_ARROW_NONE)
            return k;
    }
    return count;
}

static size_t add_cells(const fb_arrow_field *field, size_t count, fb_arrow_room *room,
                        fb_arrow_reason *reason) {
    for (size_t k = 0; k < count; k++) {
        if (add_bytes(&room->rows[k], field->cells.bytes[k].size)) continue;
        *reason = FB_ARROW_TOO_LONG;
        return k;
    }
    return count;
}

enum { FEW_BYTES = 65536, MANY_BYTES = INT32_MAX / 4 };

/* The size of a single text is not looked up: each row gets room for all texts of the column. */
static bool find_texts(fb_arrow_field *field, int64_t first, size_t count, fb_arrow_room *room) {
    fb_arrow_texts *texts = &field->texts;
    texts->bytes = NULL;
    if (room->any > MANY_BYTES) return false;
    if (!fb_arrow_values_find_texts(&field->values, first, count, field->present, FEW_BYTES, texts))
        return false;
    room->any += (size_t)(texts->offsets[count] - texts->offsets[0]);
    return true;
}

static size_t read_rows(fb_arrow_field *field, int64_t first, size_t count, fb_arrow_room *room,
                        fb_arrow_reason *reason) {
    if (field->put == FB_PUT_LIST) return read_lists(field, first, count, room->rows, reason);
    if (field->put == FB_PUT_BYTES && find_texts(field, first, count, room)) return count;
    size_t good =
        fb_arrow_values_read(&field->values, first, count, &field->present, &field->cells, reason);
    if (!fb_column_holds_bytes(field->column)) return good;
    fb_arrow_reason too_long = FB_ARROW_NONE;
    size_t fitting = add_cells(field, good, room, &too_long);
    if (fitting < good) *reason = too_long;
    return fitting;
}

size_t fb_arrow_field_read(fb_arrow_field *field, int64_t first, size_t count, uint64_t wanted,
                           fb_arrow_room *room, fb_arrow_reason *reason) {
    field->present = wanted & fb_arrow_values_present(&field->values, first, count);
    size_t good = read_rows(field, first, count, room, reason);
    uint64_t missing = field->required && good ? ~field->present & fb_mask_of(good) : 0;
    if (FB_LIKELY(!missing)) return good;
    *reason = FB_ARROW_REQUIRED;
    return (size_t)__builtin_ctzll(missing);
}
