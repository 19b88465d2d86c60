"""Rows of addresses and networks of addresses, as the core finds them for whole columns."""

from __future__ import annotations

from array import array
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf._core import AddressRows, NetworkTable
from flowbuf.networks import to_prefix


def packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(16, "big") for number in numbers)


def integers(found: bytearray) -> list[int]:
    return list(memoryview(found).cast("i"))


class Choice:
    """Chooses the next rows, and remembers the addresses."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.rows = AddressRows(self)

    def __call__(self, addresses: bytes) -> bytes:
        before = len(self.asked)
        self.asked += [addresses[at : at + 16] for at in range(0, len(addresses), 16)]
        return array("i", range(before, len(self.asked))).tobytes()


@given(st.lists(st.lists(st.integers(0, 50) | st.integers(0, 2**128 - 1), max_size=60), max_size=6))
def test_each_address_has_the_row_of_its_first_use(batches: list[list[int]]) -> None:
    choice, order = Choice(), {}
    for batch in batches:
        expected = [order.setdefault(number, len(order)) for number in batch]
        assert integers(choice.rows.find(packed(*batch))) == expected
    assert choice.asked == [packed(number) for number in order]
    assert len(choice.rows) == len(order)


def test_cleared_addresses_are_asked_again() -> None:
    choice = Choice()
    choice.rows.find(packed(1, 2))
    choice.rows.clear()
    assert len(choice.rows) == 0
    assert integers(choice.rows.find(packed(2, 2, 1))) == [2, 2, 3]


def test_addresses_without_a_row_are_forgotten() -> None:
    answers = iter([b"", b"1234" * 2, b"\0" * 4])
    rows = AddressRows(lambda addresses: next(answers))
    for _ in range(2):
        with pytest.raises(ValueError, match="are not the rows of 1 addresses"):
            rows.find(packed(1))
        assert len(rows) == 0
    assert integers(rows.find(packed(1, 1))) == [0, 0]


def test_an_error_of_the_choice_is_raised() -> None:
    def fail(addresses: bytes) -> bytes:
        raise KeyError(addresses)

    with pytest.raises(KeyError):
        AddressRows(fail).find(packed(1))


def test_only_whole_addresses_are_found() -> None:
    for find in (Choice().rows.find, NetworkTable([]).find):
        with pytest.raises(ValueError, match="15 bytes are not addresses of 16 bytes each"):
            find(bytes(15))
        assert find(b"") == b""


def test_networks_name_those_around_them() -> None:
    texts = ["10.0.0.0/8", "2001:db8::/32", "10.1.0.0/16", "::/0", "0.0.0.0/0"]
    table = NetworkTable(to_prefix(ip_network(text)) for text in texts)
    assert table.outer == [4, 3, 0, -1, -1]
    addresses = [0xFFFF_0A01_0203, 0xFFFF_0A02_0000, 0x20010DB8 << 96, 0xFFFF_0B00_0000, 7]
    assert integers(table.find(packed(*addresses))) == [2, 0, 1, 4, 3]


def test_the_choice_may_not_use_the_rows() -> None:
    rows = AddressRows(lambda addresses: rows.find(addresses))
    with pytest.raises(RuntimeError, match="in use"):
        rows.find(packed(1))
