/* Failures, room, and scalars in JSON. */
#include "core/json/json_reader.h"
#include "core/json/json_values.h"

/* Failures and room --------------------------------------------------------------------------- */

bool fb_json_no_memory(fb_json_reader *r) {
    r->status = FB_NO_MEMORY;
    return false;
}

bool fb_json_fail_here(fb_json_reader *r, const fb_json_where *place, const char *problem) {
    if (r->text.no_memory) r->status = FB_NO_MEMORY;
    if (r->status != FB_OK) return false;
    r->status = FB_BAD_MESSAGE;
    *r->fault = (fb_json_fault){.problem = r->text.problem ? r->text.problem : problem, .type = -1};
    r->fault->offset = (size_t)(r->text.p - r->text.begin);
    fb_json_path(place, r->fault->path);
    return false;
}

bool fb_json_fail_at(fb_json_reader *r, const fb_json_where *place, const uint8_t *at,
                     const char *problem) {
    const fb_bytes token = {at, (size_t)(r->text.p - at)};
    r->text.p = at;
    fb_json_fail_here(r, place, problem);
    if (r->status == FB_BAD_MESSAGE) fb_json_set_token(r->fault, token);
    return false;
}

bool fb_json_fail_text(fb_json_reader *r, const fb_json_where *place) {
    return fb_json_fail_here(r, place, "invalid JSON");
}

bool fb_json_reserve(fb_json_reader *r, size_t size) {
    return fb_buffer_reserve(r->output, size) == FB_OK || fb_json_no_memory(r);
}

bool fb_json_put_bytes(fb_json_reader *r, const fb_codec_field *field, fb_bytes bytes,
                       bool always) {
    if (!bytes.size && !always) return true;
    if (!fb_json_reserve(r, FB_CODEC_ROOM + bytes.size)) return false;
    r->output->p = fb_codec_put_bytes(r->output->p, field, bytes.data, bytes.size);
    return true;
}

bool fb_json_begin_length(fb_json_reader *r, const fb_codec_field *field, size_t *begin) {
    if (!fb_json_reserve(r, FB_CODEC_ROOM)) return false;
    uint8_t *p = fb_codec_put_tag(r->output->p, field);
    if (field->type != FB_PROTO_GROUP) p = fb_codec_begin_length(p);
    r->output->p = p;
    *begin = fb_buffer_size(r->output);
    return true;
}

bool fb_json_end_length(fb_json_reader *r, const fb_codec_field *field, size_t begin,
                        const fb_json_where *place) {
    if (!fb_json_reserve(r, FB_CODEC_ROOM)) return false;
    if (field->type == FB_PROTO_GROUP) {
        r->output->p = fb_codec_put_end_group(r->output->p, field);
        return true;
    }
    if (fb_buffer_size(r->output) - begin > INT32_MAX)
        return fb_json_fail_here(r, place, "a message of 2 GiB or more");
    r->output->p = fb_codec_end_length(r->output->begin + begin, r->output->p);
    return true;
}

/* Scalars ------------------------------------------------------------------------------------- */

static const char *const expected[FB_PROTO_COUNT] = {
    [FB_PROTO_BOOL] = "true or false is expected here",
    [FB_PROTO_STRING] = "a string is expected here",
    [FB_PROTO_BYTES] = "a string is expected here",
    [FB_PROTO_ENUM] = "the name or number of an enum member is expected here",
};

static bool fail_expected(fb_json_reader *r, const fb_codec_field *field,
                          const fb_json_where *place) {
    const char *problem = expected[field->type];
    return fb_json_fail_here(r, place, problem ? problem : "a number is expected here");
}

static bool fail_range(fb_json_reader *r, const fb_codec_field *field, const fb_json_where *place,
                       const uint8_t *begin) {
    fb_json_fail_at(r, place, begin, "a number that does not fit");
    if (r->status == FB_BAD_MESSAGE) r->fault->type = field->type;
    return false;
}

/* Convert a number to the bits of a float or double. Returns false if it is too large. */
static bool to_real(const fb_codec_field *field, const fb_decimal *number, uint64_t *bits) {
    /* half-way between the largest float and the next one, which is even */
    static const double beyond = 340282356779733661637539395458142568448.0;
    const double real = fb_decimal_to_real(number);
    if (field->type == FB_PROTO_DOUBLE) {
        memcpy(bits, &real, 8);
        return (*bits >> 52 & 0x7ff) != 0x7ff;
    }
    if (real >= beyond || real <= -beyond) return false;
    const float narrow = (float)real;
    uint32_t half;
    memcpy(&half, &narrow, 4);
    *bits = half;
    return true;
}

/* Convert a number to an integer of the field. Returns false if it does not fit. */
static bool to_integer(const fb_codec_field *field, const fb_decimal *number, uint64_t *value) {
    uint64_t magnitude;
    if (!fb_decimal_to_integer(number, &magnitude)) return false;
    const bool negative = number->negative && magnitude;
    *value = negative ? 0 - magnitude : magnitude;
    if (!negative) return magnitude <= field->most;
    return magnitude <= (uint64_t)1 << 63 && (int64_t)*value >= field->least;
}

static bool to_number(const fb_codec_field *field, const fb_decimal *number, uint64_t *value) {
    const bool real = field->type == FB_PROTO_DOUBLE || field->type == FB_PROTO_FLOAT;
    return real ? to_real(field, number, value) : to_integer(field, number, value);
}

