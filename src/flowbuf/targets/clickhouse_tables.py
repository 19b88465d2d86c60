"""The ClickHouse tables of a schema, as SQL.

    topic ─▶ NAME_queue ─▶ NAME_queue_view ─▶ NAME_messages ─┬─▶ NAME_view ─▶ NAME ─▶ NAME_1m_view ─▶ …
             (Kafka)                          (Null)         └─▶ NAME_errors_view ─▶ NAME_errors

ClickHouse reads a topic as soon as one view is attached to the Kafka table, and views attached later miss
those messages. So exactly one view is attached, created last and dropped first. It passes unchanged messages
to a table with the engine Null. The views that convert messages and separate errors are attached to that
table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from flowbuf.errors import SchemaError
from flowbuf.schema import Column, Schema, proto
from flowbuf.targets.clickhouse import ClickHouseColumn, columns_of, identifier, literal, text_alias

__all__ = [
    *("FRAMINGS", "INTERVALS", "PARTITIONS", "KafkaOptions", "Statement", "TableOptions", "drop_ddl"),
    *("schema_settings", "to_ddl", "to_text"),
]

FRAMINGS = {"delimited": "Protobuf", "bare": "ProtobufSingle", "registry": "ProtobufSingle"}
"""Framing of messages in a Kafka record -> ClickHouse format.

