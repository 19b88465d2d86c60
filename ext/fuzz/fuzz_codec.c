/* Fuzzes the codec with messages of any type and content.

   Checks:
   - Fields are those of a plain reader, whichever field was expected, and views stay inside the
     input.
   - A message that can be read completely, with its nested messages, is written with fields in
     order. The output is read as the same object and is written unchanged.

   Input: a message type (tests/support/plain_codec.h), then a message of it. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "core/codec/codec_write.h"
#include "tests/support/plain_codec.h"

enum { MAX_INPUT = 4096 };

/* A value that was read: a number, bytes, or the content of a message or group. */
typedef struct node {
    const fb_codec_field *field; /* NULL: an unknown field */
    uint64_t value;
    fb_bytes bytes;
    struct node *first; /* sorted by number; unknown fields come last */
    struct node *next;
} node;

/* All nodes, freed together. */
static node *nodes;
static size_t node_count;

static node *new_node(const fb_codec_field *field) {
    MUST(node_count < 2 * MAX_INPUT);
    nodes[node_count] = (node){.field = field};
    return nodes + node_count++;
}

/* Reading ------------------------------------------------------------------------------------ */

static bool is_number(const fb_codec_field *field) {
    return field->type < FB_PROTO_STRING;
}
static bool has_fields(const fb_codec_field *field) {
    return field->type == FB_PROTO_MESSAGE || field->type == FB_PROTO_GROUP;
}

static uint64_t order_of(const node *n) {
    return n->field ? n->field->number : UINT64_MAX;
}

/* Insert a value behind all others of its number. For a single field the last value replaces
   earlier ones, and zero removes it. */
static void add(node **first, node *n) {
    bool single = n->field && is_number(n->field) && !n->field->repeated;
    while (*first && order_of(*first) < order_of(n)) first = &(*first)->next;
    if (single && *first && (*first)->field == n->field) *first = (*first)->next;
    if (single && !n->field->presence && !n->value) return;
    while (*first && order_of(*first) == order_of(n)) first = &(*first)->next;
    n->next = *first;
    *first = n;
}

static void check_item(const fb_codec_item *item, const plain_item *plain) {
    MUST(item->field == plain->field && item->packed == plain->packed);
    if (item->field && is_number(item->field) && !item->packed) MUST(item->value == plain->value);
    else
        MUST(item->bytes.data == plain->begin && item->bytes.data + item->bytes.size == plain->end);
}

/* Check that the result is the same for every expected field. */
static fb_status check_next(fb_codec_reader *reader, fb_codec_item *item) {
    static const fb_status statuses[] = {
        [PLAIN_FIELD] = FB_OK, [PLAIN_END] = FB_END, [PLAIN_BAD] = FB_BAD_MESSAGE};
    plain_item plain;
    fb_status status = statuses[plain_next(reader->message, reader->p, reader->end, &plain)];
    const uint8_t *after = status == FB_OK ? plain.after : reader->p;
    fb_codec_reader other = *reader;
    other.expected = plain.field;
    for (unsigned i = 0; i < 2; i++) {
        MUST(fb_codec_next(&other, item) == status && other.p == after);
        if (status == FB_OK) check_item(item, &plain);
        other = *reader;
        other.expected = NULL;
    }
    MUST(fb_codec_next(reader, item) == status && reader->p == after);
    if (status == FB_OK) check_item(item, &plain);
    const fb_codec_field *field;
    if (status == FB_BAD_MESSAGE) MUST(*fb_codec_problem(reader, &field) && reader->p == after);
    return status;
}

/* Add packed elements, except numbers that are not in a closed enum. */
static bool add_elements(node **first, const fb_codec_item *item) {
    fb_bytes elements = item->bytes;
    const fb_codec_field *field = item->field;
    for (;;) {
        uint64_t value, plain;
        const uint8_t *begin = elements.data, *end = begin + elements.size;
        fb_status status = fb_codec_next_element(field, &elements, &value);
        const uint8_t *after = begin < end ? plain_scalar(field->type, begin, end, &plain) : NULL;
        fb_status otherwise = begin == end ? FB_END : FB_BAD_MESSAGE;
        MUST(status == (after ? FB_OK : otherwise));
        MUST(elements.data == (after ? after : begin) && elements.data + elements.size == end);
        if (!after) return status == FB_END;
        MUST(value == plain);
        if (!fb_codec_has_member(field, value)) continue;
        node *n = new_node(field);
        n->value = value;
        add(first, n);
    }
}

static bool read_fields(node **first, const fb_codec_message *message, fb_bytes bytes,
                        unsigned depth) {
    fb_codec_reader reader;
    fb_codec_item item;
    fb_status status;
    if (depth > FB_CODEC_DEPTH) return false;
    fb_codec_reader_begin(&reader, message, bytes);
    while ((status = check_next(&reader, &item)) == FB_OK) {
        if (item.packed) {
            if (!add_elements(first, &item)) return false;
            continue;
        }
        node *n = new_node(item.field);
        if (n->field && is_number(n->field)) n->value = item.value;
        else n->bytes = item.bytes;
        if (n->field && has_fields(n->field) &&
            !read_fields(&n->first, n->field->message, n->bytes, depth + 1))
            return false;
        add(first, n);
    }
    return status == FB_END;
}

