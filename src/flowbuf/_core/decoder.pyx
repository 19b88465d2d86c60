"""Datagrams in, messages out."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from flowbuf._core.base cimport Buffer, check, draw_seed, format_address, new_prefixes, parse_address
from flowbuf._core.core cimport *
from flowbuf._core.datagrams cimport Datagrams, exporter_of, fill_source, to_nanoseconds
from flowbuf._core.plan cimport Plan, is_late, override_deferred
from flowbuf._core.state cimport (
    as_list, check_exporter, list_exporters, read_counters, read_early_data, read_exporters, restore_exporter,
    sum_counters,
)

from flowbuf._core.base import PROCESSORS
from flowbuf.errors import DecodeError

TUNNELS = tuple(fb_tunnel_name(<fb_tunnel> i).decode() for i in range(FB_TUNNEL_COUNT))
"""Tunnel types that a decoder can open."""


cdef enum:
    # Forms of a result: of the only kind of rows, or a dict by kind.
    COPY
    MESSAGES
    VIEW
    COPIES
    VIEWS


@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class MessageOutput:
    def __cinit__(self, Plan plan not None, size_t capacity):
        self.plan = plan
        self.memory = fb_memory_system(0)
        self.buffer = Buffer(capacity)
        check(fb_row_new(&self.row, plan.plan, &self.memory))

    def __dealloc__(self):
        fb_row_free(&self.row)

    cdef int leave_views(self) except -1:
        """Continue in another buffer if this one has views.

        Two buffers suffice: one is filled while the other is written to a file.
        """
        if not self.buffer.views:
            return 0
        if self.spare is None or self.spare.views:
            self.spare = Buffer(self.buffer.content.end - self.buffer.content.begin)
        self.buffer, self.spare = self.spare, self.buffer
        return 0

    cdef bytes copy(self):
        return self.buffer.copy(&self.row)

    cdef object view(self):
        self.buffer.content.p = self.buffer.content.begin + fb_row_size(&self.row)
        self.buffer.writing = False
        return memoryview(self.buffer)

    cdef list split(self):
        cdef fb_bytes rest, message
        cdef list messages = []
        rest.data = self.buffer.content.begin
        rest.size = fb_row_size(&self.row)
        while fb_stream_next(&rest, &message) == FB_OK:
            messages.append(message.data[:message.size])
        return messages


@cython.no_gc_clear  # __dealloc__ needs the plans to free the objects made by them
cdef class Decoder:
    """The state of all exporters, and the output buffers of their rows. Use it in one thread at a time."""

    def __cinit__(self, Plan plan not None, options not None, *others):
        """Create a decoder.

        Args:
            plan: Plan of the first kind of rows, in the order of ROWS.
            options: A flowbuf.DecodeOptions.
            others: Plans of further kinds.
        """
        cdef fb_decoder_options chosen
        cdef MessageOutput output
        cdef Plan other
        plan.need_sealed()
        memset(&chosen, 0, sizeof(chosen))
        chosen.exporter_limit = options.exporter_limit
        chosen.default_sampling_rate = options.default_sampling_rate or 0
        chosen.early_data_limit = options.early_data_limit
        chosen.early_data_total = options.early_data_total
        chosen.template_expiry = int((options.template_expiry or 0) * 1e9)
        chosen.obey_withdrawals = options.obey_withdrawals
        chosen.rate_limit = options.rate_limit
        if options.processor is not None:
            number = FB_PROCESSOR_ANY + <int> PROCESSORS.index(options.processor)
            chosen.processor = <fb_processor> <int> number
        for name in options.decapsulate:
            chosen.decapsulate |= <unsigned> 1 << TUNNELS.index(name)
        chosen.hash_seed = draw_seed()
        self.plan = plan
        self.strict = options.strict
        self.memory = fb_memory_system(options.memory_limit)
        for other in others:
            other.need_sealed()
        self.outputs = tuple([MessageOutput(each, options.capacity) for each in (plan, *others)])
        self.output, self.others = self.outputs[0], self.outputs[1:]
        check(fb_decoder_new(&self.decoder, plan.plan, chosen, &self.memory))
        for output in self.others:
            check(fb_decoder_add_rows(self.decoder, output.plan.plan))
            self.output.row.others[<int> output.plan.plan.rows] = &output.row
        if options.sampling:
            networks, rules = options.pack_sampling()
            self.set_sampling(networks, rules)

    def __dealloc__(self):
        fb_decoder_free(self.decoder)

    cdef int set_sampling(self, list networks, list rules) except -1:
        """Configure sampling rates. The arguments are those of flowbuf.sampling.PackedRules."""
        cdef fb_sampling_rule *items = NULL
        cdef fb_prefix *prefixes = new_prefixes(networks)
        try:
            items = <fb_sampling_rule *> PyMem_Malloc(len(rules) * sizeof(fb_sampling_rule))
            if not items:
                raise MemoryError
            for i, (network, interface, rate, replaces) in enumerate(rules):
                items[i].network, items[i].interface = network, interface
                items[i].rate, items[i].replaces = rate, replaces
            check(fb_decoder_set_sampling(self.decoder, prefixes, len(networks), items, len(rules)))
        finally:
            PyMem_Free(items)
            PyMem_Free(prefixes)
        return 0

    cdef int claim(self) except -1:
        """Claim the decoder for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this decoder is in use by another thread; give each thread its own decoder")
        self.busy = True
        return 0

    cdef int begin(self, dict override, int form) except -1:
        """Claim the decoder, and prepare its outputs."""
        cdef MessageOutput output
        if self.others and form < COPIES:
            raise ValueError("this decoder has several schemas; use encode_rows or column_rows")
        self.claim()
        self.decoder.fault.status = FB_OK
        self.overridden = bool(override)
        if self.overridden or self.output.buffer.views or self.others:
            self.prepare(override)
        for output in self.outputs:
            output.buffer.give(&output.row, 0)
        return 0

    cdef int prepare(self, dict override) except -1:
        """Override columns, and leave buffers with views. Few calls need this.

        An exception releases the decoder.
        """
        cdef MessageOutput output
        try:
            for name, value in (override or {}).items():
                for output in self.choose_overridden(name):
                    override_deferred(&output.row.deferred, output.plan, name, value)
            for output in self.outputs:  # last, because converting a value may create a view
                output.leave_views()
        except BaseException:
            self.end()
            raise
        return 0

    cdef list choose_overridden(self, str name):
        """Return the outputs whose column is overridden. If none can be, the first reports the reason."""
        cdef MessageOutput output
        return [output for output in self.outputs if is_late(output.plan, name)] or [self.output]

    cdef void end(self) noexcept:
        cdef MessageOutput output
        for output in self.outputs:
            output.buffer.writing = False
            if self.overridden:
                fb_deferred_values_clear_overrides(&output.row.deferred)
        self.busy = False

    cdef int run(self, const fb_datagram *datagrams, size_t count) except -1:
        """Decode all datagrams into the output.

        The GIL is released for a batch, and kept for a single datagram.
        """
        cdef fb_position position
        cdef fb_status status
        cdef MessageOutput output
        cdef fb_row *row = &self.output.row
        memset(&position, 0, sizeof(position))
        while True:
            if count == 1:
                status = fb_row_decode(self.decoder, datagrams, count, &position, row)
            else:
                with nogil:
                    status = fb_row_decode(self.decoder, datagrams, count, &position, row)
            if status == FB_OK:
                break
            output = self.find_full()
            output.buffer.grow(&output.row, output.row.needed)
        return self.check_fault(count)

    cdef MessageOutput find_full(self):
        """Return the output that was full when decoding stopped."""
        cdef MessageOutput output
        for output in self.others:
            if output.plan.plan.rows == self.decoder.full:
                return output
        return self.output

    cdef int check_fault(self, size_t count) except -1:
        """Raise DecodeError for the fault of one of `count` datagrams, if the decoder is strict."""
        if self.strict and self.decoder.fault.status != FB_OK:
            which = f", datagram {self.decoder.fault.datagram}" if count > 1 else ""
            raise self.as_error(f"{which}, byte {self.decoder.fault.offset}")
        return 0

    cdef object as_error(self, str place):
        """Return the fault as an exception. `place` is None if the fault is in no datagram."""
        cdef fb_fault *fault = &self.decoder.fault
        cdef str exporter = format_address(fault.exporter)
        name = fb_status_name(fault.status).decode()
        text = f"{exporter}{place or ''}: {name}: {fb_status_text(fault.status).decode()}"
        return DecodeError(text, status=name, offset=None if place is None else fault.offset,
                           exporter=exporter)

    cdef object decode_one(self, object payload, object source, object received, dict override, int form):
        """Decode a datagram, and return its messages in a form."""
        cdef fb_datagram datagram
        cdef Py_buffer view
        fill_source(&datagram, source)
        datagram.time = to_nanoseconds(received)
        datagram.destination_port = 0
        if type(payload) is bytes:  # bytes need no buffer to acquire and release
            datagram.payload.data = <const uint8_t *> PyBytes_AS_STRING(payload)
            datagram.payload.size = PyBytes_GET_SIZE(payload)
            return self.decode_datagram(&datagram, override, form, True)
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            datagram.payload.data = <const uint8_t *> view.buf
            datagram.payload.size = view.len
            return self.decode_datagram(&datagram, override, form, True)
        finally:
            PyBuffer_Release(&view)

    cdef object decode_datagram(self, const fb_datagram *datagram, dict override, int form,
                                bint expect_flows):
        """Decode a datagram of the core.

        `expect_flows`: the payload comes from the user, not from a capture. It must be flow data if the
        decoder is strict.
        """
        self.begin(override, form)
        self.decoder.expect_flows = expect_flows
        try:
            self.run(datagram, 1)
            return self.result(form)
        finally:
            self.end()

    cdef object result(self, int form):
        """Return the messages of all outputs in a form."""
        cdef MessageOutput output
        if form == COPY:
            return self.output.copy()
        if form == MESSAGES:
            return self.output.split()
        if form == VIEW:
            return self.output.view()
        return {output.plan.rows: output.copy() if form == COPIES else output.view()
                for output in self.outputs}

    def encode(self, payload, source, received=None, *, dict override=None):
        """Decode one UDP payload into length-delimited messages.

        Args:
            payload: UDP payload, as bytes or another buffer.
            source: Address of the sender: text, or a tuple (address, port, …) as sockets return it. Without a
                port, the port is 0.
            received: Time of reception: nanoseconds since 1970 as int, or seconds since 1970 as float or
                another type of number. Default: now.
            override: Values of late columns (`late = true` in the schema), by column name. They replace the
                decoded values.

        Returns:
            bytes: the messages, each after its length as a varint; b"" if the payload has no flows.

        Raises:
            DecodeError: the payload is malformed, and the decoder is strict.
            EncodeError: an override does not fit its column.
            ValueError: the source is not an IP address, or an overridden column is disabled or not late.
            KeyError: an overridden column does not exist.
            TypeError: the source is neither text nor a tuple, or the time of reception is no number.
            OverflowError: the time of reception is before 1970 or after the year 2262.
            RuntimeError: another thread is using the decoder.
        """
        return self.decode_one(payload, source, received, override, COPY)

    def messages(self, payload, source, received=None, *, dict override=None):
        """Decode one UDP payload into a list of messages without lengths, one per flow.

        Arguments and exceptions are those of `encode`.
        """
        return self.decode_one(payload, source, received, override, MESSAGES)

    def encode_datagrams(self, Datagrams datagrams not None, *, dict override=None):
        """Decode all datagrams of a batch into length-delimited messages.

        Args:
            datagrams: Datagrams of a capture, or of `pack_datagrams`.
            override: Values of late columns, by column name: see `encode`.

        Raises:
            DecodeError: a datagram is malformed, and the decoder is strict.
        """
        datagrams.hold()
        try:
            return self.decode_held(datagrams, override, COPY)
        finally:
            datagrams.let_go()

    def view_datagrams(self, Datagrams datagrams not None, *, dict override=None):
        """Decode all datagrams of a batch into a memoryview of the decoder's buffer.

        Nothing is copied. The contents stay valid as long as the view exists. If the view is released before
        the next call (`view.release()`), the decoder reuses its buffer.
        """
        datagrams.hold()
        try:
            return self.decode_held(datagrams, override, VIEW)
        finally:
            datagrams.let_go()

    def view_rows(self, Datagrams datagrams not None, *, dict override=None):
        """Decode like `view_datagrams`, for several kinds of rows. Return a view per kind, by its name."""
        datagrams.hold()
        try:
            return self.decode_held(datagrams, override, VIEWS)
        finally:
            datagrams.let_go()

    cdef object decode_held(self, Datagrams datagrams, dict override, int form):
        """Decode held datagrams, and return their messages in a form."""
        self.begin(override, form)
        self.decoder.expect_flows = datagrams.capture is None
        try:
            self.run(datagrams.items, datagrams.count)
            return self.result(form)
        finally:
            self.end()

    def encode_each(self, Datagrams datagrams not None, *, dict override=None):
        """Decode all datagrams of a batch into messages per datagram.

        Returns a list of (exporter address as text, length-delimited messages). It has one item per datagram
        with flows. Flows that waited for a template are in the item of the datagram with that template. If a
        strict decoder raises DecodeError, the flows before the fault are lost.
        """
        return self.decode_each(datagrams, override, COPY)

    def encode_each_rows(self, Datagrams datagrams not None, *, dict override=None):
        """Decode like `encode_each`, for several kinds of rows. An item has a dict of messages by kind."""
        return self.decode_each(datagrams, override, COPIES)

    cdef list decode_each(self, Datagrams datagrams, dict override, int form):
        cdef list pieces = []
        cdef size_t i
        datagrams.hold()
        try:
            for i in range(datagrams.count):
                messages = self.decode_datagram(&datagrams.items[i], override, form,
                                                datagrams.capture is None)
                if any(messages.values()) if form == COPIES else messages:
                    pieces.append((exporter_of(&datagrams.items[i]), messages))
        finally:
            datagrams.let_go()
        return pieces

    def finish(self, bint handed_over=False):
        """End the input: drop the data sets that still wait for their templates.

        They are counted (`template_missing`). The decoder can be used again afterwards.

        Args:
            handed_over: Another decoder has restored the data sets of `read_early_data`. They are then
                counted as `early_data_handed_over`. Default: False.

        Raises:
            DecodeError: data sets were waiting, and the decoder is strict.
        """
        self.claim()
        try:
            self.decoder.fault.status = FB_OK
            if handed_over:
                fb_decoder_hand_over(self.decoder)
            fb_decoder_finish(self.decoder)
            if self.strict and self.decoder.fault.status != FB_OK:
                raise self.as_error(None)
        finally:
            self.busy = False

    @property
    def plans(self):
        """Plans of all kinds of rows."""
        cdef MessageOutput output
        return [output.plan for output in self.outputs]

    @property
    def flows(self):
        """Number of flows decoded so far, and of rows of other kinds."""
        return sum(self.rows.values())

    @property
    def rows(self):
        """Number of rows decoded so far, by their kind."""
        cdef MessageOutput output
        return {output.plan.rows: output.row.count + self.column_rows[<int> output.plan.plan.rows]
                for output in self.outputs}

    @property
    def memory_used(self):
        """Memory used by the core for exporters, templates and scratch space, in bytes."""
        return self.memory.used

    @property
    def compiled_template_count(self):
        """Number of distinct templates compiled now. Identical templates share one compiled form."""
        return self.decoder.compiled_templates.count

    def read_other(self):
        """Return the counters of datagrams that belong to no exporter."""
        self.claim()
        try:
            return read_counters(&self.decoder.other)
        finally:
            self.busy = False

    def read_totals(self):
        """Return the sums of the counters of all exporters and of datagrams without an exporter.

        The keys are those of `stats`: `datagrams`, `bytes`, `flows`, `options_records`, `templates`, and
        `counters` per status name.
        """
        self.claim()
        try:
            return sum_counters(&self.decoder.exporters, &self.decoder.other)
        finally:
            self.busy = False

    def list_exporters(self):
        """Return the totals of each exporter.

        Returns a list of (address, sFlow sub-agent, datagrams, bytes, flows, version, lost, rows,
        rate-limited flows). `version` is that of the latest datagram with flows: 0 for sFlow, 1, 5, 7, 9 or
        10; None before it. `lost` is the number of lost units by the unit of sequence numbers.
        `rows` has the rows by kind, and `flows` is their sum.

        The last item has the address "others". It stands for exporters that were evicted or had no room, and
        is missing if there are none. This is faster than `read_exporters`, which reads templates too.
        """
        self.claim()
        try:
            return list_exporters(&self.decoder.exporters)
        finally:
            self.busy = False

    def read_left_out(self):
        """Return the number of values that did not fit their columns, by column name.

        Columns of the same name in several schemas are summed.

        The numbers are the sums of `bad_field_size`, `bad_list` and `out_of_range` over all exporters.
        """
        cdef dict counts = {}
        cdef MessageOutput output
        cdef uint64_t *left_out
        self.claim()
        try:
            for output in self.outputs:
                left_out = self.decoder.kinds[<int> output.plan.plan.rows].left_out
                for i, name in enumerate(output.plan.column_names):
                    if left_out[i]:
                        counts[name] = counts.get(name, 0) + left_out[i]
            return counts
        finally:
            self.busy = False

    def read_exporters(self):
        """Return the state of each exporter as a dict of plain data.

        The dicts have the counters of `stats` and:

        - `address`: address as text, or "others" for exporters that were evicted or had no room.
        - `sub_agent`: sFlow sub-agent.
        - `session`: number of the Transport Session among those of the address, for IPFIX over TCP only.
        - `waiting`: {"sets", "bytes"} of data sets that wait for their templates. Each set counts 192 bytes
          in addition to its size.
        - `lost`: {unit: number missing}, by the sequence numbers of all domains.
        - `domains`: list of dicts, one per observation domain.

        A domain has:

        - `version`: 5, 7, 9 or 10; 0 for sFlow.
        - `id`: source id or observation domain. In NetFlow v5 it is the engine, type << 8 | id; in sFlow the
          sub-agent.
        - `sequence`: counters of the sequence numbers: `unit`, `expected`, `lost`, `late`, `restarts`.
        - `port`: UDP source port of a domain that is split by port, or None.
        - `system_init`: start time of the exporter in nanoseconds since 1970; 0 if unknown.
        - `samplers`: {id: sampling rate}. The rate is 0 if the sampler was described without one.
        - `selection_sequences`: {id: list of the selectors that a packet passes} (RFC 5476 section 6.5.1).
          The list is empty if there are more than 8.
        - `templates`: {id: template}.
        - `names`: {kind: {id: name}}, from options data and counter samples. An id is a hexadecimal number.
          The speed of an interface is a number of bits per second.

        A template has:

        - `options`: True for an options template.
        - `scope_count`: number of scope fields.
        - `fields`: list of (enterprise, id, size).
        - `port`: UDP source port that it came from.
        - `time`: last reception in nanoseconds since 1970; 0 if unknown.
        - `contested`: True if another port had defined it differently.
        """
        self.claim()
        try:
            return read_exporters(&self.decoder.exporters)
        finally:
            self.busy = False

    def read_early_data(self):
        """Return the data sets that wait for their templates, for another decoder.

        The result has a dict for each exporter with such sets: `address`, `sub_agent`, for IPFIX over TCP
        also `session`, and `early_data`: bytes that `restore_exporters` reads. The sets keep waiting here.
        When the other decoder has restored them, call `finish(handed_over=True)`.
        """
        self.claim()
        try:
            return read_early_data(&self.decoder.exporters)
        finally:
            self.busy = False

    def restore_exporters(self, exporters):
        """Restore templates, sampling rates, names and start times from `read_exporters` of another decoder.

        Call it before the first datagram. Counters are not restored. Keys of dicts may be text, as in JSON,
        and optional entries may be missing. The limits of this decoder apply. Entries that do not fit are
        counted in their exporter's counters (`exporter_limit`, `template_limit`, `empty_template`).

        Data sets from `read_early_data` are restored too, after the templates. Each is counted as
        `early_data_inherited`, and waits for its template. A set for which there is no room is also counted
        as `template_missing`.

        Args:
            exporters: List of dicts, as `read_exporters` or `read_early_data` returns it.

        Raises:
            ValueError: an entry is invalid. The text names the fault and its place; nothing is restored.
        """
        cdef list checked = [check_exporter(exporter, f"exporter {i}")
                             for i, exporter in enumerate(as_list(exporters, "exporters"))]
        self.claim()
        try:
            for address, agent, domains, early_data in checked:
                restore_exporter(&self.decoder.exporters, address, agent, domains, early_data)
        finally:
            self.busy = False

    def end_session(self, str address not None, uint32_t session):
        """Forget the templates and sampling rates of a Transport Session (RFC 7011 section 8).

        Its counters stay, and its number can be used again. Data sets that wait for a template are dropped
        and counted (`template_missing`).

        Args:
            address: Address of the peer.
            session: Number of the session: see `ColumnBuilder.decode_session`.

        Raises:
            ValueError: address is not an IP address.
        """
        cdef bytes content = parse_address(address)
        self.claim()
        try:
            fb_exporters_end_session(&self.decoder.exporters, <const uint8_t *> PyBytes_AS_STRING(content),
                                     session)
        finally:
            self.busy = False
