"""Captures, and streams of messages, as columns; and columns as messages."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias

from flowbuf import _core
from flowbuf.arrow.batch import BATCH_ROWS, FlowStream, check_ip, new_table_type
from flowbuf.decoder import Decoder
from flowbuf.errors import CaptureError, DecodeError, EncodeError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.input_stream import Content, check_source
from flowbuf.io.message_stream import StreamOctets, StreamWindows
from flowbuf.io.proto_file import find_proto, read_proto
from flowbuf.schema import Schema
from flowbuf.schema.assemble import suggest_fix
from flowbuf.schema.plan import compile_plan

__all__ = ["decode_tables", "encode_columns", "message_tables", "read_capture", "read_messages"]

Source: TypeAlias = str | os.PathLike[str] | BinaryIO | bytes | bytearray | memoryview


def read_capture(
    source: str | os.PathLike[str] | BinaryIO,
    schema: Schema | str = "flow",
    *,
    ip: str = "binary",
    batch_rows: int = BATCH_ROWS,
    port: int | None = None,
    override: dict[str, Any] | None = None,
    time: str = "received",
    default_sampling_rate: int | None = None,
    scale: bool = False,
    strict: bool = False,
    decapsulate: str | Iterable[str] = (),
    early_data_limit: int = 0,
    template_expiry: float | None = None,
    obey_withdrawals: bool = False,
) -> FlowStream:
    """The flows of a capture as columns: `.to_pandas()`, `.to_polars()`, `.to_arrow()`, or batch by batch.

    `source` is a path, "-" for standard input, or a binary file object; nothing is read until flows are asked for. `ip`
    is what IP and MAC addresses are for those who take columns as they are: "binary" (16 octets, IPv4 as
    ::ffff:a.b.c.d; MAC addresses as numbers) or "text". `batch_rows`: flows in a batch, 2 to 67,108,864. The other
    options are those of `encode_capture`.

    Raises SchemaError, KeyError or ValueError for what cannot be; OSError, CaptureError where the source is no capture
    or cannot be read to its end, and with `strict` DecodeError, also where the capture itself is damaged, when flows
    are read, after those that were decoded. Without it, what is malformed is counted: `FlowStream.counters`.
    """
    check_ip(ip)
    new_decoder = functools.partial(
        Decoder,
        schema,
        time=time,
        default_sampling_rate=default_sampling_rate,
        scale=scale,
        strict=strict,
        decapsulate=decapsulate,
        early_data_limit=early_data_limit,
        template_expiry=template_expiry,
        obey_withdrawals=obey_withdrawals,
    )
    reader = _CaptureTables(source, port, new_decoder, override, batch_rows)
    return FlowStream(reader.schema, reader, ip)


class _Tables:
    """The tables of a source, as often as they are asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._begun = False
        self.counters: dict[str, int] = {}

    def _begin(self) -> None:
        """Raises ValueError where something that can be read once only is to be read again."""
        again = isinstance(self._source, str | os.PathLike | bytes | bytearray | memoryview)
        if self._begun and (self._source == "-" or not again):
            raise ValueError("these flows were read already, and what they came from can be read once only")
        self._begun = True
        self.counters = {}


class _CaptureTables(_Tables):
    """Those of a capture, each time by a decoder that knows nothing yet."""

    def __init__(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        port: int | None,
        new_decoder: functools.partial[Decoder],
        override: dict[str, Any] | None,
        batch_rows: int,
    ) -> None:
        check_source(source)
        super().__init__(source)
        self._capture = source
        self._port = port
        self._new_decoder = new_decoder
        self._override = override
        self._batch_rows = batch_rows
        self.schema = self._new_builder("binary")[0].schema  # what cannot be is said now

    def _new_builder(self, ip: str) -> tuple[Decoder, _core.TableType, _core.ColumnBuilder]:
        decoder = self._new_decoder()
        type = new_table_type(decoder.schema, decoder.plan, ip)
        return decoder, type, _core.ColumnBuilder(decoder, type, self._batch_rows)

    def open(self, ip: str) -> tuple[_core.TableType, Iterator[_core.Table]]:
        decoder, type, builder = self._new_builder(ip)
        return type, self._read(decoder, builder)

    def _read(self, decoder: Decoder, builder: _core.ColumnBuilder) -> Iterator[_core.Table]:
        self._begin()
        with CaptureReader(self._capture, self._port) as reader:
            try:
                yield from decode_tables(reader, builder, self._override)
                if decoder.strict:
                    reader.check()
                decoder.finish()
            finally:
                counters = Counter(reader.counters)
                counters.update(decoder.counters)
                self.counters = dict(counters)


