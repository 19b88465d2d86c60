"""diff() lists the differences between two schemas, and tells which of them a reader can handle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf.schema import Schema
from flowbuf.schema.evolution import Verdict, diff

FLOW = Schema.load("flow")
EMPTY = Schema.from_toml('[schema]\nname = "tiny"')
X = {"name": "x", "number": 1, "type": "uint32"}


def one(**keys):
    return EMPTY.add(**{**X, **keys})


def verdicts(reader, writer):
    return [(verdict.column, verdict.change, verdict.readable) for verdict in diff(reader, writer)]


def test_documentation_sources_and_groups_make_no_difference():
    assert diff(FLOW, FLOW) == []
    assert diff(FLOW, FLOW.alter("bytes", doc="Octets", sources=["ipfix:1"], group="g")) == []


def test_disabled_columns_make_no_difference():
    assert diff(FLOW, FLOW.retire("next_hop")) == []


def test_added_and_removed_columns_are_readable():
    assert verdicts(FLOW, FLOW.enable("src_mac")) == [("src_mac", "added", True)]
    assert verdicts(FLOW.enable("src_mac"), FLOW) == [("src_mac", "removed", True)]


def test_a_column_that_the_reader_has_retired_is_skipped():
    assert diff(FLOW.retire("bytes"), FLOW) == [Verdict("bytes", "added", True, "number 4: skipped")]
    assert verdicts(FLOW, FLOW.retire("bytes")) == [("bytes", "removed", True)]


def test_reused_numbers_are_not_readable():
    reader = EMPTY.add(**X).add("y", 2, "uint32")
    assert verdicts(reader.retire("y"), one().add("z", 2, "uint32")) == [("z", "added", False)]
    swapped = EMPTY.add("x", 2, "uint32").add("y", 1, "uint32")
    assert verdicts(reader, swapped) == [("x", "renumbered", False), ("y", "renumbered", False)]
    moved = EMPTY.add("x", 3, "uint32").add("z", 1, "uint32")
    assert verdicts(one(), moved) == [("x", "renumbered", False), ("z", "added", False)]


def test_renamed_columns_are_readable():
    assert verdicts(one(), one(name="y")) == [("x", "renamed", True)]
    assert verdicts(one(), one(name="y", type="string")) == [
        ("x", "renamed", True),
        ("x", "type changed", False),
    ]


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
        (enum(a=0, b=1), enum(a=0, b=2), "enum members changed", False),
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
def test_changes_of_a_column_are_reported(old, new, change, readable):
    assert verdicts(one(**old), one(**new)) == [("x", change, readable)]


RANGES = {
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    **{
        f"{kind}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1)
        for kind in ("int", "sint")
        for bits in (32, 64)
    },
    "mac": (0, (1 << 48) - 1),
    "bool": (0, 1),
}


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(RANGES)), st.sampled_from(sorted(RANGES)))
def test_protocol_buffers_reads_columns_that_diff_calls_readable(data, old, new):
    reader, writer = one(type=old), one(type=new)
    if all(verdict.readable for verdict in diff(reader, writer)):
        value = data.draw(st.integers(*RANGES[new]))
        written = writer.message_class()(x=value).SerializeToString()
        assert reader.message_class().FromString(written).x == value


@pytest.mark.parametrize("old", sorted(RANGES))
@pytest.mark.parametrize("new", sorted(RANGES))
def test_wider_types_are_never_readable(old, new):
    (lowest, highest), (least, most) = RANGES[old], RANGES[new]
    if least < lowest or most > highest:
        assert not all(verdict.readable for verdict in diff(one(type=old), one(type=new)))


# Records ----------------------------------------------------------------------------------------------------

HEAD = '[schema]\nname = "tree"\nrows = "records"\n'
ROOTS = """
[[column]]
name = "root"
number = 1
type = "message"
message = "node"

[[column]]
name = "others"
number = 2
type = "message"
message = "node"
repeated = true
"""
NODE = """
[[message.node.column]]
name = "size"
number = 1
type = "uint32"

