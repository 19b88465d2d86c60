"""Records in records (RFC 6313 sections 4.5.2 and 4.5.3): their elements are sources like any other."""

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
    ethernet,
    ip,
    ipfix,
    ipv4,
    options_template,
    options_template_set,
    sub_template_list,
    sub_template_multi_list,
    template,
    template_set,
    u8,
    u16,
    u32,
    udp,
    uint,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns

pytestmark = both_decoders

# Inner records: TCP and HTTP of YAF, ports, a nested list.
TCP, HTTP, PORTS, NESTED, OPTIONS = 400, 401, 402, 403, 404
INNER = [
    template(TCP, (184, 4), (14, 1, 6871)),
    template(HTTP, (110, VARIABLE, 6871), (110, VARIABLE, 6871)),
    template(PORTS, (7, 2), (11, 2)),
    template(NESTED, (4, 1), (292, VARIABLE)),
]
OUTER: list[Specifier] = [(2, 4), (293, VARIABLE)]
SINGLE: list[Specifier] = [(2, 4), (292, VARIABLE)]
COLUMNS = [("tcp", "uint32", "ipfix:184"), ("flags", "uint8", "ipfix:6871/14"), ("port", "uint16", "ipfix:7")]


def schema_of(*lines: tuple[Any, ...], **keys: Any) -> Schema:
    """Return a schema with the column packets and these columns: (name, type, source or ranks)."""
    schema = columns("packets")
    for number, (name, type, sources) in enumerate(lines):
        ranks = [sources] if isinstance(sources, str) else sources
        schema = schema.add(name, 1000 + number, type, ranks, **keys)
    return schema


def datagram(fields: list[Any], *records: bytes, templates: list[bytes] = INNER) -> bytes:
    return ipfix(template_set(*templates, template(256, *fields)), data_set(256, *records))


def multi(*parts: tuple[int, bytes], packets: int = 1) -> bytes:
    return u32(packets) + variable(sub_template_multi_list(*parts))


def single(template_id: int, *records: bytes, packets: int = 1, semantic: int = 3) -> bytes:
    return u32(packets) + variable(sub_template_list(template_id, *records, semantic=semantic))


def test_elements_of_inner_records_fill_columns(decode: Decode) -> None:
    tcp, ports = u32(77) + u8(2), u16(80) + u16(443)
    schema = schema_of(*COLUMNS)
    outcome = decode(datagram(OUTER, multi((TCP, tcp), (PORTS, ports))), schema=schema)
    assert outcome.flow == {"packets": 1, "tcp": 77, "flags": 2, "port": 80}
    assert outcome.counters == {"list_element_ignored": 1}
    outcome = decode(datagram(SINGLE, single(TCP, tcp), single(PORTS, ports, packets=9)), schema=schema)
    assert outcome.flows == [{"packets": 1, "tcp": 77, "flags": 2}, {"packets": 9, "port": 80}]


def test_the_outer_record_takes_precedence(decode: Decode) -> None:
    """A list fills a column that the record leaves empty, regardless of the rank of its element.

    Later lists do the same.
    """
    fields: list[Specifier] = [(11, 2), (2, 4), (292, VARIABLE)]
    record = u16(53) + single(PORTS, u16(80) + u16(443))
    for explicit in (False, True):
        schema = schema_of(("port", "uint16", ["ipfix:7", "ipfix:11"]), explicit=explicit)
        assert decode(datagram(fields, record), schema=schema).flow == {"packets": 1, "port": 53}
    nothing = datagram(fields, u16(0) + record[2:])
    assert decode(nothing, schema=schema).flow == {"packets": 1, "port": 0}
    for explicit in (False, True):
        schema = schema_of(("port", "uint16", ["ipfix:7", "ipfix:11"]), explicit=explicit, zero="absent")
        assert decode(nothing, schema=schema).flow == {"packets": 1, "port": 80}


