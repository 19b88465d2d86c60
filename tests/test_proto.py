"""The .proto text, the descriptor and the message class of a schema."""

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf.errors import SchemaError
from flowbuf.schema import TYPES, Schema

FLOW = Schema.load("flow")
EVERYTHING = FLOW.enable(*(column.name for column in FLOW))


def empty(name="tiny"):
    return Schema.from_toml(f'[schema]\nname = "{name}"')


@pytest.fixture(scope="session")
def protoc(tmp_path_factory):
    """A function: the descriptor that protoc makes of a .proto text."""
    compiler = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    folder = tmp_path_factory.mktemp("protoc")

    def run(name, text):
        (folder / name).write_text(text, encoding="utf-8")
        out = folder / "out.desc"
        assert compiler.main(["protoc", f"-I{folder}", f"--descriptor_set_out={out}", name]) == 0, text
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]

    return run


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """protoc spells out the JSON names that everybody else derives."""
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_protoc_makes_the_same_descriptor_of_the_text(protoc):
    for schema in (FLOW, EVERYTHING, FLOW.retire("next_hop", "src_as").add("seen", 1000, "bool", explicit=True)):
        assert without_json_names(protoc("flow.proto", schema.to_proto())) == schema.file_descriptor()


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(
    ["message", "enum", "reserved", "optional", "repeated", "bytes", "string", "bool", "syntax", "map", "oneof", "Tiny"]
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
        members = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=lambda name: name.replace("_", "").lower()))
        table["values"] = {member: number for number, member in enumerate(members)}
    shape = draw(st.sampled_from(["repeated", "explicit", None]))
    if shape:
        table[shape] = True
    return table | {"doc": draw(st.text(max_size=20))}


def unique(made):
    keys = {table["name"].replace("_", "").lower(): table for table in made}
    return list({table["number"]: table for table in keys.values()}.values())


@settings(max_examples=60, deadline=None)
@given(st.lists(tables(), max_size=6).map(unique))
def test_whatever_a_schema_accepts_protoc_accepts_and_understands_alike(protoc, made):
    schema = empty()
    for table in made:
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


def test_the_text_reads_like_one_written_by_hand():
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


def test_the_message_class_of_a_schema_is_made_once():
    assert FLOW.message_class() is Schema.load("flow").message_class()


def test_explicit_columns_have_presence_and_others_not():
    message = empty().add("seen", 1, "uint32", explicit=True).add("size", 2, "uint32").message_class()
    assert message(seen=0).HasField("seen")
    assert not message().HasField("seen")
    with pytest.raises(ValueError, match="size"):
        message().HasField("size")


def test_a_collision_of_names_in_the_proto_is_the_schemas_error():
    schema = empty().add("a", 1, "enum", values={"b_c": 0}).add("a_b", 2, "enum", values={"c": 0})
    with pytest.raises(SchemaError, match="column 'a_b': its enum and column 'a' both need the name A_B_C"):
        schema.to_proto()
