/* Put a decoded value into a column: check its range, convert its unit, enum, address or text. This
   code uses the emitter interface only (emit/emitter.h).

   The `set` functions put the value of a fixed source into every column that it feeds. The `put`
   functions put one value into one column. Both count values that they leave out, but only while
   the column still needs a value. */
#ifndef FB_DECODE_VALUE_TMPL_H
#define FB_DECODE_VALUE_TMPL_H

#include "core/decode/decode.h"
#include "core/emit/emitter.h"
#include "core/exporter/context.h"

#include <math.h>

static void count_fault(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                        fb_status status, const uint8_t *p) {
    if (!FB_EMIT(accepts)(emitter, at, target)) return;
    fb_context_count(c, status, p);
    if (status == FB_OUT_OF_RANGE || status == FB_BAD_FIELD_SIZE)
        fb_context_leave_out(c, target.column);
}

/* Look up an enum value at its own index, which works if wire values are 0, 1, 2 and so on. Returns
   false if it is not there. */
FB_INLINE bool find_member(const fb_column *column, uint64_t value, uint64_t *number) {
    if (value >= column->mappings_size || column->mappings[value].from != value) return false;
    *number = column->mappings[value].to;
    return true;
}

static bool map_enum(const fb_column *column, uint64_t value, uint64_t *number) {
    size_t low = 0, high = column->mappings_size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (column->mappings[middle].from < value) low = middle + 1;
        else high = middle;
    }
    if (low == column->mappings_size || column->mappings[low].from != value) return false;
    *number = column->mappings[low].to;
    return true;
}

/* Put a real number. A number that is finite on the wire must be finite in its column. A number too
   small for a float becomes zero. */
static fb_cursor put_real(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                          double value) {
    bool narrow = c->plan->columns[target.column].type == FB_TYPE_FLOAT;
    if (narrow && isfinite(value) && !isfinite((float)value))
        count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, NULL);
    else FB_EMIT(put_real)(emitter, &at, target, narrow ? (double)(float)value : value);
    return at;
}

/* Put an unsigned integer into a column of any type that takes integers. */
FB_NOINLINE static fb_cursor convert_uint(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                          fb_target target, uint64_t value) {
    const fb_column *column = &c->plan->columns[target.column];
    uint64_t number = 0;
    switch (column->type) {
        case FB_TYPE_ENUM:
            if (!map_enum(column, value, &number)) {
                count_fault(c, emitter, at, target, FB_UNMAPPED, NULL);
                if (column->flags & FB_COLUMN_REPEATED) return at; /* not a member of a list */
                target.zero = false;                               /* and zero is not a value */
            }
            FB_EMIT(put_uint)(emitter, &at, target, number);
            return at;
        case FB_TYPE_BOOL: FB_EMIT(put_uint)(emitter, &at, target, value != 0); return at;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return put_real(c, emitter, at, target, (double)value);
        default: break;
    }
    if (value > column->limit) {
        count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, NULL);
    } else if (column->type == FB_TYPE_INT || column->type == FB_TYPE_SINT ||
               column->type == FB_TYPE_DURATION) {
        FB_EMIT(put_int)(emitter, &at, target, (int64_t)value);
    } else {
        FB_EMIT(put_uint)(emitter, &at, target, value);
    }
    return at;
}

FB_INLINE fb_cursor put_uint(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                             uint64_t value) {
    const fb_column *column = &c->plan->columns[target.column];
    if (FB_UNLIKELY(column->type != FB_TYPE_UINT || value > column->limit))
        return convert_uint(c, emitter, at, target, value);
    FB_EMIT(put_uint)(emitter, &at, target, value);
    return at;
}

static fb_cursor put_int(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                         int64_t value) {
    const fb_column *column = &c->plan->columns[target.column];
    uint64_t magnitude = value < 0 ? ~(uint64_t)value : (uint64_t)value;
    if (column->type == FB_TYPE_FLOAT || column->type == FB_TYPE_DOUBLE)
        return put_real(c, emitter, at, target, (double)value);
    if (magnitude > column->limit) count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, NULL);
    else FB_EMIT(put_int)(emitter, &at, target, value);
    return at;
}

