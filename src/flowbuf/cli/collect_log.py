"""The log of `flowbuf collect`: text or JSON on standard error, with a limit for repeated warnings."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from flowbuf.cli.output.terminal import escape_line

__all__ = ["LimitedHandler", "new_form", "start_log", "write_counts"]

_logger = logging.getLogger("flowbuf.collect")

FIELDS = ("output", "listener", "worker")
"""Attributes of a log record that are keys of JSON, if they are set."""

PERIOD = 60.0
"""Seconds in which messages of one kind are counted."""

KINDS = 1000
"""Most kinds of messages to remember."""


class _TextForm(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_moment(record)} {record.levelname.lower()}: {escape_line(record.getMessage())}"


class _JsonForm(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        values = {"time": _moment(record), "level": record.levelname.lower(), "message": record.getMessage()}
        for name in (*FIELDS, "repeated"):
            if hasattr(record, name):
                values[name] = getattr(record, name)
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values)


def _moment(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


class _Kind:
    """Messages of one kind in a period that begins with the first of them."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.count = 0
        self.last: logging.LogRecord | None = None  # the last one that was not written
        self.repeated = 0


class LimitedHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes warnings and errors of one kind at most `limit` times per minute, and counts the others.

    Messages that differ only in numbers are of one kind. The count follows with the next message after the
    minute, or at the end. Memory is bounded: of many kinds, the oldest are forgotten after their count is
    written.

    Args:
        limit: Most messages of one kind per minute. 0 disables the limit.
        clock: Clock without steps, in seconds.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._limit = limit
        self._clock = clock
        self._kinds: OrderedDict[tuple[object, ...], _Kind] = OrderedDict()  # by the begin of their periods

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, and the counts of periods that have ended. Count it if it is over the limit."""
        now = self._clock()
        while self._kinds and (_first(self._kinds).begin + PERIOD <= now or len(self._kinds) > KINDS):
            self._forget_first()
        if self._limit and record.levelno >= logging.WARNING:
            kind = self._kinds.setdefault(_kind_of(record), _Kind(now))
            kind.count += 1
            if kind.count > self._limit:
                kind.last, kind.repeated = record, kind.repeated + 1
                return
        super().emit(record)

    def _forget_first(self) -> None:
        """Forget the oldest kind, after its count is written."""
        _, kind = self._kinds.popitem(last=False)
        if kind.last is None:
            return
        times = "once" if kind.repeated == 1 else f"{kind.repeated:,} times"
        record = logging.makeLogRecord(kind.last.__dict__)
        record.msg, record.args = f"{record.getMessage()} … repeated {times}", ()
        record.repeated, record.exc_info = kind.repeated, None
        super().emit(record)

    def write_counts(self) -> None:
        """Write the counts of all periods, and begin new ones."""
        while self._kinds:
            self._forget_first()

    def close(self) -> None:
        """Write all counts."""
        self.write_counts()
        super().close()


def _first(kinds: OrderedDict[tuple[object, ...], _Kind]) -> _Kind:
    return next(iter(kinds.values()))


def _kind_of(record: logging.LogRecord) -> tuple[object, ...]:
    fields = (getattr(record, name, None) for name in FIELDS)
    return (record.levelno, re.sub(r"\d+", "#", record.getMessage())[:200], *fields)


def start_log(form: str, limit: int) -> None:
    """Write the messages of the collector to standard error.

    Args:
        form: "text" or "json".
        limit: Most warnings of one kind per minute. 0 disables the limit.
    """
    handler = LimitedHandler(limit)
    handler.setFormatter(new_form(form))
    _logger.handlers = [handler]
    _logger.setLevel(logging.INFO)
    _logger.propagate = False


def write_counts() -> None:
    """Write the counts of repeated warnings now."""
    for handler in _logger.handlers:
        if isinstance(handler, LimitedHandler):
            handler.write_counts()


def new_form(form: str) -> logging.Formatter:
    """Return the formatter of a form: "text" or "json"."""
    return _JsonForm() if form == "json" else _TextForm()
