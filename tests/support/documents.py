"""Read the code blocks of pages, and run them.

A block is a fence with a language. Pages use these conventions:

- `sh` and `python` blocks of a page run in order, in one folder. Python blocks share their names.
- A block with `title="NAME"` is the content of the file NAME. It is written before the first block runs.
- `<!-- not run: REASON -->` on the line before a block excludes it.
- `<!-- run with: kafka, chdb -->` on that line: the block needs these services.
- `<!-- output -->` on that line: the block is the output of the block before it. "…" stands for any text in a
  line, or for any lines.

    python -m tests.support.documents PAGE    # in the folder to run in; JSON of `Run` on standard input
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RUN = ("sh", "python")
LANGUAGES = {*RUN, "json", "proto", "sql", "text", "toml"}
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*) -->\n)?"
    r"```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
WIDTH = 98  # columns of the terminal that commands see


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    line: int
    language: str
    title: str
    code: str
    mark: str

    @property
    def reason(self) -> str:
        """Reason not to run the block, or an empty text."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    @property
    def needs(self) -> frozenset[str]:
        """Services that the block needs."""
        names = self.mark.removeprefix("run with: ") if self.mark.startswith("run with: ") else ""
        return frozenset(filter(None, names.split(", ")))

    @property
    def is_output(self) -> bool:
        """True if the block is the output of the block before it."""
        return self.mark == "output"

    def runs_with(self, services: Collection[str]) -> bool:
        """Return True if the block is run where these services are available."""
        return self.language in RUN and not self.title and not self.reason and self.needs <= set(services)


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page."""
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("language")) + 1
        yield Block(line, fence["language"], fence["title"] or "", fence["code"], fence["mark"] or "")


@dataclass
class Run:
    """Surroundings of a page that is run: services, and texts to replace in its code."""

    services: list[str] = field(default_factory=list)
    replace: dict[str, str] = field(default_factory=dict)

    def apply(self, code: str) -> str:
        """Return code with the texts replaced."""
        for old, new in self.replace.items():
            code = code.replace(old, new)
        return code


def run_page(page: str, folder: Path, run: Run | None = None, python: str = sys.executable) -> None:
    """Run the blocks of a page in a folder, in a process of its own. Raise AssertionError if one fails.

    `python` is an interpreter with flowbuf.
    """
    command = [python, "-m", "tests.support.documents", page]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        input=json.dumps(asdict(run or Run())),
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# In the process of the page ---------------------------------------------------------------------------------


def _run_here(page: str, run: Run) -> None:
    blocks = list(read_blocks((ROOT / page).read_text()))
    for block in blocks:
        if block.title:
            assert Path(block.title).name == block.title, f"{page}:{block.line}: the title has a folder"
            Path(block.title).write_text(run.apply(block.code))
    names: dict[str, Any] = {"__name__": "__main__"}
    said = ""
    for block in blocks:
        where = f"{page}:{block.line}"
        if block.runs_with(run.services):
            code = run.apply(block.code)
            said = run_shell(code, where) if block.language == "sh" else _run_python(code, where, names)
        elif block.language in RUN:
            said = ""
        elif block.is_output and said:
            check_output(block.code, said, where)


def _run_python(code: str, where: str, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, where, "exec", dont_inherit=True), names)
    return output.getvalue()


def run_shell(code: str, where: str) -> str:
    """Run commands with a terminal as standard output, and return their output."""
    terminal, output = pty.openpty()
    command = [
        "bash",
        "-eo",
        "pipefail",
        "-c",
        f'flowbuf() {{ "{sys.executable}" -m flowbuf "$@"; }}\n{code}',
    ]
    shown = {"COLUMNS": str(WIDTH), "LINES": "50", "NO_COLOR": "1", "TERM": "dumb"}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env={**os.environ, **shown}
        )
        os.close(output)
        said = b"".join(_read_terminal(terminal)).decode().replace("\r\n", "\n")
        os.close(terminal)
        status = process.wait()
        errors.seek(0)
        assert status == 0, f"{where}: exit status {status}\n{said}{errors.read().decode()}"
    return said


def _read_terminal(terminal: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # all programs have closed it
        while data := os.read(terminal, 65536):
            yield data


def check_output(expected: str, said: str, where: str) -> None:
    """Raise AssertionError unless a program has said what its page shows."""
    lines = [line.rstrip() for line in expected.strip("\n").split("\n")]
    patterns = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines
    ]
    plain = "".join(f"{line.rstrip()}\n" for line in said.split("\n")).strip("\n") + "\n"
    assert re.fullmatch("".join(patterns), plain), f"{where}: the output is\n{plain}"


def services_of(blocks: Collection[Block]) -> frozenset[str]:
    """Return all services that blocks of a page need."""
    return frozenset().union(*(block.needs for block in blocks if not block.reason))


def read_run(document: Mapping[str, Any]) -> Run:
    return Run(list(document["services"]), dict(document["replace"]))


if __name__ == "__main__":
    _run_here(sys.argv[1], read_run(json.load(sys.stdin)))
