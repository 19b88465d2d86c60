"""Lists in records (RFC 6313): basicList fills repeated columns. Unread structures are counted."""

from __future__ import annotations

from typing import Any

import pytest

from flowbuf.schema import Schema
from tests.support.datagrams import (
    VARIABLE,
    Specifier,
    basic_list,
    data_set,
    ip,
    ipfix,
    template,
    template_set,
    u8,
    u16,
    u32,
    uint,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns, ipfix_record

pytestmark = both_decoders

NONE_OF, ALL_OF, ORDERED, UNDEFINED = 0, 3, 4, 255


def listed(number: int, content: bytes) -> bytes:
    """Return a datagram with one record of one list."""
    return ipfix_record([(number, VARIABLE)], variable(content))


def any_list(type: str, repeated: bool = True, **keys: Any) -> Schema:
    """Return a schema with one column of the element basicList (291)."""
    return columns().add("v", 1000, type, ["ipfix:basicList"], repeated=repeated, **keys)


# Lists of the registry that flow.toml reads: element, member, members, column, values.
COMMUNITIES = [u32(64500 << 16 | 1), u32(64500 << 16 | 2)]
LARGE = [u32(64500) + u32(1) + u32(2), u32(64501) + u32(3) + u32(4)]
SEGMENTS = [ip("2001:db8::1"), ip("2001:db8::2")]
READ: list[tuple[int, Specifier, list[bytes], str, list[Any]]] = [
    (484, (483, 4), COMMUNITIES, "src_communities", [0xFBF40001, 0xFBF40002]),
    (485, (483, 4), COMMUNITIES, "dst_communities", [0xFBF40001, 0xFBF40002]),
    (490, (489, 12), LARGE, "src_large_communities", LARGE),
    (491, (489, 12), LARGE, "dst_large_communities", LARGE),
    (496, (494, 16), SEGMENTS, "ipv6_routing_header_addresses", SEGMENTS),
    (511, (16, 4), [u32(64500), u32(4200000000)], "src_as_path", [64500, 4200000000]),
    (512, (17, 4), [u32(64500), u32(4200000000)], "dst_as_path", [64500, 4200000000]),
    (512, (17, 2), [u16(64500), u16(64501)], "dst_as_path", [64500, 64501]),
]


@pytest.mark.parametrize(("number", "member", "members", "column", "values"), READ)
def test_lists_of_routes_fill_their_columns(
    decode: Decode, number: int, member: Specifier, members: list[bytes], column: str, values: list[Any]
) -> None:
    for semantic in (1, 2, ALL_OF, ORDERED, UNDEFINED):
        content = basic_list(member, *members, semantic=semantic)
        assert decode(listed(number, content), schema=columns(column)).flow == {column: values}
    lengths = basic_list((member[0], VARIABLE), *map(variable, members))
    assert decode(listed(number, lengths), schema=columns(column)).flow == {column: values}


def test_lists_swap_ends_in_a_reverse_flow(decode: Decode) -> None:
    fields: list[Specifier] = [(484, VARIABLE), (512, VARIABLE), (2, 4, 29305)]
    record = variable(basic_list((483, 4), u32(7))) + variable(basic_list((17, 4), u32(64500))) + u32(1)
    schema = columns("src_communities", "dst_communities", "src_as_path", "dst_as_path")
    assert decode(ipfix_record(fields, record), schema=schema).flows == [
        {"src_communities": [7], "dst_as_path": [64500]},
        {"dst_communities": [7], "src_as_path": [64500]},
    ]


# Type of the column, keys, member, members, values.
MEMBERS: list[tuple[str, dict[str, Any], Specifier, list[bytes], list[Any]]] = [
    ("uint64", {}, (1, 3), [u8(0) + u16(5), bytes(3), uint(1 << 20, 3)], [5, 0, 1 << 20]),
    ("sint32", {}, (434, 2), [u16(0xFFFF), u16(0), u16(1)], [-1, 0, 1]),
    ("int64", {}, (7, 2), [u16(0xFFFF)], [0xFFFF]),
    ("int64", {}, (1, 2, 9999), [u16(0xFFFF)], [-1]),
    ("fixed32", {}, (7, 2), [u16(9)], [9]),
    ("bool", {}, (276, 1), [u8(1), u8(2)], [True, False]),
    ("bool", {}, (7, 2), [u16(0), u16(5)], [False, True]),
    ("double", {}, (311, 4), [bytes.fromhex("3f000000"), bytes(4)], [0.5, 0.0]),
    ("double", {}, (311, 8), [bytes.fromhex("3fe0000000000000")], [0.5]),
    ("float", {}, (7, 2), [u16(3)], [3.0]),
    (
        "ip", {}, (8, 4),
        [ip("10.0.0.1"), ip("0.0.0.0"), ip("10.0.0.2")], [ip("::ffff:10.0.0.1"), ip("::ffff:10.0.0.2")],
    ),
    ("ip", {"ip": "native"}, (8, 4), [ip("10.0.0.1")], [ip("10.0.0.1")]),
    ("mac", {}, (56, 6), [uint(0x020000000001, 6)], [0x020000000001]),
    (
        "string", {}, (82, VARIABLE),
        [variable(b"eth0\0"), variable(b""), variable(b"eth1", True)], ["eth0", "", "eth1"],
    ),
    ("bytes", {}, (95, VARIABLE), [variable(b"\0\1"), variable(b"")], [b"\0\1", b""]),
    ("bytes", {}, (7, 2), [u16(1), u16(0)], [b"\0\1", b"\0\0"]),
    ("timestamp", {"unit": "s"}, (150, 4), [u32(5), u32(0), u32(6)], [5, 6]),
    ("timestamp", {"unit": "ms"}, (152, 8), [uint(5, 8), bytes(8)], [5]),
    ("timestamp", {"unit": "us"}, (154, 8), [u32(2_208_988_801) + u32(1 << 31)], [1_500_000]),
    ("timestamp", {"unit": "ms"}, (158, 4), [u32(500_000)], [1_599_999_999_500]),
    ("duration", {"unit": "ms"}, (162, 4), [u32(5000), u32(0)], [5, 0]),
    ("duration", {"unit": "s"}, (21, 4), [u32(5000)], [5]),
    (
        "enum", {"values": {"none": 0, "one": 1, "two": 2}, "map": {"7": 1, "8": 2}}, (61, 1),
        [u8(8), u8(7)], [2, 1],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("type", "keys", "member", "members", "values"), MEMBERS)
def test_members_of_every_type_are_read(
    decode: Decode,
    type: str,
    keys: dict[str, Any],
    member: Specifier,
    members: list[bytes],
    values: list[Any],
) -> None:
    datagram = ipfix_record(
        [(291, VARIABLE)], variable(basic_list(member, *members)), export_time=1_600_000_000
    )
    assert decode(datagram, schema=any_list(type, **keys)).flow == {"v": values}
    single = decode(datagram, schema=any_list(type, repeated=False, **keys)).flow
    assert single == {"v": next(value for value in values if value)}


# Invalid and truncated lists: content, remaining values, counters. The column is uint16.
BROKEN: list[tuple[bytes, list[int], dict[str, int]]] = [
    (b"", [], {}),
    (basic_list((7, 2)), [], {}),
    *[(basic_list((7, 2))[:size], [], {"bad_list": 1}) for size in range(1, 5)],
    (basic_list((7, 2, 9999), u16(1))[:7], [], {"bad_list": 1}),
    (basic_list((7, 2), u16(1), u8(0)), [1], {"bad_list": 1}),
    (basic_list((7, 0)), [], {}),
    (basic_list((7, 0), u16(1)), [], {"bad_list": 1}),
    (basic_list((7, VARIABLE), variable(u16(1)), u8(3) + u16(2)), [1], {"bad_list": 1}),
    (basic_list((7, VARIABLE), variable(u16(1)), u8(255) + u8(0)), [1], {"bad_list": 1}),
    (basic_list((7, VARIABLE), variable(b""), variable(u16(2))), [2], {}),
    (basic_list((7, 3), uint(1, 3), uint(1 << 16, 3), uint(2, 3)), [1, 2], {"out_of_range": 1}),
    (basic_list((7, 9), uint(1, 9)), [], {"bad_field_size": 1}),
    (basic_list((7, 2), u16(1), semantic=NONE_OF), [], {"opaque_value": 1}),
    (basic_list((82, 4), b"eth0"), [], {"bad_list": 1}),
    (basic_list((8, 4), ip("10.0.0.1")), [], {"bad_list": 1}),
    (basic_list((291, 7), basic_list((7, 2), u16(1))), [], {"bad_list": 1}),
    (basic_list((292, 7), bytes(7)), [], {"bad_list": 1}),
    (basic_list((999, 2), u16(1)), [1], {}),
]


def test_times_out_of_range_are_omitted_from_a_list(decode: Decode) -> None:
    last = 2**63 // 1_000_000
    content = basic_list((152, 8), uint(7, 8), uint(last + 1, 8), uint(last, 8))
    outcome = decode(listed(291, content), schema=any_list("timestamp", unit="ns"))
    assert outcome.flow == {"v": [7_000_000, last * 1_000_000]}
    assert outcome.counters == {"out_of_range": 1}


@pytest.mark.parametrize(("content", "values", "counters"), BROKEN)
def test_invalid_lists_are_counted(
    decode: Decode, content: bytes, values: list[int], counters: dict[str, int]
) -> None:
    outcome = decode(listed(291, content), schema=any_list("uint16"))
    assert outcome.flow == ({"v": values} if values else {})
    assert outcome.counters == counters


def test_the_first_list_with_members_fills_the_column(decode: Decode) -> None:
    fields: list[Specifier] = [(485, VARIABLE), (291, VARIABLE)]
    schema = columns().add("v", 1000, "uint32", [["ipfix:291", "ipfix:485"]], repeated=True)
    lists = [basic_list((483, 4), *members) for members in ([], [u32(1)], [u32(2), u32(3)])]
    records = [variable(lists[i]) + variable(lists[k]) for i, k in ((0, 2), (1, 2), (0, 0))]
    outcome = decode(ipfix(template_set(template(256, *fields)), data_set(256, *records)), schema=schema)
    assert outcome.flows == [{"v": [2, 3]}, {"v": [1]}, {}]


def test_structures_and_256_bit_numbers_are_bytes(decode: Decode) -> None:
    fields: list[Specifier] = [(292, VARIABLE), (293, 5), (515, 32), (520, 4), (1, 2)]
    record = variable(b"\4\1\0abc") + b"12345" + bytes(31) + u8(7) + u32(9) + u16(5)
    schema = columns("bytes")
    for number, element in enumerate(
        ("subTemplateList", "subTemplateMultiList", "ipv6ExtensionHeadersFull", "tcpOptionsFull")
    ):
        schema = schema.add(element, 1000 + number, "bytes", [f"ipfix:{element}"])
    outcome = decode(ipfix_record(fields, record), schema=schema)
    assert outcome.flow == {
        "bytes": 5,
        "subTemplateList": b"\4\1\0abc",
        "subTemplateMultiList": b"12345",
        "ipv6ExtensionHeadersFull": bytes(31) + b"\7",
        "tcpOptionsFull": u32(9),
    }
    assert outcome.counters == {"opaque_value": 4, "bad_list": 2}  # no records can be read from the two lists
