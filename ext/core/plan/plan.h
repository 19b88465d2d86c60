/* The compiled schema, as decoders and encoders see it: numbers and types, no names.

   A plan is built once: add columns, add their sources, seal. It is read-only after that, so any
   number of decoders and threads may share it.

   Ranks. A column lists its sources by rank, and the best rank that gives a value wins. Operations
   of a template are sorted by rank, and fixed sources arrive in the order of source.h. In most
   columns the first value that arrives is therefore the best, and it is encoded at once. A column
   whose sources do not arrive in the order of their ranks is *deferred*: the best value so far is a
   deferred value (deferred_values.h) until the row is finished. Two more kinds of columns wait:
   `explicit` ones, whose zero is written only if no better value came, and `late` ones while a hook
   or an override may replace them.

   Zeros. A zero is not a value, unless the column has FB_COLUMN_ZERO. In such a column, a zero of
   one rank blocks values of worse ranks, but not those of its own rank. FB_COLUMN_ZERO does not
   cause the zero to be written. A *replacement* has the rank of the element that it may replace,
   and comes after it.

   Scaling. Columns with FB_COLUMN_SCALED are totals. They are multiplied by the column with
   FB_COLUMN_RATE, the sampling rate of the row. The rate is known only at the end of a row, so all
   of these columns are deferred. Plans without such columns have no overhead. */
#ifndef FB_PLAN_PLAN_H
#define FB_PLAN_PLAN_H

#include "core/base/base.h"
#include "core/plan/source.h"
#include "core/wire/wire.h"

#define FB_MAX_COLUMNS  1024
#define FB_MAX_RANK     254
#define FB_NO_RANK      255
#define FB_NOT_DEFERRED 0xffff
#define FB_NO_COLUMN    0xffff
#define FB_NO_MIRROR    0xffff
/* Element spaces in addition to the private enterprise numbers. */
#define FB_PEN_NETFLOW9 0x100000000u /* netflow9:ID, elements that only NetFlow v9 has */
#define FB_PEN_NETFLOW5 0x100000001u /* netflow5:FIELD, by its index in FB_NETFLOW7_FIELD_LIST */
#define FB_PEN_SCOPE    0x100000002u /* scope:NAME, by its type in FB_SCOPE_LIST */

/* Elements that hold other elements (RFC 6313). */
#define FB_ID_BASIC_LIST              291
#define FB_ID_SUB_TEMPLATE_LIST       292
#define FB_ID_SUB_TEMPLATE_MULTI_LIST 293

/* Return true if an element holds records of other templates: it is a subTemplateMultiList, or its
   data type is subTemplateList. */
FB_INLINE bool fb_element_is_sub_template(uint64_t pen, uint32_t id) {
    if (pen) return false;
    switch (id) {
        case FB_ID_SUB_TEMPLATE_LIST:
        case FB_ID_SUB_TEMPLATE_MULTI_LIST:
        case 443: /* mibObjectValueTable */
        case 444: /* mibObjectValueRow */
        case 516: /* ipv6ExtensionHeaderTypeCountList */
        case 519: /* ipv6ExtensionHeaderChainLengthList */ return true;
        default: return false;
    }
}

/* The input that becomes one row. */
typedef enum {
    FB_ROWS_FLOWS,
    FB_ROWS_COUNTERS, /* one counter sample or drop sample of sFlow */
    FB_ROWS_OPTIONS,  /* one options record of NetFlow v9 or IPFIX */
    FB_ROWS_COUNT
} fb_rows;

typedef enum {
    FB_TYPE_UINT, /* uint8 … uint64, mac, enum: varint; `limit` is the greatest value */
    FB_TYPE_ENUM,
    FB_TYPE_INT,  /* int32, int64: varint of the two's complement; -limit - 1 … limit */
    FB_TYPE_SINT, /* sint32, sint64: zigzag */
    FB_TYPE_BOOL,
    FB_TYPE_FLOAT,
    FB_TYPE_DOUBLE,
    FB_TYPE_FIXED32,
    FB_TYPE_FIXED64,
    FB_TYPE_STRING,
    FB_TYPE_BYTES,
    FB_TYPE_IP,
    FB_TYPE_TIMESTAMP, /* varint, in units of `unit` nanoseconds */
    FB_TYPE_DURATION,  /* the same, as int64 */
    FB_TYPE_COUNT
} fb_type;

