"""How rows get into the table of a schema without Kafka: the INSERT, and the settings that go with it.

| format | what is inserted | how |
|---|---|---|
| ArrowStream | the columns that flowbuf reads | as they are: `INSERT INTO … FORMAT ArrowStream` |
| Protobuf | messages, each behind its length | `INSERT INTO … SELECT conversions FROM input(…) FORMAT Protobuf` |
| ProtobufSingle | one message | the same |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flowbuf.schema import Schema
from flowbuf.targets.clickhouse import columns_of, identifier, literal
from flowbuf.targets.clickhouse_tables import TableOptions, converted, schema_settings

__all__ = ["INSERT_FORMATS", "Insert", "insert_query"]

INSERT_FORMATS = ("ArrowStream", "Protobuf", "ProtobufSingle")


@dataclass(frozen=True)
class Insert:
    """A statement that waits for data, and settings for it: parameters of the URL over HTTP, `SETTINGS` otherwise.
    Together with `insert_deduplication_token` they take the same data once, however often they are sent."""

    sql: str
    settings: dict[str, str]

    def with_settings(self, settings: Mapping[str, str] | None = None) -> str:
        """The statement with these settings in it, its own where none are given."""
        given = self.settings if settings is None else settings
        clause = "SETTINGS " + ", ".join(f"{name} = {literal(value)}" for name, value in given.items())
        head, form, name = self.sql.rpartition("FORMAT ")
        return f"{head}{clause} {form}{name}" if form else f"{self.sql}\n{clause}"


def insert_query(
    schema: Schema, options: TableOptions | None = None, format: str = "ArrowStream", path: str = ""
) -> Insert:
    """The INSERT into the table of a schema for data of a format, which follow it; or for those of a file, where `path`
    names one that the server can read. Raises ValueError for another format."""
    if format not in INSERT_FORMATS:
        raise ValueError(f"format is {format!r}; it may be {' or '.join(INSERT_FORMATS)}")
    options = options or TableOptions()
    columns = columns_of(schema)
    names = ", ".join(identifier(column.name) for column in columns)
    into = f"INSERT INTO {options.name(schema)} ({names})"
    # Aggregates are filled by the same INSERT: they too take its rows once.
    settings = {"deduplicate_blocks_in_dependent_materialized_views": "1"}
    if format == "ArrowStream":
        settings["input_format_null_as_default"] = "1"
        source = f" FROM INFILE {literal(path)}" if path else ""
        return Insert(f"{into}{source} FORMAT ArrowStream", settings)
    structure = literal(", ".join(f"{identifier(column.name)} {column.message_type}" for column in columns))
    # ClickHouse cannot know that this SELECT gives the same rows each time; it does, as it only converts what is sent.
    settings["deduplicate_insert_select"] = "enable_even_for_bad_queries"
    settings |= schema_settings(schema)
    source = f"file({literal(path)}, '{format}', {structure})" if path else f"input({structure})"
    select = f"SELECT\n    {converted(columns)}\nFROM {source} AS message"
    return Insert(f"{into}\n{select}" + ("" if path else f"\nFORMAT {format}"), settings)
