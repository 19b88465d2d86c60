"""sFlow v5 datagrams: samples, interfaces, and every record that is read."""

from __future__ import annotations

import pytest

from flowbuf import Schema
from tests.support.datagrams import (
    discarded_packet,
    ethernet,
    expanded_flow_sample,
    extended_gateway,
    extended_router,
    extended_switch,
    flow_sample,
    ip,
    ipv4,
    mapped,
    record,
    sample,
    sampled_ethernet,
    sampled_header,
    sampled_ip,
    sflow,
    tcp,
    u32,
)
from tests.support.decoding import Decode, both_decoders, columns, short_id

pytestmark = both_decoders

SAMPLE_COLUMNS = columns(
    "flow_type",
    "exporter_address",
    "source_address",
    "sequence_number",
    "sub_agent_id",
    "agent_uptime",
    "sampling_rate",
    "sample_sequence_number",
    "sample_pool",
    "sample_drops",
    "sample_source_id",
    "packets",
    "in_if",
    "out_if",
    "time_exported",
    "observation_domain_id",
)
FLOW_OF_SAMPLE = {
    "flow_type": 1,
    "exporter_address": mapped("192.0.2.200"),
    "source_address": mapped("192.0.2.1"),
    "sequence_number": 8,
    "sub_agent_id": 2,
    "agent_uptime": 3_600_000,
    "sampling_rate": 1024,
    "sample_sequence_number": 11,
    "sample_pool": 4096,
    "sample_drops": 3,
    "sample_source_id": 7,
    "packets": 1,
    "in_if": 5,
    "out_if": 6,
}


def test_flow_samples_fill_their_columns(decode: Decode) -> None:
    one = flow_sample(sequence=11, source_id=7, rate=1024, pool=4096, drops=3, input=5, output=6)
    outcome = decode(sflow(one, sub_agent=2, sequence=8, uptime=3_600_000), schema=SAMPLE_COLUMNS)
    assert outcome.flow == FLOW_OF_SAMPLE
    assert outcome.stats == {"192.0.2.200#2": {"counters": {}, "flows": 1, "datagrams": 1}}


def test_expanded_flow_samples_fill_the_same_columns(decode: Decode) -> None:
    one = expanded_flow_sample(
        sequence=11, source=(0, 7), rate=1024, pool=4096, drops=3, input=(0, 5), output=(0, 6)
    )
    outcome = decode(sflow(one, sub_agent=2, sequence=8, uptime=3_600_000), schema=SAMPLE_COLUMNS)
    assert outcome.flow == FLOW_OF_SAMPLE


def test_agents_may_have_ipv6_addresses(decode: Decode) -> None:
    outcome = decode(sflow(flow_sample(), agent="2001:db8::9"), schema=columns("exporter_address"))
    assert outcome.flow == {"exporter_address": ip("2001:db8::9")}
    assert list(outcome.stats) == ["2001:db8::9"]


INTERFACES = columns("in_if", "out_if", "forwarding_status")


@pytest.mark.parametrize(
    ("input", "output", "flow"),
    [
        ((0, 5), (0, 6), {"in_if": 5, "out_if": 6}),
        ((0, 5), (0, 0), {"in_if": 5}),
        ((0, 0x3FFFFFFF), (0, 0x3FFFFFFF), {}),
        ((0, 0x3FFFFFFE), (0, 0x3FFFFFFE), {"in_if": 0x3FFFFFFE, "out_if": 0x3FFFFFFE}),
        ((0, 5), (2, 7), {"in_if": 5}),
        ((0, 5), (1, 2), {"in_if": 5, "forwarding_status": 131}),
        ((0, 5), (1, 256), {"in_if": 5, "forwarding_status": 128}),
        ((0, 5), (1, 302), {"in_if": 5, "forwarding_status": 140}),
        ((1, 2), (0, 6), {"out_if": 6}),
        ((3, 5), (3, 6), {}),  # no such format
    ],
)
def test_interfaces_have_an_index_or_a_forwarding_status(
    decode: Decode, input: tuple[int, int], output: tuple[int, int], flow: dict[str, int]
) -> None:
    compact = flow_sample(input=input[0] << 30 | input[1], output=output[0] << 30 | output[1])
    expanded = expanded_flow_sample(input=input, output=output)
    assert decode(sflow(compact, expanded), schema=INTERFACES).flows == [flow, flow]