"delimited": many messages, each after its length. "bare": one message. "registry": one message after the six
bytes of a schema registry client.
"""
REGISTRY_BYTES = 6

PARTITIONS = {"hour": "toStartOfHour({})", "day": "toYYYYMMDD({})", "month": "toYYYYMM({})", "none": ""}
INTERVALS = {"1m": "toStartOfMinute", "5m": "toStartOfFiveMinutes", "1h": "toStartOfHour"}
"""Intervals of aggregate tables -> ClickHouse function."""

_TTL_UNITS = {"h": "HOUR", "d": "DAY", "w": "WEEK", "mo": "MONTH", "y": "YEAR"}

# Columns that describe the kind of traffic, not one connection. They are identified by source, because names
# differ by schema.
_INPUT, _OUTPUT, _EXPORTER, _TIME = (
    "netflow5:input",
    "netflow5:output",
    "meta:exporter_address",
    "meta:time_received",
)
_DIMENSIONS = {
    *(
        _EXPORTER,
        _INPUT,
        _OUTPUT,
        "meta:flow_type",
        "derived:etype",
        "netflow5:prot",
        "derived:forwarding_status",
    ),
    *("netflow5:srcaddr", "netflow5:dstaddr", "netflow5:src_as", "netflow5:dst_as"),
}
_VIRTUAL = {
    **{"_error": "String", "_raw_message": "String", "_topic": "LowCardinality(String)"},
    **{"_partition": "UInt64", "_offset": "UInt64"},
}


@dataclass(frozen=True)
class Statement:
    """One SQL statement, and a comment with its purpose."""

    sql: str
    comment: str = ""


@dataclass(frozen=True)
class KafkaOptions:
    """Kafka source of the tables.

    Attributes:
        brokers: HOST:PORT, several separated by commas.
        topic: Name of the topic. {hash} and {name} stand for those of the schema. Default: "flows-{hash}".
        group: Consumer group. Default: the name of the table.
        framing: One of FRAMINGS. Default: the framing of the schema, or "delimited" if it has none.
        schema_file: Name of the .proto file on the server. Default: the table itself contains the schema.
        consumers: Number of consumers. Default: 1.
        settings: Other settings of the Kafka engine, such as kafka_sasl_username.

    Raises:
        ValueError: the framing is unknown.
    """

    brokers: str
    topic: str = "flows-{hash}"
    group: str = ""
    framing: str = ""
    schema_file: str = ""
    consumers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.framing and self.framing not in FRAMINGS:
            raise ValueError(f"framing is {self.framing!r}; it may be {' or '.join(FRAMINGS)}")

    def topic_of(self, schema: Schema) -> str:
        """Return the topic for messages of a schema."""
        return schema.expand(self.topic)

    def framing_of(self, schema: Schema) -> str:
        """Return the framing of messages of a schema in a Kafka record."""
        return self.framing or schema.framing or "delimited"


@dataclass(frozen=True)
class TableOptions:
    """Names and storage of the tables.

    Attributes:
        database: Database of the tables. Default: that of the connection.
        table: Prefix of all names. Default: the kind of rows of the schema, "flows" or "counters".
        partition_by: One of PARTITIONS. Default: "day".
        ttl: Lifetime of rows, a number and h, d, w, mo (months) or y, such as "15d". Default: no expiry.
        aggregates: Tables of totals: interval (one of INTERVALS) -> lifetime of its rows.
        aggregate_by: Columns that totals are grouped by. Default: the columns that describe the kind of
            traffic.
        deduplication_window: Number of recent inserted blocks that ClickHouse compares new ones with.
            Default: 1000.
        kafka: Kafka source. Default: none.

    Raises:
        ValueError: partition_by, an interval or a lifetime is invalid.
    """

    database: str = ""
    table: str = ""
    partition_by: str = "day"
    ttl: str = ""
    aggregates: Mapping[str, str] = field(default_factory=dict)
    aggregate_by: tuple[str, ...] = ()
    deduplication_window: int = 1000
    kafka: KafkaOptions | None = None

    def __post_init__(self) -> None:
        if self.partition_by not in PARTITIONS:
            raise ValueError(f"partition_by is {self.partition_by!r}; it may be {', '.join(PARTITIONS)}")
        for interval in self.aggregates:
            if interval not in INTERVALS:
                raise ValueError(f"aggregates has {interval!r}; it may have {', '.join(INTERVALS)}")
        for ttl in filter(None, (self.ttl, *self.aggregates.values())):
            _interval(ttl)

    def prefix(self, schema: Schema) -> str:
        """Return the prefix of all names."""
        return self.table or schema.rows

    def name(self, schema: Schema, suffix: str = "") -> str:
        """Return a name as a quoted SQL identifier, with its database if one is set."""
        table = identifier(self.prefix(schema) + (f"_{suffix}" if suffix else ""))
        return f"{identifier(self.database)}.{table}" if self.database else table

    def group(self, schema: Schema) -> str:
        """Return the consumer group."""
        return (self.kafka.group if self.kafka else "") or self.prefix(schema)

    def beside(self, schema: Schema) -> TableOptions:
        """Return options for tables of another schema beside these, with their own topic and group."""
        suffix = schema.hash[:8]
        kafka = self.kafka
        if kafka:
            topic = kafka.topic if "{hash}" in kafka.topic else f"{kafka.topic}-{{hash}}"
            kafka = replace(kafka, topic=topic, group=f"{self.group(schema)}_{suffix}")
        return replace(self, table=f"{self.prefix(schema)}_{suffix}", kafka=kafka)


def to_text(statements: Iterable[Statement]) -> str:
    """Return the statements as text for `clickhouse-client --multiquery`."""
    return "\n".join(_comment(each.comment) + (f"{each.sql};\n" if each.sql else "") for each in statements)


def _comment(text: str) -> str:
    return "".join(f"-- {line}\n" for line in text.splitlines())


def to_ddl(schema: Schema, options: TableOptions | None = None) -> list[Statement]:
    """Return the statements that create all tables and views of a schema. Existing ones are not changed.

    Raises:
        SchemaError: tables cannot be made from the schema.
    """
    options = options or TableOptions()
    statements = [_heading(schema)]
    if options.database:
        statements.append(Statement(f"CREATE DATABASE IF NOT EXISTS {identifier(options.database)}"))
    statements.append(_target(schema, options))
    for interval in options.aggregates:
        statements += [aggregate_table(schema, options, interval), aggregate_view(schema, options, interval)]
    return statements + (kafka_ddl(schema, options) if options.kafka else [])


def drop_ddl(schema: Schema, options: TableOptions | None = None) -> list[Statement]:
    """Return the statements that drop all tables and views, with their data."""
    options = options or TableOptions()
    statements = [Statement("", f"Drops all tables and views of {options.name(schema)}, with their data.")]
    statements += drop_kafka(schema, options) if options.kafka else []
    for interval in options.aggregates:
        statements.append(_drop("VIEW", options.name(schema, f"{interval}_view")))
        statements.append(_drop("TABLE", options.name(schema, interval)))
    if options.kafka:
        statements.append(_drop("TABLE", options.name(schema, "errors")))
    return [*statements, _drop("TABLE", options.name(schema))]


def _heading(schema: Schema) -> Statement:
    text = f'Schema "{schema.name}" of flowbuf, hash {schema.hash}.\nFor clickhouse-client --multiquery.'
    return Statement("", text)


def _drop(kind: str, name: str, comment: str = "") -> Statement:
    return Statement(f"DROP {kind} IF EXISTS {name}", comment)


# The table --------------------------------------------------------------------------------------------------


def single_source(schema: Schema, source: str) -> Column | None:
    """Return the enabled column with this source if rows can be sorted by it."""
    return next((column for column in _sortable(schema) if source in column.source_texts), None)


def time_column(schema: Schema) -> Column | None:
    """Return the column with the time of reception, or else the first timestamp that every row has."""
    times = [column for column in _sortable(schema) if column.type == "timestamp"]
    return next((column for column in times if _TIME in column.source_texts), times[0] if times else None)


def key_columns(schema: Schema) -> list[Column]:
    """Return the columns of the sorting key, with the time first if there is one."""
    found = [time_column(schema), *(single_source(schema, source) for source in (_EXPORTER, _INPUT, _OUTPUT))]
    return list(dict.fromkeys(column for column in found if column))


def _sortable(schema: Schema) -> Iterator[Column]:
    return (column for column in schema.enabled if not (column.repeated or column.explicit))


def _target(schema: Schema, options: TableOptions) -> Statement:
    if not schema.enabled:
        raise schema.error(None, "a table of ClickHouse needs a column, and none is enabled", "enable one")
    time = time_column(schema)
    key = [identifier(column.name) for column in key_columns(schema)]
    if time:
        key[0] = f"toStartOfFiveMinutes({key[0]})"
    clauses = ["ENGINE = MergeTree"]
    if time and PARTITIONS[options.partition_by]:
        clauses.append(f"PARTITION BY {PARTITIONS[options.partition_by].format(identifier(time.name))}")
    clauses += [f"ORDER BY {_tuple(key)}", *_ttl(time, options.ttl)]
    clauses.append(f"SETTINGS non_replicated_deduplication_window = {options.deduplication_window}")
    comment = (
        "An INSERT that repeats an insert_deduplication_token is stored once. Without a token, an INSERT\n"
        "that repeats the same rows is stored once; insert_deduplicate = 0 stores every INSERT."
    )
    return Statement(_create_table(options.name(schema), definitions(schema), clauses), comment)


def definitions(schema: Schema) -> list[str]:
    """Return the definitions of the table's columns."""
    made = [column.definition for column in columns_of(schema)]
    return made + [alias for column in schema.enabled if (alias := text_alias(schema, column))]


