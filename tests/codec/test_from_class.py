"""Codecs are created from annotated classes."""

import dataclasses
import enum
import keyword
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NewType, Optional

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

import flowbuf
from flowbuf import Codec, field
from flowbuf.codec.annotations import SCALARS
from flowbuf.codec.classes import to_file
from flowbuf.codec.proto_text import to_text
from flowbuf.errors import EncodeError, SchemaError
from tests.support.codec.classes import Item, Shade, Status, compile_text, make
from tests.support.codec.messages import bytes_field, number_field, tag, varint
from tests.support.codec.quoted_classes import Leaf, Point, Scaled, Tree

attrs = pytest.importorskip("attrs")
msgspec = pytest.importorskip("msgspec")
pydantic = pytest.importorskip("pydantic")

NOON = datetime(2026, 11, 27, 12, 0, 0, 250_000, tzinfo=timezone.utc)
UserId = NewType("UserId", int)


@dataclasses.dataclass
class Everything:
    number: int
    real: float
    text: str
    raw: bytes
    flag: bool
    at: datetime | None
    span: timedelta | None
    status: Status
    item: Item | None
    plain: Item
    o_number: int | None
    o_real: Optional[float]  # noqa: UP045
    o_text: str | None
    o_raw: bytes | None
    o_flag: bool | None
    o_status: Status | None
    numbers: list[int]
    texts: Sequence[str]
    flags: tuple[bool, ...]
    items: list[Item]
    times: list[datetime]
    statuses: list[Status]
    by_name: dict[str, Item]
    by_number: Mapping[int, float]
    by_flag: dict[bool, Status]
    spans: dict[str, timedelta]
    user: UserId
    shade: Shade


EVERYTHING = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";

enum Status { STATUS_OPEN = 0; STATUS_PAID = 2; STATUS_CANCELLED = -1; }
enum Shade { SHADE_OPEN = 0; SHADE_DARK = 1; }
message Item { uint32 article = 1; float price = 2; }
message Everything {
  int64 number = 1; double real = 2; string text = 3; bytes raw = 4; bool flag = 5;
  google.protobuf.Timestamp at = 6; google.protobuf.Duration span = 7; Status status = 8;
  Item item = 9; Item plain = 10;
  optional int64 o_number = 11; optional double o_real = 12; optional string o_text = 13;
  optional bytes o_raw = 14; optional bool o_flag = 15; optional Status o_status = 16;
  repeated int64 numbers = 17; repeated string texts = 18; repeated bool flags = 19;
  repeated Item items = 20; repeated google.protobuf.Timestamp times = 21; repeated Status statuses = 22;
  map<string, Item> by_name = 23; map<int64, double> by_number = 24; map<bool, Status> by_flag = 25;
  map<string, google.protobuf.Duration> spans = 26;
  int64 user = 27; Shade shade = 28;
}
"""

FULL = Everything(
    number=-7,
    real=2.5,
    text="ä",
    raw=b"\xff\0",
    flag=True,
    at=NOON,
    span=timedelta(seconds=-1, microseconds=-500),
    status=Status.PAID,
    item=Item(7, 1.5),
    plain=Item(),
    o_number=1,
    o_real=1.0,
    o_text="x",
    o_raw=b"y",
    o_flag=True,
    o_status=Status.cancelled,
    numbers=[1, -1, 300],
    texts=["", "b"],
    flags=[True, False],
    items=[Item(1), Item()],
    times=[NOON, NOON - timedelta(days=1)],
    statuses=[Status.OPEN, Status.PAID],
    by_name={"a": Item(1, 2.0), "": Item()},
    by_number={-1: 0.5, 0: 0.0},
    by_flag={False: Status.PAID, True: Status.OPEN},
    spans={"long": timedelta(days=3)},
    user=UserId(12),
    shade=Shade.SHADE_DARK,
)
ABSENT = {
    **dict.fromkeys(("at", "span", "item", "plain")),
    **dict.fromkeys(("o_number", "o_real", "o_text", "o_raw", "o_flag", "o_status")),
    **{"number": 0, "real": 0.0, "text": "", "raw": b"", "flag": False, "status": 0, "user": 0, "shade": 0},
    **{name: [] for name in ("numbers", "texts", "flags", "items", "times", "statuses")},
    **{name: {} for name in ("by_name", "by_number", "by_flag", "spans")},
}


def sorted_types(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return the file with its types and imports in the order of their names."""
    sorted_file = FileDescriptorProto(name=file.name, package=file.package, syntax=file.syntax)
    sorted_file.message_type.extend(sorted(file.message_type, key=lambda each: each.name))
    sorted_file.enum_type.extend(sorted(file.enum_type, key=lambda each: each.name))
    sorted_file.dependency.extend(sorted(file.dependency))
    return sorted_file


