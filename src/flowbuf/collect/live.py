"""Counters of a running collector with their rates, for the live view."""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowbuf._core import OTHERS
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.io.statuses import LOSSES

if TYPE_CHECKING:
    from flowbuf.collect.service import Service

__all__ = ["ExporterRates", "LiveCounters", "LiveSampler", "OutputRates", "Rates"]

RATE_SECONDS = 5.0
"""Time over which rates are averaged."""

MAX_EXPORTERS = 10_000
"""Most exporters with rates: those with most datagrams."""

EXPORTER_SECONDS = 1.0
EXPORTER_SHARE = 0.05
"""Share of the time for reading exporters, which workers do between two batches."""

LONGEST_PAUSE = 15.0
"""Longest time until exporters are read again."""

Key = Any


class Rates:
    """Rates of growing counters over the last RATE_SECONDS."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[Key, float]]] = deque()

    def add(self, now: float, values: Mapping[Key, float]) -> None:
        """Add the values of counters at a time in seconds."""
        self._samples.append((now, values))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()

    def growth(self, key: Key) -> float:
        """Return the growth of a counter. A counter that is new has grown from 0."""
        (_, before), (_, now) = self._samples[0], self._samples[-1]
        return max(now.get(key, 0) - before.get(key, 0), 0)

    def has_grown(self, key: Key) -> bool:
        """Return True if a counter has grown since the last sample."""
        before = self._samples[-2][1].get(key, 0) if len(self._samples) > 1 else 0
        return self._samples[-1][1].get(key, 0) > before

    def rate(self, key: Key) -> float:
        """Return the growth per second; 0 before the second sample."""
        seconds = self._samples[-1][0] - self._samples[0][0]
        return self.growth(key) / seconds if seconds > 0 else 0.0


@dataclass(frozen=True)
class ExporterRates:
    """An exporter at one moment.

    Attributes:
        address: Its IP address.
        sub_agent: Number of an sFlow sub-agent.
        version: Version of its latest datagram: 0 for sFlow, 5, 9, 10; None if it is unknown.
        datagrams: Datagrams per second.
        rows: Rows per second, per kind: "flows" and others.
        lost: Units that are missing by sequence numbers, per unit.
        quiet: Seconds since its last datagram; None if there was none since the start.
    """

    address: str
    sub_agent: int
    version: int | None
    datagrams: float
    rows: dict[str, float]
    lost: dict[str, int]
    quiet: float | None


@dataclass(frozen=True)
class OutputRates:
    """An output at one moment.

    Attributes:
        name: Its name.
        counters: Its totals.
        limit: Most flows in its queue.
        written: Flows per second that became stored or pending.
        failing: Text of its last error, or "".
    """

    name: str
    counters: OutputCounters
    limit: int
    written: float
    failing: str


@dataclass(frozen=True)
class LiveCounters:
    """The collector at one moment.

    Attributes:
        seconds: Time since the start of the view.
        addresses: Addresses of the listeners.
        intake: Totals of receiving and decoding.
        datagrams: Datagrams and messages over TCP per second.
        bytes: Their bytes per second.
        rows: Rows per second, per kind: "flows" and others.
        losses: Lost datagrams, flows or units by reason: their number, which is None if it is unknown, and
            the number per second. Reasons without losses are included.
        exporters: Exporters, the busiest first.
        exporter_count: Number of all exporters.
        outputs: Outputs.
        seen: Share of the flows that the top talkers include, of those of the last seconds.
    """

    seconds: float
    addresses: tuple[str, ...]
    intake: IntakeCounters
    datagrams: float
    bytes: float
    rows: dict[str, float]
    losses: dict[str, tuple[int | None, float]]
    exporters: list[ExporterRates] = field(default_factory=list)
    exporter_count: int = 0
    outputs: list[OutputRates] = field(default_factory=list)
    seen: float = 1.0


class LiveSampler:
    """Reads the counters of a service repeatedly. Use it in one thread.

    Args:
        service: Running service.
        clock: Returns the time in seconds.
    """

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._begin = self._due = clock()
        self._totals = Rates()
        self._by_exporter = Rates()
        self._heard: dict[Key, float | None] = {}  # time of the last datagram
        self._exporters: list[ExporterRates] = []
        self._exporter_count = 0
        self._gaps: Counter[str] = Counter()

    def read(self) -> LiveCounters:
        """Return the counters and rates of this moment."""
        now = self._clock()
        counters, live = self._service.read_counters(), self._service.read_live()
        self._read_exporters()
        losses = _losses(counters.intake, counters.outputs, self._gaps)
        written = {f"to {name}": each.stored + each.pending for name, each in counters.outputs.items()}
        intake = {
            "received": counters.intake.received + counters.intake.messages,
            "bytes": counters.intake.bytes + counters.intake.message_bytes,
        }
        rows = {kind: each.decoded for kind, each in counters.intake.rows.items()}
        view = {"offered": live.queue.offered, "missed": live.dropped.total()}
        lost = {name: count or 0 for name, count in losses.items()}
        self._totals.add(now, {**intake, **written, **view, **lost, **_name_rows(rows)})
        rate = self._totals.rate
        return LiveCounters(
            now - self._begin,
            tuple(str(listener.address) for listener in self._service.listeners),
            counters.intake,
            datagrams=rate("received"),
            bytes=rate("bytes"),
            rows={kind: rate(("rows", kind)) for kind in rows},
            losses={name: (count, rate(name)) for name, count in losses.items()},
            exporters=self._exporters,
            exporter_count=self._exporter_count,
            outputs=[
                OutputRates(
                    each.name,
                    counters.outputs[each.name],
                    each.queue.limit,
                    rate(f"to {each.name}"),
                    each.failing,
                )
                for each in self._service.outputs
                if each.name in counters.outputs
            ],
            seen=1 - self._totals.growth("missed") / max(self._totals.growth("offered"), 1),
        )

    def _read_exporters(self) -> None:
        """Read the exporters, each second or less often if there are many. Keep those of the last time."""
        now = self._clock()
        if now < self._due:
            return
        try:
            found = self._service.intake.list_exporters(EXPORTER_SECONDS)
        except FutureTimeout:  # a worker waits for a full queue
            found = None
        took = self._clock() - now
        self._due = now + min(max(EXPORTER_SECONDS, took / EXPORTER_SHARE), LONGEST_PAUSE)
        if found is not None:
            known = [each for each in found if each[0] != OTHERS]
            self._exporter_count = len(known)
            self._gaps = Counter()
            for each in found:
                self._gaps.update(each[6])
            self._update(now, heapq.nlargest(MAX_EXPORTERS, known, key=lambda each: each[2]))

    def _update(self, now: float, found: list[tuple[Any, ...]]) -> None:
        merged: dict[Key, tuple[Counter[Key], Counter[str]]] = {}
        versions: dict[Key, int | None] = {}
        for address, agent, datagrams, _, _, version, lost, rows, _ in found:
            key = (address, agent, version == 0)
            counts, units = merged.setdefault(key, (Counter(), Counter()))
            counts.update({"datagrams": datagrams, **_name_rows(rows)})
            units.update(lost)
            if versions.get(key) is None:  # a TCP session that has ended has none
                versions[key] = version
        self._by_exporter.add(
            now, {(key, name): count for key, each in merged.items() for name, count in each[0].items()}
        )
        self._heard = {
            key: now if self._by_exporter.has_grown((key, "datagrams")) else self._heard.get(key)
            for key in merged
        }
        self._exporters = [
            self._rates_of(now, key, versions[key], counts, units) for key, (counts, units) in merged.items()
        ]
        self._exporters.sort(key=lambda each: (-each.datagrams, each.address, each.sub_agent))

    def _rates_of(
        self, now: float, key: Key, version: int | None, counts: Mapping[Key, int], lost: Mapping[str, int]
    ) -> ExporterRates:
        address, agent, _ = key
        rates = {name: self._by_exporter.rate((key, name)) for name in counts}
        heard = self._heard[key]
        return ExporterRates(
            address,
            agent,
            version,
            rates.pop("datagrams"),
            {kind: rate for (_, kind), rate in rates.items()},
            dict(lost),
            None if heard is None else now - heard,
        )


def _name_rows(rows: Mapping[str, int]) -> dict[Key, int]:
    """Return the numbers of rows under keys that differ from the names of other counters."""
    return {("rows", kind): count for kind, count in rows.items()}


def _losses(
    intake: IntakeCounters, outputs: Mapping[str, OutputCounters], gaps: Mapping[str, int]
) -> dict[str, int | None]:
    """Return the number of losses by reason."""
    dropped = sum(each.dropped.total() for each in outputs.values())
    losses: dict[str, int | None] = {
        "kernel drops": intake.kernel_drops,
        **{f"missing {unit}": count for unit, count in gaps.items() if count},
        "dropped by outputs": dropped,
        "flows lost in workers": intake.lost_flows,
        "datagrams lost in workers": intake.lost_datagrams,
        "truncated datagrams": intake.truncated,
    }
    statuses = sorted(intake.statuses.items(), key=lambda item: -item[1])
    losses.update({name: count for name, count in statuses if name in LOSSES})
    return losses
