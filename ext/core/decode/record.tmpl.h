/* Records of a template: each becomes one flow, or two. */
#ifndef FB_DECODE_RECORD_TMPL_H
#define FB_DECODE_RECORD_TMPL_H

#include "core/exporter/sampling.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/operation.tmpl.h"
#include "core/decode/rates.h"

/* True if an IPFIX record states the start time of the exporter. The time is valid for that record
   only. */
FB_INLINE bool has_system_init(const fb_compiled_template *compiled) {
    return compiled->version == 10 &&
           fb_compiled_template_has_role(compiled, FB_ROLE_SYSTEM_INIT_TIME);
}

FB_NOINLINE static fb_cursor run_with_system_init(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                                  const fb_compiled_template *compiled,
                                                  const uint8_t *record,
                                                  const fb_location *locations) {
    fb_context own = *c;
    uint64_t system_init = fb_system_init_read(compiled, record, locations);
    if (system_init) fb_context_set_system_init(&own, system_init);
    return run_record(&own, emitter, at, compiled, record, locations);
}

/* Emit one flow from a record. NO_SPACE. */
static fb_status put_flow(fb_context *c, fb_emitter *emitter, const fb_compiled_template *compiled,
                          size_t max_size, const uint8_t *record, const fb_location *locations) {
    fb_cursor at;
    if (!FB_EMIT(begin)(emitter, max_size, &at)) return FB_NO_SPACE;
    if (FB_UNLIKELY(c->rates != NULL))
        fb_rates_set_interface(c, fb_ingress_interface_read(compiled, record, locations));
    if (FB_UNLIKELY(has_system_init(compiled)))
        at = run_with_system_init(c, emitter, at, compiled, record, locations);
    else at = run_record(c, emitter, at, compiled, record, locations);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_FLOWS]++;
    return FB_OK;
}

/* Return true if a counter of the reverse direction is not zero. A field with an invalid size is
   ignored. */
static bool has_reverse_flow(const fb_compiled_template *reverse, const uint8_t *record,
                             const fb_location *locations) {
    for (size_t i = 0; i < reverse->counter_count; i++) {
        fb_bytes field =
            fb_compiled_template_field(reverse, reverse->counters[i], record, locations);
        if (field.size >= 1 && field.size <= 8 && fb_load_uint(field.data, field.size)) return true;
    }
    return false;
}

/* Emit two flows (RFC 5103) or one. Room for both is reserved first, so decoding never resumes
   between them. NO_SPACE: none was emitted. */
FB_NOINLINE static fb_status put_biflow(fb_context *c, fb_emitter *emitter,
                                        const fb_compiled_template *compiled, size_t max_size,
                                        const uint8_t *record, const fb_location *locations) {
    bool both = has_reverse_flow(compiled->reverse, record, locations);
    if (both && !FB_EMIT(reserve)(emitter, 2, max_size)) return FB_NO_SPACE;
    for (; compiled; compiled = both ? compiled->reverse : NULL)
        if (put_flow(c, emitter, compiled, max_size, record, locations) != FB_OK)
            return FB_NO_SPACE;
    if (both) fb_context_count(c, FB_BIFLOW, record);
    return FB_OK;
}

/* Count the flows of a record that is skipped. */
FB_NOINLINE static fb_status skip_record(fb_context *c, const fb_compiled_template *compiled,
                                         const uint8_t *record, const fb_location *locations) {
    bool both = compiled->reverse && has_reverse_flow(compiled->reverse, record, locations);
    c->counters->status[FB_RATE_LIMITED] += both ? 2 : 1;
    return FB_OK;
}

/* Emit the flows of a record. NO_SPACE: none was emitted. `locations` is NULL for a record of fixed
   size. */
static fb_status put_record(fb_context *c, fb_emitter *emitter,
                            const fb_compiled_template *compiled, size_t size,
                            const uint8_t *record, const fb_location *locations) {
    size_t max_size = max_row_size(c, size);
    if (FB_UNLIKELY(c->skips)) return skip_record(c, compiled, record, locations);
    if (FB_UNLIKELY(compiled->reverse != NULL))
        return put_biflow(c, emitter, compiled, max_size, record, locations);
    return put_flow(c, emitter, compiled, max_size, record, locations);
}

/* True if records of a compiled template can use the fast path. Each gives exactly one row, no late
   value waits for the end of the row, and no record needs the slow path. */
static bool has_fast_path(const fb_context *c, const fb_emitter *emitter,
                          const fb_compiled_template *compiled) {
    return FB_EMIT(has_fast_path)(emitter) && !compiled->reverse && !compiled->list_count &&
           !has_system_init(compiled) && !c->slow;
}

static uint64_t find_value_of_set(fb_context *c, const fb_compiled_template *compiled,
                                  const fb_op *op, const uint8_t *record,
                                  const fb_location *locations) {
    switch (op->code) {
        case FB_OP_RATE_OF_SAMPLER:
            return find_rate(c, fb_load_uint(find_field(op, record, locations), op->size));
        case FB_OP_DERIVED_SAMPLING_RATE: return fb_sampling_find(c, compiled, record, locations);
        default: return derive_etype(compiled, record, locations);
    }
}

