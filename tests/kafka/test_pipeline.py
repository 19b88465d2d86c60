"""The documented examples send flows of a capture through a real broker into ClickHouse's engine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker, MakeTopic

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests/data/softflowd-ipfix.pcap"


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


@pytest.mark.parametrize("name", ["docs/python.md", "docs/kafka.md"])
def test_the_kafka_examples_work(broker: Broker, make_topic: MakeTopic, tmp_path: Path, name: str) -> None:
    topic = make_topic()
    blocks = [
        block
        for block in re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)
        if "Kafka" in block
    ]
    assert blocks
    for block in blocks:
        code = block.replace("192.0.2.1:9092", broker.servers).replace("capture.pcap", str(CAPTURE))
        code = code.replace('"flows"', f'"{topic}"').replace('group="mine"', 'group="mine", until_end=True')
        done = subprocess.run(
            [sys.executable, "-c", "import flowbuf\n" + code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "478" in done.stdout
