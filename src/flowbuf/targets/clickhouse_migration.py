"""Migrate the tables of one schema to the next without losing data.

Additions alter the table. The objects that read the topic cannot be altered and hold no data, so they are
created again. The consumer group stays the same, and Kafka keeps its offsets. The new Kafka table also reads
the rest of the old topic.

If the new tables could not read the old messages, or the table cannot be altered, the old tables stay
unchanged. New tables are created beside them, and read a new topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from flowbuf.schema import Column, Schema
from flowbuf.schema.evolution import diff
from flowbuf.targets.clickhouse import ClickHouseColumn, columns_of, identifier, text_alias
from flowbuf.targets.clickhouse_tables import (
    Statement,
    TableOptions,
    aggregate_columns,
    aggregate_key,
    aggregate_select,
    aggregate_table,
    aggregate_view,
    drop_kafka,
    kafka_ddl,
    key_columns,
    time_column,
    to_ddl,
)

__all__ = ["migration", "obstacles"]

# A column of the first type can become one of the second without changing any value.
_ORDER = ("UInt8", "UInt16", "UInt32", "UInt64")
_WIDENINGS = {
    *((small, large) for place, small in enumerate(_ORDER) for large in _ORDER[place + 1 :]),
    *(("UInt8", "Int32"), ("UInt16", "Int32"), ("UInt8", "Int64"), ("UInt16", "Int64"), ("UInt32", "Int64")),
    *(("Int32", "Int64"), ("Bool", "UInt8"), ("Float32", "Float64")),
    *(("String", "LowCardinality(String)"), ("LowCardinality(String)", "String")),
}


def migration(old: Schema, new: Schema, options: TableOptions | None = None) -> list[Statement]:
    """Return the statements that turn the tables of `old` into those of `new`. They can be run twice.

    Args:
        old: Schema of the existing tables.
        new: Schema of the tables afterwards.
        options: Options of both tables. Default: TableOptions().

    Raises:
        SchemaError: tables cannot be made from the new schema.
    """
    options = options or TableOptions()
    if not options.table:
        options = replace(options, table=options.prefix(old))
    found = obstacles(old, new, options)
    statements = _beside(old, new, options, found) if found else _additive(old, new, options)
    head = f'From schema "{old.name}", hash {old.hash}, to "{new.name}", hash {new.hash}.'
    return [Statement("", f"{head}\nFor clickhouse-client --multiquery."), *statements]


def obstacles(old: Schema, new: Schema, options: TableOptions | None = None) -> list[str]:
    """Return the reasons why the tables of `old` cannot become those of `new`; empty if they can."""
    found = [
        f"{verdict.column}: {verdict.change}: {verdict.text}"
        for verdict in diff(new, old)
        if not verdict.readable and not _is_retired(new, old, verdict.column)
    ]
    found += _time_obstacles(old, new, options)
    if found:
        return found
    in_key = {column.number for column in key_columns(old)}
    old_columns, new_columns = _by_name(old), _by_name(new)
    for before, after in _pairs(old, new):
        was, becomes = old_columns[before.name], new_columns[after.name]
        changed = was.name != becomes.name or _altered_type(was.type, becomes.type) != was.type
        if before.type != after.type and not _is_same_kind(before, after):
            found.append(f"{after.name}: a column of {before.type} cannot become one of {after.type}")
        elif not _becomes(was.type, becomes.type):
            found.append(f"{after.name}: a column of type {was.type} cannot become {becomes.type}")
        elif changed and before.number in in_key:
            found.append(f"{after.name}: ClickHouse does not change columns of the sorting key")
        elif changed and options and options.aggregates:
            if was.name in aggregate_key(old, options):
                found.append(f"{after.name}: ClickHouse does not change columns of the sorting key of totals")
            elif before.scale == "count" and was.name != becomes.name:
                found.append(f"{after.name}: totals would have the old name")
        elif options and options.aggregates and before.explicit and after.name in aggregate_key(new, options):
            found.append(f"{after.name}: the column keeps its NULLs, and totals cannot be grouped by NULL")
    return found


def _time_obstacles(old: Schema, new: Schema, options: TableOptions | None) -> list[str]:
    """Return the reasons why the times of new rows do not fit the tables. Such rows would be those of 1970.

    A table with a lifetime would delete them at once.
    """
    before, after = time_column(old), time_column(new)
    if before is None:
        return []
    if before.number not in {column.number for column in new.enabled}:
        return [f"{before.name}: the table sorts and deletes rows by this time, which new rows do not have"]
    if options and options.aggregates and after and before.number != after.number:
        return [f"{after.name}: totals have the time {before.name}"]
    return []


def _is_retired(new: Schema, old: Schema, name: str) -> bool:
    """Return True if the new schema reserves the column, so that readers skip it."""
    return name in old and any((gone.number, gone.name) == (old[name].number, name) for gone in new.reserved)


def _pairs(old: Schema, new: Schema) -> Iterator[tuple[Column, Column]]:
    """Return the enabled columns of both schemas, as pairs with the same number."""
    by_number = {column.number: column for column in old.enabled}
    return ((by_number[column.number], column) for column in new.enabled if column.number in by_number)


def _by_name(schema: Schema) -> dict[str, ClickHouseColumn]:
    return {column.name: column for column in columns_of(schema)}


def _is_same_kind(before: Column, after: Column) -> bool:
    """Return True if the values mean the same in a table.

    Times, addresses and enum members are not numbers there.
    """
    kinds = [_KINDS.get(column.type, column.type) for column in (before, after)]
    return kinds[0] == kinds[1]


_KINDS = {
    **dict.fromkeys(
        ("uint8", "uint16", "uint32", "uint64", "fixed32", "fixed64", "mac", "duration"), "number"
    ),
    **dict.fromkeys(("int32", "int64", "sint32", "sint64", "bool"), "number"),
    **dict.fromkeys(("string", "bytes"), "bytes"),
    **dict.fromkeys(("float", "double"), "real"),
}


def _plain(type: str) -> str:
    """Return a type without Nullable."""
    return re.sub(r"Nullable\((.+?\)?)\)", r"\1", type) if "Nullable" in type else type


def _becomes(was: str, becomes: str) -> bool:
    before, after = _plain(was), _plain(becomes)
    if before.startswith("Array(") and after.startswith("Array("):
        before, after = before[len("Array(") : -1], after[len("Array(") : -1]
    return before == after or (before, after) in _WIDENINGS or _finer(before, after)


def _finer(before: str, after: str) -> bool:
    """Return True if a type of times has at least the precision of another."""
    digits = [re.fullmatch(r"DateTime(?:64)?\((?:(\d), ?)?'([^']+)'\)", type) for type in (before, after)]
    if digits[0] is None or digits[1] is None:
        return False
    return int(digits[0][1] or 0) <= int(digits[1][1] or 0)


def _altered_type(was: str, becomes: str) -> str:
    """Return the type of the altered column. A Nullable column stays Nullable."""
    if "Nullable" in was and "Nullable" not in becomes:
        return was if _plain(was) == becomes else f"Nullable({becomes})"
    return becomes


# By ALTER ---------------------------------------------------------------------------------------------------


def _additive(old: Schema, new: Schema, options: TableOptions) -> list[Statement]:
    kafka = options.kafka
    statements = drop_kafka(old, options) if kafka else []
    statements += _alter_target(old, new, options)
    for interval in options.aggregates:
        statements += _alter_aggregate(old, new, options, interval)
    if kafka:
        topics = list(dict.fromkeys([kafka.topic_of(old), kafka.topic_of(new)]))
        made = kafka_ddl(new, options, topics)
        why = (
            "Reads the new topic, which must exist already, and the rest of the old topic."
            if topics[1:]
            else ""
        )
        statements += [
            replace(each, comment=f"{each.comment}\n{why}".strip()) if "= Kafka" in each.sql else each
            for each in made
        ]
    return statements


def _alter_target(old: Schema, new: Schema, options: TableOptions) -> list[Statement]:
    """Return the statements that alter the table.

    Columns missing from the new schema stay, with their data.
    """
    old_by_number = {
        column.number: described for described, column in zip(columns_of(old), old.enabled, strict=True)
    }
    had_alias = {before.name for before in old.enabled if not before.explicit and text_alias(old, before)}
    table = f"ALTER TABLE {options.name(old)}"
    statements = []
    for described, column in zip(columns_of(new), new.enabled, strict=True):
        was = old_by_number.get(column.number)
        if was is None:
            statements.append(Statement(f"{table} ADD COLUMN IF NOT EXISTS {described.definition}"))
        else:
            statements += _alter_column(table, was, described)
        if alias := text_alias(new, column):
            statements.append(Statement(f"{table} ADD COLUMN IF NOT EXISTS {alias}"))
            if column.explicit and column.name in had_alias:  # it would refuse queries of NULLs
                statements.append(Statement(f"{table} MODIFY COLUMN {alias}"))
    gone = [
        column.name for column in old.enabled if column.number not in {each.number for each in new.enabled}
    ]
    if gone:
        comment = f"{', '.join(gone)}: not in the new schema; the table keeps the stored values."
        statements.append(Statement("", comment))
    return statements


def _alter_column(table: str, was: ClickHouseColumn, becomes: ClickHouseColumn) -> Iterator[Statement]:
    if was.name != becomes.name:
        yield Statement(
            f"{table} RENAME COLUMN IF EXISTS {identifier(was.name)} TO {identifier(becomes.name)}"
        )
    altered = replace(becomes, type=_altered_type(was.type, becomes.type))
    if replace(was, name=becomes.name).definition != altered.definition:
        kept = altered.type != becomes.type
        comment = "Stays Nullable, because it may contain NULL." if kept else ""
        if not kept or _altered_type(was.type, becomes.type) != was.type:
            yield Statement(f"{table} MODIFY COLUMN {altered.definition}", comment)


def _alter_aggregate(old: Schema, new: Schema, options: TableOptions, interval: str) -> list[Statement]:
    """Return the statements that alter a table of totals. New dimensions apply to new rows only."""
    had = dict(aggregate_columns(old, options))
    added = {name: text for name, text in aggregate_columns(new, options) if name not in had}
    name, view = options.name(old, interval), options.name(old, f"{interval}_view")
    statements = [aggregate_table(old, options, interval)]
    if added:
        changes = [f"ADD COLUMN IF NOT EXISTS {text}" for text in added.values()]
        key = aggregate_key(old, options)
        key += [column for column in aggregate_key(new, options) if column not in key]
        if set(key) & added.keys():
            changes.append(f"MODIFY ORDER BY ({', '.join(map(identifier, key))})")
        listed = ",\n    ".join(changes)
        statements.append(Statement(f"ALTER TABLE {name}\n    {listed}"))
    statements.append(aggregate_view(new, options, interval))
    select = aggregate_select(new, options, interval)
    return [*statements, Statement(f"ALTER TABLE {view} MODIFY QUERY\n{select}")]


# Beside -----------------------------------------------------------------------------------------------------


def _beside(old: Schema, new: Schema, options: TableOptions, found: list[str]) -> list[Statement]:
    beside = options.beside(new)
    lines = [f"{options.name(old)} cannot be changed to the new schema:", *(f"  {text}" for text in found)]
    lines.append(
        f"So it stays unchanged, with the tables and views that fill it, and {beside.name(new)} is created."
    )
    if beside.kafka:
        lines.append(f"Write messages of the new schema only to the topic {beside.kafka.topic_of(new)}.")
    return [Statement("", "\n".join(lines)), *to_ddl(new, beside)[1:]]
