"""Record results of the suites in the files of pytest-benchmark.

`extra_info` of a result has `dataset`, `what` (the timed work) and `flows` (of a round). In nanoseconds per
flow, it has `ns_per_flow` (the median), `spread` (the interquartile range) and `samples`. `compare.py` reads
them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

_now = 0.0


def read_clock() -> float:
    """Return the seconds of a clock that only `replay` advances.

    Use it with `@pytest.mark.benchmark(timer=read_clock)` for times that pytest-benchmark cannot measure:
    of work in other processes, or of contestants that run in turn.
    """
    return _now


def replay(benchmark: Any, seconds: Sequence[float]) -> None:
    """Use times that were measured before as the rounds of a benchmark."""
    assert benchmark.disabled or benchmark._timer is read_clock
    times = iter(seconds)

    def advance() -> None:
        global _now
        _now += next(times)

    benchmark.pedantic(advance, rounds=len(seconds))


def record(benchmark: Any, dataset: str, what: str, flows: int, **more: Any) -> None:
    """Add dataset, timed work, flows per round and the statistics to the result of a benchmark."""
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
