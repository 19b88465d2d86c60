"""Delete the oldest files of an output, by age and total size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from flowbuf.collect.outputs.files.file_names import FileName, FileNames
from flowbuf.collect.outputs.files.storage import Storage, StoredFile

__all__ = ["Retention"]

STEP = 60.0
"""Seconds that the system clock may gain on the monotonic clock between two runs, before it has stepped."""

PAUSE = 3600.0
"""Seconds without deletion by age after the system clock stepped forward."""

FAILURES = 100
"""Files that one run fails to delete. The output waits for it, and a remote storage may answer slowly."""


@dataclass
class _Entry:
    """A file of the output with its .proto."""

    size: int = 0
    complete: bool = False
    paths: list[str] = field(default_factory=list)

    def add(self, file: StoredFile) -> None:
        """Add the file or its .proto. The file is deleted first, because a reader needs its .proto."""
        self.size += file.size
        if file.path.endswith(".proto"):
            self.paths.append(file.path)
        else:
            self.complete = True
            self.paths.insert(0, file.path)


class Retention:
    """Delete files of an output, oldest first. The newest complete file always stays.

    Only files with names of the output are counted and deleted, whichever process wrote them.

    Args:
        storage: Place of the files.
        names: Names of the output.
        keep_seconds: Maximum age of a file. Default: None, no limit.
        keep_bytes: Maximum size of all files together. Default: None, no limit.
        span: Seconds of flows in a file. A file is older than `keep_seconds` when its last flow is.
        counters: Receives the numbers of deleted files (`expired_files`) and of their bytes
            (`expired_bytes`).
        clock: System clock, in seconds since 1970.
        monotonic: Clock without steps, in seconds.
        on_problem: Function that receives a text for each problem.
    """

    def __init__(
        self,
        storage: Storage,
        names: FileNames,
        keep_seconds: float | None,
        keep_bytes: int | None,
        span: float,
        counters: Counter[str],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        on_problem: Callable[[str], None],
    ) -> None:
        self._storage = storage
        self._names = names
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._span = span
        self._counters = counters
        self._clock = clock
        self._on_problem = on_problem
        self._monotonic = monotonic
        self._gain = clock() - monotonic()
        self._resume = monotonic()

    def run(self) -> None:
        """Delete the files that exceed a limit. No younger file is deleted in place of one that cannot be.

        Raises:
            OSError: The files cannot be listed, or some cannot be deleted. The others were deleted, unless
                FAILURES files failed.
        """
        if self._keep_seconds is None and self._keep_bytes is None:
            return
        oldest, newest = self._split()
        total = sum(entry.size for entry in oldest.values()) + newest
        limit = self._oldest_time()
        problems: list[OSError] = []
        for name, entry in oldest.items():
            too_many = self._keep_bytes is not None and total > self._keep_bytes
            if (not too_many and name.time + self._span >= limit) or len(problems) == FAILURES:
                break
            total -= entry.size
            try:
                self._delete(entry)
            except OSError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _split(self) -> tuple[dict[FileName, _Entry], int]:
        """Return the files before the newest complete one, oldest first, and the size of that one."""
        entries: dict[FileName, _Entry] = {}
        for file in self._storage.files():
            name = self._names.parse_owner(file.path)
            if name:
                entries.setdefault(name, _Entry()).add(file)
        newest = max((name for name, entry in entries.items() if entry.complete), default=None)
        if newest is None:
            return {}, 0
        return {name: entries[name] for name in sorted(entries) if name < newest}, entries[newest].size

    def _oldest_time(self) -> float:
        """Return the earliest time of flows to keep.

        A clock that was set to a wrong time would make all files old. After a step, the limit is therefore
        suspended until the clock can be corrected.
        """
        now, monotonic = self._clock(), self._monotonic()
        step, self._gain = now - monotonic - self._gain, now - monotonic
        if self._keep_seconds is None:
            return float("-inf")
        if step > STEP:
            self._resume = monotonic + PAUSE
            self._on_problem(f"the clock stepped forward by {step:.0f} s; no file is deleted by age for 1 h")
        return now - self._keep_seconds if monotonic >= self._resume else float("-inf")

    def _delete(self, entry: _Entry) -> None:
        deleted = [self._storage.delete(path) for path in entry.paths]
        if any(deleted):
            self._counters["expired_files"] += entry.complete
            self._counters["expired_bytes"] += entry.size
