# Datagrams in, messages out.

cdef class Datagrams:
    """Datagrams as the core takes them; keeps alive what their payloads point into."""

    cdef fb_datagram *items
    cdef size_t capacity
    cdef readonly size_t count
    cdef list owners
    cdef Capture capture  # whose views these are, until its next scan
    cdef uint64_t scan

    def __cinit__(self, size_t capacity):
        if capacity > (1 << 24):
            raise ValueError(f"a batch of {capacity} datagrams is too large")
        self.capacity = capacity
        self.owners = []
        self.items = <fb_datagram *> PyMem_Malloc(max(capacity, 1) * sizeof(fb_datagram))
        if not self.items:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.items)

    def __len__(self):
        return self.count

    cdef int check_current(self) except -1:
        if self.capture is not None and self.capture.scans != self.scan:
            raise RuntimeError("these datagrams are gone: a batch is valid until the capture's next one")
        return 0

    def __getitem__(self, size_t i):
        """(payload, (source address, source port), destination port, time in ns)."""
        self.check_current()
        if i >= self.count:
            raise IndexError(i)
        cdef fb_datagram *d = &self.items[i]
        payload = d.payload.data[:d.payload.size]
        return payload, (format_address(d.source), d.source_port), d.destination_port, d.time


TUNNELS = tuple(fb_tunnel_name(<fb_tunnel> i).decode() for i in range(FB_TUNNEL_COUNT))
"""Kinds of tunnel that a decoder may open."""


