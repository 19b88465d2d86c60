"""Several threads use one codec at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowbuf import Codec
from flowbuf.errors import EncodeError

RECORD = Codec.load("record")
EXAMPLES = RECORD.examples(40)
ENCODED = [RECORD.encode(each) for each in EXAMPLES]
TEXTS = [RECORD.to_json(each) for each in ENCODED]
THREADS, ROUNDS = 8, 30


class Slow:
    """An object whose attributes run Python code, where other threads can interrupt."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def __getattr__(self, name: str) -> Any:
        if name in self.record:
            return self.record[name]
        raise AttributeError(name)


class Plain:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for _ in range(ROUNDS):
                work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_encode_objects_of_different_classes() -> None:
    def work(number: int) -> None:
        for example, encoded in zip(EXAMPLES, ENCODED, strict=True):
            given: Any = [example, tuple(example.values()), Slow(example), Plain(**example)][number % 4]
            assert RECORD.encode(given) == encoded
        if number % 4 == 0:
            assert RECORD.decode_many(RECORD.encode_many(map(Slow, EXAMPLES))) == EXAMPLES
        with pytest.raises(EncodeError, match=r"^name: "):
            RECORD.encode({"name": 5})

    in_threads(work)


def test_threads_decode_into_different_types() -> None:
    def work(number: int) -> None:
        for example, encoded in zip(EXAMPLES, ENCODED, strict=True):
            assert RECORD.decode(encoded, tuple)[0] == example["name"]
            assert RECORD.decode(encoded, lambda **fields: fields) == example
            assert RECORD.decode(encoded) == example

    in_threads(work)


def test_threads_convert_json() -> None:
    codec = Codec.load("record")  # its tables are made by the threads
    stream, lines = RECORD.encode_many(EXAMPLES), RECORD.to_json_lines(RECORD.encode_many(EXAMPLES))
    assert len(stream) > 4096  # so that other threads run during the conversion of larger messages
    large = RECORD.encode({"name": "x" * 10_000, "children": [{"id": 5}] * 2000})
    text = RECORD.to_json(large)

    def work(number: int) -> None:
        for encoded, expected in zip(ENCODED, TEXTS, strict=True):
            assert codec.to_json(encoded) == expected
            assert codec.from_json(expected) == encoded
        assert codec.to_json_lines(stream) == lines
        assert codec.from_json_lines(lines) == stream
        assert codec.to_json(large) == text
        assert codec.from_json(text) == large

    in_threads(work)


def test_a_buffer_that_another_thread_changes_is_read_without_harm() -> None:
    """The result is any message, or an error."""
    buffers = [bytearray(RECORD.encode({"name": "x" * 5000, "children": [{"id": 5, "name": "abc"}] * 500}))]
    buffers.append(bytearray(RECORD.to_json(buffers[0]).encode()))
    done = threading.Event()

    def change() -> None:
        place = 0
        while not done.is_set():
            for buffer in buffers:
                place = (place * 7 + 13) % len(buffer)
                buffer[place] ^= 0x55
                buffer[place] ^= 0x55

    thread = threading.Thread(target=change)
    thread.start()
    outcomes = set()
    for _ in range(300):
        for convert, buffer in zip((RECORD.to_json, RECORD.from_json), buffers, strict=True):
            try:
                outcomes.add(type(convert(buffer)))
            except ValueError as error:
                outcomes.add(type(error))
    done.set()
    thread.join()
    assert outcomes >= {str, bytes}
