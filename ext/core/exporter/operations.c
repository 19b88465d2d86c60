/* Look up every field in the plan, sort the matches by column and rank, and write one operation for
   each. */
#include "core/exporter/names.h"
#include "core/exporter/operations.h"

#include <stdlib.h>

static bool has_packet(const fb_compiled_template *compiled) {
    return fb_compiled_template_has_role(compiled, FB_ROLE_DATA_LINK_FRAME) ||
           fb_compiled_template_has_role(compiled, FB_ROLE_IP_PACKET);
}

/* --- candidates ----------------------------------------------------------------------------- */

/* State of the compilation of one template. */
typedef struct {
    fb_compiled_templates *compiled_templates;
    const fb_compiled_template *compiled;
    size_t count; /* of candidates */
} compiler;

static void add_candidate(compiler *c, fb_target target, uint16_t field, fb_op_code code,
                          bool own) {
    const fb_column *column = &c->compiled_templates->plan->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return;
    if (c->compiled->reversed && !own && column->flags & FB_COLUMN_ONE_DIRECTION) return;
    c->compiled_templates->has_reverse[target.column] |= own;
    if (fb_field_fills_nothing(c->compiled, field, code, column)) return;
    /* their zero means unknown */
    bool unknown =
        code == FB_OP_DERIVED_ETYPE || code == FB_OP_DERIVED_SAMPLING_RATE || fb_op_is_name(code);
    target.zero = column->flags & FB_COLUMN_ZERO && !unknown;
    bool after = has_packet(c->compiled) && target.rank > column->packet_rank;
    c->compiled_templates->candidates[c->count++] =
        (struct fb_candidate){target, field, (uint8_t)code, after, false, 0, own};
}

static void add_element(compiler *c, fb_target target, size_t field, bool several) {
    const fb_column *columns = c->compiled_templates->plan->columns;
    uint16_t mirror = columns[target.column].mirror;
    if (fb_compiled_template_is_shared(c->compiled, field) && mirror != FB_NO_MIRROR)
        target.column = mirror;
    bool collects = several && columns[target.column].flags & FB_COLUMN_REPEATED;
    add_candidate(c, target, (uint16_t)field, collects ? FB_OP_COLLECT : FB_OP_VALUE,
                  fb_compiled_template_is_own(c->compiled, field));
}

/* The chain omits fields of zero bytes. Otherwise a short record could have thousands of links. */
static void count_occurrence(const fb_compiled_template *compiled, struct fb_occurrences *seen,
                             uint16_t field) {
    seen->last = field;
    if (!seen->count++) {
        seen->first = seen->link = field;
    } else if (compiled->chain_count && compiled->fields[field].size) {
        compiled->chain[seen->link] = field;
        seen->link = field;
    }
}

/* Add sources that name an occurrence by its number. Occurrences are counted in each direction of a
   biflow. Return true if an enabled column takes the element. */
static bool add_elements(compiler *c, uint64_t pen, uint32_t id, size_t field) {
    size_t found;
    bool taken = false;
    const fb_plan *plan = c->compiled_templates->plan;
    const fb_plan_element *elements = fb_plan_find_elements(plan, pen, id, &found);
    if (!found) return false;
    size_t direction = fb_compiled_template_is_own(c->compiled, field) ? plan->element_count : 0;
    size_t place = (size_t)(elements - plan->elements) + direction;
    struct fb_occurrences *seen = &c->compiled_templates->seen[place];
    if (!seen->count)
        c->compiled_templates->met[c->compiled_templates->met_count++] = (uint32_t)place;
    count_occurrence(c->compiled, seen, (uint16_t)field);
    for (size_t i = 0; i < found; i++) {
        taken |= plan->columns[elements[i].target.column].flags & FB_COLUMN_ENABLED;
        if (elements[i].occurrence == seen->count) add_element(c, elements[i].target, field, false);
    }
    return taken;
}

