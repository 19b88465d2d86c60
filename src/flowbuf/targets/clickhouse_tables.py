"""The tables of a schema in ClickHouse, as SQL.

    topic ─▶ NAME_queue ─▶ NAME_queue_view ─▶ NAME_messages ─┬─▶ NAME_view ────────▶ NAME ─▶ NAME_1m_view ─▶ NAME_1m …
             (Kafka)                          (Null)         └─▶ NAME_errors_view ─▶ NAME_errors

ClickHouse reads a topic as soon as one view hangs on the Kafka table, and what another view would have had is gone. So
one view alone hangs there, made last and dropped first; it takes messages as they are to a table that keeps nothing,
and the views that convert and tell good from bad hang on that.
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
"""How messages stand in a record of Kafka -> the format of ClickHouse. Many, each behind its length; one; one behind
the six octets with which a schema registry's clients begin."""
REGISTRY_OCTETS = 6

PARTITIONS = {"hour": "toStartOfHour({})", "day": "toYYYYMMDD({})", "month": "toYYYYMM({})", "none": ""}
INTERVALS = {"1m": "toStartOfMinute", "5m": "toStartOfFiveMinutes", "1h": "toStartOfHour"}
"""Of aggregated tables."""

_TTL_UNITS = {"h": "HOUR", "d": "DAY", "w": "WEEK", "m": "MONTH", "y": "YEAR"}

# Columns that say what traffic it was, and are not of one connection: told by a source, whatever a schema calls them.
_INPUT, _OUTPUT, _EXPORTER, _TIME = "netflow5:input", "netflow5:output", "meta:exporter_address", "meta:time_received"
_DIMENSIONS = {
    *(_EXPORTER, _INPUT, _OUTPUT, "meta:flow_type", "derived:etype", "netflow5:prot", "derived:forwarding_status"),
    *("netflow5:srcaddr", "netflow5:dstaddr", "netflow5:src_as", "netflow5:dst_as"),
}
_VIRTUAL = {
    **{"_error": "String", "_raw_message": "String", "_topic": "LowCardinality(String)"},
    **{"_partition": "UInt64", "_offset": "UInt64"},
}


@dataclass(frozen=True)
class Statement:
    """One statement of SQL, and why it is there."""

    sql: str
    comment: str = ""


@dataclass(frozen=True)
class KafkaOptions:
    """Where messages come from. `brokers` are HOST:PORT with commas between them; in `topic`, {hash} and {name} are the
    schema's. `group` is the consumer group, the table's name where it is empty. `framing` is one of FRAMINGS, that of
    the schema where it is empty, and "delimited" where that has none. `schema_file` is the name of the .proto on the
    server where the schema shall not stand in the table; `settings` are more of the engine's, such as
    kafka_sasl_username. Raises ValueError for a framing that there is not."""

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
        """The topic of the messages of a schema."""
        return schema.expand(self.topic)

    def framing_of(self, schema: Schema) -> str:
        """How the messages of a schema stand in a record."""
        return self.framing or schema.framing or "delimited"


@dataclass(frozen=True)
class TableOptions:
    """How tables are called and kept. `table` is the prefix of all names, what the schema's rows are where it is empty:
    flows, counters. `ttl` is how long rows are kept, as in "15d" (h, d, w, m for months, y); empty is for ever.
    `aggregates` are tables of totals, of INTERVALS, each with its `ttl`; `aggregate_by` are the columns that they tell
    apart. Raises ValueError for what cannot be."""

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
                raise ValueError(f"aggregates has {interval!r}; there are {', '.join(INTERVALS)}")
        for ttl in filter(None, (self.ttl, *self.aggregates.values())):
            _interval(ttl)

    def prefix(self, schema: Schema) -> str:
        """What all names begin with."""
        return self.table or schema.rows

    def name(self, schema: Schema, suffix: str = "") -> str:
        """A name as SQL has it, with its database where one is given."""
        table = identifier(self.prefix(schema) + (f"_{suffix}" if suffix else ""))
        return f"{identifier(self.database)}.{table}" if self.database else table

    def group(self, schema: Schema) -> str:
        """The consumer group."""
        return (self.kafka.group if self.kafka else "") or self.prefix(schema)

    def beside(self, schema: Schema) -> TableOptions:
        """The same for tables of another schema that stand beside those there are, and for another topic."""
        suffix = schema.hash[:8]
        kafka = self.kafka
        if kafka:
            topic = kafka.topic if "{hash}" in kafka.topic else f"{kafka.topic}-{{hash}}"
            kafka = replace(kafka, topic=topic, group=f"{self.group(schema)}_{suffix}")
        return replace(self, table=f"{self.prefix(schema)}_{suffix}", kafka=kafka)


