"""NetFlow v1, v5, v7 and v9, by Cisco's export format pages and RFC 3954.

Fields of v1 and v7 have the names of v5. Records of v1 have 52 bytes (Cisco, Extreme Networks) or 48
(softflowd, nfdump). Bytes after the TCP flags are padding, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from .datagram import Datagram
from .derived import give_icmp
from .octets import Octets, Short
from .packet import IPV4_TYPE
from .sequence import FLOWS, PACKETS, Content
from .templates import FIRST_TEMPLATE_ID, FieldSpecifier, Template, read_sets
from .values import Address, Clock, Flow, Number, Time

Fields = list[tuple[str | None, int]]

RECORD5_SIZE = 48
# Name, bytes; None is padding. `srcaddr` and similar fields are addresses; First and Last are uptimes.
RECORD5_FIELDS: Fields = [
    ("srcaddr", 4),
    ("dstaddr", 4),
    ("nexthop", 4),
    ("input", 2),
    ("output", 2),
    ("dPkts", 4),
    ("dOctets", 4),
    ("First", 4),
    ("Last", 4),
    ("srcport", 2),
    ("dstport", 2),
    ("pad1", 1),
    ("tcp_flags", 1),
    ("prot", 1),
    ("tos", 1),
    ("src_as", 2),
    ("dst_as", 2),
    ("src_mask", 1),
    ("dst_mask", 1),
    ("pad2", 2),
]
# v7 has flags at the place of padding in v5. They mark fields that are not filled, which are zero.
RECORD7_FIELDS = [*RECORD5_FIELDS[:11], ("pad1", 1), *RECORD5_FIELDS[12:19], ("pad2", 2), ("router_sc", 4)]
RECORD1_FIELDS = [*RECORD5_FIELDS[:11], (None, 2), ("prot", 1), ("tos", 1), ("tcp_flags", 1), (None, 7)]
RECORD5_ADDRESSES = {"srcaddr", "dstaddr", "nexthop", "router_sc"}
RECORD5_TIMES = {"First", "Last"}

TEMPLATE_SET, OPTIONS_TEMPLATE_SET = 0, 1


def decode5(datagram: Datagram) -> Iterator[Flow]:
    """Decode v5: header of 24 bytes, records of 48. If the count exceeds the records present, these are
    decoded.
    """
    octets = Octets(datagram.payload)
    octets.take(2)  # version
    count, uptime = octets.u16(), octets.u32()
    seconds, nanoseconds = octets.u32(), octets.u32()
    datagram.sequence_number = octets.u32()
    engine_type, engine_id, sampling = octets.u8(), octets.u8(), octets.u16()
    datagram.exported = seconds * 1_000_000_000 + nanoseconds
    datagram.check_sequence(FLOWS, engine_type << 8 | engine_id, uptime, Content(count))
    present = octets.left // RECORD5_SIZE
    if present < count:
        datagram.exporter.counters["truncated_datagram"] += 1
    for _ in range(min(count, present)):
        flow = datagram.new_flow(Clock(datagram.exported, uptime))
        flow.give("netflow5:sampling_interval", Number(sampling & 0x3FFF))
        flow.give("netflow5:sampling_mode", Number(sampling >> 14))
        flow.give("netflow5:engine_type", Number(engine_type))
        flow.give("netflow5:engine_id", Number(engine_id))
        give_record(flow, octets, RECORD5_FIELDS)
        yield flow
    if present >= count:
        datagram.count_excess(octets)


def decode1(datagram: Datagram) -> Iterator[Flow]:
    """Decode v1: header of 16 bytes, without a sequence number. The datagram must have the length of its
    records.
    """
    octets = Octets(datagram.payload)
    octets.take(2)  # version
    count, uptime = octets.u16(), octets.u32()
    seconds, nanoseconds = octets.u32(), octets.u32()
    datagram.exported = seconds * 1_000_000_000 + nanoseconds
    size = octets.left // count
    for _ in range(count):
        flow = datagram.new_flow(Clock(datagram.exported, uptime))
        give_record(flow, Octets(octets.take(size)), RECORD1_FIELDS)
        yield flow


def decode7(datagram: Datagram) -> Iterator[Flow]:
    """Decode v7: header of 24 bytes, the last four reserved, and records of 52."""
    octets = Octets(datagram.payload)
    octets.take(2)  # version
    count, uptime = octets.u16(), octets.u32()
    seconds, nanoseconds = octets.u32(), octets.u32()
    datagram.sequence_number = octets.u32()
    octets.take(4)
    datagram.exported = seconds * 1_000_000_000 + nanoseconds
    datagram.check_sequence(FLOWS, 0, uptime, Content(count))
    for _ in range(count):
        flow = datagram.new_flow(Clock(datagram.exported, uptime))
        give_record(flow, octets, RECORD7_FIELDS)
        yield flow


def give_record(flow: Flow, octets: Octets, fields: Fields) -> None:
    numbers = {}
    for name, size in fields:
        field = octets.take(size)
        if name is None:
            continue
        numbers[name] = int.from_bytes(field, "big")
        if name in RECORD5_ADDRESSES:
            flow.give(f"netflow5:{name}", Address(field))
        elif name in RECORD5_TIMES:
            time = flow.clock.at_uptime(numbers[name])
            flow.give(f"netflow5:{name}", None if time is None else Time(time))
        else:
            flow.give(f"netflow5:{name}", Number(numbers[name]))
    flow.give("derived:etype", Number(IPV4_TYPE))
    give_icmp(flow, numbers["prot"], numbers["srcport"], numbers["dstport"])


def decode9(datagram: Datagram) -> Iterator[Flow]:
    """Decode v9: header of 20 bytes, then sets up to the end. The count of the header is ignored."""
    octets = Octets(datagram.payload)
    octets.take(4)  # version, count
    uptime, seconds = octets.u32(), octets.u32()
    datagram.sequence_number, datagram.domain_id = octets.u32(), octets.u32()
    datagram.exported = seconds * 1_000_000_000
    datagram.check_sequence(PACKETS, datagram.domain_id, uptime, Content(1))
    readers = {TEMPLATE_SET: (read_templates, False), OPTIONS_TEMPLATE_SET: (read_options_templates, True)}
    yield from read_sets(datagram, octets, Clock(datagram.exported, uptime), readers)


def read_templates(datagram: Datagram, content: Octets) -> Iterator[tuple[int, Template | None]]:
    """Yield templates: template id 2, field count 2, then type 2 and length 2 of each field."""
    while content.left >= 4 and not content.is_zero:
        template_id, count = content.u16(), content.u16()
        try:
            if template_id < FIRST_TEMPLATE_ID:
                raise Short
            fields = read_specifiers(content, count)
        except Short:
            datagram.exporter.counters["bad_template"] += 1
            return
        yield template_id, Template(fields)


def read_options_templates(datagram: Datagram, content: Octets) -> Iterator[tuple[int, Template | None]]:
    """Yield options templates: template id 2, scope length 2, option length 2, then both lists of specifiers.

    The lengths are those of the specifiers in bytes.
    """
    while content.left >= 4 and not content.is_zero:
        template_id = content.u16()
        try:
            scope_length, option_length = content.u16(), content.u16()
            if template_id < FIRST_TEMPLATE_ID or scope_length % 4 or option_length % 4:
                raise Short
            scopes = read_specifiers(content, scope_length // 4, scope=True)
            options = read_specifiers(content, option_length // 4)
        except Short:
            datagram.exporter.counters["bad_template"] += 1
            return
        yield template_id, Template(scopes + options, len(scopes))


def read_specifiers(content: Octets, count: int, scope: bool = False) -> tuple[FieldSpecifier, ...]:
    return tuple(FieldSpecifier(0, content.u16(), content.u16(), scope=scope) for _ in range(count))
