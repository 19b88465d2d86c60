"""RowText formats columns like the Python reference formats the rows of the same columns."""

from __future__ import annotations

import gc
import json
import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import Decoder, read_capture
from flowbuf.arrow.row_text import KeyRows, RowText
from flowbuf.arrow.rows import RowReader
from flowbuf.errors import EncodeError, SchemaError
from flowbuf.schema import Schema
from flowbuf.targets.arrow import arrow_type
from tests.arrow.test_rows import CAPTURES
from tests.reference.flow_text import FlowText
from tests.support.datagrams import netflow5, record5
from tests.support.decoding import RECEIVED, SOURCE

FLOW = Schema.load("flow")
VALUES = {"none": 0, "some": 1, "other": 2}


def batch_of(schema: Schema, *records: bytes, ip: str = "binary") -> Any:
    batch = Decoder(schema).columns(netflow5(*records), SOURCE, RECEIVED)
    return (batch.text() if ip == "text" else batch).to_arrow()


def one_column(type: str, **keys: Any) -> Schema:
    return FLOW.only().add("it", number=1001, type=type, **keys)


def one_batch(schema: Schema, values: list[Any]) -> pa.RecordBatch:
    (column,) = schema.enabled
    if column.type == "enum":
        names = {number: name for name, number in column.values.items()}
        texts = [None if value is None else names.get(value, str(value)) for value in values]
        array = pa.array(texts, pa.string()).dictionary_encode()
    else:
        array = pa.array(values, arrow_type(column))
    return pa.RecordBatch.from_arrays([array], ["it"])


def check_lines(schema: Schema, batch: Any, arrow: pa.RecordBatch) -> None:
    """Compare the text of a batch in every form with that of its rows."""
    rows, text = RowReader(schema).read(arrow), FlowText(schema)
    expected = {
        ("json", False): [text.json_line(row) for row in rows],
        ("csv", False): [text.csv_line(row) for row in rows],
        ("csv", True): [text.csv_line(row, spreadsheet=True) for row in rows],
        ("key", False): [text.key(row) for row in rows],
    }
    for (form, spreadsheet), lines in expected.items():
        writer = RowText(schema, form, spreadsheet=spreadsheet)
        assert [line.decode() for line in writer.split(batch)] == lines
        assert bytes(writer.lines(batch)).decode() == "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado", "sflow_counters"])
def test_lines_equal_those_of_rows(capture: Path, name: str) -> None:
    schema = Schema.load(name)
    schema = schema.enable(*(column.name for column in schema))
    for batch in read_capture(capture, schema):
        check_lines(schema, batch, batch.to_arrow())
        check_lines(schema, batch.to_arrow(), batch.to_arrow())


CASES: list[tuple[str, dict[str, Any], Any, Any]] = [
    # type, keys, value, in JSON
    ("uint64", {}, 2**64 - 1, 2**64 - 1),
    ("sint32", {}, -5, -5),
    ("bool", {}, True, True),
    ("bool", {"explicit": True}, False, False),
    ("double", {}, 0.1, 0.1),
    ("double", {}, math.nan, "NaN"),
    ("float", {}, -math.inf, "-Infinity"),
    ("string", {}, 'a "b"\n€', 'a "b"\n€'),
    ("bytes", {}, b"\x00\xff", "00ff"),
    ("mac", {}, 0x00AABBCCDDEE, "00:aa:bb:cc:dd:ee"),
    ("duration", {"unit": "ms"}, -1500, -1500),
    ("timestamp", {"unit": "s"}, 1662723663, "2022-09-09T11:41:03Z"),
    ("timestamp", {"unit": "us"}, 1662723663000042, "2022-09-09T11:41:03.000042Z"),
    ("enum", {"values": VALUES}, 1, "some"),
    ("enum", {"values": VALUES}, 7, 7),
    ("uint32", {"repeated": True}, [1, 0, 3], [1, 0, 3]),
    ("string", {"repeated": True}, ["a b", ""], ["a b", ""]),
]


@pytest.mark.parametrize(("type", "keys", "value", "in_json"), CASES)
def test_every_type_is_formatted(type: str, keys: dict[str, Any], value: Any, in_json: Any) -> None:
    schema = one_column(type, **keys)
    batch = one_batch(schema, [value, None])
    assert list(map(json.loads, RowText(schema).split(batch))) == [{"it": in_json}, {}]
    check_lines(schema, batch, batch)


INTEGERS = {
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{f"sint{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64)},
    "mac": (0, 2**48 - 1),
}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(
    '=+-@\t\r\n",; \x00\x7f\x85\u2028\u202e\uff1d'
)


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[Any]]:
    """Return any type, its keys, and values."""
    values: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
        **{type: ({}, st.integers(*limits)) for type, limits in INTEGERS.items()},
        "bool": ({}, st.booleans()),
        "double": ({}, st.floats()),
        "float": ({}, st.floats(width=32)),
        "string": ({}, TEXTS),
        "bytes": ({}, st.binary(max_size=20)),
        "ip": ({}, st.binary(min_size=16, max_size=16) | st.binary(min_size=4, max_size=4).map(mapped)),
        "enum": ({"values": VALUES}, st.integers(0, 5)),
        "timestamp": (
            {"unit": draw(st.sampled_from(["s", "ms", "us", "ns"]))},
            st.integers(0, 2**63 // 10**9),
        ),
        "duration": ({"unit": "ms"}, st.integers(-(2**63), 2**63 - 1)),
    }
    type = draw(st.sampled_from(sorted(values)))
    keys, one = values[type]
    repeated = draw(st.booleans()) and type != "enum"  # pyarrow makes no lists of dictionaries
    explicit = draw(st.booleans()) and not repeated
    items = st.lists(one, max_size=5) if repeated else st.none() | one
    return type, {"repeated": repeated, "explicit": explicit, **keys}, draw(st.lists(items, max_size=80))


