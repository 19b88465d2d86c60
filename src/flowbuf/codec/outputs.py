"""Types that messages are decoded into.

These are dicts, tuples, TypedDicts, dataclasses, msgspec Structs, and any class that takes fields by name.
The annotations of a class name the classes of nested messages and of enums. Fields that a class does not take
are not decoded.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from flowbuf._core import OUTPUT_KINDS, ObjectOutput, ObjectTypes
from flowbuf.codec.class_fields import check_aliases, is_annotated_class, parameters_of
from flowbuf.codec.hints import read_hints
from flowbuf.codec.model import Field, Message, too_deep
from flowbuf.codec.plain import NULL, PLAIN, plain_kind
from flowbuf.codec.tables import Forms
from flowbuf.errors import did_you_mean

__all__ = ["make_output"]

_NESTED = ("object", "map")
"""Roles of fields whose values, or whose map values, can have their own type."""

_MISSING = object()
"""Stands for the value of a map entry without one, until the core has made it from an empty message."""


class _Node(NamedTuple):
    """Output for one message type. The lists have an item for each field.

    Attributes:
        type: Index of the message type.
        kind: Code of `OUTPUT_KINDS`.
        make: For a class, what is called with the values. For a Value, what null becomes. For an Any, the
            nodes of the types that it may have, by name.
        keywords: Names of the values for a class, or None if it takes them by position.
        children: Indexes of the nodes of nested messages and of values of maps; -1 for other fields.
        absent: Values of absent fields.
        members: Members of enums by number, or None for numbers.
        wanted: False for fields that the class does not take. None: it takes all.
    """

    type: int
    kind: int
    make: Any
    keywords: tuple[str, ...] | None
    children: list[int]
    absent: list[Any]
    members: list[dict[int, Any] | None]
    wanted: list[bool] | None


def make_output(object_types: ObjectTypes, messages: list[Message], forms: Forms, into: Any) -> ObjectOutput:
    """Return the output for a type of decoded objects.

    Raises:
        TypeError: `into` does not take the fields.
        SchemaError: the message types are nested too deeply.
    """
    origin = typing.get_origin(into)
    try:
        of_class = origin in (dict, tuple) or is_annotated_class(origin)  # without its type arguments
        nodes = _Nodes(messages, forms).of(messages[0], origin if of_class else into)
    except RecursionError:
        raise too_deep(messages[0]) from None
    return ObjectOutput(object_types, tuple(nodes))


class _Nodes:
    """The nodes of an output: one per pair of message type and Python type."""

    def __init__(self, messages: list[Message], forms: Forms) -> None:
        self.messages = messages
        self.forms = forms
        self.nodes: list[_Node] = []
        self.known: dict[tuple[Message, Any], int] = {}
        self.known_types: dict[str, int] = {}

    def of(self, message: Message, into: Any) -> list[_Node]:
        self._add(message, into)
        return self.nodes

    def _add(self, message: Message, into: Any, null: Any = None) -> int:
        plain = plain_kind(message)
        if plain in PLAIN:
            into = null
        if (message, into) in self.known:
            return self.known[message, into]
        place = self.known[message, into] = len(self.nodes)
        self.nodes.append(_Node(0, 0, None, None, [], [], [], None))  # the message may contain itself
        if plain in ("field", "value"):
            node = self._node(message, OUTPUT_KINDS["plain"], null)
        elif plain == "any":
            node = self._node(message, OUTPUT_KINDS["plain"], self.known_types)
            for each in self.messages:
                self.known_types[each.name] = self._add(each, dict)
        elif into is dict:
            node = self._node(message, OUTPUT_KINDS["dict"], into)
        elif into is tuple:
            wanted = _wanted(message, [field.name for field in message if not field.is_extension])
            node = self._node(message, OUTPUT_KINDS["tuple"], into, wanted=wanted, into=into)
        elif _is_typed_dict(into):
            node = self._typed_dict_node(message, into)
        else:
            node = self._class_node(message, into)
        self.nodes[place] = node
        return place

    def _node(
        self,
        message: Message,
        kind: int,
        make: Any,
        keywords: tuple[str, ...] | None = None,
        wanted: list[bool] | None = None,
        hints: Mapping[str, Any] = types.MappingProxyType({}),
        into: Any = dict,
    ) -> _Node:
        fields = [field for place, field in enumerate(message) if wanted is None or wanted[place]]
        members = {field.name: self._members(field, hints.get(field.name)) for field in fields}
        children = {field.name: self._child(field, into, hints.get(field.name)) for field in fields}
        return _Node(
            self.messages.index(message),
            kind,
            make,
            keywords,
            [children.get(field.name, -1) for field in message],
            [self._absent(field, members.get(field.name)) for field in message],
            [members.get(field.name) for field in message],
            wanted,
        )

    def _class_node(self, message: Message, into: Any) -> _Node:
        taken, in_order = _arguments(message, into)
        wanted = None if len(taken) == len(message.fields) else [field.name in taken for field in message]
        keywords = None if in_order else taken
        return self._node(message, OUTPUT_KINDS["class"], into, keywords, wanted, _hints(into, message), into)

    def _typed_dict_node(self, message: Message, into: Any) -> _Node:
        keys = _keys(message, into)
        wanted = [field.name in keys for field in message]
        hints = _hints(into, message)
        return self._node(message, OUTPUT_KINDS["dict"], into, wanted=wanted, hints=hints, into=into)

    def _absent(self, field: Field, members: dict[int, Any] | None) -> Any:
        absent = self.forms.absent(field)
        return members.get(absent, absent) if members and absent is not None else absent

    def _members(self, field: Field, hint: Any) -> dict[int, Any] | None:
        """Return what the numbers of an enum become: members of the annotated class, or names."""
        if field.type != "enum":
            return None
        found = _class_in(hint)
        if isinstance(found, type) and issubclass(found, enum.Enum):
            return _enum_members(field, found)
        return self.forms.members(field)

    def _child(self, field: Field, into: Any, hint: Any) -> int:
        message = field.message
        if message is None or field.role not in _NESTED:
            return -1
        if field.map:
            return self._add_entry(message, into, hint)
        null = None if field.repeated else NULL
        return self._add(message, _class_in(hint) if hint is not None else _plain(into), null)

    def _add_entry(self, entry: Message, into: Any, hint: Any) -> int:
        """Add the node of a map entry: tuples of key and value, which become a dict."""
        key, value = entry.fields
        child = -1
        if value.message is not None and value.role in _NESTED:
            child = self._add(value.message, _class_in(hint) if hint is not None else _plain(into))
        members = self._members(value, hint)
        missing = self._absent(value, members) if value.message is None else _MISSING
        self.nodes.append(
            _Node(
                self.messages.index(entry),
                OUTPUT_KINDS["tuple"],
                tuple,
                None,
                [-1, child],
                [self._absent(key, None), missing],
                [None, members],
                None,
            )
        )
        return len(self.nodes) - 1


def _enum_members(field: Field, of: type[enum.Enum]) -> dict[int, Any]:
    """Return the members of a Python enum by the numbers of the field: those with its values or names."""
    found: dict[int, Any] = {each.value: each for each in of if isinstance(each.value, int)}
    for name, number in field.members.items():
        same = [each for each in of if each.value == name] or [each for each in of if each.name == name]
        if same:
            found.setdefault(number, same[0])
    if not found.keys() & set(field.members.values()):
        raise TypeError(
            f"{of.__name__} has no member of the enum of {field.name}: {', '.join(field.members)}"
        )
    return found


def _plain(into: Any) -> Any:
    return into if into in (dict, tuple) else dict


def _wanted(message: Message, names: Collection[str]) -> list[bool] | None:
    """Return which fields are decoded, or None for all."""
    return None if len(names) == len(message.fields) else [field.name in names for field in message]


def _is_typed_dict(into: Any) -> bool:
    """Return True for a TypedDict of typing or typing_extensions."""
    return isinstance(into, type) and issubclass(into, dict) and hasattr(into, "__required_keys__")


def _keys(message: Message, into: Any) -> frozenset[str]:
    """Return the keys of a TypedDict. Raises TypeError if they are not fields of the message."""
    keys: frozenset[str] = into.__required_keys__ | into.__optional_keys__
    names = [field.name for field in message]
    unknown = sorted(keys.difference(names))
    if unknown:
        fix = did_you_mean(unknown[0], names) or "remove them"
        problem = f"{_name(into)} has keys that {message.name} does not have: {', '.join(unknown)}"
        raise TypeError(f"{problem}; {fix}")
    if names and not keys:
        raise TypeError(f"{_name(into)} takes none of the fields of {message.name}: {', '.join(names)}")
    return keys


def _arguments(message: Message, into: Any) -> tuple[tuple[str, ...], bool]:
    """Return the fields that a class takes, and True if it takes them by position, in this order.

    Raises:
        TypeError: `into` is no class that takes fields of the message, or needs other arguments.
    """
    origin = typing.get_origin(into) or into
    # such as list[Item]
    if not callable(into) or (isinstance(origin, type) and origin.__module__ == "builtins"):
        raise TypeError(f"into is {into!r}; it must be dict, tuple, or a class that takes the fields by name")
    if hasattr(into, "DESCRIPTOR"):
        problem = "into is a message class of google.protobuf, whose messages encode does not take"
        raise TypeError(f"{problem}; decode with its FromString, or into another class")
    names = tuple(field.name for field in message if not field.is_extension)
    check_aliases(into, names)
    try:
        parameters = parameters_of(into, names)
    except (TypeError, ValueError):
        return names, False
    by_position = {name for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY}
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()) and not by_position & {*names}:
        taken = names
    else:
        taken = tuple(name for name in names if name in parameters and name not in by_position)
    if names and not taken:
        raise TypeError(f"{_name(into)} takes none of the fields of {message.name}: {', '.join(names)}")
    needed = [name for name, each in parameters.items() if each.default is each.empty and name not in taken]
    missing = [name for name in needed if parameters[name].kind not in (2, 4)]
    if missing:
        raise TypeError(
            f"{_name(into)} needs {', '.join(missing)}, which {message.name} does not have; add defaults"
        )
    in_order = tuple(name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD)
    return taken, not by_position and in_order[: len(taken)] == taken


def _name(into: Callable[..., Any]) -> str:
    return getattr(into, "__name__", repr(into))


def _hints(into: Any, message: Message) -> dict[str, Any]:
    """Return the annotations of a class, or those of a function.

    Raises:
        TypeError: an annotation that names a class of nested messages or an enum is undefined, as in a class
            defined in a function. Otherwise its messages would silently become dicts.
    """

    def fail(owner: type, name: str, hint: Any, error: Exception) -> Exception:
        if not isinstance(error, NameError):
            return error
        problem = f"{_name(into)} annotates {name} with {hint!r}, but {owner.__module__} has no {error.name}"
        return TypeError(f"{problem}; define the classes of nested objects at the top level of a module")

    if isinstance(into, type):
        names = {field.name for field in message if field.role in _NESTED or field.type == "enum"}
        return read_hints(into, names, fail)
    try:
        return typing.get_type_hints(into)
    except (AttributeError, NameError, SyntaxError, TypeError):
        return {}


def _class_in(hint: Any) -> Any:
    """Return the class in an annotation, such as Sub in `list[Sub]`, `Sub | None` or `dict[str, Sub]`.

    Other annotations give dict.
    """
    if isinstance(hint, typing.NewType):
        return _class_in(hint.__supertype__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(origin or hint, "__value__"):  # an alias of the statement `type`, or of typing_extensions
        return _class_in(_value_of(origin or hint, arguments))
    if is_annotated_class(origin):  # a generic one, such as Page[Item]
        return origin
    if origin in (typing.Union, types.UnionType):
        return _class_in(next((each for each in arguments if each is not type(None)), None))
    if origin is typing.Annotated or (arguments and not _is_mapping(origin)):
        return _class_in(arguments[0])
    if arguments:  # the values of a map, or an object decoded into a dict
        return _class_in(arguments[-1])
    is_class = isinstance(hint, type) and hint.__module__ not in ("builtins", "typing", "collections.abc")
    return hint if is_class or hint is tuple else dict


def _value_of(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the annotation that an alias stands for, with these arguments for its parameters."""
    value, given = alias.__value__, dict(zip(alias.__type_params__, arguments, strict=False))
    if isinstance(value, typing.TypeVar):
        return given.get(value, value)
    parameters = getattr(value, "__parameters__", ()) if given else ()
    return value[tuple(given.get(each, each) for each in parameters)] if parameters else value


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
