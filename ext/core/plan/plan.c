/* Compile a schema into a plan: tags, worst-case sizes, the sources of each column, and the columns
   that can be written at once. kind.c has the rules of kinds. */
#include "core/plan/plan.h"

#include <stdlib.h>

/* a length prefix, the 64-byte copy of the constants, and a store of 64 bytes after the last
   column */
#define FIXED_SLACK 160

#define MOST_DIRECT 64 /* one bit each */

/* A source of a column, in the order of the calls. */
struct fb_plan_entry {
    uint64_t pen;
    uint32_t id; /* of an element, or an fb_source */
    uint16_t occurrence;
    fb_target target;
    bool is_element;
};

fb_status fb_plan_new(fb_plan **out, fb_memory *memory) {
    fb_plan *plan = fb_memory_allocate(memory, sizeof *plan);
    if (!plan) return FB_NO_MEMORY;
    plan->memory = memory;
    plan->rate_column = FB_NO_COLUMN;
    *out = plan;
    return FB_OK;
}

fb_status fb_plan_set_rows(fb_plan *plan, fb_rows rows) {
    if (plan->sealed || (unsigned)rows >= FB_ROWS_COUNT) return FB_BAD_ARGUMENT;
    plan->rows = rows;
    return FB_OK;
}

/* One more than used: an empty range still needs an array to point into. */
static size_t bytes_of_targets(const fb_plan *plan) {
    return (plan->target_count + 1) * sizeof *plan->targets;
}

static size_t bytes_of_elements(const fb_plan *plan) {
    return (plan->element_count + 1) * sizeof *plan->elements;
}

void fb_plan_free(fb_plan *plan) {
    if (!plan) return;
    fb_memory *memory = plan->memory;
    for (size_t i = 0; i < plan->column_count; i++)
        fb_memory_release(memory, plan->columns[i].mappings,
                          plan->columns[i].mappings_size * sizeof(fb_mapping));
    fb_memory_release(memory, plan->columns, plan->column_count * sizeof *plan->columns);
    fb_memory_release(memory, plan->targets, bytes_of_targets(plan));
    fb_memory_release(memory, plan->elements, bytes_of_elements(plan));
    fb_memory_release(memory, plan->registry, plan->registry_size);
    fb_memory_release(memory, plan->entries, plan->entry_count * sizeof *plan->entries);
    fb_memory_release(memory, plan, sizeof *plan);
}

static fb_wire_type choose_wire(fb_type type) {
    switch (type) {
        case FB_TYPE_FLOAT:
        case FB_TYPE_FIXED32: return FB_WIRE_FIXED32;
        case FB_TYPE_DOUBLE:
        case FB_TYPE_FIXED64: return FB_WIRE_FIXED64;
        case FB_TYPE_STRING:
        case FB_TYPE_BYTES:
        case FB_TYPE_IP: return FB_WIRE_BYTES;
        default: return FB_WIRE_VARINT;
    }
}