/* Add the other sources, after all occurrences in a direction are counted. If an element occurs
   twice, the first occurrence is that of the outer header (RFC 7011 section 8). */
static void add_occurrences(compiler *c) {
    const fb_plan *plan = c->compiled_templates->plan;
    for (size_t i = 0; i < c->compiled_templates->met_count; i++) {
        struct fb_occurrences *seen = &c->compiled_templates->seen[c->compiled_templates->met[i]];
        size_t first = c->compiled_templates->met[i] % plan->element_count,
               end = plan->element_count;
        const fb_plan_element *run = &plan->elements[first];
        for (const fb_plan_element *e = run;
             e < plan->elements + end && e->pen == run->pen && e->id == run->id; e++) {
            if (e->occurrence == FB_ANY_OCCURRENCE)
                add_element(c, e->target, seen->first, seen->count > 1);
            if (e->occurrence == FB_LAST_OCCURRENCE) add_element(c, e->target, seen->last, false);
        }
        seen->count = 0;
    }
    c->compiled_templates->met_count = 0;
}

static void add_derived(compiler *c, fb_source source, fb_op_code code) {
    fb_target_range range = c->compiled_templates->plan->sources[source];
    bool own =
        c->compiled->reversed && code != FB_OP_DERIVED_SAMPLING_RATE && code != FB_OP_DERIVED_ETYPE;
    for (size_t i = 0; i < range.count; i++)
        add_candidate(c, c->compiled_templates->plan->targets[range.first + i], FB_NO_FIELD, code,
                      own);
}

static bool has_mpls(const fb_compiled_template *compiled) {
    for (unsigned role = FB_ROLE_MPLS_1; role <= FB_ROLE_MPLS_10; role++)
        if (fb_compiled_template_has_role(compiled, role)) return true;
    return false;
}

static void add_all_derived(compiler *c) {
    const fb_compiled_template *compiled = c->compiled;
    if (compiled->version != 5)
        add_derived(c, FB_SOURCE_DERIVED_SAMPLING_RATE, FB_OP_DERIVED_SAMPLING_RATE);
    add_derived(c, FB_SOURCE_DERIVED_ETYPE, FB_OP_DERIVED_ETYPE);
    if (fb_compiled_template_has_role(compiled, FB_ROLE_ICMP_IPV4) ||
        fb_compiled_template_has_role(compiled, FB_ROLE_ICMP_IPV6) ||
        (fb_compiled_template_has_role(compiled, FB_ROLE_PROTO) &&
         fb_compiled_template_has_role(compiled, FB_ROLE_DST_PORT))) {
        add_derived(c, FB_SOURCE_DERIVED_ICMP_TYPE, FB_OP_DERIVED_ICMP_TYPE);
        add_derived(c, FB_SOURCE_DERIVED_ICMP_CODE, FB_OP_DERIVED_ICMP_CODE);
    }
    if (fb_compiled_template_has_role(compiled, FB_ROLE_COMMON_PROPERTIES))
        add_derived(c, FB_SOURCE_DERIVED_FORWARDING_STATUS, FB_OP_DERIVED_FORWARDING_STATUS);
    if (fb_compiled_template_has_role(compiled, FB_ROLE_FRAGMENT_FLAGS))
        add_derived(c, FB_SOURCE_DERIVED_IP_FLAGS, FB_OP_DERIVED_IP_FLAGS);
    if (has_mpls(compiled))
        add_derived(c, FB_SOURCE_DERIVED_MPLS_LABELS, FB_OP_DERIVED_MPLS_LABELS);
    if (compiled->scope_count)
        add_derived(c, FB_SOURCE_DERIVED_SCOPE_ELEMENTS, FB_OP_SCOPE_ELEMENTS);
    if (compiled->other_count) {
        add_derived(c, FB_SOURCE_DERIVED_OTHER_ELEMENTS, FB_OP_OTHER_ELEMENTS);
        add_derived(c, FB_SOURCE_DERIVED_OTHER_VALUES, FB_OP_OTHER_VALUES);
    }
}

