"""Format results as tables and as JSON. The command prints the table of benchmarks/lab/README.md:

python -m benchmarks.pipeline.report RESULT.json
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.compare import format_rows
from benchmarks.lab.split import compare_rounds
from benchmarks.lab.tables import write_head, write_row
from benchmarks.machine import find_machine
from benchmarks.results import print_result

from .run import Outcome, Plan

__all__ = ["make_report", "make_tables", "tabulate"]

HEAD = [
    "format",
    "",
    "bytes",
    "records/s",
    "ns",
    "raw",
    "decoding",
    "in memory",
    "MiB",
    "pipeline ×",
    "in memory ×",
]
OWN = "flowbuf"


def make_report(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return all measurements and a description of the machine."""
    asked = {"family": plan.family, "messages": plan.messages, "rounds": plan.rounds, "memory": plan.memory}
    return {"machine": find_machine(), **asked, "outcomes": [outcome.to_dict() for outcome in outcomes]}


def make_tables(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a table for each packing.

    Ratios are times relative to flowbuf, or to the first format if flowbuf was not measured.
    """
    for packed in dict.fromkeys(outcome.load.packed for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.load.packed is packed]
        measured = [outcome for outcome in chosen if outcome.failed is None]
        base = next(
            (outcome for outcome in measured if outcome.load.format == OWN), measured[0] if measured else None
        )
        yield describe_packing(chosen[0])
        yield format_rows([HEAD, *(make_row(outcome, base) for outcome in measured)])
        for outcome in chosen:
            if outcome.failed is not None:
                yield f"{outcome.load.format}: failed: {outcome.failed}"
        if base:
            yield f"×: time relative to {base.load.format}"


def describe_packing(outcome: Outcome) -> str:
    load = outcome.load
    how = "many records per Kafka message, 512 KiB" if load.packed else "one record per Kafka message"
    memory = "consumers in a cgroup" if outcome.cgroup else "no cgroup for consumers"
    return f"\n{load.messages:,} records of {load.family}, {how}, {memory}"


def make_row(outcome: Outcome, base: Outcome | None) -> list[str]:
    assert base
    total, raw, micro = map(statistics.median, (outcome.total, outcome.raw, outcome.micro))
    pipeline = total / statistics.median(base.total)
    memory = micro / statistics.median(base.micro)
    figures = [
        f"{outcome.bytes:.1f}",
        f"{outcome.per_second:,.0f}",
        describe_samples(outcome.total),
        f"{raw:,.0f}",
    ]
    figures += [f"{outcome.decoding:,.0f}", f"{micro:,.0f}", f"{outcome.peak / 2**20:,.0f}"]
    return [outcome.load.format, "", *figures, f"{pipeline:.2f}", f"{memory:.2f}"]


def describe_samples(samples: Sequence[float]) -> str:
    """Return the median and half the range."""
    return f"{statistics.median(samples):,.0f} ±{(max(samples) - min(samples)) / 2:,.0f}"


# Of a result in JSON ----------------------------------------------------------------------------------------

Packing = Mapping[str, Mapping[str, Any]]
"""Outcomes by format."""


def tabulate(content: Any) -> Iterator[str]:
    """Yield a table in Markdown with a row for each format and columns for both packings.

    Raises ValueError if `content` is not a result, or if it lacks OWN.
    """
    if not isinstance(content, dict) or "outcomes" not in content:
        raise ValueError("not a result of python -m benchmarks.pipeline --json")
    measured = [each for each in content["outcomes"] if each["failed"] is None]
    single, many = (
        {each["format"]: each for each in measured if each["packed"] is packed} for packed in (False, True)
    )
    if OWN not in single or OWN not in many:
        raise ValueError(f"{OWN} was not measured in both packings")
    figures = ("ns", "raw", "×")
    yield from write_head(
        "format", "one per message, records/s", *figures, "512 KiB per message, records/s", *figures
    )
    for name in (name for name in single if name in many):
        yield write_row(f"`{name}`", *write_outcome(single, name), *write_outcome(many, name))


def write_outcome(packing: Packing, name: str) -> Iterator[str]:
    """Yield records per second, wall time with and without decoding, and two ratios to OWN.

    The ratios are the CPU time within rounds, and the time of decoding in memory.
    """
    each, own = packing[name], packing[OWN]
    yield f"{each['records_per_second']:,}"
    yield describe_samples(each["total"]).replace("±", "± ")
    yield f"{statistics.median(each['raw']):,.0f}"
    behind = compare_rounds(each["cpu"], own["cpu"]).ratio
    yield f"{behind:.1f}, {statistics.median(each['micro']) / statistics.median(own['micro']):.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    print_result("report", __doc__, tabulate, arguments)


if __name__ == "__main__":
    main()