def test_the_first_inner_record_with_a_value_fills_a_single_column(decode: Decode) -> None:
    records = [u16(0) + u16(1), u16(2) + u16(3), u16(4) + u16(5)]
    for explicit in (False, True):
        schema = schema_of(("port", "uint16", ["ipfix:7", "ipfix:11"]), explicit=explicit, zero="absent")
        assert decode(datagram(SINGLE, single(PORTS, *records)), schema=schema).flow == {
            "packets": 1,
            "port": 1,
        }
        schema = schema_of(("port", "uint16", ["ipfix:7"]), explicit=explicit, zero="absent")
        assert decode(datagram(SINGLE, single(PORTS, *records)), schema=schema).flow == {
            "packets": 1,
            "port": 2,
        }
    zero = datagram(SINGLE, single(PORTS, bytes(4)))
    assert decode(zero, schema=schema).flow == {"packets": 1, "port": 0}


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("ranks", [["ipfix:7"], ["ipfix:7", "ipfix:11"], ["ipfix:1", "ipfix:7", "ipfix:11"]])
def test_a_zero_value_prevents_the_use_of_later_inner_records(
    decode: Decode, ranks: list[str], explicit: bool
) -> None:
    schema = schema_of(("port", "uint16", ranks), explicit=explicit)
    zero = {"port": 0} if explicit else {}
    given = datagram(SINGLE, single(PORTS, u16(0) + u16(1), u16(2) + u16(3)))
    assert decode(given, schema=schema).flow == {"packets": 1, **zero}
    other = template(PORTS, (7, VARIABLE), (11, 2))  # the first field may be empty, which is not a value
    inner = [other, *(each for each in INNER if each[:2] != other[:2])]
    for first, expected in ((variable(u16(0)), zero), (variable(b""), {"port": 1 if len(ranks) > 1 else 2})):
        records = single(PORTS, first + u16(1), variable(u16(2)) + u16(3))
        assert decode(datagram(SINGLE, records, templates=inner), schema=schema).flow == {
            "packets": 1,
            **expected,
        }


@pytest.mark.parametrize("explicit", [False, True])
def test_all_sources_of_equal_rank_in_an_inner_record_are_tried(decode: Decode, explicit: bool) -> None:
    schema = schema_of(("port", "uint16", [["ipfix:7", "ipfix:11"]]), explicit=explicit)
    for record, expected in ((u16(0) + u16(1), 1), (u16(2) + u16(1), 2), (u16(0) + u16(0), 0)):
        found = decode(datagram(SINGLE, single(PORTS, record, u16(8) + u16(9))), schema=schema).flow
        assert found == {"packets": 1, **({"port": expected} if expected or explicit else {})}


def test_a_repeated_column_takes_all_inner_records(decode: Decode) -> None:
    schema = schema_of(("hosts", "string", "ipfix:6871/110"), repeated=True)
    schema = schema.add("ports", 1005, "uint16", ["ipfix:11", "ipfix:7"], repeated=True)
    http = [variable(first) + variable(second) for first, second in ((b"a", b"b"), (b"", b"c"))]
    parts = [
        (PORTS, u16(1) + u16(0)),
        (HTTP, b"".join(http)),
        (PORTS, u16(2) + u16(3)),
        (TCP, u32(1) + u8(1)),
    ]
    expected = {"packets": 1, "hosts": ["a", "b", "c"], "ports": [0, 3]}
    assert decode(datagram(OUTER, multi(*parts)), schema=schema).flow == expected
    fields: list[Specifier] = [(7, 2), *OUTER]
    own = u16(9) + multi(*parts)
    assert decode(datagram(fields, own), schema=schema).flow == {**expected, "ports": [9]}


def test_occurrences_are_counted_in_each_inner_record(decode: Decode) -> None:
    http = variable(b"a") + variable(b"b"), variable(b"c") + variable(b"d")
    record = single(HTTP, *http)
    schema = schema_of(("second", "string", "ipfix:6871/110#2"), ("last", "string", "ipfix:6871/110#last"))
    schema = schema.add("seconds", 1005, "string", ["ipfix:6871/110#2"], repeated=True)
    expected = {"packets": 1, "second": "b", "last": "b", "seconds": ["b", "d"]}
    assert decode(datagram(SINGLE, record), schema=schema).flow == expected


def test_nested_lists_are_read_up_to_a_limit(decode: Decode) -> None:
    schema = schema_of(("port", "uint16", "ipfix:7"), ("protocol", "uint8", "ipfix:4"))
    schema = schema.add("ports", 1005, "uint16", ["ipfix:7"], repeated=True)
    schema = schema.add("protos", 1006, "uint8", ["ipfix:4"], repeated=True)
    content = sub_template_list(PORTS, *(u16(port) + u16(0) for port in (1, 2)))
    for depth in range(1, DEPTH):
        content = sub_template_list(NESTED, u8(depth) + variable(content))
        outcome = decode(datagram(SINGLE, u32(1) + variable(content)), schema=schema)
        protos = list(range(depth, 0, -1))
        assert outcome.flow == {"packets": 1, "port": 1, "ports": [1, 2], "protocol": depth, "protos": protos}
        assert outcome.counters == {"list_element_ignored": 2}
    content = sub_template_list(NESTED, u8(DEPTH) + variable(content))
    outcome = decode(datagram(SINGLE, u32(1) + variable(content)), schema=schema)
    assert outcome.flow == {"packets": 1, "protocol": DEPTH, "protos": list(range(DEPTH, 0, -1))}
    assert outcome.counters == {"bad_list": 1}


