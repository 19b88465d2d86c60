"""System errors while an input is read: the flows before the error are kept, and the exit status is 1."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
import threading
import tty
from pathlib import Path

import pytest

import flowbuf as api
from tests.cli.test_cli_interrupt import flows_in
from tests.support.cases import slow
from tests.support.command import GOOD, flowbuf, pcap, write

ERROR = "Input/output error"
OUTPUTS = ("x.pb", "x.parquet", "x.jsonl", *slow("x.pb.gz", "x.arrow", "x.csv"))


def run(content: bytes, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard input fails with EIO after its content, like a terminal at its end."""
    master, slave = pty.openpty()
    tty.setraw(slave)

    def feed() -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(slave, left) :]
        os.close(slave)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        line = [sys.executable, "-m", "flowbuf", *arguments]
        return subprocess.run(
            line, cwd=folder, stdin=master, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        thread.join()
        os.close(master)


def command(output: str, *inputs: str) -> list[str]:
    return ["encode" if ".pb" in output else "read", *inputs, "-o", output]


@pytest.mark.parametrize("output", OUTPUTS)
def test_flows_before_an_error_are_written(tmp_path: Path, output: str) -> None:
    result = run(pcap(*[GOOD] * 300)[:-5], tmp_path, *command(output, "-"))
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 299 flows; the flows before it were written\n"
    assert result.returncode == 1
    assert flows_in(tmp_path / output) == 299


@pytest.mark.parametrize("output", OUTPUTS)
def test_other_inputs_are_read(tmp_path: Path, output: str) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = run(pcap(GOOD), tmp_path, *command(output, "a.pcap", "-", "a.pcap"))
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 1 flow; the flows before it were written\n"
    assert result.returncode == 1
    assert flows_in(tmp_path / output) == 5


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "content",
    [pcap(GOOD)[:20], *slow(b"", pcap(GOOD)[:2])],
)
def test_an_error_before_the_first_packet_leaves_no_output(
    tmp_path: Path, output: str, content: bytes
) -> None:
    write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = run(content, tmp_path, *command(output, "-"))
    assert result.returncode == 1
    assert result.stderr == f"flowbuf: <stdin>: {ERROR}\n"
    assert os.listdir(tmp_path) == ["a.pcap"]
    result = run(content, tmp_path, *command(output, "a.pcap", "-"))
    assert (result.returncode, result.stderr) == (1, f"flowbuf: <stdin>: {ERROR}\n")
    assert flows_in(tmp_path / output) == 2


def test_an_unreadable_input_does_not_stop_the_others(tmp_path: Path) -> None:
    """Linux returns EIO for the first byte of a process's memory."""
    a = write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = flowbuf("encode", a, "/proc/self/mem", a, "-o", tmp_path / "x.pb")
    assert (result.exit_code, result.stderr) == (1, f"flowbuf: /proc/self/mem: {ERROR}\n")
    assert flows_in(tmp_path / "x.pb") == 4


def test_strict_ends_at_an_error(tmp_path: Path) -> None:
    result = run(pcap(GOOD, GOOD), tmp_path, *command("x.pb", "-"), "--strict")
    assert (result.returncode, result.stderr) == (1, f"flowbuf: <stdin>: {ERROR} after 2 flows\n")
    assert os.listdir(tmp_path) == []


def test_compressed_data_before_an_error_is_kept(tmp_path: Path) -> None:
    result = run(gzip.compress(pcap(GOOD, GOOD))[:-8], tmp_path, *command("x.pb", "-"))
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 2 flows; the flows before it were written\n"
    assert flows_in(tmp_path / "x.pb") == 2


