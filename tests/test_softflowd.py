"""A real exporter: softflowd reads packets and reports flows; flowbuf's totals are those of the packets."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from reference.wire import decode_message
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap

from flowbuf import Decoder, Schema, _core

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))
import make  # noqa: E402

FLOW = Schema.load("flow").enable("time_flow_start", "time_flow_end")
COLUMNS = {column.number: column for column in FLOW.enabled}
VERSIONS = {"netflow5": 2, "netflow9": 3, "ipfix": 4}


@pytest.fixture(scope="module")
def traffic() -> list[Any]:
    return list(rdpcap(io.BytesIO(gzip.decompress((DATA / "traffic.pcap.gz").read_bytes()))))


def decode(payloads: list[bytes]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    decoder = Decoder(FLOW)
    messages = [message for payload in payloads for message in decoder.messages(payload, "192.0.2.1", 1.0)]
    return [decode_message(COLUMNS, message) for message in messages], decoder.counters


def check(protocol: str, flows: list[dict[str, Any]], counters: dict[str, int], traffic: list[Any]) -> None:
    """NetFlow v5 has no IPv6: softflowd leaves those packets out of it."""
    seen = [packet for packet in traffic if IP in packet or protocol != "netflow5"]
    assert counters == {}
    assert {flow["flow_type"] for flow in flows} == {VERSIONS[protocol]}
    assert sum(flow["packets"] for flow in flows) == len(seen)
    assert sum(flow["bytes"] for flow in flows) == sum(len(packet.payload) for packet in seen)
    for etype, layer in ((0x0800, IP), (0x86DD, IPv6)):
        packets = sum(flow["packets"] for flow in flows if flow["etype"] == etype)
        assert packets == sum(layer in packet for packet in seen)
    hosts = {flow["src_addr"][-4:] for flow in flows if flow["etype"] == 0x0800}
    assert hosts == {bytes(map(int, packet[IP].src.split("."))) for packet in seen if IP in packet}


@pytest.mark.parametrize("protocol", VERSIONS)
def test_shipped_captures_hold_the_traffic(protocol: str, traffic: list[Any]) -> None:
    _, status, batch = _core.Capture().scan((DATA / f"softflowd-{protocol}.pcap").read_bytes(), True)
    assert status == "end"
    flows, counters = decode([batch[i][0] for i in range(len(batch))])
    check(protocol, flows, counters, traffic)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_a_softflowd_of_today_agrees(protocol: str, traffic: list[Any], tmp_path: Path) -> None:
    if not shutil.which("softflowd"):
        pytest.skip("softflowd is not installed")
    packets = tmp_path / "traffic.pcap"
    packets.write_bytes(gzip.decompress((DATA / "traffic.pcap.gz").read_bytes()))
    flows, counters = decode(make.export(packets, make.SOFTFLOWD_VERSIONS[protocol]))
    check(protocol, flows, counters, traffic)
    if protocol == "ipfix":
        begin, end = (int(packet.time * 1000) for packet in (traffic[0], traffic[-1]))
        starts = [flow["time_flow_start"] for flow in flows]
        assert begin - 1000 <= min(starts)
        assert max(starts) <= end + 1000


def test_generated_captures_hold_what_was_asked_for() -> None:
    for protocol in make.PROTOCOLS:
        _, _, batch = _core.Capture().scan((DATA / f"generated-{protocol}.pcap").read_bytes(), True)
        flows, counters = decode([batch[i][0] for i in range(len(batch))])
        assert len(flows) == make.GENERATED_FLOWS
        assert set(counters) <= {"counter_sample"}
        assert {flow["sampling_rate"] for flow in flows} == {1000}
