"""Codecs encode objects of many types, decode messages into a chosen type, and report errors with a path."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import types
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Annotated, Any

import pytest

from flowbuf import UNKNOWN_FIELDS, Codec
from flowbuf.codec import outputs
from flowbuf.errors import DecodeError, EncodeError
from tests.support.codec.messages import bytes_field, make_codec, message_class, number_field
from tests.support.codec.records import EVERYTHING, MESSAGE, READING, RECORD, UTC, problem

msgspec = pytest.importorskip("msgspec")
np = pytest.importorskip("numpy")

TREE = make_codec("Tree")
OLD = make_codec("Old")

FIELDS = list(RECORD)

Plain = dataclasses.make_dataclass("Plain", FIELDS)
Slotted = dataclasses.make_dataclass("Slotted", FIELDS, slots=True)
Struct = msgspec.defstruct("Struct", FIELDS)
Named = namedtuple("Named", FIELDS)


class Wrapped(Mapping):  # type: ignore[type-arg]
    """A mapping that is not a dict."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def __getitem__(self, key: str) -> Any:
        return self.record[key]

    def __iter__(self) -> Any:
        return iter(self.record)

    def __len__(self) -> int:
        return len(self.record)


# Encoding ---------------------------------------------------------------------------------------------------


def test_messages_equal_those_of_google_protobuf() -> None:
    theirs = message_class("Reading").FromString(MESSAGE)
    assert theirs.site == "Zürich"
    assert theirs.time.ToNanoseconds() == 1709208000_123456000
    assert theirs.uptime.ToTimedelta() == RECORD["uptime"]
    assert theirs.SerializeToString(deterministic=True) == MESSAGE


@pytest.mark.parametrize(
    "make",
    [
        lambda record: record,
        lambda record: tuple(record.values()),
        lambda record: Plain(**record),
        lambda record: Slotted(**record),
        lambda record: Struct(**record),
        lambda record: Named(**record),
        lambda record: types.SimpleNamespace(**record),
        lambda record: type("Anything", (), {**record, "more": 1}),
        lambda record: Wrapped(record),
        lambda record: OrderedDict(reversed(record.items())),
        lambda record: types.MappingProxyType(record),
        lambda record: {"".join(list(key)): value for key, value in record.items()},
        lambda record: {np.str_(key): value for key, value in record.items()},
    ],
    ids=[
        *(
            "dict",
            "tuple",
            "dataclass",
            "slots",
            "Struct",
            "namedtuple",
            "object",
            "class",
            "Mapping",
            "OrderedDict",
        ),
        *("proxy", "keys not interned", "numpy keys"),
    ],
)
def test_objects_may_be_mappings_tuples_or_instances(make: Any) -> None:
    for _ in range(3):
        assert READING.encode(make(RECORD)) == MESSAGE
    assert READING.encode_many([make(RECORD)] * 2) == READING.encode_many([RECORD] * 2)


def test_none_and_missing_values_are_absent() -> None:
    assert READING.encode({}) == READING.encode(dict.fromkeys(FIELDS)) == READING.encode((None,) * 12) == b""
    assert EVERYTHING.encode({"o_int32": 0, "f_int32": 0}) == number_field(17, 0)
    assert EVERYTHING.encode({"r_int32": [], "m_int32": {}, "trees": ()}) == b""
    assert EVERYTHING.encode({"tree": {}, "trees": [{}]}) == bytes_field(50, b"") + bytes_field(51, b"")


def test_repeated_fields_take_any_iterable() -> None:
    expected = EVERYTHING.encode({"r_int32": [1, 2, 3]})
    for values in (
        (1, 2, 3),
        iter([1, 2, 3]),
        range(1, 4),
        np.array([1, 2, 3]),
        {1: 0, 2: 0, 3: 0}.keys(),
        bytes([1, 2, 3]),
    ):
        assert EVERYTHING.encode({"r_int32": values}) == expected
    assert EVERYTHING.encode({"r_double": np.array([1.5, 2])}) == EVERYTHING.encode({"r_double": [1.5, 2.0]})


