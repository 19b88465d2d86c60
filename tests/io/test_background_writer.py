"""`WriteBehind` writes a file in a background thread, with the results of writing directly."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowbuf.io.background_writer import WriteBehind
from flowbuf.io.output_file import OutputFile

resource = pytest.importorskip("resource")


def count_writers() -> int:
    """Return the number of background writers. Other tests may have left threads of other libraries."""
    return sum(thread.name.endswith("(_run)") for thread in threading.enumerate())


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size of files in bytes. A writer sees a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_everything_is_written_in_order(tmp_path: Path) -> None:
    pieces = [b"", b"a", b"b" * 100_000, b"", memoryview(b"c" * 1_000_000), b"d"]
    with OutputFile(tmp_path / "out") as file, WriteBehind(file) as behind:
        for piece in pieces:
            behind.write(piece)
    assert (tmp_path / "out").read_bytes() == b"".join(pieces)
    assert count_writers() == 0


def write_all(path: Path, pieces: Iterable[bytes], end: type[BaseException] | None = None) -> int:
    """Return the number of accepted pieces. Raise `end` after the last one."""
    accepted = 0
    with OutputFile(path) as file, WriteBehind(file) as behind:
        for piece in pieces:
            behind.write(piece)
            accepted += 1
        if end:
            raise end
    return accepted


@pytest.mark.parametrize("count", [3, 10])
def test_a_write_error_is_raised_by_the_next_call_or_at_the_end(tmp_path: Path, count: int) -> None:
    path = tmp_path / "out"
    left = iter([b"x" * 400_000] * count)
    with file_size_limit(1 << 20), pytest.raises(OSError, match=re.escape(str(path))) as caught:
        write_all(path, left)
    assert caught.value.errno == errno.EFBIG
    assert len(list(left)) == max(count - 4, 0), "the third piece did not fit, so writing the fourth raised"
    assert not os.listdir(tmp_path)
    assert count_writers() == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_failed_block_leaves_neither_file_nor_thread(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        write_all(tmp_path / "out", [b"x" * 100_000], error)
    assert not os.listdir(tmp_path)
    assert count_writers() == 0


def test_only_regular_files_are_written_in_a_thread(tmp_path: Path) -> None:
    for path, threads in ((Path(os.devnull), 1), (tmp_path / "out", 2)):
        with OutputFile(path) as file, WriteBehind(file) as behind:
            behind.write(b"x")
            assert count_writers() == threads - 1
