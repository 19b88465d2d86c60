"""Random message types of every kind, and random messages of them, as classes of google.protobuf.

A type has scalars, enums, nested messages, groups, lists, maps and oneofs, and may contain itself. Files are
of proto2, proto3 or edition 2023. With `well_known`, fields may also have the types of google.protobuf that
have a JSON form of their own.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import (
    EDITION_2023,
    DescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import (
    BoolValue,
    BytesValue,
    DoubleValue,
    Int64Value,
    StringValue,
    UInt32Value,
)

F = FieldDescriptorProto
SCALARS = [
    *(F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_INT32, F.TYPE_FIXED64, F.TYPE_FIXED32),
    *(F.TYPE_BOOL, F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_UINT32, F.TYPE_SFIXED32, F.TYPE_SFIXED64),
    *(F.TYPE_SINT32, F.TYPE_SINT64),
]
KEYS = [kind for kind in SCALARS if kind not in (F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_BYTES)]
PACKABLE = [kind for kind in SCALARS if kind not in (F.TYPE_STRING, F.TYPE_BYTES)]
TIMES = [Timestamp, Duration]
WELL_KNOWN = [
    *(*TIMES, Struct, Value, ListValue, FieldMask, AnyMessage),
    *(BoolValue, BytesValue, DoubleValue, Int64Value, StringValue, UInt32Value),
]
NAMES = ["a", "b_c", "d1", "e_2_f", "g__h", "i_", "_j", "Camel", "with_a_long_name", "n", "o_p_q"]
SYNTAXES = ["proto2", "proto3", "editions"]
RANGES = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, (1 << 64) - 1)),
}
TEXTS = ["", "x", 'quo"te\\', "\n\t\0\x1f", "é", "漢字 😀", "\u2028\u202e", "plain text", "x" * 200]


class RandomTypes:
    """Message types of one file, made from the seed of a random generator."""

    def __init__(self, seed: int, well_known: bool = False) -> None:
        self.random = random.Random(seed)
        self.syntax = self.random.choice(SYNTAXES)
        self.well_known = WELL_KNOWN if well_known else TIMES
        self.file = FileDescriptorProto(name=f"random{seed}.proto", package="random")
        if self.syntax != "proto2":
            self.file.syntax = self.syntax
        if self.syntax == "editions":
            self.file.edition = EDITION_2023
        self.count = self.random.randrange(1, 4)
        self._add_enum()
        for number in range(self.count):
            self._add_message(f"M{number}")
        pool = descriptor_pool.DescriptorPool()
        for each in sorted({kind.DESCRIPTOR.file.name for kind in self.well_known}):
            self.file.dependency.append(each)
            imported = FileDescriptorProto()
            next(k for k in self.well_known if k.DESCRIPTOR.file.name == each).DESCRIPTOR.file.CopyToProto(
                imported
            )
            pool.Add(imported)
        pool.Add(self.file)
        self.pool = pool
        self.message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("random.M0"))

    # Types --------------------------------------------------------------------------------------------------

    def _add_enum(self) -> None:
        enum = self.file.enum_type.add(name="Level")
        numbers = [0, 1, 5, -3, 70000, 5] if self.random.random() < 0.5 else [0, 2]
        enum.options.allow_alias = len(set(numbers)) < len(numbers)
        if not enum.options.allow_alias:
            enum.ClearField("options")
        for place, number in enumerate(numbers):
            enum.value.add(name=f"LEVEL_{place}", number=number)
        if self.syntax == "editions" and self.random.random() < 0.5:
            enum.options.features.enum_type = FeatureSet.CLOSED

    def _add_message(self, name: str) -> None:
        message = self.file.message_type.add(name=name)
        names = self.random.sample(NAMES, self.random.randrange(0, len(NAMES)))
        numbers = self.random.sample(
            [*range(1, 20), 127, 128, 2047, 2048, 1 << 18, (1 << 29) - 1], len(names)
        )
        for field_name, number in zip(names, numbers, strict=True):
            self._add_field(message, field_name, number)
        self._add_oneofs(message)

    def _add_field(self, message: DescriptorProto, name: str, number: int) -> None:
        field = message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL)
        shape = self.random.choice(["single", "single", "list", "map"])
        if shape == "map":
            self._make_map(message, field)
            return
        self._choose_type(field)
        if shape == "list":
            field.label = F.LABEL_REPEATED
            if field.type in (*PACKABLE, F.TYPE_ENUM) and self.syntax != "editions":
                field.options.packed = self.random.random() < 0.5
        elif self.syntax == "proto2" and self.random.random() < 0.1 and field.type not in (F.TYPE_MESSAGE,):
            field.label = F.LABEL_REQUIRED
        elif self.syntax == "proto2" and field.type in RANGES and self.random.random() < 0.3:
            field.default_value = "7"
        elif self.syntax == "proto3" and field.type != F.TYPE_MESSAGE and self.random.random() < 0.3:
            field.proto3_optional = True
        elif (
            self.syntax == "editions"
            and field.type not in (F.TYPE_MESSAGE, F.TYPE_ENUM)
            and self.random.random() < 0.5
        ):
            field.options.features.field_presence = FeatureSet.IMPLICIT
        if self.syntax == "editions" and field.type == F.TYPE_MESSAGE and self.random.random() < 0.3:
            field.options.features.message_encoding = FeatureSet.DELIMITED

    def _choose_type(self, field: FieldDescriptorProto) -> None:
        chance = self.random.random()
        if chance < 0.6:
            field.type = self.random.choice(SCALARS)
        elif chance < 0.7:
            field.type = F.TYPE_ENUM
            field.type_name = ".random.Level"
        elif chance < 0.85:
            field.type = F.TYPE_MESSAGE
            field.type_name = f".random.M{self.random.randrange(self.count)}"
        else:
            field.type = F.TYPE_MESSAGE
            field.type_name = f".{self.random.choice(self.well_known).DESCRIPTOR.full_name}"

    def _make_map(self, message: DescriptorProto, field: FieldDescriptorProto) -> None:
        camel = "".join(part[:1].upper() + part[1:] for part in field.name.split("_"))
        entry = message.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=self.random.choice(KEYS), label=F.LABEL_OPTIONAL)
        self._choose_type(entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL))
        field.label, field.type = F.LABEL_REPEATED, F.TYPE_MESSAGE
        field.type_name = f".random.{message.name}.{entry.name}"

    def _add_oneofs(self, message: DescriptorProto) -> None:
        """Add a oneof, and then those that stand for optional fields in proto3, which come last."""
        free = [
            field
            for field in message.field
            if field.label == F.LABEL_OPTIONAL and not field.proto3_optional and not field.HasField("options")
        ]
        messages = [field for field in free if field.type == F.TYPE_MESSAGE]
        if messages and self.random.random() < 0.5:  # messages in oneofs, also inside each other
            free = messages + free[:1]
        chosen = self.random.sample(free, self.random.randrange(0, min(4, len(free)) + 1))
        if chosen:
            message.oneof_decl.add(name="choice")
        for field in {id(each): each for each in chosen}.values():
            field.ClearField("default_value")
            field.oneof_index = 0
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    # Messages -----------------------------------------------------------------------------------------------

    def message(self, depth: int = 3) -> Any:
        """Return a random message. All values have a JSON form."""
        return self._fill(self.message_class(), depth)

    def _fill(self, message: Any, depth: int) -> Any:
        for field in message.DESCRIPTOR.fields:
            chance = 1.0 if getattr(field, "is_required", False) else 0.6
            inner = field.message_type
            if self.random.random() > chance or (inner is not None and depth == 0):
                continue
            if not field.is_repeated:
                self._set(message, field, depth)
            elif inner is not None and inner.GetOptions().map_entry:
                self._fill_map(getattr(message, field.name), inner.fields, depth)
            else:
                self._fill_list(getattr(message, field.name), field, depth)
        return message

    def _set(self, message: Any, field: Any, depth: int) -> None:
        if field.message_type is None:
            setattr(message, field.name, self._scalar(field))
        else:
            target = getattr(message, field.name)
            target.SetInParent()
            self._fill_any(target, depth - 1)

    def _fill_list(self, target: Any, field: Any, depth: int) -> None:
        for _ in range(self.random.choice([0, 1, 2, 5, 40 if field.message_type is None else 1])):
            if field.message_type is None:
                target.append(self._scalar(field))
            else:
                self._fill_any(target.add(), depth - 1)

    def _fill_map(self, target: Any, entry: Any, depth: int) -> None:
        key, value = entry
        for _ in range(self.random.randrange(0, 4)):
            if value.message_type is None:
                target[self._scalar(key)] = self._scalar(value)
            elif depth > 0:
                self._fill_any(target[self._scalar(key)], depth - 1)

    def _scalar(self, field: Any) -> Any:
        rng, kind = self.random, field.type
        if kind in RANGES:
            least, most = RANGES[kind]
            return rng.choice([0, 1, least, most, rng.randint(least, most), rng.randint(0, 300)])
        if kind == F.TYPE_BOOL:
            return rng.random() < 0.5
        if kind == F.TYPE_STRING:
            return rng.choice(TEXTS)
        if kind == F.TYPE_BYTES:
            return rng.randbytes(rng.choice([0, 1, 2, 3, 4, 100]))
        if kind == F.TYPE_ENUM:
            members = [value.number for value in field.enum_type.values]
            return rng.choice([*members, 0 if field.enum_type.is_closed else 12345])
        return self._real(kind == F.TYPE_FLOAT)

    def _real(self, narrow: bool) -> float:
        rng = self.random
        special = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e-7, math.inf, -math.inf, math.nan]
        if rng.random() < 0.4:
            return rng.choice(special)
        code = "<f" if narrow else "<d"
        value: float = struct.unpack(code, rng.randbytes(struct.calcsize(code)))[0]
        return value if not math.isnan(value) else 0.5

    def _fill_any(self, message: Any, depth: int) -> None:
        """Fill a message of any type."""
        rng, name = self.random, message.DESCRIPTOR.full_name
        if name == "google.protobuf.Timestamp":
            message.seconds = rng.choice([0, -62135596800, 253402300799, rng.randint(-(10**10), 10**10)])
            message.nanos = rng.choice([0, 1, 999999999, 500000000, 1000, 123456000])
        elif name == "google.protobuf.Duration":
            sign = rng.choice([1, -1])
            message.seconds = sign * rng.choice([0, 1, 315576000000, rng.randint(0, 10**6)])
            message.nanos = sign * rng.choice([0, 1, 500000000]) if abs(message.seconds) < 10**11 else 0
        elif name == "google.protobuf.Struct":
            for key in rng.sample(TEXTS, rng.randrange(0, 3)):
                self._fill_value(message.fields[key], depth)
        elif name == "google.protobuf.ListValue":
            for _ in range(rng.randrange(0, 3)):
                self._fill_value(message.values.add(), depth)
        elif name == "google.protobuf.Value":
            self._fill_value(message, depth)
        elif name == "google.protobuf.FieldMask":
            message.paths.extend(rng.sample(["a", "b_c", "d.e_f", "x1"], rng.randrange(0, 4)))
        elif name == "google.protobuf.Any":
            if rng.random() < 0.7:
                inner: Any = (
                    rng.choice([*TIMES, StringValue])() if rng.random() < 0.5 else self.message_class()
                )
                self._fill_any(inner, min(depth, 1))
                message.Pack(inner, deterministic=True)
        else:
            self._fill(message, max(depth, 0))

    def _fill_value(self, value: Any, depth: int) -> None:
        rng = self.random
        kind = rng.randrange(6 if depth > 0 else 4)
        if kind == 0:
            value.null_value = 0
        elif kind == 1:
            value.number_value = rng.choice([0.0, 1.0, -2.5, 1e300, 12345.0])
        elif kind == 2:
            value.string_value = rng.choice(TEXTS)
        elif kind == 3:
            value.bool_value = rng.random() < 0.5
        elif kind == 4:
            value.struct_value.SetInParent()
            self._fill_any(value.struct_value, depth - 1)
        else:
            value.list_value.SetInParent()
            self._fill_any(value.list_value, depth - 1)