/* Convert nanoseconds to units of a column. Division by a variable is slow, so the common case,
   milliseconds, divides by a constant. */
FB_INLINE uint64_t in_units(uint64_t nanoseconds, uint64_t unit) {
    return FB_LIKELY(unit == FB_MILLISECOND) ? nanoseconds / FB_MILLISECOND : nanoseconds / unit;
}

/* Put a time in nanoseconds since 1970, or a duration in nanoseconds. */
static fb_cursor put_nanoseconds(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                                 uint64_t value) {
    const fb_column *column = &c->plan->columns[target.column];
    bool timed = column->type == FB_TYPE_TIMESTAMP || column->type == FB_TYPE_DURATION;
    return convert_uint(c, emitter, at, target, timed ? in_units(value, column->unit) : value);
}

FB_INLINE fb_cursor put_ip(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                           const uint8_t *p, size_t size) {
    if (fb_is_no_address(p, size)) return at;
    if (FB_LIKELY(c->plan->columns[target.column].type == FB_TYPE_IP))
        FB_EMIT(put_ip)(emitter, &at, target, p, size);
    else FB_EMIT(put_bytes)(emitter, &at, target, p, size);
    return at;
}

#define FB_FOR_TARGETS(c, source, target) \
    for (const fb_target *target = (c)->plan->targets + (c)->plan->sources[source].first, \
                         *target##_end = target + (c)->plan->sources[source].count; \
         target != target##_end; target++)

FB_NOINLINE static fb_cursor set_uint_long(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                           fb_source source, uint64_t value) {
    FB_FOR_TARGETS(c, source, target) at = put_uint(c, emitter, at, *target, value);
    return at;
}

FB_INLINE void set_uint(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                        uint64_t value) {
    const fb_target_range *range = &c->plan->sources[source];
    if (FB_LIKELY(value < range->bound)) FB_EMIT(put_fast)(emitter, at, range, value);
    else if (range->count) *at = set_uint_long(c, emitter, *at, source, value);
}

/* Like set_uint, for a source that usually feeds an enum column. */
FB_INLINE void set_enum(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                        uint64_t value) {
    const fb_target_range *range = &c->plan->sources[source];
    uint64_t number;
    if (FB_LIKELY(range->path == FB_PATH_ENUM) &&
        find_member(&c->plan->columns[range->target.column], value, &number))
        FB_EMIT(put_fast)(emitter, at, range, number);
    else set_uint(c, emitter, at, source, value);
}

/* Put a list member into one column. A column that is not repeated takes the first non-zero
   member. */
FB_NOINLINE static fb_cursor put_member(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                        fb_target target, uint64_t value) {
    const fb_column *column = &c->plan->columns[target.column];
    if (!(column->flags & FB_COLUMN_REPEATED)) {
        target.zero = false;
        return convert_uint(c, emitter, at, target, value);
    }
    double real = (double)value;
    switch (column->type) {
        case FB_TYPE_ENUM:
            if (map_enum(column, value, &value)) break;
            count_fault(c, emitter, at, target, FB_UNMAPPED, NULL);
            return at;
        case FB_TYPE_BOOL: value = value != 0; break;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: memcpy(&value, &real, 8); break;
        default:
            if (value <= column->limit) break;
            count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, NULL);
            return at;
    }
    FB_EMIT(repeat_uint)(emitter, &at, target, value);
    return at;
}

static fb_cursor end_list(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target) {
    if (c->plan->columns[target.column].flags & FB_COLUMN_REPEATED)
        FB_EMIT(close)(emitter, &at, target.column);
    return at;
}

static void set_member(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                       uint64_t value) {
    FB_FOR_TARGETS(c, source, target) *at = put_member(c, emitter, *at, *target, value);
}

static void set_member_ip(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                          const uint8_t *p, size_t size) {
    FB_FOR_TARGETS(c, source, target) {
        if (c->plan->columns[target->column].flags & FB_COLUMN_REPEATED)
            FB_EMIT(repeat_bytes)(emitter, at, *target, p, size);
        else *at = put_ip(c, emitter, *at, *target, p, size);
    }
}

