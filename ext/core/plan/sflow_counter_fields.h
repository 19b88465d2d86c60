/* The records of sFlow counter samples that are read, and the offsets of their fields.

   Sources of the structures, by format:

     1 to 5, 1001      sflow.org/sflow_version_5.txt
     6, 1002           sflow.org/sflow_80211.txt
     7                 sflow.org/sflow_lag.txt
     10                sflow.org/sflow_optics.txt
     1004, 1005        sflow.org/sflow_openflow.txt
     2000 to 2006      sflow.org/sflow_host.txt, and src/sflow/sflow.h of host-sflow for cpu_steal,
                       cpu_guest and cpu_guest_nice
     2007 to 2010      sflow.org/sflow_host_ip.txt
     2100 to 2104      sflow.org/sflow_host.txt; its errata rename `available` to `physical`
     2105, 2106        sflow.org/sflow_jvm.txt
     2201              sflow.org/sflow_http.txt
     2202, 2203, 2206  sflow.org/sflow_application.txt
     2204              sflow.org/sflow_memcache.txt
     2207              src/sflow.h of sflowtool

   sflow.org/developers/structures.php lists all formats. Field names are theirs, in lower case.
   Each field is one line. It defines a source (source.h), which the decoders read
   (sflow_counters.tmpl.h). */
#ifndef FB_PLAN_SFLOW_COUNTER_FIELDS_H
#define FB_PLAN_SFLOW_COUNTER_FIELDS_H

/* X(record, format, minimum size in bytes); enterprise 0. The last five have no fixed size and are
   read field by field. */
#define FB_COUNTER_RECORD_LIST(X) \
    X(if_counters, 1, 88) \
    X(ethernet_counters, 2, 52) \
    X(tokenring_counters, 3, 72) \
    X(vg_counters, 4, 80) \
    X(vlan_counters, 5, 28) \
    X(ieee80211_counters, 6, 80) \
    X(lag_port_stats, 7, 56) \
    X(sfp, 10, 20) \
    X(processor, 1001, 28) \
    X(radio_utilization, 1002, 12) \
    X(of_port, 1004, 12) \
    X(host_parent, 2002, 8) \
    X(host_cpu, 2003, 68) \
    X(host_memory, 2004, 72) \
    X(host_disk_io, 2005, 52) \
    X(host_net_io, 2006, 40) \
    X(mib2_ip_group, 2007, 76) \
    X(mib2_icmp_group, 2008, 100) \
    X(mib2_tcp_group, 2009, 60) \
    X(mib2_udp_group, 2010, 28) \
    X(virt_node, 2100, 28) \
    X(virt_cpu, 2101, 12) \
    X(virt_memory, 2102, 16) \
    X(virt_disk_io, 2103, 52) \
    X(virt_net_io, 2104, 40) \
    X(jvm_statistics, 2106, 108) \
    X(http_counters, 2201, 60) \
    X(app_resources, 2203, 40) \
    X(memcache_counters, 2204, 140) \
    X(app_workers, 2206, 20) \
    X(ovs_dp_stats, 2207, 24) \
    X(jvm_runtime, 2105, 0) \
    X(app_operations, 2202, 0) \
    X(port_name, 1005, 4) X(host_descr, 2000, 0) X(host_adapters, 2001, 4)

/* F(X, record, field, kind, offset, bytes), in the order of the records above. Fields that a later
   edition of a structure added (cpu_steal and those after it) are read if the record contains
   them. */
