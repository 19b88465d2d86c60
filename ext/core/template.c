/* Compiles templates: looks every field up in the plan, sorts what is wanted by column and rank, and writes down one
   operation for each. Shapes are interned by the octets of their fields, so a template that 100,000 exporters send is
   compiled once. */
#include "template.h"

#include <stdlib.h>

#define FIRST_BUCKETS 64

/* A field, or a derived value, that may fill a column. */
struct fb_candidate {
    fb_target target;
    uint16_t field;
    uint8_t code; /* fb_op_code */
    bool after_packet;
    bool own; /* of a reversed shape: by a reverse element, or of what both directions share */
};

static const struct {
    uint32_t id;
    fb_role role;
} roles[] = {
#define FB_X(constant, id) {id, FB_ROLE_##constant},
    FB_ROLE_LIST(FB_X)
#undef FB_X
};

enum {
#define FB_X(constant, name, kind, offset, size) NETFLOW5_##constant,
    FB_NETFLOW5_FIELD_LIST(FB_X)
#undef FB_X
};

fb_status fb_shapes_new(fb_shapes *shapes, const fb_plan *plan, fb_memory *memory, uint64_t seed) {
    size_t capacity = 2 * plan->element_count + plan->target_count + 1;
    *shapes = (fb_shapes){.plan = plan, .memory = memory, .seed = seed};
    shapes->candidate_capacity = capacity;
    shapes->bucket_count = FIRST_BUCKETS;
    shapes->buckets = fb_memory_allocate(memory, shapes->bucket_count * sizeof *shapes->buckets);
    shapes->candidates = fb_memory_allocate(memory, capacity * sizeof *shapes->candidates);
    shapes->seen = fb_memory_allocate(memory, capacity * sizeof *shapes->seen);
    shapes->spoken = fb_memory_allocate(memory, plan->column_count + 1);
    if (shapes->buckets && shapes->candidates && shapes->seen && shapes->spoken) return FB_OK;
    fb_shapes_free(shapes);
    return FB_NO_MEMORY;
}

static void free_shape(fb_shapes *shapes, fb_shape *shape) {
    fb_shape *reverse = shape->reverse;
    fb_memory_release(shapes->memory, shape, shape->octets - (reverse ? reverse->octets : 0));
    if (reverse) fb_memory_release(shapes->memory, reverse, reverse->octets);
}

void fb_shapes_free(fb_shapes *shapes) {
    fb_memory *memory = shapes->memory;
    for (size_t i = 0; shapes->buckets && i < shapes->bucket_count; i++)
        for (fb_shape *shape = shapes->buckets[i], *next; shape; shape = next) {
            next = shape->next;
            free_shape(shapes, shape);
        }
    if (!memory) return;
    fb_memory_release(memory, shapes->buckets, shapes->bucket_count * sizeof *shapes->buckets);
    fb_memory_release(memory, shapes->candidates, shapes->candidate_capacity * sizeof *shapes->candidates);
    fb_memory_release(memory, shapes->seen, shapes->candidate_capacity * sizeof *shapes->seen);
    fb_memory_release(memory, shapes->spoken, shapes->plan->column_count + 1);
    fb_memory_release(memory, shapes->locations, shapes->location_capacity * sizeof *shapes->locations);
    *shapes = (fb_shapes){0};
}

/* --- biflows -------------------------------------------------------------------------------------------------------- */

/* Counters of octets and packets, as the registry has them; 232 and 299 are 231 and 298 of the other direction. */
static const uint16_t counter_ids[] = {
    1,   2,   19,  20,  23,  24,  40,  85,  86,  132, 133, 134, 135, 164, 165, 167, 168, 171, 172,
    174, 175, 218, 219, 220, 221, 222, 223, 231, 298, 318, 319, 352, 353, 354, 355, 356, 357, 358,
    391, 392, 401, 402, 417, 418, 420, 421, 424, 425, 426, 427, 428, 429,
};

