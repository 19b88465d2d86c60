"""The codec decodes maps, enums and text like google.protobuf."""

from __future__ import annotations

import pytest

from flowbuf import UNKNOWN_FIELDS
from flowbuf.errors import DecodeError
from tests.support.codec.checks import MAPS, OLD, read, refuse
from tests.support.codec.messages import (
    KEYS,
    bytes_field,
    make_codec,
    make_relaxed,
    message_class,
    number_field,
    tag,
    varint,
)

# Maps -------------------------------------------------------------------------------------------------------


def test_missing_keys_and_values_of_map_entries_are_zero() -> None:
    assert read(bytes_field(60, b""))["m_int32"] == {"": 0}
    assert read(bytes_field(60, number_field(2, 5)))["m_int32"] == {"": 5}
    assert read(bytes_field(60, bytes_field(1, b"a")))["m_int32"] == {"a": 0}
    assert read(bytes_field(62, b""))["m_tree"][False]["name"] == ""
    assert read(bytes_field(62, number_field(1, 1)))["m_tree"][True]["weight"] == 0
    assert read(bytes_field(65, b""))["m_time"] == {0: 0}
    assert read(bytes_field(66, b""))["m_span"] == {"": 0}
    assert read(bytes_field(30, b""), OLD)["m_enum"] == {"": 0}


def test_map_entries_may_have_fields_in_any_order_or_twice() -> None:
    key, other, value, later = (
        bytes_field(1, b"a"),
        bytes_field(1, b"b"),
        number_field(2, 5),
        number_field(2, 6),
    )
    assert read(bytes_field(60, value + key))["m_int32"] == {"a": 5}
    assert read(bytes_field(60, key + value + other))["m_int32"] == {"b": 5}
    assert read(bytes_field(60, value + key + later))["m_int32"] == {"a": 6}
    assert read(bytes_field(60, key + value) + bytes_field(60, key + later))["m_int32"] == {"a": 6}
    parts = number_field(1, 1) + bytes_field(2, bytes_field(1, b"x")) + bytes_field(2, number_field(2, 4))
    tree = read(bytes_field(62, parts))["m_tree"][True]
    assert (tree["name"], tree["weight"]) == ("x", 4)
    replaced = read(bytes_field(62, parts) + bytes_field(62, number_field(1, 1)))["m_tree"][True]
    assert (replaced["name"], replaced["weight"]) == ("", 0)


@pytest.mark.parametrize(("number", "key"), list(enumerate(KEYS, 1)))
def test_map_keys_of_every_type_are_decoded(number: int, key: str) -> None:
    wire = {"fixed32": 5, "sfixed32": 5, "fixed64": 1, "sfixed64": 1, "string": 2}.get(key, 0)
    for encoded in {
        0: [varint(0), varint(1), varint(2**32 + 2), varint(2**64 - 1)],
        1: [bytes(8), b"\xff" * 8],
        2: [varint(0), b"\1a", b"\2" + "é".encode()],
        5: [bytes(4), b"\xff" * 4],
    }[wire]:
        entry = bytes_field(number, tag(1, wire) + encoded + number_field(2, 3))
        assert list(read(entry * 2, MAPS)[f"by_{key}"].values()) == [3]
        refuse(bytes_field(number, tag(1, wire) + encoded[:-1]), MAPS)


def test_map_entries_with_malformed_contents_are_refused() -> None:
    refuse(bytes_field(60, b"\x07"))
    refuse(bytes_field(60, tag(1, 2) + b"\1\xff"))
    refuse(bytes_field(62, bytes_field(2, b"\x07")))
    assert (
        refuse(bytes_field(62, number_field(1, 1) + bytes_field(2, tag(1, 2) + b"\1\xff"))).path
        == "m_tree.value.name"
    )


@pytest.mark.parametrize("more", [number_field(3, 1), bytes_field(4, b"more"), bytes_field(2, b"5")])
def test_map_entries_with_unknown_fields_become_unknown_fields_if_kept(more: bytes) -> None:
    entry = more + bytes_field(1, b"a") + number_field(2, 5)
    record = read(bytes_field(60, entry) + bytes_field(60, bytes_field(1, b"b") + number_field(2, 6)))
    assert record["m_int32"] == {"b": 6}
    assert record[UNKNOWN_FIELDS] == bytes_field(60, entry)
    assert make_codec("Everything").decode(bytes_field(60, entry))["m_int32"] == {"a": 5}


