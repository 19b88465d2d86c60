"""Write the result of a query as JSON lines, CSV, a table or columns. Its columns can have any SQL type.

| type of the result | becomes |
|---|---|
| timestamp | RFC 3339 with as many digits as it has, 3 at least; Z for UTC; a number from the year 10000 on |
| decimal, and so sums | the number, exact |
| blob | hexadecimal digits |
| interval | `1 month 2 days 03:04:05.000006` |
| list, struct, map | JSON |
| null | null in JSON, empty elsewhere |
| other types | as in `flowbuf.targets.flow_text` |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from flowbuf.cli.output.columnar import open_columns
from flowbuf.cli.output.csv_rows import neutralize, write_csv
from flowbuf.cli.output.streams import COLUMN_FORMATS
from flowbuf.cli.output.table import Heading, RowTable
from flowbuf.cli.output.terminal import clean_line
from flowbuf.cli.output.writers import FlowWriter
from flowbuf.errors import QueryError
from flowbuf.io.output_file import OutputFile
from flowbuf.targets.flow_text import format_bool, format_real, format_time, to_json_string

__all__ = ["open_results", "rows_of", "to_text"]


NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def open_results(
    form: str, file: OutputFile, type: Any, to_terminal: bool, spreadsheet: bool = False
) -> AbstractContextManager[FlowWriter]:
    """Return a writer of results with the `pyarrow.Schema` `type`, in any format.

    `spreadsheet` neutralizes formulas. Raises QueryError for a name that occurs twice in a format with names.
    """
    if form in (*COLUMN_FORMATS, "jsonl"):
        _check_names(type.names)
    if form in COLUMN_FORMATS:
        return open_columns(form, file, type)
    if form == "table":
        return nullcontext(_Table(file, type, to_terminal))
    return nullcontext(_JsonLines(file) if form == "jsonl" else _Csv(file, type.names, spreadsheet))


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"two columns of the result are named {name!r}; name one of them with AS")


class _JsonLines:
    def __init__(self, file: OutputFile) -> None:
        self.count = 0
        self._file = file

    def write(self, batch: Any) -> None:
        self.count += batch.num_rows
        keys = [f"{to_json_string(name)}:" for name in batch.schema.names]
        lines = [
            "{" + ",".join([key + _to_json(value) for key, value in zip(keys, row, strict=True)]) + "}\n"
            for row in rows_of(batch)
        ]
        self._file.write("".join(lines).encode())

    def finish(self) -> None:
        pass


class _Csv:
    def __init__(self, file: OutputFile, names: list[str], spreadsheet: bool) -> None:
        self.count = 0
        self._file = file
        self._to_text = _to_spreadsheet_text if spreadsheet else to_text
        write_csv(file, [map(self._to_text, names)])

    def write(self, batch: Any) -> None:
        self.count += batch.num_rows
        write_csv(self._file, (map(self._to_text, row) for row in rows_of(batch)))

    def finish(self) -> None:
        pass


class _Table(RowTable):
    def __init__(self, file: OutputFile, type: Any, to_terminal: bool) -> None:
        headings = [
            Heading(clean_line(field.name), functools.partial(_cell, place), right=_is_number(field.type))
            for place, field in enumerate(type)
        ]
        super().__init__(file, headings, to_terminal, _count_rows, as_asked=True)

    def write(self, batch: Any, heading: bool = False) -> None:
        rows: list[Any] = list(rows_of(batch))
        super().write(rows, heading)


def _cell(place: int, row: Any) -> str:
    return clean_line(to_text(row[place]))


def _is_number(type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(type) or types.is_floating(type) or types.is_decimal(type))


def _count_rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"


def rows_of(batch: Any) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a record batch, with times and dates as text."""
    return zip(*map(_values, batch.columns), strict=True)


def _values(array: Any) -> list[Any]:
    """Return the values of a column.

    Times become text here, because Python lacks some years and nanoseconds.
    """
    import pyarrow

    if pyarrow.types.is_date(array.type):
        array = array.cast(pyarrow.string())
    if not pyarrow.types.is_timestamp(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    nanoseconds, is_utc = NANOSECONDS[array.type.unit], array.type.tz is not None
    units = array.cast(pyarrow.int64()).to_pylist()
    return [None if count is None else _format_timestamp(count * nanoseconds, is_utc) for count in units]


def _format_timestamp(nanoseconds: int, is_utc: bool) -> str:
    digits = next(digits for digits in (3, 6, 9) if nanoseconds % 10 ** (9 - digits) == 0)
    text = format_time(nanoseconds // 10 ** (9 - digits), digits)
    return text if is_utc else text.removesuffix("Z")


# Values -----------------------------------------------------------------------------------------------------


def to_text(value: Any) -> str:
    """Return the text of a value in a cell."""
    if value is None:
        return ""
    render = _TEXTS.get(type(value))
    if render is not None:
        return render(value)
    if isinstance(value, tuple):  # pyarrow's tuple for an interval
        return _format_span(*value)
    return _to_json(value) if isinstance(value, list | dict) else str(value)


def _to_spreadsheet_text(value: Any) -> str:
    text = to_text(value)
    return text if isinstance(value, int | float | Decimal) else neutralize(text)


def _to_json(value: Any) -> str:
    if isinstance(value, list):
        if value and all(type(item) is tuple for item in value):  # a map
            return _to_json({to_text(key): item for key, item in value})
        return "[" + ",".join(map(_to_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json_string(key)}:{_to_json(item)}" for key, item in value.items()) + "}"
    if value is None:
        return "null"
    if isinstance(value, bool | int | Decimal) or (isinstance(value, float) and math.isfinite(value)):
        return to_text(value)
    return to_json_string(to_text(value))


def _format_datetime(value: datetime) -> str:
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    if value.tzinfo is None:
        return value.isoformat(timespec=digits)
    return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec=digits) + "Z"


def _format_duration(value: timedelta) -> str:
    return _format_span(0, value.days, (value.seconds * 10**6 + value.microseconds) * 1000)


def _format_span(months: int, days: int, nanoseconds: int) -> str:
    """Format an interval. SQL keeps its parts separate, because each may be negative."""
    sign = "-" if nanoseconds < 0 else ""
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    clock = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    clock += f".{fraction:09d}".rstrip("0") if fraction else ""
    parts = [
        f"{count} {unit}{'' if abs(count) == 1 else 's'}"
        for count, unit in ((months, "month"), (days, "day"))
        if count
    ]
    return " ".join([*parts, clock] if nanoseconds or not parts else parts)


_TEXTS: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    bool: format_bool,
    float: format_real,
    Decimal: lambda value: format(value, "f"),
    bytes: bytes.hex,
    datetime: _format_datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _format_duration,
}
