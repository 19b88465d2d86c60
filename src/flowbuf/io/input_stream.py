"""Read paths, standard input, pipes and file objects, plain or compressed, and peek at their first bytes."""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, BinaryIO, Protocol, TypeVar

from flowbuf.errors import CaptureError
from flowbuf.io.nfcapd_blocks import START_SIZE, NfcapdBlocks, has_compressed_blocks, is_nfcapd

__all__ = ["ArrivingContent", "Content", "JoinedPieces", "check_piece", "check_source"]

# Bytes of compressed data per read, and per call of a decompressor. 4 bytes of zstd can stand for 128 KiB and
# 1 byte of gzip for 1 KiB. So a piece decompresses to at most 16 MiB, and zstandard holds twice that.
READ_SIZE = 1 << 16
PIECE_SIZE = 1 << 9

T = TypeVar("T")

ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
ZSTD_WINDOW = 1 << 27  # largest window in bytes, which is the limit of zstd without --long
SKIPPABLE_FRAME = b"\x2a\x4d\x18"  # its magic number without the first byte, which is 0x50 to 0x5f
SKIPPABLE_SIZE = 1 << 12  # largest size of the skippable frames in front of a zstd frame, in bytes
RLE_BLOCK = 1
MAGIC_STARTS = frozenset(bytes([first]) for first in (0x1F, 0x28, *range(0x50, 0x60)))  # gzip, zstd


def check_source(source: object) -> None:
    """Raise TypeError if the source cannot be read."""
    if not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        raise TypeError(f'source is {type(source).__name__}; it may be a path, "-" or a binary file object')
    if isinstance(source, io.TextIOBase):
        raise TypeError('the file is open as text; open it with the mode "rb", or pass its attribute buffer')


class Content:
    """Read the content of a file in bounded memory. Decompress gzip, zstd, and the blocks of nfcapd files.

    Damaged compression ends the content without an exception. The content before the damage is returned, and
    `fault` describes it.

    Args:
        source: Path, "-" for standard input, or binary file object. A file object is read from its current
            position and left open.
        ends_at_error: If True, an OSError while reading ends the content, and `failure` has its text.
            Default: False, the error is raised.
        blocks: Decompress the blocks of nfcapd files. Default: True.

    Raises:
        OSError: The source cannot be opened.
        TypeError: source is not a path or binary file object.
        CaptureError: The library for its compression is not installed.
    """

    def __init__(
        self, source: str | os.PathLike[str] | BinaryIO, ends_at_error: bool = False, blocks: bool = True
    ) -> None:
        check_source(source)
        self._ends_at_error = ends_at_error
        self.failure = ""
        self._closes = False
        if source == "-":
            self.name = "<stdin>"
            if sys.stdin is None:
                raise OSError(errno.EBADF, "the stream is closed", self.name)
            file: Any = sys.stdin.buffer
        elif isinstance(source, (str, os.PathLike)):
            file = open(source, "rb", buffering=0)  # noqa: SIM115
            self._closes = True
            self.name = os.fspath(source)
        else:
            file = source
            self.name = str(getattr(source, "name", "<file>"))
        self._raw: BinaryIO = file
        self.size = _get_size(file)
        """Size of the file in bytes, compressed or not. None if it is unknown."""
        self._ahead = b""
        try:
            self._file = _File(file)
            self._content, self._compressed = _open_content(self._file, self.name, blocks)
        except BaseException as error:
            self.close()
            # Without a number, such as those of gzip.open, an error with a file name does not show its text.
            if isinstance(error, OSError) and error.errno is not None:
                error.filename = self.name
            raise

    @property
    def position(self) -> int:
        """Number of bytes of the file read so far, before decompression. Equals `size` at the end."""
        return self._file.position

    @property
    def fault(self) -> str:
        """Damage to the compression, for example "gzip data is cut short". Empty if there is no damage."""
        return self._content.fault

    @property
    def compressed(self) -> bool:
        """True if the whole file is compressed, with gzip or zstd."""
        return self._compressed

    def peek(self, size: int) -> bytes:
        """Return the first `size` bytes of the content, or fewer if it is shorter.

        Later reads return them again.
        """
        buffer = memoryview(bytearray(size))
        while len(self._ahead) < size:
            count = self._read_into(buffer[: size - len(self._ahead)])
            if not count:
                break
            self._ahead += buffer[:count]
        return self._ahead[:size]

    def readinto(self, view: memoryview) -> int:
        """Read available bytes into `view` and return their number, 0 at the end."""
        if not self._ahead:
            return self._read_into(view)
        data, self._ahead = self._ahead[: len(view)], self._ahead[len(view) :]
        view[: len(data)] = data
        return len(data)

    def skip(self, size: int) -> int:
        """Skip bytes of the content, and return their number. It is smaller if the content ends before.

        A regular file that is not compressed is not read.
        """
        rest = size
        if isinstance(self._content, _PlainFile) and self.size is not None and not self._ahead:
            rest -= self._file.skip(min(size, self.size - self.position))
        buffer = memoryview(bytearray(min(rest, READ_SIZE)))
        while rest and (count := self.readinto(buffer[:rest])):
            rest -= count
        return size - rest

    def _read_into(self, view: memoryview) -> int:
        if self.failure:
            return 0
        try:
            return self._content.read_into(view)
        except OSError as error:
            if not self._ends_at_error:
                raise
            self.failure = error.strerror or str(error)
            return 0

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._closes:
            self._raw.close()

    def __enter__(self) -> Content:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _get_size(file: BinaryIO) -> int | None:
    """Return the number of bytes from the current position of a regular file to its end.

    None for anything else.
    """
    try:
        status = os.fstat(file.fileno())
        return max(0, status.st_size - file.tell()) if stat.S_ISREG(status.st_mode) else None
    except (AttributeError, OSError, ValueError):
        return None


