/* The state of a decoder: its creation, its release, and the detection of a payload's protocol. */
#include "core/decode/decode.h"

#include "core/packet/sflow_layout.h"

#define DEFAULT_EXPORTER_LIMIT   1048576
#define DEFAULT_EXPORTER_MEMORY  (16u << 20)
#define DEFAULT_EARLY_DATA_LIMIT (4u << 20)
#define DEFAULT_EARLY_DATA_TOTAL (128u << 20)

/* NetFlow v1, v5 and v7 have no templates. Their fixed records are compiled as if these were their
   templates. */
#define FB_X(constant, name, kind, offset, size) {0, FB_NETFLOW5_##constant, size},
static const fb_field fields_of_netflow5[] = {FB_NETFLOW5_FIELD_LIST(FB_X)};
static const fb_field fields_of_netflow7[] = {FB_NETFLOW7_FIELD_LIST(FB_X)};
#undef FB_X
#define PADDING(size) {0, FB_NETFLOW5_FIELD_COUNT, size}
static const fb_field fields_of_netflow1[] = {
    {0, FB_NETFLOW5_SRCADDR, 4},
    {0, FB_NETFLOW5_DSTADDR, 4},
    {0, FB_NETFLOW5_NEXTHOP, 4},
    {0, FB_NETFLOW5_INPUT, 2},
    {0, FB_NETFLOW5_OUTPUT, 2},
    {0, FB_NETFLOW5_PACKETS, 4},
    {0, FB_NETFLOW5_BYTES, 4},
    {0, FB_NETFLOW5_FIRST, 4},
    {0, FB_NETFLOW5_LAST, 4},
    {0, FB_NETFLOW5_SRCPORT, 2},
    {0, FB_NETFLOW5_DSTPORT, 2},
    PADDING(2),
    {0, FB_NETFLOW5_PROT, 1},
    {0, FB_NETFLOW5_TOS, 1},
    {0, FB_NETFLOW5_TCP_FLAGS, 1},
    PADDING(7),
    PADDING(4), /* only in records of 52 bytes */
};
#define COUNT(array) ((uint16_t)(sizeof(array) / sizeof *(array)))

static bool compile_fixed(fb_compiled_templates *compiled_templates, const fb_field *fields,
                          uint16_t count, fb_compiled_template **compiled) {
    return fb_compiled_templates_acquire(compiled_templates, 5, fields, count, 0, false,
                                         compiled) == FB_OK;
}

static bool compile_netflow(fb_decoder *decoder) {
    fb_compiled_templates *compiled_templates = &decoder->compiled_templates;
    return compile_fixed(compiled_templates, fields_of_netflow5, COUNT(fields_of_netflow5),
                         &decoder->netflow5) &&
           compile_fixed(compiled_templates, fields_of_netflow1, COUNT(fields_of_netflow1) - 1,
                         &decoder->netflow1[0]) &&
           compile_fixed(compiled_templates, fields_of_netflow1, COUNT(fields_of_netflow1),
                         &decoder->netflow1[1]) &&
           compile_fixed(compiled_templates, fields_of_netflow7, COUNT(fields_of_netflow7),
                         &decoder->netflow7);
}

/* The sets that wait are limited to a quarter of the memory, so that their templates still find
   room. */
static void init_pending_sets(fb_decoder *decoder) {
    const fb_decoder_options *options = &decoder->options;
    size_t limit = options->early_data_limit ? options->early_data_limit : DEFAULT_EARLY_DATA_LIMIT;
    size_t total = options->early_data_total ? options->early_data_total : DEFAULT_EARLY_DATA_TOTAL;
    size_t quarter = decoder->memory->limit / 4;
    if (quarter && total > quarter) total = quarter;
    fb_pending_new(&decoder->pending, decoder->memory, limit, total, options->hash_seed);
    decoder->pending.fault = &decoder->fault;
    decoder->exporters.pending = &decoder->pending;
    decoder->exporters.forget_pending = fb_pending_forget;
}

static size_t left_out_size(const fb_plan *plan) {
    return plan->column_count * sizeof(uint64_t);
}

static fb_status add_kind(fb_decoder *decoder, const fb_plan *plan) {
    uint64_t *left_out = fb_memory_allocate(decoder->memory, left_out_size(plan));
    if (plan->column_count && !left_out) return FB_NO_MEMORY;
    decoder->kinds[plan->rows] = (fb_row_kind){plan, left_out};
    return FB_OK;
}

fb_status fb_decoder_add_rows(fb_decoder *decoder, const fb_plan *plan) {
    if (plan->rows <= decoder->plan->rows || decoder->kinds[plan->rows].plan)
        return FB_BAD_ARGUMENT;
    fb_status status = fb_compiled_templates_set_plan(&decoder->compiled_templates, plan);
    return status == FB_OK ? add_kind(decoder, plan) : status;
}

