"""One datagram in a decoder: its sender, the values common to all its flows, and the state of its
exporter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from .octets import Octets
from .packet import Packet
from .sequence import Content, Mark, Sequences, Unit
from .values import Address, Clock, Flow, Number, Time

if TYPE_CHECKING:
    from .early import Waiting
    from .options import Names, Taken
    from .templates import Domain

FLOW_TYPES = {"sflow": 1, "netflow5": 2, "netflow9": 3, "ipfix": 4, "netflow1": 5, "netflow7": 6}


def wide(address: bytes) -> bytes:
    """Return an address in 16 bytes, IPv4 as an IPv4-mapped address."""
    return address if len(address) == 16 else bytes(10) + b"\xff\xff" + address


@dataclass
class Exporter:
    """The state of one exporter."""

    counters: Counter[str] = field(default_factory=Counter)
    datagrams: int = 0
    flows: int = 0
    names: Names = field(default_factory=dict)
    """Of an sFlow agent."""
    domains: dict[tuple[str, int, int | None], Domain] = field(
        default_factory=dict
    )  # the last is the port or None
    sequences: dict[tuple[str, int], Sequences] = field(default_factory=dict)

    def find_domain(self, datagram: Datagram) -> Domain:
        """Return the domain of the datagram, or of its port if ports are separated."""
        from .templates import Domain

        common = self.domains.setdefault((datagram.version, datagram.domain_id, None), Domain())
        if not common.split:
            return common
        own = Domain(common=common, port=datagram.port)
        return self.domains.setdefault((datagram.version, datagram.domain_id, datagram.port), own)


@dataclass
class Policy:
    """Options of the user. `template_expiry` is in nanoseconds; with 0, templates do not expire."""

    early_data_limit: int = 4 << 20
    early_data_total: int = 128 << 20
    template_expiry: int = 0
    obey_withdrawals: bool = False


@dataclass
class Exporters:
    """All exporters, by address and sFlow sub-agent (else 0). An IPv4-mapped address equals the IPv4 address.

    `waiting` has the data sets that wait for a template, of all exporters, the oldest first.
    """

    policy: Policy = field(default_factory=Policy)
    known: dict[tuple[bytes, int], Exporter] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)

    def find(self, address: bytes, sub_agent: int) -> Exporter:
        return self.known.setdefault((wide(address), sub_agent), Exporter())

    def by_text(self) -> dict[str, Exporter]:
        """Return the exporters by name: ADDRESS, or ADDRESS#SUB_AGENT if the sub-agent is not 0."""
        texts = {}
        for (address, sub_agent), exporter in self.known.items():
            parsed = IPv6Address(address)
            text = str(parsed.ipv4_mapped or parsed)
            texts[f"{text}#{sub_agent}" if sub_agent else text] = exporter
        return texts


@dataclass
class Datagram:
    """A datagram. `source` is the UDP source address as bytes, `received` is in nanoseconds since 1970.

    A decoder sets the other fields. `reads_packets` has the kinds of rows with an enabled column that takes
    its value from a sampled packet. The packets of other rows are not parsed, and their faults are not
    counted. `reads_layers` has the same meaning for layers. `decapsulate` has the kinds of tunnel that are
    opened. `wanted` has the sources of enabled columns, by the kind of rows, and `taken` their elements.
    """

    version: str
    payload: bytes
    source: bytes
    port: int
    received: int
    exporters: Exporters
    reads_packets: frozenset[str]
    reads_layers: frozenset[str] = frozenset()
    decapsulate: frozenset[str] = frozenset()
    wanted: dict[str, frozenset[str]] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    exporter_address: bytes = b""
    sub_agent: int = 0
    sequence_number: int = 0
    domain_id: int = 0
    exported: int | None = None
    content: Content = field(default_factory=Content)  # for an IPFIX message

    def __post_init__(self) -> None:
        self.exporter_address = self.source

    @property
    def exporter(self) -> Exporter:
        return self.exporters.find(self.exporter_address, self.sub_agent)

    def new_flow(self, clock: Clock | None = None) -> Flow:
        """Return a new flow with the values of the datagram."""
        flow = Flow(self.version, clock or Clock())
        flow.give("meta:time_received", Time(self.received))
        if self.exported is not None:
            flow.give("meta:time_exported", Time(self.exported))
        flow.give("meta:exporter_address", Address(self.exporter_address))
        flow.give("meta:source_address", Address(self.source))
        flow.give("meta:source_port", Number(self.port))
        flow.give("meta:flow_type", Number(FLOW_TYPES[self.version]))
        flow.give("meta:sequence_number", Number(self.sequence_number))
        flow.give("meta:observation_domain_id", Number(self.domain_id))
        return flow

    def count_excess(self, octets: Octets) -> None:
        """Count bytes after the end that the header states."""
        if octets.left:
            self.exporter.counters["padding" if octets.is_zero else "excess_data"] += 1

    def check_sequence(self, unit: Unit, domain: int, sent: int, content: Content) -> Sequences:
        """Check the sequence number of the header. `sent` is the exporter's clock in ms."""
        sequences = self.exporter.sequences.setdefault((self.version, domain), Sequences(unit))
        # An sFlow agent is identified by the address inside, whatever port its datagrams come from.
        port = 0 if self.version == "sflow" else self.port
        status = sequences.check(Mark(self.sequence_number, sent % (1 << 32), port, content))
        if status:
            self.exporter.counters[status] += 1
        return sequences

    def give_packet(self, flow: Flow, packet: Packet | None) -> None:
        if packet is None or flow.rows not in self.reads_packets:
            return
        flow.opened = packet.tunnels > 0
        for name, value in packet.values:
            flow.give(name, value)
        self.exporter.counters.update(packet.notes)
        if packet.has_more_layers and flow.rows in self.reads_layers:
            self.exporter.counters["layer_limit"] += 1


def address_octets(text: str) -> bytes:
    return ip_address(text).packed
