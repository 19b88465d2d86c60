"""The codec: records of one message type to bytes and back."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from flowbuf._core import RECORD_KINDS, RECORD_ROLES, RecordCodec, RecordShape, RecordTypes
from flowbuf.arrow.batch import BATCH_ROWS, FlowStream
from flowbuf.codec import descriptors, examples, schemas
from flowbuf.codec.model import Field, Message
from flowbuf.codec.shapes import make_shape
from flowbuf.codec.times import from_time, to_time
from flowbuf.errors import DecodeError, EncodeError, SchemaError, shorten
from flowbuf.io.columns import encode_columns, read_messages
from flowbuf.schema import Schema
from flowbuf.schema.proto import PACKAGE, message_name
from flowbuf.schema.source import did_you_mean

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["UNKNOWN_FIELDS", "Codec"]

_SHAPES = 64  # that are kept, of those that `decode` is told

UNKNOWN_FIELDS = "_unknown_fields"
"""The key of the octets of fields that are not in the schema, in a dict that was read with `unknown_fields="keep"`."""


class Codec(RecordCodec):
    """Writes records to Protocol Buffers messages, and reads them back, without generated code.

    `source` says what a record is: a `Schema`, a message class or a descriptor of google.protobuf, or a
    FileDescriptorSet (or its octets); `message` which message of several, by its name. A record is a dict, a tuple of
    all fields in their order, or any object with the fields as attributes: a dataclass, a msgspec Struct. None is
    absent.

        codec = flowbuf.Codec.load("telemetry")
        data = codec.encode({"device_id": "a1", "temperature": 21.5})
        codec.decode(data)["temperature"]

    `into`: what messages are read into, dict, tuple, or a class that takes the fields by name (`decode` can be told
    otherwise); its annotations say the classes of the messages inside. Every field is there, with its default where
    the message does not have it: None of `optional` ones and messages.

    `unknown_keys`: of a dict to be written, "error" or "ignore". `unknown_fields`: of a message, "skip" or "keep",
    which puts them into the dict under `flowbuf.UNKNOWN_FIELDS`, from where they are written again. `times`: what
    google.protobuf.Timestamp and Duration are read as, "datetime" (in UTC, and timedelta; both end at microseconds),
    "datetime64" or "ns" (int); all are taken when writing, and a datetime without a zone is UTC. `enums`: what they are
    read as, "number" or "name"; both are taken.

    Output is that of google.protobuf's deterministic serialization. Raises EncodeError with the path of the value and
    DecodeError with path and offset; SchemaError where `source` cannot be used. One thread at a time.
    """

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
    ) -> None:
        _check("unknown_keys", unknown_keys, ("error", "ignore"))
        _check("unknown_fields", unknown_fields, ("skip", "keep"))
        _check("times", times, ("datetime", "datetime64", "ns"))
        _check("enums", enums, ("number", "name"))
        schema = source if isinstance(source, Schema) and _is_of(source, message) else None
        if schema is not None:
            described, find_class = schemas.to_message(schema), schema.message_class
        else:
            descriptor = _find_descriptor(source, message)
            described = _to_message(source, descriptor)
            schema = schemas.inner_schema(source, described) if isinstance(source, Schema) else None
            find_class = functools.partial(message_factory.GetMessageClass, descriptor)
        messages = described.reachable()
        record_types = RecordTypes([_describe(each, messages, enums == "name") for each in messages])
        options = (
            unknown_keys == "ignore",
            unknown_fields == "keep",
            times == "ns",
            to_time,
            from_time if times == "datetime64" else None,
            UNKNOWN_FIELDS,
            _suggest,
            _encode_error,
            _decode_error,
        )
        if unknown_fields == "keep":
            _check_names(messages)
        self._describe(record_types, options)  # raises where it has been before: then all stays as it was
        self.message = described
        self._schema = schema
        self._find_class: Callable[[], Any] = find_class
        self._messages, self._types = messages, record_types
        self._shapes: dict[Any, RecordShape] = {}
        self._use(self._shape_of(into))

    @classmethod
    def load(cls, reference: str | os.PathLike[str], message: str | None = None, **options: Any) -> Codec:
        """Of a built-in schema by its name, or of a file: a schema (.toml), a .proto, or else a descriptor set."""
        if not isinstance(reference, str | os.PathLike):
            raise TypeError(f"Codec.load takes a name or a path, not {reference!r}: try Codec(…)")
        suffix = os.path.splitext(os.fspath(reference))[1]
        if suffix in ("", ".toml"):
            return cls(Schema.load(reference), message, **options)
        origin = os.fspath(reference)
        if suffix == ".proto":
            files: FileDescriptorSet | bytes = descriptors.compile_proto(reference)
        else:
            files = descriptors.read_file(reference)
        found = descriptors.find_message(descriptors.load_files(files, origin), _name(message), origin)
        return cls(found, **options)

    def _shape_of(self, into: Any) -> RecordShape:
        shape = self._shapes.get(into)
        if shape is None:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            shape = self._shapes[into] = make_shape(self._types, self._messages, into)
        return shape

    def message_class(self) -> Any:
        """The google.protobuf class of the messages."""
        return self._find_class()

    @property
    def descriptor(self) -> Descriptor:
        """The google.protobuf descriptor of the message."""
        descriptor: Descriptor = self.message_class().DESCRIPTOR
        return descriptor

    # Records made up, and compared ----------------------------------------------------------------------------------

    def examples(self, count: int, seed: int = 0, into: Any = None) -> list[Any]:
        """So many plausible records, the same for a seed everywhere, as `decode` gives them. Raises SchemaError where a
        message requires itself, so that no record comes to an end."""
        records = itertools.islice(examples.examples(self.message, seed), count)
        return [self.decode(self.encode(record), into) for record in records]

    def strategy(self, into: Any = None) -> SearchStrategy[Any]:
        """A Hypothesis strategy of records of any values, as `decode` gives them. Raises ImportError without
        hypothesis, and SchemaError as `examples` does."""
        return examples.strategy(self.message).map(lambda record: self.decode(self.encode(record), into))

    def equal(self, one: Any, other: Any) -> bool:
        """Whether two records are the same message, whatever kinds of objects they are. Raises EncodeError where one is
        no record."""
        return self.encode(one) == self.encode(other)

    # Columns --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def schema(self) -> Schema:
        """The schema of the columns. Raises SchemaError where the message is not flat."""
        schema = schemas.to_schema(self.message) if self._schema is None else self._schema
        schema.require_flat("a table")
        return schema

    def read_columns(self, data: Any, batch_rows: int = BATCH_ROWS, strict: bool = False) -> FlowStream:
        """A stream of messages, each after its length as a varint - octets, a path or a file - as columns, as
        `flowbuf.read_messages` gives them: damage ends the stream and is counted, and raises DecodeError if `strict`.
        Raises SchemaError where the message is not flat."""
        return read_messages(data, self.schema, batch_rows=batch_rows, strict=strict)

    def encode_columns(self, table: Any) -> bytes:
        """The rows of any Arrow object as a stream of messages, as `flowbuf.encode_columns` writes them. Raises
        SchemaError where the message is not flat, and EncodeError."""
        return encode_columns(table, self.schema)

    def __reduce__(self) -> Any:
        raise TypeError("a codec cannot be pickled nor copied: make another of what this one was made of")

    def __repr__(self) -> str:
        return f"<Codec {self.message.name}: {len(self.message.fields)} fields>"


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: it must be one of {', '.join(known)}")


def _suggest(key: str, known: dict[str, int]) -> str:
    fix = did_you_mean(key, known)
    return f"; {fix}" if fix else ""


def _encode_error(problem: str, path: str) -> EncodeError:
    return EncodeError(problem, path)


def _decode_error(problem: str, path: str, offset: int) -> DecodeError:
    where = f"{shorten(path)}: octet {offset}" if path else f"octet {offset}"
    return DecodeError(f"{where}: {problem}", status="bad_message", offset=offset, path=path)


def _name(message: Any) -> str | None:
    if message is None or isinstance(message, str):
        return message
    raise TypeError(f"message is {message!r}: it must be the name of one; what is read into goes by into=…")


def _is_of(schema: Schema, message: Any) -> bool:
    """Whether the message of the schema itself is asked for, and there is one. Raises SchemaError where all columns are
    switched off, as they are in a schema of flows."""
    own = message_name(schema)
    if _name(message) is not None and message not in (own, f"{PACKAGE}.{own}"):
        return False
    if schema.columns and not schema.enabled:
        fix = 'write rows = "records" below [schema], or enable some'
        raise SchemaError("no column is enabled", fix, origin=schema.origin)
    return True


def _check_names(messages: list[Message]) -> None:
    for message in messages:
        if any(field.name == UNKNOWN_FIELDS for field in message):
            raise SchemaError(f"has a field {UNKNOWN_FIELDS!r}, where unknown fields are kept", origin=message.name)


def _find_descriptor(source: Any, name: str | None) -> Descriptor:
    name = _name(name)
    if isinstance(source, Schema):
        source = source.message_class()
    if isinstance(source, FileDescriptorProto):
        source = FileDescriptorSet(file=[source])
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if isinstance(source, FileDescriptorSet | bytes):
        return descriptors.find_message(
            descriptors.load_files(source, "the descriptor set"), name, "the descriptor set"
        )
    descriptor = getattr(source, "DESCRIPTOR", source)
    if not isinstance(descriptor, Descriptor):
        fix = "a Schema, a message class, a descriptor or a FileDescriptorSet"
        fix += "; Codec.load takes names and paths" if isinstance(source, str | os.PathLike) else ""
        raise TypeError(f"{type(source).__name__} says nothing of messages: it must be {fix}")
    return descriptors.find_message([descriptor], name, descriptor.full_name) if name else descriptor


def _to_message(source: Any, descriptor: Descriptor) -> Message:
    """A schema knows more of its messages than their descriptors say: integers of 8 and 16 bits, sizes of addresses."""
    known = schemas.to_message(source).reachable() if isinstance(source, Schema) else []
    return next((each for each in known if each.name == descriptor.name), None) or descriptors.to_message(descriptor)


# The tables of the core -----------------------------------------------------------------------------------------------


def _describe(message: Message, messages: list[Message], named: bool) -> list[dict[str, Any]]:
    oneofs = list(dict.fromkeys(field.oneof for field in message if field.oneof))
    return [_describe_field(field, messages, oneofs, named) for field in message]


def _describe_field(field: Field, messages: list[Message], oneofs: list[str], named: bool) -> dict[str, Any]:
    least, most = field.limits
    nested = field.message if field.role in ("record", "map") else None
    names = (
        {number: name for name, number in reversed(list(field.members.items()))} if named and field.members else None
    )
    absent = field.absent
    return {
        "name": field.name,
        "number": field.number,
        "kind": RECORD_KINDS[field.type],
        "role": RECORD_ROLES[field.role],
        "repeated": field.repeated,
        "packed": field.packed,
        "presence": field.presence,
        "required": field.required,
        "oneof": oneofs.index(field.oneof) + 1 if field.oneof else 0,
        "least": least,
        "most": most,
        "members": sorted(set(field.members.values())) if field.closed else None,
        "type": messages.index(nested) if nested is not None else None,
        "absent": names.get(absent, absent) if names and absent is not None else absent,
        "numbers": dict(field.members) if field.type == "enum" else None,
        "names": names,
    }
