"""Numbers, names and types of the default schema never change.

Users have messages of this schema on their disks.
"""

import pytest

from flowbuf import _core
from flowbuf.schema import Schema
from flowbuf.schema.loader import built_in_names
from tests.support.pinned import check_pinned, describe_type

FLOW = Schema.load("flow")

# Number, name and type. A * marks columns that are enabled by default.
PINNED = """
1 time_received* timestamp, 2 exporter_address* ip, 3 sampling_rate* uint64, 4 bytes* uint64,
5 packets* uint64, 6 src_addr* ip, 7 dst_addr* ip, 8 etype* uint16, 9 proto* uint8, 10 src_port* uint16,
11 dst_port* uint16, 12 in_if* uint32, 13 out_if* uint32, 14 src_as* uint32, 15 dst_as* uint32,
16 src_prefix_len* uint8, 17 dst_prefix_len* uint8, 18 next_hop ip, 19 tcp_flags* uint16,
20 forwarding_status* uint8, 21 flow_direction* enum, 22 flow_type* enum, 23 time_flow_start timestamp,
24 time_flow_end timestamp, 25 ip_tos uint8, 26 ip_ttl uint8, 27 ip_fragment_id uint32,
28 ip_fragment_offset uint16, 29 ipv6_flow_label uint32, 30 icmp_type uint8, 31 icmp_code uint8,
32 src_mac mac, 33 dst_mac mac, 34 src_vlan uint16, 35 dst_vlan uint16, 36 src_addr_nat ip,
37 dst_addr_nat ip, 38 src_port_nat uint16, 39 dst_port_nat uint16, 40 mpls_labels repeated-uint32,
41 ingress_vrf_id uint32, 42 egress_vrf_id uint32, 43 dst_as_path repeated-uint32,
44 dst_communities repeated-uint32, 45 bgp_next_hop ip, 46 sequence_number uint32,
47 observation_domain_id uint32, 48 application_id bytes, 49 flow_end_reason enum, 50 frame_length uint32,
51 vlan_id uint16, 52 inner_vlan_id uint16, 53 ip_flags uint8, 54 observation_point_id uint64,
55 next_hop_as uint32, 56 tunnel_src_addr ip, 57 tunnel_dst_addr ip, 58 tunnel_id uint64,
59 mpls_top_addr ip, 60 exporter_name string, 61 exporter_group string, 62 exporter_role string,
63 exporter_site string, 64 exporter_region string, 65 exporter_tenant string, 66 in_if_name string,
67 out_if_name string, 68 in_if_description string, 69 out_if_description string, 70 in_if_speed uint32,
71 out_if_speed uint32, 72 in_if_connectivity string, 73 out_if_connectivity string,
74 in_if_provider string, 75 out_if_provider string, 76 in_if_boundary enum, 77 out_if_boundary enum,
80 src_country string, 81 dst_country string, 82 src_geo_state string, 83 dst_geo_state string,
84 src_geo_city string, 85 dst_geo_city string, 90 src_net_name string, 91 dst_net_name string,
92 src_net_role string, 93 dst_net_role string, 94 src_net_site string, 95 dst_net_site string,
96 src_net_region string, 97 dst_net_region string, 98 src_net_tenant string, 99 dst_net_tenant string,
100 src_net_prefix string, 101 dst_net_prefix string, 110 src_communities repeated-uint32,
111 src_large_communities repeated-bytes, 112 dst_large_communities repeated-bytes, 113 dst_1st_as uint32,
114 dst_2nd_as uint32, 115 dst_3rd_as uint32, 116 src_as_path repeated-uint32, 120 mpls_1st_label uint32,
121 mpls_2nd_label uint32, 122 mpls_3rd_label uint32, 123 mpls_4th_label uint32, 124 packet_size uint64,
125 packet_size_bucket string, 126 icmp_name string, 200 mpls_ttl repeated-uint8,
201 layer_stack repeated-enum, 202 layer_size repeated-uint32,
203 ipv6_routing_header_addresses repeated-ip, 204 ipv6_routing_header_seg_left uint8,
205 source_address ip, 206 source_port uint16, 207 time_exported timestamp, 208 engine_type uint8,
209 engine_id uint8, 210 sampling_mode uint8, 211 sampler_id uint64, 212 sub_agent_id uint32,
213 agent_uptime uint32, 214 sample_sequence_number uint32, 215 sample_pool uint32, 216 sample_drops uint32,
217 sample_source_id uint32, 218 src_vlan_priority uint8, 219 dst_vlan_priority uint8, 220 router_as uint32,
221 src_peer_as uint32, 222 local_pref uint32, 223 nat_event uint8, 224 biflow_direction enum,
225 interface_name string, 226 interface_description string, 227 application_name string,
228 flow_id uint64, 229 flow_duration duration, 230 ip_version uint8, 231 post_ip_tos uint8,
232 section_length uint32, 240 bypassed_router ip, 250 application_category string,
251 ingress_vrf_name string, 252 egress_vrf_name string, 253 sampler_name string, 254 user_name string,
255 observation_point_name string, 256 other_elements repeated-uint64, 257 other_values repeated-bytes,
300 src_user string, 301 dst_user string,
302 src_user_charset uint32, 303 dst_user_charset uint32, 304 url_direction enum, 305 url string,
306 url_host string, 307 mpls_in_stack repeated-uint32, 308 mpls_out_stack repeated-uint32,
309 vlan_tunnel_stack repeated-uint32, 310 tunnel_proto uint8, 311 tunnel_src_port uint16,
312 tunnel_dst_port uint16, 313 tunnel_tcp_flags uint16, 314 tunnel_tos uint8, 315 tunnel_length uint32,
316 tunnel_src_mac mac, 317 tunnel_dst_mac mac, 318 tunnel_etype uint16, 319 egress_tunnel_src_addr ip,
320 egress_tunnel_dst_addr ip, 321 egress_tunnel_proto uint8, 322 egress_tunnel_src_port uint16,
323 egress_tunnel_dst_port uint16, 324 egress_tunnel_tcp_flags uint16, 325 egress_tunnel_tos uint8,
326 egress_tunnel_length uint32, 327 egress_tunnel_src_mac mac, 328 egress_tunnel_dst_mac mac,
329 egress_tunnel_etype uint16, 330 egress_tunnel_id uint32, 331 egress_queue uint32,
332 transit_delay uint32, 333 queue_depth uint32, 334 socket_proto uint8, 335 socket_local_addr ip,
336 socket_remote_addr ip, 337 socket_local_port uint16, 338 socket_remote_port uint16,
339 proxy_socket_proto uint8, 340 proxy_socket_local_addr ip, 341 proxy_socket_remote_addr ip,
342 proxy_socket_local_port uint16, 343 proxy_socket_remote_port uint16, 344 app_name string,
345 app_operation string, 346 app_attributes string, 347 app_status uint32, 348 app_status_descr string,
349 app_req_bytes uint64, 350 app_resp_bytes uint64, 351 app_duration uint32, 352 app_parent_name string,
353 app_parent_operation string, 354 app_parent_attributes string, 355 app_initiator string,
356 app_target string, 357 http_method uint32, 358 http_version uint32, 359 http_referer string,
360 http_user_agent string, 361 http_xff string, 362 http_auth_user string, 363 http_mime_type string,
364 http_status int32, 365 proxy_uri string, 366 proxy_host string, 367 memcache_protocol uint32,
368 memcache_cmd uint32, 369 memcache_key string, 370 memcache_nkeys uint32,
371 memcache_value_bytes uint32, 372 memcache_status uint32, 373 tcp_rtt uint32,
374 inner_vlan_priority uint8, 375 layer2_segment_id uint64, 376 selection_sequence_id uint64,
377 digest_hash_value uint64, 378 ip_section bytes, 379 frame_section bytes,
380 mpls_tunnel_name string, 381 mpls_tunnel_id uint32, 382 mpls_tunnel_cos uint32,
383 mpls_vc_name string, 384 mpls_vc_id uint32, 385 mpls_vc_cos uint32, 386 mpls_ftn_description string,
387 mpls_ftn_mask uint32, 388 mpls_fec_prefix_len uint32, 389 tunnel_inner_offset uint32,
390 egress_tunnel_inner_offset uint32, 391 vlan_in_stack repeated-uint32,
392 vlan_out_stack repeated-uint32, 393 tcp_direction uint32, 394 tcp_send_mss uint32,
395 tcp_receive_mss uint32, 396 tcp_unacked uint32, 397 tcp_lost uint32, 398 tcp_retransmitted uint32,
399 tcp_path_mtu uint32, 400 tcp_rtt_variation uint32, 401 tcp_congestion_window uint32,
402 tcp_reordering uint32, 403 tcp_min_rtt uint32, 404 src_entity_class uint32,
405 dst_entity_class uint32, 406 src_entity_index uint32, 407 dst_entity_index uint32,
408 wifi_rx_ssid string, 409 wifi_rx_bssid mac, 410 wifi_rx_version uint32, 411 wifi_rx_channel uint32,
412 wifi_rx_speed uint64, 413 wifi_rx_rsni uint32, 414 wifi_rx_rcpi uint32, 415 wifi_rx_duration uint32,
416 wifi_tx_ssid string, 417 wifi_tx_bssid mac, 418 wifi_tx_version uint32,
419 wifi_tx_transmissions uint32, 420 wifi_tx_duration uint32, 421 wifi_tx_retry_duration uint32,
422 wifi_tx_channel uint32, 423 wifi_tx_speed uint64, 424 wifi_tx_power uint32
"""


