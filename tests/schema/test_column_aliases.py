"""Errors about unknown columns suggest the column that the user means."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.errors import SchemaError
from flowbuf.schema import Schema
from flowbuf.schema.aliases import _SAME, suggest_column
from tests.support.command import flowbuf, pcap, write
from tests.support.datagrams import data_set, ipfix, template, template_set, u32

FLOW = Schema.load("flow")
BARE = '[schema]\nname = "x"\n[[column]]\nname = "src_addr"\nnumber = 1\ntype = "ip"\nenabled = true\n'
NAMES = {
    **dict.fromkeys(
        ["src_ip", "sip", "srcip", "sIP", "ip_src", "sourceIPv4Address", "ipv4_src_addr"], "src_addr"
    ),
    **dict.fromkeys(["dst_ip", "dip", "dstip", "DstAddr"], "dst_addr"),
    **dict.fromkeys(["sport", "srcport", "SrcPort"], "src_port"),
    **dict.fromkeys(["dport", "dstport", "l4_dst_port"], "dst_port"),
    **dict.fromkeys(["protocol", "pr", "Proto"], "proto"),
    **dict.fromkeys(["in_bytes", "octets", "ibyt", "dOctets"], "bytes"),
    **dict.fromkeys(["pkts", "in_pkts", "ipkt", "in_packets"], "packets"),
    **dict.fromkeys(["tcpflags", "flags", "flg"], "tcp_flags"),
    **dict.fromkeys(["ingress_if", "input", "snmp_in", "input_snmp", "InIf"], "in_if"),
    **dict.fromkeys(["egress_if", "output", "snmp_out", "OutIf"], "out_if"),
    **dict.fromkeys(["sampler_address", "ExporterAddress"], "exporter_address"),
}


@pytest.mark.parametrize("name", NAMES)
def test_common_names_suggest_the_column(name: str) -> None:
    expected = rf"no column '{name}'; did you mean {NAMES[name]}\?$"
    for change in (FLOW.__getitem__, FLOW.enable, FLOW.disable, FLOW.only, FLOW.retire):
        with pytest.raises(SchemaError, match=expected):
            change(name)


def test_other_schemas_suggest_their_own_columns() -> None:
    for preset, column in (("akvorado", "SrcAddr"), ("goflow2", "src_addr")):
        with pytest.raises(SchemaError, match=rf"did you mean {column}\?"):
            Schema.load(preset)["src_ip"]
    with pytest.raises(SchemaError, match=r"did you mean src_net\?"):
        Schema.load("goflow2")["src_prefix_len"]


def test_every_alias_suggests_the_first_column_of_its_line() -> None:
    columns = [column.name for column in FLOW]
    for line in _SAME.strip().splitlines():
        first, *others = line.split()
        assert first in columns, line
        for name in others:
            assert name in columns or suggest_column(name, columns) == f"did you mean {first}?", name


def test_similar_names_are_still_suggested() -> None:
    assert suggest_column("bites", ["bytes", "packets"]) == "did you mean bytes?"
    assert suggest_column("nothing_like_it", ["bytes"]) == ""


@pytest.mark.parametrize("change", ["only", "enable", "disable"])
def test_a_column_of_a_built_in_schema_suggests_extends(tmp_path: Path, change: str) -> None:
    expected = r"no column 'src_mac'; write extends = \"flow\", or use schema flow, which has it$"
    with pytest.raises(SchemaError, match=expected):
        Schema.from_toml(BARE)["src_mac"]
    with pytest.raises(SchemaError, match=expected):
        Schema.from_toml(BARE.replace("[[column]]", f'{change} = ["src_mac"]\n[[column]]'))
    with pytest.raises(SchemaError, match="schema sflow_counters, which has it"):
        FLOW.enable("if_in_octets")


def test_columns_of_records_suggest_no_extends() -> None:
    for name in ("client", "temperature"):
        with pytest.raises(SchemaError) as caught:
            Schema.from_toml(BARE)[name]
        assert "extends" not in str(caught.value)


def test_errors_say_that_a_column_was_retired() -> None:
    schema = Schema.from_toml('[schema]\nextends = "flow"\nretire = ["next_hop"]')
    for change in (schema.__getitem__, schema.enable):
        with pytest.raises(SchemaError, match="no column 'next_hop'; leave it out, because it was retired"):
            change("next_hop")
    with pytest.raises(SchemaError, match="no column 'next_hop'; leave it out, because it was retired"):
        Schema.from_toml('[schema]\nextends = "flow"\nretire = ["next_hop"]\nenable = ["next_hop"]')


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "--columns", "src_ip"),
        ("read", "--enable", "src_ip"),
        ("read", "--disable", "src_ip"),
        ("read", "--where", "src_ip = '192.0.2.1'"),
        ("query", "SELECT src_ip FROM flows"),
    ],
    ids=" ".join,
)
def test_commands_suggest_the_column(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    records = (template_set(template(256, (8, 4))), data_set(256, u32(7)))
    capture = write(tmp_path / "a.pcap", pcap(ipfix(*records)))
    result = flowbuf(*arguments, capture)
    assert result.exit_code == 2
    assert "did you mean src_addr?" in result.stderr
