"""Protect terminals: text from the input must not send commands to them.

Text is cleaned where it is written. The wrapped `sys.stdout` and `sys.stderr` clean all text. `StdoutConsole`
cleans the text between its styles. Tables and CSV clean their cells. JSON has escapes
(`flowbuf.targets.flow_text`), in pipes and files too. Messages on stderr also have escapes, so that each is
one line, even in a log.
"""

from __future__ import annotations

import sys
from typing import IO, Any

from flowbuf.targets.controls import CONTROLS

__all__ = ["clean_line", "clean_text", "cut_line", "escape_line", "guard_terminals", "terminal_of"]

_KEPT = "\n\t"


def clean_line(text: str) -> str:
    """Replace every control character by U+FFFD."""
    return CONTROLS.sub("\ufffd", text)


def cut_line(text: str, width: int) -> str:
    """Return a clean line of at most `width` characters. A longer one ends with `…`."""
    line = clean_line(text)
    return line if len(line) <= width else f"{line[: width - 1]}…"


def clean_text(text: str) -> str:
    """Replace every control character by U+FFFD, except for line ends and tabs."""
    return CONTROLS.sub(lambda found: found[0] if found[0] in _KEPT else "\ufffd", text)


def escape_line(text: str) -> str:
    """Return a text as one line. Control characters, such as those of a file name, become escapes (`\\n`)."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _TerminalText:
    """A text stream to a terminal that cleans the written text."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # as text streams do; click detects binary streams so
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.stream.write(clean_text(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guard_terminals() -> None:
    """Wrap the standard streams that are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, _TerminalText):
            setattr(sys, name, _TerminalText(stream))


def terminal_of(stream: IO[Any] | None) -> Any:
    """Return the unwrapped stream, for text with styles, such as a progress bar."""
    return stream.stream if isinstance(stream, _TerminalText) else stream
