"""The methods of a codec for columns."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from flowbuf._core import MAX_COLUMNS, NestedType
from flowbuf.arrow.batch import BATCH_ROWS, FlowStream
from flowbuf.codec import schemas
from flowbuf.codec.async_streams import AsyncStreamCodec
from flowbuf.codec.column_stream import ColumnSource, ColumnStream
from flowbuf.codec.columns import Paths, encode_nested, find_paths, list_paths, make_type
from flowbuf.codec.model import Message
from flowbuf.codec.streams import T
from flowbuf.errors import SchemaError
from flowbuf.io.columns import encode_columns, read_messages
from flowbuf.schema import Schema

__all__ = ["ColumnCodec"]


class ColumnCodec(AsyncStreamCodec[T]):
    """The methods of a codec for columns."""

    message: Message
    _messages: list[Message]
    _schema: Schema | None
    _options: dict[str, Any]

    @functools.cached_property
    def schema(self) -> Schema:
        """The schema of the message's columns.

        Raises:
            SchemaError: the message is not flat.
        """
        schema = schemas.to_schema(self.message) if self._schema is None else self._schema
        schema.require_flat("a table")
        return schema

    @functools.cached_property
    def _flat_schema(self) -> Schema | None:
        """The schema of the columns, or None if the message is not flat, or has extensions or many fields."""
        fields = self._messages[0].fields
        if len(fields) > MAX_COLUMNS or any(field.is_extension for field in fields):
            return None
        try:
            return self.schema
        except SchemaError:
            return None

    def _type_of(self, paths: Paths | None) -> NestedType:
        """Return the tree of the chosen columns."""
        return make_type(self.message, paths, "us" if self._options["times"] == "datetime" else "ns")

    @functools.cached_property
    def _nested_type(self) -> NestedType:
        """The tree of all columns."""
        return self._type_of(None)

    def read_columns(
        self,
        data: Any,
        batch_rows: int = BATCH_ROWS,
        strict: bool = True,
        *,
        columns: Iterable[str] | None = None,
    ) -> FlowStream:
        """Read a stream of messages, each after its length as a varint, as columns.

        Nested messages become structs, repeated fields lists, and maps Arrow maps. docs/reference/codec.md
        lists the types.

        Args:
            data: Bytes, a path or a binary file.
            batch_rows: Rows per batch. Default: 16,384.
            strict: Raise DecodeError for damaged input, after the rows before it. With False, damage ends the
                stream and is counted. Default: True.
            columns: Paths of the fields to read, such as "lines.price". The path of a message stands for all
                its fields. Other fields are skipped. Default: all.

        Returns:
            FlowStream: see `flowbuf.read_messages`. For messages that are not flat, `filter` and `schema` are
            not available.

        Raises:
            SchemaError: the message does not have a path of `columns`, or it contains itself, so that it has
                no Arrow type. The error names the field; choose `columns` without it.
            DecodeError: a message is malformed, or a value does not fit its column. Raised while the columns
                are read. `path` names the field, `offset` its position in bytes.

        Example:
            codec = flowbuf.Codec.load("record")
            stream = codec.encode_many(codec.examples(100))
            scores = codec.read_columns(stream, columns=["name", "children.score"]).to_polars()
        """
        if self._flat_schema is not None:
            return read_messages(
                data, self._flat_schema, columns=columns, batch_rows=batch_rows, strict=strict
            )
        chosen = None if columns is None else find_paths(self.message, columns)

        def make(names: tuple[str, ...] | None) -> NestedType:
            if names is None:
                return self._nested_type if chosen is None else self._type_of(chosen)
            return self._type_of({name: chosen[name] if chosen else None for name in names})

        source = ColumnSource(data, make, batch_rows, strict)
        return ColumnStream(source, source.names)

    def encode_columns(self, table: Any, *, columns: Iterable[str] | None = None) -> bytes:
        """Encode the rows of an Arrow object as a stream of messages: see `flowbuf.encode_columns`.

        Columns are matched by name, also those in structs. Columns that are left out are absent fields.

        Args:
            table: Any object with Arrow columns, such as a pyarrow.Table or a polars.DataFrame.
            columns: Paths of the fields that the table may have, as in `read_columns`. Default: all.

        Returns:
            bytes: the messages, each after its length as a varint.

        Raises:
            SchemaError: the message does not have a path of `columns`, or it contains itself, so that it has
                no Arrow type. The error names the field; choose `columns` without it.
            EncodeError: a value does not fit its column. For messages that are not flat, `path` is its place,
                such as `[3].lines[2].price`.

        Example:
            codec = flowbuf.Codec.load("record")
            columns = codec.read_columns(codec.encode_many(codec.examples(100)))
            stream = codec.encode_columns(columns.to_polars())
        """
        schema = self._flat_schema
        if schema is not None:
            if columns is not None:
                schema = schema.only(*list_paths(columns))
            return encode_columns(table, schema)
        if columns is None:
            return encode_nested(table, self._nested_type)
        return encode_nested(table, self._type_of(find_paths(self.message, columns)))
