"""Decode the exports of a real exporter, softflowd: NetFlow v1, v5, v9, IPFIX and PSAMP.

The totals of flowbuf equal those of the packets.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from datetime import datetime
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.packet import Packet
from scapy.utils import rdpcap, wrpcap

from flowbuf import Collector, _core
from tests.collect.streams.peers import sessions_of
from tests.data import make
from tests.support.cases import slow_after
from tests.support.exporters import (
    PATIENCE,
    Collectors,
    counted_by_exporter,
    counted_by_flowbuf,
    decode,
    ends,
    headers_of_packet,
    link_layer_of_flow,
    link_layer_of_packet,
    need,
    network,
    running,
    spans,
    tcp_flags_of_flows,
    tcp_flags_of_packets,
    totals_of_flows,
    totals_of_packets,
    vary,
)
from tests.support.goldens import Decoded
from tests.support.live import own_network, wait_until
from tests.support.tshark import check_against_tshark
from tests.support.tshark_options import check_options_against_tshark

DATA = Path(__file__).parents[1] / "data"

FLOW_TYPES = {"netflow5": "NETFLOW_V5", "netflow9": "NETFLOW_V9", "ipfix": "IPFIX"}
SAMPLING = 4

each_version = pytest.mark.parametrize("protocol", FLOW_TYPES)
each_with_templates = pytest.mark.parametrize("protocol", ["netflow9", "ipfix"])


def check_totals(protocol: str, decoded: Decoded, traffic: list[Packet]) -> None:
    """softflowd omits IPv6 from NetFlow v1 and v5, and counts frame padding as part of the packet."""
    seen = [packet for packet in traffic if IP in packet or protocol not in ("netflow1", "netflow5")]
    assert decoded.counters == {}
    assert {flow["flow_type"] for flow in decoded.flows} == {FLOW_TYPES.get(protocol, "NETFLOW_V1")}
    assert totals_of_flows(decoded.flows) == totals_of_packets(
        seen, length=lambda packet: len(network(packet))
    )
    assert tcp_flags_of_flows(decoded.flows) == tcp_flags_of_packets(seen)


# Captures ---------------------------------------------------------------------------------------------------


def payloads(capture: Path) -> list[bytes]:
    _, status, batch = _core.Capture().scan(capture.read_bytes(), True)
    assert status == "end"
    return [batch[i][0] for i in range(len(batch))]


@pytest.mark.parametrize("protocol", slow_after(1, FLOW_TYPES))
def test_shipped_captures_match_the_traffic(protocol: str) -> None:
    traffic = list(rdpcap(io.BytesIO(gzip.decompress((DATA / "traffic.pcap.gz").read_bytes()))))
    check_totals(protocol, decode(payloads(DATA / f"softflowd-{protocol}.pcap")), traffic)


def test_generated_captures_have_the_requested_flows() -> None:
    for protocol in make.PROTOCOLS:
        decoded = decode(payloads(DATA / f"generated-{protocol}.pcap"))
        assert len(decoded.flows) == make.GENERATED_FLOWS
        assert set(decoded.counters) <= {"counter_sample"}
        assert {flow["sampling_rate"] for flow in decoded.flows} == {1000}


# The program ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traffic() -> list[Packet]:
    return vary(make.make_packets(30))


def export(folder: Path, traffic: list[Packet], version: str, *options: str) -> list[bytes]:
    need("softflowd")
    wrpcap(str(folder / "traffic.pcap"), traffic)
    with Collectors("softflowd") as collectors:
        target = collectors["softflowd"].address
        command = ["softflowd", "-r", "traffic.pcap", "-a", "-d", "-n", target, "-v", version, *options]
        with running(command, folder / "log") as process:
            assert collectors.receive_until(lambda: process.poll() is not None), (folder / "log").read_text()
        collectors.receive()
        return collectors["softflowd"].datagrams


@each_version
def test_totals_match_the_packets(protocol: str, traffic: list[Packet], tmp_path: Path) -> None:
    datagrams = export(tmp_path, traffic, make.SOFTFLOWD_VERSIONS[protocol])
    check_totals(protocol, decode(datagrams), traffic)


def test_netflow1_totals_match_the_packets(traffic: list[Packet], tmp_path: Path) -> None:
    """NetFlow v1 records have 48 bytes. Like NetFlow v5, it has no IPv6."""
    datagrams = export(tmp_path, traffic, "1")
    assert {(len(datagram) - 16) / int.from_bytes(datagram[2:4], "big") for datagram in datagrams} == {48}
    check_totals("netflow1", decode(datagrams), traffic)


def test_ipfix_over_tcp(traffic: list[Packet], tmp_path: Path) -> None:
    """softflowd connects to a collector. No message is missing, also by its sequence numbers."""
    need("softflowd")
    wrpcap(str(tmp_path / "traffic.pcap"), traffic)
    with Collector(["tcp://127.0.0.1:0"]) as collector:
        target = collector.addresses[0].removeprefix("tcp://")
        command = ["softflowd", "-r", "traffic.pcap", "-a", "-d", "-n", target, "-v", "10", "-P", "tcp"]
        with running(command, tmp_path / "log") as process:
            assert process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
        wait_until(lambda: sessions_of(collector.counters).closed == {"ended": 1}, "the end of the session")
    flows = [row for batch in collector for row in batch.text().to_arrow().to_pylist()]
    assert collector.counters.statuses == {}
    assert totals_of_flows(flows) == totals_of_packets(traffic, length=lambda packet: len(network(packet)))


@each_with_templates
def test_link_layer_matches_the_packets(protocol: str, traffic: list[Packet], tmp_path: Path) -> None:
    decoded = decode(export(tmp_path, traffic, make.SOFTFLOWD_VERSIONS[protocol], "-T", "ether"))
    check_totals(protocol, decoded, traffic)
    assert set(map(link_layer_of_flow, decoded.flows)) == set(map(link_layer_of_packet, traffic))


@each_with_templates
@pytest.mark.parametrize(("unit", "resolution"), [("sec", 1000), ("milli", 1), ("micro", 1), ("nano", 1)])
def test_times_match_the_first_and_the_last_packet(
    protocol: str, unit: str, resolution: int, traffic: list[Packet], tmp_path: Path
) -> None:
    """softflowd keeps one pair of times for both directions.

    The times are seconds, milliseconds, or 64-bit fractions of seconds.
    """
    decoded = decode(export(tmp_path, traffic, make.SOFTFLOWD_VERSIONS[protocol], "-A", unit))
    assert spans(
        (ends(flow), flow[time]) for flow in decoded.flows for time in ("time_flow_start", "time_flow_end")
    ) == spans((ends(packet), int(packet.time * 1000) // resolution * resolution) for packet in traffic)


@each_with_templates
def test_sampled_flows_have_the_sampling_rate(protocol: str, traffic: list[Packet], tmp_path: Path) -> None:
    """softflowd samples systematically: the first packet, and every SAMPLING-th packet after it."""
    decoded = decode(export(tmp_path, traffic, make.SOFTFLOWD_VERSIONS[protocol], "-s", str(SAMPLING)))
    check_totals(protocol, decoded, traffic[::SAMPLING])
    assert {flow["sampling_rate"] for flow in decoded.flows} == {SAMPLING}


def test_biflows_are_two_flows(traffic: list[Packet], tmp_path: Path) -> None:
    """The second direction has no VLAN: softflowd reports 0 as its destination VLAN."""
    decoded = decode(export(tmp_path, traffic, "10", "-b", "-T", "ether"))
    assert decoded.counters.pop("biflow") > 0
    check_totals("ipfix", decoded, traffic)
    flows = {link_layer_of_flow(flow)[:3] for flow in decoded.flows}
    assert flows == {link_layer_of_packet(packet)[:3] for packet in traffic}


@pytest.mark.parametrize("sampling", [1, SAMPLING])
def test_psamp_records_match_the_packets(sampling: int, traffic: list[Packet], tmp_path: Path) -> None:
    """PSAMP is IPFIX with one record per packet, which contains the first bytes of the packet."""
    datagrams = export(tmp_path, traffic, "psamp", "-s", str(sampling))
    decoded = decode(datagrams)
    assert decoded.counters == {}
    expected = [headers_of_packet(packet) for packet in traffic[::sampling]]
    assert [
        {name: flow.get(name, 0) for name in packet}
        for flow, packet in zip(decoded.flows, expected, strict=True)
    ] == expected
    assert counted_by_flowbuf(datagrams) == counted_by_exporter(datagrams) > 0


@pytest.mark.parametrize(("version", "sampling"), [("5", "1"), ("9", "1"), ("10", "1"), ("psamp", "4")])
def test_flowbuf_agrees_with_tshark(
    version: str, sampling: str, traffic: list[Packet], tmp_path: Path
) -> None:
    need("tshark")
    datagrams = export(tmp_path, traffic, version, "-T", "ether", "-s", sampling)
    make.write_datagrams(tmp_path / "sent.pcap", datagrams, make.START)
    assert check_against_tshark(tmp_path / "sent.pcap", {2055: "cflow"}) > 0


# Options data -----------------------------------------------------------------------------------------------


def sampling_of_options(protocol: str, sampling: int) -> dict[str, int]:
    if protocol == "netflow9":
        return {"scope_interface": 0, "sampling_interval": sampling, "sampling_mode": 1}
    return {"sampling_packet_interval": 1, "sampling_packet_space": sampling - 1, "selector_algorithm": 1}


@each_with_templates
@pytest.mark.parametrize("sampling", [1, SAMPLING])
def test_options_agree_with_tshark(
    protocol: str, sampling: int, traffic: list[Packet], tmp_path: Path
) -> None:
    """softflowd describes its sampling and its interface: here, the capture."""
    need("tshark")
    datagrams = export(tmp_path, traffic, make.SOFTFLOWD_VERSIONS[protocol], "-s", str(sampling))
    make.write_datagrams(tmp_path / "sent.pcap", datagrams, make.START)
    (row,) = check_options_against_tshark(tmp_path / "sent.pcap")
    expected = {"interface_name": "traffic.pcap", **sampling_of_options(protocol, sampling)}
    assert {name: row.get(name) for name in expected} == expected
    if protocol == "ipfix":
        began = datetime.fromisoformat(row["system_init_time_milliseconds"].replace("Z", "+00:00"))
        assert began.timestamp() == pytest.approx(float(min(packet.time for packet in traffic)), abs=0.001)
        assert row["metering_process_id"] > 1


# The kernel hands packets to softflowd in blocks of 128 KiB. The script sends enough for several blocks.
LIVE = """
set -e
ip link set lo up
"$@" -m flowbuf collect --listen 127.0.0.1:2055 --columns "$COLUMNS" -o - >flows.jsonl 2>log &
collector=$!
until grep -q "listening on" log; do sleep 0.05; done
softflowd -i 7:lo -d -n 127.0.0.1:2055 -v "$VERSION" -c control -p pid "udp port 9" 2>softflowd.log &
until [ -S control ]; do sleep 0.05; done
"$@" -c 'import socket
for _ in range(4000): socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(200), ("127.0.0.1", 9))'
softflowctl -c control expire-all
softflowctl -c control shutdown
kill -TERM $collector
wait $collector
"""


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), [("9", "lo"), ("10", None)])
def test_flows_of_an_interface_have_its_name(version: str, name: str | None, tmp_path: Path) -> None:
    """NetFlow v9 of softflowd names an interface by its index. IPFIX has a name without an index."""
    need("softflowd", "softflowctl")
    columns = ("in_if", "out_if", "dst_port", "in_if_name", "out_if_name")
    environment = {"VERSION": version, "COLUMNS": ",".join(columns)}
    command = [*own_network(), "sh", "-c", LIVE, "sh", sys.executable]
    with running(command, tmp_path / "script.log", environment) as process:
        assert process.wait(PATIENCE) == 0, (tmp_path / "script.log").read_text()
    flows = [json.loads(line) for line in (tmp_path / "flows.jsonl").read_text().splitlines()]
    assert flows
    named = {"in_if_name": name, "out_if_name": name} if name else {}
    assert flows == [{"in_if": 7, "out_if": 7, "dst_port": 9, **named}] * len(flows)
