"""`flowbuf schema clickhouse` prints SQL that creates, migrates and drops tables and views."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from flowbuf import Schema, SchemaError
from flowbuf.targets.clickhouse import columns_of
from flowbuf.targets.clickhouse_insert import insert_query
from flowbuf.targets.clickhouse_migration import migration, obstacles
from flowbuf.targets.clickhouse_tables import (
    KafkaOptions,
    Statement,
    TableOptions,
    aggregate_key,
    drop_ddl,
    schema_settings,
    to_ddl,
    to_text,
)
from tests.support.command import flowbuf

FLOW = Schema.load("flow")
KAFKA = TableOptions(kafka=KafkaOptions("192.0.2.1:9092"))


def sql_of(statements: list[Statement], name: str) -> str:
    """Return the statement that creates a table or a view."""
    (found,) = (each.sql for each in statements if re.match(rf"CREATE [A-Z ]+`{name}`", each.sql))
    return found


def created_names(statements: list[Statement]) -> list[str]:
    return [found[1] for each in statements if (found := re.match(r"CREATE [A-Z ]+`(\w+)`", each.sql))]


# Columns ----------------------------------------------------------------------------------------------------


def test_enabled_columns_become_columns() -> None:
    assert [column.name for column in columns_of(FLOW)] == [column.name for column in FLOW.enabled]


@pytest.mark.parametrize(
    ("type", "keys", "expected", "read_as"),
    [
        ("uint8", {}, "UInt8", "UInt8"),
        ("uint64", {"explicit": True}, "Nullable(UInt64)", "Nullable(UInt64)"),
        ("timestamp", {"unit": "s"}, "DateTime('UTC')", "UInt64"),
        ("timestamp", {"unit": "us"}, "DateTime64(6, 'UTC')", "UInt64"),
        ("timestamp", {"unit": "ns", "repeated": True}, "Array(DateTime64(9, 'UTC'))", "Array(UInt64)"),
        ("duration", {"unit": "ms"}, "Int64", "Int64"),
        ("ip", {}, "IPv6", "IPv6"),
        ("ip", {"ip": "native"}, "IPv6", "String"),
        ("mac", {}, "UInt64", "UInt64"),
        ("enum", {"values": {"a": 0}}, "LowCardinality(String)", "Int32"),
        (
            "enum",
            {"values": {"a": 0}, "explicit": True},
            "LowCardinality(Nullable(String))",
            "Nullable(Int32)",
        ),
        ("string", {"repeated": True}, "Array(LowCardinality(String))", "Array(String)"),
        ("bytes", {}, "String", "String"),
    ],
)
def test_columns_have_clickhouse_types(
    type: str, keys: dict[str, object], expected: str, read_as: str
) -> None:
    (column,) = columns_of(FLOW.only().add("x", 1000, type, **keys))
    assert (column.type, column.message_type) == (expected, read_as)


@pytest.mark.parametrize(
    ("name", "key", "fault"),
    [
        ("bytes", {"type": "UInt32"}, "which does not hold every value of type uint64; it may be UInt64"),
        ("flow_type", {"type": "Enum8('a' = 0)"}, r"it may be LowCardinality\(String\) or String"),
        ("src_addr", {"type": "IPv4"}, "it may be IPv6"),
        ("time_received", {"type": "UInt64) ENGINE = Null --"}, r"DateTime64\(3, 'UTC'\)"),
        ("bytes", {"codec": "ZSTD(1)) ENGINE = Null --"}, "clickhouse.codec is"),
        ("bytes", {"codec": "ZSTD(1), Delta"}, "as the last"),
        ("bytes", {"codec": 1}, "clickhouse.codec is 1"),
        ("bytes", {"codec": "ZSTD(23)"}, "clickhouse.codec is"),
        ("bytes", {"codec": "T64, NONE"}, "clickhouse.codec is"),
        ("bytes", {"codec": "FPC, ZSTD(1)"}, r"FPC is not for UInt64; use ZSTD\(1\)"),
        ("bytes", {"codec": "Delta"}, r"it does not compress; write Delta, ZSTD\(1\)"),
        ("src_addr", {"codec": "T64, ZSTD(1)"}, "which is only for numbers; use ZSTD"),
        ("bytes", {"kodec": "LZ4"}, "unknown key of clickhouse: 'kodec'; keys are type and codec"),
    ],
)
def test_invalid_types_and_codecs_are_refused(name: str, key: dict[str, object], fault: str) -> None:
    with pytest.raises(SchemaError, match=f"column '{name}': .*{fault}"):
        columns_of(FLOW.alter(name, clickhouse=key))


@pytest.mark.parametrize(
    ("codec", "fault"),
    [("GCD, LZ4", "GCD is not for Float64; use ZSTD"), ("Delta, FPC", "Gorilla and FPC store differences")],
)
def test_invalid_codecs_of_fractions_are_refused(codec: str, fault: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'ratio': .*{fault}"):
        columns_of(FLOW.add("ratio", 1000, "double", clickhouse={"codec": codec}))


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(SchemaError, match="schema flow: a table of ClickHouse needs a column"):
        to_ddl(FLOW.only())


def test_text_and_names_are_escaped() -> None:
    schema = FLOW.alter("bytes", doc="It's a \\ `comment`\nof two lines")
    statements = to_ddl(schema, TableOptions("a`b", "c\\d\n-- e"))
    assert r"COMMENT 'It\'s a \\ `comment` of two lines'" in statements[2].sql
    assert r"`a\`b`.`c\\d" in statements[2].sql
    lines = to_text([Statement("SELECT 1", "one\ntwo")])
    assert lines == "-- one\n-- two\nSELECT 1;\n"


# Tables -----------------------------------------------------------------------------------------------------


def test_the_view_of_the_queue_is_created_last_and_dropped_first() -> None:
    """ClickHouse reads nothing from Kafka before all tables exist."""
    names = created_names(to_ddl(FLOW, KAFKA))
    assert names[0] == "flows"
    assert names[-2:] == ["flows_queue", "flows_queue_view"]
    dropped = [each.sql for each in drop_ddl(FLOW, KAFKA) if each.sql]
    assert dropped[0] == "DROP VIEW IF EXISTS `flows_queue_view`"
    assert dropped[-1] == "DROP TABLE IF EXISTS `flows`"
    assert len(dropped) == len(names)


def test_the_sorting_key_has_enabled_columns_only() -> None:
    key = "(toStartOfFiveMinutes(`time_received`), `exporter_address`, `in_if`, `out_if`)"
    assert f"ORDER BY {key}\n" in sql_of(to_ddl(FLOW), "flows")
    named = sql_of(to_ddl(Schema.load("goflow2")), "flows")
    assert (
        "ORDER BY (toStartOfFiveMinutes(`time_received_ns`), `sampler_address`, `in_if`, `out_if`)\n" in named
    )
    few = sql_of(to_ddl(FLOW.only("bytes", "in_if")), "flows")
    assert "ORDER BY (`in_if`)\n" in few
    assert "PARTITION" not in few
    assert "ORDER BY tuple()\n" in sql_of(to_ddl(FLOW.only("bytes")), "flows")
    assert "`counters`" in sql_of(to_ddl(Schema.load("sflow_counters")), "counters")


def test_kafka_settings_are_written() -> None:
    registry = KafkaOptions(
        "a:1,b:2", "t", "g", "registry", consumers=3, settings={"kafka_sasl_username": "it's"}
    )
    queue = sql_of(to_ddl(FLOW, TableOptions(kafka=registry)), "flows_queue")
    for setting in (
        "kafka_broker_list = 'a:1,b:2'",
        "kafka_topic_list = 't'",
        "kafka_group_name = 'g'",
        "kafka_format = 'ProtobufSingle'",
        "kafka_handle_error_mode = 'stream'",
        "kafka_schema_registry_skip_bytes = 6",
        "kafka_num_consumers = 3",
        r"kafka_sasl_username = 'it\'s'",
        "format_schema_source = 'string'",
    ):
        assert setting in queue
    assert f"kafka_topic_list = 'flows-{FLOW.hash}'" in sql_of(to_ddl(FLOW, KAFKA), "flows_queue")
    named = TableOptions(kafka=KafkaOptions("a:1", "{name}-x"))
    assert "kafka_topic_list = 'flow-x'" in sql_of(to_ddl(FLOW, named), "flows_queue")


@pytest.mark.parametrize(
    ("of_schema", "given", "form"),
    [("", "", "Protobuf"), ("bare", "", "ProtobufSingle"), ("bare", "delimited", "Protobuf")],
)
def test_the_framing_of_the_schema_is_the_default(of_schema: str, given: str, form: str) -> None:
    options = TableOptions(kafka=KafkaOptions("a:1", framing=given))
    assert f"kafka_format = '{form}'" in sql_of(
        to_ddl(replace(FLOW, framing=of_schema), options), "flows_queue"
    )


def test_comments_contain_the_text_of_the_schema_file() -> None:
    (queue,) = (
        each
        for each in to_ddl(FLOW, TableOptions(kafka=KafkaOptions("a:1", schema_file="flow-1.proto")))
        if "= Kafka" in each.sql
    )
    assert "kafka_schema = 'flow-1.proto:Flow'" in queue.sql
    assert "format_schema" not in queue.sql
    assert queue.comment.endswith(schema_settings(FLOW)["format_schema"])
    assert "format_schema_path" in queue.comment


def test_each_schema_has_its_own_package() -> None:
    packages = {
        schema_settings(schema)["format_schema"].partition("package ")[2].partition(";")[0]
        for schema in (FLOW, FLOW.disable("bytes"), FLOW.alter("bytes", doc="Another."))
    }
    assert len(packages) == 3
    assert schema_settings(FLOW) == schema_settings(Schema.load("flow"))


def test_the_schema_in_the_settings_begins_with_the_syntax() -> None:
    text = schema_settings(replace(FLOW, name="my-syntax"))["format_schema"]
    assert text.startswith('syntax = "proto3";\n\npackage flowbuf_')


def test_invalid_options_are_refused() -> None:
    for wrong, text in (
        ({"partition_by": "year"}, "hour, day, month, none"),
        ({"ttl": "15"}, "as in 15d"),
        ({"ttl": "1m"}, r"m is a minute elsewhere; write a number and h, d, w, mo \(months\) or y"),
        ({"aggregates": {"2m": ""}}, "1m, 5m, 1h"),
        ({"aggregates": {"1m": "x"}}, "as in 15d"),
    ):
        with pytest.raises(ValueError, match=text):
            TableOptions(**wrong)  # type: ignore[arg-type]
    assert "INTERVAL 3 MONTH" in to_text(to_ddl(FLOW, TableOptions(ttl="3mo")))
    with pytest.raises(ValueError, match="delimited or bare or registry"):
        KafkaOptions("a:1", framing="json")
    with pytest.raises(ValueError, match="ArrowStream or Protobuf"):
        insert_query(FLOW, format="CSV")


@pytest.mark.parametrize(
    ("schema", "options", "fault"),
    [
        (FLOW.only("bytes"), TableOptions(ttl="1d"), "ttl needs a time"),
        (FLOW.only("bytes"), TableOptions(aggregates={"1m": ""}), "aggregates need a time"),
        (FLOW.only("time_received"), TableOptions(aggregates={"1m": ""}), 'scale = "count"'),
        (
            FLOW.add("flows", 1000, "uint8"),
            TableOptions(aggregates={"1m": ""}),
            "'flows'.*name of a column of the totals",
        ),
        (FLOW, TableOptions(aggregates={"1m": ""}, aggregate_by=("bytes",)), "'bytes'.*cannot group totals"),
        (FLOW, TableOptions(aggregates={"1m": ""}, aggregate_by=("src_mac",)), "'src_mac'.*disabled"),
        (FLOW, TableOptions(aggregates={"1m": ""}, aggregate_by=("src_adr",)), "did you mean src_addr"),
    ],
)
def test_options_that_do_not_fit_the_schema_are_refused(
    schema: Schema, options: TableOptions, fault: str
) -> None:
    with pytest.raises(SchemaError, match=fault):
        to_ddl(schema, options)


def test_inserts_name_the_format_of_their_data() -> None:
    arrow, messages = insert_query(FLOW), insert_query(FLOW, format="Protobuf")
    assert arrow.sql.startswith("INSERT INTO `flows` (`time_received`, ")
    assert arrow.sql.endswith(") FORMAT ArrowStream")
    assert messages.sql.endswith("\nFORMAT Protobuf")
    assert "FROM input('`time_received` UInt64, " in messages.sql
    assert "SETTINGS " in messages.with_settings()
    assert messages.with_settings().endswith("FORMAT Protobuf")


# Migrations -------------------------------------------------------------------------------------------------


def test_migrations_never_drop_data() -> None:
    new = FLOW.enable("group:l2").disable("src_as", "tcp_flags")
    text = to_text(migration(FLOW, new, KAFKA))
    assert "DROP COLUMN" not in text
    assert set(re.findall(r"DROP TABLE IF EXISTS `(\w+)`", text)) == {"flows_queue", "flows_messages"}
    assert (
        "-- src_as, tcp_flags: not in the new schema; the table keeps the stored values." in text.splitlines()
    )


def test_migrations_read_both_topics_with_the_same_group() -> None:
    new = FLOW.enable("src_mac")
    queue = sql_of(migration(FLOW, new, KAFKA), "flows_queue")
    assert f"kafka_topic_list = 'flows-{FLOW.hash},flows-{new.hash}'" in queue
    assert "kafka_group_name = 'flows'" in queue
    same = TableOptions(kafka=KafkaOptions("192.0.2.1:9092", "topic"))
    assert "kafka_topic_list = 'topic'" in sql_of(migration(FLOW, new, same), "flows_queue")


def test_unreadable_changes_get_their_own_tables_and_topic() -> None:
    new = FLOW.alter("proto", repeated=True)
    options = TableOptions(kafka=KafkaOptions("192.0.2.1:9092", "topic", "group"))
    statements = migration(FLOW, new, options)
    name = f"flows_{new.hash[:8]}"
    assert not [each.sql for each in statements if each.sql.startswith(("ALTER", "DROP"))]
    queue = sql_of(statements, f"{name}_queue")
    assert f"kafka_topic_list = 'topic-{new.hash}'" in queue
    assert f"kafka_group_name = 'group_{new.hash[:8]}'" in queue
    assert "-- `flows` cannot be changed to the new schema:\n--   proto: " in to_text(statements)


def test_retired_columns_do_not_prevent_a_migration() -> None:
    assert obstacles(FLOW, FLOW.retire("src_as")) == []
    assert obstacles(FLOW, FLOW) == []


# The command ------------------------------------------------------------------------------------------------


def test_the_command_prints_tables() -> None:
    done = flowbuf(
        "schema", "clickhouse", "--kafka", "192.0.2.1:9092", "--ttl", "15d", "--aggregates", "1m=30d,1h"
    )
    options = TableOptions(
        ttl="15d", aggregates={"1m": "30d", "1h": ""}, kafka=KafkaOptions("192.0.2.1:9092")
    )
    assert (done.exit_code, done.stdout) == (0, to_text(to_ddl(FLOW, options)))
    dropped = flowbuf("schema", "clickhouse", "--aggregates", "all", "--drop")
    assert dropped.stdout == to_text(drop_ddl(FLOW, TableOptions(aggregates={"1m": "", "5m": "", "1h": ""})))


def test_the_command_prints_migrations(tmp_path: Path) -> None:
    next_schema = tmp_path / "next.toml"
    next_schema.write_text('[schema]\nname = "next"\nextends = "flow"\nenable = ["group:l2"]\n')
    done = flowbuf("schema", "clickhouse", next_schema, "--from", "flow", "--database", "net")
    assert done.exit_code == 0
    assert "ALTER TABLE `net`.`flows` ADD COLUMN IF NOT EXISTS `src_mac` UInt64" in done.stdout
    assert flowbuf("schema", "clickhouse", "--from", "flow").stdout.count(";") == 0


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--ttl", "x"), "as in 15d"),
        (("--aggregates", "2m"), "1m, 5m, 1h"),
        (("--drop", "--from", "flow"), "--drop cannot be combined with --from"),
        (("--from", "missing.toml"), "missing.toml"),
        (("-X", "x"), "NAME=VALUE"),
        (("-X", "x y=1"), "NAME=VALUE"),
        (("--columns", "bytes", "--ttl", "1d"), "no time"),
    ],
)
def test_the_command_explains_invalid_options(arguments: tuple[str, ...], fault: str) -> None:
    done = flowbuf("schema", "clickhouse", *arguments)
    assert done.exit_code == 2
    assert fault in done.stderr
    assert done.stdout == ""


def test_check_finds_invalid_clickhouse_types(tmp_path: Path) -> None:
    schema = tmp_path / "mine.toml"
    schema.write_text(
        '[schema]\nname = "mine"\nextends = "flow"\n'
        '[[column]]\nname = "bytes"\nclickhouse = { type = "UInt8" }\n'
    )
    done = flowbuf("schema", "check", schema)
    assert done.exit_code == 2
    assert "clickhouse.type is 'UInt8'" in done.stderr


def test_the_help_names_the_columns_of_totals() -> None:
    help = " ".join(flowbuf("schema", "clickhouse", "--help").stdout.split())
    assert (
        "[default: exporter, interfaces, addresses, etype, proto, autonomous systems, forwarding_status"
        in help
    )
    others = {
        "exporter_address",
        "in_if",
        "out_if",
        "src_addr",
        "dst_addr",
        "etype",
        "proto",
        "src_as",
        "dst_as",
    }
    of_totals = [FLOW[name] for name in aggregate_key(FLOW, TableOptions())[1:]]
    named = {column.name for column in of_totals if column.type not in ("enum", "string")}
    assert named == {*others, "forwarding_status"}
