"""Hypothesis strategies for exporters that number their datagrams, and for lossy networks.

Networks lose, duplicate and reorder datagrams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.strategies.basics import Sent
from tests.support import datagrams as d

TEMPLATES = [
    d.template_set(d.template(256, (1, 4)), d.template(257, (82, 65535))),
    d.options_template_set(d.options_template(258, [(149, 4)], [(34, 4)])),
]
TEMPLATES9 = [d.template_set9(d.template(256, (1, 4)))]
FIRST_NUMBERS = [0, 1, 100, 9000, 1 << 20, (1 << 31) - 2, (1 << 32) - 5]
CLOCKS = [0, 5000, 100_000, 1 << 30, (1 << 32) - 20_000]
PAUSES = [0, 0, 0, 1, 500, 9_000, 11_000, 100_000]


@dataclass
class Numbered:
    """An exporter that numbers its datagrams.

    An IPFIX exporter may include the records of the message itself (`counts_own`), and may leave out options
    records (`counts_options` is false).
    """

    number: int
    clock: int
    port: int
    counts_own: bool = False
    counts_options: bool = True

    def take(self, units: int, others: int = 0) -> int:
        """Return the sequence number of a datagram with this many units and options records."""
        counted = units + (others if self.counts_options else 0)
        before, self.number = self.number, (self.number + counted) % (1 << 32)
        return self.number if self.counts_own else before

    def restart(self, draw: st.DrawFn) -> None:
        self.number, self.clock = (
            draw(st.sampled_from(FIRST_NUMBERS)),
            draw(st.sampled_from([0, 3000, self.clock])),
        )


def flows5(draw: st.DrawFn, exporter: Numbered) -> bytes:
    count = draw(st.integers(0, 4))
    header: dict[str, Any] = {
        "sequence": exporter.take(count),
        "uptime": exporter.clock,
        "engine_id": exporter.port % 2,
    }
    return d.netflow5(*[d.record5(octets=1)] * count, **header)


def packet9(draw: st.DrawFn, exporter: Numbered) -> bytes:
    sets = draw(
        st.sampled_from([TEMPLATES9, [d.data_set(256, d.u32(1), d.u32(2))], [d.data_set(300, d.u32(0))], []])
    )
    return d.netflow9(*sets, sequence=exporter.take(1), uptime=exporter.clock)


def message10(draw: st.DrawFn, exporter: Numbered) -> bytes:
    """Draw a message with all kinds of records. Some messages have records that cannot be counted."""
    time = exporter.clock // 1000
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return d.ipfix(*TEMPLATES, sequence=exporter.take(0), export_time=time)
    flows, names, others = (draw(st.integers(0, most)) for most in (4, 2, 1))
    sets = [d.data_set(256, *[d.u32(1)] * flows)] if flows else []
    sets += (
        [d.data_set(257, *[d.variable(b"name")] * names, padding=draw(st.sampled_from([0, 0, 3])))]
        if names
        else []
    )
    sets += [d.data_set(258, *[d.u32(0) + d.u32(9)] * others)] if others else []
    if kind == 1:
        sets.append(d.data_set(300, d.u32(0)))
    if kind == 2:
        sets.append(d.data_set(257, b"\x09abc"))
    length = 1000 if kind == 3 else None
    return d.ipfix(*sets, sequence=exporter.take(flows + names, others), export_time=time, length=length)


@dataclass
class Agent(Numbered):
    """An sFlow agent. Each of its data sources numbers its samples."""

    def __post_init__(self) -> None:
        self.samples: dict[tuple[bool, int], int] = {}

    def restart(self, draw: st.DrawFn) -> None:
        super().restart(draw)
        if draw(st.booleans()):
            self.samples.clear()


def datagram_s(draw: st.DrawFn, agent: Agent) -> bytes:
    samples = []
    for counters, source in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=4)):
        number = agent.samples[counters, source] = agent.samples.get((counters, source), agent.number * 2) + 1
        number = (number + (draw(st.integers(0, 19)) == 0) * draw(st.sampled_from([1, 70, 5000]))) % (1 << 32)
        expanded = draw(st.booleans())
        if counters:
            words = (number, 0, source, 0) if expanded else (number, source, 0)
            samples.append(d.sample(4 if expanded else 2, b"".join(map(d.u32, words))))
        elif expanded:
            samples.append(d.expanded_flow_sample(sequence=number, source=(0, source)))
        else:
            samples.append(d.flow_sample(sequence=number, source_id=source))
    return d.sflow(*samples, sequence=agent.take(1), uptime=agent.clock)


SENDERS: dict[str, tuple[Any, type[Numbered]]] = {
    "netflow5": (flows5, Numbered),
    "netflow9": (packet9, Numbered),
    "ipfix": (message10, Numbered),
    "sflow": (datagram_s, Agent),
}


@st.composite
def sent_datagrams(draw: st.DrawFn, protocol: str) -> list[Sent]:
    """Draw the datagrams of several processes at one address. Sometimes a process restarts."""
    make, kind = SENDERS[protocol]
    exporters = [
        kind(
            draw(st.sampled_from(FIRST_NUMBERS)),
            draw(st.sampled_from(CLOCKS)),
            port,
            draw(st.booleans()),
            draw(st.booleans()),
        )
        for port in range(draw(st.sampled_from([1, 1, 2, 6])))
    ]
    sent: list[Sent] = []
    for one in exporters if protocol == "ipfix" else []:
        templates = d.ipfix(*TEMPLATES, sequence=one.take(0), export_time=one.clock // 1000)
        sent.append((templates, ("192.0.2.1", 9000 + one.port)))
    for _ in range(draw(st.integers(1, 25))):
        exporter = draw(st.sampled_from(exporters))
        exporter.clock = (exporter.clock + draw(st.sampled_from(PAUSES))) % (1 << 32)
        event = draw(st.integers(0, 24))
        if event == 0:
            exporter.restart(draw)
        elif event == 1:
            exporter.take(draw(st.sampled_from([1, 100, 10_000, 1 << 21])))
        elif event == 2:
            exporter.port = draw(st.integers(0, 7))
        sent.append((make(draw, exporter), ("192.0.2.1", 9000 + exporter.port)))
    return sent


@st.composite
def received(draw: st.DrawFn, sent: list[Sent]) -> list[Sent]:
    """Draw a received sequence: each datagram may be delayed by some places, duplicated or dropped."""
    places = []
    for place, datagram in enumerate(sent):
        fate = draw(st.integers(0, 9))
        if fate == 0:
            continue
        delay = draw(st.sampled_from([1.5, 2.5, 5.5, 12.5])) if fate in (1, 2) else 0
        places.append((place + delay, datagram))
        if fate == 3:
            places.append((place + draw(st.sampled_from([0.2, 3.2])), datagram))
    return [datagram for _, datagram in sorted(places, key=lambda place: place[0])]


numbered_sequences = {
    protocol: sent_datagrams(protocol).flatmap(lambda sent: received(sent)) for protocol in SENDERS
}
