"""Inner packets of tunnels, and packets in no tunnel, have the expected values.

The packets are built byte by byte (tunnels.py), written as literal bytes, or built by scapy.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import tunnels as t
from tests.support.datagrams import (
    data_set,
    ethernet,
    extension,
    flow_sample,
    fragment,
    ip,
    ipv4,
    ipv6,
    mapped,
    mpls,
    netflow5,
    netflow9,
    record5,
    sampled_ethernet,
    sampled_header,
    sampled_ip,
    sflow,
    tagged,
    tcp,
    template,
    template_set9,
    u16,
    u32,
    udp,
    variable,
)
from tests.support.decoding import Decode, Outcome, both_decoders, columns, ipfix_record

pytestmark = both_decoders

ETHERNET, IPV4, IPV6, MPLS = 1, 11, 12, 13
ALL = ("vxlan", "geneve", "gre", "ipip", "srv6", "gtp")

NAMES = (
    "src_addr", "dst_addr", "etype", "proto", "src_port", "dst_port", "bytes", "src_mac", "dst_mac",
    "vlan_id", "mpls_labels", "ip_ttl", "tunnel_src_addr", "tunnel_dst_addr", "tunnel_id",
)  # fmt: skip

# The inner packet, its frame, and their flows.
INSIDE4 = ipv4(tcp(80, 443), src="10.0.0.1", dst="10.0.0.2", ttl=9)
INSIDE6 = ipv6(tcp(80, 443), src="2001:db8::a", dst="2001:db8::b", hop_limit=9)
FRAME = ethernet(tagged(INSIDE4, 7), 0x8100, "02:00:00:00:00:0a", "02:00:00:00:00:0b")
FLOW4 = {"src_addr": mapped("10.0.0.1"), "dst_addr": mapped("10.0.0.2"), "etype": 0x0800, "proto": 6,
         "bytes": 40, "src_port": 80, "dst_port": 443, "ip_ttl": 9}  # fmt: skip
FLOW6 = {"src_addr": ip("2001:db8::a"), "dst_addr": ip("2001:db8::b"), "etype": 0x86DD, "proto": 6,
         "bytes": 60, "src_port": 80, "dst_port": 443, "ip_ttl": 9}  # fmt: skip
FRAME_FLOW = FLOW4 | {"src_mac": 0x02000000000A, "dst_mac": 0x02000000000B, "vlan_id": 7}
OUTER4 = {"tunnel_src_addr": mapped("192.0.2.1"), "tunnel_dst_addr": mapped("198.51.100.2")}
OUTER6 = {"tunnel_src_addr": ip("2001:db8::1"), "tunnel_dst_addr": ip("2001:db8::2")}


def parse(decode: Decode, packet: bytes, *names: str, protocol: int = ETHERNET, opened: Any = ()) -> Outcome:
    schema = columns(*(names or NAMES))
    return decode(sflow(flow_sample(sampled_header(packet, protocol))), schema=schema, decapsulate=opened)


def flow_of(
    decode: Decode, packet: bytes, *names: str, protocol: int = ETHERNET, opened: Any = ()
) -> dict[str, Any]:
    """Return the flow of a valid packet."""
    outcome = parse(decode, packet, *names, protocol=protocol, opened=opened)
    assert outcome.counters == {}
    return outcome.flow


def in_udp(port: int, payload: bytes) -> tuple[int, bytes]:
    return 17, udp(50000, port, payload)


# Kinds of tunnel --------------------------------------------------------------------------------------------

TUNNELS = {
    "vxlan": ("vxlan", in_udp(4789, t.vxlan(FRAME, 0x123456)), FRAME_FLOW | {"tunnel_id": 0x123456}),
    "vxlan-linux": ("vxlan", in_udp(8472, t.vxlan(FRAME, 1)), FRAME_FLOW | {"tunnel_id": 1}),
    "vxlan-other-flags": (
        "vxlan", in_udp(4789, t.vxlan(FRAME, 1, flags=0xFF)), FRAME_FLOW | {"tunnel_id": 1},
    ),
    "geneve": ("geneve", in_udp(6081, t.geneve(FRAME, vni=0xABCDEF)), FRAME_FLOW | {"tunnel_id": 0xABCDEF}),
    "geneve-options": (
        "geneve", in_udp(6081, t.geneve(FRAME, vni=2, options=bytes(252))), FRAME_FLOW | {"tunnel_id": 2},
    ),
    "geneve-critical": (
        "geneve", in_udp(6081, t.geneve(FRAME, vni=2, flags=0x40)), FRAME_FLOW | {"tunnel_id": 2},
    ),
    "geneve-ipv4": ("geneve", in_udp(6081, t.geneve(INSIDE4, 0x0800, 2)), FLOW4 | {"tunnel_id": 2}),
    "geneve-ipv6": ("geneve", in_udp(6081, t.geneve(INSIDE6, 0x86DD, 2)), FLOW6 | {"tunnel_id": 2}),
    "gre": ("gre", (47, t.gre(INSIDE4)), FLOW4),
    "gre-ipv6": ("gre", (47, t.gre(INSIDE6, 0x86DD)), FLOW6),
    "gre-key": ("gre", (47, t.gre(INSIDE4, key=0xDEADBEEF)), FLOW4 | {"tunnel_id": 0xDEADBEEF}),
    "gre-checksum": ("gre", (47, t.gre(INSIDE4, checksum=0x12340000)), FLOW4),
    "gre-all": ("gre", (47, t.gre(INSIDE4, key=5, checksum=1, sequence=2)), FLOW4 | {"tunnel_id": 5}),
    "gre-ignored-bits": ("gre", (47, t.gre(INSIDE4, key=5, flags=0x03F8)), FLOW4 | {"tunnel_id": 5}),
    "gre-bridged": ("gre", (47, t.gre(FRAME, 0x6558, key=0x5DC00)), FRAME_FLOW | {"tunnel_id": 0x5DC00}),
    "gre-mpls": ("gre", (47, t.gre(mpls(INSIDE4, 16, 17), 0x8847)), FLOW4 | {"mpls_labels": [16, 17]}),
    "gre-mpls-multicast": ("gre", (47, t.gre(mpls(INSIDE6, 16), 0x8848)), FLOW6 | {"mpls_labels": [16]}),
    "ipip": ("ipip", (4, INSIDE4), FLOW4),
    "ipip-6": ("ipip", (41, INSIDE6), FLOW6),
    "gtp": ("gtp", in_udp(2152, t.gtp(INSIDE4, 0xCAFEF00D)), FLOW4 | {"tunnel_id": 0xCAFEF00D}),
    "gtp-6": ("gtp", in_udp(2152, t.gtp(INSIDE6, 3)), FLOW6 | {"tunnel_id": 3}),
    "gtp-sequence": ("gtp", in_udp(2152, t.gtp(INSIDE4, 3, sequence=77)), FLOW4 | {"tunnel_id": 3}),
    "gtp-npdu": ("gtp", in_udp(2152, t.gtp(bytes(4) + INSIDE4, 3, first=0x31)), FLOW4 | {"tunnel_id": 3}),
    "gtp-extensions": (
        "gtp", in_udp(2152, t.gtp(INSIDE4, 3, [(0x85, b"\x00\x09"), (0x40, bytes(6))])),
        FLOW4 | {"tunnel_id": 3},
    ),
    # Without bit E, the type of the next extension header is ignored.
    "gtp-no-extensions": (
        "gtp", in_udp(2152, t.gtp(b"\0\0\0\x85" + INSIDE4, 3, first=0x32)), FLOW4 | {"tunnel_id": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TUNNELS)
@pytest.mark.parametrize("version", [4, 6])
def test_the_inner_packet_is_the_flow(decode: Decode, name: str, version: int) -> None:
    kind, (proto, payload), inside = TUNNELS[name]
    frame = ethernet(tagged(ipv4(payload, proto), 99), 0x8100)
    if version == 6:
        frame = ethernet(mpls(ipv6(payload, proto), 500), 0x8847)
    outer = OUTER4 if version == 4 else OUTER6
    assert flow_of(decode, frame, opened=(kind,)) == inside | outer
    assert flow_of(decode, frame, opened=ALL) == inside | outer


@pytest.mark.parametrize("name", TUNNELS)
def test_other_kinds_of_tunnels_stay_closed(decode: Decode, name: str) -> None:
    kind, (proto, payload), _ = TUNNELS[name]
    frame = ethernet(tagged(ipv4(payload, proto), 99), 0x8100)
    plain = flow_of(decode, frame)
    assert plain["src_addr"] == mapped("192.0.2.1")
    assert (plain["proto"], plain["bytes"], plain["vlan_id"]) == (proto, 20 + len(payload), 99)
    outcome = parse(decode, frame, opened=tuple(each for each in ALL if each != kind))
    assert outcome.flow == plain
    assert outcome.counters == {"not_encapsulated": 1}


SEGMENTS = ["2001:db8::7", "2001:db8::8"]


@pytest.mark.parametrize(
    ("proto", "inside", "expected"), [(4, INSIDE4, FLOW4), (41, INSIDE6, FLOW6), (143, FRAME, FRAME_FLOW)]
)
@pytest.mark.parametrize("headers", [0, 1, 2])
def test_srv6_tunnels_are_opened(
    decode: Decode, proto: int, inside: bytes, expected: dict[str, Any], headers: int
) -> None:
    for _ in range(headers):
        inside, proto = t.routing(proto, inside, SEGMENTS, left=1, options=bytes(8)), 43
    packet = ethernet(ipv6(extension(proto, inside), 0), 0x86DD)
    assert flow_of(decode, packet, opened=("srv6",)) == expected | OUTER6
    assert flow_of(decode, packet, opened=ALL) == expected | OUTER6
    ipip = parse(decode, packet, opened=("ipip",))
    if headers or expected is FRAME_FLOW:
        assert ipip.counters == {"not_encapsulated": 1}
    else:
        assert ipip.flow == expected | OUTER6


def test_another_routing_header_is_not_srv6(decode: Decode) -> None:
    packet = ethernet(ipv6(t.routing(4, INSIDE4, ["2001:db8::7"], kind=2, left=1), 43), 0x86DD)
    assert parse(decode, packet, opened=("srv6",)).counters == {"not_encapsulated": 1}
    assert flow_of(decode, packet, opened=("ipip",)) == FLOW4 | OUTER6
    both = ethernet(ipv6(t.routing(43, t.routing(4, INSIDE4, SEGMENTS), ["2001:db8::7"], kind=2), 43), 0x86DD)
    assert parse(decode, both, opened=ALL).counters == {"not_encapsulated": 1}


def test_ipv4_packets_are_not_srv6(decode: Decode) -> None:
    packet = ethernet(ipv4(INSIDE4, 4))
    assert parse(decode, packet, opened=("srv6",)).counters == {"not_encapsulated": 1}


CLOSED = {
    "vxlan-no-vni": in_udp(4789, t.vxlan(FRAME, 1, flags=0xF7)),
    "vxlan-port": in_udp(4790, t.vxlan(FRAME, 1)),
    "vxlan-source-port": (17, udp(4789, 50000, t.vxlan(FRAME, 1))),
    "geneve-version": in_udp(6081, t.geneve(FRAME, version=1)),
    "geneve-control": in_udp(6081, t.geneve(FRAME, flags=0x80)),
    "geneve-protocol": in_udp(6081, t.geneve(FRAME, 0x8847)),
    "geneve-options-cut": in_udp(6081, t.geneve(b"", options=bytes(252))[:200]),
    "gre-routing": (47, t.gre(INSIDE4, flags=0x4000)),
    "gre-strict-route": (47, t.gre(INSIDE4, flags=0x0800)),
    "gre-version": (47, t.gre(INSIDE4, flags=1)),
    "gre-ppp": (47, t.gre(INSIDE4, 0x880B)),
    "gre-cut": (47, t.gre(b"", key=1)[:7]),
    "gtp-version": in_udp(2152, t.gtp(INSIDE4, first=0x50)),
    "gtp-prime": in_udp(2152, t.gtp(INSIDE4, first=0x20)),
    "gtp-echo": in_udp(2152, t.gtp(INSIDE4, message=1)),
    "gtp-no-packet": in_udp(2152, t.gtp(b"\x00" + INSIDE4)),
    "gtp-nothing": in_udp(2152, t.gtp(b"")),
    "gtp-extension-of-no-length": in_udp(2152, t.gtp(INSIDE4, 1, [(0x85, b"")])),
    "gtp-extension-cut": in_udp(2152, t.gtp(b"", 1, [(0x85, bytes(1018))])[:100]),
    "ethernet-cut": (143, FRAME[:13]),
    "ipv4-cut": (4, INSIDE4[:19]),
    "ipv6-cut": (41, INSIDE6[:39]),
    "labels-cut": (47, t.gre(b"\0\0\0", 0x8847)),
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_tunnel_without_a_packet_stays_closed(decode: Decode, name: str) -> None:
    proto, payload = CLOSED[name]
    frame = ethernet(ipv6(payload, proto), 0x86DD)
    outcome = parse(decode, frame, opened=ALL)
    assert outcome.flow == flow_of(decode, frame)
    assert outcome.flow["bytes"] == 40 + len(payload)
    assert outcome.counters == {"not_encapsulated": 1}


@pytest.mark.parametrize(
    "inside",
    [
        (4, INSIDE6),
        (41, INSIDE4),
        (4, ipv4(header_words=4)),
        (4, ipv4(total_length=19)),
        in_udp(6081, t.geneve(INSIDE4, 0x86DD)),
        (47, t.gre(INSIDE6)),
    ],
)
def test_a_tunnel_with_an_invalid_inner_header_stays_closed(
    decode: Decode, inside: tuple[int, bytes]
) -> None:
    """The outer packet is the flow if the inner IP header is invalid."""
    frame = ethernet(ipv4(inside[1], inside[0]))
    outcome = parse(decode, frame, opened=ALL)
    assert outcome.flow == flow_of(decode, frame)
    assert outcome.counters == {"not_encapsulated": 1, "bad_packet": 1}


def test_an_inner_frame_is_the_flow_with_any_payload(decode: Decode) -> None:
    arp = ethernet(bytes(28), 0x0806)
    frame = ethernet(ipv4(udp(1, 4789, t.vxlan(arp, 7)), 17))
    outcome = parse(decode, frame, opened=ALL)
    macs = {"src_mac": 0x020000000001, "dst_mac": 0x020000000002}
    assert outcome.flow == macs | OUTER4 | {"etype": 0x0806, "tunnel_id": 7}
    assert outcome.counters == {"unknown_header": 1}
    bad = ethernet(ipv4(udp(1, 4789, t.vxlan(ethernet(ipv4(header_words=4)), 7)), 17))
    outcome = parse(decode, bad, opened=ALL)
    assert outcome.flow == macs | OUTER4 | {"etype": 0x0800, "tunnel_id": 7}
    assert outcome.counters == {"bad_packet": 1}


def test_flows_without_a_packet_are_decoded(decode: Decode) -> None:
    """Aggregated flows have no packet: no tunnel is opened, and nothing is counted."""
    payloads = [
        netflow5(record5(octets=5)),
        netflow9(template_set9(template(256, (1, 4))), data_set(256, u32(5))),
    ]
    payloads += [
        ipfix_record([(1, 4)], u32(5)),
        sflow(flow_sample(sampled_ip("10.0.0.1", "10.0.0.2", length=5))),
    ]
    for payload in payloads:
        outcome = decode(payload, schema=columns("bytes"), decapsulate=ALL)
        assert outcome.flow == {"bytes": 5}
        assert outcome.counters == {}


def test_packets_in_no_tunnel_are_counted(decode: Decode) -> None:
    for frame in (ethernet(ipv4(tcp(1, 2))), ethernet(ipv6(tcp(1, 2)), 0x86DD), ethernet(b"")):
        outcome = parse(decode, frame, opened=ALL)
        assert outcome.flow == flow_of(decode, frame)
        assert outcome.counters == {"not_encapsulated": 1}
    outcome = parse(decode, ethernet(bytes(28), 0x0806), opened=ALL)
    assert outcome.flow["etype"] == 0x0806
    assert outcome.counters == {"not_encapsulated": 1, "unknown_header": 1}


def test_only_first_fragments_are_opened(decode: Decode) -> None:
    """Only the first fragment has the headers of the tunnel and of the inner packet."""
    first, later = ipv4(INSIDE4, 4, flags=1), ipv4(INSIDE4, 4, offset=100)
    assert flow_of(decode, ethernet(first), opened=ALL) == FLOW4 | OUTER4
    assert parse(decode, ethernet(later), opened=ALL).counters == {"not_encapsulated": 1}
    first, later = (ipv6(fragment(4, INSIDE4, offset, more=True), 44) for offset in (0, 100))
    assert flow_of(decode, ethernet(first, 0x86DD), opened=ALL) == FLOW4 | OUTER6
    assert parse(decode, ethernet(later, 0x86DD), opened=ALL).counters == {"not_encapsulated": 1}


def test_padding_after_the_outer_packet_is_not_an_inner_packet(decode: Decode) -> None:
    frame = ethernet(ipv4(b"", 4) + INSIDE4)
    assert parse(decode, frame, opened=ALL).counters == {"not_encapsulated": 1}


# Nested tunnels ---------------------------------------------------------------------------------------------


def nested(levels: int) -> bytes:
    """Return IPv4 in this many IPv4 headers. The source address of each header has its level."""
    packet = INSIDE4
    for level in range(levels):
        packet = ipv4(packet, 4, src=f"10.9.9.{level + 1}")
    return packet


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_nested_tunnels_are_opened(decode: Decode, levels: int) -> None:
    flow = flow_of(decode, nested(levels), protocol=IPV4, opened=("ipip",))
    assert flow == FLOW4 | {
        "tunnel_src_addr": mapped(f"10.9.9.{levels}"),
        "tunnel_dst_addr": mapped("198.51.100.2"),
    }


@pytest.mark.parametrize("levels", [5, 6, 50])
def test_the_fifth_tunnel_stays_closed(decode: Decode, levels: int) -> None:
    outcome = parse(decode, nested(levels), protocol=IPV4, opened=("ipip",))
    assert outcome.flow["src_addr"] == mapped(f"10.9.9.{levels - 4}")
    assert outcome.flow["tunnel_src_addr"] == mapped(f"10.9.9.{levels}")
    assert outcome.counters == {"tunnel_depth": 1}


def test_endpoints_and_identifier_come_from_the_outermost_tunnel(decode: Decode) -> None:
    inner = ethernet(ipv4(udp(1, 4789, t.vxlan(FRAME, 7)), 17, src="10.8.8.8"))
    packet = ethernet(ipv4(t.gre(inner, 0x6558, key=9), 47))
    assert flow_of(decode, packet, opened=ALL) == FRAME_FLOW | OUTER4 | {"tunnel_id": 9}
    middle = flow_of(decode, packet, opened=("gre",))
    assert (middle["src_addr"], middle["dst_port"], middle["tunnel_id"]) == (mapped("10.8.8.8"), 4789, 9)
    outcome = parse(decode, packet, opened=("vxlan",))  # the requested tunnel is not the outermost
    assert outcome.flow["proto"] == 47
    assert outcome.counters == {"not_encapsulated": 1}


def test_the_deepest_packet_that_can_be_read_is_the_flow(decode: Decode) -> None:
    cut = ipv4(ipv4(INSIDE4, 4, src="10.8.8.8")[:30], 4)
    flow = flow_of(decode, cut, protocol=IPV4, opened=("ipip",))
    assert flow["src_addr"] == mapped("10.8.8.8")
    bad = ipv4(ipv4(INSIDE6, 4, src="10.8.8.8"), 4)
    outcome = parse(decode, bad, protocol=IPV4, opened=("ipip",))
    assert outcome.flow["src_addr"] == mapped("10.8.8.8")
    assert outcome.counters == {"bad_packet": 1}


# Sources of packets -----------------------------------------------------------------------------------------

OUTSIDE = (
    sampled_ip("192.0.2.1", "198.51.100.2", length=90, proto=4, src_port=1, dst_port=2, tcp_flags=3, tos=4),
    sampled_ethernet(118, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x0800),
)


def test_sflow_records_of_the_outer_packet_are_ignored(decode: Decode) -> None:
    sample = flow_sample(sampled_header(ethernet(ipv4(INSIDE4, 4)), frame_length=122), *OUTSIDE)
    schema = columns(*NAMES, "frame_length", "ip_tos", "tcp_flags")
    inside = {"tcp_flags": 0x10, "frame_length": 122}
    assert decode(sflow(sample), schema=schema, decapsulate=ALL).flow == FLOW4 | OUTER4 | inside
    closed = decode(sflow(sample), schema=schema, decapsulate=("gre",))
    assert closed.flow["src_addr"] == mapped("192.0.2.1")
    assert (closed.flow["bytes"], closed.flow["src_port"], closed.flow["src_mac"]) == (90, 1, 0x020000000001)
    assert closed.counters == {"not_encapsulated": 1}


def test_sflow_records_of_the_outer_packet_are_ignored_without_packet_columns(decode: Decode) -> None:
    schema = columns("ip_tos").alter("ip_tos", sources=["sflow:sampled_ip.tos"])
    sample = sflow(flow_sample(sampled_header(ethernet(ipv4(INSIDE4, 4))), *OUTSIDE))
    assert decode(sample, schema=schema).flow == {"ip_tos": 4}
    assert decode(sample, schema=schema, decapsulate=ALL).flow == {}
    closed = decode(sample, schema=schema, decapsulate=("gre",))
    assert closed.flow == {"ip_tos": 4}
    assert closed.counters == {}


@pytest.mark.parametrize(
    ("element", "section"),
    [(315, ethernet(ipv4(INSIDE4, 4))), (313, ipv4(INSIDE4, 4)), (313, ipv6(INSIDE4, 4))],
)
def test_ipfix_sections_are_opened(decode: Decode, element: int, section: bytes) -> None:
    datagram = ipfix_record([(element, 65535)], variable(section))
    outer = OUTER6 if section[0] >> 4 == 6 else OUTER4
    outcome = decode(datagram, schema=columns(*NAMES), decapsulate=ALL)
    assert outcome.flow == FLOW4 | outer
    assert outcome.counters == {}
    assert decode(datagram, schema=columns(*NAMES), decapsulate=("gre",)).counters == {"not_encapsulated": 1}


def test_header_elements_of_a_record_describe_the_outer_packet(decode: Decode) -> None:
    """A record has addresses, ports, bytes, direction and interface next to a frame.

    For the inner packet, only the elements that no packet has remain: direction and interface.
    """
    fields = [(8, 4), (7, 2), (11, 2), (1, 4), (61, 1), (10, 4), (315, 65535)]
    beside = bytes([203, 0, 113, 9]) + u16(1111) + u16(2222) + u32(9999) + b"\x01" + u32(7)
    schema = columns(*NAMES).enable("in_if", "flow_direction")
    datagram = ipfix_record(fields, beside + variable(ethernet(ipv4(INSIDE4, 4))))
    own = {"in_if": 7, "flow_direction": 2}
    assert decode(datagram, schema=schema, decapsulate=ALL).flow == FLOW4 | OUTER4 | own
    closed = decode(datagram, schema=schema, decapsulate=("gre",)).flow
    assert (closed["src_port"], closed["dst_port"], closed["bytes"]) == (1111, 2222, 9999)
    assert closed["src_addr"][-4:] == bytes([203, 0, 113, 9])


@pytest.mark.parametrize("element", [313, 315])
def test_section_length_is_the_size_of_the_section(decode: Decode, element: int) -> None:
    packet = ipv4(tcp(80, 443), total_length=1500)
    section = ethernet(packet) if element == 315 else packet
    outcome = decode(ipfix_record([(element, 65535)], variable(section)), schema=columns("section_length"))
    assert outcome.flow == {"section_length": len(section)}
    assert flow_of(decode, ethernet(packet) + b"\0", "section_length") == {"section_length": 55}


# Literal bytes of the specifications ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "tunnel_id"),
    [
        # IPv4, UDP to 4789, VXLAN with VNI 0x2a; an Ethernet frame with IPv4 and ICMP
        (
            "45000056 00010000 40110000 c0000201 c6336402  c35012b5 00420000  08000000 00002a00"
            "02000000000b 02000000000a 0800  45000024 00000000 09010000 0a000001 0a000002 0800f7ff 00000000",
            0x2A,
        ),
        # IPv4, GRE with a key of 0x2a, IPv4
        ("45000040 00010000 402f0000 c0000201 c6336402  20000800 0000002a"
         "45000024 00000000 09010000 0a000001 0a000002 0800f7ff 00000000", 0x2A),
        # IPv4, UDP to 2152, GTP-U with a PDU session container (type 0x85, one word), IPv4
        ("45000050 00010000 40110000 c0000201 c6336402  08680868 003c0000  34ff0028 0000002a 00000085"
         " 01100900"
         "45000024 00000000 09010000 0a000001 0a000002 0800f7ff 00000000", 0x2A),
    ],
)  # fmt: skip
def test_literal_bytes_are_decoded(decode: Decode, packet: str, tunnel_id: int) -> None:
    flow = flow_of(decode, bytes.fromhex(packet.replace(" ", "")), protocol=IPV4, opened=ALL)
    assert flow["src_addr"] == mapped("10.0.0.1")
    assert (flow["proto"], flow["bytes"], flow["ip_ttl"]) == (1, 36, 9)
    assert flow | OUTER4 == flow
    assert flow["tunnel_id"] == tunnel_id


def scapy_packets() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return packets built by scapy. Their flow comes from port 80 of 10.0.0.1 or of 2001:db8::a."""
    from scapy.contrib.geneve import GENEVE
    from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
    from scapy.contrib.mpls import MPLS as Label
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrSegmentRouting
    from scapy.layers.l2 import GRE, LLC, SNAP, Dot1AD, Dot1Q, Dot3, Ether
    from scapy.layers.ppp import PPP, PPPoE
    from scapy.layers.vxlan import VXLAN

    inside = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=80, dport=443)
    inside6 = IPv6(src="2001:db8::a", dst="2001:db8::b") / TCP(sport=80, dport=443)
    frame = Ether(src="02:00:00:00:00:0a", dst="02:00:00:00:00:0b") / inside
    ether, outer = (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02"),
        IP(src="192.0.2.1", dst="198.51.100.2"),
    )
    outer6 = IPv6(src="2001:db8::1", dst="2001:db8::2")
    routing = IPv6ExtHdrSegmentRouting(addresses=SEGMENTS, segleft=1)
    return {
        "vxlan": (ether / outer / UDP(dport=4789) / VXLAN(vni=42) / frame, {"tunnel_id": 42}),
        "geneve": (ether / outer / UDP(dport=6081) / GENEVE(vni=42, proto=0x6558) / frame, {"tunnel_id": 42}),
        "gre": (ether / outer / GRE(key_present=1, key=42, chksum_present=1, seqnum_present=1) / inside,
                {"tunnel_id": 42}),
        "gre-bridged": (ether / outer6 / GRE(proto=0x6558) / frame, {}),
        "ipip": (ether / Dot1AD(vlan=5) / Dot1Q(vlan=6) / outer / inside, {}),
        "6in4": (ether / outer / inside6, {}),
        "srv6": (ether / outer6 / routing / inside, {}),
        "gtp": (ether / outer / UDP(dport=2152) / GTP_U_Header(teid=42) / inside, {"tunnel_id": 42}),
        "gtp-5g": (ether / outer / UDP(dport=2152) / GTP_U_Header(teid=42, E=1, next_ex=0x85)
                   / GTPPDUSessionContainer(QFI=9) / inside6, {"tunnel_id": 42}),
        "plain-pppoe": (ether / PPPoE(sessionid=3) / PPP(proto=0x21) / inside, {}),
        "plain-pppoe6": (ether / PPPoE(sessionid=3) / PPP(proto=0x57) / inside6, {}),
        "plain-snap": (Dot3(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / LLC() / SNAP(code=0x0800)
                       / inside, {}),
        "plain-eompls": (ether / Label(label=16, s=0) / Label(label=17, s=1) / frame,
                         {"mpls_labels": [16, 17]}),
        "plain-destination": (ether / IPv6(src="2001:db8::a", dst="2001:db8::b") / IPv6ExtHdrDestOpt()
                              / TCP(sport=80, dport=443), {"bytes": 68}),
    }  # fmt: skip


SCAPY = (
    "vxlan geneve gre gre-bridged ipip 6in4 srv6 gtp gtp-5g plain-pppoe plain-pppoe6 plain-snap plain-eompls "
)


@pytest.mark.parametrize("name", [*SCAPY.split(), "plain-destination"])
def test_packets_built_by_scapy_are_decoded(decode: Decode, name: str) -> None:
    packet, further = scapy_packets()[name]
    plain = name.startswith("plain-")
    flow = flow_of(decode, bytes(packet), opened=() if plain else ALL)
    assert flow["src_addr"] in (mapped("10.0.0.1"), ip("2001:db8::a"))
    assert (flow["src_port"], flow["dst_port"], flow["proto"]) == (80, 443, 6)
    assert flow["bytes"] == further.get("bytes", 40 if flow["etype"] == 0x0800 else 60)
    assert flow | further == flow
    assert plain or flow["tunnel_src_addr"] in OUTER4.values() or flow["tunnel_src_addr"] in OUTER6.values()
    assert ("tunnel_id" in flow) == ("tunnel_id" in further)


def test_a_truncated_tunnel_has_its_complete_headers(decode: Decode) -> None:
    """The inner packet is the flow if its first header is complete, and otherwise the outer packet."""
    packet = ipv4(udp(1, 6081, t.geneve(INSIDE4, 0x0800, 9)), 17)
    opens = len(packet) - len(INSIDE4) + 20
    for size in range(20, len(packet) + 1):
        outcome = parse(decode, packet[:size], "src_addr", "tunnel_id", "src_port", protocol=IPV4, opened=ALL)
        if size < opens:
            assert outcome.flow["src_addr"] == mapped("192.0.2.1"), size
            assert outcome.counters == {"not_encapsulated": 1}, size
        else:
            assert outcome.flow["src_addr"] == mapped("10.0.0.1"), size
            assert outcome.flow["tunnel_id"] == 9, size
            assert ("src_port" in outcome.flow) == (size >= opens + 4), size


def test_the_size_of_a_pptp_header_follows_its_flags(decode: Decode) -> None:
    """PPTP (RFC 2637): flags announce key, sequence and acknowledgement number.

    The packet of PPTP is not opened.
    """
    header = u16(0x3081) + u16(0x880B) + bytes(12)
    outcome = parse(decode, ethernet(ipv4(header + INSIDE4, 47)), "layer_stack", "layer_size", opened=ALL)
    assert outcome.flow == {"layer_stack": [1, 4, 15], "layer_size": [14, 20, 16]}
    assert outcome.counters == {"not_encapsulated": 1}