def test_numbers_and_bytes_of_other_types_are_encoded() -> None:
    record = {
        "f_int32": np.int8(-1),
        "f_uint64": np.uint64(2**64 - 1),
        "f_double": Decimal("1.5"),
        "f_float": Fraction(1, 4),
    }
    assert EVERYTHING.encode(record) == EVERYTHING.encode(
        {"f_int32": -1, "f_uint64": 2**64 - 1, "f_double": 1.5, "f_float": 0.25}
    )
    for truth in (True, 1, 300, np.bool_(True), np.int64(1)):
        assert EVERYTHING.encode({"f_double": 3, "f_bool": truth}) == EVERYTHING.encode(
            {"f_double": 3.0, "f_bool": 1}
        )
    assert EVERYTHING.encode({"f_bool": np.uint8(0)}) == b""
    for value in (bytearray(b"ab"), memoryview(b"ab"), np.frombuffer(b"ab", "u1")):
        assert EVERYTHING.encode({"f_bytes": value}) == EVERYTHING.encode({"f_bytes": b"ab"})


def test_enums_are_encoded_from_numbers_names_and_members() -> None:
    level = IntEnum("level", {"HIGH": 5})
    name = Enum("name", {"HIGH": "HIGH"}, type=str)
    for value in (5, "HIGH", level.HIGH, name.HIGH, np.str_("HIGH"), np.int64(5)):
        assert READING.encode({"level": value}) == number_field(8, 5)
    named = make_codec("Reading", enums="name")
    assert named.decode(number_field(8, 5))["level"] == "HIGH"
    assert named.decode(number_field(8, 77))["level"] == 77
    assert named.decode(b"")["level"] == "LOW"
    assert make_codec("Old", enums="name").decode(b"")["o_enum"] == "TWO"


def test_many_objects_are_encoded_as_a_stream() -> None:
    stream = READING.encode_many(record for record in [RECORD, {}, {"raw": bytes(300)}])
    assert stream.startswith(bytes([len(MESSAGE) & 127 | 128 if len(MESSAGE) > 127 else len(MESSAGE)]))
    assert [each["raw"] for each in READING.decode_many(stream)] == [b"\0\xff", b"", bytes(300)]
    assert READING.decode_many(b"") == READING.decode_many(READING.encode_many([])) == []
    assert [each[0] for each in READING.decode_many(memoryview(stream), tuple)] == ["a1", "", ""]
    for end, message in [(-1, "is cut short"), (-302, "is cut short")]:
        with pytest.raises(DecodeError, match=message) as caught:
            READING.decode_many(stream[:end])
        assert caught.value.path == "[2]"
    with pytest.raises(EncodeError, match=r"^\[1\]\.device: int where str"):
        READING.encode_many([{}, {"device": 1}])


def test_messages_are_encoded_into_a_buffer() -> None:
    buffer = bytearray(len(MESSAGE) + 5)
    assert READING.encode_into(RECORD, buffer, 5) == len(buffer)
    assert bytes(buffer) == bytes(5) + MESSAGE
    assert READING.encode_into({}, buffer, len(buffer)) == len(buffer)
    assert READING.encode_into({}, bytearray()) == 0
    with pytest.raises(BufferError, match=r"the buffer has \d+ from offset 6"):
        READING.encode_into(RECORD, buffer, 6)
    assert bytes(buffer) == bytes(5) + MESSAGE
    for offset in (-1, len(buffer) + 1):
        with pytest.raises(ValueError, match="offset"):
            READING.encode_into({}, buffer, offset)


# Decoding ---------------------------------------------------------------------------------------------------


def test_messages_are_decoded_into_the_requested_type() -> None:
    assert READING.decode(MESSAGE) == RECORD
    assert list(READING.decode(MESSAGE)) == FIELDS
    assert READING.decode(MESSAGE, tuple) == tuple(RECORD.values())
    for into in (Plain, Slotted, Struct, Named):
        assert READING.decode(MESSAGE, into) == into(**RECORD)
        assert make_codec("Reading", into=into).decode(MESSAGE) == into(**RECORD)
    for encoded in (bytearray(MESSAGE), memoryview(MESSAGE)):
        assert READING.decode(encoded) == RECORD


