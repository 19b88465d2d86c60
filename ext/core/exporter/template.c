/* Compiled templates: the roles and offsets of the fields of a template, and one compiled template
   for all exporters that send it. Compiled templates are interned by their fields, so a template
   that 100,000 exporters send is compiled once. */
#include "core/exporter/operations.h"

#include <stdlib.h>

#define FIRST_BUCKETS 64

/* The role of an element, plus 1; 0: none. */
static const uint8_t roles[] = {
#define FB_X(constant, id) [id] = FB_ROLE_##constant + 1,
    FB_ROLE_LIST(FB_X)
#undef FB_X
};

static size_t bytes_of_scratch(const fb_compiled_templates *compiled_templates) {
    const fb_compiled_templates *c = compiled_templates;
    return c->candidate_capacity * (sizeof *c->met + 2 * sizeof *c->candidates + sizeof *c->seen) +
           c->column_capacity;
}

static void free_scratch(const fb_compiled_templates *compiled_templates) {
    fb_memory_release(compiled_templates->memory, compiled_templates->met,
                      bytes_of_scratch(compiled_templates));
}

/* Make room for the candidates of a plan. The scratch is one block, which begins with `met`. */
static bool reserve_scratch(fb_compiled_templates *compiled_templates, const fb_plan *plan) {
    fb_compiled_templates more = *compiled_templates;
    /* each element twice, and each again (FB_OP_AGAIN); each name from several fields */
    size_t capacity = 4 * plan->element_count + plan->target_count + 1;
    for (unsigned source = FB_SOURCE_FIRST_NAME; source <= FB_SOURCE_LAST_NAME; source++)
        capacity += (size_t)(FB_MOST_ID_FIELDS - 1) * plan->sources[source].count;
    if (capacity > more.candidate_capacity) more.candidate_capacity = capacity;
    if (plan->column_count + 1 > more.column_capacity)
        more.column_capacity = plan->column_count + 1;
    more.met = fb_memory_allocate(more.memory, bytes_of_scratch(&more));
    if (!more.met) return false;
    free_scratch(compiled_templates);
    more.candidates = (struct fb_candidate *)(more.met + more.candidate_capacity);
    more.seen = (struct fb_occurrences *)(more.candidates + 2 * more.candidate_capacity);
    more.has_reverse = (bool *)(more.seen + more.candidate_capacity);
    *compiled_templates = more;
    return true;
}

fb_status fb_compiled_templates_set_plan(fb_compiled_templates *compiled_templates,
                                         const fb_plan *plan) {
    if (!reserve_scratch(compiled_templates, plan)) return FB_NO_MEMORY;
    if (plan->rows == FB_ROWS_FLOWS) compiled_templates->flows = plan;
    if (plan->rows == FB_ROWS_OPTIONS) compiled_templates->options = plan;
    return FB_OK;
}

fb_status fb_compiled_templates_new(fb_compiled_templates *compiled_templates, const fb_plan *plan,
                                    fb_memory *memory, uint64_t seed, bool wide) {
    *compiled_templates = (fb_compiled_templates){.memory = memory, .seed = seed, .wide = wide};
    compiled_templates->bucket_count = FIRST_BUCKETS;
    compiled_templates->location_levels = 1;
    compiled_templates->buckets = fb_memory_allocate(
        memory, compiled_templates->bucket_count * sizeof *compiled_templates->buckets);
    if (compiled_templates->buckets &&
        fb_compiled_templates_set_plan(compiled_templates, plan) == FB_OK)
        return FB_OK;
    fb_compiled_templates_free(compiled_templates);
    return FB_NO_MEMORY;
}

static size_t bytes_of_locations(size_t count, size_t levels) {
    return levels * count * sizeof(fb_location);
}

static void free_compiled(fb_compiled_templates *compiled_templates,
                          fb_compiled_template *compiled) {
    fb_compiled_template *reverse = compiled->reverse;
    fb_memory_release(compiled_templates->memory, compiled,
                      compiled->bytes - (reverse ? reverse->bytes : 0));
    if (reverse) fb_memory_release(compiled_templates->memory, reverse, reverse->bytes);
}

