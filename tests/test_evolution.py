"""Whether a reader of one schema can read another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf.schema import Schema
from flowbuf.schema.evolution import diff

FLOW = Schema.load("flow")
EMPTY = Schema.from_toml('[schema]\nname = "tiny"')
X = {"name": "x", "number": 1, "type": "uint32"}


def one(**keys):
    return EMPTY.add(**{**X, **keys})


def verdicts(reader, writer):
    return [(verdict.column, verdict.change, verdict.readable) for verdict in diff(reader, writer)]


def test_a_schema_reads_itself_and_what_differs_only_in_words():
    assert diff(FLOW, FLOW) == []
    assert diff(FLOW, FLOW.alter("bytes", doc="Octets", sources=["ipfix:1"], group="g")) == []


def test_disabled_columns_are_in_no_message():
    assert diff(FLOW, FLOW.retire("next_hop")) == []


def test_a_column_may_come_or_go():
    assert verdicts(FLOW, FLOW.enable("src_mac")) == [("src_mac", "added", True)]
    assert verdicts(FLOW.enable("src_mac"), FLOW) == [("src_mac", "removed", True)]


def test_a_number_that_means_something_else_to_the_reader_cannot_be_used():
    reader = EMPTY.add(**X).add("y", 2, "uint32")
    assert verdicts(reader.retire("y"), one().add("z", 2, "uint32")) == [("z", "added", False)]
    swapped = EMPTY.add("x", 2, "uint32").add("y", 1, "uint32")
    assert verdicts(reader, swapped) == [("x", "renumbered", False), ("y", "renumbered", False)]
    moved = EMPTY.add("x", 3, "uint32").add("z", 1, "uint32")
    assert verdicts(one(), moved) == [("x", "renumbered", False), ("z", "added", False)]


def test_names_are_not_in_messages():
    assert verdicts(one(), one(name="y")) == [("x", "renamed", True)]
    assert verdicts(one(), one(name="y", type="string")) == [("x", "renamed", True), ("x", "type changed", False)]


TIME = {"type": "timestamp", "unit": "ms"}


def enum(**values):
    return {"type": "enum", "values": values}


@pytest.mark.parametrize(
    ("old", "new", "change", "readable"),
    [
        (TIME, TIME | {"unit": "s"}, "unit changed", False),
        ({"type": "ip"}, {"type": "ip", "ip": "native"}, "ip form changed", False),
        ({"type": "ip", "ip": "native"}, {"type": "ip"}, "ip form changed", True),
        (enum(a=0, b=1), enum(a=0, b=1, c=2), "enum members changed", True),
        (enum(a=0, b=1), enum(a=0), "enum members changed", True),
        (enum(a=0, b=1), enum(a=0, c=1), "enum members changed", False),
        (enum(a=0, b=1, c=2), enum(a=0, b=2, c=1), "enum members changed", False),
        ({}, {"repeated": True}, "now repeated", False),
        ({"repeated": True}, {}, "no longer repeated", True),
        ({}, {"explicit": True}, "now explicit", True),
        ({"explicit": True}, {}, "no longer explicit", True),
        ({"type": "mac"}, {"type": "uint64"}, "type changed", False),
        ({"type": "uint64"}, {"type": "mac"}, "type changed", True),
        ({"type": "uint64"}, TIME, "type changed", True),
        (TIME, {"type": "uint64"}, "type changed", False),
        ({"type": "uint32"}, {"type": "fixed32"}, "type changed", False),
        ({"type": "int32"}, {"type": "sint32"}, "type changed", False),
        ({"type": "string"}, {"type": "bytes"}, "type changed", False),
        ({"type": "bytes"}, {"type": "string"}, "type changed", True),
        ({"type": "bytes"}, {"type": "ip"}, "type changed", True),
        ({"type": "double"}, {"type": "float"}, "type changed", False),
        (enum(a=0), {"type": "uint8"}, "type changed", False),
        ({"type": "uint32"}, enum(a=0), "type changed", True),
    ],
)
def test_changes_of_one_column(old, new, change, readable):
    assert verdicts(one(**old), one(**new)) == [("x", change, readable)]


RANGES = {
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    **{f"{kind}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for kind in ("int", "sint") for bits in (32, 64)},
    "mac": (0, (1 << 48) - 1),
    "bool": (0, 1),
}


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(RANGES)), st.sampled_from(sorted(RANGES)))
def test_what_is_called_readable_is_read_by_protocol_buffers(data, old, new):
    reader, writer = one(type=old), one(type=new)
    if all(verdict.readable for verdict in diff(reader, writer)):
        value = data.draw(st.integers(*RANGES[new]))
        written = writer.message_class()(x=value).SerializeToString()
        assert reader.message_class().FromString(written).x == value


@pytest.mark.parametrize("old", sorted(RANGES))
@pytest.mark.parametrize("new", sorted(RANGES))
def test_a_wider_type_is_never_called_readable(old, new):
    (lowest, highest), (least, most) = RANGES[old], RANGES[new]
    if least < lowest or most > highest:
        assert not all(verdict.readable for verdict in diff(one(type=old), one(type=new)))
