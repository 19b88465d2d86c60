/* A walk through the tree for each row. Each level knows the index of its row, so arrays need no
   state except the block of values that was converted last. */
#include "core/nested/nested_write.h"

#include "core/codec/codec_write.h"
#include "core/json/json_read.h"

/* Binding ------------------------------------------------------------------------------------ */

/* Describe the scalars of a node as a column of a plan, whose conversions are used. */
static void set_column(fb_column *column, const fb_nested_type *type) {
    const fb_codec_field *field = type->value;
    *column = (fb_column){.limit = field->most, .unit = type->unit};
    switch (type->kind) {
        case FB_NESTED_BOOL: column->type = FB_TYPE_BOOL; return;
        case FB_NESTED_TEXT:
        case FB_NESTED_JSON: column->type = FB_TYPE_STRING; return;
        case FB_NESTED_BYTES: column->type = FB_TYPE_BYTES; return;
        case FB_NESTED_NAME: column->type = FB_TYPE_ENUM; return;
        case FB_NESTED_TIMESTAMP: /* unlike times of flows, it may be before 1970 */
        case FB_NESTED_DURATION:
            column->type = FB_TYPE_DURATION;
            column->limit = INT64_MAX;
            return;
        default: break;
    }
    if (field->type == FB_PROTO_FLOAT) column->type = FB_TYPE_FLOAT;
    else if (field->type == FB_PROTO_DOUBLE) column->type = FB_TYPE_DOUBLE;
    else column->type = field->least < 0 ? FB_TYPE_INT : FB_TYPE_UINT;
}

/* Let a column of times have the unit of coarser values, at most seconds, because the unit of the
   node may not hold them. The range stays that of microseconds. */
static void set_coarser_unit(fb_column *column, const fb_arrow_type *values) {
    const uint64_t second = 1000000000, microsecond = 1000;
    const uint64_t unit = values->unit < second ? values->unit : second;
    if (unit <= column->unit) return;
    column->unit = unit;
    column->limit = INT64_MAX / (unit / microsecond);
}

static bool is_index(const fb_arrow_type *type) {
    return type->meaning == FB_MEANS_NUMBER && type->layout >= FB_LAYOUT_INT8 &&
           type->layout <= FB_LAYOUT_UINT64;
}

static fb_arrow_reason bind_scalar(fb_nested_column *column, const struct ArrowSchema *schema) {
    fb_arrow_values *values = &column->values;
    const fb_nested_type *type = column->type;
    fb_arrow_type read;
    fb_arrow_reason reason;
    set_column(&column->column, type);
    if (schema->dictionary) {
        if (schema->dictionary->dictionary) return FB_ARROW_NESTED_DICTIONARY;
        if ((reason = fb_arrow_type_read(schema->format, &values->index)) != FB_ARROW_NONE)
            return reason;
        if (!is_index(&values->index)) return FB_ARROW_MISFIT;
        schema = schema->dictionary;
    }
    if ((reason = fb_arrow_type_read(schema->format, &read)) != FB_ARROW_NONE) return reason;
    if (read.meaning == FB_MEANS_LIST) return FB_ARROW_LIST;
    if (type->kind == FB_NESTED_TIMESTAMP && read.meaning == FB_MEANS_SPAN) return FB_ARROW_MISFIT;
    if (type->kind == FB_NESTED_TIMESTAMP && read.meaning == FB_MEANS_TIME)
        read.meaning = FB_MEANS_SPAN;
    if (fb_nested_is_time(type)) set_coarser_unit(&column->column, &read);
    reason = fb_arrow_conversion_choose(&values->conversion, &column->column, &read);
    values->conversion.members = type->by_name;
    values->conversion.member_count = type->member_count;
    return reason;
}

/* Read the type of a list, which may be a map. Its values become *schema. */
static fb_arrow_reason bind_list(fb_nested_column *column, const struct ArrowSchema **schema) {
    fb_arrow_type list = {FB_LAYOUT_LIST, FB_MEANS_LIST, 0, 0};
    fb_arrow_reason reason = FB_ARROW_NONE;
    if (strcmp((*schema)->format, "+m") != 0) reason = fb_arrow_type_read((*schema)->format, &list);
    if (reason != FB_ARROW_NONE) return reason;
    column->list = list;
    if (list.meaning == FB_MEANS_NOTHING) return FB_ARROW_NONE;
    if (list.meaning != FB_MEANS_LIST || (*schema)->dictionary) return FB_ARROW_NOT_A_LIST;
    if ((*schema)->n_children != 1) return FB_ARROW_BAD_SCHEMA;
    *schema = (*schema)->children[0];
    return FB_ARROW_NONE;
}