void fb_compiled_templates_free(fb_compiled_templates *compiled_templates) {
    fb_memory *memory = compiled_templates->memory;
    for (size_t i = 0; compiled_templates->buckets && i < compiled_templates->bucket_count; i++)
        for (fb_compiled_template *compiled = compiled_templates->buckets[i], *next; compiled;
             compiled = next) {
            next = compiled->next;
            free_compiled(compiled_templates, compiled);
        }
    if (!memory) return;
    fb_memory_release(memory, compiled_templates->buckets,
                      compiled_templates->bucket_count * sizeof *compiled_templates->buckets);
    free_scratch(compiled_templates);
    fb_memory_release(memory, compiled_templates->draft, compiled_templates->draft_bytes);
    fb_memory_release(memory, compiled_templates->locations,
                      bytes_of_locations(compiled_templates->location_capacity,
                                         compiled_templates->location_levels));
    *compiled_templates = (fb_compiled_templates){0};
}

/* --- biflows -------------------------------------------------------------------------------- */

/* Counters of bytes and packets in the IANA registry. 232 and 299 are 231 and 298 of the other
   direction. */
static const uint16_t counter_ids[] = {
    1,   2,   19,  20,  23,  24,  40,  85,  86,  132, 133, 134, 135, 164, 165, 167, 168, 171,
    172, 174, 175, 218, 219, 220, 221, 222, 223, 231, 298, 318, 319, 352, 353, 354, 355, 356,
    357, 358, 391, 392, 401, 402, 417, 418, 420, 421, 424, 425, 426, 427, 428, 429,
};

/* Return a field as it is in a reversed compiled template. Only reverse elements without the
   reverse PEN change. */
static fb_field normalize_reverse_field(fb_field field) {
    if (fb_field_is_responder(&field))
        field = (fb_field){FB_PEN_REVERSE, (uint16_t)(field.id - 1), field.size};
    return field;
}

static bool is_reverse_counter(fb_field field) {
    for (size_t i = 0; field.pen == FB_PEN_REVERSE && i < sizeof counter_ids / sizeof *counter_ids;
         i++)
        if (counter_ids[i] == field.id) return true;
    return false;
}

static size_t count_reverse_counters(const fb_compiled_template *key) {
    size_t count = 0;
    for (size_t i = 0; i < key->field_count; i++)
        count += is_reverse_counter(normalize_reverse_field(key->fields[i]));
    return count;
}

static void normalize_reverse_fields(fb_compiled_template *compiled) {
    uint16_t *next = compiled->counters;
    for (uint16_t i = 0; i < compiled->field_count; i++) {
        compiled->fields[i] = normalize_reverse_field(compiled->fields[i]);
        if (is_reverse_counter(compiled->fields[i])) *next++ = i;
    }
}

/* --- roles ---------------------------------------------------------------------------------- */

static void set_role(fb_compiled_template *compiled, fb_role role, size_t field) {
    if (compiled->role[role] == FB_NO_FIELD) compiled->role[role] = (uint16_t)field;
}

static void add_address_field(fb_compiled_template *compiled, uint16_t id, size_t field) {
    for (size_t i = 0; i < FB_MAX_ADDRESS_FIELDS; i++) {
        uint16_t *field_of_address = &compiled->address_field[i];
        if (*field_of_address != FB_NO_FIELD && compiled->fields[*field_of_address].id == id)
            return;
        if (*field_of_address != FB_NO_FIELD) continue;
        *field_of_address = (uint16_t)field;
        return;
    }
}

static void find_netflow5_roles(fb_compiled_template *compiled) {
    for (size_t i = 0; i < compiled->field_count; i++) switch (compiled->fields[i].id) {
            case FB_NETFLOW5_INPUT: set_role(compiled, FB_ROLE_INGRESS_INTERFACE, i); break;
            case FB_NETFLOW5_PROT: set_role(compiled, FB_ROLE_PROTO, i); break;
            case FB_NETFLOW5_SRCPORT: set_role(compiled, FB_ROLE_SRC_PORT, i); break;
            case FB_NETFLOW5_DSTPORT: set_role(compiled, FB_ROLE_DST_PORT, i); break;
            default: break;
        }
}

