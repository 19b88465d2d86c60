"""Measure decoding from Python, in CPU time of the thread."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.record import record
from flowbuf import Decoder
from flowbuf.bench import Datagram, Flowbuf, Workload

pytestmark = pytest.mark.benchmark(timer=time.thread_time)

ROUNDS = 25
CALLS = 1000


def test_batch(benchmark: Any, workload: Workload) -> None:
    """Decode the whole working set in one call."""
    run = Flowbuf().open(workload)
    benchmark.pedantic(run.decode, rounds=ROUNDS, warmup_rounds=1)
    record(benchmark, workload.name, "a batch", workload.flows)


@pytest.mark.parametrize("method", ["encode", "messages"])
def test_one_datagram_per_call(benchmark: Any, workload: Workload, method: str) -> None:
    """Decode one datagram per call.

    `decoder.encode(payload, source, received)` returns one bytes object with all flows, `decoder.messages`
    one per flow.
    """
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    call = getattr(decoder, method)
    calls = take(workload, CALLS)

    def decode() -> None:
        for payload, source, received in calls:
            call(payload, source, received)

    before = decoder.flows
    decode()
    flows = decoder.flows - before
    benchmark.pedantic(decode, rounds=ROUNDS)
    record(benchmark, workload.name, f"{method}, one datagram per call", flows)
    benchmark.extra_info["ns_per_call"] = round(benchmark.extra_info.get("ns_per_flow", 0) * flows / CALLS, 1)


def take(workload: Workload, count: int) -> list[Datagram]:
    """Return `count` datagrams with data, repeated if there are fewer."""
    return [workload.data[i % len(workload.data)] for i in range(count)]
