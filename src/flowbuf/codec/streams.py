"""Streams of messages, each after its length as a varint, as iterators of objects."""

from __future__ import annotations

import errno
import functools
import inspect
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypedDict, overload

from flowbuf._core import ListIterator, ObjectCodec, split_messages
from flowbuf.errors import DecodeError
from flowbuf.io.input_stream import Content, JoinedPieces
from flowbuf.io.output_file import OutputFile

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar, Unpack

    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = [
    *("MAX_SIZE", "Into", "ObjectReader", "ReadOptions", "Reader", "StreamCodec", "T", "U"),
    *("check_skipped", "encode_parts"),
]

MAX_SIZE = 1 << 26
"""Default of the largest message that a reader accepts, in bytes."""

_READ_SIZE = (
    1 << 16
)  # a smaller piece costs time, and a larger one memory: objects take 10 to 100 times its size
_WRITE_SIZE = 1 << 18
_LARGEST = (1 << 31) - 1  # bytes that a message can have


U = TypeVar("U")
Into = type[U] | Callable[..., U]
Bytes = bytes | bytearray | memoryview


class Readable(Protocol):
    """A binary file for reading."""

    def read(self, size: int, /) -> bytes | None: ...


class Writable(Protocol):
    """A binary file for writing."""

    def write(self, data: memoryview, /) -> object: ...


Source = str | os.PathLike[str] | Readable | Bytes | Iterable[bytes]


class ReadOptions(TypedDict, total=False):
    """Options of `Codec.read` and `read_async`."""

    offset: int
    invalid: Literal["error", "skip"]
    max_size: int


class _Decoding:
    """The messages of a stream that arrives in pieces, as lists of objects.

    Attributes:
        count: Number of messages before those that have not been decoded, including skipped ones.
        position: Offset of the messages that have not been decoded.
        skipped: Number of malformed messages that were skipped.
    """

    def __init__(self, codec: ObjectCodec[Any], into: Any, invalid: str, max_size: int, offset: int) -> None:
        if invalid not in ("error", "skip"):
            raise ValueError(f"invalid is {invalid!r}; it must be one of error, skip")
        if offset < 0 or max_size < 0:
            raise ValueError("offset and max_size must not be negative")
        self._decode = codec._decode_part
        self._into, self._skips, self._max_size = into, invalid == "skip", min(max_size, _LARGEST)
        self._data = bytearray()
        self._read = 0  # bytes of the data that were decoded
        self._problem: tuple[Exception, int] | None = None
        self.count = self.skipped = 0
        self.position = offset
        self.ended = False

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        """Append a piece of the stream."""
        del self._data[: self._read]
        self._read = 0
        self._data += piece

    def take(self) -> tuple[list[Any], bytes]:
        """Return the objects of the next messages, and these messages. No objects: more data is needed.

        Raises:
            DecodeError: the next message is malformed. The messages after it can be taken.
        """
        while True:
            if self._problem:
                self._report(*self._problem)
            with memoryview(self._data)[self._read :] as view:
                objects, size, self._problem = self._decode(
                    view, self._into, self._max_size, self.count, self.position
                )
                messages = bytes(view[:size])
            self._advance(size, len(objects))
            if objects or not self._problem:
                return objects, messages

    def _report(self, error: Exception, size: int) -> None:
        """Raise the error of a message, or skip the message. Size 0: the stream ends here."""
        self._problem = None
        if not size:
            self._end()
            raise error
        self._advance(size, 1)
        if not (self._skips and isinstance(error, DecodeError)):
            raise error
        self.skipped += 1

    def _advance(self, size: int, count: int) -> None:
        self._read += size
        self.position += size
        self.count += count

    def finish(self, damage: str = "") -> None:
        """End the stream. Raises DecodeError if it ends inside a message, or because of damage."""
        inside = len(self._data) > self._read
        self._end()
        if damage or inside:
            text = f"[{self.count}]: byte {self.position}: {damage or 'the message is cut short'}"
            raise DecodeError(text, status="bad_message", offset=self.position, path=f"[{self.count}]")

    def _end(self) -> None:
        self.ended = True
        self._data.clear()
        self._read = 0


