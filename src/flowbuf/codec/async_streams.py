"""Asynchronous streams of messages, as asynchronous iterators of objects."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

from flowbuf._core import ObjectCodec
from flowbuf.codec.streams import (
    MAX_SIZE,
    Into,
    Reader,
    ReadOptions,
    StreamCodec,
    T,
    U,
    check_skipped,
    encode_parts,
)
from flowbuf.io.input_stream import ArrivingContent, check_piece
from flowbuf.io.output_file import open_compressed

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["AsyncObjectReader", "AsyncStreamCodec"]

_READ_SIZE = 1 << 16  # bytes that are asked for at a time
_SUFFIXES = {None: "", "gzip": ".gz", "zstd": ".zst"}


class AsyncReadable(Protocol):
    """An `asyncio.StreamReader`, or another object with its method `read`."""

    def read(self, n: int, /) -> Awaitable[bytes]: ...


AsyncSource = AsyncReadable | AsyncIterable[bytes]

_END = object()
"""Stands for the end of the pieces."""


class AsyncTarget(Protocol):
    """An `asyncio.StreamWriter`, or another object with its methods `write` and `drain`."""

    def write(self, data: bytes, /) -> object: ...
    def drain(self) -> Awaitable[None]: ...


# Reading ----------------------------------------------------------------------------------------------------


class AsyncObjectReader(Reader[T], AsyncIterator[T]):
    """Asynchronous iterator over the objects of a stream, from `Codec.read_async`.

    After a DecodeError for a malformed message, the iteration can go on with the message after it. It can
    also go on after a timeout or another cancellation, if the source can. A cancellation closes an
    asynchronous generator: the next step raises RuntimeError.
    """

    def __init__(
        self, codec: ObjectCodec[Any], source: Any, into: Any, invalid: str, max_size: int, offset: int
    ) -> None:
        super().__init__(codec, into, invalid, max_size, offset)
        self._objects: list[T] = []
        self._place = 0
        self._offset = self._left = offset  # bytes to skip, and those of them that are left
        self._content = ArrivingContent()
        if inspect.iscoroutinefunction(getattr(source, "read", None)):
            self._read: Callable[[], Awaitable[bytes | None]] = functools.partial(_read_some, source.read)
        elif isinstance(source, AsyncIterable):
            self._read = _Pieces(aiter(source)).read
        else:
            kinds = "an asyncio.StreamReader, or an asynchronous iterable of bytes"
            raise TypeError(f"source is {type(source).__name__}; it must be {kinds}")

    def __aiter__(self) -> Self:
        return self

    @property
    def _waiting(self) -> int:
        return len(self._objects) - self._place

    async def __anext__(self) -> T:
        while self._place == len(self._objects):
            self._objects, self._place = self._take(), 0
            if self._objects:
                break
            if self._decoding.ended:
                raise StopAsyncIteration
            await self._refill()
        self._place += 1
        return self._objects[self._place - 1]

    async def _refill(self) -> None:
        """Add the next bytes of the content to the messages.

        At each pause, all bytes are in the content or the messages, so that a cancellation loses none.
        """
        waited = False
        while (data := self._content.read()) is None:
            piece = await self._read()
            waited = True
            if piece is None:
                self._content.end()
            else:
                self._content.add(piece)
        if data:
            self._decoding.add(self._skip(data) if self._left else data)
        elif not self._decoding.ended:  # another task may have ended it
            self._finish()
        if not waited:
            await _pause()

    def _skip(self, data: bytes | memoryview) -> bytes | memoryview:
        """Return the bytes behind those to skip."""
        rest = data[self._left :]
        self._left -= len(data) - len(rest)
        return rest

    def _finish(self) -> None:
        fault, left, self._left = self._content.fault, self._left, 0
        if left:
            self._decoding.finish()
            check_skipped(self._offset - left, self._offset, fault)
        self._decoding.finish(fault)


class _Pieces:
    """The pieces of an asynchronous iterator. None is the end."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._cancelled = False

    async def read(self) -> bytes | None:
        try:
            piece: Any = await anext(self._pieces, _END)
        except BaseException:
            self._cancelled = True
            raise
        if piece is not _END:
            check_piece(piece)
            return cast(bytes, piece)
        if self._cancelled and inspect.isasyncgen(self._pieces):
            raise RuntimeError(
                "a cancellation has closed the generator of the pieces; pass an asyncio.StreamReader, or an "
                "object with a method __anext__ that can be called again"
            )
        return None


async def _read_some(read: Callable[[int], Awaitable[bytes]]) -> bytes | None:
    return await read(_READ_SIZE) or None


async def _pause() -> None:
    """Let other tasks of asyncio run. Small pieces can have a large content."""
    import asyncio  # slow, unless asyncio is in use

    try:
        asyncio.get_running_loop()
    except RuntimeError:  # another event loop
        return
    await asyncio.sleep(0)


# Writing ----------------------------------------------------------------------------------------------------


