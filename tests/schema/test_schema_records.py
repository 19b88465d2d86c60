"""Schemas of records have messages, maps, oneofs and required columns. Schemas of flows stay flat."""

import json
import pickle

import pytest

from flowbuf import Decoder, read_messages
from flowbuf.errors import SchemaError
from flowbuf.kafka.schema_registry import describe_schema, read_description
from flowbuf.schema import Reserved, Schema, SubMessage
from flowbuf.schema.loader import built_in_names

HEAD = '[schema]\nname = "tree"\nrows = "records"\n'
ROOT = '[[column]]\nname = "root"\nnumber = 1\ntype = "message"\nmessage = "node"\n'
NODE = """
[[message.node.column]]
name = "label"
number = 2
type = "string"
required = true

[[message.node.column]]
name = "left"
number = 1
type = "message"
message = "node"

[[message.node.reserved]]
number = 3
name = "colour"
"""
TREE = HEAD + ROOT + NODE


def load(text):
    return Schema.from_toml(text, "mine.toml")


def refusal(text):
    with pytest.raises(SchemaError) as caught:
        load(text)
    return str(caught.value)


def column(name, number, type, **keys):
    """Return the TOML text of a column."""
    table = {"name": name, "number": number, "type": type, **keys}
    return "\n".join(["[[column]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""])


# Schemas of records -----------------------------------------------------------------------------------------


def test_columns_of_records_are_enabled_by_default():
    schema = load(HEAD + column("a", 1, "int8") + column("b", 2, "bool", enabled=False))
    assert [(each.name, each.enabled) for each in schema] == [("a", True), ("b", False)]
    assert schema.rows == "records"


def test_messages_have_names_and_their_columns_are_in_number_order():
    schema = load(TREE)
    assert list(schema.messages) == ["node"]
    assert [each.name for each in schema.messages["node"]] == ["left", "label"]
    left, label = schema.messages["node"]
    assert (left.message, left.enabled, label.required, label.origin) == ("node", True, True, "mine.toml")
    assert schema.nested == (SubMessage("node", (left, label), (Reserved(3, "colour"),), "mine.toml"),)
    assert schema["root"].message == "node"


def test_flat_schemas_have_no_messages():
    assert Schema.load("flow").messages == {}
    assert Schema.load("flow").used_messages == ()
    assert Schema.load("flow").is_flat


def test_a_schema_with_messages_can_be_pickled_compared_and_hashed():
    schema = load(TREE)
    assert schema.messages
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert len({schema, load(TREE)}) == 1
    other = load(TREE.replace('name = "label"', 'name = "title"'))
    assert other != schema


def test_only_messages_reachable_from_enabled_columns_are_used():
    schema = load(TREE + '[[column]]\nname = "plain"\nnumber = 2\ntype = "bool"\n')
    assert [message.name for message in schema.used_messages] == ["node"]
    assert schema.only("plain").used_messages == ()
    assert schema.only("plain").is_flat
    assert schema.retire("root").used_messages == ()


def test_messages_are_reachable_through_messages_and_maps():
    text = (
        HEAD + '[[column]]\nname = "m"\nnumber = 1\n'
        'type = "map"\nkey = "int16"\nvalue = "message"\nmessage = "a"\n'
    )
    text += '[[message.b.column]]\nname = "x"\nnumber = 1\ntype = "bool"\n'
    text += '[[message.a.column]]\nname = "b"\nnumber = 1\ntype = "message"\nmessage = "b"\n'
    assert [message.name for message in load(text).used_messages] == ["a", "b"]


def test_add_and_alter_take_the_keys_of_records():
    schema = load(TREE).add("times", 5, "map", key="string", value="sfixed64")
    assert (schema["times"].key, schema["times"].value) == ("string", "sfixed64")
    schema = schema.add("list", 6, "uint32", repeated=True, packed=False).alter("list", packed=True)
    assert schema["list"].packed
    for key, value in {"message": "other", "key": "string", "value": "bool"}.items():
        with pytest.raises(SchemaError, match=f"{key} is .* and cannot become '{value}'"):
            schema.alter("root", **{key: value})
    with pytest.raises(SchemaError, match="column 'x': message 'nod' does not exist; did you mean node"):
        schema.add("x", 7, "message", message="nod")


# Refused schemas --------------------------------------------------------------------------------------------

FLAT = 'give each value its own column, or write rows = "records" below [schema]'


@pytest.mark.parametrize(
    ("keys", "feature"),
    [
        ({"type": "message", "message": "m"}, "type 'message'"),
        ({"type": "map", "key": "string", "value": "bool"}, "type 'map'"),
        ({"type": "int8"}, "type 'int8'"),
        ({"type": "int16"}, "type 'int16'"),
        ({"type": "sfixed32"}, "type 'sfixed32'"),
        ({"type": "sfixed64"}, "type 'sfixed64'"),
        ({"type": "timestamp", "unit": "proto"}, 'unit = "proto"'),
        ({"type": "duration", "unit": "proto"}, 'unit = "proto"'),
        ({"type": "bool", "required": True}, "required"),
        ({"type": "bool", "oneof": "c"}, "oneof"),
        ({"type": "uint32", "repeated": True, "packed": False}, "packed = false"),
    ],
)
@pytest.mark.parametrize("base", ["flow", "sflow_counters"])
def test_flow_schemas_refuse_features_of_records_and_suggest_a_fix(keys, feature, base):
    with pytest.raises(SchemaError) as caught:
        Schema.load(base).add("x", 1000, **keys)
    assert str(caught.value) == f"Schema.add: column 'x': {feature} is only for objects; {FLAT}"


def test_flow_schemas_refuse_messages():
    assert (
        refusal('[schema]\nextends = "flow"\n' + NODE)
        == f"mine.toml: [[message.node.column]] is only for objects; {FLAT}"
    )
    with pytest.raises(SchemaError, match="message 'm' is only for objects; give each value"):
        Schema("x", (), nested=(SubMessage("m", ()),))


def test_record_schemas_refuse_sources_and_late_and_scale():
    text = HEAD + column("a", 1, "uint64", sources=["ipfix:octetDeltaCount"])
    assert (
        "mine.toml: column 'a': objects have no sources; remove sources, because decoders cannot fill objects"
        in refusal(text)
    )
    with pytest.raises(SchemaError, match=r"schema flow: column 'time_received': objects have no sources"):
        Schema.from_toml('[schema]\nname = "mine"\nextends = "flow"\nrows = "records"')
    assert "late is not allowed on a column of objects" in refusal(HEAD + column("a", 1, "uint64", late=True))
    assert "scale is not allowed on a column of objects" in refusal(
        HEAD + column("a", 1, "uint64", scale="count")
    )


INSIDE = '[[message.node.column]]\nname = "x"\n'


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (INSIDE + "number = 0\ntype = 'bool'", "column 'node.x': number 0 is out of range; use 1 to"),
        (
            INSIDE + "number = 1\ntype = 'bool'",
            "column 'node.x': number 1 is already used by 'left'; choose an unused number",
        ),
        (
            INSIDE + "number = 3\ntype = 'bool'",
            "column 'node.x': number 3 is reserved for the retired 'colour'",
        ),
        (INSIDE + "number = 9\ntype = 'bol'", "column 'node.x': unknown type 'bol'; did you mean bool"),
        (INSIDE + "number = 9\ntype = 'bool'\nkolour = 1", "column 'node.x': unknown key 'kolour'"),
        (INSIDE + "type = 'bool'", "column 'node.x': has no number; add number ="),
        (
            INSIDE.replace('"x"', '"Label"') + "number = 9\ntype = 'bool'",
            "column 'node.Label': name is too similar",
        ),
        (
            INSIDE.replace('"x"', '"colour"') + "number = 9\ntype = 'bool'",
            "column 'node.colour': name is reserved",
        ),
        (
            INSIDE + "number = 9\ntype = 'bool'\nenabled = false",
            "column 'node.x': enabled = false is not allowed in a message",
        ),
        (
            INSIDE + "number = 9\ntype = 'bool'\ndepends = ['left']",
            "column 'node.x': depends is not allowed in a message",
        ),
        (
            INSIDE + "number = 9\ntype = 'bool'\nmirror = { name = 'y', number = 4 }",
            "'node.x': mirror is not allowed in a message",
        ),
        (
            INSIDE + "number = 9\ntype = 'uint8'\nsources = ['ipfix:4']",
            "column 'node.x': objects have no sources",
        ),
        (
            INSIDE + "number = 9\ntype = 'message'\nmessage = 'nod'",
            "'node.x': message 'nod' does not exist; did you mean node",
        ),
        (
            INSIDE + "number = 9\ntype = 'bool'\noneof = 'left'",
            "'node.x': oneof 'left' has the name of column 'left'",
        ),
        (
            INSIDE + "number = 9\ntype = 'bool'\noneof = 'a b'",
            "column 'node.x': oneof 'a b' is invalid; use a letter",
        ),
        ((INSIDE + "number = 9\ntype = 'bool'\n") * 2, "column 'node.x': occurs twice in this file"),
        (
            "[[message.node.reserved]]\nnumber = 4",
            "message 'node': [[reserved]] is {'number': 4}; write only number",
        ),
        (
            '[[message.node.reserved]]\nnumber = 3\nname = "hue"',
            "message 'node': a reserved number has two names",
        ),
        ('[[message.node.colum]]\nname = "x"', "[message.node]: 'colum'; did you mean column"),
        ("[message.spare]", "message 'spare': no column uses it; write type"),
        ('[[message.spare]]\nname = "x"', "message.spare is not a table; write [[message.spare.column]]"),
        (
            "[message.spare]\ncolumn = 1",
            "message.spare.column is not a list of tables; write [[message.spare.column]]",
        ),
        ('[[message."a b".column]]\nname = "x"', "message name 'a b' is invalid; use a letter"),
        (
            '[[column]]\nname = "x"\nnumber = 9\ntype = "message"\nmessage = "leaf"',
            "message 'leaf' does not exist; messages are",
        ),
        (
            '[[column]]\nname = "x"\nnumber = 9\ntype = "bool"\noneof = "root"',
            "oneof 'root' has the name of column 'root'",
        ),
    ],
)
def test_invalid_messages_are_refused_with_the_file_the_path_and_a_fix(more, expected):
    message = refusal(TREE + more)
    assert message.startswith("mine.toml: ")
    assert expected in message
    assert "; " in message


