"""Split streams of messages into Kafka records, and join them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowbuf
import flowbuf.wire
from flowbuf import _core
from flowbuf.io.capture import CaptureReader
from flowbuf.wire import varint
from tests.support.command import generated

MESSAGES = st.lists(st.binary(max_size=300), max_size=30)


def delimit(messages: list[bytes]) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


@given(MESSAGES, st.sampled_from([b"", b"\0\0\0\0\7\0"]))
def test_split_messages_join_to_the_stream(messages: list[bytes], prefix: bytes) -> None:
    stream = delimit(messages)
    assert _core.count_messages(stream) == len(messages)
    assert _core.split_messages(stream) == [varint(len(message)) + message for message in messages]
    split = _core.split_messages(stream, prefix)
    assert split == [prefix + message for message in messages]
    assert _core.join_messages(split, len(prefix)) == stream


@given(MESSAGES, st.integers(0, 1000), st.integers(0, 1000))
def test_streams_are_cut_between_messages(messages: list[bytes], limit: int, first: int) -> None:
    stream = delimit(messages)
    pieces = _core.cut_messages(stream, limit, first)
    assert b"".join(piece for piece, _ in pieces) == stream
    assert sum(count for _, count in pieces) == len(messages)
    for place, (piece, count) in enumerate(pieces):
        assert _core.count_messages(piece) == count
        room = first if place == 0 else limit
        assert len(piece) <= room or (count == 1 and place > 0)
        if place + 1 < len(pieces):  # the next message does not fit
            following = _core.split_messages(pieces[place + 1][0])[0]
            assert len(piece) + len(following) > room


@pytest.mark.parametrize("stream", [b"\x02\x08", b"\x80", b"\x01\x08\x05x", b"\xff" * 11])
def test_malformed_streams_are_errors(stream: bytes) -> None:
    for take in (
        _core.count_messages,
        _core.split_messages,
        lambda data: _core.split_messages(data, b""),
        lambda data: _core.cut_messages(data, 100, 100),
    ):
        with pytest.raises(flowbuf.DecodeError, match=r"the message is (cut short|malformed)"):
            take(stream)


def test_joining_messages_shorter_than_the_prefix_is_an_error() -> None:
    with pytest.raises(ValueError, match="a message has 5 bytes, fewer than the 6 bytes to skip"):
        _core.join_messages([b"12345"], 6)


def test_both_directions_have_the_same_key() -> None:
    row = flowbuf.wire.Row(flowbuf.Schema.load("flow"))
    ends = {"one": (b"\0" * 15 + b"\1", 53), "other": (b"\0" * 15 + b"\2", 4000)}
    for source, destination, proto in (("one", "other", 17), ("other", "one", 17), ("one", "other", 6)):
        row.append("src_addr", ends[source][0]).append("src_port", ends[source][1])
        row.append("dst_addr", ends[destination][0]).append("dst_port", ends[destination][1])
        row.append("proto", proto).finish()
    there, back, other = _core.hash_conversations(
        bytes(row), src_addr=6, dst_addr=7, src_port=10, dst_port=11, proto=9
    )
    assert there == back != other
    assert there.hex() == "6af6b1520b3106dd"  # it selects the partition and must never change
    assert there == hash_ends(ends["one"], ends["other"], 17).to_bytes(8, "big")


def mix(state: int, value: int) -> int:
    mask = 2**64 - 1
    x = ((state ^ value) + 0x9E3779B97F4A7C15) & mask
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & mask
    x = (x ^ x >> 29) * (state | 1) & mask
    return x ^ x >> 32


def hash_ends(one: tuple[bytes, int], other: tuple[bytes, int], proto: int) -> int:
    def end(address: bytes, port: int) -> int:
        halves = (int.from_bytes(address[:8], "big"), int.from_bytes(address[8:], "big"))
        return mix(mix(mix(1, halves[0]), halves[1]), port)

    return mix((end(*one) + end(*other)) % 2**64, proto)


def test_encode_each_returns_the_messages_of_each_datagram(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(generated("netflow9", 1000, exporters=3))
    one, other = flowbuf.Decoder(), flowbuf.Decoder()
    with CaptureReader(path) as reader:
        pieces = [piece for batch in reader for piece in one.encode_each(batch)]
    with CaptureReader(path) as reader:
        whole = b"".join(other.encode_datagrams(batch) for batch in reader)
    assert b"".join(messages for _, messages in pieces) == whole
    assert {exporter for exporter, _ in pieces} == set(one.stats)
    assert len(pieces) > 30
    assert one.counters == other.counters


def test_the_exporter_of_sflow_is_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(generated("sflow", 100, exporters=2))
    decoder = flowbuf.Decoder()
    with CaptureReader(path) as reader:
        exporters = {exporter for batch in reader for exporter, _ in decoder.encode_each(batch)}
    assert exporters == set(decoder.stats)
