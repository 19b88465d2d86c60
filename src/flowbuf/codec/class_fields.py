"""Fields of annotated classes.

These are dataclasses, NamedTuples, msgspec Structs, attrs classes and pydantic models. Each kind is found by
the attributes that its library adds to the class, so that no library is imported.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from flowbuf.codec.field_options import FieldOptions
from flowbuf.codec.field_options import field as make_options
from flowbuf.codec.hints import read_hints
from flowbuf.errors import SchemaError

__all__ = [
    *("KINDS", "ClassField", "check_aliases", "check_kind", "fields_of", "is_annotated_class", "is_class"),
    "parameters_of",
]

KINDS = "a dataclass, NamedTuple, msgspec.Struct, attrs class or pydantic model"

_MARKS = (
    ("__attrs_attrs__", "add @attrs.define"),
    ("__dataclass_fields__", "add @dataclass"),
    ("_fields", "write a NamedTuple with all of the fields"),
)
"""Attributes in which libraries store the fields of a class, and the fix if only a base class has one."""


@dataclass(frozen=True)
class ClassField:
    """A field of an annotated class.

    Attributes:
        owner: Name of the class.
        name: Name of the attribute.
        hint: Annotation without its outer `Annotated`.
        options: Options in the annotation, or None.
    """

    owner: str
    name: str
    hint: Any
    options: FieldOptions | None

    def error(self, problem: str, fix: str) -> SchemaError:
        """Return an error that names the class and the field."""
        return SchemaError(problem, fix, origin=f"{self.owner}.{self.name}")


def is_class(value: Any) -> TypeGuard[type]:
    """Return True for a class. In Python 3.10, `list[int]` is an instance of `type` too."""
    return isinstance(value, type) and not typing.get_args(value)


def is_annotated_class(value: Any) -> bool:
    """Return True if the value is a class of a supported kind."""
    return is_class(value) and _find_names(value) is not None


def check_kind(cls: type) -> None:
    """Raise SchemaError unless a class is of a supported kind."""
    if not is_annotated_class(cls):
        raise SchemaError(f"is not {KINDS}", _kind_fix(cls), origin=cls.__name__)


def fields_of(cls: type) -> list[ClassField]:
    """Return the fields of a class in the order of declaration. Inherited ones are first.

    Raises:
        SchemaError: the constructor does not take the fields, or an annotation cannot be evaluated.
    """
    names = _find_names(cls) or []
    _check_decorated(cls)
    hints = _hints(cls, names)
    found = [_make_field(cls, name, hints) for name in names]
    _check_constructor(cls, found)
    return found


# Kinds of classes -------------------------------------------------------------------------------------------


def _find_names(cls: type) -> list[str] | None:
    """Return the names of the fields, or None for a class of no supported kind."""
    pydantic = _pydantic_fields(cls)
    if pydantic is not None:
        return list(pydantic)
    if hasattr(cls, "__struct_fields__"):
        return list(cls.__struct_fields__)
    if hasattr(cls, "__attrs_attrs__"):
        return [each.name for each in cls.__attrs_attrs__]
    if dataclasses.is_dataclass(cls):
        return [each.name for each in dataclasses.fields(cls)]
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and _annotations(cls):
        return list(cls._fields)
    return None


def _pydantic_fields(cls: type) -> dict[str, Any] | None:
    found = getattr(cls, "__pydantic_fields__", None)
    if found is None and hasattr(cls, "__pydantic_validator__"):  # pydantic before 2.10
        found = getattr(cls, "model_fields", None)
    return found if isinstance(found, dict) else None


def _annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of a class and of the classes that it inherits from."""
    return {
        name: hint for owner in reversed(cls.__mro__) for name, hint in inspect.get_annotations(owner).items()
    }


def _kind_fix(cls: type) -> str:
    if issubclass(cls, enum.Enum):
        return "put it into the annotation of a field"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "a namedtuple has no annotations: use typing.NamedTuple"
    return "add @dataclasses.dataclass"


def _check_decorated(cls: type) -> None:
    """Raise SchemaError for a class that only inherits its decorator. Its own annotations are not fields."""
    if hasattr(cls, "__struct_fields__"):  # msgspec needs no decorator
        return
    own = [name for name, hint in inspect.get_annotations(cls).items() if not _is_class_variable(hint)]
    mark, fix = next((each for each in _MARKS if hasattr(cls, each[0])), ("", ""))
    if mark and mark not in vars(cls) and own:
        problem = f"annotations of the subclass are not fields: {', '.join(own)}"
        raise SchemaError(problem, fix, origin=cls.__name__)


def _is_class_variable(hint: Any) -> bool:
    if isinstance(hint, str):
        return "ClassVar" in hint
    return hint is typing.ClassVar or typing.get_origin(hint) is typing.ClassVar


# Annotations ------------------------------------------------------------------------------------------------


def _make_field(cls: type, name: str, hints: dict[str, Any]) -> ClassField:
    if name not in hints:
        raise SchemaError("has no annotation", "add one, such as int", origin=f"{cls.__name__}.{name}")
    hint, found = hints[name], []
    if typing.get_origin(hint) is typing.Annotated:
        hint, *metadata = typing.get_args(hint)
        found = [each for each in metadata if isinstance(each, FieldOptions)]
        if any(each is make_options for each in metadata):
            problem = "the annotation has flowbuf.field without a number"
            fix = "write Annotated[int, flowbuf.field(1)], for example"
            raise SchemaError(problem, fix, origin=f"{cls.__name__}.{name}")
    field = ClassField(cls.__name__, name, hint, found[0] if found else None)
    if len(found) > 1:
        raise field.error(f"has flowbuf.field {len(found)} times", "leave one")
    return field


