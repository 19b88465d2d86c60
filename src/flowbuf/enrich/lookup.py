"""Lookups per distinct key instead of per row.

`Distinct` numbers the keys of a batch. `Lookup` looks up each distinct key once, and caches it for later
batches. `AddressLookup` does both for addresses, in the core. Arrow distributes the `Results` to the rows.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flowbuf._core import AddressRows
from flowbuf.enrich.columns import checked_addresses, dictionary, to_members
from flowbuf.enrich.records import located
from flowbuf.schema import Column
from flowbuf.targets.arrow import arrow_type

__all__ = ["AddressLookup", "Distinct", "Found", "Lookup", "Results"]

KEYS = 1 << 17
"""Largest number of cached keys, and of distinct results, of a lookup. Beyond it, the cache is cleared."""

ADDRESSES = 1 << 20
"""Largest number of cached addresses, which take at most 28 megabytes. Beyond it, the cache is cleared."""

ADDRESS_RESULTS = 1 << 18
"""Largest number of distinct results for addresses, which take about 60 megabytes."""

_BITS = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32}


class Distinct:
    """The distinct keys of some rows: `values`, and `codes`, the index of each row's key in `values`.

    The key of one column is its value; the key of several is a tuple (`joined`).
    """

    def __init__(self, values: Sequence[Any], codes: Any, joined: bool = False) -> None:
        self.values = values
        self.codes = codes
        self._joined = joined

    @classmethod
    def of(cls, array: Any) -> Distinct:
        """Return the keys of one column."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        encoded = array.dictionary_encode("encode")
        return cls(_to_list(encoded.dictionary), encoded.indices)

    def join(self, array: Any) -> Distinct:
        """Return the keys of these rows combined with one more column.

        None stands for a column without values.
        """
        if array is None:
            return Distinct([(*key, None) for key in self._tuples()], self.codes, True)
        if array.type in _BITS and not array.null_count:  # a number is its own code
            return self._pair(array, 1 << _BITS[array.type], lambda code: code)
        other = Distinct.of(array)
        return self._pair(other.codes, len(other.values), lambda code: other.values[code])

    def _tuples(self) -> Sequence[tuple[Any, ...]]:
        return self.values if self._joined else [(value,) for value in self.values]

    def _pair(self, codes: Any, size: int, value: Callable[[int], Any]) -> Distinct:
        both = pc.add(
            pc.multiply(self.codes.cast(pa.int64()), pa.scalar(size, pa.int64())), codes.cast(pa.int64())
        )
        encoded = both.dictionary_encode()
        numbers = memoryview(encoded.dictionary.buffers()[1]).cast("q")[: len(encoded.dictionary)]
        pairs = (divmod(number, size) for number in numbers)
        keys = self._tuples()
        return Distinct([(*keys[one], value(other)) for one, other in pairs], encoded.indices, True)


def _bytes_of(array: Any) -> Any:
    """Return the values of a fixed-size binary array as one buffer. Those of nulls are any bytes."""
    width = array.type.byte_width
    if not len(array):
        return memoryview(b"")
    data = array.buffers()[1].slice(array.offset * width, len(array) * width)
    return memoryview(data).cast("B")


def _to_list(array: Any) -> list[Any]:
    """Return the distinct values.

    Addresses are read from memory, because `to_pylist` takes a microsecond per value.
    """
    if not pa.types.is_fixed_size_binary(array.type) or not len(array):
        return array.to_pylist()  # type: ignore[no-any-return]
    width = array.type.byte_width
    values: list[Any] = [value for (value,) in struct.iter_unpack(f"{width}s", _bytes_of(array))]
    if array.null_count:
        values[array.is_null().index(True).as_py()] = None
    return values


class Lookup:
    """Columns that a function looks up: `find` returns a tuple with one value per column for a key."""

    def __init__(self, columns: Sequence[Column], find: Callable[[Any], tuple[Any, ...]]) -> None:
        self.results = Results(columns)
        self._find = find
        self._known: dict[Any, int] = {}

    def _forget(self) -> None:
        self._known.clear()
        self.results.clear()

    def find(self, keys: Distinct) -> Found:
        """Return the results for each row."""
        if len(self._known) + len(keys.values) > KEYS:
            self._forget()
        rows = list(map(self._known.get, keys.values))
        if None in rows:
            rows = [
                self._ask(key) if row is None else row for key, row in zip(keys.values, rows, strict=True)
            ]
        if rows and rows.count(rows[0]) == len(rows):
            return Found(self.results, rows[0], None, len(keys.codes))
        return Found(self.results, None, pc.take(pa.array(rows, pa.int32()), keys.codes), len(keys.codes))

    def _ask(self, key: Any) -> int:
        row = self._known[key] = self.results.add(self._find(key))
        return row