/* A reverse element as it stands in a reversed shape; any other field as it is. */
static fb_field turn_field(fb_field field) {
    bool responder = !field.pen && (field.id == 232 || field.id == 299);
    if (responder) field = (fb_field){FB_PEN_REVERSE, (uint16_t)(field.id - 1), field.size};
    return field;
}

static bool is_reverse_counter(fb_field field) {
    for (size_t i = 0; field.pen == FB_PEN_REVERSE && i < sizeof counter_ids / sizeof *counter_ids; i++)
        if (counter_ids[i] == field.id) return true;
    return false;
}

static size_t count_reverse_counters(const fb_shape *key) {
    size_t count = 0;
    for (size_t i = 0; i < key->field_count; i++) count += is_reverse_counter(turn_field(key->fields[i]));
    return count;
}

/* Whether a field speaks of the direction that a reversed shape is about. */
static bool is_own(const fb_shape *shape, size_t field) {
    return shape->reversed && shape->fields[field].pen == FB_PEN_REVERSE;
}

static bool is_shared(const fb_shape *shape, size_t field) {
    return shape->reversed && shape->fields[field].pen != FB_PEN_REVERSE;
}

static void turn_fields(fb_shape *shape) {
    uint16_t *next = shape->counters;
    for (uint16_t i = 0; i < shape->field_count; i++) {
        shape->fields[i] = turn_field(shape->fields[i]);
        if (is_reverse_counter(shape->fields[i])) *next++ = i;
    }
}

/* --- roles ---------------------------------------------------------------------------------------------------------- */

static void set_role(fb_shape *shape, fb_role role, size_t field) {
    if (shape->role[role] == FB_NO_FIELD) shape->role[role] = (uint16_t)field;
}

static void add_address_field(fb_shape *shape, uint16_t id, size_t field) {
    for (size_t i = 0; i < FB_MAX_ADDRESS_FIELDS; i++) {
        uint16_t *slot = &shape->address_field[i];
        if (*slot != FB_NO_FIELD && shape->fields[*slot].id == id) return;
        if (*slot != FB_NO_FIELD) continue;
        *slot = (uint16_t)field;
        return;
    }
}

static void find_netflow5_roles(fb_shape *shape) {
    shape->role[FB_ROLE_PROTO] = NETFLOW5_PROT;
    shape->role[FB_ROLE_SRC_PORT] = NETFLOW5_SRCPORT;
    shape->role[FB_ROLE_DST_PORT] = NETFLOW5_DSTPORT;
}

static void find_roles_of_field(fb_shape *shape, size_t i) {
    const fb_field *field = &shape->fields[i];
    bool shared = is_shared(shape, i);
    if (field->pen == FB_PEN_JUNIPER && field->id == FB_ID_COMMON_PROPERTIES && !shared)
        set_role(shape, FB_ROLE_COMMON_PROPERTIES, i);
    if (field->pen && !is_own(shape, i)) return;
    if (field->id == 8 || field->id == 12 || field->id == 27 || field->id == 28) add_address_field(shape, field->id, i);
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (roles[k].id == field->id && !(shared && roles[k].role >= FB_FIRST_ONE_WAY_ROLE))
            set_role(shape, roles[k].role, i);
}

static void find_roles(fb_shape *shape) {
    memset(shape->role, 0xff, sizeof shape->role);
    memset(shape->address_field, 0xff, sizeof shape->address_field);
    if (shape->version == 5) {
        find_netflow5_roles(shape);
        return;
    }
    /* Scope fields of NetFlow v9 have an id space of their own (RFC 3954 section 6.1). */
    size_t first = shape->version == 9 ? shape->scope_count : 0;
    for (size_t i = first; shape->reversed && i < shape->field_count; i++)
        if (is_own(shape, i)) find_roles_of_field(shape, i);
    for (size_t i = first; i < shape->field_count; i++)
        if (!is_own(shape, i)) find_roles_of_field(shape, i);
}

static bool has_role(const fb_shape *shape, fb_role role) {
    return shape->role[role] != FB_NO_FIELD;
}

