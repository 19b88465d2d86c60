"""The docstring of each method of a codec is complete, and its example runs as written."""

from __future__ import annotations

import code
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Codec

ROOT = Path(__file__).parents[2]
METHODS = [name for name in dir(Codec) if not name.startswith("_") and callable(getattr(Codec, name))]
DOCUMENTED: dict[str, Any] = {"Codec": Codec, **{name: getattr(Codec, name) for name in METHODS}}


def sections_of(documented: Any) -> dict[str, str]:
    """Return the sections of a docstring by their titles. The text before them has the title ""."""
    parts = re.split(r"^([A-Z]\w+):\n", inspect.getdoc(documented) or "", flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters_of(documented: Any) -> list[str]:
    parameters = inspect.signature(documented).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [f"{stars.get(each.kind, '')}{each.name}" for each in parameters if each.name != "self"]


def example_of(documented: Any) -> list[str]:
    return inspect.cleandoc(sections_of(documented)["Example"]).splitlines()


def paste(lines: list[str]) -> None:
    """Run the lines as an interactive shell does, which ends a block at an empty line."""
    console = code.InteractiveConsole({"__name__": "__main__"})
    for line in ("import flowbuf", *lines, ""):
        waits = console.push(line.rstrip("\n"))
    assert not waits


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_have_all_parts(name: str) -> None:
    sections = sections_of(DOCUMENTED[name])
    parts = {"Args", "Raises", "Example"} | ({"Returns"} if name in METHODS else set())
    described = re.findall(r"^    (\*{0,2}\w+): ", sections.get("Args", ""), re.MULTILINE)
    assert sections[""]
    assert described == parameters_of(DOCUMENTED[name])
    assert parts - (set() if described else {"Args"}) <= sections.keys()


def test_each_method_is_checked() -> None:
    assert {"decode", "encode_into", "from_json_lines", "load", "read_columns", "write_async"} <= {*METHODS}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_run_as_written(name: str, tmp_path: Path) -> None:
    text = "\n".join(example_of(DOCUMENTED[name]))
    assert "codec = flowbuf.Codec" in text
    assert re.search(rf"\b{name}\b", text)
    program = "import sys; from tests.codec.test_docstrings import paste; paste(sys.stdin.readlines())"
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "CI": "true",  # hypothesis then does not fail if the machine is slow
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=os.environ | environment,
        input=text,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
