"""Annotated classes that cannot be messages are errors, which name the field and the fix."""

import collections
import dataclasses
import enum
import re
import typing
from datetime import datetime
from typing import Annotated, Any, ClassVar, NamedTuple

import pytest

from flowbuf import Codec, field
from flowbuf.errors import SchemaError
from tests.support.codec import quoted_classes
from tests.support.codec.classes import Item, Status, make
from tests.support.codec.messages import number_field

attrs = pytest.importorskip("attrs")
msgspec = pytest.importorskip("msgspec")
pydantic = pytest.importorskip("pydantic")


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        (
            Any,
            r"type (typing\.)?Any is not supported; use int, float, str, bytes, bool, datetime, ",
        ),
        (int | str, r"int \| str is a union of several types; use int"),
        (set[int], r"type set\[int\] is not supported"),
        (complex, "type complex is not supported"),
        (object, "type object is not supported"),
        (None, "type NoneType is not supported"),
        (typing.Literal["a"], "type typing.Literal.* is not supported"),
        (collections.OrderedDict, "type OrderedDict is not supported"),
        (list, r"list has no type of elements; write list\[int\], for example"),
        (dict, r"dict has no types of keys and values; write dict\[str, int\], for example"),
        (tuple[int, str], r"tuple\[int, str\] has a fixed number of elements; write tuple\[int, \.\.\.\]"),
        (tuple[int], r"tuple\[int\] has a fixed number of elements"),
        (list[list[int]], "elements of a list or dict cannot be lists or dicts; use an annotated class"),
        (dict[str, list[int]], "values of a list or dict cannot be lists or dicts"),
        (list[dict[str, int]], "elements of a list or dict cannot be lists or dicts"),
        (list[int | None], "elements of a list or dict cannot be None; leave out None"),
        (dict[str, Item | None], "values of a list or dict cannot be None"),
        (list[int] | None, "a list or dict cannot be None; leave out None; an absent list or dict is empty"),
        (dict[str, int] | None, "a list or dict cannot be None"),
        (dict[float, int], "float cannot be the key of a map; use int, str or bool"),
        (dict[Status, int], "Status cannot be the key of a map"),
        (list[Annotated[int, field(1)]], "flowbuf.field is inside of the annotation; write it outermost"),
        (Annotated[int, field(1)] | None, "flowbuf.field is inside of the annotation"),
        (Annotated[int, field(1), field(2)], "has flowbuf.field 2 times; leave one"),
        (Annotated[int, field(1, "string")], "type 'string' does not suit int; use int64 or int32 or uint32"),
        (Annotated[float, field(1, "int64")], "type 'int64' does not suit float; use double or float"),
        (Annotated[int, field(1, "uint33")], "'uint33' is not a scalar type of .*; did you mean uint32"),
        (Annotated[int, field(1, "x")], "'x' is not a scalar type of Protocol Buffers; use int64"),
        (Annotated[Item, field(1, "int32")], "type 'int32' does not suit Item; leave out the type"),
        (Annotated[Status, field(1, "int32")], "type 'int32' does not suit Status"),
        (Annotated[datetime, field(1, "int64")], "type 'int64' does not suit datetime"),
        (Annotated[int, field(0)], "number 0 is out of range; use 1 to 536870911"),
        (Annotated[int, field(-1)], "number -1 is out of range"),
        (Annotated[int, field(1 << 29)], "number 536870912 is out of range"),
        (Annotated[int, field(19000)], r"number 19000 is reserved by Protocol Buffers \(19000 to 19999\)"),
        (Annotated[int, field(19999)], "number 19999 is reserved"),
        (Annotated[int, field("1")], "number '1' is not an int"),  # type: ignore[arg-type]
        (Annotated[bytes, field(True)], "number True is not an int"),
        (
            Annotated[int, field(1, oneof="a")],
            r"a member of a oneof must be optional; add None to .*: T \| None",
        ),
        (Annotated[list[int], field(1, oneof="a")], "a list or dict cannot be a member of a oneof; wrap it"),
        (Annotated[dict[str, int], field(1, oneof="a")], "a list or dict cannot be a member of a oneof"),
        (
            Annotated[int | None, field(1, oneof="a b")],
            "'a b' is not a valid name in Protocol Buffers; use ASCII",
        ),
        (Annotated[int | None, field(1, oneof="")], "'' is not a valid name in Protocol Buffers"),
        (Annotated[int | None, field(1, oneof="value")], "needs the name value in the .proto, like value"),
    ],
)
def test_annotations_without_a_type_in_protobuf_are_errors(hint: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=rf"^Order\.value: {problem}"):
        Codec.from_class(make("Order", value=hint))