def decode_tables(
    reader: CaptureReader,
    builder: _core.ColumnBuilder,
    override: dict[str, Any] | None = None,
    *,
    prompt: bool = False,
) -> Iterator[_core.Table]:
    """A capture as tables, each full but the last, late columns replaced by `override`; `prompt`: flows are given as
    soon as their datagrams have been read, full or not. Raises CaptureError where it is none, or cannot be read on, and
    DecodeError, when what was decoded has been given."""
    tables: list[_core.Table] = []  # of a batch, until they are given
    try:
        for batch in reader.batches():
            builder.decode(batch, tables, override=override)
            yield from tables
            tables.clear()
            if prompt:
                yield from _finish(builder)
    except (CaptureError, DecodeError):
        yield from tables
        yield from _finish(builder)
        raise
    yield from _finish(builder)


def _finish(builder: _core.TableBuilder) -> Iterator[_core.Table]:
    """What is left, if there is anything."""
    table = builder.finish()
    if len(table):
        yield table


def read_messages(
    source: Source,
    schema: Schema | str = "flow",
    *,
    columns: Iterable[str] | None = None,
    ip: str = "binary",
    batch_rows: int = BATCH_ROWS,
    strict: bool = False,
) -> FlowStream:
    """The flows of a stream of messages, as `flowbuf encode` writes it, as columns.

    `source` is a path, plain or compressed, "-" for standard input, a binary file object, or the octets themselves, not
    compressed. A `schema` that is given says by what is enabled in it which columns are read. Of one that is only
    named, a .proto beside the stream (`flows.pb.proto`) says that, and where there is none, what is enabled. `columns`:
    these alone. `ip` and `batch_rows` are as in `read_capture`.

    Damage, a field of another type than its column and a value that its column cannot hold end the stream: the flows
    before it are given, and `FlowStream.counters` has `bad_message`; with `strict` DecodeError says what it was and at
    which octet, once they are read. `unknown_field` counts fields that are in no column, `invalid_utf8` text that was
    mended.

    Raises SchemaError where the .proto and the schema differ, and in which columns; KeyError or ValueError for what
    cannot be; OSError when flows are read, after the flows before the error.
    """
    check_ip(ip)
    loaded = schema if isinstance(schema, Schema) else Schema.load(schema)
    proto = find_proto(os.fspath(source)) if isinstance(source, str | os.PathLike) and source != "-" else None
    described = read_proto(proto, loaded) if proto else loaded
    chosen = loaded if isinstance(schema, Schema) else replace(described, columns=described.enabled)
    if columns is not None:
        chosen = chosen.only(*columns)
    return FlowStream(chosen, _MessageTables(source, chosen, batch_rows, strict), ip)


