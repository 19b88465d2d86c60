"""Tables of `flowbuf schema clickhouse` keep all inserted values.

The tables are in ClickHouse's engine (chdb), which runs in the process.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowbuf import FlowbufError, Schema, encode_capture, read_capture, read_messages
from flowbuf.errors import QueryError, SchemaError
from flowbuf.targets.clickhouse import columns_of
from flowbuf.targets.clickhouse_insert import Insert, insert_query
from flowbuf.targets.clickhouse_migration import migration, obstacles
from flowbuf.targets.clickhouse_tables import (
    INTERVALS,
    KafkaOptions,
    TableOptions,
    drop_ddl,
    schema_settings,
    to_ddl,
)
from flowbuf.wire import Row
from tests.support.cases import slow, slow_after
from tests.support.clickhouse.rows import TIME, messages_of, ordered, rows_expected, rows_in

pytest.importorskip("chdb", reason="chdb is not installed: pip install --group chdb")

from flowbuf.clickhouse import Local

DATA = Path(__file__).parents[1] / "data"
CAPTURE = DATA / "generated-netflow9.pcap"
FLOW = Schema.load("flow")
EVERY_TYPE = Schema.from_toml('[schema]\nname = "every-type"')
MEMBERS = {"none": 0, "some": 1}
KINDS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("uint8", "uint16", "uint32", "uint64", "mac", "ip", "string", "bytes", "bool")),
    *((name, {}) for name in ("int32", "int64", "sint32", "sint64", "fixed32", "fixed64", "float", "double")),
    *(("timestamp", {"unit": unit}) for unit in ("s", "ms", "us", "ns")),
    *(("duration", {"unit": unit}) for unit in ("s", "ns")),
    *(("ip", {"ip": "native"}), ("enum", {"values": MEMBERS})),
]
for _number, (_type, _keys) in enumerate(KINDS):
    _name = "_".join([_type, *(value for value in _keys.values() if isinstance(value, str))])
    for _offset, _more in ((1, {}), (101, {"explicit": True}), (201, {"repeated": True})):
        _suffix = "".join(f"_{key}" for key in _more)
        EVERY_TYPE = EVERY_TYPE.add(f"{_name}{_suffix}", _offset + _number, _type, **_keys, **_more)

SCHEMAS = {
    "every-type": EVERY_TYPE,
    "flow": FLOW.only(*(column.name for column in FLOW)),
    "goflow2": Schema.load("goflow2"),
    "akvorado": Schema.load("akvorado"),
    "sflow_counters": Schema.load("sflow_counters"),
}
VIEWS_ALONE = TableOptions(kafka=KafkaOptions("127.0.0.1:1"))


@pytest.fixture(scope="module")
def engine() -> Iterator[Local]:
    with Local() as database:
        yield database


@pytest.fixture
def database(engine: Local) -> Iterator[Local]:
    yield engine
    tables = engine.query(
        "SELECT engine, name FROM system.tables WHERE database = currentDatabase()"
    ).to_pylist()
    for table in sorted(tables, key=lambda table: table["engine"] != "MaterializedView"):
        engine.execute(
            f"DROP {'VIEW' if table['engine'] == 'MaterializedView' else 'TABLE'} `{table['name']}`"
        )


def through_views(database: Local, messages: bytes, schema: Schema, folder: Path) -> None:
    """Insert messages through the views that read the queue, with a file instead of the queue."""
    database.run(each for each in to_ddl(schema, VIEWS_ALONE) if f"`{schema.rows}_queue" not in each.sql)
    path = folder / "messages.pb"
    path.write_bytes(messages)
    insert = insert_query(schema, VIEWS_ALONE, "Protobuf", str(path))
    structure = insert.sql.partition("FROM ")[2].partition(" AS message")[0]
    names = ", ".join(f"`{column.name}`" for column in schema.enabled)
    columns = f"INSERT INTO {schema.rows}_messages ({names}) SELECT {names} FROM {structure}"
    database.execute(Insert(columns, schema_settings(schema)).with_settings())


# Values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("way", ["messages", "columns", *slow("views")])
def test_every_column_holds_every_value(database: Local, name: str, way: str, tmp_path: Path) -> None:
    schema = SCHEMAS[name]
    messages = messages_of(schema)
    if way == "views":
        through_views(database, messages, schema, tmp_path)
    else:
        database.create(schema)
        data = messages if way == "messages" else read_messages(io.BytesIO(messages), schema)
        database.insert(data, schema)
    rows = rows_in(database, schema)
    assert rows == rows_expected(messages, schema)
    assert len(rows) == 4


@pytest.mark.parametrize("name", ["flow", "sflow_counters", *slow("goflow2", "akvorado")])
@pytest.mark.parametrize(
    "capture", ["generated-ipfix", "generated-sflow", *slow("generated-netflow5", "generated-netflow9")]
)
def test_decoded_flows_are_stored(database: Local, name: str, capture: str, tmp_path: Path) -> None:
    """Columns and messages give the same rows."""
    schema, path = SCHEMAS[name], DATA / f"{capture}.pcap"
    database.create(schema)
    database.insert(read_capture(path, schema))
    encode_capture(path, tmp_path / "messages.pb", schema)
    rows = rows_expected((tmp_path / "messages.pb").read_bytes(), schema)
    assert rows_in(database, schema) == rows
    assert bool(rows) == (name != "sflow_counters" or capture == "generated-sflow")
    database.execute(f"TRUNCATE TABLE {schema.rows}")
    database.insert(tmp_path / "messages.pb", schema)
    assert rows_in(database, schema) == rows


def test_streams_may_have_no_flows(database: Local) -> None:
    database.create(FLOW)
    database.insert(read_messages(io.BytesIO(b""), FLOW))
    assert rows_in(database, FLOW) == []


def test_unknown_enum_numbers_are_stored_as_digits(database: Local) -> None:
    database.create(FLOW)
    database.insert(bytes(row_of(FLOW, bytes=1, flow_type=99)), FLOW)
    assert rows_in(database, FLOW, columns=["bytes", "flow_type", "flow_direction"]) == [
        (1, b"99", b"undefined")
    ]


def test_mac_addresses_have_a_text_column(database: Local) -> None:
    schema = FLOW.enable("src_mac")
    database.create(schema)
    database.insert(bytes(row_of(schema, src_mac=0xAABBCCDDEEFF)), schema)
    assert rows_in(database, schema, columns=["src_mac_text"]) == [(b"AA:BB:CC:DD:EE:FF",)]


def test_types_and_codecs_of_the_schema_are_used(database: Local) -> None:
    schema = FLOW.alter("bytes", clickhouse={"codec": "Delta(8), LZ4"})
    schema = schema.alter("proto", clickhouse={"type": "UInt32"})
    schema = schema.alter("time_received", clickhouse={"type": "DateTime('Europe/Vienna')"})
    schema = schema.alter("flow_type", clickhouse={"type": "String", "codec": "NONE"})
    database.create(schema)
    for data in (bytes(row_of(schema, proto=6, flow_type=3, time_received=TIME * 1000 + 999)),):
        database.insert(data, schema)
        database.insert(read_messages(io.BytesIO(data), schema))
    names = ["proto", "flow_type", "toUnixTimestamp(time_received)"]
    rows = database.query(f"SELECT {', '.join(names)} FROM flows").to_pylist()
    assert rows == [dict(zip(names, (6, "NETFLOW_V9", TIME), strict=True))] * 2
    query = (
        "SELECT type, compression_codec FROM system.columns "
        "WHERE table = 'flows' AND name IN ('bytes', 'flow_type')"
    )
    described = [tuple(row.values()) for row in database.query(f"{query} ORDER BY name").to_pylist()]
    assert described == [("UInt64", "CODEC(Delta(8), LZ4)"), ("String", "CODEC(NONE)")]


_CODECS = [
    *("NONE", "LZ4HC(9)", "ZSTD(22)", "DoubleDelta", "T64", "T64('bit')", "Gorilla", "FPC"),
    *("Delta, ZSTD(1)", "GCD, LZ4", "Delta, T64", "Delta, DoubleDelta, LZ4", "T64, GCD, ZSTD(1)"),
    *("Delta", "GCD", "T64, NONE", "ZSTD(23)", "Delta, Gorilla", "Gorilla, Delta, ZSTD(1)", "FPC, ZSTD(1)"),
]


@pytest.mark.parametrize("type", ["uint64", "bool", "double", "timestamp"])
def test_the_engine_accepts_the_same_codecs(database: Local, type: str) -> None:
    unit = {"unit": "ms"} if type == "timestamp" else {}
    plain = FLOW.only().add("x", 1000, type, **unit)
    for codec in _CODECS:
        definition = f"x {columns_of(plain)[0].type} CODEC({codec})"
        try:
            columns_of(plain.alter("x", clickhouse={"codec": codec}))
        except SchemaError:
            with pytest.raises(QueryError):
                database.execute(f"CREATE TABLE refused ({definition}) ENGINE = MergeTree ORDER BY ()")
        else:
            database.execute(f"CREATE OR REPLACE TABLE t ({definition}) ENGINE = MergeTree ORDER BY ()")


def row_of(schema: Schema, **values: Any) -> Row:
    row = Row(schema)
    for name, value in values.items():
        row.append(name, value)
    row.finish()
    return row


# Tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flow", "goflow2", "akvorado"])
def test_totals_equal_the_sums_of_flows(database: Local, name: str) -> None:
    schema = SCHEMAS[name]
    options = TableOptions(aggregates=dict.fromkeys(INTERVALS, ""))
    database.create(schema, options)
    flows = read_capture(CAPTURE, schema)
    database.insert(flows)
    counts = [column.name for column in schema.enabled if column.scale == "count"]
    assert schema.rate
    table = flows.to_arrow()
    rates = [max(rate, 1) for rate in table[schema.rate.name].to_pylist()]
    expected = {"flows": table.num_rows}
    for count in counts:
        values = table[count].to_pylist()
        expected[count] = sum(values)
        expected[f"{count}_scaled"] = sum(value * rate for value, rate in zip(values, rates, strict=True))
    assert expected["flows"] > 100
    assert len(counts) == 2
    sums = ", ".join(f"sum({total}) AS {total}" for total in expected)
    for interval in INTERVALS:
        assert database.query(f"SELECT {sums} FROM flows_{interval}").to_pylist() == [expected]
        fewer = database.query(f"SELECT count() AS rows FROM flows_{interval} FINAL").to_pylist()[0]["rows"]
        assert 0 < fewer <= expected["flows"]


def test_totals_are_grouped_by_the_chosen_columns(database: Local) -> None:
    options = TableOptions(aggregates={"5m": ""}, aggregate_by=("proto", "exporter_address"))
    database.create(FLOW, options)
    flows = read_capture(CAPTURE, FLOW)
    database.insert(flows)
    table = flows.to_arrow()
    pairs = zip(table["time_received"].cast("int64").to_pylist(), table["proto"].to_pylist(), strict=True)
    expected = Counter((time // 300_000 * 300, proto) for time, proto in pairs)
    query = "SELECT time_received, proto, sum(flows) AS flows FROM flows_5m GROUP BY time_received, proto"
    assert {
        (row["time_received"], row["proto"]): row["flows"] for row in database.query(query).to_pylist()
    } == expected


def test_creating_twice_changes_nothing_and_dropping_leaves_nothing(database: Local) -> None:
    options = TableOptions(
        "net", "it's `odd`", "hour", "15d", {"1m": "30d", "1h": ""}, kafka=KafkaOptions("127.0.0.1:1")
    )
    database.create(FLOW, options)
    database.insert(read_capture(CAPTURE, FLOW), options=options)
    query = "SELECT name, create_table_query FROM system.tables WHERE database = 'net' ORDER BY name"
    created = database.query(query)
    database.create(FLOW, options)
    assert database.query(query) == created
    assert created.num_rows == 11
    database.run(drop_ddl(FLOW, options))
    assert database.query(query).num_rows == 0
    database.execute("DROP DATABASE net")


@pytest.mark.parametrize("kind", ["columns", "messages"])
def test_inserts_with_the_same_token_are_stored_once(database: Local, kind: str) -> None:
    database.create(FLOW, TableOptions(aggregates={"1h": ""}))
    messages = messages_of(FLOW)
    for token in ("first", "first", "second", "first", "second"):
        data = messages if kind == "messages" else read_messages(io.BytesIO(messages), FLOW)
        database.insert(data, FLOW, token=token)
    query = "SELECT count() AS flows, (SELECT sum(flows) FROM flows_1h) AS totals FROM flows"
    assert database.query(query).to_pylist() == [{"flows": 8, "totals": 8}]
    for _ in range(2):  # inserts without a token are never ignored
        database.insert(messages, FLOW)
    assert database.query(query).to_pylist() == [{"flows": 16, "totals": 16}]


def test_schemas_of_the_same_name_do_not_collide(database: Local) -> None:
    """The engine identifies messages by their names alone."""
    for number, schema in enumerate((FLOW, FLOW.disable("bytes"), FLOW.alter("bytes", doc="Another."), FLOW)):
        options = TableOptions(table=f"table_{number}")
        database.create(schema, options)
        database.insert(messages_of(schema), schema, options)
        assert rows_in(database, schema, f"table_{number}") == rows_expected(messages_of(schema), schema)


# Migrations -------------------------------------------------------------------------------------------------

TOTALS = TableOptions(aggregates={"1m": "", "1h": ""})
OLD = FLOW.enable("exporter_name").add("small", 1000, "uint8").add("note", 1001, "string")
SINGLE = OLD.add("state", 1002, "enum", values={"none": 0, "up": 1})


def replaced(schema: Schema, name: str, number: int, type: str, **keys: Any) -> Schema:
    """Return the schema with a column replaced by another, as in a changed schema file."""
    kept = tuple(column for column in schema.columns if column.name != name)
    return replace(schema, columns=kept).add(name, number, type, **keys)


def renamed(schema: Schema, old: str, new: str) -> Schema:
    return replace(
        schema,
        columns=tuple(replace(each, name=new) if each.name == old else each for each in schema.columns),
    )


ADDITIVE = {
    "new columns": OLD.enable("group:l2", "mpls_labels", "icmp_type"),
    "new dimensions": OLD.enable("src_country", "flow_end_reason"),
    "removed columns": OLD.disable("tcp_flags", "src_as").retire("small"),
    "wider integer": replaced(OLD, "small", 1000, "uint32"),
    "text to bytes": replaced(OLD, "note", 1001, "bytes"),
    "explicit column": OLD.alter("small", explicit=True),
    "another name of a column": renamed(OLD, "small", "tiny"),
    "another codec": OLD.alter("bytes", clickhouse={"codec": "LZ4"}),
    "new enum members": OLD.alter("flow_type", values={**OLD["flow_type"].values, "NEW": 77}),
}
BESIDE = {
    "another type": replaced(OLD, "small", 1000, "string"),
    "narrower integer": replaced(OLD, "in_if", 12, "uint16"),
    "another number": replaced(OLD, "small", 1100, "uint8"),
    "another unit": replaced(OLD, "time_received", 1, "timestamp", unit="us", sources=["meta:time_received"]),
    "repeated column": OLD.alter("small", repeated=True),
    "other numbers of enum members": OLD.alter(
        "flow_direction", values={"undefined": 0, "egress": 1, "ingress": 2}
    ),
    "another name of a dimension": renamed(OLD, "note", "remark"),
    "time to number": replaced(OLD, "time_received", 1, "uint64"),
    "removed time of rows": OLD.disable("time_received").enable("time_flow_start"),
    "wider column of the sorting key": replaced(OLD, "in_if", 12, "uint64", sources=["netflow5:input"]),
}


@pytest.mark.parametrize("case", slow_after(2, ADDITIVE))
def test_compatible_changes_alter_the_table(database: Local, case: str) -> None:
    """Old rows are kept, and old and new messages can be inserted. A repeated migration changes nothing."""
    new = ADDITIVE[case]
    options = TableOptions() if case == "text to bytes" else TOTALS  # totals are grouped by text columns
    assert obstacles(OLD, new, options) == []
    database.create(OLD, options)
    before, after = messages_of(OLD), messages_of(new)
    database.insert(before, OLD)
    statements = migration(OLD, new, options)
    for _ in range(2):
        database.run(statements)
    numbers = {column.number: column.name for column in new.enabled}
    kept = [numbers.get(column.number, column.name) for column in OLD.enabled]
    assert rows_in(database, OLD, columns=kept) == rows_expected(before, OLD)
    database.execute("TRUNCATE TABLE flows")
    database.insert(after, new)
    assert rows_in(database, new) == rows_expected(after, new)
    database.insert(read_messages(io.BytesIO(before), new))  # messages of an old writer
    assert rows_in(database, new) == ordered(rows_expected(after, new) + rows_expected(before, new))
    for interval in options.aggregates:
        assert database.query(f"SELECT sum(flows) AS n FROM flows_{interval}").to_pylist() == [{"n": 12}]


@pytest.mark.parametrize("case", slow_after(4, BESIDE))
def test_incompatible_changes_create_another_table(database: Local, case: str) -> None:
    new = BESIDE[case]
    options = TableOptions() if case == "time to number" else TOTALS
    assert obstacles(OLD, new, options) != []
    database.create(OLD, options)
    before, after = messages_of(OLD), messages_of(new)
    database.insert(before, OLD)
    for _ in range(2):
        database.run(migration(OLD, new, options))
    beside = options.beside(new)
    database.insert(after, new, beside)
    database.insert(before, OLD)
    assert rows_in(database, OLD) == ordered(rows_expected(before, OLD) * 2)
    assert rows_in(database, new, beside.table) == rows_expected(after, new)


def test_totals_keep_their_time() -> None:
    """Otherwise, new rows of totals would be those of 1970, and a lifetime would delete them."""
    old = OLD.disable("time_received").enable("time_flow_start")
    assert obstacles(old, OLD.enable("time_flow_start"), TOTALS) == [
        "time_received: totals have the time time_flow_start"
    ]
    assert obstacles(old, OLD.enable("time_flow_start")) == []


def test_nulls_are_kept_when_a_column_is_no_longer_explicit(database: Local) -> None:
    explicit = OLD.alter("small", explicit=True)
    database.create(explicit)
    database.insert(messages_of(explicit), explicit)
    database.run(migration(explicit, OLD))
    assert rows_in(database, explicit) == rows_expected(messages_of(explicit), explicit)
    database.execute("TRUNCATE TABLE flows")
    database.insert(messages_of(OLD), OLD)
    assert rows_in(database, OLD) == rows_expected(messages_of(OLD), OLD)


def test_the_text_of_mac_addresses_may_become_null(database: Local) -> None:
    old = OLD.enable("src_mac")
    new = old.alter("src_mac", explicit=True)
    database.create(old)
    database.insert(bytes(row_of(old, src_mac=1)), old)
    for _ in range(2):
        database.run(migration(old, new))
    database.insert(bytes(row_of(new, bytes=1)), new)
    rows = database.query("SELECT src_mac_text FROM flows ORDER BY src_mac_text").to_pylist()
    assert rows == [{"src_mac_text": "00:00:00:00:00:01"}, {"src_mac_text": None}]


def test_totals_are_not_grouped_by_kept_nulls(database: Local) -> None:
    """Otherwise, the view of the totals would refuse every insert of columns with an absent text."""
    explicit = OLD.alter("note", explicit=True)
    assert obstacles(explicit, OLD) == []
    found = "note: the column keeps its NULLs, and totals cannot be grouped by NULL"
    assert obstacles(explicit, OLD, TOTALS) == [found]
    database.create(explicit, TOTALS)
    database.run(migration(explicit, OLD, TOTALS))
    beside = TOTALS.beside(OLD)
    database.insert(read_messages(io.BytesIO(messages_of(OLD)), OLD), options=beside)
    totals = database.query(f"SELECT sum(flows) AS n FROM {beside.name(OLD, '1h')}")
    assert totals.to_pylist() == [{"n": 4}]


# Local ------------------------------------------------------------------------------------------------------


def test_only_one_database_can_be_open(engine: Local) -> None:
    with pytest.raises(
        FlowbufError, match="open one ClickHouse database at a time; close the other one first"
    ):
        Local()
    assert engine.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_errors_of_the_engine_are_raised(database: Local, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="UNKNOWN_IDENTIFIER"):
        database.query("SELECT nothing")
    with pytest.raises(QueryError, match="flows"):
        database.insert(messages_of(FLOW), FLOW)
    database.create(FLOW)
    with pytest.raises(QueryError, match="eof"):
        database.insert(messages_of(FLOW) + b"\x05\x08", FLOW)
    assert rows_in(database, FLOW) == []
    with pytest.raises(FileNotFoundError):
        database.insert(tmp_path / "missing.pb", FLOW)
    with pytest.raises(TypeError, match="schema is required"):
        database.insert(b"")


@pytest.mark.slow
def test_rows_are_kept_for_the_next_process(tmp_path: Path) -> None:
    """Warnings are errors. Only the first process closes the database."""
    lines = [
        "import sys, flowbuf",
        "from flowbuf.clickhouse import Local",
        "database = Local(sys.argv[1])",
        "database.create('flow')",
        "database.insert(flowbuf.read_capture(sys.argv[2]))",
        "print(database.query('SELECT count() AS n FROM flows').to_pylist()[0]['n'])",
    ]
    flows = len(read_capture(CAPTURE).to_arrow())
    for times, last in ((1, "database.close()"), (2, "")):
        command = [
            sys.executable,
            "-W",
            "error",
            "-c",
            "\n".join([*lines, last]),
            str(tmp_path / "db"),
            str(CAPTURE),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{times * flows}\n", "")


def test_a_missing_chdb_is_reported_with_a_fix(engine: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb.session", None)
    with pytest.raises(FlowbufError, match=r"pip install 'flowbuf\[chdb\]'"):
        Local()
