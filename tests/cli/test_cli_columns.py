"""`flowbuf read` writes Parquet and Arrow files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from flowbuf import read_capture
from flowbuf.schema import Schema
from tests.support.columnar import rows_of
from tests.support.command import GOOD, WITHOUT_TEMPLATE, flowbuf, generated, pcap, write

FLOW = Schema.load("flow")
SHIPPED = Path(__file__).parents[1] / "data"
CAPTURES = sorted(SHIPPED.glob("*.pcap*"))
NETFLOW9, SFLOW = SHIPPED / "generated-netflow9.pcap", SHIPPED / "generated-sflow.pcap"


def read_columns(path: Path) -> pa.Table:
    table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    table.validate(full=True)
    return table


@pytest.fixture(params=["x.parquet", "x.arrow", "x.feather"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    return path


def test_the_suffix_of_the_output_selects_its_format(output: Path) -> None:
    result = flowbuf("read", NETFLOW9, "-o", output)
    assert (result.exit_code, result.output) == (0, "")
    assert read_columns(output).equals(read_capture(NETFLOW9, ip="text").to_arrow().combine_chunks())
    assert flowbuf("read", NETFLOW9, "-o", output, "--ip", "binary").exit_code == 0
    assert read_columns(output).equals(read_capture(NETFLOW9).to_arrow().combine_chunks())


@pytest.mark.parametrize("options", [(), ("--where", "bytes > 0"), ("--ip", "binary")])
def test_columns_keep_the_order_of_the_user(output: Path, options: tuple[str, ...]) -> None:
    columns = ["dst_port", "bytes", "exporter_address", "src_addr"]
    assert flowbuf("read", SFLOW, "-o", output, "--columns", ",".join(columns), *options).exit_code == 0
    ip = "binary" if "binary" in options else "text"
    wanted = read_capture(SFLOW, columns=columns, ip=ip).to_arrow().combine_chunks()
    assert read_columns(output).equals(wanted)
    assert wanted.schema.names == columns


def test_several_captures_are_written_to_one_file(output: Path) -> None:
    columns = ("--enable", "group:l2,group:time,mpls_labels")
    assert flowbuf("read", *CAPTURES, "-o", output, *columns).exit_code == 0
    schema = FLOW.enable("group:l2", "group:time", "mpls_labels")
    assert (
        read_columns(output).num_rows == len(flowbuf("read", *CAPTURES, "-f", "csv").stdout.splitlines()) - 1
    )
    rows = [row for capture in CAPTURES[:3] for row in rows_of(read_capture(capture, schema))]
    assert plain(read_columns(output).slice(0, len(rows))) == rows


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows, with times as numbers."""
    arrays = [
        column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column for column in table.columns
    ]
    return pa.table(arrays, table.column_names).to_pylist()


def test_templates_of_one_capture_apply_to_the_next(tmp_path: Path) -> None:
    whole = generated("netflow9", flows=100, template_refresh=10**6)
    head, record = 24, 16 + int.from_bytes(whole[24 + 8 : 24 + 12], "little")
    one, other = (write(tmp_path / f"{name}.pcap", content) for name, content in (
        ("one", whole[: head + record]), ("other", whole[:head] + whole[head + record :])
    ))  # fmt: skip
    assert flowbuf("read", one, other, "-o", tmp_path / "x.parquet").exit_code == 0
    assert read_columns(tmp_path / "x.parquet").num_rows == 100
    state = tmp_path / "exporters.state"
    assert flowbuf("read", one, "-o", tmp_path / "1.parquet", "--state", state).exit_code == 0
    assert flowbuf("read", other, "-o", tmp_path / "2.parquet", "--state", state).exit_code == 0
    assert sum(read_columns(tmp_path / f"{n}.parquet").num_rows for n in (1, 2)) == 100


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_columns_are_written_to_a_pipe(form: str) -> None:
    output = io.BytesIO(flowbuf("read", SFLOW, "-f", form).stdout_bytes)
    table = pq.read_table(output) if form == "parquet" else pa.ipc.open_stream(output).read_all()
    assert table.combine_chunks().equals(read_capture(SFLOW, ip="text").to_arrow().combine_chunks())


def test_addresses_are_bytes_or_text(output: Path) -> None:
    assert flowbuf("read", SFLOW, "-o", output, "--enable", "src_mac").exit_code == 0
    text = read_columns(output)
    assert (text.schema.field("src_addr").type, text.schema.field("src_mac").type) == (
        pa.string(),
        pa.string(),
    )
    assert flowbuf("read", SFLOW, "-o", output, "--ip", "binary", "--enable", "src_mac").exit_code == 0
    binary = read_columns(output)
    assert str(binary.schema.field("src_addr").type).startswith("extension<flowbuf.ip")
    assert [row["src_mac"] for row in text.to_pylist()] == [row["src_mac"] for row in binary.to_pylist()]
    result = flowbuf("read", SFLOW, "--ip", "text")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--ip applies only to parquet and arrow" in result.stderr


