"""The decoder: UDP payloads in, Protocol Buffers messages or Arrow columns out."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from flowbuf import _core
from flowbuf.arrow.batch import FlowBatch, check_ip, new_table_type
from flowbuf.schema import Column, Schema
from flowbuf.schema.loader import RECORDS
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.source import Source

__all__ = ["TIMES", "TUNNELS", "Decoder", "check_rows", "choose_tunnels"]

TIMES = ("received", "export", "flow-start")
"""Values of the option `time`, which chooses the source of the column `time_received`."""

TUNNELS = _core.TUNNELS
"""Tunnel types that a decoder can open."""

MAX_SIZE = 2**63 - 1
MAX_ROWS = 1 << 26  # rows per batch
MAX_EXPIRY = 10**9  # seconds; about three decades


def choose_tunnels(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the tunnel types with these names, in the order of TUNNELS; "all" selects every type.

    Raises:
        ValueError: a name is unknown.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in (*TUNNELS, "all"):
            raise ValueError(f"tunnel {name!r} is unknown; choose from {', '.join(TUNNELS)}, all")
    return TUNNELS if "all" in wanted else tuple(name for name in TUNNELS if name in wanted)


def check_range(name: str, value: float, lowest: float, highest: float, note: str = "") -> None:
    """Raise ValueError if value is outside lowest to highest, or NaN."""
    if not lowest <= value <= highest:
        raise ValueError(f"{name} is {value}; it may be {lowest:,} to {highest:,}{note}")


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
        raise schema.error(None, f"schema {schema.name} describes objects, which decoders cannot fill", fix)


def choose_time(schema: Schema, time: str) -> Schema:
    """Return the schema with `time_received` filled from the chosen time.

    If the chosen time is missing, the column falls back to the time of reception.

    Args:
        schema: Schema to change. One without a column for the time of reception is returned unchanged.
        time: "received" (reception), "export" (sent by the exporter) or "flow-start" (first packet of the
            flow).

    Raises:
        ValueError: time is none of these.
        SchemaError: time is "flow-start", and the schema has no column for the start of a flow.
    """
    if time not in TIMES:
        raise ValueError(f"time is {time!r}; it may be {', '.join(TIMES)}")
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
        time: Source of the column `time_received`: "received" (default), "export" or "flow-start". Without
            that time, the time of reception is used.
        default_sampling_rate: Value of `sampling_rate` for flows without a known rate. Default: the column
            stays absent.
        scale: Multiply columns with scale = "count" (bytes, packets) by the sampling rate of their flow,
            including an overridden rate. Totals of flows without a rate stay unscaled. A total too large for
            its column is absent and counted (`out_of_range`).
        strict: Raise DecodeError at the first datagram that is malformed or cannot be decoded, instead of
            counting it. Payloads that are not flow data (`other_packet`) raise too. Packets of a capture that
            are not flow data are only counted.
        capacity: Initial size of the output buffer, in bytes. The buffer grows as needed.
        memory_limit: Limit for the state of all exporters, in bytes. Default: 1 GiB. 0 means no limit. A
            template that cannot be stored is counted (`template_limit`); its own datagram is still decoded.
        exporter_limit: Largest number of exporters. 0 means 1,048,576.
        decapsulate: Tunnel types (`TUNNELS`, or "all") to open in sampled packets. Default: none.
        early_data_limit: Largest size of the data sets of one exporter that wait for their templates, in
            bytes. 0 means 4 MiB.
        early_data_total: The same limit for all exporters together, in bytes. 0 means 128 MiB. It never
            exceeds a quarter of `memory_limit`.
        template_expiry: Lifetime of a template that is not refreshed, in seconds (1e-9 to 1e9), by the times
            of reception. Data for an expired template waits. Default: None, no expiry.
        obey_withdrawals: Remove withdrawn templates. RFC 7011 section 8.4 forbids withdrawals over UDP, so by
            default they are only counted.

    Raises:
        SchemaError: the schema cannot be decoded into.
        ValueError: an argument is out of range, or names an unknown time or tunnel.

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

    def __new__(
        cls,
        schema: Schema | str = "flow",
        *,
        time: str = "received",
        default_sampling_rate: int | None = None,
        scale: bool = False,
        strict: bool = False,
        capacity: int = 65536,
        memory_limit: int = 1 << 30,
        exporter_limit: int = 0,
        decapsulate: str | Iterable[str] = (),
        early_data_limit: int = 0,
        early_data_total: int = 0,
        template_expiry: float | None = None,
        obey_withdrawals: bool = False,
    ) -> Decoder:
        for name, value in (
            *(("capacity", capacity), ("memory_limit", memory_limit), ("exporter_limit", exporter_limit)),
            *(("early_data_limit", early_data_limit), ("early_data_total", early_data_total)),
        ):
            check_range(name, operator.index(value), 0, MAX_SIZE)
        if default_sampling_rate is not None:
            check_range("default_sampling_rate", operator.index(default_sampling_rate), 1, 2**64 - 1)
        if template_expiry is not None:
            check_range("template_expiry", template_expiry, 1e-9, MAX_EXPIRY, " seconds, or None for never")
        loaded = schema if isinstance(schema, Schema) else Schema.load(schema)
        check_rows(loaded)
        timed = choose_time(loaded, time)
        plan = compile_plan(timed, default_sampling_rate=default_sampling_rate, scale=scale)
        self = super().__new__(
            cls,
            plan,
            strict=strict,
            default_sampling_rate=default_sampling_rate or 0,
            capacity=capacity,
            memory_limit=memory_limit,
            exporter_limit=exporter_limit,
            decapsulate=choose_tunnels(decapsulate),
            early_data_limit=early_data_limit,
            early_data_total=early_data_total,
            template_expiry=int((template_expiry or 0) * 1e9),
            obey_withdrawals=obey_withdrawals,
        )
        self.schema = loaded
        return self

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
        check_ip(ip)
        builder = _core.ColumnBuilder(self, new_table_type(self.schema, self.plan, ip), MAX_ROWS)
        full = builder.decode(_core.pack_datagrams(payloads, sources, received), override=override)
        if full:
            raise ValueError(
                f"{len(payloads)} payloads have more flows than a batch can hold; pass fewer payloads"
            )
        return FlowBatch(self.schema, builder.finish())

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """The counters of each exporter.

        A key is the address of an exporter as text, with `#sub-agent` appended for sFlow sub-agents other
        than 0. A value is a dict:

        - `datagrams`, `bytes`, `flows`, `options_records`: totals.
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
        total: Counter[str] = Counter()
        for part in (*self.read_exporters(), self.read_other()):
            total.update(part["counters"])
        return dict(total)
