"""Writing in a thread of its own, while the next octets are made."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from types import TracebackType

from flowbuf.io.output_file import OutputFile

__all__ = ["WriteBehind"]


class WriteBehind:
    """Writes to an open `OutputFile`, one piece behind: `write` returns while its piece is being written, and waits for
    the piece before. A context manager; a block that ends well has written everything.

    Only a regular file is written so. Others (a pipe, a device) may take as long as they like, and nothing could
    interrupt a thread that waits for them.

    `write` and the end of the block raise OSError, `write` that of the piece before.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._pieces: SimpleQueue[memoryview | None] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._pending = False
        self._thread = threading.Thread(target=self._run, daemon=True) if file.is_regular else None

    def write(self, data: bytes | memoryview) -> None:
        """Appends octets, which must stay as they are until the next call or the end."""
        if not self._thread:
            self._file.write(data)
            return
        self._wait()
        self._pieces.put(memoryview(data))
        self._pending = True

    def _wait(self) -> None:
        """Until there is nothing to write."""
        if self._pending:
            error = self._results.get()
            self._pending = False
            if error:
                raise error

    def _run(self) -> None:
        while (piece := self._pieces.get()) is not None:
            try:
                with piece:
                    self._file.write(piece)
            except Exception as error:
                self._results.put(error)
            else:
                self._results.put(None)

    def __enter__(self) -> WriteBehind:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._thread:
            return
        self._pieces.put(None)
        self._thread.join()
        if kind is None:
            self._wait()
