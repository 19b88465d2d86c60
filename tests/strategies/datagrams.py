"""Hypothesis strategies for sequences of valid and mutated datagrams.

A datagram is a pair of its payload and its source: `(payload, (address, port))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from flowbuf.schema import elements
from tests.strategies.basics import SOURCES, Sent, octets, seconds, sources, uints
from tests.strategies.packets import ethernet_frames, ip_headers, tunnelled_packets
from tests.strategies.schemas import OTHERS, READ
from tests.strategies.sflow import sflow_records, sflow_sequences, words
from tests.strategies.structures import DEEPEST, structures
from tests.support import datagrams as d

# Elements ---------------------------------------------------------------------------------------------------

SAMPLING = [34, 48, 50, 160, 302, 305, 306, 309, 310, 311]
DERIVING = [4, 7, 8, 11, 12, 27, 28, 32, 60, 139, 256, *range(70, 80)]
PACKETS = [313, 315]
LISTS = [484, 485, 490, 491, 496, 511, 512, 291]
STRUCTURES = [292, 293, 516]  # of records
# Reverse elements that columns, derived values and the existence of a reverse flow depend on.
REVERSED = [1, 2, 85, 6, 10, 21, 22, 32, 56, 58, 61, 70, 71, 152, 197, 313, 34]

NATURAL_SIZES = {
    "unsigned8": 1, "unsigned16": 2, "unsigned32": 4, "unsigned64": 8, "signed32": 4, "float64": 8,
    "boolean": 1, "macAddress": 6, "ipv4Address": 4, "ipv6Address": 16, "dateTimeSeconds": 4,
    "dateTimeMilliseconds": 8, "dateTimeMicroseconds": 8, "dateTimeNanoseconds": 8, "string": 8,
    "octetArray": 3,
}  # fmt: skip

# Values that trigger rules which random bytes do not trigger.
SPECIAL_NUMBERS = {
    4: [1, 6, 58], 7: [0], 11: [0, 5, 255, 256, 0x0801], 48: [0, 1, 2], 60: [0, 4, 5, 6], 61: [0, 1, 2],
    256: [0x0800, 0x0806],
    302: [0, 1, 2], 34: [0, 100], 50: [0, 7], 305: [0, 1, 10], 306: [0, 9, 999], 309: [0, 1, 3],
    310: [0, 256, 1000],
    160: [0, 1_600_000_000_000, 1_597_000_000_000, (1 << 64) // 10**6 - (1 << 32)],
    152: [1_600_000_000_123], 21: [0, 1000, 0xFFFFFFFF], 22: [0, 1000, 0xFFFFFFFF],
    1: [0, 1500], 2: [0, 1], 85: [0, 1500], 232: [0, 99], 299: [0, 1], 197: [0x20, 0x60, 0x4000],
    10: [0, 1, 2, 3], 14: [0, 1, 2, 3], 252: [0, 1, 2], 253: [0, 1, 2], 234: [0, 1, 2], 235: [0, 1, 2],
    95: [0, 1], 138: [0, 1], 8: [0, 1, 2],
    136: [0, 1, 5, 6], 276: [0, 1, 2, 3], 32: [0, 0x0301], 139: [0, 0x8700],
    **{section: [0, 1, 16 << 4, 16 << 4 | 1] for section in range(70, 80)},
}  # fmt: skip
SPECIAL_BYTES = {
    311: [
        bytes.fromhex("3f847ae147ae147b"),
        bytes.fromhex("3fd999999999999a"),
        bytes.fromhex("3f800000"),
        bytes(8),
    ],
    154: [bytes.fromhex("e2db9800000017ff"), bytes.fromhex("e2db98007df7a1ff")],
    27: [bytes(10) + b"\xff\xff" + bytes(4)],
    137: [b"\x08\x00", b"\x08\x01", b"\x0c\x01"],
}
# Bytes after the last set of a message.
TAILS = [b"", b"", b"", bytes(1), bytes(3), bytes(4), bytes(21), b"\1", b"\1\0\0"]
TEXTS = [b"", b"eth0\0\0\0", "Zürich".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"a\xe2\x82", b"\0\0"]


# Elements that are evaluated together.
SAMPLING_GROUPS: list[list[d.Specifier]] = [
    [(305, 4), (306, 4)],
    [(309, 4), (310, 4)],
    [(311, 8)],
    [(34, 4)],
    [(50, 2)],
]
GROUPS: list[list[d.Specifier]] = [
    *SAMPLING_GROUPS,
    [(48, 1)],
    [(302, 4)],
    [(4, 1), (7, 2), (11, 2)],
    [(70, 3), (71, 3), (72, 3)],
    [(21, 4), (22, 4)],
    [(27, 16), (8, 4)],
    [(154, 8), (157, 8)],
    [(231, 4), (232, 4), (299, 4)],
    [(10, 4), (14, 2)],
    [(252, 4), (10, 2), (253, 4), (14, 4)],
    [(234, 4), (235, 2), (138, 8)],
    [(95, 4), (96, 8)],
    [(8, 4), (302, 4)],
]
# Names in options records.
NAME_GROUPS: list[list[d.Specifier]] = [
    [(10, 4), (82, d.VARIABLE), (83, 8)],
    [(82, 8)],
    [(14, 2), (10, 4), (83, d.VARIABLE)],
    [(234, 4), (236, 8)],
    [(95, 4), (96, d.VARIABLE), (372, 8)],
    [(302, 4), (335, 8)],
    [(48, 1), (84, d.VARIABLE)],
    [(8, 4), (371, 8)],
    [(138, 8), (82, d.VARIABLE)],
]
REVERSE_GROUPS: list[list[d.Specifier]] = [
    [(1, 8), (2, 4), (1, 8, 29305), (2, 4, 29305)],
    [(10, 4), (14, 4), (6, 1), (2, 4, 29305), (6, 1, 29305), (10, 4, 29305)],
    [(4, 1), (7, 2), (11, 2), (32, 2), (85, 4, 29305), (32, 2, 29305)],
    [(70, 3), (56, 6), (80, 6), (1, 4, 29305), (70, 3, 29305), (56, 6, 29305)],
]


@dataclass(frozen=True)
class Layout:
    """The specifiers of a template.

    In an options template, the first `scopes` specifiers are scopes. In other templates, `scopes` is None.
    """

    fields: tuple[d.Specifier, ...]
    scopes: int | None = None


Known = dict[int, Layout]  # the layouts of templates
BIFLOWS = [(29305, number) for number in REVERSED]
YAF = [(6871, 14), (6871, 14 | 0x4000), (6871, 1 | 0x4000)]


@st.composite
def specifiers(draw: st.DrawFn, ids: list[int], ipfix: bool) -> d.Specifier:
    if ipfix and draw(st.integers(0, 9)) == 0:
        enterprise, number = draw(st.sampled_from([(9999, 1), (9999, 2), (2636, 137), *YAF, *BIFLOWS]))
        return number, draw(st.sampled_from([1, 2, 4, 8, 16, d.VARIABLE])), enterprise
    number = draw(st.sampled_from(ids))
    return number, draw(field_sizes(number))


@st.composite
def field_sizes(draw: st.DrawFn, number: int) -> int:
    """Draw the size of a field: mostly natural for its element, often reduced, sometimes wrong."""
    element = elements.by_id(number)
    natural = NATURAL_SIZES.get(element.data_type if element else "", 4)
    if number in PACKETS:
        return draw(st.sampled_from([d.VARIABLE, d.VARIABLE, 40, 64]))
    if number in LISTS + STRUCTURES:
        return draw(st.sampled_from([d.VARIABLE, d.VARIABLE, 21]))
    choice = draw(st.integers(0, 19))
    if choice == 0:
        return draw(st.sampled_from([0, 1, 3, 4, 9, 12, 16, 17]))
    if choice == 1:
        return d.VARIABLE
    if choice < 8 and natural <= 8:
        return draw(st.integers(1, 8))
    return natural


def resized(specifier: d.Specifier) -> d.Specifier:
    """Return the same element in a field of 2 bytes."""
    number, _, *enterprise = specifier
    return (number, 2, *enterprise)


@st.composite
def layouts(draw: st.DrawFn, ipfix: bool, options: bool) -> Layout:
    structures = [READ + 20 * STRUCTURES, [7, 8, 82, 160, 485] + 2 * STRUCTURES] if ipfix else []
    ids = draw(st.sampled_from([READ, READ + OTHERS, DERIVING, SAMPLING + READ, PACKETS + READ, *structures]))
    if not options:
        group = draw(st.just([]) | st.sampled_from(GROUPS + REVERSE_GROUPS if ipfix else GROUPS))
        fields = [*group, *draw(st.lists(specifiers(ids, ipfix), min_size=1, max_size=8))]
        again = draw(st.just([]) | st.lists(st.sampled_from(fields), max_size=4))
        return Layout(
            (*fields, *(draw(st.sampled_from([specifier, resized(specifier)])) for specifier in again))
        )
    scope_ids = [10, 48, 149, 302, 234, 95, 138] if ipfix else [1, 2, 3, 4, 5, 34]
    scopes = draw(st.lists(specifiers(scope_ids, ipfix=False), min_size=1, max_size=2))
    group = draw(st.just([]) | st.sampled_from(SAMPLING_GROUPS) | st.sampled_from(NAME_GROUPS))
    values = draw(st.lists(specifiers(SAMPLING + OTHERS, ipfix), max_size=4))
    return Layout((*scopes, *group, *values), len(scopes))


# Element -> natural size of a member.
MEMBERS: dict[d.Specifier, int] = {
    (483, 4): 4, (16, 4): 4, (489, 12): 12, (494, 16): 16, (8, 4): 4, (152, 8): 8, (154, 8): 8, (22, 4): 4,
    (161, 4): 4, (276, 1): 1, (434, 4): 4, (311, 8): 8, (82, 5): 5, (291, 5): 5, (56, 6): 6, (61, 1): 1,
    (1, 4, 9999): 4, (999, 2): 2,
}  # fmt: skip


@st.composite
def basic_lists(draw: st.DrawFn) -> bytes:
    """Draw lists with members of every kind. Some have wrong lengths, some are truncated."""
    element, size = draw(st.sampled_from(list(MEMBERS.items())))
    if draw(st.integers(0, 3)) == 0:
        size = draw(st.sampled_from([0, 1, 2, 3, 8, 9, d.VARIABLE]))
    lengths = st.sampled_from([0, 1, 4, 8, 254, 260]) if size == d.VARIABLE else st.just(size)
    members = draw(st.lists(lengths.flatmap(octets) | st.sampled_from(TEXTS), max_size=4))
    if size == d.VARIABLE:
        members = [d.variable(member, draw(st.booleans())) for member in members]
    else:
        members = [member[:size].ljust(size, b"\0") for member in members]
    content = d.basic_list(
        (element[0], size, *element[2:]), *members, semantic=draw(st.sampled_from([0, 3, 4, 255]))
    )
    return content[: draw(st.integers(0, len(content)))] if draw(st.integers(0, 5)) == 0 else content


@st.composite
def lists_of_lists(draw: st.DrawFn, known: Known, depth: int) -> bytes:
    """Draw a basicList whose members are lists."""
    number = draw(st.sampled_from([291, 292, 293]))
    member: d.Specifier = (number, d.VARIABLE)
    members = draw(st.lists(field_values(member, known, depth + 1), max_size=3))
    return d.basic_list(member, *members)


@st.composite
def field_values(draw: st.DrawFn, specifier: d.Specifier, known: Known, depth: int) -> bytes:
    """Draw the bytes of a field in a record. A field of variable length includes its length."""
    number, size = specifier[0], specifier[1]
    length = size if size != d.VARIABLE else draw(st.sampled_from([0, 1, 4, 8, 16, 254, 300]))
    if number in PACKETS:
        content = draw(ethernet_frames if number == 315 else ip_headers)
        if size != d.VARIABLE:
            content = content[:size].ljust(size, b"\0")
    elif number in LISTS:
        nested = number == 291 and depth < DEEPEST and draw(st.integers(0, 3)) == 0
        content = draw(lists_of_lists(known, depth) if nested else basic_lists())
        if size != d.VARIABLE:
            content = content[:size].ljust(size, b"\0")
    elif number in STRUCTURES and len(specifier) == 2:
        content = draw(structures(number == 293, known, depth, records))
        if size != d.VARIABLE:
            content = content[:size].ljust(size, b"\0")
    elif number in SPECIAL_BYTES and draw(st.booleans()):
        content = draw(st.sampled_from(SPECIAL_BYTES[number]))[:length].ljust(length, b"\0")
    elif number in SPECIAL_NUMBERS and 1 <= length <= 8 and draw(st.integers(0, 3)):
        content = (draw(st.sampled_from(SPECIAL_NUMBERS[number])) % (1 << 8 * length)).to_bytes(length, "big")
    elif draw(st.integers(0, 3)) == 0:
        content = draw(st.sampled_from(TEXTS))[:length].ljust(length, b"\0")
    else:
        content = draw(octets(length))
    return d.variable(content, draw(st.booleans())) if size == d.VARIABLE else content


@st.composite
def records(draw: st.DrawFn, layout: Layout, known: Known, depth: int = 0) -> bytes:
    return b"".join([draw(field_values(specifier, known, depth)) for specifier in layout.fields])


# NetFlow v9 and IPFIX ---------------------------------------------------------------------------------------

SET_KINDS = ["templates", "options", "data", "data", "data"]
TEMPLATE_IDS = [256, 257, 258, 65535]


@dataclass
class TemplateExporter:
    """An exporter that follows its own templates, in one version and domain."""

    ipfix: bool
    known: dict[int, Layout] = field(default_factory=dict)

    def templates(self, draw: st.DrawFn, options: bool) -> bytes:
        """Draw a template set with new, repeated and redefined templates. Some are empty or withdrawn."""
        parts = []
        for template_id in draw(st.lists(st.sampled_from(TEMPLATE_IDS), min_size=1, max_size=3)):
            kind = draw(st.integers(0, 19))
            if kind == 19:
                parts.append(self.empty_template(draw, template_id, options))
                continue
            known = self.known.get(template_id)
            if kind < 12 or known is None or (known.scopes is not None) != options:
                known = draw(layouts(self.ipfix, options))
            parts.append(self.template(template_id, known))
            if any(specifier[1] for specifier in known.fields):
                self.known[template_id] = known
        set_id = (2 if self.ipfix else 0) + options
        return d.any_set(set_id, *parts, padding=draw(st.integers(0, 3)))

    def template(self, template_id: int, layout: Layout) -> bytes:
        if layout.scopes is None:
            return d.template(template_id, *layout.fields)
        scopes, options = list(layout.fields[: layout.scopes]), list(layout.fields[layout.scopes :])
        return (d.options_template if self.ipfix else d.options_template9)(template_id, scopes, options)

    def empty_template(self, draw: st.DrawFn, template_id: int, options: bool) -> bytes:
        """Draw an empty template, or the withdrawal of one or all templates."""
        if not options:
            return draw(
                st.sampled_from(
                    [d.template(template_id), d.template(template_id, (1, 0)), *self.all_withdrawn(options)]
                )
            )
        if self.ipfix:
            return draw(st.sampled_from([d.template(template_id), *self.all_withdrawn(options)]))
        return d.options_template9(template_id, [(1, 0)], [(34, 0)])

    def all_withdrawn(self, options: bool) -> list[bytes]:
        return [d.withdrawal(2 + options)] if self.ipfix else []

    def data(self, draw: st.DrawFn) -> bytes:
        """Draw a data set. Sometimes its template is unknown."""
        template_id = draw(st.sampled_from([*self.known, *self.known, 400]))
        layout = self.known.get(template_id)
        if layout is None:
            return d.data_set(draw(st.sampled_from([template_id, *TEMPLATE_IDS])), draw(octets(12)))
        strategy = records(layout, self.known)
        content = draw(st.lists(strategy, max_size=4) | st.lists(strategy, min_size=1, max_size=4))
        shortest = sum(
            1 if size == d.VARIABLE else size for size in (specifier[1] for specifier in layout.fields)
        )
        return d.data_set(template_id, *content, padding=draw(st.integers(0, min(3, shortest - 1))))

    def sets(self, draw: st.DrawFn) -> list[bytes]:
        parts = []
        for kind in draw(st.lists(st.sampled_from(SET_KINDS), min_size=1, max_size=5)):
            if kind != "data" or not self.known:
                parts.append(self.templates(draw, options=kind == "options"))
            if kind == "data":
                parts.append(self.data(draw))
        return parts


@st.composite
def template_sequences(draw: st.DrawFn, ipfix: bool) -> list[Sent]:
    """Draw datagrams of several exporters and domains. Most data sets follow their template."""
    exporters: dict[tuple[str, int], TemplateExporter] = {}
    sequence = []
    for _ in range(draw(st.integers(1, 4))):
        source, domain = draw(sources), draw(st.sampled_from([0, 1, 0xFFFFFFFF]))
        exporter = exporters.setdefault((source[0], domain), TemplateExporter(ipfix))
        number, time = draw(uints(4)), draw(seconds)
        sets = [*exporter.sets(draw), draw(st.sampled_from(TAILS))]
        if ipfix:
            payload = d.ipfix(*sets, export_time=time, sequence=number, domain=domain)
        else:
            payload = d.netflow9(
                *sets, uptime=draw(uints(4)), seconds=time, sequence=number, source_id=domain
            )
        sequence.append((payload, source))
    return sequence


netflow9_sequences = template_sequences(ipfix=False)
ipfix_sequences = template_sequences(ipfix=True)


# Late, repeated and redefined templates of conflicting ports ------------------------------------------------

Received = tuple[bytes, tuple[str, int], int]

PLAIN_LAYOUTS = [
    Layout(((1, 4),)),
    Layout(((1, 4), (7, 2))),
    Layout(((2, 4), (48, 1))),
    Layout(((22, 4), (1, 2))),
]
OPTIONS_LAYOUTS = [
    Layout(((149, 4), (48, 1), (34, 4)), 1),
    Layout(((149, 4), (34, 4)), 1),
    Layout(((149, 4), (160, 8)), 1),
]
FEW_IDS = [256, 257, 258]
FEW_SOURCES = [("192.0.2.1", 1), ("192.0.2.1", 2), ("192.0.2.1", 3), ("192.0.2.2", 1)]


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw options of a decoder. The limits are so small that a few data sets reach them."""
    return {
        "early_data_limit": draw(st.sampled_from([4 << 20, 200, 450, 900])),
        "early_data_total": draw(st.sampled_from([128 << 20, 450, 1300])),
        "template_expiry": draw(st.sampled_from([0, 0, 5])),
        "obey_withdrawals": draw(st.booleans()),
    }


