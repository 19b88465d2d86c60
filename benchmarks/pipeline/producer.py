"""The producer process: fills a topic and ends when the broker has confirmed everything.

python -m benchmarks.pipeline.producer '{"servers": …, "topic": …, "load": {…}}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .load import Load

PATIENCE = 120.0
SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "queue.buffering.max.kbytes": 131_072,
    "message.max.bytes": 1_000_000,
    "delivery.report.only.error": True,
    "log_level": 0,
}


def fill(servers: str, topic: str, load: Load) -> int:
    """Fill the topic and return the bytes of its values.

    Raises KafkaException if the broker rejects a message, and OSError if it does not confirm all in time.
    """
    from confluent_kafka import KafkaException, Producer

    def note(error: Any, _: Any) -> None:
        if error:
            raise KafkaException(error)

    producer = Producer({"bootstrap.servers": servers, "on_delivery": note, **SETTINGS})
    total = 0
    for value in load.make_values():
        total += len(value)
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    if waiting := producer.flush(PATIENCE):
        raise OSError(f"{topic}: {waiting} of {load.values} messages were not confirmed in {PATIENCE:.0f} s")
    return total


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    total = fill(given["servers"], given["topic"], Load(**given["load"]))
    sys.stdout.write(json.dumps({"bytes": total}))
