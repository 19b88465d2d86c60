"""The IPFIX information elements of the IANA registry (RFC 7012). NetFlow v9 uses the same ids."""

from __future__ import annotations

import csv
import functools
import importlib
import os
from dataclasses import dataclass

__all__ = ["Element", "all", "by_id", "by_name", "data_folder"]


@dataclass(frozen=True)
class Element:
    """One row of the registry. `semantics` and `units` may be empty. `pen` is 0 for elements of IANA."""

    id: int
    name: str
    data_type: str
    semantics: str
    units: str
    status: str
    pen: int = 0


def data_folder() -> str:
    """Return the folder of the registry and the built-in schemas.

    `importlib.resources` is not used: its import takes a tenth of the start-up time of `flowbuf`.
    """
    return os.fspath(importlib.import_module("flowbuf.schemas").__path__[0])


@functools.cache
def all() -> tuple[Element, ...]:
    """Return every element, by id. Rows without a data type are reserved ids and are left out."""
    with open(os.path.join(data_folder(), "ipfix_elements.csv"), encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    return tuple(
        Element(
            int(row["element_id"]),
            row["name"],
            row["data_type"],
            row["semantics"],
            row["units"],
            row["status"],
        )
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
    """Return the element with this name (case-sensitive), or None."""
    return _names().get(name)


def by_id(id: int) -> Element | None:
    """Return the element with this id, or None."""
    return _ids().get(id)
