"""The interface of places that store files, and the choice of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

from flowbuf.collect.outputs.files.staged_file import StagedFile

__all__ = ["Storage", "StoredFile", "split_place"]


@dataclass(frozen=True)
class StoredFile:
    """A complete file.

    Attributes:
        path: Path below the place, with "/" between names.
        size: Size in bytes.
    """

    path: str
    size: int


class Storage(Protocol):
    """A place that stores files. They appear whole or not at all.

    Attributes:
        name: Name of the place for messages, without secrets.
        patience: Maximum number of seconds from a failed attempt to write to the next one.
    """

    name: str
    patience: int

    def recover(self, is_temporary: Callable[[str], bool]) -> list[StoredFile]:
        """Prepare the place, and remove temporary files of processes that ended without removing them.

        Args:
            is_temporary: Function that recognizes the name of a temporary file.

        Returns:
            list[StoredFile]: The removed files.

        Raises:
            OSError: The place cannot be used.
        """
        ...

    def create(self, name: str) -> StagedFile:
        """Open a temporary file for a file of this name. Raise OSError if that is impossible."""
        ...

    def publish(self, file: StagedFile, path: str) -> None:
        """Make a complete and synced file visible as `path`, and close it.

        Raises:
            OSError: The place cannot take the file now. It may be published again.
            FileLost: The content of the file is lost.
        """
        ...

    def files(self) -> Iterator[StoredFile]:
        """Yield the files in partitions. Raise OSError if the place cannot be read."""
        ...

    def delete(self, path: str) -> bool:
        """Delete a file, and its partition if that is empty then.

        Returns:
            bool: False if the file did not exist.

        Raises:
            OSError: The file cannot be deleted.
        """
        ...


def split_place(place: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the scheme of a place and its path or URI.

    Args:
        place: Path of a folder, `file:///PATH`, or `s3://BUCKET/PREFIX`.

    Raises:
        ValueError: The scheme is unknown, or the URI is invalid.
    """
    text = os.fspath(place)
    if "://" not in text:
        return "file", text
    try:
        parts = urlsplit(text)
    except ValueError:  # its text may have the password
        raise ValueError("the URI is invalid; write s3://BUCKET/PREFIX") from None
    if parts.scheme == "file" and not parts.netloc:
        return "file", unquote(parts.path)
    if parts.scheme == "s3":
        return "s3", text
    raise ValueError(f"{parts.scheme}://… is not supported; name a folder, or an s3:// URI")
