"""A full disk loses no flows. A file that its disk cannot hold is lost and counted."""

from __future__ import annotations

import errno
import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collect.outputs.files.child import FLOWS
from tests.support.cases import slow

ROOT = Path(__file__).parents[4]
SUFFIXES = pytest.mark.parametrize("suffix", [".parquet", *slow(".pb", ".pb.zst")])


def run(program: str, *arguments: object, before: tuple[str, ...] = ()) -> list[Any]:
    """Run a program of `child.py`, and return its reports."""
    command = [*before, sys.executable, "-m", "tests.collect.outputs.files.child", program]
    done = subprocess.run(
        [*command, *map(str, arguments)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@functools.cache
def find_mount() -> tuple[str, ...]:
    """Return a command that runs another one in a name space with a file system of 1 MiB on a folder."""
    mount = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    for rights in ((), ("--user", "--map-root-user")):
        command = ("unshare", *rights, "--mount", "sh", "-c", mount)
        if shutil.which("unshare") and not subprocess.run([*command, "/mnt", "true"]).returncode:
            return command
    return ()


def run_on_small_disk(program: str, folder: Path, suffix: str) -> list[Any]:
    mount = find_mount()
    if not mount:
        pytest.skip("unshare cannot mount a file system here")
    return run(program, folder, suffix, before=(*mount, str(folder)))


def numbers(batches: int) -> list[int]:
    return list(range(batches * FLOWS))


@SUFFIXES
def test_a_full_disk_loses_no_flows(tmp_path: Path, suffix: str) -> None:
    full, again, free = run_on_small_disk("fill_disk", tmp_path, suffix)
    written = full["pending"] // FLOWS
    assert written > 20
    for state in (full, again):
        assert state["errno"] == errno.ENOSPC
        assert (state["pending"], state["balanced"]) == (written * FLOWS, written * FLOWS)
        assert state["visible"] == []
    assert (free["pending"], free["lost"]) == (0, {})
    assert free["visible"] == numbers(written + 2)
    assert free["stored"] == len(free["visible"])


@SUFFIXES
@pytest.mark.slow
def test_an_output_can_be_closed_when_the_disk_is_free_again(tmp_path: Path, suffix: str) -> None:
    full, again, closed = run_on_small_disk("close_full", tmp_path, suffix)
    assert (full["errno"], again["errno"]) == (errno.ENOSPC, errno.ENOSPC)
    assert again["pending"] == again["balanced"] == full["pending"]
    assert (closed["stored"], closed["pending"], closed["lost"]) == (full["pending"], 0, {})
    assert closed["visible"] == list(range(closed["stored"]))


@SUFFIXES
def test_a_file_that_is_too_large_is_lost_and_writing_continues(tmp_path: Path, suffix: str) -> None:
    limited, raised = run("limit_size", tmp_path, suffix)
    lost = limited["lost"]["output_error"]
    assert (limited["stored"], limited["pending"], limited["balanced"]) == (0, 0, lost)
    assert limited["visible"] == []
    assert raised["lost"] == limited["lost"]
    assert raised["visible"] == list(range(lost, lost + FLOWS))
    assert (raised["stored"], raised["balanced"]) == (FLOWS, lost + FLOWS)


def test_a_folder_without_write_permission_is_a_clear_error(tmp_path: Path) -> None:
    """The file system is read-only, because permissions do not apply to root."""
    mount = find_mount()
    if not mount:
        pytest.skip("unshare cannot mount a file system here")
    read_only = [*mount[:-1], mount[-1].replace("size=1m", "ro")]
    code = "import sys; from tests.collect.outputs.files.child import new_output; new_output(*sys.argv[1:])"
    done = subprocess.run(
        [*read_only, str(tmp_path), sys.executable, "-c", code, str(tmp_path), ".parquet"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    problem = "cannot be written: Read-only file system; correct that, or name another place"
    assert done.stderr.endswith(f"OSError: [Errno {errno.EROFS}] {problem}: '{tmp_path}'\n")


def test_the_retention_skips_files_that_cannot_be_deleted(tmp_path: Path) -> None:
    """Others that exceed the limit are deleted, and the log has one message."""
    state, reports = run_on_small_disk("keep_oldest", tmp_path, ".parquet")
    assert state["visible"] == [*range(4 * FLOWS), *range(8 * FLOWS, 10 * FLOWS)]
    assert reports == [f"{tmp_path}: old files cannot be deleted: Device or resource busy"]
