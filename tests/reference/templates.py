"""Common parts of NetFlow v9 (RFC 3954) and IPFIX (RFC 7011): sets, templates, records, options.

The specifications leave these points open:

- One to three bytes after the last template of a set are padding, in IPFIX too. So are zeros up to the end of
  a template set or of the message, in any number. Zeros after the last set are counted as padding. Other
  bytes there are a malformed set, even if they are too few for its header.
- An IPFIX options template without scope fields, which RFC 7011 section 3.4.2.2 forbids, is used as it is.
- A truncated set is read up to its end. A truncated template or record of variable length in it is counted in
  addition to the set.
- NetFlow v9 has no fields of variable length. A length of 65535, which fits no datagram, is read as in IPFIX.
- A record names a sampler by the first of elements 48 and 302 that is not zero. If all are zero, it names
  sampler 0. A description of a selector without a rate is one of a filter with the rate 1 if its algorithm is
  property match filtering.
- Element 160 in an options record is also used in NetFlow v9, though no element there is relative to it.
- Data before its template (RFC 3954 section 9, RFC 7011 section 8) waits; see early.py.
- A template belongs to an exporter, version, domain and id (RFC 7011 section 8). A UDP source port may repeat
  its definition of an id after another port defined that id differently. Several processes then share one
  address: from then on, each port has its own domain. Earlier definitions stay valid for a port, unless ports
  differed over the id and another port defined it last.
- A template that is empty, withdrawn (if withdrawals are obeyed) or expired is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from . import biflow, derived, early, options
from .datagram import Datagram
from .octets import Octets, Short
from .options import Names, Record
from .packet import SFLOW_ETHERNET, Packet, parse, parse_ip
from .sequence import Content
from .structured import Structure
from .values import SILENT, TIMES_END, U64, WRAP, Clock, Element, Field, Flow, Value

VARIABLE = 65535
SYSTEM_INIT_TIME = 160
IP_HEADER_PACKET_SECTION, DATA_LINK_FRAME_SECTION = 313, 315
PACKET_SECTIONS = range(313, 318)
DATA_LINK_FRAME_TYPE, SECTION_OFFSET = 408, 409
ETHERNET_FRAME = 1  # a bit of dataLinkFrameType
NO_PROTOCOL = 0  # a header_protocol of sFlow that is not parsed
FIRST_TEMPLATE_ID = 256
REPLACED_KEPT = 4
MAX_SELECTORS = 8


@dataclass(frozen=True)
class FieldSpecifier:
    """A field of a template. `scope` marks a NetFlow v9 scope field type, which is not an element.

    IPFIX scope fields are elements.
    """

    enterprise: int
    id: int
    length: int
    scope: bool = False

    @property
    def variable(self) -> bool:
        return self.length == VARIABLE

    @property
    def shortest(self) -> int:
        return 1 if self.variable else self.length


@dataclass(frozen=True)
class Template:
    fields: tuple[FieldSpecifier, ...]
    scope_count: int | None = None  # None for records of flows, a number for records of options

    @property
    def shortest(self) -> int:
        """Return the bytes of the shortest record; 0 for a template that must not be used."""
        return sum(specifier.shortest for specifier in self.fields)

    @property
    def is_of_options(self) -> bool:
        return self.scope_count is not None


@dataclass
class Definition:
    """The template of an id, with the port that defined it and the time.

    `replaced` has the replaced definitions of other ports as (port, template), the latest first. `contested`
    is set if there were any.
    """

    template: Template
    port: int
    received: int
    contested: bool = False
    replaced: list[tuple[int, Template]] = field(default_factory=list)


@dataclass
class Domain:
    """The state of one observation domain (source id) of an exporter, in one version of the protocol.

    After a split, each port has its own domain, which extends the `common` one.
    """

    definitions: dict[int, Definition] = field(default_factory=dict)
    samplers: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, list[int]] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    started: int | None = None
    split: bool = False
    common: Domain | None = None
    withdrawn: set[bool] = field(default_factory=set)
    """Kinds (of options or not) of which the port has withdrawn all. It ignores those of the common
    domain.
    """
    port: int | None = None

    def find(self, template_id: int) -> Definition | None:
        definition = self.definitions.get(template_id)
        return definition or self.find_common(template_id)

    def find_common(self, template_id: int) -> Definition | None:
        """Return a definition of the common domain that is also valid for this port."""
        definition = self.common.definitions.get(template_id) if self.common else None
        if definition is None or definition.template.is_of_options in self.withdrawn:
            return None
        return definition if not definition.contested or definition.port == self.port else None

    def forget(self, template_id: int) -> None:
        self.definitions.pop(template_id, None)
        if self.common and self.find_common(template_id):
            del self.common.definitions[template_id]

    def forget_all(self, of_options: bool) -> None:
        """Forget all templates of flows, or all of options. Other ports keep those of the common domain."""
        known = self.definitions.items()
        self.definitions = {key: value for key, value in known if value.template.is_of_options != of_options}
        if self.common:
            self.withdrawn.add(of_options)

    def find_fresh(self, template_id: int, datagram: Datagram) -> Template | None:
        """Return the template of a data set if it has not expired. Its age needs both times of reception."""
        definition, expiry = self.find(template_id), datagram.exporters.policy.template_expiry
        if definition is None:
            return None
        if expiry and definition.received and datagram.received - definition.received > expiry:
            datagram.exporter.counters["template_expired"] += 1
            self.forget(template_id)
            return None
        return definition.template

    def define(self, template_id: int, template: Template, datagram: Datagram) -> Domain:
        """Keep a template, unless its records would have no bytes. Return the domain that applies from then
        on.

        If the definition splits the domain, that is the domain of the port.
        """
        counters = datagram.exporter.counters
        if template.shortest == 0:
            counters["empty_template"] += 1
            self.forget(template_id)
            return self
        known = self.definitions.get(template_id)
        new = Definition(template, datagram.port, datagram.received)
        if known is not None:
            if known.template != template and (datagram.port, template) in known.replaced and not self.common:
                return self.split_by_port(datagram).define(template_id, template, datagram)
            new.contested, new.replaced = known.contested, known.replaced
            if known.template != template:
                counters["template_redefined"] += 1
                if known.port != datagram.port:
                    new.contested = True
                    new.replaced = [(known.port, known.template), *known.replaced][:REPLACED_KEPT]
        self.definitions[template_id] = new
        return self

    def split_by_port(self, datagram: Datagram) -> Domain:
        datagram.exporter.counters["port_in_key"] += 1
        self.split = True
        for waiting in datagram.exporters.waiting:
            if waiting.domain is self:
                waiting.domain = waiting.datagram.exporter.find_domain(waiting.datagram)
        return datagram.exporter.find_domain(datagram)

    def learn(self, record: Flow, counters: Counter[str]) -> bool:
        """Learn the sampling rate, the selection sequence and the system start in a record. Return False if
        it has none.
        """
        rate = derived.sampling_rate(record)
        started = system_start(record)
        sampler, selectors = named_sampler(record), derived.selectors(record)
        sequence = record.uint(derived.SELECTION_SEQUENCE_ID)
        algorithm = record.uint(derived.SELECTOR_ALGORITHM)
        if not rate and sampler is not None and algorithm == derived.PROPERTY_MATCH_FILTERING:
            rate = 1
        has_rates = any((0, element) in record.elements() for element in derived.RATES)
        describes_sampler = bool(sampler) and (has_rates or algorithm == derived.TIME_BASED_SAMPLING)
        if rate or describes_sampler:
            self.samplers[sampler or 0] = rate or 0
        if started:
            self.started = started
        describes_sequence = sequence is not None and bool(selectors)
        if sequence is not None and selectors:
            self.sequences[sequence] = selectors if len(selectors) <= MAX_SELECTORS else []
        counters["template_limit"] += describes_sequence and len(selectors) > MAX_SELECTORS
        return bool(rate or describes_sampler or started or describes_sequence)

    def find_names(
        self, keys: list[tuple[Element, bytes]], reverse: bool = False
    ) -> Iterator[tuple[str, Value | None]]:
        """Yield (source, name or None) of the ids in a record."""
        layers = [self.names, *([self.common.names] if self.common else [])]
        return options.find_names(layers, keys, reverse)

    def sampling_rate(self, record: Flow) -> int | None:
        """Return the sampling rate of a flow: of its record, else of the selection sequence it names, else of
        the sampler it names, else of the only sampler.
        """
        rate = derived.sampling_rate(record)
        if rate:
            return rate
        inherited = self.common.samplers if self.common else {}
        known = {**inherited, **self.samplers}
        sequences = {**(self.common.sequences if self.common else {}), **self.sequences}
        sequence = record.uint(derived.SELECTION_SEQUENCE_ID)
        if sequence in sequences:
            rates = [known.get(selector, 0) for selector in sequences[sequence]]
            return math.prod(rates) if rates and 0 < math.prod(rates) < U64 else None
        sampler = named_sampler(record)
        if sampler in known:
            return known[sampler] or None
        samplers = self.samplers or inherited
        return next(iter(samplers.values())) or None if len(samplers) == 1 else None

    def system_start(self) -> int | None:
        return self.started if self.started or not self.common else self.common.started


def system_start(record: Flow) -> int | None:
    """Return systemInitTimeMilliseconds, or None if the 49.7 days after it exceed the last time."""
    started = record.uint(SYSTEM_INIT_TIME)
    return None if started is None or (started + WRAP - 1) * 1_000_000 >= TIMES_END else started


def named_sampler(record: Flow) -> int | None:
    ids = [
        record.uint(key[1])
        for key in record.elements()
        if key in ((0, derived.SAMPLER_ID), (0, derived.SELECTOR_ID))
    ]
    present = [number for number in ids if number is not None]
    return next((number for number in present if number), 0 if present else None)


# Reads a template set: (template id, template) in turn; the template is None if it is withdrawn. An id below
# 256 withdraws all templates of a kind.
TemplateReader = Callable[[Datagram, Octets], Iterator[tuple[int, Template | None]]]


def read_sets(
    datagram: Datagram, message: Octets, clock: Clock, readers: dict[int, tuple[TemplateReader, bool]]
) -> Iterator[Flow]:
    """Read the sets of a message.

    `readers` has the readers of template sets by set id, with a flag for options.
    """
    counters = datagram.exporter.counters
    domain = datagram.exporter.find_domain(datagram)
    for set_id, content in split_sets(message, counters):
        if set_id in readers:
            read, of_options = readers[set_id]
            defined = []
            for template_id, template in read(datagram, content):
                if template is not None:
                    defined.append(template_id)
                    domain = domain.define(template_id, template, datagram)
                else:
                    withdraw(datagram, domain, template_id, of_options)
            for waiting in early.take(datagram.exporters, domain, defined):
                found = domain.find(waiting.set_id)
                assert found
                sent = replace(waiting.datagram, content=Content())  # its message has been counted without it
                yield from read_data_set(sent, domain, found.template, Octets(waiting.content), waiting.clock)
        elif set_id < FIRST_TEMPLATE_ID:
            counters["bad_set_id"] += 1
        else:
            known = domain.find_fresh(set_id, datagram)
            if known is not None:
                yield from read_data_set(datagram, domain, known, content, clock)
            else:
                early.wait(early.Waiting(datagram, domain, set_id, content.rest(), clock))
                datagram.content.complete = False


def withdraw(datagram: Datagram, domain: Domain, template_id: int, of_options: bool) -> None:
    datagram.exporter.counters["withdrawal"] += 1
    if not datagram.exporters.policy.obey_withdrawals:
        return
    definition = domain.find(template_id)
    if template_id < FIRST_TEMPLATE_ID:
        domain.forget_all(of_options)
    elif definition and definition.template.is_of_options == of_options:
        domain.forget(template_id)


def split_sets(message: Octets, counters: Counter[str]) -> Iterator[tuple[int, Octets]]:
    """Yield (set id, content) of each set: id 2, length 2 (these four bytes included), content."""
    while message.left:
        if message.is_zero:
            counters["padding"] += 1
            return
        if message.left < 4:
            counters["bad_set_length"] += 1
            return
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
    """Yield the records of a data set.

    A rest that is shorter than a record is padding if it is less than a word, or zeros.
    """
    while content.left >= template.shortest:
        try:
            yield [(specifier, read_field(specifier, content)) for specifier in template.fields]
        except Short:
            counters["truncated_record"] += 1
            return
    if content.left >= 4 and not content.is_zero:
        counters["truncated_record"] += 1


def read_field(specifier: FieldSpecifier, content: Octets) -> bytes:
    """Read a field. One of variable length (RFC 7011 section 7) has its length before it.

    The length has one byte, or 255 and two bytes.
    """
    length = specifier.length
    if specifier.variable:
        length = content.u8()
        if length == 255:
            length = content.u16()
    return content.take(length)


def give_elements(flow: Flow, fields: list[tuple[FieldSpecifier, bytes]]) -> None:
    """Add the elements of a record.

    A system start in the record takes precedence over the one in options.
    """
    for specifier, octets in fields:
        if not specifier.scope:
            flow.give((specifier.enterprise, specifier.id), Field(octets))
    started = system_start(flow)
    if started:
        flow.clock = replace(flow.clock, started=started)


def read_data_set(
    datagram: Datagram, domain: Domain, template: Template, content: Octets, clock: Clock
) -> Iterator[Flow]:
    """Yield the flows of a data set. Records of options give no flows; the domain learns from them."""
    counters = datagram.exporter.counters
    cut_records = counters["truncated_record"]
    if not template.is_of_options and "flows" not in datagram.taken:
        counters["flows_left_out"] += 1
    for fields in read_records(template, content, counters):
        datagram.content.units += 1
        if template.is_of_options:
            datagram.content.options += 1
            yield from read_options(datagram, domain, template, fields, clock)
            continue
        if "flows" not in datagram.taken:
            continue
        flow = datagram.new_flow(replace(clock, started=domain.system_start()))
        give_elements(flow, fields)
        if datagram.version == "ipfix":
            flow.structure = Structure(fields, partial(find_template, domain))
        derived.give_derived(flow, domain.sampling_rate(flow))
        for source, name in domain.find_names(elements_of(fields)):
            flow.give(source, name)
        taken = datagram.taken["flows"]
        options.give_others(flow, fields, taken, taken.opened(datagram.version))
        datagram.give_packet(flow, sampled_packet(flow, datagram.decapsulate))
        yield flow
        yield from read_reverse(datagram, domain, fields, flow.clock)
    if counters["truncated_record"] != cut_records:
        datagram.content.complete = False


def read_options(
    datagram: Datagram, domain: Domain, template: Template, fields: Record, clock: Clock
) -> Iterator[Flow]:
    """Learn from an options record, after its row."""
    if "options" in datagram.taken:
        row = datagram.new_flow(replace(clock, started=domain.system_start()))
        row.rows = "options"
        options.give_row(row, fields, template.scope_count or 0, datagram.taken["options"])
        yield row
    record = Flow(datagram.version)
    give_elements(record, fields)
    kept = domain.learn(record, datagram.exporter.counters)
    wanted = options.wanted_kinds(datagram.wanted.get("flows", ()))
    kept |= options.learn(domain.names, fields, wanted)
    if not kept and "options" not in datagram.taken:
        datagram.exporter.counters["options_ignored"] += 1


def elements_of(fields: Record) -> list[tuple[Element, bytes]]:
    return [((specifier.enterprise, specifier.id), octets) for specifier, octets in fields]


def find_template(domain: Domain, template_id: int) -> Template | None:
    definition = domain.find(template_id)
    return definition.template if definition else None


def read_reverse(datagram: Datagram, domain: Domain, fields: Record, clock: Clock) -> Iterator[Flow]:
    """Return the flow of the other direction if the record is a biflow and that flow exists."""
    own, shared = biflow.split(elements_of(fields))
    if not biflow.has_flow(own):
        return
    datagram.exporter.counters["biflow"] += 1
    telling = biflow.flow_of(datagram.version, clock, biflow.telling(own, shared))
    started = system_start(telling)
    if started:
        telling.clock = replace(clock, started=started)
    derived.give_derived(telling, domain.sampling_rate(telling))
    flow = datagram.new_flow(telling.clock)
    biflow.complete(flow, own, shared, telling)
    assert flow.shared
    for source, name in domain.find_names(own, reverse=True):
        flow.give(source, name or SILENT)
    for source, name in domain.find_names(shared, reverse=True):
        flow.shared.give(source, name)
    options.give_others(flow, fields, datagram.taken["flows"], reverse=True)
    datagram.give_packet(flow, sampled_packet(flow, datagram.decapsulate))
    yield flow


def sampled_packet(flow: Flow, decapsulate: Collection[str]) -> Packet | None:
    """Return the packet inside a record: the first data link frame section, else the first IP header
    section.

    A section that does not begin with the packet, or a frame that is not of Ethernet, is not parsed. A frame
    of type 0 is one of Ethernet.
    """
    frame, section = flow.field(DATA_LINK_FRAME_SECTION), flow.field(IP_HEADER_PACKET_SECTION)
    frame_type = flow.uint(DATA_LINK_FRAME_TYPE)
    is_ethernet = not frame_type or frame_type & ETHERNET_FRAME
    if frame and is_ethernet and not has_offset(flow, DATA_LINK_FRAME_SECTION):
        return parse(SFLOW_ETHERNET, frame, decapsulate)
    if section and not has_offset(flow, IP_HEADER_PACKET_SECTION):
        return parse_ip(section, decapsulate)
    unparsed = frame or section
    return parse(NO_PROTOCOL, unparsed, decapsulate) if unparsed else None


def has_offset(flow: Flow, element_id: int) -> bool:
    """Return True if the first section of this element begins after the start of the packet.

    RFC 7133: the first sectionOffset of a record applies to its first section, and so on.
    """
    ids = [key[1] for key, _ in flow.given if isinstance(key, tuple) and not key[0]]
    sections = [id for id in ids if id in PACKET_SECTIONS]
    offsets = flow.fields(SECTION_OFFSET)
    place = sections.index(element_id)
    return place < len(offsets) and any(offsets[place])