static void find_roles_of_field(fb_compiled_template *compiled, size_t i) {
    const fb_field *field = &compiled->fields[i];
    bool shared = fb_compiled_template_is_shared(compiled, i);
    if (field->pen == FB_PEN_JUNIPER && field->id == FB_ID_COMMON_PROPERTIES && !shared)
        set_role(compiled, FB_ROLE_COMMON_PROPERTIES, i);
    if (field->pen && !(field->pen == FB_PEN_REVERSE && compiled->reversed)) return;
    if (field->id == 8 || field->id == 12 || field->id == 27 || field->id == 28)
        add_address_field(compiled, field->id, i);
    unsigned role = field->id < sizeof roles ? roles[field->id] : 0;
    if (role && !(shared && role - 1 >= FB_FIRST_ONE_DIRECTION_ROLE))
        set_role(compiled, (fb_role)(role - 1), i);
}

/* Return true if a field is an element of the direction that a compiled template describes. */
static bool is_element_of_direction(const fb_compiled_template *compiled, size_t field,
                                    uint16_t id) {
    const fb_field *of = &compiled->fields[field];
    return of->id == id && of->pen == (compiled->reversed ? FB_PEN_REVERSE : 0);
}

static bool is_packet_section(const fb_compiled_template *compiled, size_t field) {
    uint16_t id = compiled->fields[field].id;
    return id >= FB_ID_FIRST_SECTION && id <= FB_ID_LAST_SECTION &&
           is_element_of_direction(compiled, field, id);
}

/* Return the field with the offset of a packet section. The first sectionOffset of a template
   applies to the first section, the second one to the second section, and so on (RFC 7133). */
static uint16_t find_section_offset(const fb_compiled_template *compiled, uint16_t section) {
    size_t first = fb_compiled_template_first_element(compiled), before = 0;
    if (section == FB_NO_FIELD) return FB_NO_FIELD;
    for (size_t i = first; i < section; i++) before += is_packet_section(compiled, i);
    for (size_t i = first; i < compiled->field_count; i++)
        if (is_element_of_direction(compiled, i, FB_ID_SECTION_OFFSET) && !before--)
            return (uint16_t)i;
    return FB_NO_FIELD;
}

static void find_roles(fb_compiled_template *compiled) {
    memset(compiled->role, 0xff, sizeof compiled->role);
    memset(compiled->address_field, 0xff, sizeof compiled->address_field);
    compiled->ip_packet_offset = compiled->data_link_frame_offset = FB_NO_FIELD;
    if (compiled->version == 5) {
        find_netflow5_roles(compiled);
        return;
    }
    size_t first = fb_compiled_template_first_element(compiled);
    for (size_t i = first; compiled->reversed && i < compiled->field_count; i++)
        if (fb_compiled_template_is_own(compiled, i)) find_roles_of_field(compiled, i);
    for (size_t i = first; i < compiled->field_count; i++)
        if (!fb_compiled_template_is_own(compiled, i)) find_roles_of_field(compiled, i);
    compiled->ip_packet_offset = find_section_offset(compiled, compiled->role[FB_ROLE_IP_PACKET]);
    compiled->data_link_frame_offset =
        find_section_offset(compiled, compiled->role[FB_ROLE_DATA_LINK_FRAME]);
}

static bool has_sampling_rate(const fb_compiled_template *compiled) {
    static const fb_role rates[] = {FB_ROLE_SAMPLING_INTERVAL,   FB_ROLE_RANDOM_INTERVAL,
                                    FB_ROLE_PACKET_INTERVAL,     FB_ROLE_SAMPLING_SIZE,
                                    FB_ROLE_SAMPLING_POPULATION, FB_ROLE_SAMPLING_PROBABILITY,
                                    FB_ROLE_HASH_OUTPUT_MAX};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (fb_compiled_template_has_role(compiled, rates[i])) return true;
    return false;
}

/* --- compiled templates
   --------------------------------------------------------------------------------- */

static bool is_variable(const fb_compiled_template *compiled, size_t field) {
    return compiled->fields[field].size == FB_VARIABLE_SIZE;
}

static uint16_t count_variable(const fb_compiled_template *compiled) {
    uint16_t count = 0;
    for (size_t i = 0; i < compiled->field_count; i++)
        count = (uint16_t)(count + is_variable(compiled, i));
    return count;
}

static uint16_t count_lists(const fb_plan *plan, const fb_compiled_template *compiled) {
    uint16_t count = 0;
    if (compiled->version != 10 || compiled->options) return 0;
    for (size_t i = 0; i < compiled->field_count; i++)
        count = (uint16_t)(count + fb_field_is_opened(plan, &compiled->fields[i]));
    return count;
}

