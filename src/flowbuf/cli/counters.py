"""Format counter and drop samples for people: names of rows, columns of tables, values as words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flowbuf._core import STATUSES
from flowbuf.schema import Schema

__all__ = [
    "COUNTER_WORDS",
    "SECTIONS",
    "count_rows",
    "missing_kinds",
    "no_rows",
    "section_of",
    "section_schema",
]

# Sections of rows, with the columns of their tables by importance, unless the user chooses columns. JSON
# lines and CSV have all columns.
SECTIONS = {
    "interfaces": (
        *(
            "time_received",
            "exporter_address",
            "if_index",
            "port_name",
            "if_in_octets",
            "if_out_octets",
            "if_status",
        ),
        *("if_speed", "if_in_errors", "if_out_errors", "if_in_discards", "if_out_discards"),
        *("if_in_ucast_pkts", "if_out_ucast_pkts", "source_id_type", "source_id_index"),
        *(
            "vlan_counters_vlan_id",
            "vlan_counters_octets",
            "sfp_lane_rx_power",
            "sfp_lane_tx_power",
            "sequence_number",
        ),
    ),
    "hosts": (
        *(
            "time_received",
            "exporter_address",
            "hostname",
            "load_one",
            "processor_5s_cpu",
            "mem_free",
            "mem_total",
        ),
        *("disk_free", "disk_total", "net_bytes_in", "net_bytes_out"),
        *("proc_run", "cpu_num", "host_uptime", "sequence_number"),
    ),
    "drops": (
        *(
            "time_received",
            "exporter_address",
            "drop_reason",
            "src_addr",
            "src_port",
            "dst_addr",
            "dst_port",
            "proto",
        ),
        *(
            "in_if",
            "out_if",
            "acl_name",
            "drop_function",
            "hw_trap",
            "linux_drop_reason",
            "frame_length",
            "drops",
        ),
        *("egress_queue", "sequence_number"),
    ),
}
OF_HOSTS = ("hostname", "load_one", "processor_5s_cpu", "mem_total", "disk_total", "net_bytes_in")
DROP = 2  # of sample_kind

# Reasons for discarded packets (sFlow Dropped Packet Notification Structures, drop_reason). The codes of ICMP
# begin at 0, the others at 256.
_ICMP_REASONS = """
    net_unreachable host_unreachable protocol_unreachable port_unreachable frag_needed src_route_failed
    dst_net_unknown dst_host_unknown src_host_isolated dst_net_prohibited dst_host_prohibited
    dst_net_tos_unreachable dst_host_tos_unreachable comm_admin_prohibited host_precedence_violation
    precedence_cutoff
"""
_OTHER_REASONS = """
    unknown ttl_exceeded acl no_buffer_space red traffic_shaping pkt_too_big src_mac_is_multicast
    vlan_tag_mismatch ingress_vlan_filter ingress_spanning_tree_filter port_list_is_empty
    port_loopback_filter blackhole_route non_ip uc_dip_over_mc_dmac dip_is_loopback_address sip_is_mc
    sip_is_loopback_address ip_header_corrupted
    ipv4_sip_is_limited_bc ipv6_mc_dip_reserved_scope ipv6_mc_dip_interface_local_scope unresolved_neigh
    mc_reverse_path_forwarding non_routable_packet decap_error overlay_smac_is_mc unknown_l2 unknown_l3
    unknown_l3_exception unknown_buffer unknown_tunnel unknown_l4 sip_is_unspecified mlag_port_isolation
    blackhole_arp_neigh src_mac_is_dmac dmac_is_reserved sip_is_class_e mc_dmac_mismatch sip_is_dip
    dip_is_local_network dip_is_link_local overlay_smac_is_dmac egress_vlan_filter uc_reverse_path_forwarding
    split_horizon
