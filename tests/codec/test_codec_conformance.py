"""Valid and invalid messages, byte by byte. The codec and google.protobuf decode each case.

Both return the same values, or both refuse the message. Each intended difference has its own test.
"""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import EDITION_2023, FeatureSet, FileDescriptorProto, FileDescriptorSet

from flowbuf import UNKNOWN_FIELDS, Codec
from flowbuf.errors import DecodeError
from tests.support.codec.checks import EVERYTHING, NUMBERS, OLD, TREE, read, refuse
from tests.support.codec.messages import (
    bytes_field,
    comparable,
    group_field,
    make_codec,
    message_class,
    number_field,
    tag,
    varint,
)

# Truncated messages -----------------------------------------------------------------------------------------

CUT = {
    0: varint(300)[:1],
    1: bytes(7),
    2: varint(4) + b"abc",
    5: bytes(3),
}
"""A truncated value for each wire type."""


@pytest.mark.parametrize("wire", CUT)
@pytest.mark.parametrize(
    "number", [1, 2, 3, 9, 10, 14, 15, 31, 32, 34, 41, 50, 51, 52, 60, 72, 999, 536870911]
)
def test_truncated_values_are_refused(number: int, wire: int) -> None:
    encoded = tag(number, wire) + CUT[wire]
    refuse(encoded)
    refuse(tag(number, wire))
    refuse(number_field(3, 1) + encoded)
    refuse(bytes_field(50, encoded)) if number in (1, 2, 3, 999) else None
    refuse(bytes_field(51, bytes_field(4, encoded))) if number in (1, 2, 3, 999) else None
    refuse(group_field(999, encoded))


@pytest.mark.parametrize(
    "name", ["r_int32", "r_double", "r_float", "r_enum", "r_bool", "r_fixed32", "u_sint64", "u_fixed64"]
)
def test_truncated_packed_elements_are_refused(name: str) -> None:
    element = {"r_double": bytes(8), "r_float": bytes(4), "r_fixed32": bytes(4), "u_fixed64": bytes(8)}.get(
        name, varint(300)
    )
    read(bytes_field(NUMBERS[name], element * 2))
    for size in range(1, len(element)):
        error = refuse(bytes_field(NUMBERS[name], element + element[:size]))
        assert error.path.startswith(name)


def test_nested_messages_must_end_inside_their_parent() -> None:
    refuse(tag(50, 2) + varint(3) + number_field(2, 1))
    refuse(bytes_field(50, tag(3, 2) + varint(2)) + number_field(2, 1))
    refuse(bytes_field(60, tag(1, 2) + varint(5) + b"abc"))


def test_groups_must_end_with_their_own_number() -> None:
    for start, end in [(20, 21), (21, 20), (999, 998), (999, 20)]:
        refuse(tag(start, 3) + tag(end, 4), OLD)
    for alone in (20, 21, 999, 1):
        refuse(tag(alone, 4), OLD)
        refuse(tag(alone, 3), OLD)
        refuse(tag(alone, 3) + number_field(1, 2), OLD)
        refuse(bytes_field(40, tag(alone, 4)), OLD)
        refuse(tag(alone, 3) + bytes_field(40, tag(alone, 4)) + b"", OLD)
    refuse(group_field(999, tag(998, 3) + tag(999, 4)), OLD)
    refuse(tag(20, 3) + bytes_field(2, tag(20, 4)), OLD)


# Tags, lengths, varints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", range(8))
def test_field_number_zero_is_refused(wire: int) -> None:
    refuse(bytes([wire]) + bytes(8))
    with pytest.raises(DecodeError):  # google.protobuf does not check the fields of an unknown group
        EVERYTHING.decode(group_field(999, bytes([wire]) + bytes(8)))


@pytest.mark.parametrize("number", [1, 3, 14, 50, 60, 31, 999])
@pytest.mark.parametrize("wire", [6, 7])
def test_wire_types_6_and_7_are_refused(number: int, wire: int) -> None:
    refuse(tag(number, wire) + bytes(8))


