"""Schemas of records on the command line: streams of flat records are read, captures are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.schema import Schema
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write

TELEMETRY = Schema.load("telemetry")
RECORDS = [
    {"device_id": "a", "temperature": 21.5, "timestamp": 1700000000000, "sequence": 7},
    {"device_id": "b", "temperature": -3.25, "timestamp": 1700000001000, "error_count": 2},
]
SHOWN = [
    {"device_id": "a", "temperature": 21.5, "timestamp": "2023-11-14T22:13:20.000Z", "sequence": 7},
    {"device_id": "b", "temperature": -3.25, "timestamp": "2023-11-14T22:13:21.000Z", "error_count": 2},
]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    messages = [TELEMETRY.message_class()(**record).SerializeToString() for record in RECORDS]
    assert all(len(message) < 128 for message in messages)
    return write(tmp_path / "x.pb", b"".join(bytes([len(message)]) + message for message in messages))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "a.pcap", pcap(GOOD))


def test_streams_of_flat_records_are_read(stream: Path) -> None:
    result = flowbuf("read", stream, "--schema", "telemetry")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json_lines(result) == SHOWN
    chosen = flowbuf(
        "read", stream, "--schema", "telemetry", "--columns", "device_id", "--where", "temperature < 0"
    )
    assert json_lines(chosen) == [{"device_id": "b"}]


def test_the_proto_file_of_a_stream_selects_its_columns(stream: Path) -> None:
    written = TELEMETRY.only("device_id", "temperature", "timestamp", "sequence", "error_count")
    write(Path(f"{stream}.proto"), written.to_proto().encode())
    result = flowbuf("read", stream, "--schema", "telemetry", "-f", "csv")
    assert result.stdout.splitlines()[0] == "device_id,temperature,timestamp,sequence,error_count"
    assert json_lines(flowbuf("read", stream, "--schema", "telemetry")) == SHOWN


def test_records_can_be_written_as_parquet_and_queried(stream: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert flowbuf("read", stream, "--schema", "telemetry", "-o", tmp_path / "x.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "x.parquet").column("temperature").to_pylist() == [21.5, -3.25]
    sql = "SELECT max(temperature) AS warmest FROM flows"
    assert json_lines(flowbuf("query", sql, stream, "--schema", "telemetry")) == [{"warmest": 21.5}]


def test_an_empty_stream_is_reported_as_no_records(tmp_path: Path) -> None:
    empty = write(tmp_path / "x.pb", b"")
    result = flowbuf("read", empty, "--schema", "telemetry", "-v")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no objects" in result.stderr


@pytest.mark.parametrize("command", ["read", "encode", "produce", "query"])
def test_decoding_a_capture_into_records_is_a_usage_error(
    capture: Path, tmp_path: Path, command: str
) -> None:
    more = {
        "read": (),
        "encode": ("-o", tmp_path / "out.pb"),
        "produce": ("--kafka", "localhost:1", "--topic", "t"),
        "query": (),
    }[command]
    sql = ("FROM flows",) if command == "query" else ()
    result = flowbuf(command, *sql, capture, "--schema", "telemetry", *more)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "schema telemetry" in line
    assert " describes objects, which " in line
    assert not (tmp_path / "out.pb").exists()


@pytest.mark.parametrize("command", ["query", "consume"])
def test_nested_records_are_a_usage_error(stream: Path, command: str) -> None:
    """`read` writes them as JSON lines: see tests/codec/test_convert.py."""
    arguments = {
        "query": ("FROM flows", stream),
        "consume": ("--kafka", "localhost:1", "--topic", "t"),
    }[command]
    result = flowbuf(command, *arguments, "--schema", "record")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "Error: schema record: column 'parent': type 'message' is not possible in a table; disable parent"
    )


def test_capture_options_are_usage_errors_for_records(stream: Path) -> None:
    for option in (("--scale",), ("--override-sampling", "10"), ("--decapsulate", "all")):
        result = flowbuf("read", stream, "--schema", "telemetry", *option)
        assert result.exit_code == 2
        assert option[0] in result.stderr
