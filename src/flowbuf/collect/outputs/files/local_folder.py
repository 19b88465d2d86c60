"""Store files in a local folder.

Temporary files are in the folder itself, as `.NAME.tmp`: programs that read data sets ignore such names. Each
is locked with flock while its process lives, so that other collectors leave it alone. A complete file is
renamed into its partition.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from flowbuf.collect.outputs.files.staged_file import FileLost, StagedFile
from flowbuf.collect.outputs.files.storage import StoredFile
from flowbuf.io.output_file import sync_folder

__all__ = ["LocalFolder"]


class LocalFolder:
    """A local folder. It is created when it is missing.

    Args:
        folder: Path of the folder.
        on_problem: Function that receives a text for each problem that does not end the current operation.
    """

    patience = 0

    def __init__(self, folder: str, on_problem: Callable[[str], None]) -> None:
        self.name = folder
        self._on_problem = on_problem

    def recover(self, is_temporary: Callable[[str], bool]) -> list[StoredFile]:
        """Create the folder, and remove temporary files without a process.

        Raises:
            OSError: The folder cannot be created or read.
        """
        os.makedirs(self.name, exist_ok=True)
        names = [entry.name for entry in self._entries("") if is_temporary(entry.name)]
        return [file for name in sorted(names) if (file := self._remove_unlocked(name))]

    def _remove_unlocked(self, name: str) -> StoredFile | None:
        """Remove a temporary file unless a process holds its lock."""
        path = os.path.join(self.name, name)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(descriptor).st_size
            os.unlink(path)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return StoredFile(name, size)

    def create(self, name: str) -> StagedFile:
        """Open a temporary file for a file of this name. Raise OSError if that is impossible."""
        os.makedirs(self.name, exist_ok=True)
        path = os.path.join(self.name, f".{name}.tmp")
        while True:
            file = self._open(path)
            try:
                file.check()
            except FileLost:  # another process took it for a remainder, before it was locked
                file.close()
            else:
                return file

    def _open(self, path: str) -> StagedFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # a file system without locks: its remainders are not removed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return StagedFile(descriptor, path)

    def publish(self, file: StagedFile, path: str) -> None:
        """Rename a complete and synced file into its partition.

        Raises:
            OSError: The file cannot be renamed now.
            FileLost: The temporary file was removed.
        """
        target = os.path.join(self.name, path)
        partition = os.path.dirname(target)
        self._rename(file.path, target)
        file.close()
        try:
            for folder in (partition, os.path.dirname(partition), self.name):
                sync_folder(folder)
        except OSError as error:
            self._on_problem(f"{target}: its folder cannot be synced: {error.strerror or error}")

    def _rename(self, temporary: str, target: str) -> None:
        """Rename a file. Another collector may remove the empty partition at the same time."""
        for attempt in range(3):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                os.rename(temporary, target)
            except FileNotFoundError:
                if not os.path.lexists(temporary):
                    raise FileLost("file_removed", "the file was removed while it was open") from None
                if attempt == 2:
                    raise
            else:
                return

    def files(self) -> Iterator[StoredFile]:
        """Yield the files in partitions. Symbolic links are ignored."""
        for date in self._folders("", "date="):
            for hour in self._folders(date, "hour="):
                for entry in self._entries(hour):
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            size = entry.stat(follow_symlinks=False).st_size
                            yield StoredFile(f"{hour}/{entry.name}", size)

    def _folders(self, folder: str, start: str) -> list[str]:
        entries = (entry for entry in self._entries(folder) if entry.name.startswith(start))
        names = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return sorted(os.path.join(folder, name) for name in names)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder. Another process may have removed it."""
        try:
            with os.scandir(os.path.join(self.name, folder)) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> bool:
        """Delete a file, and the partition if that is empty then."""
        target = os.path.join(self.name, path)
        try:
            os.unlink(target)
        except FileNotFoundError:
            return False
        hour = os.path.dirname(target)
        for folder in (hour, os.path.dirname(hour)):
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    self._on_problem(f"{folder}: cannot be removed: {error.strerror}")
                break
        return True
