"""The consumer process: reads a topic from its first offset on one processor and prints the time it took.

    python -m benchmarks.pipeline.consumer \\
        '{"servers": …, "topic": …, "load": {…}, "decode": true, "memory": BYTES}'

Without `decode`, values are received and discarded, which measures the cost of the transport. The threads of
librdkafka run on the same processor.

The peak resident memory (VmHWM) is checked four times per second and at the end. If it exceeds `memory`
bytes, the process ends with status OVER_MEMORY. If the parent could create a cgroup (cgroup.py), the kernel
also enforces the limit between two checks.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .load import PACK, Load

OVER_MEMORY = 3
PATIENCE = 60.0
"""Time-out in seconds without a Kafka message."""

LOOK_EVERY = 0.25
STATUS = Path("/proc/self/status")
SETTINGS = {
    "group.id": "pipeline",
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 20,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "max.partition.fetch.bytes": 8_388_608,
    "log_level": 0,
}
AT_ONCE = 1000
"""Kafka records per call. Packed records: as many as have 16 MiB."""

AT_ONCE_PACKED = 16 * 1024 * 1024 // PACK


class OverMemory(Exception):
    """The resident memory exceeds the limit."""


def read_peak() -> int:
    """Return the peak resident memory in bytes."""
    found = re.search(r"VmHWM:\s*(\d+)", STATUS.read_text())
    assert found
    return int(found[1]) * 1024


def check_memory(limit: int) -> int:
    """Return the peak resident memory in bytes. Raises OverMemory."""
    peak = read_peak()
    if peak > limit:
        raise OverMemory(f"{peak / 2**20:.0f} MiB were resident; the limit is {limit / 2**20:.0f} MiB")
    return peak


def confine() -> int:
    """Bind the process to its last permitted processor and return it. New threads inherit this."""
    processor = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    return processor


def read_values(servers: str, topic: str, load: Load, memory: int) -> Iterator[list[bytes]]:
    """Yield lists of all values of the topic. The first list is empty: the consumer is ready.

    Raises KafkaException, OverMemory, and OSError if no more values arrive.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, **SETTINGS})
    consumer.list_topics(topic)  # otherwise the first offset is known half a second later
    yield []
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left, at_once = load.values, AT_ONCE_PACKED if load.packed else AT_ONCE
    heard = looked = time.monotonic()
    while left:
        messages = consumer.consume(min(left, at_once), 0.1)
        now = time.monotonic()
        if messages:
            heard = now
        elif now - heard > PATIENCE:
            raise OSError(f"{topic}: {left} of {load.values} messages did not arrive in {PATIENCE:.0f} s")
        if now - looked > LOOK_EVERY:
            looked = now
            check_memory(memory)
        if failed := next((message.error() for message in messages if message.error()), None):
            raise KafkaException(failed)
        left -= len(messages)
        yield [message.value() for message in messages]
    consumer.close()


def drain(servers: str, topic: str, load: Load, decode: bool, memory: int) -> dict[str, Any]:
    """Return wall time, CPU time of all threads, and peak memory.

    The times begin with the assignment of the topic and end with its last record. Raises the errors of
    `read_values`, and ValueError if the records differ from those produced.
    """
    take = choose(load, decode)
    lists = read_values(servers, topic, load, memory)
    next(lists)
    gc.collect()
    gc.freeze()  # exclude imported objects from garbage collection
    count, first, last = 0, None, None
    wall, cpu = time.perf_counter(), time.process_time()
    for values in lists:
        for value in values:
            last = take(value)
            if first is None:
                first = last
            count += len(last) if load.packed else 1
    result = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": check_memory(memory),
    }
    if decode:
        check_records(load, count, first, last)
    return result


def choose(load: Load, decode: bool) -> Callable[[bytes], Any]:
    if not decode:
        return lambda value: value
    return load.coder.decode_batch if load.packed else load.coder.decode


def check_records(load: Load, count: int, first: Any, last: Any) -> None:
    """Raise ValueError if the number of records, the first record or the last record is wrong."""
    if load.packed:
        first, last = first[0], last[-1]
    if count != load.messages:
        raise ValueError(f"{load.format}: {count} records arrived instead of {load.messages}")
    for position, record in ((0, first), (load.messages - 1, last)):
        if load.coder.restore(record) != load.record_at(position):
            raise ValueError(f"{load.format}: record {position} differs from the one produced: {record}")


def main(text: str) -> None:
    given = json.loads(text)
    processor = confine()
    load = Load(**given["load"])
    try:
        result = drain(given["servers"], given["topic"], load, given["decode"], given["memory"])
    except OverMemory as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(OVER_MEMORY)
    sys.stdout.write(json.dumps({**result, "processor": processor}))


if __name__ == "__main__":
    main(sys.argv[1])
