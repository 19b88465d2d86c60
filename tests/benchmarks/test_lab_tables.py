"""The tables of the documents have the figures of the result files in notebooks/."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab import FORMATS
from benchmarks.lab.tables import compare_best, make_tables
from benchmarks.machine import describe_machine
from benchmarks.pipeline.report import tabulate

ROOT = Path(__file__).parents[2]
LAB = ROOT / "notebooks/encoding_performance.json"
PIPELINE = ROOT / "notebooks/kafka_pipeline.json"
MACHINE = {"cpu": {"brand_raw": "A Processor", "count": 2}, "machine": "x86_64", "python_version": "3.11.7"}


def measure(dataset: str, what: str, *samples: float, spread: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return a result with these samples and their median."""
    median = sorted(samples)[len(samples) // 2]
    info = {"dataset": dataset, "what": what, "ns_per_flow": median, "spread": spread, "samples": [*samples]}
    return {"extra_info": info | more}


def tables_of(*results: dict[str, Any]) -> dict[str, list[str]]:
    made = make_tables({"machine_info": MACHINE, "benchmarks": results})
    return {title: table.splitlines() for title, table in made.items()}


# In the documents -------------------------------------------------------------------------------------------


def test_the_documents_have_the_tables_of_the_lab() -> None:
    """`python -m benchmarks.lab.tables notebooks/encoding_performance.json` prints them."""
    content = json.loads(LAB.read_text())
    tables = make_tables(content)
    assert len(tables) == 6
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "benchmarks/lab/README.md").read_text()
    for title, table in tables.items():
        assert f"\n\n{table}\n\n" in page, title
    rows = [line.strip("| ").split(" | ") for line in tables["Codec"].splitlines()]
    own, peer = (
        row[1] for row in rows if row[0] in ("`flowbuf.Codec`, dicts", "`google.protobuf` (upb, in C), dicts")
    )
    time, ratio = peer.removesuffix(")").split(" (")
    assert f"| {own} | `google.protobuf` (upb) | {time} | {ratio} |\n" in readme
    assert f"\n{describe_machine(content['machine_info'])}: " in page


def read_row(page: str, name: str) -> list[str]:
    """Return the cells of the only row with this name, without the name."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_readme_has_the_figures_of_goflow2() -> None:
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "benchmarks/README.md").read_text()
    own, peer = read_row(page, "flowbuf"), read_row(page, "GoFlow2 2.2.6")
    expected = zip(own[::2], peer[::2], peer[1::2], strict=True)
    found = re.findall(r"\| (\d+) \| GoFlow2 2\.2\.6 \| ([\d,]+) \| (\d+)× \|\n", readme)
    assert len(found) == 4
    assert sorted(found) == sorted(expected)


def test_the_documents_have_the_table_of_the_pipeline() -> None:
    """`python -m benchmarks.pipeline.report notebooks/kafka_pipeline.json` prints it."""
    table = "\n".join(tabulate(json.loads(PIPELINE.read_text())))
    assert (ROOT / "benchmarks/lab/README.md").read_text().endswith(f"\n\n{table}\n")


def test_the_table_of_formats_has_a_column_for_copies_or_views() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables_of()["Formats"]]
    assert rows[0][:-1] == ["format", "library", "text or binary", "keys", "in Python", "strings"]
    assert rows[0][-1] == "encoding of a time"
    said = {name.strip("`"): strings for name, *_, strings, _ in rows[2:]}
    assert said == {form.name: form.strings for form in FORMATS}
    assert set(said.values()) <= {"copies", "views"}


# Contents ---------------------------------------------------------------------------------------------------


def test_medians_and_spreads_are_those_of_the_result() -> None:
    """Spreads are half the interquartile range, with inclusive quartiles, also for ratios."""
    own = measure("telemetry encode 1", "flowbuf", 100, 100, 100, spread=8.0, bytes=104.4, allocations=1.004)
    json_ = measure("telemetry encode 1", "json", 1000, 3000, 2000, spread=400.0, bytes=308.0)
    decoded = [
        measure("telemetry decode 1", name, 50, spread=2.0, allocations=8.0) for name in ("flowbuf", "json")
    ]
    tables = tables_of(own, json_, *decoded)
    assert tables["Times of telemetry: A Processor, 2 processors, Python 3.11.7"][2:] == [
        "| `flowbuf` | 104 | 100 ± 4 | 50 ± 1 | – | – | 1, 8 |",
        "| `json` | 308 | 2,000 ± 200 | 50 ± 1 | – | – | –, 8 |",
    ]
    assert tables["Codec"][2:] == [
        "| `flowbuf.Codec`, dicts | 100 | 50 |",
        "| stdlib `json`, dicts | 2,000 (20×) | 50 (1.0×) |",
    ]
    assert tables["Times relative to flowbuf"][2:] == [
        "| `telemetry`, encode | 20 (10–30) |",
        "| `telemetry`, decode | 1.0 (1.0–1.0) |",
    ]
    assert tables["Standing"][2:] == [
        "| encode, dict | 1 | 1 | 0 | 0 | – |",
        "| decode, dict | 1 | 0 | 0 | 1 | – |",
    ]


def test_the_fastest_other_has_the_same_shape() -> None:
    samples = {
        "flowbuf": [4.0, 4.0, 4.0],
        "json": [8.0, 9.0, 8.0],
        "orjson": [2.0, 3.0, 2.0],
        "struct": [1.0, 1.0, 1.0],
    }
    (standing,) = compare_best(samples)
    assert (standing.shape, standing.best) == ("dict", "orjson")
    assert standing.factor == (0.5, pytest.approx(0.0625))
    assert (standing.ahead, standing.behind) == (False, True)
    other = {"flowbuf-tuple": [2.0], "flowbuf-reference": [1.0], "struct": [3.0]}
    assert [(each.shape, each.best, each.ahead) for each in compare_best(other)] == [
        ("tuple", "struct", True)
    ]


def test_tables_without_measurements_are_left_out() -> None:
    assert list(tables_of()) == ["Formats"]
    assert "Times relative to flowbuf" not in tables_of(measure("telemetry encode 1", "json", 1.0, bytes=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(("module", "said"), [("lab.tables", "tables"), ("pipeline.report", "report")])
def test_tables_are_printed(module: str, said: str) -> None:
    def run(path: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", f"benchmarks.{module}", str(path)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    done = run(LAB if module == "lab.tables" else PIPELINE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n| `flowbuf` | " in done.stdout
    refused = run(ROOT / "pyproject.toml")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"{said}: {ROOT / 'pyproject.toml'}: ")