/* End the list of a source, so that sources of lower rank add nothing to it. */
FB_INLINE void close_list(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source) {
    FB_FOR_TARGETS(c, source, target) *at = end_list(c, emitter, *at, *target);
}

FB_NOINLINE static fb_cursor set_ip_long(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                         fb_source source, const uint8_t *p, size_t size) {
    FB_FOR_TARGETS(c, source, target) at = put_ip(c, emitter, at, *target, p, size);
    return at;
}

FB_INLINE void set_ip(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                      const uint8_t *p, size_t size) {
    const fb_target_range *range = &c->plan->sources[source];
    if (range->path == FB_PATH_NONE || fb_is_no_address(p, size)) return;
    if (FB_LIKELY(range->path == FB_PATH_FAST))
        FB_EMIT(put_ip)(emitter, at, range->target, p, size);
    else *at = set_ip_long(c, emitter, *at, source, p, size);
}

FB_NOINLINE static fb_cursor set_time_long(fb_context *c, fb_emitter *emitter, fb_cursor at,
                                           fb_source source, uint64_t nanoseconds) {
    FB_FOR_TARGETS(c, source, target) at = put_nanoseconds(c, emitter, at, *target, nanoseconds);
    return at;
}

/* Put a time. 0 means unknown. */
FB_INLINE void set_time(fb_context *c, fb_emitter *emitter, fb_cursor *at, fb_source source,
                        uint64_t nanoseconds) {
    const fb_target_range *range = &c->plan->sources[source];
    if (range->path == FB_PATH_NONE || !nanoseconds) return;
    if (FB_LIKELY(range->path == FB_PATH_FAST)) /* the column holds every time up to FB_TIME_MAX */
        FB_EMIT(put_fast)(emitter, at, range, in_units(nanoseconds, range->column->unit));
    else *at = set_time_long(c, emitter, *at, source, nanoseconds);
}

/* Fields of records -------------------------------------------------------------------------- */

enum { TIME_MISSING, TIME_KNOWN, TIME_OUT_OF_RANGE, TIME_WITHOUT_START };

/* Convert units since 1970 to nanoseconds since 1970. */
static int scale_time(uint64_t value, uint64_t unit, uint64_t *time) {
    *time = value * unit;
    if (value > FB_TIME_MAX / unit) return TIME_OUT_OF_RANGE;
    return value ? TIME_KNOWN : TIME_MISSING;
}

/* Read the NTP format: seconds since 1900, and a fraction in units of 2^-32, rounded to the
   resolution. REQUIRES: 8 bytes. */
static int read_ntp(const uint8_t *p, uint64_t resolution, uint64_t *time) {
    const uint64_t from_1900_to_1970 = 2208988800u;
    uint64_t seconds = fb_load32(p), fraction = fb_load32(p + 4);
    if (!seconds && !fraction) return TIME_MISSING;
    /* no flow is older than 1970, so this is the era from 2036 on */
    if (seconds < from_1900_to_1970) seconds += 1ull << 32;
    uint64_t parts = (fraction * resolution + 0x80000000u) >> 32;
    *time = (seconds - from_1900_to_1970) * FB_SECOND + parts * (FB_SECOND / resolution);
    return TIME_KNOWN;
}

/* The low 11 bits of the fraction of a dateTimeMicroseconds are meaningless (RFC 7011 section
   6.1.9). */
static int read_ntp_microseconds(const uint8_t *p, uint64_t *time) {
    uint8_t bytes[8];
    memcpy(bytes, p, 8);
    bytes[6] &= 0xf8;
    bytes[7] = 0;
    return read_ntp(bytes, 1000000, time);
}

/* Read a time field as nanoseconds since 1970. Zero is a valid relative time, but a missing
   absolute time. REQUIRES: 1 <= size <= 8; 8 for NTP kinds. */
