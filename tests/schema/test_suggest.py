"""`flowbuf schema suggest` writes a schema for the fields of captures that no column uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.schema import Schema
from flowbuf.schema.vendor_columns import FIRST_NUMBER, VENDORS
from tests.support.command import GOOD, flowbuf, generated, json_lines, pcap, write
from tests.support.datagrams import (
    basic_list,
    data_set,
    ipfix,
    mapped,
    netflow9,
    template,
    template_set,
    template_set9,
    u16,
    uint,
    variable,
)

FIELDS = [(1, 8), (33, 2, 6871), (999, 3), (350, 65535), (291, 65535), (160, 8), (210, 1), (8, 4)]
LEARNED = ipfix(template_set(template(256, *FIELDS)))


def values(label: int, text: bytes) -> bytes:
    return (
        uint(9, 8) + u16(label) + b"abc" + variable(text)
        + variable(basic_list((1, 4), uint(1, 4))) + uint(0, 8) + b"\0" + mapped("192.0.2.1")[12:]
    )  # fmt: skip


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    records = data_set(256, values(443, b"alice\nbob"))
    other = netflow9(template_set9(template(300, (1, 8), (40000, 5), (5000, 9))))
    more = netflow9(data_set(300, uint(1, 8) + b"carol" + bytes(9)))
    return write(tmp_path / "vendors.pcap", pcap(LEARNED, ipfix(records), other, more))


def write_schema_with(name: str, folder: Path) -> Path:
    """Write a schema that adds a column of the element 999 to `flow`."""
    path = folder / "mine.toml"
    path.write_text(
        '[schema]\nname = "mine"\nextends = "flow"\n'
        f'[[column]]\nname = "{name}"\nnumber = 1500\ntype = "uint8"\nsources = ["ipfix:999"]\n'
    )
    return path


def suggest(*arguments: object) -> tuple[int, str, str]:
    done = flowbuf("schema", "suggest", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_each_unused_field_becomes_a_column(capture: Path) -> None:
    status, text, problems = suggest(capture)
    assert (status, problems) == (0, "")
    assert (
        text
        == """\
# Fields of vendors.pcap that no column of the schema flow uses.
# Change names and types as you like. Keep the numbers: they identify columns in messages.
[schema]
name = "flow-suggested"
extends = "flow"
enable = [
    "asa_username",  # value: carol
    "cert_silk_app_label",  # value: 443
]

[[column]]
name = "field_5000"
number = 1000
type = "bytes"
sources = ["netflow9:5000"]
# value: 000000000000000000

[[column]]
name = "field_999"
number = 1001
type = "uint32"
sources = ["ipfix:999"]
# value: 616263

[[column]]
name = "virtual_station_name"
number = 1002
type = "string"
sources = ["ipfix:virtualStationName"]
doc = "Element virtualStationName"
# value: alice\N{REPLACEMENT CHARACTER}bob

