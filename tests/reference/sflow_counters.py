"""Counter samples of sFlow and its notifications of discarded packets, by the documents of sflow.org.

These are "sFlow Version 5" and its 802.11, LAG, Optical Interface, OpenFlow, Host, Host TCP/IP, Java Virtual
Machine, HTTP, Application, Memcache and Open vSwitch structures.
"sFlow Dropped Packet Notification Structures" is included with two records on Linux that host-sflow added.
The specifications leave these points open:

- A counter or gauge of 32 or 64 bits that is all ones is unknown. So is a load that is negative or NaN.
  Single bytes, MAC addresses and signed numbers have no such value. Members of lists have none either,
  because they would lose their position.
- An empty string and a UUID of zeros are unknown.
- A record that is too short gives no values, except lists: the members before the truncation count. Fields
  that a later edition of a structure added may be missing.
- Of two records of one format the first counts; the other is not read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from . import sflow, sflow_fields
from .datagram import Datagram
from .octets import Octets, Short
from .values import Flow, Number, Numbers, Opaque, Real, Text, Value

COUNTERS, DISCARDED_PACKET = 1, 2  # kinds of rows

# Format -> structure, and its fields in the order of the wire. They have 32 bits unless another type is
# named. Fields after the bar belong to a later edition. (The state of a LAG port is opaque[4]: one byte each
# of the four values in the document.)
STRUCTURES = {
    1: (
        "if_counters",
        """
        ifIndex ifType ifSpeed:hyper ifDirection ifStatus ifInOctets:hyper ifInUcastPkts ifInMulticastPkts
        ifInBroadcastPkts ifInDiscards ifInErrors ifInUnknownProtos ifOutOctets:hyper ifOutUcastPkts
        ifOutMulticastPkts ifOutBroadcastPkts ifOutDiscards ifOutErrors ifPromiscuousMode
        """,
    ),
    2: (
        "ethernet_counters",
        """
        dot3StatsAlignmentErrors dot3StatsFCSErrors dot3StatsSingleCollisionFrames
        dot3StatsMultipleCollisionFrames dot3StatsSQETestErrors dot3StatsDeferredTransmissions
        dot3StatsLateCollisions dot3StatsExcessiveCollisions dot3StatsInternalMacTransmitErrors
        dot3StatsCarrierSenseErrors dot3StatsFrameTooLongs dot3StatsInternalMacReceiveErrors
        dot3StatsSymbolErrors
        """,
    ),
    3: (
        "tokenring_counters",
        """
        dot5StatsLineErrors dot5StatsBurstErrors dot5StatsACErrors dot5StatsAbortTransErrors
        dot5StatsInternalErrors dot5StatsLostFrameErrors dot5StatsReceiveCongestions
        dot5StatsFrameCopiedErrors dot5StatsTokenErrors dot5StatsSoftErrors dot5StatsHardErrors
        dot5StatsSignalLoss dot5StatsTransmitBeacons dot5StatsRecoverys dot5StatsLobeWires dot5StatsRemoves
        dot5StatsSingles dot5StatsFreqErrors
        """,
    ),
    4: (
        "vg_counters",
        """
        dot12InHighPriorityFrames dot12InHighPriorityOctets:hyper dot12InNormPriorityFrames
        dot12InNormPriorityOctets:hyper dot12InIPMErrors dot12InOversizeFrameErrors dot12InDataErrors
        dot12InNullAddressedFrames dot12OutHighPriorityFrames dot12OutHighPriorityOctets:hyper
        dot12TransitionIntoTrainings dot12HCInHighPriorityOctets:hyper dot12HCInNormPriorityOctets:hyper
        dot12HCOutHighPriorityOctets:hyper
        """,
    ),
    5: (
        "vlan_counters",
        """
        vlan_id octets:hyper ucastPkts multicastPkts broadcastPkts discards
        """,
    ),
    6: (
        "ieee80211_counters",
        """
        dot11TransmittedFragmentCount dot11MulticastTransmittedFrameCount dot11FailedCount dot11RetryCount
        dot11MultipleRetryCount dot11FrameDuplicateCount dot11RTSSuccessCount dot11RTSFailureCount
        dot11ACKFailureCount dot11ReceivedFragmentCount dot11MulticastReceivedFrameCount dot11FCSErrorCount
        dot11TransmittedFrameCount dot11WEPUndecryptableCount dot11QoSDiscardedFragmentCount
        dot11AssociatedStationCount dot11QoSCFPollsReceivedCount dot11QoSCFPollsUnusedCount
        dot11QoSCFPollsUnusableCount dot11QoSCFPollsLostCount
        """,
    ),
    7: (
        "lag_port_stats",
        """
        dot3adAggPortActorSystemID:mac dot3adAggPortPartnerOperSystemID:mac dot3adAggPortAttachedAggID
        dot3adAggPortActorAdminState:octet dot3adAggPortActorOperState:octet
        dot3adAggPortPartnerAdminState:octet dot3adAggPortPartnerOperState:octet dot3adAggPortStatsLACPDUsRx
        dot3adAggPortStatsMarkerPDUsRx dot3adAggPortStatsMarkerResponsePDUsRx dot3adAggPortStatsUnknownRx
        dot3adAggPortStatsIllegalRx dot3adAggPortStatsLACPDUsTx dot3adAggPortStatsMarkerPDUsTx
        dot3adAggPortStatsMarkerResponsePDUsTx
        """,
    ),
    10: (
        "sfp",
        """
        module_id module_total_lanes module_supply_voltage module_temperature:signed
        """,
    ),
    1001: (
        "processor",
        """
        5s_cpu 1m_cpu 5m_cpu total_memory:hyper free_memory:hyper
        """,
    ),
    1002: (
        "radio_utilization",
        """
        elapsed_time on_channel_time on_channel_busy_time
        """,
    ),
    1004: (
        "of_port",
        """
        datapath_id:hyper port_no
        """,
    ),
    2002: (
        "host_parent",
        """
        container_type container_index
        """,
    ),
    2003: (
        "host_cpu",
        """
        load_one:float load_five:float load_fifteen:float proc_run proc_total cpu_num cpu_speed uptime
        cpu_user cpu_nice cpu_system cpu_idle cpu_wio cpu_intr cpu_sintr interrupts contexts | cpu_steal
        cpu_guest cpu_guest_nice
        """,
    ),
    2004: (
        "host_memory",
        """
        mem_total:hyper mem_free:hyper mem_shared:hyper mem_buffers:hyper mem_cached:hyper swap_total:hyper
        swap_free:hyper page_in page_out swap_in swap_out
        """,
    ),
    2005: (
        "host_disk_io",
        """
        disk_total:hyper disk_free:hyper part_max_used reads bytes_read:hyper read_time writes
        bytes_written:hyper write_time
        """,
    ),
    2006: (
        "host_net_io",
        """
        bytes_in:hyper pkts_in errs_in drops_in bytes_out:hyper packets_out errs_out drops_out
        """,
    ),
    2007: (
        "mib2_ip_group",
        """
        ipForwarding ipDefaultTTL ipInReceives ipInHdrErrors ipInAddrErrors ipForwDatagrams ipInUnknownProtos
        ipInDiscards ipInDelivers ipOutRequests ipOutDiscards ipOutNoRoutes ipReasmTimeout ipReasmReqds
        ipReasmOKs ipReasmFails ipFragOKs ipFragFails ipFragCreates
        """,
    ),
    2008: (
        "mib2_icmp_group",
        """
        icmpInMsgs icmpInErrors icmpInDestUnreachs icmpInTimeExcds icmpInParamProbs icmpInSrcQuenchs
        icmpInRedirects icmpInEchos icmpInEchoReps icmpInTimestamps icmpInAddrMasks icmpInAddrMaskReps
        icmpOutMsgs icmpOutErrors icmpOutDestUnreachs icmpOutTimeExcds icmpOutParamProbs icmpOutSrcQuenchs
        icmpOutRedirects icmpOutEchos icmpOutEchoReps icmpOutTimestamps icmpOutTimestampReps icmpOutAddrMasks
        icmpOutAddrMaskReps
        """,
    ),
    2009: (
        "mib2_tcp_group",
        """
        tcpRtoAlgorithm tcpRtoMin tcpRtoMax tcpMaxConn tcpActiveOpens tcpPassiveOpens tcpAttemptFails
        tcpEstabResets tcpCurrEstab tcpInSegs tcpOutSegs tcpRetransSegs tcpInErrs tcpOutRsts tcpInCsumErrs
        """,
    ),
    2010: (
        "mib2_udp_group",
        """
        udpInDatagrams udpNoPorts udpInErrors udpOutDatagrams udpRcvbufErrors udpSndbufErrors udpInCsumErrors
        """,
    ),
    2100: (
        "virt_node",
        """
        mhz cpus memory:hyper memory_free:hyper num_domains
        """,
    ),
    2101: (
        "virt_cpu",
        """
        state cpuTime nrVirtCpu
        """,
    ),
    2102: (
        "virt_memory",
        """
        memory:hyper maxMemory:hyper
        """,
    ),
    2103: (
        "virt_disk_io",
        """
        capacity:hyper allocation:hyper physical:hyper rd_req rd_bytes:hyper wr_req wr_bytes:hyper errs
        """,
    ),
    2104: (
        "virt_net_io",
        """
        rx_bytes:hyper rx_packets rx_errs rx_drop tx_bytes:hyper tx_packets tx_errs tx_drop
        """,
    ),
    2105: (
        "jvm_runtime",
        """
        vm_name:string vm_vendor:string vm_version:string
        """,
    ),
    2106: (
        "jvm_statistics",
        """
        heap_initial:hyper heap_used:hyper heap_committed:hyper heap_max:hyper non_heap_initial:hyper
        non_heap_used:hyper non_heap_committed:hyper non_heap_max:hyper gc_count gc_time classes_loaded
        classes_total classes_unloaded compilation_time thread_num_live thread_num_daemon thread_num_started
        fd_open_count fd_max_count
        """,
    ),
    2201: (
        "http_counters",
        """
        method_option_count method_get_count method_head_count method_post_count method_put_count
        method_delete_count method_trace_count method_connect_count method_other_count status_1xx_count
        status_2xx_count status_3xx_count status_4xx_count status_5xx_count status_other_count
        """,
    ),
    2202: (
        "app_operations",
        """
        application:string success other timeout internal_error bad_request forbidden too_large
        not_implemented not_found unavailable unauthorized
        """,
    ),
    2203: (
        "app_resources",
        """
        user_time system_time mem_used:hyper mem_max:hyper fd_open fd_max conn_open conn_max
        """,
    ),
    2204: (
        "memcache_counters",
        """
        cmd_set cmd_touch cmd_flush get_hits get_misses delete_hits delete_misses incr_hits incr_misses
        decr_hits decr_misses cas_hits cas_misses cas_badval auth_cmds auth_errors threads conn_yields
        listen_disabled_num curr_connections rejected_connections total_connections connection_structures
        evictions reclaimed curr_items total_items bytes_read:hyper bytes_written:hyper bytes:hyper
        limit_maxbytes:hyper
        """,
    ),
    2206: (
        "app_workers",
        """
        workers_active workers_idle workers_max req_delayed req_dropped
        """,
    ),
    2207: (
        "ovs_dp_stats",
        """
        hits misses lost mask_hits flows masks
        """,
    ),
}
LANE = (
    "lane_index tx_bias_current tx_power tx_power_min tx_power_max tx_wavelength "
    "rx_power rx_power_min rx_power_max"
)
LANE_FIELDS = [*LANE.split(), "rx_wavelength"]

SFP, PORT_NAME, HOST_DESCR, HOST_ADAPTERS = 10, 1005, 2000, 2001
COUNTER_FORMATS = {*STRUCTURES, PORT_NAME, HOST_DESCR, HOST_ADAPTERS}
DROP_FORMATS = {sflow.SAMPLED_HEADER, *sflow.READERS, *sflow_fields.STRUCTURES}

SAMPLES = {sflow.COUNTERS_SAMPLE, sflow.EXPANDED_COUNTERS_SAMPLE, sflow.DISCARDED_PACKET}


def read_sample(datagram: Datagram, flow: Flow, sample_format: int, sample: Octets) -> bool:
    """Read a sample, for schemas whose rows are counters."""
    if sample_format not in SAMPLES:
        left_out = sample_format in (sflow.FLOW_SAMPLE, sflow.EXPANDED_FLOW_SAMPLE)
        datagram.exporter.counters["flows_left_out" if left_out else "unknown_sample"] += 1
        return False
    flow.rows = "counters"
    discarded = sample_format == sflow.DISCARDED_PACKET
    sequence = sample.u32()
    if sample_format == sflow.COUNTERS_SAMPLE:
        source = sample.u32()
        source_type, source_index = source >> 24, source & 0x00FFFFFF
    else:
        source_type, source_index = sample.u64_pair()
    flow.give("sflow:sample.kind", Number(DISCARDED_PACKET if discarded else COUNTERS))
    flow.give("sflow:sample.sequence_number", Number(sequence))
    flow.give("sflow:sample.source_id_type", Number(source_type))
    flow.give("sflow:sample.source_id_index", Number(source_index))
    if discarded:
        read_discarded(datagram, flow, sample)
    else:
        read_counters(datagram, flow, sample)
    return True


def index_records(datagram: Datagram, sample: Octets, formats: set[int]) -> dict[int, bytes]:
    """Return the first record of each format in `formats`."""
    records: dict[int, bytes] = {}
    for record_format, record in sflow.read_records(datagram, sample, sample.u32()):
        if record_format in formats and record_format not in records:
            records[record_format] = record
        else:
            datagram.exporter.counters["unknown_sample_record"] += 1
    return records


# Counters ---------------------------------------------------------------------------------------------------


def read_counters(datagram: Datagram, flow: Flow, sample: Octets) -> None:
    records = index_records(datagram, sample, COUNTER_FORMATS)
    for record_format, record in records.items():
        octets = Octets(record)
        try:
            if record_format == PORT_NAME:
                give_text(flow, "sflow:port_name.name", sflow.read_opaque(octets))
            elif record_format == HOST_DESCR:
                give_host(flow, octets)
            elif record_format == HOST_ADAPTERS:
                give_adapters(flow, octets)
            else:
                give_structure(flow, record_format, octets)
        except Short:
            datagram.exporter.counters["bad_sample_record"] += 1


def give_structure(flow: Flow, record_format: int, record: Octets) -> None:
    name, fields = STRUCTURES[record_format]
    first, _, later = fields.partition("|")
    values = list(read_fields(first, record))
    if record_format == SFP:
        lanes = record.u32()
    try:
        for value in read_fields(later, record):
            values.append(value)
    except Short:
        pass
    for field, value in values:
        flow.give(f"sflow:{name}.{snake_case(field)}", value)
    if record_format == SFP:
        give_lanes(flow, record, lanes)


def read_fields(fields: str, record: Octets) -> Iterator[tuple[str, Value | None]]:
    for word in fields.split():
        field, _, field_type = word.partition(":")
        yield field, read_value(field_type, record)


def read_value(field_type: str, record: Octets) -> Value | None:
    """Read a value. Return None if it is unknown to the exporter."""
    if field_type == "string":
        text = sflow.read_opaque(record)
        return Text(text) if text else None
    if field_type == "octet":
        return Number(record.u8())
    if field_type == "mac":
        return Number(read_mac(record))
    if field_type == "signed":
        return Number(struct.unpack(">i", record.take(4))[0])
    if field_type == "float":
        real = struct.unpack(">f", record.take(4))[0]
        return Real(real) if real >= 0 else None
    size = 8 if field_type == "hyper" else 4
    number = record.uint(size)
    return None if number == (1 << 8 * size) - 1 else Number(number)


def read_mac(record: Octets) -> int:
    """Read a MAC address: 6 bytes, and padding to 8."""
    number = record.uint(6)
    record.take_up_to(2)
    return number


def snake_case(field: str) -> str:
    """Convert a name: ifInUcastPkts -> if_in_ucast_pkts."""
    for abbreviation, word in (("QoS", "Qos"), ("LACPDUs", "Lacpdus"), ("PDUs", "Pdus"), ("OKs", "Oks")):
        field = field.replace(abbreviation, word)
    return re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", field).lower()


def give_lanes(flow: Flow, record: Octets, count: int) -> None:
    lanes: list[list[int]] = []
    try:
        for _ in range(count):
            octets = Octets(record.take(4 * len(LANE_FIELDS)))
            lanes.append([octets.u32() for _ in LANE_FIELDS])
    finally:
        for index, field in enumerate(LANE_FIELDS):
            if lanes:
                flow.give(f"sflow:sfp_lane.{field}", Numbers([lane[index] for lane in lanes]))


def give_host(flow: Flow, record: Octets) -> None:
    """Read host_descr: hostname<64>, uuid[16] (an erratum to uuid<16>), machine_type, os_name,
    os_release<32>.
    """
    hostname, uuid = sflow.read_opaque(record), record.take(16)
    machine_type, os_name, os_release = record.u32(), record.u32(), sflow.read_opaque(record)
    give_text(flow, "sflow:host_descr.hostname", hostname)
    if any(uuid):
        flow.give("sflow:host_descr.uuid", Opaque(uuid))
    flow.give("sflow:host_descr.machine_type", Number(machine_type))
    flow.give("sflow:host_descr.os_name", Number(os_name))
    give_text(flow, "sflow:host_descr.os_release", os_release)


def give_adapters(flow: Flow, record: Octets) -> None:
    """Read the adapters of a host: ifIndexes and addresses, as two lists of one length."""
    pairs: list[tuple[int, int]] = []
    try:
        for _ in range(record.u32()):
            index, addresses = record.u32(), record.u32()
            if not addresses:
                pairs.append((index, 0))
            for _ in range(addresses):
                pairs.append((index, read_mac(record)))
    finally:
        if pairs:
            flow.give("sflow:host_adapters.if_index", Numbers([index for index, _ in pairs]))
            flow.give("sflow:host_adapters.mac_address", Numbers([mac for _, mac in pairs]))


def give_text(flow: Flow, name: str, octets: bytes) -> None:
    if octets:
        flow.give(name, Text(octets))


# Discarded packets ------------------------------------------------------------------------------------------


def read_discarded(datagram: Datagram, flow: Flow, sample: Octets) -> None:
    """Read drops, inputifindex, outputifindex, reason, records. The packet is described as in a flow
    sample.
    """
    drops, input_value, output_value, reason = (sample.u32() for _ in range(4))
    records = index_records(datagram, sample, DROP_FORMATS)
    flow.give("sflow:discarded_packet.drops", Number(drops))
    if input_value not in sflow.LOCAL_INTERFACES:
        flow.give("sflow:discarded_packet.input", Number(input_value))
    if output_value not in sflow.LOCAL_INTERFACES:
        flow.give("sflow:discarded_packet.output", Number(output_value))
    flow.give("sflow:discarded_packet.reason", Number(reason))
    status = sflow.FORWARDING_STATUS.get(reason, sflow.DROPPED_UNKNOWN)
    flow.give("derived:forwarding_status", Number(status))
    sflow.give_records(datagram, flow, records)
    sflow_fields.give_records(datagram, flow, records)