def test_similar_names_of_oneofs_and_messages_are_refused():
    text = HEAD + column("a", 1, "bool", oneof="choice") + column("b", 2, "bool", oneof="Choice")
    assert "column 'b': oneof 'Choice' is too similar to 'choice'; use one spelling" in refusal(text)
    leaf = '[[message.No_de.column]]\nname = "x"\nnumber = 1\ntype = "bool"\n'
    held = '[[column]]\nname = "x"\nnumber = 9\ntype = "message"\nmessage = "No_de"\n'
    assert "message 'No_de': name is too similar to 'node'; choose another name" in refusal(
        TREE + leaf + held
    )


def test_messages_that_require_themselves_are_refused():
    endless = TREE.replace('message = "node"\n\n', 'message = "node"\nrequired = true\n\n')
    assert "message 'node': requires itself, so it can never be encoded; remove required" in refusal(endless)
    ring = (
        ROOT + '[[message.node.column]]\nname = "x"\nnumber = 1\n'
        'type = "message"\nmessage = "leaf"\nrequired = true\n'
    )
    ring += '[[message.leaf.column]]\nname = "y"\nnumber = 1\ntype = "message"\nmessage = "node"\n'
    assert load(HEAD + ring).messages.keys() == {"node", "leaf"}
    assert "requires itself" in refusal(HEAD + ring + "required = true\n")