# No column can hold a list of records: ipfix:basicList
"""
    )


def test_the_schema_reads_the_fields_and_needs_no_more(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert suggest(capture, "-o", path) == (0, "", "")
    first, second = json_lines(flowbuf("read", capture, "--schema", path))
    assert first["cert_silk_app_label"] == 443
    assert first["virtual_station_name"] == "alice\nbob"
    assert first["field_999"] == int.from_bytes(b"abc", "big")
    assert second["asa_username"] == "carol"
    status, text, problem = suggest(capture, "--schema", path)
    assert (status, text) == (1, "")
    assert problem == (
        "flowbuf: every field has a column in the schema flow-suggested; "
        "no column can hold a list of records: ipfix:basicList\n"
    )


def test_numbers_and_names_follow_those_of_the_schema(capture: Path, tmp_path: Path) -> None:
    status, text, _ = suggest(capture, "--schema", write_schema_with("virtual_station_name", tmp_path))
    assert status == 0
    schema = Schema.from_toml(text)
    new = [column for column in schema if column.number > 1500]
    assert [column.number for column in new][:2] == [1501, 1502]
    assert [column.name for column in new] == [
        *("field_5000", "virtual_station_name_2", "asa_username", "cert_silk_app_label"),
    ]
    assert "field_999" not in schema


def test_a_name_that_is_taken_is_not_enabled(capture: Path, tmp_path: Path) -> None:
    """The element of the vendor then has a column of another name."""
    status, text, _ = suggest(capture, "--schema", write_schema_with("cert_silk_app_label", tmp_path))
    assert status == 0
    assert 'enable = [\n    "asa_username",  # value: carol\n]\n' in text
    assert Schema.from_toml(text)["cert_silk_app_label_2"].number == 1502


def test_reserved_numbers_and_names_are_not_used(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[schema]\nname = "mine"\nextends = "flow"\nretire = ["virtual_station_name"]\n'
        '[[column]]\nname = "virtual_station_name"\nnumber = 18998\ntype = "uint8"\n'
    )
    status, text, _ = suggest(capture, "--schema", path)
    assert status == 0
    new = [column for column in Schema.from_toml(text) if column.number >= 1000]
    assert [column.number for column in new if column.number < FIRST_NUMBER] == [18999, 20000, 20001]
    assert "virtual_station_name_2" in {column.name for column in new}


def test_the_schema_is_not_replaced(capture: Path, tmp_path: Path) -> None:
    """Neither the one that is extended, nor one that this extends."""
    base, mine = tmp_path / "base.toml", tmp_path / "mine.toml"
    base.write_text('[schema]\nname = "base"\nextends = "flow"\n')
    mine.write_text('[schema]\nname = "mine"\nextends = "base.toml"\n')
    for output in (base, mine):
        before = output.read_text()
        status, text, problem = suggest(capture, "--schema", mine, "-o", output)
        assert (status, text) == (2, "")
        assert f"{output}: the suggestion extends this schema; name another output" in problem
        assert output.read_text() == before


def test_schemas_of_other_rows_are_refused(capture: Path) -> None:
    for name in ("sflow_counters", "record"):
        status, _, problem = suggest(capture, "--schema", name)
        assert status == 2
        assert f"rows of the schema {name} are" in problem


def test_a_file_with_the_name_of_a_built_in_schema_is_ignored(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow").write_text("")
    status, text, _ = suggest(capture)
    assert status == 0
    assert 'extends = "flow"\n' in text


def test_names_of_captures_need_not_be_utf8(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "a\udcff\nb.pcap"
    path.write_bytes(capture.read_bytes())
    assert suggest(path, "-o", tmp_path / "x.toml")[0] == 0
    assert Schema.load(tmp_path / "x.toml")["virtual_station_name"]


def test_more_fields_than_columns_are_left_out(tmp_path: Path) -> None:
    fields = [(number, 1, 55555) for number in range(1200)]
    content = pcap(*(ipfix(template_set(template(256 + k, *fields[k : k + 400]))) for k in (0, 400, 800)))
    assert suggest(write(tmp_path / "many.pcap", content), "-o", tmp_path / "x.toml")[0] == 0
    assert len(Schema.load(tmp_path / "x.toml")) == 1024
    assert "# A schema has at most 1024 columns. Left out: ipfix:55555/" in (tmp_path / "x.toml").read_text()


def test_hostile_fields_do_not_end_the_commands(tmp_path: Path) -> None:
    """Id 0 of the reverse direction, and elements of vendors with the id of padding."""
    fields = [(1, 8), (0, 1, 29305), (210, 1, 6871), (210, 1, 99999), (0, 1, 99999)]
    capture = write(tmp_path / "a.pcap", pcap(ipfix(template_set(template(256, *fields)))))
    assert flowbuf("inspect", capture).exit_code == 0
    status, text, _ = suggest(capture)
    assert status == 0
    assert [column.number for column in Schema.from_toml(text) if column.number >= 1000] == [
        *(1000, 1001, 1002),
        FIRST_NUMBER + (VENDORS.index("cert") << 16) + 210,
    ]


def test_fields_of_several_captures_are_suggested_once(capture: Path, tmp_path: Path) -> None:
    other = write(
        tmp_path / "other.pcap",
        pcap(
            ipfix(template_set(template(256, (1, 8), (999, 8), (33, 2, 6871)))),
            ipfix(data_set(256, uint(2, 8) + uint(77, 8) + u16(80))),
        ),
    )
    status, text, _ = suggest(capture, other)
    assert status == 0
    assert text.startswith("# Fields of vendors.pcap, other.pcap that")
    assert '[[column]]\nname = "field_999"\nnumber = 1001\ntype = "uint64"\n' in text  # the larger size
    assert text.count('"cert_silk_app_label",  # value: 443, 80\n') == 1


def test_captures_without_templates_have_no_suggestion(tmp_path: Path) -> None:
    status, text, problem = suggest(write(tmp_path / "five.pcap", pcap(GOOD)), "-o", tmp_path / "x.toml")
    assert (status, text) == (1, "")
    assert "no data templates of NetFlow v9 or IPFIX" in problem
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.parametrize("protocol", ["netflow9", "ipfix"])
def test_generated_captures_need_only_their_vendor_elements(protocol: str, tmp_path: Path) -> None:
    capture = write(tmp_path / "a.pcap", generated(protocol, 500))
    path = tmp_path / "more.toml"
    status, _, _ = suggest(capture, "-o", path)
    if status == 0:
        assert suggest(capture, "--schema", path)[0] == 1


def test_a_file_that_is_no_capture_is_an_error(tmp_path: Path) -> None:
    status, text, problem = suggest(write(tmp_path / "x.pcap", b"nothing"))
    assert (status, text) == (1, "")
    assert "x.pcap: not a capture" in problem


def test_every_schema_of_the_corpus_is_complete(corpus: Path, tmp_path: Path) -> None:
    suggested = 0
    for capture in sorted(corpus.glob("*.pcap")):
        path = tmp_path / f"{capture.stem}.toml"
        if suggest(capture, "-o", path)[0] == 0:
            suggested += 1
            assert suggest(capture, "--schema", path)[0] == 1, capture.name
    assert suggested > 10
