"""The IPFIX information elements of the IANA registry (RFC 7012) and of vendors.

NetFlow v9 uses the ids of the registry too, and private ids above 32767.
"""

from __future__ import annotations

import csv
import functools
import importlib
import os
from dataclasses import dataclass

__all__ = [
    *("Element", "all", "by_id", "by_name", "by_number", "data_folder", "find_vendor_element"),
    *("of_vendor", "private_by_name", "vendors"),
]

NETFLOW9 = "netflow9"
"""Enterprise number in vendor_elements.csv of the private ids of NetFlow v9."""


@dataclass(frozen=True)
class Element:
    """One row of a registry.

    Attributes:
        id: Number of the element. Ids above 32767 are private ids of NetFlow v9.
        name: Name, unique among the elements of IANA or of a vendor.
        data_type: Abstract data type of RFC 7012. Empty if it is unknown, which only elements of vendors are.
        semantics: Semantics of RFC 7012, or empty.
        units: Units, or empty.
        status: Status in the registry of IANA.
        pen: Enterprise number; 0 for elements of IANA and of NetFlow v9.
        vendor: Name of the vendor in sources; empty for elements of IANA.
    """

    id: int
    name: str
    data_type: str
    semantics: str
    units: str
    status: str
    pen: int = 0
    vendor: str = ""


def data_folder() -> str:
    """Return the folder of the registry and the built-in schemas.

    `importlib.resources` is not used: its import takes a tenth of the start-up time of `flowbuf`.
    """
    return os.fspath(importlib.import_module("flowbuf.schemas").__path__[0])


def _read(name: str) -> list[dict[str, str]]:
    with open(os.path.join(data_folder(), name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def all() -> tuple[Element, ...]:
    """Return every element, by id. Rows without a data type are reserved ids and are left out."""
    return tuple(
        Element(
            int(row["element_id"]),
            row["name"],
            row["data_type"],
            row["semantics"],
            row["units"],
            row["status"],
        )
        for row in _read("ipfix_elements.csv")
        if row["data_type"]
    )


@functools.cache
def _names() -> dict[str, Element]:
    return {element.name: element for element in all()}


@functools.cache
def _ids() -> dict[int, Element]:
    return {element.id: element for element in all()}


def by_name(name: str) -> Element | None:
    """Return the element with this name (case-sensitive), or None."""
    return _names().get(name)


def by_id(id: int) -> Element | None:
    """Return the element with this id, or None."""
    return _ids().get(id)


# Vendors ----------------------------------------------------------------------------------------------------


@functools.cache
def _vendor_elements() -> dict[tuple[int, int], Element]:
    """Return the elements of all vendors by enterprise number and id. Private ids of NetFlow v9 have 0."""
    found = {}
    for row in _read("vendor_elements.csv"):
        pen = 0 if row["pen"] == NETFLOW9 else int(row["pen"])
        id = int(row["element_id"])
        found[pen, id] = Element(id, row["name"], row["data_type"], "", row["units"], "", pen, row["vendor"])
    return found


@functools.cache
def _by_vendor() -> dict[str, list[Element]]:
    found: dict[str, list[Element]] = {}
    for element in _vendor_elements().values():
        found.setdefault(element.vendor, []).append(element)
    return found


def vendors() -> tuple[str, ...]:
    """Return the names of vendors, as in the source `cert:silkAppLabel`."""
    return tuple(_by_vendor())


def of_vendor(vendor: str) -> tuple[Element, ...]:
    """Return the elements of a vendor, those of IPFIX first; none for an unknown vendor."""
    return tuple(_by_vendor().get(vendor, ()))


def find_vendor_element(vendor: str, name: str) -> Element | None:
    """Return the element of a vendor with this name (case-sensitive), or None.

    An element of IPFIX precedes a private id of NetFlow v9 with the same name.
    """
    return next((element for element in of_vendor(vendor) if element.name == name), None)


def private_by_name(name: str) -> Element | None:
    """Return the element with this name among the private ids of NetFlow v9, or None."""
    private = (element for element in _vendor_elements().values() if not element.pen)
    return next((element for element in private if element.name == name), None)


def by_number(pen: int, id: int) -> Element | None:
    """Return the element with these numbers, of IANA or of a vendor, or None.

    Args:
        pen: Enterprise number; 0 for elements of IANA and of NetFlow v9.
        id: Number of the element.
    """
    return by_id(id) if not pen and id in _ids() else _vendor_elements().get((pen, id))
