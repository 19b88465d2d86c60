"""Flows that other collectors decoded from the captures of the corpus, and flowbuf's flows in a comparable
form.

A flow of flowbuf is a dict of column -> value without absent columns. Addresses are text (IPv4 dotted, also
if IPv4-mapped). MAC addresses are `aa:bb:cc:dd:ee:ff`, enums are names of the schema, times are in ms. A flow
of a collector keeps the collector's field names. Its `fields` give the column and the conversion of each
field. A column in none of its fields does not exist in the collector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import flowbuf
from flowbuf import _core
from tests.support.datagrams import flow_sample, sampled_header, sflow

Flow = dict[str, Any]

SCHEMA = flowbuf.Schema.load("flow").switch(
    enable=[column.name for column in flowbuf.Schema.load("flow") if column.sources]
)
"""All columns that a datagram can fill."""


# flowbuf ----------------------------------------------------------------------------------------------------


@dataclass
class Decoded:
    flows: list[Flow]
    stats: dict[str, dict[str, Any]]
    counters: dict[str, int]

    def total(self, name: str) -> int:
        return sum(exporter[name] for exporter in self.stats.values())


def decode_capture(path: Path, decapsulate: tuple[str, ...] = ()) -> Decoded:
    """Return the flows of a capture, parsed by google.protobuf."""
    octets = path.read_bytes()
    consumed, status, datagrams = _core.Capture().scan(octets, True)
    assert (consumed, status) == (len(octets), "end")
    decoder = flowbuf.Decoder(SCHEMA, decapsulate=decapsulate)
    stream = decoder.encode_datagrams(datagrams)
    return Decoded([read_flow(message) for message in split_stream(stream)], decoder.stats, decoder.counters)


def decode_frames(path: Path, decapsulate: tuple[str, ...] = ()) -> list[Flow]:
    """Return the flow of each Ethernet frame of a capture, as if sFlow had sampled the frame."""
    return [decode_frame(frame, decapsulate) for frame in read_frames(path.read_bytes())]


def decode_frame(frame: bytes, decapsulate: tuple[str, ...]) -> Flow:
    datagram = sflow(flow_sample(sampled_header(frame, frame_length=len(frame))))
    decoder = flowbuf.Decoder(SCHEMA, decapsulate=decapsulate)
    (message,) = decoder.messages(datagram, source="192.0.2.1", received=0)
    flow = read_flow(message)
    assert ("tunnel_src_addr" in flow) == (bool(decapsulate) and not decoder.counters.get("not_encapsulated"))
    return flow


def read_frames(pcap: bytes) -> Iterator[bytes]:
    """Yield the frames of a little-endian pcap file, which has a 24-byte header and 16 bytes before each
    frame.
    """
    position = 24
    while position < len(pcap):
        size = int.from_bytes(pcap[position + 8 : position + 12], "little")
        yield pcap[position + 16 : position + 16 + size]
        position += 16 + size


def split_stream(stream: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(stream):
        size = shift = 0
        while True:
            octet = stream[position]
            position += 1
            size |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                break
        yield stream[position : position + size]
        position += size
    assert position == len(stream)


MESSAGE = SCHEMA.message_class()


def read_flow(octets: bytes) -> Flow:
    message = MESSAGE.FromString(octets)
    return {descriptor.name: read_value(descriptor, value) for descriptor, value in message.ListFields()}


def read_value(descriptor: Any, value: Any) -> Any:
    column = SCHEMA[descriptor.name]
    if column.repeated:
        return [read_scalar(column, member) for member in value]
    return read_scalar(column, value)


def read_scalar(column: Any, value: Any) -> Any:
    if column.type == "ip":
        return address(str(ip_address(value)))
    if column.type == "mac":
        return mac(value)
    if column.type == "bytes":
        return value.hex()
    if column.type == "enum":
        return next(name for name, number in column.values.items() if number == value)
    return value


# Readers of single values -----------------------------------------------------------------------------------


def same(value: Any) -> Any:
    return value


def address(text: str) -> str:
    """Return an IPv4-mapped address as IPv4. Collectors differ in the form only (corpus README, 13)."""
    parsed = ip_address(text)
    return str((parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed)


def mac(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")


def milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 10**6


def is_zero_address(text: Any) -> bool:
    return text in ("0.0.0.0", "::")


# Collectors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A collector's field: its column, the conversion of its value, and flowbuf's value in the same form."""

    column: str
    read: Callable[[Any], Any] = same
    ours: Callable[[Flow], Any] | None = None

    def of(self, flow: Flow) -> Any:
        return self.ours(flow) if self.ours else flow.get(self.column)


