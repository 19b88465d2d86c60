"""IPFIX, by RFC 7011."""

from __future__ import annotations

from collections.abc import Iterator

from .datagram import Datagram
from .octets import Octets, Short
from .sequence import RECORDS
from .templates import FIRST_TEMPLATE_ID, VARIABLE, Domain, FieldSpecifier, Template, read_data_set, split_sets
from .values import Clock, Flow

HEADER_SIZE = 16
TEMPLATE_SET, OPTIONS_TEMPLATE_SET = 2, 3
ENTERPRISE_BIT = 0x8000


def decode(datagram: Datagram) -> Iterator[Flow]:
    """Header of 16 octets, sets, to the length that the header gives; what comes after it is ignored."""
    octets = Octets(datagram.payload)
    octets.take(2)  # version
    length, export_time = octets.u16(), octets.u32()
    datagram.sequence_number, datagram.domain_id = octets.u32(), octets.u32()
    datagram.exported = export_time * 1_000_000_000
    exporter = datagram.exporter
    if length < HEADER_SIZE:
        exporter.counters["truncated_header"] += 1
        return
    if length > len(datagram.payload):
        exporter.counters["truncated_datagram"] += 1
    datagram.content.complete = length <= len(datagram.payload)
    message = Octets(octets.take_up_to(length - HEADER_SIZE))
    bad_sets = exporter.counters["bad_set_length"]
    domain = exporter.domains.setdefault(("ipfix", datagram.domain_id), Domain())
    clock = Clock(datagram.exported)
    for set_id, content in split_sets(message, exporter.counters):
        if set_id in (TEMPLATE_SET, OPTIONS_TEMPLATE_SET):
            read_templates(datagram, domain, content, set_id)
        elif set_id < FIRST_TEMPLATE_ID:
            exporter.counters["bad_set_id"] += 1
        elif set_id not in domain.templates:
            exporter.counters["template_missing"] += 1
            datagram.content.complete = False
        else:
            yield from read_data_set(datagram, domain, domain.templates[set_id], content, clock)
    if exporter.counters["bad_set_length"] != bad_sets:
        datagram.content.complete = False
    datagram.check_sequence(RECORDS, datagram.domain_id, export_time * 1000, datagram.content)


def read_templates(datagram: Datagram, domain: Domain, content: Octets, set_id: int) -> None:
    """Each: template id 2, field count 2, in an options template scope field count 2, then the field specifiers.

    A field count of 0 ends a withdrawal (section 8.1): of one template, or of all of a kind where the id is that of
    the set.
    """
    counters = datagram.exporter.counters
    while content.left >= 4:
        template_id, count = content.u16(), content.u16()
        if count == 0 and (template_id >= FIRST_TEMPLATE_ID or template_id == set_id):
            counters["withdrawal"] += 1
            continue
        try:
            if template_id < FIRST_TEMPLATE_ID:
                raise Short
            scope_count = content.u16() if set_id == OPTIONS_TEMPLATE_SET else None
            if scope_count is not None and scope_count > count:
                raise Short
            fields = tuple(read_specifier(content) for _ in range(count))
        except Short:
            counters["bad_template"] += 1
            return
        domain.define(template_id, Template(fields, scope_count), counters)


def read_specifier(content: Octets) -> FieldSpecifier:
    """Enterprise bit 1, element id 15, length 2, and the enterprise number 4 where the bit is set (section 3.2)."""
    number, length = content.u16(), content.u16()
    enterprise = content.u32() if number & ENTERPRISE_BIT else 0
    return FieldSpecifier(enterprise, number & ~ENTERPRISE_BIT, length, variable=length == VARIABLE)