@pytest.mark.parametrize("hint", ["int +", "typing.Nothing", "list[int"])
def test_annotations_that_cannot_be_evaluated_are_errors(hint: str) -> None:
    with pytest.raises(
        SchemaError, match=rf"^Order\.value: annotation '{re.escape(hint)}' cannot be evaluated"
    ):
        Codec.from_class(make("Order", value=hint))


def test_the_largest_numbers_are_accepted() -> None:
    cls = make("Order", a=Annotated[int, field((1 << 29) - 1)], b=Annotated[int, field(18999)])
    assert Codec.from_class(cls).encode(cls(1, 1)) == number_field(18999, 1) + number_field((1 << 29) - 1, 1)
    assert Codec.from_class(make("Order", a=Annotated[int, field(20000)])).message.fields[0].number == 20000


def test_numbers_are_explicit_for_all_fields_or_for_none() -> None:
    fix = "number all fields or none; a field inserted later would renumber those after it"
    with pytest.raises(SchemaError, match=rf"^Order\.b: has no number, but a has one; {fix}"):
        Codec.from_class(make("Order", a=Annotated[int, field(1)], b=int))
    with pytest.raises(SchemaError, match=r"^Order\.a: has no number, but b has one"):
        Codec.from_class(make("Order", a=int, b=Annotated[int, field(1)]))
    with pytest.raises(SchemaError, match=r"^Order\.b: number 3 is already used by a; choose an unused"):
        Codec.from_class(make("Order", a=Annotated[int, field(3)], b=Annotated[int, field(3)]))
    assert Codec.from_class(make("Order", a=Annotated[int, "note"], b=int)).message.fields[1].number == 2


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"A": 1}, "^State: has no member with the value 0; add a member such as UNKNOWN = 0"),
        ({}, "^State: has no member with the value 0"),
        ({"A": 0, "B": 1 << 31}, r"^State\.B: 2147483648 does not fit 32 bits; use a smaller value"),
        ({"A": 0, "ä": 1}, r"^State\.ä: 'ä' is not a valid name of a member"),
        ({"A_B": 0, "a_b": 1}, r"^State\.a_b: its name differs from A_B only by case and underscores"),
        ({"A": 0, "STATE_A": 1}, r"^State\.STATE_A: needs the name STATE_A in the .proto, like State\.A;"),
    ],
)
def test_enums_without_an_equivalent_are_errors(members: dict[str, int], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Codec.from_class(make("Order", state=enum.IntEnum("State", members)))


def test_enums_whose_members_are_no_integers_are_errors() -> None:
    for kind, problem in [
        (enum.Enum("Truth", {"A": False}), "members of Truth are not integers"),
        (enum.Enum("Text", {"A": "a"}), "members of Text are not integers; give them values such as 0 and 1"),
        (enum.IntFlag("Bits", {"A": 1}), "Bits is a Flag, whose values are not single members; use int"),
    ]:
        with pytest.raises(SchemaError, match=rf"^Order\.state: {problem}"):
            Codec.from_class(make("Order", state=kind))


def test_two_types_with_one_name_are_errors() -> None:
    other = make("Item", x=int)
    problem = r"Item: needs the name Item in the \.proto, like tests\.support\.codec\.classes\.Item; rename"
    with pytest.raises(SchemaError, match=problem):
        Codec.from_class(make("Order", a=Item, b=other))
    with pytest.raises(SchemaError, match="needs the name Item in"):
        Codec.from_class(make("Order", a=Item), name="Item")
    paint = enum.IntEnum("Status_OPEN", {"A": 0})
    with pytest.raises(SchemaError, match="needs the name A_B_C in"):
        Codec.from_class(
            make("Order", a=enum.IntEnum("A", {"X": 0, "B_C": 1}), b=enum.IntEnum("A_B", {"X": 0, "C": 1}))
        )
    assert Codec.from_class(make("Order", a=Status, b=paint))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"größe": int},
            r"^Order\.größe: 'größe' is not a valid name in Protocol Buffers; use ASCII letters",
        ),
        ({"a_b": int, "aB": int}, r"^Order\.aB: has the same name in JSON as a_b, 'aB'; rename one of them"),
        ({"items": dict[str, int], "ItemsEntry": int}, r"^Order\.ItemsEntry: needs the name ItemsEntry"),
        ({"ItemsEntry": int, "items": dict[str, int]}, r"^Order\.items: needs the name ItemsEntry"),
    ],
)
def test_names_that_protoc_does_not_accept_are_errors(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Codec.from_class(make("Order", **fields))


def test_names_of_messages_and_packages_are_checked() -> None:
    for options, problem in [
        ({"name": "a b"}, "'a b' is not a valid name of a message; pass another one as name="),
        ({"name": ""}, "'' is not a valid name of a message"),
        ({"name": "google"}, "the name 'google' is that of a package of Protocol Buffers; choose another"),
        ({"package": "a..b"}, r"package 'a\.\.b' is invalid; use ASCII letters"),
        ({"package": "1"}, "package '1' is invalid"),
    ]:
        with pytest.raises(SchemaError, match=problem):
            Codec.from_class(Item, **options)  # type: ignore[arg-type]
    assert Codec.from_class(Item, name="google", package="a").message.name == "a.google"
    with pytest.raises(SchemaError, match="'Größe' is not a valid name of a message; use ASCII"):
        Codec.from_class(make("Order", a=make("Größe")))


def test_other_sources_are_errors() -> None:
    kinds = "is not a dataclass, NamedTuple, msgspec.Struct, attrs class or pydantic model"

    class Plain:
        a: int

    for source, problem in [
        (Plain, f"^Plain: {kinds}; add @dataclasses.dataclass"),
        (int, f"^int: {kinds}"),
        (Status, f"^Status: {kinds}; put it into the annotation of a field"),
        (
            collections.namedtuple("Pair", "a b"),
            f"^Pair: {kinds}; a namedtuple has no annotations: use typing",
        ),
    ]:
        with pytest.raises(SchemaError, match=problem):
            Codec.from_class(source)
    for wrong in (Item(), list[int], "Item", None):
        with pytest.raises(TypeError, match="it must be a class"):
            Codec.from_class(wrong)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"^Order\.a: type Plain is not supported"):
        Codec.from_class(make("Order", a=Plain))


