"""Records of any message type: described by a schema or by Protocol Buffers' own descriptors, written and read by the
core."""

from flowbuf.codec.codec import UNKNOWN_FIELDS, Codec

__all__ = ["UNKNOWN_FIELDS", "Codec"]
