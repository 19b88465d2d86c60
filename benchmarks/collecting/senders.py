"""Senders: the bare send loop (ext/bench/bare_sender.c), and `flowbuf replay`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from .processes import Running, pin
from .setting import Failed, Setting
from .traffic import Traffic

__all__ = ["BareSender", "Sent", "replay"]


class Sent(NamedTuple):
    """Datagrams that were sent, and the time it took in seconds."""

    datagrams: int
    seconds: float


class BareSender:
    """The bare send loop. It sends the datagrams of `first` at once, and those of `data` on request.

    Use it as a context manager.

    Attributes:
        first: Number of datagrams of `first`.
        data: Number of datagrams of `data` that were sent until now.
    """

    def __init__(self, setting: Setting, traffic: Traffic, running: Running) -> None:
        path = traffic.write(setting.new_folder("sender"))
        command = [setting.program("bare_sender"), path, str(running.port)]
        self._process = subprocess.Popen(
            pin(setting.sender, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.data = 0
        word, self.first = self._read()
        if word != "ready":
            raise Failed(f"the sender is not ready: {word}")
        self._traffic = traffic

    @property
    def total(self) -> int:
        """Number of all datagrams that were sent until now."""
        return self.first + self.data

    @property
    def flows(self) -> int:
        """Number of flows in all datagrams that were sent until now."""
        return self._traffic.count_flows(self.data)

    def send(self, seconds: float = 0, rate: float = 0, count: int = 0, window: int = 0) -> Sent:
        """Send datagrams of `data`.

        Args:
            seconds: Longest duration. 0: no limit.
            rate: Datagrams per second. 0: as fast as possible.
            count: Number of datagrams. 0: no limit.
            window: Wait while the receive queue holds more bytes. 0: never wait.
        """
        self.begin(seconds, rate, count, window)
        return self.finish()

    def begin(self, seconds: float = 0, rate: float = 0, count: int = 0, window: int = 0) -> None:
        """Begin to send. The arguments are those of `send`; `finish` waits for the end."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds} {rate} {count} {window}\n")
        self._process.stdin.flush()

    def finish(self) -> Sent:
        """Wait for the end of what `begin` has started."""
        datagrams, nanoseconds = self._read()
        self.data += int(datagrams)
        return Sent(int(datagrams), nanoseconds / 1e9)

    def _read(self) -> tuple[str, int]:
        assert self._process.stdout
        words = self._process.stdout.readline().split()
        if len(words) != 2:
            raise Failed(f"the sender ended with status {self._process.wait()}")
        return words[0], int(words[1])

    def __enter__(self) -> BareSender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def replay(setting: Setting, traffic: Traffic, running: Running, seconds: float, *options: str) -> Sent:
    """Send the datagrams with `flowbuf replay`, renumbered and in a circle. Raises Failed."""
    path = traffic.write_capture(setting.new_folder("replay"))
    command = [sys.executable, "-m", "flowbuf", "replay", str(path), "--to", f"127.0.0.1:{running.port}"]
    loop: Sequence[str] = ("--loop", "--renumber", "--duration", str(seconds))
    done = subprocess.run(pin(setting.sender, [*command, *loop, *options]), capture_output=True, text=True)
    found = re.search(r"sent=(\d+).* seconds=([\d.]+)", done.stdout)
    if done.returncode or not found:
        raise Failed(f"flowbuf replay: {done.stderr[-1000:]}")
    return Sent(int(found[1]), float(found[2]))
