"""Ctrl-C: `encode` and `read` write the flows of a pipe before it, and `collect` those it has received."""

from __future__ import annotations

import array
import contextlib
import csv
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from flowbuf.cli import collect
from flowbuf.collect.config import CollectConfig, OutputConfig
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.service import Service
from flowbuf.io.message_stream import MessageStream
from tests.decode.test_row_kinds import MIXED
from tests.support.cases import slow, slow_after
from tests.support.command import CUT_SHORT, GOOD, WITHOUT_TEMPLATE, pcap, write

FLOWBUF = (sys.executable, "-m", "flowbuf")
PATIENCE = 20
EVERYDAY = ("x.pb", "x.parquet")
OUTPUTS = [
    *EVERYDAY,
    *slow("x.csv", "x.pb.gz", "x.arrow", "x.jsonl", "x.csv.zst"),
]
PARTIAL = pcap(GOOD, GOOD, GOOD)[:-5]  # Ctrl-C comes in the middle of a packet


def command(output: str, *options: str) -> list[str]:
    return [*FLOWBUF, "encode" if ".pb" in output else "read", "-", "-o", output, *options]


def flows_in(path: Path) -> int:
    if ".pb" in path.name:
        with MessageStream(path) as stream:
            flows = sum(map(len, stream))
            assert stream.fault == ""
        return flows
    if path.suffix == ".parquet":
        return int(pq.read_table(path).num_rows)
    if path.suffix == ".arrow":
        return int(pyarrow.ipc.open_file(path).read_all().num_rows)
    if path.suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        with open(path, "rb") as file:
            text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    else:
        text = path.read_text()
    lines = text.splitlines()
    if path.suffix == ".jsonl":
        return len([json.loads(line) for line in lines])
    return len(list(csv.DictReader(lines)))


