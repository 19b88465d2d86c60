/* NetFlow v9 (RFC 3954) and IPFIX (RFC 7011): a header, then sets.

     NetFlow v9, 20 bytes: 9, count, sysUptime, unix_secs, sequence, source id
     IPFIX,      16 bytes: 10, length, export time, sequence, observation domain id
     set:                  id (2), length with this header (2), templates or records, padding */
#ifndef FB_DECODE_IPFIX_TMPL_H
#define FB_DECODE_IPFIX_TMPL_H

#include "core/exporter/options.h"
#include "core/exporter/template_set.h"
#include "core/decode/datagram.tmpl.h"
#include "core/decode/record.tmpl.h"

typedef struct {
    const uint8_t *begin, *end; /* the sets */
    uint32_t sequence, domain;
    uint16_t version;
    bool cut; /* the header states more bytes than the payload has */
} fb_message;

FB_INLINE bool read_header_netflow9(fb_context *c, fb_bytes payload, fb_message *m) {
    const uint8_t *p = payload.data;
    if (payload.size < 20) return false;
    c->export_time = fb_load32(p + 8) * FB_SECOND;
    fb_context_set_uptime(c, fb_load32(p + 4), c->export_time);
    *m = (fb_message){p + 20, p + payload.size, fb_load32(p + 12), fb_load32(p + 16), 9, false};
    return true;
}

FB_INLINE bool read_header_ipfix(fb_context *c, fb_bytes payload, fb_message *m) {
    const uint8_t *p = payload.data;
    size_t length = payload.size < 16 ? 0 : fb_load16(p + 2);
    if (length < 16) return false;
    c->export_time = fb_load32(p + 4) * FB_SECOND;
    *m = (fb_message){p + 16, p + payload.size,     fb_load32(p + 8), fb_load32(p + 12),
                      10,     length > payload.size};
    if (length < payload.size) m->end = p + length;
    return true;
}

FB_NOINLINE static void put_constants_ipfix(fb_context *c, fb_emitter *emitter,
                                            const fb_message *m) {
    fb_cursor at;
    FB_EMIT(begin_constants)(emitter, &at);
    at = put_constants(c, emitter, at, m->version == 9 ? 3 : 4, m->sequence, m->domain);
    FB_EMIT(end_constants)(emitter, at);
}

/* Check the bytes behind the last record of a set. Padding is zero and shorter than any record (RFC
   7011 section 3.3.1). The caller accepts up to 3 bytes with any content. Other bytes are a
   truncated record, or the template does not fit. */
FB_NOINLINE static void check_padding(fb_context *c, const fb_compiled_template *compiled,
                                      const uint8_t *p, const uint8_t *end) {
    size_t left = (size_t)(end - p);
    if (left >= compiled->record_size || fb_is_zero(p, end)) return;
    fb_context_count(c, FB_TRUNCATED_RECORD, p);
    fb_context_lose_count(c);
}

FB_INLINE void check_rest(fb_context *c, const fb_compiled_template *compiled, const uint8_t *p,
                          const uint8_t *end) {
    if (FB_UNLIKELY(end - p >= 4)) check_padding(c, compiled, p, end);
}

FB_NOINLINE static void count_truncated_record(fb_context *c, const uint8_t *p) {
    fb_context_count(c, FB_TRUNCATED_RECORD, p);
    fb_context_lose_count(c);
}

/* Locate the fields of the record of variable length at p. Return its end, or NULL if it is cut
   short, which is counted. */
FB_INLINE const uint8_t *locate_variable(fb_context *c, const fb_compiled_template *compiled,
                                         const uint8_t *p, const uint8_t *end,
                                         fb_location *locations) {
    const uint8_t *next = fb_compiled_template_locate(compiled, p, end, locations);
    if (FB_UNLIKELY(!next)) count_truncated_record(c, p);
    return next;
}

/* Return the end of the record at p, whose fields are located; NULL if it is cut short. */
static const uint8_t *locate_record(fb_context *c, const fb_compiled_template *compiled,
                                    const uint8_t *p, const uint8_t *end) {
    if (!compiled->variable_count) return p + compiled->record_size;
    return locate_variable(c, compiled, p, end, c->exporters->compiled_templates->locations);
}