@dataclasses.dataclass
class Leaf:
    name: str
    weight: int = 0
    left: Leaf | None = None
    branches: list[Leaf] = dataclasses.field(default_factory=list)
    named: dict[str, Leaf] = dataclasses.field(default_factory=dict)
    planted: datetime | None = None


def test_annotations_choose_the_classes_of_nested_messages() -> None:
    leaf = Leaf(
        "a",
        left=Leaf("b"),
        branches=[Leaf("c"), Leaf("d", 5)],
        named={"x": Leaf("e", planted=datetime(2000, 1, 1, tzinfo=UTC))},
    )
    encoded = TREE.encode(leaf)
    assert TREE.decode(encoded, Leaf) == leaf
    assert TREE.encode(TREE.decode(encoded)) == encoded
    assert TREE.decode(encoded, tuple)[2][0] == "b"


def test_annotations_of_unknown_classes_are_refused() -> None:
    """Without its class, a nested message would be a dict."""
    fields = ["name", "weight", "left", "branches", "named", "planted"]
    others = dataclasses.make_dataclass(
        "Others", [(name, "list[Leaf]" if name == "branches" else "Twig") for name in fields]
    )
    lost = dataclasses.make_dataclass(
        "Lost", [(name, "list[Twig]" if name == "branches" else "str") for name in fields]
    )
    for each in (others, lost):
        each.__module__ = __name__
    others.__annotations__.update(left="Leaf | None", named="dict[str, Leaf]")
    encoded = TREE.encode({"branches": [{"name": "b"}]})
    assert TREE.decode(encoded, others).branches == [Leaf("b")]
    with pytest.raises(TypeError, match=r"Lost annotates branches with 'list\[Twig\]', but .* has no Twig"):
        TREE.decode(encoded, lost)


