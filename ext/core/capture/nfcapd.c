/* A file is (all integers in the byte order that its magic number shows):

       file header (40):  magic 0xa50c (2), layout version 2 (2), nfdump (4), created (8),
                          compression (1), encryption (1), appendix blocks (2), creator (4),
                          offset of the appendix (8), block size (4), blocks (4)
       block header (12): records (4), size (4), type (2), flags (2); the records follow
       record:            type (2), size with this header (2), content
       flow record:       type 11, size, elements (2), engine type (1), engine id (1), exporter (2),
                          flags (1), version of NetFlow (1); extensions
       extension:         id (2), size with this header (2), content
       exporter record:   type 7, size, version (4), address (16), family (2), exporter (2),
                          observation domain (4)

   A record is read when it is complete in the input. A message stays open until a record does not
   fit: it is then read again, after the message was delivered. */
#include "core/capture/nfcapd.h"

#include "core/capture/nfcapd_fields.h"
#include "core/packet/packet_write.h"

enum {
    FILE_HEADER_SIZE = 40,
    BLOCK_HEADER_SIZE = 12,
    RECORD_HEADER_SIZE = 4,
    FLOW_HEADER_SIZE = 12,
    EXPORTER_SIZE = 32,
    MAGIC = 0xa50c,
    LAYOUT_VERSION = 2,
    RECORD_BLOCK = 3,
    BLOCK_IS_PLAIN = 1, /* flag of a block: not compressed, in any file */
    FLOW_RECORD = 11,
    EXPORTER_RECORD = 7,
    EXPORTER_STATISTICS = 8,    /* datagrams and flows that nfcapd received */
    FIRST_OF_APPENDIX = 0x8000, /* name and statistics of the file */
    FAMILY_IPV4 = 2,
    ARENA_SIZE = 1024 * 1024,
    MESSAGE_HEADER_SIZE = 16,
    SET_HEADER_SIZE = 4,
    VARIABLE = 65535, /* length of a field in a template */
    LAYOUTS = 256,    /* slots; a power of two */
    MAX_LAYOUTS = 192,
    TEMPLATE_INTERVAL = 100 /* messages after which a template is repeated */
};

/* The exporter of a message. */
typedef struct {
    uint8_t address[16];
    uint32_t domain;
} origin;

typedef struct {
    origin origin;
    bool known;
} exporter;

/* The fields of a record, as bits in the order of fb_nfcapd_fields. */
typedef struct {
    uint64_t bits[2];
} field_set;

/* A template. */
typedef struct {
    field_set fields; /* none: an empty slot */
    uint16_t id;
    uint64_t epoch, sent; /* when the template was written last */
} layout;

/* The message that is being written. */
typedef struct {
    origin origin;
    uint64_t received; /* ms since 1970 */
    uint8_t *begin, *end;
    uint8_t *set; /* the last data set */
    uint16_t set_id;
} message;

/* A flow record. */
typedef struct {
    fb_bytes extensions[FB_NFCAPD_EXTENSIONS];
    field_set fields;
    size_t field_count, size; /* size: of the IPFIX record */
} flow;

struct fb_nfcapd {
    fb_memory *memory;
    uint64_t *counters; /* by fb_status */
    bool big_endian, compressed;
    uint64_t skip;       /* bytes to skip of a part that is ignored */
    uint64_t block_left; /* bytes of the block that were not read */
    exporter *exporters; /* by their number in the file */
    size_t exporter_capacity;
    layout layouts[LAYOUTS];
    size_t layout_count;
    origin previous; /* of the latest message */
    uint64_t epoch;  /* of the exporter; templates of another epoch are written again */
    uint64_t messages;
    bool open;
    message message;
    size_t used; /* bytes of the arena, without the open message */
    uint8_t arena[ARENA_SIZE];
};

/* Load an integer of 1, 2, 4 or 8 bytes in the byte order of the file. */
static uint64_t load(const fb_nfcapd *file, const uint8_t *p, size_t size) {
    if (file->big_endian) return fb_load_uint(p, size);
    uint64_t value = 0;
    while (size--) value = value << 8 | p[size];
    return value;
}

static bool is_big_endian(const uint8_t *start) {
    return fb_load16(start) == MAGIC;
}

