"""Measure flowbuf and its peers in turn, with the same payloads in the same run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import load
from benchmarks.record import read_clock, record, replay
from flowbuf.bench import Contestant, Flowbuf, Measurement, Workload, import_peers, measure

PEERS = import_peers(Path(__file__).parent)
CONTESTANTS: list[Contestant] = [Flowbuf(), *(PEERS.PEERS if PEERS else [])]
ROUNDS = 7


@cache
def measure_all(name: str) -> Measurement:
    """Measure all contestants with one dataset. The first test of the dataset triggers it."""
    workload = load(name)
    assert workload
    return measure(workload, [each for each in CONTESTANTS if each.absent() is None], ROUNDS)


@pytest.mark.benchmark(timer=read_clock)
@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_contestant(benchmark: Any, workload: Workload, contestant: Contestant) -> None:
    reason = contestant.absent()
    if reason is not None:
        pytest.skip(f"{contestant.name} is absent: {reason}")
    if not contestant.takes(workload):
        pytest.skip(f"{contestant.name} does not decode {', '.join(sorted(workload.protocols))}")
    measurement = measure_all(workload.name)
    reason = measurement.failed.get(contestant.name)
    if reason is not None:
        report = pytest.fail if isinstance(contestant, Flowbuf) else pytest.skip
        report(f"{contestant.name} has no result: {reason}")
    result = measurement.results[contestant.name]
    replay(benchmark, [nanoseconds * workload.flows / 1e9 for nanoseconds in result.samples])
    record(benchmark, workload.name, result.name, workload.flows, version=result.version, finds=result.flows)
