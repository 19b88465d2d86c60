"""Many captures at once: patterns, one output file per capture, and files with a limited number of rows."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import GOOD, WITHOUT_TEMPLATE, end, flowbuf, generated, json_lines, pcap, write

SHIPPED = Path(__file__).parents[1] / "data"
CAPTURES = sorted(SHIPPED.glob("*.pcap"))
SFLOW, NETFLOW9 = SHIPPED / "generated-sflow.pcap", SHIPPED / "generated-netflow9.pcap"


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbuf.cli.many._processors", lambda: 1)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Patterns ---------------------------------------------------------------------------------------------------


def test_patterns_expand_to_files(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    paths = [write(tmp_path / name, pcap(GOOD)) for name in ("x.pcap", "a/y.pcap", "a/b/z.pcap")]
    every = flowbuf("read", *paths).stdout
    assert flowbuf("read", tmp_path / "**/*.pcap").stdout == every
    assert flowbuf("read", tmp_path / "a/?.pcap").stdout == flowbuf("read", paths[1]).stdout
    (count,) = json_lines(flowbuf("query", "SELECT count(*) AS n FROM flows", tmp_path / "**/[yz].pcap"))
    assert count == {"n": 2}
    assert flowbuf("encode", tmp_path / "**/*.pcap", "-o", tmp_path / "all.pb").exit_code == 0
    assert len(json_lines(flowbuf("read", tmp_path / "all.pb"))) == 3


def test_a_pattern_without_matches_is_a_usage_error(tmp_path: Path) -> None:
    result = flowbuf("read", tmp_path / "*.pcap")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {tmp_path}/*.pcap: no file matches this pattern\n",
    )


def test_an_existing_file_is_not_a_pattern(tmp_path: Path) -> None:
    path = write(tmp_path / "[a].pcap", pcap(GOOD))
    assert len(json_lines(flowbuf("read", path))) == 1


# One file per capture ---------------------------------------------------------------------------------------


def test_each_capture_becomes_a_file(tmp_path: Path) -> None:
    """On several processors, the captures are decoded in several processes."""
    result = flowbuf("read", *CAPTURES, "-o", f"{tmp_path}/out/")
    assert (result.exit_code, result.output) == (0, "")
    names = {path: path.name.partition(".")[0] + ".parquet" for path in CAPTURES}
    assert files_in(tmp_path / "out") == sorted(names.values())
    for path, name in names.items():
        assert flowbuf("read", path, "-o", tmp_path / "same.parquet").exit_code in (0, 1)
        assert pq.read_table(tmp_path / "out" / name).equals(pq.read_table(tmp_path / "same.parquet")), path


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("form", ["jsonl", "csv", "arrow"])
def test_every_format_except_a_table_is_supported(tmp_path: Path, form: str) -> None:
    options = ("-f", form, "--where", "bytes > 500", "--columns", "bytes,src_addr")
    assert flowbuf("read", SFLOW, NETFLOW9, "-o", f"{tmp_path}/out/", *options).exit_code == 0
    assert files_in(tmp_path / "out") == [f"generated-netflow9.{form}", f"generated-sflow.{form}"]
    flowbuf("read", SFLOW, "-o", tmp_path / f"x.{form}", *options)
    assert (tmp_path / "out" / f"generated-sflow.{form}").read_bytes() == (
        tmp_path / f"x.{form}"
    ).read_bytes()


@pytest.mark.usefixtures("one_process")
def test_the_structure_of_folders_is_kept(tmp_path: Path) -> None:
    for name in ("in/a/x.pcap", "in/b/x.pcap", "in/y.pcap"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, pcap(GOOD))
    (tmp_path / "out").mkdir()
    assert flowbuf("read", tmp_path / "in/**/*.pcap", "-o", tmp_path / "out").exit_code == 0
    assert files_in(tmp_path / "out") == ["a/x.parquet", "b/x.parquet", "y.parquet"]


@pytest.mark.parametrize("processes", [1, 2])
def test_every_input_is_reported_and_the_worst_decides_the_status(
    tmp_path: Path, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowbuf.cli.many._processors", lambda: processes)
    contents = {"bad": b"bad", "good": pcap(GOOD), "lost": pcap(GOOD, WITHOUT_TEMPLATE), "none": pcap()}
    paths = [write(tmp_path / f"{name}.pcap", content) for name, content in contents.items()]
    result = flowbuf("read", *paths, "-o", f"{tmp_path}/out/")
    alone = [flowbuf("read", path) for path in paths]
    assert result.exit_code == 1
    lines = [line for each in alone for line in each.stderr.splitlines()]
    assert result.stderr.splitlines() == [*lines[:-1], f"flowbuf: {paths[-1]}: no flows"]
    assert files_in(tmp_path / "out") == ["good.parquet", "lost.parquet", "none.parquet"]
    strict = flowbuf("read", *paths, "-o", f"{tmp_path}/strict/", "--strict")
    assert (strict.exit_code, files_in(tmp_path / "strict")) == (1, ["good.parquet", "none.parquet"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-f", "table"), "a table cannot be written to a folder"),
        (("--state", "x.state"), "--state cannot be combined with a folder"),
        (("-n", "3"), "-n cannot be combined with a folder"),
        (("-",), "standard input"),
        (
            (SFLOW,),
            "generated-sflow.parquet: is the output of several inputs; rename them, or read them separately",
        ),
        (("--where", "nothing > 1"), "--where: "),
    ],
)
def test_options_for_one_output_are_usage_errors(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = flowbuf("read", SFLOW, *options, "-o", f"{tmp_path}/out/")
    assert (result.exit_code, files_in(tmp_path)) == (2, [])
    assert message in result.stderr


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGHUP, 129),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_no_partial_file(tmp_path: Path, number: signal.Signals, status: int) -> None:
    pipes = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for pipe in pipes:
        os.mkfifo(pipe)
    command = [sys.executable, "-m", "flowbuf", "read", *map(str, pipes), "-o", "out/"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        files = [open(pipe, "wb") for pipe in pipes]  # noqa: SIM115
        for file in files:
            file.write(pcap(GOOD))
            file.flush()
        assert end(process, number, lambda: len(files_in(tmp_path / "out")) == 2) == status
        for file in files:
            file.close()
    assert files_in(tmp_path / "out") == []


STOPPED_IN_A_DESTRUCTOR = """
import multiprocessing
import signal
from flowbuf.cli import many

