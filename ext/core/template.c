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
    size_t capacity = plan->element_count + plan->target_count + 1;
    *shapes = (fb_shapes){.plan = plan, .memory = memory, .seed = seed};
    shapes->candidate_capacity = capacity;
    shapes->bucket_count = FIRST_BUCKETS;
    shapes->buckets = fb_memory_allocate(memory, shapes->bucket_count * sizeof *shapes->buckets);
    shapes->candidates = fb_memory_allocate(memory, capacity * sizeof *shapes->candidates);
    shapes->seen = fb_memory_allocate(memory, capacity * sizeof *shapes->seen);
    if (shapes->buckets && shapes->candidates && shapes->seen) return FB_OK;
    fb_shapes_free(shapes);
    return FB_NO_MEMORY;
}

static void free_shape(fb_shapes *shapes, fb_shape *shape) {
    fb_memory_release(shapes->memory, shape, shape->octets);
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
    fb_memory_release(memory, shapes->locations, shapes->location_capacity * sizeof *shapes->locations);
    *shapes = (fb_shapes){0};
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

static void find_roles(fb_shape *shape) {
    memset(shape->role, 0xff, sizeof shape->role);
    memset(shape->address_field, 0xff, sizeof shape->address_field);
    if (shape->version == 5) {
        find_netflow5_roles(shape);
        return;
    }
    /* Scope fields of NetFlow v9 have an id space of their own (RFC 3954 section 6.1). */
    for (size_t i = shape->version == 9 ? shape->scope_count : 0; i < shape->field_count; i++) {
        const fb_field *field = &shape->fields[i];
        if (field->pen == FB_PEN_JUNIPER && field->id == FB_ID_COMMON_PROPERTIES)
            set_role(shape, FB_ROLE_COMMON_PROPERTIES, i);
        if (field->pen) continue;
        if (field->id == 8 || field->id == 12 || field->id == 27 || field->id == 28)
            add_address_field(shape, field->id, i);
        for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
            if (roles[k].id == field->id) set_role(shape, roles[k].role, i);
    }
}

static bool has_role(const fb_shape *shape, fb_role role) {
    return shape->role[role] != FB_NO_FIELD;
}

static bool has_packet(const fb_shape *shape) {
    return has_role(shape, FB_ROLE_DATA_LINK_FRAME) || has_role(shape, FB_ROLE_IP_PACKET);
}

/* --- candidates ----------------------------------------------------------------------------------------------------- */

static void add_candidate(fb_shapes *shapes, size_t *count, const fb_shape *shape, fb_target target, uint16_t field,
                          fb_op_code code) {
    const fb_column *column = &shapes->plan->columns[target.column];
    if (!(column->flags & FB_COLUMN_ENABLED)) return;
    bool after = has_packet(shape) && target.rank > column->packet_rank;
    shapes->candidates[(*count)++] = (struct fb_candidate){target, field, (uint8_t)code, after};
}

static void add_elements(fb_shapes *shapes, size_t *count, const fb_shape *shape, uint64_t pen, uint32_t id,
                         size_t field) {
    size_t found;
    const fb_plan_element *elements = fb_plan_find_elements(shapes->plan, pen, id, &found);
    if (!found) return;
    /* RFC 7011 section 8: of an element that occurs twice the first occurrence is the outer header's. */
    bool *seen = &shapes->seen[elements - shapes->plan->elements];
    if (*seen) return;
    *seen = true;
    for (size_t i = 0; i < found; i++)
        add_candidate(shapes, count, shape, elements[i].target, (uint16_t)field, FB_OP_VALUE);
}

static void add_derived(fb_shapes *shapes, size_t *count, const fb_shape *shape, fb_source source, fb_op_code code) {
    fb_target_range range = shapes->plan->sources[source];
    for (size_t i = 0; i < range.count; i++)
        add_candidate(shapes, count, shape, shapes->plan->targets[range.first + i], FB_NO_FIELD, code);
}

static void add_all_derived(fb_shapes *shapes, size_t *count, const fb_shape *shape) {
    if (shape->version != 5) add_derived(shapes, count, shape, FB_SOURCE_DERIVED_SAMPLING_RATE, FB_OP_DERIVED_SAMPLING_RATE);
    add_derived(shapes, count, shape, FB_SOURCE_DERIVED_ETYPE, FB_OP_DERIVED_ETYPE);
    if (has_role(shape, FB_ROLE_ICMP_IPV4) || has_role(shape, FB_ROLE_ICMP_IPV6) ||
        (has_role(shape, FB_ROLE_PROTO) && has_role(shape, FB_ROLE_DST_PORT))) {
        add_derived(shapes, count, shape, FB_SOURCE_DERIVED_ICMP_TYPE, FB_OP_DERIVED_ICMP_TYPE);
        add_derived(shapes, count, shape, FB_SOURCE_DERIVED_ICMP_CODE, FB_OP_DERIVED_ICMP_CODE);
    }
    if (has_role(shape, FB_ROLE_COMMON_PROPERTIES))
        add_derived(shapes, count, shape, FB_SOURCE_DERIVED_FORWARDING_STATUS, FB_OP_DERIVED_FORWARDING_STATUS);
    for (unsigned role = FB_ROLE_MPLS_1; role <= FB_ROLE_MPLS_10; role++)
        if (has_role(shape, role)) {
            add_derived(shapes, count, shape, FB_SOURCE_DERIVED_MPLS_LABELS, FB_OP_DERIVED_MPLS_LABELS);
            break;
        }
}

static int compare_candidates(const void *a, const void *b) {
    const struct fb_candidate *x = a, *y = b;
    if (x->after_packet != y->after_packet) return x->after_packet - y->after_packet;
    if (x->target.column != y->target.column) return x->target.column - y->target.column;
    if (x->target.rank != y->target.rank) return x->target.rank - y->target.rank;
    return x->field - y->field;
}

static size_t collect_candidates(fb_shapes *shapes, const fb_shape *shape) {
    size_t count = 0;
    memset(shapes->seen, 0, shapes->candidate_capacity * sizeof *shapes->seen);
    for (size_t i = 0; i < shape->field_count; i++) {
        const fb_field *field = &shape->fields[i];
        if (shape->version == 5) {
            add_elements(shapes, &count, shape, FB_PEN_NETFLOW5, (uint32_t)i, i);
            continue;
        }
        add_elements(shapes, &count, shape, field->pen, field->id, i);
        if (shape->version == 9) add_elements(shapes, &count, shape, FB_PEN_NETFLOW9, field->id, i);
    }
    add_all_derived(shapes, &count, shape);
    qsort(shapes->candidates, count, sizeof *shapes->candidates, compare_candidates);
    return count;
}

/* --- operations ----------------------------------------------------------------------------------------------------- */

static bool is_time(uint8_t kind) {
    return kind == FB_KIND_TIME || (kind >= FB_KIND_TIME_S && kind <= FB_KIND_SPAN_NS);
}

/* What the column makes of the field's octets: times and spans count as plain integers in an integer column. */
static uint8_t effective_kind(const fb_column *column, uint8_t kind) {
    bool octets = column->type == FB_TYPE_BYTES || column->type == FB_TYPE_STRING;
    if (column->type == FB_TYPE_TIMESTAMP && kind == FB_KIND_TIME_MS && column->unit == 1000000) return FB_KIND_UINT;
    if (column->type == FB_TYPE_TIMESTAMP && kind == FB_KIND_TIME_S && column->unit == 1000000000) return FB_KIND_UINT;
    if (is_time(kind) && column->type != FB_TYPE_TIMESTAMP && column->type != FB_TYPE_DURATION) return FB_KIND_UINT;
    if (kind == FB_KIND_BYTES && !octets) return FB_KIND_UINT;
    if (column->type == FB_TYPE_STRING) return FB_KIND_STRING;
    if (column->type == FB_TYPE_BYTES) return FB_KIND_BYTES;
    return kind;
}

static fb_op_code choose_code(const fb_column *column, uint8_t kind, uint16_t size) {
    if (!column->bit) return FB_OP_VALUE;
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
    op.target.kind = effective_kind(column, candidate->target.kind);
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

static size_t octets_of(size_t fields, size_t ops) {
    return sizeof(fb_shape) + fields * (sizeof(fb_field) + sizeof(uint16_t)) + ops * sizeof(fb_op);
}

static void lay_out(fb_shape *shape) {
    shape->fields = (fb_field *)(shape + 1);
    shape->ops = (fb_op *)(shape->fields + shape->field_count);
    shape->offsets = NULL; /* behind the operations, once their number is known */
}

static fb_status compile(fb_shapes *shapes, const fb_shape *key, fb_shape **out) {
    /* Room for as many operations as the plan can want, given back once they are counted. */
    size_t most = octets_of(key->field_count, shapes->candidate_capacity + 1);
    fb_shape *shape = fb_memory_allocate(shapes->memory, most);
    if (!shape) return FB_NO_MEMORY;
    *shape = *key;
    lay_out(shape);
    shape->offsets = (uint16_t *)(shape->ops + shapes->candidate_capacity + 1);
    memcpy(shape->fields, key->fields, key->field_count * sizeof *key->fields);
    if (!measure(shape)) {
        fb_memory_release(shapes->memory, shape, most);
        return FB_EMPTY_TEMPLATE;
    }
    find_roles(shape);
    if (!shape->options) write_ops(shapes, shape, collect_candidates(shapes, shape));

    uint16_t *offsets = (uint16_t *)(shape->ops + shape->op_count);
    memmove(offsets, shape->offsets, shape->field_count * sizeof *offsets);
    shape->octets = octets_of(shape->field_count, shape->op_count);
    fb_shape *fitted = fb_memory_resize(shapes->memory, shape, most, shape->octets);
    if (!fitted) { /* a realloc that cannot even shrink */
        fb_memory_release(shapes->memory, shape, most);
        return FB_NO_MEMORY;
    }
    lay_out(fitted);
    fitted->offsets = (uint16_t *)(fitted->ops + fitted->op_count);
    *out = fitted;
    return FB_OK;
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
