"""Numbers, names and types of the schema of counter and drop samples never change.

Users have messages of this schema on their disks.
"""

import pytest

from flowbuf import Decoder, SchemaError
from flowbuf.schema import Schema
from flowbuf.schema.evolution import diff
from tests.support.pinned import check_pinned, describe_type

COUNTERS = Schema.load("sflow_counters")
FLOW = Schema.load("flow")

# Number, name and type. A ! marks explicit columns: zero is written, and an absent value is unknown.
PINNED = """
1 time_received timestamp, 2 exporter_address ip, 3 sample_kind enum, 4 sequence_number uint32!,
5 source_id_type uint32!, 6 source_id_index uint32!, 7 sub_agent_id uint32!, 8 agent_uptime uint32!,
9 datagram_sequence_number uint32!, 10 source_address ip, 11 source_port uint16, 20 if_index uint32!,
21 if_type uint32!, 22 if_speed uint64!, 23 if_direction enum, 24 if_status uint32!,
25 if_in_octets uint64!, 26 if_in_ucast_pkts uint32!, 27 if_in_multicast_pkts uint32!,
28 if_in_broadcast_pkts uint32!, 29 if_in_discards uint32!, 30 if_in_errors uint32!,
31 if_in_unknown_protos uint32!, 32 if_out_octets uint64!, 33 if_out_ucast_pkts uint32!,
34 if_out_multicast_pkts uint32!, 35 if_out_broadcast_pkts uint32!, 36 if_out_discards uint32!,
37 if_out_errors uint32!, 38 if_promiscuous_mode uint32!, 40 dot3_stats_alignment_errors uint32!,
41 dot3_stats_fcs_errors uint32!, 42 dot3_stats_single_collision_frames uint32!,
43 dot3_stats_multiple_collision_frames uint32!, 44 dot3_stats_sqe_test_errors uint32!,
45 dot3_stats_deferred_transmissions uint32!, 46 dot3_stats_late_collisions uint32!,
47 dot3_stats_excessive_collisions uint32!, 48 dot3_stats_internal_mac_transmit_errors uint32!,
49 dot3_stats_carrier_sense_errors uint32!, 50 dot3_stats_frame_too_longs uint32!,
51 dot3_stats_internal_mac_receive_errors uint32!, 52 dot3_stats_symbol_errors uint32!, 55 port_name string,
56 of_datapath_id uint64!, 57 of_port_no uint32!, 60 vlan_counters_vlan_id uint32!,
61 vlan_counters_octets uint64!, 62 vlan_counters_ucast_pkts uint32!,
63 vlan_counters_multicast_pkts uint32!, 64 vlan_counters_broadcast_pkts uint32!,
65 vlan_counters_discards uint32!, 70 dot3ad_agg_port_actor_system_id mac,
71 dot3ad_agg_port_partner_oper_system_id mac, 72 dot3ad_agg_port_attached_agg_id uint32!,
73 dot3ad_agg_port_actor_admin_state uint8!, 74 dot3ad_agg_port_actor_oper_state uint8!,
75 dot3ad_agg_port_partner_admin_state uint8!, 76 dot3ad_agg_port_partner_oper_state uint8!,
77 dot3ad_agg_port_stats_lacpdus_rx uint32!, 78 dot3ad_agg_port_stats_marker_pdus_rx uint32!,
79 dot3ad_agg_port_stats_marker_response_pdus_rx uint32!, 80 dot3ad_agg_port_stats_unknown_rx uint32!,
81 dot3ad_agg_port_stats_illegal_rx uint32!, 82 dot3ad_agg_port_stats_lacpdus_tx uint32!,
83 dot3ad_agg_port_stats_marker_pdus_tx uint32!, 84 dot3ad_agg_port_stats_marker_response_pdus_tx uint32!,
90 sfp_module_id uint32!, 91 sfp_module_total_lanes uint32!, 92 sfp_module_supply_voltage uint32!,
93 sfp_module_temperature int32!, 94 sfp_lane_index repeated-uint32,
95 sfp_lane_tx_bias_current repeated-uint32, 96 sfp_lane_tx_power repeated-uint32,
97 sfp_lane_tx_power_min repeated-uint32, 98 sfp_lane_tx_power_max repeated-uint32,
99 sfp_lane_tx_wavelength repeated-uint32, 100 sfp_lane_rx_power repeated-uint32,
101 sfp_lane_rx_power_min repeated-uint32, 102 sfp_lane_rx_power_max repeated-uint32,
103 sfp_lane_rx_wavelength repeated-uint32, 110 dot11_transmitted_fragment_count uint32!,
111 dot11_multicast_transmitted_frame_count uint32!, 112 dot11_failed_count uint32!,
113 dot11_retry_count uint32!, 114 dot11_multiple_retry_count uint32!,
115 dot11_frame_duplicate_count uint32!, 116 dot11_rts_success_count uint32!,
117 dot11_rts_failure_count uint32!, 118 dot11_ack_failure_count uint32!,
119 dot11_received_fragment_count uint32!, 120 dot11_multicast_received_frame_count uint32!,
121 dot11_fcs_error_count uint32!, 122 dot11_transmitted_frame_count uint32!,
123 dot11_wep_undecryptable_count uint32!, 124 dot11_qos_discarded_fragment_count uint32!,
125 dot11_associated_station_count uint32!, 126 dot11_qos_cf_polls_received_count uint32!,
127 dot11_qos_cf_polls_unused_count uint32!, 128 dot11_qos_cf_polls_unusable_count uint32!,
129 dot11_qos_cf_polls_lost_count uint32!, 130 radio_elapsed_time uint32!,
131 radio_on_channel_time uint32!, 132 radio_on_channel_busy_time uint32!,
140 dot5_stats_line_errors uint32!, 141 dot5_stats_burst_errors uint32!, 142 dot5_stats_ac_errors uint32!,
143 dot5_stats_abort_trans_errors uint32!, 144 dot5_stats_internal_errors uint32!,
145 dot5_stats_lost_frame_errors uint32!, 146 dot5_stats_receive_congestions uint32!,
147 dot5_stats_frame_copied_errors uint32!, 148 dot5_stats_token_errors uint32!,
149 dot5_stats_soft_errors uint32!, 150 dot5_stats_hard_errors uint32!, 151 dot5_stats_signal_loss uint32!,
152 dot5_stats_transmit_beacons uint32!, 153 dot5_stats_recoverys uint32!,
154 dot5_stats_lobe_wires uint32!, 155 dot5_stats_removes uint32!, 156 dot5_stats_singles uint32!,
157 dot5_stats_freq_errors uint32!, 160 dot12_in_high_priority_frames uint32!,
161 dot12_in_high_priority_octets uint64!, 162 dot12_in_norm_priority_frames uint32!,
163 dot12_in_norm_priority_octets uint64!, 164 dot12_in_ipm_errors uint32!,
165 dot12_in_oversize_frame_errors uint32!, 166 dot12_in_data_errors uint32!,
167 dot12_in_null_addressed_frames uint32!, 168 dot12_out_high_priority_frames uint32!,
169 dot12_out_high_priority_octets uint64!, 170 dot12_transition_into_trainings uint32!,
171 dot12_hc_in_high_priority_octets uint64!, 172 dot12_hc_in_norm_priority_octets uint64!,
173 dot12_hc_out_high_priority_octets uint64!, 180 processor_5s_cpu uint32!, 181 processor_1m_cpu uint32!,
182 processor_5m_cpu uint32!, 183 processor_total_memory uint64!, 184 processor_free_memory uint64!,
190 hostname string, 191 uuid bytes, 192 machine_type enum, 193 os_name enum, 194 os_release string,
195 adapter_if_index repeated-uint32, 196 adapter_mac_address repeated-mac, 197 container_type uint32!,
198 container_index uint32!, 200 load_one float!, 201 load_five float!, 202 load_fifteen float!,
203 proc_run uint32!, 204 proc_total uint32!, 205 cpu_num uint32!, 206 cpu_speed uint32!,
207 host_uptime uint32!, 208 cpu_user uint32!, 209 cpu_nice uint32!, 210 cpu_system uint32!,
211 cpu_idle uint32!, 212 cpu_wio uint32!, 213 cpu_intr uint32!, 214 cpu_sintr uint32!,
215 interrupts uint32!, 216 contexts uint32!, 217 cpu_steal uint32!, 218 cpu_guest uint32!,
219 cpu_guest_nice uint32!, 220 mem_total uint64!, 221 mem_free uint64!, 222 mem_shared uint64!,
223 mem_buffers uint64!, 224 mem_cached uint64!, 225 swap_total uint64!, 226 swap_free uint64!,
227 page_in uint32!, 228 page_out uint32!, 229 swap_in uint32!, 230 swap_out uint32!,
240 disk_total uint64!, 241 disk_free uint64!, 242 disk_part_max_used uint32!, 243 disk_reads uint32!,
244 disk_bytes_read uint64!, 245 disk_read_time uint32!, 246 disk_writes uint32!,
247 disk_bytes_written uint64!, 248 disk_write_time uint32!, 250 net_bytes_in uint64!,
251 net_pkts_in uint32!, 252 net_errs_in uint32!, 253 net_drops_in uint32!, 254 net_bytes_out uint64!,
255 net_packets_out uint32!, 256 net_errs_out uint32!, 257 net_drops_out uint32!, 260 ip_forwarding uint32!,
261 ip_default_ttl uint32!, 262 ip_in_receives uint32!, 263 ip_in_hdr_errors uint32!,
264 ip_in_addr_errors uint32!, 265 ip_forw_datagrams uint32!, 266 ip_in_unknown_protos uint32!,
267 ip_in_discards uint32!, 268 ip_in_delivers uint32!, 269 ip_out_requests uint32!,
270 ip_out_discards uint32!, 271 ip_out_no_routes uint32!, 272 ip_reasm_timeout uint32!,
273 ip_reasm_reqds uint32!, 274 ip_reasm_oks uint32!, 275 ip_reasm_fails uint32!, 276 ip_frag_oks uint32!,
277 ip_frag_fails uint32!, 278 ip_frag_creates uint32!, 280 icmp_in_msgs uint32!,
281 icmp_in_errors uint32!, 282 icmp_in_dest_unreachs uint32!, 283 icmp_in_time_excds uint32!,
284 icmp_in_param_probs uint32!, 285 icmp_in_src_quenchs uint32!, 286 icmp_in_redirects uint32!,
287 icmp_in_echos uint32!, 288 icmp_in_echo_reps uint32!, 289 icmp_in_timestamps uint32!,
290 icmp_in_addr_masks uint32!, 291 icmp_in_addr_mask_reps uint32!, 292 icmp_out_msgs uint32!,
293 icmp_out_errors uint32!, 294 icmp_out_dest_unreachs uint32!, 295 icmp_out_time_excds uint32!,
296 icmp_out_param_probs uint32!, 297 icmp_out_src_quenchs uint32!, 298 icmp_out_redirects uint32!,
299 icmp_out_echos uint32!, 300 icmp_out_echo_reps uint32!, 301 icmp_out_timestamps uint32!,
302 icmp_out_timestamp_reps uint32!, 303 icmp_out_addr_masks uint32!, 304 icmp_out_addr_mask_reps uint32!,
310 tcp_rto_algorithm uint32!, 311 tcp_rto_min uint32!, 312 tcp_rto_max uint32!, 313 tcp_max_conn uint32!,
314 tcp_active_opens uint32!, 315 tcp_passive_opens uint32!, 316 tcp_attempt_fails uint32!,
317 tcp_estab_resets uint32!, 318 tcp_curr_estab uint32!, 319 tcp_in_segs uint32!, 320 tcp_out_segs uint32!,
321 tcp_retrans_segs uint32!, 322 tcp_in_errs uint32!, 323 tcp_out_rsts uint32!,
324 tcp_in_csum_errs uint32!, 330 udp_in_datagrams uint32!, 331 udp_no_ports uint32!,
332 udp_in_errors uint32!, 333 udp_out_datagrams uint32!, 334 udp_rcvbuf_errors uint32!,
335 udp_sndbuf_errors uint32!, 336 udp_in_csum_errors uint32!, 340 virt_node_mhz uint32!,
341 virt_node_cpus uint32!, 342 virt_node_memory uint64!, 343 virt_node_memory_free uint64!,
344 virt_node_num_domains uint32!, 350 virt_cpu_state enum, 351 virt_cpu_cpu_time uint32!,
352 virt_cpu_nr_virt_cpu uint32!, 355 virt_memory uint64!, 356 virt_max_memory uint64!,
360 virt_disk_capacity uint64!, 361 virt_disk_allocation uint64!, 362 virt_disk_physical uint64!,
363 virt_disk_rd_req uint32!, 364 virt_disk_rd_bytes uint64!, 365 virt_disk_wr_req uint32!,
366 virt_disk_wr_bytes uint64!, 367 virt_disk_errs uint32!, 370 virt_net_rx_bytes uint64!,
371 virt_net_rx_packets uint32!, 372 virt_net_rx_errs uint32!, 373 virt_net_rx_drop uint32!,
374 virt_net_tx_bytes uint64!, 375 virt_net_tx_packets uint32!, 376 virt_net_tx_errs uint32!,
377 virt_net_tx_drop uint32!, 400 drop_reason uint32!, 401 forwarding_status uint8, 402 drops uint32!,
403 in_if uint32, 404 out_if uint32, 405 egress_queue uint32!, 406 acl_number uint32!, 407 acl_name string,
408 acl_direction enum, 409 drop_function string, 410 hw_trap_group string, 411 hw_trap string,
412 linux_drop_reason string, 420 src_addr ip, 421 dst_addr ip, 422 etype uint16, 423 proto uint8,
424 src_port uint16, 425 dst_port uint16, 426 tcp_flags uint16, 427 icmp_type uint8!, 428 icmp_code uint8!,
429 ip_tos uint8, 430 ip_ttl uint8!, 431 bytes uint64, 432 frame_length uint32, 433 src_mac mac,
434 dst_mac mac, 435 src_vlan uint16, 436 dst_vlan uint16, 437 vlan_id uint16, 438 inner_vlan_id uint16,
439 mpls_labels repeated-uint32, 440 next_hop ip, 500 jvm_vm_name string, 501 jvm_vm_vendor string,
502 jvm_vm_version string, 503 jvm_heap_initial uint64!, 504 jvm_heap_used uint64!,
505 jvm_heap_committed uint64!, 506 jvm_heap_max uint64!, 507 jvm_non_heap_initial uint64!,
508 jvm_non_heap_used uint64!, 509 jvm_non_heap_committed uint64!, 510 jvm_non_heap_max uint64!,
511 jvm_gc_count uint32!, 512 jvm_gc_time uint32!, 513 jvm_classes_loaded uint32!,
514 jvm_classes_total uint32!, 515 jvm_classes_unloaded uint32!, 516 jvm_compilation_time uint32!,
517 jvm_thread_num_live uint32!, 518 jvm_thread_num_daemon uint32!, 519 jvm_thread_num_started uint32!,
520 jvm_fd_open_count uint32!, 521 jvm_fd_max_count uint32!, 522 http_method_option_count uint32!,
523 http_method_get_count uint32!, 524 http_method_head_count uint32!, 525 http_method_post_count uint32!,
526 http_method_put_count uint32!, 527 http_method_delete_count uint32!,
528 http_method_trace_count uint32!, 529 http_method_connect_count uint32!,
530 http_method_other_count uint32!, 531 http_status_1xx_count uint32!, 532 http_status_2xx_count uint32!,
533 http_status_3xx_count uint32!, 534 http_status_4xx_count uint32!, 535 http_status_5xx_count uint32!,
536 http_status_other_count uint32!, 537 app_name string, 538 app_success uint32!, 539 app_other uint32!,
540 app_timeout uint32!, 541 app_internal_error uint32!, 542 app_bad_request uint32!,
543 app_forbidden uint32!, 544 app_too_large uint32!, 545 app_not_implemented uint32!,
546 app_not_found uint32!, 547 app_unavailable uint32!, 548 app_unauthorized uint32!,
549 app_user_time uint32!, 550 app_system_time uint32!, 551 app_mem_used uint64!, 552 app_mem_max uint64!,
553 app_fd_open uint32!, 554 app_fd_max uint32!, 555 app_conn_open uint32!, 556 app_conn_max uint32!,
557 app_workers_active uint32!, 558 app_workers_idle uint32!, 559 app_workers_max uint32!,
560 app_req_delayed uint32!, 561 app_req_dropped uint32!, 562 memcache_cmd_set uint32!,
563 memcache_cmd_touch uint32!, 564 memcache_cmd_flush uint32!, 565 memcache_get_hits uint32!,
566 memcache_get_misses uint32!, 567 memcache_delete_hits uint32!, 568 memcache_delete_misses uint32!,
569 memcache_incr_hits uint32!, 570 memcache_incr_misses uint32!, 571 memcache_decr_hits uint32!,
572 memcache_decr_misses uint32!, 573 memcache_cas_hits uint32!, 574 memcache_cas_misses uint32!,
575 memcache_cas_badval uint32!, 576 memcache_auth_cmds uint32!, 577 memcache_auth_errors uint32!,
578 memcache_threads uint32!, 579 memcache_conn_yields uint32!, 580 memcache_listen_disabled_num uint32!,
581 memcache_curr_connections uint32!, 582 memcache_rejected_connections uint32!,
583 memcache_total_connections uint32!, 584 memcache_connection_structures uint32!,
585 memcache_evictions uint32!, 586 memcache_reclaimed uint32!, 587 memcache_curr_items uint32!,
588 memcache_total_items uint32!, 589 memcache_bytes_read uint64!, 590 memcache_bytes_written uint64!,
591 memcache_bytes uint64!, 592 memcache_limit_maxbytes uint64!, 593 ovs_dp_hits uint32!,
594 ovs_dp_misses uint32!, 595 ovs_dp_lost uint32!, 596 ovs_dp_mask_hits uint32!, 597 ovs_dp_flows uint32!,
598 ovs_dp_masks uint32!
"""


