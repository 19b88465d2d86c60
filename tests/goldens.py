"""What other collectors made of the captures of the corpus, and flowbuf's own flows in a form to compare them with.

A flow of flowbuf is a dict of column -> value, absent columns left out: addresses as text (IPv4 dotted, whatever their
length on the wire), MAC addresses as `aa:bb:cc:dd:ee:ff`, enums by the names of the schema, times in ms. A flow of a
collector keeps the collector's own field names; its `fields` say which column each of them is, and how it is read. A
column that none of its fields names is one the collector does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import flowbuf
from flowbuf import _core

Flow = dict[str, Any]

SCHEMA = flowbuf.Schema.load("flow").switch(
    enable=[column.name for column in flowbuf.Schema.load("flow") if column.sources]
)
"""Every column that the wire can fill."""


# flowbuf ---------------------------------------------------------------------------------------------------------------


@dataclass
class Decoded:
    flows: list[Flow]
    stats: dict[str, dict[str, Any]]
    counters: dict[str, int]

    def total(self, name: str) -> int:
        return sum(exporter[name] for exporter in self.stats.values())


def decode_capture(path: Path) -> Decoded:
    """The flows of a capture, read by google.protobuf."""
    octets = path.read_bytes()
    consumed, status, datagrams = _core.Capture().scan(octets, True)
    assert (consumed, status) == (len(octets), "end")
    decoder = flowbuf.Decoder(SCHEMA)
    stream = decoder.encode_datagrams(datagrams)
    return Decoded([read_flow(message) for message in split_stream(stream)], decoder.stats, decoder.counters)


def decode_datagram(payload: bytes) -> Flow:
    """The only flow of a datagram."""
    (message,) = flowbuf.Decoder(SCHEMA).messages(payload, source="192.0.2.1", received=0)
    return read_flow(message)


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
    if column.type == "ip":
        return address(str(ip_address(value)))
    if column.type == "mac":
        return mac(value)
    if column.type == "bytes":
        return value.hex()
    if column.type == "enum":
        return next(name for name, number in column.values.items() if number == value)
    return list(value) if column.repeated else value


# Readers of single values ----------------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    return value


def address(text: str) -> str:
    """IPv4-mapped addresses as IPv4: collectors differ in the form, not in the address (corpus README, 13)."""
    parsed = ip_address(text)
    return str((parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed)


def mac(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")


def milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 10**6


def is_zero_address(text: Any) -> bool:
    return text in ("0.0.0.0", "::")


# Collectors ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A field of a collector: the column it is, how its value is read, and what flowbuf says in the same terms."""

    column: str
    read: Callable[[Any], Any] = same
    ours: Callable[[Flow], Any] | None = None

    def of(self, flow: Flow) -> Any:
        return self.ours(flow) if self.ours else flow.get(self.column)


@dataclass(frozen=True)
class Collector:
    name: str
    fields: dict[str, Field]
    # Fields of layers that flowbuf does not have in its flows, or not yet.
    ignored: frozenset[str] = field(default_factory=frozenset)
    read_records: Callable[[Path], Iterator[Flow]] = lambda path: read_lines(path)

    def path(self, corpus: Path, capture: str) -> Path:
        return corpus / f"{capture}.{self.name}.jsonl"

    def flows(self, corpus: Path, capture: str) -> list[Flow]:
        return [self.convert(record) for record in self.read_records(self.path(corpus, capture))]

    def convert(self, record: Flow) -> Flow:
        """Raises KeyError for a field that this module does not know: a golden must not say what nobody compares."""
        return {
            name: self.fields[name].read(value) for name, value in record.items() if name not in self.ignored
        }


def read_lines(path: Path) -> Iterator[Flow]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


# GoFlow2: field names of its flow.proto; zero is absent, except in addresses. Its layer_stack, layer_size and
# ipv6_routing_header_addresses describe the layers of sampled packets, whose columns flowbuf does not fill yet.
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
            lambda texts: [address(text) for text in texts],
            lambda flow: [flow["mpls_top_addr"]] if "mpls_top_addr" in flow else None,
        ),
        "observation_domain_id": Field("observation_domain_id"),
        "observation_point_id": Field("observation_point_id"),
    },
    ignored=frozenset({"layer_stack", "layer_size", "ipv6_routing_header_addresses", "ipv6_routing_header_seg_left"}),
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


# NetGauze --------------------------------------------------------------------------------------------------------------
#
# NetGauze (Rust, no code shared with the two above) gives records with their elements, not flows. Here they become flows
# of flowbuf by the rule of RFC 7011 section 8 for elements that occur twice: the first occurrence is the outer header's.

