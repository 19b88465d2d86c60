"""Output files are written completely or not at all."""

from __future__ import annotations

import gzip
import io
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flowbuf.io.input_stream import Content
from flowbuf.io.output_file import OutputFile


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail(file: OutputFile, error: type[BaseException]) -> None:
    file.write(b"partial")
    raise error


def test_the_file_appears_at_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "flows.pb"
    with OutputFile(path) as file:
        file.write(b"one ")
        file.write(b"two")
        assert not path.exists()
        assert file.is_regular
    assert path.read_bytes() == b"one two"
    assert names(tmp_path) == ["flows.pb"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_an_error_leaves_the_folder_unchanged(
    tmp_path: Path, error: type[BaseException], suffix: str
) -> None:
    old = tmp_path / f"old{suffix}"
    old.write_bytes(b"before")
    for path in (old, tmp_path / f"new{suffix}"):
        with pytest.raises(error), OutputFile(path) as file:
            fail(file, error)
    assert names(tmp_path) == [old.name]
    assert old.read_bytes() == b"before"


def test_a_discarded_file_does_not_appear(tmp_path: Path) -> None:
    with OutputFile(tmp_path / "flows.pb") as file:
        file.write(b"partial")
        file.discard()
    assert names(tmp_path) == []


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_the_suffix_selects_the_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"flows.pb{suffix}"
    with OutputFile(path) as file:
        file.write(b"flow " * 1000)
    assert path.stat().st_size < 200
    with Content(path) as content:
        assert content.peek(6000) == b"flow " * 1000
        assert not content.fault


def test_gzip_output_contains_neither_name_nor_time(tmp_path: Path) -> None:
    contents = []
    for name in ("one.gz", "two.gz"):
        with OutputFile(tmp_path / name) as file:
            file.write(b"the same")
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]) == b"the same"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_follows_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with OutputFile(tmp_path / "flows.pb"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "flows.pb").stat().st_mode) == 0o666 & ~umask


def test_replacing_a_file_keeps_its_permissions_and_symbolic_links(tmp_path: Path) -> None:
    target, link = tmp_path / "target.pb", tmp_path / "link.pb"
    target.write_bytes(b"before")
    target.chmod(0o640)
    link.symlink_to(target)
    with OutputFile(link) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_is_written_to_instead_of_replaced() -> None:
    with OutputFile("/dev/null") as file:
        assert not file.is_regular
        file.write(b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_an_open_descriptor_is_written_at_its_position(tmp_path: Path, folder: str) -> None:
    """`>(command)` of a shell is such a path, and /dev/stdout of a loop that is redirected to one file."""
    if not os.path.isdir(folder):
        pytest.skip(f"there is no {folder}")
    with open(tmp_path / "all.csv", "wb", buffering=0) as shared:
        for content in (b"one ", b"two"):
            with OutputFile(f"{folder}/{shared.fileno()}") as file:
                assert not file.is_regular
                file.write(content)
    assert (tmp_path / "all.csv").read_bytes() == b"one two"
    assert names(tmp_path) == ["all.csv"]


def test_a_pipe_gets_bytes_at_once() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with OutputFile(f"/dev/fd/{writer}") as file:
        file.write(b"flows")
        assert os.read(reader, 10) == b"flows"
    os.close(reader)
    os.close(writer)


def test_a_closed_descriptor_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor: '/dev/fd/999999'"), OutputFile("/dev/fd/999999"):
        pass


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_standard_streams_have_names(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with OutputFile(f"/dev/{name}") as file:
        file.write(b"flows")
    assert getattr(capfd.readouterr(), name[3:]) == "flows"


def test_standard_output_is_flushed_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[type-var]
    with OutputFile("-") as file:
        file.write(b"flows")
    assert raw.getvalue() == b"flows"
    assert not sys.stdout.closed


def test_closed_standard_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="the stream is closed: '<stdout>'"), OutputFile("-"):
        pass


def test_a_failure_to_open_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "flows.pb.zst"
    monkeypatch.setattr("flowbuf.io.output_file.COMPRESSION_LEVEL", {})
    with pytest.raises(KeyError), OutputFile(path):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["missing/flows.pb", "."])
def test_an_error_names_the_file_as_given_by_the_caller(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(OSError) as caught, OutputFile(path):  # noqa: PT011
        pass
    assert caught.value.filename == path
    assert str(caught.value).endswith(f": {path!r}")  # without a second name


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full"), OutputFile("/dev/full") as file:
        file.write(b"too much")


UNBUFFERED = """
import signal, sys
from flowbuf.io.output_file import OutputFile

signal.signal(signal.SIGUSR1, lambda *arguments: None)
with OutputFile("-") as file:
    file.write(bytes(300_000))
"""


def test_a_signal_loses_no_standard_output() -> None:
    """Unbuffered output to a full pipe is written in parts: a signal interrupts write()."""
    command = [sys.executable, "-u", "-c", UNBUFFERED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        process.stdout.read(1)
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        assert 1 + sum(map(len, iter(lambda: process.stdout.read(1 << 16), b""))) == 300_000  # type: ignore[union-attr]


NON_BLOCKING = """
import sys
from flowbuf.io.output_file import OutputFile

with OutputFile(sys.argv[1]) as file:
    file.write(bytes(300_000))
"""


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_non_blocking_output_waits_for_its_reader(path: str) -> None:
    """Programs of asynchronous I/O make a pipe that they share with their children non-blocking."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", NON_BLOCKING, path]
    with subprocess.Popen(command, stdout=writer, env=environment) as process:
        os.close(writer)
        os.read(reader, 1)
        time.sleep(0.3)  # until the pipe is full
        assert 1 + sum(map(len, iter(lambda: os.read(reader, 1 << 16), b""))) == 300_000
    os.close(reader)
    assert process.returncode == 0


def test_a_durable_file_may_be_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with OutputFile(path, durable=True) as file:
        file.write(b"one")
    assert os.read(reader, 10) == b"one"
    os.close(reader)
    with OutputFile(tmp_path / "file", durable=True) as file:
        file.write(b"two")
    assert (tmp_path / "file").read_bytes() == b"two"