/* Emit a row from an options record. NO_SPACE. */
static fb_status put_options_row(fb_context *c, fb_emitter *emitter,
                                 const fb_compiled_template *compiled, size_t size,
                                 const uint8_t *record, const fb_location *locations) {
    fb_cursor at;
    if (!FB_EMIT(begin)(emitter, max_row_size(c, size), &at)) return FB_NO_SPACE;
    at = run_each(c, emitter, at, compiled, 0, compiled->op_count, record, locations);
    FB_EMIT(finish)(emitter, at);
    c->counters->rows[FB_ROWS_OPTIONS]++;
    return FB_OK;
}

/* Emit a row of options with its own plan, if flows or counters are rows, too. The constants of the
   message are put before its first row. */
static fb_status put_options_row_apart(fb_context *c, fb_emitter *emitter, const fb_message *m,
                                       const fb_compiled_template *compiled, size_t size,
                                       const uint8_t *record, const fb_location *locations) {
    const fb_row_kind *kind = &c->kinds[FB_ROWS_OPTIONS];
    const fb_plan *plan = c->plan;
    uint64_t *left_out = c->left_out;
    c->plan = kind->plan;
    c->left_out = kind->left_out;
    if (!(c->begun & 1u << FB_ROWS_OPTIONS)) put_constants_ipfix(c, emitter, m);
    c->begun |= 1u << FB_ROWS_OPTIONS;
    fb_status status = put_options_row(c, emitter, compiled, size, record, locations);
    if (status == FB_NO_SPACE) c->full = FB_ROWS_OPTIONS;
    count_refused(c, emitter);
    c->plan = plan;
    c->left_out = left_out;
    return status;
}

/* Read options records from *p on, and keep what they say. If options are wanted, each is a row.
   NO_SPACE: the record at *p was not read. */
static fb_status read_options(fb_context *c, fb_emitter *emitter, const fb_message *m,
                              const fb_compiled_template *compiled, const uint8_t **p,
                              const uint8_t *end) {
    fb_emitter *rows = emitter_of(c, emitter, FB_ROWS_OPTIONS);
    const fb_location *locations =
        compiled->variable_count ? c->exporters->compiled_templates->locations : NULL;
    for (const uint8_t *next; (size_t)(end - *p) >= compiled->record_size; *p = next) {
        fb_status status = FB_OK;
        if (!(next = locate_record(c, compiled, *p, end))) return FB_OK;
        size_t size = (size_t)(next - *p);
        if (rows && rows == emitter)
            status = put_options_row(c, rows, compiled, size, *p, locations);
        else if (rows) status = put_options_row_apart(c, rows, m, compiled, size, *p, locations);
        if (status != FB_OK) return status;
        c->counters->options_records++;
        fb_context_count_records(c, 1, true);
        if (!fb_options_read(c, compiled, *p, locations) && !rows)
            fb_context_count(c, FB_OPTIONS_IGNORED, *p);
    }
    check_rest(c, compiled, *p, end);
    return FB_OK;
}

/* Count the flows of a set where no rows are flows. */
FB_NOINLINE static fb_status leave_out_flows(fb_context *c, const fb_compiled_template *compiled,
                                             const uint8_t *p, const uint8_t *end) {
    fb_context_count(c, FB_FLOWS_LEFT_OUT, p);
    for (const uint8_t *next; (size_t)(end - p) >= compiled->record_size; p = next) {
        if (!(next = locate_record(c, compiled, p, end))) return FB_OK;
        fb_context_count_records(c, 1, false);
    }
    check_rest(c, compiled, p, end);
    return FB_OK;
}

/* Locate records from *p on that share the constants of a set, and move *p past them. Returns their
   number, at most `most`; 0 if the first one is cut short, which is counted. */
FB_INLINE size_t locate_records(fb_context *c, const fb_compiled_template *compiled,
                                const uint8_t **p, const uint8_t *end, fb_location *locations,
                                size_t most) {
    const uint8_t *first = *p, *next = locate_variable(c, compiled, first, end, locations);
    if (FB_UNLIKELY(!next)) return 0;
    const size_t stride = compiled->variable_count + 1u;
    const uint64_t sampler =
        most > 1 && compiled->sampler ? sampler_of(compiled, first, locations) : 0;
    size_t count = 1;
    for (*p = next; count < most && (size_t)(end - *p) >= compiled->record_size; count++) {
        fb_location *located = locations + count * stride;
        next = fb_compiled_template_locate(compiled, *p, end, located);
        if (!next || (compiled->sampler && sampler_of(compiled, *p, located) != sampler)) break;
        *p = next;
    }
    return count;
}

