/* Counts the malloc requests of a program, for benchmarks of Python. It supports only glibc and one
   thread.

   usage: LD_PRELOAD=count_malloc.so PYTHONMALLOC=malloc python …

   malloc_calls and malloc_bytes only grow: freed memory stays counted. A realloc counts its whole
   new size, as in the counting memory of the core's benchmarks (workload.h). */
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);

uint64_t malloc_calls, malloc_bytes;

static void count(size_t size) {
    malloc_calls++;
    malloc_bytes += size;
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
