"""Hypothesis strategies for sampled packets: valid, truncated and corrupted packets, and tunnels."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support import datagrams as d
from tests.support import tunnels as t

ports = st.sampled_from([0, 53, 443, 65535])
byte_values = st.integers(0, 255)
segments = (
    st.tuples(st.just(6), st.builds(d.tcp, ports, ports, byte_values))
    | st.tuples(st.sampled_from([17, 33, 136]), st.builds(d.udp, ports, ports))
    | st.tuples(st.just(132), st.builds(d.sctp, ports, ports))
    | st.tuples(st.sampled_from([1, 58]), st.builds(d.icmp, byte_values, byte_values))
    | st.tuples(st.sampled_from([0, 2, 4, 41, 44, 47, 50, 51, 59, 60, 143]), st.binary(max_size=24))
)
EXTENSIONS = [0, 43, 60, 135, 139, 140]
IPV6_ADDRESSES = ["2001:db8::1", "::", "::ffff:0.0.0.0"]

# Tunnels ----------------------------------------------------------------------------------------------------

identifiers = st.sampled_from([0, 1, 0xFFFFFF])
words = st.none() | st.integers(0, 0xFFFFFFFF)


@st.composite
def gre_segments(draw: st.DrawFn, depth: int) -> bytes:
    protocol, payload = draw(
        st.tuples(st.just(0x6558), frames(depth))
        | ip_packets(depth)
        | st.tuples(st.sampled_from([0x8847, 0x8848]), label_stacks(depth))
        | st.tuples(st.sampled_from([0x880B, 0x8100, 0]), st.binary(max_size=30))
    )
    flags = draw(st.sampled_from([0, 0, 0, 0, 1, 0x81, 0x0400, 0x0800, 0x4000, 0x0100]))
    return t.gre(payload, protocol, draw(words), draw(words), draw(words), flags)


@st.composite
def gtp_segments(draw: st.DrawFn, depth: int) -> bytes:
    payload = draw(ip_packets(depth).map(lambda pair: pair[1]) | st.binary(max_size=30))
    contents = st.sampled_from([bytes(2), bytes(6), b""])  # the last one has length 0
    extensions = draw(st.none() | st.lists(st.tuples(st.sampled_from([0x85, 0xC0, 0]), contents), max_size=3))
    first = draw(st.sampled_from([0x30, 0x30, 0x30, 0x31, 0x38, 0x20, 0x50]))
    identifier, sequence = draw(identifiers), draw(words.map(lambda word: word and word & 0xFFFF))
    kind = draw(st.sampled_from([255, 255, 255, 1, 254]))
    return t.gtp(payload, identifier, extensions, sequence, first, kind)


@st.composite
def udp_tunnels(draw: st.DrawFn, depth: int) -> bytes:
    kind = draw(st.sampled_from(["vxlan", "geneve", "gtp", "none"]))
    if kind == "vxlan":
        port, payload = draw(st.sampled_from([4789, 8472])), t.vxlan(draw(frames(depth)), draw(identifiers))
        payload = draw(st.sampled_from([8, 8, 8, 0, 0xF7, 0xFF])).to_bytes(1, "big") + payload[1:]
    elif kind == "geneve":
        port, payload = 6081, b""
        protocol, inside = draw(
            st.tuples(st.just(0x6558), frames(depth))
            | ip_packets(depth)
            | st.tuples(st.just(0x8847), st.just(b""))
        )
        options = bytes(4 * draw(st.sampled_from([0, 0, 1, 63])))
        version, flags = draw(st.sampled_from([(0, 0), (0, 0x40), (0, 0x80), (1, 0)]))
        payload = t.geneve(inside, protocol, draw(identifiers), options, version, flags)
    elif kind == "gtp":
        port, payload = 2152, draw(gtp_segments(depth))
    else:
        port, payload = draw(st.sampled_from([4789, 6081, 2152])), draw(st.binary(max_size=30))
    return d.udp(draw(ports), port, payload)


def segments_at(depth: int) -> st.SearchStrategy[tuple[int, bytes]]:
    """Draw a protocol number and its payload. With depth left, most are tunnels."""
    if not depth:
        return segments
    inside = st.deferred(lambda: ipv4_packets(depth - 1)), st.deferred(lambda: ipv6_packets(depth - 1))
    return st.one_of(
        segments,
        st.tuples(st.just(4), inside[0]),
        st.tuples(st.just(41), inside[1]),
        st.tuples(st.just(143), st.deferred(lambda: frames(depth - 1))),
        st.tuples(st.just(47), st.deferred(lambda: gre_segments(depth - 1))),
        st.tuples(st.just(17), st.deferred(lambda: udp_tunnels(depth - 1))),
    )


# Network layer ----------------------------------------------------------------------------------------------


@st.composite
def ipv4_packets(draw: st.DrawFn, depth: int = 0) -> bytes:
    proto, segment = draw(segments_at(depth))
    odd = draw(st.integers(0, 9)) == 0
    packet = d.ipv4(
        segment,
        proto=proto,
        src=draw(st.sampled_from(["10.0.0.1", "0.0.0.0"])),
        tos=draw(byte_values),
        ttl=draw(byte_values),
        identification=draw(st.integers(0, 0xFFFF)),
        flags=draw(st.integers(0, 7)),
        offset=draw(st.sampled_from([0, 0, 0, 0, 1, 0x1FFF])),
        options=bytes(draw(st.sampled_from([0, 0, 4, 40]))),
        header_words=draw(st.sampled_from([0, 4, 15])) if odd else None,
        total_length=draw(st.sampled_from([None, None, None, 0, 19, 22, 1500])),
        version=draw(st.sampled_from([4, 6])) if odd else 4,
    )
    return t.checked(packet) if draw(st.booleans()) else packet


@st.composite
def routing_headers(draw: st.DrawFn, header: int, payload: bytes) -> bytes:
    addresses = draw(st.lists(st.sampled_from(IPV6_ADDRESSES), max_size=3))
    kind, left = draw(st.sampled_from([4, 4, 4, 0, 2, 3])), draw(byte_values)
    last = draw(st.none() | byte_values)
    options = bytes(draw(st.sampled_from([0, 0, 8])))
    return t.routing(
        header, payload, addresses, kind, left, last, options, draw(st.sampled_from([None, None, None, 0, 9]))
    )


@st.composite
def ipv6_packets(draw: st.DrawFn, depth: int = 0) -> bytes:
    header, payload = draw(segments_at(depth))
    for kind in draw(st.lists(st.sampled_from([*EXTENSIONS, 43, 43, 44, 51]), max_size=4)):
        if kind == 44:
            offset = draw(st.sampled_from([0, 0, 185]))
            payload = d.fragment(
                header, payload, offset, draw(st.booleans()), draw(st.integers(0, 0xFFFFFFFF))
            )
        elif kind == 51:
            payload = d.authentication(header, payload, draw(st.integers(0, 4)))
        elif kind == 43:
            payload = draw(routing_headers(header, payload))
        else:
            payload = d.extension(header, payload, draw(st.integers(0, 3)))
        header = kind
    return d.ipv6(
        payload,
        next_header=header,
        src=draw(st.sampled_from([*IPV6_ADDRESSES, "ff02::1"])),
        traffic_class=draw(byte_values),
        flow_label=draw(st.integers(0, 0xFFFFF)),
        hop_limit=draw(byte_values),
        payload_length=draw(st.sampled_from([None, None, None, None, 0, 9, 1460])),
        version=draw(st.sampled_from([6, 6, 6, 6, 6, 6, 4])),
    )


def ip_packets(depth: int = 0) -> st.SearchStrategy[tuple[int, bytes]]:
    return st.tuples(st.just(0x0800), ipv4_packets(depth)) | st.tuples(st.just(0x86DD), ipv6_packets(depth))


# Link layer -------------------------------------------------------------------------------------------------

# Some look like the first bytes of IPv4, IPv6 or a control word. The last one is a group address.
mac_addresses = st.sampled_from(
    ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "45:00:00:28:00:00", "60:00:00:00:00:14", "00:00:00:01:00:00",
     "a4:00:00:00:00:02", "01:00:5e:00:00:01"]
)  # fmt: skip


@st.composite
def label_stacks(draw: st.DrawFn, depth: int) -> bytes:
    labels = draw(st.lists(st.sampled_from([0, 2, 16, 0xFFFFF]), min_size=1, max_size=4))
    payload = draw(ip_packets(depth))[1]
    kind = draw(st.integers(0, 7))
    if kind < 4 and depth:
        words = [b"", t.control_word(0), t.control_word(1), t.control_word(0xFFFF), t.control_word(0x10000)]
        payload = draw(st.sampled_from(words)) + draw(frames(depth - 1))
    elif kind == 4:
        payload = draw(st.binary(max_size=20))
    return d.mpls(payload, *labels, ttl=draw(st.integers(0, 250)))


@st.composite
def pppoe_payloads(draw: st.DrawFn, depth: int) -> bytes:
    ethertype, payload = draw(ip_packets(depth) | st.tuples(st.just(0x8847), label_stacks(depth)))
    protocol = {0x0800: 0x21, 0x86DD: 0x57, 0x8847: 0x0281}[ethertype]
    short = protocol < 0x100 and draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        protocol, short = draw(st.sampled_from([0xC021, 0x0283, 0x0021])), False
    code, first = draw(st.sampled_from([(0, 0x11), (0, 0x11), (0, 0x11), (9, 0x11), (0, 0x12)]))
    length = draw(st.sampled_from([None, None, None, 0, 1, 30, 1500]))
    return t.pppoe(payload, protocol, short, code, first, length)


@st.composite
def snap_payloads(draw: st.DrawFn, depth: int) -> bytes:
    ethertype, payload = draw(
        ip_packets(depth) | st.tuples(st.sampled_from([0x8100, 0x0806, 5]), st.binary(max_size=30))
    )
    organization, llc = draw(
        st.sampled_from(
            [(0, b"\xaa\xaa\x03"), (0, b"\xaa\xaa\x03"), (0xF8, b"\xaa\xaa\x03"), (0, b"\xe0\xe0\x03")]
        )
    )
    return t.snap(payload, ethertype, organization, llc)


@st.composite
def frames(draw: st.DrawFn, depth: int = 1) -> bytes:
    """Draw an Ethernet frame with tags and a payload of IP, MPLS or something else."""
    kind = draw(st.integers(0, 11))
    if kind < 6:
        ethertype, payload = draw(ip_packets(depth))
    elif kind < 9:
        ethertype, payload = draw(st.sampled_from([0x8847, 0x8848])), draw(label_stacks(depth))
    elif kind == 9:
        ethertype, payload = 0x8864, draw(pppoe_payloads(depth))
    elif kind == 10:
        ethertype, payload = draw(st.sampled_from([0, 60, 1500])), draw(snap_payloads(depth))
    else:
        ethertype, payload = draw(st.sampled_from([0x0806, 0x8863, 38, 0])), draw(st.binary(max_size=30))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3, 40]))):
        tci = draw(st.integers(0, 0x1FFF))  # 0x1000: DEI
        payload = d.tagged(payload, tci, ethertype, draw(st.integers(0, 7)))
        ethertype = draw(st.sampled_from([0x8100, 0x88A8, 0x9100, 0x9200]))
    return d.ethernet(payload, ethertype, draw(mac_addresses), draw(mac_addresses))


# Sampling ---------------------------------------------------------------------------------------------------


def cut(packets: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return the packets, some truncated like sampled packets."""
    return packets | st.tuples(packets, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]])