/* Emit located records, or the first one. Returns their number; 0: there is no room. */
FB_INLINE size_t put_located(fb_context *c, fb_emitter *emitter,
                             const fb_compiled_template *compiled, bool direct,
                             const fb_location *locations, size_t count, const uint8_t *end) {
    const uint8_t *record = locations->base,
                  *next = count > 1 ? locations[compiled->variable_count + 1u].base : end;
    size_t done, size = (size_t)(next - record);
    if (!direct) return put_record(c, emitter, compiled, size, record, locations) == FB_OK;
    if ((done = put_located_run(c, emitter, compiled, locations, count, end))) return done;
    return put_fast(c, emitter, compiled, max_row_size(c, size), record, locations);
}

static fb_status read_variable_records(fb_context *c, fb_emitter *emitter,
                                       const fb_compiled_template *compiled, const uint8_t **p,
                                       const uint8_t *end) {
    const fb_compiled_templates *compiled_templates = c->exporters->compiled_templates;
    fb_location *locations = compiled_templates->locations;
    const size_t stride = compiled->variable_count + 1u;
    bool direct = has_fast_path(c, emitter, compiled), begun = false;
    size_t most = direct ? most_located(emitter) : 1, done = 1;
    if (most > compiled_templates->location_capacity / stride)
        most = compiled_templates->location_capacity / stride;
    while ((size_t)(end - *p) >= compiled->record_size) {
        const uint8_t *next = *p;
        size_t count = locate_records(c, compiled, &next, end, locations, most);
        if (!count) break;
        if (begun && compiled->sampler &&
            FB_UNLIKELY(sampler_of(compiled, *p, locations) != c->sampler)) {
            FB_EMIT(end_set)(emitter);
            begun = false;
        }
        if (direct && !begun) begin_fast_set(c, emitter, compiled, *p, locations);
        begun = direct;
        done = put_located(c, emitter, compiled, direct, locations, count, next);
        if (!done) break;
        fb_context_count_records(c, done, false);
        *p = done == count ? next : locations[done * stride].base;
    }
    if (begun) FB_EMIT(end_set)(emitter);
    return done ? FB_OK : FB_NO_SPACE;
}

/* Read the records of a set. REQUIRES: position->record is the offset of the next record from
   `set`, or 0 at the start. */
static fb_status read_records(fb_context *c, fb_emitter *emitter, const fb_message *m,
                              const fb_compiled_template *compiled, const uint8_t *set,
                              const uint8_t *end, fb_position *position) {
    const uint8_t *p = set + 4;
    if (position->record) p = set + position->record;
    fb_status status;
    if (compiled->options) {
        status = read_options(c, emitter, m, compiled, &p, end);
        position->record = status == FB_OK ? 0 : (size_t)(p - set);
        return status;
    }
    if (FB_UNLIKELY(c->plan->rows != FB_ROWS_FLOWS)) return leave_out_flows(c, compiled, p, end);
    if (compiled->variable_count) {
        status = read_variable_records(c, emitter, compiled, &p, end);
    } else {
        size_t left = (size_t)(end - p), size = compiled->record_size;
        if (c->content && !position->record)
            fb_context_count_records(c, (uint32_t)left / (uint32_t)size, false);
        status =
            left < size ? FB_OK : put_fixed_records(c, emitter, compiled, &p, end - (size - 1));
    }
    position->record = status == FB_OK ? 0 : (size_t)(p - set);
    if (status == FB_OK) check_rest(c, compiled, p, end);
    return status;
}

/* Return the compiled template of a template, or NULL if it is unknown or expired. A template
   cannot expire if a reception time is unknown. */
static const fb_compiled_template *find_compiled(fb_context *c, uint16_t id, const uint8_t *set) {
    fb_template *template = find_template(c, id);
    uint64_t expiry = c->exporters->template_expiry, now = c->datagram->time;
    if (FB_UNLIKELY(expiry && template && template->time && now > template->time &&
                    now - template->time > expiry)) {
        fb_domain_forget_template(c->exporters, c->exporter, c->domain, id);
        fb_context_count(c, FB_TEMPLATE_EXPIRED, set);
        return NULL;
    }
    return template ? template->compiled : NULL;
}

