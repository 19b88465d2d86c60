"""The values of a flow before their conversion to columns: names and uninterpreted values, in wire order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .structured import Structure

U64 = 1 << 64
TIMES_END = 1 << 63  # times in nanoseconds are below it, as in Arrow
WRAP = 1 << 32  # milliseconds of uptime
TOLERANCE = 3_600_000  # milliseconds by which a flow may be ahead of its header


@dataclass(frozen=True)
class Number:
    """An integer."""

    value: int


@dataclass(frozen=True)
class Numbers:
    """A list of integers, for a repeated column."""

    values: list[int]


@dataclass(frozen=True)
class Address:
    """An address of 4 or 16 bytes."""

    octets: bytes


@dataclass(frozen=True)
class Addresses:
    """A list of addresses of 16 bytes, for a repeated column."""

    octets: list[bytes]


@dataclass(frozen=True)
class Time:
    """Nanoseconds since 1970; negative is before."""

    nanoseconds: int


@dataclass(frozen=True)
class Field:
    """The bytes of an information element. The column interprets them."""

    octets: bytes


@dataclass(frozen=True)
class Fields:
    """The bytes of every occurrence of an information element, for a repeated column."""

    octets: list[bytes]


@dataclass(frozen=True)
class Real:
    """A real number."""

    value: float


@dataclass(frozen=True)
class Text:
    """The bytes of a string."""

    octets: bytes


@dataclass(frozen=True)
class Opaque:
    """Bytes without a defined meaning."""

    octets: bytes


@dataclass(frozen=True)
class Blobs:
    """A list of bytes, for a repeated column."""

    octets: list[bytes]


Value = Blobs | Number | Numbers | Address | Addresses | Time | Field | Fields | Real | Text | Opaque
SILENT = Numbers([])  # a source without a value that hides other sources
Element = tuple[int, int]  # private enterprise number (0: IANA's), id


@dataclass(frozen=True)
class Clock:
    """The reference points of the times in a record.

    `exported` is the export time in nanoseconds. `uptime` is the exporter's uptime at that moment in
    milliseconds (NetFlow v5 and v9). `started` is the exporter's start in milliseconds since 1970 (IPFIX,
    element 160). None is unknown.
    """

    exported: int | None = None
    uptime: int | None = None
    started: int | None = None

    def at_uptime(self, milliseconds: int) -> int | None:
        """Convert an uptime to nanoseconds since 1970.

        Uptimes are 32-bit counters, which wrap every 49.7 days. If the header has an uptime, a flow that is
        ahead of it by more than TOLERANCE was observed before a wrap. If only the exporter's start is known,
        the number of wraps is the highest that the export time allows, with the same tolerance. It is 0 if
        the export is before the start.
        """
        if self.exported is None:
            return None
        if self.uptime is not None:
            ahead = (milliseconds - self.uptime) % WRAP
            return self.exported + (ahead if ahead <= TOLERANCE else ahead - WRAP) * 1_000_000
        if self.started is None:
            return None
        first = self.started + milliseconds % WRAP
        wraps = (self.exported // 1_000_000 + TOLERANCE - first) // WRAP
        return (first + max(wraps, 0) * WRAP) * 1_000_000


def unsigned(content: bytes) -> int | None:
    """Return an unsigned integer of 1 to 8 bytes (RFC 7011 section 6.2), or None for other sizes."""
    return int.from_bytes(content, "big") if 1 <= len(content) <= 8 else None


@dataclass
class Flow:
    """One flow: fixed sources by name, information elements by (enterprise, id), in order of occurrence.

    If a name or an element occurs twice, the first is the value (RFC 7011 section 8: the outer header).
    `given` has all of them. A flow with `shared` has only elements of its own direction.
    """

    version: str
    clock: Clock = field(default_factory=Clock)
    rows: str = "flows"  # its kind of rows
    values: dict[str | Element, Value] = field(default_factory=dict)
    given: list[tuple[str | Element, Value]] = field(default_factory=list)
    opened: bool = False  # a tunnel was opened in its packet
    structure: Structure | None = None  # the records inside the record
    shared: Flow | None = None  # in a reverse flow of a biflow: the elements of both directions

    def give(self, key: str | Element, value: Value | None) -> None:
        if value is not None:
            self.values.setdefault(key, value)
            self.given.append((key, value))

    def field(self, element_id: int, enterprise: int = 0) -> bytes | None:
        """Return the bytes of an element, or None if the record lacks it."""
        found = self.values.get((enterprise, element_id))
        return found.octets if isinstance(found, Field) else None

    def fields(self, element_id: int, enterprise: int = 0) -> list[bytes]:
        """Return the bytes of every occurrence of an element."""
        return [
            value.octets
            for key, value in self.given
            if key == (enterprise, element_id) and isinstance(value, Field)
        ]

    def uint(self, element_id: int) -> int | None:
        """Return an element as an unsigned integer, or None if it is missing or of another size."""
        return unsigned(self.field(element_id) or b"")

    def elements(self) -> list[Element]:
        """Return the elements of the record in its order."""
        return [key for key in self.values if isinstance(key, tuple)]