fb_status fb_nested_writer_bind(fb_nested_writer *writer, size_t node, size_t child,
                                const struct ArrowSchema *schema, const struct ArrowSchema **values,
                                fb_arrow_reason *reason) {
    fb_nested_column *column = &writer->columns[node];
    const bool is_struct = column->type->kind == FB_NESTED_STRUCT;
    *values = NULL;
    column->bound = true;
    column->child = child;
    *reason = FB_ARROW_NONE;
    if (column->type->repeated) *reason = bind_list(column, &schema);
    if (*reason == FB_ARROW_NONE && column->type->repeated &&
        column->list.meaning == FB_MEANS_NOTHING)
        return FB_OK;
    if (*reason == FB_ARROW_NONE && !is_struct) {
        *reason = bind_scalar(column, schema);
        if (*reason == FB_ARROW_NONE) {
            column->cells = fb_memory_allocate(writer->memory, sizeof *column->cells);
            if (fb_arrow_values_are_indexed(&column->values))
                column->values.memo =
                    fb_memory_allocate(writer->memory, sizeof *column->values.memo);
            const bool short_of =
                fb_arrow_values_are_indexed(&column->values) && !column->values.memo;
            return column->cells && !short_of ? FB_OK : FB_NO_MEMORY;
        }
    } else if (*reason == FB_ARROW_NONE) {
        const bool nothing = strcmp(schema->format, "n") == 0;
        column->rows.type.layout = nothing ? FB_LAYOUT_NOTHING : FB_LAYOUT_ROWS;
        if (!nothing && (strcmp(schema->format, "+s") != 0 || schema->dictionary))
            *reason = FB_ARROW_NOT_A_STRUCT;
        else if (!nothing) *values = schema;
    }
    return *reason == FB_ARROW_NONE ? FB_OK : FB_BAD_SOURCE;
}

fb_status fb_nested_writer_new(fb_nested_writer *writer, const fb_nested_type *types, size_t count,
                               fb_memory *memory) {
    *writer = (fb_nested_writer){.types = types, .memory = memory};
    for (size_t i = 0; i < count; i++) writer->chosen_count += types[i].oneof_count;
    writer->columns = fb_memory_allocate(memory, count * sizeof *writer->columns);
    writer->wanted = fb_memory_allocate(memory, count * sizeof *writer->wanted);
    writer->chosen = fb_memory_allocate(memory, (writer->chosen_count + 1) * sizeof(int64_t));
    writer->count = count;
    if (!writer->columns || !writer->wanted || !writer->chosen) return FB_NO_MEMORY;
    for (size_t i = 0, oneofs = 0; i < count; i++) {
        writer->columns[i].type = &types[i];
        writer->columns[i].length_size = 1;
        writer->columns[i].oneofs = oneofs;
        oneofs += types[i].oneof_count;
    }
    return FB_OK;
}

void fb_nested_writer_free(fb_nested_writer *writer) {
    fb_memory *memory = writer->memory;
    for (size_t i = 0; writer->columns && i < writer->count; i++) {
        fb_nested_column *column = &writer->columns[i];
        fb_memory_release(memory, column->cells, sizeof *column->cells);
        fb_memory_release(memory, column->values.memo, sizeof *column->values.memo);
    }
    if (!memory) return;
    fb_buffer_free(&writer->message);
    fb_memory_release(memory, writer->columns, writer->count * sizeof *writer->columns);
    fb_memory_release(memory, writer->wanted, writer->count * sizeof *writer->wanted);
    fb_memory_release(memory, writer->chosen, (writer->chosen_count + 1) * sizeof(int64_t));
}

/* Arrays ------------------------------------------------------------------------------------- */

static bool set_struct(fb_nested_writer *writer, fb_nested_column *column,
                       const struct ArrowArray *array);

