"""Read captures and message streams as columns, and encode columns as messages."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from flowbuf import _core
from flowbuf.arguments import check_whole, list_texts
from flowbuf.arrow.batch import BATCH_ROWS, Count, FlowStream, Tables, check_ip, new_table_type
from flowbuf.arrow.sql_tokens import columns_named
from flowbuf.decoder import MAX_ROWS, Decoder
from flowbuf.errors import CaptureError, DecodeError, EncodeError, SchemaError, optional_import
from flowbuf.io.capture import START_SIZE, CaptureReader, check_port, is_capture
from flowbuf.io.find_files import find_files
from flowbuf.io.input_stream import Content, check_source
from flowbuf.io.message_stream import StreamBytes, StreamWindows
from flowbuf.io.proto_file import find_proto, read_proto
from flowbuf.options import DecodeKeywords, DecodeOptions, merge_options
from flowbuf.schema import Schema
from flowbuf.schema.assemble import list_columns, suggest_fix
from flowbuf.schema.plan import compile_plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "MessageSource",
    "decode_tables",
    "encode_columns",
    "message_tables",
    "read_capture",
    "read_messages",
]

_PARAMETERS = (
    *("source", "schema", "columns", "where", "limit", "ip", "batch_rows", "port", "override", "options"),
)
"""Parameters of `read_capture` that an error suggests."""

CaptureSource: TypeAlias = str | os.PathLike[str] | BinaryIO
Source: TypeAlias = CaptureSource | bytes | bytearray | memoryview


def read_capture(
    source: CaptureSource | Sequence[CaptureSource],
    schema: Schema | str = "flow",
    *,
    columns: Iterable[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    ip: str = "binary",
    batch_rows: int = BATCH_ROWS,
    port: int | None = None,
    override: dict[str, Any] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> FlowStream:
    """Read the flows of captures as Arrow columns.

    Captures are read when flows are requested, not in this call. Malformed data is counted in
    `FlowStream.counters`, unless `strict` is set.

    Args:
        source: Capture (pcap, pcapng, IPFIX file or file of nfcapd; plain, gzip or zstd): path, "-" for
            standard input, or binary file object. A folder stands for the files directly in it, and a pattern
            such as "captures/*.pcap" for the files that match, sorted by name. A list of these is read in its
            order, by one decoder: templates of one capture apply to the next.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        columns: Names of the columns to decode, in the order of the result. They need not be enabled.
            Default: the enabled columns of the schema.
        where: Condition in SQL that selects flows, as in `flowbuf read --where`: "dst_port = 53 and bytes >
            512". Addresses are text in it. Columns that it names need not be chosen. Default: all flows.
        limit: Maximum number of matching flows. Reading ends with the last of them. Default: no limit.
        ip: Form of IP and MAC addresses in Arrow columns: "binary" or "text". Default: "binary". Binary IP
            addresses have 16 bytes, with IPv4 as ::ffff:a.b.c.d. Binary MAC addresses are numbers.
        batch_rows: Maximum number of flows per batch, 2 to 67,108,864. Default: 16,384.
        port: Decode only datagrams to this UDP port. Default: all.
        override: Values that replace those of every flow, only of columns with `late = true`, for example
            {"sampling_rate": 1000}.
        options: Options of decoding. Default: `DecodeOptions()`.
        **keywords: Fields of `DecodeOptions` to replace, for example `scale=True`.

    Returns:
        FlowStream: Iterate over it for batches, or convert it with to_pandas(), to_polars() or to_arrow().

    Raises:
        SchemaError: The schema cannot be loaded, cannot be decoded into, or has no column of a name in
            columns or override.
        ValueError: An option is invalid.
        ImportError: where is given, and duckdb or pyarrow is not installed (`flowbuf[sql]`).
        QueryError: where is not a valid condition.
        OSError: A capture cannot be opened, or no file matches. Raised when flows are read.
        CaptureError: A source is not a capture, or reading failed. Raised after the flows before the error.
        DecodeError: With strict, data is damaged or cannot be decoded. Raised after the flows before it.

    Example:
        flows = flowbuf.read_capture("capture.pcap").to_pandas()
        dns = flowbuf.read_capture("captures/*.pcap", columns=["src_addr", "bytes"], where="dst_port = 53")
    """
    check_ip(ip)
    if limit is not None:
        check_whole("limit", limit, 0)
    chosen_options = merge_options(options, keywords, _PARAMETERS)
    if columns is not None:
        columns = _list_names(columns)
        schema = _load(schema).with_vendors(columns)
    if where is not None:
        schema = _load(schema)
        with optional_import("a condition needs duckdb and pyarrow", "flowbuf[sql]"):
            schema = schema.with_vendors(columns_named(where, schema))
    reader = _CaptureTables(source, port, schema, columns, chosen_options, override, batch_rows)
    stream = FlowStream(reader.schema, reader, ip, reader.columns)
    if where is not None:
        stream = stream.filter(where)
    return stream if limit is None else stream[:limit]


def _load(schema: Schema | str) -> Schema:
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def _list_names(columns: Iterable[str]) -> list[str]:
    """Return names as a list. Raise TypeError for other values."""
    return list_texts("columns", columns, "names", "bytes")


def _choose(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions. Raise SchemaError for an unknown one."""
    names: dict[str, None] = {}
    for name in _list_names(columns):
        if name in schema:
            names[name] = None
        else:  # a group, or an unknown name
            names.update(dict.fromkeys(column.name for column in schema.choose(name)))
    return tuple(names)


