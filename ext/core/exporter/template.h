/* Templates are compiled with the plan into a flat list of operations. Identical templates share
   one list.

   A *compiled template* is a template without its id: the fields of a record, their offsets, and
   the operations for the fields that the plan uses. All exporters that send the same template share
   its compiled template.

     A record of fixed size:            one with variable-length fields (RFC 7011 section 7):
     ┌────────┬────┬──────────┐         ┌────────┬───┬──────────┬───┐
     │ field 0│ 1  │ 2        │         │ field 0│len│ field 1  │ 2 │   len: 1 byte, or 255 and
     └────────┴────┴──────────┘         └────────┴───┴──────────┴───┘   2 bytes
     op->offset is from the start.      op->offset is from the end of the previous variable-length
                                        field, op->base.

   Operations come in groups. *Moves* copy a number or an address of a common size to a column that
   nothing else in the record may fill. They need no order and no lookup, so they are sorted by
   code. On processors that fill lanes (varint_simd.h), messages take up to eight moves of numbers
   at once. *Set* operations have the same value for every record of a set. The rate of a sampler is
   one of them, while records name the same sampler. The *others* are sorted by column and rank, and
   the first non-zero value wins. In columns with FB_COLUMN_ZERO, a zero from the last operation of
   a rank ends the search, and operations after one that always has a value are omitted.

   A record that describes both directions of a biflow (RFC 5103) has a second compiled template,
   compiled->reverse, which reads the same bytes as the flow of the other direction. In it, a
   reverse element (29305/X) counts as X. So do 232 and 299 of firewalls, which are 231 and 298 of
   the other direction, and the reverse elements of enterprises (FB_REVERSING_ENTERPRISE_LIST). All
   other fields are shared, with source and destination exchanged. Columns of one direction
   (FB_COLUMN_ONE_DIRECTION), and columns that a reverse element fills, do not take shared
   values. */
#ifndef FB_EXPORTER_TEMPLATE_H
#define FB_EXPORTER_TEMPLATE_H

#include "core/emit/varint_simd.h"

/* The length that marks a variable-length field, in IPFIX by RFC 7011 section 7. RFC 3954 has no
   such fields, but H3C NetStream sends them in NetFlow v9, and a field of 65,535 bytes fits in no
   datagram. */
#define FB_VARIABLE_SIZE 65535
#define FB_NO_FIELD      0xffff
#define FB_PEN_REVERSE   29305 /* reverse information elements (RFC 5103 section 6.1) */
/* X(enterprise, bit). These enterprises number the reverse of an element by setting a bit in its
   id. The exporter of CERT (6871) is YAF. */
#define FB_REVERSING_ENTERPRISE_LIST(X) X(6871, 0x4000)
#define FB_PEN_JUNIPER                  2636
#define FB_ID_COMMON_PROPERTIES         137
#define FB_ID_PADDING                   210
#define FB_ID_FIRST_SECTION             313 /* sections of packets (RFC 5477) */
#define FB_ID_LAST_SECTION              317
#define FB_ID_SECTION_OFFSET            409
#define FB_LIST_DEPTH                   4 /* nesting of lists of records (RFC 6313) */

/* A field specifier. */
typedef struct {
    uint32_t pen;
    uint16_t id;
    uint16_t size;
} fb_field;

/* Return true if a field holds records of other templates. */
FB_INLINE bool fb_field_is_sub_template(const fb_field *field) {
    return fb_element_is_sub_template(field->pen, field->id);
}

/* Return true if the elements inside a field feed columns: it holds records of other templates, or
   it is a basicList that does not feed a column itself. */
FB_INLINE bool fb_field_is_opened(const fb_plan *plan, const fb_field *field) {
    bool basic = !field->pen && field->id == FB_ID_BASIC_LIST && !plan->has_basic_list;
    return basic || fb_field_is_sub_template(field);
}