def _hints(cls: type, names: list[str]) -> dict[str, Any]:
    def fail(owner: type, name: str, hint: Any, error: Exception) -> SchemaError:
        if isinstance(error, NameError):
            problem = f"annotation {hint!r} is undefined: {owner.__module__} has no {error.name}"
            fix = "define the class at the top level of the module, and before the codec"
        else:
            problem, fix = f"annotation {hint!r} cannot be evaluated: {error}", "correct it"
        return SchemaError(problem, fix, origin=f"{cls.__name__}.{name}")

    return read_hints(cls, names, fail, extras=True)


# Constructors -----------------------------------------------------------------------------------------------


def _check_constructor(cls: type, fields: list[ClassField]) -> None:
    """Raise SchemaError unless `decode` can pass all fields, and nothing else, by name."""
    for field in fields:
        _check_special(cls, field)
    try:
        parameters = parameters_of(cls, [field.name for field in fields])
    except (TypeError, ValueError):
        return
    kinds = {each.kind for each in parameters.values()}
    for field in fields:
        parameter = parameters.get(field.name)
        taken = parameter is not None and parameter.kind is not parameter.POSITIONAL_ONLY
        if not taken and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise field.error(f"the constructor of {cls.__name__} does not take it", "add it as a parameter")
        if parameter is not None and isinstance(parameter.default, FieldOptions):
            fix = "write it in the annotation: Annotated[int, flowbuf.field(1)]"
            raise field.error("flowbuf.field is its default value", fix)
    needed = {
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    for name in sorted(needed - {field.name for field in fields}):
        problem = f"the constructor needs {name!r}, which is not a field"
        raise SchemaError(problem, "give it a default value", origin=cls.__name__)


def _check_special(cls: type, field: ClassField) -> None:
    """Raise SchemaError if the constructor does not take the field, or takes it under another name."""
    name = field.name
    pydantic = _pydantic_fields(cls)
    if pydantic is not None:
        if alias := _only_alias(cls, name, pydantic[name]):
            problem = f"the constructor takes it as {alias!r}"
            raise field.error(problem, f"remove the alias, use serialization_alias, or {_BY_NAME}")
        if getattr(pydantic[name], "init", None) is False:
            _check_init(field, False)
    elif hasattr(cls, "__attrs_attrs__"):
        attribute = next(each for each in cls.__attrs_attrs__ if each.name == name)
        _check_init(field, attribute.init)
        alias = getattr(attribute, "alias", name.lstrip("_"))  # attrs before 22.2 has no aliases
        if alias != name:
            problem = f"the constructor takes it as {alias!r}"
            raise field.error(problem, f"rename it, or write attrs.field(alias={name!r})")
    elif dataclasses.is_dataclass(cls):
        _check_init(field, cls.__dataclass_fields__[name].init)


def _check_init(field: ClassField, init: bool) -> None:
    if not init:
        problem = "the constructor does not take it (init=False), so decode cannot set it"
        raise field.error(problem, "remove init=False, or make it a property or a ClassVar")


# Aliases of pydantic ----------------------------------------------------------------------------------------

_BY_NAME = "set populate_by_name=True in its ConfigDict"


def parameters_of(cls: Any, names: Collection[str]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a callable by their names.

    The signature of a pydantic model has aliases, also if the model accepts the names of the fields. In the
    result, such parameters have the names of the fields.

    Args:
        cls: A class, or another callable.
        names: Fields to pass. An alias that is one of them stays.

    Raises:
        TypeError: it is not callable.
        ValueError: it has no signature.
    """
    parameters = inspect.signature(cls).parameters
    fields = (_pydantic_fields(cls) if is_class(cls) else None) or {}
    own = _own_parameters(cls) if fields else ()
    renamed = {
        str(_alias(info)): name
        for name, info in fields.items()
        if (_by_name(cls) or name in own) and name in names and name not in parameters
    }
    for alias in (*names, *own):  # a parameter of a constructor that the model defines has one name
        renamed.pop(alias, None)
    return {renamed.get(name, name): each for name, each in parameters.items()}


def check_aliases(cls: Any, names: Collection[str]) -> None:
    """Raise TypeError if a pydantic model takes a field only under an alias, which is no field itself."""
    fields = (_pydantic_fields(cls) if is_class(cls) else None) or {}
    own = _own_parameters(cls) if fields else ()
    for name in fields.keys() & {*names} - {*own}:
        alias = _only_alias(cls, name, fields[name])
        if alias is not None and alias not in names:
            raise TypeError(f"{cls.__name__} takes {name} as {alias!r}; {_BY_NAME}")


def _only_alias(cls: type, name: str, info: Any) -> Any:
    """Return the alias of a field, or None if the constructor takes the field by its name."""
    alias = _alias(info)
    if alias is None or name in getattr(alias, "choices", (alias,)):
        return None
    return None if _by_name(cls) and name in parameters_of(cls, [name]) else alias


def _own_parameters(cls: Any) -> Collection[str]:
    """Return the parameters that a constructor takes by name."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    return {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}


def _alias(info: Any) -> Any:
    return info.validation_alias or info.alias


def _by_name(cls: type) -> bool:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    return bool(config.get("validate_by_name") or config.get("populate_by_name"))
