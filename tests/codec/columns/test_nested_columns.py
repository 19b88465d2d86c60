"""Columns of messages that are not flat: Arrow types, values, projection, batches and damage."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError as ProtobufError

from flowbuf import Codec, DecodeError, SchemaError, _core
from tests.support.codec.messages import bytes_field, number_field
from tests.support.codec.shop import framed, load, row_of, some_orders, table_of

# Types ------------------------------------------------------------------------------------------------------


def test_each_field_has_its_arrow_type() -> None:
    line = (
        "struct<article: string not null, count: int32 not null, prices: list<item: double not null> not null"
    )
    line += ", rank: int32>"
    expected = {
        "id": "uint64",
        "first": line,
        "lines": f"list<item: {line} not null>",
        "stock": "map<string, int32>",
        "by_rank": f"map<int32, {line}>",
        "card": "string",
        "voucher": line,
        "cash": "int32",
        "state": "dictionary<values=string, indices=int32, ordered=0>",
        "states": "list<item: dictionary<values=string, indices=int32, ordered=0> not null>",
        "change": "int32",
        "created": "timestamp[us, tz=UTC]",
        "took": "duration[us]",
        "size": "int32",
        "note": "string",
        "times": "list<item: timestamp[us, tz=UTC] not null>",
        "any": "struct<type_url: string not null, value: binary not null>",
        "small": "int32",
        "large": "list<item: int64 not null>",
        "nick": "string",
        "raw": "binary",
        "tags": "list<item: string not null>",
        "deltas": "list<item: int32 not null>",
        "ratio": "float",
        "done": "bool",
        "flags": "list<item: bool not null>",
    }
    schema = pa.schema(load("Order").read_columns(b""))
    assert {field.name: str(field.type) for field in schema} == expected
    nullable = {"first", "card", "voucher", "cash", "created", "took", "size", "note", "any", "nick"}
    assert {field.name for field in schema if field.nullable} == nullable


def test_absent_fields_are_null_empty_or_zero() -> None:
    empty: dict[str, Any] = dict.fromkeys(
        ("first", "card", "voucher", "cash", "created", "took", "size", "note", "any", "nick")
    )
    lists = ("lines", "stock", "by_rank", "states", "times", "large", "tags", "deltas", "flags")
    empty |= {name: [] for name in lists}
    empty |= {"id": 0, "state": "NEW", "change": 0, "small": 0, "raw": b"", "ratio": 0.0, "done": False}
    assert row_of(load("Order")) == empty


def test_fields_with_presence_keep_zero_apart_from_absent() -> None:
    codec = load("Order")
    zeros = b"".join(bytes_field(number, b"") for number in (2, 6, 12, 13, 14, 15, 17, 20))
    row = row_of(codec, zeros)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert row["first"] == {"article": "", "count": 0, "prices": [], "rank": None}
    assert (row["card"], row["voucher"], row["created"], row["took"]) == (
        "",
        None,
        epoch,
        datetime.timedelta(),
    )
    assert (row["size"], row["note"], row["nick"]) == (0, "", "")
    assert row["any"] == {"type_url": "", "value": b""}
    assert codec.encode_columns(table_of(codec, zeros, b"")) == framed(zeros, b"")


def test_messages_without_fields_are_empty_structs() -> None:
    codec = load("Holder")
    messages = [b"", bytes_field(1, b""), bytes_field(2, b"") * 3]
    table = table_of(codec, *messages)
    assert table.to_pylist() == [
        {"empty": None, "more": []},
        {"empty": {}, "more": []},
        {"empty": None, "more": [{}, {}, {}]},
    ]
    assert codec.encode_columns(table) == framed(*messages)


def test_times_have_the_unit_of_the_option() -> None:
    created = bytes_field(12, number_field(1, 5) + number_field(2, 1_234_567))
    assert table_of(load("Order"), created)["created"].cast("int64").to_pylist() == [5_001_234]
    for times in ("ns", "datetime64"):
        codec = load("Order", times=times)
        assert table_of(codec, created)["created"].cast("int64").to_pylist() == [5_001_234_567]
        assert codec.encode_columns(table_of(codec, created)) == framed(created)
    before = bytes_field(12, number_field(1, (1 << 64) - 2) + number_field(2, 999_999_999))
    table = table_of(load("Order"), before)
    assert table["created"].cast("int64").to_pylist() == [-1_000_001]
    kept = bytes_field(12, number_field(1, (1 << 64) - 2) + number_field(2, 999_999_000))
    assert load("Order").encode_columns(table) == framed(kept)
    late = bytes_field(12, number_field(1, 1 << 60))
    with pytest.raises(DecodeError, match="column 'created': a value that its column cannot hold"):
        table_of(load("Order"), late)


def test_times_beyond_nanoseconds_are_told_apart_from_those_beyond_microseconds() -> None:
    codec = load("Order", times="ns")
    for seconds, problem in [
        (1 << 34, "a time that nanoseconds cannot hold; use microseconds"),
        ((1 << 64) - (1 << 34), "a time that nanoseconds cannot hold; use microseconds"),
        (1 << 50, "a value that its column cannot hold"),
    ]:
        for number in (12, 13, 16):
            with pytest.raises(DecodeError, match=f"column '[a-z]+': {problem}"):
                table_of(codec, bytes_field(number, number_field(1, seconds)))


def test_times_have_the_range_of_64_bits() -> None:
    codec = load("Order")
    for number in (-(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, -1, 0):
        table = pa.table({"times": pa.array([[number]], pa.list_(pa.timestamp("us", "UTC")))})
        again = codec.read_columns(codec.encode_columns(table), strict=True).to_arrow()
        assert again.column("times").cast(pa.list_(pa.int64())).to_pylist() == [[number]]


def test_numbers_of_every_type_have_their_range() -> None:
    codec = load("Limits")
    fields = codec.message_class().DESCRIPTOR.fields
    for extreme in (0, 1):
        message = codec.message_class()()
        for field in fields[:-1]:
            bits = 64 if "64" in field.name else 32
            signed = field.name[0] != "u" and field.name[0] != "f"
            values = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            setattr(message, field.name, values[extreme])
        stream = framed(message.SerializeToString())
        table = codec.read_columns(stream, strict=True).to_arrow()
        assert table.to_pylist()[0] == {
            **{field.name: getattr(message, field.name) for field in fields[:-1]},
            "nothing": None,
        }
        assert codec.encode_columns(table) == stream


# The rules of google.protobuf -------------------------------------------------------------------------------


def test_parts_of_a_message_are_merged() -> None:
    first = bytes_field(1, b"a") + bytes_field(3, b"")
    parts = [
        bytes_field(2, first + number_field(2, 5)),
        bytes_field(2, number_field(2, 6) + number_field(4, 0)),
    ]
    row = row_of(load("Order"), parts[0], number_field(1, 9), parts[1])
    assert row["first"] == {"article": "a", "count": 6, "prices": [], "rank": 0}
    times = bytes_field(12, number_field(1, 3)) + bytes_field(12, number_field(2, 5000))
    assert row_of(load("Order"), times)["created"].timestamp() == 3.000005
    wrapped = bytes_field(14, number_field(1, 3)) + bytes_field(14, b"")
    assert row_of(load("Order"), wrapped)["size"] == 3


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([bytes_field(6, b"x"), number_field(8, 0)], {"cash": 0}),
        ([number_field(8, 1), bytes_field(6, b"")], {"card": ""}),
        (
            [bytes_field(7, b"\x0a\x01a"), number_field(8, 2), bytes_field(7, b"\x10\x03")],
            {"voucher": ("", 3)},
        ),
        ([bytes_field(7, b"\x0a\x01a"), bytes_field(7, b"\x10\x03")], {"voucher": ("a", 3)}),
        ([bytes_field(6, b"x"), bytes_field(6, b"yy")], {"card": "yy"}),
        ([bytes_field(7, b"\x0a\x01a"), bytes_field(6, b"y")], {"card": "y"}),
    ],
)
def test_the_last_member_of_a_oneof_counts(fields: list[bytes], expected: dict[str, Any]) -> None:
    row = row_of(load("Order"), *fields)
    voucher = row["voucher"] and (row["voucher"]["article"], row["voucher"]["count"])
    found = {"card": row["card"], "voucher": voucher, "cash": row["cash"]}
    assert {name: value for name, value in found.items() if value is not None} == expected


def test_a_member_that_is_not_read_clears_the_others() -> None:
    message = bytes_field(6, b"x") + number_field(8, 1)
    assert table_of(load("Order"), message, columns=["card"]).to_pylist() == [{"card": None}]


def test_a_message_that_a_oneof_drops_leaves_nothing_behind() -> None:
    """Values of the dropped message are in lists, maps and texts of other rows' columns."""
    line = bytes_field(1, b"gone") + bytes_field(3, bytes(16)) + number_field(4, 1)
    messages = [bytes_field(7, line) + number_field(8, 1) + bytes_field(7, b""), bytes_field(7, line)] * 40
    rows = table_of(load("Order"), *messages, columns=["voucher"]).to_pylist()
    full = {"article": "gone", "count": 0, "prices": [0.0, 0.0], "rank": 1}
    assert (
        rows == [{"voucher": {"article": "", "count": 0, "prices": [], "rank": None}}, {"voucher": full}] * 40
    )


