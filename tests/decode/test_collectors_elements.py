"""flowbuf reads every element of NetFlow v9 and IPFIX that Akvorado and GoFlow2 read.

The tests use the numbers of the registry instead of the schema's sources, so that a wrong element name in
flow.toml fails. docs/reference/collectors.csv lists the elements that each collector reads.
"""

from __future__ import annotations

import csv
import struct
from pathlib import Path
from typing import Any

import pytest

from flowbuf.schema import elements
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
    options_template_set,
    tagged,
    tcp,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
)
from tests.support.decoding import (
    Decode,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    templates,
)

COLLECTORS = Path(__file__).parents[2] / "docs/reference/collectors.csv"

EXPORTED = 1_600_000_000  # s
STARTED = 1_599_000_000_000  # ms
UPTIME = EXPORTED * 1000 - STARTED
SIX, V4, V6 = uint(0x02005E10FF01, 6), ip("192.0.2.9"), ip("2001:db8::9")
MPLS = uint(16 << 4 | 1, 3)
FRAME = ethernet(ipv4(tcp(80, 443)))
NTP = u32(1_500_000_000 + 2_208_988_800) + u32(1 << 31)

# Element -> its bytes, and the values of all columns that they fill.
READ: dict[int, tuple[bytes, dict[str, Any]]] = {
    1: (u32(1500), {"bytes": 1500}),
    2: (u32(3), {"packets": 3}),
    4: (u8(6), {"proto": 6}),
    5: (u8(0xB8), {"ip_tos": 0xB8}),
    6: (u16(0x0112), {"tcp_flags": 0x0112}),
    7: (u16(443), {"src_port": 443}),
    8: (V4, {"src_addr": mapped("192.0.2.9"), "etype": 0x0800}),
    9: (u8(24), {"src_prefix_len": 24}),
    10: (u32(5), {"in_if": 5}),
    11: (u16(443), {"dst_port": 443}),
    12: (V4, {"dst_addr": mapped("192.0.2.9"), "etype": 0x0800}),
    13: (u8(24), {"dst_prefix_len": 24}),
    14: (u32(5), {"out_if": 5}),
    15: (V4, {"next_hop": mapped("192.0.2.9")}),
    16: (u32(4_200_000_000), {"src_as": 4_200_000_000}),
    17: (u32(4_200_000_000), {"dst_as": 4_200_000_000}),
    18: (V4, {"bgp_next_hop": mapped("192.0.2.9")}),
    21: (u32(5000), {"time_flow_end": STARTED + 5000}),
    22: (u32(5000), {"time_flow_start": STARTED + 5000}),
    23: (u32(1500), {"bytes": 1500}),
    24: (u32(3), {"packets": 3}),
    27: (V6, {"src_addr": V6, "etype": 0x86DD}),
    28: (V6, {"dst_addr": V6, "etype": 0x86DD}),
    29: (u8(48), {"src_prefix_len": 48}),
    30: (u8(48), {"dst_prefix_len": 48}),
    31: (u32(0xABCDE), {"ipv6_flow_label": 0xABCDE}),
    32: (u16(0x0301), {"icmp_type": 3, "icmp_code": 1}),
    34: (u32(512), {"sampling_rate": 512}),
    47: (V4, {"mpls_top_addr": mapped("192.0.2.9")}),
    48: (u8(7), {"sampler_id": 7}),
    50: (u8(100), {"sampling_rate": 100}),
    52: (u8(61), {"ip_ttl": 61}),
    54: (u32(41647), {"ip_fragment_id": 41647}),
    56: (SIX, {"src_mac": 0x02005E10FF01}),
    57: (SIX, {"dst_mac": 0x02005E10FF01}),
    58: (u16(100), {"src_vlan": 100, "vlan_id": 100}),
    59: (u16(100), {"dst_vlan": 100}),
    60: (u8(6), {"etype": 0x86DD, "ip_version": 6}),
    61: (u8(1), {"flow_direction": 2}),
    62: (V6, {"next_hop": V6}),
    63: (V6, {"bgp_next_hop": V6}),
    **{number: (MPLS, {"mpls_labels": [16]}) for number in range(70, 80)},
    80: (SIX, {"dst_mac": 0x02005E10FF01}),
    81: (SIX, {"src_mac": 0x02005E10FF01}),
    88: (u16(185), {"ip_fragment_offset": 185}),
    89: (u8(131), {"forwarding_status": 131}),
    138: (uint(1 << 40, 8), {"observation_point_id": 1 << 40}),
    139: (u16(0x8702), {"icmp_type": 135, "icmp_code": 2}),
    140: (V6, {"mpls_top_addr": V6}),
    150: (u32(1_500_000_000), {"time_flow_start": 1_500_000_000_000}),
    151: (u32(1_500_000_000), {"time_flow_end": 1_500_000_000_000}),
    152: (uint(1_500_000_000_123, 8), {"time_flow_start": 1_500_000_000_123}),
    153: (uint(1_500_000_000_123, 8), {"time_flow_end": 1_500_000_000_123}),
    154: (NTP, {"time_flow_start": 1_500_000_000_500}),
    155: (NTP, {"time_flow_end": 1_500_000_000_500}),
    156: (NTP, {"time_flow_start": 1_500_000_000_500}),
    157: (NTP, {"time_flow_end": 1_500_000_000_500}),
    158: (u32(2_500_000), {"time_flow_start": EXPORTED * 1000 - 2500}),
    159: (u32(2_500_000), {"time_flow_end": EXPORTED * 1000 - 2500}),
    176: (u8(3), {"icmp_type": 3}),
    177: (u8(1), {"icmp_code": 1}),
    178: (u8(135), {"icmp_type": 135}),
    179: (u8(2), {"icmp_code": 2}),
    192: (u8(61), {"ip_ttl": 61}),
    197: (u8(0x40), {"ip_flags": 2}),
    225: (V4, {"src_addr_nat": mapped("192.0.2.9")}),
    226: (V4, {"dst_addr_nat": mapped("192.0.2.9")}),
    227: (u16(1024), {"src_port_nat": 1024}),
    228: (u16(1024), {"dst_port_nat": 1024}),
    231: (u32(1500), {"bytes": 1500}),
    234: (u32(9), {"ingress_vrf_id": 9}),
    235: (u32(9), {"egress_vrf_id": 9}),
    243: (u16(100), {"src_vlan": 100, "vlan_id": 100}),
    252: (u32(5), {"in_if": 5}),
    253: (u32(5), {"out_if": 5}),
    254: (u16(100), {"dst_vlan": 100}),
    302: (u32(7), {"sampler_id": 7}),
    305: (u32(1), {"sampling_rate": 1}),
    312: (u16(1518), {"bytes": 1518, "frame_length": 1518}),
    315: (
        FRAME,
        {
            "src_addr": mapped("192.0.2.1"), "dst_addr": mapped("198.51.100.2"), "etype": 0x0800, "proto": 6,
            "src_port": 80, "dst_port": 443, "tcp_flags": 0x10, "bytes": 40, "packets": 1, "ip_ttl": 64,
            "src_mac": 0x020000000001, "dst_mac": 0x020000000002,
        },
    ),
}  # fmt: skip
# Elements that flowbuf reads, and neither of the collectors.
MORE: dict[int, tuple[bytes, dict[str, Any]]] = {
    38: (u8(1), {"engine_type": 1}),
    39: (u8(2), {"engine_id": 2}),
    35: (u8(2), {"sampling_mode": 2}),
    49: (u8(2), {"sampling_mode": 2}),
    55: (u8(0xB8), {"post_ip_tos": 0xB8}),
    82: (b"eth0", {"interface_name": "eth0"}),
    83: (b"uplink", {"interface_description": "uplink"}),
    85: (u32(1500), {"bytes": 1500}),
    86: (u32(3), {"packets": 3}),
    95: (u8(13) + u16(5), {"application_id": u8(13) + u16(5)}),
    96: (b"dns", {"application_name": "dns"}),
    128: (u32(64501), {"next_hop_as": 64501}),
    129: (u32(64502), {"src_peer_as": 64502}),
    136: (u8(3), {"flow_end_reason": 3}),
    148: (u32(99), {"flow_id": 99}),
    161: (u32(1500), {"flow_duration": 1500}),
    162: (u32(1_500_000), {"flow_duration": 1500}),
    171: (u32(1500), {"bytes": 1500}),
    172: (u32(3), {"packets": 3}),
    180: (u16(53), {"src_port": 53}),
    181: (u16(53), {"dst_port": 53}),
    182: (u16(53), {"src_port": 53}),
    183: (u16(53), {"dst_port": 53}),
    218: (u32(9), {}),  # tcpSynTotalCount does not count the flow's packets
    230: (u8(1), {"nat_event": 1}),
    239: (u8(2), {"biflow_direction": 2}),
    242: (u16(64), {"bytes": 64, "frame_length": 64}),
    245: (u16(7), {"inner_vlan_id": 7}),
    256: (u16(0x0806), {"etype": 0x0806}),
    281: (V6, {"src_addr_nat": V6}),
    282: (V6, {"dst_addr_nat": V6}),
    298: (u32(3), {"packets": 3}),
    311: (struct.pack(">d", 0.01), {"sampling_rate": 100}),
    322: (u32(1_500_000_000), {"time_flow_start": 1_500_000_000_000, "time_flow_end": 1_500_000_000_000}),
    323: (
        uint(1_500_000_000_123, 8),
        {"time_flow_start": 1_500_000_000_123, "time_flow_end": 1_500_000_000_123},
    ),
    324: (NTP, {"time_flow_start": 1_500_000_000_500, "time_flow_end": 1_500_000_000_500}),
    325: (NTP, {"time_flow_start": 1_500_000_000_500, "time_flow_end": 1_500_000_000_500}),
    352: (u32(1518), {"bytes": 1518}),
    498: (u8(2), {"ipv6_routing_header_seg_left": 2}),
}
SCHEMA = columns(*sorted({name for _, flow in (READ | MORE).values() for name in flow}))