/* Writing ------------------------------------------------------------------------------------ */

/* An output of limited size, which checks that every call stays within its stated room. */
typedef struct {
    uint8_t *p, *end;
} output;

static void check_room(const output *out, size_t size) {
    MUST((size_t)(out->end - out->p) >= size);
}

static void put_bytes(output *out, fb_bytes bytes) {
    check_room(out, bytes.size);
    out->p = fb_wire_put_bytes(out->p, bytes.data, bytes.size);
}

static void end_length(output *out, uint8_t *begin) {
    check_room(out, FB_VARINT_MAX);
    out->p = fb_codec_end_length(begin, out->p);
}

static void put_fields(output *out, const node *n);

static void put_inner(output *out, const node *n) {
    check_room(out, FB_CODEC_ROOM);
    out->p = fb_codec_put_tag(out->p, n->field);
    if (n->field->type == FB_PROTO_GROUP) {
        put_fields(out, n->first);
        check_room(out, FB_CODEC_ROOM);
        out->p = fb_codec_put_end_group(out->p, n->field);
    } else {
        uint8_t *begin = ++out->p;
        put_fields(out, n->first);
        end_length(out, begin);
    }
}

/* Write all values of a packed field. Returns the first value of the next field. */
static const node *put_packed(output *out, const node *n) {
    const fb_codec_field *field = n->field;
    check_room(out, FB_CODEC_ROOM);
    uint8_t *begin = out->p = fb_codec_put_tag(out->p, field) + 1;
    for (; n && n->field == field; n = n->next) {
        check_room(out, FB_CODEC_ROOM);
        out->p = fb_codec_put_value(out->p, field, n->value);
    }
    end_length(out, begin);
    return n;
}

static void put_one(output *out, const node *n) {
    const fb_codec_field *field = n->field;
    check_room(out, FB_CODEC_ROOM);
    if (!field) {
        put_bytes(out, n->bytes);
    } else if (has_fields(field)) {
        put_inner(out, n);
    } else if (!is_number(field)) {
        out->p = fb_codec_put_length(out->p, field, n->bytes.size);
        put_bytes(out, n->bytes);
    } else if (field->repeated) {
        out->p = fb_codec_put_value(fb_codec_put_tag(out->p, field), field, n->value);
    } else {
        uint8_t *begin = out->p;
        out->p = fb_codec_put_scalar(begin, field, n->value);
        MUST(out->p > begin);
    }
}

static void put_fields(output *out, const node *n) {
    while (n) {
        if (n->field && n->field->packed) {
            n = put_packed(out, n);
        } else {
            put_one(out, n);
            n = n->next;
        }
    }
}

/* Round trip --------------------------------------------------------------------------------- */

static void check_same(const node *a, const node *b) {
    for (; a && b; a = a->next, b = b->next) {
        MUST(a->field == b->field && a->value == b->value);
        if (a->field && has_fields(a->field)) check_same(a->first, b->first);
        else
            MUST(a->bytes.size == b->bytes.size &&
                 (!a->bytes.size || memcmp(a->bytes.data, b->bytes.data, a->bytes.size) == 0));
    }
    MUST(!a && !b);
}

/* One input byte gives at most a tag and a value, if it was a packed element. */
enum { MAX_OUTPUT = MAX_INPUT * (FB_TAG_MAX + FB_VARINT_MAX) + 2 * FB_CODEC_ROOM };

static fb_bytes write_all(uint8_t *room, const node *first) {
    output out = {room, room + MAX_OUTPUT};
    put_fields(&out, first);
    return (fb_bytes){room, (size_t)(out.p - room)};
}

static void check_written(const fb_codec_message *message, const node *first) {
    uint8_t *room = malloc(MAX_OUTPUT), *again = malloc(MAX_OUTPUT), *copy;
    MUST(room && again);
    fb_bytes written = write_all(room, first);
    MUST((copy = malloc(written.size ? written.size : 1)));
    memcpy(copy, room, written.size);
    node *second = NULL;
    MUST(read_fields(&second, message, (fb_bytes){copy, written.size}, 0));
    check_same(first, second);
    fb_bytes rewritten = write_all(again, second);
    MUST(rewritten.size == written.size && memcmp(again, room, written.size) == 0);
    free(copy);
    free(again);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static codec_choice c;
    node *first = NULL;
    if (size > MAX_INPUT) return 0;
    size_t taken = codec_choice_make(&c, data, size);
    MUST(nodes || (nodes = malloc(2 * MAX_INPUT * sizeof *nodes)));
    node_count = 0;
    if (read_fields(&first, c.types, (fb_bytes){data + taken, size - taken}, 0))
        check_written(c.types, first);
    return 0;
}
