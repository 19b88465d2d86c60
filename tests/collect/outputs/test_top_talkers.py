"""Top talkers: sums over the last seconds, in bounded memory."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import flowbuf
from flowbuf.collect.outputs import top_talkers
from flowbuf.collect.outputs.top_talkers import MEASURES, TopTalkers, choose_top_columns
from flowbuf.errors import ConfigError, SchemaError
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection, arrow_schema
from tests.collect.test_collector import payloads_of

FLOW = Schema.load("flow")


@pytest.fixture(autouse=True)
def no_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_talkers, "SHARE", 1.0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def address(text: str) -> bytes:
    return bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(text).packed


def batch_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Any:
    """Return a record batch with these columns. Missing values are absent."""
    schema = arrow_schema(FLOW.only(*columns))
    arrays = []
    for field in schema:
        plain = getattr(field.type, "storage_type", field.type)
        absent = None if field.nullable else 0
        array = pa.array([row.get(field.name, absent) for row in rows], plain)
        arrays.append(array.cast(field.type) if plain == field.type else field.type.wrap_array(array))
    return pa.record_batch(arrays, schema=schema)


def text_of(packed: bytes) -> str:
    """Return an address as text."""
    found = ipaddress.IPv6Address(packed)
    return str(found.ipv4_mapped or found)


def talkers(*names: str, **options: Any) -> tuple[TopTalkers, tuple[str, ...]]:
    groups, columns = choose_top_columns(FLOW, names)
    return TopTalkers(FLOW.only(*columns), groups, 10.0, **options), columns


def read_generated(name: str, columns: tuple[str, ...]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the flows of a capture as a record batch, and as rows."""
    selection = FlowSelection(FLOW.only(*columns))
    flows = flowbuf.Decoder(selection.decoded).columns_many(payloads_of(name), "127.0.0.1")
    return selection.apply(flows), flows.text().to_arrow().to_pylist()


@pytest.mark.parametrize("scaled", [False, True])
def test_sums_are_those_of_the_flows(scaled: bool) -> None:
    top, columns = talkers("src_addr", "proto", scaled=scaled)
    batch, rows = read_generated("generated-sflow.pcap", columns)
    assert {row["sampling_rate"] for row in rows} == {1000}
    top.write(batch)
    top.write(batch)
    factor = 1 if scaled else 1000
    sums: Counter[tuple[str, int]] = Counter()
    for row in rows:
        sums[row["src_addr"], row["proto"]] += 2 * factor * row["bytes"]
    found = top.read("bytes", 1000)
    assert [row[1]["bytes"] for row in found.rows] == sorted(sums.values(), reverse=True)
    shown = {(text_of(packed), proto): each["bytes"] for (packed, proto), each in found.rows}
    assert shown == sums
    assert found.totals == {
        "bytes": sums.total(),
        "packets": sum(2 * factor * row["packets"] for row in rows),
        "flows": 2 * len(rows),
    }
    assert top.stored == 2 * len(rows)


def test_flows_of_unknown_sampling_rate_count_once() -> None:
    top, columns = talkers("src_addr")
    rows = [
        {"src_addr": address("10.0.0.1"), "bytes": 5, "packets": 1, "sampling_rate": rate}
        for rate in (0, 1, 10)
    ]
    top.write(batch_of(rows, columns))
    assert top.read("bytes", 9).rows == [
        ((address("10.0.0.1"),), {"bytes": 60.0, "packets": 12.0, "flows": 3.0})
    ]


def test_large_products_do_not_overflow() -> None:
    top, columns = talkers("dst_port")
    top.write(batch_of([{"bytes": 2**64 - 1, "sampling_rate": 2**32 - 1}] * 2, columns))
    assert top.read("bytes", 1).totals["bytes"] == pytest.approx(2.0**97)


def test_old_flows_leave_the_window() -> None:
    clock = Clock()
    top, columns = talkers("dst_port", clock=clock)
    for port in range(30):  # one flow per second
        clock.now = 1000.0 + port
        top.write(batch_of([{"dst_port": port, "bytes": 100}], columns))
        found = top.read("bytes", 100)
        recent = range(max(port - 9, 0), port + 1)
        assert {values[0] for values, _ in found.rows} == set(recent)
        assert found.totals["bytes"] == 100 * len(recent)
        assert found.seconds <= 10
    clock.now += 20
    assert top.read("bytes", 100).rows == []
    assert top.read("bytes", 100).totals == dict.fromkeys(MEASURES, 0)


def test_each_measure_has_its_own_order() -> None:
    top, columns = talkers("dst_port")
    many = [{"dst_port": 53, "bytes": 1, "packets": 1}] * 3
    top.write(
        batch_of(
            [*many, {"dst_port": 22, "bytes": 900, "packets": 2}, {"dst_port": 80, "packets": 70}], columns
        )
    )
    assert {measure: top.read(measure, 1).rows[0][0][0] for measure in MEASURES} == {
        "bytes": 22,
        "packets": 80,
        "flows": 53,
    }


def test_memory_is_bounded_and_totals_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small groups are forgotten. Those that are large by any measure stay exact."""
    monkeypatch.setattr(top_talkers, "MAX_GROUPS", 100)
    top, columns = talkers("dst_port", "src_port")
    for turn in range(20):
        rows = [{"dst_port": turn, "src_port": port, "bytes": 1, "packets": 1} for port in range(200)]
        rows += [{"dst_port": 443, "bytes": 10_000}] + [{"dst_port": 53, "bytes": 1}] * 20
        top.write(batch_of(rows, columns))
    kept = sum(len(table) for slot in top._slots for table in slot.tables)
    assert kept <= 3 * 2 * 100 + 300
    assert top.read("bytes", 1).rows == [((443, 0), {"bytes": 200_000.0, "packets": 0.0, "flows": 20.0})]
    assert top.read("flows", 1).rows[0][1]["flows"] == 400
    assert top.read("flows", 1).totals["flows"] == 20 * 221


@pytest.mark.parametrize("column", [column.name for column in FLOW if not column.repeated])
def test_every_column_can_be_a_group(column: str) -> None:
    top, columns = talkers(column)
    batch, rows = read_generated("generated-ipfix.pcap", columns)
    top.write(batch)
    found = top.read("flows", 10_000)
    assert sum(measures["flows"] for _, measures in found.rows) == len(rows) == 300
    assert len(found.rows) == len({str(row[column]) for row in rows})


def test_long_values_are_cut() -> None:
    top, columns = talkers("in_if_name")
    top.write(
        batch_of([{"in_if_name": "x" * 5000 + str(number), "bytes": 1} for number in range(3)], columns)
    )
    assert [row[0] for row in top.read("bytes", 9).rows] == [("x" * 100,)]


def test_columns_of_presets_are_found() -> None:
    groups, columns = choose_top_columns(Schema.load("akvorado"), ["src_addr"])
    assert groups == ("SrcAddr",)
    assert {"Bytes", "Packets", "SamplingRate"} < set(columns)


def test_unusable_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match="live_top: column 'mpls_labels' is a list; choose a column"):
        choose_top_columns(FLOW, ["mpls_labels"])
    with pytest.raises(ConfigError, match="live_top is empty; name at least one column"):
        choose_top_columns(FLOW, [])
    with pytest.raises(SchemaError, match="did you mean src_addr"):
        choose_top_columns(FLOW, ["src_adr"])
