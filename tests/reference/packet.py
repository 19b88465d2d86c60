"""A sampled packet, from the outside in: link layer, tags, labels, one IP header, one transport header.

The result is a list of (source name, Value) in the order of the packet. A packet is usually cut by the sampling: a
header that is not wholly there gives nothing, and that is no fault. Readings that the specifications leave open:

- An IP header whose version is not what announced it is a contradiction (`bad_packet`), as IHL < 5 and a total length
  below the header's are. The ethertype that announced it stays.
- What lies beyond the length that the IP header gives is padding of the link layer, never transport header. An IPv6
  payload length of 0 (RFC 2675 jumbograms, offloading network cards) gives no length and no bound, unless the packet
  says that it has nothing inside.
- An Ethernet type below 0x0600 is a length (IEEE 802.3) and no ethertype: `unknown_header`.
- The etype is the last one met: after MPLS labels that of the payload, where the payload is known, else that of MPLS.
- The frame inside a pseudowire goes on where the outer one stopped: its tags count after the outer ones, labels
  further in come after the outer ones, only its MAC addresses are not taken when an outer frame has given some.
- An IPv6 extension header needs 8 octets to be walked over. `ip.proto` is the number at which the walk ends: of the
  transport, or of the extension header that was cut off, or what a later fragment says it is a part of.
- ip.flags of IPv6 is the M flag of the fragment header. TCP flags are the low 12 bits of octets 12 and 13 of its header
  (RFC 7125: the data offset is not part of tcpControlBits).
- An IPv4 total length of 0 is unknown: hosts that leave segmentation to the network card send it so.
"""

from __future__ import annotations

from collections import Counter

from .octets import Octets, Short
from .values import Address, Number, Numbers, Value

VLAN_TYPES = {0x8100, 0x88A8, 0x9100}
MPLS_TYPE = 0x8847
MPLS_TYPES = {MPLS_TYPE, 0x8848}
IPV4_TYPE, IPV6_TYPE = 0x0800, 0x86DD
LOWEST_ETHERTYPE = 0x0600

IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL = 0, 2

ICMP, TCP, UDP, DCCP, ICMPV6, SCTP, UDP_LITE = 1, 6, 17, 33, 58, 132, 136
WITH_PORTS = {TCP, UDP, DCCP, SCTP, UDP_LITE}
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS = 0, 43, 44, 51, 60
MOBILITY, HIP, SHIM6 = 135, 139, 140
NO_NEXT_HEADER = 59
EXTENSION_HEADERS = {
    HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS, MOBILITY, HIP, SHIM6
}  # fmt: skip

SFLOW_ETHERNET, SFLOW_IPV4, SFLOW_IPV6, SFLOW_MPLS = 1, 11, 12, 13


