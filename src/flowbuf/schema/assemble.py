"""From the files of a schema to its columns: each file changes what the files that it extends have made.

Only columns by themselves are checked here. What they must be together holds at the end, not after every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flowbuf.errors import SchemaError
from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.loader import ROWS, Document
from flowbuf.schema.source import did_you_mean

__all__ = ["Parts", "assemble", "no_column", "switch"]


@dataclass
class Parts:
    """A schema in the making; columns by name."""

    name: str = ""
    message_name: str = ""
    rows: str = ROWS[0]
    framing: str = ""
    origin: str = ""
    columns: dict[str, Column] = field(default_factory=dict)
    reserved: list[Reserved] = field(default_factory=list)


def assemble(documents: Iterable[Document]) -> Parts:
    """What the documents say, the oldest first. Raises SchemaError."""
    parts = Parts()
    for document in documents:
        try:
            _apply(parts, document)
        except SchemaError as error:
            raise error.located(document.origin) from None
    return parts


def switch(
    columns: Mapping[str, Column],
    only: Iterable[str] | None = None,
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
) -> dict[str, Column]:
    """The columns with exactly `only` enabled, where it is given; then `enable`, then `disable`."""
    before = (name for name, column in columns.items() if column.enabled)
    on = _choose(columns, before if only is None else only)
    on = (on | _choose(columns, enable)) - _choose(columns, disable)
    return {
        name: column if column.enabled == (name in on) else replace(column, enabled=name in on)
        for name, column in columns.items()
    }


def no_column(name: str, columns: Iterable[str], groups: Iterable[str] = ()) -> SchemaError:
    """The error for a name that no column has."""
    fix = did_you_mean(name, [*columns, *groups]) or "flowbuf schema show --all lists them"
    return SchemaError(f"no column {name!r}", fix)


def _choose(columns: Mapping[str, Column], names: Iterable[str]) -> set[str]:
    """The columns that names and groups stand for. A bare group will do where no column is called so."""
    groups = {column.group for column in columns.values() if column.group}
    chosen: set[str] = set()
    for name in names:
        group = name.removeprefix("group:")
        if name in columns:
            chosen.add(name)
        elif group in groups:
            chosen.update(column.name for column in columns.values() if column.group == group)
        elif group != name:
            fix = did_you_mean(group, groups) or f"groups are {', '.join(sorted(groups))}"
            raise SchemaError(f"no group {group!r}", fix)
        else:
            raise no_column(name, columns, groups)
    return chosen


def _apply(parts: Parts, document: Document) -> None:
    settings = document.settings
    parts.origin = document.origin
    parts.name = settings.get("name", parts.name)
    parts.message_name = settings.get("message_name", parts.message_name)
    parts.rows = settings.get("rows", parts.rows)
    parts.framing = settings.get("framing", parts.framing)
    if not parts.name:
        raise SchemaError("the schema has no name", 'write name = "…" below [schema]')
    parts.reserved += [_read_reserved(table) for table in document.reserved]
    _apply_columns(parts, document)
    _retire(parts, settings.get("retire", ()))
    parts.columns = switch(parts.columns, settings.get("only"), settings.get("enable", ()), settings.get("disable", ()))


def _apply_columns(parts: Parts, document: Document) -> None:
    inherited = set(parts.columns)
    seen: set[str] = set()
    for table in document.columns:
        name = str(table.get("name", ""))
        if name in seen:
            raise SchemaError("comes twice in this file", "remove one", column=name)
        if name in inherited:
            column = parts.columns[name].altered(table, document.origin)
        elif inherited and name and "number" not in table:
            fix = did_you_mean(name, inherited) or "add number = … and type = …, if it is a new one"
            raise SchemaError("no such column to change", fix, column=name)
        else:
            column = Column.from_table(table, document.origin)
        parts.columns[column.name] = column
        seen.add(column.name)


def _read_reserved(table: Mapping[str, Any]) -> Reserved:
    if table.keys() != {"number", "name"} or type(table["number"]) is not int or not isinstance(table["name"], str):
        raise SchemaError(f"[[reserved]] is {dict(table)!r}", "write number = … and name = …, and nothing else")
    return Reserved(table["number"], table["name"])


def _retire(parts: Parts, names: Iterable[str]) -> None:
    for name in names:
        if name not in parts.columns:
            raise no_column(name, parts.columns)
        gone = parts.columns.pop(name)
        parts.reserved.append(Reserved(gone.number, gone.name))
