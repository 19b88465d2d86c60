"""Compressed streams of objects, which `Codec.read` and `Codec.read_async` read in the same way."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import os
import random
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import CaptureError, DecodeError, EncodeError
from tests.codec.test_streams import CODEC, ENDS, OBJECTS, STREAM, in_pieces, small
from tests.codec.test_streams_async import arrive, live, read_all

Compress = Callable[[bytes], bytes]


def compress_gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def compress_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def decompress_zstd(data: bytes) -> bytes:
    content = b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        content += frame.decompress(data)
        data = frame.unused_data
    return content


FORMS: dict[str, Compress] = {"plain": bytes, "gzip": compress_gzip, "zstd": compress_zstd}
each_form = pytest.mark.parametrize("form", FORMS)
each_compression = pytest.mark.parametrize("form", ["gzip", "zstd"])
FEW = STREAM[: ENDS[40]]


# Sources ----------------------------------------------------------------------------------------------------


@each_form
@pytest.mark.parametrize("kind", ["socket", "pipe"])
def test_a_stream_reader_is_decompressed(form: str, kind: str) -> None:
    data = FORMS[form](STREAM * 20)

    async def receive(reader: asyncio.StreamReader) -> list[Any]:
        return [each async for each in CODEC.read_async(reader)]

    async def over_socket() -> list[Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(data)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            received = await receive(reader)
            writer.close()
        return received

    async def over_pipe() -> list[Any]:
        incoming, outgoing = os.pipe()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(reader)
        with os.fdopen(incoming, "rb", buffering=0) as source:
            transport, _ = await loop.connect_read_pipe(lambda: protocol, source)
            writing = loop.run_in_executor(None, write_and_close, outgoing, data)
            received = await receive(reader)
            await writing
            transport.close()
        return received

    assert asyncio.run({"socket": over_socket, "pipe": over_pipe}[kind]()) == OBJECTS * 20


def write_and_close(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@each_form
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_pieces_may_be_cut_anywhere(form: str, size: int, kind: Callable[[bytes], Any]) -> None:
    assert read_all(arrive(map(kind, in_pieces(FORMS[form](FEW), size)))) == OBJECTS[:40]


@each_form
def test_an_object_with_a_coroutine_named_read_is_a_source(form: str) -> None:
    class Source:
        rest = FORMS[form](STREAM)

        async def read(self, n: int) -> bytes:
            data, self.rest = self.rest[: min(n, 99)], self.rest[min(n, 99) :]
            return data

    assert read_all(Source()) == OBJECTS


@each_form
def test_a_source_may_reuse_the_buffer_of_its_pieces(form: str) -> None:
    async def pieces() -> AsyncIterator[bytearray]:
        buffer = bytearray()
        for piece in in_pieces(FORMS[form](STREAM), 1000):
            buffer += piece
            yield buffer
            buffer.clear()

    assert read_all(pieces()) == OBJECTS


@each_compression
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_members_and_frames_are_joined(form: str, size: int) -> None:
    cuts = (0, 100, 101, len(FEW))  # also inside messages
    data = b"".join(FORMS[form](FEW[begin:end]) for begin, end in itertools.pairwise(cuts))
    if form == "gzip":
        data += bytes(20)  # padding
    else:
        data = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + data + b"\x5f\x2a\x4d\x18\x00\x00\x00\x00"
    assert list(CODEC.read(in_pieces(data, size))) == OBJECTS[:40]
    assert read_all(arrive(in_pieces(data, size))) == OBJECTS[:40]


def test_messages_that_begin_like_other_formats_stay_messages() -> None:
    skippable = b"\x50\x2a\x4d\x18" + b"\x01" * 76 + b"\x00"  # as a skippable frame of zstd
    nfcapd = b"\x0c\xa5\x02\x00\x00\x00\x00" + b"\x08" + b"\x01" * 5  # field 36 has 4 bytes
    nfcapd += b"\x05\x1a\x03abc"
    assert nfcapd[:4] == b"\x0c\xa5\x02\x00"
    assert nfcapd[16]  # an nfcapd file would have compressed blocks
    for message, compress in [(skippable, bytes), *((nfcapd, each) for each in FORMS.values())]:
        data = compress(message + STREAM)
        assert list(CODEC.read(data, invalid="skip"))[-len(OBJECTS) :] == OBJECTS
        assert read_all(arrive([data]), invalid="skip")[-len(OBJECTS) :] == OBJECTS


# Live streams -----------------------------------------------------------------------------------------------


def flushed(form: str) -> Callable[[bytes], bytes]:
    """Return a function that compresses bytes of one stream, so that a reader can read them at once."""
    if form == "gzip":
        packer = zlib.compressobj(wbits=31)
        return lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    frame = zstandard.ZstdCompressor().compressobj()
    return lambda data: frame.compress(data) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


@each_compression
def test_a_compressed_message_is_returned_before_more_arrives(form: str) -> None:
    pack = flushed(form)
    incoming, outgoing = os.pipe()
    with os.fdopen(incoming, "rb", buffering=0) as source, os.fdopen(outgoing, "wb", buffering=0) as target:
        target.write(pack(CODEC.encode_many(small(1))))
        objects = CODEC.read(source)
        assert next(objects) == small(1)[0]
        target.write(pack(CODEC.encode_many(small(2))))
        assert next(objects) == small(2)[0]


@pytest.mark.parametrize("form", FORMS)
def test_an_asynchronous_message_is_returned_before_more_arrives(form: str) -> None:
    async def run() -> None:
        pack = bytes if form == "plain" else flushed(form)
        reader = asyncio.StreamReader()
        objects = CODEC.read_async(reader)
        for number in (1, 200, 300):
            reader.feed_data(pack(CODEC.encode_many(small(number))))
            assert await asyncio.wait_for(anext(objects), 10) == small(number)[0]

    asyncio.run(run())


@each_compression
def test_a_compressed_file_that_does_not_block_raises_instead_of_losing_data(form: str) -> None:
    data = FORMS[form](FEW)
    incoming, outgoing = os.pipe()
    os.set_blocking(incoming, False)
    with os.fdopen(incoming, "rb", buffering=0) as source, os.fdopen(outgoing, "wb", buffering=0) as target:
        target.write(data[:30])
        objects = CODEC.read(source)
        got: list[Any] = []
        for piece in in_pieces(data[30:], 40):
            with pytest.raises(BlockingIOError):
                got.extend(objects)
            target.write(piece)
        target.close()
        assert got + list(objects) == OBJECTS[:40]


@each_form
def test_reading_goes_on_after_a_cancellation(form: str) -> None:
    data = FORMS[form](STREAM)

    async def run() -> list[Any]:
        reader = asyncio.StreamReader()
        objects = CODEC.read_async(reader)
        got: list[Any] = []
        for piece in in_pieces(data, max(1, len(data) // 20)):
            reader.feed_data(piece)
            with contextlib.suppress(asyncio.TimeoutError):
                while True:
                    got.append(await asyncio.wait_for(anext(objects), 0.001))
        reader.feed_eof()
        return got + [each async for each in objects]

    assert asyncio.run(run()) == OBJECTS


@each_form
def test_a_cancelled_pause_loses_nothing(form: str) -> None:
    """Each task gets one step of the event loop, and is cancelled then."""

    async def run() -> list[Any]:
        objects = CODEC.read_async(arrive_at_once([FORMS[form](STREAM * 3)]))
        got: list[Any] = []
        while True:
            task = asyncio.ensure_future(anext(objects, None))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                each = await task
                if each is None:
                    return got
                got.append(each)

    assert asyncio.run(run()) == OBJECTS * 3


async def arrive_at_once(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@each_form
def test_another_event_loop_can_read(form: str) -> None:
    async def run() -> list[Any]:
        return [each async for each in CODEC.read_async(arrive_at_once([FORMS[form](STREAM * 5)]))]

    with pytest.raises(StopIteration) as stopped:
        run().send(None)
    assert stopped.value.value == OBJECTS * 5


# Offsets ----------------------------------------------------------------------------------------------------


@each_form
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_reading_resumes_at_the_offset_of_an_object(form: str, size: int) -> None:
    data = FORMS[form](STREAM)

    async def first(count: int) -> int:
        objects = CODEC.read_async(arrive(in_pieces(data, size)))
        for _ in range(count):
            await anext(objects)
        assert objects.count == count
        return objects.offset

    for count in (0, 1, 3, 700, len(OBJECTS)):
        assert asyncio.run(first(count)) == ENDS[count]
        assert read_all(arrive(in_pieces(data, size)), offset=ENDS[count]) == OBJECTS[count:]


@each_form
def test_an_offset_beyond_the_end_is_an_error(form: str) -> None:
    data = FORMS[form](STREAM)

    async def run() -> None:
        objects = CODEC.read_async(arrive([data]), offset=len(STREAM) + 1)
        assert objects.offset == len(STREAM) + 1
        with pytest.raises(
            ValueError, match=f"offset is {len(STREAM) + 1}, but the stream has {len(STREAM)} bytes"
        ):
            await anext(objects)
        assert [each async for each in objects] == []

    asyncio.run(run())
    with pytest.raises(ValueError, match="must not be negative"):
        CODEC.read_async(arrive([]), offset=-1)


@each_compression
def test_damage_before_an_offset_is_named(form: str) -> None:
    data = FORMS[form](STREAM)[:-20]
    with pytest.raises(DecodeError, match=f"{form} data is cut short") as expected:
        CODEC.read(data, offset=len(STREAM))
    with pytest.raises(DecodeError) as caught:
        read_all(arrive([data]), offset=len(STREAM))
    assert str(caught.value) == str(expected.value)
    assert caught.value.offset == expected.value.offset


# Damage -----------------------------------------------------------------------------------------------------


Outcome = tuple[list[Any], list[tuple[str, Any, Any]], int, int, int]


def outcome(objects: list[Any], errors: list[Exception], reader: Any) -> Outcome:
    seen = [(str(each), getattr(each, "path", None), getattr(each, "offset", None)) for each in errors]
    return objects, seen, reader.offset, reader.count, reader.skipped


def read_synchronously(data: bytes, size: int, **options: Any) -> Outcome:
    reader = CODEC.read(in_pieces(data, size), **options)
    objects: list[Any] = []
    errors: list[Exception] = []
    while True:
        try:
            objects.append(next(reader))
        except StopIteration:
            return outcome(objects, errors, reader)
        except DecodeError as error:
            errors.append(error)


async def read_asynchronously(data: bytes, size: int, **options: Any) -> Outcome:
    reader = CODEC.read_async(arrive_at_once(in_pieces(data, size)), **options)
    objects: list[Any] = []
    errors: list[Exception] = []
    while True:
        try:
            objects.append(await anext(reader))
        except StopAsyncIteration:
            return outcome(objects, errors, reader)
        except DecodeError as error:
            errors.append(error)


def check_same(data: bytes, size: int, **options: Any) -> Outcome:
    expected = read_synchronously(data, size, **options)
    assert asyncio.run(read_asynchronously(data, size, **options)) == expected
    return expected


@each_form
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_every_prefix_gives_the_same_objects_and_error(form: str, size: int) -> None:
    data = FORMS[form](STREAM[: ENDS[12]])
    for end in range(len(data)):
        objects, errors, *_ = check_same(data[:end], size)
        assert objects == OBJECTS[: len(objects)]
        if form != "plain" and end > 3:
            assert f"{form} data is cut short" in errors[0][0]


@each_compression
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_every_damaged_byte_gives_the_same_objects_and_error(form: str, size: int) -> None:
    data = FORMS[form](STREAM[: ENDS[12]])
    damaged = 0
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 0x41
        _, errors, *_ = check_same(bytes(bad), size, invalid="skip")
        damaged += any(f"{form} data is" in text for text, *_ in errors)
    assert damaged > len(data) // 2


@each_compression
def test_a_malformed_message_in_compressed_data_does_not_end_the_stream(form: str) -> None:
    bad = b"\x02\x0a\x05"
    data = FORMS[form](bad + STREAM[: ENDS[5]] + bad + STREAM[ENDS[5] :])
    objects, errors, offset, count, skipped = check_same(data, 500)
    assert objects == OBJECTS
    assert [path for _, path, _ in errors] == ["[0].client", "[6].client"]
    assert (offset, count, skipped) == (len(STREAM) + 6, len(OBJECTS) + 2, 0)
    assert check_same(data, 500, invalid="skip")[1:] == ([], len(STREAM) + 6, len(OBJECTS) + 2, 2)


@given(
    form=st.sampled_from(list(FORMS)),
    content=st.one_of(st.just(FEW), st.binary(max_size=80)),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3),
    more=st.binary(max_size=12),
    size=st.sampled_from([1, 3, 50, 1000]),
    offset=st.sampled_from([0, 0, 0, 5, ENDS[3]]),
)
def test_hostile_bytes_give_the_same_objects_and_error(
    form: str, content: bytes, changes: list[tuple[int, int]], more: bytes, size: int, offset: int
) -> None:
    data = bytearray(FORMS[form](content))
    for place, value in changes:
        if place < len(data):
            data[place] = value
    data += more
    pieces = [bytes(data[begin : begin + size]) for begin in range(0, len(data), size)]
    problem = find_problem(lambda: CODEC.read(pieces, offset=offset))
    if problem:
        assert find_problem(lambda: read_all(arrive_at_once(pieces), offset=offset)) == problem
    else:
        check_same(bytes(data), size, offset=offset, max_size=1000)


def find_problem(call: Callable[[], Any]) -> str:
    try:
        call()
    except (ValueError, DecodeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("piece", ["text", {"a": 1}, [1, 2], 7])
def test_pieces_of_other_types_are_named(piece: Any) -> None:
    for first in ([], [STREAM], [compress_gzip(STREAM)]):
        with pytest.raises(TypeError, match=f"a piece of the stream is {type(piece).__name__}; it must be"):
            read_all(arrive_at_once([*first, piece]))


def test_an_error_of_an_asynchronous_source_is_raised_and_reading_can_go_on() -> None:
    class Broken:
        def __init__(self, data: bytes) -> None:
            self.parts: list[Any] = [data[:100], OSError("gone"), BlockingIOError("busy"), data[100:], b""]

        async def read(self, n: int) -> bytes:
            part = self.parts.pop(0)
            if isinstance(part, OSError):
                raise part
            return bytes(part)

    async def run(data: bytes) -> list[Any]:
        objects = CODEC.read_async(Broken(data))
        got: list[Any] = []
        for text in ("gone", "busy"):
            with pytest.raises(OSError, match=text):
                got.extend([each async for each in objects])
        return got + [each async for each in objects]

    for compress in FORMS.values():
        assert len(asyncio.run(run(compress(STREAM)))) >= len(OBJECTS) - 40


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("Python contains zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CaptureError, match="compressed with zstd; install the package zstandard"):
        read_all(arrive([compress_zstd(FEW)]))
    assert read_all(arrive([compress_gzip(FEW)])) == OBJECTS[:40]


# Memory -----------------------------------------------------------------------------------------------------


async def count_objects(bomb: bytes, limit: int) -> tuple[int, int]:
    """Return the number of objects, up to a limit, and how often another task has run meanwhile."""
    total = turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(take_turns())
    async for _ in CODEC.read_async(arrive_at_once([bomb]), tuple):
        total += 1
        if total == limit:
            break
    other.cancel()
    return total, turns


@each_compression
def test_a_decompression_bomb_needs_little_memory_and_lets_other_tasks_run(form: str) -> None:
    bomb = FORMS[form](bytes(64 << 20))  # as many messages without fields
    tracemalloc.start()
    try:
        total, turns = asyncio.run(count_objects(bomb, 400_000))
        assert tracemalloc.get_traced_memory()[1] < 60 << 20
    finally:
        tracemalloc.stop()
    assert total == 400_000
    assert turns > 5


@each_compression
def test_a_large_message_lets_other_tasks_run(form: str) -> None:
    size = 50 << 20
    message = CODEC.encode_many([{"client": "\0" * size, "text": "", "sequence": 0}])
    total, turns = asyncio.run(count_objects(FORMS[form](message), 2))
    assert total == 1
    assert turns > size >> 17


@each_compression
def test_a_message_in_a_bomb_is_refused_before_it_is_decompressed(form: str) -> None:
    bomb = FORMS[form](b"\x80\x80\x80\x20" + bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="has 67108864 bytes, more than max_size=1000000"):
            read_all(arrive_at_once([bomb]), max_size=1_000_000)
        with pytest.raises(ValueError, match="offset is 268435456, but the stream has 67108868 bytes"):
            read_all(arrive_at_once([bomb]), offset=1 << 28)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


# Writing ----------------------------------------------------------------------------------------------------


class Target:
    def __init__(self) -> None:
        self.content = b""
        self.largest = 0

    def write(self, data: bytes) -> None:
        self.content += data
        self.largest = max(self.largest, len(data))

    async def drain(self) -> None:
        await asyncio.sleep(0)


UNPACK: dict[str | None, Compress] = {None: bytes, "gzip": gzip.decompress, "zstd": decompress_zstd}


@pytest.mark.parametrize("compression", UNPACK)
def test_written_streams_are_compressed(compression: Any) -> None:
    target = Target()
    for objects in (OBJECTS[:7], iter(OBJECTS[7:500]), live(OBJECTS[500:600]), [], OBJECTS[600:]):
        writing = CODEC.write_async(target, objects, compression=compression)
        asyncio.run(writing)
    assert UNPACK[compression](target.content) == STREAM
    assert read_all(arrive([target.content])) == OBJECTS
    assert (len(target.content) < len(STREAM) // 2) == (compression is not None)


@each_compression
def test_live_objects_are_sent_at_once(form: Any) -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()

        class Writer(Target):
            def write(self, data: bytes) -> None:
                reader.feed_data(data)

        async def objects() -> AsyncIterator[Any]:
            for each in OBJECTS[:50]:
                yield each
                assert await asyncio.wait_for(anext(received), 10) == each

        received = CODEC.read_async(reader)
        assert await CODEC.write_async(Writer(), objects(), compression=form) == 50
        reader.feed_eof()
        assert [each async for each in received] == []

    asyncio.run(run())


@each_compression
def test_an_error_ends_the_compressed_data_after_the_messages_before_it(form: Any) -> None:
    async def failing() -> AsyncIterator[Any]:
        for each in OBJECTS[:3]:
            yield each
        raise KeyError("source")

    def write(objects: Any) -> Awaitable[int]:
        return CODEC.write_async(target, objects, compression=form)

    for objects, kind in (([*OBJECTS[:3], {"sequence": "x"}], EncodeError), (failing(), KeyError)):
        target = Target()
        with pytest.raises(kind):
            asyncio.run(write(objects))  # type: ignore[arg-type]
        assert UNPACK[form](target.content) == STREAM[: ENDS[3]]


@each_compression
def test_compressed_pieces_are_small(form: Any) -> None:
    noise = random.Random(1)
    objects = ({"client": "c", "text": noise.randbytes(500).hex(), "sequence": i} for i in range(4000))
    target = Target()
    assert asyncio.run(CODEC.write_async(target, objects, compression=form)) == 4000
    assert target.largest < 1 << 19
    assert len(read_all(arrive([target.content]))) == 4000


def test_an_unknown_compression_is_named() -> None:
    for compression in ("lz4", ".gz", ""):
        text = f"compression is '{compression}'; it must be None, gzip or zstd"
        with pytest.raises(ValueError, match=text):
            asyncio.run(CODEC.write_async(Target(), OBJECTS, compression=compression))  # type: ignore[arg-type]