def test_basic_lists_and_times_in_inner_records_are_read(decode: Decode) -> None:
    inner = template(TCP, (291, VARIABLE), (152, 8), (8, 4))
    record = variable(basic_list((16, 2), u16(1), u16(0))) + uint(5, 8) + ip("10.0.0.1")
    schema = schema_of(("first", "timestamp", "ipfix:152"), unit="ms")
    schema = schema.add("path", 1005, "uint16", ["ipfix:291"], repeated=True).add(
        "as", 1006, "uint16", ["ipfix:291"]
    )
    schema = schema.add("times", 1007, "timestamp", ["ipfix:152"], repeated=True, unit="ms")
    schema = schema.add("address", 1008, "ip", ["ipfix:8"])
    empty = variable(b"") + bytes(8) + bytes(4)
    outcome = decode(datagram(SINGLE, single(TCP, empty, record, record), templates=[inner]), schema=schema)
    address = ip("::ffff:10.0.0.1")
    assert outcome.flow == {
        "packets": 1, "first": 5, "path": [1, 0, 1, 0], "as": 1, "times": [5, 5], "address": address
    }  # fmt: skip
    assert outcome.counters == {}


def test_the_list_itself_stays_a_source_of_bytes(decode: Decode) -> None:
    schema = schema_of(("raw", "bytes", "ipfix:292"), ("port", "uint16", "ipfix:7"))
    schema = schema.add("all", 1005, "bytes", ["ipfix:292"], repeated=True)
    content = sub_template_list(NESTED, u8(6) + variable(sub_template_list(PORTS, u16(80) + u16(0))))
    outcome = decode(datagram(SINGLE, u32(1) + variable(content)), schema=schema)
    assert outcome.flow == {"packets": 1, "raw": content, "all": [content], "port": 80}
    assert outcome.counters == {"opaque_value": 2, "list_element_ignored": 2}


def test_lists_are_not_read_without_columns_of_elements(decode: Decode) -> None:
    outcome = decode(datagram(SINGLE, single(999, b"abc")), schema=columns("flow_type"))
    assert (outcome.flow, outcome.counters) == ({"flow_type": 4}, {})


def test_padding_is_not_an_ignored_element(decode: Decode) -> None:
    inner = template(TCP, (210, 3), (7, 2), (33, 1), (33, 1), (33, 1, 9999))
    outcome = decode(
        datagram(SINGLE, single(TCP, bytes(8), bytes(8)), templates=[inner]), schema=schema_of(*COLUMNS)
    )
    assert outcome.counters == {"list_element_ignored": 6}


def test_lists_with_unknown_templates_are_skipped(decode: Decode) -> None:
    """A list does not wait for its template. An options template describes no inner records."""
    options = options_template_set(options_template(OPTIONS, [(149, 4)], [(7, 2)]))
    ports = u16(80) + u16(443)
    schema = schema_of(*COLUMNS)
    for missing in (999, 5, OPTIONS):
        given = options + datagram(OUTER, multi((missing, b"abcd"), (PORTS, ports), (missing, b"")))[16:]
        outcome = decode(ipfix(given), schema=schema, finish=True)
        assert outcome.flow == {"packets": 1, "port": 80}
        assert outcome.counters == {"list_template_missing": 1, "list_element_ignored": 1}
    late = [
        ipfix(template_set(template(256, *SINGLE)), data_set(256, single(PORTS, ports))),
        ipfix(template_set(*INNER), data_set(256, single(PORTS, ports)), sequence=1),
    ]
    assert decode(*late, schema=schema).flows == [{"packets": 1}, {"packets": 1, "port": 80}]
    assert decode((late[1], ("192.0.2.9", 1)), late[0], schema=schema).flow == {"packets": 1}
    other_domain = ipfix(template_set(*INNER), domain=7)
    assert decode(other_domain, late[0], schema=schema).flow == {"packets": 1}


def test_the_forward_flow_of_a_biflow_has_the_lists(decode: Decode) -> None:
    fields: list[Specifier] = [*SINGLE, (2, 4, 29305)]
    record = single(PORTS, u16(80) + u16(443)) + u32(5)
    assert decode(datagram(fields, record), schema=schema_of(*COLUMNS)).flows == [
        {"packets": 1, "port": 80},
        {"packets": 5},
    ]


def test_columns_of_the_packet_in_a_tunnel_take_no_inner_records(decode: Decode) -> None:
    """The record describes the outer packet of the tunnel."""
    frame = ethernet(ipv4(ipv4(udp(1, 2), 17), 4))
    fields: list[Specifier] = [(315, VARIABLE), (292, VARIABLE)]
    inner = template(TCP, (5, 1), (184, 4))
    record = variable(frame) + variable(sub_template_list(TCP, u8(9) + u32(7)))
    schema = columns("packets").add("tos", 1000, "uint8", ["packet:ip.tos", "ipfix:5"], zero="absent")
    schema = schema.add("tcp", 1001, "uint32", ["ipfix:184"])
    given = datagram(fields, record, templates=[inner])
    assert decode(given, schema=schema).flow == {"packets": 1, "tos": 9, "tcp": 7}
    assert decode(given, schema=schema, decapsulate=("ipip",)).flow == {"packets": 1, "tcp": 7}


