"""Common part of the commands that print results in JSON as text."""

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
    """Run the command `name RESULT.json`, which prints the lines of `describe` for the file.

    Exit with status 1 if the file cannot be read, or if `describe` raises ValueError.
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
