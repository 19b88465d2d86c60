"""Arrow types and nulls of the enabled columns of a schema.

| type of the column | Arrow type | null |
|---|---|---|
| uint8 … uint64, int32 …, sint32 …, fixed32 … | an integer of its size and sign | never: 0 where absent |
| bool, float, double | bool, float32, float64 | never |
| timestamp | timestamp in its unit, UTC | where absent |
| duration | duration in its unit | never |
| ip | fixed_size_binary(16), extension `flowbuf.ip`; as text: utf8 | where absent |
| mac | uint64, extension `flowbuf.mac`; as text: utf8 | where absent |
| enum | dictionary of utf8, by int32; an unknown number becomes its digits | where absent |
| string, bytes | utf8, binary | where absent |
| repeated | list of the type; empty where absent | never |

An `explicit` column of any type is null where absent. Only functions that return pyarrow types import
`pyarrow`; columns reach other libraries without it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowbuf.schema import Column, Schema

__all__ = [
    "ArrowField",
    "arrow_type",
    "describe_type",
    "fields_of",
    "is_nullable",
    "register_types",
    "storage",
]

_FORMATS = {
    **{"uint8": "C", "uint16": "S", "uint32": "I", "uint64": "L", "mac": "L", "fixed32": "I", "fixed64": "L"},
    **{"int32": "i", "sint32": "i", "int64": "l", "sint64": "l", "bool": "b", "float": "f", "double": "g"},
    **{"ip": "w:16", "enum": "i", "string": "u", "bytes": "z"},
}
_EXTENSIONS = {"ip": "flowbuf.ip", "mac": "flowbuf.mac"}
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
_NULLABLE = frozenset(("ip", "mac", "enum", "timestamp", "string", "bytes"))


@dataclass(frozen=True)
class ArrowField:
    """The Arrow form of a column.

    Attributes:
        format: Format of one value in the Arrow C Data Interface; for an enum, the format of its index.
        extension: Name of the extension type, or None.
        nullable: True if an absent value is null.
        required: True if 0 or an empty value is a value, not null.
        text: True for an address that is exported as text.
        members: Members of an enum, number -> name, or None.
    """

    name: str
    format: str
    extension: str | None
    nullable: bool
    required: bool
    text: bool
    members: dict[int, str] | None


def fields_of(
    schema: Schema, *, text: bool = False, columns: Sequence[str] | None = None
) -> tuple[ArrowField, ...]:
    """Return the Arrow form of columns.

    Args:
        schema: Schema of the columns.
        text: Export IP and MAC addresses as text.
        columns: Names of the columns. Default: the enabled columns, in order of their numbers.

    Raises SchemaError for records that are not flat.
    """
    schema.require_flat("columns of Arrow")
    chosen = schema.enabled if columns is None else [schema[name] for name in columns]
    return tuple(_field_of(column, text) for column in chosen)


def _field_of(column: Column, text: bool) -> ArrowField:
    as_text = text and column.type in _EXTENSIONS
    return ArrowField(
        name=column.name,
        format="u" if as_text else _format_of(column),
        extension=None if as_text else _EXTENSIONS.get(column.type),
        nullable=is_nullable(column),
        required=column.required,
        text=as_text,
        members={number: name for name, number in column.values.items()} if column.type == "enum" else None,
    )


def is_nullable(column: Column) -> bool:
    """Return True if an absent value of the column is null; otherwise it is 0 or empty."""
    return not column.repeated and (column.explicit or column.type in _NULLABLE)


def _format_of(column: Column) -> str:
    if column.type == "timestamp":
        return f"ts{_UNITS[column.unit or 'ms']}:UTC"
    if column.type == "duration":
        return f"tD{_UNITS[column.unit or 'ms']}"
    return _FORMATS[column.type]


def describe_type(column: Column) -> str:
    """Return the Arrow type of a column as pyarrow writes it: `list<uint32>`, `timestamp[ms, tz=UTC]`."""
    if column.type in ("timestamp", "duration"):
        one = f"{column.type}[{column.unit}{', tz=UTC' if column.type == 'timestamp' else ''}]"
    else:
        one = _WORDS[_FORMATS[column.type]] if column.type != "enum" else "dictionary<int32, string>"
    if column.type in _EXTENSIONS:
        one = f"{_EXTENSIONS[column.type]}<{one}>"
    return f"list<{one}>" if column.repeated else one


_WORDS = {
    **{"C": "uint8", "S": "uint16", "I": "uint32", "L": "uint64", "i": "int32", "l": "int64"},
    **{
        "b": "bool",
        "f": "float",
        "g": "double",
        "w:16": "fixed_size_binary[16]",
        "u": "string",
        "z": "binary",
    },
}


def arrow_type(column: Column) -> Any:
    """Return the pyarrow.DataType of a column; for addresses the storage type of the extension."""
    import pyarrow as pa

    return pa.list_(_item_type(column)) if column.repeated else _item_type(column)


def _item_type(column: Column) -> Any:
    import pyarrow as pa

    if column.type == "timestamp":
        return pa.timestamp(column.unit or "ms", "UTC")
    if column.type == "duration":
        return pa.duration(column.unit or "ms")
    if column.type == "ip":
        return pa.binary(16)
    if column.type == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    return pa.type_for_alias(_WORDS[_FORMATS[column.type]])


def storage(array: Any) -> Any:
    """Return the storage array of an array with an extension type."""
    import pyarrow as pa

    return array.storage if isinstance(array, pa.ExtensionArray) else array


def register_types(*, needed: bool = False) -> None:
    """Register the extension types of addresses with pyarrow, so that addresses print as text.

    Args:
        needed: Import pyarrow for it. By default, nothing happens unless pyarrow is already imported.

    Raises:
        ImportError: pyarrow is needed and not installed.
    """
    if needed or "pyarrow" in sys.modules:
        _register()


@functools.cache
def _register() -> None:
    import pyarrow as pa

    from flowbuf.targets.flow_text import format_address, format_mac

    class AddressScalar(pa.ExtensionScalar):  # type: ignore[misc]
        def as_py(self, **options: Any) -> str | None:
            return None if self.value is None else self.type.to_text(self.value.as_py())

    class AddressType(pa.ExtensionType):  # type: ignore[misc]
        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Any:
            return cls(storage_type)  # other libraries may return another storage type

        def __arrow_ext_scalar_class__(self) -> Any:
            return AddressScalar

        def __reduce__(self) -> Any:
            return _new_type, (self.extension_name, self.storage_type)

    class IpType(AddressType):
        to_text = staticmethod(format_address)

        def __init__(self, storage_type: Any = None) -> None:
            super().__init__(storage_type or pa.binary(16), "flowbuf.ip")

    class MacType(AddressType):
        to_text = staticmethod(format_mac)

        def __init__(self, storage_type: Any = None) -> None:
            super().__init__(storage_type or pa.uint64(), "flowbuf.mac")

    for type in (IpType, MacType):
        _TYPES[type().extension_name] = type
        pa.register_extension_type(type())


_TYPES: dict[str, Any] = {}


def _new_type(name: str, *storage_type: Any) -> Any:
    register_types(needed=True)
    return _TYPES[name](*storage_type)
