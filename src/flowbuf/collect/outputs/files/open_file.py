"""The file that an output is writing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowbuf.collect.outputs.files.file_formats import BatchWriter
from flowbuf.collect.outputs.files.file_names import FileName
from flowbuf.collect.outputs.files.staged_file import FileLost, StagedFile

if TYPE_CHECKING:
    import pyarrow

__all__ = ["OpenFile"]

HOUR = 3600


@dataclass
class OpenFile:
    """A file that is not complete yet.

    Attributes:
        name: Name of the file, without spool entries.
        staged: Content of the file.
        writer: Writer of batches to `staged`.
        schema: Schema of the batches.
        flows: Number of flows in the file.
        number: Number of the last spool entry in the file, or -1.
        finished: True if the content is complete, at least in memory.
    """

    name: FileName
    staged: StagedFile
    writer: BatchWriter
    schema: pyarrow.Schema
    flows: int = 0
    number: int = -1
    finished: bool = False

    def fits(self, schema: pyarrow.Schema) -> bool:
        """Return True if batches of this schema may be appended."""
        return schema is self.schema or schema.equals(self.schema, check_metadata=True)

    def is_due(self, now: float, rotate_seconds: int) -> bool:
        """Return True if a file opened now would belong to another period.

        The clock may have stepped in any direction. A file never contains flows of two partitions.
        """
        return any(now // period != self.name.time // period for period in (rotate_seconds, HOUR))

    def finish(self) -> None:
        """Write the rest of the content to disk, and sync it.

        Raises:
            OSError: The disk is full. May be called again.
            FileLost: The writer or the disk failed.
        """
        if not self.finished:
            try:
                self.writer.finish()
            except Exception as error:
                raise FileLost("output_error", str(error)) from error
            self.finished = True
        self.staged.sync()

    def discard(self) -> None:
        """Remove the temporary file."""
        with suppress(Exception):  # the writer may have failed before
            self.writer.cancel()
        self.staged.discard()