def test_the_last_entry_of_a_key_counts() -> None:
    def entry(key: bytes, value: int) -> bytes:
        return bytes_field(4, bytes_field(1, key) + number_field(2, value))

    row = row_of(
        load("Order"), entry(b"b", 1), entry(b"a", 2), number_field(1, 1), entry(b"b", 3), bytes_field(4, b"")
    )
    assert row["stock"] == [("", 0), ("a", 2), ("b", 3)]
    many = b"".join(entry(b"%d" % (number % 500), number) for number in range(20_000))
    found = dict(row_of(load("Order"), many)["stock"])
    assert found == {str(number % 500): number for number in range(20_000)}


def test_maps_in_parts_and_in_lists_are_merged_in_their_row() -> None:
    codec = load("Part")

    def entry(key: int, value: int) -> bytes:
        return bytes_field(7, number_field(1, key) + number_field(2, value))

    identity = number_field(1, 1)
    row = row_of(codec, identity, entry(1, 0), entry(2, 3), entry(1, 3))
    assert row["by_number"] == [(1, "SOME"), (2, "SOME")]
    whole = load("Whole")
    parts = bytes_field(1, entry(5, 0)) + bytes_field(2, identity + entry(7, 3)) + bytes_field(1, entry(5, 3))
    row = row_of(whole, parts)
    assert row["part"]["by_number"] == [(5, "SOME")]
    assert row["parts"][0]["by_number"] == [(7, "SOME")]


