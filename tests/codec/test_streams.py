"""Streams of objects: `Codec.read` and `write`."""

from __future__ import annotations

import contextlib
import copy
import gc
import gzip
import io
import os
import pickle
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flowbuf import Codec, DecodeError, EncodeError

CODEC = Codec.load("client_message")
OBJECTS = [{"client": f"c{i}", "text": "x" * (i % 300), "sequence": i} for i in range(2000)]
STREAM = CODEC.encode_many(OBJECTS)
ENDS = [len(CODEC.encode_many(OBJECTS[:count])) for count in range(len(OBJECTS) + 1)]
BAD = b"\x02\x0a\x05"  # a message of 2 bytes with a string of 5


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]
        yield b""


def test_paths_files_bytes_and_pieces_give_the_same_objects(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb"
    path.write_bytes(STREAM)
    with open(path, "rb") as file, open(path, "rb", buffering=0) as raw:
        for source in (path, str(path), file, raw, io.BytesIO(STREAM), STREAM, bytearray(STREAM)):
            assert list(CODEC.read(source)) == OBJECTS
    for size in (1, 7, 4096, 1 << 20):
        assert list(CODEC.read(in_pieces(STREAM, size))) == OBJECTS
    assert list(CODEC.read(b"")) == []


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_written_files_are_read_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"messages.pb{suffix}"
    assert CODEC.write(path, iter(OBJECTS)) == len(OBJECTS)
    content = path.read_bytes()
    plain = {"": bytes, ".gz": gzip.decompress}.get(
        suffix, zstandard.ZstdDecompressor().decompressobj().decompress
    )
    assert plain(content) == STREAM
    assert list(CODEC.read(path)) == OBJECTS


def test_objects_have_the_type_that_is_asked_for() -> None:
    @dataclass
    class Message:
        client: str
        text: str
        sequence: int

    codec = Codec(CODEC.schema, into=tuple)
    assert next(codec.read(STREAM)) == ("c0", "", 0)
    assert next(codec.read(STREAM, Message)) == Message("c0", "", 0)
    assert next(codec.read(STREAM, dict)) == OBJECTS[0]


# Offsets ----------------------------------------------------------------------------------------------------


def test_the_offset_is_behind_the_last_object() -> None:
    reader = CODEC.read(in_pieces(STREAM, 5000))
    assert (reader.offset, reader.count) == (0, 0)
    for number, each in enumerate(reader, 1):
        assert each == OBJECTS[number - 1]
        assert (reader.offset, reader.count) == (ENDS[number], number)
    assert (reader.offset, reader.count) == (len(STREAM), len(OBJECTS))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_reading_resumes_at_an_offset(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"messages.pb{suffix}"
    CODEC.write(path, OBJECTS)
    for count in (0, 1, 3, 700, len(OBJECTS)):
        with CODEC.read(path) as reader:
            for _ in range(count):
                next(reader)
            offset = reader.offset
        assert offset == ENDS[count]
        again = CODEC.read(path, offset=offset)
        assert list(again) == OBJECTS[count:]
        assert again.offset == len(STREAM)
    assert list(CODEC.read(in_pieces(STREAM, 10), offset=ENDS[7])) == OBJECTS[7:]
    with pytest.raises(
        ValueError, match=f"offset is {len(STREAM) + 1}, but the stream has {len(STREAM)} bytes"
    ):
        CODEC.read(path, offset=len(STREAM) + 1)


def test_an_offset_in_a_plain_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.pb"
    begin = 1 << 34
    with open(path, "wb") as file:
        file.seek(begin)
        file.write(STREAM)
    assert list(CODEC.read(path, offset=begin)) == OBJECTS


def test_offsets_count_from_the_position_of_an_open_file(tmp_path: Path) -> None:
    file = io.BytesIO(b"head" + STREAM)
    file.seek(4)
    assert list(CODEC.read(file, offset=ENDS[2])) == OBJECTS[2:]
    path = tmp_path / "head.pb"
    path.write_bytes(b"head" + STREAM)
    with open(path, "rb") as opened:
        opened.read(4)
        assert list(CODEC.read(opened, offset=ENDS[2])) == OBJECTS[2:]


# Damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_malformed_message_is_an_error_and_the_next_can_be_read(size: int) -> None:
    stream = STREAM[: ENDS[5]] + BAD + STREAM[ENDS[5] :]
    reader = CODEC.read(in_pieces(stream, size))
    got = [next(reader) for _ in range(5)]
    with pytest.raises(DecodeError) as caught:
        next(reader)
    assert (caught.value.path, caught.value.offset) == ("[5].client", ENDS[5] + 1)
    assert (reader.count, reader.offset, reader.skipped) == (6, ENDS[5] + len(BAD), 0)
    got += reader
    assert got == OBJECTS
    assert reader.offset == len(stream)


def test_malformed_messages_are_skipped_and_counted() -> None:
    bad = BAD * 5000
    stream = bad + STREAM[: ENDS[5]] + bad + STREAM[ENDS[5] :] + bad
    reader = CODEC.read(stream, invalid="skip")
    assert list(reader) == OBJECTS
    assert (reader.skipped, reader.count) == (15000, 15000 + len(OBJECTS))
    assert reader.offset == len(stream)


@pytest.mark.parametrize("invalid", ["error", "skip"])
def test_every_prefix_gives_the_messages_before_its_end(invalid: str) -> None:
    stream = STREAM[: ENDS[4]]
    for end in range(len(stream)):
        reader = CODEC.read(in_pieces(stream[:end], 3), invalid=invalid)
        got = []
        if end in ENDS:
            got += reader
        else:
            with pytest.raises(DecodeError, match="cut short") as caught:
                got.extend(reader)
            assert caught.value.offset == max(each for each in ENDS if each <= end)
        assert got == [each for each, after in zip(OBJECTS, ENDS[1:], strict=False) if after <= end]
        assert list(reader) == []


@pytest.mark.parametrize("invalid", ["error", "skip"])
def test_an_invalid_length_ends_the_stream(invalid: str) -> None:
    for length in (b"\xff" * 10, b"\xff\xff\xff\xff\xff\x01"):
        reader = CODEC.read(STREAM[: ENDS[2]] + length + STREAM, invalid=invalid)
        assert [next(reader), next(reader)] == OBJECTS[:2]
        with pytest.raises(
            DecodeError, match=r"\[2\]: byte \d+: the message has an invalid length"
        ) as caught:
            next(reader)
        assert caught.value.offset == ENDS[2] == reader.offset
        assert list(reader) == []


def test_a_message_beyond_the_limit_is_an_error_before_it_is_read() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"\x80\x80\x80\x21"  # 69,206,016 bytes
        raise AssertionError("must not be read")

    with pytest.raises(DecodeError, match=r"has 69206016 bytes, more than max_size=67108864"):
        next(CODEC.read(pieces()))
    for limit in (9, 10):
        reader = CODEC.read(CODEC.encode_many([("", "1234567890", 0)]), max_size=limit + 2)
        if limit == 10:
            assert len(list(reader)) == 1
        else:
            with pytest.raises(DecodeError, match="has 12 bytes, more than max_size=11"):
                next(reader)
            assert list(reader) == []


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compression_is_an_error_after_the_messages_before_it(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"messages.pb{suffix}"
    CODEC.write(path, OBJECTS)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    reader = CODEC.read(path, invalid="skip")
    got = []
    with pytest.raises(DecodeError, match=r"(gzip|zstd) data is cut short"):
        got.extend(reader)
    assert got == OBJECTS[: len(got)]
    assert list(reader) == []


def test_an_error_of_a_class_comes_after_the_objects_before_it() -> None:
    class Strict:
        def __init__(self, client: str, text: str, sequence: int) -> None:
            if sequence == 3:
                raise ValueError("not 3")
            self.sequence = sequence

    reader = CODEC.read(STREAM, Strict, invalid="skip")
    assert [next(reader).sequence for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="not 3"):
        next(reader)
    assert next(reader).sequence == 4
    assert reader.skipped == 0


def test_an_error_of_the_source_is_raised_and_reading_can_go_on() -> None:
    class Broken(io.RawIOBase):
        def __init__(self) -> None:
            self.parts: list[Any] = [STREAM[:100], OSError("gone"), STREAM[100:]]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            part = self.parts.pop(0) if self.parts else b""
            if isinstance(part, OSError):
                raise part
            used = part[: len(buffer)]
            if part[len(buffer) :]:
                self.parts.insert(0, part[len(buffer) :])
            buffer[: len(used)] = used
            return len(used)

    reader = CODEC.read(Broken())
    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(reader)
    got += reader
    assert got == OBJECTS


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="invalid is 'drop'"):
        CODEC.read(b"", invalid="drop")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="must not be negative"):
        CODEC.read(b"", offset=-1)
    with pytest.raises(TypeError, match="source is int"):
        CODEC.read(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="target is list"):
        CODEC.write([], OBJECTS)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        list(CODEC.read([1, 2]))  # type: ignore[list-item]


def test_wrong_sources_and_targets_are_named(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.touch()
    with open(path, encoding="utf-8") as text, pytest.raises(TypeError, match="the file is open as text"):
        CODEC.read(text)  # type: ignore[call-overload]
    with (
        open(path, "w", encoding="utf-8") as text,
        pytest.raises(TypeError, match="the file is open as text"),
    ):
        CODEC.write(text, OBJECTS)  # type: ignore[arg-type]
    for one in (OBJECTS[0], object(), "x"):
        for call in (CODEC.encode_many, lambda each: CODEC.write(io.BytesIO(), each)):
            with pytest.raises(TypeError, match=r"(dict|object|str) is not an iterable of objects"):
                call(one)  # type: ignore[operator]
    with pytest.raises(TypeError, match="a piece of the stream is dict; it must be bytes"):
        CODEC.read(OBJECTS)  # type: ignore[call-overload]


def test_a_closed_reader_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb"
    CODEC.write(path, OBJECTS)
    with CODEC.read(path) as reader:
        next(reader)
    assert (reader.offset, reader.count) == (ENDS[1], 1)
    for read in (next, list):
        with pytest.raises(ValueError, match="the reader is closed"):
            read(reader)


def small(*numbers: int) -> list[dict[str, Any]]:
    return [{"client": "", "text": "", "sequence": number} for number in numbers]


def test_a_reader_is_its_own_iterator_and_goes_on_after_an_error() -> None:
    reader = iter(CODEC.read(STREAM[: ENDS[5]] + BAD + STREAM))
    assert iter(reader) is reader
    got: list[Any] = []
    while True:
        try:
            got.append(next(reader))
        except StopIteration:
            break
        except DecodeError:
            continue
    assert got == OBJECTS[:5] + OBJECTS


def test_reading_resumes_at_small_offsets_of_any_source() -> None:
    objects = small(1, 2, 3, 0, 4)
    stream = CODEC.encode_many(objects)
    # 80 bytes with the magic number of a skippable frame of zstd, which is peeked as a whole
    skippable = b"\x50\x2a\x4d\x18" + b"\x10\x00\x00\x00" + b"\x01" * 73
    for count in range(6):
        offset = len(CODEC.encode_many(objects[:count]))
        for source in (stream, io.BytesIO(stream), in_pieces(stream, 2)):
            assert list(CODEC.read(source, offset=offset)) == objects[count:]
        assert list(CODEC.read(skippable + stream, offset=len(skippable) + offset)) == objects[count:]
    assert len(skippable) == 81


def test_a_message_in_a_pipe_is_returned_before_more_arrives() -> None:
    for number in (1, 200):
        incoming, outgoing = os.pipe()
        with (
            os.fdopen(incoming, "rb", buffering=0) as source,
            os.fdopen(outgoing, "wb", buffering=0) as target,
        ):
            target.write(CODEC.encode_many(small(number)))
            reader = CODEC.read(source)
            assert next(reader) == small(number)[0]
            target.write(CODEC.encode_many(small(5)))
            assert next(reader) == small(5)[0]


def test_files_that_do_not_block_raise_instead_of_losing_data() -> None:
    incoming, outgoing = os.pipe()
    os.set_blocking(incoming, False)
    os.set_blocking(outgoing, False)
    with os.fdopen(incoming, "rb", buffering=0) as source, os.fdopen(outgoing, "wb", buffering=0) as target:
        target.write(STREAM[:500])
        reader = CODEC.read(source)
        got: list[Any] = []
        with pytest.raises(BlockingIOError, match="the file is non-blocking, and has no bytes yet"):
            got.extend(reader)
        assert got == OBJECTS[: len(got)]
        target.write(STREAM[500:1000])
        with pytest.raises(BlockingIOError):
            got.extend(reader)
        assert got == OBJECTS[: len(got)]
        assert reader.offset <= 1000 < ENDS[len(got) + 1]
        with pytest.raises(BlockingIOError, match="takes no bytes now"):
            CODEC.write(target, OBJECTS * 10)


def test_a_stop_iteration_of_a_class_is_an_error() -> None:
    class Stopping:
        def __init__(self, client: str, text: str, sequence: int) -> None:
            if sequence == 3:
                next(iter(()))

    reader = CODEC.read(STREAM, Stopping)
    assert sum(1 for _ in zip(range(3), reader, strict=False)) == 3
    with pytest.raises(RuntimeError, match="StopIteration in a class or a source"):
        next(reader)
    assert len(list(reader)) == len(OBJECTS) - 4


def test_a_class_cannot_advance_its_own_reader() -> None:
    class Advancing:
        def __init__(self, client: str, text: str, sequence: int) -> None:
            if sequence == 3:
                next(reader)

    reader: Any = CODEC.read(STREAM, Advancing)
    with pytest.raises(RuntimeError, match="the reader is in use"):
        list(reader)
    assert (reader.count, reader.offset) == (4, ENDS[4])


def test_a_reader_cannot_be_copied() -> None:
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a reader cannot be copied or pickled"):
            call(CODEC.read(STREAM))


def test_threads_share_a_reader_without_losing_objects(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb"
    CODEC.write(path, OBJECTS * 20)
    reader = CODEC.read(path)
    got: list[Any] = []
    refused: list[RuntimeError] = []

    def take() -> None:
        while True:
            try:
                got.append(next(reader)["sequence"])
            except StopIteration:
                return
            except RuntimeError as error:
                refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted([each["sequence"] for each in OBJECTS] * 20)
    assert all("the reader is in use" in str(error) for error in refused)


def test_files_are_closed_after_the_last_object_and_after_damage(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb"
    for content in (STREAM, STREAM + b"\xff" * 10):
        path.write_bytes(content)
        reader = CODEC.read(path)
        with contextlib.suppress(DecodeError):
            list(reader)
        assert reader._content._raw.closed


def test_damage_before_an_offset_is_named(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb.gz"
    CODEC.write(path, OBJECTS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DecodeError, match="gzip data is cut short"):
        CODEC.read(path, offset=len(STREAM))
    with open(path, "rb") as file:
        file.seek(1 << 20)
        assert list(CODEC.read(file)) == []


def test_an_interruption_keeps_what_was_written_and_ends_a_reader() -> None:
    def interrupted() -> Iterator[dict[str, Any]]:
        yield from OBJECTS[:5]
        raise KeyboardInterrupt

    file = io.BytesIO()
    with pytest.raises(KeyboardInterrupt):
        CODEC.write(file, interrupted())
    assert file.getvalue() == STREAM[: ENDS[5]]

    def pieces() -> Iterator[bytes]:
        yield STREAM[: ENDS[3] + 1]
        raise KeyboardInterrupt

    reader = CODEC.read(pieces())
    assert [next(reader) for _ in range(3)] == OBJECTS[:3]
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    with pytest.raises(ValueError, match=f"the reader was interrupted; read again from the offset {ENDS[3]}"):
        next(reader)


# Messages that look like compressed files -------------------------------------------------------------------


def test_messages_that_begin_like_a_compressed_file_are_plain() -> None:
    # 80 bytes with the length 77 of field 5 and the first byte 0x18: the magic number of a skippable frame
    skippable = b"\x50\x2a\x4d\x18" + b"\x01" * 76 + b"\x00"
    # 12 bytes with field 20 of 4 bytes: the magic number of nfcapd
    nfcapd = b"\x0c\xa5\x01\x00\x00\x00\x01" + b"\x2d\x00\x00\x00\x00\x00"
    for message in (skippable, nfcapd):
        stream = message + STREAM
        assert list(CODEC.read(stream, invalid="skip"))[-len(OBJECTS) :] == OBJECTS


# Memory -----------------------------------------------------------------------------------------------------


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "large.pb.gz"
    made = ({"client": "c", "text": "x" * 100, "sequence": i} for i in range(300_000))
    tracemalloc.start()
    try:
        assert CODEC.write(path, made) == 300_000
        total = sum(each["sequence"] for each in CODEC.read(path))
        assert total == 299_999 * 150_000
        gc.collect()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# Writing ----------------------------------------------------------------------------------------------------


def test_a_path_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "messages.pb"
    path.write_bytes(b"old")
    with pytest.raises(EncodeError) as caught:
        CODEC.write(path, [*OBJECTS, {"sequence": "x"}])
    assert caught.value.path == "[2000].sequence"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["messages.pb"]


def test_an_open_file_keeps_the_messages_before_an_error() -> None:
    file = io.BytesIO()
    with pytest.raises(EncodeError) as caught:
        CODEC.write(file, [*OBJECTS, {"sequence": "x"}, *OBJECTS])
    assert caught.value.path == "[2000].sequence"
    assert file.getvalue() == STREAM

    def failing() -> Iterator[dict[str, Any]]:
        yield from OBJECTS
        raise KeyError("source")

    file = io.BytesIO()
    with pytest.raises(KeyError, match="source"):
        CODEC.write(file, failing())
    assert file.getvalue() == STREAM


def test_a_file_that_writes_parts_gets_every_byte() -> None:
    class Slow(io.RawIOBase):
        content = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            part = bytes(data)[:1000]
            self.content += part
            return len(part)

    file = Slow()
    assert CODEC.write(file, OBJECTS) == len(OBJECTS)  # type: ignore[arg-type]
    assert file.content == STREAM


def test_an_object_that_uses_the_codec_can_be_written() -> None:
    def nested() -> Iterator[dict[str, Any]]:
        for each in OBJECTS:
            yield CODEC.decode(CODEC.encode(each))

    file = io.BytesIO()
    assert CODEC.write(file, nested()) == len(OBJECTS)
    assert file.getvalue() == STREAM
