"""Programs on a pseudo-terminal, whose screen a terminal emulator shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyte

__all__ = ["Terminal"]

ALTERNATE = ("\x1b[?1049h", "\x1b[?1049l")


class Terminal:
    """Run a command on a pseudo-terminal inside a `with` block. The command is killed at its end.

    Attributes:
        process: The command.
        screen: Screen of the emulator.
        text: Everything that the command has written.
    """

    def __init__(
        self, command: Sequence[str], columns: int = 80, lines: int = 24, folder: Path | None = None
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.text = ""
        self._stream = pyte.Stream(self.screen)
        self._master, self._slave = pty.openpty()
        self._open: tuple[int, ...] = (self._slave, self._master)
        self.resize(columns, lines, redraw=False)
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as a window that is closed. Another call does nothing."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = ()

    def resize(self, columns: int, lines: int, redraw: bool = True) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if redraw:
            self.screen.resize(lines, columns)
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def lines(self) -> list[str]:
        """Lines of the screen, without spaces at their ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def modes(self) -> list[Any]:
        """Attributes of the terminal, without the state of its buffers."""
        return termios.tcgetattr(self._slave)

    @property
    def has_alternate_screen(self) -> bool:
        entered, left = (self.text.rfind(sequence) for sequence in ALTERNATE)
        return entered > left

    def read(self, seconds: float = 0.05) -> None:
        """Show what the command writes within so many seconds."""
        while select.select([self._master], [], [], seconds)[0]:
            text = os.read(self._master, 65536).decode(errors="replace")
            self.text += text
            self._stream.feed(text)
            seconds = 0.0

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Show what the command writes until a condition holds. Fail after 30 seconds."""
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, f"waited 30 seconds: {what}\n" + "\n".join(self.lines)
            self.read()

    def wait_for(self, text: str) -> None:
        """Wait until a line of the screen contains a text."""
        self.wait(lambda: any(text in line for line in self.lines), text)

    def finish(self) -> int:
        """Wait until the command ends, and return its status."""
        self.wait(lambda: self.process.poll() is not None, "the end of the command")
        self.read()
        return int(self.process.returncode)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C and the size reach the process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