/* Set the array of a column, which must have at least `length` rows. */
static bool set_array(fb_nested_writer *writer, fb_nested_column *column,
                      const struct ArrowArray *array, int64_t length) {
    if (array->length < length) return false;
    if (column->type->repeated) {
        if (!fb_arrow_view_set(&column->lists, &column->list, array)) return false;
        if (column->list.meaning == FB_MEANS_NOTHING) return true;
        if (array->n_children != 1) return false;
        array = array->children[0];
    }
    if (column->type->kind == FB_NESTED_STRUCT) return set_struct(writer, column, array);
    column->loaded = 0;
    return fb_arrow_values_set(&column->values, array);
}

static bool set_struct(fb_nested_writer *writer, fb_nested_column *column,
                       const struct ArrowArray *array) {
    const fb_arrow_type type = {column->rows.type.layout, FB_MEANS_NOTHING, 0, 0};
    if (!fb_arrow_view_set(&column->rows, &type, array)) return false;
    for (size_t i = 0; i < column->type->child_count; i++) {
        fb_nested_column *child = &writer->columns[column->type->children[i]];
        if (!child->bound) continue;
        if ((int64_t)child->child >= array->n_children) return false;
        if (!set_array(writer, child, array->children[child->child],
                       column->rows.offset + column->rows.length))
            return false;
    }
    return true;
}

/* Return how the field of a column is written. */
static uint8_t choose_form(const fb_nested_column *column) {
    const fb_nested_type *type = column->type;
    const fb_codec_field *field = type->field;
    if (type->repeated) return FB_NESTED_PUT_LIST;
    if (!column->bound || !field || fb_codec_is_message(field) || field->oneof || field->required)
        return FB_NESTED_PUT_SINGLE;
    if (field->members) return FB_NESTED_PUT_SCALAR;
    switch (field->type) {
        case FB_PROTO_FLOAT:
        case FB_PROTO_FIXED32:
        case FB_PROTO_SFIXED32:
        case FB_PROTO_SINT32:
        case FB_PROTO_SINT64: return FB_NESTED_PUT_SCALAR;
        case FB_PROTO_DOUBLE:
        case FB_PROTO_FIXED64:
        case FB_PROTO_SFIXED64: return FB_NESTED_PUT_FIXED64;
        case FB_PROTO_STRING:
        case FB_PROTO_BYTES: return field->most ? FB_NESTED_PUT_SCALAR : FB_NESTED_PUT_TEXT;
        default: return FB_NESTED_PUT_VARINT;
    }
}

/* List the nodes of each struct that have a column, or must have one. */
static void list_wanted(fb_nested_writer *writer) {
    size_t count = 0;
    for (size_t i = 0; i < writer->count; i++) {
        fb_nested_column *column = &writer->columns[i];
        const fb_nested_type *type = column->type;
        column->wanted = count;
        for (size_t k = 0; type->nodes && k < type->message->count; k++) {
            const int32_t node = type->nodes[k];
            if (node != FB_NESTED_NO_NODE &&
                (writer->columns[node].bound || type->message->fields[k].required))
                writer->wanted[count++] = &writer->columns[node];
        }
        column->wanted_count = count - column->wanted;
        column->form = choose_form(column);
    }
}

fb_status fb_nested_writer_set(fb_nested_writer *writer, const struct ArrowArray *array) {
    list_wanted(writer);
    for (size_t i = 0; i < writer->chosen_count; i++) writer->chosen[i] = 0;
    writer->columns->rows.type.layout = FB_LAYOUT_ROWS;
    if (set_struct(writer, writer->columns, array)) return FB_OK;
    writer->reason = FB_ARROW_BAD_ARRAY;
    writer->level_count = 0;
    return FB_BAD_ARGUMENT;
}

/* Values ------------------------------------------------------------------------------------- */

/* Room that each struct keeps in front of the output: for each of its fields without the content of
   texts, and for its own length. */
FB_INLINE size_t room_of(const fb_nested_column *column) {
    return (column->wanted_count + 1) * FB_CODEC_ROOM;
}

/* Set the status, and return NULL instead of the end of the output. */
static FB_NOINLINE uint8_t *stop(fb_nested_writer *writer, fb_status status) {
    writer->status = status;
    writer->level_count = 0;
    return NULL;
}

