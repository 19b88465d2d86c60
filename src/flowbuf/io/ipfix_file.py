"""Write IPFIX files (RFC 5655): choose the information element of each column.

The core builds the messages.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from flowbuf import _core
from flowbuf.errors import SchemaError
from flowbuf.schema import Schema
from flowbuf.schema import elements as registry
from flowbuf.schema.column import Column
from flowbuf.schema.elements import Element
from flowbuf.schema.source import Source

__all__ = ["IpfixColumns", "choose_elements", "new_writer"]

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_TIMES = {
    "dateTimeSeconds": ("seconds", 4, 10**9),
    "dateTimeMilliseconds": ("milliseconds", 8, 10**6),
    "dateTimeMicroseconds": ("ntp", 8, 10**3),
    "dateTimeNanoseconds": ("ntp", 8, 1),
}
"""Kind, size, and nanoseconds per unit of each type of time."""
_DURATIONS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_ZIGZAG = ("sint32", "sint64")
_SIGNED = ("int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "fixed32", "fixed64", "enum")
_OCTETS = {"string": ("string",), "bytes": ("octetArray", "string")}
_FLOATS = {("float", "float32"): 4, ("double", "float64"): 8}
_DERIVED = {"derived:sampling_rate": "samplingInterval"}
"""Elements that state the value of a derived source."""

_MEMBERS = {
    "bgpSourceCommunityList": "bgpCommunity",
    "bgpDestinationCommunityList": "bgpCommunity",
    "bgpSourceAsPathList": "bgpSourceAsNumber",
    "bgpDestinationAsPathList": "bgpDestinationAsNumber",
}
"""Elements of the members of lists of 4 bytes."""

_CoreColumn = tuple[int, int, int, tuple[int, int], int, int, int, dict[int, int]]


@dataclass(frozen=True)
class IpfixColumns:
    """Columns of a schema as information elements.

    Attributes:
        columns: Columns for the writer of the core.
        left_out: Names of the enabled columns without an element.
        time: Field number and unit of the column with the export time, or None.
    """

    columns: list[_CoreColumn]
    left_out: list[str]
    time: tuple[int, int] | None


def choose_elements(schema: Schema) -> IpfixColumns:
    """Choose the element of each enabled column: its best source that can hold the values of the column.

    Of columns with the same element, only the first has it: a reader could not tell their values apart.

    Raises:
        SchemaError: No column has an element, or too many have one.
    """
    columns: list[_CoreColumn] = []
    left_out: list[str] = []
    used: set[tuple[int, int]] = set()
    chosen_time = None
    for column in sorted(schema.enabled, key=lambda column: column.number):
        texts = {source.text for source in _sources(column)}
        if column.type == "timestamp" and "meta:time_received" in texts:
            chosen_time = column.number, _UNITS[column.unit or "s"]
            continue
        found = _choose(column)
        keys = {(found[5], element) for element in found[3] if element} if found else set()
        if found and not keys & used:
            columns.append(found)
            used |= keys
        else:
            left_out.append(column.name)
    if not columns:
        raise SchemaError("no enabled column has an IPFIX element", "write --format pb, or enable others")
    if len(columns) > _core.MAX_IPFIX_COLUMNS:
        raise SchemaError(
            f"{len(columns)} columns have IPFIX elements; a file holds {_core.MAX_IPFIX_COLUMNS}",
            "choose fewer with --columns",
        )
    return IpfixColumns(columns, left_out, chosen_time)


def new_writer(chosen: IpfixColumns) -> _core.IpfixWriter:
    """Return a writer of the core. Without a column of times, messages have the time of this call."""
    return _core.IpfixWriter(chosen.columns, chosen.time, int(time.time()))


def _sources(column: Column) -> Iterable[Source]:
    return (source for rank in column.sources for source in rank)


def _elements_of(rank: Iterable[Source]) -> list[Element]:
    """Return the elements of a rank, for IPFIX only. Enterprise elements by number have no type."""
    found = []
    for source in rank:
        element = source.element
        if source.text in _DERIVED:
            element = registry.by_name(_DERIVED[source.text])
        elif source.kind != "ipfix" or source.occurrence:
            element = None
        if element and element.id < 0x8000:
            found.append(element)
    return found


def _choose(column: Column) -> _CoreColumn | None:
    if column.repeated:
        return _choose_list(column)
    for rank in column.sources:
        equals = _elements_of(rank)
        for element in equals:
            form = _form(column, element)
            if form:
                kind, size, unit = form
                other = _other_family(element, equals)
                elements = _by_family(element, other, column.type == "ip")
                mapping = {member: number for number, member in column.map.items()}
                return (
                    *(column.number, _core.IPFIX_KINDS[kind], size, elements),
                    *(0, element.pen, unit, mapping),
                )
    return None


def _choose_list(column: Column) -> _CoreColumn | None:
    for element in (element for rank in column.sources for element in _elements_of(rank)):
        if element.name in _MEMBERS and column.type == "uint32":
            member = registry.by_name(_MEMBERS[element.name])
            kind = _core.IPFIX_KINDS["list"]
            return (column.number, kind, 4, (element.id, element.id), member.id if member else 0, 0, 0, {})
    return None


def _other_family(element: Element, equals: Iterable[Element]) -> Element | None:
    """Return the element with the same meaning for flows of the other IP version."""
    name = re.sub(r"IPv[46]", "IPv?", element.name)
    for other in equals:
        if other is not element and re.sub(r"IPv[46]", "IPv?", other.name) == name:
            return other
    return None


def _by_family(element: Element, other: Element | None, is_address: bool) -> tuple[int, int]:
    """Return the elements for IPv4 and for IPv6. 0: there is none."""
    if other:
        return (element.id, other.id) if "IPv4" in element.name else (other.id, element.id)
    if is_address:
        return (element.id, 0) if element.data_type == "ipv4Address" else (0, element.id)
    return element.id, element.id


def _form(column: Column, element: Element) -> tuple[str, int, int] | None:
    """Return kind, size and unit of the values in a record. None: the element does not suit the column."""
    kind, data_type = column.type, element.data_type
    if kind == "timestamp":
        return _time_form(column, data_type)
    if kind == "ip":
        return ("address", 0, 0) if data_type in ("ipv4Address", "ipv6Address") else None
    if kind == "mac":
        return ("unsigned", 6, 0) if data_type == "macAddress" else None
    if kind == "bool":
        return ("boolean", 1, 0) if data_type == "boolean" else None
    if kind in _OCTETS:
        return ("octets", 0, 0) if data_type in _OCTETS[kind] else None
    if kind in ("float", "double"):
        size = _FLOATS.get((kind, data_type))
        return ("float", size, 0) if size else None
    return _number_form(column, element)


def _time_form(column: Column, data_type: str) -> tuple[str, int, int] | None:
    unit = _UNITS[column.unit or "s"]
    form = _TIMES.get(data_type)
    if form is None or form[2] != unit:
        return None  # another source has the unit of the column
    return form[0], form[1], unit


def _number_form(column: Column, element: Element) -> tuple[str, int, int] | None:
    match = re.fullmatch(r"(un)?signed(8|16|32|64)", element.data_type)
    if not match:
        return None
    size = int(match[2]) // 8
    if column.type == "duration":
        if _DURATIONS.get(element.units) != column.unit:
            return None
        return ("unsigned" if match[1] else "signed"), size, 0
    if column.type in _UNSIGNED:
        return "unsigned", size, 0
    if match[1]:
        return None
    if column.type in _ZIGZAG:
        return "zigzag", size, 0
    return ("signed", size, 0) if column.type in _SIGNED else None