/* Return the first field with an element; FB_NO_FIELD: none. */
static uint16_t find_first(const fb_compiled_template *compiled, uint32_t pen, uint16_t id) {
    for (uint16_t field = 0; field < compiled->field_count; field++)
        if (compiled->fields[field].pen == pen && compiled->fields[field].id == id) return field;
    return FB_NO_FIELD;
}

/* Let a field look up a name. `own`: the id describes the direction of the flow. */
static void add_name(compiler *c, fb_source source, uint16_t field, bool own) {
    const fb_plan *plan = c->compiled_templates->plan;
    fb_target_range range = plan->sources[source];
    uint8_t code = (uint8_t)(FB_OP_NAME + fb_source_name_kind(source));
    for (size_t i = 0; i < range.count; i++) {
        fb_target target = plan->targets[range.first + i];
        uint16_t mirror = plan->columns[target.column].mirror;
        if (c->compiled->reversed && !own && mirror != FB_NO_MIRROR) target.column = mirror;
        add_candidate(c, target, field, code, own);
    }
}

/* Add the names of a source. The first element that the record has is the id. A user has several
   addresses. */
static void add_names_of(compiler *c, fb_source source, uint32_t pen) {
    const uint16_t *ids = fb_name_elements(source);
    for (size_t i = 0; i < FB_MOST_ID_FIELDS && ids[i]; i++) {
        uint16_t field = find_first(c->compiled, pen, ids[i]);
        if (field == FB_NO_FIELD) continue;
        add_name(c, source, field, pen == FB_PEN_REVERSE);
        if (source != FB_SOURCE_DERIVED_USER_NAME) return;
    }
}

static void add_names(compiler *c) {
    if (!c->compiled_templates->plan->names || c->compiled->version == 5) return;
    for (unsigned source = FB_SOURCE_FIRST_NAME; source <= FB_SOURCE_LAST_NAME; source++) {
        if (c->compiled->reversed && source == FB_SOURCE_DERIVED_USER_NAME) continue;
        if (c->compiled->reversed) add_names_of(c, (fb_source)source, FB_PEN_REVERSE);
        add_names_of(c, (fb_source)source, 0);
    }
}

/* If a reverse element feeds a column, drop the shared values of that column. */
static size_t drop_shared(compiler *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct fb_candidate candidate = c->compiled_templates->candidates[i];
        if (candidate.own || !c->compiled_templates->has_reverse[candidate.target.column])
            c->compiled_templates->candidates[kept++] = candidate;
    }
    return kept;
}

static int compare_candidates(const void *a, const void *b) {
    const struct fb_candidate *x = a, *y = b;
    if (x->after_packet != y->after_packet) return x->after_packet - y->after_packet;
    if (x->target.column != y->target.column) return x->target.column - y->target.column;
    if (x->target.rank != y->target.rank) return x->target.rank - y->target.rank;
    if (x->target.last != y->target.last) return x->target.last - y->target.last;
    if (x->field != y->field) return x->field - y->field;
    return x->code - y->code;
}

/* Mark all candidates of each column except the best. They are sorted by column and rank, first
   those before a packet and then those after it. */
static void mark_repeated_reads(fb_compiled_templates *compiled_templates, size_t count) {
    bool *taken = compiled_templates->has_reverse;
    memset(taken, 0, compiled_templates->plan->column_count);
    for (size_t i = 0; i < count; i++) {
        struct fb_candidate *candidate = &compiled_templates->candidates[i];
        candidate->again = taken[candidate->target.column];
        taken[candidate->target.column] = true;
    }
}

/* Add the element of a field. In a reversed compiled template, a reverse element is added as its
   forward element. Returns the same as add_elements. */
