"""Compare the columns of a schema with those of the messages that users have stored."""

from __future__ import annotations

from collections.abc import Callable

from flowbuf.schema import Column, Schema


def describe_type(column: Column) -> str:
    return ("repeated-" if column.repeated else "") + column.type


def check_pinned(pinned: str, schema: Schema, describe: Callable[[Column], str]) -> None:
    """Fail if a column differs from its text in `pinned`, or has none. Commas separate the texts."""
    texts = pinned.strip().replace("\n", " ").split(", ")
    columns = list(map(describe, schema))
    changed = ", ".join(text for text in texts if text not in columns)
    assert not changed, f"stored messages cannot be read any more; these columns have changed: {changed}"
    new = ", ".join(text for text in columns if text not in texts)
    assert not new, f"add these columns to PINNED: {new}"
