/* Compile a learned sample into a pattern, and store patterns in a table of fixed size. */
#include "core/sflow_pattern/pattern_learn.h"

/* Maximum number of samples of one size that are skipped between two learned samples. */
enum { LONGEST_WAIT = 4095 };

/* Compiling ----------------------------------------------------------------------------------- */

/* State of the compilation of one learned sample. */
typedef struct {
    const fb_plan *plan;
    const fb_pattern_learner *learner;
    bool wide;
    bool dropped[FB_LEARNED_VALUES]; /* a better source always has a value */
    /* put instead of appended: a column of the source may already have a value, or converts it */
    bool step[FB_LEARNED_VALUES];
} compiler;

static const fb_target_range *targets_of(const compiler *c, size_t value) {
    return &c->plan->sources[c->learner->values[value].value.source];
}

/* Return true if a fixed source feeds a column. */
static bool is_source_of(const fb_plan *plan, unsigned source, uint16_t column) {
    const fb_target_range *range = &plan->sources[source];
    for (size_t i = 0; i < range->count; i++)
        if (plan->targets[range->first + i].column == column) return true;
    return false;
}

/* Return true if a value may fill a column. FB_PATTERN_LAYERS has the values of two sources. */
static bool may_fill(const compiler *c, size_t value, uint16_t column) {
    const fb_pattern_value *of = &c->learner->values[value].value;
    if (of->code == FB_PATTERN_UNKNOWN) return false;
    if (of->code == FB_PATTERN_LAYERS &&
        is_source_of(c->plan, FB_SOURCE_PACKET_LAYER_SIZES, column))
        return true;
    return is_source_of(c->plan, of->source, column);
}

/* Return true if every possible value can be appended to a column without conversion. */
static bool accepts_any_value(const fb_column *column, const fb_pattern_value *value) {
    if (!fb_column_has_fast_path(column)) return false;
    if (value->code == FB_PATTERN_ADDRESS) return column->type == FB_TYPE_IP;
    return column->type == FB_TYPE_UINT && value->mask + value->add <= column->limit;
}

/* Return true if a zero is a value of a column. A source with a number in every sample then always
   fills it. */
static bool keeps_zero(const compiler *c, uint16_t column) {
    return c->plan->columns[column].flags & FB_COLUMN_ZERO;
}

/* Return true if an earlier value fills the column in every sample: the first value wins. */
static bool is_filled_before(const compiler *c, size_t value, uint16_t column) {
    for (size_t i = 0; i < value; i++) {
        const fb_learned_value *before = &c->learner->values[i];
        bool fills = (before->least || keeps_zero(c, column)) &&
                     accepts_any_value(&c->plan->columns[column], &before->value);
        if (fills && may_fill(c, i, column)) return true;
    }
    return false;
}

/* Return true if a later value may fill the column. */
static bool may_be_filled_later(const compiler *c, size_t value, uint16_t column) {
    for (size_t i = value + 1; i < c->learner->value_count; i++)
        if (may_fill(c, i, column)) return true;
    return false;
}

/* Return true if a value is zero in every sample. Columns that take it without conversion can skip
   it; explicit columns and enums cannot. */
static bool is_zero(const fb_pattern_value *value) {
    return value->code == FB_PATTERN_NUMBER && value->mask == 0 && value->add == 0;
}

/* Return true if no column needs a value. Only columns of fb_column_has_fast_path get their sources
   in order. */
static bool is_dropped(const compiler *c, size_t value) {
    const fb_pattern_value *of = &c->learner->values[value].value;
    const fb_target_range *range = targets_of(c, value);
    for (size_t i = 0; i < range->count; i++) {
        uint16_t column = c->plan->targets[range->first + i].column;
        bool keeps_away = keeps_zero(c, column) && may_be_filled_later(c, value, column);
        if (is_zero(of) && accepts_any_value(&c->plan->columns[column], of) && !keeps_away)
            continue;
        if (!fb_column_has_fast_path(&c->plan->columns[column]) ||
            !is_filled_before(c, value, column))
            return false;
    }
    return true;
}