static void find_lists(const fb_plan *plan, fb_compiled_template *compiled) {
    uint16_t *next = compiled->lists;
    for (uint16_t i = 0; compiled->list_count && i < compiled->field_count; i++)
        if (fb_field_is_opened(plan, &compiled->fields[i])) *next++ = i;
}

/* Compute the offsets of the fields. Return false if records have no bytes. */
static bool compute_offsets(fb_compiled_template *compiled) {
    uint32_t size = 0, offset = 0;
    uint16_t base = 0;
    for (uint16_t i = 0; i < compiled->field_count; i++) {
        /* beyond it, no record fits a datagram */
        compiled->offsets[i] = (uint16_t)(offset < UINT16_MAX ? offset : UINT16_MAX);
        compiled->bases[i] = base;
        if (is_variable(compiled, i)) {
            compiled->variables[base++] = i;
            offset = 0;
            size++;
        } else {
            offset += compiled->fields[i].size;
            size += compiled->fields[i].size;
        }
    }
    compiled->record_size = size;
    compiled->tail = offset;
    return size > 0;
}

static bool reserve_locations(fb_compiled_templates *compiled_templates, size_t count,
                              size_t levels) {
    if (count <= compiled_templates->location_capacity &&
        levels <= compiled_templates->location_levels)
        return true;
    if (count < compiled_templates->location_capacity)
        count = compiled_templates->location_capacity;
    if (levels < compiled_templates->location_levels) levels = compiled_templates->location_levels;
    size_t old = bytes_of_locations(compiled_templates->location_capacity,
                                    compiled_templates->location_levels);
    fb_location *locations =
        fb_memory_resize(compiled_templates->memory, compiled_templates->locations, old,
                         bytes_of_locations(count, levels));
    if (!locations) return false;
    compiled_templates->locations = locations;
    compiled_templates->location_capacity = count;
    compiled_templates->location_levels = levels;
    return true;
}

static uint64_t hash_fields(const fb_compiled_template *key, uint64_t seed) {
    uint64_t hash = fb_hash(seed, (uint64_t)key->version << 32 | (uint64_t)key->scope_count << 1 |
                                      key->options);
    for (size_t i = 0; i < key->field_count; i++) {
        const fb_field *field = &key->fields[i];
        hash = fb_hash(hash, (uint64_t)field->pen << 32 | (uint32_t)field->id << 16 | field->size);
    }
    return fb_hash(hash, seed);
}

static bool is_same(const fb_compiled_template *compiled, const fb_compiled_template *key) {
    return compiled->hash == key->hash && compiled->version == key->version &&
           compiled->options == key->options && compiled->scope_count == key->scope_count &&
           compiled->field_count == key->field_count &&
           memcmp(compiled->fields, key->fields, key->field_count * sizeof *key->fields) == 0;
}

static void grow_buckets(fb_compiled_templates *compiled_templates) {
    size_t count = compiled_templates->bucket_count * 2;
    fb_compiled_template **buckets =
        fb_memory_allocate(compiled_templates->memory, count * sizeof *buckets);
    if (!buckets) return; /* chains get longer */
    for (size_t i = 0; i < compiled_templates->bucket_count; i++)
        for (fb_compiled_template *compiled = compiled_templates->buckets[i], *next; compiled;
             compiled = next) {
            next = compiled->next;
            compiled->next = buckets[compiled->hash & (count - 1)];
            buckets[compiled->hash & (count - 1)] = compiled;
        }
    fb_memory_release(compiled_templates->memory, compiled_templates->buckets,
                      compiled_templates->bucket_count * sizeof *buckets);
    compiled_templates->buckets = buckets;
    compiled_templates->bucket_count = count;
}

/* Lanes are read by whole cache lines. */
static size_t bytes_of_lanes(const fb_compiled_template *compiled) {
    return compiled->lane_group_count
               ? compiled->lane_group_count * sizeof(fb_lane_group) + FB_CACHE_LINE
               : 0;
}

static size_t bytes_of(const fb_compiled_template *compiled, size_t ops) {
    return sizeof(fb_compiled_template) + ops * sizeof(fb_op) + bytes_of_lanes(compiled) +
           compiled->field_count * (sizeof(fb_field) + 2 * sizeof(uint16_t)) +
           (size_t)(compiled->variable_count + compiled->counter_count + compiled->chain_count +
                    compiled->list_count + compiled->other_room) *
               sizeof(uint16_t);
}

