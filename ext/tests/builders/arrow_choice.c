#include "tests/builders/arrow_choice.h"

#include <stdio.h>

#include "tests/builders/arrow_choice_internal.h"

#include "core/plan/plan.h"

enum { MOST_ROWS = 160, MOST_MEMBERS = 1400, MOST_DEPTH = 3 };

/* Columns ------------------------------------------------------------------------------------ */

/* Types of columns. Each has a letter, from `a` on. */
static const char *const types[] = {
    /* a */ "uint limit=255",
    "uint limit=65535",
    "uint limit=4294967295",
    "uint",
    "uint limit=100",
    "uint limit=281474976710655",
    /* g */ "enum",
    "int limit=2147483647",
    "int",
    "sint limit=2147483647",
    "sint",
    "bool",
    /* m */ "float",
    "double",
    "fixed32",
    "fixed64",
    "string",
    "bytes",
    "ip",
    "ip native_ip",
    /* u */ "timestamp unit=1000000",
    "timestamp unit=1",
    "timestamp unit=7 limit=70000",
    /* x */ "duration unit=1000000",
    "duration unit=1000000000",
};

static const char *const kinds[] = {"", " explicit", " repeated"};

void choice_put_columns(text *lines) {
    unsigned number = 1;
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (size_t i = 0; i < COUNT(types); i++, number += k == 1 ? 1000 : 1)
            text_put(lines, "%u c%zu_%zu %s%s\n", number, k, i, types[i], kinds[k]);
    text_put(lines, "%u off uint disabled\n", FB_NUMBER_MAX);
}

/* Formats ------------------------------------------------------------------------------------ */

typedef enum {
    UNKNOWN,
    NOTHING,
    BITS,
    INTEGER,
    REAL,
    FIXED,
    SMALL,
    LARGE,
    VIEW,
    LIST,
    LARGE_LIST,
    FIXED_LIST
} kind;

typedef struct {
    char start[5]; /* the whole format, or its start if it ends with a colon */
    kind kind;
    size_t width;
    const char *fills; /* letters of the columns that it can fill */
} format;

#define NUMBERS "abcdefghijklmnopuvwxy"
static const format formats[] = {
    {"n", NOTHING, 0, "aglqs"},
    {"b", BITS, 0, "abcdefhijklop"},
    {"c", INTEGER, 1, NUMBERS},
    {"C", INTEGER, 1, NUMBERS},
    {"s", INTEGER, 2, NUMBERS},
    {"S", INTEGER, 2, NUMBERS},
    {"i", INTEGER, 4, NUMBERS},
    {"I", INTEGER, 4, NUMBERS},
    {"l", INTEGER, 8, NUMBERS},
    {"L", INTEGER, 8, NUMBERS},
    {"f", REAL, 4, "abcdefghijkmnop"},
    {"g", REAL, 8, "abcdefghijkmnop"},
    {"z", SMALL, 0, "rst"},
    {"Z", LARGE, 0, "rst"},
    {"vz", VIEW, 0, "rst"},
    {"u", SMALL, 1, "fgqrst"},
    {"U", LARGE, 1, "fgqrst"},
    {"vu", VIEW, 1, "fgqrst"},
    {"tdD", INTEGER, 4, "uvw"},
    {"tdm", INTEGER, 8, "uvw"},
    {"tss:", INTEGER, 8, "uvw"},
    {"tsm:", INTEGER, 8, "uvw"},
    {"tsu:", INTEGER, 8, "uvw"},
    {"tsn:", INTEGER, 8, "uvw"},
    {"tDs", INTEGER, 8, "xy"},
    {"tDm", INTEGER, 8, "xy"},
    {"tDu", INTEGER, 8, "xy"},
    {"tDn", INTEGER, 8, "xy"},
    {"w:", FIXED, 0, "fstr"},
    {"+l", LIST, 0, ""},
    {"+L", LARGE_LIST, 0, ""},
    {"+w:", FIXED_LIST, 0, ""},
};

