"""Messages inside a record. Columns of the record, and of other messages, may hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.schema.checks import Fail, check_oneofs, check_reserved, check_unique
from flowbuf.schema.column import NAME, Column, Reserved
from flowbuf.schema.shape import NAME_FIX

__all__ = ["SubMessage", "check_messages", "check_plain", "reach"]


@dataclass(frozen=True)
class SubMessage:
    """A message inside a record, with its columns in number order. The constructor checks it.

    A SchemaError names the file, the column as `message.column`, and the fix. `origin` is the last file that
    defines or changes the message.
    """

    name: str
    columns: tuple[Column, ...]
    reserved: tuple[Reserved, ...] = ()
    origin: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise SchemaError(f"message name {self.name!r} is invalid", NAME_FIX, origin=self.origin)
        check_unique(self.columns, self.reserved, self.error)
        object.__setattr__(self, "columns", tuple(sorted(self.columns, key=lambda column: column.number)))
        object.__setattr__(self, "reserved", tuple(sorted(set(self.reserved))))
        check_reserved(self.columns, self.reserved, self.error)
        check_oneofs(self.columns, self.error)
        for column in self.columns:
            check_plain(column, self.error)
            _check_whole(column, self.error)

    def error(self, column: str | None, problem: str, fix: str) -> SchemaError:
        """Return a SchemaError that names the file, the column and the fix."""
        if not column:
            return SchemaError(f"message {self.name!r}: {problem}", fix, origin=self.origin)
        origins = {known.name: known.origin for known in self.columns}
        return SchemaError(
            problem, fix, origin=origins.get(column, self.origin), column=f"{self.name}.{column}"
        )


def check_plain(column: Column, fail: Fail) -> None:
    """Check that a column of a record or message has no key that is only for decoders of flows."""
    for key in ("sources", "late", "scale", "one_way", "zero", "replaces_zero"):
        if getattr(column, key):
            what = (
                "objects have no sources"
                if key == "sources"
                else f"{key} is not allowed on a column of objects"
            )
            raise fail(column.name, what, f"remove {key}, because decoders cannot fill objects")


def _check_whole(column: Column, fail: Fail) -> None:
    """Check that a column of a message is enabled, and has no keys for columns that can be disabled."""
    if not column.enabled:
        raise fail(
            column.name,
            "enabled = false is not allowed in a message",
            "remove the column, and reserve its number",
        )
    for key in ("depends", "mirror"):
        if getattr(column, key):
            raise fail(
                column.name,
                f"{key} is not allowed in a message",
                "remove it, because it is for columns that can be disabled",
            )


def reach(columns: Iterable[Column], messages: Mapping[str, SubMessage]) -> list[SubMessage]:
    """Return the messages that columns refer to, directly or through others, in order of first use."""
    found: dict[str, SubMessage] = {}
    waiting = list(columns)[::-1]
    while waiting:
        name = waiting.pop().message
        if name and name not in found:
            found[name] = messages[name]
            waiting += messages[name].columns[::-1]
    return list(found.values())


def check_messages(columns: Iterable[Column], messages: Mapping[str, SubMessage], fail: Fail) -> None:
    """Check that each message in a column exists, and does not require itself.

    `fail` makes errors of `columns`.
    """
    for held, error in (
        (columns, fail),
        *((message.columns, message.error) for message in messages.values()),
    ):
        for column in held:
            if column.message and column.message not in messages:
                known = f"messages are {', '.join(messages)}"
                missing = known if messages else f"write [[message.{column.message}.column]]"
                fix = did_you_mean(column.message, messages) or missing
                raise error(column.name, f"message {column.message!r} does not exist", fix)
    for message in messages.values():
        _check_finite(message, messages)


def _check_finite(message: SubMessage, messages: Mapping[str, SubMessage]) -> None:
    """Raise SchemaError if a message requires itself, because it could never be encoded."""
    met: set[str] = set()
    waiting = [column for column in message.columns if column.required and column.message]
    while waiting:
        column = waiting.pop()
        name = str(column.message)
        if name == message.name:
            raise message.error(
                None,
                "requires itself, so it can never be encoded",
                "remove required from one column of the cycle",
            )
        if name not in met:
            met.add(name)
            waiting += [each for each in messages[name].columns if each.required and each.message]