static bool has_packet(const fb_shape *shape) {
    return has_role(shape, FB_ROLE_DATA_LINK_FRAME) || has_role(shape, FB_ROLE_IP_PACKET);
}

/* --- candidates ----------------------------------------------------------------------------------------------------- */

/* What a template is being compiled into. */
typedef struct {
    fb_shapes *shapes;
    const fb_shape *shape;
    size_t count; /* of candidates */
} compiler;

static void add_candidate(compiler *c, fb_target target, uint16_t field, fb_op_code code, bool own) {
    const fb_column *column = &c->shapes->plan->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return;
    if (c->shape->reversed && !own && column->flags & FB_COLUMN_ONE_WAY) return;
    c->shapes->spoken[target.column] |= own;
    bool after = has_packet(c->shape) && target.rank > column->packet_rank;
    c->shapes->candidates[c->count++] = (struct fb_candidate){target, field, (uint8_t)code, after, own};
}

static void add_elements(compiler *c, uint64_t pen, uint32_t id, size_t field) {
    size_t found;
    const fb_plan *plan = c->shapes->plan;
    const fb_plan_element *elements = fb_plan_find_elements(plan, pen, id, &found);
    if (!found) return;
    /* RFC 7011 section 8: of an element that occurs twice the first occurrence is the outer header's. */
    bool own = is_own(c->shape, field), mirrored = is_shared(c->shape, field);
    bool *seen = &c->shapes->seen[(size_t)(elements - plan->elements) + (own ? plan->element_count : 0)];
    if (*seen) return;
    *seen = true;
    for (size_t i = 0; i < found; i++) {
        fb_target target = elements[i].target;
        uint16_t mirror = plan->columns[target.column].mirror;
        if (mirrored && mirror != FB_NO_MIRROR) target.column = mirror;
        add_candidate(c, target, (uint16_t)field, FB_OP_VALUE, own);
    }
}

static void add_derived(compiler *c, fb_source source, fb_op_code code) {
    fb_target_range range = c->shapes->plan->sources[source];
    bool own = c->shape->reversed && code != FB_OP_DERIVED_SAMPLING_RATE && code != FB_OP_DERIVED_ETYPE;
    for (size_t i = 0; i < range.count; i++)
        add_candidate(c, c->shapes->plan->targets[range.first + i], FB_NO_FIELD, code, own);
}

static bool has_mpls(const fb_shape *shape) {
    for (unsigned role = FB_ROLE_MPLS_1; role <= FB_ROLE_MPLS_10; role++)
        if (has_role(shape, role)) return true;
    return false;
}

static void add_all_derived(compiler *c) {
    const fb_shape *shape = c->shape;
    if (shape->version != 5) add_derived(c, FB_SOURCE_DERIVED_SAMPLING_RATE, FB_OP_DERIVED_SAMPLING_RATE);
    add_derived(c, FB_SOURCE_DERIVED_ETYPE, FB_OP_DERIVED_ETYPE);
    if (has_role(shape, FB_ROLE_ICMP_IPV4) || has_role(shape, FB_ROLE_ICMP_IPV6) ||
        (has_role(shape, FB_ROLE_PROTO) && has_role(shape, FB_ROLE_DST_PORT))) {
        add_derived(c, FB_SOURCE_DERIVED_ICMP_TYPE, FB_OP_DERIVED_ICMP_TYPE);
        add_derived(c, FB_SOURCE_DERIVED_ICMP_CODE, FB_OP_DERIVED_ICMP_CODE);
    }
    if (has_role(shape, FB_ROLE_COMMON_PROPERTIES))
        add_derived(c, FB_SOURCE_DERIVED_FORWARDING_STATUS, FB_OP_DERIVED_FORWARDING_STATUS);
    if (has_role(shape, FB_ROLE_FRAGMENT_FLAGS)) add_derived(c, FB_SOURCE_DERIVED_IP_FLAGS, FB_OP_DERIVED_IP_FLAGS);
    if (has_mpls(shape)) add_derived(c, FB_SOURCE_DERIVED_MPLS_LABELS, FB_OP_DERIVED_MPLS_LABELS);
}

