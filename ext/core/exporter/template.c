/* Shapes: the roles and offsets of the fields of a template, and one shape for all exporters that
   send it. Shapes are interned by their fields, so a template that 100,000 exporters send is
   compiled once. */
#include "core/exporter/operations.h"

#include <stdlib.h>

#define FIRST_BUCKETS 64

static const struct {
    uint32_t id;
    fb_role role;
} roles[] = {
#define FB_X(constant, id) {id, FB_ROLE_##constant},
    FB_ROLE_LIST(FB_X)
#undef FB_X
};

fb_status fb_shapes_new(fb_shapes *shapes, const fb_plan *plan, fb_memory *memory, uint64_t seed, bool wide) {
    /* each twice, and each again (FB_OP_AGAIN) */
    size_t capacity = 4 * plan->element_count + plan->target_count + 1;
    *shapes = (fb_shapes){.plan = plan, .memory = memory, .seed = seed, .wide = wide};
    shapes->candidate_capacity = capacity;
    shapes->bucket_count = FIRST_BUCKETS;
    shapes->location_levels = 1;
    shapes->buckets = fb_memory_allocate(memory, shapes->bucket_count * sizeof *shapes->buckets);
    shapes->candidates = fb_memory_allocate(memory, 2 * capacity * sizeof *shapes->candidates);
    shapes->seen = fb_memory_allocate(memory, capacity * sizeof *shapes->seen);
    shapes->met = fb_memory_allocate(memory, capacity * sizeof *shapes->met);
    shapes->spoken = fb_memory_allocate(memory, plan->column_count + 1);
    if (shapes->buckets && shapes->candidates && shapes->seen && shapes->met && shapes->spoken) return FB_OK;
    fb_shapes_free(shapes);
    return FB_NO_MEMORY;
}

static size_t octets_of_locations(size_t count, size_t levels) {
    return levels * count * sizeof(fb_location);
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
    fb_memory_release(memory, shapes->candidates, 2 * shapes->candidate_capacity * sizeof *shapes->candidates);
    fb_memory_release(memory, shapes->seen, shapes->candidate_capacity * sizeof *shapes->seen);
    fb_memory_release(memory, shapes->met, shapes->candidate_capacity * sizeof *shapes->met);
    fb_memory_release(memory, shapes->spoken, shapes->plan->column_count + 1);
    fb_memory_release(memory, shapes->draft, shapes->draft_octets);
    fb_memory_release(memory, shapes->locations, octets_of_locations(shapes->location_capacity, shapes->location_levels));
    *shapes = (fb_shapes){0};
}

/* --- biflows -------------------------------------------------------------------------------- */

/* Counters of bytes and packets in the IANA registry. 232 and 299 are 231 and 298 of the other
   direction. */
static const uint16_t counter_ids[] = {
    1,   2,   19,  20,  23,  24,  40,  85,  86,  132, 133, 134, 135, 164, 165, 167, 168, 171, 172,
    174, 175, 218, 219, 220, 221, 222, 223, 231, 298, 318, 319, 352, 353, 354, 355, 356, 357, 358,
    391, 392, 401, 402, 417, 418, 420, 421, 424, 425, 426, 427, 428, 429,
};

/* Return a field as it is in a reversed shape. Only reverse elements without the reverse PEN
   change. */
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

static void turn_fields(fb_shape *shape) {
    uint16_t *next = shape->counters;
    for (uint16_t i = 0; i < shape->field_count; i++) {
        shape->fields[i] = turn_field(shape->fields[i]);
        if (is_reverse_counter(shape->fields[i])) *next++ = i;
    }
}

/* --- roles ---------------------------------------------------------------------------------- */

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
    for (size_t i = 0; i < shape->field_count; i++) switch (shape->fields[i].id) {
            case FB_NETFLOW5_PROT: set_role(shape, FB_ROLE_PROTO, i); break;
            case FB_NETFLOW5_SRCPORT: set_role(shape, FB_ROLE_SRC_PORT, i); break;
            case FB_NETFLOW5_DSTPORT: set_role(shape, FB_ROLE_DST_PORT, i); break;
            default: break;
        }
}

