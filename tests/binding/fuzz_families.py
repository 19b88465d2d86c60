"""The families of the fuzz driver: valid inputs of each kind, and a function that runs one input.

The function raises an exception for every finding. It catches the errors of flowbuf that the input may cause,
and no others.
"""

from __future__ import annotations

import contextlib
import functools
import io
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import flowbuf
from flowbuf import Decoder, EncodeError, _core, encode_columns
from flowbuf.arrow.batch import FlowBatch
from flowbuf.io.capture import CaptureReader
from flowbuf.io.input_stream import Content
from flowbuf.kafka.kafka_records import RecordReader
from flowbuf.schema.plan import compile_plan
from tests.binding import fuzz_columns, fuzz_json, fuzz_objects
from tests.binding.fuzz_arrow import run_arrow, seed_arrow
from tests.binding.fuzz_common import (
    DATA,
    RECEIVED,
    SEED_SIZE,
    SOURCES,
    Family,
    Parts,
    check,
    files,
    payloads_of,
    read_tables,
    schemas,
)
from tests.binding.fuzz_datagrams import run_datagrams, seed_datagrams
from tests.binding.fuzz_state import run_early_data, run_state, seed_early_data, seed_state
from tests.support import datagrams as d

# Captures ---------------------------------------------------------------------------------------------------


def seed_captures() -> list[Parts]:
    import gzip

    plain = [path.read_bytes()[:SEED_SIZE] for path in files()]
    flows = b"".join(_core.generate(protocol="ipfix", flows=50))
    packets = [d.ethernet(d.ipv4(d.udp(9000, 2055, payload), proto=17)) for payload in payloads_of(flows)[:8]]
    header = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000".replace(" ", ""))
    sizes = [len(packet).to_bytes(4, "little") for packet in packets]
    built = header + b"".join(
        bytes(8) + size + size + packet for size, packet in zip(sizes, packets, strict=True)
    )
    messages = b"".join(payloads_of(flows)[:8])
    nfcapd = [path.read_bytes()[:SEED_SIZE] for path in sorted(DATA.glob("*.nfcapd"))]
    others = [pcapng(packets), gzip.compress(built, mtime=0), messages, *nfcapd, *map(plain_blocks, nfcapd)]
    return [[capture] for capture in [built, *plain, *others]]


def plain_blocks(nfcapd: bytes) -> bytes:
    """Return a file of nfcapd with plain blocks."""
    with Content(io.BytesIO(nfcapd)) as content:
        return content.peek(SEED_SIZE)


def pcapng(packets: list[bytes]) -> bytes:
    """Return a file with a section, an interface and enhanced packets."""

    def block(kind: int, body: bytes) -> bytes:
        size = (12 + len(body) + -len(body) % 4).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + size + body + bytes(-len(body) % 4) + size

    section = block(0x0A0D0D0A, bytes.fromhex("4d3c2b1a01000000ffffffffffffffff"))
    interface = block(1, bytes.fromhex("0100000000000400"))
    sizes = [len(packet).to_bytes(4, "little") for packet in packets]
    return (
        section
        + interface
        + b"".join(
            block(6, bytes(12) + size + size + packet) for size, packet in zip(sizes, packets, strict=True)
        )
    )


