"""PrefixTable finds the networks that contain an address."""

from __future__ import annotations

import ipaddress
from collections import ChainMap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf.enrich import prefixes
from flowbuf.enrich.networks import NetworkRecords
from flowbuf.enrich.prefixes import PrefixTable, parse_prefix
from flowbuf.errors import EnrichmentError
from tests.support.enriching import ip

# Few distinct bits, so that networks contain one another and the addresses.
V4 = st.builds(
    lambda high, low: high << 24 | low, st.sampled_from([0, 10, 192, 255]), st.integers(0, 0xFFFFFF)
)
V6 = st.builds(
    lambda high, low: high << 96 | low, st.sampled_from([0, 0x20010DB8, 0xFE800000]), st.integers(0, 1 << 70)
)
ADDRESSES = st.one_of(V4.map(ipaddress.IPv4Address), V6.map(ipaddress.IPv6Address))
NETWORKS = st.builds(
    lambda address, bits: ipaddress.ip_network((address, min(bits, address.max_prefixlen)), strict=False),
    ADDRESSES,
    st.integers(0, 128),
)


@given(st.lists(NETWORKS, max_size=30), st.lists(ADDRESSES, min_size=1, max_size=30))
def test_matches_are_ordered_from_the_longest_network_to_the_shortest(
    networks: list, addresses: list
) -> None:
    table: PrefixTable[str] = PrefixTable()
    for network in networks:
        table.insert(parse_prefix(str(network)), str(network))
    assert len(table) == len(set(networks))
    for address in [*addresses, *(network.network_address for network in networks)]:
        around = {
            network for network in networks if network.version == address.version and address in network
        }
        expected = sorted(around, key=lambda network: -network.prefixlen)
        packed = ip(str(address))
        if packed is not None and address.version == 6 and address.ipv4_mapped:
            continue  # flows treat it as an IPv4 address
        found = list(table.matches(packed))
        assert [value for _, value in found] == [str(network) for network in expected]
        assert [str(prefix) for prefix, _ in found] == [str(network) for network in expected]
        assert all(packed in prefix for prefix, _ in found)


@given(st.lists(NETWORKS, max_size=30), st.lists(ADDRESSES, min_size=1, max_size=30))
def test_records_are_those_of_all_networks_around_an_address(networks: list, addresses: list) -> None:
    """The core finds the networks. Longer ones take precedence."""
    table: PrefixTable[dict[str, str]] = PrefixTable()
    for i, network in enumerate(networks):
        table.insert(parse_prefix(str(network)), {f"field{i % 3}": str(network)})
    records = NetworkRecords(table)
    packed = [ip(str(address)) for address in [*addresses, *(each.network_address for each in networks)]]
    found = [records.record(network) for network in records.find(b"".join(packed))]
    expected = [dict(ChainMap(*(record for _, record in table.matches(address)))) for address in packed]
    assert found == expected


@given(NETWORKS, ADDRESSES)
def test_prefixes_contain_the_addresses_of_their_network(network: object, address: object) -> None:
    inside = address.version == network.version and address in network
    assert (ip(str(address)) in parse_prefix(str(network))) == inside


def test_the_first_value_of_a_network_is_kept() -> None:
    table: PrefixTable[int] = PrefixTable()
    assert table.insert(parse_prefix("10.0.0.0/8"), 1) == 1
    assert table.insert(parse_prefix("10.0.0.0/8"), 2) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", "192.0.2.1/32"),
        ("2001:db8::1", "2001:db8::1/128"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ("::/0", "::/0"),
    ],
)
def test_networks_are_normalized(text: str, expected: str) -> None:
    assert str(parse_prefix(text)) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "192.0.2.300",
            "'192.0.2.300' is not a network; write an address, or a network such as 192.0.2.0/24 or",
        ),
        ("192.0.2.0/33", "is not a network"),
        ("router1", "is not a network"),
        ("192.0.2.1/24", "'192.0.2.1/24' has bits set beyond its prefix length; did you mean 192.0.2.0/24?"),
        ("fe80::1%eth0/64", "'fe80::1%eth0/64' has a zone, which flows do not have; remove % and the text"),
    ],
)
def test_invalid_networks_are_refused(text: str, error: str) -> None:
    with pytest.raises(EnrichmentError) as caught:
        parse_prefix(text)
    assert error in str(caught.value)


IPV4_TEXTS = st.one_of(
    NETWORKS.map(str),
    st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){2,4}(/[0-9]{0,3})?", fullmatch=True),
    st.builds("{}/{}".format, V4.map(ipaddress.IPv4Address), st.integers(0, 40)),
)


@given(IPV4_TEXTS)
def test_the_fast_reader_of_ipv4_agrees_with_the_library(text: str) -> None:
    fast = prefixes._parse_ipv4(text)
    try:
        assert fast in (None, prefixes._parse(text))
    except EnrichmentError:
        assert fast is None


@pytest.mark.parametrize("text", ["192.0.2.1", "192.0.2.1/32", "192.0.2.0/24", "0.0.0.0/0", "10.0.0.0/8"])
def test_the_usual_form_of_ipv4_is_read_fast(text: str) -> None:
    assert prefixes._parse_ipv4(text) == prefixes._parse(text)
