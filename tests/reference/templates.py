"""What the sets of NetFlow v9 (RFC 3954) and IPFIX (RFC 7011) have in common: templates, records, and what is learnt.

Readings that the specifications leave open:

- One to three octets after the last set, or after the last template of a set, are padding, in IPFIX too.
- An IPFIX options template without scope fields, which RFC 7011 section 3.4.2.2 forbids, is used as it is.
- A set that is cut short is read as far as it goes: what is cut in it (a template, a record of variable length) is
  counted besides the set.
- A record names a sampler by the first of elements 48 and 302 that is not zero; by 0 where one is there and none is
  not zero.
- Element 160 in an options record is taken note of in NetFlow v9 too, though nothing there is relative to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from . import derived
from .datagram import Datagram
from .octets import Octets, Short
from .packet import Packet, parse, parse_ip
from .values import Clock, Field, Flow

VARIABLE = 65535
SYSTEM_INIT_TIME = 160
IP_HEADER_PACKET_SECTION, DATA_LINK_FRAME_SECTION = 313, 315
FIRST_TEMPLATE_ID = 256


@dataclass(frozen=True)
class FieldSpecifier:
    """`scope` marks a NetFlow v9 scope field type, which is no element. IPFIX scope fields are elements."""

    enterprise: int
    id: int
    length: int
    variable: bool = False
    scope: bool = False

    @property
    def shortest(self) -> int:
        return 1 if self.variable else self.length


@dataclass(frozen=True)
class Template:
    fields: tuple[FieldSpecifier, ...]
    scope_count: int | None = None  # None: records of flows; a number: records of options

    @property
    def shortest(self) -> int:
        """Octets of the shortest record; 0 for a template that must not be used."""
        return sum(specifier.shortest for specifier in self.fields)


@dataclass
class Domain:
    """What one exporter has said in one observation domain (source id), in one version of the protocol."""

    templates: dict[int, Template] = field(default_factory=dict)
    samplers: dict[int, int] = field(default_factory=dict)
    started: int | None = None

    def define(self, template_id: int, template: Template, counters: Counter[str]) -> None:
        """Keep a template, unless its records would have no octets."""
        if template.shortest == 0:
            counters["empty_template"] += 1
            self.templates.pop(template_id, None)
            return
        known = self.templates.get(template_id)
        if known is not None and known != template:
            counters["template_redefined"] += 1
        self.templates[template_id] = template

    def learn(self, options: Flow, counters: Counter[str]) -> None:
        """From a record of options."""
        rate = derived.sampling_rate(options)
        started = system_start(options)
        if rate:
            self.samplers[named_sampler(options) or 0] = rate
        if started:
            self.started = started
        if not rate and not started:
            counters["options_ignored"] += 1

    def sampling_rate(self, record: Flow) -> int | None:
        """Of a flow: what its record says; else that of the sampler it names; else that of the only sampler."""
        rate = derived.sampling_rate(record)
        if rate:
            return rate
        sampler = named_sampler(record)
        if sampler is not None and sampler in self.samplers:
            return self.samplers[sampler]
        return next(iter(self.samplers.values())) if len(self.samplers) == 1 else None


def system_start(record: Flow) -> int | None:
    """systemInitTimeMilliseconds; one that nanoseconds in 64 bits cannot hold is none."""
    started = record.uint(SYSTEM_INIT_TIME)
    return None if started is None or started * 1_000_000 >= 1 << 64 else started


def named_sampler(record: Flow) -> int | None:
    ids = [
        record.uint(key[1]) for key in record.elements() if key in ((0, derived.SAMPLER_ID), (0, derived.SELECTOR_ID))
    ]
    present = [number for number in ids if number is not None]
    return next((number for number in present if number), 0 if present else None)


def split_sets(message: Octets, counters: Counter[str]) -> Iterator[tuple[int, Octets]]:
    """(set id, content) of each set: id 2, length 2 (of the set, these four octets included), content."""
    while message.left >= 4:
        set_id, length = message.u16(), message.u16()
        if length < 4:
            counters["bad_set_length"] += 1
            return
        if length - 4 > message.left:
            counters["bad_set_length"] += 1
        yield set_id, Octets(message.take_up_to(length - 4))


def read_records(
    template: Template, content: Octets, counters: Counter[str]
) -> Iterator[list[tuple[FieldSpecifier, bytes]]]:
    """The records of a data set; less than the shortest record is padding."""
    while content.left >= template.shortest:
        try:
            yield [(specifier, read_field(specifier, content)) for specifier in template.fields]
        except Short:
            counters["truncated_record"] += 1
            return


def read_field(specifier: FieldSpecifier, content: Octets) -> bytes:
    """RFC 7011 section 7: a field of variable length has its length before it, in one octet or in 255 and two."""
    length = specifier.length
    if specifier.variable:
        length = content.u8()
        if length == 255:
            length = content.u16()
    return content.take(length)


def give_elements(flow: Flow, fields: list[tuple[FieldSpecifier, bytes]]) -> None:
    """The elements of a record. Its own system start, where it has one, stands above the one that options told."""
    for specifier, octets in fields:
        if not specifier.scope:
            flow.give((specifier.enterprise, specifier.id), Field(octets))
    started = system_start(flow)
    if started:
        flow.clock = replace(flow.clock, started=started)


def read_data_set(
    datagram: Datagram, domain: Domain, template: Template, content: Octets, clock: Clock
) -> Iterator[Flow]:
    """The flows of a data set. A record of options is none: the domain learns from it."""
    counters = datagram.exporter.counters
    cut_records = counters["truncated_record"]
    for fields in read_records(template, content, counters):
        datagram.content.units += 1
        if template.scope_count is not None:
            datagram.content.options += 1
            options = Flow(datagram.version)
            give_elements(options, fields)
            domain.learn(options, counters)
            continue
        flow = datagram.new_flow(replace(clock, started=domain.started))
        give_elements(flow, fields)
        derived.give_derived(flow, domain.sampling_rate(flow))
        datagram.give_packet(flow, sampled_packet(flow))
        yield flow
    if counters["truncated_record"] != cut_records:
        datagram.content.complete = False


def sampled_packet(flow: Flow) -> Packet | None:
    """The packet inside a record: of a data link frame section, else of an IP header section; the first of either."""
    frame = flow.field(DATA_LINK_FRAME_SECTION)
    if frame:
        return parse(1, frame)
    section = flow.field(IP_HEADER_PACKET_SECTION)
    return parse_ip(section) if section else None
