"""The command line: parse the arguments, call the library, print the result."""

import signal
import sys

from flowbuf.cli.signals import held_signals

__all__ = ["run"]


def run() -> None:
    """Run the command `flowbuf`. Ctrl-C during the imports ends it with status 130 and no output."""
    try:
        with held_signals():
            from flowbuf.cli.main import main
        main(prog_name="flowbuf")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
