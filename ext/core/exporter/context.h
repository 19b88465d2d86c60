/* State that the decoders of one datagram share: its exporter and domain, its times, and the
   counters of its faults. It owns nothing; all pointers must outlive the call that decodes. */
#ifndef FB_EXPORTER_CONTEXT_H
#define FB_EXPORTER_CONTEXT_H

#include "core/base/datagram.h"
#include "core/emit/deferred_values.h"
#include "core/exporter/exporter.h"

#define FB_MILLISECOND 1000000ull
#define FB_SECOND      1000000000ull

/* The first fault or loss of a call, for `strict`. */
typedef struct {
    fb_status status; /* FB_OK: none */
    size_t datagram;  /* index in the batch */
    size_t offset;    /* in the payload of the datagram */
    uint8_t exporter[16];
} fb_fault;

/* A kind of rows that a decoder writes. */
typedef struct {
    const fb_plan *plan; /* NULL: the decoder does not write rows of this kind */
    uint64_t *left_out;  /* per column: values that the column could not hold */
} fb_row_kind;

typedef struct {
    const fb_plan *plan; /* of the rows that are being written */
    fb_exporters *exporters;
    fb_exporter *exporter;
    fb_counters *counters;
    uint64_t *left_out; /* per column: values that the column could not hold; NULL: not counted */
    /* per datagram of the batch: set to 1 if it was not decoded completely, see fb_context_count;
       NULL: not wanted */
    uint8_t *undecoded;
    /* 16 bytes: the agent's address in sFlow, the UDP source otherwise */
    const uint8_t *exporter_address;
    fb_domain *domain; /* NULL while the domain is unknown */
    /* counts the records of an IPFIX message; NULL: they are not counted */
    fb_sequence_content *content;
    const fb_datagram *datagram;
    fb_fault *fault;
    size_t index; /* of the datagram in the batch */
    /* position in the datagram that is reported for all faults; NULL: the position of the fault */
    const uint8_t *place;
    uint64_t export_time; /* of the header, ns since 1970 */
    uint64_t uptime_time; /* the time of `uptime`, ns since 1970; usually export_time */
    uint32_t uptime;      /* of the exporter at uptime_time, ms modulo 2^32 */
    bool has_uptime;
    uint64_t sampler;               /* the last sampler that a record of the set named */
    uint64_t default_sampling_rate; /* 0: none */
    unsigned decapsulate;           /* bit for each kind of tunnel to open */
    unsigned unusual; /* not 0: tunnels are opened, or interfaces of sFlow samples have names */
    unsigned begun;   /* bit for each further kind of rows that has the datagram's constants */
    fb_rows full;     /* kind of rows whose output is full, after NO_SPACE */
    const fb_row_kind *kinds; /* FB_ROWS_COUNT kinds, by fb_rows */
    /* records take the slow path: tunnels are opened, the rate depends on the interface, or flows
       are skipped */
    bool slow;
    bool skips;                     /* flows of the datagram are skipped and counted */
    const fb_exporter_rates *rates; /* by ingress interface; NULL: the rate does not depend on it */
    fb_rate_change *rate_change;    /* of the rows that follow; NULL: rates stay */
} fb_context;

/* Store a fault if it is the first one. */
void fb_fault_set_first(fb_fault *fault, fb_status status, size_t datagram, size_t offset,
                        const uint8_t exporter[16]);

/* Count a status, and store it if it is the first fault or loss. A fault or loss marks the datagram
   as undecoded. So do a payload of no flow protocol, and a data set that waits for its template.
   `at` points into the datagram, or is NULL for its start. */
void fb_context_count(fb_context *context, fb_status status, const uint8_t *at);

/* Count the bytes from `p` on, which are after the end that the header of the datagram states. */
FB_NOINLINE void fb_context_count_excess(fb_context *context, const uint8_t *p);

/* Count a value that `column` cannot hold. */
FB_INLINE void fb_context_leave_out(fb_context *context, uint16_t column) {
    if (context->left_out) context->left_out[column]++;
}

/* Begin the next datagram: reset everything that belongs to the previous one. Some members are kept
   (exporter_address, counters, sampler, place): every decoder sets them itself, or they do not
   belong to one datagram. */
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
    context->begun = 0;
}

/* Set context->domain if it is NULL: find or create the domain. OK. EXPORTER_LIMIT, TEMPLATE_LIMIT:
   there is no room for it, and context->domain is NULL. Usually it is the domain that the exporter
   used last, so that one is checked first. */
