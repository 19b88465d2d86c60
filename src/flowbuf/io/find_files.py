"""Find the files of a path, a folder or a pattern."""

from __future__ import annotations

import glob
import os

__all__ = ["find_files"]


def find_files(path: str) -> list[str]:
    """Return the files that a path names, sorted.

    A folder stands for the files directly in it. In a pattern, `*`, `?` and `[…]` match parts of a name, and
    `**` any folders. Names that begin with a dot or an underscore are left out, unless the path names the
    file itself. So are pipes, sockets and dangling links.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if os.path.lexists(path) and not os.path.isdir(path):
        return [path]
    pattern = os.path.join(glob.escape(path), "*") if os.path.isdir(path) else path
    found = sorted(glob.glob(pattern, recursive=True))
    files = [
        file for file in found if os.path.isfile(file) and not os.path.basename(file).startswith((".", "_"))
    ]
    if not files:
        raise FileNotFoundError(f"{path}: no file has this name or matches this pattern")
    return files
