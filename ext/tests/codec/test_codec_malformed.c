/* Messages with unknown and malformed fields, and messages that are cut or damaged. */
#include "tests/support/codec_check.h"

#include "tests/builders/random_plan.h"

/* Make a field of each type, with its number. Groups and messages have the same type again. */
static fb_codec_message finish_all(fb_codec_field fields[FB_PROTO_COUNT], uint32_t first,
                                   bool repeated, fb_codec_message *own) {
    for (unsigned i = 0; i < FB_PROTO_COUNT; i++)
        fields[i] = (fb_codec_field){.number = first + i,
                                     .type = (uint8_t)i,
                                     .repeated = repeated,
                                     .packed = repeated,
                                     .message = own};
    return finish(fields, FB_PROTO_COUNT, PLACES);
}

/* Unknown and malformed fields --------------------------------------------------------------- */

static void returns_unknown_fields_unchanged(void) {
    static const fb_codec_message none;
    fb_codec_field fields[FB_PROTO_COUNT];
    fb_codec_message all = finish_all(fields, 1, false, NULL);
    static const fb_bytes cases[] = {
        {(const uint8_t *)"\xa0\x06\x80\x80\x00", 5},
        {(const uint8_t *)"\xa1\x06\1\2\3\4\5\6\7\10", 10},
        {(const uint8_t *)"\xa2\x06\x81\x00x", 5},
        {(const uint8_t *)"\xa3\x06\x08\x01\xa4\x06", 6},
        {(const uint8_t *)"\xa5\x06\1\2\3\4", 6},
        {(const uint8_t *)"\xa0\x86\x80\x80\x00\x01", 6},
        {(const uint8_t *)"\xf8\xff\xff\xff\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 15},
    };
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        fb_bytes bytes = cases[i / 2];
        fb_codec_item item;
        CHECK_STATUS(read_first_field(i & 1 ? &all : &none, bytes, &item), FB_OK);
        CHECK(!item.field && !item.packed);
        CHECK_BYTES(item.bytes.data, item.bytes.size, bytes.data, bytes.size);
    }
}

/* Read every type with every wire type. A field of the wrong wire type is unknown as a whole. */
static void treats_fields_of_wrong_wire_type_as_unknown(void) {
    static const char *const values[] = {"\x01", "\1\2\3\4\5\6\7\10", "\x04\1\2\3\4", NULL,
                                         NULL,   "\1\2\3\4"};
    for (unsigned type = 0; type < FB_PROTO_COUNT; type++)
        for (unsigned how = 0; how < 12; how++) {
            unsigned wire = how / 2;
            bool repeated = how & 1, own = wire == plain_wire((int)type),
                 packed = wire == 2 && repeated && type < FB_PROTO_STRING;
            fb_codec_field fields[] = {{.number = 1, .type = (uint8_t)type, .repeated = repeated}};
            fb_codec_message message = finish(fields, 1, PLACES);
            built_message m = {.size = 0};
            fb_codec_item item;
            if (wire == 4) continue; /* not a field */
            build_tag(&m, 1, wire);
            if (values[wire]) build_raw(&m, values[wire], strlen(values[wire]));
            else build_tag(&m, 1, FB_WIRE_END_GROUP);
            CHECK_STATUS(read_first_field(&message, (fb_bytes){m.data, m.size}, &item), FB_OK);
            CHECK((item.field != NULL) == (own || packed));
            CHECK(item.packed == packed);
            if (!item.field) CHECK_BYTES(item.bytes.data, item.bytes.size, m.data, m.size);
        }
}

static void reads_varints_of_at_most_ten_bytes(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_UINT64},
                               {.number = 2, .type = FB_PROTO_INT32},
                               {.number = 30, .type = FB_PROTO_BOOL}};
    fb_codec_message message = finish(fields, 3, PLACES);
    for (size_t size = 1; size <= 11; size++)
        for (size_t i = 0; i < 4; i++) { /* the fourth is unknown */
            built_message m = {.size = 0};
            fb_codec_item item;
            build_tag(&m, i < 3 ? fields[i].number : 3, FB_WIRE_VARINT);
            build_varint(&m, size < 10 ? 5 : UINT64_MAX, size);
            /* all but one of these bits are above the 64th */
            if (size == 10) m.data[m.size - 1] = 0x7f;
            CHECK_STATUS(read_first_field(&message, (fb_bytes){m.data, m.size}, &item),
                         size <= 10 ? FB_OK : FB_BAD_MESSAGE);
        }
}

