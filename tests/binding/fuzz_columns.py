"""Fuzz columns of random message types: damaged messages to columns, and arrays of any kind to messages."""

from __future__ import annotations

import contextlib
import functools
import random
from typing import Any

import flowbuf
from flowbuf import EncodeError, _core
from flowbuf.codec.columns import encode_nested, find_paths, make_type
from tests.binding.fuzz_arrow import arrow_array, arrow_types
from tests.binding.fuzz_common import Family, Parts, check
from tests.support.codec.expected_columns import choose, list_paths
from tests.support.codec.random_types import RandomTypes

TYPES = 60


@functools.cache
def types() -> list[tuple[RandomTypes, _core.NestedType]]:
    """Return types with the columns of all fields that have columns."""
    found = []
    for seed in range(TYPES):
        kind = RandomTypes(seed, well_known=True)
        chosen = choose(kind.message_class.DESCRIPTOR)
        if chosen:
            message = flowbuf.Codec(kind.message_class.DESCRIPTOR).message
            found.append((kind, make_type(message, find_paths(message, list_paths(chosen)))))
    return found


def seed_columns() -> list[Parts]:
    """Return streams of messages. The first part is the number of the type."""
    seeds = []
    for number, (kind, _) in enumerate(types()):
        messages = [kind.message().SerializePartialToString() for _ in range(6)]
        doubled = [one + other for one, other in zip(messages[:3], messages[3:], strict=True)]
        for some in (messages[:2], messages[2:], doubled):
            seeds.append([bytes([number]), _core.join_messages(some)])
    return seeds


def read(
    type: _core.NestedType, data: Any, split: int, rows: int
) -> tuple[list[_core.NestedTable], bool, tuple[int, int]]:
    """Read a stream in two pieces. Return the tables, True if it is whole, and the counters."""
    reader = _core.NestedTables(type, rows)
    tables: list[_core.NestedTable] = []
    whole = True
    try:
        used = reader.read(memoryview(data)[:split], tables, False)
        reader.read(memoryview(data)[used:], tables)
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= len(data), "the offset of an error")
        whole = False
    return tables + reader.finish_each(), whole, (reader.unknown_fields, reader.invalid_texts)


def run_columns(parts: Parts, rng: random.Random) -> None:
    import pyarrow as pa

    number = parts[0][0] if parts and parts[0] else 0
    _, type = types()[number % len(types())]
    data = b"".join(parts[1:])
    tables, whole, counters = read(type, rng.choice((bytes, bytearray))(data), len(data), 10_000)
    again = read(type, data, rng.randrange(len(data) + 1), rng.choice((2, 3, 100)))
    count = sum(map(len, tables))
    check((sum(map(len, again[0])), *again[1:]) == (count, whole, counters), "messages in pieces")
    batches = [[pa.record_batch(table) for table in each] for each in (tables, again[0])]
    for batch in (*batches[0], *batches[1]):
        batch.validate(full=True)
    one, other = (pa.Table.from_batches(each).to_pylist() for each in batches)
    check(repr(one) == repr(other), "rows of messages in pieces")
    with contextlib.suppress(EncodeError):  # a required field is missing
        stream = encode_nested(pa.Table.from_batches(batches[0]), type)
        check(_core.count_messages(stream) == count, "messages of columns")
        back, complete, rest = read(type, stream, len(stream), 10_000)
        check(complete and rest == (0, 0), "unreadable messages of columns")
        rows = [row for each in back for row in pa.record_batch(each).to_pylist()]
        check(counters[1] or repr(rows) == repr(one), "rows")  # keys with U+FFFD have another order
        check(encode_nested(pa.Table.from_batches(batches[1]), type) == stream, "messages of batches")
    run_arrays(parts, type, rng)


def like(type: Any, rng: random.Random) -> Any:
    """Return a type of Arrow whose values may fit another one."""
    import pyarrow as pa

    if rng.random() < 0.04:
        return arrow_types(rng)
    if pa.types.is_map(type):
        entry = [("key", like(type.key_type, rng)), ("value", like(type.item_type, rng))]
        return pa.list_(pa.struct(entry))
    if pa.types.is_list(type):
        return rng.choice((pa.list_, pa.large_list))(like(type.value_type, rng))
    if pa.types.is_struct(type):
        fields = [type.field(place) for place in range(type.num_fields) if rng.random() < 0.8]
        return pa.struct([(field.name, like(field.type, rng)) for field in fields])
    return type if rng.random() < 0.9 else arrow_types(rng, 0)


def run_arrays(parts: Parts, type: _core.NestedType, rng: random.Random) -> None:
    """Encode arrays with arbitrary buffers, and slices of them."""
    import pyarrow as pa

    length = rng.choice((0, 1, 3, 70))
    with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):  # errors of pyarrow
        fields = [field for field in pa.schema(type) if rng.random() < 0.6]
        arrays = [arrow_array(like(field.type, rng), length, parts, rng) for field in fields]
        table = pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])
        begin = rng.randrange(len(table) + 1)
        results: list[bytes | None] = []
        for each in (table, table.slice(0, begin), table.slice(begin)):
            try:
                results.append(encode_nested(each, type))
                check(_core.count_messages(results[-1]) == len(each), "messages of arrays")
            except EncodeError:
                results.append(None)
        whole, before, behind = results
        if before is not None and behind is not None:
            check(whole == before + behind, "slices")
        if whole is not None:
            tables, complete, _ = read(type, whole, len(whole), 10_000)
            check(complete and sum(map(len, tables)) == len(table), "unreadable messages of arrays")


FAMILY = Family(seed_columns, run_columns)
