"""Annotated classes as Protocol Buffers definitions.

A class becomes a proto3 file. Classes and enums in its annotations become further top-level types.
"""

from __future__ import annotations

import enum
import re

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from flowbuf.codec.annotations import Shape, shape_of
from flowbuf.codec.class_fields import ClassField, check_kind, fields_of, is_class
from flowbuf.errors import SchemaError
from flowbuf.schema.proto import camel_case, upper_snake

__all__ = ["to_file"]

_LARGEST = (1 << 29) - 1  # number of a field
_RESERVED = range(19000, 20000)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SPELLING = "use ASCII letters, digits and _, and no digit first"


def to_file(source: type, name: str | None = None, package: str = "") -> tuple[FileDescriptorProto, str]:
    """Return the file that defines the message of an annotated class, and the full name of the message.

    Args:
        source: The class.
        name: Name of the message. Default: the name of the class.
        package: Package of the file. Default: none.

    Raises:
        TypeError: source is not a class.
        SchemaError: the class cannot be a message.
    """
    if not is_class(source):
        raise TypeError(f"source is {source!r}; it must be a class")
    check_kind(source)
    for what, text in (("name", name), ("package", package)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{what} is {text!r}; it must be str")
    if package and not all(_IDENTIFIER.fullmatch(part) for part in package.split(".")):
        raise SchemaError(f"package {package!r} is invalid", f"{_SPELLING}, in each part between dots")
    return _File(source, source.__name__ if name is None else name, package).build()


class _File:
    """A file during its construction."""

    def __init__(self, source: type, name: str, package: str) -> None:
        self.root = name
        self.prefix = f"{package}." if package else ""
        self.file = FileDescriptorProto(
            name=f"{upper_snake(name).lower()}.proto", package=package or None, syntax="proto3"
        )
        self.names: dict[type, str] = {}
        self.taken: dict[str, str] = {}
        self.waiting: list[type] = []
        self._take_name(source, name)

    def build(self) -> tuple[FileDescriptorProto, str]:
        for each in self.waiting:  # the list grows during the loop
            self._add_message(each)
        self.file.dependency.sort()
        return self.file, f"{self.prefix}{self.root}"

    # Types ------------------------------------------------------------------------------------------------

    def type_name(self, of: type) -> str:
        """Return the absolute name of a message or enum. Add it to the file on first use."""
        if of not in self.names:
            self._take_name(of, of.__name__)
        return f".{self.prefix}{self.names[of]}"

    def _take_name(self, of: type, name: str) -> None:
        place = _place(of)
        if not _IDENTIFIER.fullmatch(name):
            fix = f"pass another one as name=…; {_SPELLING}" if not self.names else _SPELLING
            raise SchemaError(f"{name!r} is not a valid name of a message", fix, origin=place)
        if name == "google" and not self.prefix:
            problem = "the name 'google' is that of a package of Protocol Buffers"
            raise SchemaError(problem, "choose another name, or set package", origin=place)
        self._take(name, place)
        self.names[of] = name
        if issubclass(of, enum.Enum):
            self._add_enum(of, name)
        else:
            self.waiting.append(of)

    def _take(self, name: str, place: str) -> None:
        if name in self.taken:
            problem = f"needs the name {name} in the .proto, like {self.taken[name]}"
            raise SchemaError(problem, "rename one of them", origin=place)
        self.taken[name] = place

    def _add_enum(self, of: type[enum.Enum], name: str) -> None:
        """Add an enum. Names of members have the name of the enum as a prefix, as in the style guide.

        The members of all top-level enums share one scope.
        """
        members = sorted(of, key=lambda member: member.value != 0)  # the first member of proto3 is zero
        if not members or members[0].value != 0:
            fix = "add a member such as UNKNOWN = 0, which absent values decode to"
            raise SchemaError("has no member with the value 0", fix, origin=of.__name__)
        added = self.file.enum_type.add(name=name)
        prefix = f"{upper_snake(name)}_"
        folded: dict[str, str] = {}
        for member in members:
            place = f"{of.__name__}.{member.name}"
            if not _IDENTIFIER.fullmatch(member.name):
                raise SchemaError(f"{member.name!r} is not a valid name of a member", _SPELLING, origin=place)
            if not -(1 << 31) <= member.value < 1 << 31:
                raise SchemaError(f"{member.value} does not fit 32 bits", "use a smaller value", origin=place)
            key = "".join(word.capitalize() for word in member.name.split("_"))  # as protoc compares them
            if key in folded:
                problem = f"its name differs from {folded[key]} only by case and underscores"
                raise SchemaError(problem, "rename one of them", origin=place)
            folded[key] = member.name
            full = f"{prefix}{upper_snake(member.name).removeprefix(prefix)}"
            self._take(full, place)
            added.value.add(name=full, number=member.value)

    # Messages ---------------------------------------------------------------------------------------------

    def _add_message(self, of: type) -> None:
        fields = fields_of(of)
        numbers = _numbers(fields)
        message = self.file.message_type.add(name=self.names[of])
        scope = _Scope(self, message)
        shapes = [(field, number, shape_of(field)) for field, number in zip(fields, numbers, strict=True)]
        for field, number, shape in _grouped(shapes):
            scope.add(field, number, shape)
        scope.finish()

    def use(self, full_name: str) -> str:
        """Import a well-known message. Return its absolute name."""
        imported = f"{full_name.lower().replace('.', '/')}.proto"
        if imported not in self.file.dependency:
            self.file.dependency.append(imported)
        return f".{full_name}"


_Entry = tuple[ClassField, int, Shape]


def _grouped(shapes: list[_Entry]) -> list[_Entry]:
    """Return the fields with those of a oneof together, as in a .proto file."""
    groups: dict[str, list[_Entry]] = {}
    for entry in shapes:
        oneof = _oneof(entry[0])
        groups.setdefault(f"oneof {oneof}" if oneof is not None else entry[0].name, []).append(entry)
    return [entry for group in groups.values() for entry in group]


class _Scope:
    """A message during its construction. Its fields, oneofs and map entries share one scope of names."""

    def __init__(self, file: _File, message: DescriptorProto) -> None:
        self.file = file
        self.message = message
        self.taken: dict[str, str] = {}
        self.json: dict[str, str] = {}
        self.optional: list[FieldDescriptorProto] = []

    def add(self, field: ClassField, number: int, shape: Shape) -> None:
        self._take(field, field.name)
        self._take_json(field)
        added = self.message.field.add(name=field.name, number=number)
        added.label = added.LABEL_OPTIONAL
        if shape.key is not None:
            added.label = added.LABEL_REPEATED
            added.type = added.TYPE_MESSAGE
            added.type_name = self._add_entry(field, shape)
        else:
            if shape.repeated:
                added.label = added.LABEL_REPEATED
            self._set_type(added, shape)
        oneof = _oneof(field)
        if oneof is not None:
            self._join(field, added, shape, oneof)
        elif shape.optional and added.type != added.TYPE_MESSAGE:
            self.optional.append(added)

    def finish(self) -> None:
        """Add the oneofs that represent the presence of optional fields, with the names that protoc gives."""
        for field in self.optional:
            name = field.name if field.name.startswith("_") else f"_{field.name}"
            while name in self.taken:
                name = f"X{name}"
            self.taken[name] = field.name
            field.proto3_optional = True
            field.oneof_index = len(self.message.oneof_decl)
            self.message.oneof_decl.add(name=name)

    def _set_type(self, added: FieldDescriptorProto, shape: Shape) -> None:
        if "." in shape.proto_type:
            added.type = added.TYPE_MESSAGE
            added.type_name = self.file.use(shape.proto_type)
        else:
            added.type = FieldDescriptorProto.Type.Value(f"TYPE_{shape.proto_type.upper()}")
            if shape.of is not None:
                added.type_name = self.file.type_name(shape.of)

    def _add_entry(self, field: ClassField, shape: Shape) -> str:
        """Add the message of the entries of a map. Return its absolute name."""
        name = f"{camel_case(field.name)}Entry"
        self._take(field, name)
        entry = self.message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, form) in enumerate((("key", Shape(str(shape.key))), ("value", shape)), start=1):
            added = entry.field.add(name=part, number=number)
            added.label = added.LABEL_OPTIONAL
            self._set_type(added, form)
        return f".{self.file.prefix}{self.message.name}.{name}"

    def _join(self, field: ClassField, added: FieldDescriptorProto, shape: Shape, oneof: str) -> None:
        """Make a field a member of a oneof."""
        if shape.repeated or shape.key is not None:
            raise field.error("a list or dict cannot be a member of a oneof", "wrap it in an annotated class")
        if not shape.optional:
            fix = "add None to the annotation: T | None"
            raise field.error("a member of a oneof must be optional", fix)
        known = [each.name for each in self.message.oneof_decl]
        if oneof not in known:
            self._take(field, oneof)
            self.message.oneof_decl.add(name=oneof)
            known.append(oneof)
        added.oneof_index = known.index(oneof)

    def _take(self, field: ClassField, name: str) -> None:
        if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
            raise field.error(f"{name!r} is not a valid name in Protocol Buffers", _SPELLING)
        if name in self.taken:
            problem = f"needs the name {name} in the .proto, like {self.taken[name]}"
            raise field.error(problem, "rename one of them")
        self.taken[name] = field.name

    def _take_json(self, field: ClassField) -> None:
        """Raise SchemaError if two fields have the same name in JSON, which protoc does not allow."""
        first, *rest = field.name.split("_")
        name = first + "".join(word[:1].upper() + word[1:] for word in rest)
        if name in self.json:
            problem = f"has the same name in JSON as {self.json[name]}, {name!r}"
            raise field.error(problem, "rename one of them")
        self.json[name] = field.name


