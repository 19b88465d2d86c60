"""Codecs read messages into columns and write columns as messages, without loss of values."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import Codec, EncodeError, SchemaError
from flowbuf.arrow.rows import RowReader
from flowbuf.schema import Schema
from tests.support.codec.messages import bytes_field, number_field, varint


@cache
def flat(body: str, syntax: str = "proto3") -> Codec:
    """Return the codec of a message with this body."""
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "flat.proto")
        path.write_text(f'syntax = "{syntax}"; package test; message Flat {{ {body} }}')
        return Codec.load(path, "Flat", enums="name")


def framed(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def rows(codec: Codec, stream: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = codec.read_columns(stream, strict=True).to_arrow().to_pylist()
    return found


def check_round_trips(codec: Codec, *messages: bytes) -> None:
    """Check that messages survive round trips through objects and through columns.

    Each message has one field, because the order of fields may differ.
    """
    stream = framed(*messages)
    assert codec.encode_many(codec.decode_many(stream)) == stream
    assert codec.encode_columns(codec.read_columns(stream, strict=True)) == stream


# Lists ------------------------------------------------------------------------------------------------------


def test_lists_of_strings_and_of_bytes_have_columns() -> None:
    codec = flat("repeated string names = 1; repeated bytes parts = 2;")
    texts, parts = bytes_field(1, b"a") + bytes_field(1, b""), bytes_field(2, b"\xff") + bytes_field(2, b"b")
    assert rows(codec, framed(texts, parts, b"")) == [
        {"names": ["a", ""], "parts": []},
        {"names": [], "parts": [b"\xff", b"b"]},
        {"names": [], "parts": []},
    ]
    check_round_trips(codec, texts, parts, b"")


@pytest.mark.parametrize("packed", ["", "[packed = false]", "[packed = true]"])
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_lists_of_numbers_are_read_packed_or_not(syntax: str, packed: str) -> None:
    codec = flat(f"repeated sint32 numbers = 1 {packed};", syntax)
    records = [{"numbers": [1, -2]}, {"numbers": []}]
    assert rows(codec, codec.encode_many(records)) == records
    assert codec.decode_many(codec.encode_columns(codec.read_columns(codec.encode_many(records)))) == records


# Enums ------------------------------------------------------------------------------------------------------

ALIASED = "enum Kind { option allow_alias = true; NIL = 0; NONE = 0; ONE = 1; FIRST = 1; } Kind kind = 1;"
NEGATIVE = """
    enum Kind { NIL = 0; MINUS = -1; LEAST = -2147483648; }
    Kind kind = 1; repeated Kind kinds = 2 [packed = false];
