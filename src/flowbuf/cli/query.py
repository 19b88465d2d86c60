"""`flowbuf query`: run SQL on captures, message streams and Parquet files."""

from __future__ import annotations

import os
import sys

import click

from flowbuf.cli.inputs import is_chosen
from flowbuf.cli.options import (
    CaptureOptions,
    UsageProblem,
    counters_option,
    decode_options,
    inputs_argument,
    options_option,
    schema_options,
    verbose_option,
)
from flowbuf.cli.output.columnar import enrich_option
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import force_option, format_option, output_option, spreadsheet_option
from flowbuf.cli.querying import Request, run_query
from flowbuf.schema import Schema

__all__ = ["query"]


@click.command()
@click.argument("sql")
@inputs_argument
@format_option("results")
@output_option
@force_option
@spreadsheet_option
@enrich_option
@counters_option
@options_option
@verbose_option
@decode_options
@schema_options
def query(
    sql: str,
    inputs: tuple[str, ...],
    form: str | None,
    output: str,
    force: bool,
    spreadsheet: bool,
    enrich: tuple[str, ...],
    verbose: bool,
    decoding: CaptureOptions,
    schema: Schema,
) -> None:
    """Query captures, message streams and Parquet files with SQL.

    The SQL dialect is DuckDB's. The flows of all inputs are in the table `flows`. Columns in the SQL need not
    be enabled. Addresses are text, enums are names, times are UTC, and durations are numbers.
    in_net(src_addr, '192.0.2.0/24') is true if the address is in the network. scaled(bytes) is bytes
    times the sampling rate, if it is known. Only needed columns are decoded. Flows are streamed, and stored
    only if the SQL sorts them or reads them twice.

    \b
    Examples:
      flowbuf query "SELECT src_addr, sum(bytes) FROM flows GROUP BY ALL ORDER BY 2 DESC LIMIT 10" a.pcap
      flowbuf query "SELECT dst_as, sum(scaled(bytes)) FROM flows GROUP BY ALL ORDER BY 2 DESC" a.pcap
      flowbuf query "SELECT count(*) FROM flows WHERE in_net(dst_addr, '10.0.0.0/8')" *.pcap.gz
      flowbuf query "SELECT dst_port, count(*) FROM flows GROUP BY ALL" january.parquet -o ports.csv
      flowbuf query "FROM flows WHERE src_mac = '02:00:00:00:00:01'" capture.pcap -o found.parquet
      flowbuf query "SELECT in_if_name, sum(bytes) FROM flows GROUP BY ALL" a.pcap --enrich network.toml
      flowbuf query "SUMMARIZE flows" capture.pcap
    """
    if os.path.isfile(sql):
        raise UsageProblem(f"{sql}: is a file; the SQL comes first: flowbuf query 'FROM flows LIMIT 5' {sql}")
    request = Request.check(
        "query",
        inputs,
        output,
        form,
        force,
        spreadsheet,
        enrich,
        decoding,
        chosen=is_chosen(),
        only=bool(click.get_current_context().params["only"]),
    )
    report = Report(notes=verbose)
    run_query(sql, request, schema, report)
    sys.exit(report.status)
