"""ClickHouseSink inserts each batch exactly once, even after failures.

The server is ClickHouse's engine (chdb) behind an HTTP front end.
"""

from __future__ import annotations

import sys
import time

import pytest

import flowbuf
from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.errors import ClickHouseError
from flowbuf.targets.clickhouse_tables import TableOptions, to_ddl
from tests.support.clickhouse.http import ClickHouse
from tests.support.command import generated, write

FLOWS = 2000


@pytest.fixture
def options(front: ClickHouse, request: pytest.FixtureRequest) -> TableOptions:
    """Create tables for one test, with hourly totals."""
    table_options = TableOptions(table=f"t_{abs(hash(request.node.name))}", aggregates={"1h": ""})
    for statement in to_ddl(flowbuf.Schema.load("flow"), table_options):
        if statement.sql:
            front.ask(statement.sql)
    return table_options


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> flowbuf.FlowStream:
    return flowbuf.read_capture(
        write(tmp_path_factory.mktemp("c") / "c.pcap", generated("netflow9", FLOWS)), batch_rows=700
    )


def totals(front: ClickHouse, options: TableOptions) -> tuple[str, str]:
    """Return the numbers of flows and bytes in the table, and those in its totals."""
    table = front.ask(f"SELECT count(), sum(bytes) FROM {options.table}")
    return table, front.ask(f"SELECT sum(flows), sum(bytes) FROM {options.table}_1h")


@pytest.fixture(scope="module")
def expected(flows: flowbuf.FlowStream) -> str:
    table = flows.to_arrow()
    return f"{len(table)}\t{sum(table['bytes'].to_pylist())}"


def test_every_flow_is_inserted_once(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    with ClickHouseSink(front.url, options) as sink:
        for place, batch in enumerate(flows):
            sink.insert(flows.schema, [batch], f"flows:0:{place}")
    assert totals(front, options) == (expected, expected)


def test_inserts_with_the_same_token_are_stored_once(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    with ClickHouseSink(front.url, options) as sink:
        for _ in range(3):
            sink.insert(flows.schema, list(flows), "flows:0:0-100")
    assert totals(front, options) == (expected, expected)
    with ClickHouseSink(front.url, options) as sink:
        sink.insert(flows.schema, list(flows), "flows:0:100-200")
    assert totals(front, options)[0].split()[0] == str(2 * FLOWS)


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        ("busy", "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)"),
        ("gateway", "HTTP driver received HTTP status 502"),
        ("lost", "Remote end closed connection without response"),
        ("cut", "Connection closed before the HTTP response headers completed"),
    ],
)
def test_temporary_failures_are_retried(
    front: ClickHouse,
    options: TableOptions,
    flows: flowbuf.FlowStream,
    expected: str,
    trouble: str,
    text: str,
) -> None:
    problems: list[str] = []
    front.cause(trouble, 2)
    with ClickHouseSink(front.url, options, on_problem=problems.append) as sink:
        sink.insert(flows.schema, list(flows), "a token")
    assert totals(front, options) == (expected, expected)
    assert problems == [f"{front.url}: {text}; trying again"]


def test_connections_that_the_server_has_closed_are_no_problem(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    problems: list[str] = []
    front.cause("idle", 2)
    with ClickHouseSink(front.url, options, on_problem=problems.append) as sink:
        for place, batch in enumerate(flows):
            sink.insert(flows.schema, [batch], f"flows:0:{place}")
            time.sleep(0.1)  # until the connection is closed
    assert totals(front, options) == (expected, expected)
    assert problems == []


def test_redirects_raise(front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream) -> None:
    front.cause("moved")
    with (
        ClickHouseSink(front.url, options) as sink,
        pytest.raises(ClickHouseError, match="HTTP status 302"),
    ):
        sink.insert(flows.schema, list(flows), "a token")


def test_settings_of_the_url_override_those_of_the_sink(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream
) -> None:
    """Without a token, ClickHouse recognizes the same flows by their content."""
    with ClickHouseSink(f"{front.url}?insert_deduplication_token=", options) as sink:
        for token in ("a token", "another token"):
            sink.insert(flows.schema, list(flows), token)
    assert totals(front, options)[0].split()[0] == str(FLOWS)


def test_requests_without_an_answer_are_retried(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    front.cause("held")
    with ClickHouseSink(front.url, options, timeout=1.0) as sink:
        sink.insert(flows.schema, list(flows), "a token")
    assert totals(front, options) == (expected, expected)


def test_an_unreachable_server_raises_without_the_password(flows: flowbuf.FlowStream) -> None:
    sink = ClickHouseSink("http://user:verysecret@127.0.0.1:9", patience=1.0)
    with pytest.raises(
        ClickHouseError, match=r"http://127.0.0.1:9: not inserted in 1 s: .*refused"
    ) as caught:
        sink.insert(flows.schema, list(flows), "a token")
    assert "verysecret" not in str(caught.value)


def test_permanent_errors_raise(front: ClickHouse, flows: flowbuf.FlowStream) -> None:
    with (
        ClickHouseSink(front.url, TableOptions(table="nowhere")) as sink,
        pytest.raises(ClickHouseError, match="nowhere"),
    ):
        sink.insert(flows.schema, list(flows), "a token")


@pytest.mark.parametrize("url", ["127.0.0.1:8123", "ftp://127.0.0.1", "http://", "", "http://host:port"])
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)url|port"):
        ClickHouseSink(url)


def test_a_missing_library_is_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(ImportError, match=r"run pip install 'flowbuf\[clickhouse\]'"):
        ClickHouseSink("http://localhost")
