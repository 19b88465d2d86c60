"""MessagePack, CBOR and pickle, each with keys (dicts) and positional (tuples).

The same library encodes both forms, so their difference is the cost of keys (lab.split).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..families import Family
from .base import Coder, Format
from .text import PARSED, revive

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def open_msgpack() -> tuple[Encode, Decode]:
    import msgpack

    packer = msgpack.Packer(datetime=True)
    unpack = msgpack.unpackb
    return packer.pack, lambda data: unpack(data, timestamp=3)


def open_ormsgpack() -> tuple[Encode, Decode]:
    """Open ormsgpack with times as text.

    With OPT_DATETIME_AS_TIMESTAMP_EXT, version 1.13.1 drops the fraction of a second if its nanoseconds
    need 30 bits.
    """
    import ormsgpack

    return ormsgpack.packb, ormsgpack.unpackb


def open_msgspec() -> tuple[Encode, Decode]:
    import msgspec

    return msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


def open_cbor2() -> tuple[Encode, Decode]:
    import cbor2

    dumps = cbor2.dumps
    return lambda value: dumps(value, datetime_as_timestamp=True), cbor2.loads


def open_pickle() -> tuple[Encode, Decode]:
    import pickle

    dumps, protocol = pickle.dumps, pickle.HIGHEST_PROTOCOL
    return lambda value: dumps(value, protocol), pickle.loads


def make_forms(
    name: str, library: str, opened: Callable[[], tuple[Encode, Decode]], times: str, as_text: bool = False
) -> tuple[Format, Format]:
    """Return the forms of a format with and without keys. `as_text`: the library returns times as text."""

    def open_keyed(family: Family) -> Coder:
        encode, decode = opened()
        decode, decode_batch = revive(decode, family.times if as_text else ())
        return Coder(encode, decode, encode, decode_batch)

    def open_array(family: Family) -> Coder:
        encode, decode = opened()
        positions = tuple(i for i, field in enumerate(family.fields) if field.kind == "time")
        decode, decode_batch = revive(decode, positions if as_text else ())
        return Coder(encode, decode, encode, decode_batch, family.to_values, family.from_values)

    needs = ((library, library),) if library else ()
    return (
        Format(name, library, True, False, "dict", times, "copies", "an array", open_keyed, needs),
        Format(
            f"{name}-array",
            library,
            False,
            False,
            "tuple",
            times,
            "copies",
            "an array of arrays",
            open_array,
            needs,
        ),
    )


EXTENSION = "MessagePack's timestamp extension"
SECONDS = "tag 1: seconds since 1970, a float64 where they are not whole"
BINARY = (
    *make_forms("msgpack", "msgpack", open_msgpack, EXTENSION),
    *make_forms("ormsgpack", "ormsgpack", open_ormsgpack, PARSED, as_text=True),
    *make_forms("msgspec-msgpack", "msgspec", open_msgspec, EXTENSION),
    *make_forms("cbor2", "cbor2", open_cbor2, SECONDS),
    *make_forms("pickle", "", open_pickle, "a pickled datetime"),
)
