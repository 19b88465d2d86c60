"""Differences between messages of the preset goflow2 and GoFlow2's own on the captures of the corpus.

Rows have the form of golden_exceptions.py. Each must explain a difference in each capture and for each field
that it names. Field names are those of GoFlow2. `flow` has the values of flow.toml.
"""

from __future__ import annotations

from tests.support.golden_exceptions import (
    NESTED_HEADERS,
    TIMES,
    Difference,
    all_zero,
    exception,
    from_port,
    no_ifindex,
    of_inner_header,
    only_ours,
    says,
    without_empty_sections,
    without_zero_addresses,
)


def without_priority(difference: Difference) -> bool:
    """Accept the VLAN id alone, where GoFlow2 includes the priority."""
    return difference.theirs is not None and difference.ours == difference.theirs & 0xFFF != difference.theirs


def of_sampled_header(difference: Difference) -> bool:
    return only_ours(difference) and difference.flow["flow_type"] == "SFLOW_5"


def rounded(difference: Difference) -> bool:
    return difference.ours % 1000 == 0 and 0 < difference.ours - difference.theirs < 1000


def of_the_flow(difference: Difference) -> bool:
    """Accept a time of the record within the minute before its export, where GoFlow2 has the export time."""
    exported = difference.flow["time_exported"] * 10**6
    return difference.theirs == exported and 0 < exported - difference.ours < 60 * 10**9


def one_goes_further(difference: Difference) -> bool:
    """Accept layers of one side that are the first layers of the other."""
    ours, theirs = difference.ours or [], difference.theirs or []
    return ours[: len(theirs)] == theirs[: len(ours)]


def sizes_of_tcp_or_further(difference: Difference) -> bool:
    """Accept one size per layer. Sizes of layers that both list are equal, except TCP's."""
    layers, ours, theirs = (
        difference.golden.get("layer_stack", []),
        difference.ours or [],
        difference.theirs or [],
    )
    complete = (len(ours), len(theirs)) == (len(difference.flow.get("layer_stack", [])), len(layers))
    return complete and all(
        mine == other for layer, mine, other in zip(layers, ours, theirs, strict=False) if layer != "TCP"
    )


GOFLOW2_EXCEPTIONS = (
    # Sampling
    exception(
        "ipfix-mpls ipfix-physical-interfaces", "goflow2", "sampling_rate",
        lambda d: d.theirs == 1 and d.ours in (10, 1000),
        "[2] RFC 5477: samplingPacketInterval (305) out of as many packets and samplingPacketSpace (306) "
        "more; GoFlow2 reads 305 without 306",
    ),
    exception(
        "ipfix-cisco-sampling-option", "goflow2", "sampling_rate", says(256, 1),
        "[3] RFC 5477: samplingSize and samplingPopulation (1 of 256); GoFlow2 reads 305, which is 1",
    ),
    exception(
        "netflow9-multiple-sampling-rates", "goflow2", "sampling_rate", says(4000, 2000),
        "[4] each samplerId has its rate; GoFlow2 keeps one an exporter",
    ),
    exception(
        "netflow9-sampling-rate-in-record", "goflow2", "sampling_rate", says(2048, None),
        "[5] samplingInterval (34) in the data record; GoFlow2 reads it in options only",
    ),
    # Records
    exception(
        NESTED_HEADERS, "goflow2", "src_addr dst_addr etype proto src_port dst_port ip_tos ipv6_flow_label",
        of_inner_header,
        "[10] RFC 7011 section 8: of an element that occurs twice the first is the outer header's; GoFlow2's "
        "last one wins",
    ),
    exception(
        "*", "goflow2", "next_hop bgp_next_hop", all_zero,
        "[12] an all-zero address is none; GoFlow2 writes it",
    ),
    exception(
        "*", "goflow2", "mpls_ip", without_zero_addresses,
        "[12] an all-zero address is none; GoFlow2 writes it",
    ),
    exception(
        "*", "goflow2", "mpls_label", without_empty_sections,
        "[14] RFC 3032: labels end with the bottom of the stack; GoFlow2 always writes three",
    ),
    exception(
        "netflow9-icmp", "goflow2", "icmp_type", from_port,
        "[15] by Cisco's convention the destination port is type and code; GoFlow2 does not look",
    ),
    exception(
        "netflow9-icmp", "goflow2", TIMES, of_the_flow,
        "[16] NetFlow v9 with flowStart- and flowEndMilliseconds (152, 153): they say when the flow was; "
        "GoFlow2 reads them in IPFIX only, and writes the export time",
    ),
    exception(
        "ipfix-biflow-ipfixprobe", "goflow2", TIMES, rounded,
        "[17] RFC 7011 section 6.1.9: of dateTimeMicroseconds only the microseconds mean something; GoFlow2 "
        "cuts the NTP fraction, one nanosecond before what was written",
    ),
    # Sampled packets
    exception(
        "sflow-discarded-output sflow-multiple-outputs sflow-local-interface sflow-icmpv4 sflow-icmpv6 "
        "sflow-vxlan",
        "goflow2", "in_if out_if", no_ifindex,
        "[19] sFlow v5 section 5: the top two bits of an interface are a format, only format 0 is an "
        "ifIndex; 0x3fffffff is the exporter itself",
    ),
    exception(
        "sflow-1140", "goflow2", "src_vlan dst_vlan", says(None, 0xFFFFFFFF),
        "[20] sFlow v5: 0xffffffff is an unknown VLAN",
    ),
    exception(
        "sflow-qinq", "goflow2", "vlan_id", without_priority,
        "[20] IEEE 802.1Q: the id of a VLAN has 12 bits; GoFlow2 writes the whole tag, priority included",
    ),
    exception(
        "sflow-raw-ipv4", "goflow2", "src_addr dst_addr etype proto fragment_id ip_tos ip_ttl",
        of_sampled_header,
        "[21] sFlow v5: header_protocol 11 is IPv4; GoFlow2 parses Ethernet alone",
    ),
    exception(
        "sflow-icmpv4 sflow-icmpv6", "goflow2", "icmp_type", of_sampled_header,
        "[22] GoFlow2 lists the ICMP header among the layers but does not read it",
    ),
    exception(
        "ipfix-315-eompls-control-word", "goflow2",
        "src_addr dst_addr proto src_port dst_port tcp_flags ip_tos ip_ttl ip_flags fragment_id",
        lambda d: only_ours(d) and "mpls_labels" in d.flow,
        "[23] RFC 4448 section 4.6: an Ethernet frame behind a zero control word; GoFlow2 stops at the "
        "labels",
    ),
    exception(
        "ipfix-315-eompls-control-word", "goflow2", "etype", says(0x0800, 0x8847),
        "[23] RFC 4448 section 4.6: the ethertype is that of the frame within",
    ),
    exception(
        "*", "goflow2", "layer_stack", one_goes_further,
        "[21, 23, 25] flowbuf also reads pseudowires and packets without a frame, and may stop where a "
        "tunnel begins",
    ),
    exception(
        "*", "goflow2", "layer_size", sizes_of_tcp_or_further,
        "[24] GoFlow2 takes the length of a TCP header from its flags; and where one goes further, so do the "
        "sizes",
    ),
)  # fmt: skip
