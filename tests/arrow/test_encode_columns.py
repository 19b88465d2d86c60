"""encode_columns encodes columns of any Arrow library as messages."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from flowbuf import (
    DecodeError,
    Decoder,
    EncodeError,
    FlowStream,
    encode_capture,
    encode_columns,
    read_capture,
    read_messages,
    wire,
)
from flowbuf._core import MessageReader
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan
from tests.arrow.test_columns import NETFLOW9, SCHEMAS, SFLOW, SHIPPED, each_schema
from tests.support.columnar import rows_of

FLOW = Schema.load("flow")


def flows_of(messages: bytes, schema: Schema = FLOW) -> list[dict[str, Any]]:
    return MessageReader(compile_plan(schema)).read_stream(messages)[0]


def encode(schema: Schema = FLOW, **columns: Any) -> list[dict[str, Any]]:
    return flows_of(encode_columns(pa.table(columns), schema), schema)


def read(data: bytes, schema: Schema, tmp_path: Path) -> FlowStream:
    (tmp_path / "again.pb").write_bytes(data)
    return read_messages(tmp_path / "again.pb", schema)


# Round trips ------------------------------------------------------------------------------------------------


@each_schema
def test_columns_survive_a_round_trip_through_messages(name: str, corpus: Path, tmp_path: Path) -> None:
    schema = SCHEMAS[name]
    for capture in [*sorted(SHIPPED.glob("*.pcap")), *sorted(corpus.glob("*.pcap"))]:
        columns = read_capture(capture, schema)
        messages = encode_columns(columns, schema)
        assert rows_of(read(messages, schema, tmp_path)) == rows_of(columns), capture
        encode_capture(capture, tmp_path / "flows.pb", schema)
        assert len(flows_of(messages, schema)) == len(
            flows_of((tmp_path / "flows.pb").read_bytes(), schema)
        ), capture


@pytest.mark.parametrize("capture", [NETFLOW9, SFLOW], ids=lambda path: path.stem)
def test_messages_equal_those_of_the_decoder(capture: Path, tmp_path: Path) -> None:
    """The order of their fields may differ. Their length may not."""
    schema = SCHEMAS["every-column"]
    encode_capture(capture, tmp_path / "flows.pb", schema)
    messages = encode_columns(read_capture(capture, schema), schema)
    expected = (tmp_path / "flows.pb").read_bytes()
    assert flows_of(messages, schema) == flows_of(expected, schema)
    assert len(messages) == len(expected)


def test_every_library_gives_the_same_messages() -> None:
    stream, text = read_capture(NETFLOW9), read_capture(NETFLOW9, ip="text")
    (batch,) = stream
    expected = encode_columns(stream)
    relation = duckdb.sql("select * from text")
    held = (
        batch,
        batch.text(),
        text,
        stream.to_arrow(),
        stream.to_pandas(),
        stream.to_polars(),
        batch.to_arrow(),
        relation,
    )
    for columns in held:
        assert encode_columns(columns) == expected, type(columns)


def test_filtered_pandas_rows_are_encoded() -> None:
    frame = read_capture(NETFLOW9).to_pandas()
    chosen = frame[frame.bytes > frame.bytes.median()]
    assert 0 < len(chosen) < len(frame)
    flows = flows_of(encode_columns(chosen))
    assert [flow["bytes"] for flow in flows] == chosen.bytes.tolist()


def test_changed_polars_rows_are_encoded() -> None:
    frame = read_capture(NETFLOW9).to_polars().with_columns(pl.lit("192.0.2.9").alias("src_addr")).head(5)
    assert {flow["src_addr"][-4:] for flow in flows_of(encode_columns(frame))} == {bytes([192, 0, 2, 9])}


def test_an_empty_table_has_no_messages() -> None:
    assert encode_columns(pa.table({"bytes": pa.array([], pa.uint64())})) == b""
    assert encode_columns(next(iter(Decoder().columns(b"", "192.0.2.1") for _ in range(1)))) == b""


@pytest.mark.slow
def test_output_may_exceed_the_reused_buffer() -> None:
    """The encoder reuses a buffer of at most 32 MiB. It writes larger output into the returned bytes object.

    Earlier calls leave nothing in the output, even if they failed.
    """
    columns = ('"text"\nnumber = 1\ntype = "bytes"', '"count"\nnumber = 2\ntype = "uint64"')
    schema = Schema.from_toml(
        '[schema]\nname = "text"\n' + "".join(f"[[column]]\nname = {each}\n" for each in columns)
    )
    schema = schema.enable("text", "count")
    small, large = ([letter * size for letter in (b"a", b"b", b"c")] for size in (100, 20 << 20))
    broken = pa.table({"text": [b"a" * (1 << 20)] * 100, "count": [1] * 99 + [-1]})
    for texts in (small, large, large, small, large):
        with pytest.raises(EncodeError):
            encode_columns(broken, schema)
        fields = [wire.tag(1, 2) + wire.varint(len(text)) + text for text in texts]
        expected = b"".join(wire.varint(len(field)) + field for field in fields)
        assert encode_columns(pa.table({"text": texts}), schema) == expected


def test_nested_encoders_have_their_own_output() -> None:
    table = pa.table({"bytes": range(1, 1000)})
    expected = encode_columns(table)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=100):
            assert encode_columns(table) == expected
            yield batch

    assert encode_columns(pa.RecordBatchReader.from_batches(table.schema, batches())) == expected


# Values -----------------------------------------------------------------------------------------------------


def test_nulls_are_absent_and_zeros_are_not_written() -> None:
    assert encode(bytes=[5, None, 0], src_addr=["192.0.2.1", None, "0.0.0.0"]) == [
        {"bytes": 5, "src_addr": bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1])},
        {},
        {},
    ]


def test_explicit_columns_write_zero() -> None:
    schema = FLOW.alter("bytes", explicit=True)
    assert encode(schema, bytes=[5, None, 0]) == [{"bytes": 5}, {}, {"bytes": 0}]


def test_values_of_other_types_are_converted() -> None:
    schema = FLOW.enable("src_mac", "mpls_labels", "time_flow_start", "flow_duration")
    (flow,) = encode(
        schema,
        bytes=pa.array([7], pa.int8()),
        packets=pa.array([3.0]),
        proto=pa.array([6], pa.int64()),
        src_addr=["2001:db8::1"],
        dst_addr=pa.array([bytes([192, 0, 2, 1])]),
        src_mac=["00:00:5e:00:53:01"],
        mpls_labels=[[16, 0]],
        flow_type=["IPFIX"],
        flow_direction=pa.array([2]),
        time_received=pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
        time_flow_start=[datetime(2023, 11, 14, tzinfo=timezone.utc)],
        flow_duration=[timedelta(seconds=2)],
    )
    assert flow == {
        "bytes": 7,
        "packets": 3,
        "proto": 6,
        "src_addr": bytes.fromhex("20010db8000000000000000000000001"),
        "dst_addr": bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1]),
        "src_mac": 0x00005E005301,
        "mpls_labels": [16, 0],
        "flow_type": 4,
        "flow_direction": 2,
        "time_received": 1_700_000_000_123,
        "time_flow_start": 1_699_920_000_000,
        "flow_duration": 2000,
    }


def test_integers_stored_as_floats_are_encoded() -> None:
    frame = pd.DataFrame({"bytes": [1.0, math.nan, 3.0]})
    assert flows_of(encode_columns(frame)) == [{"bytes": 1}, {}, {"bytes": 3}]


def test_integers_stored_as_decimals_are_encoded() -> None:
    """DuckDB sums to 128-bit integers and Spark stores uint64 as decimals. Arrow has decimals for both."""
    sums = duckdb.sql("select sum(x) bytes, sum(x)::hugeint packets from range(5) t(x)")
    assert flows_of(encode_columns(sums)) == [{"bytes": 10, "packets": 10}]
    assert encode(bytes=pa.array([2**64 - 1, None, 0], pa.decimal128(20, 0))) == [
        {"bytes": 2**64 - 1},
        {},
        {},
    ]


# Refused values ---------------------------------------------------------------------------------------------

REFUSED = {
    "too large": ({"proto": [6, 300]}, "column 'proto', row 1: the value is outside the column's range"),
    "too large decimal": (
        {"bytes": pa.array([1, 2**64], pa.decimal128(38, 0))},
        "column 'bytes', row 1: the value is outside the column's range",
    ),
    "decimal with a scale": (
        {"bytes": pa.array([1], pa.decimal128(20, 2))},
        "column 'bytes': of decimals, only those of 128 bits and scale 0 are supported: cast to an integer",
    ),
    "decimal of 256 bits": (
        {"bytes": pa.array([1], pa.decimal256(40, 0))},
        "column 'bytes': of decimals, only",
    ),
    "negative": ({"bytes": [-1]}, "column 'bytes', row 0: the value is outside the column's range"),
    "fraction": ({"bytes": [1.5]}, "column 'bytes', row 0: the number is not an integer"),
    "not an address": (
        {"src_addr": ["192.0.2.1", "x"]},
        "column 'src_addr', row 1: the text is not an IP address",
    ),
    "address of 3 bytes": ({"src_addr": [b"abc"]}, "column 'src_addr', row 0: an address has 4 or 16 bytes"),
    "not an enum member": (
        {"flow_type": ["IPX"]},
        "column 'flow_type', row 0: the text is not a member of the enum",
    ),
    "another type": ({"bytes": ["5"]}, "column 'bytes': values of this type cannot fill the column"),
    "struct": ({"bytes": [{"a": 1}]}, "column 'bytes': nested structs are not supported"),
    "list": ({"bytes": [[1]]}, "column 'bytes': a list cannot fill a column that is not repeated"),
    "misspelled name": ({"byts": [1]}, "schema 'flow' has no column 'byts'; did you mean bytes?"),
    "disabled column": ({"src_mac": [1]}, "column 'src_mac' is disabled in schema 'flow'; enable it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_values_are_refused(case: str) -> None:
    columns, text = REFUSED[case]
    with pytest.raises(EncodeError) as caught:
        encode_columns(pa.table(columns))
    assert str(caught.value).startswith(text)


def test_errors_count_rows_across_batches() -> None:
    table = pa.concat_tables([pa.table({"proto": [1] * 10}), pa.table({"proto": [1, 2, 300]})])
    with pytest.raises(EncodeError, match="column 'proto', row 12"):
        encode_columns(table)


def test_unknown_columns_may_be_ignored() -> None:
    table = pa.table({"bytes": [5], "note": ["x"], "src_mac": [1]})
    assert flows_of(encode_columns(table, ignore_unknown=True)) == [{"bytes": 5}]


def test_duplicate_columns_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["bytes", "bytes"])
    with pytest.raises(EncodeError, match="column 'bytes': another column of this name is there already"):
        encode_columns(table)


@pytest.mark.parametrize("values", [pa.array([1]), pl.Series("bytes", [1])], ids=["pyarrow", "polars"])
def test_values_without_columns_are_refused(values: object) -> None:
    with pytest.raises(
        EncodeError, match="one array has no columns: give a table, a record batch or a data frame"
    ):
        encode_columns(values)


def test_objects_that_are_not_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="columns is list, without the Arrow PyCapsule protocol"):
        encode_columns([1, 2])
    with pytest.raises(OSError, match="not a capture"):
        encode_columns(read_capture(SHIPPED / "traffic.pcap.gz", port=1)) or encode_columns(
            read_capture(__file__)
        )


class ArrowSchema(ctypes.Structure):
    """The ArrowSchema structure of the Arrow C data interface."""


Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", Release),
    ("private_data", ctypes.c_void_p),
]


@Release
def release(schema: Any) -> None:
    schema[0].release = Release()


class Malformed:
    """Columns with a schema that claims `count` children and has `pointers` child pointers, all NULL."""

    def __init__(self, count: int, pointers: int = 0) -> None:
        self._pointers = (ctypes.c_void_p * max(pointers, 1))()
        children = ctypes.addressof(self._pointers) if pointers else None
        self._schema = ArrowSchema(b"+s", b"", None, 0, count, children, None, release, None)

    def __arrow_c_array__(self, requested: object = None) -> tuple[object, object]:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        array = pa.record_batch({"bytes": [1]}).__arrow_c_array__()[1]
        return new(ctypes.addressof(self._schema), b"arrow_schema", None), array


@pytest.mark.parametrize(("count", "pointers"), [(-1, 0), (-(2**63), 0), (1, 0), (2, 2)])
def test_a_malformed_schema_is_refused(count: int, pointers: int) -> None:
    with pytest.raises(EncodeError, match="the Arrow schema is malformed"):
        encode_columns(Malformed(count, pointers))


LAST_TIMES = {"s": 9_223_372_036, "ms": 9_223_372_036_854, "us": 9_223_372_036_854_775, "ns": 2**63 - 1}


@pytest.mark.parametrize("unit", LAST_TIMES)
@pytest.mark.parametrize("repeated", [False, True])
def test_times_that_readers_refuse_are_not_written(unit: str, repeated: bool) -> None:
    """Writers and readers of messages accept the same times: those below 2**63 nanoseconds."""
    schema = FLOW.only().add(
        "at", number=1001, type="timestamp", unit=unit, repeated=repeated, sources=["ipfix:152"]
    )
    last = LAST_TIMES[unit]

    def table(time: int) -> pa.Table:
        times = pa.array([time], pa.uint64())
        return pa.table({"at": pa.ListArray.from_arrays([0, 1], times) if repeated else times})

    messages = encode_columns(table(last), schema)
    assert flows_of(messages, schema) == [{"at": [last] if repeated else last}]
    at = read_messages(messages, schema, strict=True).to_arrow()["at"].combine_chunks()
    assert (at.values if repeated else at).cast(pa.int64()).to_pylist() == [last]
    with pytest.raises(EncodeError, match="column 'at', row 0"):
        encode_columns(table(last + 1), schema)
    late = wire.tag(1001, 0) + wire.varint(last + 1)
    with pytest.raises(DecodeError, match="a number that its column cannot hold"):
        read_messages(wire.varint(len(late)) + late, schema, strict=True).to_arrow()
