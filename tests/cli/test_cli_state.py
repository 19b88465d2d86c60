"""`--state FILE` keeps the state of exporters between runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowbuf import Decoder, load_state
from tests.support.command import CUT_SHORT, flowbuf, generated, pcap, write
from tests.support.datagrams import (
    data_set,
    netflow9,
    options_template9,
    options_template_set9,
    template,
    template_set9,
    u32,
)

DEFINITIONS = netflow9(
    template_set9(template(256, (1, 4), (2, 4))),
    options_template_set9(options_template9(257, [(1, 4)], [(34, 4)])),
    data_set(257, u32(0) + u32(100)),
)
FLOWS = 200  # more than Python buffers for a pipe
DATA = netflow9(data_set(256, u32(1500) + u32(2)))


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write(tmp_path / "first.pcap", pcap(DEFINITIONS))


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return write(tmp_path / "second.pcap", pcap(DATA))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder / "exporters.state"


@contextmanager
def reading_stdin(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run that reads a growing capture. Yield it after its first flow."""
    command = [sys.executable, "-m", "flowbuf", "read", "-", "--state", str(state)]
    pipe = subprocess.PIPE  # unbuffered, so that communicate() returns the rest
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(pcap(DEFINITIONS, *[DATA] * FLOWS))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"{")
        yield process


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process."""
    command = [sys.executable, "-m", "flowbuf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_next_run_has_the_templates_and_sampling_rates(first: Path, second: Path, state: Path) -> None:
    assert run("read", second).returncode == 1, "the templates are missing"
    assert run("read", first, "--state", state).returncode == 0
    result = run("read", second, "--state", state, "--scale")
    assert (result.returncode, result.stderr) == (0, "")
    flow = json.loads(result.stdout)
    assert (flow["sampling_rate"], flow["bytes"], flow["packets"]) == (100, 150000, 200)


@pytest.mark.parametrize("protocol", ["netflow9", "ipfix", "mixed"])
def test_two_halves_of_a_capture_decode_like_the_whole(tmp_path: Path, state: Path, protocol: str) -> None:
    whole = write(tmp_path / "whole.pcap", generated(protocol, 2000, exporters=4))
    content = whole.read_bytes()
    ends = [24]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 16 + int.from_bytes(content[ends[-1] + 8 : ends[-1] + 12], "little"))
    middle = ends[len(ends) // 2]
    halves = [
        write(tmp_path / "1.pcap", content[:middle]),
        write(tmp_path / "2.pcap", content[:24] + content[middle:]),
    ]
    expected = flowbuf("read", whole)
    assert expected.exit_code == 0
    found = [flowbuf("read", half, "--state", state) for half in halves]
    assert [result.exit_code for result in found] == [0, 0]
    assert "".join(result.stdout for result in found) == expected.stdout
    assert flowbuf("read", halves[1]).stdout != found[1].stdout or protocol == "mixed"


@pytest.mark.parametrize("command", [("read", "-n", 1), ("encode", "-o", "-"), ("read", "--strict")])
def test_state_is_saved_at_every_successful_end(
    tmp_path: Path, state: Path, command: tuple[object, ...]
) -> None:
    capture = write(tmp_path / "a.pcap", pcap(DEFINITIONS, DATA, DATA))
    name, *options = command
    assert flowbuf(name, capture, *options, "--state", state).exit_code == 0
    decoder = Decoder()
    assert load_state(decoder, state)
    assert len(decoder.messages(DATA, "192.0.2.1")) == 1


def test_state_is_saved_when_a_run_stops_at_a_fault(tmp_path: Path, state: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(DEFINITIONS, CUT_SHORT))
    assert flowbuf("read", capture, "--strict", "--state", state).exit_code == 1
    assert len(Decoder().messages(DATA, "192.0.2.1")) == 0
    decoder = Decoder()
    load_state(decoder, state)
    assert len(decoder.messages(DATA, "192.0.2.1")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_state_is_saved_when_a_run_is_interrupted(
    tmp_path: Path, state: Path, number: signal.Signals
) -> None:
    with reading_stdin(state) as process:
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    decoder = Decoder()
    assert load_state(decoder, state)
    assert len(decoder.messages(DATA, "192.0.2.1")) == 1
    assert os.listdir(state.parent) == ["exporters.state"]


def test_inspect_reads_the_state_without_changing_it(first: Path, second: Path, state: Path) -> None:
    flowbuf("read", first, "--state", state)
    before = state.read_bytes(), state.stat().st_mtime_ns
    assert flowbuf("inspect", second).exit_code == 1
    result = flowbuf("inspect", second, "--state", state, "--json")
    assert result.exit_code == 0
    (exporter,) = json.loads(result.stdout)["exporters"]
    assert (exporter["flows"], exporter["sampling_rates"]) == (1, [100])
    assert (state.read_bytes(), state.stat().st_mtime_ns) == before
    for missing, message in (
        (state.parent / "none", "No such file; write it with --state of flowbuf read"),
        ("-", "- is not a file; name a file"),
    ):
        result = flowbuf("inspect", second, "--state", missing)
        assert result.exit_code == 2
        assert message in result.stderr
    assert os.listdir(state.parent) == ["exporters.state"]


# Invalid state ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b'{"format": "flowbuf-state", "version": 1, "expor'])
def test_a_damaged_state_is_reported_and_replaced(
    first: Path, second: Path, state: Path, content: bytes
) -> None:
    write(state, content)
    result = flowbuf("inspect", first, "--state", state)
    assert (result.exit_code, state.read_bytes()) == (1, content)
    result = flowbuf("read", first, "--state", state)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {state}: damaged state: ")
    assert "; the file is ignored" in result.stderr
    assert flowbuf("read", second, "--state", state).exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is not a state file of flowbuf; move it, or name another"),
        (
            b'{"format": "flowbuf-state", "version": 2, "exporters": []}',
            "has version 2, which a newer flowbuf wrote",
        ),
    ],
)
@pytest.mark.parametrize("command", ["read", "encode", "inspect"])
def test_a_foreign_file_is_a_usage_error_and_stays(
    first: Path, state: Path, tmp_path: Path, content: bytes, message: str, command: str
) -> None:
    write(state, content)
    output = tmp_path / ("out.pb" if command == "encode" else "out.jsonl")
    options = [] if command == "inspect" else ["-o", output]
    result = flowbuf(command, first, "--state", state, *options)
    assert result.exit_code == 2
    assert f"{state}: {message}" in result.stderr
    assert state.read_bytes() == content
    assert not output.exists()


def test_a_capture_is_not_a_state_file(first: Path) -> None:
    before = first.read_bytes()
    assert flowbuf("read", first, "--state", first).exit_code == 2
    assert first.read_bytes() == before


def test_an_invalid_place_for_the_state_is_a_usage_error(first: Path, state: Path, tmp_path: Path) -> None:
    for place, message in [
        ("-", "--state: - is not a file; name a file"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "none" / "a.state", "does not exist; create it"),
        (state, "is also the output; write the state to another file"),
    ]:
        result = flowbuf("encode", first, "-o", state, "--state", place)
        assert result.exit_code == 2, place
        assert message in result.stderr
        assert not state.exists()


def test_flows_are_kept_if_the_state_cannot_be_written(state: Path) -> None:
    """A folder takes the place of the state file during the run."""
    with reading_stdin(state) as process:
        state.mkdir()
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert (
        errors.decode()
        == f"flowbuf: state not written: {state}: is not a regular file; name a regular file for the state\n"
    )
    assert rest.count(b"\n") == FLOWS - 1
