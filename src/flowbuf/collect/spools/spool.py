"""A bounded log of entries on disk, which survives the end of its process and of its machine.

An output whose queue is full appends batches of flows to its spool. Later, they are read in order and
acknowledged.

Durability:

- If the process is killed, every entry whose `append` returned is kept, and so is every acknowledgement.
- If the machine loses power, everything before the last `sync` is kept: entries and acknowledgements. Later
  entries may be lost, which is counted if the stored progress includes them. Later acknowledgements may be
  lost, so these entries are delivered again.

An output that stores an entry and is killed before it acknowledges it receives the entry again. The number
of an entry never changes and is never used for another entry of the same `identity`, so outputs can ignore
entries that they already have.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from flowbuf.collect.spools.counts import Count, SpoolCounters, SpoolProgress
from flowbuf.collect.spools.cursor import Cursor
from flowbuf.collect.spools.position import PositionFile
from flowbuf.collect.spools.recovery import recover_log
from flowbuf.collect.spools.segment import ENTRY_HEADER, LENGTH_MAX, SEGMENT_HEADER, Frame, Segment
from flowbuf.io.output_file import sync_folder

__all__ = ["Entry", "Spool"]

SEGMENT_BYTES = 64 << 20
"""Default size of a segment in bytes."""

_SEGMENTS_MIN = 8  # segments of a full spool, so that acknowledged ones free space before the log is empty

Data = bytes | bytearray | memoryview
"""Bytes of an entry, or a part of them."""


class Entry(NamedTuple):
    """An entry of a spool.

    Attributes:
        number: Number of the entry. Numbers increase, also over restarts, but not always by one.
        data: Bytes of the entry.
        flows: Number of flows in the entry.
    """

    number: int
    data: bytes
    flows: int


class Spool:
    """A bounded log of entries on disk. Some threads append while another one reads and acknowledges.

    Entries are in segments, files of the folder. A segment is deleted when all its entries are acknowledged.
    An empty spool has only a position file of 1 KiB. Damaged entries are skipped and counted.

    Args:
        folder: Folder for this spool alone. It is created with mode 0700. Files have mode 0600.
        limit: Maximum size of the segments on disk, in bytes, with headers.
        segment_bytes: Maximum size of a segment, in bytes. A segment with one entry may be larger. An eighth
            of `limit` if that is smaller. Default: 64 MiB.

    Attributes:
        folder: Absolute path of the folder.
        identity: Text that distinguishes this spool from others. It changes only if the position file is lost
            while the spool is empty.

    Raises:
        SpoolError: Another process uses the spool, a newer flowbuf wrote it, or it has segments of others.
        OSError: The folder or a file in it cannot be created, read or changed.

    Example:
        with Spool("spool/kafka", limit=10 << 30) as spool:
            spool.append(b"data", flows=1)
            spool.sync()
            entry = spool.read()
            spool.acknowledge(entry.number)
    """

    def __init__(
        self, folder: str | os.PathLike[str], limit: int, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        if limit < 1 or segment_bytes < 1:
            raise ValueError(f"limit is {limit} and segment_bytes is {segment_bytes}; use positive sizes")
        self.folder = os.path.abspath(folder)
        self._limit = limit
        self._segment_bytes = min(segment_bytes, max(1, limit // _SEGMENTS_MIN))
        self._append_lock = threading.Lock()  # taken first; held while an entry is written
        self._read_lock = threading.Lock()  # taken second; held while an entry is read, and for its progress
        self._lock = threading.Lock()  # taken last; never held during input or output of data
        _make_folder(self.folder)
        self._position = PositionFile(os.path.join(self.folder, "spool.position"))
        try:
            self._recover()
        except BaseException:
            self._position.close()
            raise

    def _recover(self) -> None:
        log = recover_log(self.folder, self._position)
        sessions = [self._position.session, *(segment.session for segment in log.segments)]
        self._session = max(sessions) + 1
        progress = SpoolProgress(log.acknowledged, self._position.progress.synced, log.end)
        self._position.begin(log.identity, self._session, progress)
        sync_folder(self.folder)
        self.identity = log.identity.hex()
        self._closed = False
        self._segments = log.segments
        self._names_changed = False
        self._disk_bytes = sum(segment.size for segment in log.segments)
        self._damaged_positions = log.damaged_positions
        self._position_errors = 0
        # Counts since the start, and places in the log.
        self._damage = log.damage
        self._inherited = log.inherited
        self._appended = self._acknowledged_entries = Count()
        self._waiting = log.inherited - sum(log.damage.lost.values(), Count())
        self._acknowledged, self._end = log.acknowledged, log.end
        # The segment to which entries are appended.
        self._tail: Segment | None = None
        self._tail_file = -1
        self._writing = False
        # Guarded by the lock for reading.
        self._cursor = Cursor(log.acknowledged)
        self._unacknowledged: deque[_Passed] = deque()
        self._number = -1  # of the last entry that was read
        self._store_progress()

    # State --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of entries that are not acknowledged."""
        return self._waiting.entries

    @property
    def flows(self) -> int:
        """Number of flows in the entries that are not acknowledged."""
        return self._waiting.flows

    @property
    def disk_bytes(self) -> int:
        """Size of the segments on disk, in bytes."""
        return self._disk_bytes

    @property
    def counters(self) -> SpoolCounters:
        """Counters since the start, all of the same moment."""
        with self._lock:
            return SpoolCounters(
                inherited=self._inherited,
                appended=self._appended,
                acknowledged=self._acknowledged_entries,
                waiting=self._waiting,
                damaged=dict(self._damage.lost),
                damaged_bytes=dict(self._damage.ignored),
                damaged_positions=self._damaged_positions,
                position_errors=self._position_errors,
            )

    # Appending ----------------------------------------------------------------------------------------------

    def append(self, data: Data | Sequence[Data], flows: int) -> bool:
        """Append an entry.

        Args:
            data: Bytes of the entry, at most 4 GiB. The buffers of a sequence become one entry.
            flows: Number of flows in the entry.

        Returns:
            bool: False if the entry would exceed the limit. Then nothing is written.

        Raises:
            OSError: The entry cannot be written, for example because the disk is full. Nothing of it is kept,
                and later calls may succeed.
            ValueError: The entry is too large, or the spool is closed.
        """
        parts = [data] if isinstance(data, (bytes, bytearray, memoryview)) else data
        views = [memoryview(part).cast("B") for part in parts]
        length = sum(map(len, views))
        if max(length, flows) > LENGTH_MAX or flows < 0:
            raise ValueError(f"the entry has {length} bytes and {flows} flows; the maximum is {LENGTH_MAX}")
        checksum = 0
        for view in views:
            checksum = zlib.crc32(view, checksum)
        with self._append_lock:
            if not self._begin_append(ENTRY_HEADER + length):
                return False
            try:
                self._write(views, flows, checksum)
            finally:
                self._end_append()
        return True

    def _begin_append(self, size: int) -> bool:
        """Choose the segment for an entry of this size: the tail or, if that is None, a new segment."""
        with self._lock:
            self._check_open()
            fits = self._tail is not None and self._tail.size + size <= self._segment_bytes
            if self._disk_bytes + size + (0 if fits else SEGMENT_HEADER) > self._limit:
                return False
            if not fits:
                self._close_tail()
            self._writing = True
            return True

    def _write(self, data: list[memoryview], flows: int, checksum: int) -> None:
        segment, file = self._tail, self._tail_file
        if segment is not None:
            self._commit(segment, segment.write(file, data, flows, checksum))
            return
        identity = bytes.fromhex(self.identity)
        segment, file = Segment.create(self.folder, identity, self._session, self._end)
        try:
            frame = segment.write(file, data, flows, checksum)
        except BaseException:
            os.close(file)
            with suppress(OSError):
                os.unlink(segment.path)
            raise
        with self._lock:
            self._tail, self._tail_file = segment, file
            self._segments.append(segment)
            self._disk_bytes += segment.size
            self._names_changed = True
        self._commit(segment, frame)

    def _commit(self, segment: Segment, frame: Frame) -> None:
        """Let readers see an entry that is written."""
        with self._lock:
            self._disk_bytes += frame.end - segment.size
            segment.size = frame.end
            segment.stop = segment.next = self._end = frame.stop
            self._appended += Count(1, frame.flows)
            self._waiting += Count(1, frame.flows)

    def _end_append(self) -> None:
        """Delete the tail if it is acknowledged and the entry was not written."""
        with self._lock:
            self._writing = False
            finished = self._tail is not None and self._is_finished(self._tail)
        if finished:
            with self._read_lock:
                self._store_progress()

    def _close_tail(self) -> None:
        if self._tail is not None:
            os.close(self._tail_file)
        self._tail, self._tail_file = None, -1

    def sync(self) -> None:
        """Sync entries and acknowledgements to disk. They survive a power loss.

        Raises:
            OSError: Syncing failed. Entries since the last successful call may be lost in a power loss, also
                if a later call succeeds: systems report a failed write once.
            ValueError: The spool is closed.
        """
        with self._lock:
            self._check_open()
            written = self._segments[-1].stop if self._segments else self._acknowledged
            sizes = {segment: segment.size for segment in self._segments if segment.synced < segment.size}
            names_changed, self._names_changed = self._names_changed, False
        try:
            for segment, size in sizes.items():
                _sync_file(segment.path)
                segment.synced = size
            if names_changed:
                sync_folder(self.folder)
        except OSError:
            self._names_changed |= names_changed
            raise
        with self._lock:
            progress = SpoolProgress(self._acknowledged, written, self._end)
        self._position.store(progress)
        self._position.sync()
        with self._read_lock:
            self._store_progress()

    # Reading ------------------------------------------------------------------------------------------------

    def read(self) -> Entry | None:
        """Return the next entry.

        The first call after a start returns the oldest entry that is not acknowledged. Each entry is returned
        once in a process. Damaged entries are skipped and counted.

        Returns:
            Entry: The entry; None if all entries were read.

        Raises:
            OSError: The entry cannot be read now, for example because too many files are open. The next call
                tries again. After 10 errors of the device, the entry or the segment is skipped and counted.
            ValueError: The spool is closed.
        """
        with self._read_lock:
            self._check_open()
            while frame := self._find_entry():
                data, reason = self._cursor.read(frame)
                if data is not None:
                    self._number = frame.number
                    self._pass(frame.end, frame.stop, frame.number)
                    return Entry(frame.number, data, frame.flows)
                self._lose(reason, frame.end, frame.stop)
        return None

    def _find_entry(self) -> Frame | None:
        """Return the header of the next entry. Count the entries and bytes before it as lost."""
        cursor = self._cursor
        while segment := cursor.segment or self._enter_segment():
            with self._lock:
                size, stop, is_tail = segment.size, segment.stop, segment is self._tail
            if cursor.offset < size:
                frame, reason = cursor.find(size, stop)
                if frame:
                    self._lose(reason, frame.offset, frame.start)
                    return frame
                self._lose(reason, size, stop)
            elif is_tail:
                return None
            else:
                self._lose("missing", cursor.offset, stop)
                self._leave_segment(segment)
                self._advance()
        return None

    def _enter_segment(self) -> Segment | None:
        """Continue at the first segment that was not read."""
        with self._lock:
            segments = [segment for segment in self._segments if segment.number > self._cursor.passed]
        segment = next((segment for segment in segments if not self._is_finished(segment)), None)
        if segment:
            self._cursor.enter(segment)
        return segment

    def _leave_segment(self, segment: Segment) -> None:
        """Continue after a segment. All its entries were read or lost."""
        self._cursor.leave()
        if self._cursor.place < segment.next:
            self._pass(0, segment.next)

    def _lose(self, reason: str, offset: int, place: Count) -> None:
        """Count everything up to a place of the segment as lost, and continue there."""
        lost, ignored = place - self._cursor.place, offset - self._cursor.offset
        if lost == Count() and not ignored:
            return
        with self._lock:
            self._damage.add(reason, lost, ignored)
            self._waiting -= lost
        self._pass(offset, place)
        self._advance()

    def _pass(self, offset: int, place: Count, number: int = -1) -> None:
        """Continue at a place. If no entry before it was read, `number` is -1."""
        flows = place.flows - self._cursor.place.flows
        self._unacknowledged.append(_Passed(number, place, flows))
        self._cursor.offset, self._cursor.place = offset, place

    def acknowledge(self, number: int) -> None:
        """Acknowledge an entry and all entries before it: the output has stored them.

        The progress survives the end of the process at once, and a power loss after the next `sync`. Segments
        without other entries are deleted. If the progress cannot be stored, that is counted, and the next
        call or `sync` tries again.

        Args:
            number: Number of an entry that `read` returned. A number that is acknowledged has no effect.

        Raises:
            ValueError: The entry was not read, or the spool is closed.
        """
        with self._read_lock:
            self._check_open()
            if number > self._number:
                raise ValueError(f"entry {number} was not read; acknowledge entries after reading them")
            self._advance(number)

    def _advance(self, number: int = -1) -> None:
        """Acknowledge entries up to a number, and lost entries that follow them."""
        while self._remove_acknowledged(number):
            self._store_progress()

    def _remove_acknowledged(self, number: int) -> bool:
        waiting = self._unacknowledged
        before = len(waiting)
        with self._lock:
            while waiting and waiting[0].number <= number:
                passed = waiting.popleft()
                self._acknowledged = passed.place
                if passed.number >= 0:
                    self._acknowledged_entries += Count(1, passed.flows)
                    self._waiting -= Count(1, passed.flows)
        return len(waiting) < before

    def _is_finished(self, segment: Segment) -> bool:
        return segment.stop.entries <= self._acknowledged.entries

    def _store_progress(self) -> None:
        """Store the progress, and delete segments without other entries."""
        with self._lock:
            progress = SpoolProgress(self._acknowledged, Count(), self._end)
            if self._tail is not None and not self._writing and self._is_finished(self._tail):
                self._close_tail()
            segments = [segment for segment in self._segments if segment is not self._tail]
            finished = [segment for segment in segments if self._is_finished(segment)]
        try:
            self._position.store(progress)
            if finished:  # a number is not used again, and a segment is not counted as missing
                self._position.sync()
        except OSError:
            with self._lock:
                self._position_errors += 1
            return
        for segment in finished:
            self._delete(segment)

    def _delete(self, segment: Segment) -> None:
        """Delete a segment. If that fails, the next acknowledgement or `sync` tries again."""
        if segment is self._cursor.segment:
            self._leave_segment(segment)
        try:
            os.unlink(segment.path)
        except FileNotFoundError:
            pass
        except OSError:
            return
        with self._lock:
            self._segments.remove(segment)
            self._disk_bytes -= segment.size

    # End ----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the spool is closed; open it again")

    def close(self) -> None:
        """Sync everything and unlock the folder. Calling it again has no effect.

        Raises:
            OSError: Syncing failed. The spool is closed.
        """
        if self._closed:
            return
        try:
            self.sync()
        finally:
            with self._append_lock, self._read_lock:
                self._closed = True
                self._close_tail()
                self._cursor.leave()
                self._position.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Passed(NamedTuple):
    """An entry that was read, or a gap of lost entries, until it is acknowledged.

    Attributes:
        number: Number of the entry; -1 for a gap.
        place: Place after it.
        flows: Flows in the entry.
    """

    number: int
    place: Count
    flows: int


def _make_folder(folder: str) -> None:
    """Create a folder and those above it, and sync their names."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        sync_folder(parent)


def _sync_file(path: str) -> None:
    """Sync a segment, unless it was deleted because all its entries are acknowledged."""
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