static bool add_forward_element(compiler *c, size_t i) {
    const fb_field *field = &c->compiled->fields[i];
    if (!fb_compiled_template_is_own(c->compiled, i))
        return add_elements(c, field->pen, field->id, i);
    if (field->pen == FB_PEN_REVERSE) return add_elements(c, 0, field->id, i);
    return add_elements(c, field->pen, field->id & ~(uint32_t)fb_field_reverse_bit(field), i);
}

/* Add a field by all its names. Scope fields of NetFlow v9 have their own ids (RFC 3954 section
   6.1). Returns the same as add_elements. */
static bool add_field(compiler *c, size_t i) {
    const fb_field *field = &c->compiled->fields[i];
    bool netflow9 = c->compiled->version == 9;
    if (netflow9 && i < c->compiled->scope_count)
        return add_elements(c, FB_PEN_SCOPE, field->id, i);
    bool taken = add_forward_element(c, i);
    if (netflow9) taken |= add_elements(c, FB_PEN_NETFLOW9, field->id, i);
    return taken;
}

/* Padding says nothing, and lists have elements of their own. */
static void note_unused(const compiler *c, fb_compiled_template *compiled, uint16_t field) {
    const fb_field *of = &compiled->fields[field];
    bool padding = !of->pen && of->id == FB_ID_PADDING;
    bool listed = compiled->list_count && fb_field_is_opened(c->compiled_templates->plan, of);
    if (padding || listed || fb_compiled_template_is_shared(compiled, field)) return;
    compiled->unused++;
    bool of_reverse = compiled->biflow && (of->pen == FB_PEN_REVERSE || fb_field_is_responder(of) ||
                                           fb_field_reverse_bit(of));
    if (compiled->other_room && !of_reverse) compiled->others[compiled->other_count++] = field;
}

static size_t collect_candidates(fb_compiled_templates *compiled_templates,
                                 fb_compiled_template *compiled) {
    compiler c = {.compiled_templates = compiled_templates, .compiled = compiled};
    memset(compiled_templates->has_reverse, 0, compiled_templates->plan->column_count);
    for (size_t i = 0; i < compiled->field_count; i++) {
        if (compiled->version == 5) {
            add_elements(&c, FB_PEN_NETFLOW5, compiled->fields[i].id, i);
            continue;
        }
        if (!add_field(&c, i)) note_unused(&c, compiled, (uint16_t)i);
    }
    add_occurrences(&c);
    add_all_derived(&c);
    add_names(&c);
    if (compiled->reversed) c.count = drop_shared(&c);
    qsort(compiled_templates->candidates, c.count, sizeof *compiled_templates->candidates,
          compare_candidates);
    mark_repeated_reads(compiled_templates, c.count);
    return c.count;
}

/* --- operations ----------------------------------------------------------------------------- */

static fb_op_code choose_code(const fb_column *column, uint8_t kind, uint16_t size) {
    if (!fb_column_has_fast_path(column)) return FB_OP_VALUE;
    if (kind == FB_KIND_TCP_BITS && size == 1) kind = FB_KIND_UINT; /* no bits to mask */
    if (kind == FB_KIND_TCP_BITS && size == 2 && column->type == FB_TYPE_UINT &&
        column->limit >= 0x0fff)
        return FB_OP_TCP_BITS;
    if (kind == FB_KIND_IP && column->type == FB_TYPE_IP) {
        if (size == 4) return FB_OP_IPV4;
        return size == 16 ? FB_OP_IPV6 : FB_OP_VALUE;
    }
    if (kind == FB_KIND_UINT && column->type == FB_TYPE_ENUM && size == 1) return FB_OP_ENUM;
    bool plain = column->type == FB_TYPE_UINT || column->type == FB_TYPE_TIMESTAMP;
    bool fits = size < 8 ? column->limit >= (1ull << 8 * size) - 1 : column->limit == UINT64_MAX;
    if (kind != FB_KIND_UINT || !plain || !size || size > 8) return FB_OP_VALUE;
    switch (fits ? size : 0) {
        case 1: return FB_OP_UINT8;
        case 2: return FB_OP_UINT16;
        case 4: return FB_OP_UINT32;
        case 8: return FB_OP_UINT64;
        default: return FB_OP_UINT;
    }
}

