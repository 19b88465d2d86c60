"""Tools for tests with real exporters: known traffic, sockets, processes, and totals."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

import flowbuf
from tests.support.goldens import SCHEMA, Decoded, Flow, read_flow

SOURCE = ("127.0.0.1", 2055)
PATIENCE = 60.0
"""Seconds that an exporter may take for an operation of about two seconds."""

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
"""Search path for exporters. Some users' PATH lacks the folders of system programs."""


def need(*programs: str) -> None:
    """Skip the test unless all programs are installed."""
    if missing := [program for program in programs if shutil.which(program, path=PATH) is None]:
        pytest.skip(f"{' and '.join(missing)}: not installed")


# Traffic ----------------------------------------------------------------------------------------------------

Key: TypeAlias = tuple[int, str, str, int, int, int]
"""Ethertype, addresses, protocol and ports (0 for protocols without ports)."""

Totals: TypeAlias = dict[Key, tuple[int, int]]
"""Packets and bytes."""

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
TCP_FLAGS = ("S", "PA", "A", "PAU")


def vary(packets: Sequence[Packet]) -> list[Packet]:
    """Add TCP flags, a MAC address per side, VLAN tags on every third conversation, and padding."""
    return [vary_packet(packet, index) for index, packet in enumerate(packets)]


def vary_packet(packet: Packet, index: int) -> Packet:
    layers = packet.payload.copy()
    if TCP in layers:
        layers[TCP].flags = TCP_FLAGS[index % 4]
    ends = sum(layers.src.encode() + layers.dst.encode())
    macs = MACS if layers.src < layers.dst else MACS[::-1]
    frame = Ether(src=macs[0], dst=macs[1])
    if ends % 3 == 0:
        frame = frame / Dot1Q(prio=5, vlan=100 + ends % 2)
    octets = bytes(frame / layers)
    varied = Ether(octets + bytes(max(0, 60 - len(octets))))
    varied.time = packet.time
    return varied


def network(packet: Packet) -> Packet:
    return packet[IP] if IP in packet else packet[IPv6]


def ip_length(packet: Packet) -> int:
    """Return the length of the IP packet, without the padding of the frame."""
    layer = network(packet)
    return int(layer.len if IP in packet else 40 + layer.plen)


def transport(packet: Packet) -> int:
    return int(packet[IP].proto if IP in packet else packet[IPv6].nh)


def key(packet: Packet) -> Key:
    layer = network(packet)
    ports = next((packet[each] for each in (TCP, UDP) if each in packet), None)
    source, destination = (int(ports.sport), int(ports.dport)) if ports else (0, 0)
    return (0x0800 if IP in packet else 0x86DD, layer.src, layer.dst, transport(packet), source, destination)


def totals_of_packets(packets: Iterable[Packet], length: Callable[[Packet], int] = ip_length) -> Totals:
    return add_up((key(packet), 1, length(packet)) for packet in packets)


def totals_of_flows(flows: Iterable[Flow]) -> Totals:
    return add_up((key_of_flow(flow), flow.get("packets", 0), flow.get("bytes", 0)) for flow in flows)


def key_of_flow(flow: Flow) -> Key:
    ported = flow["proto"] in (6, 17)
    ports = (flow.get("src_port", 0), flow.get("dst_port", 0)) if ported else (0, 0)
    return (flow["etype"], flow["src_addr"], flow["dst_addr"], flow["proto"], *ports)


def add_up(rows: Iterable[tuple[Key, int, int]]) -> Totals:
    packets: Counter[Key] = Counter()
    octets: Counter[Key] = Counter()
    for each, count, size in rows:
        packets[each] += count
        octets[each] += size
    return {each: (packets[each], octets[each]) for each in packets}


def tcp_flags_of_packets(packets: Iterable[Packet]) -> dict[Key, int]:
    """Return all TCP flags of a conversation's packets in one direction."""
    seen: dict[Key, int] = {}
    for packet in packets:
        if TCP in packet:
            seen[key(packet)] = seen.get(key(packet), 0) | int(packet[TCP].flags)
    return seen


def tcp_flags_of_flows(flows: Iterable[Flow]) -> dict[Key, int]:
    seen: dict[Key, int] = {}
    for flow in flows:
        if flow["proto"] == 6:
            seen[key_of_flow(flow)] = seen.get(key_of_flow(flow), 0) | flow.get("tcp_flags", 0)
    return seen


Ends: TypeAlias = frozenset[tuple[str, int]]
"""The two ends of a conversation, without its direction."""


def ends(each: Packet | Flow) -> Ends:
    _, source, destination, _, source_port, destination_port = (
        key_of_flow(each) if isinstance(each, dict) else key(each)
    )
    return frozenset({(source, source_port), (destination, destination_port)})


def spans(rows: Iterable[tuple[Ends, int]]) -> dict[Ends, tuple[int, int]]:
    """Return the earliest and the latest time of each conversation."""
    earliest: dict[Ends, int] = {}
    latest: dict[Ends, int] = {}
    for each, instant in rows:
        earliest[each] = min(instant, earliest.get(each, instant))
        latest[each] = max(instant, latest.get(each, instant))
    return {each: (earliest[each], latest[each]) for each in earliest}


