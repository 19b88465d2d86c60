"""Building blocks of the Protocol Buffers wire format, for learning and for tests.

>>> from flowbuf import wire
>>> (wire.tag(4, 0) + wire.varint(1500)).hex()
'20dc0b'

A `Row` builds messages of a schema with the same C code as the decoders:

>>> from flowbuf import Schema
>>> row = wire.Row(Schema.load("flow"))
>>> row.append("bytes", 1500).append("packets", 0).append("bytes", 40).finish()
>>> bytes(row).hex()
'0320dc0b'

The zero is skipped. The second value of "bytes" is skipped too, because the column takes one value.
"""

from __future__ import annotations

from flowbuf import _core
from flowbuf._core import fixed32, fixed64, read_varint, tag, unzigzag, varint, zigzag
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

__all__ = ["Row", "fixed32", "fixed64", "read_varint", "tag", "unzigzag", "varint", "zigzag"]


class Row(_core.Row):
    """Builds length-delimited messages of a schema, value by value.

    `append` adds a value to the current message, `finish` ends the message, and `undo` discards it.
    `bytes(row)` returns the finished messages, each after its length as a varint.

    Args:
        schema: Schema of the messages.
        capacity: Initial size of the output buffer, in bytes. The buffer grows as needed; its size does not
            affect the output.

    Raises:
        KeyError: append names an unknown column.
        EncodeError: a value does not fit its column.
    """

    def __new__(cls, schema: Schema, capacity: int = 256) -> Row:
        return super().__new__(cls, compile_plan(schema), capacity)