/* --- zeros ---------------------------------------------------------------------------------- */

/* Return true if a candidate gives its column a number in every record. */
static bool always_gives_a_number(const fb_compiled_templates *compiled_templates,
                                  const fb_compiled_template *compiled,
                                  const struct fb_candidate *candidate) {
    const fb_column *column = &compiled_templates->plan->columns[candidate->target.column];
    if (candidate->field == FB_NO_FIELD || fb_op_is_name(candidate->code)) return false;
    uint8_t kind = (uint8_t)fb_column_kind(column, candidate->target.kind);
    return choose_code(column, kind, compiled->fields[candidate->field].size) <= FB_OP_TCP_BITS;
}

static bool is_same_rank(const struct fb_candidate *a, const struct fb_candidate *b) {
    return a->target.column == b->target.column && a->target.rank == b->target.rank;
}

/* Copy the candidates of a rank to `out` and return the end of the copies. A zero must not end the
   search within its rank, only after it, so only the last candidate keeps target.zero. If the last
   one may have no value, the others are checked again after it. *settled becomes true if one of
   them has a value in every record. */
static struct fb_candidate *end_rank(const fb_compiled_templates *compiled_templates,
                                     const fb_compiled_template *compiled,
                                     const struct fb_candidate *rank, size_t count,
                                     struct fb_candidate *out, bool *settled) {
    bool last_is_certain = always_gives_a_number(compiled_templates, compiled, &rank[count - 1]);
    *settled = last_is_certain;
    for (size_t i = 0; i < count; i++, out++) {
        *out = rank[i];
        if (i < count - 1) out->target.zero = false;
    }
    for (size_t i = 0; !last_is_certain && i < count - 1; i++) {
        if (fb_op_is_name(rank[i].code)) continue;
        *out = rank[i];
        out++->code = FB_OP_AGAIN;
        *settled |= always_gives_a_number(compiled_templates, compiled, &rank[i]);
    }
    return out;
}

/* If a zero is a value of the column, drop the candidates after one that always has a value. A
   deferred column keeps all of them: its deferred value compares ranks, and a better rank may come
   later. */
static size_t end_ranks(fb_compiled_templates *compiled_templates,
                        const fb_compiled_template *compiled, size_t count) {
    struct fb_candidate *all = compiled_templates->candidates,
                        *begin = all + compiled_templates->candidate_capacity, *out = begin;
    bool *settled = compiled_templates->has_reverse;
    memset(settled, 0, compiled_templates->plan->column_count);
    for (size_t i = 0, end; i < count; i = end) {
        uint16_t column = all[i].target.column;
        unsigned flags = compiled_templates->plan->columns[column].flags;
        for (end = i + 1; end < count && is_same_rank(&all[end], &all[i]);) end++;
        if (settled[column] && !(flags & FB_COLUMN_DEFERRED)) continue;
        if (flags & FB_COLUMN_ZERO) {
            out = end_rank(compiled_templates, compiled, &all[i], end - i, out, &settled[column]);
        } else {
            memcpy(out, &all[i], (end - i) * sizeof *all);
            out += end - i;
        }
    }
    count = (size_t)(out - begin);
    memcpy(all, begin, count * sizeof *all);
    return count;
}

static void set_position(fb_op *op, const fb_compiled_template *compiled, uint16_t field) {
    op->size = compiled->fields[field].size;
    op->base = compiled->bases[field];
    op->offset = compiled->offsets[field];
}

static bool accepts_uint(const fb_column *column, uint64_t greatest) {
    return fb_column_has_fast_path(column) && column->type == FB_TYPE_UINT &&
           column->limit >= greatest;
}

