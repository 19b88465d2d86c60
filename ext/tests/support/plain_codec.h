/* Protocol Buffers by the plainest reading of their specification; it shares no code with the core: a builder of messages, good and
   bad, a reader of the fields of any message type, and message types of which bytes choose everything. */
#ifndef FB_TEST_PLAIN_CODEC_H
#define FB_TEST_PLAIN_CODEC_H

#include "core/codec/codec.h"

/* Building ------------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t data[1 << 14];
    size_t size;
} built_message;

void build_octets(built_message *m, const void *octets, size_t size);
/* In so many bytes, 1 to 11, which may be more than it takes, or fewer: then bits are lost. 0: in as few as it takes. */
void build_varint(built_message *m, uint64_t value, size_t size);
/* Least significant byte first. */
void build_fixed(built_message *m, uint64_t value, size_t size);
void build_tag(built_message *m, uint32_t number, unsigned wire);
/* A tag, a length and the bytes. */
void build_bytes(built_message *m, uint32_t number, const void *octets, size_t size);
/* One value without its tag, as it is on the wire: nothing is made of it but what its width is. REQUIRES: the type is a scalar. */
void build_scalar(built_message *m, int type, uint64_t raw);

/* The wire type of one value. */
unsigned plain_wire(int type);

/* Fields of a message type as they may come, of random numbers (random_plan.h): known and unknown, in order or not, packed or not. */
void build_random(built_message *m, const fb_codec_message *message, unsigned depth);

/* What may stand on the wire for each type, at its limits and beyond, and the number that it is, sign-extended. */
typedef struct {
    uint8_t type;
    uint64_t raw, value;
} plain_number;

extern const plain_number plain_numbers[];
extern const size_t plain_number_count;

/* Reading -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const fb_codec_field *field; /* NULL: an unknown one */
    bool packed;
    uint64_t value;
    const uint8_t *begin, *end; /* of bytes, elements, what a group has in it, or an unknown field with its tag */
    const uint8_t *after;       /* where the next field begins */
} plain_item;

typedef enum { PLAIN_FIELD, PLAIN_END, PLAIN_BAD } plain_answer;

/* Of the fields it looks at what was declared alone: number, type, repeated, members. */
plain_answer plain_next(const fb_codec_message *message, const uint8_t *p, const uint8_t *end, plain_item *item);
/* One value on the wire as a number of its type; NULL: it is malformed. */
const uint8_t *plain_scalar(int type, const uint8_t *p, const uint8_t *end, uint64_t *value);

/* Choosing ------------------------------------------------------------------------------------------------------------- */

enum { CODEC_TYPES = 2, CODEC_FIELDS = 12, CODEC_PLACES = 64 };

typedef struct {
    fb_codec_field fields[CODEC_TYPES][CODEC_FIELDS];
    uint16_t places[CODEC_TYPES][CODEC_PLACES];
    fb_codec_message types[CODEC_TYPES]; /* finished; they may have each other as fields, and themselves */
} codec_choice;

/* How many of the bytes it took; the rest is for a message of the first type. */
size_t codec_choice_make(codec_choice *c, const uint8_t *data, size_t size);

#endif
