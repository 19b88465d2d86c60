/* Names and kinds of sources, and the kinds of values that columns of each type accept. */
#include "core/plan/plan.h"

static const struct {
    const char *name;
    fb_kind kind;
} sources[FB_SOURCE_COUNT] = {
#define FB_X(constant, name, kind) {name, FB_KIND_##kind},
    FB_SOURCE_LIST(FB_X)
#undef FB_X
};

static const char *const kinds[FB_KIND_COUNT] = {
#define FB_X(constant, name) name,
    FB_KIND_LIST(FB_X)
#undef FB_X
};

static const struct {
    const char *name;
    fb_kind kind;
} netflow5_fields[] = {
#define FB_X(constant, name, kind, offset, size) {name, FB_KIND_##kind},
    FB_NETFLOW7_FIELD_LIST(FB_X)
#undef FB_X
};

const char *fb_source_name(fb_source source) {
    return (unsigned)source < FB_SOURCE_COUNT ? sources[source].name : NULL;
}

fb_kind fb_source_kind(fb_source source) {
    return sources[source].kind;
}

unsigned fb_flow_record_find(uint32_t format) {
    switch (format) {
#define FB_X(record, number, first, last) \
    case number: return FB_FLOW_RECORD_##record;
        FB_FLOW_RECORD_LIST(FB_X)
#undef FB_X
        default: return FB_FLOW_RECORDS;
    }
}