/* Use the family of the first address, unless the address is zero. */
static void specialize_etype(const fb_compiled_template *compiled, fb_op *op) {
    uint16_t field = compiled->address_field[0];
    if (compiled->version == 5 || field == FB_NO_FIELD ||
        fb_compiled_template_has_role(compiled, FB_ROLE_ETHERNET_TYPE) ||
        !accepts_uint(op->column, 0xffff))
        return;
    bool ipv4 = compiled->fields[field].id < 27;
    if (compiled->fields[field].size != (ipv4 ? 4 : 16)) return;
    set_position(op, compiled, field);
    op->code = ipv4 ? FB_OP_ETYPE_IPV4 : FB_OP_ETYPE_IPV6;
}

static void specialize_rate(const fb_compiled_template *compiled, fb_op *op) {
    uint16_t sampler = compiled->role[FB_ROLE_SAMPLER_ID],
             selector = compiled->role[FB_ROLE_SELECTOR_ID];
    uint16_t field = sampler == FB_NO_FIELD ? selector : sampler;
    bool one = (sampler == FB_NO_FIELD) != (selector == FB_NO_FIELD);
    bool alone = one && !fb_compiled_template_has_role(compiled, FB_ROLE_SELECTION_SEQUENCE);
    if (compiled->rated || !alone || !accepts_uint(op->column, UINT64_MAX)) return;
    if (compiled->fields[field].size < 1 || compiled->fields[field].size > 8) return;
    set_position(op, compiled, field);
    op->code = FB_OP_RATE_OF_SAMPLER;
}

/* For most records, a derived value depends on one field. */
static void specialize_derived(const fb_compiled_template *compiled, fb_op *op) {
    if (op->code == FB_OP_DERIVED_ETYPE) specialize_etype(compiled, op);
    if (op->code == FB_OP_DERIVED_SAMPLING_RATE) specialize_rate(compiled, op);
}

/* Ids of applications and users are not plain numbers (names.h). */
static bool has_short_id(const fb_op *op) {
    unsigned kind = (unsigned)op->code - FB_OP_NAME;
    bool fits = op->size == 2 || op->size == 4;
    return fits && kind != FB_NAME_APPLICATION && kind != FB_NAME_APPLICATION_CATEGORY &&
           kind != FB_NAME_USER;
}

static fb_op make_op(const fb_compiled_templates *compiled_templates,
                     const fb_compiled_template *compiled, const struct fb_candidate *candidate) {
    const fb_column *column = &compiled_templates->plan->columns[candidate->target.column];
    fb_op op = {.column = column,
                .code = candidate->code,
                .field = candidate->field,
                .target = candidate->target,
                .again = candidate->again};
    if (candidate->field == FB_NO_FIELD) {
        specialize_derived(compiled, &op);
        return op;
    }
    set_position(&op, compiled, candidate->field);
    op.field = candidate->field;
    op.target.kind = fb_column_kind(column, candidate->target.kind) & 63;
    if (fb_op_is_name(op.code)) op.short_id = has_short_id(&op);
    if (op.code == FB_OP_VALUE) op.code = (uint8_t)choose_code(column, op.target.kind, op.size);
    return op;
}

/* Return true if nothing else in a record may fill the column of a candidate. Candidates are sorted
   by column. */
static bool is_only_source(const fb_compiled_templates *compiled_templates,
                           const fb_compiled_template *compiled, size_t count, size_t i) {
    const struct fb_candidate *all = compiled_templates->candidates, *candidate = &all[i];
    const fb_column *column = &compiled_templates->plan->columns[candidate->target.column];
    unsigned constants =
        FB_COLUMN_CONSTANT | (compiled->version == 5 ? FB_COLUMN_CONSTANT_NETFLOW5 : 0);
    if (!fb_column_has_fast_path(column) || column->flags & constants) return false;
    if (has_packet(compiled) && column->packet_rank != FB_NO_RANK) return false;
    bool before = i > 0 && all[i - 1].target.column == candidate->target.column;
    return !before && (i + 1 == count || all[i + 1].target.column != candidate->target.column);
}