enum {
    FB_COLUMN_ENABLED = 1,
    FB_COLUMN_REPEATED = 2,
    FB_COLUMN_EXPLICIT = 4,
    FB_COLUMN_LATE = 8,
    FB_COLUMN_NATIVE_IP = 16, /* an address keeps its width of 4 or 16 bytes on the wire */
    /* set by fb_plan_seal: explicit, scaled, or its sources do not arrive in rank order */
    FB_COLUMN_DEFERRED = 32,
    /* set by fb_plan_seal: repeated, and its sources do not arrive in rank order. Lists do not
       wait, so the first list wins. */
    FB_COLUMN_UNORDERED = 64,
    FB_COLUMN_SCALED = 128,    /* a total: multiplied by the sampling rate of its row */
    FB_COLUMN_RATE = 256,      /* the sampling rate; unsigned and not repeated, like totals */
    FB_COLUMN_CONSTANT = 1024, /* set by fb_plan_seal: a constant of any datagram may fill it */
    /* set by fb_plan_seal: a constant of NetFlow v5 may fill it */
    FB_COLUMN_CONSTANT_NETFLOW5 = 2048,
    FB_COLUMN_ZERO = 4096, /* a zero is a value and blocks worse ranks; only for single numbers */
    /* describes one direction: the reverse flow of a biflow does not share it */
    FB_COLUMN_ONE_DIRECTION = 512
};

/* One member of an enum: the value in the input and the number that is written. */
typedef struct {
    uint32_t from, to;
} fb_mapping;

typedef struct {
    uint64_t tag; /* bytes of the tag, the first one lowest: one store appends it */
    /* bit in the set of open columns of a row (message_row.h); 0 if the fast path ignores the
       column */
    uint64_t bit;
    uint64_t limit;  /* greatest value of an integer; a timestamp is at most FB_TIME_MAX ns */
    uint64_t unit;   /* nanoseconds per unit of a timestamp or duration */
    uint32_t number; /* Protocol Buffers field number */
    uint8_t tag_size;
    uint8_t tag_bits; /* 8 * tag_size */
    uint8_t type;     /* fb_type */
    uint8_t wire;     /* fb_wire_type */
    uint16_t flags;
    uint16_t deferred_index; /* in the deferred values of a row; FB_NOT_DEFERRED */
    uint16_t packet_rank; /* best rank of a sampled packet in this column; FB_NO_RANK without one */
    uint16_t mappings_size;
    uint16_t mirror; /* column of the other direction (src_ and dst_), for biflows; FB_NO_MIRROR */
    fb_mapping *mappings; /* members of an enum, sorted by `from`; owned by the plan */
} fb_column;
_Static_assert(sizeof(void *) != 8 || sizeof(fb_column) == 64,
               "columns are looked up by their number, often");

/* Return true if emitters write a value of the column at once: it is a single plain number, address
   or name. */
FB_INLINE bool fb_column_has_fast_path(const fb_column *column) {
    return column->bit != 0;
}

/* A destination of a value. */
typedef struct {
    uint16_t column;
    uint8_t rank;
    uint8_t kind : 6; /* fb_kind, of an information element */
    uint8_t last : 1; /* a replacement: sorted after the others of its rank */
    uint8_t zero : 1; /* a zero is a value */
} fb_target;
_Static_assert(FB_KIND_COUNT < 64, "a target has 6 bits for a kind");
_Static_assert(sizeof(fb_target) == 4, "targets are passed in registers");

/* The path of a value from a fixed source to its targets. All but FB_PATH_SLOW require a single
   target of fb_column_has_fast_path: no loop, no lookup. */
typedef enum {
    FB_PATH_NONE, /* no column uses the source */
    /* a time or an address into a column of its type, or an unsigned number into one of unsigned
       numbers */
    FB_PATH_FAST,
    FB_PATH_ENUM, /* an unsigned number into an enum */
    FB_PATH_SLOW
} fb_path;

