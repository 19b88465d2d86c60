"""Read messages that end where readable memory ends. Reading one byte too many is a crash.

`python guarded.py WAY FOLDER` reads all messages in one of the WAYS.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

from flowbuf import read_messages
from flowbuf.io import message_stream
from flowbuf.kafka.kafka_records import RecordReader
from flowbuf.schema import Schema
from tests.support.command import flowbuf

PAGE = mmap.PAGESIZE
UNKNOWN = b"\xc2\xbb\x01"  # the tag of bytes of field 3000
NUMBERS = (16, 60, 100, 1023, 1024, 2047)
TOML = '[schema]\nname = "texts"\n' + "".join(
    f'[[column]]\nname = "text_{number}"\nnumber = {number}\ntype = "string"\nenabled = true\n'
    for number in NUMBERS
)
SCHEMA = Schema.from_toml(TOML)


def guarded(size: int) -> memoryview:
    """Return a buffer of `size` bytes at the end of readable memory."""
    room = -(-max(size, 1) // PAGE) * PAGE
    pages = mmap.mmap(-1, room + PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(ctypes.c_void_p(address + room), PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return memoryview(pages)[room - size : room]


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def streams() -> Iterator[bytes]:
    """Yield a message with one text, cut after each of its bytes, at the end of the stream.

    The last message ends inside the tag of a text; the rest of the tag, a length and text follow it.
    """
    for number in NUMBERS:
        tag = varint(number << 3 | 2)
        for size in (0, 16, 17, 31, 32, 33):
            message = tag + bytes([size]) + b"a" * size
            for end in range(1, len(message)):
                yield bytes([end]) + message[:end]
            for behind in range(30, 37):
                yield b"\1" + tag[:1] + (tag[1:] + bytes([size])).ljust(behind, b"a")


def read_octets(stream: bytes, folder: Path) -> None:
    octets = guarded(len(stream))
    octets[:] = stream
    columns = read_messages(octets, SCHEMA)
    assert columns.to_arrow().num_rows == 0
    assert columns.counters == {"bad_message": 1}


def write_file(stream: bytes, folder: Path) -> Path:
    """Write a file that fills the read window: a long message, then the stream."""
    rest = message_stream.WINDOW_SIZE - len(stream)
    long = varint(rest - 2) + UNKNOWN + varint(rest - 2 - len(UNKNOWN) - 2)
    (folder / "flows.pb").write_bytes(long.ljust(rest, b"x") + stream)
    return folder / "flows.pb"


def read_file(stream: bytes, folder: Path) -> None:
    columns = read_messages(write_file(stream, folder), SCHEMA)
    assert columns.to_arrow().num_rows == 1
    assert columns.counters == {"bad_message": 1, "unknown_field": 1}


def read_by_command(stream: bytes, folder: Path) -> None:
    (folder / "texts.toml").write_text(TOML)
    output = folder / "flows.parquet"
    result = flowbuf("read", write_file(stream, folder), "--schema", folder / "texts.toml", "-o", output)
    assert "malformed field (flows before it: 1)" in result.output, result.output
    output.unlink()


def read_record(stream: bytes, folder: Path) -> None:
    """Read the stream as the value of a Kafka message."""
    octets = guarded(len(stream))
    octets[:] = stream
    batches, faults = RecordReader(SCHEMA, "delimited").read([octets])  # type: ignore[list-item]
    assert not batches
    assert list(faults) == [0]


WAYS = {"octets": read_octets, "file": read_file, "command": read_by_command, "record": read_record}


def main(way: str, folder: str) -> None:
    message_stream.WINDOW_SIZE = 4096
    message_stream.bytearray = guarded  # type: ignore[attr-defined] # a window ends where readable memory ends
    for stream in streams():
        WAYS[way](stream, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
