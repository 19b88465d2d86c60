"""Decode sFlow, NetFlow and IPFIX into Protocol Buffers messages and Arrow columns.

A TOML schema defines the columns. The main entry points:

- `read_capture` reads the flows of a capture as Arrow columns.
- `scan` returns them as a lazy table of polars or duckdb.
- `encode_capture` writes the flows of a capture as Protocol Buffers messages.
- `Decoder` decodes UDP payloads, and keeps the state of their exporters.
- `Collector` receives the flows of live exporters.
- `Schema` loads and changes a schema.
- `KafkaSink` and `KafkaSource` send flows to Kafka and read them from it.
- `Codec` encodes and decodes Protocol Buffers messages of any type.

Example:
    import flowbuf

    flows = flowbuf.read_capture("flows.pcap").to_pandas()
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowbuf._core import STATUSES
    from flowbuf.arrow.batch import FlowBatch, FlowStream
    from flowbuf.codec import NULL, UNKNOWN_FIELDS, AsyncObjectReader, Codec, ObjectReader, field
    from flowbuf.collect.collector import Collector
    from flowbuf.collect.streams.sessions import SessionOptions
    from flowbuf.decoder import Decoder
    from flowbuf.errors import (
        CaptureError,
        ClickHouseError,
        ConfigError,
        DecodeError,
        EncodeError,
        EnrichmentError,
        FlowbufError,
        KafkaError,
        ListenError,
        QueryError,
        SchemaError,
        SpoolError,
        StateError,
    )
    from flowbuf.io.capture import CaptureReader
    from flowbuf.io.columns import encode_columns, read_capture, read_messages
    from flowbuf.io.encode import EncodeResult, encode_capture
    from flowbuf.io.state_file import load_state, save_state
    from flowbuf.kafka.consumer import KafkaSource
    from flowbuf.kafka.schema_registry import SchemaRegistry
    from flowbuf.kafka.sink import KafkaSink, ProduceReport
    from flowbuf.lazy_tables import scan
    from flowbuf.options import DecodeOptions
    from flowbuf.sampling import SamplingRule
    from flowbuf.schema import Column, Schema

__all__ = [
    "NULL",
    "STATUSES",
    "UNKNOWN_FIELDS",
    "AsyncObjectReader",
    "CaptureError",
    "CaptureReader",
    "ClickHouseError",
    "Codec",
    "Collector",
    "Column",
    "ConfigError",
    "DecodeError",
    "DecodeOptions",
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
    "ListenError",
    "ObjectReader",
    "ProduceReport",
    "QueryError",
    "SamplingRule",
    "Schema",
    "SchemaError",
    "SchemaRegistry",
    "SessionOptions",
    "SpoolError",
    "StateError",
    "__version__",
    "encode_capture",
    "encode_columns",
    "field",
    "load_state",
    "read_capture",
    "read_messages",
    "save_state",
    "scan",
]

__version__ = "0.1.0"
"""Version of flowbuf."""

# Names are imported on first use, because a command installs its signal handlers before any slow import.
_MODULES = {
    "_core": ("STATUSES",),
    "arrow.batch": ("FlowBatch", "FlowStream"),
    "codec": ("NULL", "UNKNOWN_FIELDS", "AsyncObjectReader", "Codec", "ObjectReader", "field"),
    "collect.collector": ("Collector",),
    "collect.streams.sessions": ("SessionOptions",),
    "decoder": ("Decoder",),
    "options": ("DecodeOptions",),
    "sampling": ("SamplingRule",),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "io.capture": ("CaptureReader",),
    "io.columns": ("encode_columns", "read_capture", "read_messages"),
    "io.encode": ("EncodeResult", "encode_capture"),
    "io.state_file": ("load_state", "save_state"),
    "kafka.consumer": ("KafkaSource",),
    "kafka.schema_registry": ("SchemaRegistry",),
    "kafka.sink": ("KafkaSink", "ProduceReport"),
    "lazy_tables": ("scan",),
    "schema": ("Column", "Schema"),
}
_LATER = {name: f"flowbuf.{module}" for module, names in _MODULES.items() for name in names}
# Modules that are attributes of the package without an explicit import.
_ATTRIBUTES = {"_core", "arrow", "decoder", "errors", "io", "schema", "targets"}


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
