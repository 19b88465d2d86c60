"""Classes and TypedDicts that take some of the fields, and enums as members of Python's."""

from __future__ import annotations

import array
import dataclasses
import enum
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pytest
import typing_extensions
from google.protobuf import timestamp_pb2

from flowbuf import UNKNOWN_FIELDS, Codec, DecodeError, EncodeError

DEFINITION = """
syntax = "proto2";
package shop;
enum State { option allow_alias = true; NEW = 0; PAID = 1; SENT = 5; ALSO_SENT = 5; }
message Line {
  optional string name = 1;
  optional double price = 2;
  optional State state = 3 [default = PAID];
  repeated Line parts = 4;
}
message Order {
  optional int64 id = 1;
  repeated Line lines = 2;
  optional State state = 3;
  repeated State history = 4 [packed = true];
  map<string, State> states = 5;
  oneof payment {
    string card = 6;
    State voucher = 7;
    Line gift = 8;
  }
  optional group Extra = 9 { optional bytes note = 10; }
  optional Line first = 11;
  map<string, Line> by_name = 12;
  required int32 version = 13;
}
"""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec[dict[str, Any]]:
    path: Path = tmp_path_factory.mktemp("protos") / "shop.proto"
    path.write_text(DEFINITION)
    return Codec.load(path, "Order")


class State(enum.Enum):
    NEW = 0
    PAID = 1
    SENT = 5


class Number(enum.IntEnum):
    NEW = 0
    PAID = 1


class Text(str, enum.Enum):
    FRESH = "NEW"
    PAID = "has been paid"


ORDER = {
    "id": 7,
    "lines": [{"name": "a", "price": 1.5, "parts": [{"name": "b"}]}, {"name": "c", "state": 0}],
    "state": 5,
    "history": [0, 1, 5],
    "states": {"x": 1},
    "card": "1234",
    "extra": {"note": b"\xff"},
    "first": {"name": "d", "price": 2.5},
    "by_name": {"y": {"name": "e"}},
    "version": 3,
}


# Fields that a class does not take --------------------------------------------------------------------------


@dataclasses.dataclass
class Id:
    id: int


@dataclasses.dataclass
class LineName:
    name: str


@dataclasses.dataclass
class Names:
    by_name: dict[str, LineName]
    first: LineName
    lines: list[LineName]


class Pair(NamedTuple):
    version: int
    id: int


Named = NewType("Named", LineName)
Name = TypeVar("Name")


@dataclasses.dataclass
class GenericLine(Generic[Name]):
    name: Name


@dataclasses.dataclass
class GenericLines(Generic[Name]):
    by_name: dict[str, GenericLine[Name]]
    first: Named
    lines: list[Named]


class Quick(msgspec.Struct):
    version: int
    lines: list[LineName]
    id: int


