"""Real brokers and a real schema registry for tests. conftest.py makes the fixtures known to all tests.

All tests share `broker`; `topic` is a new topic there. `own_broker` belongs to one test, which may stop or
kill it. `registry` and `own_registry` follow the same pattern.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tools import services

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

PATIENCE = 60.0
"""Seconds that a broker may take for an operation of about one second."""

CLIENT = {"log_level": 0}
"""Clients do not log to standard error that brokers are away; some tests stop the broker on purpose."""


def need_clients() -> None:
    """Skip the test if confluent-kafka is not installed."""
    pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed: pip install --group test"
    )


def start(service: services.Service) -> None:
    """Start a service. Skip the test if a program is not installed or Maven cannot fetch the service."""
    try:
        service.start()
    except services.Missing as reason:
        pytest.skip(str(reason))


class Broker:
    """A broker with its own folder.

    It keeps its port and data when it is stopped or killed and started again.
    """

    def __init__(self, folder: Path, kind: type[services.Kafka] = services.Kafka) -> None:
        self.service = kind(folder, bound=True)
        self._admin: AdminClient | None = None

    @property
    def servers(self) -> str:
        """Return the addresses. The broker must have been started at least once."""
        return self.service.address

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        start(self.service)

    def stop(self) -> None:
        """Stop the broker in order, as before a restart."""
        self.service.stop()

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self.service.kill()

    def freeze(self) -> None:
        """Stop the process of the broker. Its sockets still accept data."""
        os.kill(int(self.service.pid.read_text()), signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process of the broker."""
        os.kill(int(self.service.pid.read_text()), signal.SIGCONT)

    @property
    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        self._admin = self._admin or AdminClient({"bootstrap.servers": self.servers, **CLIENT})
        return self._admin

    def make_topic(
        self, name: str | None = None, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that can be written to at once, and return its name. The default name is new."""
        from confluent_kafka.admin import NewTopic

        name = name or f"test-{uuid.uuid4().hex}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([new], operation_timeout=PATIENCE)[name].result(PATIENCE)
        assert services.wait(lambda: self.leaders(name) == [1] * partitions, PATIENCE), name
        return name

    def recreate_topic(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic and create it again under the same name. Its offsets begin again at 0."""
        for deleted in self.admin.delete_topics([topic]).values():
            deleted.result(PATIENCE)
        assert services.wait(
            lambda: topic not in self.admin.list_topics(timeout=PATIENCE).topics, PATIENCE
        ), topic
        self.make_topic(topic, partitions)

    def leaders(self, topic: str) -> list[int]:
        """Return the broker that leads each partition, as far as it is known. -1 means no leader."""
        return [
            each.leader for each in self.admin.list_topics(topic, PATIENCE).topics[topic].partitions.values()
        ]

    def produce(self, topic: str, values: Sequence[bytes], **more: Any) -> None:
        """Write messages, and return when all are delivered. `more` is passed to each call of
        `Producer.produce`.
        """
        from confluent_kafka import Producer

        def note(error: object, _: object) -> None:
            if error:
                failed.append(error)

        failed: list[object] = []
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, **CLIENT})
        for value in values:
            producer.produce(topic, value, on_delivery=note, **more)
            producer.poll(0)
        assert producer.flush(PATIENCE) == 0
        assert failed == []

    def read(self, topic: str) -> list[Message]:
        """Return all messages that the topic holds now, partition by partition.

        No group takes part and nothing is committed.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            **CLIENT,
        }
        consumer = Consumer(settings)
        try:
            found: list[Message] = []
            for partition in self.admin.list_topics(topic, PATIENCE).topics[topic].partitions:
                where = TopicPartition(topic, partition, OFFSET_BEGINNING)
                _, end = consumer.get_watermark_offsets(where, PATIENCE)
                consumer.assign([where])
                found += read_until(consumer, where, end)
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[bytes]:
        return [message.value() or b"" for message in self.read(topic)]


def read_until(consumer: Any, where: Any, end: int) -> list[Message]:
    """Return the messages before offset `end` of the partition assigned to the consumer."""
    found: list[Message] = []

    def take() -> bool:
        if consumer.position([where])[0].offset >= end or end == 0:
            return True
        for message in consumer.consume(10_000, 0.1):
            assert message.error() is None, message.error()
            if message.offset() < end:
                found.append(message)
        return False

    assert services.wait(take, PATIENCE), f"{where}: {len(found)} records of {end} in {PATIENCE:.0f} s"
    return found


# Fixtures ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests that do not stop it. Nothing is deleted: each test uses its own topics."""
    need_clients()
    shared = Broker(tmp_path_factory.mktemp("broker"))
    shared.start()
    yield shared
    shared.kill()


MakeTopic: TypeAlias = Callable[..., str]


@pytest.fixture
def make_topic(broker: Broker) -> MakeTopic:
    """Return a function that creates a topic and returns its name.

    Example: `make_topic(partitions=3, config={"max.message.bytes": "1000"})`.
    """
    return broker.make_topic


@pytest.fixture
def topic(broker: Broker) -> str:
    """Return the name of a new topic with one partition."""
    return broker.make_topic()


@pytest.fixture
def group() -> str:
    """Return the name of a new consumer group."""
    return f"group-{uuid.uuid4().hex}"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A running broker for one test, which may stop, kill and restart it."""
    need_clients()
    own = Broker(tmp_path / "broker")
    own.start()
    yield own
    own.kill()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a schema registry that all tests share. Name subjects after your topic."""
    service = services.Registry(tmp_path_factory.mktemp("registry"), bound=True)
    start(service)
    yield service.address
    service.kill()


@pytest.fixture
def own_registry(tmp_path: Path) -> Iterator[services.Registry]:
    """A running schema registry for one test, with `address`, `stop`, `kill` and `start`.

    It loses its schemas when it is stopped.
    """
    service = services.Registry(tmp_path / "registry", bound=True)
    start(service)
    yield service
    service.kill()
