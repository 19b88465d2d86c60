/* Rows are encoded in blocks of up to 64. Each column of a block is first read into cells of one
   form, and its values are checked. So the room for each row is known before it is started. Then
   the rows are written from the cells. */
#include "core/arrow/arrow_encode.h"

static fb_status set_fault(fb_arrow_encoder *e, fb_arrow_reason reason, size_t child,
                           fb_status status) {
    e->fault = (fb_arrow_fault){reason, child, 0};
    return status;
}

static fb_status check_bindings(fb_arrow_encoder *e, const fb_arrow_binding *bindings) {
    for (size_t i = 0; i < e->child_count; i++) {
        uint16_t column = bindings[i].column;
        if (column == FB_NO_COLUMN) continue;
        fb_arrow_reason reason = FB_ARROW_NONE;
        if (column >= e->plan->column_count) reason = FB_ARROW_NO_COLUMN;
        else if (!(e->plan->columns[column].flags & FB_COLUMN_ENABLED)) reason = FB_ARROW_DISABLED;
        for (size_t k = 0; k < i; k++)
            if (bindings[k].column == column) reason = FB_ARROW_TWICE;
        if (reason != FB_ARROW_NONE) return set_fault(e, reason, i, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

static fb_status bind(fb_arrow_encoder *e, const fb_column *column,
                      const struct ArrowSchema *schema, size_t child,
                      const fb_arrow_binding *binding) {
    fb_arrow_field *field = &e->block.fields[e->block.field_count++];
    fb_arrow_reason reason = FB_ARROW_NONE;
    field->child = child;
    fb_status status = fb_arrow_field_bind(field, column, schema, binding, e->memory, &reason);
    return reason == FB_ARROW_NONE ? status : set_fault(e, reason, child, status);
}

/* Bind the plain numbers, or all other fields, in the order of columns. */
static fb_status bind_fields(fb_arrow_encoder *e, const struct ArrowSchema *schema,
                             const fb_arrow_binding *bindings, bool plain) {
    fb_status status = FB_OK;
    for (size_t c = 0; c < e->plan->column_count; c++) {
        const fb_column *column = &e->plan->columns[c];
        for (size_t i = 0; i < e->child_count && status == FB_OK; i++) {
            if (bindings[i].column != c) continue;
            if (fb_arrow_put_is_plain(fb_arrow_put_choose(column, bindings[i].required)) != plain)
                continue;
            status = bind(e, column, schema->children[i], i, &bindings[i]);
        }
    }
    return status;
}

static fb_status build_encoder(fb_arrow_encoder *e, const struct ArrowSchema *schema,
                               const fb_arrow_binding *bindings) {
    fb_arrow_block *block = &e->block;
    fb_status status = fb_row_new(&e->row, e->plan, e->memory);
    if (status != FB_OK) return status;
    e->row.plain = true; /* no value is deferred to the end of its row, and no column comes twice */
    block->fields = fb_memory_allocate(e->memory, (e->child_count + 1) * sizeof *block->fields);
    if (!block->fields) return FB_NO_MEMORY;
    if ((status = bind_fields(e, schema, bindings, true)) != FB_OK) return status;
    block->plain_count = block->field_count;
    if ((status = bind_fields(e, schema, bindings, false)) != FB_OK) return status;
    return fb_arrow_block_make_lanes(block, e->memory);
}

fb_status fb_arrow_encoder_new(fb_arrow_encoder *e, const fb_plan *plan,
                               const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                               fb_processor processor, fb_memory *memory) {
    *e = (fb_arrow_encoder){.plan = plan, .memory = memory};
    e->block.processor = fb_processor_choose(processor);
    if (!fb_arrow_schema_is_sound(schema))
        return set_fault(e, FB_ARROW_BAD_SCHEMA, FB_NO_CHILD, FB_BAD_ARGUMENT);
    if (strcmp(schema->format, "+s") != 0 || schema->dictionary)
        return set_fault(e, FB_ARROW_NOT_A_BATCH, FB_NO_CHILD, FB_BAD_ARGUMENT);
    e->child_count = (size_t)schema->n_children;
    fb_status status = check_bindings(e, bindings);
    if (status == FB_OK) status = build_encoder(e, schema, bindings);
    if (status == FB_OK) return status;
    fb_arrow_fault fault = e->fault;
    fb_arrow_encoder_free(e);
    e->fault = fault;
    return status;
}

void fb_arrow_encoder_free(fb_arrow_encoder *e) {
    fb_arrow_block *block = &e->block;
    for (size_t i = 0; i < block->field_count; i++)
        fb_arrow_field_free(&block->fields[i], e->memory);
    if (block->fields)
        fb_memory_release(e->memory, block->fields, (e->child_count + 1) * sizeof *block->fields);
    fb_arrow_block_free_lanes(block, e->memory);
    fb_row_free(&e->row);
    *e = (fb_arrow_encoder){0};
}

static fb_status set_array(fb_arrow_encoder *e, const struct ArrowArray *array) {
    static const fb_arrow_type rows = {.layout = FB_LAYOUT_ROWS};
    if (!fb_arrow_view_set(&e->rows, &rows, array) || array->n_children != (int64_t)e->child_count)
        return set_fault(e, FB_ARROW_BAD_ARRAY, FB_NO_CHILD, FB_BAD_ARGUMENT);
    for (size_t i = 0; i < e->block.field_count; i++) {
        fb_arrow_field *field = &e->block.fields[i];
        if (!fb_arrow_field_set(field, array->children[field->child],
                                array->offset + array->length))
            return set_fault(e, FB_ARROW_BAD_ARRAY, field->child, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

/* Read a block. Its end is the first refused row. If several children refuse it, the fault is that
   of the child read first. */
static size_t read_block(fb_arrow_encoder *e, size_t position, size_t count) {
    fb_arrow_block *block = &e->block;
    uint64_t wanted = fb_arrow_view_present(&e->rows, (int64_t)position, count);
    block->first = e->rows.offset + (int64_t)position;
    block->room.any = 0;
    memset(block->room.rows, 0, count * sizeof *block->room.rows);
    e->fault = (fb_arrow_fault){FB_ARROW_NONE, FB_NO_CHILD, 0};
    for (size_t i = 0; i < block->field_count && count; i++) {
        fb_arrow_field *field = &block->fields[i];
        fb_arrow_reason reason;
        size_t good =
            fb_arrow_field_read(field, block->first, count, wanted, &block->room, &reason);
        if (good < count) e->fault = (fb_arrow_fault){reason, field->child, position + good};
        count = good;
    }
    return count;
}

/* Return the number of rows to read: no more than could fit. Otherwise a small buffer would cause a
   whole block to be read for each row. */
static size_t choose_row_count(const fb_arrow_encoder *e, size_t position) {
    size_t left = (size_t)e->rows.length - position,
           room = (size_t)(e->row.end - e->row.next) / e->plan->max_fixed_size;
    size_t count = left < FB_ARROW_BLOCK ? left : FB_ARROW_BLOCK;
    return room < count ? room + !room : count;
}

fb_status fb_arrow_encode(fb_arrow_encoder *e, const struct ArrowArray *array, size_t *position) {
    fb_status status = set_array(e, array);
    if (status != FB_OK) return status;
    while (*position < (size_t)e->rows.length) {
        size_t count = read_block(e, *position, choose_row_count(e, *position));
        size_t done = fb_arrow_block_put(&e->block, &e->row, count);
        *position += done;
        if (e->block.changed) {
            e->fault = (fb_arrow_fault){FB_ARROW_CHANGED, e->block.changed->child, *position};
            return FB_OUT_OF_RANGE;
        }
        if (done < count) return FB_NO_SPACE;
        if (e->fault.reason != FB_ARROW_NONE) return FB_OUT_OF_RANGE;
    }
    return FB_OK;
}
