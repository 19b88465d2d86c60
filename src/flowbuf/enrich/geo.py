"""MaxMind databases of locations and autonomous systems.

Databases of DB-IP and IPinfo in the same format work too.
"""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf.enrich.prefixes import MAPPED
from flowbuf.errors import EnrichmentError

__all__ = ["Databases"]

# Database types that can serve as each kind of database.
_TYPES = {
    "country": ("Country", "City", "Enterprise"),
    "city": ("City", "Enterprise"),
    "asn": ("ASN", "ISP", "Enterprise"),
}
_KNOWN_TYPES = {name for names in _TYPES.values() for name in names}


class Databases:
    """Open databases. `report` is called with each problem in their data."""

    def __init__(self, paths: Mapping[str, str], report: Callable[[str], None]) -> None:
        self._readers = {kind: _open(kind, path) for kind, path in paths.items()}
        self._paths = paths
        self._report = report
        fields = {"country": {"country"}, "city": {"country", "state", "city"}, "asn": {"asn"}}
        self.fields: set[str] = set().union(*(fields[kind] for kind in paths))

    def __bool__(self) -> bool:
        """Return True if there are databases."""
        return bool(self._readers)

    def find(self, address: bytes) -> dict[str, Any]:
        """Return the facts that the databases have about an address. Unknown facts are None or left out."""
        mapped = address[:12] == MAPPED
        text = (
            socket.inet_ntop(socket.AF_INET, address[12:])
            if mapped
            else socket.inet_ntop(socket.AF_INET6, address)
        )
        known: dict[str, Any] = {}
        for kind in ("asn", "city", "country"):
            known.update(
                {key: value for key, value in self._get(kind, text).items() if value and key in self.fields}
            )
        return known

    def _get(self, kind: str, address: str) -> dict[str, Any]:
        reader = self._readers.get(kind)
        if reader is None:
            return {}
        try:
            record = reader.get(address)
        except ValueError:  # an IPv6 address in a database for IPv4
            return {}
        except Exception as error:
            self._report(f"{self._paths[kind]}: {error}; the database is ignored until the file changes")
            self._readers[kind] = None
            return {}
        return _read_record(record) if isinstance(record, dict) else {}


def _open(kind: str, path: str) -> Any:
    try:
        import maxminddb
    except ImportError:
        raise EnrichmentError("[geo] needs maxminddb", "run pip install 'flowbuf[geo]'") from None
    try:
        reader = _open_copy(maxminddb.open_database, path)
        type = str(reader.metadata().database_type)
    except OSError as error:
        raise EnrichmentError(f"cannot be read: {error.strerror}", origin=path) from None
    except (maxminddb.InvalidDatabaseError, ValueError, TypeError):  # the last two without its extension
        raise EnrichmentError(
            "is not a MaxMind database", "name a file in the format .mmdb", origin=path
        ) from None
    said = set(re.findall("[A-Z][a-z]+|[A-Z]+", type)) & _KNOWN_TYPES
    if said and not said & {*_TYPES[kind]}:
        right = next(other for other in _TYPES if said & {*_TYPES[other]})
        raise EnrichmentError(f"geo.{kind} is a {type} database", f"did you mean {right} = …?", origin=path)
    return reader


def _open_copy(open_database: Callable[[str], Any], path: str) -> Any:
    """Open a copy of a database, whose name is removed at once. Readers map their file.

    If a download truncates a mapped file, the next lookup ends the process with SIGBUS.
    """
    try:
        with tempfile.NamedTemporaryFile() as copy, open(path, "rb") as file:
            shutil.copyfileobj(file, copy)
            copy.flush()
            return open_database(copy.name)
    except OSError:  # also if there is no place for a copy
        return open_database(path)


def _read_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a record, which MaxMind nests and IPinfo does not."""
    return {
        "country": _code(
            record.get("country_code") or record.get("country") or record.get("registered_country")
        ),
        "state": _state(record),
        "city": _name(record.get("city")),
        "asn": _asn(record),
    }


def _code(value: Any) -> str | None:
    code = value.get("iso_code") if isinstance(value, dict) else value
    return code if isinstance(code, str) and len(code) == 2 else None


def _state(record: dict[str, Any]) -> str | None:
    divisions = record.get("subdivisions")
    if isinstance(divisions, list) and divisions and isinstance(divisions[0], dict):
        code = divisions[0].get("iso_code")
        return code if isinstance(code, str) else _name(divisions[0])
    return _name(record.get("region"))


def _name(value: Any) -> str | None:
    if isinstance(value, dict):
        names = value.get("names")
        value = names.get("en") if isinstance(names, dict) else None
    return value if isinstance(value, str) and value else None


def _asn(record: dict[str, Any]) -> int | None:
    value = record.get("autonomous_system_number", record.get("asn"))
    if isinstance(value, str) and re.fullmatch("(AS)?[0-9]+", value):
        value = int(value.removeprefix("AS"))
    return value if isinstance(value, int) and 0 < value < 1 << 32 else None
