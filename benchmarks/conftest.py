"""Prints what pytest-benchmark's own table does not: nanoseconds a flow."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = getattr(config, "_benchmarksession", None)
    rows = [(bench.name, bench.extra_info) for bench in getattr(session, "benchmarks", []) if bench.extra_info]
    if rows:
        terminalreporter.section("ns a flow: median (interquartile range)")
        for name, info in rows:
            line = (
                f"{name:55} {info['ns_per_flow']:8} ({info['ns_per_flow_iqr']})   {info['ns_per_call']:>12,} ns a call"
            )
            terminalreporter.write_line(line)
