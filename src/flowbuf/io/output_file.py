"""Write output files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, BinaryIO, Protocol

__all__ = ["OutputFile", "Writable", "open_compressed", "sync_folder", "would_replace"]

COMPRESSION_LEVEL = {".gz": 6, ".zst": 3}
_STANDARD_STREAMS = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}


class Writable(Protocol):
    """Takes bytes: an `OutputFile`, or another binary file."""

    def write(self, data: bytes | memoryview) -> object:
        """Append bytes."""
        ...


def would_replace(output: str | os.PathLike[str], source: str | os.PathLike[str] | BinaryIO) -> bool:
    """Return True if an output is the regular file of an input, a path or an open file."""
    try:
        read = os.stat(source) if isinstance(source, (str, os.PathLike)) else os.fstat(source.fileno())
        written = os.stat(output)
    except (OSError, AttributeError):
        return False
    return stat.S_ISREG(read.st_mode) and os.path.samestat(read, written)


class OutputFile:
    """A binary file for writing, as a context manager.

    The file is written beside its path under a temporary name. It replaces the path when the `with` block
    ends without an error. Until then, and after any exception, the old file stays. A replaced file keeps its
    permissions. A new file gets those of the umask. A symbolic link stays a link.

    Args:
        path: Path of the file. Names ending in .gz and .zst are compressed. "-" is standard output, which is
            flushed and left open. A device, a named pipe or an open descriptor (/dev/stdout, /dev/fd/63) is
            written directly, and flushed too.
        durable: Sync a regular file and its name to disk before the block ends. Default: False.

    Raises:
        OSError: The file cannot be written. Its file name is `path`, or `<stdout>` for standard output.
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool = False) -> None:
        self._durable = durable
        self.path = os.fspath(path)
        self.name = "<stdout>" if self.path == "-" else self.path
        self._temporary: str | None = None
        self._wanted = True
        self._raw: IO[bytes] | None = None
        self._file: Any = None

    def __enter__(self) -> OutputFile:
        if self.path == "-":
            if sys.stdout is None:
                raise OSError(errno.EBADF, "the stream is closed", self.name)
            self._file = sys.stdout.buffer
            return self
        with self._named_errors():
            self._target = os.path.realpath(self.path)
            try:
                self._raw = self._open()
                self._file = open_compressed(self._raw, os.path.splitext(self.path)[1])
            except BaseException:
                self._abandon()
                raise
        return self

    @property
    def is_regular(self) -> bool:
        """True for a regular file. False for standard output, a pipe or a device."""
        return self._temporary is not None

    @property
    def is_terminal(self) -> bool:
        """True if the output is a terminal: standard output or a device."""
        file = self._raw or sys.stdout
        return not self.is_regular and file is not None and file.isatty()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes.

        Standard output, pipes and devices are flushed after each call, because another program may wait for
        the bytes.
        """
        with self._named_errors():
            if self._raw is None or (self._file is self._raw and not self.is_regular):
                self._write_out(memoryview(data))
                return
            self._file.write(data)
            if not self.is_regular:
                self._raw.flush()

    def _write_out(self, data: memoryview) -> None:
        """Write all bytes to a file that may be non-blocking, and that may write only a part of them."""
        self._file.flush()
        raw = getattr(self._file, "raw", self._file)
        while len(data):
            written = raw.write(data)
            if written is None:  # it takes no bytes now
                select.select([], [raw], [])
            else:
                data = data[written:]

    def discard(self) -> None:
        """Remove the file at the end of the block, instead of keeping it."""
        self._wanted = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._named_errors():
            if self._raw is None:
                if kind is None:
                    self._file.flush()
                return
            try:
                if kind is None and self._wanted:
                    self._finish(self._raw)
            finally:
                self._abandon()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Set the file name of an OSError inside to the name that the caller uses."""
        try:
            yield
        except OSError as error:
            error.filename = self.name
            del error.filename2  # None would be part of the text: 'path' -> None
            raise

    def _open(self) -> IO[bytes]:
        descriptor = _find_descriptor(self.path)
        if descriptor is not None:
            return os.fdopen(os.dup(descriptor), "wb")
        try:
            mode = os.stat(self._target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            return open(self._target, "wb")
        folder, name = os.path.split(self._target)
        temporary = self._temporary = os.path.join(folder, f".{name[:50]}.{os.urandom(8).hex()}.tmp")
        # The umask applies to the mode 0o666. tempfile would restrict the file to its owner.
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        raw = os.fdopen(descriptor, "wb")
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        return raw

    def _finish(self, raw: IO[bytes]) -> None:
        if self._file is not raw:
            self._file.close()
        if self._durable and self._temporary:
            raw.flush()
            os.fsync(raw.fileno())
        raw.close()
        if self._temporary:
            os.replace(self._temporary, self._target)
            self._temporary = None
            if self._durable:
                sync_folder(os.path.dirname(self._target))

    def _abandon(self) -> None:
        """Close open files, and remove the temporary file if it still exists."""
        for file in filter(None, (self._file, self._raw)):
            with suppress(OSError, ValueError):
                file.close()
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary)


def _find_descriptor(path: str) -> int | None:
    """Return the open descriptor that a path names, or None.

    Its file must be neither replaced nor opened again, because others write to the same descriptor.
    """
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", _STANDARD_STREAMS.get(path, path))
    return int(found[1]) if found else None


def sync_folder(folder: str) -> None:
    """Sync the names in a folder to disk, so that they survive a crash of the machine.

    Raises:
        OSError: The folder does not exist, or cannot be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_compressed(raw: Any, suffix: str) -> Any:
    """Return a file that writes compressed bytes to `raw`, or `raw` itself.

    Args:
        raw: Binary file. It stays open when the returned file is closed.
        suffix: End of the file's name. ".gz" and ".zst" are compressed.
    """
    if suffix == ".gz":  # no name and no time: the same content gives the same file
        import gzip

        return gzip.GzipFile("", "wb", COMPRESSION_LEVEL[suffix], raw, mtime=0)
    if suffix != ".zst":
        return raw
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdFile(raw, "wb", level=COMPRESSION_LEVEL[suffix])
    import zstandard

    return zstandard.ZstdCompressor(level=COMPRESSION_LEVEL[suffix]).stream_writer(raw, closefd=False)
