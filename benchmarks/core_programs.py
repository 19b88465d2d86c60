"""Build and run the programs of the core (ext/bench), which measure it without Python."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXT = ROOT / "ext"


class Failed(Exception):
    """A program failed or is not installed. The argument is the message."""


def outer_environment() -> dict[str, str]:
    """Return the environment without the options of an enclosing `make`. They do not apply to another one."""
    inherited = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in inherited}


def run(*command: object) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end. Raises Failed, also if the program does not exist."""
    environment = outer_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    environment["PYTHONHASHSEED"] = "0"  # makes runs of Python reproducible
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, env=environment)
    except FileNotFoundError as error:
        raise Failed(f"{error.filename} is not installed") from None
    if done.returncode:
        raise Failed(f"{command[0]}: {(done.stdout + done.stderr).decode(errors='replace')[-4000:]}")
    return done


def find_compiler() -> str:
    """Return name and version of the C compiler CC, for example "gcc 12.2.0". Raises Failed."""
    macros = run(*os.environ.get("CC", "cc").split(), "-dM", "-E", "-x", "c", os.devnull).stdout.decode()
    (version,) = re.findall(r'#define __VERSION__ "(.*)"', macros)
    return str(version) if "__clang__" in macros else f"gcc {version}"


@contextmanager
def building() -> Iterator[None]:
    """Keep other processes from building the core at the same time."""
    (EXT / "build").mkdir(exist_ok=True)
    with (EXT / "build/.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def build(target: str = "bench-programs") -> Path:
    """Build the programs and return their folder. Each compiler has its own folder. Raises Failed.

    It contains `bench/run_count` and `bench/run_story` with the optimisation of `make bench`,
    `bench/count_malloc.so`, and `flow.plan`, the plan of the default schema. The target `bench-net` builds
    `bench/bare_receiver` and `bench/bare_sender` instead, which need Linux.
    """
    folder = Path("build") / re.sub(r"\W+", "-", find_compiler())
    with building():
        run("make", "-C", EXT, f"BUILD={folder}", f"PYTHON={sys.executable}", target)
    return EXT / folder
