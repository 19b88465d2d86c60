"""Records of Kafka back into columns: what they hold, and what of them cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flowbuf._core import MessageTables, Table, join_messages
from flowbuf.arrow.batch import BATCH_ROWS, FlowBatch, new_table_type
from flowbuf.errors import DecodeError
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

__all__ = ["RecordReader"]


class RecordReader:
    """Takes the messages of `schema` out of the values of records. `framing` says how they stand there: "delimited",
    or "bare", behind `skip` octets that are something else.

    `unknown_fields` counts fields that the schema does not have, `invalid_texts` strings that were mended."""

    def __init__(self, schema: Schema, framing: str, skip: int = 0) -> None:
        self.schema = schema
        self.framing = framing
        self.unknown_fields = 0
        self.invalid_texts = 0
        self._skip = skip
        # Disabled columns are none here, so that what messages have of them is counted, not passed over.
        plan = compile_plan(replace(schema, columns=schema.enabled))
        self._type = new_table_type(schema, plan)

    def read(self, values: Sequence[bytes]) -> tuple[list[FlowBatch], dict[int, str]]:
        """The flows of all values that can be read as a whole, and why others cannot, by their place. Of a record with
        a fault nothing is taken: it can be mended and sent again."""
        try:
            return self._read(values), {}
        except (DecodeError, ValueError):
            faults = dict(self._find_faults(values, 0))
        return self._read([value for place, value in enumerate(values) if place not in faults]), faults

    def _read(self, values: Sequence[bytes]) -> list[FlowBatch]:
        builder = MessageTables(self._type, BATCH_ROWS)
        tables: list[Table] = []
        # A message must not reach into the next record, so that each is read by itself.
        for data in values if self.framing == "delimited" else [join_messages(list(values), self._skip)]:
            builder.read(data, tables)
        tables.append(builder.finish())
        self.unknown_fields += builder.unknown_fields
        self.invalid_texts += builder.invalid_texts
        return [FlowBatch(self.schema, table) for table in tables if len(table)]

    def _find_faults(self, values: Sequence[bytes], place: int) -> Iterator[tuple[int, str]]:
        """Why records cannot be read, the first of which is at `place`. They are few, as a rule: halves without any are
        done with at once."""
        unknown_fields, invalid_texts = self.unknown_fields, self.invalid_texts
        try:
            self._read(values)
        except (DecodeError, ValueError) as error:
            if len(values) == 1:
                yield place, self._describe(error, values[0])
            else:
                half = len(values) // 2
                yield from self._find_faults(values[:half], place)
                yield from self._find_faults(values[half:], place + half)
        finally:
            self.unknown_fields, self.invalid_texts = unknown_fields, invalid_texts

    def _describe(self, error: Exception, value: bytes) -> str:
        """What is wrong, and at which octet of the record."""
        offset = getattr(error, "offset", None)
        if self.framing == "delimited" or offset is None:
            return str(error)
        before = len(join_messages([value], self._skip)) - len(value)  # its length, instead of what is skipped
        return f"octet {offset - before}: {str(error).partition(': ')[2]}"
