"""`flowbuf schema`: show a schema, convert it, and compare it with another one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich import box
from rich.table import Table

from flowbuf.cli.clickhouse import clickhouse
from flowbuf.cli.inputs import check_inputs, expand_inputs
from flowbuf.cli.objects.class_text import or_class
from flowbuf.cli.options import (
    CaptureOptions,
    UsageProblem,
    exporter_options,
    load_schema,
    schema_errors,
    schema_options,
)
from flowbuf.cli.output.console import StdoutConsole
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import (
    check_overwrite,
    force_option,
    is_terminal,
    open_output,
    output_option,
    print_text,
    standard_output,
)
from flowbuf.cli.state import check_known_state
from flowbuf.io.output_file import would_replace
from flowbuf.schema import Column, Schema, Source
from flowbuf.schema.checks import find_narrow
from flowbuf.schema.evolution import Verdict
from flowbuf.schema.evolution import diff as compare
from flowbuf.schema.loader import RECORDS, ROWS, built_in_names
from flowbuf.schema.loader import read as read_documents
from flowbuf.schema.message import reach
from flowbuf.targets.arrow import describe_type, fields_of
from flowbuf.targets.clickhouse import columns_of
from flowbuf.targets.flow_text import escape_json

__all__ = ["schema"]


class _Group(click.Group):
    """List the commands with whole sentences, which click would cut."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(200)) for name, command in self.commands.items()]
            )


@click.group(name="schema", cls=_Group)
def group() -> None:
    """Show, check and compare schemas.

    \b
    Examples:
      flowbuf schema show
      flowbuf schema arrow
      flowbuf schema clickhouse
      flowbuf schema check my-schema.toml
      flowbuf schema diff flow my-schema.toml
    """


schema = group
group.add_command(clickhouse)
schema_argument = click.argument("name", metavar="[NAME|FILE]", required=False)  # the same as --schema


@group.command()
@schema_argument
@schema_options
@click.option("--all", "every", is_flag=True, help="Show disabled columns too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all information.")
def show(schema: Schema, every: bool, as_json: bool) -> None:
    """List the columns: a table on a terminal, tab-separated in a pipe.

    \b
    Examples:
      flowbuf schema show
      flowbuf schema show --all | grep -i vlan
      flowbuf schema show goflow2
      flowbuf schema show record
      flowbuf schema show --schema my-schema.toml --json | jq -r '.columns[].name'
    """
    columns = schema.columns if every else schema.enabled
    if as_json:
        described: dict[str, Any] = {"name": schema.name, "rows": schema.rows, "hash": schema.hash}
        described["columns"] = [_describe(column, schema) for column in columns]
        if schema.nested:
            shown = schema.nested if every else schema.used_messages
            described["messages"] = {
                message.name: [_describe(column, schema) for column in message.columns] for message in shown
            }
        print_text(escape_json(json.dumps(described, indent=2, ensure_ascii=False, default=str)))
    elif is_terminal(sys.stdout):
        with standard_output():
            console = StdoutConsole()
            console.print(_table(schema, columns, console.width))
    else:
        for prefix, listed in _listed(schema, columns):
            for column in listed:
                print_text("\t".join(_row(column, prefix)))


@group.command()
@click.argument("name", metavar="[NAME|FILE|MODULE:CLASS]", required=False)
@or_class
@schema_options
def proto(schema: Schema) -> None:
    """Print the .proto file of the enabled columns, or of an annotated class.

    Modules of classes are searched in the current folder first. `flowbuf.Codec.from_class` makes codecs for
    the same messages.

    \b
    Examples:
      flowbuf schema proto > flow.proto
      flowbuf schema proto akvorado
      flowbuf schema proto shop.orders:Order --package shop > order.proto
      flowbuf schema proto --schema my-schema.toml --enable group:l2
    """
    with schema_errors():
        print_text(schema.to_proto(), end="")


@group.command()
@schema_argument
@schema_options
def arrow(schema: Schema) -> None:
    """Print the Arrow schema of the enabled columns: name, type and nullability.

    \b
    Examples:
      flowbuf schema arrow
      flowbuf schema arrow --schema my-schema.toml --enable group:l2
      flowbuf schema arrow sflow_counters | grep timestamp
    """
    with schema_errors():
        fields = {field.name: field for field in fields_of(schema)}
    width = max((len(name) for name in fields), default=0)
    for column in schema.enabled:
        null = "" if fields[column.name].nullable else " not null"
        print_text(f"{column.name + ':':{width + 1}} {describe_type(column)}{null}")


@group.command(name="hash")
@schema_argument
@schema_options
def print_hash(schema: Schema) -> None:
    """Print the hash of a schema. Schemas have equal hashes if their messages have the same meaning.

    \b
    Examples:
      flowbuf schema hash
      flowbuf schema hash goflow2
      flowbuf schema hash --schema my-schema.toml --disable src_as,dst_as
    """
    print_text(schema.hash)