@st.composite
def living_templates(draw: st.DrawFn, ipfix: bool) -> list[Received]:
    """Draw datagrams of three ports of one exporter, and of another exporter.

    Most ports define the same few ids differently, and send their data with or without a definition.
    """
    layouts = [*PLAIN_LAYOUTS, *OPTIONS_LAYOUTS]
    definitions = {
        (source, template_id): draw(st.sampled_from(layouts))
        for source in FEW_SOURCES
        for template_id in FEW_IDS
    }
    sequence, time = [], 1
    for number in range(draw(st.integers(2, 12))):
        source, sets = draw(st.sampled_from(FEW_SOURCES)), []
        exporter = TemplateExporter(ipfix)
        for _ in range(draw(st.integers(1, 3))):
            template_id = draw(st.sampled_from(FEW_IDS))
            layout = definitions[source, template_id]
            kind = draw(st.integers(0, 9))
            if kind == 9:
                definitions[source, template_id] = layout = draw(st.sampled_from(layouts))
            options = layout.scopes is not None
            if kind == 8:
                empty_template = exporter.empty_template(draw, template_id, options)
                sets.append(d.any_set((2 if ipfix else 0) + options, empty_template))
            elif kind >= 5:
                sets.append(d.any_set((2 if ipfix else 0) + options, exporter.template(template_id, layout)))
            else:
                content = draw(st.lists(records(layout, {}), max_size=2))
                sets.append(d.data_set(template_id, *content))
        time = max(0, time + draw(st.sampled_from([0, 1, 1, 2, 6, -1, -100])))
        if ipfix:
            payload = d.ipfix(*sets, export_time=1000 + number, sequence=number)
        else:
            payload = d.netflow9(*sets, uptime=7 * number, seconds=1000 + number, sequence=number)
        sequence.append((payload, source, time))
    return sequence