def test_columns_equal_json_lines(tmp_path: Path) -> None:
    options = ("--scale", "--override-sampling", "7", "--time", "export")
    flowbuf("read", NETFLOW9, "-o", tmp_path / "x.parquet", *options)
    lines = [
        json.loads(line) for line in flowbuf("read", NETFLOW9, "-f", "jsonl", *options).stdout.splitlines()
    ]
    rows = read_columns(tmp_path / "x.parquet").drop_columns("time_received").to_pylist()
    for line, row in zip(lines, rows, strict=True):
        del line["time_received"]
        assert {name: value for name, value in row.items() if value} == line


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_a_limit_ends_the_output(tmp_path: Path, output: Path, limit: int) -> None:
    one, other = (write(tmp_path / f"{seed}.pcap", generated(flows=60, seed=seed)) for seed in (1, 2))
    assert flowbuf("read", one, other, "-n", limit, "-o", output).exit_code == 0
    assert read_columns(output).num_rows == min(limit, 120)


def test_a_limit_stops_reading_inputs(tmp_path: Path, output: Path) -> None:
    good, bad = write(tmp_path / "good.pcap", pcap(GOOD)), write(tmp_path / "bad.pcap", b"bad")
    assert flowbuf("read", good, bad, "-n", 1, "-o", output).exit_code == 0
    assert flowbuf("read", good, bad, "-n", 2, "-o", output).exit_code == 1


def test_counters_can_be_written_as_columns(tmp_path: Path) -> None:
    assert flowbuf("read", SFLOW, "--counters", "-o", tmp_path / "x.parquet").exit_code == 0
    lines = flowbuf("read", SFLOW, "--counters", "-f", "jsonl").stdout.splitlines()
    assert read_columns(tmp_path / "x.parquet").num_rows == len(lines)


def test_a_file_without_flows_has_the_columns(tmp_path: Path, output: Path) -> None:
    result = flowbuf("read", write(tmp_path / "a.pcap", pcap()), "-o", output)
    assert (result.exit_code, result.output) == (0, "flowbuf: no flows\n")
    table = read_columns(output)
    assert (table.num_rows, table.column_names) == (0, [column.name for column in FLOW.enabled])


# Errors -----------------------------------------------------------------------------------------------------


def test_faults_are_reported_as_for_rows(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE, GOOD)[:-5])
    rows, columns = flowbuf("read", path), flowbuf("read", path, "-o", output)
    assert (columns.exit_code, columns.stderr) == (rows.exit_code, rows.stderr)
    assert rows.exit_code == 1
    assert read_columns(output).num_rows == len(rows.stdout.splitlines()) == 1


def test_an_invalid_input_leaves_no_output(tmp_path: Path, output: Path) -> None:
    result = flowbuf("read", write(tmp_path / "a.pcap", b"bad"), "-o", output)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert not output.exists()


def test_strict_prints_one_line_and_leaves_the_old_output(tmp_path: Path, output: Path) -> None:
    output.write_bytes(b"before")
    result = flowbuf(
        "read", write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE)), "--strict", "-o", output
    )
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {tmp_path / 'a.pcap'}: 192.0.2.1: template_missing: ")
    assert output.read_bytes() == b"before"
    assert {path.name for path in tmp_path.iterdir()} == {"a.pcap", output.name}


def test_columns_are_not_written_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbuf.cli.output.columnar.is_terminal", lambda stream: True)
    result = flowbuf("read", SFLOW, "-f", "parquet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "parquet cannot be shown on a terminal; name a file with -o FILE, or use a pipe" in result.stderr


def test_compressing_column_files_is_a_usage_error(tmp_path: Path) -> None:
    result = flowbuf("read", SFLOW, "-o", tmp_path / "x.parquet.gz")
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "leave out .gz" in result.stderr


@pytest.mark.parametrize(
    ("module", "command", "fix"),
    [
        ("pyarrow", ("read", SFLOW, "-f", "parquet"), "-f parquet needs pyarrow; run {}[arrow]'"),
        ("pyarrow", ("read", SFLOW, "--where", "true"), "--where needs pyarrow; run {}[sql]'"),
        ("duckdb", ("read", SFLOW, "--where", "true"), "--where needs duckdb; run {}[sql]'"),
        ("pyarrow", ("collect", "-o", "null:"), "flowbuf collect needs pyarrow; run {}[collect]'"),
    ],
)
def test_a_missing_library_is_an_error_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, module: str, command: tuple[object, ...], fix: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = flowbuf(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert fix.format("pip install 'flowbuf") in result.stderr


@pytest.mark.parametrize("form", ["jsonl", "parquet", "arrow"])
def test_two_columns_of_a_result_cannot_have_one_name(form: str, tmp_path: Path) -> None:
    result = flowbuf(
        *("query", "SELECT src_addr AS a, dst_addr AS a FROM flows", SFLOW, "-f", form, "-o", tmp_path / "x")
    )
    assert result.exit_code == 2
    assert "two columns of the result are named 'a'; name one of them with AS" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["max(time_received) - min(time_received)", "INTERVAL 1 DAY"])
def test_a_type_that_parquet_lacks_is_named(value: str, tmp_path: Path) -> None:
    sql = f"SELECT count(*) AS n, {value} AS span FROM flows"
    result = flowbuf("query", sql, SFLOW, "-o", tmp_path / "x.parquet")
    assert result.exit_code == 1
    assert "column 'span' is of type month_day_nano_interval, which Parquet does not have" in result.stderr
    assert "CAST(span AS VARCHAR)" in result.stderr
    assert not list(tmp_path.iterdir())
    cast = sql.replace(value, f"CAST({value} AS VARCHAR)")
    assert flowbuf("query", cast, SFLOW, "-o", tmp_path / "x.parquet").exit_code == 0
