"""`flowbuf read --where` selects flows with SQL. The output is otherwise unchanged."""

from __future__ import annotations

import csv
import io
import os
import select
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flowbuf import Decoder
from flowbuf.schema import Schema
from tests.support.cases import slow, slow_after
from tests.support.command import (
    EXPORTER,
    GOOD,
    WITHOUT_TEMPLATE,
    flowbuf,
    generated,
    json_lines,
    pcap,
    write,
)

FLOW = Schema.load("flow")
SHIPPED = Path(__file__).parents[1] / "data"
CAPTURES = slow_after(4, sorted(SHIPPED.glob("*.pcap*")))  # the generated ones are first
SFLOW = SHIPPED / "generated-sflow.pcap"
EVERYTHING = ",".join(column.name for column in FLOW)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("form", ["jsonl", "table", *slow("csv")])
@pytest.mark.parametrize("columns", [(), *slow(("--columns", EVERYTHING))], ids=["default", "every-column"])
def test_a_condition_that_holds_changes_nothing(capture: Path, form: str, columns: tuple[str, ...]) -> None:
    without = flowbuf("read", capture, "-f", form, *columns)
    within = flowbuf("read", capture, "-f", form, *columns, "--where", "true")
    assert within.stdout_bytes == without.stdout_bytes
    assert (within.exit_code, within.stderr) == (without.exit_code, without.stderr)


@pytest.mark.parametrize("schema", ["goflow2", "akvorado", "sflow_counters"])
def test_a_condition_that_holds_changes_nothing_for_other_schemas(schema: str) -> None:
    for capture in CAPTURES:
        without = flowbuf("read", capture, "--schema", schema)
        assert flowbuf("read", capture, "--schema", schema, "--where", "true").stdout == without.stdout


def test_a_condition_selects_flows() -> None:
    flows = json_lines(flowbuf("read", SFLOW))
    selected = json_lines(flowbuf("read", SFLOW, "--where", "bytes > 1000 and proto = 6"))
    assert selected == [flow for flow in flows if flow["bytes"] > 1000 and flow["proto"] == 6]
    assert 0 < len(selected) < len(flows)
    inside = json_lines(flowbuf("read", SFLOW, "--where", "in_net(src_addr, '10.0.0.0/8')"))
    assert inside == [flow for flow in flows if flow["src_addr"].startswith("10.")]


def test_times_and_enums_compare_with_their_text() -> None:
    flows = json_lines(flowbuf("read", SFLOW))
    first = flows[0]["time_received"]
    same = json_lines(
        flowbuf("read", SFLOW, "--where", f"time_received = '{first}' and flow_type = 'SFLOW_5'")
    )
    assert same == [flow for flow in flows if flow["time_received"] == first]


def test_conditions_can_use_hidden_columns() -> None:
    everything = json_lines(flowbuf("read", SFLOW, "--enable", "src_mac"))
    mac = everything[0]["src_mac"]
    result = flowbuf(
        "read", SFLOW, "--columns", "bytes,src_port", "-f", "csv", "--where", f"src_mac = '{mac}'"
    )
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["bytes", "src_port"]
    assert len(rows) == 1 + sum(flow["src_mac"] == mac for flow in everything)


def test_column_files_have_only_the_shown_columns(tmp_path: Path) -> None:
    where = "src_mac is not null and src_port = 443"
    result = flowbuf(
        "read", SFLOW, "--columns", "bytes,src_addr", "-o", tmp_path / "x.parquet", "--where", where
    )
    assert (result.exit_code, result.output) == (0, "")
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["bytes", "src_addr"]
    assert table.num_rows == sum(flow.get("src_port") == 443 for flow in json_lines(flowbuf("read", SFLOW)))


def test_a_limit_counts_selected_flows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", generated(flows=5000))
    selected = flowbuf("read", path, "--where", "proto = 17").stdout.splitlines()
    assert flowbuf("read", path, "--where", "proto = 17", "-n", 10).stdout.splitlines() == selected[:10]


def test_a_condition_without_matches_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = flowbuf("read", path, "--where", "bytes = 1")
    assert (result.exit_code, result.output) == (0, "flowbuf: none of 2 flows matches --where\n")


def test_faults_of_the_input_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE))
    without, within = flowbuf("read", path), flowbuf("read", path, "--where", "bytes > 0")
    assert (within.exit_code, within.stderr, within.stdout) == (1, without.stderr, without.stdout)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("src_adr = '192.0.2.1'", "did you mean src_addr"),
        ("bytes >", "syntax error"),
        ("", "the condition is not one SQL expression"),
        ("bytes > 1400) or (true", "the condition is not one SQL expression"),
        ("bytes > (select avg(bytes) from flows)", "use flowbuf query for a query over all flows"),
        ("sum(bytes) > 3", "aggregates"),
        ("in_net(src_addr, '192.0.2.0/33')", "'192.0.2.0/33' is not a network"),
        ("src_addr::INTEGER > 3", "Could not convert"),
    ],
)
def test_invalid_sql_is_a_usage_error(tmp_path: Path, where: str, message: str) -> None:
    result = flowbuf("read", SFLOW, "-o", tmp_path / "x.csv", "--where", where)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: --where: ")
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", [*slow(()), ("--where", "bytes = 300")])
@pytest.mark.parametrize(
    "content", [pcap(GOOD), Decoder().encode(GOOD, EXPORTER)], ids=["capture", "messages"]
)
def test_flows_are_shown_as_they_arrive(content: bytes, where: tuple[str, ...]) -> None:
    """Output does not wait until a batch or a buffer is full."""
    command = [sys.executable, "-m", "flowbuf", "read", "-", *where]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(content)
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 20)[0]
        process.stdin.close()
        assert b'"bytes":300' in process.stdout.read()