ALL_COLUMNS = "168a9c9ee400a03f"
"""Hash of the schema with all columns enabled. It also pins units, forms of addresses, and enums."""


def test_numbers_names_and_types_are_pinned():
    def describe(column):
        return f"{column.number} {column.name}{'*' * column.enabled} {describe_type(column)}"

    check_pinned(PINNED, FLOW, describe)


def test_the_hash_of_all_columns_is_pinned():
    """A new column changes this hash. The test above shows whether a column changed too."""
    assert FLOW.enable(*(column.name for column in FLOW)).hash == ALL_COLUMNS, (
        "if you only added columns, set ALL_COLUMNS to the new hash"
    )


def test_members_of_enums_are_pinned():
    assert FLOW["flow_direction"].values == {"undefined": 0, "ingress": 1, "egress": 2}
    assert FLOW["flow_direction"].map == {0: 1, 1: 2}
    flow_types = {"UNKNOWN": 0, "SFLOW_5": 1, "NETFLOW_V5": 2, "NETFLOW_V9": 3, "IPFIX": 4}
    assert FLOW["flow_type"].values == flow_types | {"NETFLOW_V1": 5, "NETFLOW_V7": 6}
    assert FLOW["in_if_boundary"].values == {"undefined": 0, "external": 1, "internal": 2}


