"""`flowbuf` itself: its help, its version, and how every command ends."""

from __future__ import annotations

import importlib.metadata
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import GOOD, flowbuf, generated, pcap, write

from flowbuf.cli.main import COMMANDS, main

FLOWBUF = [sys.executable, "-m", "flowbuf"]


def test_help_lists_the_commands() -> None:
    result = flowbuf("--help")
    assert result.exit_code == 0
    for name, text in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert text in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_begins_with_its_line_and_has_examples(name: str) -> None:
    result = flowbuf(name, "--help")
    assert COMMANDS[name] in " ".join(result.stdout.split())
    if name != "schema":
        assert "Examples:\n    flowbuf " + name in result.stdout


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from flowbuf.cli.main import main; main(['--help'], standalone_mode=False)\n"
        "assert not {'rich', 'flowbuf.cli.read', 'google.protobuf'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_version() -> None:
    assert flowbuf("--version").stdout.split()[-1] == importlib.metadata.version("flowbuf")


def test_python_m_flowbuf() -> None:
    result = subprocess.run([*FLOWBUF, "--help"], check=True, capture_output=True, text=True)
    assert result.stdout.startswith("Usage: flowbuf [OPTIONS] COMMAND")


def test_the_entry_point_is_main() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="flowbuf")
    assert entry.load() is main


def test_an_unknown_command_is_a_usage_error() -> None:
    result = flowbuf("raed")
    assert result.exit_code == 2
    assert "No such command 'raed'" in result.stderr


@pytest.mark.parametrize("arguments", [("read", "big.pcap"), ("generate", "--protocol=ipfix", "--flows=200000", "-o-")])
def test_a_closed_pipe_ends_it_quietly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
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


def test_an_interrupt_leaves_no_partial_file(tmp_path: Path) -> None:
    command = [*FLOWBUF, "encode", "-", "-o", "flows.pb"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(pcap(GOOD))
        process.stdin.flush()
        deadline = time.monotonic() + 20
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert list(tmp_path.iterdir()) == []