static uint8_t *refuse(fb_nested_writer *writer, fb_arrow_reason reason) {
    writer->reason = reason;
    return stop(writer, FB_BAD_MESSAGE);
}

/* Add the field around a refused value to its place. */
static FB_NOINLINE uint8_t *add_level(fb_nested_writer *writer, const fb_nested_column *column,
                                      int64_t index) {
    if (writer->level_count <= FB_CODEC_DEPTH)
        writer->levels[writer->level_count++] = (fb_nested_level){column->type, index};
    return NULL;
}

FB_INLINE bool has_room(const fb_nested_writer *writer, const uint8_t *p, size_t size) {
    return FB_LIKELY((size_t)(writer->end - p) >= size);
}

/* Convert the values from a row on. Returns false if the first one is refused. */
static FB_NOINLINE bool load_cells(fb_nested_writer *writer, fb_nested_column *column,
                                   int64_t row) {
    const int64_t left = fb_arrow_values_length(&column->values) - row;
    const size_t count = left < FB_ARROW_BLOCK ? (size_t)left : FB_ARROW_BLOCK;
    fb_arrow_reason reason = FB_ARROW_NONE;
    column->first = row;
    column->present = fb_arrow_values_present(&column->values, row, count);
    column->loaded =
        fb_arrow_values_read(&column->values, row, count, &column->present, column->cells, &reason);
    if (!column->loaded) refuse(writer, reason);
    return column->loaded;
}

/* Find the cell of a row. Returns false if its value is refused. */
FB_INLINE bool find_cell(fb_nested_writer *writer, fb_nested_column *column, int64_t row,
                         size_t *cell) {
    *cell = (size_t)(row - column->first);
    if (FB_LIKELY(*cell < column->loaded)) return true;
    *cell = 0;
    return load_cells(writer, column, row);
}

FB_INLINE bool is_present(const fb_arrow_view *view, int64_t row) {
    if (!view->validity) return view->type.layout != FB_LAYOUT_NOTHING;
    const int64_t at = view->offset + row;
    return view->validity[at / 8] >> at % 8 & 1;
}

/* Convert a cell to the form of the codec. */
FB_INLINE uint64_t to_number(const fb_codec_field *field, uint64_t cell) {
    if (field->type != FB_PROTO_FLOAT) return cell;
    double real;
    uint32_t bits;
    memcpy(&real, &cell, 8);
    const float narrow = (float)real;
    memcpy(&bits, &narrow, 4);
    return bits;
}

static uint8_t *put_time(const fb_nested_column *column, uint64_t cell, uint8_t *p) {
    const int64_t unit = (int64_t)column->column.unit;
    const int64_t time = (int64_t)cell, second = 1000000000 / unit;
    int64_t seconds = time / second, part = time % second;
    if (column->type->kind == FB_NESTED_TIMESTAMP && part < 0) {
        seconds--;
        part += second;
    }
    return fb_codec_put_time(p, column->type->field, seconds, (int32_t)(part * unit));
}

static uint8_t *put_text(fb_nested_writer *writer, const fb_codec_field *field, fb_bytes text,
                         uint8_t *p) {
    if (field->most && text.size && text.size != (uint64_t)field->least && text.size != field->most)
        return refuse(writer, FB_ARROW_ADDRESS_SIZE);
    if (!has_room(writer, p, FB_CODEC_ROOM + text.size)) return stop(writer, FB_NO_SPACE);
    p = fb_codec_put_length(p, field, text.size);
    return fb_wire_put_few_bytes(p, text.data, text.size);
}

/* Write the cell of a row with its tag. With `always`, zero is written too. REQUIRES:
   FB_CODEC_ROOM. */
FB_INLINE uint8_t *put_cell(fb_nested_writer *writer, const fb_nested_column *column, size_t cell,
                            bool always, uint8_t *p) {
    const fb_codec_field *field = column->type->value;
    if (fb_nested_is_text(column->type)) {
        const fb_bytes text = column->cells->bytes[cell];
        return text.size || always ? put_text(writer, field, text, p) : p;
    }
    const uint64_t number = to_number(field, column->cells->numbers[cell]);
    if (field->members && !fb_codec_has_member(field, number))
        return refuse(writer, FB_ARROW_NOT_A_MEMBER);
    if (!number && !always) return p;
    return fb_codec_put_value(fb_codec_put_tag(p, field), field, number);
}

