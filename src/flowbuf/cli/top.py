"""`flowbuf top`: the largest groups of flows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from flowbuf.arrow.sql import quoted
from flowbuf.cli.options import (
    CaptureOptions,
    UsageProblem,
    WholeNumber,
    decode_options,
    inputs_argument,
    load_schema,
    schema_errors,
    split_names,
    verbose_option,
)
from flowbuf.cli.output.columnar import check_condition, enrich_option
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.results import open_results, rows_of, to_text
from flowbuf.cli.output.streams import force_option, format_option, output_option, spreadsheet_option
from flowbuf.cli.output.table import Heading, RowTable, column_heading
from flowbuf.cli.output.terminal import clean_line
from flowbuf.cli.output.writers import FlowWriter
from flowbuf.cli.querying import Request, run_query
from flowbuf.collect.outputs.top_talkers import MEASURES
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Column, Schema
from flowbuf.targets.flow_text import NUMBERS

__all__ = ["top"]

SHARE = "share"
ALL = "all_"
"""Prefix of the sums of all flows, in the result of the query."""


@click.command()
@click.argument("columns")
@inputs_argument
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Show N groups.",
)
@click.option("--by", type=click.Choice(MEASURES), help="Sort by this sum.  [default: bytes]")
@click.option(
    "--where",
    metavar="SQL",
    help="Count only flows that match, for example \"dst_port = 53 and in_net(src_addr, '10.0.0.0/8')\".",
)
@format_option("groups")
@output_option
@force_option
@spreadsheet_option
@enrich_option
@click.option(
    "--schema", "reference", default="flow", show_default=True, metavar="NAME|FILE", help="Use this schema."
)
@verbose_option
@decode_options
def top(
    columns: str,
    inputs: tuple[str, ...],
    limit: int,
    by: str | None,
    where: str | None,
    form: str | None,
    output: str,
    force: bool,
    spreadsheet: bool,
    enrich: tuple[str, ...],
    reference: str,
    verbose: bool,
    decoding: CaptureOptions,
) -> None:
    """Show the largest groups of flows.

    Flows with equal values in COLUMNS are a group. The columns need not be enabled. An INPUT is a capture, a
    message stream or a Parquet file of flowbuf.

    Bytes and packets are multiplied by the sampling rate of their flow where it is known. The share is a
    group's part of the sum of --by. Tables end with the sums of the other groups, and of all matching flows.

    \b
    Examples:
      flowbuf top src_addr capture.pcap
      flowbuf top src_addr,dst_port capture.pcap -n 20 --by packets
      flowbuf top dst_port *.pcap.gz --where "proto = 6 and in_net(dst_addr, '192.0.2.0/24')"
      flowbuf top exporter_address,in_if 'flows/**/*.parquet' --by flows
      flowbuf top src_as capture.pcap --default-sampling 1000 -o top.csv
    """
    schema = load_schema(reference)
    if os.path.isfile(columns) and not schema.find(columns):
        raise UsageProblem(f"{columns}: is a file; COLUMNS come first: flowbuf top src_addr {columns}")
    groups = Groups.choose(schema, split_names([columns]), by, decoding.scale)
    request = Request.check("top", inputs, output, form, force, spreadsheet, enrich, decoding)
    if where is not None:
        check_condition(where, schema)
    report = Report(notes=verbose)
    result = Result(groups)
    origin = "COLUMNS" if where is None else "--where"
    run_query(groups.make_sql(where, limit), request, schema, report, result.open, origin)
    if where is not None and not result.totals and not report.status:
        report.add_note("no flow matches --where")
    if note := groups.describe_unknown(result.totals):
        report.add_note(note)
    sys.exit(report.status)


@dataclass(frozen=True)
class Groups:
    """The columns of the groups, and the sums to show.

    Attributes:
        columns: Columns of the groups.
        sums: SQL of each sum, for bytes, packets and flows as far as the schema has them.
        by: Sum by which groups are sorted.
        rate: Column of the sampling rate, or None.
    """

    columns: tuple[Column, ...]
    sums: dict[str, str]
    by: str
    rate: Column | None

    @classmethod
    def choose(cls, schema: Schema, names: Sequence[str], by: str | None, scaled: bool) -> Groups:
        """Return the groups of some columns. Raise UsageProblem.

        Args:
            schema: Schema of the flows. Its columns may have the names of a preset, such as SrcAddr.
            names: Columns of the groups.
            by: Sum by which groups are sorted. Default: bytes, if the schema has them.
            scaled: Bytes and packets are multiplied by the sampling rate already.
        """
        if not names:
            raise UsageProblem("COLUMNS is empty; name columns, for example src_addr,dst_port")
        with schema_errors():
            schema = schema.with_vendors(names)
            found = [schema.find(name) or schema[name] for name in names]
        columns = {column.name: column for column in found}
        for column in columns.values():
            if column.repeated:
                raise UsageProblem(
                    f"column {column.name!r} is a list; choose columns with one value per flow"
                )
            if column.name in (*MEASURES, SHARE):
                raise UsageProblem(f"column {column.name!r} is a sum of each group; name other columns")
        rate = schema.find("sampling_rate")
        sums = {}
        for measure in ("bytes", "packets"):
            if counted := schema.find(measure):
                sums[measure] = _sum(counted, None if scaled else rate)
        sums["flows"] = "count(*)"
        by = by or next(iter(sums))
        if by not in sums:
            raise UsageProblem(
                f"--by {by}: schema {schema.name} has no such column; use --by {' or '.join(sums)}"
            )
        return cls(tuple(columns.values()), sums, by, rate)

    def make_sql(self, where: str | None, limit: int) -> str:
        """Return the query. Its result has the groups, the sums, the share, and the sums of all flows."""
        keys = ", ".join(quoted(column.name) for column in self.columns)
        everything = {**self.sums, **self._hidden()}
        sums = ", ".join(f"{sql} AS {name}" for name, sql in everything.items())
        totals = ", ".join(f"sum({name}) OVER () AS {ALL}{name}" for name in everything)
        condition = "" if where is None else f"WHERE (\n{where}\n)"
        return (
            f"SELECT {keys}, {', '.join(self.sums)}, "
            f"coalesce({self.by} / nullif(sum({self.by}) OVER (), 0), 0)::DOUBLE AS {SHARE}, "
            f"count(*) OVER () AS {ALL}groups, {totals}\n"
            f"FROM (SELECT {keys}, {sums} FROM flows {condition} GROUP BY ALL)\n"
            f"ORDER BY {self.by} DESC, {keys} LIMIT {limit}"
        )

    def _hidden(self) -> dict[str, str]:
        """Return the sums that are not shown: flows without a sampling rate."""
        if self.rate is None:
            return {}
        return {"unknown": f"count(*) FILTER (coalesce({quoted(self.rate.name)}, 0) = 0)"}

    def describe_scaling(self, totals: Mapping[str, int]) -> str:
        """Return how the sums depend on the sampling rate."""
        known = self.rate is not None and totals["unknown"] < totals["flows"]
        return "scaled by the sampling rate" if known else "not scaled: no sampling rate is known"

    def describe_unknown(self, totals: Mapping[str, int]) -> str:
        """Return a note if the sampling rate is known for a part of the flows, or ""."""
        unknown, flows = totals.get("unknown", 0), totals.get("flows", 0)
        if not 0 < unknown < flows:
            return ""
        return (
            f"{unknown:,} of {flows:,} flows have no sampling rate and are not multiplied; "
            "set it with --default-sampling"
        )


def _sum(column: Column, rate: Column | None) -> str:
    value = f"coalesce({quoted(column.name)}, 0)::HUGEINT"
    if rate is None:
        return f"sum({value})"
    return f"sum(scaled({value}, {quoted(rate.name)}))"


class Result:
    """Writes the result of the query, and keeps the sums of all flows.

    Attributes:
        totals: Number of `groups`, and the sums of all flows by name. Empty without flows.
    """

    def __init__(self, groups: Groups) -> None:
        self.totals: dict[str, int] = {}
        self._groups = groups

    @contextmanager
    def open(
        self, form: str, file: OutputFile, type: Any, to_terminal: bool, spreadsheet: bool
    ) -> Iterator[FlowWriter]:
        """Open a writer of the result. See `open_results`."""
        names = [*(column.name for column in self._groups.columns), *self._groups.sums, SHARE]
        if form == "table":
            yield _Splitter(self, _TopTable(self._groups, file, to_terminal, self.totals), names)
            return
        import pyarrow

        shown = pyarrow.schema([type.field(name) for name in names])
        with open_results(form, file, shown, to_terminal, spreadsheet) as writer:
            yield _Splitter(self, writer, names)


class _Splitter:
    """Separate the groups from the sums of all flows, which each row repeats."""

    def __init__(self, result: Result, writer: FlowWriter, names: Sequence[str]) -> None:
        self._result = result
        self._writer = writer
        self._names = names

    @property
    def count(self) -> int:
        return self._writer.count

    def write(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        for name in batch.schema.names:
            if name not in self._names:
                self._result.totals[name.removeprefix(ALL)] = int(batch[name][0].as_py())
        self._writer.write(batch.select(self._names))

    def finish(self) -> None:
        self._writer.finish()


class _Label(str):
    """A text in the first column, of a row that is no group."""


class _TopTable(RowTable):
    """Write groups as a table, with the sums of the other groups and of all flows at its end."""

    def __init__(
        self, groups: Groups, file: OutputFile, to_terminal: bool, totals: Mapping[str, int]
    ) -> None:
        headings = [_group_heading(column) for column in groups.columns]
        headings += [Heading(name, _count_renderer(name), right=True) for name in groups.sums]
        headings.append(Heading(SHARE, lambda row: f"{100 * row[SHARE]:.1f} %", right=True))
        super().__init__(file, headings, to_terminal, self._describe, as_asked=True)
        self._groups = groups
        self._totals = totals
        self._rows: list[dict[str, Any]] = []

    def write(self, batch: Any, heading: bool = False) -> None:
        names = batch.schema.names
        self._rows += [dict(zip(names, row, strict=True)) for row in rows_of(batch)]

    def finish(self) -> None:
        if not self._rows:
            return
        shown = len(self._rows)
        super().write([*self._rows, *self._make_last_rows()])
        self.summarize(shown, self.hidden)

    def _make_last_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the other groups, if there are any, and of all flows."""
        groups, totals = self._groups, self._totals
        first, by = groups.columns[0].name, groups.by
        total = {first: _Label("total"), SHARE: 1.0, **{name: totals[name] for name in groups.sums}}
        others = totals["groups"] - len(self._rows)
        if not others:
            return [total]
        rest = {name: totals[name] - sum(int(row[name]) for row in self._rows) for name in groups.sums}
        share = rest[by] / totals[by] if totals[by] else 0.0
        return [{first: _Label(f"{others:,} more"), SHARE: share, **rest}, total]

    def _describe(self, count: int) -> str:
        scaling = self._groups.describe_scaling(self._totals)
        return f"{count:,} of {self._totals['groups']:,} groups; {scaling}"


def _group_heading(column: Column) -> Heading:
    """Return the heading of a column whose values are those of SQL."""
    name = column.name
    number = column.type in NUMBERS
    shown = column_heading(column)

    def render(row: Mapping[str, Any]) -> str:
        value = row.get(name)
        if value is None or isinstance(value, _Label):
            return value or ""
        return shown.render(row) if number else clean_line(to_text(value))

    return Heading(name, render, right=number and shown.right)


def _count_renderer(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: f"{int(row[name]):,}"
