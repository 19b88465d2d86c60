"""Write output in a background thread while the next bytes are produced."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from types import TracebackType

from flowbuf.io.output_file import OutputFile

__all__ = ["WriteBehind"]


class WriteBehind:
    """Write to an open `OutputFile` in a thread, one piece behind.

    A context manager; at the end of its block, everything is written.

    `write` returns while its piece is being written, and first waits for the previous piece. Only a regular
    file is written in a thread. Writes to a pipe or a device can block without limit, and a waiting thread
    cannot be interrupted.

    Raises:
        OSError: A write failed. `write` raises the error of the previous piece, the end of the block that of
            the last one.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._pieces: SimpleQueue[memoryview | None] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._pending = False
        self._thread = threading.Thread(target=self._run, daemon=True) if file.is_regular else None

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. The buffer must not change until the next call or the end of the block."""
        if not self._thread:
            self._file.write(data)
            return
        self._wait()
        self._pieces.put(memoryview(data))
        self._pending = True

    def _wait(self) -> None:
        """Wait until the last piece is written."""
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