# Elements that need others: a counter of the reverse direction, and the second part of a rate.
WITH_OTHERS = {232, 306}


def test_every_listed_element_has_a_case() -> None:
    rows = csv.DictReader(COLLECTORS.read_text(encoding="utf-8").splitlines())
    named = [row["source"].removeprefix("ipfix:") for row in rows if row["source"].startswith("ipfix:")]
    numbers = {element.id for element in map(elements.by_name, named) if element}
    assert len(numbers) == len(named) - 1  # Juniper's 2636/137 has its own test
    assert numbers == READ.keys() | WITH_OTHERS


def datagrams(protocol: str, field: Specifier, field_bytes: bytes) -> list[bytes]:
    if protocol == "netflow9":
        sets = [template_set9(template(256, field)), data_set(256, field_bytes)]
        return [netflow9(*sets, uptime=UPTIME % (1 << 32), seconds=EXPORTED)]
    options = options_template_set(options_template(300, [(149, 4)], [(160, 8)]))
    start = ipfix(options, data_set(300, u32(0) + uint(STARTED, 8)), export_time=EXPORTED)
    return [
        start,
        ipfix(template_set(template(256, field)), data_set(256, field_bytes), export_time=EXPORTED),
    ]


@both_decoders
@both_protocols
@pytest.mark.parametrize("number", [*READ, *MORE])
def test_an_element_fills_its_columns_and_no_others(decode: Decode, protocol: str, number: int) -> None:
    field_bytes, flow = (READ | MORE)[number]
    outcome = decode(*datagrams(protocol, (number, len(field_bytes)), field_bytes), schema=SCHEMA)
    assert outcome.flow == flow
    assert outcome.counters == {}