def _create_table(name: str, columns: Iterable[str], clauses: Iterable[str]) -> str:
    body = ",\n    ".join(columns)
    return "\n".join([f"CREATE TABLE IF NOT EXISTS {name} (\n    {body}\n)", *clauses])


def _tuple(expressions: list[str]) -> str:
    return f"({', '.join(expressions)})" if expressions else "tuple()"


def _ttl(time: Column | None, ttl: str) -> list[str]:
    if ttl and not time:
        raise SchemaError(
            "ttl needs a time, and no timestamp is enabled", "enable a timestamp, or leave out ttl"
        )
    return [f"TTL toDateTime({identifier(time.name)}) + {_interval(ttl)}"] if time and ttl else []


def _interval(ttl: str) -> str:
    found = re.fullmatch(r"([1-9][0-9]*)(h|d|w|mo|y)", ttl)
    if not found:
        month = "m is a minute elsewhere; " if ttl.endswith("m") else ""
        raise ValueError(f"ttl is {ttl!r}; {month}write a number and h, d, w, mo (months) or y, as in 15d")
    return f"INTERVAL {found[1]} {_TTL_UNITS[found[2]]}"


# From Kafka -------------------------------------------------------------------------------------------------


def kafka_ddl(schema: Schema, options: TableOptions, topics: Iterable[str] = ()) -> list[Statement]:
    """Return the statements that create the Kafka source.

    Reading starts with the last statement. `topics` default to that of the options.
    """
    views = [_messages_table(schema, options), _errors_table(schema, options)]
    views += [_errors_view(schema, options), _target_view(schema, options)]
    return [*views, _queue(schema, options, list(topics)), _queue_view(schema, options)]