# Raw and decompressed data ----------------------------------------------------------------------------------


class _File:
    """A binary file with its read position and a buffer for peeking."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._readinto: Callable[[memoryview], int | None] | None = getattr(
            file, "readinto1", None
        ) or getattr(file, "readinto", None)
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        self._ahead = b""
        self.position = 0

    def peek(self, size: int) -> bytes:
        """Return the first `size` bytes, or fewer if the file is shorter."""
        while len(self._ahead) < size and (more := _check_blocking(self._read(size - len(self._ahead)))):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes as soon as some are available, none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = _check_blocking(self._read(size))
        self.position += len(data)
        return data

    def skip(self, size: int) -> int:
        """Skip bytes of a regular file that are there, and return their number."""
        ahead = min(size, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        self._file.seek(size - ahead, os.SEEK_CUR)
        self.position += size
        return size

    def read_into(self, view: memoryview) -> int:
        """Read into `view` like `read`, and return the number of bytes."""
        if self._ahead or not self._readinto:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        count = _check_blocking(self._readinto(view))
        self.position += count
        return count


def _check_blocking(result: T | None) -> T:
    """Return the result of a read. Raise BlockingIOError for None, which is not the end of the file."""
    if result is None:
        raise BlockingIOError(errno.EAGAIN, "the file is non-blocking, and has no bytes yet")
    return result


class _Decompressor(Protocol):
    """Common interface of zlib, zstandard and compression.zstd: one gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Any, /) -> bytes: ...


class _Part:
    """The part of a compressed file that contains the next bytes.

    No piece extends beyond a part, because zstd returns nothing of a damaged piece.
    """

    def __init__(self, sizes: Generator[int, bytes, None]) -> None:
        self._sizes = sizes
        self._seen = bytearray()
        self.left = next(sizes)

    def add(self, piece: memoryview) -> None:
        """Take a piece of this part. At its end, go on to the next part."""
        self._seen += piece
        self.left -= len(piece)
        while not self.left:
            self.left = self._sizes.send(bytes(self._seen))
            self._seen.clear()


def _any_sizes() -> Generator[int, bytes, None]:
    """Yield PIECE_SIZE for data whose parts are unknown."""
    while True:
        yield PIECE_SIZE


def _zstd_sizes() -> Generator[int, bytes, None]:
    """Yield the sizes of the parts of a frame: headers, blocks, checksum.

    Receives each part (RFC 8878 section 3.1.1).

    Other frames, and data after the frame, have parts of any size.
    """
    header = yield len(ZSTD_FRAME) + 1
    if header.startswith(ZSTD_FRAME):
        single_segment, id_size, size_size = header[4] >> 5 & 1, (0, 1, 2, 4)[header[4] & 3], header[4] >> 6
        yield (not single_segment) + id_size + (1 << size_size if size_size else single_segment)
        last = 0
        while not last:
            block = int.from_bytes((yield 3), "little")
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            yield 1 if kind == RLE_BLOCK else size
        yield header[4] & 4  # size of the checksum
    yield from _any_sizes()