def start(folder: Path, output: str, content: bytes, *options: str) -> subprocess.Popen[bytes]:
    """Start a command. Return it after it has read the content, while it waits for more."""
    process = subprocess.Popen(
        command(output, *options),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(content)
    process.stdin.flush()
    deadline = time.monotonic() + PATIENCE
    while unread(process) or (
        output != "-" and not any(name.endswith(".tmp") for name in os.listdir(folder))
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    wait_until_asleep(process)
    return process


def wait_until_asleep(process: subprocess.Popen[bytes]) -> None:
    """Wait until the main thread of a process waits for input: it uses no processor time for 60 ms."""
    activity = Path("/proc", str(process.pid), "schedstat")
    if not activity.exists():  # another system than Linux
        time.sleep(0.3)
        return
    before, deadline = "", time.monotonic() + PATIENCE
    while (now := activity.read_text()) != before:
        assert time.monotonic() < deadline
        before = now
        time.sleep(0.06)


def unread(process: subprocess.Popen[bytes]) -> int:
    """Return the number of unread bytes in the pipe to a process."""
    size = array.array("i", [0])
    assert process.stdin
    fcntl.ioctl(process.stdin, termios.FIONREAD, size)
    return size[0]


def end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    status = process.wait(PATIENCE)
    assert process.stdin
    assert process.stdout
    assert process.stderr
    message = process.stderr.read().decode()
    for file in (process.stdin, process.stdout, process.stderr):
        file.close()
    return status, message


def test_non_blocking_input_is_read_to_its_end() -> None:
    """An empty pipe that its reader shares with a program of asynchronous I/O does not end the input."""
    source, sink = os.pipe()
    os.set_blocking(source, False)
    arguments = [*FLOWBUF, "top", "src_addr", "-", "-f", "csv"]
    content = pcap(GOOD, GOOD, GOOD)
    with (
        open(sink, "wb", buffering=0) as file,
        subprocess.Popen(arguments, stdin=source, stdout=subprocess.PIPE) as process,
    ):
        os.close(source)
        process.stdin = file
        file.write(content[:-5])
        deadline = time.monotonic() + PATIENCE
        while unread(process):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        wait_until_asleep(process)
        file.write(content[-5:])
        output, _ = process.communicate(timeout=PATIENCE)
    assert output.decode().splitlines()[1:] == ["198.51.100.1,900,6,3,1.0"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_interrupt_writes_the_flows_before_it(tmp_path: Path, output: str) -> None:
    process = start(tmp_path, output, PARTIAL)
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "flowbuf: interrupted: 2 flows written\n")
    assert flows_in(tmp_path / output) == 2
    proto = {f"{output}.proto"} if ".pb" in output else set()
    assert set(os.listdir(tmp_path)) == {output, *proto}


@pytest.mark.parametrize("output", ["x-{rows}.parquet", *slow("x-{rows}.csv")])
def test_an_interrupt_writes_each_kind_of_rows(tmp_path: Path, output: str) -> None:
    options = ("--rows", "flows,counters", "--where", "exporter_address = '192.0.2.200'", "-n", "5")
    process = start(tmp_path, output, pcap(MIXED, MIXED, MIXED)[:-5], *options)
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "flowbuf: interrupted: 5 flows, 4 counter samples written\n")
    for kind, count in (("flows", 5), ("counters", 4)):
        assert flows_in(tmp_path / output.replace("{rows}", kind)) == count
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("output", ["x.pb", "x.parquet", *slow("x.jsonl")])
def test_packets_buffered_by_the_writer_are_read(tmp_path: Path, output: str) -> None:
    """tcpdump also gets the signal, writes its buffer and ends."""
    process = start(tmp_path, output, pcap(GOOD))
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.stdin
    process.stdin.write(pcap(GOOD, GOOD)[24:])
    process.stdin.close()
    assert end(process) == (130, "flowbuf: interrupted: 3 flows written\n")
    assert flows_in(tmp_path / output) == 3


TCPDUMP = """
import signal, sys, time
def end(number, frame):
    {before}
    sys.stdout.buffer.write(rest); sys.stdout.flush(); sys.exit(0)
data = open("a.pcap", "rb").read(); rest = data[-40:]
signal.signal(signal.SIGINT, end)
sys.stdout.buffer.write(data[:-40]); sys.stdout.flush()
open("ready", "w").close()
while True: time.sleep(0.05)
"""


@pytest.mark.parametrize("before", ["pass", *slow("time.sleep(0.3)")])
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_interrupted_process_group_writes_all_flows(tmp_path: Path, output: str, before: str) -> None:
    """The shell interrupts the job. The writer of the pipe ends before or after flowbuf gets the signal."""
    write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    write(tmp_path / "tcpdump.py", TCPDUMP.format(before=before).encode())
    line = f"{sys.executable} tcpdump.py | {' '.join(command(output))}; exit ${{PIPESTATUS[1]}}"
    shell = subprocess.Popen(
        ["bash", "-c", f"trap : INT; {line}"], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE
    while not ((tmp_path / "ready").exists() and any(name.endswith(".tmp") for name in os.listdir(tmp_path))):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.4)
    os.killpg(shell.pid, signal.SIGINT)
    _, stderr = shell.communicate(timeout=PATIENCE)
    assert (shell.returncode, stderr.decode()) == (130, "flowbuf: interrupted: 2 flows written\n")
    assert flows_in(tmp_path / output) == 2


def test_an_endless_writer_does_not_delay_the_end(tmp_path: Path) -> None:
    process = start(tmp_path, "x.pb", pcap(GOOD))
    assert process.stdin
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() < began + 5
        try:
            process.stdin.write(pcap(GOOD)[24:])
            process.stdin.flush()
        except BrokenPipeError:
            break
        time.sleep(0.001)
    status, message = end_broken(process)
    assert status == 130
    assert message == f"flowbuf: interrupted: {flows_in(tmp_path / 'x.pb'):,} flows written\n"


def end_broken(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    return end(process)


@pytest.mark.parametrize("output", ["x.pb", "x.parquet", *slow("x.csv")])
def test_a_second_interrupt_ends_at_once(tmp_path: Path, output: str) -> None:
    process = start(tmp_path, output, pcap(GOOD))
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "")
    assert time.monotonic() - began < 0.6
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("output", ["x.parquet", *slow("x.pb")])
def test_an_interrupt_before_any_input_leaves_no_file(tmp_path: Path, output: str) -> None:
    process = start(tmp_path, output, b"")
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "flowbuf: interrupted: 0 flows written\n")
    assert os.listdir(tmp_path) == []


def test_standard_output_is_completed(tmp_path: Path) -> None:
    process = start(tmp_path, "-", pcap(GOOD), "-f", "parquet")
    process.send_signal(signal.SIGINT)
    assert process.stdout
    content = process.stdout.read()
    assert end(process) == (130, "flowbuf: interrupted: 1 flow written\n")
    assert pq.read_table(pyarrow.BufferReader(content)).num_rows == 1


