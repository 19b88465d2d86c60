"""sFlow, NetFlow and IPFIX straight into Protocol Buffers, driven by a schema that is data."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowbuf._core import STATUSES
    from flowbuf.batch import FlowBatch, FlowStream
    from flowbuf.codec import UNKNOWN_FIELDS, Codec
    from flowbuf.columns import encode_columns, read_capture, read_messages
    from flowbuf.consumer import KafkaSource
    from flowbuf.decoder import Decoder
    from flowbuf.encode import EncodeResult, encode_capture
    from flowbuf.errors import (
        CaptureError,
        DecodeError,
        EncodeError,
        EnrichmentError,
        FlowbufError,
        KafkaError,
        SchemaError,
        StateError,
    )
    from flowbuf.registry import SchemaRegistry
    from flowbuf.schema import Column, Schema
    from flowbuf.sinks.kafka import KafkaSink, ProduceReport
    from flowbuf.state import load_state, save_state

__all__ = [
    "STATUSES",
    "UNKNOWN_FIELDS",
    "CaptureError",
    "Codec",
    "Column",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "EncodeResult",
    "EnrichmentError",
    "FlowBatch",
    "FlowStream",
    "FlowbufError",
    "KafkaError",
    "KafkaSink",
    "KafkaSource",
    "ProduceReport",
    "Schema",
    "SchemaError",
    "SchemaRegistry",
    "StateError",
    "encode_capture",
    "encode_columns",
    "load_state",
    "read_capture",
    "read_messages",
    "save_state",
]

# Imports wait until a name is used: a command holds signals before it imports anything that takes long.
_MODULES = {
    "_core": ("STATUSES",),
    "batch": ("FlowBatch", "FlowStream"),
    "codec": ("UNKNOWN_FIELDS", "Codec"),
    "columns": ("encode_columns", "read_capture", "read_messages"),
    "consumer": ("KafkaSource",),
    "decoder": ("Decoder",),
    "encode": ("EncodeResult", "encode_capture"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "registry": ("SchemaRegistry",),
    "schema": ("Column", "Schema"),
    "sinks.kafka": ("KafkaSink", "ProduceReport"),
    "state": ("load_state", "save_state"),
}
_LATER = {name: f"flowbuf.{module}" for module, names in _MODULES.items() for name in names}
# Modules that are attributes of the package without an import of their own.
_ATTRIBUTES = {
    *("_core", "batch", "capture", "columns", "content", "decoder", "documents", "elements", "encode", "errors"),
    *("messages", "plan", "protofile", "schema", "state", "statuses", "text"),
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
    elif name in _ATTRIBUTES:
        value = importlib.import_module(f"flowbuf.{name}")
    else:
        raise AttributeError(f"module 'flowbuf' has no attribute {name!r}")
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ATTRIBUTES})
