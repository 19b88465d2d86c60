"""Values of every type as text: in tables, and in the reference for JSON lines."""

from __future__ import annotations

import json
import math
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf.schema import Schema
from flowbuf.targets.flow_text import format_address, format_mac, format_time
from tests.reference.flow_text import FlowText


def mapped(text: str) -> bytes:
    return bytes(10) + b"\xff\xff" + ip_address(text).packed


CASES: list[tuple[str, dict[str, Any], Any, Any, str]] = [
    # type, keys, value in the message, in JSON, in a cell
    ("uint64", {}, 2**64 - 1, 2**64 - 1, "18446744073709551615"),
    ("sint32", {}, -5, -5, "-5"),
    ("bool", {}, True, True, "true"),
    ("bool", {"explicit": True}, False, False, "false"),
    ("double", {}, 0.1, 0.1, "0.1"),
    ("double", {}, math.nan, "NaN", "NaN"),
    ("float", {}, -math.inf, "-Infinity", "-Infinity"),
    ("string", {}, 'a "b"\n€', 'a "b"\n€', 'a "b"\n€'),
    ("bytes", {}, b"\x00\xff", "00ff", "00ff"),
    ("ip", {}, mapped("192.0.2.1"), "192.0.2.1", "192.0.2.1"),
    ("ip", {}, ip_address("2001:db8::1").packed, "2001:db8::1", "2001:db8::1"),
    ("ip", {"ip": "native"}, ip_address("192.0.2.1").packed, "192.0.2.1", "192.0.2.1"),
    ("ip", {}, b"\x01\x02\x03", "010203", "010203"),
    ("mac", {}, 0x00AABBCCDDEE, "00:aa:bb:cc:dd:ee", "00:aa:bb:cc:dd:ee"),
    ("duration", {"unit": "ms"}, -1500, -1500, "-1500"),
    ("timestamp", {"unit": "s"}, 1662723663, "2022-09-09T11:41:03Z", "2022-09-09T11:41:03Z"),
    ("timestamp", {"unit": "ms"}, 1662723663679, "2022-09-09T11:41:03.679Z", "2022-09-09T11:41:03.679Z"),
    (
        "timestamp",
        {"unit": "us"},
        1662723663000042,
        "2022-09-09T11:41:03.000042Z",
        "2022-09-09T11:41:03.000042Z",
    ),
    ("timestamp", {"unit": "ns"}, 7, "1970-01-01T00:00:00.000000007Z", "1970-01-01T00:00:00.000000007Z"),
    ("timestamp", {"unit": "ms"}, 2**64 - 1, "18446744073709551615", "18446744073709551615"),
    ("enum", {"values": {"none": 0, "some": 1}}, 1, "some", "some"),
    ("enum", {"values": {"none": 0, "some": 1}}, 7, 7, "7"),
    ("uint32", {"repeated": True}, [1, 2, 3], [1, 2, 3], "1 2 3"),
    ("string", {"repeated": True}, ["a b", "c"], ["a b", "c"], "a b c"),
    ("ip", {"repeated": True}, [mapped("192.0.2.1")], ["192.0.2.1"], "192.0.2.1"),
    ("enum", {"repeated": True, "values": {"none": 0, "some": 1}}, [1, 2], ["some", 2], "some 2"),
]


@pytest.mark.parametrize(("type", "keys", "value", "in_json", "cell"), CASES)
def test_every_type_is_formatted(
    type: str, keys: dict[str, Any], value: Any, in_json: Any, cell: str
) -> None:
    schema = Schema.load("flow").only().add("it", number=1001, type=type, **keys)
    text = FlowText(schema)
    assert json.loads(text.json_line({"it": value})) == {"it": in_json}
    assert text.cells({"it": value}) == [cell]


def test_columns_are_in_number_order_and_absent_ones_are_omitted() -> None:
    text = FlowText(Schema.load("flow").only("bytes", "packets", "etype", "time_received"))
    assert text.json_line({"packets": 2, "bytes": 80}) == '{"bytes":80,"packets":2}'
    assert text.cells({"packets": 2, "bytes": 80}) == ["", "80", "2", ""]
    assert text.json_line({}) == "{}"


def test_times_after_year_9999_are_formatted_as_numbers() -> None:
    assert format_time(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert format_time(253_402_300_800_000) == "253402300800000"


@given(st.ip_addresses())
def test_python_parses_formatted_addresses(address: Any) -> None:
    packed = address.packed if address.version == 6 else mapped(str(address))
    read = ip_address(format_address(packed))
    assert read == (getattr(address, "ipv4_mapped", None) or address)


@given(st.integers(0, 2**48 - 1))
def test_mac_addresses_have_six_bytes(number: int) -> None:
    parts = format_mac(number).split(":")
    assert len(parts) == 6
    assert int("".join(parts), 16) == number
