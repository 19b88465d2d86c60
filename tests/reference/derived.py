"""Values derived from the elements of a record (NetFlow v9, IPFIX) or the fields of one (NetFlow v5)."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from .packet import ICMP, ICMPV6, IPV4_TYPE, IPV6_TYPE
from .values import U64, Field, Flow, Number, Numbers, unsigned

PROTOCOL, SOURCE_PORT, DESTINATION_PORT = 4, 7, 11
ADDRESS_ETYPES = {8: IPV4_TYPE, 12: IPV4_TYPE, 27: IPV6_TYPE, 28: IPV6_TYPE}
IP_VERSION, ETHERNET_TYPE = 60, 256
ICMP_TYPE_CODES = (32, 139)
MPLS_SECTIONS = range(70, 80)
FRAGMENT_FLAGS = 197
JUNIPER, COMMON_PROPERTIES_ID = 2636, 137
FORWARDING_EXCEPTION = 2

SAMPLING_INTERVAL, SAMPLER_RANDOM_INTERVAL = 34, 50
SAMPLING_PACKET_INTERVAL, SAMPLING_PACKET_SPACE = 305, 306
SAMPLING_SIZE, SAMPLING_POPULATION = 309, 310
SAMPLING_PROBABILITY = 311
HASH_OUTPUT_MIN, HASH_OUTPUT_MAX, HASH_SELECTED_MIN, HASH_SELECTED_MAX = 329, 330, 331, 332
SAMPLER_ID, SELECTOR_ID = 48, 302
SELECTION_SEQUENCE_ID, SELECTOR_ALGORITHM = 301, 304
TIME_BASED_SAMPLING, PROPERTY_MATCH_FILTERING = 2, 5
RATES = {
    *(
        SAMPLING_INTERVAL,
        SAMPLER_RANDOM_INTERVAL,
        SAMPLING_PACKET_INTERVAL,
        SAMPLING_SIZE,
        SAMPLING_POPULATION,
    ),
    *(SAMPLING_PROBABILITY, HASH_OUTPUT_MAX),
}


def give_derived(flow: Flow, rate: int | None) -> None:
    """Add all values derived from elements. `rate` is the sampling rate of the flow."""
    if rate:
        flow.give("derived:sampling_rate", Number(rate))
    give_etype(flow)
    give_icmp(flow, flow.uint(PROTOCOL), flow.uint(SOURCE_PORT), flow.uint(DESTINATION_PORT))
    labels = mpls_labels(flow)
    if labels:
        flow.give("derived:mpls_labels", Numbers(labels))
    give_forwarding_status(flow)
    give_ip_flags(flow)


def give_ip_flags(flow: Flow) -> None:
    """Add the flags of fragmentFlags, a byte with bits numbered from the top.

    Bit 0 is reserved, 1 is don't fragment, 2 is more fragments. A number above a byte gives no flags.
    """
    flags = flow.uint(FRAGMENT_FLAGS)
    if flags is not None and flags <= 0xFF:
        flow.give("derived:ip_flags", Number(flags >> 5))


def give_etype(flow: Flow) -> None:
    """Add the family of the first address that is not zero, in record order; else ipVersion; else
    ethernetType.
    """
    for enterprise, element_id in flow.elements():
        if enterprise == 0 and element_id in ADDRESS_ETYPES:
            octets = flow.field(element_id) or b""
            mapped_zero = bytes(10) + b"\xff\xff" + bytes(4)
            if len(octets) in (4, 16) and any(octets) and octets != mapped_zero:
                flow.give("derived:etype", Number(ADDRESS_ETYPES[element_id]))
                return
    etype = {4: IPV4_TYPE, 6: IPV6_TYPE}.get(flow.uint(IP_VERSION) or 0) or flow.uint(ETHERNET_TYPE)
    if etype:
        flow.give("derived:etype", Number(etype))


def give_icmp(flow: Flow, proto: int | None, src_port: int | None, dst_port: int | None) -> None:
    """Add type and code of icmpTypeCode elements, zero included; else from the ports by Cisco's convention.

    In that convention the source port is 0, and the destination port is type << 8 | code. Some exporters put
    the ICMPv6 type alone into the port. A destination port below 256 is therefore used for ICMP only, where
    type 0 (echo reply) is common.
    """
    elements = [flow.uint(key[1]) for key in flow.elements() if key[0] == 0 and key[1] in ICMP_TYPE_CODES]
    given = [number for number in elements if number is not None]
    both = max(given, key=bool, default=None)  # the first that is not zero, else zero: an echo reply
    if both is None and proto in (ICMP, ICMPV6) and not src_port and dst_port is not None:
        both = dst_port if dst_port >= 256 or proto == ICMP else None
    if both is not None:
        flow.give("derived:icmp_type", Number(both >> 8))
        flow.give("derived:icmp_code", Number(both & 0xFF))


def mpls_labels(flow: Flow) -> list[int]:
    """Return the label stack of elements 70 to 79, from the top to the bottom of stack.

    RFC 3032: label 20 bits, EXP 3, S 1. Exporters fill the sections beyond the stack with zeros. Zeros at the
    end are therefore not labels; a zero before a label is one (explicit null). A section that is not 3 bytes
    is absent.
    """
    sections = [flow.field(element_id) for element_id in MPLS_SECTIONS]
    entries = [
        int.from_bytes(octets, "big") for octets in sections if octets is not None and len(octets) == 3
    ]
    while entries and entries[-1] == 0:
        entries.pop()
    labels = []
    for entry in entries:
        labels.append(entry >> 4)
        if entry & 1:
            break
    return labels


def give_forwarding_status(flow: Flow) -> None:
    """Add the forwarding status of Juniper's commonPropertiesId.

    Six bits identify the property; the rest is its value. The element occurs several times in a record, and
    every occurrence is read. Property 2, in 2 bytes, is the forwarding exception, where 0 means none.
    """
    for octets in flow.fields(COMMON_PROPERTIES_ID, JUNIPER):
        number = int.from_bytes(octets, "big")
        if len(octets) == 2 and number >> 10 == FORWARDING_EXCEPTION:
            flow.give("derived:forwarding_status", Number(128 if number & 0x3FF else 64))


def sampling_rate(flow: Flow) -> int | None:
    """Return the sampling rate in a record of data or options: packets per sampled packet. None if it has no
    rate.

    A rule that gives zero, or cannot be computed, is skipped.
    """
    rules = (rate_of_population, rate_of_interval, rate_of_probability)
    for rate in (
        *(rule(flow) for rule in rules),
        flow.uint(SAMPLING_INTERVAL),
        flow.uint(SAMPLER_RANDOM_INTERVAL),
        rate_of_hash(flow),
    ):
        if rate and rate < U64:
            return rate
    return None


def rate_of_population(flow: Flow) -> int | None:
    """Return the rate of n out of N (RFC 5476 section 6.5.2.3)."""
    size, population = flow.uint(SAMPLING_SIZE), flow.uint(SAMPLING_POPULATION)
    return population // size if size and population else None


def rate_of_interval(flow: Flow) -> int | None:
    """Return the rate of an interval and the space after it, 0 by default (RFC 5476 section 6.5.2.1)."""
    interval = flow.uint(SAMPLING_PACKET_INTERVAL)
    return (interval + (flow.uint(SAMPLING_PACKET_SPACE) or 0)) // interval if interval else None


def rate_of_probability(flow: Flow) -> int | None:
    """Return 1 / p for 0 < p <= 1, in float64, rounded to the nearest integer, half up (RFC 5476 section
    6.5.2.4).
    """
    octets = flow.field(SAMPLING_PROBABILITY) or b""
    if len(octets) not in (4, 8):
        return None
    probability = struct.unpack(">f" if len(octets) == 4 else ">d", octets)[0]
    if not 0 < probability <= 1:
        return None
    rate = 1 / probability
    return math.floor(Fraction(rate) + Fraction(1, 2)) if math.isfinite(rate) else None


def rate_of_hash(flow: Flow) -> int | None:
    """Return the size of the output range of a hash function, divided by that of the selected ranges.

    RFC 5476 section 6.5.2.6. Each range is a 332 with the 331 before it. A lower limit that is missing is 0.
    """
    if not any(key == (0, HASH_OUTPUT_MAX) for key in flow.elements()):
        return None
    first, last = flow.uint(HASH_OUTPUT_MIN) or 0, flow.uint(HASH_OUTPUT_MAX) or 0
    low = selected = 0
    for key, value in flow.given:
        if key not in ((0, HASH_SELECTED_MIN), (0, HASH_SELECTED_MAX)) or not isinstance(value, Field):
            continue
        number = unsigned(value.octets) or 0
        if key == (0, HASH_SELECTED_MIN):
            low = number
        elif first <= low <= number <= last:
            selected += number - low + 1
        else:
            return None
    return (last - first + 1) // selected if 0 < selected <= U64 else None


def selectors(flow: Flow) -> list[int]:
    """Return the selectors of a record, in its order."""
    ids = map(unsigned, flow.fields(SELECTOR_ID))
    return [number for number in ids if number is not None]
