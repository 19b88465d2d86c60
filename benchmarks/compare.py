"""Two result files side by side, or the decoders of one: medians, ratios, and how sure they are.

    python -m benchmarks.compare OLD.json NEW.json
    python -m benchmarks.compare RESULT.json

A file is what `flowbuf bench --json` or `pytest benchmarks --benchmark-json=FILE` wrote. `±` is half the
interquartile range, as a share of the median; p is that of the Mann–Whitney test, two-sided, of all samples;
`~` stands for a ratio where it is 0.05 or more: then nothing is shown to differ.

The test knows only what varied within a run. A machine that was busier in one of two runs makes all of it
slower, and that is significant, too: compare what was measured in turns, or repeat both runs and see whether
they agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import mannwhitneyu

OWN = "flowbuf"
SIGNIFICANT = 0.05
EXACT_UP_TO = 30  # values of both samples together; beyond it, the normal approximation is accurate


class Series(NamedTuple):
    """What was timed, and its samples in nanoseconds (a flow; or a call, where there are no flows)."""

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
    if distinct == 1:
        return 1.0  # no rank differs, so the approximation would divide by zero
    exact = distinct == len(values) <= EXACT_UP_TO
    return float(mannwhitneyu(a, b, method="exact" if exact else "asymptotic").pvalue)


# Files ------------------------------------------------------------------------------------------------------


def read_series(path: Path) -> list[Series]:
    """Everything that was timed. Raises OSError, ValueError."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if isinstance(content, dict) and "datasets" in content:
        return list(read_bench(content))
    if isinstance(content, dict) and "benchmarks" in content:
        return list(read_pytest(content))
    raise ValueError(f"{path}: neither of flowbuf bench --json nor of pytest --benchmark-json")


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
    """A row for everything that is in both, and for what is in one of them."""
    before = {(series.dataset, series.what): series for series in old}
    after = {(series.dataset, series.what): series for series in new}
    rows = [["dataset", "what", "old", "new", "new/old", "p"]]
    for key in dict.fromkeys([*before, *after]):
        rows.append([*key, *compare(before.get(key), after.get(key))])
    return rows


def compare_contestants(all_series: Sequence[Series]) -> list[list[str]]:
    """A row for each decoder of a dataset, beside flowbuf's."""
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
    """Both, the ratio of the medians where the test says that they differ, and what it says."""
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
    """The first two columns begin on the left, figures end on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(align, row, widths, range(len(row)))).rstrip() for row in rows)


def align(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.json", help="or the only one")
    parser.add_argument("new", type=Path, metavar="NEW.json", nargs="?")
    given = parser.parse_args(arguments)
    try:
        old = read_series(given.old)
        rows = compare_files(old, read_series(given.new)) if given.new else compare_contestants(old)
    except (OSError, ValueError) as error:
        sys.exit(f"compare.py: {error}")
    print(format_rows(rows))


if __name__ == "__main__":
    main()
