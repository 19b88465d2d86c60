"""Schema files extend, override, mirror and retire columns. Invalid files are refused."""

import json
import zlib

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import Reserved, Schema, loader
from flowbuf.schema.toml_json import parse_toml


def load(tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return Schema.load(path)


def refusal(tmp_path, text):
    with pytest.raises(SchemaError) as caught:
        load(tmp_path, text)
    return str(caught.value)


EXTENDING = """
[schema]
name = "mine"
extends = "flow"
enable = ["src_mac", "group:nat"]
disable = ["next_hop", "dst_port_nat"]

[[column]]
name = "firewall_event"
number = 1001
type = "uint32"
enabled = true
sources = ["ipfix:firewallEvent"]

[[column]]
name = "src_as"
sources = ["ipfix:bgpPrevAdjacentAsNumber"]
doc = "The neighbour"
"""


def test_a_file_extends_a_built_in_schema(tmp_path):
    schema = load(tmp_path, EXTENDING)
    enabled = {column.name for column in schema.enabled}
    assert enabled == {column.name for column in Schema.load("flow").enabled} | {
        *("src_mac", "src_addr_nat", "dst_addr_nat", "src_port_nat", "nat_event", "firewall_event")
    }
    assert schema.name == "mine"


SMALL = """
[schema]
name = "small"

[[column]]
name = "bytes"
number = 1
type = "uint64"
"""


@pytest.mark.parametrize(
    ("parsed", "number"),
    [
        (None, 1),
        ("", 1),
        ("[]", 1),
        ('{"tables": {}}', 1),
        ('{"crc32": 0, "tables": {}}', 1),
        ("{}", 1),
        ("this", 2),
    ],
)
def test_tables_in_json_replace_the_toml_that_they_were_made_from(tmp_path, monkeypatch, parsed, number):
    """Other JSON is ignored. The number of the column shows which file was read."""
    monkeypatch.setattr(loader, "data_folder", lambda: str(tmp_path))
    (tmp_path / "small.toml").write_text(SMALL)
    tables = parse_toml(SMALL.replace("number = 1", "number = 2"))
    this = json.dumps({"crc32": zlib.crc32(SMALL.encode()), "tables": tables})
    if parsed is not None:
        (tmp_path / "small.json").write_text(this if parsed == "this" else parsed)
    (document,) = loader.read("small")
    assert document.columns[0]["number"] == number


def test_a_file_of_a_user_is_read_as_toml(tmp_path):
    this = json.dumps({"crc32": zlib.crc32(SMALL.encode()), "tables": {"schema": {"name": "other"}}})
    (tmp_path / "small.json").write_text(this)
    assert load(tmp_path, SMALL, "small.toml").name == "small"


NEW = """
[schema]
name = "mine"

[[column]]
name = "new"
number = 1001
type = "uint32"
mirror = { name = "opposite", number = 1002 }

[[column]]
name = "off"
number = 1003
type = "uint32"
enabled = false
"""

CHANGED = """
[[column]]
name = "src_mac"
doc = "changed"

[[column]]
name = "bytes"
doc = "changed"
"""


def test_new_columns_are_enabled_and_inherited_ones_keep_their_state(tmp_path):
    assert [column.name for column in load(tmp_path, NEW).enabled] == ["new", "opposite"]
    schema = load(tmp_path, NEW.replace('"mine"', '"mine"\nextends = "flow"') + CHANGED)
    assert [column.name for column in schema.columns if column.doc == "changed"] == ["bytes", "src_mac"]
    default = [column.name for column in Schema.load("flow").enabled]
    assert [column.name for column in schema.enabled] == [*default, "new", "opposite"]


def test_inherited_columns_keep_the_keys_that_a_file_does_not_set(tmp_path):
    column = load(tmp_path, EXTENDING)["src_as"]
    assert (column.number, column.type, column.late, column.enabled) == (14, "uint32", True, True)
    assert (column.sources[0][0].id, column.doc) == (129, "The neighbour")


def test_the_origin_of_a_column_is_the_last_file_that_changes_it(tmp_path):
    schema = load(tmp_path, EXTENDING)
    assert schema["src_as"].origin == str(tmp_path / "mine.toml")
    assert schema["dst_as"].origin == "schema flow"


def test_a_file_extends_another_by_a_path_relative_to_itself(tmp_path):
    (tmp_path / "base").mkdir()
    load(tmp_path, EXTENDING, "base/mine.toml")
    schema = load(
        tmp_path, '[schema]\nextends = "base/mine.toml"\nonly = ["bytes", "l2"]\nenable = ["proto"]'
    )
    assert schema.name == "mine"
    assert [column.name for column in schema.enabled if column.group != "l2"] == ["bytes", "proto"]


def test_schemas_from_text_extend_like_files():
    schema = Schema.from_toml('[schema]\nextends = "flow"\nonly = ["bytes"]')
    assert [column.name for column in schema.enabled] == ["bytes"]


def test_columns_that_depend_on_one_another_may_be_enabled_in_any_order(tmp_path):
    text = '[schema]\nextends = "flow"\nenable = ["layer_stack"]\n'
    text += '[[column]]\nname = "layer_size"\nenabled = true'
    assert load(tmp_path, text)["layer_size"].enabled


def test_retire_reserves_number_and_name(tmp_path):
    schema = load(
        tmp_path,
        '[schema]\nextends = "flow"\nretire = ["tunnel_id"]\n[[reserved]]\nnumber = 999\nname = "old"',
    )
    assert schema.reserved == (Reserved(58, "tunnel_id"), Reserved(999, "old"))
    assert "tunnel_id" not in schema


def test_retired_columns_stay_reserved_in_extending_files(tmp_path):
    load(tmp_path, '[schema]\nextends = "flow"\nretire = ["tunnel_id"]', "base.toml")
    text = '[schema]\nextends = "base.toml"\n[[column]]\nname = "mine"\nnumber = 58\ntype = "bool"'
    assert "column 'mine': number 58 is reserved for the retired 'tunnel_id'" in refusal(tmp_path, text)


# Mirrored columns -------------------------------------------------------------------------------------------

PAIR = """
[schema]
name = "pair"

[[column]]
name = "src_x"
number = 1
type = "uint32"
enabled = true
group = "g"
sources = [["ipfix:bgpSourceAsNumber", "ipfix:ingressInterface"], "sflow:flow_sample.input", \
"netflow5:src_as"]
doc = "Source of the incoming"
"""


def test_a_mirror_has_the_opposite_sources_and_documentation(tmp_path):
    schema = load(tmp_path, PAIR + 'mirror = { name = "dst_x", number = 2 }')
    one, other = schema["src_x"], schema["dst_x"]
    assert [[source.text for source in rank] for rank in other.sources] == [
        ["ipfix:bgpDestinationAsNumber", "ipfix:egressInterface"],
        ["sflow:flow_sample.output"],
        ["netflow5:dst_as"],
    ]
    assert other.doc == "Destination of the outgoing"
    assert (other.number, other.type, other.enabled, other.group) == (2, one.type, one.enabled, one.group)
    assert (one.mirror, other.mirror) == ("dst_x", "src_x")


def test_keys_of_a_mirror_override_those_of_its_column(tmp_path):
    schema = load(
        tmp_path, PAIR + 'mirror = { name = "dst_x", number = 2, enabled = false, sources = ["ipfix:17"] }'
    )
    assert [source.text for rank in schema["dst_x"].sources for source in rank] == ["ipfix:17"]
    assert not schema["dst_x"].enabled
    assert schema["src_x"].enabled


def test_each_column_of_a_pair_can_be_overridden_alone(tmp_path):
    load(tmp_path, PAIR + 'mirror = { name = "dst_x", number = 2 }', "pair.toml")
    schema = load(tmp_path, '[schema]\nextends = "pair.toml"\n[[column]]\nname = "dst_x"\nenabled = false')
    assert (schema["src_x"].enabled, schema["dst_x"].enabled) == (True, False)


def test_a_mirror_with_the_same_sources_is_refused(tmp_path):
    text = PAIR.replace("bgpSourceAsNumber", "vlanId").replace("ingressInterface", "flowId")
    text = text.replace('"sflow:flow_sample.input", "netflow5:src_as"', '"packet:vlan.id"')
    text += 'mirror = { name = "dst_x", number = 2 }'
    assert "column 'src_x': mirror 'dst_x' would have the same sources; write its sources" in refusal(
        tmp_path, text
    )


@pytest.mark.parametrize("mirror", ['"dst_x"', "11", '{ name = "dst_x" }', "{ number = 2 }"])
def test_a_mirror_needs_name_and_number(tmp_path, mirror):
    assert "write number = N and mirror = { name = …, number = M }" in refusal(
        tmp_path, PAIR + f"mirror = {mirror}"
    )


# Invalid files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('extends = "flow"', "unknown table 'extends'; move it below [schema]"),
        ("[shema]", "unknown table 'shema'; did you mean schema"),
        ('[schema]\nnmae = "x"', "unknown key of [schema]: 'nmae'; did you mean name"),
        ("[schema]\nname = 1", "name is 1; it must be a string"),
        ('[schema]\nenable = "x"', "enable is 'x'; it must be a list"),
        ("[schema]\nenable = [1]", "must be a list of column names"),
        ("schema = 1", "write [schema]"),
        ("", 'the schema has no name; write name = "…" below [schema]'),
        ('[schema]\nname = "a b"', "name of the schema 'a b' is invalid"),
        ('[schema]\nname = "x"\nmessage_name = "a-b"', "message_name 'a-b' is invalid; use a letter"),
        ('[schema]\nname = "x"\n[column]\nname = "y"', "write [[column]]"),
        ('[schema]\nname = "x"\n[[message.sub_record.column]]\nname = "y"', "give each value its own column"),
        ('[schema]\nname = "x"\n[[reserved]]\nnumber = 1', "write only number = … and name = …"),
        ('[schema]\nname = "x"\n[[reserved]]\nnumber = 0\nname = "y"', "a number from 1 to"),
        ('[schema]\nextends = "flow"\nretire = ["tunel_id"]', "no column 'tunel_id'; did you mean tunnel_id"),
        ('[schema]\nextends = "flow"\nenable = ["scr_mac"]', "no column 'scr_mac'; did you mean src_mac"),
        ('[schema]\nextends = "flow"\nonly = ["group:l7"]', "no group 'l7'; "),
        (
            '[schema]\nextends = "flow"\n[[column]]\nname = "scr_mac"\nenabled = true',
            "does not exist, so it cannot be changed; did you",
        ),
        (
            '[schema]\nextends = "flow"\n[[column]]\nname = "bytes"\ntype = "uint32"',
            "type is 'uint64' in schema flow",
        ),
        (
            '[schema]\nextends = "flow"\n[[column]]\nname = "bytes"\nnumber = 9',
            "number is 4 in schema flow",
        ),
        (
            '[schema]\nextends = "flow"\n[[column]]\nname = "x"\nnumber = 4\ntype = "bool"',
            "number 4 is already used by 'bytes'",
        ),
        (
            '[schema]\nextends = "flow"' + '\n[[column]]\nname = "bytes"\nlate = true' * 2,
            "occurs twice in this file",
        ),
        ('[schema]\nname = "x"\n[[column]]\nname = ["y"]', "it must be a string"),
        ('[schema]\nextends = "nowhere.toml"', "nowhere.toml' does not exist; name another path, or one of"),
        ('[schema]\nextends = "flw"', "schema 'flw' does not exist; did you mean flow"),
        ('[schema]\nextends = "mine.toml"', "extends forms a cycle"),
    ],
)
def test_invalid_files_are_refused_with_the_file_and_a_fix(tmp_path, text, expected):
    message = refusal(tmp_path, text)
    assert message.startswith(str(tmp_path / "mine.toml"))
    assert expected in message
    assert "; " in message
    assert "\n" not in message


