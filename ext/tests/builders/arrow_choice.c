#include "tests/builders/arrow_choice.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/plan/plan.h"

enum { MOST_ROWS = 160, MOST_MEMBERS = 1400, MOST_BYTES = 1 << 16, MOST_DEPTH = 3 };

#define COUNT(array)   (sizeof(array) / sizeof *(array))
#define PICK(m, array) (array)[take(m) % COUNT(array)]

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

static const char *const strange[] = {"",
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

/* Choices ------------------------------------------------------------------------------------ */

typedef struct block block;
struct block {
    block *next;
    uint8_t *data;
};

typedef struct {
    const uint8_t *p, *end;
    block *blocks;
} maker;

static uint8_t take(maker *m) {
    return m->p < m->end ? *m->p++ : 0;
}
static bool one_in(maker *m, unsigned count) {
    return take(m) % count == count - 1;
}

static void *hold(maker *m, size_t size) {
    block *block = malloc(sizeof *block);
    if (!block || !(block->data = calloc(1, size ? size : 1))) abort();
    block->next = m->blocks;
    m->blocks = block;
    return block->data;
}

/* Allocate zeroed bytes, mostly at an odd address. */
static uint8_t *make_room(maker *m, size_t size) {
    return one_in(m, 4) ? hold(m, size) : (uint8_t *)hold(m, size + 1) + 1;
}

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowSchema *schemas[1];
    struct ArrowArray *arrays[1];
    const void *buffers[8];
    const char *fills;
    bool known, listed, indexed;
} node;

/* Add a buffer that the node owns. An empty buffer is sometimes NULL. */
static uint8_t *add_buffer(maker *m, node *n, size_t size) {
    uint8_t *buffer = make_room(m, size);
    n->buffers[n->array.n_buffers++] = size || one_in(m, 2) ? buffer : NULL;
    return buffer;
}

static size_t count_of(const node *n) {
    return (size_t)(n->array.offset + n->array.length);
}

static void add_validity(maker *m, node *n) {
    static const int64_t null_counts[] = {0, -1, -1, 0};
    size_t size = (count_of(n) + 7) / 8;
    unsigned how = take(m) % 5;
    n->array.null_count = how < 4 ? null_counts[how] : (int64_t)count_of(n);
    if (how < 2) { /* no validity buffer */
        n->array.n_buffers = 1;
        return;
    }
    uint8_t *bits = make_room(m, size), most = take(m);
    n->buffers[n->array.n_buffers++] = bits;
    for (size_t i = 0; i < size; i++) bits[i] = take(m) | most;
}

/* Numbers ------------------------------------------------------------------------------------ */

static const int64_t integers[] = {0,
                                   1,
                                   -1,
                                   2,
                                   7,
                                   100,
                                   101,
                                   127,
                                   128,
                                   -128,
                                   255,
                                   256,
                                   65535,
                                   65536,
                                   INT32_MAX,
                                   INT32_MIN,
                                   UINT32_MAX,
                                   (int64_t)UINT32_MAX + 1,
                                   INT64_MAX,
                                   INT64_MIN,
                                   0xffffffffffff,
                                   0x1000000000000,
                                   16777217,
                                   9007199254740993,
                                   9223372036854,
                                   9223372036855,
                                   106751,
                                   106752,
                                   9223372036854775,
                                   -9223372036854775,
                                   9223372036854776,
                                   18446744073,
                                   86400000,
                                   -999,
                                   1700000000000};

static const double reals[] = {0,
                               -0.0,
                               0.5,
                               1,
                               -1,
                               100,
                               101,
                               255,
                               256,
                               4294967295,
                               4294967296,
                               2147483648,
                               -2147483648,
                               -2147483649,
                               0x1p63,
                               -0x1p63,
                               0x1p64,
                               0x1.fffffffffffffp63,
                               0x1.fffffep127,
                               0x1.ffffffp127,
                               1e39,
                               5e-324,
                               1e308};

static int choose_small(maker *m, unsigned how) {
    return how == 1 ? take(m) % 101 : (int8_t)take(m);
}

static double choose_real(maker *m, unsigned how) {
    static const double odd[] = {__builtin_nan(""), __builtin_inf(), -__builtin_inf()};
    return how < 3 ? choose_small(m, how) : one_in(m, 8) ? PICK(m, odd) : PICK(m, reals);
}

static int64_t choose_integer(maker *m, unsigned how) {
    return how < 3 ? choose_small(m, how) : PICK(m, integers);
}

/* Fill numbers with random bytes, values that most columns hold, small values, or boundary
   values. */
static void fill_numbers(maker *m, uint8_t *values, size_t count, size_t width, bool real) {
    unsigned how = take(m) % 4;
    for (size_t i = 0; i < count; i++, values += width) {
        for (size_t k = 0; !how && k < width; k++) values[k] = take(m);
        if (!how) continue;
        double wide = real ? choose_real(m, how) : 0;
        float narrow = (float)wide;
        int64_t integer = real ? 0 : choose_integer(m, how);
        memcpy(values,
               real && width == 8 ? (void *)&wide
               : real             ? (void *)&narrow
                                  : (void *)&integer,
               width);
    }
}