class AddressLookup:
    """Columns that a function looks up for addresses of 16 bytes.

    Args:
        columns: Columns of the results.
        find: Returns the numbers of the results for some addresses, which it adds to the results it is given.
    """

    def __init__(self, columns: Sequence[Column], find: Callable[[bytes, Results], Sequence[int]]) -> None:
        self._results = Results(columns)
        self._nothing = (None,) * len(columns)
        self._find = find
        self._rows = AddressRows(self._choose)

    def _choose(self, addresses: bytes) -> bytes:
        return array("i", self._find(addresses, self._results)).tobytes()

    def find(self, addresses: Any) -> Found:
        """Return the results for each row of a column of addresses.

        Raises EnrichmentError for values that are not addresses.
        """
        if pa.types.is_dictionary(addresses.type):
            addresses = addresses.dictionary_decode()
        addresses = checked_addresses(addresses)
        if len(self._rows) + len(addresses) > ADDRESSES or len(self._results) > ADDRESS_RESULTS:
            self._rows.clear()
            self._results.clear()
        rows = pa.Array.from_buffers(
            pa.int32(), len(addresses), [None, pa.py_buffer(self._rows.find(_bytes_of(addresses)))]
        )
        if addresses.null_count:
            nothing = pa.scalar(self._results.add(self._nothing), pa.int32())
            rows = pc.if_else(addresses.is_valid(), rows, nothing)
        ends = pc.min_max(rows)
        if len(rows) and ends["min"] == ends["max"]:
            return Found(self._results, ends["min"].as_py(), None, len(rows))
        return Found(self._results, None, rows, len(rows))


class Results:
    """Distinct results of lookups, as columns."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self.clear()

    def clear(self) -> None:
        """Forget all results."""
        self._rows: dict[tuple[Any, ...], int] = {}
        self._results: list[tuple[Any, ...]] = []
        self._arrays: list[Any] = [_values(column, []) for column in self._columns]
        self._in_use = [False] * len(self._columns)

    def __len__(self) -> int:
        return len(self._results)

    def add(self, result: tuple[Any, ...]) -> int:
        """Return the number of a result, with one value per column."""
        row = self._rows.setdefault(result, len(self._rows))
        if row == len(self._results):
            self._results.append(result)
        return row

    def value(self, row: int, i: int) -> Any:
        """Return a value of column `i`."""
        return self._results[row][i]

    def values(self, i: int) -> Any:
        """Return all known values of column `i`, those of an enum as indexes of its members.

        None if all are absent.
        """
        array = self._arrays[i]
        if len(array) < len(self._results):
            new = [result[i] for result in self._results[len(array) :]]
            array = self._arrays[i] = pa.concat_arrays([array, _values(self._columns[i], new)])
            self._in_use[i] = self._in_use[i] or any(new)
        return array if self._in_use[i] else None

    def column(self, i: int) -> Column:
        """Return column `i`."""
        return self._columns[i]


class Found:
    """The results for the rows of a batch: `row` if all rows have the same result, otherwise `rows`."""

    def __init__(self, results: Results, row: int | None, rows: Any, length: int) -> None:
        self._results = results
        self._row = row
        self._rows = rows
        self._length = length

    def column(self, i: int) -> Any:
        """Return the values of column `i` as a plain array of its type. None if no row has a value."""
        array = self._results.values(i)
        if array is None or (self._row is not None and not self._results.value(self._row, i)):
            return None
        if self._row is not None:
            array = pa.repeat(array[self._row], self._length)
        else:
            array = pc.take(array, self._rows, boundscheck=False)
        column = self._results.column(i)
        if column.type == "enum":
            return dictionary(array, column)
        return array


def _values(column: Column, values: list[Any]) -> Any:
    """Return values as an array. Absent numbers are 0, all other absent values are null."""
    if column.type == "enum":
        with located(where=f"column {column.name!r}"):
            return to_members(pa.array(values, pa.string()), column).indices
    if column.type == "string":
        return pa.array(values, pa.string())
    return pa.array([value or 0 for value in values], arrow_type(column))
