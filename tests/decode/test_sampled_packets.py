"""Fields of a sampled packet, in an sFlow header record and in elements 313 and 315 of IPFIX."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.datagrams import (
    authentication,
    ethernet,
    extension,
    flow_sample,
    fragment,
    icmp,
    ip,
    ipv4,
    ipv6,
    mapped,
    mpls,
    sampled_header,
    sctp,
    sflow,
    tagged,
    tcp,
    u16,
    u32,
    udp,
    variable,
)
from tests.support.decoding import Decode, Outcome, both_decoders, columns, ipfix_record

pytestmark = both_decoders

ETHERNET, IPV4, IPV6, MPLS = 1, 11, 12, 13

ADDRESSES4 = {"src_addr": mapped("192.0.2.1"), "dst_addr": mapped("198.51.100.2")}
ADDRESSES6 = {"src_addr": ip("2001:db8::1"), "dst_addr": ip("2001:db8::2")}


def parse(decode: Decode, packet: bytes, *names: str, protocol: int = ETHERNET) -> Outcome:
    return decode(sflow(flow_sample(sampled_header(packet, protocol))), schema=columns(*names))


def flow_of(decode: Decode, packet: bytes, *names: str, protocol: int = ETHERNET) -> dict[str, Any]:
    """Return the flow of a valid packet."""
    outcome = parse(decode, packet, *names, protocol=protocol)
    assert outcome.counters == {}
    return outcome.flow


# Link layer -------------------------------------------------------------------------------------------------

LINK = ("src_mac", "dst_mac", "vlan_id", "inner_vlan_id", "etype", "mpls_labels", "mpls_ttl", "proto")
MACS = {"src_mac": 0x020000000001, "dst_mac": 0x020000000002}


@pytest.mark.parametrize("outer", [0x8100, 0x88A8, 0x9100])
def test_vlan_tags_fill_their_columns(decode: Decode, outer: int) -> None:
    inside = {"etype": 0x0800, "proto": 6}
    one = ethernet(tagged(ipv4(), 1062, priority=7), outer)
    assert flow_of(decode, one, *LINK) == MACS | inside | {"vlan_id": 1062}
    two = ethernet(tagged(tagged(ipv4(), 1493, priority=2), 1062, 0x8100), outer)
    assert flow_of(decode, two, *LINK) == MACS | inside | {"vlan_id": 1062, "inner_vlan_id": 1493}
    three = ethernet(tagged(tagged(tagged(ipv4(), 3), 2, 0x8100), 1, 0x8100), outer)
    assert flow_of(decode, three, *LINK) == MACS | inside | {"vlan_id": 1, "inner_vlan_id": 2}


def test_a_priority_tag_has_no_vlan(decode: Decode) -> None:
    frame = ethernet(tagged(tagged(ipv4(), 5), 0, 0x8100, priority=3), 0x8100)
    assert flow_of(decode, frame, "vlan_id", "inner_vlan_id") == {"inner_vlan_id": 5}


@pytest.mark.parametrize("ethertype", [0x8847, 0x8848])
@pytest.mark.parametrize(
    ("payload", "labels", "inside"),
    [
        (ipv4(), [24000, 17], {"etype": 0x0800, "proto": 6}),
        (ipv6(), [24000, 17], {"etype": 0x86DD, "proto": 6}),
        (ipv4(), [24000, 0], {"etype": 0x0800, "proto": 6}),
        (ipv6(), [2], {"etype": 0x86DD, "proto": 6}),
        (ipv4(), [2, 16], {"etype": 0x0800, "proto": 6}),
    ],
)
def test_mpls_labels_fill_their_columns(
    decode: Decode, ethertype: int, payload: bytes, labels: list[int], inside: dict[str, int]
) -> None:
    stack = {"mpls_labels": labels, "mpls_ttl": [64 + index for index in range(len(labels))]}
    frame = ethernet(mpls(payload, *labels), ethertype)
    assert flow_of(decode, frame, *LINK) == MACS | stack | inside


def test_mpls_pseudowire_keeps_the_outer_mac_addresses(decode: Decode) -> None:
    inner = ethernet(ipv4(), src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b")
    stack = {"mpls_labels": [16], "mpls_ttl": [64], "etype": 0x0800, "proto": 6}
    frame = ethernet(mpls(u32(0) + inner, 16), 0x8847)
    assert flow_of(decode, frame, *LINK) == MACS | stack
    inner_macs = {"src_mac": 0x02000000000A, "dst_mac": 0x02000000000B}
    assert flow_of(decode, mpls(u32(0) + inner, 16), *LINK, protocol=MPLS) == inner_macs | stack


@pytest.mark.parametrize(
    "payload", [u32(1) + ethernet(ipv4()), ethernet(ipv4(), dst="12:00:00:00:00:00"), b"\x70" * 40]
)
def test_an_unknown_mpls_payload_is_an_unknown_header(decode: Decode, payload: bytes) -> None:
    outcome = parse(decode, ethernet(mpls(payload, 16), 0x8847), *LINK)
    assert outcome.flow == MACS | {"mpls_labels": [16], "mpls_ttl": [64], "etype": 0x8847}
    assert outcome.counters == {"unknown_header": 1}


def test_an_unknown_ethertype_keeps_the_fields_before_it(decode: Decode) -> None:
    outcome = parse(decode, ethernet(tagged(bytes(40), 5, 0x88CC), 0x8100), *LINK)
    assert outcome.flow == MACS | {"vlan_id": 5, "etype": 0x88CC}
    assert outcome.counters == {"unknown_header": 1}


def test_a_length_is_not_an_ethertype(decode: Decode) -> None:
    outcome = parse(decode, ethernet(bytes(38), 38), *LINK)
    assert outcome.flow == MACS
    assert outcome.counters == {"unknown_header": 1}


# Network layer ----------------------------------------------------------------------------------------------

NETWORK = (
    "etype", "src_addr", "dst_addr", "bytes", "proto", "ip_tos", "ip_ttl", "ip_fragment_id",
    "ip_fragment_offset", "ip_flags", "ipv6_flow_label",
)  # fmt: skip
PORTS = ("proto", "src_port", "dst_port", "tcp_flags", "icmp_type", "icmp_code")


@pytest.mark.parametrize("protocol", [ETHERNET, IPV4])
def test_ipv4_headers_fill_their_columns(decode: Decode, protocol: int) -> None:
    packet = ipv4(udp(1, 2), proto=17, tos=0xB8, ttl=61, identification=41647, flags=2, total_length=1500)
    expected = ADDRESSES4 | {
        "etype": 0x0800,
        "bytes": 1500,
        "proto": 17,
        "ip_tos": 0xB8,
        "ip_ttl": 61,
        "ip_fragment_id": 41647,
        "ip_flags": 2,
    }
    packet = ethernet(packet) if protocol == ETHERNET else packet
    assert flow_of(decode, packet, *NETWORK, protocol=protocol) == expected


@pytest.mark.parametrize("protocol", [ETHERNET, IPV6])
def test_ipv6_headers_fill_their_columns(decode: Decode, protocol: int) -> None:
    packet = ipv6(
        udp(1, 2), next_header=17, traffic_class=0xB8, flow_label=0xABCDE, hop_limit=61, payload_length=1460
    )
    expected = ADDRESSES6 | {
        "etype": 0x86DD,
        "bytes": 1500,
        "proto": 17,
        "ip_tos": 0xB8,
        "ip_ttl": 61,
        "ipv6_flow_label": 0xABCDE,
    }
    packet = ethernet(packet, 0x86DD) if protocol == ETHERNET else packet
    assert flow_of(decode, packet, *NETWORK, protocol=protocol) == expected


@pytest.mark.parametrize(
    ("packet", "labels", "inside"),
    [
        (mpls(ipv4(tcp(80, 443)), 24000, 17), [24000, 17], ADDRESSES4 | {"etype": 0x0800}),
        (mpls(ipv6(tcp(80, 443)), 24000), [24000], ADDRESSES6 | {"etype": 0x86DD}),
        (mpls(ipv6(tcp(80, 443)), 2), [2], ADDRESSES6 | {"etype": 0x86DD}),
    ],
)
def test_a_sampled_header_may_begin_with_labels(
    decode: Decode, packet: bytes, labels: list[int], inside: dict[str, Any]
) -> None:
    names = ("src_addr", "dst_addr", "etype", "mpls_labels", "src_port", "dst_port")
    expected = inside | {"mpls_labels": labels, "src_port": 80, "dst_port": 443}
    assert flow_of(decode, packet, *names, protocol=MPLS) == expected


@pytest.mark.parametrize(("packet", "protocol", "etype"), [(ipv6(), IPV4, 0x0800), (ipv4(), IPV6, 0x86DD)])
def test_a_sampled_header_of_the_wrong_version_is_a_bad_packet(
    decode: Decode, packet: bytes, protocol: int, etype: int
) -> None:
    outcome = parse(decode, packet, "etype", "src_addr", "proto", "bytes", protocol=protocol)
    assert outcome.flow == {"etype": etype}
    assert outcome.counters == {"bad_packet": 1}


def test_ports_are_read_after_ipv4_options(decode: Decode) -> None:
    packet = ipv4(tcp(80, 443), options=bytes([1] * 12))
    assert flow_of(decode, ethernet(packet), "src_port", "dst_port") == {"src_port": 80, "dst_port": 443}


def test_only_the_first_ipv4_fragment_has_ports(decode: Decode) -> None:
    names = ("ip_fragment_id", "ip_fragment_offset", "ip_flags", "proto", "src_port")
    first = ipv4(udp(80, 443), proto=17, identification=9, flags=1)
    assert flow_of(decode, ethernet(first), *names) == {
        "ip_fragment_id": 9,
        "ip_flags": 1,
        "proto": 17,
        "src_port": 80,
    }
    later = ipv4(udp(80, 443), proto=17, identification=9, offset=185)
    assert flow_of(decode, ethernet(later), *names) == {
        "ip_fragment_id": 9,
        "ip_fragment_offset": 185,
        "proto": 17,
    }


@pytest.mark.parametrize(
    "packet",
    [
        ipv4(tcp(80, 443), header_words=4),
        ipv4(tcp(80, 443), total_length=19),
        ipv4(tcp(80, 443), options=bytes(8), total_length=24),
        ipv4(tcp(80, 443), version=6),
    ],
)
def test_an_inconsistent_ipv4_header_is_a_bad_packet(decode: Decode, packet: bytes) -> None:
    outcome = parse(decode, ethernet(packet), "src_mac", "etype", "src_addr", "bytes", "src_port")
    assert outcome.flow == {"src_mac": 0x020000000001, "etype": 0x0800}
    assert outcome.counters == {"bad_packet": 1}


def test_frame_padding_is_not_a_transport_header(decode: Decode) -> None:
    assert flow_of(decode, ethernet(ipv4(total_length=20) + tcp(80, 443)), "proto", "src_port") == {
        "proto": 6
    }


def test_ipv6_without_payload_length_has_no_bytes(decode: Decode) -> None:
    """A jumbogram (RFC 2675), or a host that leaves lengths to its network card, has an unknown length."""
    packet = ipv6(tcp(80, 443), payload_length=0)
    assert flow_of(decode, ethernet(packet, 0x86DD), "bytes", "src_port") == {"src_port": 80}


@pytest.mark.parametrize("header", [0, 43, 60, 135, 139, 140])
@pytest.mark.parametrize("units", [0, 2])
def test_ipv6_extension_headers_are_walked(decode: Decode, header: int, units: int) -> None:
    packet = ipv6(extension(60, extension(6, tcp(80, 443)), units), next_header=header)
    assert flow_of(decode, ethernet(packet, 0x86DD), "proto", "src_port") == {"proto": 6, "src_port": 80}


def test_an_ipv6_authentication_header_has_its_length_in_words(decode: Decode) -> None:
    packet = ipv6(authentication(17, udp(80, 443)), next_header=51)
    assert flow_of(decode, ethernet(packet, 0x86DD), "proto", "src_port") == {"proto": 17, "src_port": 80}


def test_only_the_first_ipv6_fragment_has_ports(decode: Decode) -> None:
    names = ("ip_fragment_id", "ip_fragment_offset", "ip_flags", "proto", "src_port")
    first = ipv6(fragment(17, udp(80, 443), more=True, identification=0x12345678), next_header=44)
    assert flow_of(decode, ethernet(first, 0x86DD), *names) == {
        "ip_fragment_id": 0x12345678,
        "ip_flags": 1,
        "proto": 17,
        "src_port": 80,
    }
    later = ipv6(fragment(17, udp(80, 443), offset=185, identification=9), next_header=44)
    assert flow_of(decode, ethernet(later, 0x86DD), *names) == {
        "ip_fragment_id": 9,
        "ip_fragment_offset": 185,
        "proto": 17,
    }
    # The data after the header of a later fragment is never another extension header.
    options = ipv6(fragment(60, extension(17, udp(80, 443)), offset=185), next_header=44)
    assert flow_of(decode, ethernet(options, 0x86DD), "proto", "src_port") == {"proto": 60}


@pytest.mark.parametrize(("next_header", "proto"), [(59, 59), (50, 50)])
def test_the_walk_of_ipv6_headers_ends_at_other_headers(decode: Decode, next_header: int, proto: int) -> None:
    packet = ipv6(extension(next_header, tcp(80, 443)), next_header=0)
    assert flow_of(decode, ethernet(packet, 0x86DD), "proto", "src_port") == {"proto": proto}


@pytest.mark.parametrize(
    "nested",
    [ipv4(ipv4(tcp(1, 2)), proto=4, src="10.9.9.9"), ipv4(ipv6(tcp(1, 2)), proto=41, src="10.9.9.9")],
)
def test_only_the_outermost_ip_header_is_read(decode: Decode, nested: bytes) -> None:
    flow = flow_of(decode, ethernet(nested), "src_addr", "proto", "src_port", "bytes")
    assert flow == {"src_addr": mapped("10.9.9.9"), "proto": nested[9], "bytes": len(nested)}


# Transport layer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proto", "segment", "flow"),
    [
        (6, tcp(80, 443, flags=0x92), {"src_port": 80, "dst_port": 443, "tcp_flags": 0x92}),
        # NS and the reserved bits (RFC 9293 section 3.1), next to the data offset
        (
            6,
            tcp(80, 443)[:12] + b"\x51\x10" + bytes(6),
            {"src_port": 80, "dst_port": 443, "tcp_flags": 0x110},
        ),
        (
            6,
            tcp(80, 443)[:12] + b"\x5f\x10" + bytes(6),
            {"src_port": 80, "dst_port": 443, "tcp_flags": 0xF10},
        ),
        (17, udp(53, 1234), {"src_port": 53, "dst_port": 1234}),
        (132, sctp(2905, 2906), {"src_port": 2905, "dst_port": 2906}),
        (33, u16(1) + u16(2) + bytes(12), {"src_port": 1, "dst_port": 2}),
        (136, udp(53, 1234), {"src_port": 53, "dst_port": 1234}),
        (1, icmp(8, 1), {"icmp_type": 8, "icmp_code": 1}),
        (58, icmp(135, 2), {"icmp_type": 135, "icmp_code": 2}),
        (47, bytes(8), {}),
        (50, b"\x01" * 8, {}),
        (2, b"\x11" * 8, {}),
    ],
)
def test_transport_headers_fill_their_columns(
    decode: Decode, proto: int, segment: bytes, flow: dict[str, int]
) -> None:
    expected = flow | {"proto": proto}
    assert flow_of(decode, ethernet(ipv4(segment, proto=proto)), *PORTS) == expected
    assert flow_of(decode, ethernet(ipv6(segment, next_header=proto), 0x86DD), *PORTS) == expected


# Truncated packets ------------------------------------------------------------------------------------------


def test_every_prefix_of_a_packet_has_its_complete_fields(decode: Decode) -> None:
    packet = ethernet(tagged(ipv4(tcp(80, 443, flags=0x12), options=bytes(4)), 7), 0x8100)
    ends = {
        14: ["src_mac"],
        18: ["vlan_id", "etype"],
        38: ["src_addr", "bytes"],
        46: ["src_port"],
        56: ["tcp_flags"],
    }
    names = [name for group in ends.values() for name in group]
    for size in range(len(packet) + 1):
        # The tag ends with the ethertype at byte 18. Its VLAN may be complete earlier.
        expected = {name for end, group in ends.items() if size >= end for name in group}
        found = set(flow_of(decode, packet[:size], *names))
        assert found - {"vlan_id"} == expected - {"vlan_id"}, size


def test_a_truncated_extension_header_is_the_protocol(decode: Decode) -> None:
    packet = ipv6(extension(43, extension(6, tcp(80, 443))), next_header=0)
    assert flow_of(decode, ethernet(packet, 0x86DD)[: 14 + 40 + 7], "proto") == {}
    assert flow_of(decode, ethernet(packet, 0x86DD)[: 14 + 40 + 8 + 7], "proto") == {"proto": 43}
    assert flow_of(decode, ethernet(packet, 0x86DD)[: 14 + 40 + 16], "proto") == {"proto": 6}


# Elements 313 and 315 ---------------------------------------------------------------------------------------

SECTION = columns("src_mac", "etype", "src_addr", "bytes", "packets", "src_port")


def test_data_link_frame_sections_are_parsed(decode: Decode) -> None:
    frame = ethernet(ipv4(tcp(80, 443), total_length=1500))
    outcome = decode(ipfix_record([(315, 65535)], variable(frame)), schema=SECTION)
    assert outcome.flow == {
        "src_mac": 0x020000000001,
        "etype": 0x0800,
        "src_addr": mapped("192.0.2.1"),
        "bytes": 1500,
        "packets": 1,
        "src_port": 80,
    }


@pytest.mark.parametrize(
    ("packet", "etype", "address"),
    [(ipv4(tcp(80, 443)), 0x0800, mapped("192.0.2.1")), (ipv6(tcp(80, 443)), 0x86DD, ip("2001:db8::1"))],
)
def test_ip_header_packet_sections_are_parsed(
    decode: Decode, packet: bytes, etype: int, address: bytes
) -> None:
    outcome = decode(ipfix_record([(313, len(packet))], packet), schema=SECTION)
    flow = {"etype": etype, "src_addr": address, "bytes": len(packet), "packets": 1, "src_port": 80}
    assert outcome.flow == flow
    assert outcome.counters == {}


def test_a_section_of_an_unknown_ip_version_is_an_unknown_header(decode: Decode) -> None:
    outcome = decode(ipfix_record([(313, 40)], b"\x50" * 40), schema=SECTION)
    assert outcome.flow == {"packets": 1}
    assert outcome.counters == {"unknown_header": 1}


def test_the_frame_is_preferred_to_the_ip_header(decode: Decode) -> None:
    frame, packet = ethernet(ipv4(tcp(80, 443))), ipv6(tcp(90, 91))
    outcome = decode(ipfix_record([(313, len(packet)), (315, len(frame))], packet + frame), schema=SECTION)
    assert outcome.flow["src_addr"] == mapped("192.0.2.1")
    assert outcome.flow["src_port"] == 80


def test_elements_take_precedence_over_the_packet(decode: Decode) -> None:
    frame = ethernet(ipv4(tcp(80, 443)))
    outcome = decode(ipfix_record([(315, len(frame)), (7, 2)], frame + u16(99)), schema=SECTION)
    assert outcome.flow["src_port"] == 99
    assert outcome.flow["bytes"] == 40
    outcome = decode(
        ipfix_record([(315, len(frame)), (7, 2), (1, 4)], frame + u16(0) + u32(0)), schema=SECTION
    )
    assert outcome.flow["src_port"] == 80  # a port of zero is absent
    assert "bytes" not in outcome.flow  # zero bytes are a value
