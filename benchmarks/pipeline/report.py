"""The results as tables for people and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.compare import format_rows
from benchmarks.machine import find_machine

from .run import Outcome, Plan

__all__ = ["make_report", "make_tables"]

HEAD = ["format", "", "octets", "records/s", "ns", "raw", "decoding", "in memory", "MiB", "pipeline ×", "in memory ×"]
OWN = "flowbuf"


def make_report(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything that was measured, and where."""
    asked = {"family": plan.family, "messages": plan.messages, "rounds": plan.rounds, "memory": plan.memory}
    return {"machine": find_machine(), **asked, "outcomes": [outcome.to_dict() for outcome in outcomes]}


def make_tables(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One for each packing. Ratios are times as much time as flowbuf's, or as the first format's where flowbuf is not
    among them."""
    for packed in dict.fromkeys(outcome.load.packed for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.load.packed is packed]
        measured = [outcome for outcome in chosen if outcome.failed is None]
        base = next((outcome for outcome in measured if outcome.load.format == OWN), measured[0] if measured else None)
        yield describe_packing(chosen[0])
        yield format_rows([HEAD, *(make_row(outcome, base) for outcome in measured)])
        for outcome in chosen:
            if outcome.failed is not None:
                yield f"{outcome.load.format}: failed: {outcome.failed}"
        if base:
            yield f"× as much time as {base.load.format}"


def describe_packing(outcome: Outcome) -> str:
    load = outcome.load
    how = "many records a Kafka message, 512 KiB" if load.packed else "one record a Kafka message"
    memory = "consumers in a cgroup" if outcome.cgroup else "no cgroup for consumers"
    return f"\n{load.messages:,} records of {load.family}, {how}, {memory}"


def make_row(outcome: Outcome, base: Outcome | None) -> list[str]:
    assert base
    total, raw, micro = map(statistics.median, (outcome.total, outcome.raw, outcome.micro))
    pipeline = total / statistics.median(base.total)
    memory = micro / statistics.median(base.micro)
    figures = [f"{outcome.octets:.1f}", f"{outcome.per_second:,.0f}", describe_samples(outcome.total), f"{raw:,.0f}"]
    figures += [f"{outcome.decoding:,.0f}", f"{micro:,.0f}", f"{outcome.peak / 2**20:,.0f}"]
    return [outcome.load.format, "", *figures, f"{pipeline:.2f}", f"{memory:.2f}"]


def describe_samples(samples: Sequence[float]) -> str:
    """The median, and half the range of all."""
    return f"{statistics.median(samples):,.0f} ±{(max(samples) - min(samples)) / 2:,.0f}"
