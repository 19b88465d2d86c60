/* The status table, and the allocation functions that enforce the limit. */
#include "core/base/base.h"

#ifdef FB_NEWER_PROCESSORS
#include <cpuid.h>
#endif

#include <stdlib.h>

static const struct {
    const char *name;
    const char *text;
    fb_status_class class;
} statuses[FB_STATUS_COUNT] = {
#define FB_X(constant, name, class, text) {name, text, FB_CLASS_##class},
    FB_STATUS_LIST(FB_X)
#undef FB_X
};

const char *fb_status_name(fb_status status) {
    return (unsigned)status < FB_STATUS_COUNT ? statuses[status].name : "unknown";
}

const char *fb_status_text(fb_status status) {
    return (unsigned)status < FB_STATUS_COUNT ? statuses[status].text : "unknown status";
}

fb_status_class fb_status_get_class(fb_status status) {
    return (unsigned)status < FB_STATUS_COUNT ? statuses[status].class : FB_CLASS_CONTROL;
}

/* calloc, because it does not clear pages that are fresh from the kernel. */
void *fb_system_resize(void *context, void *p, size_t old_size, size_t new_size) {
    (void)context;
    if (!p && new_size) return calloc(1, new_size);
    if (!new_size) {
        free(p);
        return NULL;
    }
    uint8_t *moved = realloc(p, new_size);
    if (moved && new_size > old_size) memset(moved + old_size, 0, new_size - old_size);
    return moved;
}

fb_memory fb_memory_system(size_t limit) {
    return (fb_memory){.resize = fb_system_resize, .limit = limit};
}

static void *parent_resize(void *context, void *p, size_t old_size, size_t new_size) {
    return fb_memory_resize(context, p, old_size, new_size);
}

fb_memory fb_memory_within(fb_memory *parent, size_t limit) {
    return (fb_memory){
        .resize = parent_resize, .context = parent, .limit = limit, .dirty = parent->dirty};
}

static bool is_allowed(const fb_memory *memory, size_t more) {
    return !memory->limit ||
           (memory->used <= memory->limit && more <= memory->limit - memory->used);
}

bool fb_memory_charge(fb_memory *memory, ptrdiff_t size) {
    if (size > 0 && !is_allowed(memory, (size_t)size)) return false;
    memory->used += (size_t)size;
    return true;
}

void *fb_memory_resize(fb_memory *memory, void *p, size_t old_size, size_t new_size) {
    if (new_size > old_size && !is_allowed(memory, new_size - old_size)) return NULL;
    void *moved = memory->resize(memory->context, p, old_size, new_size);
    if (!moved && new_size) return NULL;
    memory->used = memory->used - old_size + new_size;
    return moved;
}

void *fb_memory_allocate(fb_memory *memory, size_t size) {
    void *block = fb_memory_resize(memory, NULL, 0, size);
    return block && memory->dirty ? memset(block, 0, size) : block;
}

void fb_memory_release(fb_memory *memory, void *p, size_t size) {
    if (p) fb_memory_resize(memory, p, size, 0);
}

void fb_memory_release_zeros(fb_memory *memory, void *p, size_t size) {
    memory->release_zeros(memory->context, p, size);
    memory->used -= size;
}

#ifdef FB_NEWER_PROCESSORS
/* Processors with BMI2 have both, but a hypervisor may hide either. Without LZCNT, its encoding
   executes as another instruction. gcc 11 and newer cache the feature bits. Querying a virtual
   processor each time would take as long as a thousand messages. */
static bool has_lzcnt_and_movbe(void) {
#if __GNUC__ >= 11
    return __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe");
#else
    unsigned a, b, c, d;
    bool movbe = __get_cpuid(1, &a, &b, &c, &d) && c & bit_MOVBE;
    return movbe && __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
#endif
}
#endif

fb_processor fb_processor_find(void) {
#ifdef FB_NEWER_PROCESSORS
    __builtin_cpu_init();
    /* PDEP takes about a hundred steps on the first AMD processors that have it. */
    bool slow =
        __builtin_cpu_is("bdver4") || __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
    if (slow || !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("avx2") ||
        !has_lzcnt_and_movbe())
        return FB_PROCESSOR_ANY;
    bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                __builtin_cpu_supports("avx512vbmi2");
    return wide ? FB_PROCESSOR_AVX512 : FB_PROCESSOR_BMI2;
#else
    return FB_PROCESSOR_ANY;
#endif
}

fb_processor fb_processor_choose(fb_processor most) {
    fb_processor newest = fb_processor_find();
    return most && most < newest ? most : newest;
}
