"""flowbuf.scan: queries of polars and duckdb on captures, with columns, filters and limits pushed down."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import flowbuf
from flowbuf import QueryError, SchemaError, read_capture
from flowbuf.io.columns import _CaptureTables
from flowbuf.schema import Schema
from tests.support.cases import slow

SHIPPED = Path(__file__).parents[1] / "data"
NETFLOW9 = SHIPPED / "generated-netflow9.pcap"
SFLOW = SHIPPED / "generated-sflow.pcap"
FLOW = Schema.load("flow")
EVERY_COLUMN = [column.name for column in FLOW]

bytes_, port = pl.col("bytes"), pl.col("dst_port")
LAZY: dict[str, Callable[[Any], Any]] = {
    "all": lambda flows: flows,
    "filter": lambda flows: flows.filter(port < 1000),
    "address": lambda flows: flows.filter(pl.col("src_addr").str.starts_with("10.")),
    "project": lambda flows: flows.select("dst_port", (bytes_ * 2).alias("twice")),
    "both": lambda flows: flows.filter((port > 1000) & (bytes_ > 100)).select("src_addr"),
    "head": lambda flows: flows.head(17),
    "filter, head": lambda flows: flows.filter(port < 1000).head(5),
    "head, filter": lambda flows: flows.head(50).filter(port < 1000),
    "slice": lambda flows: flows.slice(33, 8),
    "tail": lambda flows: flows.tail(3),
    "count": lambda flows: flows.select(pl.len()),
    "group": lambda flows: flows.group_by("proto").agg(bytes_.sum(), pl.len()).sort("proto"),
    "enum": lambda flows: flows.filter(pl.col("flow_type") == "NETFLOW_V9").select("flow_type", "bytes"),
    "time": lambda flows: flows.filter(
        pl.col("time_received") > datetime.datetime(2025, 1, 1, tzinfo=datetime.timezone.utc)
    ),
    "nothing": lambda flows: flows.filter(bytes_ > 1e15),
}


@pytest.mark.parametrize("query", LAZY)
def test_polars_gives_the_result_of_all_flows(query: str) -> None:
    flows = flowbuf.scan([NETFLOW9, SFLOW], batch_rows=64)
    assert isinstance(flows, pl.LazyFrame)
    wanted = LAZY[query](read_capture([NETFLOW9, SFLOW]).to_polars().lazy()).collect()
    assert LAZY[query](flows).collect().equals(wanted)


SQL = {
    "all": "FROM flows",
    "filter": "SELECT * FROM flows WHERE dst_port < 1000 AND bytes > 100",
    "or": "SELECT bytes FROM flows WHERE dst_port = 53 OR packets BETWEEN 3 AND 9 OR src_addr IS NULL",
    "in": "SELECT bytes FROM flows WHERE dst_port IN (53, 80, 443)",
    "address": "SELECT count(*) FROM flows WHERE src_addr LIKE '10.%' AND dst_addr > '1'",
    "function": "SELECT bytes * 2 FROM flows WHERE bytes % 7 = 3",
    "group": "SELECT proto, sum(bytes), count(*) FROM flows GROUP BY ALL ORDER BY 1",
    "enum": "SELECT bytes FROM flows WHERE flow_type = 'NETFLOW_V9'",
    "time": "SELECT bytes FROM flows WHERE time_received > '2025-01-01 00:00:00.005+00'",
    "order": "SELECT src_addr, bytes FROM flows ORDER BY bytes DESC, src_addr, dst_addr LIMIT 9",
    "join": "SELECT count(*) FROM flows a JOIN flows b ON a.src_addr = b.dst_addr",
    "nothing": "SELECT bytes FROM flows WHERE bytes > 1e15",
}


@pytest.mark.parametrize("query", SQL)
def test_duckdb_gives_the_result_of_all_flows(query: str) -> None:
    connection = duckdb.connect()
    flows = flowbuf.scan([NETFLOW9, SFLOW], into="duckdb", connection=connection, batch_rows=64)
    table = read_capture([NETFLOW9, SFLOW], ip="text").to_arrow()
    wanted = duckdb.connect().from_arrow(table).query("flows", SQL[query])
    found = flows.query("flows", SQL[query])
    assert found.columns == wanted.columns
    assert found.fetchall() == wanted.fetchall()


@pytest.mark.parametrize("path", [NETFLOW9, SFLOW])
def test_every_column_is_scanned(path: Path) -> None:
    """Durations, lists, lists of enums and bytes too."""
    assert (
        flowbuf.scan(path, columns=EVERY_COLUMN)
        .collect()
        .equals(read_capture(path, columns=EVERY_COLUMN).to_polars())
    )
    relation = flowbuf.scan(path, into="duckdb", connection=duckdb.connect(), columns=EVERY_COLUMN)
    assert relation.columns == EVERY_COLUMN
    assert len(relation.fetchall()) == read_capture(path).to_arrow().num_rows


def test_relations_are_lazy_and_read_anew() -> None:
    flows = flowbuf.scan(NETFLOW9, into="duckdb", connection=duckdb.connect())
    dns = flows.filter("dst_port < 1000").project("src_addr, bytes").limit(5)
    assert dns.fetchall() == dns.fetchall()
    assert len(dns.fetchall()) == 5


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns of each decoder that reads."""
    seen: list[set[str]] = []
    read = _CaptureTables._read

    def record(self: Any, decoder: Any, *arguments: Any) -> Any:
        seen.append({column.name for column in decoder.schema.enabled})
        return read(self, decoder, *arguments)

    flowbuf.scan(NETFLOW9)  # the schema of the result is not part of a query
    monkeypatch.setattr(_CaptureTables, "_read", record)
    return seen