/* Messages ----------------------------------------------------------------------------------- */

static uint8_t *put_fields(fb_nested_writer *writer, const fb_nested_column *column, int64_t row,
                           uint8_t *p);

/* Write the length of the bytes from `begin` to p in front of them. `guess` bytes were left for it,
   and then as many as it has. */
FB_INLINE uint8_t *end_length(fb_nested_writer *writer, uint8_t *begin, uint8_t *p,
                              uint8_t *guess) {
    const size_t size = (size_t)(p - begin), needed = fb_wire_varint_size(size), left = *guess;
    if (FB_UNLIKELY(size > INT32_MAX)) return refuse(writer, FB_ARROW_TOO_LONG);
    if (FB_UNLIKELY(needed != left)) {
        if (!has_room(writer, p, FB_CODEC_ROOM)) return stop(writer, FB_NO_SPACE);
        memmove(begin - left + needed, begin, size);
        *guess = (uint8_t)needed;
    }
    fb_wire_put_varint(begin - left, size);
    return p - left + needed;
}

/* Write a row of a struct as a message. REQUIRES: FB_CODEC_ROOM. */
FB_INLINE uint8_t *put_message(fb_nested_writer *writer, fb_nested_column *column, int64_t row,
                               uint8_t *p) {
    const fb_codec_field *field = column->type->field;
    if (field) p = fb_codec_put_tag(p, field);
    if (field && field->type == FB_PROTO_GROUP) {
        if (!(p = put_fields(writer, column, row, p))) return NULL;
        if (!has_room(writer, p, FB_CODEC_ROOM)) return stop(writer, FB_NO_SPACE);
        return fb_codec_put_end_group(p, field);
    }
    uint8_t *begin = p + column->length_size;
    if (!(p = put_fields(writer, column, row, begin))) return NULL;
    return end_length(writer, begin, p, &column->length_size);
}

static uint8_t *put_wrapper(fb_nested_writer *writer, const fb_nested_column *column, size_t cell,
                            uint8_t *p) {
    uint8_t guess = 1;
    uint8_t *begin = fb_codec_put_tag(p, column->type->field) + guess;
    p = put_cell(writer, column, cell, column->type->value->presence, begin);
    if (!p) return NULL;
    if (column->type->field->type != FB_PROTO_GROUP) return end_length(writer, begin, p, &guess);
    if (!has_room(writer, p, FB_CODEC_ROOM)) return stop(writer, FB_NO_SPACE);
    memmove(begin - guess, begin, (size_t)(p - begin)); /* a group has no length */
    return fb_codec_put_end_group(p - guess, column->type->field);
}

/* Write the message of a JSON text. */
static uint8_t *put_json(fb_nested_writer *writer, const fb_nested_column *column, size_t cell,
                         uint8_t *p) {
    const fb_nested_type *type = column->type;
    fb_buffer *message = &writer->message;
    message->p = message->begin;
    fb_status status = fb_json_read(type->json_types, type->json, column->cells->bytes[cell], false,
                                    message, &writer->fault);
    const size_t size = fb_buffer_size(message);
    if (status == FB_BAD_MESSAGE) return refuse(writer, FB_ARROW_NOT_JSON);
    if (status != FB_OK) return stop(writer, status);
    if (size > INT32_MAX) return refuse(writer, FB_ARROW_TOO_LONG);
    if (!has_room(writer, p, 2 * FB_CODEC_ROOM + size)) return stop(writer, FB_NO_SPACE);
    const bool is_group = type->field->type == FB_PROTO_GROUP;
    p = is_group ? fb_codec_put_tag(p, type->field) : fb_codec_put_length(p, type->field, size);
    p = fb_wire_put_bytes(p, message->begin, size);
    return is_group ? fb_codec_put_end_group(p, type->field) : p;
}

/* Write one value that is not a struct: an element, or a single one. An absent one leaves *present
   false. */
