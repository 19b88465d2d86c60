"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real captures and what other collectors made of them. They are not the project's to ship."""
    folder = os.environ.get("FLOWBUF_CORPUS")
    if not folder:
        pytest.skip("FLOWBUF_CORPUS does not name the folder of captures")
    return Path(folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where everything that the tests can use is installed, a skip hides something."""
    if os.environ.get("FLOWBUF_FORBID_SKIPS") and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("FLOWBUF_FORBID_SKIPS: no test may be skipped here", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("FLOWBUF_FORBID_SKIPS") and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        session.exitstatus = 1
