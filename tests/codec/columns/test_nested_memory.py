"""Memory of batches of nested columns: few rows of many columns, and batches of very different sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf import Codec
from flowbuf.codec.column_stream import ColumnBatch
from tests.support.codec.messages import bytes_field, number_field
from tests.support.codec.shop import framed, load

COLUMNS = 500
SPARE = 200
"""Bytes that a column may have in addition to five times those of its values."""
MEMBERS = 300
VALUES: dict[int, Any] = {
    Field.TYPE_INT64: -7,
    Field.TYPE_BOOL: True,
    Field.TYPE_DOUBLE: 1.5,
    Field.TYPE_STRING: "abcdef",
    Field.TYPE_ENUM: 299,
}


def add_scalar(message: Any, kind: Any, name: str, number: int, optional: bool) -> None:
    field = message.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    if kind == Field.TYPE_ENUM:
        field.type_name = ".wide.Kind"
    if optional:
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def wide(kind: Any, *, optional: bool = False, inside: bool = False, repeated: bool = False) -> Codec[Any]:
    """Return a codec of messages with COLUMNS fields of one kind, alone or inside of messages or lists."""
    file = FileDescriptorProto(name="wide.proto", package="wide", syntax="proto3")
    members = file.enum_type.add(name="Kind")
    for number in range(MEMBERS):
        members.value.add(name=f"MEMBER_{number}", number=number)
    message = file.message_type.add(name="Wide")
    add_scalar(file.message_type.add(name="Inner"), kind, "value", 1, optional)
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    for number in range(1, COLUMNS + 1):
        name = f"value{number}"
        if inside:
            of = {"type": Field.TYPE_MESSAGE, "type_name": ".wide.Inner", "label": label}
            message.field.add(name=name, number=number, **of)
        else:
            add_scalar(message, kind, name, number, optional)
    add_scalar(message, Field.TYPE_SFIXED32, "last", COLUMNS + 1, False)  # the message is not flat
    return Codec(FileDescriptorSet(file=[file]), "Wide")


def full_message(codec: Codec[Any], kind: int) -> bytes:
    message = codec.message_class()()
    for field in message.DESCRIPTOR.fields[:-1]:
        if field.message_type is None:
            setattr(message, field.name, VALUES[kind])
            continue
        inner = getattr(message, field.name)
        inner = inner.add() if field.is_repeated else inner
        setattr(inner, field.message_type.fields[0].name, VALUES[kind])
    return bytes(message.SerializeToString())


def batches_of(codec: Codec[Any], stream: bytes, rows: int) -> Iterator[ColumnBatch]:
    for batch in codec.read_columns(stream, batch_rows=rows, strict=True):
        assert isinstance(batch, ColumnBatch)
        yield batch


def value_bytes(array: Any) -> int:
    """Return the bytes of the values of an array, without those of names."""
    if pa.types.is_dictionary(array.type):
        array = array.indices
    return int(array.nbytes)


@pytest.mark.parametrize("rows", [2, 10])
@pytest.mark.parametrize(
    "shape", [{}, {"optional": True}, {"inside": True}, {"inside": True, "repeated": True}], ids=str
)
@pytest.mark.parametrize("kind", VALUES)
def test_few_rows_of_many_columns_take_little_memory(kind: int, shape: dict[str, bool], rows: int) -> None:
    codec = wide(kind, **shape)
    message = full_message(codec, kind)
    for other in (message, b""):
        batches = list(batches_of(codec, framed(*[message, other] * (2 * rows)), rows))
        assert [len(batch) for batch in batches] == [rows] * 4
        for batch in batches:
            values = sum(map(value_bytes, batch.to_arrow().columns))
            assert batch.nbytes <= 5 * values + SPARE * COLUMNS


def test_absent_columns_take_no_memory() -> None:
    codec = wide(Field.TYPE_STRING)
    for batch in batches_of(codec, framed(*[b""] * 8), 2):
        assert batch.nbytes < 200
        assert set(map(str, batch.to_arrow()["value7"].to_pylist())) == {""}


def test_a_small_batch_after_a_large_one_is_small() -> None:
    """Values are expected in proportion to the last batch."""
    codec = load("Order")
    line = bytes_field(3, bytes_field(1, b"abc"))
    large = bytes_field(19, bytes(8) * 20_000) + bytes_field(21, bytes(100_000)) + line * 3000
    small = bytes_field(19, bytes(8)) + bytes_field(21, b"a") + line
    messages = [large, large, small, small] * 3
    found = list(batches_of(codec, framed(*messages), 2))
    for batch in found[::2]:
        assert 500_000 < batch.nbytes < 2_000_000
    for batch in found[1::2]:
        assert batch.nbytes < 2000
    whole = codec.read_columns(framed(*messages)).to_arrow()
    assert (
        pa.concat_tables([pa.table(batch) for batch in found]).combine_chunks().equals(whole.combine_chunks())
    )


# Enums ------------------------------------------------------------------------------------------------------


def names_at(batch: ColumnBatch, column: str) -> tuple[int, ...]:
    """Return the addresses of the names of an enum."""
    array = batch.to_arrow().column(column)
    chunk = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    return tuple(buffer.address for buffer in chunk.dictionary.buffers() if buffer is not None)


def test_columns_and_batches_share_the_names_of_an_enum() -> None:
    codec = load("Order")
    paid = number_field(9, 1) + bytes_field(10, b"\x01\x00")
    batches = list(batches_of(codec, framed(*[paid] * 4), 2))
    assert names_at(batches[0], "state") == names_at(batches[1], "state")
    other = list(batches_of(codec, framed(paid, number_field(9, 7), paid, paid), 2))
    assert names_at(other[0], "state") != names_at(other[1], "state") == names_at(batches[0], "state")
    rows = [row["state"] for batch in other for row in batch.to_arrow().to_pylist()]
    assert rows == ["PAID", "7", "PAID", "PAID"]


def test_shared_names_outlive_the_codec_and_its_batches() -> None:
    columns = []
    for _ in range(3):
        codec = wide(Field.TYPE_ENUM)
        stream = framed(full_message(codec, Field.TYPE_ENUM))
        columns.append(next(batches_of(codec, stream, 2)).to_arrow().column("value3"))
        del codec
    assert [column.to_pylist() for column in columns] == [["MEMBER_299"]] * 3


# Numbers of fields ------------------------------------------------------------------------------------------


def test_fields_are_found_by_numbers_of_every_size() -> None:
    numbers = [1, 15, 16, 127, 128, 511, 512, 2047, 2048, 4095, 4096, 18_999, 1 << 20, (1 << 29) - 1]
    for extra in (0, 700):  # with few and with many fields
        file = FileDescriptorProto(name="numbers.proto", syntax="proto3")
        message = file.message_type.add(name="Numbers")
        known = sorted({*numbers, *range(1, extra + 1)})
        for number in known:
            message.field.add(
                name=f"f{number}", number=number, type=Field.TYPE_SFIXED64, label=Field.LABEL_OPTIONAL
            )
        codec = Codec(FileDescriptorSet(file=[file]), "Numbers")
        filled = codec.message_class()(**{f"f{number}": -number for number in known})
        unknown = [number + 1 for number in known[:-1] if number + 1 not in known]
        beside = b"".join(number_field(number, 5) for number in unknown)
        message = filled.SerializeToString()
        columns = codec.read_columns(framed(message, beside, message))
        expected = {f"f{number}": -number for number in known}
        assert columns.to_arrow().to_pylist() == [expected, dict.fromkeys(expected, 0), expected]
        assert columns.counters == {"unknown_field": len(unknown)}


def test_messages_of_more_fields_than_a_schema_have_nested_columns() -> None:
    file = FileDescriptorProto(name="many.proto", syntax="proto3")
    message = file.message_type.add(name="Many")
    for number in range(1, 1026):
        message.field.add(name=f"f{number}", number=number, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    codec = Codec(FileDescriptorSet(file=[file]), "Many")
    row = {f"f{number}": -number for number in range(1, 1026)}
    stream = codec.encode_many([row, {}])
    table = codec.read_columns(stream).to_arrow()
    assert table.to_pylist() == [row, dict.fromkeys(row, 0)]
    assert codec.encode_columns(table) == stream
    assert codec.read_columns(stream, columns=["f1025"]).to_arrow().to_pylist()[0] == {"f1025": -1025}
    message.field.pop()
    flat = Codec(FileDescriptorSet(file=[file]), "Many")
    assert len(flat.read_columns(stream[:0]).schema) == 1024