def test_numbers_names_and_types_are_pinned():
    def describe(column):
        return f"{column.number} {column.name} {describe_type(column)}{'!' * column.explicit}"

    check_pinned(PINNED, COUNTERS, describe)


def test_members_of_enums_are_pinned():
    assert COUNTERS["sample_kind"].values == {"unknown": 0, "counters": 1, "drop": 2}
    assert COUNTERS["if_direction"].values == {
        "unknown": 0,
        "full_duplex": 1,
        "half_duplex": 2,
        "in": 3,
        "out": 4,
    }
    assert COUNTERS["acl_direction"].values == {"unknown": 0, "ingress": 1, "egress": 2}
    machines = "unknown other x86 x86_64 ia64 sparc alpha powerpc m68k mips arm hppa s390"
    systems = "unknown other linux windows darwin hpux aix dragonfly freebsd netbsd openbsd osf solaris"
    states = "no_state running blocked paused shutdown shutoff crashed pmsuspended"
    for name, members in (("machine_type", machines), ("os_name", systems), ("virt_cpu_state", states)):
        assert COUNTERS[name].values == {member: number for number, member in enumerate(members.split())}


def test_every_column_is_documented_and_in_a_group_and_those_of_applications_are_disabled():
    disabled = {column.group for column in COUNTERS if not column.enabled}
    assert disabled == {"jvm", "http", "app", "memcache", "ovs"}
    assert not disabled & {column.group for column in COUNTERS.enabled}
    assert not [column.name for column in COUNTERS if not column.doc or not column.group]


