/* A message is built in the writer and copied to the output when it is complete. Bit 2i of a field
   set is the first element of column i, and bit 2i + 1 its second element. */
#include "core/capture/ipfix_write.h"

#include "core/packet/packet_write.h"
#include "core/wire/message_reader.h"

enum {
    HEADER_SIZE = 16,
    SET_HEADER_SIZE = 4,
    TEMPLATE_SET = 2,
    FIRST_TEMPLATE = 256,
    VARIABLE = 65535,
    LIST_HEADER_SIZE = 5,
    LIST_ORDERED = 4,        /* semantic of a list, RFC 6313 section 4.4 */
    SLOTS = 256,             /* a power of two, above FB_IPFIX_TEMPLATES */
    MAX_OCTETS = 400,        /* so that all columns fit into one message */
    TEMPLATE_INTERVAL = 100, /* messages after which a template is repeated */
    WORDS = 2 * FB_IPFIX_COLUMNS / 64
};

static const uint64_t NANO = 1000000000;
static const uint64_t NTP_EPOCH = 2208988800; /* seconds from 1900 to 1970 */

typedef struct {
    uint64_t bits[WORDS];
} field_set;

typedef struct {
    field_set fields;
    uint16_t id;
    uint64_t sent; /* message in which it was written last; 0: none */
} layout;

/* A row: the field of each column, and which of them are written. A list has a field for each
   member. `values` has the last one, and `content` the bytes of the members in a record. */
typedef struct {
    fb_bytes message;
    fb_message_field values[FB_IPFIX_COLUMNS];
    size_t content[FB_IPFIX_COLUMNS]; /* above MAX_OCTETS if a member cannot be written */
    bool present[FB_IPFIX_COLUMNS];
    uint32_t time;
    field_set fields;
    size_t size, template_size;
} row;

struct fb_ipfix_writer {
    fb_memory *memory;
    fb_ipfix_column columns[FB_IPFIX_COLUMNS];
    fb_ipfix_options options;
    layout layouts[SLOTS];
    size_t layout_count;
    uint16_t next_id;
    uint64_t messages;
    fb_ipfix_left_out left_out;
    uint32_t sequence, records; /* records before the message, and in it */
    uint32_t time;
    uint8_t *end; /* of the open message; NULL: none is open */
    uint8_t *set;
    uint16_t set_id;
    row row;
    uint8_t message[65535];
};

/* All columns with their longest values and templates fit into a message. */
_Static_assert(HEADER_SIZE + 3 * SET_HEADER_SIZE + FB_IPFIX_COLUMNS * (8 + 3 + MAX_OCTETS) < 65535,
               "a record fits into a message");

fb_status fb_ipfix_writer_new(fb_ipfix_writer **out, fb_memory *memory,
                              const fb_ipfix_options *options) {
    *out = NULL;
    if (options->count > FB_IPFIX_COLUMNS) return FB_BAD_ARGUMENT;
    fb_ipfix_writer *writer = fb_memory_allocate(memory, sizeof *writer);
    if (!writer) return FB_NO_MEMORY;
    writer->memory = memory;
    writer->options = *options;
    if (options->count)
        memcpy(writer->columns, options->columns, options->count * sizeof *options->columns);
    writer->options.columns = writer->columns;
    writer->next_id = FIRST_TEMPLATE;
    *out = writer;
    return FB_OK;
}

void fb_ipfix_writer_free(fb_ipfix_writer *writer) {
    if (writer) fb_memory_release(writer->memory, writer, sizeof *writer);
}

/* Rows */

/* Find the column of a field. Fields have ascending numbers, except for a few at the end, so the
   search begins at the column after the latest one. */
static bool find_column(const fb_ipfix_writer *writer, uint32_t number, size_t *at) {
    size_t count = writer->options.count;
    for (size_t step = 0; step < count; step++) {
        size_t i = *at + step < count ? *at + step : *at + step - count;
        if (writer->columns[i].number != number) continue;
        *at = i;
        return true;
    }
    return false;
}

static bool fits_number(const fb_ipfix_column *column, uint64_t number) {
    bool is_signed = column->kind == FB_IPFIX_SIGNED || column->kind == FB_IPFIX_ZIGZAG;
    unsigned bits = column->size * 8u;
    if (bits == 64) return true;
    if (is_signed) number += UINT64_C(1) << (bits - 1);
    return number >> bits == 0;
}