/* Return true if a constant of some datagram may fill a column. */
static bool may_be_constant(const fb_plan *plan, uint16_t column) {
    return plan->columns[column].flags & FB_COLUMN_CONSTANT ||
           is_source_of(plan, FB_SOURCE_SFLOW_SUB_AGENT_ID, column) ||
           is_source_of(plan, FB_SOURCE_SFLOW_UPTIME, column);
}

/* Return true if another value of the same sample may fill the column. */
static bool is_shared(const compiler *c, size_t value, uint16_t column) {
    for (size_t i = 0; i < c->learner->value_count; i++)
        if (i != value && !c->dropped[i] && may_fill(c, i, column)) return true;
    return false;
}

static bool is_step(const compiler *c, size_t value) {
    const fb_pattern_value *of = &c->learner->values[value].value;
    const fb_target_range *range = targets_of(c, value);
    for (size_t i = 0; i < range->count; i++) {
        uint16_t column = c->plan->targets[range->first + i].column;
        if (!accepts_any_value(&c->plan->columns[column], of) || may_be_constant(c->plan, column))
            return true;
        if (is_shared(c, value, column)) return true;
    }
    return false;
}

static void classify_values(compiler *c) {
    for (size_t i = 0; i < c->learner->value_count; i++) {
        unsigned code = c->learner->values[i].value.code;
        bool plain = code == FB_PATTERN_NUMBER || code == FB_PATTERN_ADDRESS;
        c->step[i] = !plain;
        c->dropped[i] = plain && is_dropped(c, i);
    }
    for (size_t i = 0; i < c->learner->value_count; i++)
        if (!c->dropped[i] && !c->step[i]) c->step[i] = is_step(c, i);
}

enum { IN_LANES, OTHER_NUMBERS, ADDRESSES };

/* Lanes take whole bytes. */
static unsigned group_of(const compiler *c, const fb_pattern_value *value) {
    if (value->code == FB_PATTERN_ADDRESS) return ADDRESSES;
    bool fits = fb_varint_simd_fit(value->column, value->mask + value->add),
         whole = value->shift % 8 == 0;
    return c->wide && fits && whole ? IN_LANES : OTHER_NUMBERS;
}

/* Choose 8 bytes that contain the number and lie before the end of its part. */
static void set_window(const fb_pattern_learner *learner, fb_pattern_value *value) {
    int last = (int)(learner->end[value->part] - learner->begin[value->part]) - 8;
    value->window = (int16_t)(value->place < last ? value->place : last);
    value->shift = (uint8_t)(8 * (value->window + 8 - value->place - value->size) + value->shift);
}

/* Return false if there are too many values. */
static bool put_value(const fb_pattern_learner *learner, fb_pattern *pattern,
                      fb_pattern_value value) {
    if (pattern->value_count == FB_PATTERN_VALUES) return false;
    if (value.code == FB_PATTERN_NUMBER) set_window(learner, &value);
    pattern->values[pattern->value_count++] = value;
    return true;
}

/* Add the values that are appended, one per column. */
static bool put_appended(const compiler *c, unsigned group, fb_pattern *pattern) {
    for (size_t i = 0; i < c->learner->value_count; i++) {
        if (c->dropped[i] || c->step[i]) continue;
        const fb_target_range *range = targets_of(c, i);
        for (size_t j = 0; j < range->count; j++) {
            fb_pattern_value value = c->learner->values[i].value;
            value.column = &c->plan->columns[c->plan->targets[range->first + j].column];
            if (group_of(c, &value) == group && !put_value(c->learner, pattern, value))
                return false;
        }
    }
    return true;
}

static bool put_steps(const compiler *c, fb_pattern *pattern) {
    for (size_t i = 0; i < c->learner->value_count; i++)
        if (!c->dropped[i] && c->step[i] &&
            !put_value(c->learner, pattern, c->learner->values[i].value))
            return false;
    return true;
}

static bool is_constant(const fb_pattern_value *value) {
    return value->mask == 0;
}

static bool comes_before(const fb_pattern_value *a, const fb_pattern_value *b) {
    if (is_constant(a) || is_constant(b)) return is_constant(b) && !is_constant(a);
    return a->part != b->part ? a->part < b->part : a->place < b->place;
}

/* Sort by position, because a group of lanes reads from two places only. Constants have no
   position. They come last and fill up the last group. */
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