/* Lay out a compiled template with room for `ops` operations. Members with pointers and wide
   numbers come first, for alignment. */
static void lay_out(fb_compiled_template *compiled, size_t ops) {
    compiled->ops = (fb_op *)(compiled + 1);
    uint8_t *lanes = (uint8_t *)(compiled->ops + ops);
    compiled->lane_groups = fb_align_to_line(lanes);
    compiled->fields = (fb_field *)(lanes + bytes_of_lanes(compiled));
    compiled->offsets = (uint16_t *)(compiled->fields + compiled->field_count);
    compiled->bases = compiled->offsets + compiled->field_count;
    compiled->variables = compiled->bases + compiled->field_count;
    compiled->counters = compiled->variables + compiled->variable_count;
    compiled->chain = compiled->counters + compiled->counter_count;
    compiled->lists = compiled->chain + compiled->chain_count;
    compiled->others = compiled->lists + compiled->list_count;
}

/* Set the pointers into the operations of a compiled template with its final address. */
static void point_to_operations(fb_compiled_template *compiled) {
    const fb_op *op = compiled->ops, *end = compiled->ops + compiled->move_end;
    for (unsigned code = 0; code <= FB_MOVE_CODES; code++) {
        while (op < end && op->code < code) op++;
        compiled->moves[code] = op;
    }
    compiled->sampler = NULL;
    for (end = compiled->ops + compiled->set_end; op < end; op++)
        if (op->code == FB_OP_RATE_OF_SAMPLER) compiled->sampler = op;
}

/* Copy a compiled template into a block of its exact size. */
static fb_compiled_template *shrink_to_size(fb_compiled_templates *compiled_templates,
                                            const fb_compiled_template *compiled) {
    size_t bytes = bytes_of(compiled, compiled->op_count);
    fb_compiled_template *fitted = fb_memory_allocate(compiled_templates->memory, bytes);
    if (!fitted) return NULL;
    *fitted = *compiled;
    fitted->bytes = bytes;
    lay_out(fitted, fitted->op_count);
    memcpy(fitted->ops, compiled->ops, compiled->op_count * sizeof *compiled->ops);
    memcpy(fitted->fields, compiled->fields,
           bytes - (size_t)((uint8_t *)fitted->fields - (uint8_t *)fitted));
    point_to_operations(fitted);
    if (fitted->lane_group_count) fb_operations_group(fitted, fitted->lane_groups);
    return fitted;
}

/* Return memory for a compiled template under construction. It is reused, because allocating it
   costs more than the rest of a short template. NULL: no memory. */
static fb_compiled_template *reserve_draft(fb_compiled_templates *compiled_templates,
                                           size_t bytes) {
    if (bytes > compiled_templates->draft_bytes) {
        fb_compiled_template *draft =
            fb_memory_resize(compiled_templates->memory, compiled_templates->draft,
                             compiled_templates->draft_bytes, bytes);
        if (!draft) return NULL;
        compiled_templates->draft = draft;
        compiled_templates->draft_bytes = bytes;
    }
    return compiled_templates->draft;
}

static fb_status compile_one(fb_compiled_templates *compiled_templates,
                             const fb_compiled_template *key, fb_compiled_template **out) {
    /* Room for all operations that the plan can need; `shrink_to_size` copies only those in use. */
    size_t most_ops = compiled_templates->candidate_capacity + 1;
    fb_compiled_template *compiled = reserve_draft(compiled_templates, bytes_of(key, most_ops));
    if (!compiled) return FB_NO_MEMORY;
    *compiled = *key;
    lay_out(compiled, most_ops);
    memcpy(compiled->fields, key->fields, key->field_count * sizeof *key->fields);
    memset(compiled->chain, 0xff, compiled->chain_count * sizeof *compiled->chain);
    bool empty = !compute_offsets(compiled);
    if (compiled->reversed) normalize_reverse_fields(compiled);
    find_lists(compiled_templates->plan, compiled);
    find_roles(compiled);
    compiled->rated = has_sampling_rate(compiled);
    compiled->named = fb_compiled_template_has_role(compiled, FB_ROLE_SAMPLER_ID) ||
                      fb_compiled_template_has_role(compiled, FB_ROLE_SELECTOR_ID) ||
                      fb_compiled_template_has_role(compiled, FB_ROLE_SELECTION_SEQUENCE);
    if (compiled_templates->plan && !empty) fb_operations_write(compiled_templates, compiled);
    *out = empty ? NULL : shrink_to_size(compiled_templates, compiled);
    if (empty) return FB_EMPTY_TEMPLATE;
    return *out ? FB_OK : FB_NO_MEMORY;
}

