"""The command `flowbuf`: help, version, and the end of every command."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.metadata
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from flowbuf import cli
from flowbuf.cli.main import COMMANDS
from flowbuf.cli.output.console import StdoutConsole
from tests.support.cases import slow
from tests.support.command import GOOD, end, flowbuf, generated, json_lines, pcap, write

FLOWBUF = [sys.executable, "-m", "flowbuf"]


def test_help_lists_the_commands() -> None:
    result = flowbuf("--help")
    assert result.exit_code == 0
    for name, text in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert text in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_its_summary_and_examples(name: str) -> None:
    result = flowbuf(name, "--help")
    assert COMMANDS[name] in " ".join(result.stdout.split())
    assert "Examples:\n    flowbuf " + name in result.stdout


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from flowbuf.cli.main import main; main(['--help'], standalone_mode=False)\n"
        "assert not {'rich', 'flowbuf._core', 'flowbuf.schema', 'importlib.metadata'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("options", [[], ["--rows", "flows,counters"]])
def test_reading_rows_does_not_import_column_libraries(tmp_path: Path, options: list[str]) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD))
    code = (
        f"import sys; from flowbuf.cli.main import main\n"
        f"try: main({['read', str(path), *options]!r}, standalone_mode=False)\n"
        f"except SystemExit: pass\n"
        f"unwanted = {{'pyarrow', 'duckdb', 'numpy', 'pandas', 'multiprocessing', 'flowbuf.arrow.sql'}}\n"
        f"unwanted |= {{'rich', 'bz2', 'hashlib', 'importlib.metadata'}}\n"
        f"assert not unwanted & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_version_is_that_of_the_package() -> None:
    assert flowbuf("--version").stdout.split()[-1] == importlib.metadata.version("flowbuf")


def test_python_m_flowbuf_runs_the_command() -> None:
    result = subprocess.run([*FLOWBUF, "--help"], check=True, capture_output=True, text=True)
    assert result.stdout.startswith("Usage: flowbuf [OPTIONS] COMMAND")


def test_the_entry_point_defers_signals_during_imports() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="flowbuf")
    assert entry.load() is cli.run


def test_an_unknown_command_is_a_usage_error() -> None:
    result = flowbuf("raed")
    assert result.exit_code == 2
    assert "Error: no command 'raed'; did you mean read?" in result.stderr


def run(folder: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with redirections in a shell."""
    command = f"{shlex.join(FLOWBUF)} {arguments}"
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "big.pcap"),
        ("query", "FROM flows", "big.pcap"),
        *slow(
            ("read", "big.pcap", "--where", "true"),
            ("read", "big.pcap", "-f", "arrow"),
            ("generate", "--protocol=ipfix", "--flows=200000", "-o-"),
        ),
    ],
)
def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write(tmp_path / "big.pcap", generated(flows=20000))
    with subprocess.Popen(
        [*FLOWBUF, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


@pytest.mark.parametrize("arguments", [("inspect", "a.pcap"), ("schema", "show"), ("schema", "proto")])
def test_a_pipe_without_a_reader_ends_the_command_silently(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        result = subprocess.run([*FLOWBUF, *arguments], cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (141, b"")


def test_a_closed_pipe_ends_a_styled_table() -> None:
    console = StdoutConsole()
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError), os.fdopen(writer, "w") as console.file:
        console.print("text")


@pytest.mark.parametrize(
    ("arguments", "stream"),
    [
        ("read - <&-", "<stdin>"),
        ("encode - -o x.pb <&-", "<stdin>"),
        ("read a.pcap >&-", "<stdout>"),
        ("encode a.pcap -o - >&-", "<stdout>"),
        ("inspect a.pcap >&-", "<stdout>"),
        ("schema show >&-", "<stdout>"),
    ],
)
def test_a_required_closed_standard_stream_is_an_error(tmp_path: Path, arguments: str, stream: str) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD))
    result = run(tmp_path, arguments)
    assert (result.returncode, result.stdout, result.stderr) == (
        2,
        "",
        f"Error: {stream}: the stream is closed\n",
    )


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("encode a.pcap -o a.pb 2>&-", 0),
        ("encode a.pcap -o a.pb <&- >&- 2>&-", 0),
        ("encode cut.pcap -o a.pb 2>&-", 1),
        ("encode a.pcap -o a.pb --nope 2>&-", 2),
    ],
)
def test_unused_standard_streams_may_be_closed(tmp_path: Path, arguments: str, status: int) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD))
    write(tmp_path / "cut.pcap", pcap(GOOD, GOOD)[:-5])
    result = run(tmp_path, arguments)
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")
    if status < 2:
        assert json_lines(flowbuf("read", tmp_path / "a.pb"))[0]["bytes"] == 300


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("encode a.pcap -o /dev/full", "/dev/full"),
        ("read a.pcap >/dev/full", "<stdout>"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("read a.pcap -f parquet -o /dev/full", "/dev/full"),
                ("query 'FROM flows' a.pcap >/dev/full", "<stdout>"),
                ("schema proto >/dev/full", "<stdout>"),
                ("read a.pcap -o /dev/full", "/dev/full"),
                ("generate --protocol=sflow --flows=9 -o /dev/full", "/dev/full"),
                ("encode a.pcap -o - >/dev/full", "<stdout>"),
                ("read a.pcap -f arrow >/dev/full", "<stdout>"),
                ("query 'FROM flows' a.pcap -o /dev/full", "/dev/full"),
                ("inspect a.pcap >/dev/full", "<stdout>"),
            ]
        ),
    ],
)
def test_a_full_disk_is_not_a_usage_error(tmp_path: Path, arguments: str, name: str) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD))
    result = run(tmp_path, arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"flowbuf: {name}: {os.strerror(errno.ENOSPC)}\n"


ENCODE, QUERY = ("encode", "-", "-o", "x.pb"), ("query", "SELECT count(*) FROM flows", "-", "-o", "x.csv")


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("arguments", "number", "status"),
    [
        (QUERY, signal.SIGINT, 130),
        (ENCODE, signal.SIGHUP, 129),
        pytest.param(ENCODE, signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(QUERY, signal.SIGTERM, 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_no_partial_file(
    tmp_path: Path, arguments: tuple[str, ...], number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(
        [*FLOWBUF, *arguments], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        process.stdin.write(pcap(GOOD))
        process.stdin.flush()
        assert end(process, number, lambda: list(tmp_path.iterdir())) == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("read", "-f", "arrow"), ("query", "FROM flows")])
def test_a_signal_during_an_import_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def import_module(name: str) -> ModuleType:
        with contextlib.suppress(KeyboardInterrupt):  # like Python's callbacks
            signal.raise_signal(signal.SIGINT)
        return real(name)

    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", import_module)
    assert flowbuf(*arguments, write(tmp_path / "a.pcap", pcap(GOOD))).exit_code == 130


@pytest.mark.parametrize("arguments", [*slow(("read", "a.pcap")), ("query", "FROM flows", "a.pcap")])
def test_a_signal_does_not_wait_for_the_reader_of_a_pipe(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write(tmp_path / "a.pcap", generated(flows=20000))
    with subprocess.Popen([*FLOWBUF, *arguments], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read(1)  # the command has started and soon fills the pipe
        time.sleep(0.5)
        process.terminate()
        assert process.wait(20) == 143


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert flowbuf("schema", "hash").exit_code == 0
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("read a.pcap -f json", "'table', 'jsonl', 'csv', 'parquet', 'arrow'; did you mean jsonl?"),
        ("generate --protocol v9 --flows 1 -o -", "'mixed'; did you mean netflow9?"),
        ("generate --protocol nf5 --flows 1 -o -", "'mixed'; did you mean netflow5?"),
        (
            "generate --protocol netflow --flows 1 -o -",
            "did you mean netflow1 or netflow5 or netflow7 or netflow9?",
        ),
        ("generate --protocol udp --flows 1 -o -", "'sflow', 'mixed'."),
    ],
)
def test_the_error_for_a_wrong_choice_suggests_another(line: str, fix: str) -> None:
    result = flowbuf(*line.split())
    assert (result.exit_code, result.stderr.endswith(f"{fix}\n")) == (2, True), result.stderr


def test_only_similar_options_are_suggested() -> None:
    said = flowbuf("encode", "a.pcap", "-o", "a.pb", "--where", "true").stderr.splitlines()[-1]
    assert "--where" in said
    assert "Did you mean" not in said
    assert "--help" not in flowbuf("read", "a.pcap", "--hel").stderr.splitlines()[-1]
    assert "--enable" in flowbuf("read", "a.pcap", "--enabel", "src_mac").stderr.splitlines()[-1]


def test_a_missing_file_is_a_usage_error_of_every_command(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    for command in ("read", "collect"):
        result = flowbuf(command, path)
        assert (result.exit_code, result.stderr) == (2, f"Error: {path}: No such file or directory\n")
