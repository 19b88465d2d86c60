"""Three kinds of records, with data that are equal on every machine and in every version of Python.

The fields have the names of the schemas with the same name. A record is a dict of all its fields, in their
order. Values are str, bool, int, float, an aware datetime of whole microseconds in UTC, a dict or None (an
optional sub-record), or a list of dicts (sub-records).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from random import Random
from typing import Any

__all__ = ["DISTINCT", "EPOCH", "FAMILIES", "MICROSECOND", "Family", "Field", "Record"]

Record = dict[str, Any]

DISTINCT = 256
"""Number of distinct records of a family. Longer runs rotate them."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
SEED = 20260101


@dataclass(frozen=True)
class Field:
    """A field of a record.

    `kind` is "string", "bool", "double", "time", or "int", "sint" or "uint" with a width in bits. It is
    "message" for a record of `fields` or None, and "messages" for a list of records of `fields`.
    """

    name: str
    kind: str
    fields: tuple[Field, ...] = ()

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The minimum and maximum of an integer. None for other kinds.

        The maximum of a uint64 is 2**63 - 1, because Avro has no unsigned integers.
        """
        if "int" not in self.kind:
            return None
        bits = int(self.kind.lstrip("suint"))
        return (
            (0, 2 ** min(63, bits) - 1)
            if self.kind.startswith("u")
            else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )


@dataclass(frozen=True)
class Family:
    """A kind of records.

    `make` returns the record of a position. Its second argument draws random numbers in [0, 1), the only ones
    that Python guarantees to be stable for a seed. `batches` are the numbers of records measured at once.
    """

    name: str
    fields: tuple[Field, ...]
    make: Callable[[int, Callable[[], float]], Record]
    extremes: tuple[Record, ...]
    """Records at the limits of their types. They are tested, not timed."""
    batches: tuple[int, ...] = (1, 1000)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The DISTINCT records, created once."""
        draw = Random(SEED).random
        return tuple(self.make(position, draw) for position in range(DISTINCT))

    def rotate(self, count: int, start: int = 0) -> list[Record]:
        """Return `count` records from position `start` on, starting over at the end.

        Each record is a copy, because pickle writes the same object only once.
        """
        return [copy_record(self.records[position % DISTINCT]) for position in range(start, start + count)]

    @property
    def times(self) -> tuple[str, ...]:
        """The names of the fields of kind "time". Sub-records have none."""
        return tuple(field.name for field in self.fields if field.kind == "time")

    def to_values(self, record: Record) -> tuple[Any, ...]:
        """Return the record and its sub-records as tuples, without keys."""
        return to_values(self.fields, record)

    def from_values(self, values: Sequence[Any]) -> Record:
        """Return the record of such a tuple, or of nested lists."""
        return from_values(self.fields, values)


