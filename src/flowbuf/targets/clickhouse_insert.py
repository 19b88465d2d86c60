"""INSERT statements for the table of a schema without Kafka, and their settings.

| format | data | statement |
|---|---|---|
| ArrowStream | the columns that flowbuf reads | `INSERT INTO … FORMAT ArrowStream`, without conversion |
| Protobuf | messages, each after its length | `INSERT INTO … SELECT conversions FROM input(…) FORMAT
Protobuf` |
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
    """An INSERT statement that expects data, and its settings.

    Over HTTP the settings are parameters of the URL, otherwise a `SETTINGS` clause. With them and an
    `insert_deduplication_token`, ClickHouse stores the same data once, however often it is sent.
    """

    sql: str
    settings: dict[str, str]

    def with_settings(self, settings: Mapping[str, str] | None = None) -> str:
        """Return the statement with these settings in it. Default: its own settings."""
        given = self.settings if settings is None else settings
        clause = "SETTINGS " + ", ".join(f"{name} = {literal(value)}" for name, value in given.items())
        head, form, name = self.sql.rpartition("FORMAT ")
        return f"{head}{clause} {form}{name}" if form else f"{self.sql}\n{clause}"


def insert_query(
    schema: Schema, options: TableOptions | None = None, format: str = "ArrowStream", path: str = ""
) -> Insert:
    """Return the INSERT into the table of a schema.

    Args:
        schema: Schema of the table.
        options: Options of the table. Default: TableOptions().
        format: One of INSERT_FORMATS. Default: "ArrowStream".
        path: File that the server can read. Default: the data follows the statement.

    Raises:
        ValueError: the format is unknown.
    """
    if format not in INSERT_FORMATS:
        raise ValueError(f"format is {format!r}; it may be {' or '.join(INSERT_FORMATS)}")
    options = options or TableOptions()
    columns = columns_of(schema)
    names = ", ".join(identifier(column.name) for column in columns)
    into = f"INSERT INTO {options.name(schema)} ({names})"
    # The same INSERT fills the aggregate tables, so they also store its rows once.
    settings = {"deduplicate_blocks_in_dependent_materialized_views": "1"}
    if format == "ArrowStream":
        settings["input_format_null_as_default"] = "1"
        source = f" FROM INFILE {literal(path)}" if path else ""
        return Insert(f"{into}{source} FORMAT ArrowStream", settings)
    structure = literal(", ".join(f"{identifier(column.name)} {column.message_type}" for column in columns))
    # ClickHouse cannot tell that this SELECT is deterministic. It is, because it only converts the data of
    # the INSERT.
    settings["deduplicate_insert_select"] = "enable_even_for_bad_queries"
    settings |= schema_settings(schema)
    source = f"file({literal(path)}, '{format}', {structure})" if path else f"input({structure})"
    select = f"SELECT\n    {converted(columns)}\nFROM {source} AS message"
    return Insert(f"{into}\n{select}" + ("" if path else f"\nFORMAT {format}"), settings)