def test_tags_may_have_up_to_five_bytes() -> None:
    for size in (1, 2, 3, 4, 5):
        assert read(varint(3 << 3, size) + b"\5")["f_int32"] == 5
        read(varint(999 << 3, max(size, 2)) + b"\5")
    for size in (6, 7, 10):
        refuse(varint(3 << 3, size) + b"\5")
        refuse(varint(999 << 3, size) + b"\5")
    refuse(varint((1 << 32) | 3 << 3) + b"\5")
    refuse(b"\x80" * 11)


def test_lengths_may_have_up_to_five_bytes() -> None:
    for number in (14, 15, 34, 50, 999):
        for size in (1, 2, 3, 4, 5):
            read(tag(number, 2) + varint(2, size) + number_field(2, 1))
        for size in (6, 10):
            refuse(tag(number, 2) + varint(2, size) + number_field(2, 1))
        for length in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1):
            refuse(tag(number, 2) + varint(length) + b"ab")


VARINTS = [
    "f_int32",
    "f_int64",
    "f_uint32",
    "f_uint64",
    "f_sint32",
    "f_sint64",
    "f_bool",
    "f_enum",
    "o_int32",
    "o_bool",
]


@pytest.mark.parametrize("name", VARINTS)
def test_varints_may_have_up_to_ten_bytes(name: str) -> None:
    begin = tag(NUMBERS[name], 0)
    for value in (0, 1, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1):
        for size in range(1, 11):
            read(begin + varint(value, size))
            read(begin + varint(value, size) + bytes_field(14, bytes(20)))
        refuse(begin + varint(value, 11))
        refuse(begin + varint(value, 11) + bytes(20))
    for last in (0x02, 0x7E, 0x7F):  # bits beyond the 64th
        read(begin + b"\x80" * 9 + bytes([last]))
        read(begin + b"\x81" * 9 + bytes([last]) + bytes_field(14, bytes(20)))
    refuse(begin + b"\xff" * 10 + b"\1")


def test_numbers_are_truncated_to_the_width_of_their_field() -> None:
    assert read(number_field(3, 2**32 + 7))["f_int32"] == 7
    assert read(number_field(3, 2**31))["f_int32"] == -(2**31)
    assert read(number_field(5, 2**40 + 9))["f_uint32"] == 9
    assert read(number_field(7, 2**33 + 3))["f_sint32"] == -2
    assert read(number_field(13, 2**63))["f_bool"] is True
    assert read(number_field(16, 2**32 + 5))["f_enum"] == 5
    assert read(number_field(4, -1))["f_int64"] == -1


# Repeated fields --------------------------------------------------------------------------------------------

SCALARS = {
    **dict.fromkeys(
        ("r_int32", "r_enum", "r_bool", "r_uint64", "u_sint64", "u_enum"),
        (0, [varint(0), varint(1), varint(2**33 + 1)]),
    ),
    **dict.fromkeys(("r_double", "r_sfixed64", "u_fixed64"), (1, [bytes(8), b"\1" * 8, b"\xff" * 8])),
    **dict.fromkeys(("r_float", "r_fixed32"), (5, [bytes(4), b"\1" * 4, b"\xfe" * 4])),
}


@pytest.mark.parametrize("name", SCALARS)
def test_elements_are_read_packed_and_not_packed(name: str) -> None:
    wire, elements = SCALARS[name]
    number = NUMBERS[name]
    packed = bytes_field(number, b"".join(elements))
    single = b"".join(tag(number, wire) + element for element in elements)
    three = comparable(read(packed)[name])
    assert len(three) == 3
    assert comparable(read(single)[name]) == three
    for encoded in (
        packed + single,
        single + packed,
        bytes_field(number, b"") + packed + number_field(3, 1) + packed,
    ):
        assert comparable(read(encoded)[name]) == three * 2
    assert read(bytes_field(number, b""))[name] == []


def test_packed_values_of_single_fields_are_unknown() -> None:
    for name in ("f_int32", "f_double", "f_bool", "o_int32", "f_fixed32", "c_int32"):
        encoded = bytes_field(NUMBERS[name], bytes(8))
        assert read(encoded)[UNKNOWN_FIELDS] == encoded