def mapped(address: bytes) -> bytes:
    return bytes(10) + b"\xff\xff" + address


@given(columns())
def test_any_values_equal_those_of_rows(case: tuple[str, dict[str, Any], list[Any]]) -> None:
    type, keys, values = case
    schema = one_column(type, **keys)
    batch = one_batch(schema, values)
    check_lines(schema, batch, batch)


def test_reals_are_those_of_python() -> None:
    patterns = [
        exponent << 52 | fraction for exponent in range(0x7FF) for fraction in (0, 1, 2**51, 2**52 - 1)
    ]
    state = 1
    for _ in range(100_000):
        state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1  # any numbers
        patterns.append(state)
    reals = [real for (real,) in struct.iter_unpack("d", struct.pack(f"{len(patterns)}Q", *patterns))]
    reals += [
        real
        for (real,) in struct.iter_unpack("d", struct.pack("200000d", *(i / 1000 for i in range(200_000))))
    ]
    schema = one_column("double", explicit=True)
    lines = RowText(schema, "key").split(one_batch(schema, reals))
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    assert [line.decode() for line in lines] == [names.get(repr(real), repr(real)) for real in reals]


def test_reals_keep_their_signs_and_names() -> None:
    schema = one_column("double")
    batch = one_batch(schema, [0.0, -0.0, float("nan"), float("inf"), 0.5, None])
    lines = [b"{}", b'{"it":-0.0}', b'{"it":"NaN"}', b'{"it":"Infinity"}', b'{"it":0.5}', b"{}"]
    assert RowText(schema).split(batch) == lines


def test_addresses_may_be_text_already() -> None:
    schema = FLOW.only("src_addr", "dst_port")
    record = record5(src="10.0.0.1", dst_port=53)
    lines = [RowText(schema).split(batch_of(schema, record, ip=ip)) for ip in ("binary", "text")]
    assert lines[0] == lines[1] == [b'{"src_addr":"10.0.0.1","dst_port":53}']


def test_a_batch_may_lack_columns() -> None:
    batch = batch_of(FLOW, record5(octets=7))
    text = RowText(FLOW)
    assert text.split(batch.select(["bytes"])) == [b'{"bytes":7}']
    assert text.split(batch.select(["in_if"])) == [b"{}"]  # absent in each row


def test_columns_that_are_not_enabled_are_left_out() -> None:
    assert RowText(FLOW.only("bytes")).split(batch_of(FLOW, record5(octets=7))) == [b'{"bytes":7}']


def test_the_type_of_batches_may_change() -> None:
    batch = batch_of(FLOW, record5(octets=7, src="10.0.0.1"))
    text = RowText(FLOW, "key")
    assert text.split(batch.select(["bytes", "src_addr"])) == [b"7,10.0.0.1"]
    assert text.split(batch.select(["src_addr", "bytes"])) == [b"10.0.0.1,7"]


def test_objects_may_start_with_other_members() -> None:
    batch = batch_of(FLOW, record5(octets=7))
    text = RowText(FLOW, start='"rows":"flows"')
    assert text.split(batch.select(["bytes"])) == [b'{"rows":"flows","bytes":7}']
    assert text.split(batch.select(["in_if"])) == [b'{"rows":"flows"}']


def test_earlier_lines_stay_when_more_are_written() -> None:
    text = RowText(FLOW.only("bytes"), "key")
    first = text.lines(batch_of(FLOW.only("bytes"), record5(octets=1)))
    second = text.lines(batch_of(FLOW.only("bytes"), record5(octets=2)))
    assert (bytes(first), bytes(second)) == (b"1\n", b"2\n")
    assert first.readonly


def test_a_value_that_does_not_fit_is_refused_with_its_place() -> None:
    schema = FLOW.only("src_port")
    batch = pa.RecordBatch.from_pydict({"src_port": [1, 70_000]})
    with pytest.raises(
        EncodeError, match="column 'src_port', row 1: the value is outside the column's range"
    ):
        RowText(schema).lines(batch)
    assert RowText(schema).split(batch.slice(0, 1)) == [b'{"src_port":1}']


def test_writers_in_garbage_cycles_free_their_bindings() -> None:
    text = RowText(FLOW)
    text.split(batch_of(FLOW, record5()))
    cycle: dict[str, Any] = {"writer": text._writer}
    cycle["self"] = cycle  # made after the writer, so that the collector clears the writer's parts first
    del text, cycle
    gc.collect()  # pytest makes an exception of a destructor a failure


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
