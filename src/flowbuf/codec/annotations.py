"""Annotations of fields as Protocol Buffers types."""

from __future__ import annotations

import collections.abc
import datetime
import enum
import types
import typing
from dataclasses import dataclass, replace
from typing import Any

from flowbuf.codec.class_fields import ClassField, is_annotated_class, is_class
from flowbuf.codec.field_options import FieldOptions
from flowbuf.codec.model import DURATION, TIMESTAMP
from flowbuf.errors import did_you_mean

__all__ = ["SCALARS", "Shape", "shape_of"]

SCALARS: dict[type, tuple[str, ...]] = {
    int: (
        *("int64", "int32", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    ),
    float: ("double", "float"),
    str: ("string",),
    bytes: ("bytes",),
    bool: ("bool",),
}
"""Protocol Buffers types of each Python type. The first is the default."""

_WELL_KNOWN = {datetime.datetime: TIMESTAMP, datetime.timedelta: DURATION}
_KEYS = {int: "int64", str: "string", bool: "bool"}
_LISTS = (list, tuple, collections.abc.Sequence)
_MAPS = (dict, collections.abc.Mapping)
_UNIONS = (typing.Union, types.UnionType)
_SUPPORTED = (
    "use int, float, str, bytes, bool, datetime, timedelta, an Enum or an annotated class, "
    "or list, tuple[T, ...], Sequence, dict or Mapping of these, or T | None"
)


@dataclass(frozen=True)
class Shape:
    """The Protocol Buffers form of an annotation.

    Attributes:
        proto_type: Scalar type, "enum", "message", or the full name of a well-known message.
        of: Class of the enum or message, or None.
        optional: True if the annotation includes None.
        repeated: True for a list.
        key: Type of the keys of a map, or None.
    """

    proto_type: str
    of: type | None = None
    optional: bool = False
    repeated: bool = False
    key: str | None = None


def shape_of(field: ClassField) -> Shape:
    """Return the Protocol Buffers form of a field.

    Raises:
        SchemaError: the annotation or its options are not supported.
    """
    inner, optional = _split_optional(field, field.hint)
    origin, arguments = typing.get_origin(inner), typing.get_args(inner)
    if inner in _LISTS or origin in _LISTS:
        shape = replace(_value(field, _element(field, inner, origin, arguments), "elements"), repeated=True)
    elif inner in _MAPS or origin in _MAPS:
        shape = _map(field, inner, arguments)
    else:
        return replace(_single(field, inner), optional=optional)
    if optional:
        fix = "leave out None; an absent list or dict is empty"
        raise field.error("a list or dict cannot be None", fix)
    return shape


def _split_optional(field: ClassField, hint: Any) -> tuple[Any, bool]:
    """Return the annotation without None, and True if it includes None."""
    if typing.get_origin(hint) not in _UNIONS:
        return _plain(field, hint), False
    arguments = typing.get_args(hint)
    others = [each for each in arguments if each is not type(None)]
    if len(others) != 1:
        raise field.error(f"{_name(hint)} is a union of several types", _SUPPORTED)
    return _plain(field, others[0]), True


def _plain(field: ClassField, hint: Any) -> Any:
    """Return an annotation without `Annotated` and `NewType`."""
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            hint, *metadata = typing.get_args(hint)
            if any(isinstance(each, FieldOptions) for each in metadata):
                problem = "flowbuf.field is inside of the annotation"
                raise field.error(problem, "write it outermost: Annotated[list[int], flowbuf.field(1)]")
        elif isinstance(hint, typing.NewType) and hint.__supertype__ in SCALARS:
            hint = hint.__supertype__
        else:
            return hint


def _element(field: ClassField, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the annotation of the elements of a list."""
    if not arguments:
        example = "tuple[int, ...]" if hint is tuple else f"{_name(hint)}[int]"
        raise field.error(f"{_name(hint)} has no type of elements", f"write {example}, for example")
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        raise field.error(f"{_name(hint)} has a fixed number of elements", "write tuple[int, ...]")
    return arguments[0]


def _map(field: ClassField, hint: Any, arguments: tuple[Any, ...]) -> Shape:
    if not arguments:
        problem = f"{_name(hint)} has no types of keys and values"
        raise field.error(problem, f"write {_name(hint)}[str, int], for example")
    key = _plain(field, arguments[0])
    if key not in _KEYS:
        raise field.error(f"{_name(key)} cannot be the key of a map", "use int, str or bool")
    return replace(_value(field, arguments[1], "values"), key=_KEYS[key])


def _value(field: ClassField, hint: Any, role: str) -> Shape:
    """Return the form of the elements of a list, or of the values of a dict."""
    inner, optional = _split_optional(field, hint)
    if optional:
        raise field.error(f"{role} of a list or dict cannot be None", "leave out None")
    if any(each in (*_LISTS, *_MAPS) for each in (inner, typing.get_origin(inner))):
        fix = "use an annotated class with one field for the inner one"
        raise field.error(f"{role} of a list or dict cannot be lists or dicts", fix)
    return _single(field, inner)


def _single(field: ClassField, hint: Any) -> Shape:
    wanted = field.options.type if field.options else None
    if not is_class(hint):
        raise field.error(f"type {_name(hint)} is not supported", _SUPPORTED)
    if hint in SCALARS:
        return Shape(_scalar(field, hint, wanted))
    if hint in _WELL_KNOWN:
        shape = Shape(_WELL_KNOWN[hint])
    elif issubclass(hint, enum.Enum):
        _check_enum(field, hint)
        shape = Shape("enum", hint)
    elif is_annotated_class(hint):
        shape = Shape("message", hint)
    else:
        raise field.error(f"type {_name(hint)} is not supported", _SUPPORTED)
    if wanted is not None:
        problem = f"type {wanted!r} does not suit {_name(hint)}"
        raise field.error(problem, "leave out the type in flowbuf.field")
    return shape


def _scalar(field: ClassField, hint: type, wanted: str | None) -> str:
    allowed = SCALARS[hint]
    if wanted is None:
        return allowed[0]
    if wanted not in allowed:
        suitable = f"use {' or '.join(allowed)}"
        known = any(wanted in each for each in SCALARS.values())
        if known:
            raise field.error(f"type {wanted!r} does not suit {_name(hint)}", suitable)
        fix = did_you_mean(str(wanted), allowed) or suitable
        raise field.error(f"{wanted!r} is not a scalar type of Protocol Buffers", fix)
    return wanted


def _check_enum(field: ClassField, hint: type[enum.Enum]) -> None:
    """Raise SchemaError for an enum whose members cannot be encoded as numbers."""
    if issubclass(hint, enum.Flag):
        fix = "use int for combinations of flags"
        raise field.error(f"{hint.__name__} is a Flag, whose values are not single members", fix)
    if not all(isinstance(each.value, int) and not isinstance(each.value, bool) for each in hint):
        raise field.error(f"members of {hint.__name__} are not integers", "give them values such as 0 and 1")


def _name(hint: Any) -> str:
    """Return an annotation as in source code."""
    return hint.__name__ if is_class(hint) else repr(hint)