@st.composite
def corrupted(draw: st.DrawFn, packets: st.SearchStrategy[bytes]) -> bytes:
    """Draw packets with one or two wrong bytes."""
    packet = bytearray(draw(packets))
    for _ in range(draw(st.integers(1, 2)) if packet else 0):
        packet[draw(st.integers(0, len(packet) - 1))] = draw(byte_values)
    return bytes(packet)


@st.composite
def deep_packets(draw: st.DrawFn) -> bytes:
    """Draw IPv4 in IPv4 or in GRE, nested up to seven times."""
    packet = draw(ipv4_packets())
    for proto in draw(st.lists(st.sampled_from([4, 47]), min_size=1, max_size=7)):
        packet = d.ipv4(packet if proto == 4 else t.gre(packet, key=5), proto=proto)
    return packet


plain_ipv4 = segments.map(lambda pair: t.checked(d.ipv4(pair[1], proto=pair[0], src="10.0.0.9")))
plain_ipv6 = segments.map(lambda pair: d.ipv6(pair[1], next_header=pair[0], src="2001:db8::9"))
plain_packets = st.tuples(st.just(0x0800), plain_ipv4) | st.tuples(st.just(0x86DD), plain_ipv6)
plain_frames = st.builds(
    lambda pair, src, dst: d.ethernet(pair[1], pair[0], src, dst), plain_packets, mac_addresses, mac_addresses
)


