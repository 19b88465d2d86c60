"""`flowbuf consume`: flows out of Kafka, into files, onto the screen, into ClickHouse."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from flowbuf.cli.consume_outputs import ClickHouseOutlet, FolderOutlet, Outlet, SchemaChanged, StreamOutlet
from flowbuf.cli.kafka_options import KafkaOptions, kafka_options
from flowbuf.cli.options import UsageProblem, WholeNumber, load_schema, schema_errors, verbose_option
from flowbuf.cli.output.columnar import check_column_output, ip_option, need
from flowbuf.cli.output.progress import Show, show_lag
from flowbuf.cli.output.report import MAX_LINES, Report
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
from flowbuf.errors import PartitionLost
from flowbuf.kafka.consumer import BatchLimits, KafkaSource, SourceBatch
from flowbuf.kafka.dead_letters import DeadLetters
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS
from flowbuf.targets.clickhouse_tables import TableOptions

__all__ = ["consume"]

_PROMPT_OCTETS = 1 << 22  # of records that are given at once, where they are shown or written as they come


@click.command()
@kafka_options
@click.option("--topic", "topics", multiple=True, required=True, metavar="T", help="May be repeated.")
@click.option(
    "--group", metavar="G", help="Go on where this group was, and commit.  [default: all, from the beginning]"
)
@click.option("-e", "--until-end", is_flag=True, help="Stop when all that is there has been read.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Stop after N flows. A batch that is cut is not committed.",
)
@format_option("them")
@spreadsheet_option
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT",
    help="File to write, a folder (OUT/) for a file of each batch, - for stdout.  [default: -]",
)
@force_option
@ip_option
@click.option(
    "--batch-octets", type=WholeNumber(min=1), default=1 << 26, show_default=True, metavar="N", help="Of records."
)
@click.option(
    "--batch-seconds",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="A batch for a folder or ClickHouse is full after so many octets, and given after so long.",
)
@click.option("--clickhouse", metavar="URL", help="Insert into ClickHouse: http[s]://[USER:PASSWORD@]HOST:PORT.")
@click.option("--database", metavar="D", help="Its database.  [default: that of the user]")
@click.option("--table", metavar="T", help="Its table.  [default: what rows are: flows, counters]")
@click.option("--dead-letter", metavar="T", help="Copy records that cannot be read to this topic.")
@click.option("--schema", "reference", metavar="NAME|FILE", help="Of records that name no schema.")
@click.option("--framing", type=click.Choice(FRAMINGS), help="Of records that do not say it.")
@verbose_option
def consume(
    kafka: KafkaOptions,
    topics: tuple[str, ...],
    group: str | None,
    until_end: bool,
    limit: int | None,
    form: str | None,
    spreadsheet: bool,
    output: str,
    force: bool,
    ip: str | None,
    batch_octets: int,
    batch_seconds: float,
    clickhouse: str | None,
    database: str | None,
    table: str | None,
    dead_letter: str | None,
    reference: str | None,
    framing: str | None,
    verbose: bool,
) -> None:
    """Read flows out of Kafka.

    What records are of is found by itself: by the schema that their headers name, by the hash in the name of the topic,
    or by their number in a schema registry (--schema-registry). Hashes are looked up in the topic flowbuf-schemas.
    Records that say nothing are of --schema.

    With --group, offsets are committed when what was read is stored: a line that is printed, a file that is whole. In a
    folder each batch has a file named after its topic, partition and offsets; after a crash the same file is written
    again, so that nothing is there twice. In ClickHouse it is a token that does this, in the tables that
    flowbuf schema clickhouse makes. Anywhere else what was not committed comes again.

    A group may give partitions to another member at any time. What was not committed of them then comes there; in a
    folder that both write to, nothing is twice. This one says so, and goes on with those that it has.

    Ctrl-C and SIGTERM end it as the end of the topic would: what was read is stored and committed.

    A record that cannot be read is reported, and copied to --dead-letter; the others go on, and the exit status is 1.

    \b
    Examples:
      flowbuf consume --kafka localhost:9092 --topic flows -n 20
      flowbuf consume --kafka localhost:9092 --topic flows -f jsonl | jq .src_addr
      flowbuf consume --kafka localhost:9092 --topic flows --until-end -o flows.parquet
      flowbuf consume --kafka localhost:9092 --topic flows --group archive -o parquet/ --batch-seconds 300
      flowbuf consume --kafka localhost:9092 --topic flows --group a --dead-letter flows-bad -f jsonl
      flowbuf consume --kafka localhost:9092 --topic flows --group ch --clickhouse http://user:secret@localhost:8123
      flowbuf consume --kafka localhost:9092 --topic goflow2-flows --schema goflow2 --framing delimited
    """
    need("pyarrow", "arrow", "consume")
    if clickhouse is not None:
        _check_clickhouse(group)
    elif database or table:
        raise UsageProblem("--database and --table are for --clickhouse URL")
    folder = output.endswith("/") or os.path.isdir(output)
    form = form or ("parquet" if folder else default_format(output))
    _check_form(form, output, ip, folder)
    check_spreadsheet(spreadsheet, form)
    if group and os.path.isfile(output):
        fix = "name another, or a folder (-o OUT/)"
        raise UsageProblem(f"{output}: is there already, and what a group has stored does not come again: {fix}")
    check_overwrite(force, output)
    for topic in topics:
        if "{" in topic or "," in topic:
            raise UsageProblem(f"--topic {topic}: name one topic as it is called; --topic may be repeated")
    if dead_letter in topics:
        raise UsageProblem(f"--dead-letter {dead_letter}: what is copied there would come again: take another topic")
    schema = load_schema(reference) if reference else None
    if schema is not None:
        with schema_errors():
            schema.require_flat("a table")
    report = Report(notes=verbose)
    sink = _open_clickhouse(clickhouse, database, table, report, kafka.timeout) if clickhouse is not None else None
    limits = BatchLimits(batch_octets, batch_seconds) if folder or sink else BatchLimits(_PROMPT_OCTETS)
    options = {"group": group, "until_end": until_end, "framing": framing, "limits": limits}
    letters = kafka.open_letters(dead_letter, report.add_note) if dead_letter else None
    with _open_source(kafka, report, topics, schema, **options) as source:
        faults = Faults(report, letters)
        commit = functools.partial(_commit, source, report)
        outlet: Outlet
        if sink:
            outlet = ClickHouseOutlet(sink, source, commit)
        elif folder:
            outlet = FolderOutlet(form, output, ip or "binary", source, commit)
        else:
            outlet = StreamOutlet(form, output, ip or "binary", commit, spreadsheet)
        quiet = output == "-" and is_terminal(sys.stdout) and not sink
        with outlet, show_lag(quiet) as show, stop_signals() as stop:
            _store_all(source, outlet, limit, faults, show, stop)
    faults.finish(outlet.count)
    _report_counts(source, report)
    if not outlet.count:
        report.add_note("no flows")
    elif is_terminal(sys.stderr) and not quiet:
        report.add_note(f"{outlet.count:,} flows")
    sys.exit(report.status)


def _check_clickhouse(group: str | None) -> None:
    """Raises UsageProblem for what does not go with it."""
    given = click.get_current_context().params
    for option, name in (("-o", "output"), ("-f", "form"), ("-n", "limit"), ("--ip", "ip")):
        if given[name] not in (None, "-"):
            raise UsageProblem(f"{option} and --clickhouse: give one of them")
    if group is None:
        raise UsageProblem("--clickhouse needs --group G, which remembers what is there already")


def _open_clickhouse(
    url: str, database: str | None, table: str | None, report: Report, timeout: float
) -> ClickHouseSink:
    """Raises UsageProblem, and ClickHouseError where nobody answers at first."""
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
        raise UsageProblem(f"a folder is for {' and '.join(COLUMN_FORMATS)}")
    elif ip:
        raise UsageProblem(f"--ip is for parquet and arrow; in a {form}, addresses are text")


def _open_source(
    kafka: KafkaOptions, report: Report, topics: tuple[str, ...], schema: Schema | None, **options: Any
) -> KafkaSource:
    return KafkaSource(
        kafka.servers,
        topics,
        **options,
        schema=schema,
        registry=kafka.open_registry(),
        schema_topic=kafka.schema_topic,
        settings=kafka.settings,
        timeout=kafka.timeout,
        on_problem=report.add_note,
    )


class Faults:
    """Reports records that cannot be read, and copies them to where somebody looks after them."""

    def __init__(self, report: Report, letters: DeadLetters | None) -> None:
        self.report = report
        self._letters = letters
        self._count = 0

    def add(self, batch: SourceBatch) -> None:
        """Those of a batch, before it is stored and left behind."""
        for fault in batch.faults[: max(MAX_LINES - self._count, 0)]:
            where = f"{fault.topic}, partition {fault.partition}, offset {fault.offset}"
            self.report.add_problem(f"{where}: {fault.reason}")
        self._count += len(batch.faults)
        if self._letters and batch.faults:
            self._letters.send(batch.faults)

    def finish(self, flows: int) -> None:
        """How many there were that were not said, and what it may be where all of them were so."""
        if self._count and not flows:
            self.report.add_note("no record can be read: is it another --schema, or --framing?")
        if self._count > MAX_LINES:
            self.report.add_note(f"{self._count - MAX_LINES} more records that cannot be read")


def _commit(source: KafkaSource, report: Report, batch: SourceBatch) -> None:
    try:
        source.commit(batch)
    except PartitionLost as error:
        report.add_note(f"{error}; it has them again")


def _store_all(source: KafkaSource, outlet: Outlet, limit: int | None, faults: Faults, show: Show, stop: Stop) -> None:
    """Until the end, or until there are enough, or a signal comes; all that was stored stays."""
    try:
        for batch in _until(source, stop):
            if batch is not None:
                faults.add(batch)
                try:
                    outlet.store(batch, None if limit is None else limit - outlet.count)
                except PartitionLost as error:
                    faults.report.add_note(f"{error}; it stores them")
            show(source.lag, outlet.count)
            if limit is not None and outlet.count >= limit:
                break
    except SchemaChanged as error:
        faults.report.add_problem(str(error))


def _until(source: KafkaSource, stop: Stop) -> Iterator[SourceBatch | None]:
    """All batches, or those until a signal comes; then also what has been read until then."""
    for batch in source:
        yield batch
        if stop.wanted:
            yield from source.rest()
            return


def _report_counts(source: KafkaSource, report: Report) -> None:
    if source.unknown_fields:
        fix = "give the schema that wrote them (--schema), with all its columns enabled"
        report.add_problem(f"fields that are not in their schema, and left out: {source.unknown_fields}; {fix}")
    if source.invalid_texts:
        report.add_note(f"strings that are not UTF-8, mended: {source.invalid_texts}")
