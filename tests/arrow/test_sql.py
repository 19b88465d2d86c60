"""SQL conditions select rows of batches, and in_net() matches addresses with networks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flowbuf.arrow.sql import RowFilter, connect
from flowbuf.arrow.sql_errors import query_errors
from flowbuf.arrow.sql_tokens import columns_named, with_rates
from flowbuf.errors import QueryError
from flowbuf.schema import Schema

FLOW = Schema.load("flow")
BATCH = pa.RecordBatch.from_pydict(
    {
        "src_addr": ["192.0.2.1", "198.51.100.7", "2001:db8::1", None],
        "bytes": pa.array([0, 100, 200, 300], pa.uint64()),
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("true", [0, 1, 2, 3]),
        ("false", []),
        ("null", []),
        ("bytes >= 200", [2, 3]),
        ("BYTES >= 200 -- large", [2, 3]),
        ("src_addr is null or src_addr = '192.0.2.1'", [0, 3]),
        ("src_addr like '192%' and bytes = 0", [0]),
        ("in_net(src_addr, '192.0.2.0/24')", [0]),
        ("not in_net(src_addr, '192.0.2.0/24')", [1, 2]),
        ("in_net(src_addr, '2001:db8::/32') or in_net(src_addr, '198.51.100.7')", [1, 2]),
    ],
)
def test_conditions_select_rows(condition: str, rows: list[int]) -> None:
    assert RowFilter(condition, FLOW).rows(BATCH).to_pylist() == rows


def test_filters_can_be_reused() -> None:
    large = RowFilter("bytes > 150", FLOW)
    assert large.columns == ("bytes",)
    assert [large.rows(BATCH.slice(begin)).to_pylist() for begin in (0, 1, 3)] == [[2, 3], [1, 2], [0]]
    assert large.rows(BATCH.slice(0, 0)).to_pylist() == []


def test_rows_keep_their_order() -> None:
    batch = pa.RecordBatch.from_pydict({"bytes": pa.array(range(100_000), pa.uint64())})
    rows = RowFilter("bytes % 3 = 0", FLOW).rows(batch).to_pylist()
    assert rows == list(range(0, 100_000, 3))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("src_adr = 'x'", "did you mean src_addr"),
        ("src_ip = 'x'", "did you mean src_addr?"),
        ("nothing_like_it > 1", "columns are time_received, exporter_address"),
        ("bytes >", "syntax error"),
        ("count(*) > 1", "cannot contain aggregates"),
        ("true); select (1", "has several statements"),
        ("bytes > 1400) or (true", "the condition is not one SQL expression"),
        ("bytes, src_addr", "the condition is not one SQL expression"),
        ("select true", "the condition is not one SQL expression"),
        ("", "the condition is not one SQL expression; write for example dst_port = 53"),
        ("-- nothing", "the condition is not one SQL expression"),
        ("src_addr::INTEGER > 1", "Could not convert string '192.0.2.1'"),
        ("in_net(src_addr, '192.0.2.0/33')", "'192.0.2.0/33' is not a network; write it as '192.0.2.0/24'"),
    ],
)
def test_invalid_conditions_are_explained(condition: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        RowFilter(condition, FLOW).rows(BATCH)
    assert message in str(raised.value)
    assert "row_number" not in str(raised.value)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("bytes > (select avg(bytes) from flows)", "Table with name flows does not exist"),
        ("bytes in (from FLOWS)", "Table with name FLOWS does not exist"),
        ("bytes = max(bytes)", "cannot contain aggregates"),
        ("bytes = (select max(bytes))", "cannot contain aggregates"),
        ("row_number() over () < 10", "cannot contain window functions"),
    ],
)
def test_conditions_over_several_flows_are_refused(condition: str, message: str) -> None:
    with pytest.raises(QueryError, match="one flow at a time; use flowbuf query") as raised:
        RowFilter(condition, FLOW).rows(BATCH)
    assert message in str(raised.value)


def test_conditions_may_name_their_table_and_use_subqueries() -> None:
    assert RowFilter("flows.bytes > 100", FLOW).rows(BATCH).to_pylist() == [2, 3]
    assert RowFilter("bytes in (select 50 * unnest(range(4)))", FLOW).rows(BATCH).to_pylist() == [0, 1]


def test_automatic_installation_of_extensions_is_disabled() -> None:
    settings = "SELECT value FROM duckdb_settings() WHERE name = 'autoinstall_known_extensions'"
    assert connect().execute(settings).fetchall() == [("false",)]


@pytest.mark.parametrize(
    ("address", "network", "inside"),
    [
        ("10.0.0.0", "10.0.0.0/8", True),
        ("10.255.255.255", "10.0.0.0/8", True),
        ("11.0.0.0", "10.0.0.0/8", False),
        ("10.1.2.3", "10.9.9.9/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "0.0.0.0/0", True),
        ("10.1.2.3", "::/0", False),
        ("2001:db8::1", "::/0", True),
        ("2001:db8::1", "0.0.0.0/0", False),
        ("2001:db8:ffff::1", "2001:db8::/32", True),
        ("2001:db9::", "2001:db8::/32", False),
        ("10.1.2.3", "::ffff:10.0.0.0/104", True),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("not an address", "10.0.0.0/8", False),
        (None, "10.0.0.0/8", None),
        ("10.1.2.3", None, None),
    ],
)
def test_in_net_matches_addresses_with_networks(
    address: str | None, network: str | None, inside: bool | None
) -> None:
    assert connect().execute("SELECT in_net($1, $2)", [address, network]).fetchall() == [(inside,)]


def test_column_names_in_sql_are_case_insensitive() -> None:
    assert columns_named("select Src_Mac, sum(bytes) from flows where bytes_ > 1", FLOW) == (
        "bytes",
        "src_mac",
    )


def test_column_names_in_literals_and_comments_are_none() -> None:
    sql = """SELECT 'dst_addr', $$dst_port$$, "Src_Port" -- packets
        FROM flows /* src_mac */ WHERE bytes > 1"""
    assert columns_named(sql, FLOW) == ("bytes", "src_port")


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("dst_port = 53 AND\u00a0bytes > 512", {"dst_port", "bytes"}),
        ("SELECT\u2003src_mac FROM\u00a0flows", {"src_mac"}),
        ("COLUMNS('bytes') > 1", {"bytes"}),
        ('"src_mac" > 1', {"src_mac"}),
    ],
)
def test_column_names_are_found_in_unusual_sql(sql: str, columns: set[str]) -> None:
    assert set(columns_named(sql, FLOW)) == columns


def test_missing_extensions_raise_and_are_not_downloaded(tmp_path: Path) -> None:
    connection = connect()
    connection.execute("SET extension_directory = ?", [str(tmp_path)])
    with pytest.raises(QueryError, match=r"duckdb\.install_extension\('inet'\)"), query_errors(["src_addr"]):
        connection.execute("SELECT '192.0.2.1'::INET")
    assert connection.execute("SELECT current_setting('autoinstall_known_extensions')").fetchall() == [
        (False,)
    ]


def test_python_variables_are_not_tables() -> None:
    with pytest.raises(Exception, match="BATCH does not exist"):
        connect().execute("select * from BATCH")


def test_errors_suggest_the_schema_that_has_the_column() -> None:
    with (
        pytest.raises(QueryError, match='write extends = "flow", or use schema flow'),
        query_errors(["my_bytes"]),
    ):
        connect().sql("SELECT src_mac FROM (SELECT 1 AS my_bytes)")


# Sampling rates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "completed"),
    [
        ("SELECT sum(scaled(bytes)) FROM flows", "SELECT sum(scaled(bytes, rate)) FROM flows"),
        ("SELECT SCALED ( a+b ) , scaled(c)", "SELECT SCALED ( a+b , rate) , scaled(c, rate)"),
        ("SELECT scaled(scaled(bytes))", "SELECT scaled(scaled(bytes, rate), rate)"),
        ("SELECT scaled(greatest(a, b))", "SELECT scaled(greatest(a, b), rate)"),
        ("SELECT scaled([a, b][1])", "SELECT scaled([a, b][1], rate)"),
        ("SELECT scaled(bytes /* ), */)", "SELECT scaled(bytes /* ), */, rate)"),
        ("SELECT 'é', scaled(\"ü\")", "SELECT 'é', scaled(\"ü\", rate)"),
        *((same, same) for same in ("", "SELECT scaled(bytes, 2)", "SELECT 'scaled(bytes)' -- scaled(a)")),
        *((same, same) for same in ("SELECT myscaled(a), scaled_(a), scaled", "SELECT scaled(", "SELECT 'a")),
        ('SELECT "scaled"(bytes), "Scaled" (a)', 'SELECT "scaled"(bytes, rate), "Scaled" (a, rate)'),
    ],
)
def test_calls_of_scaled_get_the_rate(sql: str, completed: str) -> None:
    assert with_rates(sql, "rate") == completed


def test_scaled_without_a_rate_is_an_error() -> None:
    assert with_rates("SELECT scaled(bytes, 2)", None) == "SELECT scaled(bytes, 2)"
    with pytest.raises(QueryError, match="needs a sampling rate"):
        with_rates("SELECT scaled(bytes)", None)


@pytest.mark.parametrize(
    ("sql", "text"),
    [("SELECT scaled()", "scaled needs a value"), ("SELECT '\udcff'", "not UTF-8")],
)
def test_calls_of_scaled_that_cannot_be_completed_are_errors(sql: str, text: str) -> None:
    with pytest.raises(QueryError, match=text):
        with_rates(sql, "rate")


@pytest.mark.parametrize(
    ("condition", "text"),
    [("scaled(bytes) > 1", "only in flowbuf query"), ("bytes > '\udcff'", "not UTF-8")],
)
def test_conditions_with_scaled_are_errors(condition: str, text: str) -> None:
    with pytest.raises(QueryError, match=text):
        RowFilter(condition, FLOW)


@pytest.mark.parametrize(
    ("value", "rate", "result"),
    [
        *(("5::UBIGINT", "1000", 5000), ("5", "0", 5), ("5", "NULL", 5), ("NULL", "7", None)),
        ("18446744073709551615::UBIGINT", "18446744073709551615::UBIGINT", (2**64 - 1) * 2**32),
        ("2.5", "4", 10),
    ],
)
def test_scaled_multiplies_by_known_rates(value: str, rate: str, result: int | None) -> None:
    assert connect().execute(f"SELECT scaled({value}, {rate})").fetchone() == (result,)