def tag(frame: bytes) -> bytes:
    return frame[:12] + d.u16(0x8100) + d.tagged(frame[14:], 5, int.from_bytes(frame[12:14], "big"))


@st.composite
def valid_tunnels(draw: st.DrawFn) -> bytes:
    """Draw a valid frame with one tunnel of any kind."""
    (ethertype, packet), frame = draw(plain_packets), draw(plain_frames)
    proto = 4 if ethertype == 0x0800 else 41
    number = draw(st.integers(0, 0xFFFFFF))
    extensions = draw(
        st.none() | st.lists(st.tuples(st.just(0x85), st.sampled_from([bytes(2), bytes(6)])), max_size=2)
    )
    header, segment = draw(
        st.sampled_from(
            [
                (17, d.udp(0, 4789, t.vxlan(frame, number))),
                (17, d.udp(0, 8472, t.vxlan(frame, number, flags=0xFF))),
                (17, d.udp(0, 6081, t.geneve(frame, vni=number, options=bytes(8)))),
                (17, d.udp(0, 6081, t.geneve(packet, ethertype, number))),
                (17, d.udp(0, 2152, t.gtp(packet, number, extensions))),
                (17, d.udp(0, 2152, t.gtp(packet, number, sequence=number & 0xFFFF))),
                (47, t.gre(packet, ethertype, number, 0, 1)),
                (47, t.gre(frame, 0x6558, number)),
                (47, t.gre(d.mpls(packet, 16, 17), 0x8847)),
                (proto, packet),
                (43, t.routing(proto, packet, ["2001:db8::7", "2001:db8::8"])),
                (43, t.routing(143, frame, ["2001:db8::7"], left=1)),
                (143, frame),
            ]
        )
    )
    if header in (43, 143) or draw(st.booleans()):
        return d.ethernet(d.ipv6(segment, header), 0x86DD)
    return d.ethernet(d.ipv4(segment, header))