def test_numbers_that_a_closed_enum_lacks_are_unknown_fields() -> None:
    codec = load("Part")
    packed = bytes_field(3, b"\x00\x05\x03")
    stream = codec.read_columns(
        framed(number_field(1, 1) + number_field(2, 9) + packed + bytes_field(7, b"\x08\x01\x10\x09"))
    )
    assert stream.to_arrow().to_pylist() == [
        {
            **{"id": 1, "kind": None, "levels": ["NONE", "SOME"], "inner": None, "item": []},
            **{"preset": None, "by_number": []},
        }
    ]
    assert stream.counters == {"unknown_field": 3}


def test_open_enums_keep_numbers_without_a_member_as_digits() -> None:
    codec = load("Order")
    message = number_field(9, 7) + bytes_field(10, b"\x01\x07\x00\x08\x07")
    table = table_of(codec, b"", message, number_field(9, 1))
    assert [row["state"] for row in table.to_pylist()] == ["NEW", "7", "PAID"]
    assert table.to_pylist()[1]["states"] == ["PAID", "7", "NEW", "8", "7"]
    assert codec.encode_columns(table) == framed(b"", message, number_field(9, 1))
    with pytest.raises(DecodeError, match="column 'state': a value that its column cannot hold"):
        table_of(codec, number_field(9, (1 << 64) - 1))


