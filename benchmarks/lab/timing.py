"""What formats take for the same records: CPU time, by turns; and octets.

A round of a format is passes over its records until SECONDS have gone. One record at a time is a loop over
the DISTINCT records of a family, in Python; a batch is one call. What was decoded is dropped within the
round. Garbage is collected as ever, but what was there before is not searched for it: a test run would make
it a matter of its own size.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .families import DISTINCT, Family
from .formats import Coder, Format

__all__ = ["DIRECTIONS", "ROUNDS", "SECONDS", "Timing", "make_pass", "measure"]

DIRECTIONS = ("encode", "decode")
ROUNDS = 7
SECONDS = 0.01
PATIENCE = 5.0
"""Seconds, on the wall, that the rounds of a format may take together; a slow one gets fewer, at least one.
"""

Pass = Callable[[], None]


@dataclass(frozen=True)
class Timing:
    """`samples` are nanoseconds of CPU time a record, one a round; `octets` is the mean size of a record, its
    share of a batch where there is one.
    """

    format: Format
    octets: float
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class _Entry:
    """A format that is ready to be timed."""

    def __init__(self, form: Format, family: Family, direction: str, count: int) -> None:
        self.format = form
        self.run, self.records, self.octets = make_pass(form.open(family), family, direction, count)
        self.samples: list[float] = []
        self.spent = 0.0

    def measure(self, seconds: float) -> None:
        if self.samples and self.spent >= PATIENCE:
            return
        begin, passes = time.perf_counter(), 0
        cpu = time.thread_time_ns()
        while (taken := time.thread_time_ns() - cpu) < seconds * 1e9 or not passes:
            self.run()
            passes += 1
        self.samples.append(taken / (passes * self.records))
        self.spent += time.perf_counter() - begin


def measure(
    family: Family,
    direction: str,
    count: int,
    formats: Sequence[Format],
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> dict[str, Timing]:
    """What each format takes to "encode" or to "decode" `count` records at once, after a pass that does not
    count; every other round in the opposite order. Formats that are absent are left out.
    """
    entries = [_Entry(form, family, direction, count) for form in formats if form.absent() is None]
    for entry in entries:
        entry.run()
    with only_new_garbage():
        for turn in range(rounds):
            for entry in entries if turn % 2 == 0 else reversed(entries):
                entry.measure(seconds)
    return {entry.format.name: Timing(entry.format, entry.octets, tuple(entry.samples)) for entry in entries}


@contextmanager
def only_new_garbage() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make_pass(coder: Coder, family: Family, direction: str, count: int) -> tuple[Pass, int, float]:
    """A pass over the family's records, how many they are, and the octets of one. One record: all that are
    distinct, one after the other; a batch: as many of them as it takes for all that are distinct, at least
    one.
    """
    if count == 1:
        singles = [coder.prepare(record) for record in family.records]
        encoded = list(map(coder.encode, singles))
        call, inputs = (coder.encode, singles) if direction == "encode" else (coder.decode, encoded)
    else:
        starts = range(0, max(DISTINCT - count, 0) + 1, count)
        batches = [[coder.prepare(record) for record in family.rotate(count, start)] for start in starts]
        encoded = list(map(coder.encode_batch, batches))
        call, inputs = (
            (coder.encode_batch, batches) if direction == "encode" else (coder.decode_batch, encoded)
        )
    records = len(inputs) * count
    return repeat(call, inputs), records, sum(map(len, encoded)) / records


def repeat(call: Callable[[Any], Any], inputs: Sequence[Any]) -> Pass:
    def run() -> None:
        for each in inputs:
            call(each)

    return run
