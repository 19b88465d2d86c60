"""`flowbuf generate` and `flowbuf sample`: write captures of synthetic and of recorded flow traffic."""

from __future__ import annotations

import importlib.resources
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flowbuf import _core
from flowbuf.cli.options import Choice, UsageProblem, WholeNumber
from flowbuf.cli.output.streams import check_overwrite, force_option, open_output, refuse_terminal
from flowbuf.cli.output.terminal import escape_line, terminal_of

__all__ = ["generate", "sample"]

PROTOCOLS = ("netflow1", "netflow5", "netflow7", "netflow9", "ipfix", "sflow", "mixed")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _nanoseconds(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Convert an RFC 3339 time to nanoseconds since 1970."""
    plain = re.sub(r"\.\d+", lambda fraction: f"{fraction[0]:0<7.7}", re.sub("[zZ]$", "+00:00", text))
    try:
        time = datetime.fromisoformat(plain)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time such as 2025-01-01T00:00:00Z") from error
    if time.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; write it as 2025-01-01T00:00:00Z")
    nanoseconds = (time - EPOCH) // timedelta(microseconds=1) * 1000
    if not 0 <= nanoseconds < 2**64:
        raise click.BadParameter(f"{text!r} is not between 2000 and 2106")
    return nanoseconds


@click.command()
@click.option(
    "--protocol",
    required=True,
    type=Choice(PROTOCOLS),
    help="Generate this protocol; mixed: v5, v9, IPFIX and sFlow in turn.",
)
@click.option(
    "--flows", required=True, type=WholeNumber(0, 2**64 - 1), metavar="N", help="Write N flow records."
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="CAPTURE",
    help="Write to this file: .pcap, .pcap.gz, .pcap.zst; - is stdout.",
)
@force_option
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=WholeNumber(0, 2**64 - 1),
    metavar="N",
    help="Generate different traffic for each seed.",
)
@click.option(
    "--exporters",
    type=WholeNumber(1, 65536),
    metavar="N",
    help="Generate the traffic of N exporters.  [default: 1; mixed: 4]",
)
@click.option(
    "--sampling",
    default=1000,
    show_default=True,
    type=WholeNumber(1, 2**32 - 1),
    metavar="N",
    help="Sample one packet in N.",
)
@click.option(
    "--start",
    default="2025-01-01T00:00:00Z",
    show_default=True,
    callback=_nanoseconds,
    metavar="TIME",
    help="Send the first datagram at this time (RFC 3339).",
)
def generate(
    protocol: str,
    flows: int,
    output: str,
    force: bool,
    seed: int,
    exporters: int | None,
    sampling: int,
    start: int,
) -> None:
    """Write a capture of synthetic, valid flow traffic.

    The same options give the same file, byte for byte, on every machine. 10000 flows are one second of
    traffic. The file appears whole or not at all.

    \b
    Examples:
      flowbuf generate --protocol ipfix --flows 1000000 -o ipfix.pcap
      flowbuf generate --protocol netflow9 --flows 5000 --exporters 20 --seed 7 -o netflow9.pcap.zst
      flowbuf generate --protocol sflow --flows 100 --sampling 2048 -o - | tshark -r -
    """
    check_overwrite(force, output)
    if exporters is None:
        exporters = 4 if protocol == "mixed" else 1
    try:
        pieces = _core.generate(
            protocol=protocol,
            flows=flows,
            seed=seed,
            exporters=exporters,
            sampling_rate=sampling,
            start=start,
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    with open_output(output) as file:
        refuse_terminal(file, "a capture")
        with _progress(flows) as show:
            for piece in pieces:
                file.write(piece)
                show(pieces.flows_written)


@click.command()
@click.option(
    "-o",
    "--output",
    default="sample.pcap",
    show_default=True,
    metavar="CAPTURE",
    help="Write to this file: .pcap, .pcap.gz, .pcap.zst; - is stdout.",
)
@force_option
def sample(output: str, force: bool) -> None:
    """Write a small capture of a real exporter, to try commands.

    softflowd exported 478 flows of generated packets as IPFIX, without sampling. The addresses are private or
    reserved for documentation.

    \b
    Examples:
      flowbuf sample
      flowbuf sample -o capture.pcap
      flowbuf sample -o sample.pcap.gz --force
    """
    check_overwrite(force, output)
    content = importlib.resources.files("flowbuf").joinpath("data/sample.pcap").read_bytes()
    with open_output(output) as file:
        refuse_terminal(file, "a capture")
        file.write(content)
    if output != "-":
        name = escape_line(output)
        print(f"flowbuf: {name}: 478 flows; next, try flowbuf inspect {name}", file=sys.stderr)


@contextmanager
def _progress(flows: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal.

    Yield a function that receives the number of written flows.
    """
    console = Console(file=terminal_of(sys.stderr))
    columns = (TextColumn("flows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("flows", total=flows)
        yield lambda done: progress.update(task, completed=done)
