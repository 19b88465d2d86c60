"""Message types of a schema, and schemas of flat message types.

A schema has facts that descriptors lack: required fields, widths of integers, and names of enum members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flowbuf.codec.model import DURATION, TIMESTAMP, Field, Message, too_deep
from flowbuf.errors import SchemaError
from flowbuf.schema import Column, Schema
from flowbuf.schema.proto import camel_case, message_name
from flowbuf.schema.types import TYPES, WireType

__all__ = ["inner_schema", "names_of", "to_message", "to_schema"]

_BITS = {"int8": 8, "int16": 16, "uint8": 8, "uint16": 16, "mac": 48}
_SIZES = {"mapped": (16,), "native": (4, 16)}
_WELL_KNOWN = {"timestamp": TIMESTAMP, "duration": DURATION}


def to_message(schema: Schema) -> Message:
    """Return the message type of the enabled columns, in order of their numbers."""
    message = Message(message_name(schema))
    try:
        return _Reader(schema).fill(message, schema.enabled)
    except RecursionError:
        raise too_deep(message) from None


class _Reader:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.known: dict[str, Message] = {}

    def fill(self, message: Message, columns: Iterable[Column]) -> Message:
        message.fields += [self._field(column) for column in columns]
        return message

    def _field(self, column: Column) -> Field:
        if column.type == "map":
            return Field(
                column.name, column.number, "message", repeated=True, map=True, message=self._entry(column)
            )
        single = not column.repeated
        numbers = column.proto_type not in ("string", "bytes", "message")
        return Field(
            column.name,
            column.number,
            column.proto_type,
            repeated=column.repeated,
            packed=column.repeated and column.packed and numbers,
            presence=single
            and (column.explicit or column.oneof is not None or column.proto_type == "message"),
            required=column.required,
            oneof=column.oneof,
            message=self._message(column),
            members=column.values,
            bits=_BITS.get(column.type),
            sizes=_SIZES[column.ip] if column.type == "ip" else (),
        )

    def _message(self, column: Column) -> Message | None:
        if column.unit == "proto":
            return Message(_WELL_KNOWN[column.type])
        if column.message is None:
            return None
        if column.message not in self.known:  # a message may contain itself
            message = self.known[column.message] = Message(camel_case(column.message))
            self.fill(message, self.schema.messages[column.message])
        return self.known[column.message]

    def _entry(self, column: Column) -> Message:
        """Return the entry type of a map.

        Key and value are always written, and are zero if another encoder left them out.
        """
        assert column.key is not None
        assert column.value is not None
        value = replace(column, name="value", number=2, type=column.value, key=None, value=None)
        inside = (Column("key", 1, column.key), value)
        return Message(
            f"{column.name} entry", [replace(self._field(each), presence=False) for each in inside]
        )


# Columns of a flat message ----------------------------------------------------------------------------------


def inner_schema(schema: Schema, message: Message) -> Schema | None:
    """Return the schema of a message nested in a schema, or None for other messages."""
    for each in schema.nested:
        if camel_case(each.name) == message.name:
            return Schema(
                each.name, each.columns, each.reserved, each.origin, rows=schema.rows, nested=schema.nested
            )
    return None


def to_schema(message: Message) -> Schema:
    """Return the schema of a message of a descriptor, for reading it as columns.

    Raises SchemaError if it is not flat.
    """
    name = message.name.rpartition(".")[2]
    columns = tuple(_to_column(field, name) for field in message)
    return Schema(name, columns, origin=message.name, message_name=name, rows="records")


def _to_column(field: Field, origin: str) -> Column:
    what = _more_than_flat(field)
    if what:
        raise SchemaError(f"is {what}, which a schema cannot hold", _FIX, origin=origin, column=field.name)
    if field.type != "enum":
        return _new_column(field, field.type, {}, origin)
    members = names_of(field)
    return _new_column(field, "int32" if members is None else "enum", members or {}, origin)


def names_of(field: Field) -> dict[str, int] | None:
    """Return the members of an enum that is a column of names. None: it is a column of numbers.

    Of several names of one number, the first is used.
    """
    members = _first_names(field.members)
    try:
        Column("members", 1, "enum", values=members)
    except SchemaError:  # a schema cannot have these members
        return None
    return members


_FIX = "use read_columns and encode_columns, which need no schema"


def _more_than_flat(field: Field) -> str:
    """Return a description of the field's kind if a table cannot hold it, or ""."""
    if field.message is not None:
        return "a map" if field.map else "a message"
    if field.oneof is not None:
        return f"a member of oneof {field.oneof!r}"
    return "" if field.type in TYPES else f"an {field.type}"


def _new_column(field: Field, type: str, members: Mapping[str, int], origin: str) -> Column:
    return Column(
        field.name,
        field.number,
        type,
        repeated=field.repeated,
        explicit=field.presence,
        values=members,
        required=field.required,
        packed=field.packed or not field.repeated or TYPES[type].wire_type is WireType.LENGTH,
        origin=origin,
    )


def _first_names(members: Mapping[str, int]) -> dict[str, int]:
    """Return the first name of each number."""
    names: dict[int, str] = {}
    for name, number in members.items():
        names.setdefault(number, name)
    return {name: number for number, name in names.items()}
