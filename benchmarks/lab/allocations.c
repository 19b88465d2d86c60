/* Count the allocations of a process. LD_PRELOAD loads it before glibc, which does the work.
 *
 * The counters are not atomic: only one thread is measured. A block counts with its usable size. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long long calls, held, peak;

static void *count(void *block)
{
    if (block) {
        calls++;
        held += (long long)malloc_usable_size(block);
        if (held > peak)
            peak = held;
    }
    return block;
}

void *malloc(size_t size) { return count(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { return count(__libc_calloc(n, size)); }
void *memalign(size_t alignment, size_t size) { return count(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

void *realloc(void *block, size_t size)
{
    long long before = block ? (long long)malloc_usable_size(block) : 0;
    void *moved = __libc_realloc(block, size);
    if (moved || size == 0)
        held -= before;
    return count(moved);
}

void free(void *block)
{
    if (block)
        held -= (long long)malloc_usable_size(block);
    __libc_free(block);
}

/* Reset all counters, including the memory held. */
void lab_reset(void) { calls = held = peak = 0; }
long long lab_calls(void) { return calls; }
long long lab_peak(void) { return peak; }
