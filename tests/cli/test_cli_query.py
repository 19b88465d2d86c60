"""`flowbuf query`: SQL over captures and Parquet files."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from flowbuf.cli.output.results import to_text
from flowbuf.schema import Schema
from tests.support.cases import slow, slow_after
from tests.support.command import (
    CUT_SHORT,
    GOOD,
    WITHOUT_TEMPLATE,
    flowbuf,
    generated,
    json_lines,
    pcap,
    write,
)

SHIPPED = Path(__file__).parents[1] / "data"
CAPTURES = sorted(SHIPPED.glob("*.pcap*"))
SFLOW, NETFLOW9 = SHIPPED / "generated-sflow.pcap", SHIPPED / "generated-netflow9.pcap"


def ask(sql: str, *arguments: object) -> list[dict[str, Any]]:
    result = flowbuf("query", sql, *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return json_lines(result)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "netflow9.parquet"
    assert flowbuf("read", NETFLOW9, "-o", path, "--enable", "src_mac,flow_duration").exit_code == 0
    return path


def totals(*captures: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for flow in json_lines(flowbuf("read", *captures)):
        found[flow["src_addr"]] += flow.get("bytes", 0)
    return found


TOTALS = "SELECT src_addr, sum(bytes) AS total FROM flows GROUP BY ALL ORDER BY total DESC, src_addr"


def test_totals_match_the_flows() -> None:
    rows = ask(TOTALS, *CAPTURES)
    assert {row["src_addr"]: row["total"] for row in rows} == totals(*CAPTURES)
    assert [row["total"] for row in rows] == sorted((row["total"] for row in rows), reverse=True)


def test_parquet_files_are_queried_like_their_capture(parquet: Path) -> None:
    assert ask(TOTALS, parquet) == ask(TOTALS, NETFLOW9)
    columns = "SELECT src_addr, src_mac, flow_duration, time_received, flow_type FROM flows"
    assert ask(columns, parquet) == ask(columns, NETFLOW9)
    assert flowbuf("read", NETFLOW9, "-o", parquet, "--ip", "text").exit_code == 0
    assert ask(TOTALS, parquet) == ask(TOTALS, NETFLOW9)


def test_recursive_queries_are_supported(parquet: Path) -> None:
    sql = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 3)"
    sql += " SELECT count(*) n FROM t, flows"
    assert (
        ask(sql, parquet)
        == ask(sql, NETFLOW9)
        == ask(sql.replace("t, flows", "flows, t"), NETFLOW9)
        == [{"n": 900}]
    )


def test_captures_and_parquet_files_are_queried_together(parquet: Path) -> None:
    rows = ask(TOTALS, SFLOW, parquet)
    assert {row["src_addr"]: row["total"] for row in rows} == totals(SFLOW, NETFLOW9)
    types = ask("SELECT flow_type, count(*) AS n FROM flows GROUP BY ALL ORDER BY ALL", SFLOW, parquet)
    assert [row["flow_type"] for row in types] == ["NETFLOW_V9", "SFLOW_5"]


def test_addresses_are_text_in_every_kind_of_file(tmp_path: Path) -> None:
    """Several files may store them in different forms."""
    inputs = [tmp_path / name for name in ("binary.parquet", "text.parquet", "flows.pb")]
    columns = ("--columns", "src_addr,src_mac,bytes")
    assert flowbuf("read", SFLOW, "-o", inputs[0], *columns).exit_code == 0
    assert flowbuf("read", SFLOW, "-o", inputs[1], *columns, "--ip", "text").exit_code == 0
    assert flowbuf("encode", SFLOW, "-o", inputs[2], *columns).exit_code == 0
    sql = "SELECT src_addr, src_mac, count(*) AS n, sum(in_net(src_addr, '10.0.0.0/8')::INT) AS inside"
    sql += " FROM flows GROUP BY ALL ORDER BY ALL"
    rows = ask(sql, SFLOW)
    for files in (inputs[:2], inputs[1::-1], [*inputs, SFLOW]):
        times = len(files)
        assert ask(sql, *files) == [
            {**row, "n": times * row["n"], "inside": times * row["inside"]} for row in rows
        ]


def test_lists_of_addresses_are_text(tmp_path: Path) -> None:
    lists = pa.array(
        [[bytes(15) + b"\1", bytes(10) + b"\xff\xff\xc0\0\2\1"], [], None, [None]], pa.list_(pa.binary(16))
    )
    macs = pa.array([[1], None, [], [2, None]], pa.list_(pa.uint64()))
    names = ("ipv6_routing_header_addresses", "macs")
    pq.write_table(pa.table([lists, macs], names), tmp_path / "a.parquet")
    schema = tmp_path / "own.toml"
    schema.write_text(
        '[schema]\nextends = "flow"\n'
        '[[column]]\nname = "macs"\nnumber = 1000\ntype = "mac"\nrepeated = true\n'
        'sources = ["ipfix:sourceMacAddress"]\n'
    )
    rows = ask("FROM flows", tmp_path / "a.parquet", "--schema", schema)
    assert [row[names[0]] for row in rows] == [["::1", "192.0.2.1"], [], None, [None]]
    assert [row[names[1]] for row in rows] == [["00:00:00:00:00:01"], None, [], ["00:00:00:00:00:02", None]]


def test_names_of_existing_files_are_not_patterns(parquet: Path, tmp_path: Path) -> None:
    for name in ("[ab].parquet", "a.parquet", "*.parquet"):
        (tmp_path / name).write_bytes(parquet.read_bytes())
    for name in ("[ab].parquet", "*.parquet"):
        assert ask("SELECT count(*) AS n FROM flows", tmp_path / name) == [{"n": 300}]


def test_columns_missing_in_a_file_are_null(parquet: Path, tmp_path: Path) -> None:
    sql = "SELECT count(*) AS n FROM flows"
    sql += " WHERE dst_mac IS NULL AND coalesce(dst_mac, '') != '02:00:00:00:00:01'"
    assert ask(sql, parquet) == [{"n": 300}]
    assert ask(sql.replace("dst_mac", "Flows.dst_mac"), parquet) == [{"n": 300}]
    assert "dst_mac" not in ask("FROM flows LIMIT 1 -- dst_mac", parquet)[0]
    other = tmp_path / "other.parquet"
    assert flowbuf("read", SFLOW, "-o", other, "--columns", "dst_mac").exit_code == 0
    rows = ask(
        "SELECT count(*) AS n, count(dst_mac) AS macs, count(bytes) AS flows FROM flows", parquet, other
    )
    assert rows == [{"n": 600, "macs": 300, "flows": 300}]


def test_aliases_of_a_query_take_precedence(tmp_path: Path) -> None:
    """An alias may have the name of a column that the file lacks."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"total": [1, 2, 3]}), path)
    rows = ask("SELECT total > 1 AS bytes, count(*) AS n FROM flows GROUP BY bytes ORDER BY bytes", path)
    assert rows == [{"bytes": False, "n": 1}, {"bytes": True, "n": 2}]


