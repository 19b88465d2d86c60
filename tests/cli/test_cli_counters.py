"""Counter and drop samples on the command line.

`flowbuf read --counters`, `flowbuf encode --schema sflow_counters`.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from flowbuf.cli.counters import DROP_REASONS, SECTIONS, section_of
from flowbuf.cli.output.table import CounterTable
from flowbuf.schema import Schema
from tests.strategies.counters import LAYOUTS
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write
from tests.support.datagrams import (
    counters,
    counters_sample,
    discarded_packet,
    ethernet,
    extended_acl,
    host_descr,
    ipv4,
    sampled_header,
    sflow,
    strings,
    tcp,
)

COUNTERS = Schema.load("sflow_counters")
UNKNOWN = 0xFFFFFFFF


def interface(index: int, in_bytes: int, out_bytes: int, status: int = 3) -> bytes:
    words = [
        index,
        6,
        10**10,
        1,
        status,
        in_bytes,
        11,
        2,
        3,
        4,
        5,
        UNKNOWN,
        out_bytes,
        12,
        13,
        14,
        15,
        16,
        2,
    ]
    return counters_sample(
        counters(1, LAYOUTS[1], *words), strings(1005, b"swp%d" % index), source=(0, index)
    )


INTERFACES = sflow(interface(1, 123456789, 98765432), interface(2, 0, 0, status=1))
HOST = counters_sample(
    host_descr(b"leaf1", bytes(range(16)), 3, 2, b"6.1.0"),
    counters(2003, LAYOUTS[2003], 0x3F000000, 0, 0, *range(14)),
    source=(2, 1),
)
DROP = discarded_packet(
    sampled_header(ethernet(ipv4(tcp(1234, 22), src="198.51.100.1", dst="203.0.113.2")), frame_length=64),
    extended_acl(9, b"deny-all", 1),
    source=(0, 3),
    input=3,
    reason=258,
)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "sflow.pcap", pcap(INTERFACES, sflow(HOST, DROP), GOOD))


@pytest.fixture
def messages(tmp_path: Path, capture: Path) -> Path:
    path = tmp_path / "counters.pb"
    assert flowbuf("encode", capture, "-o", path, "--schema", "sflow_counters").exit_code == 0
    return path


def test_json_lines_have_every_counter(capture: Path) -> None:
    result = flowbuf("read", capture, "--counters")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second, host, drop = json_lines(result)
    assert first["time_received"] == "2023-11-14T22:13:20.500Z"
    assert (first["sample_kind"], first["port_name"], first["if_direction"]) == (
        "counters",
        "swp1",
        "full_duplex",
    )
    assert (first["if_in_octets"], first["if_in_errors"], "if_in_unknown_protos" in first) == (
        123456789,
        5,
        False,
    )
    assert (second["if_index"], second["if_in_octets"]) == (2, 0)
    assert (host["hostname"], host["os_name"], host["load_one"]) == ("leaf1", "linux", 0.5)
    assert host["uuid"] == "000102030405060708090a0b0c0d0e0f"
    assert (drop["sample_kind"], drop["drop_reason"], drop["acl_direction"]) == ("drop", 258, "ingress")
    assert (drop["src_addr"], drop["dst_port"]) == ("198.51.100.1", 22)


def test_streams_of_messages_are_read(capture: Path, messages: Path) -> None:
    read = flowbuf("read", messages, "--counters")
    assert (read.exit_code, read.stderr) == (0, "")
    assert read.stdout == flowbuf("read", capture, "--counters").stdout
    messages.with_suffix(".pb.proto").unlink()
    assert flowbuf("read", messages, "--counters").stdout == read.stdout


def test_csv_has_every_or_the_selected_columns(capture: Path) -> None:
    rows = list(csv.reader(io.StringIO(flowbuf("read", capture, "--counters", "-f", "csv").stdout)))
    assert rows[0] == [column.name for column in COUNTERS.enabled]
    assert len(rows) == 5
    chosen = flowbuf(
        "read", capture, "--counters", "-n", 2, "-f", "csv", "--columns", "if_index,if_in_octets"
    )
    assert chosen.stdout == "if_index,if_in_octets\n1,123456789\n2,0\n"


def test_the_table_separates_interfaces_hosts_and_drops(capture: Path) -> None:
    result = flowbuf("read", capture, "--counters", "-f", "table")
    blocks = [block for block in result.stdout.split("2023-11-14 · exporter 192.0.2.200") if block]
    interfaces, hosts, drops = [[line.split() for line in block.splitlines()[3:]] for block in blocks]
    assert [row[-1] for row in interfaces] == ["swp1", "swp2"]
    assert {"10G", "up", "123,456,789", "98,765,432"} <= set(interfaces[0])
    assert {"10G", "down", "0"} <= set(interfaces[1])
    assert {"leaf1", "0.5"} <= set(hosts[0])
    assert {"198.51.100.1:1234", "203.0.113.2:22", "TCP", "acl", "deny-all", "64"} <= set(drops[0])


def test_selected_columns_are_shown_in_one_table(capture: Path) -> None:
    result = flowbuf(
        "read", capture, "--counters", "-f", "table", "--columns", "sample_kind,if_out_errors,drop_reason"
    )
    assert [line.split() for line in result.stdout.splitlines()[-5:]] == [
        ["kind", "errors", "reason"],
        ["counters", "16"],
        ["counters", "16"],
        ["counters"],
        ["drop", "acl"],
    ]


def test_a_changed_section_repeats_the_heading() -> None:
    file: Any = io.BytesIO()
    table = CounterTable(file, COUNTERS, to_terminal=False)
    rows = [{"if_index": 1}, {"hostname": "leaf1"}, {"sample_kind": 2, "drop_reason": 999}, {"if_index": 2}]
    for row in rows:
        table.write([row])
    table.finish()
    lines = [line.strip() for line in file.getvalue().decode().splitlines() if line.strip()]
    assert lines == ["if_index", "1", "hostname", "leaf1", "drop_", "reason", "999", "if_index", "2"]


def test_the_tables_use_existing_columns() -> None:
    assert not [name for section in SECTIONS.values() for name in section if name not in COUNTERS]
    assert section_of({}) == "interfaces"
    assert (DROP_REASONS[0], DROP_REASONS[15]) == ("net_unreachable", "precedence_cutoff")
    assert (DROP_REASONS[256], DROP_REASONS[269], DROP_REASONS[303]) == (
        "unknown",
        "blackhole_route",
        "split_horizon",
    )


def test_a_note_points_to_the_other_kind_of_rows(tmp_path: Path, capture: Path) -> None:
    sflow_alone = write(tmp_path / "counters.pcap", pcap(INTERFACES, sflow(DROP)))
    note = "no flows; flowbuf read --counters shows the counter and drop samples of sFlow: 3"
    assert flowbuf("read", sflow_alone).stderr == f"flowbuf: {note}\n"
    flows_alone = write(tmp_path / "flows.pcap", pcap(GOOD))
    note = "no counter samples; the input has no sFlow counters, but samples or datagrams of flows: 1"
    assert flowbuf("read", flows_alone, "--counters").stderr == f"flowbuf: {note}\n"
    assert "1 flows_left_out" in flowbuf("read", capture, "--counters", "-v").stderr


def test_counters_with_another_schema_is_a_usage_error(capture: Path) -> None:
    result = flowbuf("read", capture, "--counters", "--schema", "flow")
    assert result.exit_code == 2
    assert "--counters already selects the schema sflow_counters; leave out --schema" in result.stderr
    assert (
        flowbuf("read", capture, "--schema", "sflow_counters").stdout
        == flowbuf("read", capture, "--counters").stdout
    )


def test_reading_counter_messages_as_flows_is_a_usage_error(tmp_path: Path, messages: Path) -> None:
    result = flowbuf("read", messages)
    assert result.exit_code == 2
    assert result.stderr.endswith("; add --schema sflow_counters\n")
