"""The Containerfile in examples/ names files, extras and options that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from flowbuf.collect.config import read_config
from flowbuf.schema.toml_json import parse_toml
from tests.support.command import flowbuf

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "examples/collector/Containerfile").read_text()
STEPS = [
    (step.split(" ", 1)[0], step.split(" ", 1)[1])
    for step in re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if step
]
PROJECT = parse_toml((ROOT / "pyproject.toml").read_text())


def last(instruction: str) -> str:
    """Return the arguments of the last step with an instruction."""
    return [arguments for name, arguments in STEPS if name == instruction][-1]


def test_each_step_is_an_instruction() -> None:
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {name for name, _ in STEPS} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}


def test_copied_paths_exist_and_suffice_for_the_build() -> None:
    copied = [
        Path(source)
        for name, arguments in STEPS
        if name == "COPY" and not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
    for needed in ("README.md", "LICENSE", "setup.py", "pyproject.toml", "schemas", "src"):
        assert Path(needed) in copied
    includes = set()
    for source in copied:
        for path in (ROOT / source).rglob("*.[ch]"):
            includes |= set(re.findall(r'#include "([a-z_]+)/', path.read_text(errors="replace")))
    folders = {path.name for path in (ROOT / "ext").iterdir() if path.is_dir()} & includes
    assert folders <= {path.name for path in copied if path.parent.name == "ext"}


def test_extras_exist() -> None:
    (extras,) = re.findall(r'"\.\[([a-z,]+)\]"', TEXT)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    assert {"collect", "kafka"} <= set(extras.split(","))


def test_the_command_is_accepted(tmp_path: Path) -> None:
    program, *command = json.loads(last("ENTRYPOINT"))
    assert program == "/opt/flowbuf/bin/flowbuf"
    printed = flowbuf(*command, *json.loads(last("CMD")), "--print-config")
    assert printed.exit_code == 0
    path = tmp_path / "collector.toml"
    path.write_text(printed.stdout)
    config = read_config(str(path))
    ports = {port for _, port in re.findall(r"(\S+):(\d+)", " ".join((*config.listen, config.metrics)))}
    assert ports == set(re.findall(r"(\d+)/", last("EXPOSE")))


def test_the_health_check_asks_the_endpoint_of_the_command() -> None:
    check = last("HEALTHCHECK").partition("CMD ")[2]
    python, option, code = json.loads(check)
    assert (python, option) == ("/opt/flowbuf/bin/python", "-c")
    compile(code, "health check", "exec")
    port = json.loads(last("CMD"))[-1].rpartition(":")[2]
    assert f"'http://127.0.0.1:{port}/healthz'" in code


def test_the_process_is_not_root() -> None:
    user = last("USER")
    assert user.isdigit()
    assert int(user) > 0
    assert f"--uid {user} " in TEXT