def drop_kafka(schema: Schema, options: TableOptions) -> list[Statement]:
    """Return the statements that drop everything between the topic and the tables.

    These objects hold no data, and Kafka keeps the offsets of the consumer group.
    """
    views = [_drop("VIEW", options.name(schema, suffix)) for suffix in ("errors_view", "view")]
    stop = "Stops reading. Kafka records that were not read stay in the topic."
    head = [
        _drop("VIEW", options.name(schema, "queue_view"), stop),
        _drop("TABLE", options.name(schema, "queue")),
    ]
    return [*head, *views, _drop("TABLE", options.name(schema, "messages"))]


def _raw_columns(schema: Schema) -> list[str]:
    return [f"{identifier(column.name)} {column.message_type}" for column in columns_of(schema)]


def _messages_table(schema: Schema, options: TableOptions) -> Statement:
    columns = [*_raw_columns(schema), *(f"{identifier(name)} {type}" for name, type in _VIRTUAL.items())]
    comment = "Passes messages on to the views, and stores nothing."
    return Statement(_create_table(options.name(schema, "messages"), columns, ["ENGINE = Null"]), comment)


def _queue(schema: Schema, options: TableOptions, topics: list[str]) -> Statement:
    assert options.kafka
    kafka = options.kafka
    settings = {
        "kafka_broker_list": literal(kafka.brokers),
        "kafka_topic_list": literal(",".join(topics or [kafka.topic_of(schema)])),
        "kafka_group_name": literal(options.group(schema)),
        "kafka_format": literal(FRAMINGS[kafka.framing_of(schema)]),
        "kafka_handle_error_mode": literal("stream"),
    }
    if kafka.framing == "registry":
        settings["kafka_schema_registry_skip_bytes"] = str(REGISTRY_BYTES)
    if kafka.consumers > 1:
        settings |= {"kafka_num_consumers": str(kafka.consumers), "kafka_thread_per_consumer": "1"}
    settings |= {name: literal(value) for name, value in kafka.settings.items()}
    comment = "The settings contain the schema, so ClickHouse needs no schema file."
    if kafka.schema_file:
        settings["kafka_schema"] = literal(f"{kafka.schema_file}:{proto.message_name(schema)}")
        comment = _file_comment(schema, kafka.schema_file)
    else:
        settings |= {name: literal(value) for name, value in schema_settings(schema).items()}
    text = ",\n    ".join(f"{name} = {value}" for name, value in settings.items())
    clauses = ["ENGINE = Kafka", f"SETTINGS\n    {text}"]
    return Statement(_create_table(options.name(schema, "queue"), _raw_columns(schema), clauses), comment)


def _file_comment(schema: Schema, file: str) -> str:
    return (
        f"First, write the text below to a new file {file}, in the folder format_schema_path of every\n"
        f"server. A server does not read a file again that it has read before.\n\n{_proto_text(schema)}"
    )


def schema_settings(schema: Schema) -> dict[str, str]:
    """Return the settings that contain the schema itself, instead of the name of a file."""
    return {
        "format_schema_source": "string",
        "format_schema_message_name": proto.message_name(schema),
        "format_schema": _proto_text(schema),
    }


