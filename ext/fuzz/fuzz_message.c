/* Fuzzes the readers of message streams. Views stay inside the input, loops end, and repaired text
   is valid. Rows of columns have the values of a plain reader, for every split of the stream and
   every batch size. */
#include "fuzz/fuzz.h"

#include "tests/builders/message_table.h"

static void check_utf8(fb_bytes text) {
    uint8_t *replaced = malloc(3 * text.size + 1);
    bool any, again;
    size_t size;
    MUST(replaced);
    fb_bytes view = {replaced, (size_t)(fb_utf8_put_replaced(replaced, text, &any) - replaced)};
    MUST(view.size <= 3 * text.size);
    MUST(any == !fb_utf8_valid(text));
    MUST(fb_utf8_valid(view));
    uint8_t *once_more = malloc(3 * view.size + 1);
    MUST(once_more);
    size = (size_t)(fb_utf8_put_replaced(once_more, view, &again) - once_more);
    MUST(!again && size == view.size && (size == 0 || memcmp(once_more, replaced, size) == 0));
    free(once_more);
    free(replaced);
}

static void check_varint(uint64_t value) {
    uint8_t bytes[FB_VARINT_MAX];
    uint64_t read;
    uint8_t *end = fb_wire_put_varint(bytes, value);
    MUST((size_t)(end - bytes) == fb_wire_varint_size(value));
    MUST(fb_wire_read_varint(bytes, end, &read) == end && read == value);
    MUST(fb_wire_zigzag(fb_wire_unzigzag(value)) == value);
}

static void check_message(fb_bytes message) {
    const uint8_t *begin = message.data, *end = begin + message.size;
    fb_message_field field;
    fb_status status;
    while ((status = fb_message_next(&message, &field)) == FB_OK) {
        MUST(message.data > begin && message.data + message.size == end);
        MUST(field.number >= 1 && field.number <= FB_NUMBER_MAX);
        begin = message.data;
        if (field.wire == FB_WIRE_BYTES) {
            MUST(field.bytes.data + field.bytes.size == message.data);
            check_utf8(field.bytes);
        } else {
            check_varint(field.value);
        }
    }
    MUST(status == FB_END || status == FB_BAD_MESSAGE);
    MUST((status == FB_END) == (message.size == 0));
}

/* Split the stream into pieces of complete messages, as for Kafka messages. Together they must have
   the stream's messages. */
static void check_pieces(fb_bytes stream, size_t limit) {
    fb_bytes rest = stream, message;
    size_t messages = 0, cut = 0, count;
    while (fb_stream_next(&rest, &message) == FB_OK) messages++;
    size_t whole = stream.size - rest.size;
    for (size_t size; (size = fb_stream_cut(stream, limit, &count)); cut += size) {
        MUST(count >= 1 && count <= messages && (size <= limit || count == 1));
        messages -= count;
        stream = (fb_bytes){stream.data + size, stream.size - size};
    }
    MUST(cut == whole && messages == 0 && count == 0);
}

/* Rows --------------------------------------------------------------------------------------- */

enum { PLANS = 3 };

/* Plans are read once and live as long as the process. */
static const named_plan *get_plan(unsigned which) {
    static named_plan plans[PLANS];
    static fb_memory memory;
    if (!plans[0].plan) {
        text rich = {0};
        plan_put_rich(&rich);
        memory = fb_memory_system(0);
        MUST(plan_read(&plans[0], usual_columns, &memory) == FB_OK);
        MUST(plan_read(&plans[1], text_of(&rich), &memory) == FB_OK);
        MUST(plan_read(&plans[2], two_byte_tags, &memory) == FB_OK);
        text_free(&rich);
    }
    return &plans[which];
}

/* Copy a piece so that it ends at a guard page. The memory of copies lives as long as the
   process. */
static const uint8_t *copy_piece(const uint8_t *data, size_t size) {
    static uint8_t *room;
    static size_t capacity;
    if (size > capacity || !room) {
        if (room) fb_guarded_free(room, capacity);
        capacity = 2 * size + 65536;
        room = fb_guarded_room_of(capacity);
    }
    uint8_t *copy = room + capacity - size;
    if (size) memcpy(copy, data, size);
    return copy;
}

/* Read a piece. *taken is the number of bytes that became rows. */
static fb_status read_piece(fb_message_columns *reader, fb_batch *batch, const uint8_t *data,
                            size_t size, size_t *taken) {
    const uint8_t *copy = copy_piece(data, size);
    fb_bytes rest = {copy, size};
    fb_message_fault fault;
    fb_status status = fb_message_columns_read(reader, &rest, batch, &fault);
    *taken = (size_t)(rest.data - copy);
    MUST(rest.size == size - *taken);
    MUST((status == FB_END) == (rest.size == 0));
    MUST((status == FB_BAD_MESSAGE) == (fault.kind != FB_MESSAGE_FAULT_NONE));
    MUST(fault.offset == 0 || fault.offset < rest.size);
    return status;
}