# Constructors -----------------------------------------------------------------------------------------------


def constructor_cases() -> list[Any]:
    @dataclasses.dataclass
    class InitFalse:
        a: int = dataclasses.field(init=False, default=0)

    @dataclasses.dataclass
    class NeedsMore:
        factor: dataclasses.InitVar[int]
        a: int = 0

    @dataclasses.dataclass(init=False)
    class Custom:
        a: int

        def __init__(self, value: int) -> None:
            self.a = value

    class NoDecorator(Item):
        b: int

    @attrs.define
    class Private:
        _a: int

    @attrs.define
    class AttrsInitFalse:
        a: int = attrs.field(init=False, default=0)

    @attrs.define
    class AttrsBase:
        a: int

    class AttrsNoDecorator(AttrsBase):
        b: int

    class Pair(NamedTuple):
        a: int

    class Triple(Pair):
        b: int

    class Alias(pydantic.BaseModel):
        a: int = pydantic.Field(alias="A")

    class Dashed(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        a: int = pydantic.Field(validation_alias="a-b")

    @pydantic.dataclasses.dataclass
    class PydanticInitFalse:
        a: int = pydantic.Field(init=False, default=0)

    return [
        (InitFalse, r"^InitFalse\.a: the constructor does not take it \(init=False\).*; remove init=False"),
        (
            NeedsMore,
            "^NeedsMore: the constructor needs 'factor', which is not a field; give it a default value",
        ),
        (Custom, r"^Custom\.a: the constructor of Custom does not take it; add it as a parameter"),
        (
            NoDecorator,
            "^NoDecorator: annotations of the subclass are not fields: b; add @dataclass",
        ),
        (
            AttrsNoDecorator,
            "^AttrsNoDecorator: annotations of the subclass are not fields: b; add @attrs.define",
        ),
        (
            Private,
            r"^Private\._a: the constructor takes it as 'a'; rename it, or write attrs.field\(alias='_a'\)",
        ),
        (Triple, "^Triple: annotations of the subclass are not fields: b; write a NamedTuple with all"),
        (AttrsInitFalse, r"^AttrsInitFalse\.a: the constructor does not take it \(init=False\)"),
        (
            Alias,
            r"^Alias\.a: the constructor takes it as 'A'; remove the alias, use serialization_alias, or set",
        ),
        (Dashed, r"^Dashed\.a: the constructor takes it as 'a-b'"),
        (PydanticInitFalse, r"^PydanticInitFalse\.a: the constructor does not take it \(init=False\)"),
        (
            quoted_classes.Undefined,
            r"^Undefined\.price: annotation 'Decimal' is undefined: .*has no Decimal;",
        ),
    ]


@pytest.mark.parametrize(("cls", "problem"), constructor_cases())
def test_fields_that_the_constructor_does_not_take_are_errors(cls: type, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Codec.from_class(cls)
    with pytest.raises(SchemaError, match=problem):
        Codec.from_class(make("Outer", inner=list[cls]))  # type: ignore[valid-type]


def test_constructors_may_take_all_names() -> None:
    @dataclasses.dataclass(init=False)
    class Open:
        a: int

        def __init__(self, **values: Any) -> None:
            self.a = values["a"]

    @attrs.define
    class Private:
        _a: int = attrs.field(alias="_a")

    class ByName(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(validate_by_name=True, validate_by_alias=False)
        a: int = pydantic.Field(alias="A")

    class Populated(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(populate_by_name=True)
        a: int = pydantic.Field(alias="A")

    class Choices(pydantic.BaseModel):
        a: int = pydantic.Field(validation_alias=pydantic.AliasChoices("A", "a"))

    class Inheriting(Open):
        b: ClassVar[int] = 1
        c: "ClassVar[int]" = 2

    for cls in (Open, Private, ByName, Populated, Choices, Inheriting):
        codec = Codec.from_class(cls)
        assert codec.encode(codec.decode(number_field(1, 5))) == number_field(1, 5)


def test_options_in_the_wrong_place_are_named() -> None:
    fix = r"write it in the annotation: Annotated\[int, flowbuf.field\(1\)\]"

    @dataclasses.dataclass
    class AsDefault:
        a: int = field(5)  # type: ignore[assignment]

    class AsDefaultOfStruct(msgspec.Struct):
        a: int = field(5)  # type: ignore[assignment]

    class AsDefaultOfModel(pydantic.BaseModel):
        a: int = field(5)  # type: ignore[assignment]

    for each in (AsDefault, AsDefaultOfStruct, AsDefaultOfModel):
        with pytest.raises(SchemaError, match=rf"{each.__name__}.a: flowbuf.field is its .*; {fix}"):
            Codec.from_class(each)

    with pytest.raises(SchemaError, match=r"A.b: the annotation has flowbuf.field without a number"):
        Codec.from_class(make("A", b=Annotated[int, field]))
    for wrong in ({"into": dict}, {"message": "M"}):
        with pytest.raises(TypeError, match=r"from_class takes no (into|message): the class is the message"):
            Codec.from_class(make("A", b=int), **wrong)


def test_names_must_be_text() -> None:
    for options in ({"name": 5}, {"package": 5}):
        with pytest.raises(TypeError, match=r"(name|package) is 5; it must be str"):
            Codec.from_class(make("A", b=int), **options)


def test_optional_fields_with_the_names_of_others() -> None:
    """protoc puts X before the name of a oneof that another field has."""
    codec = Codec.from_class(make("A", a=int | None, _a=int | None))
    assert [field.oneof for field in codec.message] == [None, None]
    with pytest.raises(ValueError, match="has no oneof"):
        codec.which_oneof({}, "X_a")
