"""Decode many captures in parallel: each separately, into a file of its name, on all processors."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from typing import Any

import click

from flowbuf.cli.inputs import total_size
from flowbuf.cli.options import UsageProblem
from flowbuf.cli.output.failure import Failure, describe_os_error
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import check_overwrite, open_errors
from flowbuf.cli.reading import Reading
from flowbuf.cli.signals import held_signals
from flowbuf.errors import FlowbufError

__all__ = ["check_each", "read_each"]

SUFFIXES = (".gz", ".zst", ".pcap", ".pcapng", ".cap", ".dump", ".ipfix", ".nfcapd", ".pb")


def check_each(reading: Reading, inputs: Sequence[str], folders: Mapping[str, str], force: bool) -> None:
    """Raise UsageProblem for options that do not apply to separate inputs."""
    if "-" in inputs:
        raise UsageProblem("standard input has no name for a file in the folder; name an output file")
    if reading.form == "table":
        raise UsageProblem("a table cannot be written to a folder; choose another format")
    if reading.decoding.state:
        raise UsageProblem(
            "--state cannot be combined with a folder, whose captures are decoded separately; leave it out"
        )
    if reading.limit:
        raise UsageProblem("-n cannot be combined with a folder; leave it out, or name an output file")
    outputs = Counter(path for each in _outputs(reading, inputs, folders) for path in set(each.values()))
    shared = [name for name, count in outputs.items() if count > 1]
    if shared:
        raise UsageProblem(
            f"{shared[0]}: is the output of several inputs; rename them, or read them separately"
        )
    check_overwrite(force, *outputs)
    reading.prepare(inputs[:1], Report())  # report a problem of all inputs once, before the work


def _outputs(reading: Reading, inputs: Sequence[str], folders: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the outputs of each input: one in the folder of each kind of rows.

    Outputs have the same layout in the folder as inputs below their common folder.
    """
    places = [os.path.dirname(os.path.abspath(path)) for path in inputs]
    common = os.path.commonpath(places)
    names = [
        os.path.join(os.path.relpath(place, common), f"{_stem(path)}.{reading.form}")
        for place, path in zip(places, inputs, strict=True)
    ]
    return [
        {rows: os.path.normpath(os.path.join(folder, name)) for rows, folder in folders.items()}
        for name in names
    ]


def _stem(path: str) -> str:
    name = os.path.basename(path)
    while True:
        stem, suffix = os.path.splitext(name)
        if suffix not in SUFFIXES:
            return name
        name = stem


def read_each(reading: Reading, inputs: Sequence[str], folders: Mapping[str, str], report: Report) -> None:
    """Read every input into its file, or into one in the folder of each kind of rows.

    Report them in their order.
    """
    outputs = _outputs(reading, inputs, folders)
    tasks = [_Task(reading, path, each, report.notes) for path, each in zip(inputs, outputs, strict=True)]
    places = {os.path.dirname(path) for each in outputs for path in each.values()}
    size = flows = 0
    with _folders(places), show_progress(total_size(inputs)) as show:
        for task, outcome in zip(tasks, _run_all(tasks), strict=True):
            size += total_size([task.path]) or 0
            flows += outcome.flows
            show(size, flows)
            report.status = max(report.status, outcome.status)
            for line in outcome.lines:
                report.add_note(line)


@contextlib.contextmanager
def _folders(places: set[str]) -> Iterator[None]:
    """Create folders. At the end, remove those of them that are still empty."""
    made: list[str] = []
    try:
        with open_errors():
            for place in places:
                _make_folder(place, made)
        yield
    finally:
        for place in sorted(made, key=len, reverse=True):  # inner folders first
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(place)


def _make_folder(place: str, made: list[str]) -> None:
    """Create a folder and its missing parents. Add the new ones to `made`."""
    if place and not os.path.isdir(place):
        _make_folder(os.path.dirname(place), made)
        os.mkdir(place)
        made.append(place)


@dataclass(frozen=True)
class _Task:
    reading: Reading
    path: str
    outputs: Mapping[str, str]
    notes: bool