static fb_status read_rows(const named_plan *plan, fb_processor processor, fb_bytes stream,
                           size_t rows, size_t step, text *said, uint64_t *unknown) {
    fb_memory memory = fb_memory_system(0);
    fb_message_columns reader;
    fb_status status = FB_MORE_INPUT;
    MUST(fb_message_columns_new(&reader, plan->plan, processor, &memory) == FB_OK);
    for (size_t begin = 0, end = 0, taken;
         status == FB_NO_SPACE || (status != FB_BAD_MESSAGE && end < stream.size); begin += taken) {
        fb_batch *batch;
        if (status != FB_NO_SPACE) end += step < stream.size - end ? step : stream.size - end;
        MUST(fb_batch_new(&batch, plan->plan, rows, memory) == FB_OK);
        status = read_piece(&reader, batch, stream.data + begin, end - begin, &taken);
        MUST(status != FB_NO_SPACE || batch->rows == rows);
        describe_batch(said, plan, batch);
        fb_batch_free(batch);
    }
    *unknown = reader.unknown_fields;
    fb_message_columns_free(&reader);
    MUST(memory.used == 0);
    return status;
}

static void check_rows(const named_plan *plan, fb_processor processor, fb_bytes stream, size_t rows,
                       size_t step) {
    text plain = {0}, said = {0};
    uint64_t unknown = 0, counted;
    fb_status status = describe_any_messages(&plain, plan, stream.data, stream.size, &unknown);
    MUST(status == read_rows(plan, processor, stream, rows, step, &said, &counted));
    MUST(strcmp(text_of(&plain), text_of(&said)) == 0);
    MUST(unknown == counted);
    text_free(&plain);
    text_free(&said);
}

/* Choose a place to cut a message: anywhere, or after the first byte of a tag. */
static size_t choose_cut(fb_bytes message, uint64_t choice) {
    size_t cut = (size_t)(choice >> 1) % message.size;
    fb_message_field field;
    fb_bytes rest = message;
    if (choice & 1) return cut;
    while (message.size - rest.size < cut && fb_message_next(&rest, &field) == FB_OK) continue;
    return message.size - rest.size + (rest.size > 0);
}

/* Check a message that ends too early and is followed by few bytes. The fast path reads some of
   them. */
static void check_cut(const named_plan *plan, fb_bytes stream, uint64_t choice) {
    fb_bytes rest = stream, message = {NULL, 0};
    uint8_t prefix[FB_VARINT_MAX];
    for (size_t i = 0; i <= choice % 4 && fb_stream_next(&rest, &message) == FB_OK; i++) continue;
    if (!message.size) return;
    size_t cut = choose_cut(message, choice >> 8), behind = 30 + (choice >> 2) % 6;
    size_t left = message.size + rest.size - cut, size = cut + (behind < left ? behind : left);
    size_t head = (size_t)(fb_wire_put_varint(prefix, cut) - prefix);
    uint8_t *shorter = malloc(head + size);
    MUST(shorter);
    memcpy(shorter, prefix, head);
    memcpy(shorter + head, message.data, size);
    check_rows(plan, FB_PROCESSOR_ANY, (fb_bytes){shorter, head + size}, 64, head + size);
    check_rows(plan, FB_PROCESSOR_BMI2, (fb_bytes){shorter, head + size}, 64, head + size);
    free(shorter);
}

static uint64_t hash_of(const uint8_t *data, size_t size) {
    uint64_t hash = size;
    for (size_t i = 0; i < size; i++) hash = fb_hash(hash, data[i]);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fb_bytes rest = {data, size}, message;
    fb_status status;
    while ((status = fb_stream_next(&rest, &message)) == FB_OK) {
        MUST(message.data >= data && message.data + message.size == rest.data);
        check_message(message);
    }
    MUST(status == FB_END || status == FB_MORE_INPUT || status == FB_BAD_MESSAGE);
    MUST((status == FB_END) == (rest.size == 0));
    check_message((fb_bytes){data, size});
    check_pieces((fb_bytes){data, size}, size / 4);
    fb_message_hash_conversation((fb_bytes){data, size}, &(fb_conversation){1, 2, 3, 4, 5});
    for (unsigned i = 0; size && i < PLANS; i++) {
        check_rows(get_plan(i), FB_PROCESSOR_ANY, (fb_bytes){data, size}, 64, size);
        check_rows(get_plan(i), FB_PROCESSOR_BMI2, (fb_bytes){data, size}, 1 + size % 20,
                   1 + size / 3);
    }
    for (unsigned k = 0; size && k < 2 * PLANS; k++)
        check_cut(get_plan(k % PLANS), (fb_bytes){data, size}, fb_hash(hash_of(data, size), k));
    return 0;
}
