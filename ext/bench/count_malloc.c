/* Counts what a program asks of malloc, for benchmarks of Python: glibc alone, one thread.

   usage: LD_PRELOAD=count_malloc.so PYTHONMALLOC=malloc python …

   malloc_calls and malloc_octets only grow: what is given back stays counted, and a realloc counts with all of its new size,
   as in the memory that counts what the core asks for (workload.h). */
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);

uint64_t malloc_calls, malloc_octets;

static void count(size_t size) {
    malloc_calls++;
    malloc_octets += size;
}

void *malloc(size_t size) {
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t each, size_t size) {
    count(each * size);
    return __libc_calloc(each, size);
}

void *realloc(void *p, size_t size) {
    count(size);
    return __libc_realloc(p, size);
}
