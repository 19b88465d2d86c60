"""Decoders never read past the end of a message.

Messages end at the end of readable memory, so that any read past it is a crash.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import guarded
from tests.support.cases import slow

ROOT = Path(__file__).parents[2]


SLOW = ("file", "command")


@pytest.mark.parametrize("way", [*(way for way in guarded.WAYS if way not in SLOW), *slow(*SLOW)])
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
