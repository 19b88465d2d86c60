/* The compiled schema: what the encoders and decoders see of it. Numbers and types, never names.

   A plan is built once (add columns, add their sources, seal) and is read-only after that, so any number of decoders and
   threads may share it.

   Ranks. A column lists its sources by rank; the best rank that gives a value wins. Operations of a template are sorted by
   rank, and fixed sources arrive in the order of source.h, so for most columns "the first value that arrives" is the rule,
   and the value is encoded on the spot. A column for which that order is not the order of its ranks is *slotted*: its
   values wait in a slot (deferred_values.h), the best rank so far, until the row is finished. So are `explicit` columns, whose zero
   is written only when nothing better came, and, while somebody overrides them, the `late` ones.

   Zeros. A zero is no value, unless the column has FB_COLUMN_ZERO: there a zero of one rank keeps values of worse ranks
   away. It is not written for that, and it does not keep away those of its own rank. A *replacement* has the rank of the
   element that it may replace, and comes after it.

   Scaling. Columns with FB_COLUMN_SCALED are totals that are multiplied by the column with FB_COLUMN_RATE, the sampling
   rate of their row. Which rate that is shows at the end of the row alone, so all of these are slotted, in plans that ask
   for it; in any other there is nothing of it. */
#ifndef FB_PLAN_H
#define FB_PLAN_H

#include "core/base/base.h"
#include "core/plan/source.h"
#include "core/wire/wire.h"

#define FB_MAX_COLUMNS 1024
#define FB_MAX_RANK 254
#define FB_NO_RANK 255
#define FB_NO_SLOT 0xffff
#define FB_NO_COLUMN 0xffff
#define FB_NO_MIRROR 0xffff
#define FB_NO_LANE 0xff
#define FB_NO_COLUMN_BIT (1ull << 63) /* is no column's `bit` */
/* Element spaces beside the private enterprise numbers. */
#define FB_PEN_NETFLOW9 0x100000000u  /* netflow9:ID, elements of NetFlow v9 alone */
#define FB_PEN_NETFLOW5 0x100000001u  /* netflow5:FIELD, by its place in FB_NETFLOW7_FIELD_LIST */

/* Elements that hold records of other templates (RFC 6313). */
#define FB_ID_SUB_TEMPLATE_LIST 292
#define FB_ID_SUB_TEMPLATE_MULTI_LIST 293

FB_INLINE bool fb_element_is_sub_template(uint64_t pen, uint32_t id) {
    return !pen && (id == FB_ID_SUB_TEMPLATE_LIST || id == FB_ID_SUB_TEMPLATE_MULTI_LIST);
}

/* What a row is made of. */
typedef enum {
    FB_ROWS_FLOWS,
    FB_ROWS_COUNTERS, /* a counter or drop sample of sFlow */
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
    FB_TYPE_DURATION,  /* the same as int64 */
    FB_TYPE_COUNT
} fb_type;

enum {
    FB_COLUMN_ENABLED = 1,
    FB_COLUMN_REPEATED = 2,
    FB_COLUMN_EXPLICIT = 4,
    FB_COLUMN_LATE = 8,
    FB_COLUMN_NATIVE_IP = 16, /* an address keeps its width on the wire */
    FB_COLUMN_SLOTTED = 32,   /* set by fb_plan_seal: explicit, scaled, or its ranks are not in the order of arrival */
    FB_COLUMN_UNORDERED = 64, /* set by fb_plan_seal: repeated, and its ranks are not in that order; lists do not wait, so
                                 the list that arrives first wins */
    FB_COLUMN_SCALED = 128,   /* a total: multiplied by the rate of its row */
    FB_COLUMN_RATE = 256,     /* that rate; unsigned and not repeated, as totals are */
    FB_COLUMN_CONSTANT = 1024, /* set by fb_plan_seal: a constant of any datagram may fill it */
    FB_COLUMN_CONSTANT_NETFLOW5 = 2048, /* set by fb_plan_seal: one of NetFlow v5 may */
    FB_COLUMN_ZERO = 4096,    /* a zero is a value, and worse ranks are not tried; of single numbers alone */
    FB_COLUMN_ONE_WAY = 512   /* says something of one direction alone: the reverse flow of a biflow does not share it */
};