def test_packet_columns_match_the_columns_of_flows():
    """Types and the order of sources equal those in flow.toml.

    Sources that do not occur in drop samples are omitted.
    """
    for column in COUNTERS:
        if column.group == "packet":
            ranks = [source.text for rank in FLOW[column.name].sources for source in rank]
            assert column.type == FLOW[column.name].type
            assert [source.text for rank in column.sources for source in rank] == [
                text for text in ranks if text in {source.text for rank in column.sources for source in rank}
            ]


# Rows -------------------------------------------------------------------------------------------------------


def test_schemas_have_one_kind_of_rows():
    assert (FLOW.rows, COUNTERS.rows) == ("flows", "counters")
    assert COUNTERS.only("if_index").disable("if_index").rows == "counters"
    mine = Schema.from_toml(
        '[schema]\nname = "mine"\nextends = "sflow_counters"\nonly = ["if_index"]', "mine.toml"
    )
    assert mine.rows == "counters"
    with pytest.raises(SchemaError, match=r"mine.toml: rows is 'drops'.*flows, counters"):
        Schema.from_toml('[schema]\nname = "mine"\nrows = "drops"', "mine.toml")


def test_sources_of_another_kind_of_rows_are_refused():
    with pytest.raises(
        SchemaError, match=r"if_counters.if_index belongs to counters, but the rows of the schema are flows"
    ):
        Decoder(FLOW.add("if_index", number=1000, type="uint32", sources=["sflow:if_counters.if_index"]))
    for source in (
        "ipfix:octetDeltaCount",
        "netflow5:dOctets",
        "netflow9:40000",
        "sflow:flow_sample.sampling_rate",
    ):
        with pytest.raises(SchemaError, match="belongs to flows, but the rows of the schema are counters"):
            Decoder(COUNTERS.add("total", number=1000, type="uint64", sources=[source]))


def test_flows_and_counters_have_different_hashes():
    flows, counters = FLOW.only("time_received"), COUNTERS.only("time_received")
    assert flows.hash != counters.hash
    (verdict,) = diff(flows, counters)
    assert (verdict.column, verdict.change, verdict.readable) == ("[schema]", "rows changed", False)
    assert not diff(counters, counters)