cdef class Decoder:
    """The state of all exporters, and the buffer that their flows are written to. One thread at a time."""

    cdef readonly Plan plan
    cdef fb_memory memory
    cdef fb_decoder *decoder
    cdef fb_row row
    cdef Buffer output
    cdef bint busy
    cdef public bint strict

    def __cinit__(self, Plan plan not None, *, bint strict=False, uint64_t default_sampling_rate=0,
                  size_t capacity=65536, size_t memory_limit=0, size_t exporter_limit=0, size_t early_data_limit=0,
                  size_t early_data_total=0, uint64_t template_expiry=0, bint obey_withdrawals=False,
                  decapsulate=()):
        cdef fb_decoder_options options
        if not plan.sealed:
            raise ValueError("the plan is not sealed yet")
        memset(&options, 0, sizeof(options))
        options.exporter_limit = exporter_limit
        options.default_sampling_rate = default_sampling_rate
        options.early_data_limit = early_data_limit
        options.early_data_total = early_data_total
        options.template_expiry = template_expiry
        options.obey_withdrawals = obey_withdrawals
        for name in decapsulate:
            options.decapsulate |= <unsigned> 1 << TUNNELS.index(name)
        options.hash_seed = int.from_bytes(os.urandom(8), "little")
        self.plan = plan
        self.strict = strict
        self.memory = fb_memory_system(memory_limit)
        self.output = Buffer(capacity)
        check(fb_row_new(&self.row, plan.plan, &self.memory))
        check(fb_decoder_new(&self.decoder, plan.plan, options, &self.memory))

    def __dealloc__(self):
        fb_decoder_free(self.decoder)
        fb_row_free(&self.row)

    cdef int claim(self) except -1:
        """The decoder for one call; given back by setting `busy` to False."""
        if self.busy:
            raise RuntimeError("this decoder is at work in another thread: give each thread a decoder of its own")
        self.busy = True
        return 0

    cdef int begin(self, dict override) except -1:
        """Claims the decoder for decoding."""
        self.claim()
        memset(&self.decoder.fault, 0, sizeof(fb_fault))
        fb_row_set_output(&self.row, self.output.data, self.output.capacity, 0)
        if override:
            try:
                for name, value in override.items():
                    _override_decoder(self, name, value)
            except BaseException:
                self.end(override)
                raise
        return 0

    cdef void end(self, dict override) noexcept:
        if override:
            fb_slots_clear_overrides(&self.row.slots)
        self.busy = False

    cdef int run(self, const fb_datagram *datagrams, size_t count) except -1:
        """Decodes all of them into the output; the GIL is released once for a batch, and kept for a single datagram."""
        cdef fb_position position
        cdef fb_status status
        memset(&position, 0, sizeof(position))
        while True:
            if count == 1:
                status = fb_row_decode(self.decoder, datagrams, count, &position, &self.row)
            else:
                with nogil:
                    status = fb_row_decode(self.decoder, datagrams, count, &position, &self.row)
            if status == FB_OK:
                break
            self.output.grow(fb_row_size(&self.row), self.row.needed)
            fb_row_set_output(&self.row, self.output.data, self.output.capacity, fb_row_size(&self.row))
        if self.strict and self.decoder.fault.status != FB_OK:
            self.complain(count)
        return 0

    cdef int complain(self, size_t count) except -1:
        cdef fb_fault *fault = &self.decoder.fault
        cdef str exporter = format_address(fault.exporter)
        name = fb_status_name(fault.status).decode()
        which = f", datagram {fault.datagram}" if count > 1 else ""
        text = f"{exporter}{which}, octet {fault.offset}: {name}: {fb_status_text(fault.status).decode()}"
        raise DecodeError(text, status=name, offset=fault.offset, exporter=exporter)

    cdef bytes take(self):
        return PyBytes_FromStringAndSize(<char *> self.output.data, fb_row_size(&self.row))

    cdef object decode_one(self, object payload, object source, object received, dict override, bint split):
        """The output as it is, or split into bare messages."""
        cdef fb_datagram datagram
        cdef Py_buffer view
        fill_source(&datagram, source)
        datagram.time = to_nanoseconds(received)
        datagram.destination_port = 0
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            datagram.payload.data = <const uint8_t *> view.buf
            datagram.payload.size = view.len
            self.begin(override)
            try:
                self.run(&datagram, 1)
                return self.split() if split else self.take()
            finally:
                self.end(override)
        finally:
            PyBuffer_Release(&view)

    cdef list split(self):
        cdef fb_bytes rest, message
        cdef list messages = []
        rest.data = self.output.data
        rest.size = fb_row_size(&self.row)
        while fb_stream_next(&rest, &message) == FB_OK:
            messages.append(message.data[:message.size])
        return messages

    def encode(self, payload, source, received=None, *, dict override=None):
        """One UDP payload -> its flows as length-delimited messages (b"" where it has none)."""
        return self.decode_one(payload, source, received, override, False)

    def messages(self, payload, source, received=None, *, dict override=None):
        """One UDP payload -> list of bare messages, one a flow."""
        return self.decode_one(payload, source, received, override, True)

    def encode_datagrams(self, Datagrams datagrams not None, *, dict override=None):
        """All datagrams of a batch -> length-delimited messages."""
        datagrams.check_current()
        self.begin(override)
        try:
            self.run(datagrams.items, datagrams.count)
            return self.take()
        finally:
            self.end(override)

    @property
    def flows(self):
        """Flows decoded so far."""
        return self.row.count

    @property
    def memory_used(self):
        """Octets held by the core for exporters, templates and scratch."""
        return self.memory.used

    @property
    def shape_count(self):
        """Distinct templates compiled now: identical ones share their operations."""
        return self.decoder.shapes.count

    def read_other(self):
        """Counters of datagrams that belong to no exporter."""
        self.claim()
        try:
            return _read_counters(&self.decoder.other)
        finally:
            self.busy = False

    def read_exporters(self):
        """A list of dicts, one an exporter: address, sub_agent, counters, domains. The `version` of a domain is that of
        NetFlow or IPFIX, 0 for sFlow; its `id` is the source id or observation domain, in NetFlow v5 the engine (type <<
        8 | id), in sFlow the sub-agent."""
        cdef list exporters = []
        self.claim()
        try:
            for i in range(self.decoder.exporters.capacity):
                if fb_exporters_at(&self.decoder.exporters, i):
                    exporters.append(_read_exporter(fb_exporters_at(&self.decoder.exporters, i)))
            if self.decoder.exporters.overflow.counters.datagrams:
                exporters.append({**_read_exporter(&self.decoder.exporters.overflow), "address": "others"})
            return exporters
        finally:
            self.busy = False