/* Return true if a number is within reach of a place of the group. If necessary, and if fewer than
   two are taken, take another place. */
static bool is_in_reach(fb_pattern_group *group, unsigned *places, const fb_pattern_value *value,
                        unsigned *place) {
    for (*place = 0; *place < *places; ++*place) {
        int offset = value->place - group->place[*place];
        if (value->part == group->part[*place] && offset + value->size <= FB_SIMD_REACH)
            return true;
    }
    if (*places == 2) return false;
    group->part[*places] = value->part;
    group->place[*places] = value->place;
    ++*places;
    return true;
}

static void write_group(const fb_pattern *pattern, fb_pattern_group *group, uint8_t first) {
    size_t reach[2] = {0, 0};
    unsigned places = 0, place = 0;
    *group = (fb_pattern_group){.first = first, .end = first};
    for (; group->end < pattern->lane_end && group->end - first < FB_SIMD_LANES; group->end++) {
        const fb_pattern_value *value = &pattern->values[group->end];
        size_t offset = 0;
        if (!is_constant(value)) {
            if (!is_in_reach(group, &places, value, &place)) break;
            offset = (size_t)(value->place - group->place[place]);
            if (offset + value->size > reach[place]) reach[place] = offset + value->size;
        }
        fb_varint_simd_set(&group->lanes, group->end - first, value->column,
                           FB_SIMD_REACH * place + offset, value->size, value->mask, value->add);
    }
    fb_varint_simd_set_window(&group->lanes, reach[0], reach[1]);
}

static bool put_groups(fb_pattern *pattern) {
    for (uint16_t i = 0; i < pattern->lane_end; i = pattern->groups[pattern->group_count++].end) {
        if (pattern->group_count == FB_PATTERN_GROUPS) return false;
        write_group(pattern, &pattern->groups[pattern->group_count], (uint8_t)i);
    }
    return true;
}

/* Cover the fixed bytes of a part with windows. A window may begin before its part; no bytes are
   fixed there. */
static bool put_windows(const fb_pattern_learner *learner, size_t part, fb_pattern *pattern) {
    size_t begin = learner->begin[part], end = learner->end[part];
    for (size_t place = begin; place < end; place++) {
        if (!learner->mask[place]) continue;
        if (pattern->window_count == FB_PATTERN_WINDOWS) return false;
        fb_pattern_window *window = &pattern->windows[pattern->window_count++];
        size_t first = place < end - FB_PATTERN_WINDOW ? place : end - FB_PATTERN_WINDOW;
        window->part = (uint16_t)part;
        window->place = (int16_t)((int)first - (int)begin);
        for (size_t i = 0; i < FB_PATTERN_WINDOW; i++) {
            window->mask[i] = first + i < begin ? 0 : learner->mask[first + i];
            window->same[i] = learner->sample[first + i] & window->mask[i];
        }
        place = first + FB_PATTERN_WINDOW - 1;
    }
    return true;
}

static bool put_all_windows(const fb_pattern_learner *learner, fb_pattern *pattern) {
    for (size_t part = 0; part < FB_SAMPLE_PARTS; part++)
        if (learner->begin[part] != SIZE_MAX && !put_windows(learner, part, pattern)) return false;
    return true;
}

/* Return false if the sample exceeds the limits of a pattern. */
static bool write_pattern(const compiler *c, fb_pattern *pattern) {
    const fb_pattern_learner *learner = c->learner;
    *pattern = (fb_pattern){
        .header_needed = (uint16_t)(learner->exact ? 0 : learner->header_needed),
        .gateway_needed = (uint16_t)learner->gateway_needed,
        .has_path = learner->gateway_needed && learner->parts.found.next_hop,
    };
    if (!put_values(c, pattern) || !put_groups(pattern) || !put_all_windows(learner, pattern))
        return false;
    pattern->bound_count = (uint16_t)learner->bound_count;
    memcpy(pattern->bounds, learner->bounds, learner->bound_count * sizeof *learner->bounds);
    return true;
}

/* Storing ------------------------------------------------------------------------------------- */

