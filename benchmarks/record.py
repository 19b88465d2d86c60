"""What the suites have in common: how a result gets into pytest-benchmark's files.

A result has in `extra_info` its `dataset`, `what` was timed, `flows` (of a round), `ns_per_flow` (the
median), `spread` (the interquartile range) and `samples`, all nanoseconds a flow; `compare.py` reads them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

_now = 0.0


def read_clock() -> float:
    """Seconds on a clock that only `replay` moves: for what pytest-benchmark cannot time itself, because it
    runs elsewhere or in turns with others. Give it to a test by
    `@pytest.mark.benchmark(timer=read_clock)`.
    """
    return _now


def replay(benchmark: Any, seconds: Sequence[float]) -> None:
    """Makes these times, taken before, the rounds of a benchmark."""
    assert benchmark.disabled or benchmark._timer is read_clock
    times = iter(seconds)

    def advance() -> None:
        global _now
        _now += next(times)

    benchmark.pedantic(advance, rounds=len(seconds))


def record(benchmark: Any, dataset: str, what: str, flows: int, **more: Any) -> None:
    """Says what the rounds of a benchmark were, each of so many flows."""
    benchmark.extra_info.update(dataset=dataset, what=what, flows=flows, **more)
    if benchmark.disabled:
        return
    samples = [seconds * 1e9 / flows for seconds in benchmark.stats.stats.data]
    lower, median, upper = (
        statistics.quantiles(samples, n=4, method="inclusive") if samples[1:] else samples * 3
    )
    benchmark.extra_info.update(
        ns_per_flow=round(median, 2),
        spread=round(upper - lower, 2),
        samples=[round(sample, 3) for sample in samples],
    )
