"""Structured data of RFC 6313 in any nesting: basicList, subTemplateList, subTemplateMultiList."""

from __future__ import annotations

from typing import Any

import pytest

from flowbuf.schema import Schema
from tests.reference.structured import DEPTH
from tests.support.datagrams import (
    VARIABLE,
    Specifier,
    basic_list,
    data_set,
    ip,
    ipfix,
    mapped,
    options_template,
    options_template_set,
    sub_template_list,
    sub_template_multi_list,
    template,
    template_set,
    u8,
    u16,
    u32,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns

pytestmark = both_decoders

BASIC, SUB, MULTI = 291, 292, 293
PORTS, HOSTS, NESTED = 401, 402, 403
INNER = [
    template(PORTS, (7, 2), (11, 2)),
    template(HOSTS, (BASIC, VARIABLE)),
    template(NESTED, (4, 1), (SUB, VARIABLE)),
]
NONE_OF, EXACTLY_ONE_OF, ONE_OR_MORE_OF, ALL_OF, ORDERED, UNDEFINED = 0, 1, 2, 3, 4, 255


def schema_of(*lines: tuple[str, str, Any], **keys: Any) -> Schema:
    schema = columns("packets")
    for number, (name, type, source) in enumerate(lines):
        schema = schema.add(name, 1000 + number, type, [source], **keys)
    return schema


INTERFACES = schema_of(("interface", "uint32", "ipfix:14"))
ALL_INTERFACES = schema_of(("interfaces", "uint32", "ipfix:14"), repeated=True)
ALL_PORTS = schema_of(("ports", "uint16", "ipfix:7"), repeated=True)


def record_of(element: int, content: bytes, long_form: bool = False) -> bytes:
    """Build a datagram with one record: packetDeltaCount and a list."""
    templates = template_set(*INNER, template(256, (2, 4), (element, VARIABLE)))
    return ipfix(templates, data_set(256, u32(1) + variable(content, long_form)))


@pytest.mark.parametrize("semantic", [EXACTLY_ONE_OF, ONE_OR_MORE_OF, ALL_OF, ORDERED, UNDEFINED, 77])
def test_members_of_a_basic_list_fill_the_columns_of_their_element(decode: Decode, semantic: int) -> None:
    """RFC 6313 section 8.1: the egressInterface (14) of a multicast packet, for each copy."""
    content = basic_list((14, 4), *map(u32, (9, 10, 11)), semantic=semantic)
    for long_form in (False, True):
        payload = record_of(BASIC, content, long_form)
        assert decode(payload, schema=INTERFACES).flow == {"packets": 1, "interface": 9}
        assert decode(payload, schema=ALL_INTERFACES).flow == {"packets": 1, "interfaces": [9, 10, 11]}


def test_a_list_of_no_values_gives_none(decode: Decode) -> None:
    """RFC 6313 section 4.4.1: noneOf."""
    outcome = decode(record_of(BASIC, basic_list((14, 4), u32(9), semantic=NONE_OF)), schema=INTERFACES)
    assert (outcome.flow, outcome.counters) == ({"packets": 1}, {"opaque_value": 1})


@pytest.mark.parametrize(
    ("element", "content"),
    [
        (BASIC, basic_list((14, 4))),
        (BASIC, basic_list((110, VARIABLE, 6871))),
        (SUB, sub_template_list(PORTS)),
        (MULTI, sub_template_multi_list()),
        (MULTI, sub_template_multi_list((PORTS, b""), (HOSTS, b""))),
        (BASIC, basic_list((BASIC, VARIABLE), variable(b""), variable(basic_list((14, 4))))),
        (SUB, b""),
        (BASIC, b""),
    ],
)
def test_empty_lists(decode: Decode, element: int, content: bytes) -> None:
    outcome = decode(record_of(element, content), schema=ALL_INTERFACES)
    assert (outcome.flow, outcome.counters) == ({"packets": 1}, {})


def test_elements_of_an_enterprise_in_a_basic_list(decode: Decode) -> None:
    """YAF: basicLists of variable-length elements of CERT (6871), in records inside a record."""
    schema = schema_of(("hosts", "string", "ipfix:6871/110"), repeated=True)
    hosts = basic_list((110, VARIABLE, 6871), variable(b"a.example"), variable(b""), variable(b"b" * 300))
    expected = {"packets": 1, "hosts": ["a.example", "b" * 300]}
    assert decode(record_of(BASIC, hosts), schema=schema).flow == expected
    assert (
        decode(record_of(MULTI, sub_template_multi_list((HOSTS, variable(hosts)))), schema=schema).flow
        == expected
    )
    other = basic_list((110, VARIABLE, 9), variable(b"a"), variable(b"b"))
    outcome = decode(record_of(BASIC, other), schema=schema)
    assert (outcome.flow, outcome.counters) == ({"packets": 1}, {"list_element_ignored": 2})


def test_the_outer_record_and_earlier_members_have_priority(decode: Decode) -> None:
    schema = schema_of(("address", "ip", "ipfix:8"))
    templates = template_set(template(256, (BASIC, VARIABLE), (8, 4)))
    content = variable(basic_list((8, 4), ip("192.0.2.1"), ip("192.0.2.2")))
    outer = ipfix(templates, data_set(256, content + ip("192.0.2.9")))
    assert decode(outer, schema=schema).flow == {"address": mapped("192.0.2.9")}
    unset = ipfix(templates, data_set(256, content + bytes(4)))
    assert decode(unset, schema=schema).flow == {"address": mapped("192.0.2.1")}


def test_zero_members(decode: Decode) -> None:
    """Zero is a member. In a single column it is a value only if the column says so."""
    payload = record_of(BASIC, basic_list((14, 4), u32(0), u32(5)))
    assert decode(payload, schema=ALL_INTERFACES).flow == {"packets": 1, "interfaces": [0, 5]}
    absent = schema_of(("interface", "uint32", "ipfix:14"), zero="absent")
    assert decode(payload, schema=absent).flow == {"packets": 1, "interface": 5}
    explicit = schema_of(("interface", "uint32", "ipfix:14"), explicit=True)
    assert decode(payload, schema=explicit).flow == {"packets": 1, "interface": 0}


def test_lists_of_lists(decode: Decode) -> None:
    """A member of a basicList may be any of the three lists (RFC 6313 section 4.3)."""
    ports = [u16(80) + u16(1), u16(81) + u16(2), u16(82) + u16(3)]
    subs = [variable(sub_template_list(PORTS, *some)) for some in (ports[:2], ports[2:])]
    multi = variable(sub_template_multi_list((PORTS, b"".join(ports[:2])), (PORTS, ports[2])))
    plain = [variable(basic_list((7, 2), *map(u16, some))) for some in ((80, 81), (82,))]
    for content in (
        basic_list((SUB, VARIABLE), *subs),
        basic_list((MULTI, VARIABLE), multi),
        basic_list((BASIC, VARIABLE), *plain),
        basic_list((BASIC, 9), basic_list((7, 2), u16(80), u16(81)), basic_list((7, 2), u16(82), u16(0))),
    ):
        outcome = decode(record_of(BASIC, content), schema=ALL_PORTS)
        assert outcome.flow["ports"][:3] == [80, 81, 82]
        assert not outcome.counters.get("bad_list")


@pytest.mark.parametrize("depth", range(1, DEPTH + 2))
def test_lists_of_lists_are_read_up_to_a_limit(decode: Decode, depth: int) -> None:
    content = basic_list((7, 2), u16(80))
    for _ in range(depth - 1):
        content = basic_list((BASIC, VARIABLE), variable(content))
    outcome = decode(record_of(BASIC, content), schema=ALL_PORTS)
    deep = depth > DEPTH
    assert outcome.flow == {"packets": 1, **({} if deep else {"ports": [80]})}
    assert outcome.counters == ({"bad_list": 1} if deep else {})


@pytest.mark.parametrize("element", [443, 444, 516, 519])
def test_elements_whose_data_type_is_a_list_of_records(decode: Decode, element: int) -> None:
    """RFC 8038: mibObjectValueTable, mibObjectValueRow. RFC 9740: lists of IPv6 extension headers."""
    content = sub_template_list(PORTS, u16(80) + u16(1), u16(81) + u16(2))
    assert decode(record_of(element, content), schema=ALL_PORTS).flow == {"packets": 1, "ports": [80, 81]}


def test_a_basic_list_that_fills_a_column_is_not_opened(decode: Decode) -> None:
    schema = schema_of(("list", "uint32", "ipfix:291"), ("ports", "uint16", "ipfix:7"), repeated=True)
    outcome = decode(record_of(BASIC, basic_list((7, 2), u16(80))), schema=schema)
    assert (outcome.flow, outcome.counters) == ({"packets": 1, "list": [80]}, {})


def test_lists_in_options_are_skipped(decode: Decode) -> None:
    """Records of options give no flows. Their lists neither help nor disturb the rates they have."""
    fields: list[Specifier] = [(305, 4), (306, 4), (SUB, VARIABLE), (BASIC, VARIABLE), (MULTI, VARIABLE)]
    options = options_template_set(options_template(300, [(302, 4)], fields))
    lists = sub_template_list(PORTS, bytes(4)), basic_list((305, 4), u32(7)), b"\3\1"
    record = u32(5) + u32(1) + u32(9) + b"".join(map(variable, lists))
    flow = template_set(template(256, (302, 4), (2, 4))), data_set(256, u32(5) + u32(3))
    outcome = decode(ipfix(options, data_set(300, record), *flow), schema=columns("sampling_rate", "packets"))
    assert (outcome.flow, outcome.counters) == ({"sampling_rate": 10, "packets": 3}, {})


def test_a_list_of_records_of_options_is_refused(decode: Decode) -> None:
    options = options_template_set(options_template(300, [(302, 4)], [(305, 4)]))
    outcome = decode(ipfix(options), record_of(SUB, sub_template_list(300, bytes(8))), schema=ALL_PORTS)
    assert (outcome.flow, outcome.counters) == ({"packets": 1}, {"list_template_missing": 1})


@pytest.mark.parametrize(
    ("content", "members"),
    [
        (b"\3", []),
        (b"\3\0\7\0", []),
        (b"\3\x80\x6e\xff\xff\0\0\x1a", []),  # without the whole enterprise number
        (basic_list((7, 2), u16(80), b"\0"), [80]),
        (basic_list((7, VARIABLE), variable(u16(80)), u8(3) + u16(81)), [80]),
        (basic_list((7, VARIABLE), variable(u16(80)), u8(255) + u8(0)), [80]),
        (basic_list((7, 0), b"\0"), []),
        (basic_list((BASIC, VARIABLE), variable(basic_list((7, 2), u16(80))), variable(b"\3\0")), [80]),
    ],
)
def test_invalid_basic_lists_are_counted(decode: Decode, content: bytes, members: list[int]) -> None:
    outcome = decode(record_of(BASIC, content), schema=ALL_PORTS)
    assert outcome.flow == {"packets": 1, **({"ports": members} if members else {})}
    assert outcome.counters == {"bad_list": 1}