@group.command()
@click.argument("file")
def check(file: str) -> None:
    """Check a schema: build all of its outputs, and report errors.

    A note names each new column whose type cannot hold all values of a source.

    \b
    Examples:
      flowbuf schema check my-schema.toml
    """
    from flowbuf.schema.plan import compile_plan

    checked = load_schema(file)
    with schema_errors():
        checked.to_proto()
        checked.message_class()
        if checked.is_flat:
            columns_of(checked)
            compile_plan(checked)
    count = f"{len(checked.columns)} columns, {len(checked.enabled)} enabled"
    known = {column.name for name in built_in_names() for column in Schema.load(name)}
    report = Report(notes=True)
    for column, source in find_narrow(each for each in checked if each.name not in known):
        report.add_note(
            f"{checked.origin}: column {column.name!r}: {column.type} does not hold all values of {source}; "
            "larger ones are absent, and count as out_of_range"
        )
    inside = [f"{len(message.columns)} in {message.name}" for message in checked.used_messages]
    print_text(f"ok: {', '.join([count, *inside])}, hash {checked.hash}")


@group.command(name="suggest", short_help="Write a schema for the fields of captures that no column uses.")
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option(
    "--schema",
    "reference",
    default="flow",
    show_default=True,
    metavar="NAME|FILE",
    help="Extend this schema.",
)
@output_option
@force_option
@exporter_options
def suggest_columns(
    captures: tuple[str, ...], reference: str, output: str, force: bool, decoding: CaptureOptions
) -> None:
    """Write a schema with a column for each field of data templates that no column uses.

    Known elements of vendors have columns, which the schema enables. It adds columns for all other fields.
    Names, types and units come from the registries of IANA and of vendors. Fields that are in no registry get
    a type by their size. Values from the captures are comments. If every field has a column, nothing is
    written, and the exit status is 1.

    \b
    Examples:
      flowbuf schema suggest capture.pcap
      flowbuf schema suggest 'captures/*.pcap.gz' -o mine.toml
      flowbuf schema suggest capture.pcap --schema mine.toml
    """
    from flowbuf.cli.survey.file import survey_file  # the other commands read no captures
    from flowbuf.cli.survey.suggest import suggest, write_schema

    paths = expand_inputs(captures)
    check_inputs(paths, output)
    check_overwrite(force, output)
    check_known_state(decoding.state)
    schema = load_schema(reference)
    place = reference if reference in built_in_names() else os.path.abspath(reference)
    _check_suggestion(schema, place, output)
    report = Report()
    surveys = [survey_file(path, decoding, report, schema) for path in paths]
    suggestions = suggest(surveys)
    text = write_schema(suggestions, schema, place, paths)
    if not any(survey["fields"] for survey in surveys):
        raise Failure("there are no data templates of NetFlow v9 or IPFIX, so there are no fields to suggest")
    if not text:
        lists = ", ".join(each.source for each in suggestions)
        more = f"; no column can hold a list of records: {lists}" if lists else ""
        raise Failure(f"every field has a column in the schema {schema.name}{more}")
    with schema_errors():
        Schema.from_toml(text, output if output != "-" else "suggestion")
    with open_output(output) as file:
        file.write((text + "\n").encode(errors="replace"))  # the name of a capture need not be UTF-8
    sys.exit(report.status)


def _check_suggestion(schema: Schema, place: str, output: str) -> None:
    """Raise UsageProblem if columns cannot be added to a schema, or if the output would replace it."""
    if schema.rows != ROWS[0]:
        raise UsageProblem(f"rows of the schema {schema.name} are {schema.rows}; name a schema of flows")
    try:
        place.encode()
    except UnicodeEncodeError:
        raise UsageProblem(f"{place}: the path of a schema must be UTF-8; rename the file") from None
    extended = [document.origin for document in read_documents(place) if os.path.isabs(document.origin)]
    if any(would_replace(output, each) for each in extended):
        raise UsageProblem(f"{output}: the suggestion extends this schema; name another output")


@group.command(short_help="Compare two schemas: can a reader of OLD read NEW?")
@click.argument("old")
@click.argument("new")
def diff(old: str, new: str) -> None:
    """Compare two schemas, column by column: can a reader of OLD read NEW? The exit status is 1 if not.

    \b
    Examples:
      flowbuf schema diff flow my-schema.toml
      flowbuf schema diff goflow2 my-goflow2.toml
      flowbuf schema diff released.toml next.toml && mv next.toml released.toml
    """
    verdicts = compare(load_schema(old), load_schema(new))
    for verdict in verdicts:
        print_text(_verdict_line(verdict))
    if not verdicts:
        print_text("same: messages mean the same in both")
    sys.exit(0 if all(verdict.readable for verdict in verdicts) else 1)


def _verdict_line(verdict: Verdict) -> str:
    word = "ok" if verdict.readable else "CANNOT READ"
    return f"{word}: {verdict.column}: {verdict.change}: {verdict.text}"


# Output of `show` -------------------------------------------------------------------------------------------

