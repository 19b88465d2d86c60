"""Tunnels, by the bytes after the IP header of the outer packet. The specifications leave these points open:

- A tunnel with a truncated header, or of a version or kind that carries no packet, is ignored.
- Tunnels over UDP are found by the destination port alone. VXLAN has port 4789 (IANA's) and 8472 (Linux
  before that), Geneve 6081, GTP-U 2152. Of VXLAN's flags, only I counts.
- A Geneve control packet (O) carries no traffic. GTP-U carries traffic in a G-PDU only: an IP packet, whose
  first nibble is its version.
- GRE's reserved bits that a receiver must check by RFC 2784 must be zero (1, 4, 5; RFC 2890 uses 2 and 3).
- IP in IPv6 is SRv6 or IPIP without a routing header, SRv6 alone with routing headers of type 4 (RFC 8754),
  IPIP alone with routing headers of other types.
"""

from __future__ import annotations

from dataclasses import dataclass

from .octets import Octets, Short

TUNNELS = ("vxlan", "geneve", "gre", "ipip", "srv6", "gtp")
DEEPEST = 4
"""Limit of tunnels that are opened, one inside the other."""

ETHERNET = "ethernet"  # in addition to ethertypes: an Ethernet header
BRIDGED_TYPE = 0x6558
IPV4_TYPE, IPV6_TYPE = 0x0800, 0x86DD
MPLS_TYPES = {0x8847, 0x8848}

IPV4, UDP, IPV6, GRE, ETHERNET_IN_IPV6 = 4, 17, 41, 47, 143
VXLAN_PORTS, GENEVE_PORT, GTP_PORT = {4789, 8472}, 6081, 2152
SEGMENT_ROUTING = 4
G_PDU = 255


@dataclass
class Tunnel:
    """A tunnel: the kinds that it may have, the type of the first inner header, and the inner bytes.

    `layer` is the tunnel's own header with its size, if it has one after UDP.
    """

    kinds: set[str]
    header: int | str
    octets: bytes
    identifier: int | None = None
    layer: tuple[str, int] | None = None


def find(proto: int, payload: bytes, routing_types: list[int] | None) -> Tunnel | None:
    """Return the tunnel in the bytes after an IP header.

    `routing_types` are those of IPv6's routing headers, None in IPv4.
    """
    if proto in (IPV4, IPV6, ETHERNET_IN_IPV6):
        return find_ip(proto, payload, routing_types)
    try:
        if proto == GRE:
            return read_gre(Octets(payload))
        if proto == UDP:
            segment = Octets(payload)
            segment.take(2)
            port = segment.u16()
            segment.take(4)
            return find_udp(port, segment)
    except Short:
        pass
    return None


def find_ip(proto: int, payload: bytes, routing_types: list[int] | None) -> Tunnel | None:
    kinds = set()
    others = [kind for kind in routing_types or [] if kind != SEGMENT_ROUTING]
    if routing_types is not None and not others:
        kinds.add("srv6")
    if proto != ETHERNET_IN_IPV6 and len(others) == len(routing_types or []):
        kinds.add("ipip")
    header = {IPV4: IPV4_TYPE, IPV6: IPV6_TYPE, ETHERNET_IN_IPV6: ETHERNET}[proto]
    return Tunnel(kinds, header, payload) if kinds else None


def find_udp(port: int, datagram: Octets) -> Tunnel | None:
    if port in VXLAN_PORTS:
        return read_vxlan(datagram)
    if port == GENEVE_PORT:
        return read_geneve(datagram)
    return read_gtp(datagram) if port == GTP_PORT else None


def read_vxlan(datagram: Octets) -> Tunnel | None:
    """Read VXLAN (RFC 7348 section 5): flags 1, reserved 3, VNI 3, reserved 1."""
    flags = datagram.u8()
    datagram.take(3)
    vni = datagram.uint(3)
    datagram.take(1)
    return Tunnel({"vxlan"}, ETHERNET, datagram.rest(), vni, ("vxlan", 8)) if flags & 0x08 else None


def read_geneve(datagram: Octets) -> Tunnel | None:
    """Read Geneve (RFC 8926 section 3.4).

    Version 2 bits, options 6 bits (words), flags 1, protocol 2, VNI 3, reserved 1, options.
    """
    first, flags = datagram.u8(), datagram.u8()
    protocol, vni = datagram.u16(), datagram.uint(3)
    datagram.take(1)
    version, words = first >> 6, first & 0x3F
    datagram.take(4 * words)
    if version != 0 or flags & 0x80 or protocol not in (BRIDGED_TYPE, IPV4_TYPE, IPV6_TYPE):
        return None
    header = ETHERNET if protocol == BRIDGED_TYPE else protocol
    return Tunnel({"geneve"}, header, datagram.rest(), vni, ("geneve", 8 + 4 * words))


def read_gtp(datagram: Octets) -> Tunnel | None:
    """Read GTP-U (3GPP TS 29.281 section 5): flags 1, type 1, length 2, TEID 4.

    With any of E, S, PN: sequence 2, N-PDU number 1, next extension 1. An extension has a length 1 (in words,
    itself included), content, next extension 1.
    """
    flags, message = datagram.u8(), datagram.u8()
    datagram.take(2)
    teid = datagram.u32()
    if flags >> 5 != 1 or not flags & 0x10 or message != G_PDU:
        return None
    if flags & 0x07:
        datagram.take(3)
        following = datagram.u8()
        while flags & 0x04 and following:
            words = datagram.u8()
            if words == 0:
                return None
            following = datagram.take(4 * words - 1)[-1]
    size = datagram.place - 8
    payload = datagram.rest()
    header = {4: IPV4_TYPE, 6: IPV6_TYPE}.get(payload[0] >> 4) if payload else None
    return Tunnel({"gtp"}, header, payload, teid, ("gtp", size)) if header else None


def read_gre(payload: Octets) -> Tunnel | None:
    """Read GRE (RFC 2784 section 2, RFC 2890 section 2): flags and version 2, protocol 2.

    Checksum 4, key 4 and sequence number 4 follow as the flags indicate.
    """
    flags, protocol = payload.u16(), payload.u16()
    if flags & 0x4C00 or flags & 7 != 0:
        return None
    if flags & 0x8000:
        payload.take(4)
    key = payload.u32() if flags & 0x2000 else None
    if flags & 0x1000:
        payload.take(4)
    if protocol == BRIDGED_TYPE:
        return Tunnel({"gre"}, ETHERNET, payload.rest(), key)
    if protocol in MPLS_TYPES or protocol in (IPV4_TYPE, IPV6_TYPE):
        return Tunnel({"gre"}, protocol, payload.rest(), key)
    return None


def gre_size(flags: int) -> int:
    """Return the size of a header of version 0, or of PPTP's version 1 (RFC 2637 section 4.1)."""
    if flags & 7 == 1:
        return 8 + 4 * bool(flags & 0x1000) + 4 * bool(flags & 0x0080)
    return 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