#define FB_COUNTER_LIST(F, X) \
    F(X, if_counters, if_index, UINT, 0, 4) \
    F(X, if_counters, if_type, UINT, 4, 4) \
    F(X, if_counters, if_speed, UINT, 8, 8) \
    F(X, if_counters, if_direction, UINT, 16, 4) \
    F(X, if_counters, if_status, UINT, 20, 4) \
    F(X, if_counters, if_in_octets, UINT, 24, 8) \
    F(X, if_counters, if_in_ucast_pkts, UINT, 32, 4) \
    F(X, if_counters, if_in_multicast_pkts, UINT, 36, 4) \
    F(X, if_counters, if_in_broadcast_pkts, UINT, 40, 4) \
    F(X, if_counters, if_in_discards, UINT, 44, 4) \
    F(X, if_counters, if_in_errors, UINT, 48, 4) \
    F(X, if_counters, if_in_unknown_protos, UINT, 52, 4) \
    F(X, if_counters, if_out_octets, UINT, 56, 8) \
    F(X, if_counters, if_out_ucast_pkts, UINT, 64, 4) \
    F(X, if_counters, if_out_multicast_pkts, UINT, 68, 4) \
    F(X, if_counters, if_out_broadcast_pkts, UINT, 72, 4) \
    F(X, if_counters, if_out_discards, UINT, 76, 4) \
    F(X, if_counters, if_out_errors, UINT, 80, 4) \
    F(X, if_counters, if_promiscuous_mode, UINT, 84, 4) \
    F(X, ethernet_counters, dot3_stats_alignment_errors, UINT, 0, 4) \
    F(X, ethernet_counters, dot3_stats_fcs_errors, UINT, 4, 4) \
    F(X, ethernet_counters, dot3_stats_single_collision_frames, UINT, 8, 4) \
    F(X, ethernet_counters, dot3_stats_multiple_collision_frames, UINT, 12, 4) \
    F(X, ethernet_counters, dot3_stats_sqe_test_errors, UINT, 16, 4) \
    F(X, ethernet_counters, dot3_stats_deferred_transmissions, UINT, 20, 4) \
    F(X, ethernet_counters, dot3_stats_late_collisions, UINT, 24, 4) \
    F(X, ethernet_counters, dot3_stats_excessive_collisions, UINT, 28, 4) \
    F(X, ethernet_counters, dot3_stats_internal_mac_transmit_errors, UINT, 32, 4) \
    F(X, ethernet_counters, dot3_stats_carrier_sense_errors, UINT, 36, 4) \
    F(X, ethernet_counters, dot3_stats_frame_too_longs, UINT, 40, 4) \
    F(X, ethernet_counters, dot3_stats_internal_mac_receive_errors, UINT, 44, 4) \
    F(X, ethernet_counters, dot3_stats_symbol_errors, UINT, 48, 4) \
    F(X, tokenring_counters, dot5_stats_line_errors, UINT, 0, 4) \
    F(X, tokenring_counters, dot5_stats_burst_errors, UINT, 4, 4) \
    F(X, tokenring_counters, dot5_stats_ac_errors, UINT, 8, 4) \
    F(X, tokenring_counters, dot5_stats_abort_trans_errors, UINT, 12, 4) \
    F(X, tokenring_counters, dot5_stats_internal_errors, UINT, 16, 4) \
    F(X, tokenring_counters, dot5_stats_lost_frame_errors, UINT, 20, 4) \
    F(X, tokenring_counters, dot5_stats_receive_congestions, UINT, 24, 4) \
    F(X, tokenring_counters, dot5_stats_frame_copied_errors, UINT, 28, 4) \
    F(X, tokenring_counters, dot5_stats_token_errors, UINT, 32, 4) \
    F(X, tokenring_counters, dot5_stats_soft_errors, UINT, 36, 4) \
    F(X, tokenring_counters, dot5_stats_hard_errors, UINT, 40, 4) \
    F(X, tokenring_counters, dot5_stats_signal_loss, UINT, 44, 4) \
    F(X, tokenring_counters, dot5_stats_transmit_beacons, UINT, 48, 4) \
    F(X, tokenring_counters, dot5_stats_recoverys, UINT, 52, 4) \
    F(X, tokenring_counters, dot5_stats_lobe_wires, UINT, 56, 4) \
    F(X, tokenring_counters, dot5_stats_removes, UINT, 60, 4) \
    F(X, tokenring_counters, dot5_stats_singles, UINT, 64, 4) \
    F(X, tokenring_counters, dot5_stats_freq_errors, UINT, 68, 4) \
    F(X, vg_counters, dot12_in_high_priority_frames, UINT, 0, 4) \
    F(X, vg_counters, dot12_in_high_priority_octets, UINT, 4, 8) \
    F(X, vg_counters, dot12_in_norm_priority_frames, UINT, 12, 4) \
    F(X, vg_counters, dot12_in_norm_priority_octets, UINT, 16, 8) \
    F(X, vg_counters, dot12_in_ipm_errors, UINT, 24, 4) \
    F(X, vg_counters, dot12_in_oversize_frame_errors, UINT, 28, 4) \
    F(X, vg_counters, dot12_in_data_errors, UINT, 32, 4) \
    F(X, vg_counters, dot12_in_null_addressed_frames, UINT, 36, 4) \
    F(X, vg_counters, dot12_out_high_priority_frames, UINT, 40, 4) \
    F(X, vg_counters, dot12_out_high_priority_octets, UINT, 44, 8) \
    F(X, vg_counters, dot12_transition_into_trainings, UINT, 52, 4) \
    F(X, vg_counters, dot12_hc_in_high_priority_octets, UINT, 56, 8) \
    F(X, vg_counters, dot12_hc_in_norm_priority_octets, UINT, 64, 8) \
    F(X, vg_counters, dot12_hc_out_high_priority_octets, UINT, 72, 8) \
    F(X, vlan_counters, vlan_id, UINT, 0, 4) \
    F(X, vlan_counters, octets, UINT, 4, 8) \
    F(X, vlan_counters, ucast_pkts, UINT, 12, 4) \
    F(X, vlan_counters, multicast_pkts, UINT, 16, 4) \
    F(X, vlan_counters, broadcast_pkts, UINT, 20, 4) \
    F(X, vlan_counters, discards, UINT, 24, 4) \
    F(X, ieee80211_counters, dot11_transmitted_fragment_count, UINT, 0, 4) \
    F(X, ieee80211_counters, dot11_multicast_transmitted_frame_count, UINT, 4, 4) \
    F(X, ieee80211_counters, dot11_failed_count, UINT, 8, 4) \
    F(X, ieee80211_counters, dot11_retry_count, UINT, 12, 4) \
    F(X, ieee80211_counters, dot11_multiple_retry_count, UINT, 16, 4) \
    F(X, ieee80211_counters, dot11_frame_duplicate_count, UINT, 20, 4) \
    F(X, ieee80211_counters, dot11_rts_success_count, UINT, 24, 4) \
    F(X, ieee80211_counters, dot11_rts_failure_count, UINT, 28, 4) \
    F(X, ieee80211_counters, dot11_ack_failure_count, UINT, 32, 4) \
    F(X, ieee80211_counters, dot11_received_fragment_count, UINT, 36, 4) \
    F(X, ieee80211_counters, dot11_multicast_received_frame_count, UINT, 40, 4) \
    F(X, ieee80211_counters, dot11_fcs_error_count, UINT, 44, 4) \
    F(X, ieee80211_counters, dot11_transmitted_frame_count, UINT, 48, 4) \
    F(X, ieee80211_counters, dot11_wep_undecryptable_count, UINT, 52, 4) \
    F(X, ieee80211_counters, dot11_qos_discarded_fragment_count, UINT, 56, 4) \
    F(X, ieee80211_counters, dot11_associated_station_count, UINT, 60, 4) \
    F(X, ieee80211_counters, dot11_qos_cf_polls_received_count, UINT, 64, 4) \
    F(X, ieee80211_counters, dot11_qos_cf_polls_unused_count, UINT, 68, 4) \
    F(X, ieee80211_counters, dot11_qos_cf_polls_unusable_count, UINT, 72, 4) \
    F(X, ieee80211_counters, dot11_qos_cf_polls_lost_count, UINT, 76, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_actor_system_id, UINT, 0, 6) \
    F(X, lag_port_stats, dot3ad_agg_port_partner_oper_system_id, UINT, 8, 6) \
    F(X, lag_port_stats, dot3ad_agg_port_attached_agg_id, UINT, 16, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_actor_admin_state, UINT, 20, 1) \
    F(X, lag_port_stats, dot3ad_agg_port_actor_oper_state, UINT, 21, 1) \
    F(X, lag_port_stats, dot3ad_agg_port_partner_admin_state, UINT, 22, 1) \
    F(X, lag_port_stats, dot3ad_agg_port_partner_oper_state, UINT, 23, 1) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_lacpdus_rx, UINT, 24, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_marker_pdus_rx, UINT, 28, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_marker_response_pdus_rx, UINT, 32, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_unknown_rx, UINT, 36, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_illegal_rx, UINT, 40, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_lacpdus_tx, UINT, 44, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_marker_pdus_tx, UINT, 48, 4) \
    F(X, lag_port_stats, dot3ad_agg_port_stats_marker_response_pdus_tx, UINT, 52, 4) \
    F(X, sfp, module_id, UINT, 0, 4) \
    F(X, sfp, module_total_lanes, UINT, 4, 4) \
    F(X, sfp, module_supply_voltage, UINT, 8, 4) \
    F(X, sfp, module_temperature, SINT, 12, 4) \
    F(X, processor, 5s_cpu, UINT, 0, 4) \
    F(X, processor, 1m_cpu, UINT, 4, 4) \
    F(X, processor, 5m_cpu, UINT, 8, 4) \
    F(X, processor, total_memory, UINT, 12, 8) \
    F(X, processor, free_memory, UINT, 20, 8) \
    F(X, radio_utilization, elapsed_time, UINT, 0, 4) \
    F(X, radio_utilization, on_channel_time, UINT, 4, 4) \
    F(X, radio_utilization, on_channel_busy_time, UINT, 8, 4) \
    F(X, of_port, datapath_id, UINT, 0, 8) \
    F(X, of_port, port_no, UINT, 8, 4) \
    F(X, host_parent, container_type, UINT, 0, 4) \
    F(X, host_parent, container_index, UINT, 4, 4) \
    F(X, host_cpu, load_one, FLOAT, 0, 4) \
    F(X, host_cpu, load_five, FLOAT, 4, 4) \
    F(X, host_cpu, load_fifteen, FLOAT, 8, 4) \
    F(X, host_cpu, proc_run, UINT, 12, 4) \
    F(X, host_cpu, proc_total, UINT, 16, 4) \
    F(X, host_cpu, cpu_num, UINT, 20, 4) \
    F(X, host_cpu, cpu_speed, UINT, 24, 4) \
    F(X, host_cpu, uptime, UINT, 28, 4) \
    F(X, host_cpu, cpu_user, UINT, 32, 4) \
    F(X, host_cpu, cpu_nice, UINT, 36, 4) \
    F(X, host_cpu, cpu_system, UINT, 40, 4) \
    F(X, host_cpu, cpu_idle, UINT, 44, 4) \
    F(X, host_cpu, cpu_wio, UINT, 48, 4) \
    F(X, host_cpu, cpu_intr, UINT, 52, 4) \
    F(X, host_cpu, cpu_sintr, UINT, 56, 4) \
    F(X, host_cpu, interrupts, UINT, 60, 4) \
    F(X, host_cpu, contexts, UINT, 64, 4) \
    F(X, host_cpu, cpu_steal, UINT, 68, 4) \
    F(X, host_cpu, cpu_guest, UINT, 72, 4) \
    F(X, host_cpu, cpu_guest_nice, UINT, 76, 4) \
    F(X, host_memory, mem_total, UINT, 0, 8) \
    F(X, host_memory, mem_free, UINT, 8, 8) \
    F(X, host_memory, mem_shared, UINT, 16, 8) \
    F(X, host_memory, mem_buffers, UINT, 24, 8) \
    F(X, host_memory, mem_cached, UINT, 32, 8) \
    F(X, host_memory, swap_total, UINT, 40, 8) \
    F(X, host_memory, swap_free, UINT, 48, 8) \
    F(X, host_memory, page_in, UINT, 56, 4) \
    F(X, host_memory, page_out, UINT, 60, 4) \
    F(X, host_memory, swap_in, UINT, 64, 4) \
    F(X, host_memory, swap_out, UINT, 68, 4) \
    F(X, host_disk_io, disk_total, UINT, 0, 8) \
    F(X, host_disk_io, disk_free, UINT, 8, 8) \
    F(X, host_disk_io, part_max_used, UINT, 16, 4) \
    F(X, host_disk_io, reads, UINT, 20, 4) \
    F(X, host_disk_io, bytes_read, UINT, 24, 8) \
    F(X, host_disk_io, read_time, UINT, 32, 4) \
    F(X, host_disk_io, writes, UINT, 36, 4) \
    F(X, host_disk_io, bytes_written, UINT, 40, 8) \
    F(X, host_disk_io, write_time, UINT, 48, 4) \
    F(X, host_net_io, bytes_in, UINT, 0, 8) \
    F(X, host_net_io, pkts_in, UINT, 8, 4) \
    F(X, host_net_io, errs_in, UINT, 12, 4) \
    F(X, host_net_io, drops_in, UINT, 16, 4) \
    F(X, host_net_io, bytes_out, UINT, 20, 8) \
    F(X, host_net_io, packets_out, UINT, 28, 4) \
    F(X, host_net_io, errs_out, UINT, 32, 4) \
    F(X, host_net_io, drops_out, UINT, 36, 4) \
    F(X, mib2_ip_group, ip_forwarding, UINT, 0, 4) \
    F(X, mib2_ip_group, ip_default_ttl, UINT, 4, 4) \
    F(X, mib2_ip_group, ip_in_receives, UINT, 8, 4) \
    F(X, mib2_ip_group, ip_in_hdr_errors, UINT, 12, 4) \
    F(X, mib2_ip_group, ip_in_addr_errors, UINT, 16, 4) \
    F(X, mib2_ip_group, ip_forw_datagrams, UINT, 20, 4) \
    F(X, mib2_ip_group, ip_in_unknown_protos, UINT, 24, 4) \
    F(X, mib2_ip_group, ip_in_discards, UINT, 28, 4) \
    F(X, mib2_ip_group, ip_in_delivers, UINT, 32, 4) \
    F(X, mib2_ip_group, ip_out_requests, UINT, 36, 4) \
    F(X, mib2_ip_group, ip_out_discards, UINT, 40, 4) \
    F(X, mib2_ip_group, ip_out_no_routes, UINT, 44, 4) \
    F(X, mib2_ip_group, ip_reasm_timeout, UINT, 48, 4) \
    F(X, mib2_ip_group, ip_reasm_reqds, UINT, 52, 4) \
    F(X, mib2_ip_group, ip_reasm_oks, UINT, 56, 4) \
    F(X, mib2_ip_group, ip_reasm_fails, UINT, 60, 4) \
    F(X, mib2_ip_group, ip_frag_oks, UINT, 64, 4) \
    F(X, mib2_ip_group, ip_frag_fails, UINT, 68, 4) \
    F(X, mib2_ip_group, ip_frag_creates, UINT, 72, 4) \
    F(X, mib2_icmp_group, icmp_in_msgs, UINT, 0, 4) \
    F(X, mib2_icmp_group, icmp_in_errors, UINT, 4, 4) \
    F(X, mib2_icmp_group, icmp_in_dest_unreachs, UINT, 8, 4) \
    F(X, mib2_icmp_group, icmp_in_time_excds, UINT, 12, 4) \
    F(X, mib2_icmp_group, icmp_in_param_probs, UINT, 16, 4) \
    F(X, mib2_icmp_group, icmp_in_src_quenchs, UINT, 20, 4) \
    F(X, mib2_icmp_group, icmp_in_redirects, UINT, 24, 4) \
    F(X, mib2_icmp_group, icmp_in_echos, UINT, 28, 4) \
    F(X, mib2_icmp_group, icmp_in_echo_reps, UINT, 32, 4) \
    F(X, mib2_icmp_group, icmp_in_timestamps, UINT, 36, 4) \
    F(X, mib2_icmp_group, icmp_in_addr_masks, UINT, 40, 4) \
    F(X, mib2_icmp_group, icmp_in_addr_mask_reps, UINT, 44, 4) \
    F(X, mib2_icmp_group, icmp_out_msgs, UINT, 48, 4) \
    F(X, mib2_icmp_group, icmp_out_errors, UINT, 52, 4) \
    F(X, mib2_icmp_group, icmp_out_dest_unreachs, UINT, 56, 4) \
    F(X, mib2_icmp_group, icmp_out_time_excds, UINT, 60, 4) \
    F(X, mib2_icmp_group, icmp_out_param_probs, UINT, 64, 4) \
    F(X, mib2_icmp_group, icmp_out_src_quenchs, UINT, 68, 4) \
    F(X, mib2_icmp_group, icmp_out_redirects, UINT, 72, 4) \
    F(X, mib2_icmp_group, icmp_out_echos, UINT, 76, 4) \
    F(X, mib2_icmp_group, icmp_out_echo_reps, UINT, 80, 4) \
    F(X, mib2_icmp_group, icmp_out_timestamps, UINT, 84, 4) \
    F(X, mib2_icmp_group, icmp_out_timestamp_reps, UINT, 88, 4) \
    F(X, mib2_icmp_group, icmp_out_addr_masks, UINT, 92, 4) \
    F(X, mib2_icmp_group, icmp_out_addr_mask_reps, UINT, 96, 4) \
    F(X, mib2_tcp_group, tcp_rto_algorithm, UINT, 0, 4) \
    F(X, mib2_tcp_group, tcp_rto_min, UINT, 4, 4) \
    F(X, mib2_tcp_group, tcp_rto_max, UINT, 8, 4) \
    F(X, mib2_tcp_group, tcp_max_conn, UINT, 12, 4) \
    F(X, mib2_tcp_group, tcp_active_opens, UINT, 16, 4) \
    F(X, mib2_tcp_group, tcp_passive_opens, UINT, 20, 4) \
    F(X, mib2_tcp_group, tcp_attempt_fails, UINT, 24, 4) \
    F(X, mib2_tcp_group, tcp_estab_resets, UINT, 28, 4) \
    F(X, mib2_tcp_group, tcp_curr_estab, UINT, 32, 4) \
    F(X, mib2_tcp_group, tcp_in_segs, UINT, 36, 4) \
    F(X, mib2_tcp_group, tcp_out_segs, UINT, 40, 4) \
    F(X, mib2_tcp_group, tcp_retrans_segs, UINT, 44, 4) \
    F(X, mib2_tcp_group, tcp_in_errs, UINT, 48, 4) \
    F(X, mib2_tcp_group, tcp_out_rsts, UINT, 52, 4) \
    F(X, mib2_tcp_group, tcp_in_csum_errs, UINT, 56, 4) \
    F(X, mib2_udp_group, udp_in_datagrams, UINT, 0, 4) \
    F(X, mib2_udp_group, udp_no_ports, UINT, 4, 4) \
    F(X, mib2_udp_group, udp_in_errors, UINT, 8, 4) \
    F(X, mib2_udp_group, udp_out_datagrams, UINT, 12, 4) \
    F(X, mib2_udp_group, udp_rcvbuf_errors, UINT, 16, 4) \
    F(X, mib2_udp_group, udp_sndbuf_errors, UINT, 20, 4) \
    F(X, mib2_udp_group, udp_in_csum_errors, UINT, 24, 4) \
    F(X, virt_node, mhz, UINT, 0, 4) \
    F(X, virt_node, cpus, UINT, 4, 4) \
    F(X, virt_node, memory, UINT, 8, 8) \
    F(X, virt_node, memory_free, UINT, 16, 8) \
    F(X, virt_node, num_domains, UINT, 24, 4) \
    F(X, virt_cpu, state, UINT, 0, 4) \
    F(X, virt_cpu, cpu_time, UINT, 4, 4) \
    F(X, virt_cpu, nr_virt_cpu, UINT, 8, 4) \
    F(X, virt_memory, memory, UINT, 0, 8) \
    F(X, virt_memory, max_memory, UINT, 8, 8) \
    F(X, virt_disk_io, capacity, UINT, 0, 8) \
    F(X, virt_disk_io, allocation, UINT, 8, 8) \
    F(X, virt_disk_io, physical, UINT, 16, 8) \
    F(X, virt_disk_io, rd_req, UINT, 24, 4) \
    F(X, virt_disk_io, rd_bytes, UINT, 28, 8) \
    F(X, virt_disk_io, wr_req, UINT, 36, 4) \
    F(X, virt_disk_io, wr_bytes, UINT, 40, 8) \
    F(X, virt_disk_io, errs, UINT, 48, 4) \
    F(X, virt_net_io, rx_bytes, UINT, 0, 8) \
    F(X, virt_net_io, rx_packets, UINT, 8, 4) \
    F(X, virt_net_io, rx_errs, UINT, 12, 4) \
    F(X, virt_net_io, rx_drop, UINT, 16, 4) \
    F(X, virt_net_io, tx_bytes, UINT, 20, 8) \
    F(X, virt_net_io, tx_packets, UINT, 28, 4) \
    F(X, virt_net_io, tx_errs, UINT, 32, 4) \
    F(X, virt_net_io, tx_drop, UINT, 36, 4) \
    F(X, jvm_statistics, heap_initial, UINT, 0, 8) \
    F(X, jvm_statistics, heap_used, UINT, 8, 8) \
    F(X, jvm_statistics, heap_committed, UINT, 16, 8) \
    F(X, jvm_statistics, heap_max, UINT, 24, 8) \
    F(X, jvm_statistics, non_heap_initial, UINT, 32, 8) \
    F(X, jvm_statistics, non_heap_used, UINT, 40, 8) \
    F(X, jvm_statistics, non_heap_committed, UINT, 48, 8) \
    F(X, jvm_statistics, non_heap_max, UINT, 56, 8) \
    F(X, jvm_statistics, gc_count, UINT, 64, 4) \
    F(X, jvm_statistics, gc_time, UINT, 68, 4) \
    F(X, jvm_statistics, classes_loaded, UINT, 72, 4) \
    F(X, jvm_statistics, classes_total, UINT, 76, 4) \
    F(X, jvm_statistics, classes_unloaded, UINT, 80, 4) \
    F(X, jvm_statistics, compilation_time, UINT, 84, 4) \
    F(X, jvm_statistics, thread_num_live, UINT, 88, 4) \
    F(X, jvm_statistics, thread_num_daemon, UINT, 92, 4) \
    F(X, jvm_statistics, thread_num_started, UINT, 96, 4) \
    F(X, jvm_statistics, fd_open_count, UINT, 100, 4) \
    F(X, jvm_statistics, fd_max_count, UINT, 104, 4) \
    F(X, http_counters, method_option_count, UINT, 0, 4) \
    F(X, http_counters, method_get_count, UINT, 4, 4) \
    F(X, http_counters, method_head_count, UINT, 8, 4) \
    F(X, http_counters, method_post_count, UINT, 12, 4) \
    F(X, http_counters, method_put_count, UINT, 16, 4) \
    F(X, http_counters, method_delete_count, UINT, 20, 4) \
    F(X, http_counters, method_trace_count, UINT, 24, 4) \
    F(X, http_counters, method_connect_count, UINT, 28, 4) \
    F(X, http_counters, method_other_count, UINT, 32, 4) \
    F(X, http_counters, status_1xx_count, UINT, 36, 4) \
    F(X, http_counters, status_2xx_count, UINT, 40, 4) \
    F(X, http_counters, status_3xx_count, UINT, 44, 4) \
    F(X, http_counters, status_4xx_count, UINT, 48, 4) \
    F(X, http_counters, status_5xx_count, UINT, 52, 4) \
    F(X, http_counters, status_other_count, UINT, 56, 4) \
    F(X, app_resources, user_time, UINT, 0, 4) \
    F(X, app_resources, system_time, UINT, 4, 4) \
    F(X, app_resources, mem_used, UINT, 8, 8) \
    F(X, app_resources, mem_max, UINT, 16, 8) \
    F(X, app_resources, fd_open, UINT, 24, 4) \
    F(X, app_resources, fd_max, UINT, 28, 4) \
    F(X, app_resources, conn_open, UINT, 32, 4) \
    F(X, app_resources, conn_max, UINT, 36, 4) \
    F(X, memcache_counters, cmd_set, UINT, 0, 4) \
    F(X, memcache_counters, cmd_touch, UINT, 4, 4) \
    F(X, memcache_counters, cmd_flush, UINT, 8, 4) \
    F(X, memcache_counters, get_hits, UINT, 12, 4) \
    F(X, memcache_counters, get_misses, UINT, 16, 4) \
    F(X, memcache_counters, delete_hits, UINT, 20, 4) \
    F(X, memcache_counters, delete_misses, UINT, 24, 4) \
    F(X, memcache_counters, incr_hits, UINT, 28, 4) \
    F(X, memcache_counters, incr_misses, UINT, 32, 4) \
    F(X, memcache_counters, decr_hits, UINT, 36, 4) \
    F(X, memcache_counters, decr_misses, UINT, 40, 4) \
    F(X, memcache_counters, cas_hits, UINT, 44, 4) \
    F(X, memcache_counters, cas_misses, UINT, 48, 4) \
    F(X, memcache_counters, cas_badval, UINT, 52, 4) \
    F(X, memcache_counters, auth_cmds, UINT, 56, 4) \
    F(X, memcache_counters, auth_errors, UINT, 60, 4) \
    F(X, memcache_counters, threads, UINT, 64, 4) \
    F(X, memcache_counters, conn_yields, UINT, 68, 4) \
    F(X, memcache_counters, listen_disabled_num, UINT, 72, 4) \
    F(X, memcache_counters, curr_connections, UINT, 76, 4) \
    F(X, memcache_counters, rejected_connections, UINT, 80, 4) \
    F(X, memcache_counters, total_connections, UINT, 84, 4) \
    F(X, memcache_counters, connection_structures, UINT, 88, 4) \
    F(X, memcache_counters, evictions, UINT, 92, 4) \
    F(X, memcache_counters, reclaimed, UINT, 96, 4) \
    F(X, memcache_counters, curr_items, UINT, 100, 4) \
    F(X, memcache_counters, total_items, UINT, 104, 4) \
    F(X, memcache_counters, bytes_read, UINT, 108, 8) \
    F(X, memcache_counters, bytes_written, UINT, 116, 8) \
    F(X, memcache_counters, bytes, UINT, 124, 8) \
    F(X, memcache_counters, limit_maxbytes, UINT, 132, 8) \
    F(X, app_workers, workers_active, UINT, 0, 4) \
    F(X, app_workers, workers_idle, UINT, 4, 4) \
    F(X, app_workers, workers_max, UINT, 8, 4) \
    F(X, app_workers, req_delayed, UINT, 12, 4) \
    F(X, app_workers, req_dropped, UINT, 16, 4) \
    F(X, ovs_dp_stats, hits, UINT, 0, 4) \
    F(X, ovs_dp_stats, misses, UINT, 4, 4) \
    F(X, ovs_dp_stats, lost, UINT, 8, 4) \
    F(X, ovs_dp_stats, mask_hits, UINT, 12, 4) \
    F(X, ovs_dp_stats, flows, UINT, 16, 4) \
    F(X, ovs_dp_stats, masks, UINT, 20, 4)