/* Add a member to the content of a list. */
static void add_member(row *row, const fb_ipfix_column *column, size_t at,
                       const fb_message_field *field) {
    bool good = field->wire == FB_WIRE_VARINT && fits_number(column, field->value);
    if (!row->present[at]) row->content[at] = LIST_HEADER_SIZE;
    row->content[at] += good ? column->size : MAX_OCTETS + 1;
}

static fb_status read_row(fb_ipfix_writer *writer, fb_bytes message) {
    row *row = &writer->row;
    fb_message_field field;
    fb_status status;
    size_t at = 0;
    row->message = message;
    memset(row->present, 0, sizeof row->present);
    row->time = writer->options.time;
    while ((status = fb_message_next(&message, &field)) == FB_OK) {
        if (field.number == writer->options.time_number)
            row->time = (uint32_t)(field.value / (NANO / writer->options.time_unit));
        if (!find_column(writer, field.number, &at)) continue;
        if (writer->columns[at].kind == FB_IPFIX_LIST)
            add_member(row, &writer->columns[at], at, &field);
        row->values[at] = field;
        row->present[at] = true;
    }
    return status == FB_END ? FB_OK : status;
}

static bool is_ipv4(fb_bytes address) {
    return address.size == 4 || (address.size == 16 && fb_is_mapped(address.data));
}

/* Return true if the first address of the row is an IPv6 address. */
static bool is_ipv6_row(const fb_ipfix_writer *writer) {
    const row *row = &writer->row;
    for (size_t i = 0; i < writer->options.count; i++)
        if (row->present[i] && writer->columns[i].kind == FB_IPFIX_ADDRESS)
            return !is_ipv4(row->values[i].bytes);
    return false;
}

/* Return the number of the element for a member of an enum. */
static uint64_t map_member(const fb_ipfix_column *column, uint64_t member) {
    for (size_t i = 0; i < column->member_count; i++)
        if (column->members[i].member == member) return column->members[i].value;
    return member;
}

static uint64_t to_ntp(uint64_t nanoseconds) {
    uint64_t seconds = nanoseconds / NANO + NTP_EPOCH, rest = nanoseconds % NANO;
    /* rounded up, so that a reader that rounds down gets the same number of nanoseconds */
    uint64_t fraction = ((rest << 32) + NANO - 1) / NANO;
    return seconds << 32 | fraction;
}