fb_patterns fb_patterns_new(const fb_plan *plan, fb_memory *memory, bool wide) {
    return (fb_patterns){.plan = plan, .memory = memory, .wide = wide};
}

static const size_t bytes_of_table = sizeof(fb_pattern_table) + FB_CACHE_LINE;

void fb_patterns_free(fb_patterns *patterns) {
    if (patterns->block) fb_memory_release(patterns->memory, patterns->block, bytes_of_table);
    patterns->block = patterns->table = NULL;
    patterns->exact_count = 0;
}

/* Allocate the memory of all patterns at once. Learning allocates nothing else. */
static bool make_table(fb_patterns *patterns) {
    if (patterns->table) return true;
    patterns->block = fb_memory_allocate(patterns->memory, bytes_of_table);
    if (patterns->block) patterns->table = fb_align_to_line(patterns->block);
    return patterns->table;
}

/* Return an empty entry; NULL: all are taken. */
static fb_pattern *find_empty_place(const fb_patterns *patterns, size_t place) {
    for (size_t probe = 0; probe < FB_PATTERN_PROBES; probe++)
        if (!patterns->table->patterns[place ^ probe].key)
            return &patterns->table->patterns[place ^ probe];
    return NULL;
}

static bool write_learned(const fb_patterns *patterns, const fb_pattern_learner *learner,
                          uint32_t key, fb_pattern *pattern) {
    compiler c = {.plan = patterns->plan, .learner = learner, .wide = patterns->wide};
    classify_values(&c);
    pattern->key = 0;
    if (!write_pattern(&c, pattern)) return false;
    pattern->key = key;
    return true;
}

/* Return false if there is no room for another exact pattern. */
static bool learn_exact(fb_patterns *patterns, const fb_pattern_learner *learner, fb_bytes sample,
                        bool expanded) {
    uint32_t key = fb_sample_size_key(sample, expanded);
    size_t header = (size_t)(learner->parts.header.data - learner->sample);
    fb_pattern *pattern =
        find_empty_place(patterns, fb_pattern_place(key, learner->parts.header.data));
    if (!pattern || patterns->exact_count == FB_PATTERN_EXACT) return false;
    if (!write_learned(patterns, learner, key, pattern)) return true;
    patterns->exact_count++;
    patterns->table->sizes[fb_sample_size_place(sample, expanded)] =
        (fb_sample_size){key, (uint32_t)header};
    return true;
}

static void switch_to_general(fb_patterns *patterns) {
    patterns->general = true;
    memset(patterns->table, 0, sizeof *patterns->table);
    memset(patterns->turns, 0, sizeof patterns->turns);
}

/* Return true if there is one more pattern. If no entry is empty, one is replaced. */
static bool learn_general(fb_patterns *patterns, const fb_pattern_learner *learner) {
    size_t place = fb_pattern_place(learner->parts.key, learner->parts.header.data);
    fb_pattern *empty = find_empty_place(patterns, place);
    fb_pattern *pattern =
        empty ? empty
              : &patterns->table->patterns[place ^ patterns->replaced++ % FB_PATTERN_PROBES];
    return write_learned(patterns, learner, learner->parts.key, pattern) && empty;
}

FB_NOINLINE static bool learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    fb_pattern_learner learner;
    uint32_t before = patterns->exact_count;
    if (!fb_pattern_learner_read(&learner, patterns->plan, sample, expanded, !patterns->general) ||
        !make_table(patterns))
        return false;
    if (patterns->general) return learn_general(patterns, &learner);
    if (learn_exact(patterns, &learner, sample, expanded)) return patterns->exact_count > before;
    switch_to_general(patterns);
    return true;
}

void fb_patterns_learn(fb_patterns *patterns, fb_bytes sample, bool expanded) {
    if (sample.size > FB_PATTERN_BYTES) return;
    fb_pattern_turn *turn = &patterns->turns[fb_sample_size_place(sample, expanded)];
    if (turn->missed++ < turn->wait) return;
    bool gained = learn(patterns, sample, expanded);
    turn->missed = 0;
    if (gained) turn->wait = 0;
    else if (turn->wait < LONGEST_WAIT) turn->wait = (uint16_t)(2 * turn->wait + 1);
    else turn->wait = LONGEST_WAIT;
}
