"""Processes of a measurement: pinned to a processor, with their CPU time, memory and receive queues."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from benchmarks.core_programs import Failed

__all__ = ["Queue", "Running", "pin", "read_cpu", "read_queue", "read_resident", "wait_until"]

Self = TypeVar("Self", bound="Running")

PATIENCE = 120.0
"""Longest time in seconds that a process may take to start, to become idle or to end."""

PROCESS_CLOCK = 2
"""Kind of clock that counts the CPU time of a whole process (CPUCLOCK_SCHED of Linux)."""


class Queue(NamedTuple):
    """Sockets of a UDP port: bytes that wait, and datagrams that the kernel has dropped."""

    waiting: int
    drops: int


def pin(processor: int, command: Sequence[object]) -> list[str]:
    """Return a command that runs on one processor, with all its threads and children."""
    return ["taskset", "--cpu-list", str(processor), *map(str, command)]


def list_tree(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants that run."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread has ended
            for child in path.read_text().split():
                yield from list_tree(int(child))


def read_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and of its descendants that run.

    The clock has nanoseconds, while /proc has hundredths of a second.
    """
    return sum(time.clock_gettime(~each << 3 | PROCESS_CLOCK) for each in list_tree(pid))


def read_resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    found = re.search(r"^VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def read_queue(port: int) -> Queue | None:
    """Return the state of the IPv4 sockets of a UDP port. None if it is closed."""
    waiting = drops = found = 0
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].partition(":")[2], 16) == port:
            waiting += int(fields[4].partition(":")[2], 16)
            drops += int(fields[-1])
            found += 1
    return Queue(waiting, drops) if found else None


def wait_until(done: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds. Raises Failed after `seconds`."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:.0f} s: {what}")
        time.sleep(0.01)


class Running:
    """A collector that runs: a process that receives datagrams at a port of 127.0.0.1.

    Use it as a context manager. The end of the block kills the process if it still runs.

    Args:
        name: Name of the collector.
        command: Its command.
        folder: Its working folder. The file `log` has standard error, and standard output if it is no pipe.
        port: Port at which it receives.
        window: Bytes that its receive buffer certainly holds. A sender that obeys it loses nothing.
        stdout: A pipe for standard output. Default: the log.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        port: int,
        window: int,
        stdout: int | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.window = window
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.wait_for_start()
        except BaseException:
            self.kill()
            raise

    def wait_for_start(self) -> None:
        """Wait until the process receives."""
        wait_until(
            lambda: self.has_ended() or read_queue(self.port) is not None, f"{self.name} does not listen"
        )
        if self.has_ended():
            raise Failed(f"{self.name} has ended: {self.read_log()[-1000:]}")

    def has_ended(self) -> bool:
        """Return True if the process has ended."""
        return self.process.poll() is not None

    def read_log(self) -> str:
        """Return its log."""
        return self.log.read_text(errors="replace")

    def read_cpu(self) -> float:
        """Return the CPU seconds until now."""
        return read_cpu(self.process.pid)

    def read_drops(self) -> int:
        """Return the datagrams that the kernel has dropped until now."""
        found = read_queue(self.port)
        if found is None:
            raise Failed(f"{self.name} does not listen any more: {self.read_log()[-1000:]}")
        return found.drops

    def wait_until_idle(self) -> None:
        """Wait until the process has received all datagrams that wait."""

        def is_empty() -> bool:
            found = read_queue(self.port)
            return found is None or not found.waiting

        wait_until(is_empty, f"{self.name} does not read its socket")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the process to end, and return its exit status. Raises Failed if it does not end."""
        self.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit status. Raises Failed if it does not end."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.name} does not end: {self.read_log()[-1000:]}") from error

    def kill(self) -> None:
        """Kill the process and its children, and release its pipe."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
