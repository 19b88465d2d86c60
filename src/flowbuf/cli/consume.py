"""`flowbuf consume`: read flows from Kafka into files, ClickHouse or the terminal."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from flowbuf.cli.consume_outputs import (
    ClickHouseOutlet,
    FolderOutlet,
    Outlet,
    SchemaChanged,
    Selections,
    StreamOutlet,
)
from flowbuf.cli.kafka_options import KafkaOptions, kafka_options
from flowbuf.cli.options import (
    Number,
    UsageProblem,
    WholeNumber,
    load_schema,
    schema_errors,
    split_values,
    verbose_option,
)
from flowbuf.cli.output.columnar import (
    address_form,
    check_column_output,
    check_condition,
    enrich_option,
    ip_option,
    need,
    where_option,
)
from flowbuf.cli.output.progress import Show, show_lag
from flowbuf.cli.output.report import MAX_LINES, Report, count_things
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
from flowbuf.cli.signals import Stop, stop_signals
from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.errors import FlowbufError, PartitionLost
from flowbuf.kafka.client import is_pattern
from flowbuf.kafka.consumer import BatchLimits, KafkaSource, SourceBatch
from flowbuf.kafka.dead_letters import DeadLetters
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS
from flowbuf.targets.clickhouse_tables import TableOptions

__all__ = ["consume"]

_PROMPT_BYTES = 1 << 22  # bytes of Kafka records per batch for output that is shown or written at once


@click.command()
@kafka_options
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="T",
    help="Read this topic, or all topics that match a regular expression (^flows-.*). May be repeated.",
)
@click.option(
    "--group",
    metavar="G",
    help="Continue at the offsets of this group, and commit.  [default: read all, commit nothing]",
)
@click.option("-e", "--until-end", is_flag=True, help="Stop when all existing Kafka records were read.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Stop after N flows. A batch that is cut is not committed.",
)
@where_option
@click.option(
    "--columns", multiple=True, callback=split_values, metavar="A,B", help="Write only these columns."
)
@enrich_option
@format_option("flows")
@spreadsheet_option
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT",
    help="Write to this file, or one file per batch to a folder (OUT/), or to stdout (-).  [default: -]",
)
@force_option
@ip_option
@click.option(
    "--batch-bytes",
    type=WholeNumber(min=1),
    default=1 << 26,
    show_default=True,
    metavar="N",
    help="Complete a batch for a folder or ClickHouse at N bytes of Kafka records.",
)
@click.option(
    "--batch-seconds",
    type=Number(min=0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Complete a batch for a folder or ClickHouse after S seconds.",
)
@click.option(
    "--clickhouse", metavar="URL", help="Insert into ClickHouse at http[s]://[USER:PASSWORD@]HOST:PORT."
)
@click.option("--database", metavar="D", help="Insert into this database.  [default: that of the user]")
@click.option("--table", metavar="T", help="Insert into this table.  [default: flows or counters, by schema]")
@click.option("--dead-letter", metavar="T", help="Copy Kafka records that cannot be decoded to this topic.")
@click.option(
    "--schema", "reference", metavar="NAME|FILE", help="Use this schema for Kafka records that name none."
)
@click.option(
    "--framing", type=click.Choice(FRAMINGS), help="Use this framing for Kafka records that name none."
)
@verbose_option
def consume(
    kafka: KafkaOptions,
    topics: tuple[str, ...],
    group: str | None,
    until_end: bool,
    limit: int | None,
    where: str | None,
    columns: list[str],
    enrich: tuple[str, ...],
    form: str | None,
    spreadsheet: bool,
    output: str,
    force: bool,
    ip: str | None,
    batch_bytes: int,
    batch_seconds: float,
    clickhouse: str | None,
    database: str | None,
    table: str | None,
    dead_letter: str | None,
    reference: str | None,
    framing: str | None,
    verbose: bool,
) -> None:
    """Read flows from Kafka.

    The schema of Kafka records is found automatically: from their headers, from the hash in the name of the
    topic, or from their number in a schema registry (--schema-registry). Hashes are looked up in the topic
    flowbuf-schemas. Kafka records without this information have the schema of --schema.

    With --group, offsets are committed after the flows are stored: a line is printed, or a file is complete.
    In a folder, each batch has a file named after its topic, partition and offsets. After a crash, the same
    file is written again, so nothing is stored twice. In ClickHouse, a token prevents duplicates, in the
    tables of flowbuf schema clickhouse. In other outputs, uncommitted flows are written again.

    A group may move partitions to another member at any time. That member then reads the uncommitted records
    of these partitions. In a folder that both write to, nothing is stored twice. This command reports the
    move and continues with its remaining partitions.

    Ctrl-C and SIGTERM act like the end of the topic: flows read so far are stored and committed.

    --where, --columns and --enrich work as in flowbuf read, on the columns of the Kafka records. Records of
    which no flow is written are committed too.

    A Kafka record that cannot be decoded is reported, and copied to the topic of --dead-letter. The others
    are processed, and the exit status is 1. The command ends with totals on standard error.

    \b
    Examples:
      flowbuf consume --kafka localhost:9092 --topic flows -n 20
      flowbuf consume --kafka localhost:9092 --topic flows -f jsonl | jq .src_addr
      flowbuf consume --kafka localhost:9092 --topic flows --until-end -o flows.parquet
      flowbuf consume --kafka localhost:9092 --topic '^flows-.*' --where "dst_port = 53"
      flowbuf consume --kafka localhost:9092 --topic flows --group archive -o parquet/ --batch-seconds 300
      flowbuf consume --kafka localhost:9092 --topic flows --group a --dead-letter flows-bad -f jsonl
      flowbuf consume --kafka localhost:9092 --topic flows --group ch --clickhouse http://localhost:8123
      flowbuf consume --kafka localhost:9092 --topic flows --schema goflow2 --framing delimited
    """
    need("pyarrow", "arrow", "consume")
    if clickhouse is not None:
        _check_clickhouse(group)
    elif database or table:
        raise UsageProblem("--database and --table need --clickhouse URL")
    folder = output.endswith("/") or os.path.isdir(output)
    form = form or ("parquet" if folder else default_format(output, folder=True))
    _check_form(form, output, ip, folder)
    check_spreadsheet(spreadsheet, form)
    if group and os.path.isfile(output):
        fix = "name another file, or a folder (-o OUT/)"
        raise UsageProblem(f"{output}: exists already, and a group does not read stored flows again; {fix}")
    check_overwrite(force, output)
    for topic in topics:
        if not is_pattern(topic) and ("{" in topic or "," in topic):
            raise UsageProblem(f"--topic {topic} is not the name of one topic; repeat --topic for each topic")
    if dead_letter in topics:
        raise UsageProblem(
            f"--dead-letter {dead_letter} is also read with --topic; choose another dead-letter topic"
        )
    if where is not None:
        check_condition(where, Schema.load())  # before any record arrives
    schema = load_schema(reference) if reference else None
    if schema is not None:
        with schema_errors():
            schema.require_flat("a table")
    report = Report(notes=verbose)
    sink = (
        _open_clickhouse(clickhouse, database, table, report, kafka.timeout)
        if clickhouse is not None
        else None
    )
    limits = BatchLimits(batch_bytes, batch_seconds) if folder or sink else BatchLimits(_PROMPT_BYTES)
    options: dict[str, Any] = {"group": group, "until_end": until_end, "framing": framing, "limits": limits}
    options["hidden"] = [dead_letter] if dead_letter else []
    selections = Selections(report, address_form(form, ip), where, columns, enrich)
    letters = kafka.open_letters(dead_letter, report.add_note) if dead_letter else None
    with _open_source(kafka, report, topics, schema, **options) as source:
        faults = Faults(report, letters)
        commit = functools.partial(_commit, source, report)
        outlet: Outlet
        if sink:
            outlet = ClickHouseOutlet(sink, selections, source, commit, group or "")
        elif folder:
            outlet = FolderOutlet(form, output, selections, source, commit)
        else:
            outlet = StreamOutlet(form, output, selections, commit, spreadsheet)
        quiet = output == "-" and is_terminal(sys.stdout) and not sink
        try:
            with outlet, show_lag(quiet) as show, stop_signals() as stop:
                _store_all(source, outlet, limit, faults, show, stop)
        except (FlowbufError, click.ClickException):
            if source.records:
                report.add_note(_describe_totals(source, outlet, selections, faults))
            raise
    faults.finish(outlet.count + selections.filtered)
    _report_counts(source, report)
    report.add_note(_describe_totals(source, outlet, selections, faults))
    sys.exit(report.status)


def _describe_totals(source: KafkaSource, outlet: Outlet, selections: Selections, faults: Faults) -> str:
    """Return the totals, for example "500 flows from 12 Kafka records"."""
    parts = [f"{count_things(outlet.count, 'flow')} from {count_things(source.records, 'Kafka record')}"]
    if selections.filtered:
        verb = "was" if selections.filtered == 1 else "were"
        parts.append(f"{count_things(selections.filtered, 'other flow')} {verb} filtered out")
    if faults.count:
        parts.append(f"{faults.count:,} of the Kafka records cannot be decoded")
    if selections.cut:
        parts.append("the last batch was cut by -n")
    return "; ".join(parts)


def _check_clickhouse(group: str | None) -> None:
    """Raise UsageProblem for options that cannot be combined with --clickhouse."""
    given = click.get_current_context().params
    for option, name in (("-o", "output"), ("-f", "form"), ("-n", "limit"), ("--ip", "ip")):
        if given[name] not in (None, "-"):
            raise UsageProblem(f"{option} cannot be combined with --clickhouse; leave one out")
    if group is None:
        raise UsageProblem("--clickhouse needs a group, which remembers the stored flows; add --group G")


def _open_clickhouse(
    url: str, database: str | None, table: str | None, report: Report, timeout: float
) -> ClickHouseSink:
    """Return a sink.

    Raise UsageProblem for an invalid URL, and ClickHouseError if the server does not answer.
    """
    need("clickhouse_connect", "clickhouse", "--clickhouse")
    try:
        options = TableOptions(database=database or "", table=table or "")
        sink = ClickHouseSink(url, options, on_problem=report.add_note)
        sink.check(timeout)
        return sink
    except ValueError as error:
        raise UsageProblem(f"--clickhouse: {error}") from error


def _check_form(form: str, output: str, ip: str | None, folder: bool) -> None:
    if form in COLUMN_FORMATS:
        check_column_output(form, output)
    elif folder:
        raise UsageProblem(
            f"format {form} cannot be written to a folder; use -f {' or -f '.join(COLUMN_FORMATS)}"
        )
    elif ip:
        raise UsageProblem(
            f"--ip applies only to parquet and arrow; leave it out, because addresses in {form} are text"
        )


def _open_source(
    kafka: KafkaOptions, report: Report, topics: tuple[str, ...], schema: Schema | None, **options: Any
) -> KafkaSource:
    """Return a source. Raise UsageProblem for an invalid pattern, and KafkaError."""
    try:
        return KafkaSource(
            kafka.servers,
            topics,
            **options,
            schema=schema,
            **kafka.arguments(report.add_note),
        )
    except ValueError as error:
        raise UsageProblem(f"--topic: {error}") from error


class Faults:
    """Report Kafka records that cannot be decoded, and copy them to the dead-letter topic. Count them."""

    def __init__(self, report: Report, letters: DeadLetters | None) -> None:
        self.report = report
        self._letters = letters
        self.count = 0

    def add(self, batch: SourceBatch) -> None:
        """Handle the faults of a batch, before the batch is stored."""
        for fault in batch.faults[: max(MAX_LINES - self.count, 0)]:
            where = f"{fault.topic}, partition {fault.partition}, offset {fault.offset}"
            self.report.add_problem(f"{where}: {fault.reason}")
        self.count += len(batch.faults)
        if self._letters and batch.faults:
            self._letters.send(batch.faults)

    def finish(self, flows: int) -> None:
        """Report the number of faults that were not printed. Suggest a fix if no record could be decoded."""
        if self.count and not flows:
            self.report.add_note("no Kafka record can be decoded; check --schema and --framing")
        if self.count > MAX_LINES:
            self.report.add_note(f"{self.count - MAX_LINES} more Kafka records cannot be decoded")


def _commit(source: KafkaSource, report: Report, batch: SourceBatch) -> None:
    try:
        source.commit(batch)
    except PartitionLost as error:
        report.add_note(f"{error}; it reads these Kafka records again")


def _store_all(
    source: KafkaSource, outlet: Outlet, limit: int | None, faults: Faults, show: Show, stop: Stop
) -> None:
    """Store batches until the end, the limit or a signal. Everything stored before stays."""
    try:
        for batch in _until(source, stop):
            if batch is not None:
                faults.add(batch)
                try:
                    outlet.store(batch, None if limit is None else limit - outlet.count)
                except PartitionLost as error:
                    faults.report.add_note(f"{error}; it stores these Kafka records")
            show(source.lag, outlet.count)
            if limit is not None and outlet.count >= limit:
                break
    except SchemaChanged as error:
        faults.report.add_problem(str(error))


def _until(source: KafkaSource, stop: Stop) -> Iterator[SourceBatch | None]:
    """Yield all batches. After a signal, yield the incomplete batches and end."""
    for batch in source:
        yield batch
        if stop.wanted:
            yield from source.rest()
            return


def _report_counts(source: KafkaSource, report: Report) -> None:
    if source.deleted:
        fix = "keep the Kafka records of the topic for longer, or consume them earlier"
        report.add_problem(f"offsets deleted before they were read: {source.deleted}; {fix}")
    if source.unknown_fields:
        fix = "name the schema that wrote them with --schema, and enable all its columns"
        report.add_problem(f"fields that are not in the schema, left out: {source.unknown_fields}; {fix}")
    if source.invalid_texts:
        report.add_note(f"strings that are not UTF-8, repaired: {source.invalid_texts}")