# NetFlow v5 -------------------------------------------------------------------------------------------------

records5 = st.binary(min_size=48, max_size=48) | st.builds(
    d.record5,
    src=st.sampled_from(["10.0.0.1", "0.0.0.0"]),
    in_if=uints(2),
    packets=uints(4),
    octets=uints(4),
    first=uints(4),
    last=uints(4),
    src_port=st.sampled_from([0, 80]),
    dst_port=st.sampled_from([0, 5, 0x0301]),
    proto=st.sampled_from([1, 6, 58]),
    src_as=uints(2),
    src_mask=st.integers(0, 255),
)


@st.composite
def netflow5_datagrams(draw: st.DrawFn) -> Sent:
    header = {"uptime": 4, "nanoseconds": 4, "sequence": 4, "engine_type": 1, "engine_id": 1, "sampling": 2}
    numbers = {name: draw(uints(size)) for name, size in header.items()}
    content = draw(st.lists(records5, max_size=4))
    return d.netflow5(*content, seconds=draw(seconds), **numbers), draw(sources)


@st.composite
def netflow1_datagrams(draw: st.DrawFn) -> Sent:
    numbers = {name: draw(uints(4)) for name in ("uptime", "nanoseconds")}
    size = draw(st.sampled_from([48, 52]))
    content = draw(st.lists(octets(size), min_size=1, max_size=4))
    return d.netflow1(*content, seconds=draw(seconds), **numbers), draw(sources)