class _DecompressedFile:
    """Content of a compressed file: all members (frames), one after another.

    Damage and an early end of the file end the content. The content before them is returned. For zstd, this
    is every block before the damaged one.
    """

    def __init__(
        self,
        name: str,
        file: _File,
        new_decompressor: Callable[[], _Decompressor],
        error: type[Exception],
        sizes: Callable[[], Generator[int, bytes, None]] = _any_sizes,
    ) -> None:
        self._name = name
        self._file = file
        self._new_decompressor = new_decompressor
        self._error = error
        self._sizes = sizes
        self._start()
        self._compressed = memoryview(b"")
        self._content = memoryview(b"")
        self.fault = ""

    def _start(self) -> None:
        """Begin a member (frame)."""
        self._decompressor = self._new_decompressor()
        self._part = _Part(self._sizes())
        self._keep()

    def _keep(self) -> None:
        """Copy the decompressor, to return to this state if a later piece is damaged."""
        # zstd has no copy()
        copy: Callable[[], _Decompressor] | None = getattr(self._decompressor, "copy", None)
        self._kept = copy() if copy else None
        self._since: list[memoryview] = []

    def read_into(self, view: memoryview) -> int:
        """Fill `view` from one read of the file. Return the number of bytes, 0 at the end."""
        filled = 0
        while filled < len(view):
            if self._content:
                count = min(len(self._content), len(view) - filled)
                view[filled : filled + count] = self._content[:count]
                self._content = self._content[count:]
                filled += count
            elif self._compressed or (not filled and self._read_more()):
                self._decompress_piece()
            else:
                break
        return filled

    def _read_more(self) -> bool:
        if self.fault:
            return False
        self._compressed = memoryview(self._file.read(READ_SIZE))
        if not self._compressed and not self._decompressor.eof:
            self.fault = f"{self._name} data is cut short"
        self._keep()
        return bool(self._compressed)

    def _decompress_piece(self) -> None:
        if self._decompressor.eof:
            if self._compressed[0] == 0:  # padding after a member
                self._compressed = memoryview(bytes(self._compressed).lstrip(b"\0"))
                return
            self._start()
        piece = self._compressed[: min(PIECE_SIZE, self._part.left)]
        try:
            self._content = memoryview(self._decompressor.decompress(piece))
        except self._error as error:
            self.fault = f"{self._name} {_describe_damage(error)}"
            self._compressed = memoryview(b"")
            self._content = memoryview(self._decompress_before_damage(piece))
        else:
            self._since.append(piece)
            self._part.add(piece)
            unused = len(self._decompressor.unused_data) if self._decompressor.eof else 0
            self._compressed = self._compressed[len(piece) - unused :]

    def _decompress_before_damage(self, piece: memoryview) -> bytes:
        """Return the content of a damaged piece before the damage."""
        content = b""
        if self._kept is None:
            return content
        for earlier in self._since:
            self._kept.decompress(earlier)
        for i in range(len(piece)):
            try:
                content += self._kept.decompress(piece[i : i + 1])
            except self._error:
                break
        return content


def _describe_damage(error: Exception) -> str:
    if "too much memory" in str(error):  # the words of libzstd
        return f"window is above {ZSTD_WINDOW >> 20} MiB (compress the file again with zstd --long=27)"
    return "data is damaged"


class _PlainFile:
    """Content of a file that is not compressed."""

    fault = ""

    def __init__(self, file: _File) -> None:
        self.read_into = file.read_into


def _open_gzip(file: _File) -> _DecompressedFile:
    return _DecompressedFile("gzip", file, lambda: zlib.decompressobj(wbits=31), zlib.error)