def _proto_text(schema: Schema) -> str:
    """Return the .proto text, with a package named after its hash.

    A server has one namespace for all schemas. Two different messages with the same name and package would be
    an error, for example those before and after a migration.
    """
    text = proto.to_text(schema)
    text = text[text.index("\nsyntax") + 1 :]  # the comment before it has the name of the schema
    return text.replace(f"package {proto.PACKAGE};", f"package {_package(text)};", 1)


def _package(text: str) -> str:
    return f"{proto.PACKAGE}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _queue_view(schema: Schema, options: TableOptions) -> Statement:
    names = [identifier(name) for name in (*(column.name for column in schema.enabled), *_VIRTUAL)]
    select = f"SELECT {', '.join(names)}\nFROM {options.name(schema, 'queue')}"
    comment = "Created last, because it starts reading the topic."
    return _view(options.name(schema, "queue_view"), options.name(schema, "messages"), select, comment)


def _target_view(schema: Schema, options: TableOptions) -> Statement:
    select = (
        f"SELECT\n    {converted(columns_of(schema))}\nFROM {options.name(schema, 'messages')} AS message"
    )
    select += "\nWHERE empty(message.`_error`)"
    return _view(options.name(schema, "view"), options.name(schema), select)


def converted(columns: Iterable[ClickHouseColumn]) -> str:
    """Return the select list that converts the columns of `message` to those of the table."""
    pairs = ((identifier(column.name), column.converted) for column in columns)
    return ",\n    ".join(f"{conversion or f'message.{name}'} AS {name}" for name, conversion in pairs)


def _errors_table(schema: Schema, options: TableOptions) -> Statement:
    columns = [
        "`time` DateTime('UTC') DEFAULT now() CODEC(DoubleDelta, ZSTD(1))",
        "`topic` LowCardinality(String)",
        "`partition` UInt64",
        "`offset` UInt64",
        "`error` String CODEC(ZSTD(1))",
        "`raw_message` String CODEC(ZSTD(1))",
    ]
    clauses = ["ENGINE = MergeTree", "ORDER BY (`time`, `topic`, `partition`, `offset`)"]
    clauses += [f"TTL `time` + {_interval(options.ttl)}"] if options.ttl else []
    comment = "Kafka records that cannot be decoded. If one of their messages is bad, none is stored."
    return Statement(_create_table(options.name(schema, "errors"), columns, clauses), comment)


def _errors_view(schema: Schema, options: TableOptions) -> Statement:
    names = ", ".join(f"message.`{name}` AS `{name[1:]}`" for name in _VIRTUAL)
    select = f"SELECT {names}\nFROM {options.name(schema, 'messages')} AS message"
    select += "\nWHERE notEmpty(message.`_error`)"
    return _view(options.name(schema, "errors_view"), options.name(schema, "errors"), select)


def _view(name: str, target: str, select: str, comment: str = "") -> Statement:
    return Statement(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} TO {target} AS\n{select}", comment)


# Totals -----------------------------------------------------------------------------------------------------


def aggregate_table(schema: Schema, options: TableOptions, interval: str) -> Statement:
    """Return the table of totals of an interval."""
    time = _require_time(schema)
    order = [identifier(name) for name in aggregate_key(schema, options)]
    clauses = [
        "ENGINE = SummingMergeTree",
        f"PARTITION BY toYYYYMM({identifier(time.name)})",
        f"PRIMARY KEY {_tuple(order[:2])}",
        f"ORDER BY {_tuple(order)}",
        *_ttl(time, options.aggregates[interval]),
        f"SETTINGS non_replicated_deduplication_window = {options.deduplication_window}",
    ]
    columns = [definition for _, definition in aggregate_columns(schema, options)]
    comment = "Rows are summed in the background; use sum() and GROUP BY in queries."
    return Statement(_create_table(options.name(schema, interval), columns, clauses), comment)


def aggregate_view(schema: Schema, options: TableOptions, interval: str) -> Statement:
    """Return the view that fills the table of totals from inserts into the table."""
    select = aggregate_select(schema, options, interval)
    return _view(options.name(schema, f"{interval}_view"), options.name(schema, interval), select)


