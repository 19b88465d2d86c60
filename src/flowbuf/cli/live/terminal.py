"""The terminal of the live view: an alternate screen, and single keys without echo."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading
import time
from types import TracebackType
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from flowbuf.cli.output.console import StdoutConsole
from flowbuf.cli.output.streams import is_terminal

__all__ = ["LiveTerminal"]


LOCK_SECONDS = 1.0


class LiveTerminal:
    """Show text on the whole terminal inside a `with` block. Restore the terminal at its end.

    Ctrl-Z and Ctrl-S do nothing: a collector that is stopped loses datagrams. Without a terminal as standard
    input, there are no keys.
    """

    def __init__(self) -> None:
        self.has_keys = is_terminal(sys.stdin)
        self._before: list[Any] | None = None
        self._lock = threading.Lock()
        self._shown = False
        # An own file: characters that the terminal does not have become question marks.
        self._file = os.fdopen(
            os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding, errors="replace", newline=""
        )
        self._console = StdoutConsole(file=self._file)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveTerminal:
        if self.has_keys:
            self._before = termios.tcgetattr(sys.stdin)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, _without_echo(self._before))
        self._shown = True
        try:
            self._live.start()
        except BaseException:
            self.restore()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()
        with contextlib.suppress(OSError):
            self._file.close()

    def restore(self) -> None:
        """Show the earlier content of the terminal again. Another call does nothing."""
        locked = self._lock.acquire(timeout=LOCK_SECONDS)  # a signal handler must not wait forever
        try:
            if self._shown:
                self._shown = False
                self._restore()
        finally:
            if locked:
                self._lock.release()

    def _restore(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._live.stop()
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines at this moment."""
        return self._console.size.width, self._console.size.height

    def show(self, content: RenderableType) -> None:
        """Replace the content of the screen, until the terminal is restored.

        Raises:
            EOFError: the terminal is gone.
        """
        with self._lock:
            if self._shown:
                try:
                    self._live.update(content, refresh=True)
                except OSError as error:
                    raise EOFError from error

    def read_keys(self, seconds: float) -> str:
        """Wait for keys for so many seconds. Return them, or "". Arrows and other special keys are ignored.

        Raises:
            EOFError: the terminal is gone.
        """
        if not self.has_keys:
            time.sleep(seconds)
            return ""
        if not select.select([sys.stdin], [], [], seconds)[0]:
            return ""
        try:
            pressed = os.read(sys.stdin.fileno(), 64)
        except OSError as error:
            raise EOFError from error
        if not pressed:
            raise EOFError
        return "" if pressed.startswith(b"\x1b") else pressed.decode("latin-1")


def _without_echo(attributes: list[Any]) -> list[Any]:
    changed = list(attributes)
    changed[0] &= ~termios.IXON
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6] = list(changed[6])
    changed[6][termios.VSUSP] = os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE").to_bytes(1, "big")
    changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
    return changed
