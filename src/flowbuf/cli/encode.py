"""`flowbuf encode`: write captures to a file of messages."""

from __future__ import annotations

import sys
import time

import click

from flowbuf.cli.counters import count_rows, no_rows
from flowbuf.cli.inputs import check_inputs, expand_inputs, total_size
from flowbuf.cli.options import (
    CaptureOptions,
    decode_options,
    inputs_argument,
    schema_errors,
    schema_options,
    verbose_option,
)
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import (
    check_overwrite,
    force_option,
    is_terminal,
    open_errors,
    open_output,
    refuse_terminal,
)
from flowbuf.cli.session import Session
from flowbuf.cli.signals import input_interrupts
from flowbuf.cli.state import check_state
from flowbuf.decoder import check_rows
from flowbuf.io.background_writer import WriteBehind
from flowbuf.io.proto_file import check_proto, write_proto
from flowbuf.schema import Schema

__all__ = ["encode"]


@click.command()
@inputs_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT.pb",
    help="Write to this file; .gz, .zst compress; - is stdout.",
)
@force_option
@verbose_option
@decode_options
@schema_options
def encode(
    inputs: tuple[str, ...], output: str, force: bool, verbose: bool, decoding: CaptureOptions, schema: Schema
) -> None:
    """Encode captures as Protocol Buffers messages.

    Every flow becomes a message, preceded by its length as a varint. The schema of the messages is written to
    OUT.pb.proto. A .proto that flowbuf did not write is never replaced. Each file appears whole or not at
    all.

    An INPUT is a capture (pcap or pcapng, plain, gzip or zstd), a pattern of several, in which ** stands for
    any folders, or - for stdin. Templates and sampling rates of one INPUT are known in the next, and with
    --state in the next run too.

    Ctrl-C ends stdin: the flows before it are written, and the exit status is 130. A second Ctrl-C writes
    nothing.

    \b
    Examples:
      flowbuf encode capture.pcap -o flows.pb
      flowbuf encode monday.pcapng.gz tuesday.pcapng.gz -o flows.pb.zst
      flowbuf encode capture.pcap -o flows.pb --enable src_mac,dst_mac --default-sampling 1000
      flowbuf encode capture.pcap -o flows.pb --scale --override-sampling 2048
      flowbuf encode today.pcap -o today.pb --state exporters.state
      flowbuf encode capture.pcap -o flows.pb --decapsulate vxlan,gre --enable group:tunnel
      flowbuf encode sflow.pcap -o counters.pb --schema sflow_counters
      tcpdump -w - udp port 2055 | flowbuf encode - -o flows.pb
    """
    inputs = expand_inputs(inputs)
    check_inputs(inputs, output)
    check_overwrite(force, output)
    check_state(decoding.state, output)
    with schema_errors():
        check_rows(schema)
        schema.to_proto()  # before the work
    report = Report(notes=verbose)
    began = time.perf_counter()
    size = 0
    with input_interrupts(inputs) as interrupt, open_output(output) as file:
        refuse_terminal(file, "messages")
        if file.is_regular:
            with open_errors():
                check_proto(output)
        with (
            show_progress(total_size(inputs)) as show,
            Session(schema, decoding, report, show, interrupt=interrupt) as session,
        ):
            with WriteBehind(file) as behind:
                for path in session.each(inputs):
                    for messages in session.encode(path):
                        behind.write(messages)
                        size += len(messages)
            session.finish()
        if not session.readable:
            file.discard()
        elif file.is_regular:
            write_proto(output, schema, scaled=decoding.scale)
    if session.interrupted:
        report.add_interrupt(count_rows(schema, session.flows))
    elif session.readable and not session.flows:
        report.add_note(no_rows(schema, session.counters))
    elif session.readable and is_terminal(sys.stderr):
        report.add_note(_summary(schema, session.flows, size, time.perf_counter() - began))
    sys.exit(report.status)


def _summary(schema: Schema, rows: int, size: int, seconds: float) -> str:
    return f"{count_rows(schema, rows)}, {size:,} bytes, {rows / max(seconds, 1e-9):,.0f}/s"
