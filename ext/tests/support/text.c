#include "tests/support/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void reserve(text *t, size_t more) {
    if (t->capacity - t->size > more) return;
    t->capacity = 2 * t->capacity + more + 256;
    t->data = realloc(t->data, t->capacity);
    if (!t->data) abort();
}

void text_put(text *t, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    reserve(t, 64);
    size_t room = t->capacity - t->size;
    size_t size = (size_t)vsnprintf(t->data + t->size, room, format, arguments);
    if (size >= room) {
        reserve(t, size);
        vsnprintf(t->data + t->size, size + 1, format, again);
    }
    t->size += size;
    va_end(again);
    va_end(arguments);
}

const char *text_of(const text *t) {
    return t->data ? t->data : "";
}

void text_clear(text *t) {
    t->size = 0;
    if (t->data) t->data[0] = 0;
}

void text_free(text *t) {
    free(t->data);
    *t = (text){0};
}
