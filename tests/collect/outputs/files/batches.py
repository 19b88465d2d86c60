"""Batches of numbered flows, an adjustable clock, and readers of the files of an output."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import flowbuf
from flowbuf import Schema
from flowbuf.collect.outputs.files.file_formats import FileFormat, MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOutput

NOON = 1_795_608_000.0
"""2026-11-25T12:00:00Z."""

FLOWS = Schema.load("flow").only("bytes", "packets", "flow_type")
TYPE = pa.schema(
    [
        pa.field("bytes", pa.uint64(), nullable=False),
        pa.field("packets", pa.uint64(), nullable=False),
        pa.field("flow_type", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def formats() -> list[FileFormat]:
    return [ParquetFormat(), *(MessageFormat(FLOWS, end) for end in ("", ".gz", ".zst"))]


class Clock:
    """A system clock that tests set."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def batch(first: int, count: int = 10) -> pa.RecordBatch:
    """Return `count` flows whose `bytes` are consecutive numbers. Their `packets` are incompressible."""
    numbers = pa.array(range(first, first + count), pa.uint64())
    noise = pa.array(memoryview(random.Random(first).randbytes(8 * count)).cast("Q"), pa.uint64())
    kinds = pa.array(["NETFLOW_V9" if n % 2 else "IPFIX" for n in range(count)]).dictionary_encode()
    return pa.RecordBatch.from_arrays([numbers, noise, kinds], schema=TYPE)


def files(folder: Path, suffix: str = "") -> list[str]:
    """Return the paths below a folder of all files, also of hidden ones."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name.endswith(suffix))
    return sorted(str(path.relative_to(folder)) for path in paths)


def read_file(path: Path) -> list[int]:
    """Return the numbers of the flows in a file."""
    if path.suffix == ".parquet":
        numbers = pq.read_table(path, columns=["bytes"], partitioning=None)["bytes"]
    else:
        numbers = flowbuf.read_messages(path, strict=True).to_arrow()["bytes"]
    return list(numbers.to_pylist())


def visible(folder: Path) -> Iterator[Path]:
    """Yield the files that a reader of a data set finds, in the order of their names."""
    for path in sorted(folder.rglob("*"), key=lambda path: path.name):
        if path.is_file() and path.name[0] not in "._" and path.suffix != ".proto":
            yield path


def read_folder(folder: Path) -> list[int]:
    """Return the numbers of the flows in all visible files, file by file."""
    return [number for path in visible(folder) for number in read_file(path)]


def balanced(output: FileOutput) -> int:
    """Return the number of flows that an output accounts for."""
    return output.stored + output.pending + output.lost.total()