def to_text(statements: Iterable[Statement]) -> str:
    """The statements as `clickhouse-client --multiquery` takes them."""
    return "\n".join(_comment(each.comment) + (f"{each.sql};\n" if each.sql else "") for each in statements)


def _comment(text: str) -> str:
    return "".join(f"-- {line}\n" for line in text.splitlines())


def to_ddl(schema: Schema, options: TableOptions | None = None) -> list[Statement]:
    """What makes all tables and views of a schema; where they are there already, it changes nothing. Raises SchemaError
    where the schema does not allow it."""
    options = options or TableOptions()
    statements = [_heading(schema)]
    if options.database:
        statements.append(Statement(f"CREATE DATABASE IF NOT EXISTS {identifier(options.database)}"))
    statements.append(_target(schema, options))
    for interval in options.aggregates:
        statements += [aggregate_table(schema, options, interval), aggregate_view(schema, options, interval)]
    return statements + (kafka_ddl(schema, options) if options.kafka else [])


def drop_ddl(schema: Schema, options: TableOptions | None = None) -> list[Statement]:
    """What takes all of it away again, with all data."""
    options = options or TableOptions()
    statements = [Statement("", f"All tables and views of {options.name(schema)}, and what is in them.")]
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


# The table ------------------------------------------------------------------------------------------------------------


def single_source(schema: Schema, source: str) -> Column | None:
    """The enabled column that such a source fills, if rows can be sorted by it."""
    return next((column for column in _sortable(schema) if source in column.source_texts), None)


def time_column(schema: Schema) -> Column | None:
    """When a flow was received, or the next best time that rows always have."""
    times = [column for column in _sortable(schema) if column.type == "timestamp"]
    return next((column for column in times if _TIME in column.source_texts), times[0] if times else None)


def key_columns(schema: Schema) -> list[Column]:
    """The columns of the sorting key, the time first, if there is one."""
    found = [time_column(schema), *(single_source(schema, source) for source in (_EXPORTER, _INPUT, _OUTPUT))]
    return list(dict.fromkeys(column for column in found if column))


def _sortable(schema: Schema) -> Iterator[Column]:
    return (column for column in schema.enabled if not (column.repeated or column.explicit))


def _target(schema: Schema, options: TableOptions) -> Statement:
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
        "An INSERT that is repeated with the same insert_deduplication_token is taken once, and so is one with no\n"
        "token that has the very rows of one before; insert_deduplicate = 0 takes all."
    )
    return Statement(_create_table(options.name(schema), definitions(schema), clauses), comment)


def definitions(schema: Schema) -> list[str]:
    """The definitions of the columns of the table."""
    made = [column.definition for column in columns_of(schema)]
    return made + [alias for column in schema.enabled if (alias := text_alias(schema, column))]


def _create_table(name: str, columns: Iterable[str], clauses: Iterable[str]) -> str:
    body = ",\n    ".join(columns)
    return "\n".join([f"CREATE TABLE IF NOT EXISTS {name} (\n    {body}\n)", *clauses])


def _tuple(expressions: list[str]) -> str:
    return f"({', '.join(expressions)})" if expressions else "tuple()"


def _ttl(time: Column | None, ttl: str) -> list[str]:
    if ttl and not time:
        raise SchemaError("rows cannot be kept for a while: they have no time", "enable a timestamp, or give no ttl")
    return [f"TTL toDateTime({identifier(time.name)}) + {_interval(ttl)}"] if time and ttl else []


