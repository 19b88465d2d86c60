"""sFlow, by "sFlow Version 5" (sflow.org, July 2004).

All data is XDR: words of four bytes, and opaques padded to words. The specification leaves these points open:

- An agent address of type 0, or of zeros (also ::ffff:0.0.0.0), is absent: the exporter is then the UDP
  source. A type above 2 cannot be skipped, so the datagram cannot be read (`bad_header`).
- A sample that is too short for its fixed part gives no row. The samples after it are read.
- A record that is too short, or whose inner lengths overrun it, gives no values.
- Of two records of one format, the first counts. The second one is counted as one that is not read.
- A next hop of address type 0 is absent. A type above 2 makes its record a bad one.
- A header that overruns its record is not parsed; its frame_length counts.
- If a sample has both a sampled_ipv4 and a sampled_ipv6 record, the former counts.
- `source_id` is the index of the data source, without its type.
- An opaque at the end of the datagram or the sample may lack its padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import options, sflow_fields
from .datagram import Datagram, wide
from .octets import Octets, Short
from .packet import IPV4_TYPE, IPV6_TYPE, parse
from .sequence import DATAGRAMS, Content, Samples
from .values import Address, Flow, Number, Numbers

IPV4_ADDRESS, IPV6_ADDRESS = 1, 2

FLOW_SAMPLE, COUNTERS_SAMPLE, EXPANDED_FLOW_SAMPLE, EXPANDED_COUNTERS_SAMPLE, DISCARDED_PACKET = 1, 2, 3, 4, 5

SAMPLED_HEADER, SAMPLED_ETHERNET, SAMPLED_IPV4, SAMPLED_IPV6 = 1, 2, 3, 4
EXTENDED_SWITCH, EXTENDED_ROUTER, EXTENDED_GATEWAY = 1001, 1002, 1003

INTERFACE_INDEX, INTERFACE_DISCARDED = 0, 1
LOCAL_INTERFACES = (0x3FFFFFFF, 0xFFFFFFFF)  # the second one only in expanded samples
HIGHEST_VLAN = 4094

# Reason codes of discarded packets -> the closest forwardingStatus (element 89). Others are 128, dropped for
# an unknown reason.
FORWARDING_STATUS = {
    0: 131, 1: 131, 2: 131, 3: 131, 4: 133, 5: 131, 6: 131, 7: 131, 8: 132, 9: 129, 10: 129, 11: 131, 12: 131,
    13: 129, 257: 137, 258: 130, 259: 143, 260: 139, 261: 138, 262: 135, 269: 131, 279: 132, 280: 140,
    292: 132, 302: 140,
}  # fmt: skip
DROPPED_UNKNOWN = 128


class UnknownAddressType(Exception):
    """An address of a type whose size is not known."""


SampleReader = Callable[[Datagram, Flow, int, Octets], bool]


def decode(datagram: Datagram, read_sample: SampleReader) -> Iterator[Flow]:
    """Decode a datagram. `read_sample` reads a sample of a format and returns whether it makes a row."""
    octets = Octets(datagram.payload)
    octets.take(4)  # version
    agent = read_address(octets)
    sub_agent, datagram.sequence_number, uptime, samples = (
        octets.u32(),
        octets.u32(),
        octets.u32(),
        octets.u32(),
    )
    known = agent and any(agent) and agent != wide(bytes(4))
    datagram.exporter_address = agent if agent and known else datagram.source
    datagram.sub_agent = sub_agent
    sequences = datagram.check_sequence(DATAGRAMS, sub_agent, uptime, Content(1))
    sequences.samples = sequences.samples or Samples()
    for _ in range(samples):
        try:
            sample_format = octets.u32()
            sample = Octets(read_opaque(octets))
        except Short:
            datagram.exporter.counters["bad_sample"] += 1
            return
        body = sample.data
        flow = datagram.new_flow()
        flow.give("sflow:datagram.sub_agent_id", Number(sub_agent))
        flow.give("sflow:datagram.uptime", Number(uptime))
        learn_names(datagram, sample_format, body)
        try:
            if read_sample(datagram, flow, sample_format, sample):
                yield flow
        except Short:
            datagram.exporter.counters["bad_sample"] += 1
        status = sequences.samples.check(sample_format, body, sequences.totals.restarts)
        datagram.exporter.counters.update([status] if status else [])
    datagram.count_excess(octets)


def learn_names(datagram: Datagram, sample_format: int, body: bytes) -> None:
    wanted = options.wanted_kinds(datagram.wanted.get("flows", ()))
    if sample_format in (COUNTERS_SAMPLE, EXPANDED_COUNTERS_SAMPLE):
        expanded = sample_format == EXPANDED_COUNTERS_SAMPLE
        options.learn_counters(datagram.exporter.names, expanded, body, wanted)


def read_flow_sample(datagram: Datagram, flow: Flow, sample_format: int, sample: Octets) -> bool:
    """Read a flow sample, for schemas whose rows are flows."""
    if sample_format in (FLOW_SAMPLE, EXPANDED_FLOW_SAMPLE):
        records = give_sample(flow, sample, expanded=sample_format == EXPANDED_FLOW_SAMPLE)
        found = index_records(datagram, sample, records)
        give_records(datagram, flow, found)
        sflow_fields.give_records(datagram, flow, found)
        options.give_interface_names(flow, datagram.exporter.names)
        return True
    if sample_format in (COUNTERS_SAMPLE, EXPANDED_COUNTERS_SAMPLE):
        datagram.exporter.counters["counter_sample"] += 1
    elif sample_format == DISCARDED_PACKET:
        datagram.exporter.counters["drop_sample"] += 1
    else:
        datagram.exporter.counters["unknown_sample"] += 1
    return False


def read_opaque(octets: Octets) -> bytes:
    """Read an opaque: a length, its bytes, and padding to the next word."""
    length = octets.u32()
    data = octets.take(length)
    octets.take_up_to(-length % 4)
    return data


def read_address(octets: Octets) -> bytes | None:
    """Read an address: a type, and 4 or 16 bytes. Return None for type 0."""
    kind = octets.u32()
    if kind == IPV4_ADDRESS:
        return octets.take(4)
    if kind == IPV6_ADDRESS:
        return octets.take(16)
    if kind == 0:
        return None
    raise UnknownAddressType(kind)


# A sample ---------------------------------------------------------------------------------------------------


def give_sample(flow: Flow, sample: Octets, expanded: bool) -> int:
    """Read the fixed part of a flow sample. Return the number of records that follow it."""
    sequence = sample.u32()
    source = sample.u64_pair()[1] if expanded else sample.u32() & 0x00FFFFFF
    rate, pool, drops = sample.u32(), sample.u32(), sample.u32()
    input_format, input_value = read_interface(sample, expanded)
    output_format, output_value = read_interface(sample, expanded)
    records = sample.u32()
    flow.give("sflow:flow_sample.sampling_rate", Number(rate))
    flow.give("sflow:flow_sample.sequence_number", Number(sequence))
    flow.give("sflow:flow_sample.sample_pool", Number(pool))
    flow.give("sflow:flow_sample.drops", Number(drops))
    flow.give("sflow:flow_sample.source_id", Number(source))
    flow.give("sflow:flow_sample.packets", Number(1))
    if input_format == INTERFACE_INDEX and input_value not in LOCAL_INTERFACES:
        flow.give("sflow:flow_sample.input", Number(input_value))
    if output_format == INTERFACE_INDEX and output_value not in LOCAL_INTERFACES:
        flow.give("sflow:flow_sample.output", Number(output_value))
    if output_format == INTERFACE_DISCARDED:
        status = FORWARDING_STATUS.get(output_value, DROPPED_UNKNOWN)
        flow.give("derived:forwarding_status", Number(status))
    return records


def read_interface(sample: Octets, expanded: bool) -> tuple[int, int]:
    """Return (format, value) of an interface: two words, or the top two bits of a word and the rest of it."""
    if expanded:
        return sample.u64_pair()
    word = sample.u32()
    return word >> 30, word & 0x3FFFFFFF


def index_records(datagram: Datagram, sample: Octets, count: int) -> dict[int, bytes]:
    """Return the first record of each format. Records after one that overruns the sample are lost."""
    records: dict[int, bytes] = {}
    for record_format, record in read_records(datagram, sample, count):
        known = record_format in READERS or record_format in sflow_fields.STRUCTURES
        if (known or record_format == SAMPLED_HEADER) and record_format not in records:
            records[record_format] = record
        else:
            datagram.exporter.counters["unknown_sample_record"] += 1
    return records


def read_records(datagram: Datagram, sample: Octets, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield format and body of each record. A record that overruns the sample ends the iteration."""
    for _ in range(count):
        try:
            record_format = sample.u32()
            record = read_opaque(sample)
        except Short:
            datagram.exporter.counters["bad_sample_record"] += 1
            return
        yield record_format, record


