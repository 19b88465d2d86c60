"""The consumer's process: drains a topic from its first offset on one processor, and says how long it took.

    python -m benchmarks.pipeline.consumer '{"servers": …, "topic": …, "load": {…}, "decode": true, "memory":
    OCTETS}'

Without `decode` values are taken from librdkafka and nothing is done with them: what the way itself costs.
librdkafka's threads are on the same processor. Memory is the most that was ever resident (VmHWM), looked at
four times a second and at the end: more than `memory` octets end the process with status OVER_MEMORY. In a
cgroup (cgroup.py), as the parent starts it where it can, the kernel ends it where it takes more between two
looks.
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
"""Seconds without a message."""

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
"""Messages that are taken at once; packed ones: as many as have 16 MiB."""

AT_ONCE_PACKED = 16 * 1024 * 1024 // PACK


class OverMemory(Exception):
    """More was resident than is allowed."""


def read_peak() -> int:
    """The most octets that were resident so far."""
    found = re.search(r"VmHWM:\s*(\d+)", STATUS.read_text())
    assert found
    return int(found[1]) * 1024


def check_memory(limit: int) -> int:
    """The peak. Raises OverMemory."""
    peak = read_peak()
    if peak > limit:
        raise OverMemory(f"{peak / 2**20:.0f} MiB were resident, and {limit / 2**20:.0f} are allowed")
    return peak


def confine() -> int:
    """Stays on the last processor that it may use: threads that are made from here on inherit that."""
    processor = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    return processor


def read_values(servers: str, topic: str, load: Load, memory: int) -> Iterator[list[bytes]]:
    """All values of the topic, once the first list was asked for; an empty one comes first, when all is
    ready.

    Raises KafkaException; OSError where no more come; OverMemory.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, **SETTINGS})
    consumer.list_topics(topic)  # else it has the offset of the beginning half a second later
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
            raise OSError(f"{topic}: {left} of {load.values} messages have not come in {PATIENCE:.0f} s")
        if now - looked > LOOK_EVERY:
            looked = now
            check_memory(memory)
        if failed := next((message.error() for message in messages if message.error()), None):
            raise KafkaException(failed)
        left -= len(messages)
        yield [message.value() for message in messages]
    consumer.close()


def drain(servers: str, topic: str, load: Load, decode: bool, memory: int) -> dict[str, Any]:
    """Seconds on the wall and of CPU time, all threads together, from the assignment of the topic until its
    last record is there; and the peak of memory. Raises what `read_values` raises; ValueError where other
    records come.
    """
    take = choose(load, decode)
    lists = read_values(servers, topic, load, memory)
    next(lists)
    gc.collect()
    gc.freeze()  # imports are no garbage
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
    """Raises ValueError unless all came, and the first and the last are what they should be."""
    if load.packed:
        first, last = first[0], last[-1]
    if count != load.messages:
        raise ValueError(f"{load.format}: {count} records came instead of {load.messages}")
    for position, record in ((0, first), (load.messages - 1, last)):
        if load.coder.restore(record) != load.record_at(position):
            raise ValueError(f"{load.format}: record {position} is not what it was: {record}")


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
