/* Writes the initial inputs of the fuzz drivers: datagrams of the tests, generated captures, the
   given captures, and random bytes for drivers whose input is a list of choices.

   usage: seeds FOLDER [CAPTURE...]; makes FOLDER/decode, FOLDER/capture, FOLDER/message,
   FOLDER/arrow, FOLDER/codec and FOLDER/json. */
#include "tests/builders/message_table.h"

#include <sys/stat.h>

#include "core/capture/capture.h"
#include "core/json/json_write.h"
#include "generate/generate.h"
#include "tests/builders/random_plan.h"
#include "tests/builders/samples.h"
#include "tests/support/json_choice.h"
#include "tests/support/plain_codec.h"

static const char *folder;

static void write_seed(const char *kind, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, kind, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file)) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

/* Datagrams in the input form of fuzz_decode.c. */
typedef struct {
    uint8_t data[16384];
    size_t size;
} decode_seed;

static bool add_datagram(decode_seed *seed, fb_bytes payload) {
    if (payload.size > 0xffff || payload.size + 2 > sizeof seed->data - seed->size) return false;
    seed->data[seed->size++] = (uint8_t)(payload.size >> 8);
    seed->data[seed->size++] = (uint8_t)payload.size;
    memcpy(seed->data + seed->size, payload.data, payload.size);
    seed->size += payload.size;
    return true;
}

static void write_messages(const char *name, const char *plan, const char *lines,
                           const byte_buffer *d) {
    char path[100];
    session s;
    session_open(&s, lines, 1 << 16);
    session_feed(&s, d);
    snprintf(path, sizeof path, "%s-%s", name, plan);
    write_seed("message", path, s.output, fb_row_size(&s.row));
    session_free(&s);
}

/* Write a sample once for each of the driver's options, and the messages it becomes with both plans
   of that driver. */
static void write_sample(const sample *sample) {
    byte_buffer d;
    sample->build(&d);
    for (unsigned options = 0; options < 32; options++) {
        char name[100];
        decode_seed seed = {.data = {(uint8_t)options}, .size = 1};
        add_datagram(&seed, (fb_bytes){d.data, d.size});
        snprintf(name, sizeof name, "%s-%u", sample->name, options);
        write_seed("decode", name, seed.data, seed.size);
    }
    text rich = {0};
    plan_put_rich(&rich);
    write_messages(sample->name, "usual", usual_columns, &d);
    write_messages(sample->name, "rich", text_of(&rich), &d);
    text_free(&rich);
}

/* Write the payloads one after another: an IPFIX file, if they are IPFIX messages. */
static void write_payloads(const char *name, const fb_datagram *datagrams, size_t count) {
    static uint8_t data[1 << 16];
    char file[120];
    size_t used = 0;
    for (size_t i = 0; i < count && datagrams[i].payload.size <= sizeof data - used; i++) {
        memcpy(data + used, datagrams[i].payload.data, datagrams[i].payload.size);
        used += datagrams[i].payload.size;
    }
    snprintf(file, sizeof file, "%.100s-payloads", name);
    write_seed("capture", file, data, used);
}

static void write_capture(const char *name, const uint8_t *data, size_t size) {
    fb_memory memory = fb_memory_system(0);
    fb_capture *capture;
    fb_datagram datagrams[32];
    decode_seed seed = {.size = 1};
    size_t count, consumed;
    write_seed("capture", name, data, size < 65536 ? size : 65536);
    if (fb_capture_new(&capture, &memory, (fb_capture_options){.any_port = true}) != FB_OK) abort();
    fb_capture_scan(capture, (fb_bytes){data, size}, true, datagrams, 32, &count, &consumed);
    for (size_t i = 0; i < count && add_datagram(&seed, datagrams[i].payload); i++) continue;
    write_seed("decode", name, seed.data, seed.size);
    write_payloads(name, datagrams, count);
    fb_capture_free(capture);
}

