/* What the decoders of one datagram share: whose it is, when it was sent, and where faults are counted. */
#ifndef FB_CONTEXT_H
#define FB_CONTEXT_H

#include "core/base/datagram.h"
#include "core/exporter/exporter.h"

#define FB_MILLISECOND 1000000ull
#define FB_SECOND 1000000000ull

/* The first fault or loss of a call, for `strict`. */
typedef struct {
    fb_status status; /* FB_OK: none */
    size_t datagram;  /* index in the batch */
    size_t offset;    /* in its payload */
    uint8_t exporter[16];
} fb_fault;

typedef struct {
    const fb_plan *plan;
    fb_exporters *exporters;
    fb_exporter *exporter;
    fb_counters *counters;
    uint64_t *left_out; /* of each column: values that it could not hold. NULL: they are not counted */
    const uint8_t *exporter_address; /* 16 octets: the agent's in sFlow, the UDP source otherwise */
    fb_domain *domain; /* NULL while nothing is known of it */
    fb_sequence_content *content; /* where the records of an IPFIX message are counted; NULL: they are not */
    const fb_datagram *datagram;
    fb_fault *fault;
    size_t index;                   /* of the datagram in the batch */
    const uint8_t *place;           /* in the datagram, where faults are said to be, whatever they are in; NULL: there */
    uint64_t export_time;           /* of the header, ns since 1970 */
    uint64_t uptime_time;           /* the moment of `uptime`, ns since 1970: export_time as a rule */
    uint32_t uptime;                /* of the exporter at uptime_time, ms modulo 2^32 */
    bool has_uptime;
    uint64_t sampler;               /* the last one that a record of the set named */
    uint64_t default_sampling_rate; /* 0: none */
    unsigned decapsulate;           /* a bit for each kind of tunnel that is opened */
} fb_context;

/* Remembers a fault, if it is the first. */
void fb_fault_note(fb_fault *fault, fb_status status, size_t datagram, size_t offset, const uint8_t exporter[16]);

/* Counts; the first fault or loss is remembered. `at` points into the datagram, or is NULL for its beginning. */
void fb_context_count(fb_context *context, fb_status status, const uint8_t *at);

/* Counts a value that `column` cannot hold. */
FB_INLINE void fb_context_leave_out(fb_context *context, uint16_t column) {
    if (context->left_out) context->left_out[column]++;
}

/* The next datagram: nothing that was said of another one is left. What the decoders of all protocols set for themselves, or
   nobody sets in the context of a datagram (exporter_address, counters, sampler, place), stays. */
FB_INLINE void fb_context_begin(fb_context *context, const fb_datagram *datagram, size_t index) {
    context->datagram = datagram;
    context->index = index;
    context->exporter = NULL;
    context->domain = NULL;
    context->content = NULL;
    context->export_time = 0;
    context->uptime_time = 0;
    context->uptime = 0;
    context->has_uptime = false;
}

/* context->domain, found or made where it is not known yet. EXPORTER_LIMIT, TEMPLATE_LIMIT: there is no room; it is NULL.
   As a rule it is the one that the exporter used before. */
fb_status fb_context_search_domain(fb_context *context, uint16_t version, uint32_t id);
FB_INLINE fb_status fb_context_need_domain(fb_context *context, uint16_t version, uint32_t id) {
    if (context->domain) return FB_OK;
    fb_domain *latest = context->exporter->latest;
    if (FB_UNLIKELY(!latest || latest->version != version || latest->id != id))
        return fb_context_search_domain(context, version, id);
    FB_PREFETCH(latest->templates); /* it was fetched, unless the datagram came alone */
    FB_PREFETCH(latest->sequences.streams);
    latest->used = (uint32_t)context->counters->datagrams;
    context->domain = latest;
    return FB_OK;
}

/* Decodes the rest of the datagram in the temporary domain, without other state: context->exporter becomes `overflow`. The
   counters stay. Nothing is done where there is no memory. */