/* Records that begin with strings: X(record, first field, last field). */
#define FB_COUNTER_TEXT_RECORD_LIST(X) \
    X(jvm_runtime, vm_name, vm_version) \
    X(app_operations, application, unauthorized)

/* Their fields, as in FB_FLOW_FIELD_LIST (sflow_record_fields.h): F(X, record, field, kind, size in
   bytes). */
#define FB_COUNTER_TEXT_LIST(F, X) \
    F(X, jvm_runtime, vm_name, STRING, 0) \
    F(X, jvm_runtime, vm_vendor, STRING, 0) \
    F(X, jvm_runtime, vm_version, STRING, 0) \
    F(X, app_operations, application, STRING, 0) \
    F(X, app_operations, success, UINT, 4) \
    F(X, app_operations, other, UINT, 4) \
    F(X, app_operations, timeout, UINT, 4) \
    F(X, app_operations, internal_error, UINT, 4) \
    F(X, app_operations, bad_request, UINT, 4) \
    F(X, app_operations, forbidden, UINT, 4) \
    F(X, app_operations, too_large, UINT, 4) \
    F(X, app_operations, not_implemented, UINT, 4) \
    F(X, app_operations, not_found, UINT, 4) \
    F(X, app_operations, unavailable, UINT, 4) \
    F(X, app_operations, unauthorized, UINT, 4)

/* A field as a row of FB_SOURCE_LIST. */
#define FB_COUNTER_SOURCE(X, record, field, kind, offset, size) \
    X(COUNTER_##record##_##field, "sflow:" #record "." #field, kind)
#define FB_COUNTER_TEXT_SOURCE(X, record, field, kind, size) \
    X(COUNTER_##record##_##field, "sflow:" #record "." #field, kind)

#endif
