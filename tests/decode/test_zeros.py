"""If a zero is a value, it prevents the use of worse sources."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flowbuf import Decoder, FlowbufError
from flowbuf.schema import Column, Schema
from flowbuf.schema.loader import expand_mirror
from tests.support.columnar import rows_of
from tests.support.datagrams import (
    VARIABLE,
    basic_list,
    data_set,
    ethernet,
    extended_switch,
    flow_sample,
    icmp,
    ip,
    ipfix,
    ipv4,
    netflow5,
    record5,
    sampled_header,
    sampled_ip,
    sflow,
    tagged,
    tcp,
    template,
    template_set,
    u8,
    u16,
    u32,
    variable,
)
from tests.support.decoding import (
    SOURCE,
    Decode,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    templates,
)

FRAME = ethernet(tagged(ipv4(icmp(0, 0), proto=1), vlan=7), ethertype=0x8100)


def column(sources: list[Any], type: str = "uint32", **keys: Any) -> Schema:
    """Return a schema of one column."""
    return columns().add("v", 1000, type, sources, **keys)


def record_of(protocol: str, fields: list[Any], record: bytes) -> bytes:
    return message(protocol, templates(protocol, template(256, *fields)), data_set(256, record))


# Elements of a record with their values, and the bytes of the flow.
BYTES: list[tuple[list[tuple[int, int]], int | None]] = [
    ([(1, 0), (85, 65)], None),
    ([(85, 65), (1, 0)], None),
    ([(85, 65)], 65),
    ([(1, 9), (85, 65)], 9),
    ([(1, 0), (23, 8)], 8),
    ([(23, 8), (1, 0)], 8),
    ([(1, 0), (23, 8), (85, 65)], 8),
    ([(1, 0), (23, 0), (85, 65)], None),
    ([(23, 0), (85, 65)], None),
    ([(23, 8), (1, 9)], 9),
    ([(23, 8), (85, 65)], 8),
]


@both_decoders
@both_protocols
@pytest.mark.parametrize(("elements", "value"), BYTES)
@pytest.mark.parametrize("size", [4, 8, 3, VARIABLE])
@pytest.mark.parametrize("name", ["bytes", "packets"])
def test_zero_bytes_prevent_the_use_of_worse_sources(
    decode: Decode, protocol: str, elements: list[tuple[int, int]], value: int | None, size: int, name: str
) -> None:
    ids = {1: 2, 23: 24, 85: 86} if name == "packets" else {1: 1, 23: 23, 85: 85}
    encoded = [number.to_bytes(4 if size == VARIABLE else size, "big") for _, number in elements]
    record = b"".join(variable(each) if size == VARIABLE else each for each in encoded)
    datagram = record_of(protocol, [(ids[element], size) for element, _ in elements], record)
    expected = {} if value is None else {name: value}
    assert decode(datagram, schema=columns(name)).flow == expected
    explicit = columns(name).alter(name, explicit=True)
    assert decode(datagram, schema=explicit).flow == {name: value or 0}


@both_decoders
@both_protocols
def test_icmp_type_zero_is_not_replaced_by_the_port(decode: Decode, protocol: str) -> None:
    fields = [(4, 1), (7, 2), (11, 2), (176, 1), (177, 1)]
    datagram = record_of(protocol, fields, u8(1) + u16(0) + u16(68 << 8) + u8(0) + u8(0))
    assert decode(datagram, schema=columns("icmp_type", "icmp_code")).flow == {}
    without = record_of(protocol, fields[:3], u8(1) + u16(0) + u16(68 << 8 | 1))
    assert decode(without, schema=columns("icmp_type", "icmp_code")).flow == {"icmp_type": 68, "icmp_code": 1}


@both_decoders
@both_protocols
@pytest.mark.parametrize("element", [32, 139])
def test_icmp_type_and_code_zero_are_not_replaced_by_the_port(
    decode: Decode, protocol: str, element: int
) -> None:
    ports = u8(1) + u16(0) + u16(68 << 8)
    fields = [(4, 1), (7, 2), (11, 2), (element, 2)]
    assert (
        decode(record_of(protocol, fields, ports + u16(0)), schema=columns("icmp_type", "icmp_code")).flow
        == {}
    )
    both = [*fields[:3], (32, 2), (139, 2)]
    outcome = decode(
        record_of(protocol, both, ports + u16(0) + u16(0x8001)), schema=columns("icmp_type", "icmp_code")
    )
    assert outcome.flow == {"icmp_type": 128, "icmp_code": 1}


@both_decoders
def test_a_zero_does_not_prevent_sources_of_equal_rank(decode: Decode) -> None:
    fields = [(176, 1), (178, 1), (4, 1), (7, 2), (11, 2)]
    datagram = ipfix_record(fields, u8(0) + u8(128) + u8(58) + u16(0) + u16(0x8700))
    assert decode(datagram, schema=columns("icmp_type")).flow == {"icmp_type": 128}
    zeros = ipfix_record(fields, u8(0) + u8(0) + u8(58) + u16(0) + u16(0x8700))
    assert decode(zeros, schema=columns("icmp_type")).flow == {}


@both_decoders
def test_the_vlan_of_a_switch_may_be_zero(decode: Decode) -> None:
    def with_vlan(vlan: int) -> bytes:
        return sflow(flow_sample(sampled_header(FRAME), extended_switch(5, 0, vlan, 0), rate=1))

    assert decode(with_vlan(0), with_vlan(9), with_vlan(0), schema=columns("dst_vlan")).datagrams == [
        [{}],
        [{"dst_vlan": 9}],
        [{}],
    ]
    unknown = [[{"dst_vlan": 7}]]
    assert decode(with_vlan(0xFFFFFFFF), schema=columns("dst_vlan")).datagrams == unknown
    explicit = columns("dst_vlan").alter("dst_vlan", explicit=True)
    assert decode(with_vlan(0), with_vlan(0xFFFFFFFF), schema=explicit).datagrams == [
        [{"dst_vlan": 0}],
        *unknown,
    ]


@both_decoders
@pytest.mark.parametrize(("zero", "flow"), [("value", {}), ("absent", {"v": 7}), (None, {})])
def test_a_schema_selects_the_rule(decode: Decode, zero: str | None, flow: dict[str, int]) -> None:
    keys = {} if zero is None else {"zero": zero}
    datagram = ipfix_record([(7, 2), (11, 2)], u16(0) + u16(7))
    assert decode(datagram, schema=column(["ipfix:7", "ipfix:11"], **keys)).flow == flow
    assert decode(datagram, schema=column(["ipfix:11", "ipfix:7"], **keys)).flow == {"v": 7}
    late = column(["ipfix:7", "ipfix:11"], late=True, **keys)
    assert decode(datagram, schema=late).flow == flow


@both_decoders
def test_a_zero_replaces_the_value_of_a_worse_source(decode: Decode) -> None:
    schema = column(["packet:ip.tos", "sflow:sampled_ip.tos"], "uint8")
    datagram = sflow(flow_sample(sampled_header(FRAME), sampled_ip("192.0.2.1", "192.0.2.2", tos=9), rate=1))
    assert decode(datagram, schema=schema).flow == {}
    turned = column(["packet:ip.tos", "sflow:sampled_ip.tos"], "uint8", zero="absent")
    assert decode(datagram, schema=turned).flow == {"v": 9}


@both_decoders
def test_a_field_of_netflow5_may_be_zero(decode: Decode) -> None:
    datagram = netflow5(record5(tos=0, src_mask=24), engine_id=0)
    assert decode(datagram, schema=column(["netflow5:tos", "netflow5:src_mask"], "uint8")).flow == {}
    assert decode(datagram, schema=column(["netflow5:engine_id", "netflow5:src_mask"], "uint8")).flow == {}


@both_decoders
@pytest.mark.parametrize("type", ["int64", "sint32", "fixed64", "double", "float"])
def test_zeros_of_other_types_are_values(decode: Decode, type: str) -> None:
    signed = type in ("int64", "sint32")
    first, second = (434, 434) if signed else (7, 11)
    sources = ["ipfix:434#1", "ipfix:434#2"] if signed else [f"ipfix:{first}", f"ipfix:{second}"]
    datagram = ipfix_record([(first, 4), (second, 4)], u32(0) + u32(7))
    assert decode(datagram, schema=column(sources, type)).flow == {}
    assert decode(datagram, schema=column(sources, type, zero="absent")).flow == {"v": 7}


@both_decoders
def test_false_is_a_value(decode: Decode) -> None:
    datagram = ipfix_record([(276, 1), (276, 1)], u8(2) + u8(1))
    assert decode(datagram, schema=column(["ipfix:276#1", "ipfix:276#2"], "bool")).flow == {}
    undefined = ipfix_record([(276, 1), (276, 1)], u8(0) + u8(1))
    assert decode(undefined, schema=column(["ipfix:276#1", "ipfix:276#2"], "bool")).flow == {"v": True}


@both_decoders
def test_fields_without_a_value_are_absent(decode: Decode) -> None:
    fields = [(1, VARIABLE), (85, 4)]
    assert decode(ipfix_record(fields, variable(b"") + u32(65)), schema=columns("bytes")).flow == {
        "bytes": 65
    }
    wide = ipfix_record([(1, 9), (85, 4)], bytes(9) + u32(65))
    assert decode(wide, schema=columns("bytes")).flow == {"bytes": 65}
    empty = ipfix_record([(197, VARIABLE), (313, 40)], variable(b"") + ipv4(tcp(1, 2), flags=2))
    assert decode(empty, schema=columns("ip_flags")).flow == {"ip_flags": 2}


@both_decoders
def test_a_replacement_without_a_value_replaces_nothing(decode: Decode) -> None:
    fields = [(1, 4), (23, VARIABLE), (85, 4)]
    datagram = ipfix_record(fields, u32(0) + variable(b"") + u32(65))
    assert decode(datagram, schema=columns("bytes")).flow == {}
    assert decode(datagram, schema=columns("bytes").alter("bytes", explicit=True)).flow == {"bytes": 0}


@both_decoders
@pytest.mark.parametrize("source", ["ipfix:85", "ipfix:octetTotalCount", "ipfix:85#1"])
@pytest.mark.parametrize("replacement", ["ipfix:85", "ipfix:octetTotalCount", "ipfix:85#1"])
def test_a_replacement_may_have_another_spelling(decode: Decode, source: str, replacement: str) -> None:
    schema = column(["ipfix:1", source], replaces_zero=[replacement])
    datagram = ipfix_record([(1, 4), (85, 4)], u32(0) + u32(65))
    assert decode(datagram, schema=schema).flow == {"v": 65}


LISTS: list[tuple[list[bytes], int, int]] = [
    ([u32(0)], 0, 9),
    ([u32(0), u32(0)], 0, 9),
    ([u32(0), u32(5)], 5, 5),
    ([], 9, 9),
]
"""Members of a list, and the value of a column with and without the rule. 9 comes from a worse source."""


@both_decoders
@pytest.mark.parametrize(("members", "value", "otherwise"), LISTS)
@pytest.mark.parametrize("list_first", [True, False])
def test_a_list_of_zeros_is_a_zero(
    decode: Decode, members: list[bytes], value: int, otherwise: int, list_first: bool
) -> None:
    content = variable(basic_list((16, 4), *members))
    fields: list[Any] = [(291, VARIABLE), (17, 4)]
    record = content + u32(9)
    if not list_first:
        fields, record = fields[::-1], u32(9) + content
    datagram = ipfix_record(fields, record)
    for rule, expected in (("value", value), ("absent", otherwise)):
        schema = column(["ipfix:291", "ipfix:17"], zero=rule, explicit=True)
        assert decode(datagram, schema=schema).flow == {"v": expected}
        schema = column(["ipfix:291", "ipfix:17"], zero=rule)
        assert decode(datagram, schema=schema).flow == ({"v": expected} if expected else {})


@both_decoders
def test_zero_addresses_and_unknown_interfaces_are_absent(decode: Decode) -> None:
    schema = column(["ipfix:8", "ipfix:12"], "ip")
    datagram = ipfix_record([(8, 4), (12, 4)], bytes(4) + ip("192.0.2.9"))
    assert decode(datagram, schema=schema).flow == {"v": bytes(10) + b"\xff\xff" + ip("192.0.2.9")}
    interfaces = ipfix_record([(10, 4), (252, 4)], u32(0) + u32(3))
    assert decode(interfaces, schema=columns("in_if")).flow == {"in_if": 3}


@both_decoders
def test_each_direction_of_a_biflow_has_its_own_zeros(decode: Decode) -> None:
    fields = [(1, 4), (85, 4), (1, 4, 29305), (85, 4, 29305), (2, 4, 29305)]
    datagram = ipfix_record(fields, u32(0) + u32(65) + u32(0) + u32(66) + u32(1))
    assert decode(datagram, schema=columns("bytes", "packets")).flows == [{}, {"packets": 1}]


def test_columns_have_the_zeros_of_messages() -> None:
    datagram = ipfix_record([(1, 4), (85, 4)], u32(0) + u32(65))
    schema = columns("bytes").alter("bytes", explicit=True)
    assert rows_of(Decoder(schema).columns(datagram, SOURCE)) == [{"bytes": 0}]
    assert rows_of(Decoder(columns("bytes")).columns(datagram, SOURCE)) == [{"bytes": 0}]
    other = ipfix_record([(7, 2)], u16(1))
    table = pa.table(Decoder(schema).columns(other, SOURCE))
    assert table["bytes"].null_count == 1


@pytest.mark.parametrize("name", ["goflow2", "akvorado"])
def test_presets_keep_the_rule_of_their_collector(name: str) -> None:
    schema = Schema.load(name)
    assert not any(column.zero_is_value for column in schema if len(column.sources) > 1)
    total = "bytes" if name == "goflow2" else "Bytes"
    datagram = ipfix_record([(1, 4), (23, 4)], u32(0) + u32(65))
    assert rows_of(Decoder(schema.only(total)).columns(datagram, SOURCE)) == [{total: 65}]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"zero": "none"}, 'it must be "value" or "absent"'),
        ({"type": "ip", "zero": "value"}, 'zero = "value" is not allowed on type ip'),
        ({"type": "mac", "zero": "value"}, 'zero = "value" is not allowed on type mac'),
        ({"zero": "value", "repeated": True}, "on a repeated column"),
        ({"replaces_zero": ["netflow5:tos"]}, "it must be a list of elements"),
        ({"replaces_zero": [1]}, "it must be a list of elements"),
        (
            {"replaces_zero": ["ipfix:85"]},
            "replaces_zero has 'ipfix:85', which is not a source of the column; add it to",
        ),
        (
            {"sources": ["ipfix:1", "ipfix:85#2"], "replaces_zero": ["ipfix:85"]},
            "'ipfix:85', which is not a source",
        ),
        ({"sources": ["netflow9:85"], "replaces_zero": ["ipfix:85"]}, "'ipfix:85', which is not a source"),
    ],
)
def test_invalid_rules_are_errors(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(FlowbufError, match=problem):
        Column.from_table({"name": "v", "number": 1000, "type": "uint32", **keys})


def test_altered_sources_keep_their_replacements() -> None:
    schema = columns("bytes")
    assert schema.alter("bytes", sources=["ipfix:1"])["bytes"].replaces_zero == ()
    kept = schema.alter("bytes", sources=["ipfix:1", "ipfix:23"])["bytes"].replaces_zero
    assert [source.id for source in kept] == [23]
    with pytest.raises(FlowbufError, match="which is not a source of the column"):
        schema.alter("bytes", sources=["ipfix:1"], replaces_zero=["ipfix:23"])


@pytest.mark.parametrize(
    ("sources", "ids"), [(["ipfix:2"], []), (["ipfix:2", ["ipfix:postOctetDeltaCount"]], [23])]
)
def test_a_mirror_with_other_sources_keeps_its_replacements(sources: list[Any], ids: list[int]) -> None:
    table = {
        "name": "v",
        "number": 1,
        "type": "uint32",
        "sources": ["ipfix:1", "ipfix:23"],
        "replaces_zero": ["ipfix:23"],
    }
    _, mirrored = expand_mirror({**table, "mirror": {"name": "w", "number": 2, "sources": sources}})
    assert [source.id for source in Column.from_table(mirrored).replaces_zero] == ids


def test_a_template_of_an_earlier_datagram_has_the_same_rule() -> None:
    decoder = Decoder(columns("bytes"))
    first = ipfix(template_set(template(256, (1, 4), (85, 4))))
    later = ipfix(data_set(256, u32(0) + u32(65), u32(3) + u32(65)))
    decoder.encode(first, SOURCE)
    assert rows_of(decoder.columns(later, SOURCE)) == [{"bytes": 0}, {"bytes": 3}]