bool fb_nfcapd_starts(const uint8_t *start) {
    const uint8_t little[] = {MAGIC & 0xff, MAGIC >> 8, LAYOUT_VERSION, 0},
                  big[] = {MAGIC >> 8, MAGIC & 0xff, 0, LAYOUT_VERSION};
    return (memcmp(start, little, 4) == 0 || memcmp(start, big, 4) == 0) && start[17] == 0;
}

fb_status fb_nfcapd_new(fb_nfcapd **out, fb_memory *memory, const uint8_t *start,
                        uint64_t *counters) {
    fb_nfcapd *file = fb_memory_allocate(memory, sizeof *file);
    *out = file;
    if (!file) return FB_NO_MEMORY;
    file->memory = memory;
    file->counters = counters;
    file->big_endian = is_big_endian(start);
    file->compressed = start[16] != 0;
    file->skip = FILE_HEADER_SIZE;
    file->epoch = 1;
    return FB_OK;
}

void fb_nfcapd_free(fb_nfcapd *file) {
    if (!file) return;
    fb_memory_release(file->memory, file->exporters,
                      file->exporter_capacity * sizeof *file->exporters);
    fb_memory_release(file->memory, file, sizeof *file);
}

/* Exporters */

static fb_status reserve_exporter(fb_nfcapd *file, size_t id) {
    size_t old = file->exporter_capacity, capacity = old ? old : 16, size = sizeof(exporter);
    while (capacity <= id) capacity *= 2;
    if (capacity == old) return FB_OK;
    void *moved = fb_memory_resize(file->memory, file->exporters, old * size, capacity * size);
    if (!moved) return FB_NO_MEMORY;
    file->exporters = moved;
    file->exporter_capacity = capacity;
    return FB_OK;
}

/* Write an address of two numbers of 8 bytes. */
static uint8_t *put_address6(const fb_nfcapd *file, uint8_t *out, const uint8_t *p) {
    return fb_put64(fb_put64(out, load(file, p, 8)), load(file, p + 8, 8));
}

static void set_ipv4(uint8_t *address, uint32_t value) {
    uint8_t bytes[4];
    fb_put32(bytes, value);
    fb_store_address(address, bytes, 4);
}

static fb_status read_exporter(fb_nfcapd *file, fb_bytes record) {
    const uint8_t *p = record.data;
    if (record.size < EXPORTER_SIZE) {
        file->counters[FB_BAD_CAPTURE_RECORD]++;
        return FB_OK;
    }
    size_t id = (size_t)load(file, p + 26, 2);
    if (reserve_exporter(file, id) != FB_OK) return FB_NO_MEMORY;
    exporter *new = &file->exporters[id];
    new->known = true;
    new->origin.domain = (uint32_t)load(file, p + 28, 4);
    if (load(file, p + 24, 2) == FAMILY_IPV4)
        set_ipv4(new->origin.address, (uint32_t)load(file, p + 16, 8));
    else put_address6(file, new->origin.address, p + 8);
    return FB_OK;
}

/* Find the exporter of a record: the file's entry, or else the address in the record. */
static void find_origin(const fb_nfcapd *file, const uint8_t *record, const flow *flow,
                        origin *found) {
    size_t id = (size_t)load(file, record + 8, 2);
    const fb_bytes *ipv4 = &flow->extensions[FB_NFCAPD_EXPORTER4],
                   *ipv6 = &flow->extensions[FB_NFCAPD_EXPORTER6];
    memset(found, 0, sizeof *found);
    if (id < file->exporter_capacity && file->exporters[id].known)
        *found = file->exporters[id].origin;
    else if (ipv4->size >= 4) set_ipv4(found->address, (uint32_t)load(file, ipv4->data, 4));
    else if (ipv6->size >= 16) put_address6(file, found->address, ipv6->data);
}