def test_columns_in_a_query_are_enabled() -> None:
    macs = {flow["src_mac"] for flow in json_lines(flowbuf("read", SFLOW, "--enable", "src_mac"))}
    assert {row["mac"] for row in ask("SELECT DISTINCT src_mac AS mac FROM flows", SFLOW)} == macs
    assert "src_mac" not in ask("FROM flows LIMIT 1", SFLOW)[0]


def test_all_columns_equal_the_output_of_read() -> None:
    flows = json_lines(flowbuf("read", SFLOW))
    rows = ask("FROM flows", SFLOW)
    assert [{name: value for name, value in row.items() if value not in (None, 0)} for row in rows] == flows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM flows",
        "SELECT count(*) AS n FROM (SELECT a.bytes FROM flows a POSITIONAL JOIN flows b)",
        "WITH x AS (FROM flows) SELECT ((SELECT count(*) FROM x) + (SELECT count(*) FROM flows)) // 2 AS n",
        "SELECT count(*) AS n FROM flows WHERE bytes <= (SELECT max(bytes) FROM flows)",
    ],
)
def test_a_query_may_read_the_flows_several_times(sql: str) -> None:
    assert ask(sql, SFLOW) == [{"n": len(json_lines(flowbuf("read", SFLOW)))}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT #2 AS exporter_address, bytes, packets FROM flows",
        "SELECT second AS exporter_address, bytes, packets FROM flows AS f(first, second)",
        "SELECT second AS exporter_address, bytes, packets"
        " FROM (SELECT DISTINCT ON (bytes) * FROM flows) f(a, second)"
        " WHERE bytes >= (SELECT min(#4) FROM flows)",
    ],
)
def test_columns_keep_their_positions(sql: str) -> None:
    """Positions stay valid if the columns before them are not decoded."""
    (exporter,) = {row["exporter_address"] for row in ask("SELECT exporter_address FROM flows", SFLOW)}
    (totals,) = ask("SELECT sum(bytes) AS n FROM flows", SFLOW)
    rows = ask(sql, SFLOW)
    assert {row["exporter_address"] for row in rows} == {exporter}
    assert "DISTINCT" in sql or sum(row["bytes"] for row in rows) == totals["n"]


