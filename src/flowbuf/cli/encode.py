"""`flowbuf encode`: write captures to a file of messages."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import click

from flowbuf._core import IpfixWriter
from flowbuf.cli.counters import count_rows, missing_kinds
from flowbuf.cli.inputs import check_inputs, expand_inputs, total_size
from flowbuf.cli.options import (
    CaptureOptions,
    Choice,
    UsageProblem,
    decode_options,
    expand_rows,
    inputs_argument,
    rows_options,
    schema_errors,
    verbose_option,
)
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report, count_things
from flowbuf.cli.output.streams import (
    check_overwrite,
    force_option,
    format_of,
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
from flowbuf.io.ipfix_file import IpfixColumns, choose_elements, new_writer
from flowbuf.io.output_file import OutputFile
from flowbuf.io.proto_file import check_proto, write_proto
from flowbuf.schema import Schema

__all__ = ["encode"]

_IPFIX_SUFFIXES = (".ipfix", ".ipfix.gz", ".ipfix.zst")


@click.command()
@inputs_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="Write to this file; .gz, .zst compress; - is stdout; {rows} stands for the kind of rows.",
)
@click.option(
    "-f",
    "--format",
    "form",
    type=Choice(["pb", "ipfix"]),
    help="Write messages or an IPFIX file.  [default: ipfix if OUT ends in .ipfix, otherwise pb]",
)
@force_option
@verbose_option
@decode_options
@rows_options
def encode(
    inputs: tuple[str, ...],
    output: str,
    form: str | None,
    force: bool,
    verbose: bool,
    decoding: CaptureOptions,
    schemas: tuple[Schema, ...],
) -> None:
    """Encode captures as Protocol Buffers messages, or as an IPFIX file.

    Every flow becomes a message, preceded by its length as a varint. The schema of the messages is written to
    OUT.proto. A .proto that flowbuf did not write is never replaced. Each file appears whole or not at
    all.

    An INPUT is a capture (pcap, pcapng, IPFIX file or file of nfcapd; plain, gzip or zstd), or - for stdin.
    It may be a pattern, in which ** stands for any folders. Templates and sampling rates of one INPUT are
    known in the next, and with --state in the next run too.

    --format ipfix writes an IPFIX file (RFC 5655), without a .proto. Each column becomes its information
    element. Columns without one are left out and named. Messages are small enough for flowbuf replay.

    --rows flows,counters writes flows and the counter samples of sFlow in one pass, to a file each.

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
      flowbuf encode sflow.pcap -o 'site-{rows}.pb' --rows flows,counters
      flowbuf encode nfcapd.202611261935 -o flows.ipfix
      tcpdump -w - udp port 2055 | flowbuf encode - -o flows.pb
    """
    inputs = expand_inputs(inputs)
    outputs = expand_rows(output, schemas)
    for path in outputs.values():
        check_inputs(inputs, path)
        check_overwrite(force, path)
        check_state(decoding.state, path)
    is_ipfix = form == "ipfix" or (form is None and output.endswith(_IPFIX_SUFFIXES))
    if form is None and (other := format_of(output)):
        raise UsageProblem(f"{output}: flowbuf read writes {other}; choose a format with -f: pb, ipfix")
    if is_ipfix and decoding.scale:
        fix = "leave out --scale, and scale when you read the file"
        raise UsageProblem(f"--scale: IPFIX does not state that totals are scaled; {fix}")
    with schema_errors():
        for schema in schemas:
            check_rows(schema)
            schema.to_proto()  # before the work
        chosen = {schema.rows: choose_elements(schema) for schema in schemas} if is_ipfix else {}
    report = Report(notes=verbose)
    began = time.perf_counter()
    with input_interrupts(inputs) as interrupt, ExitStack() as files:
        opened = {rows: _open(path, files, is_ipfix) for rows, path in outputs.items()}
        encoders = {rows: new_writer(columns) for rows, columns in chosen.items()}
        with (
            show_progress(total_size(inputs)) as show,
            Session(schemas[0], decoding, report, show, interrupt=interrupt, others=schemas[1:]) as session,
        ):
            size = _write(session, inputs, opened, encoders)
            session.finish()
        for schema in schemas:
            file = opened[schema.rows]
            if not session.readable:
                file.discard()
            elif file.is_regular and not is_ipfix:
                write_proto(outputs[schema.rows], schema, scaled=decoding.scale and schema is schemas[0])
    counts = session.decoder.rows
    counted = ", ".join(count_rows(schema, counts[schema.rows]) for schema in schemas)
    if session.readable:
        for rows, columns in chosen.items():
            _report_left_out(report, columns, encoders[rows])
    if session.interrupted:
        report.add_interrupt(counted)
    elif session.readable:
        for note in missing_kinds(schemas, counts, session.counters):
            report.add_note(note)
        if session.flows and is_terminal(sys.stderr):
            rate = session.flows / max(time.perf_counter() - began, 1e-9)
            report.add_note(f"{counted}, {size:,} bytes, {rate:,.0f}/s")
    sys.exit(report.status)


def _open(output: str, files: ExitStack, is_ipfix: bool) -> OutputFile:
    """Open an output. `files` closes it."""
    file = files.enter_context(open_output(output))
    refuse_terminal(file, "messages")
    if file.is_regular and not is_ipfix:
        with open_errors():
            check_proto(output)
    return file


def _report_left_out(report: Report, columns: IpfixColumns, encoder: IpfixWriter) -> None:
    """Name the columns that an IPFIX file lacks, and count the values."""
    if columns.left_out:
        report.add_note(f"columns without an IPFIX element of their own: {', '.join(columns.left_out)}")
    if encoder.values_left_out:
        values = count_things(encoder.values_left_out, "value")
        report.add_note(f"{values} left out: too long, or too large for their IPFIX element")
    if encoder.rows_left_out:
        rows = count_things(encoder.rows_left_out, "row")
        report.add_note(f"{rows} left out, because none of their columns has an IPFIX element")


def _write(
    session: Session,
    inputs: Sequence[str],
    files: Mapping[str, OutputFile],
    encoders: Mapping[str, IpfixWriter],
) -> int:
    """Write the messages of each kind of rows to its file. Return their size in bytes.

    An encoder turns the messages of its rows into IPFIX messages.
    """
    size = 0
    with ExitStack() as writers:
        behind = {rows: writers.enter_context(WriteBehind(file)) for rows, file in files.items()}
        for path in session.each(inputs):
            for rows in session.encode_rows(path):
                for kind, messages in rows.items():
                    content = encoders[kind].write(messages) if encoders else messages
                    behind[kind].write(content)
                    size += len(content)
        for kind, encoder in encoders.items():
            behind[kind].write(encoder.finish())
    return size
