/* Bindings are checked as a whole before fields are allocated. */
#include "core/arrow/arrow_source.h"

static fb_status set_fault(fb_arrow_source *s, fb_arrow_reason reason, size_t child,
                           fb_status status) {
    s->fault = (fb_arrow_fault){reason, child, 0};
    return status;
}

static fb_status check_bindings(fb_arrow_source *s, const fb_arrow_binding *bindings) {
    for (size_t i = 0; i < s->child_count; i++) {
        uint16_t column = bindings[i].column;
        if (column == FB_NO_COLUMN) continue;
        fb_arrow_reason reason = FB_ARROW_NONE;
        if (column >= s->plan->column_count) reason = FB_ARROW_NO_COLUMN;
        else if (!(s->plan->columns[column].flags & FB_COLUMN_ENABLED)) reason = FB_ARROW_DISABLED;
        for (size_t k = 0; k < i; k++)
            if (bindings[k].column == column) reason = FB_ARROW_TWICE;
        if (reason != FB_ARROW_NONE) return set_fault(s, reason, i, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

static fb_status bind(fb_arrow_source *s, const struct ArrowSchema *schema, size_t child,
                      const fb_arrow_binding *binding) {
    fb_arrow_field *field = &s->fields[s->field_count++];
    fb_arrow_reason reason = FB_ARROW_NONE;
    field->child = child;
    fb_status status = fb_arrow_field_bind(field, &s->plan->columns[binding->column],
                                           schema->children[child], binding, s->memory, &reason);
    return reason == FB_ARROW_NONE ? status : set_fault(s, reason, child, status);
}

/* Bind the plain numbers, or all other fields, in the order of columns. */
static fb_status bind_some(fb_arrow_source *s, const struct ArrowSchema *schema,
                           const fb_arrow_binding *bindings, bool plain) {
    fb_status status = FB_OK;
    for (size_t c = 0; c < s->plan->column_count; c++)
        for (size_t i = 0; i < s->child_count && status == FB_OK; i++) {
            if (bindings[i].column != c) continue;
            fb_arrow_put put = fb_arrow_put_choose(&s->plan->columns[c], bindings[i].required);
            if (fb_arrow_put_is_plain(put) == plain) status = bind(s, schema, i, &bindings[i]);
        }
    return status;
}

static fb_status bind_fields(fb_arrow_source *s, const struct ArrowSchema *schema,
                             const fb_arrow_binding *bindings, fb_arrow_order order) {
    fb_status status = FB_OK;
    if (order == FB_ARROW_ORDER_PLAIN) {
        if ((status = bind_some(s, schema, bindings, true)) != FB_OK) return status;
        s->plain_count = s->field_count;
        return bind_some(s, schema, bindings, false);
    }
    for (size_t i = 0; i < s->child_count && status == FB_OK; i++)
        if (bindings[i].column != FB_NO_COLUMN) status = bind(s, schema, i, &bindings[i]);
    return status;
}

fb_status fb_arrow_source_new(fb_arrow_source *s, const fb_plan *plan,
                              const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                              fb_arrow_order order, fb_memory *memory) {
    *s = (fb_arrow_source){.plan = plan, .memory = memory};
    if (!fb_arrow_schema_is_sound(schema))
        return set_fault(s, FB_ARROW_BAD_SCHEMA, FB_NO_CHILD, FB_BAD_ARGUMENT);
    if (strcmp(schema->format, "+s") != 0 || schema->dictionary)
        return set_fault(s, FB_ARROW_NOT_A_BATCH, FB_NO_CHILD, FB_BAD_ARGUMENT);
    s->child_count = (size_t)schema->n_children;
    fb_status status = check_bindings(s, bindings);
    if (status != FB_OK) return status;
    s->fields = fb_memory_allocate(memory, (s->child_count + 1) * sizeof *s->fields);
    return s->fields ? bind_fields(s, schema, bindings, order) : FB_NO_MEMORY;
}

void fb_arrow_source_free(fb_arrow_source *s) {
    for (size_t i = 0; i < s->field_count; i++) fb_arrow_field_free(&s->fields[i], s->memory);
    fb_memory_release(s->memory, s->fields, (s->child_count + 1) * sizeof *s->fields);
    s->fields = NULL;
    s->field_count = s->plain_count = 0;
}

fb_status fb_arrow_source_set(fb_arrow_source *s, const struct ArrowArray *array) {
    static const fb_arrow_type rows = {.layout = FB_LAYOUT_ROWS};
    if (!fb_arrow_view_set(&s->rows, &rows, array) || array->n_children != (int64_t)s->child_count)
        return set_fault(s, FB_ARROW_BAD_ARRAY, FB_NO_CHILD, FB_BAD_ARGUMENT);
    for (size_t i = 0; i < s->field_count; i++) {
        fb_arrow_field *field = &s->fields[i];
        if (!fb_arrow_field_set(field, array->children[field->child],
                                array->offset + array->length))
            return set_fault(s, FB_ARROW_BAD_ARRAY, field->child, FB_BAD_ARGUMENT);
    }
    return FB_OK;
}

size_t fb_arrow_source_read(fb_arrow_source *s, size_t position, size_t count) {
    uint64_t wanted = fb_arrow_view_present(&s->rows, (int64_t)position, count);
    s->first = s->rows.offset + (int64_t)position;
    s->room.any = 0;
    memset(s->room.rows, 0, count * sizeof *s->room.rows);
    s->fault = (fb_arrow_fault){FB_ARROW_NONE, FB_NO_CHILD, 0};
    for (size_t i = 0; i < s->field_count && count; i++) {
        fb_arrow_field *field = &s->fields[i];
        fb_arrow_reason reason;
        size_t good = fb_arrow_field_read(field, s->first, count, wanted, &s->room, &reason);
        if (good < count) s->fault = (fb_arrow_fault){reason, field->child, position + good};
        count = good;
    }
    return count;
}
