"""Sources of a column's value, as written in a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema import elements
from flowbuf.schema.elements import Element

__all__ = ["KINDS", "LAST", "Source"]

KINDS = ("ipfix", "netflow9", "netflow5", "sflow", "packet", "meta", "derived", "scope")

# RFC 7011 section 3.2: an id has 15 bits, and the top bit announces an enterprise number. RFC 3954: an id has
# 16 bits.
_MAX_ID = {"ipfix": 0x7FFF, "netflow9": 0xFFFF}
LAST = 0xFFFF  # code of the core for the last occurrence in a record
# Python refuses to convert thousands of digits.
_ID = re.compile(r"(?:(?P<pen>[0-9]{1,99})/)?(?P<id>[0-9]{1,99})")


@dataclass(frozen=True)
class Source:
    """One source of a column.

    The core defines the names of the fixed kinds (netflow5, sflow, packet, meta, derived, scope); compiling
    the plan checks them.

    Attributes:
        kind: One of KINDS.
        text: The source as written.
        pen: Enterprise number of an information element, or 0.
        id: Id of an information element, or 0.
        element: Row of the element in the registry of IANA or of a vendor. None if it or its type is unknown,
            and for an enterprise element written by number.
        occurrence: Number of the element's occurrence in a record, from 1, or LAST. 0 means every occurrence
            in a repeated column, and the first in any other column.
    """

    kind: str
    text: str
    pen: int = 0
    id: int = 0
    element: Element | None = None
    occurrence: int = 0

    @classmethod
    def parse(cls, text: str) -> Source:
        """Parse `KIND:NAME`, `VENDOR:NAME`, `ipfix:ID`, `ipfix:PEN/ID` or `netflow9:ID`. Raises SchemaError.

        `VENDOR:NAME` is an element of IPFIX, or a private id of NetFlow v9.

        `#N` or `#last` after an element selects one of its occurrences in a record.
        """
        kind, colon, name = text.partition(":")
        name, hash, place = name.partition("#")
        if not colon or not name or name.split() != [name]:
            raise SchemaError(
                f"source {text!r} is not written as KIND:NAME", "write for example ipfix:octetDeltaCount"
            )
        occurrence = _parse_occurrence(text, place) if hash else 0
        if kind not in KINDS:
            return _of_vendor(text, kind, name, occurrence)
        if kind not in _MAX_ID:
            if hash:
                raise SchemaError(f"source {text!r}: only elements have occurrences", f"write {kind}:{name}")
            return cls(kind, text)
        if numbers := _ID.fullmatch(name):
            return _from_id(kind, text, int(numbers["pen"] or 0), int(numbers["id"]), occurrence)
        element = elements.by_name(name)
        if element is None and kind == "netflow9" and (private := elements.private_by_name(name)):
            return cls(kind, text, 0, private.id, _typed(private), occurrence)
        if element is None:
            fix = did_you_mean(name, (known.name for known in elements.all()))
            raise SchemaError(
                f"source {text!r}: unknown element", fix or "write its id, as in ipfix:95 or ipfix:2636/137"
            )
        return cls(kind, text, 0, element.id, element, occurrence)

    @property
    def key(self) -> tuple[str, int, int, int] | str:
        """Identity of the source, independent of its notation: by name or by id, with #1 or without."""
        if self.kind not in _MAX_ID:
            return self.text
        return self.kind, self.pen, self.id, self.occurrence or 1

    def __str__(self) -> str:
        return self.text


def _of_vendor(text: str, vendor: str, name: str, occurrence: int) -> Source:
    """Return the source of an element that is named by its vendor."""
    named = elements.of_vendor(vendor)
    if not named:
        known = [*KINDS, *elements.vendors()]
        fix = did_you_mean(vendor, known) or f"kinds are {', '.join(KINDS)}, and names of vendors"
        raise SchemaError(f"source {text!r} has an unknown kind", fix)
    element = elements.find_vendor_element(vendor, name)
    if element is None:
        fix = did_you_mean(name, (each.name for each in named)) or "write its id, as in ipfix:2636/137"
        raise SchemaError(f"source {text!r}: unknown element", fix)
    kind = "ipfix" if element.pen else "netflow9"
    return Source(kind, text, element.pen, element.id, _typed(element), occurrence)


def _typed(element: Element) -> Element | None:
    return element if element.data_type else None


def _parse_occurrence(text: str, place: str) -> int:
    if place == "last":
        return LAST
    if not re.fullmatch("[0-9]{1,5}", place) or not 0 < int(place) < LAST:
        raise SchemaError(
            f"source {text!r}: invalid occurrence", f"write #last, or a number from #1 to #{LAST - 1}"
        )
    return int(place)


def _from_id(kind: str, text: str, pen: int, id: int, occurrence: int) -> Source:
    if pen and kind != "ipfix":
        raise SchemaError(
            f"source {text!r}: only IPFIX has enterprise numbers", "write ipfix:PEN/ID or netflow9:ID"
        )
    lowest = 0 if pen else 1
    if not lowest <= id <= _MAX_ID[kind]:
        above = not pen and _MAX_ID["ipfix"] < id <= _MAX_ID["netflow9"]
        fix = (
            f"write netflow9:{text.removeprefix('ipfix:')}, which has 16 bits" if above else "correct the id"
        )
        raise SchemaError(f"source {text!r}: ids of {kind} are {lowest} to {_MAX_ID[kind]}", fix)
    if pen > 0xFFFFFFFF:
        raise SchemaError(f"source {text!r}: enterprise numbers have 32 bits", "correct the number")
    return Source(kind, text, pen, id, None if pen else elements.by_id(id), occurrence)
