"""Segments of a spool: files that hold entries.

A segment is a header and entries. Numbers are big-endian:

    0         7         8          16       24      32         36
    +---------+---------+----------+--------+-------+----------+
    |"FBSPOOL"| version | identity | number | flows | checksum |  header of the segment
    +---------+---------+----------+--------+-------+----------+

    0          8        16       24      28       32              36         40
    +----------+--------+--------+-------+--------+---------------+----------+------+
    | identity | number | before | flows | length | data checksum | checksum | data |  an entry
    +----------+--------+--------+-------+--------+---------------+----------+------+

The identity of the spool is random, so it marks the headers of entries: after damage, the next entry is found
by it. `number` of a segment is that of its first entry. `flows` of a segment and `before` of an entry are the
flows in all entries before it, over all segments. The checksums are CRC-32 of the bytes of the header before
them, and of the data. Later versions keep the header of the segment.

The upper bits of the number of an entry are the session, the number of the process that appended it. The
lower bits are the number of entries before it. If a power loss removes entries that were not synced, their
numbers are not used again.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.position import IDENTITY_BYTES, MAGIC, VERSION, check_version

__all__ = [
    "ENTRY_HEADER",
    "LENGTH_MAX",
    "SEGMENT_HEADER",
    "Frame",
    "Segment",
    "find_segments",
    "read_exactly",
]

LENGTH_MAX = (1 << 32) - 1
"""Maximum number of bytes in an entry, and of flows in it."""

_SEGMENT = struct.Struct(f">7sB{IDENTITY_BYTES}sQQ")
_ENTRY = struct.Struct(f">{IDENTITY_BYTES}sQQIII")
_CHECKSUM = struct.Struct(">I")
SEGMENT_HEADER = _SEGMENT.size + _CHECKSUM.size
"""Size of the header of a segment, in bytes."""
ENTRY_HEADER = _ENTRY.size + _CHECKSUM.size
"""Size of the header of an entry, in bytes."""

_SESSION_SHIFT = 40
_CHUNK = 1 << 20  # bytes that a search reads at once
_BUFFERS = 512  # buffers of one system call; POSIX allows at least 16, Linux 1024
_NAME = re.compile(rf"([0-9a-f]{{{2 * IDENTITY_BYTES}}})-([0-9]{{20}})\.segment")
_DAMAGE = {
    *(errno.EIO, errno.ENOENT, errno.EISDIR, errno.ESTALE, errno.EBADMSG),
    getattr(errno, "EUCLEAN", errno.EIO),
}


def is_damage(error: OSError) -> bool:
    """Return True if a failed read shows damage. Others, such as too many open files, are no damage."""
    return error.errno in _DAMAGE


@contextmanager
def suppress_damage() -> Iterator[None]:
    """Leave the block at an OSError that shows damage. Other errors are raised."""
    try:
        yield
    except OSError as error:
        if not is_damage(error):
            raise


class Frame(NamedTuple):
    """The header of an entry, and its position in a segment.

    Attributes:
        offset: Position of the header in the file, in bytes.
        number: Number of the entry.
        start: Entries and flows before the entry.
        flows: Flows in the entry.
        length: Size of the data, in bytes.
        checksum: Checksum of the data.
    """

    offset: int
    number: int
    start: Count
    flows: int
    length: int
    checksum: int

    @property
    def end(self) -> int:
        """Position after the data."""
        return self.offset + ENTRY_HEADER + self.length

    @property
    def stop(self) -> Count:
        """Entries and flows up to the end of this entry."""
        return self.start + Count(1, self.flows)


def seal(header: bytes) -> bytes:
    """Return a header with its checksum."""
    return header + _CHECKSUM.pack(zlib.crc32(header))


def unseal(sealed: bytes, form: struct.Struct) -> bytes | None:
    """Return a header without its checksum, or None if it is incomplete or its checksum is wrong."""
    header = sealed[: form.size]
    return header if len(header) == form.size and seal(header) == sealed else None


def read_exactly(file: int, size: int, offset: int) -> bytes:
    """Return `size` bytes of a file, or fewer at its end."""
    data = os.pread(file, size, offset)
    if len(data) == size or not data:
        return data
    pieces = [data]
    while data and (size := size - len(data)):
        offset += len(data)
        pieces.append(data := os.pread(file, size, offset))
    return b"".join(pieces)


class Segment:
    """A file of entries.

    Attributes:
        path: Path of the file.
        identity: Identity of the spool.
        number: Number of the first entry.
        start: Entries and flows before the first entry.
        stop: Entries and flows up to the end of the last entry.
        next: Start of the next segment. It is after `stop` if entries between them are lost and counted.
        size: Bytes of the file that are complete.
        synced: Bytes of the file that are synced.
        intact: True if the header is intact.
    """

    def __init__(self, folder: str, identity: bytes, number: int) -> None:
        self.path = os.path.join(folder, f"{identity.hex()}-{number:020d}.segment")
        self.identity = identity
        self.number = number
        self.start = self.stop = self.next = Count(number & ((1 << _SESSION_SHIFT) - 1))
        self.size = self.synced = 0
        self.intact = True

    @property
    def session(self) -> int:
        """Number of the process that appended the entries."""
        return self.number >> _SESSION_SHIFT

    # Writing ------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: str, identity: bytes, session: int, start: Count) -> tuple[Segment, int]:
        """Create a file with a header.

        Returns:
            tuple: The segment, and the file descriptor to append entries with.

        Raises:
            OSError: The file cannot be created or written. It is removed.
        """
        segment = cls(folder, identity, session << _SESSION_SHIFT | start.entries)
        segment.start = segment.stop = segment.next = start
        file = os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            header = _SEGMENT.pack(MAGIC, VERSION, identity, segment.number, start.flows)
            _write(file, [memoryview(seal(header))], 0)
        except BaseException:
            os.close(file)
            with suppress(OSError):
                os.unlink(segment.path)
            raise
        segment.size = SEGMENT_HEADER
        return segment, file

    def write(self, file: int, data: Sequence[memoryview], flows: int, checksum: int) -> Frame:
        """Write an entry after the complete part of the file. It is complete when size and stop include it.

        Raises:
            OSError: The file cannot be written. The incomplete entry is removed.
        """
        length = sum(map(len, data))
        number = self.session << _SESSION_SHIFT | self.stop.entries
        header = seal(_ENTRY.pack(self.identity, number, self.stop.flows, flows, length, checksum))
        try:
            _write(file, [memoryview(header), *data], self.size)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file, self.size)
            raise
        return Frame(self.size, number, self.stop, flows, length, checksum)

    # Reading ------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the size and the header of an existing file. Set `stop` and `next` to `start`.

        Raises:
            SpoolError: A newer flowbuf wrote the file.
            OSError: The file cannot be read.
        """
        with open(self.path, "rb", buffering=0) as file:
            self.size = os.fstat(file.fileno()).st_size
            header = unseal(os.pread(file.fileno(), SEGMENT_HEADER, 0), _SEGMENT)
            self.intact = header is not None and header[:7] == MAGIC
            if header is not None and self.intact:
                _, version, identity, number, flows = _SEGMENT.unpack(header)
                check_version(self.path, version)
                self.intact = (identity, number) == (self.identity, self.number)
            if not self.intact:
                first = self.find(file.fileno(), SEGMENT_HEADER, self.size, self.start)
                flows = first.start.flows if first else 0
        self.start = self.stop = self.next = Count(self.start.entries, flows)

    def frames(self) -> Iterator[Frame]:
        """Yield the headers of all entries in the file, without the damaged ones. Data are not read."""
        with open(self.path, "rb", buffering=0) as file:
            offset, place = SEGMENT_HEADER, self.start
            while frame := self.find(file.fileno(), offset, self.size, place):
                yield frame
                offset, place = frame.end, frame.stop

    def find_place(self, place: Count) -> int:
        """Return the position in bytes of the first entry that ends after a place of this segment."""
        offset = SEGMENT_HEADER
        if self.start.entries >= place.entries:
            return offset
        with suppress_damage():
            for frame in self.frames():
                if frame.stop.entries > place.entries:
                    break
                offset = frame.end
        return offset

    def find(self, file: int, offset: int, size: int, place: Count) -> Frame | None:
        """Return the next entry whose header is intact.

        Args:
            file: File descriptor of the segment.
            offset: Position of the next header, if it is intact.
            size: Size of the complete part of the file.
            place: Entries and flows before this position. Later entries may be lost.

        Returns:
            Frame: Header of an entry that ends within the complete part; None if no intact header follows.
        """
        frame = self._load_frame(file, offset, size, place)
        markers = self._find_markers(file, offset + 1, size)
        while frame is None and (offset := next(markers, -1)) >= 0:
            frame = self._load_frame(file, offset, size, place)
        return frame

    def _load_frame(self, file: int, offset: int, size: int, place: Count) -> Frame | None:
        header = unseal(os.pread(file, ENTRY_HEADER, offset), _ENTRY)
        if header is None or header[:IDENTITY_BYTES] != self.identity:
            return None
        _, number, before, flows, length, checksum = _ENTRY.unpack(header)
        start = Count(number & ((1 << _SESSION_SHIFT) - 1), before)
        frame = Frame(offset, number, start, flows, length, checksum)
        follows = start.entries >= place.entries and start.flows >= place.flows
        fits = number >> _SESSION_SHIFT == self.session and frame.end <= size
        return frame if follows and fits else None

    def _find_markers(self, file: int, offset: int, size: int) -> Iterator[int]:
        """Yield the positions of the identity in a part of the file."""
        while offset < size:
            chunk = os.pread(file, min(_CHUNK, size - offset), offset)
            found = chunk.find(self.identity)
            while found >= 0:
                yield offset + found
                found = chunk.find(self.identity, found + 1)
            if len(chunk) < IDENTITY_BYTES:  # also if the file shrank
                return
            offset += len(chunk) - IDENTITY_BYTES + 1


def find_segments(folder: str) -> list[Segment]:
    """Return the segments of a folder in the order of their numbers. They are not loaded."""
    names = filter(None, map(_NAME.fullmatch, os.listdir(folder)))
    segments = [Segment(folder, bytes.fromhex(name[1]), int(name[2])) for name in names]
    return sorted(segments, key=lambda segment: segment.number)


def _write(file: int, buffers: list[memoryview], offset: int) -> None:
    """Write all bytes of the buffers. A system call may write only a part."""
    buffers = [buffer for buffer in buffers if len(buffer)]
    while buffers:
        written = os.pwritev(file, buffers[:_BUFFERS], offset)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        offset += written
        while buffers and written >= len(buffers[0]):
            written -= len(buffers.pop(0))
        if buffers:
            buffers[0] = buffers[0][written:]