def test_classes_that_cannot_take_the_fields_are_refused() -> None:
    for into, message in [
        (dataclasses.make_dataclass("None", ["other"]), "takes none of the fields of .*: device, site"),
        (dataclasses.make_dataclass("More", [*FIELDS, "extra"]), "needs extra"),
        *(
            (wrong, "it must be dict, tuple, or a class")
            for wrong in ("dict", list, set, str, list[Slotted], object)
        ),
    ]:
        with pytest.raises(TypeError, match=message):
            READING.decode(b"", into)
    with pytest.raises(ZeroDivisionError):
        READING.decode(b"", lambda **fields: 1 // 0)
    assert READING.decode(MESSAGE, dict[str, Any]) == READING.decode(MESSAGE)
    assert READING.decode(MESSAGE, tuple[Any, ...]) == READING.decode(MESSAGE, tuple)


def test_absent_fields_have_their_defaults() -> None:
    empty = READING.decode(b"")
    assert empty == {
        **dict.fromkeys(FIELDS),
        "device": "",
        "site": "",
        "temperature": 0.0,
        "humidity": 0.0,
        "sequence": 0,
    } | {**{"errors": 0, "samples": [], "level": 0, "valid": False, "raw": b""}}
    old = OLD.decode(number_field(1, 5))
    assert (old["o_int32"], old["o_string"], old["o_enum"], old["o_bytes"]) == (7, "x", 2, b"\1z")
    assert (old["o_float"], old["o_bool"], old["bare"], old["pair"]) == (float("inf"), True, None, None)
    READING.decode(b"")["samples"].append(1)
    assert READING.decode(b"")["samples"] == []


def test_unknown_fields_are_ignored_or_kept() -> None:
    more = number_field(100, 7)
    assert READING.decode(MESSAGE + more) == RECORD
    keeping = make_codec("Reading", unknown_fields="keep")
    kept = keeping.decode(more[:1] + more[1:] + MESSAGE)
    assert kept == {**RECORD, UNKNOWN_FIELDS: more}
    assert keeping.encode(kept) == MESSAGE + more
    assert keeping.encode(Wrapped(kept)) == MESSAGE + more
    for value in (b"\x07", b"\x08", 5, ""):
        assert "unknown fields" in problem({UNKNOWN_FIELDS: value}, keeping)
    assert keeping.encode({**RECORD, UNKNOWN_FIELDS: None}) == MESSAGE
    assert "unknown key" in problem({UNKNOWN_FIELDS: b""}, READING)


# Refused objects and messages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"f_int32": 2**31}, "f_int32: 2147483648 is out of range: -2147483648 to 2147483647"),
        ({"f_uint32": -1}, "f_uint32: -1 is out of range: 0 to 4294967295"),
        ({"f_uint64": 2**64}, "f_uint64: 18446744073709551616 is out of range: 0 to 18446744073709551615"),
        (
            {"f_int64": 10**5000},
            "f_int64: <int> is out of range: -9223372036854775808 to 9223372036854775807",
        ),
        ({"m_string": {10**5000: ""}}, "m_string[<int>]: <int> is out of range: -2147483648 to 2147483647"),
        ({"f_int32": "1"}, "f_int32: str where an int is expected"),
        ({"f_int32": True}, "f_int32: bool where an int is expected"),
        ({"f_int32": 1.0}, "f_int32: float where an int is expected"),
        ({"f_double": "1"}, "f_double: str where a float is expected"),
        ({"f_double": 10**400}, "f_double: an int out of range of a float"),
        ({"f_float": 1e39}, "f_float: a number out of range of a float of 32 bits"),
        ({"f_bool": "x"}, "f_bool: str where a bool is expected"),
        ({"f_string": b"x"}, "f_string: bytes where str is expected"),
        ({"f_string": "a\ud800"}, "f_string: half of a surrogate pair at character 1: it cannot be UTF-8"),
        ({"f_bytes": "x"}, "f_bytes: str where bytes is expected"),
        (
            {"f_bytes": memoryview(b"abcd")[::2]},
            "f_bytes: memoryview that is not contiguous",
        ),
        ({"f_enum": "TOP"}, "f_enum: 'TOP' is no member of the enum"),
        ({"f_enum": 2**31}, "f_enum: 2147483648 is out of range: -2147483648 to 2147483647"),
        ({"r_int32": [1, None]}, "r_int32[1]: None where an int is expected"),
        ({"r_int32": 5}, "r_int32: int where a list is expected"),
        ({"r_string": "abc"}, "r_string: str where a list is expected"),
        (
            {"trees": [{}, {"branches": [{"weight": "x"}]}]},
            "trees[1].branches[0].weight: str where an int is expected",
        ),
        ({"trees": {"a": 1}}, "trees: dict where a list is expected"),
        ({"tree": [1]}, "tree: list where an object is expected"),
        ({"tree": {"nam": "x"}}, "tree: unknown key 'nam'; did you mean name or named?"),
        ({"tree": {np.str_("nam"): "x"}}, "tree: unknown key 'nam'; did you mean name or named?"),
        ({"tree": {1: "x"}}, "tree: int as a key, where names are expected"),
        ({"tree": (1, 2)}, "tree: a tuple of 2, where there are 6 fields"),
        ({"tree": object()}, "tree.name: object has no such attribute"),
        ({"m_int32": [1]}, "m_int32: list where a dict is expected"),
        ({"m_int32": {1: 1}}, "m_int32[1]: int where str as a key is expected"),
        ({"m_int32": {"a": None}}, "m_int32['a']: None where an int is expected"),
        (
            {"m_tree": {True: {"left": {"weight": 1.5}}}},
            "m_tree[True].left.weight: float where an int is expected",
        ),
        ({"times": [1, "x"]}, "times[1]: str where a datetime is expected"),
        ({"c_int32": 1, "c_tree": {}}, "c_tree: 'c_int32' of the same oneof has a value too"),
    ],
)
def test_invalid_values_are_refused_with_their_path(record: Any, message: str) -> None:
    assert problem(record) == message


