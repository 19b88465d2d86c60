"""Writes fields.md: every element and field that flowbuf reads, the column that it fills, and what Akvorado and GoFlow2
make of it.

flowbuf's side is schemas/flow.toml, that of the other two collectors.csv: one row a source, as a schema writes it, the
columns that a collector fills from it (several with spaces between them), and notes where it does so in its own way.

    python tools/make_fields.py           # or: make fields
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flowbuf import Schema
from flowbuf.schema import Column, Source

DOCS = Path(__file__).parents[1] / "docs"
FIELDS = DOCS / "fields.md"
COLLECTORS = DOCS / "collectors.csv"

# What `derived:` sources are made of.
ADDRESSES = "sourceIPv4Address destinationIPv4Address sourceIPv6Address destinationIPv6Address"
PORTS = "netflow5:prot netflow5:srcport netflow5:dstport"
SECTIONS = "mplsTopLabelStackSection " + " ".join(f"mplsLabelStackSection{n}" for n in range(2, 11))
SAMPLERS = "samplerId selectorId samplingInterval samplerRandomInterval samplingPacketInterval samplingPacketSpace"
ICMP = f"icmpTypeCodeIPv4 icmpTypeCodeIPv6 protocolIdentifier sourceTransportPort destinationTransportPort {PORTS}"
DERIVED = {
    "derived:sampling_rate": f"{SAMPLERS} samplingSize samplingPopulation samplingProbability",
    "derived:etype": f"{ADDRESSES} ipVersion ethernetType netflow5:srcaddr sflow:sampled_ip.src_ip",
    "derived:icmp_type": ICMP,
    "derived:icmp_code": ICMP,
    "derived:forwarding_status": "2636/137 sflow:flow_sample.output",
    "derived:ip_flags": "fragmentFlags",
    "derived:mpls_labels": SECTIONS,
}

# Elements that say of the reverse direction of a biflow what another says of the forward one.
REVERSE = {
    "ipfix:responderOctets": "ipfix:initiatorOctets",
    "ipfix:responderPackets": "ipfix:initiatorPackets",
}

# Elements that fill no column by themselves.
HELPERS = {
    "ipfix:systemInitTimeMilliseconds": "what flowStartSysUpTime and flowEndSysUpTime count from",
    "ipfix:ipHeaderPacketSection": "a sampled packet, see below",
    "ipfix:dataLinkFrameSection": "a sampled packet, see below",
}


@dataclass(frozen=True)
class Reading:
    """What a collector makes of a source: the columns that it fills, and what is to be said of that."""

    columns: tuple[str, ...]
    note: str

    def __str__(self) -> str:
        return join(", ".join(f"`{column}`" for column in self.columns), self.note) or "–"


@dataclass(frozen=True)
class Row:
    """A row of collectors.csv; `note` is about flowbuf."""

    akvorado: Reading
    goflow2: Reading
    note: str


NOBODY = Row(Reading((), ""), Reading((), ""), "")


def read_collectors() -> dict[str, Row]:
    """Source -> what the collectors make of it. Raises ValueError for a source that comes twice."""
    rows: dict[str, Row] = {}
    with COLLECTORS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["source"] in rows:
                raise ValueError(f"{line['source']} comes twice")
            akvorado, goflow2 = (
                Reading(tuple(line[name].split()), line[f"{name}_note"]) for name in ("akvorado", "goflow2")
            )
            rows[line["source"]] = Row(akvorado, goflow2, line["flowbuf_note"])
    return rows


def key(source: Source) -> str:
    """What a source is called in collectors.csv: elements by name, those of NetFlow v9 alone as all others."""
    if source.kind not in ("ipfix", "netflow9"):
        return source.text
    registered = source.element or Source.parse(f"ipfix:{source.id}").element if source.id <= 0x7FFF else None
    if registered and not source.pen:
        return f"ipfix:{registered.name}"
    return f"{source.kind}:{source.pen}/{source.id}" if source.pen else f"{source.kind}:{source.id}"


def made_of(text: str) -> list[str]:
    """A source, or what a derived one is made of."""
    parts = DERIVED.get(text, text).split()
    return [part if ":" in part else f"ipfix:{part}" for part in parts]


def keys_of(column: Column) -> Iterator[str]:
    """All that a column may be filled from, in the flow of either direction."""
    for source in (source for rank in column.sources for source in rank):
        parts = made_of(key(source))
        yield from parts
        yield from (name for name, forward in REVERSE.items() if forward in parts)


def filled_by(schema: Schema) -> dict[str, list[Column]]:
    """Source -> the columns that it fills, directly or by a derived source."""
    filled: dict[str, list[Column]] = {}
    for column in schema:
        for name in dict.fromkeys(keys_of(column)):
            filled.setdefault(name, []).append(column)
    return filled


# The page -----------------------------------------------------------------------------------------------------------

HEAD = """\
# Every field that flowbuf reads

