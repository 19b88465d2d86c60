"""IPFIX, by RFC 7011."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .datagram import Datagram
from .octets import Octets, Short
from .sequence import RECORDS
from .templates import FIRST_TEMPLATE_ID, FieldSpecifier, Template, read_sets
from .values import Clock, Flow

HEADER_SIZE = 16
TEMPLATE_SET, OPTIONS_TEMPLATE_SET = 2, 3
ENTERPRISE_BIT = 0x8000


def decode(datagram: Datagram) -> Iterator[Flow]:
    """Decode a message: header of 16 bytes, then sets, up to the length in the header."""
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
    datagram.count_excess(octets)
    bad_sets = exporter.counters["bad_set_length"]
    readers = {
        TEMPLATE_SET: (partial(read_templates, TEMPLATE_SET), False),
        OPTIONS_TEMPLATE_SET: (partial(read_templates, OPTIONS_TEMPLATE_SET), True),
    }
    yield from read_sets(datagram, message, Clock(datagram.exported), readers)
    if exporter.counters["bad_set_length"] != bad_sets:
        datagram.content.complete = False
    datagram.check_sequence(RECORDS, datagram.domain_id, export_time * 1000, datagram.content)


def read_templates(set_id: int, datagram: Datagram, content: Octets) -> Iterator[tuple[int, Template | None]]:
    """Yield templates: template id 2, field count 2, in an options template scope field count 2, field
    specifiers.

    A field count of 0 is a withdrawal (section 8.1) of one template. With the id of the set, it withdraws all
    templates of a kind.
    """
    while content.left >= 4 and not content.is_zero:
        template_id, count = content.u16(), content.u16()
        if count == 0 and (template_id >= FIRST_TEMPLATE_ID or template_id == set_id):
            yield template_id, None
            continue
        try:
            if template_id < FIRST_TEMPLATE_ID:
                raise Short
            scope_count = content.u16() if set_id == OPTIONS_TEMPLATE_SET else None
            if scope_count is not None and scope_count > count:
                raise Short
            fields = tuple(read_specifier(content) for _ in range(count))
        except Short:
            datagram.exporter.counters["bad_template"] += 1
            return
        yield template_id, Template(fields, scope_count)


def read_specifier(content: Octets) -> FieldSpecifier:
    """Read a field specifier (section 3.2): enterprise bit 1, element id 15, length 2.

    An enterprise number 4 follows if the bit is set.
    """
    number, length = content.u16(), content.u16()
    enterprise = content.u32() if number & ENTERPRISE_BIT else 0
    return FieldSpecifier(enterprise, number & ~ENTERPRISE_BIT, length)