PROTOCOLS = {"ICMP": 1, "IPv4": 4, "TCP": 6, "UDP": 17, "IPv6": 41, "IPv6ICMP": 58, "VRRP": 112}
END_REASONS = {"idletimeout": "idle_timeout", "activetimeout": "active_timeout"}
TCP_FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ECE": 64, "CWR": 128}
FORWARDING = {("Forwarded", "Unknown"): 64, ("Consumed", "Forus"): 195}  # RFC 7270 section 4.12


def read_forwarding_status(value: dict[str, Any]) -> int:
    ((status, reason),) = value.items()
    return 0 if status == "Unknown" else FORWARDING[status, reason]


def read_time(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def read_mac(octets: list[int]) -> str:
    return bytes(octets).hex(":")


# Element -> the column it fills, and how its value is read.
ELEMENTS: dict[str, Field] = {
    "octetDeltaCount": Field("bytes"),
    "packetDeltaCount": Field("packets"),
    "sourceIPv4Address": Field("src_addr", address),
    "sourceIPv6Address": Field("src_addr", address),
    "destinationIPv4Address": Field("dst_addr", address),
    "destinationIPv6Address": Field("dst_addr", address),
    "protocolIdentifier": Field("proto", lambda name: PROTOCOLS[name]),
    "sourceTransportPort": Field("src_port"),
    "destinationTransportPort": Field("dst_port"),
    "ingressInterface": Field("in_if"),
    "egressInterface": Field("out_if"),
    "bgpSourceAsNumber": Field("src_as"),
    "bgpDestinationAsNumber": Field("dst_as"),
    "sourceIPv4PrefixLength": Field("src_prefix_len"),
    "sourceIPv6PrefixLength": Field("src_prefix_len"),
    "destinationIPv4PrefixLength": Field("dst_prefix_len"),
    "destinationIPv6PrefixLength": Field("dst_prefix_len"),
    "ipNextHopIPv4Address": Field("next_hop", address),
    "ipNextHopIPv6Address": Field("next_hop", address),
    "bgpNextHopIPv4Address": Field("bgp_next_hop", address),
    "bgpNextHopIPv6Address": Field("bgp_next_hop", address),
    "tcpControlBits": Field("tcp_flags", lambda flags: sum(TCP_FLAGS[name] for name, is_set in flags.items() if is_set)),
    "forwardingStatus": Field("forwarding_status", read_forwarding_status),
    "flowDirection": Field("flow_direction", lambda value: value if isinstance(value, str) else 0),
    "ipClassOfService": Field("ip_tos"),
    "minimumTTL": Field("ip_ttl"),
    "fragmentIdentification": Field("ip_fragment_id"),
    "flowLabelIPv6": Field("ipv6_flow_label"),
    "sourceMacAddress": Field("src_mac", read_mac),
    "destinationMacAddress": Field("dst_mac", read_mac),
    "vlanId": Field("src_vlan"),
    "dot1qVlanId": Field("src_vlan"),
    "postVlanId": Field("dst_vlan"),
    "dot1qCustomerVlanId": Field("inner_vlan_id"),
    "ingressVRFID": Field("ingress_vrf_id"),
    "egressVRFID": Field("egress_vrf_id"),
    "flowEndReason": Field("flow_end_reason", lambda name: END_REASONS[name]),
    "flowStartMilliseconds": Field("time_flow_start", read_time),
    "flowEndMilliseconds": Field("time_flow_end", read_time),
    "mplsTopLabelIPv4Address": Field("mpls_top_addr", address),
    "mplsTopLabelIPv6Address": Field("mpls_top_addr", address),
    "srhSegmentsIPv6Left": Field("ipv6_routing_header_seg_left"),
    "ipVersion": Field("ip_version"),
    "samplerId": Field("sampler_id"),
    "selectorId": Field("sampler_id"),
}

# Elements that need more than themselves (see netgauze_flow), or that flowbuf has no column for.
COMBINED = {"flowStartSysUpTime", "flowEndSysUpTime", "systemInitTimeMilliseconds", "mplsTopLabelStackSection"}
COMBINED |= {f"mplsLabelStackSection{n}" for n in range(2, 7)}
WITHOUT_COLUMN = {
    "Huawei", "dot1qPriority", "ethernetType", "icmpTypeCodeIPv4", "icmpTypeCodeIPv6", "ipv6ExtensionHeaders",
    "ipv6ExtensionHeadersFull", "maximumTTL", "mplsTopLabelPrefixLength", "mplsTopLabelType", "observationDomainId",
    "octetDeltaSumOfSquares", "paddingOctets", "srhActiveSegmentIPv6", "srhFlagsIPv6", "srhSegmentIPv6ListSection",
    "srhTagIPv6",
}  # fmt: skip

ADDRESSES = ("sourceIPv4Address", "destinationIPv4Address", "sourceIPv6Address", "destinationIPv6Address")


def first_occurrences(fields: list[dict[str, Any]]) -> dict[str, Any]:
    elements: dict[str, Any] = {}
    for each in fields:
        for name, value in each.items():
            elements.setdefault(name, value)
    return elements


def read_mpls_labels(elements: dict[str, Any]) -> list[int]:
    """Up to and with the bottom of the stack (RFC 3032 section 2.1)."""
    labels = []
    for name in ("mplsTopLabelStackSection", *(f"mplsLabelStackSection{n}" for n in range(2, 11))):
        value = int.from_bytes(bytes(elements.get(name, ())), "big")
        if value:
            labels.append(value >> 4)
        if not value or value & 1:
            break
    return labels


def read_system_start(record: dict[str, Any], elements: dict[str, Any], learnt: int | None) -> int | None:
    """What flowStartSysUpTime and flowEndSysUpTime count from, in ms since 1970."""
    if record["version"] == 9:
        return read_time(record["unix_time"]) - record["sys_up_time"]
    init = elements.get("systemInitTimeMilliseconds")
    return read_time(init) if init else learnt


def netgauze_flow(record: dict[str, Any], system_start: int | None, rates: dict[int, int]) -> Flow:
    elements = first_occurrences(record["fields"])
    flow: Flow = {}
    for name, value in elements.items():
        if name in ELEMENTS:
            read = ELEMENTS[name].read(value)
            if read and not is_zero_address(read):
                flow.setdefault(ELEMENTS[name].column, read)
            if name in ADDRESSES and not is_zero_address(value):
                flow.setdefault("etype", 0x0800 if "IPv4" in name else 0x86DD)
        else:
            assert name in COMBINED | WITHOUT_COLUMN, name
    start = read_system_start(record, elements, system_start)
    for name, column in (("flowStartSysUpTime", "time_flow_start"), ("flowEndSysUpTime", "time_flow_end")):
        if name in elements and start is not None:
            flow[column] = start + elements[name]
    flow["mpls_labels"] = read_mpls_labels(elements) or None
    flow["sampling_rate"] = rates.get(flow.get("sampler_id", 0))
    flow["flow_type"] = {9: "NETFLOW_V9", 10: "IPFIX"}[record["version"]]
    flow["sequence_number"] = record["sequence_number"]
    flow["observation_domain_id"] = record.get("observation_domain_id") or record.get("source_id")
    flow["time_exported"] = read_time(record.get("export_time") or record["unix_time"])
    return {name: value for name, value in flow.items() if value is not None}


def netgauze_flows(path: Path) -> Iterator[Flow]:
    """Options records give the sampling rate of a sampler (RFC 5477) and the start of the exporter, by domain."""
    rates: dict[Any, dict[int, int]] = {}
    starts: dict[Any, int] = {}
    for record in read_lines(path):
        domain = record["version"], record.get("observation_domain_id", record.get("source_id"))
        if record["kind"] == "data":
            yield netgauze_flow(record, starts.get(domain), rates.get(domain, {}))
        if record["kind"] == "options_data":
            option = first_occurrences(record["scope_fields"] + record["fields"])
            sampler = option.get("samplerId", option.get("selectorId", 0))
            if "samplingSize" in option:
                rates.setdefault(domain, {})[sampler] = option["samplingPopulation"] // option["samplingSize"]
            elif "samplingPacketInterval" in option:
                interval, space = option["samplingPacketInterval"], option.get("samplingPacketSpace", 0)
                rates.setdefault(domain, {})[sampler] = (interval + space) // interval
            if "systemInitTimeMilliseconds" in option:
                starts[domain] = read_time(option["systemInitTimeMilliseconds"])


NETGAUZE_COLUMNS = {each.column for each in ELEMENTS.values()} | {
    "etype", "flow_type", "mpls_labels", "observation_domain_id", "sampling_rate", "sequence_number", "time_exported",
}  # fmt: skip

NETGAUZE = Collector(
    "netgauze", {column: Field(column) for column in sorted(NETGAUZE_COLUMNS)}, read_records=netgauze_flows
)

COLLECTORS = {collector.name: collector for collector in (GOFLOW2, AKVORADO, NETGAUZE)}


# TShark ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TSharkTotals:
    """What TShark counts in a capture; records with those of options, samples of sFlow."""

    datagrams: int
    sets: int
    records: int
    samples: int


def tshark_totals(path: Path) -> TSharkTotals:
    last = path.read_text().splitlines()[-1]
    assert last.startswith("# total:"), path
    return TSharkTotals(*(int(word) for word in last.replace(",", " ").split() if word.isdigit()))
