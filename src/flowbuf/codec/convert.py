"""Convert files of messages: streams of messages, JSON lines and Parquet.

A piece of the file is in memory, or one message or line if that is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flowbuf._core import whole_messages
from flowbuf.arrow.batch import FlowStream
from flowbuf.codec.codec import Codec
from flowbuf.errors import DecodeError
from flowbuf.io.input_stream import Content, JoinedPieces

__all__ = ["read_json_lines", "read_parquet", "read_stream", "to_batches", "to_json_lines"]

_PIECE = 1 << 20
_ROWS = 16_384

Piece = tuple[bytes, int]
"""Messages, each after its length as a varint, and their number."""


def _pieces(content: Content) -> Iterator[bytes]:
    buffer = memoryview(bytearray(_PIECE))
    while size := content.readinto(buffer):
        yield bytes(buffer[:size])
    problem = content.fault or content.failure
    if problem:
        raise DecodeError(f"{problem} after {content.position} bytes of the file")


def read_stream(content: Content) -> Iterator[Piece]:
    """Read a stream of messages, each after its length as a varint. Raises DecodeError if it is damaged."""
    rest, position, count = bytearray(), 0, 0
    for piece in _pieces(content):
        rest += piece
        try:
            size, more = whole_messages(rest)
        except DecodeError as error:
            offset = position + (error.offset or 0)
            raise DecodeError(f"byte {offset}: not the length of a message", offset=offset) from None
        if size:
            yield bytes(rest[:size]), more
            del rest[:size]
            position, count = position + size, count + more
    if rest:
        raise DecodeError(f"[{count}]: byte {position}: the message is cut short", offset=position)


def read_json_lines(codec: Codec[Any], content: Content, unknown: str) -> Iterator[Piece]:
    """Read JSON lines as messages. Raises DecodeError for the first line that is not one."""
    converter = codec._converter()
    rest: list[bytes] = []  # pieces of a line that is longer than a piece
    lines = position = 0

    def convert(text: bytes) -> Piece:
        nonlocal lines, position
        messages = converter.read_lines(text, unknown, lines, position)
        lines += text.count(b"\n")
        position += len(text)
        return messages

    for piece in _pieces(content):
        end = piece.rfind(b"\n") + 1
        if end:
            yield convert(b"".join([*rest, piece[:end]]))
            rest.clear()
        rest.append(piece[end:])
    if any(rest):
        yield convert(b"".join(rest))


def read_parquet(codec: Codec[Any], path: str) -> Iterator[Piece]:
    """Read the rows of a Parquet file as messages.

    Raises:
        DecodeError: the file is damaged.
        EncodeError: a value does not fit its field.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield codec.encode_columns(batch), len(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise DecodeError(f"not a Parquet file, or a damaged one: {error}") from None


def to_json_lines(
    codec: Codec[Any], pieces: Iterable[Piece], left_out: Callable[[int], None], **options: Any
) -> Iterator[Piece]:
    """Convert messages to JSON lines, with the options of `Codec.to_json`. Raises DecodeError.

    `left_out` is called with the number of unknown fields, which JSON does not have.
    """
    converter = codec._converter()
    form = (options.get("names", "json"), options.get("defaults", False), options.get("enums", "name"))
    first = before = 0
    for stream, count in pieces:
        lines, unknown = converter.write_lines(stream, *form, first, before)
        left_out(unknown)
        yield lines, count
        first, before = first + count, before + len(stream)


def to_batches(codec: Codec[Any], pieces: Iterable[Piece]) -> FlowStream:
    """Return the messages as columns.

    Raises SchemaError if the messages have no Arrow type. The stream raises DecodeError if a value does not
    fit its column.
    """
    return codec.read_columns(JoinedPieces(stream for stream, _ in pieces), strict=True)