/* The targets of one fixed source: plan->targets[first … first + count). */
typedef struct {
    uint16_t first, count;
    uint8_t path; /* fb_path */
    uint8_t tag_size;
    /* Set if there is one target. The members below it are copies from its column, for fast
       access. */
    fb_target target;
    const fb_column *column;
    uint64_t tag;
    uint64_t bit;
    uint64_t zero; /* `bit` if a zero is a value; else 0 */
    /* for FB_PATH_FAST: numbers below it take the fast path, others the slow path; else 0 */
    uint64_t bound;
} fb_target_range;

/* Occurrence of an element within a record: FB_ANY_OCCURRENCE, a number from 1 on, or the last
   one. */
/* a repeated column takes every occurrence, any other column the first */
#define FB_ANY_OCCURRENCE  0
#define FB_LAST_OCCURRENCE 0xffff

/* An information element that feeds a column. */
typedef struct {
    uint64_t pen;
    uint32_t id;
    uint16_t occurrence;
    fb_target target;
} fb_plan_element;

typedef struct fb_plan fb_plan;
struct fb_plan {
    fb_memory *memory;
    fb_rows rows;
    fb_column *columns;
    size_t column_count;
    size_t deferred_count; /* number of columns that are late, explicit, scaled or out of order */
    uint16_t rate_column;  /* the enabled FB_COLUMN_RATE; FB_NO_COLUMN: totals are not scaled */
    fb_target_range sources[FB_SOURCE_COUNT];
    /* bit (1 << source) for each source that is constant within a datagram and feeds a column */
    unsigned constants;
    /* number of fixed sources before each index that feed a column */
    uint16_t wanted_before[FB_SOURCE_COUNT + 1];
    fb_target *targets;
    size_t target_count;
    fb_plan_element *elements; /* sorted by pen, id, column, rank */
    size_t element_count;
    /* kind (fb_kind) of each registered element, by id; FB_KIND_COUNT: not registered */
    uint8_t *registry;
    size_t registry_size;
    uint64_t open; /* `bit` of every column that the fast path of a row may fill */
    uint64_t late; /* those of `open` that are late */
    /* bytes of a row with every fixed-size column at its widest, tags and length prefix included */
    size_t max_fixed_size;
    /* bytes that one input byte may add in strings, bytes and repeated columns */
    size_t max_size_per_byte;
    /* bit for each source of a sampled packet, from the first one on, that feeds an enabled
       column */
    uint64_t packet_sources;
    bool has_packet; /* a sampled packet feeds some enabled column */
    bool has_others; /* elements that no column takes feed some enabled column */
    unsigned names;  /* bit for each fb_name_kind that feeds an enabled column */
    /* an IPFIX element that is a value, not a list of records, feeds some enabled column */
    bool has_elements;
    bool has_basic_list; /* the element basicList itself feeds some enabled column */
    bool collects; /* some enabled column is repeated: it takes every occurrence of an element */
    bool sealed;
    /* used only while the plan is built */
    struct fb_plan_entry *entries;
    size_t entry_count;
};

/* Arguments of fb_plan_add_column. `limit` and `unit` are those of fb_column. The plan copies
   `mappings`. */
typedef struct {
    uint32_t number;
    fb_type type;
    unsigned flags;
    uint64_t limit;
    uint64_t unit;
    const fb_mapping *mappings;
    size_t mappings_size;
} fb_column_spec;

/* Create a plan. It keeps `memory`, which must outlive it. OK, NO_MEMORY. */
fb_status fb_plan_new(fb_plan **plan, fb_memory *memory);
/* Free the plan and all that it owns. NULL is allowed. */
void fb_plan_free(fb_plan *plan);
/* Set the kind of rows. Default: FB_ROWS_FLOWS. OK. BAD_ARGUMENT: the plan is sealed, or `rows` is
   invalid. */
fb_status fb_plan_set_rows(fb_plan *plan, fb_rows rows);
/* Add a column. Columns are numbered from 0 in the order of the calls. OK, NO_MEMORY. BAD_ARGUMENT:
   the plan is sealed or full, the spec is invalid, or the column is the second enabled rate. */
