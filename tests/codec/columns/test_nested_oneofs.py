"""Messages in oneofs in columns: a member that a later one replaces leaves nothing behind, at any depth."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Codec
from tests.support.codec.messages import bytes_field, number_field, varint

DEFINITION = """
syntax = "proto3";
package t;
message C { repeated int32 v = 1; string s = 2; int32 n = 3; map<int32, string> m = 4; E e = 5; }
message B { oneof y { C c = 1; int32 d = 2; E e = 3; } repeated C cs = 4; }
message E { oneof z { C c = 1; B b = 2; string t = 3; } }
message A { repeated B bs = 1; oneof x { B one = 2; C two = 3; } }
message M { oneof o { A a = 1; int32 b = 2; E e = 3; } repeated A as = 4; }
"""
PATHS = [
    *("a.bs.c.v", "a.bs.c.s", "a.bs.c.m", "a.bs.d", "a.one.c.v", "a.one.c.s", "a.one.d", "a.two.s"),
    *("b", "e.c.v", "e.c.s", "e.t", "e.b.c.n", "e.b.d", "as.bs.c.v", "as.bs.c.s", "as.bs.d", "as.two.v"),
]  # B, C and E contain each other


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec[dict[str, Any]]:
    path: Path = tmp_path_factory.mktemp("protos") / "t.proto"
    path.write_text(DEFINITION)
    return Codec.load(path, "M")


def some(kind: str, rng: random.Random, depth: int) -> bytes:
    """Return random fields of a message, which may repeat members of a oneof."""
    fields = {
        "M": [(1, "A"), (2, int), (3, "E"), (4, "A")],
        "A": [(1, "B"), (1, "B"), (2, "B"), (3, "C")],
        "B": [(1, "C"), (2, int), (3, "E"), (4, "C"), (1, "C")],
        "C": [(1, int), (2, str), (3, int), (4, "pair"), (1, int)],
        "E": [(1, "C"), (2, "B"), (3, str)],
        "pair": [(2, str)],
    }[kind]
    parts = []
    if kind == "pair":
        parts.append(number_field(1, rng.randrange(3)))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        number, inner = rng.choice(fields)
        if inner is int:
            parts.append(number_field(number, rng.randrange(200)))
        elif inner is str:
            parts.append(bytes_field(number, rng.choice([b"", b"abc", b"x" * 40])))
        elif depth:
            parts.append(bytes_field(number, some(inner, rng, depth - 1)))
    return b"".join(parts)


def pick(value: Any, paths: dict[str, Any]) -> Any:
    """Return the chosen fields of an object, and of those in its lists and maps."""
    if isinstance(value, list):
        return [pick(each, paths) for each in value]
    if value is None or not paths:
        return value
    return {name: pick(value[name], inside) for name, inside in paths.items()}


def make_tree(paths: list[str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in paths:
        level = tree
        for name in path.split("."):
            level = level.setdefault(name, {})
    return tree


def test_columns_have_the_values_of_objects(codec: Codec[dict[str, Any]]) -> None:
    chosen = make_tree(PATHS)
    for seed in range(150):
        rng = random.Random(seed)
        messages = [some("M", rng, 7) for _ in range(20)]
        stream = b"".join(varint(len(each)) + each for each in messages)
        expected = [as_columns(pick(each, chosen)) for each in codec.decode_many(stream)]
        for rows in (3, 100):
            table = codec.read_columns(stream, rows, strict=True, columns=PATHS).to_arrow()
            table.validate(full=True)
            assert table.to_pylist() == expected


def as_columns(value: Any) -> Any:
    """Return an object as rows of pyarrow: maps are lists of pairs."""
    if isinstance(value, list):
        return [as_columns(each) for each in value]
    if isinstance(value, dict):
        if value and all(isinstance(key, int) for key in value):
            return [(key, as_columns(value[key])) for key in sorted(value)]
        return {key: [] if each == {} and key == "m" else as_columns(each) for key, each in value.items()}
    return value


def test_dropped_lists_and_texts_below_empty_rows(codec: Codec[dict[str, Any]]) -> None:
    """Only the inner row that is dropped first has values; the rows before it were filled later."""
    inner = bytes_field(1, b"") + bytes_field(1, bytes_field(1, number_field(1, 1)) + number_field(2, 1))
    message = bytes_field(1, inner) + number_field(2, 5)
    paths = ["a.bs.c.v", "a.bs.c.s", "a.bs.d", "b"]
    table = codec.read_columns(varint(len(message)) + message, columns=paths).to_arrow()
    table.validate(full=True)
    assert table.to_pylist() == [{"a": None, "b": 5}]