def test_times_are_in_milliseconds_and_addresses_have_16_bytes():
    assert {column.unit for column in FLOW if column.type in ("timestamp", "duration")} == {"ms"}
    assert {column.ip for column in FLOW if column.type == "ip"} == {"mapped"}


def test_columns_that_later_stages_override_are_late():
    late = "sampling_rate exporter_address src_addr dst_addr src_as dst_as in_if out_if next_hop"
    assert {column.name for column in FLOW if column.late} == set(late.split())


def test_every_column_is_documented_and_in_a_group():
    assert not [column.name for column in FLOW if not column.doc or not column.group]


@pytest.mark.parametrize("one", [column for column in FLOW if column.mirror], ids=lambda column: column.name)
def test_mirrored_columns_point_at_one_another_and_share_no_element(one):
    other = FLOW[one.mirror]
    assert other.mirror == one.name
    assert (other.type, other.late, other.enabled, other.group) == (
        one.type,
        one.late,
        one.enabled,
        one.group,
    )
    elements = [
        {source.id for rank in column.sources for source in rank if source.id} for column in (one, other)
    ]
    assert not elements[0] & elements[1]


# The core lists the fixed sources in the order in which it produces them. The built-in schemas use all of
# them except the padding of NetFlow v5, and no others.

FIXED_SOURCES = [*_core.SOURCES, *_core.NETFLOW5_FIELDS, *_core.SCOPES]
SCHEMAS = [Schema.load(name) for name in built_in_names()]

# Columns whose ranks have another order, because a better source comes after a worse one. The core produces
# the default sampling rate first, but its rank is the last. The same holds for the times that GoFlow2 falls
# back to. GoFlow2 prefers the inner VLAN tag to the outer one, and the length of the frame to that of the
# packet.
OUT_OF_ORDER = {
    "flow": {"sampling_rate"},
    "akvorado": {"SamplingRate"},
    "goflow2": {"sampling_rate", "bytes", "vlan_id", "time_flow_start_ns", "time_flow_end_ns"},
}


def fixed_sources_of(schema):
    sources = [source for column in schema for rank in column.sources for source in rank]
    return {source.text for source in sources if source.kind not in ("ipfix", "netflow9")}


def test_every_fixed_source_of_the_core_fills_a_column():
    used = set().union(*map(fixed_sources_of, SCHEMAS))
    assert set(FIXED_SOURCES) - used == {"netflow5:pad1", "netflow5:pad2"}
    assert not used - set(FIXED_SOURCES)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_ranks_follow_the_order_in_which_the_core_produces_sources(schema):
    places = {text: place for place, text in enumerate(_core.SOURCES)}
    unordered = set()
    for column in schema:
        ranks = [places[source.text] for rank in column.sources for source in rank if source.text in places]
        if ranks != sorted(ranks):
            unordered.add(column.name)
    assert unordered == OUT_OF_ORDER.get(schema.name, set())
