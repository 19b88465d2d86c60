/* A minimal Protocol Buffers implementation that shares no code with the core. It has a builder of
   valid and invalid messages, a reader of the fields of any message type, and message types chosen
   by input bytes. */
#ifndef FB_TESTS_SUPPORT_PLAIN_CODEC_H
#define FB_TESTS_SUPPORT_PLAIN_CODEC_H

#include "core/codec/codec.h"

/* Building ----------------------------------------------------------------------------------- */

typedef struct {
    uint8_t data[1 << 14];
    size_t size;
} built_message;

void build_raw(built_message *m, const void *bytes, size_t size);
/* Append a varint of `size` bytes, 1 to 11. It may be longer than necessary, or shorter, and then
   loses bits. 0: the minimum size. */
void build_varint(built_message *m, uint64_t value, size_t size);
/* Append a number, least significant byte first. */
void build_fixed(built_message *m, uint64_t value, size_t size);
void build_tag(built_message *m, uint32_t number, unsigned wire);
/* Append a tag, a length and the bytes. */
void build_bytes(built_message *m, uint32_t number, const void *bytes, size_t size);
/* Append one value without its tag. `raw` is written as it is, in the width of the type. REQUIRES:
   the type is a scalar. */
void build_scalar(built_message *m, int type, uint64_t raw);

/* Return the wire type of one value. */
unsigned plain_wire(int type);

/* Append random fields of a message type (random_plan.h): known and unknown, in any order, packed
   or not. */
void build_random(built_message *m, const fb_codec_message *message, unsigned depth);

/* For each type, values on the wire at and beyond its limits, and the sign-extended numbers they
   represent. */
typedef struct {
    uint8_t type;
    uint64_t raw, value;
} plain_number;

extern const plain_number plain_numbers[];
extern const size_t plain_number_count;

/* Reading ------------------------------------------------------------------------------------ */

typedef struct {
    const fb_codec_field *field; /* NULL: an unknown field */
    bool packed;
    uint64_t value;
    /* content of bytes, packed elements or a group; for an unknown field also its tag */
    const uint8_t *begin, *end;
    const uint8_t *after; /* start of the next field */
} plain_item;

typedef enum { PLAIN_FIELD, PLAIN_END, PLAIN_BAD } plain_answer;

/* Read the next field. Uses only the declared properties of fields: number, type, repeated,
   members. */
plain_answer plain_next(const fb_codec_message *message, const uint8_t *p, const uint8_t *end,
                        plain_item *item);
/* Read one value as a number of its type. Returns NULL if it is malformed. */
const uint8_t *plain_scalar(int type, const uint8_t *p, const uint8_t *end, uint64_t *value);

/* Choosing ----------------------------------------------------------------------------------- */

enum { CODEC_TYPES = 2, CODEC_FIELDS = 12, CODEC_PLACES = 64 };

typedef struct {
    fb_codec_field fields[CODEC_TYPES][CODEC_FIELDS];
    uint16_t places[CODEC_TYPES][CODEC_PLACES];
    /* finished; their fields may have each other's types, and their own */
    fb_codec_message types[CODEC_TYPES];
} codec_choice;

/* Make message types from bytes. Returns the number of bytes used. The rest is for a message of the
   first type. */
size_t codec_choice_make(codec_choice *c, const uint8_t *data, size_t size);

#endif
