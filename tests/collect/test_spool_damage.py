"""A damaged spool returns every intact entry, never wrong data, and counts the other entries."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.cursor import ATTEMPTS
from flowbuf.collect.spools.segment import ENTRY_HEADER, SEGMENT_HEADER
from flowbuf.collect.spools.spool import Spool
from flowbuf.errors import SpoolError
from tests.collect.spools import (
    LIMIT,
    append,
    check,
    count_of,
    data_of,
    drain,
    memory_folder,
    read_all,
    segments_of,
)
from tests.support.cases import slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a spool with the entries 0 to 5 in two segments of two processes."""
    with memory_folder() as folder:
        for indexes in (range(3), range(3, 6)):
            with Spool(folder, LIMIT) as spool:
                append(spool, *indexes)
        yield folder


class Copies:
    """Copies of a spool, to damage each in another way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.segments = [path.name for path in segments_of(folder)]

    def write(self, name: str, content: bytes) -> Path:
        """Restore the spool, but with another content of one file."""
        for path in self.folder.iterdir():
            path.unlink()
        for each, original in self.files.items():
            (self.folder / each).write_bytes(content if each == name else original)
        return self.folder


def open_and_drain(folder: Path) -> tuple[list[int], Count]:
    """Return the indexes of intact entries and the lost ones. New entries follow the old ones."""
    with Spool(folder, LIMIT) as spool:
        check(spool)
        append(spool, 99)
        indexes = drain(spool)
        assert indexes.pop() == 99
        return indexes, spool.counters.lost


def lost_of(indexes: list[int]) -> Count:
    return count_of(sorted(set(range(6)) - set(indexes)))


@pytest.mark.parametrize("segment", [0, 1])
def test_every_prefix_of_a_segment(folder: Path, segment: int) -> None:
    copies = Copies(folder)
    name = copies.segments[segment]
    content = copies.files[name]
    seen = set()
    for size in range(len(content)):
        indexes, lost = open_and_drain(copies.write(name, content[:size]))
        first = 3 * segment
        kept = len(indexes) - 3
        assert indexes == [*range(first + kept), *range(first + 3, 6)]
        assert lost == lost_of(indexes)
        seen.add(kept)
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("flip", [0xFF, *slow(0x01)])
def test_every_damaged_byte_of_a_segment(folder: Path, segment: int, flip: int) -> None:
    copies = Copies(folder)
    name = copies.segments[segment]
    content = copies.files[name]
    lengths = []
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= flip
        indexes, lost = open_and_drain(copies.write(name, bytes(damaged)))
        assert lost == lost_of(indexes)
        lengths.append(len(indexes))
    assert lengths == [6] * SEGMENT_HEADER + [5] * (len(content) - SEGMENT_HEADER)


@pytest.mark.parametrize("size", [16, 64, 512])
def test_zeroed_parts_of_a_segment(folder: Path, size: int) -> None:
    copies = Copies(folder)
    for name in copies.segments:
        content = copies.files[name]
        for position in range(0, len(content), 8):
            damaged = content[:position] + bytes(size) + content[position + size :]
            indexes, lost = open_and_drain(copies.write(name, damaged[: len(content)]))
            assert lost == lost_of(indexes)
            assert len(indexes) >= 3


def damage_of(folder: Path) -> tuple[dict[str, Count], dict[str, int]]:
    """Read all entries, and return the counters of damage."""
    with Spool(folder, LIMIT) as spool:
        drain(spool)
        return spool.counters.damaged, spool.counters.damaged_bytes


def overwrite(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_damage_has_a_reason(folder: Path) -> None:
    first, second = segments_of(folder)
    sizes = [ENTRY_HEADER + len(data_of(index)) for index in range(6)]
    overwrite(first, SEGMENT_HEADER + sizes[0] + ENTRY_HEADER, b"damage")
    overwrite(second, 3, b"damage")
    overwrite(second, SEGMENT_HEADER + sizes[3] + 3, b"damage")
    os.truncate(first, first.stat().st_size - 1)
    lost, ignored = damage_of(folder)
    assert lost == {"checksum": count_of([1]), "truncated": count_of([2]), "header": count_of([4])}
    assert ignored == {
        "checksum": sizes[1],
        "truncated": sizes[2] - 1,
        "header": SEGMENT_HEADER + sizes[4],
    }


def test_an_incomplete_last_entry_is_removed(folder: Path) -> None:
    _, last = segments_of(folder)
    size = last.stat().st_size
    os.truncate(last, size - 1)
    with Spool(folder, LIMIT) as spool:
        assert spool.counters.damaged == {"truncated": count_of([5])}
        assert spool.counters.damaged_bytes == {"torn": ENTRY_HEADER + len(data_of(5)) - 1}
        assert last.stat().st_size == size - ENTRY_HEADER - len(data_of(5))
        assert drain(spool) == [0, 1, 2, 3, 4]


def test_missing_segments_are_counted(tmp_path: Path) -> None:
    for removed in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        folder = tmp_path / str(removed)
        for index in range(3):
            with Spool(folder, LIMIT) as spool:
                append(spool, index)
        for index, path in enumerate(segments_of(folder)):
            if index in removed:
                path.unlink()
        lost, _ = damage_of(folder)
        assert sum(lost.values(), Count()) == count_of(removed)
        assert set(lost) <= {"missing", "truncated"}
        assert damage_of(folder) == ({}, {})


def test_a_segment_that_is_deleted_while_it_is_written(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2)
        segments_of(tmp_path)[0].unlink()
        assert spool.read() is None
        assert spool.counters.damaged == {"unreadable": count_of([1, 2])}
        assert (len(spool), spool.disk_bytes) == (0, 0)
        append(spool, 3)
        assert drain(spool) == [3]


def test_a_segment_that_is_cut_while_it_is_read(folder: Path) -> None:
    with Spool(folder, LIMIT) as spool:
        assert spool.read()
        os.truncate(segments_of(folder)[0], SEGMENT_HEADER + ENTRY_HEADER + 10)
        assert [spool.read() is None for _ in range(4)] == [False, False, False, True]
        assert spool.counters.damaged == {"truncated": count_of([1, 2])}


def test_a_segment_that_cannot_be_read_at_start(folder: Path) -> None:
    path = segments_of(folder)[0]
    path.unlink()
    path.mkdir()
    with Spool(folder, LIMIT) as spool:
        assert [spool.read() is None for _ in range(4)] == [False, False, False, True]
        assert spool.counters.damaged == {"missing": count_of([0, 1, 2])}


def test_a_device_that_reports_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short failure loses nothing. Entries that can never be read are skipped."""
    with Spool(folder, LIMIT) as spool:
        assert spool.read()
        working = os.pread

        def fail(*_: int) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        for attempts in (ATTEMPTS - 1, ATTEMPTS - 1):
            monkeypatch.setattr(os, "pread", fail)
            for _ in range(attempts):
                with pytest.raises(OSError, match="Input/output error"):
                    spool.read()
            monkeypatch.setattr(os, "pread", working)
            assert spool.read()
        assert spool.counters.damaged == {}
        monkeypatch.setattr(os, "pread", fail)
        for _ in range(ATTEMPTS - 1):
            with pytest.raises(OSError, match="Input/output error"):
                spool.read()
        assert spool.read() is None
        monkeypatch.setattr(os, "pread", working)
        assert spool.counters.damaged == {"unreadable": count_of([3, 4, 5])}
        check(spool)