def test_describe_and_summarize_list_the_columns() -> None:
    rows = ask("DESCRIBE flows", SFLOW)
    assert {"column_name": "src_addr", "column_type": "VARCHAR"}.items() <= rows[5].items()
    assert [row["column_name"] for row in ask("SUMMARIZE flows", SFLOW)] == [
        row["column_name"] for row in rows
    ]


@pytest.mark.parametrize(
    "capture",
    slow_after(2, sorted(SHIPPED.glob("*.pcap"))),  # the generated ones are first
    ids=lambda path: path.name,
)
def test_every_column_can_be_queried(capture: Path) -> None:
    """This includes lists of enums that are empty in all flows."""
    every = ",".join(column.name for column in Schema.load("flow"))
    flows = json_lines(flowbuf("read", capture, "--columns", every))
    rows = ask("FROM flows", capture, "--columns", every)
    assert [{name for name, value in row.items() if value not in (None, 0, [])} for row in rows] == [
        *map(set, flows)
    ]
    chosen = flowbuf("read", capture, "--columns", every, "--where", "len(layer_stack) = 0")
    assert len(json_lines(chosen)) == sum("layer_stack" not in flow for flow in flows)


def test_decoding_options_are_applied() -> None:
    options = ("--scale", "--override-sampling", "7")
    plain, scaled = (
        ask("SELECT sum(bytes) AS n FROM flows", NETFLOW9, *chosen)[0]["n"] for chosen in ((), options)
    )
    assert scaled == 7 * plain
    counters = ask("SELECT count(if_index) AS n FROM flows", SFLOW, "--counters")
    assert counters == [{"n": len(flowbuf("read", SFLOW, "--counters").stdout.splitlines())}]


@pytest.mark.parametrize("options", [("--scale",), ("--scale", "--override-sampling", "7")])
@pytest.mark.parametrize("columns", ["count(*) AS n", "proto, count(*) AS n", "sampling_rate, count(*) AS n"])
def test_scaling_needs_no_totals_in_the_query(columns: str, options: tuple[str, ...]) -> None:
    sql = f"SELECT {columns} FROM flows GROUP BY ALL ORDER BY ALL"
    counted = ask(sql, NETFLOW9, *options)
    assert counted == ask(sql, NETFLOW9, *options[1:])
    assert sum(row["n"] for row in counted) == len(flowbuf("read", NETFLOW9).stdout.splitlines())


def test_in_net_selects_addresses_of_a_network() -> None:
    rows = ask("SELECT count(*) AS n FROM flows WHERE in_net(src_addr, '10.0.0.0/8')", SFLOW)
    assert rows == [
        {"n": sum(flow["src_addr"].startswith("10.") for flow in json_lines(flowbuf("read", SFLOW)))}
    ]


# Output -----------------------------------------------------------------------------------------------------

MIXED = """
    SELECT 'a "b"' AS text, 1.5 AS real, 12.50::DECIMAL(10, 2) AS exact, NULL AS nothing,
    [1, 2] AS list, {'a': 1} AS pair, TIMESTAMPTZ '2025-01-02 03:04:05.678+01' AS time,
    INTERVAL '1 day 2 hours' AS span, DATE '2025-01-02' AS day,
    'ab'::BLOB AS octets, count(*) AS n, 'nan'::DOUBLE AS nan, MAP {'k': 2} AS map
    FROM flows
"""
MIXED_TEXTS = {
    **{"text": 'a "b"', "real": "1.5", "exact": "12.50", "nothing": "", "list": "[1,2]", "pair": '{"a":1}'},
    **{
        "time": "2025-01-02T02:04:05.678Z",
        "span": "1 day 02:00:00",
        "day": "2025-01-02",
        "octets": "6162",
        "n": "300",
    },
    **{"nan": "NaN", "map": '{"k":2}'},
}


