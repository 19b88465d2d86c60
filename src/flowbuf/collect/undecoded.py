"""The file that keeps datagrams which could not be decoded."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterator

from flowbuf._core import UNDECODED_HEADER
from flowbuf.errors import ConfigError

__all__ = ["UndecodedFile"]

logger = logging.getLogger("flowbuf.collect")

RECORD_HEADER = 16
MAX_PACKET = 65575
"""Largest IP packet of a datagram, in bytes."""

PART_BYTES = 1 << 20
"""Bytes of an existing file that are read at once."""

LOCK_ATTEMPTS = 100
LOCK_SECONDS = 0.001
"""Time between two attempts to lock the file. Another worker or process holds the lock for one write."""


class UndecodedFile:
    """A pcap file that grows up to a limit. Its packets are complete after each call of `add`.

    Several threads and processes may add to one file, each with its own object. A file that exists is
    continued if its header is that of such a file. Other files are never changed.

    Args:
        path: Path of the file.
        limit: Largest size of the file, in bytes.

    Attributes:
        path: Path of the file.
        full: True if the file has no room for a packet that was added.

    Raises:
        ConfigError: the path cannot be written, or is another file.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.full = False
        self._limit = limit
        self._said: set[str] = set()  # problems that were logged
        try:
            self._descriptor = os.open(path, _FLAGS, 0o666)
        except OSError as error:
            raise self._refuse(f"cannot be written: {error.strerror}", "choose another path") from error
        try:
            self._continue()
        except BaseException:
            self.close()
            raise

    def _continue(self) -> None:
        """Write the header of an empty file. Check any other one, and remove an incomplete packet."""
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise self._refuse("is not a regular file", "choose another path")
        try:
            with self._locked():
                size = os.fstat(self._descriptor).st_size
                begin = os.pread(self._descriptor, len(UNDECODED_HEADER), 0)
                if not UNDECODED_HEADER.startswith(begin):
                    raise self._not_ours()
                if size < len(UNDECODED_HEADER):
                    os.ftruncate(self._descriptor, 0)
                    self._write(UNDECODED_HEADER, 0)
                    return
            end = self._find_end(len(UNDECODED_HEADER), size)  # not locked: others add in the meantime
            with self._locked():
                self._cut(end)
        except OSError as error:
            self._report(error)  # a full disk; `add` tries again

    def _cut(self, begin: int) -> None:
        """Remove an incomplete packet, which a killed process or a power failure has left.

        Args:
            begin: End of a complete packet, from which the file is read.
        """
        size = os.fstat(self._descriptor).st_size
        end = self._find_end(begin, size)
        if end < size:
            os.ftruncate(self._descriptor, end)
            logger.warning("%s: %d bytes of incomplete packets were removed", self.path, size - end)

    def _find_end(self, begin: int, limit: int) -> int:
        """Return the end of the complete packets from `begin` that end at `limit` or before."""
        end = begin
        while True:
            part = os.pread(self._descriptor, max(min(limit - end, PART_BYTES), 0), end)
            size = _find_end(part, 0, len(part))
            if not size:
                return end
            end += size

    def _refuse(self, problem: str, fix: str) -> ConfigError:
        return ConfigError(f"save_undecoded: {self.path} {problem}; {fix}")

    def _not_ours(self) -> ConfigError:
        return self._refuse("exists and has other contents", "remove it, or choose another path")

    def share(self) -> UndecodedFile:
        """Return another object for the same file, for another thread."""
        other = object.__new__(UndecodedFile)
        other.__dict__.update(self.__dict__)
        try:
            other._descriptor = os.open(self.path, _FLAGS, 0o666)
        except OSError as error:
            raise self._refuse(f"cannot be written: {error.strerror}", "choose another path") from error
        return other

    def add(self, records: bytes, count: int) -> Counter[str]:
        """Append packet records of pcap.

        Args:
            records: Records, one after the other.
            count: Their number.

        Returns:
            Counter: number of packets that were `saved`, and of others by reason: `file_full`, `write_error`.
        """
        try:
            with self._locked():
                size = os.fstat(self._descriptor).st_size
                head = b"" if size else UNDECODED_HEADER
                room = self._limit - size - len(head)
                end = len(records) if len(records) <= room else _find_end(records, 0, max(room, 0))
                self._write(head + records[:end], size)
        except OSError as error:
            self._report(error)
            return Counter(write_error=count)
        saved = count if end == len(records) else _count(records[:end])
        self._report_success(saved < count)
        return Counter(saved=saved, file_full=count - saved)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file inside the block, against other threads and processes.

        Raises:
            OSError: another program holds the lock for long.
        """
        for attempt in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == LOCK_ATTEMPTS - 1:
                    raise OSError(errno.EAGAIN, "another program locks the file") from None
                time.sleep(LOCK_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _write(self, data: bytes, size: int) -> None:
        """Append data to a file of this size: all of it, or nothing after an error."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def _report(self, error: OSError) -> None:
        problem = str(error.strerror)
        if problem not in self._said:
            logger.error("undecoded datagrams are not saved: %s: %s", self.path, problem)
        self._said.add(problem)

    def _report_success(self, full: bool) -> None:
        self._said &= {"full"}
        if full and "full" not in self._said:
            self._said.add("full")
            fix = "move it away and reload the configuration to begin another one"
            logger.warning("%s has reached save_undecoded_bytes; %s", self.path, fix)
        self.full = full


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


def _find_end(records: bytes, begin: int, limit: int) -> int:
    """Return the end of the complete records from `begin` that end at `limit` or before."""
    end = begin
    while end + RECORD_HEADER <= limit:
        size: int = struct.unpack_from("<I", records, end + 8)[0]
        if not 0 < size <= MAX_PACKET or end + RECORD_HEADER + size > limit:
            break
        end += RECORD_HEADER + size
    return end


def _count(records: bytes) -> int:
    count = position = 0
    while position < len(records):
        position += RECORD_HEADER + struct.unpack_from("<I", records, position + 8)[0]
        count += 1
    return count
