"""Parts that the families of the fuzz driver share: seeds, schemas, captures, and the check for findings."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flowbuf
from flowbuf import _core
from flowbuf.arrow.batch import new_table_type
from flowbuf.io.capture import CaptureReader
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

Parts = list[bytes]

DATA = Path(__file__).parents[1] / "data"
SEED_SIZE = 1 << 16
RECEIVED = 1_700_000_000.0
SOURCES = [("192.0.2.1", 9995), ("192.0.2.1", 9996), ("2001:db8::7", 2055)]


class Family(NamedTuple):
    """Valid inputs, and a function that runs one input."""

    seeds: Callable[[], list[Parts]]
    run: Callable[[Parts, random.Random], None]


def check(condition: object, *what: object) -> None:
    if not condition:
        raise AssertionError(*what)


@functools.cache
def schemas() -> list[Schema]:
    flow = Schema.load("flow")
    return [
        flow,
        flow.enable(*(column.name for column in flow)),
        Schema.load("goflow2"),
        Schema.load("sflow_counters"),
    ]


@functools.cache
def type_of(schema: Schema) -> _core.TableType:
    return new_table_type(schema, compile_plan(schema))


def files() -> list[Path]:
    corpus = os.environ.get("FLOWBUF_CORPUS")
    more = [path for path in Path(corpus).rglob("*.pcap*") if path.is_file()] if corpus else []
    return sorted(path for path in [*DATA.glob("*.pcap"), *more] if path.stat().st_size < 1 << 20)


def payloads_of(capture: bytes) -> Parts:
    payloads = []
    with contextlib.suppress(flowbuf.CaptureError):
        for batch in CaptureReader(io.BytesIO(capture)):
            payloads += [batch[i][0] for i in range(len(batch))]
    return payloads


def read_tables(
    data: Any, schema: Schema, cut: int, rows: int
) -> tuple[list[_core.Table], str, tuple[int, int]]:
    """Return tables, the error without its position, and the counts of unknown fields and invalid texts.

    With `cut`, read the data in two parts.
    """
    reader = _core.MessageTables(type_of(schema), rows)
    tables: list[_core.Table] = []
    error = ""
    try:
        used = reader.read(data[:cut], tables, False) if cut else 0
        reader.read(data[used:], tables)
    except flowbuf.DecodeError as raised:
        error = str(raised).partition(": ")[2]
    tables.append(reader.finish())
    return tables, error, (reader.unknown_fields, reader.invalid_texts)
