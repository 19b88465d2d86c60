"""A spool behaves like a list, whatever happens: restarts, killed processes and power losses."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import tests.strategies.basics  # noqa: F401 - loads the profile of Hypothesis
from flowbuf.collect.spools.spool import Entry, Spool
from tests.collect.spools import append, check, data_of, flows_of, index_of, read_all, segments_of
from tests.support.cases import slow

LIMIT = 4000
SEGMENT = 300
POSITION = "spool.position"


class Disk:
    """A folder as a power loss may leave it.

    Only content and names that were synced are certain. Of later changes, any part may be there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, int] = {}
        self.content: dict[int, bytes] = {}

    def sync(self, file: int) -> None:
        """Store the content of a file, or the names of a folder, as `os.fsync` does."""
        if os.path.isdir(f"/proc/self/fd/{file}"):
            self.names = {entry.name: entry.inode() for entry in os.scandir(file)}
            return
        size = os.fstat(file).st_size
        self.content[os.fstat(file).st_ino] = os.pread(file, size, 0)

    def inode(self, name: str) -> int:
        """Return the number of a file, also if its synced name was deleted."""
        path = self.folder / name
        return path.stat().st_ino if path.exists() else self.names[name]

    def synced(self, name: str) -> bytes:
        return self.content.get(self.inode(name), b"")

    def read(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def write(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (self.folder / name).write_bytes(content)

    def lose_power(self, luck: random.Random) -> dict[str, bytes]:
        """Return the files that are left."""
        now = self.read()
        left = {}
        for name in sorted(self.names.keys() | now.keys()):
            is_certain = name in self.names and name in now
            if is_certain or luck.random() < 0.5:
                left[name] = mix(self.synced(name), now.get(name, self.synced(name)), name, luck)
        return left


def mix(synced: bytes, current: bytes, name: str, luck: random.Random) -> bytes:
    """Return content between the synced and the current one."""
    if name == POSITION:  # a sector is written whole or not at all
        sectors = [luck.choice([synced, current])[at : at + 512].ljust(512, b"\0") for at in (0, 512)]
        return b"".join(sectors)
    size = luck.randint(min(len(synced), len(current)), len(current))
    written = luck.choice([size, len(synced), len(current)])
    return current[:written].ljust(luck.choice([size, written, len(current)]), b"\0")


class SpoolMachine(RuleBasedStateMachine):
    """Compare a spool with a list of its entries."""

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.patch = pytest.MonkeyPatch()
        self.root = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.index = 0
        self.entries: list[int] = []  # appended and not acknowledged, in order
        self.acknowledged: list[int] = []
        self.synced = (0, 0)  # appended and acknowledged entries at the last sync
        self.read: list[Entry] = []  # read in this process and not acknowledged
        self.numbers: dict[int, int] = {}  # number of each index
        self.starts = 0
        self.lost_power = False
        self.disk = Disk(Path(self.root.name, "0"))
        self.patch.setattr(os, "fsync", lambda file: self.disk.sync(file))
        self.open()

    def open(self) -> None:
        self.spool = Spool(self.disk.folder, LIMIT, SEGMENT)
        self.read = []

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        for _ in range(count):
            if self.spool.append(data_of(self.index), flows_of(self.index)):
                self.entries.append(self.index)
                self.index += 1
            else:
                assert self.spool.disk_bytes > LIMIT - SEGMENT

    @rule(count=st.integers(1, 6))
    def read_entries(self, count: int) -> None:
        for _ in range(count):
            expected = self.entries[len(self.read) : len(self.read) + 1]
            entry = self.spool.read()
            assert [index_of(entry)] == expected if entry else not expected
            if entry:
                self.keep_number(entry)
                self.read.append(entry)

    def keep_number(self, entry: Entry) -> None:
        """Check that an entry keeps its number, and that no other entry has it."""
        index = index_of(entry)
        assert self.numbers.setdefault(index, entry.number) == entry.number
        assert len(set(self.numbers.values())) == len(self.numbers)

    @rule(share=st.floats(0, 1))
    def acknowledge(self, share: float) -> None:
        self.read_entries(2)
        count = round(share * len(self.read))
        if count:
            self.spool.acknowledge(self.read[count - 1].number)
            self.acknowledged += self.entries[:count]
            del self.entries[:count], self.read[:count]

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.synced = (self.index, len(self.acknowledged))

    @rule()
    def restart(self) -> None:
        self.spool.close()
        self.synced = (self.index, len(self.acknowledged))
        self.open()

    def move(self) -> Disk:
        """Return an empty folder for the files that the process leaves."""
        self.starts += 1
        folder = Path(self.root.name, str(self.starts))
        folder.mkdir()
        return Disk(folder)

    @rule(share=st.floats(0, 1, exclude_max=True))
    def kill(self, share: float) -> None:
        """Kill the process while it appends an entry, which is cut at any byte."""
        before = self.disk.read()
        self.spool.append(data_of(self.index), flows_of(self.index))
        after = {path.name: path.read_bytes() for path in segments_of(self.disk.folder)}
        for name, content in after.items():
            size = len(before.get(name, b""))
            after[name] = content[: size + int(share * (len(content) - size))]
        disk = self.move()
        disk.write(before | after)
        disk.names = {name: disk.inode(name) for name in self.disk.names if name in before}
        disk.content = {disk.inode(name): self.disk.synced(name) for name in before | after}
        self.spool.close()
        self.disk = disk
        self.index += 1
        self.open()
        assert self.lost_power or self.spool.counters.damaged == {}

    @rule()
    def lose_power(self) -> None:
        """Lose entries and acknowledgements since the last sync, or some of them."""
        self.lost_power = True
        disk = self.move()
        disk.write(self.disk.lose_power(self.luck))
        self.spool.close()
        self.disk = disk
        appended, acknowledged = self.synced
        certain = {index for index in self.entries if index < appended}
        possible = {*self.entries, *self.acknowledged[acknowledged:]}
        with Spool(disk.folder, LIMIT, SEGMENT) as spool:
            check(spool)
            entries = []
            while entry := spool.read():
                self.keep_number(entry)
                entries.append(index_of(entry))
            check(spool)
        assert certain <= set(entries) <= possible
        assert entries == sorted(entries)
        self.acknowledged = [index for index in range(self.index) if index not in entries]
        self.entries = entries
        self.open()
        self.synced = (self.index, len(self.acknowledged))

    @invariant()
    def counters_match(self) -> None:
        if hasattr(self, "spool"):
            check(self.spool)
            assert self.spool.disk_bytes <= LIMIT

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.close()
            self.patch.undo()
            self.root.cleanup()


@pytest.mark.parametrize("steps", [30, *slow(100)])
def test_a_spool_behaves_like_a_list(steps: int) -> None:
    examples = settings().max_examples
    run_state_machine_as_test(
        SpoolMachine, settings=settings(stateful_step_count=steps, max_examples=examples)
    )


def test_acknowledged_segments_are_not_counted_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is synced before a segment is deleted, so a power loss cannot keep only the deletion."""
    disk = Disk(tmp_path / "spool")
    disk.folder.mkdir()
    monkeypatch.setattr(os, "fsync", disk.sync)
    with Spool(disk.folder, LIMIT, SEGMENT) as spool:
        append(spool, *range(20))
        spool.sync()
        entries = read_all(spool)
        for entry in entries[:-1]:
            spool.acknowledge(entry.number)
        left = {**disk.read(), POSITION: disk.synced(POSITION)}
    (tmp_path / "left").mkdir()
    for name, content in left.items():
        (tmp_path / "left" / name).write_bytes(content)
    with Spool(tmp_path / "left", LIMIT, SEGMENT) as spool:
        assert read_all(spool)[-1] == entries[-1]
        assert spool.counters.damaged == {}