def _get_zstd(name: str) -> tuple[Callable[[], _Decompressor], type[Exception]]:
    """Return a function that creates a decompressor, and the class of its errors."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor, zstd.ZstdError
    try:
        import zstandard
    except ImportError:
        raise CaptureError(
            f"{name}: is compressed with zstd; install the package zstandard to read it"
        ) from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)

    def new_decompressor() -> _Decompressor:
        return decompressor.decompressobj(write_size=1 << 14)

    return new_decompressor, zstandard.ZstdError


def _open_zstd(file: _File, name: str) -> _DecompressedFile:
    new_decompressor, error = _get_zstd(name)
    return _DecompressedFile("zstd", file, new_decompressor, error, _zstd_sizes)


def _open_content(
    file: _File, name: str, blocks: bool
) -> tuple[_PlainFile | _DecompressedFile | NfcapdBlocks, bool]:
    """Return the content of a file, and True if the file is compressed as a whole."""
    # A pipe may have one short message. More bytes are read only if the first one is that of a magic number.
    first = file.peek(1)
    magic = file.peek(4) if blocks or first in MAGIC_STARTS else first
    content: _PlainFile | _DecompressedFile
    if magic[:2] == b"\x1f\x8b":
        content = _open_gzip(file)
    elif _is_zstd(file, magic):
        content = _open_zstd(file, name)
    else:
        content = _PlainFile(file)
        if not (blocks and is_nfcapd(magic) and has_compressed_blocks(file.peek(START_SIZE))):
            return content, False
    if not blocks:
        return content, True
    return NfcapdBlocks(content, name, lambda: _get_zstd(name)), not isinstance(content, _PlainFile)


def _is_zstd(file: _File, magic: bytes) -> bool:
    """Return True if a file begins with a zstd frame, with or without skippable frames in front of it.

    RFC 8878 section 3.1 defines both. A message may begin like a skippable frame.
    """
    begin = 0
    while magic[1:] == SKIPPABLE_FRAME and magic[0] >> 4 == 5:
        size = int.from_bytes(file.peek(begin + 8)[begin + 4 : begin + 8], "little")
        begin += 8 + size
        if begin > SKIPPABLE_SIZE:
            return False
        magic = file.peek(begin + 4)[begin : begin + 4]
    return magic == ZSTD_FRAME


# Pieces -----------------------------------------------------------------------------------------------------


class JoinedPieces:
    """Pieces of bytes as a binary file for reading."""

    name = "<pieces>"

    def __init__(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of one piece, none at the end."""
        while not self._rest:
            try:
                piece = next(self._pieces)
            except StopIteration:
                return b""
            check_piece(piece)
            self._rest = memoryview(piece).cast("B")
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data


def check_piece(piece: object) -> None:
    """Raise TypeError if a piece of a stream is not bytes."""
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise TypeError(f"a piece of the stream is {type(piece).__name__}; it must be bytes")


class ArrivingContent:
    """Content of a stream whose pieces arrive one after another, as in `Content`, in bounded memory.

    Damaged compression ends the content, and `fault` describes it.

    Raises:
        CaptureError: The stream is compressed with zstd, and its library is not installed. Raised by `read`.

    Example:
        content = ArrivingContent()
        while (data := content.read()) is None:
            content.add(await anext(pieces))
    """

    def __init__(self) -> None:
        self._pieces = _ArrivingPieces()
        self._file = _File(self._pieces)  # type: ignore[arg-type]  # it needs no more than `read`
        self._content: _PlainFile | _DecompressedFile | NfcapdBlocks | None = None
        self._next: Callable[[], bytes | memoryview | None] = self._open

    @property
    def fault(self) -> str:
        """Damage to the compression, for example "gzip data is cut short". Empty if there is no damage."""
        return self._content.fault if self._content else ""

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        """Add the next piece, which may be empty. Memory is bounded if `read` has returned None."""
        self._pieces.add(piece)

    def end(self) -> None:
        """End the stream."""
        self._pieces.ended = True

    def read(self) -> bytes | memoryview | None:
        """Return the next bytes, which are valid until the next call. No bytes are the end of the content.

        None: a piece must be added first.
        """
        return self._next()

    def _open(self) -> bytes | memoryview | None:
        try:
            self._content, compressed = _open_content(self._file, self._pieces.name, blocks=False)
        except BlockingIOError:
            return None
        if compressed:
            buffer = memoryview(bytearray(READ_SIZE))
            self._next = functools.partial(_read_available, self._content, buffer)
            return self._next()
        self._next = self._pieces.read
        return self._file.read(READ_SIZE)  # the bytes that were peeked, or the end


def _read_available(
    content: _PlainFile | _DecompressedFile | NfcapdBlocks, buffer: memoryview
) -> memoryview | None:
    """Read into the buffer and return its part with bytes. None: a piece must arrive first."""
    try:
        return buffer[: content.read_into(buffer)]
    except BlockingIOError:
        return None


class _ArrivingPieces:
    """Pieces of a stream as a non-blocking file: None is read before the next piece has arrived."""

    name = "<pieces>"

    def __init__(self) -> None:
        self._piece = b""
        self._begin = 0  # of the bytes that were not read
        self.ended = False

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        check_piece(piece)
        # A piece that is not bytes is copied, because its source may reuse the buffer.
        self._piece = self._piece[self._begin :] + bytes(piece)
        self._begin = 0

    def read(self, size: int = READ_SIZE) -> bytes | None:
        if not self._piece:
            return b"" if self.ended else None
        end = self._begin + size
        data = self._piece[self._begin : end]
        if end < len(self._piece):
            self._begin = end
        else:
            self._piece, self._begin = b"", 0
        return data
