"""The codec calls user code while it encodes an object: properties, conversions of numbers, and keys.

That code may change the object or its class, or use the codec. The values in use stay valid.
"""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

from flowbuf import UNKNOWN_FIELDS, Codec
from flowbuf.errors import EncodeError
from tests.support.cases import slow_after
from tests.support.codec.messages import make_codec

EVERYTHING = make_codec("Everything")
TREE = make_codec("Tree")
OLD = make_codec("Old")
LEAF = {"name": "a", "weight": 0, "left": None, "branches": [], "named": {}, "planted": None}


def problem(record: Any, codec: Codec) -> str:
    with pytest.raises(EncodeError) as caught:
        codec.encode(record)
    return str(caught.value)


class Meddler:
    """A number that calls a function when it is converted."""

    def __init__(self, act: Any, number: int = 1) -> None:
        self.act, self.number = act, number

    def __index__(self) -> int:
        self.act()
        gc.collect()
        return self.number

    def __float__(self) -> float:
        return float(self.__index__())

    def __repr__(self) -> str:
        return "Meddler()"


def new_text() -> str:
    return "".join(["te", "xt"]) * 5


@pytest.mark.parametrize(
    "field",
    slow_after(4, ["f_int32", "r_int32", "m_int32", "time", "u_sint64", "f_double", "f_enum", "r_enum"]),
)
@pytest.mark.parametrize("number", [1, 2**40])
def test_objects_may_be_emptied_while_they_are_encoded(field: str, number: int) -> None:
    record: dict[str, Any] = {}
    inner: dict[str, Any] = {"name": new_text()}
    meddler = Meddler(lambda: (record.clear(), inner.clear(), values.clear(), entries.clear()), number)
    values: list[Any] = [meddler, *range(300, 320), meddler]
    entries = {"a": meddler, new_text(): 2}
    value: Any = {"r": values, "u": values, "m": entries}.get(field[0], meddler)
    del meddler
    record.update(
        {"f_string": new_text(), field: value, "r_string": [new_text()], "tree": inner, "middle": new_text()}
    )
    del value
    if number == 1 or field in ("f_double", "u_sint64"):
        assert EVERYTHING.decode(EVERYTHING.encode(record))["middle"] == new_text()
    elif field == "time":
        EVERYTHING.encode(record)
    else:
        assert problem(record, EVERYTHING).startswith(field)
    assert record == {}


def test_invalid_enum_numbers_may_empty_their_list() -> None:
    values: list[Any] = []
    values.append(Meddler(values.clear, 5))
    assert problem({"must": 1, "p_enum": values}, OLD) == "p_enum[0]: 5 is no member of the enum"
    values.append(Meddler(values.clear, 5))
    assert problem({"must": 1, "r_enum": values}, OLD) == "r_enum[0]: 5 is no member of the enum"


def test_keys_may_empty_objects_when_they_are_compared() -> None:
    class Key:
        def __hash__(self) -> int:
            return hash(UNKNOWN_FIELDS)

        def __eq__(self, other: object) -> bool:
            outer.clear()
            inner.clear()
            gc.collect()
            return False

    codec = make_codec("Tree", unknown_keys="ignore", unknown_fields="keep")
    inner: dict[Any, Any] = {Key(): 1, "name": new_text()}
    outer = {"left": inner}
    assert codec.decode(codec.encode(outer))["left"]["name"] == new_text()


def test_properties_may_use_the_same_codec() -> None:
    class Again:
        weight, left, branches, named, planted = 1, None, None, None, None

        @property
        def name(self) -> str:
            assert TREE.decode(TREE.encode_many([LEAF] * 2)[1:4])["name"] == "a"
            with pytest.raises(EncodeError):
                TREE.encode({"name": 1})
            return TREE.encode(Slots(**LEAF)).hex()

    Slots = dataclasses.make_dataclass("Slots", [*LEAF], slots=True)
    encoded = TREE.encode({"name": "outer", "left": Again(), "branches": [Again(), Again()]})
    assert [each["name"] for each in TREE.decode(encoded)["branches"]] == [TREE.encode(LEAF).hex()] * 2


def test_attributes_of_a_class_may_run_code() -> None:
    class Looked:
        def __get__(self, instance: Any, owner: type) -> Any:
            for number in range(5):
                kind = dataclasses.make_dataclass(f"Kind{number}", [*LEAF], slots=True)
                TREE.encode(kind(**LEAF))
            return "seen"

    record = type("Record", (), {**LEAF, "name": Looked()})()
    for _ in range(3):
        assert TREE.decode(TREE.encode(record))["name"] == "seen"


def test_classes_may_change_after_their_first_use() -> None:
    Changed = dataclasses.make_dataclass("Changed", [*LEAF], slots=True)
    record = Changed(**LEAF)
    assert TREE.decode(TREE.encode(record))["name"] == "a"
    kept = Changed.name
    Changed.name = property(lambda self: "b")
    assert TREE.decode(TREE.encode(record))["name"] == "b"
    Changed.name = kept
    assert TREE.decode(TREE.encode(record))["name"] == "a"
    del record.name
    assert problem(record, TREE) == "name: Changed has no such attribute"
    del Changed.name
    assert problem(record, TREE) == "name: Changed has no such attribute"


