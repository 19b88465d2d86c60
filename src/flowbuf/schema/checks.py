"""Checks of columns together: those of a schema, and those of each message inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flowbuf.errors import SchemaError
from flowbuf.schema.column import NAME, Column, Reserved, fold
from flowbuf.schema.shape import NAME_FIX

__all__ = ["Fail", "check_oneofs", "check_reserved", "check_unique"]

Fail = Callable[[str | None, str, str], SchemaError]
"""An error of column, problem and fix; who has the columns knows where they stand."""


def check_unique(columns: Sequence[Column], reserved: Iterable[Reserved], fail: Fail) -> None:
    """Names and numbers, in the order given, so that the newcomer is blamed."""
    numbers: dict[int, Column] = {}
    names: dict[str, Column] = {}
    for column in columns:
        other = names.setdefault(fold(column.name), column)
        if other is not column:
            problem = "the name is taken" if other.name == column.name else f"the name is too close to {other.name!r}"
            raise fail(column.name, problem, "choose another")
        other = numbers.setdefault(column.number, column)
        if other is not column:
            problem = f"number {column.number} is that of {other.name!r}"
            raise fail(column.name, problem, _free_number(columns, reserved))


def check_reserved(columns: Sequence[Column], reserved: Sequence[Reserved], fail: Fail) -> None:
    """That no column has what is reserved."""
    numbers = {old.number: old.name for old in reserved}
    if len(numbers) < len(reserved):
        raise fail(None, "a reserved number has two names", "one number was one column: remove the wrong one")
    names = {fold(old.name) for old in reserved}
    for column in columns:
        if column.number in numbers:
            problem = f"number {column.number} is reserved: it was that of {numbers[column.number]!r}"
            raise fail(column.name, problem, _free_number(columns, reserved))
        if fold(column.name) in names:
            raise fail(column.name, "the name is reserved: a retired column had it", "choose another name")


def check_oneofs(columns: Sequence[Column], fail: Fail) -> None:
    """That their names are names, and none is a column's."""
    names = {fold(column.name): column.name for column in columns}
    oneofs: dict[str, str] = {}
    for column in columns:
        if not column.oneof:
            continue
        if not NAME.fullmatch(column.oneof):
            raise fail(column.name, f"oneof is {column.oneof!r}", NAME_FIX)
        if fold(column.oneof) in names:
            taken = names[fold(column.oneof)]
            raise fail(column.name, f"oneof {column.oneof!r} is called as column {taken!r} is", "rename one of the two")
        other = oneofs.setdefault(fold(column.oneof), column.oneof)
        if other != column.oneof:
            raise fail(column.name, f"oneof {column.oneof!r} is too close to {other!r}", "write both alike")


def _free_number(columns: Iterable[Column], reserved: Iterable[Reserved]) -> str:
    taken = {column.number for column in columns} | {old.number for old in reserved}
    free = next(number for number in range(1000, 19000) if number not in taken)
    return f"choose a free one, such as {free}"
