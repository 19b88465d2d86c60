"""Flows of a spool are stored once, even if the process is killed."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from flowbuf.collect.outputs.files.file_formats import MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from tests.collect.outputs.files.batches import FLOWS, Clock, balanced, batch, files, read_folder, visible
from tests.collect.outputs.files.child import FLOWS as BATCH
from tests.collect.outputs.files.child import new_output
from tests.collect.outputs.files.test_full_disk import ROOT

OPTIONS = FileOptions(spool="ab12")


def test_the_last_stored_entry_is_known_after_a_restart(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat(), OPTIONS, clock=Clock())
    assert output.stored_number is None
    for number in range(40, 43):
        output.write(batch(10 * number), number)
    assert output.stored_number is None
    output.close()
    assert output.stored_number == 42
    assert next(visible(tmp_path)).name.endswith("-ab12-42.parquet")
    assert FileOutput(tmp_path, ParquetFormat(), OPTIONS).stored_number == 42
    for spool in ("", "other"):
        assert FileOutput(tmp_path, ParquetFormat(), FileOptions(spool=spool)).stored_number is None


def test_stored_entries_are_not_written_again(tmp_path: Path) -> None:
    first = FileOutput(tmp_path, ParquetFormat(), OPTIONS)
    first.write(batch(0), 0)
    first.close()
    second = FileOutput(tmp_path, ParquetFormat(), OPTIONS)
    for number in range(3):
        second.write(batch(10 * number), number)
    second.write(batch(30))  # not from the spool
    assert (second.stored, second.pending, second.counters["duplicates"]) == (10, 30, 10)
    second.close()
    assert (second.stored, balanced(second)) == (40, 40)
    assert sorted(read_folder(tmp_path)) == list(range(40))


def test_a_file_without_spool_entries_has_no_number(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, MessageFormat(FLOWS), OPTIONS)
    output.write(batch(0))
    output.close()
    assert output.stored_number is None
    assert "ab12" not in next(visible(tmp_path)).name


def test_a_lost_file_does_not_count_as_stored(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat(), OPTIONS)
    output.write(batch(0), 0)
    for name in files(tmp_path):
        (tmp_path / name).unlink()
    output.tick()
    assert output.lost == {"file_removed": 10}
    assert output.stored_number is None
    output.write(batch(0), 0)
    output.close()
    assert output.stored_number == 0
    assert read_folder(tmp_path) == list(range(10))


def test_a_proto_without_its_file_is_not_a_stored_file(tmp_path: Path) -> None:
    """The process was killed between the .proto and the file."""
    output = FileOutput(tmp_path, MessageFormat(FLOWS), OPTIONS)
    output.write(batch(0), 7)
    output.close()
    next(visible(tmp_path)).unlink()
    assert len(files(tmp_path, ".proto")) == 1
    assert FileOutput(tmp_path, MessageFormat(FLOWS), OPTIONS).stored_number is None


@pytest.mark.parametrize(
    ("suffix", "seen"),
    [
        (".parquet", 3),
        pytest.param(".parquet", 12, marks=pytest.mark.slow),
        pytest.param(".pb", 5, marks=pytest.mark.slow),
        pytest.param(".pb.zst", 7, marks=pytest.mark.slow),
    ],
)
def test_a_killed_process_leaves_complete_files_and_no_duplicates(
    tmp_path: Path, suffix: str, seen: int
) -> None:
    command = [sys.executable, "-m", "tests.collect.outputs.files.child", "write_forever", tmp_path, suffix]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        reported = [0]
        while len(set(reported)) <= seen:
            reported.append(int(process.stdout.readline()))
        process.kill()
        reported += map(int, process.stdout.read().splitlines())
    stored = read_folder(tmp_path)
    assert stored == list(range(len(stored)))
    largest_file = max(later - earlier for earlier, later in pairwise(reported))
    assert reported[-1] <= len(stored) <= reported[-1] + largest_file
    output = new_output(str(tmp_path), suffix, OPTIONS)
    assert output.stored_number == len(stored) // BATCH - 1
    assert output.counters["recovered_files"] <= 2  # the file and its .proto
    assert files(tmp_path, ".tmp") == []
    for number in range(len(stored) // BATCH + 3):
        output.write(batch(number * BATCH, BATCH), number)
    output.close()
    assert sorted(read_folder(tmp_path)) == list(range(len(stored) + 3 * BATCH))
    assert output.stored == balanced(output) == len(stored) + 3 * BATCH


def test_numbers_may_begin_anywhere(tmp_path: Path) -> None:
    output = FileOutput(tmp_path, ParquetFormat(), OPTIONS)
    for number in (0, 10**17):
        output.write(batch(number % 7), number)
    output.close()
    assert FileOutput(tmp_path, ParquetFormat(), OPTIONS).stored_number == 10**17