class Reader(Generic[T]):
    """A reader of objects: `_objects` are those that were decoded and not yet returned."""

    def __init__(self, codec: ObjectCodec[Any], into: Any, invalid: str, max_size: int, offset: int) -> None:
        self._decoding = _Decoding(codec, into, invalid, max_size, offset)
        self._messages = b""
        self._ends: list[int] | None = None

    if TYPE_CHECKING:

        @property
        def _waiting(self) -> int: ...

    def _take(self) -> list[T]:
        """Return the objects of the next messages. None of them: more data is needed."""
        objects, self._messages = self._decoding.take()
        self._ends = None
        return objects

    @property
    def offset(self) -> int:
        """Position after the last object returned, in bytes of the stream, after decompression.

        A reader that begins at this offset continues with the next object.
        """
        waiting = self._waiting
        if not waiting:
            return self._decoding.position
        if self._ends is None:
            self._ends = list(itertools.accumulate(map(len, split_messages(self._messages)), initial=0))
        return self._decoding.position - len(self._messages) + self._ends[-1 - waiting]

    def __reduce__(self) -> Any:
        raise TypeError("a reader cannot be copied or pickled")

    @property
    def count(self) -> int:
        """Number of messages so far, including malformed ones."""
        return self._decoding.count - self._waiting

    @property
    def skipped(self) -> int:
        """Number of malformed messages so far that were skipped."""
        return self._decoding.skipped


class ObjectReader(Reader[T], ListIterator, Iterator[T]):
    """Iterator over the objects of a stream, from `Codec.read`.

    A reader that opened a file closes it at the end of the stream. `close`, or a `with` block, closes it
    before.

    After a DecodeError for a malformed message, the iteration can go on with the message after it. One thread
    may use a reader at a time.

    Example:
        with codec.read("orders.pb.gz") as orders:
            for order in orders:
                print(order["id"], orders.offset)
    """

    def __init__(
        self, codec: ObjectCodec[Any], source: Any, into: Any, invalid: str, max_size: int, offset: int
    ) -> None:
        super().__init__(codec, into, invalid, max_size, offset)
        self._closed = ""
        self._content = Content(_as_file(source), blocks=False)
        try:
            check_skipped(self._content.skip(offset), offset, self._content.fault)
        except BaseException:
            self._content.close()
            raise
        self._buffer = memoryview(bytearray(_READ_SIZE))

    if TYPE_CHECKING:  # the compiled iterator has no type of items

        def __next__(self) -> T: ...

    def _refill(self) -> list[T] | None:
        if self._closed:
            raise ValueError(self._closed)
        try:
            while not (objects := self._take()) and not self._decoding.ended:
                size = self._content.readinto(self._buffer)
                if size:
                    self._decoding.add(self._buffer[:size])
                else:
                    self._decoding.finish(self._content.fault)
            return objects or None
        except Exception:
            raise
        except BaseException:  # a signal may have come after a piece was read, and before it was added
            self._closed = f"the reader was interrupted; read again from the offset {self.offset}"
            raise
        finally:
            if self._decoding.ended or self._closed:
                self._content.close()

    def close(self) -> None:
        """End the iteration, and close the file if the reader opened it."""
        self._decoding.position, self._decoding.count = self.offset, self.count
        self._clear()
        self._closed = self._closed or "the reader is closed"
        self._content.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def check_skipped(skipped: int, offset: int, fault: str) -> None:
    """Raise an error if a stream has fewer bytes than were to be skipped."""
    if skipped < offset:
        if fault:
            raise DecodeError(f"byte {skipped}: {fault}", "bad_message", skipped)
        raise ValueError(f"offset is {offset}, but the stream has {skipped} bytes")


def _as_file(source: Any) -> Any:
    """Return a path or file as it is, and bytes or an iterable of bytes as a file."""
    if isinstance(source, bytes | bytearray | memoryview):
        return JoinedPieces([source])
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return _check_binary(source)
    if isinstance(source, Iterable):
        return JoinedPieces(source)
    raise TypeError(
        f"source is {type(source).__name__}; it must be a path, a binary file, bytes, or an iterable of bytes"
    )


def _check_binary(file: Any) -> Any:
    if isinstance(file, io.TextIOBase):
        raise TypeError('the file is open as text; open it with the mode "rb" or "wb"')
    if inspect.iscoroutinefunction(getattr(file, "read", None)):
        raise TypeError(f"source is {type(file).__name__}, which is asynchronous; use read_async")
    return file


# Writing ----------------------------------------------------------------------------------------------------


