"""The command `flowbuf`: its subcommands, loaded when they are called, and how all of them end."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from typing import Any

import click

from flowbuf.cli.options import UsageProblem
from flowbuf.cli.report import INTERRUPTED, PIPE_CLOSED, Failure
from flowbuf.errors import FlowbufError

__all__ = ["COMMANDS", "main"]

# Said here too, so that `flowbuf --help` need not import them.
COMMANDS = {
    "read": "Show the flows of captures and of message streams.",
    "encode": "Turn captures into Protocol Buffers messages.",
    "inspect": "Say what is in a capture: exporters, templates, sampling, errors.",
    "generate": "Write a capture of made-up but valid flow traffic.",
    "schema": "Show, check and compare schemas.",
}


class _Commands(click.Group):
    """Imports a command when it is asked for, and turns what can end any of them early into a line and a status."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"flowbuf.cli.{name}"), name)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            context.exit(INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:
                _forget_stdout()
                context.exit(PIPE_CLOSED)
            raise UsageProblem(_describe(error)) from error
        except FlowbufError as error:
            raise Failure(str(error)) from error


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _forget_stdout() -> None:
    """Whoever read it is gone; without this, the interpreter complains when it flushes at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flowbuf", message="%(prog)s %(version)s")
def main() -> None:
    """sFlow, NetFlow and IPFIX straight into Protocol Buffers.

    \b
    Examples:
      flowbuf read capture.pcap
      flowbuf encode capture.pcap -o flows.pb
      flowbuf inspect capture.pcap
    """
