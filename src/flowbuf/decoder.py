"""The decoder: UDP payloads in, Protocol Buffers messages out."""

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
"""What may fill `time_received`."""

TUNNELS = _core.TUNNELS
"""Kinds of tunnel that a decoder may open."""

MAX_SIZE = 2**63 - 1
MAX_ROWS = 1 << 26  # of a batch
MAX_EXPIRY = 10**9  # seconds: three decades


def choose_tunnels(names: str | Iterable[str]) -> tuple[str, ...]:
    """Kinds of tunnel by their names, one or many; "all" is all of them. Raises ValueError."""
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in (*TUNNELS, "all"):
            raise ValueError(f"there is no tunnel {name!r}: choose of {', '.join(TUNNELS)}, all")
    return TUNNELS if "all" in wanted else tuple(name for name in TUNNELS if name in wanted)


def check_range(name: str, value: float, lowest: float, highest: float, note: str = "") -> None:
    """Raises ValueError where a number is not between two others, as NaN never is."""
    if not lowest <= value <= highest:
        raise ValueError(f"{name} is {value}; it may be {lowest:,} to {highest:,}{note}")


def find_time_received(schema: Schema) -> Column | None:
    """The column that says when a datagram was received; a preset may call it otherwise."""
    if "time_received" in schema:
        return schema["time_received"]
    received = ((Source.parse("meta:time_received"),),)
    return next((column for column in schema if column.sources == received), None)


def find_flow_start(schema: Schema) -> Column:
    """The column that says when a flow began. Raises SchemaError where there is none."""
    for name in ("time_flow_start", "time_flow_start_ns"):
        if name in schema:
            return schema[name]
    problem = "time is 'flow-start', but the schema has no column time_flow_start to take it from"
    raise schema.error(None, problem, "add one, or choose another time")


def check_rows(schema: Schema) -> None:
    """Raises SchemaError where the rows of a schema are records, which nothing decodes datagrams into."""
    if schema.rows == RECORDS:
        fix = "flowbuf.Codec reads and writes them"
        raise schema.error(None, f"rows of {schema.name} are records, which no decoder fills", fix)


def choose_time(schema: Schema, time: str) -> Schema:
    """The schema with `time_received` filled by the time of reception, of export, or of the flow's start. Where the
    chosen one is missing, the time of reception stands in. Raises ValueError, SchemaError."""
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
    return replace(schema, columns=tuple(changed if column is received else column for column in schema.columns))


class Decoder(_core.Decoder):
    """Decodes sFlow v5, NetFlow v1, v5, v7, v9 and IPFIX, and keeps what it learns of exporters: templates, sampling
    rates, counters. It is not safe to use one in two threads at once (a call that tries raises RuntimeError): give each
    thread its own. Reading `stats` counts as use.

    `schema` says which columns a flow has; one whose rows are counters (`sflow_counters`) gives a message for each
    counter or drop sample of sFlow instead, and leaves flows out. `time` fills `time_received`: "received", "export" or
    "flow-start". `default_sampling_rate` fills `sampling_rate` where no rate is known. `scale` multiplies totals
    (columns with scale = "count": bytes, packets) by the rate that is in their flow, also where it is overridden;
    without a rate they stay as they were observed, and a total that its column cannot hold is absent and counted
    (`out_of_range`). `strict` raises DecodeError at the first datagram that is malformed or left undecoded, instead of
    counting it. It also raises for a payload that is not flow data (`other_packet`), if the payload was given to a
    method, such as `encode` or `columns_many`. Packets of a capture that are not flow data are only counted.

    `capacity` is the first size of the output buffer, in octets; it grows. `memory_limit` bounds the octets that the
    state of all exporters may take (1 GiB; 0 is no limit), `exporter_limit` their number (0 is 1,048,576). Where
    either is reached, a new exporter takes the place of another one (`exporter_evicted`): of one without templates,
    else of one seen once, else of the least recently used. The sFlow agents of one UDP source take no more than 16,384
    places and half of `exporter_limit` (`agent_evicted`). `stats` adds the counters of evicted exporters to "others".
    Templates that cannot be kept are counted (`template_limit`); their own datagram is still decoded.

    `decapsulate` names tunnels (`TUNNELS`, or "all") that are opened in sampled packets: the flow is then the inner
    packet alone, the outer endpoints are `tunnel_src_addr` and `tunnel_dst_addr`, the outermost VNI, GRE key or TEID is
    `tunnel_id`. Up to four tunnels inside each other are opened, more are counted (`tunnel_depth`). A packet in none of
    them, or whose inner packet cannot be read, stays as it is (`not_encapsulated`).

    Data sets that come before their template wait for it (`early_data`) and are decoded as soon as it has come, with
    the times and numbers of their own datagrams: their flows are in the output of the call that brings the template.
    They wait up to `early_data_limit` octets of one exporter (0 is 4 MiB) and `early_data_total` of all (0 is 128 MiB;
    never more than a quarter of `memory_limit`), each set counting 192 octets besides its own. Beyond that the oldest
    is given up (`template_missing`). Call `finish` when no more datagrams come, so that what still waits is counted.

    A template is known by exporter address, version, observation domain and id. Once two UDP source ports of one
    address keep redefining an id differently, each port of that domain has its own (`port_in_key`). `template_expiry`
    is the number of seconds, from a nanosecond on, after which a template that was not refreshed is not used any more,
    by the times of reception; its data waits (None: never). `obey_withdrawals` forgets templates that are withdrawn,
    which RFC 7011 forbids over UDP; else withdrawals are counted.

    Raises SchemaError for a schema that cannot be decoded into, ValueError for a number or a name that cannot be.
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
        """Many UDP payloads -> their flows as length-delimited messages, in one call that releases the GIL.

        `sources` and `received` are sequences as long as `payloads`, or one value for all: see `encode`.
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
        """One UDP payload -> its flows as columns: see `encode`. `ip`: IP and MAC addresses "binary" or as "text"."""
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
        """Many UDP payloads -> their flows as columns, in one call that releases the GIL: see `encode_many`. Raises
        ValueError where they are too many for one batch: more than 67,108,864, or strings of two gigabytes."""
        check_ip(ip)
        builder = _core.ColumnBuilder(self, new_table_type(self.schema, self.plan, ip), MAX_ROWS)
        full = builder.decode(_core.pack_datagrams(payloads, sources, received), override=override)
        if full:
            raise ValueError(f"{len(payloads)} payloads have more flows than a batch can hold: give fewer at once")
        return FlowBatch(self.schema, builder.finish())

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """Per exporter, by its address as text (`address#sub-agent` for sFlow agents that have several): the totals
        `datagrams`, `octets`, `flows`, `options_records`, `templates` (received, refreshes included), `counters`, the
        name of a status -> how often it was met (`flowbuf.STATUSES` explains them), and `waiting`, the `sets` and
        `octets` of data that wait for their templates now. `lost` is what never came, by the exporter's sequence
        numbers: unit -> number. NetFlow v5 and v7 count "flows", v9 "packets", IPFIX "records", sFlow "datagrams" and
        "samples"; what comes late is taken off again."""
        return {
            exporter["address"] + (f"#{exporter['sub_agent']}" if exporter["sub_agent"] else ""): {
                key: value for key, value in exporter.items() if key not in ("address", "sub_agent", "domains")
            }
            for exporter in self.read_exporters()
        }

    @property
    def counters(self) -> dict[str, int]:
        """The counters of all exporters together, and of datagrams that belong to none."""
        total: Counter[str] = Counter()
        for part in (*self.read_exporters(), self.read_other()):
            total.update(part["counters"])
        return dict(total)