@pytest.mark.parametrize(
    ("number", "flow"),
    [(0xFFFFFFFF, {}), (0x7FFFFFFF, {"in_if": 0x7FFFFFFF, "out_if": 0x7FFFFFFF}), (0x3FFFFFFF, {})],
)
def test_expanded_samples_have_their_own_number_for_the_exporter(
    decode: Decode, number: int, flow: dict[str, int]
) -> None:
    """By an erratum it is 0xffffffff. Agents also use that of compact samples."""
    sample = expanded_flow_sample(input=(0, number), output=(0, number))
    assert decode(sflow(sample), schema=INTERFACES).flow == flow


# Discard reasons of sFlow, with the closest forwarding status of RFC 7270 section 4.12. Reasons up to 255 are
# codes of ICMP unreachable.
UNREACHABLE, DROPPED = 131, 128
REASONS = {
    **dict.fromkeys((0, 1, 2, 3, 5, 6, 7, 11, 12, 269), UNREACHABLE),
    **{
        4: 133,
        8: 132,
        9: 129,
        10: 129,
        13: 129,
        257: 137,
        258: 130,
        259: 143,
        260: 139,
        261: 138,
        262: 135,
        279: 132,
        280: 140,
        292: 132,
        302: 140,
    },
}


def test_every_discard_reason_has_a_forwarding_status(decode: Decode) -> None:
    """Unspecific reasons have the status `dropped`, in flow samples and in discarded packets."""
    reasons = [*range(400), 0x3FFFFFFF]
    expected = [REASONS.get(reason, DROPPED) for reason in reasons]
    compact = [flow_sample(output=1 << 30 | reason) for reason in reasons]
    expanded = [expanded_flow_sample(output=(1, reason)) for reason in reasons]
    notices = [discarded_packet(reason=reason) for reason in reasons]
    flows = columns("forwarding_status")
    drops = Schema.load("sflow_counters").only("forwarding_status")
    for samples, schema in ((compact, flows), (expanded, flows), (notices, drops)):
        found = decode(sflow(*samples), schema=schema).flows
        assert [flow.get("forwarding_status") for flow in found] == expected
    assert decode(sflow(expanded_flow_sample(output=(1, 1 << 16 | 4))), schema=flows).flow == {
        "forwarding_status": 128
    }


def test_a_discard_reason_at_the_input_is_ignored(decode: Decode) -> None:
    """The output describes the forwarding of the packet."""
    for one in (flow_sample(input=1 << 30 | 4, output=6), expanded_flow_sample(input=(1, 4), output=(0, 6))):
        assert decode(sflow(one), schema=INTERFACES).flow == {"out_if": 6}


def test_a_datagram_may_have_more_than_1500_samples(decode: Decode) -> None:
    """65,507 bytes hold this many samples. Akvorado stops above 1,000."""
    count = (65_507 - 28) // len(flow_sample())
    flows = decode(
        sflow(*[flow_sample(input=number + 1) for number in range(count)]), schema=columns("in_if")
    ).flows
    assert flows == [{"in_if": number + 1} for number in range(count)]
    assert count > 1500


def test_an_expanded_interface_has_32_bits(decode: Decode) -> None:
    one = expanded_flow_sample(input=(0, 0x40000005), output=(0, 0xFFFFFFFE))
    assert decode(sflow(one), schema=INTERFACES).flow == {"in_if": 0x40000005, "out_if": 0xFFFFFFFE}


# Records ----------------------------------------------------------------------------------------------------


def test_sampled_headers_fill_their_columns(decode: Decode) -> None:
    frame = ethernet(ipv4(tcp(443, 50000), total_length=1500))
    outcome = decode(
        sflow(flow_sample(sampled_header(frame, frame_length=1518))),
        schema=columns("bytes", "packets", "src_addr", "src_port", "frame_length", "src_mac", "etype"),
    )
    assert outcome.flow == {
        "bytes": 1500,
        "packets": 1,
        "src_addr": mapped("192.0.2.1"),
        "src_port": 443,
        "frame_length": 1518,
        "src_mac": 0x020000000001,
        "etype": 0x0800,
    }


def test_the_frame_length_is_used_without_an_ip_header(decode: Decode) -> None:
    arp = ethernet(bytes(28), ethertype=0x0806)
    outcome = decode(
        sflow(flow_sample(sampled_header(arp, frame_length=64))), schema=columns("bytes", "etype")
    )
    assert outcome.flow == {"bytes": 64, "etype": 0x0806}
    assert outcome.counters == {"unknown_header": 1}


