"""Arrow arrays of a schema's columns: absent values, and casts to the column's type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flowbuf.errors import EnrichmentError, did_you_mean
from flowbuf.schema import Column
from flowbuf.targets.arrow import is_nullable, storage

__all__ = [
    "absent",
    "absent_rows",
    "checked_addresses",
    "conform",
    "dictionary",
    "is_text",
    "to_members",
    "wrap",
]


def wrap(array: Any, type: Any) -> Any:
    """Return a plain array as an array of a type, which may be an extension type."""
    return pa.ExtensionArray.from_storage(type, array) if isinstance(type, pa.BaseExtensionType) else array


def _nothing(column: Column, type: Any) -> Any:
    """Return the absent value of a column that is never null."""
    return pa.scalar([], type) if column.repeated else pa.scalar(0).cast(type)


def absent(column: Column, type: Any, length: int) -> Any:
    """Return an array of absent values."""
    plain = type.storage_type if isinstance(type, pa.BaseExtensionType) else type
    if not is_nullable(column):
        return wrap(pa.repeat(_nothing(column, plain), length), type)
    if column.type == "enum":
        return dictionary(pa.nulls(length, pa.int32()), column)
    return wrap(pa.nulls(length, plain), type)


def absent_rows(array: Any) -> Any:
    """Return a boolean per row of a plain array: True for null, and for the number 0."""
    if pa.types.is_integer(array.type):
        zero = pc.equal(array, pa.scalar(0, array.type))
        return pc.fill_null(zero, True) if array.null_count else zero
    return array.is_null()


def members(column: Column) -> list[str]:
    """Return the names of an enum's members, by number."""
    return sorted(column.values, key=lambda name: column.values[name])


def _is_other(name: str, column: Column) -> bool:
    """Return True if a name is the decimal number of no member of the enum."""
    return name.isdecimal() and int(name) not in column.values.values()


def dictionary(places: Any, column: Column, others: Sequence[str] = ()) -> Any:
    """Return the Arrow array of an enum from indexes into its members and `others`.

    Without others, all arrays have the same dictionary.
    """
    return pa.DictionaryArray.from_arrays(places, pa.array([*members(column), *others], pa.string()))


def conform(array: Any, column: Column, type: Any) -> Any:
    """Cast an array to the type of a column, without loss. An EnrichmentError names the column."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type == type and _is_settled(array, column):
        return array
    plain = type.storage_type if isinstance(type, pa.BaseExtensionType) else type
    try:
        return wrap(_cast(storage(array), column, plain), type)
    except EnrichmentError as error:
        raise error.located(where=f"column {column.name!r}") from None


def _is_settled(array: Any, column: Column) -> bool:
    """Return True if an array of the right type has only values that the column allows."""
    if column.type == "enum" and not column.repeated:
        names, known = array.dictionary.to_pylist(), members(column)
        return names == known or all(
            name is None or column.values.get(name) or _is_other(name, column) for name in names
        )
    return is_nullable(column) or not array.null_count


def _cast(array: Any, column: Column, type: Any) -> Any:
    if pa.types.is_null(array.type):
        return absent(column, type, len(array))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.type == "enum" and not column.repeated:
        return to_members(array, column)
    if type == pa.binary(16):
        array = checked_addresses(array)
    try:
        array = array.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _misfit(array, type) from None
    if is_nullable(column) or not array.null_count:
        return array
    return pc.if_else(array.is_valid(), array, _nothing(column, type))


def to_members(array: Any, column: Column) -> Any:
    """Return names of enum members as an Arrow array.

    The member 0 becomes null, because absent values read as 0.
    """
    names = members(column)
    array = array.cast(pa.string())
    given = [name for name in array.unique().to_pylist() if name is not None and name not in column.values]
    for name in given:
        if not _is_other(name, column):
            fix = did_you_mean(name, names) or f"members are {', '.join(names)}"
            raise EnrichmentError(f"row {array.index(name).as_py()} is {name!r}", fix)
    found = pc.index_in(array, value_set=pa.array([*names, *given], pa.string()))
    zero = next(i for i, name in enumerate(names) if column.values[name] == 0)
    found = pc.if_else(pc.equal(found, zero), pa.scalar(None, pa.int32()), found)
    return dictionary(found, column, given)


def is_text(array: Any) -> bool:
    """Return True if an array has strings, of the small or the large type."""
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def checked_addresses(array: Any) -> Any:
    """Return addresses as binary(16). Other libraries return fixed-size binary as variable-size."""
    if pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == 16:
        return array
    fix = "an address has 16 bytes, IPv4 as ::ffff:a.b.c.d"
    if is_text(array):
        raise EnrichmentError(f"is of type {array.type}", fix)  # text can have 16 bytes too
    try:
        array = array.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise EnrichmentError(f"is of type {array.type}", fix) from None
    wrong = pc.not_equal(pc.binary_length(array), 16)
    if pc.any(wrong).as_py():
        row = wrong.index(pa.scalar(True)).as_py()
        raise EnrichmentError(f"row {row} is {array[row].as_py()!r}", fix)
    try:
        return array.cast(pa.binary(16))
    except pa.ArrowNotImplementedError:  # in older versions of pyarrow
        return pa.array(array.to_pylist(), pa.binary(16))


def _misfit(array: Any, type: Any) -> EnrichmentError:
    """Return the error for an array that does not fit. A binary search finds the first faulty row."""
    low, high = 0, len(array)
    if _fits(array.slice(0, 0), type):
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _fits(array.slice(low, middle - low), type) else (low, middle)
        return EnrichmentError(f"row {low} is {array[low].as_py()!r}", f"the column is of type {type}")
    return EnrichmentError(f"is of type {array.type}", f"the column is of type {type}")


def _fits(array: Any, type: Any) -> bool:
    try:
        array.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