@st.composite
def netflow7_datagrams(draw: st.DrawFn) -> Sent:
    numbers = {name: draw(uints(4)) for name in ("uptime", "nanoseconds", "sequence")}
    content = draw(st.lists(octets(52), min_size=1, max_size=4))
    return d.netflow7(*content, seconds=draw(seconds), **numbers), draw(sources)


netflow1_sequences = st.lists(netflow1_datagrams(), min_size=1, max_size=3)
netflow5_sequences = st.lists(netflow5_datagrams(), min_size=1, max_size=3)
netflow7_sequences = st.lists(netflow7_datagrams(), min_size=1, max_size=3)

# Sequences of all protocols ---------------------------------------------------------------------------------

VALID = {
    "netflow1": netflow1_sequences,
    "netflow5": netflow5_sequences,
    "netflow7": netflow7_sequences,
    "netflow9": netflow9_sequences,
    "ipfix": ipfix_sequences,
    "sflow": sflow_sequences,
}
sampled_packet_sequences = st.lists(sflow_records[0], min_size=1, max_size=8).map(
    lambda headers: [(d.sflow(*map(d.flow_sample, headers)), SOURCES[0])]
)
valid_sequences = st.one_of(*VALID.values())


@st.composite
def tunnelled_sequences(draw: st.DrawFn) -> list[Sent]:
    """Draw packets with tunnels, in sFlow and in elements 313 and 315.

    In sFlow, records of the outer packet are next to them.
    """
    samples, record = [], b""
    for packet, protocol in draw(st.lists(tunnelled_packets, min_size=1, max_size=4)):
        others = draw(st.sampled_from([[], [], [1], [2], [3], [1, 2], [3, 1]]))
        records = [draw(sflow_records[index]) for index in others]
        samples.append(d.flow_sample(d.sampled_header(packet, protocol, draw(words)), *records))
        if protocol == 1:
            record += d.variable(packet) + d.variable(b"")
        else:
            record += d.variable(b"") + d.variable(packet)
    template = d.template_set(d.template(256, (315, d.VARIABLE), (313, d.VARIABLE)))
    return [(d.sflow(*samples), SOURCES[0]), (d.ipfix(template, d.data_set(256, record)), SOURCES[0])]


