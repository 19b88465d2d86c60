"""Counter and drop samples of sFlow: the core, the reference and TShark agree on every field."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flowbuf import _core
from flowbuf.schema import Schema
from tests.reference.sflow_counters import STRUCTURES
from tests.strategies.counters import LAYOUTS
from tests.support.command import pcap
from tests.support.datagrams import (
    counters,
    counters_sample,
    data_set,
    discarded_packet,
    ethernet,
    expanded_flow_sample,
    extended_acl,
    extended_switch,
    flow_sample,
    host_adapters,
    host_descr,
    ipfix,
    ipv4,
    mac,
    mapped,
    netflow5,
    netflow9,
    opaque,
    record,
    record5,
    sample,
    sampled_header,
    sampled_ip,
    sflow,
    sfp,
    strings,
    tcp,
    u16,
    u32,
)
from tests.support.decoding import RECEIVED, Decode, both_decoders, decode_with

COUNTERS = Schema.load("sflow_counters")
COUNTERS = COUNTERS.enable(*(column.name for column in COUNTERS))

# Columns that every row has.
HEAD = {
    *(
        "time_received",
        "exporter_address",
        "sample_kind",
        "sequence_number",
        "source_id_type",
        "source_id_index",
    ),
    *("sub_agent_id", "agent_uptime", "datagram_sequence_number", "source_address", "source_port"),
}
SIZES = {"b": 1, "i": 4, "h": 8, "m": 6}


def rest(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in HEAD}


def decode_records(decode: Decode, *records: bytes) -> dict[str, Any]:
    """Return the columns from the records of one counter sample."""
    outcome = decode(sflow(counters_sample(*records)), schema=COUNTERS)
    assert outcome.counters == {}
    return rest(outcome.flow)


def columns_of(record_format: int) -> list[str]:
    """Return the columns that the fields of a record fill, in the order of the fields."""
    prefix = f"sflow:{STRUCTURES[record_format][0]}."
    names = {source.text: column.name for column in COUNTERS for (source,) in column.sources[:1]}
    return [names[source] for source in _core.SOURCES if source.startswith(prefix)]


# Samples ----------------------------------------------------------------------------------------------------


@both_decoders
def test_a_row_identifies_its_source(decode: Decode) -> None:
    compact = counters_sample(sequence=7, source=(1, 0xFFFFFF))
    expanded = counters_sample(sequence=8, source=(2, 0x1000000), expanded=True)
    header = {"agent": "192.0.2.200", "sub_agent": 3, "sequence": 9, "uptime": 10}
    outcome = decode(sflow(compact, expanded, **header), schema=COUNTERS)
    same = {
        "time_received": RECEIVED // 1_000_000,
        "exporter_address": mapped("192.0.2.200"),
        "sample_kind": 1,
        "sub_agent_id": 3,
        "datagram_sequence_number": 9,
        "agent_uptime": 10,
        "source_address": mapped("192.0.2.1"),
        "source_port": 9995,
    }
    assert outcome.flows == [
        {**same, "sequence_number": 7, "source_id_type": 1, "source_id_index": 0xFFFFFF},
        {**same, "sequence_number": 8, "source_id_type": 2, "source_id_index": 0x1000000},
    ]
    assert outcome.stats["192.0.2.200#3"] == {"counters": {}, "flows": 2, "datagrams": 1}


@both_decoders
def test_flows_are_left_out_if_rows_are_counters(decode: Decode) -> None:
    samples = (
        flow_sample(rate=100),
        counters_sample(),
        expanded_flow_sample(),
        sample(6, b""),
        sample(2, b"", 9),
    )
    others = [netflow5(record5()), netflow9(data_set(256, b"abc")), ipfix(), b"\0\5", b"\0\0\0\2\0\0\0\1"]
    outcome = decode(sflow(*samples), *others, schema=COUNTERS)
    assert len(outcome.flows) == 1
    assert outcome.counters == {"flows_left_out": 6, "unknown_sample": 2, "unsupported_version": 1}
    assert sum(exporter["datagrams"] for exporter in outcome.stats.values()) == 6


@both_decoders
def test_counter_samples_are_left_out_if_rows_are_flows(decode: Decode) -> None:
    samples = (counters_sample(), counters_sample(expanded=True), discarded_packet(), flow_sample(rate=100))
    outcome = decode(sflow(*samples))
    assert [flow["sampling_rate"] for flow in outcome.flows] == [100]
    assert outcome.counters == {"counter_sample": 2, "drop_sample": 1}


@both_decoders
@pytest.mark.parametrize("whole", [counters_sample(), counters_sample(expanded=True), discarded_packet()])
def test_the_samples_after_a_truncated_one_are_decoded(decode: Decode, whole: bytes) -> None:
    for size in range(0, len(whole) - 8):
        cut = whole[:4] + u32(size) + whole[8 : 8 + size] + bytes(-size % 4)
        outcome = decode(sflow(counters_sample(), cut, counters_sample()), schema=COUNTERS)
        assert (len(outcome.flows), outcome.counters) == (2, {"bad_sample": 1})


# Counters ---------------------------------------------------------------------------------------------------


@both_decoders
def test_interface_counters_fill_their_columns(decode: Decode) -> None:
    """sFlow Version 5, if_counters; RFC 2863."""
    words = [7, 6, 10**10, 1, 3, 1 << 40, 1, 2, 3, 4, 5, 6, 1 << 41, 11, 12, 13, 14, 15, 2]
    assert decode_records(decode, counters(1, LAYOUTS[1], *words)) == {
        "if_index": 7,
        "if_type": 6,
        "if_speed": 10_000_000_000,
        "if_direction": 1,
        "if_status": 3,
        "if_in_octets": 1 << 40,
        "if_in_ucast_pkts": 1,
        "if_in_multicast_pkts": 2,
        "if_in_broadcast_pkts": 3,
        "if_in_discards": 4,
        "if_in_errors": 5,
        "if_in_unknown_protos": 6,
        "if_out_octets": 1 << 41,
        "if_out_ucast_pkts": 11,
        "if_out_multicast_pkts": 12,
        "if_out_broadcast_pkts": 13,
        "if_out_discards": 14,
        "if_out_errors": 15,
        "if_promiscuous_mode": 2,
    }


@both_decoders
@pytest.mark.parametrize("record_format", sorted(set(LAYOUTS) - {2003}))
def test_every_field_of_a_record_fills_its_column(decode: Decode, record_format: int) -> None:
    layout, names = LAYOUTS[record_format], columns_of(record_format)
    most = [max(COUNTERS[name].values.values(), default=1 << 64) for name in names]  # enums have few members
    small = [index % 3 + 1 for index in range(len(layout))]
    great = [(1 << 8 * SIZES[letter]) - 2 - index for index, letter in enumerate(layout)]
    for row in (small, great):
        values = [min(value, limit) for value, limit in zip(row, most, strict=True)]
        expected = dict(zip(names, values, strict=True))
        assert decode_records(decode, counters(record_format, layout, *values)) == expected


def great_of(layout: str) -> list[int]:
    """Return all ones for every field."""
    return [(1 << 8 * SIZES[letter]) - 1 for letter in layout]


@both_decoders
@pytest.mark.parametrize("record_format", LAYOUTS)
def test_a_counter_of_all_ones_is_absent_and_zero_is_a_value(decode: Decode, record_format: int) -> None:
    layout, names = LAYOUTS[record_format], columns_of(record_format)
    unknown = decode_records(decode, counters(record_format, layout, *great_of(layout)))
    assert unknown == {
        name: (1 << 8 * SIZES[letter]) - 1
        for name, letter in zip(names, layout, strict=False)
        if letter in "bm"  # bytes and MAC addresses have no unknown value
    }
    zeros = decode_records(decode, counters(record_format, layout, *[0] * len(layout)))
    explicit = [name for name in names[: len(layout)] if COUNTERS[name].explicit]
    assert zeros == dict.fromkeys(explicit, 0)


@both_decoders
def test_cpu_counters_have_float_load_averages(decode: Decode) -> None:
    """sFlow Host Structures, host_cpu. Later editions have three more fields."""
    floats = [0x3F000000, 0xBF800000, 0x7FC00000]  # 0.5, -1, not a number
    row = decode_records(decode, counters(2003, LAYOUTS[2003], *floats, *range(14)))
    assert (row["load_one"], "load_five" in row, "load_fifteen" in row) == (0.5, False, False)
    assert (row["proc_run"], row["host_uptime"], row["contexts"], "cpu_steal" in row) == (0, 4, 13, False)
    row = decode_records(decode, counters(2003, "i" * 20, *floats, *range(17)))
    assert (row["contexts"], row["cpu_steal"], row["cpu_guest"], row["cpu_guest_nice"]) == (13, 14, 15, 16)


@both_decoders
def test_link_aggregation_counters_fill_their_columns(decode: Decode) -> None:
    actor, partner = 0x020000000001, 0x020000000002
    row = decode_records(
        decode, counters(7, LAYOUTS[7], actor, partner, 5, 0x3D, 0x3E, 0x3F, 0xFF, *range(8))
    )
    assert row["dot3ad_agg_port_actor_system_id"] == actor
    assert row["dot3ad_agg_port_partner_oper_system_id"] == partner
    assert row["dot3ad_agg_port_actor_admin_state"] == 0x3D
    assert row["dot3ad_agg_port_partner_oper_state"] == 0xFF
    assert row["dot3ad_agg_port_stats_lacpdus_rx"] == 0


@both_decoders
def test_optical_modules_have_lists_of_lanes(decode: Decode) -> None:
    """The lists of lanes have equal lengths, even with unknown values. Temperatures are signed."""
    row = decode_records(
        decode, sfp((1, 4, 3300, -1500), [1, *range(10, 19)], [2, 0xFFFFFFFF, *range(21, 29)])
    )
    assert row["sfp_module_temperature"] == -1500
    assert (row["sfp_module_id"], row["sfp_module_total_lanes"], row["sfp_module_supply_voltage"]) == (
        1,
        4,
        3300,
    )
    assert (row["sfp_lane_index"], row["sfp_lane_tx_bias_current"]) == ([1, 2], [10, 0xFFFFFFFF])
    assert (row["sfp_lane_rx_power"], row["sfp_lane_rx_wavelength"]) == ([15, 25], [18, 28])
    assert "sfp_lane_index" not in decode_records(decode, sfp((1, 4, 3300, 0)))


@both_decoders
def test_ports_and_hosts_fill_their_columns(decode: Decode) -> None:
    uuid = bytes(range(16))
    row = decode_records(
        decode,
        strings(1005, b"swp1"),
        host_descr(b"leaf1", uuid, 3, 2, b"6.1.0-9"),
        host_adapters((1, []), (2, ["02:00:00:00:00:01", "02:00:00:00:00:02"]), (3, ["02:00:00:00:00:03"])),
    )
    assert row == {
        "port_name": "swp1",
        "hostname": "leaf1",
        "uuid": uuid,
        "machine_type": 3,
        "os_name": 2,
        "os_release": "6.1.0-9",
        "adapter_if_index": [1, 2, 2, 3],
        "adapter_mac_address": [0, 0x020000000001, 0x020000000002, 0x020000000003],
    }


@both_decoders
def test_unknown_values_of_a_host_are_absent(decode: Decode) -> None:
    assert (
        decode_records(decode, host_descr(b"", bytes(16), 0, 0, b""), strings(1005, b""), host_adapters())
        == {}
    )


@both_decoders
def test_unread_records_are_counted(decode: Decode) -> None:
    first, second = strings(1005, b"swp1"), strings(1005, b"swp2")
    others = [
        record(8, bytes(24)),
        record(2299, bytes(60)),
        record(1, bytes(88), 9),
        record(2000, bytes(60), 4413),
    ]
    outcome = decode(sflow(counters_sample(first, second, *others)), schema=COUNTERS)
    assert rest(outcome.flow) == {"port_name": "swp1"}
    assert outcome.counters == {"unknown_sample_record": 5}


SHORT = {
    **{number: counters(number, layout, *[0] * len(layout)) for number, layout in LAYOUTS.items()},
    1005: strings(1005, b"swp1"),
    2105: strings(2105, b"vm", b"vendor", b"1.17"),
    2202: record(2202, opaque(b"mail") + u32(1) * 11),
    2000: host_descr(b"leaf", bytes(range(16)), 3, 2, b"6.10"),
}


@both_decoders
@pytest.mark.parametrize("whole", SHORT.values(), ids=SHORT)
def test_a_truncated_record_is_ignored(decode: Decode, whole: bytes) -> None:
    body = whole[8:]
    for size in {0, 1, len(body) // 2, len(body) - 1}:
        cut = whole[:4] + opaque(body[:size])
        outcome = decode(sflow(counters_sample(cut)), schema=COUNTERS)
        assert (rest(outcome.flow), outcome.counters) == ({}, {"bad_sample_record": 1}), size


@both_decoders
def test_truncated_lists_keep_their_first_members(decode: Decode) -> None:
    adapters = record(
        2001, u32(3) + u32(8) + u32(2) + mac("02:00:00:00:00:01") + u16(0) + mac("02:00:00:00:00:02")[:5]
    )
    outcome = decode(sflow(counters_sample(adapters, sfp((1, 1, 1, 1), [1] * 10, count=2))), schema=COUNTERS)
    row = rest(outcome.flow)
    assert (row["adapter_if_index"], row["adapter_mac_address"]) == ([8], [0x020000000001])
    assert row["sfp_lane_index"] == [1]
    assert outcome.counters == {"bad_sample_record": 2}


@both_decoders
def test_invalid_texts_and_enum_values_are_counted(decode: Decode) -> None:
    outcome = decode(
        sflow(counters_sample(host_descr(b"a\xffb\0\0", bytes(16), 99, 2, b""))), schema=COUNTERS
    )
    assert rest(outcome.flow) == {"hostname": "a\ufffdb", "os_name": 2}
    assert outcome.counters == {"invalid_utf8": 1, "unmapped": 1}


# Discarded packets ------------------------------------------------------------------------------------------


@both_decoders
def test_discarded_packets_fill_their_columns(decode: Decode) -> None:
    """sFlow Dropped Packet Notification Structures."""
    packet = ethernet(ipv4(tcp(1234, 22, flags=2), src="198.51.100.1", dst="203.0.113.2", ttl=1))
    records = (
        extended_switch(10, 0, 20, 0),
        sampled_header(packet, frame_length=64),
        counters(1036, "i", 0),
        extended_acl(9, b"deny-all", 1),
        strings(1038, b"nf_hook_slow"),
        strings(1041, b"acl_drops", b"ingress_flow_action_drop"),
        strings(1042, b"NETFILTER_DROP"),
    )
    notice = discarded_packet(*records, sequence=5, source=(0, 3), drops=2, input=3, output=4, reason=258)
    outcome = decode(sflow(notice), schema=COUNTERS)
    assert outcome.counters == {}
    row = outcome.flow
    assert (row["sample_kind"], row["sequence_number"], row["source_id_type"], row["source_id_index"]) == (
        2,
        5,
        0,
        3,
    )
    assert rest(row) == {
        "drop_reason": 258,
        "forwarding_status": 130,
        "drops": 2,
        "in_if": 3,
        "out_if": 4,
        "egress_queue": 0,
        "acl_number": 9,
        "acl_name": "deny-all",
        "acl_direction": 1,
        "drop_function": "nf_hook_slow",
        "hw_trap_group": "acl_drops",
        "hw_trap": "ingress_flow_action_drop",
        "linux_drop_reason": "NETFILTER_DROP",
        "src_vlan": 10,
        "dst_vlan": 20,
        "src_addr": mapped("198.51.100.1"),
        "dst_addr": mapped("203.0.113.2"),
        "etype": 0x0800,
        "proto": 6,
        "src_port": 1234,
        "dst_port": 22,
        "tcp_flags": 2,
        "ip_ttl": 1,
        "bytes": 40,
        "frame_length": 64,
        "src_mac": 0x020000000001,
        "dst_mac": 0x020000000002,
    }


@both_decoders
def test_unknown_interfaces_are_absent_and_reason_0_is_a_value(decode: Decode) -> None:
    ip = sampled_ip("10.0.0.1", "10.0.0.2", proto=17, src_port=5, dst_port=53)
    outcome = decode(sflow(discarded_packet(ip, input=0x3FFFFFFF)), schema=COUNTERS)
    assert rest(outcome.flow) == {
        "drop_reason": 0,
        "forwarding_status": 131,
        "drops": 0,
        "src_addr": mapped("10.0.0.1"),
        "dst_addr": mapped("10.0.0.2"),
        "etype": 0x0800,
        "proto": 17,
        "src_port": 5,
        "dst_port": 53,
    }


@both_decoders
def test_truncated_and_unread_records_of_drops_are_counted(decode: Decode) -> None:
    short = [
        record(1036, b""),
        record(1037, u32(1) + opaque(b"a")),
        record(1041, opaque(b"group")),
    ]
    odd = [
        record(1, bytes(15)),
        record(1038, u32(9) + b"abcd"),
        counters(1036, "i", 7),
        record(1, bytes(16)),
        record(1044, b""),
    ]
    outcome = decode(sflow(discarded_packet(*short, *odd, reason=1)), schema=COUNTERS)
    assert rest(outcome.flow) == {"drop_reason": 1, "forwarding_status": 131, "drops": 0}
    assert outcome.counters == {"bad_sample_record": 5, "unknown_sample_record": 3}


# TShark -----------------------------------------------------------------------------------------------------

TSHARK_FORMATS = (1, 2, 3, 4, 5, 6, 7, 1001, 1002)
# Names of fields in TShark that differ from the specification.
TSHARK_NAMES = {
    "ifIndex": "sflow_245.ifindex",
    "ifType": "sflow_245.iftype",
    "ifSpeed": "sflow_245.ifspeed",
    "ifDirection": "sflow_245.ifdirection",
    "ifInOctets": "sflow_245.ifinoct",
    "ifInUcastPkts": "sflow_245.ifinpkt",
    "ifInMulticastPkts": "sflow_245.ifinmcast",
    "ifInBroadcastPkts": "sflow_245.ifinbcast",
    "ifInDiscards": "sflow_245.ifindisc",
    "ifInErrors": "sflow_245.ifinerr",
    "ifInUnknownProtos": "sflow_245.ifinunk",
    "ifOutOctets": "sflow_245.ifoutoct",
    "ifOutUcastPkts": "sflow_245.ifoutpkt",
    "ifOutMulticastPkts": "sflow_245.ifoutmcast",
    "ifOutBroadcastPkts": "sflow_245.ifoutbcast",
    "ifOutDiscards": "sflow_245.ifoutdisc",
    "ifOutErrors": "sflow_245.ifouterr",
    "ifPromiscuousMode": "sflow_245.ifpromisc",
    "dot5StatsRecoverys": "sflow_245.dot5StatsRecoveries",
    "dot3adAggPortAttachedAggID": "sflow.lag_port.attached_agg_id",
    "dot3adAggPortStatsLACPDUsRx": "sflow.lag_port.lacpdus.rx",
    "dot3adAggPortStatsMarkerPDUsRx": "sflow.lag_port.marker_pdus.rx",
    "dot3adAggPortStatsMarkerResponsePDUsRx": "sflow.lag_port.marker_response_pdus.rx",
    "dot3adAggPortStatsUnknownRx": "sflow.lag_port.unknown.rx",
    "dot3adAggPortStatsIllegalRx": "sflow.lag_port.illegal.rx",
    "dot3adAggPortStatsLACPDUsTx": "sflow.lag_port.lacpdus.tx",
    "dot3adAggPortStatsMarkerPDUsTx": "sflow.lag_port.marker_pdus.tx",
    "dot3adAggPortStatsMarkerResponsePDUsTx": "sflow.lag_port.marker_response_pdus.tx",
    "5s_cpu": "sflow_5.cpu_5s",
    "1m_cpu": "sflow_5.cpu_1m",
    "5m_cpu": "sflow_5.cpu_5m",
    "on_channel_busy_time": "sflow_5.channel_busy_time",
}


def tshark_fields() -> dict[str, str]:
    """Return the field of TShark for every column that TShark can show."""
    tool = shutil.which("tshark")
    if tool is None:
        pytest.skip("tshark is not installed")
    listed = subprocess.run([tool, "-G", "fields"], capture_output=True, text=True, check=True).stdout
    known = {line.split("\t")[2] for line in listed.splitlines() if line.startswith("F")}
    fields = {}
    for number in TSHARK_FORMATS:
        spec = [word.partition(":")[0] for word in STRUCTURES[number][1].split()]
        for column, name in zip(columns_of(number), spec, strict=True):
            candidates = (TSHARK_NAMES.get(name, ""), f"sflow_245.{name}", f"sflow_5.{name}")
            for field in known.intersection(candidates):
                fields[column] = field
    return fields


def test_tshark_reads_the_same_counters(tmp_path: Path) -> None:
    fields = tshark_fields()
    missing = {column for number in TSHARK_FORMATS for column in columns_of(number)} - set(fields)
    assert missing == {"if_status", *(name for name in missing if name.endswith(("_system_id", "_state")))}
    values = iter(range(1, 1000))
    records = [
        counters(number, LAYOUTS[number], *[next(values) % 256 for _ in LAYOUTS[number]])
        for number in TSHARK_FORMATS
    ]
    datagram = sflow(counters_sample(*records, sequence=7, source=(1, 9)), sequence=3)
    path = tmp_path / "counters.pcap"
    path.write_bytes(pcap(datagram))
    options = [option for field in fields.values() for option in ("-e", field)]
    command = ["tshark", "-r", str(path), "-d", "udp.port==2055,sflow", "-T", "fields", *options]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip("\n")
    shown = {column: int(text, 0) for column, text in zip(fields, line.split("\t"), strict=True)}
    (row,) = decode_with("core")(datagram, schema=COUNTERS).flows
    assert shown == {column: row.get(column, 0) for column in fields}