"""
DROP_REASONS = {
    **dict(enumerate(_ICMP_REASONS.split())),
    **dict(enumerate(_OTHER_REASONS.split(), start=256)),
}
LINK_STATUSES = ("disabled", "disabled", "down", "up")  # by operation and configuration
SOURCE_TYPES = ("interface", "VLAN", "physical", "logical")
# Large numbers, shown in groups of three digits.
GROUPED = (
    *("if_in_octets", "if_out_octets", "if_in_ucast_pkts", "if_out_ucast_pkts", "vlan_counters_octets"),
    *("mem_free", "mem_total", "disk_free", "disk_total", "net_bytes_in", "net_bytes_out"),
)
NOUNS = {
    "flows": ("flow", "flows"),
    "counters": ("counter sample", "counter samples"),
    "options": ("options record", "options records"),
    "records": ("object", "objects"),
}
MISSING = {"counters": "sFlow counters", "options": "options of NetFlow v9 or IPFIX"}
"""Kinds of rows that input with flows may lack."""
REASONS = ("other_packet", "other_port", "other_capture_record")
"""Counters of input without flows."""


def count_rows(schema: Schema, count: int) -> str:
    """Return a number of rows with their noun: `1 flow`, `1,024 counter samples`."""
    return f"{count:,} {NOUNS[schema.rows][count != 1]}"


def no_rows(schema: Schema, counters: Mapping[str, int], among_others: bool = False) -> str:
    """Return a note that there are no rows, with the most frequent reason.

    Args:
        schema: Schema of the rows.
        counters: Counters of the decoder and of the captures.
        among_others: True if there are rows of another kind.
    """
    text = f"no {NOUNS[schema.rows][1]}"
    if left_out := counters.get("flows_left_out", 0):
        missing = MISSING.get(schema.rows, "others")
        return f"{text}; the input has no {missing}, but samples or datagrams of flows: {left_out:,}"
    others = counters.get("counter_sample", 0) + counters.get("drop_sample", 0)
    if others:
        return f"{text}; flowbuf read --counters shows the counter and drop samples of sFlow: {others:,}"
    reason = max(REASONS, key=lambda name: counters.get(name, 0))
    if counters.get(reason, 0) and not among_others:
        return f"{text}; {counters[reason]:,} {reason}: {STATUSES[reason][1]}"
    return text


def missing_kinds(
    schemas: Iterable[Schema], rows: Mapping[str, int], counters: Mapping[str, int]
) -> Iterator[str]:
    """Yield a note for each schema without rows.

    Args:
        schemas: Schemas of the kinds that were wanted.
        rows: Number of rows of each kind.
        counters: Counters of the decoder and of the captures.
    """
    for schema in schemas:
        if not rows[schema.rows]:
            yield no_rows(schema, counters, any(rows.values()))


def section_of(row: Mapping[str, Any]) -> str:
    """Return the section of a row: one of SECTIONS."""
    if row.get("sample_kind") == DROP:
        return "drops"
    return "hosts" if any(name in row for name in OF_HOSTS) else "interfaces"


def section_schema(schema: Schema, section: str) -> Schema:
    """Return the schema with only the enabled columns of a section."""
    return schema.only(*(column.name for column in schema.enabled if column.name in SECTIONS[section]))


def _speed(value: int) -> str:
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return str(value)


def _status(value: int) -> str:
    """Return the status of an interface: bit 0 is the configuration, bit 1 the operation."""
    return LINK_STATUSES[(value & 1) << 1 | (value >> 1 & 1)]


COUNTER_WORDS: dict[str, Callable[[Any], str]] = {
    "if_status": _status,
    "if_speed": _speed,
    "drop_reason": lambda value: DROP_REASONS.get(value, str(value)),
    "source_id_type": lambda value: SOURCE_TYPES[value] if value < len(SOURCE_TYPES) else str(value),
    "processor_5s_cpu": lambda value: f"{value / 100:g}%",
    **dict.fromkeys(GROUPED, "{:,}".format),
}
"""Columns whose numbers a table shows in another form."""