DROPPED = u16(0x08C3)  # Juniper's commonPropertiesId
TAGGED = ethernet(tagged(ipv4(), 77), 0x8100)
# Several elements of one column: fields, record, and the resulting flow.
SAME: list[tuple[list[Specifier], bytes, dict[str, Any]]] = [
    ([(10, 4), (252, 4)], u32(0) + u32(7), {"in_if": 7}),
    ([(252, 4), (10, 4)], u32(7) + u32(8), {"in_if": 8}),
    ([(14, 4), (253, 4)], u32(0) + u32(7), {"out_if": 7}),
    ([(8, 4), (27, 16)], bytes(4) + V6, {"src_addr": V6, "etype": 0x86DD}),
    ([(9, 1), (29, 1)], u8(0) + u8(48), {"src_prefix_len": 48}),
    ([(15, 4), (62, 16), (18, 4)], bytes(4) + V6 + V4, {"next_hop": V6, "bgp_next_hop": mapped("192.0.2.9")}),
    (
        [(15, 4), (18, 4)],
        V4 + bytes(4),
        {"next_hop": mapped("192.0.2.9")},
    ),  # an empty BGP next hop does not replace it
    ([(52, 1), (192, 1)], u8(3) + u8(9), {"ip_ttl": 9}),
    ([(56, 6), (81, 6)], bytes(6) + SIX, {"src_mac": 0x02005E10FF01}),
    ([(57, 6), (80, 6)], SIX + uint(1, 6), {"dst_mac": 0x02005E10FF01}),
    ([(58, 2), (243, 2)], u16(0) + u16(9), {"src_vlan": 9, "vlan_id": 9}),
    ([(58, 2), (243, 2)], u16(8) + u16(9), {"src_vlan": 8, "vlan_id": 8}),
    ([(225, 4), (281, 16)], bytes(4) + V6, {"src_addr_nat": V6}),
    ([(1, 4), (23, 4), (231, 4)], u32(0) + u32(5) + u32(6), {"bytes": 5}),
    ([(2, 4), (24, 4)], u32(7) + u32(9), {"packets": 7}),
    ([(60, 1), (27, 16)], u8(4) + V6, {"etype": 0x86DD, "ip_version": 4, "src_addr": V6}),
]


@both_decoders
@both_protocols
@pytest.mark.parametrize(("fields", "field_bytes", "flow"), SAME)
def test_one_of_several_elements_fills_a_column(
    decode: Decode, protocol: str, fields: list[Specifier], field_bytes: bytes, flow: dict[str, Any]
) -> None:
    sets = [templates(protocol, template(256, *fields)), data_set(256, field_bytes)]
    assert decode(message(protocol, *sets), schema=SCHEMA).flow == flow


@both_decoders
def test_elements_take_precedence_over_the_packet(decode: Decode) -> None:
    names = ("src_vlan", "dst_vlan", "vlan_id", "forwarding_status")
    fields: list[Specifier] = [(58, 2), (315, len(TAGGED)), (89, 1), (137, 2, 2636)]
    for status, expected in ((66, 66), (0, 128)):
        outcome = decode(ipfix_record(fields, u16(9) + TAGGED + u8(status) + DROPPED), schema=columns(*names))
        assert outcome.flow == {"src_vlan": 9, "dst_vlan": 77, "vlan_id": 9, "forwarding_status": expected}