def test_an_error_that_may_pass_loses_nothing(folder: Path) -> None:
    resource = pytest.importorskip("resource")
    with Spool(folder, LIMIT) as spool:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                spool.read()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert drain(spool) == list(range(6))
        assert spool.counters.damaged == {}


# Hostile content --------------------------------------------------------------------------------------------


def entry_header(segment: Path, number: int, before: int, flows: int, length: int) -> bytes:
    """Return a header with a correct checksum."""
    identity, first = segment.name.removesuffix(".segment").split("-")
    header = struct.pack(">8sQQIII", bytes.fromhex(identity), int(first) + number, before, flows, length, 0)
    return header + struct.pack(">I", zlib.crc32(header))


@pytest.mark.parametrize("length", [1, 1000, (1 << 32) - 1])
def test_a_length_beyond_the_file(folder: Path, length: int) -> None:
    for segment in segments_of(folder):
        with segment.open("ab") as file:
            file.write(entry_header(segment, 3, 20, 1, length))
    with Spool(folder, LIMIT) as spool:
        assert drain(spool) == list(range(6))
        assert spool.counters.damaged == {}


@pytest.mark.parametrize(("number", "before"), [(0, 0), (2, 0), (100, 0), (100, 1000), (1 << 40, 1000)])
def test_an_entry_from_another_place(folder: Path, number: int, before: int) -> None:
    first, _ = segments_of(folder)
    with first.open("ab") as file:
        file.write(entry_header(first, number, before, 1, 0))
    with Spool(folder, LIMIT) as spool:
        assert drain(spool) == list(range(6))
        assert spool.counters.damaged_bytes == {"truncated": ENTRY_HEADER}


@pytest.mark.parametrize(("number", "before"), [(2, 15), (3, 14), (3 + (1 << 40), 15)])
def test_an_entry_from_another_place_at_the_end_of_the_log(folder: Path, number: int, before: int) -> None:
    """Blocks of a deleted segment may appear there after a power loss."""
    _, last = segments_of(folder)
    with last.open("ab") as file:
        file.write(entry_header(last, number, before, 1, 0))
    with Spool(folder, LIMIT) as spool:
        assert drain(spool) == list(range(6))
        assert spool.counters.damaged_bytes == {"torn": ENTRY_HEADER}


