"""Decode the exports of a real exporter, pmacctd.

Its plugin nfprobe exports NetFlow v5, v9 and IPFIX. Its plugin sfprobe exports sFlow.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from tests.data import make
from tests.support.exporters import (
    Collectors,
    counted_by_exporter,
    counted_by_flowbuf,
    decode,
    ends,
    has_ended,
    headers_of_packet,
    link_layer_of_flow,
    link_layer_of_packet,
    need,
    running,
    spans,
    tcp_flags_of_flows,
    tcp_flags_of_packets,
    totals_of_flows,
    totals_of_packets,
    vary,
)
from tests.support.goldens import Flow
from tests.support.tshark import check_against_tshark
from tests.support.tshark_options import check_options_against_tshark

pytestmark = pytest.mark.slow

FLOW_TYPES = {"netflow5": "NETFLOW_V5", "netflow9": "NETFLOW_V9", "ipfix": "IPFIX"}
NFPROBES = {
    "netflow5": 5,
    "netflow9": 9,
    "ipfix": 10,
    "netflow9-sampled": 9,
    "ipfix-sampled": 10,
    "netflow9-addressed": 9,
    "ipfix-addressed": 10,
}
SFPROBES = {"sflow": 1, "sflow-sampled": 4}
PRIMITIVES = "src_host,dst_host,src_port,dst_port,proto,tos,tcpflags,src_mac,dst_mac,vlan"
Exported: TypeAlias = dict[str, list[bytes]]

LAST = "192.0.2.254"
IFINDEX = 42
ADDRESS, DOMAIN = "127.0.0.1", 7
FCS = 4  # bytes of the frame check sequence, which sFlow counts


def last_packets() -> list[Packet]:
    """Return final packets that the tests ignore.

    At its end, pmacctd counts the last packet twice, and sfprobe does not send samples that do not fill a
    datagram.
    """
    packet = (
        Ether(src="02:00:00:00:00:05", dst="02:00:00:00:00:06")
        / IP(src=LAST, dst=LAST)
        / UDP(sport=9, dport=9)
        / bytes(100)
    )
    packet.time = make.START + 61
    return [packet] * 32


# NetFlow v5 has no IPv6: nfprobe omits IPv6 packets from it.
SEEN: dict[str, Callable[[Packet], bool]] = {"netflow5": lambda packet: IP in packet}


@pytest.fixture(scope="module")
def traffic() -> list[Packet]:
    return vary(make.make_packets(30))


@pytest.fixture(scope="module")
def exported(traffic: list[Packet], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """Return the datagrams of every plugin. All plugins belong to one process."""
    need("pmacctd")
    folder = tmp_path_factory.mktemp("pmacct")
    wrpcap(str(folder / "traffic.pcap"), [*traffic, *last_packets()])
    log = folder / "log"
    with Collectors(*NFPROBES, *SFPROBES) as collectors:
        (folder / "pmacctd.conf").write_text("\n".join(configure(collectors)) + "\n")
        with running(["pmacctd", "-f", "pmacctd.conf"], log) as process:
            assert collectors.receive_until(lambda: "finished reading" in log.read_text()), log.read_text()
            process.send_signal(signal.SIGINT)
            assert collectors.receive_until(lambda: process.poll() is not None and has_ended(process.pid)), (
                log.read_text()
            )
        collectors.receive()
        yield {name: collector.datagrams for name, collector in collectors.items()}


def configure(collectors: Collectors) -> Iterator[str]:
    plugins = [f"nfprobe[{name}]" for name in NFPROBES] + [f"sfprobe[{name}]" for name in SFPROBES]
    yield from ("daemonize: false", "pcap_savefile: traffic.pcap", "pcap_savefile_wait: true")
    yield "plugin_buffer_size: 10"  # rounded up to one packet
    yield f"plugins: {','.join(plugins)}"
    for name, version in NFPROBES.items():
        yield f"nfprobe_receiver[{name}]: {collectors[name].address}"
        yield f"nfprobe_version[{name}]: {version}"
        yield f"aggregate[{name}]: {PRIMITIVES}"
        if name.endswith(("sampled", "addressed")):
            yield f"sampling_rate[{name}]: 4"
        if name.endswith("addressed"):
            yield f"nfprobe_source_ip[{name}]: {ADDRESS}"
            yield f"nfprobe_engine[{name}]: {DOMAIN}"
    for name, rate in SFPROBES.items():
        yield f"sfprobe_receiver[{name}]: {collectors[name].address}"
        yield f"sampling_rate[{name}]: {rate}"
        yield f"sfprobe_direction[{name}]: in"
        yield f"sfprobe_ifindex[{name}]: {IFINDEX}"


def decode_all(datagrams: list[bytes]) -> list[Flow]:
    """Return the flows of the traffic. Everything except interface counters must be decoded."""
    decoded = decode(datagrams)
    assert set(decoded.counters) <= {"counter_sample"}
    return [flow for flow in decoded.flows if flow["src_addr"] != LAST]


def seen_by(name: str, traffic: list[Packet]) -> list[Packet]:
    return [packet for packet in traffic if SEEN.get(name, bool)(packet)]


each_netflow = pytest.mark.parametrize("name", FLOW_TYPES)
each_with_templates = pytest.mark.parametrize("name", ["netflow9", "ipfix"])
each_exporter = pytest.mark.parametrize("name", [*NFPROBES, *SFPROBES])


@each_netflow
def test_totals_match_the_packets(name: str, exported: Exported, traffic: list[Packet]) -> None:
    flows = decode_all(exported[name])
    seen = seen_by(name, traffic)
    assert {flow["flow_type"] for flow in flows} == {FLOW_TYPES[name]}
    assert totals_of_flows(flows) == totals_of_packets(seen)
    assert tcp_flags_of_flows(flows) == tcp_flags_of_packets(seen)


@each_with_templates
def test_link_layer_matches_the_packets(name: str, exported: Exported, traffic: list[Packet]) -> None:
    flows = decode_all(exported[name])
    assert set(map(link_layer_of_flow, flows)) == set(map(link_layer_of_packet, traffic))


@each_with_templates
def test_times_match_the_first_and_the_last_packet(
    name: str, exported: Exported, traffic: list[Packet]
) -> None:
    """nfprobe keeps one pair of times for the packets of both directions."""
    flows = decode_all(exported[name])
    ours = spans((ends(flow), flow[time]) for flow in flows for time in ("time_flow_start", "time_flow_end"))
    assert ours == spans((ends(packet), int(packet.time * 1000)) for packet in traffic)


@pytest.mark.parametrize("name", ["netflow9-sampled", "ipfix-sampled"])
def test_sampling_rate_comes_from_the_options(name: str, exported: Exported, traffic: list[Packet]) -> None:
    """Packets are sampled at random: the totals are at most those of the traffic."""
    decoded = decode(exported[name])
    assert decoded.total("options_records") == 1
    flows = decode_all(exported[name])
    assert {flow["sampling_rate"] for flow in flows} == {4}
    everything = totals_of_packets(traffic)
    for each, (packet_count, byte_count) in totals_of_flows(flows).items():
        assert packet_count <= everything[each][0]
        assert byte_count <= everything[each][1]


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("netflow9-sampled", {"observation_domain_id": 0, "scope_system": "00000000"}),
        ("ipfix-sampled", {"observation_domain_id": 0, "exporting_process_id": 0}),
        ("netflow9-addressed", {"observation_domain_id": DOMAIN, "scope_system": "7f000001"}),
        ("ipfix-addressed", {"observation_domain_id": DOMAIN, "exporting_process_id": 0x7F000001}),
    ],
)
def test_options_agree_with_tshark(
    name: str, scope: dict[str, object], exported: Exported, tmp_path: Path
) -> None:
    """nfprobe describes its sampler, and its address if that is configured."""
    need("tshark")
    make.write_datagrams(tmp_path / "sent.pcap", exported[name], make.START)
    rows = check_options_against_tshark(tmp_path / "sent.pcap")
    contents: list[dict[str, object]] = [{"sampler_id": 1, "sampling_mode": 2, "sampling_interval": 4}]
    if name.endswith("addressed"):
        contents.append({"described_exporter": ADDRESS})
    common = ("exporter_address", "flow_type", "scope_elements")
    assert [{key: value for key, value in row.items() if key not in common} for row in rows] == [
        {**scope, **content} for content in contents
    ]


def test_every_packet_is_a_sample(exported: Exported, traffic: list[Packet]) -> None:
    """With a sampling rate of 1, samples have the order of the packets and all fields of their headers."""
    flows = decode_all(exported["sflow"])
    expected = [headers_of_packet(packet) for packet in traffic]
    assert [
        {name: flow.get(name, 0) for name in packet} for flow, packet in zip(flows, expected, strict=True)
    ] == expected
    assert [flow["frame_length"] for flow in flows] == [len(packet) + FCS for packet in traffic]
    assert {(flow["sampling_rate"], flow["in_if"]) for flow in flows} == {(1, IFINDEX)}


def test_samples_have_their_sampling_rate_and_sample_pool(exported: Exported, traffic: list[Packet]) -> None:
    decoded = decode(exported["sflow-sampled"])
    assert {flow["sampling_rate"] for flow in decoded.flows} == {4}
    assert [flow["sample_sequence_number"] for flow in decoded.flows] == list(
        range(1, len(decoded.flows) + 1)
    )
    pools = [flow["sample_pool"] for flow in decoded.flows]
    assert pools == sorted(pools)
    assert len(decoded.flows) <= pools[-1] <= len(traffic) + len(last_packets()) + 1
    everything = [headers_of_packet(packet) for packet in traffic]
    for flow in decode_all(exported["sflow-sampled"]):
        assert {name: flow.get(name) for name in everything[flow["sample_pool"] - 1]} == everything[
            flow["sample_pool"] - 1
        ]


@each_exporter
def test_flowbuf_counts_as_many_records_as_the_exporter(name: str, exported: Exported) -> None:
    assert counted_by_flowbuf(exported[name]) == counted_by_exporter(exported[name]) > 0


@each_exporter
def test_flowbuf_agrees_with_tshark(name: str, exported: Exported, tmp_path: Path) -> None:
    need("tshark")
    make.write_datagrams(tmp_path / "sent.pcap", exported[name], make.START)
    assert check_against_tshark(tmp_path / "sent.pcap", {2055: "sflow" if name in SFPROBES else "cflow"}) > 0