static int read_time(const fb_context *c, uint8_t kind, const uint8_t *p, size_t size,
                     uint64_t *time) {
    uint64_t value = fb_load_uint(p, size);
    switch (kind) {
        case FB_KIND_TIME_S: return scale_time(value, FB_SECOND, time);
        case FB_KIND_TIME_MS: return scale_time(value, FB_MILLISECOND, time);
        case FB_KIND_TIME_NTP_US: return read_ntp_microseconds(p, time);
        case FB_KIND_TIME_NTP_NS: return read_ntp(p, 1000000000, time);
        case FB_KIND_TIME_UPTIME:
            if (!c->has_uptime) return TIME_WITHOUT_START;
            return fb_context_time(c, (uint32_t)value, time) ? TIME_KNOWN : TIME_OUT_OF_RANGE;
        case FB_KIND_TIME_DELTA:
            *time = c->export_time - value * 1000;
            return value <= c->export_time / 1000 ? TIME_KNOWN : TIME_OUT_OF_RANGE;
        default: return TIME_MISSING;
    }
}

static fb_cursor put_time(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                          const uint8_t *p, size_t size) {
    uint64_t time;
    bool ntp = target.kind == FB_KIND_TIME_NTP_US || target.kind == FB_KIND_TIME_NTP_NS;
    if (ntp && size != 8) {
        count_fault(c, emitter, at, target, FB_BAD_FIELD_SIZE, p);
        return at;
    }
    switch (read_time(c, target.kind, p, size, &time)) {
        case TIME_KNOWN: return put_nanoseconds(c, emitter, at, target, time);
        case TIME_OUT_OF_RANGE: count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, p); return at;
        case TIME_WITHOUT_START:
            count_fault(c, emitter, at, target, FB_NO_SYSTEM_START, p);
            return at;
        default: return at;
    }
}

static uint64_t span_unit(uint8_t kind) {
    switch (kind) {
        case FB_KIND_SPAN_S: return FB_SECOND;
        case FB_KIND_SPAN_MS: return FB_MILLISECOND;
        case FB_KIND_SPAN_US: return 1000;
        default: return 1;
    }
}

static int64_t sign_extend(uint64_t value, size_t size) {
    unsigned shift = (unsigned)(64 - 8 * size);
    return (int64_t)(value << shift) >> shift;
}

static fb_cursor put_bytes(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                           const uint8_t *p, size_t size) {
    if (target.kind == FB_KIND_STRING) {
        while (size && !p[size - 1]) size--;
        if (!fb_utf8_valid((fb_bytes){p, size}))
            count_fault(c, emitter, at, target, FB_INVALID_UTF8, p);
    }
    FB_EMIT(put_bytes)(emitter, &at, target, p, size);
    return at;
}

/* IPFIX booleans are 1 (true) and 2 (false): RFC 7011 section 6.1.5. */
static fb_cursor put_bool(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                          uint64_t value) {
    if (value == 1 || value == 2) return convert_uint(c, emitter, at, target, value == 1);
    if (value) count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, NULL);
    return at;
}

static fb_cursor put_integer(fb_context *c, fb_emitter *emitter, fb_cursor at, fb_target target,
                             const uint8_t *p, size_t size) {
    uint64_t value = fb_load_uint(p, size), unit;
    switch (target.kind) {
        case FB_KIND_SINT: return put_int(c, emitter, at, target, sign_extend(value, size));
        case FB_KIND_BOOL: return put_bool(c, emitter, at, target, value);
        case FB_KIND_SPAN_S:
        case FB_KIND_SPAN_MS:
        case FB_KIND_SPAN_US:
        case FB_KIND_SPAN_NS:
            unit = span_unit(target.kind);
            if (value <= UINT64_MAX / unit)
                return put_nanoseconds(c, emitter, at, target, value * unit);
            count_fault(c, emitter, at, target, FB_OUT_OF_RANGE, p);
            return at;
        case FB_KIND_TCP_BITS: value &= 0x0fff; /* fall through */
        case FB_KIND_UINT: return put_uint(c, emitter, at, target, value);
        default: return put_time(c, emitter, at, target, p, size);
    }
}

#endif