static fb_status read_data_set(fb_context *c, fb_emitter *emitter, const fb_message *m,
                               const uint8_t *set, const uint8_t *end, fb_position *position) {
    const fb_compiled_template *compiled = find_compiled(c, fb_load16(set), set);
    if (FB_LIKELY(compiled != NULL))
        return read_records(c, emitter, m, compiled, set, end, position);
    fb_context_lose_count(c);
    if (fb_context_need_domain(c, m->version, m->domain) == FB_OK && !c->exporter->stateless)
        fb_pending_add(c, m->sequence, set, end);
    else fb_context_count(c, FB_TEMPLATE_MISSING, set);
    return FB_OK;
}

static fb_status read_set(fb_context *c, fb_emitter *emitter, const fb_message *m,
                          const uint8_t *set, const uint8_t *end, fb_position *position) {
    unsigned id = fb_load16(set), template_set = m->version == 9 ? 0 : 2;
    if (id >= 256) return read_data_set(c, emitter, m, set, end, position);
    if (id == template_set || id == template_set + 1)
        fb_template_set_read(c, m->version, m->domain, id != template_set, set + 4, end);
    else fb_context_count(c, FB_BAD_SET_ID, set);
    return FB_OK;
}

/* Find the domain and the place where the records of the message are counted. If domains are split
   by port, use the domain of this source port. A resumed message keeps its counts and creates no
   domain that failed before. */
static void open_message(fb_context *c, const fb_message *m, bool resumed) {
    if (FB_UNLIKELY(c->exporters->temporary)) fb_context_resume_temporary(c, m->version, m->domain);
    fb_context_need_domain(c, m->version, m->domain);
    if (!c->domain || c->exporter->stateless) return;
    if (m->version == 10) {
        c->content = &c->domain->sequences.pending;
        if (!resumed) *c->content = (fb_sequence_content){.incomplete = m->cut};
    }
    if (FB_LIKELY(!c->domain->split)) return;
    uint16_t port = c->datagram->source_port;
    c->domain = resumed ? fb_domain_find_of_port(c->exporter, c->domain, port)
                        : fb_domain_of_port(c->exporters, c->exporter, c->domain, port);
    c->domain->used = (uint32_t)c->counters->datagrams;
}

/* Check the sequence number at the end of a message. The clock of the header is the uptime, or in
   IPFIX the export time. */
static void check_sequence(fb_context *c, const fb_message *m) {
    if (m->version == 9)
        fb_context_check_sequence(c, FB_SEQUENCE_PACKETS, m->sequence, c->uptime,
                                  (fb_sequence_content){.units = 1});
    else if (c->content)
        fb_context_check_sequence(c, FB_SEQUENCE_RECORDS, m->sequence,
                                  (uint32_t)(c->export_time / FB_MILLISECOND), *c->content);
}

FB_INLINE void load_system_init(fb_context *c, const fb_message *m) {
    if (m->version != 10 || !c->domain) return;
    uint64_t system_init = fb_domain_find_system_init(c->domain);
    if (system_init) fb_context_set_system_init(c, system_init);
}

/* Read a set that waited for its template. It keeps the time, sequence number and port of its own
   datagram, and uses the state known now. */
static fb_status read_pending_set(fb_context *c, fb_emitter *emitter, const fb_message *m,
                                  fb_pending_set *set, const uint8_t *at) {
    fb_datagram datagram = *c->datagram;
    fb_context own = *c;
    fb_message sent = {
        .version = m->version, .domain = m->domain, .sequence = set->header.sequence};
    fb_position position = {.record = set->record};
    datagram.time = set->header.time;
    datagram.source_port = set->header.source_port;
    own.datagram = &datagram;
    own.domain = set->domain;
    own.export_time = set->header.export_time;
    own.has_uptime = false;
    if (m->version == 9) fb_context_set_uptime(&own, set->header.uptime, set->header.export_time);
    own.place = at;
    own.begun = 0;
    own.content = NULL; /* the records were counted with the message of the set */
    load_system_init(&own, m);
    if (!set->suspended) put_constants_ipfix(&own, emitter, &sent);
    const fb_template *template = fb_domain_find_template(set->domain, fb_load16(set->bytes));
    fb_status status = read_records(&own, emitter, &sent, template->compiled, set->bytes,
                                    set->bytes + set->size, &position);
    set->record = position.record & 0x7fffffff;
    set->suspended = status != FB_OK;
    c->full = own.full;
    return status;
}