def _interval(ttl: str) -> str:
    found = re.fullmatch(r"([1-9][0-9]*)([hdwmy])", ttl)
    if not found:
        raise ValueError(f"ttl is {ttl!r}; write a number and h, d, w, m (months) or y, as in 15d")
    return f"INTERVAL {found[1]} {_TTL_UNITS[found[2]]}"


# From Kafka -----------------------------------------------------------------------------------------------------------


def kafka_ddl(schema: Schema, options: TableOptions, topics: Iterable[str] = ()) -> list[Statement]:
    """What reads `topics`, the options' own where none are given, into the table: in the order in which nothing is read
    before all is there."""
    views = [_messages_table(schema, options), _errors_table(schema, options)]
    views += [_errors_view(schema, options), _target_view(schema, options)]
    return [*views, _queue(schema, options, list(topics)), _queue_view(schema, options)]


def drop_kafka(schema: Schema, options: TableOptions) -> list[Statement]:
    """What takes away everything between the topic and the tables. None of it holds data, and Kafka keeps the offsets
    of the consumer group."""
    views = [_drop("VIEW", options.name(schema, suffix)) for suffix in ("errors_view", "view")]
    stop = "From here on nothing is read; what is in the topic stays there."
    head = [_drop("VIEW", options.name(schema, "queue_view"), stop), _drop("TABLE", options.name(schema, "queue"))]
    return [*head, *views, _drop("TABLE", options.name(schema, "messages"))]


def _raw_columns(schema: Schema) -> list[str]:
    return [f"{identifier(column.name)} {column.message_type}" for column in columns_of(schema)]


def _messages_table(schema: Schema, options: TableOptions) -> Statement:
    columns = [*_raw_columns(schema), *(f"{identifier(name)} {type}" for name, type in _VIRTUAL.items())]
    comment = "Messages on their way: nothing is kept here."
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
        settings["kafka_schema_registry_skip_bytes"] = str(REGISTRY_OCTETS)
    if kafka.consumers > 1:
        settings |= {"kafka_num_consumers": str(kafka.consumers), "kafka_thread_per_consumer": "1"}
    settings |= {name: literal(value) for name, value in kafka.settings.items()}
    comment = "The schema stands in the table: ClickHouse needs no file."
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
        f"Before this, put what stands below into a new file {file}, in the folder format_schema_path of every\n"
        f"server. A file that a server has read already is not read again.\n\n{_proto_text(schema)}"
    )


def schema_settings(schema: Schema) -> dict[str, str]:
    """The settings that give ClickHouse the schema itself, not the name of a file."""
    return {
        "format_schema_source": "string",
        "format_schema_message_name": proto.message_name(schema),
        "format_schema": _proto_text(schema),
    }


def _proto_text(schema: Schema) -> str:
    """The .proto in a package of its own. To a server all schemas are one: a message of the same name in the same
    package that is not the same to the letter, as that of the schema before a migration, would be an error."""
    text = proto.to_text(schema)
    text = text[text.index("syntax") :]
    return text.replace(f"package {proto.PACKAGE};", f"package {_package(text)};", 1)


def _package(text: str) -> str:
    return f"{proto.PACKAGE}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _queue_view(schema: Schema, options: TableOptions) -> Statement:
    names = [identifier(name) for name in (*(column.name for column in schema.enabled), *_VIRTUAL)]
    select = f"SELECT {', '.join(names)}\nFROM {options.name(schema, 'queue')}"
    comment = "The last, since from here on the topic is read."
    return _view(options.name(schema, "queue_view"), options.name(schema, "messages"), select, comment)


def _target_view(schema: Schema, options: TableOptions) -> Statement:
    select = f"SELECT\n    {converted(columns_of(schema))}\nFROM {options.name(schema, 'messages')} AS message"
    select += "\nWHERE empty(message.`_error`)"
    return _view(options.name(schema, "view"), options.name(schema), select)


