"""Fuzz family: Arrow arrays of any type, encoded as messages and formatted as text."""

from __future__ import annotations

import contextlib
import random
from typing import Any

from flowbuf import EncodeError, _core, encode_columns
from flowbuf.arrow.row_text import RowText
from tests.binding.fuzz_common import Parts, check, read_tables, schemas
from tests.binding.fuzz_datagrams import seed_datagrams


def seed_arrow() -> list[Parts]:
    values = [
        bytes(range(256)),
        b"192.0.2.1",
        b"2001:db8::1",
        b"00:11:22:33:44:55",
        b"tcp",
        bytes(16),
        b"\xff" * 32,
    ]
    return [
        values,
        [b"".join(parts)[:2000] for parts in ([value] for value in values)],
        *seed_datagrams()[:6],
    ]


def arrow_types(rng: random.Random, depth: int = 2) -> Any:
    import pyarrow as pa

    plain = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    plain += [pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.null()]
    plain += [make(unit) for unit in ("s", "ms", "us", "ns") for make in (pa.timestamp, pa.duration)]
    plain += [
        pa.time32("s"),
        pa.time64("ns"),
        pa.decimal128(20, 3),
        pa.binary(4),
        pa.binary(16),
        pa.binary(5),
    ]
    plain += [
        pa.string(),
        pa.binary(),
        pa.large_string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
    ] * 4
    nested = [
        lambda: pa.list_(arrow_types(rng, depth - 1)),
        lambda: pa.large_list(arrow_types(rng, depth - 1)),
        lambda: pa.list_(arrow_types(rng, depth - 1), rng.randrange(4)),
        lambda: pa.struct([("a", arrow_types(rng, depth - 1))]),
        lambda: pa.dictionary(
            rng.choice((pa.int8(), pa.uint16(), pa.int64())), rng.choice(plain[:8] + plain[-24:])
        ),
    ]
    return rng.choice(nested)() if depth and rng.random() < 0.35 else rng.choice(plain)


def arrow_array(type: Any, length: int, parts: Parts, rng: random.Random) -> Any:
    """Return an array whose buffers are bytes of a part."""
    import pyarrow as pa

    bits = pa.py_buffer(rng.randbytes(length // 8 + 1)) if rng.random() < 0.5 else None
    if isinstance(type, pa.DictionaryType):
        values = arrow_array(type.value_type, rng.randrange(1, 6), parts, rng)
        indices = pa.array([rng.randrange(len(values)) for _ in range(length)], type.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, safe=False)
    if isinstance(type, pa.StructType):
        children = [
            arrow_array(type.field(place).type, length, parts, rng) for place in range(type.num_fields)
        ]
        return pa.StructArray.from_buffers(type, length, [bits], children=children)
    if isinstance(type, pa.FixedSizeListType):
        child = arrow_array(type.value_type, length * type.list_size, parts, rng)
        return pa.FixedSizeListArray.from_buffers(type, length, [bits], children=[child])
    if isinstance(type, (pa.ListType, pa.LargeListType)):
        sizes = [rng.choice((0, 1, 2, 5)) for _ in range(length)]
        child = arrow_array(type.value_type, sum(sizes), parts, rng)
        wide = pa.int64() if isinstance(type, pa.LargeListType) else pa.int32()
        offsets = pa.array([sum(sizes[:i]) for i in range(length + 1)], wide)
        return pa.Array.from_buffers(type, length, [bits, offsets.buffers()[1]], children=[child])
    if pa.types.is_null(type):
        return pa.nulls(length)
    if pa.types.is_primitive(type) or pa.types.is_fixed_size_binary(type) or pa.types.is_decimal(type):
        size = (length * type.bit_width + 7) // 8
        data = (rng.choice(parts) or b"\0") * (1 + size)
        return pa.Array.from_buffers(type, length, [bits, pa.py_buffer(data[:size])])
    values = [rng.choice((*parts, None, b"")) for _ in range(length)]
    return pa.array([value and value[:1000] for value in values], pa.large_binary()).cast(type, safe=False)


def check_text(schema: Any, table: Any, begin: int, rng: random.Random) -> None:
    """Check that there is a line per row, and that slices have the lines of the whole table."""
    form = rng.choice(("json", "csv", "key"))
    text = RowText(schema, form, spreadsheet=rng.random() < 0.5)
    with contextlib.suppress(EncodeError):
        lines = text.split(table)
        check(len(lines) == len(table), "lines of Arrow columns")
        check(lines == text.split(table.slice(0, begin)) + text.split(table.slice(begin)), "lines of slices")
        check(bytes(text.lines(table)) == b"".join(line + b"\n" for line in lines), "lines of a table")


def run_arrow(parts: Parts, rng: random.Random) -> None:
    import pyarrow as pa

    schema = rng.choice(schemas())
    length = rng.choice((0, 1, 2, 9, 70))
    table = None
    with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):  # errors of pyarrow
        names = rng.sample([column.name for column in schema], rng.randrange(1, 5))
        arrays = [arrow_array(arrow_types(rng), length, parts, rng) for _ in names]
        table = pa.RecordBatch.from_arrays(arrays, names)
    if table is None:
        return
    begin = rng.randrange(length + 1)
    end = rng.randrange(begin, length + 1)
    check_text(schema, table, begin, rng)
    results = []
    for each in (
        table,
        table.slice(begin),
        table.slice(begin, end - begin),
        table.slice(end),
        table.slice(0, begin),
    ):
        try:
            results.append(encode_columns(each, schema))
            check(_core.count_messages(results[-1]) == len(each), "messages of Arrow columns")
        except EncodeError:
            results.append(None)
    whole, behind, middle, rest, before = results
    if None not in (before, behind):
        check(whole == before + behind, "slices")
    if None not in (middle, rest):
        check(behind == middle + rest, "slices of slices")
    if whole is not None:
        stream = pa.Table.from_batches([table.slice(0, begin), table.slice(begin)])
        check(encode_columns(stream, schema) == whole, "a stream")
        rows, error, _ = read_tables(whole, schema, 0, 100)
        check(
            not error and sum(map(len, rows)) == length,
            "unreadable messages of Arrow columns",
            error,
        )
