"""Names of the files of an output. They sort by time, and no two files share one.

    date=2026-11-25/hour=12/flows-20261125T121500Z-9f3a1c5e7b21-000017.parquet
    date=2026-11-25/hour=12/flows-20261125T121502Z-9f3a1c5e7b21-000018-ab12cd34-42.parquet
                            prefix TIME            INSTANCE     SEQUENCE  SPOOL NUMBER

TIME is the time, in UTC, at which the file was opened. INSTANCE is random and belongs to one process. The
second file contains entries of the spool ab12cd34, the last of which is number 42.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ["FileName", "FileNames"]

_TIME = "%Y%m%dT%H%M%SZ"
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SPOOL = re.compile(r"[0-9a-z]{0,32}")


@dataclass(frozen=True, order=True)
class FileName:
    """Name of a file without its prefix and suffix. Names sort in the order of their files.

    Attributes:
        time: Time at which the file was opened, in seconds since 1970.
        instance: Random text of the process.
        sequence: Number of the file in the process, from 1.
        spool: Name of the spool whose entries the file contains, or "".
        number: Number of the last entry of that spool, or -1.
    """

    time: int
    instance: str
    sequence: int
    spool: str = ""
    number: int = -1

    @property
    def partition(self) -> str:
        """Return the folder of the file, such as date=2026-11-25/hour=12."""
        return datetime.fromtimestamp(self.time, timezone.utc).strftime("date=%Y-%m-%d/hour=%H")

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.time, timezone.utc).strftime(_TIME)
        name = f"{time}-{self.instance}-{self.sequence:06}"
        return f"{name}-{self.spool}-{self.number}" if self.spool else name


class FileNames:
    """Create and recognize the names of an output.

    Args:
        prefix: Beginning of each name: letters, digits, "_" and "-".
        suffix: End of each new name, such as ".pb.zst".
        suffixes: All ends of names of this output, which may be in the folder from an earlier run.
        has_proto: True if a .proto is beside each file.
        spool: Name of the spool: lower-case letters and digits. Default: none.

    Raises:
        ValueError: prefix or spool contains other characters.
    """

    def __init__(
        self, prefix: str, suffix: str, suffixes: tuple[str, ...], has_proto: bool, spool: str = ""
    ) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(f"file prefix {prefix!r} is invalid; use letters, digits, '_' and '-'")
        if not _SPOOL.fullmatch(spool):
            raise ValueError(f"spool name {spool!r} is invalid; use up to 32 of a to z and 0 to 9")
        self.spool = spool
        self._prefix, self._suffix = prefix, suffix
        self._has_proto = has_proto
        self._instance = os.urandom(6).hex()
        self._sequence = 0
        ends = "|".join(map(re.escape, suffixes))
        name = (
            rf"{re.escape(prefix)}-(\d{{8}}T\d{{6}}Z)-([0-9a-f]{{12}})-(\d{{6,18}})"
            rf"(?:-([0-9a-z]{{1,32}})-(\d{{1,19}}))?(?:{ends})"
        )
        self._name = re.compile(name, re.ASCII)
        self._temporary = re.compile(rf"\.{name}(?:\.proto)?\.tmp", re.ASCII)

    def new(self, time: float) -> FileName:
        """Return a name that no other file has, for a file opened at `time` (seconds since 1970)."""
        self._sequence += 1
        return FileName(int(time), self._instance, self._sequence)

    def of(self, name: FileName) -> str:
        """Return the name of a file with its prefix and suffix."""
        return f"{self._prefix}-{name}{self._suffix}"

    def path(self, name: FileName) -> str:
        """Return the path of a file below the folder of the output."""
        return f"{name.partition}/{self.of(name)}"

    def parse(self, path: str) -> FileName | None:
        """Return the name of a file of this output, or None for any other path.

        Args:
            path: Path below the folder of the output.
        """
        partition, _, name = path.rpartition("/")
        found = self._name.fullmatch(name)
        if not found:
            return None
        try:
            time = datetime.strptime(found[1], _TIME).replace(tzinfo=timezone.utc)
        except ValueError:
            return None
        number = int(found[5]) if found[4] else -1
        parsed = FileName(int(time.timestamp()), found[2], int(found[3]), found[4] or "", number)
        return parsed if parsed.partition == partition else None

    def parse_owner(self, path: str) -> FileName | None:
        """Return the name of the file of this output that a path belongs to: the file, or its .proto."""
        return self.parse(path.removesuffix(".proto") if self._has_proto else path)

    def is_temporary(self, name: str) -> bool:
        """Return True if an output with this prefix gives this name to a file that is not complete."""
        return bool(self._temporary.fullmatch(name))