@pytest.mark.parametrize("wire", [0, 1, 2, 3, 5])
def test_a_field_of_another_wire_type_is_unknown(wire: int) -> None:
    contents = {0: varint(9), 1: bytes(8), 2: varint(8) + bytes(8), 5: bytes(4)}
    for codec in (EVERYTHING, OLD):
        for field in codec.message:
            if wire == 2 and (field.message is not None or field.type in ("string", "bytes")):
                continue  # the contents would be decoded
            end = tag(field.number, 4) if wire == 3 else b""
            read(tag(field.number, wire) + contents.get(wire, b"") + end, codec)


# Fields that occur several times ----------------------------------------------------------------------------


def test_the_last_value_of_a_field_is_used() -> None:
    encoded = number_field(3, 1) + bytes_field(14, b"a") + number_field(3, 2) + bytes_field(14, b"")
    record = read(encoded)
    assert record["f_int32"] == 2
    assert record["f_string"] == ""
    assert read(number_field(17, 5) + number_field(17, 0))["o_int32"] == 0
    assert read(number_field(3, 5) + number_field(3, 0))["f_int32"] == 0


def test_parts_of_a_message_are_merged() -> None:
    parts = [
        bytes_field(1, b"a") + number_field(2, 1),
        bytes_field(3, bytes_field(1, b"left")) + bytes_field(4, bytes_field(1, b"one")),
        number_field(2, 5) + bytes_field(3, number_field(2, 7)) + bytes_field(4, b"") + number_field(99, 1),
    ]
    record = read(b"".join(number_field(3, 1) + bytes_field(50, part) for part in parts))
    assert record["tree"]["name"] == "a"
    assert record["tree"]["weight"] == 5
    assert (record["tree"]["left"]["name"], record["tree"]["left"]["weight"]) == ("left", 7)
    assert len(record["tree"]["branches"]) == 2
    assert record["tree"][UNKNOWN_FIELDS] == number_field(99, 1)
    assert read(bytes_field(50, b""))["tree"] is not None
    refuse(bytes_field(50, parts[0]) + bytes_field(50, b"\x0f"))
    refuse(bytes_field(50, b"\x0f") + bytes_field(50, parts[0]))


def test_parts_of_a_time_are_merged() -> None:
    record = read(
        bytes_field(52, number_field(1, 5))
        + bytes_field(52, number_field(2, 7))
        + bytes_field(52, number_field(1, 6))
    )
    assert record["time"] == 6_000_000_007
    assert read(bytes_field(54, number_field(1, 5)) + bytes_field(54, number_field(2, 7)))["times"] == [
        5_000_000_000,
        7,
    ]
    refuse(bytes_field(52, b"\x08"))
    refuse(bytes_field(54, b"\x07"))


def test_elements_are_not_merged() -> None:
    assert [
        each["weight"] for each in read(bytes_field(51, number_field(2, 1)) + bytes_field(51, b""))["trees"]
    ] == [
        1,
        0,
    ]


def test_the_last_member_of_a_oneof_is_used() -> None:
    number, text, tree = number_field(70, 5), bytes_field(71, b"x"), bytes_field(72, bytes_field(1, b"t"))
    other, span = bytes_field(74, number_field(2, 3)), bytes_field(73, number_field(1, 1))
    for encoded, name in [
        (number + text, "c_string"),
        (text + number, "c_int32"),
        (number + tree, "c_tree"),
        (tree + number, "c_int32"),
        (tree + span, "c_span"),
        (span + tree + other, "c_other"),
        (number + number_field(70, 0), "c_int32"),
        (number + bytes_field(71, b""), "c_string"),
    ]:
        record = read(encoded)
        assert [key for key in record if key.startswith("c_") and record[key] is not None] == [name]
    merged = read(tree + bytes_field(72, number_field(2, 9)))["c_tree"]
    assert (merged["name"], merged["weight"]) == ("t", 9)
    replaced = read(tree + number + bytes_field(72, number_field(2, 9)))["c_tree"]
    assert (replaced["name"], replaced["weight"]) == ("", 9)
    both = read(number + number_field(80, 1))
    assert (both["c_int32"], both["d_bool"]) == (5, True)


