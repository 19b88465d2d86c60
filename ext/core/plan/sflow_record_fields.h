/* The records of sFlow flow samples that are read by this table, and their fields in the order of
   the wire. Records that almost every sample has are read by code (sflow_records.tmpl.h).

   Sources of the structures, by format:

     1004 to 1012      sflow.org/sflow_version_5.txt
     1014, 1015        sflow.org/sflow_80211.txt
     1020              sflow.org/sflow_pnat.txt
     1021 to 1030      sflow.org/sflow_tunnels.txt
     1034, 1035        groups.google.com/g/sflow/c/S22dbzam404
     1036 to 1038      sflow.org/sflow_drops.txt
     1039, 1040        sflow.org/sflow_transit.txt
     1041, 1042        src/sflow/sflow.h of host-sflow
     2100, 2101        sflow.org/sflow_host.txt
     2102, 2103        sflow.org/sflow_http.txt
     2200              sflow.org/sflow_memcache.txt
     2202 to 2205      sflow.org/sflow_application.txt
     2206, 2207        sflow.org/sflow_http.txt
     2209, 2210        src/sflow/sflow.h of host-sflow

   sflow.org/developers/structures.php lists all formats. Field names are theirs, in lower case.
   Some formats are not read. Implementations disagree about 1013 and 2201, 1016 contains records,
   and 1017 to 1019, 1031 to 1033, 1043, 2000 to 2003 and 2208 are drafts, or only their numbers are
   published. A further record is one line for itself and one for each of its fields, which are
   sources (source.h). */
#ifndef FB_PLAN_SFLOW_RECORD_FIELDS_H
#define FB_PLAN_SFLOW_RECORD_FIELDS_H

/* clang-format off */
/* X(record, format, first field, last field); enterprise 0. */
#define FB_FLOW_RECORD_LIST(X) \
    X(extended_user, 1004, src_charset, dst_user) \
    X(extended_url, 1005, direction, host) \
    X(extended_mpls, 1006, next_hop, out_stack) \
    X(extended_nat, 1007, src_address, dst_address) \
    X(extended_mpls_tunnel, 1008, tunnel_lsp_name, tunnel_cos) \
    X(extended_mpls_vc, 1009, vc_instance_name, vc_label_cos) \
    X(extended_mpls_ftn, 1010, mpls_ftn_descr, mpls_ftn_mask) \
    X(extended_mpls_ldp_fec, 1011, mpls_fec_addr_prefix_length, mpls_fec_addr_prefix_length) \
    X(extended_vlantunnel, 1012, stack, stack) \
    X(extended_80211_rx, 1014, ssid, packet_duration) \
    X(extended_80211_tx, 1015, ssid, power) \
    X(extended_nat_port, 1020, src_port, dst_port) \
    X(extended_l2_tunnel_egress, 1021, length, type) \
    X(extended_l2_tunnel_ingress, 1022, length, type) \
    X(extended_ipv4_tunnel_egress, 1023, length, tos) \
    X(extended_ipv4_tunnel_ingress, 1024, length, tos) \
    X(extended_ipv6_tunnel_egress, 1025, length, priority) \
    X(extended_ipv6_tunnel_ingress, 1026, length, priority) \
    X(extended_decapsulate_egress, 1027, inner_header_offset, inner_header_offset) \
    X(extended_decapsulate_ingress, 1028, inner_header_offset, inner_header_offset) \
    X(extended_vni_egress, 1029, vni, vni) \
    X(extended_vni_ingress, 1030, vni, vni) \
    X(extended_vlanin, 1034, stack, stack) \
    X(extended_vlanout, 1035, stack, stack) \
    X(extended_egress_queue, 1036, queue, queue) \
    X(extended_acl, 1037, number, direction) \
    X(extended_function, 1038, symbol, symbol) \
    X(extended_transit, 1039, delay, delay) \
    X(extended_queue, 1040, depth, depth) \
    X(extended_hw_trap, 1041, group, trap) \
    X(extended_linux_drop_reason, 1042, reason, reason) \
    X(extended_socket_ipv4, 2100, protocol, remote_port) \
    X(extended_socket_ipv6, 2101, protocol, remote_port) \
    X(extended_proxy_socket_ipv4, 2102, protocol, remote_port) \
    X(extended_proxy_socket_ipv6, 2103, protocol, remote_port) \
    X(memcache_operation, 2200, protocol, status) \
    X(app_operation, 2202, application, status) \
    X(app_parent_context, 2203, application, attributes) \
    X(app_initiator, 2204, actor, actor) \
    X(app_target, 2205, actor, actor) \
    X(http_request, 2206, method, status) \
    X(extended_proxy_request, 2207, uri, host) \
    X(extended_tcp_info, 2209, dir, min_rtt) \
    X(extended_entities, 2210, src_ds_class, dst_ds_index)

