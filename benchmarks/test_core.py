"""Measure the core alone with the C benchmark (ext/bench/bench.c), which also counts allocations."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import CAPTURES
from benchmarks.record import read_clock, record, replay
from flowbuf.bench import Workload

EXT = Path(__file__).parent.parent / "ext"
ROUNDS = 9


@cache
def bench_core() -> dict[str, list[dict[str, Any]]]:
    """Return the results of each dataset, one per round."""
    captures = [str(path.resolve()) for path in CAPTURES.values() if path.exists()]
    results = defaultdict(list)
    for _ in range(ROUNDS):
        for result in [*run_core(captures), *run_core([])]:  # without captures, it generates some
            results[result["capture"].removesuffix(".pcap").replace("generated ", "generated-")].append(
                result
            )
    return results


def run_core(captures: list[str]) -> Iterator[dict[str, Any]]:
    """Return one sample of each capture. Fails if decoding allocated memory."""
    command = [
        "make",
        "-s",
        "-C",
        str(EXT),
        "bench",
        f"PYTHON={sys.executable}",
        "BENCH_FLAGS=--json --repetitions 1",
    ]
    done = subprocess.run([*command, f"CAPTURES={' '.join(captures)}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.benchmark(timer=read_clock)
def test_core(benchmark: Any, workload: Workload) -> None:
    results = bench_core()[workload.name]
    flows, allocations = results[0]["flows"], sum(result["allocations"] for result in results)
    assert allocations == 0
    replay(benchmark, [result["ns_per_flow"] * flows / 1e9 for result in results])
    record(benchmark, workload.name, "the core alone", flows, allocations=allocations)