@pytest.mark.parametrize("content", [pcap(GOOD, CUT_SHORT), *slow(pcap(GOOD, WITHOUT_TEMPLATE))])
def test_faults_are_still_reported(tmp_path: Path, content: bytes) -> None:
    process = start(tmp_path, "x.csv", content)
    process.send_signal(signal.SIGINT)
    status, message = end(process)
    fault, last = message.splitlines()
    assert (status, "192.0.2.1: 1 " in fault) == (130, True)
    assert last == f"flowbuf: interrupted: {flows_in(tmp_path / 'x.csv')} flows written".replace(
        "1 flows", "1 flow"
    )


def test_strict_keeps_the_flows_before_an_interrupt(tmp_path: Path) -> None:
    process = start(tmp_path, "x.csv", PARTIAL, "--strict")
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "flowbuf: interrupted: 2 flows written\n")
    assert flows_in(tmp_path / "x.csv") == 2


def test_state_is_saved_at_an_interrupt(tmp_path: Path) -> None:
    process = start(tmp_path, "x.pb", pcap(GOOD), "--state", "s.state")
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 130
    assert (tmp_path / "s.state").exists()


BETWEEN = """
import os, signal, sys
from flowbuf.cli.main import main

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name == "close" and code.co_filename.endswith("signals.py"):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(watch)
main()
"""


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_interrupt_between_two_inputs_ends_reading(tmp_path: Path, output: str) -> None:
    """The signal arrives after the end of standard input and before the next input is opened."""
    write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    write(tmp_path / "cut.pcap", pcap(GOOD, GOOD)[:-5])
    line = [sys.executable, "-c", BETWEEN, *command(output)[3:], "cut.pcap"]
    with open(tmp_path / "a.pcap", "rb") as content:
        result = subprocess.run(
            line, cwd=tmp_path, stdin=content, capture_output=True, timeout=PATIENCE, check=False
        )
    assert (result.returncode, result.stderr.decode()) == (130, "flowbuf: interrupted: 2 flows written\n")
    assert flows_in(tmp_path / output) == 2


@pytest.mark.parametrize("output", ["x.pb", "x.parquet", *slow("x.csv")])
@pytest.mark.parametrize("inputs", [["pipe", "-"], *slow(["pipe"], ["-", "pipe"])])
def test_a_file_is_complete_or_absent(tmp_path: Path, output: str, inputs: list[str]) -> None:
    """An interrupt before or after standard input is handled like one in any other input."""
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "a.pcap", pcap(GOOD))
    arguments = [each for part in command(output) for each in (inputs if part == "-" else [part])]
    with open(tmp_path / "a.pcap", "rb") as content:
        process = subprocess.Popen(arguments, cwd=tmp_path, stdin=content, stderr=subprocess.PIPE)
    with process, open(tmp_path / "pipe", "wb") as pipe:
        pipe.write(pcap(GOOD))
        pipe.flush()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr
        assert process.stderr.read() == b""
    assert set(os.listdir(tmp_path)) == {"pipe", "a.pcap"}


STARTING = """
import importlib.metadata, os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["flowbuf", "read", "--help"]
{start}
"""
STARTS = (
    "runpy.run_module('flowbuf', run_name='__main__')",
    "(script,) = importlib.metadata.entry_points(group='console_scripts', name='flowbuf');"
    " sys.exit(script.load()())",
)


@pytest.mark.parametrize("start", slow_after(1, STARTS))
@pytest.mark.parametrize(
    "module",
    ["click", "flowbuf._core", "flowbuf.schema", "flowbuf.cli.main", "flowbuf.cli.output", "flowbuf.io"],
)
def test_an_interrupt_during_the_imports_ends_the_command_silently(module: str, start: str) -> None:
    line = [sys.executable, "-c", STARTING.format(module=module, start=start)]
    result = subprocess.run(line, capture_output=True, timeout=PATIENCE, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_a_signal_that_is_sent_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends it to the process and to its group."""
    config = CollectConfig(listen=("127.0.0.1:0",), outputs=(OutputConfig(to="null:"),))
    service = Service(config, config.load_schemas(), lambda *_: NullOutput())
    with contextlib.closing(service.intake), collect._handled_signals(service):
        monkeypatch.setattr(collect, "REPEAT_SECONDS", 60)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert service.stopping
        monkeypatch.setattr(collect, "REPEAT_SECONDS", 0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
