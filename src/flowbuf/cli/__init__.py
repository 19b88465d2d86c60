"""The command line: parse the arguments, call the library, print the result."""

import atexit
import contextlib
import os
import sys
import threading

from flowbuf.cli.signals import HUNG_UP, INTERRUPTED, TERMINATED, held_signals

__all__ = ["end_with_threads", "run"]


def run() -> None:
    """Run the command `flowbuf`. Ctrl-C during the imports ends it with status 130 and no output."""
    status = 1  # of an unexpected exception

    def end() -> None:
        end_with_threads(status)

    atexit.register(end)  # before any other function, so that it is called after them
    try:
        with held_signals():
            from flowbuf.cli.main import main
        main(prog_name="flowbuf")
    except KeyboardInterrupt:
        status = INTERRUPTED
        sys.exit(status)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
        raise


def end_with_threads(status: int) -> None:
    """End the process at once if threads still run that nobody waits for.

    After a second Ctrl-C, an output of the collector may still write. The end of the interpreter ends each
    thread that returns to Python. In the C++ code of pyarrow and duckdb, this aborts the process.
    """
    if not any(thread.daemon for thread in threading.enumerate()):
        return
    if status not in (HUNG_UP, INTERRUPTED, TERMINATED):  # which discard standard output
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
    os._exit(status)
