"""A record has the same message in each shape: dict, tuple, Struct, and object with or without slots.

Simple values are written and read on fast paths. These tests compare them with the reference, at the limits
of the values that the fast paths take.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import pytest

from flowbuf import Codec, field
from flowbuf.errors import DecodeError, EncodeError
from tests.reference.codec import CodecError, Reference
from tests.support.codec.messages import varint

INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64")
HINTS: dict[str, tuple[Any, str | None]] = {
    **{kind: (int, kind) for kind in INTEGERS},
    **{"real": (float, None), "text": (str, None), "raw": (bytes, None), "flag": (bool, None)},
    **{f"o_{kind.__name__}": (kind | None, None) for kind in (int, float, str, bytes, bool)},
}
Kinds: Any = dataclasses.make_dataclass(
    "Kinds",
    [
        (name, Annotated[hint, field(number, type=kind)])
        for number, (name, (hint, kind)) in enumerate(HINTS.items(), 1)
    ],
)
NAMES = tuple(HINTS)
CODEC = Codec.from_class(Kinds)
NESTED = Codec.from_class(
    dataclasses.make_dataclass("Outer", [("name", str), ("inner", Kinds | None), ("all", list[Kinds])])
)
Slots = dataclasses.make_dataclass("Slots", NAMES, slots=True)
Struct = msgspec.defstruct("Struct", NAMES, gc=False)
SHAPES = {
    "dict": dict,
    "dict in another order": lambda record: dict(reversed(record.items())),
    "dict with other key objects": lambda record: {
        name.encode().decode(): value for name, value in record.items()
    },
    "tuple": lambda record: tuple(record.values()),
    "slots": lambda record: Slots(**record),
    "attributes": lambda record: Kinds(**record),
    "Struct": lambda record: Struct(**record),
}
ZEROS: dict[str, Any] = {
    **dict.fromkeys(NAMES[:6], 0),
    **{"real": 0.0, "text": "", "raw": b"", "flag": False},
    **dict.fromkeys(NAMES[10:]),
}


class Text(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


class Real(float):
    __slots__ = ()


class Raw(bytes):
    pass


BITS = (7, 14, 28, 30, 31, 32, 56, 60, 63, 64)
INTS = [
    *(sign * (2**bits + more) for bits in BITS for more in (-1, 0, 1) for sign in (1, -1)),
    *(0, 1, -1, 10**30, True, False, Number(300), Number(0), 1.0, "1", None),
]
TEXTS = ["", "a", "a" * 15, "a" * 16, "a" * 33, "a" * 127, "a" * 128, "a" * 9999, "é", "日" * 99, Text("b")]
RAWS = [*(text.encode() for text in TEXTS), Raw(b"c"), bytearray(b"d"), memoryview(b"ee"), "text"]
REALS = [0.0, -0.0, 1.5, float("inf"), 1, 2**70, 10**400, True, Real(0.5), Real(0.0), "1", None]
FLAGS = [True, False, 0, 1, Number(1), "1", 1.0, None]
VALUES: dict[str, list[Any]] = {
    **dict.fromkeys((*NAMES[:6], "o_int"), INTS),
    **{"real": REALS, "o_float": REALS, "flag": FLAGS, "o_bool": FLAGS},
    **{"text": [*TEXTS, None, b"a", "\ud800"], "o_str": [*TEXTS, None, b"a"], "raw": RAWS, "o_bytes": RAWS},
}


def encode(codec: Any, value: Any) -> Any:
    """Return the message, or the type of the error."""
    try:
        return codec.encode(value)
    except (EncodeError, CodecError):
        return EncodeError


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_each_shape_has_the_message_of_the_reference(name: str, shape: str) -> None:
    reference = Reference(CODEC.message)
    full = {**ZEROS, **dict.fromkeys(NAMES[:6], 300), "text": "t", "raw": b"r", "o_str": "", "o_int": 0}
    for value in VALUES[name]:
        for record in ({**ZEROS, name: value}, {**full, name: value}):
            expected = encode(reference, record)
            for _ in range(2):  # the second object has a class and keys that are known
                assert encode(CODEC, SHAPES[shape](record)) == expected, value


@pytest.mark.parametrize("shape", SHAPES)
def test_nested_records_of_each_shape_have_the_message_of_the_reference(shape: str) -> None:
    records = [{**ZEROS, name: value} for name in ("int64", "text", "raw") for value in VALUES[name]]
    reference = Reference(NESTED.message)
    for record in records:
        make = SHAPES[shape]
        inner = {"name": "n", "inner": record, "all": [ZEROS, record, ZEROS]}
        given = {"name": "n", "inner": make(record), "all": [make(ZEROS), make(record), make(ZEROS)]}
        assert encode(NESTED, given) == encode(NESTED, tuple(given.values())) == encode(reference, inner)


@pytest.mark.parametrize("shape", SHAPES)
def test_errors_name_the_first_invalid_field_of_each_shape(shape: str) -> None:
    for first, second in pairwise(NAMES):
        record = {**ZEROS, first: object(), second: object()}
        with pytest.raises(EncodeError) as caught:
            CODEC.encode_many([SHAPES[shape](ZEROS), SHAPES[shape](record)])
        assert caught.value.path == f"[1].{first}"
        assert CODEC.encode(SHAPES[shape](ZEROS)) == b""  # nothing is left of the object that failed


@pytest.mark.parametrize("shape", ["slots", "Struct"])
@pytest.mark.parametrize("name", [NAMES[0], NAMES[7], NAMES[-1]])
def test_deleted_attributes_are_missing(name: str, shape: str) -> None:
    for number in range(3):
        record = SHAPES[shape]({**ZEROS, "int32": 5})
        assert CODEC.encode(record) == b"\x08\x05"
        delattr(record, name)
        with pytest.raises(EncodeError) as caught:
            CODEC.encode_many([ZEROS] * number + [record])
        expected = f"[{number}].{name}: {type(record).__name__} has no such attribute"
        assert str(caught.value) == expected


def test_other_keys_after_those_of_the_fields_are_refused_or_kept() -> None:
    with pytest.raises(EncodeError, match="unknown key 'more'"):
        CODEC.encode({**ZEROS, "more": 1})
    codec = Codec(CODEC.descriptor, unknown_keys="ignore")
    assert codec.encode({**ZEROS, "int32": 1, "more": 1}) == b"\x08\x01"
    assert codec.encode({"int32": 1, "more": 1, "int64": 2}) == b"\x08\x01\x10\x02"


def test_user_code_may_change_an_object_whose_first_fields_are_written() -> None:
    class Meddler:
        def __index__(self) -> int:
            for name in NAMES:
                setattr(record, name, None)
            record.uint64 = 9
            return 3

    for kind in (Slots, Struct, Kinds):
        record = kind(**{**ZEROS, "int32": 1, "int64": 2, "uint32": Meddler(), "uint64": 4})
        assert CODEC.encode(record) == b"\x08\x01\x10\x02\x18\x03\x20\x04"
        assert CODEC.encode(record) == b"\x20\x09"


def test_lists_may_change_while_their_objects_are_encoded() -> None:
    class Meddler:
        def __index__(self) -> int:
            records.clear()
            return 3

    for kind in (Slots, Struct, lambda **record: record, lambda **record: tuple(record.values())):
        records = [
            kind(**{**ZEROS, "text": "".join(["lo", "ng"]) * 9, "o_int": number})
            for number in (1, Meddler(), 2)
        ]
        assert len(CODEC.decode_many(CODEC.encode_many(records))) == 2
        records = [kind(**{**ZEROS, "o_int": number}) for number in (1, Meddler(), 2)]
        outer = {"all": records}
        assert len(NESTED.decode(NESTED.encode(outer)).all) == 2


# Decoding ---------------------------------------------------------------------------------------------------


def decode(codec: Any, message: bytes, *into: Any) -> str:
    """Return the decoded values, or the name of the error. 1 differs from True, and 0.0 from -0.0."""
    try:
        record = codec.decode(message, *into)
    except (DecodeError, CodecError):
        return "refused"
    if dataclasses.is_dataclass(record):
        record = [getattr(record, name) for name in NAMES]
    return repr(list(record.values() if isinstance(record, dict) else record))


def each_field(message: bytes) -> list[bytes]:
    """Split a message into its fields."""
    record = CODEC.decode(message, dict)
    return [CODEC.encode({name: value}) for name, value in record.items() if CODEC.encode({name: value})]


MESSAGES = [
    CODEC.encode(record)
    for record in (
        {**dict.fromkeys(NAMES[:6], 2**30), "real": 1.5, "text": "é", "raw": b"r" * 200, "flag": True},
        {
            **dict.fromkeys(NAMES[:6], 5),
            "real": -0.0,
            "text": "t" * 127,
            "raw": b"",
            "o_str": "",
            "o_bool": False,
        },
        {"int64": -(2**63), "uint64": 2**64 - 1, "sint64": -(2**63), "text": "t" * 128, "o_int": -1},
        {"int32": -(2**31), "uint32": 2**32 - 1, "sint32": -(2**31), "o_bytes": b"", "o_float": 0.0},
    )
]


@pytest.mark.parametrize("into", [dict, tuple, Kinds])
@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_messages_in_any_order_are_decoded_as_by_the_reference(message: bytes, into: Any) -> None:
    reference = Reference(CODEC.message)
    fields = each_field(message)
    assert b"".join(fields) == message
    variants = [message[:size] for size in range(len(message) + 1)]
    variants += [message + other for other in (*MESSAGES, b"\x00", b"\x80", b"\xfa\x01\x00")]
    variants += [b"".join(fields[i:] + fields[:i]) for i in range(len(fields))]
    variants += [b"".join(reversed(fields)), b"".join(each + each for each in fields)]
    variants += [message.replace(field, b"\xfa\x01\x01?" + field) for field in fields]
    for variant in variants:
        assert decode(CODEC, variant, into) == decode(reference, variant), variant.hex()


def test_parts_of_a_nested_message_are_merged_field_by_field() -> None:
    reference = Reference(NESTED.message)
    for first in MESSAGES:
        for second in (b"", *MESSAGES):
            parts = [b"\x12" + varint(len(part)) + part for part in (first, second, second[:40])]
            for count in (1, 2, 3):
                message = b"".join(parts[:count])
                assert decode(NESTED, message, dict) == decode(reference, message), message.hex()
