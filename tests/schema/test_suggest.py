"""`flowbuf schema suggest` writes a schema for the fields of captures that no column uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.schema import Schema
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

FIELDS = [(1, 8), (33, 2, 6871), (999, 3), (371, 65535), (291, 65535), (160, 8), (210, 1), (8, 4)]
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
# Change names and types as you like. Numbers must stay when messages were written.
[schema]
name = "flow-suggested"
extends = "flow"

[[column]]
name = "asa_username"
number = 1000
type = "string"
sources = ["asa:username"]
doc = "Element username of asa"
# value: carol

[[column]]
name = "field_5000"
number = 1001
type = "bytes"
sources = ["netflow9:5000"]
# value: 000000000000000000

[[column]]
name = "cert_silk_app_label"
number = 1002
type = "uint16"
sources = ["cert:silkAppLabel"]
doc = "Element silkAppLabel of cert"
# value: 443

[[column]]
name = "field_999"
number = 1003
type = "uint32"
sources = ["ipfix:999"]
# value: 616263

[[column]]
name = "user_name"
number = 1004
type = "string"
sources = ["ipfix:userName"]
doc = "Element userName"
# value: alice\N{REPLACEMENT CHARACTER}bob

# No column can hold a list of records: ipfix:basicList
"""
    )


def test_the_schema_reads_the_fields_and_needs_no_more(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert suggest(capture, "-o", path) == (0, "", "")
    first, second = json_lines(flowbuf("read", capture, "--schema", path))
    assert first["cert_silk_app_label"] == 443
    assert first["user_name"] == "alice\nbob"
    assert first["field_999"] == int.from_bytes(b"abc", "big")
    assert second["asa_username"] == "carol"
    status, text, problem = suggest(capture, "--schema", path)
    assert (status, text) == (1, "")
    assert problem == (
        "flowbuf: every field has a column in the schema flow-suggested; "
        "no column can hold a list of records: ipfix:basicList\n"
    )


def test_numbers_and_names_follow_those_of_the_schema(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[schema]\nname = "mine"\nextends = "flow"\n'
        '[[column]]\nname = "user_name"\nnumber = 1500\ntype = "uint8"\nsources = ["ipfix:999"]\n'
    )
    status, text, _ = suggest(capture, "--schema", path)
    assert status == 0
    schema = Schema.from_toml(text)
    new = [column for column in schema if column.number > 1500]
    assert [column.number for column in new] == [1501, 1502, 1503, 1504]
    assert [column.name for column in new][3] == "user_name_2"
    assert "field_999" not in schema


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
    assert '[[column]]\nname = "field_999"\nnumber = 1003\ntype = "uint64"\n' in text  # the larger size
    assert text.count('"cert:silkAppLabel"') == 1
    assert "# value: 443\n# value: 80\n" in text


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
