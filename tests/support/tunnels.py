"""Build tunnels, segment routing, PPPoE, SNAP and pseudowires around packets, byte by byte.

Like datagrams.py, the builders share no code with any decoder and accept wrong lengths.

    ethernet(ipv4(udp(50000, 4789, vxlan(ethernet(ipv4(tcp(80, 443))), vni=7)), proto=17))
"""

from __future__ import annotations

from tests.support.datagrams import ip, joined, u8, u16, u32, uint


def checked(packet: bytes) -> bytes:
    """Return an IPv4 packet with a correct header checksum (RFC 1071)."""
    header = packet[: 4 * (packet[0] & 0x0F)]
    header = header[:10] + bytes(2) + header[12:]
    total = sum(int.from_bytes(header[place : place + 2], "big") for place in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return packet[:10] + u16(total ^ 0xFFFF) + packet[12:]


def vxlan(frame: bytes, vni: int = 0, flags: int = 0x08) -> bytes:
    return u8(flags) + bytes(3) + uint(vni, 3) + bytes(1) + frame


def geneve(
    payload: bytes,
    protocol: int = 0x6558,
    vni: int = 0,
    options: bytes = b"",
    version: int = 0,
    flags: int = 0,
) -> bytes:
    return (
        u8(version << 6 | len(options) // 4)
        + u8(flags)
        + u16(protocol)
        + uint(vni, 3)
        + bytes(1)
        + options
        + payload
    )


def gre(
    payload: bytes,
    protocol: int = 0x0800,
    key: int | None = None,
    checksum: int | None = None,
    sequence: int | None = None,
    flags: int = 0,
) -> bytes:
    """Build a GRE header with these fields. `checksum` is its value; `flags` are additional flags."""
    words = [word for word in (checksum, key, sequence) if word is not None]
    flags |= (checksum is not None) << 15 | (key is not None) << 13 | (sequence is not None) << 12
    return u16(flags) + u16(protocol) + joined(tuple(map(u32, words))) + payload


def gtp(
    payload: bytes,
    teid: int = 0,
    extensions: list[tuple[int, bytes]] | None = None,
    sequence: int | None = None,
    first: int = 0x30,
    message: int = 255,
) -> bytes:
    """Build GTP-U. `extensions` are (type, content); content of 2 bytes fills a word, 6 bytes fill two."""
    optional = b""
    if extensions is not None or sequence is not None:
        kinds = [kind for kind, _ in extensions or []] + [0]
        optional = u16(sequence or 0) + u8(0) + u8(kinds[0])
        for (_, content), following in zip(extensions or [], kinds[1:], strict=True):
            optional += u8((len(content) + 2) // 4) + content + u8(following)
        first |= 4 * (extensions is not None) | 2 * (sequence is not None)
    return u8(first) + u8(message) + u16(len(optional) + len(payload)) + u32(teid) + optional + payload


def routing(
    next_header: int,
    payload: bytes,
    addresses: list[str],
    kind: int = 4,
    left: int = 0,
    last_entry: int | None = None,
    options: bytes = b"",
    units: int | None = None,
) -> bytes:
    """Build an IPv6 routing header.

    The fifth byte is the last entry of a segment routing header; otherwise it is reserved.
    """
    content = joined(tuple(map(ip, addresses))) + options
    last = max(len(addresses) - 1, 0) if kind == 4 and last_entry is None else last_entry or 0
    length = len(content) // 8 if units is None else units
    return u8(next_header) + u8(length) + u8(kind) + u8(left) + u8(last) + bytes(3) + content + payload


def pppoe(
    payload: bytes, protocol: int = 0x0021, short: bool = False, code: int = 0, first: int = 0x11,
    length: int | None = None,
) -> bytes:  # fmt: skip
    """Build the payload of a PPPoE session, after ethertype 0x8864. `short` compresses the PPP protocol to
    one byte.
    """
    ppp = (u8(protocol) if short else u16(protocol)) + payload
    return u8(first) + u8(code) + u16(7) + u16(len(ppp) if length is None else length) + ppp


def snap(
    payload: bytes, ethertype: int = 0x0800, organization: int = 0, llc: bytes = b"\xaa\xaa\x03"
) -> bytes:
    """Build LLC and SNAP, which follow the length of an 802.3 frame."""
    return llc + uint(organization, 3) + u16(ethertype) + payload


def control_word(sequence: int = 0) -> bytes:
    return u32(sequence)
