"""Times and addresses as text."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowbuf.targets.flow_text import format_address, format_mac, format_time


def mapped(text: str) -> bytes:
    return bytes(10) + b"\xff\xff" + ip_address(text).packed


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
