"""Files end at multiples of the rotation time, at the end of an hour, and at a size."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.collect.outputs.files.file_formats import FileFormat, MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from flowbuf.io import column_file
from tests.collect.outputs.files.batches import (
    FLOWS,
    NOON,
    Clock,
    batch,
    files,
    formats,
    read_file,
    read_folder,
    visible,
)


def times(folder: Path) -> list[str]:
    """Return the times in the names of visible files."""
    return [path.name.split("-")[1] for path in visible(folder)]


@pytest.mark.parametrize("format", formats()[:2], ids=lambda format: format.suffix)
def test_files_end_at_multiples_of_the_rotation_time(tmp_path: Path, format: FileFormat) -> None:
    clock = Clock(NOON + 250)
    output = FileOutput(tmp_path, format, FileOptions(rotate_seconds=300), clock=clock)
    output.write(batch(0))
    clock.now = NOON + 299
    output.tick()
    assert output.stored == 0
    clock.now = NOON + 300
    output.tick()
    assert (output.stored, output.pending) == (10, 0)
    output.tick()
    output.write(batch(10))
    clock.now = NOON + 601  # without a tick, the next batch ends the file
    output.write(batch(20))
    output.close()
    assert times(tmp_path) == ["20261125T120410Z", "20261125T120500Z", "20261125T121001Z"]
    assert [read_file(path)[0] for path in visible(tmp_path)] == [0, 10, 20]


def test_no_flows_make_no_file(tmp_path: Path) -> None:
    clock = Clock()
    output = FileOutput(tmp_path, ParquetFormat(), clock=clock)
    for _ in range(10):
        clock.now += 300
        output.tick()
    output.close()
    assert files(tmp_path) == []


def test_files_end_with_their_hour(tmp_path: Path) -> None:
    """The rotation time is no divisor of an hour, and the hour is a partition."""
    clock = Clock(NOON + 3500)
    output = FileOutput(tmp_path, ParquetFormat(), FileOptions(rotate_seconds=7000), clock=clock)
    output.write(batch(0))
    clock.now = NOON + 3601
    output.write(batch(10))
    output.close()
    folders = [str(path.parent.relative_to(tmp_path)) for path in visible(tmp_path)]
    assert folders == ["date=2026-11-25/hour=12", "date=2026-11-25/hour=13"]


def test_a_parquet_file_ends_after_the_row_group_that_reaches_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_file, "GROUP_ROWS", 1000)
    output = FileOutput(tmp_path, ParquetFormat(), FileOptions(rotate_bytes=20_000), clock=Clock())
    for first in range(0, 10_000, 500):
        output.write(batch(first, 500))
    assert output.counters["files"] == 5  # each group has 8,000 bytes of noise, and less of other columns
    output.close()
    sizes = [path.stat().st_size for path in visible(tmp_path)]
    assert all(20_000 <= size < 32_000 for size in sizes), sizes
    assert read_folder(tmp_path) == list(range(10_000))
    assert len(set(times(tmp_path))) == 1


def test_a_message_file_ends_at_the_size(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS), FileOptions(rotate_bytes=10_000), clock=Clock())
    for first in range(0, 2_000, 100):
        output.write(batch(first, 100))
    output.close()
    sizes = [path.stat().st_size for path in visible(tmp_path)]
    assert len(sizes) > 2
    assert all(10_000 <= size < 12_500 for size in sizes[:-1]), sizes
    assert read_folder(tmp_path) == list(range(2_000))


@pytest.mark.parametrize("step", [-1, -7200, 86400 * 400])
def test_a_step_of_the_clock_ends_the_file_and_loses_nothing(tmp_path: Path, step: int) -> None:
    clock = Clock()
    output = FileOutput(tmp_path, ParquetFormat(), clock=clock)
    output.write(batch(0))
    clock.now = NOON + step
    output.tick()
    assert output.stored == 10
    output.write(batch(10))
    clock.now = NOON + 1
    output.write(batch(20))
    output.close()
    assert output.stored == 30
    assert output.counters["files"] == 3
    assert sorted(read_folder(tmp_path)) == list(range(30))


def test_a_clock_that_stands_still_gives_each_file_its_own_name(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS), FileOptions(rotate_bytes=1), clock=Clock())
    for first in range(0, 50, 10):
        output.write(batch(first))
    output.close()
    assert len(list(visible(tmp_path))) == 5
    assert read_folder(tmp_path) == list(range(50))