static void generate(fb_generator_protocol protocol) {
    static uint8_t data[1 << 16];
    char name[100];
    fb_memory memory = fb_memory_system(0);
    fb_generator *generator;
    size_t used = 0, size = 0;
    fb_generator_options options = {.protocol = protocol,
                                    .flows = 60,
                                    .seed = 1,
                                    .exporters = 4,
                                    .sampling_rate = 100,
                                    .start = UINT64_C(1735689600000000000)};
    if (fb_generator_new(&memory, &options, &generator) != FB_OK) abort();
    fb_status status = FB_OK;
    while (status == FB_OK) {
        status = fb_generator_next(generator, data + used, sizeof data - used, &size);
        used += size;
    }
    fb_generator_free(generator);
    snprintf(name, sizeof name, "generated-%u", (unsigned)protocol);
    write_capture(name, data, used);
}

static void add_capture(const char *path) {
    static uint8_t data[1 << 20];
    const char *slash = strrchr(path, '/');
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    write_capture(slash ? slash + 1 : path, data, size);
}

/* Write random bytes: more than the choices of one batch need, and fewer. */
static void write_choices(void) {
    random_begin(1);
    for (unsigned i = 0; i < 64; i++) {
        uint8_t choices[8192];
        char name[100];
        size_t size = 32 * (i + 1) + (i % 4) * 1024;
        for (size_t k = 0; k < size; k++) choices[k] = (uint8_t)below(256);
        snprintf(name, sizeof name, "random-%02u", i);
        write_seed("arrow", name, choices, size);
    }
}

/* Write streams whose tags have two bytes. */
static void write_two_byte_tags(void) {
    byte_buffer d = {0}, m = two_byte_fields();
    for (unsigned i = 0; i < 3; i++) put_message(&d, &m);
    write_seed("message", "two-byte-tags", d.data, d.size);
}

/* Write message types in the input form of fuzz_codec.c, each with a message. */
static void write_types(void) {
    random_begin(1);
    for (unsigned i = 0; i < 64; i++) {
        static codec_choice c;
        built_message m = {.size = 0};
        uint8_t bytes[CODEC_TYPES * (1 + 4 * CODEC_FIELDS)];
        char name[100];
        for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)below(256);
        build_raw(&m, bytes, codec_choice_make(&c, bytes, sizeof bytes));
        build_random(&m, c.types, 2);
        snprintf(name, sizeof name, "random-%02u", i);
        write_seed("codec", name, m.data, m.size);
    }
}

/* Write message types in the input form of fuzz_json.c, each with a message and with its JSON. */
static void write_texts(void) {
    static const fb_json_options plain = {false, false, false, NULL};
    random_begin(2);
    for (unsigned i = 0; i < 64; i++) {
        static json_choice c;
        built_message type = {.size = 0}, message = {.size = 0}, seed;
        fb_buffer text = {NULL, NULL, NULL};
        fb_json_fault fault;
        uint64_t unknown = 0;
        uint8_t bytes[CODEC_TYPES * (1 + 4 * CODEC_FIELDS)];
        char name[100];
        for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)below(256);
        build_raw(&type, bytes, json_choice_make(&c, bytes, sizeof bytes));
        build_random(&message, &c.types->core, 2);
        seed = type;
        build_raw(&seed, "\0", 1);
        build_raw(&seed, message.data, message.size);
        snprintf(name, sizeof name, "message-%02u", i);
        write_seed("json", name, seed.data, seed.size);
        if (fb_json_write(&c.all, c.types, (fb_bytes){message.data, message.size}, plain, &text,
                          &unknown, &fault) == FB_OK &&
            type.size + 1 + fb_buffer_size(&text) < sizeof seed.data) {
            seed = type;
            build_raw(&seed, "\1", 1);
            build_raw(&seed, text.begin, fb_buffer_size(&text));
            snprintf(name, sizeof name, "text-%02u", i);
            write_seed("json", name, seed.data, seed.size);
        }
        fb_buffer_free(&text);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER [CAPTURE...]\n", argv[0]);
        return EXIT_FAILURE;
    }
    folder = argv[1];
    for (size_t i = 0; i < sample_count; i++) write_sample(&samples[i]);
    for (unsigned protocol = 0; protocol < FB_GENERATOR_PROTOCOL_COUNT; protocol++)
        generate((fb_generator_protocol)protocol);
    write_choices();
    write_types();
    write_texts();
    write_two_byte_tags();
    for (int i = 2; i < argc; i++) add_capture(argv[i]);
    return EXIT_SUCCESS;
}
