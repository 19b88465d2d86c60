"""Codecs are created from schemas, .proto files, descriptor sets and message classes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf import UNKNOWN_FIELDS, Codec
from flowbuf.errors import DecodeError, EncodeError, SchemaError
from tests.support.codec.messages import (
    PROTO2,
    PROTO3,
    bytes_field,
    descriptor_set,
    make_codec,
    message_class,
    number_field,
)

UTC = timezone.utc
RECORD: dict[str, Any] = {"device": "a1", "temperature": 21.5, "samples": [1, -2, 300], "time": 5}
MESSAGE = make_codec("Reading").encode(RECORD)


def test_a_codec_is_loaded_from_files(tmp_path: Path) -> None:
    (tmp_path / "three.proto").write_text(PROTO3)
    (tmp_path / "two.proto").write_text(PROTO2)
    (tmp_path / "set.desc").write_bytes(descriptor_set().SerializeToString())
    schema = '[schema]\nname = "tiny"\n[[column]]\nname = "a"\nnumber = 1\ntype = "uint32"\nenabled = true\n'
    (tmp_path / "tiny.toml").write_text(schema)
    assert Codec.load(tmp_path / "three.proto", "Reading").encode(RECORD) == MESSAGE
    assert Codec.load(tmp_path / "three.proto", "test.Reading", into=tuple).decode(b"")[0] == ""
    assert Codec.load(str(tmp_path / "set.desc"), "Reading").encode(RECORD) == MESSAGE
    assert Codec.load(tmp_path / "two.proto").message.name == "test.Old"
    assert Codec.load(tmp_path / "two.proto", "test.Old.Pair").message.name == "test.Old.Pair"
    assert Codec.load(tmp_path / "tiny.toml").encode({"a": 5}) == number_field(1, 5)
    assert Codec.load("flow").decode(b"")["bytes"] == 0
    for name, message in [("Readin", "did you mean Reading"), (None, "messages")]:
        with pytest.raises(SchemaError, match=message):
            Codec.load(tmp_path / "three.proto", name)


def test_the_only_message_of_a_file_needs_no_name(tmp_path: Path) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
    text += "message Only { google.protobuf.Timestamp t = 1; }"
    (tmp_path / "only.proto").write_text(text)
    codec = Codec.load(tmp_path / "only.proto")
    assert codec.decode(codec.encode({"t": 5}))["t"] == datetime(1970, 1, 1, tzinfo=UTC)


def test_invalid_sources_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.proto").write_text("message {")
    with pytest.raises(SchemaError, match="does not compile"):
        Codec.load(tmp_path / "bad.proto")
    with pytest.raises(SchemaError, match="does not exist"):
        Codec.load(tmp_path / "none.proto")
    with pytest.raises(SchemaError, match="is not a FileDescriptorSet"):
        Codec(b"\xff")
    with pytest.raises(SchemaError, match="has no files"):
        Codec(b"")
    with pytest.raises(TypeError, match="source is int; it must be"):
        Codec(5)
    for option in ("unknown_keys", "unknown_fields", "times", "enums"):
        with pytest.raises(ValueError, match=f"{option} is 'x'; it must be one of"):
            make_codec("Tree", **{option: "x"})


def test_messages_are_found_by_full_and_by_short_names(tmp_path: Path) -> None:
    inside = "message In { int32 n = 1; }"
    text = f"message A {{ {inside} }} message B {{ {inside} {inside.replace('In', 'A')} }}"
    (tmp_path / "names.proto").write_text(f'syntax = "proto3"; package some; {text}')
    for name, expected in [
        ("some.B.In", "some.B.In"),
        ("B.In", "some.B.In"),
        ("A", "some.A"),
        ("B.A", "some.B.A"),
    ]:
        assert Codec.load(tmp_path / "names.proto", name).message.name == expected
    with pytest.raises(
        SchemaError, match=r"names.proto: has 2 messages named 'In'; .* some\.A\.In, some\.B\.In"
    ):
        Codec.load(tmp_path / "names.proto", "In")
    with pytest.raises(TypeError, match="pass the type of the objects as into="):
        Codec.load(tmp_path / "names.proto", dict)  # type: ignore[arg-type]


def test_errors_in_a_file_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "empty.proto").write_text('syntax = "proto3";')
    (tmp_path / "far.proto").write_text('syntax = "proto3"; import "far/away.proto"; message M {}')
    (tmp_path / "set.desc").write_bytes(b"\xff")
    (tmp_path / "flows.toml").write_text(
        '[schema]\nname = "f"\n[[column]]\nname = "a"\nnumber = 1\ntype = "int32"\nenabled = false\n'
    )
    for name, message in [
        ("empty.proto", "has no messages"),
        (
            "far.proto",
            r"does not compile: far/away.proto[^;]*; name the folder that imports start from",
        ),
        ("set.desc", "is not a FileDescriptorSet"),
        ("none.desc", "cannot be read: No such file"),
        ("flows.toml", 'no column is enabled; enable columns, or write rows = "records"'),
    ]:
        with pytest.raises(SchemaError, match=f"{name}: {message}"):
            Codec.load(tmp_path / name)
    with pytest.raises(TypeError, match=r"Codec\.load takes names and paths"):
        Codec("telemetry")
    with pytest.raises(TypeError, match=r"takes a name or a path, not .*; use Codec\(…\)"):
        Codec.load(message_class("Reading"))


def test_messages_of_a_schema_keep_its_limits() -> None:
    """They also apply if the message is chosen by name, although descriptors have no 16-bit integers."""
    for codec in (
        Codec.load("record"),
        Codec.load("record", "Record"),
        Codec.load("record", "flowbuf.Record"),
    ):
        with pytest.raises(EncodeError, match="level: 40000 is out of range: -32768 to 32767"):
            codec.encode({"level": 40_000})


def test_descriptor_sets_may_be_in_any_buffer() -> None:
    encoded = descriptor_set().SerializeToString()
    for source in (encoded, bytearray(encoded), memoryview(encoded)):
        assert Codec(source, "Reading").encode(RECORD) == MESSAGE


def test_codecs_are_created_from_message_classes() -> None:
    codec = Codec(message_class("Reading"))
    assert codec.encode(RECORD) == MESSAGE
    assert repr(codec) == "<Codec test.Reading: 12 fields>"
    assert codec.message_class() is message_class("Reading")


def test_no_field_may_have_the_key_of_unknown_fields() -> None:
    file = FileDescriptorProto(name="x.proto", package="test")
    field = file.message_type.add(name="X").field.add(name=UNKNOWN_FIELDS, number=1, label=1, type=12)
    assert Codec(file).decode(b"\n\1a") == {field.name: b"a"}
    with pytest.raises(SchemaError, match="field '_unknown_fields' has the name of the key"):
        Codec(file, unknown_fields="keep")


def test_nested_messages_have_the_limits_of_the_schema(tmp_path: Path) -> None:
    column = '[[{}]]\nname = "{}"\nnumber = 1\ntype = "{}"\n'
    text = '[schema]\nname = "outer"\nrows = "records"\n'
    text += column.format("column", "inner", "message") + 'message = "the_inner"\n'
    (tmp_path / "outer.toml").write_text(text + column.format("message.the_inner.column", "small", "int16"))
    codec = Codec.load(tmp_path / "outer.toml", "TheInner")
    assert codec.decode(codec.encode({"small": -32768})) == {"small": -32768}
    with pytest.raises(EncodeError, match="small: 32768 is out of range: -32768 to 32767"):
        codec.encode({"small": 32768})


def test_zeros_of_required_columns_survive_json(tmp_path: Path) -> None:
    """JSON leaves out zeros, so that a missing column may be one. An explicit column has a value."""
    column = '[[column]]\nname = "{0}"\nnumber = {1}\ntype = "uint32"\nrequired = true\nexplicit = {2}\n'
    columns = column.format("plain", 1, "false") + column.format("explicit", 2, "true")
    (tmp_path / "zeros.toml").write_text(f'[schema]\nname = "zeros"\nrows = "records"\n{columns}')
    codec = Codec.load(tmp_path / "zeros.toml")
    zeros = {"plain": 0, "explicit": 0}
    assert codec.encode_json(zeros) == '{"explicit":0}'
    assert codec.decode_json('{"explicit":0}') == zeros
    with pytest.raises(DecodeError, match="a required field is missing"):
        codec.from_json('{"plain":0}')
    with pytest.raises(EncodeError, match="plain: required, and not given"):
        codec.encode({"explicit": 0})


def test_names_in_json_take_precedence_over_names_of_other_fields(tmp_path: Path) -> None:
    text = 'syntax = "proto3"; message Swap { int32 b = 2 [json_name = "a"]; int32 a = 1 [json_name = "c"]; }'
    (tmp_path / "swap.proto").write_text(text)
    codec = Codec.load(tmp_path / "swap.proto")
    for record in ({"a": 5, "b": 0}, {"a": 0, "b": 5}, {"a": 5, "b": 6}):
        assert codec.decode_json(codec.encode_json(record)) == record
    assert codec.decode_json('{"b": 5}') == {"a": 0, "b": 5}


def test_values_outside_the_limits_of_a_schema_are_read(tmp_path: Path) -> None:
    """The message is well-formed, although such values cannot be encoded."""
    kinds = [("int8", ""), ("ip", ""), ("timestamp", 'unit = "proto"\n'), ("duration", 'unit = "proto"\n')]
    text = '[schema]\nname = "narrow"\nrows = "records"\n'
    for number, (kind, more) in enumerate(kinds, 1):
        text += f'[[column]]\nname = "{kind}"\nnumber = {number}\ntype = "{kind}"\n{more}'
    (tmp_path / "narrow.toml").write_text(text)
    codec = Codec.load(tmp_path / "narrow.toml", times="ns")
    year_10_000, ten_thousand_years = 253_402_300_800, 315_576_000_000
    for encoded, name, value, problem in [
        (number_field(1, 300), "int8", 300, "300 is out of range"),
        (bytes_field(2, b"12345"), "ip", b"12345", "5 bytes, where there must be 16"),
        (
            bytes_field(3, number_field(1, year_10_000)),
            "timestamp",
            year_10_000 * 10**9,
            "out of range of a time",
        ),
        (
            bytes_field(4, number_field(1, ten_thousand_years + 1)),
            "duration",
            (ten_thousand_years + 1) * 10**9,
            "out of range of a time",
        ),
    ]:
        assert codec.decode(encoded)[name] == value
        with pytest.raises(EncodeError, match=problem):
            codec.encode({name: value})
    assert codec.encode(codec.decode(bytes_field(3, number_field(2, -1)))) != bytes_field(
        3, number_field(2, -1)
    )


EDITION = """
edition = "2023";
package test;
enum Closed { option features.enum_type = CLOSED; NIL = 0; ONE = 1; }
enum Open { ZERO = 0; BELOW = -4; }
message Sub { int32 x = 1; Sub sub = 2; }
message Edition {
  int32 explicit = 1;
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  int32 must = 3 [features.field_presence = LEGACY_REQUIRED];
  int32 default = 4 [default = 42];
  repeated int32 packed = 5;
  repeated int32 expanded = 6 [features.repeated_field_encoding = EXPANDED];
  Closed closed = 7; Open open = 8; repeated Closed closeds = 9;
  Sub delimited = 10 [features.message_encoding = DELIMITED]; Sub prefixed = 11;
  map<string, Closed> named = 12;
  oneof which { string text = 13; int32 number = 14; }
}
"""


def test_features_of_editions_are_respected(tmp_path: Path) -> None:
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    (tmp_path / "edition.proto").write_text(EDITION)
    output = tmp_path / "set.desc"
    assert compiler.main(["protoc", f"-I{tmp_path}", f"--descriptor_set_out={output}", "edition.proto"]) == 0
    codec = Codec.load(output, "Edition")
    kind = codec.message_class()
    for record in codec.examples(20):
        encoded = codec.encode(record)
        assert kind.FromString(encoded).SerializeToString(deterministic=True) == encoded
        assert codec.decode(encoded) == record
    zeros = {"explicit": 0, "implicit": 0, "must": 0}
    assert codec.encode(zeros) == number_field(1, 0) + number_field(3, 0)
    read = codec.decode(number_field(7, 5) + number_field(8, 5))
    assert (read["explicit"], read["implicit"], read["default"]) == (None, 0, 42)
    assert (read["closed"], read["open"]) == (None, 5)
    with pytest.raises(EncodeError, match="must: required"):
        codec.encode({})


# gogoproto --------------------------------------------------------------------------------------------------

GOGO = """
syntax = "proto2"; package gogoproto;
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { optional bool nullable = 65001; optional string customname = 65004; }
"""
BATCH = """
syntax = "proto3"; package test;
import "gogoproto/gogo.proto";
import "google/protobuf/timestamp.proto";
message Batch {
  repeated Event events = 1 [(gogoproto.nullable) = false];
  map<string, Event> named = 2 [(gogoproto.nullable) = false];
}
message Event {
  google.protobuf.Timestamp time = 1 [(gogoproto.nullable) = false, (gogoproto.customname) = "At", \
deprecated = true];
  Event cause = 2 [(gogoproto.nullable) = true];
  oneof which { Event one = 3 [(gogoproto.nullable) = false]; int32 other = 4; }
  int32 plain = 5 [(gogoproto.customname) = "P"];
}
"""


@pytest.fixture
def gogo_folder(tmp_path: Path) -> Path:
    (tmp_path / "gogoproto").mkdir()
    (tmp_path / "gogoproto/gogo.proto").write_text(GOGO)
    (tmp_path / "batch.proto").write_text(BATCH)
    return tmp_path


def test_fields_that_gogoproto_marks_as_not_nullable_are_required(gogo_folder: Path) -> None:
    """Lists, maps and members of a oneof may be absent in spite of the mark."""
    codec = Codec.load(gogo_folder / "batch.proto", "Batch")
    event = codec.message.fields[0].message
    assert event is not None
    assert [field.name for field in event if field.required] == ["time"]
    assert not any(field.required for field in codec.message)
    full = {"time": 0, "other": 5}
    assert codec.encode({}) == b""
    expected = codec.message_class().FromString(codec.encode({"events": [full], "named": {"a": full}}))
    assert (expected.events[0].other, expected.named["a"].HasField("time")) == (5, True)
    for record, path in [
        ({"events": [full, full, full, {"other": 1}]}, "events[3].time"),
        ({"events": [{**full, "cause": {}}]}, "events[0].cause.time"),
        ({"named": {"a": {"time": None}}}, "named['a'].time"),
    ]:
        with pytest.raises(EncodeError, match="required, and not given") as caught:
            codec.encode(record)
        assert caught.value.path == path
    assert codec.decode(b"\n\0")["events"][0]["time"] is None


def test_options_of_gogoproto_may_be_extensions_of_protobuf(gogo_folder: Path) -> None:
    """The option is an extension instead of an unknown field if its Python module is imported.

    The test runs in its own process, because the extension stays registered.
    """
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    include = Path(compiler.__file__).parent / "_proto"
    files = ["gogoproto/gogo.proto", "batch.proto"]
    assert (
        compiler.main(["protoc", f"-I{gogo_folder}", f"-I{include}", f"--python_out={gogo_folder}", *files])
        == 0
    )
    program = """if True:
        from batch_pb2 import Batch, Event
        from gogoproto.gogo_pb2 import nullable
        from flowbuf import Codec
        assert Event.DESCRIPTOR.fields_by_name["time"].GetOptions().Extensions[nullable] is False
        for codec in (Codec(Batch), Codec(Batch.DESCRIPTOR)):
            try:
                codec.encode({"events": [{"other": 1}]})
            except ValueError as error:
                print(error)
    """
    places = os.pathsep.join([str(gogo_folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert done.stdout.splitlines() == ["events[0].time: required, and not given"] * 2


def test_imports_are_searched_in_all_folders(tmp_path: Path) -> None:
    for name, text in [
        ("one/x.proto", "message Wrong {}"),
        ("two/x.proto", "message Right {}"),
        (
            "two/sub/s.proto",
            'import "sibling.proto"; import "x.proto"; message S { Sibling s = 1; Right r = 2; }',
        ),
        ("two/sub/sibling.proto", "message Sibling {}"),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'syntax = "proto3"; {text}')
    include = [tmp_path / "one", tmp_path / "two"]
    assert Codec.load(tmp_path / "two/x.proto", include=include).message.name == "Right"
    assert Codec.load("x.proto", include=include).message.name == "Wrong"
    assert Codec.load(tmp_path / "two/sub/s.proto", include=include[1:]).message.name == "S"
    assert Codec.load("sub/s.proto", "S", include=[*include[1:], tmp_path / "two/sub"]).message.name == "S"
    assert Codec.load(tmp_path / "two/sub", "Sibling", include=include[1:]).message.name == "Sibling"
    with pytest.raises(SchemaError, match="has 2 messages; choose one with message="):
        Codec.load(tmp_path / "two/sub", include=include[1:])


def test_mistakes_with_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, problem in [
        ((tmp_path / "empty",), "has no .proto file"),
        (("none.proto", None, [tmp_path]), f"none.proto: does not exist here or in {tmp_path}"),
        (("none.proto", None, ["nowhere"]), "include names 'nowhere', which is not a folder"),
        (("record", None, [tmp_path]), "include applies only to .proto files"),
    ]:
        with pytest.raises(SchemaError, match=problem):
            Codec.load(arguments[0], *arguments[1:2], include=arguments[2] if len(arguments) > 2 else ())
    with pytest.raises(TypeError, match="it must be a list of folders"):
        Codec.load("x.proto", include="protos")
    with pytest.raises(TypeError, match="include is 5; it must be a list of folders"):
        Codec.load("x.proto", include=5)  # type: ignore[call-overload]
    assert Codec.load("record", include=None).message.name == Codec.load("record").message.name
    (tmp_path / "-x.proto").write_text('syntax = "proto3"; message M {}')
    with pytest.raises(SchemaError, match="rename it"):
        Codec.load(tmp_path / "-x.proto")


def test_circular_imports_and_conflicting_names_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text('syntax = "proto3"; import "b.proto"; message A {}')
    (tmp_path / "b.proto").write_text('syntax = "proto3"; import "a.proto"; message B {}')
    (tmp_path / "c.proto").write_text('syntax = "proto3"; import "d.proto"; message A {}')
    (tmp_path / "d.proto").write_text('syntax = "proto3"; message A {}')
    with pytest.raises(SchemaError, match="recursively imports itself"):
        Codec.load(tmp_path / "a.proto", "A")
    with pytest.raises(SchemaError, match="already defined"):
        Codec.load(tmp_path / "c.proto", "A")


def test_a_full_name_has_precedence(tmp_path: Path) -> None:
    inside = "message Outer { message Inner { int32 n = 1; } }"
    (tmp_path / "far.proto").write_text(f'syntax = "proto3"; package p; {inside}')
    (tmp_path / "near.proto").write_text(f'syntax = "proto3"; import "far.proto"; {inside}')
    codec = Codec.load(tmp_path / "near.proto", "Outer.Inner")
    assert codec.message.name == "Outer.Inner"
    assert pickle.loads(pickle.dumps(codec)).message.name == "Outer.Inner"


def test_a_pickled_codec_keeps_extensions(tmp_path: Path) -> None:
    (tmp_path / "base.proto").write_text('syntax = "proto2"; message M { extensions 100 to 200; }')
    (tmp_path / "more.proto").write_text(
        'syntax = "proto2"; import "base.proto"; extend M { optional int32 x = 100; } message Other {}'
    )
    codec = Codec.load(tmp_path, "M")
    text = '{"[x]":5}'
    assert codec.to_json(codec.from_json(text)) == text
    restored = pickle.loads(pickle.dumps(codec))
    assert restored.to_json(restored.from_json(text)) == text


def test_a_short_name_of_several_messages_is_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.proto").write_text(f'syntax = "proto3"; package {name}; message X {{}}')
    with pytest.raises(SchemaError, match=r"has 2 messages named 'X'; choose one with .*one\.X"):
        Codec.load(tmp_path, "X")
    assert Codec.load(tmp_path, "two.X").message.name == "two.X"
    (tmp_path / "three.proto").write_text('syntax = "proto3"; import "one.proto"; message X { one.X x = 1; }')
    assert Codec.load(tmp_path / "three.proto", "X").message.name == "X"


def test_an_any_may_have_all_types_of_a_folder_or_a_set(tmp_path: Path) -> None:
    """Files with an Any seldom import what is in it."""
    (tmp_path / "invoice.proto").write_text(
        'syntax = "proto3"; package p; message Invoice { string iban = 1; }'
    )
    text = 'syntax = "proto3"; package p; import "google/protobuf/any.proto";'
    (tmp_path / "envelope.proto").write_text(
        f"{text} message Envelope {{ google.protobuf.Any payload = 1; }}"
    )
    value = {"payload": {"@type": "type.googleapis.com/p.Invoice", "iban": "x"}}
    folder = Codec.load(tmp_path, "p.Envelope")
    files = FileDescriptorSet.FromString(folder._source())
    for codec in (folder, Codec(files, "p.Envelope"), pickle.loads(pickle.dumps(folder))):
        encoded = codec.encode(value)
        assert codec.decode(encoded) == value
        assert codec.from_json(codec.to_json(encoded)) == encoded
    assert [file.name for file in files.file][-1] == "envelope.proto"
    alone = Codec.load(tmp_path / "envelope.proto")
    with pytest.raises(EncodeError, match=r"the definition has no type"):
        alone.encode(value)
    assert len(pickle.dumps(Codec.load(tmp_path, "p.Invoice"))) < len(pickle.dumps(folder))
