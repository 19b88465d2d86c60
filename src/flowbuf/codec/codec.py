"""The codec: objects of one message type to bytes and back."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, overload

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf._core import PLAIN_TYPES, JsonConverter, ObjectOutput, ObjectTypes
from flowbuf.codec import classes, descriptors, examples, files, presence, schemas
from flowbuf.codec.class_fields import is_annotated_class
from flowbuf.codec.column_codec import ColumnCodec
from flowbuf.codec.json import make_converter
from flowbuf.codec.model import Message
from flowbuf.codec.outputs import make_output
from flowbuf.codec.plain import ANY, NULL, plain_kind
from flowbuf.codec.streams import Into, T, U
from flowbuf.codec.tables import Forms, describe
from flowbuf.codec.times import from_time, to_time
from flowbuf.errors import DecodeError, EncodeError, SchemaError, did_you_mean, shorten
from flowbuf.schema import Schema
from flowbuf.schema.loader import built_in_names
from flowbuf.schema.proto import PACKAGE, message_name

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from typing_extensions import Unpack

__all__ = ["UNKNOWN_FIELDS", "Codec"]

_OUTPUTS = 64  # outputs cached for the argument `into` of `decode`

UNKNOWN_FIELDS = "_unknown_fields"
"""Key of the bytes of unknown fields, in a dict decoded with `unknown_fields="keep"`."""


class Options(TypedDict, total=False):
    """Options of a `Codec`, except `into`."""

    unknown_keys: Literal["error", "ignore"]
    unknown_fields: Literal["skip", "keep"]
    times: Literal["datetime", "datetime64", "ns"]
    enums: Literal["number", "name"]
    defaults: Literal["fill", "omit"]


class Codec(ColumnCodec[T]):
    """Encode objects as Protocol Buffers messages, and decode them, without generated code.

    An object is a dict, a tuple of all fields in order, or an instance of a class with the fields as
    attributes, such as a dataclass. None stands for an absent field. A decoded object has every field: absent
    ones have their default; `optional` fields and messages are None unless the definition declares a default.

    The output equals the deterministic serialization of google.protobuf. Several threads may use a codec at
    the same time. A codec can be pickled, if the class `into` can. For type checkers, `Codec[Order]` decodes
    to `Order`.

    Args:
        source: Definition of the message type: a `Schema`, a google.protobuf message class, descriptor or
            FileDescriptorSet, or the bytes of a FileDescriptorSet.
        message: Name of the message, if the source defines several. Default: the message of the schema or
            descriptor, or the only message of the set.
        into: Type of decoded objects: dict (default), tuple, a TypedDict, or a class that takes the fields by
            name. Its annotations name the classes of nested messages. `decode` can override it.
        unknown_keys: "error" (default) or "ignore": treatment of unknown keys of a dict to encode.
        unknown_fields: "skip" (default) or "keep": treatment of unknown fields of a message. "keep" stores
            them in the dict under `flowbuf.UNKNOWN_FIELDS`, and `encode` writes them again.
        times: Decoded form of google.protobuf.Timestamp and Duration. "datetime" (default) gives datetime in
            UTC and timedelta, both with microsecond precision. "datetime64" gives numpy types, and "ns" gives
            int. `encode` accepts all forms; a datetime without a time zone is UTC.
        enums: Decoded form of enum members: "number" (default) or "name". `encode` accepts both.
        defaults: Treatment of absent fields with presence: `optional` and proto2 fields, messages, and
            members of a oneof. "fill" (default) gives the default that the definition declares, or None.
            "omit" leaves them out of dicts, and gives None in tuples and classes, so that encoding an object
            again keeps them absent.

    Raises:
        SchemaError: the source cannot be used.
        TypeError: the source defines no messages, or the class `into` does not take the fields.
        ValueError: an option has an unknown value.

    Example:
        codec = flowbuf.Codec.load("telemetry")
        data = codec.encode({"device_id": "a1", "temperature": 21.5})
        codec.decode(data)["temperature"]
    """

    @overload
    def __init__(
        self: Codec[dict[str, Any]],
        source: Any,
        message: str | None = None,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Codec[U],
        source: Any,
        message: str | None = None,
        *,
        into: Into[U],
        **options: Unpack[Options],
    ) -> None: ...
    def __init__(
        self,
        source: Any,
        message: str | None = None,
        *,
        into: Any = dict,
        unknown_keys: str = "error",
        unknown_fields: str = "skip",
        times: str = "datetime",
        enums: str = "number",
        defaults: str = "fill",
    ) -> None:
        _check("unknown_keys", unknown_keys, ("error", "ignore"))
        _check("unknown_fields", unknown_fields, ("skip", "keep"))
        _check("times", times, ("datetime", "datetime64", "ns"))
        _check("enums", enums, ("number", "name"))
        _check("defaults", defaults, ("fill", "omit"))
        schema = source if isinstance(source, Schema) and _is_of(source, message) else None
        descriptor: Descriptor | None = None
        if schema is not None:
            described, find_class = schemas.to_message(schema), schema.message_class
        else:
            descriptor = _find_descriptor(source, message)
            described = _to_message(source, descriptor)
            schema = schemas.inner_schema(source, described) if isinstance(source, Schema) else None
            find_class = functools.partial(message_factory.GetMessageClass, descriptor)
        messages = _messages(described, descriptor)
        places = {each: place for place, each in enumerate(messages)}
        object_types = ObjectTypes(
            [(PLAIN_TYPES[plain_kind(each)], describe(each, places)) for each in messages]
        )
        options = (
            unknown_keys == "ignore",
            unknown_fields == "keep",
            defaults == "omit",
            times == "ns",
            to_time,
            from_time if times == "datetime64" else None,
            UNKNOWN_FIELDS,
            _suggest,
            _encode_error,
            _decode_error,
            NULL,
            {each.name: place for each, place in places.items()},
        )
        if unknown_fields == "keep":
            _check_names(messages)
        # raises if the codec was described before, and changes nothing then
        self._describe(object_types, options)
        self.message = described
        self._schema = schema
        self._find_class: Callable[[], Any] = find_class
        self._options = {
            "into": into,
            "unknown_keys": unknown_keys,
            "unknown_fields": unknown_fields,
            "times": times,
            "enums": enums,
            "defaults": defaults,
        }
        self._origin = source if isinstance(source, Schema) else None
        self._name = message if descriptor is None else descriptor.full_name
        self._descriptor = descriptor
        self._messages, self._types = messages, object_types
        self._forms = Forms(named=enums == "name", omitting=defaults == "omit")
        self._outputs: dict[Any, ObjectOutput] = {}
        self._use(self._output_of(into))

    @overload
    @classmethod
    def load(
        cls,
        reference: str | os.PathLike[str],
        message: str | None = None,
        *,
        include: Sequence[str | os.PathLike[str]] | None = None,
        **options: Unpack[Options],
    ) -> Codec[dict[str, Any]]: ...
    @overload
    @classmethod
    def load(
        cls,
        reference: str | os.PathLike[str],
        message: str | None = None,
        *,
        include: Sequence[str | os.PathLike[str]] | None = None,
        into: Into[U],
        **options: Unpack[Options],
    ) -> Codec[U]: ...
    @classmethod
    def load(
        cls,
        reference: str | os.PathLike[str],
        message: str | None = None,
        *,
        include: Sequence[str | os.PathLike[str]] | None = None,
        **options: Any,
    ) -> Codec[Any]:
        """Load a codec from a built-in schema or a file.

        Args:
            reference: Name of a built-in schema, or path of a schema (.toml), a .proto file, or a folder of
                .proto files. A path with any other extension is a descriptor set of protoc or buf. A .proto
                file may also be named as in an import, from a folder of `include`.
            message: Name of the message, if the file defines several.
            include: Folders in which a .proto file and its imports are searched, in addition to its own
                folder. Default: none.
            **options: Options of `Codec`.

        Returns:
            Codec: the codec.

        Raises:
            SchemaError: the file cannot be read or does not define the message, or no compiler is found. The
                extra flowbuf[proto] installs grpcio-tools, which contains one.
            TypeError: the reference is no name or path, or the class `into` does not take the fields.
            ValueError: an option has an unknown value.

        Example:
            with open("order.proto", "w") as file:
                print('syntax = "proto3"; message Order { uint32 id = 1; }', file=file)

            codec = flowbuf.Codec.load("order.proto", "Order", times="ns")
            codec.decode(codec.encode({"id": 7}))
        """
        if not isinstance(reference, str | os.PathLike):
            raise TypeError(f"Codec.load takes a name or a path, not {reference!r}; use Codec(…)")
        include = () if include is None else include
        if isinstance(include, str) or not isinstance(include, Sequence):
            raise TypeError(f"include is {include!r}; it must be a list of folders")
        origin = os.fspath(reference)
        suffix = os.path.splitext(origin)[1]
        compiled = suffix == ".proto" or (os.path.isdir(origin) and origin not in built_in_names())
        if include and not compiled:
            raise SchemaError("include applies only to .proto files", "leave it out", origin=origin)
        if not compiled and suffix in ("", ".toml"):
            return cls(Schema.load(reference), message, **options)
        requested: list[str] = []
        if compiled:
            file_set: FileDescriptorSet | bytes
            file_set, requested = files.compile_proto(reference, include)
        else:
            file_set = files.read_file(reference)
        known = files.load_files(file_set, origin)
        return cls(files.find_message(known, _name(message), origin, requested), **options)

    @classmethod
    def from_class(
        cls, source: type[U], *, name: str | None = None, package: str = "", **options: Unpack[Options]
    ) -> Codec[U]:
        """Make a codec from an annotated class. `decode` returns instances of the class.

        The annotations define a proto3 message. Annotated classes in annotations become further messages.
        Defaults of the class are not part of the message.

        Args:
            source: A dataclass, NamedTuple, msgspec.Struct, attrs class or pydantic model.
            name: Name of the message. Default: the name of the class.
            package: Package of the message. Default: none.
            **options: Options of `Codec`, except `into`.

        Returns:
            Codec: the codec.

        Raises:
            SchemaError: an annotation, a name or a number is not possible in Protocol Buffers, or the
                constructor of a class does not take the fields by name.
            TypeError: source is not a class.

        Example:
            import dataclasses
            from typing import Annotated

            @dataclasses.dataclass
            class Order:
                id: Annotated[int, flowbuf.field(1, "uint32")]
                customer: Annotated[str, flowbuf.field(2)]

            codec = flowbuf.Codec.from_class(Order)
            codec.decode(codec.encode(Order(7, "ana")))
        """
        wrong = sorted({"into", "message", "include"} & options.keys())
        if wrong:
            raise TypeError(
                f"from_class takes no {wrong[0]}: the class is the message, and the type of objects"
            )
        file, message = classes.to_file(source, name, package)
        made: Any = cls(file, message, into=source, **options)
        return cast(Codec[U], made)

    def _output_of(self, into: Any) -> ObjectOutput:
        try:
            output = self._outputs.get(into)
        except TypeError:  # it cannot be hashed
            raise TypeError(f"into is an instance of {type(into).__name__}; it must be a class") from None
        if output is None:
            if len(self._outputs) >= _OUTPUTS:
                self._outputs.clear()
            output = self._outputs[into] = make_output(self._types, self._messages, self._forms, into)
        return output

    def _make_converter(self) -> JsonConverter:
        return make_converter(self.descriptor, self.message)

    def message_class(self) -> Any:
        """Return the google.protobuf class of the message.

        Returns:
            type: the class, which needs no generated code.

        Raises:
            SchemaError: two names of a schema collide.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            message = codec.message_class()(device_id="a1")
            codec.decode(message.SerializeToString())
        """
        return self._find_class()

    @property
    def descriptor(self) -> Descriptor:
        """The google.protobuf descriptor of the message."""
        if self._descriptor is None:
            self._descriptor = self.message_class().DESCRIPTOR
        return self._descriptor

    # Presence -----------------------------------------------------------------------------------------------

    def has(self, value: Any, path: str) -> bool:
        """Return True if a message has a field.

        Messages, members of a oneof, `optional` fields, and single fields of proto2 have presence.
        Single fields of editions have it by default.

        Args:
            value: The message as bytes or another buffer; or an object, which is encoded.
            path: Name of the field, or names with dots for a field of nested messages: "order.customer". An
                extension has its full name in brackets: "[shop.color]".

        Returns:
            bool: False also if a message around the field is absent.

        Raises:
            ValueError: the message type has no such field, or the field has no presence.
            DecodeError: the message is malformed.
            EncodeError: the object cannot be encoded.

        Example:
            codec = flowbuf.Codec.load("record")
            data = codec.encode({"name": "a1", "parent": {}})
            codec.has(data, "parent"), codec.has(data, "created")
        """
        return presence.has_field(self._messages[0], self._decode_present(value), path)

    def which_oneof(self, value: Any, path: str) -> str | None:
        """Return the name of the member that a oneof of a message has, or None.

        Args:
            value: As in `has`.
            path: Name of the oneof, with the names of the messages around it: "order.payment".

        Returns:
            str: the name. None if the message has no member of the oneof, or lacks a message around it.

        Raises:
            ValueError: the message type has no such oneof.
            DecodeError: the message is malformed.
            EncodeError: the object cannot be encoded.

        Example:
            import dataclasses
            from typing import Annotated

            @dataclasses.dataclass
            class Payment:
                card: Annotated[str | None, flowbuf.field(1, oneof="kind")] = None
                cash: Annotated[int | None, flowbuf.field(2, oneof="kind")] = None

            codec = flowbuf.Codec.from_class(Payment)
            codec.which_oneof(Payment(card="1234"), "kind")
        """
        return presence.find_member(self._messages[0], self._decode_present(value), path)

    def _decode_present(self, value: Any) -> Any:
        try:
            data: Any = memoryview(value)
        except TypeError:  # an object
            data = self.encode(value)
        return self._present.decode(data)

    @functools.cached_property
    def _present(self) -> Codec[Any]:
        """The codec whose dicts have only the fields of the message."""
        return type(self)(self._source(), self._name, defaults="omit", times="ns")

    # Examples and comparison --------------------------------------------------------------------------------

    def examples(self, count: int, seed: int = 0, into: Any = None) -> list[Any]:
        """Return plausible objects, in the form that `decode` returns.

        Args:
            count: Number of objects.
            seed: Seed of the random numbers. A seed gives the same objects on every machine. Default: 0.
            into: Type of the objects: see `decode`.

        Returns:
            list: the objects.

        Raises:
            SchemaError: the message requires itself, so that no finite object exists.
            TypeError: the type `into` does not take the fields.

        Example:
            codec = flowbuf.Codec.load("telemetry")
            codec.examples(2, seed=7)
        """
        objects = itertools.islice(examples.examples(self.message, seed), count)
        return [self.decode(self.encode(each), into) for each in objects]

    def strategy(self, into: Any = None) -> SearchStrategy[Any]:
        """Return a Hypothesis strategy of objects with arbitrary values, in the form that `decode` returns.

        Args:
            into: Type of the objects: see `decode`.

        Returns:
            SearchStrategy: for arguments of `hypothesis.given`.

        Raises:
            ImportError: hypothesis is not installed.
            SchemaError: the message requires itself, so that no finite object exists.

        Example:
            import hypothesis

            codec = flowbuf.Codec.load("telemetry")

            @hypothesis.given(report=codec.strategy())
            def test_round_trip(report):
                assert codec.equal(codec.decode(codec.encode(report)), report)

            test_round_trip()
        """
        return examples.strategy(self.message).map(lambda each: self.decode(self.encode(each), into))

    def equal(self, one: Any, other: Any) -> bool:
        """Return True if two objects encode to the same message, even if their types differ.

        Args:
            one: Object: see `encode`.
            other: Object to compare with.

        Returns:
            bool: True if the bytes of the messages are equal.

        Raises:
            EncodeError: one of them cannot be encoded.

        Example:
            codec = flowbuf.Codec.load("client_message")
            codec.equal({"client": "ana", "sequence": 1}, ("ana", "", 1))
        """
        return self.encode(one) == self.encode(other)

    def __reduce__(self) -> Any:
        return _restore, (type(self), self._source(), self._name, self._options)

    def __copy__(self) -> Codec[T]:
        return self  # a codec does not change

    def __deepcopy__(self, memo: Any) -> Codec[T]:
        return self

    def _source(self) -> bytes | Schema:
        """Return the source in a form that can be pickled."""
        if self._origin is not None:
            return self._origin
        return descriptors.to_file_set(self.descriptor).SerializeToString()

    def __repr__(self) -> str:
        return f"<Codec {self.message.name}: {len(self.message.fields)} fields>"


def _restore(
    of: type[Codec[Any]], source: bytes | Schema, message: str | None, options: dict[str, Any]
) -> Codec[Any]:
    """Make a codec that was pickled."""
    return of(source, message, **options)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(known)}")


def _suggest(key: str, known: dict[str, int]) -> str:
    fix = did_you_mean(key, known)
    return f"; {fix}" if fix else ""


def _encode_error(problem: str, path: str) -> EncodeError:
    return EncodeError(problem, path)


def _decode_error(problem: str, path: str, offset: int) -> DecodeError:
    where = f"{shorten(path)}: byte {offset}" if path else f"byte {offset}"
    return DecodeError(f"{where}: {problem}", status="bad_message", offset=offset, path=path)


def _name(message: Any) -> str | None:
    if message is None or isinstance(message, str):
        return message
    raise TypeError(
        f"message is {message!r}, not the name of a message; pass the type of the objects as into=…"
    )


def _is_of(schema: Schema, message: Any) -> bool:
    """Return True if the schema's own message is meant.

    Raises SchemaError if all of its columns are disabled.
    """
    own = message_name(schema)
    if _name(message) is not None and message not in (own, f"{PACKAGE}.{own}"):
        return False
    if schema.columns and not schema.enabled:
        fix = 'enable columns, or write rows = "records" below [schema]'
        raise SchemaError("no column is enabled", fix, origin=schema.origin)
    return True


def _check_names(messages: list[Message]) -> None:
    for message in messages:
        if any(field.name == UNKNOWN_FIELDS for field in message):
            raise SchemaError(
                f"field {UNKNOWN_FIELDS!r} has the name of the key for unknown fields",
                'rename it, or set unknown_fields to "skip"',
                origin=message.name,
            )


def _find_descriptor(source: Any, name: str | None) -> Descriptor:
    name = _name(name)
    if isinstance(source, Schema):
        source = source.message_class()
    if isinstance(source, FileDescriptorProto):
        source = FileDescriptorSet(file=[source])
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if isinstance(source, FileDescriptorSet | bytes):
        return files.find_message(files.load_files(source, "the descriptor set"), name, "the descriptor set")
    descriptor = getattr(source, "DESCRIPTOR", source)
    if not isinstance(descriptor, Descriptor):
        fix = "a Schema, a message class, a descriptor or a FileDescriptorSet"
        if isinstance(source, str | os.PathLike):
            fix += "; Codec.load takes names and paths"
        elif is_annotated_class(source):
            fix += "; Codec.from_class takes annotated classes"
        elif isinstance(getattr(source, "DESCRIPTOR", None), FileDescriptor):
            fix += "; choose a message class of the module"
        what = source.__name__ if isinstance(source, type) else type(source).__name__
        raise TypeError(f"source is {what}; it must be {fix}")
    return files.find_message([descriptor], name, descriptor.full_name) if name else descriptor


def _messages(message: Message, descriptor: Descriptor | None) -> list[Message]:
    """Return a message type and the types inside it: with extensions, and with those that an Any may have.

    A schema has neither.
    """
    known = message.reachable()
    if descriptor is None:
        return known
    messages = descriptors.inner_messages(descriptor)
    more = any(each.name == ANY or any(field.is_extension for field in each) for each in messages)
    return messages if more else known  # a schema limits the values of `known`


def _to_message(source: Any, descriptor: Descriptor) -> Message:
    """Return the message of a descriptor. A schema adds 8 and 16 bit integers and address sizes to it."""
    known = schemas.to_message(source).reachable() if isinstance(source, Schema) else []
    return next((each for each in known if each.name == descriptor.name), None) or descriptors.to_message(
        descriptor
    )
