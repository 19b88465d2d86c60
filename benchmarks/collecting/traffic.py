"""Datagrams that senders repeat: the datasets of the benchmarks, with the flows of each datagram."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.datasets import load
from benchmarks.peers.harness import write_workload
from benchmarks.peers.programs import write_pcap
from flowbuf.bench import Workload
from flowbuf.decoder import Decoder

__all__ = ["Traffic", "load_traffic"]


@dataclass(frozen=True)
class Traffic:
    """A workload whose datagrams are sent: those of `first` once, then those of `data` in a circle.

    Attributes:
        workload: Datagrams. Those of one exporter are consecutive in `data`.
        first_flows: Number of flows of `first`.
        flows: Number of flows of the first 0, 1, 2 … datagrams of `data`.
    """

    workload: Workload
    first_flows: int
    flows: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.workload.name

    @property
    def flows_per_datagram(self) -> float:
        """Average number of flows of a datagram of `data`."""
        return self.flows[-1] / len(self.workload.data)

    @property
    def bytes_per_datagram(self) -> float:
        """Average payload of a datagram of `data`."""
        return sum(len(datagram.payload) for datagram in self.workload.data) / len(self.workload.data)

    def count_flows(self, datagrams: int) -> int:
        """Return the number of flows of `first` and of so many datagrams of `data`."""
        passes, rest = divmod(datagrams, len(self.workload.data))
        return self.first_flows + passes * self.flows[-1] + self.flows[rest]

    def write(self, folder: Path) -> Path:
        """Write the file that `bare_sender` reads, and return its path."""
        path = folder / f"{self.name}.workload"
        write_workload(self.workload, path)
        return path

    def write_capture(self, folder: Path) -> Path:
        """Write a capture of `first` and `data`, and return its path."""
        path = folder / f"{self.name}.pcap"
        write_pcap(self.workload.first + self.workload.data, path)
        return path


@cache
def load_traffic(name: str) -> Traffic | None:
    """Return the traffic of a dataset. None if its capture does not exist."""
    workload = load(name)
    if workload is None:
        return None
    ordered = sorted(workload.data, key=lambda datagram: datagram.source)  # a call of sendmmsg has one source
    workload = replace(workload, data=tuple(ordered))
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    first, counts = decoder.flows, [0]
    for datagram in workload.data:
        decoder.encode(*datagram)
        counts.append(decoder.flows - first)
    return Traffic(workload, first, tuple(counts))
