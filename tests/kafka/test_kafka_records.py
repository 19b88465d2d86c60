"""RecordReader reads the flows of a Kafka record completely, or reports why it cannot."""

from __future__ import annotations

from itertools import compress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

import flowbuf
from flowbuf.kafka.kafka_records import RecordReader

SCHEMA = flowbuf.Schema.load("flow").only("bytes", "packets", "src_addr", "src_port", "dst_as_path")
Flow = SCHEMA.message_class()
NUMBER = SCHEMA["bytes"].number
UNKNOWN = b"\xf8\x7c\x01"  # a varint of field 1999

messages = st.builds(
    lambda **fields: Flow(**fields).SerializeToString(),
    bytes=st.integers(1, 2**64 - 1),
    packets=st.integers(0, 2**20),
    src_addr=st.sampled_from((b"", bytes(10) + b"\xff\xff\xc0\x00\x02\x01")),
    src_port=st.integers(0, 65535),
    dst_as_path=st.lists(st.integers(0, 2**32 - 1), max_size=3),
)


def delimit(*values: bytes) -> bytes:
    assert all(len(value) < 128 for value in values)
    return b"".join(bytes([len(value)]) + value for value in values)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Draw a valid value that is truncated, has a changed byte, or is followed by more bytes."""
    value = draw(whole)
    how = draw(st.sampled_from(("cut", "change", "append")))
    if how == "append" or not value:
        return value + draw(st.binary(min_size=1, max_size=4))
    place = draw(st.integers(0, len(value) - 1))
    return value[:place] + (b"" if how == "cut" else bytes([draw(st.integers(0, 255))]) + value[place + 1 :])


packed = st.lists(messages, max_size=4).map(lambda several: delimit(*several))


def values_of(good: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.one_of(good, good, damaged(good), st.binary(max_size=12)), max_size=30)


def rows(reader: RecordReader, values: list[bytes]) -> tuple[list[dict[str, object]], dict[int, str]]:
    batches, faults = reader.read(values)
    return [row for batch in batches for row in batch.to_arrow().to_pylist()], faults


@pytest.mark.parametrize("framing", ["bare", "delimited"])
@settings(deadline=None)
@given(data=st.data())
def test_kafka_records_are_read_independently(framing: str, data: st.DataObject) -> None:
    values = data.draw(values_of(messages if framing == "bare" else packed))
    together, faults = rows(RecordReader(SCHEMA, framing), values)
    alone = [rows(RecordReader(SCHEMA, framing), [value]) for value in values]
    assert together == [row for found, _ in alone for row in found]
    assert faults == {place: fault[0] for place, (_, fault) in enumerate(alone) if fault}
    assert all(bool(found) != bool(fault) for found, fault in alone) or framing == "delimited"


@settings(deadline=None)
@given(values_of(messages))
def test_bare_kafka_records_are_read_as_google_protobuf_reads_them(values: list[bytes]) -> None:
    """The reader refuses everything that google.protobuf refuses.

    It also refuses columns of another wire type, groups, and addresses of an unknown length, because their
    values would be lost.
    """
    flows, faults = rows(RecordReader(SCHEMA, "bare"), values)
    read = [place not in faults for place in range(len(values))]
    assert [row["bytes"] for row in flows] == [
        Flow.FromString(value).bytes for value in compress(values, read)
    ]
    for place, reason in faults.items():
        try:
            Flow.FromString(values[place])
        except DecodeError:
            continue
        assert "wire type" in reason or "column" in reason or "malformed field" in reason


@pytest.mark.parametrize("skip", [0, 6])
def test_faults_name_their_offset_in_the_kafka_record(skip: int) -> None:
    good = Flow(bytes=300, packets=1).SerializeToString()
    reader = RecordReader(SCHEMA, "bare", skip)
    value = bytes(skip) + good + bytes([NUMBER << 3 | 5, 0, 0, 0, 0])
    _, faults = reader.read([bytes(skip) + good, value, bytes(skip) + good])
    offset = skip + len(good)
    assert faults == {1: f"byte {offset}: column 'bytes': a field of another wire type than its column"}


def test_a_message_does_not_continue_in_the_next_kafka_record() -> None:
    good = Flow(bytes=300, packets=1).SerializeToString()
    whole = delimit(good, good)
    flows, faults = rows(RecordReader(SCHEMA, "delimited"), [whole, whole[:-1], whole[-1:], whole])
    assert len(flows) == 4
    assert faults == {
        1: f"byte {len(good) + 1}: the message is cut short",
        2: "byte 0: the message is cut short",
    }


def test_unknown_fields_of_faulty_kafka_records_are_not_counted() -> None:
    unknown = Flow(bytes=1).SerializeToString() + UNKNOWN
    reader = RecordReader(SCHEMA, "delimited")
    reader.read([delimit(unknown), delimit(unknown) + b"\x05", delimit(unknown)])
    assert reader.unknown_fields == 2


def test_many_faults_are_found_among_many_kafka_records() -> None:
    good, bad = delimit(Flow(bytes=300).SerializeToString()), b"\x09"
    values = [bad if place % 7 == 3 else good for place in range(20_000)]
    flows, faults = rows(RecordReader(SCHEMA, "delimited"), values)
    assert set(faults) == set(range(3, 20_000, 7))
    assert len(flows) == 20_000 - len(faults)


def test_an_empty_bare_kafka_record_is_a_flow_without_values() -> None:
    assert rows(RecordReader(SCHEMA, "delimited"), [b""]) == ([], {})
    flows, faults = rows(RecordReader(SCHEMA, "bare"), [b""])
    assert (len(flows), faults) == (1, {})
