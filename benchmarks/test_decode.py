"""Decoding from Python, in CPU time of the thread."""

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
    """One call for the whole working set."""
    run = Flowbuf().open(workload)
    benchmark.pedantic(run.decode, rounds=ROUNDS, warmup_rounds=1)
    record(benchmark, workload.name, "a batch", workload.flows)


@pytest.mark.parametrize("method", ["encode", "messages"])
def test_one_datagram_a_call(benchmark: Any, workload: Workload, method: str) -> None:
    """`decoder.encode(payload, source, received)` makes one bytes object of its flows, `decoder.messages` one
    each.
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
    record(benchmark, workload.name, f"{method}, a datagram a call", flows)
    benchmark.extra_info["ns_per_call"] = round(benchmark.extra_info.get("ns_per_flow", 0) * flows / CALLS, 1)


def take(workload: Workload, count: int) -> list[Datagram]:
    """So many datagrams of data."""
    return [workload.data[i % len(workload.data)] for i in range(count)]
