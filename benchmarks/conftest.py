"""Fixtures of the suites, and a summary in nanoseconds per flow."""

from __future__ import annotations

import re

import pytest

from benchmarks.datasets import NAMES, load
from flowbuf.bench import Workload


@pytest.fixture(params=NAMES)
def workload(request: pytest.FixtureRequest) -> Workload:
    found = load(request.param)
    if found is None:
        pytest.skip(f"{request.param} is missing; set FLOWBUF_CORPUS to the folder of captures")
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    found = [re.search(r"Skipped: (.* has no result: .*)'\)", reason) for reason in skipped]
    without = sorted({each[1] for each in found if each})
    if without:
        terminalreporter.section("peers without a result")
        for reason in without:
            terminalreporter.write_line(reason)
    session = getattr(config, "_benchmarksession", None)
    results = [
        each.extra_info for each in getattr(session, "benchmarks", []) if "ns_per_flow" in each.extra_info
    ]
    if results:
        terminalreporter.section("ns per flow: median, interquartile range")
        for info in results:
            known = ("dataset", "what", "flows", "ns_per_flow", "spread", "samples")
            more = ", ".join(
                f"{key} {value if isinstance(value, str) else format(value, ',')}"
                for key, value in info.items()
                if key not in known
            )
            figures = f"{info['ns_per_flow']:>10,.1f} {info['spread']:>8,.1f}"
            terminalreporter.write_line(f"{info['dataset']:20} {info['what']:30} {figures}   {more}")
