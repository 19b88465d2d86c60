"""Pipelines of enrichments."""

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
    """A step of a pipeline: a callable that takes a `pyarrow.RecordBatch` of flows and returns one.

    Attributes:
        name: Name in error messages.
        provides: Names of the columns that it fills.
        needs: Names of the columns that it reads.
    """

    name: str
    provides: tuple[str, ...]
    needs: tuple[str, ...]

    def __call__(self, batch: Any) -> Any:
        """Return the enriched batch."""


class Pipeline:
    """Enrichments that are applied one after the other.

    Call the pipeline with a batch to enrich it. The result has the columns of the batch, with their order and
    types, followed by the missing columns of `provides`. Static data fills only absent values (null, or 0 in
    numbers), so the first value found is kept. Functions may replace values and remove rows. Use a pipeline
    in one thread at a time.

    Args:
        enrichments: Steps, in order.
        schema: Schema of the flows.
        problems: Queue for problems. Default: a new one.
        left_out: Reasons for enrichments that were left out. Default: none.

    Attributes:
        provides: Names of the columns that the steps fill.
        needs: Names of the columns that the steps read.
        problems: Recent problems that did not stop the pipeline, such as a file that could not be read again.
            `load_enrichments` limits them to the last 100.
        left_out: Reasons for enrichments that were left out, because only another kind of rows has their
            columns.
    """

    def __init__(
        self,
        enrichments: Sequence[Enrichment],
        schema: Schema,
        problems: collections.deque[str] | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        self.enrichments = tuple(enrichments)
        self.schema = schema
        self.problems: collections.deque[str] = collections.deque() if problems is None else problems
        self.left_out = tuple(left_out)
        self.provides = _names(each.provides for each in enrichments)
        self.needs = _names(each.needs for each in enrichments)

    def extend(self, schema: Schema) -> Schema:
        """Return the schema with the columns enabled that the enrichments fill or read."""
        return schema.enable(*self.needs, *self.provides)

    def __call__(self, batch: Any) -> Any:
        """Return the enriched batch.

        Args:
            batch: A RecordBatch, or another object with Arrow columns, such as a FlowBatch.

        Returns:
            pyarrow.RecordBatch: the batch with the columns of `provides`.

        Raises:
            EnrichmentError: a function failed or returned an invalid batch, or addresses are text.
        """
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
    others: Sequence[Schema] = (),
) -> Pipeline:
    """Load enrichments into a pipeline.

    Args:
        specs: Enrichments in order: paths of TOML files with static data, functions as "module:function", or
            functions. Modules may be in the current folder.
        schema: Schema of the flows.
        clock: Clock in seconds. Files are checked for changes at most once per second, and read again if
            changed. Default: time.monotonic.
        on_problem: Called with each problem that does not stop the pipeline. Default: problems are only
            stored.
        others: Schemas of other kinds of rows with the same enrichments. An enrichment that fits one of them,
            but not `schema`, is left out. Default: none.

    Returns:
        Pipeline: the enrichments as one callable.

    Raises:
        EnrichmentError: a file or a function cannot be loaded.

    Example:
        pipeline = load_enrichments(["network.toml"], flowbuf.Schema.load("flow"), on_problem=print)
    """
    problems: collections.deque[str] = collections.deque(maxlen=PROBLEMS)

    def report(problem: str) -> None:
        problems.append(problem)
        if on_problem is not None:
            on_problem(problem)

    steps: list[Enrichment] = []
    left_out: list[str] = []
    for spec in specs:
        try:
            steps.append(_load(spec, schema, clock, report))
        except EnrichmentError as error:
            if not any(_fits(spec, other) for other in others):
                raise
            left_out.append(str(error))
    return Pipeline(steps, schema, problems, left_out)


def _fits(spec: str | os.PathLike[str] | Callable[[Any], Any], schema: Schema) -> bool:
    """Return True if an enrichment can be loaded for a schema."""
    try:
        _load(spec, schema, time.monotonic, lambda problem: None)
    except EnrichmentError:
        return False
    return True


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
            "is not an enrichment", "name MODULE:FUNCTION, or a file that ends in .toml", origin=repr(text)
        )
    return Function(text, import_function(text), schema, report)


def _names(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))
