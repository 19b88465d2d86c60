/* Turns lessons into patterns, and keeps them. */
#include "lesson.h"

/* The most samples of one size that fit no pattern and are not learned from, between two that are. */
enum { LONGEST_WAIT = 4095 };

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

enum { IN_LANES, OTHER_NUMBERS, ADDRESSES };

/* Lanes take whole octets. */
static unsigned group_of(const compiler *c, const fb_pattern_value *value) {
    if (value->code == FB_PATTERN_ADDRESS) return ADDRESSES;
    bool fits = fb_lanes_fit(value->column, value->mask + value->add), whole = value->shift % 8 == 0;
    return c->wide && fits && whole ? IN_LANES : OTHER_NUMBERS;
}

/* False: there are too many. */
static bool put_value(fb_pattern *pattern, fb_pattern_value value) {
    if (pattern->value_count == FB_PATTERN_VALUES) return false;
    pattern->values[pattern->value_count++] = value;
    return true;
}

/* Values that are appended, one for each column. */
static bool put_appended(const compiler *c, unsigned group, fb_pattern *pattern) {
    for (size_t i = 0; i < c->lesson->value_count; i++) {
        if (c->dropped[i] || c->step[i]) continue;
        const fb_target_range *range = targets_of(c, i);
        for (size_t j = 0; j < range->count; j++) {
            fb_pattern_value value = c->lesson->values[i].value;
            value.column = &c->plan->columns[c->plan->targets[range->first + j].column];
            if (group_of(c, &value) == group && !put_value(pattern, value)) return false;
        }
    }
    return true;
}

