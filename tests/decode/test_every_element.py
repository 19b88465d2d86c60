"""Any registered or enterprise element becomes a column with TOML alone, of any suitable type.

The expected values follow from the data types of RFC 7011 section 6.1 and from the descriptions of the
registry. They share no rules with the decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import elements
from flowbuf.schema.elements import Element
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.types import TYPES
from tests.support.datagrams import (
    VARIABLE,
    Specifier,
    data_set,
    ip,
    ipfix,
    netflow9,
    options_template,
    options_template_set,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns, decode_with

EXPORTED = 1_600_000_000  # s
STARTED = 1_599_000_000_000  # ms, of the exporter
UPTIME = EXPORTED * 1000 - STARTED  # ms, at the export

# Encodings of an element in several lengths, with their values.
Sent = list[tuple[bytes, Any]]

UNSIGNED_BITS = {"unsigned8": 8, "unsigned16": 16, "unsigned32": 32, "unsigned64": 64}
UPTIMES, DELTAS, RESPONDER = (21, 22), (158, 159), (232, 299)
SPANS = {"seconds": 1_000_000_000, "milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}


def unsigned(bits: int) -> Sent:
    """Return encodings of reduced and of larger size (section 6.2), with their values."""
    sizes = [*range(1, 9)]
    return [(uint(min(77, (1 << bits) - 1), size), 77) for size in sizes] + [
        (uint((1 << bits) - 1, bits // 8), (1 << bits) - 1)
    ]


def ntp(seconds_since_1970: int, fraction: int) -> bytes:
    return u32(seconds_since_1970 + 2_208_988_800) + u32(fraction)


FLOATS: Sent = [
    (struct.pack(">d", 0.1), 0.1),
    (struct.pack(">f", 0.5), 0.5),
    (struct.pack(">d", -1e300), -1e300),
]
NATURAL: dict[str, tuple[str, dict[str, Any], Sent]] = {
    **{name: (f"uint{bits}", {}, unsigned(bits)) for name, bits in UNSIGNED_BITS.items()},
    "signed32": (
        "sint32",
        {},
        [(uint((1 << 8 * size) - 5, size), -5) for size in range(1, 9)] + [(u8(0x7F), 127)],
    ),
    "float64": ("double", {}, FLOATS),
    "boolean": (
        "bool",
        {"explicit": True},
        [(u8(1), True), (u8(2), False), (u16(1), True), (u8(0), None), (u8(3), None)],
    ),
    "macAddress": ("mac", {}, [(bytes.fromhex("02005e10ff01"), 0x02005E10FF01)]),
    "octetArray": ("bytes", {}, [(b"\0\1\0", b"\0\1\0"), (b"\0", b"\0"), (bytes(300), bytes(300))]),
    "string": (
        "string",
        {},
        [
            (b"eth0\0\0", "eth0"),
            ("Zürich".encode(), "Zürich"),
            (b"a\xffb", "a\ufffdb"),
            (b"\0\0", None),
            (b"a\0b", "a\0b"),
        ],
    ),
    "ipv4Address": ("ip", {"ip": "native"}, [(ip("192.0.2.1"), ip("192.0.2.1")), (bytes(4), None)]),
    "ipv6Address": (
        "ip",
        {},
        [
            (ip("2001:db8::1"), ip("2001:db8::1")),
            (bytes(16), None),
            (ip("::ffff:192.0.2.1"), ip("::ffff:192.0.2.1")),
        ],
    ),
    "dateTimeSeconds": (
        "timestamp",
        {"unit": "s"},
        [(u32(1_500_000_000), 1_500_000_000), (uint(1_500_000_000, 8), 1_500_000_000)],
    ),
    "dateTimeMilliseconds": (
        "timestamp",
        {"unit": "ms"},
        [(uint(1_500_000_000_123, 8), 1_500_000_000_123), (uint(5, 2), 5)],
    ),
    # The low 11 bits of the fraction are ignored (section 6.1.9). Microseconds are rounded: 0.492060 s.
    "dateTimeMicroseconds": (
        "timestamp",
        {"unit": "us"},
        [(ntp(1_500_000_000, 0x7DF7A1FF), 1_500_000_000_492_060)],
    ),
    "dateTimeNanoseconds": (
        "timestamp",
        {"unit": "ns"},
        [(ntp(1_500_000_000, 1 << 30), 1_500_000_000_250_000_000)],
    ),
    "basicList": (
        "uint32",
        {"repeated": True},
        [
            (u8(3) + u16(7) + u16(2) + u16(5) + u16(0), [5, 0]),
            (u8(3) + u16(7) + u16(VARIABLE) + u8(1) + u8(9), [9]),
        ],
    ),
    **dict.fromkeys(
        ("subTemplateList", "subTemplateMultiList", "unsigned256"),
        ("bytes", {}, [(bytes(31) + b"\1", bytes(31) + b"\1"), (b"\7", b"\7")]),
    ),
}


def special(element: Element) -> Iterator[tuple[str, dict[str, Any], Sent]]:
    """Yield the other meanings of an element by its description and unit: a time or a duration."""
    if element.id in UPTIMES:
        yield "timestamp", {"unit": "ms"}, [(u32(5000), STARTED + 5000), (u16(5000), STARTED + 5000)]
    elif element.id in DELTAS:
        yield "timestamp", {"unit": "us"}, [(u32(2_500_000), EXPORTED * 1_000_000 - 2_500_000)]
    elif element.data_type in UNSIGNED_BITS and element.units in SPANS:
        yield "duration", {"unit": "ns"}, [(uint(7, size), 7 * SPANS[element.units]) for size in (1, 2)]


def datagrams(protocol: str, number: int, encoded: bytes, enterprise: int = 0) -> list[bytes]:
    """Return datagrams with the start of the exporter and with records of only this field.

    The field has its own size in the first record, and a variable length in the second.
    """
    if protocol == "netflow9":
        fields = template_set9(template(256, (number, len(encoded))), template(257, (number, VARIABLE)))
        records = data_set(256, encoded) + data_set(257, variable(encoded))
        return [netflow9(fields, records, uptime=UPTIME % (1 << 32), seconds=EXPORTED)]
    options = options_template(300, [(149, 4)], [(160, 8)])
    start = ipfix(
        options_template_set(options), data_set(300, u32(0) + uint(STARTED, 8)), export_time=EXPORTED
    )
    tail = (enterprise,) if enterprise else ()
    fixed: Specifier = (number, len(encoded), *tail)  # type: ignore[assignment]
    free: Specifier = (number, VARIABLE, *tail)  # type: ignore[assignment]
    sets = [
        template_set(template(256, fixed), template(257, free)),
        data_set(256, encoded),
        data_set(257, variable(encoded)),
    ]
    return [start, ipfix(*sets, export_time=EXPORTED)]


def check(
    decode: Decode, source: str, number: int, type: str, keys: dict[str, Any], sent: Sent, enterprise: int = 0
) -> None:
    """Check the values of a column with only this source, for every protocol and length."""
    schema = columns().add("v", 1000, type, [source], **keys)
    for encoded, value in sent:
        expected = {} if value is None or (not value and not keys.get("explicit")) else {"v": value}
        for protocol in ("ipfix",) if enterprise else ("ipfix", "netflow9"):
            flows = decode(*datagrams(protocol, number, encoded, enterprise), schema=schema).flows
            if number in RESPONDER and not enterprise:  # it makes a second flow, without the value
                assert not any(flows[1::2])
                flows = flows[::2]
            assert flows == [expected] * 2, (source, type, protocol, encoded)


BY_TYPE = {
    data_type: [element for element in elements.all() if element.data_type == data_type]
    for data_type in NATURAL
}


def test_every_data_type_of_the_registry_has_a_case() -> None:
    assert {element.data_type for element in elements.all()} == set(NATURAL)
    assert sum(map(len, BY_TYPE.values())) == len(elements.all()) > 490


@pytest.mark.parametrize(
    "decode",
    [
        pytest.param(decode_with("core"), id="core"),
        pytest.param(decode_with("reference"), id="reference", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("data_type", NATURAL)
def test_every_registered_element_can_be_a_column(decode: Decode, data_type: str) -> None:
    for element in BY_TYPE[data_type]:
        for type, keys, sent in (NATURAL[data_type], *special(element)):
            if element.name == "tcpControlBits":
                sent = [(encoded, value and int(value) & 0x0FFF) for encoded, value in sent]
            check(decode, f"ipfix:{element.name}", element.id, type, keys, sent)


@both_decoders
def test_the_data_offset_above_the_control_bits_is_ignored(decode: Decode) -> None:
    """RFC 7125 section 3: a collector ignores the upper four of sixteen bits, and none of eight bits."""
    for encoded, value in ((b"\xf1\xff", 0x1FF), (b"\x50\x02", 2), (b"\xff", 0xFF), (b"\xf0\x00", None)):
        for protocol in ("ipfix", "netflow9"):
            flows = decode(*datagrams(protocol, 6, encoded, 0), schema=columns().enable("tcp_flags")).flows
            assert {flow.get("tcp_flags") for flow in flows} == {value}, (protocol, encoded)


# The type of the column determines the meaning of an enterprise element. Times have the unit of the column.
WHOLE: Sent = [(u8(7), 7), (uint(7, 3), 7), (uint(7, 8), 7), (uint(7, 9), None)]
ENTERPRISE: dict[str, tuple[dict[str, Any], Sent]] = {
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "mac", "fixed32", "fixed64"), ({}, WHOLE)),
    **dict.fromkeys(
        ("int32", "int64", "sint32", "sint64"), ({}, [*WHOLE, (u8(0xFF), -1), (u32(0xFFFFFFFE), -2)])
    ),
    "bool": ({}, [(u8(1), True), (u16(2), None)]),
    "float": ({}, [(struct.pack(">f", 0.5), 0.5), (struct.pack(">d", 0.25), 0.25), (u16(1), None)]),
    "double": ({}, FLOATS),
    "string": ({}, NATURAL["string"][2]),
    "bytes": ({}, NATURAL["octetArray"][2]),
    "ip": (
        {},
        [(ip("2001:db8::1"), ip("2001:db8::1")), (ip("192.0.2.1"), ip("::ffff:192.0.2.1")), (b"abc", None)],
    ),
    "timestamp": ({"unit": "ms"}, WHOLE),
    "duration": ({"unit": "s"}, WHOLE),
    "enum": ({"values": {"none": 0, "seven": 7}}, WHOLE),
}


def test_every_type_has_a_case_with_an_enterprise_element() -> None:
    assert set(ENTERPRISE) == set(TYPES)


@both_decoders
@pytest.mark.parametrize("type", ENTERPRISE)
def test_any_enterprise_element_can_be_a_column(decode: Decode, type: str) -> None:
    keys, sent = ENTERPRISE[type]
    check(decode, "ipfix:9999/321", 321, type, keys, sent, enterprise=9999)
    check(decode, "ipfix:600", 600, type, keys, sent)


# Suitable types other than the natural one: source, type, keys, encodings with their values.
OTHERS: list[tuple[str, str, dict[str, Any], Sent]] = [
    ("octetDeltaCount", "int32", {}, [(u32(7), 7), (uint(1 << 31, 4), None), (u8(0xFF), 255)]),
    ("octetDeltaCount", "double", {}, [(u32(7), 7.0)]),
    ("octetDeltaCount", "bool", {}, [(u32(7), True)]),
    ("octetDeltaCount", "bytes", {}, [(u32(7), u32(7))]),
    ("protocolIdentifier", "enum", {"values": {"other": 0, "tcp": 6}}, [(u8(6), 6), (u8(17), None)]),
    ("mibObjectValueInteger", "double", {}, [(u8(0xFF), -1.0)]),
    ("samplingProbability", "float", {}, [(struct.pack(">d", 0.5), 0.5), (struct.pack(">d", 1e300), None)]),
    ("dataRecordsReliability", "uint8", {}, [(u8(1), 1), (u8(2), None)]),
    ("sourceMacAddress", "uint64", {}, [(uint(5, 6), 5)]),
    ("sourceMacAddress", "bytes", {}, [(uint(5, 6), uint(5, 6))]),
    ("sourceIPv4Address", "bytes", {}, [(ip("192.0.2.1"), ip("192.0.2.1"))]),
    ("applicationId", "uint64", {}, [(u32(13 << 24 | 5), 13 << 24 | 5)]),
    ("applicationId", "string", {}, [(b"abc", "abc")]),
    ("srhSegmentIPv6ListSection", "ip", {}, [(ip("2001:db8::1"), ip("2001:db8::1"))]),
    ("flowStartSeconds", "timestamp", {"unit": "ms"}, [(u32(5), 5000)]),
    ("flowStartSeconds", "uint32", {}, [(u32(5), 5)]),
    ("flowStartNanoseconds", "timestamp", {"unit": "s"}, [(ntp(9, 0xFFFFFFFF), 10)]),
    ("flowStartSysUpTime", "uint32", {}, [(u32(5000), 5000)]),
    ("flowStartSysUpTime", "duration", {"unit": "s"}, [(u32(5999), 5)]),
    ("flowDurationMilliseconds", "double", {}, [(u32(5), 5.0)]),
    ("flowDurationMilliseconds", "duration", {"unit": "s"}, [(u32(5999), 5)]),
    ("basicList", "uint32", {}, [(u8(3) + u16(7) + u16(2) + u16(0) + u16(5), 5)]),
]


@both_decoders
@pytest.mark.parametrize(("name", "type", "keys", "sent"), OTHERS)
def test_other_suitable_types_hold_an_element(
    decode: Decode, name: str, type: str, keys: dict[str, Any], sent: Sent
) -> None:
    element = elements.by_name(name)
    assert element is not None
    check(decode, f"ipfix:{name}", element.id, type, keys, sent)


INTEGERS = [
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "mac",
    "fixed32",
    "fixed64",
    "int32",
    "int64",
    "sint32",
    "sint64",
]
SIGNED = ["int32", "int64", "sint32", "sint64"]
NUMBERS = [*INTEGERS, "bool", "enum", "float", "double"]
# Element -> the suitable types of columns, except bytes, which is always suitable.
HOLDERS = {
    "octetDeltaCount": NUMBERS,
    "sourceMacAddress": NUMBERS,
    "flowDurationMilliseconds": [*NUMBERS, "duration"],
    "flowStartSysUpTime": [*NUMBERS, "timestamp", "duration"],
    "flowStartDeltaMicroseconds": [*NUMBERS, "timestamp", "duration"],
    "mibObjectValueInteger": [*SIGNED, "float", "double"],
    "samplingProbability": ["float", "double"],
    "dataRecordsReliability": ["uint8", "uint16", "uint32", "uint64", "mac", "bool", "enum"],
    "sourceIPv4Address": ["ip"],
    "sourceIPv6Address": ["ip"],
    "interfaceName": ["string"],
    "applicationId": [*INTEGERS, "string", "ip"],
    **{
        f"flowStart{unit}": [*INTEGERS, "timestamp"]
        for unit in ("Seconds", "Milliseconds", "Microseconds", "Nanoseconds")
    },
    **{name: [] for name in ("subTemplateList", "subTemplateMultiList", "tcpOptionsFull")},
    "basicList": [type for type in TYPES if type != "bytes"],
}


@pytest.mark.parametrize("name", HOLDERS)
def test_the_error_for_an_unsuitable_type_lists_the_suitable_types(name: str) -> None:
    holders = {*HOLDERS[name], "bytes"}
    for type, (keys, _) in ENTERPRISE.items():
        schema = columns().add("v", 1000, type, [f"ipfix:{name}"], **keys)
        if type in holders:
            compile_plan(schema)
            continue
        with pytest.raises(SchemaError) as caught:
            compile_plan(schema)
        assert f"source ipfix:{name} cannot fill a column of type {type}" in str(caught.value)
        assert set(str(caught.value).rpartition("hold it: ")[2].rstrip(")").split(", ")) == holders


def test_an_unsuitable_fixed_source_is_an_error() -> None:
    with pytest.raises(SchemaError, match="choose another type or source"):
        compile_plan(columns().add("v", 1000, "string", ["meta:source_port"]))


def test_mirrored_columns_have_one_type() -> None:
    mirror = {"name": "w", "number": 1001, "type": "uint64", "sources": ["ipfix:17"]}
    schema = columns().add("v", 1000, "uint32", ["ipfix:16"], mirror=mirror)
    compile_plan(schema)  # widths may differ
    mirror["type"] = "string"
    with pytest.raises(SchemaError, match="mirror 'w' has another type, string"):
        compile_plan(
            columns().add("v", 1000, "uint32", ["ipfix:16"], mirror={**mirror, "sources": ["ipfix:82"]})
        )
