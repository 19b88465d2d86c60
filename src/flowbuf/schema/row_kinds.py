"""Schemas for the kinds of rows that one decoder gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowbuf.errors import SchemaError
from flowbuf.schema.loader import RECORDS, ROWS
from flowbuf.schema.schema import Schema

__all__ = [
    *("COUNTERS_SCHEMA", "DECODED_ROWS", "OPTIONS_SCHEMA"),
    *("choose_schemas", "known_names", "switch_each"),
]

DECODED_ROWS = tuple(rows for rows in ROWS if rows != RECORDS)
"""Kinds of rows that decoders give, in their order."""

COUNTERS_SCHEMA = "sflow_counters"
"""Default schema for rows of counters."""

OPTIONS_SCHEMA = "options"
"""Default schema for rows of options."""


def choose_schemas(
    rows: Sequence[str],
    schema: str = "flow",
    counters_schema: str = COUNTERS_SCHEMA,
    options_schema: str = OPTIONS_SCHEMA,
) -> tuple[Schema, ...]:
    """Return the schema of each kind of rows, in the order of DECODED_ROWS.

    Args:
        rows: Kinds of rows. Empty: only the kind of `schema`.
        schema: Name or path of the schema for its own kind of rows.
        counters_schema: Name or path of the schema for counters, unless `schema` describes them.
        options_schema: The same for options.

    Raises:
        SchemaError: a kind does not exist, or a schema cannot be loaded or describes another kind.
    """
    loaded = Schema.load(schema)
    if not rows:
        return (loaded,)
    for kind in rows:
        if kind not in DECODED_ROWS:
            raise SchemaError(
                f"rows {kind!r} do not exist", f"write {', '.join(DECODED_ROWS[:-1])} or {DECODED_ROWS[-1]}"
            )
    names = {"flows": "flow", "counters": counters_schema, "options": options_schema}
    chosen = {kind: loaded if kind == loaded.rows else Schema.load(names[kind]) for kind in rows}
    for kind, each in chosen.items():
        if each.rows != kind:
            fix = f"choose a schema with rows = {kind!r}"
            raise each.error(None, f"schema {each.name} describes rows of {each.rows}, not of {kind}", fix)
    return tuple(chosen[kind] for kind in DECODED_ROWS if kind in chosen)


def switch_each(
    schemas: Sequence[Schema],
    *,
    only: Sequence[str] | None = None,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
) -> tuple[Schema, ...]:
    """Return the schemas after `Schema.switch`. A name applies to each schema that has it.

    A schema that has none of the names in `only` keeps its enabled columns.

    Raises:
        SchemaError: no schema has a name.
    """
    if len(schemas) == 1:
        return (schemas[0].switch(only=only, enable=enable, disable=disable),)
    schemas = [schema.with_vendors((*(only or ()), *enable)) for schema in schemas]
    for name in (*(only or ()), *enable, *disable):
        if not any(_has(schema, name) for schema in schemas):
            known = " and ".join(schema.name for schema in schemas)
            raise SchemaError(f"schemas {known} have no column or group {name!r}", "correct the name")
    return tuple(
        schema.switch(
            only=known_names(schema, only or ()) or None,
            enable=known_names(schema, enable),
            disable=known_names(schema, disable),
        )
        for schema in schemas
    )


def known_names(schema: Schema, names: Iterable[str]) -> list[str]:
    """Return the names, of columns or groups, that a schema has."""
    return [name for name in names if _has(schema, name)]


def _has(schema: Schema, name: str) -> bool:
    group = name.removeprefix("group:")
    if group != name:
        return any(column.group == group for column in schema)
    return name in schema
