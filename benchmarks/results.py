"""Results in JSON, printed as text: what the commands that do so have in common."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["print_result"]


def print_result(
    name: str, about: str, describe: Callable[[Any], Iterable[str]], arguments: Sequence[str] | None
) -> None:
    """The command `name RESULT.json`: prints the lines that `describe` makes of the file. Where that cannot
    be read, or `describe` raises ValueError, it says so and ends with status 1.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    path = parser.parse_args(arguments).result
    try:
        lines = list(describe(json.loads(path.read_text())))
    except (OSError, ValueError) as error:
        sys.exit(f"{name}: {path}: {error}")
    if lines:
        print("\n".join(lines))
