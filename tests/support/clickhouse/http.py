"""ClickHouse over HTTP for tests: run `front.py` as a process. conftest.py has the fixture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[3]


class ClickHouse:
    """One engine for all tests. Each test names its tables after itself."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, sql: str, path: str = "") -> str:
        """Return the rows of a statement, as tab-separated lines."""
        with urlopen(Request(self.url + path, sql.encode(), method="POST"), timeout=60) as answer:
            return str(answer.read().decode()).strip()

    def cause(self, trouble: str, times: int = 1) -> None:
        """Make the next inserts fail; see `front.py`."""
        self.ask("", f"/trouble?{trouble}={times}")


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")
    folder = tmp_path_factory.mktemp("clickhouse")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.clickhouse.front", folder],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout
        yield ClickHouse(process.stdout.readline().strip())
        process.kill()
