/* The map from field numbers to columns, the reader of messages compiled for any processor, and the
   choice between its two variants. */
#include "core/arrow/message_columns.h"

#include <stdlib.h>

const char *fb_message_fault_text(fb_message_fault_kind kind) {
    static const char *const texts[] = {
#define FB_X(constant, text) text,
        FB_MESSAGE_FAULT_LIST(FB_X)
#undef FB_X
    };
    return (unsigned)kind < FB_MESSAGE_FAULT_COUNT ? texts[kind] : "unknown fault";
}

/* Places ------------------------------------------------------------------------------------- */

static uint64_t minimum(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Arrow stores the numbers of enums as signed integers. */
static uint64_t limit_of(const fb_column *column) {
    switch (column->type) {
        case FB_TYPE_ENUM: return INT32_MAX;
        case FB_TYPE_FIXED32: return minimum(column->limit, UINT32_MAX);
        case FB_TYPE_UINT:
        case FB_TYPE_TIMESTAMP:
        case FB_TYPE_FIXED64: return column->limit;
        case FB_TYPE_INT:
        case FB_TYPE_SINT: return minimum(column->limit, INT64_MAX);
        case FB_TYPE_DURATION: return INT64_MAX;
        default: return UINT64_MAX; /* all bit patterns are valid */
    }
}

static uint8_t choose_path(const fb_column *column) {
    if (!(column->flags & FB_COLUMN_ENABLED)) return FB_MESSAGE_PATH_SKIP;
    if (column->flags & (FB_COLUMN_REPEATED | FB_COLUMN_EXPLICIT)) return FB_MESSAGE_PATH_OTHER;
    switch (column->type) {
        case FB_TYPE_UINT:
        case FB_TYPE_ENUM:
        case FB_TYPE_TIMESTAMP: return FB_MESSAGE_PATH_NUMBER;
        case FB_TYPE_IP: return FB_MESSAGE_PATH_ADDRESS;
        case FB_TYPE_FIXED64:
        case FB_TYPE_DOUBLE: return FB_MESSAGE_PATH_FIXED64;
        case FB_TYPE_STRING: return FB_MESSAGE_PATH_TEXT;
        default: return FB_MESSAGE_PATH_OTHER;
    }
}

static fb_message_place place_of(const fb_plan *plan, size_t column) {
    const fb_column *c = &plan->columns[column];
    return (fb_message_place){
        .limit = limit_of(c),
        .number = c->number,
        .column = (uint16_t)column,
        .path = choose_path(c),
        .wire = c->wire,
        .type = c->type,
        .listed = c->flags & FB_COLUMN_REPEATED,
    };
}

static int compare_places(const void *a, const void *b) {
    const fb_message_place *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

fb_status fb_message_columns_new(fb_message_columns *reader, const fb_plan *plan,
                                 fb_processor processor, fb_memory *memory) {
    size_t count = plan->column_count + 1;
    *reader = (fb_message_columns){.plan = plan, .memory = memory, .place_count = count};
    reader->processor = fb_processor_choose(processor);
    reader->places = fb_memory_allocate(memory, count * sizeof *reader->places);
    reader->uneven = fb_memory_allocate(memory, count * sizeof *reader->uneven);
    if (!reader->places || !reader->uneven) {
        fb_message_columns_free(reader);
        return FB_NO_MEMORY;
    }
    /* The place of number 0, which no field has. */
    reader->places[FB_MESSAGE_NO_PLACE] =
        (fb_message_place){.column = FB_NO_COLUMN, .wire = FB_MESSAGE_NO_WIRE};
    for (size_t i = 0; i < plan->column_count; i++) {
        reader->places[i + 1] = place_of(plan, i);
        if (fb_batch_is_uneven(&plan->columns[i]))
            reader->uneven[reader->uneven_count++] = (uint16_t)i;
    }
    qsort(reader->places, count, sizeof *reader->places, compare_places);
    for (size_t i = 1; i < count && reader->places[i].number < FB_MESSAGE_NEAR; i++)
        reader->near[reader->places[i].number] = (uint16_t)i;
    return FB_OK;
}

void fb_message_columns_free(fb_message_columns *reader) {
    if (!reader->plan) return;
    fb_memory_release(reader->memory, reader->places, reader->place_count * sizeof *reader->places);
    fb_memory_release(reader->memory, reader->uneven, reader->place_count * sizeof *reader->uneven);
    *reader = (fb_message_columns){0};
}

/* Rows --------------------------------------------------------------------------------------- */

#define FB_ENTRY read_any
static fb_status read_any(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                          fb_message_fault *fault);
#include "core/arrow/message_rows.tmpl.h"

#ifdef FB_NEWER_PROCESSORS
/* message_columns_bmi2.c */
fb_status fb_message_columns_read_bmi2(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                                       fb_message_fault *fault);
#endif

/* Allocate the buffers of columns without bytes too. */
static bool reserve_uneven(const fb_message_columns *reader, fb_batch *batch) {
    for (size_t i = 0; i < reader->uneven_count; i++) {
        fb_vector *vector = &batch->vectors[reader->uneven[i]];
        if (!vector->values && !fb_batch_reserve(batch, vector, 0)) return false;
    }
    return true;
}

/* Batches with the same fixed buffer and capacity have the same addresses of fixed-width
   vectors. */
static void set_batch(fb_message_columns *reader, const fb_batch *batch) {
    if (reader->fixed == batch->fixed && reader->capacity == batch->capacity) return;
    reader->fixed = batch->fixed;
    reader->capacity = batch->capacity;
    for (size_t i = FB_MESSAGE_NO_PLACE + 1; i < reader->place_count; i++) {
        const fb_vector *vector = &batch->vectors[reader->places[i].column];
        reader->places[i].values = vector->values;
        reader->places[i].shift = vector->shift;
    }
}

fb_status fb_message_columns_read(fb_message_columns *reader, fb_bytes *rest, fb_batch *batch,
                                  fb_message_fault *fault) {
    *fault = (fb_message_fault){.column = FB_NO_COLUMN};
    if (!reserve_uneven(reader, batch)) return FB_NO_MEMORY;
    set_batch(reader, batch);
    batch->written = UINT64_MAX;
#ifdef FB_NEWER_PROCESSORS
    if (reader->processor >= FB_PROCESSOR_BMI2)
        return fb_message_columns_read_bmi2(reader, rest, batch, fault);
#endif
    return read_any(reader, rest, batch, fault);
}
