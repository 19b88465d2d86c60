"""MessagePack and JSON by msgspec, with records as Structs, each with keys and positional."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..families import Family, Field, Record
from .base import Coder, Format

PYTHON_TYPES: dict[str, type] = {"string": str, "bool": bool, "double": float, "time": datetime}


def define(name: str, fields: Sequence[Field], array_like: bool) -> Any:
    """Return the Struct class of a record. Its objects need no garbage collection: they have no cycles."""
    import msgspec

    known: dict[tuple[Field, ...], Any] = {}
    typed = []
    for field in fields:
        kind: Any = PYTHON_TYPES.get(field.kind, int)
        if field.fields:
            if field.fields not in known:
                known[field.fields] = define(f"{name}_sub", field.fields, array_like)
            kind = known[field.fields]
            kind = kind | None if field.kind == "message" else list[kind]  # type: ignore[valid-type]
        typed.append((field.name, kind))
    return msgspec.defstruct(name, typed, array_like=array_like, gc=False)


def open_structs(family: Family, protocol: str, array_like: bool) -> Coder:
    import msgspec

    kind = define(family.name, family.fields, array_like)
    module = getattr(msgspec, protocol)
    encode = module.Encoder().encode

    def prepare(record: Record) -> Any:
        return (
            msgspec.convert({**record}, kind)
            if not array_like
            else msgspec.convert(family.to_values(record), kind)
        )

    def restore(value: Any) -> Record:
        built = msgspec.to_builtins(value, builtin_types=(datetime,))
        return family.from_values(built) if array_like else built

    return Coder(
        encode, module.Decoder(kind).decode, encode, module.Decoder(list[kind]).decode, prepare, restore
    )


def make_format(protocol: str, array_like: bool, times: str) -> Format:
    name = f"msgspec-{protocol}-struct" + "-array" * array_like
    batch = "an array of arrays" if array_like else "an array"
    return Format(
        *(name, "msgspec", not array_like, protocol == "json", "Struct", times, "copies", batch),
        *(lambda family: open_structs(family, protocol, array_like), (("msgspec", "msgspec"),)),
    )


STRUCTS = (
    make_format("json", False, "RFC 3339 text, by the library"),
    make_format("json", True, "RFC 3339 text, by the library"),
    make_format("msgpack", False, "MessagePack's timestamp extension"),
    make_format("msgpack", True, "MessagePack's timestamp extension"),
)