static int64_t from_zigzag(uint64_t value) {
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

/* Return the number to write. */
static uint64_t get_number(const fb_ipfix_column *column, uint64_t value) {
    switch (column->kind) {
        case FB_IPFIX_UNSIGNED: return map_member(column, value);
        case FB_IPFIX_ZIGZAG: return (uint64_t)from_zigzag(value);
        case FB_IPFIX_BOOLEAN: return value ? 1 : 2;
        case FB_IPFIX_SECONDS: return value / (NANO / column->unit);
        case FB_IPFIX_MILLISECONDS:
            return column->unit < 1000000 ? value / (1000000 / column->unit)
                                          : value * (column->unit / 1000000);
        case FB_IPFIX_NTP: return to_ntp(value * column->unit);
        default: return value;
    }
}

/* Return the bytes of a value of variable length with its length before it; 0 if it is too long. */
static size_t get_variable_size(size_t size) {
    if (size > MAX_OCTETS) return 0;
    return size + (size < 255 ? 1 : 3);
}

/* Return the size of a value in a record, 0 if it cannot be written. */
static size_t get_size(const fb_ipfix_column *column, const fb_message_field *field) {
    if (column->kind == FB_IPFIX_ADDRESS) {
        if (is_ipv4(field->bytes)) return 4;
        return field->bytes.size == 16 ? 16 : 0;
    }
    if (column->kind == FB_IPFIX_OCTETS) return get_variable_size(field->bytes.size);
    return fits_number(column, get_number(column, field->value)) ? column->size : 0;
}

static bool matches_wire(const fb_ipfix_column *column, const fb_message_field *field) {
    bool is_bytes = column->kind == FB_IPFIX_ADDRESS || column->kind == FB_IPFIX_OCTETS;
    return is_bytes == (field->wire == FB_WIRE_BYTES);
}

/* Determine the elements of the row, and the sizes of its record and template. */
static void select_fields(fb_ipfix_writer *writer) {
    row *row = &writer->row;
    bool ipv6 = is_ipv6_row(writer);
    memset(&row->fields, 0, sizeof row->fields);
    row->size = 0;
    row->template_size = SET_HEADER_SIZE + 4;
    for (size_t i = 0; i < writer->options.count; i++) {
        const fb_ipfix_column *column = &writer->columns[i];
        const fb_message_field *field = &row->values[i];
        if (!row->present[i]) continue;
        bool second = column->kind == FB_IPFIX_ADDRESS ? !is_ipv4(field->bytes) : ipv6;
        size_t size = 0;
        if (column->kind == FB_IPFIX_LIST) size = get_variable_size(row->content[i]);
        else if (matches_wire(column, field)) size = get_size(column, field);
        if (!size || !column->elements[second]) {
            writer->left_out.values++;
            continue;
        }
        size_t bit = 2 * i + second;
        row->fields.bits[bit / 64] |= UINT64_C(1) << bit % 64;
        row->size += size;
        row->template_size += column->enterprise ? 8 : 4;
    }
}

static bool has_field(const field_set *fields, size_t bit) {
    return fields->bits[bit / 64] >> bit % 64 & 1;
}

static uint8_t *put_size(uint8_t *out, size_t size) {
    return size < 255 ? fb_put8(out, (uint32_t)size) : fb_put16(fb_put8(out, 255), (uint32_t)size);
}

static uint8_t *put_octets(uint8_t *out, fb_bytes value) {
    out = put_size(out, value.size);
    return value.size ? fb_put_bytes(out, value.data, value.size) : out;
}

/* Put the members of a list. */
static uint8_t *put_list(uint8_t *out, const row *row, const fb_ipfix_column *column, size_t size) {
    fb_bytes message = row->message;
    fb_message_field field;
    out = put_size(out, size);
    out = fb_put16(fb_put16(fb_put8(out, LIST_ORDERED), column->member), column->size);
    while (fb_message_next(&message, &field) == FB_OK)
        if (field.number == column->number) out = fb_put_uint(out, field.value, column->size);
    return out;
}

static uint8_t *put_value(uint8_t *out, const fb_ipfix_column *column,
                          const fb_message_field *field) {
    if (column->kind == FB_IPFIX_OCTETS) return put_octets(out, field->bytes);
    if (column->kind != FB_IPFIX_ADDRESS)
        return fb_put_uint(out, get_number(column, field->value), column->size);
    size_t size = is_ipv4(field->bytes) ? 4 : 16;
    return fb_put_bytes(out, field->bytes.data + field->bytes.size - size, size);
}

static uint8_t *put_field(const fb_ipfix_writer *writer, size_t i) {
    const row *row = &writer->row;
    const fb_ipfix_column *column = &writer->columns[i];
    if (column->kind == FB_IPFIX_LIST) return put_list(writer->end, row, column, row->content[i]);
    return put_value(writer->end, column, &row->values[i]);
}

/* Templates */

static uint16_t new_id(fb_ipfix_writer *writer) {
    uint16_t id = writer->next_id;
    writer->next_id = id == UINT16_MAX ? FIRST_TEMPLATE : (uint16_t)(id + 1);
    return id;
}

static layout *find_layout(fb_ipfix_writer *writer, const field_set *fields) {
    uint64_t hash = 1;
    for (size_t i = 0; i < WORDS; i++) hash = fb_hash(hash, fields->bits[i]);
    size_t i = (size_t)(hash >> 32) & (SLOTS - 1);
    for (; writer->layouts[i].id; i = (i + 1) & (SLOTS - 1))
        if (memcmp(&writer->layouts[i].fields, fields, sizeof *fields) == 0)
            return &writer->layouts[i];
    if (writer->layout_count == FB_IPFIX_TEMPLATES) {
        memset(writer->layouts, 0, sizeof writer->layouts);
        writer->layout_count = 0;
        return find_layout(writer, fields);
    }
    writer->layout_count++;
    writer->layouts[i] = (layout){.fields = *fields, .id = new_id(writer)};
    return &writer->layouts[i];
}

static uint8_t *put_specifier(uint8_t *out, const fb_ipfix_column *column, bool second) {
    uint32_t element = column->elements[second], length = column->size;
    if (column->kind == FB_IPFIX_ADDRESS) length = second ? 16 : 4;
    if (column->kind == FB_IPFIX_OCTETS || column->kind == FB_IPFIX_LIST) length = VARIABLE;
    if (!column->enterprise) return fb_put16(fb_put16(out, element), length);
    return fb_put32(fb_put16(fb_put16(out, element | 0x8000), length), column->enterprise);
}

static uint8_t *put_template(uint8_t *out, const fb_ipfix_writer *writer, const layout *layout) {
    const row *row = &writer->row;
    uint8_t *count_at = out + SET_HEADER_SIZE + 2;
    uint32_t count = 0;
    out = fb_put16(fb_put16(out, TEMPLATE_SET), (uint32_t)row->template_size);
    out = fb_put16(fb_put16(out, layout->id), 0);
    for (size_t bit = 0; bit < 2 * writer->options.count; bit++) {
        if (!has_field(&layout->fields, bit)) continue;
        out = put_specifier(out, &writer->columns[bit / 2], bit % 2);
        count++;
    }
    fb_put16(count_at, count);
    return out;
}

static bool is_due(const fb_ipfix_writer *writer, const layout *layout) {
    return !layout->sent || writer->messages - layout->sent >= TEMPLATE_INTERVAL;
}

/* Messages */

static void begin_message(fb_ipfix_writer *writer) {
    writer->messages++;
    writer->time = writer->row.time;
    writer->records = 0;
    writer->set = NULL;
    writer->end = fb_put16(fb_put16(writer->message, 10), 0);
    writer->end = fb_put32(fb_put32(writer->end, writer->time), writer->sequence);
    writer->end = fb_put32(writer->end, 0);
}

fb_status fb_ipfix_writer_finish(fb_ipfix_writer *writer, fb_buffer *out) {
    if (!writer->end) return FB_OK;
    size_t size = (size_t)(writer->end - writer->message);
    if (fb_buffer_reserve(out, size) != FB_OK) return FB_NO_MEMORY;
    fb_put16(writer->message + 2, (uint32_t)size);
    out->p = fb_put_bytes(out->p, writer->message, size);
    writer->sequence += writer->records;
    writer->end = NULL;
    return FB_OK;
}

static bool fits(const fb_ipfix_writer *writer, const layout *layout) {
    const row *row = &writer->row;
    size_t size = (size_t)(writer->end - writer->message) + SET_HEADER_SIZE + row->size;
    if (is_due(writer, layout)) size += row->template_size;
    return row->time == writer->time && size <= FB_IPFIX_MESSAGE_SIZE;
}

static void append_record(fb_ipfix_writer *writer, layout *layout) {
    const row *row = &writer->row;
    if (is_due(writer, layout)) {
        writer->end = put_template(writer->end, writer, layout);
        writer->set = NULL;
        layout->sent = writer->messages;
    }
    if (!writer->set || writer->set_id != layout->id) {
        writer->set = writer->end;
        writer->set_id = layout->id;
        writer->end = fb_put16(fb_put16(writer->end, layout->id), 0);
    }
    for (size_t bit = 0; bit < 2 * writer->options.count; bit++)
        if (has_field(&row->fields, bit)) writer->end = put_field(writer, bit / 2);
    fb_put16(writer->set + 2, (uint32_t)(writer->end - writer->set));
    writer->records++;
}

static fb_status add_row(fb_ipfix_writer *writer, fb_bytes message, fb_buffer *out) {
    fb_status status = read_row(writer, message);
    if (status != FB_OK) return status;
    select_fields(writer);
    if (!writer->row.size) {
        writer->left_out.rows++; /* a record of no bytes cannot be written */
        return FB_OK;
    }
    layout *layout = find_layout(writer, &writer->row.fields);
    if (writer->end && !fits(writer, layout)) status = fb_ipfix_writer_finish(writer, out);
    if (status != FB_OK) return status;
    if (!writer->end) begin_message(writer);
    append_record(writer, layout);
    return FB_OK;
}

fb_status fb_ipfix_writer_add(fb_ipfix_writer *writer, fb_bytes stream, fb_buffer *out) {
    fb_bytes message;
    fb_status status;
    while ((status = fb_stream_next(&stream, &message)) == FB_OK) {
        status = add_row(writer, message, out);
        if (status != FB_OK) return status;
    }
    return status == FB_END ? FB_OK : status;
}

fb_ipfix_left_out fb_ipfix_writer_get_left_out(const fb_ipfix_writer *writer) {
    return writer->left_out;
}
