"""Link layers, pseudowires, layers and routing headers of sampled packets have the expected values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import tunnels as t
from tests.support.datagrams import (
    ethernet,
    extension,
    flow_sample,
    fragment,
    ip,
    ipv4,
    ipv6,
    mapped,
    mpls,
    sampled_header,
    sflow,
    tagged,
    tcp,
    udp,
)
from tests.support.decoding import Decode, Outcome, both_decoders, columns

pytestmark = both_decoders

ETHERNET, IPV4 = 1, 11
ALL = ("vxlan", "geneve", "gre", "ipip", "srv6", "gtp")

INSIDE4 = ipv4(tcp(80, 443), src="10.0.0.1", dst="10.0.0.2", ttl=9)
INSIDE6 = ipv6(tcp(80, 443), src="2001:db8::a", dst="2001:db8::b", hop_limit=9)
SEGMENTS = ["2001:db8::7", "2001:db8::8"]


def parse(decode: Decode, packet: bytes, *names: str, protocol: int = ETHERNET, opened: Any = ()) -> Outcome:
    return decode(
        sflow(flow_sample(sampled_header(packet, protocol))), schema=columns(*names), decapsulate=opened
    )


def flow_of(decode: Decode, packet: bytes, *names: str) -> dict[str, Any]:
    """Return the flow of a valid packet."""
    outcome = parse(decode, packet, *names)
    assert outcome.counters == {}
    return outcome.flow


# Link layers ------------------------------------------------------------------------------------------------

LINK = ("src_mac", "vlan_id", "inner_vlan_id", "etype", "mpls_labels", "src_addr", "src_port")
MAC = {"src_mac": 0x020000000001}
TCP4 = {"etype": 0x0800, "src_addr": mapped("10.0.0.1"), "src_port": 80}
TCP6 = {"etype": 0x86DD, "src_addr": ip("2001:db8::a"), "src_port": 80}


def test_vlan_tags_are_read_at_any_depth(decode: Decode) -> None:
    payload, ethertype = INSIDE4, 0x0800
    for number in range(200, 0, -1):
        payload, ethertype = tagged(payload, number, ethertype), (0x8100, 0x88A8, 0x9100, 0x9200)[number % 4]
    flow = flow_of(decode, ethernet(payload, ethertype), *LINK)
    assert flow == MAC | TCP4 | {"vlan_id": 1, "inner_vlan_id": 2}


@pytest.mark.parametrize(
    ("protocol", "payload", "expected"),
    [
        (0x0021, INSIDE4, TCP4),
        (0x0057, INSIDE6, TCP6),
        (0x0281, mpls(INSIDE6, 16), TCP6 | {"mpls_labels": [16]}),
        (0x0283, mpls(INSIDE4, 16), TCP4 | {"mpls_labels": [16]}),
    ],
)
def test_pppoe_sessions_are_read(
    decode: Decode, protocol: int, payload: bytes, expected: dict[str, Any]
) -> None:
    assert flow_of(decode, ethernet(t.pppoe(payload, protocol), 0x8864), *LINK) == MAC | expected
    if protocol < 0x100:
        assert (
            flow_of(decode, ethernet(t.pppoe(payload, protocol, short=True), 0x8864), *LINK) == MAC | expected
        )
    tags = ethernet(tagged(t.pppoe(payload, protocol), 7, 0x8864), 0x8100)
    assert flow_of(decode, tags, *LINK) == MAC | expected | {"vlan_id": 7}


@pytest.mark.parametrize(
    "session",
    [
        t.pppoe(bytes(20), 0xC021),  # link control
        t.pppoe(INSIDE4, code=0x09),
        t.pppoe(INSIDE4, first=0x12),
        t.pppoe(INSIDE4, 0x0023, short=True),
    ],
)
def test_pppoe_without_an_ip_packet_is_an_unknown_header(decode: Decode, session: bytes) -> None:
    outcome = parse(decode, ethernet(session, 0x8864), *LINK)
    assert outcome.flow == MAC | {"etype": 0x8864}
    assert outcome.counters == {"unknown_header": 1}


def test_pppoe_length_bounds_the_packet(decode: Decode) -> None:
    assert flow_of(decode, ethernet(t.pppoe(INSIDE4, length=2 + 20), 0x8864), "src_addr", "src_port") == {
        "src_addr": mapped("10.0.0.1")
    }
    assert flow_of(decode, ethernet(t.pppoe(INSIDE4, length=1), 0x8864), *LINK) == MAC | {"etype": 0x8864}


def test_snap_headers_are_read(decode: Decode) -> None:
    assert flow_of(decode, ethernet(t.snap(INSIDE4), 48), *LINK) == MAC | TCP4
    assert flow_of(
        decode, ethernet(t.snap(tagged(INSIDE6, 5, 0x86DD), 0x8100), 1500), *LINK
    ) == MAC | TCP6 | {"vlan_id": 5}


@pytest.mark.parametrize(
    "payload",
    [
        t.snap(INSIDE4, organization=0xF8),
        t.snap(INSIDE4, llc=b"\xe0\xe0\x03"),
        t.snap(INSIDE4, 0x05FF),
        t.snap(INSIDE4)[:7],
    ],
)
def test_frames_with_a_length_but_without_snap_are_unknown_headers(decode: Decode, payload: bytes) -> None:
    outcome = parse(decode, ethernet(payload, 48), *LINK)
    assert outcome.flow == MAC
    assert outcome.counters == {"unknown_header": 1}


# Pseudowires ------------------------------------------------------------------------------------------------

VERIFIED = t.checked(INSIDE4)
WIRE = {"mpls_labels": [16]}


def behind_label(payload: bytes) -> bytes:
    return ethernet(mpls(payload, 16), 0x8847)


def frame_to(
    dst: str, payload: bytes = VERIFIED, ethertype: int = 0x0800, src: str = "02:00:00:00:00:0a"
) -> bytes:
    return ethernet(payload, ethertype, src, dst)


@pytest.mark.parametrize("dst", ["00:00:5e:00:53:01", "10:00:00:00:00:01", "45:00:00:28:00:00",
                                 "60:00:00:00:00:14", "a4:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"])  # fmt: skip
@pytest.mark.parametrize("word", [b"", t.control_word(0), t.control_word(1), t.control_word(0xFFFF)])
def test_a_frame_with_a_verified_header_needs_no_control_word(decode: Decode, dst: str, word: bytes) -> None:
    assert flow_of(decode, behind_label(word + frame_to(dst)), *LINK) == MAC | WIRE | TCP4
    tags = tagged(tagged(VERIFIED, 8), 7, 0x8100)
    flow = flow_of(decode, behind_label(word + frame_to(dst, tags, 0x88A8)), *LINK)
    assert flow == MAC | WIRE | TCP4 | {"vlan_id": 7, "inner_vlan_id": 8}


@pytest.mark.parametrize("word", [b"", t.control_word(0), t.control_word(1)])
def test_an_ipv6_header_is_verified_without_checksum(decode: Decode, word: bytes) -> None:
    assert (
        flow_of(decode, behind_label(word + frame_to("10:00:00:00:00:01", INSIDE6, 0x86DD)), *LINK)
        == MAC | WIRE | TCP6
    )


def test_a_zero_control_word_needs_no_checksum(decode: Decode) -> None:
    assert (
        flow_of(decode, behind_label(t.control_word(0) + frame_to("02:00:00:00:00:01", INSIDE4)), *LINK)
        == MAC | WIRE | TCP4
    )


@pytest.mark.parametrize(
    "payload",
    [
        t.control_word(1) + frame_to("02:00:00:00:00:01", INSIDE4),  # without checksum
        frame_to("a4:00:00:00:00:01", INSIDE4),
        frame_to("a4:00:00:00:00:01", src="03:00:00:00:00:0a"),  # from a group address
        frame_to("a4:00:00:00:00:01", VERIFIED[:19]),
        frame_to("a4:00:00:00:00:01", ipv6(hop_limit=0), 0x86DD),
        frame_to("a4:00:00:00:00:01", ipv6(src="ff02::1"), 0x86DD),
        frame_to("a4:00:00:00:00:01", INSIDE6[:39], 0x86DD),
        frame_to("a4:00:00:00:00:01", tagged(tagged(tagged(VERIFIED, 3), 2, 0x8100), 1, 0x8100), 0x8100),
        t.control_word(0x10000) + frame_to("02:00:00:00:00:01"),  # reserved bits
        b"\x10\x00\x00\x21" + VERIFIED,  # an associated channel (RFC 5586)
    ],
)
def test_unverified_frames_are_unknown_headers(decode: Decode, payload: bytes) -> None:
    outcome = parse(decode, behind_label(payload), *LINK)
    assert outcome.flow == MAC | WIRE | {"etype": 0x8847}
    assert outcome.counters == {"unknown_header": 1}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        # The source address is at the offset of a frame's ethertype, the destination at the offset of its IP
        # header.
        (
            t.checked(ipv4(src="8.0.69.0", dst="0.20.0.0", proto=17)),
            {"etype": 0x0800, "src_addr": mapped("8.0.69.0")},
        ),
        (ipv6(src="2001:db8:800:4500::"), {"etype": 0x86DD, "src_addr": ip("2001:db8:800:4500::")}),
        (ipv6(src="2001:db8:86dd:6000::"), {"etype": 0x86DD, "src_addr": ip("2001:db8:86dd:6000::")}),
    ],
)
def test_ip_packets_that_resemble_a_frame_stay_ip(
    decode: Decode, address: bytes, expected: dict[str, Any]
) -> None:
    assert flow_of(decode, behind_label(address), *LINK) == MAC | WIRE | expected


def test_nested_pseudowires_are_read_up_to_a_limit(decode: Decode) -> None:
    packet = VERIFIED
    frame = ethernet(packet)
    for label in (19, 18, 17, 16):
        frame = ethernet(mpls(t.control_word(0) + frame, label), 0x8847)
    assert flow_of(decode, frame, *LINK) == MAC | TCP4 | {"mpls_labels": [16, 17, 18, 19]}
    outcome = parse(decode, ethernet(mpls(t.control_word(0) + frame, 15), 0x8847), *LINK)
    assert outcome.flow == MAC | {"mpls_labels": [15, 16, 17, 18], "etype": 0x8847}
    assert outcome.counters == {"unknown_header": 1}


# Layers and routing headers ---------------------------------------------------------------------------------

ETH, DOT1Q, LABELS, V4, V6, HOPS, ROUTING, FRAGMENT, DESTINATION = range(1, 10)
TCP, UDP, SCTP, ICMP, ICMPV6, GRE, VXLAN, GENEVE, GTP = range(10, 19)
UNKNOWN = 0


@pytest.mark.parametrize(
    ("packet", "layers"),
    [
        (
            ethernet(tagged(tagged(INSIDE4, 2), 1, 0x8100), 0x88A8),
            [(ETH, 14), *[(DOT1Q, 4)] * 2, (V4, 20), (TCP, 20)],
        ),
        (ethernet(mpls(INSIDE6, 1, 2, 3), 0x8847), [(ETH, 14), (LABELS, 12), (V6, 40), (TCP, 20)]),
        (ethernet(t.pppoe(INSIDE4), 0x8864), [(ETH, 14), (UNKNOWN, 8), (V4, 20), (TCP, 20)]),
        (ethernet(t.pppoe(INSIDE4, short=True), 0x8864), [(ETH, 14), (UNKNOWN, 7), (V4, 20), (TCP, 20)]),
        (ethernet(t.snap(INSIDE4), 48), [(ETH, 14), (UNKNOWN, 8), (V4, 20), (TCP, 20)]),
        (
            ethernet(ipv4(tcp(1, 2)[:12] + b"\xf0" + bytes(7), options=bytes(40))),
            [(ETH, 14), (V4, 60), (TCP, 60)],
        ),
        (ethernet(ipv4(udp(1, 2), 17, offset=9)), [(ETH, 14), (V4, 20)]),
        (ethernet(ipv4(udp(1, 2), 136)), [(ETH, 14), (V4, 20), (UNKNOWN, 8)]),
        (ethernet(ipv4(bytes(4) + b"\x05" + bytes(15), 33)), [(ETH, 14), (V4, 20), (UNKNOWN, 20)]),
        (ethernet(ipv4(bytes(12), 132)), [(ETH, 14), (V4, 20), (SCTP, 12)]),
        (ethernet(ipv4(bytes(8), 1)), [(ETH, 14), (V4, 20), (ICMP, 8)]),
        (ethernet(ipv4(bytes(7), 1)), [(ETH, 14), (V4, 20)]),
        (ethernet(ipv6(bytes(8), 58), 0x86DD), [(ETH, 14), (V6, 40), (ICMPV6, 8)]),
        (
            ethernet(
                ipv6(extension(43, t.routing(44, fragment(60, extension(51, bytes(8))), SEGMENTS)), 0), 0x86DD
            ),
            [(ETH, 14), (V6, 40), (HOPS, 8), (ROUTING, 40), (FRAGMENT, 8), (DESTINATION, 8), (UNKNOWN, 8)],
        ),
        # Layers include the headers inside tunnels of every kind, even if none is opened.
        (
            ethernet(ipv4(udp(1, 4789, t.vxlan(ethernet(tagged(INSIDE4, 7), 0x8100))), 17)),
            [(ETH, 14), (V4, 20), (UDP, 8), (VXLAN, 8), (ETH, 14), (DOT1Q, 4), (V4, 20), (TCP, 20)],
        ),
        (
            ethernet(ipv4(udp(1, 6081, t.geneve(INSIDE6, 0x86DD, options=bytes(12))), 17)),
            [(ETH, 14), (V4, 20), (UDP, 8), (GENEVE, 20), (V6, 40), (TCP, 20)],
        ),
        (
            ethernet(ipv4(udp(1, 2152, t.gtp(INSIDE4, 1, [(0x85, bytes(2))])), 17)),
            [(ETH, 14), (V4, 20), (UDP, 8), (GTP, 16), (V4, 20), (TCP, 20)],
        ),
        (
            ethernet(ipv4(t.gre(INSIDE4, key=1, sequence=2), 47)),
            [(ETH, 14), (V4, 20), (GRE, 12), (V4, 20), (TCP, 20)],
        ),
        (ethernet(ipv4(t.gre(b"", 0x880B, key=1, flags=0x1081), 47)), [(ETH, 14), (V4, 20), (GRE, 16)]),
        (ethernet(ipv6(INSIDE4, 4), 0x86DD), [(ETH, 14), (V6, 40), (V4, 20), (TCP, 20)]),
    ],
)  # fmt: skip
def test_layers_have_types_and_sizes_of_headers(
    decode: Decode, packet: bytes, layers: list[tuple[int, int]]
) -> None:
    expected = {"layer_stack": [kind for kind, _ in layers], "layer_size": [size for _, size in layers]}
    assert flow_of(decode, packet, "layer_stack", "layer_size") == expected
    assert parse(decode, packet, "layer_stack", "layer_size", opened=ALL).flow == expected


def test_the_control_word_of_a_pseudowire_is_a_layer(decode: Decode) -> None:
    flow = flow_of(decode, behind_label(t.control_word(0) + ethernet(VERIFIED)), "layer_stack", "layer_size")
    assert flow == {"layer_stack": [ETH, LABELS, UNKNOWN, ETH, V4, TCP], "layer_size": [14, 4, 4, 14, 20, 20]}


def test_at_most_32_layers_are_listed(decode: Decode) -> None:
    payload, ethertype = INSIDE4, 0x0800
    for _ in range(29):
        payload, ethertype = tagged(payload, 1, ethertype), 0x8100
    frame = ethernet(payload, ethertype)
    fits = flow_of(decode, frame, "layer_stack")
    assert fits == {"layer_stack": [ETH, *[DOT1Q] * 29, V4, TCP]}
    outcome = parse(decode, ethernet(tagged(payload, 1, ethertype), 0x8100), "layer_stack", "src_port")
    assert outcome.flow == {"layer_stack": [ETH, *[DOT1Q] * 30, V4], "src_port": 80}
    assert outcome.counters == {"layer_limit": 1}
    packet = INSIDE4
    for _ in range(40):
        packet = ipv4(packet, 4)
    outcome = parse(decode, packet, "layer_stack", protocol=IPV4)
    assert outcome.flow == {"layer_stack": [V4] * 32}
    assert outcome.counters == {"layer_limit": 1}


ROUTED = ("ipv6_routing_header_addresses", "ipv6_routing_header_seg_left")


@pytest.mark.parametrize(
    ("header", "addresses", "left"),
    [
        (t.routing(6, tcp(1, 2), SEGMENTS, left=1), SEGMENTS, 1),
        (
            t.routing(6, tcp(1, 2), SEGMENTS, left=1, options=bytes(16)),
            SEGMENTS,
            1,
        ),  # options are not addresses
        (t.routing(6, tcp(1, 2), SEGMENTS, left=1, last_entry=0), SEGMENTS[:1], 1),
        (t.routing(6, tcp(1, 2), SEGMENTS, left=1, last_entry=255), SEGMENTS, 1),
        (t.routing(6, tcp(1, 2), ["::", *SEGMENTS], left=2), ["::", *SEGMENTS], 2),
        (t.routing(6, tcp(1, 2), SEGMENTS, kind=0, left=2), SEGMENTS, 2),
        (t.routing(6, tcp(1, 2), SEGMENTS[:1], kind=2, left=1), SEGMENTS[:1], 1),
        (t.routing(6, tcp(1, 2), SEGMENTS, kind=3, left=9), [], 9),
        (t.routing(43, t.routing(6, tcp(1, 2), ["2001:db8::9"], left=7), SEGMENTS, left=1), SEGMENTS, 1),
        (t.routing(6, b"", SEGMENTS, left=1)[:39], SEGMENTS[:1], 1),  # truncated
        (t.routing(6, tcp(1, 2), [], left=1), [], 1),
    ],
)
def test_routing_headers_have_addresses_and_segments_left(
    decode: Decode, header: bytes, addresses: list[str], left: int
) -> None:
    flow = flow_of(decode, ethernet(ipv6(header, 43), 0x86DD), *ROUTED)
    assert flow.get(ROUTED[0], []) == [ip(text) for text in addresses]
    assert flow[ROUTED[1]] == left


def test_a_single_address_column_takes_the_first_nonzero_address(decode: Decode) -> None:
    schema = columns("next_hop").alter("next_hop", sources=["packet:ipv6_routing.addresses"])
    packet = ethernet(ipv6(t.routing(6, tcp(1, 2), ["::", *SEGMENTS]), 43), 0x86DD)
    assert decode(sflow(flow_sample(sampled_header(packet))), schema=schema).flow == {
        "next_hop": ip("2001:db8::7")
    }