"""
WITHOUT_ZERO = "enum Kind { ONE = 1; TWO = 2; } optional Kind kind = 1; repeated Kind kinds = 2;"


def test_aliases_of_an_enum_number_are_read_as_its_first_name() -> None:
    """The option enums="name" does the same for objects."""
    codec = flat(ALIASED)
    one, strange = number_field(1, 1), number_field(1, 7)
    assert [row["kind"] for row in rows(codec, framed(b"", one, strange))] == [None, "ONE", "7"]
    assert codec.decode(one)["kind"] == "ONE"
    check_round_trips(codec, one, strange)
    assert codec.encode_columns(pa.table({"kind": [1, 7]})) == framed(one, strange)
    with pytest.raises(EncodeError, match=r"column 'kind', row 0: .*member"):
        codec.encode_columns(pa.table({"kind": ["FIRST"]}))


def test_enums_with_negative_numbers_become_columns_of_numbers() -> None:
    codec = flat(NEGATIVE)
    messages = [number_field(1, number) for number in (-1, -(2**31), 2**31 - 1, 7)]
    assert messages[0] == b"\x08" + b"\xff" * 9 + b"\1"
    assert [row["kind"] for row in rows(codec, framed(*messages))] == [-1, -(2**31), 2**31 - 1, 7]
    assert rows(codec, framed(b"")) == [{"kind": 0, "kinds": []}]
    check_round_trips(codec, *messages, number_field(2, -1) + number_field(2, 0))
    with pytest.raises(EncodeError, match="column 'kind'"):
        codec.encode_columns(pa.table({"kind": ["MINUS"]}))


def test_enums_without_zero_become_columns_of_numbers() -> None:
    codec = flat(WITHOUT_ZERO, "proto2")
    assert rows(codec, framed(b"", number_field(1, 2))) == [
        {"kind": None, "kinds": []},
        {"kind": 2, "kinds": []},
    ]
    check_round_trips(codec, b"", number_field(1, 2), number_field(2, 1) + number_field(2, 2))


def test_enums_with_names_that_schemas_refuse_become_columns_of_numbers() -> None:
    codec = flat("enum Kind { _NIL = 0; _ONE = 1; } Kind kind = 1;")
    assert rows(codec, framed(number_field(1, 1))) == [{"kind": 1}]
    check_round_trips(codec, number_field(1, 1))


def test_an_unknown_negative_number_ends_a_column_of_names() -> None:
    """The message is counted as bad, or raises an error if `strict`."""
    stream = flat(ALIASED).read_columns(framed(number_field(1, 1), number_field(1, -5)), strict=False)
    assert stream.to_arrow().to_pylist() == [{"kind": "ONE"}]
    assert stream.counters == {"bad_message": 1}


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_all_numbers_survive_a_column_of_numbers(numbers: list[int]) -> None:
    check_round_trips(flat(NEGATIVE), *(number_field(1, number) if number else b"" for number in numbers))


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_all_numbers_survive_a_column_of_names(numbers: list[int]) -> None:
    check_round_trips(flat(ALIASED), *(number_field(1, number) if number else b"" for number in numbers))


# Messages without fields, and fields without columns --------------------------------------------------------


def test_messages_without_fields_are_rows_without_columns() -> None:
    codec = flat("")
    stream = codec.read_columns(framed(b"", number_field(1, 5), b""))
    for table in (stream.to_arrow(), stream.to_polars(), stream.to_pandas()):
        assert table.shape == (3, 0)
    assert stream.counters == {"unknown_field": 1}
    assert [batch.to_arrow().num_rows for batch in codec.read_columns(b"\0" * 5, batch_rows=2)] == [2, 2, 1]
    assert codec.read_columns(b"").to_arrow().shape == (0, 0)
    assert codec.encode_columns(stream) == bytes(3)
    assert codec.encode_columns(stream.to_arrow()) == bytes(3)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("sfixed32 bad = 1;", "an sfixed32"),
        ("repeated sfixed64 bad = 1;", "an sfixed64"),
        ("oneof which { int32 bad = 1; string other = 2; }", "a member of oneof 'which'"),
        ("map<string, int32> bad = 1;", "a map"),
        ("Flat bad = 1;", "a message"),
        ("repeated Flat bad = 1;", "a message"),
    ],
)
def test_fields_that_a_schema_cannot_hold_are_named(body: str, kind: str) -> None:
    codec = flat(body)
    fix = "use read_columns and encode_columns, which need no schema"
    with pytest.raises(SchemaError) as caught:
        codec.schema  # noqa: B018
    assert str(caught.value) == f"Flat: column 'bad': is {kind}, which a schema cannot hold; {fix}"


# Required columns -------------------------------------------------------------------------------------------


SCHEMA = """
[schema]
name = "some"
rows = "records"
[[column]]
name = "number"
number = 1
type = "int64"
required = true
[[column]]
name = "text"
number = 2
type = "string"
required = true
[[column]]
name = "other"
number = 3
type = "double"
"""


def required_of_a_schema(folder: Path) -> Codec:
    path = folder / "some.toml"
    path.write_text(SCHEMA)
    return Codec.load(path)


def required_of_a_descriptor(folder: Path) -> Codec:
    return flat("required int64 number = 1; required string text = 2; optional double other = 3;", "proto2")


@pytest.mark.parametrize("make", [required_of_a_schema, required_of_a_descriptor])
def test_rows_must_have_required_values(make: Callable[[Path], Codec], tmp_path: Path) -> None:
    codec = make(tmp_path)
    numbers, texts = list(range(100)), [f"text {i}" for i in range(100)]
    good = pa.table({"number": numbers, "text": texts, "other": [None] * 100})
    assert len(codec.decode_many(codec.encode_columns(good))) == 100
    zeros = codec.encode_columns(pa.table({"number": [0], "text": [""]}))
    assert codec.decode_many(zeros)[0] == codec.decode(b"\x08\x00\x12\x00")
    gap = "null, where a value is required"
    for row in (0, 63, 64, 99):
        without = pa.array([None if i == row else text for i, text in enumerate(texts)])
        for text in (without, without.dictionary_encode()):
            check_refused(
                codec, pa.table({"number": numbers, "text": text}), f"column 'text', row {row}: {gap}"
            )
        number = pa.array([float("nan") if i == row else float(i) for i in range(100)])
        check_refused(
            codec, pa.table({"number": number, "text": texts}), f"column 'number', row {row}: {gap}"
        )
    check_refused(codec, pa.table({"number": pa.nulls(1), "text": ["a"]}), f"column 'number', row 0: {gap}")
    missing = f"column 'text' is missing; schema {codec.schema.name!r} requires it"
    check_refused(codec, pa.table({"number": [1], "other": [0.5]}), missing)
    late = pa.table({"number": [1, 2, None], "text": ["a", None, "b"]})
    check_refused(codec, late, f"column 'text', row 1: {gap}")


def check_refused(codec: Codec, table: pa.Table, problem: str) -> None:
    with pytest.raises(EncodeError) as caught:
        codec.encode_columns(table)
    assert str(caught.value) == problem


def test_a_null_row_has_no_required_values(tmp_path: Path) -> None:
    codec = required_of_a_schema(tmp_path)
    columns = [pa.array([1, 2]), pa.array(["a", "b"])]
    rows = pa.StructArray.from_arrays(columns, ["number", "text"], mask=pa.array([False, True]))
    check_refused(codec, rows, "column 'number', row 1: null, where a value is required")


KINDS = ("string", "bytes", "timestamp", "enum", "mac", "ip", "uint32", "double", "bool")


def of_every_kind(folder: Path, more: str, name: str = "all") -> Codec:
    """Return the codec of a message with a column of each kind. The schema has this name."""
    keys = {"timestamp": 'unit = "ms"', "enum": "values = { none = 0, one = 1 }"}
    inner = "message.all." if name != "all" else ""
    columns = "".join(
        f'[[{inner}column]]\nname = "{kind}_"\nnumber = {number}\ntype = "{kind}"\n'
        f"{keys.get(kind, '')}\n{more}\n"
        for number, kind in enumerate(KINDS, 1)
    )
    outer = '[[column]]\nname = "inner"\nnumber = 1\ntype = "message"\nmessage = "all"\n' if inner else ""
    path = folder / "some.toml"
    path.write_text(f'[schema]\nname = "{name}"\nrows = "records"\n{outer}{columns}')
    return Codec.load(path, "All")


ZEROS = {"string_": "", "bytes_": b"", "timestamp_": 0, "enum_": 0, "mac_": 0, "ip_": bytes(16)}
ZEROS |= {"uint32_": 0, "double_": 0.0, "bool_": False}
ONES = {"string_": "a", "bytes_": b"b", "timestamp_": 1, "enum_": 1, "mac_": 1, "ip_": b"\x20" + bytes(15)}
ONES |= {"uint32_": 1, "double_": 1.0, "bool_": True}


@pytest.mark.parametrize("more", ["required = true", "required = true\nexplicit = true", "explicit = true"])
def test_zeros_of_required_and_explicit_columns_are_values(more: str, tmp_path: Path) -> None:
    codec = of_every_kind(tmp_path, more)
    stream = codec.encode_many([ZEROS, ONES, ZEROS])
    flows = codec.read_columns(stream, strict=True)
    table = flows.to_arrow()
    assert sum(column.null_count for column in table.columns) == 0
    for columns in (flows, table, flows.to_pandas(), flows.text()):
        assert codec.decode_many(codec.encode_columns(columns)) == [ZEROS, ONES, ZEROS]


def test_absent_values_of_required_columns_are_zero(tmp_path: Path) -> None:
    codec = of_every_kind(tmp_path, "required = true")
    assert rows(codec, framed(b"")) == rows(codec, codec.encode_many([ZEROS]))
    assert codec.decode_many(codec.encode_columns(codec.read_columns(framed(b"")))) == [ZEROS]
    left_out = RowReader(codec.schema).read(codec.read_columns(framed(b"")).to_arrow().to_batches()[0])
    assert left_out == [{"ip_": bytes(16)}]  # zeros are omitted, but an address has no zero


# Limits of a schema -----------------------------------------------------------------------------------------


def test_columns_of_a_nested_message_have_the_limits_of_the_schema(tmp_path: Path) -> None:
    codec, whole = of_every_kind(tmp_path, "", "outer"), of_every_kind(tmp_path, "")
    assert codec.schema.columns == whole.schema.columns
    assert codec.encode_columns(pa.table({"ip_": ["192.0.2.1"]})) == codec.encode_many(
        [{"ip_": bytes(10) + b"\xff\xff\xc0\x00\x02\x01"}]
    )
    for name, value in (("ip_", b"abc"), ("mac_", 2**48), ("uint32_", 2**32), ("enum_", "two")):
        for write in (codec.encode_columns, whole.encode_columns):
            with pytest.raises(EncodeError, match=f"column '{name}', row 0: "):
                write(pa.table({name: [value]}))


def test_a_codec_keeps_a_schema_without_columns() -> None:
    """The length of such a schema is 0, so it is false."""
    schema = Schema.from_toml('[schema]\nname = "empty"\nrows = "records"\n')
    assert Codec(schema).schema is schema
