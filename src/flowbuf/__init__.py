"""sFlow, NetFlow and IPFIX straight into Protocol Buffers, driven by a schema that is data."""

import importlib
from typing import TYPE_CHECKING, Any

from flowbuf._core import STATUSES
from flowbuf.batch import FlowBatch, FlowStream
from flowbuf.columns import encode_columns, read_capture, read_messages
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
from flowbuf.schema import Column, Schema
from flowbuf.state import load_state, save_state

if TYPE_CHECKING:
    from flowbuf.codec import UNKNOWN_FIELDS, Codec
    from flowbuf.consumer import KafkaSource
    from flowbuf.registry import SchemaRegistry
    from flowbuf.sinks.kafka import KafkaSink, ProduceReport

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

# What takes long to import waits until it is asked for: Kafka's client, and google.protobuf.
_LATER = {
    "UNKNOWN_FIELDS": "flowbuf.codec",
    "Codec": "flowbuf.codec",
    "KafkaSink": "flowbuf.sinks.kafka",
    "KafkaSource": "flowbuf.consumer",
    "ProduceReport": "flowbuf.sinks.kafka",
    "SchemaRegistry": "flowbuf.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'flowbuf' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
