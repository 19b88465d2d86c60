"""read_messages reads streams of messages as columns.

The columns hold the flows of the capture that the messages were encoded from. Damage is counted or raised.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest

from flowbuf import (
    DecodeError,
    SchemaError,
    encode_capture,
    encode_columns,
    read_capture,
    read_messages,
    wire,
)
from flowbuf.schema import Schema
from tests.arrow.test_columns import NETFLOW9, SCHEMAS, SHIPPED, each_schema
from tests.support.columnar import rows_expected, rows_of
from tests.support.command import GOOD, pcap, write

FLOW = Schema.load("flow")


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    encode_capture(NETFLOW9, tmp_path / "flows.pb")
    return tmp_path / "flows.pb"


@each_schema
def test_messages_hold_the_flows_of_their_capture(name: str, corpus: Path, tmp_path: Path) -> None:
    for capture in [*sorted(SHIPPED.glob("*.pcap")), *sorted(corpus.glob("*.pcap"))]:
        encode_capture(capture, tmp_path / "flows.pb", SCHEMAS[name])
        columns = read_messages(tmp_path / "flows.pb", SCHEMAS[name])
        assert rows_of(columns) == rows_of(read_capture(capture, SCHEMAS[name])), capture
        assert columns.counters == {}


def test_the_proto_file_beside_a_stream_selects_the_columns(tmp_path: Path) -> None:
    encode_capture(NETFLOW9, tmp_path / "flows.pb", FLOW.only("src_addr", "bytes"))
    columns = read_messages(tmp_path / "flows.pb")
    assert [column.name for column in columns.schema.enabled] == ["bytes", "src_addr"]
    assert [list(row) for row in rows_of(columns)[:1]] == [["bytes", "src_addr"]]
    (tmp_path / "flows.pb.proto").unlink()
    assert len(rows_of(read_messages(tmp_path / "flows.pb"))[0]) == len(FLOW.enabled)


def test_the_schema_argument_selects_the_columns(stream: Path) -> None:
    """It overrides the .proto file beside the stream, which may have more columns or fewer."""
    columns = read_messages(stream, FLOW.only("bytes", "src_addr"))
    assert rows_of(columns) == rows_of(read_capture(NETFLOW9, FLOW.only("bytes", "src_addr")))
    assert columns.counters == {}
    more = rows_of(read_messages(stream, FLOW.only("bytes", "src_mac")))
    assert more == [{"bytes": row["bytes"], "src_mac": None} for row in rows_of(columns)]


def test_a_schema_of_another_stream_is_refused(stream: Path) -> None:
    with pytest.raises(
        SchemaError, match=r"no column for 'uint64 sampling_rate = 3' \(also packets, src_as,"
    ):
        read_messages(stream, "sflow_counters")
    other = FLOW.alter("flow_direction", values={"undefined": 0, "in": 1, "out": 2})
    with pytest.raises(SchemaError, match="an enum"):
        read_messages(stream, other)


def test_the_columns_argument_selects_a_subset(stream: Path) -> None:
    columns = read_messages(stream, columns=["bytes", "proto"])
    assert columns.counters == {}
    rows = rows_of(columns)
    assert rows == [
        {name: row[name] for name in ("bytes", "proto")} for row in rows_of(read_capture(NETFLOW9))
    ]
    with pytest.raises(SchemaError, match="nothing"):
        read_messages(stream, columns=["nothing"])
    with pytest.raises(
        SchemaError, match=r"flows\.pb\.proto: the messages have no column 'src_mac'; columns are"
    ):
        read_messages(stream, columns=["src_mac"])


def test_the_columns_argument_selects_disabled_columns_without_a_proto_file() -> None:
    columns = ["layer_size", "src_mac"]  # layer_size depends on layer_stack
    schema = FLOW.enable("layer_stack", *columns)
    flows = read_capture(SHIPPED / "generated-sflow.pcap", schema)
    stream = encode_columns(flows, schema)
    for given in ("flow", schema, FLOW):
        some = read_messages(stream, given, columns=iter(columns))
        assert some.to_arrow().equals(flows.select(*columns).to_arrow())


def test_streams_may_be_paths_compressed_files_or_file_objects(stream: Path, tmp_path: Path) -> None:
    expected = rows_of(read_messages(stream))
    (tmp_path / "flows.pb.gz").write_bytes(gzip.compress(stream.read_bytes()))
    assert rows_of(read_messages(tmp_path / "flows.pb.gz")) == expected != []
    once = read_messages(io.BytesIO(stream.read_bytes()))
    assert rows_of(once) == expected
    with pytest.raises(ValueError, match="read already"):
        list(once)


@pytest.mark.parametrize("batch_rows", [2, 7, 100_000])
def test_batches_of_any_size_hold_the_same_flows(stream: Path, batch_rows: int) -> None:
    batches = list(read_messages(stream, batch_rows=batch_rows))
    assert max(len(batch) for batch in batches) <= batch_rows
    assert [row for batch in batches for row in rows_of(batch)] == rows_of(read_messages(stream))


def test_streams_may_be_longer_than_a_read_window(tmp_path: Path) -> None:
    stream, schema = tmp_path / "flows.pb", FLOW.only("bytes", "src_addr")
    one = encode_capture(NETFLOW9, stream, schema).bytes
    stream.write_bytes(stream.read_bytes() * (3_000_000 // one))
    (total,) = {sum(len(batch) for batch in read_messages(stream, schema)) for _ in range(2)}
    assert total == 300 * (3_000_000 // one)


def test_bytes_are_read_in_windows_like_files(tmp_path: Path) -> None:
    schema = Schema.from_toml(
        '[schema]\nname = "s"\nrows = "records"\n[[column]]\nname = "text"\nnumber = 1\ntype = "string"\n'
    )
    sizes = [500] * 6000 + [3_000_000] + [500] * 6000  # in bytes; a window has a million
    stream = encode_columns(pa.table({"text": ["x" * size for size in sizes]}), schema)
    for data in (stream, stream[:-1], stream + b"\x02\x08\x01", stream + b"\xff" * 5):
        (tmp_path / "texts.pb").write_bytes(data)
        columns, whole = read_messages(tmp_path / "texts.pb", schema), read_messages(data, schema)
        assert whole.to_arrow().equals(columns.to_arrow())
        assert whole.counters == columns.counters
        errors = []
        for source in (tmp_path / "texts.pb", data):
            try:
                read_messages(source, schema, strict=True).to_arrow()
            except DecodeError as error:
                errors.append((str(error).partition(": ")[2], error.offset, error.path))
        assert data == stream or (len(errors) == 2 and errors[0] == errors[1])
    part = read_messages(stream[:-1], schema, batch_rows=1000)[:10]
    assert (len(part.to_arrow()), part.counters) == (10, {})  # the end was not read


def test_damage_ends_a_stream_and_is_counted(stream: Path) -> None:
    whole = stream.read_bytes()
    for cut in (len(whole) - 1, len(whole) // 2, 1):
        stream.write_bytes(whole[:cut])
        columns = read_messages(stream)
        rows = rows_of(columns)
        assert rows == rows_of(read_capture(NETFLOW9))[: len(rows)]
        assert columns.counters == {"bad_message": 1}
        with pytest.raises(DecodeError, match=r"flows\.pb: byte \d+: the message is cut short"):
            list(read_messages(stream, strict=True))


FAULTS = {
    b"\x02\x20\x80": "malformed",
    wire.varint(5) + wire.tag(4, 5) + bytes(4): "byte 1: column 'bytes': a field of another wire type",
    wire.varint(3)
    + wire.tag(9, 0)
    + wire.varint(300): "byte 1: column 'proto': a number that its column cannot hold",
    wire.varint(5)
    + wire.tag(6, 2)
    + b"\x03abc": "byte 1: column 'src_addr': an address of neither 4 nor 16 bytes",
}


@pytest.mark.parametrize("data", FAULTS, ids=lambda data: data.hex())
def test_errors_name_the_column_and_the_offset(data: bytes) -> None:
    good = wire.varint(2) + wire.tag(4, 0) + b"\x05"
    columns = read_messages(io.BytesIO(data))
    assert rows_of(columns) == []
    assert columns.counters == {"bad_message": 1}
    columns = read_messages(
        io.BytesIO(good + data + good), columns=["bytes", "proto", "src_addr"], strict=True
    )
    flows = iter(columns)
    assert [row["bytes"] for row in rows_of(next(flows))] == [5]
    with pytest.raises(DecodeError, match=FAULTS[data].replace("byte 1:", "byte 4:")):
        next(flows)


def test_unknown_fields_are_skipped_and_counted() -> None:
    data = wire.tag(5000, 0) + b"\x01" + wire.tag(4, 0) + b"\x05"
    columns = read_messages(io.BytesIO(wire.varint(len(data)) + data))
    assert [row["bytes"] for row in rows_of(columns)] == [5]
    assert columns.counters == {"unknown_field": 1}


def test_unknown_enum_numbers_are_read_as_digits() -> None:
    data = wire.tag(21, 0) + wire.varint(77)
    columns = read_messages(io.BytesIO(wire.varint(len(data)) + data))
    assert [row["flow_direction"] for row in rows_of(columns)] == ["77"]


def test_an_empty_stream_has_no_flows() -> None:
    assert rows_of(read_messages(io.BytesIO(b""))) == []
    assert rows_of(read_messages(io.BytesIO(b"\0\0"))) == rows_expected(b"\0\0", FLOW)


def test_packed_and_unpacked_lists_are_read() -> None:
    schema = FLOW.only("mpls_labels")
    number = FLOW["mpls_labels"].number
    data = wire.tag(number, 2) + b"\x02\x07\x08" + wire.tag(number, 0) + b"\x09"
    columns = read_messages(io.BytesIO(wire.varint(len(data)) + data), schema)
    assert rows_of(columns) == [{"mpls_labels": [7, 8, 9]}]


def test_a_file_that_is_a_capture_is_an_error(tmp_path: Path) -> None:
    for name, content in (("a.pb", pcap(GOOD)), ("a.pb.gz", gzip.compress(pcap(GOOD)))):
        with pytest.raises(DecodeError, match=f"{name}: is a capture, not .*; read it with read_capture"):
            read_messages(write(tmp_path / name, content))


def test_captures_are_counted_as_bad_messages() -> None:
    columns = read_messages(io.BytesIO(pcap(GOOD)))
    assert rows_of(columns) == []
    assert columns.counters["bad_message"] == 1
