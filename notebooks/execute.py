"""Execute notebooks in place, so that their outputs are those of the current code.

    python notebooks/execute.py                          # all notebooks of this folder
    python notebooks/execute.py notebooks/flows.ipynb    # one notebook
    python notebooks/execute.py --small NOTEBOOK         # measure briefly, only to test the notebook

Each notebook runs in its own folder and writes its files there. A cell that fails ends the program with its
error. Any notebook can import `charts` of this folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
TIMEOUT = 300  # seconds per cell


def execute(path: Path) -> None:
    """Execute a notebook in its folder, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": path.parent}}
    NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources=folder,
        coalesce_streams=True,  # the kernel sends what a cell prints in one piece or in several
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of execution
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, path)


def main() -> None:
    # Use the kernel of this environment, without settings of the user.
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
