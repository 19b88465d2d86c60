"""Columns of google.protobuf.Struct, Value and ListValue, which are JSON texts."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import struct_pb2

import flowbuf
from flowbuf import Codec, DecodeError, EncodeError, SchemaError
from tests.support.codec.messages import bytes_field, number_field
from tests.support.codec.shop import check_refused, framed, load, row_of


def test_struct_value_and_list_value_are_json_texts() -> None:
    codec = load("Document")
    documents = [
        {
            **{
                "body": {"b": [None, True], "a": {"x": 1.5}},
                "value": flowbuf.NULL,
                "values": ["é", None, {}],
            },
            **{"lists": {"k": [1.0], "e": []}, "one": {}},
        },
        {"title": "x", "other": 2},
        {"value": "text", "values": []},
    ]
    stream = codec.encode_many(documents)
    table = codec.read_columns(stream, strict=True).to_arrow()
    assert table.schema.field("body") == pa.field("body", pa.string())
    assert str(table.schema.field("values").type) == "list<item: string not null>"
    assert str(table.schema.field("lists").type) == "map<string, string>"
    empty = {"title": "", "body": None, "value": None, "values": [], "lists": [], "one": None, "other": None}
    assert table.to_pylist() == [
        empty
        | {"body": '{"a":{"x":1.5},"b":[null,true]}', "value": "null", "values": ['"é"', "null", "{}"]}
        | {"lists": [("e", "[]"), ("k", "[1.0]")], "one": "{}"},
        empty | {"title": "x", "other": 2},
        empty | {"value": '"text"'},
    ]
    assert codec.encode_columns(table) == stream
    with pytest.raises(SchemaError, match="column 'body' has no columns inside"):
        codec.read_columns(stream, columns=["body.fields"])


def test_parts_of_a_struct_are_merged_and_dropped_with_their_oneof() -> None:
    codec = load("Document")
    one, other = (struct_pb2.Struct(fields={k: struct_pb2.Value(number_value=1)}) for k in "ab")
    parts = [each.SerializeToString() for each in (one, other)]
    for number, name in ((2, "body"), (6, "one")):
        assert row_of(codec, *(bytes_field(number, part) for part in parts))[name] == '{"a":1.0,"b":1.0}'
        assert row_of(codec, bytes_field(number, b""), bytes_field(number, b""))[name] == "{}"
    dropped = row_of(codec, bytes_field(6, parts[0]), number_field(7, 1))
    assert (dropped["one"], dropped["other"]) == (None, 1)
    again = row_of(codec, bytes_field(6, parts[0]), number_field(7, 1), bytes_field(6, parts[1]))
    assert (again["one"], again["other"]) == ('{"b":1.0}', None)
    # many parts take time in proportion to their bytes
    entries = [struct_pb2.Struct(fields={f"{i}": struct_pb2.Value(bool_value=True)}) for i in range(20_000)]
    text = row_of(codec, *(bytes_field(2, each.SerializeToString()) for each in entries))["body"]
    assert len(json.loads(text)) == 20_000


def test_entries_without_a_value_have_the_text_of_an_empty_message() -> None:
    codec = load("Document")
    entry = bytes_field(1, b"k")
    stream = framed(bytes_field(5, entry), bytes_field(5, entry + bytes_field(2, b"")), bytes_field(5, b""))
    table = codec.read_columns(stream).to_arrow()
    assert table["lists"].to_pylist() == [[("k", "[]")], [("k", "[]")], [("", "[]")]]
    assert codec.decode_many(codec.encode_columns(table)) == codec.decode_many(stream)


def test_json_with_malformed_utf8_is_repaired_and_counted() -> None:
    codec = load("Document")
    value = bytes_field(3, b'a\xff\xe6\x97\xa5"\xc3')
    body = bytes_field(1, bytes_field(1, b"\xfe") + bytes_field(2, value))
    columns = codec.read_columns(framed(bytes_field(3, value), bytes_field(2, body), bytes_field(1, b"x")))
    table = columns.to_arrow()
    assert table["value"].to_pylist() == ['"a\ufffd日\\"\ufffd"', None, None]
    assert table["body"].to_pylist() == [None, '{"\ufffd":"a\ufffd日\\"\ufffd"}', None]
    assert columns.counters == {"invalid_utf8": 3}
    with pytest.raises(DecodeError, match="not UTF-8"):
        codec.to_json(bytes_field(3, value))


@pytest.mark.parametrize("kind", [struct_pb2.Struct, struct_pb2.Value, struct_pb2.ListValue])
def test_a_message_that_is_json_has_no_columns(kind: Any) -> None:
    codec = Codec(kind)
    for use in (codec.read_columns, codec.encode_columns):
        with pytest.raises(SchemaError, match="is JSON, not a message with columns; use to_json_lines"):
            use(b"")


def test_values_without_json_are_errors_at_their_offset() -> None:
    codec = load("Document")
    nan = struct_pb2.Value(number_value=math.nan).SerializeToString()
    for number, name in ((3, "value"), (4, "values")):
        stream = framed(bytes_field(1, b"ok"), bytes_field(number, nan))
        with pytest.raises(DecodeError) as caught:
            codec.read_columns(stream, strict=True).to_arrow()
        problem = f"column '{name}': NaN or infinity in a google.protobuf.Value"
        offset = len(framed(bytes_field(1, b"ok"))) + 3
        assert str(caught.value) == f"bytes: byte {offset}: {problem}"
        assert (caught.value.path, caught.value.offset) == (name, offset)
        assert codec.read_columns(stream, strict=False).to_arrow()["title"].to_pylist() == ["ok"]
    cut = framed(bytes_field(2, bytes_field(1, b"\x0a\x05a")))
    with pytest.raises(DecodeError, match=r"bytes: byte [0-9]+: column 'body': "):
        codec.read_columns(cut, strict=True).to_arrow()
    deep = b""
    for _ in range(150):
        deep = bytes_field(6, bytes_field(1, deep))
    with pytest.raises(DecodeError, match="column 'value': more than 100 messages"):
        codec.read_columns(framed(bytes_field(3, deep)), strict=True).to_arrow()


@pytest.mark.parametrize(
    ("columns", "path", "problem"),
    [
        ({"body": ["{}", "[1]"]}, "[1].body", "byte 0: an object is expected here"),
        (
            {"body": ['{"a": {"b": 1e999}}']},
            "[0].body",
            "byte 12: a number that does not fit double: 1e999",
        ),
        ({"body": ['{"a":']}, "[0].body", "byte 5: "),
        ({"value": ["1 2"]}, "[0].value", "byte 2: "),
        ({"value": [""]}, "[0].value", "byte 0: "),
        ({"values": [["1", "nul"]]}, "[0].values[1]", "byte 0: "),
        ({"value": ["[" * 200]}, "[0].value", "byte 50: more than 100 messages inside each other"),
    ],
)
def test_texts_that_are_not_json_are_named_with_their_place(
    columns: dict[str, Any], path: str, problem: str
) -> None:
    check_refused("Document", columns, path, f"the text is not JSON that the field can hold: {problem}")


def test_texts_of_json_may_have_any_arrow_type_of_texts() -> None:
    codec = load("Document")
    texts = ['{"a": [1]}', None, '{"a": [1]}', "{}"]
    expected = codec.encode_many([{"body": {"a": [1]}}, {}, {"body": {"a": [1]}}, {"body": {}}])
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    for kind in kinds:
        assert codec.encode_columns(pa.table({"body": pa.array(texts).cast(kind)})) == expected
    with pytest.raises(EncodeError, match="column 'body': values of this type cannot fill the column"):
        codec.encode_columns(pa.table({"body": [1]}))
