"""Peers that are Python libraries. They decode in this process.

A pass decodes the datagrams of the capture once, not their copies in the working set. At microseconds per
flow, caches do not matter, and the slowest library would need a minute per pass.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from flowbuf.bench import Datagram, Workload

Decode = Callable[[Datagram], int]
"""Decode a datagram and return its number of flows."""


@dataclass
class Library:
    """A contestant (flowbuf.bench.Contestant) that can be imported.

    `prepare` imports it and returns a decoder without state.
    """

    name: str
    does: str
    protocols: frozenset[str]
    prepare: Callable[[], Decode]

    def absent(self) -> str | None:
        found = importlib.util.find_spec(self.name)
        return None if found else f"not installed: pip install {self.name}"

    def version(self) -> str:
        return importlib.metadata.version(self.name)

    def takes(self, workload: Workload) -> bool:
        return workload.protocols <= self.protocols

    def open(self, workload: Workload) -> LibraryRun:
        return LibraryRun(self.prepare(), workload)


class LibraryRun:
    """A library that has decoded the templates (flowbuf.bench.Run).

    Raises ValueError if it cannot decode the data.
    """

    def __init__(self, decode: Decode, workload: Workload) -> None:
        self._decode = decode
        repetitions = workload.repetitions
        self._data = workload.data[: len(workload.data) // repetitions]
        self._flows = workload.flows / repetitions
        for datagram in workload.first:
            with suppress(Exception):  # data before its template may raise any exception
                decode(datagram)
        try:
            self.flows = sum(map(decode, self._data)) * repetitions
        except Exception as error:
            raise ValueError(f"cannot decode {workload.name}: {error!r}") from error

    def measure(self, seconds: float) -> float:
        passes, elapsed, start = 0, 0, time.thread_time_ns()
        while not passes or elapsed < seconds * 1e9:
            for datagram in self._data:
                self._decode(datagram)
            passes += 1
            elapsed = time.thread_time_ns() - start
        return elapsed / (passes * self._flows)

    def __enter__(self) -> LibraryRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


# Templates are stored by source address, because each exporter has its own.


def prepare_netflow() -> Decode:
    from netflow import parse_packet

    templates: dict[str, dict[str, Any]] = defaultdict(lambda: {"netflow": {}, "ipfix": {}})

    def decode(datagram: Datagram) -> int:
        return len(parse_packet(datagram.payload, templates[datagram.source[0]]).flows)

    return decode


def prepare_dpkt() -> Decode:
    from dpkt.netflow import Netflow5

    return lambda datagram: len(Netflow5(datagram.payload).data)


def prepare_scapy() -> Decode:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # raised by scapy's own modules
        from scapy.layers.netflow import (
            NetflowDataflowsetV9,
            NetflowHeader,
            NetflowHeaderV5,
            NetflowRecordV5,
            NetflowSession,
        )

    sessions: dict[str, NetflowSession] = defaultdict(NetflowSession)

    def decode(datagram: Datagram) -> int:
        session = sessions[datagram.source[0]]
        packet = session.process(NetflowHeader(datagram.payload))
        assert packet
        if NetflowHeaderV5 in packet:
            return sum(layer is NetflowRecordV5 for layer in packet.layers())
        flows, layer = 0, packet.getlayer(NetflowDataflowsetV9)
        while layer:
            if layer.templateID in session.definitions:
                flows += len(layer.records)
            layer = layer.payload.getlayer(NetflowDataflowsetV9)
        return flows

    return decode


NETFLOW = frozenset({"netflow5", "netflow9", "ipfix"})

LIBRARIES = (
    Library("netflow", "parse only, in Python", NETFLOW, prepare_netflow),
    Library("scapy", "dissect only, in Python", NETFLOW, prepare_scapy),
    Library("dpkt", "parse only, in Python", frozenset({"netflow5"}), prepare_dpkt),
)