static uint8_t *put_one(fb_nested_writer *writer, fb_nested_column *column, int64_t row,
                        bool *present, uint8_t *p) {
    const fb_nested_type *type = column->type;
    size_t cell;
    if (!has_room(writer, p, 2 * FB_CODEC_ROOM + FB_CODEC_TIME_MAX))
        return stop(writer, FB_NO_SPACE);
    if (!find_cell(writer, column, row, &cell)) return NULL;
    if (!(*present = column->present >> cell & 1)) return p;
    if (fb_nested_is_time(type)) return put_time(column, column->cells->numbers[cell], p);
    if (type->kind == FB_NESTED_JSON) return put_json(writer, column, cell, p);
    if (type->message) return put_wrapper(writer, column, cell, p);
    return put_cell(writer, column, cell, type->repeated || type->value->presence, p);
}

/* Lists -------------------------------------------------------------------------------------- */

/* Return the number of values of an array. */
static int64_t count_values(const fb_nested_column *column) {
    return column->type->kind == FB_NESTED_STRUCT ? column->rows.length
                                                  : fb_arrow_values_length(&column->values);
}

/* Write the elements [at, end) of a packed field. */
static uint8_t *put_packed(fb_nested_writer *writer, fb_nested_column *column, int64_t at,
                           int64_t end, uint8_t *p) {
    const fb_codec_field *field = column->type->field;
    uint8_t *begin = fb_codec_put_tag(p, field) + column->length_size;
    const int64_t first = at;
    for (p = begin; at < end; at++) {
        size_t cell;
        if (!has_room(writer, p, 2 * FB_CODEC_ROOM)) return stop(writer, FB_NO_SPACE);
        if (!find_cell(writer, column, at, &cell)) return add_level(writer, column, at - first);
        const uint64_t number = to_number(field, column->cells->numbers[cell]);
        if (FB_UNLIKELY(!(column->present >> cell & 1))) refuse(writer, FB_ARROW_NULL_MEMBER);
        else if (field->members && !fb_codec_has_member(field, number))
            refuse(writer, FB_ARROW_NOT_A_MEMBER);
        else {
            p = fb_codec_put_value(p, field, number);
            continue;
        }
        return add_level(writer, column, at - first);
    }
    p = end_length(writer, begin, p, &column->length_size);
    return p ? p : add_level(writer, column, -1);
}

/* Write the rows [at, end) of a repeated message. */
static uint8_t *put_messages(fb_nested_writer *writer, fb_nested_column *column, int64_t at,
                             int64_t end, uint8_t *p) {
    for (int64_t row = at; row < end; row++) {
        uint8_t *next;
        if (!has_room(writer, p, FB_CODEC_ROOM)) return stop(writer, FB_NO_SPACE);
        if (FB_LIKELY(is_present(&column->rows, row))) next = put_message(writer, column, row, p);
        else next = refuse(writer, FB_ARROW_NULL_MEMBER);
        if (FB_UNLIKELY(!next)) return add_level(writer, column, row - at);
        p = next;
    }
    return p;
}

static uint8_t *put_list(fb_nested_writer *writer, fb_nested_column *column, int64_t row,
                         uint8_t *p) {
    int64_t begin, end;
    if (!is_present(&column->lists, row)) return p;
    if (!fb_arrow_view_members(&column->lists, row, &begin, &end) || end > count_values(column)) {
        refuse(writer, FB_ARROW_BAD_OFFSET);
        return add_level(writer, column, -1);
    }
    if (begin == end) return p;
    if (column->type->kind == FB_NESTED_STRUCT) return put_messages(writer, column, begin, end, p);
    if (column->type->field->packed) return put_packed(writer, column, begin, end, p);
    for (int64_t at = begin; at < end; at++) {
        bool present = true;
        uint8_t *next = put_one(writer, column, at, &present, p);
        if (FB_UNLIKELY(next && !present)) next = refuse(writer, FB_ARROW_NULL_MEMBER);
        if (FB_UNLIKELY(!next)) return add_level(writer, column, at - begin);
        p = next;
    }
    return p;
}

/* Fields ------------------------------------------------------------------------------------- */

