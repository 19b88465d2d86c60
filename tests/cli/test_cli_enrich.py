"""`--enrich` of `flowbuf read` and `flowbuf query`: all outputs show the enriched columns."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flowbuf.schema import Schema
from tests.support.cases import slow
from tests.support.command import flowbuf, json_lines

FLOW = Schema.load("flow")
SHIPPED = Path(__file__).parents[1] / "data"
CAPTURES = sorted(SHIPPED.glob("*.pcap*"))
SFLOW = SHIPPED / "generated-sflow.pcap"
EVERYTHING = ",".join(column.name for column in FLOW)

NETWORK = """
[[exporter]]
address = "192.0.2.0/24"
name = "edge1"

[[network]]
prefix = "10.0.0.0/8"
name = "inside"
country = "DE"
"""


@pytest.fixture(autouse=True)
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("mine", None)
    (tmp_path / "mine.py").write_text(
        "def same(batch):\n    return batch\n"
        "import pyarrow.compute as pc\n"
        "def large(batch):\n    return batch.filter(pc.greater(batch['bytes'], 1000))\n"
        "large.needs = ('bytes',)\n"
        "def broken(batch):\n    return 1 // 0\n"
    )
    (tmp_path / "network.toml").write_text(NETWORK)
    return tmp_path / "network.toml"


@pytest.mark.parametrize("form", ["jsonl", *slow("csv", "table")])
@pytest.mark.parametrize("columns", [(), *slow(("--columns", EVERYTHING))], ids=["default", "every-column"])
def test_an_identity_function_changes_no_output(form: str, columns: tuple[str, ...]) -> None:
    for capture in CAPTURES:
        without = flowbuf("read", capture, "-f", form, *columns)
        within = flowbuf("read", capture, "-f", form, *columns, "--enrich", "mine:same")
        assert within.stdout_bytes == without.stdout_bytes, capture


def test_enriched_columns_are_shown(network: Path) -> None:
    flows = json_lines(flowbuf("read", SFLOW, "--enrich", network))
    assert {flow["exporter_name"] for flow in flows} == {"edge1"}
    inside = [flow["src_addr"].startswith("10.") for flow in flows]
    assert [flow.get("src_net_name") == "inside" for flow in flows] == inside
    assert [flow.get("src_country") == "DE" for flow in flows] == inside
    plain = json_lines(flowbuf("read", SFLOW))
    assert [{name: flow[name] for name in before} for flow, before in zip(flows, plain, strict=True)] == plain


def test_only_selected_columns_are_shown(network: Path) -> None:
    chosen = ("--columns", "exporter_name,src_net_name,bytes")
    (names, *rows) = csv.reader(
        io.StringIO(flowbuf("read", SFLOW, "--enrich", network, "-f", "csv", *chosen).stdout)
    )
    assert names == ["exporter_name", "src_net_name", "bytes"]
    assert {row[0] for row in rows} == {"edge1"}


@pytest.mark.parametrize("ip", ["text", "binary"])
def test_column_files_have_enriched_columns(tmp_path: Path, network: Path, ip: str) -> None:
    result = flowbuf("read", *CAPTURES, "--enrich", network, "-o", tmp_path / "x.parquet", "--ip", ip)
    assert (result.exit_code, result.output) == (0, "")
    table = pq.read_table(tmp_path / "x.parquet")
    lines = json_lines(flowbuf("read", *CAPTURES, "--enrich", network))
    for name in ("src_net_name", "exporter_name", "dst_addr"):
        assert table[name].to_pylist() == [line.get(name) for line in lines]


def test_conditions_can_use_enriched_columns(network: Path) -> None:
    where = ("--where", "src_net_name = 'inside' AND dst_net_name IS NULL")
    flows = json_lines(flowbuf("read", SFLOW, "--enrich", network))
    chosen = [flow for flow in flows if "src_net_name" in flow and "dst_net_name" not in flow]
    assert json_lines(flowbuf("read", SFLOW, "--enrich", network, *where)) == chosen != []
    result = flowbuf("read", SFLOW, "--enrich", network, *where, "--columns", "bytes")
    assert json_lines(result) == [{"bytes": flow["bytes"]} for flow in chosen]


def test_queries_can_use_enriched_columns(network: Path) -> None:
    sql = "SELECT src_net_name AS net, count(*) AS n FROM flows GROUP BY ALL ORDER BY ALL"
    flows = json_lines(flowbuf("read", SFLOW))
    inside = sum(flow["src_addr"].startswith("10.") for flow in flows)
    rows = json_lines(flowbuf("query", sql, SFLOW, "--enrich", network))
    assert rows == [{"net": "inside", "n": inside}, {"net": None, "n": len(flows) - inside}]


def test_functions_may_filter_flows(network: Path) -> None:
    options = ("--enrich", network, "--enrich", "mine:large", "--columns", "packets,exporter_name")
    flows = json_lines(flowbuf("read", SFLOW, *options))
    kept = [flow for flow in json_lines(flowbuf("read", SFLOW)) if flow["bytes"] > 1000]
    assert flows == [{"packets": flow["packets"], "exporter_name": "edge1"} for flow in kept]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nothing.toml", "nothing.toml"),
        ("mine:nothing", "mine has no 'nothing'"),
        ("no_such_module:f", "module 'no_such_module' was not found"),
        ("nonsense", "name MODULE:FUNCTION, or a file that ends in .toml"),
    ],
)
def test_an_invalid_enrichment_is_a_usage_error(spec: str, message: str) -> None:
    for command in (("read",), ("query", "FROM flows")):
        result = flowbuf(*command, SFLOW, "--enrich", spec)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: --enrich: ")
        assert message in result.stderr


@pytest.mark.parametrize("command", [("read",), ("query", "FROM flows")])
def test_a_failing_function_leaves_no_output(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = flowbuf(*command, SFLOW, "--enrich", "mine:broken", "-o", tmp_path / "x.parquet")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("flowbuf: mine:broken: raised ZeroDivisionError: ")
    assert not (tmp_path / "x.parquet").exists()


def test_a_failing_function_leaves_no_folders(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for folder in ("new/in/new", "there"):
        result = flowbuf("read", SFLOW, "--enrich", "mine:broken", "-o", f"{tmp_path / folder}/")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"flowbuf: {SFLOW}: mine:broken: raised ZeroDivisionError: ")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == [
        "there"
    ]


def test_column_files_cannot_be_enriched(tmp_path: Path, network: Path) -> None:
    assert flowbuf("read", SFLOW, "-o", tmp_path / "x.parquet").exit_code == 0
    result = flowbuf("query", "FROM flows", tmp_path / "x.parquet", "--enrich", network)
    assert result.exit_code == 2
    assert "--enrich applies only to captures and messages" in result.stderr


def test_missing_pyarrow_is_an_error_with_its_fix(monkeypatch: pytest.MonkeyPatch, network: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = flowbuf("read", SFLOW, "--enrich", network)
    assert result.exit_code == 2
    assert "--enrich needs pyarrow; run pip install 'flowbuf[arrow]'" in result.stderr