def text_of(cls: type, **options: str) -> str:
    return to_text(to_file(cls, **options)[0])


# Types ------------------------------------------------------------------------------------------------------


def test_the_definition_is_that_of_the_equivalent_proto(tmp_path: Path) -> None:
    file, name = to_file(Everything, package="shop.v1")
    expected = compile_text(tmp_path, "everything.proto", EVERYTHING)
    assert sorted_types(file) == sorted_types(expected)
    assert name == "shop.v1.Everything"


@pytest.fixture(scope="module")
def expected_class(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = compile_text(tmp_path_factory.mktemp("proto"), "everything.proto", EVERYTHING)
    return Codec(file, "Everything").message_class()


def test_objects_are_encoded_like_the_equivalent_proto(expected_class: Any) -> None:
    message = expected_class(number=-7, real=2.5, text="ä", raw=b"\xff\0", flag=True, status=2)
    message.at.FromDatetime(NOON)
    message.span.FromTimedelta(timedelta(seconds=-1, microseconds=-500))
    message.item.article, message.item.price = 7, 1.5
    message.plain.SetInParent()
    message.o_number, message.o_real, message.o_text, message.o_raw = 1, 1.0, "x", b"y"
    message.o_flag, message.o_status = True, -1
    message.numbers.extend([1, -1, 300])
    message.texts.extend(["", "b"])
    message.flags.extend([True, False])
    message.items.add(article=1)
    message.items.add()
    message.times.add().FromDatetime(NOON)
    message.times.add().FromDatetime(NOON - timedelta(days=1))
    message.statuses.extend([0, 2])
    message.by_name["a"].article, message.by_name["a"].price = 1, 2.0
    message.by_name[""].SetInParent()
    message.by_number.update({-1: 0.5, 0: 0.0})
    message.by_flag.update({False: 2, True: 0})
    message.spans["long"].FromTimedelta(timedelta(days=3))
    message.user, message.shade = 12, 1
    codec = Codec.from_class(Everything, package="shop.v1")
    encoded = codec.encode(FULL)
    assert encoded == message.SerializeToString(deterministic=True)
    decoded = codec.decode(encoded)
    assert decoded == FULL
    assert type(decoded.by_name["a"]) is type(decoded.items[0]) is type(decoded.plain) is Item


def test_absent_values_decode_to_zero_or_none() -> None:
    decoded = Codec.from_class(Everything).decode(b"")
    assert dataclasses.asdict(decoded) == ABSENT


def test_zero_and_absent_are_different_in_optional_fields(expected_class: Any) -> None:
    codec = Codec.from_class(Everything)
    absent = codec.decode(b"")
    assert codec.encode(absent) == b""
    for name, zero in [
        *(("o_number", 0), ("o_real", 0.0), ("o_text", ""), ("o_raw", b""), ("o_flag", False)),
        *(("o_status", Status.OPEN), ("item", Item()), ("at", datetime(1970, 1, 1, tzinfo=timezone.utc))),
        ("span", timedelta()),
    ]:
        encoded = codec.encode(dataclasses.replace(absent, **{name: zero}))
        message = expected_class.FromString(encoded)
        assert [each.name for each, _ in message.ListFields()] == [name]
        assert getattr(codec.decode(encoded), name) == zero
    for name in ("number", "text", "flag", "status"):
        assert codec.encode(dataclasses.replace(absent, **{name: None})) == b""


def test_defaults_of_the_class_are_not_those_of_the_message() -> None:
    @dataclasses.dataclass
    class Retry:
        attempts: int = 3
        delay: float | None = 1.5
        tags: list[str] = dataclasses.field(default_factory=lambda: ["new"])

    codec = Codec.from_class(Retry)
    assert codec.decode(b"") == Retry(0, None, [])
    assert codec.encode(Retry()) == number_field(1, 3) + codec.encode(Retry(0, 1.5, [])) + bytes_field(
        3, b"new"
    )


@pytest.mark.parametrize(
    ("python", "name"), [(python, name) for python, names in SCALARS.items() for name in names]
)
def test_all_scalar_types_can_be_chosen(python: type, name: str, tmp_path: Path) -> None:
    cls = make(
        "Chosen",
        one=Annotated[python, field(1, name)],
        maybe=Annotated[python | None, field(2, name)],
        many=Annotated[list[python], field(3, name)],
        named=Annotated[dict[str, python], field(4, name)],
    )
    text = (
        f"{name} one = 1; optional {name} maybe = 2; repeated {name} many = 3; map<string, {name}> named = 4;"
    )
    text = f'syntax = "proto3"; message Chosen {{ {text} }}'
    assert to_file(cls)[0] == compile_text(tmp_path, "chosen.proto", text)
    value = {int: 300, float: 1.5, str: "x", bytes: b"x", bool: True}[python]
    codec = Codec.from_class(cls)
    full = cls(value, value, [value, value], {"k": value})
    assert codec.decode(codec.encode(full)) == full


def test_chosen_types_have_their_wire_format() -> None:
    cls = make(
        "Wire",
        signed=Annotated[int, field(1, "sint32")],
        fixed=Annotated[int, field(2, "fixed32")],
        single=Annotated[float, field(3, "float")],
        packed=Annotated[list[int], field(16, "sint64")],
    )
    encoded = Codec.from_class(cls).encode(cls(-2, 1, 1.0, [-1, 1]))
    parts = [
        number_field(1, 3),
        tag(2, 5) + b"\1\0\0\0",
        tag(3, 5) + b"\0\0\x80\x3f",
        bytes_field(16, b"\1\2"),
    ]
    assert encoded == b"".join(parts)
    with pytest.raises(EncodeError, match="fixed: -1 is out of range: 0 to 4294967295"):
        Codec.from_class(cls).encode(cls(0, -1, 0.0, []))


def test_members_of_a_oneof_exclude_each_other() -> None:
    @dataclasses.dataclass
    class Payment:
        card: Annotated[str | None, field(1, oneof="method")] = None
        total: Annotated[int, field(2)] = 0
        cash: Annotated[Item | None, field(3, oneof="method")] = None
        note: Annotated[str | None, field(4)] = None

    oneof = "  oneof method {\n    string card = 1;\n    Item cash = 3;\n  }\n"
    others = "  int64 total = 2;\n  optional string note = 4;\n"
    assert f"message Payment {{\n{oneof}{others}}}\n" in text_of(Payment)
    codec = Codec.from_class(Payment)
    for payment, encoded in [
        (Payment(), b""),
        (Payment(card=""), bytes_field(1, b"")),
        (Payment(cash=Item()), bytes_field(3, b"")),
        (Payment(card="x", total=1), bytes_field(1, b"x") + number_field(2, 1)),
    ]:
        assert codec.encode(payment) == encoded
        assert codec.decode(encoded) == payment
    with pytest.raises(EncodeError, match="cash"):
        codec.encode(Payment(card="", cash=Item()))


def test_members_of_enums_have_the_enum_as_prefix() -> None:
    cls = make("Paint", status=Status, shade=Shade)
    codec = Codec.from_class(cls)
    assert codec.to_json(codec.encode(cls(-1, 1))) == '{"status":"STATUS_CANCELLED","shade":"SHADE_DARK"}'
    assert codec.encode({"status": "STATUS_PAID", "shade": Shade.OPEN}) == number_field(1, 2)
    assert codec.encode(cls(7, 0)) == number_field(1, 7)  # enums of proto3 are open


def test_members_are_decoded_as_members() -> None:
    plain = enum.Enum("Plain", {"A": 0, "B": -5})
    for of, member in ((Status, Status.PAID), (plain, plain(-5))):
        cls = make("Paint", each=of, more=list[of], named=dict[str, of])  # type: ignore[valid-type]
        codec = Codec.from_class(cls)
        found = codec.decode(codec.encode(cls(member, [member, of(0)], {"a": member})))
        assert found == cls(member, [member, of(0)], {"a": member})
        assert type(found.each) is type(found.more[1]) is type(found.named["a"]) is of
        assert codec.decode(b"").each is of(0)


def test_aliases_of_members_are_left_out() -> None:
    class Level(enum.IntEnum):
        LOW = 0
        NORMAL = 0
        HIGH = 1

    cls = make("Alarm", level=Level)
    assert "{\n  LEVEL_LOW = 0;\n  LEVEL_HIGH = 1;\n}" in text_of(cls)
    assert Codec.from_class(cls).encode(cls(Level.NORMAL)) == b""


# Kinds of classes -------------------------------------------------------------------------------------------


class AsNamedTuple(NamedTuple):
    id: int
    items: list[Item]
    note: str | None = None


class AsStruct(msgspec.Struct, rename="camel", kw_only=True):
    id: int
    items: list[Item]
    note: str | None = None
    limit: ClassVar[int] = 5


@attrs.define(kw_only=True)
class AsAttrs:
    id: int
    items: list[Item] = attrs.field(factory=list)
    note: str | None = None
    limit: ClassVar[int] = 5


class AsModel(pydantic.BaseModel):
    id: int = pydantic.Field(ge=0)
    items: list[Item] = pydantic.Field(default_factory=list)
    note: str | None = pydantic.Field(default=None, serialization_alias="Note")
    limit: ClassVar[int] = 5
    _cache: int = 7


@pydantic.dataclasses.dataclass
class AsPydanticDataclass:
    id: int
    items: list[Item]
    note: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class AsDataclass:
    id: int
    items: list[Item] = dataclasses.field(default_factory=list)
    note: str | None = None
    limit: ClassVar[int] = 5


KINDS = [AsNamedTuple, AsStruct, AsAttrs, AsModel, AsPydanticDataclass, AsDataclass]


@pytest.mark.parametrize("cls", KINDS)
def test_each_kind_of_class_makes_a_round_trip(cls: Any) -> None:
    codec = Codec.from_class(cls)
    assert codec.message.name == cls.__name__
    item = bytes_field(2, number_field(1, 9))
    for value, encoded in [
        (cls(id=0, items=[]), b""),
        (cls(id=0, items=[], note=""), bytes_field(3, b"")),
        (cls(id=1, items=[Item(9)], note="n"), number_field(1, 1) + item + bytes_field(3, b"n")),
    ]:
        assert codec.encode(value) == encoded
        decoded = codec.decode(encoded)
        assert type(decoded) is cls
        assert decoded == value
    assert type(codec.decode(item).items[0]) is Item
    restored = pickle.loads(pickle.dumps(codec))
    assert restored.decode(item) == codec.decode(item)
    assert codec.decode(item, dict) == {"id": 0, "items": [{"article": 9, "price": 0.0}], "note": None}


@pytest.mark.parametrize("cls", KINDS)
def test_classes_of_different_kinds_are_nested(cls: Any) -> None:
    outer = make("Outer", inner=cls, more=tuple[cls, ...], named=Mapping[str, cls])
    codec = Codec.from_class(outer)
    inner = cls(id=1, items=[Item(2)])
    value = outer(inner, [inner, inner], {"a": inner})
    assert codec.decode(codec.encode(value)) == value


def test_exceptions_of_the_constructor_are_passed_on() -> None:
    class Model(pydantic.BaseModel):
        item: AsModel

    codec = Codec.from_class(Model)
    assert codec.decode(bytes_field(1, b"")) == Model(item=AsModel(id=0))
    with pytest.raises(pydantic.ValidationError, match="item"):
        codec.decode(b"")
    with pytest.raises(pydantic.ValidationError, match="greater than or equal to 0"):
        codec.decode(bytes_field(1, number_field(1, -1)))


def test_libraries_are_not_imported() -> None:
    program = """if True:
        import sys
        from flowbuf import Codec
        from tests.support.codec.quoted_classes import Tree
        assert Codec.from_class(Tree).decode(b"") == Tree(0)
        print({"attr", "attrs", "msgspec", "pydantic"} & sys.modules.keys())
    """
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_annotations_may_be_texts() -> None:
    codec = Codec.from_class(Tree)
    leaf = Leaf("red", Tree(2))
    tree = Tree(1, "root", Tree(3, weight=0.5), [Tree(4)], {"a": leaf})
    assert codec.decode(codec.encode(tree)) == tree
    assert [(each.name, each.number) for each in codec.message] == [
        ("id", 1), ("name", 2), ("left", 3), ("branches", 4), ("named", 5), ("weight", 6)
    ]  # fmt: skip
    points = Codec.from_class(Point)
    assert points.encode(Point(-1, Point(1))) == bytes_field(1, number_field(2, 2)) + number_field(2, 1)
    assert points.decode(points.encode(Point(-1, Point(1)))) == Point(-1, Point(1))


def test_arguments_of_the_constructor_may_have_defaults() -> None:
    """An InitVar is not a field."""
    codec = Codec.from_class(Scaled)
    assert codec.encode(Scaled(3, 2)) == number_field(1, 6)
    assert codec.decode(number_field(1, 6)) == Scaled(1, 6)


def test_inherited_fields_are_first() -> None:
    class Base(msgspec.Struct):
        a: int

    class Derived(Base):
        b: str

    @attrs.define
    class AttrsDerived(attrs.make_class("AttrsBase", {"a": attrs.field(type=int)})):  # type: ignore[misc]
        b: str

    class ModelBase(pydantic.BaseModel):
        a: int

    class ModelDerived(ModelBase):
        b: str

    for cls in (Derived, AttrsDerived, ModelDerived):
        assert "{\n  int64 a = 1;\n  string b = 2;\n}" in text_of(cls)


def test_options_are_those_of_a_codec() -> None:
    codec = Codec.from_class(Everything, name="All", package="a.b", times="ns", enums="name")
    assert codec.message.name == "a.b.All"
    decoded = codec.decode(codec.encode(FULL), dict)
    assert (decoded["span"], decoded["status"]) == (-1_000_500_000, "STATUS_PAID")

    class Sub(Codec):
        pass

    assert type(Sub.from_class(Item)) is Sub


def test_a_message_may_have_no_fields() -> None:
    cls = make("Nothing")
    assert Codec.from_class(cls).decode(b"") == cls()
    assert text_of(cls) == 'syntax = "proto3";\n\nmessage Nothing {\n}\n'


def test_field_returns_frozen_options() -> None:
    options = flowbuf.field(3, "sint32", oneof="a")
    assert (options.number, options.type, options.oneof) == (3, "sint32", "a")
    assert options == field(3, "sint32", oneof="a")
    assert hash(options)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.number = 4  # type: ignore[misc]


# The .proto text --------------------------------------------------------------------------------------------

WORDS = [
    "message",
    "enum",
    "oneof",
    "map",
    "string",
    "int64",
    "option",
    "google",
    "x",
    "_x",
    "X_x",
    "a",
    "Item",
]
NAMES = st.sampled_from(WORDS) | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
LEAVES = [int, str, bool, bytes, float, datetime, timedelta, Item, Status]


@st.composite
def classes(draw: st.DrawFn) -> type:
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    inner = [make(draw(NAMES), a=int), enum.IntEnum(draw(NAMES), {"A": 0, "B": 1})]
    fields = {}
    for number, name in enumerate(names, 1):
        leaf = draw(st.sampled_from([*LEAVES, *inner]))
        forms = [leaf, leaf | None, list[leaf], dict[str, leaf]]
        options = field(number, oneof=draw(st.none() | NAMES))
        fields[name] = Annotated[draw(st.sampled_from(forms)), options]
    return make(draw(NAMES), **fields)


@given(classes(), st.sampled_from(["", "shop", "a.google", "x.Item"]))
def test_protoc_compiles_the_text_to_the_same_descriptor(
    tmp_path_factory: pytest.TempPathFactory, cls: type, package: str
) -> None:
    """Classes that protoc would not accept are errors."""
    try:
        file, name = to_file(cls, package=package)
    except SchemaError:
        return
    assert compile_text(tmp_path_factory.getbasetemp(), file.name, to_text(file)) == file
    assert Codec(file, name).message.name == name


def test_the_text_has_a_comment_and_imports() -> None:
    cls = make("Event", at=datetime, span=timedelta | None, google=list[int])
    assert to_text(to_file(cls, package="shop")[0], "Class Event.") == (
        '// Class Event.\nsyntax = "proto3";\n\npackage shop;\n\nimport "google/protobuf/duration.proto";\n'
        'import "google/protobuf/timestamp.proto";\n\nmessage Event {\n  .google.protobuf.Timestamp at = 1;\n'
        "  .google.protobuf.Duration span = 2;\n  repeated int64 google = 3;\n}\n"
    )


def test_varints_of_the_support_code_are_known() -> None:
    assert varint(300) == b"\xac\x02"
