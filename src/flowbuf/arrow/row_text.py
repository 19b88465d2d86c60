"""Columns as text, row by row: JSON lines, CSV, and keys.

The core writes the text from columns, without Python objects (ext/core/arrow/arrow_text.h). It equals that of
`flowbuf.targets.flow_text` for the same flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowbuf._core import TextWriter
from flowbuf.arrow.batch import FlowBatch, type_of
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

if TYPE_CHECKING:
    import pyarrow

__all__ = ["KeyRows", "RowText"]


class RowText:
    """Formats batches of the enabled columns of a schema as text, a line per row.

    Keys and cells are in the order of the batch. Columns that the schema does not enable are ignored. Use it
    in one thread at a time.

    Args:
        schema: Schema of the batches.
        form: "json" (default): an object per row, without absent columns. "csv": cells, without a header.
            "key": values separated by commas, and never quoted.
        start: Members that each JSON object starts with. Default: none.
        spreadsheet: Neutralize formulas in CSV. Default: False.
    """

    def __init__(
        self, schema: Schema, form: str = "json", *, start: str = "", spreadsheet: bool = False
    ) -> None:
        self._schema = schema
        self._plan = compile_plan(schema)
        self._options = (form, start.encode(), spreadsheet)
        self._type: Any = None  # of the batches that the writer takes
        self._writer: TextWriter | None = None

    def lines(self, batch: FlowBatch | pyarrow.RecordBatch) -> memoryview:
        """Return the lines of all rows.

        Raises:
            EncodeError: A value does not fit its column.
        """
        type, array = batch.__arrow_c_array__()
        return self._writer_of(batch, type).write(array)

    def split(self, batch: FlowBatch | pyarrow.RecordBatch) -> list[bytes]:
        """Return the line of each row, without its end. Raises like `lines`."""
        type, array = batch.__arrow_c_array__()
        return self._writer_of(batch, type).split(array)

    def _writer_of(self, batch: Any, type: object) -> TextWriter:
        """Return the writer for the type of a batch. It is kept, because it takes as long as many rows."""
        own = type_of(batch) if isinstance(batch, FlowBatch) else batch.schema
        if self._writer is None or own != self._type:
            self._writer = TextWriter(self._plan, type, self._bind, *self._options)
            self._type = own
        return self._writer

    def _bind(self, names: list[str]) -> list[tuple[str | None, dict[int, str] | None, bool]]:
        enabled = {column.name: column for column in self._schema.enabled}
        return [
            (name, {number: member for member, number in enabled[name].values.items()}, False)
            if name in enabled
            else (None, None, False)
            for name in names
        ]


class KeyRows:
    """Formats the values of some columns as the keys of Kafka records.

    A key is the text of the values, separated by commas. Absent values are empty.

    Args:
        schema: Schema of the batches.
        names: Names of the columns.

    Raises:
        SchemaError: The schema has no such column, or it is disabled.
    """

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        enabled = {column.name for column in schema.enabled}
        for name in names:
            if name not in enabled:
                schema.only(name)  # explains a name that does not exist
                raise schema.error(None, f"key {name!r} is not among the columns", "add it to them")
        self._names = list(dict.fromkeys(names))
        self._none = b"," * (len(self._names) - 1)
        self._text = RowText(schema, "key")

    def read(self, batch: pyarrow.RecordBatch) -> list[bytes | None]:
        """Return the key of each row; None if all its values are absent."""
        keys = self._text.split(batch.select(self._names))
        return [None if key == self._none else key for key in keys]
