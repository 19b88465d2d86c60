"""Entries for spools, and checks that hold for every spool at any time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.spool import Entry, Spool

LIMIT = 1 << 20


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Make a folder in memory, if there is such a file system. Thousands of syncs to disk take minutes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def data_of(index: int) -> bytes:
    """Return data that differ for each index: 4 to 16 bytes, none for index 0."""
    return hashlib.sha256(str(index).encode()).digest()[: 4 * (1 + index % 4)] if index else b""


def flows_of(index: int) -> int:
    return index % 7


def append(spool: Spool, *indexes: int) -> None:
    for index in indexes:
        assert spool.append(data_of(index), flows_of(index))


def count_of(indexes: list[int]) -> Count:
    return Count(len(indexes), sum(map(flows_of, indexes)))


def check(spool: Spool) -> None:
    """Check that the counters match each other and the files."""
    counters = spool.counters
    kept = counters.acknowledged + counters.waiting
    assert counters.inherited + counters.appended == kept + counters.lost
    assert min(counters.waiting.entries, counters.waiting.flows) >= 0
    assert all(min(lost.entries, lost.flows) >= 0 for lost in counters.damaged.values())
    assert counters.waiting == Count(len(spool), spool.flows)
    assert spool.disk_bytes == sum(path.stat().st_size for path in segments_of(Path(spool.folder)))


def segments_of(folder: Path) -> list[Path]:
    """Return the segments of a spool in order."""
    return sorted(folder.glob("*-*.segment"), key=lambda path: path.name.split("-")[1])


def read_all(spool: Spool) -> list[Entry]:
    """Read all entries. Check the counters after each."""
    entries = []
    while entry := spool.read():
        entries.append(entry)
        check(spool)
    numbers = [entry.number for entry in entries]
    assert numbers == sorted(set(numbers))
    return entries


def drain(spool: Spool) -> list[int]:
    """Read and acknowledge all entries, and return their indexes. Check that the spool is empty then."""
    indexes = []
    for entry in read_all(spool):
        indexes.append(index_of(entry))
        spool.acknowledge(entry.number)
        check(spool)
    assert (len(spool), spool.flows) == (0, 0)
    assert spool.disk_bytes == 0
    return indexes


def index_of(entry: Entry) -> int:
    """Return the index of an entry. Its data are never wrong."""
    return _INDEXES[entry.data, entry.flows]


_INDEXES = {(data_of(index), flows_of(index)): index for index in range(10_000)}