typedef enum {
    /* The common cases, without checks and conversions. Moves have these codes. */
    FB_OP_UINT8,
    FB_OP_UINT16,
    FB_OP_UINT32,
    FB_OP_UINT64,
    FB_OP_TCP_BITS, /* the low 12 bits of two bytes */
    FB_OP_IPV4,
    FB_OP_IPV6,
    FB_OP_ENUM, /* one byte into an enum */
    /* derived:etype from the first address, the field of the operation, unless it is zero */
    FB_OP_ETYPE_IPV4,
    FB_OP_ETYPE_IPV6,
    FB_OP_UINT,  /* any other unsigned number: of another size, or one that may not fit */
    FB_OP_VALUE, /* any other field, according to its kind */
    /* a field that was zero, after the others of its rank: its zero ends the search now */
    FB_OP_AGAIN,
    FB_OP_COLLECT, /* every occurrence of an element, along its chain, into a repeated column */
    FB_OP_PACKET,  /* the sections 313 and 315 */
    /* derived:sampling_rate of a record with one field, that of the operation, that names its
       sampler */
    FB_OP_RATE_OF_SAMPLER,
    FB_OP_DERIVED_SAMPLING_RATE,
    FB_OP_DERIVED_ETYPE,
    FB_OP_DERIVED_ICMP_TYPE,
    FB_OP_DERIVED_ICMP_CODE,
    FB_OP_DERIVED_FORWARDING_STATUS,
    FB_OP_DERIVED_MPLS_LABELS,
    FB_OP_DERIVED_IP_FLAGS,
    FB_OP_SCOPE_ELEMENTS,
    FB_OP_OTHER_ELEMENTS,
    FB_OP_OTHER_VALUES,
    /* FB_OP_NAME + fb_name_kind: the name of the id in a field */
    FB_OP_NAME
} fb_op_code;

#define FB_MOVE_CODES FB_OP_UINT /* moves have lower codes */

typedef struct {
    const fb_column *column; /* of `target` */
    uint8_t code;            /* fb_op_code */
    bool again;              /* an operation with a better source has the same column */
    bool short_id;           /* of a name: the id is a number of 2 or 4 bytes */
    uint16_t field;
    uint16_t base;   /* number of variable-length fields before this one */
    uint16_t offset; /* from the end of the last of them, or from the start of the record */
    uint16_t size;   /* FB_VARIABLE_SIZE: found with the field */
    fb_target target;
} fb_op;

/* Return true if an operation looks up a name: its field is an id, not a value of its column. */
FB_INLINE bool fb_op_is_name(unsigned code) {
    return code >= FB_OP_NAME;
}

/* Moves of numbers that messages take at once. */
typedef struct {
    fb_varint_simd lanes;
    uint16_t base, offset; /* of the window, like those of an operation */
    uint16_t count;
    uint16_t ops[FB_SIMD_LANES]; /* indexes of the moves */
    /* padding up to a cache line */
    uint8_t
        unused[FB_CACHE_LINE - (sizeof(fb_varint_simd) + (3 + FB_SIMD_LANES) * 2) % FB_CACHE_LINE];
} fb_lane_group;
_Static_assert(sizeof(fb_lane_group) % FB_CACHE_LINE == 0, "lanes are read by whole cache lines");

/* Fields that derived values, sampling and times use. X(constant, element id). Those of the second
   group describe one direction only. */
/* clang-format off */
#define FB_ROLE_LIST(X) \
    X(PROTO, 4) X(IP_VERSION, 60) X(ETHERNET_TYPE, 256) X(SAMPLING_INTERVAL, 34) \
    X(SAMPLER_ID, 48) X(RANDOM_INTERVAL, 50) X(SELECTOR_ID, 302) X(PACKET_INTERVAL, 305) \
    X(PACKET_SPACE, 306) X(SAMPLING_SIZE, 309) X(SAMPLING_POPULATION, 310) \
    X(SAMPLING_PROBABILITY, 311) X(HASH_OUTPUT_MIN, 329) X(HASH_OUTPUT_MAX, 330) \
    X(SELECTION_SEQUENCE, 301) \
    X(SELECTOR_ALGORITHM, 304) X(SYSTEM_INIT_TIME, 160) X(INGRESS_INTERFACE, 10) \
    X(INGRESS_PHYSICAL_INTERFACE, 252) \
    \
    X(SRC_PORT, 7) X(DST_PORT, 11) X(ICMP_IPV4, 32) X(ICMP_IPV6, 139) X(FRAGMENT_FLAGS, 197) \
    X(IP_PACKET, 313) X(DATA_LINK_FRAME, 315) X(DATA_LINK_FRAME_TYPE, 408) \
    X(MPLS_1, 70) X(MPLS_2, 71) X(MPLS_3, 72) \
    X(MPLS_4, 73) X(MPLS_5, 74) X(MPLS_6, 75) X(MPLS_7, 76) X(MPLS_8, 77) X(MPLS_9, 78) \
    X(MPLS_10, 79)
/* clang-format on */

typedef enum {
#define FB_X(constant, id) FB_ROLE_##constant,
    FB_ROLE_LIST(FB_X)
#undef FB_X
        FB_ROLE_COMMON_PROPERTIES, /* Juniper 2636/137 */
    FB_ROLE_COUNT
} fb_role;

#define FB_MOST_ID_FIELDS 5 /* elements that may hold the id of one kind of names */

#define FB_FIRST_ONE_DIRECTION_ROLE FB_ROLE_SRC_PORT