class _Tables:
    """Tables of a source. They can be read repeatedly, if the source can."""

    def __init__(self, name: str, repeatable: bool) -> None:
        self.name = name
        self.repeatable = repeatable
        self._begun = False

    def _begin(self, count: Count) -> None:
        """Begin to count. Raise ValueError at the second read of a source that can be read only once."""
        if self._begun and not self.repeatable:
            raise ValueError(
                "the flows were read already, and their source can be read only once; open the source again"
            )
        self._begun = True
        count({})


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike) and source != "-"


def _name_of(source: object) -> str:
    if source == "-":
        return "<stdin>"
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", "<file>"))


class _CaptureTables(_Tables):
    """Tables of captures. Each read uses a new decoder."""

    def __init__(
        self,
        source: CaptureSource | Sequence[CaptureSource],
        port: int | None,
        schema: Schema | str,
        columns: Iterable[str] | None,
        options: DecodeOptions,
        override: dict[str, Any] | None,
        batch_rows: int,
    ) -> None:
        sources = cast("list[CaptureSource]", list(source) if isinstance(source, list | tuple) else [source])
        for each in sources:
            check_source(each)
        if not sources:
            raise ValueError("source is an empty list; name at least one capture")
        check_port(port)
        check_whole("batch_rows", batch_rows, 2, MAX_ROWS)
        super().__init__(_describe(sources), all(map(_is_path, sources)))
        self._sources = sources
        self._port = port
        self._options = options
        self._override = override
        self._batch_rows = batch_rows
        decoder = Decoder(schema, options)  # report invalid options now
        decoder.new_builder(batch_rows)
        self.schema = decoder.schema
        self.columns = None if columns is None else _choose(self.schema, columns)
        # The schema with the columns of the whole stream enabled. The values of some depend on all of them.
        none = self.schema.switch(only=())
        self._whole = self.schema if self.columns is None else none.only_needed(*self.columns)

    def _decoded(self, columns: tuple[str, ...]) -> Schema:
        """Return the schema with the columns to decode: also those that chosen ones or options depend on."""
        schema = self.schema
        needed = [*columns, *(self._override or {})]
        if schema.rate and (self._options.scale or self._options.changes_rates):
            needed.append(schema.rate.name)
        return self._whole.only_needed(*needed)

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[_core.TableType, Tables]:
        schema = self._decoded(columns)
        totals = any(column.scale == "count" for column in schema.enabled)
        options = self._options if totals else replace(self._options, scale=False)  # nothing to scale
        decoder = Decoder(schema, options)
        type = new_table_type(schema, decoder.plan, ip, columns)
        return type, self._read(decoder, _core.ColumnBuilder(decoder, type, self._batch_rows), count)

    def _files(self) -> Iterator[CaptureSource]:
        for source in self._sources:
            if isinstance(source, str | os.PathLike) and source != "-":
                yield from find_files(os.fspath(source))
            else:
                yield source

    def _read(self, decoder: Decoder, builder: _core.ColumnBuilder, count: Count) -> Tables:
        self._begin(count)
        counters: Counter[str] = Counter()
        try:
            for file in self._files():
                with CaptureReader(file, self._port) as reader:
                    try:
                        yield from decode_tables(reader, builder, self._override)
                        if decoder.strict:
                            reader.check()
                    finally:
                        counters.update(reader.counters)
            decoder.finish()
        finally:
            counters.update(decoder.counters)
            count(dict(counters))


