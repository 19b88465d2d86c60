"""Write and read the wire format with `flowbuf.wire`."""

from __future__ import annotations

import io

import pytest
from google.protobuf.proto import parse_length_prefixed
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import EncodeError, Schema, wire
from flowbuf.errors import DecodeError

FLOW = Schema.load("flow")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**63, "80808080808080808001"),
        (2**64 - 1, "ffffffffffffffffff01"),
    ],
)
def test_a_varint_has_groups_of_seven_bits_least_significant_first(value: int, encoded: str) -> None:
    assert wire.varint(value).hex() == encoded
    assert wire.read_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_a_varint_is_read_back_at_any_offset(value: int, before: bytes) -> None:
    data = before + wire.varint(value)
    assert wire.read_varint(data, len(before)) == (value, len(data))


@pytest.mark.parametrize("encoded", ["", "80", "ff" * 9, "80" * 10 + "01"])
def test_an_invalid_varint_is_an_error_with_its_offset(encoded: str) -> None:
    with pytest.raises(DecodeError) as error:
        wire.read_varint(b"\0" + bytes.fromhex(encoded), 1)
    assert (error.value.status, error.value.offset) == ("bad_message", 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_zigzag_keeps_small_magnitudes_small(value: int) -> None:
    assert wire.zigzag(value) == (2 * value if value >= 0 else -2 * value - 1)
    assert wire.unzigzag(wire.zigzag(value)) == value


def test_a_tag_combines_number_and_wire_type() -> None:
    assert wire.tag(1, 0) == b"\x08"
    assert wire.tag(16, 2).hex() == "8201"
    for number, wire_type in [(0, 0), (2**29, 0), (1, 3)]:
        with pytest.raises(ValueError, match="make no tag; use numbers 1 to"):
            wire.tag(number, wire_type)


def test_fixed_sizes_are_little_endian() -> None:
    assert wire.fixed32(1) == b"\x01\0\0\0"
    assert wire.fixed64(2**63) == b"\0" * 7 + b"\x80"


def read(row: wire.Row, schema: Schema) -> list[dict[str, object]]:
    """Return the finished messages, decoded by google.protobuf."""
    stream, messages = io.BytesIO(bytes(row)), []
    while (message := parse_length_prefixed(schema.message_class(), stream)) is not None:
        assert len(UnknownFieldSet(message)) == 0
        messages.append({field.name: value for field, value in message.ListFields()})
    return messages


def test_zeros_disabled_columns_and_second_values_are_skipped() -> None:
    row = wire.Row(FLOW)
    row.append("bytes", 0).append("bytes", 1500).append("bytes", 40)
    row.append("src_mac", 5)  # disabled
    row.finish()
    assert read(row, FLOW) == [{"bytes": 1500}]


def test_an_explicit_column_stores_zero_but_prefers_a_nonzero_value() -> None:
    schema = FLOW.only("bytes", "packets").alter("bytes", explicit=True)
    row = wire.Row(schema)
    row.append("bytes", 0).append("packets", 0).finish()
    row.append("bytes", 0, rank=0).append("bytes", 7, rank=1).finish()
    row.finish()
    assert read(row, schema) == [{"bytes": 0}, {"bytes": 7}, {}]


def test_a_repeated_column_stores_every_value() -> None:
    schema = FLOW.only("dst_as_path")
    row = wire.Row(schema)
    for number in (65001, 0, 65001):
        row.append("dst_as_path", number)
    row.finish()
    assert read(row, schema) == [{"dst_as_path": [65001, 0, 65001]}]


def every_type() -> Schema:
    schema = FLOW.only()
    types = [
        "int32",
        "int64",
        "sint32",
        "sint64",
        "bool",
        "float",
        "double",
        "string",
        "bytes",
        "fixed32",
        "fixed64",
    ]
    for i, name in enumerate(types):
        schema = schema.add(f"x_{name}", 1000 + i, name)
    return schema


@given(
    int32=st.integers(-(2**31), 2**31 - 1),
    int64=st.integers(-(2**63), 2**63 - 1),
    sint32=st.integers(-(2**31), 2**31 - 1),
    sint64=st.integers(-(2**63), 2**63 - 1),
    bool=st.booleans(),
    float=st.floats(width=32, allow_nan=False),
    double=st.floats(allow_nan=False),
    string=st.text(),
    bytes=st.binary(),
    fixed32=st.integers(0, 2**32 - 1),
    fixed64=st.integers(0, 2**64 - 1),
)
def test_every_type_is_read_back_by_google_protobuf(**values: object) -> None:
    schema = EVERY_TYPE
    row = wire.Row(schema, capacity=1)
    for name, value in values.items():
        row.append(f"x_{name}", value)  # type: ignore[arg-type]
    row.finish()
    (message,) = read(row, schema)
    assert message == {f"x_{name}": value for name, value in values.items() if value or str(value) == "-0.0"}


EVERY_TYPE = every_type()


@pytest.mark.parametrize("size", [0, 1, 120, 127, 128, 16383, 16384, 70000])
def test_the_length_prefix_is_minimal(size: int) -> None:
    schema = FLOW.only("application_id")
    row = wire.Row(schema, capacity=1)
    row.append("application_id", bytes(range(256)) * (size // 256 + 1))
    row.undo()
    for _ in range(3):
        row.append("application_id", bytes(size)).finish()
    row.finish()
    assert [len(message.get("application_id", b"")) for message in read(row, schema)] == [size] * 3 + [0]  # type: ignore[arg-type]


@pytest.mark.parametrize("capacity", [1, 2, 50, 100, 150, 300, 1000])
def test_output_does_not_depend_on_the_initial_capacity(capacity: int) -> None:
    rows = [wire.Row(FLOW, capacity), wire.Row(FLOW, 1 << 20)]
    for row in rows:
        for i in range(20):
            row.append("bytes", i**8).append("src_addr", bytes([10, 0, 0, i + 1])).finish()
    assert bytes(rows[0]) == bytes(rows[1])


def test_an_ipv4_address_is_mapped_unless_the_column_is_native() -> None:
    schema = FLOW.only("src_addr", "dst_addr").alter("dst_addr", ip="native")
    row = wire.Row(schema)
    row.append("src_addr", bytes([10, 0, 0, 1])).append("dst_addr", bytes([10, 0, 0, 2])).finish()
    (message,) = read(row, schema)
    assert message == {"src_addr": bytes(10) + b"\xff\xff\x0a\0\0\x01", "dst_addr": bytes([10, 0, 0, 2])}


@pytest.mark.parametrize(
    ("column", "value"),
    [("src_port", 65536), ("src_port", -1), ("bytes", 2**64), ("src_addr", b"\x01\x02\x03")],
)
def test_a_value_out_of_range_is_an_error(column: str, value: object) -> None:
    row = wire.Row(FLOW)
    with pytest.raises(EncodeError):
        row.append(column, value).finish()  # type: ignore[arg-type]


def test_an_unknown_column_is_an_error() -> None:
    with pytest.raises(KeyError, match="no column 'byte'"):
        wire.Row(FLOW).append("byte", 1)


class TestLateColumns:
    """Columns that a later stage may override are written once, at the end of their row."""

    def test_an_override_replaces_the_value(self) -> None:
        row = wire.Row(FLOW)
        row.append("src_as", 65001).append("bytes", 7).finish(override={"src_as": 65002})
        row.append("src_as", 65001).finish()
        assert read(row, FLOW) == [{"src_as": 65002, "bytes": 7}, {"src_as": 65001}]

    def test_an_override_fills_an_empty_column(self) -> None:
        row = wire.Row(FLOW)
        row.finish(
            override={
                "src_as": 65002,
                "sampling_rate": 10,
                "src_addr": "192.0.2.7",
                "dst_addr": "2001:db8::1",
            }
        )
        (message,) = read(row, FLOW)
        assert message["src_addr"] == bytes(10) + b"\xff\xff\xc0\0\x02\x07"
        assert (message["src_as"], message["sampling_rate"]) == (65002, 10)

    def test_an_override_of_zero_empties_a_column(self) -> None:
        row = wire.Row(FLOW)
        row.append("src_as", 65001).finish(override={"src_as": 0})
        assert read(row, FLOW) == [{}]

    def test_each_late_column_is_written_once(self) -> None:
        row = wire.Row(FLOW)
        late = [column for column in FLOW.enabled if column.late]
        for _ in range(2):
            for column in late:
                row.append(column.name, bytes([10, 0, 0, 1]) if column.type == "ip" else 7)
        row.finish(override={column.name: "10.0.0.2" if column.type == "ip" else 8 for column in late})
        data, size = bytes(row), len(bytes(row))
        _, offset = wire.read_varint(data)
        numbers = []
        while offset < size:
            tag, offset = wire.read_varint(data, offset)
            value, offset = wire.read_varint(data, offset)
            offset += value if tag & 7 == 2 else 0
            numbers.append(tag >> 3)
        assert sorted(numbers) == sorted(column.number for column in late)

    def test_only_late_columns_can_be_overridden(self) -> None:
        with pytest.raises(ValueError, match="'bytes' is not late"):
            wire.Row(FLOW).finish(override={"bytes": 1})

    @pytest.mark.parametrize("override", [{"in_if": 2**32}, {"in_if": -1}, {"src_addr": b"123"}])
    def test_an_override_out_of_range_is_an_error(self, override: dict[str, object]) -> None:
        row = wire.Row(FLOW)
        with pytest.raises((EncodeError, ValueError)):
            row.finish(override=override)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("bytes", b"octets"),
        ("bytes", "7"),
        ("bytes", 1.5),
        ("src_addr", 5),
        ("src_addr", "10.0.0.1"),
        ("src_addr", b""),
    ],
)
def test_a_value_of_another_type_is_an_error_at_once(column: str, value: object) -> None:
    with pytest.raises(EncodeError, match=f"column '{column}' cannot hold"):
        wire.Row(FLOW).append(column, value)  # type: ignore[arg-type]


def test_an_invalid_override_leaves_the_row_empty() -> None:
    row = wire.Row(FLOW)
    with pytest.raises(KeyError):
        row.finish(override={"src_as": 5, "nosuch": 1})
    row.finish()
    assert read(row, FLOW) == [{}]