def test_values_of_every_type_have_a_text() -> None:
    (row,) = csv.DictReader(io.StringIO(flowbuf("query", MIXED, SFLOW, "-f", "csv").stdout))
    assert row == MIXED_TEXTS
    (values,) = ask(MIXED, SFLOW)
    assert values == {
        **MIXED_TEXTS,
        **{
            "real": 1.5,
            "exact": 12.5,
            "nothing": None,
            "list": [1, 2],
            "pair": {"a": 1},
            "n": 300,
            "map": {"k": 2},
        },
    }


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("TIMESTAMP_NS '2025-01-02 03:04:05.123456789'", "2025-01-02T03:04:05.123456789"),
        ("TIMESTAMP_S '2025-01-02 03:04:05'", "2025-01-02T03:04:05.000"),
        ("TIMESTAMP '1969-12-31 23:59:59.123400'", "1969-12-31T23:59:59.123400"),
        ("TIMESTAMP 'infinity'", str(2**63 - 1)),
        ("DATE '0044-03-15 (BC)'", "-0043-03-15"),
        ("DATE 'infinity'", "<value out of range: 2147483647>"),
    ],
)
def test_times_outside_pythons_range_have_a_text(sql: str, text: str) -> None:
    assert ask(f"SELECT {sql} AS time FROM flows LIMIT 1", SFLOW) == [{"time": text}]


def test_a_table_has_the_columns_and_order_of_the_query() -> None:
    result = flowbuf("query", TOTALS + " LIMIT 2", SFLOW, "-f", "table")
    first, *rest = (line.split() for line in result.stdout.splitlines())
    assert first == ["src_addr", "total"]
    assert rest == [[row["src_addr"], str(row["total"])] for row in ask(TOTALS + " LIMIT 2", SFLOW)]
    nulls = flowbuf("query", "SELECT NULL AS nothing, flow_type FROM flows LIMIT 1", SFLOW, "-f", "table")
    assert nulls.stdout.splitlines() == ["         flow_", "nothing  type", "         SFLOW_5"]


def test_controls_do_not_reach_the_terminal() -> None:
    result = flowbuf("query", "SELECT chr(27) || '[2J' AS text FROM flows LIMIT 1", SFLOW, "-f", "table")
    assert result.stdout.splitlines()[1] == "\ufffd[2J"


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv", "x.jsonl"])
def test_the_suffix_of_the_output_selects_its_format(tmp_path: Path, name: str) -> None:
    result = flowbuf("query", TOTALS, SFLOW, "-o", tmp_path / name)
    assert (result.exit_code, result.output) == (0, "")
    path = tmp_path / name
    if name == "x.csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(path.read_text())))
    elif name == "x.jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = (pq.read_table(path) if name == "x.parquet" else pa.ipc.open_file(path).read_all()).to_pylist()
    assert {row["src_addr"]: int(row["total"]) for row in rows} == totals(SFLOW)


def test_results_of_a_query_can_be_queried(tmp_path: Path) -> None:
    path = tmp_path / "totals.parquet"
    assert flowbuf("query", TOTALS, SFLOW, "-o", path).exit_code == 0
    assert ask("SELECT sum(total) AS n FROM flows", path) == [{"n": sum(totals(SFLOW).values())}]


# Streaming --------------------------------------------------------------------------------------------------


def test_a_limit_stops_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some versions of duckdb read several batches ahead."""
    monkeypatch.setattr("flowbuf.cli.session.BATCH_ROWS", 1000)
    path = write(tmp_path / "a.pcap", generated(flows=200_000) + b"junk")
    assert len(ask("FROM flows LIMIT 3", path)) == 3
    assert flowbuf("query", "SELECT count(*) FROM flows", path).exit_code == 1


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        *((TOTALS, 0), ("SELECT nothing FROM flows", 5)),
        pytest.param("FROM flows LIMIT 1", 0, marks=pytest.mark.slow),
        pytest.param("DESCRIBE flows", 0, marks=pytest.mark.slow),
        pytest.param("SELECT in_net(src_addr, 'x') FROM flows", 1, marks=pytest.mark.slow),
    ],
)
def test_libraries_print_no_warnings_at_exit(sql: str, lines: int) -> None:
    command = [sys.executable, "-m", "flowbuf", "query", sql, SFLOW, NETFLOW9]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == (2 if lines else 0)
    assert len(result.stderr.splitlines()) == lines


IMPORTED = """
import sys
from flowbuf.cli.main import main
try:
    main(sys.argv[1:])
