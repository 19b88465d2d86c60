"""JsonRows formats columns like FlowText formats the rows of the same columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flowbuf import Decoder, read_capture
from flowbuf.arrow.row_text import JsonRows, KeyRows
from flowbuf.arrow.rows import RowReader
from flowbuf.errors import SchemaError
from flowbuf.schema import Schema
from flowbuf.targets.flow_text import FlowText
from tests.arrow.test_rows import CAPTURES
from tests.support.datagrams import netflow5, record5
from tests.support.decoding import RECEIVED, SOURCE

FLOW = Schema.load("flow")


def batch_of(schema: Schema, *records: bytes, ip: str = "binary") -> Any:
    batch = Decoder(schema).columns(netflow5(*records), SOURCE, RECEIVED)
    return (batch.text() if ip == "text" else batch).to_arrow()


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado", "sflow_counters"])
def test_lines_equal_those_of_rows(capture: Path, name: str) -> None:
    schema = Schema.load(name)
    schema = schema.enable(*(column.name for column in schema))
    columns, rows, text = JsonRows(schema), RowReader(schema), FlowText(schema)
    for batch in read_capture(capture, schema):
        arrow = batch.to_arrow()
        assert columns.read(arrow) == [text.json_line(row) for row in rows.read(arrow)]


def test_reals_keep_their_signs_and_names() -> None:
    schema = FLOW.add("rate", number=1001, type="double", sources=["ipfix:samplingProbability"]).only("rate")
    rates = pa.array([0.0, -0.0, float("nan"), float("inf"), 0.5, None])
    lines = JsonRows(schema).read(pa.RecordBatch.from_arrays([rates], ["rate"]))
    assert lines == ["{}", '{"rate":-0.0}', '{"rate":"NaN"}', '{"rate":"Infinity"}', '{"rate":0.5}', "{}"]


def test_addresses_may_be_text_already() -> None:
    schema = FLOW.only("src_addr", "dst_port")
    record = record5(src="10.0.0.1", dst_port=53)
    lines = [JsonRows(schema).read(batch_of(schema, record, ip=ip)) for ip in ("binary", "text")]
    assert lines[0] == lines[1] == ['{"src_addr":"10.0.0.1","dst_port":53}']


def test_a_batch_may_lack_columns() -> None:
    batch = batch_of(FLOW, record5(octets=7))
    assert json.loads(JsonRows(FLOW).read(batch.select(["bytes"]))[0]) == {"bytes": 7}
    assert JsonRows(FLOW).read(batch.select(["in_if"])) == ["{}"]  # absent in each row


def test_keys_are_the_texts_of_columns() -> None:
    batch = batch_of(FLOW, record5(src="10.0.0.1", dst_port=53), record5(src="0.0.0.0", dst_port=0))
    assert KeyRows(FLOW, ["src_addr"]).read(batch)[0] == b"10.0.0.1"
    assert KeyRows(FLOW, ["src_addr", "dst_port", "in_if"]).read(batch)[0] == b"10.0.0.1,53,"
    assert KeyRows(FLOW, ["dst_port", "in_if"]).read(batch) == [b"53,", None]
    assert KeyRows(FLOW, ["in_if"]).read(batch) == [None, None]


def test_a_key_needs_an_enabled_column() -> None:
    with pytest.raises(SchemaError, match="key 'dst_port' is not among the columns; add it to them"):
        KeyRows(FLOW.only("src_addr"), ["dst_port"])
    with pytest.raises(SchemaError, match="src_ad"):
        KeyRows(FLOW, ["src_ad"])