static const char *const unsupported[] = {"",
                                          "e",
                                          "d:19,10",
                                          "tts",
                                          "tiM",
                                          "+s",
                                          "+m",
                                          "+ud:0,1",
                                          "+vl",
                                          "+r",
                                          "w:",
                                          "w:-1",
                                          "w:16x",
                                          "+w:",
                                          "w:2147483648",
                                          "+w:2147483647",
                                          "w:99999999999999999999",
                                          "ts",
                                          "tss",
                                          "td",
                                          "vux",
                                          "+w:0x10",
                                          "w:00000004",
                                          "\xff"};

static bool read_size(const char *digits, size_t *size) {
    char *end;
    unsigned long long number = strtoull(digits, &end, 10);
    *size = (size_t)number;
    return *digits >= '0' && *digits <= '9' && !*end && number <= INT32_MAX;
}

/* Parse a format. Returns false if the core must refuse it. */
static bool read_format(const char *text, format *f) {
    for (size_t i = 0; i < COUNT(formats); i++) {
        size_t size = strlen(formats[i].start);
        bool open = formats[i].start[size - 1] == ':', sized = open && *formats[i].start != 't';
        if (strncmp(text, formats[i].start, size) || (!open && text[size])) continue;
        *f = formats[i];
        return !sized || read_size(text + size, &f->width);
    }
    return false;
}

/* Nodes -------------------------------------------------------------------------------------- */

static void add_validity(maker *m, node *n) {
    static const int64_t null_counts[] = {0, -1, -1, 0};
    size_t size = (count_of(n) + 7) / 8;
    unsigned how = next_byte(m) % 5;
    n->array.null_count = how < 4 ? null_counts[how] : (int64_t)count_of(n);
    if (how < 2) { /* no validity buffer */
        n->array.n_buffers = 1;
        return;
    }
    uint8_t *bits = make_room(m, size), most = next_byte(m);
    n->buffers[n->array.n_buffers++] = bits;
    for (size_t i = 0; i < size; i++) bits[i] = next_byte(m) | most;
}

static node *make_node(maker *m, size_t length, unsigned depth);

static void add_members(maker *m, node *n, size_t length, unsigned depth) {
    node *members = make_node(m, length, depth ? depth - 1 : 0);
    n->schemas[0] = &members->schema;
    n->arrays[0] = &members->array;
    n->schema.children = n->schemas;
    n->array.children = n->arrays;
    n->schema.n_children = n->array.n_children = 1;
    n->listed = true;
    n->fills = members->fills;
    n->known &= members->known && !members->listed;
}

/* Add offsets of lists. They may be any numbers, because the number of members is known. */
static void add_lists(maker *m, node *n, bool large, unsigned depth) {
    size_t count = count_of(n), end = next_byte(m) % 4;
    uint8_t *offsets = add_buffer(m, n, count ? (count + 1) * (large ? 8 : 4) : 0);
    for (size_t i = 0; count && i <= count; i++) {
        uint8_t step = next_byte(m);
        choice_put_offset(offsets, i, step == 1 ? choice_pick_integer(m) : (int64_t)end, large);
        if (end < 1000) end += step >= 252 ? 200 : step % 4;
    }
    add_members(m, n, end - (end && one_in(m, 16)), depth);
}

static void empty(node *n) {
    n->array.length = n->array.offset = 0;
}

static void fill_node(maker *m, node *n, const format *f, unsigned depth) {
    if (f->kind == FIXED && count_of(n) * f->width > MOST_BYTES) empty(n);
    if (f->kind != NOTHING) add_validity(m, n);
    size_t count = count_of(n);
    switch (f->kind) {
        case BITS:
            choice_fill_numbers(m, add_buffer(m, n, (count + 7) / 8), (count + 7) / 8, 1, false);
            return;
        case INTEGER:
            choice_fill_numbers(m, add_buffer(m, n, count * f->width), count, f->width, false);
            return;
        case REAL:
            choice_fill_numbers(m, add_buffer(m, n, count * f->width), count, f->width, true);
            return;
        case FIXED:
            choice_fill_numbers(m, add_buffer(m, n, count * f->width), count * f->width, 1, false);
            return;
        case SMALL:
        case LARGE: choice_add_bytes(m, n, f->kind == LARGE); return;
        case VIEW: choice_add_views(m, n); return;
        case LIST:
        case LARGE_LIST: add_lists(m, n, f->kind == LARGE_LIST, depth); return;
        case FIXED_LIST: add_members(m, n, count * f->width, depth); return;
        default: return;
    }
}

