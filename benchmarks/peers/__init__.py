"""The peers that flowbuf is compared with. Each is a contestant (flowbuf.bench.Contestant).

README.md describes the timed work. The package can be imported without any peer: `absent()` of a peer returns
how to install it.
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
    """A figure that was measured elsewhere. It must never be shown as a measurement of this machine."""

    name: str
    version: str
    does: str
    dataset: str
    ns_per_flow: int
    source: str
    noted: str
    """Month in which the figure was noted."""


def quote_akvorado(version: str, **nanoseconds: int) -> tuple[Quotation, ...]:
    """Return figures of Akvorado's decoder and encoder: a Go benchmark, one core, CPU time, within 10 %."""
    return tuple(
        Quotation(
            "akvorado",
            version,
            "decode + Protobuf",
            dataset.replace("_", "-"),
            value,
            "a Go benchmark on another machine",
            "2026-11",
        )
        for dataset, value in nanoseconds.items()
    )


QUOTED = quote_akvorado("1.7.1", netflow9_data=1610, sflow_1140=1260) + quote_akvorado(
    "2026.8", netflow9_data=1950, sflow_1140=1420, netflow5_29_records=620
)
"""Akvorado is not built here. `dynamic-append` is the substitute that is measured."""