/* Tags and lengths have at most five bytes and 32 bits; lengths are below 2^31. */
static void refuses_overlong_tags_and_lengths(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_BYTES},
                               {.number = 2, .type = FB_PROTO_UINT32, .repeated = true}};
    fb_codec_message message = finish(fields, 2, PLACES);
    fb_codec_item item;
    for (size_t size = 1; size <= 7; size++)
        for (uint32_t number = 1; number <= 3; number++) {
            built_message tag = {.size = 0}, length = {.size = 0};
            build_varint(&tag, number * 8 + FB_WIRE_BYTES, size), build_raw(&tag, "\1x", 2);
            CHECK_STATUS(read_first_field(&message, (fb_bytes){tag.data, tag.size}, &item),
                         size <= 5 ? FB_OK : FB_BAD_MESSAGE);
            if (size <= 5) CHECK((item.field ? item.field->number : 3) == number);
            build_tag(&length, number, FB_WIRE_BYTES), build_varint(&length, 1, size),
                build_raw(&length, "x", 1);
            CHECK_STATUS(read_first_field(&message, (fb_bytes){length.data, length.size}, &item),
                         size <= 5 ? FB_OK : FB_BAD_MESSAGE);
        }
    /* bit 33 of a tag */
    CHECK_STATUS(read_first_field(&message, BYTES("\x8a\x80\x80\x80\x10\x01x"), &item),
                 FB_BAD_MESSAGE);
    /* and of a length */
    CHECK_STATUS(read_first_field(&message, BYTES("\x0a\x81\x80\x80\x80\x10x"), &item),
                 FB_BAD_MESSAGE);
    CHECK_STATUS(read_first_field(&message, BYTES("\xf8\xff\xff\xff\x1f\x01"), &item),
                 FB_BAD_MESSAGE);
}

/* Read the greatest length without touching its bytes, and the next greater one. */
static void accepts_lengths_below_two_gibibytes(void) {
    size_t room = (size_t)INT32_MAX + 16;
    uint8_t *bytes = mmap(NULL, room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_BYTES}};
    fb_codec_message message = finish(fields, 1, PLACES);
    if (bytes == MAP_FAILED) {
        perror("mmap");
        exit(EXIT_FAILURE);
    }
    for (uint32_t number = 1; number < 3; number++)
        for (uint64_t size = (uint64_t)INT32_MAX - 1; size < (uint64_t)INT32_MAX + 3; size++) {
            built_message m = {.size = 0};
            fb_codec_reader reader;
            fb_codec_item item;
            build_tag(&m, number, FB_WIRE_BYTES), build_varint(&m, size, 0);
            memcpy(bytes, m.data, m.size);
            fb_codec_reader_begin(&reader, &message, (fb_bytes){bytes, m.size + (size_t)size});
            CHECK_STATUS(fb_codec_next(&reader, &item), size <= INT32_MAX ? FB_OK : FB_BAD_MESSAGE);
            CHECK(reader.p == (size <= INT32_MAX ? reader.end : bytes));
        }
    munmap(bytes, room);
}

