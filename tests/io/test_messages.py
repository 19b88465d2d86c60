"""Streams of messages, and the .proto files next to them."""

from __future__ import annotations

import bisect
import gzip
import io
import itertools
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf import wire
from flowbuf.errors import SchemaError
from flowbuf.io.message_stream import MAX_MESSAGE_SIZE, WINDOW_SIZE, MessageStream, read_in_steps
from flowbuf.io.proto_file import check_proto, find_proto, proto_path, read_proto, write_proto
from flowbuf.schema import Schema

FLOW = Schema.load("flow")
WITH_NAME = FLOW.enable("interface_name")


def stream_of(*flows: dict[str, Any], schema: Schema = WITH_NAME) -> bytes:
    row = wire.Row(schema)
    for flow in flows:
        for name, value in flow.items():
            row.append(name, value)
        row.finish()
    return bytes(row)


def read(data: bytes, schema: Schema = WITH_NAME) -> tuple[list[dict[str, Any]], MessageStream]:
    stream = MessageStream(io.BytesIO(data), schema)
    return [flow for flows in stream for flow in flows], stream


FLOWS = [{"bytes": 1 + i, "interface_name": "x" * (i % 300)} for i in range(2000)]
PRESENT = [{name: value for name, value in flow.items() if value} for flow in FLOWS]


def test_flows_keep_their_order() -> None:
    flows, stream = read(stream_of(*FLOWS))
    assert flows == PRESENT
    assert (stream.fault, stream.flows, stream.unknown_fields) == ("", 2000, 0)


def test_compressed_streams_are_read() -> None:
    assert read(gzip.compress(stream_of(*FLOWS)))[0] == PRESENT