@pytest.mark.parametrize("protocol", [2, 7, 10, 14])
def test_an_unknown_header_protocol_is_counted(decode: Decode, protocol: int) -> None:
    one = flow_sample(sampled_header(ipv4(), protocol=protocol, frame_length=64))
    outcome = decode(sflow(one), schema=columns("bytes", "src_addr"))
    assert outcome.flow == {"bytes": 64}
    assert outcome.counters == {"unknown_header": 1}


@pytest.mark.parametrize(
    ("src", "dst", "etype"), [("10.0.0.1", "10.0.0.2", 0x0800), ("2001:db8::1", "2001:db8::2", 0x86DD)]
)
def test_sampled_ip_records_fill_their_columns(decode: Decode, src: str, dst: str, etype: int) -> None:
    one = sampled_ip(src, dst, length=1500, proto=6, src_port=443, dst_port=50000, tcp_flags=0x12, tos=0xB8)
    schema = columns(
        "src_addr", "dst_addr", "etype", "bytes", "proto", "src_port", "dst_port", "tcp_flags", "ip_tos"
    ).alter("src_addr", ip="native")
    assert decode(sflow(flow_sample(one)), schema=schema).flow == {
        "src_addr": ip(src),
        "dst_addr": mapped(dst) if etype == 0x0800 else ip(dst),
        "etype": etype,
        "bytes": 1500,
        "proto": 6,
        "src_port": 443,
        "dst_port": 50000,
        "tcp_flags": 0x12,
        "ip_tos": 0xB8,
    }


def test_sampled_ethernet_records_fill_their_columns(decode: Decode) -> None:
    one = sampled_ethernet(1500, "02:00:00:00:00:0a", "02:00:00:00:00:0b", 0x0806)
    outcome = decode(
        sflow(flow_sample(one)), schema=columns("src_mac", "dst_mac", "etype", "frame_length", "bytes")
    )
    assert outcome.flow == {
        "src_mac": 0x02000000000A,
        "dst_mac": 0x02000000000B,
        "etype": 0x0806,
        "frame_length": 1500,
        "bytes": 1500,
    }


def test_records_of_the_agent_take_precedence_over_the_header(decode: Decode) -> None:
    header = sampled_header(ethernet(ipv4(tcp(1, 2), total_length=1000)), frame_length=1018)
    own = sampled_ip("10.0.0.1", "10.0.0.2", length=1344, proto=17, src_port=3)
    outcome = decode(
        sflow(flow_sample(header, own)),
        schema=columns("src_addr", "bytes", "proto", "src_port", "dst_port", "ip_ttl"),
    )
    assert outcome.flow == {
        "src_addr": mapped("10.0.0.1"),
        "bytes": 1344,
        "proto": 17,
        "src_port": 3,
        "dst_port": 2,  # the agent's 0 is absent
        "ip_ttl": 64,
    }


@pytest.mark.parametrize(
    ("vlans", "flow"),
    [
        ((100, 200), {"src_vlan": 100, "dst_vlan": 200}),
        ((4094, 4095), {"src_vlan": 4094}),
        ((0xFFFFFFFF, 0), {}),
    ],
)
def test_extended_switch_records_fill_their_columns(
    decode: Decode, vlans: tuple[int, int], flow: dict[str, int]
) -> None:
    one = extended_switch(vlans[0], 3, vlans[1], 5)
    names = ["src_vlan", "dst_vlan", "src_vlan_priority", "dst_vlan_priority"]
    outcome = decode(sflow(flow_sample(one)), schema=columns(*names))
    assert outcome.flow == flow | {"src_vlan_priority": 3, "dst_vlan_priority": 5}
    assert outcome.counters == {}


def test_extended_router_records_fill_their_columns(decode: Decode) -> None:
    schema = columns("next_hop", "src_prefix_len", "dst_prefix_len")
    samples = [
        flow_sample(extended_router("10.0.0.254", 24, 16)),
        flow_sample(extended_router("2001:db8::fe", 48, 32)),
        flow_sample(extended_router(None, 24, 16)),
    ]
    assert decode(sflow(*samples), schema=schema).flows == [
        {"next_hop": mapped("10.0.0.254"), "src_prefix_len": 24, "dst_prefix_len": 16},
        {"next_hop": ip("2001:db8::fe"), "src_prefix_len": 48, "dst_prefix_len": 32},
        {"src_prefix_len": 24, "dst_prefix_len": 16},
    ]


GATEWAY = columns(
    "bgp_next_hop",
    "router_as",
    "src_as",
    "src_peer_as",
    "next_hop_as",
    "dst_as",
    "dst_as_path",
    "dst_communities",
    "local_pref",
)


