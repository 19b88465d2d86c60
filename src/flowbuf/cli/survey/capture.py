"""Summarize a capture in one structure: the JSON of `flowbuf inspect --json`, also used by its tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flowbuf._core import Datagrams, MessageReader
from flowbuf.cli.output.progress import Show
from flowbuf.decoder import Decoder
from flowbuf.io.capture import CaptureReader
from flowbuf.io.encode import decode_batches
from flowbuf.io.message_stream import read_in_steps
from flowbuf.io.state_file import by_address
from flowbuf.schema import Schema, elements
from flowbuf.schema.plan import compile_plan
from flowbuf.targets.flow_text import format_address, format_time

__all__ = ["survey_capture"]

PROTOCOLS = {0: "sFlow v5", 5: "NetFlow v5", 7: "NetFlow v7", 9: "NetFlow v9", 10: "IPFIX"}
FLOW_TYPES = {
    "SFLOW_5": "sFlow v5",
    "IPFIX": "IPFIX",
    **{f"NETFLOW_V{n}": f"NetFlow v{n}" for n in (1, 5, 7, 9)},
}
# RFC 3954 section 6.1
NETFLOW9_SCOPES = {1: "System", 2: "Interface", 3: "LineCard", 4: "Cache", 5: "Template"}
VARIABLE = 0xFFFF  # RFC 7011 section 7; in NetFlow v9 too
LINK_TYPES = {
    **{0: "BSD loopback", 1: "Ethernet", 12: "raw IP", 14: "raw IP", 101: "raw IP", 108: "OpenBSD loopback"},
    **{113: "Linux cooked", 228: "raw IPv4", 229: "raw IPv6", 276: "Linux cooked v2"},
}

# Columns of a flow that describe its exporter.
ABOUT_EXPORTER = ("exporter_address", "sampling_rate", "flow_type", "sub_agent_id")

TIMES = ("time_flow_start", "time_flow_end")  # off by default; enabled to count times that cannot be computed


@dataclass
class _Seen:
    """Properties of an exporter, collected from its flows."""

    protocols: set[str] = field(default_factory=set)
    sampling_rates: set[int] = field(default_factory=set)


class _Watch:
    """Collect properties of datagrams and flows while a capture is read."""

    def __init__(self, schema: Schema) -> None:
        about = replace(schema, columns=tuple(schema[name] for name in ABOUT_EXPORTER))
        names = {number: name for name, number in schema["flow_type"].values.items()}
        self._protocols = {number: FLOW_TYPES.get(name, name) for number, name in names.items()}
        self._reader = MessageReader(compile_plan(about))
        self.ports: Counter[int] = Counter()
        self.first: int | None = None
        self.last: int | None = None
        self.exporters: dict[tuple[str, int], _Seen] = defaultdict(_Seen)

    def see_datagrams(self, batch: Datagrams) -> None:
        datagrams = [batch[i] for i in range(len(batch))]
        self.ports.update(port for _, _, port, _ in datagrams)
        times = [time for _, _, _, time in datagrams if time]  # simple packets of pcapng have none
        self.first = min(filter(None, [self.first, *times]), default=None)
        self.last = max(filter(None, [self.last, *times]), default=None)

    def see_messages(self, messages: memoryview) -> None:
        for flows in read_in_steps(self._reader, messages):
            for flow in flows:
                address = format_address(flow.get("exporter_address", b""))
                seen = self.exporters[address, flow.get("sub_agent_id", 0)]
                seen.protocols.add(self._protocols.get(flow.get("flow_type", 0), "unknown"))
                if "sampling_rate" in flow:
                    seen.sampling_rates.add(flow["sampling_rate"])


def survey_capture(
    reader: CaptureReader, show: Show, new_decoder: Callable[[Schema], Decoder] = Decoder
) -> dict[str, Any]:
    """Read a capture to its end and return its summary. Raise CaptureError if it is not a capture."""
    schema = Schema.load("flow").enable("sub_agent_id", *TIMES)
    decoder = new_decoder(schema)
    watch = _Watch(schema)
    for batch, messages in decode_batches(reader, decoder):
        watch.see_datagrams(batch)
        watch.see_messages(messages)
        show(reader.position, decoder.flows)
    decoder.finish()
    other = decoder.read_other()
    return {
        "capture": {
            "name": reader.name,
            "bytes": reader.position,
            "packets": reader.packets,
            "link_types": [LINK_TYPES.get(number, f"link type {number}") for number in reader.link_types],
            "datagrams": sum(watch.ports.values()),
            "first": None if watch.first is None else format_time(watch.first, digits=9),
            "last": None if watch.last is None else format_time(watch.last, digits=9),
            "ports": dict(watch.ports.most_common()),
            "counters": reader.counters,
        },
        "exporters": [
            _describe_exporter(each, watch) for each in sorted(decoder.read_exporters(), key=by_address)
        ],
        "other": {key: other[key] for key in ("datagrams", "bytes", "counters")},
    }


def _describe_exporter(exporter: dict[str, Any], watch: _Watch) -> dict[str, Any]:
    seen = watch.exporters[exporter["address"], exporter["sub_agent"]]
    domains = [_describe_domain(domain) for domain in exporter["domains"]]
    return {
        "address": exporter["address"],
        "sub_agent": exporter["sub_agent"],
        "protocols": sorted(seen.protocols | {domain["protocol"] for domain in domains}),
        **{key: exporter[key] for key in ("datagrams", "bytes", "flows", "options_records")},
        "templates_received": exporter["templates"],
        "sampling_rates": sorted(seen.sampling_rates),
        "counters": exporter["counters"],
        "domains": domains,
    }


def _describe_domain(domain: dict[str, Any]) -> dict[str, Any]:
    """Describe a domain. `port` is null unless the domain is separated by ports."""
    started = domain["system_init"]
    return {
        "protocol": PROTOCOLS.get(domain["version"], str(domain["version"])),
        "id": domain["id"],
        "port": domain["port"],
        "sequence": domain["sequence"],
        "system_init": format_time(started // 1_000_000) if started else None,
        "samplers": [{"id": id, "rate": rate} for id, rate in sorted(domain["samplers"].items())],
        "selection_sequences": [
            {"id": id, "selectors": ids} for id, ids in sorted(domain["selection_sequences"].items())
        ],
        "templates": [
            _describe_template(id, template, domain["version"])
            for id, template in sorted(domain["templates"].items())
        ],
    }


def _describe_template(id: int, template: dict[str, Any], version: int) -> dict[str, Any]:
    fields = [
        _describe_field(pen, element, size, scope=i < template["scope_count"], version=version)
        for i, (pen, element, size) in enumerate(template["fields"])
    ]
    sizes = [field["size"] for field in fields]
    return {
        "id": id,
        "kind": "options" if template["options"] else "data",
        "record_size": None if None in sizes else sum(sizes),
        "fields": fields,
    }


def _describe_field(pen: int, id: int, size: int, scope: bool, version: int) -> dict[str, Any]:
    """Describe a field.

    `name` is null if no registry has one. `size` is null if every record states its own.
    """
    known = elements.by_number(pen, id)
    name = known.name if known else None
    if scope and version == 9:  # scopes have their own number space
        name = NETFLOW9_SCOPES.get(id)
    return {"name": name, "pen": pen, "id": id, "size": None if size == VARIABLE else size, "scope": scope}