/* Bytes -------------------------------------------------------------------------------------- */

static const char *const words[] = {"",
                                    "ingress",
                                    "in",
                                    "5",
                                    "007",
                                    "2147483647",
                                    "2147483648",
                                    "1.2.3.4",
                                    "0.0.0.0",
                                    "::",
                                    "::ffff:0.0.0.0",
                                    "2001:db8::1",
                                    "1.2.3.04",
                                    "1:2:3:4:5:6:7:8",
                                    "1:2:3:4:5:6:7::",
                                    "::1:2:3:4:5:6:7:8",
                                    "1:2:3:4:5:6:1.2.3.4",
                                    "00:00:5e:00:53:01",
                                    "00-00-5E-00-53-01",
                                    "00:00:5e-00:53:01",
                                    "twelve-bytes",
                                    "thirteen-byte",
                                    "sixteen-bytes-of",
                                    "\xc3\xa4",
                                    "\xf0\x9f\x98\x80",
                                    "\xed\xa0\x80",
                                    "thirteen-byt\xc3",
                                    "\xf4\x90\x80\x80",
                                    "\xc0\x80",
                                    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                                    "\n%s\\\"",
                                    "a text of more octets than any address has"};

/* Choose a value. Most are one repeated word, so that whole blocks are valid if the column takes
   it. */
static size_t choose_bytes(maker *m, const char *usual, uint8_t *bytes) {
    uint8_t how = take(m);
    size_t size = how % 8 == 0 ? 4 : how % 8 == 1 ? 16 : how % 32;
    if (how >= 16) {
        const char *word = how < 32 ? PICK(m, words) : usual;
        memcpy(bytes, word, size = strlen(word));
        return size;
    }
    for (size_t i = 0; i < size; i++) bytes[i] = take(m);
    return size;
}

typedef struct {
    uint8_t bytes[MOST_BYTES];
    size_t size, ends[MOST_BYTES / 16];
} byte_buffer;

static void choose_all(maker *m, byte_buffer *o, size_t count) {
    const char *usual = PICK(m, words);
    o->size = 0;
    for (size_t i = 0; i < count; i++) {
        o->size += choose_bytes(m, usual, o->bytes + o->size);
        o->ends[i] = o->size;
    }
}

static void put_offset(uint8_t *offsets, size_t i, int64_t offset, bool large) {
    memcpy(offsets + i * (large ? 8 : 4), &offset, large ? 8 : 4);
}

/* Add offsets and bytes. Only offsets state the number of bytes, so none may exceed the buffer.
   Some are not in order. */
static void add_bytes(maker *m, node *n, bool large) {
    static byte_buffer o;
    size_t count = count_of(n), first = take(m) % 4, lost = take(m);
    choose_all(m, &o, count);
    uint8_t *offsets = add_buffer(m, n, count ? (count + 1) * (large ? 8 : 4) : 0);
    for (size_t i = 0; count && i <= count; i++)
        put_offset(offsets, i,
                   i == lost && i < count ? (take(m) % 2 ? -1 : 0)
                                          : (int64_t)(first + (i ? o.ends[i - 1] : 0)),
                   large);
    uint8_t *values = add_buffer(m, n, count ? first + o.size : 0);
    if (count) memcpy(values + first, o.bytes, o.size);
}

/* Add views. Any part of a view may be wrong, because the core can check it. */
static void add_views(maker *m, node *n) {
    static byte_buffer o;
    size_t count = count_of(n), split = take(m) % 3;
    choose_all(m, &o, count);
    uint8_t *views = add_buffer(m, n, 16 * count), *values[2] = {NULL, NULL};
    for (size_t k = 0; k < split; k++)
        memcpy(values[k] = add_buffer(m, n, o.size), o.bytes, o.size);
    for (size_t i = 0; i < count; i++) {
        size_t begin = i ? o.ends[i - 1] : 0;
        int32_t size = (int32_t)(o.ends[i] - begin),
                place[2] = {split ? (int32_t)(i % split) : 0, (int32_t)begin};
        memcpy(views + 16 * i, &size, 4);
        memcpy(views + 16 * i + 4, o.bytes + begin, size < 12 ? (size_t)size : 12);
        if (size > 12) memcpy(views + 16 * i + 8, place, 8);
        if (one_in(m, 32)) views[16 * i + take(m) % 16] ^= take(m);
    }
    uint8_t *sizes = add_buffer(m, n, 8 * split);
    for (size_t k = 0; k < split; k++) {
        int64_t held = one_in(m, 16) ? PICK(m, integers) : (int64_t)o.size;
        if (held <= (int64_t)o.size) memcpy(sizes + 8 * k, &held, 8); /* otherwise 0 */
    }
}

