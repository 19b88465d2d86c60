"""The position file of a spool: its lock, its identity, and its progress.

The file holds two copies in sectors of their own. Each write replaces the older copy in place, so that one
is always complete. A write needs no free space. Numbers are big-endian:

    0         7         8          16         24        32             48        64     80
    +---------+---------+----------+----------+---------+--------------+---------+------+----------+
    |"FBSPOOL"| version | sequence | identity | session | acknowledged | synced  | end  | checksum |
    +---------+---------+----------+----------+---------+--------------+---------+------+----------+

A place is a number of entries and a number of flows, 8 bytes each. The checksum is the CRC-32 of the bytes
before it. Later versions keep the first 8 bytes and the size of a sector.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import zlib

from flowbuf.collect.spools.counts import Count, SpoolProgress
from flowbuf.errors import SpoolError

__all__ = ["IDENTITY_BYTES", "MAGIC", "VERSION", "PositionFile", "check_version"]

MAGIC = b"FBSPOOL"
VERSION = 1
IDENTITY_BYTES = 8

_SECTOR = 512
_COPY = struct.Struct(f">7sBQ{IDENTITY_BYTES}sQ6Q")
_CHECKSUM = struct.Struct(">I")


def check_version(path: str, version: int) -> None:
    """Raise SpoolError if a newer flowbuf wrote the file."""
    if version > VERSION:
        raise SpoolError(
            f"{path}: has version {version}, which a newer flowbuf wrote; use that version, or another folder"
        )


class PositionFile:
    """The open and locked position file of a spool. Methods can be called from any thread.

    Attributes:
        identity: Random bytes that distinguish this spool from others. None if no copy is intact.
        session: Number of the last process that used the spool; 0 before the first.
        progress: Last stored progress.
        damaged: Number of damaged copies that were found.

    Raises:
        SpoolError: Another process has locked the file, or a newer flowbuf wrote it.
        OSError: The file cannot be opened, locked or read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity: bytes | None = None
        self.session = 0
        self.progress = SpoolProgress()
        self.damaged = 0
        self._sequence = 0
        self._synced = 0
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock_file()
            for sector in range(2):
                self._load(os.pread(self._file, _SECTOR, sector * _SECTOR))
        except BaseException:
            os.close(self._file)
            raise

    def _lock_file(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            problem = f"{os.path.dirname(self.path)}: another process uses this spool"
            raise SpoolError(f"{problem}; stop that process, or use another folder", in_use=True) from error

    def _load(self, sector: bytes) -> None:
        """Use a copy if it is intact and newer than the other one."""
        copy = sector[: _COPY.size]
        (checksum,) = _CHECKSUM.unpack(sector[_COPY.size : _COPY.size + 4].ljust(4, b"\0"))
        if not any(sector):
            return
        if len(sector) < _SECTOR or copy[:7] != MAGIC or zlib.crc32(copy) != checksum:
            self.damaged += 1
            return
        _, version, sequence, identity, session, *places = _COPY.unpack(copy)
        check_version(self.path, version)
        if sequence > self._sequence:
            self._sequence, self.identity, self.session = sequence, identity, session
            acknowledged, synced, end = map(Count, places[::2], places[1::2])
            self.progress = SpoolProgress(acknowledged, synced, end)

    def begin(self, identity: bytes, session: int, progress: SpoolProgress) -> None:
        """Store the first position of a process in both copies, and sync it with the name of the file."""
        with self._lock:
            self.identity, self.session = identity, session
            self._write(progress)
        self.sync()

    def store(self, progress: SpoolProgress) -> None:
        """Store progress in the older copy. It is not synced."""
        with self._lock:
            progress = self.progress.join(progress)
            if progress != self.progress:
                self._write(progress)

    def sync(self) -> None:
        """Sync the stored progress, in both copies."""
        with self._lock:
            if self._synced == self._sequence:
                return
            self._write(self.progress)
            sequence = self._sequence
        os.fsync(self._file)
        self._synced = max(self._synced, sequence)

    def _write(self, progress: SpoolProgress) -> None:
        places = (progress.acknowledged, progress.synced, progress.end)
        numbers = [number for place in places for number in (place.entries, place.flows)]
        sequence = self._sequence + 1
        copy = _COPY.pack(MAGIC, VERSION, sequence, self.identity, self.session, *numbers)
        sector = (copy + _CHECKSUM.pack(zlib.crc32(copy))).ljust(_SECTOR, b"\0")
        if os.pwrite(self._file, sector, sequence % 2 * _SECTOR) < _SECTOR:
            raise OSError(f"{self.path}: was written only in part")
        self._sequence, self.progress = sequence, progress

    def close(self) -> None:
        """Close and unlock the file."""
        os.close(self._file)
