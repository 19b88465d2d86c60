"""Columns take the first, the selected, or all occurrences of an element in a record."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flowbuf import _core
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
from tests.support.decoding import (
    Decode,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    templates,
)

pytestmark = both_decoders

PORT: Specifier = (7, 2)


def column(type: str, sources: list[Any], **keys: Any) -> Schema:
    """Return a schema of one column."""
    return columns().add("v", 1000, type, sources, **keys)


def record_of(protocol: str, fields: list[Any], *records: bytes) -> bytes:
    return message(protocol, templates(protocol, template(256, *fields)), data_set(256, *records))


# Sources of a column, and its value in a record with the source ports 1, 2 and 3.
SELECTED: list[tuple[list[Any], int | None]] = [
    (["ipfix:7"], 1),
    (["ipfix:7#1"], 1),
    (["ipfix:7#2"], 2),
    (["ipfix:sourceTransportPort#2"], 2),
    (["ipfix:7#3"], 3),
    (["ipfix:7#last"], 3),
    (["ipfix:sourceTransportPort#last"], 3),
    (["ipfix:7#4"], None),
    (["ipfix:7#65534"], None),
    (["ipfix:7#4", "ipfix:7#2"], 2),
    (["ipfix:7#2", "ipfix:7"], 2),
    ([["ipfix:7#last", "ipfix:7#2"]], 2),
    (["ipfix:11#last", "ipfix:7#last"], 3),
]


@both_protocols
@pytest.mark.parametrize(("sources", "value"), SELECTED)
def test_a_source_selects_one_occurrence(
    decode: Decode, protocol: str, sources: list[Any], value: int | None
) -> None:
    datagram = record_of(protocol, [PORT, (2, 4), PORT, PORT], u16(1) + u32(9) + u16(2) + u16(3))
    assert decode(datagram, schema=column("uint16", sources)).flow == ({} if value is None else {"v": value})
    listed = column("uint16", [*sources], repeated=True)
    if "#" in str(sources[0]):
        assert decode(datagram, schema=listed).flow == ({} if value is None else {"v": [value]})


@both_protocols
def test_occurrences_may_differ_in_size(decode: Decode, protocol: str) -> None:
    datagram = record_of(protocol, [PORT, (7, 4), (7, 1)], u16(1) + u32(70_000) + u8(3))
    assert decode(datagram, schema=column("uint32", ["ipfix:7#2"])).flow == {"v": 70_000}
    assert decode(datagram, schema=column("uint32", ["ipfix:7#last"])).flow == {"v": 3}
    assert decode(datagram, schema=column("uint32", ["ipfix:7"], repeated=True)).flow == {"v": [1, 70_000, 3]}


def test_netflow9_and_enterprise_elements_have_occurrences(decode: Decode) -> None:
    datagram = record_of("netflow9", [(40_000, 1), (40_000, 1)], u8(1) + u8(2))
    assert decode(datagram, schema=column("uint8", ["netflow9:40000#2"])).flow == {"v": 2}
    assert decode(datagram, schema=column("uint8", ["netflow9:40000"], repeated=True)).flow == {"v": [1, 2]}
    fields: list[Specifier] = [(12235, VARIABLE, 9)] * 4
    record = b"".join(variable(text) for text in (b"\3a", b"\3b", b"", b"\3d"))
    schema = column("bytes", ["ipfix:9/12235"], repeated=True)
    schema = schema.add("second", 1001, "bytes", ["ipfix:9/12235#2"]).add(
        "third", 1002, "bytes", ["ipfix:9/12235#3"]
    )
    schema = schema.add("last", 1003, "bytes", ["ipfix:9/12235#last"])
    expected = {"v": [b"\3a", b"\3b", b"\3d"], "second": b"\3b", "last": b"\3d"}
    assert decode(ipfix_record(fields, record), schema=schema).flow == expected


# Type, keys, elements, record, values of the list, counters.
COLLECTED: list[tuple[str, dict[str, Any], list[Specifier], bytes, list[Any], dict[str, int]]] = [
    ("uint16", {}, [PORT], u16(5), [5], {}),
    ("uint16", {}, [PORT], u16(0), [], {}),
    ("uint16", {}, [PORT, PORT], u16(5) + u16(0), [5, 0], {}),
    ("uint16", {}, [PORT, PORT], u16(0) + u16(0), [0, 0], {}),
    ("uint16", {}, [PORT, (7, 0), PORT], u16(5) + u16(6), [5, 6], {}),
    ("uint16", {}, [(7, 0), PORT, PORT], u16(5) + u16(6), [5, 6], {}),
    ("uint16", {}, [(7, 0), (7, 0), (2, 1)], u8(5), [], {}),
    ("uint16", {}, [PORT, (7, 3), PORT], u16(5) + uint(1 << 16, 3) + u16(6), [5, 6], {"out_of_range": 1}),
    ("uint16", {}, [PORT, (7, 9)], u16(5) + uint(1, 9), [5], {"bad_field_size": 1}),
    (
        "ip", {}, [(8, 4)] * 3,
        ip("10.0.0.1") + bytes(4) + ip("10.0.0.2"), [ip(f"::ffff:10.0.0.{n}") for n in "12"], {},
    ),
    (
        "ip", {"ip": "native"}, [(8, 4)] * 2,
        ip("10.0.0.1") + ip("10.0.0.2"), [ip("10.0.0.1"), ip("10.0.0.2")], {},
    ),
    ("timestamp", {"unit": "ms"}, [(152, 8)] * 3, uint(5, 8) + bytes(8) + uint(6, 8), [5, 6], {}),
    ("timestamp", {"unit": "s"}, [(150, 4)] * 3, u32(5) + bytes(4) + u32(6), [5, 6], {}),
    (
        "string", {}, [(82, 4)] * 2,
        b"eth0a\xff\0\0", ["eth0", "a\N{REPLACEMENT CHARACTER}"], {"invalid_utf8": 1},
    ),
    ("double", {}, [(311, 4)] * 2, bytes.fromhex("3f000000") + bytes(4), [0.5, 0.0], {}),
    ("bool", {}, [(276, 1)] * 2, u8(2) + u8(1), [False, True], {}),
]  # fmt: skip


@pytest.mark.parametrize(("type", "keys", "fields", "record", "values", "counters"), COLLECTED)
def test_a_repeated_column_takes_every_occurrence(
    decode: Decode,
    type: str,
    keys: dict[str, Any],
    fields: list[Any],
    record: bytes,
    values: list[Any],
    counters: dict[str, int],
) -> None:
    schema = column(type, [f"ipfix:{fields[0][0]}"], repeated=True, **keys)
    outcome = decode(ipfix_record(fields, record), schema=schema)
    assert outcome.flow == ({"v": values} if values else {})
    assert outcome.counters == counters


def test_variable_length_fields_have_occurrences(decode: Decode) -> None:
    fields: list[Specifier] = [(82, VARIABLE), (2, 1), (82, VARIABLE), (82, 3), (82, VARIABLE)]
    record = variable(b"a") + u8(9) + variable(b"", True) + b"bcd" + variable(b"e")
    datagram = ipfix_record(fields, record)
    assert decode(datagram, schema=column("string", ["ipfix:82"], repeated=True)).flow == {
        "v": ["a", "bcd", "e"]
    }
    assert decode(datagram, schema=column("string", ["ipfix:82#3"])).flow == {"v": "bcd"}
    assert decode(datagram, schema=column("string", ["ipfix:82#2", "ipfix:82#last"])).flow == {"v": "e"}


def test_members_of_several_lists_keep_their_order(decode: Decode) -> None:
    lists = [basic_list((16, 2), *members) for members in ([u16(1), u16(0)], [], [u16(3)])]
    datagram = ipfix_record([(291, VARIABLE)] * 3, b"".join(map(variable, lists)))
    assert decode(datagram, schema=column("uint16", ["ipfix:291"], repeated=True)).flow == {"v": [1, 0, 3]}
    assert decode(datagram, schema=column("uint16", ["ipfix:291#last"], repeated=True)).flow == {"v": [3]}
    bad = ipfix_record([(291, VARIABLE)] * 3, variable(lists[0]) + variable(b"\4") + variable(lists[2]))
    outcome = decode(bad, schema=column("uint16", ["ipfix:291"], repeated=True))
    assert (outcome.flow, outcome.counters) == ({"v": [1, 0, 3]}, {"bad_list": 1})


def test_the_best_source_with_values_fills_a_repeated_column(decode: Decode) -> None:
    fields: list[Specifier] = [(11, 2), PORT, (11, 2), PORT]
    record = u16(1) + u16(2) + u16(3) + u16(4)
    ranked = column("uint16", ["ipfix:7", "ipfix:11"], repeated=True)
    assert decode(ipfix_record(fields, record), schema=ranked).flow == {"v": [2, 4]}
    equal = column("uint16", [["ipfix:7", "ipfix:11"]], repeated=True)
    assert decode(ipfix_record(fields, record), schema=equal).flow == {"v": [1, 3]}
    empty = column("uint16", ["ipfix:10#2", "ipfix:11"], repeated=True)
    assert decode(ipfix_record(fields, record), schema=empty).flow == {"v": [1, 3]}


def test_each_direction_of_a_biflow_counts_its_own_occurrences(decode: Decode) -> None:
    fields: list[Specifier] = [PORT, (6, 1), (6, 1, 29305), (6, 1), (6, 1, 29305), (2, 4, 29305)]
    record = u16(7) + u8(1) + u8(2) + u8(3) + u8(4) + u32(1)
    datagram = ipfix_record(fields, record)
    assert decode(datagram, schema=column("uint8", ["ipfix:6#2"])).flows == [{"v": 3}, {"v": 4}]
    assert decode(datagram, schema=column("uint8", ["ipfix:6#last"])).flows == [{"v": 3}, {"v": 4}]
    assert decode(datagram, schema=column("uint8", ["ipfix:6"], repeated=True)).flows == [
        {"v": [1, 3]},
        {"v": [2, 4]},
    ]
    assert decode(datagram, schema=column("uint8", ["ipfix:29305/6"], repeated=True)).flows[0] == {
        "v": [2, 4]
    }


def test_both_directions_share_occurrences_with_ends_exchanged(decode: Decode) -> None:
    fields: list[Specifier] = [PORT, (11, 2), PORT, (2, 4, 29305)]
    datagram = ipfix_record(fields, u16(1) + u16(2) + u16(3) + u32(1))
    mirror = {"name": "w", "number": 1001, "sources": ["ipfix:11#1"]}
    schema = columns().add("v", 1000, "uint16", ["ipfix:7#last"], mirror=mirror)
    assert decode(datagram, schema=schema).flows == [{"v": 3, "w": 2}, {"v": 2, "w": 3}]


def test_fields_of_size_zero_add_no_values(decode: Decode) -> None:
    """They count as occurrences, and cost nothing per record."""
    fields = [(7, 0)] * 16 + [(7, 1)]
    datagram = ipfix(template_set(template(256, *fields)), data_set(256, bytes([1, 2, 3])))
    schema = column("uint16", ["ipfix:7"], repeated=True).add("w", 1001, "uint16", ["ipfix:7#17"])
    assert decode(datagram, schema=schema).flows == [{"v": [n], "w": n} for n in (1, 2, 3)]


@pytest.mark.parametrize("capture", ["ipfix-cisco-srv6", "ipfix-cisco-srv6-among-bgp"])
def test_inner_ports_of_srv6_can_be_selected(decode: Decode, capture: str) -> None:
    """The second occurrence of a port belongs to the inner packet, as in the records of NetGauze."""
    corpus = os.environ.get("FLOWBUF_CORPUS")
    if not corpus:
        pytest.skip("FLOWBUF_CORPUS is not set")
    golden = Path(corpus, f"{capture}.netgauze.jsonl")
    records = [json.loads(line) for line in golden.read_text().splitlines()]
    fields = [record["fields"] for record in records if record["kind"] == "data"]
    names = {"sourceTransportPort": "source", "destinationTransportPort": "destination"}
    schema = columns()
    for number, (element, name) in enumerate(names.items()):
        schema = schema.add(name, 1000 + number, "uint16", [f"ipfix:{element}#2"])
    expected = []
    for each in fields:
        found = {
            name: [field[element] for field in each if element in field] for element, name in names.items()
        }
        expected.append({name: ports[1] for name, ports in found.items() if len(ports) > 1 and ports[1]})
    _, _, batch = _core.Capture().scan(Path(corpus, f"{capture}.pcap").read_bytes(), True)
    payloads = [bytes(batch[i][0]) for i in range(len(batch))]
    assert decode(*payloads, schema=schema).flows == expected
    assert any(expected)