class Packet:
    """What one packet says: `values` (in order, the first of a name counts) and `notes` (status names)."""

    def __init__(self) -> None:
        self.values: list[tuple[str, Value]] = []
        self.notes: Counter[str] = Counter()
        self.tags = 0
        self.has_ethernet = False
        self.etype: int | None = None
        self.labels: list[int] = []
        self.ttls: list[int] = []

    def give(self, name: str, value: Value) -> None:
        self.values.append((f"packet:{name}", value))

    # Link layer

    def ethernet(self, frame: Octets) -> None:
        """Destination 6, source 6, then what `ethertype` reads."""
        dst_mac, src_mac = frame.uint(6), frame.uint(6)
        ethertype = frame.u16()
        if not self.has_ethernet:
            self.has_ethernet = True
            self.give("ethernet.src_mac", Number(src_mac))
            self.give("ethernet.dst_mac", Number(dst_mac))
        while ethertype in VLAN_TYPES:
            tag = frame.u16()
            self.tags += 1
            if self.tags == 1:
                self.give("vlan.id", Number(tag & 0x0FFF))
            elif self.tags == 2:
                self.give("vlan.inner_id", Number(tag & 0x0FFF))
            ethertype = frame.u16()
        if ethertype >= LOWEST_ETHERTYPE:
            self.etype = ethertype
        if ethertype in MPLS_TYPES:
            self.mpls(frame)
        elif ethertype in (IPV4_TYPE, IPV6_TYPE):
            self.ip(frame, ethertype)
        else:
            self.notes["unknown_header"] += 1

    def mpls(self, stack: Octets) -> None:
        """Label 20 bits, traffic class 3, bottom of stack 1, TTL 8 (RFC 3032); the payload is not named."""
        while True:
            entry = stack.u32()
            label, bottom = entry >> 12, entry >> 8 & 1
            self.labels.append(label)
            self.ttls.append(entry & 0xFF)
            if bottom:
                break
        nibble = {IPV4_EXPLICIT_NULL: 4, IPV6_EXPLICIT_NULL: 6}.get(label, first_nibble(stack))
        if nibble == 4:
            self.ip(stack, IPV4_TYPE)
        elif nibble == 6:
            self.ip(stack, IPV6_TYPE)
        elif nibble == 0 and stack.u32() == 0:  # a pseudowire's control word
            self.ethernet(stack)
        elif nibble is not None:
            self.notes["unknown_header"] += 1

    # Network layer

    def ip(self, packet: Octets, ethertype: int) -> None:
        self.etype = ethertype
        nibble = first_nibble(packet)
        if nibble is None:
            return
        if nibble != (4 if ethertype == IPV4_TYPE else 6):
            self.notes["bad_packet"] += 1
        elif ethertype == IPV4_TYPE:
            self.ipv4(packet)
        else:
            self.ipv6(packet)

    def ipv4(self, packet: Octets) -> None:
        """RFC 791 section 3.1."""
        if packet.left < 20:
            return
        start = packet.place
        header_length = (packet.u8() & 0x0F) * 4
        tos = packet.u8()
        total_length = packet.u16()
        if header_length < 20 or 0 < total_length < header_length:
            self.notes["bad_packet"] += 1
            return
        fragment_id = packet.u16()
        fragment = packet.u16()
        ttl, proto = packet.u8(), packet.u8()
        packet.take(2)  # header checksum
        self.give("ip.length", Number(total_length))
        self.give("ip.src_addr", Address(packet.take(4)))
        self.give("ip.dst_addr", Address(packet.take(4)))
        self.give("ip.proto", Number(proto))
        self.give("ip.tos", Number(tos))
        self.give("ip.ttl", Number(ttl))
        self.give("ip.fragment_id", Number(fragment_id))
        self.give("ip.fragment_offset", Number(fragment & 0x1FFF))
        self.give("ip.flags", Number(fragment >> 13))
        if fragment & 0x1FFF == 0:
            end = start + total_length if total_length else None
            self.transport(proto, Octets(packet.data[start + header_length : end]))

    def ipv6(self, packet: Octets) -> None:
        """RFC 8200 section 3."""
        if packet.left < 40:
            return
        word = packet.u32()
        payload_length = packet.u16()
        next_header, hop_limit = packet.u8(), packet.u8()
        if payload_length or next_header == NO_NEXT_HEADER:
            self.give("ip.length", Number(payload_length + 40))
        self.give("ip.src_addr", Address(packet.take(16)))
        self.give("ip.dst_addr", Address(packet.take(16)))
        self.give("ip.tos", Number(word >> 20 & 0xFF))
        self.give("ip.ttl", Number(hop_limit))
        self.give("ip.flow_label", Number(word & 0xFFFFF))
        bounded = payload_length or next_header == NO_NEXT_HEADER
        payload = Octets(packet.take_up_to(payload_length) if bounded else packet.rest())
        self.extension_headers(next_header, payload)

    def extension_headers(self, header: int, payload: Octets) -> None:
        """RFC 8200 section 4; the authentication header (RFC 4302) counts its length in words of four octets."""
        later_fragment = False
        while header in EXTENSION_HEADERS and payload.left >= 8 and not later_fragment:
            following, length, fragment, fragment_id = payload.u8(), payload.u8(), payload.u16(), payload.u32()
            if header == FRAGMENT:
                later_fragment = fragment >> 3 != 0
                self.give("ip.fragment_id", Number(fragment_id))
                self.give("ip.fragment_offset", Number(fragment >> 3))
                self.give("ip.flags", Number(fragment & 1))
            else:
                size = (length + 2) * 4 if header == AUTHENTICATION else (length + 1) * 8
                payload.take_up_to(size - 8)
            header = following
        self.give("ip.proto", Number(header))
        if not later_fragment:
            self.transport(header, payload)

    # Transport layer

    def transport(self, proto: int, segment: Octets) -> None:
        if proto in WITH_PORTS and segment.left >= 4:
            self.give("transport.src_port", Number(segment.u16()))
            self.give("transport.dst_port", Number(segment.u16()))
            if proto == TCP and segment.left >= 10:
                segment.take(8)
                self.give("tcp.flags", Number(segment.u16() & 0x0FFF))
        elif proto in (ICMP, ICMPV6) and segment.left >= 2:
            self.give("icmp.type", Number(segment.u8()))
            self.give("icmp.code", Number(segment.u8()))


def first_nibble(octets: Octets) -> int | None:
    return octets.data[octets.place] >> 4 if octets.left else None


def parse(header_protocol: int, data: bytes) -> Packet:
    """A packet that begins with what sFlow v5 calls `header_protocol`: 1 Ethernet, 11 IPv4, 12 IPv6, 13 MPLS."""
    packet = Packet()
    packet.give("packets", Number(1))
    octets = Octets(data)
    try:
        if header_protocol == SFLOW_ETHERNET:
            packet.ethernet(octets)
        elif header_protocol == SFLOW_IPV4:
            packet.ip(octets, IPV4_TYPE)
        elif header_protocol == SFLOW_IPV6:
            packet.ip(octets, IPV6_TYPE)
        elif header_protocol == SFLOW_MPLS:
            packet.etype = MPLS_TYPE
            packet.mpls(octets)
        else:
            packet.notes["unknown_header"] += 1
    except Short:
        pass  # the sampling cut the packet here
    if packet.etype is not None:
        packet.give("ethernet.type", Number(packet.etype))
    if packet.labels:
        packet.give("mpls.labels", Numbers(packet.labels))
        packet.give("mpls.ttls", Numbers(packet.ttls))
    return packet


def parse_ip(data: bytes) -> Packet:
    """A packet that begins with an IP header of either version (ipHeaderPacketSection, element 313)."""
    nibble = data[0] >> 4 if data else None
    if nibble == 4:
        return parse(SFLOW_IPV4, data)
    if nibble == 6:
        return parse(SFLOW_IPV6, data)
    return parse(0, data)
