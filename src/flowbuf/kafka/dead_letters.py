"""Copy Kafka records that cannot be decoded to a dead-letter topic.

`flowbuf consume` sends the faults of a batch here before it stores the batch. `consumer.py` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowbuf.errors import KafkaError
from flowbuf.kafka.client import Notes, Topics, import_kafka, new_client

__all__ = ["DeadLetters", "Fault"]


@dataclass(frozen=True)
class Fault:
    """A Kafka record that cannot be decoded, and the reason.

    `key`, `value` and `headers` are unchanged. None means that the Kafka record had no key or value.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DeadLetters:
    """Copy Kafka records unchanged to `topic`, with additional headers for their origin and the error.

    The headers are `flowbuf-error`, `flowbuf-topic`, `flowbuf-partition` and `flowbuf-offset`. Raises
    KafkaError if the topic cannot be used.
    """

    def __init__(
        self, servers: str, topic: str, settings: Mapping[str, Any], timeout: float, notes: Notes
    ) -> None:
        Topics(servers, settings, notes).find(topic, timeout)
        # A copy with more headers is larger than its original. The broker decides on the size limit.
        defaults = {"enable.idempotence": True, "acks": "all", "message.max.bytes": 1_000_000_000}
        self._producer = new_client("Producer", servers, settings, defaults, notes)
        self._notes = notes
        self._topic = topic
        self._problems: list[str] = []

    def send(self, faults: Iterable[Fault]) -> None:
        """Send copies of the Kafka records, and return when all are delivered.

        Raise KafkaError if one is not.
        """
        for fault in faults:
            self._send(fault)
        while self._producer.flush(1.0):
            self._notes.look(self._producer, self._topic)
        # A late error of an earlier connection may have marked a working broker as unavailable.
        self._notes.look(self._producer, self._topic, last=True)
        if self._problems:
            raise KafkaError(f"dead-letter topic {self._topic!r}: {self._problems[0]}")

    def _send(self, fault: Fault) -> None:
        where = {"topic": fault.topic, "partition": fault.partition, "offset": fault.offset}
        said = {
            "flowbuf-error": fault.reason,
            **{f"flowbuf-{name}": str(value) for name, value in where.items()},
        }
        before = [(name, text) for name, text in fault.headers if name not in said]
        headers = before + [(name, text.encode()) for name, text in said.items()]
        while True:
            try:
                self._producer.produce(
                    self._topic, fault.value, fault.key, headers=headers, on_delivery=self._note
                )
                return
            except BufferError:  # there is room after some deliveries
                self._producer.poll(0.1)
            except import_kafka().KafkaException as error:
                self._note(error.args[0], None)
                return

    def _note(self, error: Any, message: Any) -> None:
        if error is not None:
            self._problems.append(error.str())
