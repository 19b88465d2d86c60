"""The command `flowbuf`: load its subcommands on demand, and end all of them in the same way."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from flowbuf import __version__
from flowbuf.cli.output.failure import PIPE_CLOSED, Failure, describe_os_error
from flowbuf.cli.output.terminal import escape_line, guard_terminals
from flowbuf.cli.signals import HUNG_UP, INTERRUPTED, TERMINATED, held_signals
from flowbuf.errors import FlowbufError, did_you_mean

__all__ = ["COMMANDS", "main"]

# The summaries of the commands are repeated here, so that `flowbuf --help` does not import them.
COMMANDS = {
    "read": "Show the flows of captures and message streams.",
    "top": "Show the largest groups of flows.",
    "query": "Query captures, message streams and Parquet files with SQL.",
    "encode": "Encode captures as Protocol Buffers messages, or as an IPFIX file.",
    "collect": "Receive flows of live exporters, and write them.",
    "produce": "Send captures to Kafka as Protocol Buffers messages or JSON.",
    "consume": "Read flows from Kafka.",
    "convert": "Convert messages between Protocol Buffers, JSON lines and Parquet.",
    "inspect": "Summarize captures: exporters, templates, sampling, losses.",
    "sample": "Write a small capture of a real exporter, to try commands.",
    "generate": "Write a capture of synthetic, valid flow traffic.",
    "replay": "Send the datagrams of captures to a collector.",
    "schema": "Show, check and compare schemas.",
    "bench": "Measure the decoding speed on this machine.",
}
_MODULES = {"convert": "objects.convert", "sample": "generate"}
"""Modules of commands. Other commands have a module of the same name."""


class _Commands(click.Group):
    """Import commands on demand. Convert errors and signals to one line of text and an exit status."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in COMMANDS and not name.startswith("-"):
            fix = did_you_mean(name, COMMANDS) or "flowbuf --help lists the commands"
            context.fail(f"no command {escape_line(name)!r}; {fix}")
        return super().resolve_command(context, arguments)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        with held_signals():
            command: click.Command = getattr(
                importlib.import_module(f"flowbuf.cli.{_MODULES.get(name, name)}"), name
            )
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *arguments: Any, **options: Any) -> Any:
        if sys.stderr is None:  # stderr is closed: discard its output
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        guard_terminals()
        gc.freeze()  # imported modules stay: collecting them repeatedly takes 5 % of a short run
        return super().main(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        try:
            with _raising_terminated():
                return super().invoke(context)
        except click.NoSuchOption as error:
            raise _with_similar_names(error) from None
        except KeyboardInterrupt:
            _forget_stdout()
            context.exit(INTERRUPTED)
        except _Terminated as end:
            _forget_stdout()
            context.exit(end.status)
        except OSError as error:
            _flush_stdout()
            if error.errno == errno.EPIPE:
                context.exit(PIPE_CLOSED)
            raise Failure(describe_os_error(error)) from error
        except FlowbufError as error:
            raise Failure(str(error)) from error


def _with_similar_names(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the error with only those suggestions whose words are similar, and without --help."""
    import difflib  # imported late, because most options are correct

    word = error.option_name.strip("-")
    names = [name for name in error.possibilities or () if name != "--help"]
    similar = [name for name in names if difflib.get_close_matches(word, [name.strip("-")])]
    return click.NoSuchOption(error.option_name, possibilities=similar, ctx=error.ctx)


class _Terminated(BaseException):
    """SIGTERM or SIGHUP has arrived. `status` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def _raising_terminated() -> Iterator[None]:
    """Raise an exception at SIGTERM and SIGHUP inside the block, so that no partial file stays.

    Ignored signals stay ignored.
    """

    def terminate(number: int, frame: Any) -> None:
        raise _Terminated(HUNG_UP if number == signal.SIGHUP else TERMINATED)

    caught = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in caught:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def _flush_stdout() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _forget_stdout()


def _forget_stdout() -> None:
    """Redirect standard output to the null device.

    Its reader is gone or does not read. Otherwise the interpreter would block at its end, or print an error.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Decode sFlow, NetFlow and IPFIX into Protocol Buffers messages and Arrow columns.

    \b
    Examples:
      flowbuf read capture.pcap
      flowbuf encode capture.pcap -o flows.pb
      flowbuf inspect capture.pcap
    """