static fb_status compile(fb_compiled_templates *compiled_templates, const fb_compiled_template *key,
                         fb_compiled_template **out) {
    size_t counters = key->options || key->version == 5 ? 0 : count_reverse_counters(key);
    fb_compiled_template forward = *key, turned = *key;
    forward.biflow = counters > 0;
    fb_status status = compile_one(compiled_templates, &forward, out);
    if (status != FB_OK || !counters) return status;
    turned.reversed = true;
    turned.list_count = 0; /* lists of records belong to the forward direction */
    turned.counter_count = (uint16_t)counters;
    status = compile_one(compiled_templates, &turned, &(*out)->reverse);
    if (status == FB_OK) (*out)->bytes += (*out)->reverse->bytes;
    else free_compiled(compiled_templates, *out);
    return status;
}

fb_status fb_compiled_templates_acquire(fb_compiled_templates *compiled_templates, uint16_t version,
                                        const fb_field *fields, uint16_t field_count,
                                        uint16_t scope_count, bool options,
                                        fb_compiled_template **out) {
    fb_compiled_template key = {.version = version,
                                .field_count = field_count,
                                .scope_count = scope_count,
                                .options = options};
    key.fields = (fb_field *)fields;
    key.hash = hash_fields(&key, compiled_templates->seed);
    for (fb_compiled_template *compiled =
             compiled_templates->buckets[key.hash & (compiled_templates->bucket_count - 1)];
         compiled; compiled = compiled->next)
        if (is_same(compiled, &key)) {
            compiled->references++;
            *out = compiled;
            return FB_OK;
        }

    fb_compiled_template *compiled;
    const fb_plan *plan = options ? compiled_templates->options : compiled_templates->flows;
    compiled_templates->plan = plan;
    key.variable_count = count_variable(&key);
    key.chain_count = plan && plan->collects ? field_count : 0;
    key.other_room = plan && plan->has_others ? field_count : 0;
    key.list_count = plan && plan->has_elements ? count_lists(plan, &key) : 0;
    size_t levels = key.list_count ? FB_LIST_DEPTH + 1 : 1;
    size_t locations = key.variable_count + 1u;
    if (key.variable_count && locations < FB_LOCATIONS) locations = FB_LOCATIONS;
    if (!reserve_locations(compiled_templates, locations, levels)) return FB_NO_MEMORY;
    fb_status status = compile(compiled_templates, &key, &compiled);
    if (status != FB_OK) return status;
    if (compiled_templates->count >= compiled_templates->bucket_count)
        grow_buckets(compiled_templates);
    fb_compiled_template **bucket =
        &compiled_templates->buckets[compiled->hash & (compiled_templates->bucket_count - 1)];
    compiled->next = *bucket;
    compiled->references = 1;
    *bucket = compiled;
    compiled_templates->count++;
    *out = compiled;
    return FB_OK;
}

void fb_compiled_templates_release(fb_compiled_templates *compiled_templates,
                                   fb_compiled_template *compiled) {
    if (--compiled->references) return;
    fb_compiled_template **link =
        &compiled_templates->buckets[compiled->hash & (compiled_templates->bucket_count - 1)];
    while (*link != compiled) link = &(*link)->next;
    *link = compiled->next;
    compiled_templates->count--;
    free_compiled(compiled_templates, compiled);
}

const uint8_t *fb_compiled_template_locate(const fb_compiled_template *compiled, const uint8_t *p,
                                           const uint8_t *end, fb_location *locations) {
    for (size_t i = 0; i < compiled->variable_count; i++) {
        size_t offset = compiled->offsets[compiled->variables[i]], size;
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
    locations[compiled->variable_count].base = p;
    return (size_t)(end - p) < compiled->tail ? NULL : p + compiled->tail;
}