void fb_context_use_temporary(fb_context *context, uint16_t version, uint32_t id);
/* The same for a datagram that was begun in the temporary domain. REQUIRES: there is a temporary domain. */
void fb_context_resume_temporary(fb_context *context, uint16_t version, uint32_t id);

/* The way less taken of fb_context_check_sequence: the number may not be the next one. `domain` is the common one. */
void fb_context_judge_sequence(fb_context *context, fb_domain *domain, fb_sequence_unit unit, fb_sequence_mark mark);

/* Checks the number of the datagram in its domain, and counts what is wrong with it. Once for each datagram. `sent` as in
   fb_sequence_mark. */
FB_INLINE void fb_context_check_sequence(fb_context *context, fb_sequence_unit unit, uint32_t number, uint32_t sent,
                                         fb_sequence_content content) {
    fb_domain *domain = context->domain;
    if (FB_UNLIKELY(!domain)) return;
    if (FB_UNLIKELY(domain->common)) domain = domain->common; /* numberings of several ports are told apart there */
    /* An sFlow agent is known by the address inside, whatever port its datagrams come from. */
    uint16_t port = unit == FB_SEQUENCE_DATAGRAMS ? 0 : context->datagram->source_port;
    const fb_sequence_mark mark = {number, sent, port, content};
    if (FB_UNLIKELY(!fb_sequences_go_on(&domain->sequences, unit, &mark)))
        fb_context_judge_sequence(context, domain, unit, mark);
}

/* Counts records of the message that is being decoded. */
FB_INLINE void fb_context_count_records(fb_context *context, size_t records, bool options) {
    if (!context->content) return;
    context->content->units += (uint32_t)records;
    if (options) context->content->options += (uint32_t)records;
}

/* The message holds records that cannot be counted. */
FB_INLINE void fb_context_lose_count(fb_context *context) {
    if (context->content) context->content->incomplete = true;
}

/* Uptimes are counted modulo 2^32 ms (49.7 days). A flow that is ahead of the header's uptime by more than this was observed
   before a wrap; by less, the clocks of the exporter disagree, and the flow is ahead of the header. */
#define FB_UPTIME_TOLERANCE 3600000u /* ms */
#define FB_UPTIME_WRAP (1ll << 32)

/* The header's uptime, and when it was (ns since 1970): export_time. */
FB_INLINE void fb_context_set_uptime(fb_context *context, uint32_t uptime, uint64_t time) {
    context->uptime = uptime;
    context->uptime_time = time;
    context->has_uptime = true;
}

/* The moment that lies `uptime` milliseconds (modulo 2^32) after the exporter's start: of all that fit, the last one that is
   not after that of the header's uptime, or is by less than the tolerance. False: before 1970. REQUIRES: has_uptime. */
FB_INLINE bool fb_context_time(const fb_context *context, uint32_t uptime, uint64_t *time) {
    uint32_t ahead = uptime - context->uptime - FB_UPTIME_TOLERANCE - 1;
    int64_t since = (ahead + (int64_t)FB_UPTIME_TOLERANCE + 1 - FB_UPTIME_WRAP) * (int64_t)FB_MILLISECOND;
    *time = context->uptime_time + (uint64_t)since;
    return since >= 0 || context->uptime_time >= (uint64_t)-since;
}

/* Takes the exporter's start (ns since 1970) for IPFIX, whose header has no uptime. Nothing was observed before the start: an
   uptime has not wrapped while the export time is within 49.7 days of it, or, obviously wrong, before it. */
FB_INLINE void fb_context_set_system_init(fb_context *context, uint64_t system_init) {
    uint64_t start = system_init / FB_MILLISECOND, time = context->export_time / FB_MILLISECOND;
    uint64_t first_wrap = start + (UINT32_MAX - FB_UPTIME_TOLERANCE);
    if (time < first_wrap) time = first_wrap;
    fb_context_set_uptime(context, (uint32_t)(time - start), time * FB_MILLISECOND);
}

#endif