def to_values(fields: Sequence[Field], record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(_value_of(field, record[field.name]) for field in fields)


def _value_of(field: Field, value: Any) -> Any:
    if field.kind == "messages":
        return tuple(to_values(field.fields, each) for each in value)
    return to_values(field.fields, value) if field.kind == "message" and value is not None else value


def from_values(fields: Sequence[Field], values: Sequence[Any]) -> Record:
    return {field.name: _field_from(field, value) for field, value in zip(fields, values, strict=True)}


def _field_from(field: Field, value: Any) -> Any:
    if field.kind == "messages":
        return [from_values(field.fields, each) for each in value]
    return from_values(field.fields, value) if field.kind == "message" and value is not None else value


def copy_record(value: Any) -> Any:
    """Copy a record with its dicts, lists and strings. Keys are shared, as constants of a program are."""
    if isinstance(value, dict):
        return {key: copy_record(each) for key, each in value.items()}
    if isinstance(value, list):
        return [copy_record(each) for each in value]
    return value.encode().decode() if isinstance(value, str) else value


# Telemetry --------------------------------------------------------------------------------------------------

TELEMETRY = (
    Field("device_id", "string"),
    Field("site", "string"),
    Field("firmware", "string"),
    Field("status", "string"),
    Field("temperature", "double"),
    Field("humidity", "double"),
    Field("pressure", "double"),
    Field("battery_voltage", "double"),
    Field("timestamp", "uint64"),
    Field("sequence", "uint64"),
    Field("uptime_seconds", "uint32"),
    Field("error_count", "uint32"),
)
SITES = ("plant-north", "plant-south", "warehouse-3", "rooftop-west")
STATES = ("running", "standby", "starting", "degraded")


def make_telemetry(position: int, draw: Callable[[], float]) -> Record:
    return {
        "device_id": f"sensor-{int(draw() * 1e11):011}",
        "site": SITES[int(draw() * 4)],
        "firmware": f"2.{int(draw() * 10)}.{int(draw() * 90) + 10}",
        "status": STATES[int(draw() * 4)],
        "temperature": 15 + draw() * 20,
        "humidity": 20 + draw() * 60,
        "pressure": 980 + draw() * 50,
        "battery_voltage": 3 + draw() * 1.2,
        "timestamp": 1_767_225_600_000 + position * 1000 + int(draw() * 1000),
        "sequence": 100_000 + position,
        "uptime_seconds": 20_000 + int(draw() * 2_000_000),
        "error_count": int(draw() * 100),
    }


# Record -----------------------------------------------------------------------------------------------------

SUB_RECORD = (Field("id", "uint64"), Field("name", "string"), Field("score", "double"))
RECORD = (
    Field("name", "string"),
    Field("active", "bool"),
    Field("balance", "sint64"),
    Field("level", "int16"),
    Field("position", "int64"),
    Field("total", "uint64"),
    Field("priority", "uint8"),
    Field("port", "uint32"),
    Field("created", "time"),
    Field("parent", "message", SUB_RECORD),
    Field("children", "messages", SUB_RECORD),
)


def make_sub_record(draw: Callable[[], float]) -> Record:
    return {"id": int(draw() * 1e6), "name": f"item-{int(draw() * 1e4):04}", "score": draw() * 100}


def make_record(position: int, draw: Callable[[], float]) -> Record:
    return {
        "name": f"record number {position}",
        "active": draw() < 0.5,
        "balance": int(draw() * 2e6) - 1_000_000,
        "level": int(draw() * 32768),
        "position": int(draw() * 1e15),
        "total": int(draw() * 1e12),
        "priority": int(draw() * 256),
        "port": int(draw() * 2**32),
        "created": BEGIN + int(draw() * 1e12) * MICROSECOND,
        "parent": make_sub_record(draw),
        "children": [make_sub_record(draw) for _ in range(10)],
    }


# Client message ---------------------------------------------------------------------------------------------

CLIENT_MESSAGE = (Field("client", "string"), Field("text", "string"), Field("sequence", "int64"))
WORDS = ("the", "pump", "has", "stopped", "again", "and", "nobody", "knows", "why")


def make_client_message(position: int, draw: Callable[[], float]) -> Record:
    words = [WORDS[int(draw() * len(WORDS))] for _ in range(4 + int(draw() * 8))]
    return {
        "client": f"client-{int(draw() * 1e5):05}",
        "text": " ".join(words),
        "sequence": 1_000_000 + position * 250 + int(draw() * 250),
    }


# Limits -----------------------------------------------------------------------------------------------------

LEAST: dict[str, Any] = {"string": "", "bool": False, "double": 0.0, "time": EPOCH, "message": None}
LATEST = datetime(2099, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
LONG = 'Größe 测量 🌡 "quoted" \\ \n\x00' * 40


def find_limits(fields: Sequence[Field]) -> tuple[Record, Record, Record]:
    """Return records with all fields at their minimum, absent or zero, and at their maximum."""
    return _bound(fields, _lowest), _bound(fields, _zero), _bound(fields, _highest)


def _bound(fields: Sequence[Field], choose: Callable[[Field], Any]) -> Record:
    return {field.name: choose(field) for field in fields}


def _lowest(field: Field) -> Any:
    if field.kind == "messages":
        return [_bound(field.fields, _lowest)]
    if field.kind == "message":
        return _bound(field.fields, _zero)
    if field.bounds:
        return field.bounds[0]
    return -1.7976931348623157e308 if field.kind == "double" else _zero(field)


def _zero(field: Field) -> Any:
    if field.kind == "messages":
        return []
    return LEAST.get(field.kind, 0)


def _highest(field: Field) -> Any:
    if field.kind == "messages":
        return [_bound(field.fields, _highest)] * 40
    if field.kind == "message":
        return _bound(field.fields, _highest)
    if field.bounds:
        return field.bounds[1]
    return {"string": LONG, "bool": True, "double": 5e-324, "time": LATEST}[field.kind]


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family("telemetry", TELEMETRY, make_telemetry, find_limits(TELEMETRY)),
        Family("record", RECORD, make_record, find_limits(RECORD), (1, 10, 100, 1000, 10_000)),
        Family("client_message", CLIENT_MESSAGE, make_client_message, find_limits(CLIENT_MESSAGE)),
    )
}