cdef int _override_decoder(Decoder decoder, str name, object value) except -1:
    return override(&decoder.row.slots, decoder.plan, name, value)


cdef dict _read_counters(const fb_counters *counters):
    return {
        "datagrams": counters.datagrams,
        "octets": counters.octets,
        "flows": counters.flows,
        "options_records": counters.options_records,
        "templates": counters.templates,
        "counters": read_statuses(counters.status),
    }


cdef dict _read_exporter(fb_exporter *exporter):
    return {
        "address": format_address(exporter.address),
        "sub_agent": exporter.sub_agent,
        **_read_counters(&exporter.counters),
        "domains": [_read_domain(<fb_domain *> exporter.domains.entries[i].pointer) for i in range(exporter.domains.count)],
    }


_UNITS = (None, "flows", "packets", "records", "datagrams", "samples")  # fb_sequence_unit


cdef dict _read_totals(const fb_sequence_totals *totals):
    return {
        "expected": totals.expected,
        "lost": totals.lost,
        "late": totals.late,
        "restarts": totals.restarts,
    }


cdef dict _read_sequence(const fb_domain *domain):
    """What the sequence numbers of a domain tell, in their unit; of an sFlow agent also those of its samples. `unit` is
    None where nothing was numbered."""
    cdef dict sequence = {"unit": _UNITS[domain.sequences.unit], **_read_totals(&domain.sequences.totals)}
    if domain.version == FB_DOMAIN_SFLOW:
        sequence["samples"] = _read_totals(&domain.samples.totals)
    return sequence


cdef dict _read_domain(fb_domain *domain):
    return {
        "version": domain.version,
        "id": domain.id,
        "sequence": _read_sequence(domain),
        "system_init": domain.system_init,
        "samplers": {domain.samplers.entries[i].key: domain.samplers.entries[i].number for i in range(domain.samplers.count)},
        "templates": {
            domain.templates.entries[i].key: _read_shape(<fb_shape *> domain.templates.entries[i].pointer)
            for i in range(domain.templates.count)
            if domain.templates.entries[i].pointer
        },
    }


cdef dict _read_shape(const fb_shape *shape):
    return {
        "options": bool(shape.options),
        "scope_count": shape.scope_count,
        "fields": [(shape.fields[i].pen, shape.fields[i].id, shape.fields[i].size) for i in range(shape.field_count)],
    }


def pack_datagrams(payloads, sources, received=None):
    """Datagrams from sequences of payloads, of sources (or one for all) and of times of reception (or one for all)."""
    cdef list items = list(payloads)
    cdef Datagrams batch = Datagrams(len(items))
    cdef fb_datagram *datagram
    cdef bytes payload
    one_source = isinstance(sources, (str, tuple)) and (isinstance(sources, str) or (len(sources) >= 2 and isinstance(sources[1], int)))
    one_time = received is None or isinstance(received, (int, float))
    if not one_source and len(sources) != len(items):
        raise ValueError(f"{len(items)} payloads, but {len(sources)} sources")
    if not one_time and len(received) != len(items):
        raise ValueError(f"{len(items)} payloads, but {len(received)} times")
    now = to_nanoseconds(received) if one_time else 0
    for i, item in enumerate(items):
        payload = item if type(item) is bytes else bytes(memoryview(item))
        batch.owners.append(payload)
        datagram = &batch.items[i]
        fill_source(datagram, sources if one_source else sources[i])
        datagram.destination_port = 0
        datagram.time = now if one_time else to_nanoseconds(received[i])
        datagram.payload.data = <const uint8_t *> PyBytes_AS_STRING(payload)
        datagram.payload.size = PyBytes_GET_SIZE(payload)
        batch.count += 1
    return batch