def test_unknown_values_do_not_replace_a_member_of_a_oneof() -> None:
    assert read(number_field(70, 5) + number_field(71, 1))["c_int32"] == 5
    closed = read(bytes_field(50, b"x") + number_field(51, 99), OLD)
    assert closed["c_string"] == "x"
    assert closed[UNKNOWN_FIELDS] == number_field(51, 99)


# Groups and unknown fields ----------------------------------------------------------------------------------


def test_groups_are_decoded() -> None:
    inside = number_field(1, 5) + group_field(3, number_field(1, 6))
    record = read(
        group_field(20, inside) + group_field(21, bytes_field(11, b"a")) + group_field(21, b""), OLD
    )
    assert record["pair"]["a"] == 5
    assert record["pair"]["deep"]["d"] == 6
    assert [each["z"] for each in record["item"]] == ["a", None]
    merged = read(
        group_field(20, number_field(1, 5)) + group_field(20, bytes_field(2, number_field(1, 1))), OLD
    )
    assert (merged["pair"]["a"], merged["pair"]["inside"]["must"]) == (5, 1)
    assert read(group_field(52, number_field(1, 3)) + bytes_field(50, b"x"), OLD)["choice"] is None
    as_bytes = bytes_field(20, number_field(1, 5))
    assert read(as_bytes, OLD)[UNKNOWN_FIELDS] == as_bytes
    refuse(group_field(20, group_field(20, b"")[:-2]), OLD)


@pytest.mark.parametrize("number", [16, 127, 999, 19000, 2**29 - 1])
def test_unknown_fields_of_every_wire_type_are_kept(number: int) -> None:
    fields = [
        number_field(number, 0),
        number_field(number, -1),
        tag(number, 0) + varint(1, 10),
        tag(number, 1) + bytes(8),
        bytes_field(number, b""),
        bytes_field(number, b"\xff" * 300),
        tag(number, 5) + b"abcd",
        group_field(number, b""),
        group_field(number, number_field(1, 1) + group_field(2, bytes_field(3, b"x")) + tag(4, 5) + bytes(4)),
    ]
    known = number_field(2, 7)
    for each in fields:
        assert read(known + each, TREE) == {**read(known, TREE), UNKNOWN_FIELDS: each}
    assert read(known.join(fields), TREE)[UNKNOWN_FIELDS] == b"".join(fields)
    inside = read(
        bytes_field(3, fields[0]) + bytes_field(4, fields[5]) + bytes_field(5, bytes_field(2, fields[3])),
        TREE,
    )
    assert inside["left"][UNKNOWN_FIELDS] == fields[0]
    assert inside["branches"][0][UNKNOWN_FIELDS] == fields[5]
    assert inside["named"][""][UNKNOWN_FIELDS] == fields[3]


def test_numbers_of_extensions_are_unknown_fields() -> None:
    assert read(number_field(100, 5) + bytes_field(199, b"x"), OLD)[UNKNOWN_FIELDS] == number_field(
        100, 5
    ) + bytes_field(199, b"x")


def test_unknown_fields_of_a_time_are_not_kept() -> None:
    """This differs from google.protobuf, whose times are messages. Here they are datetimes or numbers."""
    encoded = bytes_field(52, number_field(1, 5) + number_field(3, 1))
    assert EVERYTHING.decode(encoded)["time"] == 5_000_000_000
    assert EVERYTHING.encode(EVERYTHING.decode(encoded)) == bytes_field(52, number_field(1, 5))


def test_empty_messages_and_messages_without_fields_are_decoded() -> None:
    assert read(b"") == read(number_field(3, 0))
    nothing = make_codec("Nothing", unknown_fields="keep")
    assert nothing.decode(b"") == {}
    assert nothing.encode({}) == b""
    assert read(number_field(1, 1), nothing) == {UNKNOWN_FIELDS: number_field(1, 1)}