def give_records(datagram: Datagram, flow: Flow, records: dict[int, bytes]) -> None:
    """Add the values of the records in the order of precedence, which is not that of the sample."""
    counters = datagram.exporter.counters
    packet = frame_length = None
    if SAMPLED_HEADER in records:
        header = Octets(records[SAMPLED_HEADER])
        try:
            protocol, frame_length, packet_octets = read_sampled_header(header)
            packet = parse(protocol, header.take(packet_octets), datagram.decapsulate)
        except Short:
            counters["bad_sample_record"] += 1
    for record_format, reader in READERS.items():
        if record_format in records:
            outside = packet is not None and packet.tunnels and record_format in OF_THE_PACKET
            try:
                reader(Flow(flow.version) if outside else flow, Octets(records[record_format]))
            except (Short, UnknownAddressType):
                counters["bad_sample_record"] += 1
    ethernet_length = flow.values.pop("sflow:sampled_ethernet.length", None)
    datagram.give_packet(flow, packet)
    if frame_length is not None:
        flow.give("sflow:sampled_header.frame_length", Number(frame_length))
    flow.give("sflow:sampled_ethernet.length", ethernet_length)


# Records ----------------------------------------------------------------------------------------------------


def read_sampled_header(record: Octets) -> tuple[int, int, int]:
    """Read a sampled header. Return the type of its first header and the lengths of frame and header.

    Its fields are header_protocol, frame_length, stripped, header<>.
    """
    protocol, frame_length = record.u32(), record.u32()
    record.u32()  # bytes that were removed from the end
    return protocol, frame_length, record.u32()