@st.composite
def mixed_sequences(draw: st.DrawFn) -> list[Sent]:
    """Draw several valid sequences, one after the other."""
    return [sent for part in draw(st.lists(valid_sequences, min_size=2, max_size=3)) for sent in part]


# Mutations --------------------------------------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn, payload: bytes, other: bytes) -> bytes:
    """Draw a datagram with one mutation.

    It is truncated, has changed, removed, duplicated or added bytes, or has the end of another datagram.
    """
    place = draw(st.integers(0, len(payload)))
    end = draw(st.integers(place, min(len(payload), place + 16)))
    mutations: list[Callable[[], bytes]] = [
        lambda: payload[:place],
        lambda: payload[:place] + draw(st.binary(max_size=4)) + payload[end:],
        lambda: payload[:place] + draw(octets(end - place)) + payload[end:],
        lambda: payload[:place] + draw(octets(min(2, end - place))) + payload[place + min(2, end - place) :],
        lambda: payload[:end] + payload[place:],
        lambda: payload[:place] + other[draw(st.integers(0, len(other))) :],
        lambda: payload + draw(st.binary(max_size=8)),
    ]
    return draw(st.sampled_from(mutations))()


@st.composite
def mutated_sequences(
    draw: st.DrawFn, sequences: st.SearchStrategy[list[Sent]] = valid_sequences
) -> list[Sent]:
    """Draw a valid sequence with at least one mutated datagram."""
    sequence = list(draw(sequences))
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(sequence) - 1))
        payload, source = sequence[index]
        sequence[index] = (draw(mutated(payload, draw(st.sampled_from(sequence))[0])), source)
    return sequence
