"""Files that change while they are in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

__all__ = ["FileState", "Watch", "look"]

INTERVAL = 1.0
"""Seconds between two looks at the files."""

FileState = tuple[int, int, int] | None


def look(path: str) -> FileState:
    """How a file is: its time, size and inode; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class Watch:
    """Tells when one of some files has changed, appeared or gone. It looks once a second at most."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looked = clock()
        self.files: dict[str, FileState] = {}

    def start(self, files: Mapping[str, FileState]) -> None:
        """Watches these files from now on, which were like this when they were read."""
        self.files = dict(files)

    def has_changed(self) -> bool:
        """Whether a file is not as it was when this was asked last."""
        now = self._clock()
        if now - self._looked < INTERVAL:
            return False
        self._looked = now
        before, self.files = self.files, {path: look(path) for path in self.files}
        return self.files != before
