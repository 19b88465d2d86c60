"""`flowbuf replay`: send the datagrams of captures to a collector."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import click

from flowbuf._core import Recording
from flowbuf.cli.inputs import check_inputs, expand_inputs
from flowbuf.cli.options import UsageProblem, WholeNumber
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.progress import show_steps
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import print_text
from flowbuf.cli.signals import INTERRUPTED, stop_signals
from flowbuf.collect.destination import Destination, connected_sockets
from flowbuf.collect.replay import UNSENT, Replay, ReplayOptions, record_capture
from flowbuf.errors import CaptureError
from flowbuf.io.capture import CaptureReader

__all__ = ["replay"]

LEAST_DELAY = 0.1
"""Delay of the schedule in seconds that is reported. Shorter ones are usual."""


def _destination(context: click.Context, parameter: click.Parameter, text: str) -> Destination:
    try:
        return Destination.parse(text)
    except ValueError as error:
        raise UsageProblem(f"--to: {error}") from error


def _positive(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise UsageProblem(f"{parameter.opts[0]} is {value:g}; give a number above 0")
    return value


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option(
    "--to",
    "destination",
    required=True,
    callback=_destination,
    metavar="HOST:PORT",
    help="Send to this UDP port; IPv6 addresses are in brackets: [2001:db8::1]:2055.",
)
@click.option(
    "--rate", type=WholeNumber(1, 10**9), metavar="N", help="Send N datagrams per second, evenly spaced."
)
@click.option(
    "--speed",
    type=float,
    callback=_positive,
    metavar="X",
    help="Send at X times the speed of the capture.  [default: 1]",
)
@click.option("--top-speed", is_flag=True, help="Send as fast as possible.")
@click.option("--loop", is_flag=True, help="Repeat until Ctrl-C, SIGTERM, --duration or -n ends it.")
@click.option("--renumber", is_flag=True, help="Rewrite sequence numbers and uptimes; see above.")
@click.option("--now", is_flag=True, help="Write the time of sending as the time of export; see above.")
@click.option(
    "--duration", type=float, callback=_positive, metavar="SECONDS", help="Stop after this many seconds."
)
@click.option(
    "-n", "--limit", type=WholeNumber(1, 2**32), metavar="DATAGRAMS", help="Stop after N datagrams."
)
@click.option("--port", type=WholeNumber(1, 65535), metavar="N", help="Send only datagrams to this UDP port.")
def replay(
    captures: tuple[str, ...],
    destination: Destination,
    rate: int | None,
    speed: float | None,
    top_speed: bool,
    loop: bool,
    renumber: bool,
    now: bool,
    duration: float | None,
    limit: int | None,
    port: int | None,
) -> None:
    """Send the datagrams of captures to a collector.

    The payloads of all UDP datagrams are sent in order. They are read completely before the first one is
    sent, and kept in memory. Each source of a capture (address and port) has a source port of its own.

    CAPTURE is pcap, pcapng, an IPFIX file or a file of nfcapd, plain, gzip or zstd; - is stdin. Several
    captures are sent one after another.

    With --renumber, sequence numbers of NetFlow v5, v7, v9, IPFIX and sFlow, and of sFlow samples, continue
    without a gap, also from one repetition to the next. Uptimes never go back. The time in headers of NetFlow
    moves with the uptime, so the times of flows stay.

    With --now, the headers of NetFlow and IPFIX have the time of sending. Uptimes stay, so times of NetFlow
    flows that are stated as uptimes move to the present. With --renumber, uptimes move in the header and in
    the records. Timestamps in records are not changed.

    At the end, stdout shows the counts. The exit status is 1 if datagrams were not sent, or met a closed
    port.

    \b
    Examples:
      flowbuf replay capture.pcap --to 127.0.0.1:2055
      flowbuf replay capture.pcap --to '[::1]:6343' --speed 10
      flowbuf replay capture.pcap --to collector.example.net:2055 --rate 5000 --loop --renumber --now
      flowbuf replay capture.pcap --to 127.0.0.1:2055 --top-speed --loop --renumber --duration 60
      flowbuf replay *.pcap --to 127.0.0.1:2055 --port 2055 -n 1000
    """
    options = ReplayOptions(
        rate=rate,
        speed=_choose_speed(rate, speed, top_speed),
        loop=loop,
        renumber=renumber,
        now=now,
        duration=duration,
        limit=limit,
    )
    captures = expand_inputs(captures)
    check_inputs(captures)
    report = Report()
    recording = _record(captures, port, limit, report)
    _send(recording, destination, options, report)
    sys.exit(report.status)


def _choose_speed(rate: int | None, speed: float | None, top_speed: bool) -> float | None:
    """Return the speed, or None if the times of the captures do not matter."""
    given = [("--rate", rate is not None), ("--speed", speed is not None), ("--top-speed", top_speed)]
    names = [name for name, is_given in given if is_given]
    if len(names) > 1:
        raise UsageProblem(f"{names[0]} cannot be combined with {names[1]}; leave one out")
    if rate is not None or top_speed:
        return None
    return 1.0 if speed is None else speed


def _record(captures: Sequence[str], port: int | None, limit: int | None, report: Report) -> Recording:
    """Read the captures. Report their problems, and raise Failure if there is nothing to send."""
    recording = Recording()
    selected = "no UDP datagrams" if port is None else f"no UDP datagrams to port {port}"
    for path in captures:
        if len(recording) == limit:
            break
        try:
            with CaptureReader(path, port) as reader:
                count = record_capture(reader, recording, limit)
                report.add_counters(reader.name, reader.counters)
        except CaptureError as error:
            raise Failure(f"{error}; nothing was sent") from error
        if not count and len(captures) > 1:
            report.add_note(f"{reader.name}: {selected}")
    if not len(recording):
        name = reader.name if len(captures) == 1 else "all captures"
        raise Failure(f"{name}: {selected}; nothing was sent")
    return recording


def _send(recording: Recording, destination: Destination, options: ReplayOptions, report: Report) -> None:
    try:
        with connected_sockets(destination, recording.sources) as sockets:
            if len(sockets) < recording.sources:
                report.add_note(
                    f"{recording.sources:,} sources share {len(sockets):,} source ports; "
                    "raise the limit of open files with ulimit -n"
                )
            _run(Replay(recording, sockets, options), destination, options, report)
    except ValueError as error:
        raise UsageProblem(f"--to: {error}") from error


def _run(run: Replay, destination: Destination, options: ReplayOptions, report: Report) -> None:
    """Send until the end or a signal, and print the counts."""
    try:
        with stop_signals() as stop, show_steps(run.total) as show:
            while _step(run, destination) and not stop.wanted:
                show(f"{run.sent / run.seconds:,.0f} datagrams/s", run.handled)
    finally:
        print_text(_summary(run))
    _report_losses(run, destination, report)
    if stop.wanted and not options.loop:
        report.status = INTERRUPTED


def _step(run: Replay, destination: Destination) -> bool:
    """Send for a moment, and return True if the replay goes on. An OSError names the destination."""
    try:
        return run.step()
    except OSError as error:
        error.filename = str(destination)
        raise


def _summary(run: Replay) -> str:
    counts = {
        "sent": run.sent,
        "bytes": run.bytes,
        "refused": run.refused,
        "not_sent": sum(run.unsent.values()),
        "seconds": f"{run.seconds:.3f}",
    }
    return " ".join(f"{name}={count}" for name, count in counts.items())


def _report_losses(run: Replay, destination: Destination, report: Report) -> None:
    if run.refused:
        report.add_problem(
            f"{destination}: {run.refused} datagrams met a closed port; start the receiver first"
        )
    for reason, count in run.unsent.items():
        report.add_problem(f"{destination}: {count} datagrams were not sent: {UNSENT[reason]}")
    if run.delay > LEAST_DELAY:
        report.add_note(f"sending was {run.delay:.1f} s behind its schedule; choose a lower rate or speed")
