"""Packet reports of PSAMP: RFC 5476 and RFC 5477. Each record is one packet."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.datagrams import (
    Specifier,
    data_set,
    ip,
    ipfix,
    ipv4,
    mapped,
    options_template,
    options_template_set,
    tcp,
    template,
    template_set,
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


def test_zero_is_not_a_missing_identifier(decode: Decode) -> None:
    """A zero of the first source keeps later sources away; an empty section has no bytes."""
    assert report(decode, [(301, 8), (326, 8), (313, 65535)], bytes(16) + variable(b"")) == {}


@pytest.mark.parametrize(
    ("parameters", "values", "rate"),
    [
        ([(305, 1), (306, 1)], bytes([1, 1, 9]), 10),
        ([(309, 1), (310, 1)], bytes([3, 1, 10]), 10),
        ([(311, 4)], bytes([4]) + struct.pack(">f", 0.15), 7),
    ],
    ids=["systematic", "n out of N", "probabilistic"],
)
def test_the_description_of_a_selector_gives_the_rate(
    decode: Decode, parameters: list[Specifier], values: bytes, rate: int
) -> None:
    """RFC 5476 figures H, J and K: selectorId 302 has a selectorAlgorithm 304 and its parameters."""
    options = options_template_set(options_template(263, [(302, 4)], [(304, 1), *parameters]))
    selector = data_set(263, u32(15) + values)
    packets = template_set(template(256, (302, 4), (326, 4))), data_set(256, u32(15) + u32(0xABCD))
    outcome = decode(ipfix(options, selector, *packets), schema=columns("sampling_rate", "digest_hash_value"))
    assert outcome.flow == {"sampling_rate": rate, "digest_hash_value": 0xABCD}
