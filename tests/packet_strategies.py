"""Hypothesis strategies for sampled packets: whole ones, cut ones, and what is none."""

from __future__ import annotations

import datagrams as d
from hypothesis import strategies as st

ports = st.sampled_from([0, 53, 443, 65535])
octet = st.integers(0, 255)
segments = (
    st.tuples(st.just(6), st.builds(d.tcp, ports, ports, octet))
    | st.tuples(st.sampled_from([17, 33, 136]), st.builds(d.udp, ports, ports))
    | st.tuples(st.just(132), st.builds(d.sctp, ports, ports))
    | st.tuples(st.sampled_from([1, 58]), st.builds(d.icmp, octet, octet))
    | st.tuples(st.sampled_from([0, 2, 4, 41, 44, 47, 50, 51, 59, 60]), st.binary(max_size=24))
)
EXTENSIONS = [0, 43, 60, 135, 139, 140]


@st.composite
def ipv4_packets(draw: st.DrawFn) -> bytes:
    proto, segment = draw(segments)
    odd = draw(st.integers(0, 9)) == 0
    return d.ipv4(
        segment,
        proto=proto,
        src=draw(st.sampled_from(["10.0.0.1", "0.0.0.0"])),
        tos=draw(octet),
        ttl=draw(octet),
        identification=draw(st.integers(0, 0xFFFF)),
        flags=draw(st.integers(0, 7)),
        offset=draw(st.sampled_from([0, 0, 0, 1, 0x1FFF])),
        options=bytes(draw(st.sampled_from([0, 0, 4, 40]))),
        header_words=draw(st.sampled_from([0, 4, 15])) if odd else None,
        total_length=draw(st.sampled_from([None, None, 0, 19, 22, 1500])),
        version=draw(st.sampled_from([4, 6])) if odd else 4,
    )


@st.composite
def ipv6_packets(draw: st.DrawFn) -> bytes:
    header, payload = draw(segments)
    for kind in draw(st.lists(st.sampled_from([*EXTENSIONS, 44, 51]), max_size=4)):
        if kind == 44:
            offset = draw(st.sampled_from([0, 0, 185]))
            payload = d.fragment(header, payload, offset, draw(st.booleans()), draw(st.integers(0, 0xFFFFFFFF)))
        elif kind == 51:
            payload = d.authentication(header, payload, draw(st.integers(0, 4)))
        else:
            payload = d.extension(header, payload, draw(st.integers(0, 3)))
        header = kind
    return d.ipv6(
        payload,
        next_header=header,
        src=draw(st.sampled_from(["2001:db8::1", "::", "::ffff:0.0.0.0"])),
        traffic_class=draw(octet),
        flow_label=draw(st.integers(0, 0xFFFFF)),
        hop_limit=draw(octet),
        payload_length=draw(st.sampled_from([None, None, None, 0, 9, 1460])),
        version=draw(st.sampled_from([6, 6, 6, 6, 4])),
    )


ip_packets = st.tuples(st.just(0x0800), ipv4_packets()) | st.tuples(st.just(0x86DD), ipv6_packets())
mac_addresses = st.sampled_from(["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"])


@st.composite
def label_stacks(draw: st.DrawFn, depth: int) -> bytes:
    labels = draw(st.lists(st.sampled_from([0, 2, 16, 0xFFFFF]), min_size=1, max_size=4))
    payload = draw(ip_packets)[1]
    kind = draw(st.integers(0, 7))
    if kind == 0 and depth:
        payload = d.u32(draw(st.sampled_from([0, 0, 1]))) + draw(frames(depth - 1))
    elif kind == 1:
        payload = draw(st.binary(max_size=20))
    return d.mpls(payload, *labels, ttl=draw(st.integers(0, 250)))


@st.composite
def frames(draw: st.DrawFn, depth: int = 1) -> bytes:
    """An Ethernet frame with up to three tags, IP or MPLS or something else in it."""
    kind = draw(st.integers(0, 9))
    if kind < 6:
        ethertype, payload = draw(ip_packets)
    elif kind < 9:
        ethertype, payload = draw(st.sampled_from([0x8847, 0x8848])), draw(label_stacks(depth))
    else:
        ethertype, payload = draw(st.sampled_from([0x0806, 0x8863, 38, 0])), draw(st.binary(max_size=30))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2, 3]))):
        payload = d.tagged(payload, draw(st.integers(0, 0x1FFF)), ethertype, draw(st.integers(0, 7)))  # 0x1000: DEI
        ethertype = draw(st.sampled_from([0x8100, 0x88A8, 0x9100]))
    return d.ethernet(payload, ethertype, draw(mac_addresses), draw(mac_addresses))


def cut(packets: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Packets of which a sampling may have kept only the front."""
    return packets | st.tuples(packets, st.integers(0, 128)).map(lambda pair: pair[0][: pair[1]])


ethernet_frames = cut(frames())
ip_headers = cut(ip_packets.map(lambda pair: pair[1]))
# With the header protocol of sFlow that says what they are, as a rule.
sampled_packets = st.one_of(
    st.tuples(ethernet_frames, st.just(1)),
    st.tuples(cut(ipv4_packets()), st.just(11)),
    st.tuples(cut(ipv6_packets()), st.just(12)),
    st.tuples(cut(label_stacks(1)), st.just(13)),
    st.tuples(ip_headers | st.binary(max_size=40), st.sampled_from([1, 2, 11, 12, 13])),
)
