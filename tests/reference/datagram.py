"""One datagram on its way through a decoder: who sent it, what holds for all of its flows, and the state it
meets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from .packet import Packet
from .sequence import Content, Mark, Sequences, Unit
from .values import Address, Clock, Flow, Number, Time

if TYPE_CHECKING:
    from .early import Waiting
    from .templates import Domain

FLOW_TYPES = {"sflow": 1, "netflow5": 2, "netflow9": 3, "ipfix": 4, "netflow1": 5, "netflow7": 6}


def wide(address: bytes) -> bytes:
    """An address in 16 octets, IPv4 mapped."""
    return address if len(address) == 16 else bytes(10) + b"\xff\xff" + address


@dataclass
class Exporter:
    """What is kept of one exporter."""

    counters: Counter[str] = field(default_factory=Counter)
    datagrams: int = 0
    flows: int = 0
    domains: dict[tuple[str, int, int | None], Domain] = field(
        default_factory=dict
    )  # the last is the port or None
    sequences: dict[tuple[str, int], Sequences] = field(default_factory=dict)

    def find_domain(self, datagram: Datagram) -> Domain:
        """That of its port, where ports are told apart."""
        from .templates import Domain

        common = self.domains.setdefault((datagram.version, datagram.domain_id, None), Domain())
        if not common.split:
            return common
        own = Domain(common=common, port=datagram.port)
        return self.domains.setdefault((datagram.version, datagram.domain_id, datagram.port), own)


@dataclass
class Policy:
    """What is for the user to say. `template_expiry` is nanoseconds; 0: templates do not expire."""

    early_data_limit: int = 4 << 20
    early_data_total: int = 128 << 20
    template_expiry: int = 0
    obey_withdrawals: bool = False


@dataclass
class Exporters:
    """All of them, by address and sFlow sub-agent (else 0); an IPv4-mapped address is the IPv4 one's.
    `waiting` is data before its template, of all, the oldest first.
    """

    policy: Policy = field(default_factory=Policy)
    known: dict[tuple[bytes, int], Exporter] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)

    def find(self, address: bytes, sub_agent: int) -> Exporter:
        return self.known.setdefault((wide(address), sub_agent), Exporter())

    def by_text(self) -> dict[str, Exporter]:
        """ADDRESS, or ADDRESS#SUB_AGENT where that is not 0."""
        texts = {}
        for (address, sub_agent), exporter in self.known.items():
            parsed = IPv6Address(address)
            text = str(parsed.ipv4_mapped or parsed)
            texts[f"{text}#{sub_agent}" if sub_agent else text] = exporter
        return texts


@dataclass
class Datagram:
    """`source` is the UDP source address as octets, `received` nanoseconds since 1970. A decoder sets the
    rest.

    `reads_packets` says that some enabled column takes its value from a sampled packet; else none is looked
    at, and what is wrong inside it is not counted; `reads_layers` says the same of its layers. `decapsulate`
    are the kinds of tunnel that are opened.
    """

    version: str
    payload: bytes
    source: bytes
    port: int
    received: int
    exporters: Exporters
    reads_packets: bool
    reads_layers: bool = False
    decapsulate: frozenset[str] = frozenset()
    exporter_address: bytes = b""
    sub_agent: int = 0
    sequence_number: int = 0
    domain_id: int = 0
    exported: int | None = None
    content: Content = field(default_factory=Content)  # of an IPFIX message

    def __post_init__(self) -> None:
        self.exporter_address = self.source

    @property
    def exporter(self) -> Exporter:
        return self.exporters.find(self.exporter_address, self.sub_agent)

    def new_flow(self, clock: Clock | None = None) -> Flow:
        """A flow that says so far what the datagram says."""
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

    def check_sequence(self, unit: Unit, domain: int, sent: int, content: Content) -> Sequences:
        """The number of the header, of so much as the datagram holds; `sent`: by the exporter's clock, in ms."""
        sequences = self.exporter.sequences.setdefault((self.version, domain), Sequences(unit))
        # An sFlow agent is known by the address inside, whatever port its datagrams come from.
        port = 0 if self.version == "sflow" else self.port
        status = sequences.check(Mark(self.sequence_number, sent % (1 << 32), port, content))
        if status:
            self.exporter.counters[status] += 1
        return sequences

    def give_packet(self, flow: Flow, packet: Packet | None) -> None:
        if packet is None or not self.reads_packets:
            return
        flow.opened = packet.tunnels > 0
        for name, value in packet.values:
            flow.give(name, value)
        self.exporter.counters.update(packet.notes)
        if packet.has_more_layers and self.reads_layers:
            self.exporter.counters["layer_limit"] += 1


def address_octets(text: str) -> bytes:
    return ip_address(text).packed
