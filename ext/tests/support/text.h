/* A growing string. Tests compare flows in this form. */
#ifndef FB_TESTS_SUPPORT_TEXT_H
#define FB_TESTS_SUPPORT_TEXT_H

#include <stddef.h>

typedef struct {
    char *data; /* zero-terminated; NULL until the first append */
    size_t size, capacity;
} text;

__attribute__((format(printf, 2, 3))) void text_put(text *t, const char *format, ...);
const char *text_of(const text *t);
void text_clear(text *t);
void text_free(text *t);

#endif