@st.composite
def pseudowires(draw: st.DrawFn) -> bytes:
    """Draw a frame behind MPLS labels, with or without a control word."""
    frame, tags = draw(plain_frames), draw(st.integers(0, 3))
    for _ in range(tags):
        frame = tag(frame)
    word = draw(st.sampled_from([b"", b"", t.control_word(0), t.control_word(1), t.control_word(0xFFFF)]))
    return d.ethernet(d.mpls(word + frame, 16, 17), 0x8847)


ethernet_frames = cut(frames())
router_frames = cut(plain_frames | plain_frames.map(tag) | plain_frames.map(tag).map(tag))
ip_headers = cut(ip_packets().map(lambda pair: pair[1]))
# Most have the correct header protocol of sFlow.
sampled_packets = st.one_of(
    st.tuples(ethernet_frames, st.just(1)),
    st.tuples(cut(ipv4_packets()), st.just(11)),
    st.tuples(cut(ipv6_packets()), st.just(12)),
    st.tuples(cut(label_stacks(1)), st.just(13)),
    st.tuples(ip_headers | st.binary(max_size=40), st.sampled_from([1, 2, 11, 12, 13])),
)
tunnelled_packets = st.one_of(
    st.tuples(valid_tunnels(), st.just(1)),
    st.tuples(cut(valid_tunnels()) | corrupted(valid_tunnels()), st.just(1)),
    st.tuples(pseudowires() | cut(pseudowires()) | corrupted(pseudowires()), st.just(1)),
    st.tuples(cut(frames(2)) | corrupted(frames(2)), st.just(1)),
    st.tuples(cut(ipv4_packets(2)) | corrupted(ipv4_packets(2)), st.just(11)),
    st.tuples(cut(ipv6_packets(2)) | corrupted(ipv6_packets(2)), st.just(12)),
    st.tuples(cut(deep_packets()) | corrupted(deep_packets()), st.just(11)),
)