def test_streams_of_many_windows_are_read() -> None:
    data = stream_of(*FLOWS) * (3 * WINDOW_SIZE // len(stream_of(*FLOWS)) + 1)
    stream = MessageStream(io.BytesIO(data), WITH_NAME)
    parts = list(stream)
    assert len(parts) >= 3
    assert stream.flows == 2000 * (len(data) // len(stream_of(*FLOWS)))


def test_messages_longer_than_a_window_are_read() -> None:
    long = {"interface_name": "y" * (3 * WINDOW_SIZE)}
    flows, stream = read(stream_of({"bytes": 1}, long, {"bytes": 2}))
    assert flows == [{"bytes": 1}, long, {"bytes": 2}]
    assert not stream.fault


def test_a_message_over_the_size_limit_ends_reading() -> None:
    class Endless(io.RawIOBase):
        given = stream_of({"bytes": 1}) + wire.varint(1 << 30)
        total = 0

        def readinto(self, view: Any) -> int:
            part = (self.given or bytes(len(view)))[: len(view)]
            self.given = self.given[len(view) :]
            view[: len(part)] = part
            self.total += len(part)
            return len(part)

    source = Endless()
    stream = MessageStream(source, WITH_NAME)  # type: ignore[arg-type]
    assert [flow for flows in stream for flow in flows] == [{"bytes": 1}]
    assert stream.fault == f"byte 3: the message is longer than {MAX_MESSAGE_SIZE} bytes"
    assert source.total <= 2 * MAX_MESSAGE_SIZE


MESSAGES = [stream_of(flow) for flow in FLOWS[:100]]
ENDS = list(itertools.accumulate(map(len, MESSAGES)))


@settings(deadline=None)  # allocates windows of 1 MiB, possibly on a busy machine
@given(st.integers(1, ENDS[-1]))
def test_a_truncated_stream_yields_its_complete_messages(size: int) -> None:
    flows, stream = read(b"".join(MESSAGES)[:size])
    whole = bisect.bisect_right(ENDS, size)
    assert flows == PRESENT[:whole]
    begin = sum(map(len, MESSAGES[:whole]))
    assert stream.fault == ("" if begin == size else f"byte {begin}: the message is cut short")


def test_a_truncated_compressed_stream_yields_its_first_messages() -> None:
    flows, stream = read(gzip.compress(stream_of(*FLOWS))[:-2000])
    assert flows == PRESENT[: len(flows)]
    assert stream.fault.endswith("gzip data is cut short")


def test_a_compressed_stream_truncated_between_messages_is_a_fault() -> None:
    compressor = zlib.compressobj(wbits=31)
    truncated = compressor.compress(stream_of({"bytes": 1})) + compressor.flush(zlib.Z_FULL_FLUSH)
    flows, stream = read(truncated)
    assert flows == [{"bytes": 1}]
    assert stream.fault == "byte 3: gzip data is cut short"


def test_an_empty_stream_has_no_flows() -> None:
    flows, stream = read(b"")
    assert (flows, stream.fault) == ([], "")


def test_a_malformed_message_ends_the_stream() -> None:
    malformed = b"\x02\x0f\x00"  # wire type 7
    flows, stream = read(stream_of({"bytes": 1}, {"bytes": 2}) + malformed + stream_of({"bytes": 3}))
    assert flows == [{"bytes": 1}, {"bytes": 2}]
    assert stream.fault == "byte 6: malformed field"


def test_fields_absent_from_the_schema_are_counted() -> None:
    more = FLOW.add("mine", number=1001, type="uint32")
    flows, stream = read(stream_of({"bytes": 1, "mine": 5}, {"mine": 6}, schema=more), FLOW)
    assert flows == [{"bytes": 1}, {}]
    assert stream.unknown_fields == 2


@pytest.mark.parametrize("step", [1, 7, 100, 1 << 18])
def test_reading_in_steps_yields_the_same_flows(step: int) -> None:
    from flowbuf._core import MessageReader
    from flowbuf.schema.plan import compile_plan

    reader = MessageReader(compile_plan(WITH_NAME))
    parts = read_in_steps(reader, stream_of(*FLOWS[:200]), step)
    assert [flow for part in parts for flow in part] == PRESENT[:200]


# The .proto file next to a stream ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flows.pb", "flows.pb.gz", "flows.pb.zst"])
def test_the_proto_file_has_the_name_of_the_stream(tmp_path: Path, name: str) -> None:
    assert proto_path(tmp_path / name) == str(tmp_path / f"{name}.proto")
    assert find_proto(tmp_path / name) is None
    write_proto(tmp_path / name, FLOW)
    assert find_proto(tmp_path / name) == str(tmp_path / f"{name}.proto")


def test_only_proto_files_of_flowbuf_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "flows.pb"
    for schema in (FLOW, WITH_NAME):
        check_proto(path)
        write_proto(path, schema)
    assert read_proto(proto_path(path), FLOW) == WITH_NAME
    Path(proto_path(path)).write_text('syntax = "proto3";\n')
    for write in (lambda: check_proto(path), lambda: write_proto(path, FLOW)):
        with pytest.raises(FileExistsError, match="was not written by flowbuf"):
            write()
    assert Path(proto_path(path)).read_text() == 'syntax = "proto3";\n'


def proto_of(tmp_path: Path, schema: Schema) -> str:
    write_proto(tmp_path / "flows.pb", schema)
    return proto_path(tmp_path / "flows.pb")


def test_a_proto_file_selects_the_enabled_columns(tmp_path: Path) -> None:
    written = FLOW.enable("group:l2", "mpls_labels").disable("bytes")
    assert read_proto(proto_of(tmp_path, written), FLOW) == written


def test_a_proto_file_without_a_hash_is_valid(tmp_path: Path) -> None:
    proto = Path(proto_of(tmp_path, FLOW.only("bytes", "src_addr")))
    proto.write_text(
        "".join(line for line in proto.read_text().splitlines(True) if not line.startswith("//"))
    )
    assert read_proto(str(proto), FLOW) == FLOW.only("bytes", "src_addr")


def altered(text: str, **keys: Any) -> Schema:
    return Schema.from_toml(FLOW_TOML.replace(*text.split("=>")), **keys)


FLOW_TOML = """
[schema]
name = "flow"
[[column]]
name = "time_received"
number = 1
type = "timestamp"
unit = "ms"
enabled = true
sources = ["meta:time_received"]
[[column]]
name = "bytes"
number = 4
type = "uint64"
enabled = true
sources = ["ipfix:octetDeltaCount"]
"""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('"bytes"=>"octets"', "schema 'flow' has no column for 'uint64 octets = 4'"),
        (
            "number = 4=>number = 44",
            "column 'bytes': is 'uint64 bytes = 44', but 'uint64 bytes = 4' in schema 'flow'",
        ),
        (
            '"uint64"=>"uint32"',
            "column 'bytes': is 'uint32 bytes = 4', but 'uint64 bytes = 4' in schema 'flow'",
        ),
        ('"ms"=>"s"', ": hash is "),
    ],
)
def test_a_proto_file_of_another_schema_is_rejected(tmp_path: Path, change: str, complaint: str) -> None:
    proto = proto_of(tmp_path, altered(change))
    with pytest.raises(SchemaError) as caught:
        read_proto(proto, FLOW)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(proto)
    assert "--schema" in str(caught.value)
