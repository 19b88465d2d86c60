"""Build datagrams by hand, byte by byte. The builders share no code with any decoder and accept wrong
lengths.

    ipfix(template_set(template(256, (1, 8), (7, 2))), data_set(256, uint(1500, 8) + uint(80, 2)))
    sflow(flow_sample(sampled_header(ethernet(ipv4(tcp(80, 443))))))
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

VARIABLE = 65535

# A field specifier: (element id, length) or (element id, length, enterprise number).
Specifier = tuple[int, int] | tuple[int, int, int]


def uint(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def u8(value: int) -> bytes:
    return uint(value, 1)


def u16(value: int) -> bytes:
    return uint(value, 2)


def u32(value: int) -> bytes:
    return uint(value, 4)


def ip(text: str) -> bytes:
    return ip_address(text).packed


def mapped(text: str) -> bytes:
    """Encode an IPv4 address as an IPv4-mapped IPv6 address (16 bytes)."""
    return bytes(10) + b"\xff\xff" + ip(text)


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def joined(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(parts)


# NetFlow v5 -------------------------------------------------------------------------------------------------


def netflow5(
    *records: bytes,
    count: int | None = None,
    uptime: int = 0,
    seconds: int = 0,
    nanoseconds: int = 0,
    sequence: int = 0,
    engine_type: int = 0,
    engine_id: int = 0,
    sampling: int = 0,
) -> bytes:
    """Build a NetFlow v5 datagram. `sampling` is the whole word: mode in the top two bits, interval in the
    rest.
    """
    header = (
        u16(5) + u16(len(records) if count is None else count) + u32(uptime) + u32(seconds) + u32(nanoseconds)
    )
    return header + u32(sequence) + u8(engine_type) + u8(engine_id) + u16(sampling) + joined(records)


def record5(
    src: str = "0.0.0.0",
    dst: str = "0.0.0.0",
    next_hop: str = "0.0.0.0",
    in_if: int = 0,
    out_if: int = 0,
    packets: int = 0,
    octets: int = 0,
    first: int = 0,
    last: int = 0,
    src_port: int = 0,
    dst_port: int = 0,
    tcp_flags: int = 0,
    proto: int = 0,
    tos: int = 0,
    src_as: int = 0,
    dst_as: int = 0,
    src_mask: int = 0,
    dst_mask: int = 0,
) -> bytes:
    addresses = ip(src) + ip(dst) + ip(next_hop)
    counts = u16(in_if) + u16(out_if) + u32(packets) + u32(octets) + u32(first) + u32(last)
    transport = u16(src_port) + u16(dst_port) + u8(0) + u8(tcp_flags) + u8(proto) + u8(tos)
    return addresses + counts + transport + u16(src_as) + u16(dst_as) + u8(src_mask) + u8(dst_mask) + u16(0)


def netflow1(
    *records: bytes, count: int | None = None, uptime: int = 0, seconds: int = 0, nanoseconds: int = 0
) -> bytes:
    header = u16(1) + u16(len(records) if count is None else count)
    return header + u32(uptime) + u32(seconds) + u32(nanoseconds) + joined(records)


def record1(
    src: str = "0.0.0.0",
    dst: str = "0.0.0.0",
    next_hop: str = "0.0.0.0",
    in_if: int = 0,
    out_if: int = 0,
    packets: int = 0,
    octets: int = 0,
    first: int = 0,
    last: int = 0,
    src_port: int = 0,
    dst_port: int = 0,
    tcp_flags: int = 0,
    proto: int = 0,
    tos: int = 0,
    size: int = 52,
) -> bytes:
    """Build a NetFlow v1 record. `size` is 52 as sent by Cisco, or 48 as sent by softflowd."""
    counts = u16(in_if) + u16(out_if) + u32(packets) + u32(octets) + u32(first) + u32(last)
    transport = u16(src_port) + u16(dst_port) + u16(0) + u8(proto) + u8(tos) + u8(tcp_flags)
    return (ip(src) + ip(dst) + ip(next_hop) + counts + transport).ljust(size, b"\0")


def netflow7(
    *records: bytes,
    count: int | None = None,
    uptime: int = 0,
    seconds: int = 0,
    nanoseconds: int = 0,
    sequence: int = 0,
) -> bytes:
    header = (
        u16(7) + u16(len(records) if count is None else count) + u32(uptime) + u32(seconds) + u32(nanoseconds)
    )
    return header + u32(sequence) + u32(0) + joined(records)


def record7(router_sc: str = "0.0.0.0", flags: int = 0, **fields: Any) -> bytes:
    """Build a NetFlow v7 record. `fields` are those of record5."""
    record = record5(**fields)
    return record[:36] + u8(flags) + record[37:] + ip(router_sc)


# NetFlow v9 and IPFIX ---------------------------------------------------------------------------------------


def netflow9(
    *sets: bytes, count: int = 1, uptime: int = 0, seconds: int = 0, sequence: int = 0, source_id: int = 0
) -> bytes:
    return u16(9) + u16(count) + u32(uptime) + u32(seconds) + u32(sequence) + u32(source_id) + joined(sets)


def ipfix(
    *sets: bytes, length: int | None = None, export_time: int = 0, sequence: int = 0, domain: int = 0
) -> bytes:
    body = joined(sets)
    size = 16 + len(body) if length is None else length
    return u16(10) + u16(size) + u32(export_time) + u32(sequence) + u32(domain) + body


def any_set(set_id: int, *content: bytes, padding: int = 0, length: int | None = None) -> bytes:
    body = joined(content) + bytes(padding)
    return u16(set_id) + u16(4 + len(body) if length is None else length) + body


def data_set(template_id: int, *records: bytes, padding: int = 0, length: int | None = None) -> bytes:
    return any_set(template_id, *records, padding=padding, length=length)


def template_set(*templates: bytes, padding: int = 0) -> bytes:
    """Build an IPFIX template set."""
    return any_set(2, *templates, padding=padding)


def options_template_set(*templates: bytes, padding: int = 0) -> bytes:
    """Build an IPFIX options template set."""
    return any_set(3, *templates, padding=padding)


def template_set9(*templates: bytes, padding: int = 0) -> bytes:
    return any_set(0, *templates, padding=padding)


def options_template_set9(*templates: bytes, padding: int = 0) -> bytes:
    return any_set(1, *templates, padding=padding)


def specifier(field: Specifier) -> bytes:
    if len(field) == 3:
        return u16(field[0] | 0x8000) + u16(field[1]) + u32(field[2])
    return u16(field[0]) + u16(field[1])


def template(template_id: int, *fields: Specifier, count: int | None = None) -> bytes:
    """Build a template of NetFlow v9 or IPFIX. Enterprise numbers exist in IPFIX only."""
    return (
        u16(template_id)
        + u16(len(fields) if count is None else count)
        + joined(tuple(map(specifier, fields)))
    )


def options_template(
    template_id: int,
    scopes: Sequence[Specifier],
    options: Sequence[Specifier],
    scope_count: int | None = None,
) -> bytes:
    """Build an IPFIX options template."""
    fields = [*scopes, *options]
    count = len(scopes) if scope_count is None else scope_count
    return u16(template_id) + u16(len(fields)) + u16(count) + joined(tuple(map(specifier, fields)))


def options_template9(
    template_id: int,
    scopes: Sequence[Specifier],
    options: Sequence[Specifier],
    scope_length: int | None = None,
    option_length: int | None = None,
) -> bytes:
    lengths = [4 * len(scopes) if scope_length is None else scope_length]
    lengths.append(4 * len(options) if option_length is None else option_length)
    return (
        u16(template_id)
        + joined(tuple(map(u16, lengths)))
        + joined(tuple(map(specifier, [*scopes, *options])))
    )


def withdrawal(template_id: int) -> bytes:
    return template(template_id)


def variable(data: bytes, long_form: bool = False) -> bytes:
    """Encode a field of variable length, with its length in one byte or in three."""
    return u8(255) + u16(len(data)) + data if long_form or len(data) > 254 else u8(len(data)) + data


def basic_list(element: Specifier, *members: bytes, semantic: int = 3) -> bytes:
    """Encode a basicList (RFC 6313 section 4.5.1). The default semantic is allOf.

    Members have one length, or each has its own (`variable`).
    """
    return u8(semantic) + specifier(element) + joined(members)


def sub_template_list(template_id: int, *records: bytes, semantic: int = 3) -> bytes:
    """Encode a subTemplateList (RFC 6313 section 4.5.2): records of one template."""
    return u8(semantic) + u16(template_id) + joined(records)


def sub_template_multi_list(*parts: tuple[int, bytes], semantic: int = 3) -> bytes:
    """Encode a subTemplateMultiList (RFC 6313 section 4.5.3): pairs of template id and records."""
    return u8(semantic) + joined(
        tuple(u16(number) + u16(4 + len(records)) + records for number, records in parts)
    )


# sFlow ------------------------------------------------------------------------------------------------------


def sflow(
    *samples: bytes,
    agent: str = "192.0.2.200",
    sub_agent: int = 0,
    sequence: int = 0,
    uptime: int = 0,
    count: int | None = None,
) -> bytes:
    header = u32(5) + sflow_address(agent) + u32(sub_agent) + u32(sequence) + u32(uptime)
    return header + u32(len(samples) if count is None else count) + joined(samples)


def sflow_address(text: str | None) -> bytes:
    if text is None:
        return u32(0)
    octets = ip(text)
    return u32(1 if len(octets) == 4 else 2) + octets


def opaque(data: bytes, length: int | None = None) -> bytes:
    """Encode an XDR opaque: length, bytes, padding to a word."""
    return u32(len(data) if length is None else length) + data + bytes(-len(data) % 4)


def sample(sample_format: int, data: bytes, enterprise: int = 0, length: int | None = None) -> bytes:
    return u32(enterprise << 12 | sample_format) + opaque(data, length)


def record(record_format: int, data: bytes, enterprise: int = 0, length: int | None = None) -> bytes:
    return sample(record_format, data, enterprise, length)


def flow_sample(
    *records: bytes,
    sequence: int = 0,
    source_id: int = 0,
    rate: int = 0,
    pool: int = 0,
    drops: int = 0,
    input: int = 0,
    output: int = 0,
    count: int | None = None,
    length: int | None = None,
) -> bytes:
    words = (sequence, source_id, rate, pool, drops, input, output, len(records) if count is None else count)
    return sample(1, joined(tuple(map(u32, words))) + joined(records), length=length)


def expanded_flow_sample(
    *records: bytes,
    sequence: int = 0,
    source: tuple[int, int] = (0, 0),
    rate: int = 0,
    pool: int = 0,
    drops: int = 0,
    input: tuple[int, int] = (0, 0),
    output: tuple[int, int] = (0, 0),
    count: int | None = None,
    length: int | None = None,
) -> bytes:
    """Build an expanded flow sample. `source` is (type, index), interfaces are (format, value)."""
    words = (sequence, *source, rate, pool, drops, *input, *output, len(records) if count is None else count)
    return sample(3, joined(tuple(map(u32, words))) + joined(records), length=length)


def sampled_header(
    packet: bytes,
    protocol: int = 1,
    frame_length: int = 0,
    stripped: int = 4,
    header_length: int | None = None,
) -> bytes:
    return record(1, u32(protocol) + u32(frame_length) + u32(stripped) + opaque(packet, header_length))


def sampled_ethernet(length: int, src: str, dst: str, ethertype: int) -> bytes:
    """Build a sampled_ethernet record. MAC addresses are padded to words."""
    return record(2, u32(length) + mac(src) + bytes(2) + mac(dst) + bytes(2) + u32(ethertype))


def sampled_ip(
    src: str,
    dst: str,
    length: int = 0,
    proto: int = 0,
    src_port: int = 0,
    dst_port: int = 0,
    tcp_flags: int = 0,
    tos: int = 0,
) -> bytes:
    """Build a sampled_ipv4 or sampled_ipv6 record, according to the addresses."""
    addresses = ip(src) + ip(dst)
    words = joined(tuple(map(u32, (src_port, dst_port, tcp_flags, tos))))
    return record(3 if len(addresses) == 8 else 4, u32(length) + u32(proto) + addresses + words)


def extended_switch(src_vlan: int, src_priority: int, dst_vlan: int, dst_priority: int) -> bytes:
    return record(1001, joined(tuple(map(u32, (src_vlan, src_priority, dst_vlan, dst_priority)))))


def extended_router(next_hop: str | None, src_mask: int, dst_mask: int) -> bytes:
    return record(1002, sflow_address(next_hop) + u32(src_mask) + u32(dst_mask))


def extended_gateway(
    next_hop: str | None,
    own_as: int = 0,
    src_as: int = 0,
    src_peer_as: int = 0,
    path: list[list[int]] | None = None,
    communities: list[int] | None = None,
    local_pref: int = 0,
    kinds: Sequence[int] = (),
) -> bytes:
    """Build an extended_gateway record. `path` has the segments; `kinds` has their types, AS_SEQUENCE (2) by
    default.
    """
    path = path or []
    kinds = kinds or [2] * len(path)
    segments = b"".join(u32(kind) + words(segment) for kind, segment in zip(kinds, path, strict=True))
    head = sflow_address(next_hop) + u32(own_as) + u32(src_as) + u32(src_peer_as)
    return record(1003, head + u32(len(path)) + segments + words(communities or []) + u32(local_pref))


def counters_sample(
    *records: bytes,
    sequence: int = 0,
    source: tuple[int, int] = (0, 0),
    expanded: bool = False,
    count: int | None = None,
    length: int | None = None,
) -> bytes:
    """Build a counters sample. `source` is (type, index): 8 and 24 bits, or 32 bits each if expanded."""
    source_id = u32(source[0]) + u32(source[1]) if expanded else u32(source[0] << 24 | source[1])
    head = u32(sequence) + source_id + u32(len(records) if count is None else count)
    return sample(4 if expanded else 2, head + joined(records), length=length)


def discarded_packet(
    *records: bytes,
    sequence: int = 0,
    source: tuple[int, int] = (0, 0),
    drops: int = 0,
    input: int = 0,
    output: int = 0,
    reason: int = 0,
    count: int | None = None,
    length: int | None = None,
) -> bytes:
    numbers = (sequence, *source, drops, input, output, reason, len(records) if count is None else count)
    return sample(5, joined(tuple(map(u32, numbers))) + joined(records), length=length)


def counters(record_format: int, layout: str, *values: int) -> bytes:
    """Build a counter record with fields of fixed size.

    Each letter of `layout` is a field: b 1 byte, i 4, h 8, m 6 and 2 bytes of padding.
    """
    sizes = {"b": 1, "i": 4, "h": 8, "m": 6}
    fields = [
        uint(value, sizes[letter]) + bytes(2 * (letter == "m"))
        for letter, value in zip(layout, values, strict=True)
    ]
    return record(record_format, joined(tuple(fields)))


def host_descr(hostname: bytes, uuid: bytes, machine_type: int, os_name: int, os_release: bytes) -> bytes:
    return record(2000, opaque(hostname) + uuid + u32(machine_type) + u32(os_name) + opaque(os_release))


def host_adapters(*adapters: tuple[int, list[str]]) -> bytes:
    """Build a host_adapters record from (ifIndex, MAC addresses) of each adapter."""
    bodies = [
        u32(index) + u32(len(macs)) + b"".join(mac(text) + bytes(2) for text in macs)
        for index, macs in adapters
    ]
    return record(2001, u32(len(adapters)) + joined(tuple(bodies)))


def sfp(module: tuple[int, int, int, int], *lanes: list[int], count: int | None = None) -> bytes:
    """Build an sfp record. `module` is id, lanes, millivolts, temperature; a lane has ten words."""
    body = joined(tuple(u32(number & 0xFFFFFFFF) for number in module)) + u32(
        len(lanes) if count is None else count
    )
    return record(10, body + b"".join(u32(number) for lane in lanes for number in lane))


def extended_acl(number: int, name: bytes, direction: int) -> bytes:
    return record(1037, u32(number) + opaque(name) + u32(direction))


def strings(record_format: int, *texts: bytes) -> bytes:
    """Build a port_name, extended_function, extended_hw_trap or extended_linux_drop_reason record."""
    return record(record_format, joined(tuple(map(opaque, texts))))


def words(values: list[int]) -> bytes:
    return u32(len(values)) + b"".join(map(u32, values))


# Packets ----------------------------------------------------------------------------------------------------


def ethernet(
    payload: bytes, ethertype: int = 0x0800, src: str = "02:00:00:00:00:01", dst: str = "02:00:00:00:00:02"
) -> bytes:
    return mac(dst) + mac(src) + u16(ethertype) + payload


def tagged(payload: bytes, vlan: int, ethertype: int = 0x0800, priority: int = 0) -> bytes:
    """Build the bytes after the ethertype of a VLAN tag: tag control information, ethertype, payload."""
    return u16(priority << 13 | vlan) + u16(ethertype) + payload


def mpls(payload: bytes, *labels: int, ttl: int = 64) -> bytes:
    """Build a label stack. The last label has the bottom-of-stack bit. TTLs count up from `ttl`."""
    entries = [
        u32(label << 12 | (index == len(labels) - 1) << 8 | ttl + index) for index, label in enumerate(labels)
    ]
    return b"".join(entries) + payload


def ipv4(
    payload: bytes = b"",
    proto: int = 6,
    src: str = "192.0.2.1",
    dst: str = "198.51.100.2",
    tos: int = 0,
    ttl: int = 64,
    identification: int = 0,
    flags: int = 0,
    offset: int = 0,
    options: bytes = b"",
    header_words: int | None = None,
    total_length: int | None = None,
    version: int = 4,
) -> bytes:
    ihl = 5 + len(options) // 4 if header_words is None else header_words
    length = 20 + len(options) + len(payload) if total_length is None else total_length
    first = u8(version << 4 | ihl) + u8(tos) + u16(length) + u16(identification) + u16(flags << 13 | offset)
    return first + u8(ttl) + u8(proto) + u16(0) + ip(src) + ip(dst) + options + payload


def ipv6(
    payload: bytes = b"",
    next_header: int = 6,
    src: str = "2001:db8::1",
    dst: str = "2001:db8::2",
    traffic_class: int = 0,
    flow_label: int = 0,
    hop_limit: int = 64,
    payload_length: int | None = None,
    version: int = 6,
) -> bytes:
    length = len(payload) if payload_length is None else payload_length
    first = u32(version << 28 | traffic_class << 20 | flow_label)
    return first + u16(length) + u8(next_header) + u8(hop_limit) + ip(src) + ip(dst) + payload


def extension(next_header: int, payload: bytes, units: int = 0) -> bytes:
    """Build an IPv6 extension header of 8 bytes and `units` times 8 more."""
    return u8(next_header) + u8(units) + bytes(6 + 8 * units) + payload


def authentication(next_header: int, payload: bytes, check_words: int = 3) -> bytes:
    """Build an authentication header. Its length counts words of 4 bytes, minus 2."""
    return u8(next_header) + u8(1 + check_words) + bytes(10 + 4 * check_words) + payload


def fragment(
    next_header: int, payload: bytes, offset: int = 0, more: bool = False, identification: int = 0
) -> bytes:
    return u8(next_header) + u8(0) + u16(offset << 3 | more) + u32(identification) + payload


def tcp(src_port: int, dst_port: int, flags: int = 0x10) -> bytes:
    return (
        u16(src_port) + u16(dst_port) + u32(1) + u32(2) + u8(0x50) + u8(flags) + u16(1024) + u16(0) + u16(0)
    )


def udp(src_port: int, dst_port: int, payload: bytes = b"") -> bytes:
    return u16(src_port) + u16(dst_port) + u16(8 + len(payload)) + u16(0) + payload


def sctp(src_port: int, dst_port: int) -> bytes:
    return u16(src_port) + u16(dst_port) + u32(7) + u32(0)


def icmp(icmp_type: int, code: int) -> bytes:
    return u8(icmp_type) + u8(code) + u16(0) + u32(1)
