"""`flowbuf top`: the largest groups of flows, with the sums of all flows. And `scaled` in `flowbuf query`."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.test_cli_query import ask
from tests.cli.test_cli_terminal import EVIL, SAFE, SCHEMA, on_a_terminal
from tests.support.cases import slow
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write
from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ipfix,
    netflow5,
    record5,
    template,
    template_set,
)

DATA = Path(__file__).parents[1] / "data"
SFLOW, NETFLOW9 = DATA / "generated-sflow.pcap", DATA / "generated-netflow9.pcap"
WITHOUT_RATE = """
[schema]
name = "bare"
[[column]]
name = "proto"
number = 1
type = "uint8"
sources = ["ipfix:protocolIdentifier", "packet:ip.proto"]
[[column]]
name = "bytes"
number = 2
type = "uint64"
sources = ["ipfix:octetDeltaCount", "sflow:sampled_ip.length"]
"""
KEYS, SUMS = ("src_addr", "dst_port"), ("bytes", "packets", "flows")


def rank(capture: Path, keys: tuple[str, ...], by: str, scaled: bool = True) -> list[dict[str, Any]]:
    """Return all groups of a capture, computed from its flows."""
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for flow in json_lines(flowbuf("read", capture)):
        rate = flow.get("sampling_rate", 0) or 1 if scaled else 1
        group = sums.setdefault(tuple(flow.get(key, 0) for key in keys), Counter())  # absent ports are 0
        group.update(bytes=flow.get("bytes", 0) * rate, packets=flow.get("packets", 0) * rate, flows=1)
    total = sum(each[by] for each in sums.values())
    rows = [
        {**dict(zip(keys, group, strict=True)), **each, "share": each[by] / total}
        for group, each in sums.items()
    ]
    return sorted(rows, key=lambda row: -row[by])


def top(*arguments: object) -> list[dict[str, Any]]:
    result = flowbuf("top", *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return json_lines(result)


def by_group(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    """Return the sums of each group. Their last one, the share, is rounded."""
    return {
        tuple(row.get(key) for key in keys): (*(row[name] for name in SUMS), round(row["share"], 12))
        for row in rows
    }


@pytest.mark.parametrize("capture", [SFLOW, NETFLOW9], ids=["sflow", "netflow9"])
@pytest.mark.parametrize("by", ["bytes", *slow("packets", "flows")])
def test_groups_have_the_sums_of_their_flows(capture: Path, by: str) -> None:
    expected = rank(capture, KEYS, by)
    found = top(",".join(KEYS), capture, "--by", by, "-n", 10_000)
    assert [row[by] for row in found] == [row[by] for row in expected]
    assert by_group(found, KEYS) == by_group(expected, KEYS)
    assert top(",".join(KEYS), capture, "--by", by) == found[:10]


def test_sflow_is_scaled() -> None:
    """The flows of the capture have sampling rates, so that the test above is not about factors of 1."""
    assert rank(SFLOW, KEYS, "bytes")[0]["bytes"] > rank(SFLOW, KEYS, "bytes", scaled=False)[0]["bytes"]


@pytest.mark.slow
def test_scaled_flows_are_not_scaled_twice() -> None:
    assert top("src_addr", SFLOW, "--scale") == top("src_addr", SFLOW)


def test_rates_above_the_largest_count_as_the_largest(tmp_path: Path) -> None:
    flows = pcap(netflow5(record5(octets=2**32 - 1), sampling=0))
    capture = write(tmp_path / "a.pcap", flows)
    (row,) = top("proto", capture, "--override-sampling", 2**32)
    assert row["bytes"] == (2**32 - 1) * 2**32
    (row,) = top("proto", capture, "--override-sampling", 2**64 - 1)
    assert row["bytes"] == (2**32 - 1) * 2**32


def test_inputs_of_all_kinds_are_summed(tmp_path: Path) -> None:
    parquet, messages = tmp_path / "flows.parquet", tmp_path / "flows.pb"
    assert flowbuf("read", SFLOW, "-o", parquet).exit_code == 0
    assert flowbuf("encode", SFLOW, "-o", messages).exit_code == 0
    once = top("src_addr", SFLOW, "-n", 1000)
    assert by_group(top("src_addr", parquet, "-n", 1000), ("src_addr",)) == by_group(once, ("src_addr",))
    thrice = by_group(top("src_addr", SFLOW, parquet, messages, "-n", 1000), ("src_addr",))
    assert {key: each[0] for key, each in thrice.items()} == {
        (row["src_addr"],): 3 * row["bytes"] for row in once
    }


def test_where_selects_flows() -> None:
    port = top("dst_port", NETFLOW9)[0]["dst_port"]
    expected = [row for row in rank(NETFLOW9, ("dst_port",), "bytes") if row["dst_port"] == port]
    assert top("dst_port", NETFLOW9, "--where", f"dst_port = {port}") == [{**expected[0], "share": 1}]


@pytest.mark.parametrize("condition", ["dst_port = 0 AND proto = 0", *slow("false")])
def test_a_condition_that_matches_nothing_is_reported(condition: str) -> None:
    result = flowbuf("top", "src_addr", NETFLOW9, "--where", condition)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "flowbuf: no flow matches --where\n")


def test_names_of_presets_are_found() -> None:
    theirs = top("src_addr", NETFLOW9, "--schema", "akvorado")
    assert [(row["SrcAddr"], row["bytes"]) for row in theirs] == [
        (row["src_addr"], row["bytes"]) for row in top("src_addr", NETFLOW9)
    ]


@pytest.mark.slow
def test_a_column_that_is_named_twice_counts_once() -> None:
    names = "src_addr,SrcAddr,src_addr"
    assert top(names, NETFLOW9, "--schema", "akvorado") == top("SrcAddr", NETFLOW9, "--schema", "akvorado")


def test_a_table_ends_with_the_sums() -> None:
    rows = rank(NETFLOW9, ("src_addr", "dst_port"), "packets")
    lines = flowbuf("top", "src_addr,dst_port", NETFLOW9, "--by", "packets", "-n", 3, "-f", "table").stdout
    heading, *shown, others, total = [line.split() for line in lines.splitlines() if line]
    assert heading == ["src_addr", "dst_port", "bytes", "packets", "flows", "share"]
    assert [int(line[3].replace(",", "")) for line in shown] == [row["packets"] for row in rows[:3]]
    assert others[:2] == [str(len(rows) - 3), "more"]
    assert total[0] == "total"
    for place, name in ((-5, "bytes"), (-4, "packets"), (-3, "flows")):
        whole = sum(row[name] for row in rows)
        assert total[place] == f"{whole:,}"
        parts = [int(line[place].replace(",", "")) for line in (*shown, others)]
        assert sum(parts) == whole
    assert total[-2:] == ["100.0", "%"]
    every = flowbuf("top", "src_addr", NETFLOW9, "-n", 10_000, "-f", "table").stdout
    assert " more" not in every


@pytest.fixture
def unsampled(tmp_path: Path) -> Path:
    """Return a capture whose two flows have no sampling rate."""
    records = [record5(proto=proto, octets=10, packets=1) for proto in (6, 17)]
    return write(tmp_path / "unsampled.pcap", pcap(netflow5(*records)))


@pytest.mark.slow
def test_a_terminal_shows_the_number_of_groups(unsampled: Path, tmp_path: Path) -> None:
    groups = len(rank(SFLOW, ("proto",), "bytes"))
    (tmp_path / "bare.toml").write_text(WITHOUT_RATE)
    for capture, options, last in (
        (SFLOW, (), f"1 of {groups} groups; scaled by the sampling rate"),
        (SFLOW, ("--scale",), f"1 of {groups} groups; scaled by the sampling rate"),
        (SFLOW, ("--schema", "bare.toml"), f"1 of {groups} groups; not scaled: no sampling rate is known"),
        (unsampled, (), "1 of 2 groups; not scaled: no sampling rate is known"),
        (unsampled, ("--scale",), "1 of 2 groups; not scaled: no sampling rate is known"),
    ):
        status, text = on_a_terminal(tmp_path, "top", "proto", str(capture), "-n", "1", *options)
        assert (status, text.splitlines()[-1]) == (0, last)


def test_partly_unknown_rates_are_reported(unsampled: Path) -> None:
    result = flowbuf("top", "proto", SFLOW, unsampled)
    assert result.stderr == (
        "flowbuf: 2 of 302 flows have no sampling rate and are not multiplied; "
        "set it with --default-sampling\n"
    )
    (row,) = top("proto", unsampled, SFLOW, "--default-sampling", 100, "--where", "bytes = 10 AND proto = 6")
    assert (row["bytes"], row["packets"], row["flows"]) == (1000, 100, 1)


@pytest.mark.parametrize("suffix", ["parquet", *slow("csv")])
def test_results_are_written_to_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"top.{suffix}"
    assert top("src_addr,proto", NETFLOW9, "-o", path) == []
    expected = top("src_addr,proto", NETFLOW9)
    if suffix == "csv":
        found: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(path.read_text())))
        expected = [{name: str(value) for name, value in row.items()} for row in expected]
    else:
        found = pq.read_table(path).to_pylist()
    assert found == expected


def test_enriched_columns_are_groups(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("prefix,name\n0.0.0.0/0,everything\n")
    enrichment = tmp_path / "network.toml"
    enrichment.write_text('networks = "names.csv"\n')
    rows = top("src_net_name", NETFLOW9, "--enrich", enrichment)
    assert rows[0]["src_net_name"] == "everything"


def test_texts_cannot_control_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text(SCHEMA)
    text = EVIL.encode()
    message = ipfix(template_set(template(256, (82, VARIABLE))), data_set(256, bytes([len(text)]) + text))
    capture = write(tmp_path / "evil.pcap", pcap(message))
    table = flowbuf("top", "label", capture, "--schema", tmp_path / "evil.toml", "-f", "table").stdout
    assert SAFE in table


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("src_adr", NETFLOW9), "src_adr"),
        (("bytes", NETFLOW9), "column 'bytes' is a sum of each group; name other columns"),
        (("mpls_labels", NETFLOW9), "column 'mpls_labels' is a list; choose columns with one value per flow"),
        ((",", NETFLOW9), "COLUMNS is empty; name columns, for example src_addr,dst_port"),
        (("proto", NETFLOW9, "--where", "true; SELECT 1"), "--where: "),
        (("proto", NETFLOW9, "--where", "count(*) > 1"), "--where: "),
        (("proto", NETFLOW9, "--where", "no_column = 1"), "--where: "),
        (("proto", NETFLOW9, "--by", "octets"), "'octets' is not one of"),
        (("proto", NETFLOW9, "-n", 0), "0 is not in the range"),
        (("proto", "missing.pcap"), "missing.pcap: No such file or directory"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value[:1] + value[2:])),
)
def test_faults_are_explained(arguments: tuple[object, ...], problem: str) -> None:
    result = flowbuf("top", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_a_missing_capture_leaves_no_file(tmp_path: Path) -> None:
    capture, output = write(tmp_path / "text.txt", b"no capture"), tmp_path / "top.csv"
    result = flowbuf("top", "proto", capture, "-o", output)
    assert result.exit_code == 1
    assert not output.exists()


# scaled(…) in the SQL of flowbuf query ----------------------------------------------------------------------

TOTALS = """
    SELECT sum(scaled(bytes)) AS scaled, sum(bytes) AS plain, sum(bytes * sampling_rate) AS product FROM flows
