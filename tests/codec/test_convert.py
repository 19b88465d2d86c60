"""`flowbuf convert`, and `flowbuf read` for messages without columns."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Codec
from flowbuf.codec import convert
from tests.support.codec.messages import bytes_field, number_field, varint
from tests.support.command import flowbuf

RECORD = Codec.load("record")
TELEMETRY = Codec.load("telemetry")

PROTO = """
syntax = "proto3";
package shop;
import "shop/line.proto";
message Order { int64 order_number = 1; repeated Line lines = 2; State state = 3; }
enum State { NEW = 0; PAID = 1; }
"""
LINE = 'syntax = "proto3"; package shop; message Line { string article = 1; }'


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.pb"
    path.write_bytes(RECORD.encode_many(RECORD.examples(50)))
    return path


@pytest.fixture
def protos(tmp_path: Path) -> Path:
    folder = tmp_path / "protos/shop"
    folder.mkdir(parents=True)
    (folder / "order.proto").write_text(PROTO)
    (folder / "line.proto").write_text(LINE)
    return folder.parent


def test_messages_become_json_lines_and_messages_again(records: Path, tmp_path: Path) -> None:
    lines, back = tmp_path / "records.jsonl.gz", tmp_path / "back.pb.zst"
    assert flowbuf("convert", records, lines, "--schema", "record").exit_code == 0
    text = gzip.decompress(lines.read_bytes())
    assert text == RECORD.to_json_lines(records.read_bytes())
    assert len(text.splitlines()) == 50
    assert flowbuf("convert", lines, back, "--schema", "record").exit_code == 0
    assert flowbuf("convert", back, tmp_path / "plain.pb", "--schema", "record").exit_code == 0
    assert (tmp_path / "plain.pb").read_bytes() == records.read_bytes()


def test_flat_messages_become_parquet_and_messages_again(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    stream, lines = tmp_path / "t.pb", tmp_path / "t.jsonl"
    stream.write_bytes(TELEMETRY.encode_many(TELEMETRY.examples(40_000)))
    for source, target in [
        (stream, "a.parquet"),
        ("a.parquet", lines),
        (lines, "b.parquet"),
        ("b.parquet", "c.pb"),
    ]:
        done = flowbuf("convert", tmp_path / source, tmp_path / target, "--schema", "telemetry")
        assert (done.exit_code, done.stderr) == (0, "")
    tables = [parquet.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    assert tables[0].equals(tables[1])
    assert TELEMETRY.decode_many((tmp_path / "c.pb").read_bytes()) == TELEMETRY.decode_many(
        stream.read_bytes()
    )


def test_nested_messages_become_parquet_and_messages_again(records: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for source, target in [(records, "a.parquet"), ("a.parquet", "b.pb"), ("b.pb", "b.jsonl")]:
        done = flowbuf("convert", tmp_path / source, tmp_path / target, "--schema", "record")
        assert (done.exit_code, done.stderr) == (0, "")
    assert (tmp_path / "b.pb").read_bytes() == records.read_bytes()
    table = parquet.read_table(tmp_path / "a.parquet")
    assert [len(row["children"]) for row in table.to_pylist()] == [
        len(record["children"]) for record in RECORD.examples(50)
    ]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("string name = 1; repeated Other inner = 2;", "field 'inner': is a Other inside itself"),
        ("repeated Empty inner = 1;", "field 'inner': has no fields, and Parquet has no empty structs"),
        (
            "map<int32, Outer> some = 1;",
            "field 'some.value.inner': has no fields, and Parquet has no empty structs",
        ),
    ],
)
def test_messages_without_parquet_columns_are_named(body: str, problem: str, tmp_path: Path) -> None:
    more = "message Empty {} message Outer { Empty inner = 1; }"
    (tmp_path / "other.proto").write_text(f'syntax = "proto3"; message Other {{ {body} }} {more}')
    (tmp_path / "in.pb").write_bytes(b"")
    definition = ("--proto", tmp_path / "other.proto", "--message", "Other")
    done = flowbuf("convert", tmp_path / "in.pb", tmp_path / "out.parquet", *definition)
    assert done.exit_code == 2
    assert f"messages of Other have no columns for Parquet: {problem}; convert" in done.stderr
    assert not (tmp_path / "out.parquet").exists()


def test_options_of_json(protos: Path, tmp_path: Path) -> None:
    stream = tmp_path / "orders.pb"
    message = number_field(1, 5) + bytes_field(2, b"") + number_field(3, 1)
    stream.write_bytes(varint(len(message)) + message)
    defined = ("--proto", "shop/order.proto", "--include", protos, "--message", "Order")
    for options, expected in [
        ((), {"orderNumber": "5", "lines": [{}], "state": "PAID"}),
        (("--names", "original"), {"order_number": "5", "lines": [{}], "state": "PAID"}),
        (("--enums", "number"), {"orderNumber": "5", "lines": [{}], "state": 1}),
        (("--defaults",), {"orderNumber": "5", "lines": [{"article": ""}], "state": "PAID"}),
    ]:
        done = flowbuf("convert", stream, "-", *defined, *options)
        assert json.loads(done.stdout) == expected
    done = flowbuf("convert", "-", "-", "--from", "jsonl", "--to", "pb", *defined, stdin=done.stdout_bytes)
    assert done.stdout_bytes == stream.read_bytes()
    more = b'{"orderNumber":"5","more":[1,{}],"lines":[{}],"state":1}\n\n'
    done = flowbuf("convert", "-", "-", "--from", "jsonl", "--to", "pb", *defined, stdin=more)
    assert (done.exit_code, done.stdout_bytes) == (1, b"")
    assert done.stderr == 'flowbuf: <stdin>: line 1: byte 19: an unknown field: "more"\n'
    done = flowbuf(
        "convert", "-", "-", "--from", "jsonl", "--to", "pb", "--ignore-unknown", *defined, stdin=more
    )
    assert done.stdout_bytes == stream.read_bytes()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:-1], "[49]: byte {last}: the message is cut short"),
        (lambda data: data + b"\xff" * 11, "byte {end}: not the length of a message"),
        (
            lambda data: data + b"\x02\x0a\x05",
            "[50].name: byte {inside}: a length beyond the end of the message",
        ),
    ],
)
def test_damage_is_named_and_leaves_no_output(
    records: Path, tmp_path: Path, damage: Any, problem: str
) -> None:
    data = records.read_bytes()
    sizes = [len(varint(len(each))) + len(each) for each in map(RECORD.encode, RECORD.decode_many(data))]
    records.write_bytes(damage(data))
    done = flowbuf("convert", records, tmp_path / "out.jsonl", "--schema", "record")
    place = problem.format(last=len(data) - sizes[-1], end=len(data), inside=len(data) + 1)
    assert done.stderr == f"flowbuf: {records}: {place}\n"
    assert done.exit_code == 1
    assert os.listdir(tmp_path) == ["records.pb"]


def test_damaged_compression_and_lines_are_named(records: Path, tmp_path: Path) -> None:
    packed = tmp_path / "records.pb.gz"
    packed.write_bytes(gzip.compress(records.read_bytes())[:-20])
    done = flowbuf("convert", packed, tmp_path / "out.jsonl", "--schema", "record")
    assert done.exit_code == 1
    assert "gzip data is cut short" in done.stderr
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b'{"name":"a"}\n' * 200_000 + b"\n" + b'{"name":5}')
    done = flowbuf("convert", lines, tmp_path / "out.pb", "--schema", "record")
    at = 13 * 200_000 + 1 + 8
    assert done.stderr == f"flowbuf: {lines}: line 200002: name: byte {at}: a string is expected here\n"
    assert sorted(os.listdir(tmp_path)) == ["lines.jsonl", "records.pb", "records.pb.gz"]


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    done = flowbuf("convert", tmp_path / "bad.parquet", tmp_path / "out.pb", "--schema", "telemetry")
    assert done.exit_code == 1
    assert "bad.parquet: not a Parquet file, or a damaged one" in done.stderr
    assert os.listdir(tmp_path) == ["bad.parquet"]


@pytest.mark.parametrize("target", ["out.jsonl", "out.parquet"])
def test_unknown_fields_are_reported_in_every_format(tmp_path: Path, target: str) -> None:
    message = TELEMETRY.encode({"site": "a"}) + number_field(999, 1)
    (tmp_path / "in.pb").write_bytes(varint(len(message)) + message)
    done = flowbuf("convert", tmp_path / "in.pb", tmp_path / target, "--schema", "telemetry")
    assert (done.exit_code, "unknown fields, which were left out: 1" in done.stderr) == (1, True)
    assert (tmp_path / target).exists()


def test_unknown_fields_are_reported(tmp_path: Path) -> None:
    (tmp_path / "other.proto").write_text('syntax = "proto3"; message Other { string name = 1; }')
    stream = tmp_path / "records.pb"
    stream.write_bytes(RECORD.encode_many([{"name": "a", "level": 5, "port": 7}, {"name": "b"}]))
    done = flowbuf("convert", stream, "-", "--proto", tmp_path / "other.proto")
    assert done.stdout == '{"name":"a"}\n{"name":"b"}\n'
    assert done.exit_code == 1
    assert "unknown fields, which were left out: 2" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["in.pb", "out.jsonl"], "define the messages with --proto FILE or with --schema NAME"),
        (
            ["in.pb", "out.jsonl", "--schema", "record", "--proto", "x.proto"],
            "--proto and --schema both define the messages",
        ),
        (
            ["in.pb", "out.xml", "--schema", "record"],
            "out.xml: .xml is not that of a format; choose one with --to",
        ),
        (["in.pb", "out", "--schema", "record"], "out: no suffix is not that of a format"),
        (
            ["-", "out.jsonl", "--from", "parquet", "--schema", "telemetry"],
            "Parquet cannot be read from stdin",
        ),
        (
            ["in.pb", "out.parquet.gz", "--schema", "telemetry"],
            "out.parquet.gz: Parquet is compressed inside",
        ),
        (["in.pb", "out.pb", "--schema", "record", "--defaults"], "apply only if OUT is JSON"),
        (["in.pb", "out.jsonl", "--schema", "record", "--ignore-unknown"], "applies only if IN is JSON"),
        (
            ["in.pb", "out.pb", "--schema", "record", "--times", "us"],
            "--times applies only if OUT is Parquet",
        ),
        (
            ["in.pb", "out.jsonl", "--schema", "record", "--times", "us"],
            "only if OUT is Parquet; leave it out",
        ),
        (
            ["in.pb", "out.jsonl", "--schema", "record", "--include", "."],
            "include applies only to .proto files",
        ),
        (["none.pb", "out.jsonl", "--schema", "record"], "none.pb: No such file or directory"),
        (["in.pb", "in.pb", "--schema", "record"], "in.pb: is an input too"),
        (["in.pb", "out.jsonl", "--proto", "none.proto"], "none.proto: does not exist"),
        (["in.pb", "out.jsonl", "--schema", "recordd"], "did you mean record?"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.pb").write_bytes(b"")
    done = flowbuf("convert", *arguments)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert os.listdir() == ["in.pb"]


def test_empty_inputs_give_empty_outputs(tmp_path: Path) -> None:
    (tmp_path / "in.pb").write_bytes(b"")
    assert flowbuf("convert", tmp_path / "in.pb", tmp_path / "out.jsonl", "--schema", "record").exit_code == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_messages_larger_than_a_piece_are_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_PIECE", 100)
    examples = RECORD.examples(30) + [{"name": "x" * 1000}] * 2
    (tmp_path / "in.pb").write_bytes(RECORD.encode_many(examples))
    for source, target in [("in.pb", "out.jsonl"), ("out.jsonl", "back.pb")]:
        done = flowbuf("convert", tmp_path / source, tmp_path / target, "--schema", "record")
        assert (done.exit_code, done.stderr) == (0, "")
    assert (tmp_path / "back.pb").read_bytes() == (tmp_path / "in.pb").read_bytes()


# Times in Parquet -------------------------------------------------------------------------------------------

EVENT = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message Event {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Duration took = 2;
  repeated Visit visits = 3;
}
message Visit { google.protobuf.Timestamp at = 1; }
"""
BILLION = 10**9
NEAR = [0, 1, -1, 999, -999, -1000, -1001, 1_500_000_001, -BILLION - 1, -(1 << 63), (1 << 63) - 1]
"""Nanoseconds that 64 bits hold."""
MOMENTS = [-62135596800 * BILLION, 253402300800 * BILLION - 1]
SPANS = [sign * (315576000000 * BILLION + extra) for sign in (1, -1) for extra in (0, BILLION - 1)]
"""Limits of Timestamp and Duration."""


