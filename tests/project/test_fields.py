"""docs/reference/fields.md is current and correct about all three collectors.

docs/reference/collectors.csv lists the fields that Akvorado and GoFlow2 read. flowbuf reads each of them into
the matching column, or a note explains the difference. The presets read exactly the fields that their
collector reads.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowbuf import Schema, _core
from flowbuf.schema import Column, Source
from tests.support.goldens import AKVORADO, GOFLOW2, Collector
from tests.support.peer_messages import AKVORADO_MESSAGE, GOFLOW2_MESSAGE, PEERS
from tools import make_fields

ROOT = Path(__file__).parents[2]

FLOW = Schema.load("flow")
ROWS = make_fields.read_collectors()
FILLED = {name: {column.name for column in columns} for name, columns in make_fields.filled_by(FLOW).items()}
TEMPLATE_H = (ROOT / "ext/core/exporter/template.h").read_text()

# Columns of the collectors without a capture in goldens.py.
OTHER_COLUMNS = {
    "ipv6_routing_header_addresses": "ipv6_routing_header_addresses",
    "ipv6_routing_header_seg_left": "ipv6_routing_header_seg_left",
    "layer_stack": "layer_stack",
    "layer_size": "layer_size",
}


def readings(collector: Collector) -> Iterator[tuple[str, str, str]]:
    """Yield (source, column of the collector, column of flow.toml)."""
    for name, row in ROWS.items():
        for column in getattr(row, collector.name).columns:
            field = collector.fields.get(column)
            yield name, column, field.column if field else OTHER_COLUMNS[column]


def test_the_page_is_current() -> None:
    assert make_fields.FIELDS.read_text() == make_fields.render(), "run make fields"


def test_every_listed_source_exists() -> None:
    for name in ROWS:
        source = Source.parse(name)
        if source.kind == "ipfix":
            assert source.element or source.pen, name
        else:
            assert name in _core.SOURCES or name in _core.NETFLOW5_FIELDS, name


def test_every_listed_column_exists() -> None:
    """Akvorado's columns are those of its golden flows. GoFlow2's columns are all columns of its message."""
    assert {column for _, column, _ in readings(AKVORADO)} == set(AKVORADO.fields)
    assert {column for _, column, _ in readings(GOFLOW2)} == set(GOFLOW2_MESSAGE.fields)


@pytest.mark.parametrize("collector", [AKVORADO, GOFLOW2], ids=lambda collector: collector.name)
def test_flowbuf_reads_every_field_of_the_collectors(collector: Collector) -> None:
    """flowbuf fills the matching column, or a note explains the difference."""
    unexplained = [
        f"{name}: {collector.name} fills {column}, flowbuf does not fill {ours};"
        " fill it or explain the difference in collectors.csv"
        for name, column, ours in readings(collector)
        if ours not in FILLED.get(name, set()) and not ROWS[name].note
    ]
    assert not unexplained, "\n".join(unexplained)
    assert not [name for name, _, _ in readings(collector) if name not in FILLED]


@pytest.mark.parametrize("name", sorted(PEERS))
def test_presets_read_the_fields_of_their_collector(name: str) -> None:
    """A preset reads every listed source and no other. Some part of a derived source must be listed."""
    schema = Schema.load(name)
    facts = {(source, column) for source, row in ROWS.items() for column in getattr(row, name).columns}
    missing = {
        (source, column)
        for source, column in facts
        if column in schema and source not in set(make_fields.keys_of(schema[column]))
    }
    assert missing == NOT_IN_PRESETS[name].keys()
    own = [
        (text, column.name)
        for column in schema
        for text in (make_fields.key(source) for rank in column.sources for source in rank)
        if not any((part, column.name) in facts for part in make_fields.made_of(text))
    ]
    assert own == [
        ("meta:default_sampling_rate", {"goflow2": "sampling_rate", "akvorado": "SamplingRate"}[name])
    ]


STARTS = [
    f"ipfix:flowStart{unit}"
    for unit in ("SysUpTime", "Seconds", "Milliseconds", "Microseconds", "Nanoseconds")
]
NOT_IN_PRESETS: dict[str, dict[tuple[str, str], str]] = {
    "goflow2": {},
    "akvorado": {
        (source, "TimeReceived"): "available only as options: --time flow-start and --time export"
        for source in ("netflow5:First", "meta:time_exported", *STARTS)
    },
}
"""Sources that a preset omits, with the reasons."""


def test_columns_of_presets_have_the_keys_of_flow_toml() -> None:
    """The form and the zero rule of a column may differ from flow.toml: they follow the collector."""
    form = {
        "name",
        "number",
        "type",
        "repeated",
        "enabled",
        "unit",
        "ip",
        "values",
        "map",
        "mirror",
        "origin",
        "doc",
    }
    same = {field.name for field in dataclasses.fields(Column)} - form - {"sources", "depends", "clickhouse"}
    same -= {"zero", "replaces_zero"}
    assert same >= {"group", "explicit", "late"}
    for name, collector in (("goflow2", GOFLOW2), ("akvorado", AKVORADO)):
        for column in Schema.load(name):
            field = collector.fields.get(column.name)
            if field:
                other = FLOW[field.column]
                assert {key: getattr(column, key) for key in same} == {
                    key: getattr(other, key) for key in same
                }, column


def test_every_column_of_akvorados_message_is_listed() -> None:
    """Compare the columns that datagrams fill with the release that the preset follows."""
    filled = {column.name for column in Schema.load("akvorado") if column.sources}
    assert filled == AKVORADO_MESSAGE.fields.keys() & AKVORADO.fields.keys()


def test_parts_of_derived_sources_match_the_roles_of_the_core() -> None:
    """template.h defines the roles. Packet sections and the exporter's start time fill no column directly."""
    roles = {int(number) for number in re.findall(r"X\(\w+, (\d+)\)", TEMPLATE_H)}
    assert roles
    roles |= {8, 12, 27, 28}  # the address fields
    roles |= {331, 332}  # ranges of a hash filter: a record may have several, so they are no roles
    roles -= {10, 252}  # ingress interfaces fill a column directly, and select a configured sampling rate
    calculated = make_fields.DERIVED.keys() - _core.NAME_SOURCES
    parts = {part for name in calculated for part in make_fields.made_of(name)} | set(make_fields.HELPERS)
    named = {
        Source.parse(part).id for part in parts if part.startswith("ipfix:") and not Source.parse(part).pen
    }
    assert roles - named == set()
    assert named - roles <= {Source.parse(f"ipfix:{name}").id for name in ("fragmentFlags", "sectionOffset")}
    assert make_fields.DERIVED.keys() == {name for name in _core.SOURCES if name.startswith("derived:")}


def test_the_page_lists_every_column_and_source() -> None:
    page = make_fields.FIELDS.read_text()
    for column in (column for column in FLOW if column.sources):
        assert f"`{column.name}` ({column.number}, " in page
    for name in FILLED:
        source = Source.parse(name)
        assert (f"| {source.element.name} |" if source.element else f"`{name}`") in page or source.pen