def aggregate_key(schema: Schema, options: TableOptions) -> list[str]:
    """Return the columns that identify a total.

    The time comes first, then the dimensions, starting with those of the sorting key.
    """
    time = _require_time(schema)
    names = [column.name for column in dimensions(schema, options)]
    first = [column.name for column in key_columns(schema) if column.name in names]
    return list(dict.fromkeys([time.name, *first, *names]))


def dimensions(schema: Schema, options: TableOptions) -> list[Column]:
    """Return the columns that totals are grouped by. Default: those that describe the kind of traffic."""
    if not options.aggregate_by:
        return [column for column in _sortable(schema) if _is_dimension(column)]
    chosen = [schema[name] for name in options.aggregate_by]
    for column in chosen:
        if column.repeated or column.explicit or column.scale == "count" or column is time_column(schema):
            fix = "leave it out of aggregate_by, like all counts, lists, times and explicit columns"
            raise schema.error(column.name, "cannot group totals", fix)
        if not column.enabled:
            raise schema.error(column.name, "cannot group totals, because it is disabled", "enable it")
    return chosen


def _is_dimension(column: Column) -> bool:
    return column.type in ("enum", "string") or bool(column.source_texts & _DIMENSIONS)


def counts(schema: Schema) -> list[Column]:
    """Return the columns that are added up."""
    return [column for column in schema.enabled if column.scale == "count"]


def aggregate_columns(schema: Schema, options: TableOptions) -> list[tuple[str, str]]:
    """Return names and definitions of the columns of totals."""
    time = _require_time(schema)
    by_name = {column.name: column for column in columns_of(schema)}
    columns = [(time.name, f"{identifier(time.name)} DateTime('UTC') CODEC(DoubleDelta, ZSTD(1))")]
    for name in aggregate_key(schema, options)[1:]:
        # a key column added by ALTER may have no default
        columns.append((name, replace(by_name[name], default="").definition))
    for name in _total_names(schema):
        columns.append((name, f"{identifier(name)} UInt64 CODEC(T64, ZSTD(1))"))
    return columns


def _total_names(schema: Schema) -> list[str]:
    names = [column.name for column in counts(schema)]
    extra = [f"{name}_scaled" for name in names] if schema.rate else []
    for name in (*extra, "flows"):
        if name in schema and schema[name].enabled:
            raise schema.error(
                name, "has the name of a column of the totals", "rename it, or leave out aggregates"
            )
    return [*names, *extra, "flows"]


def aggregate_select(schema: Schema, options: TableOptions, interval: str) -> str:
    """Return the query of the view. A flow without a sampling rate is counted with rate 1."""
    key = [identifier(name) for name in aggregate_key(schema, options)]
    times = f"toDateTime({INTERVALS[interval]}(row.{key[0]}), 'UTC')"
    parts = [f"{times} AS {key[0]}", *(f"row.{name} AS {name}" for name in key[1:])]
    rate = f"greatest({_number(schema.rate)}, 1)" if schema.rate else ""
    for column in counts(schema):
        parts.append(f"sum({_number(column)}) AS {identifier(column.name)}")
        if rate:
            parts.append(f"sum({_number(column)} * {rate}) AS {identifier(f'{column.name}_scaled')}")
    parts.append("count() AS `flows`")
    group = ", ".join([times, *(f"row.{name}" for name in key[1:])])
    listed = ",\n    ".join(parts)
    return f"SELECT\n    {listed}\nFROM {options.name(schema)} AS row\nGROUP BY {group}"


def _number(column: Column) -> str:
    own = f"row.{identifier(column.name)}"
    return f"ifNull({own}, 0)" if column.explicit else own


def _require_time(schema: Schema) -> Column:
    time = time_column(schema)
    if time is None or not counts(schema):
        missing = 'a column with scale = "count"' if time else "a time"
        raise SchemaError(
            f"aggregates need {missing}", "enable one, or leave out aggregates", origin=schema.origin
        )
    return time