def test_polars_decodes_only_what_it_uses(decoded: list[set[str]]) -> None:
    flows = flowbuf.scan(NETFLOW9)
    decoded.clear()
    flows.filter(port < 1000).select("bytes").collect()
    flows.select(bytes_.sum()).collect()
    assert decoded == [{"bytes", "dst_port"}, {"bytes"}]


def test_duckdb_decodes_only_what_it_uses(decoded: list[set[str]]) -> None:
    flows = flowbuf.scan(NETFLOW9, into="duckdb", connection=duckdb.connect())
    decoded.clear()
    flows.filter("dst_port < 1000").project("bytes").fetchall()
    flows.sum("bytes").fetchall()
    assert decoded == [{"bytes", "dst_port"}, {"bytes"}]


@pytest.mark.parametrize("into", ["polars", "duckdb"])
def test_reading_ends_at_the_limit(into: str, tmp_path: Path) -> None:
    """The last capture does not exist, and is not needed. duckdb reads some batches in advance."""
    sources = [*[NETFLOW9] * 200, tmp_path / "none.pcap"]
    if into == "polars":
        assert flowbuf.scan(sources, batch_rows=64).head(10).collect().height == 10
    else:
        flows = flowbuf.scan(sources, into="duckdb", connection=duckdb.connect(), batch_rows=64)
        assert len(flows.limit(10).fetchall()) == 10


def test_arguments_of_read_capture_apply() -> None:
    flows = flowbuf.scan(
        NETFLOW9, columns=["packets", "bytes"], where="dst_port < 1000", limit=4, scale=True
    ).collect()
    wanted = read_capture(NETFLOW9, where="dst_port < 1000", limit=4, scale=True).to_polars()
    assert flows.equals(wanted.select("packets", "bytes"))


def test_errors_of_reading_arrive(tmp_path: Path) -> None:
    with pytest.raises((FileNotFoundError, pl.exceptions.PolarsError), match="No such file"):
        flowbuf.scan(tmp_path / "none.pcap").collect()
    with pytest.raises(duckdb.Error, match="No such file") as found:
        flowbuf.scan(tmp_path / "none.pcap", into="duckdb", connection=duckdb.connect()).fetchall()
    assert "find_files.py" not in str(found.value)  # no frames of flowbuf's reading


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"into": "pandas"}, ValueError, "into is 'pandas'; it may be polars or duckdb"),
        ({"connection": duckdb.connect()}, ValueError, "connection applies only"),
        ({"columns": ["nope"]}, SchemaError, "no column 'nope'"),
        ({"columns": []}, ValueError, "polars has no tables without columns"),
        ({"columns": [], "into": "duckdb"}, ValueError, "duckdb has no tables without columns"),
        ({"where": "nope = 1"}, QueryError, "nope"),
        ({"nope": 1}, TypeError, "nope"),
        ({"ip": "binary"}, TypeError, "scan takes no ip"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        flowbuf.scan(NETFLOW9, **arguments)


@pytest.mark.parametrize(("into", "extra"), [("polars", "polars"), ("duckdb", "sql")])
def test_a_missing_library_names_its_extra(into: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, into, None)
    with pytest.raises(ImportError, match=rf"pip install 'flowbuf\[{extra}\]'"):
        flowbuf.scan(NETFLOW9, into=into)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "end",
    [".limit(100).fetchall()", *slow(".limit(1).fetchall()", ".filter('bytes < 0').limit(1).fetchall()")],
)
def test_the_interpreter_ends_after_a_part_of_a_result(end: str) -> None:
    """No thread of a library reads flows while the interpreter ends."""
    script = f"import flowbuf; flowbuf.scan([{str(NETFLOW9)!r}] * 500, into='duckdb', batch_rows=64){end}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_duckdb_does_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(
        "flowbuf.io.columns.find_files",
        lambda path: read.append(path) or [path],  # type: ignore[func-returns-value]
    )
    flows = flowbuf.scan([NETFLOW9] * 3000, into="duckdb", connection=duckdb.connect())
    read.clear()
    assert len(flows.limit(10).fetchall()) == 10
    assert 0 < len(read) < 300


ROWS: dict[str, Callable[..., int]] = {
    "polars": lambda path, **options: flowbuf.scan(path, **options).collect().height,
    "polars, head": lambda path, **options: flowbuf.scan(path, **options).head(9999).collect().height,
    "duckdb": lambda path, **options: len(flowbuf.scan(path, into="duckdb", **options).fetchall()),
}


@pytest.mark.parametrize("way", ROWS)
def test_a_query_of_a_damaged_capture_ends_with_a_warning(way: str, tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(NETFLOW9.read_bytes()[:-20])
    with pytest.warns(RuntimeWarning, match=r"may be missing \(1 truncated_capture: .*\); strict=True"):
        rows = ROWS[way](tmp_path / "cut.pcap")
    assert 0 < rows < len(read_capture(NETFLOW9).to_arrow())
    with pytest.raises((pl.exceptions.ComputeError, duckdb.Error, flowbuf.DecodeError), match="truncated"):
        ROWS[way](tmp_path / "cut.pcap", strict=True)