LinkLayer: TypeAlias = tuple[Key, str, str, int]
"""MAC addresses, and the VLAN or 0."""


def link_layer_of_packet(packet: Packet) -> LinkLayer:
    return (key(packet), packet.src, packet.dst, packet[Dot1Q].vlan if Dot1Q in packet else 0)


def link_layer_of_flow(flow: Flow) -> LinkLayer:
    return (key_of_flow(flow), flow["src_mac"], flow["dst_mac"], flow.get("vlan_id", 0))


def headers_of_packet(packet: Packet) -> Flow:
    """Return the columns of a sampled packet, as scapy parses it."""
    layer, four = network(packet), IP in packet
    etype, source, destination, proto, *ports = key(packet)
    tag = packet[Dot1Q].vlan if Dot1Q in packet else 0
    echo = ICMP if four else ICMPv6EchoRequest
    columns = {
        "etype": etype,
        "src_addr": source,
        "dst_addr": destination,
        "proto": proto,
        "src_port": ports[0],
        "dst_port": ports[1],
        "packets": 1,
        "bytes": ip_length(packet),
        "src_mac": packet.src,
        "dst_mac": packet.dst,
        "vlan_id": tag,
        "ip_ttl": layer.ttl if four else layer.hlim,
        "ip_tos": layer.tos if four else layer.tc,
        "ip_fragment_id": layer.id if four else 0,
        "ip_flags": int(layer.flags) if four else 0,
        "ipv6_flow_label": 0 if four else layer.fl,
        "tcp_flags": int(packet[TCP].flags) if TCP in packet else 0,
        "icmp_type": packet[echo].type if echo in packet else 0,
    }
    return {name: value for name, value in columns.items() if value}


# Sockets ----------------------------------------------------------------------------------------------------


class Collector:
    """A UDP socket on a free port, with the datagrams that it received."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setblocking(False)
        self.socket.bind(("127.0.0.1", 0))
        self.datagrams: list[bytes] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def receive(self) -> None:
        """Receive all datagrams that have arrived."""
        try:
            while True:
                self.datagrams.append(self.socket.recv(65535))
        except BlockingIOError:
            return


class Collectors(dict[str, Collector]):
    """Several collectors by name. They are closed at the end of the `with` block."""

    def __init__(self, *names: str) -> None:
        super().__init__((name, Collector()) for name in names)

    def __enter__(self) -> Collectors:
        return self

    def __exit__(self, *_: object) -> None:
        for collector in self.values():
            collector.socket.close()

    def receive(self, seconds: float = 0.0) -> None:
        """Wait up to `seconds` for a datagram, then receive all."""
        select.select([collector.socket for collector in self.values()], [], [], seconds)
        for collector in self.values():
            collector.receive()

    def receive_until(self, done: Callable[[], bool]) -> bool:
        """Receive until `done` returns True. Return False if PATIENCE ends first."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                return False
            self.receive(0.05)
        return True


# Processes --------------------------------------------------------------------------------------------------


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process and its children until the end of the `with` block. Their output is in `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env={**os.environ, "PATH": PATH, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def has_ended(group: int) -> bool:
    """Return whether a process group has ended. Some processes do not wait for their children."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, its_group, *_ = path.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state != "Z":
                return False
    return True


# Flows ------------------------------------------------------------------------------------------------------


def decode(datagrams: Iterable[bytes], **options: Any) -> Decoded:
    """Decode datagrams to all columns, with messages parsed by google.protobuf."""
    decoder = flowbuf.Decoder(SCHEMA, **options)
    flows = [read_flow(message) for each in datagrams for message in decoder.messages(each, SOURCE, 1.0)]
    return Decoded(flows, decoder.stats, decoder.counters)


def without_sequence_notes(counters: dict[str, int]) -> dict[str, int]:
    """Return the counters without notes about sequence numbers, for exporters with a wrong numbering."""
    notes = ("sequence_gap", "sample_gap", "out_of_sequence", "exporter_restart")
    return {name: count for name, count in counters.items() if name not in notes}


def counted_by_exporter(datagrams: Sequence[bytes]) -> int:
    """Return the number of flows, options records, templates and samples that the headers announce.

    Headers of NetFlow v5, v9 and sFlow have the count of their own datagram. IPFIX headers count the records
    before the datagram, so the last datagram is not included.
    """
    where = {5: slice(2, 4), 9: slice(2, 4), 0: slice(24, 28)}.get(
        version(datagrams)
    )  # sFlow with an IPv4 agent
    if where:
        return sum(int.from_bytes(each[where], "big") for each in datagrams)
    first, last = (int.from_bytes(each[8:12], "big") for each in (datagrams[0], datagrams[-1]))
    return last - first


def counted_by_flowbuf(datagrams: Sequence[bytes]) -> int:
    """Return the same number, counted by flowbuf."""
    decoded = decode(datagrams[:-1] if version(datagrams) == 10 else datagrams)
    records = (
        len(decoded.flows) + decoded.total("options_records") + decoded.counters.get("counter_sample", 0)
    )
    return records + (decoded.total("templates") if version(datagrams) == 9 else 0)


def version(datagrams: Sequence[bytes]) -> int:
    """Return the version of the protocol. 0 is sFlow."""
    return int.from_bytes(datagrams[0][:2], "big")
