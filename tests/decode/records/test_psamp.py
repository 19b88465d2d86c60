"""Packet reports of PSAMP: RFC 5476 and RFC 5477. Each record is one packet."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.datagrams import (
    Specifier,
    data_set,
    ethernet,
    ip,
    ipfix,
    ipv4,
    mapped,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    tcp,
    template,
    template_set,
    template_set9,
    u16,
    u32,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns, ipfix_record

pytestmark = both_decoders

NAMES = (
    *("bytes", "packets", "src_addr", "dst_addr", "src_port", "dst_port", "proto", "ip_ttl", "etype"),
    *("sampler_id", "selection_sequence_id", "digest_hash_value", "ip_section", "frame_section"),
    *("observation_point_id", "time_flow_start", "time_flow_end"),
)
# The first 12 bytes of an IPv4 header: 91 bytes, UDP, TTL 255.
SECTION = bytes.fromhex("4500005ba1740000ff11832e")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def report(decode: Decode, fields: list[Specifier], record: bytes) -> dict[str, Any]:
    return decode(ipfix_record(fields, record), schema=columns(*NAMES)).flow


def test_a_basic_packet_report(decode: Decode) -> None:
    """RFC 5476 figure D: selectionSequenceId 301, digestHashValue 326, dataLinkFrameSection 315 and a time.

    The figure gives observationTimeMicroseconds (324) a length of 4 in the template and of 8 in the record.
    """
    fields: list[Specifier] = [(301, 4), (326, 4), (315, 12), (324, 8)]
    time = u32(1_700_000_000 + 2_208_988_800) + u32(0)
    flow = report(decode, fields, u32(9) + u32(0x91230613) + SECTION + time)
    identity = {"selection_sequence_id": 9, "digest_hash_value": 0x91230613, "frame_section": SECTION}
    times = {"time_flow_start": 1_700_000_000_000, "time_flow_end": 1_700_000_000_000}
    assert flow.items() >= (identity | times).items()


def test_a_basic_packet_report_with_a_section_of_variable_length(decode: Decode) -> None:
    """RFC 5476 figure E: selectionSequenceId 301 and ipHeaderPacketSection 313."""
    flow = report(decode, [(301, 4), (313, 65535)], u32(9) + variable(SECTION))
    assert flow.items() >= {"selection_sequence_id": 9, "ip_section": SECTION}.items()


def test_an_extended_packet_report(decode: Decode) -> None:
    """RFC 5476 figure F: fields of the header, without the packet itself."""
    fields: list[Specifier] = [(301, 4), (8, 4), (12, 4), (190, 2), (182, 2), (183, 2)]
    record = u32(9) + ip("192.0.2.1") + ip("192.0.2.106") + u16(72) + u16(1372) + u16(80)
    assert report(decode, fields, record) == {
        "selection_sequence_id": 9,
        "src_addr": mapped("192.0.2.1"),
        "dst_addr": mapped("192.0.2.106"),
        "etype": 0x0800,
        "bytes": 72,
        "src_port": 1372,
        "dst_port": 80,
    }


@pytest.mark.parametrize("element", [190, 224])
def test_the_length_of_the_packet_is_its_bytes(decode: Decode, element: int) -> None:
    """totalLengthIPv4 190 and ipTotalLength 224. A counter of the flow is preferred."""
    assert report(decode, [(element, 2)], u16(72)) == {"bytes": 72}
    assert report(decode, [(element, 2), (1, 4)], u16(72) + u32(720)) == {"bytes": 720}


@pytest.mark.parametrize(
    ("element", "time"),
    [
        (322, u32(1_700_000_000)),
        (323, u64(1_700_000_000_000)),
        (324, u32(1_700_000_000 + 2_208_988_800) + u32(0)),
        (325, u32(1_700_000_000 + 2_208_988_800) + u32(0)),
    ],
)
def test_the_observation_time_is_the_time_of_the_packet(decode: Decode, element: int, time: bytes) -> None:
    """Elements 322 to 325 (RFC 5477): seconds, milliseconds, microseconds and nanoseconds."""
    times = {"time_flow_start": 1_700_000_000_000, "time_flow_end": 1_700_000_000_000}
    assert report(decode, [(element, len(time))], time) == times


def test_a_packet_gives_its_fields_and_its_bytes(decode: Decode) -> None:
    packet = ipv4(tcp(1372, 80), src="192.0.2.1", dst="192.0.2.106", ttl=9)
    fields: list[Specifier] = [(302, 8), (138, 8), (313, 65535)]
    flow = report(decode, fields, u64(5) + u64(7) + variable(packet))
    assert flow == {
        "sampler_id": 5,
        "observation_point_id": 7,
        "packets": 1,
        "bytes": len(packet),
        "src_addr": mapped("192.0.2.1"),
        "dst_addr": mapped("192.0.2.106"),
        "src_port": 1372,
        "dst_port": 80,
        "proto": 6,
        "ip_ttl": 9,
        "etype": 0x0800,
        "ip_section": packet,
    }


PACKET = ipv4(tcp(1372, 80), src="192.0.2.1", dst="192.0.2.106", ttl=9)
FRAME = ethernet(PACKET)


@pytest.mark.parametrize(
    ("fields", "record", "ports"),
    [
        ([(409, 2), (315, 65535)], u16(0) + variable(FRAME), (1372, 80)),
        ([(409, 2), (315, 65535)], u16(14) + variable(PACKET), None),
        ([(315, 65535), (409, 1)], variable(PACKET) + b"\x0e", None),
        ([(409, 2), (313, 65535)], u16(20) + variable(tcp(1372, 80)), None),
        # The first offset is that of the payload section 314, the second one that of the frame.
        (
            [(314, 4), (409, 2), (315, 65535), (409, 2)],
            bytes(4) + u16(20) + variable(FRAME) + u16(0),
            (1372, 80),
        ),
        ([(314, 4), (409, 2), (315, 65535), (409, 2)], bytes(4) + u16(0) + variable(PACKET) + u16(14), None),
        ([(314, 4), (409, 2), (315, 65535)], bytes(4) + u16(20) + variable(FRAME), (1372, 80)),
        # A section that can be parsed precedes a frame that cannot.
        ([(409, 2), (315, 65535), (313, 65535)], u16(6) + variable(FRAME[6:]) + variable(PACKET), (1372, 80)),
        ([(408, 2), (315, 65535)], u16(1) + variable(FRAME), (1372, 80)),
        ([(408, 2), (315, 65535)], u16(0) + variable(FRAME), (1372, 80)),
        ([(408, 2), (315, 65535)], u16(2) + variable(FRAME), None),
    ],
)
def test_only_a_section_that_begins_with_the_packet_is_parsed(
    decode: Decode, fields: list[Specifier], record: bytes, ports: tuple[int, int] | None
) -> None:
    """RFC 7133: sectionOffset 409, of the sections in their order, and dataLinkFrameType 408."""
    schema = columns("packets", "src_mac", "src_addr", "src_port", "dst_port", "etype")
    outcome = decode(ipfix_record(fields, record), schema=schema)
    if ports is None:
        assert (outcome.flow, outcome.counters) == ({"packets": 1}, {"unknown_header": 1})
    else:
        assert (outcome.flow["src_port"], outcome.flow["dst_port"]) == ports
        assert outcome.counters == {}


def test_zero_is_not_a_missing_identifier(decode: Decode) -> None:
    """A zero of the first source keeps later sources away; an empty section has no bytes."""
    assert report(decode, [(301, 8), (326, 8), (313, 65535)], bytes(16) + variable(b"")) == {}


@pytest.mark.parametrize(
    ("parameters", "values", "rate"),
    [
        ([(305, 1), (306, 1)], bytes([1, 1, 9]), 10),
        ([(309, 1), (310, 1)], bytes([3, 1, 10]), 10),
        ([(311, 4)], bytes([4]) + struct.pack(">f", 0.15), 7),
        ([], bytes([5]), 1),
        ([(329, 4), (330, 4), (331, 4), (332, 4)], bytes([6]) + u32(0) + u32(999) + u32(100) + u32(109), 100),
        ([(331, 8), (332, 8)], bytes([6]) + u64(1) + u64(0), None),
        ([(330, 8), (332, 8)], bytes([6]) + u64(2**64 - 1) + u64(2**64 - 1), 1),
        ([(330, 8), (332, 8)], bytes([6]) + u64(2**64 - 1) + u64(3), 2**62),
        ([(330, 8), (332, 8)], bytes([6]) + u64(2**64 - 1) + u64(0), None),
        ([(332, 8)], bytes([6]) + u64(0), None),
        (
            [(330, 4), *[(331, 4), (332, 4)] * 2],
            bytes([6]) + u32(99) + u32(0) + u32(9) + u32(20) + u32(29),
            5,
        ),
    ],
    ids=[
        *("systematic", "n out of N", "probabilistic", "property match", "hash"),
        *("an empty range", "all values", "a large part", "one value"),
        *("no output range", "two ranges"),
    ],
)
def test_the_description_of_a_selector_gives_the_rate(
    decode: Decode, parameters: list[Specifier], values: bytes, rate: int | None
) -> None:
    """RFC 5476 section 6.5.2: selectorId 302 has a selectorAlgorithm 304 and its parameters.

    The values of the first three are those of figures H, J and K.
    """
    options = options_template_set(options_template(263, [(302, 4)], [(304, 1), *parameters]))
    selector = data_set(263, u32(15) + values)
    packets = template_set(template(256, (302, 4), (326, 4))), data_set(256, u32(15) + u32(0xABCD))
    outcome = decode(ipfix(options, selector, *packets), schema=columns("sampling_rate", "digest_hash_value"))
    known = {"sampling_rate": rate} if rate else {}
    assert outcome.flow == {**known, "digest_hash_value": 0xABCD}


# Selection sequences. The one of RFC 5476 section 6.5.1 is a filter, then a sampler of 1 in 10.
SEQUENCES = options_template_set(options_template(264, [(301, 4)], [(10, 4), (302, 4), (302, 4)]))
SELECTORS = options_template_set(options_template(265, [(302, 4)], [(304, 1), (309, 4), (310, 4)]))
REPORTS = template_set(template(266, (301, 4), (326, 4)))
FILTER = data_set(265, u32(5) + bytes([5]) + u32(0) + u32(0))
SAMPLER = data_set(265, u32(10) + bytes([3]) + u32(1) + u32(10))
RATE = columns("sampling_rate", "selection_sequence_id")


def sequence(number: int, *selectors: int) -> bytes:
    return data_set(264, u32(number) + u32(1) + b"".join(map(u32, selectors)))


def rates(decode: Decode, *described: bytes, reports: bytes = u32(7) + u32(1)) -> list[int | None]:
    """Return the sampling rate of each report of sequence 7."""
    datagram = ipfix(SEQUENCES, SELECTORS, REPORTS, *described, data_set(266, reports))
    return [flow.get("sampling_rate") for flow in decode(datagram, schema=RATE).flows]


def test_the_rate_of_a_sequence_is_the_product_of_those_of_its_selectors(decode: Decode) -> None:
    """The descriptions may come in any order."""
    second = data_set(265, u32(11) + bytes([3]) + u32(1) + u32(8))
    assert rates(decode, FILTER, SAMPLER, sequence(7, 5, 10)) == [10]
    assert rates(decode, sequence(7, 5, 10), SAMPLER, FILTER) == [10]
    assert rates(decode, FILTER, SAMPLER, second, sequence(7, 11, 10)) == [80]


def test_each_report_has_the_rate_of_its_own_sequence(decode: Decode) -> None:
    reports = b"".join(u32(number) + u32(1) for number in (7, 8, 9, 7))
    described = (FILTER, SAMPLER, sequence(7, 5, 5), sequence(8, 10, 10))
    assert rates(decode, *described, reports=reports) == [1, 100, None, 1]


def test_a_sequence_with_an_unknown_selector_has_no_rate(decode: Decode) -> None:
    """The rate of the only known sampler would be too small."""
    assert rates(decode, SAMPLER, sequence(7, 10, 11)) == [None]


def test_a_report_of_an_unknown_sequence_has_the_only_known_rate(decode: Decode) -> None:
    assert rates(decode, SAMPLER, sequence(8, 10, 10)) == [10]
    assert rates(decode, SAMPLER, FILTER) == [None]


def test_a_sequence_may_be_redefined(decode: Decode) -> None:
    described = (FILTER, SAMPLER, sequence(7, 10, 10))
    assert rates(decode, *described, sequence(7, 5, 10)) == [10]


def test_a_sequence_of_too_many_selectors_is_counted(decode: Decode) -> None:
    """It has no rate, whether it was known before or not."""
    template_of_nine = options_template_set(options_template(267, [(301, 4)], [(302, 4)] * 9))
    record = data_set(267, u32(7) + u32(10) * 9)
    reports = REPORTS, data_set(266, u32(7) + u32(1))
    for before in (b"", SEQUENCES + sequence(7, 10, 10)):
        known = (SELECTORS, SAMPLER, before, template_of_nine, record)
        outcome = decode(ipfix(*known, *reports), schema=RATE)
        assert outcome.counters == {"template_limit": 1}
        assert outcome.flow == {"selection_sequence_id": 7}


def test_a_scope_of_netflow9_is_not_a_selector(decode: Decode) -> None:
    """Scope fields of NetFlow v9 have their own ids."""
    described = options_template_set9(options_template9(270, [(302, 4)], [(301, 4), (302, 4)]))
    samplers = options_template_set9(options_template9(271, [(1, 4)], [(302, 4), (34, 4)]))
    records = data_set(271, u32(0) + u32(10) + u32(20)), data_set(270, u32(10) + u32(7) + u32(10))
    reports = template_set9(template(272, (301, 4))), data_set(272, u32(7))
    outcome = decode(netflow9(described, samplers, *records, *reports), schema=RATE)
    assert outcome.flow == {"sampling_rate": 20, "selection_sequence_id": 7}


def test_a_selector_in_a_record_gives_way_to_its_sequence(decode: Decode) -> None:
    fields = template_set(template(268, (302, 4), (301, 4)))
    record = data_set(268, u32(10) + u32(7))
    described = SEQUENCES, SELECTORS, SAMPLER, sequence(7, 10, 10)
    outcome = decode(ipfix(*described, fields, record), schema=RATE)
    assert outcome.flow == {"sampling_rate": 100, "selection_sequence_id": 7}


def test_a_sequence_of_unusable_size_is_not_sequence_zero(decode: Decode) -> None:
    """A number has 1 to 8 bytes."""
    reports = template_set(template(269, (301, 9))), data_set(269, bytes(9))
    outcome = decode(ipfix(SEQUENCES, SELECTORS, SAMPLER, sequence(0, 10, 10), *reports), schema=RATE)
    assert outcome.flow == {"sampling_rate": 10}