static void find_roles_of_field(fb_shape *shape, size_t i) {
    const fb_field *field = &shape->fields[i];
    bool shared = fb_shape_is_shared(shape, i);
    if (field->pen == FB_PEN_JUNIPER && field->id == FB_ID_COMMON_PROPERTIES && !shared)
        set_role(shape, FB_ROLE_COMMON_PROPERTIES, i);
    if (field->pen && !(field->pen == FB_PEN_REVERSE && shape->reversed)) return;
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
    /* Scope fields of NetFlow v9 have their own id space (RFC 3954 section 6.1). */
    size_t first = shape->version == 9 ? shape->scope_count : 0;
    for (size_t i = first; shape->reversed && i < shape->field_count; i++)
        if (fb_shape_is_own(shape, i)) find_roles_of_field(shape, i);
    for (size_t i = first; i < shape->field_count; i++)
        if (!fb_shape_is_own(shape, i)) find_roles_of_field(shape, i);
}

static bool is_rated(const fb_shape *shape) {
    static const fb_role rates[] = {FB_ROLE_SAMPLING_INTERVAL, FB_ROLE_RANDOM_INTERVAL,     FB_ROLE_PACKET_INTERVAL,
                                    FB_ROLE_SAMPLING_SIZE,     FB_ROLE_SAMPLING_POPULATION, FB_ROLE_SAMPLING_PROBABILITY};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (fb_shape_has_role(shape, rates[i])) return true;
    return false;
}

/* --- shapes --------------------------------------------------------------------------------- */

static bool is_variable(const fb_shape *shape, size_t field) {
    return shape->fields[field].size == FB_VARIABLE_SIZE;
}

static uint16_t count_variable(const fb_shape *shape) {
    uint16_t count = 0;
    for (size_t i = 0; i < shape->field_count; i++) count = (uint16_t)(count + is_variable(shape, i));
    return count;
}

static uint16_t count_lists(const fb_shape *shape) {
    uint16_t count = 0;
    if (shape->version != 10 || shape->options) return 0;
    for (size_t i = 0; i < shape->field_count; i++) count = (uint16_t)(count + fb_field_is_sub_template(&shape->fields[i]));
    return count;
}

static void find_lists(fb_shape *shape) {
    uint16_t *next = shape->lists;
    for (uint16_t i = 0; shape->list_count && i < shape->field_count; i++)
        if (fb_field_is_sub_template(&shape->fields[i])) *next++ = i;
}

/* Compute the offsets of the fields. Return false if records have no bytes. */
static bool measure(fb_shape *shape) {
    uint32_t size = 0, offset = 0;
    uint16_t base = 0;
    for (uint16_t i = 0; i < shape->field_count; i++) {
        /* beyond it, no record fits a datagram */
        shape->offsets[i] = (uint16_t)(offset < UINT16_MAX ? offset : UINT16_MAX);
        shape->bases[i] = base;
        if (is_variable(shape, i)) {
            shape->variables[base++] = i;
            offset = 0;
            size++;
        } else {
            offset += shape->fields[i].size;
            size += shape->fields[i].size;
        }
    }
    shape->record_size = size;
    shape->tail = offset;
    return size > 0;
}