def test_a_message_that_is_not_a_table_is_refused():
    assert "message is not a table; write [[message.NAME.column]]" in refusal("message = 1\n" + HEAD)


# Files that extend others -----------------------------------------------------------------------------------


def test_files_change_and_add_columns_of_a_message(tmp_path):
    (tmp_path / "tree.toml").write_text(TREE)
    (tmp_path / "mine.toml").write_text(
        '[schema]\nextends = "tree.toml"\n[[message.node.column]]\nname = "label"\ndoc = "Its name"\n'
        '[[message.node.column]]\nname = "right"\nnumber = 4\ntype = "message"\nmessage = "node"\n'
    )
    schema = Schema.load(tmp_path / "mine.toml")
    left, label, right = schema.messages["node"]
    assert (label.doc, label.required, label.origin) == ("Its name", True, str(tmp_path / "mine.toml"))
    assert (left.origin, right.number) == (str(tmp_path / "tree.toml"), 4)
    assert schema.nested[0].reserved == (Reserved(3, "colour"),)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('name = "label"\ntype = "bytes"', "column 'node.label': type is 'string' in"),
        (
            'name = "lable"\ndoc = "x"',
            "column 'node.lable': does not exist, so it cannot be changed; did you mean label",
        ),
        ('name = "left"\nmessage = "leaf"', "column 'node.left': message is 'node' in"),
    ],
)
def test_pinned_keys_inside_a_message_cannot_change(tmp_path, table, expected):
    (tmp_path / "tree.toml").write_text(TREE)
    (tmp_path / "mine.toml").write_text(
        f'[schema]\nextends = "tree.toml"\n[[message.node.column]]\n{table}\n'
    )
    with pytest.raises(SchemaError) as caught:
        Schema.load(tmp_path / "mine.toml")
    assert str(caught.value).startswith(f"{tmp_path / 'mine.toml'}: ")
    assert expected in str(caught.value)


