"""Decode the values of Kafka records into columns, and find the values that cannot be decoded."""

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
    """Decode the messages in the values of Kafka records.

    Args:
        schema: Schema of the messages.
        framing: "delimited" (each message after its length) or "bare" (one message per Kafka record).
        skip: Number of bytes before a bare message to ignore. Default: 0.

    Attributes:
        unknown_fields: Number of fields that the schema does not have.
        invalid_texts: Number of strings that were repaired because they were not UTF-8.
    """

    def __init__(self, schema: Schema, framing: str, skip: int = 0) -> None:
        self.schema = schema
        self.framing = framing
        self.unknown_fields = 0
        self.invalid_texts = 0
        self._skip = skip
        # Remove disabled columns from the plan, so that their fields are counted as unknown.
        plan = compile_plan(replace(schema, columns=schema.enabled))
        self._type = new_table_type(schema, plan)

    def read(self, values: Sequence[bytes]) -> tuple[list[FlowBatch], dict[int, str]]:
        """Return the flows of all readable values, and the reasons for the others by their index.

        Nothing is taken from a value with an error, so that it can be repaired and sent again.
        """
        try:
            return self._read(values), {}
        except (DecodeError, ValueError):
            faults = dict(self._find_faults(values, 0))
        return self._read([value for place, value in enumerate(values) if place not in faults]), faults

    def _read(self, values: Sequence[bytes]) -> list[FlowBatch]:
        builder = MessageTables(self._type, BATCH_ROWS)
        tables: list[Table] = []
        # Read each delimited value alone: a message must not extend into the next Kafka record.
        for data in values if self.framing == "delimited" else [join_messages(list(values), self._skip)]:
            builder.read(data, tables)
        tables.append(builder.finish())
        self.unknown_fields += builder.unknown_fields
        self.invalid_texts += builder.invalid_texts
        return [FlowBatch(self.schema, table) for table in tables if len(table)]

    def _find_faults(self, values: Sequence[bytes], place: int) -> Iterator[tuple[int, str]]:
        """Yield the index and error of each unreadable value. The first value has the index `place`.

        Errors are usually rare. Bisection skips halves without errors at once.
        """
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
        """Return the error and its byte offset in the value."""
        offset = getattr(error, "offset", None)
        if self.framing == "delimited" or offset is None:
            return str(error)
        # bytes of the length, minus the skipped bytes
        before = len(join_messages([value], self._skip)) - len(value)
        return f"byte {offset - before}: {str(error).partition(': ')[2]}"
