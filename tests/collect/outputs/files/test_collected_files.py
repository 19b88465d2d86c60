"""The collector stores received flows in files, and accounts for each of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest

import flowbuf
from flowbuf.collect.outputs.files import file_output
from flowbuf.collect.outputs.files.file_formats import MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from tests.collect.outputs.files.batches import NOON, Clock, batch, files, read_folder, visible
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


def test_old_files_are_deleted_while_no_file_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk may become free."""
    monkeypatch.setattr(file_output, "RETENTION_TICKS", 1)
    clock = Clock(NOON - 86400)
    for _ in range(2):
        writer = FileOutput(tmp_path, ParquetFormat(), clock=clock)
        writer.write(batch(0))
        writer.close()
        clock.now += 3600
    clock.now = NOON
    options = FileOptions(rotate_bytes=1, keep_seconds=25 * 3600)
    output = FileOutput(tmp_path, ParquetFormat(), options, clock=clock, monotonic=clock)
    obstacle = tmp_path / "date=2026-11-25"
    obstacle.write_text("")
    with running({"files": output}) as service:
        for _ in range(2):
            before = service.read_counters().outputs["files"].queue.offered
            send([MIXED], address_of(service))
            offered = lambda before=before: service.read_counters().outputs["files"].queue.offered > before  # noqa: E731
            wait_until(offered, "flows")
        wait_until(lambda: bool(service.find_failures()), "failure")
        assert len(list(tmp_path.glob("date=2026-11-24/*/*"))) == 2
        clock.now += 2 * 3600
        wait_until(lambda: len(list(tmp_path.glob("date=2026-11-24/*/*"))) == 1, "deletion")
        obstacle.unlink()
        clock.now += 60
    assert (output.stored, output.lost) == (60, {})