/* Read the sets whose templates have now arrived, oldest first. Then restore the constants of the
   current datagram. `at` is the current place in its payload. */
static fb_status read_pending_sets(fb_context *c, fb_emitter *emitter, const fb_message *m,
                                   const uint8_t *at) {
    fb_pending_sets *pending = c->exporters->pending;
    for (fb_pending_set *set; (set = fb_pending_next(pending)); fb_pending_remove(pending, set))
        if (read_pending_set(c, emitter, m, set, at) != FB_OK) return FB_NO_SPACE;
    put_constants_ipfix(c, emitter, m);
    load_system_init(c, m);
    c->begun = 0;
    return FB_OK;
}

/* Count a set with an impossible length. `length` is 0 if the bytes are too few for a set header.
   Zeros up to the end of the message are padding, which Palo Alto and Cisco ACI send. Returns true
   if the rest of the message is to be read as a truncated set. */
FB_NOINLINE static bool count_bad_set(fb_context *c, const fb_message *m, const uint8_t *p,
                                      size_t length, const fb_position *position) {
    if (fb_is_zero(p, m->end)) {
        fb_context_count(c, FB_PADDING, p);
        return false;
    }
    if (!position->record) fb_context_count(c, FB_BAD_SET_LENGTH, p);
    fb_context_lose_count(c);
    return length >= 4;
}

/* Read the sets from `p` on. On NO_SPACE, position->set is the offset of the set to resume. */
static fb_status read_sets(fb_context *c, fb_emitter *emitter, const fb_message *m,
                           const uint8_t *p, fb_position *position) {
    const fb_pending_sets *pending = c->exporters->pending;
    for (const uint8_t *end;; p = end) {
        position->set = (size_t)(p - c->datagram->payload.data);
        if (FB_UNLIKELY(pending->due) && read_pending_sets(c, emitter, m, p) != FB_OK)
            return FB_NO_SPACE;
        size_t left = (size_t)(m->end - p), length = left < 4 ? 0 : fb_load16(p + 2);
        if (!left) return FB_OK;
        bool bad = length < 4 || length > left;
        if (FB_UNLIKELY(bad) && !count_bad_set(c, m, p, length, position)) return FB_OK;
        end = bad ? m->end : p + length;
        if (read_set(c, emitter, m, p, end, position) != FB_OK) return FB_NO_SPACE;
        /* needed if a resumed set was not read, because its template is gone */
        position->record = 0;
    }
}

/* Return true if the message is a single set without records: usually one of templates. */
FB_INLINE bool has_no_records(const fb_message *m) {
    size_t left = (size_t)(m->end - m->begin);
    return left >= 4 && fb_load16(m->begin) < 256 && fb_load16(m->begin + 2) == left;
}

static fb_status decode_ipfix(fb_context *c, fb_emitter *emitter, uint32_t version,
                              fb_position *position) {
    fb_message m;
    fb_bytes payload = c->datagram->payload;
    if (!(version == 9 ? read_header_netflow9(c, payload, &m)
                       : read_header_ipfix(c, payload, &m))) {
        fb_context_count(c, FB_TRUNCATED_HEADER, NULL);
        return FB_OK;
    }
    bool resumed = position->set != 0;
    open_message(c, &m, resumed);
    load_system_init(c, &m);
    if (!resumed) {
        if (m.cut) fb_context_count(c, FB_TRUNCATED_DATAGRAM, m.end);
        if (FB_UNLIKELY(m.end < payload.data + payload.size)) fb_context_count_excess(c, m.end);
        if (FB_UNLIKELY(c->exporters->pending->due)) fb_pending_return_all(c->exporters->pending);
        if (!has_no_records(&m)) put_constants_ipfix(c, emitter, &m);
    }
    fb_status status =
        read_sets(c, emitter, &m, resumed ? payload.data + position->set : m.begin, position);
    if (status == FB_OK) check_sequence(c, &m);
    return status;
}

#endif