/* Write a single field that is a message, or whose presence matters. REQUIRES: FB_CODEC_ROOM. */
static uint8_t *put_single(fb_nested_writer *writer, const fb_nested_column *parent,
                           fb_nested_column *column, int64_t row, uint8_t *p) {
    const fb_codec_field *field = column->type->field;
    bool present = false;
    if (column->bound && column->type->kind == FB_NESTED_STRUCT) {
        present = is_present(&column->rows, row);
        if (present) p = put_message(writer, column, row, p);
    } else if (column->bound) {
        p = put_one(writer, column, row, &present, p);
    }
    if (!p) return NULL;
    if (!present) return field->required ? refuse(writer, FB_ARROW_REQUIRED) : p;
    if (!field->oneof) return p;
    int64_t *chosen = &writer->chosen[parent->oneofs + field->oneof - 1];
    if (*chosen == row + 1) return refuse(writer, FB_ARROW_ONEOF);
    *chosen = row + 1;
    return p;
}

/* Write a single scalar that may be absent. REQUIRES: `room` bytes, which remain behind a text. */
FB_INLINE uint8_t *put_scalar(fb_nested_writer *writer, fb_nested_column *column, int64_t row,
                              size_t room, uint8_t *p) {
    const fb_codec_field *field = column->type->field;
    size_t cell;
    if (FB_UNLIKELY(!find_cell(writer, column, row, &cell))) return NULL;
    if (!(column->present >> cell & 1)) return p;
    if (column->form == FB_NESTED_PUT_TEXT) {
        const fb_bytes text = column->cells->bytes[cell];
        if (!text.size && !field->presence) return p;
        if (!has_room(writer, p, room + text.size)) return stop(writer, FB_NO_SPACE);
        return fb_wire_put_few_bytes(fb_codec_put_length(p, field, text.size), text.data,
                                     text.size);
    }
    if (column->form == FB_NESTED_PUT_SCALAR)
        return put_cell(writer, column, cell, field->presence, p);
    const uint64_t number = column->cells->numbers[cell];
    if (!number && !field->presence) return p;
    p = fb_codec_put_tag(p, field);
    return column->form == FB_NESTED_PUT_VARINT ? fb_codec_put_varint(p, number)
                                                : fb_wire_put_fixed64(p, number);
}

/* Write the fields of a row of a struct, in the order of their numbers. */
static uint8_t *put_fields(fb_nested_writer *writer, const fb_nested_column *column, int64_t row,
                           uint8_t *p) {
    const int64_t at = column->rows.offset + row;
    fb_nested_column *const *wanted = writer->wanted + column->wanted;
    const size_t room = room_of(column);
    if (!has_room(writer, p, room)) return stop(writer, FB_NO_SPACE);
    for (size_t i = 0; i < column->wanted_count; i++) {
        fb_nested_column *child = wanted[i];
        uint8_t *next;
        if (FB_LIKELY(child->form >= FB_NESTED_PUT_SCALAR))
            next = put_scalar(writer, child, at, room, p);
        else if (child->form == FB_NESTED_PUT_SINGLE)
            next = put_single(writer, column, child, at, p);
        else if (!(next = put_list(writer, child, at, p))) return NULL; /* it adds its level */
        if (FB_UNLIKELY(!next)) return add_level(writer, child, -1);
        p = next;
        if (child->form <= FB_NESTED_PUT_SCALAR && !has_room(writer, p, room))
            return stop(writer, FB_NO_SPACE);
    }
    return p;
}

/* Check that no field is required in a row that is null. */
static bool has_required(fb_nested_writer *writer, const fb_nested_column *root) {
    for (size_t i = 0; i < root->wanted_count; i++) {
        const fb_nested_column *child = writer->wanted[root->wanted + i];
        if (!child->type->field->required) continue;
        refuse(writer, FB_ARROW_REQUIRED);
        add_level(writer, child, -1);
        return true;
    }
    return false;
}

fb_status fb_nested_write(fb_nested_writer *writer, size_t *row, size_t rows, uint8_t **output,
                          uint8_t *end) {
    fb_nested_column *root = writer->columns;
    writer->end = end;
    for (; *row < rows; ++*row) {
        uint8_t *p = *output;
        if (!has_room(writer, p, FB_CODEC_ROOM)) return FB_NO_SPACE;
        if (is_present(&root->rows, (int64_t)*row)) p = put_message(writer, root, (int64_t)*row, p);
        else if (has_required(writer, root)) p = NULL;
        else *p++ = 0;
        if (FB_UNLIKELY(!p)) {
            for (size_t i = 0; i < writer->chosen_count; i++) writer->chosen[i] = 0;
            return writer->status;
        }
        *output = p;
    }
    return FB_OK;
}