DOC_WIDTH = 20  # the minimum
GAP = 2
_SPARED: tuple[tuple[str, ...], ...] = (
    (),
    ("zero",),
    ("zero", "group"),
    ("zero", "sources"),
    ("zero", "sources", "group"),
    ("zero", "sources", "group", "type"),
)
_HEADINGS = ("number", "name", "type", "on", "group", "sources", "zero", "doc")


def _row(column: Column, prefix: str = "", rank_separator: str = " > ") -> tuple[str, ...]:
    return (
        str(column.number),
        prefix + column.name,
        _type_text(column),
        "on" if column.enabled else "off",
        column.group or "",
        rank_separator.join(
            " = ".join(_source_text(source, column) for source in rank) for rank in column.sources
        ),
        _zero_text(column),
        " ".join(column.doc.split()),
    )


def _source_text(source: Source, column: Column) -> str:
    return f"{source.text} (replaces zero)" if source in column.replaces_zero else source.text


def _zero_text(column: Column) -> str:
    """Return the meaning of a zero from a source, or an empty text if there are no sources."""
    if not column.sources:
        return ""
    return "value" if column.zero_is_value else "absent"


def _type_text(column: Column) -> str:
    detail = column.unit or (column.ip if column.ip != "mapped" else "")
    text = f"{column.type}({detail})" if detail else column.message or column.type
    if column.type == "map":
        text = f"map<{column.key}, {column.message or column.value}>"
    text = f"oneof {column.oneof}: {text}" if column.oneof else text
    return f"{'repeated ' * column.repeated}{'required ' * column.required}{text}"


def _listed(schema: Schema, columns: Iterable[Column]) -> Iterator[tuple[str, list[Column]]]:
    """Yield name prefixes and columns: those of the schema, then those of each message that it uses."""
    yield "", [*columns]
    for message in reach(columns, {message.name: message for message in schema.nested}):
        yield f"{message.name}.", [*message.columns]


def _table(schema: Schema, columns: tuple[Column, ...], width: int) -> Table:
    enabled = f"{len(schema.enabled)} of {len(schema.columns)} columns enabled"
    title = f"{schema.name} ({schema.rows}): {enabled}, hash {schema.hash}"
    parts = [
        [(column, _cells(column, prefix)) for column in part] for prefix, part in _listed(schema, columns)
    ]
    rows = [cells for part in parts for _, cells in part]
    shown = _choose_headings(rows, width)
    spared = [heading for heading in _HEADINGS if heading not in shown and heading not in _empty(rows)]
    caption = f"no room for {', '.join(spared)}; --json has all" if spared else None
    table = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD
    )
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    for heading in shown:
        table.add_column(
            heading, justify="right" if heading == "number" else "left", no_wrap=heading != "doc"
        )
    for part in parts:
        for column, cells in part:
            table.add_row(*(cells[heading] for heading in shown), style="" if column.enabled else "dim")
        table.add_section()
    return table


def _cells(column: Column, prefix: str) -> dict[str, str]:
    cells = dict(zip(_HEADINGS, _row(column, prefix, rank_separator="\n"), strict=True))
    return {**cells, "sources": cells["sources"].replace(" = ", " =\n")}


def _empty(rows: list[dict[str, str]]) -> set[str]:
    """Return the headings whose cells are all empty. Records have no sources, and need no groups."""
    return {
        heading
        for heading in ("group", "sources", "zero")
        if rows and not any(cells[heading] for cells in rows)
    }


def _choose_headings(rows: list[dict[str, str]], width: int) -> list[str]:
    """Return the headings that fit beside the doc texts, which can wrap."""
    widths = {
        heading: max(
            len(line) for cells in (*rows, {heading: heading}) for line in cells.get(heading, "").split("\n")
        )
        for heading in _HEADINGS
    }
    empty = _empty(rows)
    for spared in _SPARED:
        shown = [heading for heading in _HEADINGS if heading not in spared and heading not in empty]
        if sum(widths[heading] + GAP for heading in shown if heading != "doc") + DOC_WIDTH <= width:
            break
    return shown


def _describe(column: Column, schema: Schema) -> dict[str, Any]:
    shape = ("message", "key", "value", "required", "oneof", "packed") if schema.rows == RECORDS else ()
    return {
        "name": column.name,
        "number": column.number,
        "type": column.type,
        "wire_type": int(column.wire_type),
        "enabled": column.enabled,
        "group": column.group,
        "sources": [[source.text for source in rank] for rank in column.sources],
        "repeated": column.repeated,
        "explicit": column.explicit,
        "late": column.late,
        "unit": column.unit,
        "ip": column.ip if column.type == "ip" else None,
        "values": dict(column.values),
        "map": {str(wire): number for wire, number in column.map.items()},
        "depends": list(column.depends),
        "mirror": column.mirror,
        "scale": column.scale,
        "one_way": column.one_way,
        "zero": "value" if column.zero_is_value else "absent",
        "replaces_zero": [source.text for source in column.replaces_zero],
        **{key: getattr(column, key) for key in shape},
        "clickhouse": dict(column.clickhouse),
        "doc": column.doc,
        "origin": column.origin,
    }
