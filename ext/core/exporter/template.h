/* Template × plan -> a flat list of operations, compiled once; identical templates share one list.

   A *shape* is what a template says without its id: the fields of a record, where they lie, and what is to be done with
   those that the plan wants. Exporters that send the same template, however many, hold the same shape.

   A record of fixed size:                     one with variable-length fields (RFC 7011 section 7):
   ┌────────┬────┬──────────┐                  ┌────────┬───┬──────────┬───┐
   │ field 0│ 1  │ 2        │                  │ field 0│len│ field 1  │ 2 │  len: 1 octet, or 255 and 2 octets
   └────────┴────┴──────────┘                  └────────┴───┴──────────┴───┘
   op->offset says where.                      op->offset counts from the end of the variable field before it, op->base.

   Operations come in groups. *Moves* take a number or an address of a common size to a column that nothing else in the
   record may fill: no order among them, nothing to look up, so they are sorted by what they do; where the processor fills
   lanes (varint_simd.h), numbers among them come first, up to eight side by side. *Set* operations have the same value for every
   record of a set; the rate of a sampler, as long as records name the same one. The *others*, by column and rank: the first
   value that is not zero wins. In columns with FB_COLUMN_ZERO a zero of the last one of a rank ends the search; the operations
   behind one that always has a value are left out.

   A record that describes both directions of a biflow (RFC 5103) has a second shape, shape->reverse: the same octets as the
   flow of the other direction. A reverse element (29305/X; 232 and 299 of firewalls, which are 231 and 298 of the other
   direction) counts as X there; so does a reverse element of an enterprise (FB_REVERSING_ENTERPRISE_LIST). What the record says of the forward direction is shared, with source and destination
   exchanged, but for columns of one direction alone (FB_COLUMN_ONE_WAY) and those that a reverse element speaks of. */
#ifndef FB_TEMPLATE_H
#define FB_TEMPLATE_H

#include "core/emit/varint_simd.h"

/* The length that announces a variable-length field: in IPFIX by RFC 7011 section 7. RFC 3954 has no such fields, but H3C's
   NetStream sends them in NetFlow v9, and a field of 65,535 bytes fits no datagram. */
#define FB_VARIABLE_SIZE 65535
#define FB_NO_FIELD 0xffff
#define FB_PEN_REVERSE 29305 /* reverse information elements (RFC 5103 section 6.1) */
/* X(enterprise, bit). These enterprises number the reverse of an element by setting a bit in its id. CERT's exporter is YAF. */
#define FB_REVERSING_ENTERPRISE_LIST(X) X(6871, 0x4000)
#define FB_PEN_JUNIPER 2636
#define FB_ID_COMMON_PROPERTIES 137
#define FB_ID_PADDING 210
#define FB_LIST_DEPTH 4 /* of lists of records inside each other (RFC 6313) */

/* A field specifier. */
typedef struct {
    uint32_t pen;
    uint16_t id;
    uint16_t size;
} fb_field;

/* Return whether a field holds records of other templates. */
FB_INLINE bool fb_field_is_sub_template(const fb_field *field) {
    return fb_element_is_sub_template(field->pen, field->id);
}

typedef enum {
    /* The common cases: nothing to check, nothing to convert. Moves are of these. */
    FB_OP_UINT8,
    FB_OP_UINT16,
    FB_OP_UINT32,
    FB_OP_UINT64,
    FB_OP_TCP_BITS, /* of two octets the low 12 bits */
    FB_OP_IPV4,
    FB_OP_IPV6,
    FB_OP_ENUM,            /* an octet into an enum */
    FB_OP_ETYPE_IPV4,      /* derived:etype, by the first address, the operation's field, if that is not zero */
    FB_OP_ETYPE_IPV6,
    FB_OP_VALUE,  /* every other field, by its kind */
    FB_OP_AGAIN,  /* a field that was zero, behind the others of its rank: its zero ends the search now */
    FB_OP_COLLECT, /* every occurrence of an element, by their chain, into a repeated column */
    FB_OP_PACKET, /* of the sections 313 and 315 */
    FB_OP_RATE_OF_SAMPLER, /* derived:sampling_rate of a record that names its sampler, by the operation's field, and no more */
    FB_OP_DERIVED_SAMPLING_RATE,
    FB_OP_DERIVED_ETYPE,
    FB_OP_DERIVED_ICMP_TYPE,
    FB_OP_DERIVED_ICMP_CODE,
    FB_OP_DERIVED_FORWARDING_STATUS,
    FB_OP_DERIVED_MPLS_LABELS,
    FB_OP_DERIVED_IP_FLAGS
} fb_op_code;

#define FB_MOVE_CODES FB_OP_VALUE /* the codes below it */