/* Return true if a derived value is the same for all records of a set, and the column accepts every
   value. A value that a column cannot hold must be counted once per record. */
static bool is_constant_in_set(const fb_compiled_template *compiled, const fb_op *op) {
    if (op->code == FB_OP_RATE_OF_SAMPLER) return true;
    if (op->code == FB_OP_DERIVED_SAMPLING_RATE)
        return !compiled->rated && !compiled->named && accepts_uint(op->column, UINT64_MAX);
    return op->code == FB_OP_DERIVED_ETYPE && compiled->version == 5 &&
           accepts_uint(op->column, 0xffff);
}

/* Return true if an enum only adds a constant: the values 0, 1, … up to the greatest number of
   some bits become *first, *first + 1, …. */
static bool is_addition(const fb_column *column, uint64_t *first) {
    size_t size = column->mappings_size;
    for (size_t i = 0; i < size; i++)
        if (column->mappings[i].from != i || column->mappings[i].to != column->mappings[0].to + i)
            return false;
    *first = size ? column->mappings[0].to : 0;
    return size > 1 && !(size & (size - 1)) && size <= 256;
}

/* Return true if a move of an enum fits a lane. Moves of numbers always do. */
static bool fits_lane(const fb_op *op) {
    uint64_t first;
    return op->code == FB_OP_ENUM && is_addition(op->column, &first) &&
           fb_varint_simd_fit(op->column, first + op->column->mappings_size);
}

enum { GROUP_SET = FB_MOVE_CODES, GROUP_NAME, GROUP_OTHER, GROUP_LANE_ENUM };

static unsigned choose_group(const fb_compiled_templates *compiled_templates,
                             const fb_compiled_template *compiled, size_t count, size_t i,
                             const fb_op *op) {
    if (!is_only_source(compiled_templates, compiled, count, i)) return GROUP_OTHER;
    if (compiled_templates->wide && fits_lane(op)) return GROUP_LANE_ENUM;
    if (op->code < FB_MOVE_CODES) return op->code;
    if (fb_op_is_name(op->code) && op->column->type == FB_TYPE_STRING) return GROUP_NAME;
    return is_constant_in_set(compiled, op) ? GROUP_SET : GROUP_OTHER;
}

static void choose_groups(fb_compiled_templates *compiled_templates,
                          const fb_compiled_template *compiled, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fb_op op = make_op(compiled_templates, compiled, &compiled_templates->candidates[i]);
        compiled_templates->candidates[i].group =
            (uint8_t)choose_group(compiled_templates, compiled, count, i, &op);
    }
}

/* Append the operations of one group of [from, to). */
static void write_group(const fb_compiled_templates *compiled_templates,
                        fb_compiled_template *compiled, unsigned group, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        const struct fb_candidate *candidate = &compiled_templates->candidates[i];
        if (candidate->group == group)
            compiled->ops[compiled->op_count++] = make_op(compiled_templates, compiled, candidate);
    }
}

/* Append the moves, sorted by code. Enums in lanes come before the others. */
static void write_moves(const fb_compiled_templates *compiled_templates,
                        fb_compiled_template *compiled, size_t count) {
    for (unsigned code = 0; code < FB_MOVE_CODES; code++) {
        if (code == FB_OP_ENUM) {
            write_group(compiled_templates, compiled, GROUP_LANE_ENUM, 0, count);
            compiled->enums = compiled->op_count;
        }
        write_group(compiled_templates, compiled, code, 0, count);
    }
    compiled->move_end = compiled->op_count;
}

