"""Decoders never read past the end of a message.

Messages end at the end of readable memory, so that any read past it is a crash.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import guarded

ROOT = Path(__file__).parents[2]


# The command calls the reader of files, and takes several times as long.
SLOW = {"command": [pytest.mark.slow]}


@pytest.mark.parametrize("way", [pytest.param(way, marks=SLOW.get(way, [])) for way in guarded.WAYS])
def test_a_message_truncated_inside_a_field_is_not_read_past_its_end(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.guarded", way, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"


def test_a_read_past_the_end_is_a_crash() -> None:
    """This proves that the test above can fail."""
    read = "ctypes.string_at(ctypes.addressof(ctypes.c_char.from_buffer(guarded.guarded(5))), 6)"
    code = f"import ctypes; from tests.support import guarded; {read}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    # AddressSanitizer reports the signal and exits.
    assert done.returncode < 0 or b"AddressSanitizer: SEGV" in done.stderr