/* Store the values that all records of a set share, from this record on, as constants of the set.
   The caller ends the set with end_set. */
static void begin_fast_set(fb_context *c, fb_emitter *emitter, const fb_compiled_template *compiled,
                           const uint8_t *record, const fb_location *locations) {
    fb_cursor at;
    FB_EMIT(begin_set)(emitter, &at);
    for (const fb_op *op = compiled->ops + compiled->move_end,
                     *end = compiled->ops + compiled->set_end;
         op < end; op++)
        FB_EMIT(append_uint)
    (emitter, &at, op->column, find_value_of_set(c, compiled, op, record, locations), 8);
    FB_EMIT(end_set_constants)(emitter, at);
}

static uint64_t sampler_of(const fb_compiled_template *compiled, const uint8_t *record,
                           const fb_location *locations) {
    return fb_load_uint(find_field(compiled->sampler, record, locations), compiled->sampler->size);
}

/* Return the first record with another sampler. Each size of sampler has its own loop. */
FB_INLINE const uint8_t *find_other_sampler(const uint8_t *record, const uint8_t *end, size_t step,
                                            size_t offset, size_t size) {
    uint64_t sampler = fb_load_uint(record + offset, size);
    do record += step;
    while (record < end && fb_load_uint(record + offset, size) == sampler);
    return record;
}

/* Return the end of the run of fixed-size records that share the constants of the set. REQUIRES: at
   least one record. */
static const uint8_t *find_run(const fb_compiled_template *compiled, const uint8_t *record,
                               const uint8_t *end) {
    if (!compiled->sampler) return end;
    size_t step = compiled->record_size, offset = compiled->sampler->offset,
           size = compiled->sampler->size;
    switch (size) {
        case 1: return find_other_sampler(record, end, step, offset, 1);
        case 2: return find_other_sampler(record, end, step, offset, 2);
        case 4: return find_other_sampler(record, end, step, offset, 4);
        default: return find_other_sampler(record, end, step, offset, size);
    }
}

/* Emit one flow on the fast path. Returns false if there are less than `max_size` bytes of room. */
FB_INLINE bool put_fast(fb_context *c, fb_emitter *emitter, const fb_compiled_template *compiled,
                        size_t max_size, const uint8_t *record, const fb_location *locations) {
    fb_cursor at;
    if (!FB_EMIT(begin)(emitter, max_size, &at)) return false;
    at = run_fast(c, emitter, at, compiled, record, locations);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_FLOWS]++;
    return true;
}

#ifdef FB_BY_COLUMN
#include "core/decode/run.tmpl.h"
#elif defined FB_BY_BLOCK
#include "core/decode/block.tmpl.h"
#else
/* Other decoders decode records one by one. */
FB_INLINE size_t put_run(fb_context *c, fb_emitter *emitter, const fb_compiled_template *compiled,
                         const uint8_t *record, size_t count) {
    (void)c, (void)emitter, (void)compiled, (void)record, (void)count;
    return 0;
}
#endif
#ifndef FB_BY_COLUMN
FB_INLINE size_t most_located(const fb_emitter *emitter) {
    (void)emitter;
    return 1;
}

FB_INLINE size_t put_located_run(fb_context *c, fb_emitter *emitter,
                                 const fb_compiled_template *compiled, const fb_location *locations,
                                 size_t count, const uint8_t *end) {
    (void)c, (void)emitter, (void)compiled, (void)locations, (void)count, (void)end;
    return 0;
}
#endif

/* Emit the fixed-size records that begin before `end`, and move *p past them. NO_SPACE: some
   remain. REQUIRES: the last record is complete. */
static fb_status put_fixed_records(fb_context *c, fb_emitter *emitter,
                                   const fb_compiled_template *compiled, const uint8_t **p,
                                   const uint8_t *end) {
    size_t size = compiled->record_size, max_size = max_row_size(c, size);
    bool room = true;
    if (!has_fast_path(c, emitter, compiled)) {
        for (; *p < end; *p += size)
            if (put_record(c, emitter, compiled, size, *p, NULL) != FB_OK) return FB_NO_SPACE;
        return FB_OK;
    }
    while (*p < end && room) {
        const uint8_t *record = *p, *run = find_run(compiled, record, end);
        begin_fast_set(c, emitter, compiled, record, NULL);
        size_t left = ((size_t)(run - record) + size - 1) / size;
        for (size_t done; left && (done = put_run(c, emitter, compiled, record, left));
             left -= done)
            record += size * done;
        for (; left && (room = put_fast(c, emitter, compiled, max_size, record, NULL)); left--)
            record += size;
        FB_EMIT(end_set)(emitter);
        *p = record;
    }
    return room ? FB_OK : FB_NO_SPACE;
}

#endif
