"""Datagrams in, messages out."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from flowbuf._core.base cimport check, format_address, parse_address
from flowbuf._core.buffer cimport Buffer
from flowbuf._core.core cimport *
from flowbuf._core.datagrams cimport Datagrams, exporter_of, fill_source, to_nanoseconds
from flowbuf._core.plan cimport Plan, override_deferred
from flowbuf._core.state cimport (
    as_list, check_exporter, list_exporters, read_counters, read_exporters, restore_exporter, sum_counters,
)

import os

from flowbuf.errors import DecodeError

TUNNELS = tuple(fb_tunnel_name(<fb_tunnel> i).decode() for i in range(FB_TUNNEL_COUNT))
"""Tunnel types that a decoder can open."""


@cython.no_gc_clear  # __dealloc__ needs the plan to free the objects made by it
cdef class Decoder:
    """The state of all exporters, and the output buffer of their flows. Use it in one thread at a time."""

    def __cinit__(self, Plan plan not None, options not None):
        """`options` is a flowbuf.DecodeOptions."""
        cdef fb_decoder_options chosen
        plan.need_sealed()
        memset(&chosen, 0, sizeof(chosen))
        chosen.exporter_limit = options.exporter_limit
        chosen.default_sampling_rate = options.default_sampling_rate or 0
        chosen.early_data_limit = options.early_data_limit
        chosen.early_data_total = options.early_data_total
        chosen.template_expiry = int((options.template_expiry or 0) * 1e9)
        chosen.obey_withdrawals = options.obey_withdrawals
        for name in options.decapsulate:
            chosen.decapsulate |= <unsigned> 1 << TUNNELS.index(name)
        chosen.hash_seed = int.from_bytes(os.urandom(8), "little")
        self.plan = plan
        self.strict = options.strict
        self.memory = fb_memory_system(options.memory_limit)
        self.output = Buffer(options.capacity)
        check(fb_row_new(&self.row, plan.plan, &self.memory))
        check(fb_decoder_new(&self.decoder, plan.plan, chosen, &self.memory))

    def __dealloc__(self):
        fb_decoder_free(self.decoder)
        fb_row_free(&self.row)

    cdef int claim(self) except -1:
        """Claim the decoder for one call. Setting `busy` to False releases it."""
        if self.busy:
            raise RuntimeError("this decoder is in use by another thread; give each thread its own decoder")
        self.busy = True
        return 0

    cdef int begin(self, dict override) except -1:
        """Claim the decoder, and prepare its output."""
        self.claim()
        self.decoder.fault.status = FB_OK
        if override or self.output.views:
            self.prepare(override)
        self.output.content.p = self.output.content.begin
        self.output.give(&self.row, 0)
        return 0

    cdef int prepare(self, dict override) except -1:
        """Override columns, and leave a buffer with views. Few calls need this.

        An exception releases the decoder.
        """
        try:
            if override:
                for name, value in override.items():
                    override_deferred(&self.row.deferred, self.plan, name, value)
            self.leave_views()  # last, because converting a value may create a view
        except BaseException:
            self.end(override)
            raise
        return 0

    cdef int leave_views(self) except -1:
        """Continue in another buffer if this one has views.

        Two buffers suffice: one is filled while the other is written to a file.
        """
        if not self.output.views:
            return 0
        if self.spare is None or self.spare.views:
            self.spare = Buffer(self.output.content.end - self.output.content.begin)
        self.output, self.spare = self.spare, self.output
        return 0

    cdef void end(self, dict override) noexcept:
        if override:
            fb_deferred_values_clear_overrides(&self.row.deferred)
        self.busy = False

    cdef int run(self, const fb_datagram *datagrams, size_t count) except -1:
        """Decode all datagrams into the output.

        The GIL is released for a batch, and kept for a single datagram.
        """
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
            self.output.grow(&self.row, self.row.needed)
        return self.check_fault(count)

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

    cdef object decode_one(self, object payload, object source, object received, dict override, bint split):
        """Decode a datagram. Return the length-delimited output, or with `split` a list of bare messages."""
        cdef fb_datagram datagram
        cdef Py_buffer view
        fill_source(&datagram, source)
        datagram.time = to_nanoseconds(received)
        datagram.destination_port = 0
        if type(payload) is bytes:  # bytes need no buffer to acquire and release
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

    cdef object decode_datagram(self, const fb_datagram *datagram, dict override, bint split,
                                       bint expect_flows):
        """Decode a datagram of the core.

        `expect_flows`: the payload comes from the user, not from a capture. It must be flow data if the
        decoder is strict.
        """
        self.begin(override)
        self.decoder.expect_flows = expect_flows
        try:
            self.run(datagram, 1)
            return self.split() if split else self.output.copy(&self.row)
        finally:
            self.end(override)

    cdef list split(self):
        cdef fb_bytes rest, message
        cdef list messages = []
        rest.data = self.output.content.begin
        rest.size = fb_row_size(&self.row)
        while fb_stream_next(&rest, &message) == FB_OK:
            messages.append(message.data[:message.size])
        return messages

    def encode(self, payload, source, received=None, *, dict override=None):
        """Decode one UDP payload into length-delimited messages.

        Args:
            payload: UDP payload, as bytes or another buffer.
            source: Address of the sender: text, or a tuple (address, port, …) as sockets return it. Without a
                port, the port is 0.
            received: Time of reception: seconds since 1970 as float, or nanoseconds since 1970 as int.
                Default: now.
            override: Values of late columns (`late = true` in the schema), by column name. They replace the
                decoded values.

        Returns:
            bytes: the messages, each after its length as a varint; b"" if the payload has no flows.

        Raises:
            DecodeError: the payload is malformed, and the decoder is strict.
            EncodeError: an override does not fit its column.
            ValueError: the source is not an IP address, or an overridden column is disabled or not late.
            KeyError: an overridden column does not exist.
            TypeError: the source is neither text nor a tuple.
            OverflowError: the time of reception is after the year 2262.
            RuntimeError: another thread is using the decoder.
        """
        return self.decode_one(payload, source, received, override, False)

    def messages(self, payload, source, received=None, *, dict override=None):
        """Decode one UDP payload into a list of messages without lengths, one per flow.

        Arguments and exceptions are those of `encode`.
        """
        return self.decode_one(payload, source, received, override, True)

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
            return self.encode_held(datagrams, override, False)
        finally:
            datagrams.let_go()

    def view_datagrams(self, Datagrams datagrams not None, *, dict override=None):
        """Decode all datagrams of a batch into a memoryview of the decoder's buffer.

        Nothing is copied. The contents stay valid as long as the view exists. If the view is released before
        the next call (`view.release()`), the decoder reuses its buffer.
        """
        datagrams.hold()
        try:
            return self.encode_held(datagrams, override, True)
        finally:
            datagrams.let_go()

    cdef object encode_held(self, Datagrams datagrams, dict override, bint view):
        """Decode held datagrams. Return the messages as bytes, or as a view of the output."""
        self.begin(override)
        self.decoder.expect_flows = datagrams.capture is None
        try:
            self.run(datagrams.items, datagrams.count)
            if not view:
                return self.output.copy(&self.row)
            self.output.content.p = self.output.content.begin + fb_row_size(&self.row)
            return memoryview(self.output)
        finally:
            self.end(override)

    def encode_each(self, Datagrams datagrams not None, *, dict override=None):
        """Decode all datagrams of a batch into messages per datagram.

        Returns a list of (exporter address as text, length-delimited messages). It has one item per datagram
        with flows. Flows that waited for a template are in the item of the datagram with that template. If a
        strict decoder raises DecodeError, the flows before the fault are lost.
        """
        cdef list pieces = []
        cdef size_t i
        datagrams.hold()
        try:
            for i in range(datagrams.count):
                messages = self.decode_datagram(&datagrams.items[i], override, False,
                                                datagrams.capture is None)
                if messages:
                    pieces.append((exporter_of(&datagrams.items[i]), messages))
        finally:
            datagrams.let_go()
        return pieces

    def finish(self):
        """End the input: drop the data sets that still wait for their templates.

        They are counted (`template_missing`). The decoder can be used again afterwards.

        Raises:
            DecodeError: data sets were waiting, and the decoder is strict.
        """
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
        """Number of flows decoded so far."""
        return self.row.count + self.column_flows

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
        """Return (address, sFlow sub-agent, datagrams, bytes, flows, version, lost) of each exporter.

        `version` is that of the latest datagram with flows: 0 for sFlow, 1, 5, 7, 9 or 10; None before it.
        `lost` is the number of lost units by the unit of sequence numbers. This is faster than
        `read_exporters`, which reads templates too.
        """
        self.claim()
        try:
            return list_exporters(&self.decoder.exporters)
        finally:
            self.busy = False

    def read_left_out(self):
        """Return the number of values that did not fit their columns, by column name.

        The numbers are the sums of `bad_field_size`, `bad_list` and `out_of_range` over all exporters.
        """
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
        - `samplers`: {id: sampling rate}.
        - `templates`: {id: template}.

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

    def restore_exporters(self, exporters):
        """Restore templates, sampling rates and start times from `read_exporters` of another decoder.

        Call it before the first datagram. Counters are not restored. Keys of dicts may be text, as in JSON,
        and optional entries may be missing. The limits of this decoder apply. Entries that do not fit are
        counted in their exporter's counters (`exporter_limit`, `template_limit`, `empty_template`).

        Args:
            exporters: List of dicts, as `read_exporters` returns it.

        Raises:
            ValueError: an entry is invalid. The text names the fault and its place; nothing is restored.
        """
        cdef list checked = [check_exporter(exporter, f"exporter {i}")
                             for i, exporter in enumerate(as_list(exporters, "exporters"))]
        self.claim()
        try:
            for address, agent, domains in checked:
                restore_exporter(&self.decoder.exporters, address, agent, domains)
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