#define FB_MAX_ADDRESS_FIELDS 4 /* elements 8, 12, 27, 28 */

typedef struct fb_compiled_template fb_compiled_template;
struct fb_compiled_template {
    fb_compiled_template *next; /* in its bucket */
    uint64_t hash;
    size_t bytes; /* bytes of memory */
    uint32_t references;
    uint32_t tail;        /* bytes after the last variable-length field */
    uint32_t record_size; /* bytes of a record; the minimum if it has variable-length fields */
    uint16_t version;     /* 5 (also for records of NetFlow v1 and v7), 9 or 10 */
    uint16_t field_count;
    uint16_t scope_count; /* leading scope fields of an options template */
    uint16_t op_count;
    uint16_t lane_group_count; /* if there are any, all moves of numbers are in lanes */
    uint16_t enums;            /* first move of an enum that is not in lanes */
    uint16_t move_end;         /* end of all moves */
    uint16_t set_end;          /* end of the set operations, which follow the moves */
    uint16_t name_end;         /* end of the names that alone fill their column; they come next */
    uint16_t variable_count;   /* number of variable-length fields */
    bool options;              /* of an options template: its records are not flows */
    bool rated;                /* has fields with its sampling rate */
    bool named;                /* has a field that names its sampler or selection sequence */
    /* it is the `reverse` of another compiled template: reverse elements are its own fields, and
       all others are shared */
    bool reversed;
    uint16_t role[FB_ROLE_COUNT]; /* field index, or FB_NO_FIELD */
    /* fields with the sectionOffset of the sections 313 and 315, or FB_NO_FIELD */
    uint16_t ip_packet_offset, data_link_frame_offset;
    /* elements 8, 12, 27, 28 in record order, then FB_NO_FIELD */
    uint16_t address_field[FB_MAX_ADDRESS_FIELDS];
    uint16_t *offsets;   /* of the fields, each from its base */
    uint16_t *bases;     /* number of variable-length fields before each field */
    uint16_t *variables; /* indexes of the variable-length fields */
    fb_field *fields;
    fb_op *ops;
    /* set operation whose field must be equal in all records of a set; NULL: none */
    const fb_op *sampler;
    /* start of each code's moves; the next code begins at their end */
    const fb_op *moves[FB_MOVE_CODES + 1];
    fb_lane_group *lane_groups;
    fb_compiled_template *reverse; /* of a biflow, else NULL; owned, and counted in `bytes` */
    /* of a reversed compiled template: fields of which at least one is not zero if there was a
       reverse flow */
    uint16_t *counters;
    uint16_t counter_count;
    uint16_t list_count;
    /* of IPFIX: fields that hold records of other templates, if columns may take their elements */
    uint16_t *lists;
    uint16_t unused; /* fields whose element no enabled column takes, without padding and `lists` */
    /* indexes of the fields of a row whose element no enabled column takes; the reverse flow of a
       biflow has those of its direction */
    uint16_t *others;
    uint16_t other_count;
    uint16_t other_room; /* all fields if a column takes others, else 0 */
    bool biflow;         /* its records may also describe a reverse flow */
    uint16_t chain_count;
    /* for each field, the next one with its element and direction; FB_NO_FIELD at the end. Empty if
       the plan has no repeated columns. */
    uint16_t *chain;
};

/* Entry i: a variable-length field of one record, and the base of the offsets of the fields between
   the previous one and it. There is one more entry than such fields, for the fields after the last
   one. */
typedef struct {
    const uint8_t *base;
    fb_bytes field;
} fb_location;

#define FB_LOCATIONS 256

/* The compiled templates of one decoder. */
typedef struct {
    const fb_plan *plan;            /* that of the template that is being compiled; NULL: no rows */
    const fb_plan *flows, *options; /* of the templates of each kind */
    fb_memory *memory;
    uint64_t seed; /* of the hash: templates come from the network and may be hostile */
    bool wide;     /* moves are put into lanes */
    fb_compiled_template **buckets;
    size_t bucket_count;
    size_t count;
    /* scratch of the compiler: twice the number of candidates that a plan can need */
    struct fb_candidate *candidates;
    size_t candidate_capacity;
    /* of the plan's elements in a template, followed by those of reverse elements */
    struct fb_occurrences *seen;
    uint32_t *met; /* indexes of the entries of `seen` that are not zero */
    size_t met_count;
    /* columns that reverse elements fill; later, columns that have a value in every record */
    bool *has_reverse;
    size_t column_capacity; /* of has_reverse */
    fb_compiled_template
        *draft; /* the compiled template that is being compiled, with room for all operations */
    size_t draft_bytes;
    /* scratch for records with variable-length fields: room for a record of every compiled
       template, and for FB_LOCATIONS entries */
    fb_location *locations;
    size_t location_capacity;
    size_t location_levels; /* copies of `locations`: 1, or one for each depth of nested records */
} fb_compiled_templates;

