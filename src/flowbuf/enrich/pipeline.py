"""Enrichments in a row."""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from flowbuf.enrich.flows import check_addresses, with_absent
from flowbuf.enrich.function import Function, import_function, to_batch
from flowbuf.enrich.static import StaticData
from flowbuf.errors import EnrichmentError
from flowbuf.schema import Schema

__all__ = ["Enrichment", "Pipeline", "load_enrichments"]

PROBLEMS = 100


class Enrichment(Protocol):
    """What takes a `pyarrow.RecordBatch` of flows and returns one: a step of a pipeline.

    `name` is what errors call it, `provides` the columns that it fills, `needs` those that it looks at.
    """

    name: str
    provides: tuple[str, ...]
    needs: tuple[str, ...]

    def __call__(self, batch: Any) -> Any:
        """The batch, enriched."""


class Pipeline:
    """Enrichments, one after the other. Calling it with a batch returns the batch enriched.

    The batch that comes out has the columns that went in, in their order and of their types, and after them those of
    `provides` that were missing. Static data fills what is absent (null; in numbers 0), so the first that knows wins.
    Functions may replace values and leave out rows.

    `problems` are the last hundred things that were wrong and stopped nothing, such as a file that could not be read
    again; `on_problem` is called with each. A pipeline is for one thread.
    """

    def __init__(
        self, enrichments: Sequence[Enrichment], schema: Schema, problems: collections.deque[str] | None = None
    ) -> None:
        self.enrichments = tuple(enrichments)
        self.schema = schema
        self.problems: collections.deque[str] = collections.deque() if problems is None else problems
        self.provides = _names(each.provides for each in enrichments)
        self.needs = _names(each.needs for each in enrichments)

    def extend(self, schema: Schema) -> Schema:
        """A schema with the columns enabled that the enrichments fill, and those that they look at."""
        return schema.enable(*self.needs, *self.provides)

    def __call__(self, batch: Any) -> Any:
        """Enriches a batch: a RecordBatch, or whatever else Arrow can read. Raises EnrichmentError where a function
        fails or returns what is no batch of the schema, or where addresses are text."""
        batch = to_batch(batch)
        check_addresses(batch, self.schema)
        batch = with_absent(batch, self.schema, self.provides)
        for enrichment in self.enrichments:
            if batch.num_rows:
                batch = enrichment(batch)
        return batch

    def __repr__(self) -> str:
        return f"<Pipeline of {', '.join(each.name for each in self.enrichments) or 'nothing'}>"


def load_enrichments(
    specs: Iterable[str | os.PathLike[str] | Callable[[Any], Any]],
    schema: Schema,
    *,
    clock: Callable[[], float] = time.monotonic,
    on_problem: Callable[[str], None] | None = None,
) -> Pipeline:
    """The pipeline of some enrichments, in their order. Raises EnrichmentError.

    Each is the path of a TOML file of static data, a function as `module:function` (the module may be in the current
    directory) or a function itself. `schema` says which columns there are and of which types. Files are looked at once
    a second by `clock`, and read again when they change.
    """
    problems: collections.deque[str] = collections.deque(maxlen=PROBLEMS)

    def report(problem: str) -> None:
        problems.append(problem)
        if on_problem is not None:
            on_problem(problem)

    return Pipeline([_load(spec, schema, clock, report) for spec in specs], schema, problems)


def _load(
    spec: str | os.PathLike[str] | Callable[[Any], Any],
    schema: Schema,
    clock: Callable[[], float],
    report: Callable[[str], None],
) -> Enrichment:
    if callable(spec):
        module, name = getattr(spec, "__module__", ""), getattr(spec, "__qualname__", type(spec).__qualname__)
        return Function(f"{module}:{name}", spec, schema, report)
    text = os.fspath(spec)
    if text.endswith(".toml"):
        return StaticData(text, schema, clock, report)
    module, _, name = text.partition(":")
    if not module or not name:
        raise EnrichmentError(
            "is no enrichment", "give MODULE:FUNCTION, or a file that ends in .toml", origin=repr(text)
        )
    return Function(text, import_function(text), schema, report)


def _names(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))