static void refuses_malformed_fields(void) {
    fb_codec_field fields[] = {{.number = 1, .type = FB_PROTO_UINT32},
                               {.number = 2, .type = FB_PROTO_STRING},
                               {.number = 3, .type = FB_PROTO_DOUBLE}};
    fb_codec_message message = finish(fields, 3, PLACES);
    static const fb_bytes cases[] = {
        /* number 0 */
        {(const uint8_t *)"\x00\x01", 2},
        {(const uint8_t *)"\x02\x00", 2},
        {(const uint8_t *)"\x80\x00\x01", 3},
        {(const uint8_t *)"\x0e\x01", 2},
        {(const uint8_t *)"\x0f\x01", 2},
        {(const uint8_t *)"\x26\x01", 2},
        {(const uint8_t *)"\x27\x01", 2},
        {(const uint8_t *)"\x08", 1},
        {(const uint8_t *)"\x12", 1},
        {(const uint8_t *)"\x12\x02x", 3},
        {(const uint8_t *)"\x12\x80", 2},
        {(const uint8_t *)"\x12\xff\xff\xff\xff\x0f", 6},
        {(const uint8_t *)"\x19\1\2\3\4\5\6\7", 8},
        {(const uint8_t *)"\x80", 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fb_codec_item item;
        CHECK_STATUS(read_first_field(&message, cases[i], &item), FB_BAD_MESSAGE);
    }
}

/* Damage ------------------------------------------------------------------------------------- */

/* A type that has every kind of field, including itself, and messages of it. */
static fb_codec_message rich;
static fb_codec_field rich_fields[2 * FB_PROTO_COUNT];

static void make_rich(built_message *m, unsigned seed) {
    static const int32_t members[] = {-1, 0, 1, 2};
    for (unsigned i = 0; i < COUNT(rich_fields); i++) {
        bool repeated = i >= FB_PROTO_COUNT;
        rich_fields[i] = (fb_codec_field){.number = i + 1,
                                          .type = i % FB_PROTO_COUNT,
                                          .repeated = repeated,
                                          .packed = i % 3 == 0,
                                          .message = &rich};
    }
    rich_fields[FB_PROTO_ENUM].members = members;
    rich_fields[FB_PROTO_ENUM].member_count = COUNT(members);
    rich = finish(rich_fields, COUNT(rich_fields), PLACES);
    random_begin(seed);
    m->size = 0;
    build_random(m, &rich, 2);
}

static unsigned rounds(unsigned usual) {
    return getenv("FLOWBUF_SLOW_RUN") ? (usual + 9) / 10 : usual;
}

static void survives_every_prefix(void) {
    for (unsigned seed = 0; seed < rounds(80); seed++) {
        built_message m;
        make_rich(&m, seed);
        if (m.size > 1000) continue;
        CHECK_STATUS(check_guarded(&rich, m.data, m.size), FB_END);
        for (size_t size = 0; size < m.size; size++) check_guarded(&rich, m.data, size);
    }
}

/* Replace each byte by every other value. */
static void survives_every_corrupted_byte(void) {
    for (unsigned seed = 0; seed < rounds(20); seed++) {
        built_message m;
        make_rich(&m, seed);
        if (m.size > 150) continue;
        uint8_t *copy = fb_guarded_copy(m.data, m.size);
        for (size_t at = 0; at < m.size; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                copy[at] = (uint8_t)byte;
                check_fields(&rich, (fb_bytes){copy, m.size});
            }
            copy[at] = m.data[at];
        }
        fb_guarded_free(copy, m.size);
    }
}

/* Read random types with random places, and messages of them, as the fuzz driver does. */
static void reads_random_messages_of_random_types(void) {
    for (unsigned round = 0; round < rounds(4000); round++) {
        static codec_choice c;
        uint8_t bytes[CODEC_TYPES * (1 + 4 * CODEC_FIELDS)];
        built_message m = {.size = 0};
        random_begin(round);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)below(256);
        codec_choice_make(&c, bytes, sizeof bytes);
        build_random(&m, c.types, 2);
        CHECK_STATUS(check_guarded(c.types, m.data, m.size), FB_END);
    }
}

RUN_TESTS(TEST(returns_unknown_fields_unchanged), TEST(treats_fields_of_wrong_wire_type_as_unknown),
          TEST(reads_varints_of_at_most_ten_bytes), TEST(refuses_overlong_tags_and_lengths),
          TEST(accepts_lengths_below_two_gibibytes), TEST(refuses_malformed_fields),
          TEST(survives_every_prefix), TEST(survives_every_corrupted_byte),
          TEST(reads_random_messages_of_random_types))
