"""The pipeline of the lab (benchmarks/pipeline), by a real broker: exactly the records that are asked for, all decoded,
on one processor, in so much memory, or it says what went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from broker import Broker

from benchmarks.pipeline.load import PACK, Load
from benchmarks.pipeline.run import Failed, start

ROOT = Path(__file__).parent.parent
ONLY_LINUX = "a process is kept to one processor and its memory is watched on Linux alone"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason=ONLY_LINUX)
MEMORY = 512 * 2**20
FORMATS = "struct,json,pickle"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.pipeline", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


# What is in a topic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [1, 255, 300, 25_000])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["struct", "json"])
def test_a_topic_holds_exactly_the_records_asked_for(name: str, packed: bool, messages: int) -> None:
    load = Load("client_message", name, messages, packed)
    values = list(load.make_values())
    assert len(values) == load.values
    assert max(map(len, values)) <= PACK
    if packed:
        records = [record for value in values for record in load.coder.decode_batch(value)]
        assert load.a_pack * (len(values) - 1) < messages <= load.a_pack * len(values)
        assert messages < load.a_pack or max(map(len, values)) > PACK * 0.8
    else:
        records = list(map(load.coder.decode, values))
    assert len(records) == messages
    assert list(map(load.coder.restore, records)) == list(map(load.record_at, range(messages)))


@linux
@pytest.mark.parametrize("packed", [False, True])
def test_the_producer_fills_the_topic_and_ends(broker: Broker, topic: str, packed: bool) -> None:
    load = Load("record", "json", 3000, packed)
    said = start("producer", {"servers": broker.servers, "topic": topic, "load": load.to_dict()})
    values = broker.values(topic)
    assert values == list(load.make_values())
    assert said == {"octets": sum(map(len, values))}


# The consumer ---------------------------------------------------------------------------------------------------------


def drain(broker: Broker, topic: str, load: Load, decode: bool = True, memory: int = MEMORY) -> dict[str, Any]:
    given = {"servers": broker.servers, "topic": topic, "load": load.to_dict(), "decode": decode, "memory": memory}
    return start("consumer", given)


@linux
@pytest.mark.parametrize("packed", [False, True])
def test_the_consumer_drains_on_one_processor(broker: Broker, topic: str, packed: bool) -> None:
    load = Load("telemetry", "json", 20_000, packed)
    broker.produce(topic, list(load.make_values()))
    for decode in (True, False):
        said = drain(broker, topic, load, decode)
        assert said["processor"] in os.sched_getaffinity(0)
        assert 0 < said["cpu"] <= said["wall"] * 1.05 + 0.02, "more than one processor's time"
        assert 2**20 < said["peak"] < MEMORY


@linux
def test_other_records_are_no_result(broker: Broker, topic: str) -> None:
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values())[::-1])
    with pytest.raises(Failed, match=r"^ValueError: struct: record 0 is not what it was: "):
        drain(broker, topic, load)


@linux
def test_too_much_memory_is_a_failure(broker: Broker, topic: str) -> None:
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values()))
    with pytest.raises(Failed, match=r"^\d+ MiB were resident, and 8 are allowed$"):
        drain(broker, topic, load, memory=8 * 2**20)


# The command ----------------------------------------------------------------------------------------------------------


@linux
def test_every_format_is_drained_packed_and_not(broker: Broker, tmp_path: Path) -> None:
    before = set(broker.admin.list_topics().topics)
    path = tmp_path / "result.json"
    asked = ["--kafka", broker.servers, "--messages", "6000", "--formats", FORMATS, "--rounds", "2"]
    done = run(*asked, "--family", "client_message", "--json", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(path.read_text())
    assert (result["family"], result["messages"], result["rounds"]) == ("client_message", 6000, 2)
    assert result["machine"]["python"] == sys.version.split()[0]
    outcomes = {(each["format"], each["packed"]): each for each in result["outcomes"]}
    assert list(outcomes) == [(name, packed) for packed in (False, True) for name in FORMATS.split(",")]
    for (_, packed), each in outcomes.items():
        assert each["failed"] is None
        assert len(each["raw"]) == len(each["raw_cpu"]) == len(each["total"]) == len(each["cpu"]) == 2
        assert min(each["raw"] + each["raw_cpu"] + each["total"] + each["micro"]) > 0
        assert (each["records_in_a_message"] > 1) is packed
        assert each["records_per_second"] == pytest.approx(2e9 / sum(each["total"]), rel=0.001)
    assert all(f"\n{name} " in done.stdout for name in FORMATS.split(","))
    assert "× as much time as struct" in done.stdout
    left = set(broker.admin.list_topics().topics) - before
    assert left <= {"__consumer_offsets"}, "topics are gone at the end, but for the broker's own of its first consumer"


@linux
def test_a_failed_format_is_said_and_the_others_go_on(broker: Broker) -> None:
    """No Python with confluent-kafka fits into 8 MiB."""
    asked = ["--kafka", broker.servers, "--messages", "300", "--formats", "struct", "--rounds", "1", "--packing", "one"]
    done = run(*asked, "--memory", "8")
    assert done.returncode == 1
    assert "struct: failed: " in done.stdout
    assert "MiB were resident, and 8 are allowed" in done.stdout
    (outcome,) = json.loads(run(*asked, "--memory", "8", "--json", "-").stdout)["outcomes"]
    assert outcome["failed"].endswith("and 8 are allowed")
    assert "records_per_second" not in outcome


@linux
def test_what_is_wrong_with_the_command_line_is_said(tmp_path: Path) -> None:
    assert "no format is called morse; there are flowbuf, " in run("--kafka", "x", "--formats", "morse").stderr
    assert "0 is no number of at least 1" in run("--messages", "0").stderr
    assert run("--rounds", "many").returncode == 2
    text = run("--help").stdout
    assert "python -m benchmarks.pipeline --messages 100000 --rounds 1" in text
    assert "  msgspec-msgpack-struct-array\n" in text


@linux
def test_without_a_broker_there_is_no_file(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install --group test")
    asked = ["--kafka", "127.0.0.1:1", "--messages", "10", "--formats", "json"]
    done = run(*asked, "--json", str(tmp_path / "result.json"))
    assert done.returncode == 1
    assert done.stderr.startswith("pipeline: 127.0.0.1:1: ")
    assert list(tmp_path.iterdir()) == []