What becomes of each information element and field in flowbuf's built-in schema (column, number, type), in Akvorado
2026.8 with all its columns, and in GoFlow2 2.2.6 without a mapping file. `flowbuf schema show --all` tells which source
wins where several have a value. Any other element becomes a column with
[a few lines of TOML](../README.md#the-schema).

Made by `make fields` from `schemas/flow.toml` and [collectors.csv](collectors.csv): change those, not this page.
"""

BIFLOWS = """\
Elements of the enterprise 29305 (RFC 5103) say the same of the reverse direction, in IPFIX alone; those of CERT (6871)
with the bit 0x4000 in their id do so for CERT's own. flowbuf and Akvorado
make a second flow of them: flowbuf where one of its counters is not zero, Akvorado where it has packets. GoFlow2 does
not read them.
"""

GROUPS = {
    "netflow5": (
        "NetFlow v1, v5 and v7",
        "All fields of the record and the header but padding. v1 has no AS numbers, masks and sequence number; v1 and "
        "v7 have no sampling and no engine; `router_sc` is v7's. Akvorado and GoFlow2 read v5 alone.",
    ),
    "sflow": ("sFlow v5", "`sampled_ip` are the records sampled_ipv4 and sampled_ipv6."),
    "packet": (
        "Packets",
        "From sFlow's sampled header (Ethernet, IPv4, IPv6 and MPLS; Akvorado does not read MPLS, GoFlow2 Ethernet "
        "alone), dataLinkFrameSection (315; GoFlow2 in IPFIX only) and ipHeaderPacketSection (313; flowbuf only).",
    ),
    "meta": ("Datagrams", "What goes for all flows of a datagram."),
}


def join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def column_text(column: Column) -> str:
    repeated = "repeated " if column.repeated else ""
    return f"`{column.name}` ({column.number}, {repeated}{column.type})"


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines] + [""]


def render() -> str:
    """The text of fields.md."""
    filled, collectors = filled_by(Schema.load("flow")), read_collectors()
    names = {*filled, *collectors, *HELPERS}

    def cells(name: str) -> list[object]:
        row = collectors.get(name, NOBODY)
        columns = ", ".join(map(column_text, filled.get(name, ())))
        return [join(columns, HELPERS.get(name, ""), row.note) or "–", row.akvorado, row.goflow2]

    def element_row(name: str) -> list[object]:
        source = Source.parse(name)
        if source.element:
            return [source.id, source.element.name, source.element.data_type, *cells(name)]
        return [name.partition(":")[2], "–", "NetFlow v9" if source.kind == "netflow9" else "enterprise", *cells(name)]

    elements = sorted((Source.parse(name) for name in names if name.startswith(("ipfix:", "netflow9:"))), key=by_id)
    collectors_headings = ["flowbuf", "Akvorado", "GoFlow2"]
    lines = [HEAD, "## Information elements of NetFlow v9 and IPFIX", "", BIFLOWS]
    lines += table(["id", "element", "type", *collectors_headings], (element_row(source.text) for source in elements))
    for kind, (title, text) in GROUPS.items():
        fields = [name for name in order_of(filled) if name.startswith(f"{kind}:")]
        fields += sorted(name for name in names if name.startswith(f"{kind}:") and name not in fields)
        lines += [f"## {title}", "", text, ""]
        lines += table(["field", *collectors_headings], ([f"`{name}`", *cells(name)] for name in fields))
    lines += ["## What flowbuf concludes", "", "Sources that follow from several fields.", ""]
    return "\n".join(lines + table(["source", "made of", "fills"], derived_rows()))


def by_id(source: Source) -> tuple[int, int]:
    return source.pen, source.id


def order_of(filled: dict[str, list[Column]]) -> list[str]:
    """Fields by the first column that they fill."""
    return sorted(filled, key=lambda name: min(column.number for column in filled[name]))


def derived_rows() -> Iterator[list[str]]:
    for name in DERIVED:
        columns = [column for column in Schema.load("flow") for rank in column.sources if name in map(str, rank)]
        parts = ", ".join(part.removeprefix("ipfix:") for part in made_of(name))
        yield [f"`{name}`", parts, ", ".join(map(column_text, columns))]


if __name__ == "__main__":
    FIELDS.write_text(render(), encoding="utf-8")
