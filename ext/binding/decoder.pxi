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

    cdef int hold(self) except -1:
        """Keep the datagrams valid until `let_go`: the capture refuses to advance."""
        self.check_current()
        if self.capture is not None:
            self.capture.users += 1
        return 0

    cdef void let_go(self) noexcept:
        if self.capture is not None:
            self.capture.users -= 1

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


@cython.no_gc_clear  # the plan is needed until __dealloc__ has freed what was made by it
cdef class Decoder:
    """The state of all exporters, and the buffer that their flows are written to. One thread at a time."""

    cdef readonly Plan plan
    cdef fb_memory memory
    cdef fb_decoder *decoder
    cdef fb_row row
    cdef Buffer output
    cdef Buffer spare  # the output before this one, which somebody had a view of; None: there is none
    cdef uint64_t column_flows  # that became rows of columns
    cdef bint busy
    cdef public bint strict

    def __cinit__(self, Plan plan not None, *, bint strict=False, uint64_t default_sampling_rate=0,
                  size_t capacity=65536, size_t memory_limit=0, size_t exporter_limit=0, size_t early_data_limit=0,
                  size_t early_data_total=0, uint64_t template_expiry=0, bint obey_withdrawals=False,
                  decapsulate=()):
        cdef fb_decoder_options options
        plan.need_sealed()
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

    cdef inline int claim(self) except -1:
        """The decoder for one call; given back by setting `busy` to False."""
        if self.busy:
            raise RuntimeError("this decoder is at work in another thread: give each thread a decoder of its own")
        self.busy = True
        return 0

    cdef inline int begin(self, dict override) except -1:
        """Claims the decoder for decoding."""
        self.claim()
        self.decoder.fault.status = FB_OK
        if override or self.output.views:
            self.prepare(override)
        self.output.size = 0
        fb_row_set_output(&self.row, self.output.data, self.output.capacity, 0)
        return 0

    cdef int prepare(self, dict override) except -1:
        """What few calls need: another buffer, overridden columns. The decoder is given back where that fails."""
        try:
            if override:
                for name, value in override.items():
                    _override_decoder(self, name, value)
            self.leave_views()  # last, because the conversion of a value may take a view
        except BaseException:
            self.end(override)
            raise
        return 0

    cdef int leave_views(self) except -1:
        """Goes on in another buffer where somebody has a view of this one. Two are enough for one that is written to a
        file while the next is filled."""
        if not self.output.views:
            return 0
        if self.spare is None or self.spare.views:
            self.spare = Buffer(self.output.capacity)
        self.output, self.spare = self.spare, self.output
        return 0

    cdef inline void end(self, dict override) noexcept:
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
        return self.check_fault(count)

    cdef inline int check_fault(self, size_t count) except -1:
        """Raises what is wrong with one of so many datagrams, if that is wanted."""
        if self.strict and self.decoder.fault.status != FB_OK:
            which = f", datagram {self.decoder.fault.datagram}" if count > 1 else ""
            raise self.as_error(f"{which}, octet {self.decoder.fault.offset}")
        return 0

    cdef object as_error(self, str place):
        """The fault as an exception; `place` is None where it is in no datagram."""
        cdef fb_fault *fault = &self.decoder.fault
        cdef str exporter = format_address(fault.exporter)
        name = fb_status_name(fault.status).decode()
        text = f"{exporter}{place or ''}: {name}: {fb_status_text(fault.status).decode()}"
        return DecodeError(text, status=name, offset=None if place is None else fault.offset, exporter=exporter)

    cdef inline bytes take(self):
        return PyBytes_FromStringAndSize(<char *> self.output.data, fb_row_size(&self.row))

    cdef object decode_one(self, object payload, object source, object received, dict override, bint split):
        """The output as it is, or split into bare messages."""
        cdef fb_datagram datagram
        cdef Py_buffer view
        fill_source(&datagram, source)
        datagram.time = to_nanoseconds(received)
        datagram.destination_port = 0
        if type(payload) is bytes:  # nothing to hold and to release
            datagram.payload.data = <const uint8_t *> PyBytes_AS_STRING(payload)
            datagram.payload.size = PyBytes_GET_SIZE(payload)
            return self.decode_datagram(&datagram, override, split, True)
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            datagram.payload.data = <const uint8_t *> view.buf
            datagram.payload.size = view.len
            return self.decode_datagram(&datagram, override, split, True)
        finally:
            PyBuffer_Release(&view)

    cdef inline object decode_datagram(self, const fb_datagram *datagram, dict override, bint split, bint expect_flows):
        """The same, once the datagram is known. `expect_flows`: it comes from the user, not from a capture."""
        self.begin(override)
        self.decoder.expect_flows = expect_flows
        try:
            self.run(datagram, 1)
            return self.split() if split else self.take()
        finally:
            self.end(override)

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
        datagrams.hold()
        try:
            return self.encode_held(datagrams, override, False)
        finally:
            datagrams.let_go()

    def view_datagrams(self, Datagrams datagrams not None, *, dict override=None):
        """The same as a memoryview of the decoder's own buffer: nothing is copied. It stays as it is for as long as it is
        held; released before the next call (`view.release()`), it lets the buffer be used again."""
        datagrams.hold()
        try:
            return self.encode_held(datagrams, override, True)
        finally:
            datagrams.let_go()

    cdef object encode_held(self, Datagrams datagrams, dict override, bint view):
        """The messages of datagrams that are held, as bytes or as a view of the output."""
        self.begin(override)
        self.decoder.expect_flows = datagrams.capture is None
        try:
            self.run(datagrams.items, datagrams.count)
            if not view:
                return self.take()
            self.output.size = fb_row_size(&self.row)
            return memoryview(self.output)
        finally:
            self.end(override)

    def encode_each(self, Datagrams datagrams not None, *, dict override=None):
        """All datagrams of a batch -> a list of (address of the exporter as text, length-delimited messages), one for each
        datagram that gave flows. With a template come the flows that waited for it. Where a strict decoder raises, what came
        before is lost."""
        cdef list pieces = []
        cdef size_t i
        datagrams.hold()
        try:
            for i in range(datagrams.count):
                messages = self.decode_datagram(&datagrams.items[i], override, False, datagrams.capture is None)
                if messages:
                    pieces.append((exporter_of(&datagrams.items[i]), messages))
        finally:
            datagrams.let_go()
        return pieces

    def finish(self):
        """Says that no more datagrams come: data sets that still wait for their templates are given up, and counted as
        `template_missing`. A strict decoder raises DecodeError if there are any. The decoder may be used again."""
        self.claim()
        try:
            self.decoder.fault.status = FB_OK
            fb_decoder_finish(self.decoder)
            if self.strict and self.decoder.fault.status != FB_OK:
                raise self.as_error(None)
        finally:
            self.busy = False

    @property
    def flows(self):
        """Flows decoded so far."""
        return self.row.count + self.column_flows

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

    def read_left_out(self):
        """Column -> values that it could not hold: `bad_field_size`, `bad_list` and `out_of_range` of all exporters."""
        cdef dict counts = {}
        self.claim()
        try:
            for i, name in enumerate(self.plan.column_names):
                if self.decoder.left_out[i]:
                    counts[name] = self.decoder.left_out[i]
            return counts
        finally:
            self.busy = False

    def read_exporters(self):
        """A list of dicts of plain data, one an exporter, of what is known of it:

        `address` as text ("others": exporters that were evicted, or had no room), `sub_agent` (of sFlow), the counters as in `stats`,
        `waiting` ({"sets", "octets"}: data sets that wait for their templates, each with 192 octets besides its own), `lost`
        ({unit: what is missing by the sequence numbers of all domains}), and
        `domains`, a list of dicts:

        `version` (5, 7, 9, 10; 0 for sFlow), `id` (source id or observation domain; in NetFlow v5 the engine, type << 8 | id;
        in sFlow the sub-agent), `sequence` (`unit`, `expected`, `lost`, `late`, `restarts`: what sequence numbers tell),
        `port` (None, or the UDP source port of a domain that is told apart by port), `system_init` (when the exporter started, ns since 1970; 0: unknown), `samplers` ({id: rate}) and `templates`
        ({id: {"options", "scope_count", "fields": [(enterprise, id, size), …], "port": where it came from, "time": when it
        came last, ns since 1970 (0: unknown), "contested": whether another port had defined it differently}}).
        """
        cdef dict exporters = {}
        self.claim()
        try:
            for i in range(self.decoder.exporters.capacity):
                if fb_exporters_at(&self.decoder.exporters, i):
                    add_exporter(exporters, fb_exporters_at(&self.decoder.exporters, i))
            others = read_others(&self.decoder.exporters)
            return [*exporters.values(), others] if others["datagrams"] or others["counters"] else [*exporters.values()]
        finally:
            self.busy = False

    def restore_exporters(self, exporters):
        """Takes over what `read_exporters` of another decoder has told, before the first datagram: templates, sampling rates
        and start times, but no counters. Keys of dicts may be text, as JSON makes them, and what is not needed may be missing.

        The limits of this decoder hold; what does not fit is counted (`exporter_limit`, `template_limit`, `empty_template`) in
        its exporter's counters. Raises ValueError, with what is wrong and where, and takes over nothing then.
        """
        cdef list checked = [check_exporter(exporter, f"exporter {i}") for i, exporter in enumerate(as_list(exporters, "exporters"))]
        self.claim()
        try:
            for address, sub_agent, domains in checked:
                restore_exporter(&self.decoder.exporters, address, sub_agent, domains)
        finally:
            self.busy = False


cdef bytes _exporter_octets = bytes(16)  # the latest, as datagrams come in runs
cdef str _exporter_text = "::"


cdef str exporter_of(const fb_datagram *datagram):
    """The address of who exported a datagram: of sFlow the agent's."""
    global _exporter_octets, _exporter_text
    cdef uint8_t address[16]
    fb_datagram_get_exporter(datagram, address)
    if memcmp(address, PyBytes_AS_STRING(_exporter_octets), 16):
        _exporter_octets, _exporter_text = address[:16], format_address(address)
    return _exporter_text


cdef int _override_decoder(Decoder decoder, str name, object value) except -1:
    return override_slots(&decoder.row.slots, decoder.plan, name, value)


cdef dict _read_counters(const fb_counters *counters):
    return {
        "datagrams": counters.datagrams,
        "octets": counters.octets,
        "flows": counters.flows,
        "options_records": counters.options_records,
        "templates": counters.templates,
        "counters": read_statuses(counters.status),
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
