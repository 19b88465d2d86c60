"""Write flows to files that are complete when they appear.

A file is opened when its first flow arrives, and stored when its time or size is reached. Until then it is a
temporary file. A full disk or an unreachable storage does not damage it: its flows stay pending, `write`,
`tick` and `close` raise OSError, and their next calls try again. Only an open file whose disk failed, or that
was removed, is given up. Its flows are lost, and counted by reason.

Memory holds one row group: up to 131,072 flows before they are encoded, and after that their encoded bytes.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flowbuf.collect.outputs.files.file_formats import FileFormat
from flowbuf.collect.outputs.files.file_names import FileName, FileNames
from flowbuf.collect.outputs.files.local_folder import LocalFolder
from flowbuf.collect.outputs.files.object_store import ObjectStore
from flowbuf.collect.outputs.files.open_file import OpenFile
from flowbuf.collect.outputs.files.retention import Retention
from flowbuf.collect.outputs.files.staged_file import FileLost
from flowbuf.collect.outputs.files.storage import Storage, split_place
from flowbuf.collect.outputs.output import Output
from flowbuf.errors import FlowbufError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FileOptions", "FileOutput"]

SAVE_BYTES = 1 << 20
"""Encoded bytes that may wait in memory."""

RETENTION_TICKS = 60
"""Calls of `tick` from one run of the retention to the next."""


@dataclass(frozen=True)
class FileOptions:
    """Options of the files of an output.

    Attributes:
        prefix: Beginning of the names of files. Outputs that share a folder need different prefixes or
            formats, because retention deletes by name.
        rotate_seconds: Seconds of flows in a file. Files end at multiples of it since 1970, and at the end of
            each hour (UTC).
        rotate_bytes: Size of a file in bytes. A Parquet file may exceed it by one row group.
        keep_seconds: Maximum age of files. Default: None, no limit.
        keep_bytes: Maximum size of all complete files together. Default: None, no limit.
        spool: Name of the spool of this output: lower-case letters and digits. Default: none.
        staging: Folder of the temporary file of an object store. Default: None, that of the `tempfile`
            module.
    """

    prefix: str = "flows"
    rotate_seconds: int = 300
    rotate_bytes: int = 256 << 20
    keep_seconds: float | None = None
    keep_bytes: int | None = None
    spool: str = ""
    staging: str | None = None

    def __post_init__(self) -> None:
        for name in ("rotate_seconds", "rotate_bytes", "keep_seconds", "keep_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be positive")


class FileOutput:
    """Write flows to files in a local folder or in S3-compatible storage. Implements `Output`.

    Files are in Hive partitions (`date=2026-11-25/hour=12`, UTC), by the time at which they were opened. All
    flows of a batch go into one file, because a batch is received within about a second.

    Flows of a spool are stored once, even if the process is killed: the name of a file contains the number
    of its last spool entry, and entries up to `stored_number` are not written again.

    Args:
        place: Path of a folder, or `s3://BUCKET/PREFIX?…` (see `ObjectStore`).
        format: `ParquetFormat()`, or a `MessageFormat`.
        options: Names, rotation and retention. Default: `FileOptions()`.
        clock: System clock, in seconds since 1970. Default: `time.time`.
        monotonic: Clock without steps, in seconds. Default: `time.monotonic`.
        on_problem: Function that receives a text for each problem. Default: problems are not reported.

    Attributes:
        name: Place of the files, without secrets.
        stored: Number of flows in complete files, since the start.
        pending: Number of flows in the open file.
        lost: Number of flows that cannot be stored, by reason: `output_error` (the disk failed, or the file
            was too large) and `file_removed` (another program removed the open file).
        stored_number: Highest number of a spool entry in a complete file, also of earlier processes. None if
            there is no such file.
        counters: Other counts. `files` and `bytes` were stored, `expired_files` and `expired_bytes` were
            deleted by retention. `recovered_files` are temporary files of ended processes that were removed.
            `incomplete_uploads` may have left parts in an object store. `duplicates` are flows whose spool
            entry was stored before; `stored` contains them too.

    Raises:
        OSError: The place cannot be written.
        ValueError: An option or the URI is invalid.
        ImportError: pyarrow is not installed.
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        format: FileFormat,
        options: FileOptions | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        on_problem: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._options = options = options or FileOptions()
        self._format = format
        self._clock = clock
        self._on_problem = on_problem
        self._names = FileNames(
            options.prefix, format.suffix, format.suffixes, bool(format.description), options.spool
        )
        self.counters: Counter[str] = Counter()
        self._storage = _open_storage(place, options.staging, self.counters, on_problem)
        limits = (options.keep_seconds, options.keep_bytes, options.rotate_seconds)
        self._retention = Retention(
            self._storage, self._names, *limits, self.counters, clock, monotonic, self._report
        )
        self.name = self._storage.name
        self.stored = self.pending = 0
        self.lost: Counter[str] = Counter()
        self.stored_number: int | None = None
        self._monotonic = monotonic
        self._file: OpenFile | None = None
        self._error: OSError | None = None
        self._closed = False
        self._failures = 0  # attempts in a row
        self._next_attempt = 0.0  # time on the monotonic clock
        self._retention_wait = 0
        self._begin()

    # The interface of outputs -------------------------------------------------------------------------------

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Append the flows of a batch to the open file.

        Args:
            batch: Flows, one per row. A batch of another schema starts a new file.
            number: Number of the spool entry with these flows. Default: None, they are not in a spool.

        Raises:
            OSError: Files cannot be written now. The batch is not pending, and may be written again.
            FlowbufError: The batch cannot be written, or the output is closed. The batch is not pending.
        """
        if self._closed:
            raise FlowbufError(f"{self.name}: the output is closed; open a new one")
        if number is not None and self.stored_number is not None and number <= self.stored_number:
            self.counters["duplicates"] += batch.num_rows
            self.stored += batch.num_rows
            return
        if self._error:
            self._retry(self._error)
        if not batch.num_rows:
            return
        if self._file and (self._is_due(self._file) or not self._file.fits(batch.schema)):
            self._store(self._file)
        file = self._file or self._open(batch.schema)
        self._append(file, batch, -1 if number is None else number)

    def tick(self) -> None:
        """Store the open file if its time has passed, and delete old files.

        Raises:
            OSError: The open file cannot be stored now. Its flows stay pending.
        """
        if self._closed:
            return
        self._retention_wait -= 1
        if self._retention_wait <= 0:
            self._retention_wait = RETENTION_TICKS
            self._retain()
        if self._error:
            self._retry(self._error)
        else:
            self._check()

    def close(self) -> None:
        """Store the open file.

        Raises:
            OSError: The open file cannot be stored now. Its flows stay pending, and `close` may be called
                again.
        """
        self._closed = True
        if self._file:
            self._store(self._file)

    # The open file ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Prepare the place, check that it can be written, and read the last stored number."""
        try:
            recovered = self._storage.recover(self._names.is_temporary)
            self._storage.create(self._names.of(self._names.new(self._clock()))).discard()
            if self._options.spool:
                numbers = (name.number for name in self._stored_names() if name.spool == self._options.spool)
                self.stored_number = max(numbers, default=None)
        except OSError as error:
            problem = f"cannot be written: {_reason(error)}; correct that, or name another place"
            raise OSError(error.errno or errno.EIO, problem, self.name) from error
        self.counters["recovered_files"] = len(recovered)
        if recovered:
            size = sum(file.size for file in recovered)
            self._report(f"removed {len(recovered)} files of {size:,} bytes that an ended process left open")

    def _stored_names(self) -> Iterator[FileName]:
        for file in self._storage.files():
            if name := self._names.parse(file.path):
                yield name

    def _open(self, schema: pyarrow.Schema) -> OpenFile:
        name = self._names.new(self._clock())
        with self._watch():
            staged = self._storage.create(self._names.of(name))
            self._recover()
        try:
            writer = self._format.open(staged, schema)
        except Exception as error:
            staged.discard()
            raise FlowbufError(f"{self.name}: the batch cannot be written: {error}") from error
        self._file = OpenFile(name, staged, writer, schema)
        return self._file

    def _append(self, file: OpenFile, batch: pyarrow.RecordBatch, number: int) -> None:
        try:
            file.writer.write(batch)
        except FlowbufError:
            raise
        except Exception as error:  # a row group failed, so the file is incomplete
            self._abandon(file, "output_error", str(error))
            raise FlowbufError(f"{self.name}: the batch cannot be written: {error}") from error
        self.pending += batch.num_rows
        file.flows += batch.num_rows
        file.number = max(file.number, number)
        with suppress(OSError):  # the batch is pending; the next call tries again
            if file.staged.size >= self._options.rotate_bytes:
                self._store(file)
            elif file.staged.unsaved >= SAVE_BYTES:
                self._save(file)

    def _is_due(self, file: OpenFile) -> bool:
        return file.is_due(self._clock(), self._options.rotate_seconds)

    def _check(self) -> None:
        """Store the open file if its time has passed, or give it up if it was removed."""
        if self._file:
            with self._watch(self._file):
                self._file.staged.check()
        if self._file and self._is_due(self._file):
            self._store(self._file)

    def _retry(self, error: OSError) -> None:
        """Repeat the attempt that failed, or raise its error if that was a moment ago.

        Without an open file, opening one failed, and the next batch opens one.
        """
        if self._monotonic() < self._next_attempt:
            raise _copy(error)
        if self._file and (self._file.finished or self._is_due(self._file)):
            self._store(self._file)
        elif self._file:
            self._save(self._file)
        self._error = None

    def _save(self, file: OpenFile) -> None:
        with self._watch(file):
            file.staged.save()
            self._recover()

    def _store(self, file: OpenFile) -> None:
        """Complete a file and make it visible. A file without flows is removed."""
        if not file.flows:
            self._file = None
            file.discard()
            return
        with self._watch(file):
            file.finish()
            size = file.staged.size
            self._publish(file)
            self._count_stored(file, size)
            self._recover()

    def _publish(self, file: OpenFile) -> None:
        """Make a file visible, after its .proto."""
        spooled = file.number >= 0 and bool(self._names.spool)
        name = replace(file.name, spool=self._names.spool, number=file.number) if spooled else file.name
        path = self._names.path(name)
        if self._format.description:
            self._publish_proto(f"{self._names.of(name)}.proto", f"{path}.proto")
        self._storage.publish(file.staged, path)

    def _publish_proto(self, name: str, path: str) -> None:
        proto = self._storage.create(name)
        try:
            proto.write(self._format.description)
            proto.sync()
            self._storage.publish(proto, path)
        except FileLost as error:  # the file itself is not
            raise OSError(errno.EIO, str(error), path) from error
        finally:
            proto.discard()

    def _count_stored(self, file: OpenFile, size: int) -> None:
        self._file = None
        self.stored += file.flows
        self.pending -= file.flows
        self.counters["files"] += 1
        self.counters["bytes"] += size
        if file.number >= 0:
            self.stored_number = max(file.number, self.stored_number or 0)

    def _abandon(self, file: OpenFile, reason: str, problem: str) -> None:
        """Remove the open file. Its flows are lost."""
        self._file = None
        file.discard()
        self.pending -= file.flows
        self.lost[reason] += file.flows
        self._report(f"{self._names.of(file.name)}: {file.flows:,} flows are lost: {problem}")
        self._recover()

    # Problems -----------------------------------------------------------------------------------------------

    @contextmanager
    def _watch(self, file: OpenFile | None = None) -> Iterator[None]:
        """Note an OSError inside, and give up the open file after an error that it does not survive."""
        try:
            yield
        except OSError as error:
            self._fail(error)
            raise
        except FileLost as error:
            if file is None:
                raise
            self._abandon(file, error.reason, str(error))

    def _fail(self, error: OSError) -> None:
        self._failures += 1
        pause = min(1 << min(self._failures - 1, 16), self._storage.patience)
        self._next_attempt = self._monotonic() + pause
        if error.errno:  # an error of pyarrow has only a text
            error.filename = error.filename or self.name
        self._error = error

    def _recover(self) -> None:
        """Note that files can be written again."""
        self._error = None
        self._failures = 0

    def _retain(self) -> None:
        try:
            self._retention.run()
        except OSError as error:
            self._report(f"old files cannot be deleted: {_reason(error)}")

    def _report(self, text: str) -> None:
        self._on_problem(f"{self.name}: {text}")


def _open_storage(
    place: str | os.PathLike[str],
    staging: str | None,
    counters: Counter[str],
    on_problem: Callable[[str], None],
) -> Storage:
    scheme, path = split_place(place)
    if scheme == "s3":
        return ObjectStore(path, staging, counters, on_problem)
    return LocalFolder(path, on_problem)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _copy(error: OSError) -> OSError:
    """Return an equal exception, which has no traceback yet."""
    return OSError(error.errno, _reason(error), error.filename) if error.errno else OSError(str(error))


if TYPE_CHECKING:
    _: type[Output] = FileOutput