@pytest.mark.parametrize("output", ["x.jsonl", "x.parquet"])
def test_messages_before_an_error_are_written(tmp_path: Path, output: str) -> None:
    flowbuf("encode", write(tmp_path / "a.pcap", pcap(GOOD, GOOD)), "-o", tmp_path / "a.pb")
    result = run((tmp_path / "a.pb").read_bytes() + b"\x10abc", tmp_path, *command(output, "-"))
    assert result.returncode == 1
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 2 flows; the flows before it were written\n"
    assert flows_in(tmp_path / output) == 2


def test_a_query_uses_the_flows_before_an_error(tmp_path: Path) -> None:
    result = run(pcap(GOOD, GOOD), tmp_path, "query", "SELECT count(*) AS n FROM flows", "-", "-f", "jsonl")
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 2 flows; the flows before it were queried\n"
    assert (result.returncode, json.loads(result.stdout)) == (1, {"n": 2})


def test_inspect_shows_the_flows_before_an_error(tmp_path: Path) -> None:
    result = run(pcap(GOOD, GOOD)[:-5], tmp_path, "inspect", "-", "--json")
    assert result.stderr == f"flowbuf: <stdin>: {ERROR} after 1 flow\n"
    assert result.returncode == 1
    survey = json.loads(result.stdout)
    assert survey["exporters"][0]["flows"] == 1
    assert survey["capture"]["counters"] == {}
    result = run(b"", tmp_path, "inspect", "-")
    assert (result.returncode, result.stderr, result.stdout) == (1, f"flowbuf: <stdin>: {ERROR}\n", "")


class Failing:
    """A file object that fails after its content."""

    name = "failing"

    def __init__(self, content: bytes) -> None:
        self._left = content

    def read(self, size: int) -> bytes:
        if not self._left:
            raise OSError(5, ERROR)
        part, self._left = self._left[: min(size, 100)], self._left[min(size, 100) :]
        return part


def test_the_library_returns_the_flows_before_an_error() -> None:
    stream = api.read_capture(Failing(pcap(GOOD, GOOD)))  # type: ignore[arg-type]
    flows: list[int] = []
    with pytest.raises(api.CaptureError, match=f"failing: {ERROR}"):
        flows.extend(map(len, stream))
    assert sum(flows) == 2


def test_the_library_returns_the_messages_before_an_error(tmp_path: Path) -> None:
    flowbuf("encode", write(tmp_path / "a.pcap", pcap(GOOD, GOOD)), "-o", tmp_path / "a.pb")
    flows: list[int] = []
    stream = api.read_messages(Failing((tmp_path / "a.pb").read_bytes()))  # type: ignore[arg-type]
    with pytest.raises(OSError, match=ERROR):
        flows.extend(map(len, stream))
    assert sum(flows) == 2


def test_input_without_flows_is_reported_with_its_most_frequent_reason(tmp_path: Path) -> None:
    capture = write(tmp_path / "c.pcap", pcap(GOOD, GOOD, GOOD))
    other_port = "3 other_port: a UDP datagram to another port than asked for"
    for arguments in (["read", capture], ["encode", capture, "-o", tmp_path / "x.pb", "--force"]):
        result = flowbuf(*arguments, "--port", 9)
        assert (result.exit_code, result.stderr) == (0, f"flowbuf: no flows; {other_port}\n")
    result = flowbuf("top", "src_addr", write(tmp_path / "c.pcap", pcap(b"dns", GOOD, b"dns")), "--port", 9)
    assert "flowbuf: no flows; 3 other_port" in result.stderr
    result = flowbuf("read", write(tmp_path / "c.pcap", pcap(b"dns", b"dns")))
    assert (
        result.stderr == "flowbuf: no flows; 2 other_packet: not a UDP datagram, or not of a flow protocol\n"
    )


def test_input_without_options_is_reported(tmp_path: Path) -> None:
    capture = write(tmp_path / "c.pcap", pcap(GOOD, GOOD))
    assert flowbuf("read", capture, "--options").stderr == (
        "flowbuf: no options records; the input has no options of NetFlow v9 or IPFIX, "
        "but samples or datagrams of flows: 2\n"
    )
