"""The built-in enrichment: static data from a TOML file, which is read again when its files change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from flowbuf.enrich.config import Config, read_config
from flowbuf.enrich.derived import Derived
from flowbuf.enrich.exporters import Exporters, Interfaces
from flowbuf.enrich.flows import Flows
from flowbuf.enrich.geo import Databases
from flowbuf.enrich.networks import Networks
from flowbuf.enrich.records import located
from flowbuf.enrich.watch import Watch
from flowbuf.errors import EnrichmentError, SchemaError
from flowbuf.schema import Column, Schema

__all__ = ["StaticData"]

PATIENCE = 0.1
"""Seconds for which a batch waits until changed files are read. Longer ones are used by a later batch."""


class Stage(Protocol):
    """A stage of the built-in enrichment."""

    provides: tuple[str, ...]
    needs: tuple[str, ...]

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch."""


class StaticData:
    """Fills columns from a TOML file and the files that it names.

    Changed files are read in a thread, so that flows need not wait for a long list.
    """

    def __init__(
        self, path: str, schema: Schema, clock: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self.name = path
        self._schema = schema
        self._report = report
        self._loading: tuple[Config, Future[tuple[Stage, ...]]] | None = None
        config = Config(path)
        self._stages = self._load(config)
        self.provides = _names(stage.provides for stage in self._stages)
        self.needs = _names(stage.needs for stage in self._stages)
        self._watch = Watch(clock)
        self._watch.start(config.files)

    def __call__(self, batch: Any) -> Any:
        """Return the batch with absent values filled."""
        if self._loading is None and self._watch.has_changed():
            self._begin_loading()
        if self._loading is not None and self._loading[1].done():
            self._end_loading(*self._loading)
        flows = Flows(batch, self._schema, frozenset(self.provides))
        with located(self.name):
            for stage in self._stages:
                stage.fill(flows)
        return flows.batch()

    def _load(self, config: Config) -> tuple[Stage, ...]:
        read_config(config)
        try:
            databases = Databases(config.geo, self._report)
            stages = (
                Exporters(config, self._schema),
                Interfaces(config, self._schema),  # after exporters, because its rules test them
                Networks(config, databases, self._schema),
                Derived(config.derive, self._schema),
            )
            for stage in stages:
                _check_types(stage, self._schema)
            return stages
        except EnrichmentError as error:
            raise error.located(self.name) from None
        except SchemaError as error:
            problem = f"fills columns that schema {self._schema.name!r} does not have: {error.problem}"
            raise EnrichmentError(problem, error.fix, origin=self.name) from None

    def _begin_loading(self) -> None:
        """Begin to read the files again. Wait for the end if it comes soon."""
        config, stages = Config(self.name), Future[tuple[Stage, ...]]()
        self._loading = config, stages

        def load() -> None:
            try:
                stages.set_result(self._load(config))
            except Exception as error:
                stages.set_exception(error)

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        thread.join(PATIENCE)

    def _end_loading(self, config: Config, loaded: Future[tuple[Stage, ...]]) -> None:
        """Use the files that were read. If that is not possible, keep the previous data and report it."""
        self._loading = None
        try:
            stages = loaded.result()
        except Exception as error:
            self._report(f"{error} (the data that was read before stays in use)")
            self._watch.start({**self._watch.files, **config.files})
            return
        new = [name for name in _names(stage.provides for stage in stages) if name not in self.provides]
        if new:
            self._report(f"{self.name}: new columns {', '.join(new)} are filled after a restart")
        self._stages = stages
        self._watch.start(config.files)


# Types for a column that has this type in the schema `flow`. An enum may lack members for some texts.
_INTEGERS = ("uint32", "uint64", "fixed32", "fixed64", "int64", "sint64")
_FILLED = {
    **{"string": ("string", "enum"), "enum": ("enum", "string")},
    **{"uint32": _INTEGERS, "uint64": ("uint64", "fixed64")},
}
_READ = {
    **{"ip": ("ip",)},
    **dict.fromkeys(("uint8", "uint32", "uint64"), ("uint8", "uint16", "int32", "sint32", *_INTEGERS)),
}


def _check_types(stage: Stage, schema: Schema) -> None:
    """Raise EnrichmentError if a stage cannot fill or read a column, because of its type in the schema."""
    flow = Schema.load("flow")
    for verb, names, types in (("filled", stage.provides, _FILLED), ("read", stage.needs, _READ)):
        for name in names:
            if name in schema and not _is_like(schema[name], flow[name], types):
                problem = f"is {_describe(schema[name])} in schema {schema.name!r} and cannot be {verb}"
                fix = f"make it {_describe(flow[name])}"
                raise EnrichmentError(problem, fix, where=f"column {name!r}")


def _is_like(column: Column, usual: Column, types: Mapping[str, tuple[str, ...]]) -> bool:
    return column.type in types[usual.type] and column.repeated == usual.repeated


def _describe(column: Column) -> str:
    return f"{'a list of ' if column.repeated else ''}{column.type}"


def _names(groups: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))
