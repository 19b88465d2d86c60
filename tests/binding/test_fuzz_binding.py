"""The fuzz driver of the binding runs each family briefly, and reports known faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.binding import fuzz_binding
from tests.binding.fuzz_families import FAMILIES

pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
ROOT = Path(__file__).parents[2]


def run_driver(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the driver in its own process, without the corpus."""
    environment = {**os.environ, "FLOWBUF_CORPUS": ""}
    command = [sys.executable, "-m", "tests.binding.fuzz_binding", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=1800, env=environment, cwd=ROOT
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_short_run_of_each_family_finds_nothing(family: str, tmp_path: Path) -> None:
    fast = os.environ.get("HYPOTHESIS_PROFILE") == "fast"
    seconds = os.environ.get("FUZZ_SECONDS", "0.3" if fast else "1")
    result = run_driver("--family", family, "--seconds", seconds, "--seed", "7", "--findings", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "seed 7" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_seed_determines_the_cases() -> None:
    for family in ("state", "messages"):
        first, second, other = (fuzz_binding.make_cases(family, seed) for seed in (1, 1, 2))
        cases = [next(first) for _ in range(1500)]
        assert cases == [next(second) for _ in range(1500)]
        assert cases != [next(other) for _ in range(1500)]


FAMILY = """
import os, random, signal
from typing import NamedTuple
class Family(NamedTuple):
    seeds: object
    run: object
def run(parts, rng):
    if parts == [b"third"] and not os.environ.get("MENDED"):
        {fault}
FAMILIES = {{"broken": Family(lambda: [[b"first"], [b"second"], [b"third"]], run)}}
"""
FAULTS = {
    "exception": ("raise KeyError('missing')", "raised an exception"),
    "crash": ("os.abort()", f"died with {-signal.SIGABRT}"),  # sanitizers catch the signals of other crashes
    "hang": ("os.kill(os.getpid(), signal.SIGPROF)", "took longer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_finding_is_stored_and_can_be_run_again(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running case is stored regardless of the way the process ends."""
    statement, report = FAULTS[fault]
    findings = tmp_path / "findings"
    monkeypatch.setenv("FUZZ_FAMILIES", "broken_families")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "broken_families.py").write_text(FAMILY.format(fault=statement))
    for number in range(2):
        result = run_driver("--findings", str(findings), "--seed", "3")
        assert result.returncode == 1
        assert f"broken: FINDING: seed 3: the case {report}" in result.stderr
        case = findings / f"broken-3-{number}.case"
        assert json.loads(case.read_bytes())["parts"] == [b"third".hex()]
    assert len(list(findings.iterdir())) == 2
    assert run_driver("--case", str(case)).returncode != 0
    monkeypatch.setenv("MENDED", "1")
    assert run_driver("--case", str(case)).returncode == 0


def test_an_unknown_family_is_reported() -> None:
    result = run_driver("--family", "packets")
    assert result.returncode == 2
    assert "no family packets; there are datagrams, " in result.stderr
