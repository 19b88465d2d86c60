"""sFlow, NetFlow and IPFIX straight into Protocol Buffers, driven by a schema that is data."""

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
    SchemaError,
    StateError,
)
from flowbuf.schema import Column, Schema
from flowbuf.state import load_state, save_state

__all__ = [
    "STATUSES",
    "CaptureError",
    "Column",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "EncodeResult",
    "EnrichmentError",
    "FlowBatch",
    "FlowStream",
    "FlowbufError",
    "Schema",
    "SchemaError",
    "StateError",
    "encode_capture",
    "encode_columns",
    "load_state",
    "read_capture",
    "read_messages",
    "save_state",
]
