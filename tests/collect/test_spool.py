"""A spool returns the entries that were appended, in order, within its limit, also after a restart."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.segment import ENTRY_HEADER, SEGMENT_HEADER
from flowbuf.collect.spools.spool import Entry, Spool
from flowbuf.errors import SpoolError
from tests.collect.spools import LIMIT, append, check, count_of, drain, memory_folder, read_all, segments_of


def test_entries_are_read_in_order(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool", LIMIT) as spool:
        append(spool, *range(20))
        assert spool.counters.waiting == count_of(list(range(20)))
        assert drain(spool) == list(range(20))
        assert spool.read() is None
        assert spool.counters.acknowledged == count_of(list(range(20)))


def test_the_buffers_of_an_entry_become_one(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        assert spool.append([b"a", memoryview(b"bc"), bytearray(), b"d" * 1000], 3)
        assert spool.append([bytes([number % 256]) for number in range(3000)], 4)
        assert spool.append([], 0)
        assert [entry[1:] for entry in read_all(spool)] == [
            (b"abc" + b"d" * 1000, 3),
            (bytes(number % 256 for number in range(3000)), 4),
            (b"", 0),
        ]


def test_each_entry_is_read_once_until_the_next_start(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2, 3)
        first, second, third = read_all(spool)
        assert spool.read() is None
        assert len(spool) == 3
        spool.acknowledge(first.number)
    with Spool(tmp_path, LIMIT) as spool:
        assert spool.counters.inherited == count_of([2, 3])
        assert read_all(spool) == [second, third]


def test_an_acknowledgement_includes_earlier_entries(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2, 3, 4)
        entries = read_all(spool)
        spool.acknowledge(entries[2].number)
        assert spool.counters.acknowledged == count_of([1, 2, 3])
        spool.acknowledge(entries[0].number)
        spool.acknowledge(entries[2].number)
        assert spool.counters.acknowledged == count_of([1, 2, 3])
        check(spool)


def test_only_entries_that_were_read_can_be_acknowledged(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2)
        first = spool.read()
        assert first
        with pytest.raises(
            ValueError, match=f"entry {first.number + 1} was not read; acknowledge entries after"
        ):
            spool.acknowledge(first.number + 1)
        assert len(spool) == 2


def test_numbers_increase_over_restarts(tmp_path: Path) -> None:
    numbers = []
    for _ in range(3):
        with Spool(tmp_path, LIMIT) as spool:
            append(spool, 1, 2)
            entries = read_all(spool)
            numbers += [entry.number for entry in entries]
            spool.acknowledge(entries[-1].number)
    assert len(set(numbers)) == 6
    assert numbers == sorted(numbers)


def test_the_identity_lasts_as_long_as_the_folder(tmp_path: Path) -> None:
    identities = []
    for name in ("one", "one", "two"):
        with Spool(tmp_path / name, LIMIT) as spool:
            identities.append(spool.identity)
    assert identities[0] == identities[1] != identities[2]


def test_the_limit_includes_headers_and_all_segments(tmp_path: Path) -> None:
    limit = 3 * (SEGMENT_HEADER + 2 * (ENTRY_HEADER + 100))
    with Spool(tmp_path, limit, segment_bytes=SEGMENT_HEADER + 2 * (ENTRY_HEADER + 100)) as spool:
        accepted = 0
        while spool.append(bytes(100), 1):
            accepted += 1
            check(spool)
        assert spool.disk_bytes <= limit < spool.disk_bytes + SEGMENT_HEADER + ENTRY_HEADER + 100
        assert len(segments_of(tmp_path)) > 2
        assert not spool.append(bytes(100), 1)
        assert spool.counters.appended == Count(accepted, accepted)
        entry = spool.read()
        assert entry
        spool.acknowledge(entry.number)
        while len(segments_of(tmp_path)) > 2 and (entry := spool.read()):
            spool.acknowledge(entry.number)
        assert spool.append(bytes(100), 1)
        check(spool)


def test_an_entry_larger_than_a_segment_has_its_own(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT, segment_bytes=1000) as spool:
        for size in (10, 5000, 10):
            assert spool.append(bytes(size), 1)
        assert [path.stat().st_size > 5000 for path in segments_of(tmp_path)] == [False, True, False]
        assert not spool.append(bytes(LIMIT), 1)
        assert [len(entry.data) for entry in read_all(spool)] == [10, 5000, 10]


def test_segments_are_deleted_when_they_are_acknowledged(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT, segment_bytes=500) as spool:
        append(spool, *range(30))
        before = len(segments_of(tmp_path))
        for entry in read_all(spool)[:15]:
            spool.acknowledge(entry.number)
            check(spool)
        assert 0 < len(segments_of(tmp_path)) < before


def test_an_empty_spool_has_only_its_position(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        assert os.listdir(tmp_path) == ["spool.position"]
        append(spool, 1, 2)
        drain(spool)
        assert os.listdir(tmp_path) == ["spool.position"]
        append(spool, 3)
        assert drain(spool) == [3]
    assert os.listdir(tmp_path) == ["spool.position"]
    assert (tmp_path / "spool.position").stat().st_size == 1024


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    with Spool(tmp_path / "new" / "spool", LIMIT) as spool:
        append(spool, 1)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(spool.folder).iterdir()}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(Path(spool.folder).stat().st_mode) == 0o700


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.segment").write_bytes(b"mine")
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1)
        assert [entry.number for entry in read_all(spool)]
    assert (tmp_path / "notes.segment").read_bytes() == b"mine"


@pytest.mark.parametrize(("limit", "segment_bytes"), [(0, 1), (-1, 1), (1, 0)])
def test_sizes_are_positive(tmp_path: Path, limit: int, segment_bytes: int) -> None:
    with pytest.raises(ValueError, match="use positive sizes"):
        Spool(tmp_path, limit, segment_bytes)


@pytest.mark.parametrize("flows", [-1, 1 << 32])
def test_flows_are_in_range(tmp_path: Path, flows: int) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        with pytest.raises(ValueError, match="the maximum is 4294967295"):
            spool.append(b"", flows)
        assert len(spool) == 0


def test_a_closed_spool_refuses_every_call(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    append(spool, 1)
    spool.close()
    spool.close()
    for call in (lambda: spool.append(b"", 0), spool.read, spool.sync, lambda: spool.acknowledge(0)):
        with pytest.raises(ValueError, match="the spool is closed"):
            call()


# Processes --------------------------------------------------------------------------------------------------

OPEN = """
import sys
from flowbuf.collect.spools.spool import Spool
from flowbuf.errors import SpoolError
try:
    Spool(sys.argv[1], 1000)
