"""Measure the memory of a decoder, of a call, and of a process that encodes a capture."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import read_clock, record, replay
from flowbuf import _core
from flowbuf.bench import Flowbuf, Workload

STATUS = Path("/proc/self/status")


@pytest.mark.benchmark(timer=time.thread_time)
def test_memory_of_the_core_does_not_grow_with_flows(benchmark: Any, workload: Workload) -> None:
    """The core keeps exporters, templates and scratch memory. Python allocates only the output."""
    run = Flowbuf().open(workload)
    held = run.decoder.memory_used
    benchmark.pedantic(run.decode, rounds=10)
    assert run.decoder.memory_used == held
    record(benchmark, workload.name, "memory of a batch", workload.flows, core_bytes=held)
    benchmark.extra_info["python_bytes_per_flow"] = round(trace_peak(run.decode) / workload.flows, 1)


def trace_peak(call: Any) -> int:
    """Return the peak memory of Python during a call, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ENCODE = """
import json, re, sys, time, flowbuf
def peak(): return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024
before = peak()
result = flowbuf.encode_capture(sys.argv[1], sys.argv[2])
print(json.dumps({"flows": result.flows, "cpu": time.process_time(), "before": before, "peak": peak()}))
"""


@pytest.mark.skipif(not STATUS.exists(), reason="the peak memory of a process is available on Linux only")
@pytest.mark.benchmark(timer=read_clock)
@pytest.mark.parametrize("flows", [50_000, 500_000])
def test_peak_of_a_process(benchmark: Any, tmp_path: Path, flows: int) -> None:
    """Run `flowbuf.encode_capture` in a separate process, including its start."""
    capture = tmp_path / "capture.pcap"
    with capture.open("wb") as file:
        file.writelines(_core.generate(protocol="ipfix", flows=flows, exporters=4))
    command = [sys.executable, "-c", ENCODE, str(capture), str(tmp_path / "flows.pb")]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    replay(benchmark, [run["cpu"] for run in runs])
    peak, before = max(run["peak"] for run in runs), max(run["before"] for run in runs)
    record(benchmark, "generated-ipfix", f"a capture of {flows:,} flows", runs[0]["flows"], peak_bytes=peak)
    benchmark.extra_info["peak_bytes_before"] = before
