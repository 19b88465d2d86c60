"""An output that keeps the top talkers of the last seconds in memory, for the live view.

Memory and time are bounded. Flows of the window are grouped in slots, each with at most the largest
MAX_GROUPS groups by each measure. The thread of the output rests after each batch, so that it uses a small
part of a processor. Its queue drops the flows that arrive faster.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowbuf.errors import ConfigError
from flowbuf.schema import Column, Schema
from flowbuf.targets.arrow import storage

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MEASURES", "TopTalkers", "TopWindow", "choose_top_columns"]

MEASURES = ("bytes", "packets", "flows")
"""Sums of a group. Bytes and packets are multiplied by the sampling rate where it is known."""

MAX_GROUPS = 5_000
MAX_LENGTH = 100
"""Longest text of a group, in characters or bytes. Longer values are cut."""

SLOTS = 10
SHARE = 0.2
"""Largest share of a processor that the thread of the output uses."""

LONGEST_REST = 0.5


@dataclass(frozen=True)
class TopWindow:
    """Top talkers of the last seconds.

    Attributes:
        columns: Columns of the groups.
        rows: Values and measures of the largest groups, in descending order. Times are numbers in the unit of
            their column, and members of an enum are text.
        totals: Measures of all flows.
        seconds: Length of the window.
    """

    columns: tuple[Column, ...]
    rows: list[tuple[tuple[Any, ...], dict[str, float]]]
    totals: dict[str, float]
    seconds: float


@dataclass
class _Slot:
    """Groups of a part of the window."""

    number: int
    tables: list[Any] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))


def choose_top_columns(schema: Schema, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the groups, and all columns that `TopTalkers` reads.

    Args:
        schema: Schema of the flows. Its columns may have the names of a preset, such as SrcAddr.
        names: Columns of the groups.

    Raises:
        ConfigError: there are no names, or a column is a list.
        SchemaError: a column does not exist.
    """
    groups = tuple(dict.fromkeys((schema.find(name) or schema[name]).name for name in names))
    if not groups:
        raise ConfigError("live_top is empty; name at least one column")
    for name in groups:
        if schema[name].repeated:
            raise ConfigError(f"live_top: column {name!r} is a list; choose a column with one value per flow")
    others = (schema.find(name) for name in ("bytes", "packets", "sampling_rate"))
    return groups, tuple(dict.fromkeys((*groups, *(column.name for column in others if column))))