def test_values_that_are_not_objects_of_fields_are_refused() -> None:
    for record in (None, 5, "x", b"x", [1], 1.5):
        assert "where an object is expected" in problem(record)


def test_messages_of_google_protobuf_are_refused() -> None:
    """Their attributes do not show which fields are absent."""
    assert problem(EVERYTHING.message_class()()).startswith("a message of google.protobuf")
    assert problem({"tree": TREE.message_class()()}).startswith("tree: a message of google.protobuf")


def test_required_fields_must_be_given() -> None:
    assert problem({}, OLD) == "must: required, and not given"
    assert problem({"must": 1, "subs": [{"must": 2}, {}]}, OLD) == "subs[1].must: required, and not given"
    assert problem({"must": 1, "bare": 5}, OLD) == "bare: 5 is no member of the enum"
    assert problem({"must": 1, "p_enum": [1, np.int64(5)]}, OLD) == "p_enum[1]: 5 is no member of the enum"


def test_unknown_keys_are_refused_or_ignored() -> None:
    record = {**RECORD, "more": 1, np.str_("other"): 2, 5: 3}
    assert "unknown key 'more'" in problem(record, READING)
    ignoring = make_codec("Reading", unknown_keys="ignore")
    assert ignoring.encode(record) == MESSAGE
    assert ignoring.encode(Wrapped(record)) == MESSAGE


def test_malformed_messages_are_refused_with_path_and_offset() -> None:
    inside = bytes_field(50, bytes_field(4, b"") + bytes_field(4, bytes_field(1, b"\xff")))
    with pytest.raises(
        DecodeError, match=r"^tree\.branches\[1\]\.name: byte 9: a string that is not UTF-8$"
    ) as caught:
        EVERYTHING.decode(inside)
    assert (caught.value.path, caught.value.offset, caught.value.status) == (
        "tree.branches[1].name",
        9,
        "bad_message",
    )
    stream = b"\0" + bytes([len(inside)]) + inside
    with pytest.raises(DecodeError, match=r"^\[1\]\.tree\.branches\[1\]\.name: byte 11: ") as caught:
        EVERYTHING.decode_many(stream)
    for data in ("text", 5, None):
        with pytest.raises(TypeError):
            EVERYTHING.decode(data)


def test_objects_that_contain_themselves_are_refused() -> None:
    itself: dict[str, Any] = {"name": "x"}
    itself["left"] = itself
    assert "more than 100 objects inside each other" in problem(itself, TREE)
    itself = {"named": {}, "branches": []}
    itself["named"]["a"] = itself
    assert "more than 100 objects inside each other" in problem(itself, TREE)
    itself["named"] = None
    itself["branches"] += [itself]
    assert "more than 100 objects inside each other" in problem(itself, TREE)


@pytest.mark.parametrize("last", [{}, {"planted": 1}, {"named": {"a": {}}}], ids=["record", "time", "map"])
def test_the_deepest_encoded_messages_can_be_decoded(last: dict[str, Any]) -> None:
    deepest = 0
    for depth in range(95, 103):
        record = last
        for _ in range(depth):
            record = {"left": record}
        try:
            encoded = TREE.encode(record)
        except EncodeError:
            continue
        deepest = depth
        TREE.decode(encoded)
        message_class("Tree").FromString(encoded)
    assert (
        deepest
        == {"record": 100, "time": 99, "map": 98}[
            {"planted": "time", "named": "map"}.get(next(iter(last), ""), "record")
        ]
    )


@dataclasses.dataclass
class Pickled:
    client: str
    text: str
    sequence: int


# Codecs -----------------------------------------------------------------------------------------------------


def test_a_codec_can_be_described_only_once() -> None:
    codec = Codec(message_class("Reading"))  # not one of the shared codecs
    with pytest.raises(RuntimeError, match="is described already"):
        codec.__init__(message_class("Tree"))  # type: ignore[misc]
    assert codec.encode(RECORD) == MESSAGE


