"""Check that a reader with one schema can read the messages of a writer with another.

It can if every message keeps its meaning, or loses only a part of it. Columns unknown to the reader are
skipped, and columns that the writer lacks are absent. Columns of messages inside records are named
`message.column`, by the reader's name of the message. Each pair of messages is compared once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from flowbuf.schema.column import Column, Reserved
from flowbuf.schema.schema import Schema
from flowbuf.schema.types import RECORD_TYPES

__all__ = ["Verdict", "diff"]

# Ranges of integer columns: of readers, and of varint columns of writers. Columns with a meaning beyond a
# number (MAC addresses, times, enum members) read only their own type.
_RANGES = {
    "bool": (0, 1),
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
_WRITTEN_RANGES = {
    **_RANGES,
    "mac": (0, (1 << 48) - 1),
    "enum": (0, (1 << 31) - 1),
    "timestamp": _RANGES["uint64"],
    "duration": _RANGES["int64"],
}
# (type of the reader, type of the writer)
_OTHERS = {("sint64", "sint32"), ("bytes", "string"), ("bytes", "ip")}


@dataclass(frozen=True)
class Verdict:
    """A change of one column, and whether a reader of the old schema can still read it."""

    column: str
    change: str
    readable: bool
    text: str


def diff(reader: Schema, writer: Schema) -> list[Verdict]:
    """Return the differences between the messages of a writer and those of a reader.

    Only enabled columns are compared. The verdicts are in order of the reader's numbers, then come new
    columns. Columns of nested messages follow, in the order in which the reader's columns refer to them.
    """
    verdicts: list[Verdict] = []
    if reader.rows != writer.rows:
        text = f"{reader.rows} -> {writer.rows}: the messages have different meanings"
        verdicts.append(Verdict("[schema]", "rows changed", False, text))
    one, other = _Side("", reader.enabled, reader.reserved), _Side("", writer.enabled, writer.reserved)
    ours, theirs = ({message.name: message for message in schema.nested} for schema in (reader, writer))
    waiting, seen = [(one, other)], set()
    while waiting:
        one, other = waiting.pop(0)
        pairs = _pair(one, other)
        verdicts += _compare_sides(one, other, pairs)
        for old, new in pairs:
            if old.message and new.message and (old.message, new.message) not in seen:
                seen.add((old.message, new.message))
                held, written = ours[old.message], theirs[new.message]
                side = _Side(f"{held.name}.", held.columns, held.reserved)
                waiting.append((side, _Side("", written.columns, written.reserved)))
    return verdicts


@dataclass(frozen=True)
class _Side:
    """The columns of a message of the reader or the writer, and the prefix of their names."""

    prefix: str
    columns: tuple[Column, ...]
    reserved: tuple[Reserved, ...]


def _pair(reader: _Side, writer: _Side) -> list[tuple[Column, Column]]:
    """Return the columns that both have: by name, or else by number."""
    by_name = {column.name: column for column in writer.columns}
    by_number = {column.number: column for column in writer.columns}
    own_names = {column.name for column in reader.columns}
    pairs = []
    for column in reader.columns:
        other = by_name.get(column.name) or by_number.get(column.number)
        if other and (other.name == column.name or other.name not in own_names):
            pairs.append((column, other))
    return pairs


def _compare_sides(reader: _Side, writer: _Side, pairs: list[tuple[Column, Column]]) -> Iterator[Verdict]:
    others = {old.name: new for old, new in pairs}
    for column in reader.columns:
        path = reader.prefix + column.name
        if column.name not in others:
            yield Verdict(path, "removed", True, f"number {column.number}: always absent")
            continue
        for verdict in (*_compare(column, others[column.name]), *_compare_oneofs(column, pairs)):
            yield replace(verdict, column=path)
    paired = {new.name for _, new in pairs}
    for column in writer.columns:
        if column.name not in paired:
            yield _judge_new(column, reader)


def _judge_new(column: Column, reader: _Side) -> Verdict:
    path = reader.prefix + column.name
    taken: Iterable[Reserved | Column] = (*reader.reserved, *reader.columns)
    name = {old.number: old.name for old in taken}.get(column.number)
    # the same name: the reader has retired the column, and its number is unused
    if name in (None, column.name):
        return Verdict(path, "added", True, f"number {column.number}: skipped")
    return Verdict(path, "added", False, f"number {column.number}: the reader uses it for {name!r}")


def _compare_oneofs(column: Column, pairs: list[tuple[Column, Column]]) -> Iterator[Verdict]:
    """Compare the oneof of a column. A reader keeps only the last member of a oneof in a message."""
    new = next(new for old, new in pairs if old is column)
    if new.oneof == column.oneof:
        return
    change = "now in a oneof" if new.oneof else "no longer in a oneof"
    if new.oneof and column.oneof:
        change = "oneof changed"
    if column.oneof is None:
        yield Verdict(column.name, change, True, "at most one column has a value, which the reader accepts")
        return
    groups = {new.oneof for old, new in pairs if old.oneof == column.oneof}
    together = len(groups) == 1 and None not in groups
    text = (
        f"{column.oneof} -> {new.oneof}: messages do not contain names"
        if together
        else "only one of several values would be read"
    )
    yield Verdict(column.name, change, together, text)


def _compare(old: Column, new: Column) -> Iterator[Verdict]:
    """Compare one column of the reader with that of the writer."""

    def verdict(change: str, readable: bool, text: str) -> Verdict:
        return Verdict(old.name, change, readable, text)

    if new.number != old.number:
        yield verdict(
            "renumbered", False, f"{old.number} -> {new.number}: read as absent, or as another column"
        )
    if new.name != old.name:
        yield verdict("renamed", True, f"{old.name} -> {new.name}: messages contain numbers, not names")
    if new.type != old.type:
        readable = old.wire_type is new.wire_type and _reads_type(old.type, new.type)
        why = (
            "the old type holds all values of the new type" if readable else "values would be misread or lost"
        )
        yield verdict("type changed", readable, f"{old.type} -> {new.type}: {why}")
    if old.type == new.type and new.unit != old.unit:
        yield verdict(
            "unit changed", False, f"{old.unit} -> {new.unit}: the same number means a different time"
        )
    if old.type == new.type == "ip" and new.ip != old.ip:
        why = "16 bytes are read as they are" if old.ip == "native" else "4 bytes where 16 are expected"
        yield verdict("ip form changed", old.ip == "native", f"{old.ip} -> {new.ip}: {why}")
    if old.type == new.type == "map":
        yield from _compare_entries(old, new)
    if old.message and new.message and new.message != old.message:
        yield verdict(
            "message renamed", True, f"{old.message} -> {new.message}: messages do not contain names"
        )
    if old.type == new.type == "enum" and dict(new.values) != dict(old.values):
        yield _compare_members(old, new)
    if new.repeated != old.repeated:
        why = "a single value is read as a list" if old.repeated else "only the last value would be read"
        change = "now repeated" if new.repeated else "no longer repeated"
        yield verdict(change, old.repeated, why)
    if new.explicit != old.explicit:
        why = "zero and absent are distinguished" if new.explicit else "zero is read as absent"
        yield verdict("now explicit" if new.explicit else "no longer explicit", True, why)
    if new.required != old.required:
        why = (
            "writers must give it" if new.required else "writers may leave it out; it is then read as absent"
        )
        yield verdict("now required" if new.required else "no longer required", True, why)
    if new.packed != old.packed:
        yield verdict("now packed" if new.packed else "no longer packed", True, "readers accept both")


def _compare_entries(old: Column, new: Column) -> Iterator[Verdict]:
    """Compare the key and value types of a map."""
    for part in ("key", "value"):
        was, now = str(getattr(old, part)), str(getattr(new, part))
        if was != now:
            readable = RECORD_TYPES[was].wire_type is RECORD_TYPES[now].wire_type and _reads_type(was, now)
            why = f"the old type holds all {part}s" if readable else f"{part}s would be misread or lost"
            yield Verdict(old.name, f"{part} of the map changed", readable, f"{was} -> {now}: {why}")


def _reads_type(old: str, new: str) -> bool:
    if (old, new) in _OTHERS:
        return True
    if old not in _RANGES or new not in _WRITTEN_RANGES:
        return False
    (lowest, highest), (least, most) = _RANGES[old], _WRITTEN_RANGES[new]
    return lowest <= least and most <= highest


def _compare_members(old: Column, new: Column) -> Verdict:
    """Compare enum members.

    Members may be added and removed, because an unknown number is kept as a number. A number with a new name
    would be misread, and a name with a new number would be read as an unknown number.
    """
    names = {number: name for name, number in old.values.items()}
    moved = [
        f"{names[number]} -> {name}" for name, number in new.values.items() if names.get(number, name) != name
    ]
    added = [name for name in new.values if name not in old.values]
    removed = [name for name in old.values if name not in new.values]
    if moved:
        return Verdict(
            old.name,
            "enum members changed",
            False,
            f"the same number means another member: {', '.join(moved)}",
        )
    renumbered = [
        f"{name} = {old.values[name]} -> {number}"
        for name, number in new.values.items()
        if old.values.get(name, number) != number
    ]
    if renumbered:
        text = f"the reader does not know the new number: {', '.join(renumbered)}"
        return Verdict(old.name, "enum members changed", False, text)
    parts = [f"{word} {', '.join(names)}" for word, names in (("new", added), ("gone", removed)) if names]
    return Verdict(old.name, "enum members changed", True, "; ".join(parts))
