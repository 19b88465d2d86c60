"""Records of static data: exporters, interfaces, networks.

Tables of a TOML file and rows of a CSV file are checked by the same rules.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flowbuf.enrich.prefixes import Prefix, parse_prefix
from flowbuf.errors import EnrichmentError, did_you_mean

__all__ = [
    "EXPORTER",
    "INTERFACE",
    "LISTED_INTERFACE",
    "NETWORK",
    "Kind",
    "Record",
    "check_keys",
    "located",
    "read_csv",
    "read_table",
    "read_tables",
]

SETTINGS = ("exporters", "interfaces", "networks", "derive", "replace")
"""Keys of a file that are not tables."""

MAX_32 = (1 << 32) - 1
Record = dict[str, Any]


def text(value: Any) -> str:
    """Return a value that must be a string."""
    if not isinstance(value, str):
        raise EnrichmentError(f"is {value!r}", "write a string")
    return value


def prefix(value: Any) -> Prefix:
    """Return an address or network."""
    if not isinstance(value, str):
        raise EnrichmentError(f"is {value!r}", "write an address or a network as a string")
    return parse_prefix(value)


def number(lowest: int, what: str) -> Callable[[Any], int]:
    """Return a reader of integers from `lowest` to 2^32 - 1, which CSV files give as digits."""

    def read(value: Any) -> int:
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 100:
            value = int(value)
        if type(value) is not int or not lowest <= value <= MAX_32:
            raise EnrichmentError(f"is {value!r}", f"write {what}, a whole number from {lowest} to {MAX_32}")
        return value

    return read


def country(value: Any) -> str:
    """Return a country code of ISO 3166-1."""
    if not isinstance(value, str) or not re.fullmatch("[A-Z]{2}", value):
        raise EnrichmentError(f"is {value!r}", "write the two capital letters of ISO 3166-1, such as DE")
    return value


def boundary(value: Any) -> str:
    """Return the boundary of an interface: external or internal."""
    if value not in ("external", "internal"):
        raise EnrichmentError(f"is {value!r}", "write external or internal")
    return str(value)


@contextlib.contextmanager
def located(origin: str = "", where: str = "") -> Iterator[None]:
    """Add the file, and the place in it, to an EnrichmentError without them."""
    try:
        yield
    except EnrichmentError as error:
        raise error.located(origin, where) from None


@dataclass(frozen=True)
class Kind:
    """A kind of record: a reader per key, and the required keys."""

    name: str
    keys: Mapping[str, Callable[[Any], Any]]
    required: tuple[str, ...]


EXPORTER = Kind(
    "exporter",
    {"address": prefix, **dict.fromkeys(("name", "group", "role", "site", "region", "tenant"), text)},
    ("address",),
)
INTERFACE = Kind(
    "interface",
    {
        "index": number(1, "the ifIndex"),
        **dict.fromkeys(("name", "description"), text),
        "speed": number(0, "Mb/s"),
        **dict.fromkeys(("connectivity", "provider"), text),
        "boundary": boundary,
    },
    ("index",),
)
LISTED_INTERFACE = Kind("interface", {"address": prefix, **INTERFACE.keys}, ("address", "index"))
NETWORK = Kind(
    "network",
    {
        "prefix": prefix,
        **dict.fromkeys(("name", "role", "site", "region", "tenant"), text),
        "asn": number(0, "the number of an autonomous system"),
        "country": country,
        **dict.fromkeys(("state", "city"), text),
    },
    ("prefix",),
)


def check_keys(
    table: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], what: str = "key"
) -> None:
    """Raise EnrichmentError for an unknown key."""
    for key in table:
        if key not in known:
            fix = did_you_mean(key, known) or f"choose from {', '.join(known)}"
            if key in SETTINGS:
                fix = "move it above the first table"
            raise EnrichmentError(f"unknown {what} {key!r}", fix)


def read_table(kind: Kind, table: Mapping[str, Any]) -> Record:
    """Return the record of a table, without empty values such as "" and 0. Raises EnrichmentError."""
    check_keys(table, kind.keys)
    return _read_values(kind, table)


def _read_values(kind: Kind, table: Mapping[str, Any]) -> Record:
    """Return the record of a table with known keys."""
    for key in kind.required:
        if key not in table:
            raise EnrichmentError(f"has no {key}", f"add {key} = …")
    record: Record = {}
    for key, value in table.items():
        try:
            known = kind.keys[key](value)
        except EnrichmentError as error:
            problem = (
                f"{key} {error.problem}" if error.problem.startswith("is ") else f"{key}: {error.problem}"
            )
            raise EnrichmentError(problem, error.fix) from None
        if known:
            record[key] = known
    return record


def read_tables(value: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of `[[key]]`, each with its name in errors."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise EnrichmentError(f"{key} is not a list of tables", f"write [[{key}]]")
    for i, table in enumerate(value, 1):
        yield f"[[{key}]] {i}", table


def read_csv(kind: Kind, path: str, add: Callable[[Record], None]) -> frozenset[str]:
    """Read a CSV file. Call `add` with each record, and return the columns.

    Raises EnrichmentError, which has the line, also of an error that `add` raises.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = _read_header(kind, rows, path)
            try:
                for row in rows:
                    if row:
                        add(_read_row(kind, header, row))
            except EnrichmentError as error:
                raise error.located(f"{path}:{rows.line_num}") from None
            return frozenset(header)
    except OSError as error:
        raise EnrichmentError(f"cannot be read: {os.strerror(error.errno or 0)}", origin=path) from None
    except UnicodeDecodeError:
        raise EnrichmentError("is not UTF-8 text", "save the file as UTF-8", origin=path) from None
    except csv.Error as error:
        raise EnrichmentError(f"is not CSV: {error}", origin=f"{path}:{rows.line_num}") from None


def _read_header(kind: Kind, rows: Iterator[list[str]], path: str) -> list[str]:
    with located(f"{path}:1"):
        header = [name.strip() for name in next(rows, [])]
        check_keys(dict.fromkeys(header), kind.keys, "column")
        for key in kind.required:
            if key not in header:
                raise EnrichmentError(
                    f"has no column {key!r}",
                    f"write the column names in the first line: {', '.join(kind.keys)}",
                )
        if len(set(header)) < len(header):
            raise EnrichmentError("has a column twice", "remove one")
    return header


def _read_row(kind: Kind, header: list[str], row: list[str]) -> Record:
    if len(row) != len(header):
        fix = "quote cells that contain commas" if len(row) > len(header) else "write empty cells too"
        raise EnrichmentError(f"has {len(row)} cells, the header has {len(header)}", fix)
    cells = zip(header, map(str.strip, row), strict=True)
    return _read_values(kind, {key: cell for key, cell in cells if cell})
