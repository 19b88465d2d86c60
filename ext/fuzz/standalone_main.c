/* Runs a fuzz driver without libFuzzer. It runs every given file, and then mutations of them from a
   seeded generator until the time limit. An input that crashes the process is saved as
   PROGRAM.crash.

   usage: fuzz_X [-seconds=N] [-seed=N] FILE-OR-FOLDER... */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_SIZE = 65536 };

typedef struct {
    uint8_t *data;
    size_t size;
} input;

static input *inputs;
static size_t input_count;
static uint8_t current[MAX_SIZE];
static size_t current_size;
static char crash_path[4096];

/* Input -------------------------------------------------------------------------------------- */

static void add_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    input in = {malloc(MAX_SIZE), 0};
    inputs = realloc(inputs, (input_count + 1) * sizeof *inputs);
    MUST(in.data && inputs);
    in.size = fread(in.data, 1, MAX_SIZE, file); /* a longer file is truncated */
    inputs[input_count++] = in;
    fclose(file);
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_path(const char *path) {
    struct stat about;
    struct dirent **entries;
    if (stat(path, &about) == 0 && !S_ISDIR(about.st_mode)) {
        add_file(path);
        return;
    }
    /* sorted, so that the order is the same on all machines */
    int count = scandir(path, &entries, NULL, compare_names);
    if (count < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') add_file(name);
        free(entries[i]);
    }
    free(entries);
}

/* Mutation ----------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t below(size_t limit) {
    return limit ? (size_t)(next_random() % limit) : 0;
}

/* Move the bytes behind `at` to insert `size` bytes, which the caller sets, or to remove them. */
static void insert(size_t at, size_t size) {
    if (size > MAX_SIZE - current_size) size = MAX_SIZE - current_size;
    memmove(current + at + size, current + at, current_size - at);
    current_size += size;
}

static void erase(size_t at, size_t size) {
    if (size > current_size - at) size = current_size - at;
    memmove(current + at, current + at + size, current_size - at - size);
    current_size -= size;
}

static void put_word(size_t at, size_t size) {
    static const uint64_t words[] = {
        0,   1,   2,      3,      4,      5,      8,       16,         127,        128,       255,
        256, 257, 0x3fff, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
    uint64_t word = next_random() & 1 ? words[below(sizeof words / sizeof *words)] : next_random();
    for (size_t i = 0; i < size && at + i < current_size; i++)
        current[at + i] = (uint8_t)(word >> 8 * (size - 1 - i));
}

static void copy_from_another(size_t at) {
    const input *other = &inputs[below(input_count)];
    size_t from = below(other->size), size = below(other->size - from) % 200;
    if (next_random() & 1) insert(at, size);
    if (size > current_size - at) size = current_size - at;
    memcpy(current + at, other->data + from, size);
}

static void mutate(void) {
    size_t at = below(current_size);
    switch (next_random() % 8) {
        case 0:
        case 1:
            if (current_size) current[at] ^= (uint8_t)(1 << next_random() % 8);
            break;
        case 2: put_word(at, 1); break;
        case 3: put_word(at, 2); break;
        case 4: put_word(at & ~(size_t)3, 4); break;
        case 5: erase(at, 1 + below(1 + below(64))); break;
        case 6: insert(at, 1 + below(1 + below(64))); break; /* inserts a copy of the bytes */
        default: copy_from_another(at); break;
    }
}

/* Running ------------------------------------------------------------------------------------ */

static void save_current(void) {
    FILE *file = fopen(crash_path, "wb");
    if (!file) return;
    fwrite(current, 1, current_size, file);
    fclose(file);
    fprintf(stderr, "the input was saved as %s\n", crash_path);
}

static void handle_abort(int number) {
    (void)number;
    save_current();
    signal(SIGABRT, SIG_DFL);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void run(void) {
    /* a sanitizer detects reads past its end */
    uint8_t *copy = malloc(current_size ? current_size : 1);
    MUST(copy);
    memcpy(copy, current, current_size);
    LLVMFuzzerTestOneInput(copy, current_size);
    free(copy);
}

static void load(const input *in) {
    memcpy(current, in->data, in->size);
    current_size = in->size;
}

int main(int argc, char **argv) {
    unsigned long seconds = 0, runs = 0;
    random_state = 1;
    snprintf(crash_path, sizeof crash_path, "%s.crash", argv[0]);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-seconds=", 9) == 0) seconds = strtoul(argv[i] + 9, NULL, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            random_state = strtoul(argv[i] + 6, NULL, 10) * 2 + 1;
        else add_path(argv[i]);
    }
    if (!input_count) {
        fprintf(stderr, "usage: %s [-seconds=N] [-seed=N] FILE-OR-FOLDER...\n", argv[0]);
        return EXIT_FAILURE;
    }
    signal(SIGABRT, handle_abort);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);
    for (size_t i = 0; i < input_count; i++, runs++) {
        load(&inputs[i]);
        run();
    }
    for (time_t end = time(NULL) + (time_t)seconds; time(NULL) < end; runs++) {
        load(&inputs[below(input_count)]);
        for (size_t changes = 1 + below(8); changes; changes--) mutate();
        run();
    }
    printf("%s: %zu inputs, %lu runs\n", argv[0], input_count, runs);
    for (size_t i = 0; i < input_count; i++) free(inputs[i].data);
    free(inputs);
    return EXIT_SUCCESS;
}
