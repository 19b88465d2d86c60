"""Further records of flow samples, by the documents of sflow.org.

These are "sFlow Version 5" and its 802.11, port NAT, tunnel, host, HTTP, memcache, application, dropped
packet and transit delay structures. Host sFlow added further records. The specifications leave these points
open:

- A record that is too short gives no values.
- A record without a field that fills a column is not read, so its faults are not counted.
- An empty string is unknown, and an address of type 0 is absent.
"""

from __future__ import annotations

from . import sflow
from .datagram import Datagram
from .octets import Octets, Short
from .values import Address, Flow, Number, Numbers, Text, Value

SAMPLED_ETHERNET = "length src_mac:mac dst_mac:mac type"
SAMPLED_IPV4 = "length protocol src_ip:ip_v4 dst_ip:ip_v4 src_port dst_port tcp_flags tos"
SAMPLED_IPV6 = "length protocol src_ip:ip_v6 dst_ip:ip_v6 src_port dst_port tcp_flags priority"
SOCKET_IPV4 = "protocol local_ip:ip_v4 remote_ip:ip_v4 local_port remote_port"
SOCKET_IPV6 = "protocol local_ip:ip_v6 remote_ip:ip_v6 local_port remote_port"
CONTEXT = "application:string operation:string attributes:string"

# Format -> structure, and its fields in the order of the wire. A field is an unsigned int unless another type
# is named.
STRUCTURES = {
    1004: ("extended_user", "src_charset src_user:string dst_charset dst_user:string"),
    1005: ("extended_url", "direction url:string host:string"),
    1006: ("extended_mpls", "next_hop:address in_stack:words out_stack:words"),
    1007: ("extended_nat", "src_address:address dst_address:address"),
    1008: ("extended_mpls_tunnel", "tunnel_lsp_name:string tunnel_id tunnel_cos"),
    1009: ("extended_mpls_vc", "vc_instance_name:string vll_vc_id vc_label_cos"),
    1010: ("extended_mpls_ftn", "mpls_ftn_descr:string mpls_ftn_mask"),
    1011: ("extended_mpls_ldp_fec", "mpls_fec_addr_prefix_length"),
    1012: ("extended_vlantunnel", "stack:words"),
    1014: (
        "extended_80211_rx",
        "ssid:string bssid:mac version channel speed:hyper rsni rcpi packet_duration",
    ),
    1015: (
        "extended_80211_tx",
        "ssid:string bssid:mac version transmissions packet_duration retrans_duration channel speed:hyper "
        "power",
    ),
    1020: ("extended_nat_port", "src_port dst_port"),
    1021: ("extended_l2_tunnel_egress", SAMPLED_ETHERNET),
    1022: ("extended_l2_tunnel_ingress", SAMPLED_ETHERNET),
    1023: ("extended_ipv4_tunnel_egress", SAMPLED_IPV4),
    1024: ("extended_ipv4_tunnel_ingress", SAMPLED_IPV4),
    1025: ("extended_ipv6_tunnel_egress", SAMPLED_IPV6),
    1026: ("extended_ipv6_tunnel_ingress", SAMPLED_IPV6),
    1027: ("extended_decapsulate_egress", "inner_header_offset"),
    1028: ("extended_decapsulate_ingress", "inner_header_offset"),
    1029: ("extended_vni_egress", "vni"),
    1030: ("extended_vni_ingress", "vni"),
    1034: ("extended_vlanin", "stack:words"),
    1035: ("extended_vlanout", "stack:words"),
    1036: ("extended_egress_queue", "queue"),
    1037: ("extended_acl", "number name:string direction"),
    1038: ("extended_function", "symbol:string"),
    1039: ("extended_transit", "delay"),
    1040: ("extended_queue", "depth"),
    1041: ("extended_hw_trap", "group:string trap:string"),
    1042: ("extended_linux_drop_reason", "reason:string"),
    2100: ("extended_socket_ipv4", SOCKET_IPV4),
    2101: ("extended_socket_ipv6", SOCKET_IPV6),
    2102: ("extended_proxy_socket_ipv4", SOCKET_IPV4),
    2103: ("extended_proxy_socket_ipv6", SOCKET_IPV6),
    2200: ("memcache_operation", "protocol cmd key:string nkeys value_bytes us status"),
    2202: (
        "app_operation",
        f"{CONTEXT} status_descr:string req_bytes:hyper resp_bytes:hyper us status",
    ),
    2203: ("app_parent_context", CONTEXT),
    2204: ("app_initiator", "actor:string"),
    2205: ("app_target", "actor:string"),
    2206: (
        "http_request",
        "method protocol uri:string host:string referer:string useragent:string xff:string authuser:string "
        "mime_type:string req_bytes:hyper resp_bytes:hyper us status:int",
    ),
    2207: ("extended_proxy_request", "uri:string host:string"),
    2209: (
        "extended_tcp_info",
        "dir snd_mss rcv_mss unacked lost retrans pmtu rtt rttvar snd_cwnd reordering min_rtt",
    ),
    2210: ("extended_entities", "src_ds_class src_ds_index dst_ds_class dst_ds_index"),
}


def give_records(datagram: Datagram, flow: Flow, records: dict[int, bytes]) -> None:
    """Add the values of the records of STRUCTURES. They come last in a flow."""
    wanted = datagram.wanted.get(flow.rows, frozenset())
    for record_format, (name, fields) in STRUCTURES.items():
        names = [f"sflow:{name}.{word.partition(':')[0]}" for word in fields.split()]
        if record_format not in records or wanted.isdisjoint(names):
            continue
        record = Octets(records[record_format])
        try:
            values = [read_value(word.partition(":")[2], record) for word in fields.split()]
        except (Short, sflow.UnknownAddressType):
            datagram.exporter.counters["bad_sample_record"] += 1
            continue
        for source, value in zip(names, values, strict=True):
            flow.give(source, value)


def read_value(field_type: str, record: Octets) -> Value | None:
    """Read a value. Return None if it is absent."""
    if field_type == "string":
        text = sflow.read_opaque(record)
        return Text(text) if text else None
    if field_type == "words":
        words: list[int] = []
        sflow.read_words(record, words)
        return Numbers(words)
    if field_type == "address":
        address = sflow.read_address(record)
        return Address(address) if address else None
    if field_type in ("ip_v4", "ip_v6"):
        return Address(record.take(4 if field_type == "ip_v4" else 16))
    if field_type == "mac":
        number = record.uint(6)
        record.take_up_to(2)
        return Number(number)
    if field_type == "int":
        return Number(int.from_bytes(record.take(4), "big", signed=True))
    return Number(record.uint(8 if field_type == "hyper" else 4))
