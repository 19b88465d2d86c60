/* Rows are encoded in blocks of up to 64. Each column of a block is first read into cells of one
   form, and its values are checked. So the room for each row is known before it is started. Then
   the rows are written from the cells. */
#include "core/arrow/arrow_encode.h"

static fb_status build_encoder(fb_arrow_encoder *e, const fb_plan *plan,
                               const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                               fb_memory *memory) {
    fb_status status =
        fb_arrow_source_new(&e->source, plan, schema, bindings, FB_ARROW_ORDER_PLAIN, memory);
    if (status == FB_OK) status = fb_row_new(&e->row, plan, memory);
    if (status != FB_OK) return status;
    e->row.plain = true; /* no value is deferred to the end of its row, and no column comes twice */
    return fb_arrow_block_make_lanes(&e->block, &e->source);
}

fb_status fb_arrow_encoder_new(fb_arrow_encoder *e, const fb_plan *plan,
                               const struct ArrowSchema *schema, const fb_arrow_binding *bindings,
                               fb_processor processor, fb_memory *memory) {
    *e = (fb_arrow_encoder){.block.processor = fb_processor_choose(processor)};
    fb_status status = build_encoder(e, plan, schema, bindings, memory);
    if (status != FB_OK) fb_arrow_encoder_free(e);
    return status;
}

void fb_arrow_encoder_free(fb_arrow_encoder *e) {
    fb_arrow_block_free_lanes(&e->block, e->source.memory);
    fb_arrow_source_free(&e->source);
    fb_row_free(&e->row);
    *e = (fb_arrow_encoder){.source.fault = e->source.fault};
}

/* Return the number of rows to read: no more than could fit. Otherwise a small buffer would cause a
   whole block to be read for each row. */
static size_t choose_row_count(const fb_arrow_encoder *e, size_t position) {
    size_t left = fb_arrow_source_rows(&e->source) - position,
           room = (size_t)(e->row.end - e->row.next) / e->source.plan->max_fixed_size;
    size_t count = left < FB_ARROW_BLOCK ? left : FB_ARROW_BLOCK;
    return room < count ? room + !room : count;
}

fb_status fb_arrow_encode(fb_arrow_encoder *e, const struct ArrowArray *array, size_t *position) {
    fb_arrow_source *source = &e->source;
    fb_status status = fb_arrow_source_set(source, array);
    if (status != FB_OK) return status;
    while (*position < fb_arrow_source_rows(source)) {
        size_t count = fb_arrow_source_read(source, *position, choose_row_count(e, *position));
        size_t done = fb_arrow_block_put(&e->block, source, &e->row, count);
        *position += done;
        if (e->block.changed) {
            source->fault = (fb_arrow_fault){FB_ARROW_CHANGED, e->block.changed->child, *position};
            return FB_OUT_OF_RANGE;
        }
        if (done < count) return FB_NO_SPACE;
        if (source->fault.reason != FB_ARROW_NONE) return FB_OUT_OF_RANGE;
    }
    return FB_OK;
}
