"""Messages of the log while the live view has the terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from types import TracebackType

from flowbuf.cli.output.streams import is_terminal

__all__ = ["LiveLog"]

MAX_MESSAGES = 1000
"""Most messages that are kept for stderr."""


class LiveLog(logging.Handler):
    """Keep the messages of a logger for the view, inside a `with` block.

    If stderr is a terminal, the messages are written to it at the end of the block, and else at once.

    Args:
        logger: Logger whose handlers write to stderr.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger
        self._handlers = list(logger.handlers)
        self._holds = is_terminal(sys.stderr)
        self._records: deque[logging.LogRecord] = deque(maxlen=MAX_MESSAGES)

    def __enter__(self) -> LiveLog:
        self._logger.handlers = [self] if self._holds else [self, *self._handlers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Write the messages, and let the logger write the next ones at once."""
        self._logger.handlers = self._handlers
        if self._holds:
            self._holds = False
            for record in self._records:
                self._logger.handle(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self._records.append(record)

    def messages(self, count: int) -> list[tuple[str, str]]:
        """Return the level and the text, with the time in UTC, of the last messages."""
        return [
            (record.levelname.lower(), f"{_clock(record.created)} {record.getMessage()}")
            for record in list(self._records)[-count:]
        ]


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment))