def test_circular_extends_are_refused(tmp_path):
    load_b = '[schema]\nextends = "a.toml"'
    (tmp_path / "b.toml").write_text(load_b)
    with pytest.raises(SchemaError, match=r"b\.toml: extends forms a cycle"):
        load(tmp_path, '[schema]\nextends = "b.toml"', "a.toml")


def test_bad_syntax_is_reported_with_its_line(tmp_path):
    assert refusal(tmp_path, '[schema]\nname = "x"\n[[column]\n').startswith(
        f"{tmp_path / 'mine.toml'}:3: is not TOML"
    )


@pytest.mark.parametrize("line", ['extends = "a\\u0000b"', 'only = ["a\\u0000b"]', '"a\\u0000b" = 1'])
def test_nul_characters_are_refused(tmp_path, line):
    fault = r"mine.toml: has a NUL character in 'a\x00b'; remove it"
    assert refusal(tmp_path, f'[schema]\nname = "x"\n{line}').endswith(fault)


def test_errors_in_an_extended_file_name_that_file(tmp_path):
    (tmp_path / "base.toml").write_text(
        '[schema]\nname = "x"\n[[column]]\nname = "y"\nnumber = 0\ntype = "bool"'
    )
    assert refusal(tmp_path, '[schema]\nextends = "base.toml"').startswith(
        f"{tmp_path / 'base.toml'}: column 'y'"
    )


def test_binary_files_and_folders_and_missing_schemas_are_refused(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(SchemaError, match=r"binary\.toml: is not UTF-8"):
        Schema.load(tmp_path / "binary.toml")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path)
    with pytest.raises(SchemaError, match="schema 'flwo' does not exist; did you mean flow"):
        Schema.load("flwo")
    for value in (5, None, b"flow"):
        with pytest.raises(
            TypeError, match=f"schema is {value!r}; it must be a Schema, the name of a built-in"
        ):
            Schema.load(value)
