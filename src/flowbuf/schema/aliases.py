"""Alternative names of columns, for suggestions in error messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from flowbuf.errors import did_you_mean

__all__ = ["same_meaning", "suggest_column"]

# One line per meaning; a backslash continues it. The first names are the columns of the built-in schemas
# flow, goflow2 and akvorado. The others are names used by nfdump, SiLK, pmacct, Logstash, Cisco's NetFlow v5
# and IPFIX. Case, _, - and . are ignored.
_SAME = """
time_received time_received_ns TimeReceived received t_received timestamp_arrival
exporter_address sampler_address ExporterAddress exporter exporter_addr exporter_ip sampler agent agent_addr \
agent_ip
exporter_address sampler_address ExporterAddress router router_ip ip4_router ip6_router peer_ip_src ra
sampling_rate SamplingRate sampling sample_rate sampling_interval
bytes Bytes octets octet byte byt in_bytes in_octets ibyt ibytes d_octets byte_count num_bytes \
octet_delta_count
packets Packets packet pkts pkt in_pkts in_packets ipkt ipackets d_pkts packet_count num_packets \
packet_delta_count
src_addr SrcAddr src_ip sip src source_ip source_addr ip_src src_host saddr sa src_ip_addr src4_addr src6_addr
src_addr SrcAddr ipv4_src_addr ipv6_src_addr source_ipv4_address source_ipv6_address src_address
dst_addr DstAddr dst_ip dip dst dest_ip dst_ip_addr destination_ip ip_dst dst_host daddr da dst4_addr \
dst6_addr
dst_addr DstAddr ipv4_dst_addr ipv6_dst_addr destination_ipv4_address destination_ipv6_address dst_address
dst_addr DstAddr destination_addr destination_address dest_addr
src_port SrcPort sport sp port_src l4_src_port source_transport_port
dst_port DstPort dport dp port_dst dest_port l4_dst_port destination_transport_port
proto Proto protocol prot pr ip_proto ip_protocol protocol_identifier
etype EType ether_type ethertype ethernet_type
in_if InIf in input input_if input_snmp in_snmp snmp_in ingress_if in_iface iface_in input_interface \
ingress_interface
in_if InIf in_interface if_in in_ifindex
out_if OutIf out output output_if output_snmp out_snmp snmp_out egress_if out_iface iface_out output_interface
out_if OutIf egress_interface out_interface if_out out_ifindex
src_as SrcAS sas as_src src_asn source_as source_asn bgp_source_as_number
dst_as DstAS das as_dst dst_asn dest_as dest_asn destination_as destination_asn bgp_destination_as_number
src_prefix_len src_net SrcNetMask src_mask smk src_masklen mask_src source_ipv4_prefix_length
dst_prefix_len dst_net DstNetMask dst_mask dmk dst_masklen mask_dst destination_ipv4_prefix_length
next_hop NextHop nh nhip next_hop_ip next_hop_addr ip_next_hop ip4_next_hop ip6_next_hop ipv4_next_hop
bgp_next_hop nhb bgp4_next_hop bgp6_next_hop bgp_nexthop
tcp_flags TCPFlags flags flg tcp_control_bits
forwarding_status ForwardingStatus fwd fwd_status
flow_direction FlowDirection direction dir
time_flow_start time_flow_start_ns first first_seen first_switched t_first start start_time stime ts \
timestamp_start
time_flow_end time_flow_end_ns last last_seen last_switched t_last end end_time etime te timestamp_end
ip_tos IPTos tos src_tos stos class_of_service ip_class_of_service
ip_ttl IPTTL ttl min_ttl minimum_ttl
ip_fragment_id IPFragmentID fragment_id frag_id fragment_identification
ip_fragment_offset fragment_offset IPFragmentOffset frag_offset
ipv6_flow_label IPv6FlowLabel flow_label
icmp_type ICMPType itype
icmp_code ICMPCode icode
src_mac SrcMAC smac mac_src source_mac in_src_mac ismc source_mac_address
dst_mac DstMAC dmac mac_dst dest_mac destination_mac out_dst_mac odmc destination_mac_address
src_vlan SrcVlan svln svlan in_vlan vlan_in source_vlan
dst_vlan DstVlan dvln dvlan out_vlan vlan_out destination_vlan
vlan_id vlan
src_addr_nat SrcAddrNAT src_xlt_ip post_nat_src_ip xsrc_ip
dst_addr_nat DstAddrNAT dst_xlt_ip post_nat_dst_ip xdst_ip
src_port_nat SrcPortNAT src_xlt_port post_nat_src_port
dst_port_nat DstPortNAT dst_xlt_port post_nat_dst_port
mpls_labels mpls_label MPLSLabels mpls
dst_as_path as_path DstASPath
dst_communities bgp_communities DstCommunities communities
sequence_number sequence_num sequence seq
flow_duration duration dur td
"""


def suggest_column(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean …?' for an unknown column name, or '' if no known column is similar.

    A column that other collectors call `name` takes precedence over columns with similar names.
    """
    names = list(known)
    return same_meaning(name, names) or did_you_mean(name, names)


def same_meaning(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean …?' for a column that other collectors call `name`, or ''."""
    meaning = _meanings().get(_fold(name), set())
    same = [column for column in known if _fold(column) in meaning]
    return f"did you mean {' or '.join(same)}?" if same else ""


def _fold(name: str) -> str:
    return name.lower().translate({ord(mark): None for mark in "_-."})


@functools.cache
def _meanings() -> dict[str, set[str]]:
    """Return a map from each folded name to all folded names with its meaning."""
    found: dict[str, set[str]] = {}
    for line in _SAME.strip().splitlines():
        names = {_fold(name) for name in line.split()}
        for name in names:
            found.setdefault(name, set()).update(names)
    return found
