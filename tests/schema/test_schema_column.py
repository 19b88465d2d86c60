"""Column.from_table reads the keys of a column and refuses invalid ones."""

import dataclasses
import pickle

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import RECORD_TYPES, TYPES, Column, WireType

# Logical type, Protocol Buffers type and wire type, as the documentation lists them.
TYPE_TABLE = """
uint8 uint32 0 · uint16 uint32 0 · uint32 uint32 0 · uint64 uint64 0 · mac uint64 0 · int32 int32 0 · \
int64 int64 0
sint32 sint32 0 · sint64 sint64 0 · bool bool 0 · float float 5 · double double 1 · string string 2 · \
bytes bytes 2
fixed32 fixed32 5 · fixed64 fixed64 1 · ip bytes 2 · timestamp uint64 0 · duration int64 0 · enum enum 0
"""
RECORD_TYPE_TABLE = """
int8 int32 0 · int16 int32 0 · sfixed32 sfixed32 5 · sfixed64 sfixed64 1 · message message 2 · map message 2
"""
NEEDED = {
    "message": {"message": "sub_record"},
    "map": {"key": "string", "value": "uint64"},
    "timestamp": {"unit": "ms"},
    "duration": {"unit": "us"},
    "enum": {"values": {"undefined": 0, "ingress": 1}},
}


def column(**keys):
    return Column.from_table({"name": "x", "number": 1000, "type": "uint32", **keys}, "mine.toml")


@pytest.mark.parametrize(
    "row", (TYPE_TABLE + RECORD_TYPE_TABLE).strip().replace("\n\n", "\n").replace("\n", " · ").split(" · ")
)
def test_logical_types_have_their_types_on_the_wire(row):
    name, proto_type, wire_type = row.split()
    result = column(type=name, **NEEDED.get(name, {}))
    assert (result.proto_type, result.wire_type) == (proto_type, WireType(int(wire_type)))


def test_there_are_no_other_types():
    assert len(TYPES) == TYPE_TABLE.count("·") + 3
    assert len(RECORD_TYPES) == len(TYPES) + RECORD_TYPE_TABLE.count("·") + 1


@pytest.mark.parametrize("type_name", ["timestamp", "duration"])
def test_times_with_unit_proto_are_messages(type_name):
    result = column(type=type_name, unit="proto")
    assert (result.proto_type, result.wire_type) == ("message", WireType.LENGTH)


def test_columns_have_defaults():
    result = column()
    assert (result.enabled, result.repeated, result.explicit, result.late) == (True, False, False, False)
    assert (result.group, result.sources, result.unit, result.ip, result.mirror, result.depends) == (
        None,
        (),
        None,
        "mapped",
        None,
        (),
    )
    assert (result.values, result.map, result.clickhouse, result.doc, result.origin) == (
        {},
        {},
        {},
        "",
        "mine.toml",
    )


def test_a_rank_is_one_source_or_a_list_of_sources():
    result = column(type="ip", sources=[["ipfix:8", "ipfix:27"], "packet:ip.src_addr"])
    assert [[source.text for source in rank] for rank in result.sources] == [
        ["ipfix:8", "ipfix:27"],
        ["packet:ip.src_addr"],
    ]


def test_the_keys_of_map_are_numbers_on_the_wire():
    result = column(type="enum", values={"undefined": 0, "ingress": 1, "egress": 2}, map={"0": 1, "1": 2})
    assert result.map == {0: 1, 1: 2}


def test_a_column_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        column().number = 2


def test_columns_can_be_hashed_compared_and_pickled():
    one = column(type="enum", values={"a": 0}, clickhouse={"type": "UInt8"})
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, column(type="enum", values={"a": 0}, clickhouse={"type": "UInt8"})}) == 1