static bool same_origin(const origin *a, const origin *b) {
    return a->domain == b->domain && memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* Flow records */

static bool is_zero(fb_bytes bytes) {
    return fb_is_zero(bytes.data, bytes.data + bytes.size);
}

/* A template with addresses of both families fills both extensions. Remove the one that is zero. */
static void choose_family(fb_bytes *found) {
    if (!found[FB_NFCAPD_IPV4].data || !found[FB_NFCAPD_IPV6].data) return;
    bool is_ipv4 = is_zero(found[FB_NFCAPD_IPV6]);
    if (is_ipv4) found[FB_NFCAPD_IPV6] = (fb_bytes){0};
    else if (is_zero(found[FB_NFCAPD_IPV4])) found[FB_NFCAPD_IPV4] = (fb_bytes){0};
}

/* Find the extensions of a record. False: their sizes contradict the record. */
static bool find_extensions(const fb_nfcapd *file, fb_bytes record, flow *flow) {
    fb_bytes *found = flow->extensions;
    if (record.size < FLOW_HEADER_SIZE) return false;
    size_t count = (size_t)load(file, record.data + 4, 2);
    const uint8_t *p = record.data + FLOW_HEADER_SIZE, *end = record.data + record.size;
    while (count--) {
        if (end - p < RECORD_HEADER_SIZE) return false;
        size_t id = (size_t)load(file, p, 2), size = (size_t)load(file, p + 2, 2);
        if (size < RECORD_HEADER_SIZE || size > (size_t)(end - p)) return false;
        if (id <= FB_NFCAPD_IP_INFO && !found[id].data)
            found[id] = (fb_bytes){p + RECORD_HEADER_SIZE, size - RECORD_HEADER_SIZE};
        p += size;
    }
    choose_family(found);
    bool ipv6 = found[FB_NFCAPD_IPV6].data;
    uint8_t version = record.data[11];
    found[ipv6 ? FB_NFCAPD_PREFIX6 : FB_NFCAPD_PREFIX4] = found[FB_NFCAPD_MISC];
    if (version == 5 || version == 7) found[FB_NFCAPD_ENGINE] = record;
    return true;
}

/* Return the value of a field of variable size. */
static fb_bytes get_variable(const fb_nfcapd_field *field, fb_bytes extension) {
    size_t most = extension.size < field->size ? extension.size : field->size, size = 0;
    bool is_text = field->kind == FB_NFCAPD_TEXT;
    while (size < most && !(is_text && extension.data[size] == 0)) size++;
    return (fb_bytes){extension.data, size};
}

/* Return the value of a field as bytes of the file, empty if it is absent. */
static fb_bytes get_value(const fb_nfcapd_field *field, fb_bytes extension) {
    if (!field->written) return get_variable(field, extension);
    if (extension.size < (size_t)field->offset + field->size) return (fb_bytes){0};
    fb_bytes value = {extension.data + field->offset, field->size};
    bool absent = field->kind == FB_NFCAPD_OPTIONAL && is_zero(value);
    return absent ? (fb_bytes){0} : value;
}

/* Determine the fields of a record, and its size. */
static void select_fields(flow *flow) {
    for (size_t i = 0; i < FB_NFCAPD_FIELD_COUNT; i++) {
        const fb_nfcapd_field *field = &fb_nfcapd_fields[i];
        fb_bytes extension = flow->extensions[field->extension];
        if (!extension.data) continue;
        fb_bytes value = get_value(field, extension);
        if (!value.size) continue;
        flow->fields.bits[i / 64] |= UINT64_C(1) << i % 64;
        flow->field_count++;
        flow->size += field->written ? field->written : 1 + value.size;
    }
}

static bool has_field(const field_set *fields, size_t i) {
    return fields->bits[i / 64] >> i % 64 & 1;
}

/* REQUIRES: at most 254 bytes, which need no long form of the length. */
static uint8_t *put_variable(uint8_t *out, fb_bytes value) {
    return fb_put_bytes(fb_put8(out, (uint32_t)value.size), value.data, value.size);
}

static uint8_t *put_record(const fb_nfcapd *file, uint8_t *out, const flow *flow) {
    for (size_t i = 0; i < FB_NFCAPD_FIELD_COUNT; i++) {
        if (!has_field(&flow->fields, i)) continue;
        const fb_nfcapd_field *field = &fb_nfcapd_fields[i];
        fb_bytes value = get_value(field, flow->extensions[field->extension]);
        if (!field->written) out = put_variable(out, value);
        else if (field->kind == FB_NFCAPD_ADDRESS6) out = put_address6(file, out, value.data);
        else out = fb_put_uint(out, load(file, value.data, value.size), field->written);
    }
    return out;
}

/* Templates */

static bool same_fields(const field_set *a, const field_set *b) {
    return a->bits[0] == b->bits[0] && a->bits[1] == b->bits[1];
}

static bool is_id_used(const fb_nfcapd *file, uint16_t id) {
    for (size_t i = 0; i < LAYOUTS; i++)
        if (file->layouts[i].id == id) return true;
    return false;
}

/* Find or create the template of these fields. Its id depends on the fields, so that it is the same
   in all files, unless two templates of a file compete for it. */
static layout *find_layout(fb_nfcapd *file, const field_set *fields) {
    uint64_t hash = fb_hash(fb_hash(1, fields->bits[0]), fields->bits[1]);
    size_t i = (size_t)(hash >> 32) & (LAYOUTS - 1);
    for (; file->layouts[i].id; i = (i + 1) & (LAYOUTS - 1))
        if (same_fields(&file->layouts[i].fields, fields)) return &file->layouts[i];
    if (file->layout_count == MAX_LAYOUTS) {
        memset(file->layouts, 0, sizeof file->layouts);
        file->layout_count = 0;
        return find_layout(file, fields);
    }
    uint16_t id = (uint16_t)(256 + (hash & 0xffff) % 65000);
    while (is_id_used(file, id)) id++;
    file->layout_count++;
    file->layouts[i] = (layout){.fields = *fields, .id = id};
    return &file->layouts[i];
}

/* Return true if the template must be written before data. */
static bool is_due(const fb_nfcapd *file, const layout *layout) {
    return layout->epoch != file->epoch || file->messages - layout->sent >= TEMPLATE_INTERVAL;
}

static size_t template_size(const flow *flow) {
    return SET_HEADER_SIZE + 4 + 4 * flow->field_count;
}

static uint8_t *put_template(uint8_t *out, const layout *layout, const flow *flow) {
    out = fb_put16(fb_put16(out, 2), (uint32_t)template_size(flow));
    out = fb_put16(fb_put16(out, layout->id), (uint32_t)flow->field_count);
    for (size_t i = 0; i < FB_NFCAPD_FIELD_COUNT; i++) {
        if (!has_field(&layout->fields, i)) continue;
        const fb_nfcapd_field *field = &fb_nfcapd_fields[i];
        out = fb_put16(fb_put16(out, field->element), field->written ? field->written : VARIABLE);
    }
    return out;
}

/* Messages */

static void begin_message(fb_nfcapd *file, const origin *origin, uint64_t received) {
    if (!same_origin(&file->previous, origin)) file->epoch++;
    file->previous = *origin;
    file->messages++;
    file->open = true;
    uint8_t *begin = file->arena + file->used;
    file->message = (message){.origin = *origin, .received = received, .begin = begin};
    uint8_t *out = fb_put16(fb_put16(begin, 10), 0); /* the length is written at the end */
    out = fb_put32(out, (uint32_t)(received / 1000));
    file->message.end = fb_put32(fb_put32(out, 0), origin->domain);
}

bool fb_nfcapd_flush(fb_nfcapd *file, fb_datagram *datagram) {
    if (!file->open) return false;
    message *message = &file->message;
    size_t size = (size_t)(message->end - message->begin);
    fb_put16(message->begin + 2, (uint32_t)size);
    memset(datagram, 0, sizeof *datagram);
    if (message->received <= FB_TIME_MAX / 1000000) datagram->time = message->received * 1000000;
    memcpy(datagram->source, message->origin.address, sizeof datagram->source);
    datagram->payload = (fb_bytes){message->begin, size};
    file->used += size;
    file->open = false;
    return true;
}

static size_t needed_size(const fb_nfcapd *file, const layout *layout, const flow *flow) {
    bool same_set = file->message.set && file->message.set_id == layout->id;
    return (is_due(file, layout) ? template_size(flow) + SET_HEADER_SIZE : 0) +
           (same_set ? 0 : SET_HEADER_SIZE) + flow->size;
}

static bool fits(const fb_nfcapd *file, const layout *layout, const flow *flow,
                 const origin *origin, uint64_t received) {
    const message *message = &file->message;
    size_t size = (size_t)(message->end - message->begin);
    return same_origin(&message->origin, origin) && message->received == received &&
           size + needed_size(file, layout, flow) <= FB_NFCAPD_MESSAGE_SIZE;
}

static void append_record(fb_nfcapd *file, layout *layout, const flow *flow) {
    message *message = &file->message;
    if (is_due(file, layout)) {
        message->end = put_template(message->end, layout, flow);
        message->set = NULL;
        layout->epoch = file->epoch;
        layout->sent = file->messages;
    }
    if (!message->set || message->set_id != layout->id) {
        message->set = message->end;
        message->set_id = layout->id;
        message->end = fb_put16(fb_put16(message->end, layout->id), 0);
    }
    message->end = put_record(file, message->end, flow);
    fb_put16(message->set + 2, (uint32_t)(message->end - message->set));
    assert(message->end - message->begin <= FB_NFCAPD_MESSAGE_SIZE);
}

/* Read a flow record. Set `consumed` if it was appended or is malformed. Otherwise, the open
   message has no room for it. */
static void read_flow(fb_nfcapd *file, fb_bytes record, bool *consumed) {
    flow flow = {0};
    origin origin;
    *consumed = true;
    bool good = find_extensions(file, record, &flow);
    if (good) select_fields(&flow);
    if (!flow.field_count) {
        file->counters[good ? FB_OTHER_CAPTURE_RECORD : FB_BAD_CAPTURE_RECORD]++;
        return;
    }
    find_origin(file, record.data, &flow, &origin);
    fb_bytes generic = flow.extensions[FB_NFCAPD_GENERIC];
    uint64_t received = generic.size >= 24 ? load(file, generic.data + 16, 8) : 0;
    layout *layout = find_layout(file, &flow.fields);
    if (file->open && !fits(file, layout, &flow, &origin, received)) {
        *consumed = false;
        return;
    }
    if (!file->open) begin_message(file, &origin, received);
    append_record(file, layout, &flow);
}

/* Blocks */

static fb_status read_block_header(fb_nfcapd *file, fb_bytes input, size_t *size) {
    if (input.size < BLOCK_HEADER_SIZE) return FB_MORE_INPUT;
    uint64_t length = load(file, input.data + 4, 4);
    bool plain = !file->compressed || (load(file, input.data + 10, 2) & BLOCK_IS_PLAIN);
    if (load(file, input.data + 8, 2) == RECORD_BLOCK) {
        if (!plain) return FB_DAMAGED_CAPTURE;
        file->block_left = length;
    } else {
        file->counters[FB_OTHER_CAPTURE_RECORD]++;
        file->skip = length;
    }
    *size = BLOCK_HEADER_SIZE;
    return FB_OK;
}

static fb_status read_record(fb_nfcapd *file, fb_bytes input, size_t *size, fb_datagram *datagram) {
    if (file->block_left < RECORD_HEADER_SIZE) return FB_DAMAGED_CAPTURE;
    if (input.size < RECORD_HEADER_SIZE) return FB_MORE_INPUT;
    uint64_t type = load(file, input.data, 2), length = load(file, input.data + 2, 2);
    if (length < RECORD_HEADER_SIZE || length > file->block_left) return FB_DAMAGED_CAPTURE;
    if (input.size < length) return FB_MORE_INPUT;
    fb_bytes record = {input.data, (size_t)length};
    bool consumed = true;
    if (type == FLOW_RECORD) read_flow(file, record, &consumed);
    else if (type == EXPORTER_RECORD) {
        if (read_exporter(file, record) != FB_OK) return FB_NO_MEMORY;
    } else if (type != EXPORTER_STATISTICS && type < FIRST_OF_APPENDIX) {
        file->counters[FB_OTHER_CAPTURE_RECORD]++;
    }
    if (!consumed) {
        fb_nfcapd_flush(file, datagram);
        return FB_OK;
    }
    *size = (size_t)length;
    file->block_left -= length;
    return FB_OK;
}

fb_status fb_nfcapd_read(fb_nfcapd *file, fb_bytes input, size_t *size, fb_datagram *datagram) {
    *size = 0;
    if (file->skip) {
        *size = file->skip < input.size ? (size_t)file->skip : input.size;
        file->skip -= *size;
        return file->skip ? FB_MORE_INPUT : FB_OK;
    }
    return file->block_left ? read_record(file, input, size, datagram)
                            : read_block_header(file, input, size);
}

bool fb_nfcapd_is_full(const fb_nfcapd *file) {
    return file->used + 2 * FB_NFCAPD_MESSAGE_SIZE > ARENA_SIZE;
}

void fb_nfcapd_release(fb_nfcapd *file) {
    message *message = &file->message;
    if (file->open) {
        size_t size = (size_t)(message->end - message->begin);
        memmove(file->arena, message->begin, size);
        if (message->set) message->set = file->arena + (message->set - message->begin);
        message->begin = file->arena;
        message->end = file->arena + size;
    }
    file->used = 0;
}

bool fb_nfcapd_is_between_blocks(const fb_nfcapd *file) {
    return !file->skip && !file->block_left;
}
