"""Build the C core with ext/Makefile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.core_programs import building, outer_environment

EXT = Path(__file__).parents[2] / "ext"


def find_tool(name: str) -> str:
    """Return the path of a program. Skip the test if it is not installed."""
    tool = shutil.which(name)
    if tool is None:
        pytest.skip(f"{name} is not installed")
    return tool


def find_compiler() -> list[str]:
    """Return the command of the compiler. CC may begin with a program such as ccache."""
    program, *rest = os.environ.get("CC", "cc").split()
    return [find_tool(program), *rest]


def make(*arguments: str) -> str:
    """Run make in ext/ and return its output. If make fails, fail the test with that output.

    It compiles with ccache if that is installed. It leaves the processor to tests that wait for a broker.
    """
    compiler = find_compiler()
    environment = outer_environment()
    if shutil.which("ccache") and "ccache" not in Path(compiler[0]).name:
        # Objects of other checkouts are equal except for the folder in their debug information.
        environment |= {"CC": " ".join(["ccache", *compiler]), "CCACHE_NOHASHDIR": "1"}
    command = ["nice", find_tool("make"), f"-j{os.cpu_count()}", "--output-sync", "-C", str(EXT)]
    with building():
        done = subprocess.run(
            [*command, f"PYTHON={sys.executable}", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode:
        pytest.fail(done.stdout[-20000:], pytrace=False)
    return done.stdout