/* F(X, record, field, kind, size in bytes), in the order of FB_FLOW_RECORD_LIST. Data of 6 bytes is
   padded to 8. Size 0 is variable: a STRING has its length before it, an IP its address type, and a
   UINT is a list of words after their number. */
#define FB_FLOW_FIELD_LIST(F, X) \
    F(X, extended_user, src_charset, UINT, 4) \
    F(X, extended_user, src_user, STRING, 0) \
    F(X, extended_user, dst_charset, UINT, 4) \
    F(X, extended_user, dst_user, STRING, 0) \
    F(X, extended_url, direction, UINT, 4) \
    F(X, extended_url, url, STRING, 0) \
    F(X, extended_url, host, STRING, 0) \
    F(X, extended_mpls, next_hop, IP, 0) \
    F(X, extended_mpls, in_stack, UINT, 0) \
    F(X, extended_mpls, out_stack, UINT, 0) \
    F(X, extended_nat, src_address, IP, 0) \
    F(X, extended_nat, dst_address, IP, 0) \
    F(X, extended_mpls_tunnel, tunnel_lsp_name, STRING, 0) \
    F(X, extended_mpls_tunnel, tunnel_id, UINT, 4) \
    F(X, extended_mpls_tunnel, tunnel_cos, UINT, 4) \
    F(X, extended_mpls_vc, vc_instance_name, STRING, 0) \
    F(X, extended_mpls_vc, vll_vc_id, UINT, 4) \
    F(X, extended_mpls_vc, vc_label_cos, UINT, 4) \
    F(X, extended_mpls_ftn, mpls_ftn_descr, STRING, 0) \
    F(X, extended_mpls_ftn, mpls_ftn_mask, UINT, 4) \
    F(X, extended_mpls_ldp_fec, mpls_fec_addr_prefix_length, UINT, 4) \
    F(X, extended_vlantunnel, stack, UINT, 0) \
    F(X, extended_80211_rx, ssid, STRING, 0) \
    F(X, extended_80211_rx, bssid, UINT, 6) \
    F(X, extended_80211_rx, version, UINT, 4) \
    F(X, extended_80211_rx, channel, UINT, 4) \
    F(X, extended_80211_rx, speed, UINT, 8) \
    F(X, extended_80211_rx, rsni, UINT, 4) \
    F(X, extended_80211_rx, rcpi, UINT, 4) \
    F(X, extended_80211_rx, packet_duration, UINT, 4) \
    F(X, extended_80211_tx, ssid, STRING, 0) \
    F(X, extended_80211_tx, bssid, UINT, 6) \
    F(X, extended_80211_tx, version, UINT, 4) \
    F(X, extended_80211_tx, transmissions, UINT, 4) \
    F(X, extended_80211_tx, packet_duration, UINT, 4) \
    F(X, extended_80211_tx, retrans_duration, UINT, 4) \
    F(X, extended_80211_tx, channel, UINT, 4) \
    F(X, extended_80211_tx, speed, UINT, 8) \
    F(X, extended_80211_tx, power, UINT, 4) \
    F(X, extended_nat_port, src_port, UINT, 4) \
    F(X, extended_nat_port, dst_port, UINT, 4) \
    F(X, extended_l2_tunnel_egress, length, UINT, 4) \
    F(X, extended_l2_tunnel_egress, src_mac, UINT, 6) \
    F(X, extended_l2_tunnel_egress, dst_mac, UINT, 6) \
    F(X, extended_l2_tunnel_egress, type, UINT, 4) \
    F(X, extended_l2_tunnel_ingress, length, UINT, 4) \
    F(X, extended_l2_tunnel_ingress, src_mac, UINT, 6) \
    F(X, extended_l2_tunnel_ingress, dst_mac, UINT, 6) \
    F(X, extended_l2_tunnel_ingress, type, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, length, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, protocol, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, src_ip, IP, 4) \
    F(X, extended_ipv4_tunnel_egress, dst_ip, IP, 4) \
    F(X, extended_ipv4_tunnel_egress, src_port, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, dst_port, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, tcp_flags, UINT, 4) \
    F(X, extended_ipv4_tunnel_egress, tos, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, length, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, protocol, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, src_ip, IP, 4) \
    F(X, extended_ipv4_tunnel_ingress, dst_ip, IP, 4) \
    F(X, extended_ipv4_tunnel_ingress, src_port, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, dst_port, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, tcp_flags, UINT, 4) \
    F(X, extended_ipv4_tunnel_ingress, tos, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, length, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, protocol, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, src_ip, IP, 16) \
    F(X, extended_ipv6_tunnel_egress, dst_ip, IP, 16) \
    F(X, extended_ipv6_tunnel_egress, src_port, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, dst_port, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, tcp_flags, UINT, 4) \
    F(X, extended_ipv6_tunnel_egress, priority, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, length, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, protocol, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, src_ip, IP, 16) \
    F(X, extended_ipv6_tunnel_ingress, dst_ip, IP, 16) \
    F(X, extended_ipv6_tunnel_ingress, src_port, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, dst_port, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, tcp_flags, UINT, 4) \
    F(X, extended_ipv6_tunnel_ingress, priority, UINT, 4) \
    F(X, extended_decapsulate_egress, inner_header_offset, UINT, 4) \
    F(X, extended_decapsulate_ingress, inner_header_offset, UINT, 4) \
    F(X, extended_vni_egress, vni, UINT, 4) \
    F(X, extended_vni_ingress, vni, UINT, 4) \
    F(X, extended_vlanin, stack, UINT, 0) \
    F(X, extended_vlanout, stack, UINT, 0) \
    F(X, extended_egress_queue, queue, UINT, 4) \
    F(X, extended_acl, number, UINT, 4) \
    F(X, extended_acl, name, STRING, 0) \
    F(X, extended_acl, direction, UINT, 4) \
    F(X, extended_function, symbol, STRING, 0) \
    F(X, extended_transit, delay, UINT, 4) \
    F(X, extended_queue, depth, UINT, 4) \
    F(X, extended_hw_trap, group, STRING, 0) \
    F(X, extended_hw_trap, trap, STRING, 0) \
    F(X, extended_linux_drop_reason, reason, STRING, 0) \
    F(X, extended_socket_ipv4, protocol, UINT, 4) \
    F(X, extended_socket_ipv4, local_ip, IP, 4) \
    F(X, extended_socket_ipv4, remote_ip, IP, 4) \
    F(X, extended_socket_ipv4, local_port, UINT, 4) \
    F(X, extended_socket_ipv4, remote_port, UINT, 4) \
    F(X, extended_socket_ipv6, protocol, UINT, 4) \
    F(X, extended_socket_ipv6, local_ip, IP, 16) \
    F(X, extended_socket_ipv6, remote_ip, IP, 16) \
    F(X, extended_socket_ipv6, local_port, UINT, 4) \
    F(X, extended_socket_ipv6, remote_port, UINT, 4) \
    F(X, extended_proxy_socket_ipv4, protocol, UINT, 4) \
    F(X, extended_proxy_socket_ipv4, local_ip, IP, 4) \
    F(X, extended_proxy_socket_ipv4, remote_ip, IP, 4) \
    F(X, extended_proxy_socket_ipv4, local_port, UINT, 4) \
    F(X, extended_proxy_socket_ipv4, remote_port, UINT, 4) \
    F(X, extended_proxy_socket_ipv6, protocol, UINT, 4) \
    F(X, extended_proxy_socket_ipv6, local_ip, IP, 16) \
    F(X, extended_proxy_socket_ipv6, remote_ip, IP, 16) \
    F(X, extended_proxy_socket_ipv6, local_port, UINT, 4) \
    F(X, extended_proxy_socket_ipv6, remote_port, UINT, 4) \
    F(X, memcache_operation, protocol, UINT, 4) \
    F(X, memcache_operation, cmd, UINT, 4) \
    F(X, memcache_operation, key, STRING, 0) \
    F(X, memcache_operation, nkeys, UINT, 4) \
    F(X, memcache_operation, value_bytes, UINT, 4) \
    F(X, memcache_operation, us, UINT, 4) \
    F(X, memcache_operation, status, UINT, 4) \
    F(X, app_operation, application, STRING, 0) \
    F(X, app_operation, operation, STRING, 0) \
    F(X, app_operation, attributes, STRING, 0) \
    F(X, app_operation, status_descr, STRING, 0) \
    F(X, app_operation, req_bytes, UINT, 8) \
    F(X, app_operation, resp_bytes, UINT, 8) \
    F(X, app_operation, us, UINT, 4) \
    F(X, app_operation, status, UINT, 4) \
    F(X, app_parent_context, application, STRING, 0) \
    F(X, app_parent_context, operation, STRING, 0) \
    F(X, app_parent_context, attributes, STRING, 0) \
    F(X, app_initiator, actor, STRING, 0) \
    F(X, app_target, actor, STRING, 0) \
    F(X, http_request, method, UINT, 4) \
    F(X, http_request, protocol, UINT, 4) \
    F(X, http_request, uri, STRING, 0) \
    F(X, http_request, host, STRING, 0) \
    F(X, http_request, referer, STRING, 0) \
    F(X, http_request, useragent, STRING, 0) \
    F(X, http_request, xff, STRING, 0) \
    F(X, http_request, authuser, STRING, 0) \
    F(X, http_request, mime_type, STRING, 0) \
    F(X, http_request, req_bytes, UINT, 8) \
    F(X, http_request, resp_bytes, UINT, 8) \
    F(X, http_request, us, UINT, 4) \
    F(X, http_request, status, SINT, 4) \
    F(X, extended_proxy_request, uri, STRING, 0) \
    F(X, extended_proxy_request, host, STRING, 0) \
    F(X, extended_tcp_info, dir, UINT, 4) \
    F(X, extended_tcp_info, snd_mss, UINT, 4) \
    F(X, extended_tcp_info, rcv_mss, UINT, 4) \
    F(X, extended_tcp_info, unacked, UINT, 4) \
    F(X, extended_tcp_info, lost, UINT, 4) \
    F(X, extended_tcp_info, retrans, UINT, 4) \
    F(X, extended_tcp_info, pmtu, UINT, 4) \
    F(X, extended_tcp_info, rtt, UINT, 4) \
    F(X, extended_tcp_info, rttvar, UINT, 4) \
    F(X, extended_tcp_info, snd_cwnd, UINT, 4) \
    F(X, extended_tcp_info, reordering, UINT, 4) \
    F(X, extended_tcp_info, min_rtt, UINT, 4) \
    F(X, extended_entities, src_ds_class, UINT, 4) \
    F(X, extended_entities, src_ds_index, UINT, 4) \
    F(X, extended_entities, dst_ds_class, UINT, 4) \
    F(X, extended_entities, dst_ds_index, UINT, 4)
/* clang-format on */

/* A field as a row of FB_SOURCE_LIST. */
#define FB_FLOW_FIELD_SOURCE(X, record, field, kind, size) \
    X(RECORD_##record##_##field, "sflow:" #record "." #field, kind)

#endif
