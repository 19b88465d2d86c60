/* Turns lessons into patterns, and keeps them. */
#include "lesson.h"

/* The table fills at once; after that, samples that fit no pattern are learned from now and then. */
enum { FREE_TRIES = 512, TRIES_A_LESSON = 256 };

/* Compiling ------------------------------------------------------------------------------------------------------------ */

/* What is being made of a lesson. */
typedef struct {
    const fb_plan *plan;
    const fb_lesson *lesson;
    bool wide;
    bool dropped[FB_LESSON_VALUES]; /* a better source has a value in any case */
    bool step[FB_LESSON_VALUES];    /* not appended, but put: some column of its source may have a value already, or converts it */
} compiler;

static const fb_target_range *targets_of(const compiler *c, size_t value) {
    return &c->plan->sources[c->lesson->values[value].value.source];
}

/* Whether a fixed source feeds a column. */
static bool feeds(const fb_plan *plan, unsigned source, uint16_t column) {
    const fb_target_range *range = &plan->sources[source];
    for (size_t i = 0; i < range->count; i++)
        if (plan->targets[range->first + i].column == column) return true;
    return false;
}

/* Whether a value may fill a column. Layers have the values of two sources. */
static bool may_fill(const compiler *c, size_t value, uint16_t column) {
    const fb_pattern_value *of = &c->lesson->values[value].value;
    if (of->code == FB_PATTERN_UNKNOWN) return false;
    if (of->code == FB_PATTERN_LAYERS && feeds(c->plan, FB_SOURCE_PACKET_LAYER_SIZES, column)) return true;
    return feeds(c->plan, of->source, column);
}

/* Whether a value, whatever it is, is appended to a column as it is. */
static bool takes_any(const fb_column *column, const fb_pattern_value *value) {
    if (!fb_column_is_direct(column)) return false;
    if (value->code == FB_PATTERN_ADDRESS) return column->type == FB_TYPE_IP;
    return column->type == FB_TYPE_UINT && value->mask + value->add <= column->limit;
}

/* Whether a value before this one fills a column in every sample: what comes first counts. */
static bool is_filled_before(const compiler *c, size_t value, uint16_t column) {
    for (size_t i = 0; i < value; i++) {
        const fb_lesson_value *before = &c->lesson->values[i];
        bool fills = before->least && takes_any(&c->plan->columns[column], &before->value);
        if (fills && !c->dropped[i] && may_fill(c, i, column)) return true;
    }
    return false;
}

/* Whether a value is zero in every sample. Columns that take it as it is do without it: an explicit one, or an enum, does not. */
static bool is_zero(const fb_pattern_value *value) {
    return value->code == FB_PATTERN_NUMBER && value->mask == 0 && value->add == 0;
}

/* Whether columns can do without a value. Only those of fb_column_is_direct have their sources come in order. */
static bool is_dropped(const compiler *c, size_t value) {
    const fb_pattern_value *of = &c->lesson->values[value].value;
    const fb_target_range *range = targets_of(c, value);
    for (size_t i = 0; i < range->count; i++) {
        uint16_t column = c->plan->targets[range->first + i].column;
        if (is_zero(of) && takes_any(&c->plan->columns[column], of)) continue;
        if (!fb_column_is_direct(&c->plan->columns[column]) || !is_filled_before(c, value, column)) return false;
    }
    return true;
}

/* Whether some constant of a datagram may fill a column. */
static bool may_be_constant(const fb_plan *plan, uint16_t column) {
    return plan->columns[column].flags & FB_COLUMN_CONSTANT || feeds(plan, FB_SOURCE_SFLOW_SUB_AGENT_ID, column) ||
           feeds(plan, FB_SOURCE_SFLOW_UPTIME, column);
}

/* Whether some other value may fill a column of the same sample. */
static bool is_shared(const compiler *c, size_t value, uint16_t column) {
    for (size_t i = 0; i < c->lesson->value_count; i++)
        if (i != value && !c->dropped[i] && may_fill(c, i, column)) return true;
    return false;
}

static bool is_step(const compiler *c, size_t value) {
    const fb_pattern_value *of = &c->lesson->values[value].value;
    const fb_target_range *range = targets_of(c, value);
    for (size_t i = 0; i < range->count; i++) {
        uint16_t column = c->plan->targets[range->first + i].column;
        if (!takes_any(&c->plan->columns[column], of) || may_be_constant(c->plan, column)) return true;
        if (is_shared(c, value, column)) return true;
    }
    return false;
}

