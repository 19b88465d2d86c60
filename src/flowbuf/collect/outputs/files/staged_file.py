"""A file that is being written. A full disk does not damage it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

__all__ = ["FileLost", "StagedFile"]

CHUNK_SIZE = 1 << 23

# Space may become free later. After any other error, the state of the file is unknown.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class FileLost(Exception):
    """The content of an open file cannot be stored any more.

    Attributes:
        reason: Name of the counter for its flows.
    """

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class StagedFile:
    """A temporary file on a local disk, which becomes a file of the output when it is complete.

    `write` keeps bytes in memory, so it cannot fail. `save` writes them to disk, all or none: if the disk is
    full, the bytes stay in memory, and `save` may be called again.

    Args:
        descriptor: Descriptor of an empty file, open for reading and writing. The object closes it.
        path: Path of the file. "" if it has no name.
    """

    def __init__(self, descriptor: int, path: str = "") -> None:
        self.path = path
        self._descriptor = descriptor
        self._saved = 0
        self._memory = bytearray()

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self._saved + len(self._memory)

    @property
    def unsaved(self) -> int:
        """Number of bytes that are only in memory."""
        return len(self._memory)

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes in memory."""
        self._memory += data
        return len(data)

    def save(self) -> None:
        """Write the bytes in memory to disk.

        Raises:
            OSError: The disk is full. The file on disk is unchanged.
            FileLost: The disk failed, or the file is too large.
        """
        try:
            with memoryview(self._memory) as view:
                self._write_at(view, self._saved)
        except OSError as error:
            if error.errno not in _FULL:
                raise FileLost("output_error", error.strerror or str(error)) from error
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._saved)
            raise
        self._saved += len(self._memory)
        self._memory = bytearray()

    def _write_at(self, view: memoryview, position: int) -> None:
        done = 0
        while done < len(view):
            done += os.pwrite(self._descriptor, view[done:], position + done)

    def sync(self) -> None:
        """Save, and sync the content to disk.

        Raises:
            OSError: The disk is full.
            FileLost: The disk failed. After a failed sync, the system has discarded some of the content.
        """
        self.save()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise FileLost("output_error", error.strerror or str(error)) from error

    def check(self) -> None:
        """Raise FileLost if the name of the file was removed."""
        if self.path and not os.fstat(self._descriptor).st_nlink:
            raise FileLost("file_removed", "the file was removed while it was open")

    def chunks(self) -> Iterator[bytes]:
        """Yield the content on disk. Raise FileLost if it cannot be read."""
        position = 0
        while position < self._saved:
            try:
                data = os.pread(self._descriptor, min(CHUNK_SIZE, self._saved - position), position)
            except OSError as error:
                raise FileLost("output_error", error.strerror or str(error)) from error
            if not data:
                raise FileLost("output_error", "the file is shorter than was written")
            yield data
            position += len(data)

    def close(self) -> None:
        """Close the file, which also ends its lock. Bytes in memory are discarded."""
        self._memory = bytearray()
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # closed before
            os.close(descriptor)

    def discard(self) -> None:
        """Close the file and remove its name."""
        if self.path:
            with suppress(OSError):
                os.unlink(self.path)
        self.close()