"""


@pytest.mark.parametrize(
    ("options", "scaled", "plain", "product"),
    [
        ((), 1000, 1, 1000),
        (("--scale",), 1000, 1000, None),
        (("--override-sampling", "7"), 7, 1, 7),
        (("--override-sampling", "7", "--scale"), 7, 7, None),
    ],
)
def test_scaled_multiplies_by_the_sampling_rate_once(
    options: tuple[str, ...], scaled: int, plain: int, product: int | None
) -> None:
    (row,) = ask(TOTALS, NETFLOW9, *options)
    (one,) = ask("SELECT sum(bytes) AS sum FROM flows", NETFLOW9)
    assert (row["scaled"], row["plain"]) == (scaled * one["sum"], plain * one["sum"])
    assert product is None or row["product"] == product * one["sum"]


def test_unknown_sampling_rates_are_explained(tmp_path: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = flowbuf("query", TOTALS, capture, NETFLOW9, "-f", "jsonl")
    assert result.exit_code == 0
    assert "2 of 302 flows have no sampling rate: scaled(…) does not multiply them" in result.stderr
    assert "--default-sampling" in result.stderr
    (row,) = json_lines(result)
    (known,) = ask(TOTALS, NETFLOW9)
    assert row["scaled"] == known["scaled"] + 600
    for sql, path in (("SELECT sum(bytes) FROM flows", capture), ("FROM flows", capture), (TOTALS, NETFLOW9)):
        assert flowbuf("query", sql, path, "-f", "jsonl").stderr == ""
    assert flowbuf("query", TOTALS, capture, "--default-sampling", "9", "-f", "jsonl").stderr == ""


def test_scaled_works_for_files_and_presets(tmp_path: Path) -> None:
    (known,) = ask(TOTALS, NETFLOW9)
    parquet = tmp_path / "x.parquet"
    assert flowbuf("read", NETFLOW9, "-o", parquet).exit_code == 0
    assert ask(TOTALS, parquet) == [known]
    preset = ask("SELECT sum(scaled(Bytes)) AS scaled FROM flows", NETFLOW9, "--schema", "akvorado")
    assert preset == [{"scaled": known["scaled"]}]
    result = flowbuf("query", "SELECT scaled(if_in_octets) FROM flows", SFLOW, "--counters")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "scaled needs a sampling rate" in result.stderr


def test_the_largest_rate_is_known() -> None:
    sql = "SELECT sum(scaled(bytes)) AS scaled, sum(bytes) AS plain FROM flows"
    result = flowbuf("query", sql, NETFLOW9, "--override-sampling", 2**64 - 1, "-f", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    (row,) = json_lines(result)
    assert row["scaled"] == row["plain"] * 2**32


def test_a_file_in_the_place_of_the_columns_or_of_the_sql_is_a_usage_error() -> None:
    result = flowbuf("top", NETFLOW9, "src_addr")
    fix = f"COLUMNS come first: flowbuf top src_addr {NETFLOW9}"
    assert (result.exit_code, result.stderr) == (2, f"Error: {NETFLOW9}: is a file; {fix}\n")
    result = flowbuf("query", NETFLOW9, "SELECT count(*) FROM flows")
    fix = f"the SQL comes first: flowbuf query 'FROM flows LIMIT 5' {NETFLOW9}"
    assert (result.exit_code, result.stderr) == (2, f"Error: {NETFLOW9}: is a file; {fix}\n")


@pytest.mark.parametrize("name", ["a.parquet", "a.pcap.gz", "a.pb"])
def test_the_error_for_a_folder_names_a_pattern(tmp_path: Path, name: str) -> None:
    (tmp_path / "hour=01").mkdir()
    (tmp_path / "hour=01" / name).touch()
    result = flowbuf("top", "src_addr", tmp_path)
    pattern = f"'{tmp_path}/**/*{name.removeprefix('a')}'"
    assert (result.exit_code, result.stderr) == (2, f"Error: {tmp_path}: is a directory; write {pattern}\n")
