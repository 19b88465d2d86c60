"""How the notebooks draw: one style, and results of the suites as data frames.

    from notebooks import charts

    charts.use_style()
    results = charts.read_benchmarks("formats.json")
    figure, axes = plt.subplots()
    charts.draw_bars(axes, frame.what, frame.ns, frame.spread, unit="ns a record", highlight="flowbuf")
    charts.caption(figure, data="256 records of telemetry", n="7 rounds", spread="half the interquartile
    range")

Charts have no background of their own, and all text is of one grey whose contrast is the same on white as on
black (4.5:1): they read on paper and on a dark screen. Colours are those of Okabe and Ito's palette that
differ for the colour-blind and from both; what is drawn is named where it is, not in a legend. Every chart
ends with `caption`: the machine, the data, how often, and what the spread is; of octets, which are counted,
that there is none.
"""

from __future__ import annotations

import json
import os
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
from benchmarks.machine import describe_machine

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the project, for notebooks that run what stands in benchmarks/, or import it.

Not to be printed.
"""
SMALL = os.environ.get("FLOWBUF_NOTEBOOKS") == "small"
"""Whether as little as possible is to be measured, to see that a notebook works: `execute.py --small`."""

TEXT = "#767676"
RULE = "#7676764d"
"""Of the grid: the same, faint."""
BLUE, VERMILION, GREEN, PURPLE, ORANGE, VIOLET = COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b87f00",
    "#7b4fb5",
)
"""In the order in which they are to be used, six at most in a chart. Orange is darker than in the palette,
for white paper; violet is not in it, and comes last.
"""
OTHERS = "#a6a6a6"
"""What a chart is not about, and is there to compare."""
EXACT = "none, sizes are exact"
"""The spread of octets, in a caption: they are counted, and the same in every run."""
MARKERS = "osD^vP"
"""Of lines, in the order of colours: shape tells them apart where colour cannot."""

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
    """For all charts after it; data frames are printed in 120 columns."""
    plt.rcParams.update(STYLE)
    pd.options.display.width = 120


# Results ----------------------------------------------------------------------------------------------------

COLUMNS = ["dataset", "family", "direction", "count", "what", "ns", "spread", "least"]
"""What every result has; behind it come those of `extra_info`: octets, allocations, peak_octets, version …"""


def read_benchmarks(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Results in pytest-benchmark's JSON, as benchmarks/record.py writes them: a row each.

    `ns` is the median, `spread` half the interquartile range and `least` the fastest round, nanoseconds a
    flow or record; `samples` are all rounds. `dataset` is taken apart where it is the lab's, as "telemetry
    decode 1000" is; elsewhere it is the family, `direction` is empty, and `count` the flows of a round.
    `attrs["machine"]` says where it was. Benchmarks that say nothing of flows are left out.
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
    """Says below a chart where its figures come from, and in front of that what it is `about`, in a sentence
    or two. `machine` is this one, unless told: `frame.attrs["machine"]`. Of what is counted, `spread` is
    EXACT.
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
    """Bars from the top down, each with its value behind it and its spread as a line through its end.

    `highlight` names what the chart is about: that is blue, all else grey. Without it all are blue.
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
    """A line for each value of `by`, over sizes; both axes are logarithmic. Names stand at the ends.

    The spread is a band. What is not in `highlight`, where that is given, is grey.
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
    """1, 2, 5, 10 … between both."""
    ticks = [digit * 10.0**power for power in range(-3, 12) for digit in (1, 2, 5)]
    within = [tick for tick in ticks if low <= tick <= high]
    return within, [f"{tick:,g}" if tick < 1 else f"{tick:,.0f}" for tick in within]


def _label_ends(axes: Axes, ends: dict[str, tuple[float, float]], colors: dict[str, str]) -> None:
    """Names right of the last points, moved apart where they would stand on each other."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.canvas.draw()  # or there are no places yet
    step = 11 * figure.dpi / 72  # pixels a line of text takes
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


# Octets -----------------------------------------------------------------------------------------------------

Part = tuple[bytes, str]
"""Octets of one kind, and their colour."""


def draw_octets(
    axes: Axes, rows: Sequence[tuple[Sequence[Part], str]], colors: dict[str, str] | None = None
) -> None:
    """Octets as boxes with their hexadecimal digits, row by row, and what they are right of them.

    `colors` names what the colours mean: kind -> colour, above the boxes.
    """
    width = max(sum(len(octets) for octets, _ in parts) for parts, _ in rows)
    for y, (parts, text) in enumerate(rows):
        x = 0
        for octets, color in parts:
            for octet in octets:
                draw_box(axes, x, y, f"{octet:02x}", color)
                x += 1
        axes.text(width + 0.4, y + 0.5, text, va="center", fontsize=9)
    axes.set_xlim(0, width)
    axes.set_ylim(len(rows), 0)
    axes.axis("off")
    name_colors(axes, colors or {})


def draw_box(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """A box of one by one, with a few characters in it."""
    axes.add_patch(Rectangle((x + 0.04, y + 0.08), 0.92, 0.84, color=color, linewidth=0))
    style: dict[str, Any] = {"family": "monospace", "fontsize": 9, "fontweight": "bold", "color": "white"}
    axes.text(x + 0.5, y + 0.53, text, ha="center", va="center", **style)


def name_colors(axes: Axes, colors: dict[str, str]) -> None:
    """What the colours mean, above a chart, at its right."""
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