except SpoolError as error:
    print(error.in_use, error)
"""


def test_a_second_process_cannot_open_the_spool(tmp_path: Path) -> None:
    def open_elsewhere() -> str:
        command = [sys.executable, "-c", OPEN, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1)
        text = f"{tmp_path}: another process uses this spool; stop that process, or use another folder"
        assert open_elsewhere() == f"True {text}\n"
        with pytest.raises(SpoolError, match="another process uses this spool"):
            Spool(tmp_path, LIMIT)
        assert drain(spool) == [1]
    assert open_elsewhere() == ""


@pytest.mark.parametrize("step", [1, 5])
def test_one_thread_appends_while_another_reads(step: int) -> None:
    count = 2000
    with memory_folder() as folder, Spool(folder, 20_000, segment_bytes=2000) as spool:

        def append_all() -> None:
            for number in range(count):
                while not spool.append(number.to_bytes(4, "big") * (number % 20), number % 3):
                    pass
                if number % 100 == 0:
                    spool.sync()

        def read_some(seen: list[Entry]) -> None:
            while len(seen) < count:
                if entry := spool.read():
                    seen.append(entry)
                    if len(seen) % step == 0 or len(spool) > 20 or len(seen) == count:
                        spool.acknowledge(entry.number)
                counters = spool.counters
                assert counters.appended == counters.acknowledged + counters.waiting

        seen: list[Entry] = []
        thread = threading.Thread(target=append_all)
        thread.start()
        read_some(seen)
        thread.join()
        assert [entry[1:] for entry in seen] == [
            (number.to_bytes(4, "big") * (number % 20), number % 3) for number in range(count)
        ]
        assert spool.counters.damaged == {}
        assert (len(spool), spool.disk_bytes) == (0, 0)
        check(spool)


@pytest.mark.parametrize("fails", [False, True])
def test_the_last_entry_is_acknowledged_while_the_next_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The segment stays until the entry is written. If that fails, the segment is deleted."""
    working = os.pwritev
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1)
        entry = spool.read()
        assert entry

        def acknowledge_and_write(*arguments: Any) -> int:
            spool.acknowledge(entry.number)
            if fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return working(*arguments)

        monkeypatch.setattr(os, "pwritev", acknowledge_and_write)
        if fails:
            with pytest.raises(OSError, match="No space left"):
                append(spool, 2)
        else:
            append(spool, 2)
        monkeypatch.setattr(os, "pwritev", working)
        check(spool)
        assert bool(segments_of(tmp_path)) is not fails
        append(spool, 3)
        assert drain(spool) == ([3] if fails else [2, 3])