def give_switch(flow: Flow, record: Octets) -> None:
    src_vlan, src_priority, dst_vlan, dst_priority = (record.u32() for _ in range(4))
    if src_vlan <= HIGHEST_VLAN:
        flow.give("sflow:extended_switch.src_vlan", Number(src_vlan))
    flow.give("sflow:extended_switch.src_priority", Number(src_priority))
    if dst_vlan <= HIGHEST_VLAN:
        flow.give("sflow:extended_switch.dst_vlan", Number(dst_vlan))
    flow.give("sflow:extended_switch.dst_priority", Number(dst_priority))


def give_router(flow: Flow, record: Octets) -> None:
    next_hop = read_address(record)
    if next_hop:
        flow.give("sflow:extended_router.next_hop", Address(next_hop))
    src_mask, dst_mask = record.u32(), record.u32()
    flow.give("sflow:extended_router.src_mask_len", Number(src_mask))
    flow.give("sflow:extended_router.dst_mask_len", Number(dst_mask))


def give_gateway(flow: Flow, record: Octets) -> None:
    next_hop = read_address(record)
    if next_hop:
        flow.give("sflow:extended_gateway.next_hop", Address(next_hop))
    own_as, src_as, src_peer_as = record.u32(), record.u32(), record.u32()
    flow.give("sflow:extended_gateway.as", Number(own_as))
    flow.give("sflow:extended_gateway.src_as", Number(src_as or own_as))
    flow.give("sflow:extended_gateway.src_peer_as", Number(src_peer_as))
    path: list[int] = []
    try:
        for _ in range(record.u32()):
            record.u32()  # AS_SET or AS_SEQUENCE
            read_words(record, path)
    finally:
        if path:
            flow.give("sflow:extended_gateway.next_hop_as", Number(path[0]))
            flow.give("sflow:extended_gateway.as_path", Numbers(path))
    flow.give("sflow:extended_gateway.dst_as", Number(path[-1] if path else own_as))
    communities: list[int] = []
    try:
        read_words(record, communities)
    finally:
        flow.give("sflow:extended_gateway.communities", Numbers(communities))
    flow.give("sflow:extended_gateway.local_pref", Number(record.u32()))


