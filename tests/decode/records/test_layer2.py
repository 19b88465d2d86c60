"""Flows of frames: templates with MAC addresses, VLANs and counters of layer 2 only.

The elements are those of RFC 7133 and of IANA's registry (351, 352, 430).
"""

from __future__ import annotations

import pytest

from tests.support.datagrams import (
    Specifier,
    data_set,
    mac,
    netflow9,
    template,
    template_set9,
    u8,
    u16,
    u32,
    variable,
)
from tests.support.decoding import Decode, both_decoders, columns, ipfix_record

pytestmark = both_decoders

NAMES = [
    *("bytes", "packets", "etype", "src_mac", "dst_mac", "src_vlan", "dst_vlan", "vlan_id", "inner_vlan_id"),
    *("src_vlan_priority", "inner_vlan_priority", "layer2_segment_id", "src_addr", "proto"),
]
FRAME: list[Specifier] = [(56, 6), (80, 6), (256, 2)]
SOURCE, DESTINATION = mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02")
ENDS = {"src_mac": 0x020000000001, "dst_mac": 0x020000000002}
ARP = 0x0806


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_a_flow_of_frames_has_vlans_priorities_and_counters(decode: Decode) -> None:
    """dot1qVlanId 243, dot1qPriority 244, dot1qCustomerVlanId 245, dot1qCustomerPriority 246."""
    fields = [*FRAME, (243, 2), (244, 1), (245, 2), (246, 1), (352, 8), (2, 8)]
    record = SOURCE + DESTINATION + u16(ARP) + u16(100) + u8(5) + u16(200) + u8(3) + u64(6400) + u64(100)
    outcome = decode(ipfix_record(fields, record), schema=columns(*NAMES))
    assert outcome.flow == ENDS | {
        "bytes": 6400,
        "packets": 100,
        "etype": ARP,
        "src_vlan": 100,
        "vlan_id": 100,
        "inner_vlan_id": 200,
        "src_vlan_priority": 5,
        "inner_vlan_priority": 3,
    }
    assert outcome.counters == {}


@pytest.mark.parametrize(("octets", "frames"), [(352, 430), (353, 431), (417, 2), (420, 86)])
def test_bytes_and_packets_of_layer_2(decode: Decode, octets: int, frames: int) -> None:
    """layer2OctetDeltaCount counts the frame with its header and payload: layer 2 version of element 1."""
    fields = [*FRAME, (octets, 8), (frames, 8)]
    record = SOURCE + DESTINATION + u16(ARP) + u64(1 << 33) + u64(1 << 32)
    outcome = decode(ipfix_record(fields, record), schema=columns("bytes", "packets"))
    assert outcome.flow == {"bytes": 1 << 33, "packets": 1 << 32}


def test_bytes_from_the_ip_header_are_preferred(decode: Decode) -> None:
    for fields, numbers in (([(352, 4), (1, 4)], (1400, 1000)), ([(1, 4), (352, 4)], (1000, 1400))):
        record = u32(numbers[0]) + u32(numbers[1])
        assert decode(ipfix_record(fields, record), schema=columns("bytes")).flow == {"bytes": 1000}


def test_a_template_without_counters_gives_a_flow(decode: Decode) -> None:
    record = SOURCE + DESTINATION + u16(0x88CC)
    outcome = decode(ipfix_record(FRAME, record), schema=columns(*NAMES))
    assert outcome.flow == ENDS | {"etype": 0x88CC}


@pytest.mark.parametrize(("kind", "segment"), [(1, 0x0012D687), (2, 0x00FFFFFF), (0, 0)])
def test_segments_of_overlay_networks(decode: Decode, kind: int, segment: int) -> None:
    """layer2SegmentId 351: the type in the upper byte (1 VXLAN, 2 NVGRE), the VNI in the low 24 bits."""
    number = kind << 56 | segment
    outcome = decode(ipfix_record([(351, 8), (2, 4)], u64(number) + u32(1)), schema=columns(*NAMES))
    assert outcome.flow == ({"layer2_segment_id": number} if number else {}) | {"packets": 1}


def test_netflow9_has_macs_and_vlans_too(decode: Decode) -> None:
    """Elements 56, 80, 58, 59 and the counters 1 and 2 of NetFlow v9 (RFC 3954)."""
    fields: list[Specifier] = [(56, 6), (80, 6), (58, 2), (59, 2), (1, 4), (2, 4)]
    record = SOURCE + DESTINATION + u16(7) + u16(8) + u32(640) + u32(10)
    sets = template_set9(template(256, *fields)), data_set(256, record)
    outcome = decode(netflow9(*sets), schema=columns(*NAMES))
    expected = {"bytes": 640, "packets": 10, "src_vlan": 7, "vlan_id": 7, "dst_vlan": 8}
    assert outcome.flow == ENDS | expected


def test_the_frame_gives_what_the_record_lacks(decode: Decode) -> None:
    """dataLinkFrameSection 315 of a tagged frame, with its length in dataLinkFrameSize 312 (RFC 7133)."""
    frame = DESTINATION + SOURCE + u16(0x8100) + u16(100) + u16(ARP) + bytes(46)
    outcome = decode(
        ipfix_record([(312, 2), (315, 65535)], u16(64) + variable(frame)),
        schema=columns("bytes", "packets", "etype", "vlan_id"),
    )
    assert outcome.flow == {"bytes": 64, "packets": 1, "etype": ARP, "vlan_id": 100}