def _oneof(field: ClassField) -> str | None:
    return field.options.oneof if field.options else None


def _place(of: type) -> str:
    return f"{of.__module__}.{of.__qualname__}"


# Numbers ----------------------------------------------------------------------------------------------------


def _numbers(fields: list[ClassField]) -> list[int]:
    """Return the numbers of the fields: explicit for all, or counted from 1.

    Raises:
        SchemaError: a number is invalid, or only some fields have one.
    """
    numbered = [field for field in fields if field.options]
    if numbered and len(numbered) < len(fields):
        missing = next(field for field in fields if not field.options)
        problem = f"has no number, but {numbered[0].name} has one"
        fix = "number all fields or none; a field inserted later would renumber those after it"
        raise missing.error(problem, fix)
    numbers: dict[int, ClassField] = {}
    for place, field in enumerate(fields, start=1):
        number = field.options.number if field.options else place
        _check_number(field, number)
        if number in numbers:
            problem = f"number {number} is already used by {numbers[number].name}"
            raise field.error(problem, "choose an unused number")
        numbers[number] = field
    return list(numbers)


def _check_number(field: ClassField, number: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise field.error(f"number {number!r} is not an int", "write flowbuf.field(1), for example")
    if number in _RESERVED:
        problem = f"number {number} is reserved by Protocol Buffers (19000 to 19999)"
        raise field.error(problem, "choose another number")
    if not 1 <= number <= _LARGEST:
        raise field.error(f"number {number} is out of range", f"use 1 to {_LARGEST}")
