"""Write docs/reference/fields.md: every field that flowbuf reads, with its columns in three collectors.

The columns of flowbuf come from schemas/flow.toml. Those of Akvorado and GoFlow2 come from
docs/reference/collectors.csv. Each row of that file has a source in the notation of a schema, the columns
that each collector fills from it (separated by spaces), and notes on differences.

    python tools/make_fields.py           # or: make fields
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flowbuf import Schema
from flowbuf.schema import Column, Source
from flowbuf.schema.derived import DERIVED, HELPERS

REFERENCE = Path(__file__).parents[1] / "docs/reference"
FIELDS = REFERENCE / "fields.md"
COLLECTORS = REFERENCE / "collectors.csv"

# Elements of the reverse direction of a biflow, with their counterparts of the forward direction.
REVERSE = {
    "ipfix:responderOctets": "ipfix:initiatorOctets",
    "ipfix:responderPackets": "ipfix:initiatorPackets",
}


@dataclass(frozen=True)
class Reading:
    """The columns that a collector fills from a source, with a note on differences."""

    columns: tuple[str, ...]
    note: str

    def __str__(self) -> str:
        return join(", ".join(f"`{column}`" for column in self.columns), self.note) or "–"


@dataclass(frozen=True)
class Row:
    """A row of collectors.csv. `note` applies to flowbuf."""

    akvorado: Reading
    goflow2: Reading
    note: str


NOBODY = Row(Reading((), ""), Reading((), ""), "")


def read_collectors() -> dict[str, Row]:
    """Read collectors.csv.

    Returns:
        The row of each source, by the name of the source.

    Raises:
        ValueError: a source occurs twice.
    """
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
    """Return the name of a source in collectors.csv.

    NetFlow v9 uses the same names for registered elements.
    """
    if source.kind not in ("ipfix", "netflow9"):
        return source.text
    registered = source.element or Source.parse(f"ipfix:{source.id}").element if source.id <= 0x7FFF else None
    if registered and not source.pen:
        return f"ipfix:{registered.name}"
    return f"{source.kind}:{source.pen}/{source.id}" if source.pen else f"{source.kind}:{source.id}"


def made_of(text: str) -> list[str]:
    """Return the inputs of a derived source, or the source itself."""
    parts = DERIVED.get(text, text).split()
    return [part if ":" in part else f"ipfix:{part}" for part in parts]


def keys_of(column: Column) -> Iterator[str]:
    """Yield all sources that can fill a column, in the forward or the reverse flow."""
    for source in (source for rank in column.sources for source in rank):
        parts = made_of(key(source))
        yield from parts
        yield from (name for name, forward in REVERSE.items() if forward in parts)


def filled_by(schema: Schema) -> dict[str, list[Column]]:
    """Return the columns that each source fills, directly or through a derived source."""
    filled: dict[str, list[Column]] = {}
    for column in schema:
        for name in dict.fromkeys(keys_of(column)):
            filled.setdefault(name, []).append(column)
    return filled


# The page ---------------------------------------------------------------------------------------------------

HEAD = """\
# Fields that flowbuf reads

This page lists each information element and protocol field, and the columns that it fills:

- in flowbuf's built-in schema (column, number, type);
- in Akvorado 2026.8 with all its columns;
- in GoFlow2 2.2.6 without a mapping file.

If several sources have a value, `flowbuf schema show --all | less` shows which one wins. Any other element
becomes a column with [a few lines of TOML](../how-to/custom-columns.md).

`make fields` writes this page from `schemas/flow.toml` and [collectors.csv](collectors.csv). Change those
files, not this page.
"""

BIFLOWS = """\
IPFIX elements of the enterprise 29305 (RFC 5103) describe the reverse direction of a biflow. CERT (6871)
marks its own reverse elements with the bit 0x4000 in their id. For these elements, flowbuf writes a reverse
flow if one of its counters is not zero. Akvorado writes one if it has packets. GoFlow2 does not read them.
"""

GROUPS = {
    "netflow5": (
        "NetFlow v1, v5 and v7",
        "All fields of the record and the header except padding. Akvorado and GoFlow2 read only v5.\n\n"
        "- v1 has no AS numbers, masks and sequence number.\n"
        "- v1 and v7 have no sampling and no engine.\n"
        "- Only v7 has `router_sc`.",
    ),
    "sflow": ("sFlow v5", "`sampled_ip` stands for the records sampled_ipv4 and sampled_ipv6."),
    "packet": (
        "Packets",
        "Sampled packets come from one sFlow record and two information elements:\n\n"
        "- sFlow's sampled header: Ethernet, IPv4, IPv6 and MPLS. Akvorado does not read MPLS.\n"
        "  GoFlow2 reads only Ethernet.\n"
        "- dataLinkFrameSection (315). GoFlow2 reads it in IPFIX only.\n"
        "- ipHeaderPacketSection (313). Only flowbuf reads it.",
    ),
    "meta": ("Datagrams", "Values that apply to all flows of a datagram."),
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
    """Return the text of fields.md."""
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
        return [
            name.partition(":")[2],
            "–",
            "NetFlow v9" if source.kind == "netflow9" else "enterprise",
            *cells(name),
        ]

    elements = sorted(
        (Source.parse(name) for name in names if name.startswith(("ipfix:", "netflow9:"))), key=by_id
    )
    collectors_headings = ["flowbuf", "Akvorado", "GoFlow2"]
    lines = [HEAD, "## Information elements of NetFlow v9 and IPFIX", "", BIFLOWS]
    lines += table(
        ["id", "element", "type", *collectors_headings], (element_row(source.text) for source in elements)
    )
    for kind, (title, text) in GROUPS.items():
        fields = [name for name in order_of(filled) if name.startswith(f"{kind}:")]
        fields += sorted(name for name in names if name.startswith(f"{kind}:") and name not in fields)
        lines += [f"## {title}", "", text, ""]
        lines += table(["field", *collectors_headings], ([f"`{name}`", *cells(name)] for name in fields))
    lines += ["## Derived sources", "", "flowbuf calculates these sources from several fields.", ""]
    return "\n".join(lines + table(["source", "inputs", "columns"], derived_rows()))


def by_id(source: Source) -> tuple[int, int]:
    return source.pen, source.id


def order_of(filled: dict[str, list[Column]]) -> list[str]:
    """Return the fields in the order of the first column that each one fills."""
    return sorted(filled, key=lambda name: min(column.number for column in filled[name]))


def derived_rows() -> Iterator[list[str]]:
    for name in DERIVED:
        columns = [
            column for column in Schema.load("flow") for rank in column.sources if name in map(str, rank)
        ]
        parts = ", ".join(part.removeprefix("ipfix:") for part in made_of(name))
        yield [f"`{name}`", parts, ", ".join(map(column_text, columns))]


if __name__ == "__main__":
    FIELDS.write_text(render(), encoding="utf-8")
