"""`flowbuf schema`: its output and its exit status."""

import io
import json
import sys

import pytest
from click.testing import CliRunner
from rich.console import Console

from flowbuf.cli.main import main
from flowbuf.cli.schema import _table
from flowbuf.cli.schema import schema as command
from flowbuf.schema import Schema

FLOW = Schema.load("flow")


def run(*arguments):
    return CliRunner().invoke(command, arguments)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[schema]\nname = "mine"\nextends = "flow"\nenable = ["src_mac"]\n')
    return str(path)


@pytest.mark.parametrize("name", ["", "show", "proto", "arrow", "hash", "check", "diff"])
def test_help_has_examples(name):
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert "Examples:\n    flowbuf schema " + name in result.stdout


def test_show_explains_zeros():
    rows = {row[1]: row for row in (line.split("\t") for line in run("show", "--all").stdout.splitlines())}
    assert {name: row[6] for name, row in rows.items() if row[5]} == {
        column.name: "value" if column.zero_is_value else "absent" for column in FLOW if column.sources
    }
    assert (rows["bytes"][6], rows["src_addr"][6], rows["src_as"][6]) == ("value", "absent", "absent")
    assert "ipfix:postOctetDeltaCount (replaces zero)" in rows["bytes"][5]


def test_a_wide_table_explains_zeros():
    console = Console(width=200, file=io.StringIO())
    console.print(_table(FLOW, FLOW.enabled, 200))
    assert " zero " in console.file.getvalue()
    assert " absent " in console.file.getvalue()


def test_show_prints_one_line_per_column_to_a_pipe():
    rows = [line.split("\t") for line in run("show").stdout.splitlines()]
    assert [row[1] for row in rows] == [column.name for column in FLOW.enabled]
    assert rows[5][:6] == [
        *("6", "src_addr", "ip", "on", "address"),
        "ipfix:sourceIPv4Address = ipfix:sourceIPv6Address > netflow5:srcaddr > "
        "sflow:sampled_ip.src_ip > packet:ip.src_addr",
    ]


@pytest.mark.parametrize(
    ("width", "omitted"), [(60, ["type", "group", "sources"]), (80, ["sources"]), (110, ["group"]), (160, [])]
)
def test_columns_that_do_not_fit_are_omitted(width, omitted):
    schema = Schema.load("flow")
    console = Console(width=width, file=io.StringIO())
    console.print(_table(schema, schema.enabled, width))
    text = console.file.getvalue()
    assert "…" not in text
    assert ("no room for" in text) == bool(omitted)
    (headings,) = (line.split() for line in text.splitlines() if "number" in line)
    assert [heading for heading in ("type", "group", "sources") if heading not in headings] == omitted


def test_arrow_prints_types_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("arrow", "--columns", "bytes,src_addr,mpls_labels,flow_type")
    assert result.stdout.splitlines() == [
        "bytes:       uint64 not null",
        "src_addr:    flowbuf.ip<fixed_size_binary[16]>",
        "flow_type:   dictionary<int32, string>",
        "mpls_labels: list<uint32> not null",
    ]


def test_show_all_includes_disabled_columns():
    rows = [line.split("\t") for line in run("show", "--all").stdout.splitlines()]
    assert len(rows) == len(FLOW)
    assert {row[3] for row in rows} == {"on", "off"}
    assert rows[39][2] == "repeated uint32"


def test_show_json_describes_columns():
    shown = json.loads(run("show", "--json", "--columns", "flow_direction").stdout)
    assert shown["name"] == "flow"
    assert shown["hash"] == FLOW.only("flow_direction").hash
    (column,) = shown["columns"]
    assert column["values"] == {"undefined": 0, "ingress": 1, "egress": 2}
    assert column["sources"] == [["ipfix:flowDirection"]]


def test_the_common_options_switch_columns():
    schema = FLOW.switch(
        only=["bytes", "packets"], enable=["src_mac", "group:nat"], disable=["nat_event", "packets"]
    )
    result = run(
        "hash",
        "--columns",
        "bytes, packets",
        "--enable",
        "src_mac,group:nat",
        "--disable",
        "nat_event,packets",
    )
    assert result.stdout == schema.hash + "\n"


def test_a_schema_may_be_a_file(mine):
    assert run("hash", "--schema", mine).stdout == FLOW.enable("src_mac").hash + "\n"


def test_proto_prints_the_text():
    assert run("proto", "--enable", "src_mac").stdout == FLOW.enable("src_mac").to_proto()


def test_check_builds_everything(mine):
    result = run("check", mine)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"ok: {len(FLOW)} columns, 22 enabled, hash {FLOW.enable('src_mac').hash}\n"


