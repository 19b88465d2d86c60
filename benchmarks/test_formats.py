"""Measure size, time and allocations of the lab's formats, in turn, with the same records."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.lab import FAMILIES, FORMATS, Format
from benchmarks.lab.allocations import Allocations, cannot_count, count_allocations
from benchmarks.lab.timing import DIRECTIONS, Timing, measure
from benchmarks.record import read_clock, record, replay

SIZES = [(family.name, count) for family in FAMILIES.values() for count in family.batches]


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> tuple[Format, ...]:
    """Return the formats of this run. The option -k limits them."""
    wanted = {each.callspec.params["form"] for each in request.session.items if "form" in each.fixturenames}  # type: ignore[attr-defined]
    return tuple(form for form in FORMATS if form in wanted)


@cache
def measure_all(family: str, direction: str, count: int, formats: tuple[Format, ...]) -> dict[str, Timing]:
    """Measure all formats. The first of their tests triggers it."""
    return measure(FAMILIES[family], direction, count, formats)


@cache
def count_all(family: str, direction: str, count: int, formats: tuple[Format, ...]) -> dict[str, Allocations]:
    return {} if cannot_count() else count_allocations(FAMILIES[family], direction, count, formats)


@pytest.mark.benchmark(timer=read_clock)
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("family", "count"), SIZES)
def test_format(
    benchmark: Any, family: str, count: int, direction: str, form: Format, chosen: tuple[Format, ...]
) -> None:
    if reason := form.absent():
        pytest.skip(f"{form.name} is {reason}")
    timing = measure_all(family, direction, count, chosen)[form.name]
    replay(benchmark, [nanoseconds * count / 1e9 for nanoseconds in timing.samples])
    more: dict[str, Any] = {"version": form.version(), "bytes": round(timing.bytes, 2)}
    if allocated := count_all(family, direction, count, chosen).get(form.name):
        more |= {"allocations": allocated.calls, "peak_bytes": allocated.peak}
    record(benchmark, f"{family} {direction} {count}", form.name, count, **more)