def test_columns_that_hold_a_message_can_be_retired(tmp_path):
    (tmp_path / "tree.toml").write_text(TREE)
    (tmp_path / "mine.toml").write_text('[schema]\nextends = "tree.toml"\nretire = ["root"]')
    assert Schema.load(tmp_path / "mine.toml").used_messages == ()


# The hash ---------------------------------------------------------------------------------------------------

# Users have messages of these schemas on their disks and these hashes in the names of their topics.
HASHES = {
    "flow": "c4ae2fdcc2a4db5a",
    "goflow2": "4281b6b58092b5b2",
    "akvorado": "d2b748943143ac76",
    "sflow_counters": "a8a87bc3de14d912",
    "options": "150b3f50c0c6d8c1",
    "telemetry": "ca91b637ad614c4f",
    "record": "4113c38959bc51d7",
    "client_message": "0303a93a9eff177c",
}


def test_hashes_of_the_built_in_schemas_never_change():
    assert {name: Schema.load(name).hash for name in built_in_names()} == HASHES


def test_the_hash_covers_used_messages():
    schema = load(TREE)
    assert load(TREE.replace('"label"', '"title"')).hash != schema.hash
    assert load(TREE.replace("number = 2", "number = 5")).hash != schema.hash
    assert load(TREE.replace("required = true", "")).hash != schema.hash
    assert load(TREE.replace('name = "colour"', 'name = "hue"')).hash == schema.hash
    assert load(TREE.replace("required = true", 'required = true\ndoc = "x"')).hash == schema.hash
    flat = load(HEAD + column("x", 9, "bool"))
    more = load(TREE + column("x", 9, "bool"))
    assert more.only("x").hash == flat.hash
    assert flat.hash != Schema("tree", flat.columns).hash  # same columns, but rows are flows


BASE = {"type": "uint32"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, {"type": "int16"}),
        (BASE, BASE | {"required": True}),
        (BASE, BASE | {"oneof": "c"}),
        (BASE | {"oneof": "d"}, BASE | {"oneof": "c"}),
        (BASE | {"repeated": True}, BASE | {"repeated": True, "packed": False}),
        ({"type": "timestamp", "unit": "ns"}, {"type": "timestamp", "unit": "proto"}),
        ({"type": "map", "key": "string", "value": "bool"}, {"type": "map", "key": "int8", "value": "bool"}),
        (
            {"type": "map", "key": "string", "value": "bool"},
            {"type": "map", "key": "string", "value": "int8"},
        ),
    ],
)
def test_the_hash_covers_keys_of_records(one, other):
    schema = load(TREE)
    assert schema.add("x", 9, **one).hash != schema.add("x", 9, **other).hash


