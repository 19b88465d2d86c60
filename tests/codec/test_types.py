"""Type checkers understand codecs: mypy --strict and pyright in its strict mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import npm

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "typed_program.py"
HOME = ROOT / "build/pyright"
PACKAGE = "pyright@1.1.414"
LONGEST = 60  # lines of the program

WRONG = [
    ("", "", None),  # the program as it is
    (
        "total: Total = codec.decode(codec.encode(order), Total)",
        "total: Order = codec.decode(b'', Total)",
        "Total",
    ),
    ("order: Order = codec.decode(", "order: str = codec.decode(", "Order"),
    ("written: int = codec.write(", "written: str = codec.write(", "int"),
    ("for line in each.lines)]", "for line in each.line)]", "line"),
    ("next(reader).lines[0]", "next(reader).line[0]", "line"),
    ("(await anext(objects)).id", "(await anext(objects)).ids", "ids"),
    ("each.price() for each in totals", "each.prices() for each in totals", "prices"),
    ('invalid="skip"', 'invalid="drop"', "read"),
    ("device: dict[str, object]", "device: list[object]", "dict"),
    ('codec.decode_json(\'{"id": "3"}\').id', "codec.decode_json('{}').ids", "ids"),
]


def check_with_mypy(program: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", program]
    done = subprocess.run(
        command,
        cwd=program.parent,
        env=os.environ | {"MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / "build/mypy")},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def check_with_pyright(program: Path) -> tuple[int, str]:
    try:
        package = npm.fetch(PACKAGE, HOME)
        npm.run("node", "--version", where=HOME)
    except npm.Missing as error:
        pytest.skip(f"pyright cannot run: {error}")
    config = program.parent / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [program.name],
                "extraPaths": [str(ROOT / "src")],
                "typeCheckingMode": "strict",
            }
        )
    )
    command = ["node", str(package / "index.js"), "--pythonpath", sys.executable, "-p", str(config)]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check_all(folder: Path, check: Callable[[Path], tuple[int, str]]) -> None:
    text = PROGRAM.read_text()
    for place, (right, wrong, name) in enumerate(WRONG):
        assert name is None or text.count(right) == 1
        # mypy takes a file of the same name, size and second for the file that it has checked before
        program = folder / f"variant{place}.py"
        program.write_text(text.replace(right, wrong))
        status, output = check(program)
        if name is None:
            assert status == 0, output
        else:
            assert status != 0
            assert name in output


def test_the_program_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "default::ResourceWarning", str(PROGRAM)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "OPEN 5.0 1000 1000 2497.5\n10\na1 3 False\n"
    assert done.stderr == ""


def test_the_program_is_short() -> None:
    assert len(PROGRAM.read_text().splitlines()) <= LONGEST


@pytest.mark.slow
def test_mypy_finds_wrong_types_only(tmp_path: Path) -> None:
    check_all(tmp_path, check_with_mypy)


@pytest.mark.slow
def test_mypy_knows_the_keys_of_a_typed_dict(tmp_path: Path) -> None:
    text = """from typing import TypedDict

import flowbuf


class Some(TypedDict):
    client: str


codec = flowbuf.Codec.load("client_message")
some: Some = codec.decode(b"", Some)
client: str = flowbuf.Codec.load("client_message", into=Some).decode(b"")["client"]
"""
    changes = [
        ("", "", ""),
        ("client: str =", "client: int =", "int"),
        ('["client"]', '["clients"]', "clients"),
    ]
    for place, (right, wrong, error) in enumerate(changes):
        program = tmp_path / f"program{place}.py"
        program.write_text(text.replace(right, wrong))
        status, output = check_with_mypy(program)
        assert (status == 0) == (not error), output
        assert error in output


@pytest.mark.expensive
def test_pyright_finds_wrong_types_only(tmp_path: Path) -> None:
    check_all(tmp_path, check_with_pyright)
