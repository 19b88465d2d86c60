"""The benchmark scripts run and print all documented results. The measured values are not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def run(script: str, *options: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{script}", *options]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_bench_capture(tmp_path: Path) -> None:
    options = ("--flows", "1000", "--runs", "2", "--stages", "--folder", str(tmp_path))
    result: dict[str, Any] = json.loads(run("bench_capture", *options, "--json"))
    assert result["flows"] == 1000
    assert result["bytes_read"] > 1000 < result["bytes_written"]
    assert {"flowbuf", "read and write alone"} <= result["runs"].keys()
    for times in result["runs"].values():
        assert len(times["wall"]) == len(times["cpu"]) == 2
        assert min(times["wall"]) > 0
    assert set(result["stages"]) == {"start and end", "read", "find datagrams", "decode", "write"}
    assert min(result["stages"].values()) > 0
    assert not list(tmp_path.iterdir()), "temporary files remain"
    table = run("bench_capture", *options)
    assert all(name in table for name in (*result["runs"], *result["stages"]))


@pytest.mark.parametrize("protocol", ["netflow5", "sflow"])
def test_bench_threads(protocol: str) -> None:
    result = json.loads(
        run("bench_threads", "--protocol", protocol, "--runs", "2", "--passes", "1", "--json")
    )
    assert len(result["runs"]) == 2
    for found in result["runs"]:
        assert found.keys() == {"speedup", "cpu_per_wall", "more_cpu", "share"}
        assert min(found.values()) > 0