/* Nodes -------------------------------------------------------------------------------------- */

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
    size_t count = count_of(n), end = take(m) % 4;
    uint8_t *offsets = add_buffer(m, n, count ? (count + 1) * (large ? 8 : 4) : 0);
    for (size_t i = 0; count && i <= count; i++) {
        uint8_t step = take(m);
        put_offset(offsets, i, step == 1 ? PICK(m, integers) : (int64_t)end, large);
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
            fill_numbers(m, add_buffer(m, n, (count + 7) / 8), (count + 7) / 8, 1, false);
            return;
        case INTEGER:
            fill_numbers(m, add_buffer(m, n, count * f->width), count, f->width, false);
            return;
        case REAL:
            fill_numbers(m, add_buffer(m, n, count * f->width), count, f->width, true);
            return;
        case FIXED:
            fill_numbers(m, add_buffer(m, n, count * f->width), count * f->width, 1, false);
            return;
        case SMALL:
        case LARGE: add_bytes(m, n, f->kind == LARGE); return;
        case VIEW: add_views(m, n); return;
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
    const char *start = index ? formats[2 + take(m) % 8].start : PICK(m, formats).start;
    size_t size = (size_t)snprintf(text, sizeof text, "%s", start);
    if (text[size - 1] == ':')
        size +=
            (size_t)snprintf(text + size, 20, "%s", *text == 't' ? PICK(m, zones) : PICK(m, sizes));
    if (one_in(m, 32)) size = (size_t)snprintf(text, sizeof text, "%s", PICK(m, strange));
    if (one_in(m, 32) && size) text[take(m) % size] = (char)take(m);
    if (one_in(m, 64)) text[size ? take(m) % size : 0] = 0;
    return memcpy(hold(m, strlen(text) + 1), text, strlen(text) + 1);
}

static void add_dictionary(maker *m, node *n, unsigned depth) {
    node *values = make_node(m, take(m) % 80, depth - 1);
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
    node *n = hold(m, sizeof *n);
    format f = {.fills = ""};
    n->indexed = depth && one_in(m, 5);
    n->schema =
        (struct ArrowSchema){.format = choose_format(m, n->indexed && !one_in(m, 16)), .name = ""};
    n->known = read_format(n->schema.format, &f);
    if (!n->known) f.kind = UNKNOWN;
    n->fills = f.fills;
    if (length > MOST_MEMBERS && f.kind != NOTHING) length = 0;
    n->array = (struct ArrowArray){.length = (int64_t)length,
                                   .offset = one_in(m, 2) ? take(m) % 70 : 0,
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
    uint8_t how = take(m);
    if (how % 16 == 0) return FB_NO_COLUMN;
    if (how % 16 == 1 || !letters) return (uint16_t)(take(m) % all);
    size_t type = (size_t)(n->fills[take(m) % letters] - 'a');
    return (uint16_t)(type + COUNT(types) * (n->listed ? 2u : how / 16 % 2));
}

/* Make an array invalid in a way that the core can detect. Changes that would require larger
   buffers are excluded. */
static void twist(maker *m, struct ArrowArray *a) {
    static const void *const none[8];
    switch (take(m) % 7) {
        case 0: a->length = -a->length - 1; return;
        case 1: a->offset = -a->offset - 1; return;
        case 2: a->offset = INT64_MAX - take(m); return;
        case 3: a->n_buffers = take(m) % 2 ? 0 : a->n_buffers + (a->n_buffers < 3); return;
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
    for (size_t i = 0; i < (rows + 7) / 8; i++) bits[i] = take(m) | take(m);
    c->buffers[0] = bits;
    c->array.null_count = -1;
}

void choice_make(choice *c, const uint8_t *data, size_t size) {
    maker m = {data, data + size, NULL};
    *c = (choice){.child_count = 1 + take(&m) % CHOICE_CHILDREN};
    size_t rows = take(&m) % MOST_ROWS, lead = one_in(&m, 4) ? take(&m) % 20 : 0;
    for (size_t i = 0; i < c->child_count; i++) {
        node *n = make_node(&m, lead + rows, MOST_DEPTH);
        c->columns[i] = choose_column(&m, n);
        c->known[i] = n->known;
        c->schemas[i] = &n->schema;
        c->arrays[i] = &n->array;
    }
    if ((c->twisted = one_in(&m, 16)))
        twist(&m, choose_array(&m, c->arrays[take(&m) % c->child_count]));
    c->schema = (struct ArrowSchema){.format = one_in(&m, 64) ? choose_format(&m, false) : "+s",
                                     .children = c->schemas};
    c->array = (struct ArrowArray){
        .length = (int64_t)rows, .offset = (int64_t)lead, .n_buffers = 1, .buffers = c->buffers};
    c->array.children = c->arrays;
    c->schema.n_children = c->array.n_children = (int64_t)c->child_count;
    if (c->twisted) c->array.n_children -= one_in(&m, 8);
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
