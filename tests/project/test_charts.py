"""Charts of the notebooks read results correctly, and are legible on any background (notebooks/charts.py)."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from benchmarks.machine import find_machine
from notebooks import charts

MACHINE = {"cpu": {"brand_raw": "A Processor", "count": 2}, "machine": "x86_64", "python_version": "3.11.7"}


def result(dataset: str, what: str, **more: Any) -> dict[str, Any]:
    timing = {"flows": 1000, "ns_per_flow": 20.0, "spread": 6.0, "samples": [24.0, 18.0, 20.0]}
    return {"extra_info": {"dataset": dataset, "what": what, **timing, **more}}


def write(folder: Path, *results: dict[str, Any]) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps({"machine_info": MACHINE, "benchmarks": results}))
    return path


def test_each_result_becomes_a_row(tmp_path: Path) -> None:
    codec = result("telemetry decode 10000", "json", bytes=308.5, allocations=44.0)
    frame = charts.read_benchmarks(
        write(tmp_path, codec, result("sflow-1140", "flowbuf"), {"extra_info": {"mb": 3}})
    )
    assert list(frame)[:8] == charts.COLUMNS
    rows = frame[[*charts.COLUMNS, "bytes"]].values.tolist()
    assert rows[0] == ["telemetry decode 10000", "telemetry", "decode", 10000, "json", 20.0, 3.0, 18.0, 308.5]
    assert rows[1][:8] == ["sflow-1140", "sflow-1140", "", 1000, "flowbuf", 20.0, 3.0, 18.0]
    assert frame.attrs["machine"] == "A Processor, 2 processors, Python 3.11.7"


def test_captions_and_results_describe_a_machine_equally() -> None:
    assert charts.describe_machine(MACHINE) == "A Processor, 2 processors, Python 3.11.7"
    assert charts.describe_machine({**MACHINE, "cpu": {}}) == "x86_64, Python 3.11.7"
    assert charts.describe_machine(find_machine()) == charts.describe_machine()
    assert charts.describe_machine().endswith(f"Python {platform.python_version()}")


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors as defined by WCAG 2: 1 to 21."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("background", ["#ffffff", "#000000"])
def test_text_and_colors_contrast_with_white_and_black(background: str) -> None:
    assert contrast(charts.TEXT, background) >= 4.5
    assert min(contrast(color, background) for color in charts.COLORS) >= 3


def test_a_caption_lists_machine_data_repetitions_and_spread() -> None:
    charts.use_style()
    figure, axes = plt.subplots()
    charts.draw_bars(axes, ["a", "b"], [1200, 30], [100, 2], unit="ns", highlight="b")
    facts = {"data": "some", "n": "7 rounds", "spread": "half the range", "machine": "A Processor"}
    charts.caption(figure, **facts)
    labels = [text.get_text() for text in axes.texts]
    assert labels == ["1,200 ± 100", "30 ± 2"]
    text = "A Processor. Data: some. n: 7 rounds. Spread: half the range."
    assert figure.get_supxlabel() == text
    charts.caption(figure, **facts, about="Two bars.")
    assert figure.get_supxlabel() == f"Two bars.\n{text}"
    assert [
        bar.get_facecolor()[:3] == pytest.approx((0, 0.447, 0.698), abs=0.01) for bar in axes.patches
    ] == [0, 1]
    plt.close(figure)


def test_labels_of_lines_do_not_overlap(tmp_path: Path) -> None:
    counts = (1, 10, 100)
    results = [result(f"telemetry decode {count}", what) for what in ("json", "avro") for count in counts]
    figure, axes = plt.subplots()
    charts.draw_lines(axes, charts.read_benchmarks(write(tmp_path, *results)), unit="ns")
    places = {text.get_text(): text.xyann[1] for text in axes.texts}
    assert places.keys() == {"json", "avro"}
    assert abs(places["json"] - places["avro"]) >= 10
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "100"]
    plt.close(figure)