bool fb_json_is(fb_bytes text, const char *word) {
    return text.size == strlen(word) && !memcmp(text.data, word, text.size);
}

/* Convert NaN and the infinities, which are strings in JSON. */
static bool to_special(const fb_codec_field *field, fb_bytes text, uint64_t *bits) {
    const bool narrow = field->type == FB_PROTO_FLOAT;
    const uint64_t infinite = narrow ? 0x7f800000 : 0x7ff0000000000000;
    if (!narrow && field->type != FB_PROTO_DOUBLE) return false;
    if (fb_json_is(text, "NaN")) *bits = narrow ? 0x7fc00000 : 0x7ff8000000000000;
    else if (fb_json_is(text, "Infinity")) *bits = infinite;
    else if (fb_json_is(text, "-Infinity")) *bits = infinite | (narrow ? 0x80000000u : 1ull << 63);
    else return false;
    return true;
}

bool fb_json_number_of(fb_json_reader *r, const fb_codec_field *field, fb_bytes text,
                       const uint8_t *begin, const fb_json_where *place, uint64_t *value) {
    fb_decimal number;
    if (to_special(field, text, value)) return true;
    if (fb_parse_decimal(text.data, fb_end_of(text), &number) != fb_end_of(text) || !text.size)
        return fb_json_fail_at(r, place, begin, "a string that is not a number");
    return to_number(field, &number, value) || fail_range(r, field, place, begin);
}

static bool read_number(fb_json_reader *r, const fb_codec_field *field, const fb_json_where *place,
                        uint64_t *value) {
    fb_decimal number;
    fb_bytes text;
    const uint8_t first = fb_json_peek(&r->text), *begin = r->text.p;
    if (first == '"')
        return fb_json_take_string(&r->text, &text)
                   ? fb_json_number_of(r, field, text, begin, place, value)
                   : fb_json_fail_text(r, place);
    if (!fb_json_take_number(&r->text, &number)) return fb_json_fail_text(r, place);
    return to_number(field, &number, value) || fail_range(r, field, place, begin);
}

static fb_json_result read_enum(fb_json_reader *r, const fb_codec_field *field,
                                const fb_json_field *of, const fb_json_where *place,
                                uint64_t *value) {
    fb_bytes text;
    const uint8_t first = fb_json_peek(&r->text), *begin = r->text.p;
    *value = 0;
    if (of->members->null && fb_json_take_word(&r->text, "null")) return FB_JSON_READ;
    if (first != '"') {
        if (first != '-' && !(first >= '0' && first <= '9'))
            return fail_expected(r, field, place), FB_JSON_FAILED;
        if (!read_number(r, field, place, value)) return FB_JSON_FAILED;
        if (fb_codec_has_member(field, *value)) return FB_JSON_READ;
        if (r->ignore_unknown) return FB_JSON_SKIPPED;
        return fail_range(r, field, place, begin), FB_JSON_FAILED;
    }
    if (!fb_json_take_string(&r->text, &text)) return fb_json_fail_text(r, place), FB_JSON_FAILED;
    const fb_json_name *name = fb_json_names_find(&of->members->names, text);
    if (!name) {
        if (r->ignore_unknown) return FB_JSON_SKIPPED;
        return fb_json_fail_at(r, place, begin, "an unknown member of the enum"), FB_JSON_FAILED;
    }
    *value = (uint64_t)(int64_t)(int32_t)name->value;
    return FB_JSON_READ;
}

fb_json_result fb_json_read_scalar(fb_json_reader *r, const fb_codec_field *field,
                                   const fb_json_field *of, const fb_json_where *place,
                                   uint64_t *value) {
    if (field->type == FB_PROTO_ENUM) return read_enum(r, field, of, place, value);
    if (field->type != FB_PROTO_BOOL)
        return read_number(r, field, place, value) ? FB_JSON_READ : FB_JSON_FAILED;
    *value = fb_json_take_word(&r->text, "true");
    if (*value || fb_json_take_word(&r->text, "false")) return FB_JSON_READ;
    return fail_expected(r, field, place), FB_JSON_FAILED;
}

bool fb_json_read_string(fb_json_reader *r, const fb_codec_field *field, bool always,
                         const fb_json_where *place) {
    fb_bytes text;
    if (fb_json_peek(&r->text) != '"') return fail_expected(r, field, place);
    if (!fb_json_take_string(&r->text, &text)) return fb_json_fail_text(r, place);
    return fb_json_put_bytes(r, field, text, always);
}

bool fb_json_read_bytes(fb_json_reader *r, const fb_codec_field *field, bool always,
                        const fb_json_where *place) {
    fb_bytes text;
    size_t begin;
    if (fb_json_peek(&r->text) != '"') return fail_expected(r, field, place);
    const uint8_t *from = r->text.p;
    if (!fb_json_take_string(&r->text, &text)) return fb_json_fail_text(r, place);
    if (!text.size && !always) return true;
    if (!fb_json_begin_length(r, field, &begin) || !fb_json_reserve(r, text.size)) return false;
    uint8_t *end = fb_base64_read(r->output->p, text);
    if (!end) return fb_json_fail_at(r, place, from, "a string that is not base64");
    const size_t size = (size_t)(end - r->output->p);
    r->output->p = end;
    if (field->most && size && size != field->most && size != (uint64_t)field->least)
        return fb_json_fail_at(r, place, from, "bytes of another size than the field has");
    return fb_json_end_length(r, field, begin, place);
}
