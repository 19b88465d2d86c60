"""Measurements of the lab: times in turn, allocations of Python and libraries, and sources of the speed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lab import FAMILIES, FORMATS, Format, select_formats
from benchmarks.lab.allocations import cannot_count, count_allocations, run_counted
from benchmarks.lab.split import Factor, split_speed
from benchmarks.lab.timing import make_pass, measure
from tests.support.command import environment_without_xdist

ROOT = Path(__file__).parents[2]
MESSAGES = FAMILIES["client_message"]
counted = pytest.mark.skipif(cannot_count() is not None, reason=str(cannot_count()))


def select(names: str) -> list[Format]:
    """Return formats by name. Skip the test if one is absent."""
    chosen = select_formats(names)
    for form in chosen:
        if reason := form.absent():
            pytest.skip(f"{form.name} is {reason}")
    return chosen


# Times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "more"), [(1, 0), (10, 4 / 10), (1000, 4 / 1000)])
def test_a_pass_covers_the_distinct_records(count: int, more: float) -> None:
    """A batch of `struct` has a count of four bytes in addition to its records."""
    (form,) = select_formats("struct")
    coder = form.open(MESSAGES)
    run, records, size = make_pass(coder, MESSAGES, "encode", count)
    run()
    assert records == {1: 256, 10: 250, 1000: 1000}[count]
    alone = [len(coder.encode(coder.prepare(record))) for record in MESSAGES.rotate(records)]
    assert size == pytest.approx(sum(alone) / records + more)


@pytest.mark.parametrize("direction", ["encode", "decode"])
def test_every_format_has_a_sample_for_each_round(direction: str) -> None:
    timings = measure(MESSAGES, direction, 10, select_formats("json,pickle,struct"), rounds=3, seconds=0.001)
    assert list(timings) == ["json", "pickle", "struct"]
    for timing in timings.values():
        assert len(timing.samples) == 3
        assert 10 < timing.median < 1e6


def test_formats_that_are_absent_are_left_out() -> None:
    missing = Format(
        **{**vars(select_formats("json")[0]), "name": "morse", "needs": (("morse_code", "morse-code"),)}
    )
    assert missing.absent() == "not installed: pip install morse-code"
    assert measure(MESSAGES, "encode", 1, [missing], rounds=1, seconds=0) == {}


# Allocations ------------------------------------------------------------------------------------------------


@counted
def test_all_blocks_and_the_peak_memory_are_counted() -> None:
    script = "from benchmarks.lab.allocations import count_here; "
    script += "print(count_here(lambda: [bytes(100_000) for _ in range(10)]))"
    calls, peak = json.loads(run_counted(["-c", script]).replace(b"(", b"[").replace(b")", b"]"))
    assert 11 <= calls <= 20
    assert 1_000_000 < peak < 1_010_000


@counted
def test_allocations_of_libraries_count_like_those_of_python() -> None:
    """A decoded message needs at least three allocations: a dict and two strings.

    upb allocates memory outside Python's objects.
    """
    formats = select("protobuf-upb,msgspec-msgpack,struct")
    found = count_allocations(MESSAGES, "decode", 1, formats)
    assert 3 <= found["msgspec-msgpack"].calls < 4 < found["protobuf-upb"].calls
    batch = count_allocations(MESSAGES, "encode", 1000, formats)
    assert batch["msgspec-msgpack"].calls < 0.1 < 1 < batch["struct"].calls
    assert batch["msgspec-msgpack"].peak > 80_000 > 1000 > found["msgspec-msgpack"].peak


# Sources of the speed ---------------------------------------------------------------------------------------

LADDER = ("msgspec-json", "msgspec-msgpack", "msgspec-msgpack-array")


def test_the_whole_gain_is_the_product_of_the_factors() -> None:
    times = dict(zip(LADDER, ([80.0, 160.0, 80.0], [40.0, 80.0, 40.0], [10.0, 20.0, 10.0]), strict=True))
    (split,) = split_speed({**times, "flowbuf": [5.0, 10.0, 5.0]})
    assert split.ladder[:3] == LADDER
    assert split.binary == Factor(2, 0)
    assert split.keyless == Factor(4, 0)
    assert split.whole == Factor(8, 0)
    assert split.rest == Factor(2, 0)
    assert split.binary_share == pytest.approx(1 / 3)
    assert split.keyless_share == pytest.approx(2 / 3)


def test_ratios_are_computed_within_rounds() -> None:
    """A slow round of the machine is slow for all formats."""
    times = {LADDER[0]: [20.0, 200.0, 22.0], LADDER[1]: [10.0, 100.0, 10.0], LADDER[2]: [10.0, 100.0, 10.0]}
    (split,) = split_speed(times)
    assert split.binary == Factor(2.0, pytest.approx(0.05))
    assert split.rest is None


def test_shares_need_a_whole_gain_above_one() -> None:
    (split,) = split_speed({LADDER[0]: [10.0], LADDER[1]: [5.0], LADDER[2]: [10.0]})
    assert (split.binary.ratio, split.keyless.ratio) == (2, 0.5)
    assert split.binary_share is split.keyless_share is None


def test_incomplete_ladders_are_left_out() -> None:
    assert split_speed({name: [1.0] for name in LADDER[:2]}) == []


def test_ladders_differ_in_one_respect_at_a_time() -> None:
    forms = {form.name: form for form in FORMATS}
    every = split_speed({name: [1.0] for name in forms})
    assert len(every) >= 5
    for text, keyed, positional, pure in (split.ladder for split in every):
        assert [(forms[name].text, forms[name].keyed) for name in (text, keyed, positional)] == [
            *((True, True), (False, True), (False, False))
        ]
        assert forms[keyed].library == forms[positional].library
        assert pure == bool(forms[text].library), "Python's json has no binary form"


@pytest.mark.slow
def test_results_of_a_run_are_split(tmp_path: Path) -> None:
    """The input is a file of pytest-benchmark."""
    if importlib.util.find_spec("msgspec") is None:
        pytest.skip("msgspec is not installed: pip install msgspec")
    result = tmp_path / "result.json"
    run = [sys.executable, "-m", "pytest", "benchmarks/test_formats.py", "--benchmark-only", "-q"]
    chosen = ["-k", "client_message-1-encode and msgspec", f"--benchmark-json={result}"]
    environment = environment_without_xdist()
    subprocess.run([*run, *chosen], cwd=ROOT, env=environment, check=True, capture_output=True)
    command = [sys.executable, "-m", "benchmarks.lab.split", str(result)]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0] == "client_message encode 1"
    assert lines[1].startswith(f"  {' > '.join(LADDER)}: binary ")
    assert len(lines) == 3
    refused = subprocess.run(
        [*command[:-1], str(ROOT / "pyproject.toml")], cwd=ROOT, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"split: {ROOT / 'pyproject.toml'}: ")
