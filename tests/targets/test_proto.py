"""Schemas become .proto files, descriptors and message classes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf.errors import SchemaError
from flowbuf.schema import TYPES, Column, Reserved, Schema, SubMessage
from flowbuf.schema.types import MAP_KEYS, MAP_VALUES, RECORD_TYPES

FLOW = Schema.load("flow")
EVERYTHING = FLOW.enable(*(column.name for column in FLOW))


def empty(name="tiny"):
    return Schema.from_toml(f'[schema]\nname = "{name}"')


@pytest.fixture(scope="session")
def protoc(tmp_path_factory):
    """Return a function that compiles the text of a .proto file and returns its descriptor."""
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    well_known = Path(compiler.__file__).parent / "_proto"
    folder = tmp_path_factory.mktemp("protoc")

    def run(name, text):
        (folder / name).write_text(text, encoding="utf-8")
        out = folder / "out.desc"
        found = compiler.main(
            ["protoc", f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={out}", name]
        )
        assert found == 0, text
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]

    return run


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """Remove the JSON names. Only protoc writes them into descriptors."""
    messages = list(file.message_type)
    while messages:
        message = messages.pop()
        messages += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_protoc_compiles_the_text_to_the_same_descriptor(protoc):
    for schema in (
        FLOW,
        EVERYTHING,
        FLOW.retire("next_hop", "src_as").add("seen", 1000, "bool", explicit=True),
    ):
        assert without_json_names(protoc("flow.proto", schema.to_proto())) == schema.file_descriptor()


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(
    [
        "message",
        "enum",
        "reserved",
        "optional",
        "repeated",
        "bytes",
        "string",
        "bool",
        "syntax",
        "map",
        "oneof",
        "Tiny",
        "google",
    ]
)


@st.composite
def tables(draw):
    type_name = draw(st.sampled_from(sorted(TYPES)))
    table = {
        "name": draw(NAMES),
        "number": draw(st.integers(1, 18999) | st.integers(20000, 536870911)),
        "type": type_name,
    }
    if type_name in ("timestamp", "duration"):
        table["unit"] = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    if type_name == "enum":
        members = draw(
            st.lists(NAMES, min_size=1, max_size=4, unique_by=lambda name: name.replace("_", "").lower())
        )
        table["values"] = {member: number for number, member in enumerate(members)}
    shape = draw(st.sampled_from(["repeated", "explicit", None]))
    if shape:
        table[shape] = True
    return table | {"doc": draw(st.text(max_size=20))}


def unique(columns):
    keys = {table["name"].replace("_", "").lower(): table for table in columns}
    return list({table["number"]: table for table in keys.values()}.values())


@settings(max_examples=60, deadline=None)
@given(st.lists(tables(), max_size=6).map(unique))
def test_protoc_compiles_every_schema_to_the_same_descriptor(protoc, columns):
    schema = empty()
    for table in columns:
        schema = schema.add(**table)
    text = proto_unless_names_collide(schema)
    if text:
        assert without_json_names(protoc("tiny.proto", text)) == schema.file_descriptor()


def proto_unless_names_collide(schema):
    try:
        return schema.to_proto()
    except SchemaError as error:
        if "both need the name" not in str(error):
            raise
        return None


def test_the_text_is_formatted():
    schema = empty("my_flows").add("old", 1, "bool").retire("old")
    schema = schema.add("seen", 2, "timestamp", unit="ms", doc="When it was seen", explicit=True)
    schema = schema.add("colour", 3, "enum", values={"none": 0, "red": 1}, repeated=True)
    assert schema.to_proto().split("\n", 2)[2] == (
        'syntax = "proto3";\n\npackage flowbuf;\n\nmessage MyFlows {\n'
        '  reserved 1;\n  reserved "old";\n\n'
        "  enum Colour {\n    COLOUR_NONE = 0;\n    COLOUR_RED = 1;\n  }\n\n"
        "  // When it was seen (milliseconds since 1970, UTC)\n"
        "  optional uint64 seen = 2;\n"
        "  repeated Colour colour = 3;\n}\n"
    )


def test_the_text_names_schema_and_hash():
    assert FLOW.to_proto().startswith(f'// Schema "flow" of flowbuf, hash {FLOW.hash}.\n')


def test_only_enabled_columns_are_in_the_message():
    fields = FLOW.message_class().DESCRIPTOR.fields_by_name
    assert list(fields) == [column.name for column in FLOW.enabled]
    assert FLOW.message_class().DESCRIPTOR.full_name == "flowbuf.Flow"


def test_the_message_class_writes_and_reads():
    flow = FLOW.message_class()(bytes=1500, src_addr=bytes(15) + b"\x01", flow_direction=2)
    again = FLOW.message_class().FromString(flow.SerializeToString())
    assert (again.bytes, again.src_addr[-1], again.flow_direction) == (1500, 1, 2)


def test_schemas_do_not_share_a_descriptor_pool():
    one = empty().add("x", 1, "uint32").message_class()
    other = empty().add("x", 1, "string").message_class()
    assert one.DESCRIPTOR.full_name == other.DESCRIPTOR.full_name
    assert (one(x=5).x, other(x="five").x) == (5, "five")
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("flowbuf.Tiny")


def test_message_classes_are_cached():
    assert FLOW.message_class() is Schema.load("flow").message_class()


def test_only_explicit_columns_have_presence():
    message = empty().add("seen", 1, "uint32", explicit=True).add("size", 2, "uint32").message_class()
    assert message(seen=0).HasField("seen")
    assert not message().HasField("seen")
    with pytest.raises(ValueError, match="size"):
        message().HasField("size")


def test_colliding_names_in_the_proto_file_are_refused():
    schema = empty().add("a", 1, "enum", values={"b_c": 0}).add("a_b", 2, "enum", values={"c": 0})
    with pytest.raises(SchemaError, match="column 'a_b': its enum and column 'a' both need the name A_B_C"):
        schema.to_proto()


# Records ----------------------------------------------------------------------------------------------------

RECORD = Schema.from_toml(
    """
    [schema]
    name = "tree"
    rows = "records"

    [[column]]
    name = "root"
    number = 1
    type = "message"
    message = "tree_node"
    doc = "Where it begins"

    [[column]]
    name = "number"
    number = 2
    type = "int16"
    oneof = "choice"
    required = false

    [[column]]
    name = "when"
    number = 3
    type = "timestamp"
    unit = "proto"
    required = true
    doc = "Planted"

    [[column]]
    name = "text"
    number = 4
    type = "string"
    oneof = "choice"

    [[column]]
    name = "by_name"
    number = 5
    type = "map"
    key = "string"
    value = "message"
    message = "tree_node"

    [[column]]
    name = "heights"
    number = 6
    type = "uint32"
    repeated = true
    packed = false

    [[column]]
    name = "seen"
    number = 7
    type = "bool"
    explicit = true

    [[message.tree_node.column]]
    name = "children"
    number = 1
    type = "message"
    message = "tree_node"
    repeated = true

    [[message.tree_node.column]]
    name = "colour"
    number = 2
    type = "enum"
    values = { green = 0, red = 1 }

    [[message.tree_node.column]]
    name = "ages"
    number = 4
    type = "map"
    key = "uint8"
    value = "double"

    [[message.tree_node.reserved]]
    number = 3
    name = "shade"
    """
)


def test_the_text_of_a_record_is_formatted():
    assert RECORD.to_proto().split("\n", 2)[2] == (
        'syntax = "proto3";\n\npackage flowbuf;\n\n'
        'import "google/protobuf/timestamp.proto";\n\nmessage Tree {\n'
        "  message TreeNode {\n"
        '    reserved 3;\n    reserved "shade";\n\n'
        "    enum Colour {\n      COLOUR_GREEN = 0;\n      COLOUR_RED = 1;\n    }\n\n"
        "    repeated TreeNode children = 1;\n"
        "    Colour colour = 2;\n"
        "    map<uint32, double> ages = 4;\n"
        "  }\n\n"
        "  // Where it begins\n"
        "  TreeNode root = 1;\n"
        "  oneof choice {\n"
        "    // (16 bits with sign)\n"
        "    int32 number = 2;\n"
        "    string text = 4;\n"
        "  }\n"
        "  // Planted (required)\n"
        "  google.protobuf.Timestamp when = 3;\n"
        "  map<string, TreeNode> by_name = 5;\n"
        "  repeated uint32 heights = 6 [packed = false];\n"
        "  optional bool seen = 7;\n}\n"
    )


def test_protoc_compiles_the_text_of_records_to_the_same_descriptor(protoc):
    for schema in (RECORD, Schema.load("record"), RECORD.only("seen"), RECORD.disable("when", "root")):
        name = f"{schema.name}.proto"
        assert without_json_names(protoc(name, schema.to_proto())) == schema.file_descriptor()


def test_the_message_class_of_a_record_writes_and_reads():
    message_class = RECORD.message_class()
    tree = message_class(number=-3, heights=[1, 2], seen=False)
    tree.when.FromMilliseconds(1700000000123)
    tree.root.children.add(colour=1).ages[7] = 0.5
    tree.by_name["oak"].children.add()
    again = message_class.FromString(tree.SerializeToString())
    assert again == tree
    assert (again.WhichOneof("choice"), again.number, again.HasField("seen")) == ("number", -3, True)
    assert again.when.ToMilliseconds() == 1700000000123
    assert again.root.children[0].ages[7] == 0.5
    assert message_class(heights=[1, 2]).SerializeToString() == bytes([6 << 3, 1, 6 << 3, 2])  # not packed
    assert message_class(number=1, text="x").WhichOneof("choice") == "text"


def test_only_messages_reachable_from_enabled_columns_are_in_the_proto_file():
    assert "TreeNode" not in RECORD.only("seen").to_proto()
    assert "import" not in RECORD.only("seen").to_proto()
    assert not RECORD.only("seen").file_descriptor().dependency


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        (
            "TreeNode",
            {"type": "bool"},
            "column 'TreeNode': it and message TreeNode both need the name TreeNode",
        ),
        (
            "Tree_Node",
            {"type": "enum", "values": {"a": 0}},
            "its enum and message TreeNode both need the name TreeNode",
        ),
        (
            "ByNameEntry",
            {"type": "bool"},
            "'by_name': its entries and column 'ByNameEntry' both need the name ByNameE",
        ),
        (
            "by_name_entry",
            {"type": "enum", "values": {"a": 0}},
            "its entries and column 'by_name_entry' both need the",
        ),
    ],
)
def test_colliding_names_in_records_are_refused(name, keys, expected):
    with pytest.raises(SchemaError) as caught:
        RECORD.add(name, 20, **keys).to_proto()
    assert expected in str(caught.value)


def test_messages_must_not_hide_well_known_types():
    hiding = replace(RECORD, message_name="google")
    with pytest.raises(
        SchemaError, match=r"message_name 'google' hides the package google\.protobuf; choose"
    ):
        hiding.to_proto()
    assert "message google {" in hiding.disable("when").to_proto()


def test_enums_inside_a_message_must_not_hide_messages():
    hiding = Column("tree", 1, "enum", enabled=True, values={"a": 0})
    held = Column("x", 1, "message", enabled=True, message="inner")
    other = Column("y", 2, "message", enabled=True, message="tree")
    inner = SubMessage("inner", (hiding, other))
    schema = Schema("mine", (held,), rows="records", nested=(inner, SubMessage("tree", ())))
    with pytest.raises(
        SchemaError, match=r"column 'inner.tree': its enum and message Tree both need the name Tree"
    ):
        schema.to_proto()


MESSAGES = ("left", "right", "Tiny")


@st.composite
def shapes(draw, table):
    """Draw a column of a flow, or a column of the same name that only records can have."""
    kind = draw(st.sampled_from(["flat", "type", "message", "map", "proto", "oneof", "packed"]))
    plain = {key: table[key] for key in ("name", "number", "doc")}
    if kind == "type":
        return plain | {
            "type": draw(st.sampled_from(["int8", "int16", "sfixed32", "sfixed64"])),
            "required": True,
        }
    if kind == "message":
        return plain | {
            "type": kind,
            "message": draw(st.sampled_from(MESSAGES)),
            "repeated": draw(st.booleans()),
        }
    if kind == "proto":
        type_name = draw(st.sampled_from(["timestamp", "duration"]))
        return plain | {"type": type_name, "unit": kind, "repeated": draw(st.booleans())}
    if kind == "map":
        value = draw(st.sampled_from(MAP_VALUES))
        held = {"message": draw(st.sampled_from(MESSAGES))} if value == "message" else {}
        return plain | {"type": kind, "key": draw(st.sampled_from(MAP_KEYS)), "value": value} | held
    if kind == "oneof" and not {"repeated", "explicit"} & table.keys():
        return table | {"oneof": draw(st.sampled_from(["choice", "other_choice"]))}
    if kind == "packed" and RECORD_TYPES[table["type"]].wire_type != 2 and "explicit" not in table:
        return table | {"repeated": True, "packed": False}
    return table


def columns_of(columns):
    return tuple(Column.from_table({**table, "enabled": True}) for table in columns)


some_columns = st.lists(tables().flatmap(shapes), max_size=5).map(unique)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(some_columns, st.lists(some_columns, min_size=3, max_size=3))
def test_protoc_compiles_every_schema_of_records_to_the_same_descriptor(protoc, whole, parts):
    try:
        nested = tuple(
            SubMessage(name, columns_of(columns), (Reserved(536870911, "x_old"),))
            for name, columns in zip(MESSAGES, parts, strict=True)
        )
        schema = Schema("tiny", columns_of(whole), rows="records", nested=nested)
    except SchemaError as error:
        if not re.search("has the name of column|number 536870911|name is reserved", str(error)):
            raise
        return
    text = proto_unless_names_collide(schema)
    if text:
        assert without_json_names(protoc("tiny.proto", text)) == schema.file_descriptor()
        assert schema.message_class()().SerializeToString() == b""
