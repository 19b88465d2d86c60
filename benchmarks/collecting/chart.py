"""The chart of benchmarks/collector.py: overhead, comparison with other collectors, and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.machine import describe_machine
from notebooks import charts

from .report import OVERHEAD_LIMIT, is_measured

__all__ = ["draw_chart"]

Part = Mapping[str, Any]


def draw_chart(results: Mapping[str, Part], path: Path) -> None:
    """Draw a panel for each measured part that has one, and write the chart as SVG.

    Without such a part, no file is written.
    """
    shown = [name for name in PANELS if name in results and is_measured(results[name])]
    if not shown:
        return
    charts.use_style()
    plt.rcParams["svg.hashsalt"] = "flowbuf"  # equal results give equal files
    figure, panels = plt.subplots(len(shown), 1, figsize=(9, 3.2 * len(shown) + 0.6), squeeze=False)
    for axes, name in zip(panels[:, 0], shown, strict=True):
        PANELS[name](axes, results[name])
    rounds = "quick, no meaning" if any(results[name]["quick"] for name in shown) else "see the report"
    machines = dict.fromkeys(describe_machine(results[name]["machine"]) for name in shown)
    spread = "half the interquartile range of the ratios within rounds"
    charts.caption(figure, data="see each row", n=rounds, spread=spread, machine="; ".join(machines))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_overhead(axes: Axes, part: Part) -> None:
    names = [each["dataset"] for each in part["datasets"]]
    ratios = [each["ratio"] for each in part["datasets"]]
    medians, spreads = ([each[key] for each in ratios] for key in ("median", "spread"))
    charts.draw_bars(axes, names, medians, spreads, unit="× bare loop plus decoding", digits=2)
    axes.axvline(OVERHEAD_LIMIT, color=charts.VERMILION, linewidth=1.2, linestyle="--", zorder=0.5)
    axes.set_title("CPU time per datagram")


def _draw_comparison(axes: Axes, part: Part) -> None:
    rows = [
        (f"{name}: {each['dataset']}", ratio["median"], ratio["spread"])
        for each in part["datasets"]
        for name, ratio in each["ratios"].items()
    ]
    if rows:
        names, medians, spreads = map(list, zip(*rows, strict=True))
        charts.draw_bars(axes, names, medians, spreads, unit="× flowbuf with the same destination", digits=1)
        axes.tick_params(axis="y", labelsize=7)
    axes.set_title("CPU time per flow of other collectors, under the same load")


def _draw_memory(axes: Axes, part: Part) -> None:
    minutes = [second / 60 for second, _ in part["samples"]]
    axes.plot(minutes, [resident / 2**20 for _, resident in part["samples"]], color=charts.BLUE)
    low, high = ((1 + sign * 0.05) * part["median"] / 2**20 for sign in (-1, 1))
    axes.axhspan(low, high, color=charts.OTHERS, alpha=0.25, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel("MiB")
    axes.set_title("Resident memory at half load, and ± 5 % of its median")


PANELS: dict[str, Callable[[Axes, Part], None]] = {
    "overhead": _draw_overhead,
    "comparison": _draw_comparison,
    "memory": _draw_memory,
}
