"""`flowbuf read`: write flows or counters as a table, JSON lines, CSV or columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from flowbuf.cli.inputs import check_inputs, expand_inputs, is_chosen, total_size
from flowbuf.cli.objects.definition import definition_options
from flowbuf.cli.options import (
    CaptureOptions,
    UsageProblem,
    WholeNumber,
    counters_option,
    decode_options,
    inputs_argument,
    name_outputs,
    options_option,
    rows_options,
    verbose_option,
)
from flowbuf.cli.output.columnar import (
    address_form,
    check_column_output,
    enrich_option,
    ip_option,
    where_option,
)
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import (
    COLUMN_FORMATS,
    check_overwrite,
    check_spreadsheet,
    default_format,
    force_option,
    format_option,
    is_terminal,
    spreadsheet_option,
)
from flowbuf.cli.reading import Reading, check_kinds, check_parts
from flowbuf.cli.session import check_captures, check_decoding
from flowbuf.cli.signals import input_interrupts
from flowbuf.cli.state import check_state
from flowbuf.io.capture import MESSAGE_SUFFIXES
from flowbuf.schema import Schema

__all__ = ["read"]


@click.command()
@inputs_argument
@format_option("flows")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT",
    help="Write to this file (.gz, .zst compress), to the folder OUT/ with one file per INPUT, or to stdout "
    "(-). {rows} stands for the kind of rows.  [default: -]",
)
@force_option
@where_option
@ip_option
@spreadsheet_option
@enrich_option
@counters_option
@options_option
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Write at most N flows, or N rows of each kind.",
)
@click.option(
    "--rows-per-file",
    type=WholeNumber(min=1),
    metavar="N",
    help="Write files of N rows to the folder OUT/: part-00000.parquet and so on.",
)
@definition_options
@verbose_option
@decode_options
@rows_options
def read(
    inputs: tuple[str, ...],
    form: str | None,
    output: str,
    force: bool,
    where: str | None,
    ip: str | None,
    spreadsheet: bool,
    enrich: tuple[str, ...],
    limit: int | None,
    rows_per_file: int | None,
    proto: str | None,
    message: str | None,
    include: tuple[str, ...],
    verbose: bool,
    decoding: CaptureOptions,
    schemas: tuple[Schema, ...],
) -> None:
    """Show the flows of captures and message streams.

    An INPUT is a capture (pcap, pcapng, IPFIX file or file of nfcapd; plain, gzip or zstd), a message stream
    of flowbuf (.pb, .pb.gz, .pb.zst), or - for stdin. It may be a pattern, in which ** stands for any
    folders.

    A stream is read with the columns of --schema. Name the schema that wrote it; INPUT.proto beside it tells
    which columns are enabled. Messages with nested messages, maps or oneofs have no columns: they are JSON
    lines, as flowbuf convert writes them, with the names of their definition. --proto defines other messages,
    which are JSON lines, too.

    Ctrl-C ends stdin: the flows before it are written, and the exit status is 130. A second Ctrl-C writes
    nothing.

    --counters reads the counters of sFlow agents: interfaces, hosts, discarded packets (--schema
    sflow_counters). Tables show the most important columns, and all other formats have all columns.

    --rows flows,counters reads flows and counters in one pass. With {rows} in OUT, each kind is written to a
    file or folder of its own. Otherwise they are JSON lines, whose first key is the kind of row. Each kind is
    written as if it was read alone: --where and -n apply to every kind, --enrich to the kinds that have its
    columns.

    --options reads options records: what exporters report about themselves, such as names of interfaces
    (--schema options). Columns such as in_if_name take these names for flows.

    OUT is a folder if it exists as one, or ends with /. Then each INPUT is decoded separately, on all
    processors, into a file of its name there. -n and --state cannot be combined with it, unless
    --rows-per-file is given.

    --where is an SQL condition on the columns of a flow, including columns that are not shown. Addresses are
    text, enums are names, and absent numbers are 0. in_net is true if an address is in a network.

    \b
    Examples:
      flowbuf read capture.pcap
      flowbuf read capture.pcap -n 20 --columns src_addr,dst_addr,bytes
      flowbuf read capture.pcapng.gz -f jsonl --where "dst_port = 53 and bytes > 512"
      flowbuf read capture.pcap --where "in_net(src_addr, '192.0.2.0/24') or src_mac = '02:00:00:00:00:01'"
      flowbuf read capture.pcap -o flows.parquet
      flowbuf read capture.pcap --enrich network.toml --columns exporter_name,in_if_name,src_net_name
      flowbuf read 'captures/**/*.pcap.gz' -o parquet/
      flowbuf read 'captures/**/*.pcap.gz' -o parquet/ --rows-per-file 10000000
      flowbuf read *.pcap -o flows.csv.gz --enable group:l2
      flowbuf read capture.pcap --scale --default-sampling 1000
      flowbuf read capture.pcap --decapsulate all --enable group:tunnel
      flowbuf read today.pcap --state exporters.state
      flowbuf read flows.pb
      flowbuf read orders.pb --proto shop.proto --message shop.Order
      flowbuf read sflow.pcap --counters
      flowbuf read capture.pcap --options
      flowbuf read capture.pcap --enable in_if_name,out_if_name --two-pass
      flowbuf read sflow.pcap --rows flows,counters -o 'site-{rows}.parquet'
      flowbuf read *.pcap --rows flows,counters -o 'parquet/{rows}/' --where "exporter_address = '192.0.2.1'"
    """
    inputs = expand_inputs(inputs)
    outputs = name_outputs(output, schemas)
    folder = output.endswith("/") or any(map(os.path.isdir, outputs.values()))
    for path in outputs.values():
        check_inputs(inputs, None if folder else path)
        check_overwrite(force, path)
    check_decoding(inputs, decoding)
    if len(schemas) > 1:
        check_captures(inputs)
    form = form or _default_format(output, folder, several=proto is not None or len(schemas) > 1)
    _check_form(form, output, ip)
    report = Report(notes=verbose)
    streams = not folder and all(path == "-" or path.endswith(MESSAGE_SUFFIXES) for path in inputs)
    _check_definition(streams, proto, message, include)
    if streams and _read_objects(inputs, (schemas[0], form, proto, message, include), output, limit, report):
        sys.exit(report.status)
    check_spreadsheet(spreadsheet, form)
    reading = Reading(
        form,
        schemas,
        decoding,
        where,
        address_form(form, ip),
        enrich,
        limit,
        is_chosen(),
        tuple(click.get_current_context().params["only"]),
        rows_per_file,
        spreadsheet,
    )
    check_kinds(reading, output, outputs, folder)
    if folder and rows_per_file is None:
        from flowbuf.cli.many import check_each, read_each

        check_each(reading, inputs, outputs, force)
        read_each(reading, inputs, outputs, report)
    else:
        check_parts(reading, output, outputs.values() if folder else None)
        for path in outputs.values():
            check_state(decoding.state, path)
        quiet = output == "-" and is_terminal(sys.stdout)
        with input_interrupts(inputs) as interrupt, show_progress(total_size(inputs), quiet) as show:
            reading.run(inputs, outputs, report, show, interrupt)
    sys.exit(report.status)


def _default_format(output: str, folder: bool, several: bool) -> str:
    if folder:
        return "parquet"
    return "jsonl" if several and output == "-" else default_format(output, folder=True)


def _check_definition(streams: bool, proto: str | None, message: str | None, include: Sequence[str]) -> None:
    if proto is None and (message is not None or include):
        raise UsageProblem("--message and --include choose from a definition; name it with --proto")
    chosen = click.get_current_context().params
    if proto is not None and (chosen["reference"] != "flow" or chosen["counters"] or chosen["options"]):
        raise UsageProblem("--proto defines the messages; leave out --schema, --counters and --options")
    if proto is not None and not streams:
        suffixes = ", ".join(MESSAGE_SUFFIXES)
        raise UsageProblem(
            f"--proto applies only to message streams ({suffixes}) and one output; leave it out"
        )


def _read_objects(
    inputs: Sequence[str],
    definition: tuple[Schema, str, str | None, str | None, Sequence[str]],
    output: str,
    limit: int | None,
    report: Report,
) -> bool:
    """Write messages without columns, and return True. Return False if the messages have columns.

    `definition` has the arguments of `find_codecs`.
    """
    from flowbuf.cli.objects.reading import find_codecs, read_objects

    codecs = find_codecs(inputs, *definition)
    if codecs is None:
        return False
    with show_progress(total_size(inputs), output == "-" and is_terminal(sys.stdout)) as show:
        read_objects(inputs, codecs, output, limit, report, show)
    return True


def _check_form(form: str, output: str, ip: str | None) -> None:
    if form in COLUMN_FORMATS:
        check_column_output(form, output)
    elif ip:
        raise UsageProblem(
            f"--ip applies only to parquet and arrow; leave it out, because addresses in {form} are text"
        )
