/* Message types chosen by input bytes, with names for JSON. */
#ifndef FB_TESTS_SUPPORT_JSON_CHOICE_H
#define FB_TESTS_SUPPORT_JSON_CHOICE_H

#include "core/json/json_types.h"
#include "tests/support/plain_codec.h"

enum { JSON_NAME_MAX = 40, JSON_MEMBERS = 4 };

typedef struct {
    codec_choice codec;
    fb_json_type types[CODEC_TYPES]; /* the messages of `codec` */
    fb_json_types all;
    fb_json_enum members;
    fb_json_field fields[CODEC_TYPES][CODEC_FIELDS];
    char texts[CODEC_TYPES][CODEC_FIELDS][4][JSON_NAME_MAX];
    fb_json_name names[CODEC_TYPES][2 * CODEC_FIELDS];
    uint32_t slots[CODEC_TYPES][64], member_slots[8], type_slots[4];
} json_choice;

/* Make message types from bytes. A field with number 12 is named f_12, and f12 in JSON. A type of a
   key and a value becomes that of the entries of maps. Returns the number of bytes used. */
size_t json_choice_make(json_choice *c, const uint8_t *data, size_t size);

#endif
