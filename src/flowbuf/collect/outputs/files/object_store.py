"""Store files as objects in S3-compatible storage.

A file is written to a local temporary file without a name, and uploaded when it is complete. While the
storage cannot be reached, the file stays on the local disk, and the upload is repeated. An object appears
when its upload is complete.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from flowbuf.collect.outputs.files.staged_file import StagedFile
from flowbuf.collect.outputs.files.storage import StoredFile
from flowbuf.errors import optional_import

__all__ = ["ObjectStore"]

UNFLUSHED = 1 << 25
"""Bytes of an upload that may wait in memory. pyarrow uploads in the background, without a limit."""


class ObjectStore:
    """A bucket, or a prefix in it.

    Args:
        uri: URI as `pyarrow.fs.FileSystem.from_uri` reads it, for example
            `s3://bucket/prefix?region=eu-west-1`, or with `endpoint_override=HOST:PORT&scheme=http`.
            Credentials are in the URI, in the environment, or in the files of the AWS command line.
        staging: Folder of the temporary file. Default: None, that of the `tempfile` module.
        counters: Receives the number of `incomplete_uploads`.
        on_problem: Function that receives a text for each problem that does not end the current operation.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: The URI is invalid.
    """

    patience = 32

    def __init__(
        self, uri: str, staging: str | None, counters: Counter[str], on_problem: Callable[[str], None]
    ) -> None:
        with optional_import("s3:// needs pyarrow", "flowbuf[arrow]"):
            import pyarrow
            from pyarrow import fs

        parts = urlsplit(uri)
        credentials, _, bucket = parts.netloc.rpartition("@")
        self.name = f"s3://{bucket}{parts.path}".rstrip("/")
        try:
            self._store, base = fs.FileSystem.from_uri(uri)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            text = _without(str(error), credentials)
            raise ValueError(f"{self.name}: the URI is invalid: {text}; write s3://BUCKET/PREFIX") from None
        self._base = base.rstrip("/")
        if not self._base:
            raise ValueError("the URI names no bucket; write s3://BUCKET/PREFIX")
        self._staging = staging
        self._counters = counters
        self._on_problem = on_problem

    def recover(self, is_temporary: Callable[[str], bool]) -> list[StoredFile]:
        """Check that the bucket exists. An ended process leaves no temporary objects.

        Raises:
            OSError: The storage cannot be reached, or has no such bucket.
        """
        from pyarrow import fs

        bucket = self._base.partition("/")[0]
        if self._store.get_file_info(bucket).type == fs.FileType.NotFound:
            raise FileNotFoundError(2, "the bucket does not exist", self.name)
        return []

    def create(self, name: str) -> StagedFile:
        """Open a temporary file on the local disk. Raise OSError if that is impossible."""
        with tempfile.TemporaryFile(dir=self._staging) as file:
            return StagedFile(os.dup(file.fileno()))

    def publish(self, file: StagedFile, path: str) -> None:
        """Upload a complete file.

        Raises:
            OSError: The upload failed. Its parts may stay in the storage until a lifecycle rule removes them.
            FileLost: The temporary file cannot be read.
        """
        # By default, pyarrow would compress a file again whose name ends in .gz or .zst.
        stream = self._store.open_output_stream(f"{self._base}/{path}", compression=None)
        try:
            _upload(file, stream)
        except OSError:  # the stream has failed, so that pyarrow does not complete the upload
            self._counters["incomplete_uploads"] += 1
            self._on_problem(
                f"{self.name}/{path}: the upload failed, and its parts may stay in the storage; "
                "set a lifecycle rule that aborts incomplete multipart uploads"
            )
            raise
        except BaseException:
            _keep(stream)
            raise
        file.close()

    def files(self) -> Iterator[StoredFile]:
        """Yield the objects in partitions. Raise OSError if they cannot be listed."""
        from pyarrow import fs

        selector = fs.FileSelector(self._base, recursive=True, allow_not_found=True)
        for info in self._store.get_file_info(selector):
            if info.type == fs.FileType.File:
                yield StoredFile(info.path.removeprefix(f"{self._base}/"), info.size)

    def delete(self, path: str) -> bool:
        """Delete an object. pyarrow keeps an empty partition as an object of 0 bytes."""
        try:
            self._store.delete_file(f"{self._base}/{path}")
        except FileNotFoundError:
            return False
        return True


def _upload(file: StagedFile, stream: Any) -> None:
    waiting = 0
    for chunk in file.chunks():
        stream.write(chunk)
        waiting += len(chunk)
        if waiting >= UNFLUSHED:
            stream.flush()
            waiting = 0
    stream.close()


def _keep(stream: Any) -> None:
    """Prevent that the stream is deleted, also at the exit: pyarrow would complete its upload."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))


def _without(text: str, credentials: str) -> str:
    """Return a text without the user and the password of a URI."""
    for secret in filter(None, {credentials, *credentials.split(":"), *unquote(credentials).split(":")}):
        text = text.replace(secret, "***")
    return text
