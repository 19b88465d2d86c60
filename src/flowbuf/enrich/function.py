"""Enrichment functions of users: import by name, and checks of their results."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from flowbuf.enrich.columns import conform
from flowbuf.enrich.flows import with_columns
from flowbuf.errors import EnrichmentError, SchemaError, did_you_mean
from flowbuf.schema import Schema
from flowbuf.schema.aliases import suggest_column

__all__ = ["Function", "import_function", "to_batch"]

PANDAS_INDEX = "__index_level_"  # prefix of pandas' index columns


def import_function(spec: str) -> Callable[[Any], Any]:
    """Return the function named by `MODULE:FUNCTION`.

    The current folder is searched last, so that a file in it cannot replace a module of Python or of a
    library.
    """
    module_name, _, path = spec.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    found: Any = _import_module(spec, module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            fix = did_you_mean(name, [known for known in dir(found) if not known.startswith("_")])
            raise EnrichmentError(f"{module_name} has no {name!r}", fix or "correct the name", origin=spec)
        found = getattr(found, name)
    if not callable(found):
        raise EnrichmentError(
            f"is {found!r}, not a function", "name a function that takes a batch and returns one", origin=spec
        )
    return found  # type: ignore[no-any-return]


def _import_module(spec: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise EnrichmentError(f"importing {name} failed: {error}", "install it", origin=spec) from error
        fix = f"flowbuf searches Python's module path and {os.getcwd()}"
        raise EnrichmentError(f"module {error.name!r} was not found", fix, origin=spec) from None
    except Exception as error:
        raise EnrichmentError(
            f"importing {name} failed: {type(error).__name__}: {error}", origin=spec
        ) from error


class Function:
    """A function of the user. Its optional attributes `provides` and `needs` are names of columns."""

    def __init__(
        self, name: str, function: Callable[[Any], Any], schema: Schema, report: Callable[[str], None]
    ) -> None:
        self.name = name
        self.provides = self._read_names(function, "provides", schema)
        self.needs = self._read_names(function, "needs", schema)
        self._function = function
        self._schema = schema
        self._report = report
        self._left_out: set[str] = set()

    def _read_names(self, function: Any, attribute: str, schema: Schema) -> tuple[str, ...]:
        names = getattr(function, attribute, ())
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise EnrichmentError(
                f"{attribute} is {names!r}", 'write a tuple, such as ("exporter_name",)', origin=self.name
            )
        try:
            return tuple(schema[name].name for name in names)
        except SchemaError as error:
            raise EnrichmentError(f"{attribute}: {error.problem}", error.fix, origin=self.name) from None

    def __call__(self, batch: Any) -> Any:
        """Return the result of the function for a batch, with the columns and types of the schema.

        Raises EnrichmentError.
        """
        try:
            result = self._function(batch)
        except Exception as error:
            raise EnrichmentError(f"raised {type(error).__name__}: {error}", origin=self.name) from error
        try:
            return self._settle(batch, to_batch(result))
        except EnrichmentError as error:
            raise error.located(self.name) from None
        except Exception as error:
            problem = (
                f"returned {type(result).__name__}, which cannot be used: {type(error).__name__}: {error}"
            )
            raise EnrichmentError(problem, origin=self.name) from error

    def _settle(self, batch: Any, result: Any) -> Any:
        if result is batch:
            return batch
        if result.num_rows > batch.num_rows:
            problem = f"returned {result.num_rows} rows for {batch.num_rows}"
            raise EnrichmentError(problem, "leave rows out, but do not add any")
        returned = dict(zip(result.schema.names, result.columns, strict=True))
        if len(returned) < result.num_columns:
            raise EnrichmentError(
                "returned two columns with the same name", "replace a column with set_column"
            )
        for name in batch.schema.names:
            if name not in returned:
                raise EnrichmentError(
                    f"left out column {name!r}", "return all columns, with nulls to hide values"
                )
        arrays = {name: self._conform(batch, name, returned[name]) for name in batch.schema.names}
        for name in returned:
            if name not in arrays and not name.startswith(PANDAS_INDEX):
                self._note(name)
        return with_columns(batch, arrays)

    def _conform(self, batch: Any, name: str, array: Any) -> Any:
        return (
            conform(array, self._schema[name], batch.schema.field(name).type)
            if name in self._schema
            else array
        )

    def _note(self, name: str) -> None:
        """Report a new column of the function once, and leave it out.

        Raises EnrichmentError if the schema lacks it.
        """
        if name not in self._schema:
            fix = suggest_column(name, [column.name for column in self._schema]) or "add it to the schema"
            raise EnrichmentError(
                f"returned column {name!r}, which schema {self._schema.name!r} does not have", fix
            )
        if name not in self._left_out:
            self._left_out.add(name)
            fix = f"enable it, or set the attribute provides = ({name!r},) of the function"
            self._report(f"{self.name}: column {name!r} is left out, because it is not enabled; {fix}")


def to_batch(value: Any) -> Any:
    """Return a RecordBatch of any object with Arrow columns: a Table, a FlowBatch, a data frame.

    Raises EnrichmentError.
    """
    if hasattr(value, "to_arrow"):
        value = value.to_arrow()  # pyarrow cannot compute with the string views that polars exports
    if isinstance(value, pa.RecordBatch):
        return value
    if not isinstance(value, pa.Table):
        if not hasattr(value, "__arrow_c_array__") and not hasattr(value, "__arrow_c_stream__"):
            fix = "return a pyarrow.RecordBatch, or an object that Arrow can read"
            raise EnrichmentError(f"returned {type(value).__name__}, not a batch", fix)
        if hasattr(value, "__arrow_c_array__"):
            return pa.record_batch(value)
        value = pa.table(value)
    arrays = [column.combine_chunks() for column in value.columns]
    arrays = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=value.schema)
