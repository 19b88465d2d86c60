"""Inserts over HTTP into ClickHouse's engine (chdb, behind a front that speaks as a server does): each batch
is there once, whatever goes wrong.
"""

from __future__ import annotations

import pytest

import flowbuf
from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.errors import ClickHouseError
from flowbuf.targets.clickhouse_tables import TableOptions, to_ddl
from tests.support.clickhouse_http import ClickHouse
from tests.support.command import generated, write

FLOWS = 2000


@pytest.fixture
def options(front: ClickHouse, request: pytest.FixtureRequest) -> TableOptions:
    """A table of its own for each test, with totals."""
    made = TableOptions(table=f"t_{abs(hash(request.node.name))}", aggregates={"1h": ""})
    for statement in to_ddl(flowbuf.Schema.load("flow"), made):
        if statement.sql:
            front.ask(statement.sql)
    return made


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> flowbuf.FlowStream:
    return flowbuf.read_capture(
        write(tmp_path_factory.mktemp("c") / "c.pcap", generated("netflow9", FLOWS)), batch_rows=700
    )


def totals(front: ClickHouse, options: TableOptions) -> tuple[str, str]:
    """Flows and octets in the table, and in its totals."""
    table = front.ask(f"SELECT count(), sum(bytes) FROM {options.table}")
    return table, front.ask(f"SELECT sum(flows), sum(bytes) FROM {options.table}_1h")


@pytest.fixture(scope="module")
def expected(flows: flowbuf.FlowStream) -> str:
    table = flows.to_arrow()
    return f"{len(table)}\t{sum(table['bytes'].to_pylist())}"


def test_inserts_each_flow(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    with ClickHouseSink(front.url, options) as sink:
        for place, batch in enumerate(flows):
            sink.insert(flows.schema, [batch], f"flows:0:{place}")
    assert totals(front, options) == (expected, expected)


def test_the_same_token_is_the_same_flows(
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
    ("trouble", "says"), [("busy", "Too many parts"), ("lost", "closed connection|RemoteDisconnected")]
)
def test_what_passes_is_tried_again(
    front: ClickHouse,
    options: TableOptions,
    flows: flowbuf.FlowStream,
    expected: str,
    trouble: str,
    says: str,
) -> None:
    problems: list[str] = []
    front.cause(trouble, 2)
    with ClickHouseSink(front.url, options, on_problem=problems.append) as sink:
        sink.insert(flows.schema, list(flows), "a token")
    assert totals(front, options) == (expected, expected)
    assert len(problems) == 1
    assert problems[0].startswith(front.url)
    assert any(word in problems[0] for word in says.split("|"))


def test_an_answer_that_never_comes(
    front: ClickHouse, options: TableOptions, flows: flowbuf.FlowStream, expected: str
) -> None:
    front.cause("held")
    with ClickHouseSink(front.url, options, timeout=1.0) as sink:
        sink.insert(flows.schema, list(flows), "a token")
    assert totals(front, options) == (expected, expected)


def test_nobody_there(flows: flowbuf.FlowStream) -> None:
    sink = ClickHouseSink("http://user:verysecret@127.0.0.1:9", patience=1.0)
    with pytest.raises(
        ClickHouseError, match=r"http://127.0.0.1:9: not inserted in 1 s: .*refused"
    ) as caught:
        sink.insert(flows.schema, list(flows), "a token")
    assert "verysecret" not in str(caught.value)


def test_an_error_that_stays(front: ClickHouse, flows: flowbuf.FlowStream) -> None:
    with (
        ClickHouseSink(front.url, TableOptions(table="nowhere")) as sink,
        pytest.raises(ClickHouseError, match="nowhere"),
    ):
        sink.insert(flows.schema, list(flows), "a token")


@pytest.mark.parametrize("url", ["127.0.0.1:8123", "ftp://127.0.0.1", "http://", "", "http://host:port"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)url|port"):
        ClickHouseSink(url)
