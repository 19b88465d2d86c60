"""Measure CPU time and size of formats for the same records, in turn.

A round of a format repeats passes over its records for at least SECONDS. Single records are a loop in Python
over the DISTINCT records of a family. A batch is one call. Decoded objects are freed within the round.
Garbage collection is on, but ignores objects that existed before. Otherwise the times would depend on the
size of the test run.
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
"""Maximum wall time of all rounds of a format, in seconds. A slow format gets fewer rounds, at least one."""

Pass = Callable[[], None]


@dataclass(frozen=True)
class Timing:
    """Result of a format.

    `samples` are nanoseconds of CPU time per record, one per round. `bytes` is the mean size of a record in
    bytes, or its share of a batch.
    """

    format: Format
    bytes: float
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class _Entry:
    """A format with its inputs, ready to be timed."""

    def __init__(self, form: Format, family: Family, direction: str, count: int) -> None:
        self.format = form
        self.run, self.records, self.bytes = make_pass(form.open(family), family, direction, count)
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
    """Measure "encode" or "decode" of `count` records at once with each format.

    A pass before the first round warms up. Every other round runs in the opposite order. Formats that are not
    installed are left out.
    """
    entries = [_Entry(form, family, direction, count) for form in formats if form.absent() is None]
    for entry in entries:
        entry.run()
    with only_new_garbage():
        for turn in range(rounds):
            for entry in entries if turn % 2 == 0 else reversed(entries):
                entry.measure(seconds)
    return {entry.format.name: Timing(entry.format, entry.bytes, tuple(entry.samples)) for entry in entries}


@contextmanager
def only_new_garbage() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make_pass(coder: Coder, family: Family, direction: str, count: int) -> tuple[Pass, int, float]:
    """Return a pass over the family's records, their number, and the mean bytes of a record.

    With a count of 1, a pass is a loop over all distinct records. Otherwise it is a loop over batches: as
    many whole batches as fit into the distinct records, and at least one.
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
