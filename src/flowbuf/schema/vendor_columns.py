"""Columns for the elements of vendors. A schema gets them when they are enabled: `--enable group:cert`.

Each element has one column. Its number follows from the vendor and the id of the element, so that it never
changes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from flowbuf.schema import elements
from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.elements import Element

__all__ = [
    *("FIRST_NUMBER", "VENDORS", "column_name", "column_type", "names_of_vendor", "vendor_names"),
    "with_vendor_columns",
]

FIRST_NUMBER = 1 << 20
"""Smallest number of a column in this module."""

VENDORS = (
    *("asa", "astaro", "barracuda", "cert", "cesnet", "cisco", "flowmon", "gigamon", "huawei", "ixia"),
    *("juniper", "muni", "netfilter", "netscaler", "niagara", "nokia", "ntop", "paloalto", "plixer"),
    *("procera", "silverpeak", "velocloud", "viptela", "vmware"),
    *("antrea", "cace", "cgnx", "f5", "fastip", "fokus", "netgauze", "pmacct", "ssr"),
)
"""Vendors in the order of their numbers. Append new ones, so that no number changes."""

_TYPES: dict[str, dict[str, str]] = {
    **{f"unsigned{bits}": {"type": f"uint{bits}"} for bits in (8, 16, 32, 64)},
    **{f"signed{bits}": {"type": "sint32"} for bits in (8, 16, 32)},
    **{"signed64": {"type": "sint64"}, "float32": {"type": "float"}, "float64": {"type": "double"}},
    **{"boolean": {"type": "bool"}, "macAddress": {"type": "mac"}, "string": {"type": "string"}},
    **{"ipv4Address": {"type": "ip"}, "ipv6Address": {"type": "ip"}, "octetArray": {"type": "bytes"}},
    "dateTimeSeconds": {"type": "timestamp", "unit": "s"},
    "dateTimeMilliseconds": {"type": "timestamp", "unit": "ms"},
    "dateTimeMicroseconds": {"type": "timestamp", "unit": "us"},
    "dateTimeNanoseconds": {"type": "timestamp", "unit": "ns"},
}
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def column_type(data_type: str) -> dict[str, str]:
    """Return the type of a column for a data type of RFC 7012, as keys of a column. Empty for lists."""
    return {} if data_type.endswith("List") else dict(_TYPES.get(data_type, {"type": "bytes"}))


def column_name(element: Element) -> str:
    """Return a name for an element's column: `cert_silk_app_label` for `silkAppLabel` of cert."""
    words = element.name.replace("IPv", "Ipv").replace("MCast", "Mcast")
    if words != words.upper():  # names in capitals have underscores already
        words = _WORD_ENDS.sub("_", words)
    words = words.lower()
    prefix = f"{element.vendor}_" if element.vendor else ""
    return prefix + words.removeprefix(prefix)


def with_vendor_columns(
    columns: Mapping[str, Column], names: Iterable[str], reserved: Iterable[Reserved] = ()
) -> Mapping[str, Column]:
    """Return the columns, and those of vendors that the names select. A name stays that of an own column.

    Args:
        columns: Columns by name.
        names: Names of columns, or of groups such as "group:cert".
        reserved: Retired columns, which are left out.
    """
    groups = {column.group for column in columns.values() if column.number < FIRST_NUMBER}
    taken = {*columns, *(old.name for old in reserved)}
    added: dict[str, Column] = {}
    for name in names:
        group = name.removeprefix("group:")
        if name in taken or group in groups:
            continue
        vendor = group if group in VENDORS else name.partition("_")[0]
        found = _columns_of(vendor) if vendor in VENDORS else {}
        if vendor == group:
            added |= {each: column for each, column in found.items() if each not in taken}
        elif name in found:
            added[name] = found[name]
    if not added:
        return columns
    return dict(sorted({**columns, **added}.items(), key=lambda item: item[1].number))


def names_of_vendor(name: str) -> tuple[str, ...]:
    """Return the names of all columns of the vendor with which a name begins; none for another name."""
    vendor = name.partition("_")[0]
    return tuple(_columns_of(vendor)) if vendor in VENDORS else ()


def vendor_names(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words, in lower case, that are names of columns of vendors."""
    return tuple(dict.fromkeys(word for word in words if word in names_of_vendor(word)))


@functools.cache
def _columns_of(vendor: str) -> dict[str, Column]:
    """Return the columns of a vendor. Elements of IPFIX and NetFlow v9 with the same name share one."""
    together: dict[str, list[Element]] = {}
    for element in elements.of_vendor(vendor):
        together.setdefault(column_name(element), []).append(element)
    return {name: _new_column(name, same) for name, same in together.items()}


def _new_column(name: str, same: list[Element]) -> Column:
    element, *others = same
    sources = [f"{element.vendor}:{element.name}", *map(_number_of, others)]
    table: dict[str, Any] = {
        "name": name,
        "number": FIRST_NUMBER + (VENDORS.index(element.vendor) << 16) + element.id,
        **column_type(element.data_type),
        "group": element.vendor,
        "enabled": False,
        "sources": [sources],
        "doc": f"Element {element.name} of the vendor {element.vendor}",
    }
    return Column.from_table(table, "vendor_elements.csv")


def _number_of(element: Element) -> str:
    return f"ipfix:{element.pen}/{element.id}" if element.pen else f"netflow9:{element.id}"
