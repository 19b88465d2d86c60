/* Find the ids and the names in the fields of an options record.

   A record may define several names of one thing, such as the name and the description of an
   interface. The first field with an id that is not zero identifies the thing. If all are zero, it
   is the thing with the id 0, but there are no interfaces and users with this id. */
#include "core/exporter/options.h"

#include "core/exporter/sampling.h"
#include "core/packet/sflow_layout.h"

#define RECORD_IF_COUNTERS 1
#define RECORD_PORT_NAME   1005

/* The kinds of things that have names. */
typedef enum { INTERFACE, VRF, APPLICATION, SAMPLER, USER, POINT, THINGS } thing;

/* Elements that identify a thing. */
static const struct {
    uint16_t element;
    uint8_t thing;
} ids[] = {
    {10, INTERFACE}, {14, INTERFACE},   {252, INTERFACE}, {253, INTERFACE}, {234, VRF},
    {235, VRF},      {95, APPLICATION}, {48, SAMPLER},    {302, SAMPLER},   {8, USER},
    {27, USER},      {56, USER},        {365, USER},      {366, USER},      {138, POINT},
};

/* Elements that name a thing. An observation point has the name of its interface. */
static const struct {
    uint16_t element;
    uint8_t thing, kind; /* fb_name_kind */
} texts[] = {
    {82, INTERFACE, FB_NAME_INTERFACE},
    {83, INTERFACE, FB_NAME_INTERFACE_DESCRIPTION},
    {236, VRF, FB_NAME_VRF},
    {96, APPLICATION, FB_NAME_APPLICATION},
    {372, APPLICATION, FB_NAME_APPLICATION_CATEGORY},
    {84, SAMPLER, FB_NAME_SAMPLER},
    {335, SAMPLER, FB_NAME_SAMPLER},
    {371, USER, FB_NAME_USER},
    {82, POINT, FB_NAME_OBSERVATION_POINT},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Return the thing that a field identifies; THINGS: none. */
static thing find_thing(const fb_compiled_template *compiled, uint16_t field) {
    const fb_field *of = &compiled->fields[field];
    if (compiled->version == 9 && field < compiled->scope_count)
        return of->id == FB_SCOPE_INTERFACE ? INTERFACE : THINGS;
    for (size_t i = 0; !of->pen && i < COUNT(ids); i++)
        if (ids[i].element == of->id) return (thing)ids[i].thing;
    return THINGS;
}

static bool is_zero(fb_bytes field) {
    return fb_is_zero(field.data, fb_end_of(field));
}

/* Define the names in a field. Return true if there are any. */
static bool define_names(fb_context *context, const fb_field *field, fb_bytes text,
                         const fb_bytes id_of[THINGS]) {
    bool found = false;
    for (size_t i = 0; !field->pen && i < COUNT(texts); i++) {
        fb_name_kind kind = (fb_name_kind)texts[i].kind;
        fb_bytes id = id_of[texts[i].thing];
        fb_name_id number;
        bool nothing = (texts[i].thing == INTERFACE || texts[i].thing == USER) && is_zero(id);
        if (texts[i].element != field->id || nothing || !(context->exporters->names & 1u << kind) ||
            !fb_name_id_read(kind, id.data, id.size, &number))
            continue;
        found = true;
        fb_domain_set_name(context->exporters, context->exporter, context->domain, kind, number,
                           text, 0);
    }
    return found;
}

static bool read_names(fb_context *context, const fb_compiled_template *compiled,
                       const uint8_t *record, const fb_location *locations) {
    fb_bytes id_of[THINGS] = {{NULL, 0}};
    bool found = false;
    for (uint16_t i = 0; i < compiled->field_count; i++) {
        thing named = find_thing(compiled, i);
        fb_bytes field = fb_compiled_template_field(compiled, i, record, locations);
        if (named == THINGS || !field.size) continue;
        if (!id_of[named].size || (is_zero(id_of[named]) && !is_zero(field))) id_of[named] = field;
    }
    for (uint16_t i = fb_compiled_template_first_element(compiled); i < compiled->field_count; i++)
        found |= define_names(context, &compiled->fields[i],
                              fb_compiled_template_field(compiled, i, record, locations), id_of);
    return found;
}

bool fb_options_read(fb_context *context, const fb_compiled_template *compiled,
                     const uint8_t *record, const fb_location *locations) {
    bool kept = fb_sampling_store(context, compiled, record, locations);
    if (context->exporters->names) kept |= read_names(context, compiled, record, locations);
    return kept;
}

/* The interface of a counter sample. */
typedef struct {
    uint32_t index;
    uint64_t speed; /* bits per second; 0: unknown */
    fb_bytes name;
} port;

/* Read the records of a counter sample, whose data source has this index. An index in the counters
   of the interface takes precedence: flow samples of pmacct have it too, but its data source is
   always 1. */
static port read_port(fb_xdr xdr, uint32_t count, uint32_t index) {
    port found = {index, 0, {NULL, 0}};
    uint32_t format, length;
    fb_bytes body;
    for (; count && fb_xdr_read_item(&xdr, &format, &body); count--) {
        if (format == RECORD_IF_COUNTERS && body.size >= 16) {
            if (fb_load32(body.data)) found.index = fb_load32(body.data);
            found.speed = fb_load64(body.data + 8);
        }
        if (format != RECORD_PORT_NAME || body.size < 4) continue;
        length = fb_load32(body.data);
        if (length <= body.size - 4) found.name = (fb_bytes){body.data + 4, length};
    }
    return found;
}

void fb_options_read_counters(fb_context *context, fb_bytes sample, bool expanded) {
    fb_xdr xdr = {sample.data, sample.data + sample.size};
    uint32_t sequence, source, index = 0, count;
    if (!context->domain || !fb_xdr_read_word(&xdr, &sequence) ||
        !fb_xdr_read_word(&xdr, &source) || (expanded && !fb_xdr_read_word(&xdr, &index)) ||
        !fb_xdr_read_word(&xdr, &count))
        return;
    if (!expanded) index = source & 0xffffff;
    if (expanded ? source : source >> 24) return; /* not an interface */
    const port found = read_port(xdr, count, index);
    const fb_name_id id = {0, found.index};
    const unsigned kept = context->exporters->names;
    if (!found.index) return;
    if (found.speed && found.speed != UINT64_MAX && kept & 1u << FB_NAME_INTERFACE_SPEED)
        fb_domain_set_name(context->exporters, context->exporter, context->domain,
                           FB_NAME_INTERFACE_SPEED, id, (fb_bytes){NULL, 0}, found.speed);
    if (found.name.size && kept & 1u << FB_NAME_INTERFACE)
        fb_domain_set_name(context->exporters, context->exporter, context->domain,
                           FB_NAME_INTERFACE, id, found.name, 0);
}
