"""Invalid documents raise errors of flowbuf: deeply nested TOML and JSON, and damaged descriptor sets."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from flowbuf import Codec, Schema
from flowbuf.codec.descriptors import to_message
from flowbuf.codec.files import find_message, load_files
from flowbuf.enrich.config import Config, read_config
from flowbuf.errors import EnrichmentError, SchemaError
from flowbuf.kafka.schema_registry import read_description
from flowbuf.schema.toml_json import MAX_DEPTH, DocumentError, parse_json, parse_toml

DEPTHS = [MAX_DEPTH + 1, 300, 3000, 200_000]
TOO_DEEP = "is nested deeper than 50 tables or lists"


def nest_toml(depth: int) -> list[str]:
    """Return documents with tables and lists nested to this depth."""
    return [
        "x = " + "[" * (depth - 1) + "]" * (depth - 1),
        "x = " + "{a = " * (depth - 1) + "1" + "}" * (depth - 1),
        "[" + "a." * (depth - 2) + "a]\nb = 1",
        "x = {" + "a." * (depth - 2) + "a = 1}",
        "a." * (depth - 1) + "a = 1",
    ]


@pytest.mark.parametrize("depth", DEPTHS)
def test_deeply_nested_toml_is_an_error(depth: int) -> None:
    for text in nest_toml(depth):
        with pytest.raises(DocumentError, match=TOO_DEEP):
            parse_toml(text)
        with pytest.raises(SchemaError, match=TOO_DEEP):
            Schema.from_toml(text)


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_toml("\ufeffname = 'mine'\n") == {"name": "mine"}


def test_toml_of_the_allowed_depth_is_parsed() -> None:
    for text in nest_toml(MAX_DEPTH):
        assert parse_toml(text)


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        ("1" * 5000, "is not TOML: Exceeds"),
        ("0x" + "f" * 9000, "more than 1024 bits"),
        ("1" * 4000, "1024 bits"),
    ],
)
def test_long_numbers_are_errors(number: str, problem: str, tmp_path: Path) -> None:
    """Python neither parses nor prints numbers of that many decimal digits."""
    text = f'[schema]\nname = "x"\n[[column]]\nname = "v"\ntype = "uint64"\nnumber = {number}\n'
    with pytest.raises(SchemaError, match=problem):
        Schema.from_toml(text)
    path = tmp_path / "network.toml"
    path.write_text(f"refresh = {number}\n")
    with pytest.raises(EnrichmentError, match=problem):
        read_config(Config(str(path)))


def test_numbers_of_1024_bits_are_parsed() -> None:
    assert parse_toml(f"x = {2**1024 - 1}") == parse_json(f'{{"x": {2**1024 - 1}}}') == {"x": 2**1024 - 1}
    with pytest.raises(DocumentError, match="1024 bits"):
        parse_json(f"[{-(2**1024)}]")


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_enrichment_file_is_an_error(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    for text in nest_toml(depth):
        path.write_text(text)
        with pytest.raises(EnrichmentError, match=TOO_DEEP):
            read_config(Config(str(path)))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_schema_description_is_an_error(depth: int) -> None:
    for begin, end in ((b"[", b"]"), (b'{"a":', b"}")):
        inner = begin * depth + b"0" + end * depth
        with pytest.raises(SchemaError, match=TOO_DEEP):
            read_description(b'{"columns":' + inner + b"}")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", "{'a': 1}"])
def test_text_that_is_not_json_is_an_error(text: bytes | str) -> None:
    with pytest.raises(DocumentError, match="is not JSON"):
        parse_json(text)


@pytest.mark.parametrize("value", [0, "text", None, [], {}, [[1], {"a": [2]}]])
def test_json_is_returned_unchanged(value: object) -> None:
    assert parse_json(str(value).replace("'", '"').replace("None", "null").replace("text", '"text"')) == value


# Descriptor sets --------------------------------------------------------------------------------------------


def make_set() -> FileDescriptorSet:
    """Return a descriptor set with names of every kind."""
    files = FileDescriptorSet()
    file = files.file.add(name="file.proto", package="package")
    file.dependency.append("google/protobuf/empty.proto")
    message = file.message_type.add(name="Message")
    message.field.add(name="text", number=1, type=9, label=1, json_name="json", default_value="default")
    message.field.add(name="choice", number=2, type=14, label=1, type_name=".package.Enum")
    message.oneof_decl.add(name="oneof")
    message.field.add(name="inside", number=3, type=5, label=1, oneof_index=0)
    file.enum_type.add(name="Enum").value.add(name="MEMBER", number=0)
    return files


def load(descriptors: bytes) -> str:
    try:
        to_message(find_message(load_files(descriptors, "set"), None, "set"))
    except SchemaError:
        return "error"
    return "message"


def test_damaged_descriptor_sets_load_or_raise_schema_error() -> None:
    """The damage includes invalid UTF-8 in names."""
    good = make_set().SerializeToString()
    assert load(good) == "message"
    chance, outcomes = random.Random(7), Counter[str]()
    for _ in range(5000):
        damaged = bytearray(good)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            damaged[chance.randrange(len(damaged))] = chance.choice([0xFF, 0x80, 0, chance.randrange(256)])
        outcomes[load(bytes(damaged))] += 1
    assert min(outcomes["error"], outcomes["message"]) > 100


def test_invalid_utf8_in_names_is_reported() -> None:
    descriptors = make_set().SerializeToString().replace(b"file.proto", b"fil\xff.proto")
    with pytest.raises(SchemaError, match="names that are not UTF-8"):
        load_files(descriptors, "set")


def test_a_long_chain_of_imports_is_an_error() -> None:
    files = FileDescriptorSet()
    for i in range(3000):
        file = files.file.add(name=f"file{i}.proto", syntax="proto3")
        if i < 2999:
            file.dependency.append(f"file{i + 1}.proto")
    with pytest.raises(SchemaError, match="nested too deeply"):
        load_files(files.SerializeToString(), "set")


def test_a_long_chain_of_message_types_is_an_error(tmp_path: Path) -> None:
    files = FileDescriptorSet()
    file = files.file.add(name="file.proto", syntax="proto3")
    for i in range(3000):
        message = file.message_type.add(name=f"M{i}")
        if i < 2999:
            message.field.add(name="inner", number=1, type=11, label=1, type_name=f".M{i + 1}")
    path = tmp_path / "chain.desc"
    path.write_bytes(files.SerializeToString())
    with pytest.raises(SchemaError, match="message types that are nested too deeply"):
        Codec.load(path, message="M0")


def test_a_proto_file_with_invalid_utf8_is_an_error(tmp_path: Path) -> None:
    if not shutil.which("protoc"):
        pytest.importorskip("grpc_tools")
    path = tmp_path / "latin.proto"
    path.write_bytes(b'syntax = "proto3";\nmessage Caf\xe9 {}\n')
    with pytest.raises(SchemaError, match="does not compile"):
        Codec.load(path)


# Modules ----------------------------------------------------------------------------------------------------


def test_modules_are_searched_last_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flowbuf.enrich.function import import_function

    (tmp_path / "colorsys.py").write_text("def rgb_to_hsv(batch): raise AssertionError\n")
    (tmp_path / "our_own_functions.py").write_text("def enrich(batch): return batch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert import_function("our_own_functions:enrich")(1) == 1
    assert Path(sys.modules["our_own_functions"].__file__ or "").parent == tmp_path
    import_function("colorsys:rgb_to_hsv")
    assert Path(sys.modules["colorsys"].__file__ or "").parent != tmp_path