BAD = [
    ({"nmae": "y"}, "unknown key 'nmae'; did you mean name"),
    ({"colour": 1}, "keys are name, number"),
    ({"name": "1x"}, "a letter, then"),
    ({"name": "x-y"}, "a letter, then"),
    ({"name": 7}, "must be a string"),
    ({"number": "7"}, "must be an integer"),
    ({"number": True}, "must be an integer"),
    ({"number": 0}, "use 1 to 536870911"),
    ({"number": -1}, "use 1 to"),
    ({"number": 536870912}, "use 1 to"),
    ({"number": 19000}, "do not use 19000 to 19999"),
    ({"number": 19999}, "do not use 19000 to 19999"),
    ({"type": "unit32"}, "did you mean uint32"),
    ({"type": "colour"}, "types are"),
    ({"enabled": 1}, "must be true or false"),
    ({"type": "timestamp"}, "write unit = s | ms | us | ns"),
    ({"type": "duration", "unit": "m"}, "write unit"),
    ({"unit": "ms"}, "only timestamp and duration"),
    ({"ip": "native"}, "type uint32"),
    ({"type": "ip", "ip": "both"}, '"mapped" or "native"'),
    ({"type": "enum"}, "no member 0"),
    ({"type": "enum", "values": {"a": 1}}, "no member 0"),
    ({"type": "enum", "values": {"a": 0, "b": 0}}, "two members with the same number"),
    ({"type": "enum", "values": {"a": 0, "b": -1}}, "0 to 2147483647"),
    ({"type": "enum", "values": {"a": 0, "b": 1 << 31}}, "0 to 2147483647"),
    ({"type": "enum", "values": {"a": 0, "b": "one"}}, "0 to 2147483647"),
    ({"type": "enum", "values": {"a": 0, "b c": 1}}, "a letter, then"),
    ({"type": "enum", "values": {"ab": 0, "A_B": 1}}, "case or underscores"),
    ({"type": "enum", "values": {"a": 0}, "map": {"5": 1}}, "map has 5 -> 1"),
    ({"type": "enum", "values": {"a": 0}, "map": {"five": 0}}, "numbers on the wire"),
    ({"type": "enum", "values": {"a": 0}, "map": {"-1": 0}}, "map has -1 -> 0"),
    ({"type": "enum", "values": {"a": 0}, "map": {"4294967296": 0}}, "map has 4294967296 -> 0"),
    ({"values": {"a": 0}}, 'make the type "enum"'),
    ({"map": {"0": 1}}, 'make the type "enum"'),
    ({"repeated": True, "explicit": True}, "no presence"),
    ({"repeated": True, "late": True}, "late is for scalars"),
    ({"type": "string", "late": True}, "late is for scalars"),
    ({"type": "bytes", "late": True}, "late is for scalars"),
    ({"scale": "twice"}, '"count" or "rate"'),
    ({"scale": True}, "must be a string"),
    ({"scale": "count", "repeated": True}, "scale is not allowed on a repeated column"),
    ({"scale": "rate", "type": "double"}, "a single column of uint8, uint16"),
    ({"scale": "count", "type": "int64"}, "scale is not allowed on type int64"),
    ({"scale": "count", "type": "mac"}, "scale is not allowed on type mac"),
    ({"sources": "ipfix:1"}, "must be a list"),
    ({"sources": [[]]}, "write a source, or a list of equal sources"),
    ({"sources": [1]}, "write a source, or a list of equal sources"),
    ({"sources": ["ipfix:1", "ipfix:octetDeltaCount"]}, "occurs twice"),
    ({"sources": ["ipfix:1", "ipfix:octetDeltaCount#1"]}, "occurs twice"),
    ({"sources": ["ipfix:1#last", "ipfix:octetDeltaCount#last"]}, "occurs twice"),
    ({"sources": ["ipfix:octetDeltaCuont"]}, "did you mean octetDeltaCount"),
    ({"sources": ["ipfix:56701"]}, "ids of ipfix are 1 to 32767; write netflow9:56701, which has 16 bits"),
    ({"sources": ["ipfix:56701#2"]}, "write netflow9:56701#2, which"),
    ({"sources": ["ipfix:65536"]}, "ids of ipfix are 1 to 32767; correct the id"),
    ({"sources": ["ipfix:9/56701"]}, "ids of ipfix are 0 to 32767; correct the id"),
    ({"depends": [1]}, "list of column names"),
    ({"type": "message"}, 'message is missing; write message = "NAME"'),
    ({"type": "message", "message": 5}, "must be a string"),
    ({"message": "sub_record"}, "message is not allowed on type uint32"),
    (
        {"type": "map", "key": "string", "value": "bool", "message": "x"},
        "message is not allowed on a map to bool",
    ),
    ({"type": "map", "key": "string", "value": "message"}, "message is missing; write"),
    ({"type": "map", "value": "uint64"}, "key of the map is None; write key = uint8 |"),
    ({"type": "map", "key": "double", "value": "uint64"}, "key of the map is 'double'; write key"),
    ({"type": "map", "key": "bytes", "value": "uint64"}, "key of the map is 'bytes'; write key"),
    ({"type": "map", "key": "strnig", "value": "uint64"}, "did you mean string"),
    ({"type": "map", "key": "string"}, "value of the map is None; write value = uint8 |"),
    ({"type": "map", "key": "string", "value": "enum"}, "value of the map is 'enum'"),
    ({"type": "map", "key": "string", "value": "map"}, "value of the map is 'map'"),
    ({"type": "map", "key": "string", "value": "bool", "repeated": True}, "repeated is not allowed on a map"),
    ({"type": "map", "key": "string", "value": "bool", "explicit": True}, "explicit is not allowed on a map"),
    ({"type": "map", "key": "string", "value": "bool", "required": True}, "required is not allowed on a map"),
    (
        {"type": "map", "key": "string", "value": "bool", "oneof": "c"},
        "a map cannot be a member of oneof 'c'",
    ),
    ({"key": "string"}, 'key is not allowed on type uint32; remove it, or make the type "map"'),
    ({"key": "string", "value": "bool"}, "key and value is not allowed on type uint32"),
    ({"required": True, "repeated": True}, "is both repeated and required"),
    ({"required": 1}, "must be true or false"),
    ({"type": "message", "message": "x", "explicit": True}, "explicit is not allowed on a message"),
    ({"type": "timestamp", "unit": "proto", "explicit": True}, "explicit is not allowed on a message"),
    ({"oneof": "c", "repeated": True}, "repeated is not allowed on a member of oneof 'c'"),
    ({"oneof": "c", "explicit": True}, "explicit is not allowed on a member of oneof 'c'"),
    ({"oneof": "c", "required": True}, "required is not allowed on a member of oneof 'c'"),
    ({"packed": False}, "packed = false is not allowed here"),
    ({"type": "string", "repeated": True, "packed": False}, "packed = false is not allowed here"),
    (
        {"type": "duration", "unit": "proto", "repeated": True, "packed": False},
        "packed = false is not allowed here",
    ),
    ({"type": "uint32", "unit": "proto"}, "only timestamp and duration"),
]