def test_exceptions_of_user_code_are_raised() -> None:
    for field in ("f_int32", "f_double", "r_int32", "m_int32"):
        bad = Meddler(lambda: 1 // 0)
        value: Any = {"r_int32": [bad], "m_int32": {"a": bad}}.get(field, bad)
        with pytest.raises(ZeroDivisionError):
            EVERYTHING.encode({field: value})
    with pytest.raises(ZeroDivisionError):
        EVERYTHING.encode_many({} if i else 1 // i for i in (1, 0))
    assert TREE.decode(TREE.encode(LEAF)) == LEAF


def run_alone(code: str) -> str:
    """Run a program that could crash in its own process, and return its output."""
    head = "from tests.support.codec.messages import make_codec\nfrom flowbuf import Codec\n"
    folder = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", head + code], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-300:]}"
    return done.stdout.strip()


def test_a_class_may_be_freed_while_keys_are_looked_up() -> None:
    class Leaf:
        name, weight, left, branches, named, planted = LEAF.values()

    def become_a_leaf(record: Any) -> None:
        record.__class__ = Leaf
        gc.collect()
        assert first() is None
        raise AttributeError

    for _ in range(3):
        kind = type("Mapping", (), {"__getitem__": None, "keys": property(become_a_leaf)})
        first, record = weakref.ref(kind), kind()
        del kind
        assert TREE.decode(TREE.encode(record)) == LEAF


def test_keys_of_a_class_may_encode_an_object_of_another_class() -> None:
    """Slots are in the order of their names. Each slot of Wide has the offset of the next one of Record."""
    codec = Codec(TREE.descriptor)
    busy = True

    class Key:
        def __hash__(self) -> int:
            return hash("planted")

        def __eq__(self, other: object) -> bool:
            nonlocal busy
            if not busy:
                busy = True
                codec.encode(wide)
            return False

    Wide = type("Wide", (), {"__slots__": ("a", *LEAF)})
    bases = (type("Base", (), {"__slots__": (*LEAF, "z")}),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Python 3.13 warns about such keys
        Record: Any = type("Record", bases, {"__slots__": (), Key(): 1})
    wide, record = Wide(), Record()
    for name, value in {**LEAF, "a": 1, "z": 1}.items():
        for each in (wide, record):
            if name in (*LEAF, "a" if each is wide else "z"):
                setattr(each, name, value)
    Record.changed = 1  # removes the class from Python's cache
    busy = False
    assert [codec.decode(codec.encode(record))["name"] for _ in range(2)] == ["a", "a"]
    assert busy


def test_derived_codecs_may_return_no_output() -> None:
    code = """
class Derived(Codec):
    def _output_of(self, into):
        return super()._output_of(into) if into is dict else None

codec = Derived(make_codec("Tree").descriptor)
try:
    codec.decode(b"", tuple)
except TypeError:
    print("refused")
"""
    assert run_alone(code) == "refused"


def test_attribute_errors_inside_properties_are_raised() -> None:
    class Broken:
        weight, left, branches, named, planted = 1, None, None, None, None

        @property
        def name(self) -> str:
            raise AttributeError("of the property's own")

    with pytest.raises((AttributeError, EncodeError)) as caught:
        TREE.encode(Broken())
    errors = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert any("of the property's own" in str(each) for each in errors)


def test_interrupts_during_the_lookup_of_keys_are_raised() -> None:
    class Interrupted:
        name, weight, left, branches, named, planted = "a", 1, None, None, None, None

        def __getitem__(self, key: str) -> None:
            raise KeyError(key)

        @property
        def keys(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TREE.encode(Interrupted())


def test_keys_that_become_equal_are_one_entry() -> None:
    class Text(str):
        __slots__ = ("number",)
        __eq__ = object.__eq__
        __hash__ = object.__hash__

    named = {Text("a"): {"weight": 1}, "b": {}, Text("a"): {"weight": 2}}
    assert len(named) == 3
    assert TREE.decode(TREE.encode({"named": named}))["named"].keys() == {"a", "b"}
    assert TREE.encode({"named": named}) == TREE.encode({"named": {"b": {}, "a": {"weight": 2}}})
    codec = make_codec("Maps")
    expected = codec.message_class()()
    expected.by_bool[2] = 1
    expected.by_bool[1] = 5
    assert codec.encode({"by_bool": {2: 1, 1: 5}}) == expected.SerializeToString(deterministic=True)


def test_a_codec_cannot_be_initialized_again() -> None:
    codec = Codec(TREE.descriptor)
    with pytest.raises(RuntimeError):
        codec.__init__(make_codec("Nothing").descriptor)  # type: ignore[misc]
    assert codec.decode(b"\n\1a", tuple)[0] == "a"