void fb_operations_write(fb_compiled_templates *compiled_templates,
                         fb_compiled_template *compiled) {
    size_t count =
        end_ranks(compiled_templates, compiled, collect_candidates(compiled_templates, compiled));
    size_t first_after = 0;
    while (first_after < count && !compiled_templates->candidates[first_after].after_packet)
        first_after++;
    choose_groups(compiled_templates, compiled, count);
    write_moves(compiled_templates, compiled, count);
    if (compiled_templates->wide) compiled->lane_group_count = fb_operations_group(compiled, NULL);
    write_group(compiled_templates, compiled, GROUP_SET, 0, count);
    compiled->set_end = compiled->op_count;
    write_group(compiled_templates, compiled, GROUP_NAME, 0, count);
    compiled->name_end = compiled->op_count;
    write_group(compiled_templates, compiled, GROUP_OTHER, 0, first_after);
    if (compiled_templates->plan->has_packet && has_packet(compiled))
        compiled->ops[compiled->op_count++] = (fb_op){.code = FB_OP_PACKET, .field = FB_NO_FIELD};
    write_group(compiled_templates, compiled, GROUP_OTHER, first_after, count);
}

/* --- lanes ---------------------------------------------------------------------------------- */

static int compare_places(const fb_op *x, const fb_op *y) {
    if (x->base != y->base) return x->base - y->base;
    return x->offset != y->offset ? x->offset - y->offset : x->target.column - y->target.column;
}

/* Find the moves in lanes, and sort them by their places in the record. Returns their number. A
   move has a column with a bit of its own, so there are at most 64. */
static size_t sort_lanes(const fb_compiled_template *compiled, uint16_t lanes[64]) {
    const fb_op *ops = compiled->ops;
    size_t count = 0;
    for (uint16_t i = 0; i < compiled->move_end; i++) {
        bool lane_enum = ops[i].code == FB_OP_ENUM && i < compiled->enums;
        if (ops[i].code >= FB_OP_IPV4 && !lane_enum) continue;
        size_t at = count++;
        for (; at && compare_places(&ops[i], &ops[lanes[at - 1]]) < 0; at--)
            lanes[at] = lanes[at - 1];
        lanes[at] = i;
    }
    return count;
}

/* Return the number of lanes that form a group with the first one. */
static size_t size_group(const fb_op *ops, const uint16_t *lanes, size_t count) {
    const fb_op *begin = &ops[lanes[0]];
    size_t size = 1;
    while (size < count && size < FB_SIMD_LANES && ops[lanes[size]].base == begin->base &&
           ops[lanes[size]].offset + ops[lanes[size]].size - begin->offset <= FB_SIMD_WINDOW)
        size++;
    return size;
}

static void write_lane(fb_lane_group *group, unsigned lane, const fb_op *op) {
    uint64_t mask = op->code == FB_OP_TCP_BITS ? 0x0fff : UINT64_MAX, add = 0;
    size_t offset = (size_t)(op->offset - group->offset);
    bool bound = op->code == FB_OP_ENUM && is_addition(op->column, &add);
    fb_varint_simd_set(&group->lanes, lane, op->column, offset, op->size, mask, add);
    if (bound) fb_varint_simd_bound(&group->lanes, lane, op->column->mappings_size);
}

static void write_lanes(fb_lane_group *group, const fb_op *ops, const uint16_t *lanes,
                        uint16_t count) {
    const fb_op *begin = &ops[lanes[0]];
    size_t window = 0;
    *group = (fb_lane_group){.base = begin->base, .offset = begin->offset, .count = count};
    for (unsigned lane = 0; lane < count; lane++) {
        const fb_op *op = &ops[lanes[lane]];
        size_t end = (size_t)(op->offset - begin->offset) + op->size;
        group->ops[lane] = lanes[lane];
        write_lane(group, lane, op);
        if (end > window) window = end;
    }
    fb_varint_simd_set_window(&group->lanes, window);
}

uint16_t fb_operations_group(const fb_compiled_template *compiled, fb_lane_group *groups) {
    uint16_t lanes[64], group = 0;
    for (size_t i = 0, size, count = sort_lanes(compiled, lanes); i < count; i += size, group++) {
        size = size_group(compiled->ops, lanes + i, count - i);
        if (groups) write_lanes(&groups[group], compiled->ops, lanes + i, (uint16_t)size);
    }
    return group;
}