# Enums ------------------------------------------------------------------------------------------------------


def test_open_enums_accept_any_number() -> None:
    for number in (99, -99, 2**31 - 1, -(2**31)):
        assert read(number_field(16, number))["f_enum"] == number
        assert read(bytes_field(36, varint(number) * 2))["r_enum"] == [number] * 2
        assert read(bytes_field(64, bytes_field(1, b"a") + number_field(2, number)))["m_enum"] == {
            "a": number
        }


def test_unknown_numbers_of_closed_enums_are_unknown_fields() -> None:
    single = read(number_field(8, 1) + number_field(8, 99), OLD)
    assert single["bare"] == 1
    assert single[UNKNOWN_FIELDS] == number_field(8, 99)
    assert read(number_field(4, 99), OLD)["o_enum"] == 2
    assert read(number_field(8, 2**32 + 1), OLD)["bare"] == 1
    assert read(number_field(8, -1), OLD)["bare"] == -1
    for number in (13, 14):
        name = OLD.message.fields[[field.number for field in OLD.message].index(number)].name
        mixed = b"".join(varint(each) for each in (1, 99, 2, -5, 70000, 0))
        assert read(bytes_field(number, mixed), OLD)[name] == [1, 2, 70000]
        assert read(b"".join(number_field(number, each) for each in (1, 99, 2)), OLD)[name] == [1, 2]


def test_map_entries_with_unknown_enum_numbers_are_unknown_fields() -> None:
    for entry in (
        bytes_field(1, b"a") + number_field(2, 99),
        number_field(2, 99) + bytes_field(1, b"a"),
        number_field(2, 99),
        bytes_field(1, b"a") + number_field(2, 99) + number_field(2, 2),
        bytes_field(1, b"a") + number_field(2, 2) + number_field(2, 99),
    ):
        record = read(
            bytes_field(30, bytes_field(1, b"b") + number_field(2, 2)) + bytes_field(30, entry), OLD
        )
        assert record["m_enum"] == {"b": 2}
        assert record[UNKNOWN_FIELDS] == bytes_field(30, entry)
        assert OLD.to_json(bytes_field(30, entry)) == "{}"
        assert '"mEnum":{}' in OLD.to_json(bytes_field(30, entry), defaults=True)
    skipping = make_relaxed("Old").decode(bytes_field(30, number_field(2, 99)))
    assert skipping["m_enum"] == {}
    assert UNKNOWN_FIELDS not in skipping
    refuse(bytes_field(30, number_field(2, 99) + b"\x07"), OLD)


# Text -------------------------------------------------------------------------------------------------------

BAD_TEXTS = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"a\x80",
    b"12345678\xc3",
    b"\xf8\x88\x80\x80\x80",
]


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_text_must_be_utf8(text: bytes) -> None:
    for encoded in (
        bytes_field(14, text),
        bytes_field(18, text),
        bytes_field(34, text),
        bytes_field(71, text),
        bytes_field(50, bytes_field(1, text)),
        bytes_field(60, bytes_field(1, text)),
        bytes_field(61, number_field(1, 1) + bytes_field(2, text)),
        bytes_field(14, text) + bytes_field(14, b"good"),
    ):
        refuse(encoded)
    assert read(bytes_field(15, text))["f_bytes"] == text
    read(bytes_field(999, text))


def test_text_of_proto2_must_be_utf8() -> None:
    """In contrast, google.protobuf accepts such a message and returns bytes as the value of the field."""
    encoded = bytes_field(3, b"\xff")
    theirs = message_class("Old").FromString(number_field(1, 1) + encoded)
    assert theirs.o_string == b"\xff"
    with pytest.raises(DecodeError, match="o_string: byte 2: a string that is not UTF-8"):
        OLD.decode(encoded)


@pytest.mark.parametrize(
    "text", ["", "\0", "é", "\U0010ffff", "\ud7ff\ue000", "a" * 200, "é" * 100, "1234567é"]
)
def test_text_may_have_any_character(text: str) -> None:
    assert read(bytes_field(14, text.encode()))["f_string"] == text