/* Choose a format: a valid suffix behind the colon, or a random change. */
static const char *choose_format(maker *m, bool index) {
    static const char *const sizes[] = {"16", "4", "6", "0", "1", "3", "17"}, *const zones[] = {
                                                                                  "", "UTC",
                                                                                  "Europe/Berlin"};
    char text[40];
    const char *start = index ? formats[2 + next_byte(m) % 8].start : PICK(m, formats).start;
    size_t size = (size_t)snprintf(text, sizeof text, "%s", start);
    if (text[size - 1] == ':')
        size +=
            (size_t)snprintf(text + size, 20, "%s", *text == 't' ? PICK(m, zones) : PICK(m, sizes));
    if (one_in(m, 32)) size = (size_t)snprintf(text, sizeof text, "%s", PICK(m, unsupported));
    if (one_in(m, 32) && size) text[next_byte(m) % size] = (char)next_byte(m);
    if (one_in(m, 64)) text[size ? next_byte(m) % size : 0] = 0;
    return memcpy(allocate_zeros(m, strlen(text) + 1), text, strlen(text) + 1);
}

static void add_dictionary(maker *m, node *n, unsigned depth) {
    node *values = make_node(m, next_byte(m) % 80, depth - 1);
    n->schema.dictionary = &values->schema;
    n->array.dictionary = &values->array;
    n->listed |= values->listed;
    n->fills = values->fills;
    n->known &= values->known && !values->indexed;
}

static bool is_index(const format *f) {
    return f->kind == INTEGER && !f->start[1];
}

static node *make_node(maker *m, size_t length, unsigned depth) {
    node *n = allocate_zeros(m, sizeof *n);
    format f = {.fills = ""};
    n->indexed = depth && one_in(m, 5);
    n->schema =
        (struct ArrowSchema){.format = choose_format(m, n->indexed && !one_in(m, 16)), .name = ""};
    n->known = read_format(n->schema.format, &f);
    if (!n->known) f.kind = UNKNOWN;
    n->fills = f.fills;
    if (length > MOST_MEMBERS && f.kind != NOTHING) length = 0;
    n->array = (struct ArrowArray){.length = (int64_t)length,
                                   .offset = one_in(m, 2) ? next_byte(m) % 70 : 0,
                                   .buffers = n->buffers};
    fill_node(m, n, &f, depth);
    if (!n->indexed) return n;
    n->known &= is_index(&f);
    add_dictionary(m, n, depth);
    return n;
}

/* Batches ------------------------------------------------------------------------------------ */

static uint16_t choose_column(maker *m, const node *n) {
    size_t all = COUNT(kinds) * COUNT(types) + 1, letters = strlen(n->fills);
    uint8_t how = next_byte(m);
    if (how % 16 == 0) return FB_NO_COLUMN;
    if (how % 16 == 1 || !letters) return (uint16_t)(next_byte(m) % all);
    size_t type = (size_t)(n->fills[next_byte(m) % letters] - 'a');
    return (uint16_t)(type + COUNT(types) * (n->listed ? 2u : how / 16 % 2));
}

/* Make an array invalid in a way that the core can detect. Changes that would require larger
   buffers are excluded. */