class ShortReads(io.BytesIO):
    """A file whose reads return a few bytes at a time."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        super().__init__(data)
        self._rng = rng

    def readinto(self, buffer: Any) -> int:
        return super().readinto(memoryview(buffer)[: self._rng.choice((1, 7, 100, 5000, 1 << 20))])

    readinto1 = readinto


def read_capture(file: Any, port: int | None) -> tuple[list[Any], dict[str, int], str]:
    """Return the datagrams, the counters and the error of a capture."""
    found, error = [], ""
    reader = CaptureReader(file, port)
    try:
        for batch in reader:
            found += [batch[i] for i in range(len(batch))]
    except flowbuf.CaptureError as raised:
        error = str(raised)
    check(reader._core.datagrams == len(found), "datagrams of a capture")
    return found, reader.counters, error


def run_captures(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    port = rng.choice((None, None, 2055))
    whole = read_capture(io.BytesIO(data), port)
    if len(data) < 30_000:
        check(read_capture(ShortReads(data, rng), port) == whole, "capture read in pieces")
    schema = rng.choice(schemas()[:3])
    decoder = Decoder(schema)
    messages = []
    with contextlib.suppress(flowbuf.CaptureError):
        messages += [decoder.encode_datagrams(batch) for batch in CaptureReader(io.BytesIO(data), port)]
    decoder.finish()
    check(_core.count_messages(b"".join(messages)) == decoder.flows, "messages of a capture")
    stream = flowbuf.read_capture(io.BytesIO(data), schema, port=port, batch_rows=rng.choice((2, 50, 10_000)))
    rows = 0
    try:
        for batch in stream:
            rows += len(batch)
    except flowbuf.CaptureError:
        check(whole[2], "error raised only for columns")
    check(rows == decoder.flows, "rows of a capture")
    expected = Counter(whole[1])
    expected.update(decoder.counters)
    check(whole[2] or stream.counters == expected, "counters of a capture", stream.counters, expected)


# Messages ---------------------------------------------------------------------------------------------------


def seed_messages() -> list[Parts]:
    seeds = []
    for parts in seed_datagrams():
        for schema in schemas():
            decoder = Decoder(schema)
            messages = [decoder.encode(part, SOURCES[0], RECEIVED) for part in parts]
            seeds += [[message[:4096]] for message in messages if message]
    # Tags of two bytes, unknown fields, groups, packed numbers.
    odd = bytes.fromhex(
        "0a0461626364 8a0104313233 34f2ff0301 1b1c aa0603010203 f80701 fa0f0161".replace(" ", "")
    )
    return [*seeds[:400], [bytes([len(odd)]) + odd], [b"\x02\x80\x04"], [b"\x01\x80"]]


def run_messages(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    schema = rng.choice(schemas())
    rows = rng.choice((2, 3, 100))
    tables, error, counts = read_tables(data, schema, 0, rows)
    total = sum(map(len, tables))
    for other in (bytearray(data), memoryview(data)):
        again = read_tables(other, schema, rng.randrange(len(data) + 1), rng.choice((2, 100)))
        check(
            (sum(map(len, again[0])), *again[1:]) == (total, error, counts),
            "messages in pieces",
            error,
            again[1],
        )
    for table in tables:
        batch = FlowBatch(schema, table)
        check(_core.count_messages(encode_columns(batch, schema)) == len(table), "columns of messages")
    run_framing(data, rng)
    reader = _core.MessageReader(compile_plan(schema))
    with contextlib.suppress(flowbuf.DecodeError):
        flows, used = reader.read_stream(data)
        check(used == len(data), "stream not read to its end")
        check(error or len(flows) == total, "flows and rows")
    records = RecordReader(schema, rng.choice(("bare", "delimited")), rng.choice((0, 5)))
    batches, faults = records.read(parts)
    check(all(0 <= place < len(parts) for place in faults) and all(map(len, batches)), "records")


def rejects(read: Callable[[bytes], object], data: bytes) -> bool:
    try:
        read(data)
    except flowbuf.DecodeError:
        return True
    return False


def run_framing(data: bytes, rng: random.Random) -> None:
    try:
        count = _core.count_messages(data)
    except flowbuf.DecodeError:
        for read in (_core.split_messages, lambda stream: _core.cut_messages(stream, 100, 100)):
            check(rejects(read, data), "damaged stream accepted")
        _core.hash_conversations(data, src_addr=1, dst_addr=2, src_port=3, dst_port=4, proto=5)
        return
    bare = _core.split_messages(data, b"")
    check(len(bare) == count, "split messages")
    check(b"".join(_core.split_messages(data)) == data, "messages with their lengths")
    check(_core.split_messages(_core.join_messages(bare), b"") == bare, "joined messages")
    pieces = _core.cut_messages(data, rng.choice((1, 50, 1000)), rng.choice((0, 50)))
    check(b"".join(piece for piece, _ in pieces) == data, "cut messages")
    check(sum(number for _, number in pieces) == count, "numbers of cut messages")
    check(len(_core.hash_conversations(data, src_addr=1, dst_addr=2)) == count, "conversations")


# The codec --------------------------------------------------------------------------------------------------

CODECS = ["Everything", "Old", "Maps", "Tree", "Reading"]


@functools.cache
def codecs() -> list[flowbuf.Codec]:
    from tests.support.codec.messages import make_codec, make_relaxed

    kept = [make_codec(name, times="ns", unknown_fields="keep") for name in CODECS]
    plain = [make_codec(name) for name in CODECS]
    return [*kept, *plain, make_relaxed("Old", times="ns", unknown_fields="keep")]


def seed_codec() -> list[Parts]:
    seeds = []
    for codec in codecs()[: len(CODECS)]:
        examples = codec.examples(12, seed=1)
        seeds += [[codec.encode(example)] for example in examples]
        seeds.append([codec.encode_many(examples[:3])])
    return seeds


def run_codec(parts: Parts, rng: random.Random) -> None:
    codec = rng.choice(codecs())
    data = b"".join(parts)
    with contextlib.suppress(flowbuf.DecodeError):
        records = codec.decode_many(data, rng.choice((None, tuple)))
        check(len(records) == _core.count_messages(data), "records of a stream")
    try:
        record = codec.decode(rng.choice((bytes, bytearray, memoryview))(data))
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= len(data), "the offset of an error")
        return
    codec.decode(data, tuple)
    try:
        again = codec.encode(record)
    except EncodeError:
        return  # a time out of range, or a missing required field
    check(codec.encode(codec.decode(again)) == again, "record encoded again")
    check(codec.decode_many(codec.encode_many([record]))[0].keys() == record.keys(), "a stream of one record")


FAMILIES = {
    "datagrams": Family(seed_datagrams, run_datagrams),
    "captures": Family(seed_captures, run_captures),
    "messages": Family(seed_messages, run_messages),
    "arrow": Family(seed_arrow, run_arrow),
    "codec": Family(seed_codec, run_codec),
    "columns": fuzz_columns.FAMILY,
    "json": fuzz_json.FAMILY,
    "objects": fuzz_objects.FAMILY,
    "state": Family(seed_state, run_state),
    "early_data": Family(seed_early_data, run_early_data),
}