def test_groups_are_structs() -> None:
    codec = load("Part")
    message = number_field(1, 1) + b"\x23\x08\x05\x24" + b"\x2b\x0a\x01x\x2c\x2b\x2c"
    row = row_of(codec, message)
    assert (row["inner"], row["item"]) == ({"value": 5}, [{"text": "x"}, {"text": None}])
    assert codec.encode_columns(table_of(codec, message)) == framed(message)


def test_elements_are_read_packed_or_not() -> None:
    codec = load("Order")
    unpacked = b"".join(b"\x99\x01" + number.to_bytes(8, "little") for number in (1, 2))
    packed = bytes_field(19, bytes([3]) + bytes(7))
    assert row_of(codec, unpacked, packed)["large"] == [1, 2, 3]
    assert row_of(codec, number_field(23, 1), bytes_field(23, b"\x02\x03"))["deltas"] == [-1, 1, -2]
    assert row_of(codec, bytes_field(26, b"\x01\x00"), number_field(26, 5))["flags"] == [True, False, True]


def test_fields_of_another_wire_type_and_unknown_fields_are_counted() -> None:
    stream = load("Order").read_columns(
        framed(
            bytes_field(1, b"x"),
            number_field(99, 1),
            bytes_field(2, number_field(50, 1)) + number_field(1, 7),
        )
    )
    assert [row["id"] for row in stream.to_arrow().to_pylist()] == [0, 0, 7]
    assert stream.counters == {"unknown_field": 3}


def test_text_that_is_not_utf8_is_replaced_and_counted() -> None:
    stream = load("Order").read_columns(
        framed(bytes_field(2, bytes_field(1, b"a\xffb")), bytes_field(22, b"\xc3"))
    )
    rows = stream.to_arrow().to_pylist()
    assert (rows[0]["first"]["article"], rows[1]["tags"]) == ("a\ufffdb", ["\ufffd"])
    assert stream.counters == {"invalid_utf8": 2}


# Projection -------------------------------------------------------------------------------------------------


def test_paths_choose_fields_inside_of_messages_and_lists() -> None:
    codec = load("Order")
    line = bytes_field(1, b"a") + number_field(2, 3)
    message = (
        number_field(1, 5)
        + bytes_field(3, line) * 2
        + bytes_field(5, number_field(1, 7) + bytes_field(2, line))
    )
    rows = table_of(codec, message, columns=["lines.count", "id", "by_rank.article"]).to_pylist()
    assert rows == [{"lines": [{"count": 3}, {"count": 3}], "id": 5, "by_rank": [(7, {"article": "a"})]}]
    whole = table_of(codec, message, columns=["lines", "lines.count"]).to_pylist()
    assert whole == [{"lines": [{"article": "a", "count": 3, "prices": [], "rank": None}] * 2}]
    assert list(rows[0]) == ["lines", "id", "by_rank"]


def test_fields_that_are_not_chosen_are_not_decoded() -> None:
    stream = load("Order").read_columns(
        framed(bytes_field(2, b"\xff\xff") + number_field(1, 3)), columns=["id"]
    )
    assert stream.to_arrow().to_pylist() == [{"id": 3}]
    assert stream.counters == {}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("idd", "there is no column 'idd'; did you mean id?"),
        ("lines.cuont", "there is no column 'lines.cuont'; did you mean count?"),
        ("id.x", "column 'id' has no columns inside; choose 'id'"),
        ("created.seconds", "column 'created' has no columns inside; choose 'created'"),
        ("zzzzzzzz", "there is no column 'zzzzzzzz'; known here: id, first, lines"),
    ],
)
def test_an_unknown_path_is_an_error(path: str, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        load("Order").read_columns(b"", columns=[path])
    assert f"shop.Order: {problem}" in str(caught.value)
    with pytest.raises(TypeError, match=re.escape(f"columns is {path!r}; pass a list of paths, such as [")):
        load("Order").read_columns(b"", columns=path)


def test_flat_messages_have_paths_too() -> None:
    codec = load("Line")
    stream = codec.encode_many([{"article": "a", "count": 3}])
    assert codec.read_columns(stream, columns=["count"]).to_arrow().to_pylist() == [{"count": 3}]
    with pytest.raises(SchemaError, match="count"):
        codec.read_columns(stream, columns=["cuont"])
    for use in (codec.read_columns, codec.encode_columns):
        with pytest.raises(TypeError, match="columns is 'count'; pass a list of"):
            use(stream, columns="count")


@pytest.mark.parametrize("message", ["Order", "Line"])
def test_columns_of_another_type_are_errors(message: str) -> None:
    codec = load(message)
    for use in (codec.read_columns, codec.encode_columns):
        with pytest.raises(TypeError, match=r"columns has 1; write (paths|names) as texts, such as '"):
            use(b"", columns=[1])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="columns is 5; pass a list of"):
            use(b"", columns=5)  # type: ignore[arg-type]


