"""Output files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any

__all__ = ["OutputFile"]

COMPRESSION_LEVEL = {".gz": 6, ".zst": 3}


class OutputFile:
    """A binary file to write, as a context manager. It is written beside its path under another name and takes its
    place when the `with` block ends well; until then, and after any exception, what was there stays.

    `path` ending in .gz or .zst is compressed. "-" is standard output, which is flushed and left open. What is no
    regular file (a device, a named pipe) is written as it is. A file that is replaced keeps its permissions, a new one
    gets those of the umask; a symbolic link stays one.

    `durable`: a regular file is on the disk, name and all, before the block ends.

    Raises OSError, with `path` as its file name, `<stdout>` for standard output.
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
                raise OSError(errno.EBADF, "it is closed", self.name)
            self._file = sys.stdout.buffer
            return self
        with self._named_errors():
            self._target = os.path.realpath(self.path)
            try:
                self._raw = self._open()
                self._file = _compressed(self._raw, os.path.splitext(self.path)[1])
            except BaseException:
                self._abandon()
                raise
        return self

    @property
    def is_regular(self) -> bool:
        """Whether this is an ordinary file, not standard output nor a device."""
        return self._temporary is not None

    @property
    def is_terminal(self) -> bool:
        """Return whether this is a terminal: standard output, or a device."""
        file = self._raw or sys.stdout
        return not self.is_regular and file is not None and file.isatty()

    def write(self, data: bytes | memoryview) -> None:
        """Appends octets. Those for standard output get there now: somebody may wait for them."""
        with self._named_errors():
            if self._raw is None:
                self._write_out(memoryview(data))
            else:
                self._file.write(data)

    def _write_out(self, data: memoryview) -> None:
        """Standard output has no buffer where Python is told so, and takes a part where a signal comes."""
        while len(data):
            data = data[self._file.write(data) :]
        self._file.flush()

    def discard(self) -> None:
        """Says that the file is not wanted after all: the end of the block removes it."""
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
        """Gives an OSError inside the name of the file as its caller knows it."""
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = self.name, None
            raise

    def _open(self) -> IO[bytes]:
        try:
            mode = os.stat(self._target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            return open(self._target, "wb")
        folder, name = os.path.split(self._target)
        temporary = self._temporary = os.path.join(folder, f".{name[:50]}.{os.urandom(8).hex()}.tmp")
        # The mode 0o666 is what the umask is taken from; tempfile would allow the owner alone.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
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
                _sync_folder(os.path.dirname(self._target))

    def _abandon(self) -> None:
        """Closes what is open and removes what did not take its place."""
        for file in filter(None, (self._file, self._raw)):
            with suppress(OSError, ValueError):
                file.close()
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary)


def _sync_folder(folder: str) -> None:
    """The names in a folder, so that they are there after a crash of the machine, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compressed(raw: IO[bytes], suffix: str) -> Any:
    """A file that writes compressed octets to `raw`, or `raw` itself."""
    if suffix == ".gz":  # without name and time: the same content is the same file
        import gzip

        return gzip.GzipFile("", "wb", COMPRESSION_LEVEL[suffix], raw, mtime=0)
    if suffix != ".zst":
        return raw
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdFile(raw, "wb", level=COMPRESSION_LEVEL[suffix])
    import zstandard

    return zstandard.ZstdCompressor(level=COMPRESSION_LEVEL[suffix]).stream_writer(raw, closefd=False)