static bool put_steps(const compiler *c, fb_pattern *pattern) {
    for (size_t i = 0; i < c->lesson->value_count; i++)
        if (!c->dropped[i] && c->step[i] && !put_value(pattern, c->lesson->values[i].value)) return false;
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
static void sort_lanes(fb_pattern *pattern) {
    fb_pattern_value *values = pattern->values;
    for (size_t i = 1; i < pattern->lane_end; i++)
        for (size_t j = i; j && comes_before(&values[j], &values[j - 1]); j--) {
            fb_pattern_value before = values[j - 1];
            values[j - 1] = values[j];
            values[j] = before;
        }
}

static bool put_values(const compiler *c, fb_pattern *pattern) {
    if (!put_appended(c, IN_LANES, pattern)) return false;
    pattern->lane_end = pattern->value_count;
    sort_lanes(pattern);
    if (!put_appended(c, OTHER_NUMBERS, pattern)) return false;
    pattern->number_end = pattern->value_count;
    if (!put_appended(c, ADDRESSES, pattern)) return false;
    pattern->address_end = pattern->value_count;
    return put_steps(c, pattern);
}

static uint16_t end_group(const fb_pattern *pattern, uint16_t first) {
    uint16_t end = first;
    for (const fb_pattern_value *value = &pattern->values[first]; end < pattern->lane_end && end - first < FB_LANES; end++, value++)
        if (!is_constant(value) && value->place + value->size - pattern->values[first].place > FB_LANES_WINDOW) break;
    return end;
}

static void write_group(const fb_pattern *pattern, fb_lane_group *group, uint16_t first) {
    size_t window = 0, begin = pattern->values[first].place;
    *group = (fb_lane_group){.offset = (uint16_t)begin, .first = first, .end = end_group(pattern, first)};
    for (unsigned lane = 0; first + lane < group->end; lane++) {
        const fb_pattern_value *value = &pattern->values[first + lane];
        size_t offset = is_constant(value) ? 0 : value->place - begin;
        fb_lanes_set(&group->lanes, lane, value->column, offset, value->size, value->mask, value->add);
        if (offset + value->size > window) window = offset + value->size;
    }
    fb_lanes_set_window(&group->lanes, window);
}

static bool put_groups(fb_pattern *pattern) {
    for (uint16_t i = 0; i < pattern->lane_end; i = pattern->groups[pattern->group_count++].end) {
        if (pattern->group_count == FB_PATTERN_GROUPS) return false;
        write_group(pattern, &pattern->groups[pattern->group_count], i);
    }
    return true;
}

/* Windows over all octets that must be the same, as few as there need be. */
static bool put_windows(const fb_lesson *lesson, fb_pattern *pattern) {
    size_t last = lesson->size - FB_PATTERN_WINDOW;
    for (size_t place = 0; place < lesson->size; place++) {
        if (!lesson->mask[place]) continue;
        if (pattern->window_count == FB_PATTERN_WINDOWS) return false;
        fb_pattern_window *window = &pattern->windows[pattern->window_count++];
        size_t begin = place < last ? place : last;
        window->place = (uint32_t)begin;
        memcpy(window->mask, lesson->mask + begin, FB_PATTERN_WINDOW);
        for (size_t i = 0; i < FB_PATTERN_WINDOW; i++) window->same[i] = lesson->sample[begin + i] & window->mask[i];
        place = begin + FB_PATTERN_WINDOW - 1;
    }
    return true;
}

/* False: it has more than a pattern may have. */
static bool write_pattern(const compiler *c, fb_pattern *pattern) {
    const fb_lesson *lesson = c->lesson;
    *pattern = (fb_pattern){.worst = c->plan->fixed_worst + lesson->size * c->plan->octet_worst};
    if (!put_values(c, pattern) || !put_groups(pattern) || !put_windows(lesson, pattern)) return false;
    pattern->bound_count = (uint16_t)lesson->bound_count;
    memcpy(pattern->bounds, lesson->bounds, lesson->bound_count * sizeof *lesson->bounds);
    return true;
}

/* Keeping ------------------------------------------------------------------------------------------------------------- */

fb_patterns fb_patterns_new(const fb_plan *plan, fb_memory *memory, bool wide) {
    return (fb_patterns){.plan = plan, .memory = memory, .wide = wide};
}

static const size_t octets_of_table = sizeof(fb_pattern_table) + FB_CACHE_LINE;

void fb_patterns_free(fb_patterns *patterns) {
    if (patterns->block) fb_memory_release(patterns->memory, patterns->block, octets_of_table);
    patterns->block = patterns->table = NULL;
}

/* All memory that there will be for patterns: nothing is allocated for one. */
static bool make_table(fb_patterns *patterns) {
    if (patterns->table) return true;
    patterns->block = fb_memory_allocate(patterns->memory, octets_of_table);
    if (patterns->block) patterns->table = fb_align_to_line(patterns->block);
    return patterns->table;
}

/* The first that is empty; where none is, each in turn. */
static fb_pattern *choose_place(fb_patterns *patterns, size_t place) {
    for (size_t way = 0; way < FB_PATTERN_WAYS; way++)
        if (!patterns->table->patterns[place ^ way].key) return &patterns->table->patterns[place ^ way];
    return &patterns->table->patterns[place ^ patterns->replaced++ % FB_PATTERN_WAYS];
}

/* Whether there is one pattern more. */
FB_NOINLINE static bool learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    fb_lesson lesson;
    uint32_t key = fb_pattern_key(sample.size, expanded);
    if (!fb_lesson_read(&lesson, patterns->plan, sample, expanded) || !make_table(patterns)) return false;
    compiler c = {.plan = patterns->plan, .lesson = &lesson, .wide = patterns->wide};
    sort_out(&c);
    fb_pattern *pattern = choose_place(patterns, fb_pattern_place(key, sample.data + lesson.ip));
    bool empty = !pattern->key;
    if (!write_pattern(&c, pattern)) return false;
    pattern->key = key;
    patterns->table->sizes[fb_pattern_size_place(key)] = (fb_pattern_size){key, (uint32_t)lesson.ip};
    return empty;
}

void fb_patterns_learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    fb_pattern_turn *turn = &patterns->turns[fb_pattern_size_place(fb_pattern_key(sample.size, expanded))];
    if (turn->missed++ < turn->wait) return;
    bool one_more = learn(patterns, sample, expanded);
    turn->missed = 0;
    turn->wait = (uint16_t)(one_more ? 0 : turn->wait < LONGEST_WAIT ? 2 * turn->wait + 1 : LONGEST_WAIT);
}