@dataclass
class _Outcome:
    status: int = 0
    flows: int = 0
    lines: list[str] = field(default_factory=list)


class _Lines(Report):
    """A report that collects its lines for another process."""

    def __init__(self, notes: bool) -> None:
        super().__init__(notes)
        self.lines: list[str] = []

    def add_note(self, text: str) -> None:
        self.lines.append(text)


def _run(task: _Task) -> _Outcome:
    """Read one input, in this process or in a worker."""
    outcome, report = _Outcome(), _Lines(task.notes)

    def show(size: int, flows: int) -> None:
        outcome.flows = flows

    try:
        task.reading.run([task.path], task.outputs, report, show)
    except click.ClickException as error:
        report.status = max(report.status, error.exit_code)
        report.add_note(error.message)
    except OSError as error:
        report.add_problem(describe_os_error(error))
    except FlowbufError as error:
        report.add_problem(str(error))
    outcome.status = report.status
    outcome.lines = [line if task.path in line else f"{task.path}: {line}" for line in report.lines]
    return outcome


# Processes --------------------------------------------------------------------------------------------------

EXIT_SECONDS = 1.0
"""Time in which a worker with no further task sends its last result and is ended in order."""

_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)

_stopped = False
_busy = threading.Lock()  # held while a worker reads an input


def _run_all(tasks: Sequence[_Task]) -> Iterator[_Outcome]:
    """Yield the outcomes in the order of the tasks."""
    workers = min(_processors(), len(tasks))
    if workers == 1:
        yield from map(_run, tasks)
        return
    context = multiprocessing.get_context("spawn")
    futures: list[Future[_Outcome]] = []
    with held_signals():  # its process keeps SIGHUP blocked, and so ends in order after the others
        resource_tracker.ensure_running()
    with ProcessPoolExecutor(workers, context, initializer=_begin) as pool:
        try:
            _start(pool, tasks, futures)
            for future in futures:
                yield future.result()
        except BaseException as error:
            stopped = any(map(_is_stopped, futures))  # before this process stops the workers
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            if not isinstance(error, (SystemExit, BrokenProcessPool)):
                raise
            problem = "a worker process ended abnormally; check that enough memory is free"
            if stopped:
                problem = "a signal ended a worker process; not all inputs were read"
            raise Failure(problem) from error


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start(pool: ProcessPoolExecutor, tasks: Sequence[_Task], futures: list[Future[_Outcome]]) -> None:
    """Start the workers. The signals that `_begin` ignores stay blocked in them until then."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
    try:
        futures += [pool.submit(_run_unless_stopped, task) for task in tasks]
        # The pool may have begun to wait before it started its last worker, and then does not notice that
        # this worker ends. After another task, it waits for all workers.
        pool.submit(os.getpid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_stopped(future: Future[_Outcome]) -> bool:
    """Return True if a signal has ended the worker of a task."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), SystemExit)


def _begin() -> None:
    """Prepare a worker.

    SIGTERM unwinds its current task, so that no partial file stays. It starts no further task. Signals that a
    terminal sends to all processes are ignored: the first process gets them too, and sends SIGTERM.
    """
    reader, writer = os.pipe()

    def stop(number: int, frame: Any) -> None:
        global _stopped
        _stopped = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.unraisablehook = lambda problem: None  # of a destructor in which the signal arrives
        os.write(writer, b"\0")
        raise SystemExit

    for number in _OF_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_end_if_left, args=(reader,), daemon=True).start()


def _end_if_left(stopped: int) -> None:
    """End this worker after a signal, or when the first process was killed.

    Without this, it would wait for tasks without end, also if the pool waits for its end.
    """
    parent = multiprocessing.parent_process()
    assert parent
    connection.wait([parent.sentinel, stopped])
    if not _stopped:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    with _busy:  # the task removes its partial files
        pass
    time.sleep(EXIT_SECONDS)
    os._exit(1)


def _run_unless_stopped(task: _Task) -> _Outcome:
    """Read one input. Raise SystemExit if a signal has ended this worker."""
    with _busy:
        if _stopped:
            raise SystemExit
        return _run(task)
