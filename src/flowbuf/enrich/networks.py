"""The endpoints of a flow: their networks, locations and autonomous systems."""

from __future__ import annotations

import functools

from flowbuf._core import NetworkTable
from flowbuf.enrich.config import Config
from flowbuf.enrich.fill_columns import fill_columns
from flowbuf.enrich.flows import Flows
from flowbuf.enrich.geo import Databases
from flowbuf.enrich.lookup import AddressLookup, Results
from flowbuf.enrich.prefixes import PrefixTable
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
        self._databases = databases
        said = config.network_fields | databases.fields
        self._fields = [field for field in COLUMNS if field in said]
        self._names = {side: [f"{side}_{COLUMNS[field]}" for field in self._fields] for side in SIDES}
        self.provides = tuple(name for names in self._names.values() for name in names)
        self.needs: tuple[str, ...] = ("src_addr", "dst_addr") if said else ()
        self._records = NetworkRecords(config.networks)
        self._lookup = AddressLookup([schema[name] for name in self._names["src"]], self._find)

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch."""
        for side in SIDES:
            addresses = flows.get(f"{side}_addr")
            if addresses is not None:
                find = functools.partial(self._lookup.find, addresses)
                fill_columns(flows, self._names[side], find)

    def _find(self, addresses: bytes, results: Results) -> list[int]:
        """Return the numbers of the results for addresses of 16 bytes."""
        networks = self._records.find(addresses)
        if self._databases:
            places = range(0, len(addresses), 16)
            return [
                self._add(results, {**self._databases.find(addresses[at : at + 16]), **listed})
                for at, listed in zip(places, map(self._records.record, networks), strict=True)
            ]
        rows = {network: self._add(results, self._records.record(network)) for network in set(networks)}
        return [rows[network] for network in networks]

    def _add(self, results: Results, known: Record) -> int:
        return results.add(tuple(map(known.get, self._fields)))


class NetworkRecords:
    """The records of networks, each with the fields that it takes from the networks around it."""

    def __init__(self, networks: PrefixTable[Record]) -> None:
        entries = list(networks)
        self._table = NetworkTable(prefix.packed() for prefix, _ in entries)
        self._own = [record for _, record in entries]
        self._whole: dict[int, Record] = {-1: {}}

    def find(self, addresses: bytes) -> memoryview:
        """Return the number of the longest network of each address of 16 bytes, or -1."""
        return memoryview(self._table.find(addresses)).cast("i")

    def record(self, network: int) -> Record:
        """Return the record of a network. That of network -1 is empty."""
        known = self._whole.get(network)
        if known is None:
            known = self._whole[network] = {**self.record(self._table.outer[network]), **self._own[network]}
        return known
