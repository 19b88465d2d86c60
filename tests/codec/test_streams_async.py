"""Asynchronous streams of objects: `Codec.read_async` and `write_async`."""

from __future__ import annotations

import asyncio
import copy
import io
import pickle
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from flowbuf import DecodeError, EncodeError
from tests.codec.test_streams import BAD, CODEC, ENDS, OBJECTS, STREAM, in_pieces


def read_all(source: Any, **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        return [each async for each in CODEC.read_async(source, **options)]

    return asyncio.run(run())


async def live(objects: Iterable[Any]) -> AsyncIterator[Any]:
    for each in objects:
        yield each


async def arrive(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0)
        if piece:
            yield piece


def test_empty_asynchronous_pieces_are_not_the_end() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"", STREAM[: ENDS[5]], b"", STREAM[ENDS[5] :], b""):
            yield piece

    assert read_all(pieces()) == OBJECTS


def test_synchronous_and_asynchronous_sources_are_not_confused() -> None:
    with pytest.raises(TypeError, match="source is StreamReader, which is asynchronous; use read_async"):
        asyncio.run(confuse())
    with pytest.raises(TypeError, match=r"source is BytesIO; it must be an asyncio\.StreamReader"):
        CODEC.read_async(io.BytesIO(STREAM))  # type: ignore[call-overload]


async def confuse() -> None:
    CODEC.read(asyncio.StreamReader())  # type: ignore[call-overload]


def test_asynchronous_pieces() -> None:
    for size in (1000, 1 << 20):
        assert read_all(arrive(in_pieces(STREAM, size))) == OBJECTS
    with pytest.raises(DecodeError, match=r"\[2000\]: byte \d+: the message is cut short"):
        read_all(arrive([STREAM, b"\x05"]))
    assert read_all(arrive([BAD, STREAM, BAD]), invalid="skip") == OBJECTS
    with pytest.raises(DecodeError, match="more than max_size=3"):
        read_all(arrive([STREAM]), max_size=3)
    with pytest.raises(TypeError, match=r"source is list; it must be an asyncio\.StreamReader"):
        CODEC.read_async([STREAM])  # type: ignore[call-overload]


def test_a_connection_in_both_directions() -> None:
    async def run() -> None:
        received: list[Any] = []
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            objects = CODEC.read_async(reader)
            async for each in objects:
                received.append(each)
                assert objects.count == len(received)
                assert objects.offset == ENDS[len(received)]
                if len(received) == len(OBJECTS):
                    break
            await CODEC.write_async(writer, live(received))
            writer.close()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            reader, writer = await asyncio.open_connection(host, port)
            assert await CODEC.write_async(writer, iter(OBJECTS)) == len(OBJECTS)
            assert [each async for each in CODEC.read_async(reader)] == OBJECTS
            writer.close()
            await served.wait()
        assert received == OBJECTS

    asyncio.run(run())


def test_an_object_that_cannot_be_written_ends_an_asynchronous_stream() -> None:
    class Target:
        content = b""

        def write(self, data: bytes) -> None:
            self.content += data

        async def drain(self) -> None:
            await asyncio.sleep(0)

    bad = [*OBJECTS[:3], {"sequence": "x"}]
    for objects in (bad, live(bad)):
        target = Target()
        with pytest.raises(EncodeError) as caught:
            asyncio.run(CODEC.write_async(target, objects))
        assert caught.value.path == "[3].sequence"
        assert target.content == STREAM[: ENDS[3]]
    with pytest.raises(TypeError, match="target is BytesIO"):
        asyncio.run(CODEC.write_async(io.BytesIO(), OBJECTS))  # type: ignore[arg-type]


def test_an_asynchronous_reader_cannot_be_copied() -> None:
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a reader cannot be copied or pickled"):
            call(CODEC.read_async(arrive([])))


def test_a_generator_that_a_cancellation_closed_is_an_error() -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield STREAM[: ENDS[1]]
        await asyncio.sleep(10)
        yield STREAM[ENDS[1] :]

    async def run() -> None:
        objects = CODEC.read_async(slow())
        assert await anext(objects) == OBJECTS[0]
        for each in OBJECTS[1 : objects._waiting + 1]:
            assert await anext(objects) == each
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(objects), 0.01)
        with pytest.raises(RuntimeError, match="a cancellation has closed the generator"):
            await anext(objects)

    asyncio.run(run())


def test_a_piece_that_is_not_bytes_is_an_error() -> None:
    async def pieces() -> AsyncIterator[Any]:
        yield STREAM
        yield None
        yield STREAM

    async def run() -> None:
        with pytest.raises(TypeError, match="a piece of the stream is NoneType"):
            [each async for each in CODEC.read_async(pieces())]

    asyncio.run(run())
    with pytest.raises(TypeError, match="a piece of the stream is NoneType"):
        list(CODEC.read([STREAM, None, STREAM]))  # type: ignore[list-item]