/* Of a column that a reverse element speaks of, what both directions share says nothing. */
static size_t drop_shared(compiler *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct fb_candidate candidate = c->shapes->candidates[i];
        if (candidate.own || !c->shapes->spoken[candidate.target.column]) c->shapes->candidates[kept++] = candidate;
    }
    return kept;
}

static int compare_candidates(const void *a, const void *b) {
    const struct fb_candidate *x = a, *y = b;
    if (x->after_packet != y->after_packet) return x->after_packet - y->after_packet;
    if (x->target.column != y->target.column) return x->target.column - y->target.column;
    if (x->target.rank != y->target.rank) return x->target.rank - y->target.rank;
    return x->field - y->field;
}

static size_t collect_candidates(fb_shapes *shapes, const fb_shape *shape) {
    compiler c = {.shapes = shapes, .shape = shape};
    memset(shapes->seen, 0, shapes->candidate_capacity * sizeof *shapes->seen);
    memset(shapes->spoken, 0, shapes->plan->column_count);
    for (size_t i = 0; i < shape->field_count; i++) {
        const fb_field *field = &shape->fields[i];
        if (shape->version == 5) {
            add_elements(&c, FB_PEN_NETFLOW5, (uint32_t)i, i);
            continue;
        }
        add_elements(&c, is_own(shape, i) ? 0 : field->pen, field->id, i);
        if (shape->version == 9) add_elements(&c, FB_PEN_NETFLOW9, field->id, i);
    }
    add_all_derived(&c);
    if (shape->reversed) c.count = drop_shared(&c);
    qsort(shapes->candidates, c.count, sizeof *shapes->candidates, compare_candidates);
    return c.count;
}

/* --- operations ----------------------------------------------------------------------------------------------------- */

static fb_op_code choose_code(const fb_column *column, uint8_t kind, uint16_t size) {
    if (!column->bit) return FB_OP_VALUE;
    if (kind == FB_KIND_TCP_BITS && size == 1) kind = FB_KIND_UINT; /* nothing to leave out */
    if (kind == FB_KIND_IP && column->type == FB_TYPE_IP)
        return size == 4 ? FB_OP_IPV4 : size == 16 ? FB_OP_IPV6 : FB_OP_VALUE;
    bool plain = column->type == FB_TYPE_UINT || column->type == FB_TYPE_TIMESTAMP;
    bool fits = size < 8 ? column->limit >= (1ull << 8 * size) - 1 : column->limit == UINT64_MAX;
    if (kind != FB_KIND_UINT || !plain || !fits) return FB_OP_VALUE;
    switch (size) {
        case 1: return FB_OP_UINT8;
        case 2: return FB_OP_UINT16;
        case 4: return FB_OP_UINT32;
        case 8: return FB_OP_UINT64;
        default: return FB_OP_VALUE;
    }
}

static fb_op make_op(const fb_shapes *shapes, const fb_shape *shape, const struct fb_candidate *candidate) {
    fb_op op = {.code = candidate->code, .field = candidate->field, .target = candidate->target};
    if (candidate->field == FB_NO_FIELD) return op;
    const fb_column *column = &shapes->plan->columns[candidate->target.column];
    op.target.kind = (uint8_t)fb_column_kind(column, candidate->target.kind);
    op.size = shape->fields[candidate->field].size;
    op.offset = shape->variable ? 0 : shape->offsets[candidate->field];
    op.code = (uint8_t)choose_code(column, op.target.kind, op.size);
    return op;
}