static void sort_out(compiler *c) {
    for (size_t i = 0; i < c->lesson->value_count; i++) {
        unsigned code = c->lesson->values[i].value.code;
        bool plain = code == FB_PATTERN_NUMBER || code == FB_PATTERN_ADDRESS;
        c->step[i] = !plain;
        c->dropped[i] = plain && is_dropped(c, i);
    }
    for (size_t i = 0; i < c->lesson->value_count; i++)
        if (!c->dropped[i] && !c->step[i]) c->step[i] = is_step(c, i);
}

/* Appended values, one for each column, and steps. */
enum { MOST_VALUES = 2 * FB_LESSON_VALUES };

typedef struct {
    fb_pattern_value values[MOST_VALUES];
    size_t count, lane_end, number_end, address_end;
} list;

enum { IN_LANES, OTHER_NUMBERS, ADDRESSES };

/* Lanes take whole octets. */
static unsigned group_of(const compiler *c, const fb_pattern_value *value) {
    if (value->code == FB_PATTERN_ADDRESS) return ADDRESSES;
    bool fits = fb_lanes_fit(value->column, value->mask + value->add), whole = value->shift % 8 == 0;
    return c->wide && fits && whole ? IN_LANES : OTHER_NUMBERS;
}

/* False: there are too many. */
static bool list_appended(const compiler *c, unsigned group, list *out) {
    for (size_t i = 0; i < c->lesson->value_count; i++) {
        if (c->dropped[i] || c->step[i]) continue;
        const fb_target_range *range = targets_of(c, i);
        for (size_t j = 0; j < range->count; j++) {
            fb_pattern_value value = c->lesson->values[i].value;
            value.column = &c->plan->columns[c->plan->targets[range->first + j].column];
            if (group_of(c, &value) != group) continue;
            if (out->count == MOST_VALUES) return false;
            out->values[out->count++] = value;
        }
    }
    return true;
}

static bool list_steps(const compiler *c, list *out) {
    for (size_t i = 0; i < c->lesson->value_count; i++) {
        if (c->dropped[i] || !c->step[i]) continue;
        if (out->count == MOST_VALUES) return false;
        out->values[out->count++] = c->lesson->values[i].value;
    }
    return true;
}

static bool is_constant(const fb_pattern_value *value) {
    return value->mask == 0;
}

static bool comes_before(const fb_pattern_value *a, const fb_pattern_value *b) {
    if (is_constant(a) || is_constant(b)) return is_constant(b) && !is_constant(a);
    return a->place < b->place;
}

/* Lanes reach so far: neighbours go together. Constants come from nowhere in the sample: they fill up the last group. */
static void sort_by_place(list *out) {
    for (size_t i = 1; i < out->lane_end; i++)
        for (size_t j = i; j && comes_before(&out->values[j], &out->values[j - 1]); j--) {
            fb_pattern_value before = out->values[j - 1];
            out->values[j - 1] = out->values[j];
            out->values[j] = before;
        }
}

static bool list_all(const compiler *c, list *out) {
    if (!list_appended(c, IN_LANES, out)) return false;
    out->lane_end = out->count;
    sort_by_place(out);
    if (!list_appended(c, OTHER_NUMBERS, out)) return false;
    out->number_end = out->count;
    if (!list_appended(c, ADDRESSES, out)) return false;
    out->address_end = out->count;
    return list_steps(c, out);
}

static size_t end_group(const list *values, size_t first) {
    size_t end = first;
    for (const fb_pattern_value *value = &values->values[first]; end < values->lane_end && end - first < FB_LANES; end++, value++)
        if (!is_constant(value) && value->place + value->size - values->values[first].place > FB_LANES_WINDOW) break;
    return end;
}

static void write_group(const list *values, fb_lane_group *group, size_t first) {
    size_t window = 0, begin = values->values[first].place;
    *group = (fb_lane_group){.offset = (uint16_t)begin, .first = (uint16_t)first, .end = (uint16_t)end_group(values, first)};
    for (unsigned lane = 0; first + lane < group->end; lane++) {
        const fb_pattern_value *value = &values->values[first + lane];
        size_t offset = is_constant(value) ? 0 : value->place - begin;
        fb_lanes_set(&group->lanes, lane, value->column, offset, value->size, value->mask, value->add);
        if (offset + value->size > window) window = offset + value->size;
    }
    fb_lanes_set_window(&group->lanes, window);
}

/* Windows over all octets that must be the same, as few as there need be. Returns how many; they are written where there is room
   for them. */
