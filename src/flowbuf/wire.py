"""The Protocol Buffers wire format by hand: for learning, and for tests.

>>> from flowbuf import wire
>>> (wire.tag(4, 0) + wire.varint(1500)).hex()
'20dc0b'

A `Row` builds messages of a schema with the very appender that the decoders use:

>>> from flowbuf import Schema
>>> row = wire.Row(Schema.load("flow"))
>>> row.append("bytes", 1500).append("packets", 0).append("bytes", 40).finish()
>>> bytes(row).hex()
'0320dc0b'

The zero is skipped, and so is the second value of a column that takes one.
"""

from __future__ import annotations

from flowbuf import _core
from flowbuf._core import fixed32, fixed64, read_varint, tag, unzigzag, varint, zigzag
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

__all__ = ["Row", "fixed32", "fixed64", "read_varint", "tag", "unzigzag", "varint", "zigzag"]


class Row(_core.Row):
    """Length-delimited messages of a schema, built value by value.

    `append(column, value, rank=0)` offers a value (int, float, str, or the octets of bytes and addresses) and returns
    the row. Zeros, disabled columns and columns that have their value are skipped; a repeated integer takes every
    value; an `explicit` column takes zero too. `finish(override={…})` ends the message, with late columns replaced;
    `undo()` forgets it; `bytes(row)` are the finished messages, each behind its length. `capacity` is the first size
    of the buffer, in octets: it grows, and its size never shows in the output.

    Raises KeyError for an unknown column, EncodeError for a value that its column cannot hold.
    """

    def __new__(cls, schema: Schema, capacity: int = 256) -> Row:
        return super().__new__(cls, compile_plan(schema), capacity)
