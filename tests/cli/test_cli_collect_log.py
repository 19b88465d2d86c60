"""The log of `flowbuf collect`: forms, fields and the limit for repeated warnings."""

from __future__ import annotations

import io
import json
import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from flowbuf.cli import collect_log
from flowbuf.cli.collect_log import LimitedHandler, new_form
from tests.cli.test_cli_collect import collecting


class Log:
    """A logger whose lines and time a test controls."""

    def __init__(self, limit: int = 3, form: str = "text") -> None:
        self.now = 0.0
        self.file = io.StringIO()
        handler = LimitedHandler(limit, lambda: self.now)
        handler.setStream(self.file)
        handler.setFormatter(new_form(form))
        self.handler = handler
        self.logger = logging.Logger("test")
        self.logger.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        """Lines without their time."""
        return [line.split(" ", 1)[1] for line in self.file.getvalue().splitlines()]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.getvalue().splitlines()]


def test_repeated_warnings_are_counted() -> None:
    log = Log()
    for number in range(535):
        log.logger.warning("192.0.2.%d does not answer", number % 200)
    log.logger.error("another kind")
    assert log.lines == [*(f"warning: 192.0.2.{i} does not answer" for i in range(3)), "error: another kind"]
    log.now = 60
    log.logger.info("information")
    assert log.lines[4:] == ["warning: 192.0.2.134 does not answer … repeated 532 times", "info: information"]
    log.logger.warning("192.0.2.9 does not answer")
    assert log.lines[-1] == "warning: 192.0.2.9 does not answer"


def test_counts_are_written_at_the_end() -> None:
    log = Log(limit=1)
    for _ in range(2):
        log.logger.warning("a")
    log.handler.close()
    assert log.lines == ["warning: a", "warning: a … repeated once"]


def test_each_message_is_written_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of more kinds than the handler remembers."""
    monkeypatch.setattr(collect_log, "KINDS", 10)
    log = Log(limit=2, form="json")
    for number in range(3000):
        log.now += 0.1
        log.logger.warning("problem %s", "x" * (number * 7 % 40))
    assert len(log.handler._kinds) <= 11
    log.handler.close()
    counts = [each.get("repeated", 0) or 1 for each in log.objects]
    assert sum(counts) == 3000


def test_information_is_not_limited() -> None:
    log = Log(limit=1)
    for _ in range(5):
        log.logger.info("totals")
    assert len(log.lines) == 5


def test_a_limit_of_0_disables_it() -> None:
    log = Log(limit=0)
    for _ in range(50):
        log.logger.warning("a")
    assert len(log.lines) == 50


def test_json_has_the_output_and_the_listener() -> None:
    log = Log(limit=1, form="json")
    for output in ("kafka", "kafka", "archive"):
        log.logger.warning("full", extra={"output": output})
    log.logger.warning("small buffer", extra={"listener": "[::]:2055"})
    try:
        raise ValueError("bad")
    except ValueError as error:
        log.logger.error("failed: %s", error, exc_info=error)
    log.handler.close()
    lines = log.objects
    assert {tuple(line)[:3] for line in lines} == {("time", "level", "message")}
    shown = [{name: value for name, value in line.items() if name not in ("time", "level")} for line in lines]
    assert "ValueError: bad" in shown[3].pop("exception")
    assert shown == [
        {"message": "full", "output": "kafka"},
        {"message": "full", "output": "archive"},
        {"message": "small buffer", "listener": "[::]:2055"},
        {"message": "failed: bad"},
        {"message": "full … repeated once", "output": "kafka", "repeated": 1},
    ]


def test_sighup_names_the_keys_that_need_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "collector.toml"
    config = '{}\n[[output]]\nto = "null:"\n'
    path.write_text(config.format("interval = 1"))
    with collecting(tmp_path, str(path)) as running:
        assert running.address
        changes = 'interval = 2\nmetrics = "127.0.0.1:0"\nlog = "json"\nreport = "1h"\nworkers = 2'
        path.write_text(config.format(changes))
        running.process.send_signal(signal.SIGHUP)
        keys = running.find(r"warning: changes of (.*) need a restart")
    assert keys == "workers, interval, metrics, log"
