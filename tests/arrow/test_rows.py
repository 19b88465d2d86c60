"""RowReader turns columns into the same rows as MessageReader reads from messages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flowbuf import Decoder, encode_capture, read_capture
from flowbuf._core import MessageReader
from flowbuf.arrow.rows import RowReader, with_text
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan
from flowbuf.targets.arrow import register_types
from tests.support.datagrams import data_set, ipfix, template, template_set
from tests.support.decoding import RECEIVED, SOURCE

register_types(needed=True)

FLOW = Schema.load("flow")
CAPTURES = sorted((Path(__file__).parents[1] / "data").glob("*.pcap"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado", "sflow_counters"])
def test_rows_equal_the_flows_read_from_messages(capture: Path, name: str, tmp_path: Path) -> None:
    schema = Schema.load(name)
    schema = schema.enable(*(column.name for column in schema))
    encode_capture(capture, tmp_path / "flows.pb", schema)
    flows, _ = MessageReader(compile_plan(schema)).read_stream((tmp_path / "flows.pb").read_bytes())
    reader = RowReader(schema)
    rows = [row for batch in read_capture(capture, schema) for row in reader.read(batch.to_arrow())]
    native = {column.name for column in schema if column.type == "ip" and column.ip == "native"}
    assert [_widened(row, native) for row in rows] == [_widened(flow, native) for flow in flows]


def _widened(row: dict[str, object], native: set[str]) -> dict[str, object]:
    """Return the row with IPv4 addresses of 4 bytes as mapped addresses of 16 bytes, as columns hold them."""

    def widen(value: object) -> object:
        if isinstance(value, list):
            return list(map(widen, value))
        return bytes(10) + b"\xff\xff" + value if isinstance(value, bytes) and len(value) == 4 else value

    return {name: widen(value) if name in native else value for name, value in row.items()}


def read_records(schema: Schema, element: int, *values: bytes) -> list[dict[str, object]]:
    decoder = Decoder(schema)
    decoder.columns(ipfix(template_set(template(256, (element, len(values[0]))))), SOURCE, RECEIVED)
    batch = decoder.columns(ipfix(data_set(256, b"".join(values))), SOURCE, RECEIVED)
    return RowReader(schema).read(batch.to_arrow())


def test_zero_is_absent_unless_the_column_is_explicit() -> None:
    rows = read_records(FLOW.only("bytes"), 1, bytes(8), bytes(7) + b"\5")
    assert rows == [{}, {"bytes": 5}]
    rows = read_records(FLOW.alter("bytes", explicit=True).only("bytes"), 1, bytes(8), bytes(7) + b"\5")
    assert rows == [{"bytes": 0}, {"bytes": 5}]


def test_a_negative_zero_is_a_value() -> None:
    schema = FLOW.add("rate", number=1001, type="double", sources=["ipfix:samplingProbability"]).only("rate")
    rows = read_records(schema, 311, bytes(8), b"\x80" + bytes(7), b"\x3f\xf0" + bytes(6))
    assert [{name: str(value) for name, value in row.items()} for row in rows] == [
        {},
        {"rate": "-0.0"},
        {"rate": "1.0"},
    ]


def test_unknown_enum_numbers_stay_numbers() -> None:
    reasons = pa.array(["idle_timeout", "99", None, "99"], pa.string()).dictionary_encode()
    rows = RowReader(FLOW.only("flow_end_reason")).read(
        pa.RecordBatch.from_arrays([reasons], ["flow_end_reason"])
    )
    assert rows == [{"flow_end_reason": 1}, {"flow_end_reason": 99}, {}, {"flow_end_reason": 99}]


@pytest.mark.parametrize("offset", [0, 7])
def test_addresses_become_text(offset: int) -> None:
    capture = Path(__file__).parents[1] / "data/generated-sflow.pcap"
    schema = FLOW.enable("group:l2").enable("ipv6_routing_header_addresses")
    batch = next(iter(read_capture(capture, schema)))
    text = with_text(batch.to_arrow().slice(offset), schema)
    expected = batch.text().to_arrow().slice(offset)
    assert pa.types.is_string(text.schema.field("src_mac").type)
    assert text.to_pylist() == expected.to_pylist()
