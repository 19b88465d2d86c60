"""Several processes share a folder, and end or lose it at any time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from flowbuf.collect.outputs.files.file_formats import FileFormat, MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from tests.collect.outputs.files.batches import (
    FLOWS,
    Clock,
    balanced,
    batch,
    files,
    formats,
    read_folder,
    visible,
)

REMAINDER = ".flows-20261125T110000Z-0123456789ab-000007.parquet.tmp"


def test_the_folder_is_created(tmp_path: Path) -> None:
    output = FileOutput(tmp_path / "new/folder", ParquetFormat())
    output.write(batch(0))
    output.close()
    assert read_folder(tmp_path / "new/folder") == list(range(10))


def test_a_uri_names_a_local_folder(tmp_path: Path) -> None:
    output = FileOutput(f"file://{tmp_path}/with%20space", ParquetFormat())
    output.write(batch(0))
    output.close()
    assert read_folder(tmp_path / "with space") == list(range(10))


@pytest.mark.parametrize("place", ["ftp://host/x", "file://host/x", "gs://bucket/x"])
def test_other_places_are_an_error(place: str) -> None:
    with pytest.raises(ValueError, match="is not supported; name a folder, or an s3:// URI"):
        FileOutput(place, ParquetFormat())


def test_a_file_instead_of_a_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "flows").write_text("")
    with pytest.raises(
        OSError, match=r"cannot be written: .*; correct that, or name another place"
    ) as caught:
        FileOutput(tmp_path / "flows", ParquetFormat())
    assert caught.value.filename == str(tmp_path / "flows")


def test_an_open_file_has_a_hidden_name(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS), clock=Clock())
    output.write(batch(0))
    (name,) = files(tmp_path)
    assert name.startswith(".flows-20261125T120000Z-")
    assert name.endswith(".pb.tmp")
    output.close()
    assert not files(tmp_path, ".tmp")


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        output = FileOutput(tmp_path, ParquetFormat())
        output.write(batch(0))
        output.close()
    finally:
        os.umask(before)
    assert next(visible(tmp_path)).stat().st_mode & 0o777 == 0o640


def test_remainders_of_ended_processes_are_removed_and_reported(tmp_path: Path) -> None:
    (tmp_path / REMAINDER).write_bytes(b"x" * 1234)
    others = [
        ".flows-20261125T110000Z-0123456789ab-000007.pb.tmp",
        ".other-20261125T110000Z-0123456789ab-000007.parquet.tmp",
        ".flows.parquet.0123.tmp",
        "flows-20261125T110000Z-0123456789ab-000007.parquet.tmp",
        "date=2026-11-25",
    ]
    for name in others:
        (tmp_path / name).write_text("")
    reports: list[str] = []
    output = FileOutput(tmp_path, ParquetFormat(), on_problem=reports.append)
    assert files(tmp_path) == sorted(others)
    assert output.counters["recovered_files"] == 1
    assert reports == [f"{tmp_path}: removed 1 files of 1,234 bytes that an ended process left open"]
    output.close()


@pytest.mark.parametrize("format", formats()[:2], ids=lambda format: format.suffix)
def test_two_outputs_share_a_folder(tmp_path: Path, format: FileFormat) -> None:
    """The second one starts while the first one has an open file, with a clock that is an hour behind."""
    first = FileOutput(tmp_path, format, clock=Clock())
    first.write(batch(0))
    second = FileOutput(tmp_path, format, clock=Clock())
    assert second.counters["recovered_files"] == 0
    for number in range(1, 5):
        (first if number % 2 else second).write(batch(10 * number))
    for output in (first, second):
        output.close()
        assert output.lost == {}
    assert len(list(visible(tmp_path))) == 2
    assert sorted(read_folder(tmp_path)) == list(range(50))


def test_files_with_different_prefixes_share_a_folder(tmp_path: Path) -> None:
    clock = Clock()
    outputs = [FileOutput(tmp_path, ParquetFormat(), FileOptions(prefix=x), clock=clock) for x in "ab"]
    for number, output in enumerate(outputs):
        output.write(batch(10 * number))
        output.close()
    assert [path.name[:2] for path in visible(tmp_path)] == ["a-", "b-"]


@pytest.mark.parametrize("format", formats()[:2], ids=lambda format: format.suffix)
def test_a_folder_that_is_removed_takes_only_the_open_file(tmp_path: Path, format: FileFormat) -> None:
    folder = tmp_path / "flows"
    reports: list[str] = []
    output = FileOutput(folder, format, on_problem=reports.append, clock=Clock())
    output.write(batch(0))
    shutil.rmtree(folder)
    output.tick()
    assert output.lost == {"file_removed": 10}
    assert "10 flows are lost: the file was removed" in reports[-1]
    output.write(batch(10))
    output.close()
    assert (output.stored, balanced(output)) == (10, 20)
    assert read_folder(folder) == list(range(10, 20))


def test_a_folder_that_is_removed_just_before_the_end_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    output = FileOutput(folder, ParquetFormat())
    output.write(batch(0))
    shutil.rmtree(folder)
    output.close()
    assert (output.stored, output.pending, output.lost) == (0, 0, {"file_removed": 10})


def test_a_file_stays_pending_while_its_partition_cannot_be_created(tmp_path: Path) -> None:
    clock = Clock()
    output = FileOutput(tmp_path, ParquetFormat(), clock=clock)
    (tmp_path / "date=2026-11-25").write_text("in the way")
    output.write(batch(0))
    clock.now += 300
    for work in (output.tick, output.tick, lambda: output.write(batch(10))):
        with pytest.raises(OSError, match=r"Not a directory|File exists") as caught:
            work()
        assert caught.value.filename.startswith(str(tmp_path))
        assert (output.stored, output.pending) == (0, 10)
    (tmp_path / "date=2026-11-25").unlink()
    output.write(batch(10))
    assert (output.stored, output.pending) == (10, 10)
    output.close()
    assert read_folder(tmp_path) == list(range(20))


def test_writing_continues_when_the_folder_can_be_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    output = FileOutput(folder, ParquetFormat())
    folder.rmdir()
    folder.write_text("in the way")
    for _ in range(2):
        with pytest.raises(OSError, match="File exists"):
            output.write(batch(0))
    output.tick()
    assert balanced(output) == 0
    folder.unlink()
    output.write(batch(0))
    output.close()
    assert read_folder(folder) == list(range(10))


def test_flows_that_cannot_be_stored_at_the_end_stay_pending(tmp_path: Path) -> None:
    """The caller decides for how long it tries. The next process removes the temporary file."""
    output = FileOutput(tmp_path, ParquetFormat(), clock=Clock())
    output.write(batch(0))
    (tmp_path / "date=2026-11-25").write_text("in the way")
    for _ in range(2):
        with pytest.raises(OSError, match=r"Not a directory|File exists"):
            output.close()
    assert (output.stored, output.pending, output.lost) == (0, 10, {})
    assert files(tmp_path, ".parquet") == []
    (tmp_path / "date=2026-11-25").unlink()
    output.close()
    assert (output.stored, output.pending) == (10, 0)
