"""Decoding from Python: `pytest benchmarks --benchmark-only`. Figures are nanoseconds a flow, on one core."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import NAMES, Dataset, load


@pytest.fixture(params=NAMES)
def dataset(request: pytest.FixtureRequest) -> Dataset:
    found = load(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not on this machine")
    return found


def report(benchmark: Any, name: str, flows: int, calls: int = 1) -> None:
    """The median and the spread (interquartile range), by flow and by call."""
    stats = benchmark.stats.stats
    benchmark.extra_info.update(
        dataset=name,
        flows=flows,
        ns_per_flow=round(stats.median / flows * 1e9, 1),
        ns_per_flow_iqr=round(stats.iqr / flows * 1e9, 1),
        ns_per_call=round(stats.median / calls * 1e9, 1),
    )


def test_batch(benchmark: Any, dataset: Dataset) -> None:
    """One call for the whole working set."""
    decoder, batch = dataset.prepare()
    before = decoder.flows
    decoder.encode_datagrams(batch)
    flows = decoder.flows - before
    benchmark(decoder.encode_datagrams, batch)
    report(benchmark, dataset.name, flows)


def test_one_datagram_a_call(benchmark: Any, dataset: Dataset) -> None:
    """`decoder.encode(payload, source, received)`, a datagram at a time."""
    decoder, _ = dataset.prepare()
    before = decoder.flows
    calls = [dataset.data[i % len(dataset.data)] for i in range(1000)]

    def encode() -> None:
        for payload, source, time in calls:
            decoder.encode(payload, source, time)

    encode()
    flows = decoder.flows - before
    benchmark(encode)
    report(benchmark, dataset.name, flows, len(calls))