static void write_ops(const fb_shapes *shapes, fb_shape *shape, size_t candidates) {
    size_t next = 0, first_after = 0;
    bool packet = shapes->plan->has_packet && has_packet(shape);
    while (first_after < candidates && !shapes->candidates[first_after].after_packet) first_after++;
    for (size_t i = 0; i < first_after; i++) shape->ops[next++] = make_op(shapes, shape, &shapes->candidates[i]);
    if (packet) shape->ops[next++] = (fb_op){.code = FB_OP_PACKET, .field = FB_NO_FIELD};
    for (size_t i = first_after; i < candidates; i++)
        shape->ops[next++] = make_op(shapes, shape, &shapes->candidates[i]);
    shape->op_count = (uint16_t)next;
}

/* --- shapes --------------------------------------------------------------------------------------------------------- */

static bool measure(fb_shape *shape) {
    uint32_t size = 0;
    for (size_t i = 0; i < shape->field_count; i++) {
        bool variable = shape->version == 10 && shape->fields[i].size == FB_VARIABLE_SIZE;
        shape->offsets[i] = (uint16_t)(size < UINT16_MAX ? size : UINT16_MAX); /* past it no record fits a datagram */
        shape->variable |= variable;
        size += variable ? 1 : shape->fields[i].size;
    }
    shape->record_size = size;
    return size > 0;
}

static bool reserve_locations(fb_shapes *shapes, size_t count) {
    if (count <= shapes->location_capacity) return true;
    fb_location *locations = fb_memory_resize(shapes->memory, shapes->locations,
                                              shapes->location_capacity * sizeof *locations, count * sizeof *locations);
    if (!locations) return false;
    shapes->locations = locations;
    shapes->location_capacity = count;
    return true;
}

static uint64_t hash_fields(const fb_shape *key, uint64_t seed) {
    uint64_t hash = fb_hash(seed, (uint64_t)key->version << 32 | (uint64_t)key->scope_count << 1 | key->options);
    for (size_t i = 0; i < key->field_count; i++) {
        const fb_field *field = &key->fields[i];
        hash = fb_hash(hash, (uint64_t)field->pen << 32 | (uint32_t)field->id << 16 | field->size);
    }
    return fb_hash(hash, seed);
}

static bool is_same(const fb_shape *shape, const fb_shape *key) {
    return shape->hash == key->hash && shape->version == key->version && shape->options == key->options &&
           shape->scope_count == key->scope_count && shape->field_count == key->field_count &&
           memcmp(shape->fields, key->fields, key->field_count * sizeof *key->fields) == 0;
}

static void grow_buckets(fb_shapes *shapes) {
    size_t count = shapes->bucket_count * 2;
    fb_shape **buckets = fb_memory_allocate(shapes->memory, count * sizeof *buckets);
    if (!buckets) return; /* longer chains, nothing worse */
    for (size_t i = 0; i < shapes->bucket_count; i++)
        for (fb_shape *shape = shapes->buckets[i], *next; shape; shape = next) {
            next = shape->next;
            shape->next = buckets[shape->hash & (count - 1)];
            buckets[shape->hash & (count - 1)] = shape;
        }
    fb_memory_release(shapes->memory, shapes->buckets, shapes->bucket_count * sizeof *buckets);
    shapes->buckets = buckets;
    shapes->bucket_count = count;
}

static size_t octets_of(const fb_shape *shape, size_t ops) {
    return sizeof(fb_shape) + shape->field_count * (sizeof(fb_field) + sizeof(uint16_t)) +
           shape->counter_count * sizeof(uint16_t) + ops * sizeof(fb_op);
}

/* With room for so many operations. */
static void lay_out(fb_shape *shape, size_t ops) {
    shape->fields = (fb_field *)(shape + 1);
    shape->ops = (fb_op *)(shape->fields + shape->field_count);
    shape->offsets = (uint16_t *)(shape->ops + ops);
    shape->counters = shape->offsets + shape->field_count;
}

