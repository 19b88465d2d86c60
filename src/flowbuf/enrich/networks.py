"""The endpoints of a flow: their networks, locations and autonomous systems."""

from __future__ import annotations

import functools
from typing import Any

from flowbuf.enrich.config import Config
from flowbuf.enrich.fill_columns import fill_columns
from flowbuf.enrich.flows import Flows
from flowbuf.enrich.geo import Databases
from flowbuf.enrich.lookup import Distinct, Found, Lookup
from flowbuf.enrich.records import Record
from flowbuf.schema import Schema

__all__ = ["Networks"]

SIDES = ("src", "dst")
COLUMNS = {
    **{field: f"net_{field}" for field in ("name", "role", "site", "region", "tenant", "prefix")},
    **{"country": "country", "state": "geo_state", "city": "geo_city", "asn": "as"},
}


class Networks:
    """Fills `src_…` by `src_addr`, and `dst_…` by `dst_addr`.

    Lists of networks take precedence over databases.
    """

    def __init__(self, config: Config, databases: Databases, schema: Schema) -> None:
        self._networks = config.networks
        self._databases = databases
        said = config.network_fields | databases.fields
        self._fields = [field for field in COLUMNS if field in said]
        self._names = {side: [f"{side}_{COLUMNS[field]}" for field in self._fields] for side in SIDES}
        self.provides = tuple(name for names in self._names.values() for name in names)
        self.needs: tuple[str, ...] = ("src_addr", "dst_addr") if said else ()
        self._nothing = (None,) * len(self._fields)
        self._lookup = Lookup([schema[name] for name in self._names["src"]], self._find)

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch."""
        for side in SIDES:
            addresses = flows.get(f"{side}_addr")
            if addresses is not None:
                find = functools.partial(self._look_up, addresses)
                fill_columns(flows, self._names[side], find)

    def _look_up(self, addresses: Any) -> Found:
        return self._lookup.find(Distinct.of(addresses))

    def _find(self, address: bytes | None) -> tuple[Any, ...]:
        if address is None:
            return self._nothing
        known = self._databases.find(address)
        listed: Record = {}
        for _, record in self._networks.matches(address):
            listed = {**record, **listed} if listed else record
        if known:
            listed = {**known, **listed}
        return tuple(map(listed.get, self._fields)) if listed else self._nothing