def test_extended_gateway_records_fill_their_columns(decode: Decode) -> None:
    one = extended_gateway(
        "10.0.0.254",
        own_as=64500,
        src_as=64501,
        src_peer_as=64502,
        path=[[64510, 64511], [64512]],
        communities=[0xFDE80001, 0, 2],
        local_pref=100,
    )
    outcome = decode(sflow(flow_sample(one)), schema=GATEWAY)
    assert outcome.flow == {
        "bgp_next_hop": mapped("10.0.0.254"),
        "router_as": 64500,
        "src_as": 64501,
        "src_peer_as": 64502,
        "next_hop_as": 64510,
        "dst_as": 64512,
        "dst_as_path": [64510, 64511, 64512],
        "dst_communities": [0xFDE80001, 0, 2],
        "local_pref": 100,
    }


AS_SET, AS_SEQUENCE, CONFED_SEQUENCE, CONFED_SET = 1, 2, 3, 4


@pytest.mark.parametrize(
    ("path", "kinds", "next_hop_as", "dst_as"),
    [
        ([[64510, 64511], [64520, 64521]], [AS_SEQUENCE, AS_SET], 64510, 64521),
        ([[64520, 64521]], [AS_SET], 64520, 64521),
        (
            [[65001], [64510], [64511], [65002]],
            [CONFED_SEQUENCE, AS_SEQUENCE, AS_SET, CONFED_SET],
            65001,
            65002,
        ),
        ([[], [64510], []], [AS_SEQUENCE, AS_SEQUENCE, AS_SET], 64510, 64510),
        ([[4_200_000_000] * 3, [64510]], [AS_SEQUENCE, 77], 4_200_000_000, 64510),
        ([list(range(1, 400))], [AS_SEQUENCE], 1, 399),
    ],
)
def test_path_segments_of_every_kind_are_read(
    decode: Decode, path: list[list[int]], kinds: list[int], next_hop_as: int, dst_as: int
) -> None:
    """RFC 4271 section 4.3, RFC 5065: sets and sequences, also of confederations.

    The fields after the path are found.
    """
    one = extended_gateway(
        "2001:db8::fe", 64500, 64501, path=path, communities=[7, 8], local_pref=9, kinds=kinds
    )
    schema = columns("bgp_next_hop", "next_hop_as", "dst_as", "dst_as_path", "dst_communities", "local_pref")
    outcome = decode(sflow(flow_sample(one)), schema=schema)
    assert outcome.flow == {
        "bgp_next_hop": ip("2001:db8::fe"),
        "next_hop_as": next_hop_as,
        "dst_as": dst_as,
        "dst_as_path": [number for segment in path for number in segment],
        "dst_communities": [7, 8],
        "local_pref": 9,
    }
    assert outcome.counters == {}


def test_a_local_route_has_the_as_of_its_router(decode: Decode) -> None:
    outcome = decode(sflow(flow_sample(extended_gateway(None, own_as=64500))), schema=GATEWAY)
    assert outcome.flow == {"router_as": 64500, "src_as": 64500, "dst_as": 64500}


def test_the_first_record_of_each_format_is_used(decode: Decode) -> None:
    """The second one is counted, also of a format that no column takes."""
    queues = record(1036, u32(1)), record(1036, u32(2))
    one = flow_sample(extended_switch(1, 0, 2, 0), extended_switch(3, 0, 4, 0), *queues)
    outcome = decode(sflow(one), schema=columns("src_vlan", "dst_vlan"))
    assert outcome.flow == {"src_vlan": 1, "dst_vlan": 2}
    assert outcome.counters == {"unknown_sample_record": 2}


def test_unknown_records_are_counted_and_skipped(decode: Decode) -> None:
    one = flow_sample(
        record(1018, bytes(8)),
        record(1001, bytes(16), enterprise=9),
        record(7, b"odd"),
        extended_switch(1, 0, 2, 0),
    )
    outcome = decode(sflow(one), schema=columns("src_vlan"))
    assert outcome.flow == {"src_vlan": 1}
    assert outcome.counters == {"unknown_sample_record": 3}


# Faults -----------------------------------------------------------------------------------------------------

ALL_READ = columns("src_vlan", "src_as", "src_prefix_len", "src_addr", "src_mac", "bytes")