@pytest.fixture
def event(tmp_path: Path) -> tuple[Any, ...]:
    """Options of `flowbuf convert` for events."""
    pytest.importorskip("pyarrow")
    (tmp_path / "event.proto").write_text(EVENT)
    return "--proto", tmp_path / "event.proto", "--message", "Event"


def time_field(number: int, seconds: int, nanoseconds: int) -> bytes:
    parts = (1, seconds % 2**64), (2, nanoseconds % 2**64)
    return bytes_field(number, b"".join(number_field(place, part) for place, part in parts if part))


def moment(nanoseconds: int) -> bytes:
    return time_field(1, *divmod(nanoseconds, BILLION))


def span(nanoseconds: int) -> bytes:
    sign = -1 if nanoseconds < 0 else 1
    seconds, rest = divmod(abs(nanoseconds), BILLION)
    return time_field(2, sign * seconds, sign * rest)


def framed(messages: list[bytes]) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def test_times_have_the_unit_of_the_option_and_survive_parquet(tmp_path: Path, event: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    stream, table, back = tmp_path / "in.pb", tmp_path / "t.parquet", tmp_path / "back.pb"
    for times, moments, spans, unit in [
        ((), NEAR, NEAR, 1),
        (("--times", "ns"), NEAR, NEAR, 1),
        (("--times", "us"), NEAR + MOMENTS, NEAR + SPANS, 1000),
    ]:
        stream.write_bytes(framed([*map(moment, moments), *map(span, spans), bytes_field(3, moment(-1))]))
        assert flowbuf("convert", stream, table, *event, *times).exit_code == 0
        found = parquet.read_table(table)
        assert found["at"].cast("int64").to_pylist()[: len(moments)] == [each // unit for each in moments]
        took = found["took"].cast("int64").to_pylist()[len(moments) : -1]
        assert took == [each // unit for each in spans]
        assert flowbuf("convert", table, back, *event).exit_code == 0
        kept = [[each // unit * unit for each in values] for values in (moments, spans, [-1])]
        expected = [*map(moment, kept[0]), *map(span, kept[1]), bytes_field(3, moment(kept[2][0]))]
        assert back.read_bytes() == framed(expected)


def test_times_of_parquet_are_read_in_every_unit(tmp_path: Path, event: Any) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for unit, nanoseconds in [("s", BILLION), ("ms", 10**6), ("us", 1000), ("ns", 1)]:
        far = unit != "ns"
        moments = [0, -nanoseconds, 7 * nanoseconds] + [
            each // nanoseconds * nanoseconds for each in MOMENTS
        ] * far
        spans = [0, -nanoseconds, 7 * nanoseconds] + [
            each // nanoseconds * nanoseconds for each in SPANS[:2]
        ] * far
        columns = {
            "at": pa.array([each // nanoseconds for each in moments], pa.timestamp(unit, "UTC")),
            "took": pa.array([each // nanoseconds for each in spans[: len(moments)]], pa.duration(unit)),
        }
        parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
        assert flowbuf("convert", tmp_path / "in.parquet", tmp_path / "out.pb", *event).exit_code == 0
        messages = [moment(each) + span(other) for each, other in zip(moments, spans, strict=True)]
        assert (tmp_path / "out.pb").read_bytes() == framed(messages)


def test_times_of_json_lines_are_cut_in_parquet(tmp_path: Path, event: Any) -> None:
    lines, table, back = tmp_path / "in.jsonl", tmp_path / "t.parquet", tmp_path / "back.jsonl"
    lines.write_text(
        '{"at":"0001-01-01T00:00:00Z"}\n{"at":"1969-12-31T23:59:59.999999999Z","took":"-1.000000001s"}\n'
    )
    assert flowbuf("convert", lines, table, *event, "--times", "us").exit_code == 0
    assert flowbuf("convert", table, back, *event).exit_code == 0
    assert list(map(json.loads, back.read_text().splitlines())) == [
        {"at": "0001-01-01T00:00:00Z"},
        {"at": "1969-12-31T23:59:59.999999Z", "took": "-1.000001s"},
    ]


@pytest.mark.parametrize(
    ("message", "column"),
    [
        (moment(MOMENTS[0]), "at"),
        (moment(1 << 63), "at"),
        (span(-(1 << 63) - 1), "took"),
        (moment(0) + bytes_field(3, moment(0)) + bytes_field(3, moment(MOMENTS[1])), "visits.at"),
    ],
)
def test_a_time_beyond_nanoseconds_is_named_with_its_message_and_the_fix(
    message: bytes, column: str, tmp_path: Path, event: Any
) -> None:
    stream, lines = tmp_path / "in.pb", tmp_path / "in.jsonl"
    stream.write_bytes(framed([moment(0)] * 20_000 + [message]))
    assert flowbuf("convert", stream, lines, *event).exit_code == 0
    problem = f"column '{column}': a time that nanoseconds cannot hold; add --times us"
    done = flowbuf("convert", stream, tmp_path / "out.parquet", *event)
    assert done.exit_code == 1
    assert re.fullmatch(rf"flowbuf: {stream}: \[20000\]: byte \d+: {problem}\n", done.stderr)
    done = flowbuf("convert", lines, tmp_path / "out.parquet", *event)
    assert done.stderr == f"flowbuf: {lines}: [20000]: {problem}\n"
    assert not (tmp_path / "out.parquet").exists()
    assert flowbuf("convert", stream, tmp_path / "out.parquet", *event, "--times", "us").exit_code == 0


def test_damage_is_named_with_its_message_in_parquet_too(tmp_path: Path, event: Any) -> None:
    (tmp_path / "in.pb").write_bytes(framed([b"", b"\x0a\x05", b""]))
    done = flowbuf("convert", tmp_path / "in.pb", tmp_path / "out.parquet", *event)
    assert done.stderr == (
        f"flowbuf: {tmp_path / 'in.pb'}: [1]: byte 2: column 'at': a length beyond the end of the message\n"
    )
    (tmp_path / "in.pb").write_bytes(framed([b"", time_field(1, 1 << 60, 0)]))
    done = flowbuf("convert", tmp_path / "in.pb", tmp_path / "out.parquet", *event)
    assert done.stderr.endswith("[1]: byte 2: column 'at': a value that its column cannot hold\n")


# flowbuf read -----------------------------------------------------------------------------------------------


def test_read_writes_nested_messages_as_json_lines(records: Path) -> None:
    expected = RECORD.to_json_lines(records.read_bytes(), names="original")
    done = flowbuf("read", records, "--schema", "record", "-f", "jsonl")
    assert (done.exit_code, done.stdout_bytes) == (0, expected)
    done = flowbuf("read", records, records, "--schema", "record", "-f", "jsonl", "-n", 70)
    assert done.stdout_bytes == b"".join((expected * 2).splitlines(keepends=True)[:70])


def test_read_takes_the_proto_beside_a_stream(protos: Path, tmp_path: Path) -> None:
    message = number_field(1, 5) + bytes_field(2, b"")
    (tmp_path / "orders.pb").write_bytes(varint(len(message)) + message)
    (tmp_path / "orders.pb.proto").write_text('syntax = "proto3"; message O { int64 order_number = 1; }')
    done = flowbuf("read", tmp_path / "orders.pb", "-f", "jsonl")
    assert done.stdout == '{"order_number":"5"}\n'
    assert (done.exit_code, "unknown fields, which were left out: 1" in done.stderr) == (1, True)


def test_read_names_options_that_need_columns(records: Path) -> None:
    for options, problem in [
        (("-f", "csv"), "-f csv: messages of this type have no columns"),
        (("-f", "jsonl", "--where", "level > 1"), "--where: messages of this type have no columns"),
    ]:
        done = flowbuf("read", records, "--schema", "record", *options)
        assert done.exit_code == 2
        assert problem in done.stderr
    records.write_bytes(records.read_bytes()[:-1])
    done = flowbuf("read", records, "--schema", "record", "-f", "jsonl")
    assert done.exit_code == 1
    assert "the message is cut short" in done.stderr


def test_read_takes_a_definition(protos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.pb").write_bytes(Codec.load(protos, "shop.Order").encode_many([{"order_number": 5}] * 3))
    definition = ("--proto", "shop/order.proto", "--include", protos, "--message", "Order")
    for more, count in ((("-f", "jsonl"), 3), ((), 3), (("-n", 2), 2), (("-o", "out.jsonl"), 3)):
        done = flowbuf("read", "orders.pb", *definition, *more)
        written = Path("out.jsonl").read_text() if "-o" in more else done.stdout
        assert (done.exit_code, written) == (0, '{"order_number":"5"}\n' * count)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--proto", "protos"], "has 2 messages; choose one with --message NAME: "),
        (["--proto", "none.proto"], "none.proto: does not exist"),
        (["--message", "Order"], "name it with --proto"),
        (["--include", "protos"], "name it with --proto"),
        (["--proto", "protos", "--schema", "record"], "leave out --schema"),
        (["--proto", "protos", "--message", "Order", "-f", "csv"], "-f csv: messages of this type have no"),
        (["--proto", "protos", "-o", "folder/"], "--proto applies only to message streams"),
        (["capture.pcap", "--proto", "protos"], "--proto applies only to message streams"),
    ],
)
def test_mistakes_in_a_definition_are_named(
    arguments: list[str], problem: str, protos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders.pb", "capture.pcap"):
        Path(name).write_bytes(b"")
    done = flowbuf("read", "orders.pb", *arguments)
    assert done.exit_code == 2
    assert problem in done.stderr
