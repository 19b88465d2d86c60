/* Shared by all C tests of the core: checks that print the values, input that ends at a guard page,
   and memory that fails on request. Include it first. A test file ends with
   RUN_TESTS(TEST(first_test), TEST(second_test), ...). */
#ifndef FB_TESTS_SUPPORT_CHECK_H
#define FB_TESTS_SUPPORT_CHECK_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS, which -std=c11 hides */
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/base.h"

#define UNUSED __attribute__((unused))

/* A failed check is reported and the test continues, so one run shows all failures. The files of a
   program share this counter: of weak definitions, the linker keeps one. */
__attribute__((weak)) int fb_check_failures;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: check failed: %s\n", __FILE__, __LINE__, __func__, \
                    #condition); \
            fb_check_failures++; \
        } \
    } while (0)

#define CHECK_EQUAL(actual, expected) \
    fb_check_equal((uint64_t)(actual), (uint64_t)(expected), #actual, __FILE__, __LINE__, __func__)

#define CHECK_STATUS(actual, expected) \
    fb_check_status((actual), (expected), #actual, __FILE__, __LINE__, __func__)

#define CHECK_BYTES(actual, actual_size, expected, expected_size) \
    fb_check_bytes((actual), (actual_size), (expected), (expected_size), #actual, __FILE__, \
                   __LINE__, __func__)

UNUSED static void fb_check_equal(uint64_t actual, uint64_t expected, const char *what,
                                  const char *file, int line, const char *test) {
    if (actual == expected) return;
    fprintf(stderr, "%s:%d: %s: %s is %llu, expected %llu\n", file, line, test, what,
            (unsigned long long)actual, (unsigned long long)expected);
    fb_check_failures++;
}

UNUSED static void fb_check_status(fb_status actual, fb_status expected, const char *what,
                                   const char *file, int line, const char *test) {
    if (actual == expected) return;
    fprintf(stderr, "%s:%d: %s: %s is %s, expected %s\n", file, line, test, what,
            fb_status_name(actual), fb_status_name(expected));
    fb_check_failures++;
}

UNUSED static void fb_check_bytes(const void *actual, size_t actual_size, const void *expected,
                                  size_t expected_size, const char *what, const char *file,
                                  int line, const char *test) {
    size_t common = actual_size < expected_size ? actual_size : expected_size;
    for (size_t i = 0; i < common; i++) {
        const uint8_t *a = actual, *e = expected;
        if (a[i] == e[i]) continue;
        fprintf(stderr, "%s:%d: %s: %s differs at byte %zu: %02x, expected %02x\n", file, line,
                test, what, i, a[i], e[i]);
        fb_check_failures++;
        return;
    }
    if (actual_size == expected_size) return;
    fprintf(stderr, "%s:%d: %s: %s has %zu bytes, expected %zu\n", file, line, test, what,
            actual_size, expected_size);
    fb_check_failures++;
}

typedef struct {
    const char *name;
    void (*run)(void);
} fb_check_case;

UNUSED static int fb_check_run(const fb_check_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int before = fb_check_failures;
        cases[i].run();
        printf("%s %s\n", fb_check_failures == before ? "ok  " : "FAIL", cases[i].name);
        fflush(stdout);
    }
    printf("%zu tests, %d failed checks\n", count, fb_check_failures);
    return fb_check_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define TEST(name) {#name, name}
#define RUN_TESTS(...) \
    int main(void) { \
        static const fb_check_case cases[] = {__VA_ARGS__}; \
        return fb_check_run(cases, sizeof cases / sizeof *cases); \
    }

/* Return a copy whose end is the end of a page. The next page is protected, so reading one byte
   past the end faults even without a sanitizer. Free it with fb_guarded_free. */
static inline size_t fb_guarded_room(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size / page + 1) * page;
}

/* Rooms that were freed, for the next allocations. Without them, some tests spend most of their
   time in mmap. AddressSanitizer's build unmaps them instead, so that later uses are faults. */
#ifdef __SANITIZE_ADDRESS__
#define FB_KEEPS_ROOMS false
#else
#define FB_KEEPS_ROOMS true
#endif
#define FB_FREE_ROOMS 16

typedef struct {
    uint8_t *start;
    size_t room;
} fb_free_room;

static _Thread_local fb_free_room fb_free_rooms[FB_FREE_ROOMS];

/* Return uninitialized bytes with such an end, for an output that must not overflow. */
UNUSED static uint8_t *fb_guarded_room_of(size_t size) {
    size_t room = fb_guarded_room(size), page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; FB_KEEPS_ROOMS && i < FB_FREE_ROOMS; i++) {
        uint8_t *start = fb_free_rooms[i].start;
        if (!start || fb_free_rooms[i].room != room) continue;
        fb_free_rooms[i].start = NULL;
        return start + room - size;
    }
    uint8_t *start =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + room, page, PROT_NONE)) {
        perror("fb_guarded_room_of");
        exit(EXIT_FAILURE);
    }
    return start + room - size;
}

UNUSED static uint8_t *fb_guarded_copy(const void *bytes, size_t size) {
    uint8_t *copy = fb_guarded_room_of(size);
    if (size) memcpy(copy, bytes, size);
    return copy;
}

UNUSED static void fb_guarded_free(uint8_t *copy, size_t size) {
    size_t room = fb_guarded_room(size), page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *start = copy + size - room;
    for (size_t i = 0; FB_KEEPS_ROOMS && i < FB_FREE_ROOMS; i++) {
        if (fb_free_rooms[i].start) continue;
        memset(start, 0xa5, room); /* an old pointer finds other bytes */
        fb_free_rooms[i] = (fb_free_room){start, room};
        return;
    }
    munmap(start, room + page);
}

/* An allocator that moves memory at every resize, counts its bytes, and can fail. The call number
   `fail_at` fails (from 1; 0: none), or with `fail_forever` all calls from it on. A release with a
   wrong size leaves a remainder in `held`. New bytes are zero, or with `dirty` others. */
typedef struct {
    size_t calls;
    size_t fail_at;
    bool fail_forever, dirty;
    size_t held;
    size_t most_held;
} fb_check_allocator;

UNUSED static void *fb_check_resize(void *context, void *p, size_t old_size, size_t new_size) {
    fb_check_allocator *allocator = context;
    uint8_t *moved = NULL;
    if (new_size) {
        allocator->calls++;
        bool later = allocator->fail_at && allocator->calls > allocator->fail_at;
        if (allocator->calls == allocator->fail_at || (later && allocator->fail_forever))
            return NULL;
        moved = malloc(new_size);
        if (!moved) return NULL;
        if (p) memcpy(moved, p, old_size < new_size ? old_size : new_size);
        const int filler = allocator->dirty ? 0xa5 : 0;
        if (old_size < new_size) memset(moved + old_size, filler, new_size - old_size);
    }
    free(p);
    allocator->held = allocator->held - old_size + new_size;
    if (allocator->held > allocator->most_held) allocator->most_held = allocator->held;
    return moved;
}

/* Every test that frees a batch checks that the block is all zeros. */
UNUSED static void fb_check_release_zeros(void *context, void *p, size_t size) {
    CHECK(fb_is_zero(p, (const uint8_t *)p + size));
    fb_check_resize(context, p, size, 0);
}

UNUSED static fb_memory fb_check_memory(fb_check_allocator *allocator) {
    return (fb_memory){.resize = fb_check_resize,
                       .context = allocator,
                       .dirty = allocator->dirty,
                       .release_zeros = fb_check_release_zeros};
}

#endif
