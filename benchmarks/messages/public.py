"""Measure message types of public benchmarks in MiB/s, beside upb.

python -m benchmarks.messages.public [TYPE]...

It needs pip install grpcio-tools. `public.proto` defines the types. The values are random, from a seed, and
messages have about the sizes of those benchmarks. flowbuf reads dicts and writes them. upb has two ways:

    messages    parse to a message of upb and back; no field becomes a Python object
    fields      parse, and read every field into a dict, by code written for the type; make a message from a
                dict, and write it

MiB are those of the encoded messages. The table has medians, half the interquartile range as a share, and
the speed of flowbuf divided by that of the contestant.
"""

from __future__ import annotations

import random
import statistics
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.messages.json_text import Work, each, measure, summarize
from flowbuf import Codec
from flowbuf.codec.descriptors import is_repeated

FILE = Path(__file__).with_name("public.proto")
MESSAGES = 64

Values = dict[str, Any]


class Source:
    """Random values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def real(self) -> float:
        return self._random.random() * 1000

    def text(self, least: int, most: int) -> str:
        return "".join(self._random.choices(string.ascii_letters + "     ", k=self.number(least, most)))

    def many(self, least: int, most: int, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self.number(least, most))]

    def single(self) -> float:
        """Return a number that a float holds exactly."""
        return self.number(-4096, 4096) / 16


def api_response(source: Source) -> Values:
    return {
        "request_id": source.number(1, 1 << 40),
        "status_code": source.number(200, 599),
        "message": source.text(40, 160),
        "latency_ms": source.real(),
        "cached": True,
        "trace_id": source.text(32, 32),
        "retry_after_ms": source.number(1, 60_000),
        "tags": source.many(4, 10, lambda: source.text(8, 24)),
    }


def log_record(source: Source) -> Values:
    return {
        "timestamp_nanos": source.number(1 << 60, 1 << 61),
        "service_name": source.text(8, 24),
        "instance_id": source.text(36, 36),
        "severity": source.number(1, 4),
        "message": source.text(200, 2000),
        "labels": {source.text(6, 16): source.text(10, 120) for _ in range(source.number(6, 20))},
        "trace_id": source.text(32, 32),
        "span_id": source.text(16, 16),
        "source": {
            "file": source.text(20, 60),
            "line": source.number(1, 5000),
            "function": source.text(8, 30),
        },
    }


def analytics_event(source: Source) -> Values:
    kinds = (
        lambda: ("string_value", source.text(10, 80)),
        lambda: ("int_value", source.number(1, 1 << 40)),
        lambda: ("double_value", source.real()),
        lambda: ("bool_value", True),
    )

    def attribute() -> Values:
        name, value = kinds[source.number(0, 3)]()
        return {"key": source.text(6, 20), name: value}

    def nested(depth: int) -> Values:
        values = {"name": source.text(8, 24), "attributes": source.many(3, 8, attribute)}
        if depth:
            values["children"] = source.many(2, 4, lambda: nested(depth - 1))
        return values

    return {
        "event_id": source.text(36, 36),
        "timestamp": source.number(1 << 60, 1 << 61),
        "user_id": source.text(16, 16),
        "properties": source.many(5, 15, attribute),
        "sections": source.many(2, 6, lambda: nested(3)),
    }


def packed_tile(source: Source) -> Values:
    def cell() -> Values:
        return {
            "id": source.number(1, 10_000),
            "geometry": source.many(12, 20, lambda: source.number(0, 1 << 14)),
            "samples": source.many(4, 8, source.single),
            "positions": source.many(2, 4, source.real),
        }

    return {
        "cells": [cell() for _ in range(64)],
        "checksums": source.many(64, 64, lambda: source.number(0, 1 << 63)),
    }


def google_message1(source: Source) -> Values:
    """Fill every field. Numbers are small and texts short, as in the messages of the benchmark."""

    def fill(kind: Any) -> Values:
        values: Values = {}
        for field in kind.fields:
            if field.message_type is not None:
                values[field.name] = fill(field.message_type)
            elif field.cpp_type == field.CPPTYPE_STRING:
                values[field.name] = source.text(2, 12)
            elif field.cpp_type == field.CPPTYPE_BOOL:
                values[field.name] = True
            elif is_repeated(field):
                values[field.name] = source.many(1, 2, lambda: source.number(1, 1 << 60))
            else:
                values[field.name] = source.number(1, 200)
        return values

    return fill(Codec.load(FILE, "GoogleMessage1").descriptor)


TYPES: dict[str, Callable[[Source], Values]] = {
    "ApiResponse": api_response,
    "LogRecord": log_record,
    "AnalyticsEvent": analytics_event,
    "PackedTile": packed_tile,
    "GoogleMessage1": google_message1,
}


def write_reader(kind: Any) -> Callable[[Any], Values]:
    """Return a function that converts messages of upb to dicts, with the same values as flowbuf.

    It is written for this type: a display that names each field, for each type of message.
    """
    functions: dict[str, str] = {}

    def name_of(inner: Any) -> str:
        name = inner.full_name.replace(".", "_")
        if name not in functions:
            functions[name] = ""  # types may contain themselves
            items = ", ".join(f"{field.name!r}: {value_of(field)}" for field in inner.fields)
            functions[name] = f"def {name}(m): return {{{items}}}"
        return str(name)

    def value_of(field: Any) -> str:
        inner, value = field.message_type, f"m.{field.name}"
        if inner is not None and inner.GetOptions().map_entry:
            return f"dict({value})"
        if is_repeated(field):
            return f"list({value})" if inner is None else f"[{name_of(inner)}(one) for one in {value}]"
        one = value if inner is None else f"{name_of(inner)}({value})"
        return f"{one} if m.HasField({field.name!r}) else None" if field.has_presence else one

    main = name_of(kind)
    namespace: dict[str, Any] = {}
    exec("\n".join(functions.values()), namespace)
    read: Callable[[Any], Values] = namespace[main]
    return read


def contestants(name: str) -> tuple[int, dict[str, dict[str, Work]]]:
    """Return the bytes of all messages of a type, and the work of each contestant by direction."""
    codec = Codec.load(FILE, name)
    kind = codec.message_class()
    read = write_reader(codec.descriptor)
    source = Source(1)
    objects = [TYPES[name](source) for _ in range(MESSAGES)]
    data = [codec.encode(values) for values in objects]
    messages = [kind.FromString(one) for one in data]
    for values, message in zip(objects, messages, strict=True):
        assert kind(**values) == message, name
        assert codec.decode(message.SerializeToString()) == read(message), name

    return sum(map(len, data)), {
        "decode": {
            "flowbuf": each(codec.decode, data),
            "upb messages": each(kind.FromString, data),
            "upb fields": each(lambda one: read(kind.FromString(one)), data),
        },
        "encode": {
            "flowbuf": each(codec.encode, objects),
            "upb messages": each(kind.SerializeToString, messages),
            "upb fields": each(lambda values: kind(**values).SerializeToString(), objects),
        },
    }


def main(*types: str) -> None:
    print(
        f"{'type':<16}{'bytes':>7}  {'direction':<11}{'contestant':<14}{'MiB/s':>8}{'spread':>8}{'ratio':>8}"
    )
    for name in types or tuple(TYPES):
        size, directions = contestants(name)
        for direction, works in directions.items():
            # MiB/s of each round, from nanoseconds per byte
            speeds = {
                contestant: [1e9 / 2**20 / time for time in samples]
                for contestant, samples in measure(works, size).items()
            }
            own = statistics.median(speeds["flowbuf"])
            for contestant, samples in speeds.items():
                median, spread = summarize(samples)
                print(
                    f"{name:<16}{size // MESSAGES:>7,}  {direction:<11}{contestant:<14}{median:>8,.0f}"
                    f"{spread:>8.1%}{own / median:>8.2f}"
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
