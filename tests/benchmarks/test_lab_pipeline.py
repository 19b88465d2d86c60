"""The pipeline of the lab (benchmarks/pipeline) with a real broker.

It decodes exactly the requested records, on one processor and within the memory limit, or reports the
failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.machine import find_machine
from benchmarks.pipeline.cgroup import Group, find_parents, make_group
from benchmarks.pipeline.load import PACK, Load
from benchmarks.pipeline.run import Failed, start
from tests.support.broker import Broker

pytestmark = pytest.mark.expensive

ROOT = Path(__file__).parents[2]
ONLY_LINUX = "the pipeline needs Linux"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason=ONLY_LINUX)
MEMORY = 512 * 2**20
FORMATS = "struct,json,pickle"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.pipeline", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


# Contents of a topic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [1, 255, 300, 25_000])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["struct", "json"])
def test_a_topic_has_exactly_the_requested_records(name: str, packed: bool, messages: int) -> None:
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
    assert said == {"bytes": sum(map(len, values))}


# The consumer -----------------------------------------------------------------------------------------------


def drain(
    broker: Broker,
    topic: str,
    load: Load,
    decode: bool = True,
    memory: int = MEMORY,
    group: Group | None = None,
) -> dict[str, Any]:
    given = {
        "servers": broker.servers,
        "topic": topic,
        "load": load.to_dict(),
        "decode": decode,
        "memory": memory,
    }
    return start("consumer", given, group)


@linux
@pytest.mark.parametrize("packed", [False, True])
def test_the_consumer_uses_one_processor(broker: Broker, topic: str, packed: bool) -> None:
    load = Load("telemetry", "json", 20_000, packed)
    broker.produce(topic, list(load.make_values()))
    for decode in (True, False):
        said = drain(broker, topic, load, decode)
        assert said["processor"] in os.sched_getaffinity(0)
        assert 0 < said["cpu"] <= said["wall"] * 1.05 + 0.02, "more than one processor's time"
        assert 2**20 < said["peak"] < MEMORY


@linux
def test_wrong_records_are_a_failure(broker: Broker, topic: str) -> None:
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values())[::-1])
    with pytest.raises(Failed, match=r"^ValueError: struct: record 0 differs from the one produced: "):
        drain(broker, topic, load)


@linux
def test_too_much_memory_is_a_failure(broker: Broker, topic: str) -> None:
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values()))
    with pytest.raises(Failed, match=r"^\d+ MiB were resident; the limit is 8 MiB$"):
        drain(broker, topic, load, memory=8 * 2**20)


# The cgroup of the consumer ---------------------------------------------------------------------------------

VERSION_1 = "5:cpu,cpuacct:/elsewhere\n4:memory:{own}\n0::/\n"
VERSION_2 = "0::{own}\n"


def may_be_written() -> bool:
    """Return True if this user may create cgroups on this machine."""
    return any(os.access(parent, os.W_OK) for parent in find_parents())


def make_process(folder: Path, groups: str, kind: str, root: str = "/") -> Path:
    """Write the files in /proc of a process. The cgroups below `root` are mounted at "a mount"."""
    process = folder / "process"
    process.mkdir()
    (process / "cgroup").write_text(groups)
    point = str(folder / "a mount").replace(" ", r"\040")
    others = "23 1 8:1 / / rw - ext4 /dev/root rw\n33 31 0:30 / /nowhere rw,relatime - cgroup cgroup rw,cpu\n"
    options = "rw,memory" if kind == "cgroup" else "rw"
    (process / "mountinfo").write_text(
        f"{others}35 31 0:32 {root} {point} rw shared:9 - {kind} cgroup {options}\n"
    )
    return process


def make_tree(folder: Path, path: str, shared: str = "", pid: int | None = None) -> Path:
    """Create a group that contains this process. `shared`: controllers that the parent enables for it."""
    group = folder / "a mount" / path
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"1\n{pid or os.getpid()}\n")
    (group / "cgroup.subtree_control").write_text("\n")
    (group.parent / "cgroup.subtree_control").write_text(f"{shared}\n")
    return group


@pytest.mark.parametrize(("root", "path"), [("/", "box/own"), ("/box", "own"), ("/box/own", ".")])
def test_the_cgroup_of_the_process_is_found_at_any_mount_point(tmp_path: Path, root: str, path: str) -> None:
    group = make_tree(tmp_path, path)
    process = make_process(tmp_path, VERSION_1.format(own="/box/own"), "cgroup", root)
    assert list(find_parents(process)) == [group]


def test_version_2_creates_the_group_beside_the_one_of_the_process(tmp_path: Path) -> None:
    """In version 2, only the root may have processes and also enable memory limits for groups below it."""
    group = make_tree(tmp_path, "box/own", shared="cpu memory pids")
    process = make_process(tmp_path, VERSION_2.format(own="/box/own"), "cgroup2")
    assert list(find_parents(process)) == [group.parent]
    (group / "cgroup.subtree_control").write_text("memory\n")
    assert list(find_parents(process)) == [group, group.parent]


@pytest.mark.parametrize("shared", ["", "cpu pids", "memory.max"])
def test_no_cgroup_if_the_parent_does_not_enable_memory_limits(tmp_path: Path, shared: str) -> None:
    make_tree(tmp_path, "box/own", shared)
    process = make_process(tmp_path, VERSION_2.format(own="/box/own"), "cgroup2")
    assert list(find_parents(process)) == []


@pytest.mark.parametrize("root", ["/bo", "/other", "/box/own/below", "/.."])
@pytest.mark.parametrize(("groups", "kind"), [(VERSION_1, "cgroup"), (VERSION_2, "cgroup2")])
def test_no_cgroup_outside_the_mount(tmp_path: Path, groups: str, kind: str, root: str) -> None:
    make_tree(tmp_path, "box/own", shared="memory")
    assert list(find_parents(make_process(tmp_path, groups.format(own="/box/own"), kind, root))) == []


@pytest.mark.parametrize(("groups", "kind"), [(VERSION_1, "cgroup"), (VERSION_2, "cgroup2")])
def test_no_cgroup_of_another_process(tmp_path: Path, groups: str, kind: str) -> None:
    make_tree(tmp_path, "box/own", shared="memory", pid=2**30)
    assert list(find_parents(make_process(tmp_path, groups.format(own="/box/own"), kind))) == []
    assert list(find_parents(tmp_path / "no such process")) == []


def test_an_ordinary_folder_is_not_changed(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "own")
    before = sorted(folder.iterdir())
    process = make_process(tmp_path, VERSION_1.format(own="/own"), "cgroup")
    assert list(find_parents(process)) == [folder]
    with make_group(MEMORY, process) as group:
        assert group is None
    assert sorted(folder.iterdir()) == before


@linux
def test_the_kernel_kills_a_consumer_above_the_limit(broker: Broker, topic: str) -> None:
    """Python with confluent-kafka needs more than 8 MiB. Without a cgroup, the consumer succeeds."""
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values()))
    with make_group(8 * 2**20) as group:
        assert (group is not None) is may_be_written()
        if group:
            with pytest.raises(Failed, match=r"^the kernel killed it: more than 8 MiB in its cgroup$"):
                drain(broker, topic, load, group=group)
        else:
            assert drain(broker, topic, load, group=group)["peak"] < MEMORY
    assert group is None or not group.folder.exists()


@linux
def test_a_consumer_below_the_limit_is_not_killed(broker: Broker, topic: str) -> None:
    load = Load("client_message", "struct", 300, False)
    broker.produce(topic, list(load.make_values()))
    with make_group(MEMORY) as group:
        assert drain(broker, topic, load, group=group)["peak"] < MEMORY
        assert group is None or not group.has_killed()
        with pytest.raises(Failed, match=r"^\d+ MiB were resident; the limit is 8 MiB$"):
            drain(broker, topic, load, memory=8 * 2**20, group=group)
    assert group is None or not group.folder.exists()


# The command ------------------------------------------------------------------------------------------------


@linux
def test_every_format_is_measured_packed_and_single(broker: Broker, tmp_path: Path) -> None:
    before = set(broker.admin.list_topics().topics)
    path = tmp_path / "result.json"
    asked = ["--kafka", broker.servers, "--messages", "6000", "--formats", FORMATS, "--rounds", "2"]
    done = run(*asked, "--family", "client_message", "--json", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(path.read_text())
    assert (result["family"], result["messages"], result["rounds"]) == ("client_message", 6000, 2)
    assert result["machine"] == find_machine()
    outcomes = {(each["format"], each["packed"]): each for each in result["outcomes"]}
    assert list(outcomes) == [(name, packed) for packed in (False, True) for name in FORMATS.split(",")]
    for (_, packed), each in outcomes.items():
        assert each["failed"] is None
        assert each["cgroup"] is may_be_written()
        assert len(each["raw"]) == len(each["raw_cpu"]) == len(each["total"]) == len(each["cpu"]) == 2
        assert min(each["raw"] + each["raw_cpu"] + each["total"] + each["micro"]) > 0
        assert (each["records_in_a_message"] > 1) is packed
        assert each["records_per_second"] == pytest.approx(2e9 / sum(each["total"]), rel=0.001)
    assert all(f"\n{name} " in done.stdout for name in FORMATS.split(","))
    assert "×: time relative to struct" in done.stdout
    held = "consumers in a cgroup" if may_be_written() else "no cgroup for consumers"
    assert done.stdout.count(held) == 2, "one per message, and many"
    left = set(broker.admin.list_topics().topics) - before
    assert left <= {"__consumer_offsets"}, "topics of the run remain"


@linux
def test_a_failed_format_is_reported(broker: Broker) -> None:
    """Python with confluent-kafka needs more than 8 MiB."""
    end = "more than 8 MiB in its cgroup" if may_be_written() else "MiB were resident; the limit is 8 MiB"
    asked = [
        "--kafka",
        broker.servers,
        "--messages",
        "300",
        "--formats",
        "struct",
        "--rounds",
        "1",
        "--packing",
        "one",
    ]
    done = run(*asked, "--memory", "8")
    assert done.returncode == 1
    assert "struct: failed: " in done.stdout
    assert end in done.stdout
    (outcome,) = json.loads(run(*asked, "--memory", "8", "--json", "-").stdout)["outcomes"]
    assert outcome["failed"].endswith(end)
    assert "records_per_second" not in outcome


@linux
def test_errors_of_the_command_line(tmp_path: Path) -> None:
    assert "unknown format morse; choose from flowbuf, " in run("--kafka", "x", "--formats", "morse").stderr
    assert "0 is not a number of at least 1" in run("--messages", "0").stderr
    assert run("--rounds", "many").returncode == 2
    text = run("--help").stdout
    assert "python -m benchmarks.pipeline --messages 100000 --rounds 1" in text
    assert "  msgspec-msgpack-struct-array\n" in text


@linux
def test_no_file_is_written_without_a_broker(tmp_path: Path) -> None:
    pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed: pip install --group test"
    )
    asked = ["--kafka", "127.0.0.1:1", "--messages", "10", "--formats", "json"]
    done = run(*asked, "--json", str(tmp_path / "result.json"))
    assert done.returncode == 1
    assert done.stderr.startswith("pipeline: 127.0.0.1:1: ")
    assert list(tmp_path.iterdir()) == []