@dataclass(frozen=True)
class Collector:
    name: str
    fields: dict[str, Field]
    # Fields of layers that flowbuf's flows do not have.
    ignored: frozenset[str] = field(default_factory=frozenset)
    # Tunnels that were opened, and the collector's name for this mode.
    decapsulate: tuple[str, ...] = ()
    mode: str = ""
    read_records: Callable[[Path], Iterator[Flow]] = lambda path: read_lines(path)
    suffix: str = "jsonl"
    file: str = ""  # name in the files, if it is not `name`

    def path(self, corpus: Path, capture: str) -> Path:
        return corpus / f"{capture}.{self.file or self.name}.{self.suffix}"

    @property
    def id(self) -> str:
        return f"{self.name}-{self.mode}" if self.mode else self.name

    def flows(self, corpus: Path, capture: str) -> list[Flow]:
        return [self.convert(record) for record in self.read_records(self.path(corpus, capture))]

    def convert(self, record: Flow) -> Flow:
        """Convert a record. Raise KeyError for an unknown field, because nothing would compare it."""
        return {
            name: self.fields[name].read(value) for name, value in record.items() if name not in self.ignored
        }


def read_lines(path: Path) -> Iterator[Flow]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


GOFLOW2_LAYERS = {
    "Ethernet": "ethernet", "IPv4": "ipv4", "IPv6": "ipv6", "TCP": "tcp", "UDP": "udp", "MPLS": "mpls",
    "Dot1Q": "dot1q", "ICMP": "icmp", "ICMPv6": "icmpv6", "GRE": "gre", "IPv6HeaderRouting": "ipv6_routing",
}  # fmt: skip


def addresses(texts: list[str]) -> list[str]:
    return [address(text) for text in texts]


# GoFlow2: field names of its flow.proto; zero is absent, except in addresses.
GOFLOW2 = Collector(
    "goflow2",
    {
        "type": Field("flow_type"),
        "time_received_ns": Field("time_received", milliseconds),
        "time_flow_start_ns": Field("time_flow_start", milliseconds),
        "time_flow_end_ns": Field("time_flow_end", milliseconds),
        "sequence_num": Field("sequence_number"),
        "sampling_rate": Field("sampling_rate"),
        "sampler_address": Field("exporter_address", address),
        "bytes": Field("bytes"),
        "packets": Field("packets"),
        "src_addr": Field("src_addr", address),
        "dst_addr": Field("dst_addr", address),
        "etype": Field("etype"),
        "proto": Field("proto"),
        "src_port": Field("src_port"),
        "dst_port": Field("dst_port"),
        "in_if": Field("in_if"),
        "out_if": Field("out_if"),
        "src_mac": Field("src_mac", mac),
        "dst_mac": Field("dst_mac", mac),
        "src_vlan": Field("src_vlan"),
        "dst_vlan": Field("dst_vlan"),
        "vlan_id": Field("vlan_id"),
        "ip_tos": Field("ip_tos"),
        "ip_ttl": Field("ip_ttl"),
        "ip_flags": Field("ip_flags"),
        "fragment_id": Field("ip_fragment_id"),
        "fragment_offset": Field("ip_fragment_offset"),
        "ipv6_flow_label": Field("ipv6_flow_label"),
        "tcp_flags": Field("tcp_flags"),
        "icmp_type": Field("icmp_type"),
        "icmp_code": Field("icmp_code"),
        "forwarding_status": Field("forwarding_status"),
        "src_as": Field("src_as"),
        "dst_as": Field("dst_as"),
        "src_net": Field("src_prefix_len"),
        "dst_net": Field("dst_prefix_len"),
        "next_hop": Field("next_hop", address),
        "next_hop_as": Field("next_hop_as"),
        "bgp_next_hop": Field("bgp_next_hop", address),
        "bgp_communities": Field("dst_communities"),
        "as_path": Field("dst_as_path"),
        "mpls_label": Field("mpls_labels"),
        "mpls_ttl": Field("mpls_ttl"),
        # One address each from elements 47 and 140.
        "mpls_ip": Field(
            "mpls_top_addr",
            addresses,
            lambda flow: [flow["mpls_top_addr"]] if "mpls_top_addr" in flow else None,
        ),
        "observation_domain_id": Field("observation_domain_id"),
        "observation_point_id": Field("observation_point_id"),
        "layer_stack": Field("layer_stack", lambda names: [GOFLOW2_LAYERS[name] for name in names]),
        "layer_size": Field("layer_size"),
        "ipv6_routing_header_addresses": Field("ipv6_routing_header_addresses", addresses),
    },
)