@pytest.mark.parametrize(
    "bad",
    [
        record(1, bytes(15)),
        sampled_header(ethernet(ipv4()), header_length=1000),
        record(2, bytes(20)),
        record(3, bytes(28)),
        record(4, bytes(52)),
        record(1001, bytes(12)),
        record(1002, u32(1) + bytes(8)),
        record(1002, u32(3) + bytes(12)),
        record(1003, u32(0) + bytes(12) + u32(1) + u32(2) + u32(1000)),
        record(1003, u32(0) + bytes(12) + u32(0) + u32(1000)),
        record(1003, u32(0) + bytes(12) + u32(0xFFFFFFFF)),
    ],
    ids=short_id,
)
def test_a_short_record_is_skipped_and_the_others_are_read(decode: Decode, bad: bytes) -> None:
    good = [extended_switch(1, 0, 2, 0)] if bad[:4] != u32(1001) else [extended_router(None, 24, 16)]
    outcome = decode(sflow(flow_sample(bad, *good)), schema=ALL_READ)
    assert outcome.flow == ({"src_vlan": 1} if bad[:4] != u32(1001) else {"src_prefix_len": 24})
    assert outcome.counters == {"bad_sample_record": 1}


def test_records_after_one_that_overruns_its_sample_are_lost(decode: Decode) -> None:
    overrun = record(1002, bytes(16), length=1000)
    one = flow_sample(extended_switch(1, 0, 2, 0), overrun, sampled_ip("10.0.0.1", "10.0.0.2"))
    outcome = decode(sflow(one, flow_sample(extended_switch(3, 0, 4, 0))), schema=ALL_READ)
    assert outcome.flows == [{"src_vlan": 1}, {"src_vlan": 3}]
    assert outcome.counters == {"bad_sample_record": 1}


def test_missing_records_are_counted(decode: Decode) -> None:
    outcome = decode(sflow(flow_sample(extended_switch(1, 0, 2, 0), count=9)), schema=ALL_READ)
    assert outcome.flow == {"src_vlan": 1}
    assert outcome.counters == {"bad_sample_record": 1}


GOOD_SAMPLE = flow_sample(extended_switch(1, 0, 2, 0))


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        bytes(7),
        flow_sample(extended_switch(1, 0, 2, 0), length=10_000),
        sample(2, bytes(8), length=10_000),
        sample(99, bytes(8), length=10_000),
    ],
    ids=short_id,
)
def test_a_sample_beyond_its_datagram_ends_it(decode: Decode, rest: bytes) -> None:
    outcome = decode(sflow(GOOD_SAMPLE, rest, count=5), schema=ALL_READ)
    assert outcome.flows == [{"src_vlan": 1}]
    assert outcome.counters == {"bad_sample": 1}


@pytest.mark.parametrize("short", [sample(1, bytes(28)), sample(3, bytes(40)), sample(1, b"")], ids=short_id)
def test_the_samples_after_a_short_one_are_decoded(decode: Decode, short: bytes) -> None:
    outcome = decode(sflow(GOOD_SAMPLE, short, GOOD_SAMPLE), schema=ALL_READ)
    assert outcome.flows == [{"src_vlan": 1}, {"src_vlan": 1}]
    assert outcome.counters == {"bad_sample": 1}


def test_a_short_sample_is_not_missing(decode: Decode) -> None:
    """Its sequence number is known."""
    short = sample(1, u32(6) + bytes(24))
    outcome = decode(sflow(flow_sample(sequence=5), short, flow_sample(sequence=7)))
    assert outcome.counters == {"bad_sample": 1}


def test_other_samples_are_counted(decode: Decode) -> None:
    others = [
        sample(2, bytes(12)),
        sample(4, bytes(16)),
        sample(5, bytes(28)),
        sample(6, bytes(4)),
        sample(1, bytes(4), 9),
    ]
    outcome = decode(sflow(*others, GOOD_SAMPLE), schema=ALL_READ)
    assert outcome.flows == [{"src_vlan": 1}]
    assert outcome.counters == {"counter_sample": 2, "drop_sample": 1, "unknown_sample": 2}


@pytest.mark.parametrize(
    ("rest", "counter"), [(GOOD_SAMPLE, "excess_data"), (b"\1", "excess_data"), (bytes(4), "padding")]
)
def test_samples_beyond_the_count_are_counted(decode: Decode, rest: bytes, counter: str) -> None:
    outcome = decode(sflow(GOOD_SAMPLE, count=1) + rest, schema=ALL_READ)
    assert outcome.flows == [{"src_vlan": 1}]
    assert outcome.counters == {counter: 1}
