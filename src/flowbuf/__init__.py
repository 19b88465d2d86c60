"""sFlow, NetFlow and IPFIX straight into Protocol Buffers, driven by a schema that is data."""

from flowbuf._core import STATUSES
from flowbuf.decoder import Decoder
from flowbuf.encode import EncodeResult, encode_capture
from flowbuf.errors import CaptureError, DecodeError, EncodeError, FlowbufError, SchemaError
from flowbuf.schema import Column, Schema

__all__ = [
    "STATUSES",
    "CaptureError",
    "Column",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "EncodeResult",
    "FlowbufError",
    "Schema",
    "SchemaError",
    "encode_capture",
]