class _MessageTables(_Tables):
    """Those of a stream of messages."""

    def __init__(self, source: Source, schema: Schema, batch_rows: int, strict: bool) -> None:
        if not isinstance(source, bytes | bytearray | memoryview):
            check_source(source)
        super().__init__(source)
        self._schema = schema
        self._batch_rows = batch_rows
        self._strict = strict
        self.open("binary")  # what cannot be is said now

    def open(self, ip: str) -> tuple[_core.TableType, Iterator[_core.Table]]:
        type = new_table_type(self._schema, compile_plan(self._schema), ip)
        return type, self._read(_core.MessageTables(type, self._batch_rows))

    def _read(self, reader: _core.MessageTables) -> Iterator[_core.Table]:
        self._begin()
        with self._open_windows() as windows:
            try:
                yield from message_tables(windows, reader)
                if windows.fault and self._strict:
                    raise DecodeError(f"{windows.name}: {windows.fault}", status="bad_message")
            finally:
                counted = {
                    "bad_message": int(bool(windows.fault)),
                    "unknown_field": reader.unknown_fields,
                    "invalid_utf8": reader.invalid_texts,
                }
                self.counters = {name: count for name, count in counted.items() if count}

    @contextlib.contextmanager
    def _open_windows(self) -> Iterator[StreamWindows]:
        if isinstance(self._source, bytes | bytearray | memoryview):
            yield StreamOctets(self._source)
            return
        with Content(self._source) as content:
            yield StreamWindows(content)


def message_tables(
    windows: StreamWindows, reader: _core.MessageTables, *, prompt: bool = False
) -> Iterator[_core.Table]:
    """A stream of messages as tables, each full but the last; `prompt`: flows are given as soon as they have been read,
    full or not. `windows.fault` says what ended it too early. Raises OSError, after the flows before it."""
    try:
        for octets, final in windows:
            tables: list[_core.Table] = []
            try:
                windows.take(reader.read(octets, tables, final))
            except DecodeError as error:
                windows.stop(error)
            yield from tables
            if prompt:
                yield from _finish(reader)
    except OSError:
        yield from _finish(reader)
        raise
    yield from _finish(reader)


def encode_columns(columns: Any, schema: Schema | str = "flow", *, ignore_unknown: bool = False) -> bytes:
    """Columns -> length-delimited messages, one a row, as `Decoder.encode_many` gives them.

    `columns` is whatever speaks the Arrow PyCapsule protocol: a FlowBatch or FlowStream, a DataFrame of pandas or
    polars, a pyarrow Table or RecordBatch, a duckdb relation. Its columns go by their names to those of `schema`; types
    need not be the same where values are: any integer, text of addresses, MAC addresses and enums, times in any unit
    (finer ones are rounded down). What is null is absent, or an error where the schema requires a value. Columns that
    the schema does not have, or that are disabled, are an error, but left out with `ignore_unknown`; so is always the
    index that pandas adds.

    Raises EncodeError with the column, and the row (from 0), of what cannot be encoded; SchemaError; TypeError where
    `columns` are none; OSError where a stream fails.
    """
    loaded = schema if isinstance(schema, Schema) else Schema.load(schema)
    plan = compile_plan(loaded)

    def bind(names: list[str]) -> list[_Binding]:
        for column in loaded.enabled:
            if column.required and column.name not in names:
                raise EncodeError(f"column {column.name!r} is missing: schema {loaded.name!r} requires it")
        return [_bind(loaded, name, ignore_unknown) for name in names]

    if hasattr(columns, "__arrow_c_stream__"):
        return _core.encode_arrow_stream(plan, columns.__arrow_c_stream__(), bind)
    if hasattr(columns, "__arrow_c_array__"):
        schema_capsule, array = columns.__arrow_c_array__()
        return _core.encode_arrow_array(plan, schema_capsule, array, bind)
    kind = type(columns).__name__
    raise TypeError(f"columns is {kind}, which does not speak the Arrow PyCapsule protocol: make a pyarrow.Table of it")


_Binding = tuple[str | None, dict[int, str] | None, bool]
"""Which column of the schema it is; the members of an enum; whether each row must have a value."""


def _bind(schema: Schema, name: str, ignore_unknown: bool) -> _Binding:
    known = name in schema
    if known and schema[name].enabled:
        return name, {number: member for member, number in schema[name].values.items()} or None, schema[name].required
    if ignore_unknown or name.startswith("__index_level_"):
        return None, None, False
    if known:
        raise EncodeError(f"column {name!r} is disabled in schema {schema.name!r}: enable it, or leave it out")
    fix = suggest_fix(name, [column.name for column in schema.enabled]) or "leave it out, or add it to the schema"
    raise EncodeError(f"schema {schema.name!r} has no column {name!r}: {fix}")