static fb_status compile_one(fb_shapes *shapes, const fb_shape *key, fb_shape **out) {
    /* Room for as many operations as the plan can want, given back once they are counted. */
    size_t most_ops = shapes->candidate_capacity + 1, most = octets_of(key, most_ops);
    fb_shape *shape = fb_memory_allocate(shapes->memory, most);
    if (!shape) return FB_NO_MEMORY;
    *shape = *key;
    lay_out(shape, most_ops);
    memcpy(shape->fields, key->fields, key->field_count * sizeof *key->fields);
    if (!measure(shape)) {
        fb_memory_release(shapes->memory, shape, most);
        return FB_EMPTY_TEMPLATE;
    }
    if (shape->reversed) turn_fields(shape);
    find_roles(shape);
    if (!shape->options) write_ops(shapes, shape, collect_candidates(shapes, shape));

    memmove(shape->ops + shape->op_count, shape->offsets,
            (size_t)(shape->field_count + shape->counter_count) * sizeof *shape->offsets);
    shape->octets = octets_of(shape, shape->op_count);
    fb_shape *fitted = fb_memory_resize(shapes->memory, shape, most, shape->octets);
    if (!fitted) { /* a realloc that cannot even shrink */
        fb_memory_release(shapes->memory, shape, most);
        return FB_NO_MEMORY;
    }
    lay_out(fitted, fitted->op_count);
    *out = fitted;
    return FB_OK;
}

static fb_status compile(fb_shapes *shapes, const fb_shape *key, fb_shape **out) {
    fb_status status = compile_one(shapes, key, out);
    size_t counters = key->options || key->version == 5 ? 0 : count_reverse_counters(key);
    if (status != FB_OK || !counters) return status;
    fb_shape turned = *key;
    turned.reversed = true;
    turned.counter_count = (uint16_t)counters;
    status = compile_one(shapes, &turned, &(*out)->reverse);
    if (status == FB_OK)
        (*out)->octets += (*out)->reverse->octets;
    else
        free_shape(shapes, *out);
    return status;
}

fb_status fb_shapes_acquire(fb_shapes *shapes, uint16_t version, const fb_field *fields, uint16_t field_count,
                            uint16_t scope_count, bool options, fb_shape **out) {
    fb_shape key = {.version = version, .field_count = field_count, .scope_count = scope_count, .options = options};
    key.fields = (fb_field *)fields;
    key.hash = hash_fields(&key, shapes->seed);
    for (fb_shape *shape = shapes->buckets[key.hash & (shapes->bucket_count - 1)]; shape; shape = shape->next)
        if (is_same(shape, &key)) {
            shape->references++;
            *out = shape;
            return FB_OK;
        }

    fb_shape *shape;
    if (!reserve_locations(shapes, field_count)) return FB_NO_MEMORY;
    fb_status status = compile(shapes, &key, &shape);
    if (status != FB_OK) return status;
    if (shapes->count >= shapes->bucket_count) grow_buckets(shapes);
    fb_shape **bucket = &shapes->buckets[shape->hash & (shapes->bucket_count - 1)];
    shape->next = *bucket;
    shape->references = 1;
    *bucket = shape;
    shapes->count++;
    *out = shape;
    return FB_OK;
}

void fb_shapes_release(fb_shapes *shapes, fb_shape *shape) {
    if (--shape->references) return;
    fb_shape **link = &shapes->buckets[shape->hash & (shapes->bucket_count - 1)];
    while (*link != shape) link = &(*link)->next;
    *link = shape->next;
    shapes->count--;
    free_shape(shapes, shape);
}

const uint8_t *fb_shape_locate(const fb_shape *shape, const uint8_t *p, const uint8_t *end, fb_location *locations) {
    const uint8_t *record = p;
    for (size_t i = 0; i < shape->field_count; i++) {
        size_t size = shape->fields[i].size;
        if (size == FB_VARIABLE_SIZE) {
            if (end - p < 1) return NULL;
            size = *p++;
            if (size == 255) {
                if (end - p < 2) return NULL;
                size = fb_load16(p);
                p += 2;
            }
        }
        if ((size_t)(end - p) < size) return NULL;
        locations[i] = (fb_location){(uint32_t)(p - record), (uint32_t)size};
        p += size;
    }
    return p;
}
