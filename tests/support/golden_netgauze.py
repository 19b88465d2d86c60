"""Convert the goldens of NetGauze, records with their elements, to flows of flowbuf.

NetGauze (Rust) shares no code with GoFlow2 and Akvorado. It reads NetFlow v9 and IPFIX and derives no values.
Every element in its records fills a column of flowbuf or is listed as one that does not. If an element occurs
twice, the first occurrence belongs to the outer header (RFC 7011 section 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.goldens import Collector, Field, Flow, address, is_zero_address, read_lines

PROTOCOLS = {"ICMP": 1, "IPv4": 4, "TCP": 6, "UDP": 17, "IPv6": 41, "IPv6ICMP": 58, "VRRP": 112}
END_REASONS = {"idletimeout": "idle_timeout", "activetimeout": "active_timeout"}
TCP_FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ECE": 64, "CWR": 128}
FORWARDING = {("Forwarded", "Unknown"): 64, ("Consumed", "Forus"): 195}  # RFC 7270 section 4.12


def read_forwarding_status(value: dict[str, Any]) -> int:
    ((status, reason),) = value.items()
    return 0 if status == "Unknown" else FORWARDING[status, reason]


def read_tcp_flags(flags: dict[str, bool]) -> int:
    return sum(TCP_FLAGS[name] for name, is_set in flags.items() if is_set)


def read_time(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def read_mac(octets: list[int]) -> str:
    return bytes(octets).hex(":")


# Element -> the column that it fills, and the conversion of its value.
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
    "tcpControlBits": Field("tcp_flags", read_tcp_flags),
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

# Elements that are combined with others (see netgauze_flow), or for which flowbuf has no column.
COMBINED = {
    "flowStartSysUpTime",
    "flowEndSysUpTime",
    "systemInitTimeMilliseconds",
    "mplsTopLabelStackSection",
}
COMBINED |= {f"mplsLabelStackSection{n}" for n in range(2, 7)}
WITHOUT_COLUMN = {
    "Huawei", "dot1qPriority", "ethernetType", "icmpTypeCodeIPv4", "icmpTypeCodeIPv6", "ipv6ExtensionHeaders",
    "ipv6ExtensionHeadersFull", "maximumTTL", "mplsTopLabelPrefixLength", "mplsTopLabelType",
    "observationDomainId", "octetDeltaSumOfSquares", "paddingOctets", "srhActiveSegmentIPv6", "srhFlagsIPv6",
    "srhSegmentIPv6ListSection", "srhTagIPv6",
}  # fmt: skip

ADDRESSES = ("sourceIPv4Address", "destinationIPv4Address", "sourceIPv6Address", "destinationIPv6Address")


def family(element: str) -> int:
    """Return the ethertype of an address."""
    return 0x0800 if "IPv4" in element else 0x86DD


def first_occurrences(fields: list[dict[str, Any]]) -> dict[str, Any]:
    elements: dict[str, Any] = {}
    for each in fields:
        for name, value in each.items():
            elements.setdefault(name, value)
    return elements


def read_mpls_labels(elements: dict[str, Any]) -> list[int]:
    """Return the labels up to and including the bottom of the stack (RFC 3032 section 2.1)."""
    labels = []
    for name in ("mplsTopLabelStackSection", *(f"mplsLabelStackSection{n}" for n in range(2, 11))):
        value = int.from_bytes(bytes(elements.get(name, ())), "big")
        if value:
            labels.append(value >> 4)
        if not value or value & 1:
            break
    return labels


def read_system_start(record: dict[str, Any], elements: dict[str, Any], learnt: int | None) -> int | None:
    """Return the start of flowStartSysUpTime and flowEndSysUpTime, in ms since 1970."""
    if record["version"] == 9:
        return read_time(record["unix_time"]) - int(record["sys_up_time"])
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
                flow.setdefault("etype", family(name))
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
    return {name: value for name, value in flow.items() if value}


def netgauze_flows(path: Path) -> Iterator[Flow]:
    """Yield the flows of a golden.

    Options records give the sampling rate of a sampler (RFC 5477) and the start of the exporter, by domain.
    """
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
    "etype", "flow_type", "mpls_labels", "observation_domain_id", "sampling_rate", "sequence_number",
    "time_exported",
}  # fmt: skip

NETGAUZE = Collector(
    "netgauze", {column: Field(column) for column in sorted(NETGAUZE_COLUMNS)}, read_records=netgauze_flows
)


def netgauze_occurrences(path: Path) -> list[dict[str, tuple[Any, ...]]]:
    """Return the values of each data record by column, in record order.

    An element that occurs twice gives every occurrence. Addresses of zeros are left out.
    """
    return [occurrences(record["fields"]) for record in read_lines(path) if record["kind"] == "data"]


def occurrences(fields: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[Any]] = {}
    for name, value in ((name, value) for each in fields for name, value in each.items()):
        if name in ELEMENTS and not is_zero_address(value):
            found.setdefault(ELEMENTS[name].column, []).append(ELEMENTS[name].read(value))
        if name in ADDRESSES and not is_zero_address(value):
            found.setdefault("etype", []).append(family(name))
    return {column: tuple(values) for column, values in found.items()}
