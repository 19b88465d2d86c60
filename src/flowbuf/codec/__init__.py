"""Encode and decode Protocol Buffers messages of any type.

A schema or a Protocol Buffers descriptor defines the message type. The C core writes and reads the messages.
"""

from flowbuf.codec.async_streams import AsyncObjectReader
from flowbuf.codec.codec import UNKNOWN_FIELDS, Codec
from flowbuf.codec.field_options import FieldOptions, field
from flowbuf.codec.plain import NULL
from flowbuf.codec.streams import ObjectReader

__all__ = [
    "NULL",
    "UNKNOWN_FIELDS",
    "AsyncObjectReader",
    "Codec",
    "FieldOptions",
    "ObjectReader",
    "field",
]