/* One member of an enum: the value on the wire and the number it becomes. */
typedef struct {
    uint32_t from, to;
} fb_mapping;

typedef struct {
    uint64_t tag;      /* the tag's octets, the first one lowest: appended by one store */
    uint64_t bit;      /* among the open columns of a row (message_row.h); 0 for a column that the fast path leaves alone */
    uint64_t limit;    /* greatest value of an integer; a timestamp is at most FB_TIME_MAX ns */
    uint64_t unit;     /* nanoseconds of a timestamp or duration unit */
    uint32_t number;   /* Protocol Buffers field number */
    uint8_t tag_size;
    uint8_t tag_bits;  /* 8 * tag_size */
    uint8_t type;      /* fb_type */
    uint8_t wire;      /* fb_wire_type */
    uint8_t lane;      /* of a direct column of unsigned numbers, where its number may wait (message_row.h), and which bit `bit` is */
    uint16_t flags;
    uint16_t slot;     /* index among the slots; FB_NO_SLOT for a column that never needs one */
    uint16_t packet_rank;   /* the best rank that a sampled packet has here; FB_NO_RANK without one */
    uint16_t mappings_size;
    uint16_t mirror;      /* the column of the other direction (src_ and dst_), for biflows; FB_NO_MIRROR */
    fb_mapping *mappings; /* enum; sorted by `from` */
} fb_column;
_Static_assert(sizeof(void *) != 8 || sizeof(fb_column) == 64, "columns are looked up by their number, often");

/* Whether emitters write a value of the column at once, where it has none: a single plain number or address. */
FB_INLINE bool fb_column_is_direct(const fb_column *column) {
    return column->bit != 0;
}

/* One place where a value may go. */
typedef struct {
    uint16_t column;
    uint8_t rank;
    uint8_t kind : 6; /* fb_kind, of an information element */
    uint8_t last : 1; /* a replacement: after the others of its rank */
    uint8_t zero : 1; /* a zero is a value */
} fb_target;
_Static_assert(FB_KIND_COUNT < 64, "a target has 6 bits for a kind");
_Static_assert(sizeof(fb_target) == 4, "targets are passed in registers");

/* How the value of a fixed source gets to its targets. All but the long way are for one target alone, of
   fb_column_is_direct: nothing to loop over, nothing to look up. */
typedef enum {
    FB_WAY_NONE,   /* nobody wants it */
    FB_WAY_DIRECT, /* a time or an address into a column of its type, an unsigned number into one of unsigned numbers */
    FB_WAY_ENUM,   /* an unsigned number into an enum */
    FB_WAY_LONG
} fb_way;

/* The targets of one fixed source: plan->targets[first … first + count). */
typedef struct {
    uint16_t first, count;
    uint8_t way;      /* fb_way */
    /* Of a way that has one, as is its column; and what of that numbers need at once. */
    fb_target target;
    uint8_t lane;
    const fb_column *column;
    uint64_t bit;
    uint64_t zero;    /* `bit` where a zero is a value; else 0 */
    uint64_t bound;   /* numbers below it go the direct way, others the long one, if there is any; 0: all */
} fb_target_range;

/* Which occurrence of an element in a record is a source: FB_ANY_OCCURRENCE, one by its number, from 1 on, or the last. */
#define FB_ANY_OCCURRENCE 0 /* a repeated column takes every occurrence, any other column the first */
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
    size_t lane_count; /* at most 64 */
    size_t slot_count; /* columns that are late, explicit, scaled or out of order */
    uint16_t rate_column; /* the enabled FB_COLUMN_RATE; FB_NO_COLUMN: totals are not scaled */
    fb_target_range sources[FB_SOURCE_COUNT];
    unsigned constants; /* a bit (1 << source) for each that is the same for all flows of a datagram and feeds a column */
    uint16_t wanted_before[FB_SOURCE_COUNT + 1]; /* how many of the fixed sources before each feed a column */
    fb_target *targets;
    size_t target_count;
    fb_plan_element *elements; /* sorted by pen, id, column, rank */
    size_t element_count;
    uint8_t *registry; /* the kind (fb_kind) of each registered element, by id; FB_KIND_COUNT: not registered */
    size_t registry_size;
    uint64_t open;       /* the `bit` of every column that a row takes on its fast path */
    uint64_t late;       /* those of them that are late */
    size_t fixed_worst;  /* octets of a row with every fixed-size column at its widest, tags and length prefix included */
    size_t octet_worst;  /* octets that one octet of the wire may add in strings, bytes and repeated columns */
    uint64_t packet_sources; /* a bit for each source of a sampled packet, from the first on, that feeds an enabled column */
    bool has_packet;     /* some enabled column is fed by a sampled packet */
    bool has_elements;   /* some enabled column is fed by an element of IPFIX that is a value, no list of records */
    bool collects;       /* some enabled column is repeated: it takes every occurrence of an element */
    bool sealed;
    /* while it is built */
    struct fb_plan_entry *entries;
    size_t entry_count;
};

