"""Lists inside records, by RFC 6313: their members, and the columns that can hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flowbuf.schema import elements

from .octets import Octets, Short

NONE_OF = 0
ENTERPRISE_BIT = 0x8000
VARIABLE = 65535

UNSIGNED = {"uint8", "uint16", "uint32", "uint64", "mac"}
INTEGERS = UNSIGNED | {"fixed32", "fixed64", "int32", "int64", "sint32", "sint64"}
SIGNED = {"int32", "int64", "sint32", "sint64"}
REALS = {"float", "double"}
NUMBERS = INTEGERS | REALS | {"bool", "enum"}
RELATIVE = {21, 22, 158, 159}  # relative to the exporter's start or to the export time

# Types of columns that can hold an element, by its data type (RFC 7011 section 6.1). `bytes` can hold any
# element.
HOLDERS = {
    **dict.fromkeys(("unsigned8", "unsigned16", "unsigned32", "unsigned64", "macAddress"), NUMBERS),
    "signed32": SIGNED | REALS,
    "float64": REALS,
    "boolean": UNSIGNED | {"bool", "enum"},
    "string": {"string"},
    "octetArray": INTEGERS | {"string", "ip"},
    "ipv4Address": {"ip"},
    "ipv6Address": {"ip"},
    **{
        f"dateTime{unit}": INTEGERS | {"timestamp"}
        for unit in ("Seconds", "Milliseconds", "Microseconds", "Nanoseconds")
    },
}


class CutShort(Exception):
    """The list ends inside its header or inside a member; the argument is the status to count."""


@dataclass(frozen=True)
class Member:
    """A member of a list, used as the source of a column."""

    element: Any

    @property
    def id(self) -> int:
        return self.element.id if self.element else 0


class BasicList:
    """A basicList (section 4.5.1): semantic 1, element id 2, length of a member 2, members.

    An enterprise number 4 precedes the members if the top bit of the id is set.
    """

    def __init__(self, octets: bytes) -> None:
        self.content = Octets(octets)
        try:
            self.semantic, number, self.length = self.content.u8(), self.content.u16(), self.content.u16()
            enterprise = self.content.u32() if number & ENTERPRISE_BIT else 0
        except Short:
            raise CutShort("bad_list") from None
        self.identity = enterprise, number & ~ENTERPRISE_BIT
        self.element = None if enterprise else elements.by_id(number & ~ENTERPRISE_BIT)

    def members(self) -> Iterator[bytes]:
        while self.content.left:
            try:
                yield self.member()
            except Short:
                raise CutShort("bad_list") from None

    def member(self) -> bytes:
        length = self.length
        if length == 0:
            raise Short
        if length == VARIABLE:
            length = self.content.u8()
            if length == 255:
                length = self.content.u16()
        return self.content.take(length)


def can_hold(column_type: str, element: Any) -> bool:
    """Return whether a column type can hold members of an element. None is an unregistered element."""
    if element is None or column_type == "bytes":
        return True
    if element.data_type.startswith("unsigned"):
        if column_type == "timestamp":
            return element.id in RELATIVE
        if column_type == "duration":
            return element.units.endswith("seconds")
    return column_type in HOLDERS.get(element.data_type, ())
