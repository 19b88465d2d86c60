"""The information elements of IPFIX (RFC 7012), as the IANA registry lists them; NetFlow v9 uses the same ids."""

from __future__ import annotations

import csv
import functools
import importlib
import os
from dataclasses import dataclass

__all__ = ["Element", "all", "by_id", "by_name", "data_folder"]


@dataclass(frozen=True)
class Element:
    """One row of the registry. `semantics` and `units` are empty where it gives none; `pen` 0 is IANA's own."""

    id: int
    name: str
    data_type: str
    semantics: str
    units: str
    status: str
    pen: int = 0


def data_folder() -> str:
    """Where the registry and the built-in schemas are. `importlib.resources` would say so too, but to import it takes a
    tenth of the time in which `flowbuf` starts."""
    return os.fspath(importlib.import_module("flowbuf.schemas").__path__[0])


@functools.cache
def all() -> tuple[Element, ...]:
    """Every element, by id. Rows without a data type (reserved ids) are no elements and left out."""
    with open(os.path.join(data_folder(), "ipfix_elements.csv"), encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    return tuple(
        Element(int(row["element_id"]), row["name"], row["data_type"], row["semantics"], row["units"], row["status"])
        for row in table
        if row["data_type"]
    )


@functools.cache
def _names() -> dict[str, Element]:
    return {element.name: element for element in all()}


@functools.cache
def _ids() -> dict[int, Element]:
    return {element.id: element for element in all()}


def by_name(name: str) -> Element | None:
    """The element of this name (case counts), or None."""
    return _names().get(name)


def by_id(id: int) -> Element | None:
    """The element of this id, or None."""
    return _ids().get(id)
