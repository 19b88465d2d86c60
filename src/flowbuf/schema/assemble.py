"""Assemble the columns of a schema from its files. Each file changes the result of the files that it extends.

Single columns, and the messages that they name, are checked here. Conditions on several columns are checked
at the end, because intermediate steps may violate them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema import loader
from flowbuf.schema.aliases import same_meaning, suggest_column
from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.loader import RECORDS, ROWS, Document
from flowbuf.schema.message import SubMessage, check_messages, reach
from flowbuf.schema.shape import FLAT
from flowbuf.schema.vendor_columns import VENDORS, names_of_vendor, with_vendor_columns

__all__ = ["Parts", "assemble", "choose_names", "list_columns", "no_column", "suggest_fix", "switch"]

SHOWN_COLUMNS = 30
"""Largest number of column names that an error lists."""


@dataclass
class Parts:
    """A schema under construction, with columns by name."""

    name: str = ""
    message_name: str = ""
    rows: str = ROWS[0]
    framing: str = ""
    origin: str = ""
    columns: dict[str, Column] = field(default_factory=dict)
    reserved: list[Reserved] = field(default_factory=list)
    messages: dict[str, SubMessage] = field(default_factory=dict)


def assemble(documents: Iterable[Document]) -> Parts:
    """Return the parts that the documents define, in order from the base. Raises SchemaError."""
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
    *,
    reserved: Iterable[Reserved],
    rows: str,
) -> dict[str, Column]:
    """Return the columns with exactly `only` enabled, if given; then `enable`, then `disable`.

    Rows of flows get the columns of vendors that are enabled.
    """
    if rows == ROWS[0]:
        only, enable = (None if only is None else list(only)), list(enable)
        columns = with_vendor_columns(columns, [*(only or ()), *enable], reserved)
        disable = [name for name in disable if name in columns or not _is_of_vendor(name, columns)]
    before = (name for name, column in columns.items() if column.enabled)
    on = choose_names(columns, before if only is None else only, reserved, rows)
    on |= choose_names(columns, enable, reserved, rows)
    on -= choose_names(columns, disable, reserved, rows)
    return {name: column.switched(name in on) for name, column in columns.items()}


def _is_of_vendor(name: str, columns: Mapping[str, Column]) -> bool:
    """Return True for a column or a group of a vendor that the schema does not have."""
    group = name.removeprefix("group:")
    if group in VENDORS:
        return all(column.group != group for column in columns.values())
    return name in names_of_vendor(name)


def no_column(
    name: str, columns: Collection[str], reserved: Iterable[Reserved], groups: Iterable[str] = ()
) -> SchemaError:
    """Return the error for a name that no column has."""
    retired = "leave it out, because it was retired" if any(name == each.name for each in reserved) else ""
    fix = retired or suggest_fix(name, columns, groups) or "list the columns with flowbuf schema show --all"
    return SchemaError(f"no column {name!r}", fix)


def suggest_fix(name: str, columns: Collection[str], groups: Iterable[str] = ()) -> str:
    """Return a suggestion for a name that no column has, or '' if nothing is similar."""
    known = [*columns, *groups, *names_of_vendor(name)]
    return same_meaning(name, columns) or _suggest_extends(name) or did_you_mean(name, known)


def list_columns(columns: Sequence[str]) -> str:
    """Return the names of columns for an error; of many, the first ones and the number of the others."""
    rest = len(columns) - SHOWN_COLUMNS
    more = f" and {rest} more (flowbuf schema show --all lists them)" if rest > 0 else ""
    return f"columns are {', '.join(columns[:SHOWN_COLUMNS])}{more}"


def _suggest_extends(name: str) -> str:
    """Return the suggestion to use another built-in schema with a column of this name, or ''."""
    # flow first, because most schemas extend it
    for built_in in sorted(loader.built_in_names(), key=lambda each: each != "flow"):
        documents = loader.read(built_in)
        if any(document.settings.get("rows") == RECORDS for document in documents):
            continue
        if any(table.get("name") == name for document in documents for table in document.columns):
            return f'write extends = "{built_in}", or use schema {built_in}, which has it'
    return ""


def choose_names(
    columns: Mapping[str, Column], names: Iterable[str], reserved: Iterable[Reserved], rows: str
) -> set[str]:
    """Return the columns of these names and groups.

    "group:" is optional if no column has the name of the group. Only rows of flows have groups of vendors.
    """
    groups = {column.group for column in columns.values() if column.group}
    chosen: set[str] = set()
    for name in names:
        group = name.removeprefix("group:")
        if name in columns:
            chosen.add(name)
        elif group in groups:
            chosen.update(column.name for column in columns.values() if column.group == group)
        elif group != name:
            vendors = sorted({*VENDORS} - groups) if rows == ROWS[0] else []
            if group in vendors:
                fix = f"enable group:{group} first"
            else:
                fix = did_you_mean(group, [*groups, *vendors]) or _list_groups(groups, vendors)
            raise SchemaError(f"no group {group!r}", fix)
        else:
            raise no_column(name, columns, reserved, groups)
    return chosen


def _list_groups(groups: Iterable[str], vendors: Sequence[str]) -> str:
    of_vendors = f"; groups of vendors are {', '.join(vendors)}" if vendors else ""
    return f"groups are {', '.join(sorted(groups))}{of_vendors}"


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
    if document.messages and parts.rows != RECORDS:
        raise SchemaError(f"[[message.{next(iter(document.messages))}.column]] is only for objects", FLAT)
    if parts.rows == ROWS[0]:  # a file may change or retire columns of vendors
        changed = [str(table.get("name", "")) for table in document.columns if "number" not in table]
        names = [*changed, *settings.get("retire", ())]
        parts.columns = dict(with_vendor_columns(parts.columns, names, parts.reserved))
    parts.columns = _merge_columns(parts.columns, document.columns, document.origin)
    for name, tables in document.messages.items():
        parts.messages[name] = _merge_message(name, parts.messages.get(name), tables, document.origin)
    _check_used(parts, document)
    _retire(parts, settings.get("retire", ()))
    enable, disable = settings.get("enable", ()), settings.get("disable", ())
    only = settings.get("only")
    parts.columns = switch(parts.columns, only, enable, disable, reserved=parts.reserved, rows=parts.rows)


def _merge_columns(
    inherited: Mapping[str, Column],
    tables: Iterable[Mapping[str, Any]],
    origin: str,
) -> dict[str, Column]:
    """Return the inherited columns, changed by the tables of a file, and its new columns."""
    columns = dict(inherited)
    seen: set[str] = set()
    for table in tables:
        name = str(table.get("name", ""))
        if name in seen:
            raise SchemaError("occurs twice in this file", "remove one", column=name)
        if name in inherited:
            column = inherited[name].altered(table, origin)
        elif inherited and name and "number" not in table:
            fix = suggest_column(name, inherited) or "add number = … and type = … if it is a new column"
            raise SchemaError("does not exist, so it cannot be changed", fix, column=name)
        else:
            column = Column.from_table(table, origin)
        columns[column.name] = column
        seen.add(column.name)
    return columns


def _merge_message(
    name: str, inherited: SubMessage | None, tables: Mapping[str, list[Mapping[str, Any]]], origin: str
) -> SubMessage:
    empty = SubMessage(name, (), (), origin)
    old = inherited or empty
    try:
        for table in tables["column"]:
            if "mirror" in table:
                fix = "write the other column, because messages have no directions"
                raise SchemaError(
                    "mirror is not allowed in a message", fix, column=str(table.get("name", ""))
                )
        known = {column.name: column for column in old.columns}
        columns = _merge_columns(known, tables["column"], origin)
        reserved = [_read_reserved(table) for table in tables["reserved"]]
    except SchemaError as error:
        raise empty.error(error.column, error.problem, error.fix) from None
    return SubMessage(name, tuple(columns.values()), (*old.reserved, *reserved), origin)


def _check_used(parts: Parts, document: Document) -> None:
    """Raise SchemaError if a document adds a message that no column holds.

    Later files may retire the column.
    """

    def fail(column: str | None, problem: str, fix: str) -> SchemaError:
        return SchemaError(problem, fix, origin=parts.columns[column or ""].origin, column=column or "")

    check_messages(parts.columns.values(), parts.messages, fail)
    used = {message.name for message in reach(parts.columns.values(), parts.messages)}
    for name in document.messages:
        if name not in used:
            fix = f'write type = "message" and message = "{name}" on a column, or remove it'
            raise parts.messages[name].error(None, "no column uses it", fix)


def _read_reserved(table: Mapping[str, Any]) -> Reserved:
    if (
        table.keys() != {"number", "name"}
        or type(table["number"]) is not int
        or not isinstance(table["name"], str)
    ):
        raise SchemaError(f"[[reserved]] is {dict(table)!r}", "write only number = … and name = …")
    return Reserved(table["number"], table["name"])


def _retire(parts: Parts, names: Iterable[str]) -> None:
    for name in names:
        if name not in parts.columns:
            raise no_column(name, parts.columns, parts.reserved)
        gone = parts.columns.pop(name)
        parts.reserved.append(Reserved(gone.number, gone.name))