def read_words(record: Octets, words: list[int]) -> None:
    """Read a counted array of words. Words before a truncation are kept."""
    for _ in range(record.u32()):
        words.append(record.u32())


def give_sampled_ipv4(flow: Flow, record: Octets) -> None:
    give_sampled_ip(flow, record, IPV4_TYPE, 4)


def give_sampled_ipv6(flow: Flow, record: Octets) -> None:
    give_sampled_ip(flow, record, IPV6_TYPE, 16)


def give_sampled_ip(flow: Flow, record: Octets, etype: int, width: int) -> None:
    length, protocol = record.u32(), record.u32()
    src_ip, dst_ip = record.take(width), record.take(width)
    src_port, dst_port, tcp_flags, tos = (record.u32() for _ in range(4))
    if "sflow:sampled_ip.length" in flow.values:
        return
    flow.give("sflow:sampled_ip.length", Number(length))
    flow.give("sflow:sampled_ip.protocol", Number(protocol))
    flow.give("sflow:sampled_ip.src_ip", Address(src_ip))
    flow.give("sflow:sampled_ip.dst_ip", Address(dst_ip))
    flow.give("sflow:sampled_ip.src_port", Number(src_port))
    flow.give("sflow:sampled_ip.dst_port", Number(dst_port))
    flow.give("sflow:sampled_ip.tcp_flags", Number(tcp_flags))
    flow.give("sflow:sampled_ip.tos", Number(tos))
    flow.give("derived:etype", Number(etype))


def give_sampled_ethernet(flow: Flow, record: Octets) -> None:
    """Read a sampled_ethernet record. MAC addresses are opaque[6], with two bytes of padding after each."""
    length = record.u32()
    macs = []
    for _ in range(2):
        macs.append(record.uint(6))
        record.take(2)
    ethernet_type = record.u32()
    flow.give("sflow:sampled_ethernet.src_mac", Number(macs[0]))
    flow.give("sflow:sampled_ethernet.dst_mac", Number(macs[1]))
    flow.give("sflow:sampled_ethernet.type", Number(ethernet_type))
    flow.give("sflow:sampled_ethernet.length", Number(length))


# Records that describe the sampled packet. If a tunnel was opened, that is the outer packet, not the flow.
OF_THE_PACKET = {SAMPLED_IPV4, SAMPLED_IPV6, SAMPLED_ETHERNET}

READERS: dict[int, Callable[[Flow, Octets], None]] = {
    EXTENDED_SWITCH: give_switch,
    EXTENDED_ROUTER: give_router,
    EXTENDED_GATEWAY: give_gateway,
    SAMPLED_IPV4: give_sampled_ipv4,
    SAMPLED_IPV6: give_sampled_ipv6,
    SAMPLED_ETHERNET: give_sampled_ethernet,
}
