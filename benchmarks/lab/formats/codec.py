"""flowbuf's codec with the schema of the family, for dicts, tuples and Structs of msgspec.

A batch is a length-delimited stream. msgspec provides only the class, not its codecs. `flowbuf-reference` is
the reference implementation of the tests in plain Python.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..families import Family, Record
from .base import Coder, Format
from .structs import define


def open_dicts(family: Family) -> Coder:
    from flowbuf import Codec

    codec = Codec.load(family.name)
    return Coder(codec.encode, codec.decode, codec.encode_many, codec.decode_many)


def open_tuples(family: Family) -> Coder:
    from flowbuf import Codec

    codec = Codec.load(family.name, into=tuple)
    return Coder(
        *(codec.encode, codec.decode, codec.encode_many, codec.decode_many),
        family.to_values,
        family.from_values,
    )


def open_structs(family: Family) -> Coder:
    import msgspec

    from flowbuf import Codec

    kind = define(family.name, family.fields, False)
    codec = Codec.load(family.name, into=kind)

    def prepare(record: Record) -> Any:
        return msgspec.convert({**record}, kind)

    def restore(value: Any) -> Record:
        built: Record = msgspec.to_builtins(value, builtin_types=(datetime,))
        return built

    return Coder(*(codec.encode, codec.decode, codec.encode_many, codec.decode_many), prepare, restore)


def open_reference(family: Family) -> Coder:
    from flowbuf import Codec
    from tests.reference.codec import Reference

    reference = Reference(Codec.load(family.name).message)
    return Coder(reference.encode, reference.decode, reference.encode_many, reference.decode_many)


def make_format(name: str, shape: str, open: Any, *needs: tuple[str, str]) -> Format:
    times, batch = "google.protobuf.Timestamp", "a length-delimited stream"
    return Format(name, "flowbuf", True, False, shape, times, "copies", batch, open, needs)


FLOWBUF = (
    make_format("flowbuf", "dict", open_dicts),
    make_format("flowbuf-tuple", "tuple", open_tuples),
    make_format("flowbuf-struct", "Struct", open_structs, ("msgspec", "msgspec")),
    make_format("flowbuf-reference", "dict", open_reference),
)
