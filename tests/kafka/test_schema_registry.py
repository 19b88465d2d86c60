"""Kafka records of single flows begin with the id of their schema in a real schema registry.

Confluent's own library reads them. The registry refuses incompatible schemas.
"""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf import _core
from flowbuf.errors import KafkaError
from flowbuf.io.proto_file import schema_of_proto
from flowbuf.kafka.schema_registry import SchemaRegistry
from flowbuf.kafka.sink import KafkaSink
from flowbuf.schema import Column
from tests.support.broker import Broker
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.producing import decode
from tools import services

FLOWS = 500
PRESETS = ["flow", "goflow2", "akvorado", "sflow_counters"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("ipfix", FLOWS, exporters=3))


def ask(url: str, path: str, method: str = "GET", body: object = None) -> Any:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def versions(url: str, topic: str) -> list[int]:
    return list(ask(url, f"subjects/{topic}-value/versions"))


def produce(broker: Broker, topic: str, capture: Path, url: str, *options: object) -> Any:
    return run(
        "produce", capture, "--kafka", broker.servers, "--topic", topic, "--schema-registry", url, *options
    )


# Sent messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["flow", "goflow2"])
def test_the_library_of_confluent_reads_the_messages(
    broker: Broker, topic: str, registry: str, capture: Path, preset: str
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    result = produce(broker, topic, capture, registry, "--schema", preset)
    assert result.exit_code == 0, result.stderr
    message_class = flowbuf.Schema.load(preset).message_class()
    deserialize = ProtobufDeserializer(message_class, {"use.deprecated.format": False})
    context = SerializationContext(topic, MessageField.VALUE)
    flows = [deserialize(value, context) for value in broker.values(topic)]
    expected = [message_class.FromString(one) for one in _core.split_messages(decode(capture, preset), b"")]
    assert len(flows) == FLOWS
    assert flows == expected


def test_a_schema_is_registered_once(broker: Broker, topic: str, registry: str, capture: Path) -> None:
    for _ in range(2):
        assert produce(broker, topic, capture, registry).exit_code == 0
    assert versions(registry, topic) == [1]
    number = ask(registry, f"subjects/{topic}-value/versions/1")["id"]
    values = broker.values(topic)
    assert len(values) == 2 * FLOWS
    assert {value[:6] for value in values} == {b"\0" + number.to_bytes(4, "big") + b"\0"}


def test_packs_and_framings_are_refused(broker: Broker, topic: str, registry: str, capture: Path) -> None:
    result = produce(broker, topic, capture, registry, "--pack", "1000")
    assert result.exit_code == 2
    assert "a schema registry needs one message per Kafka record; leave out pack" in result.stderr
    result = produce(broker, topic, capture, registry, "--framing", "delimited")
    assert result.exit_code == 2
    assert "a schema registry needs bare messages; leave out framing" in result.stderr
    assert broker.values(topic) == []


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("every", [False, True])
def test_a_schema_is_restored_from_the_registry(topic: str, registry: str, preset: str, every: bool) -> None:
    schema = flowbuf.Schema.load(preset)
    schema = schema.enable(*(column.name for column in schema.columns)) if every else schema
    client = SchemaRegistry(registry)
    number = int.from_bytes(client.register(f"{topic}-value", schema)[1:5], "big")
    found = schema_of_proto(client.find(number), [flowbuf.Schema.load(name) for name in PRESETS], registry)
    assert found.hash == schema.hash
    assert describe(found) == describe(schema)


def test_custom_columns_are_restored_from_the_registry(topic: str, registry: str) -> None:
    """Columns that are in no built-in schema get the types of their fields in the .proto file."""
    schema = flowbuf.Schema.load("flow")
    schema = schema.add("firewall_event", number=1001, type="uint32", sources=["ipfix:firewallEvent"])
    schema = schema.add("vendor_name", number=1002, type="string", sources=["ipfix:observationDomainName"])
    schema = schema.add("its_labels", number=1003, type="uint64", repeated=True)
    client = SchemaRegistry(registry)
    number = int.from_bytes(client.register(f"{topic}-value", schema)[1:5], "big")
    found = schema_of_proto(client.find(number), [flowbuf.Schema.load("flow")], registry)
    assert describe(found) == describe(schema)
    assert found["its_labels"].repeated


def describe(schema: flowbuf.Schema) -> list[tuple[object, ...]]:
    return sorted((each.number, each.name, each.type, each.unit, each.repeated) for each in schema.enabled)


# Refused schemas --------------------------------------------------------------------------------------------


def test_the_registry_refuses_incompatible_changes(
    broker: Broker, topic: str, registry: str, capture: Path
) -> None:
    assert produce(broker, topic, capture, registry).exit_code == 0
    ask(registry, f"config/{topic}-value", "PUT", {"compatibility": "BACKWARD"})
    more = produce(broker, topic, capture, registry, "--enable", "src_mac")
    assert more.exit_code == 0, more.stderr
    assert versions(registry, topic) == [1, 2]
    sent = len(broker.values(topic))
    first = flowbuf.Schema.load("flow")
    text = Column("bytes", first["bytes"].number, "string", enabled=True)
    strings = tuple(text if each.name == "bytes" else each for each in first.columns)
    other = replace(first, columns=strings)
    with pytest.raises(KafkaError, match=r"(?i)incompatible") as raised:
        KafkaSink(broker.servers, topic, other, registry=SchemaRegistry(registry))
    assert f"schema registry {registry}: {topic}-value: " in str(raised.value)
    assert versions(registry, topic) == [1, 2]
    assert len(broker.values(topic)) == sent == 2 * FLOWS
    assert other.hash.encode() not in {record.key() for record in broker.read("flowbuf-schemas")}


def test_a_refusal_ends_the_command(
    broker: Broker, topic: str, registry: str, capture: Path, tmp_path: Path
) -> None:
    first = (
        '[schema]\nname = "mine"\n[[column]]\nname = "octets"\nnumber = 1\ntype = "uint64"\nenabled = true\n'
        'sources = ["ipfix:octetDeltaCount"]\n'
    )
    path = tmp_path / "mine.toml"
    path.write_text(first)
    assert produce(broker, topic, capture, registry, "--schema", path).exit_code == 0
    ask(registry, f"config/{topic}-value", "PUT", {"compatibility": "BACKWARD"})
    path.write_text(first.replace("octetDeltaCount", "interfaceName").replace("uint64", "string"))
    result = produce(broker, topic, capture, registry, "--schema", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"flowbuf: schema registry {registry}: {topic}-value: ")
    assert len(broker.values(topic)) == FLOWS


# Missing registries -----------------------------------------------------------------------------------------


def test_a_refused_connection_is_reported(broker: Broker, topic: str, capture: Path) -> None:
    url = f"http://127.0.0.1:{services.free_ports(1)[0]}"
    begun = time.monotonic()
    result = produce(broker, topic, capture, url, "--timeout", 2)
    assert result.exit_code == 1
    assert result.stderr == f"flowbuf: schema registry {url}: {topic}-value: [Errno 111] Connection refused\n"
    assert time.monotonic() - begun < 20
    assert broker.values(topic) == []


def test_a_timeout_is_reported(broker: Broker, topic: str, capture: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        result = produce(
            broker, topic, capture, f"http://127.0.0.1:{silent.getsockname()[1]}", "--timeout", 2
        )
    assert result.exit_code == 1
    assert "timed out" in result.stderr
    assert time.monotonic() - begun < 20


class Page(http.server.BaseHTTPRequestHandler):
    """Handler that answers every request with a web page."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(200 if "ok" in self.path else 404)
        self.end_headers()
        self.wfile.write(b"<html><body>Welcome</body></html>")

    do_GET = do_POST = answer

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["ok", "nothing"])
def test_a_web_page_is_reported(broker: Broker, topic: str, capture: Path, page: str, path: str) -> None:
    result = produce(broker, topic, capture, f"{page}/{path}")
    assert result.exit_code == 1
    assert "the server is not a registry, or the path of the URL is wrong" in result.stderr
    assert result.stderr.count("\n") == 1
    assert broker.values(topic) == []


def test_a_wrong_path_is_reported(broker: Broker, topic: str, capture: Path, registry: str) -> None:
    result = produce(broker, topic, capture, registry.replace("/apis/ccompat/v7", "/apis"))
    assert result.exit_code == 1
    assert "404" in result.stderr
    assert result.stderr.count("\n") == 1