typedef struct {
    const fb_column *column; /* of `target` */
    uint8_t code;            /* fb_op_code */
    bool again;              /* an operation with a better source has the same column */
    uint16_t field;
    uint16_t base;   /* variable-length fields before this one */
    uint16_t offset; /* from the end of the last of them, or from the record's beginning */
    uint16_t size;   /* FB_VARIABLE_SIZE: located with the field */
    fb_target target;
} fb_op;

/* Moves of numbers that are done at once: ops[first … end) of a shape. */
typedef struct {
    fb_lanes lanes;
    uint16_t base, offset; /* of the window, as of an operation */
    uint16_t first, end;
    uint8_t unused[FB_CACHE_LINE - (sizeof(fb_lanes) + 8) % FB_CACHE_LINE]; /* to the end of a cache line */
} fb_lane_group;
_Static_assert(sizeof(fb_lane_group) % FB_CACHE_LINE == 0, "lanes are read by whole cache lines");

/* Fields that derived values, sampling and times are made of. X(constant, element id). The second group says something of
   one direction alone. */
#define FB_ROLE_LIST(X) \
    X(PROTO, 4) X(IP_VERSION, 60) X(ETHERNET_TYPE, 256) X(SAMPLING_INTERVAL, 34) X(SAMPLER_ID, 48) \
    X(RANDOM_INTERVAL, 50) X(SELECTOR_ID, 302) X(PACKET_INTERVAL, 305) X(PACKET_SPACE, 306) X(SAMPLING_SIZE, 309) \
    X(SAMPLING_POPULATION, 310) X(SAMPLING_PROBABILITY, 311) X(SYSTEM_INIT_TIME, 160) \
    \
    X(SRC_PORT, 7) X(DST_PORT, 11) X(ICMP_IPV4, 32) X(ICMP_IPV6, 139) X(FRAGMENT_FLAGS, 197) X(IP_PACKET, 313) \
    X(DATA_LINK_FRAME, 315) \
    X(MPLS_1, 70) X(MPLS_2, 71) X(MPLS_3, 72) X(MPLS_4, 73) X(MPLS_5, 74) X(MPLS_6, 75) X(MPLS_7, 76) X(MPLS_8, 77) \
    X(MPLS_9, 78) X(MPLS_10, 79)

typedef enum {
#define FB_X(constant, id) FB_ROLE_##constant,
    FB_ROLE_LIST(FB_X)
#undef FB_X
    FB_ROLE_COMMON_PROPERTIES, /* Juniper 2636/137 */
    FB_ROLE_COUNT
} fb_role;

#define FB_FIRST_ONE_WAY_ROLE FB_ROLE_SRC_PORT

#define FB_MAX_ADDRESS_FIELDS 4 /* elements 8, 12, 27, 28 */

typedef struct fb_shape fb_shape;
struct fb_shape {
    fb_shape *next; /* in its bucket */
    uint64_t hash;
    size_t octets; /* of memory */
    uint32_t references;
    uint32_t tail;        /* octets behind the last variable-length field */
    uint32_t record_size; /* of a record; the smallest one where there are variable-length fields */
    uint16_t version;     /* 5 (also of records of NetFlow v1 and v7), 9 or 10 */
    uint16_t field_count;
    uint16_t scope_count; /* leading scope fields of an options template */
    uint16_t op_count;
    uint16_t lane_end;                /* of the moves in lanes */
    uint16_t lane_group_count;
    uint16_t move_end;                /* of all moves */
    uint16_t set_end;                 /* of the set operations, which begin behind the moves */
    uint16_t variable_count;          /* of variable-length fields */
    bool options;  /* of an options template: its records are no flows */
    bool rated;    /* says its sampling rate itself */
    bool named;    /* says which sampler it is from */
    bool reversed; /* is some shape's `reverse`; its own fields are reverse elements, the shared ones are not */
    uint16_t role[FB_ROLE_COUNT];                  /* field index, or FB_NO_FIELD */
    uint16_t address_field[FB_MAX_ADDRESS_FIELDS]; /* elements 8, 12, 27, 28 in record order; FB_NO_FIELD at the end */
    uint16_t *offsets;   /* of the fields, each from its base */
    uint16_t *bases;     /* variable-length fields before each field */
    uint16_t *variables; /* those fields */
    fb_field *fields;
    fb_op *ops;
    const fb_op *sampler; /* the set operation whose field all records of a set must agree in; NULL: none */
    const fb_op *moves[FB_MOVE_CODES + 1]; /* those of each code that are not in lanes, up to those of the next one */
    fb_lane_group *lane_groups;
    fb_shape *reverse;  /* of a biflow; NULL as a rule. Owned; counted in `octets` */
    uint16_t *counters; /* of a reversed shape: the fields of which one is not zero where there was a reverse flow */
    uint16_t counter_count;
    uint16_t list_count;
    uint16_t *lists;     /* of IPFIX: the fields that hold records of other templates, where a column may take their elements */
    uint16_t unused;     /* fields whose element no enabled column takes; padding and `lists` are not counted */
    uint16_t chain_count;
    uint16_t *chain; /* of each field the next one of its element and direction, FB_NO_FIELD at the end; none where the plan
                        has no repeated columns */
};