finally:
    assert "pandas" not in sys.modules or sys.modules["duckdb"].__version__.startswith("1.")
"""


@pytest.mark.parametrize("arguments", [("query", TOTALS), *slow(("read", "--where", "bytes > 0"))])
def test_sql_does_not_import_pandas(arguments: tuple[str, ...]) -> None:
    """Importing it would take longer than the query. Only duckdb 1 does so."""
    command = [sys.executable, "-c", IMPORTED, *arguments, NETFLOW9]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


INTERRUPTED_ANYWHERE = """
import queue, signal, sys, threading
from click.testing import CliRunner
from flowbuf.cli import querying, session
from flowbuf.cli.main import main

session.BATCH_ROWS = 16  # gives many batches
files = (querying.__file__, threading.__file__, queue.__file__)

def run(number):
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_filename not in files or frame.f_code.co_name == "run_query":
            return None
        lines += event in ("line", "return")
        if lines == number:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        status = CliRunner().invoke(main, ["query", "FROM flows", sys.argv[1]]).exit_code
    finally:
        sys.settrace(None)
    assert status == (130 if lines == number else 0), (number, lines, status)
    return status

number = 1
while run(number):
    number += 7
"""


@pytest.mark.slow
def test_a_signal_at_any_line_ends_the_command(tmp_path: Path) -> None:
    """No thread keeps waiting for another one."""
    path = write(tmp_path / "a.pcap", generated(flows=100))
    command = [sys.executable, "-c", INTERRUPTED_ANYWHERE, path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def test_named_pipes_are_read_from_their_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", SFLOW, tmp_path / "pipe"]):
        assert ask("SELECT count(*) AS n FROM flows", tmp_path / "pipe") == [{"n": 300}]


def test_queries_save_state(tmp_path: Path) -> None:
    state = tmp_path / "exporters.state"
    ask("SELECT count(*) FROM flows", NETFLOW9, "--state", state)
    assert state.stat().st_size > 0


# Errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT src_adr FROM flows", "did you mean src_addr"),
        ("SELECT nothing_like_it FROM flows", "columns are time_received"),
        ("SELECT f.src_adr FROM flows AS f", "did you mean src_addr"),
        ("SELECT * EXCLUDE (src_adr) FROM flows", "did you mean src_addr"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1 FROM flow", "Table with name flow does not exist"),
        ("SELECT 1; SELECT 2", "the SQL is not one query; write SELECT … FROM flows"),
        ("COPY flows TO 'x.csv'", "the SQL is not one query"),
        ("SELECT src_addr::INTEGER FROM flows", "Could not convert string"),
        ("SELECT in_net(src_addr, 'x') FROM flows", "'x' is not a network"),
    ],
)
def test_invalid_sql_is_a_usage_error(tmp_path: Path, sql: str, message: str) -> None:
    result = flowbuf("query", sql, SFLOW, "-o", tmp_path / "x.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: SQL: ")
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM flows WHERE count(*) > 1",
        "SELECT in_net(bytes, 1, 2) FROM flows",
        "SELECT src_addr, count(*) FROM flows",
    ],
)
def test_other_errors_do_not_list_columns(sql: str) -> None:
    result = flowbuf("query", sql, SFLOW)
    assert result.exit_code == 2
    assert "columns are" not in result.stderr
    assert "did you mean" not in result.stderr


def test_faults_of_inputs_are_reported_as_by_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(WITHOUT_TEMPLATE, GOOD, CUT_SHORT))
    read, asked = flowbuf("read", path), flowbuf("query", "SELECT count(*) AS n FROM flows", path)
    assert (asked.exit_code, asked.stderr) == (read.exit_code, read.stderr)
    assert len(read.stderr.splitlines()) == 2
    assert json_lines(asked) == [{"n": len(json_lines(read))}]


def test_strict_prints_one_line_and_leaves_no_output(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE))
    result = flowbuf("query", "SELECT count(*) FROM flows", path, "--strict", "-o", tmp_path / "x.csv")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {path}: 192.0.2.1: template_missing: ")
    assert not (tmp_path / "x.csv").exists()


def test_an_input_without_flows_is_reported(tmp_path: Path) -> None:
    result = flowbuf("query", "SELECT count(*) AS n FROM flows", write(tmp_path / "a.pcap", pcap()))
    assert (result.exit_code, result.stderr, json_lines(result)) == (0, "flowbuf: no flows\n", [{"n": 0}])


def test_an_invalid_input_leaves_no_output(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", b"bad")
    assert flowbuf("query", "FROM flows", path, "-o", tmp_path / "x.csv").exit_code == 1
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("size", [4, 1000, -1])
def test_damaged_parquet_files_are_skipped(parquet: Path, tmp_path: Path, size: int) -> None:
    bad = write(tmp_path / "bad.parquet", parquet.read_bytes()[:size])
    sql = "SELECT count(*) AS n, count(dst_mac) AS macs FROM flows"
    for others, flows in (((), None), ((SFLOW,), 300), ((parquet,), 300), ((parquet, SFLOW), 600)):
        result = flowbuf("query", sql, bad, *others)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"flowbuf: {bad}: not a complete Parquet file: ")
        assert len(result.stderr.splitlines()) == 1
        assert others == () or json_lines(result)[0]["n"] == flows
    result = flowbuf("query", sql, bad, SFLOW, "--strict", "-o", tmp_path / "x.csv")
    assert (result.exit_code, result.stderr.count("not a complete Parquet file")) == (1, 1)
    assert flowbuf("query", "FROM flows", bad, "-o", tmp_path / "x.csv").exit_code == 1
    assert "not found" in flowbuf("query", "SELECT bytes, nothing FROM flows", bad).stderr
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("module", ["pyarrow", "duckdb"])
def test_a_missing_library_is_an_error_with_its_fix(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = flowbuf("query", "FROM flows", SFLOW)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"flowbuf query needs {module}; run pip install 'flowbuf[sql]'" in result.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, ""), (True, "true"), (3, "3"), (b"\1", "01"), ([None, "é"], '[null,"é"]'), ([], "[]")),
        *(
            (timedelta(days=1), "1 day"),
            (timedelta(0), "00:00:00"),
            (timedelta(seconds=3661.5), "01:01:01.5"),
        ),
        (pa.MonthDayNano([14, -3, -(10**9)]), "14 months -3 days -00:00:01"),
        (datetime(2025, 1, 2, 3, 4, 5), "2025-01-02T03:04:05.000"),
        (datetime(2025, 1, 2, 3, 4, 5, 7, timezone.utc), "2025-01-02T03:04:05.000007Z"),
        (Decimal("1E+3"), "1000"),
    ],
)
def test_values_are_converted_to_text(value: Any, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    "options",
    [
        *(("--port", "2055"), ("--scale",), ("--decapsulate", "all"), ("--time", "export")),
        *(("--default-sampling", "5"), ("--override-sampling", "5")),
        *(("--state", "x.state"), ("--template-expiry", "60"), ("--obey-withdrawals",)),
    ],
)
@pytest.mark.parametrize("name", ["x.pb", "x.parquet"])
@pytest.mark.parametrize("command", [("read",), ("query", "FROM flows")])
def test_decoding_options_without_a_capture_leave_no_output(
    tmp_path: Path, options: tuple[str, ...], name: str, command: tuple[str, ...]
) -> None:
    capture = write(tmp_path / "a.pcap", pcap(GOOD))
    assert flowbuf("encode" if name == "x.pb" else "read", capture, "-o", tmp_path / name).exit_code == 0
    if (command[0], name) == ("read", "x.parquet"):
        return
    result = flowbuf(*command, tmp_path / name, "-f", "csv", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    problem = f"is not a capture, and {options[0]} applies only to captures; leave it out"
    expected = f"Error: {tmp_path / name}: {problem}\n"
    assert result.stderr == expected


@pytest.mark.parametrize(
    "options", [("--state", "x.state"), ("--template-expiry", "60"), ("--obey-withdrawals",)]
)
@pytest.mark.parametrize("name", ["x.pb", "x.parquet"])
def test_exporter_options_apply_to_the_captures_among_the_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], name: str
) -> None:
    """The options are accepted if at least one input is a capture."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.pcap", pcap(GOOD))
    assert flowbuf("encode" if name == "x.pb" else "read", "a.pcap", "-o", name).exit_code == 0
    result = flowbuf("query", "SELECT count(*) AS n FROM flows", name, "a.pcap", "-f", "jsonl", *options)
    assert (result.exit_code, json_lines(result)) == (0, [{"n": 2}])
    assert Path("x.state").exists() == (options[0] == "--state")
