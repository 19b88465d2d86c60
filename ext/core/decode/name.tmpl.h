/* Values of a record that come from elsewhere: names that the exporter reported (names.h), and the
   fields that no column takes. */
#ifndef FB_DECODE_NAME_TMPL_H
#define FB_DECODE_NAME_TMPL_H

#include "core/decode/field.tmpl.h"
#include "core/decode/value.tmpl.h"

#define FB_MEGABIT 1000000u

FB_INLINE const uint8_t *find_field(const fb_op *op, const uint8_t *record,
                                    const fb_location *locations) {
    return (locations ? locations[op->base].base : record) + op->offset;
}

/* Put a name or a speed into a column. NULL: the name is unknown. */
FB_INLINE fb_cursor put_known_name(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                   fb_target target, const fb_name *name) {
    if (!name) return at;
    if (name->kind == FB_NAME_INTERFACE_SPEED)
        return name->speed < FB_MEGABIT
                   ? at
                   : put_uint(c, emitter, at, target, name->speed / FB_MEGABIT);
    FB_EMIT(put_name)(emitter, &at, target, name->text, name->size);
    return at;
}

/* Return the name of an id that is no number of 2 or 4 bytes. */
FB_NOINLINE static const fb_name *find_name_of_long_id(const fb_domain *domain, const fb_op *op,
                                                       const uint8_t *record,
                                                       const fb_location *locations) {
    fb_name_kind kind = (fb_name_kind)(op->code - FB_OP_NAME);
    fb_bytes field = {find_field(op, record, locations), op->size};
    fb_name_id id;
    if (locations && op->size == FB_VARIABLE_SIZE) field = locations[op->base].field;
    return fb_name_id_read(kind, field.data, field.size, &id)
               ? fb_domain_find_name(domain, kind, id)
               : NULL;
}

/* Return the name of the id in the field of an operation; NULL: unknown. */
FB_INLINE const fb_name *find_name(const fb_domain *domain, const fb_op *op, const uint8_t *record,
                                   const fb_location *locations) {
    if (FB_UNLIKELY(!op->short_id)) return find_name_of_long_id(domain, op, record, locations);
    const uint8_t *p = find_field(op, record, locations);
    fb_name_id id = {0, op->size == 4 ? fb_load32(p) : fb_load16(p)};
    return fb_domain_find_name(domain, (fb_name_kind)(op->code - FB_OP_NAME), id);
}

/* Put the name of the id in the field of an operation. */
static fb_cursor put_name(fb_context *c, fb_emitter *emitter, fb_cursor at, const fb_op *op,
                          const uint8_t *record, const fb_location *locations) {
    if (!c->domain) return at;
    return put_known_name(c, emitter, at, op->target, find_name(c->domain, op, record, locations));
}

/* Put the names that alone fill their columns. */
FB_INLINE fb_cursor put_names(fb_context *c, fb_emitter *emitter, fb_cursor at,
                              const fb_compiled_template *compiled, const uint8_t *record,
                              const fb_location *locations) {
    const fb_domain *domain = c->domain;
    if (FB_UNLIKELY(!domain)) return at;
    for (const fb_op *op = compiled->ops + compiled->set_end,
                     *end = compiled->ops + compiled->name_end;
         op < end; op++) {
        const fb_name *name = find_name(domain, op, record, locations);
        if (name) FB_EMIT(put_name)(emitter, &at, op->target, name->text, name->size);
    }
    return at;
}

/* The same for records of variable length. They are slower, so a call costs them less. */
FB_NOINLINE static fb_cursor put_names_apart(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                             const fb_compiled_template *compiled,
                                             const uint8_t *record, const fb_location *locations) {
    return put_names(c, emitter, at, compiled, record, locations);
}

static fb_cursor put_interface_name(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                    fb_source source, uint32_t index) {
    if (!index || !c->domain) return at;
    const fb_name_id id = {0, index};
    FB_FOR_TARGETS(c, source, target)
    at = put_known_name(c, emitter, at, *target,
                        fb_domain_find_name(c->domain, fb_source_name_kind(source), id));
    return at;
}

/* Put the names and speeds of the interfaces of an sFlow sample. */
FB_NOINLINE static fb_cursor put_interface_names(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                                 uint32_t input, uint32_t output) {
    at = put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_IN_IF_NAME, input);
    at = put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_OUT_IF_NAME, output);
    at = put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_IN_IF_DESCRIPTION, input);
    at = put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_OUT_IF_DESCRIPTION, output);
    at = put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_IN_IF_SPEED, input);
    return put_interface_name(c, emitter, at, FB_SOURCE_DERIVED_OUT_IF_SPEED, output);
}

/* Return the number of an element: its enterprise << 16 | its id. */
FB_INLINE uint64_t element_number(const fb_field *field) {
    return (uint64_t)field->pen << 16 | field->id;
}

/* Put a member into the list of a repeated column; any other column takes the first one. */
static fb_cursor put_other_value(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                                 fb_bytes value) {
    if (c->plan->columns[target.column].flags & FB_COLUMN_REPEATED)
        FB_EMIT(repeat_bytes)(emitter, &at, target, value.data, value.size);
    else FB_EMIT(put_bytes)(emitter, &at, target, value.data, value.size);
    return at;
}

/* Put the elements of the scope, or those that no column takes, or the bytes of the latter. Fields
   without bytes are left out: a short record could have thousands of them. */
FB_NOINLINE static fb_cursor put_elements(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                          const fb_op *op, const fb_compiled_template *compiled,
                                          const uint8_t *record, const fb_location *locations) {
    bool scope = op->code == FB_OP_SCOPE_ELEMENTS;
    uint16_t count = scope ? compiled->scope_count : compiled->other_count;
    for (uint16_t i = 0; i < count; i++) {
        uint16_t field = scope ? i : compiled->others[i];
        fb_bytes value = fb_compiled_template_field(compiled, field, record, locations);
        if (!value.size) continue;
        if (op->code == FB_OP_OTHER_VALUES) at = put_other_value(c, emitter, at, op->target, value);
        else at = put_member(c, emitter, at, op->target, element_number(&compiled->fields[field]));
    }
    return end_list(c, emitter, at, op->target);
}

#endif