def converted(columns: Iterable[ClickHouseColumn]) -> str:
    """The list of a SELECT from `message` that makes the columns of the table from those of messages."""
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
    comment = "Records that cannot be read, whole: where one of several messages is bad, ClickHouse takes none of them."
    return Statement(_create_table(options.name(schema, "errors"), columns, clauses), comment)


def _errors_view(schema: Schema, options: TableOptions) -> Statement:
    names = ", ".join(f"message.`{name}` AS `{name[1:]}`" for name in _VIRTUAL)
    select = f"SELECT {names}\nFROM {options.name(schema, 'messages')} AS message\nWHERE notEmpty(message.`_error`)"
    return _view(options.name(schema, "errors_view"), options.name(schema, "errors"), select)


def _view(name: str, target: str, select: str, comment: str = "") -> Statement:
    return Statement(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} TO {target} AS\n{select}", comment)


# Totals ---------------------------------------------------------------------------------------------------------------


def aggregate_table(schema: Schema, options: TableOptions, interval: str) -> Statement:
    """The table of totals of an interval."""
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
    comment = "Rows are added up in the background: SELECT with sum() and GROUP BY."
    return Statement(_create_table(options.name(schema, interval), columns, clauses), comment)


def aggregate_view(schema: Schema, options: TableOptions, interval: str) -> Statement:
    """The view that fills it, of whatever is inserted into the table."""
    select = aggregate_select(schema, options, interval)
    return _view(options.name(schema, f"{interval}_view"), options.name(schema, interval), select)


def aggregate_key(schema: Schema, options: TableOptions) -> list[str]:
    """What totals are told apart by: the time, then the dimensions, those of the sorting key first."""
    time = _require_time(schema)
    names = [column.name for column in dimensions(schema, options)]
    first = [column.name for column in key_columns(schema) if column.name in names]
    return list(dict.fromkeys([time.name, *first, *names]))


def dimensions(schema: Schema, options: TableOptions) -> list[Column]:
    """The columns that totals are told apart by: those of the options, or those that say what traffic it was."""
    if not options.aggregate_by:
        return [column for column in _sortable(schema) if _is_dimension(column)]
    chosen = [schema[name] for name in options.aggregate_by]
    for column in chosen:
        if column.repeated or column.explicit or column.scale == "count" or column is time_column(schema):
            problem = "totals cannot be told apart by it"
            raise schema.error(column.name, problem, "leave it out: it may be no count, no list, not explicit, no time")
        if not column.enabled:
            raise schema.error(column.name, "totals cannot be told apart by it: it is disabled", "enable it")
    return chosen


def _is_dimension(column: Column) -> bool:
    return column.type in ("enum", "string") or bool(column.source_texts & _DIMENSIONS)


def counts(schema: Schema) -> list[Column]:
    """The columns that are added up."""
    return [column for column in schema.enabled if column.scale == "count"]


def aggregate_columns(schema: Schema, options: TableOptions) -> list[tuple[str, str]]:
    """Name and definition of the columns of totals."""
    time = _require_time(schema)
    by_name = {column.name: column for column in columns_of(schema)}
    columns = [(time.name, f"{identifier(time.name)} DateTime('UTC') CODEC(DoubleDelta, ZSTD(1))")]
    for name in aggregate_key(schema, options)[1:]:
        columns.append((name, replace(by_name[name], default="").definition))  # a key that is added may have no default
    for name in _total_names(schema):
        columns.append((name, f"{identifier(name)} UInt64 CODEC(T64, ZSTD(1))"))
    return columns


def _total_names(schema: Schema) -> list[str]:
    names = [column.name for column in counts(schema)]
    extra = [f"{name}_scaled" for name in names] if schema.rate else []
    for name in (*extra, "flows"):
        if name in schema and schema[name].enabled:
            raise schema.error(name, "totals have a column of this name", "rename it, or make no aggregates")
    return [*names, *extra, "flows"]


def aggregate_select(schema: Schema, options: TableOptions, interval: str) -> str:
    """The query of the view. A flow without a sampling rate counts once."""
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
        raise SchemaError(f"no totals without {missing}", "enable one, or make no aggregates", origin=schema.origin)
    return time
