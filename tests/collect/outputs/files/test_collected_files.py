"""The collector stores received flows in files, and accounts for each of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

import flowbuf
from flowbuf.collect.outputs.files.file_formats import MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from tests.collect.outputs.files.batches import Clock, files, read_folder, visible
from tests.collect.test_service import MIXED, address_of, check_sums, running
from tests.support.live import send, wait_until

DATAGRAMS = 20
RECEIVED = sorted(list(range(100, 130)) * DATAGRAMS)
"""Values of `bytes` in the flows of all datagrams."""


def test_received_flows_are_in_parquet_and_message_files(tmp_path: Path) -> None:
    schema = flowbuf.Schema.load("flow")
    outputs = {
        "parquet": FileOutput(tmp_path / "parquet", ParquetFormat(), FileOptions(rotate_bytes=1)),
        "pb": FileOutput(tmp_path / "pb", MessageFormat(schema, ".zst"), FileOptions(rotate_bytes=1)),
    }
    with running(dict(outputs)) as service:
        send([MIXED] * DATAGRAMS, address_of(service))
        wait_until(lambda: all(output.stored + output.pending == 600 for output in outputs.values()), "flows")
    check_sums(service.read_counters())
    for name, output in outputs.items():
        assert (output.stored, output.pending, output.lost) == (600, 0, {})
        assert sorted(read_folder(tmp_path / name)) == RECEIVED
    table = ds.dataset(tmp_path / "parquet", partitioning="hive").to_table(filter=ds.field("dst_port") == 53)
    assert table.num_rows == 20 * DATAGRAMS


def test_a_place_that_fails_and_works_again_loses_no_flows(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat(), clock=Clock())
    obstacle = tmp_path / "date=2026-11-25"
    obstacle.write_text("")
    with running({"files": output}) as service:
        send([MIXED] * DATAGRAMS, address_of(service))
        wait_until(lambda: output.pending == 600, "flows")
        service.stop()
        wait_until(lambda: service.read_counters().outputs["files"].failures > 0, "failure")
        counters = service.read_counters()
        check_sums(counters)
        assert counters.outputs["files"].pending == 600
        obstacle.unlink()
    check_sums(service.read_counters())
    assert output.stored == 600
    assert sorted(read_folder(tmp_path)) == RECEIVED
    assert files(tmp_path) == [str(path.relative_to(tmp_path)) for path in visible(tmp_path)]
