"""Measure messages to JSON and back, beside json_format of google.protobuf and beside orjson.

python -m benchmarks.messages.json_text [FAMILY]...

json_format does the same work. orjson converts the JSON to and from Python objects, without Protocol Buffers.
All contestants take turns with the same records. The table has medians in nanoseconds per record, half the
interquartile range as a share, and the ratio to flowbuf.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf import json_format

from benchmarks.lab.families import FAMILIES
from flowbuf import Codec

ROUNDS = 15
SECONDS = 0.02  # of each contestant in a round

Work = Callable[[], object]


def each(call: Callable[[Any], object], inputs: list[Any]) -> Work:
    """Return the work of calling a function with each input."""

    def work() -> None:
        for one in inputs:
            call(one)

    return work


def summarize(samples: list[float]) -> tuple[float, float]:
    """Return the median, and half the interquartile range as a share of it."""
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4)
    return median, (high - low) / 2 / median


def contestants(family: str) -> dict[str, dict[str, Work]]:
    """Return the work of each contestant by direction: one pass over all records of a family."""
    codec = Codec.load(family)
    kind = codec.message_class()
    messages = [codec.encode(record) for record in FAMILIES[family].records]
    texts = [codec.to_json(message).encode() for message in messages]
    values = [json.loads(text) for text in texts]

    def write(message: bytes) -> str:
        return json_format.MessageToJson(kind.FromString(message), indent=None)

    def read(text: bytes) -> bytes:
        message: bytes = json_format.Parse(text, kind()).SerializeToString()
        return message

    return {
        "to JSON": {
            "flowbuf": each(codec.to_json, messages),
            "json_format": each(write, messages),
            "orjson": each(orjson.dumps, values),
        },
        "from JSON": {
            "flowbuf": each(codec.from_json, texts),
            "json_format": each(read, texts),
            "orjson": each(orjson.loads, texts),
        },
    }


def measure(works: dict[str, Work], records: int) -> dict[str, list[float]]:
    """Return the times of each contestant in nanoseconds per record. They take turns, in both orders."""
    passes = {}
    for name, work in works.items():
        began = time.perf_counter()
        work()
        passes[name] = max(1, round(SECONDS / (time.perf_counter() - began)))
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS):
        for name in [*works][:: -1 if number % 2 else 1]:
            began = time.perf_counter()
            for _ in range(passes[name]):
                works[name]()
            times[name].append((time.perf_counter() - began) / passes[name] / records * 1e9)
    return times


def print_table(contestants: Callable[[str], dict[str, dict[str, Work]]], families: tuple[str, ...]) -> None:
    """Measure the contestants of each family and direction, and print a table. The first one is flowbuf."""
    print(f"{'family':<16}{'direction':<12}{'contestant':<13}{'ns':>8}{'spread':>8}{'ratio':>8}")
    for family in families:
        for direction, works in contestants(family).items():
            times = measure(works, len(FAMILIES[family].records))
            own = statistics.median(times["flowbuf"])
            for name, samples in times.items():
                median, spread = summarize(samples)
                print(
                    f"{family:<16}{direction:<12}{name:<13}{median:>8,.0f}{spread:>8.1%}{median / own:>8.2f}"
                )


def main(*families: str) -> None:
    print_table(contestants, families or tuple(FAMILIES))


if __name__ == "__main__":
    main(*sys.argv[1:])
