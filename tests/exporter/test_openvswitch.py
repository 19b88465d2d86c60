"""Decode the exports of a real exporter, Open vSwitch.

It forwards packets from one dummy port to another and reports them as sFlow, NetFlow v5 and IPFIX. It runs as
any user, in a folder of its own, without a kernel module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from scapy.layers.inet import IP
from scapy.packet import Packet

import flowbuf
from tests.data import make
from tests.exporter.openvswitch import IN, OUT, Switch, export, running_switch
from tests.support.command import flowbuf as run
from tests.support.exporters import (
    SOURCE,
    Collectors,
    counted_by_exporter,
    counted_by_flowbuf,
    decode,
    headers_of_packet,
    need,
    network,
    tcp_flags_of_flows,
    tcp_flags_of_packets,
    totals_of_flows,
    totals_of_packets,
    vary,
    without_sequence_notes,
)
from tests.support.tshark import check_against_tshark
from tests.support.tshark_options import check_options_against_tshark

pytestmark = pytest.mark.slow

DOMAIN, POINT = 77, 78
FCS = 4  # bytes of the frame check sequence, which sFlow counts

Exported: TypeAlias = dict[str, list[bytes]]


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with running_switch(tmp_path_factory.mktemp("ovs")) as switch:
        yield switch


@pytest.fixture(scope="module")
def traffic() -> list[Packet]:
    return vary(make.make_packets(30))


@pytest.fixture(scope="module")
def exported(switch: Switch, traffic: list[Packet]) -> Iterator[Exported]:
    """Return the datagrams of every protocol.

    Every packet is sampled. The counters of each port are sent every second.
    """
    with Collectors("sflow", "netflow", "ipfix") as collectors:
        targets = {name: f'"{collector.address}"' for name, collector in collectors.items()}
        export(switch, "sflow", f"agent=127.0.0.1 target={targets['sflow']} header=128 sampling=1 polling=1")
        export(switch, "netflow", f"targets={targets['netflow']} engine_id=9 engine_type=3")
        export(
            switch,
            "ipfix",
            f"targets={targets['ipfix']} sampling=1 obs_domain_id={DOMAIN} obs_point_id={POINT}",
        )
        switch.forward(traffic)
        sflow, netflow, ipfix = (collectors[name].datagrams for name in collectors)
        assert collectors.receive_until(lambda: decode(sflow).counters.get("counter_sample", 0) >= 4)
        switch.control("revalidator/purge")
        switch.configure("clear", "bridge", "br0", "netflow", "ipfix")  # both send their pending flows
        assert collectors.receive_until(lambda: packets(netflow) >= sum(IP in packet for packet in traffic))
        assert collectors.receive_until(lambda: packets(ipfix) >= 2 * len(traffic))
        yield {name: collector.datagrams for name, collector in collectors.items()}


def packets(datagrams: list[bytes]) -> int:
    return sum(flow["packets"] for flow in decode(datagrams).flows)


def test_every_packet_is_a_sample(exported: Exported, traffic: list[Packet]) -> None:
    """Samples come in the order of the packets and have all fields of their headers."""
    flows = decode(exported["sflow"]).flows
    expected = [headers_of_packet(packet) for packet in traffic]
    assert [
        {name: flow.get(name, 0) for name in packet} for flow, packet in zip(flows, expected, strict=True)
    ] == expected
    assert [flow["frame_length"] for flow in flows] == [len(packet) + FCS for packet in traffic]
    assert {(flow["sampling_rate"], flow["in_if"], flow["out_if"]) for flow in flows} == {(1, IN, OUT)}
    assert [flow["sample_pool"] for flow in flows] == list(range(1, len(traffic) + 1))


def test_counter_samples_are_counted_but_are_not_flows(exported: Exported, traffic: list[Packet]) -> None:
    decoded = decode(exported["sflow"])
    assert set(decoded.counters) == {"counter_sample"}
    assert len(decoded.flows) == len(traffic)


def test_netflow_totals_match_the_packets(exported: Exported, traffic: list[Packet]) -> None:
    """NetFlow v5 has no IPv6. Open vSwitch counts whole frames, and numbers a datagram by its last flow."""
    decoded = decode(exported["netflow"])
    assert without_sequence_notes(decoded.counters) == {}
    seen = [packet for packet in traffic if IP in packet]
    assert totals_of_flows(decoded.flows) == totals_of_packets(seen, length=len)
    assert tcp_flags_of_flows(decoded.flows) == tcp_flags_of_packets(seen)
    ports = {
        (flow["in_if"], flow["out_if"], flow["engine_type"], flow["engine_id"]) for flow in decoded.flows
    }
    assert ports == {(1, 2, 3, 9)}


@pytest.mark.parametrize(("direction", "out_if"), [("ingress", None), ("egress", OUT)])
def test_ipfix_totals_match_the_packets(
    direction: str, out_if: int | None, exported: Exported, traffic: list[Packet]
) -> None:
    """Each packet is observed on ingress and on egress.

    Open vSwitch counts the padding of a frame as part of the packet.
    """
    decoded = decode(exported["ipfix"])
    assert set(decoded.counters) == {"options_ignored"}  # counts of packets that were not reported
    flows = [flow for flow in decoded.flows if flow["flow_direction"] == direction]
    assert totals_of_flows(flows) == totals_of_packets(traffic, length=lambda packet: len(network(packet)))
    assert {(flow["observation_domain_id"], flow["observation_point_id"]) for flow in flows} == {
        (DOMAIN, POINT)
    }
    # interfaceName has a variable length. Egress records have a second one, for the second port.
    assert {(flow["interface_name"], flow["in_if"], flow.get("out_if")) for flow in flows} == {
        ("p1", IN, out_if)
    }


def test_port_counters_match_the_packets(exported: Exported, traffic: list[Packet]) -> None:
    decoder = flowbuf.Decoder("sflow_counters")
    message = decoder.schema.message_class()
    rows = [
        message.FromString(row) for each in exported["sflow"] for row in decoder.messages(each, SOURCE, 1.0)
    ]
    assert len(rows) == sum(int.from_bytes(each[24:28], "big") for each in exported["sflow"]) - len(traffic)
    ports = {
        row.if_index: (
            row.port_name,
            (row.if_in_ucast_pkts, row.if_in_octets),
            (row.if_out_ucast_pkts, row.if_out_octets),
        )
        for row in rows
    }
    sent = (len(traffic), sum(map(len, traffic)))
    assert (ports[IN], ports[OUT]) == (("p1", sent, (0, 0)), ("p2", (0, 0), sent))


def test_flows_have_the_names_and_speeds_of_their_ports(
    exported: Exported, traffic: list[Packet], tmp_path: Path
) -> None:
    """Open vSwitch reports 100 Mb/s for a port whose speed it does not know."""
    make.write_datagrams(tmp_path / "sent.pcap", exported["sflow"], make.START)
    columns = "in_if,in_if_name,in_if_speed,out_if,out_if_name,out_if_speed"
    done = run("read", tmp_path / "sent.pcap", "--columns", columns, "--two-pass", "-f", "jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    expected = dict(zip(columns.split(","), (IN, "p1", 100, OUT, "p2", 100), strict=True))
    assert [json.loads(line) for line in done.stdout.splitlines()] == [expected] * len(traffic)


def test_options_agree_with_tshark(exported: Exported, tmp_path: Path) -> None:
    """Open vSwitch counts packets that were not reported, in an observation domain of its own."""
    need("tshark")
    make.write_datagrams(tmp_path / "sent.pcap", exported["ipfix"], make.START)
    (row,) = check_options_against_tshark(tmp_path / "sent.pcap")
    assert (row["scope_elements"], row["not_sent_packet_total_count"]) == ([144], 0)


@pytest.mark.parametrize("name", ["sflow", "netflow", "ipfix"])
def test_flowbuf_counts_as_many_records_as_the_exporter(name: str, exported: Exported) -> None:
    assert counted_by_flowbuf(exported[name]) == counted_by_exporter(exported[name]) > 0


@pytest.mark.parametrize(("name", "protocol"), [("sflow", "sflow"), ("netflow", "cflow"), ("ipfix", "cflow")])
def test_flowbuf_agrees_with_tshark(name: str, protocol: str, exported: Exported, tmp_path: Path) -> None:
    need("tshark")
    make.write_datagrams(tmp_path / "sent.pcap", exported[name], make.START)
    assert check_against_tshark(tmp_path / "sent.pcap", {2055: protocol}) > 0
