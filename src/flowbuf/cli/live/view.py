"""The live view of `flowbuf collect`: a thread that shows counters and reads keys."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flowbuf.arrow.batch import BATCH_ROWS
from flowbuf.cli.live.log import LiveLog
from flowbuf.cli.live.screen import Screen, make_screen
from flowbuf.cli.live.terminal import LiveTerminal
from flowbuf.cli.output.console import StdoutConsole
from flowbuf.cli.output.streams import is_terminal
from flowbuf.collect.config import LIVE, CollectConfig, OutputConfig
from flowbuf.collect.live import LiveSampler
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.outputs.top_talkers import TopTalkers, TopWindow, choose_top_columns
from flowbuf.collect.service import Service
from flowbuf.errors import ConfigError
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["LiveView"]

logger = logging.getLogger("flowbuf.collect")

REFRESH_SECONDS = 0.5
QUEUE_FLOWS = 4 * BATCH_ROWS
KEY_SECONDS = 0.1
JOIN_SECONDS = 5.0
MOST_ROWS = 200
MOST_MESSAGES = 20
MEASURES = {"b": "bytes", "p": "packets", "f": "flows"}
"""Measure of the top talkers by key."""


class LiveView:
    """Show the counters of a service and the top talkers until the service ends.

    The top talkers are an output of the service with a small queue that drops flows, so the view never delays
    the collector. The service does not count it.

    Args:
        log: Log whose messages are shown.

    Raises:
        ConfigError: standard output is not a terminal that can move its cursor.
    """

    def __init__(self, log: LiveLog) -> None:
        if not is_terminal(sys.stdout):
            raise ConfigError("--live: standard output is not a terminal; leave --live out, or use --metrics")
        if StdoutConsole().is_dumb_terminal:
            raise ConfigError("--live: the terminal cannot move its cursor; set TERM, for example to xterm")
        self._log = log
        self._config = CollectConfig()
        self._top: TopTalkers | None = None
        self._condition = ""
        self._measure = "bytes"
        self._last: Screen | None = None
        self._paused: Screen | None = None
        self._ending = threading.Event()

    def extend(self, config: CollectConfig, schema: Schema) -> CollectConfig:
        """Return a configuration with the output for the top talkers, and with "null:" if it has none.

        The top talkers include the flows of the first output that takes rows of this schema.

        Raises:
            ConfigError: an output writes to standard output, or a column is a list.
            SchemaError: a column does not exist.
        """
        outputs = config.outputs or (OutputConfig(to="null:"),)
        if any(output.to == "-" for output in outputs):
            raise ConfigError("--live needs standard output; replace the output - by a folder or null:")
        _, columns = choose_top_columns(schema, config.live_top)
        first = next((each for each in outputs if each.rows in ("", schema.rows)), OutputConfig())
        if first.enrich:  # a function may read any column of the output
            columns = (*(first.columns or (column.name for column in schema.enabled)), *columns)
        self._config = config
        top = OutputConfig(
            to=LIVE,
            where=first.where,
            enrich=first.enrich,
            columns=tuple(dict.fromkeys(columns)),
            queue_flows=QUEUE_FLOWS,
        )
        return replace(config, outputs=(*outputs, top))

    def new_output(self, output: OutputConfig, selection: FlowSelection) -> Output:
        """Return the output for the top talkers."""
        groups, _ = choose_top_columns(selection.schema, self._config.live_top)
        self._top = TopTalkers(selection.schema, groups, self._config.live_window, output.scaled)
        self._condition = output.where
        return self._top

    @contextlib.contextmanager
    def shown(self, service: Service) -> Iterator[None]:
        """Show the view inside the block. Restore the terminal at its end."""
        terminal = LiveTerminal()
        with terminal, _restored_before_quit(terminal):
            thread = threading.Thread(
                target=self._run, args=(service, terminal), name="flowbuf-live", daemon=True
            )
            thread.start()
            try:
                yield
            finally:
                self._ending.set()
                thread.join(JOIN_SECONDS)

    def _run(self, service: Service, terminal: LiveTerminal) -> None:
        """Show counters until the end. The collector continues after an error of the view."""
        sampler = LiveSampler(service)
        try:
            while not self._ending.is_set():
                self._draw(service, sampler, terminal)
                self._wait(service, terminal)
        except EOFError:  # the window was closed, so nobody could end the collector
            service.stop()
        except Exception as error:
            terminal.restore()
            self._log.release()
            logger.exception("the live view has ended after an error: %s", error)

    def _wait(self, service: Service, terminal: LiveTerminal) -> None:
        """Wait for a key, another size, the next refresh or the end."""
        size, due = terminal.size, time.monotonic() + REFRESH_SECONDS
        while time.monotonic() < due and terminal.size == size and not self._ending.is_set():
            keys = terminal.read_keys(KEY_SECONDS)
            for key in keys:
                self._press(key, service)
            if keys:
                return

    def _press(self, key: str, service: Service) -> None:
        if key == "q":
            service.stop()
        elif key == " ":
            self._paused = None if self._paused else self._last
        else:
            self._measure = MEASURES.get(key, self._measure)

    def _draw(self, service: Service, sampler: LiveSampler, terminal: LiveTerminal) -> None:
        self._last = Screen(
            sampler.read(),
            self._read_top(),
            self._measure,
            self._condition,
            self._log.messages(MOST_MESSAGES),
            "stopping" if service.stopping else "",
            terminal.has_keys,
        )
        shown = self._last
        if self._paused and not service.stopping:
            shown = replace(self._paused, state="paused")
        terminal.show(make_screen(shown, *terminal.size))

    def _read_top(self) -> TopWindow:
        assert self._top is not None  # the service has created it
        return self._top.read(self._measure, MOST_ROWS)


@contextlib.contextmanager
def _restored_before_quit(terminal: LiveTerminal) -> Iterator[None]:
    """Restore the terminal inside the block before SIGQUIT ends the process, unless it is ignored."""
    before = signal.getsignal(signal.SIGQUIT)
    if before is signal.SIG_IGN:
        yield
        return

    def quit(number: int, frame: Any) -> None:
        terminal.restore()
        signal.signal(number, before)
        signal.raise_signal(number)

    signal.signal(signal.SIGQUIT, quit)
    try:
        yield
    finally:
        signal.signal(signal.SIGQUIT, before)