def test_check_notes_types_that_are_too_small(tmp_path):
    path = tmp_path / "narrow.toml"
    columns = [
        *[("volume", "uint32", "octetDeltaCount"), ("port", "uint16", "sourceTransportPort")],
        *[("neighbour", "int32", "bgpSourceAsNumber"), ("other_port", "int32", "sourceTransportPort")],
        *[("start", "uint32", "flowStartMilliseconds"), ("seconds", "uint32", "flowStartSeconds")],
    ]
    path.write_text(
        '[schema]\nextends = "flow"\n'
        + "".join(
            f'[[column]]\nname = "{name}"\nnumber = {number}\ntype = "{kind}"\nsources = ["ipfix:{source}"]\n'
            for number, (name, kind, source) in enumerate(columns, 1000)
        )
    )
    result = run("check", str(path))
    assert result.exit_code == 0
    narrow = (columns[0], columns[2], columns[4])
    assert result.stderr == "".join(
        f"flowbuf: {path}: column {name!r}: {kind} does not hold all values of ipfix:{source}; "
        "larger ones are absent, and count as out_of_range\n"
        for name, kind, source in narrow
    )


def test_check_rejects_an_unknown_source(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(
        '[schema]\nextends = "flow"\n[[column]]\nname = "bytes"\nsources = ["packet:ip.lenght"]\n'
    )
    result = run("check", str(path))
    assert result.exit_code == 2
    assert f"{path}: column 'bytes'" in result.stderr


def test_diff_lists_compatible_changes(mine):
    result = run("diff", "flow", mine)
    assert (result.exit_code, result.stdout) == (0, "ok: src_mac: added: number 32: skipped\n")
    assert run("diff", "flow", "flow").stdout == "same: messages mean the same in both\n"


def test_diff_exits_with_1_on_incompatible_changes(tmp_path):
    path = tmp_path / "seconds.toml"
    path.write_text('[schema]\nextends = "flow"\n[[column]]\nname = "time_received"\nunit = "s"\n')
    result = run("diff", "flow", str(path))
    assert result.exit_code == 1
    assert result.stdout.startswith("CANNOT READ: time_received: unit changed: ms -> s")


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--enable", "scr_mac"),
        ("hash", "--schema", "flw"),
        ("hash", "--schema", "nowhere/x.toml"),
        ("proto", "--columns", "layer_size"),
        ("diff", "flow", "flw"),
        ("check", "nowhere.toml"),
    ],
)
def test_errors_print_one_line_and_exit_with_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")


# Classes ----------------------------------------------------------------------------------------------------

