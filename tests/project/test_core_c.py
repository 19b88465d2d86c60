"""Run the C core's own tests, sanitizers and fuzz drivers (ext/Makefile) with pytest."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.support.core_build import EXT, find_compiler, make


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the test if the compiler has no sanitizer libraries."""
    folder = tmp_path_factory.mktemp("sanitizers")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [*find_compiler(), "-fsanitize=address,undefined", "empty.c", "-o", "empty"]
    if subprocess.run(command, cwd=folder, capture_output=True).returncode:
        pytest.skip("no compiler with sanitizers is installed")


def test_core_tests_pass_with_assertions() -> None:
    output = make("test")
    programs = sorted(path.stem for path in (EXT / "tests").glob("*/test_*.c"))
    assert (
        sorted(line.removeprefix("== ") for line in output.splitlines() if line.startswith("== ")) == programs
    )
    assert output.count(", 0 failed checks") == len(programs)


@pytest.mark.expensive
@pytest.mark.usefixtures("sanitizers")
def test_core_tests_pass_under_sanitizers() -> None:
    assert "== test_hostile" in make("sanitize")


@pytest.mark.expensive
@pytest.mark.usefixtures("sanitizers")
def test_fuzz_drivers_find_nothing_in_three_seconds() -> None:
    output = make("fuzz", "FUZZ_SECONDS=3")
    for driver in ("decode", "capture", "message", "arrow", "codec", "json"):
        assert f"fuzz_{driver}: " in output


@pytest.mark.slow
def test_the_benchmark_runs_and_allocates_nothing() -> None:
    output = make("bench", "BENCH_FLAGS=--json --repetitions 1", "CAPTURES=")
    results = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert {result["capture"] for result in results} == {
        f"generated {protocol}"
        for protocol in ("netflow1", "netflow5", "netflow7", "netflow9", "ipfix", "sflow", "mixed")
    }
    for result in results:
        assert result["flows"] > 1000
        assert result["ns_per_flow"] > 0
        assert result["allocations"] == 0


@pytest.mark.expensive
def test_core_tests_pass_under_valgrind() -> None:
    """Valgrind also detects uses of uninitialised bytes, which the sanitizers do not."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    assert "== test_hostile" in make("valgrind")


@pytest.mark.expensive
def test_core_tests_pass_on_other_processors() -> None:
    """The processors include 32-bit and big-endian ones."""
    needed = ["aarch64-linux-gnu-gcc", "i686-linux-gnu-gcc", "s390x-linux-gnu-gcc"]
    needed += ["qemu-aarch64", "qemu-i386", "qemu-s390x"]
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed (.ci/packages lists their packages): {', '.join(missing)}")
    output = make("cross")
    programs = len(list((EXT / "tests").glob("*/test_*.c")))
    assert output.count("== test_") == output.count(", 0 failed checks") == 3 * programs