class Writer:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
        print("unreached")

def work():
    many._begin()
    Writer()
    print("stopped", many._stopped)

multiprocessing.get_context("fork").Process(target=work).start()
"""


def test_a_signal_in_a_destructor_stops_a_worker_without_a_message() -> None:
    command = [sys.executable, "-c", STOPPED_IN_A_DESTRUCTOR]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("stopped True\n", "")


@pytest.mark.usefixtures("hangups")
def test_a_signal_to_a_worker_is_an_error(tmp_path: Path) -> None:
    """Workers ignore SIGHUP, which a terminal sends to each process. SIGTERM ends the command."""
    with reading_pipes(tmp_path) as (process, (worker, _)):
        os.kill(worker, signal.SIGHUP)
        time.sleep(0.3)  # in which a signal that is not ignored would end the worker
        assert process.poll() is None
        os.kill(worker, signal.SIGTERM)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, files_in(tmp_path)) == (1, [])
    assert error == "flowbuf: a signal ended a worker process; not all inputs were read\n"


def test_a_killed_worker_is_an_error(tmp_path: Path) -> None:
    with reading_pipes(tmp_path) as (process, (worker, other)):
        os.kill(worker, signal.SIGKILL)
        _, error = process.communicate(timeout=20)
        assert not Path(f"/proc/{other}").exists()
    assert process.returncode == 1
    assert error == "flowbuf: a worker process ended abnormally; check that enough memory is free\n"


def test_workers_end_if_the_command_is_killed(tmp_path: Path) -> None:
    with reading_pipes(tmp_path) as (process, _):
        process.kill()
        process.communicate(timeout=20)  # which waits until all processes have closed standard error
    assert files_in(tmp_path) == []


@pytest.mark.usefixtures("hangups")
def test_a_closed_terminal_ends_all_processes_without_a_message(tmp_path: Path) -> None:
    """A terminal sends SIGHUP to each process."""
    with reading_pipes(tmp_path) as (process, _):
        os.killpg(process.pid, signal.SIGHUP)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, error, files_in(tmp_path)) == (129, "", [])


@contextlib.contextmanager
def reading_pipes(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Run a command that reads two captures, which do not end. Yield it and its workers."""
    pipes = [folder / "a.pcap", folder / "b.pcap"]
    for pipe in pipes:
        os.mkfifo(pipe)
    command = [sys.executable, "-m", "flowbuf", "read", *map(str, pipes), "-o", "out/"]
    with (
        subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        for file in [stack.enter_context(open(pipe, "wb")) for pipe in pipes]:
            file.write(pcap(GOOD))
            file.flush()
        stack.callback(process.kill)
        yield process, [reader_of(pipe) for pipe in pipes]


def reader_of(pipe: Path) -> int:
    """Return the other process that has this pipe open. Wait for it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for opened in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):  # the process has ended
                process = int(opened.parts[2])
                if process != os.getpid() and os.readlink(opened) == str(pipe):
                    return process
        time.sleep(0.05)
    raise AssertionError("no process reads the pipe")


# Files with a limited number of rows ------------------------------------------------------------------------


def test_rows_per_file_splits_the_output(tmp_path: Path) -> None:
    one, other = (write(tmp_path / f"{seed}.pcap", generated(flows=250, seed=seed)) for seed in (1, 2))
    result = flowbuf("read", one, other, "-o", f"{tmp_path}/out/", "--rows-per-file", 200)
    assert (result.exit_code, result.output) == (0, "")
    assert files_in(tmp_path / "out") == [f"part-{number:05d}.parquet" for number in range(3)]
    parts = [pq.read_table(tmp_path / "out" / name) for name in files_in(tmp_path / "out")]
    assert [part.num_rows for part in parts] == [200, 200, 100]
    flowbuf("read", one, other, "-o", tmp_path / "x.parquet")
    assert (
        pa.concat_tables(parts)
        .combine_chunks()
        .equals(pq.read_table(tmp_path / "x.parquet").combine_chunks())
    )
    again = flowbuf("read", one, "-o", f"{tmp_path}/out/", "--rows-per-file", 200)
    assert again.exit_code == 2
    assert "part-00000.parquet: exists already; empty the folder, or name another" in again.stderr


def test_no_rows_give_one_file_with_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap())
    assert flowbuf("read", path, "-o", f"{tmp_path}/out/", "--rows-per-file", 200).exit_code == 0
    assert pq.read_table(tmp_path / "out/part-00000.parquet").num_rows == 0


def test_a_failure_leaves_no_partial_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(*[GOOD] * 5, WITHOUT_TEMPLATE))
    result = flowbuf("read", path, "-o", f"{tmp_path}/out/", "--rows-per-file", 2, "--strict")
    assert result.exit_code == 1
    assert files_in(tmp_path / "out") == ["part-00000.parquet", "part-00001.parquet"]
    assert "out/: stopped early; complete files: 2; the others are missing\n" in result.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_between_files_is_reported(tmp_path: Path, number: signal.Signals, status: int) -> None:
    write(tmp_path / "a.pcap", generated(flows=40_000))
    os.mkfifo(tmp_path / "pipe")
    command = [
        sys.executable,
        "-m",
        "flowbuf",
        "read",
        "a.pcap",
        "pipe",
        "-o",
        "out/",
        "--rows-per-file",
        "15000",
    ]
    message = "flowbuf: out/: stopped early; complete files: 2; the others are missing\n"
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert end(process, number, lambda: (tmp_path / "out/part-00001.parquet").exists(), message) == status
    assert files_in(tmp_path / "out") == ["part-00000.parquet", "part-00001.parquet"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "x.parquet"), "--rows-per-file needs a folder; write -o x.parquet/"),
        (
            ("-o", "out/", "-f", "csv"),
            "--rows-per-file cannot be combined with csv; use -f parquet or -f arrow",
        ),
    ],
)
def test_rows_per_file_requires_a_folder_of_column_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = flowbuf("read", SFLOW, "--rows-per-file", 10, *options)
    assert (result.exit_code, files_in(tmp_path)) == (2, [])
    assert message in result.stderr
