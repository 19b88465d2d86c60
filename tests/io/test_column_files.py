"""Parquet and Arrow files are written completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from flowbuf.io import column_file
from flowbuf.io.column_file import ArrowSink, ParquetSink
from flowbuf.io.output_file import OutputFile

TYPE = pa.schema([("number", pa.uint64()), ("kind", pa.dictionary(pa.int32(), pa.string()))])


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    numbers, kinds = zip(*rows, strict=True)
    arrays = [pa.array(numbers, pa.uint64()), pa.array(kinds, pa.string()).dictionary_encode()]
    return pa.RecordBatch.from_arrays(arrays, schema=TYPE)


BATCHES = [batch((1, "a"), (2, None)), batch((3, "b"), (4, "a")), batch((5, "c"))]
ROWS = [row for each in BATCHES for row in each.to_pylist()]


def write(path: Path, sink: Any, batches: Iterable[pa.RecordBatch], **options: Any) -> Path:
    with OutputFile(path) as file, sink(file, TYPE, **options) as writer:
        for each in batches:
            writer.write(each)
    return path


def test_parquet_files_have_all_rows(tmp_path: Path) -> None:
    assert pq.read_table(write(tmp_path / "x", ParquetSink, BATCHES)).to_pylist() == ROWS


def test_the_dictionary_of_an_arrow_file_grows(tmp_path: Path) -> None:
    with pa.ipc.open_file(write(tmp_path / "x", ArrowSink, BATCHES)) as reader:
        assert reader.num_record_batches == 3
        assert reader.read_all().to_pylist() == ROWS


def test_the_dictionary_of_lists_in_an_arrow_file_grows(tmp_path: Path) -> None:
    type = pa.schema([("kinds", pa.list_(pa.dictionary(pa.int32(), pa.string())))])
    lists = [[["a", "b"], None, ["a"]], [["c"], [], ["b", "c"]], [["d"]]]
    batches = [
        pa.RecordBatch.from_arrays([pa.array(each, type[0].type)], schema=type).slice(1) for each in lists
    ]
    with OutputFile(tmp_path / "x") as file, ArrowSink(file, type) as writer:
        for each in batches:
            writer.write(each)
    table = pa.ipc.open_file(tmp_path / "x").read_all()
    table.validate(full=True)
    assert table["kinds"].to_pylist() == [None, ["a"], [], ["b", "c"]]


def test_arrow_streams_have_all_rows(tmp_path: Path) -> None:
    with pa.ipc.open_stream(write(tmp_path / "x", ArrowSink, BATCHES, stream=True)) as reader:
        assert reader.read_all().to_pylist() == ROWS


@pytest.mark.parametrize("sink", [ParquetSink, ArrowSink])
def test_a_file_without_rows_has_the_columns(tmp_path: Path, sink: Any) -> None:
    path = write(tmp_path / "x", sink, [])
    table = pq.read_table(path) if sink is ParquetSink else pa.ipc.open_file(path).read_all()
    assert (table.num_rows, table.column_names) == (0, ["number", "kind"])


def test_small_batches_are_combined_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_file, "GROUP_ROWS", 4)
    file = pq.ParquetFile(write(tmp_path / "x", ParquetSink, BATCHES))
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 1]
    assert file.read().to_pylist() == ROWS


@pytest.mark.parametrize("sink", [ParquetSink, ArrowSink])
def test_a_failure_leaves_no_file(tmp_path: Path, sink: Any) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCHES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", sink, batches())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sink", [ParquetSink, ArrowSink])
def test_a_write_error_names_the_file(tmp_path: Path, sink: Any) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(OSError, match="/dev/full"):
        write(Path("/dev/full"), sink, BATCHES * 20_000)