def test_a_type_that_contains_itself_needs_a_projection() -> None:
    codec = load("Tree")
    for use in (codec.read_columns, codec.encode_columns):
        with pytest.raises(SchemaError) as caught:
            use(b"")
        fix = "choose columns without it, with columns=[…]"
        assert str(caught.value) == f"shop.Tree: column 'left': is a shop.Tree inside itself; {fix}"
    with pytest.raises(SchemaError, match=r"column 'left\.left'"):
        codec.read_columns(b"", columns=["left"])
    message = bytes_field(1, b"root") + bytes_field(2, bytes_field(2, bytes_field(1, b"leaf")))
    rows = table_of(codec, message, columns=["name", "left.left.name", "named.name"]).to_pylist()
    assert rows == [{"name": "root", "left": {"left": {"name": "leaf"}}, "named": []}]


def test_types_that_are_too_deep_or_too_large_are_errors() -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    file = FileDescriptorProto(name="deep.proto", package="deep", syntax="proto3")
    for number in range(70):
        message = file.message_type.add(name=f"M{number}")
        message.field.add(name="value", number=1, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
        for name in ("next", "other") if number < 69 else ():
            message.field.add(
                name=name,
                number=2 + (name == "other"),
                type=Field.TYPE_MESSAGE,
                type_name=f".deep.M{number + 1}",
                label=Field.LABEL_OPTIONAL,
            )
    codec = Codec(FileDescriptorSet(file=[file]), "M0")
    with pytest.raises(SchemaError, match="is inside of more than 60 lists and messages"):
        codec.read_columns(b"")
    deep = ".".join(["next"] * 50 + ["value"])
    assert codec.read_columns(framed(b""), columns=[deep]).to_arrow().to_pylist() == [{"next": None}]
    large = Codec(FileDescriptorSet(file=[file]), "M50")
    with pytest.raises(SchemaError, match="is beyond the first 10,000 columns"):
        large.read_columns(b"")


# Batches and damage -----------------------------------------------------------------------------------------


def test_batches_have_the_rows_asked_for() -> None:
    codec, stream = load("Order"), some_orders(25)
    whole = codec.read_columns(stream).to_arrow()
    parts = codec.read_columns(stream, batch_rows=10)
    assert [len(batch) for batch in parts] == [10, 10, 5]
    assert parts.to_arrow().to_pylist() == whole.to_pylist()
    assert parts[7:23].to_arrow().to_pylist() == whole.to_pylist()[7:23]
    assert next(iter(codec.read_columns(stream)))[3:5].to_arrow().to_pylist() == whole.to_pylist()[3:5]
    assert parts.select("lines", "id").to_arrow().equals(parts.to_arrow().select(["lines", "id"]))
    with pytest.raises(SchemaError, match="has no column 'idd'; did you mean id"):
        parts.select("idd")
    for unavailable in (lambda: parts.schema, lambda: parts.filter("id = 1")):
        with pytest.raises(SchemaError, match="only for flat messages"):
            unavailable()
    with pytest.raises(ValueError, match="2 to"):
        codec.read_columns(stream, batch_rows=1)


def test_batches_outlive_their_reader_and_each_other() -> None:
    codec, stream = load("Order"), some_orders(300)
    expected = codec.read_columns(stream).to_arrow().to_pylist()
    arrays = [batch.to_arrow() for batch in codec.read_columns(stream, batch_rows=100)]
    columns = [batch.column("lines") for batch in arrays]
    del arrays
    found = [value for column in columns for value in column.to_pylist()]
    assert found == [row["lines"] for row in expected]


def test_files_are_read_in_windows(tmp_path: Path) -> None:
    codec, stream = load("Order"), some_orders(200) * 40
    assert len(stream) > 2 << 20
    path = tmp_path / "orders.pb"
    path.write_bytes(stream)
    assert codec.read_columns(path).to_arrow().equals(codec.read_columns(stream).to_arrow())


def test_every_prefix_ends_at_the_last_whole_message() -> None:
    codec, stream = load("Order"), some_orders(4)
    rows = codec.read_columns(stream).to_arrow().to_pylist()
    ends = [0]
    for message in _core.split_messages(stream):
        ends.append(ends[-1] + len(message))
    for size in range(len(stream)):
        part = codec.read_columns(stream[:size], strict=False)
        count = sum(end <= size for end in ends) - 1
        assert part.to_arrow().to_pylist() == rows[:count]
        assert part.counters == ({} if size in ends else {"bad_message": 1})


def test_a_damaged_byte_never_changes_rows_before_it() -> None:
    codec, stream = load("Order"), some_orders(3)
    rows = codec.read_columns(stream).to_arrow().to_pylist()
    first = len(_core.split_messages(stream)[0])
    for place in range(len(stream)):
        for bit in (1, 0x80):
            damaged = bytearray(stream)
            damaged[place] ^= bit
            table = codec.read_columns(damaged, strict=False).to_arrow()
            table.validate(full=True)
            if place >= first:
                assert table.to_pylist()[0] == rows[0]


def damaged_messages() -> list[bytes]:
    """Return prefixes of messages, and messages with another byte."""
    codec = load("Order")
    messages = [codec.encode(example) for example in codec.examples(6, seed=3)]
    found = [message[:size] for message in messages for size in range(len(message))]
    for message in messages[:3]:
        for place in range(len(message)):
            found += [
                message[:place] + bytes([message[place] ^ bit]) + message[place + 1 :] for bit in (1, 4, 0x80)
            ]
    return found


def test_bytes_behind_a_message_do_not_matter() -> None:
    """The reader looks beyond the end of a message if the input goes on. It must not use what is there."""
    codec = load("Order")
    taken = 0
    for message in damaged_messages():
        alone = codec.read_columns(framed(message), strict=False).to_arrow().to_pylist()
        try:
            codec.message_class().FromString(message)
        except ProtobufError as error:
            if "UTF-8" not in str(error):  # such texts are repaired
                assert alone == []
        for behind in (b"", b"\x01" * 40, b"\xff" * 40):
            more = framed(message, b"x" * 10 + behind + bytes(64))
            rows = codec.read_columns(more, strict=False).to_arrow().to_pylist()
            assert repr(rows[:1]) == repr(alone)
        taken += len(alone)
    assert 500 < taken < len(damaged_messages()) - 500


def test_damage_is_named_with_its_field_and_offset() -> None:
    codec = load("Order")
    for message, offset, problem in [  # the name of the column is also the path
        (bytes_field(2, b"\x0a\x05a"), 3, "column 'first.article': a length beyond the end of the message"),
        (b"\x08\xff", 1, "column 'id': a varint that is cut short"),
        (bytes_field(3, b"\x1a\x03abc"), 3, "column 'lines.prices': a malformed element"),
        (bytes_field(4, b"\x0a"), 1, "column 'stock': a length that is cut short"),
        (b"\x00", 1, "a field of number 0"),
    ]:
        with pytest.raises(DecodeError) as caught:
            table_of(codec, message)
        assert str(caught.value) == f"bytes: byte {offset}: {problem}"
        assert (caught.value.path or "a field") in problem
        assert caught.value.offset == offset