static void invalidate_array(maker *m, struct ArrowArray *a) {
    static const void *const none[8];
    switch (next_byte(m) % 7) {
        case 0: a->length = -a->length - 1; return;
        case 1: a->offset = -a->offset - 1; return;
        case 2: a->offset = INT64_MAX - next_byte(m); return;
        case 3: a->n_buffers = next_byte(m) % 2 ? 0 : a->n_buffers + (a->n_buffers < 3); return;
        case 4: a->buffers = NULL; return;
        case 5: a->buffers = (const void **)(uintptr_t)none; return;
        default: a->length /= 2;
    }
}

/* Choose an array or one below it. */
static struct ArrowArray *choose_array(maker *m, struct ArrowArray *a) {
    while (one_in(m, 2) && (a->dictionary || a->n_children))
        a = a->dictionary ? a->dictionary : a->children[0];
    return a;
}

static void add_null_rows(maker *m, choice *c, size_t rows) {
    uint8_t *bits = make_room(m, (rows + 7) / 8);
    for (size_t i = 0; i < (rows + 7) / 8; i++) bits[i] = next_byte(m) | next_byte(m);
    c->buffers[0] = bits;
    c->array.null_count = -1;
}

void choice_make(choice *c, const uint8_t *data, size_t size) {
    maker m = {data, data + size, NULL};
    *c = (choice){.child_count = 1 + next_byte(&m) % CHOICE_CHILDREN};
    size_t rows = next_byte(&m) % MOST_ROWS, lead = one_in(&m, 4) ? next_byte(&m) % 20 : 0;
    for (size_t i = 0; i < c->child_count; i++) {
        node *n = make_node(&m, lead + rows, MOST_DEPTH);
        c->columns[i] = choose_column(&m, n);
        c->known[i] = n->known;
        c->schemas[i] = &n->schema;
        c->arrays[i] = &n->array;
    }
    if ((c->invalid = one_in(&m, 16)))
        invalidate_array(&m, choose_array(&m, c->arrays[next_byte(&m) % c->child_count]));
    c->schema = (struct ArrowSchema){.format = one_in(&m, 64) ? choose_format(&m, false) : "+s",
                                     .children = c->schemas};
    c->array = (struct ArrowArray){
        .length = (int64_t)rows, .offset = (int64_t)lead, .n_buffers = 1, .buffers = c->buffers};
    c->array.children = c->arrays;
    c->schema.n_children = c->array.n_children = (int64_t)c->child_count;
    if (c->invalid) c->array.n_children -= one_in(&m, 8);
    if (one_in(&m, 4)) add_null_rows(&m, c, lead + rows);
    c->blocks = m.blocks;
}

void choice_free(choice *c) {
    for (block *block = c->blocks, *next; block; block = next) {
        next = block->next;
        free(block->data);
        free(block);
    }
}

/* Slice the children by their offsets if rows have no validity; otherwise slice the batch. */
const struct ArrowArray *choice_cut(choice_slice *slice, const choice *c, size_t first,
                                    size_t count) {
    slice->array = c->array;
    slice->array.length = (int64_t)count;
    slice->array.offset = c->buffers[0] ? c->array.offset + (int64_t)first : 0;
    slice->array.children = slice->arrays;
    for (size_t i = 0; i < c->child_count; i++) {
        struct ArrowArray *child = slice->arrays[i] = &slice->children[i];
        *child = *c->arrays[i];
        if (c->buffers[0]) continue;
        child->offset += c->array.offset + (int64_t)first;
        child->length = (int64_t)count;
        if (child->null_count) child->null_count = -1;
    }
    return &slice->array;
}

const struct ArrowArray *choice_shift(choice_slice *slice, const choice *c) {
    choice_cut(slice, c, 0, (size_t)c->array.length);
    for (size_t i = 0; i < c->child_count; i++) {
        const struct ArrowArray *dictionary = slice->children[i].dictionary;
        if (!dictionary || !dictionary->length) continue;
        slice->dictionaries[i] = *dictionary;
        slice->dictionaries[i].offset++;
        slice->dictionaries[i].length--;
        if (dictionary->null_count) slice->dictionaries[i].null_count = -1;
        slice->children[i].dictionary = &slice->dictionaries[i];
    }
    return &slice->array;
}
