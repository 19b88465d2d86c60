"""Files contain the flows that were written, and are read by the usual tools."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import flowbuf
from flowbuf import EncodeError, FlowbufError
from flowbuf.collect.outputs.files.file_formats import FileFormat, MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from flowbuf.io import column_file
from tests.collect.outputs.files.batches import (
    FLOWS,
    NOON,
    TYPE,
    Clock,
    balanced,
    batch,
    files,
    formats,
    read_folder,
    visible,
)

CAPTURE = Path(__file__).parents[3] / "data/softflowd-netflow9.pcap"


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.suffix)
def test_flows_are_pending_until_the_file_is_stored(tmp_path: Path, format: FileFormat) -> None:
    output = FileOutput(tmp_path, format)
    output.write(batch(0))
    output.write(batch(10))
    assert (output.stored, output.pending) == (0, 20)
    assert list(visible(tmp_path)) == []
    output.close()
    assert (output.stored, output.pending, output.lost) == (20, 0, {})
    assert read_folder(tmp_path) == list(range(20))
    assert output.counters["files"] == 1
    assert output.counters["bytes"] == next(visible(tmp_path)).stat().st_size


def test_decoded_flows_are_read_from_hive_partitions(tmp_path: Path) -> None:
    """The addresses and enums of decoded flows keep their types."""
    flows = flowbuf.read_capture(CAPTURE).to_arrow()
    clock = Clock()
    output = FileOutput(tmp_path, ParquetFormat(), clock=clock)
    for each in flowbuf.read_capture(CAPTURE, batch_rows=200):
        output.write(each.to_arrow())
        clock.now += 3600
    output.close()
    dataset = ds.dataset(tmp_path, format="parquet", partitioning="hive")
    table = dataset.to_table(columns=flows.column_names)
    assert sorted(table["bytes"].to_pylist()) == sorted(flows["bytes"].to_pylist())
    assert table.schema.equals(flows.schema)
    hours = duckdb.sql(
        f"select hour, count(*) from read_parquet('{tmp_path}/**/*.parquet', hive_partitioning = true) "
        "where date = '2026-11-25' group by hour order by hour"
    ).fetchall()
    assert hours == [(12, 200), (13, 200), (14, 78)]


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_decoded_flows_are_read_from_messages(tmp_path: Path, compression: str) -> None:
    schema = flowbuf.Schema.load("flow")
    output = FileOutput(tmp_path, MessageFormat(schema, compression))
    for each in flowbuf.read_capture(CAPTURE, batch_rows=100):
        output.write(each.to_arrow())
    output.close()
    (path,) = visible(tmp_path)
    assert path.name.endswith(f".pb{compression}")
    assert Path(f"{path}.proto").read_text() == schema.to_proto()
    assert flowbuf.read_messages(path, strict=True).to_arrow() == flowbuf.read_capture(CAPTURE).to_arrow()


def test_the_proto_describes_scaled_values(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS, scaled=True))
    output.write(batch(0))
    output.close()
    (proto,) = files(tmp_path, ".proto")
    assert (tmp_path / proto).read_text() == FLOWS.to_proto(scaled=True)


def test_parquet_has_large_row_groups_compressed_with_zstd(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat())
    for first in range(0, 280_000, 14_000):
        output.write(batch(first, 14_000))
    output.close()
    (path,) = visible(tmp_path)
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [140_000, 140_000]
    assert {group.column(0).compression for group in groups} == {"ZSTD"}
    assert read_folder(tmp_path) == list(range(280_000))


def test_memory_of_long_texts_ends_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_file, "GROUP_BYTES", 100_000)
    output = FileOutput(tmp_path, ParquetFormat())
    for first in range(10):
        output.write(pa.record_batch({"text": [str(first) * 1000] * 30}))
    output.close()
    (path,) = visible(tmp_path)
    assert pq.ParquetFile(path).num_row_groups == 3


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.suffix)
def test_a_batch_of_another_schema_starts_a_new_file(tmp_path: Path, format: FileFormat) -> None:
    other = batch(10).set_column(1, "packets", pa.array(range(10), pa.uint32()))
    output = FileOutput(tmp_path, format)
    output.write(batch(0))
    output.write(other)
    output.write(other.replace_schema_metadata({"version": "2"}))
    output.write(batch(20))
    output.close()
    assert output.counters["files"] == 4
    assert read_folder(tmp_path) == [*range(20), *range(10, 30)]


def test_an_empty_batch_opens_no_file(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat())
    output.write(batch(0, 0))
    output.close()
    assert files(tmp_path) == []


@pytest.mark.parametrize("format", formats()[:2], ids=lambda format: format.suffix)
def test_a_batch_that_cannot_be_written_leaves_the_others(tmp_path: Path, format: FileFormat) -> None:
    if format.suffix == ".parquet":
        bad = pa.RecordBatch.from_arrays(
            [pa.array([None], pa.uint64()), pa.array([1], pa.uint64()), pa.array([None], TYPE[2].type)],
            schema=TYPE,
        )
    else:
        bad = pa.record_batch({"bytes": [1], "unknown": [2]})
    output = FileOutput(tmp_path, format)
    with pytest.raises(EncodeError):  # in a new file
        output.write(bad)
    output.write(batch(0))
    with pytest.raises(EncodeError):
        output.write(bad)
    output.write(batch(10))
    assert balanced(output) == 20
    output.close()
    assert output.lost == {}
    assert sorted(read_folder(tmp_path)) == list(range(20))
    assert files(tmp_path, ".tmp") == []


def test_a_type_that_parquet_lacks_is_an_error_of_the_batch(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat())
    with pytest.raises(FlowbufError, match="the batch cannot be written"):
        output.write(pa.record_batch({"x": pa.array([None], pa.month_day_nano_interval())}))
    output.write(batch(0))
    output.close()
    assert read_folder(tmp_path) == list(range(10))
    assert files(tmp_path, ".tmp") == []


def test_unknown_columns_of_messages_are_ignored_on_request(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS, ignore_unknown=True))
    output.write(pa.record_batch({"bytes": [1, 2], "unknown": [2, 3]}))
    output.close()
    assert read_folder(tmp_path) == [1, 2]


def test_a_closed_output_takes_no_flows(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat(), FileOptions(keep_bytes=1), clock=Clock(NOON))
    output.close()
    output.close()
    output.tick()
    with pytest.raises(FlowbufError, match="the output is closed"):
        output.write(batch(0))


@pytest.mark.parametrize("option", ["rotate_seconds", "rotate_bytes", "keep_seconds", "keep_bytes"])
def test_limits_are_positive(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is 0; it must be positive"):
        FileOptions(**{option: 0})


def test_an_unknown_compression_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"compression is '.xz'"):
        MessageFormat(FLOWS, ".xz")