def _write_to(codec: ObjectCodec[Any], target: Any, objects: Iterable[Any]) -> int:
    """Write objects to a path or a binary file: see `Codec.write`."""
    if isinstance(target, str | os.PathLike):
        with OutputFile(target) as file:
            return _write(codec, file.write, objects)
    if not hasattr(target, "write"):
        raise TypeError(f"target is {type(target).__name__}; it must be a path or a binary file")
    return _write(codec, functools.partial(_write_all, _check_binary(target)), objects)


def _write(codec: ObjectCodec[Any], write: Callable[[bytes], object], objects: Iterable[Any]) -> int:
    total = 0
    for messages, count, error in encode_parts(codec, objects):
        write(messages)
        if error:
            raise error
        total += count
    return total


def _write_all(file: Any, data: bytes) -> None:
    """Write all bytes to a file, which may write a part of them in each call."""
    rest = memoryview(data)
    while rest:
        size = file.write(rest)
        if isinstance(file, io.RawIOBase) and not size:
            raise BlockingIOError(errno.EAGAIN, "the file is non-blocking, and takes no bytes now")
        rest = rest[len(rest) if size is None else size :]


def encode_parts(
    codec: ObjectCodec[Any], objects: Iterable[Any], first: int = 0
) -> Iterator[tuple[bytes, int, BaseException | None]]:
    """Yield messages in pieces, and their number. The error of an object comes after those before it."""
    rest = codec._iterate(objects)
    while True:
        messages, count, error = codec._encode_part(rest, _WRITE_SIZE, first)
        if not count and not error:
            return
        yield messages, count, error
        first += count


# Methods of a codec -----------------------------------------------------------------------------------------


class StreamCodec(ObjectCodec[T]):
    """The methods of a codec for streams."""

    @overload
    def read(self, source: Source, into: None = None, **options: Unpack[ReadOptions]) -> ObjectReader[T]: ...
    @overload
    def read(self, source: Source, into: Into[U], **options: Unpack[ReadOptions]) -> ObjectReader[U]: ...
    def read(
        self,
        source: Source,
        into: Any = None,
        *,
        offset: int = 0,
        invalid: str = "error",
        max_size: int = MAX_SIZE,
    ) -> ObjectReader[Any]:
        """Read the objects of a stream of messages, each after its length as a varint, in bounded memory.

        gzip and zstd are recognized and decompressed.

        Args:
            source: Path, "-" for standard input, a binary file, bytes, or an iterable of bytes, which may
                cut the messages anywhere.
            into: Type of the objects: see `decode`.
            offset: Position of the first message to read, in bytes of the stream, after decompression.
                Default: 0. `ObjectReader.offset` gives the position to resume at.
            invalid: "error" (default) or "skip": treatment of malformed messages. `ObjectReader.skipped`
                counts those that are skipped.
            max_size: Largest message that is accepted, in bytes. Default: 64 MiB.

        Returns:
            ObjectReader: an iterator over the objects.

        Raises:
            DecodeError: raised by the iterator. A message is malformed; or the stream or its compression is
                damaged or cut short, and ends. `path` begins with the number of messages before, such as
                `[3].time`, and `offset` counts from the start of the stream.
            OSError: the source cannot be opened or read.
            CaptureError: the stream is compressed with zstd, and the package zstandard is not installed.
            ValueError: the offset is beyond the end of the stream, or an option has an unknown value.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.write("reports.pb.gz", [{"device_id": "a1"}, {"device_id": "a2"}])
            with codec.read("reports.pb.gz") as reports:
                for report in reports:
                    print(report["device_id"])
        """
        return ObjectReader(self, source, into, invalid, max_size, offset)

    def write(self, target: str | os.PathLike[str] | Writable, objects: Iterable[Any]) -> int:
        """Write objects as a stream of messages, each after its length as a varint, in bounded memory.

        A file that is named by its path appears whole or not at all. An open file keeps the messages before
        an error.

        Args:
            target: Path, "-" for standard output, or a binary file, which is left open. The suffixes .gz and
                .zst of a path compress the stream.
            objects: Iterable of objects: see `encode`.

        Returns:
            int: the number of messages.

        Raises:
            EncodeError: an object cannot be encoded. `path` begins with its index, such as `[3].time`.
            OSError: the target cannot be written.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.write("reports.pb.gz", ({"sequence": number} for number in range(1000)))
        """
        return _write_to(self, target, objects)