def icmp(column: str, proto: int) -> Field:
    return Field(column, ours=lambda flow: flow.get(column) if flow.get("proto") == proto else None)


# Akvorado: column names of its ClickHouse schema; integers are never zero, addresses can be.
AKVORADO = Collector(
    "akvorado",
    {
        "TimeReceived": Field("time_received", ours=lambda flow: flow["time_received"] // 1000),
        "ExporterAddress": Field("exporter_address", address),
        "SamplingRate": Field("sampling_rate"),
        "Bytes": Field("bytes"),
        "Packets": Field("packets"),
        "SrcAddr": Field("src_addr", address),
        "DstAddr": Field("dst_addr", address),
        "EType": Field("etype"),
        "Proto": Field("proto"),
        "SrcPort": Field("src_port"),
        "DstPort": Field("dst_port"),
        "InIf": Field("in_if"),
        "OutIf": Field("out_if"),
        "SrcAS": Field("src_as"),
        "DstAS": Field("dst_as"),
        "SrcNetMask": Field("src_prefix_len"),
        "DstNetMask": Field("dst_prefix_len"),
        "NextHop": Field("next_hop", address),
        "DstASPath": Field("dst_as_path"),
        "DstCommunities": Field("dst_communities"),
        "ForwardingStatus": Field("forwarding_status"),
        "FlowDirection": Field("flow_direction", lambda name: None if name == "undefined" else name),
        "SrcVlan": Field("src_vlan"),
        "DstVlan": Field("dst_vlan"),
        "SrcMAC": Field("src_mac"),
        "DstMAC": Field("dst_mac"),
        "IPTTL": Field("ip_ttl"),
        "IPTos": Field("ip_tos"),
        "IPFragmentID": Field("ip_fragment_id"),
        "IPFragmentOffset": Field("ip_fragment_offset"),
        "IPv6FlowLabel": Field("ipv6_flow_label"),
        "TCPFlags": Field("tcp_flags"),
        "ICMPv4Type": icmp("icmp_type", 1),
        "ICMPv4Code": icmp("icmp_code", 1),
        "ICMPv6Type": icmp("icmp_type", 58),
        "ICMPv6Code": icmp("icmp_code", 58),
        "MPLSLabels": Field("mpls_labels"),
        "IngressVRFID": Field("ingress_vrf_id"),
        "EgressVRFID": Field("egress_vrf_id"),
        "SrcAddrNAT": Field("src_addr_nat", address),
        "DstAddrNAT": Field("dst_addr_nat", address),
        "SrcPortNAT": Field("src_port_nat"),
        "DstPortNAT": Field("dst_port_nat"),
    },
)


# The same with the decapsulation that fits, where one does.
AKVORADO_DECAPSULATED = replace(AKVORADO, mode="decap", decapsulate=("all",), file="akvorado-decap")


# Packets ----------------------------------------------------------------------------------------------------
# Ethernet frames, one by one: goldens of the parsers of GoFlow2 and Akvorado, and of TShark.


def chosen(fields: dict[str, Field], names: str) -> dict[str, Field]:
    return {name: fields[name] for name in names.split()}


GOFLOW2_PACKETS = Collector(
    "goflow2",
    chosen(
        GOFLOW2.fields,
        "src_addr dst_addr etype proto src_port dst_port src_mac dst_mac vlan_id ip_tos ip_ttl ip_flags "
        "fragment_id fragment_offset ipv6_flow_label tcp_flags icmp_type icmp_code mpls_label mpls_ttl "
        "layer_stack layer_size ipv6_routing_header_addresses",
    ),
    ignored=frozenset({"packet"}),
)


def read_mode(mode: str) -> Callable[[Path], Iterator[Flow]]:
    """Return a reader of goldens for one decapsulation mode of Akvorado.

    Akvorado drops frames without this encapsulation. For these, the reader yields the golden without
    decapsulation, with `opened` false.
    """

    def read(path: Path) -> Iterator[Flow]:
        plain: Flow = {}
        for frame in read_lines(path):
            if frame["decapsulation"] == "none":
                plain = frame
            if frame["decapsulation"] == mode:
                opened = mode != "none" and frame["l3_length"] != 0
                yield (frame if opened else plain) | {"opened": opened}

    return read


AKVORADO_PACKETS = tuple(
    Collector(
        "akvorado",
        {
            **chosen(
                AKVORADO.fields,
                "SrcAddr DstAddr EType Proto SrcPort DstPort SrcVlan DstVlan SrcMAC DstMAC IPTTL IPTos "
                "IPFragmentID IPFragmentOffset IPv6FlowLabel TCPFlags ICMPv4Type ICMPv4Code ICMPv6Type "
                "ICMPv6Code MPLSLabels",
            ),
            "l3_length": Field("bytes", lambda length: length or None),
            "opened": Field("tunnel_src_addr", ours=lambda flow: "tunnel_src_addr" in flow),
        },
        ignored=frozenset({"packet", "decapsulation"}),
        decapsulate=() if mode == "none" else (mode,),
        mode="" if mode == "none" else mode,
        read_records=read_mode(mode),
    )
    for mode in ("none", "ipip", "gre", "vxlan", "srv6")
)

FAMILIES = {"ip": 0x0800, "ipv6": 0x86DD}
PAYLOADS = {"icmp": 1, "ip": 4, "tcp": 6, "udp": 17, "ipv6": 41, "gre": 47}


def tshark_frames(path: Path) -> Iterator[Flow]:
    """Yield the outermost IP header of each frame, with the headers around it."""
    for line in path.read_text().splitlines()[1:]:
        layers = line.split("\t")[2].split(":")
        network = next((layer for layer in layers if layer in FAMILIES), None)
        above = layers[layers.index(network) + 1 :] if network else []
        payload = next((layer for layer in above if not layer.startswith("ipv6.")), None)
        yield {
            "etype": FAMILIES.get(network or ""),
            "proto": PAYLOADS[payload] if payload else None,
            "tagged": "vlan" in layers,
            "labelled": "mpls" in layers,
        }


TSHARK_PACKETS = Collector(
    "tshark",
    {
        "etype": Field("etype", ours=lambda flow: flow["etype"] if "src_addr" in flow else None),
        "proto": Field("proto"),
        "tagged": Field("vlan_id", ours=lambda flow: "vlan_id" in flow),
        "labelled": Field("mpls_labels", ours=lambda flow: "mpls_labels" in flow),
    },
    read_records=tshark_frames,
    suffix="txt",
)


# TShark over captures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TSharkTotals:
    """Totals of TShark for a capture: records (options included), sFlow samples, templates of both kinds."""

    datagrams: int
    records: int
    samples: int
    templates: int


def tshark_totals(path: Path) -> TSharkTotals:
    text = path.read_text()
    (total,) = re.findall(r"# total: (\d+) flow datagrams, \d+ sets, (\d+) records .*, (\d+) samples", text)
    datagrams, records, samples = map(int, total)
    ids = [
        each for group in re.findall(r"(?:data|options) template ([\d,]+)", text) for each in group.split(",")
    ]
    return TSharkTotals(datagrams, records, samples, templates=len(ids))
