"""Commands start and stop the Kafka broker and the schema registry that other tests use."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.broker import Broker, MakeTopic
from tools import services

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECORDS = [b"record %d" % number for number in range(1000)]


def run(command: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, ROOT / "tools" / command, *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **environment}, timeout=600
    )


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of the processes whose working directory is the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink() == folder:
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


# Kafka records ----------------------------------------------------------------------------------------------


def test_produced_kafka_records_are_read(broker: Broker, topic: str) -> None:
    broker.produce(topic, RECORDS, headers={"of": b"a test"})
    messages = broker.read(topic)
    assert [message.value() for message in messages] == RECORDS
    assert {tuple(message.headers()) for message in messages} == {(("of", b"a test"),)}


def test_topics_are_new_and_have_the_requested_settings(broker: Broker, make_topic: MakeTopic) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    names = [make_topic(), make_topic(partitions=3, config={"max.message.bytes": "1000"})]
    assert len(set(names)) == 2
    assert [len(broker.leaders(name)) for name in names] == [1, 3]
    assert [broker.values(name) for name in names] == [[], []]
    resource = ConfigResource(ResourceType.TOPIC, names[1])
    assert broker.admin.describe_configs([resource])[resource].result(30)["max.message.bytes"].value == "1000"
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        make_topic(names[0])


def test_every_partition_is_read(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    for partition in range(3):
        broker.produce(topic, RECORDS[partition::3], partition=partition)
    assert sorted(broker.values(topic)) == sorted(RECORDS)


def test_topics_are_not_created_automatically(broker: Broker) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[KafkaError] = []
    # Without this setting, the client waits 30 s for the topic to appear.
    producer = Producer({"bootstrap.servers": broker.servers, "topic.metadata.propagation.max.ms": 1000})
    producer.produce("test-nobody-made-this", b"", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error.code() for error in errors] == [KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_kafka_records_survive_a_stop_and_a_crash(own_broker: Broker) -> None:
    """The broker keeps its port, so that clients find it again."""
    topic, servers = own_broker.make_topic(), own_broker.servers
    own_broker.produce(topic, RECORDS)
    for end in (own_broker.kill, own_broker.stop):
        end()
        assert processes_in(own_broker.service.folder) == []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", own_broker.service.ports[0]), 5)
        own_broker.start()
        assert own_broker.servers == servers
        assert own_broker.values(topic) == RECORDS
    own_broker.produce(topic, [b"another"])
    assert own_broker.values(topic) == [*RECORDS, b"another"]


# The registry -----------------------------------------------------------------------------------------------


def test_the_registry_assigns_ids_to_schemas(registry: str, request: pytest.FixtureRequest) -> None:
    schema = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A { uint32 b = 1; }'}
    url = f"{registry}/subjects/{request.node.name}/versions"
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    posted = urllib.request.Request(url, json.dumps(schema).encode(), headers)
    with urllib.request.urlopen(posted, timeout=30) as response:
        number = json.load(response)["id"]
    with urllib.request.urlopen(f"{registry}/schemas/ids/{number}", timeout=30) as response:
        assert "message A" in json.load(response)["schema"]


def test_the_registry_can_be_killed_and_restarted(own_registry: services.Registry) -> None:
    address = own_registry.address
    assert own_registry.kill()
    assert not own_registry.answers()
    own_registry.start()
    assert own_registry.answers()
    assert own_registry.address == address


# The command ------------------------------------------------------------------------------------------------


def test_the_command_starts_one_broker_and_stops_it(broker: Broker, tmp_path: Path) -> None:
    """Only the address is on standard output. The fixture `broker` skips the test if no broker can run."""
    del broker
    options = ("--folder", tmp_path)
    assert run("kafka", "status", *options).returncode == 1
    try:
        first, second = run("kafka", "start", *options), run("kafka", "start", *options)
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", first.stdout), first.stderr
        assert run("kafka", "status", *options).stdout == second.stdout == first.stdout
        assert len(processes_in(tmp_path)) == 1
        other = run("kafka", "start", *options, "--port", 1)
        assert other.returncode == 1
        assert f"broker runs at {first.stdout.strip()}: stop it first" in other.stderr
        assert run("kafka", "restart", *options).stdout == first.stdout
        killed = run("kafka", "kill", *options)
        assert (killed.returncode, killed.stdout, killed.stderr) == (0, "", "broker has ended\n")
    finally:
        ended = run("kafka", "stop", *options)
    assert (ended.returncode, ended.stderr) == (0, "broker was not running\n")
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing_behind(
    broker: Broker, tmp_path: Path, number: signal.Signals
) -> None:
    del broker
    command = [sys.executable, ROOT / "tools/kafka", "start", "--folder", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert services.wait((tmp_path / "pid").exists, 60)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (128 + number, "")
    assert "Traceback" not in errors
    assert processes_in(tmp_path) == []


def test_a_bound_broker_ends_with_the_process_that_started_it(broker: Broker, tmp_path: Path) -> None:
    del broker
    if not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is not installed")
    code = "import time, pathlib; from tools import services; "
    code += f"services.Kafka(pathlib.Path({str(tmp_path)!r}), bound=True).start()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(600)"], env=environment)
    try:
        assert services.wait(services.Kafka(tmp_path).answers, 120)
    finally:
        process.kill()
        process.wait()
    assert services.wait(lambda: processes_in(tmp_path) == [], 30)


def test_ports_of_other_programs_are_refused(broker: Broker, tmp_path: Path) -> None:
    del broker
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("kafka", "start", "--folder", tmp_path, "--port", port)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"broker: port {port} is taken by another program: stop that, or choose another by --port\n"
    )
    assert processes_in(tmp_path) == []


def test_start_failures_are_explained(broker: Broker, tmp_path: Path) -> None:
    del broker
    (tmp_path / "data").mkdir()  # not written by Kafka
    done = run("kafka", "start", "--folder", tmp_path)
    assert done.returncode == 1
    assert f"broker does not start: {tmp_path / 'log'}" in done.stderr
    assert "meta.properties" in done.stderr
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize("arguments", [(), ("begin",), ("start", "--port", "many")])
def test_wrong_usage_is_reported(arguments: tuple[str, ...]) -> None:
    done = run("kafka", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: kafka")


@pytest.mark.parametrize("command", ["kafka", "registry"])
def test_missing_programs_are_named(command: str, tmp_path: Path) -> None:
    """The error says how to install them. Java is checked first, and Maven only before a download."""
    environment = {"PATH": str(tmp_path), "JAVA_HOME": "", "FLOWBUF_KAFKA_HOME": str(tmp_path / "home")}
    done = run(command, "start", **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert "java is missing: apt-get install default-jre-headless" in done.stderr
    (tmp_path / "java").symlink_to("/bin/false")
    done = run(command, "start", **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mvn is missing: apt-get install maven" in done.stderr
    assert not (tmp_path / "home").exists()


def test_errors_of_maven_are_quoted(tmp_path: Path) -> None:
    """Incomplete downloads are removed."""
    for name, script in {"java": "exit 1", "mvn": "echo '[ERROR] no such host'; exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    home = tmp_path / "home"
    done = run(
        "kafka", "start", PATH=str(tmp_path), JAVA_HOME="", HOME=str(tmp_path), FLOWBUF_KAFKA_HOME=str(home)
    )
    assert done.returncode == 1
    assert "Maven cannot fetch what is needed" in done.stderr
    assert "no such host" in done.stderr
    assert list(home.iterdir()) == []


def test_free_ports_are_outside_the_range_of_clients() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not limits.exists():
        pytest.skip("the system does not say which ports clients get")
    lowest = int(limits.read_text().split()[0])
    ports = services.free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < lowest