# Content of a list, the found ports, and the counters: for subTemplateList and for subTemplateMultiList.
INVALID_SINGLE: list[tuple[bytes, list[int], dict[str, int]]] = [
    (b"", [], {}),
    (b"\3", [], {"bad_list": 1}),
    (b"\3\1", [], {"bad_list": 1}),
    (sub_template_list(PORTS), [], {}),
    (sub_template_list(999), [], {}),
    (sub_template_list(PORTS, u16(1) + u16(0)), [1], {}),
    (sub_template_list(PORTS, u16(1) + u16(0), b"\0"), [1], {"bad_list": 1}),
    (sub_template_list(PORTS, b"\1\1\1"), [], {"bad_list": 1}),
    (sub_template_list(PORTS, u16(1) + u16(0), semantic=0), [], {"opaque_value": 1}),
    (sub_template_list(PORTS, u16(1) + u16(0), semantic=255), [1], {}),
    (sub_template_list(HTTP, b"\1a\0", b"\5b"), [], {"bad_list": 1}),
    (sub_template_list(HTTP, b"\xff\0"), [], {"bad_list": 1}),
    (sub_template_list(NESTED, u8(6) + variable(b"\3")), [], {"bad_list": 1}),
    (sub_template_list(NESTED, u8(6) + b"\7" + sub_template_list(PORTS, bytes(3))), [], {"bad_list": 1}),
]
INVALID_MULTI: list[tuple[bytes, list[int], dict[str, int]]] = [
    (b"", [], {}),
    (b"\3", [], {}),
    (b"\0", [], {"opaque_value": 1}),
    *((b"\3" + u16(PORTS)[:size] + bytes(max(0, size - 2)), [], {"bad_list": 1}) for size in (1, 2, 3)),
    (b"\3" + u16(PORTS) + u16(4), [], {}),
    (b"\3" + u16(PORTS) + u16(3) + u16(1) + u16(0), [], {"bad_list": 1}),
    (b"\3" + u16(PORTS) + u16(9) + u16(1) + u16(0), [1], {"bad_list": 1}),
    (b"\3" + u16(PORTS) + u16(65535) + u16(1) + u16(0) + u8(0), [1], {"bad_list": 2}),
    (
        sub_template_multi_list((PORTS, u32(1 << 16)), (PORTS, b"\0"), (PORTS, u32(2 << 16))),
        [1, 2],
        {"bad_list": 1},
    ),
    (sub_template_multi_list((PORTS, u16(1) + u16(0))) + b"\1\1\0", [1], {"bad_list": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("content", "ports", "counters"), INVALID_SINGLE)
def test_invalid_lists_are_counted(
    decode: Decode, content: bytes, ports: list[int], counters: dict[str, int]
) -> None:
    check_invalid(decode, SINGLE, content, ports, counters)


@pytest.mark.parametrize(("content", "ports", "counters"), INVALID_MULTI)
def test_invalid_multi_lists_are_counted(
    decode: Decode, content: bytes, ports: list[int], counters: dict[str, int]
) -> None:
    check_invalid(decode, OUTER, content, ports, counters)


def check_invalid(
    decode: Decode, fields: list[Any], content: bytes, ports: list[int], counters: dict[str, int]
) -> None:
    """Check the ports and the counters. The record after the invalid list is complete."""
    schema = schema_of(("ports", "uint16", "ipfix:7"), repeated=True)
    for name, element in (("other", "ipfix:11"), ("host", "ipfix:6871/110"), ("level", "ipfix:4")):
        schema = schema.add(
            name, len(schema.columns) + 2000, "bytes" if name == "host" else "uint16", [element]
        )
    outcome = decode(datagram(fields, u32(1) + variable(content), u32(2) + variable(b"")), schema=schema)
    first, second = outcome.flows
    assert first.get("ports", []) == ports
    assert (second, outcome.counters) == ({"packets": 2}, counters)


def test_a_list_may_name_the_template_of_its_own_record(decode: Decode) -> None:
    """Each level is inside the previous one, so that the recursion ends."""
    content = b""
    for packets in range(6):
        content = sub_template_list(256, u32(packets) + variable(content))
    schema = schema_of(("all", "uint32", "ipfix:2"), repeated=True).add("port", 1009, "uint16", ["ipfix:7"])
    inner = datagram(SINGLE, u32(0) + variable(content), templates=[])
    outcome = decode(inner, schema=schema)
    assert outcome.flow == {"all": [5, 4, 3, 2]}
    assert outcome.counters == {"bad_list": 1}
