"""Biflows, by RFC 5103: a record that describes both directions is two flows.

A reverse element (private enterprise 29305) describes the other direction with the element of the same id.
Firewalls use responderOctets (232) and responderPackets (299) for the same purpose; initiatorOctets (231) and
initiatorPackets (298) then describe the forward direction. Some enterprises have their own reverse elements.
The RFC leaves these points open:

- A reverse flow exists if one of its counters of bytes or packets is not zero.
- Values of the reverse direction are relative to it: reverseIngressInterface is the input interface of its
  packets.
- Ports (also with ICMP type and code), ICMP types, fragment flags, label stacks and sampled packets of the
  forward direction do not apply to the reverse direction.
"""

from __future__ import annotations

from flowbuf.schema import elements

from . import derived
from .values import SILENT, Clock, Element, Field, Flow, unsigned

REVERSE = 29305
RESPONDER = {232: 231, 299: 298}
REVERSE_BITS = {6871: 0x4000}  # enterprise -> bit in the id of its reverse elements (CERT: YAF)
COUNTERS = {
    element.id
    for element in elements.all()
    if element.semantics in ("deltaCounter", "totalCounter") and element.units in ("octets", "packets")
} - set(RESPONDER)
ONE_WAY = {7, 11, 32, 139, 197, 313, 315, *range(70, 80)}
# Derived sources of the reverse direction, with the reverse elements that they are derived from. A rate and
# an ethertype apply to both directions.
ICMP = (*derived.ICMP_TYPE_CODES, derived.DESTINATION_PORT)
CONCLUDED = {
    "derived:icmp_type": ICMP,
    "derived:icmp_code": ICMP,
    "derived:mpls_labels": derived.MPLS_SECTIONS,
    "derived:ip_flags": (derived.FRAGMENT_FLAGS,),
}
CONCLUDED_FOR_BOTH = ("derived:sampling_rate", "derived:etype")

Elements = list[tuple[Element, bytes]]


def split(fields: Elements) -> tuple[Elements, Elements]:
    """Split the elements of a record: those of the reverse direction, as their forward counterparts, and the
    rest.
    """
    own: Elements = []
    shared: Elements = []
    for (enterprise, element_id), octets in fields:
        if enterprise == REVERSE:
            own.append(((0, element_id), octets))
        elif enterprise == 0 and element_id in RESPONDER:
            own.append(((0, RESPONDER[element_id]), octets))
        elif element_id & REVERSE_BITS.get(enterprise, 0):
            own.append(((enterprise, element_id & ~REVERSE_BITS[enterprise]), octets))
        else:
            shared.append(((enterprise, element_id), octets))
    return own, shared


def has_flow(own: Elements) -> bool:
    return any(key[0] == 0 and key[1] in COUNTERS and unsigned(octets) for key, octets in own)


def flow_of(version: str, clock: Clock, fields: Elements) -> Flow:
    flow = Flow(version, clock)
    for key, octets in fields:
        flow.give(key, Field(octets))
    return flow


def telling(own: Elements, shared: Elements) -> Elements:
    """Return the elements from which values of the reverse direction are derived, its own elements first."""
    silent = {(0, element_id) for element_id in ONE_WAY} | {(derived.JUNIPER, derived.COMMON_PROPERTIES_ID)}
    return [*own, *(field for field in shared if field[0] not in silent)]


def complete(flow: Flow, own: Elements, shared: Elements, concluded: Flow) -> None:
    """Add all values to a reverse flow, which has only those of the datagram.

    `concluded` has the values derived from the elements that `telling` returns.
    """
    for key, octets in own:
        flow.give(key, Field(octets))
    for name, ids in CONCLUDED.items():
        if any((0, element_id) in flow.values for element_id in ids):
            flow.give(name, concluded.values.get(name, SILENT))
    flow.shared = flow_of(flow.version, flow.clock, shared)
    for name in CONCLUDED_FOR_BOTH:
        flow.shared.give(name, concluded.values.get(name))