static size_t write_windows(const fb_lesson *lesson, fb_pattern_window *windows) {
    size_t count = 0, last = lesson->size - FB_PATTERN_WINDOW;
    for (size_t place = 0; place < lesson->size; place++) {
        if (!lesson->mask[place]) continue;
        size_t begin = place < last ? place : last;
        if (windows) {
            fb_pattern_window *window = &windows[count];
            window->place = (uint32_t)begin;
            memcpy(window->mask, lesson->mask + begin, FB_PATTERN_WINDOW);
            for (size_t i = 0; i < FB_PATTERN_WINDOW; i++) window->same[i] = lesson->sample[begin + i] & window->mask[i];
        }
        count++;
        place = begin + FB_PATTERN_WINDOW - 1;
    }
    return count;
}

/* One block for a pattern: it, its windows and its groups, which are read by whole cache lines, then the rest. */
static fb_pattern *write_pattern(fb_memory *memory, const fb_lesson *lesson, const list *values, uint32_t key) {
    size_t groups = 0, windows = write_windows(lesson, NULL);
    for (size_t i = 0; i < values->lane_end; i = end_group(values, i)) groups++;
    size_t octets = FB_CACHE_LINE + sizeof(fb_pattern) + windows * sizeof(fb_pattern_window) + groups * sizeof(fb_lane_group) +
                    values->count * sizeof *values->values + lesson->bound_count * sizeof *lesson->bounds;
    void *block = fb_memory_allocate(memory, octets);
    if (!block) return NULL;
    fb_pattern *pattern = fb_align_to_line(block);
    fb_pattern_window *window = (fb_pattern_window *)(pattern + 1);
    fb_lane_group *group = (fb_lane_group *)(window + windows);
    fb_pattern_value *value = (fb_pattern_value *)(group + groups);
    fb_pattern_bound *bounds = (fb_pattern_bound *)(value + values->count);
    *pattern = (fb_pattern){
        .block = block, .octets = octets, .key = key, .window_count = windows, .bound_count = (uint32_t)lesson->bound_count,
        .worst = lesson->plan->fixed_worst + lesson->size * lesson->plan->octet_worst,
        .bounds = bounds, .values = value, .groups = group, .group_count = (uint16_t)groups,
        .lane_end = (uint16_t)values->lane_end, .number_end = (uint16_t)values->number_end,
        .address_end = (uint16_t)values->address_end, .value_count = (uint16_t)values->count,
    };
    write_windows(lesson, window);
    for (size_t i = 0; i < values->lane_end; i = group++->end) write_group(values, group, i);
    memcpy(value, values->values, values->count * sizeof *value);
    memcpy(bounds, lesson->bounds, lesson->bound_count * sizeof *bounds);
    return pattern;
}

/* Keeping ------------------------------------------------------------------------------------------------------------- */

fb_patterns fb_patterns_new(const fb_plan *plan, fb_memory *memory, bool wide) {
    return (fb_patterns){.plan = plan, .memory = memory, .wide = wide};
}

static void release(fb_patterns *patterns, fb_pattern *pattern) {
    if (pattern) fb_memory_release(patterns->memory, pattern->block, pattern->octets);
}

void fb_patterns_free(fb_patterns *patterns) {
    if (!patterns->table) return;
    for (size_t i = 0; i < FB_PATTERN_PLACES; i++) release(patterns, patterns->table->patterns[i]);
    fb_memory_release(patterns->memory, patterns->table, sizeof *patterns->table);
    patterns->table = NULL;
}

FB_NOINLINE static void learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    fb_lesson lesson;
    list values = {.count = 0};
    uint32_t key = fb_pattern_key(sample.size, expanded);
    if (!fb_lesson_read(&lesson, patterns->plan, sample, expanded)) return;
    compiler c = {.plan = patterns->plan, .lesson = &lesson, .wide = patterns->wide};
    sort_out(&c);
    if (!list_all(&c, &values)) return;
    if (!patterns->table && !(patterns->table = fb_memory_allocate(patterns->memory, sizeof *patterns->table))) return;
    fb_pattern *pattern = write_pattern(patterns->memory, &lesson, &values, key);
    if (!pattern) return;
    patterns->table->sizes[fb_pattern_size_place(key)] = (fb_pattern_size){key, (uint32_t)lesson.ip};
    fb_pattern **place = &patterns->table->patterns[fb_pattern_place(key, sample.data + lesson.ip)];
    release(patterns, *place);
    *place = pattern;
}

void fb_patterns_learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    if (patterns->tries++ < FREE_TRIES || patterns->tries % TRIES_A_LESSON == 0) learn(patterns, sample, expanded);
}
