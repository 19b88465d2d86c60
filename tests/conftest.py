"""Fixtures and hooks of all tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.strategies.basics  # noqa: F401  # loads the profile of Hypothesis, before tests are collected
from tests.support.broker import broker, group, make_topic, own_broker, own_registry, registry, topic
from tests.support.clickhouse.http import front

__all__ = ["broker", "front", "group", "make_topic", "own_broker", "own_registry", "registry", "topic"]

# A shell that runs the tests in the background may make them ignore SIGINT and SIGQUIT; child processes would
# inherit this.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Tests start Python hundreds of times, and every worker imports all tests. Without stored bytecode, each
# start would compile flowbuf again, and each worker would rewrite the assertions of all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Collection creates many objects that live until the end. The garbage collector skips them.
gc.disable()


SERVICES = {"broker", "own_broker", "registry", "own_registry", "front"}


LONGEST = "test_core_c.py"
"""The module that takes longest, with its expensive tests. Modules that start after it share the other
processor."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use a service as slow: it takes seconds to start. Put the longest module first."""
    for item in items:
        needs = SERVICES & set(getattr(item, "fixturenames", ()))
        if needs and not item.get_closest_marker("everyday"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.name != LONGEST)


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection. Some tests collect garbage hundreds of times."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist, the hook is unknown
def pytest_xdist_auto_num_workers() -> int:
    """Use one process more than processors. Tests of signals and brokers wait most of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def hangups() -> Iterator[None]:
    """Let commands end at SIGHUP. They ignore it if nohup has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real captures with the goldens of other collectors.

    The project cannot distribute them.
    """
    folder = os.environ.get("FLOWBUF_CORPUS")
    if not folder:
        pytest.skip("FLOWBUF_CORPUS does not name the folder of captures")
    return Path(folder)


def hidden(reporter: pytest.TerminalReporter) -> list[str]:
    """Return the reasons of skips that FLOWBUF_FORBID_SKIPS does not allow.

    Some reasons are allowed. The captures of FLOWBUF_CORPUS cannot be installed. The server of
    FLOWBUF_VERSITYGW and some peers of the benchmarks need a newer Go or Cargo than the system packages. A
    container may forbid mounts and networks. Raw sockets need a privilege.
    """
    if not os.environ.get("FLOWBUF_FORBID_SKIPS"):
        return []
    excuses = [name for name in ("FLOWBUF_CORPUS", "FLOWBUF_VERSITYGW") if not os.environ.get(name)]
    excuses += ["unshare cannot mount a file system here", "unshare cannot make a network here"]
    excuses += ["raw sockets need CAP_NET_RAW"]
    excuses += [f"which needs {tool}" for tool in ("go", "cargo") if not shutil.which(tool)]
    reasons = [str(report.longrepr) for report in reporter.stats.get("skipped", [])]
    return [reason for reason in reasons if not any(excuse in reason for excuse in excuses)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report forbidden skips. With everything installed, a skip would hide an untested feature."""
    for reason in hidden(terminalreporter):
        terminalreporter.write_line(f"FLOWBUF_FORBID_SKIPS: no test may be skipped here: {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter and hidden(reporter):
        session.exitstatus = 1
