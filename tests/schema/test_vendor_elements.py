"""Elements of vendors: the table, sources by name, and the columns that a schema gets for them."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

import flowbuf
from flowbuf import SchemaError
from flowbuf.io.proto_file import schema_of_proto
from flowbuf.schema import Schema, elements
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.source import KINDS, Source
from flowbuf.schema.vendor_columns import VENDORS, column_name, column_type
from tests.support.command import flowbuf as run
from tests.support.command import json_lines, pcap, write
from tests.support.datagrams import (
    data_set,
    ipfix,
    netflow9,
    template,
    template_set,
    template_set9,
    u16,
    uint,
    variable,
)

SHARED_COLUMNS, SHARED_NUMBERS = 326, "17d2f83e6b5bd671"
"""Number of columns of several elements, and a digest of their numbers. New columns change both."""

FLOW = Schema.load("flow")
TABLE = Path(elements.data_folder()) / "vendor_elements.csv"
DATA_TYPES = {element.data_type for element in elements.all()} | {
    "",
    "float32",
    "float64",
    "signed8",
    "signed16",
    "signed64",
}

LEARNED = ipfix(template_set(template(256, (1, 8), (33, 2, 6871), (118, 2, 35632))))
CERT = ipfix(data_set(256, uint(9, 8) + u16(443) + u16(7)))
LEARNED9 = netflow9(template_set9(template(256, (1, 8), (40000, 8), (40003, 2), (57590, 2))))
ASA = netflow9(data_set(256, uint(5, 8) + b"alice\0\0\0" + u16(4000) + u16(91)))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "vendors.pcap", pcap(LEARNED, CERT, LEARNED9, ASA))


# Table ------------------------------------------------------------------------------------------------------


def test_each_row_names_an_element_and_where_it_was_read() -> None:
    with open(TABLE, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 2000
    assert max(Counter((row["pen"], row["element_id"]) for row in rows).values()) == 1
    for row in rows:
        private = row["pen"] == "netflow9"
        assert private or 0 < int(row["pen"]) < 1 << 32, row
        assert int(row["element_id"]) in (range(1 << 15, 1 << 16) if private else range(1 << 15)), row
        assert re.fullmatch("[a-z][a-z0-9]*", row["vendor"]), row
        assert row["vendor"] not in KINDS, row
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", row["name"]), row
        assert row["data_type"] in DATA_TYPES, row
        assert row["source"], row


def test_columns_of_several_elements_keep_their_numbers() -> None:
    """Their number is that of the first element. All others follow from the vendor and the id."""
    shared: dict[str, int] = {}
    for vendor in VENDORS:
        names = Counter(column_name(element) for element in elements.of_vendor(vendor))
        columns = {column.name: column for column in Schema.load("flow").enable(f"group:{vendor}")}
        shared |= {name: columns[name].number for name, count in names.items() if count > 1}
    digest = hashlib.sha256(repr(sorted(shared.items())).encode()).hexdigest()
    assert (len(shared), digest[:16]) == (SHARED_COLUMNS, SHARED_NUMBERS), (
        "if new elements only share names, set SHARED_COLUMNS and SHARED_NUMBERS to the new values"
    )


def test_names_are_unique_among_the_elements_of_a_vendor() -> None:
    """Case and underscores do not count. IPFIX and NetFlow v9 may share a name."""
    found = Counter(
        (element.vendor, element.pen, element.name.lower().replace("_", ""))
        for vendor in elements.vendors()
        for element in elements.of_vendor(vendor)
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_the_page_lists_each_vendor_with_its_number_of_elements() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/vendor-elements.md"
    listed = re.findall(r"^\| `(\w+)` \|.* (\d+) \|$", page.read_text(), re.MULTILINE)
    expected = [(vendor, str(len(elements.of_vendor(vendor)))) for vendor in sorted(VENDORS)]
    assert listed == expected, f"update the table in {page}"


# Sources ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("cert:silkAppLabel", "ipfix:6871/33"),
        ("cert:silkAppLabel#2", "ipfix:6871/33#2"),
        ("cisco:tcpWindowSizeMin", "ipfix:9/4315"),
        ("cisco:overlay_session_id_input", "ipfix:9/12432"),
        ("antrea:egressIP", "ipfix:56506/154"),
        ("cgnx:cgnxWanPathName", "ipfix:50114/1100"),
        ("fastip:METER_VERSION", "ipfix:33610/0"),
        ("asa:username", "netflow9:40000"),
        ("netflow9:username", "netflow9:40000"),
        ("netflow9:fw_event", "netflow9:40005"),
        ("paloalto:user_id", "netflow9:56702"),
        ("ntop:L7_PROTO", "ipfix:35632/118"),
        ("netflow9:L7_PROTO", "netflow9:57590"),
    ],
)
def test_elements_of_vendors_have_names(name: str, number: str) -> None:
    assert Source.parse(name).key == Source.parse(number).key
    assert str(Source.parse(name)) == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cert:silkApLabel", "unknown element; did you mean silkAppLabel"),
        ("cert:nothing_like_it", "unknown element; write its id, as in ipfix:2636/137"),
        ("certt:silkAppLabel", "has an unknown kind; did you mean cert"),
        ("whoever:x", "has an unknown kind; kinds are ipfix, .*, and names of vendors"),
        ("cert:silkAppLabel#0", "invalid occurrence"),
        ("netflow9:silkAppLabel", "unknown element"),
    ],
)
def test_unknown_names_are_errors_with_a_suggestion(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Source.parse(text)


def test_vendors_may_share_a_name() -> None:
    shared = {element.name for element in elements.of_vendor("cesnet")} & {
        element.name for element in elements.of_vendor("flowmon")
    }
    assert shared
    for name in shared:
        one, other = Source.parse(f"cesnet:{name}"), Source.parse(f"flowmon:{name}")
        assert one.key != other.key


def test_types_of_columns_are_checked_by_the_name_of_an_element() -> None:
    with pytest.raises(SchemaError, match="cannot fill a column of type ip; types that can hold it: uint8"):
        compile_plan(FLOW.add("label", 1000, "ip", ["cert:silkAppLabel"]))
    compile_plan(FLOW.add("label", 1000, "ip", ["ipfix:6871/33"]))  # a number says nothing about the type


# Columns ----------------------------------------------------------------------------------------------------


def test_every_vendor_has_a_place() -> None:
    assert sorted(VENDORS) == sorted(elements.vendors())


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_group_of_a_vendor_enables_its_columns(vendor: str) -> None:
    schema = FLOW.enable(f"group:{vendor}")
    added = [column for column in schema if column.group == vendor]
    assert {column.name for column in added} == set(map(column_name, elements.of_vendor(vendor)))
    assert all(column.enabled for column in added)
    assert schema.disable(f"group:{vendor}").hash == FLOW.hash
    compile_plan(schema)
    assert Schema.load("flow").only(*(column.name for column in added)).enabled == tuple(added)


def test_numbers_and_types_of_columns_never_change() -> None:
    """A number has the place of the vendor and the id of the element."""
    schema = FLOW.enable("cert_silk_app_label", "asa_username", "vmware_vxlan_export_role", "ntop_l7_proto")
    assert {column.name: (column.number, column.type) for column in schema if column.number >= 1 << 20} == {
        "asa_username": ((16 + 0) << 16 | 40000, "string"),
        "cert_silk_app_label": ((16 + 3) << 16 | 33, "uint16"),
        "ntop_l7_proto": ((16 + 16) << 16 | 118, "uint16"),
        "vmware_vxlan_export_role": ((16 + 23) << 16 | 889, "uint8"),
    }


@pytest.mark.parametrize(
    ("data_type", "table"),
    [
        ("unsigned32", {"type": "uint32"}),
        ("signed16", {"type": "sint32"}),
        ("dateTimeMicroseconds", {"type": "timestamp", "unit": "us"}),
        ("unsigned256", {"type": "bytes"}),
        ("", {"type": "bytes"}),
        ("subTemplateList", {}),
    ],
)
def test_data_types_have_column_types(data_type: str, table: dict[str, str]) -> None:
    assert column_type(data_type) == table


def test_own_columns_precede_those_of_vendors() -> None:
    own = FLOW.add("cert_silk_app_label", 1000, "uint32", ["ipfix:6871/33"])
    schema = own.enable("group:cert")
    assert schema["cert_silk_app_label"].number == 1000
    assert "cert_silk_tcp_state" in schema
    group = FLOW.add("mine", 1000, "uint8", ["ipfix:4"], group="cert")
    assert len(group.enable("group:cert")) == len(group)


def test_retired_columns_stay_retired() -> None:
    schema = FLOW.enable("cert_silk_app_label").retire("cert_silk_app_label")
    assert "cert_silk_app_label" not in schema.enable("group:cert")
    with pytest.raises(SchemaError, match="it was retired"):
        schema.enable("cert_silk_app_label")


def test_a_schema_with_one_column_gets_the_others() -> None:
    one = FLOW.enable("cert_silk_app_label")
    assert one.enable("group:cert") == FLOW.enable("group:cert")


def test_a_file_may_change_columns_of_vendors() -> None:
    schema = Schema.from_toml(
        '[schema]\nname = "m"\nextends = "flow"\nenable = ["cert_silk_app_label"]\n'
        'retire = ["asa_username"]\n'
        '[[column]]\nname = "cert_silk_app_label"\ndoc = "Application"\nexplicit = true\n'
    )
    assert schema["cert_silk_app_label"].doc == "Application"
    assert "asa_username" not in schema.enable("group:asa")


def test_columns_that_were_not_enabled_can_be_disabled() -> None:
    assert FLOW.disable("group:cert", "asa_username") == FLOW
    with pytest.raises(SchemaError, match="no column 'asa_nothing'"):
        FLOW.disable("asa_nothing")


def test_a_registry_keeps_the_types_of_columns() -> None:
    """Its .proto says only `bytes` of an address, and `uint32` of a port."""
    schema = FLOW.enable("group:asa", "cert_silk_app_label")
    read = schema_of_proto(schema.to_proto(), [FLOW], "registry")
    assert {column.name: column.type for column in read} == {
        column.name: column.type for column in schema.enabled
    }
    assert read.hash == schema.hash


@pytest.mark.parametrize(
    ("vendor", "name", "column"),
    [
        ("cert", "silkAppLabel", "cert_silk_app_label"),
        ("ntop", "GTPV1_C2S_TEID_DATA", "ntop_gtpv1_c2s_teid_data"),
        ("vmware", "tenantSourceIPv4", "vmware_tenant_source_ipv4"),
        ("viptela", "viptelaVPNId", "viptela_vpn_id"),
    ],
)
def test_names_of_columns(vendor: str, name: str, column: str) -> None:
    element = elements.find_vendor_element(vendor, name)
    assert element
    assert column_name(element) == column


def test_unknown_groups_and_columns_are_errors() -> None:
    with pytest.raises(SchemaError, match="no group 'certt'"):
        FLOW.enable("group:certt")
    with pytest.raises(
        SchemaError, match="no column 'cert_silk_app_lable'; did you mean cert_silk_app_label"
    ):
        FLOW.enable("cert_silk_app_lable")
    with pytest.raises(SchemaError, match="no group 'asa'; enable group:asa first"):
        FLOW.choose("group:asa")
    with pytest.raises(SchemaError, match="no group 'cert'"):
        Schema.load("sflow_counters").enable("group:cert")


def test_values_of_both_protocols_are_decoded(capture: Path) -> None:
    columns = "bytes,cert_silk_app_label,group:asa,ntop_l7_proto"
    flows = json_lines(run("read", capture, "--columns", columns))
    assert flows == [
        {"bytes": 9, "cert_silk_app_label": 443, "ntop_l7_proto": 7},
        {"bytes": 5, "asa_username": "alice", "asa_xlate_src_port": 4000, "ntop_l7_proto": 91},
    ]


def test_sql_and_python_take_their_names(capture: Path) -> None:
    where = "asa_username = 'alice'"
    assert json_lines(run("read", capture, "--columns", "bytes", "--where", where)) == [{"bytes": 5}]
    sql = "SELECT asa_username, cert_silk_app_label FROM flows ORDER BY bytes"
    assert [row["asa_username"] for row in json_lines(run("query", sql, capture))] == ["alice", None]
    (row, *_) = json_lines(run("top", "cert_silk_app_label", capture))
    assert (row["cert_silk_app_label"], row["bytes"]) == (443, 9)
    flows = flowbuf.read_capture(capture, columns=["cert_silk_app_label", "bytes"], where=where)
    assert flows.to_arrow().to_pylist() == [{"cert_silk_app_label": 0, "bytes": 5}]
    assert "asa_fw_event" in flowbuf.read_capture(capture, columns=["group:asa"]).to_arrow().schema.names


def test_several_kinds_of_rows_take_their_names(capture: Path) -> None:
    done = run("read", capture, "--rows", "flows,counters", "--columns", "bytes,group:asa,if_index")
    assert [row["bytes"] for row in json_lines(done)] == [9, 5]
    assert json_lines(done)[1]["asa_username"] == "alice"


def test_a_file_may_enable_them(capture: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", b'[schema]\nname = "m"\nextends = "flow"\nenable = ["group:asa"]\n')
    flows = flowbuf.read_capture(capture, Schema.load(path)).to_arrow()
    assert flows["asa_username"].to_pylist() == [None, "alice"]


def test_messages_with_these_columns_are_read_back(capture: Path, tmp_path: Path) -> None:
    stream = tmp_path / "flows.pb"
    assert run("encode", capture, "-o", stream, "--enable", "group:asa,cert_silk_app_label").exit_code == 0
    flows = json_lines(run("read", stream))
    assert [flow.get("asa_username") for flow in flows] == [None, "alice"]
    assert [flow.get("cert_silk_app_label") for flow in flows] == [443, None]
    assert flowbuf.read_messages(stream).to_arrow()["asa_username"].to_pylist() == [None, "alice"]


def test_a_capture_names_the_elements(capture: Path) -> None:
    text = run("inspect", capture).stdout
    assert re.search(r"^ cert:silkAppLabel +443 *$", text, re.MULTILINE)
    assert re.search(r"^ asa:username +alice *$", text, re.MULTILINE)
    assert "(silkAppLabel:2)" in text  # in brackets, because no column of flow uses it
    assert " octetDeltaCount:8, (" in text


def test_variable_text_of_a_vendor_is_decoded(tmp_path: Path) -> None:
    name, of_vendor = "natSubString", ipfix(template_set(template(256, (1, 8), (93, 65535, 637))))
    content = pcap(of_vendor, ipfix(data_set(256, uint(1, 8) + variable(b"host-7"))))
    flows = json_lines(run("read", write(tmp_path / "a.pcap", content), "--columns", "group:nokia"))
    assert flows == [{"nokia_nat_sub_string": "host-7"}]
    assert column_name(elements.find_vendor_element("nokia", name)) in flows[0]  # type: ignore[arg-type]


def test_the_error_for_an_unknown_group_lists_the_vendors() -> None:
    with pytest.raises(
        SchemaError, match=r"groups are address, app, .*; groups of vendors are antrea, asa, "
    ):
        Schema.load("flow").enable("group:vlan")
    with pytest.raises(SchemaError, match=r"no group 'cert'; groups are [^;]*$"):
        Schema.load("options").enable("group:cert")


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [("cert_silk", "cert_silk_app_label"), ("tcp", "tcp_flags or "), ("group:cer", "cert")],
)
def test_names_that_begin_with_what_was_typed_are_suggested_first(typed: str, suggested: str) -> None:
    with pytest.raises(SchemaError, match=f"did you mean .*{suggested}"):
        Schema.load("flow").enable(typed)