fb_status fb_context_search_domain(fb_context *context, uint16_t version, uint32_t id);
FB_INLINE fb_status fb_context_need_domain(fb_context *context, uint16_t version, uint32_t id) {
    if (context->domain) return FB_OK;
    fb_domain *latest = context->exporter->latest;
    if (FB_UNLIKELY(!latest || latest->version != version || latest->id != id))
        return fb_context_search_domain(context, version, id);
    FB_PREFETCH(latest->templates); /* it was prefetched, unless the datagram came alone */
    FB_PREFETCH(latest->sequences.streams);
    latest->used = (uint32_t)context->counters->datagrams;
    context->domain = latest;
    return FB_OK;
}

/* Decode the rest of the datagram in the temporary domain, without other state. context->exporter
   becomes `overflow`; the counters are kept. Does nothing if memory is short. */
void fb_context_use_temporary(fb_context *context, uint16_t version, uint32_t id);
/* Resume a datagram that began in the temporary domain. REQUIRES: the temporary domain exists. */
void fb_context_resume_temporary(fb_context *context, uint16_t version, uint32_t id);

/* Slow path of fb_context_check_sequence, for numbers that may not be the next one. `domain` is the
   common one. */
void fb_context_classify_sequence(fb_context *context, fb_domain *domain, fb_sequence_unit unit,
                                  fb_sequence_mark mark);

/* Check the sequence number of the datagram in its domain, and count any problem. `sent` is that of
   fb_sequence_mark. REQUIRES: called once per datagram. */
FB_INLINE void fb_context_check_sequence(fb_context *context, fb_sequence_unit unit,
                                         uint32_t number, uint32_t sent,
                                         fb_sequence_content content) {
    fb_domain *domain = context->domain;
    if (FB_UNLIKELY(!domain)) return;
    /* the common domain separates the sequences of several ports */
    if (FB_UNLIKELY(domain->common)) domain = domain->common;
    /* An sFlow agent is identified by the address in the datagram, so its source port does not
       matter. */
    uint16_t port = unit == FB_SEQUENCE_DATAGRAMS ? 0 : context->datagram->source_port;
    const fb_sequence_mark mark = {number, sent, port, content};
    if (FB_UNLIKELY(!fb_sequences_continue(&domain->sequences, unit, &mark)))
        fb_context_classify_sequence(context, domain, unit, mark);
}

/* Count records of the current message. */
FB_INLINE void fb_context_count_records(fb_context *context, size_t records, bool options) {
    if (!context->content) return;
    context->content->units += (uint32_t)records;
    if (options) context->content->options += (uint32_t)records;
}

/* Mark that the message holds records that cannot be counted. */
FB_INLINE void fb_context_lose_count(fb_context *context) {
    if (context->content) context->content->incomplete = true;
}

/* Uptimes count modulo 2^32 ms (49.7 days). A flow that is ahead of the header's uptime by more
   than this was observed before a wrap. If it is ahead by less, the clocks of the exporter
   disagree, and the flow is later than the header. */
#define FB_UPTIME_TOLERANCE 3600000u /* ms */
#define FB_UPTIME_WRAP      (1ll << 32)

/* Set the uptime of the header and its time in ns since 1970, usually export_time. */
FB_INLINE void fb_context_set_uptime(fb_context *context, uint32_t uptime, uint64_t time) {
    context->uptime = uptime;
    context->uptime_time = time;
    context->has_uptime = true;
}

/* Compute the time `uptime` milliseconds (modulo 2^32) after the start of the exporter. Of all
   candidates, take the latest one that is at most the tolerance after the header's uptime. Return
   false if it is before 1970. REQUIRES: has_uptime. */
FB_INLINE bool fb_context_time(const fb_context *context, uint32_t uptime, uint64_t *time) {
    uint32_t ahead = uptime - context->uptime - FB_UPTIME_TOLERANCE - 1;
    int64_t since =
        (ahead + (int64_t)FB_UPTIME_TOLERANCE + 1 - FB_UPTIME_WRAP) * (int64_t)FB_MILLISECOND;
    *time = context->uptime_time + (uint64_t)since;
    return since >= 0 || context->uptime_time >= (uint64_t)-since;
}

/* Set the start of the exporter (ns since 1970), for IPFIX, whose header has no uptime. Nothing was
   observed before the start. An uptime has therefore not wrapped if the export time is within 49.7
   days after the start, or (clearly wrong) before it. */
FB_INLINE void fb_context_set_system_init(fb_context *context, uint64_t system_init) {
    uint64_t start = system_init / FB_MILLISECOND, time = context->export_time / FB_MILLISECOND;
    uint64_t first_wrap = start + (UINT32_MAX - FB_UPTIME_TOLERANCE);
    if (time < first_wrap) time = first_wrap;
    fb_context_set_uptime(context, (uint32_t)(time - start), time * FB_MILLISECOND);
}

#endif
