"""What flowbuf is measured beside: each peer is a contestant (flowbuf.bench.Contestant). README.md says what
is timed.

This can be imported with no peer installed: `absent()` says of each what it takes to have it.
"""

from __future__ import annotations

from typing import NamedTuple

from flowbuf.bench import Contestant

from .harness import HARNESSES
from .libraries import LIBRARIES
from .programs import PROGRAMS

__all__ = ["PEERS", "QUOTED", "Quotation"]

PEERS: tuple[Contestant, ...] = (*HARNESSES, *LIBRARIES, *PROGRAMS)


class Quotation(NamedTuple):
    """A figure that was measured elsewhere, at another time: never to be shown as one that was measured here."""

    name: str
    version: str
    does: str
    dataset: str
    ns_per_flow: int
    source: str
    noted: str
    """The month."""


def quote_akvorado(version: str, **nanoseconds: int) -> tuple[Quotation, ...]:
    """The decoder and the encoder of Akvorado's inlet, as a Go benchmark, one core, CPU time; within 10 %."""
    return tuple(
        Quotation(
            "akvorado",
            version,
            "decode + Protobuf",
            dataset.replace("_", "-"),
            value,
            "a Go benchmark on the machine that flowbuf was begun on",
            "2026-11",
        )
        for dataset, value in nanoseconds.items()
    )


QUOTED = quote_akvorado("1.7.1", netflow9_data=1610, sflow_1140=1260) + quote_akvorado(
    "2026.8", netflow9_data=1950, sflow_1140=1420, netflow5_29_records=620
)
"""Akvorado is not built here: `dynamic-append` stands in for it, and is measured."""
