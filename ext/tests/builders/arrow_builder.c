#include "tests/builders/arrow_builder.h"

#include "tests/support/check.h"
#include "tests/support/native.h"

unsigned arrow_lead;
bool arrow_always_valid;

enum { MOST_VALUES = 4096, MOST_BYTES = 1 << 16 };

/* A growing buffer of bytes. */
typedef struct {
    uint8_t data[MOST_BYTES];
    size_t size;
} buffer;

static void put(buffer *b, const void *data, size_t size) {
    if (b->size + size > sizeof b->data) abort();
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void add_buffer(arrow_node *node, const buffer *b) {
    size_t i = (size_t)node->array.n_buffers++;
    node->sizes[i] = b->size;
    node->buffers[i] = b->size ? fb_guarded_copy(b->data, b->size) : NULL;
}

static arrow_node *new_node(const char *format) {
    arrow_node *node = calloc(1, sizeof *node);
    if (!node) abort();
    snprintf(node->format, sizeof node->format, "%s", format);
    node->schema = (struct ArrowSchema){.format = node->format,
                                        .name = "",
                                        .flags = ARROW_FLAG_NULLABLE,
                                        .children = node->schemas};
    node->array = (struct ArrowArray){
        .children = node->arrays, .buffers = node->buffers, .offset = arrow_lead};
    return node;
}

void arrow_free(arrow_node *node) {
    if (!node) return;
    for (size_t i = 0; i < ARROW_BUFFERS; i++)
        if (node->sizes[i]) fb_guarded_free((uint8_t *)(uintptr_t)node->buffers[i], node->sizes[i]);
    for (size_t i = 0; i < ARROW_CHILDREN; i++) arrow_free(node->nodes[i]);
    arrow_free(node->dictionary);
    free(node);
}

/* Words and their nulls. The words of the lead come first. */
typedef struct {
    char copy[MOST_BYTES];
    const char *words[MOST_VALUES];
    size_t count;
    bool nulls;
} sentence;

static void read_words(sentence *s, const char *words, const char *lead) {
    char *rest;
    *s = (sentence){.count = 0};
    snprintf(s->copy, sizeof s->copy, "%s", words);
    while (s->count < arrow_lead) s->words[s->count++] = lead;
    for (char *word = strtok_r(s->copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (s->count == MOST_VALUES) abort();
        s->nulls |= strcmp(word, "null") == 0;
        s->words[s->count++] = strcmp(word, "''") == 0 ? "" : word;
    }
}

static bool is_null(const char *word) {
    return strcmp(word, "null") == 0;
}

static void put_bits(buffer *b, const sentence *s, bool (*is_set)(const char *word)) {
    b->size = (s->count + 7) / 8;
    memset(b->data, 0, b->size);
    for (size_t i = 0; i < s->count; i++) b->data[i / 8] |= (uint8_t)(is_set(s->words[i]) << i % 8);
}

static bool is_valid(const char *word) {
    return !is_null(word);
}
static bool is_one(const char *word) {
    return *word == '1';
}

static void add_validity(arrow_node *node, const sentence *s) {
    static buffer b;
    node->array.length = (int64_t)(s->count - arrow_lead);
    node->array.null_count = 0;
    for (size_t i = arrow_lead; i < s->count; i++) node->array.null_count += is_null(s->words[i]);
    if (arrow_lead || arrow_always_valid) node->array.null_count = -1;
    b.size = 0;
    if (s->nulls || arrow_always_valid) put_bits(&b, s, is_valid);
    add_buffer(node, &b);
}

/* Numbers ------------------------------------------------------------------------------------ */

static size_t width_of(const char *format) {
    switch (*format) {
        case 'c':
        case 'C': return 1;
        case 's':
        case 'S': return 2;
        case 'i':
        case 'I':
        case 'f': return 4;
        case 't': return strcmp(format, "tdD") ? 8 : 4;
        default: return 8;
    }
}

/* Append an integer. The bytes of a null have a value that only the widest column can hold. */
static void put_integer(buffer *b, uint64_t number, size_t size) {
    uint8_t bytes[8];
    native_put(bytes, number, size);
    put(b, bytes, size);
}

static void put_number(buffer *b, const char *format, const char *word) {
    float narrow = strtof(word, NULL);
    double wide = strtod(word, NULL);
    uint64_t number = is_null(word)  ? 0x8f8f8f8f8f8f8f8f
                      : *word == '-' ? (uint64_t)strtoll(word, NULL, 10)
                                     : strtoull(word, NULL, 10);
    if (*format == 'f') put(b, &narrow, 4);
    else if (*format == 'g') put(b, &wide, 8);
    else put_integer(b, number, width_of(format));
}

static void put_wide(buffer *b, const char *word) {
    bool negative = *word == '-';
    uint8_t number[16] = {0}, turned[16]; /* lowest byte first */
    for (const char *p = word + negative; *p >= '0' && *p <= '9'; p++) {
        unsigned carry = (unsigned)(*p - '0');
        for (size_t i = 0; i < 16; carry >>= 8, i++)
            number[i] = (uint8_t)(carry += number[i] * 10u);
    }
    for (size_t i = 0, carry = 1; negative && i < 16; carry >>= 8, i++)
        number[i] = (uint8_t)(carry += (uint8_t)~number[i]);
    if (is_null(word)) memset(number, 0x8f, 16);
    for (size_t i = 0; i < 16; i++) turned[15 - i] = number[i];
    put(b, native_lead(1) ? turned : number, 16);
}

static void add_numbers(arrow_node *node, const sentence *s, const char *format) {
    static buffer b;
    b.size = 0;
    if (*format == 'b') put_bits(&b, s, is_one);
    else
        for (size_t i = 0; i < s->count; i++)
            *format == 'd' ? put_wide(&b, s->words[i]) : put_number(&b, format, s->words[i]);
    add_buffer(node, &b);
}

/* Bytes -------------------------------------------------------------------------------------- */

static size_t bytes_of(const char *word, bool text, uint8_t *bytes) {
    char pair[3] = "";
    if (is_null(word)) word = "";
    size_t size = strlen(word);
    if (text || *word != 'x') {
        memcpy(bytes, word, size);
        return size;
    }
    for (size_t i = 0; i < size / 2; i++) {
        memcpy(pair, word + 1 + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size / 2;
}

static void add_fixed(arrow_node *node, const sentence *s, size_t size) {
    static buffer b;
    uint8_t bytes[MOST_BYTES];
    b.size = 0;
    for (size_t i = 0; i < s->count; i++) {
        memset(bytes, 0, size);
        bytes_of(s->words[i], false, bytes);
        put(&b, bytes, size);
    }
    add_buffer(node, &b);
}

static void put_offset(buffer *b, int64_t offset, bool large) {
    put_integer(b, (uint64_t)offset, large ? 8 : 4);
}

static void add_bytes(arrow_node *node, const sentence *s, bool text, bool large) {
    static buffer offsets, values;
    uint8_t bytes[MOST_BYTES];
    offsets.size = values.size = 0;
    put_offset(&offsets, 0, large);
    for (size_t i = 0; i < s->count; i++) {
        put(&values, bytes, bytes_of(s->words[i], text, bytes));
        put_offset(&offsets, (int64_t)values.size, large);
    }
    add_buffer(node, &offsets);
    add_buffer(node, &values);
}

/* Append views. Long values alternate between two buffers. */
static void add_views(arrow_node *node, const sentence *s, bool text) {
    static buffer views, values[2], sizes;
    uint8_t bytes[MOST_BYTES], view[16];
    views.size = values[0].size = values[1].size = sizes.size = 0;
    for (size_t i = 0; i < s->count; i++) {
        int32_t size = (int32_t)bytes_of(s->words[i], text, bytes), place[2] = {(int32_t)i % 2, 0};
        memset(view, 0, sizeof view);
        memcpy(view, &size, 4);
        memcpy(view + 4, bytes, size < 12 ? (size_t)size : 12);
        if (size > 12) {
            place[1] = (int32_t)values[place[0]].size;
            memcpy(view + 8, place, 8);
            put(&values[place[0]], bytes, (size_t)size);
        }
        put(&views, view, sizeof view);
    }
    add_buffer(node, &views);
    for (size_t i = 0; i < 2; i++) {
        add_buffer(node, &values[i]);
        int64_t size = (int64_t)values[i].size;
        put(&sizes, &size, 8);
    }
    add_buffer(node, &sizes);
}

arrow_node *arrow_values(const char *format, const char *words) {
    static sentence s;
    arrow_node *node = new_node(format);
    char last = format[strlen(format) - 1];
    bool text = last == 'u' || last == 'U';
    read_words(&s, words, "99");
    if (*format == 'n') {
        node->array.length = (int64_t)s.count;
        node->array.null_count = node->array.length;
        node->array.offset = 0;
        return node;
    }
    add_validity(node, &s);
    if (*format == 'w') add_fixed(node, &s, strtoul(format + 2, NULL, 10));
    else if (*format == 'v') add_views(node, &s, text);
    else if (strchr("zZuU", *format)) add_bytes(node, &s, text, last == 'U' || last == 'Z');
    else add_numbers(node, &s, format);
    return node;
}

/* Nested types ------------------------------------------------------------------------------- */

arrow_node *arrow_dictionary(const char *format, const char *words, arrow_node *values) {
    arrow_node *node = arrow_values(format, words);
    node->dictionary = values;
    node->schema.dictionary = &values->schema;
    node->array.dictionary = &values->array;
    return node;
}

static void add_child(arrow_node *node, arrow_node *child) {
    size_t i = (size_t)node->schema.n_children++;
    node->array.n_children = node->schema.n_children;
    node->nodes[i] = child;
    node->schemas[i] = &child->schema;
    node->arrays[i] = &child->array;
}

arrow_node *arrow_list(const char *format, const char *words, arrow_node *members) {
    static sentence s;
    static buffer offsets;
    arrow_node *node = new_node(format);
    bool large = format[1] == 'L';
    int64_t end = 0;
    read_words(&s, words, "0");
    add_validity(node, &s);
    add_child(node, members);
    if (format[1] == 'w') return node;
    offsets.size = 0;
    put_offset(&offsets, 0, large);
    for (size_t i = 0; i < s.count; i++) {
        end += is_null(s.words[i]) ? 0 : strtoll(s.words[i], NULL, 10);
        put_offset(&offsets, end, large);
    }
    add_buffer(node, &offsets);
    return node;
}

arrow_node *arrow_batch(size_t rows, size_t count, arrow_node **children) {
    arrow_node *node = new_node("+s");
    node->array.length = (int64_t)rows;
    node->array.offset = 0;
    node->array.n_buffers = 1;
    for (size_t i = 0; i < count; i++) add_child(node, children[i]);
    return node;
}

void arrow_set_null(arrow_node *node, size_t at) {
    size_t bit = (size_t)node->array.offset + at,
           size = ((size_t)(node->array.offset + node->array.length) + 7) / 8;
    if (!node->buffers[0]) {
        uint8_t all[MOST_BYTES];
        memset(all, 0xff, size);
        node->buffers[0] = fb_guarded_copy(all, size);
        node->sizes[0] = size;
    }
    ((uint8_t *)(uintptr_t)node->buffers[0])[bit / 8] &= (uint8_t)~(1u << bit % 8);
    node->array.null_count = -1;
}