def test_a_segment_full_of_marks_of_entries(folder: Path) -> None:
    first, second = segments_of(folder)
    identity = bytes.fromhex(first.name.split("-")[0])
    size = SEGMENT_HEADER + ENTRY_HEADER
    for segment in (first, second):
        segment.write_bytes(segment.read_bytes()[:size] + identity * 50_000)
    with Spool(folder, LIMIT) as spool:
        assert drain(spool) == [0]
        assert spool.counters.lost == lost_of([0])


def test_an_entry_in_the_data_of_a_damaged_entry_is_ignored(tmp_path: Path) -> None:
    """Data may contain a copy of an older segment. After damage, its entries are not returned again."""
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2)
        old = segments_of(tmp_path)[0].read_bytes()
        assert spool.append(old, 5)
        append(spool, 3)
    path = segments_of(tmp_path)[0]
    overwrite(path, len(old) + 20, b"damage")
    with Spool(tmp_path, LIMIT) as spool:
        assert drain(spool) == [1, 2, 3]
        assert spool.counters.damaged == {"header": Count(1, 5)}


# Position ---------------------------------------------------------------------------------------------------


@pytest.fixture
def partly_read(folder: Path) -> Path:
    """Return a spool whose entries 0 to 3 are acknowledged."""
    with Spool(folder, LIMIT) as spool:
        spool.acknowledge(read_all(spool)[3].number)
    return folder


def test_every_damaged_byte_of_the_position(partly_read: Path) -> None:
    copies = Copies(partly_read)
    content = copies.files["spool.position"]
    for position in [*range(100), *range(508, 612), 1023]:
        damaged = bytearray(content)
        damaged[position] ^= 0x41
        indexes, lost = open_and_drain(copies.write("spool.position", bytes(damaged)))
        assert indexes in ([4, 5], [3, 4, 5])
        assert lost == Count()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: content[:50],
        lambda content: content[:600],
        lambda content: bytes(1024),
        lambda content: bytes(1 << 16),
        lambda content: os.urandom(1024),
        lambda content: content[1:] + b"\0",
    ],
)
def test_a_lost_position_repeats_the_oldest_segment(
    partly_read: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = partly_read / "spool.position"
    path.write_bytes(damage(path.read_bytes()))
    with Spool(partly_read, LIMIT) as spool:
        assert spool.counters.damaged_positions in (1, 2)
        assert drain(spool) in ([4, 5], [3, 4, 5])
        assert spool.counters.damaged == {}


def test_a_lost_position_of_an_empty_spool_changes_the_identity(tmp_path: Path) -> None:
    """Numbers begin again, so the identity must differ."""
    with Spool(tmp_path, LIMIT) as spool:
        identity = spool.identity
        append(spool, 1)
        drain(spool)
    (tmp_path / "spool.position").unlink()
    with Spool(tmp_path, LIMIT) as spool:
        assert spool.identity != identity
        append(spool, 2)
        assert drain(spool) == [2]


@pytest.mark.parametrize("sector", [0, 1])
def test_one_damaged_copy_of_an_empty_spool_keeps_its_numbers(tmp_path: Path, sector: int) -> None:
    with Spool(tmp_path / "spool", LIMIT) as spool:
        append(spool, *range(10))
        last = read_all(spool)[-1]
        spool.acknowledge(last.number)
        shutil.copytree(spool.folder, tmp_path / "killed")
    overwrite(tmp_path / "killed/spool.position", sector * 512, bytes(512))
    with Spool(tmp_path / "killed", LIMIT) as killed:
        assert killed.identity == spool.identity
        append(killed, 1)
        entry = killed.read()
        assert entry
        assert entry.number & 0xFF == 10
        assert entry.number > last.number


# Versions and folders ---------------------------------------------------------------------------------------


def raise_version(path: Path, sector: int, size: int) -> None:
    """Set the version of a header to 2, with a correct checksum."""
    header = bytearray(path.read_bytes()[sector : sector + size])
    header[7] = 2
    overwrite(path, sector, header + struct.pack(">I", zlib.crc32(header)))


def test_a_newer_version_is_refused(folder: Path) -> None:
    copies = Copies(folder)
    raise_version(segments_of(folder)[1], 0, SEGMENT_HEADER - 4)
    with pytest.raises(SpoolError, match=r"segment: has version 2, which a newer flowbuf wrote; use that"):
        Spool(folder, LIMIT)
    copies.write("", b"")
    for sector in (0, 512):
        raise_version(folder / "spool.position", sector, 80)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SpoolError, match=r"spool\.position: has version 2"):
        Spool(folder, LIMIT)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    copies.write("", b"")
    assert open_and_drain(folder)[0] == list(range(6))


def test_segments_of_two_spools_are_refused(folder: Path, tmp_path: Path) -> None:
    with Spool(tmp_path / "other", LIMIT) as spool:
        append(spool, 1)
    moved = folder / segments_of(tmp_path / "other")[0].name
    shutil.copy(segments_of(tmp_path / "other")[0], moved)
    with pytest.raises(SpoolError, match=r"has segments of several spools .*; move all but one elsewhere"):
        Spool(folder, LIMIT)
    moved.unlink()
    assert open_and_drain(folder)[0] == list(range(6))