/* Initialize. `wide`: the decoders that run the operations fill lanes (varint_simd.h). `plan` is
   that of the rows that one kind of templates gives. `plan` and `memory` must outlive it. OK,
   NO_MEMORY. */
fb_status fb_compiled_templates_new(fb_compiled_templates *compiled_templates, const fb_plan *plan,
                                    fb_memory *memory, uint64_t seed, bool wide);
/* Set the plan of one kind of templates: rows of flows, or of options. Templates of the other kind
   keep theirs. OK, NO_MEMORY. REQUIRES: no template of the kind was compiled. */
fb_status fb_compiled_templates_set_plan(fb_compiled_templates *compiled_templates,
                                         const fb_plan *plan);
void fb_compiled_templates_free(
    fb_compiled_templates
        *compiled_templates); /* frees all compiled templates, too, whatever their references */

/* Return the compiled template of these fields and add a reference. OK, NO_MEMORY. EMPTY_TEMPLATE:
   its records have no bytes. */
fb_status fb_compiled_templates_acquire(fb_compiled_templates *compiled_templates, uint16_t version,
                                        const fb_field *fields, uint16_t field_count,
                                        uint16_t scope_count, bool options,
                                        fb_compiled_template **compiled);
/* Remove a reference. The last one frees the compiled template. */
void fb_compiled_templates_release(fb_compiled_templates *compiled_templates,
                                   fb_compiled_template *compiled);

/* Locate the fields of the record at p. Return its end, or NULL if it does not fit into [p, end).
   REQUIRES: `locations` has variable_count + 1 entries. */
const uint8_t *fb_compiled_template_locate(const fb_compiled_template *compiled, const uint8_t *p,
                                           const uint8_t *end, fb_location *locations);

/* Return the bit that makes a field a reverse element of its enterprise; 0: it is not one. */
FB_INLINE uint16_t fb_field_reverse_bit(const fb_field *field) {
#define FB_X(enterprise, bit) \
    if (field->pen == (enterprise) && field->id & (bit)) return bit;
    FB_REVERSING_ENTERPRISE_LIST(FB_X)
#undef FB_X
    return 0;
}

/* Return true for counters of the responder (232, 299): 231 and 298 of the other direction. */
FB_INLINE bool fb_field_is_responder(const fb_field *field) {
    return !field->pen && (field->id == 232 || field->id == 299);
}

/* Return true if a field describes the direction of a reversed compiled template. */
FB_INLINE bool fb_compiled_template_is_own(const fb_compiled_template *compiled, size_t field) {
    const fb_field *f = &compiled->fields[field];
    return compiled->reversed && (f->pen == FB_PEN_REVERSE || fb_field_reverse_bit(f));
}

FB_INLINE bool fb_compiled_template_is_shared(const fb_compiled_template *compiled, size_t field) {
    return compiled->reversed && !fb_compiled_template_is_own(compiled, field);
}

/* Return the first field that is an element. Scope fields of NetFlow v9 have their own ids
   (RFC 3954 section 6.1). */
FB_INLINE uint16_t fb_compiled_template_first_element(const fb_compiled_template *compiled) {
    return compiled->version == 9 ? compiled->scope_count : 0;
}

FB_INLINE bool fb_compiled_template_has_role(const fb_compiled_template *compiled, fb_role role) {
    return compiled->role[role] != FB_NO_FIELD;
}

/* Return the bytes of a field, or of a role, in a record; empty if the compiled template has no
   such field. `locations` is NULL for a record of fixed size. */
FB_INLINE fb_bytes fb_compiled_template_field(const fb_compiled_template *compiled, uint16_t field,
                                              const uint8_t *record, const fb_location *locations) {
    if (field == FB_NO_FIELD) return (fb_bytes){NULL, 0};
    if (!locations)
        return (fb_bytes){record + compiled->offsets[field], compiled->fields[field].size};
    const fb_location *location = &locations[compiled->bases[field]];
    if (compiled->fields[field].size == FB_VARIABLE_SIZE) return location->field;
    return (fb_bytes){location->base + compiled->offsets[field], compiled->fields[field].size};
}

FB_INLINE fb_bytes fb_compiled_template_role(const fb_compiled_template *compiled, fb_role role,
                                             const uint8_t *record, const fb_location *locations) {
    return fb_compiled_template_field(compiled, compiled->role[role], record, locations);
}

#endif