fb_source_range fb_flow_record_sources(unsigned record) {
    static const fb_source_range ranges[FB_FLOW_RECORDS] = {
#define FB_X(record, format, first, last) \
    {FB_SOURCE_RECORD_##record##_##first, FB_SOURCE_RECORD_##record##_##last},
        FB_FLOW_RECORD_LIST(FB_X)
#undef FB_X
    };
    return ranges[record];
}

fb_name_kind fb_source_name_kind(fb_source source) {
    static const uint8_t names[] = {
        FB_NAME_INTERFACE,
        FB_NAME_INTERFACE,
        FB_NAME_INTERFACE_DESCRIPTION,
        FB_NAME_INTERFACE_DESCRIPTION,
        FB_NAME_INTERFACE_SPEED,
        FB_NAME_INTERFACE_SPEED,
        FB_NAME_VRF,
        FB_NAME_VRF,
        FB_NAME_APPLICATION,
        FB_NAME_APPLICATION_CATEGORY,
        FB_NAME_SAMPLER,
        FB_NAME_USER,
        FB_NAME_OBSERVATION_POINT,
    };
    _Static_assert(sizeof names == FB_SOURCE_LAST_NAME - FB_SOURCE_FIRST_NAME + 1,
                   "one for each source");
    return (fb_name_kind)names[source - FB_SOURCE_FIRST_NAME];
}

const char *fb_name_kind_name(fb_name_kind kind) {
    static const char *const names[] = {
#define FB_X(constant, name) name,
        FB_NAME_KIND_LIST(FB_X)
#undef FB_X
    };
    return names[kind];
}

const char *fb_scope_name(fb_scope scope) {
    static const char *const names[] = {
#define FB_X(constant, name, type) [type] = name,
        FB_SCOPE_LIST(FB_X)
#undef FB_X
    };
    return (unsigned)scope < sizeof names / sizeof *names ? names[scope] : NULL;
}

const char *fb_kind_name(fb_kind kind) {
    return (unsigned)kind < FB_KIND_COUNT ? kinds[kind] : NULL;
}

size_t fb_netflow5_field_count(void) {
    return sizeof netflow5_fields / sizeof *netflow5_fields;
}

const char *fb_netflow5_field_name(size_t index) {
    return index < fb_netflow5_field_count() ? netflow5_fields[index].name : NULL;
}

fb_kind fb_netflow5_field_kind(size_t index) {
    return netflow5_fields[index].kind;
}

static bool is_integer(fb_type type) {
    return type == FB_TYPE_UINT || type == FB_TYPE_INT || type == FB_TYPE_SINT ||
           type == FB_TYPE_FIXED32 || type == FB_TYPE_FIXED64;
}

bool fb_kind_fits(fb_kind kind, fb_type type) {
    switch (kind) {
        case FB_KIND_UINT:
        case FB_KIND_TCP_BITS:
            return type != FB_TYPE_STRING && type != FB_TYPE_BYTES && type != FB_TYPE_IP;
        case FB_KIND_MAC:
            return fb_kind_fits(FB_KIND_UINT, type) && type != FB_TYPE_TIMESTAMP &&
                   type != FB_TYPE_DURATION;
        case FB_KIND_BYTES:
            return is_integer(type) || type == FB_TYPE_BYTES || type == FB_TYPE_STRING;
        case FB_KIND_IP: return type == FB_TYPE_IP || type == FB_TYPE_BYTES;
        case FB_KIND_STRING: return type == FB_TYPE_STRING || type == FB_TYPE_BYTES;
        case FB_KIND_SINT:
            return type == FB_TYPE_INT || type == FB_TYPE_SINT || type == FB_TYPE_FLOAT ||
                   type == FB_TYPE_DOUBLE;
        case FB_KIND_BOOL:
            return type == FB_TYPE_BOOL || type == FB_TYPE_UINT || type == FB_TYPE_ENUM;
        case FB_KIND_FLOAT: return type == FB_TYPE_FLOAT || type == FB_TYPE_DOUBLE;
        case FB_KIND_TIME:
        case FB_KIND_TIME_UPTIME:
        case FB_KIND_TIME_DELTA:
        case FB_KIND_TIME_S:
        case FB_KIND_TIME_MS:
        case FB_KIND_TIME_NTP_US:
        case FB_KIND_TIME_NTP_NS: return is_integer(type) || type == FB_TYPE_TIMESTAMP;
        case FB_KIND_SPAN_S:
        case FB_KIND_SPAN_MS:
        case FB_KIND_SPAN_US:
        case FB_KIND_SPAN_NS: return is_integer(type) || type == FB_TYPE_DURATION;
        case FB_KIND_LIST: return true; /* its members may still not fit */
        case FB_KIND_OPAQUE: return type == FB_TYPE_BYTES;
        default: return false;
    }
}

/* Return the kind that a column expects of an element whose kind is unknown. */
static fb_kind wanted_kind(fb_type type) {
    switch (type) {
        case FB_TYPE_INT:
        case FB_TYPE_SINT: return FB_KIND_SINT;
        case FB_TYPE_BOOL: return FB_KIND_BOOL;
        case FB_TYPE_FLOAT:
        case FB_TYPE_DOUBLE: return FB_KIND_FLOAT;
        case FB_TYPE_STRING: return FB_KIND_STRING;
        case FB_TYPE_BYTES: return FB_KIND_BYTES;
        case FB_TYPE_IP: return FB_KIND_IP;
        default: return FB_KIND_UINT;
    }
}

static bool is_time(fb_kind kind) {
    return kind == FB_KIND_TIME || (kind >= FB_KIND_TIME_S && kind <= FB_KIND_SPAN_NS);
}

fb_kind fb_column_kind(const fb_column *column, fb_kind kind) {
    bool bytes = column->type == FB_TYPE_BYTES || column->type == FB_TYPE_STRING;
    bool timed = column->type == FB_TYPE_TIMESTAMP || column->type == FB_TYPE_DURATION;
    if (kind == FB_KIND_LIST || kind == FB_KIND_OPAQUE) return kind;
    /* a list cannot mark a time as absent */
    bool plain = column->type == FB_TYPE_TIMESTAMP && !(column->flags & FB_COLUMN_REPEATED);
    if (plain && kind == FB_KIND_TIME_MS && column->unit == 1000000) return FB_KIND_UINT;
    if (plain && kind == FB_KIND_TIME_S && column->unit == 1000000000) return FB_KIND_UINT;
    if ((is_time(kind) && !timed) || (kind == FB_KIND_BYTES && !bytes)) return FB_KIND_UINT;
    return bytes ? wanted_kind(column->type) : kind;
}

fb_kind fb_plan_member_kind(const fb_plan *plan, const fb_column *column, uint32_t pen,
                            uint32_t id) {
    fb_kind wanted = wanted_kind(column->type);
    if (wanted == FB_KIND_BYTES) return wanted;
    if (pen || id >= plan->registry_size || plan->registry[id] >= FB_KIND_COUNT) return wanted;
    fb_kind kind = plan->registry[id];
    if (kind == FB_KIND_BYTES && (wanted == FB_KIND_IP || wanted == FB_KIND_STRING)) return wanted;
    /* A plain number is not a time. */
    bool timed = column->type == FB_TYPE_TIMESTAMP || column->type == FB_TYPE_DURATION;
    if (!timed && kind >= FB_KIND_TIME_UPTIME && kind <= FB_KIND_SPAN_NS) kind = FB_KIND_UINT;
    if (column->type == FB_TYPE_DURATION && kind == FB_KIND_TIME_UPTIME) return FB_KIND_SPAN_MS;
    if (column->type == FB_TYPE_DURATION && kind == FB_KIND_TIME_DELTA) return FB_KIND_SPAN_US;
    if (kind == FB_KIND_LIST || (timed && kind == FB_KIND_UINT) ||
        !fb_kind_fits(kind, column->type))
        return FB_KIND_COUNT;
    return timed ? kind : fb_column_kind(column, kind);
}