def _describe(sources: Sequence[object]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return _name_of(sources[0]) + more


def decode_tables(
    reader: CaptureReader,
    builder: _core.ColumnBuilder,
    override: dict[str, Any] | None = None,
    *,
    prompt: bool = False,
) -> Tables:
    """Yield a capture as tables. Each is full except the last one.

    Args:
        reader: Reader of the capture.
        builder: Builder of the tables. It owns the decoder.
        override: Values that replace late columns.
        prompt: Yield flows as soon as their datagrams are read, in tables that are not full.

    Raises:
        CaptureError: The source is not a capture, or reading failed. Raised after the flows before the error.
        DecodeError: A strict decoder found malformed data. Raised after the flows before it.
    """
    tables: list[_core.Table] = []  # tables of a batch that were not yielded yet
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


def _finish(builder: _core.TableBuilder) -> Tables:
    """Yield the remaining rows, if there are any."""
    yield from (table for table in builder.finish_each() if len(table))


def read_messages(
    source: Source,
    schema: Schema | str = "flow",
    *,
    columns: Iterable[str] | None = None,
    ip: str = "binary",
    batch_rows: int = BATCH_ROWS,
    strict: bool = False,
) -> FlowStream:
    """Read the flows of a message stream, as `flowbuf encode` writes it, as Arrow columns.

    If `schema` is a Schema object, its enabled columns are read. If it is a name or a path, the .proto beside
    the stream (`flows.pb.proto`) determines the columns. Without a .proto, the enabled columns of the schema
    are read.

    Damage ends the stream: a malformed message, a field of another type than its column, or a value that its
    column cannot hold. The flows before the damage are returned. `FlowStream.counters` counts `bad_message`
    (damage), `unknown_field` (fields that have no column) and `invalid_utf8` (strings that were repaired).

    Args:
        source: Path (plain, gzip or zstd), "-" for standard input, binary file object, or the uncompressed
            bytes.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        columns: Names of the columns to read, in the order of the result. Default: all columns described
            above.
        ip: Form of IP and MAC addresses, as in `read_capture`. Default: "binary".
        batch_rows: Maximum number of flows per batch. Default: 16,384.
        strict: Raise DecodeError at damage, after the flows before it. Default: False.

    Returns:
        FlowStream: Iterate over it for batches, or convert it with to_pandas(), to_polars() or to_arrow().

    Raises:
        SchemaError: The .proto and the schema differ in a column, the schema cannot be loaded, or it has no
            column of a name in columns.
        ValueError: An option is invalid.
        OSError: The stream cannot be read. Raised after the flows before the error.
        DecodeError: The file is a capture. Or, with strict, the stream is damaged: the text contains the byte
            offset.

    Example:
        for batch in flowbuf.read_messages("flows.pb.zst", columns=["src_addr", "bytes"]):
            print(batch.to_polars())
    """
    check_ip(ip)
    loaded = _load(schema)
    proto = find_proto(os.fspath(source)) if isinstance(source, str | os.PathLike) and source != "-" else None
    if columns is not None:
        columns = _list_names(columns)
    described = read_proto(proto, loaded) if proto else loaded
    if columns is not None and not proto:  # the stream may have any column of the schema
        needed = loaded.only_needed(*_choose(loaded, columns))
        described = loaded.enable(*(column.name for column in needed.enabled))
    chosen = loaded if isinstance(schema, Schema) else replace(described, columns=described.enabled)
    names = None
    if columns is not None:
        for name in columns:
            if name in loaded and name not in chosen:
                fix = list_columns([column.name for column in chosen])
                raise SchemaError(f"the messages have no column {name!r}", fix, origin=proto or "")
        names = _choose(chosen, columns)
        chosen = chosen.only_needed(*names)
    return FlowStream(chosen, _MessageTables(source, chosen, batch_rows, strict), ip, names)


class MessageSource(_Tables):
    """A stream of messages that is read as tables."""

    def __init__(self, source: Source, batch_rows: int, strict: bool) -> None:
        check_whole("batch_rows", batch_rows, 2, MAX_ROWS)
        held = isinstance(source, bytes | bytearray | memoryview)
        if not held:
            check_source(source)
            _refuse_capture(source)
        super().__init__("messages" if held else _name_of(source), held or _is_path(source))
        self._source = source
        self._batch_rows = batch_rows
        self._strict = strict

    def read(self, reader: Any, count: Count) -> Any:
        """Yield the tables of a reader: a `MessageTables`, or an object with its methods."""
        self._begin(count)
        with self._open_windows() as windows:
            try:
                yield from message_tables(windows, reader)
                if windows.fault and self._strict:
                    raise DecodeError(
                        f"{windows.name}: {windows.fault}",
                        status="bad_message",
                        offset=windows.offset,
                        path=windows.path,
                    )
            finally:
                counted = {
                    "bad_message": int(bool(windows.fault)),
                    "unknown_field": reader.unknown_fields,
                    "invalid_utf8": reader.invalid_texts,
                }
                count({name: number for name, number in counted.items() if number})

    @contextlib.contextmanager
    def _open_windows(self) -> Iterator[StreamWindows]:
        if isinstance(self._source, bytes | bytearray | memoryview):
            yield StreamBytes(self._source)
            return
        with Content(self._source) as content:
            yield StreamWindows(content)


class _MessageTables(MessageSource):
    """Tables of a stream of messages of a schema."""

    def __init__(self, source: Source, schema: Schema, batch_rows: int, strict: bool) -> None:
        super().__init__(source, batch_rows, strict)
        self._schema = schema
        self.open((), "binary", lambda counters: None)  # report invalid options now

    def open(self, columns: tuple[str, ...], ip: str, count: Count) -> tuple[_core.TableType, Tables]:
        # all columns of the schema, so that the counter `unknown_field` does not depend on the chosen ones
        schema = self._schema.enable(*columns)
        type = new_table_type(schema, compile_plan(schema), ip, columns)
        return type, self.read(_core.MessageTables(type, self._batch_rows), count)


def _refuse_capture(source: Source) -> None:
    """Raise DecodeError for a file that is a capture. Other sources are read only once, and not yet."""
    if not isinstance(source, str | os.PathLike) or not os.path.isfile(source):
        return
    with Content(source) as content:
        if is_capture(content.peek(START_SIZE), content.name):
            raise DecodeError(
                f"{content.name}: is a capture, not a message stream; read it with read_capture",
                status="bad_message",
            )


def message_tables(windows: StreamWindows, reader: _core.MessageTables, *, prompt: bool = False) -> Tables:
    """Yield a message stream as tables. Each is full except the last one. `windows.fault` describes damage.

    Args:
        windows: Windows of the stream.
        reader: Builder of the tables.
        prompt: Yield flows as soon as they are read, in tables that are not full.

    Raises:
        OSError: The stream cannot be read. Raised after the flows before the error.
    """
    try:
        for data, final in windows:
            tables: list[_core.Table] = []
            try:
                windows.take(reader.read(data, tables, final))
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
    """Encode columns as length-delimited messages, one per row, in the format of `Decoder.encode_many`.

    Columns are matched by name. Types need not match if the values fit: any integer type; text for addresses,
    MAC addresses and enums; times in any unit (finer units are rounded down). Null values are omitted. They
    are an error in required columns.

    Args:
        columns: Object with the Arrow PyCapsule protocol: FlowBatch, FlowStream, pandas or polars DataFrame,
            pyarrow Table or RecordBatch, or duckdb relation.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        ignore_unknown: Ignore columns that the schema does not have or that are disabled. Default: False,
            they are an error. The index that pandas adds is always ignored.

    Returns:
        bytes: The messages, each after its length as a varint.

    Raises:
        EncodeError: A column or value cannot be encoded. The text names the column, and the row (from 0) of a
            value.
        SchemaError: The schema cannot be loaded.
        TypeError: columns does not support the Arrow PyCapsule protocol.
        OSError: A stream of columns failed.

    Example:
        messages = flowbuf.encode_columns(frame, "flow", ignore_unknown=True)
    """
    loaded = schema if isinstance(schema, Schema) else Schema.load(schema)
    plan = compile_plan(loaded)

    def bind(names: list[str]) -> list[_Binding]:
        for column in loaded.enabled:
            if column.required and column.name not in names:
                raise EncodeError(f"column {column.name!r} is missing; schema {loaded.name!r} requires it")
        return [_bind(loaded, name, ignore_unknown) for name in names]

    if hasattr(columns, "__arrow_c_stream__"):
        return _core.encode_arrow_stream(plan, columns.__arrow_c_stream__(), bind)
    if hasattr(columns, "__arrow_c_array__"):
        schema_capsule, array = columns.__arrow_c_array__()
        return _core.encode_arrow_array(plan, schema_capsule, array, bind)
    kind = type(columns).__name__
    raise TypeError(f"columns is {kind}, without the Arrow PyCapsule protocol; convert it to a pyarrow.Table")


_Binding = tuple[str | None, dict[int, str] | None, bool]
"""Name of the column in the schema, members of an enum, and True if each row must have a value."""


def _bind(schema: Schema, name: str, ignore_unknown: bool) -> _Binding:
    known = name in schema
    if known and schema[name].enabled:
        return (
            name,
            {number: member for member, number in schema[name].values.items()} or None,
            schema[name].required,
        )
    if ignore_unknown or name.startswith("__index_level_"):
        return None, None, False
    if known:
        raise EncodeError(
            f"column {name!r} is disabled in schema {schema.name!r}; enable it, or leave it out"
        )
    fix = (
        suggest_fix(name, [column.name for column in schema.enabled])
        or "leave it out, or add it to the schema"
    )
    raise EncodeError(f"schema {schema.name!r} has no column {name!r}; {fix}")