class TopTalkers:
    """Sum the flows of the last seconds by some columns. Implements `Output`.

    One thread writes. Any thread may call `read`.

    Args:
        schema: Schema of the batches.
        columns: Columns of the groups.
        window: Length of the window in seconds.
        scaled: Bytes and packets are multiplied by the sampling rate already. Default: False.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str],
        window: float,
        scaled: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import pyarrow.compute  # noqa: F401 (here, because it takes long)

        self.stored = 0
        self.pending = 0
        self.lost: Mapping[str, int] = {}
        self._columns = tuple(schema[name] for name in columns)
        self._keys = [f"key{index}" for index in range(len(columns))]
        self._sources = {name: schema.find(name) for name in ("bytes", "packets")}
        self._rate = None if scaled else schema.find("sampling_rate")
        self._step = window / SLOTS
        self._clock = clock
        self._begin = clock()
        self._slots: deque[_Slot] = deque()
        self._lock = threading.Lock()  # protects _slots
        self._used = 0.0

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Add the flows of a batch. Rest afterwards."""
        self._used = self._used or time.thread_time()
        table = self._group(self._read(batch))
        with self._lock:
            self._add(table)
        self.stored += batch.num_rows
        self._rest()

    def _read(self, batch: Any) -> Any:
        """Return the columns of the groups and the measures of each flow."""
        import pyarrow
        import pyarrow.compute as pc

        columns = {
            key: _shorten(storage(batch.column(column.name)))
            for key, column in zip(self._keys, self._columns, strict=True)
        }
        rate = None
        if self._rate and self._rate.name in batch.schema.names:
            rate = pc.max_element_wise(_floats(batch.column(self._rate.name)), 1.0)  # 0 if it is unknown
        for measure, source in self._sources.items():
            if source is None:
                columns[measure] = pyarrow.nulls(batch.num_rows, pyarrow.float64()).fill_null(0.0)
                continue
            sums = _floats(batch.column(source.name))
            columns[measure] = sums if rate is None else pc.multiply(sums, rate)
        columns["flows"] = pyarrow.nulls(batch.num_rows, pyarrow.float64()).fill_null(1.0)
        return pyarrow.table(columns)

    def _group(self, table: Any) -> Any:
        grouped = table.group_by(self._keys, use_threads=False)
        sums = grouped.aggregate([(measure, "sum") for measure in MEASURES])
        return sums.select([*self._keys, *(f"{measure}_sum" for measure in MEASURES)]).rename_columns(
            [*self._keys, *MEASURES]
        )

    def _add(self, table: Any) -> None:
        import pyarrow.compute as pc

        number = self._number()
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        slot = self._slots[-1]
        slot.tables.append(table)
        for measure in MEASURES:
            slot.totals[measure] += pc.sum(table[measure]).as_py() or 0.0
        if sum(len(each) for each in slot.tables) > 2 * len(MEASURES) * MAX_GROUPS:
            slot.tables = [_keep_largest(self._merge(slot.tables))]
        self._expire()

    def _number(self) -> int:
        return int(self._clock() / self._step)

    def _expire(self) -> None:
        while self._slots and self._slots[0].number <= self._number() - SLOTS:
            self._slots.popleft()

    def _merge(self, tables: Sequence[Any]) -> Any:
        import pyarrow

        return self._group(pyarrow.concat_tables(tables))

    def _rest(self) -> None:
        """Sleep until the thread has used at most SHARE of the time."""
        used = time.thread_time()
        time.sleep(min((used - self._used) * (1 / SHARE - 1), LONGEST_REST))
        self._used = used

    def read(self, measure: str, count: int) -> TopWindow:
        """Return the largest groups of the window.

        Args:
            measure: One of MEASURES.
            count: Most groups to return.
        """
        with self._lock:
            self._expire()
            tables = [table for slot in self._slots for table in slot.tables]
            totals = {each: sum(slot.totals[each] for slot in self._slots) for each in MEASURES}
        now = self._clock()
        seconds = now - max(self._begin, (self._number() - SLOTS + 1) * self._step)
        rows = self._largest(tables, measure, count) if tables and count else []
        return TopWindow(self._columns, rows, totals, seconds)

    def _largest(self, tables: Sequence[Any], measure: str, count: int) -> list[Any]:
        table = _take_largest(self._merge(tables), measure, count)
        values = zip(*(_values(table[key]) for key in self._keys), strict=True)
        sums = table.select(MEASURES).to_pylist()
        return list(zip(values, sums, strict=True))

    def tick(self) -> None:
        """Do nothing: `read` ignores old flows."""

    def close(self) -> None:
        """Do nothing."""


def _take_largest(table: Any, measure: str, count: int) -> Any:
    import pyarrow.compute as pc

    return table.take(pc.select_k_unstable(table, k=count, sort_keys=[(measure, "descending")]))


def _keep_largest(table: Any) -> Any:
    """Return the groups that are large by any measure."""
    import pyarrow
    import pyarrow.compute as pc

    places = [
        pc.select_k_unstable(table, k=MAX_GROUPS, sort_keys=[(measure, "descending")]) for measure in MEASURES
    ]
    return table.take(pc.unique(pyarrow.concat_arrays(places)))


def _floats(array: Any) -> Any:
    """Return numbers whose products and sums do not overflow. Large ones are rounded."""
    import pyarrow
    import pyarrow.compute as pc

    return pc.fill_null(array, 0).cast(pyarrow.float64(), safe=False)


def _shorten(array: Any) -> Any:
    """Return an array that can be grouped, without long values."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_string(array.type):
        return pc.utf8_slice_codeunits(array, 0, MAX_LENGTH)
    if types.is_binary(array.type):
        return pc.binary_slice(array, 0, MAX_LENGTH)
    return array


def _values(column: Any) -> list[Any]:
    import pyarrow
    import pyarrow.types as types

    if types.is_timestamp(column.type) or types.is_duration(column.type):
        column = column.cast(pyarrow.int64())
    values: list[Any] = column.to_pylist()
    return values
