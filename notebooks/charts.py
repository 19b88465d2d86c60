"""Charts of the notebooks: one style, and results of the suites as data frames.

    from notebooks import charts

    charts.use_style()
    results = charts.read_benchmarks("formats.json")
    figure, axes = plt.subplots()
    charts.draw_bars(axes, frame.what, frame.ns, frame.spread, unit="ns per record", highlight="flowbuf")
    charts.caption(
        figure, data="256 records of telemetry", n="7 rounds", spread="half the interquartile range"
    )

Charts have a transparent background. All text is of one grey with the same contrast on white and black
(4.5:1), so it is readable on paper and on a dark screen. Colours are from the palette of Okabe and Ito: those
that differ for colour-blind readers and from both backgrounds. Labels stand beside the drawn data where
possible. Every chart ends with `caption`, which states machine, data, number of samples and spread.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
try:
    from benchmarks.machine import describe_machine
except ModuleNotFoundError:  # the notebooks were copied, and measure nothing

    def describe_machine(found: object = None) -> str:
        """Return the kind and number of processors."""
        return f"{platform.machine()}, {os.cpu_count()} processors"


ROOT = Path(__file__).resolve().parent.parent
"""Folder of the project, for notebooks that run or import benchmarks/. Do not print it."""
SMALL = os.environ.get("FLOWBUF_NOTEBOOKS") == "small"
"""True with `execute.py --small`: measure as little as possible, only to test the notebook."""

TEXT = "#767676"
RULE = "#7676764d"
"""Colour of the grid: TEXT, mostly transparent."""
BLUE, VERMILION, GREEN, PURPLE, ORANGE, VIOLET = COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b87f00",
    "#7b4fb5",
)
"""Colours in the order of their use, at most six per chart.

Orange is darker than in the palette, for white paper. Violet is not in the palette and comes last.
"""
OTHERS = "#a6a6a6"
"""Colour of data shown for comparison only."""
EXACT = "none, sizes are exact"
"""Spread of sizes in a caption. Sizes are counted and equal in every run."""
MARKERS = "osD^vP"
"""Markers of lines, in the order of colours, for readers who cannot see the colours."""

STYLE: dict[Any, Any] = {
    "figure.figsize": (9, 4),
    "figure.dpi": 110,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "none",
    "savefig.transparent": True,
    "axes.facecolor": "none",
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 12,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "legend.frameon": False,
    "font.size": 10,
}


def use_style() -> None:
    """Set the style of all following charts, and print data frames in 120 columns."""
    plt.rcParams.update(STYLE)
    pd.options.display.width = 120


# Results ----------------------------------------------------------------------------------------------------

COLUMNS = ["dataset", "family", "direction", "count", "what", "ns", "spread", "least"]
"""Columns of every result. Columns of `extra_info` follow: bytes, allocations, peak_bytes, version …"""


def read_benchmarks(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read results of benchmarks/record.py from a JSON file of pytest-benchmark, one row each.

    `ns` is the median, `spread` half the interquartile range and `least` the fastest round, in nanoseconds
    per flow or record. `samples` has all rounds. A dataset of the lab, such as "telemetry decode 1000", is
    split into `family`, `direction` and `count`. For other datasets, `family` is the dataset, `direction` is
    empty and `count` is the flows of a round. `attrs["machine"]` describes the machine. Benchmarks without
    flows are left out.
    """
    content = json.loads(Path(path).read_text())
    results = [each["extra_info"] for each in content["benchmarks"] if "ns_per_flow" in each["extra_info"]]
    frame = pd.DataFrame([_read_result(result) for result in results])
    frame.attrs["machine"] = describe_machine(content["machine_info"])
    return frame


def _read_result(result: dict[str, Any]) -> dict[str, Any]:
    of_lab = re.fullmatch(r"(\w+) (encode|decode) (\d+)", result["dataset"])
    family, direction, count = of_lab.groups() if of_lab else (result["dataset"], "", result["flows"])
    known = {
        "dataset": result["dataset"],
        "family": family,
        "direction": direction,
        "count": int(count),
        "what": result["what"],
        "ns": result["ns_per_flow"],
        "spread": result["spread"] / 2,
        "least": min(result["samples"]),
    }
    return known | {
        key: value for key, value in result.items() if key not in (*known, "ns_per_flow", "flows")
    }


# Drawing ----------------------------------------------------------------------------------------------------


def caption(
    figure: Figure, *, data: str, n: str, spread: str, machine: str | None = None, about: str | None = None
) -> None:
    """Add a caption with the source of the figures below a chart.

    Args:
        figure: The chart.
        data: Data that were measured.
        n: Number of samples.
        spread: Meaning of the spread. EXACT for sizes.
        machine: Machine of the measurement, such as `frame.attrs["machine"]`. Default: this machine.
        about: One or two sentences of explanation, shown first.
    """
    told = f"{machine or describe_machine()}. Data: {data}. n: {n}. Spread: {spread}."
    width = int(figure.get_figwidth() * 17)  # characters that fit
    text = "\n".join(textwrap.fill(part, width) for part in (about, told) if part)
    figure.supxlabel(text, x=0.01, horizontalalignment="left", fontsize=8, color=TEXT)


