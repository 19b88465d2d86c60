"""Detects changes of files that are in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

__all__ = ["FileState", "Watch", "look"]

INTERVAL = 1.0
"""Seconds between two checks of the files."""

FileState = tuple[int, int, int] | None


def look(path: str) -> FileState:
    """Return the modification time, size and inode of a file, or None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class Watch:
    """Detects that a file has changed, appeared or disappeared. It checks at most once per second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looked = clock()
        self.files: dict[str, FileState] = {}

    def start(self, files: Mapping[str, FileState]) -> None:
        """Watch these files, given their state at the time of reading."""
        self.files = dict(files)

    def has_changed(self) -> bool:
        """Return True if a file has changed since the last call."""
        now = self._clock()
        if now - self._looked < INTERVAL:
            return False
        self._looked = now
        before, self.files = self.files, {path: look(path) for path in self.files}
        return self.files != before
