"""Whether a reader of one schema can read what a writer of another writes.

It can where every message means to the reader what the writer meant, or less: a column that the reader does not know is
skipped, one that the writer does not write is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flowbuf.schema.column import Column
from flowbuf.schema.schema import Schema

__all__ = ["Verdict", "diff"]

# What a column of plain integers can hold, and what columns that are varints too can send to it. A reader whose column
# means more than a number (a MAC, a time, a member) takes nothing but its own type.
_RANGES = {
    "bool": (0, 1),
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (32, 64)},
}
_WRITTEN_RANGES = {
    **_RANGES,
    "mac": (0, (1 << 48) - 1),
    "enum": (0, (1 << 31) - 1),
    "timestamp": _RANGES["uint64"],
    "duration": _RANGES["int64"],
}
_OTHERS = {("sint64", "sint32"), ("bytes", "string"), ("bytes", "ip")}  # (what reads, what is written)


@dataclass(frozen=True)
class Verdict:
    """What changed in one column, and whether a reader of the old schema can read it all the same."""

    column: str
    change: str
    readable: bool
    text: str


def diff(reader: Schema, writer: Schema) -> list[Verdict]:
    """What the writer's messages hold that the reader's do not, or otherwise; empty where the two mean the same.

    Only enabled columns are in messages. In the order of the reader's numbers, then new columns.
    """
    by_name = {column.name: column for column in writer.enabled}
    by_number = {column.number: column for column in writer.enabled}
    own_names = {column.name for column in reader.enabled}
    verdicts: list[Verdict] = []
    if reader.rows != writer.rows:
        text = f"{reader.rows} -> {writer.rows}: no message is what the reader takes it for"
        verdicts.append(Verdict("[schema]", "rows changed", False, text))
    paired: set[str] = set()
    for column in reader.enabled:
        other = by_name.get(column.name) or by_number.get(column.number)
        if other is None or (other.name != column.name and other.name in own_names):
            verdicts.append(Verdict(column.name, "removed", True, f"number {column.number}: always absent"))
            continue
        paired.add(other.name)
        verdicts += _compare(column, other)
    verdicts += [_judge_new(column, reader) for column in writer.enabled if column.name not in paired]
    return verdicts


def _judge_new(column: Column, reader: Schema) -> Verdict:
    taken = {old.number: old.name for old in reader.reserved} | {old.number: old.name for old in reader.enabled}
    name = taken.get(column.number)
    if name is None:
        return Verdict(column.name, "added", True, f"number {column.number}: skipped")
    return Verdict(column.name, "added", False, f"number {column.number} is that of {name!r} to the reader")


def _compare(old: Column, new: Column) -> Iterator[Verdict]:
    """Verdicts on one column as the reader and the writer have it."""

    def verdict(change: str, readable: bool, text: str) -> Verdict:
        return Verdict(old.name, change, readable, text)

    if new.number != old.number:
        yield verdict("renumbered", False, f"{old.number} -> {new.number}: read as absent, or as another column")
    if new.name != old.name:
        yield verdict("renamed", True, f"{old.name} -> {new.name}: messages hold numbers, no names")
    if new.type != old.type:
        readable = _reads_type(old.type, new.type)
        why = "every value of the new type is one of the old" if readable else "values would be misread or lost"
        yield verdict("type changed", readable, f"{old.type} -> {new.type}: {why}")
    if old.type == new.type and new.unit != old.unit:
        yield verdict("unit changed", False, f"{old.unit} -> {new.unit}: the same number means another time")
    if old.type == new.type == "ip" and new.ip != old.ip:
        why = "16 octets are read as they are" if old.ip == "native" else "4 octets where 16 are expected"
        yield verdict("ip form changed", old.ip == "native", f"{old.ip} -> {new.ip}: {why}")
    if old.type == new.type == "enum" and dict(new.values) != dict(old.values):
        yield _compare_members(old, new)
    if new.repeated != old.repeated:
        why = "one value is a list of one" if old.repeated else "only the last value would be read"
        change = "now repeated" if new.repeated else "no longer repeated"
        yield verdict(change, old.repeated, why)
    if new.explicit != old.explicit:
        why = "zero and absent are told apart" if new.explicit else "zero reads as absent"
        yield verdict("now explicit" if new.explicit else "no longer explicit", True, why)


def _reads_type(old: str, new: str) -> bool:
    if (old, new) in _OTHERS:
        return True
    if old not in _RANGES or new not in _WRITTEN_RANGES:
        return False
    (lowest, highest), (least, most) = _RANGES[old], _WRITTEN_RANGES[new]
    return lowest <= least and most <= highest


def _compare_members(old: Column, new: Column) -> Verdict:
    """A number may come or go (an unknown one reads as itself); one that changes its name would be misread."""
    names = {number: name for name, number in old.values.items()}
    moved = [f"{names[number]} -> {name}" for name, number in new.values.items() if names.get(number, name) != name]
    added = [name for name in new.values if name not in old.values]
    removed = [name for name in old.values if name not in new.values]
    if moved:
        return Verdict(old.name, "enum members changed", False, f"the same number, another member: {', '.join(moved)}")
    parts = [f"{word} {', '.join(names)}" for word, names in (("new", added), ("gone", removed)) if names]
    return Verdict(old.name, "enum members changed", True, "; ".join(parts))