fb_status fb_plan_add_column(fb_plan *plan, const fb_column_spec *spec);
/* Add a source to a column. REQUIRES: the ranks of a column have no gaps. OK, NO_MEMORY.
   BAD_SOURCE: values of this kind cannot fill the column. BAD_ARGUMENT: the plan is sealed, an
   argument is out of range, or the column already has the source. */
fb_status fb_plan_add_source(fb_plan *plan, uint16_t column, unsigned rank, fb_source source);
fb_status fb_plan_add_element(fb_plan *plan, uint16_t column, unsigned rank, uint64_t pen,
                              uint32_t id, uint16_t occurrence, fb_kind kind);
/* Make the source that was added last a replacement: it replaces a zero of the other sources of its
   rank, and comes after them wherever it is in a record. OK. BAD_ARGUMENT: that source is not an
   element, or the plan is sealed. */
fb_status fb_plan_set_replacement(fb_plan *plan);
/* Declare two columns as the same value of the two directions. OK. BAD_ARGUMENT: a column does not
   exist, both are the same, their types differ, or the plan is sealed. */
fb_status fb_plan_set_mirror(fb_plan *plan, uint16_t column, uint16_t mirror);
/* Set the kinds of list members: the kind of each registered element, by id; FB_KIND_COUNT for an
   id that is not registered. Members of an unregistered element have the kind that the type of the
   column implies. OK, NO_MEMORY. BAD_ARGUMENT: the plan is sealed or has a registry. */
fb_status fb_plan_set_registry(fb_plan *plan, const uint8_t *kinds, size_t count);
/* Finish the plan. OK, NO_MEMORY. BAD_ARGUMENT: the plan is sealed already, or has too many
   sources. */
fb_status fb_plan_seal(fb_plan *plan);

/* Find the entries of an element in plan->elements. Return the first one; *count becomes their
   number. REQUIRES: sealed. */
const fb_plan_element *fb_plan_find_elements(const fb_plan *plan, uint64_t pen, uint32_t id,
                                             size_t *count);

/* Return true if values of a kind may fill a column of a type. */
bool fb_kind_fits(fb_kind kind, fb_type type);
/* Return the kind as which a column stores a kind that fits it. Lists and opaque values are
   unchanged. An integer column stores times and spans as plain integers. A string or bytes column
   stores any other kind as a string or as bytes. */
fb_kind fb_column_kind(const fb_column *column, fb_kind kind);
/* Return the kind of list members in a column: that of their element where it is known. An element
   with a pen other than 0 is private. FB_KIND_COUNT: the column cannot hold them. */
fb_kind fb_plan_member_kind(const fb_plan *plan, const fb_column *column, uint32_t pen,
                            uint32_t id);

/* Return true if any fixed source from `first` to `last` feeds a column. */
FB_INLINE bool fb_plan_has_sources(const fb_plan *plan, fb_source first, fb_source last) {
    return plan->wanted_before[last + 1] != plan->wanted_before[first];
}

/* The records of FB_FLOW_RECORD_LIST, as indexes. */
enum {
#define FB_X(record, format, first, last) FB_FLOW_RECORD_##record,
    FB_FLOW_RECORD_LIST(FB_X)
#undef FB_X
        FB_FLOW_RECORDS
};

/* Sources from `first` to `last`. */
typedef struct {
    fb_source first, last;
} fb_source_range;

/* Return the index of a record of FB_FLOW_RECORD_LIST; FB_FLOW_RECORDS: it is not in the list. */
unsigned fb_flow_record_find(uint32_t format);
/* Return the sources of the fields of a record. REQUIRES: record < FB_FLOW_RECORDS. */
fb_source_range fb_flow_record_sources(unsigned record);

/* Names and kinds of sources. A name is a static string; NULL: the number is out of range.
   REQUIRES (fb_source_kind, fb_netflow5_field_kind): the number is in range. */
const char *fb_source_name(fb_source source);
fb_kind fb_source_kind(fb_source source);
const char *fb_kind_name(fb_kind kind);
/* Name of a scope type of NetFlow v9; NULL: unknown. */
const char *fb_scope_name(fb_scope scope);
/* The fields of NetFlow v5 and v7 records. */
size_t fb_netflow5_field_count(void);
const char *fb_netflow5_field_name(size_t index);
fb_kind fb_netflow5_field_kind(size_t index);

#endif