/* What fb_plan_add_column needs to know. `limit` and `unit` as in fb_column. */
typedef struct {
    uint32_t number;
    fb_type type;
    unsigned flags;
    uint64_t limit;
    uint64_t unit;
    const fb_mapping *mappings;
    size_t mappings_size;
} fb_column_spec;

/* The plan keeps `memory`, which must outlive it. NO_MEMORY. */
fb_status fb_plan_new(fb_plan **plan, fb_memory *memory);
void fb_plan_free(fb_plan *plan);
/* Flows, unless it is said otherwise. BAD_ARGUMENT: it is sealed. */
fb_status fb_plan_set_rows(fb_plan *plan, fb_rows rows);
/* Columns are numbered from 0 in the order of the calls. BAD_ARGUMENT: among others, it is the second enabled rate.
   NO_MEMORY. */
fb_status fb_plan_add_column(fb_plan *plan, const fb_column_spec *spec);
/* Ranks of a column have no gaps. BAD_SOURCE: a source of this kind cannot fill the column. BAD_ARGUMENT: among others, the
   column has the source already. NO_MEMORY. */
fb_status fb_plan_add_source(fb_plan *plan, uint16_t column, unsigned rank, fb_source source);
fb_status fb_plan_add_element(fb_plan *plan, uint16_t column, unsigned rank, uint64_t pen, uint32_t id, uint16_t occurrence,
                              fb_kind kind);
/* The source added last replaces a zero of the others of its rank: it comes after them, wherever it is in a record.
   BAD_ARGUMENT: it is no element. */
fb_status fb_plan_set_replacement(fb_plan *plan);
/* Two columns that say the same of the two directions. BAD_ARGUMENT: there is no such column, or the types differ. */
fb_status fb_plan_set_mirror(fb_plan *plan, uint16_t column, uint16_t mirror);
/* What members of lists are: the kind of each registered element, by id; FB_KIND_COUNT where there is none. Members of an
   element that is not registered are of the kind that the column's type wants. NO_MEMORY. */
fb_status fb_plan_set_registry(fb_plan *plan, const uint8_t *kinds, size_t count);
/* Ends the building. NO_MEMORY. */
fb_status fb_plan_seal(fb_plan *plan);

/* The elements (pen, id): a run of plan->elements, *count long. REQUIRES: sealed. */
const fb_plan_element *fb_plan_find_elements(const fb_plan *plan, uint64_t pen, uint32_t id, size_t *count);

/* Whether values of a kind may fill a column of a type. */
bool fb_kind_fits(fb_kind kind, fb_type type);
/* What a column makes of a kind that fits it: times and spans count as plain integers in an integer column, anything as
   octets in one of octets. */
fb_kind fb_column_kind(const fb_column *column, fb_kind kind);
/* What members of a list mean in a column: the kind of their element (a private one where pen is not 0) where it is known.
   FB_KIND_COUNT: the column cannot hold them. */
fb_kind fb_plan_member_kind(const fb_plan *plan, const fb_column *column, uint32_t pen, uint32_t id);

/* Whether any of the fixed sources from `first` to `last` feeds a column. */
FB_INLINE bool fb_plan_wants(const fb_plan *plan, fb_source first, fb_source last) {
    return plan->wanted_before[last + 1] != plan->wanted_before[first];
}

const char *fb_source_name(fb_source source);
fb_kind fb_source_kind(fb_source source);
const char *fb_kind_name(fb_kind kind);
/* The fields of a NetFlow v5 record. */
size_t fb_netflow5_field_count(void);
const char *fb_netflow5_field_name(size_t index);
fb_kind fb_netflow5_field_kind(size_t index);

#endif
