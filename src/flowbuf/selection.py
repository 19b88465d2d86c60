"""Select flows and columns: the enrichments, the condition and the columns of an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowbuf.arrow.batch import FlowBatch, new_table_type
from flowbuf.arrow.rows import with_text
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan
from flowbuf.targets.arrow import register_types

if TYPE_CHECKING:
    import pyarrow

    from flowbuf.arrow.sql import RowFilter
    from flowbuf.enrich import Pipeline

__all__ = ["FlowSelection", "arrow_schema"]


def arrow_schema(schema: Schema, ip: str = "binary", order: Sequence[str] = ()) -> Any:
    """Return the `pyarrow.Schema` for flows of a schema, whose columns `Schema.arrange` puts in order."""
    import pyarrow

    register_types(needed=True)
    columns = tuple(column.name for column in schema.arrange(order))
    return pyarrow.schema(new_table_type(schema, compile_plan(schema), ip, columns))


class FlowSelection:
    """Turns batches of flows into record batches: enriched, filtered, and with the chosen columns only.

    Use it in one thread at a time.

    Args:
        schema: Schema whose enabled columns are chosen.
        where: Condition in SQL. Default: all flows.
        ip: Form of IP and MAC addresses: "binary" (default) or "text".
        pipeline: Enrichments. Default: none.
        order: Names of columns that come first, in this order. Default: number order.
        others: Schemas of other kinds of rows with the same condition, for its errors.

    Attributes:
        schema: Schema with the chosen columns.
        decoded: Schema of the batches to pass. It may have more columns, for the condition or an enrichment.
        type: `pyarrow.Schema` of the record batches.

    Raises:
        ImportError: pyarrow is not installed, or duckdb, which `where` needs.
        QueryError: the condition is invalid.
        SchemaError: an enrichment needs a column that the schema does not have.
    """

    def __init__(
        self,
        schema: Schema,
        where: str | None = None,
        ip: str = "binary",
        pipeline: Pipeline | None = None,
        order: Sequence[str] = (),
        others: Sequence[Schema] = (),
    ) -> None:
        self.schema = schema
        self.type = arrow_schema(schema, ip, order)
        self._text = ip == "text"
        self._pipeline = pipeline
        self._filter = _new_filter(where, schema) if where is not None else None
        wanted = schema.enable(*self._filter.columns) if self._filter else schema
        self.decoded = pipeline.extend(wanted) if pipeline else wanted
        if self._filter:
            self._filter.check(arrow_schema(self.decoded, "text"), others)

    @property
    def takes_all(self) -> bool:
        """True if all flows are selected: there is no condition, and no enrichment."""
        return self._filter is None and self._pipeline is None

    def apply(self, batch: FlowBatch | pyarrow.RecordBatch) -> Any:
        """Return the selected flows of a batch of the schema `decoded` as a `pyarrow.RecordBatch`.

        Raises:
            QueryError: the condition fails for a value.
            EnrichmentError: an enrichment fails.
        """
        if not isinstance(batch, FlowBatch):
            batch = self._complete(batch)
        flows = self._pipeline(_to_arrow(batch)) if self._pipeline else batch
        shown = self._shown(flows)
        if self._filter:
            shown = shown.take(self._filter.rows(self._with_text(flows, self._filter.columns)))
        return shown

    def _complete(self, batch: Any) -> Any:
        """Return a batch of an earlier configuration with absent values in the columns that it lacks."""
        from flowbuf.enrich.flows import with_absent

        return with_absent(batch, self.decoded, [column.name for column in self.decoded.enabled])

    def _shown(self, flows: Any) -> Any:
        """Return the chosen columns, with exactly the types of `type`."""
        names = self.type.names
        shown = self._with_text(flows, names) if self._text else _to_arrow(flows)
        if shown.schema.equals(self.type, check_metadata=True):
            return shown
        shown = shown.select(names)
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for field, array in zip(self.type, shown.columns, strict=True)
        ]
        return type(shown).from_arrays(arrays, schema=self.type)

    def _with_text(self, flows: Any, names: Sequence[str]) -> Any:
        """Return some columns with addresses as text. The core converts its own batches."""
        if isinstance(flows, FlowBatch):
            return flows.text().to_arrow().select(names)
        return with_text(flows.select(names), self.decoded)


def _to_arrow(flows: Any) -> Any:
    return flows.to_arrow() if isinstance(flows, FlowBatch) else flows


def _new_filter(where: str, schema: Schema) -> RowFilter:
    from flowbuf.arrow.sql import RowFilter

    return RowFilter(where, schema)