[[message.node.column]]
name = "next"
number = 2
type = "message"
message = "node"
"""
TREE = Schema.from_toml(HEAD + ROOTS + NODE)
RECORDS = Schema.from_toml(HEAD)


def tree(*changes):
    text = HEAD + ROOTS + NODE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Schema.from_toml(text)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('type = "uint32"', 'type = "uint64"'), [("node.size", "type changed", False)]),
        (('type = "uint32"', 'type = "uint8"'), [("node.size", "type changed", True)]),
        (('name = "size"', 'name = "length"'), [("node.size", "renamed", True)]),
        (('type = "uint32"', 'type = "uint32"\nrequired = true'), [("node.size", "now required", True)]),
        (
            ('number = 1\ntype = "uint32"', 'number = 5\ntype = "uint32"'),
            [("node.size", "renumbered", False)],
        ),
        (("repeated = true", ""), [("others", "no longer repeated", True)]),
    ],
)
def test_changes_inside_a_message_are_reported_once_with_their_path(change, expected):
    assert verdicts(TREE, tree(change)) == expected


def test_added_and_removed_columns_inside_messages_are_reported():
    added = tree((NODE, NODE + '[[message.node.column]]\nname = "x"\nnumber = 3\ntype = "bool"\n'))
    assert verdicts(TREE, added) == [("node.x", "added", True)]
    assert verdicts(added, TREE) == [("node.x", "removed", True)]
    retired = tree((NODE, NODE + '[[message.node.reserved]]\nnumber = 3\nname = "y"\n'))
    assert verdicts(retired, added) == [("node.x", "added", False)]
    assert verdicts(TREE, TREE) == []


def test_renamed_messages_are_readable():
    renamed = tree(('message = "node"', 'message = "leaf"'), ("message.node", "message.leaf"))
    assert verdicts(TREE, renamed) == [
        ("root", "message renamed", True),
        ("others", "message renamed", True),
        ("node.next", "message renamed", True),
    ]
    wider = tree(
        ('message = "node"', 'message = "leaf"'), ("message.node", "message.leaf"), ("uint32", "uint64")
    )
    assert ("node.size", "type changed", False) in verdicts(TREE, wider)


MAP = {"type": "map", "key": "uint32", "value": "uint32"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (MAP, MAP | {"key": "uint8"}, [("x", "key of the map changed", True)]),
        (MAP, MAP | {"key": "string"}, [("x", "key of the map changed", False)]),
        (MAP, MAP | {"value": "uint64"}, [("x", "value of the map changed", False)]),
        (MAP, MAP | {"value": "int16"}, [("x", "value of the map changed", False)]),
        (MAP, {"type": "uint32"}, [("x", "type changed", False)]),
        ({"type": "uint64"}, {"type": "timestamp", "unit": "proto"}, [("x", "type changed", False)]),
        (TIME, TIME | {"unit": "proto"}, [("x", "unit changed", False)]),
        ({"type": "int32"}, {"type": "int16"}, [("x", "type changed", True)]),
        ({"type": "int8"}, {"type": "int16"}, [("x", "type changed", False)]),
        ({"type": "int16"}, {"type": "uint8"}, [("x", "type changed", True)]),
        ({"type": "sfixed32"}, {"type": "fixed32"}, [("x", "type changed", False)]),
        ({}, {"required": True}, [("x", "now required", True)]),
        ({"required": True}, {}, [("x", "no longer required", True)]),
        ({"repeated": True}, {"repeated": True, "packed": False}, [("x", "no longer packed", True)]),
        ({"repeated": True, "packed": False}, {"repeated": True}, [("x", "now packed", True)]),
        ({}, {"oneof": "c"}, [("x", "now in a oneof", True)]),
        ({"oneof": "c"}, {}, [("x", "no longer in a oneof", False)]),
        ({"oneof": "c"}, {"oneof": "d"}, [("x", "oneof changed", True)]),
    ],
)
def test_changes_of_record_columns_are_reported(old, new, expected):
    def one(keys):
        return RECORDS.add(**{**X, **keys})

    assert verdicts(one(old), one(new)) == expected


def test_splitting_a_oneof_is_not_readable():
    together = RECORDS.add("a", 1, "bool", oneof="c").add("b", 2, "bool", oneof="c")
    apart = RECORDS.add("a", 1, "bool", oneof="c").add("b", 2, "bool", oneof="d")
    assert verdicts(together, apart) == [("b", "oneof changed", False)]
    written = apart.message_class()(a=True, b=True).SerializeToString()
    assert not together.message_class().FromString(written).a


@pytest.mark.parametrize("one", ["int8", "int16", "uint8", "int32", "sint32", "sfixed32", "bool"])
@pytest.mark.parametrize("other", ["int8", "int16", "uint8", "int32", "sint32", "sfixed32", "bool"])
def test_protocol_buffers_reads_small_integers_that_diff_calls_readable(one, other):
    ranges = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255), "bool": (0, 1)}
    least, most = ranges.get(other, (-(2**31), 2**31 - 1))
    reader, writer = RECORDS.add("x", 1, one), RECORDS.add("x", 1, other)
    lowest, highest = ranges.get(one, (-(2**31), 2**31 - 1))
    if all(verdict.readable for verdict in diff(reader, writer)):
        assert lowest <= least
        assert most <= highest
        for value in (least, most):
            written = writer.message_class()(x=value).SerializeToString()
            assert reader.message_class().FromString(written).x == value