/* A variable-length field of one record, at [i]; and where the fields between it and the one before it count from. There is
   one more than there are such fields, for what is behind the last. */
typedef struct {
    const uint8_t *base;
    fb_bytes field;
} fb_location;

/* The shapes of one decoder. */
typedef struct {
    const fb_plan *plan;
    fb_memory *memory;
    uint64_t seed; /* of the hash: templates on the wire are hostile */
    bool wide;     /* moves are put into lanes */
    fb_shape **buckets;
    size_t bucket_count;
    size_t count;
    struct fb_candidate *candidates; /* scratch of the compiler, twice as large as the plan can want */
    size_t candidate_capacity;
    struct fb_occurrences *seen; /* of the plan's elements in a template; then the same of reverse elements */
    uint32_t *met;  /* the places of those of `seen` that are not zero */
    size_t met_count;
    bool *spoken; /* the columns that reverse elements speak of; then those that have a value in every record */
    fb_shape *draft; /* the shape that is being compiled, with room for all operations */
    size_t draft_octets;
    fb_location *locations; /* scratch for records with variable-length fields: room for the shape with most of them */
    size_t location_capacity;
    size_t location_levels; /* so many times: 1, or one for each depth of records inside records */
} fb_shapes;

/* `wide`: the decoders that run the operations fill lanes (varint_simd.h). NO_MEMORY. */
fb_status fb_shapes_new(fb_shapes *shapes, const fb_plan *plan, fb_memory *memory, uint64_t seed, bool wide);
void fb_shapes_free(fb_shapes *shapes); /* and all shapes, whoever holds them */

/* The shape of these fields: one more reference. EMPTY_TEMPLATE: its records have no octets. NO_MEMORY. */
fb_status fb_shapes_acquire(fb_shapes *shapes, uint16_t version, const fb_field *fields, uint16_t field_count,
                            uint16_t scope_count, bool options, fb_shape **shape);
void fb_shapes_release(fb_shapes *shapes, fb_shape *shape);

/* Locates the fields of the record at p. Returns its end, NULL where it does not fit into [p, end). */
const uint8_t *fb_shape_locate(const fb_shape *shape, const uint8_t *p, const uint8_t *end, fb_location *locations);

/* The bit that makes a field a reverse element of its enterprise; 0: it is none. */
FB_INLINE uint16_t fb_field_reverse_bit(const fb_field *field) {
#define FB_X(enterprise, bit) if (field->pen == (enterprise) && field->id & (bit)) return bit;
    FB_REVERSING_ENTERPRISE_LIST(FB_X)
#undef FB_X
    return 0;
}

/* Whether a field speaks of the direction that a reversed shape is about. */
FB_INLINE bool fb_shape_is_own(const fb_shape *shape, size_t field) {
    const fb_field *f = &shape->fields[field];
    return shape->reversed && (f->pen == FB_PEN_REVERSE || fb_field_reverse_bit(f));
}

FB_INLINE bool fb_shape_is_shared(const fb_shape *shape, size_t field) {
    return shape->reversed && !fb_shape_is_own(shape, field);
}

FB_INLINE bool fb_shape_has_role(const fb_shape *shape, fb_role role) {
    return shape->role[role] != FB_NO_FIELD;
}

/* The octets of a field, or of a role in a record; empty where the shape has none. `locations` is NULL in a record of fixed
   size. */
FB_INLINE fb_bytes fb_shape_field(const fb_shape *shape, uint16_t field, const uint8_t *record,
                                  const fb_location *locations) {
    if (field == FB_NO_FIELD) return (fb_bytes){NULL, 0};
    if (!locations) return (fb_bytes){record + shape->offsets[field], shape->fields[field].size};
    const fb_location *location = &locations[shape->bases[field]];
    if (shape->fields[field].size == FB_VARIABLE_SIZE) return location->field;
    return (fb_bytes){location->base + shape->offsets[field], shape->fields[field].size};
}

FB_INLINE fb_bytes fb_shape_role(const fb_shape *shape, fb_role role, const uint8_t *record,
                                 const fb_location *locations) {
    return fb_shape_field(shape, shape->role[role], record, locations);
}

#endif
