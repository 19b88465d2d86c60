"""Executes notebooks, so that their outputs are those of today's code.

    python notebooks/execute.py                          # all of this folder, in place; then look at them
    python notebooks/execute.py notebooks/flows.ipynb    # one
    python notebooks/execute.py --small NOTEBOOK         # one that measures, briefly: only to see that it
    works

What a notebook writes stands beside it. A cell that fails ends it all, with its error. `charts` of this
folder can be imported wherever the notebook is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
TIMEOUT = 300  # seconds a cell may take


def execute(path: Path) -> None:
    """Executes a notebook in its folder, and writes it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", resources=folder).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, path)


def main() -> None:
    # The kernel of this environment, and nobody's settings.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    os.environ["FLOWBUF_NOTEBOOKS"] = "small" if "--small" in sys.argv else ""
    named = [Path(argument) for argument in sys.argv[1:] if argument != "--small"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        for path in named or sorted(FOLDER.glob("*.ipynb")):
            execute(path.resolve())


if __name__ == "__main__":
    main()
