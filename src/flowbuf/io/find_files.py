"""Find the files of a path, a folder or a pattern."""

from __future__ import annotations

import errno
import glob
import os

__all__ = ["find_files"]


def find_files(path: str) -> list[str]:
    """Return the files that a path names, sorted.

    A folder stands for the files directly in it. In a pattern, `*`, `?` and `[…]` match parts of a name, and
    `**` any folders. Names that begin with a dot or an underscore are left out, unless the path names the
    file itself. So are pipes, sockets and dangling links.

    Raises:
        OSError: There is no such file, or the folder cannot be read.
    """
    if os.path.isdir(path):
        found = sorted(os.path.join(path, name) for name in os.listdir(path))
    elif not glob.has_magic(path) or os.path.lexists(path):
        os.stat(path)  # raises OSError if the file is missing
        return [path]
    else:
        found = sorted(glob.glob(path, recursive=True))
    files = [
        file for file in found if os.path.isfile(file) and not os.path.basename(file).startswith((".", "_"))
    ]
    if not files:
        reason = "the folder has no files" if os.path.isdir(path) else "no file matches this pattern"
        raise FileNotFoundError(errno.ENOENT, reason, path)
    return files