def draw_bars(
    axes: Axes,
    labels: Sequence[str],
    values: Sequence[float],
    spreads: Sequence[float] | None = None,
    *,
    unit: str,
    highlight: str | Iterable[str] = (),
    log: bool = False,
    digits: int = 0,
) -> None:
    """Draw bars from top to bottom, each with its value and its spread as an error bar.

    Bars of `highlight` are blue, the others grey. Without `highlight`, all are blue.
    """
    chosen = {highlight} if isinstance(highlight, str) else set(highlight)
    colors = [BLUE if label in chosen or not chosen else OTHERS for label in labels]
    places = range(len(labels))
    axes.barh(places, values, color=colors, height=0.7)
    if spreads is not None:
        axes.errorbar(
            values, places, xerr=list(spreads), fmt="none", ecolor=TEXT, elinewidth=1.2, capsize=2.5
        )
    for place, value, spread in zip(
        places, values, spreads if spreads is not None else [0] * len(labels), strict=True
    ):
        text = f"{value:,.{digits}f}" + (f" ± {spread:,.{digits}f}" if spreads is not None else "")
        axes.annotate(
            text, (value + spread, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(unit)
    axes.margins(y=0.02)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x == round(x) else f"{x:g}")
    if log:
        axes.set_xscale("log")
        axes.set_xlim(right=max(values) * 6)
    else:
        axes.set_xlim(0, max(values) * 1.22)


def draw_lines(
    axes: Axes,
    frame: pd.DataFrame,
    *,
    x: str = "count",
    y: str = "ns",
    by: str = "what",
    spread: str | None = "spread",
    unit: str,
    highlight: str | Iterable[str] = (),
) -> None:
    """Draw a line for each value of `by` on logarithmic axes, with its name at the end.

    The spread is a band. Lines that are not in `highlight` are grey, if it is given.
    """
    chosen = {highlight} if isinstance(highlight, str) else set(highlight)
    names = list(dict.fromkeys(frame[by]))
    colors = _color_lines(names, chosen)
    for i, name in enumerate(names):
        part = frame[frame[by] == name].sort_values(x)
        axes.plot(
            part[x],
            part[y],
            color=colors[name],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5,
            linewidth=1.6,
        )
        if spread is not None:
            low = (part[y] - part[spread]).clip(lower=part[y] / 10)
            axes.fill_between(
                part[x], low, part[y] + part[spread], color=colors[name], alpha=0.18, linewidth=0
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel(unit)
    axes.set_xticks(sorted(set(frame[x])), [f"{count:,}" for count in sorted(set(frame[x]))])
    axes.minorticks_off()
    axes.set_yticks(*_choose_ticks(*axes.get_ylim()))
    ends = {name: frame[frame[by] == name].sort_values(x)[[x, y]].iloc[-1] for name in names}
    _label_ends(axes, {name: (end[x], end[y]) for name, end in ends.items()}, colors)


def _color_lines(names: list[str], chosen: set[str]) -> dict[str, str]:
    colored = [name for name in names if name in chosen or not chosen]
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(colored)}
    return {name: colors.get(name, OTHERS) for name in names}


def _choose_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return the ticks 1, 2, 5, 10 … between both limits, and their labels."""
    ticks = [digit * 10.0**power for power in range(-3, 12) for digit in (1, 2, 5)]
    within = [tick for tick in ticks if low <= tick <= high]
    return within, [f"{tick:,g}" if tick < 1 else f"{tick:,.0f}" for tick in within]


def _label_ends(axes: Axes, ends: dict[str, tuple[float, float]], colors: dict[str, str]) -> None:
    """Write names right of the last points, and move them apart if they would overlap."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.canvas.draw()  # positions are unknown before
    step = 11 * figure.dpi / 72  # pixels of a line of text
    below = float("-inf")
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        place = axes.transData.transform((x, y))
        height = max(place[1], below + step)
        below = height
        offset = (8, (height - place[1]) * 72 / figure.dpi)
        style: dict[str, Any] = {
            "va": "center",
            "fontsize": 9,
            "color": colors[name],
            "annotation_clip": False,
        }
        axes.annotate(name, (x, y), offset, textcoords="offset points", **style)


# Bytes ------------------------------------------------------------------------------------------------------

Part = tuple[bytes, str]
"""Bytes of one kind, and their colour."""


def draw_bytes(
    axes: Axes, rows: Sequence[tuple[Sequence[Part], str]], colors: dict[str, str] | None = None
) -> None:
    """Draw bytes as boxes with hexadecimal digits, row by row, with a description at the right.

    `colors`: kind -> colour, for the legend above the boxes.
    """
    width = max(sum(len(content) for content, _ in parts) for parts, _ in rows)
    for y, (parts, text) in enumerate(rows):
        x = 0
        for content, color in parts:
            for byte in content:
                draw_box(axes, x, y, f"{byte:02x}", color)
                x += 1
        axes.text(width + 0.4, y + 0.5, text, va="center", fontsize=9)
    axes.set_xlim(0, width)
    axes.set_ylim(len(rows), 0)
    axes.axis("off")
    name_colors(axes, colors or {})


def draw_box(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """Draw a box of one by one, with a few characters in it."""
    axes.add_patch(Rectangle((x + 0.04, y + 0.08), 0.92, 0.84, color=color, linewidth=0))
    style: dict[str, Any] = {"family": "monospace", "fontsize": 9, "fontweight": "bold", "color": "white"}
    axes.text(x + 0.5, y + 0.53, text, ha="center", va="center", **style)


def name_colors(axes: Axes, colors: dict[str, str]) -> None:
    """Add a legend of colours above a chart, at its right."""
    if not colors:
        return
    patches = [Patch(color=color, label=name, linewidth=0) for name, color in colors.items()]
    style: dict[str, Any] = {
        "handlelength": 0.8,
        "handleheight": 0.8,
        "handletextpad": 0.4,
        "columnspacing": 1.2,
    }
    axes.legend(
        handles=patches, ncols=len(patches), loc="lower right", bbox_to_anchor=(1, 1), fontsize=9, **style
    )
