"""The place in a spool from which entries are read."""

from __future__ import annotations

import errno
import os
import zlib

from flowbuf.collect.spools.counts import Count
from flowbuf.collect.spools.segment import ENTRY_HEADER, Frame, Segment, is_damage, read_exactly

__all__ = ["ATTEMPTS", "Cursor"]

ATTEMPTS = 10
"""Attempts to read an entry from a device that reports errors, before the entry is skipped."""


class Cursor:
    """A place in a spool. It moves only if its user sets `offset` and `place`.

    Attributes:
        place: Entries and flows before the next entry.
        segment: Segment of the next entry, or None between two segments.
        offset: Position of the next entry in the segment, in bytes.
        passed: Number of the last segment that was left; -1 before the first.
    """

    def __init__(self, place: Count) -> None:
        self.place = place
        self.segment: Segment | None = None
        self.offset = 0
        self.passed = -1
        self._file = -1
        self._attempts = 0

    def enter(self, segment: Segment) -> None:
        """Continue in a segment, at its first entry that ends after `place`.

        Raises:
            OSError: The segment cannot be read for a reason that may pass.
        """
        self.offset = segment.find_place(self.place)
        self.segment = segment

    def leave(self) -> None:
        """Close the segment, if there is one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self.segment:
            self.passed = self.segment.number
            self.segment = None

    def find(self, size: int, stop: Count) -> tuple[Frame | None, str]:
        """Find the next entry of the segment whose header is intact.

        Args:
            size: Size of the complete part of the segment, in bytes.
            stop: Entries and flows up to the end of this part.

        Returns:
            tuple: Header of the entry, or None, and the reason for everything that was skipped before it.

        Raises:
            OSError: The segment cannot be read for a reason that may pass.
        """
        assert self.segment
        try:
            if self._file < 0:
                self._file = os.open(self.segment.path, os.O_RDONLY)
            frame = self.segment.find(self._file, self.offset, size, self.place)
        except OSError as error:
            self._require_damage(error)
            return None, "unreadable"
        if frame and frame.stop.entries <= stop.entries and frame.stop.flows <= stop.flows:
            return frame, "header"
        return None, "truncated"

    def read(self, frame: Frame) -> tuple[bytes | None, str]:
        """Read the data of an entry that `find` returned.

        Returns:
            tuple: The data, or None and the reason.

        Raises:
            OSError: The data cannot be read for a reason that may pass.
        """
        try:
            data = read_exactly(self._file, frame.length, frame.offset + ENTRY_HEADER)
        except OSError as error:
            self._require_damage(error)
            return None, "unreadable"
        self._attempts = 0
        intact = len(data) == frame.length and zlib.crc32(data) == frame.checksum
        return (data if intact else None), "checksum"

    def _require_damage(self, error: OSError) -> None:
        """Raise an error that may pass. An error of the device may pass a few times."""
        self._attempts += 1
        if not is_damage(error) or (error.errno == errno.EIO and self._attempts < ATTEMPTS):
            raise error
        self._attempts = 0