def test_a_class_may_take_some_of_the_fields(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode(ORDER)
    assert codec.decode(data, Id) == Id(7)
    names = [LineName("a"), LineName("c")]
    assert codec.decode(data, Names) == Names({"y": LineName("e")}, LineName("d"), names)
    assert codec.decode(data, Pair) == Pair(version=3, id=7)
    assert codec.decode(data, Quick) == Quick(3, names, 7)
    assert codec.decode_many(codec.encode_many([ORDER, ORDER]), Id) == [Id(7), Id(7)]
    assert Codec(codec.message_class(), into=Id).decode(data) == Id(7)
    assert codec.decode(b"", Id).id is None


def test_classes_are_found_in_new_types_and_generic_classes(codec: Codec[dict[str, Any]]) -> None:
    names = [LineName("a"), LineName("c")]
    expected = GenericLines({"y": GenericLine("e")}, LineName("d"), names)  # type: ignore[arg-type]
    assert codec.decode(codec.encode(ORDER), GenericLines[str]) == expected
    assert codec.decode(codec.encode(ORDER), GenericLines) == expected


def test_classes_are_found_in_aliases(codec: Codec[dict[str, Any]]) -> None:
    aliases: list[Any] = [typing_extensions.TypeAliasType("Names", list[LineName])]
    if sys.version_info >= (3, 12):
        scope: dict[str, Any] = {"LineName": LineName}
        exec("type Names = list[LineName]", scope)
        aliases.append(scope["Names"])
    for alias in aliases:
        into = dataclasses.make_dataclass("Aliased", [("lines", alias)])
        assert codec.decode(codec.encode(ORDER), into) == into([LineName("a"), LineName("c")])


def test_classes_are_found_in_aliases_with_parameters(codec: Codec[dict[str, Any]]) -> None:
    key, item = TypeVar("key"), TypeVar("item")
    # Its value names the parameters in another order.
    swapped = typing_extensions.TypeAliasType("Swapped", dict[item, list[key]], type_params=(key, item))
    same = typing_extensions.TypeAliasType("Same", item, type_params=(item,))
    aliases: list[Any] = [swapped[LineName, str], same[list[LineName]]]
    if sys.version_info >= (3, 12):
        scope: dict[str, Any] = {"LineName": LineName}
        exec("type Several[T] = list[T]; type Lines = Several[LineName]", scope)
        aliases += [scope["Several"][LineName], scope["Lines"]]
    for alias in aliases:
        into = dataclasses.make_dataclass("Aliased", [("lines", alias)])
        assert codec.decode(codec.encode(ORDER), into) == into([LineName("a"), LineName("c")])


def test_some_of_the_fields_of_a_class_that_takes_any(codec: Codec[dict[str, Any]]) -> None:
    def keep(version: int, **others: Any) -> Any:
        return version, others["id"], len(others)

    assert codec.decode(codec.encode(ORDER), keep) == (3, 7, 11)


def test_fields_that_are_not_taken_are_not_decoded(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode({"id": 7, "version": 1, "lines": [{"name": "abc"}], "card": "xyz"})
    bad = data.replace(b"abc", b"a\xffc").replace(b"xyz", b"\xffyz")
    with pytest.raises(DecodeError):
        codec.decode(bad)
    assert codec.decode(bad, Id) == Id(7)
    with pytest.raises(DecodeError):
        codec.decode(bad, Quick)
    for end in range(len(data)):  # the fields themselves must be whole
        try:
            codec.message_class().FromString(data[:end] + b"")
        except Exception:
            with pytest.raises(DecodeError):
                codec.decode(data[:end], Id)


def test_a_member_of_a_oneof_that_is_not_taken_clears_the_others(codec: Codec[dict[str, Any]]) -> None:
    @dataclasses.dataclass
    class Paid:
        card: str | None
        gift: LineName | None

    card, voucher = codec.encode({"card": "x", "version": 1}), codec.encode({"voucher": 1, "version": 1})
    gift = codec.encode({"gift": {"name": "g"}, "version": 1})
    Paid.__annotations__["gift"] = LineName | None
    assert codec.decode(card, Paid) == Paid("x", None)
    assert codec.decode(card + voucher, Paid) == Paid(None, None)
    assert codec.decode(gift + voucher, Paid) == Paid(None, None)
    assert codec.decode(voucher + gift, Paid) == Paid(None, LineName("g"))
    assert codec.decode(voucher + gift + card, Paid) == Paid("x", None)


def test_arguments_are_not_leaked(codec: Codec[dict[str, Any]]) -> None:
    """Values that are moved to the front are freed once, also if the class fails."""

    class Failing:
        def __init__(self, version: int, id: int) -> None:
            raise KeyError(id)

    data = codec.encode({"id": 1 << 40, "version": 1 << 20})
    for _ in range(1000):
        with pytest.raises(KeyError):
            codec.decode(data, Failing)
        assert codec.decode(data, Pair) == (1 << 20, 1 << 40)


def test_a_class_may_return_none_for_the_value_of_a_map(codec: Codec[dict[str, Any]]) -> None:
    """None is such a value too. The class makes the value of an entry without one from no fields."""
    calls: list[str | None] = []

    class Named:
        def __new__(cls, name: str | None) -> Any:
            calls.append(name)
            return None if name == "none" else name or "default"

    into = dataclasses.make_dataclass("Into", [("by_name", dict[str, Named])])
    lines = {"a": {"name": "x"}, "b": {"name": "none"}, "c": {}}
    data = codec.encode({"by_name": lines, "version": 1}) + b"\x62\x03\x0a\x01d"  # "d" has no value
    assert codec.decode(data, into).by_name == {"a": "x", "b": None, "c": "default", "d": "default"}
    assert sorted(calls, key=str) == [None, None, "none", "x"]


# Members of enums -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Part:
    name: str | None = None
    price: float | None = None
    state: State | None = None
    parts: list[Part] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class States:
    state: State | None
    history: list[State]
    states: dict[str, Annotated[State, "any"]]
    voucher: State | None
    lines: list[Part]


def test_annotated_enums_are_decoded_to_their_members(codec: Codec[dict[str, Any]]) -> None:
    found = codec.decode(codec.encode(ORDER), States)
    assert found == States(
        State.SENT,
        [State.NEW, State.PAID, State.SENT],
        {"x": State.PAID},
        None,
        [
            Part("a", 1.5, State.PAID, [Part("b", state=State.PAID)]),  # the default of the definition
            Part("c", state=State.NEW),
        ],
    )
    assert codec.decode(codec.encode({"voucher": 1, "version": 1}), States).voucher is State.PAID


def test_members_are_encoded(codec: Codec[dict[str, Any]]) -> None:
    expected = codec.encode({"state": 1, "history": [0, 1], "states": {"a": 1}, "version": 1})
    for kind in (State, Number):
        order = {
            "state": kind.PAID,
            "history": [kind.NEW, kind.PAID],
            "states": {"a": kind.PAID},
            "version": 1,
        }
        assert codec.encode(order) == expected
    order = {"state": Text.PAID, "history": [Text.FRESH, Text.PAID], "states": {"a": Text.PAID}, "version": 1}
    assert codec.encode(order) == expected

    class Other(enum.Enum):
        NEW = None
        OLD = "OLD"

    assert codec.encode({"state": Other.NEW, "version": 1}) == codec.encode({"state": 0, "version": 1})
    with pytest.raises(EncodeError, match="state: Other where an enum's number or name is expected"):
        codec.encode({"state": Other.OLD, "version": 1})
    with pytest.raises(EncodeError, match="id: State where an int is expected"):
        codec.encode({"id": State.NEW, "version": 1})


def test_members_are_found_by_value_or_name(codec: Codec[dict[str, Any]]) -> None:
    for kind, members in [
        (Number, [Number.NEW, Number.PAID, 5]),
        (Text, [Text.FRESH, Text.PAID, 5]),
        (State, list(State)),
    ]:
        into = dataclasses.make_dataclass("Into", [("history", list[kind])])  # type: ignore[valid-type]
        history = codec.decode(codec.encode(ORDER), into).history
        assert history == members
        assert list(map(type, history)) == list(map(type, members))


def test_an_enum_of_something_else_is_refused(codec: Codec[dict[str, Any]]) -> None:
    class Color(enum.Enum):
        RED = 77
        GREEN = "g"

    into = dataclasses.make_dataclass("Into", [("state", Color)])
    with pytest.raises(
        TypeError, match="Color has no member of the enum of state: NEW, PAID, SENT, ALSO_SENT"
    ):
        codec.decode(b"", into)


def test_an_element_that_disappears_while_it_is_examined(codec: Codec[dict[str, Any]]) -> None:
    class Vanishing:
        @property
        def __class__(self) -> Any:
            history.clear()
            return Vanishing

    class VanishingText(str):
        @property
        def __class__(self) -> Any:
            history.clear()
            return VanishingText

    for make in (Vanishing, lambda: VanishingText("none")):
        history: list[Any] = [make()]
        with pytest.raises(EncodeError):
            codec.encode({"history": history, "version": 1})


def test_members_whose_values_are_other_names(codec: Codec[dict[str, Any]]) -> None:
    class Swapped(enum.Enum):
        NEW = "PAID"
        PAID = "NEW"

    into = dataclasses.make_dataclass("Into", [("state", Swapped)])
    for member in Swapped:
        assert codec.decode(codec.encode({"state": member, "version": 1}), into).state is member


def test_arguments_by_position_only(codec: Codec[dict[str, Any]]) -> None:
    def take(other: int = 0, /, id: int = 1, version: int = 2) -> Any:
        return other, id, version

    def impossible(id: int, /) -> Any:
        return id

    assert codec.decode(codec.encode(ORDER), take) == (0, 7, 3)
    with pytest.raises(TypeError, match="impossible takes none of the fields"):
        codec.decode(b"", impossible)


@dataclasses.dataclass
class Odd:
    first: LineName
    table: ClassVar[int | x] = 0  # noqa: F821  # not a field, and undefined


def test_annotations_of_other_attributes_may_be_undefined(codec: Codec[dict[str, Any]]) -> None:
    assert codec.decode(codec.encode(ORDER), Odd) == Odd(LineName("d"))


def test_mistakes_with_the_class_are_named(codec: Codec[dict[str, Any]]) -> None:
    for into, message in [
        (Id(1), "into is an instance of Id; it must be a class"),
        (codec.message_class(), "into is a message class of google.protobuf"),
    ]:
        with pytest.raises(TypeError, match=message):
            codec.decode(b"", into)
    with pytest.raises(TypeError, match=r"source is Id; .*; Codec.from_class takes annotated classes"):
        Codec(Id)
    with pytest.raises(TypeError, match="choose a message class of the module"):
        Codec(timestamp_pb2)
    with pytest.raises(EncodeError, match="state: 'PAIDD' is no member of the enum; did you mean PAID"):
        codec.encode({"state": "PAIDD", "version": 1})


# TypedDicts -------------------------------------------------------------------------------------------------


class SomeOfLine(TypedDict):
    name: str


class Parts(SomeOfLine, total=False):
    parts: list[SomeOfLine]
    state: State


class SomeOfOrder(typing_extensions.TypedDict):
    lines: list[SomeOfLine]
    first: typing_extensions.NotRequired[Parts]
    by_name: typing_extensions.Required[dict[str, SomeOfLine]]
    gift: SomeOfLine | None


NESTED = {
    "id": 7,
    "lines": [{"name": "tea", "price": 1.5}, {"name": "cup", "parts": [{"name": "lid"}]}],
    "first": {"name": "tea", "parts": [{"name": "leaf", "price": 2.5}], "state": "SENT"},
    "by_name": {"x": {"name": "tea", "price": 1.5}, "y": {}},
    "version": 3,
}


def test_a_typed_dict_has_only_its_keys(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode(NESTED)
    decoded = codec.decode(data, SomeOfOrder)
    assert type(decoded) is dict
    assert list(decoded) == ["lines", "gift", "first", "by_name"]
    assert decoded == {
        "lines": [{"name": "tea"}, {"name": "cup"}],
        "first": {"name": "tea", "parts": [{"name": "leaf"}], "state": State.SENT},
        "by_name": {"x": {"name": "tea"}, "y": {"name": None}},
        "gift": None,
    }
    assert codec.decode_many(codec.encode_many([NESTED]), SomeOfOrder) == [decoded]
    assert Codec(codec.message_class(), into=SomeOfOrder).decode(data) == decoded
    assert codec.decode(codec.encode({"version": 1}), SomeOfOrder)["lines"] == []


def test_absent_keys_of_a_typed_dict_are_omitted_like_those_of_a_dict(codec: Codec[dict[str, Any]]) -> None:
    omitting = Codec(codec.message_class(), defaults="omit")
    assert omitting.decode(codec.encode(NESTED), SomeOfOrder)["by_name"]["y"] == {}
    assert omitting.decode(b"", SomeOfOrder) == {"lines": [], "by_name": {}}


def test_fields_that_a_typed_dict_lacks_are_not_decoded(codec: Codec[dict[str, Any]]) -> None:
    order = {"first": {"name": "tea", "parts": [{"name": "xyz"}]}, "card": "xyz", "version": 3}
    bad = codec.encode(order).replace(b"xyz", b"x\xffz")

    class Only(TypedDict):
        version: int
        first: SomeOfLine

    assert codec.decode(bad, Only) == {"version": 3, "first": {"name": "tea"}}
    with pytest.raises(DecodeError):
        codec.decode(bad, SomeOfOrder)


def test_a_typed_dict_has_no_unknown_fields(codec: Codec[dict[str, Any]]) -> None:
    keeping = Codec(codec.message_class(), unknown_fields="keep")
    data = codec.encode(NESTED) + b"\xa0\x06\x01"
    assert UNKNOWN_FIELDS in keeping.decode(data)
    assert UNKNOWN_FIELDS not in keeping.decode(data, SomeOfOrder)


def test_keys_of_a_typed_dict_are_fields(codec: Codec[dict[str, Any]]) -> None:
    class Wrong(TypedDict, total=False):
        versions: int
        zzz: int
        id: int

    class Inside(TypedDict):
        lines: list[SomeOfLine]

    Inside.__annotations__["lines"] = list[Wrong]
    with pytest.raises(
        TypeError, match=r"^Wrong has keys that shop\.Order does not have: versions, zzz; did you"
    ):
        codec.decode(b"", Wrong)
    with pytest.raises(
        TypeError, match=r"^Wrong has keys that shop\.Line does not have: id, versions, zzz; remove"
    ):
        codec.decode(b"", Inside)
    with pytest.raises(TypeError, match=r"^empty takes none of the fields of shop\.Order: id"):
        codec.decode(b"", TypedDict("empty", {}))


# Models of pydantic -----------------------------------------------------------------------------------------


def test_a_model_with_aliases_takes_fields_by_name() -> None:
    pydantic = pytest.importorskip("pydantic")
    codec = Codec.load("client_message")
    data = codec.encode({"client": "ana", "text": "hello", "sequence": 3})
    for config in ({"populate_by_name": True}, {"validate_by_name": True}):
        config = pydantic.ConfigDict(alias_generator=str.upper, **config)
        model = pydantic.create_model("Model", __config__=config, client=(str, ...), sequence=(int, 0))
        assert codec.decode(data, model) == model(CLIENT="ana", SEQUENCE=3)
        made = Codec.from_class(model)
        assert made.decode(made.encode(model(CLIENT="ana"))) == model(CLIENT="ana")


def test_a_model_that_takes_aliases_only_is_refused() -> None:
    pydantic = pytest.importorskip("pydantic")
    codec = Codec.load("client_message")
    config = pydantic.ConfigDict(alias_generator=str.upper)
    model = pydantic.create_model("Model", __config__=config, client=(str, ...))
    problem = "Model takes client as 'CLIENT'; set populate_by_name=True in its ConfigDict"
    with pytest.raises(TypeError, match=f"^{problem}$"):
        codec.decode(b"", model)


def test_aliases_that_are_fields_and_own_constructors() -> None:
    pydantic = pytest.importorskip("pydantic")
    codec = Codec.load("client_message")
    data = codec.encode({"client": "ana", "text": "hello"})
    by_alias = pydantic.create_model("by_alias", sender=(str, pydantic.Field(alias="client")))
    assert codec.decode(data, by_alias).sender == "ana"

    class Own(pydantic.BaseModel):
        client: str = pydantic.Field(alias="CLIENT")

        def __init__(self, client: str) -> None:
            super().__init__(CLIENT=client)

    assert codec.decode(data, Own).client == "ana"


# Presence ---------------------------------------------------------------------------------------------------


def test_presence_of_fields_and_members(codec: Codec[dict[str, Any]]) -> None:
    data = codec.encode(ORDER)
    for value in (ORDER, data, bytearray(data), memoryview(data), array.array("B", data)):
        assert codec.has(value, "id")
        assert codec.has(value, "first.price")
        assert codec.has(value, "extra.note")
        assert not codec.has(value, "first.state")  # it has a default in the definition
        assert codec.has(value, "card")
        assert not codec.has(value, "gift")
        assert not codec.has(value, "gift.name")
        assert codec.which_oneof(value, "payment") == "card"
    assert codec.which_oneof({"gift": {}, "version": 1}, "payment") == "gift"
    assert codec.which_oneof({"version": 1}, "payment") is None
    assert codec.which_oneof(codec.encode({"card": "", "version": 1}), "payment") == "card"
    for value, path, message in [
        (ORDER, "idd", "idd: shop.Order has no field idd; did you mean id"),
        (ORDER, "lines", "lines has no presence"),
        (ORDER, "payment", "payment is a oneof; which_oneof returns its member"),
        (ORDER, "lines.name", "lines.name: lines is not a single message"),
        (ORDER, "id.name", "id.name: id is not a single message"),
    ]:
        with pytest.raises(ValueError, match=message):
            codec.has(value, path)
    with pytest.raises(ValueError, match=r"pay: shop.Order has no oneof pay; did you mean payment"):
        codec.which_oneof(ORDER, "pay")
    with pytest.raises(ValueError, match=r"first.x: shop.Line has no oneof x; oneofs of shop.Line are none"):
        codec.which_oneof(ORDER, "first.x")
    with pytest.raises(DecodeError):
        codec.has(b"\xff", "id")
    with pytest.raises(EncodeError):
        codec.has({"id": "x"}, "id")
    telemetry = Codec.load("telemetry")
    with pytest.raises(ValueError, match="device_id has no presence"):
        telemetry.has({}, "device_id")
