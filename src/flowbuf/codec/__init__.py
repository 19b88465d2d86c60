"""Encode and decode Protocol Buffers messages of any type.

A schema or a Protocol Buffers descriptor defines the message type. The C core writes and reads the messages.
"""

from flowbuf.codec.codec import UNKNOWN_FIELDS, Codec

__all__ = ["UNKNOWN_FIELDS", "Codec"]