fb_status fb_decoder_new(fb_decoder **out, const fb_plan *plan, fb_decoder_options options,
                         fb_memory *memory) {
    fb_decoder *decoder = fb_memory_allocate(memory, sizeof *decoder);
    if (!decoder) return FB_NO_MEMORY;
    *decoder = (fb_decoder){.plan = plan, .memory = memory, .options = options};
    decoder->processor = fb_processor_choose(options.processor);
    size_t limit = options.exporter_limit ? options.exporter_limit : DEFAULT_EXPORTER_LIMIT;
    size_t exporter_memory =
        options.exporter_memory ? options.exporter_memory : DEFAULT_EXPORTER_MEMORY;
    size_t quarter = memory->limit / 4;
    if (quarter && exporter_memory > quarter) exporter_memory = quarter;
    if (add_kind(decoder, plan) != FB_OK ||
        fb_compiled_templates_new(&decoder->compiled_templates, plan, memory, options.hash_seed,
                                  decoder->processor == FB_PROCESSOR_AVX512) != FB_OK ||
        fb_exporters_new(&decoder->exporters, &decoder->compiled_templates, memory, limit,
                         exporter_memory, options.hash_seed) != FB_OK ||
        !compile_netflow(decoder)) {
        fb_decoder_free(decoder);
        return FB_NO_MEMORY;
    }
    init_pending_sets(decoder);
    decoder->exporters.template_expiry = options.template_expiry;
    decoder->exporters.obey_withdrawals = options.obey_withdrawals;
    decoder->exporters.names = plan->names;
    decoder->rate_change =
        (fb_rate_change){.fallback = options.default_sampling_rate, .weight = FB_WEIGHT_ONE};
    decoder->changes_rates = options.rate_limit && plan->rows == FB_ROWS_FLOWS;
    *out = decoder;
    return FB_OK;
}

void fb_decoder_free(fb_decoder *decoder) {
    if (!decoder) return;
    fb_sampling_rules_free(&decoder->sampling_rules);
    fb_pending_free(&decoder->pending);
    fb_exporters_free(&decoder->exporters);
    fb_compiled_templates_free(&decoder->compiled_templates);
    for (unsigned rows = 0; rows < FB_ROWS_COUNT; rows++) {
        const fb_row_kind *kind = &decoder->kinds[rows];
        if (kind->plan)
            fb_memory_release(decoder->memory, kind->left_out, left_out_size(kind->plan));
    }
    fb_memory_release(decoder->memory, decoder, sizeof *decoder);
}

fb_status fb_decoder_set_sampling(fb_decoder *decoder, const fb_prefix *networks,
                                  size_t network_count, const fb_sampling_rule *rules,
                                  size_t rule_count) {
    fb_status status = fb_sampling_rules_new(&decoder->sampling_rules, networks, network_count,
                                             rules, rule_count, decoder->memory);
    if (status != FB_OK) return status;
    decoder->exporters.sampling_rules = &decoder->sampling_rules;
    decoder->changes_rates |= decoder->plan->rows == FB_ROWS_FLOWS;
    return FB_OK;
}

void fb_decoder_finish(fb_decoder *decoder) {
    fb_pending_drop_all(&decoder->pending, &decoder->fault);
}

void fb_decoder_hand_over(fb_decoder *decoder) {
    fb_pending_hand_over(&decoder->pending);
}

/* Return 1 or 7 if the payload is NetFlow of this version, FB_UNSUPPORTED, or 0 if it is something
   else. The length must match exactly, because these version numbers are common at the start of
   other payloads. A length that fits records of another size is FB_UNSUPPORTED. */
static uint32_t sniff_netflow(fb_bytes payload, unsigned version) {
    size_t header = version == 1 ? 16 : 24;
    if (payload.size <= header) return 0;
    size_t count = fb_load16(payload.data + 2), bytes = payload.size - header;
    if (bytes == 52 * count || (version == 1 && bytes == 48 * count)) return version;
    bool plausible = count > 0 && bytes > 40 * count && bytes % count == 0 &&
                     fb_load32(payload.data + 12) < FB_SECOND;
    return plausible ? FB_UNSUPPORTED : 0;
}

/* Return true for sFlow v2 and v4: the version is followed by a known type of agent address. */
static bool is_old_sflow(fb_bytes payload) {
    if (payload.size < 8) return false;
    uint32_t version = fb_load32(payload.data), type = fb_load32(payload.data + 4);
    return (version == 2 || version == 4) && (type == 1 || type == 2);
}

void fb_datagram_get_exporter(const fb_datagram *datagram, uint8_t address[16]) {
    fb_bytes payload = datagram->payload, agent;
    memcpy(address, datagram->source, 16);
    if (fb_payload_sniff(payload) != FB_SFLOW5) return;
    fb_xdr xdr = {payload.data + 4, payload.data + payload.size};
    if (fb_xdr_read_address(&xdr, &agent)) fb_sflow_agent_address(address, agent);
}

uint32_t fb_payload_sniff_slowly(fb_bytes payload) {
    if (payload.size < 2) return 0;
    unsigned version = fb_load16(payload.data);
    if (version == 5 || version == 9 || version == 10) return version; /* shorter than 4 bytes */
    if (version == 1 || version == 7) return sniff_netflow(payload, version);
    return is_old_sflow(payload) ? FB_UNSUPPORTED : 0;
}
