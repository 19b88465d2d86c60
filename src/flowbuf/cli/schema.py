"""`flowbuf schema`: what a schema is, what it becomes, and whether two go together."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich import box
from rich.table import Table

from flowbuf.cli.clickhouse import clickhouse
from flowbuf.cli.console import StdoutConsole
from flowbuf.cli.options import load_schema, schema_errors, schema_options
from flowbuf.cli.output import is_terminal, print_text, standard_output
from flowbuf.schema import Column, Schema
from flowbuf.schema.evolution import Verdict
from flowbuf.schema.evolution import diff as compare
from flowbuf.targets.arrow import describe_type, fields_of
from flowbuf.targets.clickhouse import columns_of

__all__ = ["schema"]


@click.group(name="schema")
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
@click.option("--all", "every", is_flag=True, help="Disabled columns too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with everything that is known.")
def show(schema: Schema, every: bool, as_json: bool) -> None:
    """List the columns: a table on a terminal, tab-separated in a pipe.

    \b
    Examples:
      flowbuf schema show
      flowbuf schema show --all | grep -i vlan
      flowbuf schema show goflow2
      flowbuf schema show --schema my-schema.toml --json | jq -r '.columns[].name'
    """
    columns = schema.columns if every else schema.enabled
    if as_json:
        described: dict[str, Any] = {"name": schema.name, "rows": schema.rows, "hash": schema.hash}
        described["columns"] = [_describe(column) for column in columns]
        print_text(json.dumps(described, indent=2, ensure_ascii=False, default=str))
    elif is_terminal(sys.stdout):
        with standard_output():
            console = StdoutConsole()
            console.print(_table(schema, columns, console.width))
    else:
        for column in columns:
            print_text("\t".join(_row(column)))


@group.command()
@schema_argument
@schema_options
def proto(schema: Schema) -> None:
    """Print the .proto file of the enabled columns.

    \b
    Examples:
      flowbuf schema proto > flow.proto
      flowbuf schema proto akvorado
      flowbuf schema proto --schema my-schema.toml --enable group:l2
    """
    with schema_errors():
        print_text(schema.to_proto(), end="")


@group.command()
@schema_argument
@schema_options
def arrow(schema: Schema) -> None:
    """Print the Arrow schema of the enabled columns: name, type, whether it can be null.

    \b
    Examples:
      flowbuf schema arrow
      flowbuf schema arrow --schema my-schema.toml --enable group:l2
      flowbuf schema arrow sflow_counters | grep timestamp
    """
    fields = {field.name: field for field in fields_of(schema)}
    width = max((len(name) for name in fields), default=0)
    for column in schema.enabled:
        null = "" if fields[column.name].nullable else " not null"
        print_text(f"{column.name + ':':{width + 1}} {describe_type(column)}{null}")


@group.command(name="hash")
@schema_argument
@schema_options
def print_hash(schema: Schema) -> None:
    """Print the hash: equal where messages mean the same.

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
    """Build everything that a schema leads to, and say what is wrong.

    \b
    Examples:
      flowbuf schema check my-schema.toml
    """
    from flowbuf.plan import compile_plan

    checked = load_schema(file)
    with schema_errors():
        checked.to_proto()
        checked.message_class()
        columns_of(checked)
        compile_plan(checked)
    print_text(f"ok: {len(checked.columns)} columns, {len(checked.enabled)} enabled, hash {checked.hash}")


@group.command(short_help="Say whether a reader of OLD can read NEW, column by column.")
@click.argument("old")
@click.argument("new")
def diff(old: str, new: str) -> None:
    """Say, column by column, whether a reader of OLD can read NEW; exit with 1 where it cannot.

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


# What `show` prints -------------------------------------------------------------------------------------------------

DOC_WIDTH = 20  # the least
GAP = 2
_SPARED: tuple[tuple[str, ...], ...] = (
    (),
    ("group",),
    ("sources",),
    ("sources", "group"),
    ("sources", "group", "type"),
)
_HEADINGS = ("number", "name", "type", "on", "group", "sources", "doc")


def _row(column: Column, rank_separator: str = " > ") -> tuple[str, ...]:
    return (
        str(column.number),
        column.name,
        _type_text(column),
        "on" if column.enabled else "off",
        column.group or "",
        rank_separator.join(" = ".join(source.text for source in rank) for rank in column.sources),
        " ".join(column.doc.split()),
    )


def _type_text(column: Column) -> str:
    detail = column.unit or (column.ip if column.ip != "mapped" else "")
    text = f"{column.type}({detail})" if detail else column.type
    return f"repeated {text}" if column.repeated else text


def _table(schema: Schema, columns: tuple[Column, ...], width: int) -> Table:
    enabled = f"{len(schema.enabled)} of {len(schema.columns)} columns enabled"
    title = f"{schema.name} ({schema.rows}): {enabled}, hash {schema.hash}"
    rows = [dict(zip(_HEADINGS, _row(column, rank_separator="\n"), strict=True)) for column in columns]
    for cells in rows:
        cells["sources"] = cells["sources"].replace(" = ", " =\n")
    shown = _choose_headings(rows, width)
    spared = [heading for heading in _HEADINGS if heading not in shown]
    caption = f"no room for {', '.join(spared)}; --json has all" if spared else None
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD)
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    for heading in shown:
        table.add_column(heading, justify="right" if heading == "number" else "left", no_wrap=heading != "doc")
    for column, cells in zip(columns, rows, strict=True):
        table.add_row(*(cells[heading] for heading in shown), style="" if column.enabled else "dim")
    return table


def _choose_headings(rows: list[dict[str, str]], width: int) -> list[str]:
    """Those that there is room for beside the texts, which can be in several lines."""
    widths = {
        heading: max(len(line) for cells in (*rows, {heading: heading}) for line in cells.get(heading, "").split("\n"))
        for heading in _HEADINGS
    }
    for spared in _SPARED:
        shown = [heading for heading in _HEADINGS if heading not in spared]
        if sum(widths[heading] + GAP for heading in shown if heading != "doc") + DOC_WIDTH <= width:
            break
    return shown


def _describe(column: Column) -> dict[str, Any]:
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
        "clickhouse": dict(column.clickhouse),
        "doc": column.doc,
        "origin": column.origin,
    }
