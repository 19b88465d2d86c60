"""Exporters and their interfaces, from static data and rules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flowbuf.enrich.config import Config
from flowbuf.enrich.fill_columns import fill_columns
from flowbuf.enrich.flows import Flows
from flowbuf.enrich.lookup import Distinct, Found, Lookup
from flowbuf.enrich.records import EXPORTER, INTERFACE
from flowbuf.enrich.rules import apply
from flowbuf.schema import Schema

__all__ = ["Exporters", "Interfaces"]

SIDES = ("in", "out")
Key = tuple[Any, ...]


class Exporters:
    """Fills `exporter_…` by `exporter_address`."""

    def __init__(self, config: Config, schema: Schema) -> None:
        self._config = config
        said = config.exporter_fields.union(*(rule.values for rule in config.exporter_rules))
        self._fields = [field for field in EXPORTER.keys if field in said]
        self.provides = tuple(f"exporter_{field}" for field in self._fields)
        self.needs: tuple[str, ...] = ("exporter_address",) if said else ()
        self._by_name = any("name" in rule.fields for rule in config.exporter_rules)
        self._lookup = Lookup([schema[name] for name in self.provides], self._find)

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch."""
        if flows.get("exporter_address") is not None:
            fill_columns(flows, self.provides, lambda: self._lookup.find(self._keys(flows)))

    def _keys(self, flows: Flows) -> Distinct:
        addresses = Distinct.of(flows.get("exporter_address"))
        return addresses.join(flows.get_filled("exporter_name") if self._by_name else None)

    def _find(self, key: Key) -> tuple[Any, ...]:
        address, name = key
        if address is None:
            return (None,) * len(self._fields)
        known = {"name": name} if name else {}
        for _, record in self._config.exporters.matches(address):
            known = {**record, **known}
        apply(self._config.exporter_rules, {"address": address, "name": known.get("name")}, known)
        return tuple(known.get(field) for field in self._fields)


class Interfaces:
    """Fills `in_if_…` and `out_if_…` by `exporter_address` and `in_if` or `out_if`."""

    def __init__(self, config: Config, schema: Schema) -> None:
        self._config = config
        said = config.interface_fields.union(*(rule.values for rule in config.interface_rules))
        self._fields = [field for field in INTERFACE.keys if field in said]
        self._names = {side: [f"{side}_if_{field}" for field in self._fields] for side in SIDES}
        self.provides = tuple(name for names in self._names.values() for name in names)
        self.needs: tuple[str, ...] = ("exporter_address", "in_if", "out_if") if said else ()
        asked = set().union(*(rule.fields for rule in config.interface_rules))
        self._exporter_asked = sorted(field for field in asked if field.startswith("exporter_"))
        self._own_asked = sorted(asked & {"name", "description", "speed"})
        # One Lookup for both sides, because their columns have the same types.
        self._lookup = Lookup([schema[name] for name in self._names["in"]], self._find)

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch."""
        if flows.get("exporter_address") is None:
            return
        exporters = functools.cache(lambda: self._exporter_keys(flows))  # shared by both sides
        for side in SIDES:
            if flows.get(f"{side}_if") is not None:
                fill_columns(
                    flows,
                    self._names[side],
                    functools.partial(self._look_up, flows, side, exporters),
                    self._config.replace,
                )

    def _exporter_keys(self, flows: Flows) -> Distinct:
        keys = Distinct.of(flows.get("exporter_address"))
        for field in self._exporter_asked:
            keys = keys.join(flows.get_filled(field))
        return keys

    def _look_up(self, flows: Flows, side: str, exporters: Callable[[], Distinct]) -> Found:
        keys = exporters().join(flows.get(f"{side}_if"))
        for field in self._own_asked:
            keys = keys.join(flows.get_filled(f"{side}_if_{field}"))
        return self._lookup.find(keys)

    def _find(self, key: Key) -> tuple[Any, ...]:
        names = ("address", *self._exporter_asked, "index", *self._own_asked)
        subject = dict(zip(names, key, strict=True))
        address, index = subject["address"], subject["index"]
        if address is None or not index:
            return (None,) * len(self._fields)
        reported = {field: subject[field] for field in self._own_asked if subject[field]}
        known = {} if self._config.replace else reported
        for _, by_index in self._config.interfaces.matches(address):
            known = {**by_index.get(index, {}), **known}
        subject.update((field, known.get(field) or reported.get(field)) for field in self._own_asked)
        apply(self._config.interface_rules, subject, known)
        return tuple(known.get(field) for field in self._fields)