def test_schema_descriptions_contain_messages():
    schema = load(TREE).add("m", 7, "map", key="string", value="message", message="node")
    schema = schema.add("a", 8, "uint8", oneof="c").add("b", 9, "timestamp", unit="proto", oneof="c")
    schema = schema.add("l", 10, "sint32", repeated=True, packed=False)
    again = read_description(describe_schema(schema))
    assert (again.hash, again.to_proto()) == (schema.hash, schema.to_proto())
    assert again.nested[0].reserved == schema.nested[0].reserved


# Built-in schemas of records --------------------------------------------------------------------------------


def avro_size(value):
    """Return the size of a value in Avro's binary encoding, in bytes.

    Doubles take 8 bytes, integers are zigzag varints, and strings have a length prefix.
    """
    if isinstance(value, float):
        return 8
    if isinstance(value, str):
        return avro_size(len(value)) + len(value.encode())
    return max(1, -(-(value << 1).bit_length() // 7))


def test_a_typical_telemetry_record_takes_104_bytes():
    record = {
        "device_id": "sensor-ber-0421", "site": "berlin-east", "firmware": "4.12.0-rc.1", "status": "active",
        "temperature": 21.374829103847562, "humidity": 48.21938471029384, "pressure": 1013.2518374650219,
        "battery_voltage": 3.2981734650192837, "timestamp": 1700000123456, "sequence": 184467,
        "uptime_seconds": 1234567, "error_count": 3,
    }  # fmt: skip
    schema = Schema.load("telemetry")
    assert list(record) == [each.name for each in schema.enabled]
    assert len(schema.message_class()(**record).SerializeToString()) == 104
    assert sum(map(avro_size, record.values())) == 93
    assert len(json.dumps(record, separators=(",", ":"))) == 309


def test_only_the_record_schema_is_nested():
    assert Schema.load("telemetry").is_flat
    assert Schema.load("client_message").is_flat
    record = Schema.load("record")
    assert not record.is_flat
    assert [each.name for each in record.messages["sub_record"]] == ["id", "name", "score"]
    assert (record["children"].repeated, record["children"].message) == (True, "sub_record")
    assert record["created"].unit == "proto"
    for name in ("telemetry", "client_message", "record"):
        assert not [each for each in Schema.load(name) if not each.doc]


@pytest.mark.parametrize("name", ["telemetry", "client_message", "record"])
def test_decoders_refuse_record_schemas(name):
    with pytest.raises(
        SchemaError,
        match=rf"schema {name}: the schema describes objects, which decoders cannot fill; "
        r"read and write them with flowbuf\.C",
    ):
        Decoder(name)


def test_read_messages_refuses_nested_schemas(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(b"")
    with pytest.raises(
        SchemaError, match=r"column 'parent': type 'message' is not possible in a table; disable parent"
    ):
        read_messages(path, schema="record")


def test_flat_records_become_columns(tmp_path):
    message = (
        Schema.load("client_message").message_class()(client="a", text="b", sequence=-7).SerializeToString()
    )
    path = tmp_path / "x.pb"
    path.write_bytes((bytes([len(message)]) + message) * 2)
    (batch,) = read_messages(path, schema="client_message")
    assert batch.to_arrow().to_pylist() == [{"client": "a", "text": "b", "sequence": -7}] * 2


def test_records_with_flat_enabled_columns_become_columns(tmp_path):
    schema = Schema.load("record").disable("level", "created", "parent", "children")
    message = schema.message_class()(name="a", active=True, balance=-3, priority=9).SerializeToString()
    path = tmp_path / "x.pb"
    path.write_bytes(bytes([len(message)]) + message)
    (batch,) = read_messages(path, schema=schema)
    (row,) = batch.to_arrow().to_pylist()
    assert (row["name"], row["active"], row["balance"], row["priority"]) == ("a", True, -3, 9)