@pytest.mark.parametrize(("keys", "expected"), BAD, ids=[str(keys) for keys, _ in BAD])
def test_invalid_keys_are_refused_with_the_file_and_a_fix(keys, expected):
    with pytest.raises(SchemaError) as caught:
        column(**keys)
    assert expected in str(caught.value)
    assert caught.value.fix
    assert caught.value.origin == "mine.toml"
    assert str(caught.value).startswith("mine.toml: ")


@pytest.mark.parametrize("keys", [{"number": 0}, {"type": "unit32"}, {"colour": 1}, {"sources": ["ipfix:0"]}])
def test_the_error_names_the_column(keys):
    with pytest.raises(SchemaError, match=r"mine\.toml: column 'x': "):
        column(**keys)


@pytest.mark.parametrize("key", ["name", "number", "type"])
def test_name_number_and_type_are_required(key):
    table = {"name": "x", "number": 1000, "type": "uint32"}
    del table[key]
    with pytest.raises(SchemaError, match=f"no {key}; add {key} ="):
        Column.from_table(table, "mine.toml")


@pytest.mark.parametrize("name", ["TimeReceived", "SrcAS", "x1", "a_b_", "bytes", "message"])
def test_names_may_be_in_any_case(name):
    assert column(name=name).name == name


@pytest.mark.parametrize("number", [1, 15, 18999, 20000, 536870911])
def test_all_numbers_of_protocol_buffers_are_accepted(number):
    assert column(number=number).number == number


@pytest.mark.parametrize("type_name", ["uint8", "ip", "timestamp", "enum", "bool", "double"])
def test_scalars_and_addresses_may_be_late(type_name):
    assert column(type=type_name, late=True, **NEEDED.get(type_name, {})).late
