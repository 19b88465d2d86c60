"""Streams of messages as columns on the command line equal their captures."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import flowbuf, json_lines

SHIPPED = Path(__file__).parents[1] / "data"
SFLOW, NETFLOW9 = SHIPPED / "generated-sflow.pcap", SHIPPED / "generated-netflow9.pcap"


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    path = tmp_path / "flows.pb"
    assert flowbuf("encode", SFLOW, "-o", path, "--enable", "src_mac").exit_code == 0
    return path


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("options", [(), ("--columns", "bytes,src_addr,src_vlan"), ("--enable", "dst_mac")])
def test_a_condition_that_holds_changes_nothing(messages: Path, form: str, options: tuple[str, ...]) -> None:
    without = flowbuf("read", messages, NETFLOW9, "-f", form, *options)
    within = flowbuf("read", messages, NETFLOW9, "-f", form, *options, "--where", "true")
    assert (within.exit_code, within.stdout, within.stderr) == (0, without.stdout, without.stderr)


def test_column_files_equal_those_of_the_capture(messages: Path, tmp_path: Path) -> None:
    for source, name in ((messages, "m.parquet"), (SFLOW, "c.parquet")):
        assert flowbuf("read", source, "-o", tmp_path / name, "--enable", "src_mac").exit_code == 0
    assert pq.read_table(tmp_path / "m.parquet").equals(pq.read_table(tmp_path / "c.parquet"))


def test_captures_messages_and_parquet_are_queried_together(messages: Path, tmp_path: Path) -> None:
    assert flowbuf("read", NETFLOW9, "-o", tmp_path / "x.parquet").exit_code == 0
    sql = "SELECT flow_type, count(*) AS n, count(src_mac) AS macs FROM flows GROUP BY ALL ORDER BY ALL"
    rows = json_lines(flowbuf("query", sql, messages, tmp_path / "x.parquet", SFLOW))
    sflow, netflow9 = (len(json_lines(flowbuf("read", path))) for path in (SFLOW, NETFLOW9))
    assert [(row["flow_type"], row["n"]) for row in rows] == [
        ("NETFLOW_V9", netflow9),
        ("SFLOW_5", 2 * sflow),
    ]
    assert rows[1]["macs"] == 2 * sflow


def test_damage_is_reported_as_by_read(messages: Path, tmp_path: Path) -> None:
    messages.write_bytes(messages.read_bytes()[:-3])
    rows, columns = flowbuf("read", messages), flowbuf("read", messages, "-o", tmp_path / "x.parquet")
    assert (columns.exit_code, columns.stderr) == (1, rows.stderr)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == len(rows.stdout.splitlines())


def test_unknown_data_on_standard_input_is_an_error(tmp_path: Path) -> None:
    result = flowbuf("read", "-", "-o", tmp_path / "x.parquet", stdin=b"hello, world")
    assert (result.exit_code, result.output) == (
        1,
        "flowbuf: <stdin>: is neither a capture nor a stream of messages\n",
    )
    assert not (tmp_path / "x.parquet").exists()


def test_capture_options_are_usage_errors(messages: Path, tmp_path: Path) -> None:
    result = flowbuf("read", messages, "-o", tmp_path / "x.parquet", "--scale")
    assert (result.exit_code, "--scale applies only to captures" in result.stderr) == (2, True)


def test_strict_stops_at_damage(messages: Path, tmp_path: Path) -> None:
    messages.write_bytes(messages.read_bytes()[:-3])
    assert flowbuf("read", messages, "-o", tmp_path / "x.parquet", "--strict").exit_code == 1
    assert list(tmp_path.glob("x*")) == []


def test_the_error_for_messages_of_another_schema_names_it(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    assert flowbuf("encode", NETFLOW9, "-o", path, "--schema", "goflow2").exit_code == 0
    result = flowbuf("read", path)
    assert (result.exit_code, result.stderr.rpartition("; ")[2]) == (2, "add --schema goflow2\n")
    assert flowbuf("read", path, "--schema", "goflow2").exit_code == 0
    own = tmp_path / "own.toml"
    own.write_text('[schema]\nname = "own"\nextends = "goflow2"')
    assert flowbuf("encode", NETFLOW9, "-o", path, "--schema", own).exit_code == 0
    assert "; add --schema with the file of the schema 'own'" in flowbuf("read", path).stderr


def test_the_error_for_messages_of_another_schema_without_a_proto_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    assert flowbuf("encode", NETFLOW9, "-o", path, "--schema", "goflow2").exit_code == 0
    (tmp_path / "g.pb.proto").unlink()
    result = flowbuf("read", path)
    assert "flows before it: 0; if another schema wrote it, name it with --schema)" in result.stderr
