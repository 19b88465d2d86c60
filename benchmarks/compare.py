"""Compare two result files, or the decoders of one, by medians and ratios with their significance.

    python -m benchmarks.compare OLD.json NEW.json
    python -m benchmarks.compare RESULT.json

A result file is the output of `flowbuf bench --json` or `pytest benchmarks --benchmark-json=FILE`. `±` is
half the interquartile range as a share of the median. p is the two-sided p-value of the Mann-Whitney test of
all samples. If it is 0.05 or more, `~` replaces the ratio: the difference is not significant.

The test sees only the variation within a run. If the machine was busier in one of two runs, all its results
are slower, and the test reports a significant difference. Compare results that were measured in turn, or
repeat both runs and compare again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OWN = "flowbuf"
SIGNIFICANT = 0.05
EXACT_UP_TO = 30  # values of both samples together; beyond it, the normal approximation is accurate


class Series(NamedTuple):
    """Samples of one measurement, in nanoseconds per flow (or per call, if it has no flows)."""

    dataset: str
    what: str
    samples: list[float]


# The test ---------------------------------------------------------------------------------------------------


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test of two samples.

    It is exact for up to EXACT_UP_TO values without ties. Otherwise it uses the normal approximation,
    corrected for ties and continuity.
    """
    values = [*a, *b]
    distinct = len(set(values))
    from scipy.stats import mannwhitneyu  # takes a second, which modules that only read files do not need

    if distinct == 1:
        return 1.0  # no rank differs, so the approximation would divide by zero
    exact = distinct == len(values) <= EXACT_UP_TO
    return float(mannwhitneyu(a, b, method="exact" if exact else "asymptotic").pvalue)


# Files ------------------------------------------------------------------------------------------------------


def read_series(path: Path) -> list[Series]:
    """Return all measurements of a result file. Raises OSError, ValueError."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if isinstance(content, dict) and "datasets" in content:
        return list(read_bench(content))
    if isinstance(content, dict) and "benchmarks" in content:
        return list(read_pytest(content))
    raise ValueError(f"{path}: not a result of flowbuf bench --json or pytest --benchmark-json")


def read_bench(content: dict[str, Any]) -> Iterator[Series]:
    for name, dataset in content["datasets"].items():
        yield Series(name, OWN, dataset["samples"])
        for peer, details in dataset["peer_details"].items():
            yield Series(name, peer, details["samples"])


def read_pytest(content: dict[str, Any]) -> Iterator[Series]:
    for each in content["benchmarks"]:
        info = each["extra_info"]
        if "samples" in info:
            yield Series(info["dataset"], info["what"], info["samples"])
        else:
            yield Series("", each["name"], [seconds * 1e9 for seconds in each["stats"]["data"]])


# Tables -----------------------------------------------------------------------------------------------------


def compare_files(old: Sequence[Series], new: Sequence[Series]) -> list[list[str]]:
    """Return a row for each measurement of either file."""
    before = {(series.dataset, series.what): series for series in old}
    after = {(series.dataset, series.what): series for series in new}
    rows = [["dataset", "what", "old", "new", "new/old", "p"]]
    for key in dict.fromkeys([*before, *after]):
        rows.append([*key, *compare(before.get(key), after.get(key))])
    return rows


def compare_contestants(all_series: Sequence[Series]) -> list[list[str]]:
    """Return a row for each decoder of a dataset, compared with flowbuf."""
    rows = [["dataset", "what", "ns", OWN, f"what/{OWN}", "p"]]
    own = {series.dataset: series for series in all_series if series.what == OWN}
    for series in all_series:
        if series.what == OWN or series.dataset not in own:
            rows.append([series.dataset, series.what, summarize(series), "", "", ""])
        else:
            base, figure, ratio, p = compare(own[series.dataset], series)
            rows.append([series.dataset, series.what, figure, base, ratio, p])
    return rows


def compare(base: Series | None, other: Series | None) -> list[str]:
    """Return both medians, their ratio (or "~" if they do not differ significantly) and the p-value."""
    figures = [summarize(base), summarize(other)]
    if base is None or other is None:
        return [*figures, "", ""]
    p = mann_whitney(base.samples, other.samples)
    ratio = statistics.median(other.samples) / statistics.median(base.samples)
    counts = f"(n={len(base.samples)}+{len(other.samples)})"
    return [*figures, f"{ratio:.2f}×" if p < SIGNIFICANT else "~", f"p={p:.3f} {counts}"]


def summarize(series: Series | None) -> str:
    if series is None:
        return "–"
    median = statistics.median(series.samples)
    spread = 0.0
    if len(series.samples) > 1:
        lower, _, upper = statistics.quantiles(series.samples, n=4, method="inclusive")
        spread = (upper - lower) / 2
    return f"{median:,.1f} ±{spread / median:4.0%}"


def format_rows(rows: Sequence[Sequence[str]]) -> str:
    """Align the first two columns left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(align, row, widths, range(len(row)))).rstrip() for row in rows)


def align(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.json", help="first or only result")
    parser.add_argument("new", type=Path, metavar="NEW.json", nargs="?", help="result to compare with it")
    given = parser.parse_args(arguments)
    try:
        old = read_series(given.old)
        rows = compare_files(old, read_series(given.new)) if given.new else compare_contestants(old)
    except (OSError, ValueError) as error:
        sys.exit(f"compare.py: {error}")
    print(format_rows(rows))


if __name__ == "__main__":
    main()
