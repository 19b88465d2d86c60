/* The decoder's state: made, freed; and which protocol a payload speaks. */
#include "decode.h"

#define DEFAULT_EXPORTER_LIMIT 1048576
#define DEFAULT_EXPORTER_MEMORY (16u << 20)
#define DEFAULT_EARLY_DATA_LIMIT (4u << 20)
#define DEFAULT_EARLY_DATA_TOTAL (128u << 20)

/* NetFlow v5 has no templates; its records are compiled as if it had this one. */
static fb_status compile_netflow5(fb_decoder *decoder) {
    static const fb_field fields[] = {
#define FB_X(constant, name, kind, offset, size) {0, 0, size},
        FB_NETFLOW5_FIELD_LIST(FB_X)
#undef FB_X
    };
    return fb_shapes_acquire(&decoder->shapes, 5, fields, sizeof fields / sizeof *fields, 0, false, &decoder->netflow5);
}

/* What waits must not take the memory that the templates it waits for will need. */
static void open_early_data(fb_decoder *decoder) {
    const fb_decoder_options *options = &decoder->options;
    size_t limit = options->early_data_limit ? options->early_data_limit : DEFAULT_EARLY_DATA_LIMIT;
    size_t total = options->early_data_total ? options->early_data_total : DEFAULT_EARLY_DATA_TOTAL;
    size_t quarter = decoder->memory->limit / 4;
    if (quarter && total > quarter) total = quarter;
    fb_early_new(&decoder->early, decoder->memory, limit, total, options->hash_seed);
    decoder->exporters.early = &decoder->early;
}

fb_status fb_decoder_new(fb_decoder **out, const fb_plan *plan, fb_decoder_options options, fb_memory *memory) {
    fb_decoder *decoder = fb_memory_allocate(memory, sizeof *decoder);
    if (!decoder) return FB_NO_MEMORY;
    *decoder = (fb_decoder){.plan = plan, .memory = memory, .options = options};
    decoder->processor = fb_processor_choose(options.processor);
    size_t limit = options.exporter_limit ? options.exporter_limit : DEFAULT_EXPORTER_LIMIT;
    size_t exporter_memory = options.exporter_memory ? options.exporter_memory : DEFAULT_EXPORTER_MEMORY;
    if (fb_shapes_new(&decoder->shapes, plan, memory, options.hash_seed, decoder->processor == FB_PROCESSOR_AVX512) != FB_OK ||
        fb_exporters_new(&decoder->exporters, &decoder->shapes, memory, limit, exporter_memory, options.hash_seed) != FB_OK ||
        compile_netflow5(decoder) != FB_OK) {
        fb_decoder_free(decoder);
        return FB_NO_MEMORY;
    }
    open_early_data(decoder);
    decoder->patterns = fb_patterns_new(plan, memory, decoder->processor == FB_PROCESSOR_AVX512);
    decoder->exporters.template_expiry = options.template_expiry;
    decoder->exporters.obey_withdrawals = options.obey_withdrawals;
    *out = decoder;
    return FB_OK;
}

void fb_decoder_free(fb_decoder *decoder) {
    if (!decoder) return;
    fb_patterns_free(&decoder->patterns);
    fb_early_free(&decoder->early);
    fb_exporters_free(&decoder->exporters);
    fb_shapes_free(&decoder->shapes);
    fb_memory_release(decoder->memory, decoder, sizeof *decoder);
}

void fb_decoder_finish(fb_decoder *decoder) {
    fb_early_give_up(&decoder->early, &decoder->fault);
}

/* NetFlow v1 and v7 are told by their exact length: their version alone is too common at the start of other payloads. */
static bool is_unsupported(fb_bytes payload, unsigned version) {
    if (payload.size < 4) return false;
    size_t count = fb_load16(payload.data + 2);
    if (version == 1) return payload.size == 16 + 52 * count;
    if (version == 7) return payload.size == 24 + 52 * count;
    bool sflow = version == 0 && (count == 2 || count == 4) && payload.size >= 8;
    return sflow && (fb_load32(payload.data + 4) == 1 || fb_load32(payload.data + 4) == 2);
}

void fb_datagram_get_exporter(const fb_datagram *datagram, uint8_t address[16]) {
    fb_bytes payload = datagram->payload, agent;
    memcpy(address, datagram->source, 16);
    if (fb_payload_sniff(payload) != FB_SFLOW5) return;
    fb_xdr xdr = {payload.data + 4, payload.data + payload.size};
    if (fb_xdr_read_address(&xdr, &agent)) fb_sflow_agent_address(address, agent);
}

uint32_t fb_payload_look_closer(fb_bytes payload) {
    if (payload.size < 2) return 0;
    unsigned version = fb_load16(payload.data);
    if (version == 5 || version == 9 || version == 10) return version; /* cut short */
    return is_unsupported(payload, version) ? FB_UNSUPPORTED : 0;
}
