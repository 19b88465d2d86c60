"""Notebooks: today's code runs them, and says what their outputs say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

FOLDER = Path(__file__).parent.parent / "notebooks"
SMALL = Path(__file__).parent / "data" / "softflowd-netflow5.pcap"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MEASURING = [path for path in NOTEBOOKS if "charts.SMALL" in path.read_text()]
"""Those whose outputs are other ones each time: in tests they measure little, and only that they work is seen."""
KNOWN = [path for path in NOTEBOOKS if path not in MEASURING]


def read(path: Path) -> NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def said(notebook: NotebookNode) -> list[tuple[str, list[str]]]:
    """The outputs of each cell as text; of a chart that there is one."""
    return [
        (cell.id, [text_of(output) for output in cell.outputs]) for cell in notebook.cells if cell.cell_type == "code"
    ]


def text_of(output: NotebookNode) -> str:
    assert output.output_type != "error"
    if output.output_type == "stream":
        assert output.name == "stdout", output.text
        return str(output.text)
    if "image/png" in output.data:
        assert len(output.data["image/png"]) > 10_000
    return str(output.data["text/plain"])


def test_there_are_notebooks() -> None:
    assert [path.stem for path in KNOWN] == ["flows", "schema", "wire_format"]
    assert [path.stem for path in MEASURING] == ["decode_story"]


def execute(path: Path, *options: str) -> None:
    done = subprocess.run([sys.executable, FOLDER / "execute.py", *options, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.name)
def test_outputs_are_those_of_the_code(path: Path, tmp_path: Path) -> None:
    """`python notebooks/execute.py` brings them up to date."""
    copy = Path(shutil.copy(path, tmp_path))
    execute(copy)
    assert said(read(path)) == said(read(copy))


@pytest.mark.parametrize("path", MEASURING, ids=lambda path: path.name)
def test_what_measures_works(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(path, tmp_path))
    execute(copy, "--small")
    now = {cell: len(outputs) for cell, outputs in said(read(copy))}
    assert now == {cell: len(outputs) for cell, outputs in said(read(path))}
    assert any(now.values())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_name_no_folders_of_a_machine(path: Path) -> None:
    outputs = [json.dumps(output) for cell in read(path).cells for output in cell.get("outputs", [])]
    assert outputs
    for folder in ("/home/", "/tmp/", "/root/", "/work/", "/Users/", str(FOLDER.parent)):
        assert not [output for output in outputs if folder in output]


def test_a_capture_may_be_another(tmp_path: Path) -> None:
    """A few flows, whose exporter does not say that it samples; most services are missing."""
    path = tmp_path / "flows.ipynb"
    notebook = read(FOLDER / "flows.ipynb")
    imports = notebook.cells[1]
    assert "traffic.pcap" in imports.source
    imports.source = imports.source.replace("traffic.pcap", str(SMALL))
    nbformat.write(notebook, path)
    execute(path)
    outputs = dict(said(read(path)))
    assert "HTTPS" in outputs["time-table"][0]
    assert outputs["scale-option"] == ["True"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_executed_from_top_to_bottom_and_lead_somewhere(path: Path) -> None:
    cells = read(path).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for link in re.findall(r"\]\(([^)#]+)\)", "".join(cell.source for cell in cells if cell.cell_type == "markdown")):
        assert link.startswith("http") or (FOLDER / link).exists(), link