def test_required_fields_may_be_absent_in_decoded_messages() -> None:
    """FromString() of google.protobuf accepts such messages, too. Both refuse to encode them."""
    old = make_codec("Old", unknown_fields="keep")
    assert old.decode(b"")["must"] is None
    assert not message_class("Old").FromString(b"").IsInitialized()


# Depth ------------------------------------------------------------------------------------------------------


def nested(levels: int, inside: bytes = b"", number: int = 3) -> bytes:
    for _ in range(levels):
        inside = bytes_field(number, inside)
    return inside


def test_messages_may_be_nested_100_deep() -> None:
    read(nested(100), TREE)
    assert "more than 100 messages" in str(refuse(nested(101), TREE))
    read(nested(99, bytes_field(6, b"")), TREE)
    refuse(nested(100, bytes_field(6, b"")), TREE)
    read(nested(98, bytes_field(5, b"")), TREE)
    refuse(nested(99, bytes_field(5, bytes_field(2, b""))), TREE)
    for codec in (TREE, TREE.message_class()):  # an empty entry contains no nested value
        (codec.decode if codec is TREE else codec.FromString)(nested(99, bytes_field(5, b"")))
    refuse(nested(10_000), TREE)
    refuse(b"\x1a" * 100_000, TREE)


def test_groups_may_be_nested_100_deep() -> None:
    for number in (20, 999):
        start, end = tag(number, 3), tag(number, 4)
        read(start * 100 + end * 100, TREE)
        refuse(start * 101 + end * 101, TREE)
        refuse(start * 100_000, TREE)


def test_times_may_be_groups() -> None:
    """Editions have such times with `features.message_encoding = DELIMITED`."""
    file = FileDescriptorProto(
        name="delimited.proto", package="test", syntax="editions", edition=EDITION_2023
    )
    file.dependency.append("google/protobuf/timestamp.proto")
    file.options.features.message_encoding = FeatureSet.DELIMITED
    kind = file.message_type.add(name="Delimited")
    for number, (name, label) in enumerate([("time", 1), ("times", 3)], 1):
        kind.field.add(name=name, number=number, label=label, type=11, type_name=".google.protobuf.Timestamp")
    codec = Codec(FileDescriptorSet(file=[file]), times="ns")
    expected = codec.message_class()()
    expected.time.FromNanoseconds(5_000_000_007)
    expected.times.add().FromNanoseconds(10**9)
    encoded = expected.SerializeToString(deterministic=True)
    record = {"time": 5_000_000_007, "times": [10**9]}
    assert codec.decode(encoded) == record
    assert codec.encode(record) == encoded


def test_columns_have_nulls_and_all_enum_numbers() -> None:
    """Objects of proto2 have the defaults of the descriptor, and omit unknown numbers of closed enums.

    Columns have neither: absent values are null, and unknown numbers are kept.
    """
    pa = pytest.importorskip("pyarrow")
    file = FileDescriptorProto(name="flat.proto", package="test", syntax="proto2")
    for name, number in (("NIL", 0), ("TWO", 2)):
        (file.enum_type[0] if file.enum_type else file.enum_type.add(name="Closed")).value.add(
            name=name, number=number
        )
    kind = file.message_type.add(name="Flat")
    kind.field.add(name="number", number=1, label=1, type=5, default_value="7")
    kind.field.add(name="kind", number=2, label=1, type=14, type_name=".test.Closed")
    kind.field.add(name="kinds", number=3, label=3, type=14, type_name=".test.Closed")
    codec = Codec(FileDescriptorSet(file=[file]), enums="name")
    nothing = {"number": None, "kind": None, "kinds": []}
    for message, kept, row in (
        (b"", {"number": 7}, {}),
        (b"\x10\x02\x10\x05", {"number": 7, "kind": "TWO"}, {"kind": "5"}),
        (b"\x18\x05\x18\x02", {"number": 7, "kinds": ["TWO"]}, {"kinds": ["5", "TWO"]}),
    ):
        assert codec.decode(message) == {**nothing, **kept}
        reader = pa.RecordBatchReader.from_stream(codec.read_columns(bytes([len(message)]) + message))
        assert reader.read_all().to_pylist() == [{**nothing, **row}]