def test_damage_ends_columns_and_is_counted_or_raised() -> None:
    codec = Codec.load("client_message")
    damaged = codec.encode_many([("ana", "hello", 1)]) + b"\x05\x01"
    stream = codec.read_columns(damaged, strict=False)
    assert sum(len(batch) for batch in stream) == 1
    assert stream.counters["bad_message"] == 1
    with pytest.raises(DecodeError, match="cut short"):
        list(codec.read_columns(damaged))


@pytest.mark.parametrize(
    "codec",
    [
        READING,
        Codec.load("record", times="ns", into=tuple),
        Codec.load("record", "SubRecord"),
        make_codec("Old", defaults="omit", enums="name"),
    ],
    ids=repr,
)
def test_codecs_can_be_pickled_and_copied(codec: Codec) -> None:
    restored = pickle.loads(pickle.dumps(codec))
    examples = codec.examples(5)
    assert restored is not codec
    assert repr(restored) == repr(codec)
    assert [restored.decode(codec.encode(each)) for each in examples] == examples
    assert restored.to_json(codec.encode(examples[0])) == codec.to_json(codec.encode(examples[0]))
    assert copy.copy(codec) is codec
    assert copy.deepcopy([codec])[0] is codec


def test_a_codec_is_pickled_with_its_class() -> None:
    restored = pickle.loads(pickle.dumps(Codec.load("client_message", into=Pickled)))
    assert restored.decode(restored.encode(("ana", "hello", 1))) == Pickled("ana", "hello", 1)


def test_messages_may_be_in_any_buffer() -> None:
    """The format of its items does not matter."""
    stream = bytearray(READING.encode_many([RECORD, RECORD]))
    expected = READING.decode_many(bytes(stream))
    assert len(expected) == 2
    assert READING.decode_many(memoryview(stream).cast("b")) == READING.decode_many(stream) == expected
    assert READING.decode(memoryview(MESSAGE).cast("b")) == READING.decode(MESSAGE)
    with pytest.raises(TypeError, match="bytes-like"):
        READING.decode_many("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes-like"):
        READING.decode(None)  # type: ignore[arg-type]


def test_the_cache_of_types_is_bounded() -> None:
    codec = Codec(message_class("Reading"))
    for _ in range(500):
        assert codec.decode(MESSAGE, lambda **fields: fields)["device"] == RECORD["device"]
    assert len(codec._outputs) <= 64


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        *[
            (Leaf, Leaf),
            (Leaf | None, Leaf),
            (list[Leaf], Leaf),
            (list[Leaf | None], Leaf),
            (tuple[Leaf, ...], Leaf),
        ],
        *[
            (dict[str, Leaf], Leaf),
            (Mapping[int, Leaf], Leaf),
            (Annotated[Leaf, "note"], Leaf),
            (tuple, tuple),
        ],
        *[
            (None, dict),
            (dict, dict),
            (dict[str, float], dict),
            (dict[str, Any], dict),
            (list[int], dict),
            (Any, dict),
        ],
        *[(str, dict), (object, dict), (list, dict), (Mapping, dict), (Sequence, dict)],
    ],
)
def test_the_class_of_a_nested_message_is_in_its_annotation(hint: Any, expected: Any) -> None:
    assert outputs._class_in(hint) is expected


@pytest.mark.parametrize(("unit", "scale"), [("ps", 10**3), ("fs", 10**6), ("as", 10**9)])
def test_numpy_times_finer_than_nanoseconds_are_encoded(unit: str, scale: int) -> None:
    codec = make_codec("Everything", times="ns")
    record = {"time": np.datetime64(5 * scale, unit), "span": np.timedelta64(7 * scale, unit)}
    assert codec.decode(codec.encode(record)) == codec.decode(codec.encode({"time": 5, "span": 7}))


def test_errors_name_the_index_of_a_packed_element() -> None:
    with pytest.raises(DecodeError) as caught:
        EVERYTHING.decode(bytes_field(31, b"\x01\x02\xff"))
    assert (caught.value.path, caught.value.offset) == ("r_int32[2]", 5)


def test_each_message_type_is_described_once() -> None:
    assert len(EVERYTHING._messages) == len(set(EVERYTHING._messages))
