"""The demonstration sends flows of a capture through a real broker into ClickHouse's engine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_demonstration_stores_all_flows(broker: Broker) -> None:
    """The demonstration starts its own broker. The fixture downloads the programs for it."""
    pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")
    done = subprocess.run(
        [sys.executable, ROOT / "examples/pipeline.py"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    decoded, delivered, stored = re.fullmatch(
        r"decoded=(\d+) delivered=(\d+) clickhouse=(\d+)", done.stdout.splitlines()[-1]
    ).groups()  # type: ignore[union-attr]
    assert decoded == delivered == stored != "0"