static bool reserve_locations(fb_shapes *shapes, size_t count, size_t levels) {
    if (count <= shapes->location_capacity && levels <= shapes->location_levels) return true;
    if (count < shapes->location_capacity) count = shapes->location_capacity;
    if (levels < shapes->location_levels) levels = shapes->location_levels;
    size_t old = octets_of_locations(shapes->location_capacity, shapes->location_levels);
    fb_location *locations = fb_memory_resize(shapes->memory, shapes->locations, old, octets_of_locations(count, levels));
    if (!locations) return false;
    shapes->locations = locations;
    shapes->location_capacity = count;
    shapes->location_levels = levels;
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
    if (!buckets) return; /* chains get longer */
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

/* Lanes are read by whole cache lines. */
static size_t octets_of_lanes(const fb_shape *shape) {
    return shape->lane_group_count ? shape->lane_group_count * sizeof(fb_lane_group) + FB_CACHE_LINE : 0;
}

static size_t octets_of(const fb_shape *shape, size_t ops) {
    return sizeof(fb_shape) + ops * sizeof(fb_op) + octets_of_lanes(shape) +
           shape->field_count * (sizeof(fb_field) + 2 * sizeof(uint16_t)) +
           (size_t)(shape->variable_count + shape->counter_count + shape->chain_count + shape->list_count) *
               sizeof(uint16_t);
}

/* Lay out a shape with room for `ops` operations. Members with pointers and wide numbers come
   first, for alignment. */
static void lay_out(fb_shape *shape, size_t ops) {
    shape->ops = (fb_op *)(shape + 1);
    uint8_t *lanes = (uint8_t *)(shape->ops + ops);
    shape->lane_groups = fb_align_to_line(lanes);
    shape->fields = (fb_field *)(lanes + octets_of_lanes(shape));
    shape->offsets = (uint16_t *)(shape->fields + shape->field_count);
    shape->bases = shape->offsets + shape->field_count;
    shape->variables = shape->bases + shape->field_count;
    shape->counters = shape->variables + shape->variable_count;
    shape->chain = shape->counters + shape->counter_count;
    shape->lists = shape->chain + shape->chain_count;
}

/* Copy a shape into a block of its exact size. */
static fb_shape *fit(fb_shapes *shapes, const fb_shape *shape) {
    size_t octets = octets_of(shape, shape->op_count);
    fb_shape *fitted = fb_memory_allocate(shapes->memory, octets);
    if (!fitted) return NULL;
    *fitted = *shape;
    fitted->octets = octets;
    lay_out(fitted, fitted->op_count);
    memcpy(fitted->ops, shape->ops, shape->op_count * sizeof *shape->ops);
    memcpy(fitted->fields, shape->fields, octets - (size_t)((uint8_t *)fitted->fields - (uint8_t *)fitted));
    fb_operations_place(fitted);
    return fitted;
}

/* Return memory for a shape under construction. It is reused, because allocating it costs more than
   the rest of a short template. NULL: no memory. */
static fb_shape *reserve_draft(fb_shapes *shapes, size_t octets) {
    if (octets > shapes->draft_octets) {
        fb_shape *draft = fb_memory_resize(shapes->memory, shapes->draft, shapes->draft_octets, octets);
        if (!draft) return NULL;
        shapes->draft = draft;
        shapes->draft_octets = octets;
    }
    return shapes->draft;
}

static fb_status compile_one(fb_shapes *shapes, const fb_shape *key, fb_shape **out) {
    /* Room for as many operations as the plan can need; `fit` copies only those in use. */
    size_t most_ops = shapes->candidate_capacity + 1;
    fb_shape *shape = reserve_draft(shapes, octets_of(key, most_ops));
    if (!shape) return FB_NO_MEMORY;
    *shape = *key;
    lay_out(shape, most_ops);
    memcpy(shape->fields, key->fields, key->field_count * sizeof *key->fields);
    memset(shape->chain, 0xff, shape->chain_count * sizeof *shape->chain);
    bool empty = !measure(shape);
    if (shape->reversed) turn_fields(shape);
    find_lists(shape);
    find_roles(shape);
    shape->rated = is_rated(shape);
    shape->named = fb_shape_has_role(shape, FB_ROLE_SAMPLER_ID) || fb_shape_has_role(shape, FB_ROLE_SELECTOR_ID);
    if (!shape->options && !empty) fb_operations_write(shapes, shape);
    *out = empty ? NULL : fit(shapes, shape);
    return empty ? FB_EMPTY_TEMPLATE : *out ? FB_OK : FB_NO_MEMORY;
}

static fb_status compile(fb_shapes *shapes, const fb_shape *key, fb_shape **out) {
    fb_status status = compile_one(shapes, key, out);
    size_t counters = key->options || key->version == 5 ? 0 : count_reverse_counters(key);
    if (status != FB_OK || !counters) return status;
    fb_shape turned = *key;
    turned.reversed = true;
    turned.list_count = 0; /* lists of records belong to the forward direction */
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
    key.variable_count = count_variable(&key);
    key.chain_count = shapes->plan->collects && !options ? field_count : 0;
    key.list_count = shapes->plan->has_elements ? count_lists(&key) : 0;
    size_t levels = key.list_count ? FB_LIST_DEPTH + 1 : 1;
    if (!reserve_locations(shapes, key.variable_count + 1u, levels)) return FB_NO_MEMORY;
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
    for (size_t i = 0; i < shape->variable_count; i++) {
        size_t offset = shape->offsets[shape->variables[i]], size;
        locations[i].base = p;
        if ((size_t)(end - p) <= offset) return NULL;
        p += offset;
        size = *p++;
        if (size == 255) {
            if (end - p < 2) return NULL;
            size = fb_load16(p);
            p += 2;
        }
        if ((size_t)(end - p) < size) return NULL;
        locations[i].field = (fb_bytes){p, size};
        p += size;
    }
    locations[shape->variable_count].base = p;
    return (size_t)(end - p) < shape->tail ? NULL : p + shape->tail;
}