static int compare_mappings(const void *a, const void *b) {
    const fb_mapping *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Return true if the column may have the scaling flags of its spec: it is a single unsigned number,
   and only one enabled column is the rate. */
static bool may_scale(const fb_plan *plan, const fb_column_spec *spec) {
    unsigned part = spec->flags & (FB_COLUMN_SCALED | FB_COLUMN_RATE);
    bool is_unsigned = spec->type == FB_TYPE_UINT || spec->type == FB_TYPE_FIXED32 ||
                       spec->type == FB_TYPE_FIXED64;
    if (!part) return true;
    if (!is_unsigned || spec->flags & FB_COLUMN_REPEATED ||
        part == (FB_COLUMN_SCALED | FB_COLUMN_RATE))
        return false;
    return part == FB_COLUMN_SCALED || !(spec->flags & FB_COLUMN_ENABLED) ||
           plan->rate_column == FB_NO_COLUMN;
}

/* Return true if a zero may be a value of a column. Addresses, times, bytes and lists have no such
   zero. */
static bool may_keep_zero(const fb_column_spec *spec) {
    fb_type type = spec->type;
    bool bytes = type == FB_TYPE_STRING || type == FB_TYPE_BYTES || type == FB_TYPE_IP;
    return !bytes && type != FB_TYPE_TIMESTAMP && !(spec->flags & FB_COLUMN_REPEATED);
}

fb_status fb_plan_add_column(fb_plan *plan, const fb_column_spec *spec) {
    bool timed = spec->type == FB_TYPE_TIMESTAMP || spec->type == FB_TYPE_DURATION;
    if (plan->sealed || plan->column_count == FB_MAX_COLUMNS || spec->number == 0 ||
        spec->number > FB_NUMBER_MAX || (unsigned)spec->type >= FB_TYPE_COUNT ||
        spec->mappings_size > UINT16_MAX || (timed && !spec->unit) || !may_scale(plan, spec))
        return FB_BAD_ARGUMENT;

    fb_mapping *mappings = NULL;
    size_t mappings_bytes = spec->mappings_size * sizeof *mappings;
    if (mappings_bytes) {
        mappings = fb_memory_allocate(plan->memory, mappings_bytes);
        if (!mappings) return FB_NO_MEMORY;
        memcpy(mappings, spec->mappings, mappings_bytes);
        qsort(mappings, spec->mappings_size, sizeof *mappings, compare_mappings);
    }
    size_t old = plan->column_count * sizeof *plan->columns;
    fb_column *columns = fb_memory_resize(plan->memory, plan->columns, old, old + sizeof *columns);
    if (!columns) {
        fb_memory_release(plan->memory, mappings, mappings_bytes);
        return FB_NO_MEMORY;
    }
    plan->columns = columns;
    if ((spec->flags & (FB_COLUMN_RATE | FB_COLUMN_ENABLED)) ==
        (FB_COLUMN_RATE | FB_COLUMN_ENABLED))
        plan->rate_column = (uint16_t)plan->column_count;
    fb_column *column = &columns[plan->column_count++];
    uint64_t latest = spec->type == FB_TYPE_TIMESTAMP ? FB_TIME_MAX / spec->unit : UINT64_MAX;
    *column = (fb_column){
        .limit = spec->limit < latest ? spec->limit : latest,
        .unit = spec->unit,
        .number = spec->number,
        .type = (uint8_t)spec->type,
        .wire = (uint8_t)choose_wire(spec->type),
        .flags =
            (uint16_t)(may_keep_zero(spec) ? spec->flags : spec->flags & ~(unsigned)FB_COLUMN_ZERO),
        .deferred_index = FB_NOT_DEFERRED,
        .packet_rank = FB_NO_RANK,
        .mirror = FB_NO_MIRROR,
        .mappings_size = (uint16_t)spec->mappings_size,
        .mappings = mappings,
    };
    uint64_t tag = fb_wire_tag(spec->number, column->wire);
    size_t size;
    column->tag = fb_wire_short_varint(tag, &size);
    column->tag_size = (uint8_t)size;
    column->tag_bits = (uint8_t)(8 * column->tag_size);
    return FB_OK;
}

/* Return true if both entries are the same source of the same column. */
static bool is_same_source(const struct fb_plan_entry *a, const struct fb_plan_entry *b) {
    return a->target.column == b->target.column && a->is_element == b->is_element &&
           a->pen == b->pen && a->id == b->id && a->occurrence == b->occurrence;
}

static fb_status add_entry(fb_plan *plan, struct fb_plan_entry entry, unsigned rank) {
    if (plan->sealed || entry.target.column >= plan->column_count || rank > FB_MAX_RANK)
        return FB_BAD_ARGUMENT;
    if (!fb_kind_fits(entry.target.kind, plan->columns[entry.target.column].type))
        return FB_BAD_SOURCE;
    for (size_t i = 0; i < plan->entry_count; i++)
        if (is_same_source(&plan->entries[i], &entry)) return FB_BAD_ARGUMENT;
    entry.target.rank = (uint8_t)rank;
    size_t old = plan->entry_count * sizeof *plan->entries;
    struct fb_plan_entry *entries =
        fb_memory_resize(plan->memory, plan->entries, old, old + sizeof entry);
    if (!entries) return FB_NO_MEMORY;
    plan->entries = entries;
    entries[plan->entry_count++] = entry;
    return FB_OK;
}

fb_status fb_plan_add_source(fb_plan *plan, uint16_t column, unsigned rank, fb_source source) {
    if ((unsigned)source >= FB_SOURCE_COUNT) return FB_BAD_ARGUMENT;
    struct fb_plan_entry entry = {
        .id = source, .target = {.column = column, .kind = fb_source_kind(source) & 63}};
    bool bytes = column < plan->column_count && plan->columns[column].type == FB_TYPE_BYTES;
    /* keep invalid UTF-8 as it is */
    if (entry.target.kind == FB_KIND_STRING && bytes) entry.target.kind = FB_KIND_BYTES;
    else if (entry.target.kind == FB_KIND_BYTES && !bytes) return FB_BAD_SOURCE;
    return add_entry(plan, entry, rank);
}

fb_status fb_plan_add_element(fb_plan *plan, uint16_t column, unsigned rank, uint64_t pen,
                              uint32_t id, uint16_t occurrence, fb_kind kind) {
    if ((unsigned)kind >= FB_KIND_COUNT) return FB_BAD_ARGUMENT;
    struct fb_plan_entry entry = {pen, id, occurrence, {.column = column, .kind = kind & 63}, true};
    return add_entry(plan, entry, rank);
}

fb_status fb_plan_set_replacement(fb_plan *plan) {
    if (plan->sealed || !plan->entry_count || !plan->entries[plan->entry_count - 1].is_element)
        return FB_BAD_ARGUMENT;
    plan->entries[plan->entry_count - 1].target.last = true;
    return FB_OK;
}

fb_status fb_plan_set_mirror(fb_plan *plan, uint16_t column, uint16_t mirror) {
    if (plan->sealed || column >= plan->column_count || mirror >= plan->column_count ||
        column == mirror || plan->columns[column].type != plan->columns[mirror].type)
        return FB_BAD_ARGUMENT;
    plan->columns[column].mirror = mirror;
    plan->columns[mirror].mirror = column;
    return FB_OK;
}

fb_status fb_plan_set_registry(fb_plan *plan, const uint8_t *kinds, size_t count) {
    if (plan->sealed || plan->registry) return FB_BAD_ARGUMENT;
    if (!(plan->registry = fb_memory_allocate(plan->memory, count)))
        return count ? FB_NO_MEMORY : FB_OK;
    memcpy(plan->registry, kinds, count);
    plan->registry_size = count;
    return FB_OK;
}

static int compare_entries(const void *a, const void *b) {
    const struct fb_plan_entry *x = a, *y = b;
    if (x->is_element != y->is_element) return x->is_element - y->is_element;
    if (x->pen != y->pen) return (x->pen > y->pen) - (x->pen < y->pen);
    if (x->id != y->id) return (x->id > y->id) - (x->id < y->id);
    if (x->target.column != y->target.column) return x->target.column - y->target.column;
    return x->target.rank - y->target.rank;
}

/* Position of a source in the order of arrival within a row, to compare with the ranks. Constants
   come first, then the operations of a template before its packet, then the other fixed sources in
   their order. Operations after the packet come between the packet's sources and those after it. */
static unsigned arrival_position(const struct fb_plan_entry *entry, bool after_packet) {
    if (entry->is_element)
        return after_packet ? FB_SOURCE_LAST_PACKET + 2 : FB_SOURCE_LAST_CONSTANT + 1;
    return entry->id + (entry->id > FB_SOURCE_LAST_CONSTANT) + (entry->id > FB_SOURCE_LAST_PACKET);
}

static bool is_packet(const struct fb_plan_entry *entry) {
    return !entry->is_element && entry->id >= FB_SOURCE_FIRST_PACKET &&
           entry->id <= FB_SOURCE_LAST_PACKET;
}

/* Return true if the sources of a column arrive in rank order. REQUIRES: no column has more than
   FB_MAX_RANK ranks. */
static bool arrives_in_order(const fb_plan *plan, uint16_t column) {
    unsigned latest = 0;
    bool after_packet = false;
    for (unsigned rank = 0; rank <= FB_MAX_RANK; rank++) {
        unsigned first = UINT32_MAX, last = 0;
        bool packet = false;
        for (size_t i = 0; i < plan->entry_count; i++) {
            const struct fb_plan_entry *entry = &plan->entries[i];
            if (entry->target.column != column || entry->target.rank != rank) continue;
            unsigned when = arrival_position(entry, after_packet);
            if (when < first) first = when;
            if (when > last) last = when;
            packet |= is_packet(entry);
        }
        if (first == UINT32_MAX) return true; /* ranks have no gaps */
        if (first < latest) return false;
        latest = last;
        after_packet |= packet;
    }
    return true;
}

/* Return true if a rank of a column has a fixed source and another source. A zero of one must not
   block the other. */
static bool has_fixed_equals(const fb_plan *plan, uint16_t column) {
    uint16_t count[FB_MAX_RANK + 1] = {0};
    bool fixed[FB_MAX_RANK + 1] = {false}, found = false;
    for (size_t i = 0; i < plan->entry_count; i++) {
        const struct fb_plan_entry *entry = &plan->entries[i];
        if (entry->target.column != column) continue;
        unsigned rank = entry->target.rank;
        fixed[rank] |= !entry->is_element;
        found |= ++count[rank] > 1 && fixed[rank];
    }
    return found;
}

_Static_assert(FB_SOURCE_LAST_PACKET - FB_SOURCE_FIRST_PACKET < 64,
               "packet_sources has a bit for each of them");

static void mark_constants(fb_plan *plan) {
    for (size_t i = 0; i < plan->entry_count; i++) {
        const struct fb_plan_entry *entry = &plan->entries[i];
        if (entry->is_element || entry->id > FB_SOURCE_LAST_CONSTANT) continue;
        bool netflow5 = entry->id >= FB_SOURCE_NETFLOW5_SAMPLING_INTERVAL;
        plan->columns[entry->target.column].flags |=
            netflow5 ? FB_COLUMN_CONSTANT_NETFLOW5 : FB_COLUMN_CONSTANT;
    }
}

static void mark_packet_ranks(fb_plan *plan) {
    for (size_t i = 0; i < plan->entry_count; i++) {
        const struct fb_plan_entry *entry = &plan->entries[i];
        fb_column *column = &plan->columns[entry->target.column];
        if (!is_packet(entry) || !(column->flags & FB_COLUMN_ENABLED)) continue;
        if (entry->target.rank < column->packet_rank) column->packet_rank = entry->target.rank;
        plan->packet_sources |= 1ull << (entry->id - FB_SOURCE_FIRST_PACKET);
        plan->has_packet = true;
    }
}

/* Return true if a name from options data may fill a column. */
static bool takes_a_name(const fb_plan *plan, size_t column) {
    for (size_t i = 0; i < plan->target_count; i++)
        if (plan->targets[i].column == column)
            for (unsigned s = FB_SOURCE_FIRST_NAME; s <= FB_SOURCE_LAST_NAME; s++)
                if (i - plan->sources[s].first < plan->sources[s].count) return true;
    return false;
}

/* Return true if the fast path of a row may append the column: it is a single plain varint, a
   single 16-byte address, or a string that takes names. */
static bool is_plain(const fb_plan *plan, const fb_column *column) {
    if (column->flags & (FB_COLUMN_DEFERRED | FB_COLUMN_REPEATED) ||
        !(column->flags & FB_COLUMN_ENABLED))
        return false;
    return column->type == FB_TYPE_UINT || column->type == FB_TYPE_ENUM ||
           column->type == FB_TYPE_BOOL || column->type == FB_TYPE_TIMESTAMP ||
           (column->type == FB_TYPE_IP && !(column->flags & FB_COLUMN_NATIVE_IP)) ||
           (column->type == FB_TYPE_STRING && takes_a_name(plan, (size_t)(column - plan->columns)));
}

static void classify_columns(fb_plan *plan) {
    unsigned direct = 0;
    for (size_t i = 0; i < plan->column_count; i++) {
        fb_column *column = &plan->columns[i];
        if (!(column->flags & FB_COLUMN_ENABLED)) continue;
        bool single = !(column->flags & FB_COLUMN_REPEATED),
             ordered = arrives_in_order(plan, (uint16_t)i);
        bool waits =
            !ordered || column->flags & (FB_COLUMN_EXPLICIT | FB_COLUMN_SCALED | FB_COLUMN_RATE);
        if (column->flags & FB_COLUMN_ZERO) waits |= has_fixed_equals(plan, (uint16_t)i);
        if (single && waits) column->flags |= FB_COLUMN_DEFERRED;
        if (!single && !ordered) column->flags |= FB_COLUMN_UNORDERED;
        plan->collects |= !single;
        if (single && column->flags & (FB_COLUMN_DEFERRED | FB_COLUMN_LATE))
            column->deferred_index = (uint16_t)plan->deferred_count++;
        if (direct == MOST_DIRECT || !is_plain(plan, column)) continue;
        column->bit = 1ull << direct++;
        plan->open |= column->bit;
        if (column->deferred_index != FB_NOT_DEFERRED) plan->late |= column->bit;
    }
}

static fb_path choose_path(fb_kind kind, const fb_column *column) {
    if (!fb_column_has_fast_path(column)) return FB_PATH_SLOW;
    if (kind == FB_KIND_UINT && column->type == FB_TYPE_ENUM) return FB_PATH_ENUM;
    fb_type wanted = FB_TYPE_UINT;
    if (kind == FB_KIND_IP) wanted = FB_TYPE_IP;
    else if (kind == FB_KIND_TIME) wanted = FB_TYPE_TIMESTAMP;
    /* any time fits */
    bool fits = kind != FB_KIND_TIME || column->limit >= FB_TIME_MAX / column->unit;
    return column->type == wanted && fits ? FB_PATH_FAST : FB_PATH_SLOW;
}

_Static_assert(FB_SOURCE_SFLOW_UPTIME < 32,
               "constants has a bit for each of them, whatever the protocol");

static void choose_paths(fb_plan *plan) {
    for (unsigned source = 0; source < FB_SOURCE_COUNT; source++) {
        fb_target_range *range = &plan->sources[source];
        range->path = range->count ? FB_PATH_SLOW : FB_PATH_NONE;
        plan->wanted_before[source + 1] =
            (uint16_t)(plan->wanted_before[source] + (range->count > 0));
        if (range->count && source <= FB_SOURCE_SFLOW_UPTIME) plan->constants |= 1u << source;
        if (range->count != 1) continue;
        range->target = plan->targets[range->first];
        const fb_column *column = &plan->columns[range->target.column];
        range->column = column;
        range->tag = column->tag;
        range->tag_size = column->tag_size;
        range->path = choose_path(fb_source_kind(source), column);
        range->bit = column->bit;
        range->zero = range->target.zero ? column->bit : 0;
        if (range->path == FB_PATH_FAST)
            range->bound = column->limit < UINT64_MAX ? column->limit + 1 : UINT64_MAX;
    }
}

/* Find the names and the unused elements that enabled columns take. */
static void mark_names(fb_plan *plan) {
    for (unsigned source = FB_SOURCE_FIRST_NAME; source <= FB_SOURCE_LAST_NAME; source++)
        if (plan->sources[source].count && plan->rows == FB_ROWS_FLOWS)
            plan->names |= 1u << fb_source_name_kind((fb_source)source);
    plan->has_others = plan->sources[FB_SOURCE_DERIVED_OTHER_ELEMENTS].count ||
                       plan->sources[FB_SOURCE_DERIVED_OTHER_VALUES].count;
}

static size_t max_value_size(const fb_column *column) {
    switch (column->wire) {
        case FB_WIRE_FIXED32: return 4;
        case FB_WIRE_FIXED64: return 8;
        /* a length below 2^32; an address from outside the record, such as the exporter's */
        case FB_WIRE_BYTES: return FB_TAG_MAX + 16;
        default: return FB_VARINT_MAX;
    }
}

/* Return the output bytes per input byte, for columns whose size depends on the input. */
static size_t max_size_per_byte(const fb_column *column) {
    /* one malformed byte becomes the three bytes of U+FFFD */
    bool text = column->type == FB_TYPE_STRING;
    if (!(column->flags & FB_COLUMN_REPEATED)) {
        if (text) return 3;
        return column->type == FB_TYPE_BYTES ? 1 : 0;
    }
    return column->tag_size + max_value_size(column) + (text ? 3 : 1);
}

static void compute_max_sizes(fb_plan *plan) {
    plan->max_fixed_size = FIXED_SLACK;
    for (size_t i = 0; i < plan->column_count; i++) {
        const fb_column *column = &plan->columns[i];
        if (!(column->flags & FB_COLUMN_ENABLED)) continue;
        plan->max_size_per_byte += max_size_per_byte(column);
        /* for a repeated column, a list of one */
        plan->max_fixed_size += column->tag_size + max_value_size(column);
    }
    for (unsigned source = FB_SOURCE_FIRST_NAME; source <= FB_SOURCE_LAST_NAME; source++)
        plan->max_fixed_size +=
            (size_t)plan->sources[source].count * (FB_NAME_SIZE + FB_NAME_BLOCK);
}

/* Return true if an IPFIX record may have the element, and the element is not a list of records. */
static bool is_value(const struct fb_plan_entry *entry) {
    return entry->pen <= UINT32_MAX && !fb_element_is_sub_template(entry->pen, entry->id);
}

static fb_status index_sources(fb_plan *plan) {
    size_t elements = 0;
    if (plan->entry_count)
        qsort(plan->entries, plan->entry_count, sizeof *plan->entries, compare_entries);
    for (size_t i = 0; i < plan->entry_count; i++) elements += plan->entries[i].is_element;
    size_t targets = plan->entry_count - elements;
    /* a reverse flow may need each source twice, and each of these again (FB_OP_AGAIN) */
    if (plan->entry_count >= UINT16_MAX / 4) return FB_BAD_ARGUMENT;
    plan->target_count = targets;
    plan->element_count = elements;
    if (!(plan->targets = fb_memory_allocate(plan->memory, bytes_of_targets(plan))) ||
        !(plan->elements = fb_memory_allocate(plan->memory, bytes_of_elements(plan))))
        return FB_NO_MEMORY;

    size_t element = 0, target = 0;
    for (size_t i = 0; i < plan->entry_count; i++) {
        const struct fb_plan_entry *entry = &plan->entries[i];
        if (entry->is_element) {
            plan->elements[element++] =
                (fb_plan_element){entry->pen, entry->id, entry->occurrence, entry->target};
            bool enabled = plan->columns[entry->target.column].flags & FB_COLUMN_ENABLED;
            plan->has_elements |= is_value(entry) && enabled;
            plan->has_basic_list |= !entry->pen && entry->id == FB_ID_BASIC_LIST && enabled;
        } else if (plan->columns[entry->target.column].flags & FB_COLUMN_ENABLED) {
            fb_target_range *range = &plan->sources[entry->id];
            if (!range->count++) range->first = (uint16_t)target;
            plan->targets[target] = entry->target;
            plan->targets[target++].zero =
                (plan->columns[entry->target.column].flags & FB_COLUMN_ZERO) != 0;
        }
    }
    return FB_OK;
}

fb_status fb_plan_seal(fb_plan *plan) {
    if (plan->sealed) return FB_BAD_ARGUMENT;
    fb_status status = index_sources(plan);
    if (status != FB_OK) return status;
    plan->sealed = true;
    mark_constants(plan);
    mark_packet_ranks(plan);
    classify_columns(plan);
    choose_paths(plan);
    mark_names(plan);
    compute_max_sizes(plan);
    return FB_OK;
}

const fb_plan_element *fb_plan_find_elements(const fb_plan *plan, uint64_t pen, uint32_t id,
                                             size_t *count) {
    size_t low = 0, high = plan->element_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const fb_plan_element *element = &plan->elements[middle];
        if (element->pen < pen || (element->pen == pen && element->id < id)) low = middle + 1;
        else high = middle;
    }
    size_t end = low;
    while (end < plan->element_count && plan->elements[end].pen == pen &&
           plan->elements[end].id == id)
        end++;
    *count = end - low;
    return plan->elements + low;
}
