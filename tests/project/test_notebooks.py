"""Notebooks run with the current code and store its outputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.support.broker import Broker
from tests.support.command import environment_without_xdist

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
SMALL = Path(__file__).parents[1] / "data" / "softflowd-netflow5.pcap"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MEASURING = [path for path in NOTEBOOKS if "charts.SMALL" in path.read_text()]
"""Notebooks with new outputs in every run. The tests measure little and only check that they run."""
REPRODUCIBLE = [path for path in NOTEBOOKS if path not in MEASURING]
ABSOLUTE_PATH = re.compile(r"/[\w.-]+/")


def read(path: Path) -> NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def read_outputs(notebook: NotebookNode) -> list[tuple[str, list[str]]]:
    """Return the outputs of each cell as text. A chart must be present."""
    return [
        (cell.id, [text_of(output) for output in cell.outputs])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def text_of(output: NotebookNode) -> str:
    assert output.output_type != "error"
    if output.output_type == "stream":
        assert output.name == "stdout", output.text
        return str(output.text)
    if "image/png" in output.data:
        assert len(output.data["image/png"]) > 10_000
    return str(output.data["text/plain"])


def test_all_notebooks_are_found() -> None:
    known = ["encoding_performance", "flows", "kafka_pipeline", "schema", "wire_format"]
    assert [path.stem for path in REPRODUCIBLE] == known
    assert [path.stem for path in MEASURING] == ["decode_story"]


def execute(path: Path, *options: str) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "execute.py", *options, path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.expensive
@pytest.mark.parametrize("path", REPRODUCIBLE, ids=lambda path: path.name)
def test_stored_outputs_match_the_code(path: Path, tmp_path: Path) -> None:
    """`python notebooks/execute.py` updates them."""
    copy = Path(shutil.copy(path, tmp_path))
    execute(copy)
    assert read_outputs(read(path)) == read_outputs(read(copy))


@pytest.mark.expensive
@pytest.mark.parametrize("path", MEASURING, ids=lambda path: path.name)
def test_measuring_notebooks_run(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(path, tmp_path))
    execute(copy, "--small")
    now = {cell: len(outputs) for cell, outputs in read_outputs(read(copy))}
    assert now == {cell: len(outputs) for cell, outputs in read_outputs(read(path))}
    assert any(now.values())


@pytest.mark.expensive
@pytest.mark.parametrize("name", ["flows", "schema"])
def test_notebooks_run_outside_the_repository(name: str, tmp_path: Path) -> None:
    """A notebook needs only `charts.py` beside it. Its text may differ, because of another machine."""
    folder = tmp_path / "anywhere"
    folder.mkdir()
    for file in ("charts.py", "execute.py", f"{name}.ipynb"):
        shutil.copy(FOLDER / file, folder)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "execute.py", f"{name}.ipynb"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tables = [outputs for _, outputs in read_outputs(read(folder / f"{name}.ipynb"))]
    assert tables == [outputs for _, outputs in read_outputs(read(FOLDER / f"{name}.ipynb"))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_contain_no_absolute_paths(path: Path) -> None:
    outputs = [output for cell in read(path).cells for output in cell.get("outputs", [])]
    assert outputs
    assert not [output for output in outputs if str(FOLDER.parent) in json.dumps(output)]
    for output in outputs:
        output.get("data", {}).pop("image/png", None)  # base64 text may match by chance
    assert not [output for output in outputs if ABSOLUTE_PATH.search(json.dumps(output))]


def test_absolute_paths_are_detected() -> None:
    for folder in (tempfile.gettempdir(), Path.home(), FOLDER, FOLDER.relative_to(ROOT.parent)):
        assert ABSOLUTE_PATH.search(json.dumps({"text": f"of {folder}/flows.pcap"}))
    assert not ABSOLUTE_PATH.search(json.dumps({"text": "flows/s, records/s"}))


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.stem != "flows"], ids=lambda path: path.name
)
def test_every_chart_has_a_caption(path: Path) -> None:
    """The caption includes machine, data, n and spread, which `charts.caption` requires.

    The charts of flows.ipynb show traffic and measure nothing.
    """
    sources = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    shown = [source for source in sources if "plt.show()" in source]
    assert shown
    assert all(source.count("charts.caption(") == source.count("plt.show()") for source in shown)


@pytest.mark.expensive
def test_the_capture_can_be_replaced(tmp_path: Path) -> None:
    """The other capture has few flows, no sampling rate, and lacks most services."""
    path = tmp_path / "flows.ipynb"
    notebook = read(FOLDER / "flows.ipynb")
    imports = notebook.cells[1]
    assert "traffic.pcap" in imports.source
    imports.source = imports.source.replace("traffic.pcap", str(SMALL))
    nbformat.write(notebook, path)
    execute(path)
    outputs = dict(read_outputs(read(path)))
    assert "HTTPS" in outputs["time-table"][0]
    assert outputs["scale-option"] == ["True"]


# Results ----------------------------------------------------------------------------------------------------


def execute_with(result: Path, name: str) -> dict[str, list[str]]:
    """Return the outputs of a notebook that reads another file of results than its own."""
    notebook = read(FOLDER / name)
    imports, own = notebook.cells[1], f'charts.ROOT / "notebooks/{Path(name).stem}.json"'
    assert own in imports.source
    imports.source = imports.source.replace(own, f"__import__('pathlib').Path({str(result)!r})")
    path = result.parent / name
    nbformat.write(notebook, path)
    execute(path)
    return dict(read_outputs(read(path)))


def run(*arguments: str | Path) -> None:
    command, environment = [sys.executable, "-m", *arguments], environment_without_xdist()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.expensive
def test_the_notebook_of_formats_shows_new_results(tmp_path: Path) -> None:
    """Measure one family and a few formats with the commands that the notebook describes."""
    result, kept = tmp_path / "result.json", tmp_path / "kept.json"
    chosen = "telemetry and (flowbuf or protobuf-upb or orjson or msgspec)"
    run(
        "pytest",
        "benchmarks/test_formats.py",
        "-q",
        "--benchmark-only",
        "-k",
        chosen,
        f"--benchmark-json={result}",
    )
    run("benchmarks.lab.keep", result, kept)
    whole, part = (json.loads(path.read_text()) for path in (result, kept))
    assert [each["extra_info"] for each in part["benchmarks"]] == [
        each["extra_info"] for each in whole["benchmarks"]
    ]
    assert whole["machine_info"]["node"] not in part["machine_info"].values()
    assert kept.stat().st_size < result.stat().st_size / 4
    outputs = execute_with(kept, "encoding_performance.ipynb")
    formats = outputs["formats"][0]
    assert "flowbuf-struct" in formats
    assert "msgspec-msgpack-array" in formats
    assert "fastavro" not in formats
    assert re.match(r"12 cases: flowbuf is faster in \d+, slower in \d+; ", outputs["not-first"][0])
    assert "Structs: keys cost more than text in " in outputs["split-table"][0]


@pytest.mark.expensive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pipeline runs only on Linux")
def test_the_notebook_of_the_pipeline_shows_new_results(broker: Broker, tmp_path: Path) -> None:
    """Run three formats once with a real broker."""
    result = tmp_path / "pipeline.json"
    options = ("--messages", "20000", "--rounds", "1", "--formats", "flowbuf,orjson,struct", "--json", result)
    run("benchmarks.pipeline", "--kafka", broker.servers, *options)
    outputs = execute_with(result, "kafka_pipeline.ipynb")
    assert outputs["imports"][0].startswith("20,000 records of telemetry, rounds: 1, ")
    assert outputs["imports"][0].endswith("failed: none\n")
    for name in ("flowbuf", "orjson", "struct"):
        assert outputs["table"][0].count(f"{name} ") >= 2, "one object per message, and many"


# All notebooks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_executed_in_order_and_their_links_have_targets(path: Path) -> None:
    cells = read(path).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for link in re.findall(
        r"\]\(([^)#]+)\)", "".join(cell.source for cell in cells if cell.cell_type == "markdown")
    ):
        assert link.startswith("http") or (FOLDER / link).exists(), link
