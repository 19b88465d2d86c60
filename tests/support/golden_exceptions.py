"""Differences between flowbuf and other collectors on the captures of the corpus, with the reasons.

Each row of the table explains the differences that its rule accepts. The first row that fits applies. Numbers
in brackets refer to "Where the two oracles disagree and why" in the README of the corpus. "Design" refers to
section 3 of the design. A row must explain a difference in each capture and for each field that it names;
otherwise test_golden.py fails. A resolved difference must therefore be removed from the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.goldens import Flow, is_zero_address


@dataclass(frozen=True)
class Difference:
    """A field with the value `ours` from flowbuf and `theirs` from the collector. None means absent.

    `flow` and `golden` are the whole flows. `occurrences` has all values of the column in the record, in
    order, read by NetGauze. It is empty for captures without a NetGauze golden.
    """

    capture: str
    collector: str
    field: str
    index: int
    ours: Any
    theirs: Any
    flow: Flow
    golden: Flow
    occurrences: tuple[Any, ...] = ()


Rule = Callable[[Difference], bool]


@dataclass(frozen=True)
class Exception_:
    captures: tuple[str, ...]  # names, or ANY
    collector: str
    fields: tuple[str, ...]
    rule: Rule
    reason: str

    def explains(self, difference: Difference) -> bool:
        return (
            self.collector
            in (difference.collector, difference.collector.partition("-")[0])  # in all modes, or in one
            and difference.field in self.fields
            and (self.captures == ANY or difference.capture in self.captures)
            and self.rule(difference)
        )


def exception(captures: str, collector: str, fields: str, rule: Rule, reason: str) -> Exception_:
    return Exception_(tuple(captures.split()), collector, tuple(fields.split()), rule, reason)


ANY = ("*",)


# Rules ------------------------------------------------------------------------------------------------------


def only_ours(difference: Difference) -> bool:
    """Accept a value that the collector does not have."""
    return difference.ours is not None and difference.theirs is None


def all_zero(difference: Difference) -> bool:
    return difference.ours is None and is_zero_address(difference.theirs)


def says(ours: Any, theirs: Any) -> Rule:
    """Accept exactly these values."""
    return lambda difference: (difference.ours, difference.theirs) == (ours, theirs)


def is_ours(column: str) -> Rule:
    """Accept a value of the collector that flowbuf has in another column."""
    return lambda difference: (
        difference.theirs is not None and difference.theirs == difference.flow.get(column)
    )


def without_zero_addresses(difference: Difference) -> bool:
    return (difference.ours or []) == [text for text in difference.theirs or () if not is_zero_address(text)]


def without_empty_sections(difference: Difference) -> bool:
    labels = list(difference.theirs or ())
    while labels and not labels[-1]:
        labels.pop()
    return (difference.ours or []) == labels


def of_inner_header(difference: Difference) -> bool:
    """Accept two values in one record: flowbuf has the first (absent if zero), the collector a later one."""
    first, *later = difference.occurrences or (None,)
    return difference.ours == (first or None) and difference.theirs in later


def no_ifindex(difference: Difference) -> bool:
    """Accept an interface that has no ifIndex.

    Its top two bits have a format other than 0, or it is the exporter (0x3fffffff).
    """
    return difference.ours is None and (difference.theirs or 0) >= 0x3FFFFFFF


def of_tag(difference: Difference) -> bool:
    return only_ours(difference) and difference.ours == difference.flow.get("vlan_id")


def of_inner_tag(difference: Difference) -> bool:
    """Accept the VLAN id of the second tag, with or without its priority bits."""
    outer, inner = difference.flow.get("vlan_id"), difference.flow.get("inner_vlan_id", 0)
    return bool(difference.ours == outer and (difference.theirs or 0) & 0xFFF == inner)


def bare_type(difference: Difference) -> bool:
    """Accept a type without a code in a 16-bit port, which the collector reads as a code without a type."""
    return difference.ours is None and difference.theirs == difference.golden.get("DstPort", 0) < 256


def from_port(difference: Difference) -> bool:
    return only_ours(difference) and difference.ours == difference.flow.get("dst_port", 0) >> 8


def export_time(difference: Difference) -> bool:
    return difference.ours is not None and difference.theirs == difference.flow.get("time_exported")


def shortly_before_export(difference: Difference) -> bool:
    """Accept a time within the minute before the export time of the header, or within its second."""
    return export_time(difference) and -1000 < difference.theirs - difference.ours < 60_000


def no_time_of_flow(difference: Difference) -> bool:
    stand_in = "time_received" if difference.flow.get("flow_type") == "SFLOW_5" else "time_exported"
    return difference.ours is None and difference.theirs == difference.flow.get(stand_in)


def hidden_by_bgp(difference: Difference) -> bool:
    return (
        difference.ours is not None
        and "bgp_next_hop" not in difference.flow
        and is_zero_address(difference.theirs)
    )


def further_layers(difference: Difference) -> bool:
    """Accept a packet that flowbuf parses to a deeper layer than the collector."""
    theirs = difference.theirs or []
    return bool(difference.ours[: len(theirs)] == theirs)


def other_sizes(*layers: str) -> Rule:
    """Accept the same layers with other sizes of `layers`."""

    def rule(difference: Difference) -> bool:
        sizes = zip(difference.flow["layer_stack"], difference.ours, difference.theirs, strict=True)
        same = difference.golden["layer_stack"] == difference.flow["layer_stack"]
        return same and all(layer in layers for layer, ours, theirs in sizes if ours != theirs)

    return rule


# The table --------------------------------------------------------------------------------------------------

SAMPLED_FRAMES = (
    "ipfix-315-eompls-control-word ipfix-315-frame ipfix-315-juniper-common-properties ipfix-315-srv6 "
    "sflow-1140 "
    "sflow-discarded-output sflow-expanded-sample sflow-icmpv4 sflow-icmpv6 sflow-local-interface "
    "sflow-multiple-outputs sflow-qinq sflow-raw-ipv4 sflow-vxlan"
)
NESTED_HEADERS = "ipfix-cisco-srv6 ipfix-cisco-srv6-among-bgp ipfix-huawei-vrf-name"
EOMPLS = "ipfix-315-eompls-control-word packets/mpls-eompls-cw"
NOT_IP = "packets/mpls-eompls-invalid-cw packets/mpls-invalid-nibble"
TIMES = "time_flow_start_ns time_flow_end_ns"

EXCEPTIONS: tuple[Exception_, ...] = (
    # Templates and sampling
    exception(
        "ipfix-mpls ipfix-physical-interfaces", "goflow2", "sampling_rate",
        lambda d: d.theirs == 1 and d.ours in (10, 1000),
        "[2] RFC 5477: of samplingPacketInterval + samplingPacketSpace packets, samplingPacketInterval are "
        "taken; GoFlow2 ignores the space",
    ),
    exception(
        "ipfix-cisco-sampling-option", "goflow2", "sampling_rate", says(256, 1),
        "[3] RFC 5477, design: samplingSize and samplingPopulation (1 of 256) before samplingPacketInterval",
    ),
    exception(
        "ipfix-cisco-sampling-option", "akvorado", "SamplingRate", says(256, 1),
        "[3] RFC 5477, design: samplingSize and samplingPopulation (1 of 256) before samplingPacketInterval",
    ),
    exception(
        "netflow9-multiple-sampling-rates", "goflow2", "sampling_rate", says(4000, 2000),
        "[4] each samplerId has its rate; GoFlow2 keeps one an exporter",
    ),
    exception(
        "netflow9-sampling-rate-in-record", "goflow2", "sampling_rate", says(2048, None),
        "[5] samplingInterval (34) in the data record; GoFlow2 reads it in options only",
    ),
    exception(
        "netflow9-data-before-template-twice", "akvorado", "SamplingRate", says(100, None),
        "[6] the rate is known since the first datagram, which Akvorado dropped",
    ),
    exception(
        "netflow5-29-records", "akvorado", "SamplingRate", says(None, 1),
        "[7] design: no rate known is absent, never 1; the header says 0",
    ),
    # Records
    exception(
        "ipfix-physical-interfaces", "goflow2", "in_if", only_ours,
        "[9] GoFlow2 does not read ingressPhysicalInterface (252)",
    ),
    exception(
        "ipfix-315-juniper-common-properties", "goflow2", "forwarding_status",
        says(128, None),
        "[9] GoFlow2 does not read Juniper's commonPropertiesId (2636/137)",
    ),
    exception(
        "ipfix-physical-interfaces ipfix-cisco-mpls-among-bgp", "goflow2", "src_vlan vlan_id",
        lambda d: only_ours(d) and d.ours == d.flow.get("src_vlan"),
        "[9] GoFlow2 does not read dot1qVlanId (243)",
    ),
    exception(
        NESTED_HEADERS, "goflow2", "src_addr dst_addr etype proto src_port dst_port ip_tos ipv6_flow_label",
        of_inner_header,
        "[10] RFC 7011 section 8: of an element that occurs twice the first is the outer header's, and all "
        "columns keep to it; GoFlow2's last one wins",
    ),
    exception(
        NESTED_HEADERS, "akvorado", "SrcAddr DstAddr EType SrcPort DstPort IPTos", of_inner_header,
        "[10] as above; Akvorado takes the last addresses that are not zero, of everything else the first "
        "that is not",
    ),
    exception(
        "ipfix-cisco-mpls-two-domains ipfix-huawei-vrf-name", "akvorado", "NextHop", hidden_by_bgp,
        "[11] one column for both next hops: an all-zero one of BGP hides the real one",
    ),
    exception(
        "ipfix-cisco-mpls-among-bgp mixed-two-exporters netflow9-data "
        "netflow9-multiple-sampling-rates", "akvorado",
        "NextHop", is_ours("bgp_next_hop"),
        "[11] one column for both next hops; this is BGP's",
    ),
    exception(
        "*", "akvorado", "NextHop", all_zero,
        "[12] design: an all-zero address is absent, in every column",
    ),
    exception(
        "*", "goflow2", "next_hop bgp_next_hop", all_zero,
        "[12] design: an all-zero address is absent, in every column",
    ),
    exception(
        "*", "goflow2", "mpls_ip", without_zero_addresses,
        "[12] design: an all-zero address is absent, in every column",
    ),
    exception(
        "*", "goflow2", "mpls_label", without_empty_sections,
        "[14] RFC 3032: labels end with the bottom of the stack; GoFlow2 always writes three",
    ),
    exception(
        "netflow9-icmp", "goflow2", "icmp_type", from_port,
        "[15] design: by Cisco's convention the destination port is type and code; GoFlow2 does not look",
    ),
    exception(
        "ipfix-cisco-mpls-among-bgp ipfix-cisco-srv6", "akvorado", "ICMPv6Code", bare_type,
        "[15] design: a port below 256 is no type and code; no ICMPv6 type 0 exists",
    ),
    exception(
        f"ipfix-cisco-mpls-among-bgp {NESTED_HEADERS}", "goflow2", TIMES, export_time,
        "[16] flowStartSysUpTime and flowEndSysUpTime count from systemInitTimeMilliseconds (RFC 5102), "
        "which options or the record give; GoFlow2 writes the export time",
    ),
    exception(
        "netflow9-icmp netflow9-nat", "goflow2", TIMES, shortly_before_export,
        "[16] NetFlow v9 with the elements of IPFIX: flowStart- and flowEndMilliseconds (152, 153), "
        "observationTimeMilliseconds (323); GoFlow2 writes the export time",
    ),
    exception(
        f"{SAMPLED_FRAMES} sflow-sampled-ipv4 ipfix-cisco-sampling-option "
        "mixed-two-exporters", "goflow2", TIMES,
        no_time_of_flow,
        "[16] nothing says when the flow was, or from when its times count: absent. GoFlow2 writes the time "
        "of export, in sFlow that of reception",
    ),
    exception(
        "ipfix-cisco-srv6", "goflow2", TIMES, lambda d: d.index == 0 and no_time_of_flow(d),
        "[16] the options with systemInitTimeMilliseconds come after this flow; what is learnt later does "
        "not change flows already written (design)",
    ),
    # Sampled packets
    exception(
        SAMPLED_FRAMES, "goflow2", "bytes", is_ours("frame_length"),
        "[18] design: bytes is the IP length, the frame's is frame_length",
    ),
    exception(
        "sflow-discarded-output sflow-multiple-outputs sflow-local-interface sflow-icmpv4 sflow-icmpv6 "
        "sflow-vxlan",
        "goflow2", "in_if out_if", no_ifindex,
        "[19] sFlow v5 section 5: the top two bits of an interface are a format, only format 0 is an "
        "ifIndex; 0x3fffffff is the exporter itself",
    ),
    exception(
        "sflow-discarded-output", "goflow2", "forwarding_status", says(131, None),
        "[19] design: the reason of a discard is a forwarding status",
    ),
    exception(
        "ipfix-315-eompls-control-word ipfix-315-frame sflow-expanded-sample sflow-qinq", "goflow2",
        "src_vlan dst_vlan", of_tag,
        "[20] design: the tag of a sampled frame stands in where nothing else says; GoFlow2 has it in "
        "vlan_id alone",
    ),
    exception(
        "sflow-1140", "goflow2", "src_vlan dst_vlan", says(None, 0xFFFFFFFF),
        "[20] sFlow v5: 0xffffffff is an unknown VLAN",
    ),
    exception(
        "sflow-qinq", "goflow2", "vlan_id", of_inner_tag,
        "[20] IEEE 802.1Q, design: the VLAN id of the outermost tag; GoFlow2 writes priority and id of the "
        "innermost",
    ),
    exception(
        "sflow-qinq", "akvorado", "SrcVlan DstVlan", of_inner_tag,
        "[20] design: the VLAN id of the outermost tag; Akvorado takes the innermost",
    ),
    exception(
        "sflow-raw-ipv4", "goflow2",
        "src_addr dst_addr etype proto fragment_id ip_tos ip_ttl layer_stack layer_size", only_ours,
        "[21] sFlow v5: header_protocol 11 is IPv4; GoFlow2 parses Ethernet alone",
    ),
    exception(
        "sflow-icmpv4 sflow-icmpv6", "goflow2", "icmp_type", only_ours,
        "[22] GoFlow2 lists the ICMP header among the layers but does not read it",
    ),
    exception(
        EOMPLS, "goflow2", "src_addr dst_addr proto src_port dst_port tcp_flags ip_tos ip_ttl fragment_id",
        lambda d: only_ours(d) and "mpls_labels" in d.flow,
        "[23] RFC 4448 section 4.6: an Ethernet frame behind a zero control word; GoFlow2 stops at the "
        "labels",
    ),
    exception(
        "ipfix-315-eompls-control-word", "goflow2", "ip_flags", says(2, None),
        "[23] as above",
    ),
    exception(
        EOMPLS, "goflow2", "etype", says(0x0800, 0x8847),
        "[23] RFC 4448 section 4.6: the ethertype is that of the frame within",
    ),
    exception(
        "packets/mpls-eompls-cw", "tshark", "etype proto", only_ours,
        "[23] RFC 4448 section 4.6: TShark guesses that there is no control word, and finds no packet",
    ),
    exception(
        EOMPLS, "goflow2", "layer_stack layer_size", further_layers,
        "[23] as above",
    ),
    exception(
        "sflow-vxlan", "goflow2", "layer_stack layer_size", further_layers,
        "[25] design: all headers are listed, into tunnels; GoFlow2 does not know VXLAN",
    ),
    exception(
        "packets/gre-v4-key", "goflow2", "layer_stack", further_layers,
        "[24] RFC 2890: a key makes the header 8 octets; GoFlow2 takes 4, and finds no ICMP behind the IPv4 "
        "it reads",
    ),
    exception(
        "packets/gre-v4-key", "goflow2", "layer_size", says([14, 20, 8, 20, 8], [14, 20, 4, 20]),
        "[24] as above",
    ),
    exception(
        "packets/vlan-ipv6", "goflow2", "layer_size", other_sizes("gre"),
        "[24] RFC 2637: the header of version 1 has a key and two numbers here, 16 octets; GoFlow2 always "
        "says 4",
    ),
    exception(
        "*", "goflow2", "layer_size", other_sizes("tcp"),
        "[24] RFC 9293: the length of the TCP header is in its data offset; GoFlow2 takes it from the flags",
    ),
    # Single frames
    exception(
        NOT_IP, "akvorado", "EType MPLSLabels", lambda d: only_ours(d) and d.flow.get("etype") == 0x8847,
        "RFC 3032: labels are known, though not what they lead to; Akvorado loses them with the payload",
    ),
    exception(
        NOT_IP, "akvorado", "l3_length", lambda d: d.theirs is None and d.ours == d.flow.get("frame_length"),
        "[18] design: without an IP header the frame's length stands in for bytes",
    ),
    exception(
        "packets/ipv4-ipv4 packets/ipv4-ipv6", "akvorado-srv6",
        "SrcAddr DstAddr EType Proto SrcPort DstPort SrcMAC DstMAC IPTTL TCPFlags ICMPv4Type l3_length "
        "opened",
        lambda d: d.flow["etype"] == 0x0800 and "tunnel_src_addr" not in d.flow,
        "[25] RFC 8986: segments are IPv6's; IP in IPv4 is ipip. Akvorado opens it as SRv6, too",
    ),
    exception(
        "packets/srv6-end-dt6", "goflow2", "proto", says(41, 43),
        "RFC 8200 section 4, design: the protocol is behind the extension headers; 43 is the routing header",
    ),
    exception(
        "packets/srv6-end-dt6", "akvorado", "Proto", says(41, 43),
        "RFC 8200 section 4, design: the protocol is behind the extension headers; 43 is the routing header",
    ),
)  # fmt: skip


# Flows that only one side has -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unmatched:
    """Flows that the other side does not have, by index."""

    capture: str
    collector: str
    ours: tuple[int, ...]
    theirs: tuple[int, ...]
    reason: str


EARLY_DATA = (
    "[1] RFC 3954 section 9: data before its template is kept and decoded when that comes; both collectors "
    "drop the whole datagram"
)
BIFLOW = "[8] RFC 5103: the reverse direction is a second flow; GoFlow2 does not read its counters"

UNMATCHED = (
    *(
        Unmatched(capture, collector, tuple(range(flows)), (), EARLY_DATA)
        for capture, flows in (
            ("netflow9-data-late-template", 4),
            ("netflow9-data-before-template", 21),
            ("netflow9-data-before-template-twice", 21),
        )
        for collector in ("goflow2", "akvorado")
    ),
    Unmatched("ipfix-biflow-ipfixprobe", "goflow2", (1, 4), (), BIFLOW),
)

# Records of flows and options that TShark does not read, for the same reason.
EARLY_RECORDS = {
    "netflow9-data-late-template": 8,
    "netflow9-data-before-template": 11,
    "netflow9-data-before-template-twice": 11,
}
