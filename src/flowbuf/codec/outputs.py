"""Types that messages are decoded into.

These are dicts, tuples, dataclasses, msgspec Structs, and any class that takes the fields by name. The
annotations of a class name the classes of nested messages.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flowbuf._core import OUTPUT_KINDS, ObjectOutput, ObjectTypes
from flowbuf.codec.model import Field, Message, too_deep

__all__ = ["make_output"]

_NESTED = ("object", "map")
"""Roles of fields whose values, or whose map values, can have their own type."""

_Node = tuple[int, int, Any, Any, list[int]]


def make_output(object_types: ObjectTypes, messages: list[Message], into: Any) -> ObjectOutput:
    """Return the output for a type of decoded objects.

    Raises:
        TypeError: `into` does not take the fields.
        SchemaError: the message types are nested too deeply.
    """
    origin = typing.get_origin(into)
    try:
        nodes = _Nodes(messages).of(messages[0], origin if origin in (dict, tuple) else into)
    except RecursionError:
        raise too_deep(messages[0]) from None
    return ObjectOutput(object_types, tuple(nodes))


class _Nodes:
    """The nodes of an output: one per pair of message type and Python type."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.nodes: list[_Node] = []
        self.known: dict[tuple[Message, Any], int] = {}

    def of(self, message: Message, into: Any) -> list[_Node]:
        self._add(message, into)
        return self.nodes

    def _add(self, message: Message, into: Any) -> int:
        if (message, into) in self.known:
            return self.known[message, into]
        place = self.known[message, into] = len(self.nodes)
        self.nodes.append((0, 0, None, None, []))  # placeholder, because the message may contain itself
        kind, make, keywords = _target(message, into)
        hints = _hints(into, message) if kind == OUTPUT_KINDS["class"] else {}
        children = [self._child(field, into, hints.get(field.name)) for field in message]
        self.nodes[place] = (self.messages.index(message), kind, make, keywords, children)
        return place

    def _child(self, field: Field, into: Any, hint: Any) -> int:
        message = field.message
        if message is None or field.role not in _NESTED:
            return -1
        if field.map:
            return self._add_entry(message, into, hint)
        return self._add(message, _class_in(hint) if hint is not None else _plain(into))

    def _add_entry(self, entry: Message, into: Any, hint: Any) -> int:
        """Add the node of a map entry: tuples of key and value, which become a dict."""
        value = entry.fields[1]
        child = self._child(value, into, hint) if value.message is not None else -1
        self.nodes.append((self.messages.index(entry), OUTPUT_KINDS["tuple"], tuple, None, [-1, child]))
        return len(self.nodes) - 1


def _plain(into: Any) -> Any:
    return into if into in (dict, tuple) else dict


def _target(message: Message, into: Any) -> tuple[int, Any, tuple[str, ...] | None]:
    """Return the kind of output, its constructor, and the constructor's keywords.

    The keywords are None if it takes all fields in order.
    """
    if into is dict or into is tuple:
        return OUTPUT_KINDS[into.__name__], into, None
    origin = typing.get_origin(into) or into
    # such as list[Item]
    if not callable(into) or (isinstance(origin, type) and origin.__module__ == "builtins"):
        raise TypeError(f"into is {into!r}; it must be dict, tuple, or a class that takes the fields by name")
    names = tuple(field.name for field in message)
    try:
        parameters = inspect.signature(into).parameters
    except (TypeError, ValueError):
        return OUTPUT_KINDS["class"], into, names
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    unknown = [name for name in names if name not in parameters]
    if unknown and not any_name:
        raise TypeError(
            f"{_name(into)} does not take {', '.join(unknown)}, which {message.name} has; add them"
        )
    needed = [name for name, each in parameters.items() if each.default is each.empty and name not in names]
    missing = [name for name in needed if parameters[name].kind not in (2, 4)]
    if missing:
        raise TypeError(
            f"{_name(into)} needs {', '.join(missing)}, which {message.name} does not have; add defaults"
        )
    in_order = tuple(name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD)
    return OUTPUT_KINDS["class"], into, None if in_order[: len(names)] == names else names


def _name(into: Callable[..., Any]) -> str:
    return getattr(into, "__name__", repr(into))


def _hints(into: Any, message: Message) -> dict[str, Any]:
    try:
        return typing.get_type_hints(into)
    except TypeError:
        return {}
    except NameError:
        return dict(_hints_one_by_one(into, {field.name for field in message if field.role in _NESTED}))


def _hints_one_by_one(into: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the annotations of these fields only. Annotations of other fields may refer to undefined names.

    Raises:
        TypeError: an annotation of these fields refers to an undefined name, as in a class defined in a
            function. Otherwise its messages would silently become dicts.
    """
    for owner in reversed(getattr(into, "__mro__", (into,))):
        place = {"typing": typing, **vars(sys.modules[owner.__module__])}  # dataclasses write "typing.Any"
        for name, hint in inspect.get_annotations(owner).items():
            if name not in names:
                continue
            try:
                yield (
                    name,
                    typing.get_type_hints(types.SimpleNamespace(__annotations__={name: hint}), place)[name],
                )
            except NameError as error:
                missing = f"{owner.__module__} has no {error.name}"
                problem = f"{_name(into)} annotates {name} with {hint!r}, but {missing}"
                raise TypeError(
                    f"{problem}; define the classes of nested objects at the top level of a module"
                ) from None


def _class_in(hint: Any) -> Any:
    """Return the class in an annotation, such as Sub in `list[Sub]`, `Sub | None` or `dict[str, Sub]`.

    Other annotations give dict.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _class_in(next((each for each in arguments if each is not type(None)), None))
    if origin is typing.Annotated or (arguments and not _is_mapping(origin)):
        return _class_in(arguments[0])
    if arguments:  # the values of a map, or an object decoded into a dict
        return _class_in(arguments[-1])
    is_class = isinstance(hint, type) and hint.__module__ not in ("builtins", "typing", "collections.abc")
    return hint if is_class or hint is tuple else dict


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
