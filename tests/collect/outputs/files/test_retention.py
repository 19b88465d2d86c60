"""Old files of an output are deleted by age and by total size, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowbuf.collect.outputs.files.file_formats import FileFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import RETENTION_TICKS, FileOptions, FileOutput
from flowbuf.collect.outputs.files.retention import PAUSE
from tests.collect.outputs.files.batches import NOON, Clock, batch, files, formats, read_folder, visible

HOUR = 3600
FORMATS = pytest.mark.parametrize("format", formats()[:2], ids=lambda format: format.suffix)


def new_output(folder: Path, clock: Clock, format: FileFormat | None = None, **options: Any) -> FileOutput:
    """Return an output whose clock does not step, however a test sets it."""
    return FileOutput(folder, format or ParquetFormat(), FileOptions(**options), clock=clock, monotonic=clock)


def run_retention(output: FileOutput) -> None:
    for _ in range(RETENTION_TICKS):
        output.tick()


def store(output: FileOutput, clock: Clock, files: int, step: float = HOUR) -> None:
    """Store some files, one per step. The clock is at the last one then."""
    for number in range(files):
        clock.now += step if number else 0
        output.write(batch(10 * number))
    output.tick()
    clock.now += 300
    output.tick()
    clock.now -= 300


def hours(folder: Path) -> list[int]:
    """Return the first flow of each file, which is ten times its number."""
    return [number // 10 for number in read_folder(folder)[::10]]


@FORMATS
def test_files_are_deleted_by_age(tmp_path: Path, format: FileFormat) -> None:
    """A file is old when its last flow may be old."""
    clock = Clock()
    writer = new_output(tmp_path, clock, format)
    store(writer, clock, 6)
    writer.close()
    output = new_output(tmp_path, clock, format, keep_seconds=2 * HOUR)
    output.tick()
    assert hours(tmp_path) == [3, 4, 5]
    assert output.counters["expired_files"] == 3
    assert output.counters["expired_bytes"] > 0
    clock.now += 299
    run_retention(output)
    assert hours(tmp_path) == [3, 4, 5]
    clock.now += 2
    run_retention(output)
    assert hours(tmp_path) == [4, 5]


@FORMATS
def test_empty_partitions_are_removed(tmp_path: Path, format: FileFormat) -> None:
    clock = Clock(NOON - 86400)
    output = new_output(tmp_path, clock, format, keep_seconds=HOUR)
    output.write(batch(0))
    clock.now = NOON
    (tmp_path / "date=2026-11-24/hour=13").mkdir(parents=True)
    store(output, clock, 1)
    run_retention(output)
    folders = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_dir())
    assert folders == [
        "date=2026-11-24",
        "date=2026-11-24/hour=13",
        "date=2026-11-25",
        "date=2026-11-25/hour=12",
    ]
    (tmp_path / "date=2026-11-24/hour=13").rmdir()


@FORMATS
def test_files_are_deleted_by_total_size(tmp_path: Path, format: FileFormat) -> None:
    clock = Clock()
    writer = new_output(tmp_path, clock, format)
    store(writer, clock, 5)
    writer.close()
    size = sum((tmp_path / name).stat().st_size for name in files(tmp_path)) // 5
    output = new_output(tmp_path, clock, format, keep_bytes=3 * size + 50)
    output.tick()
    assert hours(tmp_path) == [2, 3, 4]
    assert len(files(tmp_path)) == (6 if format.description else 3)
    assert output.counters["expired_files"] == 2


@FORMATS
def test_the_newest_file_stays(tmp_path: Path, format: FileFormat) -> None:
    clock = Clock()
    output = new_output(tmp_path, clock, format, keep_bytes=1, keep_seconds=1)
    store(output, clock, 3)
    clock.now += 10 * 365 * 86400
    run_retention(output)
    assert hours(tmp_path) == [2]


def test_other_files_are_neither_counted_nor_deleted(tmp_path: Path) -> None:
    clock = Clock(NOON - 86400)
    old = "flows-20261124T120000Z-0123456789ab-000001"
    folder = tmp_path / "date=2026-11-24/hour=12"
    others = [
        tmp_path / f"{old}.parquet",
        tmp_path / "date=2026-11-24/hour=11" / f"{old}.parquet",
        folder / f"{old}.pb",
        folder / f"{old}.parquet.bak",
        folder / f"{old}.parquet.proto",
        folder / f"counters-{old[6:]}.parquet",
        folder / "part-0.parquet",
        tmp_path / "elsewhere" / f"{old}.parquet",
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100_000))
    link = folder / f"{old}.parquet"
    link.symlink_to(others[-1])
    output = new_output(tmp_path, clock, keep_seconds=HOUR)
    store(output, clock, 1)
    clock.now = NOON
    store(output, clock, 1)
    run_retention(output)
    assert output.counters["expired_files"] == 1
    assert all(path.exists() for path in [*others, link])
    limited = new_output(tmp_path, clock, keep_bytes=50_000)
    run_retention(limited)
    assert limited.counters["expired_files"] == 0


def test_open_files_are_not_deleted(tmp_path: Path) -> None:
    clock = Clock()
    writer = new_output(tmp_path, clock)
    writer.write(batch(0))
    output = new_output(tmp_path, clock, keep_seconds=1, keep_bytes=1)
    clock.now += 86400
    output.write(batch(10))
    run_retention(output)
    writer.close()
    output.close()
    assert sorted(read_folder(tmp_path)) == list(range(20))


def test_two_outputs_delete_each_file_once(tmp_path: Path) -> None:
    clock = Clock()
    writer = new_output(tmp_path, clock)
    store(writer, clock, 4)
    outputs = [new_output(tmp_path, clock, keep_seconds=HOUR) for _ in range(2)]
    for output in outputs:
        output.tick()
    assert [output.counters["expired_files"] for output in outputs] == [2, 0]
    assert hours(tmp_path) == [2, 3]


def test_a_step_of_the_clock_suspends_deletion_by_age(tmp_path: Path) -> None:
    clock, monotonic = Clock(), Clock(1000.0)
    reports: list[str] = []
    output = FileOutput(
        tmp_path,
        ParquetFormat(),
        FileOptions(keep_seconds=24 * HOUR),
        clock=clock,
        monotonic=monotonic,
        on_problem=reports.append,
    )

    def wait(seconds: float) -> None:
        clock.now += seconds
        monotonic.now += seconds
        run_retention(output)

    for number in range(3):
        output.write(batch(10 * number))
        wait(300)
    clock.now += 10 * 365 * 86400
    run_retention(output)
    assert reports == [
        f"{tmp_path}: the clock stepped forward by 315360000 s; no file is deleted by age for 1 h"
    ]
    wait(PAUSE - 1)
    assert hours(tmp_path) == [0, 1, 2]
    wait(2)
    assert hours(tmp_path) == [2]


def test_a_clock_that_steps_back_deletes_nothing_by_age(tmp_path: Path) -> None:
    clock = Clock()
    output = FileOutput(
        tmp_path, ParquetFormat(), FileOptions(keep_seconds=HOUR), clock=clock, monotonic=Clock()
    )
    store(output, clock, 1)
    clock.now -= 30 * 86400
    store(output, clock, 2, step=600)
    run_retention(output)
    assert len(list(visible(tmp_path))) == 3
