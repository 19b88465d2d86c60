"""The decoder: UDP payloads in, Protocol Buffers messages or Arrow columns out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowbuf import _core
from flowbuf.arrow.batch import FlowBatch, check_ip, new_table_type
from flowbuf.options import TIMES, DecodeKeywords, DecodeOptions, merge_options
from flowbuf.schema import Column, Schema
from flowbuf.schema.loader import RECORDS, ROWS
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.source import Source

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Decoder", "check_rows", "load_schemas"]

MAX_ROWS = 1 << 26  # rows per batch


def find_time_received(schema: Schema) -> Column | None:
    """Return the column with the time of reception, or None. Presets may give it another name."""
    if "time_received" in schema:
        return schema["time_received"]
    received = ((Source.parse("meta:time_received"),),)
    return next((column for column in schema if column.sources == received), None)


def find_flow_start(schema: Schema) -> Column:
    """Return the column with the start time of the flow.

    Raises:
        SchemaError: the schema has no such column.
    """
    for name in ("time_flow_start", "time_flow_start_ns"):
        if name in schema:
            return schema[name]
    problem = "time is 'flow-start', but the schema has no column time_flow_start"
    raise schema.error(None, problem, "add the column, or choose another time")


def check_rows(schema: Schema) -> None:
    """Raise SchemaError if the rows of the schema are records, which only a Codec can fill."""
    if schema.rows == RECORDS:
        fix = "read and write them with flowbuf.Codec"
        raise schema.error(None, "the schema describes objects, which decoders cannot fill", fix)


def load_schemas(schema: Schema | str, schemas: Iterable[Schema | str] | None = None) -> tuple[Schema, ...]:
    """Return the schemas of a decoder, in the order of their kinds of rows.

    Args:
        schema: The only schema, unless `schemas` is given.
        schemas: Several schemas.

    Raises:
        ValueError: `schemas` is empty, or two of them have the same kind of rows.
        SchemaError: a schema cannot be loaded, or its rows are records.
    """
    if isinstance(schema, DecodeOptions):
        raise TypeError("schema is a DecodeOptions; pass it by name: options=…")
    chosen = [schema] if schemas is None else list(schemas)
    if not chosen:
        raise ValueError("schemas is empty; pass at least one schema")
    loaded = [each if isinstance(each, Schema) else Schema.load(each) for each in chosen]
    by_rows: dict[str, Schema] = {}
    for each in loaded:
        check_rows(each)
        other = by_rows.setdefault(each.rows, each)
        if other is not each:
            raise ValueError(
                f"schemas {other.name} and {each.name} both describe rows of {each.rows}; pass one of them"
            )
    return tuple(by_rows[rows] for rows in _core.ROWS if rows in by_rows)


def _compile(schema: Schema, options: DecodeOptions, beside: bool) -> _core.Plan:
    """Return the plan of a schema. `beside`: its rows are decoded in addition to flows.

    Options that concern only flows do not apply to such rows.
    """
    time = TIMES[0] if beside and options.time == "flow-start" else options.time
    return compile_plan(
        choose_time(schema, time),
        default_sampling_rate=None if options.changes_rates else options.default_sampling_rate,
        scale=options.scale and not beside,
        rated=options.changes_rates and not beside,
    )


def check_rate(schema: Schema, options: DecodeOptions) -> None:
    """Raise SchemaError if flows are limited, and no column can hold their sampling rate."""
    if not options.rate_limit or schema.rows != ROWS[0] or schema.rate is not None:
        return
    disabled = " or ".join(column.name for column in schema if column.scale == "rate")
    fix = f"enable {disabled}" if disabled else 'set scale = "rate" on a column'
    raise schema.error(
        None, "a rate limit changes the sampling rate, and none is enabled", f"{fix}, or set no limit"
    )


def choose_time(schema: Schema, time: str) -> Schema:
    """Return the schema with `time_received` filled from the chosen time.

    If the chosen time is missing, the column falls back to the time of reception.

    Args:
        schema: Schema to change. One without a column for the time of reception is returned unchanged.
        time: "received" (reception), "export" (sent by the exporter) or "flow-start" (first packet of the
            flow).

    Raises:
        SchemaError: time is "flow-start", and the schema has no column for the start of a flow.
    """
    received = find_time_received(schema)
    if time == "received" or received is None:
        return schema
    if time == "export":
        first: tuple[tuple[Source, ...], ...] = ((Source.parse("meta:time_exported"),),)
    else:
        first = find_flow_start(schema).sources
    chosen = {source for equals in first for source in equals}
    rest = (tuple(source for source in equals if source not in chosen) for equals in received.sources)
    changed = replace(received, sources=(*first, *(equals for equals in rest if equals)))
    return replace(
        schema, columns=tuple(changed if column is received else column for column in schema.columns)
    )


class Decoder(_core.Decoder):
    """Decode sFlow v5, NetFlow v1, v5, v7, v9 and IPFIX (RFC 7011), and keep the state of exporters.

    The state consists of templates, sampling rates and counters, per exporter. Use a decoder in one thread at
    a time: a call during another thread's call raises RuntimeError. Reading `stats` is such a call too.

    Args:
        schema: Schema, name of a built-in schema, or path to a TOML file. A schema with rows = "counters"
            (`sflow_counters`) gives one message per sFlow counter sample or drop sample, and leaves out
            flows. Default: "flow".
        options: Options of decoding. Default: `DecodeOptions()`.
        schemas: Schemas of several kinds of rows instead of `schema`, at most one per kind. One pass then
            gives the rows of all kinds: see `encode_rows` and `column_rows`. `scale` and
            `time="flow-start"` apply to flows only.
        **keywords: Fields of `DecodeOptions` to replace, for example `scale=True`.

    Attributes:
        schema: Schema; with several, the first of `schemas`.
        schemas: All schemas: flows first, then counters, then options.

    Raises:
        SchemaError: a schema cannot be decoded into.
        ValueError: an option is out of range, or names an unknown time or tunnel. Two schemas have the same
            kind of rows.

    Eviction: When `memory_limit` or `exporter_limit` is reached, a new exporter replaces another one
    (`exporter_evicted`). Exporters without templates are replaced first, then exporters seen once, then the
    least recently used. The sFlow agents of one UDP source take at most 16,384 places and half of
    `exporter_limit` (`agent_evicted`). `stats` adds the counters of evicted exporters to "others".

    Tunnels: With `decapsulate`, the flow describes the inner packet only. The columns `tunnel_src_addr` and
    `tunnel_dst_addr` hold the outer endpoints, and `tunnel_id` holds the outermost VNI, GRE key or TEID. At
    most four nested tunnels are opened; deeper ones are counted (`tunnel_depth`). A packet outside these
    tunnels, or with an unreadable inner packet, is decoded unchanged (`not_encapsulated`).

    Early data: A data set that arrives before its template waits for it (`early_data`). The call that
    receives the template outputs the waiting flows, with the times and sequence numbers of their own
    datagrams. Each waiting set counts 192 bytes in addition to its size. When a limit is reached, the oldest
    set is dropped (`template_missing`). Call `finish` after the last datagram to count the sets that still
    wait.

    Templates: A template is identified by exporter address, protocol version, observation domain and template
    id. If two UDP source ports of one address keep redefining an id differently, each port of that domain
    gets its own templates (`port_in_key`).

    Example:
        decoder = flowbuf.Decoder("flow", time="flow-start")
        messages = decoder.encode(payload, ("192.0.2.1", 2055))
    """

    schema: Schema
    schemas: tuple[Schema, ...]

    def __new__(
        cls,
        schema: Schema | str = "flow",
        options: DecodeOptions | None = None,
        *,
        schemas: Iterable[Schema | str] | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Decoder:
        chosen = merge_options(options, keywords)
        loaded = load_schemas(schema, schemas)
        check_rate(loaded[0], chosen)
        flows = loaded[0].rows == "flows"
        plans = [_compile(each, chosen, flows and each is not loaded[0]) for each in loaded]
        self = super().__new__(cls, plans[0], chosen, *plans[1:])
        self.schema = loaded[0]
        self.schemas = loaded
        return self

    def __reduce__(self) -> Any:
        fix = "pickle its schema, such as decoder.schema, and create a decoder in each process"
        raise TypeError(f"a decoder cannot be copied or pickled; {fix}")

    def new_builder(self, rows: int, ip: str = "binary") -> _core.ColumnBuilder:
        """Return a builder of tables with at most `rows` rows, for all kinds of rows."""
        types = [
            new_table_type(schema, plan, ip) for schema, plan in zip(self.schemas, self.plans, strict=True)
        ]
        return _core.ColumnBuilder(self, *types[1:], types[0], rows)

    def as_batch(self, table: _core.Table) -> FlowBatch:
        """Return a table of a builder of this decoder as a batch of its schema."""
        return FlowBatch(self.schemas[self.plans.index(table.type.plan)], table)

    def encode_many(
        self,
        payloads: Sequence[Any],
        sources: Any,
        received: Any = None,
        *,
        override: dict[str, Any] | None = None,
    ) -> bytes:
        """Decode many UDP payloads into length-delimited messages, in one call that releases the GIL.

        Args:
            payloads: UDP payloads, as bytes or other buffers.
            sources: Addresses of the senders, one per payload, or one address for all: see `encode`.
            received: Times of reception, one per payload, or one time for all: see `encode`. Default: now.
            override: Values of late columns, by column name: see `encode`.

        Returns:
            bytes: the messages, each after its length as a varint.

        Raises:
            DecodeError: a payload is malformed, and the decoder is strict.
            ValueError: the numbers of payloads, sources and times differ.
        """
        return self.encode_datagrams(_core.pack_datagrams(payloads, sources, received), override=override)

    def encode_rows(
        self,
        payloads: Sequence[Any],
        sources: Any,
        received: Any = None,
        *,
        override: dict[str, Any] | None = None,
    ) -> dict[str, bytes]:
        """Decode many UDP payloads into length-delimited messages of each kind of rows, in one pass.

        Args:
            payloads: UDP payloads, as bytes or other buffers.
            sources: Addresses of the senders, one per payload, or one address for all: see `encode`.
            received: Times of reception, one per payload, or one time for all: see `encode`. Default: now.
            override: Values of late columns, by column name: see `encode`. They apply to each schema that has
                the column.

        Returns:
            dict[str, bytes]: kind of rows ("flows", "counters", …) -> messages, each after its length as a
            varint. It has one entry per schema.

        Raises:
            DecodeError: a payload is malformed, and the decoder is strict.
            ValueError: the numbers of payloads, sources and times differ.

        Example:
            decoder = flowbuf.Decoder(schemas=["flow", "sflow_counters"])
            rows = decoder.encode_rows([payload], "192.0.2.1")
            print(len(rows["flows"]), len(rows["counters"]))
        """
        views = self.view_rows(_core.pack_datagrams(payloads, sources, received), override=override)
        return {kind: bytes(view) for kind, view in views.items()}

    def columns(
        self,
        payload: Any,
        source: Any,
        received: Any = None,
        *,
        override: dict[str, Any] | None = None,
        ip: str = "binary",
    ) -> FlowBatch:
        """Decode one UDP payload into columns.

        Args:
            payload: UDP payload.
            source: Address of the sender: see `encode`.
            received: Time of reception: see `encode`. Default: now.
            override: Values of late columns, by column name: see `encode`.
            ip: Form of IP and MAC addresses: "binary" (default) or "text".

        Returns:
            FlowBatch: the flows of the payload.

        Raises:
            DecodeError: the payload is malformed, and the decoder is strict.
        """
        return self.columns_many([payload], source, received, override=override, ip=ip)

    def columns_many(
        self,
        payloads: Sequence[Any],
        sources: Any,
        received: Any = None,
        *,
        override: dict[str, Any] | None = None,
        ip: str = "binary",
    ) -> FlowBatch:
        """Decode many UDP payloads into columns, in one call that releases the GIL.

        Args:
            payloads: UDP payloads, as bytes or other buffers.
            sources: Addresses of the senders, one per payload, or one address for all: see `encode`.
            received: Times of reception, one per payload, or one time for all: see `encode`. Default: now.
            override: Values of late columns, by column name: see `encode`.
            ip: Form of IP and MAC addresses: "binary" (default) or "text".

        Returns:
            FlowBatch: the flows of all payloads.

        Raises:
            DecodeError: a payload is malformed, and the decoder is strict.
            ValueError: the flows do not fit into one batch, which holds at most 67,108,864 flows and 2 GB of
                strings.
        """
        if len(self.schemas) > 1:
            raise ValueError("this decoder has several schemas; use column_rows")
        return self.column_rows(payloads, sources, received, override=override, ip=ip)[self.schema.rows]

    def column_rows(
        self,
        payloads: Sequence[Any],
        sources: Any,
        received: Any = None,
        *,
        override: dict[str, Any] | None = None,
        ip: str = "binary",
    ) -> dict[str, FlowBatch]:
        """Decode many UDP payloads into columns of each kind of rows, in one pass.

        Args:
            payloads: UDP payloads, as bytes or other buffers.
            sources: Addresses of the senders, one per payload, or one address for all: see `encode`.
            received: Times of reception, one per payload, or one time for all: see `encode`. Default: now.
            override: Values of late columns, by column name: see `encode_rows`.
            ip: Form of IP and MAC addresses: "binary" (default) or "text".

        Returns:
            dict[str, FlowBatch]: kind of rows ("flows", "counters", …) -> rows of all payloads. It has one
            entry per schema.

        Raises:
            DecodeError: a payload is malformed, and the decoder is strict.
            ValueError: the rows of a kind do not fit into one batch: see `columns_many`.
        """
        check_ip(ip)
        builder = self.new_builder(MAX_ROWS, ip)
        full = builder.decode(_core.pack_datagrams(payloads, sources, received), override=override)
        if full:
            raise ValueError(
                f"{len(payloads)} payloads have more flows than a batch can hold; pass fewer payloads"
            )
        return {table.type.plan.rows: self.as_batch(table) for table in builder.finish_each()}

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """The counters of each exporter.

        A key is the address of an exporter as text, with `#sub-agent` appended for sFlow sub-agents other
        than 0. A value is a dict:

        - `datagrams`, `bytes`, `flows`, `options_records`: totals. `flows` also counts rows of other kinds.
        - `rows`: rows per kind ("flows", "counters", "options").
        - `templates`: templates received, including refreshes.
        - `counters`: number of occurrences per status name. `flowbuf.STATUSES` describes the statuses.
        - `waiting`: `sets` and `bytes` of the data that waits for templates now.
        - `lost`: number of units missing from the exporter's sequence numbers, per unit. NetFlow v5 and v7
          count "flows", v9 counts "packets", IPFIX "records", sFlow "datagrams" and "samples". Units that
          arrive late are subtracted again.
        """
        return {
            exporter["address"] + (f"#{exporter['sub_agent']}" if exporter["sub_agent"] else ""): {
                key: value
                for key, value in exporter.items()
                if key not in ("address", "sub_agent", "domains")
            }
            for exporter in self.read_exporters()
        }

    @property
    def counters(self) -> dict[str, int]:
        """The counters of all exporters together, including those of datagrams without an exporter."""
        counters: dict[str, int] = self.read_totals()["counters"]
        return counters
