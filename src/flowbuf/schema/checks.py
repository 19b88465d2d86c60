"""Checks across the columns of a schema, or of a message inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from flowbuf.errors import SchemaError
from flowbuf.schema.column import NAME, Column, Reserved, fold
from flowbuf.schema.shape import NAME_FIX
from flowbuf.schema.source import Source

__all__ = ["Fail", "check_oneofs", "check_reserved", "check_unique", "find_narrow"]

Fail = Callable[[str | None, str, str], SchemaError]
"""Makes the error of a column, a problem and a fix. The owner of the columns adds their place."""


def check_unique(columns: Sequence[Column], reserved: Iterable[Reserved], fail: Fail) -> None:
    """Check that names and numbers are unique. An error names the later of two columns."""
    numbers: dict[int, Column] = {}
    names: dict[str, Column] = {}
    for column in columns:
        other = names.setdefault(fold(column.name), column)
        if other is not column:
            problem = (
                "name is already used"
                if other.name == column.name
                else f"name is too similar to {other.name!r}"
            )
            raise fail(column.name, problem, "choose another name")
        other = numbers.setdefault(column.number, column)
        if other is not column:
            problem = f"number {column.number} is already used by {other.name!r}"
            raise fail(column.name, problem, _free_number(columns, reserved))


def check_reserved(columns: Sequence[Column], reserved: Sequence[Reserved], fail: Fail) -> None:
    """Check that no column has a reserved name or number."""
    numbers = {old.number: old.name for old in reserved}
    if len(numbers) < len(reserved):
        raise fail(None, "a reserved number has two names", "remove the wrong name")
    names = {fold(old.name) for old in reserved}
    for column in columns:
        if column.number in numbers:
            problem = f"number {column.number} is reserved for the retired {numbers[column.number]!r}"
            raise fail(column.name, problem, _free_number(columns, reserved))
        if fold(column.name) in names:
            raise fail(column.name, "name is reserved for a retired column", "choose another name")


def check_oneofs(columns: Sequence[Column], fail: Fail) -> None:
    """Check that names of oneofs are valid, and differ from those of columns."""
    names = {fold(column.name): column.name for column in columns}
    oneofs: dict[str, str] = {}
    for column in columns:
        if not column.oneof:
            continue
        if not NAME.fullmatch(column.oneof):
            raise fail(column.name, f"oneof {column.oneof!r} is invalid", NAME_FIX)
        if fold(column.oneof) in names:
            taken = names[fold(column.oneof)]
            raise fail(
                column.name,
                f"oneof {column.oneof!r} has the name of column {taken!r}",
                "rename one of them",
            )
        other = oneofs.setdefault(fold(column.oneof), column.oneof)
        if other != column.oneof:
            raise fail(column.name, f"oneof {column.oneof!r} is too similar to {other!r}", "use one spelling")


def _free_number(columns: Iterable[Column], reserved: Iterable[Reserved]) -> str:
    taken = {column.number for column in columns} | {old.number for old in reserved}
    free = next(number for number in range(1000, 19000) if number not in taken)
    return f"choose an unused number, such as {free}"


# without int64 and sint64, because real numbers of 64 bits stay below 2**63
_BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "fixed32": 32, "int32": 31, "sint32": 31}
_BITS_OF_SOURCES = {
    **{f"unsigned{bits}": bits for bits in (8, 16, 32, 64)},
    **{"macAddress": 48, "dateTimeSeconds": 32, "dateTimeMilliseconds": 64},
    **{"dateTimeMicroseconds": 64, "dateTimeNanoseconds": 64},
}


def find_narrow(columns: Iterable[Column]) -> Iterator[tuple[Column, Source]]:
    """Yield each column of numbers whose type cannot hold all values of a source, and the source."""
    for column in columns:
        for source in (source for equals in column.sources for source in equals):
            bits = _BITS_OF_SOURCES.get(source.element.data_type, 0) if source.element else 0
            if bits > _BITS.get(column.type, 64):
                yield column, source