ORDERS = """
import enum
from dataclasses import dataclass
from typing import Annotated, Any
from flowbuf import field

print("imported")
class State(enum.IntEnum):
    OPEN = 0
class Orders:
    @dataclass
    class Order:
        id: Annotated[int, field(1, "uint32")]
        state: Annotated[State, field(4)]
        note: Annotated[str | None, field(2)] = None
@dataclass
class Wrong:
    value: Any
"""
ORDER = """package shop;

message Order {
  uint32 id = 1;
  State state = 4;
  optional string note = 2;
}

enum State {
  STATE_OPEN = 0;
}
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Make a package in the current folder."""
    (tmp_path / "shop_of_test").mkdir()
    (tmp_path / "shop_of_test/orders.py").write_text(ORDERS)
    (tmp_path / "shop_of_test/broken.py").write_text("import no_such_module")
    (tmp_path / "shop_of_test/exits.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "shop_of_test.orders"
    for name in [name for name in sys.modules if name.startswith("shop_of_test")]:
        del sys.modules[name]


def test_proto_prints_the_text_of_a_class(shop):
    result = run("proto", f"{shop}:Orders.Order", "--package", "shop")
    assert (result.exit_code, result.stderr) == (0, "imported\n")
    assert result.stdout == f'// Class {shop}:Orders.Order.\nsyntax = "proto3";\n\n{ORDER}'
    renamed = run("proto", f"{shop}:Orders.Order", "--message", "Sale").stdout
    assert renamed.startswith(f'// Class {shop}:Orders.Order.\nsyntax = "proto3";\n\nmessage Sale {{\n')


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["no_such_module:Order"],
            "no_such_module:Order: no module named 'no_such_module'; run the command in",
        ),
        (["shop_of_test.nowhere:Order"], "no module named 'shop_of_test.nowhere'; run"),
        (
            ["shop_of_test.broken:Order"],
            "module shop_of_test.broken cannot be imported: ModuleNotFoundError: No ",
        ),
        (["shop_of_test.exits:Order"], "module shop_of_test.exits cannot be imported: SystemExit: 3"),
        (["shop_of_test.orders:Orders.Ordr"], "shop_of_test.orders has no Orders.Ordr; did you mean Order?"),
        (["shop_of_test.orders:nothing"], "shop_of_test.orders has no nothing; correct the name"),
        (["shop_of_test.orders:field.x"], "shop_of_test.orders has no field.x; correct the name"),
        (
            ["shop_of_test.orders:field"],
            "shop_of_test.orders:field: field is not a class; name an annotated class",
        ),
        (
            ["shop_of_test.orders:Orders"],
            "Orders: is not a dataclass, NamedTuple, msgspec.Struct, attrs class or",
        ),
        (["shop_of_test.orders:State"], "State: is not a dataclass"),
        (["shop_of_test.orders:Wrong"], "Wrong.value: type "),
        (
            ["shop_of_test/orders.py:Wrong"],
            "is not the name of a class; write MODULE:CLASS as in an import, such",
        ),
        (["shop_of_test.orders:"], "shop_of_test.orders:: is not the name of a class"),
        ([":Order"], ":Order: is not the name of a class"),
        (
            ["shop_of_test.orders:Wrong", "--columns", "id"],
            "--columns does not apply to a class; leave it out",
        ),
        (
            ["shop_of_test.orders:Wrong", "--schema", "flow"],
            "--schema does not apply to a class; leave it out",
        ),
        (["flow", "--package", "a"], "--package applies only to a class; name one as MODULE:CLASS"),
        (["--message", "A"], "--message applies only to a class; name one as MODULE:CLASS"),
        (["shop_of_test.orders:Orders.Order", "--message", "a b"], "'a b' is not a valid name of a message"),
    ],
)
def test_errors_of_classes_are_one_line(shop, arguments, problem):
    result = run("proto", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    line = result.stderr.removeprefix("imported\n")
    assert line.startswith("Error: ")
    assert line.count("\n") == 1
    assert problem in line


def test_a_file_with_a_colon_is_a_schema(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b.toml").write_text('[schema]\nname = "mine"\nextends = "flow"\n')
    assert "// Schema" in run("proto", "a:b.toml").stdout


# Records ----------------------------------------------------------------------------------------------------


def test_show_lists_columns_of_messages_after_those_of_the_record():
    rows = [line.split("\t") for line in run("show", "record").stdout.splitlines()]
    record = Schema.load("record")
    assert [row[1] for row in rows] == [
        *(column.name for column in record),
        *("sub_record.id", "sub_record.name", "sub_record.score"),
    ]
    types = {row[1]: row[2] for row in rows}
    assert (types["parent"], types["children"]) == ("sub_record", "repeated sub_record")
    assert (types["created"], types["sub_record.score"]) == ("timestamp(proto)", "double")
    assert "sub_record" not in run("show", "record", "--columns", "name").stdout


def test_show_describes_keys_of_records(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[schema]\nname = "mine"\nrows = "records"\n'
        '[[column]]\nname = "a"\nnumber = 1\ntype = "map"\nkey = "string"\nvalue = "int8"\n'
        '[[column]]\nname = "b"\nnumber = 2\ntype = "bool"\nrequired = true\n'
        '[[column]]\nname = "c"\nnumber = 3\ntype = "duration"\nunit = "s"\noneof = "choice"\n'
    )
    rows = [line.split("\t") for line in run("show", str(path)).stdout.splitlines()]
    assert [row[2] for row in rows] == ["map<string, int8>", "required bool", "oneof choice: duration(s)"]
    shown = json.loads(run("show", str(path), "--json").stdout)
    assert shown["rows"] == "records"
    assert "messages" not in shown
    assert [(each["key"], each["required"], each["oneof"]) for each in shown["columns"]] == [
        ("string", False, None), (None, True, None), (None, False, "choice")
    ]  # fmt: skip


def test_show_json_describes_nested_messages():
    shown = json.loads(run("show", "record", "--json").stdout)
    assert [column["name"] for column in shown["messages"]["sub_record"]] == ["id", "name", "score"]
    assert "messages" not in json.loads(run("show", "--json").stdout)
    assert "packed" not in json.loads(run("show", "--json").stdout)["columns"][0]


def test_the_table_of_a_record_has_no_empty_columns():
    schema = Schema.load("record")
    console = Console(width=110, file=io.StringIO())
    console.print(_table(schema, schema.enabled, 110))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["number", "name", "type", "on", "doc"] in lines
    assert not [line for line in lines if "room" in line]
    (first,) = (line for line in lines if "sub_record.id" in line)
    assert lines[lines.index(first) - 1] == []


@pytest.mark.parametrize("name", ["telemetry", "record", "client_message"])
def test_proto_hash_check_and_diff_accept_records(name):
    schema = Schema.load(name)
    assert run("proto", name).stdout == schema.to_proto()
    assert run("hash", name).stdout == schema.hash + "\n"
    assert run("diff", name, name).stdout == "same: messages mean the same in both\n"
    result = run("check", name)
    assert (result.exit_code, result.stderr) == (0, "")
    inside = ", 3 in sub_record" if name == "record" else ""
    count = len(schema)
    assert result.stdout == f"ok: {count} columns, {count} enabled{inside}, hash {schema.hash}\n"


def test_tables_require_flat_records():
    assert "`temperature` Float64" in run("clickhouse", "telemetry").stdout
    assert "temperature:     double not null" in run("arrow", "telemetry").stdout.splitlines()
    for target, place in (("clickhouse", "a table of ClickHouse"), ("arrow", "columns of Arrow")):
        result = run(target, "record")
        assert (result.exit_code, result.stdout) == (2, "")
        problem = f"type 'message' is not possible in {place}; disable parent"
        assert result.stderr.startswith(f"Error: schema record: column 'parent': {problem}")


def test_help_of_the_group_is_not_truncated() -> None:
    text = CliRunner().invoke(main, ["schema", "--help"]).output
    assert "..." not in text.partition("Commands:")[2]
    assert "Check a schema: build all of its outputs, and report errors." in " ".join(text.split())
