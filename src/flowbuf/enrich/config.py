"""Reader of the TOML file of static data, and its lookup tables.

    exporters  = "exporters.csv"        # columns: address, name, group, role, site, region, tenant
    interfaces = "interfaces.csv"    # address (of the exporter), index, name, description, speed, …
    networks   = "networks.csv"      # prefix, name, role, site, region, tenant, asn, country, state, city
    derive     = ["packet_size"]     # columns computed from other columns
    replace    = true                # interfaces of this file replace the names that exporters report

    [geo]                               # MaxMind databases
    country = "GeoLite2-Country.mmdb"

    [[exporter]]                        # the same records, inline
    address = "192.0.2.1"

    [[exporter.interface]]
    index = 1

    [[network]]
    prefix = "198.51.100.0/24"

    [[exporter_rule]]                   # see rules.py
    [[interface_rule]]

Paths are relative to the file. A key for a CSV file also accepts a list of files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flowbuf.enrich.derived import DERIVED
from flowbuf.enrich.prefixes import PrefixTable
from flowbuf.enrich.records import (
    EXPORTER,
    INTERFACE,
    LISTED_INTERFACE,
    NETWORK,
    SETTINGS,
    Kind,
    Record,
    check_keys,
    located,
    read_csv,
    read_table,
    read_tables,
)
from flowbuf.enrich.rules import EXPORTER_RULE, INTERFACE_RULE, Rule, RuleKind
from flowbuf.enrich.watch import FileState, look
from flowbuf.errors import EnrichmentError, did_you_mean
from flowbuf.schema.toml_json import DocumentError, parse_toml

__all__ = ["GEO", "Config", "read_config"]

TOP = (*SETTINGS, "geo", "exporter", "network", "exporter_rule", "interface_rule")
GEO = ("country", "city", "asn")


@dataclass
class Config:
    """The contents of the file `origin`.

    The sets of fields hold the keys that occur in the records. `files` holds all files that belong to it,
    with their state before reading.
    """

    origin: str
    exporters: PrefixTable[Record] = field(default_factory=PrefixTable)
    interfaces: PrefixTable[dict[int, Record]] = field(default_factory=PrefixTable)
    networks: PrefixTable[Record] = field(default_factory=PrefixTable)
    exporter_fields: set[str] = field(default_factory=set)
    interface_fields: set[str] = field(default_factory=set)
    network_fields: set[str] = field(default_factory=set)
    exporter_rules: tuple[Rule, ...] = ()
    interface_rules: tuple[Rule, ...] = ()
    geo: Mapping[str, str] = field(default_factory=dict)
    derive: tuple[str, ...] = ()
    replace: bool = False
    files: dict[str, FileState] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """Return the path of a file named in the configuration, and add it to `files`."""
        path = os.path.join(os.path.dirname(self.origin), name)
        self.files[path] = look(path)
        return path

    def add_exporter(self, record: dict[str, Any]) -> None:
        """Add an exporter, or a record for all exporters of a network."""
        prefix = record.pop("address")
        _check_once(self.exporters.insert(prefix, record), record, prefix)
        self.exporter_fields |= record.keys()

    def add_interface(self, record: dict[str, Any]) -> None:
        """Add an interface of an exporter, or of all exporters of a network."""
        prefix, index = record.pop("address"), record.pop("index")
        of_exporter = self.interfaces.insert(prefix, {})
        _check_once(of_exporter.setdefault(index, record), record, f"interface {index} of {prefix}")
        self.interface_fields |= record.keys()

    def add_network(self, record: dict[str, Any]) -> None:
        """Add a network, for the addresses of flows."""
        prefix = record["prefix"]
        record["prefix"] = str(prefix)
        _check_once(self.networks.insert(prefix, record), record, prefix)
        self.network_fields |= record.keys()


def _check_once(there: Record, record: Record, what: object) -> None:
    if there is not record:
        raise EnrichmentError(f"{what} occurs twice", "merge them into one")


def read_config(config: Config) -> None:
    """Fill an empty Config from its file and the CSV files.

    Raises EnrichmentError; `files` is filled even then.
    """
    config.files[config.origin] = look(config.origin)
    tables = _parse(config.origin)
    with located(config.origin):
        _check_top(tables)
        _read_settings(config, tables)
        _read_lists(config, tables)
        _read_records(config, tables)
        config.exporter_rules = tuple(_read_rules(EXPORTER_RULE, tables, "exporter_rule"))
        config.interface_rules = tuple(_read_rules(INTERFACE_RULE, tables, "interface_rule"))


def _parse(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_toml(file.read())
    except OSError as error:
        raise EnrichmentError(f"cannot be read: {os.strerror(error.errno or 0)}", origin=path) from None
    except UnicodeDecodeError:
        raise EnrichmentError("is not UTF-8 text", "write static data as a TOML file", origin=path) from None
    except DocumentError as error:
        raise EnrichmentError(str(error), origin=error.place(path)) from None


def _check_top(tables: Mapping[str, Any]) -> None:
    if "interface" in tables:
        raise EnrichmentError(
            "[[interface]] has no exporter", "write [[exporter.interface]] below its [[exporter]]"
        )
    check_keys(tables, TOP)


def _read_settings(config: Config, tables: Mapping[str, Any]) -> None:
    derive = tables.get("derive", [])
    if not isinstance(derive, list) or not all(isinstance(name, str) for name in derive):
        raise EnrichmentError(f"derive is {derive!r}", "write a list of columns")
    for name in derive:
        if name not in DERIVED:
            fix = did_you_mean(name, DERIVED) or f"columns that can be derived are {', '.join(DERIVED)}"
            raise EnrichmentError(f"derive: {name!r} cannot be derived", fix)
    config.derive = tuple(derive)
    replace = tables.get("replace", False)
    if not isinstance(replace, bool):
        raise EnrichmentError(f"replace is {replace!r}", "write true or false")
    config.replace = replace
    geo = tables.get("geo", {})
    if not isinstance(geo, dict):
        raise EnrichmentError(f"geo is {geo!r}", 'write [geo] and below it country = "…"')
    check_keys(geo, GEO, "key of [geo]:")
    config.geo = {key: config.path(_read_path(f"geo.{key}", name)) for key, name in geo.items()}


def _read_path(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise EnrichmentError(f"{key} is {value!r}", "write the path of a file")
    return value


def _read_lists(config: Config, tables: Mapping[str, Any]) -> None:
    _read_list(config, tables, "exporters", EXPORTER, config.exporter_fields, config.add_exporter)
    _read_list(config, tables, "interfaces", LISTED_INTERFACE, config.interface_fields, config.add_interface)
    _read_list(config, tables, "networks", NETWORK, config.network_fields, config.add_network)


def _read_list(
    config: Config,
    tables: Mapping[str, Any],
    key: str,
    kind: Kind,
    fields: set[str],
    add: Callable[[dict[str, Any]], None],
) -> None:
    """Read the records of the CSV files of a key."""
    names = tables.get(key, [])
    for name in names if isinstance(names, list) else [names]:
        header = read_csv(kind, config.path(_read_path(key, name)), add)
        fields |= header if kind is NETWORK else header - {*kind.required}


def _read_records(config: Config, tables: Mapping[str, Any]) -> None:
    for where, table in read_tables(tables.get("exporter", []), "exporter"):
        with located(where=where):
            interfaces = table.pop("interface", [])
            record = read_table(EXPORTER, table)
            prefix = record["address"]
            config.add_exporter(record)
        where = f"{where} ({prefix})"
        with located(where=where):
            below = list(read_tables(interfaces, "exporter.interface"))
        for inner, each in below:
            with located(where=f"{where}: {inner}"):
                config.add_interface({"address": prefix, **read_table(INTERFACE, each)})
    for where, table in read_tables(tables.get("network", []), "network"):
        with located(where=where):
            config.add_network(read_table(NETWORK, table))


def _read_rules(kind: RuleKind, tables: Mapping[str, Any], key: str) -> Iterator[Rule]:
    for where, table in read_tables(tables.get(key, []), key):
        with located(where=where):
            yield Rule.read(kind, table)