class _Output:
    """Writes messages to an asynchronous stream, compressed or not, without a delay."""

    def __init__(self, target: AsyncTarget, compression: str | None) -> None:
        if not hasattr(target, "drain"):
            raise TypeError(f"target is {type(target).__name__}; it must be an asyncio.StreamWriter")
        if compression not in _SUFFIXES:
            raise ValueError(f"compression is {compression!r}; it must be None, gzip or zstd")
        self._target = target
        self._compressed = io.BytesIO()
        suffix = _SUFFIXES[compression]
        self._file = open_compressed(self._compressed, suffix) if suffix else None

    async def write(self, messages: bytes) -> None:
        if self._file:
            self._file.write(messages)
            self._file.flush()
            messages = self._take()
        self._target.write(messages)
        await self._target.drain()

    def close(self) -> None:
        """End the compressed data. The target stays open."""
        if self._file:
            self._file.close()
            self._target.write(self._take())

    def _take(self) -> bytes:
        data = self._compressed.getvalue()
        self._compressed.seek(0)
        self._compressed.truncate()
        return data


async def _write(output: _Output, codec: ObjectCodec[Any], objects: Any) -> int:
    total = 0
    async for part in _parts(objects):
        for messages, count, error in encode_parts(codec, part, total):
            await output.write(messages)
            if error:
                raise error
            total += count
    return total


async def _parts(objects: Any) -> AsyncIterator[Iterable[Any]]:
    """Yield all objects at once, or each object of an asynchronous iterable as it arrives."""
    if not isinstance(objects, AsyncIterable):
        yield objects
        return
    async for each in objects:
        yield (each,)


# Methods of a codec -----------------------------------------------------------------------------------------


class AsyncStreamCodec(StreamCodec[T]):
    """The methods of a codec for asynchronous streams."""

    @overload
    def read_async(
        self, source: AsyncSource, into: None = None, **options: Unpack[ReadOptions]
    ) -> AsyncObjectReader[T]: ...
    @overload
    def read_async(
        self, source: AsyncSource, into: Into[U], **options: Unpack[ReadOptions]
    ) -> AsyncObjectReader[U]: ...
    def read_async(
        self,
        source: AsyncSource,
        into: Any = None,
        *,
        offset: int = 0,
        invalid: str = "error",
        max_size: int = MAX_SIZE,
    ) -> AsyncObjectReader[Any]:
        """Read the objects of an asynchronous stream of messages, each after its length as a varint.

        gzip and zstd are recognized and decompressed, in bounded memory.

        Args:
            source: An `asyncio.StreamReader`, another object whose coroutine `read(n)` returns bytes, or an
                asynchronous iterable of bytes, which may cut the messages anywhere.
            into: As in `read`.
            offset: As in `read`. The bytes before it are read and skipped.
            invalid: As in `read`.
            max_size: As in `read`.

        Returns:
            AsyncObjectReader: an asynchronous iterator over the objects.

        Raises:
            DecodeError: raised by the iterator: see `read`.
            CaptureError: raised by the iterator. The stream is compressed with zstd, and the package
                zstandard is not installed.
            ValueError: an option has an unknown value. Raised by the iterator: the offset is beyond the end
                of the stream.

        Example:
            import asyncio

            codec = flowbuf.Codec.load("telemetry")

            async def pieces():
                yield codec.encode_many([{"device_id": "a1"}, {"device_id": "a2"}])

            async def print_reports():
                async for report in codec.read_async(pieces()):
                    print(report["device_id"])

            asyncio.run(print_reports())
        """
        return AsyncObjectReader(self, source, into, invalid, max_size, offset)

    async def write_async(
        self,
        target: AsyncTarget,
        objects: Iterable[Any] | AsyncIterable[Any],
        *,
        compression: Literal["gzip", "zstd"] | None = None,
    ) -> int:
        """Write objects to an asynchronous stream of messages, each after its length as a varint.

        Args:
            target: An `asyncio.StreamWriter`, which is left open. Its `drain` limits the memory.
            objects: Iterable of objects, or an asynchronous iterable, whose objects are written at once.
            compression: None (default), "gzip" or "zstd". Each call writes compressed data of its own, and
                readers join that of several calls.

        Returns:
            int: the number of messages.

        Raises:
            EncodeError: an object cannot be encoded: see `write`. The messages before it are written.
            ValueError: the compression is unknown.

        Example:
            import asyncio

            codec = flowbuf.Codec.load("telemetry")

            async def answer(reader, writer):
                reports = [{"device_id": "a1"}, {"device_id": "a2"}]
                await codec.write_async(writer, reports, compression="gzip")
                writer.close()

            async def print_reports():
                async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
                    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                    async for report in codec.read_async(reader):
                        print(report["device_id"])
                    writer.close()

            asyncio.run(print_reports())
        """
        output = _Output(target, compression)
        try:
            total = await _write(output, self, objects)
        finally:
            output.close()
        if compression:
            await target.drain()
        return total
