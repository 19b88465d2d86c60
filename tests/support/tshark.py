"""Count and read the records of captures with TShark, for comparison with flowbuf."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import flowbuf
from flowbuf import _core
from tests.support.goldens import SCHEMA, Flow, address, is_zero_address, read_flow, same

PROTOCOLS = ("cflow", "sflow")

Record: TypeAlias = dict[str, str]
"""The bytes of each field in hexadecimal. If a field occurs twice, the first applies."""


@dataclass
class Counts:
    """Counts of a datagram: records and samples of flows, records of options, templates, sets without
    template.

    The second direction of a biflow is a flow of flowbuf, but not a separate record.
    """

    records: int = 0
    templates: int = 0
    sets_without_template: int = 0
    counter_samples: int = 0
    second_directions: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(mine - others for mine, others in zip(astuple(self), astuple(other), strict=True)))


@dataclass
class Dissection:
    """The contents of one datagram. Only records of flows are read."""

    counts: Counts = field(default_factory=Counts)
    flows: list[Record] = field(default_factory=list)

    def add_flow(self, part: Element) -> None:
        self.counts.records += 1
        self.flows.append(read_record(part))


def read_packets(capture: Path, ports: dict[int, str]) -> list[Element]:
    """Return the packets of a capture that are flow datagrams.

    `ports` gives the protocol (of PROTOCOLS) for each UDP port.
    """
    command = ["tshark", "-n", "-r", str(capture), "-T", "pdml"]
    for port, protocol in ports.items():
        command += ["-d", f"udp.port=={port},{protocol}"]
    done = subprocess.run(command, check=True, capture_output=True)
    return [packet for packet in ElementTree.fromstring(done.stdout) if is_flow_datagram(packet)]


def dissect(capture: Path, ports: dict[int, str]) -> list[Dissection]:
    """Dissect every flow datagram of a capture."""
    options: set[tuple[str, int]] = set()
    return [dissect_packet(packet, options) for packet in read_packets(capture, ports)]


def is_flow_datagram(packet: Element) -> bool:
    return any(protocol.get("name") in PROTOCOLS for protocol in packet)


def dissect_packet(packet: Element, options: set[tuple[str, int]]) -> Dissection:
    """Dissect a packet. `options` has the known options templates: exporter (address and domain), id."""
    protocol = next(each for each in packet if each.get("name") in PROTOCOLS)
    if protocol.get("name") == "sflow":
        return dissect_sflow(protocol)
    exporter = next(find(packet, "ip.src", "ipv6.src")) + next(
        find(protocol, "cflow.source_id", "cflow.od_id"), ""
    )
    dissection = Dissection()
    for part in protocol:
        title = part.get("show") or ""
        if title.startswith("pdu "):
            dissection.add_flow(part)
        elif re.match(r"(Flow)?Set \d+ ", title):
            dissect_set(part, exporter, options, dissection)
    return dissection


def dissect_set(part: Element, exporter: str, options: set[tuple[str, int]], dissection: Dissection) -> None:
    set_id = int(next(find(part, "cflow.flowset_id")), 16)
    for each in part:
        title = each.get("show") or ""
        if title.startswith(("Template (Id", "Options Template (Id")):
            dissection.counts.templates += 1
            template = (exporter, int(next(find(each, "cflow.template_id")), 16))
            (options.add if title.startswith("Options") else options.discard)(template)
        elif re.match(r"Flow \d+$", title):
            if (exporter, set_id) in options:
                dissection.counts.records += 1
            else:
                dissection.add_flow(each)
        elif "no template found" in title:
            dissection.counts.sets_without_template += 1


def dissect_sflow(protocol: Element) -> Dissection:
    """Dissect an sFlow datagram.

    TShark 4.0 misreads the bytes after counters of OpenFlow ports. The number of other samples is therefore
    the count in the header minus the flow samples.
    """
    dissection = Dissection()
    for part in protocol:
        if re.match(r"(Expanded f|F)low sample", part.get("show") or ""):
            dissection.add_flow(part)
    samples = int(next(find(protocol, "sflow_245.numsamples")), 16)
    dissection.counts.counter_samples = samples - len(dissection.flows)
    return dissection


HEADERS = {"eth", "vlan", "ip", "ipv6", "icmp", "icmpv6", "tcp", "udp"}


def read_record(part: Element) -> Record:
    """Read a record. For a sampled packet, read only the outermost headers, up to the second IP header."""
    record: Record = {}
    ip_headers = 0
    for each in part.iter():
        name, value = each.get("name") or "", each.get("value")
        ip_headers += each.tag == "proto" and name in ("ip", "ipv6")
        if each.tag == "field" and name and value and (ip_headers < 2 or name.split(".")[0] not in HEADERS):
            record.setdefault(name, value)
    return record


def find(element: Element, *names: str) -> Iterator[str]:
    return (each.get("value") or "" for each in element.iter("field") if each.get("name") in names)


# As columns -------------------------------------------------------------------------------------------------


def number(value: str) -> int | None:
    """Return a number, or None for zero."""
    return int(value, 16) or None


def ip(value: str) -> str | None:
    text = address(str(ip_address(bytes.fromhex(value))))
    return None if is_zero_address(text) else text


def mac(value: str) -> str | None:
    return bytes.fromhex(value).hex(":") if int(value, 16) else None


Reader: TypeAlias = Callable[[str], Any]

FIELDS: dict[str, tuple[str, Reader]] = {
    # Of NetFlow and IPFIX.
    "cflow.srcaddr": ("src_addr", ip),
    "cflow.dstaddr": ("dst_addr", ip),
    "cflow.srcaddrv6": ("src_addr", ip),
    "cflow.dstaddrv6": ("dst_addr", ip),
    "cflow.srcport": ("src_port", number),
    "cflow.dstport": ("dst_port", number),
    "cflow.protocol": ("proto", number),
    "cflow.octets": ("bytes", number),
    "cflow.packets": ("packets", number),
    "cflow.inputint": ("in_if", number),
    "cflow.outputint": ("out_if", number),
    "cflow.tos": ("ip_tos", number),
    "cflow.tcpflags": ("tcp_flags", number),
    "cflow.srcas": ("src_as", number),
    "cflow.dstas": ("dst_as", number),
    "cflow.srcmask": ("src_prefix_len", number),
    "cflow.dstmask": ("dst_prefix_len", number),
    "cflow.srcmaskv6": ("src_prefix_len", number),
    "cflow.dstmaskv6": ("dst_prefix_len", number),
    "cflow.nexthop": ("next_hop", ip),
    "cflow.nexthopv6": ("next_hop", ip),
    "cflow.bgpnexthop": ("bgp_next_hop", ip),
    "cflow.bgpnexthopv6": ("bgp_next_hop", ip),
    "cflow.srcmac": ("src_mac", mac),
    "cflow.dstmac": ("dst_mac", mac),
    "cflow.ingress_vrfid": ("ingress_vrf_id", number),
    "cflow.egress_vrfid": ("egress_vrf_id", number),
    "cflow.ipv6flowlabel": ("ipv6_flow_label", number),
    "cflow.sampler_id": ("sampler_id", number),
    "cflow.selector_id": ("sampler_id", number),
    "cflow.post_natsource_ipv4_address": ("src_addr_nat", ip),
    "cflow.post_natdestination_ipv4_address": ("dst_addr_nat", ip),
    "cflow.post_naptsource_transport_port": ("src_port_nat", number),
    "cflow.post_naptdestination_transport_port": ("dst_port_nat", number),
    # Of sFlow, and of sampled packets. (sFlow has next hops and AS numbers in several records under the same
    # name.)
    "sflow.flow_sample.sampling_rate": ("sampling_rate", number),
    "sflow_245.header.frame_length": ("frame_length", number),
    "eth.src": ("src_mac", mac),
    "eth.dst": ("dst_mac", mac),
    "vlan.id": ("vlan_id", number),
    "ip.src": ("src_addr", ip),
    "ip.dst": ("dst_addr", ip),
    "ip.proto": ("proto", number),
    "ip.ttl": ("ip_ttl", number),
    "ip.dsfield": ("ip_tos", number),
    "ip.id": ("ip_fragment_id", number),
    "ip.len": ("bytes", number),
    "ipv6.src": ("src_addr", ip),
    "ipv6.dst": ("dst_addr", ip),
    "ipv6.hlim": ("ip_ttl", number),
    "ipv6.flow": ("ipv6_flow_label", number),
    "tcp.srcport": ("src_port", number),
    "tcp.dstport": ("dst_port", number),
    "udp.srcport": ("src_port", number),
    "udp.dstport": ("dst_port", number),
    "icmp.type": ("icmp_type", number),
    "icmp.code": ("icmp_code", number),
    "icmpv6.type": ("icmp_type", number),
    "icmpv6.code": ("icmp_code", number),
    "sflow_245.nexthop.src_mask": ("src_prefix_len", number),
    "sflow_245.nexthop.dst_mask": ("dst_prefix_len", number),
}


def columns(record: Record) -> Flow:
    """Return the columns of a record. Of several fields of one column, the first with a value applies."""
    flow: Flow = {}
    for name, value in record.items():
        column, read = FIELDS.get(name, ("", same))
        if column and flow.get(column) is None:
            flow[column] = read(value)
    return flow


def compare(flow: Flow, record: Record) -> Iterator[tuple[str, Any, Any]]:
    """Yield the columns that differ: name, flowbuf's value, TShark's value."""
    for column, theirs in columns(record).items():
        if flow.get(column) != theirs:
            yield column, flow.get(column), theirs


# flowbuf against it -----------------------------------------------------------------------------------------


def check_against_tshark(capture: Path, ports: dict[int, str], early_records: int = 0) -> int:
    """Compare counts and values of each datagram, and return the number of values that were compared.

    `early_records` is the number of records before their template. TShark never reads them; flowbuf decodes
    them when the template arrives.
    """
    octets = capture.read_bytes()
    consumed, status, datagrams = _core.Capture().scan(octets, True)
    assert (consumed, status) == (len(octets), "end")
    dissections = dissect(capture, ports)
    assert len(dissections) == len(datagrams)
    decoder = flowbuf.Decoder(SCHEMA)
    before = count(decoder)
    compared = 0
    for i, theirs in enumerate(dissections):
        payload, source, received, _ = datagrams[i]
        flows = [read_flow(message) for message in decoder.messages(payload, source, received)]
        after = count(decoder)
        ours = after - before
        before = after
        early = ours.records - theirs.counts.records
        early_records -= early
        assert early >= 0, f"datagram {i}"
        beyond = {"records": ours.records, "second_directions": ours.second_directions}
        assert ours == replace(theirs.counts, **beyond), f"datagram {i}"
        if not early and not ours.second_directions:
            assert [list(compare(*pair)) for pair in zip(flows, theirs.flows, strict=True)] == [[]] * len(
                flows
            )
            compared += sum(len(columns(record)) for record in theirs.flows)
    assert early_records == 0
    return compared


def count(decoder: flowbuf.Decoder) -> Counts:
    exporters = decoder.stats.values()
    counters = decoder.counters
    second_directions = counters.get("biflow", 0)
    return Counts(
        sum(each["flows"] + each["options_records"] for each in exporters) - second_directions,
        sum(each["templates"] for each in exporters),
        counters.get("template_missing", 0) + counters.get("early_data", 0),
        counters.get("counter_sample", 0),
        second_directions,
    )
