"""Bidirectional records (RFC 5103) become two flows.

Several elements can supply the counters and flags of a flow.
"""

from __future__ import annotations

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
    mac,
    mapped,
    netflow9,
    options_template,
    options_template_set,
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
    FLOW,
    Decode,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    short_id,
    templates,
)

REVERSE = 29305
ENDPOINTS: list[Specifier] = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1)]
THERE = ip("10.0.0.1") + ip("10.0.0.2") + u16(40000) + u16(443) + u8(6)
FORWARD = {"src_addr": "10.0.0.1", "dst_addr": "10.0.0.2", "src_port": 40000, "dst_port": 443, "proto": 6}
BACKWARD = {"src_addr": "10.0.0.2", "dst_addr": "10.0.0.1", "src_port": 443, "dst_port": 40000, "proto": 6}
USUAL = ("src_addr", "dst_addr", "src_port", "dst_port", "proto", "bytes", "packets")


def with_addresses(flow: dict[str, Any]) -> dict[str, Any]:
    return {name: mapped(value) if isinstance(value, str) else value for name, value in flow.items()}


@both_decoders
def test_a_biflow_becomes_a_forward_and_a_reverse_flow(decode: Decode) -> None:
    fields = [*ENDPOINTS, (1, 8), (2, 4), (1, 8, REVERSE), (2, 4, REVERSE)]
    records = [
        THERE + uint(bytes_, 8) + u32(28) + uint(back, 8) + u32(back // 60)
        for bytes_, back in ((21673, 1546), (60, 0))
    ]
    outcome = decode(
        ipfix(template_set(template(256, *fields)), data_set(256, *records)), schema=columns(*USUAL)
    )
    assert outcome.flows == [
        with_addresses(FORWARD | {"bytes": 21673, "packets": 28}),
        with_addresses(BACKWARD | {"bytes": 1546, "packets": 25}),
        with_addresses(FORWARD | {"bytes": 60, "packets": 28}),
    ]
    assert outcome.counters == {"biflow": 1}


@both_decoders
@both_protocols
def test_initiator_and_responder_counters_make_a_biflow(decode: Decode, protocol: str) -> None:
    fields = [*ENDPOINTS, (231, 4), (232, 4), (298, 4), (299, 4)]
    counts = [(100, 900, 2, 7), (100, 0, 2, 0), (0, 900, 0, 0), (0, 0, 0, 0)]
    records = [THERE + b"".join(map(u32, each)) for each in counts]
    sets = [templates(protocol, template(256, *fields)), data_set(256, *records)]
    outcome = decode(message(protocol, *sets), schema=columns(*USUAL))
    assert outcome.flows == [
        with_addresses(FORWARD | {"bytes": 100, "packets": 2}),
        with_addresses(BACKWARD | {"bytes": 900, "packets": 7}),
        with_addresses(FORWARD | {"bytes": 100, "packets": 2}),
        with_addresses(
            FORWARD
        ),  # only the responder sent: a forward flow without bytes, and the reverse flow
        with_addresses(BACKWARD | {"bytes": 900}),
        with_addresses(FORWARD),  # a connection that was created, closed or denied without a packet
    ]
    assert outcome.counters == {"biflow": 2}


YAF: list[Specifier] = [(1, 4), (14, 1, 6871), (1, 4, REVERSE), (14 | 0x4000, 1, 6871), (15, 1, 6871)]


@both_decoders
def test_reverse_elements_of_an_enterprise_fill_its_columns(decode: Decode) -> None:
    """In YAF, initialTCPFlags is 6871/14, and reverseInitialTCPFlags is 6871/16398."""
    schema = columns("bytes").add("initial_flags", 1000, "uint8", ["ipfix:6871/14"])
    schema = schema.add("one_way_flags", 1001, "uint8", ["ipfix:6871/14"], one_way=True)
    schema = schema.add("shared_flags", 1002, "uint8", ["ipfix:6871/15"])
    record = u32(700) + u8(2) + u32(900) + u8(18) + u8(27)
    outcome = decode(ipfix_record(YAF, record), schema=schema)
    assert outcome.flows == [
        {"bytes": 700, "initial_flags": 2, "one_way_flags": 2, "shared_flags": 27},
        {"bytes": 900, "initial_flags": 18, "one_way_flags": 18, "shared_flags": 27},
    ]
    assert outcome.counters == {"biflow": 1}
    # A zero of the reverse direction does not take the forward value.
    assert decode(ipfix_record(YAF, record[:9] + u8(0) + u8(27)), schema=schema).flows[1] == {
        "bytes": 900,
        "shared_flags": 27,
    }


@both_decoders
def test_reverse_enterprise_elements_may_fill_a_mirror_column(decode: Decode) -> None:
    """The schema may map reverse elements to a mirror column. Other enterprises have no such rule."""
    mirror = {"name": "reverse_flags", "number": 1001, "sources": ["ipfix:6871/16398"]}
    schema = columns("bytes").add("initial_flags", 1000, "uint8", ["ipfix:6871/14"], mirror=mirror)
    schema = schema.add("other", 1002, "uint8", ["ipfix:6872/14"])
    fields: list[Specifier] = [*YAF, (14, 1, 6872), (14 | 0x4000, 1, 6872)]
    record = u32(700) + u8(2) + u32(900) + u8(18) + u8(27) + u8(3) + u8(4)
    assert decode(ipfix_record(fields, record), schema=schema).flows == [
        {"bytes": 700, "initial_flags": 2, "reverse_flags": 18, "other": 3},
        {"bytes": 900, "initial_flags": 18, "reverse_flags": 2, "other": 3},
    ]


COUNTERS = sorted(
    element.id
    for element in elements.all()
    if element.semantics in ("deltaCounter", "totalCounter") and element.units in ("octets", "packets")
)


@both_decoders
def test_any_byte_or_packet_counter_makes_a_reverse_flow(decode: Decode) -> None:
    for counter in COUNTERS:
        reverse: Specifier = (counter, 4) if counter in (232, 299) else (counter, 4, REVERSE)
        fields = [(4, 1), reverse]
        for value, flows in ((0, 1), (5, 2)):
            found = decode(ipfix_record(fields, u8(6) + u32(value)), schema=columns("proto")).flows
            assert found == [{"proto": 6}] * flows, counter


@both_decoders
@pytest.mark.parametrize("field", [(3, 4, REVERSE), (6, 1, REVERSE), (152, 8, REVERSE), (1, 9, REVERSE)])
def test_other_elements_make_no_reverse_flow(decode: Decode, field: Specifier) -> None:
    outcome = decode(ipfix_record([(4, 1), field], u8(6) + b"\x01" * field[1]), schema=columns("proto"))
    assert outcome.flows == [{"proto": 6}]
    assert outcome.counters == {}


# Fields of the forward direction, their record, and the expected columns of the forward and of the reverse
# flow.
SHARED: list[tuple[list[Specifier], bytes, dict[str, Any], dict[str, Any]]] = [
    ([(10, 4), (14, 4)], u32(3) + u32(4), {"in_if": 3, "out_if": 4}, {"in_if": 4, "out_if": 3}),
    ([(10, 4)], u32(3), {"in_if": 3}, {"out_if": 3}),
    (
        [(16, 4), (17, 4)],
        u32(64500) + u32(64501),
        {"src_as": 64500, "dst_as": 64501},
        {"src_as": 64501, "dst_as": 64500},
    ),
    (
        [(9, 1), (13, 1)],
        u8(24) + u8(16),
        {"src_prefix_len": 24, "dst_prefix_len": 16},
        {"src_prefix_len": 16, "dst_prefix_len": 24},
    ),
    ([(56, 6), (80, 6)], uint(1, 6) + uint(2, 6), {"src_mac": 1, "dst_mac": 2}, {"src_mac": 2, "dst_mac": 1}),
    ([(58, 2)], u16(7), {"src_vlan": 7, "vlan_id": 7}, {"dst_vlan": 7, "vlan_id": 7}),
    (
        [(227, 2), (228, 2)],
        u16(1) + u16(2),
        {"src_port_nat": 1, "dst_port_nat": 2},
        {"src_port_nat": 2, "dst_port_nat": 1},
    ),
    ([(234, 4)], u32(9), {"ingress_vrf_id": 9}, {"egress_vrf_id": 9}),
    ([(152, 8)], uint(5000, 8), {"time_flow_start": 5000}, {"time_flow_start": 5000}),
    (
        [(138, 8), (230, 1), (136, 1)],
        uint(5, 8) + u8(1) + u8(3),
        {"observation_point_id": 5, "nat_event": 1, "flow_end_reason": 3},
        {"observation_point_id": 5, "nat_event": 1, "flow_end_reason": 3},
    ),
    (
        [(34, 4), (60, 1)],
        u32(100) + u8(6),
        {"sampling_rate": 100, "etype": 0x86DD, "ip_version": 6},
        {"sampling_rate": 100, "etype": 0x86DD, "ip_version": 6},
    ),
    # of one direction only
    ([(6, 1), (5, 1), (192, 1)], u8(2) + u8(8) + u8(64), {"tcp_flags": 2, "ip_tos": 8, "ip_ttl": 64}, {}),
    (
        [(15, 4), (18, 4), (47, 4)],
        ip("10.0.0.7") * 3,
        {"next_hop": "10.0.0.7", "bgp_next_hop": "10.0.0.7", "mpls_top_addr": "10.0.0.7"},
        {},
    ),
    ([(89, 1), (61, 1)], u8(64) + u8(1), {"forwarding_status": 64, "flow_direction": 2}, {}),
    ([(32, 2)], u16(0x0301), {"icmp_type": 3, "icmp_code": 1}, {}),
    (
        [(4, 1), (7, 2), (11, 2)],
        u8(1) + u16(0) + u16(0x0800),
        {"proto": 1, "dst_port": 0x0800, "icmp_type": 8},
        {"proto": 1, "src_port": 0x0800},
    ),
    (
        [(70, 3), (197, 1), (88, 2)],
        uint(16 << 4 | 1, 3) + u8(0x40) + u16(1),
        {"mpls_labels": [16], "ip_flags": 2, "ip_fragment_offset": 1},
        {},
    ),
    ([(128, 4), (129, 4)], u32(1) + u32(2), {"next_hop_as": 1, "src_peer_as": 2}, {}),
]


@both_decoders
@pytest.mark.parametrize(("fields", "record", "forward", "backward"), SHARED, ids=short_id)
def test_the_reverse_flow_shares_or_swaps_fields(
    decode: Decode, fields: list[Specifier], record: bytes, forward: dict[str, Any], backward: dict[str, Any]
) -> None:
    every = [
        column.name
        for column in FLOW
        if column.sources and column.group not in ("time", "export", "exporter", "others")
    ]
    schema = columns(*every, "time_flow_start", "flow_end_reason", "observation_point_id").disable(
        "source_address", "source_port", "flow_type"
    )
    outcome = decode(ipfix_record([*fields, (1, 4, REVERSE)], record + u32(99)), schema=schema)
    assert outcome.flows == [with_addresses(forward), with_addresses(backward | {"bytes": 99})]


@both_decoders
def test_reverse_elements_take_precedence_over_shared_fields(decode: Decode) -> None:
    fields = [(6, 1), (10, 4), (14, 4), (152, 8), (58, 2)]
    reverse = [(6, 1, REVERSE), (10, 4, REVERSE), (152, 8, REVERSE), (58, 2, REVERSE), (2, 4, REVERSE)]
    record = u8(2) + u32(3) + u32(4) + uint(5000, 8) + u16(7)
    outcome = decode(
        ipfix_record([*fields, *reverse], record + u8(18) + u32(5) + uint(6000, 8) + u16(8) + u32(1)),
        schema=columns(
            "tcp_flags", "in_if", "out_if", "time_flow_start", "src_vlan", "dst_vlan", "vlan_id", "packets"
        ),
    )
    assert outcome.flows == [
        {"tcp_flags": 2, "in_if": 3, "out_if": 4, "time_flow_start": 5000, "src_vlan": 7, "vlan_id": 7},
        # The reverse packets entered by interface 5, not by 4, where the forward packets left. They left by
        # interface 3, where the forward packets entered.
        {"tcp_flags": 18, "in_if": 5, "out_if": 3, "time_flow_start": 6000, "packets": 1}
        | {"src_vlan": 8, "dst_vlan": 7, "vlan_id": 8},
    ]


@both_decoders
def test_icmp_labels_and_fragment_flags_have_reverse_elements(decode: Decode) -> None:
    fields = [(4, 1), (32, 2), (70, 3), (197, 1)]
    fields += [(number, size, REVERSE) for number, size in ((32, 2), (70, 3), (71, 3), (197, 1), (1, 4))]
    record = u8(1) + u16(0x0800) + uint(16 << 4 | 1, 3) + u8(0x20)
    record += u16(0x0301) + uint(17 << 4, 3) + uint(18 << 4 | 1, 3) + u8(0x40) + u32(9)
    outcome = decode(
        ipfix_record(fields, record), schema=columns("icmp_type", "icmp_code", "mpls_labels", "ip_flags")
    )
    assert outcome.flows == [
        {"icmp_type": 8, "mpls_labels": [16], "ip_flags": 1},
        {"icmp_type": 3, "icmp_code": 1, "mpls_labels": [17, 18], "ip_flags": 2},
    ]


@both_decoders
def test_a_sampled_packet_belongs_to_one_direction(decode: Decode) -> None:
    frame = ethernet(ipv4(tcp(1000, 443), src="10.0.0.1", dst="10.0.0.2"))
    fields = [(315, len(frame)), (1, 4, REVERSE)]
    outcome = decode(ipfix_record(fields, frame + u32(9)), schema=columns("src_port", "src_mac", "bytes"))
    assert outcome.flows == [
        {"src_port": 1000, "src_mac": int.from_bytes(mac("02:00:00:00:00:01"), "big"), "bytes": 40},
        {"bytes": 9},
    ]
    back = ethernet(ipv4(tcp(443, 1000), src="10.0.0.2", dst="10.0.0.1"))
    fields = [(315, len(frame)), (315, len(back), REVERSE), (2, 4, REVERSE)]
    outcome = decode(ipfix_record(fields, frame + back + u32(1)), schema=columns("src_port", "dst_port"))
    assert outcome.flows == [{"src_port": 1000, "dst_port": 443}, {"src_port": 443, "dst_port": 1000}]


@both_decoders
def test_reverse_times_use_the_same_system_start(decode: Decode) -> None:
    fields = [(22, 4), (160, 8), (22, 4, REVERSE), (2, 4, REVERSE)]
    record = u32(1000) + uint(1_600_000_000_000, 8) + u32(2000) + u32(1)
    outcome = decode(
        ipfix_record(fields, record, export_time=1_600_000_100), schema=columns("time_flow_start")
    )
    assert [flow["time_flow_start"] for flow in outcome.flows] == [1_600_000_001_000, 1_600_000_002_000]


@both_decoders
def test_a_custom_column_is_shared_unless_it_is_one_way(decode: Decode) -> None:
    schema = columns("bytes")
    schema = schema.add("window", 1000, "uint16", ["ipfix:tcpWindowSize"])
    schema = schema.add("first_window", 1001, "uint16", ["ipfix:tcpWindowSize"], one_way=True)
    schema = schema.add(
        "in_phys",
        1002,
        "uint32",
        ["ipfix:ingressPhysicalInterface"],
        mirror={"name": "out_phys", "number": 1003},
    )
    schema = schema.add("reverse_bytes", 1004, "uint64", ["ipfix:29305/1"])
    fields = [(186, 2), (252, 4), (1, 4), (1, 4, REVERSE)]
    outcome = decode(ipfix_record(fields, u16(512) + u32(7) + u32(60) + u32(40)), schema=schema)
    assert outcome.flows == [
        {"window": 512, "first_window": 512, "in_phys": 7, "bytes": 60, "reverse_bytes": 40},
        {"window": 512, "out_phys": 7, "bytes": 40},
    ]


@both_decoders
def test_options_records_are_not_biflows(decode: Decode) -> None:
    options = options_template(256, [(149, 4)], [(34, 4), (1, 4, REVERSE)])
    outcome = decode(ipfix(options_template_set(options), data_set(256, u32(0) + u32(100) + u32(5))))
    assert outcome.flows == []
    assert outcome.counters == {}


@both_decoders
def test_each_reverse_flow_follows_its_forward_flow(decode: Decode) -> None:
    """Both count as flows. The counter `biflow` counts the records with two flows."""
    fields = [(11, 2), (231, 4), (232, 4)]
    counts = [(number + 1, number % 3) for number in range(40)]
    records = [u16(443) + u32(there) + u32(back) for there, back in counts]
    outcome = decode(
        netflow9(template_set9(template(256, *fields)), data_set(256, *records)), schema=columns("bytes")
    )
    assert [flow["bytes"] for flow in outcome.flows] == [each for pair in counts for each in pair if each]
    assert outcome.stats["192.0.2.1"]["flows"] == 40 + 26
    assert outcome.counters == {"biflow": 26}


# Counters and flags of a flow -------------------------------------------------------------------------------


@both_decoders
@both_protocols
def test_post_counters_are_used_if_there_are_no_others(decode: Decode, protocol: str) -> None:
    """Elements 23 and 24 are outgoing bytes and packets in NetFlow v9, and post-counters in IPFIX."""
    fields = [(23, 4), (24, 4), (1, 4), (2, 4)]
    records = [b"".join(map(u32, each)) for each in ((5, 6, 7, 8), (5, 6, 0, 0), (0, 0, 7, 8))]
    outcome = decode(
        message(protocol, templates(protocol, template(256, *fields)), data_set(256, *records)),
        schema=columns("bytes", "packets"),
    )
    assert outcome.flows == [
        {"bytes": 7, "packets": 8},
        {"bytes": 5, "packets": 6},
        {"bytes": 7, "packets": 8},
    ]
    only = [(24, 4), (23, 4)]
    outcome = decode(
        message(protocol, templates(protocol, template(256, *only)), data_set(256, u32(6) + u32(5))),
        schema=columns("bytes", "packets"),
    )
    assert outcome.flows == [{"bytes": 5, "packets": 6}]


@both_decoders
@both_protocols
def test_nat_events_are_flows_without_counters(decode: Decode, protocol: str) -> None:
    """RFC 8158: a NAT device reports the addresses of a session before and after translation."""
    fields = [(230, 1), (4, 1), (8, 4), (225, 4), (7, 2), (227, 2), (12, 4), (226, 4), (11, 2), (228, 2)]
    record = u8(4) + u8(6) + ip("10.0.0.1") + ip("192.0.2.9") + u16(40000) + u16(1024)
    record += ip("198.51.100.1") + ip("198.51.100.1") + u16(443) + u16(443)
    names = ("nat_event", "proto", "src_addr", "src_addr_nat", "src_port", "src_port_nat")
    names += ("dst_addr", "dst_addr_nat", "dst_port", "dst_port_nat", "bytes", "packets")
    outcome = decode(
        message(protocol, templates(protocol, template(256, *fields)), data_set(256, record)),
        schema=columns(*names),
    )
    assert outcome.flow == with_addresses(
        {"nat_event": 4, "proto": 6, "src_addr": "10.0.0.1", "src_port": 40000, "src_port_nat": 1024}
        | {"dst_addr": "198.51.100.1", "dst_port": 443, "dst_port_nat": 443}
    ) | {
        "src_addr_nat": mapped("192.0.2.9"),
        "dst_addr_nat": mapped("198.51.100.1"),
    }


@both_decoders
def test_asa_event_records_are_flows(decode: Decode) -> None:
    """An ASA sends such a NetFlow v9 record when it denies a connection.

    NF_F_FW_EVENT is 40005, an id without enterprise. All counters are zero.
    """
    schema = columns(*USUAL).add("firewall_event", 1000, "uint8", ["netflow9:40005", "ipfix:firewallEvent"])
    schema = schema.add("firewall_extended_event", 1001, "uint16", ["netflow9:33002"])
    fields = [*ENDPOINTS, (40005, 1), (33002, 2), (231, 4), (232, 4), (85, 4)]
    record = THERE + u8(3) + u16(1001) + u32(0) + u32(0) + u32(0)
    outcome = decode(netflow9(template_set9(template(256, *fields)), data_set(256, record)), schema=schema)
    assert outcome.flow == with_addresses(FORWARD | {"firewall_event": 3, "firewall_extended_event": 1001})
    assert outcome.counters == {}


@both_decoders
@both_protocols
@pytest.mark.parametrize("status", [64, 65, 128, 131, 192])
def test_forwarding_status_is_not_converted(decode: Decode, protocol: str, status: int) -> None:
    """It has 1 byte in NetFlow v9. RFC 7270 allows 32 bits."""
    for size in (1, 4):
        sets = [templates(protocol, template(256, (89, size))), data_set(256, uint(status, size))]
        outcome = decode(message(protocol, *sets), schema=columns("forwarding_status"))
        assert outcome.flow == {"forwarding_status": status}


@both_decoders
@both_protocols
@pytest.mark.parametrize(
    ("field", "flags"),
    [
        (u8(0x40), 2),
        (u8(0x20), 1),
        (u8(0xE0), 7),
        (u8(0x5F), 2),
        (u8(0x1F), None),
        (u16(0x0040), 2),
        (u16(0x4000), None),
    ],
)
def test_fragment_flags_are_the_top_bits_of_a_byte(
    decode: Decode, protocol: str, field: bytes, flags: int | None
) -> None:
    """In fragmentFlags (197), bit 1 from the top is don't fragment, and bit 2 is more fragments.

    In two bytes it is the same number: 0x0040 is don't fragment, and 0x4000 is not a value of a byte.
    """
    sets = [templates(protocol, template(256, (197, len(field)))), data_set(256, field)]
    outcome = decode(message(protocol, *sets), schema=columns("ip_flags"))
    assert outcome.flow == ({"ip_flags": flags} if flags else {})
