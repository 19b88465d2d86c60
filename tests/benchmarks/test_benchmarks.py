"""The suites of benchmarks/ run in the environment of the tests, and their results can be compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import read_series
from tests.support.command import environment_without_xdist

pytestmark = pytest.mark.expensive

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Run pytest on benchmarks/ with datasets of the repository, without peers and the C benchmark."""
    chosen = "(ipfix-variable or two_threads or client_message-1-encode) and not contestant and not test_core"
    command = [sys.executable, "-m", "pytest", "benchmarks", "-k", chosen]
    environment = environment_without_xdist()
    environment.pop("FLOWBUF_CORPUS", None)
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.json"
    run("--benchmark-only", f"--benchmark-json={path}")
    return path


def test_every_result_has_its_description(results: Path) -> None:
    found: list[dict[str, Any]] = json.loads(results.read_text())["benchmarks"]
    assert len(found) > 4
    for each in found:
        info, times = each["extra_info"], each["stats"]["data"]
        assert {"dataset", "what", "flows", "ns_per_flow", "spread"} <= info.keys()
        assert info["samples"] == pytest.approx(
            [seconds * 1e9 / info["flows"] for seconds in times], abs=0.001
        )


def test_dataset_and_work_identify_a_result(results: Path) -> None:
    series = read_series(results)
    assert len({(each.dataset, each.what) for each in series}) == len(series) > 4


def test_the_suites_run_without_timing() -> None:
    assert " passed" in run("--benchmark-disable")


def test_a_peer_that_cannot_decode_a_dataset_is_reported() -> None:
    """The peer has no result, and the run does not fail."""
    pytest.importorskip("netflow")
    chosen = "test_contestant and ipfix-variable and (ipfix-variable-netflow or ipfix-variable-flowbuf)"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "benchmarks/test_contestants.py",
        "-k",
        chosen,
        "--benchmark-only",
    ]
    environment = environment_without_xdist()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    _, _, after = done.stdout.partition("peers without a result")
    assert "netflow has no result: cannot decode ipfix-variable: " in after
    assert "test_contestant[ipfix-variable-flowbuf]" in after
    assert "test_contestant[ipfix-variable-netflow]" not in after
