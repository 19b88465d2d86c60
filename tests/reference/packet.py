"""A sampled packet, from the outside in: link layer, tags, labels, one IP header, one transport header. On
request, the packet in its tunnels instead.

The result is a list of (source name, Value) in the order of the packet. Sampling usually truncates a packet.
A header that is not complete gives no values, and this is not a fault. The specifications leave these points
open:

- An IP header with another version than announced is a contradiction (`bad_packet`). So are IHL < 5 and a
  total length below the header's. The ethertype that announced the header is kept.
- Bytes beyond the length in the IP header are padding of the link layer, never a transport header. An IPv6
  payload length of 0 (RFC 2675 jumbograms, offloading network cards) gives no length and no bound, unless the
  packet states that it is empty. An IPv4 total length of 0 is unknown, too.
- An Ethernet type below 0x0600 is a length (IEEE 802.3). LLC with SNAP and an ethertype follow (RFC 1042);
  otherwise it is an `unknown_header`.
- The etype is the last one in the packet. After MPLS labels and PPPoE it is that of the payload if it is
  known, else their own.
- The frame inside a pseudowire continues the outer frame. Its tags count after the outer tags, and inner
  labels come after the outer labels. Its MAC addresses are ignored if the outer frame has some. A fifth label
  stack is an `unknown_header`.
- Below MPLS labels without an explicit null, the first nibble decides, as in routers: 4 is IPv4, 6 is IPv6, 0
  is the control word of a pseudowire. Other payloads may be an Ethernet frame without a control word (RFC
  9790 section 2), and are one if `frame_inside` recognizes it. A first nibble of 4 or 6 is also a frame if it
  has an inner IPv4 header with a correct checksum and no such outer header. A control word of zeros is
  accepted. One with a sequence number (RFC 4448 section 4.6) is accepted only before a recognized frame, and
  not if it can be the beginning of a frame.
- An IPv6 extension header needs 8 bytes to be skipped. `ip.proto` is the number at the end of the chain: the
  transport, an extension header that is truncated, or the protocol that a later fragment names.
- ip.flags of IPv6 is the M flag of the fragment header. TCP flags are the low 12 bits of bytes 12 and 13 of
  its header (RFC 7125: the data offset is not part of tcpControlBits).
- The first of several fragment or routing headers counts. Of its addresses, those that are present count.
- A tunnel is opened if the first inner header is complete and valid. Otherwise the outer packet stays the
  flow, and an inner contradiction is counted. Only the values of the deepest packet are used, with the
  endpoints of the outermost tunnel.
- The layers are all headers, in tunnels of every kind, opened or not. A header is listed if its fixed part
  with the length is present. A label stack is one layer. SNAP, PPPoE with PPP, control words, IPv6 extension
  headers without a number in the schema, DCCP and UDP-Lite are "unknown". At most 32 layers are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from .octets import Octets, Short
from .tunnel import DEEPEST, ETHERNET, GRE, IPV4_TYPE, IPV6_TYPE, MPLS_TYPES, TUNNELS, Tunnel, find, gre_size
from .values import Address, Addresses, Number, Numbers, Value

VLAN_TYPES = {0x8100, 0x88A8, 0x9100, 0x9200}
MPLS_TYPE, PPPOE_TYPE = 0x8847, 0x8864
LOWEST_ETHERTYPE = 0x0600
SNAP = bytes.fromhex("aaaa03 000000")
PPP_PROTOCOLS = {0x0021: IPV4_TYPE, 0x0057: IPV6_TYPE, 0x0281: MPLS_TYPE, 0x0283: 0x8848}

IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL = 0, 2
MOST_LABEL_STACKS = 4
MOST_LAYERS = 32

ICMP, TCP, UDP, DCCP, ICMPV6, SCTP, UDP_LITE = 1, 6, 17, 33, 58, 132, 136
WITH_PORTS = {TCP, UDP, DCCP, SCTP, UDP_LITE}
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS = 0, 43, 44, 51, 60
MOBILITY, HIP, SHIM6 = 135, 139, 140
NO_NEXT_HEADER = 59
EXTENSION_HEADERS = {
    HOP_BY_HOP: "ipv6_hop_by_hop", ROUTING: "ipv6_routing", FRAGMENT: "ipv6_fragment",
    AUTHENTICATION: "unknown", DESTINATION_OPTIONS: "ipv6_destination", MOBILITY: "unknown", HIP: "unknown",
    SHIM6: "unknown",
}  # fmt: skip
WITH_ADDRESSES = {0, 2, 4}  # types of routing headers

SFLOW_ETHERNET, SFLOW_IPV4, SFLOW_IPV6, SFLOW_MPLS = 1, 11, 12, 13
FIRST_HEADERS = {
    SFLOW_ETHERNET: ETHERNET,
    SFLOW_IPV4: IPV4_TYPE,
    SFLOW_IPV6: IPV6_TYPE,
    SFLOW_MPLS: MPLS_TYPE,
}

LAYERS = {
    "unknown": 0, "ethernet": 1, "dot1q": 2, "mpls": 3, "ipv4": 4, "ipv6": 5, "ipv6_hop_by_hop": 6,
    "ipv6_routing": 7, "ipv6_fragment": 8, "ipv6_destination": 9, "tcp": 10, "udp": 11, "sctp": 12,
    "icmp": 13, "icmpv6": 14, "gre": 15, "vxlan": 16, "geneve": 17, "gtp": 18,
}  # fmt: skip


class Unknown(Exception):
    """A header that is not parsed."""


class Contradiction(Exception):
    """A header that contradicts itself or the header that announced it."""


class Packet:
    """The values of one packet, without those of packets in its tunnels.

    `values` are in order; the first of a name counts. `notes` are status names. `endpoints` are the two
    addresses. `tunnel` is the tunnel in its transport. `tunnels` is the number of tunnels opened before this
    packet. `has_more_layers` is set if not all layers are listed.
    """

    def __init__(self) -> None:
        self.values: list[tuple[str, Value]] = []
        self.notes: Counter[str] = Counter()
        self.layers: list[tuple[str, int]] = []
        self.endpoints: tuple[bytes, bytes] | None = None
        self.tunnel: Tunnel | None = None
        self.tunnels = 0
        self.has_more_layers = False
        self.tags = 0
        self.has_ethernet = False
        self.etype: int | None = None
        self.stacks = 0
        self.labels: list[int] = []
        self.ttls: list[int] = []

    def give(self, name: str, value: Value) -> None:
        self.values.append((f"packet:{name}", value))

    @property
    def is_readable(self) -> bool:
        return self.has_ethernet or bool(self.labels) or self.endpoints is not None

    def read(self, header: int | str | None, octets: Octets) -> None:
        """Read a packet. `header` is an ethertype or ETHERNET; None is a header that is not parsed."""
        try:
            self.next_header(header, octets)
        except Short:
            pass  # the packet is truncated here
        except Unknown:
            self.notes["unknown_header"] += 1
        except Contradiction:
            self.notes["bad_packet"] += 1
        if self.etype is not None:
            self.give("ethernet.type", Number(self.etype))
        if self.labels:
            self.give("mpls.labels", Numbers(self.labels))
            self.give("mpls.ttls", Numbers(self.ttls))

    # Link layer

    def next_header(self, header: int | str | None, octets: Octets) -> None:
        if header == ETHERNET:
            self.ethernet(octets)
        elif isinstance(header, int):
            self.ethertype(header, octets)
        else:
            raise Unknown

    def ethernet(self, frame: Octets) -> None:
        """Read an Ethernet header: destination 6, source 6, ethertype 2."""
        header = Octets(frame.take(14))
        dst_mac, src_mac, ethertype = header.uint(6), header.uint(6), header.u16()
        self.layers.append(("ethernet", 14))
        if not self.has_ethernet:
            self.has_ethernet = True
            self.give("ethernet.src_mac", Number(src_mac))
            self.give("ethernet.dst_mac", Number(dst_mac))
        self.ethertype(ethertype, frame)

    def ethertype(self, ethertype: int, frame: Octets) -> None:
        while ethertype in VLAN_TYPES:
            ethertype = self.vlan(frame)
        if ethertype < LOWEST_ETHERTYPE:
            self.snap(frame)
        else:
            self.etype = ethertype
            if ethertype in MPLS_TYPES:
                self.mpls(frame)
            elif ethertype == PPPOE_TYPE:
                self.pppoe(frame)
            elif ethertype in (IPV4_TYPE, IPV6_TYPE):
                self.ip(frame, ethertype)
            else:
                raise Unknown

    def vlan(self, frame: Octets) -> int:
        """Read a tag (IEEE 802.1Q): priority 3 bits, DEI 1, VLAN id 12; ethertype."""
        tag = frame.u16()
        self.tags += 1
        if self.tags == 1:
            self.give("vlan.id", Number(tag & 0x0FFF))
        elif self.tags == 2:
            self.give("vlan.inner_id", Number(tag & 0x0FFF))
        ethertype = frame.u16()
        self.layers.append(("dot1q", 4))
        return ethertype

    def snap(self, frame: Octets) -> None:
        """Read SNAP: LLC AA AA 03, organization 00 00 00, ethertype."""
        if frame.left < 8 or frame.take(6) != SNAP:
            raise Unknown
        ethertype = frame.u16()
        self.layers.append(("unknown", 8))
        if ethertype < LOWEST_ETHERTYPE:
            raise Unknown
        self.ethertype(ethertype, frame)

    def pppoe(self, frame: Octets) -> None:
        """Read PPPoE (RFC 2516 section 4): version and type 1, code 1, session 2, length 2.

        PPP follows: a protocol of 2 bytes, or of 1 byte if that is odd (RFC 1661 section 6.5).
        """
        header = Octets(frame.take(6))
        version, code = header.u8(), header.u8()
        header.take(2)
        if version != 0x11 or code != 0:
            raise Unknown
        payload = Octets(frame.take_up_to(header.u16()))
        protocol = payload.u8()
        if protocol % 2 == 0:
            protocol = protocol << 8 | payload.u8()
        if protocol not in PPP_PROTOCOLS:
            raise Unknown
        self.layers.append(("unknown", 6 + payload.place))
        self.ethertype(PPP_PROTOCOLS[protocol], payload)

    def mpls(self, stack: Octets) -> None:
        """Read labels (RFC 3032): label 20 bits, traffic class 3, bottom of stack 1, TTL 8. The payload has
        no type.
        """
        if self.stacks == MOST_LABEL_STACKS:
            raise Unknown
        first = len(self.labels)
        try:
            while True:
                entry = stack.u32()
                label, bottom = entry >> 12, entry >> 8 & 1
                self.labels.append(label)
                self.ttls.append(entry & 0xFF)
                if bottom:
                    break
        finally:
            if len(self.labels) > first:
                self.stacks += 1
                self.layers.append(("mpls", 4 * (len(self.labels) - first)))
        if label == IPV4_EXPLICIT_NULL:
            self.ip(stack, IPV4_TYPE)
        elif label == IPV6_EXPLICIT_NULL:
            self.ip(stack, IPV6_TYPE)
        elif stack.left:
            self.below_labels(stack)

    def below_labels(self, payload: Octets) -> None:
        octets = payload.data[payload.place :]
        nibble = octets[0] >> 4
        if nibble in (4, 6):
            if frame_inside(octets) == IPV4_TYPE and not is_sound_ipv4(octets):
                self.ethernet(payload)
            else:
                self.ip(payload, IPV4_TYPE if nibble == 4 else IPV6_TYPE)
            return
        if nibble == 0:
            word = Octets(octets).u32()
            if word == 0 or (not frame_inside(octets) and word < 1 << 16 and frame_inside(octets[4:])):
                payload.take(4)
                self.layers.append(("unknown", 4))
                self.ethernet(payload)
                return
        if not frame_inside(octets):
            raise Unknown
        self.ethernet(payload)

    # Network layer

    def ip(self, packet: Octets, ethertype: int) -> None:
        self.etype = ethertype
        nibble = first_nibble(packet)
        if nibble is None:
            return
        if nibble != (4 if ethertype == IPV4_TYPE else 6):
            raise Contradiction
        if ethertype == IPV4_TYPE:
            self.ipv4(packet)
        else:
            self.ipv6(packet)

    def give_endpoints(self, src: bytes, dst: bytes) -> None:
        self.endpoints = src, dst
        self.give("ip.src_addr", Address(src))
        self.give("ip.dst_addr", Address(dst))

    def ipv4(self, packet: Octets) -> None:
        """Read an IPv4 header (RFC 791 section 3.1)."""
        if packet.left < 20:
            return
        start = packet.place
        header_length = (packet.u8() & 0x0F) * 4
        tos = packet.u8()
        total_length = packet.u16()
        if header_length < 20 or 0 < total_length < header_length:
            raise Contradiction
        fragment_id = packet.u16()
        fragment = packet.u16()
        ttl, proto = packet.u8(), packet.u8()
        packet.take(2)  # header checksum
        self.layers.append(("ipv4", header_length))
        if total_length:
            self.give("ip.length", Number(total_length))
        self.give_endpoints(packet.take(4), packet.take(4))
        self.give("ip.proto", Number(proto))
        self.give("ip.tos", Number(tos))
        self.give("ip.ttl", Number(ttl))
        self.give("ip.fragment_id", Number(fragment_id))
        self.give("ip.fragment_offset", Number(fragment & 0x1FFF))
        self.give("ip.flags", Number(fragment >> 13))
        if fragment & 0x1FFF == 0 and len(packet.data) >= start + header_length:
            end = start + total_length if total_length else None
            self.transport(proto, packet.data[start + header_length : end], None)

    def ipv6(self, packet: Octets) -> None:
        """Read an IPv6 header (RFC 8200 section 3)."""
        if packet.left < 40:
            return
        word = packet.u32()
        payload_length = packet.u16()
        next_header, hop_limit = packet.u8(), packet.u8()
        self.layers.append(("ipv6", 40))
        bounded = payload_length or next_header == NO_NEXT_HEADER
        if bounded:
            self.give("ip.length", Number(payload_length + 40))
        self.give_endpoints(packet.take(16), packet.take(16))
        self.give("ip.tos", Number(word >> 20 & 0xFF))
        self.give("ip.ttl", Number(hop_limit))
        self.give("ip.flow_label", Number(word & 0xFFFFF))
        payload = Octets(packet.take_up_to(payload_length) if bounded else packet.rest())
        self.extension_headers(next_header, payload)

    def extension_headers(self, header: int, payload: Octets) -> None:
        """Skip extension headers (RFC 8200 section 4).

        The authentication header (RFC 4302) counts its length in words of 4 bytes.
        """
        routing_types: list[int] = []
        ends_here = False
        while header in EXTENSION_HEADERS and not ends_here:
            if payload.left < 8:
                ends_here = True
                break
            start = payload.place
            following, length, fragment, fragment_id = (
                payload.u8(),
                payload.u8(),
                payload.u16(),
                payload.u32(),
            )
            size = (length + 2) * 4 if header == AUTHENTICATION else (length + 1) * 8
            if header == FRAGMENT:
                size = 8
                ends_here = fragment >> 3 != 0
                self.give("ip.fragment_id", Number(fragment_id))
                self.give("ip.fragment_offset", Number(fragment >> 3))
                self.give("ip.flags", Number(fragment & 1))
            elif header == ROUTING:
                self.routing(payload.data[start : start + size])
                routing_types.append(fragment >> 8)
            self.layers.append((EXTENSION_HEADERS[header], size))
            ends_here = ends_here or payload.left < size - 8
            payload.take_up_to(size - 8)
            header = following
        self.give("ip.proto", Number(header))
        if not ends_here:
            self.transport(header, payload.rest(), routing_types)

    def routing(self, header: bytes) -> None:
        """Read a routing header: next header, length, type, segments left, 4 bytes by type.

        In type 4 (RFC 8754), the first of these is the index of the last of the addresses that follow.
        """
        if any(name == "packet:ipv6_routing.segments_left" for name, _ in self.values):
            return
        if header[2] in WITH_ADDRESSES:
            addresses = [header[place : place + 16] for place in range(8, len(header) - 15, 16)]
            self.give(
                "ipv6_routing.addresses",
                Addresses(addresses[: header[4] + 1] if header[2] == 4 else addresses),
            )
        self.give("ipv6_routing.segments_left", Number(header[3]))

    # Transport layer

    def transport(self, proto: int, octets: bytes, routing_types: list[int] | None) -> None:
        segment = Octets(octets)
        if proto in WITH_PORTS and segment.left >= 4:
            self.give("transport.src_port", Number(segment.u16()))
            self.give("transport.dst_port", Number(segment.u16()))
            if proto == TCP and segment.left >= 10:
                segment.take(8)
                self.give("tcp.flags", Number(segment.u16() & 0x0FFF))
        elif proto in (ICMP, ICMPV6) and segment.left >= 2:
            self.give("icmp.type", Number(segment.u8()))
            self.give("icmp.code", Number(segment.u8()))
        self.layers += transport_layer(proto, octets)
        self.tunnel = find(proto, octets, routing_types)


def transport_layer(proto: int, segment: bytes) -> list[tuple[str, int]]:
    """Return the transport header with its length, if the part with the length is present."""
    fixed = {
        ICMP: ("icmp", 8),
        ICMPV6: ("icmpv6", 8),
        UDP: ("udp", 8),
        SCTP: ("sctp", 12),
        UDP_LITE: ("unknown", 8),
    }
    if proto in fixed:
        return [fixed[proto]] if len(segment) >= fixed[proto][1] else []
    if proto == TCP and len(segment) >= 20:
        return [("tcp", (segment[12] >> 4) * 4)]
    if proto == DCCP and len(segment) >= 12:
        return [("unknown", segment[4] * 4)]
    if proto == GRE and len(segment) >= 4:
        return [("gre", gre_size(int.from_bytes(segment[:2], "big")))]
    return []


def first_nibble(octets: Octets) -> int | None:
    return octets.data[octets.place] >> 4 if octets.left else None


# Is it a frame? ---------------------------------------------------------------------------------------------


def frame_inside(octets: bytes) -> int | None:
    """Return the ethertype of the IP header if the bytes are recognizable as an Ethernet frame, else None.

    Such a frame does not come from a group address and has at most two tags. It holds an IPv4 header with a
    correct checksum, or an IPv6 header with a hop limit and a source that is not a group.
    """
    if len(octets) < 14 or octets[6] & 1:
        return None
    frame = Octets(octets)
    frame.take(12)
    ethertype = frame.u16()
    for _ in range(2):
        if ethertype in VLAN_TYPES and frame.left >= 4:
            frame.take(2)
            ethertype = frame.u16()
    packet = frame.rest()
    if ethertype == IPV4_TYPE and is_sound_ipv4(packet):
        return IPV4_TYPE
    if (
        ethertype == IPV6_TYPE
        and len(packet) >= 40
        and packet[0] >> 4 == 6
        and packet[7]
        and packet[8] != 0xFF
    ):
        return IPV6_TYPE
    return None


def is_sound_ipv4(packet: bytes) -> bool:
    """Return whether an IPv4 header is complete and its checksum is correct.

    The ones' complement sum of its 16-bit words is all ones (RFC 1071).
    """
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return False
    size = 4 * (packet[0] & 0x0F)
    if not 20 <= size <= len(packet):
        return False
    words = (int.from_bytes(packet[place : place + 2], "big") for place in range(0, size, 2))
    return sum(words) % 0xFFFF == 0


# The whole --------------------------------------------------------------------------------------------------


def packets(header: int | str | None, data: bytes, opened: Collection[str]) -> Iterator[Packet]:
    """Yield the packet, then the packet in its tunnel if that kind is opened, and so on inwards."""
    while True:
        packet = Packet()
        packet.read(header, Octets(data))
        yield packet
        if packet.tunnel is None or not packet.tunnel.kinds & set(opened):
            return
        header, data = packet.tunnel.header, packet.tunnel.octets


def parse(header_protocol: int, data: bytes, decapsulate: Collection[str] = ()) -> Packet:
    """Parse a packet that begins with a `header_protocol` of sFlow v5: 1 Ethernet, 11 IPv4, 12 IPv6, 13 MPLS.

    `decapsulate` has the kinds of tunnel that are opened.
    """
    return whole(FIRST_HEADERS.get(header_protocol), data, decapsulate)


def parse_ip(data: bytes, decapsulate: Collection[str] = ()) -> Packet:
    """Parse a packet that begins with an IP header of either version (ipHeaderPacketSection, element 313)."""
    return whole({4: IPV4_TYPE, 6: IPV6_TYPE}.get(data[0] >> 4) if data else None, data, decapsulate)


def whole(header: int | str | None, data: bytes, decapsulate: Collection[str]) -> Packet:
    packet = innermost(header, data, decapsulate)
    packet.give("packets", Number(1))
    packet.give("section.length", Number(len(data)))
    layers = [layer for each in packets(header, data, TUNNELS) for layer in layers_of(each)]
    packet.has_more_layers = len(layers) > MOST_LAYERS
    packet.give("layers.stack", Numbers([LAYERS[name] for name, _ in layers[:MOST_LAYERS]]))
    packet.give("layers.sizes", Numbers([size for _, size in layers[:MOST_LAYERS]]))
    return packet


def layers_of(packet: Packet) -> list[tuple[str, int]]:
    """Return the layers, with the header of the tunnel inside."""
    tunnel = packet.tunnel.layer if packet.tunnel else None
    return packet.layers + ([tunnel] if tunnel else [])


def innermost(header: int | str | None, data: bytes, decapsulate: Collection[str]) -> Packet:
    """Return the packet, or the packet in its tunnels."""
    chain = packets(header, data, decapsulate)
    outermost = packet = next(chain)
    for inner in chain:
        if packet.tunnels == DEEPEST:
            packet.notes["tunnel_depth"] += 1
            break
        if not inner.is_readable:
            packet.notes += inner.notes
            break
        inner.tunnels = packet.tunnels + 1
        packet = inner
    if packet.tunnels and outermost.endpoints and outermost.tunnel:
        src, dst = outermost.endpoints
        packet.give("tunnel.src_addr", Address(src))
        packet.give("tunnel.dst_addr", Address(dst))
        packet.give("tunnel.id", Number(outermost.tunnel.identifier or 0))
    elif decapsulate:
        packet.notes["not_encapsulated"] += 1
    return packet
